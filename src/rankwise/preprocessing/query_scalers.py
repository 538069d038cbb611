"""Transformers that scale features within queries."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import to_host
from rankwise.estimators.base import Skl2onnxMixin
from rankwise.estimators.ranker_rows import check_rows, warn_of_queries
from rankwise.graph import QueryGroups
from rankwise.scaling import Beside, QueryMinMax, QueryRank, QueryStandard, Scaling


class QueryScaler(Skl2onnxMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """The base class: a scaling with the interface of scikit-learn's transformers.

    With metadata routing on, qid reaches `fit` and `transform` through pipelines and searches
    without a call of ``set_fit_request`` or ``set_transform_request``.
    """

    scaling: ClassVar[Scaling]
    #: Tensors are scaled on their device, and other arrays on the CPU.
    device: ClassVar[None] = None

    __metadata_request__fit = {"qid": True}  # noqa: RUF012
    __metadata_request__transform = {"qid": True}  # noqa: RUF012

    def fit(self, X: Any, y: Any = None, *, qid: Any = None) -> Self:
        """Record the features, and the number and the sizes of queries.

        Nothing else is learned: queries are scaled one by one.

        Parameters
        ----------
        X : array-like, sparse or tensor of shape (n_rows, n_features)
        y : None
            Ignored.
        qid : array-like of shape (n_rows,), optional
            The query of every row, as integers or text, in any order. None: all rows are one query.

        Returns
        -------
        self
        """
        self._fit(X, qid)
        return self

    def transform(self, X: Any, *, qid: Any = None) -> Any:
        """Scale the features of each query.

        Parameters
        ----------
        X : array-like, sparse or tensor of shape (n_rows, n_features)
        qid : array-like of shape (n_rows,), optional
            The query of every row. None: all rows are one query, with a warning if `fit` saw
            several. Pass all rows of a query in one call: if a query is split over two calls, each
            part is scaled by itself.

        Returns
        -------
        ndarray, csr_array or tensor of shape (n_rows, n_features)
            In the dtype of X (float32 or float64).

        Warns
        -----
        RankwiseWarning
            If `fit` saw several queries, and there is no qid, or if each row is the only one of its
            query, unlike in `fit`.
        """
        check_is_fitted(self)
        X = check_rows(self, X)
        groups = QueryGroups.of(to_host(qid), X.shape[0])
        warn_of_queries(self, "transform", groups, named=qid is not None)
        return self.scaling.scale(X, groups)

    def fit_transform(self, X: Any, y: Any = None, *, qid: Any = None) -> Any:
        """Fit to rows, and scale them.

        Parameters
        ----------
        X, y, qid
            As for `fit`.

        Returns
        -------
        ndarray, csr_array or tensor of shape (n_rows, n_features)
        """
        return self.scaling.scale(*self._fit(X, qid))

    def _fit(self, X: Any, qid: Any) -> tuple[Any, QueryGroups]:
        X = check_rows(self, X, reset=True)
        groups = QueryGroups.of(to_host(qid), X.shape[0])
        self.n_queries_ = groups.n_groups
        self.max_query_rows_ = int(groups.sizes.max())
        return X, groups

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class QueryMinMaxScaler(QueryScaler):
    """Map each feature of each query to [0, 1]: (x - min) / (max - min) over the query's rows.

    A raw term count means little without the counts of the other documents of the same query, so
    rankers often do better on features that are scaled within queries. A feature that is constant
    within a query becomes 0 there.

    This takes O(n d) time and one copy of X. Sparse rows stay sparse: zeros that are not stored
    count as values, and if a feature has a negative minimum in a query, all its values in that
    query are stored.

    In a pipeline, `transform` needs the queries of the rows. With
    ``sklearn.set_config(enable_metadata_routing=True)``, pass qid to ``fit``, ``predict`` and
    ``score`` of the pipeline. The parameter ``scale="query-minmax"`` of a ranker does the same
    without a pipeline.

    Attributes
    ----------
    n_queries_ : int
        Number of queries seen in `fit`.
    max_query_rows_ : int
        Number of rows of the largest of them.
    n_features_in_, feature_names_in_
        Number and names of the features seen in `fit`.

    See Also
    --------
    rankwise.data.normalize_per_query : The same as a function.

    Examples
    --------
    >>> from rankwise import QueryMinMaxScaler
    >>> X = [[1.0, 5.0], [3.0, 5.0], [2.0, 5.0], [70.0, 6.0], [10.0, 7.0]]
    >>> QueryMinMaxScaler().fit_transform(X, qid=["a", "a", "a", "b", "b"])
    array([[0. , 0. ],
           [1. , 0. ],
           [0.5, 0. ],
           [1. , 0. ],
           [0. , 1. ]])

    In a pipeline:

    >>> import sklearn
    >>> from sklearn.pipeline import make_pipeline
    >>> from rankwise import RankRLS
    >>> y, qid = [0, 2, 1, 1, 0], ["a", "a", "a", "b", "b"]
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     pipeline = make_pipeline(QueryMinMaxScaler(), RankRLS(1.0)).fit(X, y, qid=qid)
    ...     pipeline.predict(X, qid=qid).round(3)
    array([ 0.   ,  0.727,  0.364,  0.727, -0.091])
    """

    scaling: ClassVar[Scaling] = QueryMinMax()


class QueryStandardScaler(QueryScaler):
    """Give each feature of each query mean 0 and variance 1.

    A feature that is constant within a query becomes 0 there. Pipelines need the queries of the
    rows, as for `QueryMinMaxScaler`.

    This takes O(n d) time and one copy of X. In sparse rows, all values of a feature in a query are
    stored if one of them is, since zeros do not stay zero. The results are the same as for dense
    rows.

    Attributes
    ----------
    n_queries_, max_query_rows_, n_features_in_, feature_names_in_
        As for `QueryMinMaxScaler`.

    Examples
    --------
    >>> from rankwise import QueryStandardScaler
    >>> X = [[1.0, 5.0], [3.0, 5.0], [70.0, 6.0], [10.0, 7.0]]
    >>> QueryStandardScaler().fit_transform(X, qid=["a", "a", "b", "b"])
    array([[-1.,  0.],
           [ 1.,  0.],
           [ 1., -1.],
           [-1.,  1.]])
    """

    scaling: ClassVar[Scaling] = QueryStandard()


class QueryRanks(QueryScaler):
    """Replace each value by its rank within its query, from -1/2 (smallest) to 1/2 (largest).

    In a query of n rows, ranks are 1 / (n - 1) apart. Equal values share the mean of their ranks,
    and a feature that is constant within a query becomes 0 there. Ranks do not change if a feature
    is replaced by an increasing function of itself, such as its logarithm. Pipelines need the
    queries of the rows, as for `QueryMinMaxScaler`.

    This takes O(n d log m) time for queries of m rows, and one copy of X. Sparse rows are treated
    as by `QueryStandardScaler`.

    Attributes
    ----------
    n_queries_, max_query_rows_, n_features_in_, feature_names_in_
        As for `QueryMinMaxScaler`.

    Examples
    --------
    >>> from rankwise import QueryRanks
    >>> X = [[1.0, 5.0], [300.0, 5.0], [2.0, 6.0], [10.0, 7.0]]
    >>> QueryRanks().fit_transform(X, qid=["a", "a", "a", "b"])
    array([[-0.5 , -0.25],
           [ 0.5 , -0.25],
           [ 0.  ,  0.5 ],
           [ 0.  ,  0.  ]])
    """

    scaling: ClassVar[Scaling] = QueryRank()


class WithQueryStandard(QueryScaler):
    """Put features that are standardized within each query beside the features as they are.

    Trees can then split by a value itself, and by how it compares with the other rows of its query.
    Linear rankers have more use for one of the two. The columns of X come first, then these columns
    as `QueryStandardScaler` scales them.

    This takes O(n d) time and memory. In sparse rows, all values of a feature in a query are stored
    if one of them is, as in `QueryStandardScaler`.

    Attributes
    ----------
    n_queries_, max_query_rows_, n_features_in_, feature_names_in_
        As for `QueryMinMaxScaler`.

    Examples
    --------
    >>> from rankwise import WithQueryStandard
    >>> X = [[1.0], [3.0], [70.0], [10.0]]
    >>> WithQueryStandard().fit_transform(X, qid=["a", "a", "b", "b"])
    array([[ 1., -1.],
           [ 3.,  1.],
           [70.,  1.],
           [10., -1.]])
    """

    scaling: ClassVar[Scaling] = Beside(QueryStandard())

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the features, and the same names after ``"standardized "``.

        Parameters
        ----------
        input_features : array-like of str, optional
            As in scikit-learn's transformers.

        Returns
        -------
        ndarray of str
        """
        names = super().get_feature_names_out(input_features)
        return np.concatenate([names, [f"standardized {name}" for name in names]]).astype(object)
