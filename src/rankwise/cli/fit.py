"""rankwise fit, auto and tune: from a file to a model file.

The rows of the file are in memory, or read block by block, or on workers: see `RowsToFit`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from logging import CRITICAL, getLogger
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rankwise.cli.data_options import (
    MOST_NUMBERED,
    DataOptions,
    Preparation,
    doubts,
    encoding_words,
    explained_tables,
    in_one_line,
    note_model,
)
from rankwise.cli.options import (
    Force,
    InputFile,
    ModelOut,
    Out,
    Positive,
    RankerOptions,
    Seed,
    SelectionOptions,
    TrainingFile,
    grouped,
    metric_words,
    refuse,
    refuse_all,
    split_names,
)
from rankwise.cli.terminal import (
    check_page,
    check_writable,
    interruptible,
    note,
    progress,
    say,
    show,
    write_page,
)
from rankwise.cli.two_sided_files import TableRankerOptions, fit_table, refuse_unused
from rankwise.errors import DataError, MissingExtraError
from rankwise.metric_names import metric_label
from rankwise.routing import last_step, predict_with_queries
from rankwise.tables import plural

if TYPE_CHECKING:
    from rankwise.data import LetorData
    from rankwise.data.table_columns import Roles

MOST_WORKERS = 1000
MOST_DRAWN = 100  # columns whose importance is computed for a page
SOME_QUERIES = 100  # on which it is computed
Budget = Annotated[float | None, typer.Option(min=0.0)]


@grouped
def fit(
    *,
    train: TrainingFile,
    out: ModelOut,
    force: Force = False,
    options: RankerOptions,
    valid: InputFile = None,
    selection: SelectionOptions,
    unlabelled: InputFile = None,
    data: DataOptions,
    rows: InputFile = None,
    columns: InputFile = None,
    workers: Annotated[str | None, typer.Option("--workers", "--cluster")] = None,
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
      rankwise fit affinities.csv --rows drugs.csv --columns targets.csv -o model.rankwise
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

    A table is a CSV, TSV, Parquet, Arrow or JSON lines file, recognized by its suffix. Columns of
    query ids and labels are found by their names, or named by --query and --label. All other
    columns are features. 'rankwise info TRAIN' shows how each column is understood.

    In a LETOR file, the rows of a query have the same qid. If there is none, group sizes are read
    from TRAIN.query or TRAIN.group, one per line, as LightGBM and XGBoost do. If there is no such
    file either, --one-ranking compares all rows with each other. Feature numbers beyond 2^20 are
    taken for hashes: the model keeps the features that occur in TRAIN and ignores others in new
    files.

    With --workers, many processes read parts of a LETOR file, and the queries may be in any order.
    This works for linear models and for models named sparse-....

    transductive-rankrls prefers functions that are smooth on a graph of the rows of TRAIN and of
    --unlabelled. Equal query ids in the two files are the same query.

    The model file stores how features are scaled: predict and evaluate scale new rows in the same
    way. It contains no pickle, so reading it runs no code.

    With --rows and --columns, TRAIN is a table of scores: names of rows in its first column, names
    of columns in its first line, and empty cells where scores are missing. The other two files have
    a line of features for each of these names. This fits a TwoSidedRankRLS, which ranks the columns
    of each row, known or new; --set changes that, as in --set compare=rows --set for_new=columns.
    With --set row_kernel=precomputed, the file has similarities of rows instead of features.

    For lists of landmarks, kernel functions, weights of rows and comparisons, use Python.

    Parameters
    ----------
    valid : FILE, panel=Choosing alpha
        File to choose alpha on.
    unlabelled : FILE, panel=Data
        More rows for transductive-rankrls. Their labels, if any, are not used.
    rows : FILE, panel=Both sides
        Features of the rows of the table TRAIN.
    columns : FILE, panel=Both sides
        Features of the columns of the table TRAIN.
    workers : N, panel=Data
        Read TRAIN in N processes on this machine, or on the workers of the Dask scheduler at an
        address, as in tcp://10.0.0.1:8786. They must be able to read the file.
    """
    from rankwise.persistence import save_model

    alpha = selection.alphas
    chooses = {"metric": selection.metric, "relevant": selection.relevant}
    if rows is not None or columns is not None:
        if rows is None or columns is None:
            refuse("rows" if rows is None else "columns", "Give --rows and --columns together.")
        refuse_unused(data)
        others = {"valid": valid, "unlabelled": unlabelled, "workers": workers, **chooses}
        others["scale"] = options.scale
        refuse_all(others, "This is not for tables with --rows and --columns: leave it out.")
        if options.model not in (RankerOptions.model, TableRankerOptions.model):
            refuse("model", "Tables with --rows and --columns are for two-sided-rankrls.")
        check_writable(out, train, rows, columns, force=force)
        ranker = _table_ranker(options, alpha)
        fit_table(train, rows, columns, ranker, data)
        save_model(ranker, out)
        if hasattr(ranker, "alpha_curve_"):
            note(_chosen(ranker))
        cells = f"{plural(ranker.n_cells_, 'cell')} of {ranker.n_rows_} rows and"
        note(f"Wrote {out}: {in_one_line(ranker)} fitted to {cells} {ranker.n_columns_} columns.")
        return
    options.check_alpha(alpha=alpha, valid=valid)
    if valid is None:
        refuse_all(chooses, "This chooses alpha on a validation file: give --valid as well.")
    ranker = options.single()
    if unlabelled is not None and not getattr(ranker, "takes_unlabelled", False):
        refuse("unlabelled", f"This is for the model transductive-rankrls: got {options.model}.")
    if valid is not None:
        selection.chosen_metric()  # raises an error where the options do not fit together
        grid = selection.grid
    elif alpha is not None:
        last_step(ranker).set_params(alpha=_parsed(alpha, last_step(ranker)))
    check_writable(out, train, valid, unlabelled, force=force)
    if workers is not None:
        from rankwise.distributed._cluster_fit import check_summable

        if data.fill is not None:
            refuse("fill", "Workers do not read NULL: replace it in the file first.")
        check_summable(ranker)
    with connected(workers) as client:
        training = open_rows(train, data, ranker, client)
        if unlabelled is not None:
            assert isinstance(training, InMemory)  # other forms are refused for this model
            more = data.read_like(unlabelled, training, needs_label=False)
            training.add_unlabelled(more, unlabelled)
        ranker = options.settle_scale(ranker, has_queries=training.has_queries)
        ranker = training.preparation.with_positions(ranker)
        if valid is None:
            ranker = training.fit(ranker)
        else:
            held_out = data.read_like(valid, training)
            ranker = _best(training.fit(ranker, grid), held_out, selection.for_rows(held_out))
    model = training.preparation.around(ranker)
    save_model(model, out, table=data.remembered(train, training.roles))
    if hasattr(ranker, "alpha_curve_"):
        from rankwise.preprocessing.table_encoder import encoder_of

        note(_chosen(ranker))
        if encoder_of(model) is not None and ranker.alpha_curve_:
            note(
                "The encoder of text and missing values has seen all rows, also those held out. "
                "'rankwise tune' and 'rankwise auto' encode again for each fold."
            )
    elif hasattr(ranker, "component_errors_"):
        note(_chosen_components(ranker))
    elif options.has_alpha and alpha is None and valid is None:
        default = last_step(ranker).alpha
        note(f"alpha {default:g}, the default: choose it with --valid or 'rankwise tune'.")
    note_model(out, ranker, training.n_rows, training.n_features)


