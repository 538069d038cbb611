"""Labelled rows from the data frames of pandas, polars and pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

import numpy as np

from rankwise.data.letor.group_files import qid_from_groups
from rankwise.data.tables.arrow_files import id_column
from rankwise.data.tables.formats import check_names_differ, require_pyarrow
from rankwise.data.tables.reading import TableData, of_table
from rankwise.data.tables.roles import Roles, is_guessed
from rankwise.errors import DataError, MissingExtraError, ParameterError
from rankwise.tables import plural


@dataclass(frozen=True)
class _Frame:
    """Where rows come from, for messages."""

    path: str = "The frame"

    def place(self, row: int) -> str:
        return f"{self.path}, row {row}"


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
    source = _Frame()
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
    try:
        return eager.to_arrow().select(eager.columns)
    except Exception:  # of any library: which column is it?
        return arrow.table({name: _arrow_column(frame, eager, name) for name in eager.columns})


def _arrow_column(frame: Any, eager: Any, name: str) -> Any:
    try:
        if hasattr(getattr(frame[name], "dtype", None), "fill_value"):  # a sparse column
            return require_pyarrow("pyarrow").array(np.asarray(frame[name]))
        return eager[name].to_arrow()
    except Exception as error:
        values = eager[name].to_list()
        if {type(value) for value in values} <= {int, NoneType}:
            return id_column(_Frame(), name, values)
        reason = str(error).partition("\n")[0]
        raise DataError(
            f"The frame: the column {name!r} holds values of several types: {reason}."
        ) from error
