"""Columns of tables: their kinds and roles, as checked arrays, and all that is wrong with them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import accumulate, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.parallel import map_in_threads, threads_for
from rankwise.data.table_files import (
    MISSING_WORDS,
    ColumnFault,
    Source,
    TableFile,
    arrow,
    compute,
    csv_rows,
    kind_of,
    listed,
    number_pattern,
    refuse_floats,
)
from rankwise.errors import DataError, TableError
from rankwise.graph.query_groups import EXACT, QueryGroups, id_array, text_fault
from rankwise.tables import plural

NUMBER = number_pattern()
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,75}")  # as Python writes it; longer ones stay text
WHOLE_FLOAT = re.compile(r"(0|-?[1-9][0-9]{0,14})(\.0)?")  # as pandas writes a column with gaps
WITH_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
UNIT = r"[$€£¥%]"
SPACED = " '\u2019\u00a0\u202f"  # marks between thousands, whatever the decimal mark
DIGITS_AND_MARKS = rf"^\s*[-+]?[$€£¥]?\s?[\d.,][\d.,{SPACED}]*([eE][-+]?\d+)?\s?[$€£¥%]?\s*$"
MARKS = (*((".", mark) for mark in f",{SPACED}"), (",", None), *((",", m) for m in f".{SPACED}"))
"""Decimal marks and marks between thousands that numbers may have."""
FEW_TEXTS = 20  # that are looked at before all of a column
ROWS = 4096  # that are copied at a time: fewer would often wait for the interpreter lock
THREE_DIGITS = re.compile(r"\s*[-+]?[1-9][0-9]{0,2}\.[0-9]{3}\s*")  # behind a point: as in 58.300
UNUSABLE = {
    "date": "a date",
    "time": "a time of day or a duration",
    "list or object": "a list or object",
}
"""Kinds of columns that are left out, unless dates are wanted, and how to call them."""
ISO_DATE = r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?"
DAY_FIRST = r"\d{1,2}\.\d{1,2}\.\d{4}([T ]\d{1,2}:\d{2}(:\d{2})?)?"
DATE_FORMS = {r"\b(\d)([.:])": r"0\1\2", r"^(\d\d)\.(\d\d)\.(\d{4})": r"\3-\2-\1"}
"""What to replace in dates with the day first, so that they are as in ISO 8601."""
SLASHED = r"^\s*\d{1,2}/\d{1,2}/\d{2,4}([ T].*)?\s*$"
MOST_GRADES = 20  # different words that may be grades
SINGLE_WORD = r"^\s*\S+\s*$"
SHORT = 64  # letters of an id, up to which arrays of NumPy's texts are small


# Columns as arrays


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
    is_part : bool
        Whether other rows may have other ids: the id 1.0 stays as it is, beside 1.
    """

    source: Source
    table: Any
    first: int = 0
    is_part: bool = False
    _encoded: dict[str, tuple[NDArray[np.intp], Any]] = field(default_factory=dict, init=False)

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kind of each column, see `kind_of`; texts that are all dates are dates."""
        found = {column.name: kind_of(column.type) for column in self.table.schema}
        dates = {
            name: "date" for name, kind in found.items() if kind == "text" and self._dated(name)
        }
        return found | dates

    def _dated(self, name: str) -> bool:
        """Whether a column of text has dates like 2024-05-31 or 31.5.2024, and nothing else."""
        return any(self.all_match(name, rf"^\s*{form}\s*$") for form in (ISO_DATE, DAY_FIRST))

    def encoded(self, name: str) -> tuple[NDArray[np.intp], Any]:
        """Which of its different texts a column has in each row, -1 for none, and these texts."""
        if name not in self._encoded:
            self._encoded[name] = _encoded(self.table.column(name))
        return self._encoded[name]

    def all_match(self, name: str, pattern: str) -> bool:
        """Whether all texts of a column match, apart from missing ones, and there is one."""
        texts = self.encoded(name)[1]
        for some in (texts.slice(0, FEW_TEXTS), texts):
            missing = _are_missing(some)
            if not (_match(some, pattern) | missing).all():
                return False
        return not missing.all()

    def _unlike(self, name: str, pattern: str) -> int:
        """The first row with a text that does not match; a word for a missing value if need be."""
        codes, texts = self.encoded(name)
        odd = _match(texts, r"\S") & ~_match(texts, pattern)
        words = odd & ~_are_missing(texts)
        return int(np.argmax(np.append(words if words.any() else odd, False)[codes]))

    def _text(self, name: str, row: int) -> str:
        return str(self.table.column(name)[row].as_py())[:40]

    @cached_property
    def marks(self) -> tuple[str, str | None] | None:
        """The marks that most columns with numbers as text seem to have, beside the usual ones."""
        source = self.source
        known = source.decimal != ".", source.thousands is not None
        european = getattr(source, "separator", ",") == ";"
        counts: Counter[tuple[str, str | None]] = Counter()
        for name in [n for n, kind in self.kinds.items() if kind == "text"]:
            if self.all_match(name, DIGITS_AND_MARKS):
                counts.update(m for m in MARKS if self.all_match(name, number_pattern(*m)))
        fitting = [
            marks
            for marks in sorted(MARKS, key=lambda marks: (marks[0] == ",") != european)
            if not (known[0] and marks[0] != source.decimal)
            and not (known[1] and marks[1] != source.thousands)
        ]
        return max(fitting, key=lambda marks: counts[marks]) if counts else None

    def dates(self, name: str) -> Any:
        """A column of dates as times in microseconds, NaT where it is missing."""
        column = self.table.column(name)
        if kind_of(column.type) == "text":
            texts = compute.utf8_trim_whitespace(column.cast(arrow.string()))
            for given, iso in DATE_FORMS.items():
                texts = compute.replace_substring_regex(texts, given, iso)
            column = compute.if_else(compute.is_in(texts, _missing_words()), None, texts)
        zone = "UTC" if getattr(column.type, "tz", None) or self._zoned(column) else None
        try:
            times: NDArray[Any] = column.cast(arrow.timestamp("us", zone), safe=False).to_numpy()
        except arrow.ArrowInvalid as error:
            raise ColumnFault(
                f"the column {name!r} has dates that cannot be read: {error}. Correct them, or "
                "leave the column out.",
                ignore=[name],
            ) from error
        return times.astype("datetime64[us]")

    def _zoned(self, column: Any) -> bool:
        """Whether the first of some texts has a time zone."""
        texts = column.drop_null().slice(0, 1).to_pylist()
        return any(
            isinstance(text, str) and re.search(r"(Z|[+-]\d\d:?\d\d)$", text[10:]) for text in texts
        )

    def fault(self, name: str, rows: Any, what: str, remedy: str, **settings: Any) -> ColumnFault:
        """An error about the first of some rows of a column, given by number or by a mask."""
        rows = np.atleast_1d(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        more = f", as in {plural(len(rows) - 1, 'more row')}" if len(rows) > 1 else ""
        place = self.source.place(self.first + int(rows[0]))
        return ColumnFault(f"{place}: the column {name!r} {what}{more}. {remedy}", **settings)

    def labels(self, name: str, grades: Mapping[str, float] | None = None) -> NDArray[np.float64]:
        """The labels: numbers, none of which is missing.

        Words are grades by the mapping `grades`.
        """
        kind, column = self.kinds[name], self.table.column(name)
        if kind == "number" and grades is None:
            values: NDArray[np.float64] = matrix(self.table, [name])[:, 0]
            wrong = ~np.isfinite(values)
            if wrong.any():
                what = "of labels is missing or infinite here"
                raise self.fault(name, wrong, what, "Fill it in, or leave out these rows.")
            return values
        if kind == "text":
            if grades is None:
                self._refuse_mixed(name)
            return self._graded(name, grades)
        what = (
            "has numbers, which need no grades" if grades else f"has values of type {column.type}"
        )
        raise ColumnFault(
            f"the label {name!r} {what}. Labels are numbers, larger ones for better rows, or words "
            "with a grade for each."
        )

    def order(self, name: str) -> dict[str, float] | None:
        """The place of each category of an ordered column, from 0; None for other columns."""
        if not getattr(self.table.column(name).type, "ordered", False):
            return None
        return {word: float(k) for k, word in enumerate(self.encoded(name)[1].to_pylist())}

    def _graded(self, name: str, grades: Mapping[str, float] | None) -> NDArray[np.float64]:
        """The grade of each row of a column of words."""
        codes, texts = self.encoded(name)
        words = texts.to_pylist()
        counts = dict(zip(words, np.bincount(codes[codes >= 0], minlength=len(words)), strict=True))
        unknown = [word for word in words if word not in (grades or {})]
        if unknown:
            shown = listed([repr(word) for word in sorted(unknown, key=lambda w: -counts[w])])
            guess = guess_grades({word: int(n) for word, n in counts.items() if word})
            settings = {} if guess is None else {"grades": guess | dict(grades or {})}
            check = "" if guess is None else " Check the order of the grades below."
            raise ColumnFault(
                f"the label {name!r} has words without a grade: {shown}. Rankings need numbers, "
                f"larger ones for better rows.{check}",
                **settings,
            )
        self._refuse_holes(name, codes < 0)
        values = np.array([*((grades or {})[word] for word in words), np.nan], dtype=np.float64)
        return values[codes]

    def _refuse_mixed(self, name: str) -> None:
        """Raise an error about a column of texts that seem to be numbers, most or all of them."""
        if self.all_match(name, SLASHED):
            what = "has dates of which the day or the month may come first"
            remedy = "Write them as 2024-05-31, or leave the column out."
            raise self.fault(name, self._unlike(name, "-"), what, remedy, ignore=[name])
        usual = number_pattern(self.source.decimal, self.source.thousands)
        if self.all_match(name, DIGITS_AND_MARKS) and not self.all_match(name, usual):
            marks = self.marks
            odd = self._unlike(name, usual)
            if marks is not None and self.all_match(name, number_pattern(*marks)):
                raise self._with_marks(name, odd, *marks)
            if _match(self.encoded(name)[1], UNIT).any():
                what = f"has numbers with a unit, {self._text(name, odd)!r}"
                remedy = "Write numbers only, or leave the column out."
                raise self.fault(name, odd, what, remedy, ignore=[name])
        codes, texts = self.encoded(name)
        counts = np.bincount(codes[codes >= 0], minlength=len(texts))
        n_numbers, n_filled = (counts[_match(texts, form)].sum() for form in (usual, r"\S"))
        if 2 * n_numbers < n_filled or n_numbers == n_filled:
            return
        row = self._unlike(name, usual)
        what = f"has numbers in other rows, but {self._text(name, row)!r} here"
        remedy = "Correct it, or leave the column out."
        raise self.fault(name, row, what, remedy, ignore=[name])

    def _with_marks(self, name: str, row: int, decimal: str, thousands: str | None) -> ColumnFault:
        """A fault about numbers with marks that the source does not name."""
        settings: dict[str, Any] = {}
        words = []
        if decimal != self.source.decimal:
            settings["decimal"] = decimal
            words.append(f"{decimal!r} seems to be the decimal mark")
        if thousands != self.source.thousands:
            settings["thousands"] = thousands
            words.append(f"{thousands!r} seems to stand between thousands")
        other = {(".", ","): (",", None), (",", None): (".", ",")}.get((decimal, thousands))
        remedy = "Check this, and give it as below."
        if other is not None and self.all_match(name, number_pattern(*other)):
            instead = "stands between thousands" if other[1] else "is the decimal mark"
            remedy = f"If it {instead}, say so."
        what = f"has numbers such as {self._text(name, row)!r}, in which {' and '.join(words)}"
        return self.fault(name, row, what, remedy, **settings)

    def features(
        self, names: Sequence[str], dtype: Any, wants: Wants
    ) -> tuple[NDArray[Any], list[ColumnFault]]:
        """The features that are numbers, and what is wrong with all features.

        They are finite and, unless wanted, not missing. Texts are refused unless they are wanted;
        texts and dates are not in the result.
        """
        faults: list[ColumnFault] = []
        texts = [name for name in names if self.kinds[name] == "text"]
        alike: dict[str, dict[str, ColumnFault]] = {}  # columns that need the same marks
        for name in list(texts):
            try:
                self._refuse_mixed(name)
            except ColumnFault as fault:
                texts.remove(name)
                alike.setdefault(repr(fault.settings), {})[name] = fault
        for found in alike.values():
            first, (_, *others) = next(iter(found.values())), found
            words = f"{first} The same holds for {listed(others)}." if others else f"{first}"
            faults.append(ColumnFault(words, **first.settings))
        if texts and not wants.keep_text:
            each = [f"{name!r} ({self._described(name)})" for name in texts]
            words = f"features are numbers, but these are text: {listed(each)}"
            faults.append(ColumnFault(words, encode="auto"))
        numbers = [name for name in names if self.kinds[name] in ("number", "empty")]
        X = matrix(self.table, numbers, dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            suspect = np.flatnonzero(~np.isfinite(X.sum(axis=0))).tolist()
        for j in suspect:
            if np.isinf(X[:, j]).any():
                remedy = "Replace it by a finite number, or leave the column out."
                where = np.isinf(X[:, j]), "is infinite here"
                faults.append(self.fault(numbers[j], *where, remedy, ignore=[numbers[j]]))
        counts = {numbers[j]: int(np.isnan(X[:, j]).sum()) for j in suspect}
        for name in texts:
            codes, different = self.encoded(name)
            counts[name] = int(np.append(_match(different, "^$"), True)[codes].sum())
        counts = {name: count for name, count in counts.items() if count}
        if counts and not wants.keep_missing:
            n_rows, n_columns = self.table.num_rows, plural(len(counts), "column")
            each = [f"{name} {count:,} ({count / n_rows:.0%})" for name, count in counts.items()]
            words = f"{plural(sum(counts.values()), 'missing value')} in {n_columns} of features: "
            faults.append(ColumnFault(words + listed(each), impute="median"))
        return X, faults

    def _described(self, name: str) -> str:
        """What a column of text holds."""
        texts = self.encoded(name)[1]
        different = texts.filter(~_are_missing(texts)).to_pylist()
        example = next(iter(different), "")
        return f"{len(different)} different, such as {example[:15]!r}"

    def texts(self, name: str) -> NDArray[Any]:
        """Texts as Python's, each stored once; an empty one where it is missing."""
        codes, texts = self.encoded(name)
        return np.array([*texts.to_pylist(), ""], dtype=object)[codes]

    def ids(self, name: str) -> NDArray[Any]:
        """Query ids or row ids: whole numbers where all are, otherwise texts; none is missing.

        Numbers never become floats on the way. Decimals with fractions stay decimals.
        """
        column = self.table.column(name)
        if self.kinds[name] == "number":
            return self._whole_numbers(name)
        if self.kinds[name] == "list or object":
            raise ColumnFault(f"the column {name!r} is of type {column.type}: not an id.")
        codes, encoded = self.encoded(name)
        texts = encoded.to_pylist()
        self._refuse_holes(name, np.array([*(not text.strip() for text in texts), True])[codes])
        numbers, known = all(re.match(NUMBER, text) for text in texts if text), set(texts)
        for k, text in enumerate(texts):
            fault = text_fault(text)
            if fault is not None:
                raise self.fault(name, codes == k, fault, "Correct the id.")
            if numbers and text and WITH_EXPONENT.fullmatch(text):
                what = f"has {text!r}, a number with an exponent, whose digits may be lost"
                remedy = "Write ids as whole numbers or text; in pandas, as Int64 or str."
                raise self.fault(name, codes == k, what, remedy)
            if numbers and text and text.endswith(".0") and text.removesuffix(".0") in known:
                what = f"has {text!r} beside {text.removesuffix('.0')!r}: are they the same id?"
                raise self.fault(name, codes == k, what, "Write equal ids in the same way.")
        return ids_of_texts(texts, whole_floats=not self.is_part)[codes]

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
            remedy = "Fill it in, or leave out these rows."
            raise self.fault(name, holes, "has no value here", remedy)


