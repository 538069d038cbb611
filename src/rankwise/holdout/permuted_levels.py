"""Errors of held-out pairs for many permutations of the labels, without tied pairs.

The system depends on the labels. But permuting the labels is the same as permuting the rows of the
kernel matrix under labels that stay in place: levels and pairs are those of the given labels, and
the systems of many permutations are one stack of matrices.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.graph import QueryGroups
from rankwise.holdout.held_out_pairs import check_pairs, one_ranking
from rankwise.holdout.hold_out_problem import HoldOutProblem
from rankwise.holdout.levels import lifted_kernel, stacked_levels
from rankwise.holdout.pair_differences import level_differences
from rankwise.holdout.permuted_labels import compared_pairs
from rankwise.holdout.plans import Pairs
from rankwise.holdout.rounding import lost_in_rounding

MOST_ROWS = 256  # with more, a matrix is large enough for threads of its own
MOST_LEVELS = 5  # with more, one system for all pairs of levels is faster: see level_blocks.py
STACK_BYTES = 4 * 2**20  # of the matrices of a stack


def stacks(problem: HoldOutProblem) -> bool:
    """Whether permutations are held out in stacks: one short ranking with few different labels."""
    n_levels = len(np.unique(problem.labels[:, 0]))
    small = len(problem.y) <= MOST_ROWS and n_levels <= MOST_LEVELS
    return problem.groups.n_groups == 1 and small


def stacked_errors(problem: HoldOutProblem, labels: Array, units: QueryGroups) -> Array:
    """As `permuted_errors`, without tied pairs: shape (n_alphas, n_columns of labels).

    Raises LinAlgError if rounding errors are too large for the inverses.
    """
    check_pairs(problem, 0, Pairs(None, keep_ties=False))
    compared = compared_pairs(labels[:, 0], units)
    query, on = one_ranking(problem, 0), backend_of(problem.y)
    K, n = lifted_kernel(query.stored_kernel()), len(labels)
    # The row of each place and permutation: places are sorted by unit and label.
    rows = np.lexsort((labels, np.broadcast_to(units.codes[:, None], labels.shape)), axis=0)
    unit, y = units.codes[rows[:, 0]], labels[rows[:, 0], 0]
    level = np.unique(y, return_inverse=True)[1]
    sizes = np.bincount(level)
    targets = on.array(y - y.mean())[:, None]
    step = max(1, on.block_bytes(STACK_BYTES) // (8 * n**2))
    agreement = np.zeros((len(problem.alphas), labels.shape[1]))
    for p, q in combinations(range(len(sizes)), 2):
        first, second = np.nonzero((unit[:, None] == unit) & (level[:, None] == p) & (level == q))
        left = sizes.copy()
        left[[p, q]] -= 1
        n_pairs = int(left.sum() ** 2 - (left**2).sum()) // 2
        if len(first) == 0 or n_pairs == 0:  # without a pair to learn from, predictions are tied
            continue
        weight = query.weight * problem.loss.weight(n - 2, n_pairs)
        for start in range(0, labels.shape[1], step):
            part = slice(start, start + step)
            here = on.index(rows[:, part].T)
            stack = K[here[:, :, None], here[:, None, :]]
            for a, lam in enumerate(problem.lams):
                P, H = stacked_levels(stack, level, left, lam / weight)
                f = _differences(P, H, targets, first, second)
                if not on.is_finite(f):
                    raise lost_in_rounding()
                # The label of `first` is the smaller one.
                agreement[a, part] += to_host(-on.xp.sign(f).sum(axis=1))
    return np.asarray(0.5 * (1.0 - agreement / compared))


def _differences(P: Array, H: Array, y: Array, first: Index, second: Index) -> Array:
    """f(first) - f(second) with both held out, shape (n_stack, n_pairs)."""
    on, (b, n) = backend_of(P), P.shape[:2]

    def flat(values: Array) -> Array:
        return on.contiguous(values.reshape(b * n, -1))

    def pairs(M: Array, row: Index, column: Index) -> Array:
        return on.contiguous(M[:, row, column].reshape(-1))

    offset = n * np.arange(b)[:, None]
    found = level_differences(
        pairs(P, first, second),
        pairs(H, first, second),
        pairs(H, second, first),
        flat(P.diagonal(0, 1, 2))[:, 0],
        flat(H.diagonal(0, 1, 2))[:, 0],
        flat(P @ y),
        flat(H @ y),
        (offset + first).ravel(),
        (offset + second).ravel(),
    )
    return found.reshape(b, len(first))
