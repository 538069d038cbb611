"""Least squares on the cells of a table, with a kernel on each side.

For a complete table, with kernel matrices K of the rows and G of the columns, scores F = K A G
minimize

    1/2 |C(Y - F)|^2 + alpha/2 tr(A'K A G),

where C takes from each cell the mean of the cells that it competes with: the cells of its row, of
its column, or all cells. This is the pairwise loss of RankRLS with pairs weighted by one over the
number of competing cells. A satisfies C(K A G) + alpha A = C Y.

Let P be an orthonormal basis of the rows in which P'KP = diag(s), and Q one of the columns in which
Q'GQ = diag(t). If the cells of a row compete, Q spans the vectors that sum to 0; if the cells of a
column compete, P does. Then A = P Z Q' with Z_kl = (P'YQ)_kl / (s_k t_l + alpha): two
eigendecompositions serve every alpha. If all cells compete, both bases are complete, and Y is taken
relative to an offset that is not penalized.

If only some cells are given, the cells (i, j) and (h, k) have the kernel value K_ih G_jk. With the
graph of the cells that compete, L = R'R, coefficients a = R'u of the given cells solve

    (R (K o G) R' + alpha I) u = R y

by conjugate gradients. A product with K o G costs O(n_cells (n_rows + n_columns)) time and one
table of memory: the coefficients of the cells times G, and then K times the result, only where
there are cells (Airola and Pahikkala, Fast Kronecker product kernel methods via generalized vec
trick, 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index, backend_of
from rankwise.backends.jit import compiled
from rankwise.backends.parallel import map_in_threads, threads_for
from rankwise.errors import DataError, ParameterError
from rankwise.graph import PreferenceGraph
from rankwise.solvers.shifted_cg import ShiftedSolutions, shifted_cg

NEGATIVE = 1e-9  # of the largest eigenvalue: a kernel with one below minus this is refused
ROUNDING = 1e-14  # of the largest eigenvalue, and of products: what is below it is lost in rounding
N_POWERS = 20  # of a kernel matrix, to estimate its largest eigenvalue
LANES = 8  # columns of G that are summed together: a cache line
BLOCK_BYTES = 64 * 2**20  # of the systems of a fold that are solved at a time


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a table, in a basis in which its kernel is diagonal.

    Attributes
    ----------
    basis : array of shape (n, r)
        P, with orthonormal columns. Outside of it the kernel is 0.
    values : array of shape (r,)
        s, the diagonal of P'KP.
    scores : array of shape (n, r)
        K P.
    centred : bool
        Whether P spans vectors that sum to 0.
    """

    basis: Array
    values: Array
    scores: Array
    centred: bool

    @classmethod
    def of_kernel(cls, K: Array, *, centred: bool) -> Side:
        """From a kernel matrix: O(n^3) time, and two matrices of its size."""
        on = backend_of(K)
        if centred:
            H = _reflection(len(K), on)
            s, V = on.eigh(on.copy(_reflected(K, H)[1:, 1:]))
            V = on.xp.concatenate((on.zeros(1, V.shape[1]), V))
            P = V - 2.0 * H[:, None] * (H @ V)[None]
        else:
            s, P = on.eigh(on.copy(K))
        largest = float(abs(s).max()) if len(s) else 0.0
        if len(s) and float(s.min()) < -NEGATIVE * largest:
            raise _indefinite(float(s.min()), largest)
        kept = s > ROUNDING * largest
        P, s = on.contiguous(P[:, kept]), s[kept]
        beside = K.mean(axis=0) @ P if centred else 0.0
        return cls(P, s, P * s + beside, centred)  # K P is a multiple of P, up to constants

    @classmethod
    def of_features(cls, F: Array, *, centred: bool) -> Side:
        """From features with K = FF': O(n r^2) time for r features, r at most n."""
        on = backend_of(F)
        middle = F - F.mean(axis=0) if centred else F
        P, roots, V = on.xp.linalg.svd(middle, full_matrices=False)
        kept = roots > ROUNDING * (float(roots.max()) if len(roots) else 0.0)
        P, roots, V = on.contiguous(P[:, kept]), roots[kept], V[kept]
        return cls(P, roots**2, on.matmul(F, on.contiguous(V.T)) * roots, centred)

    def __len__(self) -> int:
        return len(self.basis)

    @property
    def is_complete(self) -> bool:
        """Whether no vector (that sums to 0, if centred) is outside of the basis."""
        return self.basis.shape[1] == len(self) - self.centred

    def centre(self, Y: Array) -> Array:
        """Columns of Y without their means, if the side is centred."""
        return Y - Y.mean(axis=0) if self.centred else Y

    def outside(self, Y: Array) -> Array:
        """The part of columns of Y that is outside of the basis."""
        return self.centre(Y) - self.basis @ (self.basis.T @ Y)

    def outside_block(self, rows: Index) -> Array:
        """Rows and columns of the projection on what is outside of the basis."""
        on, P = backend_of(self.basis), self.basis[rows]
        whole = on.array(np.eye(len(rows)) - self.centred / len(self))
        return whole - P @ P.T

    @property
    def outside_diagonal(self) -> Array:
        """The diagonal of the same projection."""
        on = backend_of(self.basis)
        if self.is_complete:
            return on.zeros(len(self))
        inside = (self.basis**2).sum(axis=1)
        return (1.0 - self.centred / len(self) - inside).clip(min=0.0)


