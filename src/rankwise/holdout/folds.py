"""Predictions for folds of a problem, each by a fit to the other rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index, as_given, backend_of, is_sparse
from rankwise.errors import DataError
from rankwise.holdout.hold_out_problem import HoldOutProblem
from rankwise.holdout.leave_query_out import Rescaling, dual_folds, primal_folds, solve_without
from rankwise.holdout.pair_systems import DenseP, Laplacian, LowRankP, centred
from rankwise.holdout.rounding import CLOSE, check_digits
from rankwise.kernels import Precomputed
from rankwise.problem import Coordinates, FeatureSpace, KernelSpace, Loss, Problem, Space
from rankwise.scaling import ColumnStandard

OUTLIER = 1e-3  # smallest deviation without a fold, relative to all rows, for sums of squares
RESCALED_FLOPS = 3e11  # of systems of single folds, about half a minute

Strength = Callable[[float, int], float]  # (lam, rows left) -> mu


def rescales(problem: HoldOutProblem, n_folds: int) -> bool:
    """Whether each fold is held out of the standardization of features as well.

    This needs linear functions, and a system for each fold, which must not take too long.
    """
    space, X = problem.problem.space, problem.problem.X
    if not isinstance(problem.scaling, ColumnStandard) or not space.linear:
        return False
    (m, d), n_lams = X.shape, len(problem.alphas)
    if space.direct_form(X) == "primal":
        flops = n_lams * d**3 / 3
    elif is_sparse(as_given(X)):
        return False
    else:
        flops = m**2 * d + n_lams * m**3
    return bool(n_folds * problem.n_tasks * flops <= RESCALED_FLOPS)


def predict_queries(problem: HoldOutProblem, folds: Sequence[Index]) -> Array:
    """Predictions for folds of whole queries, shape (n_alphas, n_rows, n_outputs)."""
    rescaling = _rescaling(problem, folds)
    if rescaling is not None and _is_dual(problem):
        return _refits(problem, folds, rescaling)
    if problem.loss.has_intercept:
        return _ridge_folds(problem, folds, rescaling, _same, add_intercept=True)
    check_folds(problem, folds)
    by_task = [_pairwise_folds(problem, k, folds, rescaling) for k in range(problem.n_tasks)]
    predictions: Array = backend_of(problem.y).xp.concatenate(by_task, axis=2)
    return predictions


def predict_rows(problem: HoldOutProblem, folds: Sequence[Index]) -> Array:
    """Predictions for folds of rows of one ranking, shape (n_alphas, n_rows, n_outputs)."""
    rescaling, loss = _rescaling(problem, folds), problem.loss
    if rescaling is not None and _is_dual(problem):
        return _refits(problem, folds, rescaling)
    if loss.has_intercept:
        return _ridge_folds(problem, folds, rescaling, _same, add_intercept=True)
    if loss.ties == "exclude":
        return _refits(problem, folds, rescaling)
    return _ridge_folds(
        problem, folds, rescaling, lambda lam, n: strength(loss, lam, n), add_intercept=False
    )


def strength(loss: Loss, lam: float, n_rows: int) -> float:
    """The mu of a ridge regression that equals one ranking of these rows at lam."""
    return lam / (loss.weight(n_rows, n_rows * (n_rows - 1) // 2) * n_rows)


def check_folds(problem: HoldOutProblem, folds: Sequence[Index]) -> None:
    """Each fold must leave a pair to learn from."""
    groups = problem.groups
    for task in problem.problem.tasks:
        has_pairs = task.graph.degrees > 0
        total = np.count_nonzero(has_pairs)
        for fold in folds:
            if np.count_nonzero(has_pairs[fold]) == total:
                name = groups.names[groups.codes[fold[np.argmax(has_pairs[fold])]]]
                raise DataError(
                    f"Without query {name} there is no pair to learn from. Add queries with "
                    "different labels, or use another kind of hold-out."
                )


def _pairwise_folds(
    problem: HoldOutProblem, task: int, folds: Sequence[Index], rescaling: Rescaling | None
) -> Array:
    graph, rows, y = problem.graph(task), problem.coordinates, problem.targets(task)
    if rows.kernel is not None:
        K = backend_of(y).copy(rows.kernel)
        return dual_folds(K, graph, y, folds, problem.lams, rows.shift)
    return primal_folds(rows.features, graph, y, folds, problem.lams, rescaling)


def _rescaling(problem: HoldOutProblem, folds: Sequence[Index]) -> Rescaling | None:
    if not rescales(problem, len(folds)):
        return None
    assert isinstance(problem.scaling, ColumnStandard)
    row_weights = problem.problem.row_weights
    return Rescaling.of(problem.problem.X, folds, row_weights, problem.scaling)


def _is_dual(problem: HoldOutProblem) -> bool:
    """Whether there are fewer rows than features: rescaled rows have another kernel matrix."""
    return problem.problem.space.direct_form(problem.problem.X) == "dual"


def _same(lam: float, n_left: int) -> float:
    return lam


def ridge_folds(
    rows: Coordinates,
    y: Array,
    folds: Sequence[Index],
    lams: Sequence[float],
    strength: Strength,
    *,
    add_intercept: bool,
    rescaling: Rescaling | None = None,
) -> Array:
    """Folds of rows of a ridge regression with an intercept, shape (n_lams, n_rows, n_outputs).

    This covers RLS, and also RankRLS on one global ranking: its loss on the n rows that are left is
    w n times the squared errors at the optimal intercept. Therefore RankRLS at lam is ridge
    regression at mu = ``strength(lam, n)`` = lam / (w n), with predictions that omit the intercept.

    From a kernel matrix, there is one inverse for each lam and each number of rows that are left,
    and a system of the size |U| of each fold. From features, systems have the size of the fold
    or the number of features.
    """
    longest = max(len(fold) for fold in folds)
    if rows.kernel is None and not (
        rescaling is None and add_intercept and longest < rows.features.shape[1]
    ):
        return _by_sums(
            rows.features,
            y,
            folds,
            lams,
            strength,
            add_intercept=add_intercept,
            rescaling=rescaling,
        )
    m, K, on = len(y), rows.kernel, backend_of(y)
    mean = y.mean(axis=0)
    t, out = on.contiguous(y - mean), on.empty(len(lams), *y.shape)
    if K is None:
        F = on.rows(rows.features, slice(None))
        F = F - F.mean(axis=0)
    laplacian = Laplacian.of_all_pairs(m, 1)  # lam / 1 is mu
    for f, lam in zip(out, lams, strict=True):
        for mu, same in _by_strength(folds, m, lam, strength):
            close = False
            if K is None:
                P: DenseP | LowRankP = LowRankP.of(F, laplacian, mu)
                close = mu < CLOSE * float((F**2).sum())
            else:
                P = DenseP.of(centred(on.copy(K)), laplacian, mu)
            a = P.times(t)
            for fold in same:
                block = P.block(fold)
                if close:
                    check_digits(1.0, float(on.eigh(on.copy(block))[0][0]))
                e = on.solve(block, a[fold])  # y - f of the fit without the fold
                if add_intercept:
                    f[fold] = t[fold] - e + mean
                else:
                    assert K is not None
                    a_rest = (a - P.dense()[:, fold] @ e) / mu
                    f[fold] = K[fold] @ a_rest
                    if rows.shift is not None:
                        f[fold] += rows.shift @ a_rest
    return out


def _by_sums(
    features: Any,
    y: Array,
    folds: Sequence[Index],
    lams: Sequence[float],
    strength: Strength,
    *,
    add_intercept: bool,
    rescaling: Rescaling | None,
) -> Array:
    """`ridge_folds` from the moments of all folds but one."""
    m, on = len(y), backend_of(features)
    X = on.rows(features, slice(None))
    centre, mean = X.mean(axis=0), y.mean(axis=0)
    out = on.empty(len(lams), *y.shape)
    # The intercept is the weight of an additional feature, which is not penalized.
    Z = on.array(on.xp.hstack((X - centre, on.zeros(m, 1) + 1.0)))
    scales = None
    if rescaling is not None:
        scales = np.column_stack((rescaling.deviations, np.ones(len(folds))))
        centre = centre + on.array(rescaling.offset)
    mus = np.array([[strength(lam, m - len(fold)) for lam in lams] for fold in folds])

    def keep(fold: Index, w: Array) -> None:
        if add_intercept:
            out[:, fold] = Z[fold] @ w + mean
        else:
            out[:, fold] = (Z[fold, :-1] + centre) @ w[:, :-1]

    solve_without(Z, y - mean, folds, mus, keep, intercept=True, scales=scales)
    return out


def _by_strength(
    folds: Sequence[Index], m: int, lam: float, strength: Strength
) -> list[tuple[float, list[Index]]]:
    """Folds by mu: folds that leave the same number of rows share a factorization."""
    groups: dict[float, list[Index]] = {}
    for fold in folds:
        groups.setdefault(strength(lam, m - len(fold)), []).append(fold)
    return list(groups.items())


def _ridge_folds(
    problem: HoldOutProblem,
    folds: Sequence[Index],
    rescaling: Rescaling | None,
    strength: Strength,
    *,
    add_intercept: bool,
) -> Array:
    out = ridge_folds(
        problem.coordinates,
        problem.y,
        folds,
        problem.lams,
        strength,
        add_intercept=add_intercept,
        rescaling=rescaling,
    )
    if rescaling is not None:
        # Far from the mean of the others, the sums of their squares and of the intercept cancel.
        far = np.flatnonzero(rescaling.deviations.min(axis=1) < OUTLIER)
        _refit_folds(problem, folds, rescaling, far, out)
    return out


def _refits(problem: HoldOutProblem, folds: Sequence[Index], rescaling: Rescaling | None) -> Array:
    """Refit without each fold, in the coordinates of all rows, rescaled if they can be."""
    out = backend_of(problem.y).empty(len(problem.alphas), *problem.y.shape)
    _refit_folds(problem, folds, rescaling, np.arange(len(folds)), out)
    return out


def _refit_folds(
    problem: HoldOutProblem,
    folds: Sequence[Index],
    rescaling: Rescaling | None,
    chosen: Index,
    out: Array,
) -> None:
    loss, groups, on = problem.loss, problem.groups, backend_of(problem.y)
    y = problem.by_output(problem.y)
    for k in chosen.tolist():
        fold = folds[k]
        rest = np.setdiff1d(np.arange(len(y)), fold)
        if rescaling is None:
            space, train, test = _refit_rows(problem, rest, fold)
        else:
            space, train, test = _rescaled_rows(problem, rest, fold, rescaling, k)
        tasks = loss.tasks(y[rest], groups.take(rest))
        loss.check_learnable([task.graph.n_pairs for task in tasks], len(rest), groups.n_groups)
        fit = Problem(train, tasks, loss, space).solve(problem.lams)
        for a, solution in enumerate(fit.solutions):
            scores = on.array(fit.basis.products(test, solution.weights)) + solution.intercept
            out[a, fold] = scores.reshape(len(fold), -1)


def _rescaled_rows(
    problem: HoldOutProblem, rest: Index, fold: Index, rescaling: Rescaling, k: int
) -> tuple[Space, Any, Any]:
    """A space, training rows and held-out rows, standardized without fold k."""
    X, on, scale = problem.problem.X, backend_of(problem.problem.X), rescaling.deviations[k]
    divisor = on.array(scale)
    offset = on.array(0.0 * scale if problem.loss.has_intercept else rescaling.offset)
    return FeatureSpace(), on.rows(X, rest) / divisor, (on.rows(X, fold) + offset) / divisor


def _refit_rows(problem: HoldOutProblem, rest: Index, fold: Index) -> tuple[Space, Any, Any]:
    """A space, training rows and held-out rows, in the coordinates of all rows."""
    rows = problem.coordinates
    if rows.kernel is None:
        return FeatureSpace(), rows.features[rest], rows.features[fold]
    train, test = rows.kernel[rest][:, rest], rows.kernel[fold][:, rest]
    test = test if rows.shift is None else test + rows.shift[rest]
    return KernelSpace(Precomputed()), train, test
