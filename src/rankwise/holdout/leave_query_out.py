"""Exact hold-outs of folds of whole queries, from one factorization for each lam."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import EPS, Array, Index, is_sparse
from rankwise.backends.dispatch import backend_of
from rankwise.backends.threads import THREADS, map_in_threads
from rankwise.errors import warn
from rankwise.graph.query_graph import QueryGraph, row_scale
from rankwise.holdout import pair_loops
from rankwise.holdout.pair_differences import moments_of_folds
from rankwise.holdout.resolvent import lifted_root_kernel, resolvents
from rankwise.scaling import ColumnStandard, ColumnStatistics
from rankwise.solvers.ridge_path import GRAM_MARGIN, Spectrum, rounding_floor

LEAST_DEVIATION = 1e-13  # without a fold, relative to all rows: below it, few digits are left
SOLVE_BYTES = 64 * 2**20  # of small systems in memory at a time
LOST = 10.0  # times the rounding floor of moments: eigenvalues that may be rounding errors
RESOLVED = 1e3  # times the rounding errors of a hat matrix: what I - H must exceed


def dual_folds(
    K: Array,
    graph: QueryGraph,
    y: Array,
    folds: Sequence[Index],
    lams: Sequence[float],
    shift: Array | None = None,
) -> Array:
    """Predictions for every fold by a fit without it; K is overwritten.

    With the root R of the Laplacian, M = R K R and N = (M + lam I)^-1, training minimizes
    |t - R f|^2 + lam |f|^2 for t = R y. R does not mix queries, so holding out queries means
    leaving out rows of t. With z = N t and v = N_UU^-1 z_U, the fit without fold U satisfies
    R (y - f) = v on U. This gives f up to its mean in each query, which is 1'K R (z - N_U v) / n.
    If rows have weights, M = R K R', and means are weighted. See `Coordinates` for `shift`.

    Cost: N for each lam, or one eigendecomposition for all, and the sum of |U|^3 for each lam.

    Returns
    -------
    ndarray of shape (n_lams, n_rows, n_outputs)
    """
    group = _mean_groups(graph)
    sizes, on = np.bincount(group, graph.row_weights), backend_of(K)
    weighted = K if graph.row_weights is None else row_scale(graph.row_weights, K)
    sums = on.group_sums(group, len(sizes), weighted)
    k = sums.T / on.array(sizes)
    k = graph.root(k if shift is None else k + shift[:, None])  # R K 1_q / n_q for each group q
    t = graph.root_target(y)
    M = lifted_root_kernel(K, graph)
    out = on.empty(len(lams), *y.shape)
    for f, N in zip(out, resolvents(M, lams, k), strict=True):
        z = N.apply(t)
        v, means = on.zeros(*t.shape), on.matmul(k.T, z)
        for fold in folds:
            v[fold] = on.solve(N.block(fold), z[fold])
            inside = np.unique(group[fold])
            means[inside] -= N.cross(fold, inside).T @ v[fold]
        f[:] = graph.root_inverse(t - v) + means[group]
    return out


@dataclass(frozen=True, eq=False)
class Rescaling:
    """How rows (x - mean) / deviation are standardized again without each fold.

    Without fold U, features are divided by their deviations s on the other rows. With S = diag(s),
    the weights solve S^-1 (A - A_U) S^-1 + lam I: moments are rescaled, not computed again.

    Attributes
    ----------
    deviations : ndarray of shape (n_folds, n_features)
    offset : ndarray of shape (n_features,)
        mean / deviation: a ranker without an intercept scores rows that are not centred.
    """

    deviations: Array
    offset: Array

    @classmethod
    def of(
        cls, F: Any, folds: Sequence[Index], weights: Array | None, scaling: ColumnStandard
    ) -> Rescaling:
        """From scaled rows, which may have weights; the folds have all rows."""
        on = backend_of(F)
        parts = [
            ColumnStatistics.of(on.rows(F, fold), None if weights is None else weights[fold])
            for fold in folds
        ]
        found = np.array([rest.deviation for rest in ColumnStatistics.without_each(parts)])
        smallest = float(found[found > 0].min(initial=1.0))
        if smallest < LEAST_DEVIATION:
            warn(
                f"Without one of the folds, a feature varies {1 / smallest:.0e} times less: its "
                "values were rounded when all rows were standardized, and this hold-out has few "
                "right digits. Look for an outlier in the features."
            )
        found[found == 0.0] = 1.0  # such features have no weight
        return cls(found, scaling.mean / scaling.deviation)


def primal_folds(
    F: Any,
    graph: QueryGraph,
    y: Array,
    folds: Sequence[Index],
    lams: Sequence[float],
    rescaling: Rescaling | None = None,
) -> Array:
    """Like `dual_folds`, from features.

    If some fold has at least as many rows as there are features, each fold solves
    (A - A_U + lam I) w = b - b_U. A - A_U is summed over the other folds, because a difference
    would suffer from cancellation if one fold dominates. Otherwise, with the hat matrix
    H = Z (A + lam I)^-1 Z' of Z = R F, e = (I - H_UU)^-1 (t - Z w)_U, and the weights are
    w - (A + lam I)^-1 Z_U'e.

    If lam is below the rounding errors of A, fits are restricted to the numerical range of A, as in
    `solve_ridge_path`. I - H_UU is then singular for a fold with directions that no other fold has,
    and such folds are solved from the sums over the others as well.

    With a `rescaling`, each fold solves its own system.

    Cost: O(m n^2), and |U|^3 or n^3 for each fold and lam; a dense copy of F in memory.
    """
    on = backend_of(F)
    Z = on.contiguous(graph.root(F.toarray() if is_sparse(F) else F))
    t = graph.root_target(y)
    out = on.empty(len(lams), *y.shape)
    longest = max(len(fold) for fold in folds)
    if rescaling is None and longest < F.shape[1]:
        _short_folds(F, Z, t, folds, lams, out)
    else:
        _long_folds(F, Z, t, folds, lams, out, rescaling=rescaling)
    return out


@dataclass(frozen=True)
class MomentSpectrum:
    """Moments A = V diag(s) V' and V'b of all rows, shared by all hold-outs.

    Eigenvalues up to `floor` are rounding errors.
    """

    s: Array
    V: Array
    rotated: Array
    floor: float

    @classmethod
    def of(cls, A: Array, b: Array) -> MomentSpectrum:
        """From moments A and b; A is overwritten."""
        on = backend_of(A)
        floor = LOST * rounding_floor(A)
        s, V = on.eigh(A)
        V = on.contiguous(V)
        return cls(s.clip(min=0.0), V, on.matmul(V.T, b), floor)

    def divisors(self, lam: float) -> Array:
        """s + lam; infinite outside of the numerical range of A if lam is lost in rounding."""
        on = backend_of(self.s)
        kept = (self.s > self.floor) | (lam > self.floor)
        return on.array(on.xp.where(kept, self.s + lam, np.inf))

    def least_resolved(self, lam: float) -> float:
        """The smallest eigenvalue of I - H_UU that is not a rounding error; 0 for a usual lam."""
        if lam > GRAM_MARGIN / LOST * self.floor:
            return 0.0
        kept = self.s[self.s > self.floor]
        return RESOLVED * self.floor / (float(kept.min()) + lam) if len(kept) else 0.0


def is_resolved(rest: Array, least: float) -> bool:
    """Whether all eigenvalues of I - H_UU exceed the least one, if that is not 0."""
    return not least or float(backend_of(rest).eigh(backend_of(rest).copy(rest))[0][0]) > least


def _short_folds(
    F: Any, Z: Array, t: Array, folds: Sequence[Index], lams: Sequence[float], out: Array
) -> None:
    on = backend_of(Z)
    A = on.mirror_upper(on.add_gram(on.zeros(Z.shape[1], Z.shape[1]), Z))
    spectrum = MomentSpectrum.of(A, on.matmul(Z.T, t))
    lost = predict_without(F, Z, t, folds, lams, spectrum, out)
    if lost:
        _long_folds(F, Z, t, folds, lams, out, chosen=lost)


def predict_without(
    F: Any,
    Z: Array,
    t: Array,
    folds: Sequence[Index],
    lams: Sequence[float],
    spectrum: MomentSpectrum,
    out: Array,
) -> list[int]:
    """Predictions for folds of these rows, from moments that may include other rows as well.

    Returns the positions of folds whose predictions are lost in rounding errors for some lam.
    """
    on, V, rotated = backend_of(Z), spectrum.V, spectrum.rotated
    divisors = [spectrum.divisors(lam) for lam in lams]
    least = [spectrum.least_resolved(lam) for lam in lams]
    Y, lost = on.matmul(Z, V), []
    for k, fold in enumerate(folds):
        Y_U = Y[fold]
        F_U = on.matmul(on.rows(F, fold), V)
        for f, divisor, smallest in zip(out, divisors, least, strict=True):
            shrunk = Y_U / divisor
            w = rotated / divisor[:, None]
            rest = on.array(np.eye(len(fold))) - shrunk @ Y_U.T
            if not is_resolved(rest, smallest):
                f[fold] = 0.0
                lost.append(k)
                continue
            e = on.solve(rest, t[fold] - Y_U @ w)
            f[fold] = F_U @ (w - shrunk.T @ e)
    return sorted(set(lost))


def _long_folds(
    F: Any,
    Z: Array,
    t: Array,
    folds: Sequence[Index],
    lams: Sequence[float],
    out: Array,
    *,
    chosen: Sequence[int] | None = None,
    rescaling: Rescaling | None = None,
) -> None:
    strengths = np.broadcast_to(lams, (len(folds), len(lams)))
    on, scales = backend_of(F), None if rescaling is None else rescaling.deviations
    offset = 0.0 if rescaling is None else on.array(rescaling.offset)

    def keep(fold: Index, weights: Array) -> None:
        out[:, fold] = (on.rows(F, fold) + offset) @ weights

    solve_without(Z, t, folds, strengths, keep, chosen=chosen, scales=scales)


def solve_without(
    Z: Array,
    t: Array,
    folds: Sequence[Index],
    strengths: Array,
    keep: Callable[[Index, Array], None],
    *,
    intercept: bool = False,
    chosen: Sequence[int] | None = None,
    scales: Array | None = None,
) -> None:
    """Weights (A + strength I)^-1 b from the moments of all folds but one, for each fold.

    `strengths` has shape (n_folds, n_lams). Several threads call ``keep(fold, weights)`` with
    weights of shape (n_lams, n, n_outputs). With an intercept, the last column of Z is constant,
    and its weight is not penalized. `chosen` has the positions of the folds to be solved; None is
    all of them. Without fold f, columns of Z are divided by ``scales[f]``, the last one of which
    must be 1 if there is an intercept.
    """
    on, n = backend_of(Z), Z.shape[1]
    penalty = np.eye(n)
    penalty[-1, -1] = 0.0 if intercept else 1.0
    here, of_fold = on.array(penalty), on.contiguous(on.array(strengths))
    wanted = np.arange(len(folds)) if chosen is None else np.asarray(chosen)
    size = float(on.xp.sqrt((t**2).sum(axis=0).max()))

    def solve(job: tuple[Index, Array, Array]) -> None:
        places, A, b = job
        divisors = None if scales is None else on.array(scales[places])
        if divisors is not None:
            A = A / (divisors[:, :, None] * divisors[:, None])
            b = b / divisors[:, :, None]
        floors = [rounding_floor(one[:-1, :-1] if intercept else one) for one in A]
        small = strengths[places] <= GRAM_MARGIN * np.array(floors)[:, None]
        if not small.any():
            weights = _penalized_solutions(A, b, of_fold[places], here)
        else:
            weights = on.empty(len(places), strengths.shape[1], *b.shape[1:])
            for k, place in enumerate(places):
                system = _RangeSystem.of(A[k], b[k], size, intercept=intercept)
                for a, strength in enumerate(strengths[place].tolist()):
                    weights[k, a] = system.solve(strength)
        if divisors is not None:
            weights = weights / divisors[:, None, :, None]
        for place, w in zip(places, weights, strict=True):
            keep(folds[place], w)

    n_threads = THREADS if on.is_host else 1  # a device is parallel by itself
    in_memory = on.block_bytes(SOLVE_BYTES) // (8 * strengths.shape[1] * n**2) // n_threads
    for first, A, b in sums_without(Z, t, folds):
        places = wanted[(wanted >= first) & (wanted < first + len(A))]
        batch = max(1, min(in_memory, -(-len(places) // n_threads)))
        parts = [places[k : k + batch] for k in range(0, len(places), batch)]
        jobs = [(part, A[part - first], b[part - first]) for part in parts]
        map_in_threads(solve, jobs, n_threads)


@dataclass(frozen=True)
class _RangeSystem:
    """(A + lam I)^-1 b for any lam, on the numerical range of A if lam is lost in rounding.

    V'b is 0 in directions of which A and b have only rounding errors. An intercept, the last
    weight, is not penalized: the others solve the system from which it is eliminated.
    """

    spectrum: Spectrum
    rotated: Array
    means: Array | None  # of the other columns, and of the targets
    level: Array | None

    @classmethod
    def of(cls, A: Array, b: Array, size: float, *, intercept: bool) -> _RangeSystem:
        """From the moments of targets of a norm of at most `size`."""
        on, means, level = backend_of(A), None, None
        inner = A[:-1, :-1] if intercept else A
        floor = rounding_floor(inner)
        if intercept:
            means, level = A[-1, :-1] / A[-1, -1], b[-1] / A[-1, -1]
            inner, b = inner - A[:-1, -1:] * means, b[:-1] - means[:, None] * b[-1]
        spectrum = Spectrum.of(on.copy(inner), gram=True, floor=floor)
        rotated = spectrum.V.T @ b
        noise = LOST * np.sqrt(len(b) * EPS * floor) * size
        lost = (spectrum.s <= GRAM_MARGIN * floor)[:, None] & (abs(rotated) <= noise)
        return cls(spectrum, on.xp.where(lost, 0.0, rotated), means, level)

    def solve(self, lam: float) -> Array:
        s, V, on = self.spectrum.s, self.spectrum.V, backend_of(self.rotated)
        kept = (s != 0.0) | (lam > self.spectrum.floor)
        w = V @ (self.rotated / on.xp.where(kept, s + lam, np.inf)[:, None])
        if self.means is None or self.level is None:
            return on.array(w)
        return on.array(on.xp.concatenate((w, (self.level - self.means @ w)[None])))


def _penalized_solutions(A: Array, b: Array, strengths: Array, penalty: Array) -> Array:
    """(A + strength penalty)^-1 b for each fold and lam, shape (n_folds, n_lams, n, n_outputs)."""
    on = backend_of(A)
    if on.is_host:
        found = on.empty(*strengths.shape, *b.shape[1:])
        pair_loops.solve_definite(A, b, strengths, penalty, found)
        return found
    return on.solve(A[:, None] + strengths[:, :, None, None] * penalty, b[:, None])


def sums_without(Z: Array, t: Array, folds: Sequence[Index]) -> Iterator[tuple[int, Array, Array]]:
    """(first, A, b): moments of all folds but one, for folds first, first + 1, ...

    Blocks of folds, and folds within a block, have cumulative sums from both ends: the sum without
    a fold is the sum before it plus the sum after it. The memory is 64 MiB of moments, or those of
    about the square root of the number of folds if that is more.
    """
    if 8 * len(folds) * Z.shape[1] ** 2 <= backend_of(Z).block_bytes(SOLVE_BYTES):
        A, b = map(_all_but_one, moments_of_folds(Z, t, folds))
        yield 0, A, b
        return
    step = max(1, int(np.sqrt(len(folds))))
    blocks = [folds[start : start + step] for start in range(0, len(folds), step)]
    totals = moments_of_folds(Z, t, [np.concatenate(block) for block in blocks])
    A_others, b_others = map(_all_but_one, totals)
    for k, block in enumerate(blocks):
        A, b = map(_all_but_one, moments_of_folds(Z, t, block))
        yield k * step, A + A_others[k], b + b_others[k]


def _all_but_one(stack: Array) -> Array:
    """Sums over all entries of the first axis but one, without subtraction."""
    on = backend_of(stack)
    sums = on.zeros(*stack.shape)
    for k in range(1, len(stack)):
        sums[k] = sums[k - 1] + stack[k - 1]
    after = on.zeros(*stack.shape[1:])
    for k in range(len(stack) - 1, 0, -1):
        after += stack[k]
        sums[k - 1] += after
    return sums


def _mean_groups(graph: QueryGraph) -> Index:
    """Group codes: one for each query with pairs, and one for each row of the other queries."""
    query = np.empty(graph.n_rows, dtype=np.intp)
    query[graph.rows] = np.repeat(np.arange(len(graph.query_sizes)), graph.query_sizes)
    alone = graph.pairs_of_query[query] == 0
    query[alone] = len(graph.query_sizes) + np.flatnonzero(alone)
    return np.unique(query, return_inverse=True)[1].astype(np.intp)
