"""Boards within a board: ratings of categories, shrunk towards the overall ratings.

The rating of item i in category c is theta_i + delta_ic, with theta_i ~ N(0, 1 / penalty) and
delta_ic ~ N(0, width^2). Penalty and width maximize the evidence. So the ratings of a category with
few battles are nearly the overall ones, and those of a category with many battles are separate. If
categories may as well be equal, by the evidence, deviations are shrunk further.
Given the overall ratings, categories are independent of each other, and are eliminated as blocks of
the deviations of items that have battles: O(n_categories n_items^3) time, and less where categories
have few items.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index, Sparse
from rankwise.data.battles import Battles, number_labels
from rankwise.errors import DataError
from rankwise.leaderboard.battle_likelihood import (
    BattleProblem,
    GroupScores,
    Layout,
    Mode,
    by_evidence,
    maximize,
    mixed,
    over_widths,
)
from rankwise.leaderboard.curvature import Arrow, EqualBlocks
from rankwise.leaderboard.over_time import (
    FINE,
    INTEGRATED,
    LARGEST,
    CellLikelihood,
    SeenDrift,
)
from rankwise.progress import Show

WIDTH_SCALE = 0.5  # of the prior of the standard deviation of deviations
PERMUTATIONS, MANY = 499, 100_000  # of categories among battles; a fifth of them for many battles


def categories_in_order(battles: Battles) -> tuple[NDArray[Any], Index]:
    """The categories, and the number of each battle's: periods in order of time, others sorted."""
    found, code = number_labels(np.asarray(battles.category))
    key = np.array(found.tolist())
    if battles.time is not None and are_periods(battles):
        key, _ = _ends(battles.time, code)
    order = np.argsort(key, kind="stable")
    return found[order], np.argsort(order)[code]


def are_periods(battles: Battles) -> bool:
    """Whether categories are periods: one ends before the next begins."""
    if battles.time is None:
        return False
    begin, end = _ends(battles.time, number_labels(np.asarray(battles.category))[1])
    order = np.argsort(begin)
    return bool((end[order][:-1] < begin[order][1:]).all())


def _ends(time: Array, code: Index) -> tuple[Array, Array]:
    """The times of the first and of the last battle of each category."""
    begin = np.full(code.max() + 1, np.inf)
    end = -begin
    np.minimum.at(begin, code, time)
    np.maximum.at(end, code, time)
    return begin, end


@dataclass(frozen=True, eq=False)
class CellBlocks:
    """Where derivatives by two cells of a category are, if those of each category are a block.

    `begin` is where the row of a cell begins among all numbers, and `place` the number of the cell
    in its category. `parts` has, for each size of categories, where their blocks are, and
    their cells in an array of shape (n_categories, size).
    """

    begin: Index
    place: Index
    parts: list[tuple[slice, Index]]

    @classmethod
    def of(cls, category: Index) -> CellBlocks:
        size = np.bincount(category)
        first = np.cumsum(size) - size
        offset, parts, end = np.zeros(len(size), dtype=np.intp), [], 0
        for k in np.unique(size[size > 0]).tolist():
            some = np.flatnonzero(size == k)
            offset[some] = end + k * k * np.arange(len(some))
            parts.append((slice(end, end + k * k * len(some)), first[some][:, None] + np.arange(k)))
            end = parts[-1][0].stop
        place = np.arange(len(category)) - first[category]
        return cls(offset[category] + size[category] * place, place, parts)

    def of_values(self, one: Index, other: Index, values: Array) -> list[Array]:
        """The sums of the values of two cells: (n_categories, size, size), for each size."""
        total = self.parts[-1][0].stop
        sums: Any = np.bincount(self.begin[one] + self.place[other], values, total)
        return [sums[where].reshape(*at.shape, -1) for where, at in self.parts]


