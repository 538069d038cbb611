"""Hold-outs on fixed components, for every number of components at once."""

from __future__ import annotations

from collections.abc import Iterator

from rankwise.backends.arrays import Array
from rankwise.backends.dispatch import backend_of
from rankwise.holdout.pair_differences import add_losses, block_differences

BLOCK_BYTES = 8 * 2**20  # of a hat matrix computed at a time


def component_pair_losses(
    F: Array, eigenvalues: Array, y: Array, mu: float
) -> Iterator[tuple[Array, Array]]:
    """(loss, compared) of every row over its held-out pairs in one ranking, for every p.

    Components are centred and uncorrelated, so p components have
    P = I - 11'/m - sum_{l <= p} F_l F_l' / (s_l + mu), with one more term for each p (see
    pair_systems.py). O(m^2) time for each p, 16 MiB of memory.
    """
    (m, p), on = F.shape, backend_of(F)
    U = on.contiguous((F / on.xp.sqrt(eigenvalues + mu)).T).T  # column-major
    y_centred = y - y.mean(axis=0)
    diagonal, a, products = on.zeros(m) + (1.0 - 1.0 / m), y_centred, U.T @ y_centred
    loss, compared = on.zeros(p, *y.shape), on.zeros(p, *y.shape)
    step = max(1, on.block_bytes(BLOCK_BYTES) // (8 * m))
    diagonals, weights = on.empty(p, m), on.empty(p, *y.shape)
    for k in range(p):
        diagonal = diagonal - U[:, k] ** 2
        a = a - on.xp.outer(U[:, k], products[k])
        diagonals[k], weights[k] = diagonal, a
    for start in range(0, m, step):
        stop = min(start + step, m)
        P = on.zeros(stop - start, m - start) - 1.0 / m
        for k in range(p):
            P -= on.xp.outer(U[start:stop, k], U[start:, k])
            pairs = block_differences(P, start, diagonals[k], y_centred, weights[k])
            add_losses(*pairs, y, loss[k], compared[k])
    yield from zip(loss, compared, strict=True)
