"""Scores of predictions for held-out comparisons, with standard errors of groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from rankwise.backends.arrays import Array, Index
from rankwise.holdout.preference_slope import logistic_slope
from rankwise.metric_names import COMPARISON_METRICS
from rankwise.metrics.comparison_metrics import calibration_error, clustered_mean, outcomes

GREATER_IS_BETTER = {name: each.greater_is_better for name, each in COMPARISON_METRICS.items()}
"""Metrics of held-out comparisons, and whether greater values are better."""
SLOPE_FOLDS = 5


@dataclass(frozen=True, eq=False)
class ObservedComparisons:
    """What became of comparisons.

    Attributes
    ----------
    margin, weight : ndarray of shape (n,)
    codes : ndarray of shape (n,)
        The group of each comparison; comparisons of different groups are independent.
    """

    margin: Array
    weight: Array
    codes: Index

    def score(
        self, metric: str, difference: Array, probability: Array | None
    ) -> tuple[float, float]:
        """A metric of predictions, and its standard error over groups."""
        return clustered_mean(self.values(metric, difference, probability), self.weight, self.codes)

    def values(self, metric: str, difference: Array, probability: Array | None) -> Array:
        """The accuracy, loss or error of each comparison."""
        found = COMPARISON_METRICS[metric]
        predicted = probability if found.of == "probability" else difference
        return np.asarray(found.function(self.margin, predicted))

    def probability(self, difference: Array) -> Array:
        """P(first wins), by a logistic function whose slope was fitted to other groups."""
        _, codes = np.unique(self.codes, return_inverse=True)
        n_folds = min(SLOPE_FOLDS, int(codes.max()) + 1)
        if n_folds < 2:
            return self._chance(difference, np.ones(len(codes), dtype=bool))
        out = np.empty(len(codes))
        for k in range(n_folds):
            test = codes % n_folds == k
            out[test] = self._chance(difference, ~test)[test]
        return out

    def _chance(self, difference: Array, train: Array) -> Array:
        slope = logistic_slope(difference[train], self.margin[train], self.weight[train])
        return np.asarray(expit(slope * difference))

    def calibration_error(self, probability: Array) -> float:
        """See `rankwise.metrics.comparison_metrics.calibration_error`."""
        return calibration_error(self.margin, probability, self.weight)

    def baselines(self) -> dict[str, tuple[Array, Array]]:
        """Differences and probabilities of a random guess, and of "the first one wins".

        The second has the probability with which the first one does win.
        """
        ones = np.ones(len(self.margin))
        total = float(self.weight.sum())
        share = float(self.weight @ outcomes(self.margin)) / total if total > 0 else 0.5
        return {"random": (0.0 * ones, 0.5 * ones), "first wins": (ones, share * ones)}
