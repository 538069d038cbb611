"""Weights of rows in `fit`."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from rankwise.estimators._call_errors import explain_calls


class RowWeightsMixin:
    """Adds weights of rows to a ranker."""

    make_problem: Any
    fit_problem: Any

    takes_row_weights: ClassVar[bool] = True

    # Routing, as in `RankerMixin`.
    __metadata_request__fit = {"sample_weight": True}  # noqa: RUF012
    __metadata_request__score = {"sample_weight": True}  # noqa: RUF012

    @explain_calls
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        query_weight: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit to scored rows. A fit that fails leaves the ranker unfitted.

        Parameters
        ----------
        X : array-like, sparse or tensor of shape (n_rows, n_features)
            With ``kernel="precomputed"``, the kernel matrix of the rows. Tensors are processed on
            their device, and the fitted arrays are tensors there.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Scores, higher is better. Several outputs take little more time than one.
        qid : array-like of shape (n_rows,), optional
            The query of every row, as integers or text, in any order. None: one global ranking. A
            loss on single rows (RLS, SparseRLS) does not depend on it.
        query_weight : array-like of shape (n_rows,), optional
            How much the query of every row counts: it multiplies the weights of the query's pairs.
            Above 0, and the same for all rows of a query; not for losses on single rows. None: 1.
        sample_weight : array-like of shape (n_rows,), optional
            How much every row counts, at least 0. A pair of rows counts the product of the two
            weights; in a loss on single rows, the squared error of a row counts its weight. Rows of
            weight 0 are left out. None: 1. See Notes.

        Returns
        -------
        self

        Notes
        -----
        A row of weight 3 is the same as three copies of it, at a fixed alpha. With
        ``weighting="rows"``, pairs are divided by the sum of the weights of the query's rows
        instead of their number; with ``weighting="queries"``, by the sum of the weights of its
        pairs. With "queries" and ``ties="include"``, copies of a row would also count as pairs.
        ``scale="standard"`` and ``gamma="scale"`` use weighted means and variances; scalings within
        queries and the choice of landmarks do not depend on weights.

        ``alpha="auto"`` holds out whole queries, as without weights. In one ranking and in
        regressions, it holds out up to five parts of the rows (or of the queries), one after the
        other. Held-out rows are scored without weights.
        """
        problem = self.make_problem(
            X, y, qid=qid, query_weight=query_weight, sample_weight=sample_weight
        )
        fitted: Self = self.fit_problem(problem)
        return fitted
