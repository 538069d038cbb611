"""rankwise info, card and export: the content of a file, and a model in other forms."""

from __future__ import annotations

import json
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rankwise.cli.data_options import (
    ColumnOptions,
    TableOptions,
    command_for,
    doubts,
    in_one_line,
    one_query,
    read_model,
    read_names,
    seen_by,
    settings_for,
)
from rankwise.cli.options import (
    Force,
    InputArgument,
    InputFile,
    Json,
    ModelFile,
    Out,
    grouped,
    refuse,
    refuse_all,
)
from rankwise.cli.terminal import check_writable, command_line, note, progress, say, show, show_json
from rankwise.routing import last_step
from rankwise.tables import Column, Table

if TYPE_CHECKING:
    from rankwise import persistence

FEW_LABELS = 12  # up to this many are listed one by one
MOST_COLUMNS = 30  # shown of a table
BAR = 30  # characters of the longest bar
CARDS = (".md", ".html")
WITHOUT_ROWS = "This is for reading --rows: leave it out."
SUFFIXES = {
    "elasticsearch": ".elasticsearch.json",
    "elasticsearch-trained-model": ".trained-model.json",
    "opensearch": ".opensearch.json",
    "solr": ".solr.json",
    "vespa": ".vespa.txt",
    "onnx": ".onnx",
    "json": ".json",
}


@grouped
def info(
    *, file: InputArgument, as_json: Json = False, all_columns: bool = False, table: TableOptions
) -> None:
    """Describe a LETOR file, a table or a model file.

    For data: rows, features and the share of values that are not zero, queries and their sizes,
    labels, and the pairs that a ranker can learn from. For a table, also how each column is
    understood, what is wrong with them, and the command that finds a ranker: start here with a CSV
    or Parquet file. For a model: its type, its parameters and
    what it was fitted to.

    \b
    Examples:
      rankwise info train.txt
      rankwise info model.rankwise
      rankwise info train.txt.gz --json
      rankwise info train.csv
      rankwise info train.parquet --query search_id --label clicks

    Parameters
    ----------
    file : FILE
        A LETOR file, a table or a model file.
    all_columns : FLAG
        Show every column of a table with many.
    """
    from zipfile import is_zipfile

    is_model = file.is_file() and is_zipfile(file)  # a pipe can be opened once
    columns = command = problems = None
    kind, purpose, beside = "ranking data", "To find a ranker", None
    if is_model:
        facts, kind = model_facts(read_model(file)), "a model"
    elif table.is_table(file):
        from rankwise.data.battles import schema_in
        from rankwise.data.table_columns import Wants

        wants = Wants(True, True, dates=True, needs_label=True, needs_query=True)
        data = table.read_table(file, wants, needs_features=False, tolerant=True)
        facts, columns, problems = data_facts(data), data.columns, data.problems
        settings = settings_for(data)
        kept = {"out": f"{file.name.split('.')[0]}.rankwise"}
        command = command_for(settings | kept, table.ignore, "auto")
        if "one_ranking" in settings and len(settings.get("grades", ())) == 2:
            beside = command_line({"label": settings["label"]}, "auc")
        if schema_in(row[0] for row in columns.rows) is not None:
            command, purpose, kind = command_line({}, "leaderboard"), "To rate the items", "battles"
            facts, columns, problems = {"rows": facts["rows"]}, _without_roles(columns), None
        else:
            note(f"{file}: {data.roles.words()}.", *doubts(data.roles))
    else:
        facts = data_facts(table.read_letor(file))
    if as_json:
        more: dict[str, Any] = {}
        if columns is not None:
            found = [] if problems is None else list(problems.problems)
            more = {"columns": json.loads(columns.to_json())["rows"]}
            more |= {"problems": found, "command": command}
        show_json({"file": str(file), **facts, **more})
        return
    print(f"{file}: {kind}\n")
    if columns is not None and not all_columns:
        columns = _fewer(columns)
    show(columns, *_tables(facts))
    if problems is not None:
        print("\nBefore a ranker can learn from it:")
        say(*(f"  - {problem}" for problem in problems.problems))
    if command is not None:
        print(f"\n{purpose}{', if this is what you mean' if problems else ''}:\n  {command}")
    if beside is not None:
        print(f"\nTo separate two classes of samples, with the AUC of held-out pairs:\n  {beside}")


