"""A weighted average of Gaussian processes with different hyperparameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import lapack

from rankwise.backends.arrays import Array
from rankwise.estimators.gp.conditioned_process import ConditionedProcess
from rankwise.estimators.gp.evidence import Evidence

_TIED = 1e-10  # of the largest score: smaller differences of draws are rounding errors


@dataclass(frozen=True, eq=False)
class ProcessMixture:
    """Conditioned processes with their posterior weights, which sum to 1; often a single one.

    `prior` is proportional to their prior weights.
    """

    processes: list[ConditionedProcess]
    weights: Array
    prior: Array

    @classmethod
    def of(cls, processes: list[ConditionedProcess], prior: Array) -> ProcessMixture:
        """With weights proportional to prior times evidence."""
        values = np.array([c.approximation.log_evidence for c in processes])
        weights = prior * np.exp(values - values.max())
        return cls(processes, weights / weights.sum(), prior)

    @property
    def best(self) -> ConditionedProcess:
        """The process of greatest weight."""
        return self.processes[int(np.argmax(self.weights))]

    def average(self, ask: Callable[[ConditionedProcess], Array]) -> Array:
        """The weighted mean of a function of the processes."""
        return np.tensordot(self.weights, [ask(process) for process in self.processes], axes=1)

    def mean(self, X: Array, reference: Array | None = None) -> Array:
        """Scores of rows of X, less their mean over reference rows if there are any."""
        return self.average(lambda c: c.mean(X, reference))

    def mean_and_std(self, X: Array, reference: Array | None = None) -> tuple[Array, Array]:
        """The same scores, and their standard deviations."""
        means = np.array([c.mean(X, reference) for c in self.processes])
        mean = self.weights @ means
        variances = np.array([c.variance(X, reference) for c in self.processes])
        return mean, np.sqrt(self.weights @ (variances + np.square(means - mean)))

    def mean_and_covariance(self, X: Array, reference: Array | None = None) -> tuple[Array, Array]:
        """The same scores, and their covariance."""
        means = [c.mean(X, reference) for c in self.processes]
        mean, total = np.asarray(self.weights @ means), np.zeros((len(X), len(X)))
        for weight, process, at in zip(self.weights, self.processes, means, strict=True):
            gap = at - mean
            total += weight * (process.covariance(X, reference) + gap[:, None] * gap)
        return mean, total

    def difference(self, X1: Array, X2: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of f(x1) - f(x2), row by row."""
        parts = [c.difference(X1, X2) for c in self.processes]
        means, variances = (np.array(part) for part in zip(*parts, strict=True))
        mean = self.weights @ means
        return mean, np.sqrt(self.weights @ (variances + np.square(means - mean)))

    def sample(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        """Draws of shape (n, rows of X), each from one of the processes."""
        which = rng.choice(len(self.processes), n, p=self.weights)
        draws = np.empty((n, len(X)))
        for k in np.unique(which):
            process, chosen = self.processes[k], which == k
            root = _root(process.covariance(X))
            normal = rng.standard_normal((int(chosen.sum()), root.shape[1]))
            draws[chosen] = process.mean(X) + normal @ root.T
        return draws

    def updated(self, evidence: Evidence) -> ProcessMixture:
        """The same hyperparameters, conditioned on comparisons that extend the present ones.

        Two things come from the evidence: the slopes of raters, and the threshold if there were no
        ties before. Known sites serve as a start; those of new pairs start at 0.
        """
        processes = []
        for process in self.processes:
            a = process.approximation
            more = np.zeros(len(evidence.observed) - len(a.tau))
            start = np.concatenate((a.tau, more)), np.concatenate((a.nu, more))
            old = process.hyper
            threshold = old.threshold or evidence.hyper.threshold
            hyper = replace(old, threshold=threshold, slopes=evidence.hyper.slopes)
            processes.append(evidence.condition(hyper, start))
        return ProcessMixture.of(processes, self.prior)


def rank_counts(draws: Array, rng: np.random.Generator) -> Any:
    """How often each column of `draws` has each rank, 0 being the highest."""
    m = draws.shape[1]
    # Ties are broken at random, and so are differences that are rounding errors.
    unit = _TIED * float(np.abs(draws).max(initial=0.0)) or 1.0
    order = np.lexsort((rng.random(draws.shape), -np.round(draws / unit)))
    counts = np.bincount((order * m + np.arange(m)).ravel(), minlength=m * m)
    return counts.reshape(m, m)


def _root(covariance: Array) -> Array:
    """R with R R' = covariance, which may be singular."""
    lower, order, rank, _ = lapack.dpstrf(np.asfortranarray(covariance), lower=1)
    root = np.zeros((len(covariance), rank))
    root[order - 1] = np.tril(lower[:, :rank])
    return root
