"""What a fit of `PairwiseGP` does, and what it stores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.blas_threads import blas_threads_for
from rankwise.errors import ParameterError
from rankwise.estimators._landmark_choice import LandmarkChoice, check_for_landmarks
from rankwise.estimators.gp.composite_design import PRIOR_SCALE, composite_design
from rankwise.estimators.gp.conditioned_process import Hyperparameters
from rankwise.estimators.gp.context_columns import in_context, with_context
from rankwise.estimators.gp.evidence import Evidence, InferenceSettings
from rankwise.estimators.gp.hyperparameters import (
    default_kernel,
    learn_flips,
    optimize,
    warn_unless_converged,
    width_grid,
)
from rankwise.estimators.gp.linear_kernels import linear_coordinates
from rankwise.estimators.gp.parameter_checks import (
    first_flips,
    may_learn_flips,
    noise_bounds,
)
from rankwise.estimators.gp.posterior_queries import dense
from rankwise.estimators.gp.process_mixture import ProcessMixture
from rankwise.estimators.gp.raters import RaterSlopes, learn_slopes
from rankwise.graph import QueryGroups
from rankwise.graph.comparisons import Comparisons
from rankwise.problem.memory import check_kernel_fits
from rankwise.progress import progress_bar
from rankwise.solvers.gp.observations import PairObservations
from rankwise.solvers.gp.pool_posterior import PoolPosterior


class LearningMixin:
    """Chooses the hyperparameters of a `PairwiseGP`, conditions it on comparisons, keeps them."""

    kernel: Any
    likelihood: str
    noise: float
    tie_model: str
    threshold: float
    optimizer: Any
    n_restarts_optimizer: int
    prior_scale: Any
    inference: str
    sweeps: str
    marginalize: str | None
    grid_step: float
    n_landmarks: int | None
    landmarks: Any
    tol: float
    max_sweeps: int
    verbose: bool

    X_fit_: Array
    pairs_: Index
    margin_: Array
    weight_: Array
    landmarks_: Array | None
    threshold_: float
    raters_: RaterSlopes | None
    rater_: Index | None
    _pool: PoolPosterior | None = None

    def _learn_with_context(
        self,
        X: Array,
        given: Comparisons,
        raters: QueryGroups | None,
        rng: np.random.Generator,
    ) -> None:
        """`_learn` with context columns, whose weights are kept."""
        if self.n_landmarks is not None or self.landmarks is not None:
            raise ParameterError(
                "context needs exact inference (n_landmarks=None, landmarks=None), or a linear "
                "kernel, which needs no landmarks."
            )
        kernel = default_kernel(X) if self.kernel is None else self.kernel
        rows, comparisons, kernel, scale = with_context(X, given, kernel)
        self._learn(rows, comparisons, raters, None, rng, kernel)
        self.context_scale_ = scale
        units = in_context(np.zeros((len(scale), X.shape[1])), scale, np.eye(len(scale)))
        nothing = np.zeros_like(units)
        self.context_coef_, self.context_std_ = self.posterior_.difference(units, nothing)

    def _forget_context(self) -> None:
        for name in ("context_scale_", "context_coef_", "context_std_"):
            self.__dict__.pop(name, None)

    def _learn(
        self,
        X: Array,
        comparisons: Comparisons,
        raters: QueryGroups | None,
        qid: Any,
        rng: np.random.Generator,
        kernel: Any = None,
    ) -> None:
        """Choose hyperparameters, condition on the comparisons, keep the result."""
        if kernel is None:
            kernel = default_kernel(X) if self.kernel is None else self.kernel
        numbers = None if raters is None else raters.codes
        observed = self._observations(comparisons, numbers)
        landmarks = self._choose_landmarks(X, len(observed.rows), qid, kernel, rng)
        threshold = self._threshold(observed)
        start = Hyperparameters(kernel, float(self.noise), threshold, first_flips(self))
        evidence = self._evidence(start, X, observed, landmarks, self._prior_scale())
        log_error = np.zeros(0)
        # The products of a sweep cost as much as those of a square matrix of this size.
        size = round(math.cbrt(len(observed.rows) ** 2 * len(observed)))
        with blas_threads_for(size), _progress(self.verbose) as evidence.watch:
            theta = optimize(evidence, self.optimizer, self.n_restarts_optimizer, rng)
            if raters is not None:
                evidence, theta, log_error = learn_slopes(evidence, theta, self.optimizer)
            if may_learn_flips(self):
                evidence, theta = learn_flips(evidence, theta, self.optimizer)
            if self.marginalize == "grid":
                posterior = ProcessMixture.of(*width_grid(evidence, theta, self.grid_step))
            elif self.marginalize == "all":
                posterior = ProcessMixture.of(*composite_design(evidence, theta))
            else:
                posterior = ProcessMixture.of([evidence.process(theta)], np.ones(1))
        hyper = evidence.at(theta)
        self.theta_, self.kernel_, self.landmarks_ = theta, hyper.kernel, landmarks
        self.noise_, self.threshold_, self.flips_ = hyper.noise, hyper.threshold, hyper.flips
        self.raters_ = None
        if raters is not None and hyper.slopes is not None:
            error = hyper.slopes * log_error
            self.raters_ = RaterSlopes(
                raters.names, hyper.slopes, error, raters.sizes, evidence.spread
            )
        self._keep(X, comparisons, numbers, posterior)

    def _choose_landmarks(
        self, X: Array, n_compared: int, qid: Any, kernel: Any, rng: np.random.Generator
    ) -> Array | None:
        """The landmarks, or None for exact inference."""
        if self.n_landmarks is None and self.landmarks is None:
            linear = linear_coordinates(kernel, X.shape[1])
            if linear is None or len(linear) > n_compared:
                check_kernel_fits(n_compared, advice="Use n_landmarks, or fewer rows.")
            return None
        check_for_landmarks(kernel)
        method = "kmeans" if self.landmarks is None else self.landmarks
        choice = LandmarkChoice.of(method, self.n_landmarks)
        return dense(choice.among(X, qid, kernel, rng).points)

    def _keep(
        self,
        X: Array,
        comparisons: Comparisons,
        raters: Index | None,
        posterior: ProcessMixture,
    ) -> None:
        """Set the attributes that a fit and `tell` change."""
        best = posterior.best.approximation
        self.X_fit_, self.posterior_ = X, posterior
        self.__dict__.pop("_pool", None)
        self._keep_comparisons(comparisons, raters)
        self.grid_kernels_ = [process.hyper.kernel for process in posterior.processes]
        self.grid_weights_ = posterior.weights
        self.converged_ = all(p.approximation.converged for p in posterior.processes)
        self.n_sweeps_ = best.n_sweeps
        self.log_marginal_likelihood_value_ = best.log_evidence
        warn_unless_converged(posterior.processes, self._inference())

    def _keep_comparisons(self, comparisons: Comparisons, raters: Index | None) -> None:
        self.pairs_, self.margin_ = comparisons.pairs, comparisons.margin
        self.weight_, self.rater_ = comparisons.weight, raters

    @property
    def _comparisons(self) -> Comparisons:
        return Comparisons(self.pairs_, self.margin_, self.weight_)

    def _observations(self, comparisons: Comparisons, raters: Index | None) -> PairObservations:
        if self.likelihood == "gaussian":
            return PairObservations.from_margins(comparisons, raters)
        half_ties = self.tie_model == "half"
        return PairObservations.from_outcomes(comparisons, raters, half_ties=half_ties)

    def _threshold(self, observed: PairObservations) -> float:
        """Where the threshold of ties starts; 0 if none are modelled."""
        has_ties = self.likelihood == "probit" and bool(observed.values[:, 2].any())
        return float(self.threshold) if has_ties else 0.0

    def _prior_scale(self) -> Any:
        """The parameter, or the one that a design for probit comparisons needs."""
        needs_one = self.marginalize == "all" and self.likelihood == "probit"
        return PRIOR_SCALE if needs_one and self.prior_scale is None else self.prior_scale

    def _evidence(
        self, hyper: Any, X: Array, observed: Any, landmarks: Any, prior_scale: Any = None
    ) -> Evidence:
        rows, bounds = X[observed.rows], noise_bounds(self)
        return Evidence(hyper, rows, observed, self._inference(), bounds, landmarks, prior_scale)

    def _fitted_evidence(
        self, X: Array, comparisons: Comparisons, raters: Index | None, threshold: float
    ) -> Evidence:
        """The evidence of comparisons, with the learned hyperparameters and a threshold."""
        slopes, spread = None, 0.0
        if self.raters_ is not None:
            slopes, spread = self.raters_.slope, self.raters_.spread
        hyper = Hyperparameters(self.kernel_, self.noise_, threshold, self.flips_, slopes)
        observed = self._observations(comparisons, raters)
        return replace(self._evidence(hyper, X, observed, self.landmarks_), spread=spread)

    def _present_evidence(self) -> Evidence:
        """The evidence of all comparisons that were learned from."""
        return self._fitted_evidence(self.X_fit_, self._comparisons, self.rater_, self.threshold_)

    def _inference(self) -> InferenceSettings:
        return InferenceSettings(
            self.likelihood, self.inference, self.sweeps == "sequential", self.tol, self.max_sweeps
        )


@contextmanager
def _progress(verbose: bool) -> Iterator[Callable[[float], None] | None]:
    """A function to call with the log evidence of each posterior, if progress is to be shown."""
    if not verbose:
        yield None
        return
    done = count(1)
    with progress_bar("Posteriors", 0) as show:
        yield lambda value: show(next(done), f"log evidence {value:.4g}")
