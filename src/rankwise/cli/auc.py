"""rankwise auc: from a table of samples to an AUC that can be reported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rankwise.cli.data_options import split_names
from rankwise.cli.options import Force, InputArgument, Seed, grouped, refuse
from rankwise.cli.terminal import check_page, check_writable, interruptible, note, say, show

SHOWN = 10  # features in the printed table of columns


@grouped
def auc(
    *,
    samples: InputArgument,
    label: Annotated[str, typer.Option()],
    positive: str | None = None,
    stratum: str | None = None,
    group: str | None = None,
    ignore: str | None = None,
    missing: Literal["refuse", "drop-rows", "drop-columns", "median"] = "refuse",
    kernel: Literal["linear", "rbf"] = "linear",
    permutations: Annotated[int, typer.Option(min=0)] = 1000,
    seed: Seed = 0,
    roc: Path | None = None,
    report: Path | None = None,
    force: Force = False,
) -> None:
    """Rank samples of two classes, and report the AUC with its uncertainty.

    Every pair of samples of different classes is predicted by a ranker that was trained without
    both. Prints the area under the ROC curve with an interval, a p-value from permuted labels, and
    the nested AUC, for which alpha is chosen without the samples that are compared. The page
    contains the ROC curve, and a paragraph for the methods section of a paper.

    With --stratum, samples are compared, and labels permuted, within hospitals, batches, ... With
    --group, all samples of two patients, ... are held out together, and the labels of patients are
    permuted.

    Columns of numbers, and of true and false, are features, columns of at most ten words become a
    feature for each word, and other columns are left out.

    \b
    Examples:
      rankwise auc samples.csv --label outcome
      rankwise auc samples.csv --label outcome --positive ill --stratum site --report page.html
      rankwise auc samples.parquet --label outcome --group patient --ignore visit

    Parameters
    ----------
    samples : SAMPLES
        CSV, TSV, JSON or Parquet file with a sample in each row.
    label : COLUMN
        The class of each sample.
    positive : VALUE, default=of two, the larger or last one
        The class to rank first.
    stratum : COLUMN, default=none
        Compare samples of the same hospital, batch, ... only.
    group : COLUMN, default=none
        Hold out samples of the same patient, ... together.
    ignore : COLUMN,..., default=none
        Columns to leave out.
    missing : HOW
        With missing values: refuse, drop-rows, drop-columns or median.
    kernel : NAME
        linear or rbf.
    permutations : N
        Permutations of the labels; 0 for no test.
    seed : N
        Seed of permutations and folds.
    roc : FILE, default=nowhere
        Where to draw the ROC curve: .svg, .pdf or .png.
    report : FILE, default=nowhere
        Where to write a page for a supplement, as .html.
    """
    check_page(report, samples, force=force)
    check_writable(roc, samples, force=force)
    if roc is not None and (stratum is not None or group is not None):
        refuse("roc", "There is no ROC curve of all samples with --stratum or --group.")
    from rankwise.data.sample_files import read_samples

    data = read_samples(
        samples, label, positive=positive, stratum=stratum, group=group,
        ignore=split_names(ignore) or [], missing=missing,
    )  # fmt: skip
    if report is not None or roc is not None:
        from rankwise.plots import require_matplotlib

        require_matplotlib()
    copies = data.copies()
    if copies and group is None:
        first, second = copies[0]
        note(
            f"{len(copies)} samples have the same features as an earlier one (lines {first} and "
            f"{second}). If they are copies, the AUC is too high: remove them, or name a column "
            "with --group so that they are held out together."
        )
    for name in data.row_counters():
        note(
            f"The column {name!r} counts the rows. If it is not a measurement, leave it out with "
            "--ignore."
        )
    # These imports compile loops: only now, when all arguments are known to be valid.
    from rankwise.cli.auc_page import AUCStudy, write_page

    with interruptible(f"Holding out pairs of {len(data.y):,} samples"):
        study = AUCStudy.of(data, kernel, permutations, seed)
    show(study.columns_table(SHOWN), study.table())
    print()
    for line in study.conclusions():
        say(line)
    if roc is not None:
        from rankwise.plots import save_figure

        save_figure(study.draw_roc(study.roc_scores()), roc)
        note(f"Wrote {roc}.")
    if report is not None:
        write_page(study, report, samples.name)
        note(f"Wrote {report}: open {report.resolve().as_uri()}")
