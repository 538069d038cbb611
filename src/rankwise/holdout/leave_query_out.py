"""Leave-query-out: exact hold-outs of folds of whole queries, and queries given all others.

With a root R of the Laplacian, L = R'R, RankRLS minimizes |t - R f|^2 + lam |f|^2 for t = R y. R
does not mix queries, so that holding out the rows U of some queries means leaving out t_U (Theorem
1 of the leave-pair-out paper: held-out rows only leave the loss).

The dual has M = R K R' and N = (M + lam I)^-1. With z = N t and v = N_UU^-1 z_U, the fit without U
satisfies R (y - f) = v on U: by the block inverse (Lemma 1 of the paper, with O the other rows),
z_U = N_UU (t_U - M_UO (M_OO + lam I)^-1 t_O), and what is subtracted from t_U is R f on U. By the
same lemma, z - N_:U v is the z of the fit without U: 0 on U, and (M_OO + lam I)^-1 t_O on O. So the
scores of this fit are f = K R'(z - N_:U v).

The primal has Z = R F, A = Z'Z and b = Z't, and solves (A - A_U + lam I) w = b - b_U.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import EPS, Array, Index, as_slice, backend_of, is_sparse
from rankwise.backends.jit import BlasRoutine, compiled
from rankwise.backends.parallel import map_in_threads, matmul, threads_for
from rankwise.errors import warn
from rankwise.graph.preference_graph import QueryGraph, row_scale
from rankwise.holdout.hold_out_problem import (
    BLOCK,
    CLOSE,
    OF_FOLD,
    alike,
    check_digits,
    not_definite,
)
from rankwise.holdout.pair_differences import TIED, rounding_error, settled_rows
from rankwise.scaling import ColumnStandard, ColumnStatistics
from rankwise.solvers.ridge_path import Moments

dposv: Any = BlasRoutine("dposv", 8)
STACK_BYTES = 2**18  # of the features of folds that are solved side by side
PARTS_OF_THREAD, PART_BYTES = 6, 2**22  # of folds that a compiled loop solves in one call
LEAST_DEVIATION = 1e-13  # without a fold, relative to all rows: below it, few digits are left
SOLVE_BYTES = 64 * 2**20  # of small systems in memory at a time
MANY_NUMBERS = 2**22  # of features, from which folds are predicted by a compiled loop
FEW_ENTRIES = 2**17  # of small systems, up to which array expressions are fast enough


def dual_folds(
    K: Array,
    graph: QueryGraph,
    y: Array,
    folds: Sequence[Index],
    lams: Sequence[float],
    shift: Array | None = None,
) -> Array:
    """Predictions for every fold by a fit without it; K is overwritten.

    R (y - f) = v on U gives f up to its mean in each query q of U, which is
    1_q' K R'(z - N_:U v) / n_q for the n_q rows of q. If rows have weights, means are weighted. See
    `rankwise.problem.Coordinates` for `shift`.

    Cost: N for each lam, or one eigendecomposition for all, and the sum of |U|^3 for each lam.

    Returns
    -------
    ndarray of shape (n_lams, n_rows, n_outputs)
    """
    group = _mean_groups(graph)
    sizes, on = np.bincount(group, graph.row_weights), backend_of(K)
    weighted = K if graph.row_weights is None else row_scale(graph.row_weights, K)
    sums = on.group_sums(group, len(sizes), weighted)
    columns = sums.T / on.array(sizes)
    # R K 1_q / n_q for each group q.
    mean_columns = graph.root(columns if shift is None else columns + shift[:, None])
    t = graph.root_target(y)
    M, centred = lifted_root_kernel(K, graph), graph.root_inverse(t)
    out = on.empty(len(lams), *y.shape)
    for f, N in zip(out, resolvents(M, lams, mean_columns), strict=True):
        z = N.apply(t)
        v, means = fold_residuals(N, z, folds), on.matmul(mean_columns.T, z)
        for fold in folds:
            inside = np.unique(group[fold])
            means[inside] -= N.cross(fold, inside).T @ v[fold]
        e = graph.root_inverse(v)
        f[:] = settled_rows(centred - e, abs(centred) + abs(e), group, N.tied) + means[group]
    return out


def fold_residuals(P: Any, Py: Array, folds: Sequence[Index], *, close: bool = False) -> Array:
    """e_U = P_UU^-1 (P y)_U for each fold U; 0 for rows of no fold.

    `close`: whether P_UU may be singular up to rounding errors, so that this is checked.
    """
    on = backend_of(Py)
    e = on.zeros(*Py.shape)
    for _, rows in alike(folds, len(Py)):
        blocks = P.block(rows)
        if close:
            check_digits(1.0, float(on.xp.linalg.eigvalsh(blocks).min()))
        e[rows] = on.solve(blocks, Py[rows])
    return e


@dataclass(frozen=True)
class Resolvent:
    """N = (M + lam I)^-1 = V diag(shares) V', and V' times the columns of `cross`.

    `tied` is about the relative error of differences of predictions.
    """

    lam: float
    V: Array
    shares: Array
    rotated: Array
    tied: float

    def apply(self, t: Array) -> Array:
        """N t."""
        on = backend_of(t)
        return on.matmul(self.V, self.shares[:, None] * on.matmul(self.V.T, t))

    def block(self, rows: Index) -> Array:
        """N[rows][:, rows] for the rows of a fold, or of each of several folds."""
        part = self.V[rows]
        return (part * self.shares) @ part.mT

    def cross(self, rows: Index, some: Index) -> Array:
        """``N[rows] @ columns[:, some]``."""
        return (self.V[rows] * self.shares) @ self.rotated[:, some]


def lifted_root_kernel(K: Array, graph: QueryGraph) -> Array:
    """M = R K R', with the eigenvalues on the null space of R raised; K is overwritten.

    R maps the constant vector of each query to zero, and there N would be 1 / lam, which may be
    large and make the rest inaccurate. Targets and products are orthogonal to the null space, so
    raising its eigenvalues to the size of the others does not change the results. If rows have
    weights, their square roots take the place of the constant vector.
    """
    M = graph.root_kernel(K)
    scale = float(M.diagonal().max())
    ends = graph.level_ptr[graph.query_ptr]
    # Different shifts: LAPACK is up to eight times slower on many equal eigenvalues.
    shifts = scale * np.linspace(1.0, 2.0, len(graph.pairs_of_query))
    for q, n_pairs in enumerate(graph.pairs_of_query):
        rows = graph.rows[ends[q] : ends[q + 1]]
        if n_pairs and graph.row_weights is not None:
            unit = np.sqrt(graph.row_weights[rows] / graph.query_totals[q])
            M[rows[:, None], rows] += backend_of(M).array(shifts[q] * np.outer(unit, unit))
        elif n_pairs:
            M[rows[:, None], rows] += float(shifts[q]) / len(rows)
        else:
            M[rows, rows] += float(shifts[q])
    return M


def resolvents(M: Array, lams: Sequence[float], columns: Array) -> Iterator[Resolvent]:
    """N for each lam in turn, ready for products with these columns.

    V has the eigenvectors of M or, for few lams, the inverse of a triangular factor of M + lam I.
    M is not overwritten; memory for one or two further matrices of its size.
    """
    on, trace = backend_of(M), float(abs(M.diagonal()).sum())
    if len(lams) > on.inverse_cost:
        s, V = on.eigh(on.copy(M))
        V, least = on.contiguous(V), float(s[0]) + min(lams)
        if least <= EPS * trace:
            raise not_definite(on.copy(M), min(lams))
        check_digits(trace, least)
        rotated = on.matmul(V.T, on.contiguous(columns))
        for lam in lams:
            error = rounding_error(trace, 1.0 / (max(0.0, float(s[0])) + lam))
            yield Resolvent(lam, V, 1.0 / (s + lam), rotated, error)
        return
    for lam in lams:
        shifted = on.copy(M)
        on.diagonal(shifted)[:] += lam
        factor = on.cholesky(shifted)
        if factor is None:
            raise not_definite(on.copy(M), lam)
        V = on.contiguous(on.solve_triangular(factor, on.eye(len(M))).T)
        shares = on.zeros(len(M)) + 1.0
        largest = float((V**2).sum(axis=1).max())
        check_digits(trace, 1.0 / largest)
        error = rounding_error(trace, largest)
        rotated = on.matmul(V.T, on.contiguous(columns))
        yield Resolvent(lam, V, shares, rotated, error)


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
                "correct digits. Look for an outlier in the features."
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
    moments: Moments | None = None,
) -> Array:
    """Like `dual_folds`, from features, whose moments may be known.

    Folds with fewer rows than there are features are solved by `predict_without`. Otherwise, or
    with a `rescaling`, each fold solves (A - A_U + lam I) w = b - b_U; see `solve_without`.

    Cost: O(m n^2), and |U|^3 or n^3 for each fold and lam; a dense copy of F in memory.
    """
    on = backend_of(F)
    Z = on.contiguous(graph.root(F.toarray() if is_sparse(F) else F))
    t = graph.root_target(y)
    out = on.empty(len(lams), *y.shape)
    if rescaling is None and max(len(fold) for fold in folds) < F.shape[1]:
        moments = Moments.of_roots(Z, t) if moments is None else moments
        predict_without(F, Z, t, folds, lams, MomentSpectrum.of(moments.A, moments.b), out)
        return out
    offset = 0.0 if rescaling is None else on.array(rescaling.offset)

    def keep(fold: Index, w: Array) -> None:
        out[:, fold] = (on.rows(F, fold) + offset) @ w

    scales = None if rescaling is None else rescaling.deviations
    solve_without(Z, t, folds, np.broadcast_to(lams, (len(folds), len(lams))), keep, scales=scales)
    return out


@dataclass(frozen=True)
class MomentSpectrum:
    """Moments A = V diag(s) V' and V'b of all rows, shared by all hold-outs."""

    s: Array
    V: Array
    rotated: Array

    @classmethod
    def of(cls, A: Array, b: Array) -> MomentSpectrum:
        """From moments A and b."""
        on = backend_of(A)
        s, V = on.eigh(on.copy(A))
        V = on.contiguous(V)
        return cls(s.clip(min=0.0), V, on.matmul(V.T, b.reshape(len(b), -1)))


def predict_without(
    F: Any,
    Z: Array,
    t: Array,
    folds: Sequence[Index],
    lams: Sequence[float],
    spectrum: MomentSpectrum,
    out: Array,
) -> None:
    """Predictions for folds of these rows, from moments that may include other rows as well.

    With w = (A + lam I)^-1 b and the hat matrix H = Z (A + lam I)^-1 Z', the residuals of a fold
    are e = (I - H_UU)^-1 (t - Z w)_U, and the weights without it are w - (A + lam I)^-1 Z_U'e.
    """
    on, V, norm = backend_of(Z), spectrum.V, float(spectrum.s.sum())
    check_digits(norm, float(spectrum.s.min()) + min(lams))

    def predict_some(some: Sequence[Index]) -> None:
        """Folds of about equal size, side by side; rows of zeros fill up the smaller ones."""
        sizes, n = [len(fold) for fold in some], max(len(fold) for fold in some)
        held = np.concatenate(some)
        place = on.index(np.concatenate([k * n + np.arange(size) for k, size in enumerate(sizes)]))

        def stacked(values: Array) -> Array:
            padded = on.zeros(len(some) * n, values.shape[1])
            padded[place] = values
            return padded.reshape(len(some), n, -1)

        # Rows of zeros do not change e. Y is in the basis V, in which A is diagonal.
        Y, t_U = stacked(on.matmul(on.rows(Z, held), V)), stacked(t[held])
        numbers = close if many else list(range(len(lams)))
        shape = len(some), -1, len(numbers), t.shape[1]  # n or the size of V, lams, outputs
        shares = 1.0 / (spectrum.s + on.array(np.array(lams)[numbers])[:, None])
        w = spectrum.rotated[:, None] * shares.T[:, :, None]
        t_left = t_U[:, :, None] - (Y @ w.reshape(len(V), -1)).reshape(shape)
        eye, rests = on.eye(n), on.empty(len(some), len(numbers), n, n)
        for j, k in enumerate(numbers):
            rests[:, j] = eye - Y @ (Y * shares[j]).mT
            if k in close:  # H_UU may have an eigenvalue of 1
                check_digits(OF_FOLD, float(on.xp.linalg.eigvalsh(rests[:, j]).min()))
        e = on.solve(rests, t_left.swapaxes(1, 2)).swapaxes(1, 2)
        explained = (Y.mT @ e.reshape(len(some), n, -1)).reshape(shape)
        W = (spectrum.rotated[:, None] - explained) * shares.T[:, :, None]
        W = W.reshape(len(some), len(V), -1)  # for all lams, in the basis V
        own, fewer = on.rows(F, held), W.shape[2] > n
        found = stacked(on.matmul(own, V)) @ W if fewer else stacked(own) @ (V @ W)
        found = found.reshape(len(some) * n, len(numbers), -1)[place]
        for k, scores in zip(numbers, found.swapaxes(0, 1), strict=True):
            out[k, on.index(held)] = scores

    close = [k for k, lam in enumerate(lams) if lam < CLOSE * norm]
    usual = [k for k, lam in enumerate(lams) if lam >= CLOSE * norm]
    roots = np.sqrt(spectrum.s + np.array(lams)[usual, None]) if on.is_host else V

    def predict_compiled(some: Sequence[Index]) -> None:
        held, ptr = as_slice(np.concatenate(some)), np.cumsum([0, *map(len, some)])
        F_U, Z_U = (on.rows(rows, held) for rows in (F, Z))
        found = np.empty((len(usual), len(F_U), t.shape[1]))
        fold_predictions(matmul(Z_U, V), F_U, t[held], ptr, roots, spectrum.rotated, V, found)
        for k, scores in zip(usual, found, strict=True):
            out[k, held] = scores

    many = on.is_host and Z.shape[0] * Z.shape[1] > MANY_NUMBERS and len(usual) > 0
    by_size = sorted(folds, key=len)
    threads = threads_for(Z.shape[0] * Z.shape[1]) if on.is_host else 1

    def parts(n_bytes: int) -> list[list[Index]]:
        step = max(1, n_bytes // (8 * V.shape[0] * len(by_size[-1])))
        return [by_size[start : start + step] for start in range(0, len(by_size), step)]

    if many:  # few calls for each thread: what is outside of the loop takes turns
        share = 8 * Z.shape[0] * Z.shape[1] // (PARTS_OF_THREAD * threads)
        map_in_threads(predict_compiled, parts(min(share, PART_BYTES)), threads)
    if close or not many:
        map_in_threads(predict_some, parts(on.block_bytes(STACK_BYTES)), threads)


def solve_without(
    Z: Array,
    t: Array,
    folds: Sequence[Index],
    lams: Array,
    keep: Callable[[Index, Array], None],
    *,
    intercept: bool = False,
    scales: Array | None = None,
) -> None:
    """w = (A - A_U + lam I)^-1 (b - b_U) for each fold U and lam, with A = Z'Z and b = Z't.

    `lams` has shape (n_folds, n_lams). Several threads call ``keep(fold, weights)`` with weights of
    shape (n_lams, n, n_outputs). With an intercept, the last column of Z is constant, and its
    weight is not penalized. Without fold U, columns of Z are divided by ``scales[U]``, the last of
    which must be 1 if there is an intercept.
    """
    on, n = backend_of(Z), Z.shape[1]
    penalty = np.eye(n)
    penalty[-1, -1] = 0.0 if intercept else 1.0
    penalized, of_fold = on.array(penalty), on.contiguous(on.array(lams))

    def solve(job: tuple[Index, Array, Array]) -> float:
        some, A, b = job
        if scales is not None:
            S = on.array(scales[some])
            A, b = A / (S[:, :, None] * S[:, None]), b / S[:, :, None]
        solutions = compiled_solutions if many else stacked_solutions
        w, pivot = solutions(A, b, of_fold[some], penalized)
        if scales is not None:
            w = w / S[:, None, :, None]
        for k, weights in zip(some, w, strict=True):
            keep(folds[k], weights)
        return pivot

    many = on.is_host and lams.size * n**2 > FEW_ENTRIES
    threads = threads_for(lams.size * n**3) if on.is_host else 1  # a device is parallel by itself
    in_memory = on.block_bytes(SOLVE_BYTES) // (8 * lams.shape[1] * n**2) // threads
    for first, A, b in sums_without(Z, t, folds):
        some = np.arange(first, first + len(A))
        batch = max(1, min(in_memory, -(-len(A) // threads)))
        parts = [slice(k, k + batch) for k in range(0, len(A), batch)]
        jobs = [(some[part], A[part], b[part]) for part in parts]
        check_digits(1.0, min(map_in_threads(solve, jobs, threads)))


def stacked_solutions(A: Array, b: Array, strengths: Array, penalty: Array) -> tuple[Array, float]:
    """(A + strength penalty)^-1 b for each fold and lam, shape (n_folds, n_lams, n, n_outputs).

    The second result is the smallest pivot of the matrices relative to their diagonals. Raises
    LinAlgError if a matrix is not positive definite.
    """
    on = backend_of(A)
    M = A[:, None] + strengths[:, :, None, None] * penalty
    if on.is_host:
        C = np.linalg.cholesky(M)
    else:
        C, failed = on.xp.linalg.cholesky_ex(M)
        if bool(failed.any()):
            raise np.linalg.LinAlgError
    pivots = C.diagonal(0, 2, 3) ** 2 / M.diagonal(0, 2, 3)
    return on.solve(M, b[:, None]), float(pivots.min())


def compiled_solutions(A: Array, b: Array, strengths: Array, penalty: Array) -> tuple[Array, float]:
    """The same for NumPy arrays."""
    _, n, n_outputs = b.shape
    found, M, x = (
        np.empty((*strengths.shape, n, n_outputs)),
        np.empty((n, n)),
        np.empty((n_outputs, n)),
    )
    sizes, triangle = np.array([n, n_outputs, 0], np.int32), np.array([ord("U")], np.uint8)
    pivot = solve_definite(A, b, strengths, penalty, M, x, sizes, triangle, found)
    if pivot < 0:
        raise np.linalg.LinAlgError
    return found, pivot


def sums_without(Z: Array, t: Array, folds: Sequence[Index]) -> Iterator[tuple[int, Array, Array]]:
    """(first, A, b): moments of all folds but one, for folds first, first + 1, ...

    Blocks of folds, and folds within a block, have cumulative sums from both ends: the sum without
    a fold is the sum before it plus the sum after it. The memory is 64 MiB, or the moments of about
    the square root of the number of folds if that is more.
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


