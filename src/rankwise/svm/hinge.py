"""The hinge loss on pairs, smoothed near its kink.

With q(s) = max(0, s)^2, the function (q(s) - q(s - delta)) / (2 delta) is s^2 / (2 delta) up to
delta and s - delta / 2 beyond. It differs from max(0, s) by at most delta / 2. So its sums over
pairs are those of two squared hinges, which sorting makes cheap, and Newton's method applies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.svm.squared_hinge import (
    ActiveLoss,
    LabelledPairs,
    ListedPairs,
    NewtonFit,
    squared_hinge,
)

DELTAS = (0.5, 0.1, 0.02, 0.004, 0.001)
"""Widths of the smoothed kink, each with the solution for the one before as a start."""


@dataclass(frozen=True, eq=False)
class SmoothedHinge:
    """The smoothed hinge of pairs; of a tie, the smoothed absolute value."""

    pairs: LabelledPairs | ListedPairs
    delta: float

    def at(self, f: Array) -> SmoothedLoss:
        """The loss at these scores."""
        return SmoothedLoss(self.pairs.at(f), self.pairs.at(f, self.delta), self.delta)


class SmoothedLoss:
    """Loss, gradient and products with the Hessian: differences of those of squared hinges."""

    def __init__(self, whole: ActiveLoss, beyond: ActiveLoss, delta: float) -> None:
        self._whole, self._beyond, self._factor = whole, beyond, 0.5 / delta
        self.loss = self._factor * (whole.loss - beyond.loss)
        self.gradient: Array = self._factor * (whole.gradient - beyond.gradient)

    def hessian_product(self, v: Array) -> Array:
        """The Hessian with respect to the scores times v."""
        found = self._whole.hessian_product(v) - self._beyond.hessian_product(v)
        return np.asarray(self._factor * found)


def hinge(
    X: Any,
    pairs: LabelledPairs | ListedPairs,
    lams: Sequence[float],
    *,
    tol: float,
    max_iter: int,
) -> list[NewtonFit]:
    """Minimize sum_ij c_ij max(0, 1 - (f_i - f_j)) + lam |w|^2 for each lam.

    The objective of the result is within DELTAS[-1] / 2 times the sum of all c_ij of the minimum.

    Parameters
    ----------
    X : array or sparse of shape (n_rows, n_features)
    pairs : LabelledPairs or ListedPairs
    lams : sequence of float
    tol, max_iter
        As for `squared_hinge`, for the last width; steps count for all widths together.
    """
    fits: dict[float, NewtonFit] = {}
    w = np.zeros(X.shape[1])
    for lam in sorted(set(lams), reverse=True):
        n_iter = 0
        for delta in DELTAS:
            (found,) = squared_hinge(
                X, SmoothedHinge(pairs, delta), [lam], first=w, max_iter=max_iter - n_iter,
                tol=tol if delta == DELTAS[-1] else max(tol, 1e-3),
            )  # fmt: skip
            n_iter += found.n_iter
            if not np.isfinite(found.residual):
                break
            w = found.w
        fits[lam] = replace(found, n_iter=n_iter)
    return [fits[lam] for lam in lams]
