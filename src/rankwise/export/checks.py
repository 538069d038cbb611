"""Whether an exported model scores rows as the model itself does."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, is_sparse, to_host
from rankwise.errors import DataError, ExportError
from rankwise.export._categories import OTHER, Lookup, with_texts
from rankwise.export._endings import is_within_queries
from rankwise.export._model_stages import ModelStages
from rankwise.export._stages import draw_rows
from rankwise.export._uses import first_uses
from rankwise.graph import QueryGroups
from rankwise.graph.id_arrays import as_ids
from rankwise.routing import predict_with_queries
from rankwise.tables import plural

DRAWN = 512  # rows
PER_QUERY = 16  # of them, for models that score whole queries
MISSING = 0.05  # of the values, where the model fills them in
MOST_COMPARED = 2000  # rows whose pairs are counted
MOST_TURNED = 1e-3  # of the pairs
STD_TOLERANCE = 1e-6  # relative: rounding errors of variances grow in their square roots


@dataclass(frozen=True, eq=False)
class CheckRows:
    """Rows that are scored by a model and by its exported form."""

    X: Array
    qid: Any  # of shape (n_rows,), or None: all rows are one query
    words: str  # where they come from
    texts: dict[int, Lookup]  # the columns that hold numbers of texts

    def scores(self, model: Any, names: tuple[str, ...] | None) -> Array:
        """The scores of the model itself, of shape (n_rows, n_outputs)."""
        with warnings.catch_warnings():  # of rows far from those of training, as these may be
            warnings.simplefilter("ignore")
            X = with_texts(self.X, self.texts, names)
            return _columns(predict_with_queries(model, X, self.qid))

    def deviations(self, model: Any, names: tuple[str, ...] | None) -> Array:
        """The standard deviations of a Gaussian process, or of a pipeline that ends in one."""
        model = getattr(model, "best_estimator_", model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            X = with_texts(self.X, self.texts, names)
            return _columns(model.predict(X, return_std=True)[1])

    def by_query(self, score: Callable[[Array], Array]) -> Array:
        """The scores of a function that takes the rows of one query at a time."""
        if self.qid is None:
            return score(self.X)
        groups = QueryGroups.of(self.qid, len(self.X))
        parts = [
            (rows, score(self.X[rows])) for rows in np.split(groups.order, groups.indptr[1:-1])
        ]
        out = np.empty((len(self.X), parts[0][1].shape[1]))
        for rows, values in parts:
            out[rows] = values
        return out

    def in_float32(self) -> CheckRows:
        """The same rows, rounded."""
        with np.errstate(over="ignore"):
            rounded = self.X.astype(np.float32).astype(np.float64)
        if not np.array_equal(np.isfinite(rounded), np.isfinite(self.X)):
            raise DataError(
                "The rows have values that overflow float32: divide them, or use float64."
            )
        return replace(self, X=rounded)


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
        The same in units of the largest absolute score, or of the range of scores where the
        target has no constant.
    tolerance : float
        The largest relative difference that is accepted.
    n_pairs, n_turned : int
        Pairs of rows (of the same query) with different scores, and those that the exported model
        has in the reverse order. At most 0.1% are accepted.
    left_out : float
        A constant of the model that the target has no place for. It does not change the order.
    std_difference : float or None
        The largest difference of standard deviations, relative to the largest; of Gaussian
        processes only.
    notes : tuple of str
        What else the reader should know.
    """

    target: str
    rows: str
    n_rows: int
    largest_difference: float
    relative_difference: float
    tolerance: float
    n_pairs: int
    n_turned: int
    left_out: float = 0.0
    std_difference: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the exported model may be used."""
        close = self.relative_difference <= self.tolerance
        std_limit = max(self.tolerance, STD_TOLERANCE)
        std_is_close = self.std_difference is None or self.std_difference <= std_limit
        return close and std_is_close and self.n_turned <= MOST_TURNED * self.n_pairs

    def to_dict(self) -> dict[str, Any]:
        """Its numbers by name, as in ``check.json``."""
        facts = {name: value for name, value in asdict(self).items() if value is not None}
        return {"passed": self.passed, **facts, "notes": list(self.notes)}

    def to_json(self) -> str:
        """The text of ``check.json``."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def __str__(self) -> str:
        difference = f"{self.largest_difference:.2g} ({self.relative_difference:.2g} relative)"
        if self.std_difference is not None:
            difference += f", that of standard deviations {self.std_difference:.2g} relative"
        return (
            f"On {self.rows}, the largest difference of scores is {difference}, and "
            f"{self.n_turned:,} of {plural(self.n_pairs, 'pair')} are reversed."
        )


