"""Boards within a board: ratings of categories, shrunk towards the overall ratings.

The rating of item i in category c is theta_i + delta_ic, with theta_i ~ N(0, 1 / penalty) and
delta_ic ~ N(0, width^2). Penalty and width maximize the evidence. So the ratings of a category with
few battles are nearly the overall ones, and those of a category with many battles are separate.
Given the overall ratings, categories are independent of each other, and are eliminated one after
the other: O(n_categories n_items^3) time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError
from rankwise.leaderboard.battle_likelihood import (
    BattleProblem,
    DenseCurvature,
    GroupScores,
    Layout,
    Likelihood,
    Mode,
    by_evidence,
    maximize,
    mixed,
    over_widths,
)
from rankwise.leaderboard.over_time import (
    EXACT,
    FINE,
    INTEGRATED,
    LARGEST,
    PROBES,
    CellMatrix,
    SeenDrift,
    by_cell,
)
from rankwise.progress import Show

WIDTH_SCALE = 0.5  # of the prior of the standard deviation of deviations
PERMUTATIONS, MANY = 499, 100_000  # of categories among battles; a fifth of them for many battles


@dataclass(frozen=True, eq=False)
class StarMatrix(CellMatrix):
    """The cells are categories."""

    def diagonal(self) -> Array:
        """By overall ratings, other parameters and deviations."""
        own = np.einsum("cii->ci", self.blocks)
        return np.concatenate((own.sum(axis=0), self.corner.diagonal(), own.ravel()))


@dataclass(frozen=True, eq=False)
class StarLikelihood:
    """The likelihood of battles as a function of overall ratings and deviations.

    `plain` is the same as a function of the ratings of all categories, as if an item in another
    category were another item.
    """

    plain: Likelihood
    n_items: int

    @cached_property
    def layout(self) -> Layout:
        old = self.plain.layout
        return Layout.of(
            self.n_items, old.n_columns, ties=old.ties, item_ties=old.n_item_ties,
            deviations=old.items.stop,
        )  # fmt: skip

    def ratings(self, params: Array) -> Array:
        """The parameters of `plain`: ratings of all categories, columns, ties; also of columns."""
        n, common = self.n_items, self.layout.common
        both = params[common:].reshape(-1, n, *params.shape[1:]) + params[:n]
        return np.concatenate((both.reshape(-1, *params.shape[1:]), params[n:common]))

    def value(self, params: Array) -> float:
        """The log-likelihood."""
        return self.plain.value(self.ratings(params))

    def expand(self, params: Array, *, dense: bool) -> tuple[float, Array, StarMatrix]:
        """The log-likelihood, its gradient, and minus its second derivatives by ratings."""
        at = self.ratings(params)
        value, g, h = self.plain.expansion(at)
        by_rating, total = self.plain.gather(at, g), self.plain.layout.items.stop
        overall = by_rating[:total].reshape(-1, self.n_items).sum(axis=0)
        gradient = np.concatenate((overall, by_rating[total:], by_rating[:total]))
        return value, gradient, StarMatrix.of(self.plain, self.n_items, h)

    def curvature(self, matrix: StarMatrix, precision: Array, level: float) -> StarCurvature:
        """With `precision` of all parameters, and `level` on all overall ratings."""
        return StarCurvature.of(matrix, precision, level)


@dataclass(frozen=True, eq=False)
class StarCurvature:
    """Minus second derivatives with penalties, one category eliminated after the other.

    `factors` are of the blocks of deviations, `followed` is by how much the deviations of each
    category follow the common parameters, and `common` the curvature of these.
    """

    factors: list[tuple[Array, bool]]
    followed: Array
    common: DenseCurvature

    @classmethod
    def of(cls, matrix: StarMatrix, precision: Array, level: float) -> StarCurvature:
        C, n, _ = matrix.blocks.shape
        size = n + matrix.border.shape[1]
        K = np.zeros((size, size))
        K[n:, n:] = matrix.corner
        K[np.diag_indices(size)] += precision[:size]
        K[:n, :n] += level
        factors, followed = [], np.empty((C, n, size))
        deviations = precision[size:].reshape(C, n)
        for c in range(C):
            upper, B = matrix.blocks[c], matrix.border[c * n : (c + 1) * n]
            H = upper + np.triu(upper, 1).T
            G = np.hstack((H, B))
            K[:n, :n] += H
            K[:n, n:] += B
            K[n:, :n] += B.T
            own = H.copy()
            own[np.diag_indices(n)] += deviations[c]
            factors.append(cho_factor(own, lower=True, check_finite=False))
            followed[c] = cho_solve(factors[c], G, check_finite=False)
            K -= G.T @ followed[c]
        return cls(factors, followed, DenseCurvature.of(K))

    def solve(self, R: Array) -> Array:
        """The inverse times R."""
        C, n, size = self.followed.shape
        columns = R.reshape(len(R), -1)
        own = columns[size:].reshape(C, n, -1)
        common = self.common.solve(
            columns[:size] - np.einsum("cni,cnk->ik", self.followed, own, optimize=True)
        )
        parts = [
            cho_solve(factor, r, check_finite=False) - F @ common
            for factor, r, F in zip(self.factors, own, self.followed, strict=True)
        ]
        return np.concatenate((common, *parts)).reshape(R.shape)

    def log_det(self) -> float:
        """The logarithm of the determinant."""
        own = sum(float(np.log(factor.diagonal()).sum()) for factor, _ in self.factors)
        return 2.0 * own + self.common.log_det()

    def traces(self, groups: dict[str, slice]) -> dict[str, float]:
        """The sums of the diagonal of the inverse, over groups of parameters."""
        C, n, common = self.followed.shape
        size = common + C * n
        if size <= EXACT:
            diagonal = self.solve(np.eye(size)).diagonal()
        else:
            probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(size, PROBES))
            diagonal = (probes * self.solve(probes)).mean(axis=1)
        return {name: float(diagonal[part].sum()) for name, part in groups.items()}


@dataclass(frozen=True, eq=False)
class Boards:
    """Overall parameters with their covariance, and ratings of categories.

    Ratings and deviations of categories have shape (n_categories, n_items), relative to their
    means, and covariances are by category.
    """

    params: Array
    covariance: Array
    penalties: dict[str, float]
    converged: bool
    n_groups: int
    ratings: Array
    covariances: Array
    deviation_std: Array


def fit_boards(
    problem: BattleProblem,
    category: Index,
    n_categories: int,
    fixed: dict[str, float],
    show: Show,
    *,
    aged: bool,
) -> Boards:
    """Fit overall ratings and deviations to the battles of a problem.

    `fixed` are penalties that the evidence does not choose. If battles are `aged`, errors
    are of ratings that change.
    """
    n, C = problem.layout.items.stop, n_categories
    if 8 * C * n * n > LARGEST:
        raise DataError(
            f"Ratings of {n:,} items in {C} categories need {8 * C * n * n / 2**30:.0f} GiB for "
            "each matrix: join categories."
        )
    plain, row = by_cell(problem, category, C)
    likelihood = StarLikelihood(plain, n)
    start = {"deviations": 2.0}
    mode = by_evidence(likelihood, fixed, None, start, show, tolerance=FINE)
    parts = [(1.0, mode)]
    if "deviations" not in fixed and C * n**3 <= INTEGRATED:
        parts = over_widths(likelihood, mode, "deviations", WIDTH_SCALE)
    n_groups, found = 0, []
    drift = None
    if aged and problem.time is not None and np.ptp(problem.time):
        drift = SeenDrift.of(plain, likelihood.ratings(mode.params), problem, row)
    for _, part in parts:
        ratings = likelihood.ratings(part.params)
        scores = GroupScores.of(plain, ratings, row, problem.outcome, problem.weight, problem.group)
        scores = scores if drift is None else drift.added_to(scores)
        found.append(_of_one_width(likelihood, part, scores))
        n_groups = scores.n_groups
    weights = np.array([weight for weight, _ in parts])
    params, covariances, ratings, category_covariances, stds = (
        np.array(values) for values in zip(*found, strict=True)
    )
    overall = mixed(weights, params, covariances)
    each = [mixed(weights, ratings[:, c], category_covariances[:, c]) for c in range(C)]
    # Of the deviations, within and between widths.
    apart = ratings - params[:, None, :n]
    middle = np.einsum("k,kci->ci", weights, apart)
    squares = np.einsum("k,kci->ci", weights, stds**2 + np.square(apart - middle))
    widths = np.array([part.penalties["deviations"] ** -0.5 for _, part in parts])
    penalties = mode.penalties | {"deviations": float(weights @ widths) ** -2}
    return Boards(
        *overall, penalties, mode.converged, n_groups, np.array([mean for mean, _ in each]),
        np.array([covariance for _, covariance in each]), np.sqrt(squares),
    )  # fmt: skip


def _of_one_width(
    likelihood: StarLikelihood, mode: Mode, scores: GroupScores
) -> tuple[Array, Array, Array, Array, Array]:
    """Common parameters and their covariance, ratings of categories and theirs, and errors.

    The errors are of deviations.
    """
    params, n, common = mode.params, likelihood.n_items, likelihood.layout.common
    C = likelihood.plain.layout.items.stop // n
    G = (scores.matrix * np.sqrt(scores.correction)).tocsc()
    # A column of the inverse is T y, and what is added to the deviations of its own category: so a
    # category takes no sums over the others.
    whole: Any = mode.curvature
    T = np.concatenate((np.eye(common), *-whole.followed))
    by_rating, kept = likelihood.ratings(T), mode.precision[:, None] * T
    seen = G.T @ (G @ by_rating)
    shared_part = by_rating.T @ seen + T.T @ kept

    def covariance_of(y: Array, added: Array, c: int) -> Array:
        """X' (M + P) X, for X = T y, where `added` is added to the deviations of category c."""
        rating = slice(c * n, (c + 1) * n)
        deviation = slice(common + rating.start, common + rating.stop)
        here = G[:, rating]
        own = (here.T @ here).toarray() + np.diag(mode.precision[deviation])
        cross = y.T @ (seen[rating] + kept[deviation]).T @ added
        return np.asarray(y.T @ shared_part @ y + cross + cross.T + added.T @ own @ added)

    overall = whole.common.solve(np.eye(common))
    overall[:, :n] = _centred(overall[:, :n])
    covariances, stds = np.empty((C, n, n)), np.empty((C, n))
    for c in range(C):
        y = _centred(whole.common.solve(-whole.followed[c].T))
        added = _centred(cho_solve(whole.factors[c], np.eye(n), check_finite=False))
        stds[c] = np.sqrt(np.maximum(covariance_of(y, added, c).diagonal(), 0.0))
        covariances[c] = covariance_of(overall[:, :n] + y, added, c)
    ratings = likelihood.ratings(params)[: C * n].reshape(C, n)
    shared = params[:common].copy()
    shared[:n] -= shared[:n].mean()
    ratings = ratings - ratings.mean(axis=1, keepdims=True)
    return shared, overall.T @ shared_part @ overall, ratings, covariances, stds


