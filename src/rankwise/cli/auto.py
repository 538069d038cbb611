"""rankwise auto: from a file to a good ranker, without tuning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwise.cli.data_options import DataOptions
from rankwise.cli.options import (
    METRIC_HELP,
    Force,
    TrainingFile,
    grouped,
    input_option,
    metric_words,
    option,
    refuse,
)
from rankwise.cli.terminal import check_writable, interruptible, note, say, show

if TYPE_CHECKING:
    from rankwise.data import LetorData
    from rankwise.metrics import RankingEvaluation


@grouped
def auto(
    *,
    train: TrainingFile,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="MODEL", help="Where to write the model."),
    ] = None,
    force: Force = False,
    test: Annotated[
        Path | None,
        input_option("FILE", "File to evaluate the model on. Nothing is chosen by it."),
    ] = None,
    report: Annotated[
        Path | None, option("FILE", "Where to write a page with all tables, as .html.")
    ] = None,
    metric: Annotated[
        str,
        option(
            "NAME",
            f"What to choose by: {METRIC_HELP}",
            "ndcg@10 for grades in queries, else disagreement",
            autocompletion=metric_words,
        ),
    ] = "auto",
    time_budget: Annotated[
        float | None, option("SECONDS", "Try no further ranker after this time.", min=0.0)
    ] = None,
    memory_budget: Annotated[
        float | None, option("MB", "Leave out rankers that need more memory.", min=0.0)
    ] = None,
    n_best: Annotated[int, option("N", "The mean has at most N parts.", min=1)] = 10,
    candidates: Annotated[
        str, option("NAME", "Rankers to try: auto (all), linear, additive or kernel.")
    ] = "auto",
    boosted: Annotated[
        bool | None,
        typer.Option(
            "--boosted/--no-boosted",
            help="Try boosted trees as well (default: if LightGBM is installed).",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, option("N", "Seed for the choice of landmarks.", min=0)] = 0,
    data: DataOptions,
) -> None:
    """Find a good ranker for a LETOR file or a table: start here.

    Tries linear rankers, sums of functions of single features, and kernels, on several scalings of
    the features and at many strengths of regularization, and boosted trees if LightGBM is
    installed. Each is judged by exact hold-outs:
    every query is predicted by rankers trained without it. The best are averaged, and the mean is
    fitted to all rows.

    Prints what was tried, which parts carry the score, and what to expect on new queries. That
    estimate is honest: for each query, the parts are chosen again without looking at it. Features
    need no preparation, and the model remembers how to scale new rows.

    \b
    Examples:
      rankwise auto train.txt
      rankwise auto train.txt --test test.txt --out model.rankwise --report page.html
      rankwise auto train.txt --metric MAP --time-budget 60 -o model.rankwise
      rankwise auto train.csv --query search_id --label clicks -o model.rankwise
      rankwise predict model.rankwise new.txt
    """
    from rankwise.persistence import save_model

    for path in (out, report):
        if path is not None:
            check_writable(path, train, test, force=force)
    if report is not None and report.suffix.lower() != ".html":
        refuse("report", f"The page ends with .html: got {report.name!r}.")
    rows, preparation = data.read_training(train)
    held_back = None
    if test is not None:
        names = None if not hasattr(rows, "roles") else rows.roles.features
        held_back = data.read_like(test, preparation, names, rows.X.shape[1], train)
    # These imports compile loops: only now, when all arguments are known to be valid.
    from rankwise.auto import AutoRanker
    from rankwise.cli.auto_page import conclusions, write_page

    ranker = AutoRanker(
        metric=metric,
        n_best=n_best,
        candidates=candidates,
        boosted="auto" if boosted is None else boosted,
        time_budget=time_budget,
        memory_budget=None if memory_budget is None else memory_budget * 1e6,
        verbose=True,
        random_state=seed,
    )
    with interruptible(f"Trying rankers on {len(rows.y):,} rows"):
        ranker.fit(rows.X, rows.y, qid=rows.qid)
    evaluation = None if held_back is None else _evaluation(ranker, held_back)
    show(ranker.results_.to_table())
    print()
    show(ranker.explain().to_table())
    print()
    for line in conclusions(ranker):
        say(line)
    if evaluation is not None:
        print()
        show(evaluation.to_table(title=f"{test}: {evaluation.n_queries:,} queries"))
    if report is not None:
        write_page(ranker, report, train, test, evaluation)
        note(f"Wrote {report}: open {report.resolve().as_uri()}")
    if out is not None:
        save_model(preparation.around(ranker), out)
        parts = ranker.parts_
        what = (
            f"a mean of {len(parts)} rankers" if len(parts) > 1 else f"one ranker, {parts[0].name}"
        )
        note(f"Wrote {out}: {what}, fitted to {len(rows.y):,} rows.")
    else:
        note("The model was not kept: give --out to write it to a file.")


def _evaluation(ranker: Any, data: LetorData) -> RankingEvaluation:
    from rankwise.metrics import evaluate_ranking

    return evaluate_ranking(data.y, ranker.predict(data.X, qid=data.qid), data.qid)
