"""Values of alpha that follow the scale of the data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankwise.backends.arrays import Array, as_given, backend_of, is_sparse, to_host
from rankwise.errors import DataError
from rankwise.problem import Coordinates, Problem, System, Task
from rankwise.solvers.ridge_path import CentredMoments, Moments
from rankwise.solvers.shifted_cg import pair_squares

HIGHEST, LOWEST = 1e2, 1e-6  # relative to the mean square of a coordinate
STEP, KERNEL_STEP = 10.0**0.75, 10.0  # with a kernel matrix, each alpha costs a factorization
UNEVEN = 0.1  # share of the mean below which the median decides where the grid starts
LEAST = 1e-12  # relative to the sum of squares: smaller alphas are lost in rounding errors
RULE = 0.1  # relative to the mean square, where nothing can be held out
BLOCK_ROWS = 4096


def alpha_grid(squares: Array, n_rows: int, step: float = STEP) -> Array:
    """Ascending alphas from the diagonal of A = F'LF, or of the kernel matrix R K R'.

    The grid has a constant ratio and ends at 100 times the mean of the diagonal. It starts at 1e-6
    times the mean or at the first value below (10^-6.25 for the usual step). If the median is below
    a tenth of the mean, because some features have much larger values than others, the median
    takes the place of the mean there. Multiplying the features by c multiplies the grid by c^2.
    """
    mean = mean_square(squares, n_rows)
    if mean == 0.0:
        return np.array([1.0])
    if not np.isfinite(HIGHEST * mean):
        raise DataError(
            "Products of feature or kernel values overflow. Scale the features or the weights, for "
            "example with sklearn.preprocessing.StandardScaler."
        )
    typical = float(np.median(squares[squares > 0]))
    typical = typical if typical < UNEVEN * mean else mean
    low = max(LOWEST * typical, LEAST * float(squares.sum()))
    if low < np.finfo(np.float64).tiny:
        raise DataError(
            "Products of feature or kernel values underflow: multiply the features by a constant."
        )
    number = 1 + int(np.ceil(np.log(HIGHEST * mean / low) / np.log(step) - 1e-9))
    return HIGHEST * mean * step ** -np.arange(number, dtype=np.float64)[::-1]


def alpha_by_rule(squares: Array, n_rows: int) -> float:
    """0.1 times the mean of the diagonal; 1 if the features are constant or overflow."""
    alpha = RULE * mean_square(squares, n_rows)
    return alpha if 0.0 < alpha < np.inf else 1.0


def mean_square(squares: Array, n_rows: int) -> float:
    """The sum of the diagonal, divided by the number of coordinates or of rows, if fewer."""
    return float(squares.sum()) / min(len(squares), n_rows)


def data_alphas(problem: Problem) -> Array:
    """The grid for a problem, with larger steps for a kernel matrix."""
    dual = problem.space.form(problem.X) == "dual"
    return alpha_grid(data_squares(problem), problem.n_rows, KERNEL_STEP if dual else STEP)


def data_squares(problem: Problem) -> Array:
    """The diagonal of A or of R K R', averaged over tasks, in the coordinates of a problem."""
    system = problem.space.system(problem.X, problem.qid)
    if system is not None and not problem.space.linear:  # without the coordinates of all rows
        return moment_squares(system, problem.moments(system))
    if problem.space.form(problem.X) == "cg":
        if is_sparse(as_given(problem.X)):
            found = [pair_squares(problem.X, task.graph) for task in problem.tasks]
            return np.asarray(np.mean(found, axis=0))
        return coordinate_squares(problem.tasks, Coordinates(features=problem.X))
    return coordinate_squares(problem.tasks, problem.coordinates(), overwrite=True)


def coordinate_squares(
    tasks: Sequence[Task], rows: Coordinates, *, overwrite: bool = False
) -> Array:
    """`data_squares` from coordinates; a kernel matrix may be overwritten."""
    keep = len(tasks) > 1 or not overwrite
    return np.asarray(np.mean([_squares(task, rows, keep=keep) for task in tasks], axis=0))


def moment_squares(system: System, moments: Sequence[Moments | CentredMoments]) -> Array:
    """`data_squares` from the moments of each task."""
    diagonals = [system.coordinate_moments(one).A.diagonal() for one in moments]
    return np.asarray(np.mean([to_host(diagonal) for diagonal in diagonals], axis=0))


def _squares(task: Task, rows: Coordinates, *, keep: bool) -> Array:
    if rows.kernel is not None:
        K = backend_of(rows.kernel).copy(rows.kernel) if keep else rows.kernel
        M = task.graph.root_kernel(K)
        return np.asarray(to_host(M.diagonal())).copy()
    F, on = rows.features, backend_of(rows.features)
    total = on.zeros(F.shape[1])
    for Z, _ in task.graph.root_blocks(lambda part: on.rows(F, part), task.y, BLOCK_ROWS):
        total = total + (Z**2).sum(axis=0)
    return np.asarray(to_host(total))
