"""Exact hold-outs of folds of rows in ridge regression with an intercept.

This covers RLS, and also RankRLS on one global ranking: its loss on the n remaining rows is w n
times the squared errors at the optimal intercept. So RankRLS at lam is ridge regression at
mu = lam / (w n), with predictions that omit the intercept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.backends.dispatch import backend_of
from rankwise.holdout.hat import DenseHat, FeatureHat
from rankwise.holdout.leave_query_out import (
    MomentSpectrum,
    Rescaling,
    is_resolved,
    solve_without,
)
from rankwise.solvers.ridge_path import GRAM_MARGIN, diagonal_floor

Strength = Callable[[float, int], float]  # (lam, rows left) -> mu


def kernel_ridge_folds(
    K: Array,
    y: Array,
    folds: Sequence[Index],
    lams: Sequence[float],
    strength: Strength,
    *,
    add_intercept: bool,
    shift: Array | None = None,
) -> Array:
    """Predictions for every fold by a fit without it, shape (n_lams, n_rows, n_outputs).

    With Q = mu (Kc + mu I)^-1 on centred vectors and r = Q y, the residuals of fold U are
    e = Q_UU^-1 r_U, and the dual weights are (r - Q_U e) / mu. See `Coordinates` for `shift`.

    Cost: one inverse for each lam and each number of remaining rows, and the sum of |U|^3.
    """
    m, on = len(y), backend_of(K)
    level = y.mean(axis=0)
    y = y - level
    out = on.empty(len(lams), *y.shape)
    for f, lam in zip(out, lams, strict=True):
        for mu, same in _by_strength(folds, m, lam, strength):
            hat = DenseHat.of(on.copy(K), mu)
            Q = _residual_matrix(hat)
            r = on.matmul(Q, y)
            for fold in (folds[k] for k in same):
                e = on.solve(Q[fold[:, None], fold], r[fold])
                if add_intercept:
                    f[fold] = y[fold] - e + level
                else:
                    a = (r - Q[:, fold] @ e) / mu
                    f[fold] = K[fold] @ a if shift is None else K[fold] @ a + shift @ a
    return out


def feature_ridge_folds(
    F: Any,
    y: Array,
    folds: Sequence[Index],
    lams: Sequence[float],
    strength: Strength,
    *,
    add_intercept: bool,
    rescaling: Rescaling | None = None,
) -> Array:
    """Like `kernel_ridge_folds`, from features: systems of size |U| or n_features.

    See `primal_folds` for lams below the rounding errors of the features, and for `rescaling`.
    """
    m, on = len(y), backend_of(F)
    X = on.rows(F, slice(None))
    centre, level = X.mean(axis=0), y.mean(axis=0)
    X, t = X - centre, y - level
    out = on.empty(len(lams), *y.shape)
    chosen = None
    if rescaling is None and add_intercept and max(len(fold) for fold in folds) < X.shape[1]:
        rounding_limit, spectrum = GRAM_MARGIN * diagonal_floor((X**2).sum(axis=0)), None
        lost = set()
        for f, lam in zip(out, lams, strict=True):
            for mu, same in _by_strength(folds, m, lam, strength):
                if mu > rounding_limit:
                    hat, least = FeatureHat.of(X, mu), 0.0
                else:
                    if spectrum is None:
                        spectrum = MomentSpectrum.of(on.matmul(X.T, X), on.matmul(X.T, t))
                    hat = FeatureHat(on.matmul(X, spectrum.V / on.xp.sqrt(spectrum.divisors(mu))))
                    least = spectrum.least_resolved(mu)
                _, r = hat.fit(t)
                for k in same:
                    U = hat.U[folds[k]]
                    Q = on.array(np.eye(len(U))) - 1.0 / m - U @ U.T
                    if is_resolved(Q, least):
                        f[folds[k]] = y[folds[k]] - on.solve(Q, r[folds[k]])
                    else:
                        lost.add(k)
        if not lost:
            return out
        chosen = sorted(lost)
    # The intercept is the weight of an additional feature, which is not penalized.
    Z = on.array(on.xp.hstack((X, on.zeros(m, 1) + 1.0)))
    scales = None
    if rescaling is not None:
        scales = np.column_stack((rescaling.deviations, np.ones(len(folds))))
        centre = centre + on.array(rescaling.offset)
    strengths = np.array([[strength(lam, m - len(fold)) for lam in lams] for fold in folds])

    def keep(fold: Index, weights: Array) -> None:
        if add_intercept:
            out[:, fold] = Z[fold] @ weights + level
        else:
            out[:, fold] = (X[fold] + centre) @ weights[:, :-1]

    solve_without(Z, t, folds, strengths, keep, intercept=True, chosen=chosen, scales=scales)
    return out


def _by_strength(
    folds: Sequence[Index], m: int, lam: float, strength: Strength
) -> list[tuple[float, list[int]]]:
    """Positions of folds by mu: those with as many remaining rows share a factorization."""
    groups: dict[float, list[int]] = {}
    for k, fold in enumerate(folds):
        groups.setdefault(strength(lam, m - len(fold)), []).append(k)
    return list(groups.items())


def _residual_matrix(hat: DenseHat) -> Array:
    """C - H."""
    if not hat.is_hat:
        return hat.M
    Q = -hat.M - 1.0 / hat.n
    backend_of(Q).diagonal(Q)[:] += 1.0
    return Q
