"""Rows as users describe them: ids, queries, labels and weights, checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index, is_sparse, is_tensor, to_host
from rankwise.errors import DataError
from rankwise.tables import plural

EXACT = 2**53  # float64 holds every whole number below
FLOATS = (float, np.floating)
COMPLEX = (complex, np.complexfloating)
NUMBERS = (int, float, Decimal, np.number)
LONGEST = 100_000  # letters of an id in a file


def as_ids(values: Any, name: str = "qid", first_row: int = 0) -> NDArray[Any]:
    """Ids as users give them, in an array in which different ids differ.

    Every id passes through here, whether it names a query, an item, a group or a judge. An id is
    never a float. Whole floats become integers unless rounding may have merged two ids; other
    floats are refused. NaN stays, for callers to refuse in their own words. Errors call the ids
    `name`, and count rows from `first_row`.

    Examples
    --------
    >>> as_ids(np.array([1.0, 1.0, 2.0]))
    array([1, 1, 2])
    >>> as_ids([2**64, 1])
    array([18446744073709551616, 1], dtype=object)
    >>> as_ids([0.5, 2**53 + 1])
    Traceback (most recent call last):
    rankwise.errors.DataError: qid has the float 0.5 in row 0: ids are whole numbers or text.
    """
    ids = lossless_array(to_host(values), name)
    if ids.dtype.kind == "f":
        _refuse_floats(ids.ravel(), np.arange(ids.size), name, first_row)
        return ids if np.isnan(ids).any() else ids.astype(np.int64)
    kinds = set(map(type, ids.tolist())) if ids.dtype.kind == "O" and ids.ndim == 1 else set()
    if ids.dtype.kind == "c" or any(issubclass(kind, COMPLEX) for kind in kinds):
        raise DataError(f"{name} has complex numbers: ids are whole numbers or text.")
    if not kinds:
        return ids
    numbers = (entry for entry in ids if isinstance(entry, NUMBERS) and type(entry) is not bool)
    if kinds & {bool, np.bool_} and any(number in (0, 1) for number in numbers):
        raise DataError(
            f"{name} has truth values beside 0 or 1, which they equal: use numbers only, or text."
        )
    if not any(issubclass(kind, FLOATS) for kind in kinds):
        return ids
    rows = np.flatnonzero(np.fromiter((isinstance(v, FLOATS) for v in ids), bool, len(ids)))
    floats = ids[rows].astype(np.float64)
    _refuse_floats(floats, rows, name, first_row)
    whole = ids.copy()
    whole[rows] = [value if value != value else int(value) for value in floats.tolist()]
    return whole


def _refuse_floats(values: NDArray[Any], rows: NDArray[Any], name: str, first_row: int) -> None:
    found = float_fault(values)
    if found is not None:
        k, value, why = found
        raise DataError(f"{name} has the float {value!r} in row {first_row + int(rows[k])}: {why}")


def float_fault(values: NDArray[Any]) -> tuple[int, float, str] | None:
    """The number of the first float that cannot be an id, the float, and why; NaN may be one."""
    limit = min(2.0 ** (np.finfo(values.dtype).nmant + 1), EXACT)
    with np.errstate(invalid="ignore"):
        wrong = np.flatnonzero((values != np.floor(values)) | (abs(values) >= limit))
    wrong = wrong[~np.isnan(values[wrong])]
    if not len(wrong):
        return None
    value = float(values[wrong[0]])
    why = "ids are whole numbers or text."
    if value.is_integer():
        why = (
            "floats of this size stand for several whole numbers each. Store the ids as integers "
            "or text."
        )
    return int(wrong[0]), value, why


def text_fault(text: str) -> str | None:
    """Why a text cannot be an id of a file; None if it can."""
    if "\0" in text:
        return "has a NUL character, as damaged files have"
    if len(text) > LONGEST:
        return f"has {len(text):,} letters, where at most {LONGEST:,} are allowed"
    return None


def join_ids(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """One array of several arrays of ids, which keeps the ids as they were.

    NumPy alone would make floats of signed and unsigned integers, and text of integers beside text.

    Examples
    --------
    >>> join_ids([np.array([-1]), np.array([2**63], dtype=np.uint64)])
    array([-1, 9223372036854775808], dtype=object)
    """
    if len({part.dtype.kind for part in parts}) == 1:
        return np.concatenate(parts)
    return np.concatenate([part.astype(object) for part in parts])


def entries_of(column: Any) -> list[Any]:
    """The entries of a column of any library; NumPy would make floats of integers beside NA."""
    for method in ("to_pylist", "to_list"):  # of pyarrow, of pandas and polars
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


def id_columns(values: Any) -> list[Any]:
    """The columns of an array, a frame or a list of rows; none if there is one dimension.

    Every entry stays as it came: in an array of numbers and texts, all would become texts.

    Examples
    --------
    >>> id_columns([[1, "a"], ["1", "b"]])
    [(1, '1'), ('a', 'b')]
    """
    shape = getattr(values, "shape", None)
    if shape is None:
        is_table = isinstance(values, list | tuple) and all(
            isinstance(row, list | tuple | np.ndarray) for row in values
        )
        return (
            list(zip(*values, strict=True)) if is_table and len(set(map(len, values))) == 1 else []
        )
    if hasattr(type(values), "column_names"):  # of pyarrow
        return list(values.columns)
    table = getattr(values, "iloc", values)
    return [table[:, k] for k in range(shape[1])] if len(shape) == 2 else []


def lossless_array(values: Any, name: str) -> NDArray[Any]:
    """Lists of ids, and text of other libraries, keep ids apart; NumPy converts everything else."""
    if isinstance(values, list | tuple) and not any(isinstance(v, list | tuple) for v in values):
        return id_array(values)
    if str(getattr(values, "dtype", "")) in ("Int128", "UInt128"):  # before 2.1, polars panics
        return id_array(entries_of(values))
    try:
        array = np.asarray(values)
        if array.dtype.kind == "U" and hasattr(values, "to_list"):
            return id_array(entries_of(values))
        return array
    except ValueError:
        raise DataError(f"{name} needs one id per row: got lists of several lengths.") from None
    except Exception as error:
        if hasattr(values, "to_list"):
            return id_array(entries_of(values))
        raise DataError(f"{name} needs ids such as numbers or text: {error}.") from error


def id_array(values: Iterable[Any]) -> NDArray[Any]:
    """Ids as an array of integers, floats or strings, or else of objects.

    NumPy alone would make 1 and "1" the same string, 2**53 and 2**53 + 1 the same float if there is
    a float among them, and would drop a null character at the end of a string.

    Examples
    --------
    >>> id_array([1, "1", 2])
    array([1, '1', 2], dtype=object)
    >>> id_array([3, 1, 2])
    array([3, 1, 2])
    """
    entries = list(values)
    kinds = {type(entry) for entry in entries}
    for scalar, dtype_kinds in ((int | np.integer, "iu"), (float | np.floating, "f"), (str, "U")):
        if kinds and bool not in kinds and all(issubclass(kind, scalar) for kind in kinds):
            made = np.array(entries)
            whole = scalar is not str or not any(entry.endswith("\0") for entry in entries)
            if whole and made.dtype.kind in dtype_kinds:
                return made
    found = np.empty(len(entries), dtype=object)
    found[:] = entries
    return found


DATES = (np.datetime64, np.timedelta64, date, time, timedelta)  # datetime is a date


def check_lossless(what: str, values: Any, *, numbers: bool = True) -> None:
    """Refuse masks and sparse arrays and, where numbers are needed, complex ones and dates.

    NumPy would drop masks and imaginary parts, and make large numbers of dates.

    Examples
    --------
    >>> import numpy as np
    >>> check_lossless("weight", np.ma.masked_equal([1.0, 0.0], 0.0))
    Traceback (most recent call last):
    rankwise.errors.DataError: weight has masked entries: fill them in, or drop these rows.
    """
    check_unmasked(what, values)
    if is_sparse(values):
        raise DataError(f"{what} is a sparse array: pass {what}.toarray().")
    if numbers:
        check_real(what, values)


def refuse_where(wrong: Any, message: Callable[[int], str]) -> None:
    """Raise an error about the first entry that is wrong, if there is one."""
    if wrong.any():
        raise DataError(message(int(np.argmax(wrong))))


def finite_numbers(
    name: str, values: Any, n: int, unit: str = "row of X", max_ndim: int = 1
) -> Array:
    """One finite number, or row of numbers, for each of n units, as a NumPy array."""
    check_lossless(name, values)
    try:
        found = np.asarray(to_host(values), dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        raise DataError(
            f"{name} must hold finite numbers of float64, one entry per {unit}. Turn words into "
            "numbers first, for example with pandas.get_dummies."
        ) from None
    if not 0 < found.ndim <= max_ndim or len(found) != n:
        raise DataError(
            f"{name} needs one entry per {unit}: got shape {found.shape} for {n} "
            f"{unit.partition(' ')[0]}s."
        )
    wrong = ~np.isfinite(found).all(axis=tuple(range(1, found.ndim)))
    refuse_where(wrong, lambda k: f"{name} must be finite: entry {k} is {found[k]}.")
    return found


def check_unmasked(what: str, values: Any) -> None:
    """Refuse masked entries."""
    if np.ma.is_masked(values):
        raise DataError(f"{what} has masked entries: fill them in, or drop these rows.")


def check_real(what: str, values: Any, *, allow_complex: bool = False) -> None:
    """Refuse dates, times and complex numbers, in arrays, lists and the columns of data frames.

    Long doubles beyond the range of float64 are refused as well.

    Examples
    --------
    >>> from datetime import date
    >>> check_real("weight", [date(2020, 1, 1), date(2020, 1, 2)])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    rankwise.errors.DataError: weight must hold real numbers: got dates or times (date). ...
    """
    if hasattr(values, "columns") and hasattr(values, "dtypes"):
        for name, dtype in zip(values.columns, values.dtypes, strict=True):
            if getattr(dtype, "kind", "O") in "OcmM":  # dtypes of polars have no kind
                column = np.asarray(values[name])
                check_real(f"Column {name!r} of {what}", column, allow_complex=allow_complex)
        return
    for entry in _entry_types(values):
        if issubclass(entry, DATES):
            raise DataError(
                f"{what} must hold real numbers: got dates or times ({entry.__name__}). Convert "
                "them to numbers, such as an age in days."
            )
        if issubclass(entry, COMPLEX) and not allow_complex:
            raise DataError(
                f"{what} must hold real numbers: got complex numbers ({entry.__name__}). Use their "
                "real parts or absolute values."
            )
    check_float64_range(what, values)


def check_float64_range(what: str, values: Any) -> None:
    """Refuse an array of long doubles of which some would be infinite in float64."""
    if not isinstance(values, np.ndarray) or values.dtype.type is not np.longdouble:
        return
    outside = np.isfinite(values) & (abs(values) > np.finfo(np.float64).max)
    if outside.any():
        raise too_large(what, int(np.argwhere(np.atleast_1d(outside))[0, 0]))


def too_large(what: str, row: int) -> DataError:
    """The error for a finite number that float64 cannot hold."""
    return DataError(f"{what} is too large for float64 in row {row}: divide it by a constant.")


def _entry_types(values: Any) -> list[type]:
    """The classes of entries; none of a tensor, and of what cannot be an array."""
    if is_tensor(values):
        return []
    if getattr(getattr(values, "dtype", None), "kind", "O") != "O":
        return [values.dtype.type]
    try:
        array = np.asarray(values)
    except (OverflowError, TypeError, ValueError):  # refused where values are converted
        return []
    if array.dtype.kind != "O":
        return [array.dtype.type]
    return list(dict.fromkeys(map(type, array.ravel().tolist())))


# In pandas, `frame.column_names` and `frame.select` may be columns: ask the class.


def columns_of(frame: Any) -> list[Any]:
    """The names of the columns of a data frame of any library."""
    is_arrow = hasattr(type(frame), "column_names")
    return list(frame.column_names if is_arrow else frame.columns)


def chosen_columns(frame: Any, names: list[Any]) -> Any:
    """The columns of a data frame of any library that have these names."""
    return frame.select(names) if hasattr(type(frame), "select") else frame[names]


def check_column_names(frame: Any, what: str) -> None:
    """Raise an error unless a data frame has columns with distinct names."""
    counts = Counter(columns_of(frame))
    if not counts:
        raise DataError(f"{what} is a data frame without columns.")
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise DataError(f"{what} has two columns named {twice[0]!r}: rename or drop one of them.")


def is_number(value: Any) -> bool:
    """Whether a value, such as text, can be converted to a number of float64."""
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


@dataclass(frozen=True, eq=False)
class QueryGroups:
    """The rows of each query, in the order in which the queries first appear.

    Attributes
    ----------
    names : ndarray of shape (n_groups,)
        The query id of each group.
    indptr : ndarray of shape (n_groups + 1,)
        ``order[indptr[g]:indptr[g + 1]]`` are the rows of group g.
    permutation : ndarray of shape (n_rows,) or None
        As `order`. None if the rows of each group are adjacent: `order` is then 0, 1, 2, ...
    weights : ndarray of shape (n_groups,) or None
        The weight of each query, which multiplies the weights of its pairs. None: 1.
    row_weights : ndarray of shape (n_rows,) or None
        The weight of each row, above 0. A pair of rows has the product of the two. None: 1.

    Examples
    --------
    >>> [rows.tolist() for rows in QueryGroups.of(["b", "a", "b"])]
    [[0, 2], [1]]
    """

    names: NDArray[Any]
    indptr: Index
    permutation: Index | None
    weights: NDArray[np.float64] | None = None
    row_weights: NDArray[np.float64] | None = None

    @property
    def n_rows(self) -> int:
        return int(self.indptr[-1])

    @property
    def n_groups(self) -> int:
        return len(self.names)

    @cached_property
    def sizes(self) -> Index:
        """The number of rows of each group, shape (n_groups,)."""
        return np.diff(self.indptr)

    @cached_property
    def order(self) -> Index:
        """Row numbers, group by group, in ascending order within a group, shape (n_rows,)."""
        return np.arange(self.n_rows) if self.permutation is None else self.permutation

    @cached_property
    def codes(self) -> Index:
        """The group of each row, as an index into `names`, shape (n_rows,)."""
        by_group = np.repeat(np.arange(self.n_groups), self.sizes)
        if self.permutation is None:
            return by_group
        codes = np.empty_like(by_group)
        codes[self.permutation] = by_group
        return codes

    @property
    def ids(self) -> NDArray[Any]:
        """The query id of each row, shape (n_rows,)."""
        return self.names[self.codes]

    @property
    def contiguous(self) -> bool:
        """Whether the rows of each group are adjacent."""
        return self.permutation is None

    def __iter__(self) -> Iterator[Index]:
        """The rows of each group."""
        for start, stop in zip(self.indptr[:-1], self.indptr[1:], strict=True):
            yield self.order[start:stop]

    @classmethod
    def of(cls, qid: Any, n_rows: int | None = None, name: str = "qid") -> QueryGroups:
        """Group rows by `qid`, as integers or text, in any order.

        None puts `n_rows` rows in one group, and groups are returned as they are. One pass if the
        rows of each query are adjacent, a sort otherwise. Errors call the ids `name`.

        Examples
        --------
        >>> groups = QueryGroups.of(["b", "a", "b"])
        >>> groups.names.tolist(), groups.codes.tolist(), groups.order.tolist()
        (['b', 'a'], [0, 1, 0], [0, 2, 1])
        """
        if isinstance(qid, QueryGroups):
            check_length(qid.n_rows, n_rows, name)
            return qid
        if qid is None:
            if n_rows is None:
                raise DataError("Without qid, the number of rows is needed.")
            qid = np.zeros(n_rows, dtype=np.intp)
        qid = check_ids(qid, n_rows, name=name)
        runs = np.flatnonzero(np.asarray(qid[1:] != qid[:-1], dtype=bool)) + 1
        starts = np.concatenate(([0], runs)).astype(np.intp) if len(qid) else np.empty(0, np.intp)
        run_names = qid[starts]
        names, run_codes = _factorize(run_names, name)
        lengths = np.diff(np.append(starts, len(qid)))
        sizes, permutation = lengths, None
        if len(names) < len(run_names):
            codes = np.repeat(run_codes, lengths)
            narrow = np.uint16 if len(names) < 2**16 else np.intp  # 16 bits are sorted by radix
            order = np.argsort(codes.astype(narrow), kind="stable")
            permutation = order.astype(np.intp, copy=False)
            sizes = np.bincount(codes, minlength=len(names))
        indptr = np.concatenate(([0], np.cumsum(sizes))).astype(np.intp)
        return cls(names, indptr, permutation)

    def take(self, rows: Index) -> QueryGroups:
        """The groups of these rows alone."""
        part = QueryGroups.of(self.codes[rows])
        weights = None if self.weights is None else self.weights[part.names]
        of_rows = None if self.row_weights is None else self.row_weights[rows]
        names = self.names[part.names]
        return replace(part, names=names, weights=weights, row_weights=of_rows)

    def with_row_weights(self, weights: NDArray[np.float64] | None) -> QueryGroups:
        """The same groups with weights of rows, which are above 0.

        Examples
        --------
        >>> groups = QueryGroups.of(["b", "a", "b"]).with_row_weights(np.array([2.0, 1.0, 0.5]))
        >>> groups.take(np.array([1, 2])).row_weights
        array([1. , 0.5])
        """
        return replace(self, row_weights=weights)

    def weighted(self, weight: Any) -> QueryGroups:
        """These groups with weights, from one weight per row that is the same within a query.

        Examples
        --------
        >>> QueryGroups.of(["b", "a", "b"]).weighted([2.0, 1.0, 2.0]).weights
        array([2., 1.])
        """
        by_row = finite_numbers("query_weight", weight, self.n_rows)
        refuse_where(
            by_row <= 0,
            lambda row: (
                f"query_weight must be finite and above 0: got {by_row[row]} in row {row}. Leave "
                "out the rows of queries that should not count."
            ),
        )
        weights = by_row[self.order[self.indptr[:-1]]]
        of_query = weights[self.codes]
        refuse_where(
            by_row != of_query,
            lambda row: (
                "query_weight must be the same for all rows of a query: query "
                f"{self.names[self.codes[row]]} has {of_query[row]} and, in row {row}, "
                f"{by_row[row]}."
            ),
        )
        return replace(self, weights=weights)


def check_length(n_ids: int, n_rows: int | None, name: str = "qid") -> None:
    """Raise an error unless there is one query id per row."""
    if n_rows is not None and n_ids != n_rows:
        raise DataError(f"{name} needs one entry per row of X: got {n_ids} for {n_rows} rows.")


def check_ids(qid: Any, n_rows: int | None, first_row: int = 0, name: str = "qid") -> NDArray[Any]:
    """Query ids as an array, one per row; errors count rows from `first_row`."""
    check_unmasked(name, qid)
    if isinstance(qid, str):
        raise DataError(
            f"{name} needs one entry per row: got the text {qid!r}. Pass the column itself, as in "
            f"{name}=frame[{qid!r}], and leave it out of X."
        )
    ids = as_ids(qid, name, first_row)
    if ids.ndim == 2 and 1 in ids.shape:
        ids = ids.ravel()
    if ids.ndim != 1:
        raise DataError(f"{name} needs one entry per row, in one dimension: got shape {ids.shape}.")
    check_length(len(ids), n_rows, name)
    missing = missing_entries(ids)
    refuse_where(
        missing,
        lambda row: (
            f"{name} is missing in row {first_row + row} ({plural(int(missing.sum()), 'row')} in "
            "all): give every row an id, or drop these rows."
        ),
    )
    return ids


def missing_entries(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which entries of a one-dimensional array are NaN, NaT, None or pandas' NA."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind in "mM":
        return np.asarray(np.isnat(values))
    if values.dtype.kind == "O" and set(map(type, entries := values.tolist())) != {str}:
        return np.fromiter(map(is_missing, entries), bool, len(values))
    return np.zeros(len(values), dtype=bool)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas' NA or Decimal's sNaN, which cannot be compared."""
    try:
        return value is None or bool(value != value)
    except (ArithmeticError, TypeError):
        return True
    except ValueError:  # an array of several values
        return False


