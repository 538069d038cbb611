"""Judgements and rankings in the formats of TREC."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from rankwise.data.table_files import SmallTable, opened_text
from rankwise.errors import DataError, ParameterError
from rankwise.files import replacing
from rankwise.graph.comparisons import check_hashable
from rankwise.graph.query_groups import as_ids, missing_entries

Qrels = dict[str, dict[str, int]]
Run = dict[str, dict[str, float]]

QUERY_COLUMNS = ("query_id", "q_id", "qid")
DOCUMENT_COLUMNS = ("doc_id", "docno", "docid")
RELEVANCE_COLUMNS = ("relevance", "label", "rel", "score")
SCORE_COLUMNS = ("score",)
IDS = ("The column of queries", "The column of documents")


def read_qrels(path: str | PathLike[str]) -> Qrels:
    """Read judgements in TREC's format: lines of ``query 0 document relevance``.

    Parameters
    ----------
    path : str or path-like
        The file, plain or compressed.

    Returns
    -------
    dict of str to dict of str to int
        The relevance of documents, by query. Pass it to metrics in place of y.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "qrels.txt")
    ...     _ = path.write_text("q1 0 d1 2\\nq1 0 d2 0\\n")
    ...     read_qrels(path)
    {'q1': {'d1': 2, 'd2': 0}}
    """
    return _by_query(_lines(Path(path), "query 0 document relevance", (0, 2, 3)), int)


def read_run(path: str | PathLike[str]) -> Run:
    """Read a ranking in TREC's format: lines of ``query Q0 document rank score tag``.

    Parameters
    ----------
    path : str or path-like
        The file, plain or compressed.

    Returns
    -------
    dict of str to dict of str to float
        The scores of documents, by query. Pass it to metrics in place of scores. The ranks in the
        file are ignored, as by trec_eval.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "run.txt")
    ...     _ = path.write_text("q1 Q0 d1 1 0.9 mine\\nq1 Q0 d2 2 0.5 mine\\n")
    ...     read_run(path)
    {'q1': {'d1': 0.9, 'd2': 0.5}}
    """
    return _by_query(_lines(Path(path), "query Q0 document rank score tag", (0, 2, 4)), float)


def _lines(
    path: Path, layout: str, places: tuple[int, int, int]
) -> Iterator[tuple[str, str, str, str]]:
    """The place, query, document and value of each line that is not empty."""
    is_empty = True
    with opened_text(path) as lines:
        for number, line in enumerate(lines, 1):
            fields = line.split()
            if fields and len(fields) != len(layout.split()):
                raise DataError(
                    f"{path}, line {number}: got {len(fields)} fields. Such a file has lines "
                    f"of: {layout}."
                )
            if fields:
                is_empty = False
                query, document, value = (fields[k] for k in places)
                yield f"{path}, line {number}", query, document, value
    if is_empty:
        raise DataError(f"{path} is empty: such a file has lines of: {layout}.")


def _by_query(rows: Iterable[tuple[str, str, str, Any]], kind: type) -> dict[str, dict[str, Any]]:
    """Values by query and document, which are whole or finite numbers."""
    found: dict[str, dict[str, Any]] = {}
    for place, query, document, value in rows:
        known = found.setdefault(query, {})
        if document in known:
            raise DataError(
                f"{place}: the document {document!r} of query {query!r} appears again. Leave it in "
                "once."
            )
        try:
            number = known[document] = kind(value)
            valid = math.isfinite(number)
            valid = valid and ("_" not in value if isinstance(value, str) else number == value)
        except (OverflowError, TypeError, ValueError):
            valid = False
        if not valid:
            what = "a whole number" if kind is int else "a finite number"
            raise DataError(
                f"{place}: expected {what} for the document {document!r} of query {query!r}: got "
                f"{value!r}."
            )
    if not found:
        raise DataError("There are no queries in it.")
    return found


def write_run(
    path: str | PathLike[str], run: Mapping[str, Mapping[str, float]], *, tag: str = "rankwise"
) -> Path:
    """Write a ranking in TREC's format, best documents first.

    Parameters
    ----------
    path : str or path-like
    run : mapping of str to mapping of str to float
        The scores of documents, by query, or anything that `as_run` accepts.
    tag : str, default="rankwise"
        The name of the run, in the last column.

    Returns
    -------
    Path

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     print(write_run(f"{folder}/run.txt", {"q1": {"a": 0.5, "b": 0.75}}).read_text())
    q1 Q0 b 1 0.75 rankwise
    q1 Q0 a 2 0.5 rankwise
    <BLANKLINE>
    """
    run = as_run(run)
    for name in (tag, *run, *(document for scored in run.values() for document in scored)):
        if not name or name.split() != [name]:
            raise ParameterError(f"Names in TREC's files have no blanks: got {name!r}.")
    with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="\n") as file:
        for query, scored in run.items():
            for rank, (document, score) in enumerate(_in_order(scored), 1):
                file.write(f"{query} Q0 {document} {rank} {score!r} {tag}\n")
    return Path(path)


def trec_order(run: Mapping[str, Mapping[str, float]]) -> Run:
    """A run whose scores are ranks: trec_eval's order, without ties.

    trec_eval rounds scores to 32 bits, and orders equal ones by the id of the document, in
    descending order. The result has the score -1 for the first document of each query, -2 for the
    second, and so on.

    Parameters
    ----------
    run : mapping of str to mapping of str to float

    Returns
    -------
    dict of str to dict of str to float

    Examples
    --------
    >>> trec_order({"q1": {"a": 0.5, "b": 0.5, "c": 0.9}})
    {'q1': {'c': -1.0, 'b': -2.0, 'a': -3.0}}
    """
    return {
        query: {document: -float(rank) for rank, (document, _) in enumerate(_in_order(scored), 1)}
        for query, scored in run.items()
    }


def _in_order(scored: Mapping[str, float]) -> list[tuple[str, float]]:
    rounded = np.array(list(scored.values())).astype(np.float32).tolist()
    keys = sorted(zip(rounded, scored, strict=True), reverse=True)
    return [(document, scored[document]) for _, document in keys]


def as_qrels(source: Any) -> Qrels:
    """Judgements from other libraries as a dictionary, which all metrics take.

    Parameters
    ----------
    source : object
        A dictionary, a ``Qrels`` of ranx, an iterable of ``Qrel`` of ir-measures, or a data frame
        with columns for queries (query_id, q_id or qid), documents (doc_id, docno or docid) and
        relevance (relevance, label, rel or score).

    Returns
    -------
    dict of str to dict of str to int
        Pass it to ranx as ``Qrels(...)``, and to ir-measures and pytrec_eval as it is.

    Examples
    --------
    >>> import pandas as pd
    >>> as_qrels(pd.DataFrame({"query_id": ["q1"], "doc_id": ["d1"], "relevance": [2]}))
    {'q1': {'d1': 2}}
    """
    return _as_dictionary(source, RELEVANCE_COLUMNS, "relevance", int)


def as_run(source: Any) -> Run:
    """A ranking from another library as a dictionary, which all metrics take.

    Parameters
    ----------
    source : object
        A dictionary, a ``Run`` of ranx, an iterable of ``ScoredDoc`` of ir-measures, or a data
        frame with columns for queries (query_id, q_id or qid), documents (doc_id, docno or docid)
        and scores (score).

    Returns
    -------
    dict of str to dict of str to float
        Pass it to ranx as ``Run(...)``, and to ir-measures and pytrec_eval as it is.

    Examples
    --------
    >>> import pandas as pd
    >>> as_run(pd.DataFrame({"qid": ["q1", "q1"], "docno": ["d1", "d2"], "score": [0.5, 2.0]}))
    {'q1': {'d1': 0.5, 'd2': 2.0}}
    """
    return _as_dictionary(source, SCORE_COLUMNS, "score", float)


def _as_dictionary(
    source: Any, columns: tuple[str, ...], field: str, kind: type
) -> dict[str, dict[str, Any]]:
    try:
        if hasattr(source, "columns"):
            table = SmallTable.of(source)
            usual = (QUERY_COLUMNS, DOCUMENT_COLUMNS, columns)
            given = list(zip(*(_column(table, names) for names in usual), strict=True))
        elif hasattr(source, "to_dict") or isinstance(source, Mapping):  # the former of ranx
            nested = source.to_dict() if hasattr(source, "to_dict") else source
            given = [(q, doc, value) for q, found in nested.items() for doc, value in found.items()]
        else:
            given = [(row.query_id, row.doc_id, getattr(row, field)) for row in source]
    except (AttributeError, TypeError) as error:
        raise DataError(
            f"Expected {{query: {{document: {field}}}}}, a data frame, or an object of ranx or "
            f"ir-measures: {error}."
        ) from error
    queries, documents = (_names(what, [row[k] for row in given]) for k, what in enumerate(IDS))
    if len(set(queries)) < len({row[0] for row in given}):
        raise DataError("Two query ids differ in their type only, such as 1 and '1': use one type.")
    places = [f"Row {k}" for k in range(len(given))]
    return _by_query(zip(places, queries, documents, [row[2] for row in given], strict=True), kind)


def _column(table: SmallTable, names: tuple[str, ...]) -> list[Any]:
    name = table.find(None, names)
    if name is None:
        raise DataError(
            f"The frame needs a column called {', '.join(names)}: it has "
            f"{', '.join(table.columns)}."
        )
    return table.values(name)


def _names(what: str, ids: list[Any]) -> list[str]:
    """Ids as text, in which equal ids have the same text."""
    values = as_ids(ids, what)
    missing = missing_entries(values)
    if missing.any():
        raise DataError(f"{what} has no value in row {int(np.argmax(missing))}: fill it in.")
    check_hashable(what, values)
    text: dict[Any, str] = {}
    return [text.setdefault(name, str(name)) for name in values.tolist()]
