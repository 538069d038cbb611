"""The loss of RankRLS as objective and metric of gradient boosted trees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, ParameterError
from rankwise.graph import PreferenceGraph, QueryGroups
from rankwise.graph.preference_graph import TIES, WEIGHTINGS, pair_weight
from rankwise.graph.query_groups import check_labels_differ
from rankwise.parameters import Choice, check_value

__all__ = ["RankRLSObjective", "RowObjective"]

_NAME = "rankrls"
_REMEMBERED = 4  # sets of rows: one to train on, and some to evaluate
_LEAST_DEGREE = 1e-6  # relative to the largest: rows without pairs need a positive Hessian


@dataclass(frozen=True, eq=False)
class RowObjective:
    """The loss of RankRLS on given rows, as a function of their scores.

    Calling it as ``objective(y, scores)`` returns gradient and Hessian, which is the form of custom
    objectives in `XGBRegressor` and `LGBMRegressor`. Made by `RankRLSObjective.on_rows`.

    Attributes
    ----------
    graph : PreferenceGraph
        The pairs that count.
    y : ndarray of shape (n_rows,)
        Labels.

    Examples
    --------
    >>> from rankwise.objectives import RankRLSObjective
    >>> rows = RankRLSObjective().on_rows([2, 1], ["a", "a"])
    >>> gradient, hessian = rows([2, 1], [0.0, 0.0])
    >>> gradient.tolist(), hessian.tolist()
    ([-1.0, 1.0], [1.0, 1.0])
    """

    graph: PreferenceGraph
    y: Array
    hessian: Array = field(init=False, repr=False)
    """The diagonal of the Hessian, 2 L_ii, shape (n_rows,).

    Rows without pairs get a small positive number instead of 0, so that leaves of such rows have
    the value 0 instead of 0 / 0.
    """

    def __post_init__(self) -> None:
        degrees = self.graph.degrees
        least = _LEAST_DEGREE * (degrees.max(initial=0.0) or 1.0)
        object.__setattr__(self, "hessian", 2.0 * np.maximum(degrees, least))

    def loss(self, scores: Any) -> float:
        """The squared error of a pair's difference, averaged over all pairs by their weights.

        Parameters
        ----------
        scores : array-like of shape (n_rows,)

        Returns
        -------
        float
        """
        total = self.graph.degrees.sum() / 2.0
        if total == 0.0:
            raise DataError(
                f"None of the {self.graph.n_rows} rows can be compared with another: the loss is "
                "undefined. Check the labels and the groups."
            )
        error = self._error(scores)
        return float(error @ (self.graph @ error) / total)

    def gradient(self, scores: Any) -> Array:
        """The gradient 2 L (f - y) of (f - y)' L (f - y).

        Parameters
        ----------
        scores : array-like of shape (n_rows,)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return np.asarray(2.0 * (self.graph @ self._error(scores)))

    def __call__(self, y_true: Any, y_pred: Any) -> tuple[Array, Array]:
        """Gradient and Hessian for the labels of this object."""
        if len(y_true) != len(self.y):
            raise DataError(
                f"The objective was made for {len(self.y)} rows: got {len(y_true)}. Make one with "
                "on_rows for the rows that the trees are fitted to."
            )
        return self.gradient(y_pred), self.hessian

    def _error(self, scores: Any) -> Array:
        return np.asarray(scores, dtype=np.float64).ravel() - self.y


