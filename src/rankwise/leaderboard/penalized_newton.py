"""Maximum of a penalized likelihood of battles, and penalties by evidence or by held-out groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.lapack import dpotri

from rankwise.backends.arrays import Array, Index
from rankwise.leaderboard.tally import Bordered, Layout, Likelihood
from rankwise.progress import Show, unseen

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


class Curvature(Protocol):
    """Minus the second derivatives of the penalized likelihood."""

    def solve(self, R: Array) -> Array:
        """The inverse times R."""

    def traces(self, groups: dict[str, slice]) -> dict[str, float]:
        """The sums of the diagonal of the inverse, over groups of parameters."""


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
        scale = self.scale.reshape(-1, *[1] * (R.ndim - 1))
        return np.asarray(scale * cho_solve(self.factor, scale * R, check_finite=False))

    def traces(self, groups: dict[str, slice]) -> dict[str, float]:
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

    @cached_property
    def diagonal(self) -> Array:
        found = np.maximum(self.matrix.diagonal() + self.precision, 1e-300)
        found[self.items] += self.level
        return found

    def apply(self, V: Array) -> Array:
        """The matrix times V."""
        out = self.matrix @ V
        out += self.precision[:, None] * V
        if self.level:
            out[self.items] += self.level * V[self.items].sum(axis=0)
        return out

    def solve(self, R: Array, tolerance: float = PCG_TOLERANCE) -> Array:
        B = R.reshape(len(R), -1)
        X, residual = np.zeros_like(B), B.copy()
        scale = 1.0 / self.diagonal[:, None]
        Z = scale * residual
        P, rho = Z.copy(), _products(residual, Z)
        goal = tolerance**2 * np.maximum(rho, 1e-300)
        for _ in range(10 * len(B)):
            if (rho <= goal).all():
                break
            Q = self.apply(P)
            bend = _products(P, Q)
            if (bend < 0).any():
                raise LinAlgError("not positive definite")
            # A solved column stays as it is: its direction is zero.
            step = np.divide(rho, bend, out=np.zeros_like(rho), where=(bend > 0) & (rho > goal))
            np.multiply(step, P, out=Z)
            X += Z
            Q *= step
            residual -= Q
            np.multiply(scale, residual, out=Z)
            new = _products(residual, Z)
            P *= np.divide(new, rho, out=np.zeros_like(rho), where=rho > 0)
            P += Z
            rho = new
        return X.reshape(R.shape)

    def traces(self, groups: dict[str, slice]) -> dict[str, float]:
        rng = np.random.default_rng(0)
        found = {}
        for name, part in groups.items():
            probes = np.zeros((len(self.precision), PROBES))
            probes[part] = rng.choice([-1.0, 1.0], size=(part.stop - part.start, PROBES))
            found[name] = float((probes * self.solve(probes, TRACE_TOLERANCE)).sum() / PROBES)
        return found


def _products(P: Array, Q: Array) -> Array:
    """The inner product of each column of P with that of Q."""
    return np.asarray(np.einsum("ij,ij->j", P, Q))


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
            made = likelihood.gram if len(params) <= dense else likelihood.sparse_gram
            return cls(params, value, likelihood.gather(g), made(h))


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
        level = total / (2 * layout.n_items**2) + 1e-12
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
        except LinAlgError:
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
    """The maximum with the penalties that the evidence prefers, but for those that are `fixed`.

    The ratings are normal with variance 1 / penalty. At the maximum of the evidence of the normal
    approximation (MacKay, 1992), with n parameters u and the covariance S, and a gamma prior of the
    penalty that is worth m = 2 parameters of variance v,

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

    Five folds of whole groups. The penalties of judges are those of the evidence of all battles.
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