def _missing_words() -> Any:
    return arrow.array([None, *MISSING_WORDS])


def _are_missing(texts: Any) -> NDArray[np.bool_]:
    """Which texts of an Arrow array stand for a missing value."""
    return np.asarray(compute.is_in(compute.utf8_trim_whitespace(texts), _missing_words()))


def _match(texts: Any, pattern: str) -> NDArray[np.bool_]:
    """Which texts of an Arrow array match."""
    return np.asarray(compute.match_substring_regex(texts, pattern))


def _encoded(column: Any) -> tuple[NDArray[np.intp], Any]:
    """Which of its different texts a column has in each row, -1 for none, and these texts."""
    if arrow.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    else:
        column = column.cast(arrow.string()).dictionary_encode()
    if column.num_chunks == 0:
        return np.empty(0, np.intp), arrow.array([], arrow.string())
    chunks = column.combine_chunks()
    chunks = chunks.chunk(0) if hasattr(chunks, "chunk") else chunks
    indices = chunks.indices.cast(arrow.int64()).fill_null(-1)
    codes = indices.to_numpy(zero_copy_only=False).astype(np.intp)
    return codes, chunks.dictionary.cast(arrow.string()).fill_null("")


def ids_of_texts(texts: list[str], *, whole_floats: bool = True) -> NDArray[Any]:
    """Whole numbers if all texts are, such as 1 or, if these may be, 1.0; otherwise the texts."""
    whole = [text for text in texts if text]
    if all(WHOLE.fullmatch(text) for text in whole):
        return id_array(int(text or 0) for text in texts)
    if whole_floats and all(WHOLE_FLOAT.fullmatch(text) for text in whole):
        return id_array(int((text or "0").removesuffix(".0")) for text in texts)
    if max(map(len, whole), default=0) <= SHORT:
        return np.array(texts, dtype=np.str_)
    return np.array(texts, dtype=object)


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
ID_NAME = re.compile(r"(^|[_ -])(id|ID|Id)$|[a-z]I[dD]$")
ALL_DIFFER = 20  # rows from which on words that all differ look like ids
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
    positions : tuple of str
        Features that look like the position in the list that was shown.
    constants : tuple of str
        Features with the same value in all rows.
    like_ids : tuple of str
        Features that are whole numbers above 2^53, of which floats lose digits, or single words
        that differ between all rows.
    pointed : tuple of str
        Features such as 58.300 in a file with semicolons, where the point may be between thousands.
    row_ids : tuple of str
        Features that look like identifiers and differ between the rows of each query.
    remembered : frozenset of str
        The columns whose role is their role in the training table of a model.
    grades : mapping of str to float, optional
        The grades of the words of the label, if they are of that table or of ordered categories.
    """

    query: str | None
    label: str | None
    id: str | None
    features: list[str]
    left_out: dict[str, str]
    guessed: frozenset[str]
    positions: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    like_ids: tuple[str, ...] = ()
    pointed: tuple[str, ...] = ()
    row_ids: tuple[str, ...] = ()
    remembered: frozenset[str] = frozenset()
    grades: Mapping[str, float] | None = None

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
        needs_features: bool = True,
        remembered: Mapping[str, str | None] | None = None,
    ) -> Roles:
        """The requested roles; other roles are guessed from the names of columns.

        `features` and `ignore` are names and patterns such as ``price_*``. `like` are the features
        of a model, and `remembered` the columns of its training table by role: those that the table
        lacks, or uses otherwise, are guessed. `where` is the table, for messages.
        """
        found = {"query": query, "label": label, "id": id}
        given = [name for name in found.values() if name is not None]
        for name in given:
            if name not in names:
                raise no_such_column(where, name, names)
            if given.count(name) > 1:
                raise DataError(f"{where}: the column {name!r} cannot have two of these roles.")
        left_out = dict.fromkeys(_matching(where, ignore, names, "ignore"), "left out as asked")
        left_out |= dict.fromkeys((n for n in names if n in INDEX_NAMES), "row numbers of pandas")
        taken = {*given, *left_out, *((like if features is None else features) or ())}
        free = [name for name in names if name not in taken]
        kept = {
            role: name
            for role, name in (remembered or {}).items()
            if found[role] is None and name in free
        }
        found |= kept
        free = [name for name in free if name not in kept.values()]
        guesses = {k: _guess(known, free) for k, known in KNOWN.items() if found[k] is None}
        found |= guesses
        special = {name for name in found.values() if name is not None}
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
            chosen = _matching(where, features, names, "features")
            wrong = next((name for name in features if name in special), None)
            if wrong is not None:
                raise DataError(f"{where}: the column {wrong!r} cannot be a feature as well.")
        if like is None:
            chosen = [name for name in chosen if name not in special and name not in left_out]
        if needs_features and not chosen:
            raise DataError(f"{where} has no column of features besides {listed(sorted(special))}.")
        why = (
            "not a feature of the model" if like is not None else "not among the features asked for"
        )
        used = special.union(chosen, left_out)
        left_out |= dict.fromkeys((name for name in names if name not in used), why)
        guessed = frozenset(name for name in guesses.values() if name is not None)
        roles = found["query"], found["label"], found["id"]
        return cls(*roles, list(chosen), left_out, guessed, remembered=frozenset(kept.values()))

    @property
    def used_ids(self) -> list[str]:
        """The columns of ids."""
        return [name for name in (self.query, self.id) if name and name not in self.features]

    @property
    def used(self) -> list[str]:
        """The columns to read."""
        special = filter(None, (self.query, self.label, self.id))
        return list(dict.fromkeys([*special, *self.features]))

    def with_guess(self, role: str, name: str) -> Roles:
        """The same with a guess of the label or the query, which is no feature."""
        features = [feature for feature in self.features if feature != name]
        left_out = {other: why for other, why in self.left_out.items() if other != name}
        changed: dict[str, Any] = {"features": features, "left_out": left_out, role: name}
        return replace(self, guessed=self.guessed | {name}, **changed)

    def without(self, reasons: dict[str, str]) -> Roles:
        """The same without some of the features, and why."""
        kept = [name for name in self.features if name not in reasons]
        return replace(self, features=kept, left_out=self.left_out | reasons)

    @property
    def looking_like_ids(self) -> list[str]:
        """Features that are named like identifiers, or have such values."""
        known = (*QUERY_NAMES, *ID_NAMES)
        return [
            name
            for name in self.features
            if plain_name(name) in known or ID_NAME.search(name) or name in self.like_ids
        ]

    @property
    def unused_ids(self) -> list[str]:
        """Columns that are left out and named like ids of rows."""
        return [
            name for name in self.left_out if plain_name(name) in ID_NAMES or ID_NAME.search(name)
        ]

    @property
    def looking_like_labels(self) -> list[str]:
        """Features that are named like labels, which new rows do not have."""
        return [name for name in self.features if plain_name(name) in LABEL_NAMES]

    def role(self, name: str) -> str:
        """What a column is, in a few words."""
        what = next((role for role in KNOWN if getattr(self, role) == name), None)
        if what is None:
            return self.left_out.get(name, "feature")
        return what + self._whence(name)

    def _whence(self, name: str) -> str:
        """Where the role of a column comes from, in brackets; nothing for the user."""
        if name in self.guessed:
            return " (guessed)"
        return " (as in the fit)" if name in self.remembered else ""

    def words(self) -> str:
        """What was understood, in one sentence."""
        named = {role: getattr(self, role) for role in KNOWN}
        parts = [
            f"{role} {name!r}{self._whence(name)}"
            for role, name in named.items()
            if name is not None
        ]
        if self.grades is not None:
            grades = listed([f"{word!r} {grade:.15g}" for word, grade in self.grades.items()])
            whence = "as in the fit" if self.label in self.remembered else "by their order"
            parts.append(f"grades {whence}: {grades}")
        if self.features:
            parts.append(f"{plural(len(self.features), 'feature')} ({listed(self.features)})")
        if self.left_out:
            kinds = UNUSABLE.values()
            left = [f"{n} ({why})" if why in kinds else n for n, why in self.left_out.items()]
            parts.append(f"left out: {listed(left)}")
        return "; ".join(parts)


def no_such_column(where: Any, name: str, names: Sequence[str]) -> DataError:
    """An error about a column that a table lacks, with a name like it if there is one."""
    return DataError(f"{where} has no column {name!r}{_instead(name, names)}")


def _instead(name: str, names: Sequence[str]) -> str:
    """The end of a message about a name that is missing."""
    near = get_close_matches(name, names, 1, 0.75)
    if not near:
        near = [other for other in names if other.strip().lower() == name.strip().lower()]
    meant = f" Is it {near[0]!r}?" if near else ""
    return f".{meant} Columns: {listed(names)}."


def plain_name(name: str) -> str:
    """A name without case, blanks and underscores."""
    return re.sub(r"[\s_.-]", "", name).lower()


def _guess(known: Sequence[str], names: Sequence[str]) -> str | None:
    plain = {plain_name(name): name for name in reversed(names)}  # the first of several
    return next((plain[word] for word in known if word in plain), None)


def _matching(where: Any, patterns: Sequence[str], names: Sequence[str], option: str) -> list[str]:
    """The names that are listed or match a pattern, in the order of `names`."""
    found: set[str] = set()
    for pattern in patterns:
        these = [name for name in names if name == pattern or fnmatchcase(name, pattern)]
        if not these:
            raise DataError(
                f"{where}: {pattern!r} of {option} matches no column{_instead(pattern, names)}"
            )
        found.update(these)
    return [name for name in names if name in found]


# One look at all columns

LABEL_STEMS = (
    "label", "relevan", "grade", "judg", "outcome", "book", "purchas", "bought", "order", "convert",
    "conversion", "click", "target", "feedback", "action", "event", "response", "result", "choice",
)  # fmt: skip
LABELS_ELSEWHERE = ("y", "score", "rating", "stars", "preference", "value")
QUERY_STEMS = (
    "query", "search", "session", "request", "impression", "topic", "prompt", "user", "visit",
    "customer", "basket", "list",
)  # fmt: skip
POSITION_NAMES = (
    "position", "pos", "rank", "ranking", "slot", "place", "displayposition", "listposition",
    "originalposition", "shownposition",
)  # fmt: skip
GRADE_WORDS = (
    "none", "nothing", "no", "never", "false", "irrelevant", "not relevant", "terrible", "bad",
    "ignored", "skip", "skipped", "impression", "shown", "seen", "view", "viewed", "poor", "low",
    "fair", "partial", "partially relevant", "somewhat relevant", "ok", "okay", "medium", "average",
    "click", "clicked", "good", "relevant", "like", "liked", "saved", "cart", "added", "yes",
    "true", "high", "very good", "great", "highly relevant", "excellent", "perfect", "best",
    "book", "booked", "order", "ordered", "buy", "bought", "purchase", "purchased",
)  # fmt: skip
"""Words of labels, worst first."""


def guess_grades(counts: Mapping[str, int]) -> dict[str, int] | None:
    """Grades of words: by their meaning if all are known, otherwise the rarest is the best.

    None if these are too many, or no words that can be listed with commas.
    """
    if not 2 <= len(counts) <= MOST_GRADES or any(mark in w for w in counts for mark in ",="):
        return None
    plain = {word: word.strip().lower().replace("_", " ") for word in counts}
    order = sorted(counts, key=lambda word: -counts[word])
    if all(word in GRADE_WORDS for word in plain.values()):
        order = sorted(counts, key=lambda word: GRADE_WORDS.index(plain[word]))
    return {word: k for k, word in enumerate(order)}


@dataclass(frozen=True)
class Wants:
    """What the reader of a table needs, and what it can take.

    Attributes
    ----------
    keep_text, keep_missing, dates : bool
        Whether features may be text, may be missing, and may be dates.
    grades : mapping of str to float, optional
        Grades of labels that are words.
    needs_label, needs_query : bool
        Whether there must be labels and queries.
    like_model : bool
        Whether the features are the features of a model, none of which is left out.
    label, label_grades : str and mapping of str to float, optional
        The label of the training table of that model, and the grades of its words.
    """

    keep_text: bool = False
    keep_missing: bool = False
    dates: bool = False
    grades: Mapping[str, float] | None = None
    needs_label: bool = False
    needs_query: bool = False
    like_model: bool = False
    label: str | None = None
    label_grades: Mapping[str, float] | None = None


@dataclass(frozen=True, eq=False)
class Look:
    """All columns of a table as arrays, their roles, and all that is wrong with them.

    Every reader of tables takes this look. Columns that no ranker can use are left out, with the
    reason in ``roles.left_out``. What is wrong is None here.

    Attributes
    ----------
    roles : Roles
    qid, y, ids : ndarray or None
    X : ndarray
        The features that are numbers.
    faults : list of DataError
    """

    roles: Roles
    qid: NDArray[Any] | None
    y: NDArray[np.float64] | None
    ids: NDArray[Any] | None
    X: NDArray[Any]
    faults: list[DataError]

    @classmethod
    def at(cls, rows: TableRows, roles: Roles, wants: Wants, dtype: Any, *, whole: bool) -> Look:
        """Look at all columns; only `whole` tables, not batches, are searched for positions."""
        if whole and not rows.table.num_rows:
            raise DataError(f"{rows.source.path} has no rows: only the names of its columns.")
        faults: list[DataError] = []
        roles = _without_unusable(rows, roles, wants, faults, empty=whole)

        def attempt(read: Any, *arguments: Any) -> Any:
            if arguments[0] is None:
                return None
            try:
                return read(*arguments)
            except DataError as fault:
                faults.append(fault)
                return None

        for role in ("label", "query"):
            needed = wants.needs_label if role == "label" else wants.needs_query
            if getattr(roles, role) is None and (needed or (faults and wants.like_model)):
                found = _likely(role, rows, roles, like_model=wants.like_model)
                if needed or found is not None:
                    faults.append(_lacking(role, found, rows))
                if found is not None:
                    roles = roles.with_guess(role, found)
        qid = attempt(rows.ids, roles.query)
        has_use = wants.needs_label or not wants.like_model  # else any words may be there
        label, grades = roles.label if has_use else None, wants.grades
        if grades is None and label is not None and rows.kinds[label] == "text":
            before = wants.label_grades if label == wants.label else None
            grades = before or rows.order(label)
            roles = replace(roles, grades=grades)
        y = attempt(rows.labels, label, grades)
        ids = attempt(rows.ids, roles.id)
        X, wrong = rows.features(roles.features, dtype, wants)
        if whole and not wants.like_model:
            numbers = [n for n in roles.features if rows.kinds[n] in ("number", "empty")]
            long_numbers = _long_numbers(rows.table, X, numbers)
            constants, positions = _suspicious(X, numbers, qid)
            texts = [name for name in roles.features if rows.kinds[name] == "text"]
            n_texts = {name: len(rows.table.column(name).unique()) for name in texts}
            n_rows = rows.table.num_rows
            differ = [name for name in texts if n_texts[name] == n_rows >= ALL_DIFFER]
            words = (name for name in differ if rows.all_match(name, SINGLE_WORD))
            constants = [name for name in constants if name not in long_numbers]
            constants += [name for name in texts if n_texts[name] == 1 < n_rows]
            roles = replace(
                roles, constants=tuple(constants), positions=tuple(positions),
                like_ids=(*long_numbers, *words), pointed=_pointed(rows.source, numbers),
            )  # fmt: skip
            row_ids = (n for n in roles.looking_like_ids if _tells_rows_apart(rows, n, qid))
            roles = replace(roles, row_ids=tuple(row_ids))
        return cls(roles, qid, y, ids, X, [*faults, *wrong])

    def error(self, where: Any) -> TableError | None:
        """All that is wrong, and the settings that would help, together; None if nothing is."""
        settings: dict[str, Any] = {}
        for fault in self.faults:
            for name, value in getattr(fault, "settings", {}).items():
                settings[name] = [*settings.get(name, []), *value] if name == "ignore" else value
        problems = tuple(map(str, self.faults))
        return TableError(str(where), problems, settings) if problems else None


def _without_unusable(
    rows: TableRows, roles: Roles, wants: Wants, faults: list[DataError], *, empty: bool
) -> Roles:
    """Roles without features that are dates, unless these are wanted, lists or, if so, empty."""
    reasons = {}
    for name in roles.features:
        kind = rows.kinds[name]
        if kind == "date" and wants.dates:
            continue
        if kind in UNUSABLE and wants.like_model:
            faults.append(
                ColumnFault(
                    f"the column {name!r} has {UNUSABLE[kind]} in each row, which cannot be a "
                    "feature. Check its name, turn it into numbers, or leave it out."
                )
            )
        if kind in UNUSABLE or (empty and kind == "empty" and not wants.like_model):
            reasons[name] = UNUSABLE.get(kind, "empty")
    kept = roles.without(reasons)
    if roles.features and not kept.features:
        named = listed([f"{name} ({why})" for name, why in reasons.items()])
        faults.append(ColumnFault(f"no column of features is left: {named}"))
    return kept


def _lacking(role: str, found: str | None, rows: TableRows) -> ColumnFault:
    """A fault about a column that is needed, and may be one that was found."""
    what = "query ids" if role == "query" else "labels"
    usual = "qid, query, search_id" if role == "query" else "label, relevance, grade"
    words = f"no column is named like {what} ({usual}, ...)"
    if found is not None:
        return ColumnFault(f"{words}; {found!r} may have them", **{role: found})
    if role == "query":
        n_rows = rows.table.num_rows
        n_pairs = n_rows * (n_rows - 1) // 2
        words += f"; if all {n_rows:,} rows ({n_pairs:,} pairs) are one ranking, say so"
        return ColumnFault(words, one_ranking=True)
    return ColumnFault(f"{words}: name the column. Columns: {listed(rows.table.column_names)}")


def _likely(role: str, rows: TableRows, roles: Roles, *, like_model: bool) -> str | None:
    """The column that most likely is the label or the query, by its name and its values.

    It is no feature of a model, if there is one.
    """
    free = [name for name in rows.table.column_names if name in roles.left_out]
    free = free if like_model else roles.features
    features = [name for name in free if rows.kinds[name] in ("number", "text")]
    different = {name: len(rows.table.column(name).unique()) for name in features}
    if role == "query" and features:
        several = [n for n in features if 1 < different[n] <= rows.table.num_rows / 2]
        named = [n for stem in QUERY_STEMS for n in several if stem in plain_name(n)]
        first = features[0]
        in_runs = [
            n
            for n in several
            if (ID_NAME.search(n) or n == first) and _is_in_runs(rows, n, different[n])
        ]
        named = [n for n in named if n in in_runs or not ID_NAME.search(n)]
        return next(iter([*(n for n in named if n in in_runs), *in_runs, *named]), None)
    usable = [
        name
        for name in features
        if not ID_NAME.search(name) and plain_name(name) not in POSITION_NAMES
        if different[name] > 1 and (rows.kinds[name] == "number" or different[name] <= MOST_GRADES)
    ]
    named = [name for stem in LABEL_STEMS for name in usable if stem in plain_name(name)]
    named += [name for word in LABELS_ELSEWHERE for name in usable if plain_name(name) == word]
    few = [name for name in reversed(usable) if different[name] <= MOST_GRADES]
    return next(iter([*named, *few, *reversed(usable)]), None)


def _is_in_runs(rows: TableRows, name: str, n_different: int) -> bool:
    """Whether equal values of a column follow one another."""
    codes, _ = rows.encoded(name)
    return int((np.diff(codes) != 0).sum()) + 1 == n_different


def _tells_rows_apart(rows: TableRows, name: str, qid: Any) -> bool:
    """Whether no query has a value of a column twice, or a missing one."""
    codes, _ = rows.encoded(name)
    queries = QueryGroups.of(qid, len(codes)).codes
    return bool((codes >= 0).all()) and len(set(zip(queries, codes, strict=True))) == len(codes)


def _long_numbers(table: Any, X: NDArray[Any], names: Sequence[str]) -> tuple[str, ...]:
    """The features that are whole numbers, some of which float64 cannot tell apart."""
    if not len(X):
        return ()
    largest = np.maximum(abs(np.fmin.reduce(X)), abs(np.fmax.reduce(X)))
    return tuple(
        name
        for name, size in zip(names, largest, strict=True)
        if size > EXACT and arrow.types.is_integer(table.schema.field(name).type)
    )


def _pointed(source: Source, names: Sequence[str]) -> tuple[str, ...]:
    """The columns whose first numbers all have three digits behind a point, by the text of a file.

    Only files with semicolons are looked at: they often have decimal commas.
    """
    if not isinstance(source, TableFile) or (source.separator, source.decimal) != (";", "."):
        return ()
    (_, header), *some = islice(csv_rows(source.path, ";"), FEW_TEXTS + 1)
    found = []
    for name, *values in zip(*(header, *(row for _, row in some)), strict=True):
        filled = [value for value in values if value.strip() not in MISSING_WORDS]
        if name.strip() in names and filled and all(map(THREE_DIGITS.fullmatch, filled)):
            found.append(name.strip())
    return tuple(found)


def _suspicious(X: NDArray[Any], names: Sequence[str], qid: Any) -> tuple[list[str], list[str]]:
    """The features that are constant, and the features that look like positions in a list.

    A position is a whole number. In each query, positions are 1 to n or 0 to n - 1, in any order;
    or, if the column is named like positions, different.
    """
    low, high = X.min(axis=0), X.max(axis=0)
    constants = [names[j] for j in np.flatnonzero(low == high).tolist() if len(X) > 1]
    positions: list[str] = []
    if qid is None:
        return constants, positions
    groups = QueryGroups.of(qid, len(X))
    starts, sizes = groups.indptr[:-1], groups.sizes
    for j in np.flatnonzero((low >= 0) & (high > low) & (sizes.max() > 2)).tolist():
        is_named = plain_name(names[j]) in POSITION_NAMES
        if not is_named and (low[j] > 1 or high[j] > sizes.max()):
            continue
        values = X[groups.order, j]
        values = values[np.lexsort((values, groups.codes[groups.order]))]
        steps = np.diff(values, prepend=np.nan)
        steps[starts] = 1.0
        is_run = (steps == 1.0).all() and np.ptp(values[starts]) == 0 and values[0] <= 1
        is_whole = (values == np.floor(values)).all()
        if is_whole and (is_run or (is_named and (steps > 0).all())):
            positions.append(names[j])
    return constants, positions
