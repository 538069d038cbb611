"""The scores of items that a session asks about: their distribution, and the models of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist, pdist
from scipy.special import ndtr

from rankwise.asking.judged_raters import ADVERSARY, judge_raters
from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError
from rankwise.solvers.shifted_cg import shifted_cg

if TYPE_CHECKING:
    from rankwise.asking.items import Item
    from rankwise.gp.pairwise_gp import PairwiseGP

MANY = 400  # items above which draws take the place of a covariance, and much is done with less
SPREAD = 2.0  # prior variance of scores
_UNKNOWN_DRAWS = 50  # before anything was computed
OWN_SPREAD = 0.5  # prior variance of own parts beside features
SPREAD_BOUNDS = (0.02, 200.0)
SLIPS = 0.04  # share of slips to expect
SPREAD_SCALE, _SLIPS_SCALE = 1.2, 0.5  # of logarithms of hyperparameters
MARGINS = {"first": "first", "second": "second", "tie": "tie", "both_bad": "tie"}
_filters = Lock()  # warning filters belong to all threads
_DRAWS, _FEW_DRAWS = 200, 60  # in the end, and in sweeps
_LANDMARKS = 200  # that a smooth function of features is made of
_SWEEPS, _FEW_SWEEPS = 40, 4  # at most: of a fit, and after a few more answers
_CLOSE = 0.01  # a change of a moment or of the logarithm of a variance that is none
_KEPT = 0.3  # of a site in a sweep
_LEFT = 0.05  # least share of the precision of a difference that is not from its own answer
_TOLERANCE, _PRODUCTS = 1e-3, 500  # of conjugate gradients
_THRESHOLD, _THRESHOLD_BOUNDS = 0.5, (1e-3, 5.0)  # half the width of the interval of ties
_COLUMNS = ("first", "second", "tie")


@dataclass(frozen=True, eq=False)
class DenseScores:
    """A normal distribution of the scores of all items, in units of the noise of an answer."""

    mean: Array
    covariance: Array

    def draws(self, most: int) -> Array:
        """Draws of the scores, at most `most` rows; the same draws every time."""
        rng = np.random.default_rng(most)
        n, covariance = len(self.mean), self.covariance
        jitter = 1e-9 * float(np.trace(covariance)) / n + 1e-300
        try:
            root = np.linalg.cholesky(covariance + jitter * np.eye(n))
        except np.linalg.LinAlgError:  # rounding made it indefinite
            values, vectors = np.linalg.eigh(covariance)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(self.mean + rng.standard_normal((most, n)) @ root.T)

    def spread(self) -> Array:
        """Variance of each score."""
        return np.diagonal(self.covariance)

    def contrast(self) -> Array:
        """Variance of each score less the mean of all scores."""
        level = self.covariance.mean(axis=1)
        return np.maximum(self.spread() - 2.0 * level + level.mean(), 0.0)

    def variance(self, i: Index, j: Index) -> Array:
        """Variances of differences of pairs of scores."""
        spread = self.spread()
        return np.maximum(spread[i] + spread[j] - 2.0 * self.covariance[i, j], 0.0)

    def covariance_of(self, rows: slice | Index) -> Array:
        """Covariances of some scores with all."""
        return np.asarray(self.covariance[rows])

    def axes(self, root: Array) -> tuple[Array, Array | None]:
        """Eigenvalues and eigenvectors of the covariance of root times scores.

        None in place of eigenvectors: scores are taken as independent.
        """
        values, vectors = np.linalg.eigh(root[:, None] * self.covariance * root)
        return np.maximum(values, 0.0), vectors

    def compared(self, i: int, j: int) -> DenseScores:
        """The distribution after a comparison of equals, whose noise has the variance pi / 2."""
        column = self.covariance[:, i] - self.covariance[:, j]
        known = column / (0.5 * np.pi + max(column[i] - column[j], 0.0))
        return DenseScores(self.mean, np.asarray(self.covariance - column[:, None] * known))


@dataclass(frozen=True, eq=False)
class DrawnScores:
    """The same for many items, with draws around the mean in place of a covariance."""

    mean: Array
    around: Array  # of shape (n_draws, n_items)

    def draws(self, most: int) -> Array:
        return np.asarray(self.mean + self.around[:most])

    def spread(self) -> Array:
        return np.asarray(np.mean(self.around**2, axis=0))

    def contrast(self) -> Array:
        return np.asarray(np.mean((self.around - self.around.mean(axis=1)[:, None]) ** 2, axis=0))

    def variance(self, i: Index, j: Index) -> Array:
        columns, total = np.ascontiguousarray(self.around.T), np.empty(len(i))
        for k in range(0, len(i), 4096):  # as many pairs as fit a cache
            part = slice(k, k + 4096)
            total[part] = np.mean((columns[i[part]] - columns[j[part]]) ** 2, axis=1)
        return total

    def covariance_of(self, rows: slice | Index) -> Array:
        return np.asarray(self.around[:, rows].T @ self.around / len(self.around))

    def axes(self, root: Array) -> tuple[Array, Array | None]:
        return np.asarray(root**2 * self.spread()), None

    def compared(self, i: int, j: int) -> DrawnScores:
        """Unchanged: with many items, pairs that are chosen together have no item in common."""
        return self


Scores = DenseScores | DrawnScores


def unknown_scores(n_items: int) -> DrawnScores:
    """Before anything was computed: equal scores, about which little is known."""
    around = np.random.default_rng(0).standard_normal((_UNKNOWN_DRAWS, n_items))
    return DrawnScores(np.zeros(n_items), np.sqrt(SPREAD) * around)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Without warnings about items that were not compared yet, and about new raters."""
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@dataclass(frozen=True, order=True)
class Comparison:
    """An answer that counts: numbers of two items, the outcome, and the rater."""

    first: int
    second: int
    outcome: str  # a key of MARGINS
    rater: str

    def normalized(self) -> Comparison:
        """With the smaller number first."""
        if self.first < self.second:
            return self
        return Comparison(self.second, self.first, self.reversed().outcome, self.rater)

    def reversed(self) -> Comparison:
        """With the other item as the better one."""
        turned = {"first": "second", "second": "first"}.get(self.outcome, self.outcome)
        return replace(self, outcome=turned)


