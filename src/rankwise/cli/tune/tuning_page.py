"""The results of `rankwise tune`: tables, a picture, or a page with both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rankwise import __version__
from rankwise.cli.tune.trials import Study, Trial
from rankwise.plots import figure_svg, plot_hold_out, save_figure
from rankwise.report import Column, Figure, Page, Section, Table, Text

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


def write_picture(study: Study, path: Path, train: Path) -> None:
    """Draw the best settings at every alpha, as a picture or, for .html, on a page with tables."""
    single = len(study.trials) == 1
    curves = {study.label(trial): trial.result for trial in study.ranked[:CURVES]}
    ax = plot_hold_out(study.best.result if single else curves, quantity=study.plan.quantity)
    if path.suffix.lower() != ".html":
        save_figure(ax.figure, path)
        return
    best, metric = study.best, study.plan.metric
    value = f"{best.values[best.best]:.4f} ± {best.result.standard_error[best.best]:.4f}"
    chosen = ", ".join(filter(None, (study.label(best), f"alpha {best.alpha:.4g}")))
    caption = "Scores of held-out rows; bands of one standard error."
    if len(study.trials) > CURVES:
        caption += f" The best {CURVES} of {len(study.trials)} settings."
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
