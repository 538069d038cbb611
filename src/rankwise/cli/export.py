"""rankwise export: a model in the form that a search engine or another program takes."""

from __future__ import annotations

from inspect import signature
from typing import Annotated, Any, Literal

import typer

from rankwise.cli.data_options import ColumnOptions, read_model, read_names
from rankwise.cli.options import Force, InputFile, ModelFile, Out, grouped, refuse
from rankwise.cli.terminal import check_writable, note, progress

SUFFIXES = {
    "elasticsearch": ".elasticsearch.json",
    "opensearch": ".opensearch.json",
    "solr": ".solr.json",
    "vespa": ".vespa.txt",
    "onnx": ".onnx",
    "json": ".json",
}


@grouped
def export(
    *,
    model: ModelFile,
    to: Literal["elasticsearch", "opensearch", "solr", "vespa", "onnx", "json"],
    out: Out = None,
    features: InputFile = None,
    rows: InputFile = None,
    distil: bool = False,
    float64: Annotated[bool | None, typer.Option("--float64/--float32")] = None,
    name: str | None = None,
    store: str | None = None,
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
      rankwise export rbf.rankwise --to solr --distil --rows train.txt

    Parameters
    ----------
    to : TARGET
        elasticsearch, opensearch, solr, vespa, onnx or json (names and weights, for your own
        program).
    out : FILE, default=MODEL with the suffix of the target
        Where to write. The check goes to FILE.check.json.
    features : FILE, default=names in the model, or f1, f2, ...
        Names of the features, one per line.
    rows : DATA, default=drawn from the range of the training rows
        Rows to check the export on: a LETOR file or a table.
    distil : FLAG
        Export a linear ranker that is fitted to the scores of the model on --rows; prints what that
        costs on held-out queries.
    float64 : FLAG, default=float32 where it can tell the rows apart
        ONNX: the type of the input and of the scores.
    name : NAME, default=rankwise
        Search engines: name of the model.
    store : NAME, default=the default one
        Solr: the feature store.
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
        normalizers=normalizers or None,
        positive=positive,
        complete=complete or None,
    )
    if distil and rows is None:
        refuse("distil", "A linear ranker is fitted to the scores of rows: give --rows as well.")
    if rows is None:
        table.refuse_without_rows()
    out = model.with_suffix(SUFFIXES[to]) if out is None else out
    check_writable(out, model, features, rows, force=force)
    check_writable(exports.check_path(out), model, features, rows, force=force)
    file = read_model(model)
    data = None
    if rows is not None:
        data = table.read_for(file, model, rows, needs_label=distil)
    exported, remarks = file.model, []
    if distil and data is not None:
        exported, remark = _distilled(file.model, data)
        remarks.append(remark)
    given: dict[str, Any] = {"features": read_names(features)}
    if data is not None:
        given |= {"rows": data.X, "qid": data.qid}
    with progress(f"Exporting to {to}"):
        made = getattr(exports, f"to_{to}")(exported, **given, **options)
    made = made.with_notes(*remarks)
    made.write(out)
    note(str(made.check))
    for remark in made.check.notes:
        note(remark)
    note(f"Wrote {out}, and the check to {exports.check_path(out)}.")


def _options(to: str, **given: Any) -> dict[str, Any]:
    """The options that are given, if the target takes them."""
    import rankwise.export as exports

    takes = {target: signature(getattr(exports, f"to_{target}")).parameters for target in SUFFIXES}
    options = {name: value for name, value in given.items() if value is not None}
    for name, value in options.items():
        if name not in takes[to]:
            having = ", ".join(target for target, names in takes.items() if name in names)
            refuse(value if name == "precision" else name, f"This is for {having}: got {to}.")
    return options


def _distilled(model: Any, data: Any) -> tuple[Any, str]:
    """A linear ranker in place of the model, and what that costs."""
    from rankwise.export import distil

    with progress(f"Fitting a linear ranker to the scores of {len(data.y):,} rows"):
        found = distil(model, data.X, data.y, qid=data.qid)
    return found.ranker, f"Distilled into a linear ranker. {found}"