def _table_ranker(options: RankerOptions, alpha: str | None) -> Any:
    """The ranker of a table; --kernel is for both sides."""
    settings = list(options.settings or ())
    if options.kernel is not None:
        settings += [f"row_kernel={options.kernel}", f"column_kernel={options.kernel}"]
    ranker = TableRankerOptions(settings=settings).single()
    if alpha is not None:
        ranker.set_params(alpha=_parsed(alpha, ranker))
    return ranker


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


def _best(path: Any, valid: LetorData, selection: SelectionOptions) -> Any:
    """The ranker with the best alpha on the validation rows; prints a table of all alphas."""
    import numpy as np

    from rankwise.holdout.scores import HeldOutScores, mean_and_error

    name, (metric, greater_is_better) = selection.metric_name, selection.chosen_metric()
    with progress(f"Scoring {len(valid.y):,} rows"):
        scored = path.predict(valid.X, qid=valid.qid)
        values = [metric(valid.y, scores, valid.qid, per_query=True).values for scores in scored]
    score, error = np.transpose([mean_and_error([of_queries]) for of_queries in values])
    found = HeldOutScores(np.array(selection.grid), score, error, name, greater_is_better)
    show(found.to_table())
    note(*selection.remarks_on(found.best_alpha))
    return path.estimator(found.best_index)


