"""RankSVM: pairwise ranking with the hinge loss or its square, linear or on landmarks."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import NUMPY, Array, is_sparse
from rankwise.backends.parallel import blas_threads_for
from rankwise.errors import DataError, ParameterError, warn
from rankwise.estimators.base import (
    KERNEL_PARAMETERS,
    LOSS_PARAMETERS,
    RankerMixin,
    explain_calls,
    in_dtype,
    landmark_choice,
    make_kernel,
)
from rankwise.estimators.fit_pairs import warn_of_parts
from rankwise.estimators.ranker_rows import (
    DTYPES,
    SAMPLE_ROWS,
    KeptRows,
    check_new_ids,
    check_not_tiny,
    evenly_spaced,
    follows_variance,
    forget,
    known_range,
    query_groups,
    scaled_gamma,
    validated,
    warn_of_constants,
    warn_of_far_values,
    warn_of_spread,
)
from rankwise.graph.comparisons import Comparisons
from rankwise.graph.preference_graph import ComparisonGraph, QueryGraph
from rankwise.graph.query_groups import check_labels_differ, numeric_labels
from rankwise.parameters import Choice, Number, Rule, Whole, check_alphas, check_parameters
from rankwise.problem import FeatureSpace, LandmarkSpace, LandmarkSystem
from rankwise.problem.context_space import context_scale, with_units
from rankwise.problem.problem import check_columns_fit, check_features_fit
from rankwise.scaling import ColumnStatistics
from rankwise.svm.newton import (
    LabelledPairs,
    ListedPairs,
    NewtonFit,
    hinge,
    least_lam,
    squared_hinge,
)
from rankwise.tables import plural

SOLVERS = {"squared_hinge": squared_hinge, "hinge": hinge}
FEW_PAIRS, FEW_ROWS = 2**10, 2**12  # where listed pairs are about as fast as compiled sums


class FixedAlpha(Number):
    """A number; "auto", which other rankers accept, raises an error with a hint."""

    def hint(self, value: Any) -> str:
        """How to choose alpha."""
        if not isinstance(value, str) or value != "auto":
            return ""
        return (
            " RankSVM does not choose alpha itself: use "
            'RankingSearchCV(RankSVM(), {"alpha": [0.1, 1, 10]}).'
        )


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows X, and features F in which a function is linear, with the norm of its weights."""

    X: Any
    F: Any
    system: LandmarkSystem | None

    @classmethod
    def of(cls, ranker: Any, X: Any, qid: Any, kept: KeptRows | None) -> TrainingRows:
        """The rows themselves, or coordinates on landmarks that are chosen among them."""
        if is_linear(ranker):
            if ranker.n_landmarks is not None or ranker.landmarks is not None:
                raise ParameterError(
                    'Landmarks are for kernels other than "linear": leave out n_landmarks and '
                    'landmarks, or use another kernel, such as "rbf".'
                )
            return cls(X, X, None)
        if isinstance(ranker.kernel, str) and ranker.kernel == "precomputed":
            raise ParameterError(
                'RankSVM computes kernels of features: got kernel="precomputed". Use a name such '
                'as "rbf" or a callable, or SparseRankRLS, which takes kernel matrices.'
            )
        if follows_variance(ranker):
            ranker.gamma_ = scaled_gamma(ColumnStatistics.of(X))
        kernel = make_kernel(ranker, X.shape[1])
        choice = landmark_choice(ranker, kernel, "random")
        space: Any = LandmarkSpace(kernel, choice, ranker.random_state)
        if kept is not None:
            space = space.for_rows(kept.rows, kept.n_rows)
        system = space.system(X, qid)
        check_features_fit(X.shape[0], system.n_coordinates, NUMPY)
        return cls(X, system.coordinates(X)(slice(None)), system)


def is_linear(ranker: Any) -> bool:
    """Whether a ranker has weights of features."""
    return isinstance(ranker.kernel, str) and ranker.kernel == "linear"


def keep_solution(ranker: Any, system: LandmarkSystem | None, found: NewtonFit) -> None:
    """Store weights of features, or of coordinates on landmarks, as the fitted model."""
    ranker.n_iter_ = found.n_iter
    if system is None:
        ranker.coef_ = found.w
        return
    ranker.basis_, ranker.dual_coef_ = system.basis, system.factor.coefficients(found.w)


