"""rankwise fit: from a LETOR file to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwise.cli.data_options import DataOptions
from rankwise.cli.input_files import in_one_line, note_scaling
from rankwise.cli.options import (
    Force,
    ModelOut,
    RankerOptions,
    SelectionOptions,
    TrainingFile,
    grouped,
    input_option,
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


@grouped
def fit(
    *,
    train: TrainingFile,
    out: ModelOut,
    force: Force = False,
    options: RankerOptions,
    valid: Annotated[
        Path | None,
        input_option("FILE", "File to choose alpha on.", rich_help_panel="Choosing alpha"),
    ] = None,
    selection: SelectionOptions,
    unlabelled: Annotated[
        Path | None,
        input_option(
            "FILE",
            "More rows for transductive-rankrls. Their labels, if any, are not used.",
            rich_help_panel="Data",
        ),
    ] = None,
    data: DataOptions,
    workers: Annotated[
        str | None,
        typer.Option(
            "--workers",
            "--cluster",
            metavar="N",
            help="Read TRAIN in N processes on this machine, or on the workers of the Dask "
            "scheduler at an address, as in tcp://10.0.0.1:8786. They must be able to read the "
            "file.",
            rich_help_panel="Data",
        ),
    ] = None,
) -> None:
    """Fit a ranker to a LETOR file or a table and write it to a model file.

    \b
    Examples:
      rankwise fit train.txt --out model.rankwise
      rankwise fit train.csv --query search_id --label clicks -o model.rankwise
      rankwise fit train.txt --alpha 10 --out model.rankwise
      rankwise fit train.txt --valid valid.txt --metric MAP -o model.rankwise
      rankwise fit train.txt --kernel rbf --valid valid.txt --alpha 1e-3:1e3:13 \\
          --out model.rankwise
      rankwise fit big.txt --model sparse-rankrls --set n_landmarks=500 -o model.rankwise
      rankwise fit big.txt --workers 4 -o model.rankwise
      rankwise fit train.txt --model transductive-rankrls --unlabelled more.txt \\
          -o model.rankwise
      rankwise fit train.txt --model ranksvm --kernel rbf --set loss=hinge -o model.rankwise
      rankwise fit train.parquet --features 'price,stars_*' --impute median \\
          -o model.rankwise

    Without --alpha and --valid, alpha is chosen by held-out queries of TRAIN, or by held-out pairs
    if the file has no queries. With --valid, a ranker is fitted for each value of alpha, which
    takes little longer than one fit, and the best one on the queries of the validation file is
    kept. A table shows all of them. Two kinds of models differ: alpha of ranksvm is 1 unless it is
    given, and kpcrank and kpcr choose their number of components instead.

    Models named sparse-... read TRAIN block by block, so it may be larger than memory. The rows of
    each query must be adjacent. More landmarks make better models, and their cost grows with the
    square of their number.

    A table is a CSV, TSV, Parquet, Arrow or JSON lines file, recognised by its suffix. Columns of
    query ids and labels are found by their names, or named by --query and --label. All other
    columns are features. 'rankwise info TRAIN' shows how each column is understood.

    In a LETOR file, the rows of a query have the same qid. If there is none, group sizes are read
    from TRAIN.query or TRAIN.group, one per line, as LightGBM and XGBoost do. If there is no such
    file either, --one-ranking compares all rows with each other. Feature numbers beyond 2^20 are
    taken for hashes: the model keeps those that occur in TRAIN and ignores others in new files.

    With --workers, many processes read parts of a LETOR file, and the queries may be in any order.
    This works for linear models and for models named sparse-....

    transductive-rankrls prefers functions that are smooth on a graph of the rows of TRAIN and of
    --unlabelled. Equal query ids in the two files are the same query.

    The model file stores how features are scaled: predict and evaluate scale new rows in the same
    way. It contains no pickle, so reading it runs no code.

    For lists of landmarks, kernel functions, weights of rows and comparisons, use Python.
    """
    from rankwise.persistence import save_model

    alpha = selection.alphas
    _check_selection(valid, selection)
    options.check_alpha(*_given(alpha=alpha, valid=valid))
    ranker = options.single()
    if unlabelled is not None and not getattr(ranker, "takes_unlabelled", False):
        refuse("unlabelled", f"This is for the model transductive-rankrls: got {options.model}.")
    if valid is not None:
        selection.metric_function()  # raises an error where the options do not fit together
        grid = selection.grid
    elif alpha is not None:
        last_step(ranker).set_params(alpha=_parsed(alpha, last_step(ranker)))
    check_writable(out, train, valid, unlabelled, force=force)
    _check_workers(ranker, workers, data)
    with connected(workers) as client:
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


def _parsed(text: str, ranker: Any) -> float | str:
    """The value of --alpha without a validation file."""
    from rankwise.parameters import parse_parameter

    rule = ranker.parameters["alpha"]
    several = "," in text or ":" in text
    if several or (text == "auto" and not rule.allows("auto")):
        refuse(
            "alpha",
            "Give a number, or choose alpha on a validation file, with --valid FILE, or by "
            "cross-validation, with 'rankwise tune'.",
        )
    value: float | str = parse_parameter("alpha", text, rule)
    return value if isinstance(value, str) else float(value)


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


def _check_selection(valid: Path | None, selection: SelectionOptions) -> None:
    """Refuse options that would have no effect."""
    unused = _given(metric=selection.metric, relevant=selection.relevant)
    if valid is None and unused:
        refuse(unused[0], "This chooses alpha on a validation file: give --valid as well.")


def _check_workers(ranker: Any, workers: str | None, data: DataOptions) -> None:
    """Refuse what workers cannot do."""
    if workers is None:
        return
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
