"""Least-squares rankers: RankRLS, SparseRankRLS, AdditiveRankRLS, and their baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array, to_host
from rankwise.errors import ParameterError
from rankwise.estimators.base import (
    ALPHA,
    KERNEL_PARAMETERS,
    LOSS_PARAMETERS,
    MONOTONE_PARAMETERS,
    SOLVER_PARAMETERS,
    LeastSquaresRanker,
    RowWeightsMixin,
    landmark_choice,
    make_kernel,
)
from rankwise.estimators.fit_blocks import FitBlocksMixin, StepBlocksMixin
from rankwise.estimators.fit_pairs import FitPairsMixin
from rankwise.parameters import AnyOf, Choice, Rule, Whole, check_value, monotone_signs
from rankwise.problem import FeatureSpace, KernelSpace, LandmarkSpace, RampSpace, RowLoss
from rankwise.scaling import SCALINGS


@dataclass(eq=False, repr=False)
class _OnRows(RowWeightsMixin):
    """What `RankRLS` and `RLS` share: linear functions, or kernel expansions on all rows."""

    parameters: ClassVar[Mapping[str, Rule]] = {
        "alpha": ALPHA,
        **KERNEL_PARAMETERS,
        **SOLVER_PARAMETERS,
    }

    alpha: float | str = "auto"
    _: KW_ONLY
    kernel: Any = "linear"
    gamma: float | str | None = None
    degree: float = 3
    coef0: float = 1.0
    scale: str | None = "auto"
    solver: str = "auto"
    tol: float = 1e-6
    max_iter: int = 1000
    device: Any = None

    def make_space(self, n_features: int) -> FeatureSpace | KernelSpace:
        """Linear functions, or kernel expansions on all rows."""
        if self.kernel == "linear":
            return FeatureSpace(self.solver, float(self.tol), self.max_iter)
        if self.solver in ("primal", "cg"):
            raise ParameterError(
                f'solver="{self.solver}" needs kernel="linear": got kernel={self.kernel!r}. '
                'Use solver="auto" or "dual".'
            )
        return KernelSpace(make_kernel(self, n_features))


@dataclass(eq=False, repr=False)
class _OnLandmarks(FitBlocksMixin, RowWeightsMixin):
    """What `SparseRankRLS` and `SparseRLS` share: kernel expansions on landmarks."""

    parameters: ClassVar[Mapping[str, Rule]] = {
        "alpha": ALPHA,
        **KERNEL_PARAMETERS,
        "precision": Choice("float64", "tf32"),
    }

    alpha: float | str = "auto"
    _: KW_ONLY
    n_landmarks: int | None = None
    landmarks: Any = "random"
    kernel: Any = "rbf"
    gamma: float | str | None = None
    degree: float = 3
    coef0: float = 1.0
    scale: str | None = "auto"
    random_state: Any = None
    device: Any = None
    precision: str = "float64"

    def make_space(self, n_features: int) -> LandmarkSpace:
        """Kernel expansions on landmarks."""
        kernel = make_kernel(self, n_features)
        choice = landmark_choice(self, kernel)
        return LandmarkSpace(kernel, choice, self.random_state, self.precision)


@dataclass(eq=False, repr=False)
class RankRLS(FitPairsMixin, StepBlocksMixin, _OnRows):
    """Pairwise regularized least squares.

    Fits the differences between predictions to the differences between the scores of all pairs
    that count,

        min_f  1/2 sum_ij W_ij ((y_i - y_j) - (f(x_i) - f(x_j)))^2 + alpha |f|^2,

    where W_ij > 0 for rows of the same query. Although the number of pairs is quadratic, a fit
    costs as much as ridge regression. With the Laplacian L of W, the solution is
    w = (X'LX + alpha I)^-1 X'Ly in the primal, and a = (LK + alpha I)^-1 Ly in the dual.

    For m rows and n features, the primal takes O(m n^2 + n^3) time and O(n^2) memory in addition
    to X, dense or sparse. The dual takes O(m^3) time and one m by m matrix. Conjugate gradients
    take time proportional to the stored values of a sparse X in each step, and O(m + n) memory.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Regularization strength, at least 0; lambda in the paper. "auto" chooses it by
        hold-outs, see Notes. With ``weighting="rows"``, one ranking of all rows is ridge
        regression with an intercept at the same alpha. With ``weighting="pairs"`` the loss is a
        sum over pairs, and useful values of alpha grow with the number of pairs.
    kernel : str or callable, default="linear"
        "linear", "rbf", "laplacian", "polynomial" (or "poly"), "sigmoid", "cosine",
        "precomputed", a function of two rows, or a kernel of
        ``sklearn.gaussian_process.kernels``. `WhiteKernel` gives each item a separate part; rows
        with equal features are the same item, in training and in prediction.
    gamma : float, "scale" or None, default=None
        For the rbf, laplacian, polynomial and sigmoid kernels. None: 1 / n_features. "scale":
        1 / (n_features * X.var()), of the rows after scaling.
    degree : float, default=3
        For the polynomial kernel.
    coef0 : float, default=1.0
        For the polynomial and sigmoid kernels.
    scale : str or None, default="auto"
        How features are scaled, in `fit` and in `predict`:

        - "query-minmax": each feature of each query from 0 to 1;
        - "query-standard": each feature of each query to mean 0 and variance 1;
        - "query-ranks": each value of a query by its rank, from -1/2 to 1/2;
        - "standard": each feature to mean 0 and variance 1 over the training rows (sparse rows are
          only divided). With a linear kernel, `coef_` then applies to the features as they are;
        - None: not at all;
        - "auto": None for the linear kernel, unless alpha is "auto" and the standard deviations of
          features differ by more than a factor of 1000; "query-minmax" with qid, and "standard"
          without, for such features and for the rbf, laplacian, polynomial and sigmoid kernels.
          With ``alpha="auto"`` and qid, hold-outs of queries may choose another scaling: one whose
          score is better by more than a standard error of the difference, or two if only this
          scaling needs qid to predict (not in blocks, on clusters, or with more than 2000 features
          of a linear kernel). Numbers for gamma and
          alpha are in units of the features, which are then left as they are.

        A ranker that scales within queries needs qid in `predict`; rows without qid are one query.
        Hold-outs of queries and folds agree with refits with the same scaling: linear rankers
        standardize again without each fold, if that takes less than about half a minute. Pairs are
        held out given the scaling of all rows; so are queries with a kernel and "standard" or
        gamma="scale". `shared` of a result names what was computed from all rows.
    ties : {"include", "exclude"}, default="include"
        Whether pairs with equal scores count. If they do, their predictions should be equal. If
        they do not, each output is fitted separately, since outputs have different ties.
    weighting : {"pairs", "rows", "queries"}, default="rows"
        The weight of a pair: 1, as in the paper ("pairs"); one over the number of rows of its
        query ("rows"); or one over the number of pairs of its query, so that all queries have the
        same weight ("queries").
    solver : {"auto", "primal", "dual", "cg"}, default="auto"
        "primal" and "dual" factorize a matrix of features or of rows. "cg", for the linear kernel,
        needs only products with X. It suits many sparse features, which stay sparse, and all alphas
        of a path share the products. "auto" uses "cg" for sparse rows if a factorization would take
        more than two seconds and more than about 200 steps, or if the matrix does not fit in
        memory. Otherwise it uses the primal for a linear kernel if there are at most as many
        features as rows, and the dual.
    tol : float, default=1e-6
        For "cg": stop when the norm of the gradient, relative to w = 0, is at most tol.
    max_iter : int, default=1000
        For "cg": the maximum number of steps.
    device : str, torch.device or None, default=None
        The device for NumPy arrays: None for the CPU; "cuda" or "cuda:1" for a GPU, to which rows
        are sent block by block; "auto" for a GPU if there is one. Tensors are processed on their
        own device, and results are tensors.
    monotone : dict, optional
        Features whose weights have a sign, such as ``{"price": -1, "stars": 1}``: with -1, a higher
        value never raises a score, with 1, it never lowers it, with the other values of the row and
        of its query as they are. Names of features, or positions from 0 if X has no names. The
        weights are the best with these signs, and some are exactly 0. Only for the linear kernel,
        in the primal, and not in `fit_blocks` or with a context of comparisons.

    Attributes
    ----------
    alpha_ : float
        The alpha in use.
    alpha_curve_ : HeldOutScores or None
        The held-out scores from which alpha was chosen; None if nothing could be held out. Only
        with ``alpha="auto"``.
    coef_ : ndarray of shape (n_features,) or (n_outputs, n_features)
        Weights of the features; only with a linear kernel.
    dual_coef_ : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Weights of the training rows; only with other kernels.
    X_fit_ : array or sparse of shape (n_rows, n_features)
        The training rows, scaled; only with kernels that need them to predict.
    kernel_ : callable
        The kernel with its parameters; only with kernels other than linear.
    solver_ : str
        "primal", "dual" or "cg".
    n_iter_ : int
        Number of steps of "cg".
    scale_ : str or None
        The scaling in use.
    scaling_ : rankwise.scaling.Scaling or None
        What `predict` does to rows.
    gamma_ : float
        The value of gamma="scale".
    feature_range_ : ndarray of shape (2, n_features) or None
        The smallest and largest values of features in training rows, or in some of them. `predict`
        warns of rows that are far outside. Not kept for sparse rows, for fewer than 20 rows, and if
        the ranker scales within queries.
    max_query_rows_ : int
        Number of rows of the largest query seen in `fit`.
    context_coef_ : ndarray of shape (n_columns,) or (n_columns, n_outputs)
        Weights of the context of comparisons; only after `fit_pairs` with context.
    preference_slope_ : float or None
        The slope of `predict_preference`; only after `fit_pairs`.
    n_comparisons_ : int
        Number of comparisons with a weight above 0; only after `fit_pairs`.
    basis_, solution_ : rankwise.problem.Basis, rankwise.problem.Solution
        The fitted model as objects, from which the attributes above are derived.
    n_queries_ : int
        Number of queries seen in `fit`.
    n_features_in_, feature_names_in_
        Number and names of the features seen in `fit`.

    Notes
    -----
    ``alpha="auto"`` tries twelve values, each 10^0.75 times the one before, up to 100 times the
    mean of the diagonal of X'LX (from 10^-6.25 times), and more if the features have very
    different scales; in the dual, nine values relative to the diagonal of the kernel matrix.
    Each is judged by predictions for rows that were held out, as in `leave_query_out` and
    `leave_pair_out`, but given the scaling of all rows and comparisons:

    - whole queries, by ndcg@10 if labels are whole numbers from 0 to 30 and by disagreement
      otherwise;
    - pairs of rows, by disagreement, if there is one ranking;
    - single comparisons, or groups of them, by the squared error of the margin, in `fit_pairs`.

    The best alpha is used (the largest, if several are equal), and a warning is issued if it is the
    smallest or largest and clearly better than the next. If holding out every query would take
    longer than about one fit, folds of queries or a sample of queries are held out; a sample
    depends on the query ids only. With fewer than four rows, or if only queries without different
    labels could be held out, alpha is 0.1 times the mean of the diagonal.

    References
    ----------
    Pahikkala, Tsivtsivadze, Airola, Boberg, Salakoski: Learning to rank with pairwise
    regularized least-squares. SIGIR 2007 workshop on learning to rank for information
    retrieval. Equations (8) and (11).

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLS
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    >>> y = [2, 0, 7, 6]
    >>> ranker = RankRLS(alpha=0.1).fit(X, y, qid=["a", "a", "b", "b"])
    >>> ranker.predict(X).round(2)
    array([ 1.36, -0.45,  0.91,  0.  ])
    >>> ranker.score(X, y, qid=["a", "a", "b", "b"])
    1.0
    """

    parameters: ClassVar[Mapping[str, Rule]] = {
        **_OnRows.parameters,
        **LOSS_PARAMETERS,
        **MONOTONE_PARAMETERS,
    }

    _: KW_ONLY
    ties: str = "include"
    weighting: str = "rows"
    monotone: Any = None

    @property
    def takes_monotone(self) -> bool:
        """Whether features may be monotone: with a linear kernel, from moments."""
        return bool(self.kernel == "linear") and self.solver in ("auto", "primal")

    def make_space(self, n_features: int) -> FeatureSpace | KernelSpace:
        """Linear functions, or kernel expansions on all rows."""
        space = super().make_space(n_features)
        signs = signs_of(self, n_features)
        if signs is None:
            return space
        return FeatureSpace("primal" if self.solver == "primal" else "auto", signs=signs)


@dataclass(eq=False, repr=False)
class RLS(_OnRows):
    """Regularized least-squares regression: the pointwise baseline.

    Fits predictions to the scores themselves,

        min_{f, b}  sum_i (y_i - f(x_i) - b)^2 + alpha |f|^2,

    with an intercept b that is not penalized. This is ridge regression, in the primal or the dual.
    Up to the intercept it is `RankRLS` on one ranking of all rows, at the same cost.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Regularization strength, at least 0. "auto" chooses it as `RankRLS` does if there are
        queries, and by the squared error of single rows held out if there are none.
    kernel, gamma, degree, coef0, scale, solver, tol, max_iter, device
        As for `RankRLS`.

    Attributes
    ----------
    alpha_, alpha_curve_, coef_, dual_coef_, X_fit_, kernel_, solver_, n_iter_, scale_, scaling_, \
gamma_, feature_range_, max_query_rows_, basis_, solution_, n_queries_, n_features_in_, \
feature_names_in_
        As for `RankRLS`.
    intercept_ : float or ndarray of shape (n_outputs,)

    Examples
    --------
    >>> from rankwise import RLS
    >>> model = RLS(alpha=0.0).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> model.coef_.round(6), round(model.intercept_, 6)
    (array([2.]), 1.0)
    """

    def make_loss(self) -> RowLoss:
        """Squared errors of single rows."""
        return RowLoss()


def signs_of(ranker: RankRLS | AdditiveRankRLS, n_features: int) -> tuple[int, ...] | None:
    """The sign of each feature from `monotone`; None if there is no constraint."""
    names = getattr(ranker, "feature_names_in_", None)
    signs = monotone_signs(ranker.monotone, names, n_features)
    if signs is not None and not ranker.takes_monotone:
        given = ranker.get_params()
        raise ParameterError(
            'monotone needs kernel="linear" and solver="auto" or "primal": got '
            f"kernel={given['kernel']!r} and solver={given['solver']!r}. AdditiveRankRLS and "
            "BoostedRanker take monotone as well."
        )
    return signs


@dataclass(eq=False, repr=False)
class SparseRankRLS(FitPairsMixin, _OnLandmarks):
    """Pairwise regularized least squares with a kernel, for a very large number of rows.

    The ranker is a kernel expansion on r landmarks, f(x) = sum_r a_r k(x, x_r), and its loss
    includes the pairs of all m rows. With the landmarks R and the rows M,

        a = (K_RM L K_MR + alpha K_RR)^-1 K_RM L y.

    For n features this takes O(m r (n + r) + r^3) time. Memory is needed for a few r by r matrices
    and a block of rows, but not for an m by r matrix. The cost of each additional alpha in `path`
    is negligible. With all rows as landmarks, this is `RankRLS`.

    If K_RR is numerically singular (duplicate landmarks, a very wide kernel), linearly dependent
    landmarks get the coefficient 0, and `rank_` is the number of the remaining ones. This does not
    depend on alpha, and predictions are continuous in alpha. If `rank_` is far below
    `n_landmarks`, the kernel is very wide or, with a linear or polynomial kernel, one feature
    dominates the others: scale the features.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Regularization strength, at least 0; lambda in the paper. See `RankRLS`. With `partial_fit`
        and `fit_blocks`, "auto" chooses it by the squared error of the pairs of five folds of
        queries, which needs no further pass over the rows, but five more r by r matrices.
    n_landmarks : int, optional
        Number of landmarks. None: 1000, or all rows if there are fewer.
    landmarks : str or array, default="random"
        How to choose the landmarks, or the landmarks themselves:

        - "random": rows drawn uniformly;
        - "stratified": rows drawn as evenly over queries as possible, as in the paper's
          experiment;
        - "kmeans": cluster centres, which are not rows;
        - "rpcholesky": randomly pivoted Cholesky, which draws each row with a probability
          proportional to its residual given the landmarks so far;
        - "leverage": rows drawn by their ridge leverage scores;
        - an array of row numbers, or an array of points with one row each.

        The last three methods choose among a random sample of 20 rows for each landmark, or
        10,000 rows if that is more, so their cost does not grow with the number of rows.
        "rpcholesky" takes O(r^3) time and 160 r^2 bytes for r landmarks, or 80,000 r bytes if that
        is more.
    kernel, gamma, degree, coef0, scale
        As for `RankRLS`, but with "rbf" as default. If landmarks are points, rows must have their
        units: scale="auto" leaves them as they are.
    ties, weighting
        As for `RankRLS`.
    random_state : int, Generator or None, default=None
        Seed for the choice of landmarks. With the same seed, `fit_blocks` and `fit` draw different
        rows.
    device
        As for `RankRLS`.
    precision : {"float64", "tf32"}, default="float64"
        On a GPU, "tf32" multiplies kernel values with the 10-bit mantissa of TensorFloat-32, after
        computing and centring them in float64, and sums blocks of these products in float64. On an
        H200 this takes about half the time of a fit to a million rows, and changed scores by 0.001%
        to 0.1% of their size for alphas above 1, and by 0.7% for alphas down to 0.001. Other data
        may need more digits: compare some scores with float64. On other devices it means float32.

    Attributes
    ----------
    alpha_, alpha_curve_
        As for `RankRLS`.
    dual_coef_ : ndarray of shape (n_landmarks,) or (n_landmarks, n_outputs)
        Weights of the landmarks.
    landmarks_ : array or sparse of shape (n_landmarks, n_features)
        The landmarks, scaled as rows are; not with a precomputed kernel.
    landmark_indices_ : ndarray of shape (n_landmarks,)
        Their row numbers, if they are training rows; in `partial_fit`, rows of the first call.
    rank_ : int
        Number of landmarks with coefficients other than 0: the numerical rank of K_RR.
    kernel_ : callable
        The kernel with its parameters.
    scale_, scaling_, gamma_, feature_range_, max_query_rows_, context_coef_, preference_slope_, \
    n_comparisons_
        As for `RankRLS`.
    block_sums_ : rankwise.problem.BlockSums
        The sums over the blocks so far; only after `partial_fit`.
    basis_, solution_ : rankwise.problem.Basis, rankwise.problem.Solution
        The fitted model as objects, from which the attributes above are derived.
    n_queries_ : int
        Number of queries seen in `fit`.
    n_features_in_, feature_names_in_
        Number and names of the features seen in `fit`.

    References
    ----------
    Tsivtsivadze, Pahikkala, Airola, Boberg, Salakoski: A sparse regularized least-squares
    preference learning algorithm. SCAI 2008. Equation (8), section 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import SparseRankRLS
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.uniform(-3, 3, (2000, 1)), np.arange(2000) // 10
    >>> y = np.sinc(X[:, 0]) + 0.1 * rng.standard_normal(2000)
    >>> ranker = SparseRankRLS(n_landmarks=50, gamma=1.0, random_state=0).fit(X, y, qid=qid)
    >>> new = np.array([[0.0], [0.5], [1.5], [1.0]])
    >>> ranker.predict(new).argsort()[::-1]
    array([0, 1, 3, 2])
    """

    parameters: ClassVar[Mapping[str, Rule]] = {**_OnLandmarks.parameters, **LOSS_PARAMETERS}

    _: KW_ONLY
    ties: str = "include"
    weighting: str = "rows"


@dataclass(eq=False, repr=False)
class SparseRLS(_OnLandmarks):
    """Regularized least-squares regression with a kernel, for a very large number of rows.

    The pointwise baseline of `SparseRankRLS`: a kernel expansion on r landmarks with

        min_{a, b}  sum_i (y_i - f(x_i) - b)^2 + alpha a'K_RR a

    over all rows, with an intercept b that is not penalized. The cost is the same.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Regularization strength, at least 0. "auto" chooses it as `RLS` does, and in blocks as
        `SparseRankRLS` does.
    n_landmarks, landmarks, kernel, gamma, degree, coef0, scale, random_state, device, precision
        As for `SparseRankRLS`.

    Attributes
    ----------
    alpha_, alpha_curve_, dual_coef_, landmarks_, landmark_indices_, rank_, kernel_, scale_, \
scaling_, gamma_, feature_range_, max_query_rows_, block_sums_, basis_, solution_, n_queries_
        As for `SparseRankRLS`.
    intercept_ : float or ndarray of shape (n_outputs,)
    n_features_in_, feature_names_in_
        Number and names of the features seen in `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import SparseRLS
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> model = SparseRLS(0.01, n_landmarks=20, gamma=1.0, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[1.0], [4.0]]).round(2)
    array([ 0.84, -0.76])
    """

    def make_loss(self) -> RowLoss:
        """Squared errors of single rows."""
        return RowLoss()


@dataclass(eq=False, repr=False)
class AdditiveRankRLS(LeastSquaresRanker):
    """Pairwise regularized least squares with a piecewise linear function of each feature.

    The score is a sum f(x) = f_1(x_1) + ... + f_n(x_n). Each f_j is linear between its knots, which
    are quantiles of the feature, and constant outside of them. The ranker minimizes

        1/2 sum_{ij} W_ij ((y_i - y_j) - (f(x_i) - f(x_j)))^2 + alpha sum_j sum_k (rise of f_j)_k^2,

    where (rise of f_j)_k is the change of f_j from one knot to the next. It suits features where
    neither more nor less is always better, and features with outliers. Its functions can be drawn.
    It models no interactions: use a kernel for these.

    Hold-outs and the choice of alpha keep the knots of all rows, which are computed without labels
    and are named in `shared` of the results. On features with heavy tails, the last knot of a refit
    may differ considerably.

    This is `RankRLS` on n p ramps instead of n features, for p = `n_ramps`: O(m n^2 p^2 + n^3 p^3)
    time and O(m n p) memory for m rows.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Regularization strength, at least 0, or chosen by exact hold-outs. See `RankRLS`.
    n_ramps : int, default=4
        Number of linear pieces of each function. A feature with few distinct values has fewer.
    scale : {"query-minmax", "query-standard", "query-ranks", "standard"}, optional
        How to scale the features first, as for `RankRLS`. None: not at all. The functions do not
        depend on the scale of a feature, but a scaling within queries makes queries comparable.
    ties, weighting
        As for `RankRLS`.
    monotone : dict, optional
        Features whose functions never fall (1) or never rise (-1), such as ``{"price": -1}``, by
        name, or by position if X has no names.

    Attributes
    ----------
    coef_ : ndarray of shape (n_pieces,) or (n_outputs, n_pieces)
        The rise of a function on each of its linear pieces, feature by feature.
    basis_, solution_ : rankwise.problem.RampBasis, rankwise.problem.Solution
        The fitted model as objects: `basis_` has the feature and the two knots of each piece.
    n_queries_ : int
        Number of queries seen in `fit`.
    n_features_in_, feature_names_in_
        Number and names of the features seen in `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import AdditiveRankRLS
    >>> X = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    >>> y, qid = np.abs(X[:, 0]) - X[:, 1], np.arange(400) // 10
    >>> ranker = AdditiveRankRLS(0.01, n_ramps=4).fit(X, y, qid=qid)
    >>> ranker.predict([[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]).round(1)
    array([-1. , -1.9, -1. ])
    """

    parameters: ClassVar[Mapping[str, Rule]] = {
        "alpha": ALPHA,
        "n_ramps": Whole(1),
        "scale": AnyOf(None, Choice(*SCALINGS)),
        **LOSS_PARAMETERS,
        **MONOTONE_PARAMETERS,
    }

    alpha: float | str = "auto"
    _: KW_ONLY
    n_ramps: int = 4
    scale: str | None = None
    ties: str = "include"
    weighting: str = "rows"
    monotone: Any = None

    @property
    def takes_monotone(self) -> bool:
        """Whether features may be monotone: always."""
        return True

    def make_space(self, n_features: int) -> RampSpace:
        """Sums of piecewise linear functions."""
        return RampSpace(self.n_ramps, signs_of(self, n_features))

    def curve(self, feature: int) -> tuple[Array, Array]:
        """The function of one feature, to draw it.

        Parameters
        ----------
        feature : int
            The number of the feature, from 0.

        Returns
        -------
        knots : ndarray of shape (n_knots,)
            Values of the feature.
        values : ndarray of shape (n_knots,) or (n_knots, n_outputs)
            The function there, 0 at the first knot.

        Examples
        --------
        >>> from rankwise import AdditiveRankRLS
        >>> ranker = AdditiveRankRLS(1e-6, n_ramps=2).fit([[0.0], [1.0], [2.0]], [0.0, 2.0, 2.0])
        >>> knots, values = ranker.curve(0)
        >>> knots, values.round(2)
        (array([0., 1., 2.]), array([0., 2., 2.]))
        """
        check_is_fitted(self)
        check_value("feature", feature, Whole(0, self.n_features_in_ - 1))
        basis, weights = self.basis_, np.asarray(to_host(self.solution_.weights))
        pieces = basis.feature == feature
        knots = np.append(basis.low[pieces], basis.high[pieces][-1])
        rises = np.cumsum(weights[pieces], axis=0)
        return knots, np.concatenate([np.zeros_like(rises[:1]), rises])
