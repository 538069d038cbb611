"""Metrics of the relevant rows at the top of a ranking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.metrics._top_sums import TopRows, mean_over_ties, precision_curves
from rankwise.metrics.cutoffs import OPTIONAL_CUTOFFS, Cutoffs, at_cutoffs, divided
from rankwise.metrics.ranked_queries import Array, RankedQueries, RankedRows
from rankwise.metrics.ranking_metric import RankingMetric, ranking_metric
from rankwise.parameters import Choice, Number, Rule

RELEVANCE_OPTIONS: Mapping[str, Rule] = {
    "relevant": Number(),
    "score_ties": Choice("average", "order"),
}


def _relevance_metric(
    title: str, **options: Rule
) -> Callable[[Callable[..., Array]], RankingMetric]:
    """The decorator of metrics that count rows as relevant or not."""
    return ranking_metric(
        title,
        options={**options, **RELEVANCE_OPTIONS},
        undefined=0.0,
        lacks="no row with a label of at least {relevant}",
    )


@_relevance_metric("Average precision", k=OPTIONAL_CUTOFFS)
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
        The cut-off. Several give an array, at almost no extra cost. None: the whole ranking.
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

    return divided(at_cutoffs(curves, ranked, k), _n_relevant(ranked, relevant))


@_relevance_metric("Reciprocal rank", k=OPTIONAL_CUTOFFS)
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
    return divided(values, _n_relevant(ranked, relevant) > 0)


@_relevance_metric("Precision at k", k=Cutoffs())
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
        The cut-off. Several give an array, at almost no extra cost.
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
    return divided(share, _n_relevant(ranked, relevant) > 0)


@_relevance_metric("Recall at k", k=Cutoffs())
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
        The cut-off. Several give an array, at almost no extra cost.
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
    return np.minimum(divided(found, _n_relevant(ranked, relevant)), 1.0)  # rounding


@_relevance_metric("Success at k", k=Cutoffs())
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
        The cut-off. Several give an array, at almost no extra cost.
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
    return divided(values, _n_relevant(ranked, relevant) > 0)


@_relevance_metric("RBP", persistence=Number(0, 1, open_low=True, open_high=True))
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
    return divided(found, _n_relevant(ranked, relevant) > 0)


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

    return at_cutoffs(curves, ranked, k)


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

    return at_cutoffs(curves, ranked, k)


def _n_relevant(ranked: RankedQueries, relevant: float) -> NDArray[np.int64]:
    """The number of relevant rows of each query."""
    starts = ranked.groups.indptr[:-1]
    return np.add.reduceat(ranked.labels >= relevant, starts, dtype=np.int64)
