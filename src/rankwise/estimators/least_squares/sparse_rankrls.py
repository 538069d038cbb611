"""SparseRankRLS and its pointwise baseline SparseRLS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rankwise.estimators.least_squares.base import RowWeightsMixin
from rankwise.estimators.least_squares.fit_blocks import FitBlocksMixin
from rankwise.estimators.least_squares.fit_pairs import FitPairsMixin
from rankwise.estimators.ranker_mixin import (
    ALPHA,
    KERNEL_PARAMETERS,
    LOSS_PARAMETERS,
    make_kernel,
)
from rankwise.parameters import Choice, Rule
from rankwise.problem import LandmarkSpace, PairLoss, RowLoss
from rankwise.problem.landmarks import LandmarkChoice, check_for_landmarks


class SparseRankRLS(FitPairsMixin, FitBlocksMixin, RowWeightsMixin):
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
        H200 this halves the time of a fit to a million rows and changes scores by 0.001% to 0.2% of
        their size for alphas above 1. Small alphas are below its rounding errors: for alphas below
        0.1, scores can be arbitrarily wrong. On other devices it means float32.

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

    parameters: ClassVar[Mapping[str, Rule]] = {
        "alpha": ALPHA,
        **KERNEL_PARAMETERS,
        **LOSS_PARAMETERS,
        "precision": Choice("float64", "tf32"),
    }

    def __init__(
        self,
        alpha: float | str = "auto",
        *,
        n_landmarks: int | None = None,
        landmarks: Any = "random",
        kernel: Any = "rbf",
        gamma: float | str | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        scale: str | None = "auto",
        ties: str = "include",
        weighting: str = "rows",
        random_state: Any = None,
        device: Any = None,
        precision: str = "float64",
    ) -> None:
        self.alpha = alpha
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.scale = scale
        self.ties = ties
        self.weighting = weighting
        self.random_state = random_state
        self.device = device
        self.precision = precision

    def make_loss(self) -> PairLoss:
        """Squared errors of the pairs that `ties` and `weighting` describe."""
        return PairLoss(self.ties, self.weighting)

    def make_space(self, n_features: int) -> LandmarkSpace:
        """Kernel expansions on landmarks."""
        return _make_space(self, n_features)


class SparseRLS(FitBlocksMixin, RowWeightsMixin):
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

    parameters: ClassVar[Mapping[str, Rule]] = {
        "alpha": ALPHA,
        **KERNEL_PARAMETERS,
        "precision": Choice("float64", "tf32"),
    }

    def __init__(
        self,
        alpha: float | str = "auto",
        *,
        n_landmarks: int | None = None,
        landmarks: Any = "random",
        kernel: Any = "rbf",
        gamma: float | str | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        scale: str | None = "auto",
        random_state: Any = None,
        device: Any = None,
        precision: str = "float64",
    ) -> None:
        self.alpha = alpha
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.scale = scale
        self.random_state = random_state
        self.device = device
        self.precision = precision

    def make_loss(self) -> RowLoss:
        """Squared errors of single rows."""
        return RowLoss()

    def make_space(self, n_features: int) -> LandmarkSpace:
        """Kernel expansions on landmarks."""
        return _make_space(self, n_features)


def _make_space(ranker: SparseRankRLS | SparseRLS, n_features: int) -> LandmarkSpace:
    names = getattr(ranker, "feature_names_in_", None)
    choice = LandmarkChoice.of(ranker.landmarks, ranker.n_landmarks, names)
    kernel = make_kernel(ranker, n_features)
    check_for_landmarks(kernel)
    return LandmarkSpace(kernel, choice, ranker.random_state, ranker.precision)
