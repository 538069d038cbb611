"""AdditiveRankRLS: sums of functions of single features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array, to_host
from rankwise.estimators.least_squares.base import LeastSquaresRanker
from rankwise.estimators.ranker_mixin import ALPHA, LOSS_PARAMETERS
from rankwise.parameters import AnyOf, Choice, Rule, Whole, check_value
from rankwise.problem import PairLoss, RampSpace
from rankwise.scaling import SCALINGS


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
    }

    def __init__(
        self,
        alpha: float | str = "auto",
        *,
        n_ramps: int = 4,
        scale: str | None = None,
        ties: str = "include",
        weighting: str = "rows",
    ) -> None:
        self.alpha = alpha
        self.n_ramps = n_ramps
        self.scale = scale
        self.ties = ties
        self.weighting = weighting

    def make_loss(self) -> PairLoss:
        """Squared errors of the pairs that `ties` and `weighting` describe."""
        return PairLoss(self.ties, self.weighting)

    def make_space(self, n_features: int) -> RampSpace:
        """Sums of piecewise linear functions."""
        return RampSpace(self.n_ramps)

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
