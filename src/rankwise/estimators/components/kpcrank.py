"""KPCRank, and the pointwise baseline KPCR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.dispatch import backend_of
from rankwise.estimators._kernel_parameters import KERNEL_PARAMETERS, make_kernel
from rankwise.estimators._landmark_choice import LandmarkChoice
from rankwise.estimators._scores import returned_scores
from rankwise.estimators._validation import check_rows
from rankwise.estimators.components.chosen_space import ChosenComponentSpace
from rankwise.estimators.components.component_space import ComponentSpace
from rankwise.estimators.least_squares.base import LeastSquaresRanker
from rankwise.estimators.least_squares.fit_pairs import FitPairsMixin
from rankwise.estimators.least_squares.rankrls import LOSS_PARAMETERS
from rankwise.parameters import AnyOf, Choice, Number, Rule, Whole
from rankwise.problem import PairLoss, RowLoss
from rankwise.solvers.kpca import Count

MOST_COMPONENTS = 10**6
COMPONENT_PARAMETERS: dict[str, Rule] = {
    "n_components": AnyOf(Whole(1), Number(0, 1, open_low=True), Choice("auto", "cv")),
    "alpha": Number(0),
    **KERNEL_PARAMETERS,
    "cv": AnyOf(Whole(2), Choice("leave_query_out", "leave_pair_out")),
    "rule": Choice("one_se", "best"),
    "max_components": AnyOf(None, Whole(1, MOST_COMPONENTS)),
}


class ComponentMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Adds coordinates on components, and scores for every number of them, to a ranker."""

    basis_: Any
    solution_: Any
    n_components_: int
    fit: Any

    #: A search refits: exact hold-outs would keep components that know the held-out rows.
    exact_search: ClassVar[bool] = False

    def predict_path(self, X: Any) -> Any:
        """Scores with one component, with two, and so on up to `n_components_`.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
            As for `predict`.

        Returns
        -------
        ndarray of shape (n_rows, n_components_) or (n_rows, n_components_, n_outputs)
            Column j has the scores with j + 1 components; the last column is `predict(X)`.
        """
        check_is_fitted(self)
        X = check_rows(self, X)
        F = self.basis_.coordinates(X)
        on, solution = backend_of(F), self.solution_
        scores = on.xp.tensordot(F, on.array(solution.path), 1)
        intercept = solution.intercept
        if not isinstance(intercept, float):
            intercept = on.array(intercept)
        return returned_scores(X, scores + intercept)

    def transform(self, X: Any) -> Any:
        """Coordinates of rows on the components, which are centred over the training rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
            As for `predict`.

        Returns
        -------
        ndarray of shape (n_rows, n_components_)
            ``transform(X) @ coef_.T``, plus the intercept where there is one, are the scores.
        """
        check_is_fitted(self)
        X = check_rows(self, X)
        return returned_scores(X, self.basis_.coordinates(X))

    def fit_transform(self, X: Any, y: Any, *, qid: Any = None) -> Any:
        """`fit`, then `transform` of the same rows.

        Parameters
        ----------
        X, y, qid
            As for `fit`.

        Returns
        -------
        ndarray of shape (n_rows, n_components_)
        """
        return self.fit(X, y, qid=qid).transform(X)

    def set_fitted(self, basis: Any, solution: Any) -> Self:
        """Make the components that a solution uses, and the solution, the fitted model."""
        p = solution.n_components
        return super().set_fitted(basis.leading(p), solution.leading(p))

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class KPCRank(FitPairsMixin, ComponentMixin, LeastSquaresRanker):
    """Pairwise least squares on the leading principal components of a kernel.

    Rows are projected on the p components of largest variance, and the differences of scores
    are regressed on differences of these p coordinates. With V and s the leading eigenvectors
    and eigenvalues of the centred kernel matrix K and L the Laplacian of the pairs that count,

        f(x) = sum_l w_l F_l(x),   F = K V s^(-1/2),   w = (F'LF + alpha I)^-1 F'Ly.

    What regularizes is the number of components: where labels are noisy and what matters varies
    much, directions of small variance carry noise. The components know nothing of the labels.

    O(m^2 p) time; one m by m matrix, and some seven of m by p. Where p is not small beside m (more
    than a sixth, or below 1500 rows), LAPACK needs a second m by m matrix; with all components, or
    selection="spectral", there are some ten of that size. With landmarks O(m r^2) time, and
    memory for some r by r matrices, the m by p coordinates, and the m by r kernel values, which
    beyond 1 GiB are made twice instead. Scores with 1, 2, ..., p components come from one
    triangular factor, whose leading parts are the factors of fewer components (`predict_path`).

    A component that no pair sees once those before it are known (one that is the same for all
    rows of each query, say, or any beyond the rows less the queries) has the weight 0:
    `idle_components_` lists them.

    Parameters
    ----------
    n_components : int, float, "auto" or "cv", default="cv"
        How many components:

        - an integer: so many, and an error where the kernel has fewer above rounding;
        - a float from 0 to 1: as many as have this share of the variance of the kernel;
        - "auto": all that the numerical rank of the kernel allows;
        - "cv": as many as held-out pairs ask for, by `cv` and `rule`.
    alpha : float, default=0.0
        A ridge on the weights, 0 or more. With all components, that is `RankRLS`.
    kernel, gamma, degree, coef0
        As for `RankRLS`, but with "rbf" as default.
    ties, weighting
        As for `RankRLS`.
    selection : {"leading", "spectral"}, default="leading"
        Which p directions are used. "leading": the p components of largest variance, the method
        of the paper's Theorem 1. "spectral": of all components, the p eigenvectors of F'LF with
        the largest eigenvalues, section 4.2 of the paper. These are other directions, of large
        variance within queries, and other predictions; for one ranking of all rows they are the
        same. "spectral" needs all eigenvectors, O(m^3).
    cv : int, "leave_query_out" or "leave_pair_out", default=5
        For ``n_components="cv"``. An integer: so many folds of queries whose labels differ (of
        rows, without qid; of comparisons, in `fit_pairs`; both in a fixed random order), fewer
        where there are fewer of these, and a refit for each that learns components of its own,
        on those of its landmarks that are left, where they are given by row numbers. The others
        are exact, without a refit, and keep the components of all rows: every query held out, or
        every pair of rows of one global ranking.
    rule : {"one_se", "best"}, default="one_se"
        For ``n_components="cv"``: the fewest components whose held-out error is within one standard
        error of the smallest, or those with the smallest. Held-out labels are as noisy as the
        others, and of 200 noisy errors the smallest is often a lucky one.
    max_components : int or None, default=200
        The most that "cv" tries. None: all.
    n_landmarks, landmarks, random_state
        Components of the kernel on landmarks instead of all rows, as for `SparseRankRLS`. Both
        None: all rows. `n_landmarks` alone: random rows.
    device
        As for `RankRLS`.

    Attributes
    ----------
    n_components_ : int
        Components in use.
    eigenvalues_ : ndarray of shape (n_components_,)
        Of the centred kernel: the sums of squares of components over training rows. With
        selection="spectral", those of F'LF.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        The same over the sum of all eigenvalues: of the centred kernel, or of F'LF.
    coef_ : ndarray of shape (n_components_,) or (n_outputs, n_components_)
        Weights of the components, equation (6).
    path_coef_ : ndarray of shape (n_components_, n_components_) or with an axis for outputs
        Column j has the weights where only j + 1 components are used.
    idle_components_ : ndarray
        Numbers of components with the weight 0.
    component_errors_ : ComponentErrors
        What "cv" found for every number of components; only with "cv".
    dual_components_ : ndarray of shape (n_points, n_components_)
        Weights of training rows, or landmarks, in each component.
    component_means_ : ndarray of shape (n_components_,)
        What is taken away, so that components have the mean 0 over training rows.
    X_fit_, landmarks_, landmark_indices_, kernel_, n_queries_
        As for `RankRLS` and `SparseRankRLS`.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    References
    ----------
    Tsivtsivadze, Cseke, Heskes: Kernel principal component ranking: robust ranking on noisy
    data. ECML PKDD workshop on preference learning, 2009. Theorem 1, equations (3) and (6),
    sections 4.2 and 6.1.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import KPCRank
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.uniform(-3, 3, (300, 1)), np.arange(300) // 10
    >>> y = np.sinc(X[:, 0]) + 0.3 * rng.standard_normal(300)
    >>> ranker = KPCRank(10, gamma=1.0).fit(X, y, qid=qid)
    >>> new = np.array([[0.0], [0.5], [1.5], [1.0]])
    >>> ranker.predict(new).argsort()[::-1]
    array([0, 1, 3, 2])
    >>> ranker.predict_path(new).shape, ranker.transform(new).shape
    ((4, 10), (4, 10))
    """

    parameters: ClassVar[Mapping[str, Rule]] = {
        **COMPONENT_PARAMETERS,
        **LOSS_PARAMETERS,
        "selection": Choice("leading", "spectral"),
    }

    def __init__(
        self,
        n_components: Any = "cv",
        *,
        alpha: float = 0.0,
        kernel: Any = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        ties: str = "include",
        weighting: str = "rows",
        selection: str = "leading",
        cv: Any = 5,
        rule: str = "one_se",
        max_components: int | None = 200,
        n_landmarks: int | None = None,
        landmarks: Any = None,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.ties = ties
        self.weighting = weighting
        self.selection = selection
        self.cv = cv
        self.rule = rule
        self.max_components = max_components
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.random_state = random_state
        self.device = device

    def make_loss(self) -> PairLoss:
        """Squared errors of the pairs that `ties` and `weighting` describe."""
        return PairLoss(self.ties, self.weighting)

    def make_space(self, n_features: int) -> ComponentSpace | ChosenComponentSpace:
        """Functions of kernel components."""
        return _make_space(self, n_features, self.selection)


class KPCR(ComponentMixin, LeastSquaresRanker):
    """Least-squares regression on the leading principal components of a kernel.

    The pointwise baseline of `KPCRank`: with F the first p kernel principal components,

        min_{w, b}  sum_i (y_i - F_i w - b)^2 + alpha |w|^2,

    where, as components are centred and uncorrelated, w_l = F_l'y / (s_l + alpha) and b is the
    mean of y. Costs are the same.

    Parameters
    ----------
    n_components : int, float, "auto" or "cv", default="cv"
        As for `KPCRank`; "cv" compares orders as well, of rows of the same query.
    alpha, kernel, gamma, degree, coef0
        As for `KPCRank`.
    cv, rule, max_components, n_landmarks, landmarks, random_state, device
        As for `KPCRank`.

    Attributes
    ----------
    n_components_, eigenvalues_, explained_variance_ratio_, coef_, path_coef_, component_errors_, \
dual_components_, component_means_, idle_components_
        As for `KPCRank`.
    intercept_ : float or ndarray of shape (n_outputs,)
    X_fit_, landmarks_, landmark_indices_, kernel_, n_queries_, n_features_in_, feature_names_in_
        As for `KPCRank`.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import KPCR
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> model = KPCR(10, gamma=0.5).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[1.0], [4.0]]).round(2)
    array([ 0.84, -0.76])
    """

    parameters: ClassVar[Mapping[str, Rule]] = COMPONENT_PARAMETERS

    def __init__(
        self,
        n_components: Any = "cv",
        *,
        alpha: float = 0.0,
        kernel: Any = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        cv: Any = 5,
        rule: str = "one_se",
        max_components: int | None = 200,
        n_landmarks: int | None = None,
        landmarks: Any = None,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.cv = cv
        self.rule = rule
        self.max_components = max_components
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.random_state = random_state
        self.device = device

    def make_loss(self) -> RowLoss:
        """Squared errors of single rows."""
        return RowLoss()

    def make_space(self, n_features: int) -> ComponentSpace | ChosenComponentSpace:
        """Functions of kernel components."""
        return _make_space(self, n_features)


def _make_space(
    ranker: KPCRank | KPCR, n_features: int, selection: str = "leading"
) -> ComponentSpace | ChosenComponentSpace:
    choice = None
    if ranker.landmarks is not None or ranker.n_landmarks is not None:
        method = "random" if ranker.landmarks is None else ranker.landmarks
        choice = LandmarkChoice.of(method, ranker.n_landmarks)
    number = ranker.n_components
    if isinstance(number, str):
        count = Count()
    elif Whole(1).allows(number):
        count = Count(int(number))
    else:
        count = Count(share=float(number))
    kernel = make_kernel(ranker, n_features)
    space = ComponentSpace(kernel, count, selection, choice, ranker.random_state)
    if number == "cv":
        return ChosenComponentSpace(space, ranker.cv, ranker.rule, ranker.max_components)
    return space
