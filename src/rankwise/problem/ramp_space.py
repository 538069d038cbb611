"""Sums of piecewise linear functions of single features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from rankwise.backends.arrays import Array, Index, is_sparse, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError
from rankwise.problem.feature_space import FeatureBasis, FeatureSpace, direct_form
from rankwise.problem.memory import check_dense_fits
from rankwise.problem.problem import Basis, Coordinates, Fit, Problem, Solution, Space

SAMPLE = 10_000  # rows for the quantiles


@dataclass(frozen=True, eq=False)
class RampBasis(Basis):
    """f(x) = sum_c w_c r_c(x), where ramp c rises from 0 to 1 as one feature goes from low to high.

    Attributes
    ----------
    feature : ndarray of shape (n_ramps,)
        The feature of each ramp, in ascending order.
    low, high : ndarray of shape (n_ramps,)
        Where each ramp begins and ends. The ramps of a feature follow one another, so its function
        is piecewise linear, and constant outside of the first and the last knot.
    """

    feature: Index
    low: Array
    high: Array
    scale_free: ClassVar[bool] = True
    on_ramps: ClassVar[bool] = True

    @classmethod
    def of(cls, X: Any, n_ramps: int) -> RampBasis:
        """Ramps between quantiles of each feature; equal quantiles count once.

        Quantiles are computed from at most 10,000 evenly spaced rows.
        """
        if is_sparse(X):
            check_dense_fits(X, "Functions of single features need dense rows: use RankRLS.")
        rows = np.unique(np.linspace(0, X.shape[0] - 1, SAMPLE).round().astype(np.intp))
        sample = X[rows].toarray() if is_sparse(X) else np.asarray(to_host(X[rows]))
        shares = np.linspace(0, 1, n_ramps + 1)
        quantiles = np.quantile(sample.astype(np.float64), shares, axis=0, method="nearest")
        knots = [_knots(column) for column in quantiles.T]
        return cls(
            np.repeat(np.arange(len(knots)), [len(knot) - 1 for knot in knots]),
            np.concatenate([knot[:-1] for knot in knots]),
            np.concatenate([knot[1:] for knot in knots]),
        )

    def features(self, X: Any) -> Any:
        """The value of each ramp for each row, dense, in the precision of X."""
        rows = X.toarray() if is_sparse(X) else X
        on = backend_of(rows)
        low, width = (on.cast(on.array(v), rows.dtype) for v in (self.low, self.high - self.low))
        return ((rows[:, self.feature] - low) / width).clip(0.0, 1.0)

    def products(self, X: Any, weights: Array) -> Any:
        """Scores without the intercept, one column for each column of weights."""
        return FeatureBasis("primal").products(self.features(X), weights)

    def attributes(self, solution: Solution) -> dict[str, Any]:
        """The weights of the ramps."""
        w = solution.weights
        return {"coef_": w.T if w.ndim == 2 else w}


@dataclass(frozen=True)
class RampSpace(Space):
    """Sums of piecewise linear functions, with `n_ramps` ramps for each feature.

    The regularizer is the sum of the squared rises of the functions between knots.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.problem import PairLoss, Problem, RampSpace
    >>> X, y, loss = np.array([[0.0], [1.0], [3.0]]), np.array([0.0, 2.0, 2.0]), PairLoss()
    >>> fit = Problem(X, loss.tasks(y, None), loss, RampSpace(2)).solve([1e-9])
    >>> fit.solutions[0].weights.round(3)  # up by 2 from 0 to 1, and level from 1 to 3
    array([2., 0.])
    """

    n_ramps: int
    shared: ClassVar[tuple[str, ...]] = ("knots",)
    takes_sparse: ClassVar[bool] = True

    def solve(self, problem: Problem, alphas: Sequence[float]) -> Fit:
        """As for linear functions, on ramps in place of the features."""
        basis = RampBasis.of(problem.X, self.n_ramps)
        return replace(_on_ramps(problem, basis).solve(alphas), basis=basis)

    def coordinates(self, problem: Problem) -> Coordinates:
        """The ramps, or their products."""
        return _on_ramps(problem, RampBasis.of(problem.X, self.n_ramps)).coordinates()


def _on_ramps(problem: Problem, basis: RampBasis) -> Problem:
    """The same problem with ramps in place of the features, which has the same solution."""
    X = basis.features(problem.X)
    return replace(problem, X=X, space=FeatureSpace(direct_form(X)))


def _knots(quantiles: Array) -> Array:
    """Distinct quantiles. A constant feature gets a ramp on which all training rows are at 0."""
    knots: Array = np.unique(quantiles)
    if len(knots) == 1:
        low = float(knots[0])
        return np.array([low, low + max(1.0, abs(low))])
    if not np.isfinite(float(knots[-1]) - float(knots[0])):
        raise DataError(f"A feature ranges from {knots[0]:g} to {knots[-1]:g}: scale the features.")
    return knots
