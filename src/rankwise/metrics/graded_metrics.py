"""Metrics of graded rows at the top of a ranking: ERR and NDCG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import DataError
from rankwise.metrics._row_order import sort_queries
from rankwise.metrics._top_sums import TopRows, mean_over_ties
from rankwise.metrics.cutoffs import OPTIONAL_CUTOFFS, at_cutoffs, divided
from rankwise.metrics.ranked_queries import Array, RankedQueries, RankedRows
from rankwise.metrics.ranking_metric import ranking_metric
from rankwise.parameters import AnyOf, Choice, Number, Rule

_LARGEST_SUM = 1e300

GAIN_OPTIONS: Mapping[str, Rule] = {
    "gain": Choice("exponential", "linear"),
    "discount": Choice("log2", "letor"),
    "score_ties": Choice("average", "order"),
}


@ranking_metric(
    "ERR",
    options={
        "k": OPTIONAL_CUTOFFS,
        "max_grade": AnyOf(None, Number(0, 1000, open_low=True)),
        "score_ties": Choice("average", "order"),
    },
    undefined=0.0,
    lacks="no row with a label above 0",
)
def expected_reciprocal_rank(
    ranked: RankedQueries,
    *,
    k: int | Sequence[int] | NDArray[np.integer] | None = None,
    max_grade: float | None = None,
    score_ties: str = "average",
) -> Array:
    r"""Expected reciprocal rank (ERR).

    .. math::

        \mathrm{ERR@}k = \sum_{r \le k} \frac{1}{r} R_r \prod_{s < r} (1 - R_s),
        \quad R_r = \frac{2^{y_{(r)}} - 1}{2^{y_{\max}}}

    for each query, averaged over queries: the expected reciprocal of the rank at which a reader
    stops who stops at a row of label y with probability R [1]_. Labels must not be negative.

    Parameters
    ----------
    k : int or sequence of int, optional
        As for `average_precision`.
    max_grade : float, optional
        The largest possible label :math:`y_{\max}`. None: the largest label in y. TREC's gdeval
        uses 4.
    score_ties : {"average", "order"}, default="average"
        As for `average_precision`.

    Notes
    -----
    O(n log n) time in the rows of a query, and O(n t) for t tied rows; O(n) memory.

    References
    ----------
    .. [1] Chapelle, Metzler, Zhang, Grinspan: Expected reciprocal rank for graded relevance.
       CIKM 2009.

    Examples
    --------
    >>> expected_reciprocal_rank([2, 0, 1], [0.9, 0.5, 0.1])  # 3/4 + (1/4) (1/4) / 3
    0.7708
    """
    from rankwise.metrics._listwise_loops import cascade_curves

    smallest, largest = float(ranked.labels.min()), float(ranked.labels.max())
    if smallest < 0:
        raise DataError(f"ERR needs labels of 0 and above: got {smallest:g}. Shift the labels.")
    highest = largest if max_grade is None else float(max_grade)
    if largest > highest:
        raise DataError(f"y has a label of {largest:g}, above max_grade={highest:g}.")
    labels = ranked.labels
    stopping = np.exp2(labels - highest) - np.exp2(-highest)
    small = labels < 1.0
    stopping[small] = np.expm1(labels[small] * np.log(2.0)) * np.exp2(-highest)  # no digits lost

    def curves(part: RankedRows, cutoffs: NDArray[np.int64]) -> Array:
        values = np.zeros((len(part.stops), len(cutoffs)))
        rows = stopping[part.rows], part.tied, part.indptr, part.stops
        cascade_curves(*rows, score_ties == "average", cutoffs, values)
        return values

    values = at_cutoffs(curves, ranked, k)
    return divided(values, np.maximum.reduceat(stopping, ranked.groups.indptr[:-1]) > 0)


@ranking_metric(
    "NDCG",
    options={"k": OPTIONAL_CUTOFFS, **GAIN_OPTIONS},
    undefined=0.0,
    lacks="no row with a gain above 0",
)
def ndcg(
    ranked: RankedQueries,
    *,
    k: int | Sequence[int] | NDArray[np.integer] | None = None,
    gain: str = "exponential",
    discount: str = "log2",
    score_ties: str = "average",
) -> Array:
    r"""Normalized discounted cumulative gain (NDCG).

    .. math::

        \mathrm{NDCG@}k = \frac{\sum_{r \le k} g(y_{(r)})\, d(r)}
        {\sum_{r \le k} g(y^*_{(r)})\, d(r)}

    for each query, averaged over queries; :math:`y_{(r)}` is the label at rank r by the scores,
    :math:`y^*_{(r)}` by the labels themselves. Labels must not be negative.

    Parameters
    ----------
    k : int or sequence of int, optional
        The cut-off. Several give an array, at almost no extra cost. None: the whole ranking.
    gain : {"exponential", "linear"}, default="exponential"
        :math:`g(y) = 2^y - 1`, or :math:`g(y) = y`.
    discount : {"log2", "letor"}, default="log2"
        :math:`d(r) = 1/\log_2(r + 1)`; or that of LETOR 1.0, 1 at rank one and
        :math:`1/\log_2 r` from rank two, which makes the first two ranks equal.
    score_ties : {"average", "order"}, default="average"
        As for `average_precision`; on average, each rank of tied rows gets their mean gain.

    Notes
    -----
    A query whose gains are all 0 counts 0 in LETOR.

    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> ndcg([2, 0, 1], [0.9, 0.5, 0.1])
    0.9639
    >>> ndcg([2, 0, 1], [0.9, 0.5, 0.1], k=[1, 2]).round(4)
    array([1.    , 0.8262])
    >>> ndcg([2, 0, 1], [0.9, 0.5, 0.1], k=2, discount="letor")
    0.75
    """
    _check_gains(ranked.labels, gain)
    discounts = partial(_discounts, discount=discount)

    def curves(part: RankedRows, cutoffs: NDArray[np.int64]) -> Array:
        indptr, gains = part.indptr, _gain(part.labels, gain)
        top = TopRows.of(indptr, part.stops, discounts, cutoffs)
        found = top.sums(mean_over_ties(gains, part.tied) if score_ties == "average" else gains)
        if (part.stops < indptr[1:]).any():
            top = TopRows.of(indptr, indptr[1:], discounts, cutoffs)
        best = -top.sums(sort_queries(-gains, indptr))
        return np.minimum(divided(found, best), 1.0)

    return at_cutoffs(curves, ranked, k)


def _check_gains(labels: Array, gain: str) -> None:
    """Raise an error for labels that have no gain."""
    smallest, largest = float(labels.min()), float(labels.max())
    if smallest < 0:
        raise DataError(
            f"NDCG needs labels of 0 and above: got {smallest:g}. Shift the labels, or use a "
            "pairwise metric (disagreement_error, kendall_tau), which takes any real labels."
        )
    with np.errstate(over="ignore"):
        most = float(_gain(np.array([largest]), gain)[0]) * len(labels)
    if most > _LARGEST_SUM:
        remedy = (
            "use gain='linear', or a pairwise metric (disagreement_error, kendall_tau)"
            if gain == "exponential"
            else "divide them by a constant, which does not change NDCG"
        )
        raise DataError(f"Labels up to {largest:g} are too large for gain={gain!r}: {remedy}.")


def _gain(labels: Array, gain: str) -> Array:
    if gain == "linear":
        return labels + 0.0
    gains = np.exp2(labels) - 1.0
    small = (labels > 0) & (labels < 1e-3)  # where the difference would cancel
    if small.any():
        gains[small] = np.expm1(labels[small] * np.log(2.0))
    return gains


def _discounts(n_ranks: int, discount: str) -> Array:
    """The discounts of the ranks 1, ..., n_ranks."""
    ranks = np.arange(1, n_ranks + 1, dtype=np.float64)
    if discount == "letor":
        return 1.0 / np.log2(np.maximum(ranks, 2.0))
    return 1.0 / np.log2(ranks + 1.0)
