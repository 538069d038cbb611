"""Results of a pairwise Gaussian process: comparisons that are held out, and slopes of raters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError, warn
from rankwise.gp.evidence import Evidence
from rankwise.gp.process import ProcessMixture
from rankwise.graph import QueryGroups
from rankwise.graph.comparisons import Comparisons, check_comparison_ids
from rankwise.metrics.comparison_metrics import (
    accuracy_of,
    brier_of,
    calibration_error,
    clustered_mean,
)
from rankwise.tables import Column, Table, TableMixin, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BIN, _BINS = 10, 10  # comparisons in a bin of the plot, at least; number of bins, at most
_SHOWN = 5  # unknown raters that a warning names
_LEAST = 1e-300  # a probability whose logarithm is finite


@dataclass(frozen=True, eq=False, repr=False)
class HeldOutComparisons(TableMixin):
    """Every comparison, predicted without it or without its group.

    Averages are weighted by `weight`.

    Attributes
    ----------
    pairs, margin, weight : ndarray
        The comparisons, as in `PairwiseGP`.
    groups : ndarray of shape (n_pairs,)
        The number of the group of each comparison; each is its own group by default.
    mean, std : ndarray of shape (n_pairs,)
        Of the difference of scores, f(first) - f(second).
    probabilities : ndarray of shape (n_pairs, 3)
        Of a win, a tie and a loss of the first row.
    log_likelihood : ndarray of shape (n_pairs,)
        Logarithm of the probability of what was observed (of its density, if margins have Gaussian
        noise). A weight, which is how often it was observed, does not change it. For a tie that
        counts as half a win for each row, the mean of both logarithms.
    """

    pairs: Index
    margin: Array
    weight: Array
    groups: Index
    mean: Array
    std: Array
    probabilities: Array
    log_likelihood: Array

    @property
    def log_loss(self) -> float:
        """Minus the mean log-likelihood."""
        return self._mean(-self.log_likelihood)[0]

    @property
    def log_loss_standard_error(self) -> float:
        """Standard error of the log-loss; comparisons of a group may depend on each other."""
        return self._mean(-self.log_likelihood)[1]

    @property
    def accuracy(self) -> float:
        """Share of comparisons whose winner was predicted.

        A tie counts half, and so do scores that are predicted equal up to rounding errors.
        """
        return self._mean(accuracy_of(self.margin, self.mean))[0]

    @property
    def brier(self) -> float:
        """Mean squared error of P(win) + P(tie) / 2, where a tie is half a win."""
        return self._mean(brier_of(self.margin, self._score))[0]

    @property
    def calibration_error(self) -> float:
        """Mean distance between predicted and observed shares of wins, over ten bins."""
        return calibration_error(self.margin, self._score, self.weight)

    def to_table(self) -> Table:
        """A row for each metric, with its standard error."""
        losses = {
            "accuracy": accuracy_of(self.margin, self.mean),
            "log-loss": -self.log_likelihood,
            "Brier score": brier_of(self.margin, self._score),
        }
        rows: list[tuple[Any, ...]] = [
            (name, *self._mean(values)) for name, values in losses.items()
        ]
        rows.append(("calibration error", self.calibration_error, None))
        return Table((Column("metric", ""), Column("value"), Column("s.e.")), tuple(rows))

    def _frame_columns(self) -> Mapping[str, Any]:
        win, tie, loss = self.probabilities.T
        return {
            "comparison": np.arange(len(self.pairs)),
            "first": self.pairs[:, 0],
            "second": self.pairs[:, 1],
            "margin": self.margin,
            "weight": self.weight,
            "group": self.groups,
            "mean": self.mean,
            "std": self.std,
            "win": win,
            "tie": tie,
            "loss": loss,
            "log_likelihood": self.log_likelihood,
        }

    def __repr__(self) -> str:
        log_loss = f"{self.log_loss:.4f} ± {self.log_loss_standard_error:.4f}"
        return (
            f"<{type(self).__name__}: {plural(len(self.pairs), 'comparison')}, log-loss "
            f"{log_loss}, accuracy {self.accuracy:.4f}>"
        )

    def plot(self, **options: Any) -> Axes:
        """Draw how often predicted winners won; options are passed to `plot_reliability`.

        Ties are left out: probabilities are conditional on a winner.
        """
        from rankwise.plots import plot_reliability

        decided = self.margin != 0
        if not decided.any():
            raise DataError("All comparisons are ties: there is no winner to plot.")
        win, loss = self.probabilities[decided][:, ::2].T
        first = win >= loss
        chance = np.where(first, win, loss) / (win + loss)
        n_bins = int(np.clip(len(first) // _BIN, 1, _BINS))
        defaults: dict[str, Any] = {"n_bins": n_bins, "data": "held-out comparisons"}
        return plot_reliability((self.margin[decided] > 0) == first, chance, **defaults | options)

    @property
    def _score(self) -> Array:
        return self.probabilities @ np.array([1.0, 0.5, 0.0])

    def _mean(self, values: Array) -> tuple[float, float]:
        return clustered_mean(values, self.weight, self.groups)


def hold_out(
    posterior: ProcessMixture,
    evidence: Evidence,
    comparisons: Comparisons,
    groups: QueryGroups | None,
) -> HeldOutComparisons:
    """Hold out every comparison, or every group of them."""
    held_out = [evidence.held_out(process, groups) for process in posterior.processes]
    means, variances = (np.array(part) for part in zip(*held_out, strict=True))
    weights = posterior.weights
    mean, std = posterior.pooled(held_out)
    chances = np.zeros((len(mean), 3))
    slopes = evidence.slopes(evidence.hyper)[evidence.observed.pair]
    for weight, process, m, v in zip(weights, posterior.processes, means, variances, strict=True):
        chances += weight * process.hyper.outcomes(m, v, slopes).T
    if evidence.likelihood == "gaussian":
        noise = np.array([[process.hyper.noise] for process in posterior.processes])
        spread = variances + (noise / slopes) ** 2
        logs = -0.5 * (np.square(comparisons.margin - means) / spread + np.log(2 * np.pi * spread))
        log_likelihood = np.asarray(logsumexp(logs, axis=0, b=weights[:, None]))
    else:
        logs, observed = np.log(np.maximum(chances, _LEAST)), evidence.observed
        first_won = np.where(observed.sign > 0, *observed.parts[:, :2].T)
        second_won = np.where(observed.sign > 0, *observed.parts[:, 1::-1].T)
        parts = np.column_stack((first_won, observed.parts[:, 2], second_won))
        log_likelihood = (logs * parts).sum(axis=1) / parts.sum(axis=1)
    return HeldOutComparisons(
        comparisons.pairs,
        comparisons.margin,
        comparisons.weight,
        np.arange(len(mean)) if groups is None else groups.codes,
        mean,
        std,
        chances,
        log_likelihood,
    )


@dataclass(frozen=True, eq=False)
class RaterSlopes(TableMixin):
    """How well the raters of a `PairwiseGP` tell rows apart.

    A comparison by a rater with slope s has s times less noise than a comparison by a typical
    rater. Slopes are shrunk towards 1, most of all for raters with few comparisons: their
    logarithms are from N(0, spread^2), and the comparisons determine the spread.

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

    def numbers(self, rater: Any, n_pairs: int | None = None) -> Index:
        """The number of the rater of each comparison; -1, with a warning, for an unknown rater."""
        number = {name: k for k, name in enumerate(self.names.tolist())}
        n_pairs = np.size(rater) if n_pairs is None else n_pairs
        each = np.full(n_pairs, rater) if np.ndim(rater) == 0 else rater
        given = check_comparison_ids("rater", each, n_pairs).tolist()
        unknown = list(dict.fromkeys(name for name in given if name not in number))
        if unknown:
            shown = ", ".join(repr(name) for name in unknown[:_SHOWN])
            kinds = ", ".join(sorted({type(name).__name__ for name in number}))
            warn(
                f"Raters who were not in the fit have the common slope, 1: {shown} "
                f"({len(unknown)} in all). fit_pairs learns their slopes; its raters are of type "
                f"{kinds}."
            )
        return np.array([number.get(name, -1) for name in given], dtype=np.intp)

    def slopes_of(self, rater: Any, n_pairs: int) -> Any:
        """The slope of each comparison; 1, with a warning, for an unknown rater."""
        return np.append(self.slope, 1.0)[self.numbers(rater, n_pairs)]

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
