"""Simple orders that a ranker has to beat, and a query before and after it is ranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, is_sparse
from rankwise.metric_names import metric_label
from rankwise.model_selection.meta_rankers import (
    EQUAL,
    FEWEST_EQUAL,
    FOLDS,
    HeldOutPool,
    PairedDifference,
    clear_errors,
    shared_training,
)
from rankwise.tables import Column, Table, TableMixin

SAMPLED = 300  # queries by which the single column is chosen
MOST_COLUMNS = 1000  # that are tried
TOGETHER = 2**15  # numbers in the columns that are tried at once
FEWEST_ROWS, MOST_ROWS = 3, 20  # of a query in a picture


@dataclass(frozen=True, eq=False)
class Baselines(TableMixin):
    """Simple orders, their scores on held-out queries, and what a ranker gains over each.

    The single column, and whether its lowest or highest values come first, are chosen for each of
    10 folds of queries by the other queries, as the ranker is. Chance is the expected score of a
    random order.

    Attributes
    ----------
    metric : str
    score : float
        Of the ranker, as in ``score_estimate_``.
    names : list of str
    scores : ndarray of shape (n_baselines,)
    gains : ndarray of shape (n_baselines,)
        How much better the ranker is, a mean over the same queries; positive if it is better.
    standard_errors : ndarray of shape (n_baselines,)
        Of the gains, 1.45 times as large as if held-out queries were independent: the correction
        of Nadeau and Bengio for 10 folds, whose rankers share most of their training rows. Without
        it, the ranker would seem clearly better than chance in 8% to 15% of samples in which
        nothing can be learned. NaN for a single query.
    n_queries : int

    References
    ----------
    C. Nadeau, Y. Bengio: Inference for the generalization error. Machine Learning 52 (2003).
    """

    metric: str
    score: float
    names: list[str]
    scores: Array
    gains: Array
    standard_errors: Array
    n_queries: int

    @classmethod
    def of(cls, pool: HeldOutPool, outer: Array, X: Any, names: Sequence[str] | None) -> Baselines:
        """Compare the values of a ranker on each query, `outer`, with simple orders of rows X."""
        n_rows = len(pool.labels)
        simple = np.stack([-np.arange(n_rows, dtype=np.float64), np.zeros(n_rows)])
        as_they_came, chance = pool.values_of(simple)
        values = {"rows as they came": as_they_came}
        if X.shape[1] <= MOST_COLUMNS:
            name, found = single_column(pool, X, names)
            values[f"best single column ({name})"] = found
        values["chance"] = chance
        gaps = [PairedDifference.of(outer - found) for found in values.values()]
        sign = 1.0 if pool.measure.greater_is_better else -1.0
        return cls(
            pool.metric,
            sign * float(outer.mean()) + 0.0,
            list(values),
            np.array([sign * found.mean() + 0.0 for found in values.values()]),
            np.array([gap.difference for gap in gaps]),
            shared_training(FOLDS) * np.array([gap.standard_error for gap in gaps]),
            len(outer),
        )

    @property
    def intervals(self) -> Array:
        """The 95% intervals of the gains by Student's t, of shape (n_baselines, 2).

        NaN for a single query, or for the same gain on fewer than 6, which do not show its spread.
        """
        reach = clear_errors(self.n_queries) if self.n_queries > 1 else np.nan
        width = reach * self.standard_errors
        if self.n_queries < FEWEST_EQUAL:
            width = np.where(self.standard_errors > EQUAL * abs(self.gains), width, np.nan)
        return np.stack([self.gains - width, self.gains + width], axis=1)

    def to_table(self) -> Table:
        """The ranker, and each baseline with the gain over it."""
        gain = f"gain in {metric_label(self.metric)}"
        heads = ("order", ""), (metric_label(self.metric), ".4f"), (gain, "+.4f")
        columns = [Column(*head) for head in (*heads, ("low", "+.4f"), ("high", "+.4f"))]
        rows: list[tuple[Any, ...]] = [("the ranker", self.score, None, None, None)]
        unclear = []
        for name, score, gap, _, low, high in zip(*self._frame_columns().values(), strict=True):
            rows.append((name, score, gap, low, high))
            unclear += [] if low > 0 else [name]
        note = (
            "On queries that neither was chosen by. gain: how much better the ranker is; low, "
            "high: its 95% interval."
        )
        if unclear:
            note += f" The ranker is not clearly better than: {'; '.join(unclear)}."
        return Table(tuple(columns), tuple(rows), note=note)

    def _frame_columns(self) -> dict[str, Any]:
        low, high = self.intervals.T
        scores = {"order": self.names, "score": self.scores, "gain": self.gains}
        return scores | {"standard_error": self.standard_errors, "low": low, "high": high}

    def __repr__(self) -> str:
        return f"<Baselines: {', '.join(self.names)}>"


def single_column(pool: HeldOutPool, X: Any, names: Sequence[str] | None) -> tuple[str, Array]:
    """The values on each query of the column that is best on other queries; its name on all."""
    function, codes = pool.measure.function, pool.groups.codes
    known = function(pool.labels, np.zeros(len(codes)), codes, per_query=True).qid
    numbers = np.arange(len(known))  # of the queries for which the metric is defined
    sample = numbers[:: -(-len(known) // SAMPLED)]
    rows = np.flatnonzero(np.isin(codes, known[sample]))
    step = max(1, TOGETHER // max(len(rows), 1))
    values = np.concatenate(
        [
            pool.values_of(_both_ways(X[rows], slice(start, start + step)), rows)
            for start in range(0, X.shape[1], step)
        ]
    )
    fold, in_sample, n_queries = numbers % FOLDS, sample % FOLDS, len(numbers)
    found = np.empty(n_queries)
    full: dict[int, Array] = {}
    for k in range(min(n_queries, FOLDS)):
        others = in_sample != k if n_queries > 1 else slice(None)
        best = int(np.argmax(values[:, others].mean(axis=1)))
        if best not in full:
            full[best] = pool.values_of(_both_ways(X, [best // 2])[[best % 2]])[0]
        found[fold == k] = full[best][fold == k]
    best = int(np.argmax(values.mean(axis=1)))
    name = f"column {best // 2}" if names is None else str(names[best // 2])
    return f"{name}, {'lowest' if best % 2 else 'highest'} first", found


def _both_ways(X: Any, columns: Any) -> Array:
    """Columns as scores, each highest first and then lowest first."""
    some = X[:, columns].toarray() if is_sparse(X) else X[:, columns]
    scores = np.asarray(some.T, dtype=np.float64)
    return np.stack([scores, -scores], axis=1).reshape(2 * len(scores), -1)


@dataclass(frozen=True, eq=False)
class ExampleQuery:
    """A query of middling quality, with the scores of rankers that were trained without it.

    Attributes
    ----------
    query : str
        Its id.
    labels, scores : ndarray of shape (n_rows,)
        Of its rows as they came.
    metric : str
    before, after : float
        The metric of the rows as they came, and of their scores.
    """

    query: str
    labels: Array
    scores: Array
    metric: str
    before: float
    after: float

    @property
    def words(self) -> str:
        """The query and its scores."""
        change = f"{metric_label(self.metric)} {self.before:.3f} before, {self.after:.3f} after"
        return f"Query {self.query} ({change})"

    @classmethod
    def of(cls, pool: HeldOutPool, chosen: Any, qid: Any) -> ExampleQuery | None:
        """The query whose score is nearest to the median, of those that fit into a picture.

        None if there are no queries, or none with 3 to 20 rows.
        """
        function = pool.measure.function
        codes, scores = pool.groups.codes, pool.scores[chosen].mean(axis=0)
        sizes = pool.groups.sizes
        found = function(pool.labels, scores, codes, per_query=True)
        fits = np.flatnonzero((sizes[found.qid] >= FEWEST_ROWS) & (sizes[found.qid] <= MOST_ROWS))
        if qid is None or not len(fits):
            return None
        away = np.abs(found.values - np.median(found.values))
        k = fits[np.argmin(away[fits])]
        rows = np.flatnonzero(codes == found.qid[k])
        labels = pool.labels[rows]
        before = function(labels, -np.arange(len(rows), dtype=np.float64))
        values = float(before), float(found.values[k])
        own = np.asarray(scores[rows], dtype=np.float64)
        return cls(str(qid[rows[0]]), labels, own, pool.metric, *values)
