"""What tune shows: tables, a picture, or a page with both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankwise.cli.tune.study import Study, Trial
from rankwise.plots import figure_svg, plot_hold_out, save_figure
from rankwise.report import Column, Figure, Page, Section, Table, Text

CURVES = 4  # as many as the colours tell apart


def settings_table(study: Study) -> Table:
    """Each setting at its best alpha; where there is only one setting, all of its alphas."""
    if len(study.trials) == 1:
        return alphas_table(study, study.best, title=str(study.hold_out))
    rows = tuple(
        (
            *(trial.setting[name] for name in study.varied),
            trial.alpha,
            trial.values[trial.best],
            trial.result.standard_error[trial.best],
            "chosen" if trial is study.best else "",
        )
        for trial in study.trials
    )
    columns = (
        *(Column(name, ".4g") for name in study.varied),
        Column("alpha", ".4g"),
        Column(study.hold_out.metric),
        Column("s.e."),
        Column("", ""),
    )
    chosen = study.trials.index(study.best), len(study.varied) + 1
    return Table(columns, rows, str(study.hold_out), best=frozenset({chosen}))


def alphas_table(study: Study, trial: Trial, *, title: str) -> Table:
    """Every alpha of one setting."""
    values: Any = zip(
        trial.result.alphas.tolist(),
        trial.values.tolist(),
        trial.result.standard_error.tolist(),
        strict=True,
    )
    rows = tuple((*row, "chosen" if i == trial.best else "") for i, row in enumerate(values))
    columns = Column("alpha", ".4g"), Column(study.hold_out.metric), Column("s.e."), Column("", "")
    return Table(columns, rows, title, best=frozenset({(trial.best, 1)}))


def write_picture(study: Study, path: Path, train: Path) -> None:
    """The best settings at every alpha, as the suffix says: .svg, .png, .pdf or .html."""
    curves = {study.words(trial): trial.result for trial in study.ranked[:CURVES]}
    single = len(study.trials) == 1
    ax = plot_hold_out(study.best.result if single else curves, quantity=study.hold_out.quantity)
    if path.suffix.lower() != ".html":
        save_figure(ax.figure, path)
        return
    best, metric = study.best, study.hold_out.metric
    value = f"{best.values[best.best]:.4f} ± {best.result.standard_error[best.best]:.4f}"
    chosen = ", ".join(filter(None, (study.words(best), f"alpha {best.alpha:.4g}")))
    caption = "Values for rows that were held out; bands of one standard error."
    if len(study.trials) > CURVES:
        caption += f" The best {CURVES} of {len(study.trials)} settings."
    figure = Figure(
        figure_svg(ax.figure),
        alt=f"{metric} of held-out rows against alpha. The best: {chosen}, with {value}.",
        caption=caption,
    )
    tables: list[Any] = [settings_table(study)]
    if not single:
        tables.append(alphas_table(study, best, title=f"Every alpha with {study.words(best)}"))
    Page(
        f"Tuning on {train.name}",
        f"{study.hold_out}: {metric} is best with {chosen}, {value}.",
        [
            Section("", [figure]),
            Section("All that was tried", tables),
            Section(
                "The model",
                [Text(f"`{best.ranker}`, alpha = {best.alpha:.4g}, fitted to all rows.")],
            ),
        ],
        footer=_footer(),
    ).write(path)


def _footer() -> str:
    from rankwise import __version__

    return f"Made by `rankwise tune`, rankwise {__version__}."
