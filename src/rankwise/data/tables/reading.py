"""Labelled rows of tables: from a file or a data frame, whole or in blocks of whole queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    BLOCK_BYTES,
    DescribedRows,
    FileVersion,
    file_version,
    qid_from_groups,
    run_starts,
    whole_queries,
)
from rankwise.data.tables.arrow_files import (
    Source,
    TableFile,
    check_features,
    check_values,
    id_column,
    ids,
    kind_of,
    labels,
    matrix,
    neither_numbers_nor_text,
    refuse_missing,
    text_values,
)
from rankwise.data.tables.formats import check_names_differ, require_pyarrow
from rankwise.data.tables.roles import Roles, is_guessed
from rankwise.errors import DataError, MissingExtraError, ParameterError
from rankwise.parameters import AnyOf, Whole, check_float_type, check_value
from rankwise.tables import Column, Table, plural


@dataclass(frozen=True, eq=False, repr=False)
class TableData(DescribedRows):
    """The rows of a table.

    Attributes
    ----------
    X : DataFrame of shape (n_rows, n_features)
        Features with their names. Rankers remember the names in ``feature_names_in_``.
    y : ndarray of shape (n_rows,) or None
        Labels, float64; None if the table has none.
    qid : ndarray of shape (n_rows,) or None
        Query ids: whole numbers if all ids are such, with all their digits, otherwise text; None
        if there are none.
    ids : ndarray of shape (n_rows,) or None
        Ids of rows, such as document ids.
    roles : Roles
        Which column is what, and whether this was guessed.

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

    @cached_property
    def columns(self) -> Table:
        """How each column was understood: its type, role, missing values and range."""
        special = ((self.roles.query, self.qid), (self.roles.label, self.y))
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
    keep_text: bool = False,
    keep_missing: bool = False,
    separator: str | None = None,
    decimal: str | None = None,
    dtype: DTypeLike = np.float64,
) -> TableData:
    """Read labelled rows from a table: CSV, TSV, Parquet, Arrow, Feather or JSON lines.

    Files may be compressed (gzip, bzip2, Zstandard, LZ4). They are read by pyarrow, in parallel:
    ``pip install 'rankwise[tables]'``. Memory: the columns that are used, twice for a moment.

    Columns that are not named are found by their names: queries in ``qid``, ``query_id``, ``query``
    and the like, labels in ``label``, ``relevance``, ``grade``, ids in ``doc_id``, ``id``. All
    other columns are features, unless `features` or `ignore` says otherwise. The result has the
    roles, and whether they were guessed.

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
    keep_text : bool, default=False
        Whether features may be text, for an encoder. False: an error.
    keep_missing : bool, default=False
        Whether features may be missing, for an imputer. False: an error with their number in each
        column. Labels and query ids are never missing.
    separator, decimal : str, optional
        Of CSV files, "," and "." if not given.
    dtype : {float64, float32}, default=float64
        Type of the numbers in X.

    Returns
    -------
    TableData
        With attributes `X`, `y`, `qid`, `ids`, `roles` and `columns`.

    Raises
    ------
    DataError
        If the table cannot be read or used: the message has the file, the line or the column, and
        what to do.

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
    file = TableFile.of(Path(path), format, separator, decimal)
    float_type = check_float_type(dtype)
    roles = Roles.of(
        file.path, file.names, query=qid, label=label, id=id, features=features, ignore=ignore,
        needs_label=False,
    )  # fmt: skip
    return read_roles(file, roles, keep_text=keep_text, keep_missing=keep_missing, dtype=float_type)


def read_roles(
    file: TableFile,
    roles: Roles,
    *,
    keep_text: bool = False,
    keep_missing: bool = False,
    keep_all: bool = False,
    dtype: Any = np.float64,
) -> TableData:
    """The rows of a file whose columns are known."""
    used = [n for n in (roles.query, roles.label, roles.id) if n is not None]
    texts = [n for n in used if n != roles.label and n not in roles.features]
    table = file.read(list(dict.fromkeys([*used, *roles.features])), texts)
    return of_table(
        file, table, roles, keep_text=keep_text, keep_missing=keep_missing, keep_all=keep_all,
        dtype=dtype,
    )  # fmt: skip


def of_table(
    file: Source,
    table: Any,
    roles: Roles,
    *,
    keep_text: bool,
    keep_missing: bool,
    keep_all: bool = False,
    dtype: Any = np.float64,
) -> TableData:
    """The rows of an Arrow table; `file` says in messages where they come from.

    With `keep_all`, columns that cannot be features are left out, with the reason.
    """
    if not table.num_rows:
        raise DataError(f"{file.path} has no rows: only the names of its columns.")
    if keep_all:
        others = neither_numbers_nor_text(table, roles.features)
        roles = roles.without({name: f"none: a {kind}" for name, kind in others.items()})
    qid = None if roles.query is None else ids(file, table, roles.query)
    y = None if roles.label is None else labels(file, table, roles.label)
    names = None if roles.id is None else ids(file, table, roles.id)
    check_features(file, table, roles.features, keep_text=keep_text)
    is_text = {n: kind_of(table.schema.field(n).type) == "text" for n in roles.features}
    numbers = [name for name in roles.features if not is_text[name]]
    X = matrix(table, numbers, dtype)
    check_values(file, X, numbers, keep_missing=keep_missing)
    frame = as_frame(X, numbers)
    for k, name in enumerate(roles.features):
        if is_text[name]:
            words = text_values(table.column(name))
            frame.insert(k, name, words)
            if not keep_missing:
                refuse_missing(file, {name: int(np.sum(words == ""))}, len(words))
    return TableData(frame, y, qid, names, roles)


def as_frame(X: Any, names: Sequence[str]) -> Any:
    """Rows as a pandas data frame, which shares their memory."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("pandas", "tables") from error
    return pandas.DataFrame(X, columns=list(names), copy=False)


