"""Exact hold-outs of comparisons: one at a time, or in sets.

With the differences D = B F of the coordinates of compared rows, A = D'WD and b = D'W margin, the
fit predicts D w with w = (A + lam I)^-1 b. Without a set S of comparisons, the residuals are

    e_S = (I - E_S W_S)^-1 (margin_S - D_S w),   E_S = D_S (A + lam I)^-1 D_S'.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rankwise.backends.arrays import EPS, Array, Index, Loader, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.errors import DataError
from rankwise.graph.comparison_graph import ComparisonGraph
from rankwise.problem import FeatureSpace, FeatureSystem, LandmarkSpace, Problem, System
from rankwise.problem.context_space import ContextSpace
from rankwise.solvers.ridge_path import SMALL, solve_ridge_path

STORED = 2 * 10**7  # numbers: largest coordinates that are stored
BLOCK = 2**17  # numbers of a block of differences, which fits in a cache
STACKED = 2**20  # numbers of differences of the sets that are processed together
LEAST = 1e-12  # smallest share of a comparison that others leave to be explained by itself
INDEFINITE = (
    1e-6  # of the largest kernel value: larger errors of its factor are not rounding errors
)


@dataclass(frozen=True, eq=False)
class EdgeSystem:
    """Comparisons as rows of a ridge regression on differences of coordinates.

    Attributes
    ----------
    graph : ComparisonGraph
    load : callable
        ``load(rows)`` returns the coordinates of some rows.
    A : ndarray of shape (n_coordinates, n_coordinates)
    b : ndarray of shape (n_coordinates, n_outputs)
    """

    graph: ComparisonGraph
    load: Loader
    A: Array
    b: Array

    @classmethod
    def of(cls, problem: Problem) -> EdgeSystem:
        """From the moments of features or landmarks, or from a factor of a kernel matrix.

        Features and landmarks take O(N n^2) time for N comparisons (less, if there are fewer
        rows), without the coordinates of all rows. A kernel matrix takes O(m^3) time.
        """
        problem = plain_problem(problem)
        graph = problem.tasks[0].graph
        assert isinstance(graph, ComparisonGraph)
        X, system = problem.X, system_of(problem)
        if system is None:
            K = problem.coordinates().kernel
            assert K is not None
            X = kernel_factor(K)
            system = FeatureSystem(X.shape[1])
        found = system.coordinate_moments(system.moments(X, problem.tasks[0], problem.loss))
        b = found.b.reshape(len(found.b), -1)
        if not (backend_of(b).is_finite(found.A.diagonal()) and backend_of(b).is_finite(b)):
            raise DataError("Products of features or margins overflow. Scale the features.")
        return cls(graph, system.coordinates(X), found.A, b)

    @property
    def margin(self) -> Array:
        """Margins with an axis for outputs."""
        return self.graph.margin.reshape(len(self.graph.margin), -1)

    def single(self, some: Index, lams: Sequence[float]) -> Array:
        """The prediction for each of some comparisons without it: (n_lams, n_some, n_outputs)."""
        on, n_outputs = backend_of(self.b), self.b.shape[1]
        step = max(1, BLOCK // max(1, len(self.b)))
        found = []
        for which, view in self.views(lams):
            fitted = np.empty((len(some), len(which) * n_outputs))
            h = np.empty((len(some), len(which)))
            for start in range(0, len(some), step):
                part = slice(start, start + step)
                D = view.differences(some[part])
                fitted[part] = to_host(on.matmul(D, view.weights))
                D *= D
                h[part] = to_host(on.matmul(D, view.shares))
            found.append(self._held_out(some, fitted.reshape(*h.shape, n_outputs), h))
        return np.concatenate(found)

    def _held_out(self, some: Index, fitted: Array, leverage: Array) -> Array:
        """(fitted - h margin) / (1 - h) with the lams first; the arrays are overwritten."""
        h = leverage.T * self.graph.weight[some]
        np.minimum(h, 1.0 - LEAST, out=h)
        out = np.ascontiguousarray(np.moveaxis(fitted, 1, 0))
        out -= h[:, :, None] * self.margin[some]
        out /= (1.0 - h)[:, :, None]
        return out

    def sets(self, sets: Sequence[Index], lams: Sequence[float]) -> Array:
        """Predictions for sets of comparisons, each without its set.

        Returns an array of shape (n_lams, n, n_outputs) for the n comparisons of all sets, one set
        after the other. A set of g comparisons takes O(g^2 d + g^3) time for each lam or, if there
        are more of them than coordinates d, O(g d^2 + d^3) time.
        """
        sizes = np.array([len(one) for one in sets], dtype=np.intp)
        ends = np.cumsum(sizes)
        d = len(self.b)
        out = np.empty((len(lams), int(sizes.sum()), self.margin.shape[1]))
        small = np.flatnonzero(sizes <= d)
        if len(small):
            for which, view in self.views(lams):
                for size in np.unique(sizes[small]).tolist():
                    alike = small[sizes[small] == size]
                    step = max(1, STACKED // max(1, size * d))
                    for start in range(0, len(alike), step):
                        chosen = alike[start : start + step]
                        listed = np.stack([sets[k] for k in chosen])
                        places = ends[chosen, None] - size + np.arange(size)
                        out[np.array(which)[:, None], places.ravel()] = self._without(
                            view, listed, len(which)
                        )
        for k in np.flatnonzero(sizes > d).tolist():
            out[:, ends[k] - sizes[k] : ends[k]] = self._without_many(sets[k], lams)
        return out

    def _without(self, view: View, listed: Index, n_lams: int) -> Array:
        """Predictions for sets of the same size, shape (n_lams, n, n_outputs)."""
        on, (n, size) = backend_of(self.b), listed.shape
        D = view.differences(listed.ravel())
        fitted = to_host(on.matmul(D, view.weights)).reshape(n, size, n_lams, -1)
        margin = self.margin[listed]
        weight = on.array(self.graph.weight[listed])[:, None, :]
        stacked = D.reshape(n, size, -1)
        out = np.empty((n_lams, n * size, margin.shape[2]))
        for k in range(n_lams):
            E = (stacked * view.shares[:, k]) @ on.xp.swapaxes(stacked, 1, 2)
            residuals = margin - fitted[:, :, k]
            left = on.array(np.eye(size)) - E * weight
            e = to_host(on.solve(left, on.array(residuals)))
            out[k] = (margin - e).reshape(n * size, -1)
        return out

    def _without_many(self, members: Index, lams: Sequence[float]) -> Array:
        """Predictions for a set with more comparisons than coordinates."""
        on = backend_of(self.b)
        D = self.graph.differences(self.load, members)
        WD = on.array(self.graph.weight[members])[:, None] * D
        A = self.A - on.matmul(on.contiguous(D.T), on.contiguous(WD))
        b = self.b - on.matmul(on.contiguous(WD.T), on.array(self.margin[members]))
        found = solve_ridge_path((A + A.T) / 2, b, lams, gram=True)
        return np.stack([to_host(on.matmul(D, w)) for w in found])

    def views(self, lams: Sequence[float]) -> Iterator[tuple[list[int], View]]:
        """Coordinates in which (A + lam I)^-1 is diagonal, and the positions of their lams.

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
            yield [k], View(self, C, None, on.solve_triangular(C, self.b), ones)

    def _spectral(self, lams: Sequence[float]) -> View:
        on = backend_of(self.b)
        s, V = on.eigh(on.copy(self.A))
        divisors = s.clip(min=0.0)[:, None] + on.array(np.asarray(lams, dtype=np.float64))
        products = V.T @ self.b
        weights = (products[:, None, :] / divisors[:, :, None]).reshape(len(s), -1)
        return View(self, None, on.contiguous(V), weights, 1.0 / divisors)


