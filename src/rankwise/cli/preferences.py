"""rankwise preferences: from a table of comparisons to a trusted ranking and a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankwise.cli.options import Force, input_argument, option, refuse
from rankwise.cli.output_files import check_writable
from rankwise.cli.terminal import interruptible, note, say, show

KERNELS = ("auto", "linear", "rbf")


def preferences(
    items: Annotated[
        Path,
        input_argument(
            metavar="ITEMS",
            help="CSV file with an id and features of each item; or, alone, with a prompt and "
            "features chosen_... and rejected_... in each line.",
        ),
    ],
    comparisons: Annotated[
        Path | None,
        input_argument(
            metavar="[COMPARISONS]", help="CSV file with two items and an outcome in each line."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="MODEL", help="Where to write the model."),
    ] = None,
    report: Annotated[
        Path | None, option("FILE", "Where to write a page with tables and pictures, as .html.")
    ] = None,
    force: Force = False,
    item: Annotated[
        str | None, option("COLUMN", "Ids in ITEMS.", "id, item, name or the first")
    ] = None,
    first: Annotated[str | None, option("COLUMN", "First items.", "first, a, ...")] = None,
    second: Annotated[str | None, option("COLUMN", "Second items.", "second, b, ...")] = None,
    outcome: Annotated[
        str | None,
        option("COLUMN", "win, tie, loss; 1, 0.5, 0; or the winner's id.", "outcome, ..."),
    ] = None,
    weight: Annotated[str | None, option("COLUMN", "Weights.", "weight or count, if any")] = None,
    group: Annotated[
        str | None,
        option("COLUMN", "Groups that are held out together.", "group, prompt, rater, ..., if any"),
    ] = None,
    context: Annotated[
        str | None,
        option("COLUMN,...", "Features of the comparison itself.", "columns context_..., if any"),
    ] = None,
    kernel: Annotated[
        str,
        option("NAME", "Kernels to try: auto, linear or rbf.", autocompletion=lambda: KERNELS),
    ] = "auto",
    top: Annotated[int, option("N", "Print the N best items.", min=1)] = 10,
) -> None:
    """Rank items from comparisons: who beat whom, and what that says about others.

    Chooses a kernel and the strength of regularization by exact hold-outs: every comparison, or
    every group of comparisons such as those of a prompt or a rater, is predicted by rankers
    trained without it. Prints how well that works, beside a random guess and "the first one wins";
    how well two new items would be compared; and the ranking of the items, with intervals if there
    are at most 300.

    Groups are never split. A column context_position, with 1 if the first item was shown on the
    left and -1 otherwise, gets a weight of its own, which is not part of the scores of items.

    \b
    Examples:
      rankwise preferences items.csv votes.csv
      rankwise preferences items.csv votes.csv --group rater --report page.html -o model.rankwise
      rankwise preferences answers.csv   (prompt, chosen_length, rejected_length, ...)
    """
    for path in (out, report):
        if path is not None:
            check_writable(path, items, comparisons, force=force)
    if report is not None and report.suffix.lower() != ".html":
        refuse("report", f"The page ends with .html: got {report.name!r}.")
    if kernel not in KERNELS:
        refuse("kernel", f"Choose from {', '.join(KERNELS)}: got {kernel!r}.")
    from rankwise.data import read_comparisons

    columns = {"item": item, "first": first, "second": second, "outcome": outcome}
    columns |= {"weight": weight, "group": group}
    if comparisons is None:
        given = next((name for name, value in columns.items() if value is not None), None)
        if given is not None or context is not None:
            refuse(given or "context", "It needs two files, ITEMS and COMPARISONS.")
    listed = [name.strip() for name in (context or "").split(",") if name.strip()]
    data = read_comparisons(items, comparisons, context=listed, **columns)
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
        if data.comparisons.items is not None:
            print()
            show(study.ranking_table(min(top, len(data.X))))
        for table in (study.feature_table(), study.context_table()):
            if table is not None:
                print()
                show(table)
    source = items.name if comparisons is None else comparisons.name
    if report is not None:
        write_page(study, report, source)
        note(f"Wrote {report}: open {report.resolve().as_uri()}")
    if out is not None:
        save_model(study.ranker, out)
        note(f"Wrote {out}: {study.ranker}, fitted to {len(data.comparisons):,} comparisons.")
    else:
        note("The model was not kept: give --out to write it to a file.")
