"""rankwise predict: scores of rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from rankwise.cli.input_files import note_scaling, read_data_for, read_model, scores_of
from rankwise.cli.options import FeaturesOption, FillOption, Force, ModelFile, input_argument
from rankwise.cli.output_files import check_writable

BLOCK = 10_000  # scores written at a time


def predict(
    model: ModelFile,
    data: Annotated[
        Path,
        input_argument(metavar="DATA", help="LETOR file; its labels are ignored."),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write scores here instead of to stdout."),
    ] = None,
    force: Force = False,
    fill: FillOption = None,
    features: FeaturesOption = None,
) -> None:
    """Score the rows of a LETOR file: one number per line, higher is better.

    Scores order the rows of the same query. They are written with all their digits. If the
    model scales features within queries, so does this command, by the query ids in DATA.

    LETOR files may leave out features that are 0. If DATA ends before the last feature of the
    model, the rest is read as 0, with a warning; if it has fewer than half of the features, they
    hardly belong together, and --features must confirm the number.

    \b
    Examples:
      rankwise predict model.rankwise test.txt --out scores.txt
      rankwise predict model.rankwise test.txt.gz | head
    """
    from rankwise.files import replacing

    if out is not None:
        check_writable(out, model, data, force=force)
    file = read_model(model)
    scores = scores_of(file, read_data_for(file, model, data, fill, features))
    if out is None:
        _write(scores, sys.stdout)
    else:
        with replacing(out) as beside, beside.open("w", encoding="ascii") as lines:
            _write(scores, lines)
    note_scaling(file.model)


def _write(scores: Any, file: TextIO) -> None:
    """Write block by block: one huge write may be cut short, and needs more memory."""
    for start in range(0, len(scores), BLOCK):
        block = scores[start : start + BLOCK].tolist()
        file.write("".join(f"{score!r}\n" for score in block))
