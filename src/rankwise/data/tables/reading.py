"""Tables of labelled rows: from a file to the arrays that rankers take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankwise.data._described_rows import DescribedRows
from rankwise.data.tables.arrow_files import Source, TableFile
from rankwise.data.tables.columns import (
    check_features,
    check_values,
    ids,
    kind_of,
    labels,
    matrix,
    neither_numbers_nor_text,
    refuse_missing,
    text_values,
)
from rankwise.data.tables.roles import Roles
from rankwise.errors import DataError, MissingExtraError
from rankwise.parameters import check_float_type
from rankwise.tables import Column, Table


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
