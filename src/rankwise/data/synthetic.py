"""Generated ranking problems and battles, whose solution is known, and triplets that are drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from rankwise.data.battles import Battles
from rankwise.data.query_rows import DescribedRows
from rankwise.errors import DataError, ParameterError
from rankwise.parameters import AnyOf, Choice, Number, Whole, as_generator, check_value

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
        Standard deviation of the noise; the score within a query has standard deviation 1.
    n_levels : int, optional
        Replace labels by this many grades, from 0, with equal numbers of rows. The direction of
        w is then still optimal, but differences of labels no longer equal differences of scores.
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
    low, high = np.broadcast_to(rows_per_query, 2).tolist()
    if not 1 <= low <= high:
        raise ParameterError(
            "rows_per_query must be a positive number, or two with the smaller one first: "
            f"got {rows_per_query}."
        )
    return low, high


@dataclass(frozen=True, eq=False, repr=False)
class GeneratedBattles:
    """Battles and the truth behind them; made by `make_battles`.

    Attributes
    ----------
    battles : Battles
        With sessions as groups, and with judges and context if there are any.
    ratings : ndarray of shape (n_items,)
        The true ratings, with mean 0, in the order of ``battles.items``.
    style : float
        The true effect of the column "style" of the context.
    position : float
        The true preference for the first place.
    slips : ndarray of shape (n_judges,)
        Share of verdicts that each judge gives at random.

    Examples
    --------
    >>> from rankwise.data import make_battles
    >>> made = make_battles(20, 1000, random_state=0)
    >>> made.battles
    Battles(1,000 battles of 20 items, 133 ties, 42 both bad, 317 groups, 1 context column)
    """

    battles: Battles
    ratings: Floats
    style: float
    position: float
    slips: Floats

    def __repr__(self) -> str:
        return f"GeneratedBattles({self.battles!r}, style={self.style}, position={self.position})"


def make_battles(
    n_items: int = 20,
    n_battles: int = 5000,
    *,
    spread: float = 0.5,
    ties: float = 0.35,
    both_bad: float = 0.05,
    style: float = 0.183,
    position: float = 0.0,
    n_judges: int = 0,
    slips: float = 0.05,
    session_size: float = 3.0,
    rematch: float = 0.5,
    dependence: float = 0.5,
    random_state: Any = None,
) -> GeneratedBattles:
    """Make battles between items, as on a page on which visitors compare responses of models.

    Ratings are from ``N(0, spread²)``. The outcome of a battle follows Davidson's model with
    the advantage

        eta = rating of the first - rating of the second + style * x + position.

    A visitor votes in a session, and has a taste for each item, from N(0, 1). If t is the
    difference of the tastes for the two items, divided by its standard deviation, the vote is the
    quantile ``Phi(sqrt(r) t + sqrt(1 - r) e)`` of the outcomes, from "second" to "first", with e
    from N(0, 1) and the dependence r. Every vote then follows the probabilities of the model, but
    the votes of a session agree more than independent votes would. Popular items battle more often:
    the frequencies of items differ up to tenfold.

    Parameters
    ----------
    n_items, n_battles : int
    spread : float, default=0.5
        Standard deviation of ratings.
    ties : float, default=0.35
        nu of Davidson's model: P(tie) relative to P(first wins) between equals. 0: no ties.
    both_bad : float, default=0.05
        Share of battles in which both are bad.
    style : float, default=0.183
        Effect of a covariate that has mean 0 and variance 1. 0: battles have no context.
    position : float, default=0.0
        Preference for the first place.
    n_judges : int, default=0
        Number of judges; 0: battles have none.
    slips : float, default=0.05
        Mean share of verdicts that judges give at random.
    session_size : float, default=3.0
        Mean number of battles of a session.
    rematch : float, default=0.5
        Probability that the next battle of a session is between the same items.
    dependence : float, default=0.5
        Dependence of the votes of a session, from 0 (independent votes) to below 1.
    random_state : int, Generator or None, default=None

    Returns
    -------
    GeneratedBattles

    Examples
    --------
    >>> from rankwise.data import make_battles
    >>> made = make_battles(3, 100, style=0, both_bad=0, random_state=0)
    >>> made.ratings.shape, len(made.battles)
    ((3,), 100)
    """
    share = Number(0, 1, open_high=True)
    for name, value, rule in (
        ("n_items", n_items, Whole(2)), ("n_battles", n_battles, Whole(1)),
        ("n_judges", n_judges, Whole(0)), ("spread", spread, Number(0)),
        ("ties", ties, Number(0)), ("style", style, Number()), ("position", position, Number()),
        ("both_bad", both_bad, share), ("slips", slips, share), ("rematch", rematch, share),
        ("dependence", dependence, share), ("session_size", session_size, Number(1)),
    ):  # fmt: skip
        check_value(name, value, rule)
    rng = as_generator(random_state)

    ratings = spread * rng.standard_normal(n_items)
    ratings -= ratings.mean()
    popularity = np.geomspace(1.0, 0.1, n_items)
    first = rng.choice(n_items, n_battles, p=popularity / popularity.sum())
    second = rng.choice(n_items, n_battles, p=popularity / popularity.sum())
    same = first == second
    second[same] = (first[same] + rng.integers(1, n_items, same.sum())) % n_items
    new = rng.random(n_battles) < 1.0 / session_size
    new[0] = True
    session = np.cumsum(new) - 1
    # Battles that repeat a pair take it from the last battle that does not.
    kept = np.where(new | (rng.random(n_battles) >= rematch), np.arange(n_battles), 0)
    kept = np.maximum.accumulate(kept)
    first, second = first[kept], second[kept]
    x = rng.standard_normal(n_battles)
    eta = ratings[first] - ratings[second] + style * x + position
    weights = np.column_stack((np.exp(-eta / 2), np.full(n_battles, ties), np.exp(eta / 2)))
    shares = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    code, number = np.unique(
        np.concatenate((session * n_items + first, session * n_items + second)), return_inverse=True
    )
    taste = rng.standard_normal(len(code))[number].reshape(2, -1)
    noise = np.sqrt(1 - dependence) * rng.standard_normal(n_battles)
    quantile = ndtr(np.sqrt(dependence / 2) * (taste[0] - taste[1]) + noise)
    outcome = np.array([1, 2, 0])[(quantile[:, None] > shares[:, :2]).sum(axis=1)]
    judge, judge_slips = None, np.zeros(0)
    if n_judges:
        judge_slips = np.minimum(slips * rng.gamma(2.0, 0.5, n_judges), 0.9)
        judge = rng.integers(0, n_judges, n_battles)
        random = rng.random(n_battles) < judge_slips[judge]
        outcome[random] = rng.integers(0, 3 if ties else 2, random.sum())
    outcome[rng.random(n_battles) < both_bad] = 3
    battles = Battles.of(
        first,
        second,
        np.array(["first", "second", "tie", "both_bad"])[outcome],
        items=np.arange(n_items),
        groups=session,
        judge=judge,
        context=x[:, None] if style else None,
    )
    names = np.array([f"item {k + 1}" for k in range(n_items)])
    battles = replace(battles, items=names, context_names=["style"] if style else None)
    return GeneratedBattles(battles, ratings, style, position, judge_slips)


def draw_triplets(
    positives: Any, n_documents: int, *, n_negatives: int = 1, random_state: Any = None
) -> NDArray[np.int64]:
    """Draw other documents for pairs of a query and a relevant document.

    Each other document is drawn uniformly from all documents that are not relevant to the query in
    any of the pairs. Takes O(n log n) time for n triplets.

    Parameters
    ----------
    positives : array-like of int, shape (n_pairs, 2)
        Rows (query, relevant document); a query may have several.
    n_documents : int
    n_negatives : int, default=1
        Other documents for each pair, drawn with replacement.
    random_state : int, Generator or None, default=None

    Returns
    -------
    ndarray of shape (n_pairs * n_negatives, 3)
        Rows (query, relevant document, other document) for `SparseBilinearRanker.fit`, in the
        order of the pairs.

    Examples
    --------
    >>> from rankwise.data import draw_triplets
    >>> draw_triplets([[0, 0], [0, 1], [1, 2]], n_documents=3, random_state=0)[:2]
    array([[0, 0, 2],
           [0, 1, 2]])
    """
    check_value("n_documents", n_documents, Whole(1))
    check_value("n_negatives", n_negatives, Whole(1))
    pairs = _checked(positives, n_documents)
    known = np.unique(pairs, axis=0)  # by query, then document
    queries, first, counts = np.unique(known[:, 0], return_index=True, return_counts=True)
    full = np.flatnonzero(counts == n_documents)
    if len(full):
        raise DataError(
            f"All {n_documents} documents are relevant to query {queries[full[0]]} ({len(full)} "
            "such queries): there is no other one to draw. Remove these pairs."
        )
    # The r-th document that is not relevant is r + the number of relevant documents before it. The
    # k-th relevant one, p, is before it if p - k <= r. The numbers p - k ascend within a query.
    number = np.searchsorted(queries, known[:, 0])
    skipped = number * (n_documents + 1) + known[:, 1] - (np.arange(len(known)) - first[number])
    query = np.repeat(np.searchsorted(queries, pairs[:, 0]), n_negatives)
    r = as_generator(random_state).integers(0, n_documents - counts[query])
    before = np.searchsorted(skipped, query * (n_documents + 1) + r, side="right") - first[query]
    return np.column_stack([np.repeat(pairs, n_negatives, axis=0), r + before])


def _checked(positives: Any, n_documents: int) -> NDArray[np.int64]:
    """Pairs of rows, with documents that exist."""
    try:
        pairs = np.asarray(positives)
    except ValueError:  # rows of different lengths
        pairs = np.empty(0)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0 or pairs.dtype.kind not in "iu":
        raise DataError(
            "positives must have rows (query, relevant document) of whole numbers, at least one: "
            f"got {pairs.dtype} of shape {pairs.shape}."
        )
    wrong = np.flatnonzero((pairs < 0).any(axis=1) | (pairs[:, 1] >= n_documents))
    if len(wrong):
        k = int(wrong[0])
        raise DataError(
            f"positives[{k}] is {tuple(pairs[k].tolist())}: rows are counted from 0, and documents "
            f"to {n_documents - 1} ({len(wrong)} such pairs)."
        )
    return pairs.astype(np.int64)
