"""Comparisons between points on a line or in a plane, as problems for the Gaussian process.

reproduce/pairwise_gp uses them too, so nothing from the test packages is imported here.
"""

from dataclasses import dataclass

import numpy as np

from rankwise.gp.inference import weights_of_pairs, weights_of_rows


@dataclass(frozen=True)
class ComparisonProblem:
    K: np.ndarray
    pairs: np.ndarray
    counts: np.ndarray
    threshold: float

    def differences(self, form):
        first, second = self.pairs.T.copy()
        build = {"rows": weights_of_rows, "pairs": weights_of_pairs}[form]
        return build(self.K.copy(), first, second).differences

    def posterior(self, weights):
        """Mean and covariance of f, from the weights of the differences of rows."""
        space = weights_of_rows(self.K.copy(), *self.pairs.T.copy())
        C = np.empty_like(space.differences.C)
        C[space.order] = space.differences.C
        whitened = weights.whiten(C.T)
        return C @ weights.mean, whitened.T @ whitened


def covariance(X, scale, width):
    """The squared exponential kernel, with some independent variance of each row."""
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    return scale * (np.exp(-0.5 * squared / width**2) + 1e-2 * np.eye(len(X)))


def make_problem(seed, n_rows, n_pairs, *, scale=4.0, width=1.0, repeats=True, ties=True):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n_rows, 1 + seed % 2))
    K = covariance(X, scale, width)
    f = np.linalg.cholesky(K) @ rng.standard_normal(n_rows)
    all_pairs = np.argwhere(np.triu(np.ones((n_rows, n_rows)), 1))
    n_pairs = min(n_pairs, len(all_pairs))
    pairs = all_pairs[rng.choice(len(all_pairs), n_pairs, replace=False)]
    win = f[pairs[:, 0]] - f[pairs[:, 1]] + rng.standard_normal(n_pairs) > 0
    counts = np.column_stack((win, ~win, np.zeros(n_pairs))).astype(float)
    if repeats:
        again = rng.random(n_pairs) < 0.3
        counts[again, rng.integers(0, 2, again.sum())] += rng.choice([0.5, 1.0, 3.0], again.sum())
    if ties:
        tied = rng.random(n_pairs) < 0.3
        counts[tied, 2] += 1.0
    return ComparisonProblem(K, pairs, counts, 0.4 if ties else 0.0)