def compare_scores(
    ours: Array,
    theirs: Array,
    rows: CheckRows,
    *,
    target: str,
    tolerance: float,
    left_out: float = 0.0,
    by_range: bool = False,
    deviations: tuple[Array, Array] | None = None,
    notes: tuple[str, ...] = (),
) -> ExportCheck:
    """Compare scores of shape (n_rows, n_outputs) with those of an exported model."""
    difference = float(np.abs(ours - (theirs + left_out)).max(initial=0.0))
    if not np.isfinite(difference):
        difference = np.inf
    size = float(np.ptp(ours, axis=0).max() if by_range else np.abs(ours).max())
    std_difference = None
    if deviations is not None:
        one, two = deviations
        std_difference = _relative(float(np.abs(one - two).max()), float(np.abs(one).max()))
    n_pairs, n_turned = count_turned(ours, theirs, rows.qid)
    return ExportCheck(
        target=target,
        rows=rows.words,
        n_rows=len(ours),
        largest_difference=difference,
        relative_difference=_relative(difference, size),
        tolerance=tolerance,
        n_pairs=n_pairs,
        n_turned=n_turned,
        left_out=left_out,
        std_difference=std_difference,
        notes=notes,
    )


def count_turned(ours: Array, theirs: Array, qid: Any) -> tuple[int, int]:
    """Pairs with different scores of ours, and those that are in the other order in theirs.

    Pairs are those of the same query, among at most 2,000 rows.
    """
    step = -(-len(ours) // MOST_COMPARED)
    ours, theirs = ours[::step], theirs[::step]
    codes = QueryGroups.of(None if qid is None else as_ids(qid)[::step], len(ours)).codes
    n_pairs = n_turned = 0
    for column in range(ours.shape[1]):
        for k in range(len(ours) - 1):
            same = codes[k + 1 :] == codes[k]
            gap = np.sign(ours[k + 1 :, column] - ours[k, column])[same]
            other = np.sign(theirs[k + 1 :, column] - theirs[k, column])[same]
            n_pairs += int(np.count_nonzero(gap))
            n_turned += int(np.count_nonzero(gap * other < 0))
    return n_pairs, n_turned


def refuse_unless_passed(check: ExportCheck, way_out: str) -> None:
    """Raise an error about an export that does not score as the model does."""
    if check.passed:
        return
    raise ExportError(
        f"The export to {check.target} does not score as the model does, and is not written. "
        f"{check} At most {check.tolerance:g} and {MOST_TURNED:.1%} of the pairs are accepted. "
        f"{way_out}"
    )


def check_rows(
    model: ModelStages, names: tuple[str, ...], rows: Any, qid: Any, *, complete: bool = False
) -> CheckRows:
    """The rows given, or rows drawn from the range of the training rows."""
    if rows is not None:
        X = _given_rows(rows, model, names)
        words = f"{plural(len(X), 'row')} given"
        return CheckRows(X, None if qid is None else to_host(qid), words, model.texts)
    if qid is not None:
        raise DataError("qid belongs to rows: give both, or none of them.")
    rng = np.random.default_rng(0)
    n_rows = model.some_rows(DRAWN)
    X = draw_rows(model.stages, n_rows, rng)
    for k, text in model.texts.items():
        other = (rng.random(n_rows) < MISSING) & text.takes_others
        X[:, k] = np.where(other, OTHER, rng.integers(len(text.categories), size=n_rows))
    unknown = np.isnan(X)
    X = np.where(unknown, rng.standard_normal(X.shape), X)
    n_unknown = int(unknown.any(axis=0).sum())
    words = f"{n_rows} rows drawn from the range of the training rows"
    if n_unknown == X.shape[1]:
        words = f"{n_rows} rows of standard normal values, as the model does not know their range"
    elif n_unknown:
        words += f" ({plural(n_unknown, 'feature')} of unknown range: standard normal)"
    fill = first_uses(model.stages, model.n_features)
    if not complete:
        filled = ~np.isnan(fill.value)
        missing = (rng.random(X.shape) < MISSING) & filled
        X = np.where(missing, fill.missing, X)
    within = is_within_queries(model.stages)
    return CheckRows(X, np.arange(n_rows) // PER_QUERY if within else None, words, model.texts)


def _given_rows(rows: Any, model: ModelStages, names: tuple[str, ...]) -> Array:
    if hasattr(rows, "columns"):
        found = [str(name) for name in rows.columns]
        lacking = [name for name in names if name not in found]
        if model.names is not None and lacking:
            raise DataError(f"The rows have no column {lacking[0]!r}, which is a feature.")
        if model.names is not None:
            rows = rows[list(model.names)]
    if is_sparse(rows):
        rows = rows.toarray()
    if model.texts and np.ndim(rows) == 2 and np.shape(rows)[1] == model.n_features:
        whole = np.array(rows, dtype=object)
        for k, text in model.texts.items():
            whole[:, k] = text.numbered(whole[:, k].tolist(), names[k])
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


def _relative(difference: float, size: float) -> float:
    if difference == 0.0:
        return 0.0
    return difference / size if size > 0 else np.inf


def _columns(values: Any) -> Array:
    array = np.asarray(to_host(values), dtype=np.float64)
    return array.reshape(len(array), -1)
