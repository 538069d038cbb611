"""The AUC of held-out pairs: intervals, differences, and nested hold-outs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtri, stdtr, stdtrit
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.errors import DataError, warn
from rankwise.estimators.base import LeastSquaresRanker
from rankwise.graph import QueryGroups
from rankwise.holdout.engine import hold_out
from rankwise.holdout.hold_out_problem import HoldOutProblem, Pairs
from rankwise.holdout.leave_pair_out import pair_credit, training_effects
from rankwise.holdout.scores import given_note, given_words
from rankwise.model_selection.hold_outs import (
    LeavePairOut,
    Units,
    check_two_rows,
    hold_out_problem,
    leave_pair_out,
)
from rankwise.model_selection.rows import (
    LabelledRows,
    class_labels,
    pairs_of_units,
    stratified_folds,
)
from rankwise.model_selection.search import RankingSearchCV
from rankwise.model_selection.trials import RowHoldOuts
from rankwise.parameters import AnyOf, Choice, Number, Whole, as_generator, check_value
from rankwise.progress import progress_bar
from rankwise.tables import Column, Table, TableMixin, plural

LEVEL = Number(0, 1, open_low=True, open_high=True)
LEAST_UNITS, LEAST_OF_A_CLASS = 15, 4  # for an interval; with fewer, levels do not hold
MOST_EFFECTS = 300  # units whose effects as training rows are computed
TRAINING_SHARE = 0.05  # of the squares of these effects; chosen by simulation


def on_log_odds(share: float, half_width: float) -> tuple[float, float]:
    """An interval of a share that is symmetric on the scale of log odds."""
    half = half_width / (share * (1.0 - share))
    low, high = expit(logit(share) + np.array([-half, half]))
    return float(low), float(high)


@dataclass(frozen=True, eq=False)
class PairOutcomes:
    """Outcomes of pairs as symmetric matrices of shape (n_rows, n_rows).

    `right` has 1 for a pair in the right order, 1/2 for tied predictions, and `compared` 1 for
    every pair with different labels that was held out (or how often it was). Rows of the same unit,
    such as a patient, are not independent. `effects` has `training_effects` for each unit,
    and NaN where they were not computed. `shared` names what was computed from all rows.
    """

    labels: Array
    right: Array
    compared: Array
    units: Index | None = None
    effects: Any = None
    shared: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, labels: Array, pairs: Any, differences: Array, units: Index | None = None
    ) -> PairOutcomes:
        """From f(first) - f(second) of held-out pairs."""
        m = len(labels)
        first, second = np.asarray(pairs).T
        gap = labels[first] - labels[second]
        credit = pair_credit(gap, differences)
        right, compared = np.zeros((2, m, m))
        for i, j in ((first, second), (second, first)):
            np.add.at(right, (i, j), credit)
            np.add.at(compared, (i, j), gap != 0.0)
        if not compared.any():
            raise DataError(
                "No pair with different labels was held out. Check the labels and strata."
            )
        return cls(labels, right, compared, units)

    def minus(self, other: PairOutcomes) -> PairOutcomes:
        """Differences of the outcomes of two rankers for the same pairs."""
        right, effects = self.right - other.right, self.effects - other.effects
        return replace(self, right=right, effects=effects)

    @property
    def auc(self) -> float:
        """The share of pairs in the right order."""
        return float(self.right.sum() / self.compared.sum())

    @property
    def n_pairs(self) -> int:
        """The number of pairs."""
        return int(np.count_nonzero(np.triu(self.compared)))

    def too_few(self) -> str:
        """Why there are too few rows for an interval; empty if there are enough."""
        sizes, unit = self._class_sizes(), "row" if self.units is None else "group"
        n_units = len(self._unit_classes())
        if n_units >= LEAST_UNITS and sizes.min() >= LEAST_OF_A_CLASS:
            return ""
        least = f"{LEAST_OF_A_CLASS} of each label and " if len(sizes) == 2 else ""
        given = plural(n_units, unit)
        if len(sizes) == 2:
            given += f", {sizes.min()} of the rarer label"
        return (
            f"No interval: this takes at least {least}{LEAST_UNITS} {unit}s in all, and there are "
            f"{given}. With fewer, intervals of 95% missed the truth in up to 18% of simulated "
            "samples."
        )

    @cached_property
    def spread(self) -> tuple[float, float]:
        """The standard error of `auc`, and the degrees of freedom of its square.

        They follow from what each unit adds as a test row and as a training row.

        With the share t of a unit in the outcomes of its pairs (DeLong's), and the effect e of
        its rows on the outcomes of others, the variance is the sum of t^2 + t e over units: a row
        that is easy to predict often helps to predict others, which correlates their outcomes.
        Training rows also make rankers better or worse for all pairs, for which e^2 / 20 is added.
        """
        codes, pairs = self._unit_classes(), self.compared.sum() / 2
        size = np.bincount(codes)
        unbiased = (size / np.maximum(size - 1.0, 1.0))[codes]
        excess = (self.right - self.auc * self.compared).sum(axis=1)
        test = np.bincount(self._units, excess) / pairs
        alone = unbiased * test**2
        terms, found = alone, np.ones(len(codes), dtype=bool)
        variance = float(alone.sum())
        if self.effects is not None:
            found = ~np.isnan(self.effects)
            computed = np.bincount(codes[found], minlength=len(size))
            mean = np.bincount(codes[found], self.effects[found], len(size)) / computed
            training = np.where(found, self.effects - mean[codes], 0.0) / pairs
            scale = unbiased * (size / computed)[codes]
            variance += max(float((scale * test * training).sum()), 0.0)
            variance += TRAINING_SHARE * float((scale * training**2).sum())
            terms = alone + unbiased * (test * training + TRAINING_SHARE * training**2)
        of_class = [terms[found & (codes == k)] for k in range(len(size))]
        noise = sum(n * np.var(part, ddof=1) for n, part in zip(size, of_class, strict=True))
        most = max(len(codes) - len(size), 1.0)
        freedom = 2.0 * variance**2 / noise if noise > 0.0 else most
        return float(np.sqrt(variance)), float(np.clip(freedom, 1.0, most))

    def half_width(self, level: float) -> float:
        """Of an interval of this level, by Student's t."""
        error, freedom = self.spread
        return error * float(stdtrit(freedom, (1 + level) / 2))

    def interval(self, level: float) -> tuple[float, float]:
        """Symmetric on the scale of log odds; if all outcomes are equal, Newcombe's."""
        if self.spread[0] == 0.0 or self.auc in (0.0, 1.0):
            return self.newcombe(self.auc, level)
        return on_log_odds(self.auc, self.half_width(level))

    def certainty(self, level: float) -> tuple[float | None, float | None, float | None, str]:
        """An interval and the standard error, or the reason why there are none."""
        why = self.too_few()
        return (None, None, None, why) if why else (*self.interval(level), self.spread[0], "")

    def difference_interval(self, level: float) -> tuple[float, float]:
        """Of differences of outcomes, from -1 to 1, symmetric on the scale of log odds.

        If all outcomes are equal, the bound is the share of pairs that a perfect ranker may order
        wrongly.
        """
        gap = self.auc
        if self.spread[0] == 0.0 or abs(gap) == 1.0:
            most = 1.0 - self.newcombe(1.0, level)[0]
            return max(gap - most, -1.0), min(gap + most, 1.0)
        low, high = on_log_odds((1.0 + gap) / 2.0, self.half_width(level) / 2.0)
        return 2.0 * low - 1.0, 2.0 * high - 1.0

    def difference_p_value(self) -> float:
        """Of the hypothesis that both rankers are equally good, consistent with the interval."""
        (error, freedom), gap = self.spread, self.auc
        if error == 0.0 or abs(gap) == 1.0:
            return float(gap == 0.0)
        distance = abs(np.arctanh(gap)) * (1.0 - gap**2)
        return 2.0 * float(stdtr(freedom, -distance / error))

    def newcombe(self, auc: float, level: float) -> tuple[float, float]:
        """AUCs from which the given one differs by z standard errors after Hanley and McNeil."""
        z, sizes = -float(ndtri((1 - level) / 2)), self._class_sizes()
        one, two = sizes if len(sizes) == 2 else (sizes[0] / 2, sizes[0] / 2)

        def excess(t: float) -> float:
            inner = 1 + ((one + two) / 2 - 1) * ((1 - t) / (2 - t) + t / (1 + t))
            return float((auc - t) ** 2 - z**2 * t * (1 - t) * inner / (one * two))

        low = 0.0 if auc == 0.0 else brentq(excess, 1e-12, auc - 1e-9)
        high = 1.0 if auc == 1.0 else brentq(excess, 1.0 - 1e-12, auc + 1e-9)
        return float(low), float(high)

    @property
    def _units(self) -> Index:
        """The unit of each row."""
        return np.arange(len(self.labels)) if self.units is None else self.units

    def _row_classes(self) -> Index:
        """A class for each row: the class of its label if there are two, else the same for all."""
        names, codes = np.unique(self.labels, return_inverse=True)
        return np.asarray(codes if len(names) == 2 else np.zeros(len(codes), np.intp))

    def _unit_classes(self) -> Index:
        """A class for each unit; rows of a group may have different labels."""
        if self.units is None:
            return self._row_classes()
        return np.zeros(int(self.units.max()) + 1, np.intp)

    def _class_sizes(self) -> Index:
        """The number of rows, or of units, of each class."""
        codes, n = self._row_classes(), int(self._row_classes().max()) + 1
        return np.array([len(np.unique(self._units[codes == k])) for k in range(n)])

    def with_effects(self, problem: HoldOutProblem, within: Units) -> PairOutcomes:
        """With the effects as training rows of at most MOST_EFFECTS units."""
        chosen = _units_of_each_class(self._unit_classes())

        def pairs_of(rest: HoldOutProblem, rows: Index) -> Pairs:
            return within.take(rows).pairs(rest, keep_ties=False)

        given = problem, self.right, self.compared, self._units, chosen
        effects = np.full(len(self._unit_classes()), np.nan)
        effects[chosen] = training_effects(*given, pairs_of)
        return replace(self, effects=effects)


def held_out_outcomes(
    ranker: Any, X: Any, y: Any, strata: Any, groups: Any, alpha: Any
) -> tuple[PairOutcomes, float]:
    """The outcomes of all pairs, within strata and of different groups, and the best alpha.

    Effects of training rows are computed if there are enough rows for an interval.
    """
    problem = hold_out_problem(ranker, X, y, None, alpha)
    labels = problem.by_output(problem.labels)
    check_two_rows(labels)
    within = Units.of(strata, groups, None, len(labels))
    pairs = within.pairs(problem, keep_ties=False)
    held = hold_out(problem, pairs)
    if len(problem.alphas) > 1:
        best = LeavePairOut(problem.alphas, *held.errors()).best_index
        problem = replace(problem, alphas=problem.alphas[[best]])
        held = hold_out(problem, pairs)
    blocks = [block for _, block in held.blocks(0)]
    first, second, differences = (
        np.concatenate([to_host(block[part]) for block in blocks]) for part in range(3)
    )
    units = None if groups is None else QueryGroups.of(groups).codes
    found = PairOutcomes.of(labels, np.column_stack((first, second)), differences[:, 0], units)
    found = replace(found, shared=held.shared)
    if not found.too_few():
        found = found.with_effects(problem, within)
    return found, float(problem.alphas[0])


def _units_of_each_class(codes: Index) -> Index:
    """MOST_EFFECTS units, evenly spaced: equally many of each class, or all of a smaller one."""
    sizes = np.bincount(codes)
    few = min(int(sizes.min()), MOST_EFFECTS // len(sizes))
    found = []
    for k, size in enumerate(sizes.tolist()):
        n = min(size, MOST_EFFECTS - (len(sizes) - 1) * few)
        found.append(np.flatnonzero(codes == k)[np.arange(n) * size // n])
    return np.concatenate(found)


class IntervalResult(TableMixin):
    """A result with an interval, in one row.

    `headers` names the attribute of each column of the table. The data frame has the same columns,
    the level and the reason why there is no interval.
    """

    low: float | None
    high: float | None
    headers: ClassVar[Mapping[str, str]]

    def to_table(self) -> Table:
        """One row with the interval."""
        formats = {"level": ".3g", "alpha": ".4g", "p": ".3g"}
        columns = tuple(Column(name, formats.get(name, ".4f")) for name in self.headers)
        row = tuple(getattr(self, name) for name in self.headers.values())
        note = (getattr(self, "why", ""), given_note(getattr(self, "shared", ())))
        return Table(columns, (row,), note=" ".join(filter(None, note)))

    def words(self, before: str = "", form: str = ".3f") -> str:
        """The interval as "0.700 to 0.880", after other words, or that there is none."""
        if self.low is None or self.high is None:
            return "no interval"
        return f"{before}{self.low:{form}} to {self.high:{form}}"

    def _frame_columns(self) -> dict[str, Any]:
        names = (*(["level"] if hasattr(self, "level") else []), *self.headers.values(), "why")
        return {name: [getattr(self, name)] for name in names}


@dataclass(frozen=True, eq=False, repr=False)
class AUCInterval(IntervalResult):
    """The AUC of held-out pairs with its interval.

    Attributes
    ----------
    auc : float
        For more than two labels, the share of pairs in the right order.
    low, high : float or None
        The interval; None if there are too few rows for one.
    standard_error : float or None
    level : float
    alpha : float
        The alpha at which pairs were held out.
    n_pairs : int
        The number of pairs with different labels.
    why : str
        Why there is no interval; empty if there is one.
    shared : tuple of str
        What was computed from all rows, held-out ones included, as for `LeavePairOut`.

    Examples
    --------
    >>> print(AUCInterval(0.8, 0.7, 0.88, 0.045, 0.95, 1.0, 400))
       AUC     low    high    s.e.  level  alpha  pairs
    ------  ------  ------  ------  -----  -----  -----
    0.8000  0.7000  0.8800  0.0450   0.95      1    400
    """

    auc: float
    low: float | None
    high: float | None
    standard_error: float | None
    level: float
    alpha: float
    n_pairs: int
    why: str = ""
    shared: tuple[str, ...] = ()

    headers = {  # noqa: RUF012
        "AUC": "auc", "low": "low", "high": "high", "s.e.": "standard_error", "level": "level",
        "alpha": "alpha", "pairs": "n_pairs",
    }  # fmt: skip

    def __repr__(self) -> str:
        interval = self.words(f"{self.level:.0%} interval ", ".4f")
        return f"<AUCInterval: AUC {self.auc:.4f}, {interval}{given_words(self.shared)}>"


@dataclass(frozen=True, eq=False, repr=False)
class AUCDifference(IntervalResult):
    """The AUC of one ranker minus the AUC of another on the same held-out pairs.

    Attributes
    ----------
    difference : float
    low, high : float or None
        The interval; None if there are too few rows for one.
    standard_error : float or None
        0 if both rankers order all pairs alike.
    p_value : float or None
        Of the hypothesis that both rankers are equally good, from a t distribution.
    first, second : float
        The two AUCs.
    level : float
    why : str
        Why there is no interval and no p-value; empty if there are.
    shared : tuple of str
        What was computed from all rows, held-out ones included, as for `LeavePairOut`.

    Examples
    --------
    >>> print(AUCDifference(0.1, 0.02, 0.18, 0.041, 0.0147, 0.9, 0.8, 0.95))
     first  second  difference     low    high    s.e.       p
    ------  ------  ----------  ------  ------  ------  ------
    0.9000  0.8000      0.1000  0.0200  0.1800  0.0410  0.0147
    """

    difference: float
    low: float | None
    high: float | None
    standard_error: float | None
    p_value: float | None
    first: float
    second: float
    level: float
    why: str = ""
    shared: tuple[str, ...] = ()

    headers = {  # noqa: RUF012
        "first": "first", "second": "second", "difference": "difference", "low": "low",
        "high": "high", "s.e.": "standard_error", "p": "p_value",
    }  # fmt: skip

    def __repr__(self) -> str:
        p = "" if self.p_value is None else f", p = {self.p_value:.3g}"
        interval = self.words(f"{self.level:.0%} interval ", "+.4f")
        found = f"{self.difference:+.4f}, {interval}{p}"
        return f"<AUCDifference: {found}{given_words(self.shared)}>"


def auc_interval(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    strata: Any = None,
    groups: Any = None,
    alpha: Any = None,
    positive: Any = None,
    level: float = 0.95,
) -> AUCInterval:
    """Hold out every pair of rows, and return the AUC with an interval.

    The interval is for the mean AUC of rankers that are trained on other samples of the same size.
    Its variance has two parts: which rows are compared, as DeLong's, and which rows rankers are
    trained on, from holding out all pairs again without each row, exactly. It is symmetric on the
    scale of log odds, with a quantile of a t distribution. If all pairs are in the right order, the
    interval is Newcombe's, which depends on the numbers of rows only.

    In simulations with 20 to 60 rows, intervals of 95% contained the truth in 93% to 99% of all
    samples, also without signal; see the guide. With fewer than 15 rows, or fewer than 4 of a
    label, there is no interval. The choice of `alpha` on the same rows is not included; use
    `nested_leave_pair_out` for that. To test for a signal, use `permutation_test`.

    O(m^3) time with ``ties="include"``, or a hold-out of all pairs for each row with
    ``ties="exclude"`` or groups; with more than 300 rows, this is done for 300 of them. O(m^2)
    memory.

    Parameters
    ----------
    estimator : RankRLS, SparseRankRLS, KPCRank, or one of their pointwise baselines
        It is cloned, not fitted. Its scaling, landmarks and components are computed from all rows.
    X : array-like or sparse of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    strata : array-like of shape (n_rows,), optional
        Such as hospitals: only pairs within a stratum are held out.
    groups : array-like of shape (n_rows,), optional
        Such as patients with several samples: pairs of groups are held out, and a group, not a
        row, counts as one observation.
    alpha : float or sequence of float, optional
        Of several, the best is used. None: the estimator's alpha or, if it is "auto", a grid.
    positive : label, optional
        Of classes, the one to rank first, against all others. Needed if y has words.
    level : float, default=0.95

    Returns
    -------
    AUCInterval

    References
    ----------
    DeLong, DeLong, Clarke-Pearson: Comparing the areas under two or more correlated receiver
    operating characteristic curves. Biometrics 44, 1988. Newcombe: Confidence intervals for an
    effect size measure based on the Mann-Whitney statistic. Statistics in Medicine 25, 2006.
    Satterthwaite: An approximate distribution of estimates of variance components. Biometrics
    Bulletin 2, 1946.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import load_dataset
    >>> from rankwise.model_selection import auc_interval
    >>> data = load_dataset("breast_cancer")
    >>> auc_interval(RankRLS(10.0), data.X[:80, :3], data.y[:80])
    <AUCInterval: AUC 0.9799, 95% interval 0.9196 to 0.9952>
    """
    check_value("level", level, LEVEL)
    y = class_labels(y, positive)
    found, best = held_out_outcomes(estimator, X, y, strata, groups, alpha)
    low, high, error, why = found.certainty(level)
    given = level, best, found.n_pairs, why, found.shared
    return AUCInterval(found.auc, low, high, error, *given)


def auc_difference(
    first: Any,
    second: Any,
    X: Any,
    y: Any,
    *,
    X_second: Any = None,
    strata: Any = None,
    groups: Any = None,
    positive: Any = None,
    level: float = 0.95,
) -> AUCDifference:
    """Compare the AUCs of two rankers on the same held-out pairs.

    The test and the interval allow for training rows that held-out pairs share, as `auc_interval`
    does. In simulations of equally good rankers with 20 to 200 rows, p was below 0.05 in at most
    7.5% of all samples, and often in fewer; see the guide. The interval is conservative if both
    rankers are almost the same. If both order all pairs alike, it bounds how far they may still
    differ on other rows, from the numbers of rows only.

    Parameters
    ----------
    first, second : RankRLS, SparseRankRLS, KPCRank, or one of their pointwise baselines
        They are cloned, not fitted. Each is used with its alpha; "auto": the best of a grid.
    X : array-like or sparse of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    X_second : array-like or sparse of shape (n_rows, n_other_features), optional
        The features of the same rows for the second ranker, if they differ.
    strata, groups, positive, level
        As for `auc_interval`.

    Returns
    -------
    AUCDifference

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import load_dataset
    >>> from rankwise.model_selection import auc_difference
    >>> data = load_dataset("breast_cancer")
    >>> X, y = data.X[:80], data.y[:80]
    >>> auc_difference(RankRLS(10.0), RankRLS(10.0), X, y, X_second=X[:, :3]).difference > 0
    True
    """
    check_value("level", level, LEVEL)
    y = class_labels(y, positive)
    one, _ = held_out_outcomes(first, X, y, strata, groups, None)
    two, _ = held_out_outcomes(second, X if X_second is None else X_second, y, strata, groups, None)
    aucs, why = (one.auc, two.auc), one.too_few()
    shared = tuple(dict.fromkeys((*one.shared, *two.shared)))
    if why:
        none = None, None, None, None
        return AUCDifference(one.auc - two.auc, *none, *aucs, level, why, shared)
    gap = one.minus(two)
    low, high = gap.difference_interval(level)
    error, p = gap.spread[0], gap.difference_p_value()
    return AUCDifference(gap.auc, low, high, error, p, *aucs, level, shared=shared)


@dataclass(frozen=True, eq=False, repr=False)
class NestedLeavePairOut(IntervalResult):
    """The AUC of pairs that neither trained nor chose their ranker.

    Attributes
    ----------
    auc : float
        The share of pairs with different labels in the right order.
    low, high : float or None
        An interval of 95%, from the U-statistic of these pairs; rows of a group count as one. It
        treats the rankers as fixed, and is too short if the signal is weak. The interval of
        `auc_interval` is longer, as rankers depend on the rows that train them. None if there are
        too few rows for one.
    standard_error : float or None
    unnested : float or None
        The AUC of leave-pair-out of the estimator as it is chosen and fitted on all rows; None if
        its last step is not a least-squares ranker, or if two groups have all rows of a label.
    alphas : ndarray of shape (n_fits,)
        The alpha of each fit; NaN where there is none.
    n_pairs : int
        The number of different pairs that were compared.
    why : str
        Why there is no interval; empty if there is one.

    Examples
    --------
    >>> import numpy as np
    >>> print(NestedLeavePairOut(0.8, 0.7, 0.87, 0.04, 0.84, np.array([1.0, 10.0]), 120))
    nested AUC     low    high    s.e.  not nested  optimism  pairs
    ----------  ------  ------  ------  ----------  --------  -----
        0.8000  0.7000  0.8700  0.0400      0.8400    0.0400    120
    """

    auc: float
    low: float | None
    high: float | None
    standard_error: float | None
    unnested: float | None
    alphas: Array
    n_pairs: int
    why: str = ""

    headers = {  # noqa: RUF012
        "nested AUC": "auc", "low": "low", "high": "high", "s.e.": "standard_error",
        "not nested": "unnested", "optimism": "optimism", "pairs": "n_pairs",
    }  # fmt: skip

    @property
    def optimism(self) -> float | None:
        """`unnested` minus `auc`: the optimism of choosing on the same rows."""
        return None if self.unnested is None else self.unnested - self.auc

    def __repr__(self) -> str:
        beside = "" if self.unnested is None else f", {self.unnested:.4f} not nested"
        interval = self.words("95% interval ", ".4f")
        return f"<NestedLeavePairOut: AUC {self.auc:.4f}, {interval}{beside}>"


def nested_leave_pair_out(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    outer: int | str = 5,
    n_repeats: int = 10,
    n_pairs: int = 200,
    groups: Any = None,
    strata: Any = None,
    positive: Any = None,
    random_state: Any = None,
) -> NestedLeavePairOut:
    """Estimate the AUC with the choice of alpha, kernel and features inside the hold-out.

    The estimator, with all its choices, is fitted without some rows and then orders them. Only rows
    that were held out together are compared, so that all pairs are predicted by one ranker.
    ``RankRLS(alpha="auto")`` and ``RankingSearchCV(cv="leave_pair_out")`` choose by exact
    leave-pair-out within the remaining rows, from one factorization. A Pipeline chooses and scales
    features within them.

    Parameters
    ----------
    estimator : estimator with fit and predict
        A ranker, a search or a Pipeline; it is cloned, not fitted.
    X : array-like or sparse of shape (n_rows, n_features)
        With ``kernel="precomputed"``, the kernel matrix of the rows.
    y : array-like of shape (n_rows,)
    outer : int or "pairs", default=5
        Number of folds, stratified by label if there are two; or "pairs": random pairs of rows with
        different labels, with all other rows for training. Folds are faster and compare more
        pairs; pairs leave more rows to learn from.
    n_repeats : int, default=10
        How often rows are divided into folds.
    n_pairs : int, default=200
        Number of random pairs.
    groups : array-like of shape (n_rows,), optional
        Such as patients: rows of a group are held out together. With ``outer="pairs"``, these are
        pairs of groups, and rows of one are compared with rows of the other. ``alpha="auto"`` is
        chosen by pairs of groups as well, and by pairs of rows, with a warning, if the training
        rows have too few groups. GridSearchCV and RandomizedSearchCV get the groups of the
        training rows; RankingSearchCV does not support groups, which raises a warning.
    strata : array-like of shape (n_rows,), optional
        Such as hospitals: only rows of the same stratum are compared, also for the choice of
        ``alpha="auto"``.
    positive : label, optional
        Of classes, the one to rank first, against all others. Needed if y has words.
    random_state : int or Generator, optional

    Returns
    -------
    NestedLeavePairOut

    References
    ----------
    Varma, Simon: Bias in error estimation when using cross-validation for model selection. BMC
    Bioinformatics 7, 2006.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import load_dataset
    >>> from rankwise.model_selection import nested_leave_pair_out
    >>> data = load_dataset("breast_cancer")
    >>> X, y = data.X[:80, :3], data.y[:80]
    >>> result = nested_leave_pair_out(RankRLS(), X, y, n_repeats=2, random_state=0)
    >>> 0.8 < result.auc < 1.0
    True
    """
    check_value("outer", outer, AnyOf(Whole(2), Choice("pairs")))
    check_value("n_repeats", n_repeats, Whole(1))
    check_value("n_pairs", n_pairs, Whole(1))
    rng = as_generator(random_state)
    data = LabelledRows.of(X, class_labels(y, positive), None)
    labels, m = data.y.astype(np.float64), len(data)
    check_two_rows(labels)
    within = Units.of(strata, groups, None, m)
    units = np.arange(m) if within.groups is None else within.groups.codes
    stratum = QueryGroups.of(within.strata, m).codes
    if groups is not None and isinstance(estimator, RankingSearchCV):
        warn(
            "RankingSearchCV chooses by rows or pairs of rows, not by groups. Use "
            'RankRLS(alpha="auto"), or GridSearchCV with a splitter of groups, such as GroupKFold.'
        )
    dependent = None if groups is None else units
    if outer == "pairs":
        splits = pairs_of_units(labels, units, stratum, n_pairs, rng)
    else:
        splits = stratified_folds(labels, dependent, int(outer), n_repeats, rng)
    held_out = RowHoldOuts(data, splits)
    pairs, differences, alphas, faults = [], [], [], []
    with progress_bar("Nested hold-outs", len(splits)) as show:
        for k, out in enumerate(splits.tests):
            old, new, train = held_out.sides(estimator, k)
            fitted, fault = _fitted(estimator, old, within.take(train))
            faults += [] if fault is None else [fault]
            f = np.asarray(fitted.predict(new.X), dtype=np.float64)
            i, j = np.triu_indices(len(out), 1)
            compared = stratum[out[i]] == stratum[out[j]]
            if outer == "pairs":
                compared &= units[out[i]] != units[out[j]]
            pairs.append(np.column_stack((out[i], out[j]))[compared])
            differences.append((f[i] - f[j])[compared])
            alphas.append(float(getattr(_last_step(fitted)[0], "alpha_", np.nan)))
            show(k + 1)
    found = PairOutcomes.of(labels, np.concatenate(pairs), np.concatenate(differences), dependent)
    low, high, error, why = found.certainty(0.95)
    if faults:
        warn(
            f"In {len(faults)} of {plural(len(alphas), 'fit')}, alpha was chosen by all pairs of "
            f"training rows, without strata and groups: {faults[0]}"
        )
    whole = _unnested(_fitted(estimator, data, within)[0], data, within)
    return NestedLeavePairOut(
        found.auc, low, high, error, whole, np.array(alphas), found.n_pairs, why
    )


def _fitted(estimator: Any, data: LabelledRows, within: Units) -> tuple[Any, DataError | None]:
    """A fitted clone; ``alpha="auto"`` is chosen by pairs within strata and of different groups.

    Also returns the reason if this was not possible.
    """
    fitted, groups = clone(estimator), {}
    if within.groups is not None and isinstance(fitted, (GridSearchCV, RandomizedSearchCV)):
        groups = {"groups": within.groups.codes}
    fitted.fit(data.X, data.y, **groups)
    ranker, rows = _last_step(fitted, data.X)
    if not (within.given and isinstance(ranker, LeastSquaresRanker) and ranker.alpha == "auto"):
        return fitted, None
    try:
        held = leave_pair_out(ranker, rows, data.y, **within._asdict())
    except DataError as error:
        return fitted, error
    chosen = {"alpha": held.best_alpha, "scale": ranker.scale_}  # "auto" depends on alpha="auto"
    ranker.set_params(**chosen).fit(rows, data.y)
    return fitted, None


def _last_step(fitted: Any, X: Any = None) -> tuple[Any, Any]:
    """The fitted ranker in searches and pipelines, and its rows."""
    while True:
        if isinstance(fitted, Pipeline):
            X = fitted[:-1].transform(X) if X is not None and len(fitted) > 1 else X
            fitted = fitted[-1]
        elif hasattr(fitted, "best_estimator_"):
            fitted = fitted.best_estimator_
        else:
            return fitted, X


def _unnested(fitted: Any, data: LabelledRows, within: Units) -> float | None:
    """The AUC of leave-pair-out with all that was chosen on all rows."""
    ranker, rows = _last_step(fitted, data.X)
    if not isinstance(ranker, LeastSquaresRanker):
        return None
    try:
        held = leave_pair_out(ranker, rows, data.y, alphas=[ranker.alpha_], **within._asdict())
        return float(held.auc[0])
    except DataError:  # folds leave rows to learn from where some pair of groups does not
        if within.groups is None:
            raise
        return None