@dataclass(frozen=True)
class RankRLSObjective:
    """The loss of RankRLS for LightGBM, XGBoost and CatBoost.

    Squared errors of differences, over pairs of rows of the same query:

        1/2 sum_ij W_ij ((y_i - y_j) - (f_i - f_j))^2 = (y - f)' L (y - f),

    with gradient 2 L (f - y) and the diagonal 2 L_ii as Hessian. Both cost O(n) for n rows, however
    many pairs there are. Only differences of scores matter.

    Which method goes where:

    ================================  ============================  ==============================
    trees                             objective                     metric
    ================================  ============================  ==============================
    ``lightgbm.train``                ``params["objective"]``:      ``feval``: `lightgbm_metric`
                                      `lightgbm`
    ``LGBMRanker``                    ``objective``:                ``eval_metric``:
                                      `lgbm_ranker`                 `lgbm_ranker_metric`
    ``xgboost.train``                 ``obj``: `xgboost`            ``custom_metric``:
                                                                    `xgboost_metric`
    ``XGBRegressor``,                 ``objective``: `on_rows`
    ``LGBMRegressor``
    ``CatBoostRanker``                ``"QueryRMSE"``, with
                                      `catboost_weights`
    ================================  ============================  ==============================

    These libraries need the rows of a query next to each other, except with `on_rows`, where
    queries may come in any order. Without groups, all rows are one ranking. The constructor of
    `XGBRanker` does not accept objectives; use ``xgboost.train`` or `XGBRegressor`.

    Parameters
    ----------
    ties : {"include", "exclude"}, default="include"
        Whether pairs of rows with equal labels count.
    weighting : {"pairs", "rows", "queries"}, default="rows"
        The weight of a pair: 1, one over the number of rows of its query, or one over the number
        of pairs of its query. The Hessian of a row is about 2 n, 2, or 4 / n in a query of n rows;
        limits such as XGBoost's ``min_child_weight`` refer to its sum in a leaf.

    See Also
    --------
    rankwise.BoostedRanker : LightGBM with this objective.

    Examples
    --------
    >>> from rankwise.objectives import RankRLSObjective
    >>> rows = RankRLSObjective(weighting="pairs").on_rows([2, 1, 5], ["a", "a", "b"])
    >>> rows.gradient([0.0, 0.0, 0.0]).tolist()
    [-2.0, 2.0, 0.0]
    >>> rows.loss([0.0, 0.0, 0.0])
    1.0
    """

    ties: str = "include"
    weighting: str = "rows"
    _recent: list[tuple[Array, Array | None, RowObjective]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        check_value("ties", self.ties, Choice(*TIES))
        check_value("weighting", self.weighting, Choice(*WEIGHTINGS))

    def __reduce__(self) -> Any:  # copies and pickles do not hold rows
        return type(self), (self.ties, self.weighting)

    def on_rows(self, y: Any, qid: Any = None) -> RowObjective:
        """The objective of given rows, for estimators that do not support queries.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            Labels.
        qid : array-like of shape (n_rows,), optional
            The query of every row, as integers or text, in any order. None: one ranking.

        Returns
        -------
        RowObjective
        """
        labels = np.asarray(y, dtype=np.float64)
        if labels.ndim != 1:
            raise DataError(f"y must have one label per row: got shape {labels.shape}.")
        groups = QueryGroups.of(qid, len(labels))
        graph = PreferenceGraph.from_scores(
            labels, groups, ties=self.ties, weighting=self.weighting
        )
        return RowObjective(graph, labels)

    def lightgbm(self, scores: Any, dataset: Any) -> tuple[Array, Array]:
        """Gradient and Hessian for ``lightgbm.train({"objective": objective.lightgbm}, ...)``.

        Parameters
        ----------
        scores : ndarray of shape (n_rows,)
        dataset : lightgbm.Dataset

        Returns
        -------
        gradient, hessian : ndarray of shape (n_rows,)
        """
        return self._derivatives(
            scores, dataset.get_label(), dataset.get_weight(), dataset.get_group()
        )

    def lightgbm_metric(self, scores: Any, dataset: Any) -> tuple[str, float, bool]:
        """The loss for ``lightgbm.train(..., feval=objective.lightgbm_metric)``.

        Parameters
        ----------
        scores, dataset
            As for `lightgbm`.

        Returns
        -------
        name, value, greater_is_better
        """
        return self.lgbm_ranker_metric(
            dataset.get_label(), scores, dataset.get_weight(), dataset.get_group()
        )

    def lgbm_ranker(self, y: Any, scores: Any, weight: Any, group: Any) -> tuple[Array, Array]:
        """Gradient and Hessian for ``LGBMRanker(objective=objective.lgbm_ranker)``.

        Parameters
        ----------
        y, scores : ndarray of shape (n_rows,)
        weight : None
            Weights of rows are refused: the loss is on pairs.
        group : ndarray of shape (n_queries,) or None
            The number of rows of each query.

        Returns
        -------
        gradient, hessian : ndarray of shape (n_rows,)
        """
        return self._derivatives(scores, y, weight, group)

    def lgbm_ranker_metric(
        self, y: Any, scores: Any, weight: Any, group: Any
    ) -> tuple[str, float, bool]:
        """The loss for ``LGBMRanker().fit(..., eval_metric=objective.lgbm_ranker_metric)``.

        Parameters
        ----------
        y, scores, weight, group
            As for `lgbm_ranker`.

        Returns
        -------
        name, value, greater_is_better
        """
        return _NAME, self._rows(y, weight, group).loss(scores), False

    def xgboost(self, scores: Any, dmatrix: Any) -> tuple[Array, Array]:
        """Gradient and Hessian for ``xgboost.train(..., obj=objective.xgboost)``.

        Parameters
        ----------
        scores : ndarray of shape (n_rows,)
        dmatrix : xgboost.DMatrix

        Returns
        -------
        gradient, hessian : ndarray of shape (n_rows,)
        """
        return self._derivatives(scores, *_of_dmatrix(dmatrix))

    def xgboost_metric(self, scores: Any, dmatrix: Any) -> tuple[str, float]:
        """The loss for ``xgboost.train(..., custom_metric=objective.xgboost_metric)``.

        Parameters
        ----------
        scores, dmatrix
            As for `xgboost`.

        Returns
        -------
        name, value
        """
        return _NAME, self._rows(*_of_dmatrix(dmatrix)).loss(scores)

    def catboost_weights(self, qid: Any) -> Array:
        """Weights with which CatBoost's QueryRMSE is the root of this loss, up to a factor.

        Pass them as ``group_weight`` to `CatBoostRanker.fit` or `catboost.Pool`, together with
        ``loss_function="QueryRMSE"``. The rows of a query must be adjacent there.

        QueryRMSE compares all rows of a query, and custom objectives of CatBoost see no queries.
        Tied pairs can therefore not be excluded in CatBoost.

        Parameters
        ----------
        qid : array-like of shape (n_rows,)
            The query of every row.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        if self.ties == "exclude":
            raise ParameterError(
                'ties="exclude" is not possible in CatBoost: its QueryRMSE compares all rows of a '
                'query, and its custom objectives see no queries. Use ties="include", or LightGBM '
                "or XGBoost."
            )
        groups = QueryGroups.of(qid)
        n = groups.sizes.astype(np.float64)
        weight: Array = n * pair_weight(self.weighting, n, n * (n - 1) / 2)
        return weight[groups.codes]

    def _derivatives(self, scores: Any, y: Any, weight: Any, group: Any) -> tuple[Array, Array]:
        rows = self._rows(y, weight, group)
        return rows.gradient(scores), rows.hessian

    def _rows(self, y: Any, weight: Any, group: Any) -> RowObjective:
        """The objective of the rows of a data set, which is asked for in every round."""
        if weight is not None and len(weight):
            raise DataError(
                "The loss is on pairs of rows, so that weights of rows have no meaning: leave "
                "them out, and choose the weights of pairs by weighting."
            )
        for labels, sizes, known in self._recent:
            if np.array_equal(labels, y) and _equal(sizes, group):
                return known
        qid = None if group is None else np.repeat(np.arange(len(group)), group)
        rows = self.on_rows(y, qid)
        check_labels_differ(rows.y, QueryGroups.of(qid, len(rows.y)))
        self._recent.append((np.array(y), None if group is None else np.array(group), rows))
        del self._recent[:-_REMEMBERED]
        return rows


def _of_dmatrix(dmatrix: Any) -> tuple[Array, Array, Array | None]:
    """Labels, weights and query sizes."""
    bounds = dmatrix.get_uint_info("group_ptr")
    sizes = np.diff(bounds.astype(np.intp)) if len(bounds) > 1 else None
    return dmatrix.get_label(), dmatrix.get_weight(), sizes


def _equal(a: Array | None, b: Any) -> bool:
    return b is None if a is None else b is not None and np.array_equal(a, b)