@grouped
def auto(
    *,
    train: TrainingFile,
    out: Out = None,
    force: Force = False,
    test: InputFile = None,
    report: Path | None = None,
    metric: Annotated[str, typer.Option(autocompletion=metric_words)] = "auto",
    undefined: Literal["0", "skip"] | None = None,
    time_budget: Budget = None,
    memory_budget: Budget = None,
    n_best: Positive = 10,
    candidates: Literal["auto", "linear", "additive", "kernel"] = "auto",
    boosted: Annotated[bool | None, typer.Option("--boosted/--no-boosted")] = None,
    monotone: str | None = None,
    seed: Seed = 0,
    data: DataOptions,
) -> None:
    """Find a good ranker for a LETOR file or a table: start here.

    Tries linear rankers, sums of functions of single features, and kernels, on several scalings of
    the features and at many strengths of regularization, and boosted trees if LightGBM is
    installed. Each is judged by exact hold-outs:
    every query is predicted by rankers trained without it. The best are averaged, and the mean is
    fitted to all rows.

    Prints what was tried, which parts carry the score, and what to expect on new queries. For
    that estimate, the parts are chosen again for each query, without looking at it. Features
    need no preparation: text becomes a feature for each frequent category, medians replace missing
    values, and the model does the same with new rows. If this is done, it is part of the
    hold-outs, and rankers are refitted for each of 5 folds.

    \b
    Examples:
      rankwise auto train.txt
      rankwise auto train.txt --test test.txt --out model.rankwise --report page.html
      rankwise auto train.txt --metric MAP --time-budget 60 -o model.rankwise
      rankwise auto train.csv --query search_id --label clicks -o model.rankwise
      rankwise auto hotels.csv --label outcome --grades none=0,clicked=1,booked=2 --dates
      rankwise predict model.rankwise new.txt

    Parameters
    ----------
    out : MODEL
        Where to write the model.
    test : FILE
        File to evaluate the model on. Nothing is chosen by it.
    report : FILE
        Where to write a page with all tables and pictures, as .html.
    metric : NAME, default=ndcg@10 for grades in queries, linear- for fractions, else disagreement
        Metric to choose by: ndcg@10, MAP, MRR, precision@5, disagreement, auc, ... A wrong name
        lists them all.
    undefined : VALUE, default=0 for ndcg@10, MAP and the like, else skip
        What becomes of a query where the metric is undefined: it counts as 0, or is left out.
    time_budget : SECONDS
        Try no further ranker after this time.
    memory_budget : MB
        Leave out rankers that need more memory.
    n_best : N
        The mean has at most N parts.
    candidates : NAME
        Rankers to try: auto (all), linear, additive or kernel.
    boosted : FLAG, default=if LightGBM is installed
        Try boosted trees as well.
    monotone : FEATURE:SIGN,...
        Features that may only raise scores (1) or lower them (-1), as in price:-1,stars:1. Rankers
        that cannot keep this are left out.
    seed : N
        Seed for the choice of landmarks.
    """
    from rankwise.parameters import Monotone, parse_parameter
    from rankwise.persistence import save_model

    check_writable(out, train, test, force=force)
    check_page(report, train, test, force=force)
    rules = None if monotone is None else parse_parameter("monotone", monotone, Monotone())
    is_asked = data.encode or data.impute or data.dates
    if data.is_table(train):
        data = replace(data, encode=data.encode or "auto", impute=data.impute or "median")
    training = InMemory(train, data, None, as_they_are=True)
    rows, held_back = training.data, None if test is None else data.read_like(test, training)
    # These imports compile loops: only now, when all arguments are known to be valid.
    from rankwise.auto import AutoRanker
    from rankwise.metrics import evaluate_ranking

    ranker = AutoRanker(
        metric=metric,
        undefined=0.0 if undefined == "0" else undefined,
        n_best=n_best,
        candidates=candidates,
        boosted="auto" if boosted is None else boosted,
        time_budget=time_budget,
        memory_budget=None if memory_budget is None else memory_budget * 1e6,
        encoder=data.encoder() if is_asked else "auto",
        monotone=rules,
        verbose=True,
        random_state=seed,
    )
    with interruptible(f"Trying rankers on {len(rows.y):,} rows"):
        ranker.fit(rows.X, rows.y, qid=rows.qid)
    if ranker.encoder_ is not None:
        note(*encoding_words(ranker.encoder_, rows.X))
    evaluated = None
    if held_back is not None:
        scores = ranker.predict(held_back.X, qid=held_back.qid)
        found = evaluate_ranking(held_back.y, scores, held_back.qid)
        evaluated = found.to_table(title=f"{test}: {found.n_queries:,} queries")
    show(ranker.results_.to_table(), ranker.explain().to_table(), ranker.baselines_.to_table())
    print()
    say(*conclusions(ranker))
    if evaluated is not None:
        print()
        show(evaluated)
    if report is not None:
        with progress(f"Drawing {report}"):
            drawn = rows if held_back is None else held_back
            pictures = auto_pictures(ranker, drawn, test or train)
        _write_results(ranker, report, train, evaluated, pictures)
    if out is None:
        note("The model was not kept: give --out to write it to a file.")
        return
    table = data.remembered(train, training.roles)
    save_model(training.preparation.around(ranker), out, table=table)
    parts = ranker.parts_
    what = f"a mean of {len(parts)} rankers" if len(parts) > 1 else f"one ranker, {parts[0].name}"
    note(f"Wrote {out}: {what}, fitted to {len(rows.y):,} rows.")


