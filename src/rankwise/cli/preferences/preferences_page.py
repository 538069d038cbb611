"""The page of `rankwise preferences`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rankwise import __version__
from rankwise.cli.preferences.study import PreferenceStudy
from rankwise.plots import figure_svg, plot_hold_out, plot_item_ranking, plot_reliability
from rankwise.report import Facts, Figure, Page, Section, Text

SHOWN = 30  # items in the picture of the ranking


def write_page(study: PreferenceStudy, path: Path, source: str) -> None:
    """Accuracy, calibration, the ranking of items, and what the features say."""
    first, *others = study.conclusions()
    accuracy, error = study.honest_score("accuracy")
    loss, _ = study.honest_score("log_loss")
    brier, _ = study.honest_score("brier")
    observed, chance = study.honest
    facts = Facts(
        (
            (f"{accuracy:.3f} ± {1.96 * error:.3f}", "accuracy, 95% interval"),
            (f"{loss:.3f}", f"log-loss ({np.log(2):.3f} at random)"),
            (f"{brier:.3f}", "Brier score (0.25 at random)"),
            (f"{observed.calibration_error(chance):.3f}", "calibration error"),
        )
    )
    sections = [
        Section("", [facts, *(Text(line) for line in others)]),
        Section("Are the probabilities right?", [_reliability(study)]),
        Section("What was tried", [study.tried_table(), _curves(study)]),
    ]
    if study.data.comparisons.items is not None:
        blocks = [] if study.process is None else [_ranking(study)]
        sections.append(Section("The ranking", [*blocks, study.ranking_table(None)]))
    told = [table for table in (study.feature_table(), study.context_table()) if table is not None]
    if told:
        sections.append(Section("What the ranker has learned", told))
    Page(
        f"Preferences in {source}",
        first,
        sections,
        footer=f"Made by `rankwise preferences`, rankwise {__version__}.",
    ).write(path)


def _reliability(study: PreferenceStudy) -> Figure:
    observed, chance = study.honest
    decided = (observed.margin != 0) & (observed.weight > 0)
    margin, p = observed.margin[decided], chance[decided]
    ahead = p >= 0.5
    ax = plot_reliability(
        np.where(ahead, margin > 0, margin < 0),
        np.where(ahead, p, 1.0 - p),
        n_bins=max(2, min(10, int(decided.sum()) // 10)),
        data="held-out comparisons",
    )
    return Figure(
        figure_svg(ax.figure),
        "Observed frequency of wins against the predicted probability",
        "The predicted winner of each held-out comparison: its probability, and how often it won. "
        "Ties are left out.",
    )


def _curves(study: PreferenceStudy) -> Figure:
    ax = plot_hold_out(study.trials, ylabel="held-out log-loss (± s.e.)")
    return Figure(figure_svg(ax.figure), "Log-loss against alpha, for each kernel")


def _ranking(study: PreferenceStudy) -> Figure:
    ax = plot_item_ranking(study.process, study.standardized, names=study.data.names, top=SHOWN)
    return Figure(
        figure_svg(ax.figure),
        "Scores of items with intervals, from best to worst",
        f"At most {SHOWN} items. The numbers on the right are 95% of the ranks of each item.",
    )
