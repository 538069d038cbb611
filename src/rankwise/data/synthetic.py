"""Generated ranking problems with a known solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rankwise.data._described_rows import DescribedRows
from rankwise.errors import ParameterError
from rankwise.parameters import AnyOf, Choice, Number, Whole, check_value

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class RankingProblem(DescribedRows):
    """Labelled rows of several queries, and the linear score behind the labels.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features)
        Features.
    y : ndarray of shape (n_rows,)
        Labels: score plus the offset of the query plus noise, or the grade of that sum.
    qid : ndarray of shape (n_rows,)
        Query of each row, 0 to n_queries - 1.
    coef : ndarray of shape (n_features,)
        The true weights, with norm 1.
    score : ndarray of shape (n_rows,)
        ``X @ coef``: the best order within each query.

    Examples
    --------
    >>> from rankwise.data import make_ranking
    >>> make_ranking(random_state=0)
    RankingProblem
      size     2,285 rows, 20 features, 100 queries of 5 to 40 rows
      labels   2,285 different, from -6.99 to 4.42
    """

    X: Floats
    y: Floats
    qid: NDArray[np.int64]
    coef: Floats
    score: Floats


def make_ranking(
    n_queries: int = 100,
    *,
    rows_per_query: int | tuple[int, int] = (5, 40),
    n_features: int = 20,
    noise: float = 0.1,
    n_levels: int | None = None,
    grading: Literal["query", "global"] = "query",
    query_effect: float = 1.0,
    informative: int | None = None,
    random_state: int | np.random.Generator | None = None,
) -> RankingProblem:
    """Make queries whose rows are ordered by one linear score, but on which regression fails.

    A row of a query is x = c + z, with z from N(0, I) and a centre c from N(0, e² I) that all
    rows of the query share; e is `query_effect`. Its label is

        y = w·x - 2 w·c + noise,

    so that within a query, differences of labels are w·(x - x') plus noise: least squares over
    the pairs of each query finds w. Across queries, labels decrease as the score increases: least
    squares over rows finds ((1 - e²) / (1 + e²)) w, which is zero for e = 1 and has the wrong sign
    for larger e. With e = 0 both find w.

    O(n_rows n_features) time and memory.

    Parameters
    ----------
    n_queries : int, default=100
        Number of queries.
    rows_per_query : int or (low, high), default=(5, 40)
        Number of rows of each query, or inclusive bounds of a uniform distribution.
    n_features : int, default=20
        Number of features.
    noise : float, default=0.1
        Standard deviation of the noise; that of the score within a query is 1.
    n_levels : int, optional
        Replace labels by this many grades, from 0, with equal numbers of rows. The direction of
        w is then still optimal, but differences of labels are no longer those of scores.
    grading : {"query", "global"}, default="query"
        Whether grades are assigned within each query or over all rows. Only with `n_levels`.
    query_effect : float, default=1.0
        Standard deviation e of the centres of queries.
    informative : int, optional
        Number of features with a nonzero weight; by default all.
    random_state : int, Generator or None, default=None
        Seed or random number generator.

    Returns
    -------
    RankingProblem

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.data import make_ranking
    >>> problem = make_ranking(n_queries=3, rows_per_query=4, n_features=2, random_state=0)
    >>> problem.X.shape, problem.qid.tolist()
    ((12, 2), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])
    >>> bool(np.allclose(problem.score, problem.X @ problem.coef))
    True
    """
    low, high = _row_bounds(rows_per_query)
    check_value("n_queries", n_queries, Whole(1))
    check_value("n_features", n_features, Whole(1))
    check_value("noise", noise, Number(0))
    check_value("query_effect", query_effect, Number(0))
    check_value("informative", informative, AnyOf(Whole(1, n_features), None))
    check_value("n_levels", n_levels, AnyOf(Whole(2), None))
    check_value("grading", grading, Choice("query", "global"))
    if n_levels is None and grading != "query":
        raise ParameterError(f"grading={grading!r} needs n_levels, the number of grades.")
    n_informative = n_features if informative is None else informative
    rng = np.random.default_rng(random_state)

    sizes = rng.integers(low, high, size=n_queries, endpoint=True)
    qid = np.repeat(np.arange(n_queries), sizes)
    coef = np.zeros(n_features)
    coef[rng.choice(n_features, n_informative, replace=False)] = rng.normal(size=n_informative)
    coef /= np.linalg.norm(coef)
    centres = query_effect * rng.normal(size=(n_queries, n_features))
    X = rng.normal(size=(len(qid), n_features)) + centres[qid]
    score = X @ coef
    y = score - 2 * (centres @ coef)[qid] + noise * rng.normal(size=len(qid))
    if n_levels is not None:
        groups = qid if grading == "query" else np.zeros_like(qid)
        y = _grades(y, groups, n_levels)
    return RankingProblem(X, y, qid, coef, score)


def _grades(y: Floats, groups: NDArray[np.int64], n_levels: int) -> Floats:
    """Grades 0 to n_levels - 1 by rank within each group, in shares as equal as possible."""
    order = np.lexsort((y, groups))
    sizes = np.bincount(groups)
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(y), dtype=np.int64)
    rank[order] = np.arange(len(y)) - np.repeat(starts, sizes)
    return (rank * n_levels // sizes[groups]).astype(np.float64)


def _row_bounds(rows_per_query: int | tuple[int, int]) -> tuple[int, int]:
    """The smallest and largest number of rows."""
    low, high = (
        (rows_per_query, rows_per_query) if isinstance(rows_per_query, int) else rows_per_query
    )
    if not 1 <= low <= high:
        raise ParameterError(
            "rows_per_query must be a positive number, or two with the smaller one first: "
            f"got {rows_per_query}."
        )
    return low, high
