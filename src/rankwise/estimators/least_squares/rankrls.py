"""RankRLS, and the pointwise baseline RLS."""

from __future__ import annotations

from typing import Any

from rankwise.estimators.least_squares.direct import DirectRanker
from rankwise.estimators.least_squares.losses import PairwiseLoss, PointwiseLoss


class RankRLS(PairwiseLoss, DirectRanker):
    """Pairwise regularized least squares.

    Regresses the differences of the scores of all relevant pairs on the differences of the
    predictions,

        min_f  1/2 sum_ij W_ij ((y_i - y_j) - (f(x_i) - f(x_j)))^2 + alpha |f|^2,

    where W_ij is 1 for the pairs that count: rows of the same query. Although there are
    quadratically many pairs, this costs as much as ridge regression: with L the Laplacian of
    W, the solution is w = (X'LX + alpha I)^-1 X'Ly in the primal, and
    a = (LK + alpha I)^-1 Ly in the dual.

    For m rows and n features, the primal takes O(m n^2 + n^3) time and O(n^2) memory beside X,
    sparse X included; the dual O(m^3) time and one m by m matrix.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the regularization, lambda in the paper; 0 or more. The loss is a sum over
        pairs, so useful values grow with their number (unless `weighting` says otherwise).
    kernel : str or callable, default="linear"
        "linear", "rbf", "laplacian", "polynomial" (or "poly"), "sigmoid", "cosine",
        "precomputed", a function of two rows, or a kernel of
        ``sklearn.gaussian_process.kernels``.
    gamma : float, optional
        Of the rbf, laplacian, polynomial and sigmoid kernels. None: 1 / n_features.
    degree : float, default=3
        Of the polynomial kernel.
    coef0 : float, default=1.0
        Of the polynomial and sigmoid kernels.
    ties : {"include", "exclude"}, default="include"
        Whether pairs with equal scores count. If so, they ask for equal predictions. Several
        outputs have different ties, so without ties each is fitted on its own.
    weighting : {"pairs", "rows", "queries"}, default="pairs"
        Every pair weighs 1, as in the paper; or one over the rows of its query; or one over
        the pairs of its query, so that long queries do not drown short ones.
    solver : {"auto", "primal", "dual"}, default="auto"
        Primal for a linear kernel and no more features than rows, dual otherwise.
    device : str, torch.device or None, default=None
        Where to work on rows of NumPy: None on this machine; "cuda" or "cuda:1" on a GPU, to which
        rows travel block by block; "auto" on a GPU where there is one. Tensors are worked on where
        they are, and give tensors.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_outputs, n_features)
        Weights of the features; only with a linear kernel.
    dual_coef_ : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Weights of the training rows; only with other kernels.
    X_fit_ : array or sparse of shape (n_rows, n_features)
        The training rows; only with kernels that need them to predict.
    kernel_ : callable
        The kernel with its parameters; only with kernels other than linear.
    solver_ : str
        The form that was used.
    n_queries_ : int
        Queries seen in `fit`.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

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
    array([ 1.43, -0.48,  0.95,  0.  ])
    >>> ranker.score(X, y, qid=["a", "a", "b", "b"])
    1.0
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: Any = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        ties: str = "include",
        weighting: str = "pairs",
        solver: str = "auto",
        device: Any = None,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.ties = ties
        self.weighting = weighting
        self.solver = solver
        self.device = device


class RLS(PointwiseLoss, DirectRanker):
    """Regularized least-squares regression: the pointwise baseline.

    Regresses the scores themselves,

        min_{f, b}  sum_i (y_i - f(x_i) - b)^2 + alpha |f|^2,

    with an intercept b that is not penalized: ridge regression, in the primal or the dual.
    That is RankRLS on one global ranking whose pairs weigh one over the number of rows, plus
    the intercept; costs are the same.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the regularization, 0 or more.
    kernel, gamma, degree, coef0, solver, device
        As for `RankRLS`.

    Attributes
    ----------
    coef_, dual_coef_, X_fit_, kernel_, solver_, n_queries_, n_features_in_, feature_names_in_
        As for `RankRLS`.
    intercept_ : float or ndarray of shape (n_outputs,)

    Examples
    --------
    >>> from rankwise import RLS
    >>> model = RLS(alpha=0.0).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> model.coef_.round(6), round(model.intercept_, 6)
    (array([2.]), 1.0)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: Any = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        solver: str = "auto",
        device: Any = None,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.device = device
