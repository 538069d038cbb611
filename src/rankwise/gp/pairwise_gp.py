"""PairwiseGP: a Gaussian process that learns from comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import stdtrit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.backends.parallel import blas_threads_for
from rankwise.errors import DataError, ParameterError, warn
from rankwise.estimators.base import RankerMixin, explain_calls, in_dtype
from rankwise.estimators.fit_pairs import fitted_context, warn_of_parts
from rankwise.estimators.pair_strategies import POOL, PairStrategy, suggest_pairs
from rankwise.estimators.ranker_rows import (
    check_new_ids,
    validated,
    warn_of_constants,
    warn_of_spread,
)
from rankwise.gp.evidence import POSITIVE, Evidence, GPOptions, PoolPosterior
from rankwise.gp.gp_results import HeldOutComparisons, RaterSlopes, hold_out
from rankwise.gp.hyperparameters import (
    PRIOR_SCALE,
    composite_design,
    learn_flips,
    learn_slopes,
    optimize,
    warn_unless_converged,
    width_grid,
)
from rankwise.gp.inference import PairObservations, check_comparisons, comparisons_of_scores
from rankwise.gp.process import (
    Hyperparameters,
    ProcessMixture,
    default_kernel,
    has_one_scale,
    linear_coordinates,
    rank_counts,
)
from rankwise.graph import QueryGroups
from rankwise.graph.comparisons import Comparisons, check_comparison_ids, context_factors
from rankwise.graph.query_groups import check_labels_differ, numeric_labels
from rankwise.kernels import has_own_parts
from rankwise.parameters import (
    AnyOf,
    Choice,
    Flag,
    Number,
    OptionsMixin,
    Rule,
    Whole,
    as_generator,
    check_parameters,
    check_value,
)
from rankwise.problem.landmarks import LandmarkChoice, check_for_landmarks
from rankwise.problem.problem import check_dense_fits, check_kernel_fits
from rankwise.progress import progress_bar, unseen

_FIRST_THRESHOLD = 0.5
_LARGEST_FACTOR = 1e150  # of context columns: variances have its square
_N_SAMPLES = Whole(1, 10**9)
_CLEAR = 0.975  # quantile of Student's t that a design effect must exceed
_OF_CONTEXT = ("context_scale_", "context_coef_", "context_std_", "context_variance_")
PARAMETERS: dict[str, Rule] = {
    "likelihood": Choice("probit", "gaussian"),
    "noise": POSITIVE,
    "tie_model": AnyOf(Choice("half", "threshold"), POSITIVE),
    "flips": AnyOf(Choice("auto"), Number(0, 0.5, open_high=True)),
    "marginalize": AnyOf(None, Choice("grid", "all")),
    "max_pairs": Whole(1, 10**12),
    "verbose": Flag(),
}


@explain_calls
@dataclass(eq=False, repr=False)
class PairwiseGP(OptionsMixin, RankerMixin, BaseEstimator):
    """A Gaussian process on comparisons: scores with their uncertainty.

    The score is a Gaussian process f with covariance `kernel`. The first row of a comparison is
    preferred with probability

        p(i beats j | f) = Phi((f(x_i) - f(x_j)) / noise)                      (probit),

    where Phi is the distribution function of the standard normal distribution, or it is ahead by a
    margin drawn from N(f(x_i) - f(x_j), noise^2)                              (gaussian).

    The posterior is the distribution of f given the comparisons. For probit, it is approximated by
    expectation propagation: each compared pair has a Gaussian site, which is matched to its
    likelihood. Repeated and contradictory comparisons of a pair share one site. For gaussian, the
    posterior is exact, and its mean is the prediction of `RankRLS` with ``alpha=noise**2`` and
    ``weighting="pairs"``. Hyperparameters maximize the evidence, which is the probability of the
    comparisons with all scores integrated out.

    Raters can differ. With `rater` in `fit_pairs`, each rater has a slope s, and comparisons by
    this rater have noise of standard deviation noise / s. The threshold of ties is in units of this
    noise. Slopes are hyperparameters with a log-normal prior of median 1. The comparisons determine
    the width of this prior: the slope of a rater with few comparisons is close to the common slope,
    1.

    For N compared pairs of n rows and a kernel matrix of numerical rank r <= min(n, N), a sweep
    takes O(r^2 min(n, N) + N r) time, and about ten sweeps are needed. Each step of the optimizer
    needs as much, plus O(n^2) per hyperparameter. Memory: several n x n matrices. With
    `n_landmarks`, r is the number of landmarks: O(N r^2) time and O((n + N) r) memory. With linear
    kernels (DotProduct, constants, their sums, `OnColumns` of these), r is the number of columns,
    at the same cost: no kernel matrix is computed. With c columns of context, r is larger by c, and
    a sweep takes O(N c^2) more time.

    Parameters
    ----------
    kernel : kernel of ``sklearn.gaussian_process.kernels``, optional
        None: a constant times RBF, whose width starts at the median distance of rows. The constant
        is the variance of scores. It starts at 1 and is at most 100**2. If few comparisons
        contradict each other, it ends at this bound, which then sets the scale of scores. Set
        `prior_scale`, or fix the variance, to choose another scale.
    likelihood : {"probit", "gaussian"}, default="probit"
        Whether comparisons record who wins, or by how much.
    noise : float, default=1.0
        Standard deviation of the noise of a comparison; the start, if it is learned (see
        ``GPOptions.noise_bounds``).
    tie_model : {"half", "threshold"} or float, default="half"
        "half": a tie in a probit model is half a win for each row. "threshold": a tie is a
        difference, with its noise, between -t and t. The threshold t is learned if there are ties.
        A float: the same, with this start of t, in units of the noise, instead of 0.5; without an
        optimizer, t keeps this value.
    flips : "auto" or float, default="auto"
        Share of comparisons that are flipped, whatever the scores, so that a wrong answer has
        little influence: p = flips + (1 - 2 flips) Phi(...). With a tie threshold, each of the two
        wins with this probability, and the probability of a tie is multiplied by 1 - 2 flips.
        0: none. Between 0 and 0.5: the start of the share, which is learned. "auto": 0, unless
        learning the share raises the log evidence by more than log(n_comparisons) / 2. Only
        expectation propagation with an optimizer can learn it.
    optimizer : "lbfgs", callable or None, default="lbfgs"
        L-BFGS-B on the logarithms of the hyperparameters, or a function (objective, theta,
        bounds) -> (theta, value) as in scikit-learn, or None: keep the kernel as it is.
    prior_scale : float or array-like, optional
        Standard deviation, in logarithms, of a log-normal prior on every free hyperparameter,
        whose median is the start. None: no prior, but 0.7 for probit with ``marginalize="all"``.
    marginalize : {"grid", "all"} or None, default=None
        Average over hyperparameters, weighted by the evidence and the prior, instead of choosing
        the best. "grid": over the width of the kernel, on a grid of its logarithm. "all": over all
        that are free (kernel, noise, threshold and flips), on a central composite design around
        the best: 9 points for two of them, 15 for three, 25 for four. This costs as many posteriors
        and, for each free hyperparameter, four more and two gradients. The prior has the width
        `prior_scale`, or is uniform in the logarithms within the bounds. So few points cannot
        describe hyperparameters that are at a bound, uncertain by more than a factor of 3 (one
        standard deviation), or about as probable far from the best. "all" warns of these, and if
        there is no prior. Predictions take as many times longer as there are points.
    n_landmarks : int, optional
        Compute the scores of all rows from the scores of this many landmarks. Use it for more than
        a few thousand rows. None, and no `landmarks`: exact.
    landmarks : str or array-like, optional
        How to choose the landmarks, or the landmarks themselves, as in `SparseRankRLS`. None:
        "kmeans".
    max_pairs : int, default=100_000
        Largest number of comparisons that `fit` makes from scores. If there are more pairs, this
        many are drawn at random.
    options : GPOptions, optional
        Rarely changed settings: bounds of the noise, restarts of the optimizer, the kind of
        approximation and its tolerance.
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
        Logarithms of all free hyperparameters: of the kernel, context, noise, threshold, slopes,
        flips.
    log_marginal_likelihood_value_ : float
        The evidence at `theta_`.
    converged_, n_sweeps_ : bool and int
        Of the last posterior. If it has many weights, the first sweeps are in single precision, and
        are not counted.
    grid_kernels_, grid_weights_ : list of kernels, and ndarray
        The kernels of the grid or design, and their posterior weights; one without `marginalize`.
    landmarks_ : ndarray of shape (n_landmarks, n_features)
        None if inference is exact.
    pairs_, margin_, weight_ : ndarray
        Comparisons learned from, `tell` included.
    raters_ : RaterSlopes
        The slope of each rater with its standard error; None if no raters were given.
    rater_ : ndarray of shape (n_pairs,)
        The number of the rater of each comparison in `raters_`, -1 if not known; None without
        raters.
    group_ : ndarray of shape (n_pairs,)
        The number of the group of each comparison, each told one being alone; None without groups.
    design_effect_ : float
        How many times larger the variance of scores is with the groups of comparisons than if all
        comparisons were independent; 1 unless the difference is clear.
    X_fit_ : ndarray of shape (n_rows, n_features)
        Training rows.
    context_coef_, context_std_ : ndarray of shape (n_columns,)
        Weights of the context of comparisons, and their standard deviations; only after
        `fit_pairs` with context, as all attributes of the context.
    context_ : ndarray of shape (n_pairs, n_columns)
        The context of the comparisons learned from.
    context_scale_ : ndarray of shape (n_columns,)
        The factors by which context columns are multiplied.
    context_variance_ : float
        The learned variance of the weights of the multiplied columns.
    posterior_ : ProcessMixture
        The posterior that makes the predictions.
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
    option_classes: ClassVar[dict[str, Any]] = {"options": GPOptions}
    threshold_: float = field(init=False)
    _pool: PoolPosterior | None = field(default=None, init=False)

    kernel: Any = None
    _: KW_ONLY
    likelihood: str = "probit"
    noise: float = 1.0
    tie_model: Any = "half"
    flips: Any = "auto"
    optimizer: Any = "lbfgs"
    prior_scale: Any = None
    marginalize: str | None = None
    n_landmarks: int | None = None
    landmarks: Any = None
    max_pairs: int = 100_000
    options: GPOptions | None = None
    random_state: Any = None
    verbose: bool = False

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
        self._check_parameters()
        rng = as_generator(self.random_state)
        with _unchanged_on_error(self):
            options = {"accept_sparse": "csr", "dtype": np.float64, "y_numeric": True}
            X, y = validated(self, X, numeric_labels(y), **options)
            y = np.asarray(y, dtype=np.float64)
            groups = QueryGroups.of(qid, len(y))
            if len(y) > 1:
                check_labels_differ(y, groups)
            made = comparisons_of_scores(groups, y, self.likelihood, self.max_pairs, rng)
            self._learn(dense(X), made, None, rng, qid=qid)
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
        groups: Any = None,
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
        groups : array-like of shape (n_pairs,), optional
            The ranking, prompt or session of each comparison, as integers or text. Comparisons of a
            group may depend on each other: the pairs of a ranking do. The dependence is measured
            after the fit. If it is clear, all weights are divided by `design_effect_`, and the fit
            is repeated. Otherwise standard deviations would be too small, and raters would seem to
            differ. `leave_one_out` leaves out whole groups. Margins (gaussian) get a warning
            instead.
        rater : array-like of shape (n_pairs,), optional
            Who made each comparison, as integers or text: every rater has a slope, which is
            learned (`raters_`). None: all comparisons have the same noise.
        context : array-like of shape (n_pairs, n_columns), optional
            Features z of the comparisons themselves, such as the position of the first row: the
            difference of scores is then f(x_i) - f(x_j) + z'g. The weights g have independent
            normal priors with the same variance, in units of the root mean square of each column,
            to which a comparison contributes by its weight; the variance is a hyperparameter, after
            the kernel's. `context_coef_` and `context_std_` are the mean and standard deviation of
            g. Scores and preferences are for z = 0.

        Returns
        -------
        self
        """
        self._check_parameters()
        rng = as_generator(self.random_state)
        with _unchanged_on_error(self):
            rows = validated(self, X, accept_sparse="csr", dtype=np.float64)
            given = check_comparisons(
                X, rows.shape[0], pairs, self.likelihood,
                margin=margin, weight=weight, groups=groups, context=context,
            )  # fmt: skip
            raters = None if rater is None else self._check_raters(rater, len(given))
            counted = given.weight > 0
            given = given.take(counted)
            raters = None if raters is None else QueryGroups.of(raters[counted])
            self._learn(dense(rows), given, raters, rng)
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
        tie, a threshold takes its start value (`tie_model`). The sites
        of earlier comparisons are the start. After `suggest_pair` on the training rows, few sites
        change: O(n^2) for each of them. A few sweeps follow when anything but the next pair is
        asked for.

        Parameters
        ----------
        pair : array-like of shape (2,) or (n_pairs, 2), or rankwise.data.Comparisons
            Row numbers, the preferred row first. `Comparisons` contain item ids, outcomes, weights
            and context; their items are the rows of the fit, or of `X`.
        margin, weight : float or array-like, optional
            As in `fit_pairs`.
        rater : id or array-like of shape (n_pairs,), optional
            Who made the comparisons, after a fit with raters. None: the common slope, 1. An unknown
            rater also gets this slope, with a warning.
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
        if isinstance(pair, Comparisons):
            pairs: Any = pair
        else:
            pairs = np.atleast_2d(np.asarray(pair)) if np.size(pair) else np.zeros((0, 2), np.intp)
            if context is not None and len(pairs) == 1:
                context = np.reshape(context, (1, -1))
        margin = None if margin is None else np.atleast_1d(margin)
        weight = None if weight is None else np.atleast_1d(weight)
        new = check_comparisons(
            X, len(rows), pairs, self.likelihood, margin=margin, weight=weight, context=context
        )
        if new.context is not None:
            new = replace(new, context=fitted_context(self, new.context, len(new)))
        elif self.context_ is not None:
            new = replace(new, context=np.zeros((len(new), self.context_.shape[1])))
        raters = self._told_raters(rater, len(new))
        counted = new.weight > 0
        new = new.take(counted)
        X_fit = self.X_fit_
        if X is not None:
            new = replace(new, pairs=new.pairs + len(X_fit))
            X_fit = np.vstack((X_fit, rows))
        comparisons = self._comparisons + new
        if self.group_ is not None:
            alone = self.group_.max(initial=-1) + 1 + np.arange(len(new))
            comparisons = replace(comparisons, groups=np.concatenate((self.group_, alone)))
        if raters is not None and self.rater_ is not None:
            raters = np.concatenate((self.rater_, raters[counted]))
        threshold = self.threshold_ or self._threshold(self._observations(new, None))
        evidence = self._fitted_evidence(X_fit, comparisons, raters, threshold)
        pool, same_rows = None, len(X_fit) == len(self.X_fit_)
        if self._pool is not None and same_rows and threshold == self.threshold_:
            pool = evidence.told(self._pool)
        if pool is not None:
            self.__dict__.pop("posterior_", None)  # made again when it is needed
            self._pool, self.n_sweeps_ = pool, 1
            self.log_marginal_likelihood_value_ = pool.log_evidence
            self._keep_comparisons(comparisons, raters)
            return self
        posterior = evidence.updated(self.posterior_)
        self.theta_, self.threshold_ = evidence.start, threshold
        self._keep(X_fit, comparisons, raters, posterior)
        return self

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

        No model is fitted again. The site of a comparison is taken out of the posterior, and the
        few sites that this affects most are matched again. The hyperparameters stay as they are,
        and so do the scale of the context and the design effect. For ``likelihood="gaussian"`` this
        equals a fit without the comparison. For probit it is close: on five problems, the mean
        log-loss differs by at most 0.002 from fits without each comparison, in less than a
        hundredth of their time (`benchmarks/bench_gp_held_out.py`).

        A comparison takes O(r^2 + n r + N) time, with the letters of the class, and a group of k
        pairs O(r^2 k + k^3).

        Parameters
        ----------
        groups : array-like of shape (n_pairs,), optional
            The group of each comparison of `pairs_`, such as its prompt, rater or session: all
            comparisons of a group are left out together. None: the groups of the fit or, without
            any, single comparisons.

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
        if self.likelihood == "probit" and not self._matches_sites:
            raise ParameterError(
                "leave_one_out takes sites of expectation propagation out of the posterior: use "
                'inference="ep".'
            )
        n_pairs = len(self.pairs_)
        if not n_pairs:
            raise DataError("There is no comparison to leave out: the fit had none.")
        if groups is not None:
            groups = QueryGroups.of(check_comparison_ids("group", groups, n_pairs))
        elif self.group_ is not None:
            groups = QueryGroups.of(self.group_)
        return hold_out(self.posterior_, self._present_evidence(), self._comparisons, groups)

    def predict(
        self,
        X: Any,
        *,
        qid: Any = None,
        contrast: Any = None,
        return_std: bool = False,
        return_cov: bool = False,
    ) -> Any:
        """Predict scores of rows, and their uncertainty.

        Comparisons do not determine the level of all scores. The uncertainty of a single score
        includes the uncertainty of the level, so that it stays close to the prior uncertainty,
        however many comparisons there are. For intervals of scores, use ``contrast="mean"``.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        qid : array-like of shape (n_rows,), optional
            The query of every row, as for all rankers. These scores do not depend on it.
        contrast : None, "mean" or array-like of shape (n_reference, n_features), default=None
            What is subtracted from every score. None: nothing. "mean": the mean score of the
            training rows, `X_fit_`. An array: the mean score of its rows.
        return_std, return_cov : bool, default=False
            Return standard deviations too, or the covariance.

        Returns
        -------
        mean : ndarray of shape (n_rows,)
        std, cov : ndarray of shape (n_rows,) or (n_rows, n_rows)
            On request.

        Examples
        --------
        >>> import numpy as np
        >>> from rankwise import PairwiseGP
        >>> X = np.arange(4.0)[:, None]
        >>> gp = PairwiseGP(optimizer=None).fit_pairs(X, np.repeat([[1, 0], [2, 1], [3, 2]], 50, 0))
        >>> gp.predict(X, return_std=True)[1].round(2)
        array([0.82, 0.81, 0.81, 0.82])
        >>> gp.predict(X, contrast="mean", return_std=True)[1].round(2)
        array([0.34, 0.22, 0.22, 0.34])
        """
        if return_std and return_cov:
            raise ParameterError(
                "Use return_std or return_cov, not both: the covariance contains the variances."
            )
        X = self._new(X)
        check_new_ids(qid, X)
        reference = self._reference(contrast)
        if return_std:
            found = self.posterior_.mean_and_std(X, reference)
        elif return_cov:
            found = self.posterior_.mean_and_covariance(X, reference)
        else:
            return in_dtype(self.posterior_.mean(X, reference), np.float64)
        return in_dtype(found[0], np.float64), found[1]

    def training_moments(self) -> tuple[Array, Array]:
        """Mean and covariance of the scores of the training rows, kept up to date by `tell`.

        `suggest_pair` chooses by these moments. They cost O(n^3) for the first call after a fit and
        O(n^2) after each `tell`, with errors of at most a thousandth of the spread. `predict` is
        more accurate, and slower after `tell`.

        Returns
        -------
        mean : ndarray of shape (n_rows,)
        covariance : ndarray of shape (n_rows, n_rows)

        Examples
        --------
        >>> import numpy as np
        >>> from rankwise import PairwiseGP
        >>> gp = PairwiseGP(optimizer=None).fit_pairs(np.arange(3.0)[:, None], [[2, 0]])
        >>> mean, covariance = gp.training_moments()
        >>> mean.argmax(), covariance.shape
        (np.int64(2), (3, 3))
        """
        check_is_fitted(self)
        known: tuple[Array, Array] | None = self._pool_moments(self.X_fit_)
        return self.posterior_.mean_and_covariance(self.X_fit_) if known is None else known

    def predict_difference(self, X1: Any, X2: Any) -> tuple[Array, Array]:
        """Mean and standard deviation of the difference of two scores, row by row.

        Parameters
        ----------
        X1, X2 : array-like or sparse of shape (n_pairs, n_features)

        Returns
        -------
        mean, std : ndarray of shape (n_pairs,)
            Of f(x1) - f(x2).
        """
        return self.posterior_.difference(*self._new_pairs(X1, X2))

    def predict_preference(
        self,
        X1: Any,
        X2: Any,
        *,
        observed: bool = False,
        rater: Any = None,
        context: Any = None,
    ) -> Array:
        """Probability that a row of X1 is better than the row of X2, row by row: equation (11).

        Parameters
        ----------
        X1, X2 : array-like or sparse of shape (n_pairs, n_features)
        observed : bool, default=False
            False: the probability that its score is higher. True: the probability that it wins a
            comparison, with its noise and flips, where a tie counts as half a win;
            `predict_outcomes` returns ties separately.
        rater : id or array-like of shape (n_pairs,), optional
            Who makes the comparisons, if `observed`. None: a rater with the common slope, 1. A
            rater who is not in `raters_` also gets this slope, with a warning.
        context : array-like of shape (n_pairs, n_columns), optional
            Features of the comparisons, if the process was fitted with them. None: 0.

        Returns
        -------
        ndarray of shape (n_pairs,)
        """
        if observed:
            outcomes = self.predict_outcomes(X1, X2, rater=rater, context=context)
            return np.asarray(outcomes @ [1.0, 0.5, 0.0])
        X1, X2 = self._new_pairs(X1, X2)
        z = self._scaled_context(context, len(X1))
        if rater is not None:
            raise ParameterError(
                "Whether a score is higher does not depend on the rater: use observed=True for the "
                "comparisons of a rater."
            )
        return self.posterior_.average(lambda c: c.preference(X1, X2, z))

    def predict_outcomes(
        self, X1: Any, X2: Any, *, rater: Any = None, context: Any = None
    ) -> Array:
        """Probabilities that a row of X1 wins, ties with or loses to the row of X2.

        They include the noise and flips of a comparison. The probability of a tie is 0, unless a
        ``tie_model`` with a threshold was fitted to some ties.

        Parameters
        ----------
        X1, X2 : array-like or sparse of shape (n_pairs, n_features)
        rater : id or array-like of shape (n_pairs,), optional
        context : array-like of shape (n_pairs, n_columns), optional
            As in `predict_preference`.

        Returns
        -------
        ndarray of shape (n_pairs, 3)
            Win, tie and loss of the row of X1, row by row. Rows sum to 1.

        Examples
        --------
        >>> from rankwise import PairwiseGP
        >>> X = [[0.0], [1.0], [2.0]]
        >>> gp = PairwiseGP(tie_model="threshold", optimizer=None)
        >>> gp = gp.fit_pairs(X, [[1, 0], [2, 1], [2, 0]], margin=["first", "tie", "first"])
        >>> gp.predict_outcomes(X[2:], X[:1]).round(2)
        array([[0.7, 0.2, 0.1]])
        """
        X1, X2 = self._new_pairs(X1, X2)
        z = self._scaled_context(context, len(X1))
        slope = self._slopes(rater, len(X1))
        found = self.posterior_.average(lambda c: c.outcomes(X1, X2, slope, z))
        return np.ascontiguousarray(found.T)

    def predict_tie(self, X1: Any, X2: Any, *, rater: Any = None, context: Any = None) -> Array:
        """Probability of a tie, row by row; needs a ``tie_model`` with a threshold.

        Parameters
        ----------
        X1, X2 : array-like or sparse of shape (n_pairs, n_features)
        rater : id or array-like of shape (n_pairs,), optional
        context : array-like of shape (n_pairs, n_columns), optional
            As in `predict_preference`.

        Returns
        -------
        ndarray of shape (n_pairs,)
        """
        if self.likelihood != "probit" or self.tie_model == "half":
            raise ParameterError(
                'The probability of a tie needs likelihood="probit" and tie_model="threshold".'
            )
        return self.predict_outcomes(X1, X2, rater=rater, context=context)[:, 1]

    def sample(self, X: Any, *, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw score functions from the posterior: O(m^3 + n_samples m^2) for m rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        n_samples : int, default=1
        random_state : int, Generator or None, default=None

        Returns
        -------
        ndarray of shape (n_samples, n_rows)
        """
        check_value("n_samples", n_samples, _N_SAMPLES)
        return self.posterior_.sample(self._new(X), n_samples, as_generator(random_state))

    def rank_probabilities(
        self, X: Any, *, n_samples: int = 2000, random_state: Any = None
    ) -> Array:
        """Probability of every rank of every row, among these rows, by sampling.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        n_samples : int, default=2000
            The standard error of an entry is at most 1 / (2 sqrt(n_samples)).
        random_state : int, Generator or None, default=None

        Returns
        -------
        ndarray of shape (n_rows, n_rows)
            Entry (i, k): the probability that row i has rank k, 0 being the best. Rows and
            columns sum to 1.
        """
        rng = as_generator(random_state)
        draws = self.sample(X, n_samples=n_samples, random_state=rng)
        return np.asarray(rank_counts(draws, rng) / n_samples)

    def suggest_pair(
        self,
        X: Any,
        *,
        strategy: str | PairStrategy = "bald",
        candidates: Any = None,
        n_pairs: int = 1,
        random_state: Any = None,
    ) -> Index:
        """Choose the rows to compare next.

        If X are the training rows, at most 2,000, their moments are kept for the next question,
        and `tell` updates them: O(n^3) for the first question, and O(n^2) for others.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
            The rows that can be compared.
        strategy : {"bald", "eubo", "thompson", "random"} or object, default="bald"
            "bald": the pair whose outcome is most informative about the scores; for a good ranking
            of all rows. "eubo": the pair whose better row has the highest expected score; for
            finding the best row. "thompson": the best rows of two draws from the posterior.
            "random": any pair. An object with a method ``choose(belief, n_pairs)``: it returns the
            positions of pairs in ``belief.pairs``. The belief provides the mean and covariance of
            the scores, draws of them, and ``best_pairs(worth, n_pairs)``.
        candidates : int or array-like of shape (n_candidates, 2), optional
            Pairs to choose from, or how many to draw at random. None: all pairs of rows. If there
            are more than 2,000 rows, 2,000 of them are drawn at random first.
        n_pairs : int, default=1
            How many pairs to choose. Each choice takes the previous ones into account.
        random_state : int, Generator or None, default=None

        Returns
        -------
        ndarray of shape (2,), or (n_pairs, 2) for more than one
            Row numbers of X.

        Examples
        --------
        >>> import numpy as np
        >>> from rankwise import PairwiseGP
        >>> X = np.linspace(0, 1, 50)[:, None]
        >>> gp = PairwiseGP(optimizer=None).fit_pairs(X, [[10, 40]])
        >>> i, j = gp.suggest_pair(X, random_state=0)
        >>> gp = gp.tell([i, j])  # i won
        >>> len(gp.pairs_)
        2

        A strategy of your own, which asks about rows with similar scores:

        >>> class Closest:
        ...     def choose(self, belief, n_pairs):
        ...         return belief.best_pairs(lambda f, g, variance: -abs(f - g), n_pairs)
        >>> gp.suggest_pair(X, strategy=Closest(), n_pairs=3).shape
        (3, 2)
        """
        X = self._new(X)
        rng = as_generator(random_state)

        def moments(rows: Index) -> tuple[Array, Array]:
            known = self._pool_moments(X)
            if known is None:
                return self.posterior_.mean_and_covariance(X[rows])
            mean, covariance = known
            if len(rows) == len(X):
                return mean, covariance
            return mean[rows], covariance[np.ix_(rows, rows)]

        chosen = suggest_pairs(
            strategy,
            n_pairs,
            len(X),
            candidates,
            rng,
            moments=moments,
            sample=lambda rows, n: self.posterior_.sample(X[rows], n, rng),
            noise=self.noise_,
            flips=self.flips_,
            likelihood=self.likelihood,
        )
        return chosen[0] if n_pairs == 1 else chosen

    @classmethod
    def upgraded_parameters(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        """Parameters from a model file, possibly of an earlier version, in the present form."""
        now = super().upgraded_parameters(parameters)
        for gone in ("sweeps", "grid_step"):
            now.pop(gone, None)
        threshold = now.pop("threshold", _FIRST_THRESHOLD)
        if now.get("tie_model") == "threshold" and threshold != _FIRST_THRESHOLD:
            now["tie_model"] = threshold
        return now

    def __setstate__(self, state: Any) -> None:
        """The state of a file, which had no raters, context and groups that it does not mention."""
        names = ("raters_", "rater_", "context_", "group_") if "pairs_" in state else ()
        effect = {"design_effect_": 1.0} if names else {}
        super().__setstate__(dict.fromkeys(names) | effect | state)
        if "context_scale_" in state and "context_" not in state:
            self._take_rows_out_of_context()

    def __getstate__(self) -> Any:
        """The state for copies and files: with the posterior, without its intermediate results."""
        if vars(self).get("_pool") is not None:
            _ = self.posterior_
        state: Any = super().__getstate__()
        return {key: value for key, value in state.items() if key != "_pool"}

    def __getattr__(self, name: str) -> Any:
        """The posterior, if `tell` has only updated the moments of the training rows."""
        pool = vars(self).get("_pool")
        if name != "posterior_" or pool is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        evidence = self._present_evidence()
        process = evidence.condition(evidence.hyper, (pool.tau, pool.nu))
        self.posterior_ = ProcessMixture.of([process], np.ones(1))
        return self.posterior_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def _check_parameters(self) -> None:
        """Check every parameter but the landmarks, which are checked when chosen."""
        check_parameters(self, PARAMETERS)
        self._options.check()
        if not callable(self.optimizer):
            check_value("optimizer", self.optimizer, AnyOf(None, Choice("lbfgs")))
        if self.flips not in (0, "auto") and not self._matches_sites:
            raise ParameterError('flips needs likelihood="probit" and inference="ep".')
        usable = hasattr(self.kernel, "clone_with_theta") and not isinstance(self.kernel, type)
        if self.kernel is not None and not usable:
            raise ParameterError(
                "kernel must be one of sklearn.gaussian_process.kernels, such as RBF(1.0), or "
                f"None: got {self.kernel!r}."
            )

    def _check_raters(self, rater: Any, n_pairs: int) -> Any:
        """The raters of comparisons to fit."""
        if self.optimizer is None:
            raise ParameterError(
                "The slopes of raters are learned by the optimizer, and there is none. Use "
                'optimizer="lbfgs"; a kernel whose bounds are "fixed" stays as it is.'
            )
        return check_comparison_ids("rater", rater, n_pairs)

    def _warn_of_spread(self, X: Any) -> None:
        if self.kernel is None or has_one_scale(self.kernel):
            warn_of_spread(
                self,
                X,
                "Scale them first, for example with sklearn.preprocessing.StandardScaler, or use a "
                "kernel with a length scale for each feature, such as 1.0 * RBF(X.std(axis=0)).",
            )

    @property
    def _options(self) -> GPOptions:
        options: GPOptions = self.options_in("options")
        return options

    @property
    def _matches_sites(self) -> bool:
        """Whether the posterior comes from expectation propagation."""
        return self.likelihood == "probit" and self._options.inference == "ep"

    def _learn(
        self,
        X: Array,
        comparisons: Comparisons,
        raters: QueryGroups | None,
        rng: np.random.Generator,
        *,
        qid: Any = None,
    ) -> None:
        """Choose hyperparameters, condition on the comparisons, keep the result."""
        for name in _OF_CONTEXT:
            self.__dict__.pop(name, None)
        if comparisons.context is not None:
            factors = context_factors(
                comparisons.context, 1.0, most=_LARGEST_FACTOR, weight=comparisons.weight
            )
            self.context_scale_ = np.where(factors > 0, factors, 1.0)
        kernel = default_kernel(X) if self.kernel is None else self.kernel
        self.design_effect_ = 1.0
        numbers = None if raters is None else raters.codes
        groups = None if comparisons.groups is None else QueryGroups.of(comparisons.groups)
        if groups is not None:
            comparisons = replace(comparisons, groups=groups.codes)
        observed = self._observations(comparisons, numbers)
        landmarks = self._choose_landmarks(X, len(observed.rows), qid, kernel, rng)
        flips = 0.0 if self.flips == "auto" else float(self.flips)
        context = 0.0 if comparisons.context is None else 1.0
        start = Hyperparameters(
            kernel, float(self.noise), self._threshold(observed), flips, context=context
        )
        needs_prior = self.marginalize == "all" and self.likelihood == "probit"
        prior = PRIOR_SCALE if needs_prior and self.prior_scale is None else self.prior_scale
        rows = X[observed.rows]
        evidence = first = Evidence(
            start, rows, observed, self.likelihood, self._options, landmarks, prior
        )
        # A sweep costs as much as a product of square matrices of this size.
        size = round(math.cbrt(len(observed.rows) ** 2 * len(observed)))
        shown = progress_bar("Posteriors", 0) if self.verbose else nullcontext(unseen)
        with blas_threads_for(size), shown as evidence.show:
            evidence, theta, log_error = self._search(first, rng)
            if groups is not None and self._is_grouped(evidence, theta, groups):
                observed = self._observations(comparisons, numbers)
                first = replace(first, observed=observed, _best=None, _best_value=-np.inf)
                evidence, theta, log_error = self._search(first, rng)
            if self.marginalize is None:
                posterior = ProcessMixture.of([evidence.process(theta)], np.ones(1))
            else:
                average = {"grid": width_grid, "all": composite_design}[self.marginalize]
                posterior = ProcessMixture.of(*average(evidence, theta))
        hyper = evidence.at(theta)
        self.theta_, self.kernel_, self.landmarks_ = theta, hyper.kernel, landmarks
        self.noise_, self.threshold_, self.flips_ = hyper.noise, hyper.threshold, hyper.flips
        if comparisons.context is not None:
            self.context_variance_ = hyper.context
            mean, std = posterior.context_weights()
            self.context_coef_, self.context_std_ = (
                self.context_scale_ * part for part in (mean, std)
            )
        self.raters_ = None
        if raters is not None and hyper.slopes is not None:
            error = hyper.slopes * log_error
            self.raters_ = RaterSlopes(
                raters.names, hyper.slopes, error, raters.sizes, evidence.spread
            )
        self._keep(X, comparisons, numbers, posterior)

    def _search(
        self, evidence: Evidence, rng: np.random.Generator
    ) -> tuple[Evidence, Array, Array]:
        """The best hyperparameters, and standard errors of the log slopes of raters."""
        theta = optimize(evidence, self.optimizer, self._options.n_restarts_optimizer, rng)
        log_error = np.zeros(0)
        if evidence.observed.rater is not None:
            evidence, theta, log_error = learn_slopes(evidence, theta, self.optimizer)
        if self.flips == "auto" and self.optimizer is not None and self._matches_sites:
            evidence, theta = learn_flips(evidence, theta, self.optimizer)
        return evidence, theta, log_error

    def _is_grouped(self, evidence: Evidence, theta: Array, groups: QueryGroups) -> bool:
        """Whether comparisons of a group clearly depend on each other; keeps the design effect."""
        if groups.n_groups < 2 or len(groups.codes) == groups.n_groups:
            return False
        effect, error = evidence.design_effect(evidence.process(theta), groups)
        least = effect - stdtrit(groups.n_groups - 1, _CLEAR) * error
        if not least > 1.0:
            return False
        if self.likelihood == "gaussian":
            warn(
                "Margins of a group depend on each other: standard deviations are too small by a "
                f"factor of about {np.sqrt(effect):.2f}. Weights of margins are not changed for "
                'this; for who won, use likelihood="probit", which changes them.'
            )
            return False
        self.design_effect_ = effect
        return True

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
        self, X: Array, comparisons: Comparisons, raters: Index | None, posterior: ProcessMixture
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
        warn_unless_converged(posterior.processes, self._options.inference)

    def _keep_comparisons(self, comparisons: Comparisons, raters: Index | None) -> None:
        self.pairs_, self.margin_ = comparisons.pairs, comparisons.margin
        self.weight_, self.rater_ = comparisons.weight, raters
        self.context_, self.group_ = comparisons.context, comparisons.groups

    @property
    def _comparisons(self) -> Comparisons:
        given = self.pairs_, self.margin_, self.weight_
        return Comparisons(*given, groups=self.group_, context=self.context_)

    def _observations(self, comparisons: Comparisons, raters: Index | None) -> PairObservations:
        if comparisons.context is not None:
            scaled = comparisons.context * self.context_scale_
            comparisons = replace(comparisons, context=scaled)
        if self.likelihood == "gaussian":
            return PairObservations.from_margins(comparisons, raters)
        half_ties = self.tie_model == "half"
        made = PairObservations.from_outcomes(comparisons, raters, half_ties=half_ties)
        return made if self.design_effect_ == 1.0 else made.weighted(1.0 / self.design_effect_)

    def _threshold(self, observed: PairObservations) -> float:
        """Where the threshold of ties starts; 0 if none are modelled."""
        if self.likelihood == "gaussian" or not observed.values[:, 2].any():
            return 0.0
        return _FIRST_THRESHOLD if self.tie_model == "threshold" else float(self.tie_model)

    def _fitted_evidence(
        self, X: Array, comparisons: Comparisons, raters: Index | None, threshold: float
    ) -> Evidence:
        """The evidence of comparisons, with the learned hyperparameters and a threshold."""
        slopes, spread = None, 0.0
        if self.raters_ is not None:
            slopes, spread = self.raters_.slope, self.raters_.spread
        context = 0.0 if self.context_ is None else self.context_variance_
        hyper = Hyperparameters(
            self.kernel_, self.noise_, threshold, self.flips_, slopes, context=context
        )
        observed = self._observations(comparisons, raters)
        how = self.likelihood, self._options, self.landmarks_
        return Evidence(hyper, X[observed.rows], observed, *how, spread=spread)

    def _present_evidence(self) -> Evidence:
        """The evidence of all comparisons that were learned from."""
        return self._fitted_evidence(self.X_fit_, self._comparisons, self.rater_, self.threshold_)

    def _pool_moments(self, X: Array) -> tuple[Array, Array] | None:
        """Mean and covariance of scores, if X are the training rows, and kept for `tell`."""
        if len(X) > POOL or not np.array_equal(X, self.X_fit_):
            return None
        if not self._matches_sites or self.landmarks_ is not None or len(self.grid_weights_) > 1:
            return None
        if self.context_ is not None:
            return None
        if self._pool is None:
            self._pool = self._present_evidence().pool(self.posterior_.best, self.X_fit_)
        pool, noise = self._pool, self.noise_
        covariance = pool.covariance if noise == 1.0 else noise**2 * pool.covariance
        return noise * pool.mean, covariance

    def _told_raters(self, rater: Any, n_pairs: int) -> Any:
        """Numbers of the raters of comparisons to add; None if the fit had no raters."""
        if self.raters_ is None:
            if rater is not None:
                raise ParameterError("tell can have a rater only if the fit had raters.")
            return None
        if rater is None:
            return np.full(n_pairs, -1)
        return self.raters_.numbers(rater, n_pairs)

    def _new(self, X: Any) -> Array:
        """Check rows to predict."""
        check_is_fitted(self)
        return dense(validated(self, X, accept_sparse="csr", dtype=np.float64, reset=False))

    def _scaled_context(self, context: Any, n_pairs: int) -> Array | None:
        """Check the context of comparisons to predict."""
        if context is None:
            return None
        return fitted_context(self, context, n_pairs) * self.context_scale_

    def _slopes(self, rater: Any, n_pairs: int) -> Any:
        """The slope of each comparison to predict."""
        if rater is None:
            return 1.0
        if self.raters_ is None:
            raise ParameterError(
                "The fit had no raters: give them to fit_pairs, or leave out rater here."
            )
        return self.raters_.slopes_of(rater, n_pairs)

    def _reference(self, contrast: Any) -> Array | None:
        """Rows whose mean score is subtracted from others."""
        if contrast is None:
            return None
        if isinstance(contrast, str):
            check_value("contrast", contrast, Choice("mean"))
            return self.X_fit_
        return self._new(contrast)

    def _new_pairs(self, X1: Any, X2: Any) -> tuple[Array, Array]:
        """Check rows to compare one by one."""
        X1, X2 = self._new(X1), self._new(X2)
        if len(X1) != len(X2):
            raise DataError(
                f"X1 and X2 are compared row by row: got {len(X1)} and {len(X2)} rows. To compare "
                "all pairs, repeat the rows."
            )
        return X1, X2

    def _take_rows_out_of_context(self) -> None:
        """The form of an earlier version: first items in a context were further training rows.

        Its kernel was a sum, of the kernel of the items and the kernel of the context columns.
        """
        n_columns, rows = len(self.context_scale_), self.X_fit_
        X, columns = rows[:, :-n_columns], rows[:, -n_columns:]
        items = np.flatnonzero(~columns.any(axis=1))
        _, kind = np.unique(X, axis=0, return_inverse=True)
        known, where = np.unique(kind.ravel()[items], return_index=True)
        item = where[np.searchsorted(known, kind.ravel())]
        item[items] = np.arange(len(items))
        self.context_ = columns[self.pairs_[:, 0]] / self.context_scale_
        self.pairs_, self.X_fit_ = item[self.pairs_], np.ascontiguousarray(X[items])
        self.context_variance_ = self.kernel_.k2.k1.constant_value
        self.kernel_ = self.kernel_.k1.kernel
        evidence, old, processes = self._present_evidence(), self.posterior_, []
        for process in old.processes:
            both = process.hyper.kernel
            context = both.k2.k1.constant_value
            hyper = replace(process.hyper, kernel=both.k1.kernel, context=context)
            processes.append(evidence.condition(hyper))
        self.posterior_ = ProcessMixture.of(processes, old.prior)
        self.grid_kernels_ = [process.hyper.kernel for process in processes]


def dense(X: Any) -> Array:
    """Rows as a dense array."""
    if is_sparse(X):
        check_dense_fits(X, "PairwiseGP needs dense rows: use RankRLS or RankSVM.")
    return np.ascontiguousarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)


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
