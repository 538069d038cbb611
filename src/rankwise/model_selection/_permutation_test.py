"""Is a held-out score better than chance? Pairs held out again, with permuted labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import GroupKFold, check_cv

from rankwise.backends.arrays import Array, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.least_squares.base import LeastSquaresRanker
from rankwise.graph import QueryGroups
from rankwise.graph.label_checks import numeric_labels
from rankwise.holdout.held_out_pairs import pair_errors, pair_losses
from rankwise.holdout.hold_out_problem import HoldOutProblem
from rankwise.holdout.permuted_labels import (
    permuted,
    permuted_errors,
    shares_system,
    stacked_errors,
    stacks,
    standard_labels,
)
from rankwise.holdout.scores import given_note, given_words
from rankwise.metric_names import metric_label
from rankwise.model_selection._cross_validation import scores_of_columns
from rankwise.model_selection._hold_outs import hold_out_problem
from rankwise.model_selection._strata import Units, check_two_rows
from rankwise.parameters import Whole, as_generator, check_value
from rankwise.tables import Column, Table, TableMixin, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROUNDING = 1e-12  # difference of equal scores


@dataclass(frozen=True, eq=False, repr=False)
class PermutationTest(TableMixin):
    """A held-out score beside those of permuted labels.

    Attributes
    ----------
    score : float
        The area under the ROC curve (for more than two labels, the share of pairs in the right
        order) of held-out pairs, of several alphas the best one; or another held-out score.
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
        """The share of labellings, the given one included, that are at least as good as `score`."""
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
        columns = (
            Column(metric_label(self.metric)),
            Column("by chance"),
            Column("s.d."),
            Column("p", ".3g"),
            Column("s.e. of p", ".3g"),
            Column("permutations"),
        )
        row = tuple(self._frame_row().values())
        return Table(columns, (row,), note=given_note(self.shared))

    def _frame_row(self) -> dict[str, Any]:
        spread = float(self.null.std(ddof=1)) if len(self.null) > 1 else np.nan
        return {
            "score": self.score,
            "null_mean": float(self.null.mean()),
            "null_std": spread,
            "p_value": self.p_value,
            "standard_error": self.standard_error,
            "n_permutations": len(self.null),
        }

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
        """Draw the null distribution; options are those of `rankwise.plots.plot_null`."""
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
    cv: Any = "leave_pair_out",
    scoring: Any = "auto",
    n_permutations: int = 1000,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> PermutationTest:
    """Test whether features and labels are related, by a held-out score with permuted labels.

    If they are not, every order of the labels is as likely as the given one, and the p-value is at
    most p with probability p. All pairs are held out for every permutation, as in
    `leave_pair_out`. With several
    alphas, the score is that of the best alpha, for the given labels as for permuted ones: the
    p-value accounts for the choice.

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
        For leave-pair-out only. None: that of the estimator or, if it is "auto", a grid that
        follows the scale of the data.
    cv : "leave_pair_out", "leave_query_out", int, splitter or iterable, default="leave_pair_out"
        How to hold out rows. All but the first are those of `cross_validate`, whose exact hold-outs
        are used for all permutations together; other estimators are refitted for each permutation
        and split. With `groups`, folds consist of whole groups.
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
    if not (isinstance(cv, str) and cv == "leave_pair_out"):
        if alpha is not None:
            raise ParameterError(
                'alpha is for cv="leave_pair_out": set that of the estimator instead.'
            )
        labels = np.asarray(numeric_labels(to_host(y)), dtype=np.float64)
        if labels.ndim != 1:
            raise DataError(f"permutation_test needs one label per row: got shape {labels.shape}.")
        units = Units.of(strata, groups, qid, len(labels))
        Y = _permuted(labels, units, QueryGroups.of(qid, len(labels)), n_permutations, rng)
        options = {"qid": qid, "scoring": scoring, "cv": _group_splits(cv, labels, units)}
        found = scores_of_columns(estimator, X, Y, n_jobs=n_jobs, **options)
        metric, greater, scores, shared = found
        return PermutationTest(float(scores[0]), scores[1:], metric, greater, shared)
    if scoring != "auto":
        raise ParameterError(
            f"Held-out pairs are scored by their AUC: scoring={scoring!r} needs another cv, such "
            'as cv=5 or "leave_query_out".'
        )
    if not isinstance(estimator, LeastSquaresRanker):
        raise ParameterError(
            'cv="leave_pair_out" needs a least-squares ranker, such as RankRLS: got '
            f"{type(estimator).__name__}. Use cv=5 to refit any estimator."
        )
    given = hold_out_problem(estimator, X, y, qid, alpha)
    units = Units.of(strata, groups, qid, len(given.labels))
    if given.n_outputs is not None:
        raise DataError(f"permutation_test needs one label per row: got {given.n_outputs} columns.")
    check_two_rows(given.labels[:, 0])
    labels = standard_labels(given.labels[:, 0])
    Y = _permuted(labels, units, given.groups, n_permutations, rng)
    score = 1.0 - _errors(estimator, X, given, Y, units, qid).min(axis=0)
    shared = given.shared(scaling=True)
    return PermutationTest(float(score[0]), score[1:], shared=shared)


def _permuted(
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
                f"The rows of group {group} have different {name}. Labels of whole groups are "
                f"permuted, so that each group must have one. "
                + ("To permute labels within groups, give them as strata." * (name == "labels"))
            )
    return permuted(labels[first], within.take(first), n, rng)[groups.codes]


def _group_splits(cv: Any, labels: Array, units: Units) -> Any:
    """Splits of whole groups, or `cv` without groups."""
    if units.groups is None:
        return cv
    if isinstance(cv, str):
        raise ParameterError(f"cv={cv!r} is for queries: with groups, use a number of folds.")
    splitter = check_cv(GroupKFold(cv) if isinstance(cv, int) else cv)
    return list(splitter.split(labels, labels, units.groups.codes))


def _errors(ranker: Any, X: Any, given: HoldOutProblem, Y: Array, units: Units, qid: Any) -> Array:
    """Shares of pairs in the wrong order for each alpha and each column of Y."""
    if units.groups is None:
        within = given.groups if units.strata is None else units.strata
        if shares_system(given):
            return permuted_errors(given, Y, within)
        if stacks(given):
            try:
                return stacked_errors(given, Y, within)
            except np.linalg.LinAlgError:
                pass  # rounding errors: the other way is slower, and keeps more digits
    problem = hold_out_problem(ranker, X, Y, qid, given.alphas)
    chosen = units.pairs(problem, keep_ties=False)
    return pair_errors(*pair_losses(problem, chosen), problem.groups)[0]
