"""The page of `rankwise auto`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise import __version__
from rankwise.cli.auto.words import conclusions
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
