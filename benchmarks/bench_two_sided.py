"""Tables with kernels on both sides, compared with the decompositions and products that they need.

Claims: on a complete table of 2,000 x 2,000 with rbf kernels on both sides, scores for ten alphas
take at most twice as long as two `scipy.linalg.eigh` and four products of matrices of this size.
Held-out scores of all rows for ten alphas take at most four times as long as that fit, as each
alpha needs three products. With 500,000 given cells of 5,000 x 5,000, a step of conjugate gradients
takes at most twice as long as the product of the cells with one kernel by SciPy and the products
with the other at the cells by NumPy, and two tables of memory; cells by cells would need 2 TB.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from benchmarks.harness import Result, best_times, extra_memory, megabytes, seconds
from rankwise import TwoSidedRankRLS
from rankwise.graph import PreferenceGraph
from rankwise.two_sided.table_system import CellProducts, solve_cells

N, NEW, N_FEATURES = 2000, 100, 10
ALPHAS = np.geomspace(1e-3, 1e2, 10)
MANY, N_CELLS, STEPS, BLOCK = 5000, 500_000, 5, 2000


def sides(n: int) -> tuple[Any, Any, Any]:
    """Features of rows and columns, and a table of scores."""
    rng = np.random.default_rng(0)
    R, C = rng.standard_normal((n, N_FEATURES)), rng.standard_normal((n, N_FEATURES))
    return R, C, np.tanh(R[:, :5] @ C[:, :5].T) + 0.1 * rng.standard_normal((n, n))


def complete() -> list[Result]:
    R, C, Y = sides(N)
    ranker = TwoSidedRankRLS(1.0, row_kernel="rbf", column_kernel="rbf")
    K = Y @ Y.T / N + np.eye(N)

    def peer() -> None:
        for _ in range(2):
            eigh(K)
        for _ in range(4):
            K @ Y

    ours, held, theirs = best_times(
        lambda: ranker.path(R, C, Y, ALPHAS).predict(R[:NEW], C[:NEW]),
        lambda: ranker.hold_out(R, C, Y, leave="rows", alphas=ALPHAS),
        peer,
        repeats=2,
    )
    table = f"{N:,} x {N:,} table, rbf on both sides, 10 alphas"
    return [
        Result(
            f"TwoSidedRankRLS, {table}", seconds(ours),
            f"two scipy.linalg.eigh, four products: {seconds(theirs)}", ours / theirs, 2.0,
        ),
        Result(
            f"all rows held out, {table}", seconds(held), f"that fit: {seconds(ours)}",
            held / ours, 4.0,
        ),
    ]  # fmt: skip


def cells(n: int = MANY, n_cells: int = N_CELLS) -> tuple[Any, ...]:
    """Kernels of both sides, and the rows, columns and scores of random cells."""
    rng = np.random.default_rng(0)
    K, G = (
        np.exp(-np.square(X[:, None] - X[None]).sum(axis=2))
        for X in (rng.standard_normal((n, 1)), rng.standard_normal((n, 1)))
    )
    code = np.sort(rng.choice(n * n, n_cells, replace=False))
    rows, columns = np.divmod(code, n)
    return K, G, rows, columns, rng.standard_normal(n_cells)


def take_steps(problem: tuple[Any, ...]) -> None:
    """Some steps of conjugate gradients at one alpha."""
    K, G, rows, columns, y = problem
    graph = PreferenceGraph.from_scores(y, rows, n_rows=len(y), weighting="rows")
    products = CellProducts.of(K, G, rows, columns)
    solve_cells(products, graph, y, [1e-3], tol=1e-15, max_iter=STEPS)


def conjugate_gradients() -> list[Result]:
    K, G, rows, columns, y = problem = cells()
    given = sp.csr_array((y, (rows, columns)), shape=(MANY, MANY))

    def peer() -> None:
        table = (given @ G).T.copy()
        for start in range(0, N_CELLS, BLOCK):
            part = slice(start, start + BLOCK)
            np.einsum("ij,ij->i", K[rows[part]], table[columns[part]])

    take_steps(cells(50, 500))  # compiles
    ours, theirs = best_times(lambda: take_steps(problem), peer, repeats=2)
    ours /= STEPS
    what = f"{N_CELLS:,} cells of {MANY:,} x {MANY:,}"
    memory = extra_memory(cells, take_steps)
    table_bytes = 8 * MANY**2
    return [
        Result(
            f"a step of conjugate gradients, {what}", seconds(ours),
            f"both products by SciPy and NumPy: {seconds(theirs)}", ours / theirs, 2.0,
        ),
        Result(
            f"memory of conjugate gradients, {what}", megabytes(memory),
            f"one table: {megabytes(table_bytes)}", memory / table_bytes, 2.0,
        ),
    ]  # fmt: skip


def cases() -> list[Result]:
    return [*complete(), *conjugate_gradients()]