def _row(name: str, role: str, values: Any) -> tuple[Any, ...]:
    """A column in a few words: its type, its role, its missing values, and what is in it."""
    column = np.asarray(values)
    if column.dtype.kind in "iuf":
        missing = int(np.isnan(column).sum()) if column.dtype.kind == "f" else 0
        if missing == len(column):
            return name, "empty", role, missing, ""
        return name, "number", role, missing, f"{np.nanmin(column):g} to {np.nanmax(column):g}"
    words = column.tolist()
    example = next((word for word in words if word), "")
    found = f"{len(set(words)):,} different, such as {str(example)[:20]!r}"
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
    keep_text: bool = False,
    keep_missing: bool = False,
    verbose: bool = True,
) -> TableData:
    """Features, labels and queries of a data frame, by the names of its columns.

    Takes frames of pandas, polars and pyarrow, and whatever else narwhals reads:
    ``pip install 'rankwise[tables]'``. Columns that are not named are guessed by their names, as in
    `read_table`; an index of pandas with such a name is taken for a column. Prints in one line
    which column is what.

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
    keep_text, keep_missing : bool, default=False
        Whether features may be text, and may be missing; otherwise these are errors.
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
    table = _arrow_table(_with_index(frame, (qid, label, id)))
    source = Source("The frame")
    names = table.column_names
    if group is not None and qid is not None:
        raise ParameterError("Give qid or group, not both: they both say which rows are a query.")
    roles = Roles.of(
        source.path, names, query=qid, label=label, id=id, features=features, ignore=ignore,
        needs_label=False,
    )  # fmt: skip
    if group is not None and roles.query is not None:
        raise ParameterError(
            f"Queries are given by group, but the column {roles.query!r} looks like query ids: "
            f"leave group out, or name the column in ignore."
        )
    data = of_table(source, table, roles, keep_text=keep_text, keep_missing=keep_missing)
    words = roles.words()
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
        and (name in named or is_guessed(name))
    ]
    return frame.reset_index(level=wanted) if wanted else frame


def _arrow_table(frame: Any) -> Any:
    arrow = require_pyarrow("pyarrow")
    try:
        import narwhals
    except ImportError as error:
        raise MissingExtraError("narwhals", "tables") from error
    if hasattr(frame, "collect"):
        raise DataError("The frame is lazy: call its collect method first.")
    names: Any = getattr(frame, "columns", ())
    names = getattr(frame, "column_names", names)  # columns of pyarrow's tables are no names
    check_names_differ("The frame", list(names))
    try:
        eager = narwhals.from_native(frame, eager_only=True)
    except TypeError as error:
        raise DataError(
            f"Expected a data frame of pandas, polars or pyarrow: got a {type(frame).__name__}."
        ) from error
    other = next((name for name in eager.columns if not isinstance(name, str)), None)
    if other is not None:
        raise DataError(f"Names of columns must be text: got {other!r}. Rename them.")
    _refuse_mixed_dates(frame)
    try:
        return eager.to_arrow().select(eager.columns)
    except Exception:  # of any library: which column is it?
        return arrow.table({name: _arrow_column(frame, eager, name) for name in eager.columns})


def _refuse_mixed_dates(frame: Any) -> None:
    """Raise an error about a column of pandas with dates beside other values.

    Arrow would make dates or numbers of all of them, and different values equal.
    """
    for name, dtype in getattr(frame, "dtypes", {}).items() if hasattr(frame, "iloc") else ():
        values = getattr(dtype, "categories", frame[name])
        if values.dtype != object:
            continue
        import pandas as pd

        if not pd.api.types.infer_dtype(values, skipna=True).startswith(("mixed", "date", "time")):
            continue
        kinds = {type(value) for value in values[~pd.isna(values)]}
        if len(kinds) > 1 and any(issubclass(kind, date | time | timedelta) for kind in kinds):
            found = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise DataError(
                f"The frame: the column {name!r} holds values of several types ({found}). Convert "
                "them to one type, such as text."
            )


def _arrow_column(frame: Any, eager: Any, name: str) -> Any:
    try:
        if hasattr(getattr(frame[name], "dtype", None), "fill_value"):  # a sparse column
            return require_pyarrow("pyarrow").array(np.asarray(frame[name]))
        return eager[name].to_arrow()
    except Exception as error:
        values = eager[name].to_list()
        if {type(value) for value in values} <= {int, NoneType}:
            return id_column(Source("The frame"), name, values)
        reason = str(error).partition("\n")[0]
        raise DataError(
            f"The frame: the column {name!r} holds values of several types: {reason}."
        ) from error


@dataclass(frozen=True)
class TableSurvey:
    """Counts of a table, from a first pass over it."""

    version: FileVersion
    n_rows: int
    n_queries: int  # 0 if there are no query ids
    n_features: int
    text_ids: bool  # whether some query id is not a number


class TableBlocks:
    """The rows of a table, block by block; a block never splits a query.

    Each iteration reads the file again and yields a `TableData` per block. Before the first one,
    a pass over the whole file checks that every row can be read, that no value is missing, and
    that the rows of each query are contiguous. Features are numbers.

    Time is linear in the size of the file. Memory: about three blocks, or the longest query if
    that is larger, and the query ids.

    Parameters
    ----------
    path : str or path-like
    qid, label, features, ignore, format, separator, decimal, dtype
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
        dtype: DTypeLike = np.float64,
        block_bytes: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        check_value("block_bytes", block_bytes, AnyOf(Whole(1), None))
        self.file = TableFile.of(Path(path), format, separator, decimal)
        self.roles = Roles.of(
            self.file.path, self.file.names, query=qid, label=label, features=features,
            ignore=ignore,
        )  # fmt: skip
        self._dtype = check_float_type(dtype)
        self._block_bytes = BLOCK_BYTES if block_bytes is None else int(block_bytes)
        self._progress = progress or (lambda done, total: None)

    @cached_property
    def survey(self) -> TableSurvey:
        """Counts of the file; the first access reads it once."""
        version = file_version(self.file.path)
        seen: set[Any] = set()
        n_rows, last, text_ids = 0, None, False
        for piece in self._read(0):
            if piece.qid is not None:
                starts = run_starts(piece.qid)
                text_ids |= piece.qid.dtype.kind in "UO"
                for start, name in zip(starts, map(str, piece.qid[starts]), strict=True):
                    if name != last and name in seen:
                        raise DataError(
                            f"{self.file.place(n_rows + int(start))}: query {name} appears again "
                            "after other queries. To be read in blocks, the rows of a query must "
                            "be contiguous: sort the table by query, or read all of it with "
                            "read_table."
                        )
                    seen.add(name)
                    last = name
            n_rows += len(piece.X)
        if n_rows == 0:
            raise DataError(f"{self.file.path} has no rows: only the names of its columns.")
        return TableSurvey(version, n_rows, len(seen), len(self.roles.features), text_ids)

    def __iter__(self) -> Iterator[TableData]:
        if file_version(self.file.path) != self.survey.version:
            raise DataError(
                f"{self.file.path} has changed since it was first read: make a new TableBlocks."
            )
        for block in whole_queries(self._read(self.survey.n_rows), self._block_bytes):
            yield replace(block, X=as_frame(block.X, self.roles.features))

    def __repr__(self) -> str:
        return f"TableBlocks({str(self.file.path)!r})"

    def _read(self, n_rows: int) -> Iterator[TableData]:
        """The rows of each batch in arrays; after the survey, all ids are of one type."""
        roles, done = self.roles, 0
        used = [name for name in (roles.query, roles.label) if name is not None]
        texts = [] if roles.query is None else [roles.query]
        as_text = bool(n_rows) and self.survey.text_ids
        assert roles.label is not None  # Roles.of needs one
        self._progress(0, n_rows)
        for table in self.file.batches([*used, *roles.features], texts):
            if not table.num_rows:
                continue
            qid = None if roles.query is None else ids(self.file, table, roles.query, done)
            if as_text and qid is not None and qid.dtype.kind != "U":
                qid = np.array([str(name) for name in qid.tolist()], dtype=object)
            y = labels(self.file, table, roles.label, done)
            check_features(self.file, table, roles.features, keep_text=False, first=done)
            X = matrix(table, roles.features, self._dtype)
            check_values(self.file, X, roles.features, keep_missing=False, first=done)
            done += table.num_rows
            yield TableData(X, y, qid, None, roles)
            self._progress(done, n_rows)