def _write_results(
    ranker: Any, path: Path, train: Path, evaluated: Any, pictures: dict[str, list[Any]]
) -> None:
    """All tables, pictures and conclusions on one page."""
    from rankwise.report import Section, Text

    first, *others = conclusions(ranker)
    sections = [
        Section("", [Text(line) for line in others]),
        Section("Evaluation", [] if evaluated is None else [evaluated]),
        Section("Beside simple orders", [ranker.baselines_.to_table()]),
        *(Section(heading, blocks) for heading, blocks in pictures.items()),
        Section("The parts of the mean", [ranker.explain().to_table()]),
        Section("All that was tried", [ranker.results_.to_table()]),
        Section("The model", [Text(f"{part.name}: `{part.ranker}`") for part in ranker.parts_]),
    ]
    write_page(path, "auto", f"The best ranker for {train.name}", first, sections)


def auto_pictures(ranker: Any, rows: Any, source: Path) -> dict[str, list[Any]]:
    """Pictures of the candidates, of what drives the ranking of rows, and of a query.

    The importance of features is computed on some queries. For many features, the page names the
    command that does it.
    """
    import numpy as np

    from rankwise.graph import QueryGroups
    from rankwise.model_selection import permutation_importance
    from rankwise.model_selection.rows import take
    from rankwise.plots import plot_before_after, plot_importance, require_matplotlib
    from rankwise.report import Figure, Text

    try:
        require_matplotlib()
    except MissingExtraError as error:
        return {"Pictures": [Text(f"There are none. {error}")]}
    caption = (
        "Each candidate at its best setting: how far it is behind the best on the same held-out "
        "queries, with 95% intervals. An open circle may be as good as the best."
    )
    best = next(iter(ranker.results_.best_trials))
    alt = f"Candidates and how far they are behind the best, {best}."
    pictures: dict[str, list[Any]] = {
        "The candidates": [Figure.of(ranker.results_.plot(), alt, caption)]
    }
    n_features = rows.X.shape[1]
    if n_features <= MOST_DRAWN:
        groups = QueryGroups.of(rows.qid, len(rows.y))
        some = np.flatnonzero(groups.codes < SOME_QUERIES)
        qid = None if rows.qid is None else rows.qid[some]
        found = permutation_importance(
            ranker, take(rows.X, some), rows.y[some], qid=qid, random_state=0
        )
        metric = metric_label(found.metric)
        caption = (
            f"How much {metric} of {source.name} rises if the values of a column are permuted "
            "within queries, with 95% intervals. Columns that tell the same can replace each "
            "other, and look small."
        )
        top = ", ".join(found.names[k] for k in np.argsort(-found.importance)[:3])
        drawn = Figure.of(plot_importance(found), f"Bars of columns. The largest: {top}.", caption)
        pictures["What drives the ranking"] = [drawn]
    else:
        words = (
            f"{source.name} has {n_features:,} columns of features. To compute their importance "
            f"takes long for more than {MOST_DRAWN}. Write the model with `--out MODEL`, and run "
            f"`rankwise card MODEL --rows {source.name} --out card.html`."
        )
        pictures["What drives the ranking"] = [Text(words)]
    example = ranker.example_
    if example is not None:
        ax = plot_before_after(example.labels, example.scores)
        caption = (
            f"{example.words}: its rows as they came, and as rankers that were trained without it "
            "order them. Thicker lines have higher labels, which stand at both ends."
        )
        alt = f"Lines from the first order of the rows of a query to the new one, {example.words}."
        pictures["A query, before and after"] = [Figure.of(ax, alt, caption)]
    return pictures


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


