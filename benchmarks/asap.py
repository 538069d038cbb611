"""ASAP's choice of pairs (Mikhailiuk et al., 2020, arXiv 2004.05691), written plainly.

Scores are independent Gaussians, found by message passing (Minka's algorithm for Thurstone's
model, as in TrueSkill). The worth of a pair is the expected Kullback-Leibler divergence from the
present scores to those after its answer, where all messages are passed again for each possible
answer. A batch is the spanning tree of all items with the greatest worth. O(n^2 t) for each batch
after t answers: for a few items only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

PRIOR = 2.0  # variance of scores, in units of the noise of an answer
SWEEPS = 3


def posterior(n: int, answers: list[tuple[int, int]], start: Any = None) -> Any:
    """Means, variances and messages after answers (winner, loser)."""
    precision, weighted = np.full(n, 1.0 / PRIOR), np.zeros(n)
    messages = np.zeros((len(answers), 2, 2))  # precision and precision times mean, of both items
    if start is not None:
        messages[: len(start)] = start
        for (i, j), message in zip(answers, start, strict=False):
            for item, (p, w) in zip((i, j), message, strict=True):
                precision[item] += p
                weighted[item] += w
    for _ in range(SWEEPS):
        for k, (i, j) in enumerate(answers):
            outside = [(precision[x] - p, weighted[x] - w) for x, (p, w) in
                       zip((i, j), messages[k], strict=True)]  # fmt: skip
            (mi, vi), (mj, vj) = ((w / p, 1.0 / p) for p, w in outside)
            spread = math.sqrt(1.0 + vi + vj)
            z = (mi - mj) / spread
            h = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) / (0.5 * math.erfc(-z / 2**0.5))
            shrink = h * (h + z)
            for side, (x, m, v, sign) in enumerate(((i, mi, vi, 1.0), (j, mj, vj, -1.0))):
                mean = m + sign * v / spread * h
                variance = max(v * (1.0 - v / spread**2 * shrink), 1e-9)
                p, w = 1.0 / variance - outside[side][0], mean / variance - outside[side][1]
                messages[k, side] = p, w
                precision[x], weighted[x] = outside[side][0] + p, outside[side][1] + w
    return weighted / precision, 1.0 / precision, messages


def divergence(m0: Any, v0: Any, m1: Any, v1: Any) -> float:
    """KL(N(m1, v1) || N(m0, v0)), summed over items."""
    return float(0.5 * (v1 / v0 + (m1 - m0) ** 2 / v0 - 1.0 - np.log(v1 / v0)).sum())


def choose_batch(n: int, answers: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The n - 1 pairs of the spanning tree with the greatest expected information."""
    mean, variance, messages = posterior(n, answers)
    worth = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1, n):
            spread = math.sqrt(1.0 + variance[i] + variance[j])
            p = 0.5 * math.erfc(-(mean[i] - mean[j]) / spread / 2**0.5)
            for share, won in ((p, (i, j)), (1.0 - p, (j, i))):
                m, v, _ = posterior(n, [*answers, won], messages)
                worth[i, j] += share * divergence(mean, variance, m, v)
    tree = minimum_spanning_tree(np.where(worth > 0, 1.0 / np.maximum(worth, 1e-12), 0.0))
    return [(int(i), int(j)) for i, j in zip(*tree.nonzero(), strict=True)]
