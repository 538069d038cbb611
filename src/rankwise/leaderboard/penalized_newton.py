"""Penalized likelihood of battles: its maximum, the choice of penalties, the covariance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky
from scipy.linalg.lapack import dpotri

from rankwise.backends.arrays import Array, Index, Sparse
from rankwise.errors import DataError
from rankwise.leaderboard.battle_likelihood import Bordered, Layout, Likelihood
from rankwise.progress import Show, unseen
from rankwise.solvers.shifted_cg import shifted_cg

DENSE = 3000  # parameters up to which matrices are formed
MAX_STEPS = 100
STEP_TOLERANCE = 1e-7  # a Newton step this small leaves an error of its square
LOST = 1e-15  # a penalty, relative to the sum of curvatures, that rounding errors hide
PCG_TOLERANCE = 1e-12
TRACE_TOLERANCE = 1e-7  # of the vectors: traces have its square
PROBES = 24  # vectors that estimate a trace where there is no matrix
SLIP_MEAN, SLIP_PRECISION = -3.0, 1.0  # prior of the common logit of slips
BOUNDS = (np.log(1e-6), np.log(1e6))  # of log penalties
# What is known of variances before any battle: as much as PRIOR_SIZE parameters would tell.
PRIOR_SIZE = 2.0
PRIOR_VARIANCE = {"items": 1.0, "places": 0.1, "slips": 0.5}
EVIDENCE_TOLERANCE = 1e-10
GRID = np.geomspace(1e-3, 1e2, 16)  # penalties that held-out groups choose from
FOLDS = 5
BLOCK = 20  # draws that are made at a time where there is no dense matrix
DRAW_TOLERANCE = 1e-3  # of such draws: far below the noise of 2,000 of them


@dataclass(frozen=True, eq=False)
class DenseCurvature:
    """By a Cholesky factorization of the matrix, scaled to a unit diagonal."""

    factor: tuple[Array, bool]
    scale: Array

    @classmethod
    def of(cls, K: Array) -> DenseCurvature:
        diagonal = K.diagonal()
        if not (np.isfinite(diagonal).all() and (diagonal > 0).all()):
            raise LinAlgError("not positive definite")
        scale = 1.0 / np.sqrt(diagonal)
        return cls(cho_factor(K * scale * scale[:, None], lower=True, check_finite=False), scale)

    def solve(self, R: Array) -> Array:
        """The inverse times R."""
        scale = self.scale.reshape(-1, *[1] * (R.ndim - 1))
        return np.asarray(scale * cho_solve(self.factor, scale * R, check_finite=False))

    def traces(self, groups: dict[str, slice]) -> dict[str, float]:
        """The sums of the diagonal of the inverse, over groups of parameters."""
        inverse, _ = dpotri(self.factor[0], lower=1)
        diagonal = inverse.diagonal() * self.scale**2
        return {name: float(diagonal[part].sum()) for name, part in groups.items()}


@dataclass(frozen=True, eq=False)
class IterativeCurvature:
    """By conjugate gradients, preconditioned with the diagonal, for a sparse matrix.

    To the matrix, `precision` is added on the diagonal, and `level` to all entries of `items`.
    """

    matrix: Bordered
    precision: Array
    items: slice
    level: float

    def solve(self, R: Array, tolerance: float = PCG_TOLERANCE) -> Array:
        diagonal = self.matrix.diagonal() + self.precision
        diagonal[self.items] += self.level
        scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-300))[:, None]

        def apply(P: Array) -> Array:
            V = scale * P
            out = self.matrix @ V + self.precision[:, None] * V
            if self.level:
                out[self.items] += self.level * V[self.items].sum(axis=0)
            return np.asarray(scale * out)

        B = R.reshape(len(R), -1)
        found = shifted_cg(apply, scale * B, [0.0], tol=tolerance, max_iter=10 * len(B))
        X = scale * found.solutions[0]
        if ((B * X).sum(axis=0) < 0).any():
            raise LinAlgError("not positive definite")
        return np.asarray(X.reshape(R.shape))

    def traces(self, groups: dict[str, slice]) -> dict[str, float]:
        rng = np.random.default_rng(0)
        found = {}
        for name, part in groups.items():
            probes = np.zeros((len(self.precision), PROBES))
            probes[part] = rng.choice([-1.0, 1.0], size=(part.stop - part.start, PROBES))
            found[name] = float((probes * self.solve(probes, TRACE_TOLERANCE)).sum() / PROBES)
        return found


Curvature = DenseCurvature | IterativeCurvature  # minus second derivatives, with penalties


@dataclass(frozen=True, eq=False)
class Expansion:
    """The log-likelihood around some parameters: value, gradient and minus second derivatives.

    `matrix` is sparse beyond `DENSE` parameters.
    """

    params: Array
    value: float
    gradient: Array
    matrix: Array | Bordered

    @classmethod
    def of(cls, likelihood: Likelihood, params: Array, dense: int) -> Expansion:
        with np.errstate(all="ignore"):  # a step that is too long is taken back
            value, g, h = likelihood.expansion(params)
            matrix = likelihood.gram(h)
            small = len(params) <= dense
            return cls(params, value, likelihood.gather(g), matrix.toarray() if small else matrix)


@dataclass(frozen=True, eq=False)
class Mode:
    """The maximum: parameters, penalties, and curvature there."""

    at: Expansion
    penalties: dict[str, float]
    precision: Array
    curvature: Curvature
    converged: bool

    @property
    def params(self) -> Array:
        return self.at.params


def start(layout: Layout) -> Array:
    """Equal items, and few ties and slips."""
    params = np.zeros(layout.size)
    params[layout.tie] = -1.0
    params[layout.common_slip] = SLIP_MEAN
    return params


def maximize(
    likelihood: Likelihood,
    penalties: dict[str, float],
    at: Expansion | Array | None = None,
    *,
    tolerance: float = STEP_TOLERANCE,
    dense: int = DENSE,
) -> Mode:
    """Newton's method on the likelihood minus half the penalties times the squared parameters.

    A step is halved until it improves the sum. Up to `dense` parameters, its equations are solved
    by Cholesky factorization, O(rows + n_items^3) per step, beyond by preconditioned conjugate
    gradients, O(rows) per iteration. It begins `at` parameters, or at an expansion around some.
    """
    layout = likelihood.layout
    if not isinstance(at, Expansion):
        at = Expansion.of(likelihood, start(layout) if at is None else at, dense)
    mean, precision = np.zeros(layout.size), np.zeros(layout.size)
    for name, part in layout.groups.items():
        precision[part] = penalties[name]
    mean[layout.common_slip], precision[layout.common_slip] = SLIP_MEAN, SLIP_PRECISION

    def goal(point: Expansion) -> float:
        return point.value - 0.5 * float(precision @ np.square(point.params - mean))

    converged = False
    for _ in range(MAX_STEPS):
        gradient = at.gradient - precision * (at.params - mean)
        curvature, step, damped = _newton_step(layout, at, precision, gradient)
        if converged:
            return Mode(at, penalties, precision, curvature, not damped)
        size, length, reached = float(abs(step).max(initial=0.0)), 1.0, goal(at)
        # Improvements below the rounding errors of the sum cannot be seen.
        blur = 1e-12 * (abs(reached) + 1.0)
        while True:
            trial = Expansion.of(likelihood, at.params + length * step, dense)
            if goal(trial) >= reached - blur or length < 1e-10:
                break
            length *= 0.5
        at = trial
        converged = length == 1.0 and size < tolerance * max(1.0, float(abs(at.params).max()))
    return Mode(at, penalties, precision, curvature, False)


def _newton_step(
    layout: Layout, at: Expansion, precision: Array, gradient: Array
) -> tuple[Curvature, Array, bool]:
    """The curvature, the step, and whether curvature had to be added to find one upwards."""
    matrix, diagonal = at.matrix, at.matrix.diagonal()
    level, total = 0.0, float(diagonal[layout.items].sum())
    if precision[0] <= LOST * total:  # then only differences of ratings are determined
        level = total / (2 * layout.items.stop**2) + 1e-12
    damping = 0.0
    while True:
        extra = precision + damping * (abs(diagonal) + 1e-12)
        try:
            found: Curvature
            if isinstance(matrix, Bordered):
                found = IterativeCurvature(matrix, extra, layout.items, level)
            else:
                K = matrix.copy()
                K[np.diag_indices_from(K)] += extra
                K[layout.items, layout.items] += level
                found = DenseCurvature.of(K)
            return found, found.solve(gradient), damping > 0
        except (LinAlgError, DataError):
            damping = max(10.0 * damping, 1e-8)
            if damping > 1e8:
                raise


def by_evidence(
    likelihood: Likelihood,
    fixed: dict[str, float],
    at: Expansion | Array | None = None,
    log_penalties: dict[str, float] | None = None,
    show: Show = unseen,
) -> Mode:
    """The maximum with the penalties that maximize the evidence, except the `fixed` ones.

    The ratings are normal with variance 1 / penalty. At the maximum of the evidence of the normal
    approximation (MacKay, 1992), with n parameters u and the covariance S, and a weak gamma prior
    of the penalty, worth m = 2 parameters of variance v,

        penalty (|u|^2 + m v) = n - penalty trace(S) + m.

    Without the prior, a few battles could make the variance 0, and intervals with it. The
    logarithm of the penalty is found by the secant method, from `log_penalties` or 0. `show` gets
    the number of penalties tried.
    """
    groups = likelihood.layout.groups
    free = [name for name in groups if name not in fixed]
    log = {name: (log_penalties or {}).get(name, 0.0) for name in free}
    before: dict[str, tuple[float, float]] = {}
    moved = 1.0 if free else 0.0
    for tried in range(MAX_STEPS):
        show(tried)
        penalties = {**fixed, **{name: float(np.exp(log[name])) for name in free}}
        # As long as penalties still move much, a rough maximum will do.
        tolerance = float(np.clip(0.1 * moved, STEP_TOLERANCE, 1e-2))
        mode = maximize(likelihood, penalties, at, tolerance=tolerance)
        at = mode.at
        traces = mode.curvature.traces({name: groups[name] for name in free})
        moved = 0.0
        for name in free:
            part, penalty = at.params[groups[name]], penalties[name]
            known = max(len(part) - penalty * traces[name], 0.0) + PRIOR_SIZE
            size = float(part @ part) + PRIOR_SIZE * PRIOR_VARIANCE[name]
            excess = float(np.log(known) - np.log(penalty * size))
            step = excess
            if name in before:
                gone, change = log[name] - before[name][0], excess - before[name][1]
                if gone and change / gone < 0:
                    step = -excess * gone / change
            new = float(np.clip(log[name] + np.clip(step, -2.0, 2.0), *BOUNDS))
            moved = max(moved, abs(new - log[name]))
            before[name], log[name] = (log[name], excess), new
        if moved < EVIDENCE_TOLERANCE and tolerance == STEP_TOLERANCE:
            break
    return mode


def by_held_out(
    likelihood: Likelihood,
    row: Index,
    outcome: Index,
    weight: Array,
    group: Index,
    rng: np.random.Generator,
    params: Array | None = None,
    show: Show = unseen,
) -> Mode:
    """The maximum with the penalty of ratings that best predicts groups of battles held out.

    Five folds of whole groups. The penalties of judges come from the evidence of all battles.
    """
    n_groups = int(group.max()) + 1
    fold = rng.permutation(n_groups) % min(FOLDS, n_groups)
    total, losses = likelihood.tally.counts, np.zeros(len(GRID))
    others = by_evidence(likelihood, {}, params)
    fixed = {name: value for name, value in others.penalties.items() if name != "items"}
    for k in range(min(FOLDS, n_groups)):
        out = fold[group] == k
        code = 3 * row[out] + outcome[out]
        held = np.bincount(code, weights=weight[out], minlength=total.size)
        counts = np.asarray(held, dtype=np.float64).reshape(total.shape)
        train, test = likelihood.with_counts(total - counts), likelihood.with_counts(counts)
        at: Expansion | Array = others.params
        for i, penalty in enumerate(GRID):
            at = maximize(train, {**fixed, "items": float(penalty)}, at, tolerance=1e-3).at
            losses[i] -= test.value(at.params)
            show(len(GRID) * k + i + 1)
    best = float(GRID[int(np.argmin(losses))])
    return maximize(likelihood, {**fixed, "items": best}, others.at)


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
        sparse = sp.csr_array((size, first))
        dense = np.zeros((size, likelihood.layout.size - first))
        each = zip(g.T, likelihood.sparse, likelihood.dense, strict=True)
        for values, E, (part, X) in each:
            W = sp.csr_array((values, (group, row)), shape=(size, len(likelihood.tally)))
            sparse = sparse + W @ E
            dense[:, part.start - first : part.stop - first] += W @ X
        return cls(sparse, dense, n_groups)

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


def spread(
    mode: Mode,
    scores: GroupScores,
    items: slice,
    n_draws: int,
    rng: np.random.Generator,
    show: Show = unseen,
) -> tuple[Array | None, Array]:
    """The covariance of parameters, and draws of their deviations from the estimate.

    The covariance is K^-1 (M + P) K^-1 with the curvature K, the gram M of scores, and the
    penalties P. M is the variance of the gradient when groups are independent. K^-1 P K^-1 is the
    square of the bias through the penalty, averaged over ratings with variance 1 / penalty. If
    battles are independent and the model is right, M + P = K, and this is the usual K^-1. The
    common level of the ratings is taken out of it: only the penalty determines it, and if that is
    small, rounding errors of the level would hide the rest.

    Draws have the shape (n_draws, n_parameters). Beyond `DENSE` parameters there are only draws, in
    single precision, and None for the covariance.
    """
    P = mode.precision
    if isinstance(mode.curvature, DenseCurvature):
        M = scores.gram()
        M[np.diag_indices_from(M)] += P
        half = _without_level(mode.curvature.solve(M), items)
        covariance = _without_level(mode.curvature.solve(half.T), items)
        draws = mode.curvature.solve(_root(M) @ rng.standard_normal((len(M), n_draws)))
        draws = _without_level(draws, items).T
        return 0.5 * (covariance + covariance.T), draws
    draws = np.empty((n_draws, len(P)), dtype=np.float32)
    for begin in range(0, n_draws, BLOCK):
        count = min(BLOCK, n_draws - begin)
        drawn = scores.draw(count, rng)
        drawn += np.sqrt(P)[:, None] * rng.standard_normal((len(P), count))
        solved = mode.curvature.solve(drawn, DRAW_TOLERANCE)
        draws[begin : begin + count] = _without_level(solved, items).T
        show(begin + count)
    return None, draws


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
