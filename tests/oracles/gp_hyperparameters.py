"""Full Bayes for score differences with Gaussian noise: a lattice, and a long Metropolis walk.

f has the covariance v exp(-|x - x'|^2 / (2 w^2)), and margins have the standard deviation s. The
logarithms of v, w and s are normal around `start` with standard deviation `scale`.
"""

import numpy as np


def density_of(X, pairs, margin, new, start, scale):
    """A function of (log v, log w, log s): log density up to a constant, and moments of f(new)."""
    rows = np.vstack((X, new))
    squares = ((rows[:, None] - rows) ** 2).sum(axis=2)
    m = len(X)
    B = np.zeros((len(pairs), len(rows)))
    for row, (i, j) in zip(B, pairs, strict=True):
        row[i] += 1.0
        row[j] -= 1.0

    def density(theta):
        v, w, s = np.exp(theta)
        K = v * np.exp(-0.5 * squares / w**2)
        S = B @ K @ B.T + s**2 * np.eye(len(B))
        cross = B @ K[:, m:]
        solved = np.linalg.solve(S, np.column_stack((cross, margin)))
        variance = np.diag(K[m:, m:]) - (solved[:, :-1] * cross).sum(axis=0)
        fit = -0.5 * (np.linalg.slogdet(S)[1] + margin @ solved[:, -1])
        prior = -0.5 * (((theta - start) / scale) ** 2).sum()
        return fit + prior, cross.T @ solved[:, -1], variance

    return density


def lattice(density, start, reach, n):
    """Mean and standard deviation of f(new), from n^3 points within `reach` of the start."""
    side = np.linspace(-reach, reach, n)
    found = [density(start + np.array(z)) for z in np.ndindex(n, n, n) for z in [side[list(z)]]]
    values, means, variances = (np.array(part) for part in zip(*found, strict=True))
    weight = np.exp(values - values.max())
    weight /= weight.sum()
    mean = weight @ means
    return mean, np.sqrt(weight @ (variances + means**2) - mean**2)


def walk(density, start, n_steps, rng):
    """The same from a random walk."""
    theta, here = np.array(start, float), density(np.array(start, float))
    total, square = np.zeros_like(here[1]), np.zeros_like(here[1])
    for step in range(-n_steps // 10, n_steps):
        other = theta + 0.5 * rng.standard_normal(3)
        there = density(other)
        if np.log(rng.random()) < there[0] - here[0]:
            theta, here = other, there
        if step >= 0:
            total += here[1]
            square += here[2] + here[1] ** 2
    mean = total / n_steps
    return mean, np.sqrt(square / n_steps - mean**2)