@dataclass(frozen=True, eq=False)
class HeldOutAnswers:
    """Predictions of each answer from all others.

    Attributes
    ----------
    probability : ndarray of shape (n_answers,)
        Of the outcome, if it is not a slip.
    mean : ndarray of shape (n_answers,)
        By how much the first item is better.
    margin : ndarray of shape (n_answers,)
        1: the first won, 0: a tie, -1: the second won.
    """

    probability: Array
    mean: Array
    margin: Array


class ItemModel:
    """Scores of items, learned from comparisons.

    Without features, the scores of items are independent before any comparison. With features, a
    score is a smooth function of these plus a separate part for each item. The model learns from
    the answers how far scores differ relative to the noise of answers, how smooth the function is,
    how many answers are slips, and how reliable each rater is. Priors keep these from following a
    few answers too closely. The judge model of `Leaderboard` finds raters who prefer the worse
    items, and their answers count the other way round.

    Parameters
    ----------
    n_items : int
    features : ndarray of shape (n_items, n_features), optional
    """

    gp: PairwiseGP  # after a fit
    judged: Mapping[str, Mapping[str, Any]]  # after a fit

    def __init__(self, n_items: int, features: Array | None = None) -> None:
        self.n_items = n_items
        self.X = np.arange(float(n_items))[:, None]
        self._columns = 0
        if features is not None:
            scaled = _standardized(features)
            self._columns = scaled.shape[1]
            self.X = np.hstack((self.X, scaled))

    def fit(self, comparisons: Sequence[Comparison]) -> ItemModel:
        """Learn from comparisons; their order does not matter."""
        from rankwise.gp.pairwise_gp import PairwiseGP

        ordered = sorted(c.normalized() for c in comparisons)
        raters = [c.rater for c in ordered]
        kernel = self._kernel()
        has_ties = any(MARGINS[c.outcome] == "tie" for c in ordered)
        scales = [SPREAD_SCALE] * (len(kernel.theta) + has_ties) + [_SLIPS_SCALE]
        gp = PairwiseGP(kernel, tie_model="threshold", flips=SLIPS, prior_scale=scales)
        given: dict[str, Any] = {}
        if len(set(raters)) > 1:
            given["rater"] = raters
        with _without_warnings():
            self.judged = judge_raters(_pairs(ordered), _margins(ordered), raters)
            meant = self._meant(ordered)
            self.gp = gp.fit_pairs(self.X, _pairs(meant), margin=_margins(meant), **given)
        return self

    def _meant(self, comparisons: Sequence[Comparison]) -> list[Comparison]:
        """The answers, the other way round for raters who prefer the worse items."""
        against = {name for name, found in self.judged.items() if found["remark"] == ADVERSARY}
        return [c.reversed() if c.rater in against else c for c in comparisons]

    def tell(self, comparisons: Sequence[Comparison]) -> None:
        """Learn from further comparisons, without a new choice of hyperparameters."""
        if not comparisons:
            return
        rater = None if self.gp.raters_ is None else [c.rater for c in comparisons]
        with _without_warnings():
            meant = self._meant(comparisons)
            self.gp.tell(_pairs(meant), margin=_margins(meant), rater=rater)

    def scores(self) -> DenseScores:
        """Mean and covariance of scores, in units of the noise of an answer."""
        mean, covariance = self.gp.training_moments()
        return DenseScores(mean.copy(), covariance.copy())

    def held_out(self) -> HeldOutAnswers:
        """What all other answers say about each answer, in the order of the fit."""
        if not len(self.gp.pairs_):
            return HeldOutAnswers(np.zeros(0), np.zeros(0), np.zeros(0))
        held_out, margin, slips = self.gp.leave_one_out(), self.gp.margin_, self.gp.flips_
        column = np.where(margin > 0, 0, np.where(margin < 0, 2, 1))
        p = held_out.probabilities[np.arange(len(margin)), column]
        q = np.clip((p - slips) / (1.0 - 2.0 * slips), 0.0, 1.0)
        return HeldOutAnswers(q, held_out.mean, margin)

    @property
    def slips(self) -> float:
        """The share of slips among answers."""
        return float(self.gp.flips_)

    def _kernel(self) -> Any:
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        from rankwise.gp.process import OnColumns

        if not self._columns:
            return WhiteKernel(SPREAD, SPREAD_BOUNDS)
        columns = np.arange(1, 1 + self._columns)
        width = _median_distance(self.X[:, 1:])
        smooth = ConstantKernel(SPREAD, SPREAD_BOUNDS) * RBF(width, (0.1 * width, 30.0 * width))
        own = WhiteKernel(OWN_SPREAD, (1e-3, SPREAD_BOUNDS[1]))
        return OnColumns(smooth, columns) + OnColumns(own, np.arange(1))


