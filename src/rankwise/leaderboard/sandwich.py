"""Covariance of ratings from the scores of independent groups of battles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cholesky

from rankwise.backends.arrays import Array, Index, Sparse
from rankwise.leaderboard.penalized_newton import (
    DenseCurvature,
    IterativeCurvature,
    Mode,
)
from rankwise.leaderboard.tally import Likelihood
from rankwise.progress import Show, unseen

BLOCK = 20  # draws that are made at a time where there is no dense matrix
DRAW_TOLERANCE = 1e-3  # of such draws: far below the noise of 2,000 of them


@dataclass(frozen=True, eq=False)
class GroupScores:
    """Gradients of the log-likelihood, summed within independent groups of battles.

    A sparse part for items and judges, a dense one for the other parameters; a row per group.
    """

    sparse: Sparse
    dense: Array
    n_groups: int

    @classmethod
    def of(
        cls,
        likelihood: Likelihood,
        params: Array,
        row: Index,
        outcome: Index,
        weight: Array,
        group: Index | None,
    ) -> GroupScores:
        """From the row, outcome, weight and group of each battle; None: battles are independent."""
        scores = likelihood.scores(params)
        if group is None:
            # Equal battles have equal scores: the squares add up.
            n_groups = len(row)
            code = 3 * row + outcome
            squares = np.bincount(code, weights=weight**2, minlength=3 * len(likelihood.tally))
            cells = np.flatnonzero(squares)
            row, outcome, weight = cells // 3, cells % 3, np.sqrt(squares[cells])
            group = np.arange(len(cells))
            size = len(cells)
        else:
            size = n_groups = int(group.max()) + 1
        g = scores[outcome, :, row] * weight[:, None]
        first = likelihood.layout.columns.start
        entries: list[tuple[Array, Index, Index]] = []
        dense = np.zeros((size, likelihood.layout.size - first))
        each = zip(likelihood.entries, likelihood.dense, strict=True)
        for q, (indexed, (part, X)) in enumerate(each):
            if indexed is not None:
                columns, signs = indexed
                values = signs * g[:, [q]]
                where = np.repeat(group, len(signs))
                entries.append((values.ravel(), where, columns[row].ravel()))
            for k in range(part.stop - part.start):
                sums = np.bincount(group, weights=X[row, k] * g[:, q], minlength=size)
                dense[:, part.start - first + k] += sums
        data, i, j = (np.concatenate(values) for values in zip(*entries, strict=True))
        return cls(sp.coo_array((data, (i, j)), shape=(size, first)).tocsr(), dense, n_groups)

    @property
    def correction(self) -> float:
        """For a finite number of groups."""
        return self.n_groups / max(self.n_groups - 1, 1)

    def gram(self) -> Array:
        """The sum of outer products of the rows."""
        S, X = self.sparse, self.dense
        side = S.T @ X
        top = np.column_stack(((S.T @ S).toarray(), side))
        return np.vstack((top, np.column_stack((side.T, X.T @ X)))) * self.correction

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draws from the normal distribution with covariance ``gram()``, as columns."""
        z = rng.standard_normal((self.sparse.shape[0], n)) * np.sqrt(self.correction)
        return np.concatenate((self.sparse.T @ z, self.dense.T @ z))


@dataclass(frozen=True, eq=False)
class Spread:
    """How uncertain parameters are: their covariance, or None if there are too many; and draws.

    Draws are deviations from the estimate, of shape (n_draws, n_parameters); in single precision
    if there are too many parameters for a covariance.
    """

    covariance: Array | None
    draws: Array


def spread(
    mode: Mode,
    scores: GroupScores,
    items: slice,
    n_draws: int,
    rng: np.random.Generator,
    show: Show = unseen,
) -> Spread:
    """K^-1 (M + P) K^-1 with the curvature K, the scores' gram M and the penalties P.

    M is the variance of the gradient when groups are independent. K^-1 P K^-1 is the square of
    the bias through the penalty, averaged over ratings with variance 1 / penalty. If battles are
    independent and the model is right, M + P = K, and this is the usual K^-1. The common level of
    the ratings is taken out of it: only the penalty determines it, and if that is small,
    rounding errors of the level would hide the rest.
    """
    P = mode.precision
    if isinstance(mode.curvature, DenseCurvature):
        M = scores.gram()
        M[np.diag_indices_from(M)] += P
        half = _without_level(mode.curvature.solve(M), items)
        covariance = _without_level(mode.curvature.solve(half.T), items)
        draws = mode.curvature.solve(_root(M) @ rng.standard_normal((len(M), n_draws)))
        draws = _without_level(draws, items).T
        return Spread(0.5 * (covariance + covariance.T), draws)
    assert isinstance(mode.curvature, IterativeCurvature)
    draws = np.empty((n_draws, len(P)), dtype=np.float32)
    for begin in range(0, n_draws, BLOCK):
        count = min(BLOCK, n_draws - begin)
        drawn = scores.draw(count, rng)
        drawn += np.sqrt(P)[:, None] * rng.standard_normal((len(P), count))
        solved = mode.curvature.solve(drawn, DRAW_TOLERANCE)
        draws[begin : begin + count] = _without_level(solved, items).T
        show(begin + count)
    return Spread(None, draws)


def _without_level(values: Array, items: slice) -> Array:
    """Columns of parameters, in place, with ratings relative to their mean."""
    values[items] -= values[items].mean(axis=0)
    return values


def _root(M: Array) -> Array:
    """A matrix R with R R' = M, which may be singular."""
    scale = np.sqrt(np.maximum(M.diagonal(), 1e-300))
    unit = M / scale / scale[:, None]
    try:
        return np.asarray(scale[:, None] * cholesky(unit, lower=True, check_finite=False))
    except LinAlgError:
        s, V = np.linalg.eigh(unit)
        return np.asarray(scale[:, None] * V * np.sqrt(np.maximum(s, 0.0)))
