"""Exact hold-outs of comparisons, one at a time or in sets, from fits to all of them.

A fit to the differences D = B F of compared rows, with weights W, is w = (A + lam I)^-1 b for
A = D'WD and b = D'W margin. Without a set S of comparisons, the residuals are

    e_S = (I - E_S W_S)^-1 (margin_S - D_S w),   E = D (A + lam I)^-1 D'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from rankwise.backends.arrays import EPS, Array, Index, Loader, backend_of, to_host
from rankwise.backends.parallel import blas_threads_for
from rankwise.errors import DataError
from rankwise.graph.preference_graph import ComparisonGraph
from rankwise.holdout.hold_out_problem import CLOSE, alike, check_digits
from rankwise.problem import FeatureSystem, Problem
from rankwise.solvers.ridge_path import SMALL, solve_ridge_path

BLOCK = 2**17  # numbers of a block of differences, which fits in a cache
STACKED = 2**20  # numbers of differences of the sets that are processed together
STORED = 2 * 10**7  # numbers: largest coordinates that are stored
INDEFINITE = 1e-6  # of the largest kernel value: larger errors of a factor are not rounding

Excess = Callable[[Index], Array]


def held_comparisons(problem: Problem, excess: Excess | None = None) -> HeldComparisons:
    """The comparisons of a problem on features, landmarks or a kernel.

    Features and landmarks take O(N n^2) time for N comparisons (less, if there are fewer rows),
    without the coordinates of all rows. A kernel matrix takes O(m^3) time. No more comparisons than
    coordinates take O(N^3) time: their differences get coordinates from their Gram matrix.
    """
    graph, X = problem.comparisons, problem.X
    extended = graph if excess is None else graph.with_context_columns()
    system = problem.space.system(X, problem.qid)
    n, every = len(graph.first), np.arange(len(extended.first))
    if system is None:
        K = problem.coordinates().kernel
        assert K is not None
        if n <= len(K):
            half = backend_of(K).sparse_product(extended.incidence, K)
            G = backend_of(K).sparse_product(extended.incidence, half.T)
            return _on_differences(graph, extended, excess, kernel_factor(_finite(G)))
        X = kernel_factor(K)
        system = FeatureSystem(X.shape[1])
    load = system.coordinates(X)
    if n <= system.n_coordinates:
        D = extended.differences(load, every)
        on = backend_of(D)
        G = _finite(on.matmul(D, on.contiguous(D.T)))
        return _on_differences(graph, extended, excess, kernel_factor(G))
    found = system.coordinate_moments(system.moments(X, problem.tasks[0], problem.loss))
    _finite(found.A.diagonal())
    b = _finite(found.b.reshape(len(found.b), -1))
    return HeldComparisons(graph, extended, excess, load, found.A, b)


def _on_differences(
    graph: ComparisonGraph, extended: ComparisonGraph, excess: Excess | None, D: Array
) -> HeldComparisons:
    """Comparisons with given coordinates of their differences: rows to compare with a row of 0."""
    on, n = backend_of(D), len(extended.first)
    F = on.xp.concatenate((D, on.zeros(1, D.shape[1])))
    first, second = np.arange(n), np.full(n, n)
    rows = replace(extended, n_rows=n + 1, first=first, second=second, context=None)
    D = D[: len(graph.first)]
    weighted = on.array(graph.weight)[:, None] * D
    margin = graph.margin.reshape(len(D), -1)
    A, b = (on.matmul(on.contiguous(weighted.T), on.array(Z)) for Z in (D, margin))
    return HeldComparisons(graph, rows, excess, partial(on.rows, F), A, b)


def _finite(products: Array) -> Array:
    if not backend_of(products).is_finite(products):
        raise DataError("Products of features or margins overflow. Scale the features.")
    return products


@dataclass(frozen=True, eq=False)
class HeldComparisons:
    """Comparisons as rows of a ridge regression on differences of coordinates.

    ``load(rows)`` returns the coordinates of some rows; A and b are the moments of all comparisons.
    `excess`, if comparisons have a context, comes from `ContextSpace.without`: without a set of
    comparisons, its columns have another scale. Then `extended` has these columns as further
    comparisons.
    """

    graph: ComparisonGraph
    extended: ComparisonGraph
    excess: Excess | None
    load: Loader
    A: Array
    b: Array

    @property
    def n_coordinates(self) -> int:
        """Sets with more comparisons are held out by solving for the others."""
        return len(self.b)

    @property
    def margin(self) -> Array:
        """Margins with an axis for outputs."""
        return self.graph.margin.reshape(len(self.graph.margin), -1)

    def single(self, some: Index, lams: Sequence[float]) -> Array:
        """The prediction for each of some comparisons without it: (n_lams, n_some, n_outputs)."""
        if self.excess is not None:
            return self.sets(list(some[:, None]), lams)
        margin, weight = self.margin, self.graph.weight
        out = np.empty((len(lams), len(some), margin.shape[1]))
        step = max(1, BLOCK // self.n_coordinates)
        for which, fits in self._fits(lams):
            for start in range(0, len(some), step):
                part = some[start : start + step]
                fitted, h = fits.each(part)
                h *= weight[part]
                check_digits(1.0, 1.0 - float(h.max()))
                fitted -= h[:, :, None] * margin[part]
                fitted /= (1.0 - h)[:, :, None]
                out[which, start : start + step] = fitted
        return out

    def sets(self, sets: Sequence[Index], lams: Sequence[float]) -> Array:
        """Predictions for sets of comparisons, each without its set.

        Returns an array of shape (n_lams, n, n_outputs) for the n comparisons of all sets, one set
        after the other. A set of g comparisons takes O(g^2 d + g^3) time for each lam or, if there
        are more of them than coordinates d, O(g d^2 + d^3) time.
        """
        sizes = np.array([len(one) for one in sets], dtype=np.intp)
        ends = np.cumsum(sizes)
        d = self.n_coordinates
        out = np.empty((len(lams), int(sizes.sum()), self.margin.shape[1]))
        small = np.flatnonzero(sizes <= d)
        excess = None if self.excess is None else [self.excess(one) for one in sets]
        if len(small):
            for which, fits in self._fits(lams):
                for part, listed in alike([sets[k] for k in small.tolist()], d):
                    chosen, size = small[part], listed.shape[1]
                    places = ends[chosen, None] - size + np.arange(size)
                    more = None if excess is None else np.stack([excess[k] for k in chosen])
                    found = self._without(fits, listed, [lams[k] for k in which], more)
                    out[np.array(which)[:, None], places.ravel()] = found
        for k in np.flatnonzero(sizes > d).tolist():
            out[:, ends[k] - sizes[k] : ends[k]] = self._without_many(sets[k], lams)
        return out

    def _without(
        self, fits: _Fits, listed: Index, lams: Sequence[float], excess: Array | None
    ) -> Array:
        """Predictions for sets of the same size, shape (n_lams, n, n_outputs).

        A column of the context that is penalized more is an additional comparison of weight lam *
        excess and margin 0: the opposite of a comparison that is left out.
        """
        (n, size), everything = listed.shape, listed
        if excess is not None:
            columns = len(self.graph.first) + np.arange(excess.shape[1])
            everything = np.hstack((listed, np.tile(columns, (n, 1))))
        fitted, products = fits.together(everything)
        margin = self.extended.margin[everything].reshape(*everything.shape, -1)
        weight = self.extended.weight[everything]
        out = np.empty((len(lams), n * size, margin.shape[2]))
        for k, lam in enumerate(lams):
            E = products(k)
            on = backend_of(E)
            if excess is not None:
                weight[:, size:] = -lam * excess
            left = on.eye(everything.shape[1]) - E * on.array(weight)[:, None, :]
            residual = margin - fitted[:, :, k]
            e = to_host(on.solve(left, on.array(residual)))
            if lam < CLOSE * float(self.A.diagonal().sum()):
                check_digits(1.0, float(np.linalg.svd(to_host(left), compute_uv=False).min()))
            out[k] = (margin - e)[:, :size].reshape(n * size, -1)
        return out

    def _without_many(self, members: Index, lams: Sequence[float]) -> Array:
        """Predictions for a large set, from the moments of the other comparisons."""
        on = backend_of(self.b)
        D = self.extended.differences(self.load, members)
        WD = on.array(self.graph.weight[members])[:, None] * D
        A = self.A - on.matmul(on.contiguous(D.T), on.contiguous(WD))
        b = self.b - on.matmul(on.contiguous(WD.T), on.array(self.margin[members]))
        A = (A + A.T) / 2
        if self.excess is None:
            found = solve_ridge_path(A, b, lams, gram=True)
        else:
            excess, n = on.array(self.excess(members)), len(self.graph.first)
            columns = self.extended.differences(self.load, np.arange(n, n + len(excess)))
            more = on.matmul(on.contiguous(columns.T), excess[:, None] * columns)
            found = [solve_ridge_path(A + lam * more, b, [lam], gram=True)[0] for lam in lams]
        return np.stack([to_host(on.matmul(D, w)) for w in found])

    def _fits(self, lams: Sequence[float]) -> Iterator[tuple[list[int], _Fits]]:
        """Coordinates F T in which (A + lam I)^-1 is diagonal, and the positions of their lams.

        One eigendecomposition A = T diag(s) T' serves all lams. A few lams have a Cholesky factor
        C = T'^-1 each.
        """
        on, norm = backend_of(self.b), float(self.A.diagonal().sum())
        if len(self.b) <= SMALL or len(lams) > on.inverse_cost:
            s, V = on.eigh(on.copy(self.A))
            s = s.clip(min=0.0)
            check_digits(norm, float(s.min()) + min(lams))
            shares = 1.0 / (s[:, None] + on.array(np.asarray(lams, dtype=float)))
            w = ((V.T @ self.b)[:, None, :] * shares[:, :, None]).reshape(len(s), -1)
            yield list(range(len(lams))), _Fits(self, on.contiguous(V), w, shares)
            return
        for k, lam in enumerate(lams):
            M = on.copy(self.A)
            on.diagonal(M)[:] += lam
            C = on.cholesky(M)
            if C is None:
                raise np.linalg.LinAlgError
            check_digits(norm, float((on.diagonal(C) ** 2).min()))
            T = on.contiguous(on.solve_triangular(C, on.eye(len(C))).T)
            yield [k], _Fits(self, T, T.T @ self.b, on.zeros(len(C), 1) + 1.0)


@dataclass(frozen=True, eq=False)
class _Fits:
    """Fits for one or several lams, in the coordinates F T.

    There, the fits predict ``differences @ weights``, with columns for lams and then outputs, and
    E is ``differences @ diag(shares) @ differences'``.
    """

    comparisons: HeldComparisons
    T: Array
    weights: Array
    shares: Array

    def each(self, some: Index) -> tuple[Array, Array]:
        """Predictions (n_lams, n, n_outputs) for some comparisons, and diagonals of E (n_lams, n).

        Both are new arrays in host memory.
        """
        on, n_outputs = backend_of(self.weights), self.comparisons.b.shape[1]
        D = self._differences(some)
        with blas_threads_for(len(self.weights)):
            fitted = np.asarray(to_host(on.matmul(self.weights.T, D.T)))
            D *= D
            leverage = np.asarray(to_host(on.matmul(self.shares.T, D.T)))
        return fitted.reshape(-1, n_outputs, len(some)).swapaxes(1, 2), leverage

    def together(self, listed: Index) -> tuple[Array, Callable[[int], Array]]:
        """Predictions for sets of the same size, (n, size, n_lams, n_outputs), and E for a lam."""
        on, (n, size) = backend_of(self.weights), listed.shape
        D = self._differences(listed.ravel())
        n_outputs = self.comparisons.b.shape[1]
        fitted = to_host(on.matmul(D, self.weights)).reshape(n, size, -1, n_outputs)
        stacked = D.reshape(n, size, -1)
        turned = on.xp.swapaxes(stacked, 1, 2)
        return fitted, lambda k: (stacked * self.shares[:, k]) @ turned

    @cached_property
    def _stored(self) -> Array | None:
        """The coordinates of all rows, if each is used several times and they fit in memory."""
        graph = self.comparisons.extended
        several = graph.n_root_rows > graph.n_rows
        stored = several and graph.n_rows * len(self.weights) <= STORED
        return self._moved(slice(None)) if stored else None

    def _differences(self, some: Index) -> Array:
        graph, stored = self.comparisons.extended, self._stored
        if stored is not None:
            return graph.stored_differences(stored, some)
        return backend_of(self.weights).contiguous(graph.differences(self._moved, some))

    def _moved(self, rows: Any) -> Array:
        F = self.comparisons.load(rows)
        on = backend_of(F)
        return on.matmul(on.contiguous(F), self.T)


def kernel_factor(K: Array) -> Array:
    """F with F F' = K, from a pivoted Cholesky factorization: O(m r^2) time for the rank r."""
    on, largest = backend_of(K), float(abs(K.diagonal()).max())
    order, C, _ = on.pivoted_cholesky(on.copy(K), 8 * len(K) * EPS * largest)
    if len(C) == 0:
        return on.zeros(len(K), 1)
    kept, others = order[: len(C)], order[len(C) :]
    F = on.empty(len(K), len(C))
    F[kept] = C
    if len(others):
        F[others] = on.solve_triangular(C, on.contiguous(K[kept[:, None], others])).T
    probe = on.array(np.random.default_rng(0).standard_normal((len(K), 1)))
    error = abs(on.matmul(K, probe) - on.matmul(F, on.matmul(on.contiguous(F.T), probe))).max()
    if float(error) > INDEFINITE * largest * len(K):
        raise DataError(
            "The kernel is not positive semidefinite, which exact hold-outs of comparisons need. "
            "Use another kernel, or RankingSearchCV with a splitter, which refits."
        )
    return F