def moments_of_folds(Z: Array, t: Array, folds: Sequence[Index]) -> tuple[Array, Array]:
    """Z'Z and Z't of each fold."""
    on, n = backend_of(Z), Z.shape[1]
    A, b = on.zeros(len(folds), n, n), on.zeros(len(folds), n, t.shape[1])

    def fill(part: tuple[Index, Index]) -> None:
        some, rows = map(on.index, part)
        Z_U, t_U = Z[rows], t[rows]
        A[some], b[some] = Z_U.mT @ Z_U, Z_U.mT @ t_U

    threads = threads_for(Z.shape[0] * n) if on.is_host else 1
    block = on.block_bytes(8 * BLOCK) // 8
    map_in_threads(fill, list(alike(folds, n + t.shape[1], block)), threads)
    return A, b


def _mean_groups(graph: QueryGraph) -> Index:
    """Group codes: one for each query with pairs, and one for each row of the other queries."""
    query = np.empty(graph.n_rows, dtype=np.intp)
    query[graph.rows] = np.repeat(np.arange(len(graph.groups.sizes)), graph.groups.sizes)
    alone = graph.pairs_of_query[query] == 0
    query[alone] = len(graph.groups.sizes) + np.flatnonzero(alone)
    return np.unique(query, return_inverse=True)[1].astype(np.intp)


