"""Pairwise Gaussian processes by slow, direct methods: dense matrices, one site at a time, and
sampling."""

import math

import numpy as np
from numba import njit
from scipy.special import log_ndtr, ndtr
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct

from rankwise import OnColumns


def log_likelihood(d, wins, losses, ties, threshold, flips=0.0):
    """log p(outcomes | d) of one pair, on an array of d, from the definition."""
    d = np.asarray(d, dtype=float)
    total = np.zeros_like(d)
    for count, z in ((wins, d - threshold), (losses, -d - threshold)):
        if count:
            log_p = log_ndtr(z) if flips == 0 else np.log(flips + (1 - 2 * flips) * ndtr(z))
            total = total + count * log_p
    if ties:
        upper, lower = log_ndtr(threshold - np.abs(d)), log_ndtr(-threshold - np.abs(d))
        total = total + ties * (upper + np.log1p(-np.exp(lower - upper)) + np.log(1 - 2 * flips))
    return total


def tilted_moments(m, v, wins, losses, ties, threshold, flips=0.0, points=4_001):
    """log Z, mean and variance of N(m, v) times the likelihood, by the trapezoid rule."""
    half = 14 * math.sqrt(v) + 1e-12
    x = np.linspace(m - half, m + half, points)
    g = log_likelihood(x, wins, losses, ties, threshold, flips) - (x - m) ** 2 / (2 * v)
    w = np.exp(g - g.max())
    z = np.trapezoid(w, x)
    mean = np.trapezoid(w * x, x) / z
    variance = np.trapezoid(w * (x - mean) ** 2, x) / z
    return g.max() + math.log(z) - 0.5 * math.log(2 * math.pi * v), mean, variance


def with_context(X, pairs, context, kernel):
    """Rows, pairs and a kernel with a row for each comparison in its context.

    Columns of the context, divided by their root mean squares, follow the columns of X. They are 0
    for items, and a linear kernel sees them.
    """
    scaled = context / np.sqrt(np.mean(context**2, axis=0))
    n, d = X.shape
    rows = np.zeros((n + len(pairs), d + scaled.shape[1]))
    rows[:n, :d], rows[n:, :d], rows[n:, d:] = X, X[pairs[:, 0]], scaled
    columns = d + np.arange(scaled.shape[1])
    linear = ConstantKernel(1.0) * OnColumns(DotProduct(0.0, "fixed"), columns)
    pairs = np.column_stack((n + np.arange(len(pairs)), pairs[:, 1]))
    return rows, pairs, OnColumns(kernel, np.arange(d)) + linear


def dense_ep(K, pairs, counts, threshold=0.0, flips=0.0, sweeps=200, slopes=None):
    """Minka's algorithm in the space of f: (mean, covariance, log evidence).

    One site after the other, the posterior recomputed from all sites by dense inverses.
    K must be well conditioned. With slopes, the likelihood of a pair is that of slope times
    difference.
    """
    n, N = len(K), len(pairs)
    tau, nu = np.zeros(N), np.zeros(N)
    B = np.zeros((N, n))
    for k, (i, j) in enumerate(pairs):
        B[k, i], B[k, j] = (1.0, -1.0) if slopes is None else (slopes[k], -slopes[k])
    K_inv = np.linalg.inv(K)

    def posterior():
        S = np.linalg.inv(K_inv + B.T @ np.diag(tau) @ B)
        return S @ B.T @ nu, S

    log_z = np.zeros(N)
    for _ in range(sweeps):
        before = tau.copy(), nu.copy()
        for k in range(N):
            m, S = posterior()
            mean, var = B[k] @ m, B[k] @ S @ B[k]
            cavity_var = 1 / (1 / var - tau[k])
            cavity_mean = cavity_var * (mean / var - nu[k])
            log_z[k], mean, var = tilted_moments(
                cavity_mean, cavity_var, *counts[k], threshold, flips
            )
            tau[k] = 1 / var - 1 / cavity_var
            nu[k] = mean / var - cavity_mean / cavity_var
        if max(np.abs(tau - before[0]).max(), np.abs(nu - before[1]).max()) < 1e-10:
            break
    m, S = posterior()
    # log of the normalizer of prior times sites, each site scaled to its own factor
    evidence = 0.5 * (B.T @ nu) @ m + 0.5 * np.linalg.slogdet(S)[1] - 0.5 * np.linalg.slogdet(K)[1]
    for k in range(N):
        mean, var = B[k] @ m, B[k] @ S @ B[k]
        v = 1 / (1 / var - tau[k])
        mu = v * (mean / var - nu[k])
        z = tilted_moments(mu, v, *counts[k], threshold, flips)[0]
        s2 = 1 / tau[k]
        site_mean = nu[k] * s2
        # N(mu | site_mean, v + s2) times sqrt(2 pi s2) exp(nu^2 s2 / 2) is the site's integral
        overlap = -0.5 * math.log(2 * math.pi * (v + s2)) - 0.5 * (mu - site_mean) ** 2 / (v + s2)
        overlap += 0.5 * math.log(2 * math.pi * s2) + 0.5 * nu[k] ** 2 * s2
        evidence += z - overlap
    return m, S, evidence


