"""The evidence of a pairwise Gaussian process as a function of its hyperparameters.

The evidence, or marginal likelihood, is the probability of the comparisons with all scores
integrated out.

Where comparisons are held out of a posterior, or added to it, a few sites change by more than a
tolerance, and inference on all comparisons is not needed. With B the differences of k changed
sites, which have the posterior N(m, V), S the covariance of all scores and G = B S, changes dtau
and dnu of the sites lead to

    S <- S - G'M G,   f <- f + G'(I - M V) z,   M = (I + diag(dtau) V)^-1 diag(dtau),

where z = dnu - dtau m.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from rankwise.backends.arrays import Array, Index
from rankwise.backends.parallel import matmul
from rankwise.errors import DataError, ParameterError
from rankwise.gp.inference import (
    Approximation,
    Differences,
    LinearBasis,
    PairObservations,
    Sites,
    WeightBasis,
    WeightPosterior,
    WeightSpace,
    context_gradient,
    covariance_gradient,
    expectation_propagation,
    factor_gradient,
    gaussian,
    laplace,
    margin_information,
    outcome_information,
    precision_gradient,
    slope_gradient,
    weights_of,
    weights_of_pairs,
    weights_of_rows,
)
from rankwise.gp.probit import update_sites
from rankwise.gp.process import (
    ConditionedProcess,
    Hyperparameters,
    ProcessMixture,
    kernel_gradient,
    kernel_values,
    linear_coordinates,
    scale_slopes,
)
from rankwise.graph import QueryGroups
from rankwise.parameters import Choice, Number, Rule, Whole, check_parameters, check_value
from rankwise.progress import Show, unseen

Likelihood = tuple[float, float] | None  # threshold and flips; None is Gaussian
_ROUNDING = 1e-9  # weights of what is left of a pair that are 0 but for rounding
_CANCELLED = 64 * np.finfo(np.float64).eps  # of a mean that may be left where it cancels
_MOVED, _MOST = 0.3, 40  # shift of sites that are matched again, in units of sqrt(1 + v); how many
_SWEEPS = 3  # over these sites
_BLOCK = 256  # comparisons whose effect on all others is computed together
_ROUNDS = 8  # of changes to a pool, before all sites are matched together
_INNER = 20  # sweeps over the sites of a pool that change
_SHARE = 0.25  # of the tolerance: sites of a pool with a larger error are changed


@dataclass(frozen=True, eq=False)
class _SiteChange:
    """New sites of k differences, and what the posterior of these needs to follow."""

    tau: Array
    nu: Array
    M: Array
    push: Array  # (I - M V) z
    log_det: float = 0.0  # log |I + diag(dtau) V|

    def moments(self, m: Array, V: Array) -> tuple[Array, Array]:
        """Means and variances of the differences after the change."""
        spread = np.diagonal(V) - np.einsum("ij,ij->i", V @ self.M, V)
        return m + V @ self.push, np.maximum(spread, 0.0)


def _change(m: Array, V: Array, old: tuple[Array, Array], new: Array) -> _SiteChange | None:
    """The change from old to new sites; None if it leaves no proper posterior."""
    tau, nu = np.array(new[:, :2].T)
    dtau = tau - old[0]
    inner = np.eye(len(m)) + dtau[:, None] * V
    sign, log_det = np.linalg.slogdet(inner)
    if sign <= 0 or not np.isfinite(log_det):
        return None
    half = np.asarray(np.linalg.solve(inner, np.diag(0.5 * dtau)), dtype=np.float64)
    M, z = half + half.T, nu - old[1] - dtau * m
    return _SiteChange(tau, nu, M, z - M @ (V @ z), float(log_det))


def _match_jointly(
    m: Array,
    V: Array,
    old: tuple[Array, Array],
    prior: Array,
    counts: Array,
    likelihood: tuple[float, float],
    tol: float,
    max_sweeps: int,
) -> _SiteChange:
    """Match some sites to each other, while the others stay as they are: O(k^3) for each sweep."""
    k = len(m)
    now = _SiteChange(*old, np.zeros((k, k)), np.zeros(k))
    matched, smallest = np.empty((k, 3)), np.inf
    for _ in range(max_sweeps):
        mean, variance = now.moments(m, V)
        residual = update_sites(
            mean, variance, prior, now.tau, now.nu, counts, *likelihood, matched
        )[0]
        if residual <= tol or residual > 2.0 * smallest:
            break
        smallest = min(smallest, residual)
        new = _change(m, V, old, matched)
        if new is None:  # only with flips
            break
        now = new
    return now


# Comparisons that are held out. A site stands for all comparisons of a pair. Without one of them,
# the site is matched to those that are left. The sites of other pairs whose means move most are
# matched again, and the rest stay as they are. A Gaussian likelihood has no moments to match, and
# the result is exact.


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Comparisons to hold out of a posterior."""

    a: Approximation
    differences: Differences
    observed: PairObservations
    likelihood: Likelihood

    def each(self) -> tuple[Array, Array]:
        """Mean and variance of the difference of every comparison, without that comparison.

        O(r^2 + n r + N) for each of N, plus O(r^2 q + q^3) where q <= 41 sites are matched again.
        """
        a, observed = self.a, self.observed
        removed, which = np.unique(
            np.column_stack((observed.pair, observed.parts)), axis=0, return_inverse=True
        )
        sites = removed[:, 0].astype(np.intp)
        left = np.asarray(observed.values[sites] - removed[:, 1:], dtype=np.float64)
        mean, variance = a.cavities(self.differences.prior_variances, sites)
        tau, nu = self._matched(mean, variance, left)
        spread = 1.0 + tau * variance
        mean, variance = (mean + variance * nu) / spread, variance / spread
        if self.likelihood is not None:
            push = nu - a.nu[sites] - (tau - a.tau[sites]) * mean
            for start in range(0, len(sites), _BLOCK):
                part = slice(start, start + _BLOCK)
                sizes = self._shifts(self.differences.rows(sites[part]).T * push[part])
                sizes[sites[part], np.arange(sizes.shape[1])] = -np.inf
                for k in start + np.flatnonzero(sizes.max(axis=0) > _MOVED):
                    at = slice(k, k + 1)
                    found = self._matched_again(sites[at], left[at], sizes[:, k - start])
                    mean[at], variance[at] = found
        which = which.ravel()
        return mean[which], variance[which]

    def groups(self, groups: Iterable[Index]) -> tuple[Array, Array]:
        """The same without all comparisons of its group; groups are numbers of comparisons.

        O(r^2 k + k^3) for a group of k pairs, or a few posteriors if there are fewer weights.
        """
        observed = self.observed
        means, variances = np.empty((2, len(observed.pair)))
        for members in groups:
            sites, where = np.unique(observed.pair[members], return_inverse=True)
            left = observed.values[sites]
            np.subtract.at(left, where, observed.parts[members])
            many = len(sites) > self.differences.rank
            mean, variance = (self._without_many if many else self._without_few)(sites, left)
            means[members], variances[members] = mean[where], variance[where]
        return means, variances

    def _matched(self, mean: Array, variance: Array, counts: Array) -> tuple[Array, Array]:
        """Sites of what is left of each pair, from cavities; 0 for a Gaussian likelihood."""
        n = len(mean)
        if self.likelihood is None:
            return np.zeros(n), np.zeros(n)
        out, none = np.empty((n, 3)), np.zeros(n)
        given = (np.full(n, np.inf), none, none, _rounded(counts), *self.likelihood)
        update_sites(mean, variance, *given, out)
        return out[:, 0].copy(), out[:, 1].copy()

    def _shifts(self, pushes: Array) -> Array:
        """Sizes of the shifts of all means, of shape (N, k), by k changes A'nu of all sites.

        They are in units of sqrt(1 + v), the spread of an outcome.
        """
        columns = self.a.weights.solve(pushes)
        if not columns.size:
            return np.zeros((len(self.differences), columns.shape[1]))
        shifts = np.abs(self.differences.apply(columns))
        return shifts / np.sqrt(1.0 + self.a.variance)[:, None]

    def _joint(self, sites: Index) -> Array:
        """The covariance of the differences of some sites."""
        W = self.a.weights.whiten(self.differences.rows(sites).T)
        return matmul(np.ascontiguousarray(W.T), W) if W.size else np.zeros((len(sites),) * 2)

    def _matched_again(self, sites: Index, left: Array, sizes: Array) -> tuple[Array, Array]:
        """Moments of some sites of which less is left, with others that are shifted most."""
        a = self.a
        moved = np.flatnonzero(sizes > _MOVED)
        moved = moved[np.argsort(-sizes[moved])[:_MOST]]
        every = np.concatenate((sites, moved))
        counts = np.concatenate((_rounded(left), self.observed.values[moved]))
        m, V, old = a.mean[every], self._joint(every), (a.tau[every], a.nu[every])
        prior = self.differences.prior_variances[every]
        assert self.likelihood is not None
        change = _match_jointly(m, V, old, prior, counts, self.likelihood, 0.0, _SWEEPS)
        mean, variance = change.moments(m, V)
        return mean[: len(sites)], variance[: len(sites)]

    def _without_few(self, sites: Index, left: Array) -> tuple[Array, Array]:
        """Moments of the differences of some sites without a part of their comparisons."""
        a, V = self.a, self._joint(sites)
        m, old = a.mean[sites], (a.tau[sites], a.nu[sites])
        new = self._matched(*a.cavities(self.differences.prior_variances, sites), left)
        change = _change(m, V, old, np.column_stack(new))
        if change is None:
            return m, a.variance[sites]
        if self.likelihood is None:
            return change.moments(m, V)
        push = new[1] - old[1] - (new[0] - old[0]) * (m + V @ change.push)
        sizes = self._shifts((self.differences.rows(sites).T @ push)[:, None])[:, 0]
        sizes[sites] = -np.inf
        return self._matched_again(sites, left, sizes)

    def _without_many(self, sites: Index, left: Array) -> tuple[Array, Array]:
        """The same with all sites matched again."""
        a, differences = self.a, self.differences
        tau, nu = a.tau.copy(), a.nu.copy()
        tau[sites], nu[sites] = self._matched(*a.cavities(differences.prior_variances, sites), left)
        if self.likelihood is None:
            mean, variance = WeightPosterior.of(differences, tau, nu).moments(differences)
        else:
            counts = self.observed.values.copy()
            counts[sites] = _rounded(left)
            found = expectation_propagation(
                differences, counts, *self.likelihood, start=(tau, nu), max_sweeps=_SWEEPS
            )
            mean, variance = found.mean, found.variance
        return mean[sites], variance[sites]