@dataclass(frozen=True)
class Conditional:
    """One query, conditional on the others.

    A ranker trained on the other queries predicts f for the rows of a query. The conditional kernel
    is k(x, x') minus the part that the other queries explain, as the posterior covariance of a
    Gaussian process. Both are needed up to constants only, since a query has a free intercept.
    Holding out rows of this query is then a problem of this query alone, with the conditional
    kernel instead of the kernel and y - f instead of y.

    Attributes
    ----------
    rows : ndarray of shape (n,)
        The rows of the query.
    prediction : ndarray of shape (n, n_outputs)
        f trained without the query, up to a constant.
    target : ndarray of shape (n, n_outputs)
        y minus that prediction, up to a constant.
    kernel : ndarray of shape (n, n) or None
        The conditional kernel, up to constants.
    features : ndarray of shape (n, d) or None
        Features whose inner products are the conditional kernel; either these or `kernel` is set.
    weight : float
        The weight of the query.
    close : bool
        Whether alpha is so small that rounding errors of `features` matter.
    tied : float
        About the relative error of differences of predictions.
    """

    rows: Index
    prediction: Array
    target: Array
    kernel: Array | None = None
    features: Array | None = None
    weight: float = 1.0
    close: bool = False
    tied: float = TIED

    def stored_kernel(self) -> Array:
        """A new matrix with the conditional kernel."""
        if self.kernel is not None:
            return backend_of(self.kernel).copy(self.kernel)
        assert self.features is not None
        return self.features @ self.features.T


