"""Labelled rows of tables: columns as checked arrays, what each column is, files and frames."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache, cached_property
from itertools import accumulate
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankwise.backends.parallel import map_in_threads, threads_for
from rankwise.data.query_rows import (
    DescribedRows,
    FileSurvey,
    QueryBlocks,
    qid_from_groups,
    run_starts,
)
from rankwise.data.table_files import (
    OptionalModule,
    Source,
    TableFile,
    arrow,
    check_names_differ,
    float_column,
    id_column,
    listed,
    refuse_floats,
)
from rankwise.errors import DataError, ParameterError
from rankwise.graph.query_groups import entries_of, id_array, join_ids, text_fault
from rankwise.parameters import check_float_type
from rankwise.tables import Column, Table, plural

compute = OptionalModule("pyarrow.compute")
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,75}")  # as Python writes it; longer ones stay text
WHOLE_FLOAT = re.compile(r"(0|-?[1-9][0-9]{0,14})(\.0)?")  # as pandas writes a column with gaps
WITH_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
DECIMAL_COMMA = r"^\s*[-+]?\d+,\d+\s*$"
ROWS = 4096  # that are copied at a time: fewer would often wait for the interpreter lock
REMEDIES = {
    "text": (
        "Fit with --encode onehot (categories) or hashing (words; in Python, keep_text=True and an "
        "encoder)."
    ),
    "date": "Turn dates into numbers, such as days.",
    "list or object": "Write the entries of lists and objects to separate columns.",
}
SHORT = 64  # letters of an id, up to which arrays of NumPy's texts are small


# Columns as arrays


@cache
def kind_of(kind: Any) -> str:
    """The kind of an Arrow type: number, text, date, empty, list or object."""
    types = arrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    kinds = {
        "number": (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean),
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "empty": (types.is_null,),
        "date": (types.is_temporal,),
    }
    found = (name for name, tests in kinds.items() if any(is_such(kind) for is_such in tests))
    return next(found, "list or object")


def matrix(table: Any, names: Sequence[str], dtype: Any = np.float64) -> NDArray[Any]:
    """Columns of numbers in one array; NaN where a value is missing."""
    X = np.empty((table.num_rows, len(names)), dtype)
    batches = table.select(list(names)).to_batches(max_chunksize=16 * ROWS)
    ends = accumulate(batch.num_rows for batch in batches)
    parts = [(batch, X[end - len(batch) : end]) for batch, end in zip(batches, ends, strict=True)]
    map_in_threads(_copy, parts, threads_for(X.size))
    return X


def _copy(part: tuple[Any, NDArray[Any]]) -> None:
    """Copy the columns of a batch to an array, some rows at a time."""
    batch, X = part
    columns = [_numbers(column) for column in batch.columns]
    for low in range(0, len(X), ROWS):
        rows = slice(low, low + ROWS)
        for j, column in enumerate(columns):
            X[rows, j] = column[rows]


def _numbers(column: Any) -> NDArray[Any]:
    kind = column.type
    if not (arrow.types.is_floating(kind) or arrow.types.is_integer(kind)):
        if arrow.types.is_dictionary(kind):
            column = column.dictionary_decode()
        if arrow.types.is_null(kind):
            return np.full(len(column), np.nan)
        column = column.cast(arrow.float64(), safe=False)
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


@dataclass(frozen=True)
class TableRows:
    """Rows of a table, whose columns become checked arrays.

    Attributes
    ----------
    source : Source
    table : pyarrow.Table
    first : int
        The number of the first row in the source.
    """

    source: Source
    table: Any
    first: int = 0

    def kind(self, name: str) -> str:
        """The kind of a column, see `kind_of`."""
        return kind_of(self.table.schema.field(name).type)

    def fault(self, name: str, rows: Any, what: str, remedy: str) -> DataError:
        """An error about the first of some rows of a column, given by number or by a mask."""
        rows = np.atleast_1d(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        more = f", as in {plural(len(rows) - 1, 'more row')}" if len(rows) > 1 else ""
        place = self.source.place(self.first + int(rows[0]))
        return DataError(f"{place}: the column {name!r} {what}{more}. {remedy}")

    def labels(self, name: str) -> NDArray[np.float64]:
        """The labels: numbers, none of which is missing."""
        if self.kind(name) != "number":
            column = self.table.column(name)
            if self.kind(name) == "text":
                self._refuse_mixed(name)
            some = listed([repr(value) for value in column.unique().to_pylist()[:5]])
            raise DataError(
                f"{self.source.path}: the label {name!r} has values of type {column.type}, such as "
                f"{some}. Rankings need numbers, larger ones for better rows: replace each value "
                "by a number."
            )
        values: NDArray[np.float64] = matrix(self.table, [name])[:, 0]
        wrong = ~np.isfinite(values)
        if wrong.any():
            what = "of labels is missing or infinite here"
            raise self.fault(name, wrong, what, "Fill it in, or leave out these rows.")
        return values

    def _refuse_mixed(self, name: str) -> None:
        """Raise an error about a column of texts most of which are numbers."""
        texts = self.table.column(name).cast(arrow.string())
        is_number, comma, filled = (
            compute.fill_null(compute.match_substring_regex(texts, pattern), False).to_numpy()
            for pattern in (NUMBER, DECIMAL_COMMA, r"\S")
        )
        if 2 * (is_number | comma).sum() < filled.sum() or is_number.sum() == filled.sum():
            return
        row = int(np.argmax(filled & ~is_number))
        remedy = "Correct it, or leave the column out by --ignore."
        if comma.any():
            remedy = "If it has decimal commas, give --separator ';' --decimal ','."
        what = f"has numbers in other rows, but {texts[row].as_py()[:40]!r} here"
        raise self.fault(name, row, what, remedy)

    def features(
        self, names: Sequence[str], dtype: Any, *, keep_text: bool, keep_missing: bool
    ) -> NDArray[Any]:
        """The features that are numbers, finite and, unless wanted, not missing.

        Texts are refused unless they are wanted; they are not in the result.
        """
        kinds = {name: self.kind(name) for name in names}
        for name in (name for name, kind in kinds.items() if kind == "text"):
            self._refuse_mixed(name)
        wrong = [
            n
            for n, kind in kinds.items()
            if kind in REMEDIES and not (kind == "text" and keep_text)
        ]
        if wrong:
            found = listed([f"{name!r} ({self._described(name)})" for name in wrong])
            ways = " ".join(dict.fromkeys(REMEDIES[kinds[name]] for name in wrong))
            raise DataError(
                f"{self.source.path}: features are numbers, but not {found}. {ways} Or leave "
                f"{'it' if len(wrong) == 1 else 'them'} out by --ignore {','.join(wrong)}"
            )
        numbers = [name for name, kind in kinds.items() if kind != "text"]
        X = matrix(self.table, numbers, dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            suspect = np.flatnonzero(~np.isfinite(X.sum(axis=0))).tolist()
        for j in suspect:
            if np.isinf(X[:, j]).any():
                remedy = "Replace it by a finite number."
                raise self.fault(numbers[j], np.isinf(X[:, j]), "is infinite here", remedy)
        if not keep_missing:
            self.refuse_missing({numbers[j]: int(np.isnan(X[:, j]).sum()) for j in suspect})
        return X

    def _described(self, name: str) -> str:
        column = self.table.column(name)
        if self.kind(name) != "text":
            return str(column.type)
        different = column.unique().to_pylist()
        example = next((value for value in different if value), "")
        return f"text, {len(different)} different, such as {example[:30]!r}"

    def refuse_missing(self, counts: dict[str, int]) -> None:
        """Raise an error about missing values, with their number in each column."""
        counts = {name: count for name, count in counts.items() if count}
        if not counts:
            return
        n_rows = self.table.num_rows
        each = [f"{name} {count:,} ({count / n_rows:.0%})" for name, count in counts.items()]
        raise DataError(
            f"{self.source.path} has {plural(sum(counts.values()), 'missing value')} in "
            f"{plural(len(counts), 'column')} of features: {listed(each)}. Fit with --impute "
            "median (or mean, most_frequent, a number; in Python, keep_missing=True and an "
            "imputer), or leave the columns out by --ignore."
        )

    def texts(self, name: str) -> NDArray[Any]:
        """Texts as Python's, each stored once; an empty one where it is missing."""
        codes, texts = _encoded(self.table.column(name))
        words: NDArray[Any] = np.array([*(text or "" for text in texts), ""], dtype=object)
        return words[codes]

    def ids(self, name: str) -> NDArray[Any]:
        """Query ids or row ids: whole numbers where all are, otherwise texts; none is missing.

        Numbers never become floats on the way. Decimals with fractions stay decimals.
        """
        column = self.table.column(name)
        if self.kind(name) == "number":
            return self._whole_numbers(name)
        if self.kind(name) == "list or object":
            path = self.source.path
            raise DataError(f"{path}: the column {name!r} is of type {column.type}: not an id.")
        codes, texts = _encoded(column)
        self._refuse_holes(name, np.array([*(not (t or "").strip() for t in texts), True])[codes])
        numbers = all(re.match(NUMBER, text) for text in texts if text)
        for k, text in enumerate(texts):
            fault = text_fault(text or "")
            if fault is not None:
                raise self.fault(name, codes == k, fault, "Correct the id.")
            if numbers and text and WITH_EXPONENT.fullmatch(text):
                what = f"has {text!r}, a number with an exponent, whose digits may be lost"
                remedy = "Write ids as whole numbers or text; in pandas, as Int64 or str."
                raise self.fault(name, codes == k, what, remedy)
            if numbers and text and text.endswith(".0") and text.removesuffix(".0") in texts:
                what = f"has {text!r} beside {text.removesuffix('.0')!r}: are they the same id?"
                raise self.fault(name, codes == k, what, "Write equal ids in the same way.")
        return _as_ids(texts)[codes]

    def _whole_numbers(self, name: str) -> NDArray[Any]:
        """Ids that are numbers, exactly."""
        column = self.table.column(name)
        if arrow.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        self._refuse_holes(name, column.is_null(nan_is_null=True).to_numpy())
        if arrow.types.is_floating(column.type):
            values: NDArray[Any] = column.to_numpy()
            refuse_floats(self.source, values, name, self.first)
            return values.astype(np.int64)
        try:
            whole: NDArray[Any] = column.cast(arrow.int64()).to_numpy()
            return whole
        except arrow.ArrowInvalid:  # more than 64 bits, or a fraction
            if arrow.types.is_integer(column.type):
                return np.asarray(column.to_numpy())
            return id_array(int(v) if v == int(v) else v for v in column.to_pylist())

    def _refuse_holes(self, name: str, holes: NDArray[np.bool_]) -> None:
        if holes.any():
            remedy = "Fill it in, leave out these rows or, if you do not need it, --ignore it."
            raise self.fault(name, holes, "has no value here", remedy)