def training_rows(
    ranker: Any, X: Any, y: Any, qid: Any, query_weight: Any, sample_weight: Any
) -> tuple[TrainingRows, LabelledPairs | ListedPairs]:
    """Validated rows, and the pairs that follow from their labels."""
    check_parameters(ranker, ranker.parameters)
    forget(ranker)
    options = {"accept_sparse": "csr", "dtype": np.float64, "ensure_min_samples": 2}
    X, y = validated(ranker, X, numeric_labels(y), y_numeric=True, **options)
    if is_sparse(X) and is_linear(ranker):
        check_columns_fit(X)
    groups, kept = query_groups(qid, len(y), query_weight), None
    if sample_weight is not None:
        kept = KeptRows.of(ranker, sample_weight, groups)
        groups, (X, y, qid) = kept.groups, kept.of_training(ranker, X, y, qid)
    check_labels_differ(y, groups)
    ranker.n_queries_ = groups.n_groups
    graph = QueryGraph.build(y, groups, n_rows=None, ties="exclude", weighting=ranker.weighting)
    check_not_tiny(note_range(ranker, X))
    few = graph.n_pairs <= FEW_PAIRS + 4 * min(len(y), FEW_ROWS)
    pairs = ListedPairs.of(graph) if few else LabelledPairs.of(graph)
    return TrainingRows.of(ranker, X, qid, kept), pairs


def note_range(ranker: Any, X: Any) -> ColumnStatistics:
    """Store the range of the features, unless they are sparse; return their statistics."""
    overview = ColumnStatistics.of(evenly_spaced(X, SAMPLE_ROWS))
    ranker.feature_range_ = None if is_sparse(X) else known_range(overview)
    return overview


def minimize(
    ranker: Any, X: Any, pairs: LabelledPairs | ListedPairs, alphas: list[float]
) -> list[NewtonFit]:
    """The fit for each alpha; a warning if one has not converged.

    An alpha that is lost in rounding errors is replaced by `least_lam`.
    """
    overflow = np.errstate(over="ignore", invalid="ignore")  # checked below
    with overflow, blas_threads_for(1):  # large products have our own threads
        pairs = pairs.on(X)
        solve, least = SOLVERS[ranker.loss], least_lam(X, pairs)
        lams = [max(alpha, least) for alpha in alphas]
        fits = solve(X, pairs, lams, tol=float(ranker.tol), max_iter=ranker.max_iter)
    if not all(np.isfinite(found.residual) for found in fits):
        raise DataError(
            "Products of the features or of alpha overflow. Scale the features, for example "
            "with sklearn.preprocessing.StandardScaler, or use a smaller alpha."
        )
    worst = max(fits, key=lambda found: found.residual)
    if not worst.converged:
        _warn_of_stop(ranker, worst)
    return fits


def _warn_of_units(ranker: Any, X: Any) -> None:
    """Warn if the features of the rows X are constant, or have very different scales."""
    if not warn_of_constants(ranker, X) and isinstance(ranker.kernel, str):
        warn_of_spread(ranker, X, "Scale the features first.")


def _warn_of_stop(ranker: Any, found: NewtonFit) -> None:
    """Warn where the iteration ended, and name what may help."""
    if found.n_iter < ranker.max_iter:
        why = "where rounding errors hide any further progress"
        advice = "Scale the features, or use a larger alpha or a larger tol."
    else:
        why = "the number that max_iter allows"
        advice = "Scale the features, use a larger alpha, or increase max_iter."
    warn(
        f"RankSVM stopped after {plural(found.n_iter, 'Newton step')}, {why}. The gradient, "
        f"relative to the start, is {found.residual:.1e}, above tol={ranker.tol:g}. {advice}",
        ConvergenceWarning,
    )


