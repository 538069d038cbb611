"""Which pair to ask next."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from rankwise.asking.item_scores import MANY, Scores
from rankwise.backends.arrays import Array, Index

_NEIGHBOURS = 40  # of many items, only pairs of those that are close in the ranking are candidates
_ROUNDS = 8  # in which the worth of all pairs is computed
_SKIPPED = 0.25  # how a skip lowers the worth of a pair
Pair = tuple[int, int]


def pair(i: int, j: int) -> Pair:
    """A pair of items in either order."""
    return (i, j) if i < j else (j, i)


def choose_pairs(
    scores: Scores,
    n_pairs: int,
    *,
    slips: float,
    weights: Array | None = None,
    skips: dict[Pair, int] | None = None,
    taken: Iterable[Pair] = (),
    excluded: Iterable[Pair] = (),
    rng: np.random.Generator,
) -> list[Pair]:
    """The most useful pairs, the best first.

    The worth of a pair is the information that its answer gives about the scores (`bald`), times
    the weights of its two items, times 1/4 for each time that it was skipped. After each choice
    the covariance shrinks as it will after an answer, whatever that will be, and so it does for
    `taken`, the pairs that others are looking at, which are not chosen. Of many pairs, a few are
    chosen at a time, without an item in common; of many items, all at once.

    Parameters
    ----------
    scores : Scores
    n_pairs : int
    slips : float
        The share of answers that are slips.
    weights : ndarray of shape (n_items,), optional
        How much each item matters to the goal.
    skips : dict, optional
        How often pairs were skipped.
    taken : iterable of pairs, optional
    excluded : iterable of pairs, optional
        Pairs that are not chosen for another reason.
    rng : Generator
        Breaks ties.

    Returns
    -------
    list of pairs
        Fewer than `n_pairs` if there are no more.
    """
    from rankwise.estimators.pair_strategies import bald

    mean, n = scores.mean, len(scores.mean)
    pairs = _candidates(mean, rng)
    i, j = pairs.T
    keys = i * n + j
    worth = 1.0 + 1e-6 * rng.random(len(pairs))
    if weights is not None:
        worth *= weights[i] + weights[j]
    for (a, b), times in (skips or {}).items():
        worth[keys == a * n + b] *= _SKIPPED**times
    taken = list(taken)
    left = ~np.isin(keys, [a * n + b for a, b in (*taken, *excluded)])
    for held in taken:
        scores = scores.compared(*held)
    chosen: list[Pair] = []
    at_once = n_pairs if n > MANY else 1 + n_pairs // _ROUNDS
    while len(chosen) < n_pairs and left.any():
        information = bald(mean[i] - mean[j], scores.variance(i, j), 1.0, slips)
        value = np.where(left, (information + 1e-12) * worth, -1.0)
        for _ in range(min(at_once, n_pairs - len(chosen))):
            best = int(np.argmax(value))
            if value[best] < 0.0:
                break
            left[best] = False
            a, b = int(i[best]), int(j[best])
            chosen.append((a, b))
            scores = scores.compared(a, b)
            value[(i == a) | (j == a) | (i == b) | (j == b)] = -1.0
    return chosen


def _candidates(mean: Array, rng: np.random.Generator) -> Index:
    """All pairs, or of many items those close in the ranking, the smaller number first."""
    n = len(mean)
    if n <= MANY:
        return np.column_stack(np.triu_indices(n, 1))
    order = np.lexsort((rng.random(n), -mean))
    steps = [np.column_stack((order[:-k], order[k:])) for k in range(1, _NEIGHBOURS + 1)]
    return np.sort(np.concatenate(steps), axis=1)


def close_pair(mean: Array, excluded: Collection[Pair], rng: np.random.Generator) -> Pair | None:
    """A random pair of those closest in the ranking, for when nothing was chosen ahead.

    None if all pairs are excluded.
    """
    order = np.lexsort((rng.random(len(mean)), -mean))
    for gap in range(1, len(mean)):
        for start in rng.permutation(len(mean) - gap):
            found = pair(int(order[start]), int(order[start + gap]))
            if found not in excluded:
                return found
    return None