def _encoded(column: Any) -> tuple[NDArray[np.intp], list[str]]:
    """The different texts of a column, and which of them each row has; -1 for a missing one."""
    if arrow.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    else:
        column = column.cast(arrow.string()).dictionary_encode()
    if column.num_chunks == 0:
        return np.empty(0, np.intp), []
    chunks = column.combine_chunks()
    chunks = chunks.chunk(0) if hasattr(chunks, "chunk") else chunks
    indices = chunks.indices.cast(arrow.int64()).fill_null(-1)
    codes = indices.to_numpy(zero_copy_only=False).astype(np.intp)
    return codes, chunks.dictionary.cast(arrow.string()).to_pylist()


def _as_ids(texts: list[str]) -> NDArray[Any]:
    """Whole numbers if all texts are whole numbers, such as 1 or 1.0; otherwise the texts."""
    whole = [text for text in texts if text]
    if all(WHOLE.fullmatch(text) for text in whole):
        return id_array(int(text or 0) for text in texts)
    if all(WHOLE_FLOAT.fullmatch(text) for text in whole):
        return id_array(int((text or "0").removesuffix(".0")) for text in texts)
    if max(map(len, whole), default=0) <= SHORT:
        return np.array([text or "" for text in texts], dtype=np.str_)
    return np.array(texts, dtype=object)