def dual_conditionals(
    K: Array, graph: QueryGraph, y: Array, lams: Sequence[float]
) -> Iterator[tuple[int, Conditional]]:
    """(k, query) for each lam with index k and each query with pairs; K is overwritten.

    The Schur complement of N = (R K R' + lam I)^-1 is N_qq^-1 = R_q K~ R_q' + lam I with the
    conditional kernel K~, and v = N_qq^-1 z_q is R_q (y - f).

    Cost: N for each lam, or one eigendecomposition for all, and the cube of each query size.
    """
    on, t = backend_of(K), graph.root_target(y)
    M = lifted_root_kernel(K, graph)
    queries = [(rows, graph.take(rows)) for rows in query_rows(graph)]
    for k, N in enumerate(resolvents(M, lams, t)):
        z = N.apply(t)
        for rows, part in queries:
            n = len(rows)
            # One solve for both N_qq^-1 and N_qq^-1 z_q.
            eye = on.eye(n)
            both = on.solve(N.block(rows), on.xp.hstack((eye, z[rows])))
            inner = both[:, :n] - N.lam * eye
            kernel = part.root_inverse(part.root_inverse(inner).T)
            target = part.root_inverse(on.contiguous(both[:, n:]))
            kernel = (kernel + kernel.T) / 2
            weight = query_weight(graph, rows)
            labels = y[rows] - y[rows[0]]  # exact, also far from zero
            f = labels - target
            yield k, Conditional(rows, f, target, kernel=kernel, weight=weight, tied=N.tied)


