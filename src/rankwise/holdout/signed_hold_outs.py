"""Hold-outs of weights with given signs.

The fit to all rows has the weights F that are not 0, and M_FF w_F = b_F. Without the rows U, with
Z = R X and t = R y, it becomes (M - Z_U'Z_U) w = b - Z_U't_U. If the same weights are 0 in both,

    w_F(without U) = w_F - M_FF^-1 Z_UF' e,   e = (I - Z_UF M_FF^-1 Z_UF')^-1 (t_U - Z_UF w_F).

This is the solution if it has the right signs, and no weight of 0 would decrease the objective by
growing into its permitted direction. Otherwise the moments without U are solved again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from rankwise.backends.arrays import EPS, Array, Index, backend_of, to_host
from rankwise.errors import DataError
from rankwise.holdout.hold_out_problem import (
    CLOSE,
    OF_FOLD,
    HoldOutProblem,
    Pairs,
    alike,
    check_digits,
    column_size,
)
from rankwise.holdout.leave_comparison_out import HeldComparisons
from rankwise.holdout.leave_pair_out import PairDifferences
from rankwise.holdout.leave_query_out import Rescaling
from rankwise.solvers.signed_ridge import signed_solution

LIST_PAIRS = 2**16  # pairs processed at a time

Mask: TypeAlias = NDArray[np.bool_]
Keep = Callable[[int, int, Index, Array], None]


@dataclass
class Changes:
    """How many fits without a unit have other weights of 0 than the fit to all rows."""

    n_fits: int = 0
    n_changed: int = 0

    @property
    def why(self) -> str:
        """The reason for predictions, as a sentence."""
        if not self.n_changed:
            return (
                "The same weights are 0 without each unit as with all rows: a formula turns one "
                "fit into the other."
            )
        return (
            f"In {self.n_changed:,} of {self.n_fits:,} fits without a unit, other weights are 0 "
            "than with all rows: their moments were solved again. The others have a formula."
        )


@dataclass(frozen=True, eq=False)
class SignedRows:
    """Rows Z and targets t of a least-squares problem whose weights have signs.

    With an intercept, the last column of Z is constant, and its weight is not penalized.
    """

    Z: Array
    t: Array
    signs: Array
    intercept: bool = False
    changes: Changes = field(default_factory=Changes)

    def weights_without(
        self,
        units: Sequence[Index],
        lams: Sequence[float],
        keep: Keep,
        scales: Array | None = None,
    ) -> None:
        """Call ``keep(k, o, some, w)`` with weights for lam k, output o and units `some`.

        `w` has shape (n_some, n). Without unit u, columns are divided by ``scales[u]``.

        Cost: O(n^2) for each row of a unit and lam, or O(n^3) for each unit with more rows than
        features, and for each unit without which other weights are 0.
        """
        Z, t, n = self.Z, self.t, self.Z.shape[1]
        A, b = Z.T @ Z, Z.T @ t
        penalty = np.ones(n)
        penalty[-1] = 0.0 if self.intercept else 1.0
        sizes = np.array([len(unit) for unit in units])
        few = (2 * sizes <= n) & (scales is None)
        short = np.flatnonzero(few)
        for k, lam in enumerate(lams):
            M = A + lam * np.diag(penalty)
            for o in range(t.shape[1]):
                w, free = signed_solution(M, b[:, o], self.signs)
                factor = cho_factor(M[np.ix_(free, free)], lower=True)
                starts: dict[int, Mask] = {}  # of units without which other weights are 0
                for part, rows in alike([units[u] for u in short.tolist()], n):
                    some = short[part]
                    if lam < CLOSE * float(M.diagonal().sum()):
                        own = Z[rows][:, :, free]
                        rest = np.eye(rows.shape[1]) - _solved(factor, own) @ own.swapaxes(1, 2)
                        check_digits(OF_FOLD, float(np.linalg.eigvalsh(rest).min()))
                    found, wrong = self._by_formula(M, b[:, o], w, free, factor, rows, o)
                    fits = ~wrong.any(axis=1)
                    keep(k, o, some[fits], found[fits])
                    starts.update(zip(some[~fits].tolist(), free ^ wrong[~fits], strict=True))
                for u in np.flatnonzero(~few).tolist() + list(starts):
                    Z_U, t_U = Z[units[u]], t[units[u], o]
                    rest, b_rest = A - Z_U.T @ Z_U, b[:, o] - Z_U.T @ t_U
                    S = np.ones(n) if scales is None else scales[u]
                    of_unit = rest / S[:, None]
                    of_unit /= S
                    of_unit[np.diag_indices(n)] += lam * penalty
                    start = starts.get(u, free)
                    found, now = signed_solution(of_unit, b_rest / S, self.signs, start)
                    self.changes.n_changed += bool((now != free).any())
                    keep(k, o, np.array([u]), (found / S)[None])
                self.changes.n_fits += len(units)

    def _by_formula(
        self, M: Array, b: Array, w: Array, free: Mask, factor: Any, rows: Index, o: int
    ) -> tuple[Array, Mask]:
        """Weights without units of the same size, and which weights are not as they should be."""
        zero, (n_units, size) = ~free, rows.shape
        Z_U, t_U = self.Z[rows], self.t[rows, o]
        own = Z_U[:, :, free]
        V = _solved(factor, own)
        rest = np.eye(size) - V @ own.swapaxes(1, 2)
        e = np.linalg.solve(rest, (t_U - own @ w[free])[:, :, None])
        found = np.zeros((n_units, len(w)))
        found[:, free] = w[free] - (V.swapaxes(1, 2) @ e)[:, :, 0]
        residual = (Z_U @ found[:, :, None])[:, :, 0] - t_U
        slope = found @ M[:, zero] - b[zero]
        slope -= np.einsum("usz,us->uz", Z_U[:, :, zero], residual)
        rounding = len(w) * EPS * (np.abs(found) @ np.abs(M[:, zero]) + np.abs(b[zero]))
        wrong = self.signs * found < 0
        wrong[:, zero] = self.signs[zero] * slope < -rounding
        return found, wrong


def _solved(factor: Any, own: Array) -> Array:
    """Rows of each unit times the inverse of a matrix with this Cholesky factor."""
    if own.size == 0:  # all weights are 0
        return own
    flat = own.reshape(-1, own.shape[2])
    return np.asarray(cho_solve(factor, flat.T, check_finite=False).T.reshape(own.shape))


def dense_rows(problem: HoldOutProblem) -> Array:
    """The features as a NumPy array."""
    X = problem.problem.X
    rows = X.toarray() if hasattr(X, "toarray") else to_host(backend_of(X).rows(X, slice(None)))
    return np.asarray(rows, dtype=np.float64)


def signed_queries(
    problem: HoldOutProblem, folds: Sequence[Index], rescaling: Rescaling | None
) -> tuple[Array, Changes]:
    """Predictions for folds of queries, one fold after the other, (n_alphas, n, n_outputs).

    `problem` is linear in its features.
    """
    F, changes, n_outputs = dense_rows(problem), Changes(), problem.y.shape[1]
    ends = np.cumsum([len(fold) for fold in folds])
    out = np.empty((len(problem.alphas), int(ends[-1]), n_outputs))
    offset = 0.0 if rescaling is None else rescaling.offset
    scales = None if rescaling is None else rescaling.deviations
    for task in range(problem.n_tasks):
        graph, columns = problem.graph(task), np.arange(n_outputs)[problem.columns(task)]
        y = np.asarray(to_host(problem.targets(task)))
        rows = _signed_rows(problem, graph.root(F), graph.root_target(y), changes=changes)

        def keep(k: int, o: int, some: Index, w: Array, columns: Index = columns) -> None:
            for u, weights in zip(some.tolist(), w, strict=True):
                fold = folds[u]
                place = slice(ends[u] - len(fold), ends[u])
                out[k, place, columns[o]] = (F[fold] + offset) @ weights

        rows.weights_without(folds, problem.lams, keep, scales)
    return out, changes


def _signed_rows(problem: HoldOutProblem, Z: Array, t: Array, changes: Changes) -> SignedRows:
    signs = problem.problem.space.signs
    assert signs is not None
    return SignedRows(Z, t.reshape(len(t), -1), np.array(signs), changes=changes)


def signed_pairs(
    problem: HoldOutProblem, plan: Pairs, strengths: Sequence[float]
) -> Iterator[tuple[int, PairDifferences]]:
    """(index of the alpha, f(first) - f(second) without both) for pairs of one ranking.

    With n rows, the fit without two is a ridge regression with an intercept, at ``strengths[k]``.
    """
    loss, weighted = problem.loss, problem.problem.row_weights is not None
    if problem.groups.n_groups > 1 or loss.ties == "exclude" or plan.groups or weighted:
        raise DataError(
            "Pairs of rows of a ranker with monotone features can be held out of one ranking whose "
            'pairs all count (ties="include", no qid, groups or weights of rows). Use '
            "leave_query_out, or cross_validate, which refits."
        )
    F, y = dense_rows(problem), problem.labels
    if plan.listed is not None:
        pairs = plan.listed
    else:
        among = np.arange(len(y)) if plan.among is None else plan.among
        pairs = among[np.column_stack(np.triu_indices(len(among), 1))]
    Z = F - F.mean(axis=0)
    Z = np.column_stack((Z, np.full(len(Z), column_size(Z))))
    signs = np.append(np.array(problem.problem.space.signs), 0)
    rows = SignedRows(Z, y - y.mean(axis=0), signs, intercept=True)
    for start in range(0, len(pairs), LIST_PAIRS):
        some = pairs[start : start + LIST_PAIRS]
        gaps = F[some[:, 0]] - F[some[:, 1]]
        found = np.empty((len(strengths), len(some), y.shape[1]))

        def keep(
            k: int, o: int, of: Index, w: Array, found: Array = found, gaps: Array = gaps
        ) -> None:
            found[k, of, o] = (gaps[of] * w[:, :-1]).sum(axis=1)

        rows.weights_without(list(some), strengths, keep)
        for k, differences in enumerate(found):
            yield k, PairDifferences(some[:, 0], some[:, 1], differences)


@dataclass(frozen=True, eq=False)
class SignedComparisons(HeldComparisons):
    """Comparisons as rows of a regression whose weights have signs."""

    signs: tuple[int, ...] = ()
    changes: Changes = field(default_factory=Changes)

    @classmethod
    def of_problem(cls, problem: HoldOutProblem) -> SignedComparisons:
        """From a problem that is linear in its features."""
        inner, F = problem.problem, dense_rows(problem)
        graph, signs = inner.comparisons, inner.space.signs
        assert signs is not None
        n = F.shape[1]
        empty = np.zeros((n, n)), np.zeros((n, problem.y.shape[1]))
        return cls(graph, graph, None, lambda rows: F[rows], *empty, signs)

    def single(self, some: Index, lams: Sequence[float]) -> Array:
        """The prediction for each of some comparisons without it: (n_lams, n_some, n_outputs)."""
        return self.sets(list(some[:, None]), lams)

    def sets(self, sets: Sequence[Index], lams: Sequence[float]) -> Array:
        """Predictions for sets of comparisons, each without its set."""
        D = self.graph.differences(self.load, np.arange(len(self.graph.first)))
        root = np.sqrt(self.graph.weight)[:, None]
        rows = SignedRows(root * D, root * self.margin, np.array(self.signs), changes=self.changes)
        ends = np.cumsum([len(one) for one in sets])
        out = np.empty((len(lams), int(ends[-1]), self.margin.shape[1]))

        def keep(k: int, o: int, some: Index, w: Array) -> None:
            for u, weights in zip(some.tolist(), w, strict=True):
                held = sets[u]
                out[k, ends[u] - len(held) : ends[u], o] = D[held] @ weights

        rows.weights_without(sets, lams, keep)
        return out