pandas = OptionalModule("pandas")

# Names without case, blanks and underscores. The first one that a table has is taken.
QUERY_NAMES = (
    "qid", "queryid", "query", "searchid", "srchid", "topicid", "topic", "groupid", "group",
    "sessionid", "requestid", "impressionid", "querytext", "searchquery", "searchterm",
)  # fmt: skip
LABEL_NAMES = ("label", "relevance", "rel", "grade", "relevancelabel", "relevancegrade", "target")
ID_NAMES = (
    "docid", "documentid", "docno", "itemid", "productid", "rowid", "id", "doc", "document", "item",
    "product", "sku", "uuid",
)  # fmt: skip
KNOWN = {"query": QUERY_NAMES, "label": LABEL_NAMES, "id": ID_NAMES}
INDEX_NAMES = ("", "__index_level_0__", "Unnamed: 0")  # of pandas, in the files that it writes


@dataclass(frozen=True)
class Roles:
    """The columns of a table by role.

    Attributes
    ----------
    query, label, id : str or None
    features : list of str
        In the order of the table, or in the order of the features of the model.
    left_out : dict of str to str
        The other columns, and why.
    guessed : frozenset of str
        The columns whose role follows from their name only.
    """

    query: str | None
    label: str | None
    id: str | None
    features: list[str]
    left_out: dict[str, str]
    guessed: frozenset[str]

    @classmethod
    def of(
        cls,
        where: Any,
        names: Sequence[str],
        *,
        query: str | None = None,
        label: str | None = None,
        id: str | None = None,
        features: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        like: Sequence[str] | None = None,
        needs_label: bool = True,
        needs_features: bool = True,
    ) -> Roles:
        """The requested roles; other roles are guessed from the names of columns.

        `features` and `ignore` are names and patterns such as ``price_*``. `like` are the features
        of a model. `where` is the table, for messages.
        """
        found = {"query": query, "label": label, "id": id}
        given = [name for name in found.values() if name is not None]
        for name in given:
            if name not in names:
                raise DataError(f"{where} has no column {name!r}{_instead(name, names)}")
            if given.count(name) > 1:
                raise DataError(f"{where}: the column {name!r} cannot have two of these roles.")
        left_out = dict.fromkeys(_matching(where, ignore, names, "--ignore"), "left out as asked")
        left_out |= dict.fromkeys((n for n in names if n in INDEX_NAMES), "row numbers of pandas")
        taken = {*given, *left_out, *((like if features is None else features) or ())}
        free = [name for name in names if name not in taken]
        guesses = {k: _guess(known, free) for k, known in KNOWN.items() if found[k] is None}
        found |= guesses
        special = {name for name in found.values() if name is not None}
        if found["label"] is None and needs_label:
            raise DataError(
                f"{where}: which column has the label? Name it by --label. Names such as "
                f"{', '.join(LABEL_NAMES[:5])} are recognized, unless they are features. Columns: "
                f"{listed(names)}."
            )
        chosen = names
        if like is not None:
            missing = [name for name in like if name not in names]
            if missing:
                raise DataError(
                    f"{where} lacks {plural(len(missing), 'feature')} of the model: "
                    f"{listed(missing)}{_instead(missing[0], names)}"
                )
            chosen = like
        elif features is not None:
            chosen = _matching(where, features, names, "--features")
            wrong = next((name for name in features if name in special), None)
            if wrong is not None:
                raise DataError(f"{where}: the column {wrong!r} cannot be a feature as well.")
        if like is None:
            chosen = [name for name in chosen if name not in special and name not in left_out]
        if needs_features and not chosen:
            raise DataError(f"{where} has no column of features besides {listed(sorted(special))}.")
        why = "not a feature of the model" if like is not None else "not in --features"
        used = special.union(chosen, left_out)
        left_out |= dict.fromkeys((name for name in names if name not in used), why)
        guessed = frozenset(name for name in guesses.values() if name is not None)
        return cls(**found, features=list(chosen), left_out=left_out, guessed=guessed)

    @property
    def used_ids(self) -> list[str]:
        """The columns of ids."""
        return [name for name in (self.query, self.id) if name and name not in self.features]

    @property
    def used(self) -> list[str]:
        """The columns to read."""
        special = filter(None, (self.query, self.label, self.id))
        return list(dict.fromkeys([*special, *self.features]))

    def without(self, reasons: dict[str, str]) -> Roles:
        """The same without some of the features, and why."""
        kept = [name for name in self.features if name not in reasons]
        return replace(self, features=kept, left_out=self.left_out | reasons)

    @property
    def looking_like_ids(self) -> list[str]:
        """Features that are named like identifiers, which are hardly related to relevance."""
        known = (*QUERY_NAMES, *ID_NAMES)
        return [
            name
            for name in self.features
            if _plain(name) in known or re.search(r"(^|[_ -])(id|ID|Id)$|[a-z]I[dD]$", name)
        ]

    @property
    def looking_like_labels(self) -> list[str]:
        """Features that are named like labels, which new rows do not have."""
        return [name for name in self.features if _plain(name) in LABEL_NAMES]

    def role(self, name: str) -> str:
        """What a column is, in a few words."""
        what = next((role for role in KNOWN if getattr(self, role) == name), None)
        if what is None:
            return self.left_out.get(name, "feature")
        return f"{what} (guessed)" if name in self.guessed else what

    def words(self) -> str:
        """What was understood, in one sentence."""
        named = {role: getattr(self, role) for role in KNOWN}
        parts = [
            f"{role} {name!r}{' (guessed)' if name in self.guessed else ''}"
            for role, name in named.items()
            if name is not None
        ]
        if self.features:
            parts.append(f"{plural(len(self.features), 'feature')} ({listed(self.features)})")
        if self.left_out:
            parts.append(f"left out: {listed(list(self.left_out))}")
        return "; ".join(parts)