class RowsToFit(ABC):
    """The rows of a training file.

    Attributes
    ----------
    path : Path
    n_rows, n_features : int
    has_queries : bool
    preparation : Preparation
        What has prepared the rows, and prepares others.
    roles : Roles or None
        Which column of a table is what.
    """

    path: Path
    n_rows: int
    n_features: int
    has_queries: bool
    preparation = Preparation()
    roles: Roles | None = None

    @abstractmethod
    def fit(self, ranker: Any, alphas: Sequence[float] | None = None) -> Any:
        """The fitted ranker, or a path of rankers with each alpha."""


class InMemory(RowsToFit):
    """The rows of a file that is read whole."""

    def __init__(
        self, path: Path, options: DataOptions, ranker: Any, *, as_they_are: bool = False
    ) -> None:
        self.path = path
        self.data, self.preparation = options.read_training(path, ranker, as_they_are=as_they_are)
        self.roles = getattr(self.data, "roles", None)
        self.n_rows, self.n_features = self.data.X.shape
        self.has_queries = self.data.qid is not None

    def add_unlabelled(self, more: Any, path: Path) -> None:
        """Add the rows of another file, whose labels are not used."""
        if (more.qid is None) != (self.data.qid is None):
            raise DataError(f"{path} and {self.path} must both have query ids, or neither.")
        self.data = _with_unlabelled(self.data, more)
        self.n_rows = self.data.X.shape[0]

    def fit(self, ranker: Any, alphas: Sequence[float] | None = None) -> Any:
        from sklearn.base import clone

        from rankwise.model_selection.rows import fit_with_queries

        X, y, qid = self.data.X, self.data.y, self.data.qid
        if alphas is None:
            with progress(f"Fitting to {self.n_rows:,} rows"):
                fit_with_queries(ranker, X, y, qid)
            return ranker
        with progress(f"Fitting {len(alphas)} values of alpha to {self.n_rows:,} rows") as report:
            if hasattr(ranker, "path"):
                return ranker.path(X, y, alphas, qid=qid)
            rankers = [clone(ranker) for _ in alphas]
            for done, (alpha, one) in enumerate(zip(alphas, rankers, strict=True)):
                report(done, len(alphas), f"alpha {alpha:.3g}")
                last_step(one).set_params(alpha=alpha)
                fit_with_queries(one, X, y, qid)
        return _Refits(rankers)


def _with_unlabelled(data: Any, more: Any) -> Any:
    """Rows, and others whose labels are NaN. Equal query ids are the same query."""
    import numpy as np

    from rankwise.inspection.composed_rows import joined

    X = joined([data.X, more.X])
    ids: Any = None
    if data.qid is not None:
        ids = [data.qid, more.qid]
        if any(part.dtype.kind not in "iu" for part in ids):
            ids = [part.astype(str).astype(object) for part in ids]
        ids = np.concatenate(ids)
    y = np.concatenate([data.y, np.full(more.X.shape[0], np.nan)])
    return replace(data, X=X, y=y, qid=ids)


