"""Conjugate gradients for (A + lam I) w = b and any number of lam, from products with A alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError

BLOCK_BYTES = 2**18  # of a vector: its updates are made while it is in cache
DRIFT = 2.0  # times the tolerance: a larger true residual is reduced by a restart
CHECKED_COLUMNS = 16  # whose true residuals are computed together

Apply = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class ShiftedSolutions:
    """Solutions for each lam.

    Attributes
    ----------
    solutions : list of arrays, the shape of b each
        In the order of the given lam; or ``observe(w)``.
    residuals : ndarray of shape (n_lams,)
        |b - (A + lam I) w| / |b|, the largest of all columns.
    n_iter : int
        The number of steps: products with A, apart from checks.
    """

    solutions: list[Array]
    residuals: Array
    n_iter: int


def shifted_cg(
    apply: Apply,
    b: Array,
    lams: Sequence[float],
    *,
    tol: float,
    max_iter: int,
    observe: Apply | None = None,
) -> ShiftedSolutions:
    """(A + lam I)^-1 b for each lam, from one Krylov space.

    Started at 0, conjugate gradients for the smallest lam and for a larger one search the same
    spaces, and their residuals are multiples of each other. Each further lam therefore takes two
    vectors and their updates, but no product with A (Frommer and Maass, 1999). The multiples are at
    most 1: larger lam are solved earlier.

    In exact arithmetic, residuals are orthogonal. Rounding errors destroy this, which delays
    convergence, and the recurrences drift from the true residuals. These are therefore computed in
    the end, and a lam for which they are too large is continued from where it is.

    Parameters
    ----------
    apply : callable
        A P for a matrix P of columns, with A symmetric and positive semidefinite.
    b : array of shape (n, n_columns)
    lams : sequence of float, at least 0
    tol : float
        Stop when |b - (A + lam I) w| <= tol |b| in every column.
    max_iter : int
    observe : callable, optional
        A linear function of columns. With it, ``observe(w)`` is computed instead of w, in memory
        of its size, and true residuals are not checked.

    References
    ----------
    Frommer, Maass: Fast CG-based methods for Tikhonov-Phillips regularization. SIAM Journal on
    Scientific Computing 20, 1999.
    """
    on = backend_of(b)
    scale = on.xp.amax(abs(b), axis=0)
    if not on.is_finite(scale):
        raise _overflow()
    b = b / on.xp.where(scale > 0, scale, 1.0)  # squares neither overflow nor underflow
    goal = tol * on.xp.sqrt((b * b).sum(axis=0))
    order = np.argsort(np.asarray(lams, dtype=np.float64), kind="stable")
    ascending = np.asarray(lams, dtype=np.float64)[order]
    found = _run(apply, b, ascending, goal, max_iter, observe)
    W, residuals, n_iter = found
    if observe is None:
        residuals, n_iter = _refine(apply, b, ascending, goal, max_iter, found)
    start = on.xp.sqrt((b * b).sum(axis=0))
    relative = residuals / on.xp.where(start > 0, start, 1.0)
    W *= scale
    place: Index = np.argsort(order)
    largest = np.asarray(to_host(relative)).max(axis=1)
    return ShiftedSolutions([W[k] for k in place.tolist()], largest[place], n_iter)


def _run(
    apply: Apply, b: Array, lams: Array, goal: Array, max_iter: int, observe: Apply | None
) -> tuple[Array, Array, int]:
    """Solutions from 0 for ascending lams, norms of their residuals, and the number of steps.

    With the residual r of the smallest lam, the residual of lam + shift is r_s = size r. The
    ratios of successive sizes are between 0 and 1, so that nothing overflows.
    """
    on = backend_of(b)
    n_lams, n_columns = len(lams), b.shape[1]
    shift = on.array(lams - lams[0]).reshape(-1, 1)
    r, p = on.copy(b), on.copy(b)
    image = b if observe is None else observe(b)
    own = 1 if observe is None else 0  # the direction of the smallest lam is p itself
    W = on.zeros(n_lams, *image.shape)
    D = on.empty(n_lams - own, *image.shape)
    for k in range(n_lams - own):
        D[k] = image
    del image
    gamma = (r * r).sum(axis=0)
    size, ratio = on.zeros(n_lams, n_columns) + 1.0, on.zeros(n_lams, n_columns) + 1.0
    residuals = size * on.xp.sqrt(gamma)
    blocks = _blocks(b)
    before = on.zeros(n_columns)  # beta / a of the previous step
    n_iter = 0
    while n_iter < max_iter:
        n_open = _number_open(residuals, goal)
        if n_open == 0:
            break
        q = apply(p)
        curvature = on.zeros(n_columns)
        for rows in blocks:
            q[rows] += lams[0] * p[rows]
            curvature += on.xp.einsum("ij,ij->j", p[rows], q[rows])
        if not on.is_finite(curvature):
            raise _overflow()
        # A column whose residual is 0 stays as it is.
        moves = (curvature > 0) & (gamma > 0)
        if not bool(moves.any()):
            break
        a = on.xp.where(moves, gamma / on.xp.where(moves, curvature, 1.0), 0.0)
        after, steps = on.zeros(n_columns), _in_rows(a, blocks)
        for rows in blocks:
            r[rows] -= steps[: len(r[rows])] * q[rows]
            after += on.xp.einsum("ij,ij->j", r[rows], r[rows])
            if own:
                W[0, rows] += steps[: len(r[rows])] * p[rows]
        del q
        beta = on.xp.where(moves, after / on.xp.where(moves, gamma, 1.0), 0.0)
        ratio[:n_open] = 1.0 / (1.0 + a * shift[:n_open] + a * before * (1.0 - ratio[:n_open]))
        size[:n_open] *= ratio[:n_open]
        _advance(
            W[own:n_open],
            D[: n_open - own],
            r if observe is None else observe(r),
            (a * ratio)[own:n_open],
            (beta * ratio**2)[own:n_open],
            size[own:n_open],
        )
        keep = _in_rows(beta, blocks)
        for rows in blocks:
            p[rows] *= keep[: len(p[rows])]
            p[rows] += r[rows]
        before = on.xp.where(moves, beta / on.xp.where(moves, a, 1.0), 0.0)
        gamma = after
        residuals[:n_open] = size[:n_open] * on.xp.sqrt(gamma)
        n_iter += 1
    return W, residuals, n_iter


def _number_open(residuals: Array, goal: Array) -> int:
    """The number of unsolved lams, which are the smallest."""
    unsolved = np.flatnonzero(np.asarray(to_host((residuals > goal).any(axis=1))))
    return int(unsolved[-1]) + 1 if len(unsolved) else 0


def _blocks(columns: Array) -> list[slice]:
    """Blocks of rows that stay in cache while several operations use them."""
    step = max(1, backend_of(columns).block_bytes(BLOCK_BYTES) // (8 * columns.shape[1]))
    return [slice(k, min(k + step, len(columns))) for k in range(0, len(columns), step)]


def _in_rows(factors: Array, blocks: Sequence[slice]) -> Array:
    """A factor for each column, in every row of a block: NumPy is slow at short rows."""
    return backend_of(factors).zeros(blocks[0].stop, len(factors)) + factors


def _advance(W: Array, D: Array, image: Array, a: Array, beta: Array, size: Array) -> None:
    """W <- W + a D and D <- size image + beta D, some rows at a time for all lams."""
    blocks = _blocks(image)
    factors = [[_in_rows(of[k], blocks) for of in (a, beta, size)] for k in range(len(W))]
    for rows in blocks if len(W) else []:
        part = image[rows]
        for k, (along, keep, new) in enumerate(factors):
            W[k, rows] += along[: len(part)] * D[k, rows]
            D[k, rows] *= keep[: len(part)]
            D[k, rows] += new[: len(part)] * part


def _refine(
    apply: Apply,
    b: Array,
    lams: Array,
    goal: Array,
    max_iter: int,
    found: tuple[Array, Array, int],
) -> tuple[Array, int]:
    """True residuals, after restarts where rounding errors have left them too large."""
    W, claimed, n_iter = found
    on = backend_of(b)
    residuals = on.zeros(*claimed.shape)
    together = max(1, CHECKED_COLUMNS // b.shape[1])
    for start in range(0, len(lams), together):
        part = range(start, min(start + together, len(lams)))
        columns = on.contiguous(on.xp.hstack([W[k] for k in part]))
        products = apply(columns)
        for k in part:
            AW = products[:, (k - start) * b.shape[1] : (k - start + 1) * b.shape[1]]
            rest = b - AW - lams[k] * W[k]
            norm = on.xp.sqrt((rest * rest).sum(axis=0))
            while n_iter < max_iter and bool((norm > DRIFT * goal).any()):
                more, _, steps = _run(apply, rest, lams[k : k + 1], goal, max_iter - n_iter, None)
                w = W[k] + more[0]
                rest = b - apply(w) - lams[k] * w
                last, norm = norm, on.xp.sqrt((rest * rest).sum(axis=0))
                n_iter += steps
                if steps == 0 or not bool((norm < 0.5 * last).any()):
                    norm = last
                    break
                W[k] = w
            residuals[k] = norm
    return residuals, n_iter


def _overflow() -> DataError:
    return DataError(
        "Products of feature values overflow. Scale the features, for example with "
        "sklearn.preprocessing.StandardScaler."
    )


def is_solved(found: ShiftedSolutions, tol: float) -> Any:
    """Which lams are solved to a tolerance, up to rounding errors of the residuals."""
    return found.residuals <= DRIFT * tol


def unsolved_residual(found: ShiftedSolutions, tol: float) -> float | None:
    """The largest residual of the lams that are not solved; None if all are."""
    solved = is_solved(found, tol)
    return None if solved.all() else float(found.residuals[~solved].max())
