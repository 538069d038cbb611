"""TransductiveRankRLS: RankRLS that learns from rows without labels as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import is_tensor, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.base import (
    ALPHA,
    KERNEL_PARAMETERS,
    LOSS_PARAMETERS,
    LeastSquaresRanker,
    landmark_choice,
    make_kernel,
)
from rankwise.estimators.ranker_rows import (
    check_training,
    has_features,
    query_groups,
    scale_training,
)
from rankwise.graph.query_groups import numeric_labels
from rankwise.parameters import Choice, Number, Rule, Whole, check_parameters
from rankwise.problem import FeatureSpace, LandmarkSpace, Problem, SmoothSpace

if TYPE_CHECKING:
    from rankwise.holdout.alpha_choice import AlphaChoice


@dataclass(eq=False, repr=False)
class TransductiveRankRLS(LeastSquaresRanker):
    """Pairwise regularized least squares on labelled and unlabelled rows.

    Rows with the label NaN are unlabelled. They belong to no pair, but they show where rows are
    dense: the ranker prefers functions that change slowly between neighbouring rows,

        min_f  1/2 sum_ij W_ij ((y_i - y_j) - (f(x_i) - f(x_j)))^2
               + alpha (|f|^2 + smoothness f'Mf / t),

    where the first sum is over pairs of labelled rows, and M is the Laplacian of the graph that
    connects each row, labelled or not, to its nearest neighbours. The last term is a mean of
    squared slopes along the edges of this graph: t is the sum of their squared lengths. It is at
    most ``smoothness * |f|^2``.

    The solution has the closed form of `RankRLS`, w = (X'LX + alpha (I + c X'MX))^-1 X'Ly with
    c = smoothness / t, and the same exact hold-outs: held-out rows lose their labels and stay in
    the graph, as the unlabelled rows do. Use it if few queries have labels and the rows of other
    queries are known. Where neighbours do not have similar labels, it is no better than `RankRLS`:
    compare the two.

    For m rows, labelled or not, and n features (or landmarks), this takes O(m n^2 + n^3) time in
    addition to the fit, and O(m_q^2 n) for the neighbours in a query of m_q rows.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Regularization strength, at least 0, or chosen by exact hold-outs. See `RankRLS`.
    smoothness : float, default=10.0
        Weight of the slopes along the graph, at least 0. 0: the unlabelled rows affect only the
        scaling and the choice of landmarks.
    n_neighbors : int, default=10
        Number of nearest rows to which each row is connected.
    neighbors : {"query", "all"}, default="query"
        Whether neighbours are looked for among the rows of the same query, or among all rows.
    kernel : str or callable, default="linear"
        As for `RankRLS`, except "precomputed". Kernels other than "linear" are expanded on
        landmarks, as in `SparseRankRLS`.
    gamma, degree, coef0
        As for `RankRLS`.
    n_landmarks : int, optional
        Number of landmarks among all rows, for kernels other than "linear". None: 1000, or all
        rows if there are fewer.
    landmarks : str or array-like, default="random"
        How they are chosen, as for `SparseRankRLS`.
    scale : str or None, default="auto"
        As for `RankRLS`; statistics are computed from all rows, labelled or not.
    ties, weighting
        As for `RankRLS`.
    random_state : int or Generator, optional
        Seed for the choice of landmarks.

    Attributes
    ----------
    labelled_ : ndarray of shape (n_labelled,)
        Numbers of the training rows with labels.
    alpha_, alpha_curve_, coef_, solver_, scale_, scaling_, gamma_, feature_range_, \
