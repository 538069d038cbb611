"""RankRLS, and the pointwise baseline RLS."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import validate_data

from rankwise.backends.arrays import Array
from rankwise.estimators._checks import check_alpha, check_choice, check_has_pairs
from rankwise.estimators.least_squares import (
    DTYPES,
    LeastSquaresRanker,
    Solution,
    Task,
    side_by_side,
)
from rankwise.graph import Groups, PreferenceGraph
from rankwise.graph.grouped import TIES, WEIGHTINGS


class RankRLS(LeastSquaresRanker):
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
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.ties = ties
        self.weighting = weighting
        self.solver = solver

    def fit_pairs(self, X: Any, pairs: Any, *, margin: Any = None, weight: Any = None) -> Self:
        """Fit to comparisons between rows.

        Minimizes sum_l w_l (margin_l - (f(x_i) - f(x_j)))^2 + alpha |f|^2 over the comparisons
        l = (i, j). For N of them, the primal takes O(min(N, m) n^2 + N + n^3) time, the dual
        O(m^3 + N). The parameters `ties` and `weighting` are about queries, and have no part
        in it.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        pairs : array-like of shape (n_pairs, 2)
            Rows of X, the preferred one first. Repeated and contradictory pairs are fine.
        margin : array-like of shape (n_pairs,) or (n_pairs, n_outputs), optional
            By how much the first is better. None: by 1, every time.
        weight : array-like of shape (n_pairs,), optional
            How much each comparison counts. None: 1.

        Returns
        -------
        self

        Examples
        --------
        >>> from rankwise import RankRLS
        >>> answers = [[0.2, 1.0], [0.9, 0.1], [0.5, 0.4]]
        >>> ranker = RankRLS(alpha=0.01).fit_pairs(answers, [[1, 0], [1, 2], [2, 0]])
        >>> ranker.predict(answers).argsort()[::-1]
        array([1, 2, 0])
        """
        alpha = check_alpha(self.alpha)
        self._check_choices()
        X = validate_data(self, X, accept_sparse="csr", dtype=DTYPES, ensure_min_samples=2)
        graph = PreferenceGraph.from_pairs(X.shape[0], pairs, margin, weight)
        check_has_pairs(graph)
        self.n_queries_ = 1
        (solution,) = self._solve(X, [Task(graph, None)], [alpha])
        self._keep(solution)
        return self

    def _check_choices(self) -> None:
        check_choice("ties", self.ties, TIES)
        check_choice("weighting", self.weighting, WEIGHTINGS)

    def _tasks(self, y: Array, qid: Any) -> list[Task]:
        self._check_choices()
        self.n_queries_ = Groups.of(qid, len(y)).n_groups

        def task(labels: Array | None, targets: Array) -> Task:
            graph = PreferenceGraph.from_scores(
                labels, qid, n_rows=len(y), ties=self.ties, weighting=self.weighting
            )
            check_has_pairs(graph, self.n_queries_, self.ties)
            return Task(graph, targets)

        if self.ties == "include":
            return [task(None, y)]
        if y.ndim == 1:
            return [task(y, y)]
        return [task(column, column) for column in y.T]


class RLS(LeastSquaresRanker):
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
    kernel, gamma, degree, coef0, solver
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
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver

    def fit(self, X: Any, y: Any, *, qid: Any = None) -> Self:
        """Fit to scored rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        qid : array-like of shape (n_rows,), optional
            Does not change the fit, whose loss knows no pairs: it is checked and counted, so
            that rankers can be exchanged and `score` can tell that queries matter.

        Returns
        -------
        self
        """
        return super().fit(X, y, qid=qid)

    _pointwise = True

    def _tasks(self, y: Array, qid: Any) -> list[Task]:
        self.n_queries_ = Groups.of(qid, len(y)).n_groups
        # 1/m (m I - 11') centres: what is left of the squared errors at the best intercept.
        return [Task(PreferenceGraph.from_groups(None, n_rows=len(y), weighting="rows"), y)]

    def _solutions(self, X: Any, y: Array | None, weights: list[Array]) -> list[Solution]:
        scores = self._products(X, side_by_side(weights))
        means = scores.mean(axis=0, dtype=np.float64).reshape(len(weights), *weights[0].shape[1:])
        level = np.mean(np.asarray(y), axis=0)
        return [Solution(w, _plain(level - mean)) for w, mean in zip(weights, means, strict=True)]

    def _keep(self, solution: Solution) -> None:
        super()._keep(solution)
        self.intercept_ = solution.intercept


def _plain(value: Array) -> Array | float:
    """A float for one output, an array for several."""
    return float(value) if value.ndim == 0 else value