def primal_conditionals(
    F: Any, graph: QueryGraph, y: Array, lams: Sequence[float]
) -> Iterator[tuple[int, Conditional]]:
    """Like `dual_conditionals`, from features.

    With the moments A and b of the other queries, f = F_q (A + lam I)^-1 b, and the conditional
    kernel is lam F_q (A + lam I)^-1 F_q'.

    Cost: O(m n^2), and one eigendecomposition of an n by n matrix for each query.
    """
    on = backend_of(F)
    Z = on.contiguous(graph.root(F.toarray() if is_sparse(F) else F))
    t = graph.root_target(y)
    folds = list(query_rows(graph))
    for first, A, b in sums_without(Z, t, folds):
        for rows, A_q, b_q in zip(folds[first:], A, b, strict=False):
            s, V = on.eigh(on.copy(A_q))
            own = on.rows(F, rows)
            # Constants do not matter, and differences are accurate far from zero.
            rotated, labels = (own - own.mean(axis=0)) @ V, y[rows] - y[rows[0]]
            size, others = float((Z[rows] ** 2).sum()), float(abs(s).sum())
            for k, lam in enumerate(lams):
                divisors = s.clip(min=0.0) + lam
                f = (rotated / divisors) @ (V.T @ b_q)
                features = on.xp.sqrt(lam / divisors) * rotated
                weight = query_weight(graph, rows)
                close = lam < CLOSE * (size + others)
                if close:
                    check_digits(size + others, float(divisors.min()))
                yield k, Conditional(rows, f, labels - f, None, features, weight, close)


