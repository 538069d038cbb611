"""Generated ranking problems with a known solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import ParameterError
from rankwise.parameters import AnyOf, Choice, Number, Whole, check_value

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RankingProblem:
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
    >>> problem = make_ranking(random_state=0)
    >>> problem.coef.shape
    (20,)
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
        With attributes `X`, `y`, `qid`, `coef` and `score`.

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


@dataclass(frozen=True, eq=False)
class SincComparisons:
    """Pairs of points on a line, with the difference of their sinc values.

    Attributes
    ----------
    X_train, X_test : ndarray of shape (n_points, 1)
        The points of the training pairs and of the test pairs; no point is in both.
    pairs_train, pairs_test : ndarray of shape (n_pairs, 2)
        Rows of `X_train` and `X_test`, the preferred one first.
    margin_train, margin_test : ndarray of shape (n_pairs,)
        Difference of the two scores, positive.

    Examples
    --------
    >>> from rankwise.data import make_sinc_comparisons
    >>> make_sinc_comparisons(random_state=0).X_test.shape
    (338, 1)
    """

    X_train: Floats
    pairs_train: NDArray[np.int64]
    margin_train: Floats
    X_test: Floats
    pairs_test: NDArray[np.int64]
    margin_test: Floats


def make_sinc_comparisons(
    n_points: int = 2000,
    *,
    n_train_points: int = 1000,
    n_train_pairs: int = 379,
    n_test_points: int = 338,
    n_test_pairs: int = 48,
    noise: float = 0.0,
    flipped: float = 0.0,
    random_state: int | np.random.Generator | None = None,
) -> SincComparisons:
    """Compare points of [-4, 4] by sinc(x) = sin(πx) / (πx), with margins sinc(x) - sinc(x').

    Training points and test points are drawn from `n_points` equidistant points, and pairs from
    all pairs of each set. Pairs with equal scores, such as x and -x, are left out.

    O(n_points + n_train_points + pairs) memory; not all pairs are listed.

    Parameters
    ----------
    n_points : int, default=2000
        Number of points on the line.
    n_train_points, n_test_points : int, default=1000 and 338
        Number of points for training pairs and for test pairs.
    n_train_pairs, n_test_pairs : int, default=379 and 48
        Number of pairs.
    noise : float, default=0.0
        Standard deviation of normal noise on the training margins; a pair whose margin
        becomes negative is swapped.
    flipped : float, default=0.0
        Share of the training pairs that are swapped, with unchanged margin (0.05 in Fig. 1,
        left, of the paper).
    random_state : int, Generator or None, default=None
        Seed or random number generator.

    Returns
    -------
    SincComparisons
        With `X_train`, `pairs_train`, `margin_train` and the same for the test.

    References
    ----------
    Tsivtsivadze et al., Kernel principal component ranking: robust ranking on noisy data,
    section 6.2.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.data import make_sinc_comparisons
    >>> data = make_sinc_comparisons(random_state=0)
    >>> data.X_train.shape, data.pairs_train.shape, data.pairs_test.shape
    ((1000, 1), (379, 2), (48, 2))
    >>> first, second = data.X_train[data.pairs_train[0]].ravel()
    >>> bool(np.isclose(np.sinc(first) - np.sinc(second), data.margin_train[0]))
    True
    """
    check_value("noise", noise, Number(0))
    check_value("flipped", flipped, Number(0, 1))
    check_value("n_train_points", n_train_points, Whole(2))
    check_value("n_test_points", n_test_points, Whole(2))
    check_value("n_train_pairs", n_train_pairs, Whole(1))
    check_value("n_test_pairs", n_test_pairs, Whole(1))
    if n_train_points + n_test_points > n_points:
        raise ParameterError(
            f"n_train_points + n_test_points is {n_train_points + n_test_points}, more than "
            f"n_points={n_points}: no point may be used for both."
        )
    rng = np.random.default_rng(random_state)
    points = rng.permutation(np.linspace(-4, 4, n_points))
    x_train = points[:n_train_points]
    x_test = points[n_train_points : n_train_points + n_test_points]
    pairs_train, margin_train = _compare(np.sinc(x_train), n_train_pairs, "n_train_pairs", rng)
    pairs_test, margin_test = _compare(np.sinc(x_test), n_test_pairs, "n_test_pairs", rng)
    if noise > 0:
        margin_train = margin_train + noise * rng.normal(size=n_train_pairs)
    swapped = margin_train < 0
    swapped[rng.choice(n_train_pairs, round(flipped * n_train_pairs), replace=False)] ^= True
    pairs_train[swapped] = pairs_train[swapped, ::-1]
    return SincComparisons(
        x_train[:, None],
        pairs_train,
        np.abs(margin_train),
        x_test[:, None],
        pairs_test,
        margin_test,
    )


def _compare(
    score: Floats, n_pairs: int, name: str, rng: np.random.Generator
) -> tuple[NDArray[np.int64], Floats]:
    """Distinct pairs of rows with different scores, the better one first, and the differences."""
    n = len(score)
    n_all = n * (n - 1) // 2
    # Fewer than n + 28 pairs are tied: x and -x, and the zeros at the eight nonzero integers.
    drawn = rng.choice(n_all, min(n_all, n_pairs + n + 28), replace=False)
    # Pair k = j (j - 1) / 2 + i has the rows i < j; the square root may be off by one.
    j = ((1 + np.sqrt(1 + 8.0 * drawn)) / 2).astype(np.int64)
    j -= j * (j - 1) // 2 > drawn
    j += j * (j + 1) // 2 <= drawn
    i = drawn - j * (j - 1) // 2
    difference = score[i] - score[j]
    different = np.flatnonzero(np.abs(difference) > 1e-12)[:n_pairs]
    if len(different) < n_pairs:
        raise ParameterError(
            f"{name} is {n_pairs}, but the {n} points have only {len(different)} pairs of "
            "different score. Ask for fewer pairs or more points."
        )
    i, j, difference = i[different], j[different], difference[different]
    first, second = np.where(difference > 0, i, j), np.where(difference > 0, j, i)
    return np.column_stack([first, second]), np.abs(difference)


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
