"""What a pairwise Gaussian process predicts of comparisons that are held out, and how well."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from rankwise.backends.arrays import Array, Index
from rankwise.estimators.gp.evidence import Evidence
from rankwise.estimators.gp.process_mixture import ProcessMixture
from rankwise.graph import QueryGroups
from rankwise.graph.comparisons import Comparisons
from rankwise.metrics.comparison_metrics import (
    accuracy_of,
    brier_of,
    calibration_error,
    clustered_mean,
)

_LEAST = 1e-300  # a probability whose logarithm is finite


@dataclass(frozen=True, eq=False)
class HeldOutComparisons:
    """Every comparison, predicted without it or without its group.

    Averages are weighted by `weight`.

    Attributes
    ----------
    pairs, margin, weight : ndarray
        The comparisons, as in `PairwiseGP`.
    groups : ndarray of shape (n_pairs,)
        The number of the group of each comparison; each is its own group by default.
    mean, std : ndarray of shape (n_pairs,)
        Of the difference of scores, f(first) - f(second).
    probabilities : ndarray of shape (n_pairs, 3)
        Of a win, a tie and a loss of the first row.
    log_likelihood : ndarray of shape (n_pairs,)
        Logarithm of the probability of what was observed (of its density, if margins have Gaussian
        noise). A tie that counts as half a win for each row has the mean of both logarithms.
    """

    pairs: Index
    margin: Array
    weight: Array
    groups: Index
    mean: Array
    std: Array
    probabilities: Array
    log_likelihood: Array

    @property
    def log_loss(self) -> float:
        """Minus the mean log-likelihood."""
        return self._mean(-self.log_likelihood)[0]

    @property
    def log_loss_std_error(self) -> float:
        """Standard error of the log-loss; comparisons of a group may depend on each other."""
        return self._mean(-self.log_likelihood)[1]

    @property
    def accuracy(self) -> float:
        """Share of comparisons whose winner was predicted; a tie counts half."""
        return self._mean(accuracy_of(self.margin, self.mean))[0]

    @property
    def brier(self) -> float:
        """Mean squared error of P(win) + P(tie) / 2, where a tie is half a win."""
        return self._mean(brier_of(self.margin, self._score))[0]

    @property
    def calibration_error(self) -> float:
        """Mean distance between predicted and observed shares of wins, over ten bins."""
        return calibration_error(self.margin, self._score, self.weight)

    @property
    def _score(self) -> Array:
        return self.probabilities @ np.array([1.0, 0.5, 0.0])

    def _mean(self, values: Array) -> tuple[float, float]:
        return clustered_mean(values, self.weight, self.groups)


def hold_out(
    posterior: ProcessMixture,
    evidence: Evidence,
    comparisons: Comparisons,
    groups: QueryGroups | None,
) -> HeldOutComparisons:
    """Hold out every comparison, or every group of them."""
    held_out = [evidence.held_out(process, groups) for process in posterior.processes]
    means, variances = (np.array(part) for part in zip(*held_out, strict=True))
    weights = posterior.weights
    mean = weights @ means
    chances, by_pair = np.zeros((len(mean), 3)), evidence.slopes(evidence.hyper)
    slopes = np.ones(len(mean)) if by_pair is None else by_pair[evidence.observed.pair]
    for weight, process, m, v in zip(weights, posterior.processes, means, variances, strict=True):
        win, tie = process.hyper.outcomes(m, v, slopes)
        chances += weight * np.column_stack((win, tie, 1.0 - win - tie))
    if evidence.inference.likelihood == "gaussian":
        noise = np.array([[process.hyper.noise] for process in posterior.processes])
        spread = variances + noise**2 / (comparisons.weight * slopes**2)
        logs = -0.5 * (np.square(comparisons.margin - means) / spread + np.log(2 * np.pi * spread))
        log_likelihood = np.asarray(logsumexp(logs, axis=0, b=weights[:, None]))
    else:
        logs, observed = np.log(np.maximum(chances, _LEAST)), evidence.observed
        first_won = np.where(observed.sign > 0, *observed.parts[:, :2].T)
        second_won = np.where(observed.sign > 0, *observed.parts[:, 1::-1].T)
        parts = np.column_stack((first_won, observed.parts[:, 2], second_won))
        log_likelihood = (logs * parts).sum(axis=1) / comparisons.weight
    return HeldOutComparisons(
        comparisons.pairs,
        comparisons.margin,
        comparisons.weight,
        np.arange(len(mean)) if groups is None else groups.codes,
        mean,
        np.sqrt(weights @ (variances + np.square(means - mean))),
        chances,
        log_likelihood,
    )