@dataclass(frozen=True, eq=False)
class StarLikelihood:
    """The likelihood of battles as a function of overall ratings and deviations of cells."""

    plain: CellLikelihood
    n_items: int

    @cached_property
    def layout(self) -> Layout:
        old = self.plain.layout
        return old.with_parts(n_items=self.n_items, deviations=old.items.stop)

    @cached_property
    def blocks(self) -> CellBlocks:
        return CellBlocks.of(self.plain.category)

    def ratings(self, params: Array) -> Array:
        """The parameters of `plain`: ratings of all cells, columns, ties; also of columns."""
        n, common = self.n_items, self.layout.common
        return np.concatenate((params[common:] + params[:n][self.plain.item], params[n:common]))

    def value(self, params: Array) -> float:
        """The log-likelihood."""
        return self.plain.value(self.ratings(params))

    def expand(self, params: Array, *, dense: bool) -> tuple[float, Array, Arrow]:
        """The log-likelihood, its gradient, and minus its second derivatives."""
        at = self.ratings(params)
        value, g, h = self.plain.expansion(at)
        by_rating, total = self.plain.gather(at, g), self.plain.layout.items.stop
        overall = np.bincount(self.plain.item, by_rating[:total], self.n_items)
        gradient: Array = np.concatenate((overall, by_rating[total:], by_rating[:total]))
        return value, gradient, self._arrow(h)

    def _arrow(self, h: Array) -> Arrow:
        plain, n, nc = self.plain, self.n_items, self.layout.common
        t, item, w = plain.tally, plain.item, h[0, 0]
        border, corner = plain.rest(h)
        one = np.concatenate((t.first, t.second, t.first, t.second))
        other = np.concatenate((t.first, t.second, t.second, t.first))
        values = np.concatenate((w, w, -w, -w))
        C = np.zeros((nc, nc))
        C[:n, :n] = np.bincount(n * item[one] + item[other], values, n * n).reshape(n, n)
        for c, column in enumerate(border.T, n):
            C[:n, c] = C[c, :n] = np.bincount(item, column, n)
        C[n:, n:] = corner
        blocks = []
        found = self.blocks.of_values(one, other, values)
        for B, (_, at) in zip(found, self.blocks.parts, strict=True):
            X = np.zeros((*at.shape, nc))
            np.put_along_axis(X, np.broadcast_to(item[at][:, None], B.shape), B, axis=2)
            X[:, :, n:] = border[at]
            blocks.append(EqualBlocks(nc + at, B, X))
        return Arrow(C, blocks)


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
    cells: Any = CellLikelihood.of(problem, category)
    likelihood = StarLikelihood(cells.likelihood, n)
    start = {"deviations": 2.0}
    mode = by_evidence(likelihood, fixed, None, start, show, tolerance=FINE)
    parts, equal = [(1.0, mode)], 0.0
    if "deviations" not in fixed and C * n**3 <= INTEGRATED:
        parts, equal, _ = over_widths(likelihood, mode, "deviations", WIDTH_SCALE)
    n_groups, found, within = 0, [], np.zeros((C, n, n))
    drift = None
    if aged and problem.time is not None and np.ptp(problem.time):
        drift = SeenDrift.of(cells, likelihood.ratings(mode.params)).rows
    for weight, part in parts:
        ratings = likelihood.ratings(part.params)
        scores = cells.scores(ratings)
        found.append(_of_one_width(likelihood, part, scores, drift, weight, within))
        n_groups = scores.fewest
    weights = np.array([weight for weight, _ in parts])
    params, covariances, ratings, stds = map(np.array, zip(*found, strict=True))
    overall = mixed(weights, params, covariances)
    middle = np.einsum("k,kci->ci", weights, ratings)
    about = np.sqrt(weights)[:, None, None] * (ratings - middle)
    within = _centred(_centred(within, 1), 2) + np.einsum("kci,kcj->cij", about, about)
    # Of the deviations, within and between widths.
    apart = ratings - params[:, None, :n]
    about = apart - np.einsum("k,kci->ci", weights, apart)
    squares = np.einsum("k,kci->ci", weights, stds**2 + np.square(about))
    # Deviations are shrunk by the probability that categories are equal. Errors are if they differ.
    shift = equal * (middle - overall[0][:n])
    middle -= shift
    within += np.einsum("ci,cj->cij", shift, shift)
    squares += np.square(shift)
    widths = np.array([part.penalties["deviations"] ** -0.5 for _, part in parts])
    penalties = mode.penalties | {"deviations": float(weights @ widths) ** -2}
    return Boards(*overall, penalties, mode.converged, n_groups, middle, within, np.sqrt(squares))


