"""Exact hold-outs of comparisons by their leverage in a fit to all of them.

With the differences D = B F of the coordinates of compared rows, A = D'WD and b = D'W margin, the
fit predicts D w with w = (A + lam I)^-1 b. Without a set S of comparisons, the residuals are

    e_S = (I - E_S W_S)^-1 (margin_S - D_S w),   E_S = D_S (A + lam I)^-1 D_S'.

With a kernel matrix, E = B (L + lam K^-1)^-1 B'. If K is well conditioned, one inverse for each lam
has all entries of E. With no more comparisons than coordinates, leverages may be 1 up to rounding:
see gram_edges.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rankwise.backends.arrays import EPS, Array, Index, Loader, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.backends.threads import blas_threads_for
from rankwise.errors import DataError
from rankwise.graph.comparison_graph import ComparisonGraph
from rankwise.holdout.gram_edges import GramEdges, gram_of
from rankwise.holdout.held_out_edges import BLOCK, STACKED, Edges, LeverageEdges
from rankwise.problem import (
    FeatureSystem,
    Problem,
    System,
)
from rankwise.solvers.ridge_path import SMALL, rounding_floor, solve_ridge_path

STORED = 2 * 10**7  # numbers: largest coordinates that are stored
INDEFINITE = 1e-6  # of the largest kernel value: larger errors of a factor are not rounding
CONDITION = 1e7  # of a kernel matrix whose inverse is accurate enough
FEW = 500  # comparisons, whose Gram matrix takes little time with any kernel
KERNEL_LAMS = 12  # up to which an inverse for each costs no more than an eigendecomposition


def edges_of(problem: Problem, n_lams: int) -> Edges:
    """The comparisons of a plain problem, to be held out for so many lams.

    Features and landmarks take O(N n^2) time for N comparisons (less, if there are fewer rows),
    without the coordinates of all rows. A kernel matrix takes O(m^3) time. No more comparisons than
    coordinates take O(N^3) time.
    """
    graph = problem.comparisons
    X, system = problem.X, system_of(problem)
    if system is None:
        K = problem.coordinates().kernel
        assert K is not None
        if len(graph.first) <= max(len(K), FEW):
            B, K = graph.incidence, np.asarray(to_host(K))
            return GramEdges(graph, _finite(B @ (B @ K).T))
        inverse = well_conditioned_inverse(K) if n_lams <= KERNEL_LAMS else None
        if inverse is not None:
            return KernelEdges(graph, inverse)
        X = kernel_factor(K)
        system = FeatureSystem(X.shape[1])
    if len(graph.first) <= system.n_coordinates:
        every = np.arange(len(graph.first))
        return GramEdges(graph, _finite(gram_of(graph.differences(system.coordinates(X), every))))
    found = system.coordinate_moments(system.moments(X, problem.tasks[0], problem.loss))
    b = found.b.reshape(len(found.b), -1)
    _finite(found.A.diagonal())
    _finite(b)
    return FeatureEdges(graph, system.coordinates(X), found.A, b)


def _finite(products: Array) -> Array:
    if not backend_of(products).is_finite(products):
        raise DataError("Products of features or margins overflow. Scale the features.")
    return products


@dataclass(frozen=True, eq=False)
class FeatureEdges(LeverageEdges):
    """Comparisons as rows of a ridge regression on differences of coordinates.

    Attributes
    ----------
    graph : ComparisonGraph
    load : callable
        ``load(rows)`` returns the coordinates of some rows.
    A : ndarray of shape (n_coordinates, n_coordinates)
    b : ndarray of shape (n_coordinates, n_outputs)
    """

    load: Loader
    A: Array
    b: Array

    @property
    def n_coordinates(self) -> int:
        return len(self.b)

    def without_many(self, members: Index, lams: Sequence[float]) -> Array:
        """Solve with the moments of the others."""
        on = backend_of(self.b)
        D = self.graph.differences(self.load, members)
        WD = on.array(self.graph.weight[members])[:, None] * D
        A = self.A - on.matmul(on.contiguous(D.T), on.contiguous(WD))
        b = self.b - on.matmul(on.contiguous(WD.T), on.array(self.margin[members]))
        A = (A + A.T) / 2
        if self.excess is None:
            found = solve_ridge_path(A, b, lams, gram=True)
        else:
            excess, n = on.array(self.excess(members)), self.graph.n_rows
            columns = self.load(np.arange(n - len(excess), n))
            more = on.matmul(on.contiguous(columns.T), excess[:, None] * columns)
            found = [solve_ridge_path(A + lam * more, b, [lam], gram=True)[0] for lam in lams]
        return np.stack([to_host(on.matmul(D, w)) for w in found])

    def views(self, lams: Sequence[float]) -> Iterator[tuple[list[int], FeatureView]]:
        """Coordinates in which (A + lam I)^-1 is diagonal.

        One eigendecomposition serves all lams; a few lams have a Cholesky factor each.
        """
        on = backend_of(self.b)
        if len(self.b) <= SMALL or len(lams) > on.inverse_cost:
            yield list(range(len(lams))), self._spectral(lams)
            return
        for k, lam in enumerate(lams):
            M = on.copy(self.A)
            on.diagonal(M)[:] += lam
            C = on.cholesky(M)
            if C is None:
                yield [k], self._spectral([lam])
                continue
            ones = on.zeros(len(C), 1) + 1.0
            diagonal = abs(on.diagonal(C))
            condition = np.array([float(diagonal.max() / diagonal.min()) ** 2])
            moved = on.solve_triangular(C, self.b)
            yield [k], FeatureView(self, C, None, moved, ones, condition)

    def _spectral(self, lams: Sequence[float]) -> FeatureView:
        on = backend_of(self.b)
        s, V = on.eigh(on.copy(self.A))
        divisors = s.clip(min=0.0)[:, None] + on.array(np.asarray(lams, dtype=np.float64))
        # A lam below rounding errors: the fit is restricted to the numerical range of A.
        floor = rounding_floor(self.A)
        shares = 1.0 / on.xp.where(divisors > floor, divisors, np.inf)
        weights = ((V.T @ self.b)[:, None, :] * shares[:, :, None]).reshape(len(s), -1)
        d = np.asarray(to_host(divisors))
        condition = d.max(axis=0) / np.where(d > floor, d, np.inf).min(axis=0)
        return FeatureView(self, None, on.contiguous(V), weights, shares, condition)


@dataclass(frozen=True, eq=False)
class FeatureView:
    """Differences in other coordinates: F V, or F C'^-1.

    There, the fits predict ``differences @ weights``, with columns for lams and then outputs, and
    E is ``differences @ diag(shares) @ differences'``.
    """

    edges: FeatureEdges
    C: Array | None
    V: Array | None
    weights: Array
    shares: Array
    condition: Array

    def each(self, some: Index) -> tuple[Array, Array]:
        """See `View`."""
        on, n_outputs = backend_of(self.weights), self.edges.b.shape[1]
        D = self._differences(some)
        with blas_threads_for(len(self.weights)):
            fitted = np.asarray(to_host(on.matmul(self.weights.T, D.T)))
            D *= D
            leverage = np.asarray(to_host(on.matmul(self.shares.T, D.T)))
        return fitted.reshape(-1, n_outputs, len(some)).swapaxes(1, 2), leverage

    def together(self, listed: Index) -> tuple[Array, Callable[[int], Array]]:
        """See `View`."""
        on, (n, size) = backend_of(self.weights), listed.shape
        D = self._differences(listed.ravel())
        n_outputs = self.edges.b.shape[1]
        fitted = to_host(on.matmul(D, self.weights)).reshape(n, size, -1, n_outputs)
        stacked = D.reshape(n, size, -1)
        turned = on.xp.swapaxes(stacked, 1, 2)
        return fitted, lambda k: (stacked * self.shares[:, k]) @ turned

    @cached_property
    def _stored(self) -> Array | None:
        """The coordinates of all rows, if each is used several times and they fit in memory."""
        graph = self.edges.extended
        several = graph.n_root_rows > graph.n_rows
        stored = several and graph.n_rows * len(self.weights) <= STORED
        return self._moved(slice(None)) if stored else None

    def _differences(self, some: Index) -> Array:
        graph, stored = self.edges.extended, self._stored
        if stored is not None:
            return graph.stored_differences(stored, some)
        return backend_of(self.weights).contiguous(graph.differences(self._moved, some))

    def _moved(self, rows: Any) -> Array:
        F = self.edges.load(rows)
        on = backend_of(F)
        if self.V is not None:
            return on.matmul(on.contiguous(F), self.V)
        assert self.C is not None
        return on.contiguous(on.solve_triangular(self.C, on.contiguous(F.T)).T)


@dataclass(frozen=True, eq=False)
class KernelEdges(LeverageEdges):
    """Comparisons of rows with a well-conditioned kernel matrix K; `inverse` is K^-1."""

    inverse: Array

    @property
    def n_coordinates(self) -> int:
        return len(self.inverse)

    @property
    def block_size(self) -> int:
        """Comparisons need a few entries of an inverse each."""
        return BLOCK

    @cached_property
    def _laplacian(self) -> Array:
        return backend_of(self.inverse).array(self.graph.laplacian.toarray())

    @cached_property
    def _rhs(self) -> Array:
        return backend_of(self.inverse).array(self.graph.rhs().reshape(self.graph.n_rows, -1))

    def views(self, lams: Sequence[float]) -> Iterator[tuple[list[int], KernelView]]:
        """(L + lam K^-1)^-1 for each lam."""
        on = backend_of(self.inverse)
        for k, lam in enumerate(lams):
            M = self._laplacian + lam * self.inverse
            norm = _largest_sum(M)
            S = on.inverse_definite(M, 0.0)
            if S is None:
                raise np.linalg.LinAlgError
            scores = np.asarray(to_host(on.matmul(S, self._rhs)))
            yield [k], KernelView(self.extended, S, scores, np.array([norm * _largest_sum(S)]))

    def without_many(self, members: Index, lams: Sequence[float]) -> Array:
        """Solve with the Laplacian of the others."""
        on, graph = backend_of(self.inverse), self.graph
        B, weight = graph.incidence[members], graph.weight[members]
        L = self._laplacian - on.array((B.T @ (B * weight[:, None])).toarray())
        rhs = self._rhs - on.array(B.T @ (weight[:, None] * self.margin[members]))
        out = np.empty((len(lams), len(members), rhs.shape[1]))
        inverse = self.inverse
        if self.excess is not None:
            excess = self.excess(members)
            inverse = on.copy(inverse)
            on.diagonal(inverse)[len(inverse) - len(excess) :] += on.array(excess)
        for k, lam in enumerate(lams):
            f = on.solve_definite(L + lam * inverse, rhs, 0.0)
            if f is None:
                raise np.linalg.LinAlgError
            out[k] = B @ to_host(f)
        return out


@dataclass(frozen=True, eq=False)
class KernelView:
    """S = (L + lam K^-1)^-1, and the scores S B' diag(w) margin of all rows."""

    graph: ComparisonGraph
    S: Array
    scores: Array
    condition: Array

    def each(self, some: Index) -> tuple[Array, Array]:
        """See `View`."""
        S, i, j = self.S, self.graph.first[some], self.graph.second[some]
        diagonal = S.diagonal()
        leverage = np.array(to_host(diagonal[i] + diagonal[j] - 2.0 * S[i, j]))
        if self.graph.context is not None:
            Z, n = self.graph.context[some], len(S) - self.graph.context.shape[1]
            crossed = to_host(S[i, n:] - S[j, n:])
            leverage += (Z * (2.0 * crossed + Z @ to_host(S[n:, n:]))).sum(axis=1)
        return self._fitted(some)[None], leverage[None]

    def together(self, listed: Index) -> tuple[Array, Callable[[int], Array]]:
        """See `View`."""
        S, graph, on = self.S, self.graph, backend_of(self.S)
        i, j = graph.first[listed], graph.second[listed]
        E = S[i[:, :, None], i[:, None]] + S[j[:, :, None], j[:, None]]
        E -= S[i[:, :, None], j[:, None]] + S[j[:, :, None], i[:, None]]
        if graph.context is not None:
            n = len(S) - graph.context.shape[1]
            Z = on.array(graph.context[listed])
            crossed = S[i, n:] - S[j, n:]
            turned = on.xp.swapaxes(Z, 1, 2)
            crossed = crossed @ turned
            E += crossed + on.xp.swapaxes(crossed, 1, 2) + (Z @ S[n:, n:]) @ turned
        fitted = self._fitted(listed.ravel()).reshape(*listed.shape, 1, -1)
        return fitted, lambda k: E

    def _fitted(self, some: Index) -> Array:
        return np.asarray(self.graph.incidence[some] @ self.scores)


