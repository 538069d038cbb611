"""BoostedRanker: gradient boosted trees with the loss of RankRLS, grown by LightGBM.

Texts of trees are checked before LightGBM reads them. It does not check the numbers in a text: a
child that does not exist makes it read outside its memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.errors import DataError, MissingExtraError, ModelFileError, ParameterError, warn
from rankwise.estimators.base import (
    LOSS_PARAMETERS,
    MONOTONE_PARAMETERS,
    RankerMixin,
    explain_calls,
    in_dtype,
)
from rankwise.estimators.ranker_rows import DTYPES, check_new_ids, forget, validated
from rankwise.graph import QueryGroups
from rankwise.graph.query_groups import check_labels_differ, numeric_labels
from rankwise.metric_names import LARGEST_GRADE, are_grades, default_metric, get_metric
from rankwise.objectives import RankRLSObjective, RowObjective
from rankwise.parameters import (
    AnyOf,
    Choice,
    Flag,
    Number,
    OptionsMixin,
    Rule,
    Whole,
    as_generator,
    check_parameters,
    monotone_signs,
)

PATIENCE = 50
"""Stop after this many trees that do not improve on the best number so far."""

LEAST, LARGEST = 1e-30, 1e30
"""The range of gradients that LightGBM can represent in 32 bits."""

STAGE_RATIO = 1.2
"""The least ratio of a number of trees to the one before, where predictions are kept."""


def _derivatives(objective: RowObjective, scores: Any, _: Any) -> tuple[Array, Array]:
    """Gradient and Hessian in units of rows, so that l2_regularization is comparable."""
    unit = 1.0 / objective.hessian.mean()
    gradient = unit * objective.gradient(scores)
    largest, is_first = np.abs(gradient).max(), not np.any(scores)
    if not largest < LARGEST:
        if is_first:
            raise DataError("The labels are too large: divide them by a constant.")
        raise DataError("Scores overflow: use a smaller learning_rate.")
    if is_first and 0.0 < largest < LEAST:
        raise DataError(
            "The labels of a query differ by too little for LightGBM: multiply them by a constant."
        )
    return gradient, unit * objective.hessian


class Grower:
    """Rows in LightGBM's bins, sorted by query.

    Parameters
    ----------
    X, y : array-like or sparse, ndarray
        Rows and labels; the rows of a query are adjacent.
    groups : QueryGroups
    objective : RankRLSObjective or None
        None: the objective that `settings` name.
    settings : mapping
        LightGBM's parameters.
    """

    def __init__(
        self,
        X: Any,
        y: Array,
        groups: QueryGroups,
        objective: RankRLSObjective | None,
        settings: Mapping[str, Any],
    ) -> None:
        self._lightgbm = require_lightgbm()
        self._y, self._groups, self._objective = y, groups, objective
        self._settings = dict(settings)
        own = {"label": np.zeros(len(y))} if objective else {"label": y, "group": groups.sizes}
        self._data = self._lightgbm.Dataset(as_lightgbm(X), params=self._settings, **own)
        self._data.construct()
        if not any(self._data.feature_num_bin(k) for k in range(X.shape[1])):
            raise DataError(
                "All features are zero, or nearly so: trees cannot be split. Check X, or multiply "
                "features below 1e-35 by a constant."
            )

    def start(
        self, rows: Index | None = None, held_out: Index | None = None
    ) -> tuple[Any, Callable[[], Any]]:
        """A booster without trees, and a function that adds a tree.

        It is for all rows or for some, while other rows are predicted on the way.
        """
        data = self._data if rows is None else self._data.subset(rows)
        booster = self._lightgbm.Booster(self._settings, data)
        if held_out is not None:
            booster.add_valid(self._data.subset(held_out), "held out")
        if self._objective is None:
            return booster, booster.update
        rows = np.arange(len(self._y)) if rows is None else rows
        objective = self._objective.on_rows(self._y[rows], self._groups.codes[rows])
        return booster, partial(booster.update, fobj=partial(_derivatives, objective))

    def held_out_scores(self, metric: str, n_folds: int, most: int) -> tuple[Array, int] | None:
        """The metric on held-out rows with 1, 2, ... trees, over all folds, and the best number.

        Folds of whole queries; of rows, if fewer than two queries have different labels. None if
        there are too few rows.
        """
        fold, queries = deal_into_folds(self._y, self._groups, n_folds)
        if fold is None:
            return None
        values = [value for value, _ in self.hold_out(fold, queries, metric, most)]
        gains = values if get_metric(metric).greater_is_better else np.negative(values)
        return np.array(values), int(np.argmax(gains)) + 1

    def hold_out(
        self,
        fold: Index,
        queries: Index,
        metric: str,
        most: int,
        growers: Sequence[Grower] | None = None,
    ) -> Iterator[tuple[float, Array]]:
        """The metric of held-out rows, and their scores, with 1, 2, ... trees; fold -1: no test.

        Stops at `most` trees, or if `PATIENCE` trees do not help. `growers` have the same rows with
        other features for each fold. The array of scores is the same each time.
        """
        function, greater_is_better = get_metric(metric)
        sign = 1.0 if greater_is_better else -1.0
        held_out = np.full(len(self._y), np.nan)
        growths = []
        for k in range(fold.max() + 1):
            train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            grower = self if growers is None else growers[k]
            growths.append((*grower.start(train, test), test))
        known = np.flatnonzero(fold >= 0)
        n, best, best_gain = 0, 0, -np.inf
        while n < most and n - best <= PATIENCE:
            for booster, grow, test in growths:
                grow()
                held_out[test] = _scores_on_the_way(booster)
            value = function(self._y[known], held_out[known], queries[known])
            if sign * value > best_gain:
                best, best_gain = n, sign * value
            n += 1
            yield value, held_out


def deal_into_folds(y: Array, groups: QueryGroups, n_folds: int) -> tuple[Index | None, Index]:
    """The fold of each row (-1: never held out), and which held-out rows are compared.

    Queries with different labels are dealt in turn. If there is only one, its rows are dealt in the
    order of their labels, and the rows of a fold are compared. None if some fold would not have two
    different labels.
    """
    order = np.lexsort((y, groups.codes))
    codes, labels = groups.codes[order], y[order]
    differ = (codes[1:] == codes[:-1]) & (labels[1:] != labels[:-1])
    usable = np.unique(codes[1:][differ])
    if len(usable) > 1:
        fold_of = np.full(groups.n_groups, -1)
        fold_of[usable] = np.arange(len(usable)) % n_folds
        return fold_of[groups.codes], groups.codes
    rows = np.flatnonzero(groups.codes == usable[0])
    rows = rows[np.argsort(y[rows], kind="stable")]
    n_folds = min(n_folds, len(rows) // 2)
    fold = np.full(len(y), -1)
    fold[rows] = np.arange(len(rows)) % max(n_folds, 1)
    parts = [y[fold == k] for k in range(n_folds)]
    rest = [y[rows[fold[rows] != k]] for k in range(n_folds)]
    if n_folds < 2 or any(np.ptp(part) == 0 for part in (*parts, *rest)):
        return None, fold
    return fold, fold


def _scores_on_the_way(booster: Any) -> Array:
    """The scores of the held-out rows with the trees so far."""
    kept: list[Array] = []

    def keep(scores: Array, _: Any) -> tuple[str, float, bool]:
        kept.append(scores)
        return "", 0.0, False

    booster.eval_valid(keep)
    return kept[0]


def require_lightgbm() -> Any:
    """The module lightgbm; an error that names the install command if it is missing."""
    try:
        import lightgbm
    except ImportError:
        raise MissingExtraError("lightgbm", "boost") from None
    return lightgbm


def as_lightgbm(X: Any) -> Any:
    """Rows in a form that LightGBM accepts."""
    return sp.csr_matrix(X) if is_sparse(X) else X


def read_trees(text: str, n_features: int) -> Any:
    """The booster that a text of `Booster.model_to_string` describes."""
    lightgbm = require_lightgbm()
    check_trees(text, n_features)
    return lightgbm.Booster(model_str=text)


def check_trees(text: str, n_features: int) -> None:
    """Refuse a text unless its trees rank rows with this many features."""
    if not isinstance(text, str) or "\nend of trees\n" not in text:
        raise ModelFileError("the text of the trees has no end")
    trees, _, _ = text.partition("\nend of trees\n")
    head, *blocks = trees.split("\nTree=")
    header = _fields(head)
    wanted = {"num_class": 1, "num_tree_per_iteration": 1, "max_feature_idx": n_features - 1}
    for name, value in wanted.items():
        if header.get(name) != str(value):
            raise ModelFileError(f"{name} of the trees must be {value}: got {header.get(name)}")
    # LightGBM jumps from tree to tree by these sizes, which count the newline after each tree.
    sizes = [len(f"Tree={block}".encode()) + 1 for block in blocks]
    if header.get("tree_sizes", "").split() != [str(size) for size in sizes]:
        raise ModelFileError("the sizes of the trees are wrong")
    for number, block in enumerate(blocks):
        if not _is_tree(_fields(f"Tree={block}"), number, n_features):
            raise ModelFileError(f"tree {number} is damaged")


def _fields(text: str) -> dict[str, str]:
    """Lines name=value; each name once."""
    pairs = [line.split("=", 1) for line in text.splitlines() if "=" in line]
    if len({name for name, *_ in pairs}) < len(pairs):
        raise ModelFileError("a tree has a field twice")
    return dict(pairs)


def _is_tree(fields: dict[str, str], number: int, n_features: int) -> bool:
    """Whether the nodes form one binary tree with numerical splits on existing features.

    Children that are not negative are nodes, which follow their parents; others are leaves -1, -2,
    and so on.
    """
    if fields.get("Tree") != str(number) or fields.get("num_cat") != "0":
        return False
    if fields.get("is_linear", "0") != "0":
        return False
    try:
        n_leaves = int(fields["num_leaves"])
        names = ("left_child", "right_child", "split_feature", "decision_type")
        left, right, feature, decision = (_numbers(fields, name, n_leaves - 1) for name in names)
        leaves = _numbers(fields, "leaf_value", n_leaves)
        thresholds = _numbers(fields, "threshold", n_leaves - 1)
    except (KeyError, ValueError):
        return False
    if n_leaves == 1:  # the root is the leaf
        return bool(np.isfinite(leaves).all())
    nodes, children = np.arange(n_leaves - 1), np.concatenate((left, right))
    all_but_the_root = np.concatenate((np.arange(-n_leaves, 0), nodes[1:]))
    return bool(
        np.array_equal(np.sort(children), all_but_the_root)
        and (children > np.tile(nodes, 2))[children >= 0].all()
        and ((feature >= 0) & (feature < n_features)).all()
        and (decision.astype(int) & 1 == 0).all()  # bit 0: a split on categories
        and np.isfinite(leaves).all()
        and not np.isnan(thresholds).any()
    )


def _numbers(fields: dict[str, str], name: str, n: int) -> Any:
    """The numbers of a field, which a tree of a single leaf may leave out."""
    found = np.array([float(word) for word in fields.get(name, "").split()])
    if len(found) != n:
        raise ValueError(f"{name} has {len(found)} numbers")
    return found


WITHOUT_HOLD_OUT = 100  # trees, if there are too few rows to hold any out
LONGEST_QUERY = 10_000  # of lambdarank
MANY_FEATURES = 200  # from here on, LightGBM is faster column by column


OPTIONS: dict[str, Rule] = {
    "max_estimators": Whole(1, 100_000),
    "cv": Whole(2),
    "random_splits": Flag(),
}


@dataclass(frozen=True)
class BoostedOptions:
    """How `BoostedRanker` chooses the number of trees and the splits.

    Parameters
    ----------
    max_estimators : int, default=1000
        The largest number of trees that is tried for ``n_estimators="auto"``. It stops earlier if
        50 further trees do not help.
    cv : int, default=5
        The number of folds for ``n_estimators="auto"``.
    random_splits : bool, default=False
        Whether each split considers one random threshold of every feature instead of all
        thresholds, as in extremely randomized trees. This takes less time, and often ranks better
        if scores are smooth or noisy, but worse if they have steps and sharp interactions.

    Examples
    --------
    >>> from rankwise import BoostedOptions, BoostedRanker
    >>> ranker = BoostedRanker(options=BoostedOptions(max_estimators=200))
    """

    max_estimators: int = 1000
    cv: int = 5
    random_splits: bool = False


@explain_calls
@dataclass(eq=False, repr=False)
class BoostedRanker(OptionsMixin, RankerMixin, BaseEstimator):
    """Gradient boosted trees that minimize the squared pairwise loss of RankRLS.

    Each tree of LightGBM is fitted to the gradient of

        1/2 sum_ij W_ij ((y_i - y_j) - (f(x_i) - f(x_j)))^2,

    the loss of `RankRLS`, where W_ij > 0 for rows of the same query. Trees can model interactions
    and steps, unlike a linear ranker, and do not depend on the scale of features. The number of
    trees is chosen on held-out queries; the trees are then fitted to all rows.

    O(m d) time for a tree on m rows with d features, six times this with
    ``n_estimators="auto"``. Memory: a byte for each value of X in addition to X.

    LightGBM is an extra: ``pip install 'rankwise[boost]'``.

    Parameters
    ----------
    n_estimators : int or "auto", default="auto"
        The number of trees. "auto": the number with the best `metric` on held-out queries, up to
        1000. Queries with different labels are dealt into five folds in turn, in the order of their
        first rows: the number can change if queries come in another order. If there is only one
        such query, its rows are dealt into folds in the order of their labels, and the rows of a
        fold are compared. If there are too few rows for that, 100 trees.
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
        The metric by which the number of trees is chosen: a name of `rankwise.metrics.METRICS`,
        such as "ndcg@10". "auto": ndcg@10 if there are queries and the labels are grades (whole
        numbers from 0 to 30), otherwise disagreement.
    monotone : dict, optional
        Features that never lower (1) or never raise (-1) a score when their values rise, such as
        ``{"price": -1}``, by name, or by position if X has no names. Missing values are apart.
    options : BoostedOptions, optional
        The largest number of trees and the number of folds for "auto", and random splits.
    random_state : int, Generator, RandomState or None, default=None
        Seed for `max_features` and random splits; nothing else is random.
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
        **MONOTONE_PARAMETERS,
    }
    option_classes: ClassVar[dict[str, Any]] = {"options": BoostedOptions}
    takes_monotone: ClassVar[bool] = True

    n_estimators: int | str = "auto"
    _: KW_ONLY
    learning_rate: float = 0.05
    max_leaf_nodes: int = 15
    min_samples_leaf: int | None = None
    l2_regularization: float = 1.0
    max_features: float = 1.0
    loss: str = "rankrls"
    ties: str = "include"
    weighting: str = "rows"
    metric: str = "auto"
    monotone: Any = None
    options: BoostedOptions | None = None
    random_state: Any = None
    n_jobs: int | None = None

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
        scores, n_trees = None, self.n_estimators
        if n_trees == "auto":
            options = self.options_in("options")
            found = grower.held_out_scores(metric, options.cv, options.max_estimators)
            scores, n_trees = (None, WITHOUT_HOLD_OUT) if found is None else found
        booster, grow = grower.start()
        for _ in range(int(n_trees)):
            grow()
        self.booster_ = read_trees(booster.model_to_string(), X.shape[1])
        self.n_estimators_, self.n_queries_ = int(n_trees), groups.n_groups
        self.held_out_scores_ = scores
        self.metric_ = metric
        if not self.booster_.feature_importance("split").any():
            warn(
                "No tree has a split, so all rows get the same score: the features are constant, "
                "or a leaf needs more rows than there are. Check X, or use a smaller "
                "min_samples_leaf.",
            )
        return self

    def held_out_predictions(
        self, X: Any, y: Any, *, fold: Any, qid: Any = None, X_of_folds: Any = None
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
        X_of_folds : sequence of array-like, optional
            For each fold, the features of all rows, where these are computed from the rows outside
            the fold. None: X for all folds.

        Returns
        -------
        n_estimators : ndarray of shape (n_stages,)
            Numbers of trees, up to ``max_estimators`` of the options, or to where further trees did
            not help.
        predictions : ndarray of shape (n_stages, n_rows)
            The predictions for each.
        """
        growers = None
        if X_of_folds is not None:
            growers = [self._prepare(rows, y, qid)[0] for rows in X_of_folds]
        grower, metric, X, groups = self._prepare(X, y, qid)
        fold = np.asarray(fold, dtype=np.intp)[groups.order]
        # Rows of one global ranking are compared within their fold.
        queries = groups.codes[groups.order] if groups.n_groups > 1 else fold
        most = self.options_in("options").max_estimators
        numbers: list[int] = []
        kept: list[Array] = []
        stages = grower.hold_out(fold, queries, metric, most, growers)
        for n, (_, scores) in enumerate(stages, 1):
            if n >= STAGE_RATIO * (numbers[-1] if numbers else 0):
                numbers.append(n)
                kept.append(scores.copy())
        predictions = np.empty((len(kept), len(fold)))
        predictions[:, groups.order] = kept
        return np.array(numbers), predictions

    def _prepare(self, X: Any, y: Any, qid: Any) -> tuple[Grower, str, Any, QueryGroups]:
        """Checked rows in LightGBM's bins, the metric, the rows, and their queries as given."""
        check_parameters(self, self.parameters)
        check_parameters(self.options_in("options"), OPTIONS)
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
        """The objective; None for LightGBM's, after checks that its errors lack."""
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
        signs = monotone_signs(self.monotone, getattr(self, "feature_names_in_", None), shape[1])
        constraints = {} if signs is None else {"monotone_constraints": list(signs)}
        return {
            **constraints,
            "objective": "none" if self.loss == "rankrls" else "lambdarank",
            "metric": "none",
            "learning_rate": float(self.learning_rate),
            "num_leaves": int(self.max_leaf_nodes),
            "min_data_in_leaf": least,
            "min_data_in_bin": min(3, least),
            "lambda_l2": float(self.l2_regularization),
            "feature_fraction_bynode": float(self.max_features),
            "extra_trees": bool(self.options_in("options").random_splits),
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
