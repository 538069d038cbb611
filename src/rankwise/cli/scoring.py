"""rankwise predict, evaluate, compare and explain: models on the rows of a file."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rankwise.cli.data_options import (
    ColumnOptions,
    Features,
    TableOptions,
    distinct_names,
    in_one_line,
    note_scaling,
    read_model,
    read_scores,
    scores_of,
)
from rankwise.cli.options import (
    Force,
    InputArgument,
    InputArguments,
    InputFile,
    Json,
    ModelFile,
    Out,
    Positive,
    grouped,
    refuse,
    refuse_all,
    split_names,
    values_of,
)
from rankwise.cli.terminal import (
    check_page,
    check_writable,
    note,
    progress,
    show,
    show_json,
    write_page,
)
from rankwise.cli.two_sided_files import predict_table, refuse_unused
from rankwise.errors import DataError, ParameterError
from rankwise.files import replacing, write_text
from rankwise.routing import last_step
from rankwise.tables import csv_text, plural

if TYPE_CHECKING:
    from rankwise.inspection import PairExplanation
    from rankwise.report import Section

CUTOFFS = [1, 3, 5, 10]
MOST_GROUPS = 20  # that are printed
Position = Annotated[int | None, typer.Option(min=1)]
PICTURES, PICTURE_ROWS = 10, 12  # of pairs on a page, and of features in each


@grouped
def predict(
    *,
    model: ModelFile,
    data: InputArgument,
    out: Out = None,
    force: Force = False,
    features: Features = None,
    columns: InputFile = None,
    table: TableOptions,
) -> None:
    """Score the rows of a file: higher is better.

    Scores order the rows of the same query. They are written with all their digits. If the model
    scales features within queries, all rows of a query in DATA are scaled together: do not split a
    query over two files.

    For a LETOR file, the result is one number per line. For a table, it is a table with the columns
    of ids and queries, and the column score, in the order of the rows. The columns of DATA may be
    in any order: the model finds them by their names. Options that read a table are as in the fit,
    unless they are given.

    LETOR files may leave out features that are 0. If DATA ends before the last feature of the
    model, the rest is read as 0, with a warning. If it has fewer than half of the features,
    --features must confirm the number.

    For a model of a table (fit with --rows and --columns), DATA has the features of rows, known or
    new, and the result is a table with a score for each row and column.

    \b
    Examples:
      rankwise predict model.rankwise test.txt --out scores.txt
      rankwise predict model.rankwise test.txt.gz | head
      rankwise predict model.rankwise new.csv --out scores.csv
      rankwise predict model.rankwise new-drugs.csv --columns targets.csv --out scores.csv
      rankwise predict model.rankwise new.parquet --id product --out scores.parquet

    Parameters
    ----------
    data : DATA
        LETOR file or table; it needs no labels.
    out : FILE
        Write scores here instead of to stdout: a table if the name ends with .csv, .tsv, .parquet,
        .arrow or .jsonl.
    columns : FILE, default=the columns of the fit
        For a model of a table: features of its columns.
    """
    from rankwise.data.table_files import COMPRESSED, SPREADSHEETS, format_of, write_columns

    if out is not None:
        if out.suffix.lower() in COMPRESSED:
            refuse("out", f"Scores are written without compression: leave {out.suffix} out.")
        if out.suffix.lower() in SPREADSHEETS:
            refuse("out", f"Spreadsheets are not written: name it {out.stem}.csv, which they open.")
        check_writable(out, model, data, columns, force=force)
    file = read_model(model)
    ranker = getattr(file.model, "best_estimator_", file.model)
    if hasattr(ranker, "sides_"):
        refuse_unused(table)
        table_scores = predict_table(ranker, data, columns, table)
        write_columns(table_scores, out, "csv" if out is None else format_of(out) or "csv")
        if out is not None:
            first, *others = table_scores.values()
            note(f"Wrote {out}: scores of {plural(len(first), 'row')} and {len(others)} columns.")
        return
    if columns is not None:
        refuse("columns", "This is for a model of a table, fitted with --rows and --columns.")
    rows = table.read_for(file, model, data, features, needs_label=False)
    scores = scores_of(file, rows)
    roles = getattr(rows, "roles", None)
    if roles is not None and roles.id is None and roles.unused_ids:
        note(f"To write ids with the scores, give --id {roles.unused_ids[0]}.")
    lines = (f"{float(score)!r}\n" for score in scores)
    as_table = "csv" if out is None and table.is_table(data) else out and format_of(out)
    if as_table:
        write_columns(_columns(rows, scores), out, as_table)
    elif out is None:
        sys.stdout.writelines(lines)
    else:
        with replacing(out) as beside, beside.open("w", encoding="ascii") as opened:
            opened.writelines(lines)
    note_scaling(file.model)
    if out is not None:
        note(f"Wrote {out}: scores of {plural(len(scores), 'row')}.")


def _columns(rows: Any, scores: Any) -> dict[str, Any]:
    """The ids and queries of rows under their own names, and the scores."""
    roles = getattr(rows, "roles", None)
    named = {
        getattr(roles, "id", None) or "id": getattr(rows, "ids", None),
        getattr(roles, "query", None) or "qid": rows.qid,
        "score": scores,
    }
    return {name: values for name, values in named.items() if values is not None}


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
    undefined: Literal["0", "skip"] | None = None,
    exposure_of: str | None = None,
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
    A query without a relevant row counts as 0, or is left out with --undefined skip. A query
    without two different labels is left out of the last two metrics.

    LETOR files may leave out features that are 0. If DATA ends before the last feature of the
    model, the rest is read as 0, with a warning. If it has fewer than half of the features,
    --features must confirm the number.

    The columns of a table (CSV, TSV, Parquet, Arrow or JSON lines) may be in any order. The
    features of the model are found by their names. Its queries, labels, grades and marks of numbers
    are as in the fit, unless options name others.

    With --qrels, the files are runs of TREC (query Q0 document rank score tag), and the results are
    the same as with trec_eval -c. Ties are in the descending order of document ids, documents
    without a judgement are not relevant, and queries without results count as 0. Several runs are
    compared query by query, with p-values alone, and adjusted for their number by Holm's method.

    \b
    Examples:
      rankwise evaluate model.rankwise test.txt
      rankwise evaluate model.rankwise test.txt --relevant 2 --per-query test.csv
      rankwise evaluate --scores scores.txt test.txt --json
      rankwise evaluate model.rankwise test.parquet --label clicks
      rankwise evaluate model.rankwise test.csv --exposure-of seller
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
    undefined : VALUE, default=0, or skip for the last two metrics
        What becomes of a query where a metric is undefined: it counts as 0, or skip leaves it out.
    exposure_of : COLUMN
        Compare the share of attention (1/log2(rank + 1)) of each group in this column of a table,
        such as seller, with its share of the labels.
    per_query : FILE
        Write the values of every query to this CSV file.
    """
    from rankwise.metrics import evaluate_ranking, group_exposure
    from rankwise.parameters import Whole

    cutoffs = None if at is None else values_of("--at", at, Whole(1))
    check_writable(per_query, qrels, scores, *files, force=force)
    if qrels is not None:
        given = {"scores": scores, "features": features, "exposure_of": exposure_of}
        given |= vars(table)
        refuse_all(given, "This is for LETOR files and tables: leave it out with --qrels.")
        if undefined is not None:
            refuse("undefined", "Queries without results count as 0 here: leave it out.")
        options = {"relevant": relevant, "gain": gain or "linear", "discount": discount}
        _evaluate_runs(qrels, files, cutoffs, options, per_query, as_json)
        return
    *models, path = files
    if len(models) != (scores is None):
        wanted = "a model and a data file" if scores is None else "only the data file with --scores"
        got = ", ".join(map(str, files))
        raise ParameterError(f"Give {wanted}: got {got}. Try 'rankwise evaluate --help'.")
    if scores is not None and features is not None:
        refuse("features", "This is the number of features of a model: leave it out with --scores.")
    groups = None
    if exposure_of is not None:
        groups = table.read_groups(path, exposure_of, "exposure-of")
    if scores is None:
        file = read_model(models[0])
        data = table.read_for(file, models[0], path, features)
        values = scores_of(file, data)
    else:
        data = table.read_rows(path)
        if data.qid is None:
            note(f"{path} has no query ids: its rows are ranked together.")
        values = read_scores(scores, len(data.y), path)
    evaluation = evaluate_ranking(
        data.y, values, data.qid, k=cutoffs or CUTOFFS, relevant=relevant,
        gain=gain or "exponential", discount=discount,
        undefined=0.0 if undefined == "0" else undefined,
    )  # fmt: skip
    exposure = None if groups is None else group_exposure(data.y, values, groups, data.qid)
    if scores is None:
        note_scaling(file.model)
    queries = "one query" if evaluation.n_queries == 1 else f"{evaluation.n_queries:,} queries"
    title = f"{evaluation.n_rows:,} rows in {queries}"
    _report(evaluation, title, per_query, as_json, exposure, f"Attention by {exposure_of}")


def _report(
    evaluation: Any,
    title: str,
    per_query: Path | None,
    as_json: bool,
    exposure: Any = None,
    exposure_title: str = "",
) -> None:
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
        extra = {} if exposure is None else {"exposure": exposure.to_dict()}
        show_json(evaluation.to_dict() | extra)
    else:
        shown = exposure and exposure.to_table(title=exposure_title, first=MOST_GROUPS)
        show(evaluation.to_table(title=title), shown)
        note(*evaluation.notes)
        if exposure is not None and len(exposure.groups) > MOST_GROUPS:
            note(f"The {MOST_GROUPS} of {len(exposure.groups):,} groups with most attention.")


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
        _show_comparison(comparison, "json" if as_json else "text")
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


@grouped
def compare(
    *,
    files: InputArguments,
    metrics: str | None = None,
    relevant: float = 1.0,
    level: float = 0.95,
    permutations: Positive = 10_000,
    format: Literal["text", "markdown", "latex", "json"] = "text",
    features: Features = None,
    table: ColumnOptions,
) -> None:
    """Compare models on a LETOR file or a table: which is better, and is it more than chance?

    Prints the mean of each metric for each model, and the difference of each pair of models on the
    same queries, with an interval by Student's t distribution. The p-value comes from a
    randomization (permutation) test, which exchanges the two models at random on each query. Both
    are for this difference alone. With several differences, a second p-value is adjusted by Holm's
    method for the number of tests, and decides which differences are in bold: with more models and
    metrics, only larger differences are significant.

    Use queries that no model was trained or chosen on. A table is read as in the fits, unless
    options say otherwise: models that were fitted to different labels need --label.

    \b
    Examples:
      rankwise compare linear.rankwise rbf.rankwise test.txt
      rankwise compare a.rankwise b.rankwise c.rankwise test.txt --metrics ndcg@5,MRR
      rankwise compare a.rankwise b.rankwise test.txt --format latex > table.tex

    Parameters
    ----------
    files : MODEL MODEL... DATA
        Two or more model files, and a LETOR file or table.
    metrics : NAME,NAME, default=ndcg@10,map,disagreement, or disagreement if labels are not grades
        Metrics to compare: ndcg@10, MAP, MRR, precision@5, disagreement, auc, ... A wrong name
        lists them all.
    relevant : LABEL
        Rows with at least this label are relevant (MAP, MRR, ...).
    level : SHARE
        Confidence level of the intervals.
    permutations : N
        Number of permutations of each test.
    format : NAME
        Format of the result: text, markdown, latex or json.
    """
    *models, path = files
    if len(models) < 2:
        got = ", ".join(map(str, files))
        raise ParameterError(
            f"Give at least two models and a data file: got {got}. Try 'rankwise compare --help'."
        )
    import numpy as np

    by_features: dict[Any, Any] = {}
    first: Any = None
    scores: dict[str, Any] = {}
    for name, model in zip(distinct_names(models), models, strict=True):
        file = read_model(model)
        width = getattr(file.model, "n_features_in_", None)
        key = width, tuple(getattr(file.model, "feature_names_in_", ())), repr(file.table)
        if key not in by_features:
            by_features[key] = data = table.read_for(file, model, path, features, needs_query=True)
            first = data if first is None else first
            same = np.array_equal(data.y, first.y) and np.array_equal(data.qid, first.qid)
            if not same:
                raise DataError(
                    f"{model} was fitted to other labels or queries of a table than {models[0]}: "
                    "name those to compare them on by --label, --grades and --query."
                )
        scores[name] = scores_of(file, by_features[key])
    from rankwise.metrics import compare_rankings

    with progress("Comparing"):
        found = compare_rankings(
            data.y, scores, data.qid, metrics=split_names(metrics), relevant=relevant, level=level,
            n_permutations=permutations,
        )  # fmt: skip
    _show_comparison(found, format)


