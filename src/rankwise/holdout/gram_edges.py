"""Exact hold-outs of few comparisons, from the Gram matrix of their differences.

With differences D, weights W = R^2 and G = D D', the fit is w = D'R a with

    (R G R + lam I) a = R margin.

Without a set S of comparisons, the residuals are e_S = R_S^-1 (P_SS)^-1 a_S, where P is the inverse
of the matrix. Nothing cancels as alpha approaches 0, where the fit predicts each comparison almost
exactly: its leverage is then 1 up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from rankwise.backends.arrays import EPS, Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.holdout.held_out_edges import Edges
from rankwise.holdout.rounding import check_digits, nonnegative, warn_if_lost
from rankwise.solvers.ridge_path import TINY

CYCLE = 1e-8  # smaller shares of a comparison in cycles are rounding errors


@dataclass(frozen=True, eq=False)
class GramEdges(Edges):
    """Comparisons whose differences have the Gram matrix G: O(n^3) time for n comparisons."""

    G: Array

    @property
    def n_coordinates(self) -> int:
        return len(self.G)

    def single(self, some: Index, lams: Sequence[float]) -> Array:
        """See `Edges`."""
        if self.excess is not None:
            return self.sets(list(some[:, None]), lams)
        trained, root, _, V = self._spectrum
        place = self._places[some]
        held, others = np.flatnonzero(place >= 0), np.flatnonzero(place < 0)
        mine, n = place[held], self._n_cycles
        out = np.empty((len(lams), len(some), self.margin.shape[1]))
        for k, (shares, products) in enumerate(self._fits(lams)):
            diagonal = (V[mine] ** 2) @ shares
            residual = (V[mine] @ products) / (diagonal * root[mine])[:, None]
            out[k, held] = self.margin[some[held]] - residual
            # Comparisons of weight 0. Cycles have no part in w = D'R a.
            a = V[:, n:] @ products[n:]
            out[k, others] = self.G[np.ix_(some[others], trained)] @ (root[:, None] * a)
        return out

    def sets(self, sets: Sequence[Index], lams: Sequence[float]) -> Array:
        """See `Edges`. A set of g comparisons takes O(g n + g^3) time for each lam.

        Raises LinAlgError if nothing is left but rounding errors.
        """
        trained, root, s, V = self._spectrum
        ends = np.cumsum([len(one) for one in sets])
        excess = [None if self.excess is None else self.excess(one) for one in sets]
        out = np.empty((len(lams), int(ends[-1]) if len(ends) else 0, self.margin.shape[1]))
        for k, (shares, products) in enumerate(self._fits(lams)):
            if self._n_cycles:
                warn_if_lost(float(s.max()), float(shares[0]))
            P, a = (V * shares) @ V.T, V @ products
            context = None if self.excess is None else self._context_update(P, a)
            for end, one, change in zip(ends, sets, excess, strict=True):
                place = self._places[one]
                held, others = np.flatnonzero(place >= 0), np.flatnonzero(place < 0)
                mine, found = place[held], out[k, end - len(one) : end]
                if context is None or change is None:
                    P_here, a_here = P[:, mine], a
                else:
                    P_here, a_here = context(change, mine)
                y = np.linalg.solve(P_here[mine], a_here[mine])
                found[held] = self.margin[one[held]] - y / root[mine, None]
                if len(others):
                    rest = root[:, None] * (a_here - P_here @ y)
                    found[others] = self.G[np.ix_(one[others], trained)] @ rest
                    if change is not None:
                        Z, less = self._context, change / (1.0 + change)
                        found[others] -= Z[one[others]] @ (less[:, None] * (Z[trained].T @ rest))
        if not np.isfinite(out).all():
            raise np.linalg.LinAlgError
        return out

    def _context_update(self, P: Array, a: Array) -> Callable[[Array, Index], tuple[Array, Array]]:
        """A function of an excess penalty that returns some columns of P, and a.

        G changes by Z diag(c) Z' for the context Z and c = 1 / (1 + excess) - 1, and P by
        -P U T U'P with U = R Z and T = (I + diag(c) U'P U)^-1 diag(c).
        """
        trained, root, _, _ = self._spectrum
        U = root[:, None] * self._context[trained]
        PU = P @ U
        UPU, Ua = U.T @ PU, U.T @ a

        def update(excess: Array, columns: Index) -> tuple[Array, Array]:
            c = -excess / (1.0 + excess)
            T = np.linalg.solve(np.eye(len(c)) + c[:, None] * UPU, np.diag(c))
            return P[:, columns] - PU @ (T @ PU[columns].T), a - PU @ (T @ Ua)

        return update

    @property
    def _context(self) -> Array:
        assert self.graph.context is not None
        return self.graph.context

    def _fits(self, lams: Sequence[float]) -> Iterator[tuple[Array, Array]]:
        """Eigenvalues of P and V'a, for each lam."""
        trained, root, s, V = self._spectrum
        target = V.T @ (root[:, None] * self.margin[trained])
        largest = float(s.max(initial=0.0))
        small = s <= len(s) * EPS * largest  # rounding errors of 0, or lost in them
        kept, dropped = np.where(small, 0.0, s), float(s[small].max(initial=0.0))
        for lam in lams:
            shares = 1.0 / np.maximum(kept + lam, TINY)
            if len(s) > self._n_cycles:
                norm = max(largest, dropped / EPS)
                check_digits(lam, norm, float(shares[self._n_cycles]))
            yield shares, shares[:, None] * target

    @cached_property
    def _places(self) -> Index:
        """The place of each comparison among those with a weight above 0; -1 for the others."""
        counted = self.graph.weight > 0
        return np.where(counted, np.cumsum(counted) - 1, -1)

    @cached_property
    def _spectrum(self) -> tuple[Index, Array, Array, Array]:
        """Comparisons with a weight above 0, roots of weights, and R G R = V diag(s) V'.

        The sum of the differences along a cycle is 0, whatever the features are: as many
        eigenvalues as there are independent cycles are 0. Their eigenvectors come from the graph:
        those of other small eigenvalues are not mixed in. A comparison that is in no cycle has no
        share in them, where rounding errors would be divided by lam.
        """
        trained, n = np.flatnonzero(self.graph.weight > 0), self._n_cycles
        root = np.sqrt(self.graph.weight[trained])
        M = root[:, None] * self.G[np.ix_(trained, trained)] * root
        if n == 0:
            values, V = np.linalg.eigh(M)
        else:
            B = self.graph.incidence[trained][:, self._spanning].toarray()
            Q = np.linalg.qr(root[:, None] * B, mode="complete")[0]
            cuts, cycles = Q[:, :-n], Q[:, -n:]  # RB has the range of the first
            cycles[np.linalg.norm(cycles, axis=1) < CYCLE] = 0.0
            values, U = np.linalg.eigh(cuts.T @ M @ cuts)
            V = np.hstack((cycles, cuts @ U))
        return trained, root, np.append(np.zeros(n), nonnegative(values, 0.0)), V

    @cached_property
    def _n_cycles(self) -> int:
        """The number of independent cycles of the graph of comparisons; 0 with a context."""
        if self.graph.context is not None:
            return 0
        return int(np.count_nonzero(self.graph.weight > 0)) - len(self._spanning)

    @cached_property
    def _spanning(self) -> Index:
        """All rows but one of each part of the graph: their columns of B span its range."""
        graph = self.graph
        counted = graph.weight > 0
        first, second = graph.first[counted], graph.second[counted]
        ends = (np.ones(len(first)), (first, second))
        adjacency = sp.coo_array(ends, shape=(graph.n_rows, graph.n_rows))
        part = connected_components(adjacency, directed=False)[1]
        return np.delete(np.arange(graph.n_rows), np.unique(part, return_index=True)[1])


def gram_of(differences: Array) -> Array:
    """D D' as a NumPy array."""
    on = backend_of(differences)
    return np.asarray(to_host(on.matmul(differences, on.contiguous(differences.T))))