def _fewer(columns: Table) -> Table:
    """At most `MOST_COLUMNS` columns, of a few more; the first of complete numbers go last."""
    if len(columns.rows) <= MOST_COLUMNS + 2:
        return columns
    plain = [row[1:4] == ("number", "feature", 0) for row in columns.rows]
    order = sorted(range(len(plain)), key=lambda k: plain[k])
    rows = tuple(columns.rows[k] for k in sorted(order[:MOST_COLUMNS]))
    n_left, n_plain = len(plain) - MOST_COLUMNS, sum(plain[k] for k in order[MOST_COLUMNS:])
    what = "features, which are complete numbers" if n_plain == n_left else "columns"
    note = f"And {n_left:,} more {what}. To see them, give --all-columns."
    return replace(columns, rows=rows, note=note)


def _without_roles(columns: Table) -> Table:
    """Columns without what they would be in ranking data."""
    at = [k for k, column in enumerate(columns.columns) if column.name != "role"]
    rows = tuple(tuple(row[k] for k in at) for row in columns.rows)
    return replace(columns, columns=tuple(columns.columns[k] for k in at), rows=rows)


def data_facts(data: Any) -> dict[str, Any]:
    """Rows, queries and labels of data."""
    import numpy as np

    from rankwise.backends.arrays import is_sparse
    from rankwise.graph import PreferenceGraph, QueryGroups

    n_rows, n_features = data.X.shape
    groups = QueryGroups.of(data.qid, n_rows)
    sizes = groups.sizes
    numbers: Any = data.X
    if hasattr(numbers, "columns"):
        numbers = numbers.select_dtypes("number")
    filled = numbers.nnz if is_sparse(numbers) else int(np.count_nonzero(numbers))
    size = numbers.shape[0] * numbers.shape[1]
    facts = {
        "rows": n_rows,
        "features": n_features,
        "values not zero": f"{filled / max(size, 1):.1%}",
        "queries": groups.n_groups if data.qid is not None else "none: one global ranking",
        "rows per query": {
            "least": int(sizes.min()),
            "median": float(np.median(sizes)),
            "most": int(sizes.max()),
        },
    }
    if data.y is None:
        return {**facts, "labels": "none"}
    unlike = PreferenceGraph.from_scores(data.y, data.qid, n_rows=n_rows, ties="exclude")
    pairs = PreferenceGraph.from_groups(data.qid, n_rows=n_rows)
    lowest, highest = (np.full(groups.n_groups, end) for end in (np.inf, -np.inf))
    np.minimum.at(lowest, groups.codes, data.y)
    np.maximum.at(highest, groups.codes, data.y)
    return {
        **facts,
        "pairs within queries": pairs.n_pairs,
        "pairs with different labels": unlike.n_pairs,
        "queries without two labels": int((lowest == highest).sum()),
        **_label_facts(data.y),
    }


def _label_facts(y: Any) -> dict[str, Any]:
    """The number of rows with each label; where there are many labels, their quantiles."""
    import numpy as np

    labels, counts = np.unique(y, return_counts=True)
    if len(labels) <= FEW_LABELS:
        return {"rows per label": {f"{v:g}": int(n) for v, n in zip(labels, counts, strict=True)}}
    quantiles = np.quantile(y, [0, 0.25, 0.5, 0.75, 1])
    names = ("smallest", "lower quartile", "median", "upper quartile", "largest")
    return {
        "different labels": len(labels),
        "labels": dict(zip(names, quantiles.tolist(), strict=True)),
    }


def model_facts(file: persistence.ModelFile) -> dict[str, Any]:
    """Type, parameters and training rows of a model."""
    from rankwise import AutoRanker

    model = file.model
    ranker = last_step(model)
    steps = getattr(model, "steps", ())
    facts: dict[str, Any] = {
        "type": type(model).__name__,
        "steps": ", ".join(type(step).__name__ for _, step in steps) or None,
        "features": getattr(model, "n_features_in_", None),
        "features that occur": getattr(seen_by(steps), "n_features_out_", None),
        "names": ", ".join(getattr(model, "feature_names_in_", ())) or None,
        "scaling": getattr(ranker, "scale_", None),
        "queries fitted to": getattr(ranker, "n_queries_", None),
    }
    if hasattr(ranker, "sides_"):
        facts["table"] = f"{ranker.n_rows_} rows, {ranker.n_columns_} columns"
        facts["cells fitted to"] = ranker.n_cells_
    if hasattr(ranker, "X_fit_"):
        facts["training rows kept"] = int(ranker.X_fit_.shape[0])
    if hasattr(ranker, "rank_"):
        facts["landmarks"] = f"{len(ranker.dual_coef_)}, of which {ranker.rank_} count"
    facts["trees"] = getattr(ranker, "n_estimators_", None)
    facts["alpha"] = getattr(ranker, "alpha_", None)
    if isinstance(ranker, AutoRanker):
        facts["expected on new queries"] = str(ranker.score_estimate_)
        facts["parts"] = {
            f"{k}: {part.name}": in_one_line(part.ranker) for k, part in enumerate(ranker.parts_, 1)
        }
    facts["form"] = getattr(ranker, "solver_", None)
    facts["table"] = ", ".join(f"{k} {v!r}" for k, v in file.table.items()) or facts.get("table")
    facts["written by"] = f"rankwise {file.version}" if file.version else None
    facts["parameters"] = {
        name: value if isinstance(value, int | float | str | None) else repr(value)
        for name, value in ranker.get_params(deep=False).items()
    }
    return {name: value for name, value in facts.items() if value is not None}


