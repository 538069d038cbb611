"""Metrics of rows that are relevant or not: average precision, precision@k, reciprocal rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import ParameterError
from rankwise.metrics._ranking import (
    Array,
    QueryValues,
    Ranking,
    Undefined,
    at_cutoffs,
    check_choice,
    check_cutoffs,
    check_undefined,
    mean,
    settle,
)

SCORE_TIES = ("average", "order")


@overload
def average_precision(
    y: Any,
    scores: Any,
    qid: Any = ...,
    *,
    relevant: float = ...,
    score_ties: str = ...,
    undefined: Undefined = ...,
    per_query: Literal[False] = ...,
) -> float: ...
@overload
def average_precision(
    y: Any,
    scores: Any,
    qid: Any = ...,
    *,
    relevant: float = ...,
    score_ties: str = ...,
    undefined: Undefined = ...,
    per_query: Literal[True],
) -> QueryValues: ...
def average_precision(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    relevant: float = 1,
    score_ties: str = "average",
    undefined: Undefined = 0.0,
    per_query: bool = False,
) -> float | QueryValues:
    r"""Mean average precision (MAP).

    .. math::

        \mathrm{AP} = \frac{1}{R} \sum_{\text{relevant } i}
        \frac{\text{relevant rows down to the rank of } i}{\text{rank of } i}

    for each query with R relevant rows, averaged over queries.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Labels, larger is better.
    scores : array-like of shape (n_rows,)
        Predicted scores, larger is better.
    qid : array-like of shape (n_rows,), optional
        Query of every row, any dtype, in any order. None: all rows are one query.
    relevant : float, default=1
        Rows with at least this label are relevant.
    score_ties : {"average", "order"}, default="average"
        Rows with equal scores: the expected value over all their orders, or in the order of the
        rows, as the LETOR scripts and ranx have it. Only the first does not depend on the order
        of the rows.
    undefined : {"skip", "raise"} or float, default=0.0
        What becomes of a query without a relevant row: it contributes this number (0 in LETOR),
        it is left out of the mean, or it is an error.
    per_query : bool, default=False
        Return the value of every query instead of their mean.

    Returns
    -------
    float or QueryValues
        The mean over queries, or the values with their query ids.

    Notes
    -----
    A block of n rows with equal scores and r relevant ones, after s rows with R' relevant ones,
    adds :math:`\sum_{i=1}^{n} \frac{r}{n} \cdot \frac{R' + 1 + (i-1)(r-1)/(n-1)}{s + i}`.

    O(n log n) time in the rows of a query, O(n) memory.

    Examples
    --------
    >>> average_precision([1, 0, 1], [0.9, 0.5, 0.1])  # (1/1 + 2/3) / 2
    0.8333333333333333
    >>> average_precision([1, 0], [0.5, 0.5])  # rank one or two
    0.75
    """
    check_choice("score_ties", score_ties, SCORE_TIES)
    check_undefined(undefined)
    check_relevant(relevant)
    ranking = Ranking.of(y, scores, qid)
    values = average_precisions(ranking, relevant, score_ties)
    result = settle(
        ranking, values, undefined, metric="Average precision", lacks=no_relevant(relevant)
    )
    return result if per_query else mean(result)


@overload
def reciprocal_rank(
    y: Any,
    scores: Any,
    qid: Any = ...,
    *,
    relevant: float = ...,
    score_ties: str = ...,
    undefined: Undefined = ...,
    per_query: Literal[False] = ...,
) -> float: ...
@overload
def reciprocal_rank(
    y: Any,
    scores: Any,
    qid: Any = ...,
    *,
    relevant: float = ...,
    score_ties: str = ...,
    undefined: Undefined = ...,
    per_query: Literal[True],
) -> QueryValues: ...
def reciprocal_rank(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    relevant: float = 1,
    score_ties: str = "average",
    undefined: Undefined = 0.0,
    per_query: bool = False,
) -> float | QueryValues:
    r"""Mean reciprocal rank of the first relevant row (MRR).

    .. math:: \mathrm{RR} = 1 / \min_{\text{relevant } i} \text{rank of } i

    for each query, averaged over queries.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Labels, larger is better.
    scores : array-like of shape (n_rows,)
        Predicted scores, larger is better.
    qid : array-like of shape (n_rows,), optional
        Query of every row, any dtype, in any order. None: all rows are one query.
    relevant : float, default=1
        Rows with at least this label are relevant.
    score_ties : {"average", "order"}, default="average"
        Rows with equal scores: the expected value over all their orders, or in the order of the
        rows.
    undefined : {"skip", "raise"} or float, default=0.0
        What becomes of a query without a relevant row: it contributes this number, it is left
        out of the mean, or it is an error.
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
    >>> reciprocal_rank([0, 1, 1], [0.9, 0.5, 0.1])
    0.5
    """
    check_choice("score_ties", score_ties, SCORE_TIES)
    check_undefined(undefined)
    check_relevant(relevant)
    ranking = Ranking.of(y, scores, qid)
    values = reciprocal_ranks(ranking, relevant, score_ties)
    result = settle(
        ranking, values, undefined, metric="Reciprocal rank", lacks=no_relevant(relevant)
    )
    return result if per_query else mean(result)


@overload
def precision_at_k(
    y: Any,
    scores: Any,
    qid: Any = ...,
    *,
    k: int = ...,
    relevant: float = ...,
    score_ties: str = ...,
    undefined: Undefined = ...,
    per_query: Literal[False] = ...,
) -> float: ...
@overload
def precision_at_k(
    y: Any,
    scores: Any,
    qid: Any = ...,
    *,
    k: Sequence[int] | NDArray[np.integer],
    relevant: float = ...,
    score_ties: str = ...,
    undefined: Undefined = ...,
    per_query: Literal[False] = ...,
) -> Array: ...
@overload
def precision_at_k(
    y: Any,
    scores: Any,
    qid: Any = ...,
    *,
    k: int | Sequence[int] | NDArray[np.integer] = ...,
    relevant: float = ...,
    score_ties: str = ...,
    undefined: Undefined = ...,
    per_query: Literal[True],
) -> QueryValues: ...
def precision_at_k(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    k: int | Sequence[int] | NDArray[np.integer] = 10,
    relevant: float = 1,
    score_ties: str = "average",
    undefined: Undefined = 0.0,
    per_query: bool = False,
) -> float | Array | QueryValues:
    r"""Precision at k: the share of relevant rows among the k best-scored ones.

    .. math:: \mathrm{P@}k = \frac{\text{relevant rows among the first } k}{k}

    for each query, averaged over queries. A query with fewer than k rows is divided by k all the
    same, as in LETOR.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Labels, larger is better.
    scores : array-like of shape (n_rows,)
        Predicted scores, larger is better.
    qid : array-like of shape (n_rows,), optional
        Query of every row, any dtype, in any order. None: all rows are one query.
    k : int or sequence of int, default=10
        The cut-off. Several give an array, at hardly the cost of one.
    relevant : float, default=1
        Rows with at least this label are relevant.
    score_ties : {"average", "order"}, default="average"
        Rows with equal scores: the expected value over all their orders, or in the order of the
        rows.
    undefined : {"skip", "raise"} or float, default=0.0
        What becomes of a query without a relevant row: it contributes this number (the formula
        gives 0), it is left out of the mean, or it is an error.
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
    >>> precision_at_k([1, 0, 1], [0.9, 0.5, 0.1], k=2)
    0.5
    >>> precision_at_k([1, 0, 1], [0.9, 0.5, 0.1], k=[1, 2, 4])
    array([1. , 0.5, 0.5])
    """
    check_choice("score_ties", score_ties, SCORE_TIES)
    check_undefined(undefined)
    check_relevant(relevant)
    cutoffs = check_cutoffs(k)
    ranking = Ranking.of(y, scores, qid)
    values = precisions(ranking, cutoffs, relevant, score_ties)
    result = settle(
        ranking, values, undefined, metric="Precision at k", lacks=no_relevant(relevant)
    )
    return at_cutoffs(result, k, per_query)


def check_relevant(relevant: Any) -> None:
    """Refuse a threshold that is not a number."""
    if not isinstance(relevant, (int, float, np.integer, np.floating)) or np.isnan(relevant):
        raise ParameterError(
            f"relevant must be the smallest label that counts as relevant: got {relevant!r}."
        )


def no_relevant(relevant: float) -> str:
    """What a query lacks where these metrics are not defined."""
    return f"no row with a label of at least {relevant:g}"


def average_precisions(ranking: Ranking, relevant: float, score_ties: str) -> Array:
    """Average precision of every query, NaN without a relevant row."""
    from rankwise.metrics import _loops

    return _loops.average_precisions(
        ranking.labels,
        ranking.tied,
        ranking.groups.indptr,
        float(relevant),
        score_ties == "average",
    )


def reciprocal_ranks(ranking: Ranking, relevant: float, score_ties: str) -> Array:
    """Reciprocal rank of every query, NaN without a relevant row."""
    from rankwise.metrics import _loops

    return _loops.reciprocal_ranks(
        ranking.labels,
        ranking.tied,
        ranking.groups.indptr,
        float(relevant),
        score_ties == "average",
    )


def precisions(
    ranking: Ranking, cutoffs: NDArray[np.int64], relevant: float, score_ties: str
) -> Array:
    """Precision of every query at every cut-off, NaN without a relevant row."""
    from rankwise.metrics import _loops

    ascending, where = np.unique(cutoffs, return_inverse=True)
    curves = _loops.precision_curves(
        ranking.labels,
        ranking.tied,
        ranking.groups.indptr,
        float(relevant),
        score_ties == "average",
        ascending,
    )
    return curves[:, where]
