"""Errors of held-out pairs for many permutations of the labels, from one hat matrix."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.holdout import permuted_loops
from rankwise.holdout.conditional import Conditional
from rankwise.holdout.held_out_pairs import check_pairs, one_ranking
from rankwise.holdout.hold_out_problem import HoldOutProblem, explained_rounding, lost_in_rounding
from rankwise.holdout.leave_pair_out import ranking_hat
from rankwise.holdout.pair_choice import PairChoice
from rankwise.holdout.pair_differences import block_slopes

BLOCK_VALUES = 2**17  # differences computed at a time on a device
COLUMNS = 128  # permutations at a time in a compiled loop: their rows stay in the cache
HUGE = 996  # labels are multiplied by a power of two to about 2^996: products give signs


def permuted(labels: Array, units: QueryGroups, n: int, rng: np.random.Generator) -> Array:
    """The labels, and n random permutations of them within units: shape (n_rows, 1 + n)."""
    keys = rng.random((len(labels), n))
    columns = np.repeat(labels[units.order][:, None], n + 1, axis=1)
    permuted_loops.shuffle_columns(columns, keys, units.indptr)
    if units.contiguous:
        return columns
    out = np.empty_like(columns)
    out[units.order] = columns
    return out


def shares_hat(problem: HoldOutProblem) -> bool:
    """Whether the hat matrix does not depend on the labels: one ranking, in which all pairs count.

    Without tied pairs, this is so if there are none.
    """
    labels = problem.labels[:, 0]
    all_count = problem.loss.ties == "include" or len(np.unique(labels)) == len(labels)
    return problem.groups.n_groups == 1 and all_count


def permuted_errors(problem: HoldOutProblem, labels: Array, units: QueryGroups) -> Array:
    """Shares of pairs in the wrong order, shape (n_alphas, n_columns of labels).

    Pairs are held out within `units`. Every column of `labels` is a permutation of the others
    within them, so that all have the same number of pairs with different labels.
    """
    check_pairs(problem, 0, PairChoice(None, keep_ties=False))
    compared, ends = compared_pairs(labels[:, 0], units), np.repeat(units.indptr[1:], units.sizes)
    query, on = _in_order(one_ranking(problem, 0), units), backend_of(problem.y)
    Y = on.array(labels if units.contiguous else labels[units.order])
    exponent = int(np.frexp(np.abs(labels[:, 0]).max())[1])
    y, signs = Y - labels[:, 0].mean(), Y * 2.0 ** (HUGE - exponent)
    out = np.empty((len(problem.alphas), y.shape[1]))
    for a, lam in enumerate(problem.lams):
        with explained_rounding():
            hat = ranking_hat(query, problem.loss, lam)
        f = hat.fit(y)
        if not on.is_finite(f):
            raise lost_in_rounding()
        r, agreement, diagonal = y - f, on.zeros(y.shape[1]), hat.diagonal
        for start, M in hat.blocks():
            u, v = block_slopes(M, hat.is_hat, hat.n, start, diagonal)
            count = _count_agreement if on.is_host else _agreement_on_device
            count(u, v, start, ends, signs, f, r, agreement)
        out[a] = 0.5 * (1.0 - to_host(agreement) / compared)
    return out


def compared_pairs(labels: Array, units: QueryGroups) -> int:
    """The number of pairs with different labels in the same unit, which must not be 0."""
    names, codes = np.unique(labels, return_inverse=True)
    same = np.unique(units.codes * len(names) + codes, return_counts=True)[1]
    compared = int((units.sizes**2).sum() - (same**2).sum()) // 2
    if compared == 0:
        raise DataError("No pair with different labels was held out. Check the labels and strata.")
    return compared


def _in_order(query: Conditional, units: QueryGroups) -> Conditional:
    """The rows unit by unit."""
    if units.contiguous:
        return query
    on, rows = backend_of(query.target), units.order
    kernel = None if query.kernel is None else on.contiguous(query.kernel[rows][:, rows])
    features = None if query.features is None else query.features[rows]
    return replace(query, target=query.target[rows], kernel=kernel, features=features)


def _count_agreement(
    u: Array, v: Array, start: int, ends: Index, y: Array, f: Array, r: Array, agreement: Array
) -> None:
    """Threads count blocks of columns, so that sums do not depend on their number."""
    lows = range(0, y.shape[1], COLUMNS)

    def count(low: int) -> None:
        high = min(low + COLUMNS, y.shape[1])
        permuted_loops.add_agreement(u, v, start, ends, y, f, r, low, high, agreement)

    n_threads = min(os.cpu_count() or 1, len(lows))
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(count, lows))


def _agreement_on_device(
    u: Array, v: Array, start: int, ends: Index, y: Array, f: Array, r: Array, agreement: Array
) -> None:
    """The same with array expressions, for one row and some others at a time."""
    on = backend_of(y)
    step = max(1, on.block_bytes(8 * BLOCK_VALUES) // (8 * y.shape[1]))
    for row in range(len(u)):
        i = start + row
        for low in range(i + 1, int(ends[i]), step):
            j = slice(low, min(low + step, int(ends[i])))
            columns = slice(j.start - start, j.stop - start)
            difference = f[i] - u[row, columns, None] * r[i]
            difference = difference - (f[j] - v[row, columns, None] * r[j])
            agreement += on.xp.sign(difference * (y[i] - y[j])).sum(axis=0)
