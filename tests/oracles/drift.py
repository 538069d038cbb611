"""Drifting ratings by SciPy's optimizer, battle by battle."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_expit


def walk_log_posterior(theta, pairs, period, weight, penalty, drift, gaps):
    """Of ratings by period and item, without ties; winners are first in pairs."""
    total = -0.5 * penalty * theta[0] @ theta[0]
    for p, gap in enumerate(gaps):
        step = theta[p + 1] - theta[p]
        total -= 0.5 * step @ step / (drift**2 * gap)
    for (a, b), p, w in zip(pairs, period, weight, strict=True):
        total += w * log_expit(theta[p, a] - theta[p, b])
    return total


def fit_walk(pairs, period, weight, n_items, penalty, drift, gaps):
    """Ratings of all periods, and the matrix of minus second derivatives."""
    shape = (len(gaps) + 1, n_items)

    def loss(flat):
        theta = flat.reshape(shape)
        return -walk_log_posterior(theta, pairs, period, weight, penalty, drift, gaps)

    found = minimize(loss, np.zeros(np.prod(shape)), method="BFGS", options={"gtol": 1e-8}).x
    size = np.prod(shape)
    K = np.zeros((size, size))
    K[:n_items, :n_items] += penalty * np.eye(n_items)
    for p, gap in enumerate(gaps):
        D = np.zeros((n_items, size))
        D[:, p * n_items : (p + 1) * n_items] = -np.eye(n_items)
        D[:, (p + 1) * n_items : (p + 2) * n_items] = np.eye(n_items)
        K += D.T @ D / (drift**2 * gap)
    scores = np.zeros((len(pairs), size))
    for k, ((a, b), p, w) in enumerate(zip(pairs, period, weight, strict=True)):
        d = np.zeros(size)
        d[p * n_items + a], d[p * n_items + b] = 1, -1
        q = 1 / (1 + np.exp(d @ found))
        K += w * q * (1 - q) * np.outer(d, d)
        scores[k] = w * q * d
    return found.reshape(shape), K, scores


def log_likelihood_of_a_walk(score, information, times, variance):
    """Of the differences of one item's ratings from the first, score / information, as a density.

    The rating of a period has the variance 1 / information; steps have `variance` a unit of time.
    """
    seen = np.flatnonzero(np.asarray(information) > 0)
    times, z = np.asarray(times)[seen], np.asarray(score)[seen] / np.asarray(information)[seen]
    S = np.diag(1 / np.asarray(information)[seen])
    for i in range(len(seen)):
        for j in range(len(seen)):
            S[i, j] += variance * min(times[i], times[j])
    D = np.hstack((-np.ones((len(seen) - 1, 1)), np.eye(len(seen) - 1)))
    V, d = D @ S @ D.T, D @ z
    return -0.5 * (np.linalg.slogdet(V)[1] + d @ np.linalg.solve(V, d))


def seen_drift(pairs, period, weight, theta, times, end, widths, prior):
    """The mean variance of steps given residuals, and the variance of the gradient through steps.

    Battle by battle, winners first; `times` are of periods, and `end` is the latest time.
    """
    n, P = len(theta), len(times)
    S, J, B, met = np.zeros((P, n)), np.zeros((P, n)), np.zeros((P, n, n)), np.zeros((n, n))
    squares, total, mass = 0.0, np.zeros(P), np.zeros(P)
    for (a, b), p, w in zip(pairs, period, weight, strict=True):
        q = 1 / (1 + np.exp(theta[a] - theta[b]))  # of the other outcome
        d = np.eye(n)[a] - np.eye(n)[b]
        S[p] += w * q * d
        J[p] += w * q * (1 - q) * abs(d)
        B[p] += w * q * (1 - q) * np.outer(d, d)
        met[a, b] += w * q * (1 - q)
        met[b, a] += w * q * (1 - q)
        squares += 2 * (w * q) ** 2
        total[p] += w * w
        mass[p] += w
    noise = total / mass
    noise = noise * squares / (noise @ J.sum(axis=1))
    relative = 1 + (met**2).sum(axis=1) / J.sum(axis=0) ** 2
    span = end - times[0]
    log_p = np.log(prior)
    for k, width in enumerate(widths):
        for i in range(n):
            variance = relative[i] * width**2 / span
            given = S[:, i] / noise, J[:, i] / noise, times, variance
            log_p[k] += log_likelihood_of_a_walk(*given) / relative[i]
    p = np.exp(log_p - log_p.max())
    variance = p @ np.square(widths) / span / p.sum()
    gaps, moved = np.diff([*times, end]), np.zeros((n, n))
    for k, gap in enumerate(gaps):
        C = B[: k + 1].sum(axis=0)
        moved += gap * C @ C.T
    return variance, variance * moved
