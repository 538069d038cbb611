"""Exact hold-outs of pairs of groups, such as patients with several samples each.

With the rows U of two groups held out, the residuals are e_U = P_UU^-1 a_U, and the predictions
f_U - H_UU e_U, as for pairs of rows; see pair_loops.py. P and H depend on the held-out rows through
their number or, without tied pairs, through the numbers of rows that each label has left. There is
a factorization for each of these, and a system of the size of both groups for each pair of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.holdout.conditional import Conditional
from rankwise.holdout.leave_pair_out import (
    LevelBasis,
    PairDifferences,
    level_basis,
    level_system,
    ranking_hat,
)
from rankwise.problem import Loss

BLOCK_ENTRIES = 2**20  # of the systems of pairs of groups processed at a time


class _FullFit(NamedTuple):
    """The dual weights a and predictions f of all rows, and entries of P and H."""

    a: Array
    f: Array
    entries: Callable[[Index, Index], tuple[Array, Array]]


class _EqualSizes(NamedTuple):
    """Pairs of groups with equally many rows, and the pairs of rows in them.

    `rows` has the rows of each pair of groups; `at_first` and `at_second` are positions in it.
    """

    rows: Index
    first: Index
    second: Index
    at_first: Index
    at_second: Index


def group_pairs(
    query: Conditional,
    labels: Array,
    loss: Loss,
    lams: Sequence[float],
    pairs: Index,
    groups: QueryGroups,
) -> Iterator[tuple[int, PairDifferences]]:
    """Predictions for listed pairs of rows of different groups, by fits without both groups.

    With the index of the lam of each block of pairs.
    """
    both, block = np.unique(np.sort(groups.codes[pairs], axis=1), axis=0, return_inverse=True)
    by_block = np.argsort(block.ravel(), kind="stable")
    ends = np.searchsorted(block.ravel()[by_block], np.arange(len(both) + 1))
    position = np.empty(len(labels), np.intp)
    position[groups.order] = np.arange(len(labels)) - np.repeat(groups.indptr[:-1], groups.sizes)
    on, n_outputs = backend_of(query.target), query.target.shape[1]
    left = _left(labels, both, groups)
    _check_rest(left, both, groups)
    all_count = loss.ties == "include" or left.shape[1] == len(labels)
    kinds = left.sum(axis=1)[:, None] if all_count else left
    basis = LevelBasis(None, None) if all_count else level_basis(query)

    def part_of(blocks: Index) -> _EqualSizes:
        rows = np.array([np.concatenate([_rows(groups, g) for g in both[b]]) for b in blocks])
        listed = np.concatenate([by_block[ends[b] : ends[b + 1]] for b in blocks])
        here = np.repeat(np.arange(len(blocks)), ends[blocks + 1] - ends[blocks])
        second = groups.codes[pairs[listed]] == both[blocks[here], 1:]
        at = position[pairs[listed]] + np.where(second, groups.sizes[both[blocks[here], :1]], 0)
        places = (on.index(here * rows.shape[1] + at[:, side]) for side in (0, 1))
        return _EqualSizes(rows, *np.ascontiguousarray(pairs[listed].T), *places)

    for kind, of_kind in zip(*_distinct(kinds), strict=True):
        s = len(labels) - int(kind.sum())
        step = max(1, BLOCK_ENTRIES // (s * (s + n_outputs)))
        parts = [part_of(of_kind[k : k + step]) for k in range(0, len(of_kind), step)]
        for a, lam in enumerate(lams):
            if all_count:
                system = _all_pairs_count(query, loss, lam, int(kind[0]))
            else:
                system = _ties_excluded(query, basis, labels, loss, lam, kind)
            for part in parts:
                f = _held_out(system, part.rows)
                difference = f[part.at_first] - f[part.at_second]
                yield a, PairDifferences(part.first, part.second, difference)


def _held_out(system: _FullFit, rows: Index) -> Array:
    """Predictions without the rows of each line, shape (n_lines * n_rows of a line, n_outputs)."""
    on, (b, s) = backend_of(system.f), rows.shape
    first, second = np.repeat(rows, s, axis=1).ravel(), np.tile(rows, s).ravel()
    P, H = (M.reshape(b, s, s) for M in system.entries(first, second))
    a, f = (values[rows.ravel()].reshape(b, s, -1) for values in (system.a, system.f))
    return (f - H @ on.solve(P, a)).reshape(b * s, -1)


def _all_pairs_count(query: Conditional, loss: Loss, lam: float, left: int) -> _FullFit:
    """Ridge regression with an intercept on the rows that are left: P is (C - H) / mu."""
    on, n = backend_of(query.target), len(query.target)
    hat = ranking_hat(query, loss, lam, left)
    y = on.contiguous(query.target - query.target.mean(axis=0))
    f, r = hat.fit(y)

    def entries(first: Index, second: Index) -> tuple[Array, Array]:
        stored = hat.entries(first, second)
        other = on.array((first == second) - 1.0 / n) - stored
        return (other, stored) if hat.is_hat else (stored, other)

    return _FullFit(r, f, entries)


def _ties_excluded(
    query: Conditional, basis: LevelBasis, labels: Array, loss: Loss, lam: float, left: Index
) -> _FullFit:
    """Each label has as many rows left as `left` says."""
    on = backend_of(query.target)
    y = on.contiguous(query.target - query.target.mean(axis=0))
    level = np.unique(labels, return_inverse=True)[1]
    system = level_system(basis, level, left, lam, query.weight, loss)
    diagonal = system.P_diagonal

    def entries(first: Index, second: Index) -> tuple[Array, Array]:
        P, H, _ = system.listed(first, second)
        same = np.flatnonzero(first == second)
        P[same] = diagonal[first[same]]
        return P, H

    return _FullFit(system.weights(y), system.predictions(y), entries)


def _left(labels: Array, both: Index, groups: QueryGroups) -> Index:
    """The number of rows of each label without each pair of groups."""
    names, level = np.unique(labels, return_inverse=True)
    counts = np.zeros((groups.n_groups, len(names)), np.intp)
    np.add.at(counts, (groups.codes, level), 1)
    return np.asarray(counts.sum(axis=0) - counts[both].sum(axis=1))


def _check_rest(left: Index, both: Index, groups: QueryGroups) -> None:
    """Without two groups, rows with different labels must be left."""
    nothing = np.flatnonzero((left > 0).sum(axis=1) < 2)
    if len(nothing):
        one, two = groups.names[both[nothing[0]]]
        raise DataError(
            f"Without the groups {one} and {two}, no rows with different labels are left to learn "
            "from. Every label needs rows in at least three groups or, if the rows of each group "
            "have the same label, in two."
        )


def _rows(groups: QueryGroups, group: int) -> Index:
    return groups.order[groups.indptr[group] : groups.indptr[group + 1]]


def _distinct(kinds: Index) -> tuple[Index, list[Index]]:
    """Different lines, and where each is found."""
    lines, of_line = np.unique(kinds, axis=0, return_inverse=True)
    return lines, [np.flatnonzero(of_line.ravel() == k) for k in range(len(lines))]