def _indefinite(smallest: float, largest: float) -> DataError:
    return DataError(
        "The kernel matrix is not positive semidefinite: its smallest eigenvalue is "
        f"{smallest:.2g}, and its largest {largest:.2g}. Check that it is symmetric and holds "
        "similarities, or use another kernel."
    )


def check_semidefinite(K: Array) -> float:
    """The largest eigenvalue, roughly; an error unless a kernel matrix is semidefinite.

    A factorization takes O(n^3 / 3) time, a small part of that of eigenvalues.
    """
    size = float(abs(K).max())
    v = np.random.default_rng(0).standard_normal(len(K))
    for _ in range(N_POWERS if size else 0):
        v = K @ (v / np.linalg.norm(v)) / size  # squares of K could overflow
    largest = size * float(np.linalg.norm(v))
    try:
        if largest:
            np.linalg.cholesky(K + NEGATIVE * largest * np.eye(len(K)))
    except np.linalg.LinAlgError:
        raise _indefinite(float(np.linalg.eigvalsh(K)[0]), largest) from None
    return largest


def check_alpha(alpha: float, scale: float) -> None:
    """Raise an error for an alpha below the rounding errors of K o G with this scale."""
    if alpha <= ROUNDING * scale:
        raise ParameterError(
            f"alpha={alpha:g} is below the rounding errors of these kernels: use an alpha above "
            f"{ROUNDING * scale:.1g}."
        )


def _reflection(n: int, on: Any) -> Array:
    """The unit vector u of the reflection I - 2uu' that maps (1, 0, ..., 0) to a constant."""
    u = np.full(n, -1.0 / np.sqrt(n))
    u[0] += 1.0
    length = float(np.linalg.norm(u))
    return on.array(u / length if length else u)


def _reflected(K: Array, u: Array) -> Array:
    """(I - 2uu') K (I - 2uu') for a symmetric K."""
    Ku = K @ u
    v = 2.0 * Ku - 2.0 * float(u @ Ku) * u
    return K - u[:, None] * v[None] - v[:, None] * u[None]


