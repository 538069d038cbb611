"""rankwise evaluate: every metric of a ranking."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwise.cli.data_options import FeaturesOption, FillOption, TableOptions
from rankwise.cli.input_files import (
    distinct_names,
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
from rankwise.cli.terminal import note, progress, show
from rankwise.routing import last_step

if TYPE_CHECKING:
    from rankwise.metrics import RankingEvaluation


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


CONVENTIONS = (
    "As trec_eval -c: ties in the order of document ids, descending; documents without a judgement "
    "are not relevant; queries without results count as 0."
)


def evaluate_runs(
    qrels_path: Path,
    runs: list[Path],
    *,
    cutoffs: list[int] | None,
    relevant: float,
    gain: str,
    discount: str,
    as_json: bool,
    per_query: Path | None,
    force: bool,
    others: dict[str, Any],
) -> None:
    """Print the metrics of one run, or compare several; `others` are options of other data."""
    import json

    from rankwise.data.trec import read_qrels, read_run, trec_order
    from rankwise.metrics import compare_rankings, evaluate_ranking

    for name, value in others.items():
        if value is not None:
            refuse(name, "This is for LETOR files and tables: leave it out with --qrels.")
    if len(runs) > 1 and per_query is not None:
        refuse("per-query", "This is for a single run: got several.")
    if len(runs) > 1 and discount != "log2":
        refuse("discount", "Several runs are compared with the discount log2.")
    if per_query is not None:
        check_writable(per_query, qrels_path, *runs, force=force)
    names = distinct_names(runs)
    with progress(f"Reading {qrels_path}"):
        qrels = read_qrels(qrels_path)
    below = sum(label < 0 for judged in qrels.values() for label in judged.values())
    if below:
        note(f"{qrels_path}: {below:,} negative judgements count as 0.")
        qrels = {q: {d: max(v, 0) for d, v in judged.items()} for q, judged in qrels.items()}
    found = {}
    for name, path in zip(names, runs, strict=True):
        with progress(f"Reading {path}"):
            found[name] = trec_order(read_run(path))
        _note_queries(qrels, found[name], path, qrels_path)
    if len(runs) == 1:
        evaluation = evaluate_ranking(
            qrels, found[names[0]], k=cutoffs or [1, 3, 5, 10], relevant=relevant, gain=gain,
            discount=discount,
        )  # fmt: skip
        if per_query is not None:
            write_per_query(evaluation, per_query)
        if as_json:
            print(json.dumps(evaluation.to_dict(), indent=2))
            return
        title = f"{runs[0]}: {evaluation.n_queries:,} queries"
        show(evaluation.to_table(title=title))
        note(CONVENTIONS)
        return
    metrics = ["map", "mrr"]
    metrics += [f"{name}@{k}" for name in ("ndcg", "precision") for k in cutoffs or [10]]
    with progress("Comparing"):
        comparison = compare_rankings(qrels, found, metrics=metrics, relevant=relevant, gain=gain)
    if as_json:
        print(json.dumps(comparison.to_dict(), indent=2))
        return
    show(comparison.means_table())
    print()
    show(comparison.to_table())
    note(CONVENTIONS)


def _note_queries(qrels: Any, run: Any, path: Path, qrels_path: Path) -> None:
    """Say which queries are in one of the two files only."""
    from rankwise.errors import DataError
    from rankwise.tables import plural

    missing, extra = len(qrels.keys() - run.keys()), len(run.keys() - qrels.keys())
    if extra == len(run):
        raise DataError(
            f"{path} and {qrels_path} have no query in common: {next(iter(run))!r} and "
            f"{next(iter(qrels))!r} are their first ones."
        )
    if missing:
        note(f"{path} lacks {plural(missing, 'query')} of {qrels_path}, counted as 0.")
    if extra:
        note(f"{path}: {plural(extra, 'query')} without judgements left out.")


def write_per_query(evaluation: RankingEvaluation, path: Path) -> None:
    """Write a row per query and a column per metric; a cell is empty where there is no value."""
    import csv

    from rankwise.files import replacing

    columns = [
        dict(zip(values.qid.tolist(), values.values.tolist(), strict=True))
        for values in evaluation.per_query.values()
    ]
    with replacing(path) as beside, beside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["qid", *evaluation.per_query])
        for query in evaluation.qid.tolist():
            writer.writerow([query, *(column.get(query, "") for column in columns)])