def _tables(facts: dict[str, Any]) -> list[Table]:
    """Facts as a list, and facts with several values as tables below it."""
    several = {name: value for name, value in facts.items() if isinstance(value, dict)}
    single = [(name, _word(value)) for name, value in facts.items() if name not in several]
    parts = [Table((Column(""), Column("")), tuple(single))]
    for name, values in several.items():
        if name == "rows per label":
            most = max(values.values())
            bars = [(k, n, "█" * max(1, round(BAR * n / most))) for k, n in values.items()]
            parts.append(Table((Column("label"), Column("rows"), Column("")), tuple(bars)))
        else:
            rows = [(key, _word(value)) for key, value in values.items()]
            parts.append(Table((Column(name), Column("")), tuple(rows)))
    return parts


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "None"
    return Column("", "g").show(value)


@grouped
def card(
    *,
    model: ModelFile,
    out: Out = None,
    rows: InputFile = None,
    features: InputFile = None,
    force: Force = False,
    table: ColumnOptions,
) -> None:
    """Write a model card: data, parameters, held-out scores, features by weight, and limits.

    Scores come from --rows, with 95% intervals over queries, and from the hold-outs in the model
    file. Use rows that the model was not fitted to. The features of a linear model are shown by
    weight. For other models, features are shown by their importance for the order of --rows.

    Pictures of a Markdown card are written beside it, as SVG files.

    \b
    Examples:
      rankwise card model.rankwise --rows test.txt
      rankwise card model.rankwise --rows test.txt --out card.html
      rankwise card model.rankwise --features names.txt --out card.md

    Parameters
    ----------
    out : FILE, default=MODEL.card.md
        Where to write the card: FILE.md for Markdown, FILE.html for a page.
    rows : DATA, default=none
        Rows with labels that the model was not fitted to, for its scores: a LETOR file or a table.
    features : FILE, default=names in the model, or f1, f2, ...
        Names of the features, one per line.
    """
    from rankwise.cli.card_page import CardRows, card_page
    from rankwise.report import write_markdown

    out = model.with_suffix(".card.md") if out is None else out
    if out.suffix.lower() not in CARDS:
        refuse("out", f"The name of a card ends with {' or '.join(CARDS)}: got {out.name!r}.")
    if rows is None:
        refuse_all(vars(table), WITHOUT_ROWS)
    check_writable(out, model, rows, features, force=force)
    file = read_model(model)
    given = None
    if rows is not None:
        data = table.read_for(file, model, rows)
        fitted = getattr(last_step(file.model), "n_queries_", 1)
        qid = one_query(data) if fitted > 1 else data.qid
        given = CardRows(rows.name, data.X, data.y, qid)
    with progress("Writing the card"):
        page = card_page(file, model.name, given, read_names(features))
        if out.suffix.lower() == ".html":
            page.write(out)
        else:
            write_markdown(page, out)
    note(f"Wrote {out}.")


