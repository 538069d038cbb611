"""BoostedRanker: gradient boosted trees with the loss of RankRLS."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array, Index
from rankwise.boosted.growing import as_lightgbm, read_trees
from rankwise.errors import DataError, ParameterError, warn
from rankwise.estimators._validation import DTYPES, check_new_ids, forget, validated
from rankwise.estimators.ranker_mixin import LOSS_PARAMETERS, RankerMixin, explain_calls, in_dtype
from rankwise.graph import QueryGroups
from rankwise.graph.label_checks import check_labels_differ, numeric_labels
from rankwise.metric_names import get_metric
from rankwise.metrics.ranking_scorer import LARGEST_GRADE, are_grades, default_metric
from rankwise.objectives import RankRLSObjective
from rankwise.parameters import AnyOf, Choice, Number, Rule, Whole, as_generator, check_parameters

if TYPE_CHECKING:
    from rankwise.boosted.growing import Grower

WITHOUT_HOLD_OUT = 100  # trees, if there are too few rows to hold any out
LONGEST_QUERY = 10_000  # of lambdarank
MANY_FEATURES = 200  # from here on, LightGBM is faster column by column


class BoostedRanker(RankerMixin, BaseEstimator):
    """Gradient boosted trees that minimize the squared pairwise loss of RankRLS.

    Each tree of LightGBM is fitted to the gradient of

        1/2 sum_ij W_ij ((y_i - y_j) - (f(x_i) - f(x_j)))^2,

    the loss of `RankRLS`, where W_ij > 0 for rows of the same query. Trees find interactions and
    steps that a linear ranker cannot, and do not depend on the scale of features. The number of
    trees is chosen on held-out queries; the trees are then fitted to all rows.

    O(m d) time for a tree on m rows with d features, six times this with
    ``n_estimators="auto"``. Memory: a byte for each value of X in addition to X.

    LightGBM is an extra: ``pip install 'rankwise[boost]'``.

    Parameters
    ----------
    n_estimators : int or "auto", default="auto"
        The number of trees. "auto": the number with the best `metric` on held-out queries, up to
        `max_estimators`. Queries with different labels are dealt into `cv` folds in turn. If there
        is only one such query, its rows are dealt into folds in the order of their labels, and
        those of a fold are compared. If there are too few rows for that, 100 trees.
    learning_rate : float, default=0.05
        The share of a tree's values that is added to the scores.
    max_leaf_nodes : int, default=15
        The largest number of leaves of a tree.
    min_samples_leaf : int, optional
        The least number of rows in a leaf. None: a twentieth of the rows, at most 20.
    l2_regularization : float, default=1.0
        Added to the number of rows in the denominator of a leaf's value.
    max_features : float, default=1.0
        The share of features, chosen at random, that is considered at each split.
    loss : {"rankrls", "lambdarank"}, default="rankrls"
        "lambdarank" is LightGBM's own objective, for grades from 0 to 30.
    ties : {"include", "exclude"}, default="include"
        Whether pairs of rows with equal labels count; only for ``loss="rankrls"``.
    weighting : {"pairs", "rows", "queries"}, default="rows"
        The weight of a pair: 1, one over the number of rows of its query, or one over the number
        of pairs of its query; only for ``loss="rankrls"``.
    metric : str, default="auto"
        What the number of trees is chosen by: a name of `rankwise.metrics.METRICS`, such as
        "ndcg@10". "auto": ndcg@10 if there are queries and the labels are grades (whole numbers
        from 0 to 30), otherwise disagreement.
    max_estimators : int, default=1000
        The largest number of trees that "auto" tries. It stops earlier if 50 further trees do not
        help.
    cv : int, default=5
        The number of folds for "auto".
    random_state : int, Generator, RandomState or None, default=None
        Seed for `max_features`; nothing else is random.
    n_jobs : int, optional
        The number of threads; -1 means all processors, and more are not used. It does not change
        the result.

    Attributes
    ----------
    booster_ : lightgbm.Booster
        The trees.
    n_estimators_ : int
        The number of trees.
    held_out_scores_ : ndarray of shape (n_tried,) or None
        The metric on held-out queries with 1, 2, ... trees; None if `n_estimators` is a number.
    metric_ : str
        The name of the metric of `held_out_scores_`.
    feature_importances_ : ndarray of shape (n_features,)
        The share of each feature in the reduction of the loss.
    n_queries_ : int
        Number of queries seen in `fit`.
    n_features_in_, feature_names_in_
        Number and names of the features seen in `fit`.

    See Also
    --------
    rankwise.objectives : the same loss for your own models of LightGBM, XGBoost and CatBoost.

    Notes
    -----
    NaN is a missing value: each split learns the side to which such rows go. In sparse rows, values
    that are not stored are zeros.

    Examples
    --------
    >>> from rankwise import BoostedRanker
    >>> from rankwise.data import make_ranking
    >>> data = make_ranking(30, rows_per_query=20, n_features=4, n_levels=3, random_state=0)
    >>> ranker = BoostedRanker(learning_rate=0.2).fit(data.X, data.y, qid=data.qid)
    >>> ranker.n_estimators_ > 1
    True
    >>> ranker.score(data.X, data.y, qid=data.qid) > 0.9
    True
    """

    __metadata_request__predict = {"qid": True}  # noqa: RUF012

    parameters: ClassVar[Mapping[str, Rule]] = {
        "n_estimators": AnyOf(Whole(1, 100_000), Choice("auto")),
        "learning_rate": Number(0, open_low=True),
        "max_leaf_nodes": Whole(2, 2**17),
        "min_samples_leaf": AnyOf(Whole(1, 2**31 - 1), None),
        "l2_regularization": Number(0),
        "max_features": Number(0, 1, open_low=True),
        "loss": Choice("rankrls", "lambdarank"),
        **LOSS_PARAMETERS,
        "max_estimators": Whole(1, 100_000),
        "cv": Whole(2),
    }

    def __init__(
        self,
        n_estimators: int | str = "auto",
        *,
        learning_rate: float = 0.05,
        max_leaf_nodes: int = 15,
        min_samples_leaf: int | None = None,
        l2_regularization: float = 1.0,
        max_features: float = 1.0,
        loss: str = "rankrls",
        ties: str = "include",
        weighting: str = "rows",
        metric: str = "auto",
        max_estimators: int = 1000,
        cv: int = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_features = max_features
        self.loss = loss
        self.ties = ties
        self.weighting = weighting
        self.metric = metric
        self.max_estimators = max_estimators
        self.cv = cv
        self.random_state = random_state
        self.n_jobs = n_jobs

    @explain_calls
    def fit(self, X: Any, y: Any, *, qid: Any = None) -> Self:
        """Fit to labelled rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
            NaN is a missing value.
        y : array-like of shape (n_rows,)
            Scores, higher is better.
        qid : array-like of shape (n_rows,), optional
            The query of every row, as integers or text, in any order. None: one global ranking.

        Returns
        -------
        self
        """
        grower, metric, X, groups = self._prepare(X, y, qid)
        curve, n_trees = None, self.n_estimators
        if n_trees == "auto":
            curve = grower.held_out_scores(metric, self.cv, self.max_estimators)
            n_trees = WITHOUT_HOLD_OUT if curve is None else curve.best
        growth = grower.start()
        for _ in range(int(n_trees)):
            growth.grow()
        self.booster_ = read_trees(growth.booster.model_to_string(), X.shape[1])
        self.n_estimators_, self.n_queries_ = int(n_trees), groups.n_groups
        self.held_out_scores_ = None if curve is None else curve.scores
        self.metric_ = metric
        if not self.booster_.feature_importance("split").any():
            warn(
                "No tree has a split, so all rows get the same score: the features are constant, "
                "or a leaf needs more rows than there are. Check X, or use a smaller "
                "min_samples_leaf.",
            )
        return self

    def held_out_predictions(
        self, X: Any, y: Any, *, fold: Any, qid: Any = None
    ) -> tuple[Index, Array]:
        """Predictions for held-out rows by trees that were fitted without their fold.

        The trees of a fold are grown once: this takes about as long as one fit for each fold. An
        earlier fit is forgotten.

        Parameters
        ----------
        X, y, qid
            As for `fit`.
        fold : array-like of int, shape (n_rows,)
            The fold of every row: 0, 1, ...

        Returns
        -------
        n_estimators : ndarray of shape (n_stages,)
            Numbers of trees, up to `max_estimators`, or to where further trees did not help.
        predictions : ndarray of shape (n_stages, n_rows)
            The predictions for each.
        """
        grower, metric, X, groups = self._prepare(X, y, qid)
        fold = np.asarray(fold, dtype=np.intp)
        stages = grower.held_out_stages(fold[groups.order], metric, self.max_estimators)
        predictions = np.empty_like(stages.predictions)
        predictions[:, groups.order] = stages.predictions
        return stages.n_estimators, predictions

    def _prepare(self, X: Any, y: Any, qid: Any) -> tuple[Grower, str, Any, QueryGroups]:
        """Checked rows in LightGBM's bins, the metric, the rows, and their queries as given."""
        from rankwise.boosted.growing import Grower  # imported late: it needs LightGBM

        check_parameters(self, self.parameters)
        forget(self)
        X, y = validated(
            self, X, numeric_labels(y), accept_sparse="csr", dtype=DTYPES,
            ensure_all_finite="allow-nan",
            ensure_min_samples=2, y_numeric=True,
        )  # fmt: skip
        y, groups = np.asarray(y, dtype=np.float64), QueryGroups.of(qid, len(y))
        check_labels_differ(y, groups)
        objective = self._objective(y, groups)
        metric = default_metric(y, groups.n_groups) if self.metric == "auto" else self.metric
        get_metric(metric)  # raises an error if there is none of this name
        rows, in_order = X, groups
        if not groups.contiguous:
            rows, y, in_order = X[groups.order], y[groups.order], groups.take(groups.order)
        return Grower(rows, y, in_order, objective, self._settings(X.shape)), metric, X, groups

    def _objective(self, y: Array, groups: QueryGroups) -> RankRLSObjective | None:
        """The objective; None for that of LightGBM, after checks that its errors lack."""
        if self.loss == "rankrls":
            return RankRLSObjective(self.ties, self.weighting)
        if (self.ties, self.weighting) != ("include", "rows"):
            raise ParameterError(
                'ties and weighting are for loss="rankrls": leave them out with loss="lambdarank", '
                "which compares rows with different labels."
            )
        if not are_grades(y):
            row = int(np.argmax((y != np.floor(y)) | (y < 0) | (y > LARGEST_GRADE)))
            raise DataError(
                f'loss="lambdarank" needs grades, whole numbers from 0 to {LARGEST_GRADE}: got '
                f'{y[row]:g} in row {row}. Use loss="rankrls", or map the labels to grades.'
            )
        if groups.sizes.max() > LONGEST_QUERY:
            raise DataError(
                f'loss="lambdarank" takes up to {LONGEST_QUERY:,} rows per query: got '
                f'{groups.sizes.max():,}. Use loss="rankrls", which has no limit.'
            )
        return None

    def _settings(self, shape: tuple[int, int]) -> dict[str, Any]:
        """LightGBM's parameters. The choice between rows and columns must not depend on timing."""
        least = int(self.min_samples_leaf or min(20, max(1, shape[0] // 20)))
        by_columns = shape[1] > MANY_FEATURES
        return {
            "objective": "none" if self.loss == "rankrls" else "lambdarank",
            "metric": "none",
            "learning_rate": float(self.learning_rate),
            "num_leaves": int(self.max_leaf_nodes),
            "min_data_in_leaf": least,
            "min_data_in_bin": min(3, least),
            "lambda_l2": float(self.l2_regularization),
            "feature_fraction_bynode": float(self.max_features),
            "feature_pre_filter": False,
            "seed": int(as_generator(self.random_state).integers(2**31)),
            "num_threads": self._n_threads(),
            "deterministic": True,
            "force_col_wise": by_columns,
            "force_row_wise": not by_columns,
            "verbosity": -1,
        }

    def _n_threads(self) -> int:
        """At most one for each processor: OpenMP ends the process if it cannot start them."""
        return min(effective_n_jobs(self.n_jobs), os.cpu_count() or 1)

    def predict(self, X: Any, *, qid: Any = None) -> Any:
        """Scores of rows: higher is better.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        qid : array-like of shape (n_rows,), optional
            The query of every row, as for all rankers. These scores do not depend on it.

        Returns
        -------
        ndarray of shape (n_rows,)
            In the dtype of X, if that is float32 or float64.
        """
        check_is_fitted(self)
        X = validated(
            self, X, accept_sparse="csr", dtype=DTYPES, ensure_all_finite="allow-nan", reset=False
        )
        check_new_ids(qid, X)
        scores = self.booster_.predict(as_lightgbm(X), num_threads=self._n_threads())
        return in_dtype(scores, X.dtype)

    @property
    def feature_importances_(self) -> Array:
        check_is_fitted(self)
        gain = np.asarray(self.booster_.feature_importance("gain"), dtype=np.float64)
        return gain / (gain.sum() or 1.0)

    def __getstate__(self) -> dict[str, Any]:
        """The trees as text, for pickles and model files."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "booster_" in state:
            state["trees_"] = state.pop("booster_").model_to_string()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        trees = state.pop("trees_", None)
        super().__setstate__(state)
        if trees is not None:
            self.booster_ = read_trees(trees, self.n_features_in_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "booster_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags
