"""rankwise preferences: from a table of comparisons to a ranking and a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from rankwise.cli.data_options import split_names
from rankwise.cli.options import Force, InputArgument, Out, Positive, grouped, refuse
from rankwise.cli.terminal import (
    check_page,
    check_writable,
    interruptible,
    note,
    say,
    show,
)


@dataclass(frozen=True)
class ComparisonColumns:
    """Which column is what.

    Parameters
    ----------
    item : COLUMN, default=id, item, name or the first
        Ids in ITEMS.
    first : COLUMN, default=first, a, ...
        First items.
    second : COLUMN, default=second, b, ...
        Second items.
    outcome : COLUMN, default=outcome, ...
        win, tie, loss; 1, 0.5, 0; or the winner's id.
    weight : COLUMN, default=weight or count, if any
        Weights.
    group : COLUMN, default=group, prompt, rater, ..., if any
        Groups that are held out together.
    context : COLUMN,..., default=columns context_..., if any
        Features of the comparison itself.
    """

    item: str | None = None
    first: str | None = None
    second: str | None = None
    outcome: str | None = None
    weight: str | None = None
    group: str | None = None
    context: str | None = None


@grouped
def preferences(
    *,
    items: InputArgument,
    comparisons: Annotated[Path | None, typer.Argument(exists=True, dir_okay=False)] = None,
    out: Out = None,
    report: Path | None = None,
    force: Force = False,
    columns: ComparisonColumns,
    kernel: Literal["auto", "linear", "rbf"] = "auto",
    top: Positive = 10,
) -> None:
    """Rank items from comparisons, and predict the outcomes of new ones.

    Chooses a kernel and the strength of regularization by exact hold-outs. Each comparison, or each
    group of comparisons (of a prompt or a rater, for example), is predicted by rankers trained
    without it. Prints the accuracy of these predictions, beside a random guess and "the first one
    wins", the accuracy for pairs of new items, and the ranking of the items, with intervals if
    there are at most 300.

    Groups are never split. A column context_position, with 1 if the first item was shown on the
    left and -1 otherwise, gets a separate weight, which is not part of the scores of items.

    \b
    Examples:
      rankwise preferences items.csv votes.csv
      rankwise preferences items.csv votes.csv --group rater --report page.html -o model.rankwise
      rankwise preferences answers.csv   (prompt, chosen_length, rejected_length, ...)

    Parameters
    ----------
    items : ITEMS
        CSV file with an id and features of each item; or, alone, with a prompt and features
        chosen_... and rejected_... in each line.
    comparisons : [COMPARISONS]
        CSV file with two items and an outcome in each line.
    out : MODEL
        Where to write the model.
    report : FILE
        Where to write a page with tables and pictures, as .html.
    kernel : NAME
        Kernels to try: auto, linear or rbf.
    top : N
        Print the N best items.
    """
    check_page(report, items, comparisons, force=force)
    check_writable(out, items, comparisons, force=force)
    from rankwise.data import read_comparisons

    named = vars(columns)
    given = next((name for name, value in named.items() if value is not None), None)
    if comparisons is None and given is not None:
        refuse(given, "It needs two files, ITEMS and COMPARISONS.")
    named = named | {"context": split_names(columns.context) or []}
    data = read_comparisons(items, comparisons, **named)
    # These imports compile loops: only now, when all arguments are known to be valid.
    from rankwise.cli.preferences_page import KERNEL_ITEMS, PreferenceStudy, write_page
    from rankwise.persistence import save_model

    kernels: tuple[str, ...] = (kernel,)
    if kernel == "auto":
        kernels = ("linear", "rbf") if len(data.X) <= KERNEL_ITEMS else ("linear",)
        if len(data.X) > KERNEL_ITEMS:
            note(
                f"{len(data.X):,} items: only a linear ranker is tried. Use --kernel rbf for more."
            )
    with interruptible(f"Holding out {len(data.comparisons):,} comparisons"):
        study = PreferenceStudy.of(data, kernels)
        show(study.tried_table())
        print()
        for line in study.conclusions():
            say(line)
        ranking = None
        if data.comparisons.items is not None:
            ranking = study.ranking_table(min(top, len(data.X)))
        learned = [
            table for table in (ranking, study.feature_table(), study.context_table()) if table
        ]
        if learned:
            print()
            show(*learned)
    source = items.name if comparisons is None else comparisons.name
    if report is not None:
        write_page(study, report, source)
        note(f"Wrote {report}: open {report.resolve().as_uri()}")
    if out is not None:
        save_model(study.ranker, out)
        note(f"Wrote {out}: {study.ranker}, fitted to {len(data.comparisons):,} comparisons.")
    else:
        note("The model was not kept: give --out to write it to a file.")