def _of_one_width(
    likelihood: StarLikelihood,
    mode: Mode,
    scores: GroupScores,
    drift: Array | None,
    weight: float,
    within: Array,
) -> tuple[Array, Array, Array, Array]:
    """Common parameters and their covariance, ratings of categories, and errors of deviations.

    The covariances of categories are added to `within`, with a weight, and with the level of all
    ratings. With the curvature K, the gram M of scores (and of the rows of a `drift`, by which
    ratings change) and the penalties P, covariances are X' (M + P) X. A column of X = K^-1 E is
    T y, and what is added to the deviations of its own category: so a category takes no sums over
    the others.
    """
    params, n, plain = mode.params, likelihood.n_items, likelihood.plain
    common = likelihood.layout.common
    gram = scores.outer().tocoo()
    whole = mode.curvature
    T, V = whole.follow, whole.common.inverse()
    by_rating, kept = likelihood.ratings(T), mode.precision[:, None] * T
    seen = gram @ by_rating
    if drift is not None:
        seen += drift.T @ (drift @ by_rating)
    S = by_rating.T @ seen + T.T @ kept
    overall = V @ S @ V
    # A deviation without battles has the variance of the prior.
    prior = 1.0 / mode.penalties["deviations"]
    apart = np.zeros(within.shape[:2])
    apart[plain.category, plain.item] = params[common:]
    stds, free, one = np.empty(apart.shape), np.full(apart.shape, prior), np.arange(n)
    free[plain.category, plain.item] = 0.0
    within += weight * overall[:n, :n]
    within[:, one, one] += weight * free
    A, W = T[common:] @ V, seen[: plain.layout.items.stop] + kept[common:]
    shared, across = A @ S, (A @ S) @ V[:, :n]
    own = _own_blocks(likelihood, gram)
    for M, (_, at), inverse in zip(own, likelihood.blocks.parts, whole.inverses, strict=True):
        k, some, item = at.shape[1], plain.category[at[:, 0]], plain.item[at]
        M[:, np.arange(k), np.arange(k)] += mode.precision[common + at]
        if drift is not None:
            moved = np.moveaxis(drift[:, at], 0, 2)
            M += moved @ np.swapaxes(moved, 1, 2)
        cross = A[at] @ np.swapaxes(W[at], 1, 2) @ inverse
        D = shared[at] @ np.swapaxes(A[at], 1, 2) + inverse @ M @ inverse
        D += cross + np.swapaxes(cross, 1, 2)
        variance, sums = np.full((2, len(some), n), prior)
        np.put_along_axis(variance, item, np.einsum("jaa->ja", D), axis=1)
        np.put_along_axis(sums, item, D.sum(axis=2), axis=1)
        center = sums.sum(axis=1, keepdims=True) / n**2
        stds[some] = np.sqrt(np.maximum(variance - 2.0 * sums / n + center, 0.0))
        R = across[at] + inverse @ (W[at] @ V[:, :n])
        rows = some[:, None]
        within[rows, item] += weight * R
        within[rows, :, item] += weight * R
        within[rows[:, None], item[:, :, None], item[:, None]] += weight * D
    overall[:, :n] = _centred(overall[:, :n], 1)
    overall[:n] = _centred(overall[:n], 0)
    start = params[:common].copy()
    start[:n] -= start[:n].mean()
    return start, overall, _centred(params[:n] + apart, 1), stds


def _own_blocks(likelihood: StarLikelihood, gram: Sparse) -> list[Array]:
    """The parts of a matrix by cells in which both are of the same category."""
    i, j = gram.coords
    category, total = likelihood.plain.category, likelihood.plain.layout.items.stop
    kept = (i < total) & (j < total)
    i, j, values = i[kept], j[kept], gram.data[kept]
    kept = category[i] == category[j]
    return likelihood.blocks.of_values(i[kept], j[kept], values[kept])


def _centred(X: Array, axis: int) -> Array:
    """Relative to the mean over items, along an axis."""
    return np.asarray(X - X.mean(axis=axis, keepdims=True))


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
    n, C = problem.layout.items.stop, int(category.max()) + 1
    matrix: Any = problem.unit_scores(params, unit)[:, :n]
    of_unit, item = matrix.tocoo().coords
    data, squares = matrix.data, matrix.data**2

    def statistics(labels: Index) -> Array:
        code = n * labels[of_unit] + item
        sums, spread = (np.bincount(code, values, n * C) for values in (data, squares))
        ratios = np.divide(sums**2, spread, out=np.zeros_like(sums), where=spread > 0)
        return np.asarray(ratios.reshape(C, n).sum(axis=1))

    count = PERMUTATIONS if len(label) <= MANY else PERMUTATIONS // 5
    found = np.array(
        [statistics(label), *(statistics(rng.permutation(label)) for _ in range(count))]
    )
    # In the sum over categories, each counts by its standard deviation.
    scale = found.std(axis=0)
    total = (found / np.where(scale > 0, scale, 1.0)).sum(axis=1)
    found = np.column_stack((found, total))
    return np.asarray((found >= found[0] * (1 - 1e-9)).mean(axis=0))
