"""Rankers for tools that give group sizes in the place of query ids."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from rankwise.data.query_rows import qid_from_groups
from rankwise.errors import DataError, ParameterError
from rankwise.metric_names import get_metric
from rankwise.model_selection.search.labelled_rows import as_rows
from rankwise.parameters import check_alphas

ALPHAS = np.geomspace(1e-3, 1e5, 17)


class GroupedRanker(MetaEstimatorMixin, BaseEstimator):
    """A ranker with the call of LightGBM's rankers: ``fit(X, y, group=counts)``.

    Tools that were written for LightGBM and XGBoost, such as PyTerrier's
    ``pt.ltr.apply_learned_model(GroupedRanker(RankRLS(scale="standard")), form="ltr")``, give the
    number of rows of each query, and predict rows of many queries without saying which is which. So
    the ranker must not scale features within queries.

    Parameters
    ----------
    ranker : estimator
        A ranker of rankwise, or a pipeline with one.
    metric : str, default="ndcg@10"
        With `eval_set`: what to choose alpha by.
    alphas : array-like, optional
        With `eval_set`: the values to choose from. None: 17 values from 1e-3 to 1e5.

    Attributes
    ----------
    ranker_ : estimator
        The fitted ranker.
    qid_ : ndarray of shape (n_rows,)
        The queries that the group sizes stand for: 0, 1, and so on.
    evals_ : ndarray of shape (n_alphas,) or None
        The metric on the evaluation rows at each alpha, if there were such rows.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.model_selection import GroupedRanker
    >>> X, y = [[0.0], [1.0], [2.0], [1.0], [5.0]], [0, 1, 2, 0, 1]
    >>> ranker = GroupedRanker(RankRLS(1.0, scale="standard")).fit(X, y, group=[3, 2])
    >>> ranker.qid_
    array([0, 0, 0, 1, 1])
    >>> ranker.predict([[0.0], [3.0]]).argsort()
    array([0, 1])
    """

    def __init__(self, ranker: Any, *, metric: str = "ndcg@10", alphas: Any = None) -> None:
        self.ranker = ranker
        self.metric = metric
        self.alphas = alphas

    def fit(
        self,
        X: Any,
        y: Any,
        group: Any = None,
        *,
        eval_set: Any = None,
        eval_group: Any = None,
    ) -> Self:
        """Fit the ranker; with evaluation rows, at the alpha that ranks these best.

        Parameters
        ----------
        X : array-like, sparse or data frame of shape (n_rows, n_features)
            The rows of each query follow each other.
        y : array-like of shape (n_rows,)
        group : array-like of shape (n_queries,)
            The number of rows of each query.
        eval_set : list with one pair (X, y), optional
        eval_group : list with one array of group sizes, optional

        Returns
        -------
        self
        """
        qid = _queries(group, as_rows(X).shape[0], "group", "X")
        ranker = clone(self.ranker)
        self.evals_: Any = None
        if (eval_set is None) != (eval_group is None):
            raise ParameterError("Give eval_set and eval_group together, or neither.")
        if eval_set is None:
            ranker.fit(X, y, qid=qid)
        else:
            ranker = self._chosen(ranker, X, y, qid, eval_set, eval_group)
        scale = getattr(ranker, "scale_", None)
        if scale is not None and scale.startswith("query-"):
            raise ParameterError(
                f"The ranker scales features within queries ({scale}), but predict gets rows "
                'without queries here: use scale="standard" or scale=None.'
            )
        self.ranker_, self.qid_ = ranker, qid
        return self

    def _chosen(self, ranker: Any, X: Any, y: Any, qid: Any, eval_set: Any, eval_group: Any) -> Any:
        """The ranker with the alpha that is best on the evaluation rows."""
        if not hasattr(ranker, "path"):
            raise ParameterError(
                f"{type(ranker).__name__} has no alpha to choose on an eval_set: leave it out."
            )
        if len(eval_set) != 1 or len(eval_group) != 1:
            raise ParameterError(
                f"eval_set and eval_group must have one entry: got {len(eval_set)} and "
                f"{len(eval_group)}."
            )
        (new, labels), sizes = eval_set[0], eval_group[0]
        queries = _queries(sizes, as_rows(new).shape[0], "eval_group", "eval_set")
        metric, greater_is_better = get_metric(self.metric)
        alphas = check_alphas(ALPHAS if self.alphas is None else self.alphas)
        path = ranker.path(X, y, alphas, qid=qid)
        scores = path.predict(new, qid=queries)
        values = np.array([metric(labels, each, queries) for each in scores])
        self.evals_ = values
        best = values.argmax() if greater_is_better else values.argmin()
        return path.estimator(int(best))

    def predict(self, X: Any) -> Any:
        """Scores of rows, of any queries: higher is better within a query.

        Parameters
        ----------
        X : array-like, sparse or data frame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        check_is_fitted(self)
        return self.ranker_.predict(X)


def _queries(sizes: Any, n_rows: int, name: str, rows: str) -> Any:
    if sizes is None:
        raise DataError(f"{name} is missing: the number of rows of each query, as in [10, 8, 12].")
    qid = qid_from_groups(sizes)
    if len(qid) != n_rows:
        raise DataError(f"{name} adds up to {len(qid)}, but {rows} has {n_rows} rows.")
    return qid