def _show_comparison(found: Any, format: str) -> None:
    """Print the means of rankings, and their differences."""
    tables = found.means_table(), found.to_table()
    if format == "text":
        show(*tables)
    elif format == "json":
        show_json(found.to_dict())
    else:
        print(*(getattr(table, f"to_{format}")() for table in tables), sep="\n\n")


@dataclass(frozen=True, kw_only=True)
class QueryOptions(TableOptions):
    """How to read a file, and which of its queries to explain.

    Parameters
    ----------
    query : ID, default=the only query
        The query to explain. COLUMN=ID also names the column of query ids, as in search_id=17.
    """


@grouped
def explain(
    *,
    model: ModelFile,
    data: InputArgument,
    above: Position = None,
    below: Position = None,
    top: Positive = 20,
    report: Path | None = None,
    as_json: Json = False,
    force: Force = False,
    features: Features = None,
    table: QueryOptions,
) -> None:
    """Explain why a row is ranked above another: what each feature adds to the difference.

    Ranks the rows of a query, and explains the row at position --above against the row at position
    --below. Without positions, it explains each row against the next one. The contributions of all
    features sum to the difference of the two scores. Features are the columns of DATA.

    For linear and additive models, contributions are the terms of the sum. For models with rbf or
    laplacian kernels, they are Shapley values, and for boosted trees LightGBM's contributions. For
    other models, Shapley values are sampled, and have standard errors.

    \b
    Examples:
      rankwise explain model.rankwise rows.csv --query 17 --above 3 --below 5
      rankwise explain model.rankwise rows.csv --query 17
      rankwise explain model.rankwise rows.csv --query search_id=17 --report page.html

    Parameters
    ----------
    data : DATA
        LETOR file or table; it needs no labels.
    above : POSITION, default=each
        Position of the row that is above, from 1.
    below : POSITION, default=the next one
        Position of the row that is below.
    top : N
        How many features to show, or, without positions, how many rows.
    report : PAGE
        Write a page with the reasons and pictures to this HTML file.
    """
    from rankwise.inspection import explain as explain_pair
    from rankwise.inspection import explain_ranking
    from rankwise.plots import require_matplotlib

    if above is None and below is not None:
        refuse("above", "Give it as well, or leave out --below.")
    if report is not None:
        require_matplotlib()
    check_page(report, model, data, force=force)
    column, equals, wanted = (table.query or "").rpartition("=")
    found = replace(table, query=column if equals else None)
    file = read_model(model)
    rows = found.read_for(file, model, data, features, needs_label=False)
    given: dict[str, Any] = {"X": rows.X, "qid": rows.qid}
    if table.query is not None:
        if rows.qid is None:
            refuse("query", f"{data} has no query ids: leave it out.")
        given["query"] = wanted
    if above is not None:
        with progress("Explaining"):
            why = explain_pair(file.model, above, below or above + 1, **given)
        content: Any = _as_dict(why)
        pairs, table_of_all = [why], why.to_table(top=top)
        summary = "What each feature adds to the difference of the scores of two rows."
    else:
        with progress("Explaining"):
            ids = getattr(rows, "ids", None)
            ranking = explain_ranking(file.model, top=top, ids=ids, **given)
        labels = ranking.rows.tolist() if ranking.ids is None else list(map(str, ranking.ids))
        named = zip(ranking.pairs, labels, labels[1:], strict=False)
        content = [_as_dict(pair) | {"rows": [one, two]} for pair, one, two in named]
        pairs, table_of_all = ranking.pairs, ranking.to_table()
        summary = f"{plural(len(ranking), 'row')}, each with the reason why it is above the next."
    if as_json:
        show_json(content)
    else:
        show(table_of_all)
    if report is not None:
        from rankwise.report import Section

        name = "the ranking" if table.query is None else f"query {wanted}"
        model_words = f"`{type(last_step(file.model)).__name__}` from {model.name}. {summary}"
        order = [] if above else [Section("The order", [table_of_all])]
        reasons = [_reasons(pair, top if above else PICTURE_ROWS) for pair in pairs[:PICTURES]]
        title = f"Why: {name} of {data.name}"
        write_page(report, "explain", title, model_words, [*order, *reasons])
    if not pairs:
        note("The query has one row: there is nothing to explain.")
    elif as_json:
        note(in_one_line(file.model))


