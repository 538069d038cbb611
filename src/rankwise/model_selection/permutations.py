"""Permutations of labels, to test a held-out score, and of features, to measure importance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import GroupKFold
from sklearn.utils.validation import check_consistent_length

from rankwise.backends.arrays import Array, Index, is_sparse, is_tensor, to_host
from rankwise.errors import DataError, ParameterError, warn
from rankwise.estimators.base import explain_calls
from rankwise.graph import QueryGroups
from rankwise.graph.query_groups import numeric_labels
from rankwise.holdout.engine import hold_out
from rankwise.holdout.hold_out_problem import HoldOutProblem
from rankwise.holdout.leave_pair_out import pair_credit, shares_system
from rankwise.holdout.pair_differences import settled
from rankwise.holdout.permuted_labels import (
    permuted,
    permuted_errors,
    stacked_errors,
    stacks,
)
from rankwise.holdout.scores import given_note, given_words
from rankwise.metric_names import metric_label
from rankwise.metrics import QueryValues, get_metric
from rankwise.model_selection.cross_validation import scores_of_columns
from rankwise.model_selection.hold_outs import Units, check_two_rows, hold_out_problem
from rankwise.model_selection.rows import (
    LabelledRows,
    Splits,
    as_rows,
    class_labels,
    listed_splits,
    stratified_folds,
)
from rankwise.model_selection.trials import RowHoldOuts
from rankwise.parameters import Whole, as_generator, check_value
from rankwise.progress import progress_bar
from rankwise.routing import predict_with_queries
from rankwise.tables import Column, Table, TableMixin, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NESTED_FOLDS = 5, 10  # folds and repeats, as in `nested_leave_pair_out`
ROUNDING = 1e-12  # difference of equal scores


@dataclass(frozen=True, eq=False, repr=False)
class PermutationTest(TableMixin):
    """A held-out score beside the scores of permuted labels.

    Attributes
    ----------
    score : float
        The area under the ROC curve (for more than two labels, the share of pairs in the right
        order) of held-out pairs, at the best of several alphas; or another held-out score.
    null : ndarray of shape (n_permutations,)
        The same for permuted labels, in the order of the permutations.
    metric : str, default="AUC"
    greater_is_better : bool, default=True
    shared : tuple of str
        What was computed from all rows, held-out ones included, as for `LeavePairOut`. It does not
        depend on labels, and is the same for all permutations.

    Examples
    --------
    >>> import numpy as np
    >>> print(PermutationTest(0.9, np.array([0.4, 0.6, 0.5, 0.55])))
       AUC  by chance    s.d.    p  s.e. of p  permutations
    ------  ---------  ------  ---  ---------  ------------
    0.9000     0.5125  0.0854  0.2      0.179             4
    """

    score: float
    null: Array
    metric: str = "AUC"
    greater_is_better: bool = True
    shared: tuple[str, ...] = ()

    @property
    def p_value(self) -> float:
        """The share of labellings, the given one included, whose score is at least as good."""
        return (1 + self.n_as_good) / (1 + len(self.null))

    @property
    def n_as_good(self) -> int:
        """The number of permutations with a score that is at least as good as `score`."""
        excess = self.null - self.score
        return int(np.sum((excess if self.greater_is_better else -excess) >= -ROUNDING))

    @property
    def standard_error(self) -> float:
        """The Monte Carlo error of `p_value`: how much other permutations would change it."""
        p = self.p_value
        return float(np.sqrt(p * (1.0 - p) / (1 + len(self.null))))

    def to_table(self) -> Table:
        """The score, the mean and spread of permuted scores, and the p-value."""
        spread = float(self.null.std(ddof=1)) if len(self.null) > 1 else np.nan
        cells: dict[Column, Any] = {
            Column(metric_label(self.metric)): self.score,
            Column("by chance"): float(self.null.mean()),
            Column("s.d."): spread,
            Column("p", ".3g"): self.p_value,
            Column("s.e. of p", ".3g"): self.standard_error,
            Column("permutations"): len(self.null),
        }
        return Table(tuple(cells), (tuple(cells.values()),), note=given_note(self.shared))

    def _frame_columns(self) -> dict[str, Any]:
        """The scores of all permutations."""
        return {"permutation": np.arange(len(self.null)), self.metric.lower(): self.null}

    def __repr__(self) -> str:
        return (
            f"<PermutationTest: {metric_label(self.metric)} {self.score:.4f}, "
            f"{self.null.mean():.4f} by chance, "
            f"p = {self.p_value:.3g} ± {self.standard_error:.2g} from "
            f"{plural(len(self.null), 'permutation')}{given_words(self.shared)}>"
        )

    def plot(self, **options: Any) -> Axes:
        """Draw the null distribution; see `rankwise.plots.plot_null` for the options."""
        from rankwise.plots import plot_null

        return plot_null(self, **options)


def permutation_test(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    qid: Any = None,
    strata: Any = None,
    groups: Any = None,
    alpha: Any = None,
    positive: Any = None,
    cv: Any = "leave_pair_out",
    scoring: Any = "auto",
    n_permutations: int = 1000,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> PermutationTest:
    """Test whether features and labels are related, by a held-out score with permuted labels.

    If they are not, every order of the labels is as likely as the given one, and the p-value is at
    most p with probability p. All pairs are held out for every permutation, as in
    `leave_pair_out`. With several alphas, the best alpha is chosen for the given labels as for
    permuted labels: the p-value accounts for the choice.

    With ``ties="include"``, and for RLS, permutations share the factorization of `leave_pair_out`;
    each then takes O(m^2) time. With ``ties="exclude"``, the system depends on the labels, and each
    takes at most as long as one `leave_pair_out`. Up to 256 rows and five labels, the systems of
    many permutations are solved as one stack; beyond that, with queries and with groups, one
    permutation follows another.

    Parameters
    ----------
    estimator : RankRLS, SparseRankRLS, KPCRank, or one of their pointwise baselines
        With another `cv`, any estimator or pipeline. It is cloned, not fitted.
    X : array-like or sparse of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    qid : array-like of shape (n_rows,), optional
        Pairs are held out, and labels permuted, within queries.
    strata : array-like of shape (n_rows,), optional
        Such as hospitals or batches: the ranker learns from all pairs, but pairs are held out, and
        labels permuted, within strata. Not together with `qid`.
    groups : array-like of shape (n_rows,), optional
        Such as patients with several samples: pairs of groups are held out, and labels of groups
        permuted (within strata), so that the rows of a group must have the same label. Not together
        with `qid`.
    alpha : float or sequence of float, optional
        For leave-pair-out, nested or not. None: the estimator's alpha or, if it is "auto", a grid
        that follows the scale of the data.
    positive : label, optional
        Of classes, the one to rank first, against all others. Needed if y has words.
    cv : str, int, splitter or iterable, default="leave_pair_out"
        How to hold out rows. "nested_leave_pair_out": the 10 times 5 folds of
        `nested_leave_pair_out`, with alpha chosen by leave-pair-out within the training rows of
        each fold; the score is the nested AUC. All permutations have the folds of the given
        labels, so that this p-value is approximate. "leave_query_out", a number of folds and
        splits are as in `cross_validate`, whose exact hold-outs are used for all permutations
        together; other estimators are refitted for each permutation and split. With `groups`,
        folds consist of whole groups.
    scoring : str or callable, default="auto"
        The metric of `cross_validate`; for leave-pair-out, it is the AUC.
    n_permutations : int, default=1000
        The smallest possible p-value is 1 / (n_permutations + 1).
    n_jobs : int, optional
        Number of processes for refits. None: 1; -1: all cores.
    random_state : int or Generator, optional

    Returns
    -------
    PermutationTest

    References
    ----------
    Phipson, Smyth: Permutation p-values should never be zero. Statistical Applications in Genetics
    and Molecular Biology 9, 2010.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import load_dataset
    >>> from rankwise.model_selection import permutation_test
    >>> data = load_dataset("breast_cancer")
    >>> result = permutation_test(
    ...     RankRLS(1.0), data.X[:40], data.y[:40], n_permutations=99, random_state=0
    ... )
    >>> result.p_value
    0.01
    """
    check_value("n_permutations", n_permutations, Whole(1))
    rng = as_generator(random_state)
    y = class_labels(y, positive)
    nested = isinstance(cv, str) and cv == "nested_leave_pair_out"
    if not (nested or (isinstance(cv, str) and cv == "leave_pair_out")):
        if alpha is not None:
            raise ParameterError(
                'alpha is for cv="leave_pair_out": set the alpha of the estimator instead.'
            )
        labels = _single_labels(numeric_labels(to_host(y)))
        units = Units.of(strata, groups, qid, len(labels))
        Y = _permuted_labels(labels, units, QueryGroups.of(qid, len(labels)), n_permutations, rng)
        options = {"qid": qid, "scoring": scoring, "cv": _group_splits(cv, labels, units)}
        found = scores_of_columns(estimator, X, Y, n_jobs=n_jobs, **options)
        metric, greater, scores, shared = found
        return PermutationTest(float(scores[0]), scores[1:], metric, greater, shared)
    if scoring != "auto":
        raise ParameterError(
            f"Held-out pairs are scored by their AUC: scoring={scoring!r} needs another cv, such "
            'as cv=5 or "leave_query_out".'
        )
    given = hold_out_problem(estimator, X, y, qid, alpha)
    units = Units.of(strata, groups, qid, len(given.labels))
    labels = given.by_output(given.labels)
    check_two_rows(labels)
    if nested:
        if qid is not None:
            raise ParameterError('cv="nested_leave_pair_out" is for one ranking: leave out qid.')
        groups = None if units.groups is None else units.groups.codes
        splits = stratified_folds(labels, groups, *NESTED_FOLDS, rng)
        Y = _permuted_labels(labels, units, given.groups, n_permutations, rng)
        score = _nested_scores(estimator, X, labels, Y, units, splits, alpha)
        return PermutationTest(float(score[0]), score[1:], "nested AUC")
    Y = _permuted_labels(labels, units, given.groups, n_permutations, rng)
    score = 1.0 - _errors(estimator, X, given, Y, units, qid).min(axis=0)
    shared = given.shared(scaling=True)
    return PermutationTest(float(score[0]), score[1:], shared=shared)


def _single_labels(y: Any) -> Array:
    """Labels as numbers; an error unless each row has one."""
    labels = np.asarray(y, dtype=np.float64)
    if labels.ndim != 1:
        raise DataError(f"Permutations need one label per row: got y of shape {labels.shape}.")
    return labels


def _permuted_labels(
    labels: Array, units: Units, queries: QueryGroups, n: int, rng: np.random.Generator
) -> Array:
    """The labels, and permutations of them within strata or queries; groups are not divided."""
    within = queries if units.strata is None else units.strata
    groups = units.groups
    if groups is None:
        return permuted(labels, within, n, rng)
    first = groups.order[groups.indptr[:-1]]
    for values, name in ((labels, "labels"), (within.codes, "strata")):
        differ = values != values[first][groups.codes]
        if differ.any():
            group = groups.names[groups.codes[np.argmax(differ)]]
            raise DataError(
                f"The rows of group {group} have different {name}, but labels of whole groups are "
                "permuted. To permute labels within groups, give them as strata."
            )
    return permuted(labels[first], within.take(first), n, rng)[groups.codes]


def _group_splits(cv: Any, labels: Array, units: Units) -> Any:
    """Splits of whole groups, or `cv` without groups."""
    if units.groups is None:
        return cv
    if isinstance(cv, str):
        raise ParameterError(f"cv={cv!r} is for queries: with groups, use a number of folds.")
    cv = GroupKFold(cv) if isinstance(cv, int) else cv
    return listed_splits(cv, labels, labels, units.groups.codes)


def _errors(
    ranker: Any,
    X: Any,
    given: HoldOutProblem,
    Y: Array,
    units: Units,
    qid: Any = None,
    *,
    same_classes: bool = True,
) -> Array:
    """Shares of pairs in the wrong order for each alpha and each column of Y.

    If columns do not have the `same_classes`, shares may be multiplied by a number for each column,
    which does not change the order of alphas.
    """
    if units.groups is None:
        within = given.groups if units.strata is None else units.strata
        if shares_system(given):
            return permuted_errors(given, Y, within)
        if same_classes and stacks(given):
            try:
                return stacked_errors(given, Y, within)
            except np.linalg.LinAlgError:
                pass  # rounding errors: the other way is slower, and keeps more digits
    problem = hold_out_problem(ranker, X, Y, qid, given.alphas)
    return hold_out(problem, units.pairs(problem, keep_ties=False)).errors()[0]


def _nested_scores(
    ranker: Any, X: Any, labels: Array, Y: Array, units: Units, splits: Splits, alpha: Any
) -> Array:
    """The nested AUC of each column of Y, with the folds of the given labels for all of them."""
    held_out = RowHoldOuts(LabelledRows.of(X, labels, None), splits)
    right, compared = np.zeros((2, Y.shape[1]))
    stratum = QueryGroups.of(units.strata, len(labels)).codes
    with progress_bar("Permuted labels", len(splits)) as show:
        for k, out in enumerate(splits.tests):
            old, new, train = held_out.sides(ranker, k)
            f = np.zeros((len(out), Y.shape[1]))
            # Labels that are all equal in the training rows order nothing: predictions are tied.
            some = np.flatnonzero(np.ptp(Y[train], axis=0) > 0)
            given = hold_out_problem(ranker, old.X, old.y, None, alpha)
            rows = ranker, old.X, given, Y[np.ix_(train, some)], units.take(train)
            errors = _errors(*rows, same_classes=False)
            # Of equally good alphas the largest, as in `LeavePairOut`.
            tied = errors <= errors.min(axis=0) + ROUNDING
            best = len(errors) - 1 - np.argmax(tied[::-1], axis=0)
            for a in np.unique(best):
                chose = some[best == a]
                path = ranker.path(old.X, Y[np.ix_(train, chose)], given.alphas[[a]])
                f[:, chose] = to_host(path.predict(new.X))[0]
            i, j = np.triu_indices(len(out), 1)
            i, j = (part[stratum[out[i]] == stratum[out[j]]] for part in (i, j))
            gap = Y[out[i]] - Y[out[j]]
            difference = settled(f[i] - f[j], abs(f[i]) + abs(f[j]))
            right += pair_credit(gap, difference).sum(axis=0)
            compared += np.count_nonzero(gap, axis=0)
            show(k + 1)
    return right / compared


MANY = 10_000  # features, which take long


@dataclass(frozen=True, eq=False, repr=False)
class PermutationImportance(TableMixin):
    """How much worse a ranker is without the information of each feature.

    Attributes
    ----------
    names : list of str
        The features.
    importance : ndarray of shape (n_features,)
        How much worse the metric is, on average over queries and repeats, if the values of the
        feature are permuted within every query. About 0 for a feature that the ranker does not use.
    standard_error : ndarray of shape (n_features,)
        Standard error of `importance` over queries; NaN if there is only one.
    metric : str
    score : float
        The metric with all features.
    greater_is_better : bool

    Examples
    --------
    >>> import numpy as np
    >>> result = PermutationImportance(
    ...     ["a", "b"], np.array([0.1, 0.3]), np.array([0.02, 0.05]), "map", 0.8, True
    ... )
    >>> print(result)
    feature  importance    s.e.
    -------  ----------  ------
    b            0.3000  0.0500
    a            0.1000  0.0200
    <BLANKLINE>
    How much worse MAP is without the feature; it is 0.8000 with all.
    """

    names: list[str]
    importance: Array
    standard_error: Array
    metric: str
    score: float
    greater_is_better: bool

    def to_table(self) -> Table:
        """A row for each feature, the most important first."""
        order = np.argsort(-self.importance, kind="stable")
        rows = list(zip(*self._frame_columns().values(), strict=True))
        note = (
            f"How much worse {metric_label(self.metric)} is without the feature; it is "
            f"{self.score:.4f} with all."
        )
        columns = Column("feature", ""), Column("importance"), Column("s.e.")
        return Table(columns, tuple(rows[k] for k in order), note=note)

    def _frame_columns(self) -> dict[str, Any]:
        return {
            "feature": self.names,
            "importance": self.importance,
            "standard_error": self.standard_error,
        }

    def __repr__(self) -> str:
        k = int(np.argmax(self.importance))
        return (
            f"<PermutationImportance: {len(self.names)} features, most important "
            f"{self.names[k]} ({self.importance[k]:.4f})>"
        )

    def plot(self, **options: Any) -> Axes:
        """Draw the importance; see `rankwise.plots.plot_importance` for the options."""
        from rankwise.plots import plot_importance

        return plot_importance(self, **options)


@explain_calls
def permutation_importance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    qid: Any = None,
    metric: str = "disagreement",
    n_repeats: int = 5,
    random_state: Any = None,
) -> PermutationImportance:
    """How much worse a fitted ranker is if the values of a feature are permuted within queries.

    Permuting a feature over all rows, as scikit-learn's function does, also moves values between
    queries: a feature that is the same for all rows of a query, and so cannot change any order,
    may then look important. Within queries its importance is exactly 0.

    Rows that the ranker was not fitted to show what it needs; training rows also show what it
    overfits. Redundant features may all look unimportant, since one can replace another.

    Takes n_features times n_repeats predictions of all rows. Features of sparse rows without any
    value cost nothing: their importance is 0.

    Parameters
    ----------
    estimator : ranker or pipeline
        Fitted.
    X : array-like, sparse or data frame of shape (n_rows, n_features)
        Preferably rows that the ranker was not fitted to.
    y : array-like of shape (n_rows,)
    qid : array-like of shape (n_rows,), optional
        The query of every row. None: one ranking of all rows.
    metric : str, default="disagreement"
        A name of `rankwise.metrics.METRICS`, such as "ndcg@10" or "map".
    n_repeats : int, default=5
        Number of permutations of each feature.
    random_state : int or Generator, optional

    Returns
    -------
    PermutationImportance

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import make_ranking
    >>> from rankwise.model_selection import permutation_importance
    >>> data = make_ranking(n_queries=40, n_features=4, informative=1, random_state=0)
    >>> ranker = RankRLS().fit(data.X, data.y, qid=data.qid)
    >>> result = permutation_importance(ranker, data.X, data.y, qid=data.qid, random_state=0)
    >>> int(result.importance.argmax()) == int(abs(data.coef).argmax())
    True
    """
    check_value("n_repeats", n_repeats, Whole(1))
    function, greater_is_better = get_metric(metric)
    if is_tensor(X):
        raise DataError("permutation_importance needs arrays or data frames: got a tensor.")
    X, labels, qid = as_rows(X), _single_labels(to_host(y)), to_host(qid)
    check_consistent_length(X, labels)
    groups = QueryGroups.of(qid, len(labels))
    rng = as_generator(random_state)

    def values(rows: Any) -> QueryValues:
        scores = to_host(predict_with_queries(estimator, rows, qid))
        found: QueryValues = function(labels, scores, groups.codes, per_query=True)
        return found

    whole = values(X)
    sign = 1.0 if greater_is_better else -1.0
    importance = np.zeros(X.shape[1])
    error = np.full(X.shape[1], 0.0 if len(whole) > 1 else np.nan)
    columns = np.unique(X.nonzero()[1]) if is_sparse(X) else np.arange(X.shape[1])
    if len(columns) > MANY:
        warn(
            f"permutation_importance predicts {X.shape[0]:,} rows {n_repeats} times for each of "
            f"{len(columns):,} features, which may take hours. Pass the rows of some queries. The "
            "weights coef_ of a linear ranker show at once which features it uses."
        )
    for j in columns.tolist():
        lost = np.zeros(len(whole))
        for _ in range(n_repeats):
            lost += whole.values - values(_permuted_feature(X, j, _within(groups, rng))).values
        lost_by_query = QueryValues(whole.qid, sign * lost / n_repeats)
        importance[j], error[j] = lost_by_query.mean(), lost_by_query.standard_error()
    names = getattr(X, "columns", None)
    names = [f"x{j}" for j in range(X.shape[1])] if names is None else [str(name) for name in names]
    return PermutationImportance(
        names, importance, error, metric, float(whole.mean()), greater_is_better
    )


def _within(groups: QueryGroups, rng: np.random.Generator) -> Index:
    """A permutation of the rows that keeps every row in its query."""
    shuffled = np.lexsort((rng.random(len(groups.codes)), groups.codes))
    order = np.empty(len(shuffled), dtype=np.intp)
    order[np.argsort(groups.codes, kind="stable")] = shuffled
    return order


def _permuted_feature(X: Any, j: int, order: Index) -> Any:
    """A copy of X with another order of the values in column j."""
    if is_sparse(X):
        columns = sp.csc_array(X)
        moved = columns[:, [j]].tocsr()[order]
        return sp.hstack((columns[:, :j], moved, columns[:, j + 1 :]), format="csr")
    if isinstance(X, np.ndarray):
        copy = X.copy()
        copy[:, j] = X[order, j]
        return copy
    import narwhals as nw  # a dependency of scikit-learn

    frame = nw.from_native(X, eager_only=True)
    column = frame[:, j]
    return frame.with_columns(column[order].alias(column.name)).to_native()
