"""Whether an exported model ranks rows as the model itself does.

The model scores rows as they are given, in float64. The exported form gets them as its target
represents them, possibly in float32.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index, is_sparse, to_host
from rankwise.data.table_rows import feature_frame
from rankwise.errors import DataError, ExportError
from rankwise.export._endings import ModelStages
from rankwise.export._stages import OTHER, Calendar, Lookup, as_fitted, draw_rows
from rankwise.files import replacing
from rankwise.graph import QueryGroups
from rankwise.graph.query_groups import chosen_columns, columns_of
from rankwise.routing import predict_with_queries
from rankwise.tables import plural

DRAWN = 512  # rows
PER_QUERY = 16  # of them, for models that score whole queries
MISSING = 0.05  # of the values, where the model takes missing ones
TOLERANCE = {"float32": 1e-3, "float64": 1e-5}  # of the spread: errors of differences of scores
MOST_LOST = 1e-3  # of the pairs
NEAR_TIE = 1e-6  # of the spread: what float32 cannot be expected to keep
ROUNDING = 64 * np.finfo(np.float64).eps  # of the largest score: the model's own rounding errors
MOST_PAIRS = 2_000_000  # that are compared, about
MOST_OF_A_QUERY = 2000  # rows of a query whose pairs are compared
WHOLE_NUMBERS = 2.0**24  # up to which float32 holds all of them


@dataclass(frozen=True, eq=False)
class CheckRows:
    """Rows that are scored by a model and by its exported form."""

    X: Array
    qid: Any  # of shape (n_rows,), or None: all rows are one query
    words: str  # where they come from
    given: bool  # by the user, and not drawn
    encoders: Mapping[int, Lookup | Calendar]  # of the columns that hold numbers of texts or dates
    doubt: str | None = None  # why rows in use may be too much for float32, although these are not

    def scores(self, model: Any, names: tuple[str, ...] | None) -> Array:
        """The scores of the model itself, of shape (n_rows, n_outputs)."""
        return self._predicted(names, lambda X: predict_with_queries(model, X, self.qid))

    def deviations(self, model: Any, names: tuple[str, ...] | None) -> Array:
        """The standard deviations of a Gaussian process, or of a pipeline that ends in one."""
        model = getattr(model, "best_estimator_", model)
        return self._predicted(names, lambda X: model.predict(X, return_std=True)[1])

    def _predicted(self, names: tuple[str, ...] | None, predict: Callable[[Any], Any]) -> Array:
        with warnings.catch_warnings():  # of rows far from the training rows, as these may be
            warnings.simplefilter("ignore")
            found = predict(as_fitted(self.X, self.encoders, names))
        return np.asarray(to_host(found), dtype=np.float64).reshape(len(self.X), -1)

    def by_query(self, score: Callable[[Array], Array]) -> Array:
        """The scores of a function that takes the rows of one query at a time."""
        if self.qid is None:
            return score(self.X)
        groups = QueryGroups.of(self.qid, len(self.X))
        queries = np.split(groups.order, groups.indptr[1:-1])
        found = np.concatenate([score(self.X[rows]) for rows in queries])
        out = np.empty_like(found)
        out[groups.order] = found
        return out


@dataclass(frozen=True)
class ExportCheck:
    """How an exported model compares with the model itself on the same rows.

    Attributes
    ----------
    target : str
    rows : str
        Where the rows come from.
    n_rows : int
    largest_difference : float
        Between the scores of a row, after the constant that was left out is added.
    relative_difference : float
        The largest error of a difference of two scores of the same query, in units of the spread of
        the query: the range of its scores, or of the scores of the median query, if that is larger.
    tolerance : float
        The largest relative difference that is accepted.
    n_pairs : int
        Pairs of rows of the same query with different scores of the model. If there are many rows,
        about two million pairs are compared.
    n_lost : int
        Pairs whose order is reversed by the exported model, or lost in a tie.
    n_turned : int
        The number of reversed pairs among these.
    n_near_ties : int
        Lost pairs with scores that differ by at most a millionth of the spread of the query. At
        most 0.1% of the pairs may be lost otherwise.
    left_out : float
        A constant of the model that the target cannot represent. It does not change the order.
    std_difference : float or None
        The largest difference of standard deviations, relative to the largest; for Gaussian
        processes only.
    notes : tuple of str
        What else the reader should know.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.export import to_solr
    >>> X = [[0.0], [1.0], [2.0]]
    >>> check = to_solr(RankRLS(0.1).fit(X, [0, 1, 2]), rows=X).check
    >>> check.passed, check.n_pairs, check.n_lost
    (True, 3, 0)
    """

    target: str
    rows: str
    n_rows: int
    largest_difference: float
    relative_difference: float
    tolerance: float
    n_pairs: int
    n_lost: int
    n_turned: int
    n_near_ties: int
    left_out: float = 0.0
    std_difference: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the exported model may be used."""
        close = self.relative_difference <= self.tolerance
        std_is_close = self.std_difference is None or self.std_difference <= self.tolerance
        keeps_order = self.n_lost - self.n_near_ties <= MOST_LOST * self.n_pairs
        return close and std_is_close and keeps_order

    def to_dict(self) -> dict[str, Any]:
        """Its numbers by name, as in ``check.json``."""
        facts = {name: value for name, value in asdict(self).items() if value is not None}
        return {"passed": self.passed, **facts, "notes": list(self.notes)}

    def to_json(self) -> str:
        """The text of ``check.json``."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def words(self) -> str:
        """The comparison in a sentence, without the notes."""
        lost = f"{self.n_lost:,} of {plural(self.n_pairs, 'pair')} lose their order"
        if self.n_lost:
            n_tied, near = self.n_lost - self.n_turned, f"{self.n_near_ties:,} near-ties"
            lost += f" ({self.n_turned:,} reversed, {n_tied:,} tied; {near} among them)"
        if self.std_difference is not None:
            lost += f"; standard deviations are off by at most {self.std_difference:.2g} relative"
        return (
            f"On {self.rows}, scores are off by at most {self.largest_difference:.2g}, differences "
            f"of scores within a query by {self.relative_difference:.2g} times their range, and "
            f"{lost}."
        )

    def __str__(self) -> str:
        return " ".join((self.words(), *self.notes))


def compare_scores(
    ours: Array,
    theirs: Array,
    rows: CheckRows,
    *,
    target: str,
    precision: str,
    left_out: float = 0.0,
    deviations: tuple[Array, Array] | None = None,
    notes: tuple[str, ...] = (),
) -> ExportCheck:
    """Compare scores of shape (n_rows, n_outputs) with the scores of an exported model."""
    groups = QueryGroups.of(rows.qid, len(ours))
    with np.errstate(all="ignore"):  # what is not finite is refused
        error = ours - (theirs + left_out)
        rounding = ROUNDING * np.abs(ours).max(axis=0)
        spread = _spread(ours, groups, rounding)
        off = _ranges(error, groups)
        off = np.divide(off, spread, where=off > rounding, out=np.zeros_like(off))
    is_finite = bool(np.isfinite(error).all() and not np.isnan(off).any())
    std_difference = None
    if deviations is not None:
        one, two = deviations
        std_difference = float(np.abs(one - two).max() / np.abs(one).max())
    n_pairs, n_lost, n_turned, n_near_ties = count_lost(ours, theirs, groups, spread, rounding)
    if is_finite and not n_pairs:
        if rows.given:
            raise DataError(
                "There is no order to check: all rows of a query have the same score, or each "
                "query has one row. Give several rows of a query, or no rows."
            )
        notes = (*notes, "The model gives all rows of a query the same score.")
    return ExportCheck(
        target=target,
        rows=rows.words,
        n_rows=len(ours),
        largest_difference=float(np.abs(error).max()) if is_finite else np.inf,
        relative_difference=float(off.max()) if is_finite else np.inf,
        tolerance=TOLERANCE[precision],
        n_pairs=n_pairs,
        n_lost=n_lost,
        n_turned=n_turned,
        n_near_ties=n_near_ties,
        left_out=left_out,
        std_difference=std_difference,
        notes=notes,
    )


def count_lost(
    ours: Array, theirs: Array, groups: QueryGroups, spread: Array, rounding: Array
) -> tuple[int, int, int, int]:
    """Pairs of the same query with different scores of ours; pairs that are lost in theirs, and the
    reversed pairs and near-ties among these.
    """
    rows, end = _compared(groups)
    near = NEAR_TIE * spread[groups.codes[rows]]
    counts = np.zeros(4, dtype=np.int64)
    first, step = np.arange(len(rows)), 1
    while len(first := first[first + step < end[first]]):
        one, two = rows[first], rows[first + step]
        with np.errstate(invalid="ignore"):
            gap, other = ours[two] - ours[one], np.sign(theirs[two] - theirs[one])
        differs = np.abs(gap) > rounding
        lost = differs & (np.sign(gap) != other)
        turned = lost & (np.sign(gap) == -other)
        close = lost & (np.abs(gap) <= near[first])
        counts += [int(np.count_nonzero(each)) for each in (differs, lost, turned, close)]
        step += 1
    n_pairs, n_lost, n_turned, n_near_ties = counts.tolist()
    return n_pairs, n_lost, n_turned, n_near_ties


def _compared(groups: QueryGroups) -> tuple[Index, Index]:
    """Rows whose pairs are compared, query by query, and where the query of each ends.

    These are whole queries, at equal distances, and rows at equal distances of a large one.
    """
    sizes = np.minimum(groups.sizes, MOST_OF_A_QUERY)
    n_pairs = int((sizes * (sizes - 1) // 2).sum())
    chosen = np.flatnonzero(sizes > 1)[:: max(1, -(-n_pairs // MOST_PAIRS))]
    parts = [groups.order[:0]]
    for g in chosen:
        rows = groups.order[groups.indptr[g] : groups.indptr[g + 1]]
        parts.append(rows[:: -(-len(rows) // sizes[g])])
    lengths = [len(part) for part in parts]
    return np.concatenate(parts), np.repeat(np.cumsum(lengths), lengths)


def _spread(scores: Array, groups: QueryGroups, rounding: Array) -> Array:
    """The range of scores in each query, or in the median query if that is larger."""
    found = _ranges(scores, groups)
    for column, limit in zip(found.T, rounding, strict=True):
        varies = column[column > limit]
        np.maximum(column, np.median(varies) if len(varies) else 0.0, out=column)
    return found


def _ranges(values: Array, groups: QueryGroups) -> Array:
    """The largest minus the smallest value in each query, of shape (n_queries, n_outputs)."""
    by_query, starts = values[groups.order], groups.indptr[:-1]
    low, high = (extreme.reduceat(by_query, starts) for extreme in (np.minimum, np.maximum))
    return np.asarray(high - low)


def refuse_unless_passed(check: ExportCheck, way_out: str) -> None:
    """Raise an error about an export that does not rank as the model does."""
    if check.passed:
        return
    raise ExportError(
        f"The export to {check.target} does not score as the model does, and is not written. "
        f"{check.words()} At most {check.tolerance:g} times the range, and {MOST_LOST:.1%} of the "
        f"pairs without near-ties, are accepted. {way_out}"
    )


def refuse_in_doubt(rows: CheckRows, title: str) -> None:
    """Raise an error if drawn rows cannot show that float32 tells rows apart."""
    if rows.doubt is not None:
        raise ExportError(f"{title} takes features in float32. {rows.doubt}")


def check_rows(
    model: ModelStages, names: tuple[str, ...], rows: Any, qid: Any, *, complete: bool = False
) -> CheckRows:
    """The rows given, or rows drawn from the range of the training rows."""
    if rows is not None:
        X = _given_rows(rows, model, names)
        words = f"{plural(len(X), 'row')} given"
        return CheckRows(X, None if qid is None else to_host(qid), words, True, model.encoders)
    if qid is not None:
        raise DataError("qid belongs to rows: give both, or none of them.")
    rng = np.random.default_rng(0)
    n_rows = model.some_rows(DRAWN)
    X = draw_rows(model.stages, n_rows, rng)
    for k, text in model.texts.items():
        other = (rng.random(n_rows) < MISSING) & text.takes_others
        X[:, k] = np.where(other, OTHER, rng.integers(len(text.categories), size=n_rows))
    first = model.uses
    unknown = np.isnan(X)
    X = np.where(unknown, rng.standard_normal(X.shape), X)
    n_unknown = int((unknown.any(axis=0) & first.read).sum())
    words = f"{n_rows} rows drawn from the range of the training rows"
    if n_unknown == first.read.sum() > 0:
        words = f"{n_rows} rows of standard normal values, as the model does not know their range"
    elif n_unknown:
        words += f" ({plural(n_unknown, 'feature')} of unknown range: standard normal)"
    doubt = None
    if n_unknown:
        doubt = "The model does not know the range of its features"
    elif (largest := float(np.abs(X * first.read).max(initial=0.0))) > WHOLE_NUMBERS:
        doubt = f"Features reach {largest:.2g}, and float32 has whole numbers up to 16,777,216"
    if doubt is not None:
        doubt += ": give rows, to check that float32 can tell them apart."
    if not complete:
        missing = (rng.random(X.shape) < MISSING) & first.filled
        X = np.where(missing, first.missing, X)
    qid = np.arange(n_rows) // PER_QUERY if model.within_queries else None
    return CheckRows(X, qid, words, False, model.encoders, doubt)


def _given_rows(rows: Any, model: ModelStages, names: tuple[str, ...]) -> Array:
    if model.takes_tables and hasattr(rows, "columns"):
        given = set(columns_of(rows))
        used = [name for name in model.names or () if name in given]
        rows = feature_frame(chosen_columns(rows, used))
    if hasattr(rows, "columns"):
        found = [str(name) for name in columns_of(rows)]
        if model.names is not None:  # of the model or, failing that, of the target
            lacking = [name for name in model.names if name not in found]
            known = model.names if not lacking or not set(names) <= set(found) else names
            if lacking and known is model.names:
                raise DataError(f"The rows have no column {lacking[0]!r}, which is a feature.")
            rows = chosen_columns(rows, list(known))
    if is_sparse(rows):
        rows = rows.toarray()
    if model.encoders and np.ndim(rows) == 2 and np.shape(rows)[1] == model.n_features:
        whole = np.array(rows, dtype=object)
        for k, encoder in model.encoders.items():
            whole[:, k] = encoder.numbered(whole[:, k].tolist(), names[k])
        rows = whole
    try:
        X = np.asarray(to_host(rows), dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("rows must be numbers, one column for each feature.") from None
    if X.ndim != 2 or X.shape[1] != model.n_features or not len(X):
        raise DataError(
            f"rows must have {model.n_features} columns, the features of the model: got shape "
            f"{X.shape}."
        )
    return X


@dataclass(frozen=True, repr=False)
class Export:
    """A model in the format of a target; made by `to_onnx`, `to_elasticsearch` and others.

    Attributes
    ----------
    target : str
        "onnx", "elasticsearch", "opensearch", "solr", "vespa" or "json".
    content : str or bytes
        The exported model: the text for the target or, for ONNX, the bytes of the file.
    check : ExportCheck
        How its scores compare with the model's.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.export import to_json
    >>> export = to_json(RankRLS(0.1).fit([[0.0], [1.0]], [0, 1]))
    >>> export.target, export.content[0]
    ('json', '{')
    """

    target: str
    content: str | bytes
    check: ExportCheck

    def __repr__(self) -> str:
        unit = "bytes" if isinstance(self.content, bytes) else "characters"
        return f"<Export to {self.target}, {len(self.content):,} {unit}. {self.check}>"

    def with_notes(self, *notes: str) -> Export:
        """The same with further notes in its check.

        Parameters
        ----------
        *notes : str

        Returns
        -------
        Export
        """
        check = replace(self.check, notes=(*notes, *self.check.notes))
        return replace(self, check=check)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to a file, and the check beside it.

        Parameters
        ----------
        path : path-like
            The check is written to the same name with ``.check.json`` appended.

        Returns
        -------
        Path
        """
        path = Path(path)
        data = self.content.encode("utf-8") if isinstance(self.content, str) else self.content
        with replacing(path) as model, replacing(check_path(path)) as check:
            model.write_bytes(data)
            check.write_text(self.check.to_json(), encoding="utf-8")
        return path


def check_path(path: str | os.PathLike[str]) -> Path:
    """Where the check of an exported file is written.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    Path

    Examples
    --------
    >>> from rankwise.export import check_path
    >>> check_path("model.onnx").name
    'model.onnx.check.json'
    """
    return Path(f"{os.fspath(path)}.check.json")
