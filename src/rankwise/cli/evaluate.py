"""rankwise evaluate: every metric of a ranking."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from rankwise.cli.data_options import (
    Features,
    TableOptions,
    distinct_names,
    note_scaling,
    read_model,
    read_scores,
    scores_of,
)
from rankwise.cli.options import (
    Force,
    InputArguments,
    InputFile,
    Json,
    grouped,
    refuse,
    values_of,
)
from rankwise.cli.terminal import check_writable, note, progress, show
from rankwise.errors import DataError, ParameterError
from rankwise.files import write_text
from rankwise.routing import last_step
from rankwise.tables import csv_text, plural

CUTOFFS = [1, 3, 5, 10]


@grouped
def evaluate(
    *,
    files: InputArguments,
    qrels: InputFile = None,
    scores: InputFile = None,
    relevant: float = 1.0,
    at: str | None = None,
    gain: Literal["exponential", "linear"] | None = None,
    discount: Literal["log2", "letor"] = "log2",
    features: Features = None,
    as_json: Json = False,
    per_query: Path | None = None,
    force: Force = False,
    table: TableOptions,
) -> None:
    """Evaluate a model, scores from anywhere, or runs of TREC, on data with labels.

    Prints MAP, MRR, NDCG, NDCG@k, P@k, the disagreement error (the share of pairs of a query in
    the wrong order) and Kendall's tau_b, averaged over queries. The column "s.e." is the standard
    error over queries. The column "undefined" counts the queries for which a metric is not defined.
    A query without a relevant row counts as 0. A query without two different labels is left out of
    the last two metrics.

    LETOR files may leave out features that are 0. If DATA ends before the last feature of the
    model, the rest is read as 0, with a warning. If it has fewer than half of the features,
    --features must confirm the number.

    The columns of a table (CSV, TSV, Parquet, Arrow or JSON lines) may be in any order. The
    features of the model are found by their names.

    With --qrels, the files are runs of TREC (query Q0 document rank score tag), and the results are
    the same as with trec_eval -c. Ties are in the descending order of document ids, documents
    without a judgement are not relevant, and queries without results count as 0. Several runs are
    compared query by query, with p-values adjusted for their number by Holm's method.

    \b
    Examples:
      rankwise evaluate model.rankwise test.txt
      rankwise evaluate model.rankwise test.txt --relevant 2 --per-query test.csv
      rankwise evaluate --scores scores.txt test.txt --json
      rankwise evaluate model.rankwise test.parquet --label clicks
      rankwise evaluate --qrels qrels.txt bm25.txt reranked.txt

    Parameters
    ----------
    files : [MODEL] DATA
        A model file (not with --scores) and a LETOR file or table; with --qrels, runs.
    qrels : FILE
        Evaluate runs of TREC by these judgements, and compare them.
    scores : FILE
        Evaluate these scores, one per line, instead of the scores of a model.
    relevant : LABEL
        Rows with at least this label are relevant (MAP, MRR, P@k).
    at : K,K, default=1,3,5,10, or 10 for several runs
        Cut-offs k of NDCG@k and P@k.
    gain : NAME, default=exponential, or linear with --qrels
        Gain of NDCG: exponential (2^label - 1) or linear (label).
    discount : NAME
        Discount of NDCG: log2 (1/log2(rank + 1)) or letor (as in LETOR 1.0).
    per_query : FILE
        Write the values of every query to this CSV file.
    """
    from rankwise.metrics import evaluate_ranking
    from rankwise.parameters import Whole

    cutoffs = None if at is None else values_of("--at", at, Whole(1))
    check_writable(per_query, qrels, scores, *files, force=force)
    if qrels is not None:
        for name, value in {"scores": scores, "features": features, **vars(table)}.items():
            if value is not None:
                refuse(name, "This is for LETOR files and tables: leave it out with --qrels.")
        options = {"relevant": relevant, "gain": gain or "linear", "discount": discount}
        _evaluate_runs(qrels, files, cutoffs, options, per_query, as_json)
        return
    if len(files) != (2 if scores is None else 1):
        wanted = "a model and a data file" if scores is None else "only the data file with --scores"
        got = ", ".join(map(str, files))
        raise ParameterError(f"Give {wanted}: got {got}. Try 'rankwise evaluate --help'.")
    if scores is not None and features is not None:
        refuse("features", "This is the number of features of a model: leave it out with --scores.")
    if scores is None:
        file = read_model(files[0])
        data = table.read_for(file, files[0], files[1], features)
        values = scores_of(file, data)
        fitted = getattr(last_step(file.model), "n_queries_", 1)
        if data.qid is None and fitted > 1 and not table.is_table(files[1]):
            note(f"{files[1]} has no query ids: its rows are ranked together, unlike in training.")
    else:
        data = table.read_rows(files[0])
        if data.qid is None:
            note(f"{files[0]} has no query ids: its rows are ranked together.")
        values = read_scores(scores, len(data.y), files[0])
    evaluation = evaluate_ranking(
        data.y, values, data.qid, k=cutoffs or CUTOFFS, relevant=relevant,
        gain=gain or "exponential", discount=discount,
    )  # fmt: skip
    if scores is None:
        note_scaling(file.model)
    queries = "one query" if evaluation.n_queries == 1 else f"{evaluation.n_queries:,} queries"
    _report(evaluation, f"{evaluation.n_rows:,} rows in {queries}", per_query, as_json)
    if not as_json:
        for remark in evaluation.notes:
            note(remark)


def _report(evaluation: Any, title: str, per_query: Path | None, as_json: bool) -> None:
    """Print an evaluation; write a row per query, whose cells are empty where there is no value."""
    if per_query is not None:
        columns = [
            dict(zip(values.qid.tolist(), values.values.tolist(), strict=True))
            for values in evaluation.per_query.values()
        ]
        rows = [
            [query, *(column.get(query, "") for column in columns)]
            for query in evaluation.qid.tolist()
        ]
        write_text(per_query, csv_text(["qid", *evaluation.per_query], rows))
    if as_json:
        print(json.dumps(evaluation.to_dict(), indent=2))
    else:
        show(evaluation.to_table(title=title))


def _evaluate_runs(
    qrels_path: Path,
    paths: list[Path],
    cutoffs: list[int] | None,
    options: dict[str, Any],
    per_query: Path | None,
    as_json: bool,
) -> None:
    """Print the metrics of one run, or compare several."""
    from rankwise.data.trec import read_qrels, read_run, trec_order
    from rankwise.metrics import compare_rankings, evaluate_ranking

    if len(paths) > 1 and per_query is not None:
        refuse("per-query", "This is for a single run: got several.")
    if len(paths) > 1 and options.pop("discount") != "log2":
        refuse("discount", "Several runs are compared with the discount log2.")
    with progress(f"Reading {qrels_path}"):
        qrels = read_qrels(qrels_path)
    below = sum(label < 0 for judged in qrels.values() for label in judged.values())
    if below:
        note(f"{qrels_path}: {below:,} negative judgements count as 0.")
        qrels = {q: {d: max(v, 0) for d, v in judged.items()} for q, judged in qrels.items()}
    runs = {}
    for name, path in zip(distinct_names(paths), paths, strict=True):
        with progress(f"Reading {path}"):
            runs[name] = trec_order(read_run(path))
        _note_queries(qrels, runs[name], path, qrels_path)
    if len(paths) == 1:
        (run,) = runs.values()
        evaluation = evaluate_ranking(qrels, run, k=cutoffs or CUTOFFS, **options)
        _report(evaluation, f"{paths[0]}: {evaluation.n_queries:,} queries", per_query, as_json)
    else:
        metrics = ["map", "mrr"]
        metrics += [f"{name}@{k}" for name in ("ndcg", "precision") for k in cutoffs or [10]]
        with progress("Comparing"):
            comparison = compare_rankings(qrels, runs, metrics=metrics, **options)
        if as_json:
            print(json.dumps(comparison.to_dict(), indent=2))
        else:
            show(comparison.means_table(), comparison.to_table())
    if not as_json:
        note(
            "As trec_eval -c: ties in the descending order of document ids; documents without a "
            "judgement are not relevant; queries without results count as 0."
        )


def _note_queries(qrels: Any, run: Any, path: Path, qrels_path: Path) -> None:
    """Print which queries are in one of the two files only."""
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
