"""The settings that `rankwise tune` tries, and how it scores them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.cli.options import SelectionOptions, refuse
from rankwise.data import LetorData
from rankwise.holdout.held_out_scores import given_words
from rankwise.metric_names import metric_label
from rankwise.model_selection import (
    HeldOut,
    LeavePairOut,
    PairedDifference,
    k_fold,
    leave_pair_out,
    leave_query_out,
)
from rankwise.model_selection.search.labelled_rows import LabelledRows
from rankwise.model_selection.search.refits import refit
from rankwise.model_selection.search.splits import make_splits

REFITS = 5  # folds of rankers that have to be refitted, unless --folds says otherwise
PAIRWISE = {"disagreement": "error", "auc": "auc", "concordance": "auc"}
SEED = 0  # for folds of rows, so that a command always gives the same result


@dataclass(frozen=True, eq=False)
class HoldOutPlan:
    """Which rows are held out, and the metric that scores their predictions.

    Queries, or `folds` of them; without queries, pairs of rows, or folds of rows. Rankers that have
    no exact hold-outs are `refitted` for each fold.
    """

    data: LetorData
    selection: SelectionOptions
    folds: int | None
    refitted: bool = False

    def __post_init__(self) -> None:
        self.selection.metric_function()  # raises an error where its options do not fit together
        if self.has_queries:
            return
        if self.selection.relevant is not None:
            refuse("relevant", "This needs queries, and the file has a single ranking.")
        if self.leaves_pairs and self.metric.lower() not in PAIRWISE:
            refuse(
                "metric",
                f"Without queries, pairs are held out, and the metric is disagreement or auc. For "
                f"{self.metric} give --folds as well.",
            )

    @property
    def metric(self) -> str:
        return self.selection.metric_name

    @cached_property
    def n_queries(self) -> int:
        return 1 if self.data.qid is None else len(np.unique(self.data.qid))

    @property
    def has_queries(self) -> bool:
        return self.n_queries > 1

    @property
    def leaves_pairs(self) -> bool:
        return not self.has_queries and self.folds is None

    @property
    def quantity(self) -> str | None:
        """The `quantity` to plot, as in `rankwise.plots.plot_hold_out`."""
        return PAIRWISE[self.metric.lower()] if self.leaves_pairs else None

    def __str__(self) -> str:
        rows = f"{len(self.data.y):,} rows"
        if self.has_queries:
            queries = f"{self.n_queries:,} queries, {rows}"
            if self.folds is None:
                return f"Leave-query-out over {queries}"
            return f"{self.folds} folds of whole queries out of {queries}"
        return (
            f"Leave-pair-out over {rows}" if self.leaves_pairs else f"{self.folds} folds of {rows}"
        )

    def score(
        self, ranker: Any, alphas: Sequence[float]
    ) -> tuple[HeldOut | LeavePairOut, NDArray[np.float64] | None]:
        """The held-out score of `ranker` at each alpha, and its values on each query, if any."""
        X, y, qid = self.data.X, self.data.y, self.data.qid
        if self.refitted:
            return self._score_refits(ranker, alphas)
        if self.leaves_pairs:
            return leave_pair_out(ranker, X, y, alphas=alphas), None
        values = None
        if self.folds is not None and not self.has_queries:
            result = k_fold(
                ranker, X, y, n_splits=self.folds, alphas=alphas, metric=self.metric,
                random_state=SEED,
            )  # fmt: skip
        else:
            result = leave_query_out(
                ranker, X, y, qid=qid, alphas=alphas, metric=self.metric, n_splits=self.folds
            )
            values = self._by_query(result)
            if self.selection.relevant is not None:
                spread = values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
                result = replace(result, score=values.mean(axis=1), standard_error=spread)
        # Drop the predictions: one per row and alpha is too much to keep for every setting.
        return replace(result, predictions=np.empty((len(result.alphas), 0))), values

    def _score_refits(
        self, ranker: Any, alphas: Sequence[float]
    ) -> tuple[HeldOut, NDArray[np.float64]]:
        """Scores of refitted rankers; the values of folds of rows if there are no queries."""
        data = LabelledRows.of(self.data.X, self.data.y, self.data.qid)
        splits = make_splits(self.folds, data, None if self.has_queries else SEED)
        rows = splits.rows
        groups = data.groups.codes[rows] if self.has_queries else splits.split_of_row
        metric, greater_is_better = self.selection.metric_function()
        path = None if np.isnan(alphas).any() else list(alphas)  # NaN: there is no alpha
        parts = [refit(ranker, path, data, splits, k).scores for k in range(len(splits))]
        values = [
            metric(data.y[rows], scores, groups, per_query=True).values
            for scores in np.concatenate(parts, axis=1)
        ]
        by_query = np.array(values)
        spread = by_query.std(axis=1, ddof=1) / np.sqrt(by_query.shape[1])
        score, nothing = by_query.mean(axis=1), np.empty((len(values), 0))
        found = HeldOut(np.array(alphas), score, spread, self.metric, greater_is_better, nothing)
        return found, by_query

    def _by_query(self, result: HeldOut) -> NDArray[np.float64]:
        """The metric on each query, for each alpha."""
        metric, _ = self.selection.metric_function()
        return np.array(
            [
                metric(self.data.y, scores, self.data.qid, per_query=True).values
                for scores in result.predictions
            ]
        )


@dataclass(frozen=True, eq=False)
class Trial:
    """One setting: its parameters, a ranker with them, and its score at every alpha.

    `by_query` has the values behind the scores, a row for each alpha; None if there are no queries.
    """

    setting: dict[str, Any]
    ranker: Any
    result: HeldOut | LeavePairOut
    quantity: str | None
    by_query: NDArray[np.float64] | None

    @property
    def values(self) -> NDArray[np.float64]:
        if isinstance(self.result, HeldOut):
            return self.result.score
        return self.result.auc if self.quantity == "auc" else self.result.error

    @property
    def best(self) -> int:
        return self.result.best_index

    @property
    def alpha(self) -> float:
        return self.result.best_alpha

    @property
    def sign(self) -> float:
        """-1 where lower values are better."""
        greater = isinstance(self.result, HeldOut) and self.result.greater_is_better
        return 1.0 if greater or self.quantity == "auc" else -1.0

    @property
    def gain(self) -> float:
        """The best value, with its sign changed where lower is better."""
        return self.sign * float(self.values[self.best])


@dataclass(frozen=True, eq=False)
class Study:
    """All trials of one command, and the names of the parameters that differ between them."""

    plan: HoldOutPlan
    varied: list[str]
    trials: tuple[Trial, ...]

    @cached_property
    def ranked(self) -> tuple[Trial, ...]:
        """The trials, best first; equal ones in the order in which they were tried."""
        return tuple(sorted(self.trials, key=lambda trial: -trial.gain))

    @property
    def best(self) -> Trial:
        return self.ranked[0]

    @property
    def has_alpha(self) -> bool:
        """Whether the rankers have an alpha."""
        return not np.isnan(self.best.alpha)

    @property
    def is_paired(self) -> bool:
        """Whether scores can be compared query by query."""
        return self.best.by_query is not None and self.n_scores > 1

    def label(self, trial: Trial) -> str:
        """The parameters in which a trial differs from others."""
        return _label(trial.setting, self.varied)

    def named(self, trial: Trial, k: int | None = None) -> str:
        """A trial with its best alpha, or with alpha k."""
        alpha = trial.result.alphas[trial.best if k is None else k]
        parts = self.label(trial), f"alpha {alpha:.4g}" if self.has_alpha else ""
        return ", ".join(filter(None, parts))

    def behind(self, trial: Trial, k: int) -> PairedDifference | None:
        """How far a trial with alpha k is behind the best, query by query; None without queries."""
        best = self.best
        if best.by_query is None or trial.by_query is None:
            return None
        return PairedDifference.of(best.sign * (best.by_query[best.best] - trial.by_query[k]))

    @property
    def n_scores(self) -> int:
        """The number of settings and alphas that were compared."""
        return sum(len(trial.values) for trial in self.trials)

    def runner_up(self) -> tuple[str, PairedDifference | None]:
        """The next best setting or, if there is only one, the next best alpha of it.

        With how much better the best is, by the difference over queries, if there are any.
        """
        best = self.best
        if len(self.trials) > 1:
            other = self.ranked[1]
            k = other.best
        else:
            gains = best.sign * best.values
            gains[best.best] = -np.inf
            other, k = best, int(np.argmax(gains))
        return self.named(other, k), self.behind(other, k)

    def words(self) -> list[str]:
        """The choice, how far it is from the runner-up, and what its score is worth."""
        best = self.best
        value, error = best.values[best.best], best.result.standard_error[best.best]
        chosen = f"{self.named(best) or 'The ranker'}: {metric_label(self.plan.metric)} {value:.4f}"
        given = given_words(best.result.shared)
        lines = [f"{chosen}, with a standard error of {error:.4f}{given}."]
        if self.n_scores == 1:
            return lines
        name, gap = self.runner_up()
        if gap is not None:
            lines.append(gap.words("The best", f"the next ({name})", self.plan.metric))
        optimistic = (
            f"The best of {self.n_scores} scores is optimistic: expect less on new queries."
        )
        return [*lines, optimistic]


def run_trials(
    plan: HoldOutPlan,
    rankers: Sequence[tuple[dict[str, Any], Any]],
    alphas: Sequence[float],
    progress: Callable[..., None],
) -> Study:
    """Score every ranker, given with its setting, at every alpha."""
    settings = [setting for setting, _ in rankers]
    varied = [name for name in settings[0] if len({setting[name] for setting in settings}) > 1]
    trials = []
    for done, (setting, ranker) in enumerate(rankers):
        progress(done, len(rankers), _label(setting, varied))
        result, by_query = plan.score(ranker, alphas)
        trials.append(Trial(setting, ranker, result, plan.quantity, by_query))
    return Study(plan, varied, tuple(trials))


def _label(setting: dict[str, Any], names: Sequence[str]) -> str:
    parts = ((name, setting[name]) for name in names if setting[name] is not None)
    return ", ".join(f"{n} {v:g}" if isinstance(v, float) else f"{n} {v}" for n, v in parts)
