"""The rows of each query by score.

NumPy sorts all queries of similar size at once, as the rows of a matrix of integers. This is about
as fast as compiled loops, which would take seconds to compile at their first use.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.threads import map_in_threads

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Result = TypeVar("Result")
Keys = TypeVar("Keys", Ints, Floats)

_LARGEST = np.iinfo(np.int64).max
_CHUNK = 2**16  # rows
_LEAST_PARTS = 4  # for each thread
_THREADS = 4  # more would wait for the interpreter
_GRADES = 64  # so many different labels need no sorting


def rank_rows(
    labels: Floats, scores: Floats, order: Ints | None, indptr: Ints
) -> tuple[Floats, Bools]:
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
    n_threads = min(_THREADS, os.cpu_count() or 1, len(parts) // _LEAST_PARTS)
    if n_threads < 2:
        return [function(part) for part in parts]
    first = function(parts[0])  # what is compiled, is compiled in this thread
    return [first, *map_in_threads(function, parts[1:], n_threads)]


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


def _descending_order(values: Floats, indptr: Ints) -> tuple[Ints, Bools | None]:
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
    return at, _same_as_before(sorted_keys, indptr)


def _same_as_before(values: Ints, indptr: Ints) -> Bools:
    """Which rows have the value of the row before them in their query."""
    same = np.zeros(len(values), bool)
    np.equal(values[1:], values[:-1], out=same[1:])
    same[indptr[:-1]] = False
    return same


def label_levels(labels: Floats, indptr: Ints) -> Ints:
    """Integers in the order of the labels of each query, from 0 on, at most one for each row."""
    lowest, highest = labels.min(), labels.max()
    if highest - lowest < _GRADES and (labels == np.floor(labels)).all() and lowest == int(lowest):
        return np.asarray((labels - lowest).astype(np.int64))
    at, tied = _descending_order(labels, indptr)
    steps = np.cumsum(np.ones(len(labels), bool) if tied is None else ~tied)
    level = np.empty(len(labels), np.int64)
    level[at] = np.repeat(steps[indptr[1:] - 1], np.diff(indptr)) - steps
    return level