def _factorize(ids: NDArray[Any], name: str) -> tuple[NDArray[Any], Index]:
    """Distinct ids in order of first appearance, and the index of each entry among them."""
    if ids.dtype.kind == "O":  # mixed types cannot be sorted, but can be hashed
        seen: dict[Any, int] = {}
        try:
            codes = np.fromiter((seen.setdefault(v, len(seen)) for v in ids), np.intp, len(ids))
        except TypeError as error:
            raise DataError(f"{name} needs ids such as numbers or text: {error}.") from None
        names = np.empty(len(seen), dtype=object)
        names[:] = list(seen)
        return names, codes
    sorted_names, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first, kind="stable")
    rank = np.empty(len(first), dtype=np.intp)
    rank[by_appearance] = np.arange(len(first))
    return sorted_names[by_appearance], rank[inverse]


def numeric_labels(y: Any) -> Any:
    """Labels as they are, or, if they are text, the numbers that the text represents.

    Ordered categories of pandas that are no numbers become 0, 1, 2, ... in their order.

    Raises DataError for other text and for numbers beyond float64, with the first row that has
    them, for the name of a column, for masked entries, dates and sparse arrays, and for data frames
    without columns or with two of the same name.
    """
    if isinstance(y, str):
        raise DataError(
            f"y needs one label per row: got the text {y!r}. Pass the column itself, as in "
            f"y=frame[{y!r}], and leave it out of X."
        )
    if is_sparse(y):
        raise DataError(
            "y is a sparse array: pass y.toarray(), and y.toarray()[:, 0] for one column."
        )
    if hasattr(y, "columns"):
        check_column_names(y, "y")
    check_unmasked("y", y)
    check_real("y", y, allow_complex=True)  # scikit-learn refuses complex numbers
    if (
        getattr(getattr(y, "dtype", None), "ordered", False)
        and y.dtype.categories.dtype.kind in "OTU"
    ):
        y = _places(y)
    is_array = any(hasattr(y, name) for name in ("dtype", "columns"))
    array = np.asarray(y) if is_array or isinstance(y, (list, tuple)) else None
    if array is None or array.dtype.kind not in "OSTU":
        return y
    try:
        return array.astype(np.float64)
    except OverflowError:
        row = next(i for i, label in enumerate(array) if not are_numbers(label))
        raise DataError(f"y is too large for float64 in row {row}: rescale the labels.") from None
    except ValueError:
        row = next(i for i, label in enumerate(array) if not are_numbers(label))
        raise DataError(
            f"y must have numbers, higher is better: got {str(array[row])!r} in row {row}. Map "
            'labels to numbers, as in [{"bad": 0, "good": 1}[label] for label in y].'
        ) from None
    except TypeError:  # scikit-learn raises the error
        return y


