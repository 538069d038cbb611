"""Errors of held-out pairs for many permutations of the labels, from one hat matrix."""

from __future__ import annotations

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError
from rankwise.holdout.hat import Hat
from rankwise.holdout.held_out_pairs import check_pairs, one_ranking
from rankwise.holdout.hold_out_problem import HoldOutProblem, explained_rounding, lost_in_rounding
from rankwise.holdout.leave_pair_out import ranking_hat
from rankwise.holdout.pair_choice import PairChoice
from rankwise.holdout.pair_differences import pair_inverse

BLOCK_VALUES = 2**17  # differences computed at a time: they stay in the cache


def shares_hat(problem: HoldOutProblem) -> bool:
    """Whether the hat matrix does not depend on the labels: one ranking, tied pairs included."""
    return problem.groups.n_groups == 1 and problem.loss.ties == "include"


def permuted_errors(problem: HoldOutProblem, units: Index) -> Array:
    """Shares of pairs in the wrong order, shape (n_alphas, n_columns of y).

    Every column is a permutation of the others within `units`, so that all have the same number of
    pairs with different labels.
    """
    check_pairs(problem, 0, PairChoice(None, keep_ties=False))
    query, on = one_ranking(problem, 0), backend_of(problem.y)
    order = np.argsort(units, kind="stable")  # the rows of a unit are adjacent
    ends = np.searchsorted(units[order], units[order], side="right")
    labels, compared = problem.labels[order, 0], 0
    for i, end in enumerate(ends):
        compared += int(np.count_nonzero(labels[i + 1 : end] != labels[i]))
    if compared == 0:
        raise DataError("No pair with different labels was held out. Check the labels and strata.")
    y = on.contiguous(problem.y - problem.y.mean(axis=0))
    sorted_y = y[order]
    out = np.empty((len(problem.alphas), y.shape[1]))
    for a, lam in enumerate(problem.lams):
        with explained_rounding():
            hat = ranking_hat(query, problem.loss, lam)
        f = hat.fit(y)
        if not on.is_finite(f):
            raise lost_in_rounding()
        f = f[order]
        r, agreement, diagonal = sorted_y - f, on.zeros(y.shape[1]), hat.diagonal
        step = max(1, BLOCK_VALUES // y.shape[1])
        for i, end in enumerate(ends):
            for start in range(i + 1, end, step):
                part = slice(start, min(start + step, end))
                slopes = _slopes(hat, diagonal, order[i], order[part])
                agreement += _agreement(i, part, *slopes, sorted_y, f, r)
        out[a] = 0.5 * (1.0 - to_host(agreement) / compared)
    return out


def _slopes(hat: Hat, diagonal: Array, i: int, j: Index) -> tuple[Array, Array]:
    """u and v such that f_i - f_j without both rows is less by u r_i + v r_j."""
    c = 1.0 / hat.n
    m_ij = hat.entries(np.full(len(j), i), j)
    m_ii, m_jj = diagonal[i], diagonal[j]
    stored, other = (m_ij, m_ii, m_jj), (-c - m_ij, 1.0 - c - m_ii, 1.0 - c - m_jj)
    (h_ij, h_ii, h_jj), (q_ij, q_ii, q_jj) = (stored, other) if hat.is_hat else (other, stored)
    s_ii, s_jj, s_ij = pair_inverse(q_ii, q_jj, q_ij)
    return (
        (h_ii - h_ij) * s_ii + (h_ij - h_jj) * s_ij,
        (h_ii - h_ij) * s_ij + (h_ij - h_jj) * s_jj,
    )


def _agreement(i: int, j: slice, u: Array, v: Array, y: Array, f: Array, r: Array) -> Array:
    """Pairs (i, j) in the right order less those in the wrong order, for each column."""
    on = backend_of(y)
    difference = f[i] - u[:, None] * r[i]
    difference -= f[j]
    difference -= v[:, None] * r[j]
    difference *= y[i] - y[j]
    right, wrong = (
        signs.sum(axis=0, dtype=on.xp.int32) for signs in (difference > 0, difference < 0)
    )
    return on.array(right) - on.array(wrong)
