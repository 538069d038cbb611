"""RankSVM: pairwise ranking with the squared hinge loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.errors import DataError, warn
from rankwise.estimators._call_errors import explain_calls
from rankwise.estimators._ranker_parameters import LOSS_PARAMETERS
from rankwise.estimators._scores import in_dtype
from rankwise.estimators._validation import DTYPES, forget
from rankwise.estimators.ranker_mixin import RankerMixin
from rankwise.graph import QueryGroups
from rankwise.graph.label_checks import check_labels_differ
from rankwise.parameters import Number, Rule, Whole, check_parameters
from rankwise.solvers.squared_hinge import LabelledPairs, squared_hinge


class RankSVM(RankerMixin, BaseEstimator):
    """Linear ranking support vector machine with squared hinge loss.

    The row with the larger label of two rows of a query should score higher by at least 1:

        min_w  sum_{ij: y_i > y_j} W_ij max(0, 1 - w'(x_i - x_j))^2 + alpha |w|^2,

    where W_ij > 0 for rows of the same query. Unlike in `RankRLS`, the size of label differences
    does not matter, pairs that are far enough apart have no loss, and pairs with equal labels do
    not count.

    Newton's method uses all pairs at once. Each step needs some products with X and some sums over
    pairs. Sorting reduces the cost of these sums to O(m log m) for m rows, although the number of
    pairs is quadratic. Memory is O(m) in addition to X, which may be sparse.

    Parameters
    ----------
    alpha : float, default=1.0
        Regularization strength, at least 0. In the common form ``C * loss + |w|^2 / 2``, C is
        1 / (2 alpha).
    weighting : {"pairs", "rows", "queries"}, default="rows"
        The weight of a pair: 1, one over the number of rows of its query, or one over the number
        of pairs of its query.
    tol : float, default=1e-6
        Stop when the norm of the gradient, relative to that at w = 0, falls below this value.
    max_iter : int, default=200
        The maximum number of Newton steps; ten to thirty are typical.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights of the features.
    n_iter_ : int
        Number of Newton steps.
    n_queries_ : int
        Number of queries seen in `fit`.
    n_features_in_, feature_names_in_
        Number and names of the features seen in `fit`.

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
    array([0.91, 0.  , 0.91, 0.  ])
    """

    parameters: ClassVar[Mapping[str, Rule]] = {
        "alpha": Number(0),
        "weighting": LOSS_PARAMETERS["weighting"],
        "tol": Number(0, 1, open_low=True, open_high=True),
        "max_iter": Whole(1, 2**31 - 1),
    }

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        weighting: str = "rows",
        tol: float = 1e-6,
        max_iter: int = 200,
    ) -> None:
        self.alpha = alpha
        self.weighting = weighting
        self.tol = tol
        self.max_iter = max_iter

    @explain_calls
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
        check_parameters(self, self.parameters)
        forget(self)
        options = {"accept_sparse": "csr", "dtype": np.float64, "ensure_min_samples": 2}
        X, y = validate_data(self, X, y, y_numeric=True, **options)
        groups = QueryGroups.of(qid, len(y))
        check_labels_differ(y, groups)
        self.n_queries_ = groups.n_groups
        pairs = LabelledPairs.of(np.asarray(y, np.float64), groups.codes, self.weighting)
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            found = squared_hinge(
                X, pairs, float(self.alpha), tol=float(self.tol), max_iter=self.max_iter
            )
        if not np.isfinite(found.residual):
            raise DataError(
                "Products of the features or of alpha overflow. Scale the features, for example "
                "with sklearn.preprocessing.StandardScaler, or use a smaller alpha."
            )
        self.coef_, self.n_iter_ = found.w, found.n_iter
        if not found.converged:
            warn(
                f"RankSVM stopped after {found.n_iter} Newton steps. The gradient, relative to the "
                f"start, is {found.residual:.1e}, above tol={self.tol:g}. Scale the features, use "
                "a larger alpha, or increase max_iter.",
                ConvergenceWarning,
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
            In the dtype of X, if that is float32 or float64.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=DTYPES, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):  # `in_dtype` checks
            return in_dtype(X @ self.coef_, X.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
