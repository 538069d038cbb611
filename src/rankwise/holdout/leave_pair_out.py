"""Exact hold-outs of every pair of a query, in O(1) time for each pair."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import backend_of
from rankwise.holdout.conditional import Conditional
from rankwise.holdout.hat import DenseHat, FeatureHat, Hat
from rankwise.holdout.level_blocks import BaseSystem, Levels
from rankwise.holdout.levels import (
    DenseLevels,
    FeatureLevels,
    LevelSystem,
    lifted_kernel,
)
from rankwise.holdout.pair_differences import (
    block_differences,
    level_differences,
    listed_differences,
)
from rankwise.problem import Loss

LIST_PAIRS = 2**18  # listed pairs processed at a time


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
    n = len(query.rows)
    distinct = len(np.unique(labels)) == n
    if loss.ties == "include" or distinct:  # with distinct labels, all pairs count
        parts = _all_pairs_count(query, loss, lam, pairs)
    else:
        parts = _ties_excluded(query, labels, loss, lam, pairs)
    for first, second, difference in parts:
        before = query.prediction[first] - query.prediction[second]
        rows = query.rows if isinstance(first, np.ndarray) else backend_of(first).index(query.rows)
        yield PairDifferences(rows[first], rows[second], before + difference)


def _all_pairs_count(
    query: Conditional, loss: Loss, lam: float, pairs: Index | None
) -> Iterator[PairDifferences]:
    """With the hat matrix H on all n rows, holding out two of them is a 2 by 2 system."""
    n, on = len(query.rows), backend_of(query.target)
    left = n - 2
    if left < 2:
        first, second = np.triu_indices(n, 1) if pairs is None else pairs.T
        yield _nothing_learned(first, second, query.target)
        return
    hat = ranking_hat(query, loss, lam)
    y = query.target - query.target.mean(axis=0)
    f, r = hat.fit(on.contiguous(y))
    if pairs is None:
        for start, M in hat.blocks():
            yield PairDifferences(*block_differences(M, hat.is_hat, n, start, hat.diagonal, f, r))
        return
    for first, second in _chunks(pairs):
        entries = hat.entries(first, second)
        out = listed_differences(entries, hat.is_hat, n, hat.diagonal, f, r, first, second)
        yield PairDifferences(first, second, out)


def ranking_hat(query: Conditional, loss: Loss, lam: float, left: int | None = None) -> Hat:
    """The rows that are left define ridge regression with an intercept, at lam / (w left).

    Its hat matrix on all n rows, of which two are held out unless `left` is given.
    """
    n = len(query.rows)
    left = n - 2 if left is None else left
    mu = lam / (query.weight * loss.weight(left, left * (left - 1) // 2) * left)
    if query.features is not None and query.features.shape[1] < n:
        return FeatureHat.of(query.features, mu)
    return DenseHat.of(query.stored_kernel(), mu)


def _ties_excluded(
    query: Conditional, labels: Array, loss: Loss, lam: float, pairs: Index | None
) -> Iterator[PairDifferences]:
    """From one system for all levels, or from one for each pair of levels if they are few."""
    level = np.unique(labels, return_inverse=True)[1]
    levels = Levels.of(level)
    # The base system exists if the rows that remain leave pairs to every level.
    if levels.degrees.min() > 0 and _one_is_faster(query, levels, level, pairs):
        yield from _one_system(query, levels, level, loss, lam, pairs)
    else:
        yield from _systems_of_levels(query, level, loss, lam, pairs)


def _one_system(
    query: Conditional,
    levels: Levels,
    level: Index,
    loss: Loss,
    lam: float,
    pairs: Index | None,
) -> Iterator[PairDifferences]:
    """Pairs of levels differ in few rows from a base system; see level_blocks.py.

    If the weight of a query depends on the number of its pairs, there is a base system for each of
    these numbers.
    """
    n = len(level)
    total = (n**2 - (levels.sizes**2).sum()) // 2
    features = query.features
    if features is not None and features.shape[1] >= n:
        features = None
    system, of_system = None, 0.0
    parts = levels.all_pairs() if pairs is None else levels.listed_pairs(pairs, level)
    for part in parts:
        n_pairs = int(total - levels.lost_pairs(part.sizes))
        effective = lam / (query.weight * loss.weight(n - 2, n_pairs))
        if system is None or effective != of_system:
            kernel = query.stored_kernel() if features is None else None
            system = BaseSystem.of(levels, effective, query.target, kernel, features)
            of_system = effective
        first, second = (part.rows[part.block, side] for side in (part.first, part.second))
        yield PairDifferences(first, second, system.differences(part))


def _systems_of_levels(
    query: Conditional, level: Index, loss: Loss, lam: float, pairs: Index | None
) -> Iterator[PairDifferences]:
    """Pairs of two levels at a time, since all of them leave the same numbers of rows per level."""
    sizes, basis = np.bincount(level), level_basis(query)
    y = backend_of(query.target).contiguous(query.target - query.target.mean(axis=0))
    for (p, q), first, second in _by_levels(level, len(sizes), pairs):
        left = sizes.copy()
        left[p] -= 1
        left[q] -= 1
        if np.count_nonzero(left) < 2:
            if pairs is None:
                first, second = np.repeat(first, len(second)), np.tile(second, len(first))
            yield _nothing_learned(first, second, y)
            continue
        system = level_system(basis, level, left, lam, query.weight, loss)
        yield from _level_differences(system, y, first, second, grid=pairs is None)


class LevelBasis(NamedTuple):
    """What the systems of levels are made of: few features, or a kernel matrix."""

    features: Array | None
    kernel: Array | None


def level_basis(query: Conditional) -> LevelBasis:
    """Centred features or kernel: constants do not matter."""
    if query.features is not None and query.features.shape[1] < len(query.rows):
        return LevelBasis(query.features - query.features.mean(axis=0), None)
    return LevelBasis(None, lifted_kernel(query.stored_kernel()))


def level_system(
    basis: LevelBasis, level: Index, left: Index, lam: float, weight: float, loss: Loss
) -> LevelSystem:
    """The system for any held-out rows without which the levels have `left` rows."""
    n_pairs = (left.sum() ** 2 - (left**2).sum()) // 2
    effective = lam / (weight * loss.weight(int(left.sum()), int(n_pairs)))
    if basis.features is not None:
        return FeatureLevels.of(basis.features, level, left, effective)
    assert basis.kernel is not None
    return DenseLevels.of(basis.kernel, level, left, effective)


def _one_is_faster(query: Conditional, levels: Levels, level: Index, pairs: Index | None) -> bool:
    """Whether blocks of two levels take fewer operations than further systems of all rows."""
    if pairs is None:
        size, times = np.unique(levels.sizes, return_counts=True)
        both = (size[:, None] + size).ravel()
        count = (times[:, None] * times - np.diag(times)).ravel() / 2
    else:
        p, q = np.unique(np.sort(level[pairs], axis=1), axis=0).T
        both = levels.sizes[p] + np.where(p == q, 0, levels.sizes[q])
        count = np.ones(len(both))
    n = width = len(level)
    if query.features is not None:
        width = min(n, query.features.shape[1] + len(levels.sizes))
    blocks = (count * (1e4 + 5.0 * both.astype(np.float64) ** 3)).sum()
    return bool(blocks < (count.sum() - 1.0) * (1e7 + 3.0 * n * width**2))


def _by_levels(
    level: Index, n_levels: int, pairs: Index | None
) -> Iterator[tuple[tuple[int, int], Index, Index]]:
    """((p, q), first, second): all rows of levels p < q, or the listed pairs between them."""
    if pairs is None:
        for p, q in combinations(range(n_levels), 2):
            yield (p, q), np.flatnonzero(level == p), np.flatnonzero(level == q)
        return
    ordered = np.sort(level[pairs], axis=1)
    for p, q in np.unique(ordered, axis=0):
        chosen = pairs[(ordered == (p, q)).all(axis=1)]
        yield (p, q), np.ascontiguousarray(chosen[:, 0]), np.ascontiguousarray(chosen[:, 1])


def _level_differences(
    system: LevelSystem, y: Array, first: Index, second: Index, *, grid: bool
) -> Iterator[PairDifferences]:
    """Differences for listed pairs, or for every row of `first` with every row of `second`."""
    a, f = system.weights(y), system.predictions(y)
    P, H = system.P_diagonal, system.H_diagonal
    step = max(1, LIST_PAIRS // len(second)) if grid else LIST_PAIRS
    for start in range(0, len(first), step):
        part = slice(start, start + step)
        if grid:
            entries = system.product(first[part], second)
            i, j = np.repeat(first[part], len(second)), np.tile(second, len(first[part]))
        else:
            i, j = first[part], second[part]
            entries = system.listed(i, j)
        yield PairDifferences(i, j, level_differences(*entries, P, H, a, f, i, j))


def _nothing_learned(first: Index, second: Index, y: Array) -> PairDifferences:
    """If no pair of the query is left, the prediction of the other queries does not change."""
    return PairDifferences(first, second, backend_of(y).zeros(len(first), y.shape[1]))


def _chunks(pairs: Index) -> Iterator[tuple[Index, Index]]:
    for start in range(0, len(pairs), LIST_PAIRS):
        first, second = pairs[start : start + LIST_PAIRS].T
        yield np.ascontiguousarray(first), np.ascontiguousarray(second)
