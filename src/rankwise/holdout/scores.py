"""The quality of predictions for held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from rankwise.backends.arrays import Array, Index
from rankwise.backends.parallel import map_in_threads, threads_for
from rankwise.graph.query_groups import QueryGroups
from rankwise.metric_names import COMPARISON_METRICS, metric_label
from rankwise.metrics import get_metric
from rankwise.metrics.comparison_metrics import calibration_error, clustered_mean, outcomes
from rankwise.metrics.ranked_queries import FEW_COUNTS
from rankwise.tables import Column, Table, TableMixin, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ROUNDING = 1e-12  # relative difference of equal scores
CALL_ROWS = 2**17  # of several alphas that are evaluated in one call
COST = 50  # of ranking a row, in numbers of a sum
FLAT = 0.05  # of the range of all scores: smaller differences do not matter


@dataclass(frozen=True, eq=False, repr=False)
class HeldOutScores(TableMixin):
    """The quality of predictions for held-out rows, for each alpha.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
    score : ndarray of shape (n_alphas,)
        The metric, averaged over queries (or folds) and outputs.
    standard_error : ndarray of shape (n_alphas,)
        Standard error of `score` over queries (or folds); NaN if there is only one.
    metric : str
    greater_is_better : bool
    shared : tuple of str
        What was computed from all rows, held-out ones included: "scaling", "choice of scaling",
        "gamma", "landmarks", "components", "knots" or "scale of the context". If it is empty,
        predictions agree with refits, up to rounding.
    note : str
        With monotone features, a sentence: how many fits without a unit come from a formula, and
        how many were solved again. Otherwise empty.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.model_selection import HeldOut, HeldOutScores, leave_query_out
    >>> X, y, qid = [[0.0], [1.0], [2.0], [4.0]], [0, 1, 0, 1], [1, 1, 2, 2]
    >>> result = leave_query_out(RankRLS(), X, y, qid=qid, alphas=[1.0, 10.0])
    >>> issubclass(HeldOut, HeldOutScores), result.score.tolist(), result.best_alpha
    (True, [0.0, 0.0], 10.0)
    """

    alphas: Array
    score: Array
    standard_error: Array
    metric: str
    greater_is_better: bool
    shared: tuple[str, ...] = field(default=(), kw_only=True)
    note: str = field(default="", kw_only=True)

    @property
    def best_index(self) -> int:
        """The index of the best score; among scores equal up to rounding, of the largest alpha."""
        gain = self.score if self.greater_is_better else -self.score
        best = np.flatnonzero(gain >= gain.max() - ROUNDING * abs(gain.max()))
        return int(best[np.argmax(self.alphas[best])])

    @property
    def best_alpha(self) -> float:
        """The alpha with the best score."""
        return float(self.alphas[self.best_index])

    @property
    def rises_at_end(self) -> bool:
        """Whether the best alpha is the first or last, and clearly better than the next.

        Clearly: by more than two standard errors, and by more than 5% of the range of all scores.
        If the features are unrelated to the labels, the squared error is smallest at the last
        alpha, and larger alphas would not help.
        """
        k, n = self.best_index, len(self.alphas)
        if n < 2 or 0 < k < n - 1 or (k > 0 and self.metric == "squared_error"):
            return False
        peer = self.score[1 if k == 0 else n - 2]
        flat = max(2.0 * self.standard_error[k], FLAT * np.ptp(self.score))
        return bool(abs(self.score[k] - peer) > flat)

    def to_table(self) -> Table:
        """A row for each alpha: its score, the standard error, and which is best."""
        best, numbers = self.best_index, np.arange(len(self.alphas))
        marks = np.where(numbers == best, "best", "").tolist()
        rows = zip(self.alphas, self.score, self.standard_error, marks, strict=True)
        label = Column(metric_label(self.metric))
        columns = (Column("alpha", ".4g"), label, Column("s.e."), Column("", ""))
        note = "\n".join(filter(None, (given_note(self.shared), self.note)))
        return Table(columns, tuple(rows), note=note, best=frozenset({(best, 1)}))

    def _frame_columns(self) -> dict[str, Array]:
        return {
            "alpha": self.alphas,
            self.metric: self.score,
            "standard_error": self.standard_error,
        }

    def __repr__(self) -> str:
        k = self.best_index
        return (
            f"<{type(self).__name__}: {plural(len(self.alphas), 'alpha')}, best "
            f"{metric_label(self.metric)} {self.score[k]:.4f} ± {self.standard_error[k]:.4f} at "
            f"alpha = {self.alphas[k]:.4g}{given_words(self.shared)}>"
        )

    def plot(self, **options: Any) -> Axes:
        """Draw the scores against alpha; see `rankwise.plots.plot_hold_out` for the options."""
        from rankwise.plots import plot_hold_out

        return plot_hold_out(self, **options)


def score_predictions(
    alphas: Array, labels: Array, predictions: Array, metric: str, qid: Index
) -> HeldOutScores:
    """Evaluate predictions, of shape (n_alphas, n_rows, n_outputs), query by query.

    The queries of several alphas are evaluated in one call, if these have few rows.
    """
    function, greater_is_better = get_metric(metric)
    groups = QueryGroups.of(qid)

    def evaluate(some: Array) -> list[tuple[float, float]]:
        first_query = groups.n_groups * np.arange(len(some))
        queries = (first_query[:, None] + groups.codes).ravel()
        by_output = [
            function(np.tile(y, len(some)), scores.ravel(), queries, per_query=True).values
            for y, scores in zip(labels.T, np.moveaxis(some, 2, 0), strict=True)
        ]  # which queries have no value depends on their labels alone
        columns = [values.reshape(len(some), -1) for values in by_output]
        return [mean_and_error(of_alpha) for of_alpha in zip(*columns, strict=True)]

    few = FEW_COUNTS // len(np.unique(labels))  # so that loops are not compiled for small data
    step = max(1, (few if len(labels) <= few else CALL_ROWS) // len(labels))
    starts = [0, *range(1, len(predictions), step)]  # an error for the first alpha counts queries
    parts = [predictions[a:b] for a, b in pairwise([*starts, len(predictions)])]
    found = map_in_threads(evaluate, parts, threads_for(predictions.size * COST))
    score, error = np.transpose([one for part in found for one in part])
    return HeldOutScores(alphas, score, error, metric, greater_is_better)


def given_words(shared: Sequence[str]) -> str:
    """What a hold-out shares with held-out rows, to be appended to a number; "" if nothing.

    Examples
    --------
    >>> given_words(("scaling", "landmarks")), given_words(())
    (', given the scaling and the landmarks of all rows', '')
    """
    return f", given the {' and the '.join(shared)} of all rows" if shared else ""


def given_note(shared: Sequence[str]) -> str:
    """The same as a sentence."""
    words = given_words(shared)[2:]
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def standard_errors(values: Array) -> Array:
    """Standard errors of means along the last axis; NaN for means of a single value."""
    n = values.shape[-1]
    return np.asarray(
        values.std(axis=-1, ddof=1) / np.sqrt(n) if n > 1 else values[..., 0] * np.nan
    )


def mean_and_error(by_output: Sequence[Array]) -> tuple[float, float]:
    """The mean of values per query, one array for each output, and its standard error."""
    score = float(np.mean([values.mean() for values in by_output]))
    n = min(len(values) for values in by_output)
    spread = np.mean([values.std(ddof=1) for values in by_output]) if n > 1 else np.nan
    return score, float(spread / np.sqrt(n))


GREATER_IS_BETTER = {name: each.greater_is_better for name, each in COMPARISON_METRICS.items()}
"""Metrics of held-out comparisons, and whether greater values are better."""
SLOPE_FOLDS = 5


@dataclass(frozen=True, eq=False)
class ObservedComparisons:
    """Outcomes of comparisons.

    Attributes
    ----------
    margin, weight : ndarray of shape (n,)
    codes : ndarray of shape (n,)
        The group of each comparison; comparisons of different groups are independent.
    """

    margin: Array
    weight: Array
    codes: Index

    def score(
        self, metric: str, difference: Array, probability: Array | None
    ) -> tuple[float, float]:
        """A metric of predictions, and its standard error over groups."""
        return clustered_mean(self.values(metric, difference, probability), self.weight, self.codes)

    def values(self, metric: str, difference: Array, probability: Array | None) -> Array:
        """The accuracy, loss or error of each comparison."""
        found = COMPARISON_METRICS[metric]
        predicted = probability if found.of == "probability" else difference
        return np.asarray(found.function(self.margin, predicted))

    def probability(self, difference: Array) -> Array:
        """P(first wins), by a logistic function whose slope was fitted to other groups."""
        _, codes = np.unique(self.codes, return_inverse=True)
        n_folds = min(SLOPE_FOLDS, int(codes.max()) + 1)
        if n_folds < 2:
            return self._chance(difference, np.ones(len(codes), dtype=bool))
        out = np.empty(len(codes))
        for k in range(n_folds):
            test = codes % n_folds == k
            out[test] = self._chance(difference, ~test)[test]
        return out

    def _chance(self, difference: Array, train: Array) -> Array:
        slope = logistic_slope(difference[train], self.margin[train], self.weight[train])
        return np.asarray(expit(slope * difference))

    def calibration_error(self, probability: Array) -> float:
        """See `rankwise.metrics.comparison_metrics.calibration_error`."""
        return calibration_error(self.margin, probability, self.weight)

    def baselines(self) -> dict[str, tuple[Array, Array]]:
        """Differences and probabilities of a random guess, and of "the first one wins".

        The second uses the observed share of wins of the first.
        """
        ones = np.ones(len(self.margin))
        total = float(self.weight.sum())
        share = float(self.weight @ outcomes(self.margin)) / total if total > 0 else 0.5
        return {"random": (0.0 * ones, 0.5 * ones), "first wins": (ones, share * ones)}


def logistic_slope(differences: Array, margin: Array, weight: Array) -> float:
    """The slope of greatest likelihood, at least 0; a margin of 0 is half a win for each row.

    As in Platt's paper, outcomes are 1 - 1 / (n + 2) instead of 1, so that the slope is finite.
    """
    n = np.count_nonzero(weight > 0)
    target = 0.5 + 0.5 * np.sign(margin) * n / (n + 2.0)
    scale = float(np.abs(differences).max(initial=0.0))
    if scale == 0.0:
        return 0.0
    d = differences / scale

    def slope(a: float) -> float:
        """Derivative of minus the log-likelihood."""
        return float((weight * d) @ (expit(a * d) - target))

    high = 1.0
    if slope(0.0) >= 0.0:
        return 0.0
    while slope(high) < 0.0 and high < 1e12:
        high *= 2.0
    return float(brentq(slope, 0.0, high)) / scale if slope(high) > 0.0 else high / scale
