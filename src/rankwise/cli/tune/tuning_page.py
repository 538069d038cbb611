"""The results of `rankwise tune`: tables, a picture, or a page with both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise import __version__
from rankwise.cli.tune.trials import Study, Trial
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


def settings_table(study: Study) -> Table:
    """Each setting at its best alpha; if there is only one setting, all of its alphas."""
    if len(study.trials) == 1:
        return alphas_table(study, study.best, title=str(study.plan))
    rows = [
        (*(trial.setting[name] for name in study.varied), *_row(trial, trial.best))
        for trial in study.trials
    ]
    return _table(study, rows, study.trials.index(study.best), str(study.plan), study.varied)


def alphas_table(study: Study, trial: Trial, *, title: str) -> Table:
    """Every alpha of one setting."""
    rows = [_row(trial, i) for i in range(len(trial.values))]
    return _table(study, rows, trial.best, title)


def _row(trial: Trial, i: int) -> tuple[float, float, float]:
    return trial.result.alphas[i], trial.values[i], trial.result.standard_error[i]


def _table(
    study: Study, rows: list[Any], chosen: int, title: str, varied: Sequence[str] = ()
) -> Table:
    names = [Column(name, ".4g") for name in (*varied, "alpha")]
    columns = (*names, Column(study.plan.metric), Column("s.e."), Column("", ""))
    marked = tuple((*row, "chosen" if i == chosen else "") for i, row in enumerate(rows))
    return Table(columns, marked, title, best=frozenset({(chosen, len(names))}))


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
                values[f"{study.label(trial)}, alpha {trial.alpha:.4g}"] = trial.by_query[
                    trial.best
                ]
    plot_differences_from_best(
        values, metric=study.plan.metric, greater_is_better=best.sign > 0, top=8, ax=ax
    )


def write_picture(study: Study, path: Path, train: Path) -> None:
    """Draw the best settings at every alpha, as a picture or, for .html, on a page with tables."""
    single = len(study.trials) == 1
    ax, *below = new_axes(1 if study.best.by_query is None else 2)
    if single:
        plot_hold_out(study.best.result, quantity=study.plan.quantity, ax=ax)
    else:
        curves = {study.label(trial): trial.result for trial in study.ranked[:CURVES]}
        if below:  # which has the intervals that compare settings: those of the differences
            curves = {name: _without_error(result) for name, result in curves.items()}
        plot_hold_out(curves, quantity=study.plan.quantity, ax=ax)
    if below:
        _plot_differences(study, below[0])
    if path.suffix.lower() != ".html":
        save_figure(ax.figure, path)
        return
    best, metric = study.best, study.plan.metric
    value = f"{best.values[best.best]:.4f} ± {best.result.standard_error[best.best]:.4f}"
    chosen = ", ".join(filter(None, (study.label(best), f"alpha {best.alpha:.4g}")))
    caption = "Scores of held-out rows."
    if single or not below:
        caption += " Bands of one standard error."
    if len(study.trials) > CURVES:
        caption += f" The best {CURVES} of {len(study.trials)} settings."
    if below:
        caption += (
            " Below: how far each is behind the best on the same queries, with 95% intervals. Open "
            "circles may be as good as the best."
        )
    figure = Figure(
        figure_svg(ax.figure),
        alt=f"{metric} of held-out rows against alpha. The best: {chosen}, with {value}.",
        caption=caption,
    )
    tables: list[Any] = [settings_table(study)]
    if not single:
        tables.append(alphas_table(study, best, title=f"Every alpha with {study.label(best)}"))
    model = Text(f"`{best.ranker}`, alpha = {best.alpha:.4g}, fitted to all rows.")
    Page(
        f"Tuning on {train.name}",
        f"{study.plan}: {metric} is best with {chosen}, {value}.",
        [
            Section("", [Text(line) for line in study.words()]),
            Section("", [figure]),
            Section("All settings", tables),
            Section("The model", [model]),
        ],
        footer=f"Made by `rankwise tune`, rankwise {__version__}.",
    ).write(path)
