"""The evidence of a pairwise Gaussian process as a function of its hyper-parameters."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from rankwise.backends.arrays import Array
from rankwise.errors import ParameterError
from rankwise.estimators.gp.process import (
    Component,
    Hyperparameters,
    Inference,
    Observations,
    condition,
    kernel_gradient,
    kernel_values,
    out_of_range,
)
from rankwise.solvers.gp.approximation import Approximation
from rankwise.solvers.gp.differences import Differences
from rankwise.solvers.gp.gaussian import noise_slope
from rankwise.solvers.gp.gradient import factor_gradient
from rankwise.solvers.gp.span import (
    Span,
    rows_gradient,
    span_of_landmarks,
    span_of_pairs,
    span_of_rows,
)

_THRESHOLD_BOUNDS = (1e-3, 1e2)
_FLIPS_BOUNDS = (1e-4, 0.45)


class Evidence:
    """log p(comparisons | theta), its gradient, and the posterior at any theta.

    theta holds the logarithms of the free hyper-parameters of the kernel, then that of the
    noise where it is free, that of the threshold of ties where there are any, and that of the
    share of flips where it is not 0.

    One value costs a posterior (`solvers.gp.ep`), a gradient the derivatives of the kernel
    more, O(n^2) for each hyper-parameter, or O(n r) with r landmarks. Sites are kept from one
    call to the next, to start from.

    Parameters
    ----------
    kernel : scikit-learn kernel
    X : ndarray of shape (n, n_features)
        The rows that were compared.
    observed : Observations
        Of these rows.
    inference : Inference
    noise, threshold : float
    noise_bounds : (float, float) or None
        None: not free.
    free_threshold : bool
    flips : float
    landmarks : ndarray of shape (r, n_features), optional
    """

    def __init__(
        self,
        kernel: Any,
        X: Array,
        observed: Observations,
        inference: Inference,
        *,
        noise: float,
        noise_bounds: tuple[float, float] | None,
        threshold: float,
        free_threshold: bool,
        flips: float,
        landmarks: Array | None = None,
    ) -> None:
        self.kernel = kernel
        self.X = X
        self.observed = observed
        self.inference = inference
        self.noise = noise
        self.threshold = threshold
        self.landmarks = landmarks
        self._noise_bounds = noise_bounds
        self._free_threshold = free_threshold
        self.flips = flips
        self._last: tuple[Array, Approximation] | None = None

    @property
    def start(self) -> Array:
        """theta as it was given."""
        more = [self.noise] * (self._noise_bounds is not None)
        more += [self.threshold] * self._free_threshold
        more += [self.flips] * (self.flips > 0)
        return np.concatenate((self.kernel.theta, np.log(more)))

    @property
    def bounds(self) -> Array:
        """Least and greatest theta, of shape (n_free, 2)."""
        more = [] if self._noise_bounds is None else [self._noise_bounds]
        more += [_THRESHOLD_BOUNDS] * self._free_threshold
        more += [_FLIPS_BOUNDS] * (self.flips > 0)
        return np.vstack((self.kernel.bounds.reshape(-1, 2), np.log(np.reshape(more, (-1, 2)))))

    def at(self, theta: Array) -> Hyperparameters:
        """What theta stands for."""
        theta = np.asarray(theta, dtype=np.float64)
        if theta.shape != self.start.shape or not np.isfinite(theta).all():
            raise ParameterError(
                f"theta needs one finite entry for each of the {len(self.start)} free "
                f"hyper-parameters: got {theta}."
            )
        k = len(self.kernel.theta)
        with np.errstate(over="ignore"):  # the kernel's values are checked
            kernel = self.kernel.clone_with_theta(theta[:k])
            more = list(np.exp(theta[k:]))
        noise = more.pop(0) if self._noise_bounds is not None else self.noise
        threshold = more.pop(0) if self._free_threshold else self.threshold
        flips = more.pop(0) if self.flips > 0 else 0.0
        return Hyperparameters(kernel, float(noise), float(threshold), float(flips))

    def with_flips(self, share: float) -> Evidence:
        """The same with one hyper-parameter more, a share of flips that starts here."""
        other = copy(self)
        other.flips = share
        return other

    def component(self, theta: Array) -> Component:
        """The posterior at theta."""
        hyper = self.at(theta)
        span = self._span(hyper.kernel)
        start = self._sites(span, hyper)
        _, approximation = condition(span, self.observed, hyper, self.inference, start)
        points = self.X if self.landmarks is None else self.landmarks
        return Component(hyper, points, span, approximation, self.landmarks is None)

    def value(self, theta: Array) -> float:
        """log p(comparisons | theta)."""
        return self.component(theta).approximation.log_evidence

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """log p(comparisons | theta), and its gradient in theta."""
        hyper = self.at(theta)
        if self.landmarks is None:
            K, dK = kernel_gradient(hyper.kernel, self.X)
            span = self._span(hyper.kernel, K)
        else:
            span = self._span(hyper.kernel)
        start = self._sites(span, hyper)
        differences, a = condition(span, self.observed, hyper, self.inference, start)
        self._last = (span.differences.prior_variances / hyper.noise**2, a)
        scale = 1.0 if differences is span.differences else hyper.noise**-2
        with np.errstate(over="ignore", invalid="ignore"):  # said below, with a way out
            if self.landmarks is None:
                pairs = self.observed.first, self.observed.second
                M = rows_gradient(span, differences, a, len(self.X), pairs)
                by_kernel = scale * np.einsum("ij,ijp->p", M, dK)
            else:
                MC = np.sqrt(scale) * factor_gradient(differences, a)
                by_kernel = self._landmark_gradient(hyper.kernel, span, self.landmarks, MC)
            by_likelihood = self._likelihood_slopes(hyper, differences, a)
        gradient = np.concatenate((by_kernel, by_likelihood))
        if not np.isfinite(gradient).all():
            raise out_of_range(hyper)
        return a.log_evidence, gradient

    def _sites(self, span: Span, hyper: Hyperparameters) -> tuple[Array, Array] | None:
        """Sites to start from: those of the last gradient, for the prior as it is now."""
        if self._last is None or self.inference.likelihood == "gaussian":
            return None
        before, last = self._last
        now = span.differences.prior_variances / hyper.noise**2
        return last.sites_for(np.divide(now, before, out=np.ones_like(now), where=before > 0))

    def _likelihood_slopes(
        self, hyper: Hyperparameters, differences: Differences, a: Approximation
    ) -> Array:
        """By the logarithms of noise, threshold and flips, as far as they are free."""
        slopes = []
        if self._noise_bounds is not None:
            if self.inference.likelihood == "gaussian":
                slopes.append(noise_slope(a))
            else:  # the evidence depends on K / noise^2
                by_scale = (factor_gradient(differences, a) * differences.C).sum()
                slopes.append(-2.0 * by_scale)
        if self._free_threshold:
            slopes.append(a.threshold_slope * hyper.threshold)
        if self.flips > 0:
            slopes.append(a.flips_slope * hyper.flips)
        return np.array(slopes)

    def _landmark_gradient(self, kernel: Any, span: Span, landmarks: Array, MC: Array) -> Array:
        """Of Q = K_nm K_mm^-1 K_mn: tr(M dQ) = 2 tr(H M dK_nm) - tr(H M H' dK_mm), H' = C R^-1.

        scikit-learn differentiates k(X, X) only: rows are taken with the landmarks, as many at
        a time as there are of these.
        """
        basis, Z = span.basis, landmarks[span.basis.first]
        r = len(basis)
        if r == 0:
            return np.zeros(len(kernel.theta))

        def unroot(V: Array) -> Array:
            """R^-T V."""
            return np.asarray(solve_triangular(basis.root, V, trans="T", lower=True))

        by_rows = 2.0 * unroot(MC.T).T
        by_marks = -unroot(unroot(span.differences.C.T @ MC).T)
        _, dK = kernel_gradient(kernel, Z)
        gradient = np.einsum("ij,ijp->p", by_marks, dK)
        for start in range(0, len(self.X), r):
            rows = self.X[start : start + r]
            _, dK = kernel_gradient(kernel, np.vstack((rows, Z)))
            block = dK[: len(rows), len(rows) :]
            gradient += np.einsum("ij,ijp->p", by_rows[start : start + r], block)
        return np.asarray(gradient)

    def _span(self, kernel: Any, K: Array | None = None) -> Span:
        first, second = self.observed.first, self.observed.second
        if self.landmarks is not None:
            K_nm = kernel_values(kernel, self.X, self.landmarks)
            return span_of_landmarks(K_nm, kernel_values(kernel, self.landmarks), first, second)
        K = kernel_values(kernel, self.X) if K is None else K
        of_rows = len(self.X) <= len(first)
        return (span_of_rows if of_rows else span_of_pairs)(K, first, second)
