"""The results of `rankwise tune`: tables, a picture, or a page with both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise import __version__
from rankwise.cli.input_files import in_one_line
from rankwise.cli.tune.trials import Study, Trial
from rankwise.metric_names import metric_label
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
