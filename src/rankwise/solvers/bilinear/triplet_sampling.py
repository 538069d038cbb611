"""Triplets (query, preferred document, other document), drawn block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array
from rankwise.solvers.bilinear.step_arrays import Ints

BLOCK = 1 << 14
MAX_DRAWS = 1000
Draw = Callable[[np.random.Generator, int], Ints]
"""Draws some triplets, as an array of three columns."""
Keep = Callable[[Ints], NDArray[np.bool_]]
"""Says which triplets are wanted."""


class TripletSampler(Protocol):
    """A sequence of triplets that can be read from any step on."""

    def between(self, start: int, stop: int) -> Ints:
        """Triplets start to stop - 1, all in one block."""

    def sample(self, rng: np.random.Generator, n: int) -> Ints:
        """At most n random triplets; none if there are none."""

    def select(self, keep: Keep) -> TripletSampler:
        """Only some of the triplets."""


@dataclass(frozen=True)
class TripletsInOrder:
    """Given triplets, each once, in their order."""

    triplets: Ints

    def between(self, start: int, stop: int) -> Ints:
        return self.triplets[start:stop]

    def sample(self, rng: np.random.Generator, n: int) -> Ints:
        return self.triplets[rng.permutation(len(self.triplets))[:n]]

    def select(self, keep: Keep) -> TripletsInOrder:
        return TripletsInOrder(self.triplets[keep(self.triplets)])


@dataclass(frozen=True)
class DrawnTriplets:
    """Random triplets. A block depends only on the seed and on its number.

    So an interrupted run resumes with the triplets that it would have drawn, and a refit sees the
    same triplets as the fit.
    """

    draw: Draw
    seed: int

    def between(self, start: int, stop: int) -> Ints:
        number = start // BLOCK
        return self._block(number)[start - number * BLOCK : stop - number * BLOCK]

    @cached_property
    def _block(self) -> Callable[[int], Ints]:
        """Draws a block; the last one is kept, as it is often read in parts, or by several runs."""

        def draw(number: int) -> Ints:
            return self.draw(np.random.default_rng([self.seed, number]), BLOCK)

        return lru_cache(maxsize=1)(draw)

    def sample(self, rng: np.random.Generator, n: int) -> Ints:
        return self.draw(rng, n)

    def select(self, keep: Keep) -> DrawnTriplets:
        return DrawnTriplets(selected(self.draw, keep), self.seed)


def selected(draw: Draw, keep: Keep) -> Draw:
    """Some of the triplets that would be drawn: nothing if they are too rare to be found."""

    def draw_more(rng: np.random.Generator, n: int) -> Ints:
        found, n_found = [np.empty((0, 3), np.int64)], 0
        for _ in range(MAX_DRAWS):
            drawn = draw(rng, BLOCK)
            found.append(drawn[keep(drawn)])
            n_found += len(found[-1])
            if n_found >= n or n_found == 0:
                break
        return np.concatenate(found)[:n]

    return draw_more


def from_triplets(triplets: Ints) -> Draw:
    """Given triplets, with replacement."""
    return lambda rng, n: triplets[rng.integers(len(triplets), size=n)]


def from_classes(labels: NDArray[np.intp]) -> Draw:
    """Section IV.A: q any row, d+ another row of its class, d- a row of another class.

    Classes are numbers 0, 1, ...; queries come from classes with at least two rows.
    """
    counts = np.bincount(labels)
    order = np.argsort(labels, kind="stable")
    first = np.cumsum(counts) - counts
    queries = np.flatnonzero(counts[labels] > 1)
    place = np.argsort(order)

    def draw(rng: np.random.Generator, n: int) -> Ints:
        q = queries[rng.integers(len(queries), size=n)]
        size, begin = counts[labels[q]], first[labels[q]]
        # d+ skips the query within its class; d- skips the whole class.
        other = rng.integers(0, size - 1)
        positive = order[begin + other + (begin + other >= place[q])]
        other = rng.integers(0, len(labels) - size)
        negative = order[other + np.where(other >= begin, size, 0)]
        return np.column_stack([q, positive, negative]).astype(np.int64)

    return draw


def from_grades(grades: Array, query: Ints) -> tuple[Draw, int]:
    """All pairs of documents of a query with different grades, each equally likely; their number.

    `query` has the row of Q that each document was judged for.
    """
    order = np.lexsort((grades, query))
    queries, levels = query[order], grades[order]
    new_query = np.r_[True, queries[1:] != queries[:-1]]
    new_level = new_query | np.r_[True, levels[1:] != levels[:-1]]
    places = np.arange(len(order))
    first = np.maximum.accumulate(np.where(new_query, places, 0))
    below = np.maximum.accumulate(np.where(new_level, places, 0)) - first
    ends = np.cumsum(below)

    def draw(rng: np.random.Generator, n: int) -> Ints:
        place = np.searchsorted(ends, rng.integers(ends[-1], size=n), side="right")
        better, worse = order[place], order[first[place] + rng.integers(0, below[place])]
        return np.column_stack([query[better], better, worse]).astype(np.int64)

    return draw, int(ends[-1])
