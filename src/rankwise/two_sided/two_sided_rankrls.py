"""TwoSidedRankRLS: rank the cells of a table, with a kernel on each side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.errors import DataError, ParameterError, warn
from rankwise.graph import PreferenceGraph
from rankwise.parameters import (
    AnyOf,
    Choice,
    Number,
    Rule,
    Whole,
    as_generator,
    check_alphas,
    check_parameters,
)
from rankwise.two_sided.cells import CellProducts, competing, solve_cells
from rankwise.two_sided.sides import TableSide, TrainingSide, training_side
from rankwise.two_sided.table_hold_out import (
    TableHoldOut,
    TableProblem,
    fold_codes,
    make_folds,
)

HIGHEST, LOWEST, STEP = 1e2, 1e-6, 10.0**0.5  # alphas, relative to the mean square of a cell
N_FOLDS = 10
STEPS = 4  # of the weight of a kernel from 0 to 1, if weights are chosen


class TwoSidedRankRLS(BaseEstimator):
    """Pairwise regularized least squares on the cells of a table.

    Rows and columns both have features or a kernel: drugs and proteins, queries and documents,
    instances and labels. The score of a cell is a sum of products of the two kernels,
    f(r, c) = sum_ij A_ij k(r, r_i) g(c, c_j). The fit minimizes

        1/2 sum W (differences of given scores - differences of f)^2 + alpha |f|^2

    over the pairs of cells that compete, weighted by one over the number of cells that compete with
    each other.

    A complete table of n rows and m columns takes two eigendecompositions, O(n^3 + m^3), for all
    alphas together. If cells are missing, or tied pairs are excluded, conjugate gradients take
    O(n_cells (n + m)) time for each step. The matrix of all cells by all cells is never formed.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Regularization strength, above 0. "auto" chooses it by hold-outs, see `for_new`.
    row_kernel, column_kernel : str, callable or list of these, default="linear"
        As `kernel` of `RankRLS`. A list has several kernels, whose weighted sum is used: `R` (or
        `C`) is then a list with an array for each.
    gamma : float, pair of float or None, default=None
        For the rbf, laplacian, polynomial and sigmoid kernels; a pair is for rows and columns.
        None: 1 / n_features.
    row_weights, column_weights : array-like, "auto" or None, default=None
        The weights of several kernels on a side. None: all equal. "auto": chosen with alpha, by
        the same hold-outs, in steps of 1/4.
    compare : {"columns", "rows", "all"}, default="columns"
        Which cells compete: the columns of a row (proteins for a drug), the rows of a column, or
        all cells.
    for_new : {"rows", "columns", "both", "cells"}, default="rows"
        What will be new when the model is used, and is held out to choose alpha and weights.
    ties : {"include", "exclude"}, default="include"
        Whether pairs of cells with equal scores count.
    scale : bool, default=True
        Whether to standardize features; sparse ones are only divided. For a linear kernel, a
        feature of ones is then appended, such that a column may be better than another in every
        row. Precomputed kernels are taken as they are.
    n_landmarks : int, pair of int or None, default=None
        Approximate the kernel of each side by this many random landmarks; a pair is for rows and
        columns. None: none.
    tol : float, default=1e-6
        For conjugate gradients: stop when the gradient, relative to the start, is at most tol.
    max_iter : int, default=1000
        For conjugate gradients: the maximum number of steps.
    random_state : int, Generator or None, default=0
        For folds and landmarks.

    Attributes
    ----------
    alpha_ : float
    alpha_curve_ : HeldOutScores
        The held-out scores from which alpha was chosen; only with ``alpha="auto"``.
    row_weights_, column_weights_ : ndarray
        The weights of the kernels of each side.
    coef_ : ndarray of shape (n_row_coefficients, n_column_coefficients)
        Weights of pairs of features, for linear kernels; of pairs of training objects or landmarks
        otherwise.
    solver_ : {"table", "cg"}
    n_iter_ : int
        The number of steps of conjugate gradients.
    row_names_, column_names_ : list or None
    row_side_, column_side_ : TableSide

    See Also
    --------
    SparseBilinearRanker : The same scores q'Wd for many sparse words, with a sparse W.

    References
    ----------
    Pahikkala, Tsivtsivadze, Airola, Järvinen, Boberg: An efficient algorithm for learning to rank
    from preference graphs. Machine Learning 75, 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import TwoSidedRankRLS
    >>> rng = np.random.default_rng(0)
    >>> drugs, proteins = rng.standard_normal((30, 4)), rng.standard_normal((20, 3))
    >>> affinity = drugs[:, :3] @ proteins.T
    >>> ranker = TwoSidedRankRLS().fit(drugs, proteins, affinity)
    >>> ranker.predict(drugs[:2]).shape
    (2, 20)
    """

    parameters: ClassVar[Mapping[str, Rule]] = {
        "alpha": AnyOf(Number(0, open_low=True), Choice("auto")),
        "compare": Choice("columns", "rows", "all"),
        "for_new": Choice("rows", "columns", "both", "cells"),
        "ties": Choice("include", "exclude"),
        "tol": Number(0, 1, open_low=True, open_high=True),
        "max_iter": Whole(1, 2**31 - 1),
    }

    def __init__(
        self,
        alpha: Any = "auto",
        *,
        row_kernel: Any = "linear",
        column_kernel: Any = "linear",
        gamma: Any = None,
        row_weights: Any = None,
        column_weights: Any = None,
        compare: str = "columns",
        for_new: str = "rows",
        ties: str = "include",
        scale: bool = True,
        n_landmarks: Any = None,
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: Any = 0,
    ) -> None:
        self.alpha = alpha
        self.row_kernel = row_kernel
        self.column_kernel = column_kernel
        self.gamma = gamma
        self.row_weights = row_weights
        self.column_weights = column_weights
        self.compare = compare
        self.for_new = for_new
        self.ties = ties
        self.scale = scale
        self.n_landmarks = n_landmarks
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, R: Any, C: Any, Y: Any, *, cells: Any = None) -> Self:
        """Fit to a table, or to some of its cells.

        Parameters
        ----------
        R : array-like or sparse of shape (n_rows, n_row_features), or list of such
            Features of the rows, or their kernel matrix with ``row_kernel="precomputed"``.
        C : array-like or sparse of shape (n_columns, n_column_features), or list of such
            The same for the columns.
        Y : array-like of shape (n_rows, n_columns), or of shape (n_cells,)
            Scores, higher is better. NaN in a table is a missing cell. With `cells`, the scores of
            the cells.
        cells : array-like of shape (n_cells, 2), optional
            The row and the column number of each given cell, each cell once.

        Returns
        -------
        self
        """
        rows, columns, table = self._training(R, C, Y, cells)
        if not np.isfinite(table).all() or self.ties == "exclude":
            return self._fit_cells(rows, columns, table)
        alpha, self.solver_ = self.alpha, "table"
        candidates = list(self._weight_candidates(rows, columns))
        if alpha == "auto" or len(candidates) > 1:
            rows, columns, alpha = self._choose(candidates, table)
        problem = TableProblem(rows, columns, table, self.compare)
        A = problem.coefficients(problem.system(), float(alpha))
        return self._set_fitted(rows, columns, A, float(alpha))

    def _training(
        self, R: Any, C: Any, Y: Any, cells: Any
    ) -> tuple[TrainingSide, TrainingSide, Array]:
        """Checked sides, and the table with NaN for missing cells."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        check_parameters(self, self.parameters)
        rng = as_generator(self.random_state)
        gammas, landmarks = _pair("gamma", self.gamma), _pair("n_landmarks", self.n_landmarks)
        sides = []
        for k, (name, X) in enumerate((("row", R), ("column", C))):
            sides.append(
                training_side(
                    X,
                    name,
                    kernel=getattr(self, f"{name}_kernel"),
                    gamma=gammas[k],
                    scale=bool(self.scale),
                    weights=getattr(self, f"{name}_weights"),
                    n_landmarks=landmarks[k],
                    rng=rng,
                )
            )
        rows, columns = sides
        table = check_table(Y, cells, rows, columns)
        n_levels = len(np.unique(table[np.isfinite(table)]))
        if n_levels < 2:
            raise DataError("All cells have the same score: there is nothing to rank.")
        return rows, columns, table

    def _weight_candidates(self, rows: TrainingSide, columns: TrainingSide) -> Any:
        """Both sides, for each combination of weights to try."""
        for first in _simplex(self.row_weights, rows):
            for second in _simplex(self.column_weights, columns):
                yield rows.with_weights(first), columns.with_weights(second)

    def _choose(
        self, candidates: Sequence[tuple[TrainingSide, TrainingSide]], table: Array
    ) -> tuple[TrainingSide, TrainingSide, float]:
        """The sides and the alpha with the best held-out scores."""
        best: Any = None
        for rows, columns in candidates:
            problem = TableProblem(rows, columns, table, self.compare)
            grid = table_alphas(problem) if self.alpha == "auto" else np.array([float(self.alpha)])
            curve = self._held_out(problem, self.for_new, grid, None).score()
            value = curve.score[curve.best_index] * (1 if curve.greater_is_better else -1)
            if best is None or value > best[0]:
                best = value, rows, columns, curve
        _, rows, columns, curve = best
        if self.alpha == "auto":
            self.alpha_curve_ = curve
        return rows, columns, curve.best_alpha

    def _held_out(
        self, problem: TableProblem, leave: str, alphas: Array, n_folds: int | None
    ) -> TableHoldOut:
        """Closed forms for a complete table."""
        n, m = problem.Y.shape
        rng = as_generator(self.random_state)
        alone = [np.arange(n)], [np.arange(m)]
        within = {"columns": "rows", "rows": "columns", "all": "all"}[self.compare]
        row_folds, column_folds = alone
        if leave in ("rows", "both"):
            default = None if within == "rows" and leave == "rows" else _n_folds(n)
            row_folds = make_folds(n, n_folds or default, rng)
        if leave in ("columns", "both"):
            default = None if within == "columns" and leave == "columns" else _n_folds(m)
            column_folds = make_folds(m, n_folds or default, rng)
        if leave == "rows":
            found = problem.without_rows(alphas, row_folds)
        elif leave == "columns":
            found = problem.without_columns(alphas, column_folds)
        elif leave == "both":
            found = problem.without_both(alphas, row_folds, column_folds)
        else:
            found = problem.without_cells(alphas)
        shared = tuple(self._shared(problem))
        why = "The table is complete: formulas give the predictions of refits."
        return TableHoldOut(
            alphas, found, problem.Y, leave, fold_codes(n, row_folds), fold_codes(m, column_folds),
            self.compare, True, why, shared,
        )  # fmt: skip

    def _shared(self, problem: TableProblem) -> Any:
        """What was computed from all rows and columns."""
        sides = (problem.rows, problem.columns)
        if any(view.deviation is not None for side in sides for view in side.side.views):
            yield "scaling"
        if any(side.factor is not None for side in sides):
            yield "landmarks"

    def hold_out(
        self,
        R: Any,
        C: Any,
        Y: Any,
        *,
        leave: str | None = None,
        alphas: Any = None,
        n_folds: int | None = None,
    ) -> TableHoldOut:
        """Scores of the cells by fits without them, for each alpha; this ranker is not fitted.

        Parameters
        ----------
        R, C, Y
            As for `fit`; the table must be complete.
        leave : {"rows", "columns", "both", "cells"}, optional
            What leaves: a row, a column, the row and the column of a cell, or a cell. None:
            `for_new`.
        alphas : array-like, optional
            None: the grid of ``alpha="auto"``.
        n_folds : int, optional
            Rows or columns that leave together. None: each by itself if its cells compete with each
            other; otherwise 10 folds, as the scores of different fits cannot be compared.

        Returns
        -------
        TableHoldOut
        """
        from sklearn.base import clone

        ranker = clone(self)
        rows, columns, table = ranker._training(R, C, Y, None)  # noqa: SLF001
        if not np.isfinite(table).all() or self.ties == "exclude":
            raise DataError("Hold-outs need a complete table, and ties that are included.")
        leave = self.for_new if leave is None else leave
        problem = TableProblem(rows, columns, table, self.compare)
        grid = table_alphas(problem) if alphas is None else check_alphas(alphas)
        return ranker._held_out(problem, leave, grid, n_folds)  # noqa: SLF001

    def _fit_cells(self, rows: TrainingSide, columns: TrainingSide, table: Array) -> Self:
        """Conjugate gradients on the given cells."""
        i, j = np.nonzero(np.isfinite(table))
        y = table[i, j]
        qid = competing(i, j, self.compare)
        graph = PreferenceGraph.from_scores(y, qid, n_rows=len(y), ties=self.ties, weighting="rows")
        if not graph.n_pairs:
            raise DataError(
                f"No two cells that compete have different scores (compare={self.compare!r}): "
                "there is nothing to rank."
            )
        products = CellProducts.of(rows.kernel, columns.kernel, i, j)
        alpha = self.alpha
        if alpha == "auto":
            alpha = self._choose_by_refits(rows, columns, table)
        (a,), found = solve_cells(
            products, graph, y, [float(alpha)], tol=self.tol, max_iter=self.max_iter
        )
        if found.residuals[0] > self.tol:
            warn(
                f"Conjugate gradients have not converged after {found.n_iter} steps (max_iter): "
                f"the relative residual is {found.residuals[0]:.1g}. Use a larger alpha or "
                "max_iter.",
                ConvergenceWarning,
            )
        A = np.zeros(table.shape)
        A[i, j] = a
        self.solver_, self.n_iter_ = "cg", found.n_iter
        return self._set_fitted(rows, columns, A, float(alpha))

    def _choose_by_refits(self, rows: TrainingSide, columns: TrainingSide, table: Array) -> float:
        """Alpha by folds of what will be new, each fitted without it."""
        n, m = table.shape
        rng = as_generator(self.random_state)
        problem = TableProblem(rows, columns, table, self.compare)
        alphas = table_alphas(problem)
        K, G = rows.kernel, columns.kernel
        row_folds, column_folds = [np.arange(n)], [np.arange(m)]
        if self.for_new in ("rows", "both"):
            row_folds = make_folds(n, min(5, n), rng)
        if self.for_new in ("columns", "both"):
            column_folds = make_folds(m, min(5, m), rng)
        cell_fold = rng.integers(5, size=table.shape)
        out = np.full((len(alphas), n, m), np.nan)
        if self.for_new == "cells":
            parts = [cell_fold == k for k in range(5)]
        else:
            parts = []
            for first, second in product(row_folds, column_folds):
                leaves = np.zeros((n, m), dtype=bool)
                leaves[np.ix_(first, second)] = True
                parts.append(leaves)
        for leaves in parts:
            kept = np.isfinite(table) & ~leaves
            if self.for_new == "both":
                first, second = np.nonzero(leaves.any(axis=1))[0], np.nonzero(leaves.any(axis=0))[0]
                kept[first] = False
                kept[:, second] = False
            i, j = np.nonzero(kept)
            y = table[i, j]
            graph = PreferenceGraph.from_scores(
                y, competing(i, j, self.compare), n_rows=len(y), ties=self.ties, weighting="rows"
            )
            if not len(y) or not graph.n_pairs:
                continue
            found, _ = solve_cells(
                CellProducts.of(K, G, i, j), graph, y, alphas.tolist(),
                tol=max(self.tol, 1e-3), max_iter=min(self.max_iter, 100),
            )  # fmt: skip
            for k, a in enumerate(found):
                A = np.zeros(table.shape)
                A[i, j] = a
                out[k][leaves] = (K @ A @ G)[leaves]
        held = np.where(np.isfinite(out).all(axis=0), table, np.nan)
        result = TableHoldOut(
            alphas, np.nan_to_num(out), held, self.for_new, fold_codes(n, row_folds),
            fold_codes(m, column_folds), self.compare, False, "Some cells are missing: refits.",
        )  # fmt: skip
        self.alpha_curve_ = result.score()
        return self.alpha_curve_.best_alpha

    def _set_fitted(
        self, rows: TrainingSide, columns: TrainingSide, A: Array, alpha: float
    ) -> Self:
        self.alpha_ = alpha
        self.coef_ = columns.coefficients(rows.coefficients(A).T).T
        self.row_side_, self.column_side_ = rows.side, columns.side
        self.row_weights_, self.column_weights_ = rows.side.weights, columns.side.weights
        self.row_names_, self.column_names_ = rows.side.names, columns.side.names
        return self

    def predict(self, R: Any, C: Any) -> Array:
        """Scores of all cells of a table of rows and columns, known or new.

        Parameters
        ----------
        R : array-like or sparse of shape (n_rows, n_row_features), or list of such
            As in `fit`. With a precomputed kernel, kernel values with all training rows.
        C : array-like or sparse of shape (n_columns, n_column_features), or list of such

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
        """
        check_is_fitted(self)
        return np.asarray(self.row_side_.values(R) @ self.coef_ @ self.column_side_.values(C).T)

    def rank(self, row: Any, C: Any, k: int = 10) -> tuple[Index, Array]:
        """The best columns for a row.

        Parameters
        ----------
        row : array-like of shape (n_row_features,)
            As one row of `R` in `predict`.
        C : array-like of shape (n_columns, n_column_features)
        k : int, default=10

        Returns
        -------
        columns : ndarray of int
            The numbers of the columns with the highest scores, the best first.
        scores : ndarray
        """
        several = len(self.row_side_.views) > 1
        one = [np.atleast_2d(part) for part in row] if several else np.atleast_2d(row)
        scores = self.predict(one, C)[0]
        best = np.argsort(-scores, kind="stable")[:k]
        return best, scores[best]


