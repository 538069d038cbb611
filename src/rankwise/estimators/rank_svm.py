"""RankSVM: the squared hinge in the place of the squared error."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._checks import check_alpha, check_choice, check_whole
from rankwise.estimators.least_squares.base import DTYPES, narrowed
from rankwise.estimators.ranker_mixin import RankerMixin
from rankwise.graph import QueryGroups
from rankwise.graph.query_graph import WEIGHTINGS
from rankwise.solvers.squared_hinge import LabelledPairs, squared_hinge


def check_tol(tol: Any) -> float:
    """A number between 0 and 1."""
    if type(tol) is bool or not isinstance(tol, Real) or not 0 < float(tol) < 1:
        raise ParameterError(f"tol must be a number between 0 and 1: got {tol!r}.")
    return float(tol)


class RankSVM(RankerMixin, BaseEstimator):
    """Linear ranking support vector machine with squared hinge loss.

    Asks that of two rows of a query the one with the larger label scores higher by 1, and
    punishes what is missing,

        min_w  sum_{ij: y_i > y_j} W_ij max(0, 1 - w'(x_i - x_j))^2 + alpha |w|^2,

    where W_ij is 1 for rows of the same query. Unlike `RankRLS` it does not mind how much larger
    a label is, nor pairs that are far enough apart; pairs with equal labels do not count.

    Minimized by Newton steps on all pairs at once: each takes some products with X and some sums
    over pairs, which for m rows cost O(m log m) by sorting, although there are quadratically many.
    For n features, O(m) memory beside X, which may be sparse.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the regularization, 0 or more. The loss is a sum over pairs, so useful values
        grow with their number (unless `weighting` says otherwise). In the form
        ``C * loss + |w|^2 / 2`` of many texts, C is 1 / (2 alpha).
    weighting : {"pairs", "rows", "queries"}, default="pairs"
        Every pair weighs 1; or one over the rows of its query; or one over the pairs of its
        query, so that long queries do not drown short ones.
    tol : float, default=1e-6
        Where to stop: the norm of the gradient over that of the gradient at w = 0.
    max_iter : int, default=200
        The most Newton steps; ten to thirty are usual.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights of the features.
    n_iter_ : int
        Newton steps taken.
    n_queries_ : int
        Queries seen in `fit`.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    References
    ----------
    Herbrich, Graepel, Obermayer: Support vector learning for ordinal regression. ICANN 1999.
    Chapelle, Keerthi: Efficient algorithms for ranking with SVMs. Information Retrieval 13, 2010.

    Examples
    --------
    >>> from rankwise import RankSVM
    >>> X = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]
    >>> y = [2, 0, 7, 6]
    >>> ranker = RankSVM(alpha=0.1).fit(X, y, qid=["a", "a", "b", "b"])
    >>> ranker.predict(X).round(2)
    array([0.95, 0.  , 0.95, 0.  ])
    """

    coef_: Array

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        weighting: str = "pairs",
        tol: float = 1e-6,
        max_iter: int = 200,
    ) -> None:
        self.alpha = alpha
        self.weighting = weighting
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, *, qid: Any = None) -> Self:
        """Fit to labelled rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Labels, higher is better; only their order within a query counts.
        qid : array-like of shape (n_rows,), optional
            The query of every row, of any dtype and in any order. None: one global ranking.

        Returns
        -------
        self
        """
        alpha = check_alpha(self.alpha)
        check_choice("weighting", self.weighting, WEIGHTINGS)
        check_whole("max_iter", self.max_iter, 1, 2**31 - 1)
        tol = check_tol(self.tol)
        self.__dict__.pop("coef_", None)  # a fit that fails leaves no model of other rows
        options = {"accept_sparse": "csr", "dtype": np.float64, "ensure_min_samples": 2}
        X, y = validate_data(self, X, y, y_numeric=True, **options)
        groups = QueryGroups.of(qid, len(y))
        self.n_queries_ = groups.n_groups
        pairs = LabelledPairs.of(np.asarray(y, np.float64), groups.codes, self.weighting)
        if not pairs.n_pairs:
            raise DataError(
                f"No query has two different labels ({groups.n_groups} "
                f"{'query' if groups.n_groups == 1 else 'queries'}, {len(y)} rows): there is no "
                "pair to learn from. Check the labels and qid."
            )
        with np.errstate(over="ignore", invalid="ignore"):  # said below, with a way out
            found = squared_hinge(X, pairs, alpha, tol=tol, max_iter=self.max_iter)
        if not np.isfinite(found.residual):
            raise DataError(
                "The products of these features, or of alpha, overflow: scale the features, for "
                "example in a pipeline with a scaler, or use a smaller alpha."
            )
        self.coef_, self.n_iter_ = found.w, found.n_iter
        if not found.converged:
            warnings.warn(
                f"RankSVM stopped after {found.n_iter} Newton steps with a gradient of "
                f"{found.residual:.1e} of that at the start, above tol={self.tol:g}. Scale the "
                "features, use a larger alpha, or allow more steps by max_iter.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict(self, X: Any) -> Any:
        """Scores of rows: higher is better.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
            In float32 where X is.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=DTYPES, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):  # said by narrowed, with a way out
            return narrowed(X @ self.coef_, X.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