@grouped
def export(
    *,
    model: ModelFile,
    to: Literal[
        "elasticsearch",
        "elasticsearch-trained-model",
        "opensearch",
        "solr",
        "vespa",
        "onnx",
        "json",
    ],
    out: Out = None,
    features: InputFile = None,
    rows: InputFile = None,
    distil: Literal["linear", "trees"] | None = None,
    float64: Annotated[bool | None, typer.Option("--float64/--float32")] = None,
    name: str | None = None,
    store: str | None = None,
    rank_feature: Literal["lightgbm", "xgboost"] | None = None,
    normalizers: bool = False,
    positive: bool | None = None,
    complete: bool = False,
    force: Force = False,
    table: ColumnOptions,
) -> None:
    """Write a model for Elasticsearch, OpenSearch, Solr, Vespa or ONNX, and check it.

    Linear models become named weights: scalers and selections of a pipeline are folded in. Any
    model becomes an ONNX graph; it needs the extra onnx. What a target cannot express is refused,
    with the reason and what works instead.

    Every export is checked: rows are scored by the model and by the exported form, with
    onnxruntime or by the published rules of the engine. FILE.check.json contains the largest
    difference and the number of pairs that lose their order. An export that does not pass is not
    written. Without --rows, rows are drawn from the range of the training rows: your own rows make
    a better check.

    Models that scale features within queries (--scale query-minmax, the default of fit for data
    with queries) are not linear: fit with --scale standard for a search engine. As an ONNX graph,
    they take all rows of one query in one call: splitting a query changes its scores.

    \b
    Examples:
      rankwise export model.rankwise --to onnx
      rankwise export model.rankwise --to elasticsearch --features names.txt --rows test.txt
      rankwise export model.rankwise --to solr --out model.json
      rankwise export rbf.rankwise --to solr --distil trees --rows train.txt

    Parameters
    ----------
    to : TARGET
        elasticsearch (for the plugin), elasticsearch-trained-model (trees, without the plugin),
        opensearch, solr, vespa, onnx or json (names and weights, for your own program).
    out : FILE, default=MODEL with the suffix of the target
        Where to write. The check goes to FILE.check.json.
    features : FILE, default=names in the model, or f1, f2, ...
        Names of the features, one per line.
    rows : DATA, default=drawn from the range of the training rows
        Rows to check the export on: a LETOR file or a table.
    distil : KIND, default=the model itself
        Export a linear ranker or boosted trees (linear or trees), fitted to the scores of the model
        on --rows; prints what that costs on held-out queries.
    float64 : FLAG, default=float32 where it can tell the rows apart
        ONNX: the type of the input and of the scores.
    name : NAME, default=rankwise
        Search engines: name of the model.
    store : NAME, default=the default one
        Solr: the feature store.
    rank_feature : NAME, default=lightgbm
        Vespa: the rank feature that reads trees, lightgbm or xgboost.
    normalizers : FLAG
        Search engines: leave the scaling of features to the normalizers of the engine.
    positive : FLAG, default=where negative scores are not allowed and the range is known
        Search engines: shift features such that scores are at least 0 within the range of the rows.
    complete : FLAG
        Search engines: no row lacks a feature, so missing values need not be filled in.
    """
    import rankwise.export as exports

    options = _options(
        to,
        precision={True: "float64", False: "float32", None: None}[float64],
        name=name,
        store=store,
        rank_feature=rank_feature,
        normalizers=normalizers or None,
        positive=positive,
        complete=complete or None,
    )
    if distil and rows is None:
        refuse("distil", "The ranker is fitted to the scores of rows: give --rows as well.")
    if rows is None:
        refuse_all(vars(table), WITHOUT_ROWS)
    file = read_model(model)
    if out is None:
        out = model.with_suffix(_suffix(to, file.model, distil))
    check_writable(out, model, features, rows, force=force)
    check_writable(exports.check_path(out), model, features, rows, force=force)
    exported, remarks = file.model, []
    options["features"] = read_names(features)
    if rows is not None:
        data = table.read_for(file, model, rows, needs_label=distil is not None)
        options |= {"rows": data.X, "qid": data.qid}
        if distil is not None:
            words = "a linear ranker" if distil == "linear" else "trees"
            with progress(f"Fitting {words} to the scores of {len(data.y):,} rows"):
                found = exports.distil(exported, data.X, data.y, qid=data.qid, into=distil)
            exported, remarks = found.ranker, [f"Distilled into {words}. {found}"]
    with progress(f"Exporting to {to}"):
        made = _function(to)(exported, **options).with_notes(*remarks)
    made.write(out)
    note(made.check.words(), *made.check.notes)
    note(f"Wrote {out}, and the check to {exports.check_path(out)}.")


def _suffix(to: str, model: Any, distil: str | None) -> str:
    """The suffix of the file for a target; Vespa reads trees from JSON files."""
    from rankwise.export.trees import trees_of

    if to == "vespa" and (distil == "trees" or (distil is None and trees_of(model) is not None)):
        return ".vespa.json"
    return SUFFIXES[to]


def _options(to: str, **given: Any) -> dict[str, Any]:
    """The options that are given, if the target takes them."""
    takes = {target: signature(_function(target)).parameters for target in SUFFIXES}
    options = {name: value for name, value in given.items() if value is not None}
    for name, value in options.items():
        if name not in takes[to]:
            having = ", ".join(target for target, names in takes.items() if name in names)
            refuse(value if name == "precision" else name, f"This is for {having}: got {to}.")
    return options


def _function(target: str) -> Any:
    """The function that writes a model for a target."""
    import rankwise.export as exports

    return getattr(exports, f"to_{target.replace('-', '_')}")
