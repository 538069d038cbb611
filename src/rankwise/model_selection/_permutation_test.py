"""Is a held-out score better than chance? Pairs held out again, with permuted labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.holdout.held_out_pairs import pair_errors, pair_losses
from rankwise.holdout.hold_out_problem import HoldOutProblem
from rankwise.holdout.pair_choice import PairChoice
from rankwise.holdout.permuted_labels import permuted, permuted_errors, shares_hat
from rankwise.holdout.permuted_levels import stacked_errors, stacks
from rankwise.model_selection._hold_outs import hold_out_problem
from rankwise.model_selection._strata import check_two_rows, pairs_within
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
        order) of held-out pairs; of several alphas the best one.
    null : ndarray of shape (n_permutations,)
        The same for permuted labels, in the order of the permutations.

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

    @property
    def p_value(self) -> float:
        """The share of labellings, the given one included, with a score of at least `score`."""
        return float((1 + np.sum(self.null >= self.score - ROUNDING)) / (1 + len(self.null)))

    @property
    def standard_error(self) -> float:
        """The Monte Carlo error of `p_value`: how much other permutations would change it."""
        p = self.p_value
        return float(np.sqrt(p * (1.0 - p) / (1 + len(self.null))))

    def to_table(self) -> Table:
        """The score, the mean and spread of permuted scores, and the p-value."""
        columns = (
            Column("AUC"),
            Column("by chance"),
            Column("s.d."),
            Column("p", ".3g"),
            Column("s.e. of p", ".3g"),
            Column("permutations"),
        )
        return Table(columns, (tuple(self._frame_row().values()),))

    def _frame_row(self) -> dict[str, Any]:
        spread = float(self.null.std(ddof=1)) if len(self.null) > 1 else np.nan
        return {
            "auc": self.score,
            "null_mean": float(self.null.mean()),
            "null_std": spread,
            "p_value": self.p_value,
            "standard_error": self.standard_error,
            "n_permutations": len(self.null),
        }

    def _frame_columns(self) -> dict[str, Any]:
        """The scores of all permutations."""
        return {"permutation": np.arange(len(self.null)), "auc": self.null}

    def __repr__(self) -> str:
        return (
            f"<PermutationTest: AUC {self.score:.4f}, {self.null.mean():.4f} by chance, p = "
            f"{self.p_value:.3g} ± {self.standard_error:.2g} from "
            f"{plural(len(self.null), 'permutation')}>"
        )

    def plot(self, **options: Any) -> Axes:
        """Draw the null distribution; options are those of `rankwise.plots.plot_null`."""
        from rankwise.plots import plot_null

        return plot_null(self, **options)


def permutation_test(
    ranker: Any,
    X: Any,
    y: Any,
    *,
    qid: Any = None,
    strata: Any = None,
    alpha: Any = None,
    n_permutations: int = 1000,
    random_state: Any = None,
) -> PermutationTest:
    """Test whether features and labels are related, by leave-pair-out with permuted labels.

    If they are not, every order of the labels is as likely as the given one, and the p-value is at
    most p with probability p. All pairs are held out exactly for every permutation. With several
    alphas, the score is that of the best alpha, for the given labels as for permuted ones: the
    p-value accounts for the choice.

    With ``ties="include"``, and for RLS, permutations share the factorization of `leave_pair_out`;
    each then takes O(m^2) time. With ``ties="exclude"``, the system depends on the labels, and each
    takes at most as long as one `leave_pair_out`: up to 256 rows and five labels, the systems of
    many permutations are solved as one stack.

    Parameters
    ----------
    ranker : RankRLS, SparseRankRLS, KPCRank, or one of their pointwise baselines
        It is cloned, not fitted.
    X : array-like or sparse of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    qid : array-like of shape (n_rows,), optional
        Pairs are held out, and labels permuted, within queries.
    strata : array-like of shape (n_rows,), optional
        Such as hospitals or batches: the ranker learns from all pairs, but pairs are held out, and
        labels permuted, within strata. Not together with `qid`.
    alpha : float or sequence of float, optional
        None: that of the ranker or, if it is "auto", a grid that follows the scale of the data.
    n_permutations : int, default=1000
        The smallest possible p-value is 1 / (n_permutations + 1).
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
    within = None if strata is None else pairs_within(strata, qid, len(y))
    given = hold_out_problem(ranker, X, y, qid, alpha)
    if given.n_outputs is not None:
        raise DataError(f"permutation_test needs one label per row: got {given.n_outputs} columns.")
    units = given.groups if strata is None else QueryGroups.of(strata, len(given.y))
    labels = given.labels[:, 0]
    check_two_rows(labels)
    Y = permuted(labels, units, n_permutations, rng)
    error = _errors(ranker, X, given, Y, units, PairChoice(within, keep_ties=False), qid)
    score = 1.0 - error.min(axis=0)
    return PermutationTest(float(score[0]), score[1:])


def _errors(
    ranker: Any,
    X: Any,
    given: HoldOutProblem,
    Y: Array,
    units: QueryGroups,
    chosen: PairChoice,
    qid: Any,
) -> Array:
    """Shares of pairs in the wrong order for each alpha and each column of Y."""
    if shares_hat(given):
        return permuted_errors(given, Y, units)
    if stacks(given):
        try:
            return stacked_errors(given, Y, units)
        except np.linalg.LinAlgError:
            pass  # rounding: the other way is slower, and sets negative eigenvalues to zero
    problem = hold_out_problem(ranker, X, Y, qid, given.alphas)
    return pair_errors(*pair_losses(problem, chosen), problem.groups)[0]