def _instead(name: str, names: Sequence[str]) -> str:
    """The end of a message about a name that is missing."""
    near = get_close_matches(name, names, 1, 0.75)
    if not near:
        near = [other for other in names if other.strip().lower() == name.strip().lower()]
    meant = f" Is it {near[0]!r}?" if near else ""
    return f".{meant} Columns: {listed(names)}."


def _plain(name: str) -> str:
    return re.sub(r"[\s_.-]", "", name).lower()


def _guess(known: Sequence[str], names: Sequence[str]) -> str | None:
    plain = {_plain(name): name for name in reversed(names)}  # the first of several
    return next((plain[word] for word in known if word in plain), None)


def _matching(where: Any, patterns: Sequence[str], names: Sequence[str], option: str) -> list[str]:
    """The names that are listed or match a pattern, in the order of `names`."""
    found: set[str] = set()
    for pattern in patterns:
        these = [name for name in names if name == pattern or fnmatchcase(name, pattern)]
        if not these:
            raise DataError(
                f"{where}: {option} {pattern!r} matches no column{_instead(pattern, names)}"
            )
        found.update(these)
    return [name for name in names if name in found]


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
        Query ids: whole numbers, with all their digits, if all ids are whole numbers, otherwise
        text; None if there are none.
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
        If the table cannot be read or used: the message names the file, the line or the column, and
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
    """The rows of a file whose columns are known.

    With `keep_all`, columns that cannot be features are left out, with the reason.
    """
    rows = TableRows(file, file.read(roles.used, roles.used_ids))
    if keep_all:
        kinds = {name: rows.kind(name) for name in roles.features}
        others = {n: f"none: a {k}" for n, k in kinds.items() if k in REMEDIES and k != "text"}
        roles = roles.without(others)
    return _as_data(rows, roles, dtype, keep_text=keep_text, keep_missing=keep_missing)


