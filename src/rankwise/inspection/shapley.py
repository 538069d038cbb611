"""Shapley values: in closed form for products, by all subsets for a few players, or sampled.

A game has players, and a value v(S) for every set S of them. The Shapley value of player j is

    phi_j = sum_S |S|! (d - 1 - |S|)! / d! (v(S + j) - v(S))

over the sets S of the d - 1 other players. The values of all players sum to v(all) - v(none).
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index

CELLS = 2**21  # numbers in memory at a time
MOST_ENUMERATED = 10  # players, whose subsets are all evaluated

Values = Callable[[NDArray[np.bool_], Index], Array]
"""v(S) for sets S, the players in each row that are True, and the number of the sample of each."""


def of_products(P: Array, Q: Array, weights: Array) -> Array:
    """Shapley values of v(S) = sum_r w_r prod_{j in S} P_rj prod_{j not in S} Q_rj.

    The weight of a set is the integral of t^|S| (1 - t)^(d - 1 - |S|) from 0 to 1, so

        phi_j = sum_r w_r (P_rj - Q_rj) int prod_{i != j} (t P_ri + (1 - t) Q_ri) dt.

    The integrand is a polynomial of degree d - 1, and the Gauss-Legendre rule with d / 2 nodes
    (rounded up) is exact. All its weights are positive: for factors of at least 0, nothing cancels
    within a product. O(m d^2) time for m products of d factors.

    Parameters
    ----------
    P, Q : ndarray of shape (n_products, n_players)
    weights : ndarray of shape (n_products,)

    Returns
    -------
    ndarray of shape (n_players,)

    Examples
    --------
    >>> import numpy as np
    >>> of_products(np.array([[2.0, 3.0]]), np.array([[1.0, 1.0]]), np.ones(1))
    array([2., 3.])
    """
    m, d = P.shape
    found = np.zeros(d)
    if d == 0 or m == 0:
        return found
    nodes, masses = np.polynomial.legendre.leggauss(-(-d // 2))
    nodes, masses = (1.0 + nodes) / 2.0, masses / 2.0
    gaps, at = np.ascontiguousarray((P - Q).T), np.ascontiguousarray(Q.T)
    step = max(1, CELLS // (m * d))
    for start in range(0, len(nodes), step):
        t, mass = nodes[start : start + step, None], masses[start : start + step, None]
        before = np.empty((d, len(t), m))  # the product of the factors before each player
        before[0] = mass * weights
        for j in range(d - 1):
            np.multiply(before[j], at[j] + t * gaps[j], out=before[j + 1])
        behind = np.ones((len(t), m))
        for j in range(d - 1, -1, -1):
            found[j] += np.einsum("tm,tm,m->", before[j], behind, gaps[j])
            behind *= at[j] + t * gaps[j]
    return found


def enumerated(value: Values, d: int) -> Array:
    """Shapley values from the values of all 2^d sets of d players."""
    sets = (np.arange(2**d)[:, None] >> np.arange(d)) & 1 == 1
    v, size = value(sets, np.zeros(len(sets), dtype=np.intp)), sets.sum(axis=1)
    found = np.empty(d)
    for j in range(d):
        without = np.flatnonzero(~sets[:, j])
        weight = 1.0 / (d * np.array([comb(d - 1, int(s)) for s in size[without]]))
        found[j] = weight @ (v[without + 2**j] - v[without])
    return found


def sampled(value: Values, d: int, n_samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Shapley values from random orders of the players, and their variances.

    In each order, players join one by one, and each gets the change of the value. Orders come in
    pairs, one the reverse of the other, which cancels most of the noise. The values of every pair
    sum to v(all) - v(none), and so do the means.
    """
    n_pairs = max(2, -(-n_samples // 2))
    changes = np.empty((n_pairs, d))
    step = max(1, CELLS // (4 * (d + 1) * d))
    for start in range(0, n_pairs, step):
        rows = slice(start, min(start + step, n_pairs))
        orders = rng.permuted(np.tile(np.arange(d), (rows.stop - start, 1)), axis=1)
        both = np.concatenate((orders, orders[:, ::-1]))
        place = np.argsort(both, axis=1)
        sets = place[:, None, :] < np.arange(d + 1)[:, None]
        numbers = np.repeat(np.tile(np.arange(rows.start, rows.stop), 2), d + 1)
        v = value(sets.reshape(-1, d), numbers).reshape(len(both), d + 1)
        change = np.take_along_axis(np.diff(v, axis=1), place, axis=1)
        changes[rows] = (change[: len(orders)] + change[len(orders) :]) / 2.0
    return changes.mean(axis=0), changes.var(axis=0, ddof=1) / n_pairs
