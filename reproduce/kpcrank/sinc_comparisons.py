"""The sinc comparisons of the KPCRank paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SincComparisons:
    """Pairs of points on a line, with the difference of their sinc values.

    Rows of `pairs` are row numbers of X, the preferred one first; margins are positive.
    """

    X_train: Floats
    pairs_train: NDArray[np.int64]
    margin_train: Floats
    X_test: Floats
    pairs_test: NDArray[np.int64]
    margin_test: Floats


def make_sinc_comparisons(
    random_state: int,
    *,
    n_train_pairs: int = 379,
    n_test_pairs: int = 48,
    noise: float = 0.0,
    flipped: float = 0.0,
) -> SincComparisons:
    """Points of [-4, 4] compared by sinc(x) = sin(πx) / (πx), with margins sinc(x) - sinc(x').

    Training and test points are drawn from 2,000 equidistant points, and pairs from all pairs of
    each set. Pairs with equal scores, such as x and -x, are left out. `flipped` is the share of
    training pairs that are swapped, with unchanged margin (0.05 in Fig. 1, left, of the paper);
    `noise` is the standard deviation of normal noise on the training margins, where a pair whose
    margin becomes negative is swapped.

    Section 6.2 of Tsivtsivadze et al., Kernel principal component ranking.
    """
    rng = np.random.default_rng(random_state)
    points = rng.permutation(np.linspace(-4, 4, 2000))
    x_train, x_test = points[:1000], points[1000:1338]
    pairs_train, margin_train = _compare(np.sinc(x_train), n_train_pairs, rng)
    pairs_test, margin_test = _compare(np.sinc(x_test), n_test_pairs, rng)
    if noise > 0:
        margin_train = margin_train + noise * rng.normal(size=n_train_pairs)
    swapped = margin_train < 0
    swapped[rng.choice(n_train_pairs, round(flipped * n_train_pairs), replace=False)] ^= True
    pairs_train[swapped] = pairs_train[swapped, ::-1]
    return SincComparisons(
        x_train[:, None],
        pairs_train,
        np.abs(margin_train),
        x_test[:, None],
        pairs_test,
        margin_test,
    )


def _compare(
    score: Floats, n_pairs: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], Floats]:
    """Distinct pairs of rows with different scores, the better one first, and the differences."""
    n = len(score)
    n_all = n * (n - 1) // 2
    # Fewer than n + 28 pairs are tied: x and -x, and the zeros at the eight nonzero integers.
    drawn = rng.choice(n_all, min(n_all, n_pairs + n + 28), replace=False)
    # Pair k = j (j - 1) / 2 + i has the rows i < j; the square root may be off by one.
    j = ((1 + np.sqrt(1 + 8.0 * drawn)) / 2).astype(np.int64)
    j -= j * (j - 1) // 2 > drawn
    j += j * (j + 1) // 2 <= drawn
    i = drawn - j * (j - 1) // 2
    difference = score[i] - score[j]
    different = np.flatnonzero(np.abs(difference) > 1e-12)[:n_pairs]
    i, j, difference = i[different], j[different], difference[different]
    first, second = np.where(difference > 0, i, j), np.where(difference > 0, j, i)
    return np.column_stack([first, second]), np.abs(difference)
