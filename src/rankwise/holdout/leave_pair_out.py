"""Exact hold-outs of every pair of a query, in O(1) time for each pair; and of pairs of groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.holdout.leave_query_out import Conditional
from rankwise.holdout.pair_differences import block_differences, listed_differences
from rankwise.holdout.pair_systems import Laplacian, PairSystem
from rankwise.problem import Loss

LIST_PAIRS = 2**18  # listed pairs processed at a time
BLOCK_ENTRIES = 2**20  # of the systems of two levels or groups processed at a time


class PairDifferences(NamedTuple):
    """f(first) - f(second) with both rows held out, shape (n_pairs, n_outputs)."""

    first: Index
    second: Index
    difference: Array  # on a device, the indices of all pairs are on the device as well


def query_pairs(
    query: Conditional, labels: Array, loss: Loss, lam: float, pairs: Index | None = None
) -> Iterator[PairDifferences]:
    """Predictions for pairs of one query, each by a fit without its two rows.

    Parameters
    ----------
    query : Conditional
    labels : ndarray of shape (n,)
        They define which pairs are tied; not used if tied pairs count.
    loss : Loss
    lam : float
    pairs : ndarray of shape (n_pairs, 2), optional
        Positions in ``query.rows``. None: all pairs or, if tied pairs do not count, all pairs
        with different labels.
    """
    level = np.unique(labels, return_inverse=True)[1]
    if loss.ties == "include" or level.max() + 1 == len(level):  # all labels differ
        parts = _all_pairs_count(query, loss, lam, pairs)
    elif _one_system_is_faster(query, level, pairs):
        parts = _one_system(query, level, loss, lam, pairs)
    else:
        parts = _systems_of_levels(query, level, loss, lam, pairs)
    for first, second, difference in parts:
        before = query.prediction[first] - query.prediction[second]
        rows = query.rows if isinstance(first, np.ndarray) else backend_of(first).index(query.rows)
        yield PairDifferences(rows[first], rows[second], before + difference)


def ranking_system(query: Conditional, loss: Loss, lam: float, left: int) -> PairSystem | None:
    """The system of a query all of whose pairs count, if `left` rows are left.

    None if nothing can be learned from them.
    """
    if left < 2:
        return None
    lam = lam / (query.weight * loss.weight(left, left * (left - 1) // 2))
    return PairSystem.of(query, Laplacian.of_all_pairs(len(query.rows), left), lam)


def _level_system(
    query: Conditional, level: Index, left: Index, loss: Loss, lam: float
) -> PairSystem | None:
    """The same, if tied pairs do not count and `left` rows of each level are left."""
    if np.count_nonzero(left) < 2:
        return None
    n_pairs = int(left.sum() ** 2 - (left**2).sum()) // 2
    lam = lam / (query.weight * loss.weight(int(left.sum()), n_pairs))
    return PairSystem.of(query, Laplacian.of_levels(level, left), lam)


def _all_pairs_count(
    query: Conditional, loss: Loss, lam: float, pairs: Index | None
) -> Iterator[PairDifferences]:
    """One system serves all pairs."""
    n = len(query.rows)
    system = ranking_system(query, loss, lam, n - 2)
    if system is not None and pairs is None:
        for start, P in system.P.blocks():
            block = block_differences(P, start, system.diagonal, system.y, system.a)
            yield PairDifferences(*block)
        return
    listed = np.column_stack(np.triu_indices(n, 1)) if pairs is None else pairs
    yield from _listed(system, listed, query)


def _systems_of_levels(
    query: Conditional, level: Index, loss: Loss, lam: float, pairs: Index | None
) -> Iterator[PairDifferences]:
    """A system for each pair of levels: all of their pairs leave the same numbers of rows."""
    sizes = np.bincount(level)
    ordered = None if pairs is None else np.sort(level[pairs], axis=1)
    if ordered is None:
        of_levels = list(combinations(range(len(sizes)), 2))
    else:
        of_levels = [tuple(both) for both in np.unique(ordered, axis=0).tolist()]
    for p, q in of_levels:
        left = sizes.copy()
        left[p] -= 1
        left[q] -= 1
        system = _level_system(query, level, left, loss, lam)
        if ordered is None:
            first, second = np.flatnonzero(level == p), np.flatnonzero(level == q)
            step = max(1, LIST_PAIRS // len(second))
            for start in range(0, len(first), step):
                yield from _grid(system, first[start : start + step], second, query)
        else:
            assert pairs is not None
            yield from _listed(system, pairs[(ordered == (p, q)).all(axis=1)], query)


def _listed(
    system: PairSystem | None, pairs: Index, query: Conditional
) -> Iterator[PairDifferences]:
    """Differences of listed pairs; 0 if nothing was learned, as the other queries predict."""
    for start in range(0, len(pairs), LIST_PAIRS):
        first, second = np.ascontiguousarray(pairs[start : start + LIST_PAIRS].T)
        if system is None:
            out = backend_of(query.target).zeros(len(first), query.target.shape[1])
        else:
            out = system.differences(first, second)
        yield PairDifferences(first, second, out)


def _grid(
    system: PairSystem | None, first: Index, second: Index, query: Conditional
) -> Iterator[PairDifferences]:
    """Differences of every row of `first` and every row of `second`."""
    i, j = np.repeat(first, len(second)), np.tile(second, len(first))
    if system is None:
        yield from _listed(None, np.column_stack((i, j)), query)
    else:
        entries = system.P.grid(first, second).reshape(-1)
        yield PairDifferences(i, j, system.differences(i, j, entries))


def _one_system(
    query: Conditional, level: Index, loss: Loss, lam: float, pairs: Index | None
) -> Iterator[PairDifferences]:
    """One system for all pairs of levels, in which d_l = n - n_l for all rows n_l of a level.

    Without one row of level p and one of level q, their degrees are larger by 1, and B^-1 is
    smaller by E = (I - 11'/n) / (d_l (d_l + 1)) on the rows V of the two levels. So P becomes

        P_VV <- (I - P_VV E)^-1 P_VV,

    and a likewise. Two rows of the same level have d_l + 2 instead. If the weight of a pair depends
    on the number of pairs, there is a system for each of these numbers.
    """
    levels, n = QueryGroups.of(level), len(level) - 2
    sizes = levels.sizes
    total = (len(level) ** 2 - int((sizes**2).sum())) // 2
    system, of_system = None, 0.0
    for block in _blocks(levels, pairs):
        held = np.array([1, 1] if len(block.sizes) == 2 else [2])
        lost = int((held * (len(level) - np.array(block.sizes))).sum()) - (len(held) == 2)
        effective = lam / (query.weight * loss.weight(n, total - lost))
        if effective != of_system:
            laplacian = Laplacian(n, np.asarray(n - sizes, float), levels.codes, False)
            system, of_system = PairSystem.of(query, laplacian, effective), effective
        first, second = block.pairs()
        if system is None:
            yield from _listed(None, np.column_stack((first, second)), query)
        else:
            yield PairDifferences(first, second, _block_differences(system, block, held))


def _block_differences(system: PairSystem, block: PairBlock, held: Index) -> Array:
    """The update of `_one_system`, and (ii) of pair_systems.py for the pairs of each line."""
    on, (b, s), n = backend_of(system.y), block.rows.shape, system.laplacian.n
    P, a = system.of_lines(block.rows)
    side = np.repeat(np.arange(len(block.sizes)), block.sizes)  # the level of each column
    same = (side[:, None] == side).astype(float)
    d = n - np.array(block.sizes, float)
    E = (held / (d * (d + held)))[side] * (np.eye(s) - same / n)
    P, a = _split(on.solve(on.array(np.eye(s)) - P @ on.array(E), _join(P, a)), s)
    # Sums over the level of each row, divided by its d n, which is now larger.
    over_level = on.array(same / ((d + held)[side] * n)[:, None])
    Z, f = over_level @ P, system.y[block.rows.ravel()] + (over_level @ a).reshape(b * s, -1)

    def entries(M: Array, rows: Index, columns: Index) -> Array:
        return on.contiguous(M.reshape(b * s, s)[rows, columns % s])

    i, j, every = block.first, block.second, np.arange(b * s)
    factors = tuple(
        1.0 + entries(Z, here, here) - entries(Z, there, here) for here, there in ((i, j), (j, i))
    )
    a, diagonal = on.contiguous(a.reshape(b * s, -1)), entries(P, every, every)
    return listed_differences(entries(P, i, j), diagonal, f, a, i, j, factors)


def _join(P: Array, a: Array) -> Array:
    joined: Array = backend_of(P).xp.concatenate((P, a), axis=2)
    return joined


def _split(both: Array, s: int) -> tuple[Array, Array]:
    return both[:, :, :s], both[:, :, s:]


def _one_system_is_faster(query: Conditional, level: Index, pairs: Index | None) -> bool:
    """Whether blocks of two levels take fewer operations than a system for each pair of levels.

    The one system exists if every level leaves others at least one row, without two rows.
    """
    sizes = np.bincount(level)
    if sizes.max() >= len(level) - 2:
        return False
    if pairs is None:
        size, times = np.unique(sizes, return_counts=True)
        both = (size[:, None] + size).ravel()
        count = (times[:, None] * times - np.diag(times)).ravel() / 2
    else:
        p, q = np.unique(np.sort(level[pairs], axis=1), axis=0).T
        both = sizes[p] + np.where(p == q, 0, sizes[q])
        count = np.ones(len(both))
    n = width = len(level)
    if query.features is not None:
        width = min(n, query.features.shape[1] + len(sizes))
    blocks = (count * (1e4 + 5.0 * both.astype(np.float64) ** 3)).sum()
    return bool(blocks < (count.sum() - 1.0) * (1e7 + 2.0 * n * width**2))


def group_pairs(
    query: Conditional,
    labels: Array,
    loss: Loss,
    lams: Sequence[float],
    pairs: Index,
    groups: QueryGroups,
) -> Iterator[tuple[int, PairDifferences]]:
    """Predictions for listed pairs of rows of different groups, by fits without both groups.

    With the index of the lam of each block of pairs. There is a factorization for each number of
    rows that are left or, without tied pairs, for each set of numbers that the labels have left.
    """
    names, level = np.unique(labels, return_inverse=True)
    counts = np.zeros((groups.n_groups, len(names)), np.intp)
    np.add.at(counts, (groups.codes, level), 1)
    both, of_pair = _sets_of_pairs(groups, pairs)
    left = np.asarray(counts.sum(axis=0) - counts[both].sum(axis=1))
    _check_rest(left, both, groups)
    all_count = loss.ties == "include" or len(names) == len(labels)
    kinds, of_kind = np.unique(
        left.sum(axis=1)[:, None] if all_count else left, axis=0, return_inverse=True
    )
    for k, kind in enumerate(kinds):
        blocks = list(_blocks(groups, pairs[of_kind.ravel()[of_pair] == k]))
        for a, lam in enumerate(lams):
            if all_count:
                system = ranking_system(query, loss, lam, int(kind[0]))
            else:
                system = _level_system(query, level, kind, loss, lam)
            for block in blocks:
                first, second = block.pairs()
                if system is None:
                    f = backend_of(query.target).zeros(block.rows.size, query.target.shape[1])
                else:
                    f = system.without(block.rows).reshape(block.rows.size, -1)
                yield a, PairDifferences(first, second, f[block.first] - f[block.second])


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


class PairBlock(NamedTuple):
    """Lines with the rows of two sets of the same sizes, or of one, and pairs of rows in them.

    `first` and `second` are positions in ``rows.ravel()``.
    """

    rows: Index
    sizes: tuple[int, ...]
    first: Index
    second: Index

    def pairs(self) -> tuple[Index, Index]:
        """The rows of the pairs."""
        flat = self.rows.ravel()
        return flat[self.first], flat[self.second]


def _blocks(sets: QueryGroups, pairs: Index | None) -> Iterator[PairBlock]:
    """Listed pairs, or all pairs of different sets, in blocks of sets of the same sizes."""
    if pairs is not None:
        yield from _blocks_of(sets, *_sets_of_pairs(sets, pairs), pairs)
        return
    step = max(1, LIST_PAIRS // sets.n_groups)
    for start in range(0, sets.n_groups, step):
        later = np.arange(sets.n_groups) > np.arange(start, sets.n_groups)[:step, None]
        p, q = np.nonzero(later)
        yield from _blocks_of(sets, np.column_stack((p + start, q)), None, None)


def _sets_of_pairs(sets: QueryGroups, pairs: Index) -> tuple[Index, Index]:
    """The two sets of listed pairs, without repetitions, and which of them each pair has."""
    both, of_pair = np.unique(np.sort(sets.codes[pairs], axis=1), axis=0, return_inverse=True)
    return both, of_pair.ravel()


def _blocks_of(
    sets: QueryGroups, both: Index, of_pair: Index | None, pairs: Index | None
) -> Iterator[PairBlock]:
    position = np.empty(sets.n_rows, np.intp)
    position[sets.order] = np.arange(sets.n_rows) - np.repeat(sets.indptr[:-1], sets.sizes)
    sizes = sets.sizes[both]
    sizes[both[:, 0] == both[:, 1], 1] = 0
    kinds, of_kind = np.unique(sizes, axis=0, return_inverse=True)
    if of_pair is not None:
        by_pair = np.argsort(of_pair, kind="stable")
        ends = np.searchsorted(of_pair[by_pair], np.arange(len(both) + 1))
    for k in np.argsort(kinds.sum(axis=1), kind="stable"):
        n_p, n_q = kinds[k].tolist()
        s, members = n_p + n_q, np.flatnonzero(of_kind.ravel() == k)
        step = max(1, BLOCK_ENTRIES // s**2)
        for start in range(0, len(members), step):
            part = both[members[start : start + step]]
            starts = sets.indptr[part]
            rows = sets.order[starts[:, :1] + np.arange(n_p)]
            rows = np.hstack((rows, sets.order[starts[:, 1:] + np.arange(n_q)]))
            if pairs is None:
                line = np.arange(len(part))[:, None] * s
                i, j = np.repeat(np.arange(n_p), n_q), n_p + np.tile(np.arange(n_q), n_p)
                first, second = (line + i).ravel(), (line + j).ravel()
            else:
                chosen = members[start : start + step]
                listed = np.concatenate([by_pair[ends[m] : ends[m + 1]] for m in chosen])
                line = np.repeat(np.arange(len(part)), ends[chosen + 1] - ends[chosen])
                second_set = sets.codes[pairs[listed]] != part[line, :1]
                columns = position[pairs[listed]] + np.where(second_set, n_p, 0)
                first, second = (line[:, None] * s + columns).T
            yield PairBlock(rows, (n_p, n_q) if n_q else (n_p,), first, second)
