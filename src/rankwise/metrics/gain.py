"""Normalized discounted cumulative gain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import DataError
from rankwise.metrics._ranking import (
    Array,
    QueryValues,
    Ranking,
    Undefined,
    at_cutoffs,
    check_choice,
    check_cutoffs,
    check_undefined,
    settle,
)

GAINS = ("exponential", "linear")
DISCOUNTS = ("log2", "letor")
SCORE_TIES = ("average", "order")
NO_CUTOFF = np.iinfo(np.int64).max
NO_GAIN = "no row with a gain above 0"

_LARGEST_GRADE = 63  # up to here whole labels are counted, not sorted
_LARGEST_SUM = 1e300


@overload
def ndcg(
    y: Any,
    scores: Any,
    qid: Any = ...,
    *,
    k: int | None = ...,
    gain: str = ...,
    discount: str = ...,
    score_ties: str = ...,
    undefined: Undefined = ...,
    per_query: Literal[False] = ...,
) -> float: ...
@overload
def ndcg(
    y: Any,
    scores: Any,
    qid: Any = ...,
    *,
    k: Sequence[int] | NDArray[np.integer],
    gain: str = ...,
    discount: str = ...,
    score_ties: str = ...,
    undefined: Undefined = ...,
    per_query: Literal[False] = ...,
) -> Array: ...
@overload
def ndcg(
    y: Any,
    scores: Any,
    qid: Any = ...,
    *,
    k: int | Sequence[int] | NDArray[np.integer] | None = ...,
    gain: str = ...,
    discount: str = ...,
    score_ties: str = ...,
    undefined: Undefined = ...,
    per_query: Literal[True],
) -> QueryValues: ...
def ndcg(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    k: int | Sequence[int] | NDArray[np.integer] | None = None,
    gain: str = "exponential",
    discount: str = "log2",
    score_ties: str = "average",
    undefined: Undefined = 0.0,
    per_query: bool = False,
) -> float | Array | QueryValues:
    r"""Normalized discounted cumulative gain (NDCG).

    .. math::

        \mathrm{NDCG@}k = \frac{\sum_{r \le k} g(y_{(r)})\, d(r)}
        {\sum_{r \le k} g(y^*_{(r)})\, d(r)}

    for each query, averaged over queries; :math:`y_{(r)}` is the label at rank r by the scores,
    :math:`y^*_{(r)}` by the labels themselves.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Labels, larger is better, none negative.
    scores : array-like of shape (n_rows,)
        Predicted scores, larger is better.
    qid : array-like of shape (n_rows,), optional
        Query of every row, any dtype, in any order. None: all rows are one query.
    k : int or sequence of int, optional
        The cut-off. Several give an array, at hardly the cost of one. None: the whole ranking.
    gain : {"exponential", "linear"}, default="exponential"
        :math:`g(y) = 2^y - 1`, or :math:`g(y) = y`.
    discount : {"log2", "letor"}, default="log2"
        :math:`d(r) = 1/\log_2(r + 1)`; or that of LETOR 1.0, 1 at rank one and
        :math:`1/\log_2 r` from rank two, which makes the first two ranks equal.
    score_ties : {"average", "order"}, default="average"
        Rows with equal scores: the expected value over all their orders (each rank of the block
        gets its mean gain), or in the order of the rows, as the LETOR scripts and ranx have it.
    undefined : {"skip", "raise"} or float, default=0.0
        What becomes of a query where every gain is 0: it contributes this number (0 in LETOR),
        it is left out of the mean, or it is an error.
    per_query : bool, default=False
        Return the value of every query instead of their mean.

    Returns
    -------
    float, ndarray of shape (n_cutoffs,) or QueryValues
        The mean over queries, one per cut-off where `k` is a sequence; or the values with their
        query ids.

    Notes
    -----
    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> ndcg([2, 0, 1], [0.9, 0.5, 0.1])
    0.9639404333166532
    >>> ndcg([2, 0, 1], [0.9, 0.5, 0.1], k=[1, 2])
    array([1.        , 0.82623466])
    >>> ndcg([2, 0, 1], [0.9, 0.5, 0.1], k=2, discount="letor")
    0.75
    """
    check_gain_options(gain, discount, score_ties)
    check_undefined(undefined)
    cutoffs = check_cutoffs(NO_CUTOFF if k is None else k)
    ranking = Ranking.of(y, scores, qid)
    values = ndcgs(ranking, cutoffs, gain, discount, score_ties)
    result = settle(ranking, values, undefined, metric="NDCG", lacks=NO_GAIN)
    return at_cutoffs(result, k, per_query)


def check_gain_options(gain: Any, discount: Any, score_ties: Any) -> None:
    """Refuse unknown names."""
    check_choice("gain", gain, GAINS)
    check_choice("discount", discount, DISCOUNTS)
    check_choice("score_ties", score_ties, SCORE_TIES)


def ndcgs(
    ranking: Ranking, cutoffs: NDArray[np.int64], gain: str, discount: str, score_ties: str
) -> Array:
    """NDCG of every query at every cut-off, NaN where every gain is 0."""
    from rankwise.metrics import _loops

    gains, ideal = _gains(ranking, gain)
    ascending, where = np.unique(cutoffs, return_inverse=True)
    n_ranks = min(int(ranking.groups.sizes.max()), int(ascending[-1]))
    curves = _loops.ndcg_curves(
        gains,
        ideal,
        ranking.tied,
        ranking.groups.indptr,
        _discounts(n_ranks, discount),
        score_ties == "average",
        ascending,
    )
    return curves[:, where]


def _gains(ranking: Ranking, gain: str) -> tuple[Array, Array]:
    """The gain of every row in the order of the scores, and in descending order."""
    from rankwise.metrics import _loops, _sorting

    labels, indptr = ranking.labels, ranking.groups.indptr
    check_gainful(labels, gain)
    ideal = np.empty_like(labels)
    largest = labels.max()
    if largest <= _LARGEST_GRADE:
        gains = np.empty_like(labels)
        table = _gain(np.arange(largest + 1), gain)
        if _loops.grade_gains(labels, indptr, table, gains, ideal):
            return gains, ideal
    gains = _gain(labels, gain)
    _sorting.sort_gains(gains.view(np.int64), indptr, ideal.view(np.int64))
    return gains, ideal


def check_gainful(labels: Array, gain: str) -> None:
    """Refuse labels that have no gain."""
    smallest, largest = float(labels.min()), float(labels.max())
    if smallest < 0:
        raise DataError(
            f"NDCG needs labels of 0 and above: got {smallest:g}. Shift the labels, or use a "
            "pairwise metric (disagreement_error, kendall_tau), which takes any real labels."
        )
    with np.errstate(over="ignore"):
        most = float(_gain(np.array([largest]), gain)[0]) * len(labels)
    if most > _LARGEST_SUM:
        way_out = (
            "use gain='linear', or a pairwise metric (disagreement_error, kendall_tau)"
            if gain == "exponential"
            else "divide them by a constant, which changes nothing"
        )
        raise DataError(f"Labels up to {largest:g} are too large for gain={gain!r}: {way_out}.")


def _gain(labels: Array, gain: str) -> Array:
    return np.exp2(labels) - 1.0 if gain == "exponential" else labels + 0.0


def _discounts(n_ranks: int, discount: str) -> Array:
    """The discount of the ranks 1, ..., n_ranks."""
    ranks = np.arange(1, n_ranks + 1, dtype=np.float64)
    if discount == "letor":
        return 1.0 / np.log2(np.maximum(ranks, 2.0))
    return 1.0 / np.log2(ranks + 1.0)