def _rounded(counts: Array) -> Array:
    return np.where(counts > _ROUNDING, counts, 0.0)


# Comparisons that are added.


@dataclass(frozen=True, eq=False)
class PoolPosterior:
    """f of N(mean, covariance) at the rows of a pool, in units of the noise, and its sites."""

    mean: Array  # of shape (n,)
    covariance: Array  # of shape (n, n), in C order
    prior: Array  # prior variances of the compared differences, of shape (N,), times slopes squared
    tau: Array
    nu: Array
    log_det: float  # of the weights' precision, relative to the prior's
    log_evidence: float = 0.0

    def matched(
        self,
        first: Index,
        second: Index,
        slopes: Array,
        counts: Array,
        likelihood: tuple[float, float],
        tol: float,
    ) -> PoolPosterior | None:
        """The posterior after expectation propagation; None if too many sites must change.

        A site belongs to slope times difference. The sites whose errors are too large are matched
        to each other, until they agree; then the posterior of all rows follows, and the errors of
        all sites: O(n^2 k) instead of O(n^3).
        """
        now, most = self, max(16, len(self.mean) // 4)
        matched = np.empty((len(first), 3))
        for _ in range(_ROUNDS):
            spread = np.diagonal(now.covariance)
            variance = spread[first] + spread[second] - 2.0 * now.covariance[first, second]
            mean, variance = (
                slopes * (now.mean[first] - now.mean[second]),
                slopes**2 * np.maximum(variance, 0.0),
            )
            residual, evidence, _, _ = update_sites(
                mean, variance, now.prior, now.tau, now.nu, counts, *likelihood, matched
            )
            if residual <= tol:
                value = evidence + 0.5 * float(now.nu @ mean) - 0.5 * now.log_det
                return replace(now, log_evidence=value)
            few = np.flatnonzero(matched[:, 2] > _SHARE * tol)
            few = few[np.argsort(-matched[few, 2])[:most]]
            i, j, s = first[few], second[few], slopes[few]
            G = s[:, None] * (now.covariance[i] - now.covariance[j])
            V = s * (G[:, i] - G[:, j])
            V = np.asarray((V + V.T) / 2)
            change = _match_jointly(
                mean[few], V, (now.tau[few], now.nu[few]), now.prior[few], counts[few], likelihood,
                _SHARE * tol, _INNER,
            )  # fmt: skip
            now = now.changed(few, G, change)
        return None

    def changed(self, sites: Index, G: Array, change: _SiteChange) -> PoolPosterior:
        """With some sites changed; G has the covariances of their differences with all rows."""
        tau, nu = self.tau.copy(), self.nu.copy()
        tau[sites], nu[sites] = change.tau, change.nu
        return replace(
            self,
            mean=self.mean + change.push @ G,
            covariance=self.covariance - matmul(np.ascontiguousarray(G.T), matmul(change.M, G)),
            tau=tau,
            nu=nu,
            log_det=self.log_det + change.log_det,
        )


LEAST, MOST = 1e-100, 1e100  # numbers whose squares are finite and not 0
POSITIVE = Number(LEAST, MOST)
_CONTEXT_BOUNDS = _GAUSSIAN_NOISE_BOUNDS = (1e-5, 1e5)
_THRESHOLD_BOUNDS = (1e-3, 1e2)
_FLIPS_BOUNDS = (1e-4, 0.45)
_SLOPE_BOUNDS = (1e-3, 1e3)
_STEP, _LEAST_CHANCE = 1e-4, 1e-300  # of a numerical derivative, in units of the noise
_POOL_TOLERANCE = 1e-3  # largest error of the moments, relative to their spread
_PATIENCE = 60  # sweeps for a posterior with flips


class NotConverged(Exception):
    """A posterior that must converge did not converge."""


OPTIONS: dict[str, Rule] = {
    "n_restarts_optimizer": Whole(0, 10**6),
    "inference": Choice("ep", "laplace"),
    "tol": POSITIVE,
    "max_sweeps": Whole(1, 10**9),
}


@dataclass(frozen=True)
class GPOptions:
    """Settings of a `PairwiseGP` that are rarely changed.

    Parameters
    ----------
    noise_bounds : "auto", "fixed" or (float, float), default="auto"
        Bounds of the noise, if it is learned. "auto": fixed for probit, where only the ratio of
        the kernel's scale to the noise matters, and (1e-5, 1e5) for gaussian.
    n_restarts_optimizer : int, default=0
        Number of further starts of the optimizer, drawn uniformly within the bounds.
    inference : {"ep", "laplace"}, default="ep"
        Approximation of the probit posterior: expectation propagation, or Laplace's approximation,
        which is faster and less accurate.
    tol : float, default=1e-5
        Largest error of the moments at the end, relative to their spread.
    max_sweeps : int, default=200
        Largest number of sweeps over all compared pairs.

    Examples
    --------
    >>> from rankwise import GPOptions, PairwiseGP
    >>> gp = PairwiseGP(options=GPOptions(inference="laplace", n_restarts_optimizer=2))
    """

    noise_bounds: Any = "auto"
    n_restarts_optimizer: int = 0
    inference: str = "ep"
    tol: float = 1e-5
    max_sweeps: int = 200

    def check(self) -> None:
        """Raise an error if a value is not valid."""
        check_parameters(self, OPTIONS)
        if isinstance(self.noise_bounds, str):
            check_value("noise_bounds", self.noise_bounds, Choice("auto", "fixed"))
            return
        try:
            low, high = (float(value) for value in self.noise_bounds)
        except (TypeError, ValueError):
            low, high = np.nan, np.nan
        if not LEAST <= low <= high <= MOST:
            raise ParameterError(
                f'noise_bounds must be "auto", "fixed" or two numbers from {LEAST:g} to '
                f"{MOST:g}, the smaller first: got {self.noise_bounds!r}."
            )


@dataclass(eq=False)
class Evidence:
    """log p(comparisons | theta), its gradient, and the posterior at any theta.

    theta holds the logarithms of the free hyperparameters: first the kernel's, then the variance of
    the weights of the context if there is one, the noise if it is free, the threshold of ties if
    there are any, the slopes of raters if they differ, and the share of flips if it is not 0.

    `hyper` is where the search starts, and X the rows that were compared. `prior_scale` is the
    standard deviation of a log-normal prior with median `start`, one or one for each free
    hyperparameter but the slopes. `spread` is the standard deviation of log slopes, whose median is
    0; with 0, they are fixed. With `must_converge`, a posterior that does not converge raises
    `NotConverged`. `n_sweeps` counts the sweeps of all posteriors. `show` gets the number of
    posteriors so far, and the log evidence of the last.

    One value costs a posterior (`gp.inference`). A gradient also needs the derivatives of the
    kernel: O(n^2) per hyperparameter, or O(n r) with r landmarks, or with r coordinates of a linear
    kernel, which is not evaluated at all. The sites of the gradient with the best value are where
    the next posterior starts.
    """

    hyper: Hyperparameters
    X: Array
    observed: PairObservations
    likelihood: str
    options: GPOptions
    landmarks: Array | None = None
    prior_scale: Any = None
    spread: float = 0.0
    must_converge: bool = False
    show: Show = unseen
    n_posteriors: int = 0
    n_sweeps: int = 0
    _best: tuple[Array, Approximation] | None = None
    _best_value: float = -np.inf

    def __post_init__(self) -> None:
        scale, n_free = self.prior_scale, int((~self.is_slope).sum())
        try:
            values = np.asarray(1.0 if scale is None else scale, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.full(1, np.nan)
        if not (values > 0).all() or values.shape not in ((), (n_free,)):
            raise ParameterError(
                "prior_scale must be a number above 0, one for each of the "
                f"{n_free} free hyperparameters, or None: got {scale!r}."
            )

    @cached_property
    def _free(self) -> dict[str, tuple[float, float]]:
        """Free hyperparameters of the likelihood, with their bounds."""
        bounds = {} if self.hyper.context == 0 else {"context": _CONTEXT_BOUNDS}
        noise = self.options.noise_bounds
        if not isinstance(noise, str):
            bounds["noise"] = noise
        elif noise == "auto" and self.likelihood == "gaussian":
            bounds["noise"] = _GAUSSIAN_NOISE_BOUNDS
        if self.hyper.threshold > 0:
            bounds["threshold"] = self._threshold_bounds
        if self.spread > 0:
            bounds["slopes"] = _SLOPE_BOUNDS
        if self.hyper.flips > 0:
            bounds["flips"] = _FLIPS_BOUNDS
        return bounds

    @property
    def _threshold_bounds(self) -> tuple[float, float]:
        """Bounds of the threshold, which would grow without end if all n comparisons were ties.

        In that case, the largest threshold is the one at which a comparison of equal rows has a
        winner with probability 1 / (n + 2).
        """
        low, high = _THRESHOLD_BOUNDS
        decided, ties = self.observed.values[:, :2].sum(), self.observed.values[:, 2].sum()
        return low, high if decided else float(min(high, -ndtri(0.5 / (ties + 2.0))))

    @cached_property
    def _names(self) -> Any:
        """Which hyperparameter each entry of theta belongs to."""
        sizes = [np.size(getattr(self.hyper, name)) for name in self._free]
        return np.repeat(["kernel", *self._free], [len(self.hyper.kernel.theta), *sizes])

    @property
    def is_slope(self) -> Any:
        """Which entries of theta are slopes."""
        return self._names == "slopes"

    @cached_property
    def start(self) -> Array:
        """theta of the hyperparameters to start from."""
        parts = [np.log(getattr(self.hyper, name)) for name in self._free]
        return np.hstack((self.hyper.kernel.theta, *parts))

    @property
    def bounds(self) -> Array:
        """Smallest and largest theta, of shape (n_free, 2)."""
        others = self._names[len(self.hyper.kernel.theta) :]
        kernel = self.hyper.kernel.bounds.reshape(-1, 2)
        return np.vstack((kernel, *(np.log(self._free[name]) for name in others)))

    def at(self, theta: Array) -> Hyperparameters:
        """The hyperparameters whose logarithms are theta."""
        theta = np.asarray(theta, dtype=np.float64)
        if theta.shape != self.start.shape or not np.isfinite(theta).all():
            raise ParameterError(
                f"theta needs one finite entry for each of the {len(self.start)} free "
                f"hyperparameters: got {theta}."
            )
        names = self._names
        with np.errstate(over="ignore"):  # the kernel's values are checked
            kernel = self.hyper.kernel.clone_with_theta(theta[names == "kernel"])
            found: dict[str, Any] = {name: np.exp(theta[names == name]) for name in self._free}
        for name in found.keys() - {"slopes"}:
            found[name] = float(found[name][0])
        return replace(self.hyper, kernel=kernel, **found)

    def with_flips(self, share: float) -> Evidence:
        """The same with the share of flips as another free hyperparameter, without a prior.

        A posterior that takes far more sweeps than most is given up: sites that contradict each
        other may never converge.
        """
        hyper, scale = replace(self.hyper, flips=share), self.prior_scale
        if scale is not None:
            scale = np.append(np.broadcast_to(scale, int((~self.is_slope).sum())), np.inf)
        options = replace(self.options, max_sweeps=min(self.options.max_sweeps, _PATIENCE))
        return replace(
            self,
            hyper=hyper,
            prior_scale=scale,
            options=options,
            must_converge=True,
            n_sweeps=0,
            _best_value=-np.inf,
        )

    def with_slopes(self, theta: Array, slopes: Array, spread: float) -> tuple[Evidence, Array]:
        """The same with slopes of raters, which are free unless the spread is 0; and its theta."""
        hyper = replace(self.hyper, slopes=slopes)
        found = replace(self, hyper=hyper, spread=spread, _best_value=-np.inf)
        is_slope, whole = found.is_slope, found.start.copy()
        whole[~is_slope] = theta[~self.is_slope]
        return found, whole

    def log_prior(self, theta: Array) -> tuple[float, Array]:
        """Log density of the prior up to a constant, and its gradient."""
        is_slope, scale = self.is_slope, np.full(len(theta), np.inf)
        if self.prior_scale is not None:
            scale[~is_slope] = self.prior_scale
        scale[is_slope] = self.spread
        z = (theta - np.where(is_slope, 0.0, self.start)) / scale
        return float(-0.5 * z @ z), -z / scale

    def slope_estimates(self, theta: Array) -> tuple[Array, Array]:
        """For each rater, the gradient of the evidence by its log slope, and the information."""
        hyper, rater = self.at(theta), self.observed.rater
        assert rater is not None
        assert hyper.slopes is not None
        space = self._space(hyper)
        differences, a = self._infer(space, hyper)
        if self.likelihood == "gaussian":
            information = margin_information(a, self.observed.values[:, 1])
        else:
            given = (self.observed.values, hyper.threshold, hyper.flips)
            information = outcome_information(a, differences.prior_variances, *given)
        n, by_pair = len(hyper.slopes), self._slope_gradient(differences, a)
        return self._by_rater(by_pair, n), self._by_rater(information, n)

    def process(self, theta: Array) -> ConditionedProcess:
        """The posterior at theta."""
        return self.condition(self.at(theta))

    def condition(self, hyper: Hyperparameters, start: Sites | None = None) -> ConditionedProcess:
        """The posterior at some hyperparameters, from given sites or the best known ones."""
        space = self._space(hyper)
        _, approximation = self._infer(space, hyper, start)
        points = self.X if self.landmarks is None else self.landmarks
        if space.basis.is_linear:
            points = points[:0]
        return ConditionedProcess(hyper, points, space.basis, approximation)

    def updated(self, mixture: ProcessMixture) -> ProcessMixture:
        """The processes of a mixture, conditioned on comparisons that extend the ones they know.

        Two things come from this evidence: the slopes of raters, and the threshold if there were
        no ties before. Known sites serve as a start; the sites of new pairs start at 0.
        """
        processes = []
        for process in mixture.processes:
            a, hyper = process.approximation, process.hyper
            more = np.zeros(len(self.observed) - len(a.tau))
            start = np.concatenate((a.tau, more)), np.concatenate((a.nu, more))
            threshold = hyper.threshold or self.hyper.threshold
            hyper = replace(hyper, threshold=threshold, slopes=self.hyper.slopes)
            processes.append(self.condition(hyper, start))
        return ProcessMixture.of(processes, mixture.prior)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """log p(comparisons | theta), and its gradient in theta."""
        hyper = self.at(theta)
        linear = self._linear(hyper.kernel)
        if self.landmarks is None and linear is None:
            K, dK = kernel_gradient(hyper.kernel, self.X)
            space = self._space(hyper, K)
        else:
            space = self._space(hyper)
        differences, a = self._infer(space, hyper)
        if a.log_evidence >= self._best_value:
            self._best_value, self._best = a.log_evidence, (differences.prior_variances, a)
        observed, c = self.observed, differences.n_context

        def by_row(V: Array) -> Array:
            return space.of_rows(V, len(self.X), observed.first, observed.second)

        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            if linear is not None:
                by_scale = (factor_gradient(differences, a) * differences.C).sum(axis=0)[c:]
                by_kernel = 2.0 * by_scale @ scale_slopes(hyper.kernel, self.X.shape[1])
            elif self.landmarks is None:
                M = by_row(by_row(covariance_gradient(differences, a)).T)
                by_kernel = np.einsum("ij,ijp->p", M, dK)
            else:
                MC = factor_gradient(differences, a)[:, c:]
                CMC = differences.C[:, c:].T @ MC
                by_kernel = self._landmark_gradient(hyper.kernel, space, by_row(MC), CMC)
            by_likelihood = self._likelihood_slopes(hyper, differences, a)
        gradient = np.concatenate((by_kernel, by_likelihood))
        if not np.isfinite(gradient).all():
            raise _not_finite(hyper)
        return a.log_evidence, gradient

    def held_out(
        self, process: ConditionedProcess, groups: QueryGroups | None
    ) -> tuple[Array, Array]:
        """Mean and variance of f(first) - f(second) of every comparison, without it or its group.

        The hyperparameters of the process stay as they are. What is taken out of a mean cancels
        up to rounding errors, which grow with the variance. A mean that is no larger is 0.
        """
        hyper, observed, a = process.hyper, self.observed, process.approximation
        differences = self._differences(self._space(hyper), hyper)
        is_probit, unit = self.likelihood == "probit", 1.0 / differences.S
        likelihood = (hyper.threshold, hyper.flips) if is_probit else None
        out = LeftOut(a, differences, observed, likelihood)
        mean, variance = out.each() if groups is None else out.groups(groups)
        before = a.variance[observed.pair]
        growth = np.divide(variance, before, out=np.ones_like(before), where=before > 0)
        largest = np.abs(unit * a.mean).max(initial=0.0)
        mean *= unit[observed.pair] * observed.sign
        mean[np.abs(mean) <= _CANCELLED * largest * growth] = 0.0
        variance *= unit[observed.pair] ** 2
        if self.landmarks is not None:  # the part of a pair that landmarks do not explain
            rows = self.X[observed.first], self.X[observed.second]
            rest = process.difference(*rows, observed.context)[1] - unit**2 * a.variance
            variance += np.maximum(rest, 0.0)[observed.pair]
        return mean, variance

    def design_effect(
        self, process: ConditionedProcess, groups: QueryGroups
    ) -> tuple[float, float]:
        """How much larger posterior variances are with the groups, and the standard error.

        With s_l the derivative of the log-likelihood of comparison l by its difference, A_l s_l is
        its push of the weights, and the pushes of groups and of comparisons are compared:

            sum_g |sum_(l in g) A_l s_l|^2 / sum_l |A_l s_l|^2,

        in the norm of the posterior covariance P^-1. It is about 1 if comparisons are independent
        given the scores, and the standard error comes from the groups.
        """
        hyper, observed, a = process.hyper, self.observed, process.approximation
        differences = self._differences(self._space(hyper), hyper)
        pair, parts = observed.pair, observed.parts
        if self.likelihood == "gaussian":
            push = a.slope[pair]
        else:
            slope = self.slopes(hyper)[pair]
            unit = hyper.noise / slope
            mean, variance = unit * a.mean[pair], unit**2 * a.variance[pair]
            above, below = (
                np.log(np.maximum(hyper.outcomes(mean + h, variance, slope), _LEAST_CHANCE))
                for h in (_STEP * unit, -_STEP * unit)
            )
            win, tie, loss = (above - below) / (2.0 * _STEP)
            push = parts[:, 0] * win + parts[:, 1] * loss + parts[:, 2] * tie
        together = np.empty(groups.n_groups)
        for start in range(0, groups.n_groups, _BLOCK):
            columns = []
            for g in range(start, min(start + _BLOCK, groups.n_groups)):
                own = groups.order[groups.indptr[g] : groups.indptr[g + 1]]
                columns.append(differences.rows(pair[own]).T @ push[own])
            whitened = a.weights.whiten(np.column_stack(columns))
            together[start : start + len(columns)] = np.square(whitened).sum(axis=0)
        apart = np.bincount(groups.codes, push**2 * a.variance[pair], groups.n_groups)
        if not apart.sum() > 0:
            return 1.0, 0.0
        effect = together.sum() / apart.sum()
        error = np.sqrt(np.square(together - effect * apart).sum()) / apart.sum()
        return float(effect), float(error)

    def pool(self, process: ConditionedProcess, X: Array) -> PoolPosterior:
        """The scores of all training rows X under a process: O(n^3) time, O(n^2) memory."""
        noise, a = process.hyper.noise, process.approximation
        return PoolPosterior(
            process.mean(X) / noise,
            np.ascontiguousarray(process.covariance(X) / noise**2),
            self._prior_variances_from(0),
            a.tau,
            a.nu,
            a.weights.log_det,
        )

    def told(self, pool: PoolPosterior) -> PoolPosterior | None:
        """A pool after comparisons that extend the present ones; None if a fit is cheaper.

        The moments of all compared pairs are within a thousandth of their spread: a choice of
        pairs needs no more.
        """
        hyper, observed = self.hyper, self.observed
        prior = self._prior_variances_from(len(pool.tau))
        none = np.zeros(len(prior))  # sites of further pairs carry no information yet
        parts = zip((pool.prior, pool.tau, pool.nu), (prior, none, none), strict=True)
        prior, tau, nu = (np.concatenate(both) for both in parts)
        return replace(pool, prior=prior, tau=tau, nu=nu).matched(
            observed.rows[observed.first],
            observed.rows[observed.second],
            self.slopes(hyper),
            np.ascontiguousarray(observed.values),
            (hyper.threshold, hyper.flips),
            max(self.options.tol, _POOL_TOLERANCE),
        )

    def _prior_variances_from(self, start: int) -> Array:
        """Prior variances of the differences from a pair on, in units of the noise."""
        pairs = np.column_stack((self.observed.first[start:], self.observed.second[start:]))
        rows, where = np.unique(pairs, return_inverse=True)
        i, j = where.reshape(-1, 2).T
        K = kernel_values(self.hyper.kernel, self.X[rows])
        gaps = np.maximum(K[i, i] + K[j, j] - 2.0 * K[i, j], 0.0)
        return np.asarray((self.slopes(self.hyper)[start:] / self.hyper.noise) ** 2 * gaps)

    def slopes(self, hyper: Hyperparameters) -> Array:
        """The slope of each pair, which is the slope of its rater."""
        if hyper.slopes is None or self.observed.rater is None:
            return np.ones(len(self.observed))
        return np.append(hyper.slopes, 1.0)[self.observed.rater]  # -1 is a rater not known

    def _differences(self, space: WeightSpace, hyper: Hyperparameters) -> Differences:
        """The differences in the units of the posterior: noise over slope for probit."""
        if self.likelihood == "gaussian":
            return space.differences
        return replace(space.differences, slopes=self.slopes(hyper) / hyper.noise)

    def _infer(
        self, space: WeightSpace, hyper: Hyperparameters, start: Sites | None = None
    ) -> tuple[Differences, Approximation]:
        """The posterior from given sites or the best known ones, or an error.

        The differences are in its units.
        """
        options, values = self.options, self.observed.values
        differences = self._differences(space, hyper)
        start = self._sites(differences) if start is None else start
        given: Any = {"start": start, "tol": options.tol, "max_sweeps": options.max_sweeps}
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                if self.likelihood == "gaussian":
                    noise = hyper.noise / self.slopes(hyper)
                    found = gaussian(differences, values[:, 0], values[:, 1], noise)
                elif options.inference == "laplace":
                    found = laplace(differences, values, hyper.threshold, **given)
                else:
                    likelihood = hyper.threshold, hyper.flips
                    found = expectation_propagation(differences, values, *likelihood, **given)
        except FloatingPointError:
            raise _not_finite(hyper) from None
        if not np.isfinite(found.log_evidence):
            raise _not_finite(hyper)
        self.n_sweeps += found.n_sweeps + 1
        self.n_posteriors += 1
        self.show(self.n_posteriors, f"log evidence {found.log_evidence:.4g}")
        if self.must_converge and not found.converged:
            raise NotConverged
        return differences, found

    def _sites(self, differences: Differences) -> Sites | None:
        """The sites of the best gradient, adapted to the present prior."""
        if self._best is None or self.likelihood == "gaussian":
            return None
        (before, best), now = self._best, differences.prior_variances
        return best.sites_for(np.divide(now, before, out=np.ones_like(now), where=before > 0))

    def _slope_gradient(self, differences: Differences, a: Approximation) -> Array:
        """Derivatives of the evidence by the log slope of each pair."""
        if self.likelihood == "gaussian":
            return precision_gradient(a, self.observed.values[:, 1])
        return slope_gradient(differences, a)

    def _by_rater(self, by_pair: Array, n_raters: int) -> Array:
        """Sums over the pairs of each rater."""
        rater = self.observed.rater
        assert rater is not None
        sums = np.bincount(rater + 1, by_pair, n_raters + 1)[1:]
        return np.asarray(sums, dtype=np.float64)

    def _likelihood_slopes(
        self, hyper: Hyperparameters, differences: Differences, a: Approximation
    ) -> Array:
        """Derivatives by the logarithms of the free hyperparameters that are not the kernel's."""
        by_pair, slopes = self._slope_gradient(differences, a), list[Any]()
        if "context" in self._free:
            slopes.append(context_gradient(differences, a))
        if "noise" in self._free:
            slopes.append(-by_pair.sum())
        if "threshold" in self._free:
            slopes.append(a.threshold_slope * hyper.threshold)
        if hyper.slopes is not None and "slopes" in self._free:
            slopes.append(self._by_rater(by_pair, len(hyper.slopes)))
        if "flips" in self._free:
            slopes.append(a.flips_slope * hyper.flips)
        return np.hstack(slopes) if slopes else np.zeros(0)

    def _landmark_gradient(self, kernel: Any, space: WeightSpace, MC: Array, CMC: Array) -> Array:
        """Of Q = K_nm K_mm^-1 K_mn: tr(M dQ) = 2 tr(H M dK_nm) - tr(H M H' dK_mm), H' = C R^-1.

        scikit-learn differentiates k(X, X) only. So rows and landmarks are stacked, as many rows
        at a time as there are landmarks.
        """
        basis = cast(WeightBasis, space.basis)
        Z = cast(Array, self.landmarks)[basis.first]
        r = len(basis)
        if r == 0:
            return np.zeros(len(kernel.theta))

        def unroot(V: Array) -> Array:
            """R^-T V."""
            return np.asarray(solve_triangular(basis.root, V, trans="T", lower=True))

        by_rows = 2.0 * unroot(MC.T).T
        by_landmarks = -unroot(unroot(CMC).T)
        _, dK = kernel_gradient(kernel, Z)
        gradient = np.einsum("ij,ijp->p", by_landmarks, dK)
        for start in range(0, len(self.X), r):
            rows = self.X[start : start + r]
            _, dK = kernel_gradient(kernel, np.vstack((rows, Z)))
            block = dK[: len(rows), len(rows) :]
            gradient += np.einsum("ij,ijp->p", by_rows[start : start + r], block)
        return np.asarray(gradient)

    def _linear(self, kernel: Any) -> LinearBasis | None:
        """The coordinates of a linear kernel, if they are fewer than rows and pairs."""
        if self.landmarks is not None:
            return None
        found = linear_coordinates(kernel, self.X.shape[1])
        few = min(len(self.X), len(self.observed))
        return found if found is not None and len(found) <= few else None

    def _space(self, hyper: Hyperparameters, K: Array | None = None) -> WeightSpace:
        """The weights of the compared pairs."""
        observed = self.observed
        space = self._space_of_rows(hyper.kernel, K)
        if observed.context is None:
            return space
        differences = space.differences.in_context(np.sqrt(hyper.context) * observed.context)
        return replace(space, differences=differences)

    def _space_of_rows(self, kernel: Any, K: Array | None) -> WeightSpace:
        first, second = self.observed.first, self.observed.second
        if self.landmarks is not None:
            K_mm = kernel_values(kernel, self.landmarks)
            basis = cast(WeightBasis, weights_of_rows(K_mm, first[:0], second[:0]).basis)
            C = basis.project(kernel_values(kernel, self.X, self.landmarks).T).T
            return weights_of(basis, C, first, second)
        linear = self._linear(kernel)
        if linear is not None:
            return weights_of(linear, linear.features(self.X).T, first, second)
        K = kernel_values(kernel, self.X) if K is None else K
        few_rows = len(self.X) <= len(first)
        return (weights_of_rows if few_rows else weights_of_pairs)(K, first, second)


def _not_finite(hyper: Hyperparameters) -> DataError:
    """The error for a posterior, or a gradient of its evidence, that is not finite."""
    return DataError(
        "The posterior is not finite: kernel values, margins or weights are too large relative to "
        f"the noise ({hyper.noise:g}). Scale the features, margins or weights, or raise noise. The "
        f"kernel is {hyper.kernel}."
    )
