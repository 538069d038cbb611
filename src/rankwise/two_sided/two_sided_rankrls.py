"""TwoSidedRankRLS: rank the cells of a table, with a kernel on each side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array, Index, backend_of, is_sparse, is_tensor, to_host
from rankwise.errors import DataError, ParameterError, warn
from rankwise.estimators.base import in_dtype
from rankwise.estimators.ranker_rows import forget
from rankwise.holdout.engine import hold_out
from rankwise.holdout.table_hold_out import WITHIN, TableHoldOut
from rankwise.metrics import get_metric
from rankwise.parameters import (
    AnyOf,
    Choice,
    Flag,
    Number,
    Rule,
    Whole,
    as_generator,
    check_alphas,
    check_parameters,
    check_value,
)
from rankwise.tables import plural
from rankwise.two_sided.sides import TrainingSide, object_names, training_side
from rankwise.two_sided.table_problem import TableProblem
from rankwise.two_sided.table_system import competing

ALMOST = 10.0  # times the tolerance, for refits that only choose alpha
STEPS = 4  # of the weight of a kernel from 0 to 1, if weights are chosen


@dataclass(eq=False, repr=False)
class TwoSidedRankRLS(BaseEstimator):
    """Pairwise regularized least squares on the cells of a table.

    Rows and columns both have features or a kernel: drugs and proteins, queries and documents,
    instances and labels. The score of a cell is a sum of products of the two kernels,
    f(r, c) = sum_ij A_ij k(r, r_i) g(c, c_j). The fit minimizes

        1/2 sum W (differences of given scores - differences of f)^2 + alpha |f|^2

    over the pairs of cells that compete, weighted by one over the number of cells that compete with
    each other.

    A complete table of n rows and m columns takes two eigendecompositions, O(n^3 + m^3), for all
    alphas together. If cells are missing, tied pairs are excluded, or there are weights, conjugate
    gradients take O(n_cells (n + m)) time for each step. The matrix of all cells by all cells is
    never formed. Complete tables may be torch tensors, and are then fitted on their device.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Regularization strength, above 0. "auto" chooses it by hold-outs, see `for_new`. If cells
        are missing, small alphas that would need many steps are not among those tried.
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
    coef_ : ndarray of shape (n_row_coefficients, n_column_coefficients)
        Weights of pairs of features, for linear kernels; of pairs of training objects or landmarks
        otherwise.
    n_rows_, n_columns_, n_cells_ : int
        The size of the table, and the number of given cells.
    solver_ : {"table", "cg"}
    n_iter_ : int
        The number of steps of conjugate gradients.
    known_ : ndarray of shape (n_row_coefficients, n_columns)
        `coef_` times the training columns.
    sides_ : list of TableSide
        How new rows and new columns are compared with the training ones.

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

    #: What `predict` takes; rows, unless a ranker declares it.
    scored: ClassVar[str] = "rows and columns of a table"
    exact_search: ClassVar[bool] = True

    parameters: ClassVar[Mapping[str, Rule]] = {
        "alpha": AnyOf(Number(0, open_low=True), Choice("auto")),
        "compare": Choice("columns", "rows", "all"),
        "for_new": Choice("rows", "columns", "both", "cells"),
        "ties": Choice("include", "exclude"),
        "scale": Flag(),
        "tol": Number(0, 1, open_low=True, open_high=True),
        "max_iter": Whole(1, 2**31 - 1),
    }

    alpha: Any = "auto"
    _: KW_ONLY
    row_kernel: Any = "linear"
    column_kernel: Any = "linear"
    gamma: Any = None
    row_weights: Any = None
    column_weights: Any = None
    compare: str = "columns"
    for_new: str = "rows"
    ties: str = "include"
    scale: bool = True
    n_landmarks: Any = None
    tol: float = 1e-6
    max_iter: int = 1000
    random_state: Any = 0

    def fit(self, R: Any, C: Any, Y: Any, *, cells: Any = None, query_weight: Any = None) -> Self:
        """Fit to a table, or to some of its cells.

        Parameters
        ----------
        R : array-like or sparse of shape (n_rows, n_row_features), or list of such
            Features of the rows, or their kernel matrix with ``row_kernel="precomputed"``.
        C : array-like or sparse of shape (n_columns, n_column_features), or list of such
            The same for the columns.
        Y : array-like of shape (n_rows, n_columns), or of shape (n_cells,)
            Scores, higher is better. NaN in a table is a missing cell. With `cells`, the scores of
            the cells. A data frame is put in the order of the names of `R` and `C`, if these are
            data frames with names as their index.
        cells : array-like of shape (n_cells, 2), optional
            The row and the column number of each given cell, each cell once.
        query_weight : array-like, optional
            The weight of each row if columns compete, and of each column if rows compete;
            above 0. A row of weight 2 counts like two copies, also where features are
            standardized.

        Returns
        -------
        self
        """
        problem = self._problem(R, C, Y, cells, query_weight)
        alpha = self.alpha
        if alpha == "auto" or "auto" in self._named_weights():
            problem, alpha = self._choose(problem)
        return self._solved(problem, float(alpha))

    def path(self, R: Any, C: Any, Y: Any, alphas: Any, *, cells: Any = None) -> TablePath:
        """Rankers with several alphas, from the same eigendecompositions; `self` is not fitted.

        Parameters
        ----------
        R, C, Y, cells
            As for `fit`. Weights of kernels are not chosen.
        alphas : array-like

        Returns
        -------
        TablePath
            With `predict(R, C)` for all alphas, and `estimator(i)`.
        """
        if "auto" in self._named_weights():
            raise ParameterError(
                'Weights "auto" are chosen with alpha, in fit: pass numbers to path.'
            )
        ranker = clone(self)
        problem = ranker._problem(R, C, Y, cells)  # noqa: SLF001
        return TablePath(ranker, replace(problem, alphas=check_alphas(alphas)))

    def _named_weights(self) -> list[str]:
        """The values of the weights of kernels that are names."""
        return [v for v in (self.row_weights, self.column_weights) if isinstance(v, str)]

    def _problem(
        self, R: Any, C: Any, Y: Any, cells: Any, query_weight: Any = None
    ) -> TableProblem:
        """The checked sides, and the table with NaN for missing cells."""
        forget(self)
        check_parameters(self, self.parameters)
        rng = as_generator(self.random_state)
        gammas = _pair("gamma", self.gamma, Number(0, open_low=True))
        landmarks = _pair("n_landmarks", self.n_landmarks, Whole(1))
        weight = None if query_weight is None else self._checked_weight(query_weight)
        within = WITHIN[self.compare]
        rows, columns = (
            training_side(
                X, name, kernel=getattr(self, f"{name}_kernel"), gamma=gammas[k],
                scale=bool(self.scale), weights=getattr(self, f"{name}_weights"),
                n_landmarks=landmarks[k], rng=rng,
                object_weights=weight if within == f"{name}s" else None,
            )
            for k, (name, X) in enumerate((("row", R), ("column", C)))
        )  # fmt: skip
        with np.errstate(over="ignore", invalid="ignore"):
            size = rows.mean_square * columns.mean_square
        if not size < np.inf:
            raise DataError("The kernel values are too large: scale the features, or the kernels.")
        table = check_table(Y, cells, rows, columns)
        self._check_competition(table, rows.side.names, columns.side.names)
        if is_tensor(rows.matrices[0]):
            table = backend_of(rows.matrices[0]).array(table)
        return TableProblem(
            rows, columns, table, self.compare, self.ties, weight, self.tol, self.max_iter
        )

    def _check_competition(
        self, table: Array, rows: list[Any] | None, columns: list[Any] | None
    ) -> None:
        """Raise an error if there is nothing to rank, or nothing to learn about a row or column."""
        given = np.isfinite(table)
        for name, axis, names in (("row", 1, rows), ("column", 0, columns)):
            empty = np.flatnonzero(~given.any(axis=axis))
            if len(empty):
                first = empty[0] if names is None else repr(names[empty[0]])
                raise DataError(
                    f"{name.capitalize()} {first} has no cells ({len(empty)} of "
                    f"{table.shape[1 - axis]} {name}s): leave such {name}s out of the fit, and "
                    "score them with predict."
                )
        largest = max(float(np.nanmax(table)), -float(np.nanmin(table)))
        if largest * table.size == np.inf:
            raise DataError(f"Y has scores of size {largest:g}, whose sums overflow: divide them.")
        along = {"columns": 1, "rows": 0, "all": None}[self.compare]
        if not (np.nanmax(table, axis=along) > np.nanmin(table, axis=along)).any():
            cells = {"columns": "cells of a row", "rows": "cells of a column", "all": "cells"}
            raise DataError(
                f"No two {cells[self.compare]} have different scores: there is nothing to rank in "
                f"this table of {plural(table.shape[0], 'row')} and "
                f"{plural(table.shape[1], 'column')} with compare={self.compare!r}."
            )

    def _checked_weight(self, query_weight: Any) -> Array:
        if self.compare == "all":
            raise ParameterError("query_weight needs queries: use compare='columns' or 'rows'.")
        return _numbers(query_weight, "query_weight")

    def _choose(self, problem: TableProblem) -> tuple[TableProblem, float]:
        """The weights of kernels and the alpha with the best held-out scores."""
        best: Any = None
        for first in _simplex(self.row_weights, problem.rows):
            for second in _simplex(self.column_weights, problem.columns):
                rows, columns = problem.rows.weighted(first), problem.columns.weighted(second)
                tried = replace(problem, rows=rows, columns=columns)
                auto = self.alpha == "auto"
                alphas = tried.default_alphas() if auto else np.array([float(self.alpha)])
                tried = replace(tried, alphas=alphas)
                plan = tried.plan(self.for_new, None, as_generator(self.random_state))
                loosely = tried.loosely()
                curve = hold_out(loosely, plan).solved(ALMOST * loosely.tol).score()
                value = curve.score[curve.best_index] * (1 if curve.greater_is_better else -1)
                if best is None or value > best[0]:
                    best = value, tried, curve
        _, found, curve = best
        self.alpha_curve_ = curve
        return found, curve.best_alpha

    def hold_out(
        self,
        R: Any,
        C: Any,
        Y: Any,
        *,
        cells: Any = None,
        leave: str | None = None,
        alphas: Any = None,
        n_folds: int | None = None,
    ) -> TableHoldOut:
        """Scores of the cells by fits without them, for each alpha; this ranker is not fitted.

        For a complete table with ties, formulas give what refits would give: all rows (or all
        cells) of n are held out in about the time of a few fits. Otherwise the ranker is refitted.

        Parameters
        ----------
        R, C, Y, cells
            As for `fit`.
        leave : {"rows", "columns", "both", "cells"}, optional
            What is held out: a row, a column, the row and the column of a cell, or a cell. None:
            `for_new`.
        alphas : array-like, optional
            None: `alpha`, or the grid of ``alpha="auto"``, without alphas for which conjugate
            gradients do not converge.
        n_folds : int, optional
            The number of folds. None: each row (column, cell) by itself if its cells compete with
            each other and there is a formula; otherwise 10 folds, or 5 for refits.

        Returns
        -------
        TableHoldOut
        """
        if "auto" in self._named_weights():
            raise ParameterError(
                'Weights "auto" would be chosen on the cells that are held out: pass numbers.'
            )
        leave = self.for_new if leave is None else leave
        check_value("leave", leave, self.parameters["for_new"])
        check_value("n_folds", n_folds, AnyOf(Whole(2), None))
        ranker = clone(self)
        problem = ranker._problem(R, C, Y, cells)  # noqa: SLF001
        own_grid = alphas is None and self.alpha == "auto"
        if alphas is None:
            alphas = problem.default_alphas() if own_grid else [self.alpha]
        problem = replace(problem, alphas=check_alphas(alphas))
        plan = problem.plan(leave, n_folds, as_generator(self.random_state))
        found: TableHoldOut = hold_out(problem, plan)
        if own_grid:
            return found.solved(self.tol)
        wrong = found.residuals > self.tol
        if wrong.any():
            warn(
                f"Refits for {plural(int(wrong.sum()), 'alpha')} of {len(wrong)}, up to "
                f"{found.alphas[wrong].max():g}, have not converged after {self.max_iter} steps "
                f"of conjugate gradients: the relative residual is up to "
                f"{found.residuals.max():.1g}. Use larger alphas or max_iter.",
                ConvergenceWarning,
            )
        return found

    def _solved(self, problem: TableProblem, alpha: float) -> Self:
        """Solve a problem, and keep the result."""
        A, ended = problem.solve(alpha)
        self.solver_ = "table" if ended is None else "cg"
        if ended is not None:
            self.n_iter_ = ended.n_iter
            if ended.residuals[0] > self.tol:
                warn(
                    f"Conjugate gradients have not converged after {ended.n_iter} steps "
                    f"(at most {self.max_iter}): the relative residual is "
                    f"{ended.residuals[0]:.1g}. Use a larger alpha or max_iter.",
                    ConvergenceWarning,
                )
        rows, columns = problem.rows, problem.columns
        self.alpha_ = alpha
        self.coef_ = columns.coefficients(rows.coefficients(A).T).T
        self.known_ = self.coef_ @ columns.training_values.T
        self.sides_ = [rows.side, columns.side]
        self.n_rows_, self.n_columns_ = problem.Y.shape
        self.n_cells_ = len(problem.cells[0])
        return self

    @property
    def row_weights_(self) -> Array:
        """The weights of the kernels of the rows."""
        return self.sides_[0].weights

    @property
    def column_weights_(self) -> Array:
        """The weights of the kernels of the columns."""
        return self.sides_[1].weights

    @property
    def row_names_(self) -> list[Any] | None:
        """The names of the training rows, if these were a data frame with names."""
        return self.sides_[0].names

    @property
    def column_names_(self) -> list[Any] | None:
        """The names of the training columns."""
        return self.sides_[1].names

    def predict(self, R: Any, C: Any = None) -> Array:
        """Scores of all cells of a table of rows and columns, known or new.

        Parameters
        ----------
        R : array-like or sparse of shape (n_rows, n_row_features), or list of such
            As in `fit`. With a precomputed kernel, kernel values with all training rows.
        C : array-like or sparse of shape (n_columns, n_column_features), or list of such, optional
            None: the columns of the fit.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
        """
        check_is_fitted(self)
        rows, columns = self.sides_
        values = rows.values(R)
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            of_columns = self.known_ if C is None else self.coef_ @ columns.values(C).T
            scores = values @ of_columns
        return in_dtype(scores, scores.dtype)

    def rank(self, row: Any, C: Any = None, *, k: int = 10) -> tuple[Index, Array]:
        """Return the k best columns for a row, best first.

        Parameters
        ----------
        row : array-like of shape (n_row_features,) or (1, n_row_features), or list of such
            As one row of `R` in `predict`.
        C : array-like of shape (n_columns, n_column_features), optional
            None: the columns of the fit.
        k : int, default=10
            At most; there may be fewer columns.

        Returns
        -------
        columns : ndarray of shape (k,)
            Their numbers.
        scores : ndarray of shape (k,)
        """
        check_is_fitted(self)
        check_value("k", k, Whole(1))
        several = len(self.sides_[0].views) > 1
        one = [_one_row(part) for part in row] if several else _one_row(row)
        scores, *more = to_host(self.predict(one, C))
        if more:
            raise DataError(f"rank takes one row: got {len(more) + 1}. Use predict for several.")
        best = np.argsort(-scores, kind="stable")[:k]
        return best, scores[best]

    def score(self, R: Any, C: Any, Y: Any, *, metric: str = "concordance") -> float:
        """The agreement of scores with a table, averaged over rows (or what competes).

        Parameters
        ----------
        R, C
            As for `predict`.
        Y : array-like of shape (n_rows, n_columns)
            NaN for missing cells. A data frame is put in order as in `fit`.
        metric : str, default="concordance"
            The name of a metric, such as "ndcg@10".

        Returns
        -------
        float
        """
        function, _ = get_metric(metric)
        scores = to_host(self.predict(R, C))
        parts = [
            X if len(side.views) > 1 else [X] for X, side in zip((R, C), self.sides_, strict=True)
        ]
        columns = self.column_names_ if C is None else object_names(parts[1])
        table = _numbers(_in_order(Y, object_names(parts[0]), columns), "Y")
        if table.shape != scores.shape:
            raise DataError(f"Y must have shape {scores.shape}: got {table.shape}.")
        given = np.isfinite(table)
        i, j = np.nonzero(given)
        qid = competing(i, j, self.compare)
        return float(function(table[given], scores[given], qid))


