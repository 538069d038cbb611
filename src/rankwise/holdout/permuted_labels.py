"""Errors of held-out pairs for many permutations of the labels, from one hat matrix."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.backends.threads import map_in_threads
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.holdout import permuted_loops
from rankwise.holdout.conditional import Conditional
from rankwise.holdout.held_out_pairs import check_pairs, one_ranking
from rankwise.holdout.hold_out_problem import (
    HoldOutProblem,
    explained_rounding,
    largest_size,
)
from rankwise.holdout.leave_pair_out import ranking_hat
from rankwise.holdout.pair_differences import block_slopes
from rankwise.holdout.plans import Pairs
from rankwise.holdout.rounding import lost_in_rounding

BLOCK_VALUES = 2**17  # differences computed at a time on a device
KEYS = 2**14  # random numbers drawn at a time
COLUMNS = 128  # permutations at a time in a compiled loop: their rows stay in the cache
SHORT_ROUNDING = 2.0**-20  # of differences of two products in single precision: over 10 * 2^-24
SHORT_SLOPE = 2.0**60  # with larger ones, single precision could overflow
PADDING = 32  # numbers of single precision in the steps of a compiled loop
HUGE = 996  # labels are multiplied by a power of two to about 2^996: products give signs


def permuted(labels: Array, units: QueryGroups, n: int, rng: np.random.Generator) -> Array:
    """The labels, and n random permutations of them within units: shape (n_rows, 1 + n)."""
    rows, starts = labels[units.order], np.repeat(units.indptr[:-1], units.sizes)
    columns = np.empty((len(rows), 1 + n))
    columns[:, 0] = rows
    keys = np.empty((min(len(rows), max(1, KEYS // n)), n))
    for start in range(0, len(rows), len(keys)):
        keys = keys[: len(rows) - start]
        rng.random(out=keys)
        permuted_loops.shuffle_rows(rows, starts, keys, start, columns)
    if units.contiguous:
        return columns
    out = np.empty_like(columns)
    out[units.order] = columns
    return out


def standard_labels(labels: Array) -> Array:
    """The labels, or, if there are two, numbers with a mean of 0: which ones does not matter."""
    names = np.unique(labels)
    return labels if len(names) != 2 else (labels == names[1]) - np.mean(labels == names[1])


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
    within them, so that all have the same number of pairs with different labels. Two labels are
    those of `standard_labels`.
    """
    check_pairs(problem, 0, Pairs(None, keep_ties=False))
    compared, ends = compared_pairs(labels[:, 0], units), np.repeat(units.indptr[1:], units.sizes)
    query, on = _in_order(one_ranking(problem, 0), units), backend_of(problem.y)
    Y = on.array(labels if units.contiguous else labels[units.order])
    names, counts = np.unique(labels[:, 0], return_counts=True)
    two_labels = len(names) == 2
    y = Y if two_labels else Y - labels[:, 0].mean()
    out = np.empty((len(problem.alphas), y.shape[1]))
    for a, lam in enumerate(problem.lams):
        with explained_rounding():
            hat = ranking_hat(query, problem.loss, lam)
        f, r = hat.fit(y)
        if not on.is_finite(f):
            raise lost_in_rounding()
        agreement, diagonal = on.zeros(y.shape[1]), hat.diagonal
        for start, M in hat.blocks():
            u, v = block_slopes(M, hat.is_hat, hat.n, start, diagonal)
            if not on.is_host:
                _agreement_on_device(u, v, start, ends, Y, f, r, agreement)
            elif two_labels and len(M) == hat.n:
                agreement = _two_label_agreement(u, v, ends, y, names, counts, f, r, compared)
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
    u: Array,
    v: Array,
    ends: Index,
    y: Array,
    names: Array,
    counts: Index,
    f: Array,
    r: Array,
    compared: int,
) -> Array:
    """Pairs in the right order less those in the wrong order, from the rows of the rarer label."""
    chosen, sign = (names[1], 1.0) if counts[1] <= counts[0] else (names[0], -1.0)
    starts, wins = np.searchsorted(ends, ends), np.empty(y.shape[1])
    padded = -(-len(u) // PADDING) * PADDING
    short = np.zeros((2, len(u), padded), np.float32)
    slope, margin = max(largest_size(u), largest_size(v)), np.inf
    if slope < SHORT_SLOPE:
        short[:, :, : len(u)] = u, v
        margin = SHORT_ROUNDING * (largest_size(f) + slope * largest_size(r))
    arguments = (u, v, *short, starts, ends, y, chosen, f, r, margin)
    _in_columns(permuted_loops.count_wins, arguments, wins)
    return sign * (wins - compared)


def _in_columns(loop: Callable[..., None], arguments: tuple[Any, ...], out: Array) -> None:
    """Threads run a loop on blocks of columns, so that sums do not depend on their number."""
    lows = range(0, len(out), COLUMNS)

    def run(low: int) -> None:
        loop(*arguments, low, min(low + COLUMNS, len(out)), out)

    map_in_threads(run, lows, min(os.cpu_count() or 1, len(lows)))


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
