"""What tune tries, and how it judges that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from rankwise.cli.options import judge
from rankwise.data import LetorData
from rankwise.model_selection import (
    HeldOut,
    LeavePairOut,
    k_fold,
    leave_pair_out,
    leave_query_out,
)

PAIRWISE = {"disagreement": "error", "auc": "auc", "concordance": "auc"}
SEED = 0  # of the folds of rows, so that a command gives the same twice


@dataclass(frozen=True, eq=False)
class HoldOut:
    """Which rows are held out, and by what the predictions for them are judged.

    Queries, or `folds` of them; without queries, pairs of rows, or folds of rows.
    """

    data: LetorData
    metric: str
    relevant: float | None
    folds: int | None

    def __post_init__(self) -> None:
        judge(self.metric, self.relevant)  # raises where that makes no sense
        if self.has_queries:
            return
        if self.relevant is not None:
            raise typer.BadParameter(
                "This needs queries, and the file has a single ranking.",
                param_hint="'--relevant'",
            )
        if self.folds is None and self.metric.lower() not in PAIRWISE:
            raise typer.BadParameter(
                f"Without queries, pairs are held out, and judged by disagreement or auc. For "
                f"{self.metric} give --folds as well.",
                param_hint="'--metric'",
            )

    @cached_property
    def n_queries(self) -> int:
        return 1 if self.data.qid is None else len(np.unique(self.data.qid))

    @property
    def has_queries(self) -> bool:
        return self.n_queries > 1

    @property
    def quantity(self) -> str | None:
        """What to draw of a result: see `rankwise.plots.plot_hold_out`."""
        leaves_pairs = not self.has_queries and self.folds is None
        return PAIRWISE[self.metric.lower()] if leaves_pairs else None

    def __str__(self) -> str:
        rows = f"{len(self.data.y):,} rows"
        if self.has_queries:
            queries = f"{self.n_queries:,} queries, {rows}"
            if self.folds is None:
                return f"Leave-query-out over {queries}"
            return f"{self.folds} folds of whole queries out of {queries}"
        return (
            f"Leave-pair-out over {rows}" if self.folds is None else f"{self.folds} folds of {rows}"
        )

    def of(self, ranker: Any, alphas: Sequence[float]) -> HeldOut | LeavePairOut:
        """How well `ranker` does at each alpha."""
        X, y, qid = self.data.X, self.data.y, self.data.qid
        if not self.has_queries and self.folds is None:
            return leave_pair_out(ranker, X, y, alphas=alphas)
        if not self.has_queries:
            assert self.folds is not None
            result = k_fold(
                ranker, X, y, n_splits=self.folds, alphas=alphas, metric=self.metric,
                random_state=SEED,
            )  # fmt: skip
        else:
            result = leave_query_out(
                ranker, X, y, qid=qid, alphas=alphas, metric=self.metric, n_splits=self.folds
            )
            if self.relevant is not None:
                result = self._judged_again(result)
        # A prediction for every row and alpha is nothing to keep for every setting.
        return replace(result, predictions=np.empty((len(result.alphas), 0)))

    def _judged_again(self, result: HeldOut) -> HeldOut:
        """By the metric with its least relevant label."""
        function: Any = judge(self.metric, self.relevant)[0]
        values = np.array(
            [
                function(self.data.y, scores, self.data.qid, per_query=True).values
                for scores in result.predictions
            ]
        )
        spread = values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
        return replace(result, score=values.mean(axis=1), standard_error=spread)


@dataclass(frozen=True, eq=False)
class Trial:
    """A setting, as a ranker with it, and how that does at every alpha."""

    setting: dict[str, Any]
    ranker: Any
    result: HeldOut | LeavePairOut
    quantity: str | None

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
    def gain(self) -> float:
        """The best value, turned so that more is better."""
        of_held_out = isinstance(self.result, HeldOut) and self.result.greater_is_better
        sign = 1.0 if of_held_out or self.quantity == "auc" else -1.0
        return sign * float(self.values[self.best])


@dataclass(frozen=True, eq=False)
class Study:
    """All that was tried."""

    hold_out: HoldOut
    trials: tuple[Trial, ...]

    @cached_property
    def ranked(self) -> tuple[Trial, ...]:
        """The best first; of equals the one that was named first."""
        return tuple(sorted(self.trials, key=lambda trial: -trial.gain))

    @property
    def best(self) -> Trial:
        return self.ranked[0]

    @cached_property
    def varied(self) -> list[str]:
        """Names of the parameters that differ between trials."""
        return varied([trial.setting for trial in self.trials])

    def words(self, trial: Trial) -> str:
        """What sets a trial apart from the others."""
        return describe(trial.setting, self.varied)


def varied(settings: Sequence[dict[str, Any]]) -> list[str]:
    """Names of the parameters that differ between settings."""
    return [name for name in settings[0] if len({setting[name] for setting in settings}) > 1]


def describe(setting: dict[str, Any], names: Sequence[str]) -> str:
    """Some parameters of a setting, in words."""
    parts = ((name, setting[name]) for name in names if setting[name] is not None)
    return ", ".join(f"{n} {v:g}" if isinstance(v, float) else f"{n} {v}" for n, v in parts)
