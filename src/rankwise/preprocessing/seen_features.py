"""A transformer that keeps the features that occur in training rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Index, is_sparse
from rankwise.errors import DataError
from rankwise.estimators.ranker_rows import DTYPES, validated


class SeenFeatures(TransformerMixin, BaseEstimator):
    """Keep the features that occur in the training rows, and drop all others.

    A feature occurs if some training row has a value other than 0. If feature numbers are hashes,
    rows have up to 2^31 - 1 columns, of which some thousands occur. A ranker would need a weight
    for each column. After this transformer, it needs weights only for the features that occur.
    Features of new rows that did not occur in training are ignored, as if they had weight 0.

    This takes O(z log z) time and O(z) memory for z stored values, regardless of the number of
    columns.

    Attributes
    ----------
    columns_ : ndarray of shape (n_features_out,)
        The columns that are kept, in ascending order.
    n_features_out_ : int
        Their number.
    n_features_in_, feature_names_in_
        Number and names of the features seen in `fit`.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from sklearn.pipeline import make_pipeline
    >>> from rankwise import RankRLS, SeenFeatures
    >>> rows, hashes = [0, 1, 1, 2], [7, 7, 2_000_000_000, 1_234_567_890]
    >>> X = sp.csr_array(([1.0, 2.0, 1.0, 3.0], (rows, hashes)), shape=(3, 2**31 - 1))
    >>> SeenFeatures().fit_transform(X).toarray()
    array([[1., 0., 0.],
           [2., 0., 1.],
           [0., 3., 0.]])
    >>> ranker = make_pipeline(SeenFeatures(), RankRLS(1.0)).fit(X, [0, 1, 3])
    >>> ranker.predict(X).argsort()
    array([0, 1, 2])
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the features that occur.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        y : None
            Ignored.

        Returns
        -------
        self
        """
        X = self._check(X, reset=True)
        found = _occurring(X)
        if len(found) == 0:
            raise DataError("All values of X are 0: no feature occurs. Check the features.")
        self.columns_, self.n_features_out_ = found, len(found)
        return self

    def transform(self, X: Any) -> Any:
        """The columns of the features that occurred in `fit`.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)

        Returns
        -------
        ndarray or csr_array of shape (n_rows, n_features_out)
            In the dtype of X (float32 or float64).
        """
        check_is_fitted(self)
        X = self._check(X)
        if not is_sparse(X):
            return X[:, self.columns_]
        place, known = self._places(X.indices)
        kept = known & (X.data != 0)
        indptr = np.concatenate(([0], np.cumsum(kept)))[X.indptr]
        shape = (X.shape[0], len(self.columns_))
        return sp.csr_array((X.data[kept], place[kept], indptr), shape=shape)

    def unseen(self, X: Any) -> Index:
        """The columns of rows that `transform` drops though they are not 0.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)

        Returns
        -------
        ndarray of int
            In ascending order.
        """
        check_is_fitted(self)
        used = _occurring(self._check(X))
        return used[~self._places(used)[1]]

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the features that are kept.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the features of X. None: `feature_names_in_`, or "x0", "x1", ...

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        if input_features is None and not hasattr(self, "feature_names_in_"):
            return np.array([f"x{column}" for column in self.columns_.tolist()], dtype=object)
        return OneToOneFeatureMixin.get_feature_names_out(self, input_features)[self.columns_]

    def _check(self, X: Any, *, reset: bool = False) -> Any:
        return validated(
            self, X, reset=reset, accept_sparse="csr", dtype=DTYPES, ensure_all_finite="allow-nan"
        )

    def _places(self, columns: Index) -> tuple[Index, Any]:
        """The positions of columns among the kept columns, and which are kept."""
        place = np.searchsorted(self.columns_, columns).clip(max=len(self.columns_) - 1)
        return place, self.columns_[place] == columns

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        columns = state.get("columns_")
        if columns is not None and (columns[0] < 0 or (np.diff(columns) <= 0).any()):
            raise DataError("columns_ of SeenFeatures must be column numbers in ascending order.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _occurring(X: Any) -> Index:
    """The columns with a value other than 0."""
    if is_sparse(X):
        return np.unique(X.indices[X.data != 0]).astype(np.int64)
    return np.flatnonzero((X != 0).any(axis=0)).astype(np.int64)