def query_weight(graph: QueryGraph, rows: Index) -> float:
    """The weight of the query of these rows."""
    weights = graph.groups.weights
    return 1.0 if weights is None else float(weights[graph.groups.codes[rows[0]]])


def query_rows(graph: QueryGraph) -> Iterator[Index]:
    """Row indices of each query that has pairs, ascending."""
    ends = graph.level_ptr[graph.query_ptr]
    for q in np.flatnonzero(graph.pairs_of_query):
        yield np.sort(graph.rows[ends[q] : ends[q + 1]])


# Compiled loops.


@compiled
def fold_predictions(
    Y: Array, F: Array, t: Array, ptr: Index, roots: Array, rotated: Array, V: Array, out: Array
) -> None:
    """Predictions for folds of rows ptr[f]:ptr[f + 1], as in `predict_without`, for each lam.

    Y is rotated by V, and `roots` has the square roots of s + lam. One call for many folds does not
    take the interpreter lock, for which threads would wait.
    """
    n_lams, n_outputs = len(roots), t.shape[1]
    W = np.empty((len(V), n_lams * n_outputs))
    for f in range(len(ptr) - 1):
        rows = slice(ptr[f], ptr[f + 1])
        y, target = Y[rows], t[rows]
        for k in range(n_lams):
            root = roots[k].reshape(-1, 1)
            scaled, w = y / roots[k], rotated / root
            rest = np.eye(len(y)) - np.dot(scaled, scaled.T)
            e = np.linalg.solve(rest, target - np.dot(scaled, w))
            W[:, k * n_outputs : (k + 1) * n_outputs] = (w - np.dot(scaled.T, e)) / root
        found = np.dot(F[rows], np.dot(V, W))
        for k in range(n_lams):
            out[k, rows] = found[:, k * n_outputs : (k + 1) * n_outputs]


