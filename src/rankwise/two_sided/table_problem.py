"""The cells of a table, its two sides, and which cells compete: solved, and held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index, backend_of, to_host
from rankwise.errors import DataError
from rankwise.graph import PreferenceGraph, QueryGroups
from rankwise.holdout.table_hold_out import WITHIN, Cells, TableHoldOut
from rankwise.solvers.shifted_cg import ShiftedSolutions
from rankwise.tables import plural
from rankwise.two_sided.sides import TrainingSide
from rankwise.two_sided.table_system import (
    CellProducts,
    TableSystem,
    check_alpha,
    check_semidefinite,
    competing,
    solve_cells,
)

HIGHEST, LOWEST, STEP = 1e2, 1e-6, 10.0**0.5  # alphas, relative to the mean square of a cell
FORMULAS = "The table is complete: a formula turns the fit to all cells into each fit without some."
N_FOLDS, N_REFITS = 10, 5  # folds by formulas, and by refits


@dataclass(frozen=True, eq=False)
class TableProblem:
    """A table, and what the fit minimizes.

    Attributes
    ----------
    rows, columns : TrainingSide
    Y : array of shape (n_rows, n_columns)
        NaN for missing cells.
    alphas : ndarray
    compare, ties : str
        As for `TwoSidedRankRLS`.
    query_weight : ndarray, optional
        The weight of each row (or column, if rows are compared).
    tol, max_iter : float, int
        For conjugate gradients.
    """

    rows: TrainingSide
    columns: TrainingSide
    Y: Array
    compare: str
    ties: str = "include"
    query_weight: Array | None = None
    tol: float = 1e-6
    max_iter: int = 1000
    alphas: Array = field(default_factory=lambda: np.empty(0))

    @cached_property
    def why_cg(self) -> str | None:
        """Why the cells are not solved by eigendecompositions; None if they are."""
        reasons = (
            (not np.isfinite(to_host(self.Y)).all(), "Some cells are missing"),
            (self.ties == "exclude", "Tied pairs are excluded"),
            (self.query_weight is not None, "There are weights"),
        )
        return next((why for holds, why in reasons if holds), None)

    def default_alphas(self) -> Array:
        """Alphas around the mean square of a cell."""
        middle = self.rows.mean_square * self.columns.mean_square
        if not middle > 0.0:
            raise DataError("The kernel of the rows or of the columns is 0: check the features.")
        number = 1 + round(np.log(HIGHEST / LOWEST) / np.log(STEP))
        return middle * LOWEST * STEP ** np.arange(number)

    def plan(self, leave: str, n_folds: int | None, rng: np.random.Generator) -> Cells:
        """What is held out: by default single rows, columns or cells, where this makes sense.

        Scores of different fits are not compared. So columns are held out in folds if the cells of
        a row compete. Refits hold out folds.
        """
        n, m = self.Y.shape
        within, exact = WITHIN[self.compare], self.why_cg is None
        folds = {"row": np.zeros(n, dtype=np.intp), "column": np.zeros(m, dtype=np.intp)}
        for name, size in (("row", n), ("column", m)):
            if leave not in (f"{name}s", "both"):
                continue
            if size < 2:
                raise DataError(
                    f"The table has {plural(n, 'row')} and {plural(m, 'column')}: a fold of "
                    f"{name}s cannot be held out to choose alpha. Set alpha to a number, or use "
                    "another for_new."
                )
            most = N_FOLDS if exact else N_REFITS
            alone = exact and leave == within == f"{name}s"
            number = size if alone else max(2, min(most, size // 2))
            folds[name] = _dealt(size, number if n_folds is None else min(n_folds, size), rng)
        cell_fold = None
        if leave == "cells" and not (exact and n_folds is None):
            cell_fold = _dealt(n * m, n_folds or N_REFITS, rng).reshape(n, m)
        return Cells(leave, folds["row"], folds["column"], cell_fold)

    @property
    def shared(self) -> tuple[str, ...]:
        """What was computed from all rows and columns."""
        sides = (self.rows, self.columns)
        scaled = any(view.deviation is not None for side in sides for view in side.side.views)
        marked = any(side.factor is not None for side in sides)
        return ("scaling",) * scaled + ("landmarks",) * marked

    @cached_property
    def system(self) -> TableSystem:
        """The system of a complete table."""
        return self._system_of(None)

    def _system_of(self, rows: Index | None) -> TableSystem:
        return TableSystem(
            self.rows.basis(rows, centred=self.compare == "rows"),
            self.columns.basis(centred=self.compare == "columns"),
        )

    def solve(self, alpha: float) -> tuple[Array, ShiftedSolutions | None]:
        """A, for scores K A G, and how conjugate gradients ended."""
        if self.why_cg is not None:
            found = self._solve_cells(np.ones(len(self.cells[0]), dtype=bool), [alpha])
            if found is None:
                raise DataError(
                    f"No two cells that compete have different scores (compare={self.compare!r}): "
                    "there is nothing to rank."
                )
            (a,), ended = found
            A = np.zeros(self.Y.shape)
            A[self.cells] = a
            return A, ended
        Z, outside = self.rotated_solution(alpha)
        A = self.system.unrotated(Z)
        return A if outside is None else A + outside, None

    @cached_property
    def _rotated(self) -> list[tuple[Array, Array | None]]:
        """P'YQ and what is outside of the bases; the same of ones, if all cells compete."""
        tables = [self.Y, _ones_like(self.Y)] if self.compare == "all" else [self.Y]
        inside = [self.system.rotated(table) for table in tables]
        return [(Z, self.system.outside(table, Z)) for table, Z in zip(tables, inside, strict=True)]

    def rotated_solution(self, alpha: float) -> tuple[Array, Array | None]:
        """Z and B with A = P Z Q' + B, for a complete table; B is None if it is 0.

        If all cells compete, A is relative to an offset for which the entries of A sum to 0.
        """
        W = self.system.factors(alpha)
        (Z, B), *ones = [(W * Z, None if B is None else B / alpha) for Z, B in self._rotated]
        if ones:
            p, q = self.system.rows.basis.sum(axis=0), self.system.columns.basis.sum(axis=0)
            both = [(Z, B), *ones]
            sums = [float(p @ Z @ q) + (0.0 if B is None else float(B.sum())) for Z, B in both]
            offset, (Z1, B1) = sums[0] / sums[1], ones[0]
            Z, B = Z - offset * Z1, None if B is None or B1 is None else B - offset * B1
        return Z, B

    @cached_property
    def cells(self) -> tuple[Index, Index]:
        """The rows and the columns of the given cells."""
        i, j = np.nonzero(np.isfinite(to_host(self.Y)))
        return i, j

    @cached_property
    def kernels(self) -> tuple[Array, Array]:
        """K and G."""
        return self.rows.kernel, self.columns.kernel

    @cached_property
    def scale(self) -> float:
        """The largest eigenvalue of K o G, roughly; an error unless both are semidefinite."""
        first, second = (check_semidefinite(K) for K in self.kernels)
        return first * second

    def _solve_cells(
        self, kept: Array, alphas: Sequence[float]
    ) -> tuple[list[Array], ShiftedSolutions] | None:
        """Coefficients of some of the given cells for each alpha; None: nothing to rank."""
        i, j = (part[kept] for part in self.cells)
        y = self.Y[i, j]
        qid: Any = competing(i, j, self.compare)
        if self.query_weight is not None:
            qid = QueryGroups.of(qid, len(y)).weighted(self.query_weight[qid])
        if not len(y):
            return None
        graph = PreferenceGraph.from_scores(y, qid, n_rows=len(y), ties=self.ties, weighting="rows")
        if not graph.n_pairs:
            return None
        check_alpha(min(alphas), self.scale)
        products = CellProducts.of(*self.kernels, i, j)
        return solve_cells(products, graph, y, alphas, tol=self.tol, max_iter=self.max_iter)

    def hold_out(self, plan: Cells) -> TableHoldOut:
        """Predict the cells that a plan holds out, by a formula if there is one, or by refits."""
        why, residuals = self.why_cg, np.zeros(len(self.alphas))
        if why is None and plan.cell_fold is not None:
            why = "Cells are held out in folds"
        if why is None:
            words, found = FORMULAS, np.asarray(to_host(self._by_formula(plan)))
        else:
            words = f"{why}: the ranker is refitted without each fold."
            found = self._refits(plan, residuals)
        return TableHoldOut(
            self.alphas, found, to_host(self.Y), plan, self.compare, why is None, words,
            self.shared, residuals,
        )  # fmt: skip

    def _refits(self, plan: Cells, residuals: Array) -> Array:
        """Scores of the cells of each fold by a fit to the others.

        `residuals` gets the largest relative residual for each alpha.
        """
        Y = to_host(self.Y)
        given, products = np.isfinite(Y), CellProducts.of(*self.kernels, *self.cells)
        out = np.full((len(self.alphas), *Y.shape), np.nan)
        for kept, held in plan.splits(Y.shape):
            found = self._solve_cells(kept[given], self.alphas.tolist())
            if found is not None:
                coefficients = np.zeros((len(self.cells[0]), len(self.alphas)))
                coefficients[kept[given]] = np.column_stack(found[0])
                out[:, held & given] = products(coefficients).T[:, held[given]]
                np.maximum(residuals, found[1].residuals, out=residuals)
        return out

    def _by_formula(self, plan: Cells) -> Array:
        """Held-out scores from the fit to all cells, of shape (n_alphas, n_rows, n_columns)."""
        if plan.leave == "cells":
            return self._without_cells()
        by_row, by_column = _parts(plan.row_fold), _parts(plan.column_fold)
        if plan.leave == "rows":
            return self._without(self.system, self.Y, by_row)
        if plan.leave == "columns":
            found = self._without(self.system.transposed, self.Y.T, by_column)
            return found.swapaxes(1, 2)
        out = backend_of(self.Y).empty(len(self.alphas), *self.Y.shape)
        for fold in by_row:  # an eigendecomposition without the rows of each fold
            rest = np.setdiff1d(np.arange(len(self.Y)), fold)
            system = self._system_of(rest).transposed
            new = self.rows.cross(fold, rest) @ system.columns.basis
            found = self._without(system, self.Y[rest].T, by_column, at=new)
            out[:, fold] = found.swapaxes(1, 2)
        return out

    def _without(
        self, system: TableSystem, Y: Array, folds: Sequence[Index], at: Array | None = None
    ) -> Array:
        """Held-out scores of rows of a table, for each alpha.

        If all cells compete, scores have an offset. With the coefficients A = S^-1 Y and s = S^-1 1
        of all cells, the fit without the cells U has the offset (1'A - s_U'x) / (1's - s_U'z): x
        and z are the errors of the held-out scores of the tables Y and 1.
        """
        parts, alphas = None if len(folds) == len(Y) else folds, self.alphas.tolist()
        scores = system.hold_out_rows(Y, alphas, parts, at)
        if self.compare != "all":
            return scores
        ones = _ones_like(Y)
        own = scores if at is None else system.hold_out_rows(Y, alphas, parts)
        own_ones = system.hold_out_rows(ones, alphas, parts)
        at_ones = own_ones if at is None else system.hold_out_rows(ones, alphas, parts, at)
        for k, alpha in enumerate(alphas):
            A, s = system.coefficients(Y, alpha), system.coefficients(ones, alpha)
            top, bottom = (s * (Y - own[k])).sum(axis=1), (s * (1.0 - own_ones[k])).sum(axis=1)
            offset = backend_of(Y).empty(len(Y))
            for fold in folds:
                offset[fold] = (A.sum() - top[fold].sum()) / (s.sum() - bottom[fold].sum())
            scores[k] = scores[k] - offset[:, None] * at_ones[k]
        return scores

    def _without_cells(self) -> Array:
        """Held-out scores of single cells; the offset is as in `_without`."""
        system, Y, out = self.system, self.Y, []
        for alpha in self.alphas.tolist():
            scores = system.hold_out_cells(Y, alpha)
            if self.compare == "all":
                ones = _ones_like(Y)
                own_ones = system.hold_out_cells(ones, alpha)
                A, s = system.coefficients(Y, alpha), system.coefficients(ones, alpha)
                offset = (A.sum() - s * (Y - scores)) / (s.sum() - s * (1.0 - own_ones))
                scores = scores - offset * own_ones
            out.append(scores)
        return backend_of(Y).xp.stack(out)

    def loosely(self) -> TableProblem:
        """The same with fewer steps of conjugate gradients, to choose alpha."""
        tol, steps = max(self.tol, CHOICE_TOL), min(self.max_iter, CHOICE_STEPS)
        return replace(self, tol=tol, max_iter=steps)


CHOICE_TOL, CHOICE_STEPS = 1e-3, 100


def _ones_like(Y: Array) -> Array:
    return backend_of(Y).array(np.ones(tuple(Y.shape)))


def _dealt(n: int, n_folds: int, rng: np.random.Generator) -> Index:
    """The fold of each of n objects: each by itself, or in about equal folds at random."""
    if n_folds >= n:
        return np.arange(n)
    return np.asarray(rng.permutation(np.arange(n) % n_folds))


def _parts(fold: Index) -> list[Index]:
    """The members of each fold."""
    return [np.flatnonzero(fold == k) for k in range(int(fold.max()) + 1)]
