"""rankwise evaluate --qrels: runs of TREC."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.cli.input_files import distinct_names
from rankwise.cli.options import refuse
from rankwise.cli.output_files import check_writable
from rankwise.cli.terminal import note, progress, show

if TYPE_CHECKING:
    from rankwise.metrics import RankingEvaluation

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
