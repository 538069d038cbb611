"""rankwise evaluate: every metric of a ranking."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankwise.cli.data_options import FeaturesOption, FillOption, TableOptions
from rankwise.cli.evaluate_runs import evaluate_runs, write_per_query
from rankwise.cli.input_files import (
    note_scaling,
    read_model,
    read_scores,
    scores_of,
)
from rankwise.cli.options import (
    Force,
    grouped,
    input_argument,
    input_option,
    option,
    parse_whole,
    refuse,
)
from rankwise.cli.output_files import check_writable
from rankwise.cli.terminal import note, show
from rankwise.routing import last_step


@grouped
def evaluate(
    *,
    files: Annotated[
        list[Path],
        input_argument(
            metavar="[MODEL] DATA",
            help="A model file (not with --scores) and a LETOR file or table; with --qrels, runs.",
        ),
    ],
    qrels: Annotated[
        Path | None,
        input_option("FILE", "Evaluate runs of TREC by these judgements, and compare them."),
    ] = None,
    scores: Annotated[
        Path | None,
        input_option("FILE", "Evaluate these scores, one per line, instead of a model's."),
    ] = None,
    relevant: Annotated[
        float, option("LABEL", "Rows with at least this label are relevant (MAP, MRR, P@k).")
    ] = 1.0,
    at: Annotated[
        str | None,
        option("K,K", "Cut-offs k of NDCG@k and P@k.", "1,3,5,10, or 10 for several runs"),
    ] = None,
    gain: Annotated[
        str | None,
        option(
            "NAME",
            "Gain of NDCG: exponential (2^label - 1) or linear (label).",
            "exponential, or linear with --qrels",
        ),
    ] = None,
    discount: Annotated[
        str,
        option("NAME", "Discount of NDCG: log2 (1/log2(rank + 1)) or letor (as in LETOR 1.0)."),
    ] = "log2",
    fill: FillOption = None,
    features: FeaturesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    per_query: Annotated[
        Path | None,
        option("FILE", "Write the values of every query to this CSV file.", dir_okay=False),
    ] = None,
    force: Force = False,
    table: TableOptions,
) -> None:
    """Evaluate a model, scores from anywhere, or runs of TREC, on data with labels.

    Prints MAP, MRR, NDCG, NDCG@k, P@k, the disagreement error (the share of pairs of a query in
    the wrong order) and Kendall's tau_b, each averaged over queries. The column "s.e." is the
    standard error over queries: another sample of as many queries would often give a mean that
    differs by one or two of it. The column "undefined" counts the queries for which a metric has
    no value: a query without a relevant row counts as 0; a query without two different labels is
    left out of the last two metrics.

    LETOR files may leave out features that are 0. If DATA ends before the last feature of the
    model, the rest is read as 0, with a warning; if it has fewer than half of the features, the
    two probably do not belong together, and --features must confirm the number.

    A table (CSV, TSV, Parquet, Arrow or JSON lines) has its columns in any order: those of the
    model are found by their names.

    With --qrels, the files are runs of TREC (query Q0 document rank score tag), and the numbers are
    those of trec_eval -c: ties in the order of document ids, descending; documents without a
    judgement are not relevant; queries without results count as 0. Several runs are compared query
    by query, with p-values adjusted for their number by Holm's method.

    \b
    Examples:
      rankwise evaluate model.rankwise test.txt
      rankwise evaluate model.rankwise test.txt --relevant 2 --per-query test.csv
      rankwise evaluate --scores scores.txt test.txt --json
      rankwise evaluate model.rankwise test.parquet --label clicks
      rankwise evaluate --qrels qrels.txt bm25.txt reranked.txt
    """
    import json

    from rankwise.errors import ParameterError
    from rankwise.metrics import evaluate_ranking

    if qrels is not None:
        given = {"scores": scores, "fill": fill, "features": features, **vars(table)}
        evaluate_runs(
            qrels, files, cutoffs=_cutoffs(at) if at else None, relevant=relevant,
            gain=gain or "linear", discount=discount, as_json=as_json,
            per_query=per_query, force=force, others=given,
        )  # fmt: skip
        return
    cutoffs, gain = _cutoffs(at or "1,3,5,10"), gain or "exponential"
    if len(files) != (2 if scores is None else 1):
        wanted = "a model and a data file" if scores is None else "only the data file with --scores"
        got = ", ".join(map(str, files))
        raise ParameterError(f"Give {wanted}: got {got}. Try 'rankwise evaluate --help'.")
    if per_query is not None:
        check_writable(per_query, scores, *files, force=force)
    if scores is not None and features is not None:
        refuse("features", "This is the number of features of a model: leave it out with --scores.")
    if scores is None:
        file = read_model(files[0])
        data = table.read_for(file, files[0], files[1], fill, features)
        values = scores_of(file, data)
        fitted = getattr(last_step(file.model), "n_queries_", 1)
        if data.qid is None and fitted > 1 and not table.is_table(files[1]):
            note(f"{files[1]} has no query ids: its rows are ranked together, unlike in training.")
    else:
        data = table.read_rows(files[0], fill)
        if data.qid is None:
            note(f"{files[0]} has no query ids: its rows are ranked together.")
        values = read_scores(scores, len(data.y), files[0])
    evaluation = evaluate_ranking(
        data.y, values, data.qid, k=cutoffs, relevant=relevant, gain=gain, discount=discount
    )
    if per_query is not None:
        write_per_query(evaluation, per_query)
    if scores is None:
        note_scaling(file.model)
    if as_json:
        print(json.dumps(evaluation.to_dict(), indent=2))
        return
    queries = "one query" if evaluation.n_queries == 1 else f"{evaluation.n_queries:,} queries"
    show(evaluation.to_table(title=f"{evaluation.n_rows:,} rows in {queries}"))
    for remark in evaluation.notes:
        note(remark)


def _cutoffs(text: str) -> list[int]:
    try:
        cutoffs = [parse_whole(part) for part in text.split(",")]
    except ValueError:
        cutoffs = [0]
    if min(cutoffs) < 1:
        refuse(
            "at",
            f"Cut-offs are whole numbers from 1, with commas between them, as in 1,3,10: "
            f"got {text!r}.",
        )
    return cutoffs
