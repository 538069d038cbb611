"""Which held-out pairs are in the right order, and how sure their share is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtri, stdtr, stdtrit

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.holdout.held_out_pairs import pair_differences, pair_errors, pair_losses
from rankwise.holdout.hold_out_problem import HoldOutProblem
from rankwise.holdout.plans import Pairs
from rankwise.holdout.training_effects import pair_credit, training_effects
from rankwise.model_selection._held_out_pairs import LeavePairOut
from rankwise.model_selection._hold_outs import hold_out_problem
from rankwise.model_selection._strata import Units, check_two_rows
from rankwise.tables import plural

LEAST_UNITS, LEAST_OF_A_CLASS = 15, 4  # for an interval; with fewer, levels do not hold
MOST_EFFECTS = 300  # units whose effects as training rows are computed
TRAINING_SHARE = 0.05  # of the squares of these effects; chosen by simulation


class AUCSpread(NamedTuple):
    """A standard error, and the degrees of freedom of its square."""

    error: float
    freedom: float

    def quantile(self, level: float) -> float:
        """How many standard errors an interval of this level reaches to both sides."""
        return float(stdtrit(self.freedom, (1 + level) / 2))

    def p_value(self, distance: float) -> float:
        """Of a distance from the hypothesis, two-sided."""
        return 2.0 * float(stdtr(self.freedom, -abs(distance) / self.error))


@dataclass(frozen=True, eq=False)
class PairOutcomes:
    """Outcomes of pairs as symmetric matrices of shape (n_rows, n_rows).

    `right` has 1 for a pair in the right order, 1/2 for tied predictions, and `compared` 1 for
    every pair with different labels that was held out (or how often it was). Rows of the same unit,
    such as a patient, are not independent. `effects` are those of `training_effects` for each unit,
    and NaN where they were not computed. `shared` names what was computed from all rows.
    """

    labels: Array
    right: Array
    compared: Array
    units: Index | None = None
    effects: Array | None = None
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
        assert self.effects is not None
        assert other.effects is not None
        effects = self.effects - other.effects
        return replace(self, right=self.right - other.right, effects=effects)

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

    def spread(self) -> AUCSpread:
        """Of `auc`, from what each unit adds as a test row and as a training row.

        With the share t of a unit in the outcomes of its own pairs (DeLong's), and the effect e of
        its rows on the outcomes of others, the variance is the sum of t^2 + t e over units: a row
        that is easy to predict often helps to predict others, which correlates their outcomes.
        Training rows also make rankers better or worse for all pairs, for which e^2 / 20 is added.
        """
        codes, pairs = self._unit_classes(), self.compared.sum() / 2
        size = np.bincount(codes)
        unbiased = (size / np.maximum(size - 1.0, 1.0))[codes]
        excess = (self.right - self.auc * self.compared).sum(axis=1)
        test = self._by_unit(excess) / pairs
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
        return AUCSpread(float(np.sqrt(variance)), float(np.clip(freedom, 1.0, most)))

    def interval(self, level: float) -> tuple[float, float]:
        """Symmetric on the scale of log odds; if all outcomes are equal, Newcombe's."""
        spread = self.spread()
        if spread.error == 0.0 or self.auc in (0.0, 1.0):
            return self.newcombe(self.auc, level)
        half = spread.quantile(level) * spread.error / (self.auc * (1.0 - self.auc))
        low, high = expit(logit(self.auc) + np.array([-half, half]))
        return float(low), float(high)

    def difference_interval(self, level: float) -> tuple[float, float]:
        """Of differences of outcomes, symmetric after the inverse hyperbolic tangent.

        If all outcomes are equal, both rankers differ in at most so many pairs as a perfect ranker
        may have in the wrong order.
        """
        spread, gap = self.spread(), self.auc
        if spread.error == 0.0 or abs(gap) == 1.0:
            most = 1.0 - self.newcombe(1.0, level)[0]
            return max(gap - most, -1.0), min(gap + most, 1.0)
        half = spread.quantile(level) * spread.error / (1.0 - gap**2)
        low, high = np.tanh(np.arctanh(gap) + np.array([-half, half]))
        return float(low), float(high)

    def difference_p_value(self) -> float:
        """Of the hypothesis that both rankers are equally good, consistent with the interval."""
        spread, gap = self.spread(), self.auc
        if spread.error == 0.0 or abs(gap) == 1.0:
            return float(gap == 0.0)
        return spread.p_value(float(np.arctanh(gap)) * (1.0 - gap**2))

    def newcombe(self, auc: float, level: float) -> tuple[float, float]:
        """AUCs from which the given one differs by z standard errors after Hanley and McNeil."""
        z, sizes = -float(ndtri((1 - level) / 2)), self._class_sizes()
        one, two = sizes if len(sizes) == 2 else (sizes[0] / 2, sizes[0] / 2)

        def excess(t: float) -> float:
            inner = 1 + ((one + two) / 2 - 1) * ((1 - t) / (2 - t) + t / (1 + t))
            return float((auc - t) ** 2 - z**2 * t * (1 - t) * inner / (one * two))

        low = 0.0 if auc == 0.0 else _root(excess, 1e-12, auc)
        high = 1.0 if auc == 1.0 else _root(excess, 1.0 - 1e-12, auc)
        return low, high

    def _by_unit(self, values: Array) -> Array:
        return (
            values
            if self.units is None
            else np.asarray(np.bincount(self.units, values), np.float64)
        )

    def _row_classes(self) -> Index:
        """A class for each row: that of its label if there are two, else the same for all."""
        names, codes = np.unique(self.labels, return_inverse=True)
        return np.asarray(codes if len(names) == 2 else np.zeros(len(codes), np.intp))

    def _unit_classes(self) -> Index:
        """A class for each unit; rows of a group may have different labels."""
        if self.units is None:
            return self._row_classes()
        return np.zeros(int(self.units.max()) + 1, np.intp)

    def _class_sizes(self) -> Index:
        """The number of rows, or of units, of each class."""
        codes = self._row_classes()
        units = np.arange(len(codes)) if self.units is None else self.units
        return np.array([len(np.unique(units[codes == k])) for k in range(int(codes.max()) + 1)])

    def with_effects(self, problem: HoldOutProblem, within: Units) -> PairOutcomes:
        """With the effects of units as training rows, of at most MOST_EFFECTS of them."""
        units = np.arange(len(self.labels)) if self.units is None else self.units
        codes = self._unit_classes()
        chosen = _units_of_each_class(codes)

        def pairs_of(rest: HoldOutProblem, rows: Index) -> Pairs:
            return within.take(rows).pairs(rest, keep_ties=False)

        effects = np.full(len(codes), np.nan)
        effects[chosen] = training_effects(
            problem, self.right, self.compared, units, chosen, pairs_of
        )
        return replace(self, effects=effects)


def held_out_outcomes(
    ranker: Any, X: Any, y: Any, strata: Any, groups: Any, alpha: Any
) -> tuple[PairOutcomes, float]:
    """The outcomes of all pairs, within strata and of different groups, at the best alpha.

    And that alpha. Effects of training rows are there if there are enough rows for an interval.
    """
    problem = hold_out_problem(ranker, X, y, None, alpha)
    if problem.n_outputs is not None:
        raise DataError(f"One label per row is needed: got {problem.n_outputs} columns of y.")
    labels = problem.labels[:, 0]
    check_two_rows(labels)
    within = Units.of(strata, groups, None, len(labels))
    pairs = within.pairs(problem, keep_ties=False)
    if len(problem.alphas) > 1:
        errors = pair_errors(*pair_losses(problem, pairs), problem.groups)
        best = LeavePairOut(problem.alphas, *errors).best_index
        problem = replace(problem, alphas=problem.alphas[[best]])
    blocks = [block for _, block in pair_differences(problem, 0, pairs)]
    first, second, differences = (
        np.concatenate([to_host(block[part]) for block in blocks]) for part in range(3)
    )
    units = None if groups is None else QueryGroups.of(groups).codes
    found = PairOutcomes.of(labels, np.column_stack((first, second)), differences[:, 0], units)
    found = replace(found, shared=problem.shared(scaling=True))
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


def interval_words(low: float | None, high: float | None) -> str:
    """An interval as "0.700 to 0.880", or that there is none."""
    if low is None or high is None:
        return "no interval"
    return f"{low:.3f} to {high:.3f}"


def _root(function: Any, start: float, auc: float) -> float:
    inside = auc - np.sign(auc - start) * 1e-9
    return float(brentq(function, start, inside))