def _pair(name: str, value: Any) -> tuple[Any, Any]:
    """A value for both sides, or one for each."""
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise ParameterError(f"{name} must be one value, or a pair: got {value!r}.")
        return value[0], value[1]
    return value, value


def _simplex(weights: Any, side: TrainingSide) -> list[Any]:
    """Weights to try: all multiples of 1/4 that sum to 1, or the given ones."""
    n = len(side.side.views)
    if not isinstance(weights, str) or n == 1:
        return [side.side.weights]
    return [
        np.array(parts) / STEPS
        for parts in product(range(STEPS + 1), repeat=n)
        if sum(parts) == STEPS
    ]


def table_alphas(problem: TableProblem) -> Array:
    """Alphas around the mean square of a cell."""
    sizes = [float(np.mean(np.diagonal(side.kernel))) for side in (problem.rows, problem.columns)]
    middle = sizes[0] * sizes[1]
    if not 0.0 < middle < np.inf:
        raise DataError("The kernel of the rows or of the columns is 0: check the features.")
    number = 1 + round(np.log(HIGHEST / LOWEST) / np.log(STEP))
    return middle * LOWEST * STEP ** np.arange(number)


def check_table(Y: Any, cells: Any, rows: TrainingSide, columns: TrainingSide) -> Array:
    """The table as an array of shape (n_rows, n_columns), with NaN for missing cells."""
    n, m = rows.n, columns.n
    if cells is not None:
        return _table_of_cells(Y, cells, n, m)
    if hasattr(Y, "index") and hasattr(Y, "columns"):
        Y = _in_order(Y, rows.side, columns.side)
    table = np.asarray(Y.toarray() if is_sparse(Y) else Y, dtype=np.float64)
    if table.shape != (n, m):
        raise DataError(
            f"Y must have a row for each of the {n} rows and a column for each of the {m} columns: "
            f"got shape {table.shape}."
        )
    if np.isinf(table).any():
        i, j = np.argwhere(np.isinf(table))[0]
        raise DataError(
            f"Y must have finite scores, or NaN: row {i}, column {j} has {table[i, j]}."
        )
    return table