@dataclass(frozen=True, eq=False)
class View:
    """Differences in other coordinates, for one or several lams.

    There, the fits predict ``differences @ weights``, with columns for lams and then outputs, and
    E is ``differences @ diag(shares) @ differences'``. The coordinates are F V, or F C'^-1.
    """

    system: EdgeSystem
    C: Array | None
    V: Array | None
    weights: Array
    shares: Array

    @cached_property
    def _stored(self) -> Array | None:
        """The coordinates of all rows, if each is used several times and they fit in memory."""
        graph = self.system.graph
        several = graph.n_root_rows > graph.n_rows
        stored = several and graph.n_rows * len(self.weights) <= STORED
        return self._moved(slice(None)) if stored else None

    def _moved(self, rows: Any) -> Array:
        F = self.system.load(rows)
        on = backend_of(F)
        if self.V is not None:
            return on.matmul(on.contiguous(F), self.V)
        assert self.C is not None
        return on.contiguous(on.solve_triangular(self.C, on.contiguous(F.T)).T)

    def differences(self, some: Index) -> Array:
        """Differences of some comparisons."""
        graph, stored = self.system.graph, self._stored
        if stored is not None:
            return graph.stored_differences(stored, some)
        return backend_of(self.weights).contiguous(graph.differences(self._moved, some))


def plain_problem(problem: Problem) -> Problem:
    """A problem of comparisons without context: its columns are further rows."""
    space = problem.space
    return space.plain(problem) if isinstance(space, ContextSpace) else problem


def system_of(problem: Problem) -> System | None:
    """The system that solves a problem from sums over rows; None if it needs a kernel matrix."""
    space = problem.space
    if isinstance(space, LandmarkSpace):
        return space.system(problem.X, problem.qid)
    if isinstance(space, FeatureSpace) and space.form(problem.X) == "primal":
        return FeatureSystem(problem.X.shape[1])
    return None


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
    system: EdgeSystem, lams: Sequence[float], *, both: bool
) -> Iterator[tuple[Index, Index, Array]]:
    """Predictions for comparisons of items none of whose comparisons are known.

    With `both`, every comparison without those of either of its items; otherwise each item in
    turn. Yields the numbers of comparisons, the side of the item that is held out (0 and 1; 0 for
    both), and predictions of shape (n_lams, n, n_outputs).
    """
    graph = system.graph
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
        predictions = system.sets([members for members, _ in listed], lams)
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