def _places(y: Any) -> Any:
    """The place of each label in the order of its categories, from 0."""
    codes = np.asarray(getattr(y, "cat", y).codes, dtype=np.float64)
    if (codes < 0).any():
        raise DataError(f"y is missing in row {int(np.argmin(codes))}: leave out such rows.")
    return codes


def are_numbers(labels: Any) -> bool:
    """Whether labels are numbers, or text that represents numbers."""
    try:
        np.asarray(labels).astype(np.float64)
    except (ValueError, OverflowError):
        return False
    return True


def unlike_rows(labels: Any, groups: QueryGroups) -> NDArray[np.bool_]:
    """Whether each row differs from the first of its query, in any column of labels."""
    columns = np.asarray(labels).reshape(groups.n_rows, -1)
    first = columns[groups.order[groups.indptr[:-1]]]
    return np.asarray((columns != first[groups.codes]).any(axis=1))


def labels_differ(labels: Any, groups: QueryGroups) -> bool:
    """Whether some query has two different labels, in any column of labels."""
    return bool(unlike_rows(labels, groups).any())


def check_labels_differ(labels: Any, groups: QueryGroups) -> None:
    """Raise an error unless some query has two different labels."""
    if not labels_differ(labels, groups):
        raise nothing_to_rank(groups.n_groups, groups.n_rows)


def nothing_to_rank(n_queries: int, n_rows: int) -> DataError:
    """The error if all rows of each query have the same label."""
    if n_queries == n_rows:
        return DataError(
            f"Every query has a single row ({n_queries} queries): there is no pair to learn from. "
            "Check qid: rows that are ranked together have the same id."
        )
    queries = "query" if n_queries == 1 else "queries"
    return DataError(
        f"No query has two different labels ({n_queries} {queries}, {n_rows} rows): there is no "
        "pair to learn from. Check the label column and qid; rows that are ranked together have "
        "the same id."
    )


SMALLEST, LARGEST = 1e-100, 1e100  # so that products neither vanish nor overflow


def check_row_weights(sample_weight: Any, n_rows: int) -> Array:
    """One finite weight per row, at least 0, as a NumPy array."""
    weights = finite_numbers("sample_weight", sample_weight, n_rows)
    refuse_where(
        (weights != 0) & ((weights < SMALLEST) | (weights > LARGEST)),
        lambda row: (
            f"sample_weight must be 0, which leaves out a row, or from {SMALLEST:g} to "
            f"{LARGEST:g}: got {weights[row]:g} in row {row}."
        ),
    )
    return weights