def _as_data(
    rows: TableRows,
    roles: Roles,
    dtype: Any,
    *,
    keep_text: bool = False,
    keep_missing: bool = False,
    as_array: bool = False,
) -> TableData:
    """Rows whose features are a data frame, with texts where these are wanted, or an array."""
    if not rows.table.num_rows:
        raise DataError(f"{rows.source.path} has no rows: only the names of its columns.")
    qid = None if roles.query is None else rows.ids(roles.query)
    y = None if roles.label is None else rows.labels(roles.label)
    ids = None if roles.id is None else rows.ids(roles.id)
    X = rows.features(roles.features, dtype, keep_text=keep_text, keep_missing=keep_missing)
    if as_array:
        return TableData(X, y, qid, ids, roles)
    texts = {k: name for k, name in enumerate(roles.features) if rows.kind(name) == "text"}
    frame = _frame(X, [name for k, name in enumerate(roles.features) if k not in texts])
    for k, name in texts.items():
        words = rows.texts(name)
        frame.insert(k, name, words)
        if not keep_missing:
            rows.refuse_missing({name: int(np.sum(words == ""))})
    return TableData(frame, y, qid, ids, roles)


def _frame(X: Any, names: Sequence[str]) -> Any:
    """Rows as a pandas data frame, which shares their memory."""
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
        raise ParameterError("Give qid or group, not both: each defines the queries.")
    roles = Roles.of(
        source.path, names, query=qid, label=label, id=id, features=features, ignore=ignore,
        needs_label=False,
    )  # fmt: skip
    if group is not None and roles.query is not None:
        raise ParameterError(
            f"Queries are given by group, but the column {roles.query!r} looks like query ids: "
            f"leave group out, or name the column in ignore."
        )
    rows = TableRows(source, table)
    data = _as_data(rows, roles, np.float64, keep_text=keep_text, keep_missing=keep_missing)
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
        and (name in named or any(_plain(name) in known for known in KNOWN.values()))
    ]
    return frame.reset_index(level=wanted) if wanted else frame