@dataclass(frozen=True, eq=False)
class TablePath:
    """Rankers that differ in alpha; made by `TwoSidedRankRLS.path`.

    Attributes
    ----------
    ranker : TwoSidedRankRLS
        Not fitted.
    problem : TableProblem
    """

    ranker: TwoSidedRankRLS
    problem: TableProblem

    @property
    def alphas(self) -> Array:
        return self.problem.alphas

    def __len__(self) -> int:
        return len(self.alphas)

    def estimator(self, i: int) -> TwoSidedRankRLS:
        """The ranker with alpha number i."""
        ranker = clone(self.ranker).set_params(alpha=float(self.alphas[i]))
        found: TwoSidedRankRLS = ranker._solved(self.problem, ranker.alpha)  # noqa: SLF001
        return found

    def predict(self, R: Any, C: Any = None) -> Array:
        """Scores for each alpha, of shape (n_alphas, n_rows, n_columns); `C` as in the ranker."""
        if self.problem.why_cg is not None:
            return np.stack([self.estimator(i).predict(R, C) for i in range(len(self))])
        problem, out = self.problem, []
        sides, bases = (problem.rows, problem.columns), problem.system
        left = sides[0].side.values(R)
        right = sides[1].training_values if C is None else sides[1].side.values(C)
        P, Q = sides[0].coefficients(bases.rows.basis), sides[1].coefficients(bases.columns.basis)
        for alpha in self.alphas.tolist():
            Z, B = problem.rotated_solution(alpha)
            scores = (left @ P) @ Z @ (right @ Q).T
            if B is not None:
                inner = sides[1].coefficients(sides[0].coefficients(B).T).T
                scores = scores + left @ inner @ right.T
            out.append(to_host(scores))
        return np.stack(out)