def _table_of_cells(values: Any, cells: Any, n: int, m: int) -> Array:
    where, y = np.asarray(cells), np.asarray(values, dtype=np.float64)
    if where.ndim != 2 or where.shape[1] != 2 or where.dtype.kind not in "iu":
        raise DataError(
            "cells must have two columns of whole numbers, the row and the column of each cell: "
            f"got shape {where.shape} of {where.dtype}."
        )
    if y.shape != (len(where),) or not np.isfinite(y).all():
        raise DataError(f"Y needs a finite score for each of the {len(where)} cells.")
    if len(where) and (where.min() < 0 or where[:, 0].max() >= n or where[:, 1].max() >= m):
        raise DataError(f"cells must be within the table of {n} rows and {m} columns.")
    codes = where[:, 0].astype(np.int64) * m + where[:, 1]
    if len(np.unique(codes)) < len(codes):
        raise DataError("cells has a cell twice: take the mean of its scores first.")
    table = np.full((n, m), np.nan)
    table[where[:, 0], where[:, 1]] = y
    return table


def _in_order(Y: Any, rows: TableSide, columns: TableSide) -> Any:
    """A data frame with its rows and columns in the order of the sides, where both have names."""
    for axis, side in (("index", rows), ("columns", columns)):
        if side.names is None:
            continue
        found = list(getattr(Y, axis))
        missing = [name for name in side.names if name not in set(found)]
        if missing or len(found) != len(side.names):
            what = f"no {side.name} {missing[0]!r}" if missing else "further ones"
            raise DataError(
                f"The {side.name}s of Y must have the names of the given {side.name}s: it has "
                f"{what}."
            )
        Y = Y.loc[side.names] if axis == "index" else Y[side.names]
    return Y


def _n_folds(n: int) -> int:
    """Ten folds, or fewer, so that each has at least two of n rows or columns to compare."""
    return max(2, min(N_FOLDS, n // 2))