def _as_dict(why: PairExplanation) -> dict[str, Any]:
    """An explanation as JSON holds it."""
    above, below = why.positions or (None, None)
    features = []
    for k in why.order:
        features.append({"feature": why.names[k], "contribution": float(why.contributions[k])})
        if why.standard_errors is not None:
            features[-1]["standard_error"] = float(why.standard_errors[k])
    found: dict[str, Any] = {
        "above": above,
        "below": below,
        "scores": list(why.scores),
        "difference": why.difference,
        "sentence": why.sentence,
        "method": why.method,
        "features": features,
    }
    return found if why.probability is None else found | {"probability": why.probability}


def _reasons(why: PairExplanation, top: int) -> Section:
    """Why a row is above another, with a picture."""
    from rankwise.report import Figure, Section, Text

    above, below = why.positions or (0, 0)
    blocks: list[Any] = [Text(why.sentence)]
    if len(why.order):
        caption = "Steps from the score of the row below to the score of the row above."
        picture = why.plot(top=min(top, PICTURE_ROWS))
        blocks.append(Figure.of(picture, why.sentence, caption))
    blocks.append(replace(why.to_table(top=top), title=""))  # which is the sentence
    word = "above" if above < below else "below"
    return Section(f"Position {above} {word} position {below}", blocks)