def _centred(X: Array) -> Array:
    """Columns of items, relative to their mean."""
    return np.asarray(X - X.mean(axis=1, keepdims=True))


def more_than_chance(
    problem: BattleProblem, category: Index, penalties: dict[str, float], rng: np.random.Generator
) -> Array:
    """P-values of categories, and last of all of them together, by permutations of categories.

    Without deviations, the sum s_ci of the scores of the battles of category c by rating i has mean
    0. The statistic of a category is the sum over items of s_ci^2, divided by the sum of squares.
    Categories are permuted among battles, or among the parts of groups in one category.
    """
    params = maximize(problem.likelihood, penalties).params
    unit = np.arange(len(category))
    if problem.group is not None:
        code = problem.group * (int(category.max()) + 1) + category
        unit = np.unique(code, return_inverse=True)[1]
    label = np.zeros(int(unit.max()) + 1, dtype=np.intp)
    label[unit] = category
    matrix: Any = GroupScores.of(
        problem.likelihood, params, problem.row, problem.outcome, problem.weight, unit
    ).matrix[:, : problem.layout.items.stop]
    squares = matrix.multiply(matrix).tocsr()

    def statistics(labels: Index) -> Array:
        here = sp.csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))))
        sums, spread = (here @ matrix).toarray(), (here @ squares).toarray()
        return np.divide(sums**2, spread, out=np.zeros_like(sums), where=spread > 0).sum(axis=1)

    count = PERMUTATIONS if len(label) <= MANY else PERMUTATIONS // 5
    found = np.array(
        [statistics(label), *(statistics(rng.permutation(label)) for _ in range(count))]
    )
    # In the sum over categories, each counts by its standard deviation.
    scale = found.std(axis=0)
    total = (found / np.where(scale > 0, scale, 1.0)).sum(axis=1)
    found = np.column_stack((found, total))
    return np.asarray((found >= found[0] * (1 - 1e-9)).mean(axis=0))
