"""Least squares on some cells of a table, by conjugate gradients.

Cells c = (i, j) have the kernel K_ii' G_jj'. With the graph of the cells that compete, L = R'R,
coefficients a = R'u of the given cells solve

    (R (K o G) R' + alpha I) u = R y.

A product with K o G costs O(n_cells (n_rows + n_columns)) time and one table of memory: the
coefficients of the cells times G, and then K times the result, only where there are cells
(Airola and Pahikkala, Fast Kronecker product kernel methods via generalized vec trick, 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.jit import compiled
from rankwise.backends.threads import map_in_threads, threads_for
from rankwise.graph import PreferenceGraph
from rankwise.solvers.shifted_cg import ShiftedSolutions, shifted_cg

LANES = 8  # columns of G that are summed together: a cache line


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


def _sums_by_row_loop(
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


def _products_at_cells_loop(
    K: Array, table: Array, rows: Index, cells: Index, ptr: Index, begin: int, end: int, out: Array
) -> None:
    """out[c] = sum of K[row of c, i] table[j, i] over i, for the cells c of column j."""
    for j in range(begin, end):
        line = table[j]
        for k in range(ptr[j], ptr[j + 1]):
            out[cells[k]] = np.dot(K[rows[k]], line)


_sums_by_row = compiled(_sums_by_row_loop)
_products_at_cells = compiled(_products_at_cells_loop)


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
