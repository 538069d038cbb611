"""The results of `rankwise auto`, in words and on a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise import __version__
from rankwise.report import Page, Section, Text

if TYPE_CHECKING:
    from rankwise.metrics import RankingEvaluation


def write_page(
    ranker: Any,
    path: Path,
    train: Path,
    test: Path | None,
    evaluation: RankingEvaluation | None,
) -> None:
    """All tables and conclusions on one page."""
    first, *others = conclusions(ranker)
    sections = [
        Section("", [Text(line) for line in others]),
        Section("The parts of the mean", [ranker.explain().to_table()]),
        Section("All that was tried", [ranker.results_.to_table()]),
    ]
    if evaluation is not None:
        sections.insert(1, Section(f"Evaluation on {test}", [evaluation.to_table()]))
    parts = [Text(f"{part.name}: `{part.ranker}`") for part in ranker.parts_]
    sections.append(Section("The model", parts))
    Page(
        f"The best ranker for {train.name}",
        first,
        sections,
        footer=f"Made by `rankwise auto`, rankwise {__version__}.",
    ).write(path)


def conclusions(ranker: Any) -> list[str]:
    """What to expect, what the mean gains, and whether the data could tell the best apart."""
    estimate, results, n_parts = ranker.score_estimate_, ranker.results_, len(ranker.parts_)
    lines = [
        f"Expected on new queries: {estimate}.",
        f"On the queries that it was chosen by, the mean has {estimate.optimistic:.4f}, which is "
        "optimistic.",
    ]
    if n_parts > 1:
        gain = ranker.gain_over_best_
        mean = f"On queries that neither was chosen by, the mean of {n_parts}"
        lines.append(gain.words(mean, "the best single ranker", estimate.metric))
    runner_up = results.runner_up
    if runner_up is not None:
        best, second, gap = runner_up
        lines.append(
            gap.words(f"The best single ranker ({best})", f"the next ({second})", estimate.metric)
        )
    return lines
