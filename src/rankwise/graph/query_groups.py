"""Rows grouped by query, whatever the query ids look like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Index
from rankwise.errors import DataError
from rankwise.graph.id_arrays import as_ids, numbers_per_row
from rankwise.tables import plural


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
        names, run_codes = _factorize(run_names)
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
        by_row = numbers_per_row("query_weight", weight, self.n_rows)
        valid = by_row > 0
        if not valid.all():
            row = int(np.argmin(valid))
            raise DataError(
                f"query_weight must be finite and above 0: got {by_row[row]} in row {row}. Leave "
                "out the rows of queries that should not count."
            )
        weights = by_row[self.order[self.indptr[:-1]]]
        same = by_row == weights[self.codes]
        if not same.all():
            row = int(np.argmin(same))
            query = self.codes[row]
            raise DataError(
                "query_weight must be the same for all rows of a query: query "
                f"{self.names[query]} has {weights[query]} and, in row {row}, {by_row[row]}."
            )
        return replace(self, weights=weights)


def check_length(n_ids: int, n_rows: int | None, name: str = "qid") -> None:
    """Raise an error unless there is one query id per row."""
    if n_rows is not None and n_ids != n_rows:
        raise DataError(f"{name} needs one entry per row of X: got {n_ids} for {n_rows} rows.")


def check_ids(qid: Any, n_rows: int | None, first_row: int = 0, name: str = "qid") -> NDArray[Any]:
    """Query ids as an array, one per row; errors count rows from `first_row`."""
    if np.ma.is_masked(qid):
        raise DataError("qid has masked entries: give every row a query id, or drop these rows.")
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
    if missing.any():
        raise DataError(
            f"{name} is missing in row {first_row + int(np.argmax(missing))} "
            f"({plural(int(missing.sum()), 'row')} in all): give every row "
            f"{'a query id' if name == 'qid' else 'a value'}, or drop these rows."
        )
    return ids


def missing_entries(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which entries of a one-dimensional array are NaN, NaT, None or pandas' NA."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind in "mM":
        return np.asarray(np.isnat(values))
    if values.dtype.kind == "O":
        return np.fromiter(map(_is_missing, values), bool, len(values))
    return np.zeros(len(values), dtype=bool)


def _is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas' NA or Decimal's sNaN, which cannot be compared."""
    try:
        return value is None or bool(value != value)
    except (ArithmeticError, TypeError):
        return True


def _factorize(ids: NDArray[Any]) -> tuple[NDArray[Any], Index]:
    """Distinct ids in order of first appearance, and the index of each entry among them."""
    if ids.dtype.kind == "O":  # mixed types cannot be sorted, but can be hashed
        seen: dict[Any, int] = {}
        try:
            codes = np.fromiter((seen.setdefault(v, len(seen)) for v in ids), np.intp, len(ids))
        except TypeError as error:
            raise DataError(f"qid needs ids such as numbers or text: {error}.") from None
        names = np.empty(len(seen), dtype=object)
        names[:] = list(seen)
        return names, codes
    sorted_names, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first, kind="stable")
    rank = np.empty(len(first), dtype=np.intp)
    rank[by_appearance] = np.arange(len(first))
    return sorted_names[by_appearance], rank[inverse]
