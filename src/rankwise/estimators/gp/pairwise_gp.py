"""PairwiseGP: a Gaussian process that learns from comparisons."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError
from rankwise.estimators._checks import check_random_state
from rankwise.estimators._landmark_choice import LandmarkChoice
from rankwise.estimators.gp.comparisons import Comparisons
from rankwise.estimators.gp.evidence import Evidence
from rankwise.estimators.gp.hyperparameters import (
    Search,
    default_kernel,
    grid,
    learn_flips,
    optimize,
    warn_unless_converged,
)
from rankwise.estimators.gp.mixture import Mixture
from rankwise.estimators.gp.parameters import (
    check_parameters,
    first_flips,
    may_learn_flips,
    noise_bounds,
)
from rankwise.estimators.gp.posterior import PosteriorMixin, dense
from rankwise.estimators.gp.process import Inference, Observations
from rankwise.estimators.ranker_mixin import RankerMixin
from rankwise.graph import PreferenceGraph, QueryGroups
from rankwise.problem import PairLoss
from rankwise.problem.memory import check_kernel_fits


class PairwiseGP(PosteriorMixin, RankerMixin, BaseEstimator):
    """A Gaussian process on comparisons: scores with their uncertainty.

    The score is a Gaussian process f with covariance `kernel`. The first row of a comparison is
    preferred with probability

        p(i beats j | f) = Phi((f(x_i) - f(x_j)) / noise)                      (probit),

    or it is ahead by a margin of N(f(x_i) - f(x_j), noise^2)                  (gaussian).

    For probit, the posterior of f is approximated by expectation propagation: a Gaussian site
    for each pair that was compared, matched to its likelihood; repeated and contradictory
    comparisons of a pair are one site. The gaussian posterior is exact, and its mean is that of
    `RankRLS` with alpha = noise^2. Hyper-parameters maximize the evidence p(comparisons).

    For N compared pairs of n rows and a kernel matrix of numerical rank r <= min(n, N), a sweep
    takes O(r^2 min(n, N) + N r) time, some ten sweeps are needed, and each step of the optimizer
    takes as much and O(n^2) for each hyper-parameter. Memory: some n x n matrices. With
    `n_landmarks`, r is their number and no n x n matrix is made: O(N r^2) time, O((n + N) r)
    memory.

    Parameters
    ----------
    kernel : kernel of ``sklearn.gaussian_process.kernels``, optional
        Sums, products and fixed parameters included. None: a constant times RBF, the width
        starting at the median distance of rows.
    likelihood : {"probit", "gaussian"}, default="probit"
        Who wins, or by how much.
    noise : float, default=1.0
        Standard deviation of the noise of a comparison; where it is free, it starts here.
    noise_bounds : "auto", "fixed" or (float, float), default="auto"
        Where the noise may go. "auto": fixed for probit, for which only the ratio of the
        kernel's scale to the noise counts, and (1e-5, 1e5) for gaussian.
    ties : {"half", "threshold"}, default="half"
        What a tie says, in a probit model: half a win each way; or that the difference with its
        noise lies between -t and t, for a threshold t that is learned (if there are ties).
    threshold : float, default=0.5
        Where t starts, in units of the noise; it stays there without an optimizer.
    flips : "auto" or float, default="auto"
        Share of comparisons that are turned round, whatever the scores: p = flips + (1 - 2
        flips) Phi(...). One such slip then costs little, where it would bend the scores
        otherwise. 0: none. Above 0, below 0.5: where the share starts that is learned. "auto":
        0, unless the comparisons contradict each other more than noise explains: the share is
        learned then, if it raises the log evidence by more than log(n_comparisons) / 2. Only
        expectation propagation with an optimizer can learn it.
    optimizer : "lbfgs", callable or None, default="lbfgs"
        L-BFGS-B on the logarithms of the hyper-parameters, or a function (objective, theta,
        bounds) -> (theta, value) as scikit-learn's, or None: keep the kernel as it is.
    n_restarts : int, default=0
        Further starts, drawn uniformly within the bounds.
    prior_scale : float or array-like, optional
        A log-normal prior on every free hyper-parameter, its median where it starts, its
        standard deviation this, in logarithms. None: no prior.
    inference : {"ep", "laplace"}, default="ep"
        Of the probit posterior.
    sweeps : {"parallel", "sequential"}, default="parallel"
        All sites at once (damped where that does not come closer), or one after the other.
    marginalize : "grid" or None, default=None
        "grid": average over the width of the kernel, on a grid of its logarithm with weights
        of the evidence, instead of taking the best one.
    grid_step : float, default=0.25
        Step of this grid.
    n_landmarks : int, optional
        Let the scores follow from those at this many landmarks: for more than a few thousand
        rows. None, and no `landmarks`: exact.
    landmarks : str or array-like, optional
        How they are chosen, or which they are, as for `SparseRankRLS`. None: "kmeans".
    max_pairs : int, default=100_000
        How many comparisons `fit` derives from scores at most; more are drawn from at random.
    tol : float, default=1e-5
        By how much moments may be off at the end, in units of their spread.
    max_sweeps : int, default=200
    random_state : int, Generator or None, default=None
        For restarts, landmarks, and pairs that are drawn.

    Attributes
    ----------
    kernel_ : kernel
        With the hyper-parameters that were found.
    noise_, threshold_, flips_ : float
        Likewise; the threshold is 0 where no tie was seen or a tie is half a win.
    theta_ : ndarray
        Logarithms of all free hyper-parameters: of the kernel, noise, threshold, flips.
    log_marginal_likelihood_value_ : float
        The evidence at theta_.
    converged_ : bool
    n_sweeps_ : int
        Sweeps that the last posterior took.
    grid_kernels_ : list of kernels
        One, or those of the grid.
    grid_weights_ : ndarray
        How much each of these counts.
    landmarks_ : ndarray of shape (n_landmarks, n_features)
        The points, where there are any.
    pairs_ : ndarray of shape (n_comparisons, 2)
        Comparisons learned from, `tell` included.
    X_fit_ : ndarray of shape (n_rows, n_features)
        Training rows.
    n_queries_, n_features_in_, feature_names_in_
        As for `RankRLS`.

    References
    ----------
    Tsivtsivadze, Cseke, Heskes: Kernel principal component ranking: robust ranking on noisy
    data. Section 5, equations (10) and (11).

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import PairwiseGP
    >>> X = np.arange(5.0)[:, None]
    >>> gp = PairwiseGP(optimizer=None).fit_pairs(X, [[3, 0], [3, 1], [4, 2], [2, 1], [4, 0]])
    >>> mean, std = gp.predict(X, return_std=True)
    >>> mean.argsort()[::-1].tolist()
    [4, 3, 2, 1, 0]
    >>> gp.predict_preference(X[[4, 0]], X[[0, 4]]).round(2)
    array([0.97, 0.03])
    """

    X_fit_: Array
    threshold_: float
    _comparisons: Comparisons
    _observed: Observations
    _rows: Index

    def __init__(
        self,
        kernel: Any = None,
        *,
        likelihood: str = "probit",
        noise: float = 1.0,
        noise_bounds: Any = "auto",
        ties: str = "half",
        threshold: float = 0.5,
        flips: Any = "auto",
        optimizer: Any = "lbfgs",
        n_restarts: int = 0,
        prior_scale: Any = None,
        inference: str = "ep",
        sweeps: str = "parallel",
        marginalize: str | None = None,
        grid_step: float = 0.25,
        n_landmarks: int | None = None,
        landmarks: Any = None,
        max_pairs: int = 100_000,
        tol: float = 1e-5,
        max_sweeps: int = 200,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.noise = noise
        self.noise_bounds = noise_bounds
        self.ties = ties
        self.threshold = threshold
        self.flips = flips
        self.optimizer = optimizer
        self.n_restarts = n_restarts
        self.prior_scale = prior_scale
        self.inference = inference
        self.sweeps = sweeps
        self.marginalize = marginalize
        self.grid_step = grid_step
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.max_pairs = max_pairs
        self.tol = tol
        self.max_sweeps = max_sweeps
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, qid: Any = None) -> Self:
        """Fit to scored rows: every pair of rows of a query is a comparison.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
            Sparse rows are made dense.
        y : array-like of shape (n_rows,)
            Scores, higher is better. Equal scores are ties (probit) or margins of 0.
        qid : array-like of shape (n_rows,), optional
            The query of every row, of any dtype and in any order. None: one global ranking.

        Returns
        -------
        self
        """
        check_parameters(self)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        groups = QueryGroups.of(qid, len(y))
        if len(y) > 1:
            n_pairs = PreferenceGraph.from_groups(qid, n_rows=len(y)).n_pairs
            PairLoss().check_learnable([n_pairs], len(y), groups.n_groups)
        self.n_queries_ = groups.n_groups
        y = np.asarray(y, dtype=np.float64)
        rng = check_random_state(self.random_state)
        comparisons = Comparisons.of_scores(y, qid, self.likelihood, self.max_pairs, rng)
        return self._learn(dense(X), comparisons, qid, rng)

    def fit_pairs(self, X: Any, pairs: Any, *, margin: Any = None, weight: Any = None) -> Self:
        """Fit to comparisons between rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
            Sparse rows are made dense.
        pairs : array-like of shape (n_pairs, 2)
            Rows of X, the preferred one first. Repeated and contradictory pairs are fine, and
            so is none at all: the posterior is the prior then.
        margin : array-like of shape (n_pairs,), optional
            By how much the first is better (gaussian; None: by 1). For probit, 1: the first
            won, 0: a tie, -1: the second won.
        weight : array-like of shape (n_pairs,), optional
            How often each comparison counts, whole or not. None: once.

        Returns
        -------
        self
        """
        check_parameters(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        self.n_queries_ = 1
        comparisons = Comparisons.given(X.shape[0], pairs, margin, weight, self.likelihood)
        return self._learn(dense(X), comparisons, None, check_random_state(self.random_state))

    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False) -> Any:
        """Evidence of the comparisons, log p(comparisons | theta).

        Parameters
        ----------
        theta : array-like, optional
            Logarithms of the free hyper-parameters, as in `theta_`. None: those.
        eval_gradient : bool, default=False
            The gradient as well.

        Returns
        -------
        value : float
        gradient : ndarray
            With `eval_gradient`.
        """
        check_is_fitted(self)
        if theta is None and not eval_gradient:
            return self.log_marginal_likelihood_value_
        theta = self.theta_ if theta is None else np.asarray(theta, dtype=np.float64)
        evidence = self._evidence(self.flips_)
        return evidence.value_and_gradient(theta) if eval_gradient else evidence.value(theta)

    def tell(self, pair: Any, *, margin: Any = None, weight: Any = None, X: Any = None) -> Self:
        """Learn from further comparisons, from the posterior that there is.

        The hyper-parameters stay as they are (`fit_pairs` would choose them anew), and so do
        the sites of earlier comparisons, to start from: O(n_points^2) for the kernel and a few
        sweeps.

        Parameters
        ----------
        pair : array-like of shape (2,) or (n_pairs, 2)
            Row numbers, the preferred one first.
        margin, weight : float or array-like, optional
            As for `fit_pairs`.
        X : array-like or sparse of shape (n_rows, n_features), optional
            What the numbers count; these rows join the training rows. None: the training rows.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        rows = self.X_fit_ if X is None else self._new(X)
        pairs = np.atleast_2d(np.asarray(pair)) if np.size(pair) else np.zeros((0, 2), np.intp)
        margin = None if margin is None else np.atleast_1d(margin)
        weight = None if weight is None else np.atleast_1d(weight)
        new = Comparisons.given(len(rows), pairs, margin, weight, self.likelihood)
        modelled = self.likelihood == "probit" and self.ties == "threshold"
        if modelled and self.threshold_ == 0.0 and (new.margin == 0).any():
            raise DataError(
                "This is the first tie, and a threshold has not been learned: fit again with "
                'fit_pairs, or use ties="half".'
            )
        X_fit = self.X_fit_
        if X is not None:
            new = Comparisons(new.pairs + len(X_fit), new.margin, new.weight)
            X_fit = np.vstack((X_fit, rows))
        state = self._posterior, self._observed, self._rows
        for one in new:
            state = self._told(X_fit, one, *state)
        # Nothing is kept of comparisons that raised an error.
        self._posterior, self._observed, self._rows = state
        self.X_fit_, self._comparisons = X_fit, self._comparisons + new
        self._summarize()
        return self

    def _told(
        self, X: Array, one: Comparisons, posterior: Mixture, observed: Observations, rows: Index
    ) -> tuple[Mixture, Observations, Index]:
        """Posterior, observations and compared rows after one comparison more."""
        more = one.observations(self.likelihood, self.ties == "half")
        compared = (int(more.first[0]), int(more.second[0]))
        if self._exact:
            missing = [row for row in compared if row not in rows]
            rows = np.append(rows, missing).astype(np.intp)
            points = X[rows]
            i, j = (int(np.flatnonzero(rows == row)[0]) for row in compared)
        else:
            points, i, j = X[list(compared)], 0, 1
        observed = observed + more
        return posterior.told(points, (i, j), observed, self._inference()), observed, rows

    def _learn(
        self, X: Array, comparisons: Comparisons, qid: Any, rng: np.random.Generator
    ) -> Self:
        """Choose hyper-parameters, condition on the comparisons, keep the result."""
        self.X_fit_ = X
        self._comparisons = comparisons
        self._observed = comparisons.observations(self.likelihood, self.ties == "half")
        self._rows = _compared(self._observed)
        self._template = default_kernel(X) if self.kernel is None else self.kernel
        if self._exact:
            check_kernel_fits(len(self._rows))
            self.__dict__.pop("landmarks_", None)
        else:
            method = "kmeans" if self.landmarks is None else self.landmarks
            choice = LandmarkChoice.of(method, self.n_landmarks)
            self.landmarks_ = dense(choice.among(X, qid, self._template, rng).points)
        search = Search(self.optimizer, self.n_restarts, self.prior_scale)
        evidence = self._evidence(first_flips(self))
        theta = optimize(evidence, search, rng)
        if may_learn_flips(self):
            evidence, theta, search = learn_flips(evidence, theta, search)
        hyper = evidence.at(theta)
        self.theta_, self.kernel_ = theta, hyper.kernel
        self.noise_, self.threshold_, self.flips_ = hyper.noise, hyper.threshold, hyper.flips
        if self.marginalize == "grid":
            components, prior = grid(evidence, theta, self.grid_step, search)
        else:
            components, prior = [evidence.component(theta)], np.ones(1)
        self._posterior = Mixture.of(components, prior)
        self._summarize()
        return self

    def _summarize(self) -> None:
        """What the posterior tells of itself."""
        posterior, best = self._posterior, self._posterior.best.approximation
        warn_unless_converged(posterior.components, self._inference())
        self.pairs_ = self._comparisons.pairs
        self.grid_kernels_ = [c.hyper.kernel for c in posterior.components]
        self.grid_weights_ = posterior.weights
        self.converged_ = all(c.approximation.converged for c in posterior.components)
        self.n_sweeps_ = best.n_sweeps
        self.log_marginal_likelihood_value_ = best.log_evidence

    @property
    def _exact(self) -> bool:
        return self.n_landmarks is None and self.landmarks is None

    def _inference(self) -> Inference:
        return Inference(
            self.likelihood, self.inference, self.sweeps == "sequential", self.tol, self.max_sweeps
        )

    def _evidence(self, flips: float) -> Evidence:
        observed, rows = self._observed, _compared(self._observed)
        position = np.full(len(self.X_fit_), -1)
        position[rows] = np.arange(len(rows))
        seen_ties = observed.counts is not None and bool(observed.counts[:, 2].any())
        return Evidence(
            self._template,
            self.X_fit_[rows],
            observed.renumbered(position),
            self._inference(),
            noise=float(self.noise),
            noise_bounds=noise_bounds(self),
            threshold=float(self.threshold) if seen_ties else 0.0,
            free_threshold=seen_ties,
            flips=flips,
            landmarks=getattr(self, "landmarks_", None),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _compared(observed: Observations) -> Index:
    """Rows that take part in a comparison."""
    return np.unique(np.concatenate((observed.first, observed.second)))
