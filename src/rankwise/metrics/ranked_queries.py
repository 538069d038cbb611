"""The input of every metric: checked, grouped by query, and sorted by score.

NumPy sorts all queries of similar size at once, as the rows of a matrix of integers. This is about
as fast as compiled loops, which would take seconds to compile at their first use. Only a loop can
find the first rows of a long ranking without sorting all of it; it is used for many rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import to_host
from rankwise.backends.parallel import map_in_threads, n_threads
from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups, check_float64_range, check_unmasked, too_large
from rankwise.metrics._compiled_loops import Array, Bools, Ints, count_pairs
from rankwise.tables import plural

Result = TypeVar("Result")
Keys = TypeVar("Keys", Ints, Array)

_LARGEST_EXACT = 2**53  # float64 holds every whole number up to here
_LARGEST = np.iinfo(np.int64).max
_CHUNK = 2**16  # rows
_LEAST_PARTS = 4  # for each thread
GRADES = 64  # so many different labels need no sorting
FEW_COUNTS = 2**17  # rows times levels up to which a table of counts is fast enough


class RankedRows(NamedTuple):
    """Consecutive queries of `RankedQueries`; `indptr` and `stops` count from their first row."""

    rows: slice
    labels: Array
    tied: Bools
    indptr: NDArray[np.intp]
    stops: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class RankedQueries:
    """The labels of each query in the order of the scores.

    Attributes
    ----------
    groups : QueryGroups
        The queries; ``labels[groups.indptr[g]:groups.indptr[g + 1]]`` is query g.
    labels : ndarray of shape (n_rows,)
        Query by query, best score first; rows with equal scores in the order of the input.
    tied : ndarray of bool, shape (n_rows,)
        Whether a row has the same score as the row before it in its query.
    stops : ndarray of shape (n_queries,)
        Where the ranked rows of each query end; judged rows that a run did not retrieve follow.
    """

    groups: QueryGroups
    labels: Array
    tied: Bools
    stops: NDArray[np.intp]

    @classmethod
    def of(cls, y: Any, scores: Any, qid: Any = None) -> RankedQueries:
        """Check the input and sort the rows of each query, O(n log n)."""
        if isinstance(y, Mapping) or isinstance(scores, Mapping):
            return cls._of_run(y, scores, qid)
        labels, values = as_columns(y, scores)
        return cls._sorted(labels, values, QueryGroups.of(to_host(qid), len(labels)))

    @classmethod
    def _of_run(cls, qrels: Any, run: Any, qid: Any) -> RankedQueries:
        """The documents of a run, and judged documents that it did not retrieve."""
        if not (isinstance(qrels, Mapping) and isinstance(run, Mapping)):
            raise DataError(
                "y and scores must both be dictionaries, as in {query: {document: label}}, or "
                f"both arrays: got {type(qrels).__name__} and {type(run).__name__}."
            )
        if qid is not None:
            raise DataError("Dictionaries have their queries as keys: leave out qid.")
        if not any(query in run for query in qrels):
            raise DataError(
                f"None of the {len(qrels)} queries of the qrels is in the run. Check that both "
                "have keys of the same type."
            )
        labels: list[Any] = []
        values: list[Any] = []
        names: list[Any] = []
        counts: list[tuple[int, int]] = []
        for query, judged in qrels.items():
            scored = run.get(query, {})
            for name, documents in (("qrels", judged), ("run", scored)):
                if not isinstance(documents, Mapping):
                    raise DataError(
                        f"Expected {{query: {{document: value}}}} as {name}: query {query!r} has a "
                        f"{type(documents).__name__}."
                    )
            missed = [label for document, label in judged.items() if document not in scored]
            if not (scored or missed):
                continue
            labels += [*(judged.get(document, 0) for document in scored), *missed]
            values += [*scored.values(), *[0.0] * len(missed)]
            names.append(query)
            counts.append((len(scored), len(missed)))
        sizes = np.array(counts)
        by_row = np.repeat(np.arange(len(names)), sizes.sum(axis=1))
        as_names = np.empty(len(names), dtype=object)
        as_names[:] = names
        groups = replace(QueryGroups.of(by_row), names=as_names)
        is_ranked = np.repeat(np.tile([True, False], len(names)), sizes.ravel())
        scores = np.where(is_ranked, as_column(values, "run"), -np.inf)
        ranked = cls._sorted(as_column(labels, "qrels"), scores, groups)
        return replace(ranked, stops=groups.indptr[:-1] + sizes[:, 0])

    @classmethod
    def _sorted(cls, labels: Array, values: Array, groups: QueryGroups) -> RankedQueries:
        ranked, tied = rank_rows(labels, values, groups.permutation, groups.indptr)
        return cls(groups, ranked, tied, groups.indptr[1:])

    def map_parts(self, function: Callable[[RankedRows], Array]) -> Array:
        """The values of all queries, from a function of some queries at a time."""
        indptr = self.groups.indptr

        def values(queries: slice) -> Array:
            first, last = indptr[queries.start], indptr[queries.stop]
            rows = slice(first, last)
            starts = indptr[queries.start : queries.stop + 1] - first
            stops = self.stops[queries] - first
            labels, tied = self.labels[rows], self.tied[rows]
            return function(RankedRows(rows, labels, tied, starts, stops))

        return np.concatenate(map_queries(values, indptr))

    @cached_property
    def pair_counts(self) -> Ints:
        """Numbers of pairs of each query, shape (n_queries, 5).

        The columns: all pairs, discordant, tied in the labels, tied in the scores, tied in both.
        """
        if (self.stops < self.groups.indptr[1:]).any():
            raise DataError(
                "Pairwise metrics need a score for every judged document, but the run lacks some. "
                "Score them, or use a metric of the top ranks, such as ndcg."
            )
        level = label_levels(self.labels, self.groups.indptr)
        n_levels = int(level.max()) + 1
        if n_levels * len(level) <= FEW_COUNTS:
            counts = count_few_pairs(level, self.tied, self.groups.indptr, n_levels)
        else:
            tree, seen = np.zeros((2, n_levels + 1), np.int64)
            counts = np.zeros((self.groups.n_groups, 4), np.int64)
            count_pairs(level, self.tied, self.groups.indptr, tree, seen, counts)
        sizes = self.groups.sizes.astype(np.int64)
        return np.column_stack((sizes * (sizes - 1) // 2, counts))


def as_columns(y: Any, scores: Any) -> tuple[Array, Array]:
    """Labels and scores of the same rows, of which there is at least one."""
    labels, values = as_column(y, "y"), as_column(scores, "scores")
    if len(values) != len(labels):
        raise DataError(
            f"scores needs one entry per row of y: got {len(values)} for {len(labels)} rows."
        )
    if not len(labels):
        raise DataError("There are no rows to evaluate: y is empty.")
    return labels, values


def as_column(values: Any, name: str) -> Array:
    """One finite float64 per row, in an array that compiled code accepts.

    Takes lists, arrays of any real dtype, tensors and columns of pandas or polars; a column of
    shape (n, 1) is flattened.
    """
    check_unmasked(name, values)
    column = np.asarray(to_host(values))
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise DataError(
            f"{name} needs one number per row, in one dimension: got shape {column.shape}."
        )
    is_whole = column.dtype.kind in "iu" and len(column)
    if is_whole and max(int(column.max()), -int(column.min())) > _LARGEST_EXACT:
        raise DataError(
            f"{name} has whole numbers beyond 2**53, which float64 cannot tell apart: "
            "subtract the smallest of them, or use their ranks."
        )
    if column.dtype.kind not in "biuf":
        column = _parse_objects(column, name)
    check_float64_range(name, column)
    column = np.require(column, np.float64, ["C", "W"])
    with np.errstate(over="ignore", invalid="ignore"):
        total = column.sum()
    if not np.isfinite(total) and not (finite := np.isfinite(column)).all():
        row, n_bad = int(np.argmin(finite)), int((~finite).sum())
        raise DataError(
            f"{name} is {column[row]} in row {row} ({plural(n_bad, 'row')} "
            f"{'is' if n_bad == 1 else 'are'} not finite): drop these rows or fill them in."
        )
    return column


def _parse_objects(column: NDArray[Any], name: str) -> Array:
    """Numbers from an array of objects; an error for anything else."""
    if column.dtype.kind == "O":
        try:
            return column.astype(np.float64)
        except (OverflowError, TypeError, ValueError):
            pass
        for row, value in enumerate(column):
            try:
                float(value)
            except (TypeError, ValueError):
                raise DataError(
                    f"{name} is not a number in row {row}: got {value!r}. "
                    "Drop such rows or fill them in."
                ) from None
            except OverflowError:
                raise too_large(name, row) from None
    raise DataError(f"{name} needs one real number per row: got dtype {column.dtype}.")


def rank_rows(
    labels: Array, scores: Array, order: Ints | None, indptr: Ints
) -> tuple[Array, Bools]:
    """Labels of each query by descending score, and which rows tie with the one before.

    Rows with equal scores keep the order of the input. `order` has the rows of each query; None if
    they follow each other.
    """
    ranked, tied = np.empty(len(scores)), np.zeros(len(scores), bool)

    def rank(queries: slice) -> None:
        within = indptr[queries.start : queries.stop + 1]
        rows = slice(within[0], within[-1])
        here = rows if order is None else order[rows]
        at, ties = _descending_order(scores[here], within - within[0])
        if ties is not None:
            tied[rows] = ties
        np.take(labels[here], at, out=ranked[rows], mode="clip")

    map_queries(rank, indptr)
    return ranked, tied


def map_queries(function: Callable[[slice], Result], indptr: Ints) -> list[Result]:
    """Call a function for some consecutive queries at a time, in threads if there are many rows.

    The rows of each call fit in the processor's cache, which makes array expressions fast.
    """
    cuts = np.searchsorted(indptr, np.arange(0, indptr[-1], _CHUNK), side="right") - 1
    bounds = pairwise(np.unique(np.append(cuts, len(indptr) - 1)).tolist())
    parts = [slice(a, b) for a, b in bounds]
    threads = min(n_threads(), len(parts) // _LEAST_PARTS)
    if threads < 2:
        return [function(part) for part in parts]
    first = function(parts[0])  # what is compiled, is compiled in this thread
    return [first, *map_in_threads(function, parts[1:], threads)]


def sort_queries(keys: Keys, indptr: Ints) -> Keys:
    """The numbers of each query in ascending order."""
    sizes = np.diff(indptr)
    if (sizes == sizes[0]).all():
        return np.sort(keys.reshape(len(sizes), -1), axis=1).ravel()
    found = np.empty_like(keys)
    # Queries with up to 2, 4, 8, ... rows; shorter ones are filled up.
    _, kinds = np.frexp(sizes - 1)
    for kind in np.unique(kinds):
        chosen = np.flatnonzero(kinds == kind)
        columns = np.arange(sizes[chosen].max())
        there = columns < sizes[chosen, None]
        places = (indptr[chosen, None] + columns)[there]
        table = np.full(there.shape, np.inf if keys.dtype.kind == "f" else _LARGEST)
        table[there] = keys[places]
        table.sort(axis=1)
        found[places] = table[there]
    return found


def _descending_order(values: Array, indptr: Ints) -> tuple[Ints, Bools | None]:
    """Where the rows of each query are, by descending value, and which tie with the one before.

    The sort moves one integer per row: the leading bits of the value, followed by the position of
    the row. If values differ only in the bits left out, their query is sorted again. None instead
    of the ties if there are none.
    """
    bits = np.subtract(0.0, values).view(np.int64)  # both zeros become 0.0
    keys = bits >> 63  # in the end `bits`, with all but the first bit of negative numbers inverted:
    keys &= _LARGEST
    keys ^= bits  # smaller where the value is larger
    place = (1 << (len(keys) - 1).bit_length()) - 1
    packed = keys & ~place
    packed |= np.arange(len(keys))
    packed = sort_queries(packed, indptr)
    at = packed & place
    changed = (packed[1:] ^ packed[:-1]).view(np.uint64)
    if not len(changed) or changed.min() > place:  # all differ in the leading bits
        return at, None
    sorted_keys = keys[at]
    wrong = np.zeros(len(keys), bool)
    np.less(sorted_keys[1:], sorted_keys[:-1], out=wrong[1:])
    wrong[indptr[:-1]] = False
    if wrong.any():
        for g in np.unique(np.searchsorted(indptr, np.flatnonzero(wrong), side="right") - 1):
            rows = slice(indptr[g], indptr[g + 1])
            at[rows] = indptr[g] + np.argsort(keys[rows], kind="stable")
        sorted_keys = keys[at]
    tied = np.zeros(len(keys), bool)
    np.equal(sorted_keys[1:], sorted_keys[:-1], out=tied[1:])
    tied[indptr[:-1]] = False
    return at, tied


def label_levels(labels: Array, indptr: Ints) -> Ints:
    """Integers in the order of the labels of each query, from 0 on, at most one for each row."""
    lowest, highest = labels.min(), labels.max()
    if highest - lowest < GRADES and (labels == np.floor(labels)).all() and lowest == int(lowest):
        return np.asarray((labels - lowest).astype(np.int64))
    at, tied = _descending_order(labels, indptr)
    steps = np.cumsum(np.ones(len(labels), bool) if tied is None else ~tied)
    level = np.empty(len(labels), np.int64)
    level[at] = np.repeat(steps[indptr[1:] - 1], np.diff(indptr)) - steps
    return level


def count_few_pairs(level: Ints, tied: Bools, indptr: Ints, n_levels: int) -> Ints:
    """As the compiled `count_pairs`, by the number of rows at each level of each block of ties."""
    block, product_sums = np.cumsum(~tied) - 1, partial(np.einsum, "lb,lb->b")
    sizes, first = np.bincount(block), block[indptr[:-1]]
    n_blocks = len(sizes)
    counted = np.bincount(level * n_blocks + block, minlength=n_levels * n_blocks)
    own = counted.reshape(n_levels, n_blocks)
    seen = np.cumsum(own, axis=1)
    seen -= own
    seen -= np.repeat(seen[:, first], np.diff(first, append=n_blocks), axis=1)  # of other queries
    both = (product_sums(own, own) - sizes) // 2
    in_labels = product_sums(own, seen) + both
    below = np.cumsum(seen[:-1], axis=0, out=seen[:-1])
    counts = (product_sums(own[1:], below), in_labels, sizes * (sizes - 1) // 2, both)
    return np.asarray(np.add.reduceat(counts, first, axis=1).T)
