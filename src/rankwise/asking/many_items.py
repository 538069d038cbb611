"""The scores of many items: expectation propagation with sparse products and draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from scipy.special import ndtr

from rankwise.asking.item_model import (
    MARGINS,
    OWN_SPREAD,
    SLIPS,
    SPREAD_BOUNDS,
    SPREAD_SCALE,
    Comparison,
    HeldOutAnswers,
    median_distance,
    standardized,
)
from rankwise.asking.item_scores import SPREAD, DrawnScores
from rankwise.backends.arrays import Array, Index
from rankwise.gp.probit import update_sites
from rankwise.solvers.shifted_cg import shifted_cg

_DRAWS, _FEW_DRAWS = 200, 60  # in the end, and in sweeps
_LANDMARKS = 200  # that a smooth function of features is made of
_SWEEPS, _FEW_SWEEPS = 40, 4  # at most: of a fit, and after a few more answers
_CLOSE = 0.01  # a change of a moment or of the logarithm of a variance that is none
_KEPT = 0.3  # of a site in a sweep
_TOLERANCE, _PRODUCTS = 1e-3, 500  # of conjugate gradients
_THRESHOLD, _THRESHOLD_BOUNDS = 0.5, (1e-3, 5.0)  # half the width of the interval of ties
_COLUMNS = ("first", "second", "tie")


class ManyItems:
    """Scores of many items, learned from comparisons.

    The model is that of `ItemModel` but for three parts: all raters have the same noise, the share
    of slips is 4%, and a smooth function of features has one width, the median distance of items.

    A score is ``f = F w + u``, where F has a column for each of at most 200 landmarks. Expectation
    propagation replaces each answer by a normal factor, so that the posterior precision of (w, u)
    is a sparse matrix of comparisons between two products with F. Conjugate gradients find the
    mean; for random right hand sides they find draws, whose mean squares are the variances that
    the next sweep needs. The random numbers are the same each time. Where a variance of the prior
    maximizes the evidence, it is the mean square of its coefficients under the posterior, which is
    what it becomes after each sweep, but for a log-normal prior.

    A sweep over m answers about n items with r landmarks takes some tens of products of O(m + n r)
    with 60 columns. No matrix of n rows and n columns is made.

    Parameters
    ----------
    n_items : int
    features : ndarray of shape (n_items, n_features), optional
    """

    slips = SLIPS

    def __init__(self, n_items: int, features: Array | None = None) -> None:
        self.n_items = n_items
        self._F = np.zeros((n_items, 0))
        if features is not None:
            self._F = _smooth_columns(standardized(np.asarray(features, dtype=np.float64), n_items))
        n_smooth = self._F.shape[1]
        self._group = np.repeat([0, 1], [n_smooth, n_items])  # smooth and own parts
        self._start = np.array([SPREAD, OWN_SPREAD if n_smooth else SPREAD])
        self.fit([])

    def fit(self, comparisons: Sequence[Comparison]) -> ManyItems:
        """Learn from comparisons; their order does not matter."""
        self._variance, self._threshold = self._start.copy(), 0.0
        self._told = sorted(c.normalized() for c in comparisons)
        self._seen = _Answers.of(self._told, self.n_items)
        self._tau, self._nu = np.zeros((2, len(self._told)))
        self._sweep(_SWEEPS, learning=True)
        return self

    def tell(self, comparisons: Sequence[Comparison]) -> None:
        """Learn from further comparisons, without a new choice of hyperparameters."""
        self._told = [*self._told, *comparisons]
        self._seen = _Answers.of(self._told, self.n_items)
        nothing = np.zeros(len(comparisons))
        self._tau, self._nu = (np.append(sites, nothing) for sites in (self._tau, self._nu))
        self._sweep(_FEW_SWEEPS, learning=False)

    def scores(self) -> DrawnScores:
        """Mean and draws of scores, in units of the noise of an answer."""
        return self._scores

    def held_out(self) -> HeldOutAnswers:
        """What all other answers say about each answer, in the order of the fit."""
        mean, variance = self._without_each()
        p = _outcomes(mean, variance, self._threshold)
        counts = self._seen.counts
        return HeldOutAnswers((counts * p).sum(axis=1), mean, counts[:, 0] - counts[:, 1])

    def _sweep(self, most: int, *, learning: bool) -> None:
        """Match sites to their answers, and learn variances, until little changes."""
        seen = self._seen
        if not self._threshold and seen.ties.any():
            self._threshold = _THRESHOLD
        matched = np.empty((len(self._tau), 3))
        for _ in range(most if len(self._tau) else 0):
            y = self._coefficients(_FEW_DRAWS)
            self._scores = self._as_scores(y)
            mean = seen.differences(self._scores.mean)
            variance = self._scores.variance(seen.first, seen.second)
            prior = np.full(len(mean), np.inf)
            given = (seen.counts, self._threshold, self.slips, matched)
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
        """Sites without negative precisions, which surprising answers have: only means match."""
        mean, variance = self._without_each()
        left = 1.0 / (1.0 + tau * variance)
        return np.maximum(tau, 0.0), np.where(tau < 0, (nu - mean * tau) * left, nu)

    def _coefficients(self, n_draws: int) -> Array:
        """Mean of (w, u), in units of prior deviations, and draws around it, as columns."""
        seen, rng = self._seen, np.random.default_rng(n_draws)
        noise = rng.standard_normal((len(self._tau), n_draws))
        pushes = np.column_stack((self._nu, np.sqrt(self._tau)[:, None] * noise))
        right = self._transposed(seen.incidence @ pushes)
        right[:, 1:] += rng.standard_normal((len(right), n_draws))
        precision = seen.laplacian(self._tau)

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
        """Better variances and a better interval of ties; the largest change of a logarithm."""
        squares = y[:, 0] ** 2 + np.mean(y[:, 1:] ** 2, axis=1)
        compared = self._seen.degree > 0
        counted = np.concatenate((np.full(self._F.shape[1], True), compared))
        before = self._variance.copy()
        for k in range(2):
            mine = counted & (self._group == k)
            if mine.any():
                total = before[k] * float(squares[mine].sum())
                found = _best_variance(total, int(mine.sum()), self._start[k])
                # Steps that only use mean squares are short: these are twice as long.
                self._variance[k] = np.clip(found**2 / before[k], *SPREAD_BOUNDS)
        if self._seen.ties.any():
            self._threshold = self._tie_width()
        return float(np.abs(np.log(self._variance / before)).max())

    def _tie_width(self) -> float:
        """The interval for which as many ties are expected as there are."""
        mean, variance = self._without_each()
        share = float(self._seen.ties.mean())

        def excess(t: float) -> float:
            return float(_outcomes(mean, variance, t)[:, 2].mean()) - share

        low, high = _THRESHOLD_BOUNDS
        if excess(low) >= 0:
            return low
        return float(brentq(excess, low, high)) if excess(high) > 0 else high

    def _without_each(self) -> tuple[Array, Array]:
        """Mean and variance of each difference without its own answer."""
        seen = self._seen
        mean = seen.differences(self._scores.mean)
        variance = self._scores.variance(seen.first, seen.second)
        left = np.maximum(1.0 - self._tau * variance, 0.05)
        return (mean - variance * self._nu) / left, variance / left


@dataclass(frozen=True, eq=False)
class _Answers:
    """Comparisons as arrays."""

    first: Index
    second: Index
    counts: Array  # of shape (n_answers, 3): a 1 in the column of the outcome
    incidence: csr_array  # of shape (n_items, n_answers): 1 for first items, -1 for second ones

    @classmethod
    def of(cls, comparisons: Sequence[Comparison], n_items: int) -> _Answers:
        m = len(comparisons)
        pairs = np.array([(c.first, c.second) for c in comparisons], dtype=np.intp).reshape(-1, 2)
        columns = [_COLUMNS.index(MARGINS[c.outcome]) for c in comparisons]
        signs = np.tile([1.0, -1.0], m)
        at = (pairs.ravel(), np.repeat(np.arange(m), 2))
        return cls(
            pairs[:, 0],
            pairs[:, 1],
            np.eye(3)[np.array(columns, dtype=np.intp)],
            csr_array((signs, at), shape=(n_items, m)),
        )

    @property
    def ties(self) -> Array:
        return self.counts[:, 2]

    @property
    def degree(self) -> Index:
        """The number of answers about each item."""
        return np.diff(self.incidence.indptr)

    def differences(self, scores: Array) -> Array:
        return np.asarray(scores[self.first] - scores[self.second])

    def laplacian(self, weight: Array) -> csr_array:
        """The matrix of the sum of weight (f_first - f_second)^2."""
        i, j, n = self.first, self.second, self.incidence.shape[0]
        values = np.concatenate((weight, weight, -weight, -weight))
        at = (np.concatenate((i, j, i, j)), np.concatenate((i, j, j, i)))
        return csr_array((values, at), shape=(n, n))


def _outcomes(mean: Array, variance: Array, threshold: float) -> Array:
    """P(the first wins), P(the second wins) and P(a tie) for normal differences, as columns."""
    spread = np.sqrt(1.0 + variance)
    win, loss = ndtr((mean - threshold) / spread), ndtr((-mean - threshold) / spread)
    return np.column_stack((win, loss, 1.0 - win - loss))


def _best_variance(total: float, n: int, start: float) -> float:
    """The variance of n normal coefficients with a sum of squares, with a log-normal prior."""

    def slope(log_variance: float) -> float:
        back = (log_variance - np.log(start)) / SPREAD_SCALE**2
        return float(0.5 * (total * np.exp(-log_variance) - n) - back)

    low, high = np.log(SPREAD_BOUNDS)
    if slope(low) <= 0:
        return SPREAD_BOUNDS[0]
    return float(np.exp(brentq(slope, low, high))) if slope(high) < 0 else SPREAD_BOUNDS[1]


def _smooth_columns(X: Array) -> Array:
    """F with F F' = K_nm K_mm^-1 K_mn, for a Gaussian kernel and some rows as landmarks."""
    rng = np.random.default_rng(0)
    chosen = np.unique(X[rng.permutation(len(X))[:_LANDMARKS]], axis=0)
    scale = -0.5 / median_distance(X) ** 2
    K = np.exp(scale * cdist(chosen, chosen, "sqeuclidean"))
    root = np.linalg.cholesky(K + 1e-6 * np.eye(len(chosen)))
    across = np.exp(scale * cdist(chosen, X, "sqeuclidean"))
    return np.asarray(solve_triangular(root, across, lower=True).T)
