"""Which held-out pairs are in the right order, and how sure their share is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtri

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.model_selection._held_out_pairs import leave_pair_out


@dataclass(frozen=True, eq=False)
class PairOutcomes:
    """Outcomes of pairs as symmetric matrices of shape (n_rows, n_rows).

    `right` has 1 for a pair in the right order, 1/2 for tied predictions, and `compared` 1 for
    every pair with different labels that was held out (or how often it was). Rows of the same unit,
    such as a patient, are not independent. `shared` names what held-out rows had a part in.
    """

    labels: Array
    right: Array
    compared: Array
    units: Index | None = None
    shared: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, labels: Array, pairs: Any, differences: Array, units: Index | None = None
    ) -> PairOutcomes:
        """From f(first) - f(second) of held-out pairs."""
        m = len(labels)
        first, second = np.asarray(pairs).T
        gap = labels[first] - labels[second]
        credit = np.where(gap == 0.0, 0.0, (1.0 + np.sign(differences * gap)) / 2)
        right, compared = np.zeros((2, m, m))
        for i, j in ((first, second), (second, first)):
            np.add.at(right, (i, j), credit)
            np.add.at(compared, (i, j), gap != 0.0)
        if not compared.any():
            raise DataError(
                "No pair with different labels was held out. Check the labels and strata."
            )
        return cls(labels, right, compared, units)

    @property
    def auc(self) -> float:
        """The share of pairs in the right order."""
        return float(self.right.sum() / self.compared.sum())

    @property
    def n_pairs(self) -> int:
        """The number of pairs."""
        return int(np.count_nonzero(np.triu(self.compared)))

    def standard_error(self) -> float:
        """That of `auc` as a U-statistic, from the share of each row in the outcomes."""
        excess = self.right - self.auc * self.compared
        return _spread(excess, self.compared, self.labels, self.units)

    def interval(self, level: float) -> tuple[float, float]:
        """Symmetric on the scale of log odds; if all outcomes are equal, Newcombe's."""
        z, error = -float(ndtri((1 - level) / 2)), self.standard_error()
        if error == 0.0 or self.auc in (0.0, 1.0):
            return _newcombe(self.auc, self._class_sizes(), z)
        half = z * error / (self.auc * (1.0 - self.auc))
        low, high = expit(logit(self.auc) + np.array([-half, half]))
        return float(low), float(high)

    def resampled(self, n: int, rng: np.random.Generator) -> Array:
        """The AUC of n bootstrap samples of rows, which never compare a row with itself."""
        times = self.draws(n, rng)
        right = ((times @ self.right) * times).sum(axis=1)
        compared = ((times @ self.compared) * times).sum(axis=1)
        return right[compared > 0] / compared[compared > 0]

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        """How often each row is drawn: with two labels, rows of each are drawn separately.

        Rows of a unit are drawn together, whatever their labels.
        """
        if self.units is not None:
            n_units = int(self.units.max()) + 1
            drawn = rng.multinomial(n_units, np.full(n_units, 1 / n_units), size=n)
            return np.asarray(drawn[:, self.units], dtype=np.float64)
        times, (codes, n_classes) = np.empty((n, len(self.labels))), self._classes()
        for k in range(n_classes):
            rows = np.flatnonzero(codes == k)
            times[:, rows] = rng.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=n)
        return times

    def _classes(self) -> tuple[Any, int]:
        return _classes(self.labels)

    def _class_sizes(self) -> Index:
        """The number of rows, or of units, of each class."""
        codes, n_classes = self._classes()
        units = np.arange(len(codes)) if self.units is None else self.units
        return np.array([len(np.unique(units[codes == k])) for k in range(n_classes)])


def held_out_outcomes(
    ranker: Any, X: Any, y: Any, strata: Any, groups: Any, alpha: Any
) -> tuple[PairOutcomes, float]:
    """The outcomes of all pairs, within strata and of different groups, at the best alpha.

    And that alpha.
    """
    held = leave_pair_out(
        ranker, X, y, alphas=alpha, strata=strata, groups=groups, return_differences=True
    )
    differences = held.differences
    assert differences is not None
    if differences.ndim != 2:
        raise DataError(f"One label per row is needed: got {differences.shape[2]} columns of y.")
    labels = np.asarray(y, dtype=np.float64).ravel()
    units = None if groups is None else QueryGroups.of(groups).codes
    k = held.best_index
    found = PairOutcomes.of(labels, held.pairs, np.asarray(differences[k]), units)
    return replace(found, shared=held.shared), float(held.alphas[k])


def difference_error(first: PairOutcomes, second: PairOutcomes) -> float:
    """The standard error of the difference of two AUCs of the same pairs."""
    gap = first.right - second.right
    mean = gap.sum() / first.compared.sum()
    return _spread(gap - mean * first.compared, first.compared, first.labels, first.units)


def _spread(excess: Array, compared: Array, labels: Array, units: Index | None = None) -> float:
    """From the excess of each pair over the mean: DeLong's standard error, with two labels."""
    of_row, (codes, _) = excess.sum(axis=1), _classes(labels)
    if units is not None:
        of_row = np.bincount(units, of_row)
        codes = np.zeros(len(of_row), np.intp)
    size = np.bincount(codes)[codes]
    unbiased = size / np.maximum(size - 1.0, 1.0)
    return float(2.0 * np.sqrt((unbiased * of_row**2).sum()) / compared.sum())


def _classes(labels: Array) -> tuple[Any, int]:
    """A class for each row: that of its label if there are two, else the same for all."""
    names, codes = np.unique(labels, return_inverse=True)
    return (codes, 2) if len(names) == 2 else (np.zeros(len(labels), np.intp), 1)


def _newcombe(auc: float, sizes: Index, z: float) -> tuple[float, float]:
    """AUCs from which the given one differs by z standard errors after Hanley and McNeil."""
    one, two = sizes if len(sizes) == 2 else (sizes[0] / 2, sizes[0] / 2)

    def excess(t: float) -> float:
        inner = 1 + ((one + two) / 2 - 1) * ((1 - t) / (2 - t) + t / (1 + t))
        return float((auc - t) ** 2 - z**2 * t * (1 - t) * inner / (one * two))

    low = 0.0 if auc == 0.0 else _root(excess, 1e-12, auc)
    high = 1.0 if auc == 1.0 else _root(excess, 1.0 - 1e-12, auc)
    return low, high


def _root(function: Any, start: float, auc: float) -> float:
    inside = auc - np.sign(auc - start) * 1e-9
    return float(brentq(function, start, inside))