def system_of(problem: Problem) -> System | None:
    """The system that solves a problem from sums over rows; None if it needs a kernel matrix."""
    return problem.space.system(problem.X, problem.qid)


def well_conditioned_inverse(K: Array) -> Array | None:
    """K^-1, or None if it has lost more digits than hold-outs can spare."""
    on = backend_of(K)
    inverse = on.inverse_definite(on.copy(K), 0.0)
    if inverse is None:
        return None
    return inverse if _largest_sum(K) * _largest_sum(inverse) <= CONDITION else None


def _largest_sum(M: Array) -> float:
    """The largest sum of absolute values of a column."""
    return float(abs(M).sum(axis=0).max())


def kernel_factor(K: Array) -> Array:
    """F with F F' = K, from a pivoted Cholesky factorization: O(m r^2) time for the rank r."""
    on, largest = backend_of(K), float(abs(K.diagonal()).max())
    order, C, _ = on.pivoted_cholesky(on.copy(K), 8 * len(K) * EPS * largest)
    kept = order[: len(C)]
    F = on.contiguous(on.solve_triangular(C, on.contiguous(K[kept])).T)
    probe = on.array(np.random.default_rng(0).standard_normal((len(K), 1)))
    error = abs(on.matmul(K, probe) - on.matmul(F, on.matmul(on.contiguous(F.T), probe))).max()
    if float(error) > INDEFINITE * largest * len(K):
        raise DataError(
            "The kernel is not positive semidefinite, which exact hold-outs of comparisons need. "
            "Use another kernel, or RankingSearchCV with a splitter, which refits."
        )
    return F


