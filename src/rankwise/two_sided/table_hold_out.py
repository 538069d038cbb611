"""Hold-outs of a table: what its cells score if they, their row or their column were not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.holdout.held_out_scores import HeldOutScores, score_predictions
from rankwise.two_sided.sides import TrainingSide
from rankwise.two_sided.table_system import TableSystem

WITHIN = {"columns": "rows", "rows": "columns", "all": "all"}


@dataclass(frozen=True, eq=False)
class TableHoldOut:
    """Scores of cells that were held out, for each alpha.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
    predictions : ndarray of shape (n_alphas, n_rows, n_columns)
        The score of each cell by the fit without it, and without what left together with it.
    Y : ndarray of shape (n_rows, n_columns)
        The given scores; NaN where there are none.
    leave : {"rows", "columns", "both", "cells"}
    row_fold, column_fold : ndarray of int
        Which rows and which columns left together.
    compare : {"columns", "rows", "all"}
    exact : bool
        Whether predictions come from formulas that equal refits, or from refits.
    why : str
        The reason.
    shared : tuple of str
        What was computed from all rows and columns, the held-out ones included.
    """

    alphas: Array
    predictions: Array
    Y: Array
    leave: str
    row_fold: Index
    column_fold: Index
    compare: str
    exact: bool
    why: str
    shared: tuple[str, ...] = ()

    def score(self, metric: str = "disagreement", within: str | None = None) -> HeldOutScores:
        """The quality of the held-out scores for each alpha.

        Scores of different fits cannot be compared. If columns leave in folds, cells of a row are
        therefore compared with the cells of the same fold only, and likewise for rows.

        Parameters
        ----------
        metric : str, default="disagreement"
            A metric by name, such as "concordance" or "ndcg@10".
        within : {"rows", "columns", "all"}, optional
            Which cells are compared: cells of the same row, of the same column, or all. None: the
            cells that compete in the fit.

        Returns
        -------
        HeldOutScores
        """
        within = WITHIN[self.compare] if within is None else within
        n, m = self.Y.shape
        unit = {
            "rows": np.arange(n)[:, None] * m + self.column_fold[None],
            "columns": np.arange(m)[None] * n + self.row_fold[:, None],
            "all": self.row_fold[:, None] * m + self.column_fold[None],
        }[within]
        given = np.isfinite(self.Y)
        groups = np.broadcast_to(unit, (n, m))[given]
        labels, scores = self.Y[given][:, None], self.predictions[:, given][:, :, None]
        kept = _with_different_labels(labels[:, 0], groups)
        found = score_predictions(
            self.alphas, labels[kept], np.ascontiguousarray(scores[:, kept]), metric, groups[kept]
        )
        return HeldOutScores(
            found.alphas, found.score, found.standard_error, found.metric,
            found.greater_is_better, shared=self.shared,
        )  # fmt: skip


def _with_different_labels(labels: Array, groups: Index) -> Any:
    """Cells of groups that have something to rank."""
    _, codes = np.unique(groups, return_inverse=True)
    low, high = np.full(codes.max() + 1, np.inf), np.full(codes.max() + 1, -np.inf)
    np.minimum.at(low, codes, labels)
    np.maximum.at(high, codes, labels)
    return (low < high)[codes]


def make_folds(n: int, n_folds: int | None, rng: np.random.Generator) -> list[Index]:
    """Each number by itself, or folds of about equal size."""
    if n_folds is None:
        return [np.array([k]) for k in range(n)]
    return [np.sort(part) for part in np.array_split(rng.permutation(n), n_folds)]


def fold_codes(n: int, folds: Sequence[Index]) -> Index:
    """The fold of each number."""
    codes = np.zeros(n, dtype=np.intp)
    for k, fold in enumerate(folds):
        codes[fold] = k
    return codes


@dataclass(frozen=True, eq=False)
class TableProblem:
    """A complete table, its two sides, and which cells compete."""

    rows: TrainingSide
    columns: TrainingSide
    Y: Array
    compare: str

    def system(self, rows: Index | None = None) -> TableSystem:
        """The system of the table, or of some of its rows."""
        return TableSystem(
            self.rows.basis(rows, centred=self.compare == "rows"),
            self.columns.basis(centred=self.compare == "columns"),
        )

    def coefficients(self, system: TableSystem, alpha: float) -> Array:
        """A, for scores K A G."""
        A = system.coefficients(self.Y, alpha)
        if self.compare != "all":
            return A
        s = system.coefficients(np.ones_like(self.Y), alpha)
        return np.asarray(A - s * (A.sum() / s.sum()))

    def without_rows(
        self, alphas: Array, folds: Sequence[Index], system: TableSystem | None = None
    ) -> Array:
        """Predictions for rows that left, of shape (n_alphas, n_rows, n_columns)."""
        system = self.system() if system is None else system
        return without(system, self.Y, alphas, folds, has_offset=self.compare == "all")

    def without_columns(
        self, alphas: Array, folds: Sequence[Index], system: TableSystem | None = None
    ) -> Array:
        """The same for columns."""
        system = (self.system() if system is None else system).transposed
        found = without(system, self.Y.T, alphas, folds, has_offset=self.compare == "all")
        return found.transpose(0, 2, 1)

    def without_cells(self, alphas: Array) -> Array:
        """The same for single cells."""
        system = self.system()
        if self.compare != "all":
            return np.stack([system.hold_out_cells(self.Y, alpha) for alpha in alphas])
        ones = np.ones_like(self.Y)
        return np.stack(
            [
                _with_offset(
                    system,
                    self.Y,
                    alpha,
                    system.hold_out_cells(self.Y, alpha),
                    system.hold_out_cells(ones, alpha),
                )
                for alpha in alphas
            ]
        )

    def without_both(
        self, alphas: Array, row_folds: Sequence[Index], column_folds: Sequence[Index]
    ) -> Array:
        """Predictions for cells whose row and column left: an eigendecomposition a row fold."""
        n, m = self.Y.shape
        out = np.empty((len(alphas), n, m))
        for fold in row_folds:
            rest = np.setdiff1d(np.arange(n), fold)
            system = self.system(rest).transposed
            new = self.rows.cross(fold, rest) @ system.columns.basis
            found = without(
                system, self.Y[rest].T, alphas, column_folds,
                has_offset=self.compare == "all", at=new,
            )  # fmt: skip
            out[:, fold] = found.transpose(0, 2, 1)
        return out


def without(
    system: TableSystem,
    Y: Array,
    alphas: Array,
    folds: Sequence[Index],
    *,
    has_offset: bool,
    at: Array | None = None,
) -> Array:
    """Predictions for rows that left in folds, for each alpha."""
    parts = None if all(len(fold) == 1 for fold in folds) else folds
    out = []
    for alpha in alphas.tolist():
        scores = system.hold_out_rows(Y, alpha, parts, at)
        if has_offset:
            ones = np.ones_like(Y)
            own = scores if at is None else system.hold_out_rows(Y, alpha, parts)
            own_ones = system.hold_out_rows(ones, alpha, parts)
            ones_scores = own_ones if at is None else system.hold_out_rows(ones, alpha, parts, at)
            offset = _offsets(system, Y, alpha, own, own_ones, folds)
            scores = scores - offset[:, None] * ones_scores
        out.append(scores)
    return np.stack(out)


def _offsets(
    system: TableSystem, Y: Array, alpha: float, own: Array, own_ones: Array, folds: Sequence[Index]
) -> Array:
    """The offset of the fit without each row.

    With the coefficients A = S^-1 Y and s = S^-1 1 of all cells, the fit without the cells U has
    the offset (1'A - s_U'x) / (1's - s_U'z): x and z are the errors of the held-out scores of the
    tables Y and 1.
    """
    A, s = system.coefficients(Y, alpha), system.coefficients(np.ones_like(Y), alpha)
    top, bottom = (s * (Y - own)).sum(axis=1), (s * (1.0 - own_ones)).sum(axis=1)
    offset = np.empty(len(Y))
    for fold in folds:
        offset[fold] = (A.sum() - top[fold].sum()) / (s.sum() - bottom[fold].sum())
    return offset


def _with_offset(system: TableSystem, Y: Array, alpha: float, own: Array, own_ones: Array) -> Array:
    """Held-out scores of single cells, with the offset of the fit without each cell."""
    A, s = system.coefficients(Y, alpha), system.coefficients(np.ones_like(Y), alpha)
    offset = (A.sum() - s * (Y - own)) / (s.sum() - s * (1.0 - own_ones))
    return np.asarray(own - offset * own_ones)
