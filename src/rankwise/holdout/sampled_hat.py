"""Ridge regression with an intercept: P of some of its rows, for many mu.

This covers one global ranking whose pairs all count, as in `rankwise.holdout.folds.ridge_folds`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import backend_of
from rankwise.graph.query_graph import QueryGraph
from rankwise.holdout.leave_query_out import lifted_root_kernel
from rankwise.holdout.pair_systems import centred, on_diagonal
from rankwise.solvers.band import BandForm
from rankwise.solvers.moments import CentredMoments


class SampledRows(NamedTuple):
    """P and P y of some rows of a regression at one mu, where P is as in pair_systems.py."""

    P: Array
    a: Array


def feature_sample(
    moments: CentredMoments, F: Array, y: Array, mus: Sequence[float]
) -> Iterator[SampledRows]:
    """P = I - 11'/n - F V diag(1 / (s + mu)) V'F' for some rows F, from the moments of all n rows.

    `y` has the labels of these rows, less the mean of all labels. One eigendecomposition.
    """
    on = backend_of(F)
    s, V = on.eigh(on.copy(moments.A))
    V, s = on.contiguous(V), s.clip(min=0.0)
    W = on.matmul(on.contiguous(F - moments.F_mean), V)
    products = V.T @ moments.b.reshape(len(s), -1)
    for mu in mus:
        shrunk = W / (s + mu)
        P = on.matmul(-shrunk, W.T) - 1.0 / moments.n_rows
        yield SampledRows(on_diagonal(P, on.zeros(len(P)) + 1.0), y - shrunk @ products)


def kernel_sample(
    kernel: Array, y: Array, some: Index, mus: Sequence[float]
) -> Iterator[SampledRows]:
    """mu (K + mu I)^-1 on some rows, without the constant vector; `y` is centred.

    The eigenvalue of the constant vector, which is 0, is raised to the size of the others, as in
    `DenseP`. For the cost, see `last_rows`.
    """
    K = centred(backend_of(y).copy(kernel))
    n, scale = len(K), float(abs(K.diagonal()).max())
    K += scale / n
    for mu, (N, z) in zip(mus, last_rows(K, y, some, mus), strict=True):
        yield SampledRows(mu * N - mu / (mu + scale) / n, mu * z)


def kernel_query_residuals(
    K: Array, graph: QueryGraph, y: Array, folds: Sequence[Index], lams: Sequence[float]
) -> Iterator[Array]:
    """y - f for the rows of folds, by fits without their fold, up to a constant in each query.

    See `dual_folds`. Only the diagonal block of the rows of all folds is needed; K is overwritten.
    """
    on, t = backend_of(K), graph.root_target(y)
    some, ends = np.concatenate(folds), np.cumsum([len(fold) for fold in folds])
    parts = [slice(end - len(fold), end) for fold, end in zip(folds, ends, strict=True)]
    for N, z in last_rows(lifted_root_kernel(K, graph), t, some, lams):
        v = on.zeros(*t.shape)
        for fold, part in zip(folds, parts, strict=True):
            v[fold] = on.solve(N[part, part], z[part])
        yield graph.root_inverse(v)[some]


def last_rows(
    M: Array, t: Array, some: Index, lams: Sequence[float]
) -> Iterator[tuple[Array, Array]]:
    """(N[some][:, some], (N t)[some]) for N = (M + lam I)^-1 and each lam.

    Without the other rows, M + lam I becomes its Schur complement S, and N[some][:, some] is S^-1.
    For r other rows, r^3/3 + r^2 n flops give S by a Cholesky factorization; for many lam, these
    rows are reduced to band form once, and r n^2 flops give S. Raises `LinAlgError` if M + lam I is
    not definite.
    """
    on, n = backend_of(M), len(some)
    rest = np.setdiff1d(np.arange(len(M)), some)
    own = on.xp.hstack((M[some[:, None], some], t[some]))
    other = on.contiguous(on.xp.hstack((M[rest[:, None], some], t[rest])))
    for lam, half in zip(lams, _halves(M[rest[:, None], rest], other, lams), strict=True):
        gram = on.add_gram(on.zeros(n + t.shape[1], n + t.shape[1]), half)
        left = own - on.mirror_upper(gram)[:n]
        N = on.inverse_definite(on.contiguous(left[:, :n]), lam)
        if N is None:
            raise _indefinite()
        yield N, on.matmul(N, on.contiguous(left[:, n:]))


def _halves(M: Array, Z: Array, lams: Sequence[float]) -> Iterator[Array]:
    """C^-1 Z for each lam, with some C C' = M + lam I up to a rotation of Z; M is overwritten."""
    on = backend_of(M)
    if len(M) == 0:
        yield from (Z for _ in lams)
        return
    if on.is_host and len(lams) > on.reduction_cost:
        form = BandForm.of(M)
        rotated = form.rotate(Z)
        yield from (form.solve_half(rotated, lam) for lam in lams)
        return
    diagonal = on.copy(M.diagonal())
    for lam in lams:
        on.diagonal(M)[:] = diagonal + lam
        factor = on.cholesky(M)
        if factor is None:
            raise _indefinite()
        yield on.contiguous(on.solve_triangular(factor, Z))


def _indefinite() -> np.linalg.LinAlgError:
    return np.linalg.LinAlgError("The kernel is not positive semidefinite.")