def without_items(
    edges: Edges, lams: Sequence[float], *, both: bool
) -> Iterator[tuple[Index, Index, Array]]:
    """Predictions for comparisons of items none of whose comparisons are known.

    With `both`, every comparison without those of either of its items; otherwise each item in
    turn. Yields the numbers of comparisons, the side of the item that is held out (0 and 1; 0 for
    both), and predictions of shape (n_lams, n, n_outputs).
    """
    graph = edges.graph
    n = len(graph.first)
    rows = np.concatenate((graph.first, graph.second))
    order = np.argsort(rows, kind="stable")
    starts = np.flatnonzero(np.diff(rows[order], prepend=-1))
    of_item = {
        int(rows[part[0]]): np.sort(part % n) for part in np.split(order, starts[1:]) if len(part)
    }
    low, high = np.minimum(graph.first, graph.second), np.maximum(graph.first, graph.second)
    if both:
        pairs = np.unique(np.column_stack((low, high)), axis=0).tolist()
        sets = (np.union1d(of_item[i], of_item[j]) for i, j in pairs)
    else:
        pairs = [(i, i) for i in of_item]
        sets = (of_item[i] for i, _ in pairs)
    listed: list[tuple[Index, Index]] = []
    waiting = 0

    def found() -> tuple[Index, Index, Array]:
        predictions = edges.sets([members for members, _ in listed], lams)
        members = np.concatenate([members for members, _ in listed])
        owner = np.repeat(
            np.array([items for _, items in listed]), [len(m) for m, _ in listed], axis=0
        )
        if both:
            asked = (low[members] == owner[:, 0]) & (high[members] == owner[:, 1])
            side = np.zeros(len(members), dtype=np.intp)
        else:
            asked = np.ones(len(members), dtype=bool)
            side = np.where(graph.first[members] == owner[:, 0], 0, 1)
        return members[asked], side[asked], predictions[:, asked]

    for items, members in zip(pairs, sets, strict=True):
        listed.append((members, np.asarray(items)))
        waiting += len(members)
        if waiting * len(lams) > STACKED:
            yield found()
            listed, waiting = [], 0
    if listed:
        yield found()