@dataclass(frozen=True)
class _Refits:
    """A ranker that was fitted again with each alpha; predicts like a `RegularizationPath`."""

    rankers: list[Any]

    def predict(self, X: Any, *, qid: Any = None) -> Any:
        return [predict_with_queries(ranker, X, qid) for ranker in self.rankers]

    def estimator(self, i: int) -> Any:
        return self.rankers[i]


class Streamed(RowsToFit):
    """The rows of a file in blocks of whole queries, read as often as needed."""

    def __init__(self, path: Path, options: DataOptions) -> None:
        from rankwise.data import LetorBlocks, TableBlocks

        self.path = path
        self._report: Callable[..., None]
        shown: Any = {"progress": lambda done, total: self._report(done, total)}
        if options.is_table(path):
            file = options.table_file(path)
            self._blocks: Any = TableBlocks(
                path,
                qid=options.query,
                label=options.label,
                features=split_names(options.features),
                ignore=split_names(options.ignore) or [],
                format=file.format,
                separator=None if options.separator is None else file.separator,
                decimal=options.decimal,
                thousands=options.thousands,
                grades=options.parsed_grades(),
                **shown,
            )
            wants = replace(self._blocks.wants, needs_query=not options.one_ranking)
            self._blocks.wants = wants
        else:
            n_features = options.n_features
            self._blocks = LetorBlocks(path, n_features=n_features, fill=options.fill, **shown)
        with self._showing("Checking"), explained_tables(options.ignore):
            survey = self._blocks.survey
        self.roles = getattr(self._blocks, "roles", None)
        if self.roles is not None:
            note(f"{path}: {self.roles.words()}. Read block by block.", *doubts(self.roles))
        self.n_rows, self.n_features = survey.n_rows, survey.n_features
        self.has_queries = survey.n_queries > 0

    def fit(self, ranker: Any, alphas: Sequence[float] | None = None) -> Any:
        with self._showing("Fitting to"):
            if alphas is None:
                return ranker.fit_blocks(self._blocks)
            return ranker.path_blocks(self._blocks, alphas)

    @contextmanager
    def _showing(self, what: str) -> Iterator[None]:
        """Show how much of the file is read, in every pass over it."""
        with progress(f"{what} {self.path}") as self._report:
            yield


class OnWorkers(RowsToFit):
    """The rows of a file of which each worker reads parts."""

    def __init__(self, path: Path, options: DataOptions, client: Any) -> None:
        from rankwise.data.query_rows import group_file_beside
        from rankwise.distributed._cluster_fit import Run

        if options.is_table(path):
            raise DataError(f"{path} is a table, and workers read LETOR files: leave them out.")
        self.path, self._client = path, client
        with progress(f"Checking {path}"):
            self._parts = Run(client).open([path], None, None, options.n_features)
        assert self._parts.shape is not None  # LETOR files have one
        self.n_rows, self.n_features = self._parts.shape
        self.has_queries = self._parts.has_ids
        if self.n_features > MOST_NUMBERED:
            raise DataError(
                f"{path} has feature numbers up to {self.n_features:,}, which may be hashes. "
                "Workers do not find out which of them occur: leave --workers out."
            )
        file = group_file_beside(path)
        if file is not None and not self.has_queries:
            raise DataError(
                f"{path} has no qid, and workers do not read the group sizes in {file}. Write "
                "qid:ID after the label of every row, or leave --workers out."
            )
        options.check_one_ranking(path, self.n_rows, has_queries=self.has_queries)

    def fit(self, ranker: Any, alphas: Sequence[float] | None = None) -> Any:
        from rankwise import distributed

        with progress("Tasks of workers") as report:
            common = {"client": self._client, "progress": report}
            if alphas is None:
                return distributed.fit(ranker, self._parts, **common)
            return distributed.path(ranker, self._parts, alphas, **common)


