"""rankwise auc: from a table of samples to an AUC that can be reported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rankwise.cli.options import Force, grouped, input_argument, option, refuse
from rankwise.cli.terminal import check_writable, interruptible, note, say, show

KERNELS = ("linear", "rbf")
MISSING = ("refuse", "drop-rows", "drop-columns", "median")
SHOWN = 10  # features in the printed table of columns


@grouped
def auc(
    samples: Annotated[
        Path,
        input_argument(
            metavar="SAMPLES", help="CSV, TSV, JSON or Parquet file with a sample in each row."
        ),
    ],
    label: Annotated[str, option("COLUMN", "The class of each sample.", False)],
    positive: Annotated[
        str | None,
        option("VALUE", "The class to rank first.", "of two, the larger or last one"),
    ] = None,
    stratum: Annotated[
        str | None,
        option("COLUMN", "Compare samples of the same hospital, batch, ... only.", "none"),
    ] = None,
    group: Annotated[
        str | None,
        option("COLUMN", "Hold out samples of the same patient, ... together.", "none"),
    ] = None,
    ignore: Annotated[str | None, option("COLUMN,...", "Columns to leave out.", "none")] = None,
    missing: Annotated[
        str,
        option(
            "HOW",
            "With missing values: refuse, drop-rows, drop-columns or median.",
            autocompletion=lambda: MISSING,
        ),
    ] = "refuse",
    kernel: Annotated[
        str, option("NAME", "linear or rbf.", autocompletion=lambda: KERNELS)
    ] = "linear",
    permutations: Annotated[
        int, option("N", "Permutations of the labels; 0 for no test.", min=0)
    ] = 1000,
    seed: Annotated[int, option("N", "Seed of permutations and folds.", min=0)] = 0,
    roc: Annotated[
        Path | None, option("FILE", "Where to draw the ROC curve: .svg, .pdf or .png.", "nowhere")
    ] = None,
    report: Annotated[
        Path | None, option("FILE", "Where to write a page for a supplement, as .html.", "nowhere")
    ] = None,
    force: Force = False,
) -> None:
    """Rank samples of two classes, and say how sure the AUC is.

    Every pair of samples of different classes is predicted by a ranker that was trained without
    both. Prints the area under the ROC curve with an interval, a p-value from permuted labels, and
    the nested AUC, for which alpha is chosen without the samples that are compared. The page has
    the ROC curve, and a paragraph for the methods section of a paper.

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
    """
    for path in (report, roc):
        if path is not None:
            check_writable(path, samples, force=force)
    if report is not None and report.suffix.lower() != ".html":
        refuse("report", f"The page ends with .html: got {report.name!r}.")
    if kernel not in KERNELS:
        refuse("kernel", f"Choose from {', '.join(KERNELS)}: got {kernel!r}.")
    if missing not in MISSING:
        refuse("missing", f"Choose from {', '.join(MISSING)}: got {missing!r}.")
    if roc is not None and (stratum is not None or group is not None):
        refuse("roc", "There is no ROC curve of all samples with --stratum or --group.")
    from rankwise.data.sample_files import read_samples

    left_out = [name.strip() for name in (ignore or "").split(",") if name.strip()]
    data = read_samples(
        samples,
        label,
        positive=positive,
        stratum=stratum,
        group=group,
        ignore=left_out,
        missing=missing,
    )
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
    from rankwise.cli.auc_page import AUCStudy

    with interruptible(f"Holding out pairs of {len(data.y):,} samples"):
        study = AUCStudy.of(data, kernel, permutations, seed)
    show(study.columns_table(SHOWN))
    print()
    show(study.table())
    print()
    for line in study.conclusions():
        say(line)
    if roc is not None:
        from rankwise.plots import save_figure

        save_figure(study.draw_roc(study.roc_scores()), roc)
        note(f"Wrote {roc}.")
    if report is not None:
        from rankwise.cli.auc_page import write_page

        write_page(study, report, samples.name)
        note(f"Wrote {report}: open {report.resolve().as_uri()}")