@dataclass(frozen=True, eq=False)
class TableSystem:
    """The system S = K o G + alpha I of all cells of a table, on tables that are centred as needed.

    Each method takes a table Y of shape (n_rows, n_columns). Its cost is a few products of
    matrices of this size for each alpha; nothing of the size of cells times cells is formed.

    Attributes
    ----------
    rows, columns : Side
    """

    rows: Side
    columns: Side

    @property
    def transposed(self) -> TableSystem:
        """The system of the table with rows and columns exchanged."""
        return TableSystem(self.columns, self.rows)

    @property
    def scale(self) -> float:
        """The largest eigenvalue of K o G."""
        sizes = [float(s.max()) if len(s) else 0.0 for s in (self.rows.values, self.columns.values)]
        return sizes[0] * sizes[1]

    def rotated(self, Y: Array) -> Array:
        """P'YQ."""
        on = backend_of(Y)
        return on.matmul(on.matmul(on.contiguous(self.rows.basis.T), Y), self.columns.basis)

    def factors(self, alpha: float) -> Array:
        """W_kl = 1 / (s_k t_l + alpha)."""
        check_alpha(alpha, self.scale)
        return 1.0 / (self.rows.values[:, None] * self.columns.values[None] + alpha)

    def coefficients(self, Y: Array, alpha: float) -> Array:
        """A = S^-1 Y."""
        inside = self.rotated(Y)
        A = self.unrotated(self.factors(alpha) * inside)
        outside = self.outside(Y, inside)
        return A if outside is None else A + outside / alpha

    def unrotated(self, Z: Array) -> Array:
        """P Z Q'."""
        on = backend_of(Z)
        return on.matmul(on.matmul(self.rows.basis, Z), on.contiguous(self.columns.basis.T))

    def outside(self, Y: Array, inside: Array) -> Array | None:
        """The part of a table that is outside of the bases; None if there is none."""
        if self.rows.is_complete and self.columns.is_complete:
            return None
        return self.columns.centre(self.rows.centre(Y).T).T - self.unrotated(inside)

    def hold_out_cells(self, Y: Array, alpha: float) -> Array:
        """Scores of each cell by the fit to all other cells.

        With D, the diagonal of S^-1, the fit without cell c has the coefficients
        A - (A_c / D_c) S^-1[:, c].
        """
        on, (P, Q) = backend_of(Y), (self.rows.basis, self.columns.basis)
        R, T, W = self.rows.scores, self.columns.scores, self.factors(alpha)
        D = on.matmul(on.matmul(P**2, W), on.contiguous((Q**2).T))
        if not (self.rows.is_complete and self.columns.is_complete):
            inside, outside = (P**2).sum(axis=1), self.rows.outside_diagonal
            beside = self.columns.outside_diagonal
            D += outside[:, None] * (Q**2).sum(axis=1)[None] / alpha
            D += (inside + outside)[:, None] * beside[None] / alpha
        change = on.matmul(on.matmul(P * R, W), on.contiguous((Q * T).T))
        fitted = on.matmul(on.matmul(R, W * self.rotated(Y)), on.contiguous(T.T))
        return on.array(fitted - self.coefficients(Y, alpha) / D * change)

    def hold_out_rows(
        self,
        Y: Array,
        alphas: Sequence[float],
        folds: Sequence[Index] | None = None,
        at: Array | None = None,
    ) -> Array:
        """Scores of each row by the fit to the other rows, or to the rows of other folds.

        In the basis Q, S^-1 has a block P diag(W_l) P' for each column l of it. Without the rows U,
        the coefficients (A Q)_l change by -P diag(W_l) P_U' e_l, where
        P_U diag(W_l) P_U' e_l = (A Q)_Ul. Unless the rows are centred, e_l are the errors of the
        held-out scores, and no further product is needed.

        Parameters
        ----------
        Y : array of shape (n_rows, n_columns)
        alphas : sequence of float
        folds : sequence of arrays of row numbers, optional
            None: each row by itself.
        at : array of shape (n_new, r), optional
            G Q of the columns to be scored. None: the columns of the table.

        Returns
        -------
        array of shape (n_alphas, n_rows, n_new)
        """
        on, P, R = backend_of(Y), self.rows.basis, self.rows.scores
        T = self.columns.scores if at is None else at
        T = on.contiguous((T if self.rows.centred else T / self.columns.values).T)
        targets = on.matmul(Y, self.columns.basis)  # Y Q
        rotated, squares = on.matmul(on.contiguous(P.T), targets), P**2
        outside = None if self.rows.is_complete else self.rows.outside(targets)
        out = on.empty(len(alphas), len(Y), T.shape[1])
        for k, alpha in enumerate(alphas):
            W = self.factors(alpha)
            Z = W * rotated
            a = on.matmul(P, Z)  # A Q
            if outside is not None:
                a += outside / alpha
            if folds is None:
                D = on.matmul(squares, W)
                if outside is not None:
                    D += self.rows.outside_diagonal[:, None] / alpha
                e = a / D
            else:
                e = on.empty(*a.shape)
                for fold in folds:
                    e[fold] = self._solve_fold(a[fold], fold, W, alpha)
            if not self.rows.centred:  # the error of a held-out row is e
                out[k] = on.matmul(targets - e, T)
                continue
            if folds is None:
                change = e * on.matmul(P * R, W)
            else:
                change = on.empty(*a.shape)
                for fold in folds:
                    change[fold] = on.matmul(R[fold], W * (P[fold].T @ e[fold]))
            out[k] = on.matmul(on.matmul(R, Z) - change, T)
        return out

    def _solve_fold(self, a: Array, fold: Index, W: Array, alpha: float) -> Array:
        """e with (P_U diag(W_l) P_U') e_l = a_l, for each column l of the basis Q."""
        on, P = backend_of(a), self.rows.basis[fold]
        e = on.empty(*a.shape)
        outside = 0.0 if self.rows.is_complete else self.rows.outside_block(fold) / alpha
        step = max(1, on.block_bytes(BLOCK_BYTES) // (8 * len(fold) * (P.shape[1] + len(fold))))
        for start in range(0, a.shape[1], step):
            part = slice(start, min(start + step, a.shape[1]))
            blocks = (P[None] * W.T[part, None, :]) @ P.T + outside
            e[:, part] = on.solve(blocks, a.T[part, :, None])[:, :, 0].T
        return e


@dataclass(frozen=True, eq=False)
class CellProducts:
    """v -> (K o G) v on given cells.

    Attributes
    ----------
    K : ndarray of shape (n_rows, n_rows)
    G : ndarray of shape (n_columns, n_columns)
    rows, columns : ndarray of shape (n_cells,)
        The row and the column of each cell.
    by_row, row_ptr : ndarray
        Cells in the order of their rows, and where each row begins.
    by_column, column_ptr : ndarray
        Cells in the order of their columns, and where each column begins.
    """

    K: Array
    G: Array
    rows: Index
    columns: Index
    by_row: Index
    row_ptr: Index
    by_column: Index
    column_ptr: Index

    @classmethod
    def of(cls, K: Array, G: Array, rows: Index, columns: Index) -> CellProducts:
        """Sort the cells by their rows, and by their columns."""
        by_row, by_column = (np.argsort(codes, kind="stable") for codes in (rows, columns))
        row_ptr, column_ptr = (
            np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=n))))
            for codes, n in ((rows, len(K)), (columns, len(G)))
        )
        return cls(K, G, rows, columns, by_row, row_ptr, by_column, column_ptr)

    def __call__(self, V: Array) -> Array:
        """The products with columns of V, of shape (n_cells, n_vectors)."""
        return np.column_stack([self._product(v) for v in V.T])

    def _product(self, v: Array) -> Array:
        n, m = len(self.K), len(self.G)
        table, out = np.empty((m, n)), np.empty(len(v))
        sorted_columns, values = self.columns[self.by_row], v[self.by_row]
        sorted_rows = self.rows[self.by_column]
        n_threads = threads_for(len(v) * (n + m))

        def sum_columns(part: tuple[int, int]) -> None:
            _sums_by_row(self.G, sorted_columns, values, self.row_ptr, *part, table)

        def multiply(part: tuple[int, int]) -> None:
            _products_at_cells(
                self.K, table, sorted_rows, self.by_column, self.column_ptr, *part, out
            )

        parts = _parts(m, n_threads)
        map_in_threads(sum_columns, parts, n_threads)
        map_in_threads(multiply, parts, n_threads)
        return out


