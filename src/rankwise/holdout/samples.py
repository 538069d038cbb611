"""Hold-outs of a sample, where exact hold-outs of everything would take too long.

- `sampled_rows`: P of some rows of one ranking;
- `queries_of_kernel`: some queries of a kernel matrix;
- `folds_by_sums`: folds that are subtracted from the sums of all rows;
- `refitted_folds`: refits, or conjugate gradients for all folds side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rankwise.backends.arrays import Array, Index, as_given, backend_of, to_host
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.graph.preference_graph import QueryGraph
from rankwise.holdout.folds import strength
from rankwise.holdout.hold_out_problem import HoldOutProblem
from rankwise.holdout.leave_query_out import lifted_root_kernel
from rankwise.holdout.pair_systems import centred, on_diagonal
from rankwise.problem import PairLoss, Problem, RowLoss, System
from rankwise.problem.block_sums import without_rows
from rankwise.problem.problem import side_by_side
from rankwise.solvers.band import BandForm
from rankwise.solvers.ridge_path import CentredMoments, solve_ridge_path
from rankwise.solvers.shifted_cg import is_solved, shifted_cg

CHOICE_TOL, CHOICE_STEPS = 1e-3, 100  # of conjugate gradients


def sampled_rows(
    problem: HoldOutProblem, some: Index, mus: Sequence[float]
) -> Iterator[SampledRows]:
    """P and P y of some rows, if all rows are one ranking whose pairs all count."""
    inner, y = problem.problem, problem.y
    y = y - y.mean(axis=0)
    system = inner.space.system(inner.X, inner.qid)
    if system is None:
        K = problem.coordinates.kernel
        assert K is not None
        return kernel_sample(K, y, some, mus)
    (moments,) = _regression_moments(problem, system)
    return feature_sample(moments, system.coordinates(inner.X)(some), y[some], mus)


def _regression_moments(problem: HoldOutProblem, system: System) -> list[CentredMoments]:
    """The moments of the coordinates of all rows, for a regression."""
    loss, X = RowLoss(), problem.problem.X
    tasks = loss.tasks(problem.by_output(problem.y), None)
    return [system.coordinate_moments(system.moments(X, task, loss)) for task in tasks]


def queries_of_kernel(problem: HoldOutProblem, folds: Sequence[Index]) -> Array:
    """Some queries of a kernel matrix, one at a time, shape (n_alphas, n, n_outputs)."""
    on, K, some = backend_of(problem.y), problem.coordinates.kernel, np.concatenate(folds)
    assert K is not None
    if problem.loss.has_intercept:
        residuals = []
        for P, a in sampled_rows(problem, some, problem.lams):
            ends = np.cumsum([len(fold) for fold in folds])
            parts = [slice(end - len(fold), end) for fold, end in zip(folds, ends, strict=True)]
            residuals.append(on.xp.concatenate([on.solve(P[q, q], a[q]) for q in parts]))
    else:
        by_task = [
            kernel_query_residuals(
                on.copy(K), problem.graph(k), problem.targets(k), folds, problem.lams
            )
            for k in range(problem.n_tasks)
        ]
        residuals = [on.xp.concatenate(parts, axis=1) for parts in zip(*by_task, strict=True)]
    predictions: Array = problem.y[some] - on.xp.stack(residuals)
    return predictions


def folds_by_sums(problem: HoldOutProblem, folds: Sequence[Index], *, one_ranking: bool) -> Array:
    """Scores of folds without an intercept, by subtracting their moments from the total.

    Pairs of one ranking that all count define a regression on the rows that are left.
    """
    inner, loss = problem.problem, problem.loss
    X, m, on = inner.X, inner.n_rows, backend_of(inner.X)
    system = inner.space.system(X, inner.qid)
    assert system is not None
    regression = RowLoss() if one_ranking else loss
    total: list[Any]
    if one_ranking:
        total = _regression_moments(problem, system)
    else:
        total = [system.coordinate_moments(one) for one in inner.moments(system)]
    y, load = problem.by_output(problem.y), system.coordinates(X)
    by_fold = []
    for fold in folds:
        lams = problem.lams
        if one_ranking and not loss.has_intercept:
            lams = [strength(loss, lam, m - len(fold)) for lam in lams]
        F = load(fold)
        parts = regression.tasks(y[fold], None if one_ranking else inner.groups.take(fold))
        by_task = []
        for whole, part in zip(total, parts, strict=True):
            rest = whole - regression.moments(F.__getitem__, F.shape[1], part, on)
            weights = solve_ridge_path(rest.A, rest.b, lams, gram=True)
            by_task.append(on.xp.stack([(F @ w).reshape(len(fold), -1) for w in weights]))
        by_fold.append(on.xp.concatenate(by_task, axis=2))
    scores: Array = on.xp.concatenate(by_fold, axis=1)
    return scores


def refitted_folds(
    problem: HoldOutProblem, folds: Sequence[Index], *, one_ranking: bool
) -> tuple[Array, Array]:
    """The alphas that are solved, and scores of folds without an intercept, by fits without them.

    The other alphas need too many steps of conjugate gradients.
    """
    inner = problem.problem
    loss = PairLoss() if problem.loss.has_intercept else problem.loss
    groups = QueryGroups.of(None, inner.n_rows) if one_ranking else inner.groups
    if problem.loss.has_intercept:
        groups = QueryGroups.of(None, inner.n_rows)
    y, rests = problem.by_output(problem.y), []
    for fold in folds:
        left = without_rows(groups, fold).with_row_weights(inner.row_weights)
        tasks = loss.tasks(y, left)
        loss.check_learnable([task.graph.n_pairs for task in tasks], inner.n_rows, 1)
        rests.append(replace(inner, tasks=tasks, loss=loss))
    alphas, scores = refitted_scores(inner, rests, problem.alphas, folds)
    return alphas, np.concatenate(scores, axis=1)


def refitted_scores(
    problem: Problem, rests: Sequence[Problem], alphas: Array, parts: Sequence[Index]
) -> tuple[Array, list[Array]]:
    """Scores of each part of the rows by the fit to the rest of the problem without it.

    Returns the alphas that are solved, and an array of shape (n_alphas, n_rows, n_outputs) for each
    part.
    """
    if problem.space.form(problem.X) == "cg":
        return _step_scores(problem, rests, alphas, parts)
    found = []
    for rest, rows in zip(rests, parts, strict=True):
        fit = rest.solve(alphas.tolist())
        columns = side_by_side([solution.weights for solution in fit.solutions])
        X = rest.X[rows]
        scores = np.asarray(to_host(fit.basis.products(X, backend_of(X).array(columns))))
        found.append(np.moveaxis(scores.reshape(len(rows), len(alphas), -1), 1, 0))
    return alphas, found


def _step_scores(
    problem: Problem, rests: Sequence[Problem], alphas: Array, parts: Sequence[Index]
) -> tuple[Array, list[Array]]:
    """`refitted_scores` of all parts from the same products; weights are not stored.

    A small tolerance is not needed to compare alphas. Those that need many steps are left out,
    unless there is only one.
    """
    space, on = problem.space, backend_of(problem.X)
    tasks = [task for rest in rests for task in rest.tasks]
    products = space.products(problem.X, tasks, problem.tasks[0].graph.compared)
    assert products is not None  # its form is "cg"
    held = np.concatenate(parts)
    observe, _ = on.products(as_given(problem.X)[held])
    tol, max_iter = max(CHOICE_TOL, space.tol), space.max_iter
    if len(alphas) > 1:
        max_iter = min(CHOICE_STEPS, max_iter)
    found = shifted_cg(
        products, products.b, alphas.tolist(), tol=tol, max_iter=max_iter, observe=observe
    )
    solved = np.flatnonzero(is_solved(found, tol)) if len(alphas) > 1 else np.arange(1)
    if not len(solved):
        raise DataError("No alpha is solved in so few steps.")
    scores = np.stack([to_host(found.solutions[k]) for k in solved])
    n_outputs, end, by_part = scores.shape[2] // len(parts), 0, []
    for k, part in enumerate(parts):
        start, end = end, end + len(part)
        by_part.append(scores[:, start:end, k * n_outputs : (k + 1) * n_outputs])
    return alphas[solved], by_part


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
        P = on.matmul(-shrunk, W.T)
        P -= 1.0 / moments.n_rows
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