def _arrow_table(frame: Any) -> Any:
    if hasattr(frame, "collect"):
        raise DataError("The frame is lazy: call its collect method first.")
    names = getattr(frame, "column_names", getattr(frame, "columns", None))  # the former of pyarrow
    if names is None:
        raise DataError(
            f"Expected a data frame of pandas, polars or pyarrow: got a {type(frame).__name__}."
        )
    names = list(names)
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
        super().__init__(path, block_bytes, progress)
        self.file = TableFile.of(Path(path), format, separator, decimal)
        self.roles = Roles.of(
            self.file.path, self.file.names, query=qid, label=label, features=features,
            ignore=ignore,
        )  # fmt: skip
        self.roles = replace(self.roles, id=None)
        self._dtype = check_float_type(dtype)

    @cached_property
    def survey(self) -> FileSurvey:
        """Counts of the file; the first access reads it once."""
        version = self.version()
        ids: list[NDArray[Any]] = []
        rows: list[int] = []
        n_rows = 0
        for piece in self._read(0):
            if piece.qid is not None:
                starts = run_starts(piece.qid)
                ids.append(piece.qid[starts])
                rows += (n_rows + starts).tolist()
            n_rows += len(piece.X)
        if n_rows == 0:
            raise DataError(f"{self.file.path} has no rows: only the names of its columns.")
        text_ids = any(part.dtype.kind in "UO" for part in ids)
        runs = join_ids([_as_text(part) if text_ids else part for part in ids]) if ids else None
        n_queries = 0
        if runs is not None:
            n_queries = self._count_queries(runs, lambda k: self.file.place(rows[k]))
        return FileSurvey(version, n_rows, n_queries, len(self.roles.features), text_ids)

    def __iter__(self) -> Iterator[TableData]:
        for block in super().__iter__():
            yield replace(block, X=_frame(block.X, self.roles.features))

    def _pieces(self) -> Iterator[TableData]:
        for piece in self._read(self.survey.n_rows):
            text = piece.qid is not None and self.survey.text_ids
            yield replace(piece, qid=_as_text(piece.qid)) if text else piece

    def _read(self, n_rows: int) -> Iterator[TableData]:
        """The rows of each batch in arrays."""
        done = 0
        self._progress(0, n_rows)
        for table in self.file.batches(self.roles.used, self.roles.used_ids):
            if table.num_rows:
                rows = TableRows(self.file, table, done)
                done += table.num_rows
                yield _as_data(rows, self.roles, self._dtype, as_array=True)
                self._progress(done, n_rows)


def _as_text(ids: Any) -> Any:
    """Ids as texts, of any length."""
    return np.array([str(name) for name in ids.tolist()], dtype=object)
