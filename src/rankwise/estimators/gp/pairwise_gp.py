"""PairwiseGP: a Gaussian process that learns from comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rankwise.errors import DataError, ParameterError
from rankwise.estimators._call_errors import explain_calls
from rankwise.estimators._compared_parts import warn_of_parts
from rankwise.estimators._scale_warnings import warn_of_constants, warn_of_spread
from rankwise.estimators._validation import validated
from rankwise.estimators.gp.held_out_comparisons import HeldOutComparisons, hold_out
from rankwise.estimators.gp.hyperparameters import (
    has_one_scale,
)
from rankwise.estimators.gp.parameter_checks import (
    check_gp_parameters,
)
from rankwise.estimators.gp.posterior_queries import PosteriorMixin, dense
from rankwise.estimators.gp.telling import TellMixin
from rankwise.estimators.gp.training_comparisons import (
    check_comparisons,
    comparisons_of_scores,
)
from rankwise.estimators.ranker_mixin import RankerMixin
from rankwise.graph import QueryGroups
from rankwise.graph.comparison_checks import check_comparison_ids
from rankwise.graph.label_checks import check_labels_differ, numeric_labels
from rankwise.kernels.own_parts import has_own_parts
from rankwise.parameters import as_generator


class PairwiseGP(TellMixin, PosteriorMixin, RankerMixin, BaseEstimator):
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
        None: a constant times RBF, whose width starts at the median distance of rows. The constant
        is the variance of scores. It starts at 1 and is at most 100**2, and ends there if few
        comparisons contradict each other: the scale of scores is then that of this bound. Set
        `prior_scale`, or fix the variance, to choose another.
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
        little influence: p = flips + (1 - 2 flips) Phi(...). With a tie threshold, this is the
        chance that each of the two wins, so that the chance of a tie is multiplied by 1 - 2 flips
        as well. 0: none. Between 0 and 0.5: the
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
        whose median is the start. None: no prior, but 0.7 for probit with ``marginalize="all"``.
    inference : {"ep", "laplace"}, default="ep"
        Approximation of the probit posterior.
    sweeps : {"parallel", "sequential"}, default="parallel"
        Update all sites at once (damped while that does not converge), or one after the other.
    marginalize : {"grid", "all"} or None, default=None
        Average over hyperparameters, weighted by the evidence and the prior, instead of choosing
        the best. "grid": over the width of the kernel, on a grid of its logarithm. "all": over all
        that are free (kernel, noise, threshold and flips), on a central composite design around
        the best: 9 points for two of them, 15 for three, 25 for four. This costs as many posteriors
        and, for each free hyperparameter, four more and two gradients. The prior is that of
        `prior_scale`, or uniform in the logarithms within the bounds if there is none. So few
        points cannot describe hyperparameters that are at a bound, uncertain by more than a factor
        of 3 (one standard deviation), or about as probable far from the best: "all" warns of these,
        and if there is no prior. Predictions take as many times longer as there are points.
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
        The evidence at `theta_`.
    converged_, n_sweeps_ : bool and int
        Of the last posterior.
    grid_kernels_, grid_weights_ : list of kernels, and ndarray
        One, or those of the grid or design, and their posterior weights.
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
            The query of every row, as integers or text, in any order. None: one global ranking.

        Returns
        -------
        self
        """
        check_gp_parameters(self)
        rng = as_generator(self.random_state)
        with _unchanged_on_error(self):
            options = {"accept_sparse": "csr", "dtype": np.float64, "y_numeric": True}
            X, y = validated(self, X, numeric_labels(y), **options)
            y = np.asarray(y, dtype=np.float64)
            groups = QueryGroups.of(qid, len(y))
            if len(y) > 1:
                check_labels_differ(y, groups)
            made = comparisons_of_scores(groups, y, self.likelihood, self.max_pairs, rng)
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
            rows = validated(self, X, accept_sparse="csr", dtype=np.float64)
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

    def __setstate__(self, state: Any) -> None:
        """The state of a file, which had no raters if it does not mention them."""
        without = {"raters_": None, "rater_": None} if "pairs_" in state else {}
        super().__setstate__(without | state)

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

    def _check_raters(self, rater: Any, n_pairs: int) -> Any:
        """The raters of comparisons to fit."""
        if self.optimizer is None:
            raise ParameterError(
                "The slopes of raters are learned by the optimizer, and there is none. Use "
                'optimizer="lbfgs"; a kernel whose bounds are "fixed" stays as it is.'
            )
        return check_comparison_ids("rater", rater, n_pairs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


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
