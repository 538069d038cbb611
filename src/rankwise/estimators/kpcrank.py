"""KPCRank and its pointwise baseline KPCR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, cast

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.dispatch import backend_of
from rankwise.errors import ParameterError
from rankwise.estimators._scaling import prepare_rows, warn_of_scales
from rankwise.estimators.component_choice import OPTIONS, ChosenComponentSpace, ComponentOptions
from rankwise.estimators.least_squares.base import LeastSquaresRanker, only_solution
from rankwise.estimators.least_squares.fit_pairs import FitPairsMixin
from rankwise.estimators.ranker_mixin import (
    KERNEL_PARAMETERS,
    LOSS_PARAMETERS,
    make_kernel,
    returned_scores,
)
from rankwise.parameters import AnyOf, Choice, Number, Rule, Whole
from rankwise.problem import PairLoss, Problem, RowLoss
from rankwise.problem.component_space import ComponentSpace
from rankwise.problem.landmarks import LandmarkChoice, check_for_landmarks
from rankwise.solvers.kpca import Count

COMPONENT_PARAMETERS: dict[str, Rule] = {
    "n_components": AnyOf(Whole(1), Number(0, 1, open_low=True), Choice("auto", "cv")),
    "alpha": AnyOf(Number(0), Choice("auto")),
    **KERNEL_PARAMETERS,
}


class ComponentMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LeastSquaresRanker):
    """Adds `transform` and `predict_path` to a ranker on components."""

    n_components_: int

    #: A search refits, because exact hold-outs would keep components that use held-out rows.
    exact_search: ClassVar[bool] = False

    # Routing, as in `RankerMixin`.
    __metadata_request__transform = {"qid": True}  # noqa: RUF012

    def predict_path(self, X: Any, *, qid: Any = None) -> Any:
        """Scores with 1, 2, ..., `n_components_` components.

        Parameters
        ----------
        X, qid
            As for `predict`.

        Returns
        -------
        ndarray of shape (n_rows, n_components) or (n_rows, n_components, n_outputs)
            Column j has the scores with j + 1 components; the last column is `predict(X)`.
        """
        check_is_fitted(self)
        X = prepare_rows(self, X, qid, "predict_path")
        F = self.basis_.coordinates(X)
        on, solution = backend_of(F), self.solution_
        scores = on.xp.tensordot(F, on.array(solution.path), 1)
        intercept = solution.intercept
        if not isinstance(intercept, float):
            intercept = on.array(intercept)
        return returned_scores(X, scores + intercept)

    def transform(self, X: Any, *, qid: Any = None) -> Any:
        """Coordinates of rows on the components, which have mean 0 over the training rows.

        Parameters
        ----------
        X, qid
            As for `predict`.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            The scores are ``transform(X) @ coef_.T``, plus the intercept if there is one.
        """
        check_is_fitted(self)
        X = prepare_rows(self, X, qid, "transform")
        return returned_scores(X, self.basis_.coordinates(X))

    def fit_transform(self, X: Any, y: Any, *, qid: Any = None) -> Any:
        """Fit to rows, and return their coordinates on the components.

        Parameters
        ----------
        X, y, qid
            As for `fit`.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
        """
        return self.fit(X, y, qid=qid).transform(X, qid=qid)

    def fit_problem(self, problem: Problem) -> Self:
        """Choose alpha together with the number of components if it is "auto", and fit.

        Parameters
        ----------
        problem : rankwise.problem.Problem

        Returns
        -------
        self
        """
        if self.alpha != "auto":
            return super().fit_problem(problem)
        alpha, fit = cast(ChosenComponentSpace, problem.space).solve_best(problem)
        self.set_fitted(*only_solution(fit, problem.X))
        warn_of_scales(self, problem.X)
        return self.set_alpha(alpha)

    def set_fitted(self, basis: Any, solution: Any) -> Self:
        """Store a solution and the components that it uses as the fitted model."""
        p = solution.n_components
        return super().set_fitted(basis.leading(p), solution.leading(p))

    @classmethod
    def upgraded_parameters(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        """Parameters from a model file, possibly of an earlier version, in the present form."""
        now = dict(parameters)
        moved = {name: now.pop(name) for name in OPTIONS if name in now}
        if moved and ComponentOptions(**moved) != ComponentOptions():
            now["options"] = ComponentOptions(**moved)
        return now

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(self.upgraded_parameters(state))

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class KPCRank(FitPairsMixin, ComponentMixin):
    """Pairwise least squares on the leading principal components of a kernel.

    Rows are projected onto the p components of largest variance, and differences of scores are
    regressed on differences of these p coordinates. With the leading eigenvectors V and eigenvalues
    s of the centred kernel matrix K, and the Laplacian L of the pairs that count,

        f(x) = sum_l w_l F_l(x),   F = K V s^(-1/2),   w = (F'LF + alpha I)^-1 F'Ly.

    The number of components regularizes: if labels are noisy and the signal has large variance,
    directions of small variance contain mostly noise. The components do not depend on the labels.

    This takes O(m^2 p) time, and memory for one m by m matrix and about seven m by p matrices. If p
    is not small relative to m (more than a sixth, or fewer than 1500 rows), LAPACK needs a second
    m by m matrix; with all components, or selection="spectral", about ten matrices of that size
    are needed. With landmarks it takes O(m r^2) time, and memory for a few r by r matrices, the
    m by p coordinates, and the m by r kernel values, which are computed twice if they exceed 1 GiB.
    Scores with 1, 2, ..., p components come from one triangular factor, whose leading parts are the
    factors for fewer components (`predict_path`).

    A component has weight 0 if its differences over pairs are linearly dependent on differences of
    previous components. Examples are a component that is constant within queries, and all
    components beyond the number of rows minus the number of queries. `idle_components_` lists them.

    Parameters
    ----------
    n_components : int, float, "auto" or "cv", default="cv"
        Number of components:

        - an integer, which is at most the numerical rank of the kernel;
        - a float from 0 to 1: the smallest number with this share of the variance of the kernel;
        - "auto": the numerical rank of the kernel;
        - "cv": chosen by held-out errors, see `ComponentOptions`.
    alpha : float or "auto", default=0.0
        Ridge penalty on the weights, at least 0. With all components, this is `RankRLS`. "auto":
        held-out errors choose among 0 and values that follow the scale of the
        components, together with the number of components if that is "cv". All numbers and alphas
        share the components: one eigendecomposition for each fold, or one for all exact hold-outs.
    kernel, gamma, degree, coef0, scale
        As for `RankRLS`, but with "rbf" as default. If landmarks are points, scale="auto" leaves
        rows as they are.
    ties, weighting
        As for `RankRLS`.
    options : ComponentOptions, optional
        Which directions to use, what is held out to choose their number, and how many are tried.
        None: the defaults of `ComponentOptions`.
    n_landmarks, landmarks, random_state
        Use components of the kernel on landmarks instead of all rows, as for `SparseRankRLS`. If
        `landmarks` and `n_landmarks` are None: all rows. `n_landmarks` alone: random rows.
    device
        As for `RankRLS`.

    Attributes
    ----------
    n_components_ : int
        Number of components in use.
    eigenvalues_ : ndarray of shape (n_components,)
        Eigenvalues of the centred kernel, which are the sums of squares of components over training
        rows. With selection="spectral", eigenvalues of F'LF.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        `eigenvalues_` divided by the sum of all eigenvalues.
    coef_ : ndarray of shape (n_components,) or (n_outputs, n_components)
        Weights of the components, equation (6).
    path_coef_ : ndarray of shape (n_components, n_components) or with an axis for outputs
        Column j has the weights for j + 1 components.
    idle_components_ : ndarray
        Indices of components with weight 0.
    alpha_ : float
        The ridge penalty in use.
    component_errors_ : ComponentErrors
        Held-out errors for every number of components, with the alpha in use; only if the number
        or alpha is chosen. The smallest was chosen and is too small as an estimate for new rows;
        see its `nested_error`.
    dual_components_ : ndarray of shape (n_points, n_components)
        Weights of the training rows or landmarks in each component.
    component_means_ : ndarray of shape (n_components,)
        Means over the training rows, which are subtracted from the components.
    X_fit_, landmarks_, landmark_indices_, kernel_, scale_, scaling_, gamma_, feature_range_, \
max_query_rows_, basis_, solution_, n_queries_
        As for `RankRLS` and `SparseRankRLS`.
    n_features_in_, feature_names_in_
        Number and names of the features seen in `fit`.

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
    }

    def __init__(
        self,
        n_components: Any = "cv",
        *,
        alpha: float | str = 0.0,
        kernel: Any = "rbf",
        gamma: float | str | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        scale: str | None = "auto",
        ties: str = "include",
        weighting: str = "rows",
        options: ComponentOptions | None = None,
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
        self.scale = scale
        self.ties = ties
        self.weighting = weighting
        self.options = options
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.random_state = random_state
        self.device = device

    def make_loss(self) -> PairLoss:
        """Squared errors of the pairs that `ties` and `weighting` describe."""
        return PairLoss(self.ties, self.weighting)

    def make_space(self, n_features: int) -> ComponentSpace | ChosenComponentSpace:
        """Functions of kernel components."""
        return _make_space(self, n_features)


class KPCR(ComponentMixin):
    """Least-squares regression on the leading principal components of a kernel.

    The pointwise baseline of `KPCRank`: with the first p kernel principal components F,

        min_{w, b}  sum_i (y_i - F_i w - b)^2 + alpha |w|^2.

    Components are centred and uncorrelated, so w_l = F_l'y / (s_l + alpha), and b is the mean of y.
    The costs are the same.

    Parameters
    ----------
    n_components : int, float, "auto" or "cv", default="cv"
        As for `KPCRank`; "cv" also uses the order of rows of the same query.
    alpha, kernel, gamma, degree, coef0, scale
        As for `KPCRank`.
    options, n_landmarks, landmarks, random_state, device
        As for `KPCRank`.

    Attributes
    ----------
    n_components_, eigenvalues_, explained_variance_ratio_, coef_, path_coef_, component_errors_, \
dual_components_, component_means_, idle_components_
        As for `KPCRank`.
    intercept_ : float or ndarray of shape (n_outputs,)
    X_fit_, landmarks_, landmark_indices_, kernel_, scale_, scaling_, gamma_, feature_range_, \
max_query_rows_, n_queries_, n_features_in_, feature_names_in_
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
        alpha: float | str = 0.0,
        kernel: Any = "rbf",
        gamma: float | str | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        scale: str | None = "auto",
        options: ComponentOptions | None = None,
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
        self.scale = scale
        self.options = options
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


def _make_space(ranker: KPCRank | KPCR, n_features: int) -> ComponentSpace | ChosenComponentSpace:
    options = ComponentOptions() if ranker.options is None else ranker.options
    if not isinstance(options, ComponentOptions):
        raise ParameterError(f"options must be ComponentOptions(...) or None: got {options!r}.")
    options.check()
    if options.selection != "leading" and ranker.make_loss().has_intercept:
        raise ParameterError(
            f'{type(ranker).__name__} has selection="leading" only: got {options.selection!r}. Use '
            "KPCRank."
        )
    choice = None
    if ranker.landmarks is not None or ranker.n_landmarks is not None:
        method = "random" if ranker.landmarks is None else ranker.landmarks
        names = getattr(ranker, "feature_names_in_", None)
        choice = LandmarkChoice.of(method, ranker.n_landmarks, names)
    number = ranker.n_components
    if isinstance(number, str):
        count = Count()
    elif Whole(1).allows(number):
        count = Count(int(number))
    else:
        count = Count(share=float(number))
    kernel = make_kernel(ranker, n_features)
    if choice is not None:
        check_for_landmarks(kernel)
    space = ComponentSpace(kernel, count, options.selection, choice, ranker.random_state)
    if number == "cv" or ranker.alpha == "auto":
        return ChosenComponentSpace(space, options, chooses_number=number == "cv")
    return space