def open_rows(path: Path, options: DataOptions, ranker: Any, client: Any) -> RowsToFit:
    """The rows of a file, on the workers of a client, block by block, or in memory.

    Rankers on landmarks read each block once or twice. A file without query ids is one ranking,
    which no block may split. Encoders and imputers need all rows at once, and hashed features that
    occur are known only after the whole file is read.
    """
    from rankwise import SparseRankRLS, SparseRLS

    if client is not None:
        return OnWorkers(path, options, client)
    whole = options.encode or options.impute or options.dates
    if isinstance(ranker, SparseRankRLS | SparseRLS) and not whole:
        streamed = Streamed(path, options)
        if streamed.has_queries and streamed.n_features <= MOST_NUMBERED:
            options.check_one_ranking(path, streamed.n_rows, has_queries=True)
            return streamed
    return InMemory(path, options, ranker)


@contextmanager
def connected(workers: str | None) -> Iterator[Any]:
    """A client of that many local workers, or of the cluster at an address; None without either."""
    if workers is None:
        yield None
        return
    number = int(workers) if workers.isdecimal() else None
    if number is not None and not 1 <= number <= MOST_WORKERS:
        refuse(
            "workers", f"Give a number from 1 to {MOST_WORKERS:,}, or an address: got {workers}."
        )
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError("distributed", "dask") from error
    from concurrent.futures import CancelledError

    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker

    with ExitStack() as stack:
        # The client reports errors of workers and of the scheduler; Dask would log them as well.
        for logger in map(getLogger, ("distributed", "tornado.application", "asyncio")):
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(CRITICAL)
        there = workers if number is None else stack.enter_context(local_cluster(number))
        try:
            client = stack.enter_context(Client(there, timeout="20s"))
        except (OSError, ValueError) as error:
            raise DataError(f"No Dask scheduler answers at {there}: {error}.") from error
        try:
            yield client
        except KilledWorker as error:
            raise DataError(
                f"{error.allowed_failures + 1} workers have ended while they worked on the same "
                "task. Do they have enough memory?"
            ) from error
        except (CommClosedError, CancelledError) as error:
            raise DataError(f"The Dask scheduler at {there} no longer answers: {error}.") from error


def local_cluster(workers: int, *, tries: int = 3) -> Any:
    """Worker processes on this machine, without logs: the client reports their errors."""
    from distributed import LocalCluster

    try:
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            silence_logs=CRITICAL,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": ":0"},  # its HTTP server takes any free port
        )
    except AssertionError:  # Dask's event loop must start within ten seconds
        if tries == 1:
            raise
    return local_cluster(workers, tries=tries - 1)


TOP = 10  # settings in the table
REFITS = 5  # folds of rankers that have to be refitted, unless --folds is given
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

    options.check_alpha(alphas=selection.alphas)
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

    refits, steps = bool(in_folds.steps), in_folds if in_folds.steps else preparation
    for k, (setting, ranker) in enumerate(rankers):
        placed = steps.with_positions(ranker, in_folds=refits)
        scaled = options.settle_scale(placed, has_queries=rows.qid is not None)
        rankers[k] = setting, in_folds.around(scaled)
    wide = any(is_too_wide(last_step(ranker), rows.X) for _, ranker in rankers)
    if folds is None and (options.is_refitted or refits or wide):
        folds = REFITS
    with interruptible(f"Holding out parts of {len(rows.y):,} rows"), warnings.catch_warnings():
        # Held-out rows may have categories that an encoder has not seen, as new rows may.
        warnings.filterwarnings("ignore", "Found unknown categories")
        tuned = Tuned.of(rows, rankers, selection, folds, options.has_alpha)
    best = tuned.best_ranker
    table = data.remembered(train, getattr(rows, "roles", None))
    save_model(preparation.around(best), out, table=table)
    show(tuned.to_table(top=TOP))
    note(*tuned.words())
    if picture is not None:
        write_picture(tuned, picture, train)
    note(*(selection.remarks_on(tuned.best_alpha) if options.has_alpha else ()))
    note_model(out, best, *rows.X.shape)


def _picture_file(plot: Path | None, out: Path, train: Path, *, force: bool) -> Path | None:
    """Where the picture goes; None if it was not asked for and matplotlib is missing."""
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
