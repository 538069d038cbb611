"""rankwise predict: scores of rows."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from rankwise.cli.data_options import Features, TableOptions, note_scaling, read_model, scores_of
from rankwise.cli.options import Force, InputArgument, InputFile, ModelFile, Out, grouped, refuse
from rankwise.cli.table_files import predict_table
from rankwise.cli.terminal import check_writable, note
from rankwise.tables import plural

BLOCK = 10_000  # scores written at a time


@grouped
def predict(
    *,
    model: ModelFile,
    data: InputArgument,
    out: Out = None,
    force: Force = False,
    features: Features = None,
    columns: InputFile = None,
    table: TableOptions,
) -> None:
    """Score the rows of a file: higher is better.

    Scores order the rows of the same query. They are written with all their digits. If the model
    scales features within queries, all rows of a query in DATA are scaled together: do not split a
    query over two files.

    For a LETOR file, the result is one number per line. For a table, it is a table with the columns
    of ids and queries, and the column score, in the order of the rows. The columns of DATA may be
    in any order: the model finds them by their names.

    LETOR files may leave out features that are 0. If DATA ends before the last feature of the
    model, the rest is read as 0, with a warning. If it has fewer than half of the features,
    --features must confirm the number.

    For a model of a table (fit with --rows and --columns), DATA has the features of rows, known or
    new, and the result is a table with a score for each row and column.

    \b
    Examples:
      rankwise predict model.rankwise test.txt --out scores.txt
      rankwise predict model.rankwise test.txt.gz | head
      rankwise predict model.rankwise new.csv --out scores.csv
      rankwise predict model.rankwise new-drugs.csv --columns targets.csv --out scores.csv
      rankwise predict model.rankwise new.parquet --id product --out scores.parquet

    Parameters
    ----------
    data : DATA
        LETOR file or table; it needs no labels.
    out : FILE
        Write scores here instead of to stdout: a table if the name ends with .csv, .tsv, .parquet,
        .arrow or .jsonl.
    columns : FILE, default=the columns of the fit
        For a model of a table: features of its columns.
    """
    from rankwise.data.tables.formats import COMPRESSED, SPREADSHEETS, format_of, write_columns
    from rankwise.files import replacing

    if out is not None:
        if out.suffix.lower() in COMPRESSED:
            refuse("out", f"Scores are written without compression: leave {out.suffix} out.")
        if out.suffix.lower() in SPREADSHEETS:
            refuse("out", f"Spreadsheets are not written: name it {out.stem}.csv, which they open.")
        check_writable(out, model, data, force=force)
    file = read_model(model)
    ranker = getattr(file.model, "best_estimator_", file.model)
    if hasattr(ranker, "sides_"):
        scores = predict_table(ranker, data, columns, table)
        write_columns(scores, out, "csv" if out is None else format_of(out) or "csv")
        if out is not None:
            rows_and_columns = f"{plural(len(scores['row']), 'row')} and {len(scores) - 1} columns"
            note(f"Wrote {out}: scores of {rows_and_columns}.")
        return
    if columns is not None:
        refuse("columns", "This is for a model of a table, fitted with --rows and --columns.")
    rows = table.read_for(file, model, data, features, needs_label=False)
    scores = scores_of(file, rows)
    as_table = "csv" if out is None and table.is_table(data) else out and format_of(out)
    if as_table:
        write_columns(_columns(rows, scores), out, as_table)
    elif out is None:
        _write(scores, sys.stdout)
    else:
        with replacing(out) as beside, beside.open("w", encoding="ascii") as lines:
            _write(scores, lines)
    note_scaling(file.model)
    if out is not None:
        note(f"Wrote {out}: scores of {plural(len(scores), 'row')}.")


def _columns(rows: Any, scores: Any) -> dict[str, Any]:
    """The ids and queries of rows under their own names, and the scores."""
    roles = getattr(rows, "roles", None)
    named = {
        getattr(roles, "id", None) or "id": getattr(rows, "ids", None),
        getattr(roles, "query", None) or "qid": rows.qid,
        "score": scores,
    }
    return {name: values for name, values in named.items() if values is not None}


def _write(scores: Any, file: TextIO) -> None:
    """Write block by block: one huge write may be cut short, and needs more memory."""
    for start in range(0, len(scores), BLOCK):
        block = scores[start : start + BLOCK].tolist()
        file.write("".join(f"{score!r}\n" for score in block))