max_query_rows_, basis_, solution_
        As for `RankRLS`.
    dual_coef_, landmarks_, landmark_indices_, rank_, kernel_
        As for `SparseRankRLS`; only with kernels other than "linear".
    n_queries_ : int
        Number of queries with labelled rows.
    n_features_in_, feature_names_in_
        Number and names of the features seen in `fit`.

    References
    ----------
    Pahikkala, Tsivtsivadze, Airola, Boberg, Salakoski: Learning to rank with pairwise
    regularized least-squares. SIGIR 2007 workshop on learning to rank for information
    retrieval. Its last section plans a transductive version.

    Belkin, Niyogi, Sindhwani: Manifold regularization: a geometric framework for learning
    from labeled and unlabeled examples. Journal of Machine Learning Research 7, 2006.

    Examples
    --------
    Two clusters of rows, of which two have labels:

    >>> import numpy as np
    >>> from rankwise import TransductiveRankRLS
    >>> angle = np.concatenate([np.linspace(0, 3, 40), np.linspace(0, 3, 40)])
    >>> upper = np.arange(80) < 40
    >>> X = np.column_stack([np.cos(angle) + ~upper, np.where(upper, 1, -1) * np.sin(angle)])
    >>> X[~upper, 1] += 0.5
    >>> y = np.full(80, np.nan)
    >>> y[[20, 60]] = 1, 0
    >>> plain, smooth = (
    ...     TransductiveRankRLS(1e-3, smoothness=s, n_neighbors=3, kernel="rbf", gamma=5.0)
    ...     .fit(X, y)
    ...     .score(X, upper)
    ...     for s in (0.0, 1e4)
    ... )
    >>> plain < smooth
    True
    """

    parameters: ClassVar[Mapping[str, Rule]] = {
        "alpha": ALPHA,
        "smoothness": Number(0),
        "n_neighbors": Whole(1),
        "neighbors": Choice("query", "all"),
        **KERNEL_PARAMETERS,
        **LOSS_PARAMETERS,
    }
    takes_unlabelled: ClassVar[bool] = True

    alpha: float | str = "auto"
    _: KW_ONLY
    smoothness: float = 10.0
    n_neighbors: int = 10
    neighbors: str = "query"
    kernel: Any = "linear"
    gamma: float | str | None = None
    degree: float = 3
    coef0: float = 1.0
    n_landmarks: int | None = None
    landmarks: Any = "random"
    scale: str | None = "auto"
    ties: str = "include"
    weighting: str = "rows"
    random_state: Any = None

    def make_space(self, n_features: int) -> SmoothSpace:
        """Linear functions, or kernel expansions on landmarks, that are smooth on a graph."""
        space: FeatureSpace | LandmarkSpace = FeatureSpace()
        if self.kernel != "linear":
            kernel = make_kernel(self, n_features)
            space = LandmarkSpace(kernel, landmark_choice(self, kernel), self.random_state)
        within_queries = self.neighbors == "query"
        return SmoothSpace(space, float(self.smoothness), self.n_neighbors, within_queries)

    def prepare(
        self,
        X: Any,
        y: Any,
        qid: Any,
        *,
        query_weight: Any = None,
        sample_weight: Any = None,
        try_scalings: bool = True,
    ) -> tuple[Problem, AlphaChoice | None]:
        """The problem of the labelled rows; unlabelled rows have NaN in y."""
        check_parameters(self, self.parameters)
        self.check_takes(sample_weight)
        if not has_features(self):
            raise ParameterError(
                "TransductiveRankRLS needs features to find neighbours: got "
                f"kernel={self.kernel!r}."
            )
        if is_tensor(X):
            raise DataError(
                "TransductiveRankRLS runs on the CPU and takes no tensors: pass X.cpu().numpy()."
            )
        qid = to_host(qid)
        y, labelled = _split_labels(numeric_labels(to_host(y)))
        X, y = check_training(self, X, y)
        groups = query_groups(qid, X.shape[0], query_weight)
        rows = np.flatnonzero(labelled) if labelled is not None else np.arange(X.shape[0])
        if len(rows) < 2:
            raise DataError(
                f"y is NaN in {X.shape[0] - len(rows)} of {X.shape[0]} rows: at least two rows "
                "must have a label."
            )
        all_labelled = len(rows) == X.shape[0]
        of_labelled = groups if all_labelled else groups.take(rows)
        loss = self.make_loss()
        tasks = loss.tasks(y[rows], of_labelled)
        self.labelled_, self.n_queries_ = rows, of_labelled.n_groups
        loss.check_learnable([task.n_learnable for task in tasks], len(rows), self.n_queries_)
        X, _ = scale_training(
            self, X, groups, has_queries=qid is not None, y=y,
            labelled=None if all_labelled else rows, of_linear=try_scalings,
        )  # fmt: skip
        space = self.make_space(X.shape[1]).on_rows(X, qid, groups, rows)
        X = X if all_labelled else X[rows]
        return Problem(X, tasks, loss, space, None if qid is None else of_labelled.ids), None


def _split_labels(y: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    """Labels with 0 in place of NaN, and which of them are not NaN.

    The second is None if y has no NaN, or if scikit-learn will raise the error.
    """
    values = np.asarray(y)
    if values.dtype.kind != "f" or values.ndim not in (1, 2) or not len(values):
        return y, None
    missing = np.isnan(values).reshape(len(values), -1)
    some = missing.any(axis=1)
    if not some.any():
        return y, None
    partly = np.flatnonzero(some & ~missing.all(axis=1))
    if len(partly):
        raise DataError(
            f"Row {int(partly[0])} of y has labels in some columns and NaN in others: a row "
            "without labels has NaN in all columns."
        )
    return np.where(np.isnan(values), 0.0, values), ~some