def without_items(comparisons: HeldComparisons, lams: Sequence[float], *, both: bool) -> Array:
    """Predictions for comparisons of items none of whose comparisons are known.

    With `both`, every comparison without all comparisons of its two items. Otherwise, every
    comparison without the comparisons of its first item and, after these, of its second item.
    """
    graph = comparisons.graph
    n, ends = len(graph.first), np.column_stack((graph.first, graph.second))
    order = np.argsort(ends.ravel(), kind="stable")
    starts = np.flatnonzero(np.diff(ends.ravel()[order], prepend=-1))
    of_item = {
        int(ends.ravel()[part[0]]): np.sort(part // 2) for part in np.split(order, starts[1:])
    }
    pairs = np.unique(np.sort(ends, axis=1), axis=0).tolist()
    units = pairs if both else [(i, i) for i in of_item]
    out = np.empty((len(lams), n if both else 2 * n, comparisons.margin.shape[1]))
    most = 2 * max(len(members) for members in of_item.values())
    step = max(1, STACKED // (most * len(lams)))
    for start in range(0, len(units), step):
        some = units[start : start + step]
        sets = [np.union1d(of_item[i], of_item[j]) for i, j in some]
        places = np.cumsum([len(members) for members in sets])
        found = np.split(comparisons.sets(sets, lams), places[:-1], axis=1)
        for (i, j), members, part in zip(some, sets, found, strict=True):
            if both:
                asked = np.isin(ends[members], (i, j)).all(axis=1)
                out[:, members[asked]] = part[:, asked]
            else:
                out[:, members + n * (graph.first[members] != i)] = part
    return out