@compiled
def solve_definite(
    A: Array, b: Array, strengths: Array, penalty: Array, M: Array, x: Array, sizes: Any,
    triangle: Any, out: Array,
) -> float:  # fmt: skip
    """(A[f] + strengths[f, k] penalty)^-1 b[f] for each fold f and lam k, into out[f, k].

    Returns the smallest pivot relative to the diagonal, or -1 if a matrix is not positive definite.
    M, x and `sizes` are memory for LAPACK: a matrix, the transposed b, and the sizes of b.
    """
    (n_outputs, n), least = x.shape, np.inf
    of_n, of_outputs, info = sizes[:1].ctypes, sizes[1:].ctypes, sizes[2:].ctypes
    of_M, of_x, letter = M.ctypes, x.ctypes, triangle.ctypes
    for f in range(len(A)):
        for k in range(strengths.shape[1]):
            for i in range(n):
                for j in range(n):
                    M[i, j] = A[f, i, j] + strengths[f, k] * penalty[i, j]
                for o in range(n_outputs):
                    x[o, i] = b[f, i, o]
            dposv(letter, of_n, of_outputs, of_M, of_n, of_x, of_n, info)
            if sizes[2] != 0:
                return -1.0
            for i in range(n):
                pivot = M[i, i] ** 2 / (A[f, i, i] + strengths[f, k] * penalty[i, i])
                if not pivot > 0.0:  # or not a number
                    return -1.0
                least = min(least, pivot)
                for o in range(n_outputs):
                    out[f, k, i, o] = x[o, i]
    return least
