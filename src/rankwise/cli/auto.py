"""rankwise auto: from a file to a good ranker, without tuning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rankwise.cli.data_options import DataOptions
from rankwise.cli.options import (
    Force,
    InputFile,
    Out,
    Positive,
    Seed,
    TrainingFile,
    grouped,
    metric_words,
)
from rankwise.cli.terminal import check_page, check_writable, interruptible, note, say, show

Budget = Annotated[float | None, typer.Option(min=0.0)]


@grouped
def auto(
    *,
    train: TrainingFile,
    out: Out = None,
    force: Force = False,
    test: InputFile = None,
    report: Path | None = None,
    metric: Annotated[str, typer.Option(autocompletion=metric_words)] = "auto",
    time_budget: Budget = None,
    memory_budget: Budget = None,
    n_best: Positive = 10,
    candidates: Literal["auto", "linear", "additive", "kernel"] = "auto",
    boosted: Annotated[bool | None, typer.Option("--boosted/--no-boosted")] = None,
    seed: Seed = 0,
    data: DataOptions,
) -> None:
    """Find a good ranker for a LETOR file or a table: start here.

    Tries linear rankers, sums of functions of single features, and kernels, on several scalings of
    the features and at many strengths of regularization, and boosted trees if LightGBM is
    installed. Each is judged by exact hold-outs:
    every query is predicted by rankers trained without it. The best are averaged, and the mean is
    fitted to all rows.

    Prints what was tried, which parts carry the score, and what to expect on new queries. For
    that estimate, the parts are chosen again for each query, without looking at it. Features
    need no preparation, and the model remembers how to scale new rows.

    \b
    Examples:
      rankwise auto train.txt
      rankwise auto train.txt --test test.txt --out model.rankwise --report page.html
      rankwise auto train.txt --metric MAP --time-budget 60 -o model.rankwise
      rankwise auto train.csv --query search_id --label clicks -o model.rankwise
      rankwise predict model.rankwise new.txt

    Parameters
    ----------
    out : MODEL
        Where to write the model.
    test : FILE
        File to evaluate the model on. Nothing is chosen by it.
    report : FILE
        Where to write a page with all tables, as .html.
    metric : NAME, default=ndcg@10 for grades in queries, else disagreement
        Metric to choose by: ndcg@10, MAP, MRR, precision@5, disagreement, auc, ... A wrong name
        lists them all.
    time_budget : SECONDS
        Try no further ranker after this time.
    memory_budget : MB
        Leave out rankers that need more memory.
    n_best : N
        The mean has at most N parts.
    candidates : NAME
        Rankers to try: auto (all), linear, additive or kernel.
    boosted : FLAG, default=if LightGBM is installed
        Try boosted trees as well.
    seed : N
        Seed for the choice of landmarks.
    """
    from rankwise.persistence import save_model

    check_writable(out, train, test, force=force)
    check_page(report, train, test, force=force)
    rows, preparation = data.read_training(train)
    held_back = None
    if test is not None:
        names = None if not hasattr(rows, "roles") else rows.roles.features
        held_back = data.read_like(test, preparation, names, rows.X.shape[1], train)
    # These imports compile loops: only now, when all arguments are known to be valid.
    from rankwise.auto import AutoRanker
    from rankwise.metrics import evaluate_ranking

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
    evaluated = None
    if held_back is not None:
        scores = ranker.predict(held_back.X, qid=held_back.qid)
        found = evaluate_ranking(held_back.y, scores, held_back.qid)
        evaluated = found.to_table(title=f"{test}: {found.n_queries:,} queries")
    show(ranker.results_.to_table(), ranker.explain().to_table())
    print()
    for line in conclusions(ranker):
        say(line)
    if evaluated is not None:
        print()
        show(evaluated)
    if report is not None:
        _write_page(ranker, report, train, evaluated)
        note(f"Wrote {report}: open {report.resolve().as_uri()}")
    if out is None:
        note("The model was not kept: give --out to write it to a file.")
        return
    save_model(preparation.around(ranker), out)
    parts = ranker.parts_
    what = f"a mean of {len(parts)} rankers" if len(parts) > 1 else f"one ranker, {parts[0].name}"
    note(f"Wrote {out}: {what}, fitted to {len(rows.y):,} rows.")


def _write_page(ranker: Any, path: Path, train: Path, evaluated: Any) -> None:
    """All tables and conclusions on one page."""
    from rankwise import __version__
    from rankwise.report import Page, Section, Text

    first, *others = conclusions(ranker)
    parts = [Text(f"{part.name}: `{part.ranker}`") for part in ranker.parts_]
    Page(
        f"The best ranker for {train.name}",
        first,
        [
            Section("", [Text(line) for line in others]),
            *([] if evaluated is None else [Section("Evaluation", [evaluated])]),
            Section("The parts of the mean", [ranker.explain().to_table()]),
            Section("All that was tried", [ranker.results_.to_table()]),
            Section("The model", parts),
        ],
        footer=f"Made by `rankwise auto`, rankwise {__version__}.",
    ).write(path)


def conclusions(ranker: Any) -> list[str]:
    """What to expect, what the mean gains, and whether the data could tell the best apart."""
    estimate, results, n_parts = ranker.score_estimate_, ranker.results_, len(ranker.parts_)
    lines = [
        f"Expected on new queries: {estimate}.",
        f"On the queries that it was chosen by, the mean has {estimate.optimistic:.4f}, which is "
        "optimistic.",
    ]
    if n_parts > 1:
        gain = ranker.gain_over_best_
        mean = f"On queries that neither was chosen by, the mean of {n_parts}"
        lines.append(gain.words(mean, "the best single ranker", estimate.metric))
    runner_up = results.runner_up
    if runner_up is not None:
        best, second, gap = runner_up
        lines.append(
            gap.words(f"The best single ranker ({best})", f"the next ({second})", estimate.metric)
        )
    return lines