@njit(cache=True)
def _log_posterior(u, C, first, second, wins, losses):
    """Of weights u with f = C u, up to a constant."""
    f = C @ u
    out = -0.5 * (u @ u)
    for k in range(len(first)):
        d = (f[first[k]] - f[second[k]]) / math.sqrt(2.0)
        if wins[k] > 0:
            out += wins[k] * math.log(0.5 * math.erfc(-d) + 1e-300)
        if losses[k] > 0:
            out += losses[k] * math.log(0.5 * math.erfc(d) + 1e-300)
    return out


@njit(cache=True)
def _slice_chain(C, centre, root, first, second, wins, losses, n_steps, burn, rng):
    n = len(C)
    z = np.zeros(n)
    total, square = np.zeros(n), np.zeros(n)
    current = _log_posterior(centre, C, first, second, wins, losses)
    for step in range(n_steps + burn):
        nu = rng.standard_normal(n)
        level = current + math.log(rng.random())
        angle = 2 * math.pi * rng.random()
        low, high = angle - 2 * math.pi, angle
        while True:
            new = z * math.cos(angle) + nu * math.sin(angle)
            u = centre + root @ new
            current = _log_posterior(u, C, first, second, wins, losses) + 0.5 * (new @ new)
            if current > level:
                break
            if angle < 0:
                low = angle
            else:
                high = angle
            angle = low + (high - low) * rng.random()
        z = new
        if step >= burn:
            f = C @ u
            total += f
            square += f * f
    mean = total / n_steps
    return mean, np.sqrt(square / n_steps - mean**2)


def elliptical_slice(K, pairs, counts, *, reference=None, n_steps=20_000, burn=500, seed=0):
    """Mean and standard deviation of f under the exact posterior (Murray et al., 2010).

    Probit outcomes without ties, in units of the noise. The chain moves along ellipses of
    `reference`, a Gaussian (mean, covariance); the likelihood is the ratio of the posterior to
    it. Any reference gives the same result; with a close one, draws are nearly independent.
    None: the prior.
    """
    C = np.linalg.cholesky(K)
    mean, covariance = (np.zeros(len(K)), K) if reference is None else reference
    centre = np.linalg.solve(C, mean)
    half = np.linalg.solve(C, covariance)
    root = np.linalg.cholesky(np.linalg.solve(C, half.T))
    pairs, counts = np.asarray(pairs), np.asarray(counts, dtype=float)
    rng = np.random.default_rng(seed)
    return _slice_chain(
        C, centre, root, pairs[:, 0], pairs[:, 1], counts[:, 0], counts[:, 1], n_steps, burn, rng
    )


def design_effect(A, tau, groups, *, mean, variance, margin, threshold, push=None):
    """Pushes of groups against pushes of single comparisons, in the norm of the posterior.

    A has a row for each comparison, d = A u with u from N(0, I), and tau the precisions of sites.
    `push` are derivatives of log-likelihoods by d, by default of the chances of the outcomes for d
    from N(mean, variance).
    """
    P = np.eye(A.shape[1])
    for row, precision in zip(A, tau, strict=True):
        P += precision * np.outer(row, row)
    S = np.linalg.inv(P)
    if push is None:

        def log_chance(k, m):
            spread = math.sqrt(1 + variance[k])
            win, loss = ndtr((m - threshold) / spread), ndtr((-m - threshold) / spread)
            if margin[k] == 0:
                return math.log(1 - win - loss)
            return math.log(win if margin[k] > 0 else loss)

        push = [
            (log_chance(k, m + 1e-4) - log_chance(k, m - 1e-4)) / 2e-4 for k, m in enumerate(mean)
        ]
    names = np.unique(groups)
    top, below = np.zeros(len(names)), np.zeros(len(names))
    for g, name in enumerate(names):
        total = np.zeros(len(P))
        for k in np.flatnonzero(groups == name):
            total += push[k] * A[k]
            below[g] += push[k] ** 2 * (A[k] @ S @ A[k])
        top[g] = total @ S @ total
    effect = top.sum() / below.sum()
    return effect, math.sqrt(((top - effect * below) ** 2).sum()) / below.sum()
