"""Errors of held-out pairs for many permutations of the labels, from one hat matrix."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

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
    y = Y - labels[:, 0].mean()
    two_labels = len(np.unique(labels[:, 0])) == 2
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
            if not on.is_host:
                _agreement_on_device(u, v, start, ends, Y, f, r, agreement)
            elif two_labels and len(M) == hat.n:
                agreement = _two_label_agreement(u, v, ends, Y, f, r, compared)
            else:
                arguments = (u, v, start, ends, _huge(Y), f, r)
                _in_columns(permuted_loops.add_agreement, arguments, agreement)
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


def _huge(Y: Array) -> Array:
    """Labels times a power of two, which keeps different ones different."""
    exponent = int(np.frexp(np.abs(Y[:, 0]).max())[1])
    return np.asarray(Y * 2.0 ** min(HUGE - exponent, 1023))


def _two_label_agreement(
    u: Array, v: Array, ends: Index, y: Array, f: Array, r: Array, compared: int
) -> Array:
    """Pairs in the right order less those in the wrong order, from the rows of the rarer label."""
    (low, high), counts = np.unique(y[:, 0], return_counts=True)
    chosen, sign = (high, 1.0) if counts[1] <= counts[0] else (low, -1.0)
    starts = np.searchsorted(ends, ends)
    wins = np.empty(y.shape[1])
    _in_columns(permuted_loops.count_wins, (u, v, starts, ends, y, chosen, f, r), wins)
    return sign * (wins - compared)


def _in_columns(loop: Callable[..., None], arguments: tuple[Any, ...], out: Array) -> None:
    """Threads run a loop on blocks of columns, so that sums do not depend on their number."""
    lows = range(0, len(out), COLUMNS)

    def run(low: int) -> None:
        loop(*arguments, low, min(low + COLUMNS, len(out)), out)

    with ThreadPoolExecutor(min(os.cpu_count() or 1, len(lows))) as pool:
        list(pool.map(run, lows))


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
