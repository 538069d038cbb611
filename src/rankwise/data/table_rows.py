"""Labelled rows of tables: files, data frames, and blocks of large files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankwise.data.query_rows import (
    DescribedRows,
    FileSurvey,
    QueryBlocks,
    qid_from_groups,
    run_starts,
)
from rankwise.data.table_columns import (
    KNOWN,
    Look,
    Roles,
    TableRows,
    Wants,
    ids_of_texts,
    plain_name,
)
from rankwise.data.table_files import (
    ColumnFault,
    OptionalModule,
    Source,
    TableFile,
    arrow,
    check_names_differ,
    float_column,
    id_column,
)
from rankwise.errors import DataError, ParameterError, TableError
from rankwise.graph.query_groups import EXACT, columns_of, entries_of
from rankwise.parameters import check_float_type
from rankwise.tables import Column, Table, plural

pandas = OptionalModule("pandas")
MARK_NAMES = {"decimal", "thousands"}


@dataclass(frozen=True, eq=False, repr=False)
class TableData(DescribedRows):
    """The rows of a table.

    Attributes
    ----------
    X : DataFrame of shape (n_rows, n_features)
        Features with their names: numbers and, where these are wanted, text and dates. Rankers
        remember the names in ``feature_names_in_``.
    y : ndarray of shape (n_rows,) or None
        Labels, float64; None if the table has none.
    qid : ndarray of shape (n_rows,) or None
        Query ids: whole numbers, with all their digits, if all ids are whole numbers, otherwise
        text; None if there are none.
    ids : ndarray of shape (n_rows,) or None
        Ids of rows, such as document ids.
    roles : Roles
        Which column is what, and whether this was guessed.
    problems : TableError or None
        What would be an error, of a table that may contain anything (`rankwise info`).
    words : ndarray of shape (n_rows,) or None
        The labels, if they are words without grades.

    Examples
    --------
    >>> from rankwise.data import from_frame
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"qid": [1, 1], "grade": [0, 2], "price": [9.5, 7.0]})
    >>> data = from_frame(frame, verbose=False)
    >>> data.qid, data.y, data.feature_names
    (array([1, 1]), array([0., 2.]), ('price',))
    """

    X: Any
    y: NDArray[np.float64] | None
    qid: NDArray[Any] | None
    ids: NDArray[Any] | None
    roles: Roles
    problems: TableError | None = None
    words: NDArray[Any] | None = None

    @cached_property
    def columns(self) -> Table:
        """How each column was understood: its type, role, missing values and range."""
        labels = self.y if self.words is None else self.words
        special = ((self.roles.query, self.qid), (self.roles.label, labels))
        named = [(name, v) for name, v in (*special, (self.roles.id, self.ids)) if name is not None]
        named += [(name, self.X[name]) for name in self.X.columns]
        rows = [_row(name, self.roles.role(name), values) for name, values in named]
        rows += [(name, "", why, None, "") for name, why in self.roles.left_out.items()]
        head = (Column("column", ""), Column("type", ""), Column("role", ""))
        return Table((*head, Column("missing", ",d"), Column("values", "")), tuple(rows))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(self.roles.features)

    def _facts(self) -> dict[str, str]:
        return {**super()._facts(), "columns": self.roles.words()}


def read_table(
    path: str | PathLike[str],
    *,
    qid: str | None = None,
    label: str | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    id: str | None = None,
    format: str | None = None,
    grades: Mapping[str, float] | None = None,
    dates: bool = False,
    keep_text: bool = False,
    keep_missing: bool = False,
    separator: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    dtype: DTypeLike = np.float64,
) -> TableData:
    """Read labelled rows from a table: CSV, TSV, Parquet, Arrow, Feather or JSON lines.

    Files may be compressed (gzip, bzip2, Zstandard, LZ4). They are read by pyarrow, in parallel:
    ``pip install 'rankwise[tables]'``. Memory: the columns that are used, twice for a moment.

    Columns that you do not specify are recognized by their names: queries in ``qid``, ``query_id``,
    ``query`` and the like, labels in ``label``, ``relevance``, ``grade``, ids in ``doc_id``,
    ``id``. All other columns are features, unless `features` or `ignore` is given. The roles, and
    whether they were guessed, are part of the result.

    Parameters
    ----------
    path : str or path-like
    qid, label, id : str, optional
        The columns of query ids, labels and row ids. None: guessed. A table may have no queries
        and no ids, and, for predictions, no labels: `y` is None then.
    features : sequence of str, optional
        Names of features, or patterns such as ``"price_*"``. None: all other columns.
    ignore : sequence of str, default=()
        Columns to leave out: names or patterns.
    format : {"csv", "tsv", "parquet", "arrow", "jsonl", "json"}, optional
        None: by the suffix. Arrow's streams and Feather are "arrow".
    grades : mapping of str to float, optional
        The grade of each word, for labels that are words, as in ``{"none": 0, "clicked": 1,
        "booked": 2}``. Ordered categories need none: their grades are 0, 1, 2, ... in their order.
    dates : bool, default=False
        Whether columns of dates are features, for an `AutoRanker` or a `TableEncoder`. False: they
        are left out.
    keep_text : bool, default=False
        Whether features may be text, for an `AutoRanker` or an encoder. False: an error.
    keep_missing : bool, default=False
        Whether features may be missing, for an `AutoRanker` or an imputer. False: an error with
        their number in each column. Labels and query ids are never missing.
    separator : str, optional
        Between the values of a CSV file. None: a comma, a tab in TSV files, or the mark that is in
        the first line instead.
    decimal, thousands : str, optional
        The marks in numbers that are text, as in "58.300,50": by default, a decimal point, and
        none between thousands. Columns in which other text occurs stay as they are.
    dtype : {float64, float32}, default=float64
        Type of the numbers in X.

    Returns
    -------
    TableData
        With attributes `X`, `y`, `qid`, `ids`, `roles` and `columns`.

    Raises
    ------
    TableError
        If columns cannot be used: the message lists everything that is wrong, and ends with a call
        that works.
    DataError
        If the file cannot be read: the message names the file, the line, and what to do.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from rankwise import RankRLS
    >>> from rankwise.data import read_table
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.csv")
    ...     _ = path.write_text("query,grade,price,stars\\na,0,9,3\\na,2,7,4\\nb,1,3,5\\n")
    ...     data = read_table(path)
    >>> data.roles.words()
    "query 'query' (guessed); label 'grade' (guessed); 2 features (price, stars)"
    >>> RankRLS().fit(data.X, data.y, qid=data.qid).feature_names_in_
    array(['price', 'stars'], dtype=object)
    """
    given = dict(locals())
    del given["path"], given["dtype"]
    file = TableFile.of(Path(path), format, separator, decimal, thousands)
    float_type = check_float_type(dtype)
    named = {"query": qid, "label": label, "id": id, "features": features, "ignore": ignore}
    wants = Wants(keep_text, keep_missing, dates, grades)
    try:
        return read_columns(file, named, wants, dtype=float_type)
    except TableError as error:
        raise _explained(error, f"read_table({str(path)!r}", given) from None


def _explained(error: TableError, call: str, given: dict[str, Any]) -> TableError:
    """The same error, which ends with a call that works."""
    plain = {n: value.tolist() if hasattr(value, "tolist") else value for n, value in given.items()}
    values = {name: value for name, value in plain.items() if value not in (None, False, ())}
    for name, value in error.settings.items():
        if name in ("encode", "impute"):
            values["keep_text" if name == "encode" else "keep_missing"] = True
        elif name == "ignore":
            values[name] = [*values.get(name, ()), *value]
        else:
            values[{"query": "qid"}.get(name, name)] = value
    if not error.settings:
        return error
    options = ", ".join([call, *(f"{name}={value!r}" for name, value in values.items())])
    return TableError(error.where, error.problems, error.settings, f"This works: {options})")


def read_columns(
    file: TableFile,
    named: Mapping[str, Any],
    wants: Wants,
    *,
    tolerant: bool = False,
    dtype: Any = np.float64,
) -> TableData:
    """The rows of a file whose columns have roles by `Roles.of`, with the arguments `named`.

    A file whose numbers seem to have other marks is read again with these, so that all that is
    wrong is found at once. With `tolerant`, what is wrong is in `problems`, and
    is no error.
    """
    before: list[ColumnFault] = []
    tried: set[str] = set()
    while True:
        roles = Roles.of(file.path, file.names, **named)
        rows = _rows_of(file, roles, wants)
        look = Look.at(rows, roles, wants, dtype, whole=True)
        faults = [fault for fault in look.faults if isinstance(fault, ColumnFault)]
        faults = [fault for fault in faults if MARK_NAMES & fault.settings.keys() - tried]
        marks = {k: v for fault in faults for k, v in fault.settings.items() if k not in tried}
        if not marks:
            return _as_data(rows, replace(look, faults=[*before, *look.faults]), tolerant=tolerant)
        file, tried, before = replace(file, **marks), tried | marks.keys(), [*before, *faults]


def _rows_of(file: TableFile, roles: Roles, wants: Wants) -> TableRows:
    """The columns of a file that are used, or all if some must be found by their values."""
    lacks = (wants.needs_label and roles.label is None) or (wants.needs_query and not roles.query)
    columns = list(dict.fromkeys([*roles.used, *(file.names if lacks else ())]))
    return TableRows(file, file.read(columns, roles.used_ids))


def _as_data(rows: TableRows, look: Look, *, tolerant: bool = False) -> TableData:
    """Rows whose features are a data frame, with texts and dates."""
    problems, roles = look.error(rows.source.path), look.roles
    if problems is not None and not tolerant:
        raise problems
    numbers = [name for name in roles.features if rows.kinds[name] in ("number", "empty")]
    frame = _frame(look.X, numbers)
    for k, name in enumerate(roles.features):
        if name not in numbers:
            values = rows.dates(name) if rows.kinds[name] == "date" else rows.texts(name)
            frame.insert(k, name, values)
    words = None
    if roles.label is not None and look.y is None and rows.kinds[roles.label] == "text":
        words = rows.texts(roles.label)
    return TableData(frame, look.y, look.qid, look.ids, roles, problems, words)


def feature_frame(X: Any) -> Any:
    """All columns of a data frame as features: a pandas data frame of numbers, texts and dates."""
    rows = TableRows(Source("X"), _arrow_table(X))
    roles = Roles(None, None, None, list(rows.table.column_names), {}, frozenset())
    wants = Wants(keep_text=True, keep_missing=True, dates=True, like_model=True)
    try:
        return _as_data(rows, Look.at(rows, roles, wants, np.float64, whole=True)).X
    except TableError as error:
        marks = [f"{k}={v!r}" for k, v in error.settings.items() if k in MARK_NAMES]
        if not marks:
            raise
        options = ", ".join([*marks, "keep_text=True", "keep_missing=True", "dates=True"])
        remedy = f"rankwise.data.from_frame(X, {options}).X has these numbers."
        raise TableError(error.where, error.problems, error.settings, remedy) from None


def _frame(X: Any, names: Sequence[str]) -> Any:
    """Rows as a pandas data frame, which shares their memory."""
    return pandas.DataFrame(X, columns=list(names), copy=False)


def _row(name: str, role: str, values: Any) -> tuple[Any, ...]:
    """A column in a few words: its type, its role, its missing values, and what is in it."""
    column = np.asarray(values)
    if column.dtype.kind == "M":
        known = column[~np.isnat(column)]
        ends = f"{known.min():.10} to {known.max():.10}" if len(known) else ""
        return name, "date", role, len(column) - len(known), ends
    if values is None:
        return name, "", role, None, ""
    if column.dtype.kind in "iuf":
        missing = int(np.isnan(column).sum()) if column.dtype.kind == "f" else 0
        if missing == len(column):
            return name, "empty", role, missing, ""
        both = [end.item() for end in (np.nanmin(column), np.nanmax(column))]
        whole = all(isinstance(end, int) or (end.is_integer() and end < EXACT) for end in both)
        shown = [f"{int(end)}" if whole else f"{end:g}" for end in both]  # ids keep their digits
        return name, "number", role, missing, " to ".join(shown)
    words = column.tolist()
    example = next((word for word in words if word), "")
    found = f"{len(set(words) - {''}):,} different, such as {str(example)[:20]!r}"
    kind = "text" if isinstance(example, str) else "number"
    return name, kind, role, words.count(""), found


def from_frame(
    frame: Any,
    *,
    label: str | None = None,
    qid: str | None = None,
    group: Any = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    id: str | None = None,
    grades: Mapping[str, float] | None = None,
    dates: bool = False,
    keep_text: bool = False,
    keep_missing: bool = False,
    decimal: str | None = None,
    thousands: str | None = None,
    verbose: bool = True,
) -> TableData:
    """Features, labels and queries of a data frame, by the names of its columns.

    Takes frames of pandas, polars and pyarrow, and others that Arrow reads by its PyCapsule
    interface: ``pip install 'rankwise[tables]'``. Columns that you do not specify are guessed by
    their names, as in `read_table`. An index of pandas with such a name counts as a column. Prints
    in one line which column is what.

    Parameters
    ----------
    frame : data frame
    label, qid, id : str, optional
        The columns of labels, query ids and row ids. None: guessed.
    group : array-like of shape (n_queries,), optional
        Instead of `qid`: the number of rows of each query, as in LightGBM. The rows of a query are
        adjacent.
    features, ignore : sequence of str
        Names of features and of columns to leave out, or patterns such as ``"price_*"``. By
        default, all other columns are features.
    grades : mapping of str to float, optional
        The grade of each word, for labels that are words. Ordered categories need none: their
        grades are 0, 1, 2, ... in their order.
    dates : bool, default=False
        Whether columns of dates are features; otherwise they are left out.
    keep_text, keep_missing : bool, default=False
        Whether features may be text, and may be missing; otherwise these are errors.
    decimal, thousands : str, optional
        The marks in numbers that are text, as in `read_table`.
    verbose : bool, default=True
        Whether to print which column is what.

    Returns
    -------
    TableData
        With attributes `X` (a pandas data frame), `y`, `qid`, `ids` and `roles`.

    Examples
    --------
    >>> import pandas as pd
    >>> from rankwise import RankRLS
    >>> from rankwise.data import from_frame
    >>> frame = pd.DataFrame({"query": ["a", "a", "b", "b"], "stars": [1, 2, 3, 1],
    ...                       "price": [1.0, 0.5, 2.0, 3.0]})
    >>> data = from_frame(frame, label="stars")
    from_frame: query 'query' (guessed); label 'stars'; 1 feature (price)
    >>> RankRLS().fit(data.X, data.y, qid=data.qid).feature_names_in_
    array(['price'], dtype=object)
    >>> from_frame(frame, label="stars", ignore=["query"], group=[3, 1]).qid
    from_frame: label 'stars'; 1 feature (price); left out: query; 2 queries from group sizes
    array([0, 0, 0, 1])
    """
    given = dict(locals())
    del given["frame"], given["verbose"]
    table = _arrow_table(_with_index(frame, (qid, label, id)))
    source = Source("The frame", decimal=decimal or ".", thousands=thousands)
    if group is not None and qid is not None:
        raise ParameterError("Give qid or group, not both: each defines the queries.")
    roles = Roles.of(
        source.path, table.column_names, query=qid, label=label, id=id, features=features,
        ignore=ignore,
    )  # fmt: skip
    if group is not None and roles.query is not None:
        raise ParameterError(
            f"Queries are given by group, but the column {roles.query!r} looks like query ids: "
            f"leave group out, or name the column in ignore."
        )
    wants = Wants(keep_text, keep_missing, dates, grades)
    try:
        rows = TableRows(source, source.with_numbers(table, roles.used_ids))
        data = _as_data(rows, Look.at(rows, roles, wants, np.float64, whole=True))
    except TableError as error:
        raise _explained(error, "from_frame(frame", given) from None
    words = data.roles.words()
    if group is not None:
        queries = qid_from_groups(group)
        if len(queries) != table.num_rows:
            raise DataError(
                f"The group sizes add up to {len(queries)}, but the frame has {table.num_rows} "
                "rows: they do not belong together."
            )
        data = replace(data, qid=queries)
        words += f"; {plural(len(np.asarray(group)), 'query')} from group sizes"
    if verbose:
        print(f"from_frame: {words}")
    return data


def _with_index(frame: Any, named: Sequence[str | None]) -> Any:
    """A frame of pandas whose index, if it has queries, labels or ids, is a column."""
    levels = getattr(getattr(frame, "index", None), "names", ())
    wanted = [
        name
        for name in levels
        if isinstance(name, str)
        and name not in frame.columns
        and (name in named or any(plain_name(name) in known for known in KNOWN.values()))
    ]
    return frame.reset_index(level=wanted) if wanted else frame


def _arrow_table(frame: Any) -> Any:
    if hasattr(frame, "collect"):
        raise DataError("The frame is lazy: call its collect method first.")
    if not hasattr(frame, "columns") and not hasattr(type(frame), "column_names"):
        raise DataError(
            f"Expected a data frame of pandas, polars or pyarrow: got a {type(frame).__name__}."
        )
    names = columns_of(frame)
    check_names_differ("The frame", names)
    other = next((name for name in names if not isinstance(name, str)), None)
    if other is not None:
        raise DataError(f"Names of columns must be text: got {other!r}. Rename them.")
    _refuse_mixed_dates(frame)
    try:
        table = frame.to_arrow() if hasattr(frame, "to_arrow") else arrow.table(frame)
        return table.select(names)
    except Exception:  # of any library: which column is it?
        return arrow.table({name: _arrow_column(frame[name], name) for name in names})


def _refuse_mixed_dates(frame: Any) -> None:
    """Raise an error about a column of pandas with dates beside other values.

    Arrow would make dates or numbers of all of them, and different values equal.
    """
    for name, dtype in getattr(frame, "dtypes", {}).items() if hasattr(frame, "iloc") else ():
        values = getattr(dtype, "categories", frame[name])
        kinds = set(map(type, values[~values.isna()])) if values.dtype == object else set()
        if len(kinds) > 1 and any(issubclass(kind, date | time | timedelta) for kind in kinds):
            raise _several_types(name, kinds)


def _several_types(name: str, kinds: set[type]) -> DataError:
    found = ", ".join(sorted(kind.__name__ for kind in kinds))
    return DataError(
        f"The frame: the column {name!r} holds values of several types, or of a type that Arrow "
        f"does not know ({found}). Convert them to one type, such as text."
    )


def _arrow_column(column: Any, name: str) -> Any:
    try:
        if hasattr(column, "to_arrow"):
            return column.to_arrow()
        is_sparse = hasattr(column.dtype, "fill_value")
        return arrow.array(np.asarray(column) if is_sparse else column)
    except Exception as error:
        values = entries_of(column)
        kinds = {type(value) for value in values} - {NoneType}
        if kinds <= {int}:
            return id_column(Source("The frame"), name, values)
        if kinds <= {int, float}:
            return float_column(values)
        raise _several_types(name, kinds) from error


class TableBlocks(QueryBlocks[TableData]):
    """The rows of a table, block by block; a block never splits a query.

    Each iteration reads the file again and yields a `TableData` per block. Before the first one,
    a pass over the whole file checks that every row can be read, that no value is missing, and
    that the rows of each query are contiguous. Features are numbers; dates are left out.

    Time is linear in the size of the file. Memory: about three blocks, or the longest query if
    that is larger, and the query ids.

    Parameters
    ----------
    path : str or path-like
    qid, label, features, ignore, format, separator, decimal, thousands, grades, dtype
        As for `read_table`.
    block_bytes : int, optional
        Approximate size of the features in a block. None: 32 MiB.
    progress : callable, optional
        Called with the rows read so far in this pass, and the number of rows in all (0 in the
        first pass).

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from rankwise.data import TableBlocks
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.csv")
    ...     _ = path.write_text("qid,label,price\\n7,1,0.5\\n7,0,2\\n8,3,1\\n")
    ...     for block in TableBlocks(path, block_bytes=16):
    ...         print(block.qid, block.X["price"].tolist())
    [7 7] [0.5, 2.0]
    [8] [1.0]
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        qid: str | None = None,
        label: str | None = None,
        features: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        format: str | None = None,
        separator: str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        grades: Mapping[str, float] | None = None,
        dtype: DTypeLike = np.float64,
        block_bytes: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        super().__init__(path, block_bytes, progress)
        self.file = TableFile.of(Path(path), format, separator, decimal, thousands)
        self.roles = Roles.of(
            self.file.path, self.file.names, query=qid, label=label, features=features,
            ignore=ignore,
        )  # fmt: skip
        self.roles = replace(self.roles, id=None)
        self._dtype, self.wants = check_float_type(dtype), Wants(grades=grades, needs_label=True)
        self._given = {
            "qid": qid, "label": label, "features": features, "ignore": ignore, "format": format,
            "grades": grades, "separator": separator, "decimal": decimal, "thousands": thousands,
        }  # fmt: skip

    @cached_property
    def survey(self) -> FileSurvey:
        """Counts of the file; the first access reads it once."""
        version = self.version()
        ids: list[NDArray[Any]] = []
        rows: list[int] = []
        n_rows = 0
        for piece in self._read(0, is_part=True):
            if piece.qid is not None:
                starts = run_starts(piece.qid)
                ids.append(piece.qid[starts])
                rows += (n_rows + starts).tolist()
            n_rows += len(piece.X)
        if n_rows == 0:
            raise DataError(f"{self.file.path} has no rows: only the names of its columns.")
        n_queries, text_ids = 0, False
        if ids:
            runs = ids_of_texts([str(name) for part in ids for name in part.tolist()])
            text_ids = runs.dtype.kind in "UO"
            n_queries = self._count_queries(runs, lambda k: self.file.place(rows[k]))
        return FileSurvey(version, n_rows, n_queries, len(self.roles.features), text_ids)

    def __iter__(self) -> Iterator[TableData]:
        for block in super().__iter__():
            yield replace(block, X=_frame(block.X, self.roles.features))

    def _pieces(self) -> Iterator[TableData]:
        text_ids = self.survey.text_ids
        for piece in self._read(self.survey.n_rows, is_part=text_ids):
            if piece.qid is not None and text_ids:
                piece = replace(piece, qid=np.array(list(map(str, piece.qid.tolist())), object))
            yield piece

    def _read(self, n_rows: int, *, is_part: bool) -> Iterator[TableData]:
        """The rows of each batch in arrays."""
        done, wants = 0, self.wants
        self._progress(0, n_rows)
        for table in self.file.batches(self.roles.used, self.roles.used_ids):
            if table.num_rows:
                rows = TableRows(self.file, table, done, is_part)
                done += table.num_rows
                look = Look.at(rows, self.roles, wants, self._dtype, whole=False)
                error = look.error(self.file.path)
                if error is not None:
                    raise _explained(error, f"read_table({str(self.file.path)!r}", self._given)
                self.roles, wants = look.roles, replace(wants, like_model=True)
                yield TableData(look.X, look.y, look.qid, look.ids, look.roles)
                self._progress(done, n_rows)