def _one_row(row: Any) -> Any:
    """A single row, with its axis."""
    if is_sparse(row) or hasattr(row, "columns"):
        return row
    return row if np.ndim(row) == 2 else np.asarray(row)[None]


def _pair(name: str, value: Any, rule: Rule) -> tuple[Any, Any]:
    """A value for both sides, or one for each, checked by a rule."""
    pair = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(pair) != 2:
        raise ParameterError(f"{name} must be one value, or a pair: got {value!r}.")
    for each in pair:
        check_value(name, each, AnyOf(rule, None))
    return pair[0], pair[1]


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


def check_table(Y: Any, cells: Any, rows: TrainingSide, columns: TrainingSide) -> Array:
    """The table as an array of shape (n_rows, n_columns), with NaN for missing cells."""
    n, m = rows.n, columns.n
    if cells is not None:
        return _table_of_cells(Y, cells, n, m)
    if is_sparse(Y):
        raise DataError(
            "Y is sparse, and zeros in it may be scores or missing cells: pass a table with NaN "
            "for missing cells, or the scores with cells=."
        )
    table = _numbers(_in_order(Y, rows.side.names, columns.side.names), "Y")
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
    where, y = np.asarray(cells), _numbers(values, "Y")
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


def _numbers(values: Any, name: str) -> Array:
    """A copy in float64, with NaN for what a masked array or a data frame does not have."""
    values = to_host(values)
    try:
        if np.iscomplexobj(values):
            raise TypeError("got complex numbers")
        if isinstance(values, np.ma.MaskedArray):
            values = np.where(np.ma.getmaskarray(values), np.nan, values.data)
        elif hasattr(values, "index") and hasattr(values, "to_numpy"):
            values = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name} must have numbers, with NaN for missing cells: {error}."
        ) from error


def _in_order(Y: Any, rows: list[Any] | None, columns: list[Any] | None) -> Any:
    """A data frame with its rows and columns in the order of the names, where both have names."""
    if not hasattr(Y, "columns") or hasattr(Y, "column_names"):  # arrays, and tables of Arrow
        return Y
    for axis, kind, names in (("index", "row", rows), ("columns", "column", columns)):
        found = list(getattr(Y, axis, ()))
        if names is None or not found or found == list(range(len(found))):
            continue
        missing = [name for name in names if name not in set(found)]
        if missing or not len(names) == len(found) == len(set(names)):
            what = f"no {kind} {missing[0]!r}" if missing else "further ones, or one twice"
            raise DataError(
                f"The {kind}s of Y must have the names of the given {kind}s, each once: it has "
                f"{what}."
            )
        Y = Y.loc[names] if axis == "index" else Y[names]
    return Y