@dataclass(eq=False, repr=False)
class RankSVM(RankerMixin, BaseEstimator):
    """Ranking support vector machine, linear or with a kernel on landmarks.

    The row with the larger label of two rows of a query should score higher by at least 1:

        min_f  sum_{ij: y_i > y_j} W_ij max(0, 1 - (f(x_i) - f(x_j)))^2 + alpha |f|^2,

    where W_ij > 0 for rows of the same query, and f(x) = w'x for the linear kernel. Unlike in
    `RankRLS`, the size of label differences does not matter, pairs that are far enough apart have
    no loss, and pairs with equal labels do not count. With another kernel, f is an expansion on
    landmarks, as in `SparseRankRLS`.

    Newton's method uses all pairs at once. Each step needs some products with X and some sums over
    pairs. Sorting reduces the cost of these sums to O(m log m) for m rows, although the number of
    pairs is quadratic. Memory is O(m) in addition to X, which may be sparse; r landmarks take
    O(m r^2) time once and m r numbers.

    Parameters
    ----------
    alpha : float, default=1.0
        Regularization strength, at least 0. In the common form ``C * loss + |w|^2 / 2``, C is
        1 / (2 alpha). Values below the rounding errors of the data are replaced by the smallest
        value above them. `RankingSearchCV` chooses alpha.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        "hinge" is max(0, .) instead of its square, smoothed within 0.001 of the kink. It takes
        about ten times as long, and up to thirty times with a few thousand rows. For a tie in
        `fit_pairs`, it is the absolute difference.
    kernel, gamma, degree, coef0
        As for `RankRLS`, but "precomputed" is not allowed, and rows are not scaled.
    n_landmarks, landmarks, random_state
        As for `SparseRankRLS`. Only for kernels other than "linear".
    weighting : {"pairs", "rows", "queries"}, default="rows"
        The weight of a pair: 1, one over the number of rows of its query, or one over the number
        of pairs of its query.
    tol : float, default=1e-6
        Stop when the norm of the gradient, relative to w = 0, falls below this value.
    max_iter : int, default=200
        The maximum number of Newton steps; ten to thirty are typical.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights of the features; only for the linear kernel.
    dual_coef_ : ndarray of shape (n_landmarks,)
        Weights of the landmarks; only for other kernels.
    landmarks_, landmark_indices_, kernel_, gamma_, rank_, basis_
        As for `SparseRankRLS`; only for kernels other than "linear".
    context_coef_ : ndarray of shape (n_columns,)
        Weights of the context of comparisons; only after `fit_pairs` with context.
    n_iter_ : int
        Number of Newton steps.
    n_queries_ : int
        Number of queries seen in `fit`.
    feature_range_ : ndarray of shape (2, n_features) or None
        As for `RankRLS`: `predict` warns of values far outside it, and exports use it.
    n_features_in_, feature_names_in_
        Number and names of the features seen in `fit`.

    References
    ----------
    Herbrich, Graepel, Obermayer: Support vector learning for ordinal regression. ICANN 1999.
    Chapelle, Keerthi: Efficient algorithms for ranking with SVMs. Information Retrieval 13, 2010.

    Examples
    --------
    >>> from rankwise import RankSVM
    >>> X = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]
    >>> y = [2, 0, 7, 6]
    >>> ranker = RankSVM(alpha=0.1).fit(X, y, qid=["a", "a", "b", "b"])
    >>> ranker.predict(X).round(2)
    array([0.91, 0.  , 0.91, 0.  ])
    """

    parameters: ClassVar[Mapping[str, Rule]] = {
        "alpha": FixedAlpha(0),
        "loss": Choice(*SOLVERS),
        **{name: KERNEL_PARAMETERS[name] for name in ("kernel", "gamma", "degree", "coef0")},
        "weighting": LOSS_PARAMETERS["weighting"],
        "tol": Number(0, 1, open_low=True, open_high=True),
        "max_iter": Whole(1, 2**31 - 1),
    }

    # Routing, as in `RankerMixin`.
    __metadata_request__fit = {"query_weight": True, "sample_weight": True}  # noqa: RUF012
    __metadata_request__predict = {"qid": True}  # noqa: RUF012
    __metadata_request__score = {"sample_weight": True}  # noqa: RUF012

    alpha: float = 1.0
    _: KW_ONLY
    loss: str = "squared_hinge"
    kernel: Any = "linear"
    gamma: float | str | None = None
    degree: float = 3
    coef0: float = 1.0
    n_landmarks: int | None = None
    landmarks: Any = None
    random_state: Any = None
    weighting: str = "rows"
    tol: float = 1e-6
    max_iter: int = 200

    @explain_calls
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        query_weight: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit to labelled rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Labels, higher is better; only their order within a query counts.
        qid : array-like of shape (n_rows,), optional
            The query of every row, as integers or text, in any order. None: one global ranking.
        query_weight : array-like of shape (n_rows,), optional
            How much the query of every row counts: it multiplies the weights of the query's pairs.
            Above 0, and the same for all rows of a query. None: 1.
        sample_weight : array-like of shape (n_rows,), optional
            How much every row counts, at least 0: the weight of a pair is the product of its rows'
            weights, as in `RankRLS.fit`. Rows of weight 0 are left out. None: 1.

        Returns
        -------
        self
        """
        rows, pairs = training_rows(self, X, y, qid, query_weight, sample_weight)
        (found,) = minimize(self, rows.F, pairs, [float(self.alpha)])
        keep_solution(self, rows.system, found)
        _warn_of_units(self, rows.X)
        return self

    def path(
        self,
        X: Any,
        y: Any,
        alphas: Any,
        *,
        qid: Any = None,
        query_weight: Any = None,
        sample_weight: Any = None,
    ) -> RankSVMPath:
        """Rankers for many values of alpha, each started from the next larger one.

        Parameters
        ----------
        X, y, qid, query_weight, sample_weight
            As for `fit`.
        alphas : sequence of float
            Values to use in place of the parameter `alpha`.

        Returns
        -------
        RankSVMPath
            Scores and rankers for each alpha. This ranker itself is not fitted.

        Examples
        --------
        >>> from rankwise import RankSVM
        >>> X, y = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]], [2, 0, 3, 1]
        >>> path = RankSVM().path(X, y, [0.1, 10.0])
        >>> path.predict(X).round(2)
        array([[0.91, 0.  , 0.91, 0.  ],
               [0.09, 0.  , 0.09, 0.  ]])
        >>> path.estimator(1).alpha
        10.0
        """
        values = check_alphas(alphas)
        template = clone(self)
        rows, pairs = training_rows(template, X, y, qid, query_weight, sample_weight)
        fits = minimize(template, rows.F, pairs, values.tolist())
        return RankSVMPath(values, template, fits, rows.system)

    def fit_pairs(
        self,
        X: Any,
        pairs: Any,
        *,
        margin: Any = None,
        weight: Any = None,
        context: Any = None,
    ) -> Self:
        """Fit to comparisons between rows.

        Minimizes ``sum_l w_l max(0, margin_l - (f(x_i) - f(x_j)))^2 + alpha |f|^2`` over the
        comparisons l = (i, j). If the margin is negative, the second row should be ahead by as
        much. A tie, whose margin is 0, has the loss w_l (f(x_i) - f(x_j))^2. `weighting` has no
        effect here.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        pairs : array-like of shape (n_pairs, 2), or rankwise.data.Comparisons
            Row numbers of X, the preferred row first. Pairs may be repeated and may contradict
            each other.
        margin : array-like of shape (n_pairs,), optional
            By how much, at least, the first row should be ahead of the second. None: 1. Booleans
            and words are allowed, as for `RankRLS.fit_pairs`.
        weight : array-like of shape (n_pairs,), optional
            The weight of each comparison. None: 1.
        context : array-like of shape (n_pairs, n_columns), optional
            Features of the comparisons themselves, as for `RankRLS.fit_pairs`. Their coefficients
            are `context_coef_`.

        Returns
        -------
        self

        Examples
        --------
        >>> from rankwise import RankSVM
        >>> answers = [[0.2, 1.0], [0.9, 0.1], [0.5, 0.4]]
        >>> ranker = RankSVM(alpha=0.01).fit_pairs(answers, [[1, 0], [1, 2], [2, 0]])
        >>> ranker.predict(answers).argsort()[::-1]
        array([1, 2, 0])
        """
        check_parameters(self, self.parameters)
        forget(self)
        options = {"accept_sparse": "csr", "dtype": np.float64, "ensure_min_samples": 2}
        valid = validated(self, X, **options)
        if is_sparse(valid) and is_linear(self):
            check_columns_fit(valid)
        n_rows = valid.shape[0]
        given = Comparisons.given(X, n_rows, pairs, margin=margin, weight=weight, context=context)
        if given.margin.ndim > 1:
            raise DataError(
                f"margin needs one number per pair: got shape {given.margin.shape}. RankSVM has "
                "one output: fit one for each column."
            )
        if not (given.weight > 0).any():
            raise DataError("All comparisons have weight 0: there is nothing to learn from.")
        self.n_queries_ = 1
        note_range(self, valid)
        rows = TrainingRows.of(self, valid, None, None)
        F, context, scale = rows.F, None, np.empty(0)
        if given.context is not None:
            scale = context_scale(FeatureSpace(), F, given)
            F, context = with_units(F, len(scale)), given.context * scale
        graph = ComparisonGraph.of(n_rows, given, context)
        (found,) = minimize(
            self, F, ListedPairs(graph.incidence, given.margin, given.weight), [float(self.alpha)]
        )
        w, context_w = np.split(found.w, [len(found.w) - len(scale)])
        keep_solution(self, rows.system, replace(found, w=w))
        if context is not None:
            self.context_coef_ = scale * context_w
        warn_of_parts(self, X, given, n_rows)
        _warn_of_units(self, rows.X)
        return self

    def predict(self, X: Any, *, qid: Any = None) -> Any:
        """Scores of rows: higher is better.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        qid : array-like of shape (n_rows,), optional
            The query of every row, as for all rankers. These scores do not depend on it.

        Returns
        -------
        ndarray of shape (n_rows,)
            In the dtype of X, if that is float32 or float64.
        """
        check_is_fitted(self)
        X = validated(self, X, accept_sparse="csr", dtype=DTYPES, reset=False)
        check_new_ids(qid, X)
        warn_of_far_values(self, X, "predict")
        if hasattr(self, "basis_"):
            return in_dtype(self.basis_.products(X, self.dual_coef_), X.dtype)
        with np.errstate(over="ignore", invalid="ignore"):  # `in_dtype` checks
            return in_dtype(X @ self.coef_, X.dtype)

    @property
    def landmarks_(self) -> Any:
        """Points of the expansion."""
        return self._of_kernel("landmarks_").points

    @property
    def landmark_indices_(self) -> Any:
        """Their row numbers; None if they are not training rows."""
        return self._of_kernel("landmark_indices_").rows

    @property
    def kernel_(self) -> Any:
        """The kernel function."""
        return self._of_kernel("kernel_").kernel

    @property
    def rank_(self) -> int:
        """Numerical rank of the kernel matrix of the landmarks."""
        return int(self._of_kernel("rank_").rank)

    def _of_kernel(self, name: str) -> Any:
        """The basis, for an attribute that only a fit with a kernel on landmarks has."""
        if "basis_" in vars(self):
            return self.basis_
        if "coef_" in vars(self):
            reason = 'with kernel="linear". Its weights are coef_; other kernels have landmarks'
        else:
            reason = "before fit"
        raise AttributeError(f"RankSVM has no {name} {reason}.", name=name, obj=self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


@dataclass(frozen=True, repr=False, eq=False)
class RankSVMPath:
    """A `RankSVM` for many values of alpha, as returned by ``path``.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
    template : RankSVM
        The ranker, with all attributes that do not depend on alpha.
    fits : list of rankwise.svm.newton.NewtonFit
        Weights, of the features or of coordinates on landmarks, and Newton steps for each alpha.
    system : rankwise.problem.LandmarkSystem or None
        The landmarks, unless the kernel is linear.
    """

    alphas: Array
    template: RankSVM
    fits: list[NewtonFit]
    system: LandmarkSystem | None = None

    def __len__(self) -> int:
        return len(self.alphas)

    def __repr__(self) -> str:
        return f"RankSVMPath({self.template!r}, {len(self)} alphas)"

    def coefficients(self) -> Array:
        """The coefficients of features or landmarks, shape (n_alphas, n_coefficients)."""
        name = "coef_" if self.system is None else "dual_coef_"
        return np.array([getattr(self.estimator(i), name) for i in range(len(self))])

    def predict(self, X: Any, *, qid: Any = None) -> Any:
        """Scores for every alpha, shape (n_alphas, n_rows)."""
        return np.stack([self.estimator(i).predict(X, qid=qid) for i in range(len(self))])

    def estimator(self, i: int) -> RankSVM:
        """The ranker fitted with ``alphas[i]``."""
        fitted = copy(self.template)
        fitted.alpha = float(self.alphas[i])
        keep_solution(fitted, self.system, self.fits[i])
        return fitted
