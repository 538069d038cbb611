"""PairwiseGP: a Gaussian process that learns from comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._call_errors import explain_calls
from rankwise.estimators._compared_parts import warn_of_parts
from rankwise.estimators._context import fitted_context
from rankwise.estimators._landmark_choice import LandmarkChoice, check_for_landmarks
from rankwise.estimators._scale_warnings import warn_of_constants, warn_of_spread
from rankwise.estimators.gp.conditioned_process import Hyperparameters
from rankwise.estimators.gp.context_columns import in_context, rows_in_context, with_context
from rankwise.estimators.gp.evidence import Evidence, InferenceSettings
from rankwise.estimators.gp.held_out_comparisons import HeldOutComparisons, hold_out
from rankwise.estimators.gp.hyperparameters import (
    default_kernel,
    has_one_scale,
    learn_flips,
    optimize,
    warn_unless_converged,
    width_grid,
)
from rankwise.estimators.gp.linear_kernels import linear_coordinates
from rankwise.estimators.gp.parameter_checks import (
    check_gp_parameters,
    first_flips,
    may_learn_flips,
    noise_bounds,
)
from rankwise.estimators.gp.pool import pool_of, told
from rankwise.estimators.gp.posterior_queries import PosteriorMixin, dense
from rankwise.estimators.gp.process_mixture import ProcessMixture
from rankwise.estimators.gp.raters import RaterSlopes, learn_slopes
from rankwise.estimators.gp.suggest import POOL
from rankwise.estimators.gp.training_comparisons import (
    check_comparisons,
    comparisons_of_scores,
)
from rankwise.estimators.ranker_mixin import RankerMixin
from rankwise.graph import PreferenceGraph, QueryGroups
from rankwise.graph.comparison_checks import check_comparison_ids
from rankwise.graph.comparisons import Comparisons
from rankwise.graph.label_checks import check_labels_differ, numeric_labels
from rankwise.kernels.own_parts import has_own_parts
from rankwise.parameters import as_generator
from rankwise.problem.memory import check_kernel_fits
from rankwise.progress import progress_bar
from rankwise.solvers.gp.observations import PairObservations
from rankwise.solvers.gp.pool import PoolPosterior


class PairwiseGP(PosteriorMixin, RankerMixin, BaseEstimator):
    """A Gaussian process on comparisons: scores with their uncertainty.

    The score is a Gaussian process f with covariance `kernel`. The first row of a comparison is
    preferred with probability

        p(i beats j | f) = Phi((f(x_i) - f(x_j)) / noise)                      (probit),

    or it is ahead by a margin of N(f(x_i) - f(x_j), noise^2)                  (gaussian).

    For probit, the posterior of f is approximated by expectation propagation: a Gaussian site
    for each compared pair, matched to its likelihood. Repeated and contradictory comparisons of
    a pair share one site. The gaussian posterior is exact, and its mean is that of `RankRLS`
    with ``alpha=noise**2`` and ``weighting="pairs"``. Hyperparameters maximize the evidence
    p(comparisons).

    Raters differ. With `rater` in `fit_pairs`, each rater has a slope s, and the noise of its
    comparisons is noise / s; the threshold of ties is in units of that noise. Slopes are
    hyperparameters with a log-normal prior of median 1, whose width the comparisons determine: a
    rater with few comparisons has nearly the common slope, 1.

    For N compared pairs of n rows and a kernel matrix of numerical rank r <= min(n, N), a sweep
    takes O(r^2 min(n, N) + N r) time, and some ten sweeps are needed. Each step of the optimizer
    needs as much, plus O(n^2) per hyperparameter. Memory: several n x n matrices. With
    `n_landmarks`, r is their number, and it is O(N r^2) time and O((n + N) r) memory. So it is for
    linear kernels (DotProduct, constants, their sums, `OnColumns` of these), where r is the number
    of columns: no kernel matrix is computed.

    Parameters
    ----------
    kernel : kernel of ``sklearn.gaussian_process.kernels``, optional
        None: a constant times RBF, whose width starts at the median distance of rows.
    likelihood : {"probit", "gaussian"}, default="probit"
        Whether comparisons say who wins, or by how much.
    noise : float, default=1.0
        Standard deviation of the noise of a comparison; the start, if it is learned.
    noise_bounds : "auto", "fixed" or (float, float), default="auto"
        Bounds of the noise, if it is learned. "auto": fixed for probit, where only the ratio of
        the kernel's scale to the noise matters, and (1e-5, 1e5) for gaussian.
    tie_model : {"half", "threshold"}, default="half"
        A tie in a probit model is half a win for each row, or a difference, with its noise,
        between -t and t. The threshold t is learned if there are ties.
    threshold : float, default=0.5
        Start of t, in units of the noise; its value if there is no optimizer.
    flips : "auto" or float, default="auto"
        Share of comparisons that are flipped, whatever the scores, so that a wrong answer has
        little influence: p = flips + (1 - 2 flips) Phi(...). 0: none. Between 0 and 0.5: the
        start of the share, which is learned. "auto": 0, unless a share that is learned raises
        the log evidence by more than log(n_comparisons) / 2. Only expectation propagation with
        an optimizer can learn it.
    optimizer : "lbfgs", callable or None, default="lbfgs"
        L-BFGS-B on the logarithms of the hyperparameters, or a function (objective, theta,
        bounds) -> (theta, value) as in scikit-learn, or None: keep the kernel as it is.
    n_restarts_optimizer : int, default=0
        Number of further starts, drawn uniformly within the bounds.
    prior_scale : float or array-like, optional
        Standard deviation, in logarithms, of a log-normal prior on every free hyperparameter,
        whose median is the start. None: no prior.
    inference : {"ep", "laplace"}, default="ep"
        Approximation of the probit posterior.
    sweeps : {"parallel", "sequential"}, default="parallel"
        Update all sites at once (damped while that does not converge), or one after the other.
    marginalize : "grid" or None, default=None
        "grid": average over the width of the kernel, on a grid of its logarithm, weighted by
        the evidence, instead of choosing the best one.
    grid_step : float, default=0.25
        Step of this grid.
    n_landmarks : int, optional
        Let the scores follow from those at this many landmarks: for more than a few thousand
        rows. None, and no `landmarks`: exact.
    landmarks : str or array-like, optional
        How to choose the landmarks, or which they are, as in `SparseRankRLS`. None: "kmeans".
    max_pairs : int, default=100_000
        Largest number of comparisons that `fit` makes of scores; of more, it draws so many.
    tol : float, default=1e-5
        Largest error of the moments at the end, relative to their spread.
    max_sweeps : int, default=200
    random_state : int, Generator or None, default=None
        For restarts, landmarks, and the choice of pairs.
    verbose : bool, default=False
        Whether to show the progress of the choice of hyperparameters: how many posteriors were
        computed, and the log evidence of the last. On stderr if it is a terminal, or in a notebook.

    Attributes
    ----------
    kernel_ : kernel
        With the learned hyperparameters.
    noise_, threshold_, flips_ : float
        Learned values; the threshold is 0 if there was no tie or a tie is half a win.
    theta_ : ndarray
        Logarithms of all free hyperparameters: of the kernel, noise, threshold, slopes, flips.
    log_marginal_likelihood_value_ : float
        The evidence at theta_.
    converged_, n_sweeps_ : bool and int
        Of the last posterior.
    grid_kernels_, grid_weights_ : list of kernels, and ndarray
        One, or those of the grid, and their posterior weights.
    landmarks_ : ndarray of shape (n_landmarks, n_features)
        None if inference is exact.
    pairs_, margin_, weight_ : ndarray
        Comparisons learned from, `tell` included.
    raters_ : RaterSlopes
        The slope of each rater with its standard error; None if no raters were given.
    rater_ : ndarray of shape (n_pairs,)
        The number of the rater of each comparison in `raters_`, -1 if not known; None without
        raters.
    X_fit_ : ndarray of shape (n_rows, n_features)
        Training rows. With context, its columns follow, and there are further rows for first items
        in their context.
    context_coef_, context_std_ : ndarray of shape (n_columns,)
        Weights of the context of comparisons, and their standard deviations; only after
        `fit_pairs` with context.
    context_scale_ : ndarray of shape (n_columns,)
        What context columns are multiplied by.
    posterior_ : ProcessMixture
        What predictions are made of.
    n_queries_, n_features_in_, feature_names_in_
        As in `RankRLS`.

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
    pairs_: Index
    margin_: Array
    weight_: Array
    landmarks_: Array | None
    threshold_: float
    raters_: RaterSlopes | None
    rater_: Index | None
    _pool: PoolPosterior | None = None

    __metadata_request__predict = {"qid": True}  # noqa: RUF012

    def __init__(
        self,
        kernel: Any = None,
        *,
        likelihood: str = "probit",
        noise: float = 1.0,
        noise_bounds: Any = "auto",
        tie_model: str = "half",
        threshold: float = 0.5,
        flips: Any = "auto",
        optimizer: Any = "lbfgs",
        n_restarts_optimizer: int = 0,
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
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.noise = noise
        self.noise_bounds = noise_bounds
        self.tie_model = tie_model
        self.threshold = threshold
        self.flips = flips
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
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
        self.verbose = verbose

    @explain_calls
    def fit(self, X: Any, y: Any, *, qid: Any = None) -> Self:
        """Fit to scored rows: every pair of rows of a query is a comparison.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
            Sparse rows are converted to dense ones.
        y : array-like of shape (n_rows,)
            Scores, higher is better. Equal scores are ties (probit) or margins of 0.
        qid : array-like of shape (n_rows,), optional
            The query of every row, of any dtype and in any order. None: one global ranking.

        Returns
        -------
        self
        """
        check_gp_parameters(self)
        rng = as_generator(self.random_state)
        with _unchanged_on_error(self):
            options = {"accept_sparse": "csr", "dtype": np.float64, "y_numeric": True}
            X, y = validate_data(self, X, numeric_labels(y), **options)
            y = np.asarray(y, dtype=np.float64)
            groups = QueryGroups.of(qid, len(y))
            graph = PreferenceGraph.from_groups(groups)
            if len(y) > 1:
                check_labels_differ(y, groups)
            made = comparisons_of_scores(graph, y, self.likelihood, self.max_pairs, rng)
            self._forget_context()
            self._learn(dense(X), made, None, qid, rng)
            self.n_queries_ = groups.n_groups
        if not warn_of_constants(self, X):
            self._warn_of_spread(X)
        return self

    def fit_pairs(
        self,
        X: Any,
        pairs: Any,
        *,
        margin: Any = None,
        weight: Any = None,
        rater: Any = None,
        context: Any = None,
    ) -> Self:
        """Fit to comparisons between rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
            Sparse rows are converted to dense ones.
        pairs : array-like of shape (n_pairs, 2), or rankwise.data.Comparisons
            Row numbers of X, the preferred row first. Pairs may be repeated and contradict each
            other. Without any pair, the posterior is the prior.
        margin : array-like of shape (n_pairs,), optional
            By how much the first row is better (gaussian; None: by 1). For probit, 1: the first
            won, 0: a tie, -1: the second won. Booleans (True: the first won, False: the second)
            and the words "first", "tie" and "second" mean the same numbers. If there are only 1s
            and 0s, 0 could be meant as a tie or as a loss: integers are refused, and floats are
            ties, with a warning.
        weight : array-like of shape (n_pairs,), optional
            How often each comparison counts, whole or not. None: once.
        rater : array-like of shape (n_pairs,), optional
            Who made each comparison, of any type: every rater has a slope, which is learned
            (`raters_`). None: all comparisons have the same noise.
        context : array-like of shape (n_pairs, n_columns), optional
            Features z of the comparisons themselves, such as the position of the first row: the
            difference of scores is then f(x_i) - f(x_j) + z'g. The weights g have independent
            normal priors with the same variance, in units of the root mean square of each column;
            the variance is a hyperparameter, after those of the kernel. `context_coef_` and
            `context_std_` have the mean and standard deviation of g. Scores and preferences are
            those of z = 0. Not with landmarks.

        Returns
        -------
        self
        """
        check_gp_parameters(self)
        rng = as_generator(self.random_state)
        with _unchanged_on_error(self):
            rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
            given = check_comparisons(
                X, rows.shape[0], pairs, margin, weight, context, self.likelihood
            )
            raters = None if rater is None else self._check_raters(rater, len(given))
            counted = given.weight > 0
            given = given.take(counted)
            raters = None if raters is None else QueryGroups.of(raters[counted])
            self._forget_context()
            if given.context is None:
                self._learn(dense(rows), given, raters, None, rng)
            else:
                self._learn_with_context(dense(rows), given, raters, rng)
            self.n_queries_ = 1
        self._warn_of_spread(rows)
        if len(given) and has_own_parts(self.kernel_):  # other kernels link all rows
            warn_of_parts(self, X, given, rows.shape[0])
        return self

    def tell(
        self,
        pair: Any,
        *,
        margin: Any = None,
        weight: Any = None,
        rater: Any = None,
        context: Any = None,
        X: Any = None,
    ) -> Self:
        """Learn from further comparisons, starting from the present posterior.

        The hyperparameters stay as they are (`fit_pairs` would choose them again). At the first
        tie of ``tie_model="threshold"``, the threshold becomes the parameter `threshold`. The sites
        of earlier comparisons are the start. After `suggest_pair` on the training rows, few sites
        change: O(n^2) for each of them. A few sweeps follow when something else than the next pair
        is asked.

        Parameters
        ----------
        pair : array-like of shape (2,) or (n_pairs, 2), or rankwise.data.Comparisons
            Row numbers, the preferred row first. `Comparisons` have item ids, outcomes, weights
            and context; their items are the rows of the fit, or those of `X`.
        margin, weight : float or array-like, optional
            As in `fit_pairs`.
        rater : id or array-like of shape (n_pairs,), optional
            Who made the comparisons, after a fit with raters. None: the common slope, 1. One who
            is not known has this slope, too, with a warning.
        context : array-like of shape (n_pairs, n_columns), or (n_columns,) for one pair, optional
            Features of the comparisons, after a fit with context. None: 0.
        X : array-like or sparse of shape (n_rows, n_features), optional
            The rows that `pair` numbers; they are added to the training rows. None: the
            training rows.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        rows = self.X_fit_ if X is None else self._new(X)
        n_rows = len(rows)
        if isinstance(pair, Comparisons):
            pairs: Any = pair
            if X is None and pair.items is not None:
                n_rows = len(self._items())
        else:
            pairs = np.atleast_2d(np.asarray(pair)) if np.size(pair) else np.zeros((0, 2), np.intp)
            if context is not None and len(pairs) == 1:
                context = np.reshape(context, (1, -1))
        margin = None if margin is None else np.atleast_1d(margin)
        weight = None if weight is None else np.atleast_1d(weight)
        new = check_comparisons(X, n_rows, pairs, margin, weight, context, self.likelihood)
        if new.context is not None:
            new = replace(new, context=fitted_context(self, new.context, len(new)))
        raters = self._told_raters(rater, len(new))
        counted = new.weight > 0
        new = new.take(counted)
        X_fit = self.X_fit_
        if X is not None:
            new = replace(new, pairs=new.pairs + len(X_fit))
            X_fit = np.vstack((X_fit, rows))
        if new.context is not None:
            X_fit, new = rows_in_context(X_fit, new, self.context_scale_)
        comparisons = self._comparisons + new
        if raters is not None and self.rater_ is not None:
            raters = np.concatenate((self.rater_, raters[counted]))
        threshold = self.threshold_ or self._threshold(self._observations(new, None))
        evidence = self._fitted_evidence(X_fit, comparisons, raters, threshold)
        pool, same_rows = None, len(X_fit) == len(self.X_fit_)
        if self._pool is not None and same_rows and threshold == self.threshold_:
            pool = told(self._pool, X_fit, evidence)
        if pool is not None:
            self.__dict__.pop("posterior_", None)  # made again when it is needed
            self._pool, self.n_sweeps_ = pool, 1
            self.log_marginal_likelihood_value_ = pool.log_evidence
            self._keep_comparisons(comparisons, raters)
            return self
        posterior = self.posterior_.updated(evidence)
        self.theta_, self.threshold_ = evidence.start, threshold
        self._keep(X_fit, comparisons, raters, posterior)
        return self

    def __getattr__(self, name: str) -> Any:
        """The posterior, if `tell` has only updated the moments of the training rows."""
        pool = vars(self).get("_pool")
        if name != "posterior_" or pool is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        evidence = self._present_evidence()
        process = evidence.condition(evidence.hyper, (pool.tau, pool.nu))
        self.posterior_ = ProcessMixture.of([process], np.ones(1))
        return self.posterior_

    def __getstate__(self) -> Any:
        """The state for copies and files: with the posterior, without what it is made of."""
        if vars(self).get("_pool") is not None:
            _ = self.posterior_
        return {key: value for key, value in super().__getstate__().items() if key != "_pool"}

    def __setstate__(self, state: Any) -> None:
        """The state of a file, which had no raters if it does not mention them."""
        without = {"raters_": None, "rater_": None} if "pairs_" in state else {}
        super().__setstate__(without | state)

    def _pool_moments(self, X: Array) -> tuple[Array, Array] | None:
        """Mean and covariance of scores, if X are the training rows, and kept for `tell`."""
        if len(X) > POOL or not np.array_equal(X, self.X_fit_):
            return None
        updates = self.likelihood == "probit" and self.inference == "ep"
        if not updates or self.landmarks_ is not None or len(self.grid_weights_) > 1:
            return None
        if self._pool is None:
            self._pool = pool_of(self.posterior_.best, self.X_fit_, self._present_evidence())
        pool, noise = self._pool, self.noise_
        covariance = pool.covariance if noise == 1.0 else noise**2 * pool.covariance
        return noise * pool.mean, covariance

    def log_marginal_likelihood(self, theta: Any = None, *, eval_gradient: bool = False) -> Any:
        """Evidence of the comparisons, log p(comparisons | theta).

        Parameters
        ----------
        theta : array-like, optional
            Logarithms of the free hyperparameters, as in `theta_`. None: `theta_`.
        eval_gradient : bool, default=False
            Return the gradient too.

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
        evidence = self._present_evidence()
        if eval_gradient:
            return evidence.value_and_gradient(theta)
        return evidence.process(theta).approximation.log_evidence

    def leave_one_out(self, *, groups: Any = None) -> HeldOutComparisons:
        """Predict every comparison that was learned from as if it had been left out.

        No model is fitted again. A comparison is taken out of the posterior with its site of
        expectation propagation, and the few sites that this affects most are matched again; the
        hyperparameters stay as they are. For ``likelihood="gaussian"`` this equals a fit without
        the comparison. For probit it is close: on five problems, the mean log-loss differs from
        that of fits without each comparison by at most 0.002, in less than a hundredth of their
        time (`benchmarks/bench_gp_held_out.py`).

        A comparison takes O(r^2 + n r + N) time, with the letters of the class, and a group of k
        pairs O(r^2 k + k^3).

        Parameters
        ----------
        groups : array-like of shape (n_pairs,), optional
            The group of each comparison of `pairs_`, such as its prompt, rater or session: all
            comparisons of a group are left out together. None: single comparisons.

        Returns
        -------
        HeldOutComparisons
            `probabilities`, `log_loss`, `accuracy` and others.

        Examples
        --------
        >>> import numpy as np
        >>> from rankwise import PairwiseGP
        >>> X = np.arange(5.0)[:, None]
        >>> gp = PairwiseGP(optimizer=None).fit_pairs(X, [[3, 0], [3, 1], [4, 2], [2, 1], [0, 4]])
        >>> held_out = gp.leave_one_out()
        >>> held_out.probabilities[:, 0].round(2)  # of the outcome that was observed
        array([0.52, 0.58, 0.47, 0.55, 0.14])
        >>> round(held_out.log_loss, 3)
        0.902
        """
        check_is_fitted(self)
        if self.likelihood == "probit" and self.inference != "ep":
            raise ParameterError(
                "leave_one_out takes sites of expectation propagation out of the posterior: use "
                'inference="ep".'
            )
        n_pairs = len(self.pairs_)
        if not n_pairs:
            raise DataError("There is no comparison to leave out: the fit had none.")
        if groups is not None:
            groups = QueryGroups.of(check_comparison_ids("group", groups, n_pairs))
        return hold_out(self.posterior_, self._present_evidence(), self._comparisons, groups)

    def _warn_of_spread(self, X: Any) -> None:
        if self.kernel is None or has_one_scale(self.kernel):
            warn_of_spread(
                self,
                X,
                "Scale them first, for example with sklearn.preprocessing.StandardScaler, or use a "
                "kernel with a length scale for each feature, such as 1.0 * RBF(X.std(axis=0)).",
            )

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
        evidence = self._evidence(start, X, observed, landmarks, self.prior_scale)
        log_error = np.zeros(0)
        with _progress(self.verbose) as evidence.watch:
            theta = optimize(evidence, self.optimizer, self.n_restarts_optimizer, rng)
            if raters is not None:
                evidence, theta, log_error = learn_slopes(evidence, theta, self.optimizer)
            if may_learn_flips(self):
                evidence, theta = learn_flips(evidence, theta, self.optimizer)
            if self.marginalize == "grid":
                posterior = ProcessMixture.of(*width_grid(evidence, theta, self.grid_step))
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

    def _check_raters(self, rater: Any, n_pairs: int) -> Any:
        """The raters of comparisons to fit."""
        if self.optimizer is None:
            raise ParameterError(
                "The slopes of raters are learned by the optimizer, and there is none. Use "
                'optimizer="lbfgs"; a kernel whose bounds are "fixed" stays as it is.'
            )
        return check_comparison_ids("rater", rater, n_pairs)

    def _told_raters(self, rater: Any, n_pairs: int) -> Any:
        """Numbers of the raters of comparisons to add; None if the fit had no raters."""
        if self.raters_ is None:
            if rater is not None:
                raise ParameterError("tell can have a rater only if the fit had raters.")
            return None
        if rater is None:
            return np.full(n_pairs, -1)
        rater = np.full(n_pairs, rater) if np.ndim(rater) == 0 else rater
        return self.raters_.numbers(check_comparison_ids("rater", rater, n_pairs))

    def _observations(self, comparisons: Comparisons, raters: Index | None) -> PairObservations:
        if self.likelihood == "gaussian":
            return PairObservations.from_margins(comparisons, raters)
        half_ties = self.tie_model == "half"
        return PairObservations.from_outcomes(comparisons, raters, half_ties=half_ties)

    def _threshold(self, observed: PairObservations) -> float:
        """Where the threshold of ties starts; 0 if none are modelled."""
        has_ties = self.likelihood == "probit" and bool(observed.values[:, 2].any())
        return float(self.threshold) if has_ties else 0.0

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


@contextmanager
def _progress(verbose: bool) -> Iterator[Callable[[float], None] | None]:
    """A function to call with the log evidence of each posterior, if progress is to be shown."""
    if not verbose:
        yield None
        return
    done = count(1)
    with progress_bar("Posteriors", 0) as show:
        yield lambda value: show(next(done), f"log evidence {value:.4g}")


@contextmanager
def _unchanged_on_error(estimator: BaseEstimator) -> Iterator[None]:
    """Restore the attributes of an estimator if an error is raised."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
