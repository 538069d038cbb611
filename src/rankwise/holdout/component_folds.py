"""Hold-outs on fixed components, for every number of components at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import backend_of
from rankwise.holdout.pair_differences import add_losses, block_differences
from rankwise.solvers.nested_least_squares import Triangle

BLOCK_BYTES = 8 * 2**20  # of a hat matrix computed at a time


def component_folds(
    F: Array,
    Z: Array,
    t: Array,
    folds: Sequence[Index],
    lams: Sequence[float],
    noise: Array,
    free: int = 0,
) -> Array:
    """Predictions for every fold by a fit without it, shape (n_lams, n_rows, p, n_outputs).

    Entry [:, :, j] uses j + 1 components. Z = R F and t = R y are the rows of the least-squares
    problem, with the same folds as F. The first `free` columns (an intercept) are always used, are
    not penalized, and do not count as components.

    O(m p^2 log k) time for k folds, and for each lam O(m p^2) and p^3 / 3 for each fold.
    """
    on = backend_of(F)
    out = on.empty(len(lams), len(F), F.shape[1] - free, t.shape[1])
    for k, triangle in triangles_without(Z, t, folds):
        rows = F[folds[k]]
        for f, lam in zip(out, lams, strict=True):
            f[folds[k]] = triangle.scores(rows, lam, noise, free)[:, free:]
    return out


def triangles_without(Z: Array, t: Array, folds: Sequence[Index]) -> Iterator[tuple[int, Triangle]]:
    """(k, the triangle of all folds but k), for every k.

    Removing rows from a triangle would lose accuracy. Instead, folds are bisected recursively, and
    the rows of each half are added to the triangle of the other.
    """
    p, n_outputs = Z.shape[1], t.shape[1]

    def visit(first: int, last: int, outside: Triangle) -> Iterator[tuple[int, Triangle]]:
        if last - first == 1:
            yield first, outside
            return
        middle = (first + last) // 2
        for mine, other in (((first, middle), (middle, last)), ((middle, last), (first, middle))):
            rows = np.concatenate(folds[slice(*other)])
            yield from visit(*mine, outside.with_rows(Z[rows], t[rows]))

    yield from visit(0, len(folds), Triangle.empty(p, n_outputs, backend_of(Z)))


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
