"""Hold-outs of a table: the scores of cells by fits without them, their row or their column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError
from rankwise.holdout.scores import HeldOutScores, score_predictions
from rankwise.parameters import Choice, check_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WITHIN = {"columns": "rows", "rows": "columns", "all": "all"}
"""Where cells are compared, by what competes."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of a table are held out: alone, or with the other cells of rows or columns.

    Attributes
    ----------
    leave : {"cells", "rows", "columns", "both"}
        What is held out. With "both", each cell is predicted without its row and without its
        column.
    row_fold, column_fold : ndarray of int
        The fold of each row and column; 0 if they are not held out.
    cell_fold : ndarray of int of shape (n_rows, n_columns), optional
        The fold of each cell, for "cells". None: each cell by itself.
    """

    leave: str
    row_fold: Index
    column_fold: Index
    cell_fold: Index | None = None

    def splits(self, shape: tuple[int, int]) -> Iterator[tuple[Any, Any]]:
        """Masks of the cells that a fit keeps, and of the cells that it predicts."""
        if self.leave == "cells":
            n_cells = shape[0] * shape[1]
            fold = np.arange(n_cells).reshape(shape) if self.cell_fold is None else self.cell_fold
            for k in range(int(fold.max()) + 1):
                yield fold != k, fold == k
            return
        everywhere = np.ones(shape, dtype=bool)
        for in_rows in _members(self.row_fold):
            for in_columns in _members(self.column_fold):
                held = everywhere & in_rows[:, None] & in_columns
                either = in_rows[:, None] | in_columns
                yield everywhere & ~(either if self.leave == "both" else held), held


def _members(fold: Index) -> Iterator[Any]:
    """A mask for each fold."""
    for k in range(int(fold.max()) + 1):
        yield fold == k


@dataclass(frozen=True, eq=False)
class TableHoldOut:
    """Scores of cells that were held out, for each alpha.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
    predictions : ndarray of shape (n_alphas, n_rows, n_columns)
        The score of each cell by the fit without it, and without what is held out with it. NaN for
        missing cells after refits.
    Y : ndarray of shape (n_rows, n_columns)
        The given scores; NaN for missing cells.
    plan : Cells
        What was held out together.
    compare : {"columns", "rows", "all"}
    exact : bool
        Whether predictions come from the fit to all cells by a formula; otherwise, from refits.
    why : str
        The reason, as a sentence.
    shared : tuple of str
        What was computed from all rows and columns; see `HeldOutScores.shared`.
    residuals : ndarray of shape (n_alphas,)
        The largest relative residual of all refits by conjugate gradients; 0 with a formula.
    """

    alphas: Array
    predictions: Array
    Y: Array
    plan: Cells
    compare: str
    exact: bool
    why: str
    shared: tuple[str, ...] = ()
    residuals: Array = field(default_factory=lambda: np.zeros(0))

    def solved(self, tol: float) -> TableHoldOut:
        """The alphas whose refits have a residual of at most `tol`; all, if there are none."""
        kept = self.residuals <= tol
        kept = kept if kept.any() else ~kept
        return replace(
            self,
            alphas=self.alphas[kept],
            predictions=self.predictions[kept],
            residuals=self.residuals[kept],
        )

    def score(self, metric: str = "disagreement", within: str | None = None) -> HeldOutScores:
        """The quality of the held-out scores for each alpha.

        Scores of different fits are not compared: if columns are held out in folds, the cells of a
        row are compared with cells of the same fold only, and likewise for rows. Single cells are
        an exception, as there would be nothing to compare.

        Parameters
        ----------
        metric : str, default="disagreement"
            The name of a metric, such as "concordance" or "ndcg@10".
        within : {"rows", "columns", "all"}, optional
            Which cells are compared: cells of the same row, of the same column, or all. None: the
            cells that compete in the fit.

        Returns
        -------
        HeldOutScores
        """
        kept, groups = self._groups(within)
        labels, scores = self.Y[kept][:, None], self.predictions[:, kept][:, :, None]
        found = score_predictions(
            self.alphas, labels, np.ascontiguousarray(scores), metric, groups[kept]
        )
        return replace(found, shared=self.shared)

    def values(self, metric: str = "disagreement", within: str | None = None, k: int = 0) -> Array:
        """The metric of each row, column or fold, at alpha number k; NaN where it is undefined.

        With it, two rankers can be compared row by row. Parameters are as for `score`.
        """
        from rankwise.metrics import get_metric

        kept, groups = self._groups(within)
        function, _ = get_metric(metric)
        found = function(self.Y[kept], self.predictions[k][kept], groups[kept], per_query=True)
        out = np.full(int(groups.max()) + 1, np.nan)
        out[found.qid] = found.values
        return out

    def _groups(self, within: str | None) -> tuple[Array, Index]:
        """Which cells are scored, and the number of the group in which each is compared."""
        within = WITHIN[self.compare] if within is None else within
        check_value("within", within, Choice(*WITHIN.values()))
        n, m = self.Y.shape
        row, column = self.plan.row_fold[:, None], self.plan.column_fold[None]
        unit: Any = {
            "rows": np.arange(n)[:, None] * (column.max() + 1) + column,
            "columns": np.arange(m)[None] * (row.max() + 1) + row,
            "all": row * (column.max() + 1) + column,
        }[within]
        groups = np.broadcast_to(unit, (n, m))
        kept = np.isfinite(self.Y) & np.isfinite(self.predictions).all(axis=0)
        low, high = np.full(groups.max() + 1, np.inf), np.full(groups.max() + 1, -np.inf)
        np.minimum.at(low, groups[kept], self.Y[kept])
        np.maximum.at(high, groups[kept], self.Y[kept])
        kept = kept & (low < high)[groups]
        if not kept.any():
            raise DataError(
                f"No two held-out cells within {within} have different scores: there is nothing to "
                "score. Hold out fewer folds, compare other cells, or set alpha to a number."
            )
        return kept, groups

    def plot(self, k: int | None = None, **options: Any) -> Axes:
        """Draw the given table and the held-out scores of the best alpha, or of alpha number k.

        See `rankwise.plots.plot_table` for the options.
        """
        from rankwise.plots import plot_table

        k = self.score().best_index if k is None else k
        return plot_table(self.Y, self.predictions[k], **{"compare": self.compare, **options})
