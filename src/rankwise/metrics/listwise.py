"""Metrics of the rows at the top of a ranking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import DataError
from rankwise.metrics._row_order import sort_queries
from rankwise.metrics._top_sums import TopRows, mean_over_ties, precision_curves
from rankwise.metrics.ranked_queries import Array, RankedQueries, RankedRows
from rankwise.metrics.ranking_metric import ranking_metric
from rankwise.parameters import AnyOf, Choice, Number, Rule

_LARGEST_SUM = 1e300


@dataclass(frozen=True)
class Cutoffs:
    """One cut-off or several: whole numbers of at least 1."""

    def allows(self, value: Any) -> bool:
        """Whether a value is a cut-off or a sequence of them."""
        k = np.asarray(value)
        return k.ndim <= 1 and k.size > 0 and k.dtype.kind in "iu" and int(k.min()) >= 1

    def hint(self, value: Any) -> str:
        """No suggestion."""
        return ""

    def __str__(self) -> str:
        return "an integer of at least 1 or a sequence of such integers"


OPTIONAL_CUTOFFS = AnyOf(Cutoffs(), None)
RELEVANCE_OPTIONS: Mapping[str, Rule] = {
    "relevant": Number(),
    "score_ties": Choice("average", "order"),
}
GAIN_OPTIONS: Mapping[str, Rule] = {
    "gain": Choice("exponential", "linear"),
    "discount": Choice("log2", "letor"),
    "score_ties": Choice("average", "order"),
}
_NO_RELEVANT = "no row with a label of at least {relevant}"


@ranking_metric(
    "Average precision",
    options={"k": OPTIONAL_CUTOFFS, **RELEVANCE_OPTIONS},
    undefined=0.0,
    lacks=_NO_RELEVANT,
)
def average_precision(
    ranked: RankedQueries,
    *,
    k: int | Sequence[int] | NDArray[np.integer] | None = None,
    relevant: float = 1,
    score_ties: str = "average",
) -> Array:
    r"""Mean average precision (MAP), of the whole ranking or at k.

    .. math::

        \mathrm{AP} = \frac{1}{R} \sum_{\text{relevant } i}
        \frac{\text{relevant rows down to the rank of } i}{\text{rank of } i}

    for each query with R relevant rows, averaged over queries. AP@k sums over the relevant rows
    among the first k only, and still divides by R, as trec_eval does.

    Parameters
    ----------
    k : int or sequence of int, optional
        The cut-off. Several give an array, at hardly the cost of one. None: the whole ranking.
    relevant : float, default=1
        Rows with at least this label are relevant.
    score_ties : {"average", "order"}, default="average"
        How to rank rows with equal scores: take the expected value over all their orders, or
        keep the order of the rows, as the LETOR scripts and ranx do. Only the first does not
        depend on the order of the rows.

    Notes
    -----
    A query without a relevant row counts 0 in LETOR.

    A block of n rows with equal scores and r relevant ones, after s rows with R' relevant ones,
    adds :math:`\sum_{i=1}^{n} \frac{r}{n} \cdot \frac{R' + 1 + (i-1)(r-1)/(n-1)}{s + i}`.

    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> average_precision([1, 0, 1], [0.9, 0.5, 0.1])  # (1/1 + 2/3) / 2
    0.8333
    >>> average_precision([1, 0], [0.5, 0.5])  # rank one or two
    0.75
    """

    def curves(part: RankedRows, cutoffs: NDArray[np.int64]) -> Array:
        return precision_curves(part, score_ties == "average", relevant, cutoffs)

    return _divided(_at_cutoffs(curves, ranked, k), _n_relevant(ranked, relevant))


@ranking_metric(
    "Reciprocal rank",
    options={"k": OPTIONAL_CUTOFFS, **RELEVANCE_OPTIONS},
    undefined=0.0,
    lacks=_NO_RELEVANT,
)
def reciprocal_rank(
    ranked: RankedQueries,
    *,
    k: int | Sequence[int] | NDArray[np.integer] | None = None,
    relevant: float = 1,
    score_ties: str = "average",
) -> Array:
    r"""Mean reciprocal rank of the first relevant row (MRR), of the whole ranking or at k.

    .. math:: \mathrm{RR} = 1 / \min_{\text{relevant } i} \text{rank of } i

    for each query, averaged over queries. With a cut-off, a query without a relevant row among the
    first k counts 0.

    Parameters
    ----------
    k : int or sequence of int, optional
        As for `average_precision`.
    relevant, score_ties : float, str
        As for `average_precision`.

    Notes
    -----
    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> reciprocal_rank([0, 1, 1], [0.9, 0.5, 0.1])
    0.5
    >>> reciprocal_rank([0, 1, 1], [0.9, 0.5, 0.1], k=1)
    0.0
    """
    from rankwise.metrics._listwise_loops import reciprocal_rank_curves

    values = _relevance_curve(reciprocal_rank_curves, ranked, k, relevant, score_ties)
    return _divided(values, _n_relevant(ranked, relevant) > 0)


@ranking_metric(
    "Precision at k",
    options={"k": Cutoffs(), **RELEVANCE_OPTIONS},
    undefined=0.0,
    lacks=_NO_RELEVANT,
)
def precision_at_k(
    ranked: RankedQueries,
    *,
    k: int | Sequence[int] | NDArray[np.integer] = 10,
    relevant: float = 1,
    score_ties: str = "average",
) -> Array:
    r"""Precision at k: the share of relevant rows among the k with the highest scores.

    .. math:: \mathrm{P@}k = \frac{\text{relevant rows among the first } k}{k}

    for each query, averaged over queries. The divisor is k even for a query with fewer rows, as
    in LETOR.

    Parameters
    ----------
    k : int or sequence of int, default=10
        The cut-off. Several give an array, at hardly the cost of one.
    relevant, score_ties : float, str
        As for `average_precision`.

    Notes
    -----
    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> precision_at_k([1, 0, 1], [0.9, 0.5, 0.1], k=2)
    0.5
    >>> precision_at_k([1, 0, 1], [0.9, 0.5, 0.1], k=[1, 2, 4])
    array([1. , 0.5, 0.5])
    """
    share = np.minimum(_relevant_among(ranked, k, relevant, score_ties) / np.asarray(k), 1.0)
    return _divided(share, _n_relevant(ranked, relevant) > 0)


@ranking_metric(
    "Recall at k",
    options={"k": Cutoffs(), **RELEVANCE_OPTIONS},
    undefined=0.0,
    lacks=_NO_RELEVANT,
)
def recall_at_k(
    ranked: RankedQueries,
    *,
    k: int | Sequence[int] | NDArray[np.integer] = 10,
    relevant: float = 1,
    score_ties: str = "average",
) -> Array:
    r"""Recall at k: the share of the relevant rows that are among the k with the highest scores.

    .. math::

        \mathrm{R@}k = \frac{\text{relevant rows among the first } k}{\text{relevant rows}}

    for each query, averaged over queries.

    Parameters
    ----------
    k : int or sequence of int, default=10
        The cut-off. Several give an array, at hardly the cost of one.
    relevant, score_ties : float, str
        As for `average_precision`.

    Notes
    -----
    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> recall_at_k([1, 0, 1], [0.9, 0.5, 0.1], k=[1, 3])
    array([0.5, 1. ])
    """
    found = _relevant_among(ranked, k, relevant, score_ties)
    return np.minimum(_divided(found, _n_relevant(ranked, relevant)), 1.0)  # rounding


@ranking_metric(
    "Success at k",
    options={"k": Cutoffs(), **RELEVANCE_OPTIONS},
    undefined=0.0,
    lacks=_NO_RELEVANT,
)
def success_at_k(
    ranked: RankedQueries,
    *,
    k: int | Sequence[int] | NDArray[np.integer] = 10,
    relevant: float = 1,
    score_ties: str = "average",
) -> Array:
    r"""Success at k, also called hit rate: the share of queries with a relevant row at the top.

    .. math:: \mathrm{S@}k = [\text{a relevant row is among the first } k]

    for each query, averaged over queries.

    Parameters
    ----------
    k : int or sequence of int, default=10
        The cut-off. Several give an array, at hardly the cost of one.
    relevant, score_ties : float, str
        As for `average_precision`.

    Notes
    -----
    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> success_at_k([0, 1, 0], [0.9, 0.5, 0.1], k=[1, 2])
    array([0., 1.])
    """
    from rankwise.metrics._listwise_loops import success_curves

    values = _relevance_curve(success_curves, ranked, k, relevant, score_ties)
    return _divided(values, _n_relevant(ranked, relevant) > 0)


@ranking_metric(
    "RBP",
    options={"persistence": Number(0, 1, open_low=True, open_high=True), **RELEVANCE_OPTIONS},
    undefined=0.0,
    lacks=_NO_RELEVANT,
)
def rank_biased_precision(
    ranked: RankedQueries,
    *,
    persistence: float = 0.8,
    relevant: float = 1,
    score_ties: str = "average",
) -> Array:
    r"""Rank-biased precision (RBP).

    .. math:: \mathrm{RBP} = (1 - p) \sum_{\text{relevant } i} p^{\,\text{rank of } i - 1}

    for each query, averaged over queries: the rate at which a reader finds relevant rows who goes
    on to the next row with probability p [1]_. The largest possible value is below 1.

    Parameters
    ----------
    persistence : float, default=0.8
        The probability p, between 0 and 1.
    relevant, score_ties : float, str
        As for `average_precision`.

    Notes
    -----
    O(n log n) time in the rows of a query, O(n) memory.

    References
    ----------
    .. [1] Moffat, Zobel: Rank-biased precision for measurement of retrieval effectiveness. ACM
       Transactions on Information Systems 27, 2008.

    Examples
    --------
    >>> rank_biased_precision([1, 0, 1], [0.9, 0.5, 0.1], persistence=0.5)  # (1 + 1/4) / 2
    0.625
    """

    def weights(n_ranks: int) -> Array:
        return np.asarray((1.0 - persistence) * persistence ** np.arange(n_ranks))

    found = _relevant_among(ranked, None, relevant, score_ties, weights)
    return _divided(found, _n_relevant(ranked, relevant) > 0)


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
    stopping = np.exp2(ranked.labels - highest) - np.exp2(-highest)

    def curves(part: RankedRows, cutoffs: NDArray[np.int64]) -> Array:
        values = np.zeros((len(part.stops), len(cutoffs)))
        rows = stopping[part.rows], part.tied, part.indptr, part.stops
        cascade_curves(*rows, score_ties == "average", cutoffs, values)
        return values

    values = _at_cutoffs(curves, ranked, k)
    return _divided(values, np.maximum.reduceat(stopping, ranked.groups.indptr[:-1]) > 0)


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
        The cut-off. Several give an array, at hardly the cost of one. None: the whole ranking.
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
        return np.minimum(_divided(found, best), 1.0)

    return _at_cutoffs(curves, ranked, k)


def _relevance_curve(
    loop: Callable[..., None], ranked: RankedQueries, k: Any, relevant: float, score_ties: str
) -> Array:
    """The values of a compiled loop over relevant rows, for each cut-off of k."""
    average, least = score_ties == "average", float(relevant)

    def curves(part: RankedRows, cutoffs: NDArray[np.int64]) -> Array:
        values = np.zeros((len(part.stops), len(cutoffs)))
        rows = part.labels, part.tied, part.indptr, part.stops
        loop(*rows, average, least, cutoffs, values)
        return values

    return _at_cutoffs(curves, ranked, k)


def _relevant_among(
    ranked: RankedQueries,
    k: Any,
    relevant: float,
    score_ties: str,
    weights: Callable[[int], Array] = np.ones,
) -> Array:
    """The number of relevant rows among the first k, or the sum of the weights of their ranks."""

    def curves(part: RankedRows, cutoffs: NDArray[np.int64]) -> Array:
        hits = (part.labels >= relevant).astype(np.float64)
        top = TopRows.of(part.indptr, part.stops, weights, cutoffs)
        return top.sums(mean_over_ties(hits, part.tied) if score_ties == "average" else hits)

    return _at_cutoffs(curves, ranked, k)


def _n_relevant(ranked: RankedQueries, relevant: float) -> NDArray[np.int64]:
    """The number of relevant rows of each query."""
    starts = ranked.groups.indptr[:-1]
    return np.add.reduceat(ranked.labels >= relevant, starts, dtype=np.int64)


def _divided(values: Array, by: NDArray[Any]) -> Array:
    """The values of each query, or of each cut-off, divided by numbers; NaN where these are 0."""
    by = by[:, None] if by.ndim < values.ndim else by
    out = np.full(values.shape, np.nan)
    np.divide(values, by, out=out, where=by > 0)
    return out


def _at_cutoffs(
    curves: Callable[[RankedRows, NDArray[np.int64]], Array], ranked: RankedQueries, k: Any
) -> Array:
    """Values for each cut-off of k, from a function of some queries and ascending cut-offs."""
    cutoffs = np.asarray(ranked.groups.sizes.max() if k is None else k, dtype=np.int64)
    ascending, where = np.unique(cutoffs, return_inverse=True)
    values = ranked.map_parts(lambda part: curves(part, ascending))
    return values[:, where] if cutoffs.ndim else values[:, 0]


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
    return np.exp2(labels) - 1.0 if gain == "exponential" else labels + 0.0


def _discounts(n_ranks: int, discount: str) -> Array:
    """The discounts of the ranks 1, ..., n_ranks."""
    ranks = np.arange(1, n_ranks + 1, dtype=np.float64)
    if discount == "letor":
        return 1.0 / np.log2(np.maximum(ranks, 2.0))
    return 1.0 / np.log2(ranks + 1.0)