def _pairs(comparisons: Sequence[Comparison]) -> Index:
    return np.array([(c.first, c.second) for c in comparisons], dtype=np.intp).reshape(-1, 2)


def _margins(comparisons: Sequence[Comparison]) -> Any:
    return np.array([MARGINS[c.outcome] for c in comparisons], dtype="U6")


def _standardized(features: Array) -> Array:
    """Columns with mean 0 and variance 1; constant columns are dropped."""
    centred = features - features.mean(axis=0)
    spread = np.sqrt(np.mean(centred**2, axis=0))
    varies = spread > 1e-12 * np.abs(features).max(axis=0, initial=1.0)
    if not varies.any():
        raise DataError("features are the same for all items: leave them out.")
    return np.asarray(centred[:, varies] / spread[varies])


def _median_distance(X: Array) -> float:
    distances = pdist(X[:500])
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0


class ManyItems:
    """Scores of many items, learned from comparisons.

    The model differs from `ItemModel` in three parts: all raters count alike, the share of slips is
    4%, and a smooth function of features has one width, the median distance of items.

    A score is ``f = F w + u``, where F has a column for each of at most 200 landmarks. Expectation
    propagation replaces each answer by a normal factor, so that the posterior precision of (w, u)
    is a sparse matrix of comparisons between two products with F. Conjugate gradients find the
    mean; with random right-hand sides they find draws, whose mean squares are the variances that
    the next sweep needs. The random numbers are the same each time. After each sweep, a variance of
    the prior becomes the mean square of its coefficients under the posterior, corrected for a
    log-normal prior: at the maximum of the evidence, the two are equal.

    A sweep over m answers about n items with r landmarks takes a few dozen products of O(m + n r)
    with 60 columns. No matrix of n rows and n columns is made.

    Parameters
    ----------
    n_items : int
    features : ndarray of shape (n_items, n_features), optional
    """

    slips = SLIPS
    judged: Mapping[str, Mapping[str, Any]] = {}

    def __init__(self, n_items: int, features: Array | None = None) -> None:
        self.n_items = n_items
        self._F = np.zeros((n_items, 0))
        if features is not None:
            self._F = _smooth_columns(_standardized(features))
        n_smooth = self._F.shape[1]
        self._group = np.repeat([0, 1], [n_smooth, n_items])  # smooth and own parts
        self._start = np.array([SPREAD, OWN_SPREAD if n_smooth else SPREAD])
        self.fit([])

    def fit(self, comparisons: Sequence[Comparison]) -> ManyItems:
        """Learn from comparisons; their order does not matter."""
        self._variance, self._threshold = self._start.copy(), 0.0
        self._hear(sorted(c.normalized() for c in comparisons))
        self._tau, self._nu = np.zeros((2, len(self._told)))
        self._sweep(_SWEEPS, learning=True)
        return self

    def tell(self, comparisons: Sequence[Comparison]) -> None:
        """Learn from further comparisons, without a new choice of hyperparameters."""
        self._hear([*self._told, *comparisons])
        nothing = np.zeros(len(comparisons))
        self._tau, self._nu = (np.append(sites, nothing) for sites in (self._tau, self._nu))
        self._sweep(_FEW_SWEEPS, learning=False)

    def _hear(self, told: Sequence[Comparison]) -> None:
        """Keep comparisons as arrays."""
        self._told, self._pairs = told, _pairs(told)
        columns = [_COLUMNS.index(MARGINS[c.outcome]) for c in told]
        self._counts = np.eye(3)[np.array(columns, dtype=np.intp)]  # a 1 for the outcome
        at = (self._pairs.ravel(), np.repeat(np.arange(len(told)), 2))
        signs = np.tile([1.0, -1.0], len(told))  # of first and second items
        self._incidence = csr_array((signs, at), shape=(self.n_items, len(told)))

    def scores(self) -> DrawnScores:
        """Mean and draws of scores, in units of the noise of an answer."""
        return self._scores

    def held_out(self) -> HeldOutAnswers:
        """What all other answers say about each answer, in the order of the fit."""
        mean, variance = self._without_each()
        p = _outcomes(mean, variance, self._threshold)
        counts = self._counts
        return HeldOutAnswers((counts * p).sum(axis=1), mean, counts[:, 0] - counts[:, 1])

    def _sweep(self, most: int, *, learning: bool) -> None:
        """Match sites to their answers, and learn variances, until little changes."""
        from rankwise.gp.probit import update_sites

        if not self._threshold and self._counts[:, 2].any():
            self._threshold = _THRESHOLD
        matched = np.empty((len(self._tau), 3))
        for _ in range(most if len(self._tau) else 0):
            y = self._coefficients(_FEW_DRAWS)
            self._scores = self._as_scores(y)
            mean, variance = self._differences()
            prior = variance / _LEFT  # variances of draws may be too large for their sites
            given = (self._counts, self._threshold, self.slips, matched)
            update_sites(mean, variance, prior, self._tau, self._nu, *given)
            tau, nu = self._proper(*matched[:, :2].T)
            changed = float(np.quantile(np.abs(nu - self._nu), 0.99))
            self._tau = _KEPT * self._tau + (1.0 - _KEPT) * tau
            self._nu = _KEPT * self._nu + (1.0 - _KEPT) * nu
            if learning:
                changed = max(changed, self._learn(y))
            if changed < _CLOSE:
                break
        self._scores = self._as_scores(self._coefficients(_DRAWS))

    def _proper(self, tau: Array, nu: Array) -> tuple[Array, Array]:
        """Sites without the negative precisions of surprising answers: only means match."""
        mean, variance = self._without_each()
        left = 1.0 / (1.0 + tau * variance)
        return np.maximum(tau, 0.0), np.where(tau < 0, (nu - mean * tau) * left, nu)

    def _coefficients(self, n_draws: int) -> Array:
        """Mean of (w, u), in units of prior deviations, and draws around it, as columns."""
        rng, incidence = np.random.default_rng(n_draws), self._incidence
        noise = rng.standard_normal((len(self._tau), n_draws))
        pushes = np.column_stack((self._nu, np.sqrt(self._tau)[:, None] * noise))
        right = self._transposed(incidence @ pushes)
        right[:, 1:] += rng.standard_normal((len(right), n_draws))
        precision = csr_array((incidence * self._tau) @ incidence.T)  # of all scores

        def apply(y: Array) -> Array:
            return self._transposed(precision @ self._product(y))

        found = shifted_cg(apply, right, [1.0], tol=_TOLERANCE, max_iter=_PRODUCTS)
        return np.asarray(found.solutions[0])

    @property
    def _deviation(self) -> Array:
        return np.asarray(np.sqrt(self._variance)[self._group])

    def _product(self, y: Array) -> Array:
        """Scores of coefficients."""
        x, r = self._deviation[:, None] * y, self._F.shape[1]
        return np.asarray(self._F @ x[:r] + x[r:])

    def _transposed(self, g: Array) -> Array:
        return np.asarray(self._deviation[:, None] * np.vstack((self._F.T @ g, g)))

    def _as_scores(self, y: Array) -> DrawnScores:
        f = self._product(y).T
        return DrawnScores(f[0], np.ascontiguousarray(f[1:]))

    def _learn(self, y: Array) -> float:
        """Update variances and the interval of ties; returns the largest change of a logarithm."""
        squares = y[:, 0] ** 2 + np.mean(y[:, 1:] ** 2, axis=1)
        compared = np.diff(self._incidence.indptr) > 0
        counted = np.concatenate((np.full(self._F.shape[1], True), compared))
        before = self._variance.copy()
        for k in range(2):
            mine = counted & (self._group == k)
            if mine.any():
                total = before[k] * float(squares[mine].sum())
                found = _best_variance(total, int(mine.sum()), self._start[k])
                # Steps that only use mean squares are short: these are twice as long.
                self._variance[k] = np.clip(found**2 / before[k], *SPREAD_BOUNDS)
        if self._counts[:, 2].any():
            self._threshold = self._tie_width()
        return float(np.abs(np.log(self._variance / before)).max())

    def _tie_width(self) -> float:
        """The interval for which as many ties are expected as there are."""
        mean, variance = self._without_each()
        share = float(self._counts[:, 2].mean())

        def excess(t: float) -> float:
            return float(_outcomes(mean, variance, t)[:, 2].mean()) - share

        return _root(excess, *_THRESHOLD_BOUNDS)

    def _differences(self) -> tuple[Array, Array]:
        """Mean and variance of the difference that each answer is about."""
        first, second = self._pairs.T
        scores = self._scores
        return scores.mean[first] - scores.mean[second], scores.variance(first, second)

    def _without_each(self) -> tuple[Array, Array]:
        """Mean and variance of each difference without its own answer."""
        mean, variance = self._differences()
        left = np.maximum(1.0 - self._tau * variance, _LEFT)
        return (mean - variance * self._nu) / left, variance / left


