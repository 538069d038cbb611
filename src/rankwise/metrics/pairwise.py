"""Metrics that count pairs: disagreement error, concordance, Kendall's tau_b."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from rankwise.metrics._ranking import (
    Array,
    QueryValues,
    Ranking,
    Undefined,
    check_choice,
    check_undefined,
    mean,
    settle,
)

SCORE_TIES = ("half", "wrong")
LABEL_TIES = ("exclude", "half")
ONE_LABEL = "no two different labels"


@overload
def disagreement_error(
    y: Any,
    scores: Any,
    qid: Any = ...,
    *,
    score_ties: str = ...,
    label_ties: str = ...,
    undefined: Undefined = ...,
    per_query: Literal[False] = ...,
) -> float: ...
@overload
def disagreement_error(
    y: Any,
    scores: Any,
    qid: Any = ...,
    *,
    score_ties: str = ...,
    label_ties: str = ...,
    undefined: Undefined = ...,
    per_query: Literal[True],
) -> QueryValues: ...
def disagreement_error(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    score_ties: str = "half",
    label_ties: str = "exclude",
    undefined: Undefined = "skip",
    per_query: bool = False,
) -> float | QueryValues:
    r"""Share of the pairs of a query that the scores order wrongly, averaged over queries.

    .. math::

        \frac{1}{N} \sum_{i < j} W_{ij}\,
        \tfrac12 \left| \operatorname{sign}(y_i - y_j) - \operatorname{sign}(f_i - f_j) \right|,
        \qquad N = \sum_{i < j} W_{ij},

    within each query: a pair in the wrong order counts 1, a pair with a tie on one side only
    counts 1/2, and 0 is perfect. With the defaults it is one minus the concordance index.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Labels, larger is better.
    scores : array-like of shape (n_rows,)
        Predicted scores, larger is better. Two scores tie only if they are exactly equal.
    qid : array-like of shape (n_rows,), optional
        Query of every row, any dtype, in any order. None: all rows are one query.
    score_ties : {"half", "wrong"}, default="half"
        What a pair with different labels and equal scores counts: 1/2, as in (3) of [1]_, or 1.
        The second is what sign(0) = -1 of [3]_ says of a comparison seen from the preferred row.
        In its equation (4), where a symmetric W has every pair in both orders, a tie counts 1
        in one order and 0 in the other, so that the two conventions agree there; they differ on
        comparisons that are listed in one direction only.
    label_ties : {"exclude", "half"}, default="exclude"
        Whether only pairs with different labels count (W_ij = 1 where the labels differ), or all
        pairs of a query, as on the all-pairs graph of [1]_: equal labels with different scores
        then count 1/2, and 0 with equal scores.
    undefined : {"skip", "raise"} or float, default="skip"
        What becomes of a query without a pair that counts: it is left out of the mean, it is an
        error, or it contributes this number.
    per_query : bool, default=False
        Return the value of every query instead of their mean.

    Returns
    -------
    float or QueryValues
        The mean over queries, or the values with their query ids.

    Notes
    -----
    O(n log n) time in the rows of a query, by Knight's algorithm; O(n) memory. Pairs are counted
    in integers.

    References
    ----------
    .. [1] Pahikkala, Tsivtsivadze, Airola, Boberg, Salakoski, "Learning to rank with pairwise
       regularized least-squares" (2007), equation (3).
    .. [2] Tsivtsivadze, Pahikkala, Airola, Boberg, Salakoski, "A sparse regularized
       least-squares preference learning algorithm" (2008), equation (1).
    .. [3] Tsivtsivadze, Cseke, Heskes, "Kernel principal component ranking" (2009), equation (4).

    Examples
    --------
    >>> disagreement_error([2, 1, 0], [0.9, 0.2, 0.4])  # one of three pairs
    0.3333333333333333
    >>> disagreement_error([1, 0], [0.5, 0.5])
    0.5
    >>> disagreement_error([1, 0], [0.5, 0.5], score_ties="wrong")
    1.0
    """
    check_choice("score_ties", score_ties, SCORE_TIES)
    check_choice("label_ties", label_ties, LABEL_TIES)
    check_undefined(undefined)
    ranking = Ranking.of(y, scores, qid)
    values = disagreements(count_pairs(ranking), score_ties, label_ties)
    lacks = ONE_LABEL if label_ties == "exclude" else "fewer than two rows"
    result = settle(ranking, values, undefined, metric="Disagreement error", lacks=lacks)
    return result if per_query else mean(result)


@overload
def concordance_index(
    y: Any,
    scores: Any,
    qid: Any = ...,
    *,
    undefined: Undefined = ...,
    per_query: Literal[False] = ...,
) -> float: ...
@overload
def concordance_index(
    y: Any, scores: Any, qid: Any = ..., *, undefined: Undefined = ..., per_query: Literal[True]
) -> QueryValues: ...
def concordance_index(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    undefined: Undefined = "skip",
    per_query: bool = False,
) -> float | QueryValues:
    r"""Share of the pairs with different labels that the scores order rightly.

    .. math::

        \frac{|\{y_i > y_j, f_i > f_j\}| + \frac12 |\{y_i > y_j, f_i = f_j\}|}{|\{y_i > y_j\}|}

    within each query, averaged over queries. It is one minus `disagreement_error` and, for
    labels with two values, the area under the ROC curve (AUC).

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Labels, larger is better.
    scores : array-like of shape (n_rows,)
        Predicted scores, larger is better.
    qid : array-like of shape (n_rows,), optional
        Query of every row, any dtype, in any order. None: all rows are one query.
    undefined : {"skip", "raise"} or float, default="skip"
        What becomes of a query without two different labels: it is left out of the mean, it is
        an error, or it contributes this number.
    per_query : bool, default=False
        Return the value of every query instead of their mean.

    Returns
    -------
    float or QueryValues
        The mean over queries, or the values with their query ids.

    Notes
    -----
    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> concordance_index([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    check_undefined(undefined)
    ranking = Ranking.of(y, scores, qid)
    values = 1.0 - disagreements(count_pairs(ranking), "half", "exclude")
    result = settle(ranking, values, undefined, metric="Concordance index", lacks=ONE_LABEL)
    return result if per_query else mean(result)


@overload
def kendall_tau(
    y: Any,
    scores: Any,
    qid: Any = ...,
    *,
    undefined: Undefined = ...,
    per_query: Literal[False] = ...,
) -> float: ...
@overload
def kendall_tau(
    y: Any, scores: Any, qid: Any = ..., *, undefined: Undefined = ..., per_query: Literal[True]
) -> QueryValues: ...
def kendall_tau(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    undefined: Undefined = "skip",
    per_query: bool = False,
) -> float | QueryValues:
    r"""Kendall's rank correlation tau_b between labels and scores, averaged over queries.

    .. math::

        \tau_b = \frac{C - D}{\sqrt{(N - T_y)(N - T_f)}}

    with C concordant and D discordant pairs out of the N pairs of a query, of which T_y tie in
    the labels and T_f in the scores.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Labels, larger is better.
    scores : array-like of shape (n_rows,)
        Predicted scores, larger is better.
    qid : array-like of shape (n_rows,), optional
        Query of every row, any dtype, in any order. None: all rows are one query.
    undefined : {"skip", "raise"} or float, default="skip"
        What becomes of a query without two different labels: it is left out of the mean, it is
        an error, or it contributes this number.
    per_query : bool, default=False
        Return the value of every query instead of their mean.

    Returns
    -------
    float or QueryValues
        The mean over queries, or the values with their query ids.

    Notes
    -----
    A query whose labels differ and whose scores are all equal has value 0: such scores say
    nothing about the order. (SciPy gives NaN.) So which queries count depends on the labels
    only, and two rankers are averaged over the same queries.

    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> kendall_tau([3, 2, 1], [0.3, 0.2, 0.1])
    1.0
    >>> kendall_tau([2, 1, 1, 0], [0.9, 0.1, 0.5, 0.1], qid=["a", "a", "b", "b"])
    1.0
    """
    check_undefined(undefined)
    ranking = Ranking.of(y, scores, qid)
    values = tau_bs(count_pairs(ranking))
    result = settle(ranking, values, undefined, metric="Kendall tau_b", lacks=ONE_LABEL)
    return result if per_query else mean(result)


def count_pairs(ranking: Ranking) -> NDArray[np.int64]:
    """Pairs of every query, shape (n_queries, 5).

    The columns: all, discordant, tied in the labels, tied in the scores, tied in both.
    """
    from rankwise.metrics import _sorting

    groups = ranking.groups
    counts = _sorting.count_pairs(ranking.labels.view(np.int64), ranking.tied, groups.indptr)
    sizes = groups.sizes.astype(np.int64)
    return np.column_stack((sizes * (sizes - 1) // 2, counts))


def disagreements(pairs: NDArray[np.int64], score_ties: str, label_ties: str) -> Array:
    """Disagreement error of every query, NaN where no pair counts."""
    total, discordant, label_tied, score_tied, both_tied = pairs.T
    weight = 1 if score_ties == "half" else 2
    twice = 2 * discordant + weight * (score_tied - both_tied)
    if label_ties == "half":
        twice = twice + (label_tied - both_tied)
        counted = total
    else:
        counted = total - label_tied
    return _divide(twice, 2.0 * counted)


def tau_bs(pairs: NDArray[np.int64]) -> Array:
    """tau_b of every query: NaN where the labels are all equal, 0 where only the scores are."""
    total, discordant, label_tied, score_tied, both_tied = pairs.T
    concordant = total - discordant - label_tied - score_tied + both_tied
    by_label = (total - label_tied).astype(np.float64)
    by_score = np.maximum(total - score_tied, 1).astype(np.float64)
    return _divide(concordant - discordant, np.sqrt(by_label * by_score))


def _divide(numerator: NDArray[Any], denominator: NDArray[Any]) -> Array:
    """The quotient, NaN where the denominator is 0."""
    out = np.full(len(numerator), np.nan)
    np.divide(numerator, denominator, out=out, where=denominator > 0)
    return out
