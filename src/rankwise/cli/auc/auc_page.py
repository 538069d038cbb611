"""The page of `rankwise auc`."""

from __future__ import annotations

from pathlib import Path

from rankwise import __version__
from rankwise.cli.auc.auc_study import AUCStudy
from rankwise.plots import figure_svg, plot_hold_out, plot_null, plot_roc
from rankwise.report import Facts, Figure, Page, Section, Text

LISTED = 100  # features in the table of columns


def write_page(study: AUCStudy, path: Path, source: str) -> None:
    """The AUC with its interval, the pictures, a methods paragraph, and the columns."""
    first, *others = study.conclusions()
    nested = study.nested
    facts = [(f"{nested.auc:.3f}", f"nested AUC ({nested.low:.3f} to {nested.high:.3f})")]
    if study.interval is not None:
        auc = study.interval
        facts.insert(0, (f"{auc.auc:.3f}", f"AUC of all pairs ({auc.words()})"))
        facts.append((f"{auc.alpha:.3g}", "alpha"))
    if study.test is not None:
        facts.insert(1, (f"{study.test.p_value:.3g}", "p-value"))
    results = Section("", [Facts(tuple(facts)), *(Text(line) for line in others)])
    pictures: list[Section] = []
    scores = study.roc_scores()
    if scores is not None:
        figure = Figure(
            figure_svg(plot_roc(study.data.y, scores).figure),
            "True positive rate against false positive rate of held-out samples",
            "ROC curve of tournament scores: the share of held-out pairs that a sample wins. The "
            "band and the interval of its area have 95% of bootstrap samples.",
        )
        pictures.append(Section("ROC curve", [figure]))
    if study.test is not None:
        figure = Figure(
            figure_svg(plot_null(study.test).figure),
            "Histogram of the AUC with permuted labels, and the AUC of the given labels",
            "The AUC of held-out pairs for permuted labels.",
        )
        pictures.append(Section("By chance", [figure]))
    if study.curve is not None:
        figure = Figure(
            figure_svg(plot_hold_out(study.curve, quantity="auc").figure),
            "AUC of held-out pairs against alpha",
        )
        pictures.append(Section("Choice of alpha", [figure]))
    Page(
        f"AUC of {source}",
        first,
        [
            results,
            *pictures,
            Section("Methods", [Text(study.methods(source, __version__))]),
            Section("Columns", [study.columns_table(LISTED)]),
        ],
        footer=f"Made by `rankwise auc`, rankwise {__version__}.",
    ).write(path)
