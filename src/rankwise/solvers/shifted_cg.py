"""Conjugate gradients for (A + lam I) w = b and any number of lam, from products with A alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Array, Index, as_given, backend_of, is_sparse, to_host
from rankwise.errors import DataError
from rankwise.graph import PreferenceGraph, QueryGroups

DRIFT = 2.0  # times the tolerance: a larger true residual is reduced by a restart
CHECKED_COLUMNS = 16  # whose true residuals are computed together

Apply = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class ShiftedSolutions:
    """Solutions for each lam.

    Attributes
    ----------
    solutions : list of arrays, the shape of b each
        In the order of the given lam; or ``observe(w)``.
    residuals : ndarray of shape (n_lams,)
        |b - (A + lam I) w| / |b|, the largest of all columns.
    n_iter : int
        The number of steps: products with A, apart from checks.
    """

    solutions: list[Array]
    residuals: Array
    n_iter: int


def shifted_cg(
    apply: Apply,
    b: Array,
    lams: Sequence[float],
    *,
    tol: float,
    max_iter: int,
    observe: Apply | None = None,
) -> ShiftedSolutions:
    """(A + lam I)^-1 b for each lam, from one Krylov space.

    Started at 0, conjugate gradients for the smallest lam and for a larger one search the same
    spaces, and their residuals are multiples of each other. Each further lam therefore takes two
    vectors and their updates, but no product with A (Frommer and Maass, 1999). The multiples are at
    most 1: larger lam are solved earlier.

    In exact arithmetic, residuals are orthogonal. Rounding errors destroy this, which delays
    convergence, and the recurrences drift from the true residuals. These are therefore computed in
    the end, and a lam for which they are too large is continued from where it is.

    Parameters
    ----------
    apply : callable
        A P for a matrix P of columns, with A symmetric and positive semidefinite.
    b : array of shape (n, n_columns)
    lams : sequence of float, at least 0
    tol : float
        Stop when |b - (A + lam I) w| <= tol |b| in every column.
    max_iter : int
    observe : callable, optional
        A linear function of columns. With it, ``observe(w)`` is computed instead of w, in memory
        of its size, and true residuals are not checked.

    References
    ----------
    Frommer, Maass: Fast CG-based methods for Tikhonov-Phillips regularization. SIAM Journal on
    Scientific Computing 20, 1999.
    """
    on = backend_of(b)
    scale = on.xp.amax(abs(b), axis=0)
    if not on.is_finite(scale):
        raise _overflow()
    b = b / on.xp.where(scale > 0, scale, 1.0)  # squares neither overflow nor underflow
    goal = tol * on.xp.sqrt((b * b).sum(axis=0))
    order = np.argsort(np.asarray(lams, dtype=np.float64), kind="stable")
    ascending = np.asarray(lams, dtype=np.float64)[order]
    found = _run(apply, b, ascending, goal, max_iter, observe)
    W, residuals, n_iter = found
    if observe is None:
        residuals, n_iter = _refine(apply, b, ascending, goal, max_iter, found)
    start = on.xp.sqrt((b * b).sum(axis=0))
    relative = residuals / on.xp.where(start > 0, start, 1.0)
    W *= scale
    place: Index = np.argsort(order)
    largest = np.asarray(to_host(relative)).max(axis=1)
    return ShiftedSolutions([W[k] for k in place.tolist()], largest[place], n_iter)


def _run(
    apply: Apply, b: Array, lams: Array, goal: Array, max_iter: int, observe: Apply | None
) -> tuple[Array, Array, int]:
    """Solutions from 0 for ascending lams, norms of their residuals, and the number of steps.

    With the residual r of the smallest lam, the residual of lam + shift is r_s = size r. The
    ratios of successive sizes are between 0 and 1, so that nothing overflows.
    """
    on = backend_of(b)
    n_lams, n_columns = len(lams), b.shape[1]
    shift = on.array(lams - lams[0]).reshape(-1, 1)
    r, p = on.copy(b), on.copy(b)
    image = b if observe is None else observe(b)
    own = 1 if observe is None else 0  # the direction of the smallest lam is p itself
    W = on.zeros(n_lams, *image.shape)
    D = on.empty(n_lams - own, *image.shape)
    for k in range(n_lams - own):
        D[k] = image
    del image
    gamma = (r * r).sum(axis=0)
    size, ratio = on.zeros(n_lams, n_columns) + 1.0, on.zeros(n_lams, n_columns) + 1.0
    residuals = size * on.xp.sqrt(gamma)
    before = on.zeros(n_columns)  # beta / a of the previous step
    n_iter = 0
    while n_iter < max_iter:
        n_open = _number_open(residuals, goal)
        if n_open == 0:
            break
        q = apply(p)
        q += lams[0] * p
        curvature = on.xp.einsum("ij,ij->j", p, q)
        if not on.is_finite(curvature):
            raise _overflow()
        # A column whose residual is 0 stays as it is.
        moves = (curvature > 0) & (gamma > 0)
        if not bool(moves.any()):
            break
        a = on.xp.where(moves, gamma / on.xp.where(moves, curvature, 1.0), 0.0)
        q *= a
        r -= q
        del q
        after = on.xp.einsum("ij,ij->j", r, r)
        if own:
            W[0] += a * p
        beta = on.xp.where(moves, after / on.xp.where(moves, gamma, 1.0), 0.0)
        ratio[:n_open] = 1.0 / (1.0 + a * shift[:n_open] + a * before * (1.0 - ratio[:n_open]))
        size[:n_open] *= ratio[:n_open]
        _advance(
            W[own:n_open],
            D[: n_open - own],
            r if observe is None else observe(r),
            (a * ratio)[own:n_open],
            (beta * ratio**2)[own:n_open],
            size[own:n_open],
        )
        p *= beta
        p += r
        before = on.xp.where(moves, beta / on.xp.where(moves, a, 1.0), 0.0)
        gamma = after
        residuals[:n_open] = size[:n_open] * on.xp.sqrt(gamma)
        n_iter += 1
    return W, residuals, n_iter


def _number_open(residuals: Array, goal: Array) -> int:
    """The number of unsolved lams, which are the smallest."""
    unsolved = np.flatnonzero(np.asarray(to_host((residuals > goal).any(axis=1))))
    return int(unsolved[-1]) + 1 if len(unsolved) else 0


def _advance(W: Array, D: Array, image: Array, a: Array, beta: Array, size: Array) -> None:
    """W <- W + a D and D <- size image + beta D, for each lam."""
    for k in range(len(W)):
        W[k] += a[k] * D[k]
        D[k] *= beta[k]
        D[k] += size[k] * image


def _refine(
    apply: Apply,
    b: Array,
    lams: Array,
    goal: Array,
    max_iter: int,
    found: tuple[Array, Array, int],
) -> tuple[Array, int]:
    """True residuals, after restarts where rounding errors have left them too large."""
    W, claimed, n_iter = found
    on = backend_of(b)
    residuals = on.zeros(*claimed.shape)
    together = max(1, CHECKED_COLUMNS // b.shape[1])
    for start in range(0, len(lams), together):
        part = range(start, min(start + together, len(lams)))
        columns = on.contiguous(on.xp.hstack([W[k] for k in part]))
        products = apply(columns)
        for k in part:
            AW = products[:, (k - start) * b.shape[1] : (k - start + 1) * b.shape[1]]
            rest = b - AW - lams[k] * W[k]
            norm = on.xp.sqrt((rest * rest).sum(axis=0))
            while n_iter < max_iter and bool((norm > DRIFT * goal).any()):
                more, _, steps = _run(apply, rest, lams[k : k + 1], goal, max_iter - n_iter, None)
                w = W[k] + more[0]
                rest = b - apply(w) - lams[k] * w
                last, norm = norm, on.xp.sqrt((rest * rest).sum(axis=0))
                n_iter += steps
                if steps == 0 or not bool((norm < 0.5 * last).any()):
                    norm = last
                    break
                W[k] = w
            residuals[k] = norm
    return residuals, n_iter


def _overflow() -> DataError:
    return DataError(
        "Products of feature values overflow. Scale the features, for example with "
        "sklearn.preprocessing.StandardScaler."
    )


def is_solved(found: ShiftedSolutions, tol: float) -> Any:
    """Which lams are solved to a tolerance, up to rounding errors of the residuals."""
    return found.residuals <= DRIFT * tol


def unsolved_residual(found: ShiftedSolutions, tol: float) -> float | None:
    """The largest residual of the lams that are not solved; None if all are."""
    solved = is_solved(found, tol)
    return None if solved.all() else float(found.residuals[~solved].max())


CHUNK = 2**21  # stored values of sparse rows that are looked at together


@dataclass(frozen=True, eq=False)
class PairProducts:
    """The systems (X'LX + lam I) w = X'Ly of several graphs L on the same rows.

    A product with X'LX takes O(nnz) time, and O(m + n) memory for each column. The systems are
    solved side by side, and a column of products belongs to each output of each system.

    Attributes
    ----------
    forward, transpose : callable
        P -> X P and Q -> X'Q.
    graphs : list of PreferenceGraph
    columns : list of slice
        The columns of each graph.
    b : array of shape (n_features, n_columns)
        X'Ly.
    """

    forward: Apply
    transpose: Apply
    graphs: Sequence[PreferenceGraph]
    columns: Sequence[slice]
    b: Array

    @classmethod
    def of(
        cls,
        X: Any,
        graphs: Sequence[PreferenceGraph],
        targets: Sequence[Array | None],
        groups: QueryGroups | None = None,
    ) -> PairProducts:
        """The systems of these graphs and their targets, on the backend of X.

        A feature that all rows of a query have counts only by its differences within the query. It
        is replaced by the difference from the first row, so that no digits cancel. No graph
        compares rows of different `groups`, by default the groups of the first graph.
        """
        on = backend_of(X)
        groups = graphs[0].compared if groups is None else groups
        forward, transpose = on.products(within_queries(as_given(X), groups))
        rhs, columns, end = [], [], 0
        for graph, y in zip(graphs, targets, strict=True):
            found = on.array(graph.rhs(y))
            rhs.append(found.reshape(len(found), -1))
            columns.append(slice(end, end + rhs[-1].shape[1]))
            end = columns[-1].stop
        b = transpose(on.contiguous(on.xp.hstack(rhs)))
        return cls(forward, transpose, graphs, columns, b)

    def __call__(self, P: Array) -> Array:
        """X'LX P. P has the columns of all systems, several times if there are more of them."""
        Q = self.forward(P)
        if len(self.graphs) == 1:
            return self.transpose(self.graphs[0] @ Q)
        on, width = backend_of(Q), self.columns[-1].stop
        for start in range(0, P.shape[1], width):
            for graph, part in zip(self.graphs, self.columns, strict=True):
                some = slice(start + part.start, start + part.stop)
                Q[:, some] = graph @ on.contiguous(Q[:, some])
        return self.transpose(Q)


def within_queries(X: Any, groups: QueryGroups) -> Any:
    """X with the first row of its query subtracted from features that no row of the query lacks.

    L X is the same. Sparse rows stay sparse: a feature that some rows of a query do not have stays
    as it is, since 0 is among its values and they are not far from it.
    """
    if not is_sparse(X):
        on = backend_of(X)
        first = groups.order[groups.indptr[:-1]]
        X = on.array(X)
        return X - X[on.index(first)][on.index(groups.codes)]
    X = X.tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    cells = _shared_cells(X, groups)
    if cells.nnz == 0:
        return X
    keys, n = cells.row.astype(np.int64) * X.shape[1] + cells.col, X.shape[1]
    counts = np.zeros(len(keys), dtype=np.int64)
    wanted = np.zeros(n, dtype=bool)
    wanted[cells.col] = True
    for _, cell in _entries(X, groups.codes, keys, wanted):
        counts += np.bincount(cell, minlength=len(keys))
    full = counts == groups.sizes[cells.row]
    if not full.any():
        return X
    data = X.data.astype(np.float64)
    for entry, cell in _entries(X, groups.codes, keys, wanted):
        shifted = full[cell]
        data[entry[shifted]] -= cells.data[cell[shifted]]
    found = sp.csr_array((data, X.indices.copy(), X.indptr.copy()), shape=X.shape)
    found.eliminate_zeros()
    return found


def _shared_cells(X: Any, groups: QueryGroups) -> Any:
    """The features that the first two rows of each query have, with their values in the first.

    They are sorted by query and feature.
    """
    several = np.flatnonzero(groups.sizes > 1)
    first, second = (X[groups.order[groups.indptr[several] + k]] for k in (0, 1))
    first.data = first.data.astype(np.float64)
    has_both = first.astype(bool).multiply(second.astype(bool))
    cells = has_both.multiply(first).tocsr()
    cells.sort_indices()
    found = cells.tocoo()
    shape = (groups.n_groups, X.shape[1])
    return sp.coo_array((found.data, (several[found.row], found.col)), shape=shape)


def _entries(X: Any, codes: Index, keys: Index, wanted: Array) -> Iterator[tuple[Index, Index]]:
    """Positions in ``X.data`` of values that belong to cells with these keys, and their cells."""
    for rows in row_chunks(X):
        low, high = X.indptr[rows.start], X.indptr[rows.stop]
        entry = low + np.flatnonzero(wanted[X.indices[low:high]])
        row = np.searchsorted(X.indptr, entry, side="right") - 1
        key = codes[row].astype(np.int64) * X.shape[1] + X.indices[entry]
        cell = np.searchsorted(keys, key).clip(max=len(keys) - 1)
        hit = keys[cell] == key
        yield entry[hit], cell[hit]


def row_chunks(X: Any) -> Iterator[slice]:
    """Slices of the rows of a CSR matrix with about CHUNK stored values each."""
    start, n_rows = 0, X.shape[0]
    while start < n_rows:
        stop = int(np.searchsorted(X.indptr, X.indptr[start] + CHUNK, side="right")) - 1
        stop = min(max(stop, start + 1), n_rows)
        yield slice(start, stop)
        start = stop


def pair_squares(X: Any, graph: PreferenceGraph) -> Array:
    """The diagonal of X'LX for sparse rows, from some queries at a time."""
    groups = graph.compared
    X = within_queries(as_given(X), groups)
    if groups.n_groups == 1 or graph.groups is None:
        return graph.squares(X)
    total = np.zeros(X.shape[1])
    before = np.concatenate(([0], np.cumsum(np.diff(X.indptr)[groups.order])))[groups.indptr]
    chunk_of_query = before[:-1] // CHUNK
    for queries in np.split(
        np.arange(groups.n_groups), np.flatnonzero(np.diff(chunk_of_query)) + 1
    ):
        rows = groups.order[groups.indptr[queries[0]] : groups.indptr[queries[-1] + 1]]
        total += graph.take(rows).squares(X[rows])
    return total
