"""Raters of different quality: the slopes of their comparisons, learned and reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index
from rankwise.errors import warn
from rankwise.estimators.gp.evidence import Evidence
from rankwise.estimators.gp.hyperparameters import climb
from rankwise.graph.comparison_checks import check_comparison_ids
from rankwise.solvers.gp.slopes import spread_of
from rankwise.tables import Column, Table, TableMixin

_ROUNDS, _CLOSE = 6, 0.05  # of slopes and spread in turn, until the log spread changes by less
_SHOWN = 5  # unknown raters that a warning names
_NEGLIGIBLE = 0.02  # a spread of log slopes that is treated as none


@dataclass(frozen=True, eq=False)
class RaterSlopes(TableMixin):
    """How well the raters of a `PairwiseGP` tell rows apart.

    A comparison by a rater with slope s has s times less noise than one by a typical rater. The
    slopes are shrunk towards 1, the more so the fewer comparisons a rater made: their logarithms
    are from N(0, spread^2), and the comparisons determine the spread.

    Attributes
    ----------
    names : ndarray of shape (n_raters,)
        The raters, in the order in which they first appear.
    slope : ndarray of shape (n_raters,)
    standard_error : ndarray of shape (n_raters,)
        Standard error of the slope: the slope times the posterior standard deviation of its
        logarithm, for given other hyperparameters. 0 if `spread` is 0.
    n_comparisons : ndarray of shape (n_raters,)
    spread : float
        Standard deviation of the logarithms of slopes of all raters; 0 if the comparisons do not
        support any difference between raters.
    """

    names: NDArray[Any]
    slope: Array
    standard_error: Array
    n_comparisons: Index
    spread: float

    def numbers(self, raters: Any) -> Index:
        """The number of each rater; -1, with a warning, for one who is not known."""
        number = {name: k for k, name in enumerate(self.names.tolist())}
        given = raters.tolist()
        unknown = list(dict.fromkeys(name for name in given if name not in number))
        if unknown:
            self._warn_of_unknown(unknown)
        return np.array([number.get(name, -1) for name in given], dtype=np.intp)

    def _warn_of_unknown(self, unknown: list[Any]) -> None:
        shown = ", ".join(repr(name) for name in unknown[:_SHOWN])
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        known = {str(name): name for name in self.names.tolist()}
        alike = next((known[str(name)] for name in unknown if str(name) in known), None)
        hint = "fit_pairs learns their slopes"
        if alike is not None:
            hint = (
                f"the fit had {alike!r}, of type {type(alike).__name__}: convert the ids of the "
                "raters to this type"
            )
        warn(f"Raters who were not in the fit have the common slope, 1: {shown}{more}; {hint}.")

    def slopes_of(self, rater: Any, n_pairs: int) -> Any:
        """The slope of each comparison; 1, with a warning, for a rater who is not known."""
        rater = np.asarray(rater)
        rater = np.full(n_pairs, rater) if rater.ndim == 0 else rater
        return np.append(self.slope, 1.0)[
            self.numbers(check_comparison_ids("rater", rater, n_pairs))
        ]

    def to_table(self) -> Table:
        """The raters, with the largest slope first."""
        columns = (Column("rater", ""), Column("slope", ".2f"), Column("s.e.", ".2f"))
        rows = [
            (str(self.names[k]), self.slope[k], self.standard_error[k], int(self.n_comparisons[k]))
            for k in np.argsort(-self.slope, kind="stable")
        ]
        return Table((*columns, Column("comparisons")), tuple(rows))

    def _frame_columns(self) -> Mapping[str, Any]:
        return {
            "rater": self.names,
            "slope": self.slope,
            "standard_error": self.standard_error,
            "n_comparisons": self.n_comparisons,
        }


def learn_slopes(evidence: Evidence, theta: Array, optimizer: Any) -> tuple[Evidence, Array, Array]:
    """Add the slopes of raters, if these differ. Returns standard errors of log slopes, too.

    The slopes maximize evidence times prior together with all other hyperparameters. The spread of
    the prior maximizes its own evidence, in which log slopes are integrated out by Laplace's
    approximation. Both are found in turn. At first all slopes are 1: if raters do not differ, this
    costs a single posterior.
    """
    rater = evidence.observed.rater
    assert rater is not None
    n = int(rater.max(initial=-1)) + 1
    evidence, theta = evidence.with_slopes(theta, np.ones(n), 0.0)
    plain = evidence, theta, np.zeros(n)
    spread = 0.0
    for k in range(_ROUNDS + 1):
        slopes = evidence.at(theta).slopes
        assert slopes is not None
        slope, information = evidence.slope_estimates(theta)
        step = np.divide(slope, information, out=np.zeros(n), where=information > 0)
        before, spread = spread, spread_of(np.log(slopes) + step, information)
        if spread < _NEGLIGIBLE:
            return plain
        if k == _ROUNDS or (before and abs(np.log(spread / before)) < _CLOSE):
            break
        evidence, theta = evidence.with_slopes(theta, slopes, spread)
        theta = climb(evidence, optimizer, theta)[0]
    return evidence, theta, 1.0 / np.sqrt(information + evidence.spread**-2)
