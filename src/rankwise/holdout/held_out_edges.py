"""Comparisons that can be held out: one at a time, or in sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from rankwise.backends.arrays import EPS, Array, Index, to_host
from rankwise.backends.dispatch import backend_of
from rankwise.graph.comparison_graph import ComparisonGraph
from rankwise.holdout.rounding import warn_if_lost

BLOCK = 2**17  # numbers of a block of differences, which fits in a cache
STACKED = 2**20  # numbers of differences of the sets that are processed together
LEAST = 1e-12  # smallest share of a comparison that others leave to be explained by itself


@dataclass(frozen=True, eq=False)
class Edges(ABC):
    """Comparisons that can be held out.

    `excess`, if comparisons have a context, is that of `ContextSpace.without`: without a set of
    comparisons, its columns have another scale.
    """

    graph: ComparisonGraph
    excess: Callable[[Index], Array] | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def n_coordinates(self) -> int:
        """Sets with more comparisons are held out by solving for the others."""

    @property
    def margin(self) -> Array:
        """Margins with an axis for outputs."""
        return self.graph.margin.reshape(len(self.graph.margin), -1)

    @abstractmethod
    def single(self, some: Index, lams: Sequence[float]) -> Array:
        """The prediction for each of some comparisons without it: (n_lams, n_some, n_outputs)."""

    @abstractmethod
    def sets(self, sets: Sequence[Index], lams: Sequence[float]) -> Array:
        """Predictions for sets of comparisons, each without its set.

        Returns an array of shape (n_lams, n, n_outputs) for the n comparisons of all sets, one set
        after the other.
        """


class View(Protocol):
    """Fits for one or several lams."""

    @property
    def condition(self) -> Array:
        """Condition numbers of the systems of the lams, roughly."""

    def each(self, some: Index) -> tuple[Array, Array]:
        """Predictions (n_lams, n, n_outputs) for some comparisons, and diagonals of E (n_lams, n).

        Both are new arrays in host memory.
        """

    def together(self, listed: Index) -> tuple[Array, Callable[[int], Array]]:
        """Predictions for sets of the same size, (n, size, n_lams, n_outputs), and E for a lam."""


@dataclass(frozen=True, eq=False)
class LeverageEdges(Edges):
    """Comparisons that are held out by their leverage in a fit to all of them."""

    @cached_property
    def extended(self) -> ComparisonGraph:
        """The comparisons and, if the scale of the context may change, its columns after them."""
        return self.graph if self.excess is None else self.graph.with_context_columns()

    @property
    def block_size(self) -> int:
        """How many single comparisons are processed together."""
        return max(1, BLOCK // max(1, self.n_coordinates))

    @abstractmethod
    def views(self, lams: Sequence[float]) -> Iterator[tuple[list[int], View]]:
        """Fits, and the positions of their lams."""

    @abstractmethod
    def without_many(self, members: Index, lams: Sequence[float]) -> Array:
        """Predictions for a large set of comparisons, (n_lams, n, n_outputs)."""

    def single(self, some: Index, lams: Sequence[float]) -> Array:
        """See `Edges`."""
        if self.excess is not None:
            return self.sets(list(some[:, None]), lams)
        margin, weight = self.margin, self.graph.weight
        out = np.empty((len(lams), len(some), margin.shape[1]))
        step = self.block_size
        for which, view in self.views(lams):
            for start in range(0, len(some), step):
                part = some[start : start + step]
                fitted, h = view.each(part)
                h *= weight[part]
                np.minimum(h, 1.0 - LEAST, out=h)
                warn_if_lost(float((view.condition / (1.0 - h.max(axis=1))).max()), 1.0)
                fitted -= h[:, :, None] * margin[part]
                fitted /= (1.0 - h)[:, :, None]
                out[which, start : start + step] = fitted
        return out

    def sets(self, sets: Sequence[Index], lams: Sequence[float]) -> Array:
        """See `Edges`.

        A set of g comparisons takes O(g^2 d + g^3) time for each lam or, if there
        are more of them than coordinates d, O(g d^2 + d^3) time. With the inverse of a kernel
        matrix, it is O(g^3) or O(d^3).
        """
        sizes = np.array([len(one) for one in sets], dtype=np.intp)
        ends = np.cumsum(sizes)
        d = self.n_coordinates
        out = np.empty((len(lams), int(sizes.sum()), self.margin.shape[1]))
        small = np.flatnonzero(sizes <= d)
        excess = None if self.excess is None else [self.excess(one) for one in sets]
        if len(small):
            for which, view in self.views(lams):
                for size in np.unique(sizes[small]).tolist():
                    alike = small[sizes[small] == size]
                    step = max(1, STACKED // max(1, size * d))
                    for start in range(0, len(alike), step):
                        chosen = alike[start : start + step]
                        listed = np.stack([sets[k] for k in chosen])
                        places = ends[chosen, None] - size + np.arange(size)
                        more = None if excess is None else np.stack([excess[k] for k in chosen])
                        found = self._without(view, listed, [lams[k] for k in which], more)
                        out[np.array(which)[:, None], places.ravel()] = found
        for k in np.flatnonzero(sizes > d).tolist():
            out[:, ends[k] - sizes[k] : ends[k]] = self.without_many(sets[k], lams)
        return out

    def _without(
        self, view: View, listed: Index, lams: Sequence[float], excess: Array | None
    ) -> Array:
        """Predictions for sets of the same size, shape (n_lams, n, n_outputs).

        A column of the context that is penalized more is a comparison of weight lam * excess that
        is added: the opposite of one that is left out. Its margin is 0.
        """
        (n, size), everything = listed.shape, listed
        if excess is not None:
            columns = len(self.graph.first) + np.arange(excess.shape[1])
            everything = np.hstack((listed, np.tile(columns, (n, 1))))
        fitted, products = view.together(everything)
        margin = self.extended.margin[everything].reshape(*everything.shape, -1)
        weight = self.extended.weight[everything]
        out = np.empty((len(lams), n * size, margin.shape[2]))
        for k, lam in enumerate(lams):
            E = products(k)
            on = backend_of(E)
            if excess is not None:
                weight[:, size:] = -lam * excess
            left = on.array(np.eye(everything.shape[1])) - E * on.array(weight)[:, None, :]
            residual = margin - fitted[:, :, k]
            e = to_host(on.solve(left, on.array(residual)))
            growth = float(abs(e).max()) / max(float(abs(residual).max()), EPS)
            warn_if_lost(view.condition[k], max(1.0, growth))
            out[k] = (margin - e)[:, :size].reshape(n * size, -1)
        return out
