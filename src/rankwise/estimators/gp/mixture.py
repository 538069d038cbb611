"""Gaussian processes with different hyper-parameters, averaged by their weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack

from rankwise.backends.arrays import Array
from rankwise.estimators.gp.process import Component, Inference, Observations


@dataclass(frozen=True, eq=False)
class Mixture:
    """Components, each with a weight; often one alone.

    Attributes
    ----------
    components : list of Component
    weights : ndarray of shape (n_components,)
        Of the posterior; they sum to 1.
    prior : ndarray of shape (n_components,)
        In proportion to the weights before any comparison.
    """

    components: list[Component]
    weights: Array
    prior: Array

    @classmethod
    def of(cls, components: list[Component], prior: Array) -> Mixture:
        """Weights in proportion to prior times evidence."""
        values = np.array([c.approximation.log_evidence for c in components])
        weights = prior * np.exp(values - values.max())
        return cls(components, weights / weights.sum(), prior)

    @property
    def best(self) -> Component:
        """The component of greatest weight."""
        return self.components[int(np.argmax(self.weights))]

    def average(self, ask: Callable[[Component], Array]) -> Array:
        """What the components answer, weighted."""
        return np.asarray(self.weights @ [ask(component) for component in self.components])

    def mean(self, X: Array) -> Array:
        return self.average(lambda c: c.mean(X))

    def mean_and_std(self, X: Array) -> tuple[Array, Array]:
        means = np.array([c.mean(X) for c in self.components])
        mean = self.weights @ means
        variances = np.array([c.variance(X) for c in self.components])
        return mean, np.sqrt(self.weights @ (variances + np.square(means - mean)))

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        means = [c.mean(X) for c in self.components]
        mean, total = np.asarray(self.weights @ means), np.zeros((len(X), len(X)))
        for weight, component, at in zip(self.weights, self.components, means, strict=True):
            gap = at - mean
            total += weight * (component.covariance(X) + gap[:, None] * gap)
        return mean, total

    def sample(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        """Draws of shape (n, rows of X), each from one component."""
        which = rng.choice(len(self.components), n, p=self.weights)
        draws = np.empty((n, len(X)))
        for k in np.unique(which):
            component, chosen = self.components[k], which == k
            root = _root(component.covariance(X))
            normal = rng.standard_normal((int(chosen.sum()), root.shape[1]))
            draws[chosen] = component.mean(X) + normal @ root.T
        return draws

    def told(
        self, points: Array, pair: tuple[int, int], observed: Observations, inference: Inference
    ) -> Mixture:
        """After one comparison more: see `Component.told`."""
        told = [c.told(points, pair, observed, inference) for c in self.components]
        return Mixture.of(told, self.prior)


def rank_counts(draws: Array, rng: np.random.Generator) -> Any:
    """How often every column of `draws` is at every place, the highest being at 0."""
    m = draws.shape[1]
    # Equal rows have equal scores: chance decides, not their order.
    order = np.lexsort((rng.random(draws.shape), -draws))
    counts = np.bincount((order * m + np.arange(m)).ravel(), minlength=m * m)
    return counts.reshape(m, m)


def _root(covariance: Array) -> Array:
    """R with R R' = covariance, of numerical rank; a singular one is fine."""
    lower, order, rank, _ = lapack.dpstrf(np.asfortranarray(covariance), lower=1)
    root = np.zeros((len(covariance), rank))
    root[order - 1] = np.tril(lower[:, :rank])
    return root
