"""rankwise tune: choose alpha and more without a validation file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from rankwise.cli.data_options import DataOptions, note_model
from rankwise.cli.options import (
    Force,
    ModelOut,
    RankerOptions,
    SelectionOptions,
    TrainingFile,
    grouped,
    refuse,
)
from rankwise.cli.terminal import check_writable, interruptible, note, show
from rankwise.routing import last_step

TOP = 10  # settings in the table
REFITS = 5  # folds of rankers that have to be refitted, unless --folds is given
SEED = 0  # for folds of rows, so that results are reproducible
PICTURES = (".svg", ".png", ".pdf", ".html")


@grouped
def tune(
    *,
    train: TrainingFile,
    out: ModelOut,
    force: Force = False,
    folds: Annotated[int | None, typer.Option(min=2)] = None,
    plot: Path | None = None,
    selection: SelectionOptions,
    options: RankerOptions,
    data: DataOptions,
) -> None:
    """Choose alpha, and more, by hold-outs; fit the best ranker to all rows.

    No validation file is needed. Every query is predicted by rankers trained on all others, for
    every alpha, without refitting; this costs little more than one fit. With
    --one-ranking, every pair of rows is held out instead (with --folds, that many folds of
    rows).

    The options --kernel, --scale and --set take several values, separated by commas, and every
    combination is tried. Prints how well the ten best do at their best alpha, and how far they are
    behind the best on the same queries, with the standard error of this difference; draws a picture
    of it, and writes the best model. The last lines compare the best with the next.

    Rankers without exact hold-outs are refitted for each of 5 folds: models whose names do not end
    in rls, linear models of many sparse features, and tables with text or missing values, whose
    encoders are fitted without the held-out rows. RankingSearchCV in Python does the same, and
    offers further splits, scores and means of the best rankers.

    Features are scaled within each query (see --scale). The model file remembers it: predict and
    evaluate scale their data in the same way.

    \b
    Examples:
      rankwise tune train.txt --out model.rankwise
      rankwise tune train.txt --scale query-minmax,query-ranks --metric MAP \\
          -o model.rankwise
      rankwise tune train.txt --kernel linear,rbf --set gamma=0.01:1:5 --folds 10 \\
          --plot report.html -o model.rankwise
      rankwise tune train.csv --query search_id --label clicks --encode onehot \\
          -o model.rankwise
      rankwise tune train.txt --model boosted --set weighting=rows,queries -o model.rankwise
      rankwise tune train.txt --model sparse-rankrls --set n_landmarks=300 \\
          --set gamma=0.01:1:5 -o model.rankwise

    Parameters
    ----------
    folds : N, default=one query at a time, or 5 folds for models that are refitted
        Hold out N folds of whole queries.
    plot : FILE, default=MODEL with .svg
        Where to draw the metric against alpha: .svg, .png, .pdf, or .html for a page with tables.
    """
    from rankwise.persistence import save_model

    if selection.alphas is not None:
        options.check_alpha("alphas")
        _ = selection.grid  # raises an error for wrong values, before the rows are read
    rankers = list(options.combinations())
    check_writable(out, train, force=force)
    picture = None
    if options.has_alpha or len(rankers) > 1:
        picture = _picture_file(plot, out, train, force=force)
    elif plot is not None:
        refuse("plot", f"{options.model} has no alpha, and there is one setting: nothing to draw.")
    rows, preparation, in_folds = data.read_for_folds(train, rankers[0][1])
    selection = selection.for_rows(rows)
    # These imports compile loops: only now, when all arguments are known to be valid.
    from rankwise.cli.tune_page import Tuned, write_picture
    from rankwise.model_selection.trials import is_too_wide

    steps = in_folds if in_folds.steps else preparation
    rankers = [
        (setting, steps.with_positions(ranker, in_folds=bool(in_folds.steps)))
        for setting, ranker in rankers
    ]
    rankers = [
        (setting, in_folds.around(options.settle_scale(ranker, has_queries=rows.qid is not None)))
        for setting, ranker in rankers
    ]
    if folds is None and (
        options.is_refitted
        or in_folds.steps
        or any(is_too_wide(last_step(ranker), rows.X) for _, ranker in rankers)
    ):
        folds = REFITS
    with interruptible(f"Holding out parts of {len(rows.y):,} rows"), warnings.catch_warnings():
        # Held-out rows may have categories that an encoder has not seen, as new rows may.
        warnings.filterwarnings("ignore", "Found unknown categories")
        tuned = Tuned.of(rows, rankers, selection, folds, options.has_alpha, SEED)
    best = tuned.best_ranker
    save_model(preparation.around(best), out)
    show(tuned.to_table(top=TOP))
    note(*tuned.words())
    if picture is not None:
        write_picture(tuned, picture, train)
    note(*(selection.remarks_on(tuned.best_alpha) if options.has_alpha else ()))
    note_model(out, best, *rows.X.shape)


def _picture_file(plot: Path | None, out: Path, train: Path, *, force: bool) -> Path | None:
    """Where the picture goes; None if it was not asked for and matplotlib is missing."""
    from rankwise.errors import MissingExtraError
    from rankwise.plots import require_matplotlib

    path = out.with_suffix(".svg") if plot is None else plot
    try:
        require_matplotlib()
    except MissingExtraError as error:
        if plot is not None:
            raise
        note(f"No picture: {error}")
        return None
    if path.suffix.lower() not in PICTURES:
        refuse("plot", f"Pictures end with {', '.join(PICTURES)}: got {path.name!r}.")
    if path.resolve() == out.resolve():
        refuse("plot", f"The picture would overwrite the model, {out}: write it to another file.")
    check_writable(path, train, force=force)
    return path