def _parts(n: int, n_parts: int) -> list[tuple[int, int]]:
    """About equal parts of range(n), each but the last a multiple of LANES."""
    step = max(LANES, -(-n // n_parts // LANES) * LANES)
    return [(start, min(start + step, n)) for start in range(0, n, step)]


@compiled
def _sums_by_row(
    G: Array, columns: Index, values: Array, ptr: Index, begin: int, end: int, table: Array
) -> None:
    """table[j, i] = sum of v_c G[j, column of c] over the cells c of row i."""
    total = np.empty(LANES)
    for start in range(begin, end, LANES):
        stop = min(start + LANES, end)
        for i in range(len(ptr) - 1):
            total[:] = 0.0
            for c in range(ptr[i], ptr[i + 1]):
                line = G[columns[c]]  # G is symmetric
                value = values[c]
                for k in range(stop - start):
                    total[k] += value * line[start + k]
            for k in range(stop - start):
                table[start + k, i] = total[k]


@compiled
def _products_at_cells(
    K: Array, table: Array, rows: Index, cells: Index, ptr: Index, begin: int, end: int, out: Array
) -> None:
    """out[c] = sum of K[row of c, i] table[j, i] over i, for the cells c of column j."""
    for j in range(begin, end):
        line = table[j]
        for k in range(ptr[j], ptr[j + 1]):
            out[cells[k]] = np.dot(K[rows[k]], line)


def solve_cells(
    products: CellProducts,
    graph: PreferenceGraph,
    y: Array,
    alphas: Sequence[float],
    *,
    tol: float,
    max_iter: int,
) -> tuple[list[Array], ShiftedSolutions]:
    """The coefficients of the cells for each alpha, and how the steps ended."""

    def apply(U: Array) -> Array:
        return np.asarray(graph.root(products(graph.root_transpose(U))))

    target = graph.root_target(y[:, None])
    found = shifted_cg(apply, target, alphas, tol=tol, max_iter=max_iter)
    return [np.asarray(graph.root_transpose(u))[:, 0] for u in found.solutions], found


def competing(rows: Index, columns: Index, compare: str) -> Any:
    """The query ids of cells: their rows, their columns, or none."""
    return {"columns": rows, "rows": columns, "all": None}[compare]
