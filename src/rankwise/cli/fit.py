"""rankwise fit: from a LETOR file to a model file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankwise.cli.data_options import DataOptions, needed
from rankwise.cli.input_files import in_one_line, note_scaling
from rankwise.cli.options import (
    Force,
    ModelOut,
    RankerOptions,
    SelectionOptions,
    TrainingFile,
    grouped,
    input_option,
    option,
    parse_alpha,
    refuse,
)
from rankwise.cli.output_files import check_writable
from rankwise.cli.terminal import note, progress, show
from rankwise.cli.training_rows import InMemory, connected, open_rows
from rankwise.metric_names import metric_label
from rankwise.routing import last_step
from rankwise.tables import plural

if TYPE_CHECKING:
    from rankwise.data import LetorData


worker_option = partial(option, rich_help_panel="Workers")


@grouped
def fit(
    *,
    train: TrainingFile,
    out: ModelOut = None,
    force: Force = False,
    alpha: Annotated[
        str | None,
        option(
            "A",
            "Regularization strength: a number, or auto to choose it; for ranksvm, a number.",
            "auto; 1 for ranksvm, 0 for kpcrank and kpcr",
        ),
    ] = None,
    valid: Annotated[Path | None, input_option("FILE", "File to choose alpha on.")] = None,
    unlabelled: Annotated[
        Path | None,
        input_option(
            "FILE", "More rows for transductive-rankrls; their labels, if any, are not used."
        ),
    ] = None,
    selection: SelectionOptions,
    options: RankerOptions,
    data: DataOptions,
    workers: Annotated[
        int | None,
        worker_option("N", "Read TRAIN in N processes on this machine.", min=1, max=1000),
    ] = None,
    cluster: Annotated[
        str | None,
        worker_option(
            "ADDRESS",
            "Read TRAIN on the workers of a Dask scheduler, as in tcp://10.0.0.1:8786; they "
            "must have access to the file.",
        ),
    ] = None,
) -> None:
    """Fit a ranker to a LETOR file or a table and write it to a model file.

    Without --alpha and --valid, alpha is chosen by held-out queries of TRAIN (or pairs, in a file
    without queries), except that of ranksvm, which is 1. kpcrank and kpcr choose their number of
    components instead, and a ridge with it if --alpha is auto. With --valid, one ranker is fitted
    for each value of --alphas (together they cost little more than one), each ranks the queries of
    the validation file, and the best is kept. A table shows how each did.

    Models named sparse-... never hold TRAIN in memory. They read the file block by block, so it
    may be larger than memory, but the rows of each query must be adjacent. (A file without query
    ids, or with hashed features, is read at once.) More landmarks make better models; the cost
    grows with the square of their number.

    Feature numbers beyond 2^20 are taken for hashes: the model keeps those that occur in TRAIN, and
    ignores others in new files.

    The rows of a query have the same qid. If TRAIN has none, the group sizes in TRAIN.query or
    TRAIN.group beside it are read, one per line, as LightGBM and XGBoost do. If there is no such
    file either, --one-ranking compares all rows with each other.

    TRAIN may be a table: CSV, TSV, Parquet, Arrow or JSON lines, by its suffix. Columns of query
    ids and labels are found by their names, or named by --query and --label; all others are
    features. --dry-run prints how each column is understood. The model remembers the names.

    With --workers or --cluster, many processes read parts of the file, and the queries may be in
    any order. This works for linear models and for models named sparse-....

    transductive-rankrls prefers functions that are smooth on a graph of the rows of TRAIN and of
    --unlabelled. Equal query ids in the two files are the same query.

    Features are scaled within each query (see --scale). The model file remembers it: predict and
    evaluate scale their data in the same way. Model files contain no pickle: reading one runs no
    code from it.

    \b
    Examples:
      rankwise fit train.txt --out model.rankwise
      rankwise fit train.txt --alpha 10 --out model.rankwise
      rankwise fit train.txt --scale query-ranks --valid valid.txt --metric MAP -o m.rankwise
      rankwise fit train.txt --kernel rbf --valid valid.txt \\
          --alphas 1e-3:1e3:13 --out model.rankwise
      rankwise fit big.txt --model sparse-rankrls --landmarks 1000 -o m.rankwise
      rankwise fit train.txt --model transductive-rankrls --unlabelled more.txt -o m.rankwise
      rankwise fit train.txt --model boosted -o m.rankwise
      rankwise fit train.txt --model ranksvm --valid valid.txt -o m.rankwise
      rankwise fit train.txt --model ranksvm --kernel rbf --loss hinge -o m.rankwise
      rankwise fit train.txt --model kpcrank --alpha auto -o m.rankwise
      rankwise fit big.txt --workers 4 -o m.rankwise
      rankwise fit train.csv --query search_id --label clicks -o m.rankwise
      rankwise fit train.parquet --features 'price,stars_*' --impute median -o m.rankwise
    """
    from rankwise.persistence import save_model

    if data.shows_columns(train):
        return
    out = needed(out, "fit")
    _check_selection(alpha, valid, selection)
    options.check_alpha(*_given(alpha=alpha, valid=valid))
    ranker = options.single()
    if unlabelled is not None and options.model != "transductive-rankrls":
        refuse("unlabelled", f"This is for the model transductive-rankrls: got {options.model}.")
    grid = selection.grid
    selection.metric_function()  # raises an error where the options do not fit together
    check_writable(out, train, valid, unlabelled, force=force)
    if alpha is not None:
        last_step(ranker).set_params(alpha=_parsed(alpha, options.model))
    _check_workers(ranker, workers, cluster, data)
    with connected(workers, cluster) as client:
        rows = open_rows(train, data, ranker, client)
        if unlabelled is not None:
            assert isinstance(rows, InMemory)  # other forms are refused for this model
            rows.add_unlabelled(unlabelled)
        ranker = options.settle_scale(ranker, has_queries=rows.has_queries)
        if valid is None:
            ranker = rows.fit(ranker)
        else:
            held_out = data.read_like(
                valid, rows.preparation, rows.feature_names, rows.n_features, train
            )
            ranker = _best(rows.path(ranker, grid), held_out, selection.for_rows(held_out))
    save_model(rows.preparation.around(ranker), out)
    note_scaling(ranker)
    if hasattr(ranker, "alpha_curve_"):
        note(_chosen(ranker))
    elif hasattr(ranker, "component_errors_"):
        note(_chosen_components(ranker))
    elif options.has_alpha and alpha is None and valid is None:
        default = last_step(ranker).alpha
        note(f"alpha {default:g}, the default: choose it with --valid or 'rankwise tune'.")
    shape = f"{plural(rows.n_rows, 'row')}, {plural(rows.n_features, 'feature')}"
    note(f"Wrote {out}: {in_one_line(ranker)} fitted to {shape}.")


def _parsed(alpha: str, model: str) -> float | str:
    """The value of --alpha, which must be a number for ranksvm."""
    if model == "ranksvm" and alpha == "auto":
        refuse(
            "alpha",
            "ranksvm does not choose alpha itself: give a number, or leave --alpha out and choose "
            "it on a validation file, with --valid FILE, or by cross-validation, with 'rankwise "
            "tune'.",
        )
    return parse_alpha(alpha)


def _chosen(ranker: Any) -> str:
    """Which alpha was chosen, with the scores of its neighbours."""
    curve = ranker.alpha_curve_
    if curve is None:
        return f"alpha {ranker.alpha_:.3g} by a rule: too few rows or queries to hold any out."
    best = curve.best_index
    score = f"{curve.score[best]:.4f}"
    found = f"Chose alpha {curve.best_alpha:.3g}: held-out {metric_label(curve.metric)} is {score}"
    beside = [k for k in (best - 1, best + 1) if 0 <= k < len(curve.alphas)]
    others = " and ".join(f"{curve.score[k]:.4f} at alpha {curve.alphas[k]:.3g}" for k in beside)
    return f"{found}{f', and {others}' if others else ''}."


def _chosen_components(ranker: Any) -> str:
    """Which number of components was chosen, and which ridge."""
    count = plural(ranker.n_components_, "component")
    chosen = [count] if ranker.n_components == "cv" else []
    nested = ranker.component_errors_.nested_error
    if ranker.alpha == "auto":
        chosen.append(f"alpha {ranker.alpha_:.3g}")
        nested = None  # alpha was chosen on all rows
    error = "" if nested is None else f", whose nested error is {nested:.4f}"
    return f"Chose {' and '.join(chosen)} by held-out errors{error}."


def _given(**options: Any) -> list[str]:
    """The names of options that are given."""
    return [name for name, value in options.items() if value is not None]


def _check_selection(alpha: str | None, valid: Path | None, selection: SelectionOptions) -> None:
    """Refuse options that would have no effect."""
    if valid is not None and alpha is not None:
        refuse("alpha", "With --valid, alpha is chosen from --alphas: leave --alpha out.")
    unused = _given(**vars(selection))
    if valid is None and unused:
        refuse(
            unused[0],
            "This is for choosing alpha, which needs a validation file: give --valid as well.",
        )


def _check_workers(
    ranker: Any, workers: int | None, cluster: str | None, data: DataOptions
) -> None:
    """Refuse what workers cannot do."""
    if workers is None and cluster is None:
        return
    if workers is not None and cluster is not None:
        refuse(
            "workers",
            "The workers are those of this machine or those of a cluster: leave one option out.",
        )
    if data.fill is not None:
        refuse("fill", "Workers do not read NULL: replace it in the file first.")
    from rankwise.distributed._cluster_fit import check_summable

    check_summable(ranker)


def _best(path: Any, valid: LetorData, selection: SelectionOptions) -> Any:
    """The ranker with the best alpha on the validation rows; prints a table of all alphas."""
    import numpy as np

    from rankwise.tables import Column, Table

    metric, greater_is_better = selection.metric_function()
    with progress(f"Scoring {len(valid.y):,} rows"):
        scored = path.predict(valid.X, qid=valid.qid)
        values = np.array([metric(valid.y, scores, valid.qid) for scores in scored])
    best = int(np.argmax(values) if greater_is_better else np.argmin(values))
    rows = tuple(
        (alpha, value, "chosen" if i == best else "")
        for i, (alpha, value) in enumerate(zip(selection.grid, values.tolist(), strict=True))
    )
    columns = (Column("alpha", ".4g"), Column(metric_label(selection.metric_name)), Column("", ""))
    show(Table(columns, rows, best=frozenset({(best, 1)})))
    hint = selection.remark_on(selection.grid[best])
    if hint:
        note(hint)
    return path.estimator(best)
