"""Printable results of AutoRanker: what was tried, and what was chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.holdout.scores import given_words
from rankwise.metric_names import metric_label
from rankwise.model_selection.meta_rankers import PairedDifference
from rankwise.parameters import Whole, check_value
from rankwise.tables import Column, Table, TableMixin

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Part:
    """A ranker of the mean: its name, its weight, and the fitted ranker."""

    name: str
    weight: float
    ranker: Any


@dataclass(frozen=True, eq=False)
class AutoResults(TableMixin):
    """Every ranker that was tried, with every setting, and its held-out score.

    Print it or show it in a notebook to see each ranker at its best setting; `to_frame` returns all
    trials.

    Attributes
    ----------
    metric : str
    greater_is_better : bool
    names : list of str
        The ranker of each trial.
    alphas : ndarray of shape (n_trials,)
        Its alpha; NaN for rankers without one.
    scores : ndarray of shape (n_trials,)
        Held-out score, a mean over queries.
    behind, standard_errors : ndarray of shape (n_trials,)
        How far behind the best trial it is, a mean over the same queries, and the standard error of
        this difference.
    chosen : ndarray of bool, shape (n_trials,)
        Whether it is part of the mean.
    seconds : ndarray of shape (n_trials,)
        The time of the ranker, divided among its settings.
    left_out : list of str
        Rankers that were not tried, and why.
    n_queries : int
        Queries with a score; for one global ranking, folds of its rows.
    n_estimators : ndarray of shape (n_trials,), optional
        Its number of trees; NaN for other rankers. None if no trees were tried.
    shared : tuple of str
        What a ranker computed from all rows, held-out ones included, such as the "landmarks" of
        `SparseRankRLS`; see `rankwise.model_selection.HeldOutScores`.
    """

    metric: str
    greater_is_better: bool
    names: list[str]
    alphas: Array
    scores: Array
    behind: Array
    standard_errors: Array
    chosen: Any
    seconds: Array
    left_out: list[str]
    n_queries: int
    n_estimators: Array | None = None
    shared: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def best_trials(self) -> dict[str, int]:
        """The trial with the best setting of each ranker, best first."""
        best: dict[str, int] = {}
        for k in np.argsort(self.behind, kind="stable").tolist():
            best.setdefault(self.names[k], k)
        return best

    @property
    def runner_up(self) -> tuple[str, str, PairedDifference] | None:
        """The best ranker, the next, and their difference; None if only one was tried."""
        if len(self.best_trials) < 2:
            return None
        (best, _), (second, k) = list(self.best_trials.items())[:2]
        error = float(self.standard_errors[k])
        return best, second, PairedDifference(float(self.behind[k]), error, self.n_queries)

    def to_table(self) -> Table:
        """Each ranker at its best setting, best first."""
        setting = "alpha" if self.n_estimators is None else "alpha or trees"
        columns = [Column("ranker", ""), Column(setting, ".3g"), Column(metric_label(self.metric))]
        columns += [Column("behind best"), Column("s.e."), Column("seconds", ".2f")]
        rows = []
        for name, k in self.best_trials.items():
            same = np.array([other == name for other in self.names])
            scores = self.scores[k], self.behind[k], self.standard_errors[k]
            is_part = "yes" if (self.chosen & same).any() else ""
            rows.append((name, self._setting(k), *scores, self.seconds[same].sum(), is_part))
        notes = ["The best of many scores is optimistic. What to expect is estimated separately."]
        if self.shared:
            notes.append(f"Scores of some rankers are{given_words(self.shared)[1:]}.")
        notes += [f"Not tried: {line}" for line in self.left_out]
        columns.append(Column("in the mean", ""))
        note, best = "\n".join(notes), frozenset({(0, 2)})
        return Table(tuple(columns), tuple(rows), note=note, best=best)

    def plot(self, *, top: int = 10, ax: Axes | None = None) -> Axes:
        """Draw how far each ranker, at its best setting, is behind the best of all.

        Differences are paired and have 95% intervals, as in
        `rankwise.plots.plot_differences_from_best`.

        Parameters
        ----------
        top : int, default=10
            How many rankers to show.
        ax : matplotlib Axes, optional
        """
        from rankwise.plots.bars import draw_differences

        check_value("top", top, Whole(1))
        best = self.best_trials
        shown = list(best.values())[:top]
        labels = [f"{self.names[k]}: {self.scores[k]:.3f}" for k in shown]
        return draw_differences(
            labels, self.behind[shown], self.standard_errors[shown], self.metric, len(best), ax
        )

    def _setting(self, k: int) -> float:
        """The alpha of a trial, or its number of trees; NaN if it has neither."""
        alpha = float(self.alphas[k])
        if self.n_estimators is None or not np.isnan(alpha):
            return alpha
        return float(self.n_estimators[k])

    def _frame_columns(self) -> dict[str, Any]:
        return {
            "ranker": self.names,
            "alpha": self.alphas,
            **({} if self.n_estimators is None else {"n_estimators": self.n_estimators}),
            "score": self.scores,
            "behind": self.behind,
            "standard_error": self.standard_errors,
            "chosen": self.chosen,
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        return f"<AutoResults: {len(set(self.names))} rankers, {len(self)} trials>"


@dataclass(frozen=True, eq=False)
class Explanation(TableMixin):
    """Which parts carry the score of a mean, by held-out predictions.

    Attributes
    ----------
    metric : str
    score : float
        Of the mean of all parts.
    names : list of str
    weights : ndarray of shape (n_parts,)
    alone : ndarray of shape (n_parts,)
        Score of each part alone.
    without : ndarray of shape (n_parts,)
        Score of the mean of the other parts; NaN if there is no other.
    correlations : ndarray of shape (n_parts,)
        Correlation of the scores of a part and of the mean within queries.
    """

    metric: str
    score: float
    names: list[str]
    weights: Array
    alone: Array
    without: Array
    correlations: Array

    def to_table(self) -> Table:
        """A row for each part, and one for the mean."""
        names = "part", "weight", f"{metric_label(self.metric)} alone", "mean without it"
        formats = "", ".3f", ".4f", ".4f", ".3f"
        columns = tuple(map(Column, (*names, "correlation"), formats))
        rows = list(zip(*self._frame_columns().values(), strict=True))
        rows.append(("mean of all", 1.0, self.score, None, 1.0))
        return Table(columns, tuple(rows))

    def _frame_columns(self) -> dict[str, Any]:
        return {
            "part": self.names,
            "weight": self.weights,
            "alone": self.alone,
            "without": self.without,
            "correlation": self.correlations,
        }

    def __repr__(self) -> str:
        return f"<Explanation of {len(self.names)} parts>"
