"""SparseRankRLS, and the pointwise baseline SparseRLS."""

from __future__ import annotations

from typing import Any

from rankwise.estimators.least_squares.landmark_ranker import LandmarkRanker
from rankwise.estimators.least_squares.losses import PairwiseLoss, PointwiseLoss


class SparseRankRLS(PairwiseLoss, LandmarkRanker):
    """Pairwise regularized least squares with a kernel, on very many rows.

    The ranker lives on r landmarks, f(x) = sum_r a_r k(x, x_r), while its loss is on the pairs
    of all m rows. With R the landmarks and M the rows,

        a = (K_RM L K_MR + alpha K_RR)^-1 K_RM L y.

    O(m r (n + r) + r^3) time for n features; memory for some r by r matrices and a block of rows,
    never m by r.
    Every further alpha of `fit_path` costs next to nothing. With all rows as landmarks it is
    `RankRLS`.

    Where K_RR is numerically singular (duplicate landmarks, a very wide kernel), landmarks that
    the others tell are given the coefficient 0; `rank_` says how many count. That does not
    depend on alpha, in which predictions are continuous. A `rank_` far below `n_landmarks` says
    that the kernel is very wide, or, with a linear or polynomial kernel, that one feature drowns
    the others: scale the features.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the regularization, lambda in the paper; 0 or more.
    n_landmarks : int, optional
        How many. None: 1000, or all rows where there are fewer.
    landmarks : str or array, default="random"
        How to choose them, or which they are:

        - "random": any rows, each with the same chance;
        - "stratified": as evenly over queries as possible, as in the paper's experiment;
        - "kmeans": centres of clusters, which are no rows;
        - "rpcholesky": randomly pivoted Cholesky, each row drawn by what the ones before do not
          tell of it;
        - "leverage": rows drawn by their ridge leverage scores;
        - an array of row numbers, or of points, one in each row.

        The last three methods look at 20 rows for each landmark, or at 10,000, whichever is
        more, drawn at random: what they cost does not grow with the rows. "rpcholesky" takes
        O(r^3) time and 160 r^2 bytes for r landmarks, or 80,000 r bytes if that is more.
    kernel, gamma, degree, coef0
        As for `RankRLS`, but with "rbf" as default.
    ties, weighting
        As for `RankRLS`.
    random_state : int, Generator or None, default=None
        What landmarks are drawn with. The same state draws other rows in `fit_blocks` than in
        `fit`.
    device
        As for `RankRLS`.
    precision : {"float64", "tf32"}, default="float64"
        On a GPU, "tf32" multiplies kernel values (after they were made, and compared within
        queries, in float64) in the 10 bits of TensorFloat-32, and sums blocks of these products in
        float64. On an H200 that halves the time of a fit to a million rows, and moves its scores by
        2% of their size for small alphas, by 0.03% for large ones. On other devices it means
        float32.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_landmarks,) or (n_landmarks, n_outputs)
        Weights of the landmarks.
    landmarks_ : array or sparse of shape (n_landmarks, n_features)
        The points; not with a precomputed kernel.
    landmark_indices_ : ndarray of shape (n_landmarks,)
        Their row numbers, where they are training rows; in `partial_fit`, rows of the first call.
    rank_ : int
        How many landmarks count: the numerical rank of K_RR.
    kernel_ : callable
        The kernel with its parameters.
    n_queries_ : int
        Queries seen in `fit`.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

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

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        n_landmarks: int | None = None,
        landmarks: Any = "random",
        kernel: Any = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        ties: str = "include",
        weighting: str = "pairs",
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
        self.ties = ties
        self.weighting = weighting
        self.random_state = random_state
        self.device = device
        self.precision = precision


class SparseRLS(PointwiseLoss, LandmarkRanker):
    """Regularized least-squares regression with a kernel, on very many rows.

    The pointwise baseline of `SparseRankRLS`: f lives on r landmarks, and

        min_{a, b}  sum_i (y_i - f(x_i) - b)^2 + alpha a'K_RR a

    over all rows, with an intercept b that is not penalized. Costs are the same.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the regularization, 0 or more.
    n_landmarks, landmarks, kernel, gamma, degree, coef0, random_state, device, precision
        As for `SparseRankRLS`.

    Attributes
    ----------
    dual_coef_, landmarks_, landmark_indices_, rank_, kernel_, n_queries_
        As for `SparseRankRLS`.
    intercept_ : float or ndarray of shape (n_outputs,)
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import SparseRLS
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> model = SparseRLS(0.01, n_landmarks=20, gamma=1.0, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[1.0], [4.0]]).round(2)
    array([ 0.84, -0.76])
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        n_landmarks: int | None = None,
        landmarks: Any = "random",
        kernel: Any = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1.0,
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
        self.random_state = random_state
        self.device = device
        self.precision = precision