def _outcomes(mean: Array, variance: Array, threshold: float) -> Array:
    """P(the first wins), P(the second wins) and P(a tie) for normal differences, as columns."""
    spread = np.sqrt(1.0 + variance)
    win, loss = ndtr((mean - threshold) / spread), ndtr((-mean - threshold) / spread)
    return np.column_stack((win, loss, 1.0 - win - loss))


def _best_variance(total: float, n: int, start: float) -> float:
    """The variance of n normal coefficients with a sum of squares, with a log-normal prior."""

    def descent(log_variance: float) -> float:
        back = (log_variance - np.log(start)) / SPREAD_SCALE**2
        return float(back - 0.5 * (total * np.exp(-log_variance) - n))

    return float(np.exp(_root(descent, *np.log(SPREAD_BOUNDS))))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where an increasing function is 0; the closer end of the interval, if it is 0 nowhere."""
    if function(low) >= 0:
        return low
    return float(brentq(function, low, high)) if function(high) > 0 else high


def _smooth_columns(X: Array) -> Array:
    """F with F F' = K_nm K_mm^-1 K_mn, for a Gaussian kernel and some rows as landmarks."""
    rng = np.random.default_rng(0)
    chosen = np.unique(X[rng.permutation(len(X))[:_LANDMARKS]], axis=0)
    scale = -0.5 / _median_distance(X) ** 2
    K = np.exp(scale * cdist(chosen, chosen, "sqeuclidean"))
    root = np.linalg.cholesky(K + 1e-6 * np.eye(len(chosen)))
    across = np.exp(scale * cdist(chosen, X, "sqeuclidean"))
    return np.asarray(solve_triangular(root, across, lower=True).T)


Model = ItemModel | ManyItems


def model_of(items: Sequence[Item]) -> Model:
    """A model of items before any answer."""
    rows = np.array([item.features for item in items]) if items[0].features else None
    return ItemModel(len(items), rows) if len(items) <= MANY else ManyItems(len(items), rows)
