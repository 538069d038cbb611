"""Probabilities of the outcomes of a battle, and their derivatives.

A battle has up to three linear predictors: eta, by how much the first item is better; tau, the
logarithm of the tie parameter; and e, the logit of the share of verdicts that are given at random.
Outcomes are in the order first, second, tie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from rankwise.backends.arrays import Array

FIRST, SECOND, TIE = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Terms:
    """Logarithms of probabilities, and their derivatives by the predictors.

    `log_p` has shape (n_outcomes, n), `gradient` (n_outcomes, n_predictors, n) and `hessian`
    (n_outcomes, n_predictors, n_predictors, n), or (1, ...) where it is the same for all outcomes.
    """

    log_p: Array
    gradient: Array
    hessian: Array


Model = Callable[[Array, float], Terms]


def logit(eta: Array, tau: float) -> Terms:
    """Bradley-Terry: P(first) = 1 / (1 + exp(-eta)); no ties."""
    log_p = np.stack((-np.logaddexp(0.0, -eta), -np.logaddexp(0.0, eta)))
    p = np.exp(log_p)
    return Terms(log_p, np.stack((p[1], -p[0]))[:, None], -(p[0] * p[1])[None, None, None])


def davidson(eta: Array, tau: float) -> Terms:
    """Davidson: P(first), P(second), P(tie) in proportion to exp(eta/2), exp(-eta/2), exp(tau)."""
    half = 0.5 * eta
    top = np.maximum(abs(half), tau)
    log_p = np.stack((half - top, -half - top, tau - top))
    p = np.exp(log_p)
    total = p.sum(axis=0)
    p /= total
    log_p -= np.log(total)
    a, b, t = p
    mean = 0.5 * (a - b)
    gradient = np.empty((3, 2, len(eta)))
    gradient[0, 0], gradient[1, 0], gradient[2, 0] = 0.5 - mean, -0.5 - mean, -mean
    gradient[:2, 1], gradient[2, 1] = -t, a + b
    hessian = np.empty((1, 2, 2, len(eta)))
    hessian[0, 0, 0] = mean**2 - 0.25 * (a + b)
    hessian[0, 0, 1] = hessian[0, 1, 0] = mean * t
    hessian[0, 1, 1] = -t * (a + b)
    return Terms(log_p, gradient, hessian)


def probit(eta: Array, tau: float) -> Terms:
    """Thurstone: P(first) = Phi(eta); no ties."""
    log_p, slope, bend = _tail(np.stack((eta, -eta)))
    return Terms(log_p, np.stack((slope[0], -slope[1]))[:, None], bend[:, None, None])


def threshold(eta: Array, tau: float) -> Terms:
    """Thurstone with ties: P(first) = Phi(eta - t), P(second) = Phi(-eta - t), t = exp(tau)."""
    t = np.exp(tau)
    log_tail, slope, bend = _tail(np.stack((eta, -eta)) - t)
    # From the side where both terms are small, so that their difference is exact.
    near, far = t - abs(eta), -t - abs(eta)
    p = np.maximum(ndtr(near) - ndtr(far), 1e-300)
    up, down = _density(eta + t) / p, _density(eta - t) / p
    gradient = np.empty((3, 2, len(eta)))
    gradient[0, 0], gradient[1, 0], gradient[2, 0] = slope[0], -slope[1], up - down
    gradient[:2, 1], gradient[2, 1] = -t * slope, t * (up + down)
    hessian = np.empty((3, 2, 2, len(eta)))
    hessian[:2, 0, 0] = bend
    hessian[0, 0, 1], hessian[1, 0, 1] = -t * bend[0], t * bend[1]
    hessian[:2, 1, 1] = t * t * bend - t * slope
    bends = (eta - t) * down - (eta + t) * up
    hessian[2, 0, 0] = bends - gradient[2, 0] ** 2
    crossed = -t * ((eta + t) * up + (eta - t) * down)
    hessian[2, 0, 1] = crossed - gradient[2, 0] * gradient[2, 1]
    hessian[2, 1, 1] = t * t * bends + gradient[2, 1] - gradient[2, 1] ** 2
    hessian[:, 1, 0] = hessian[:, 0, 1]
    return Terms(np.concatenate((log_tail, np.log(p)[None])), gradient, hessian)


def _tail(z: Array) -> tuple[Array, Array, Array]:
    """log Phi(z), its first and its second derivative."""
    log_p = log_ndtr(z)
    slope = np.exp(-0.5 * z * z - 0.5 * np.log(2 * np.pi) - log_p)
    return log_p, slope, -slope * (slope + z)


def _density(z: Array) -> Array:
    return np.asarray(np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi))


MODELS: dict[tuple[str, bool], Model] = {
    ("logit", False): logit,
    ("logit", True): davidson,
    ("probit", False): probit,
    ("probit", True): threshold,
}
"""By link, and whether ties have a model."""


def with_slips(terms: Terms, e: Array) -> Terms:
    """The same with a share s = 1 / (1 + exp(-e)) of verdicts given at random.

    P = (1 - s) Q + s / K with the outcome model's Q and K outcomes. With r = (1 - s) Q / P, the
    probability that a verdict was meant, the derivatives of log P are r times those of log Q, and
    (1 - r) - s by e.
    """
    n_outcomes, q, n = terms.gradient.shape
    meant = terms.log_p - np.logaddexp(0.0, e)
    random = -np.logaddexp(0.0, -e) - np.log(n_outcomes)
    log_p = np.logaddexp(meant, random)
    r = np.exp(meant - log_p)
    share = np.exp(-np.logaddexp(0.0, -e))
    both = r * (1.0 - r)
    gradient = np.empty((n_outcomes, q + 1, n))
    gradient[:, :q] = r[:, None] * terms.gradient
    gradient[:, q] = (1.0 - r) - share
    hessian = np.empty((n_outcomes, q + 1, q + 1, n))
    outer = terms.gradient[:, :, None] * terms.gradient[:, None]
    hessian[:, :q, :q] = r[:, None, None] * terms.hessian + both[:, None, None] * outer
    hessian[:, :q, q] = hessian[:, q, :q] = -both[:, None] * terms.gradient
    hessian[:, q, q] = both - share * (1.0 - share)
    return Terms(log_p, gradient, hessian)
