"""The settings that `rankwise tune` tries, how it scores them, and its page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwise import __version__
from rankwise.cli.data_options import in_one_line
from rankwise.cli.options import SelectionOptions, refuse
from rankwise.data import LetorData
from rankwise.holdout.scores import given_words
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
from rankwise.plots import (
    figure_svg,
    new_axes,
    plot_differences_from_best,
    plot_hold_out,
    save_figure,
)
from rankwise.report import Column, Figure, Page, Section, Table, Text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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


CURVES = 4  # as many as there are colours
HOW_FAR = (
    "how far each is behind the best on the same queries, with 95% intervals. Open circles may be "
    "as good as the best."
)


def settings_table(study: Study, *, top: int | None = None) -> Table:
    """Each setting at its best alpha, best first; if there is only one setting, all of its alphas.

    `top` is the number of settings to show.
    """
    if len(study.trials) == 1:
        return alphas_table(study, study.best, title=str(study.plan))
    shown = study.ranked[:top]
    alphas = (Column("alpha", ".4g"),) if study.has_alpha else ()
    columns = (Column("setting", ""), *alphas, *_score_columns(study))
    rows = tuple(
        (
            study.label(trial),
            *((trial.alpha,) if alphas else ()),
            *_scores(study, trial, trial.best),
        )
        for trial in shown
    )
    count = f"The best {len(shown)} of {len(study.trials)} settings. "
    note = f"{count if len(shown) < len(study.trials) else ''}The first is chosen.{_remark(study)}"
    return Table(columns, rows, str(study.plan), note, frozenset({(0, 0)}))


def alphas_table(study: Study, trial: Trial, *, title: str) -> Table:
    """Every alpha of one setting."""
    if not study.has_alpha:
        columns = _score_columns(study)
        return Table(columns, (_scores(study, trial, 0),), title)
    columns = (Column("alpha", ".4g"), *_score_columns(study), Column("", ""))
    rows = tuple(
        (alpha, *_scores(study, trial, k), "chosen" if k == trial.best else "")
        for k, alpha in enumerate(trial.result.alphas.tolist())
    )
    note = _remark(study).strip()
    return Table(columns, rows, title, note, frozenset({(trial.best, 1)}))


def _score_columns(study: Study) -> tuple[Column, ...]:
    """The metric, and how far it is behind the best, if there are queries to compare it on."""
    behind = (Column("behind"),) if study.is_paired else ()
    return (Column(metric_label(study.plan.metric)), *behind, Column("s.e."))


def _scores(study: Study, trial: Trial, k: int) -> tuple[float | None, ...]:
    gap = study.behind(trial, k) if study.is_paired else None
    if gap is None:
        return trial.values[k], trial.result.standard_error[k]
    is_best = trial is study.best and k == trial.best
    return trial.values[k], gap.difference, None if is_best else gap.standard_error


def _remark(study: Study) -> str:
    if not study.is_paired:
        return ""
    return (
        " behind: how far each is behind the best on the same queries; s.e.: the standard error of "
        "this difference."
    )


def _without_error(result: Any) -> Any:
    return replace(result, standard_error=np.full_like(result.standard_error, np.nan))


def _plot_differences(study: Study, ax: Axes) -> None:
    """Settings at their best alpha, or the alphas of a single setting, query by query."""
    best = study.best
    values: dict[str, Any] = {}
    if len(study.trials) == 1 and best.by_query is not None:
        values = {
            f"alpha {alpha:.4g}": row
            for alpha, row in zip(best.result.alphas, best.by_query, strict=True)
        }
    else:
        for trial in study.ranked:
            if trial.by_query is not None:
                values[study.named(trial)] = trial.by_query[trial.best]
    plot_differences_from_best(
        values, metric=study.plan.metric, greater_is_better=best.sign > 0, top=8, ax=ax
    )


def write_picture(study: Study, path: Path, train: Path) -> None:
    """Draw the best settings at every alpha, as a picture or, for .html, on a page with tables."""
    drawn, caption = _curves(study) if study.has_alpha else _differences(study)
    if path.suffix.lower() != ".html":
        save_figure(drawn, path)
        return
    best, metric = study.best, metric_label(study.plan.metric)
    value = f"{best.values[best.best]:.4f} ± {best.result.standard_error[best.best]:.4f}"
    chosen, against = study.named(best), " against alpha" if study.has_alpha else ""
    figure = Figure(
        figure_svg(drawn),
        alt=f"{metric} of held-out rows{against}. The best: {chosen}, with {value}.",
        caption=caption,
    )
    tables: list[Any] = [settings_table(study)]
    if len(study.trials) > 1 and study.has_alpha:
        tables.append(alphas_table(study, best, title=f"Every alpha with {study.label(best)}"))
    alpha = f", alpha = {best.alpha:.4g}" if study.has_alpha else ""
    Page(
        f"Tuning on {train.name}",
        f"{study.plan}: {metric} is best with {chosen}, {value}.",
        [
            Section("", [Text(line) for line in study.words()]),
            Section("", [figure]),
            Section("All settings", tables),
            Section(
                "The model", [Text(f"`{in_one_line(best.ranker)}`{alpha}, fitted to all rows.")]
            ),
        ],
        footer=f"Made by `rankwise tune`, rankwise {__version__}.",
    ).write(path)


def _curves(study: Study) -> tuple[Any, str]:
    """The best settings at every alpha, and their differences; with a caption."""
    single = len(study.trials) == 1
    ax, *below = new_axes(1 if study.best.by_query is None else 2)
    if single:
        plot_hold_out(study.best.result, quantity=study.plan.quantity, ax=ax)
    else:
        curves = {study.label(trial): trial.result for trial in study.ranked[:CURVES]}
        if below:  # which has the intervals that compare settings: those of the differences
            curves = {name: _without_error(result) for name, result in curves.items()}
        plot_hold_out(curves, quantity=study.plan.quantity, ax=ax)
    caption = "Scores of held-out rows."
    if single or not below:
        caption += " Bands of one standard error."
    if len(study.trials) > CURVES:
        caption += f" The best {CURVES} of {len(study.trials)} settings."
    if below:
        _plot_differences(study, below[0])
        caption += f" Below: {HOW_FAR}"
    return ax.figure, caption


def _differences(study: Study) -> tuple[Any, str]:
    """How far the settings are behind the best, with a caption."""
    (ax,) = new_axes()
    _plot_differences(study, ax)
    return ax.figure, f"{HOW_FAR[0].upper()}{HOW_FAR[1:]}"
