"""Triplets (query, preferred document, other document), drawn block by block.

A block depends only on the seed and on its number. So an interrupted run resumes with the triplets
that it would have drawn, and a refit sees the same triplets as the fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rankwise.solvers.bilinear.lazy_steps import Ints

BLOCK = 1 << 14


class TripletSampler(Protocol):
    """A sequence of triplets that can be read from any step on."""

    def block(self, number: int) -> Ints:
        """Triplets number * BLOCK to (number + 1) * BLOCK - 1, or as many as there are."""


def triplets_between(sampler: TripletSampler, start: int, stop: int) -> Ints:
    """Triplets start to stop - 1, all in one block."""
    number = start // BLOCK
    return sampler.block(number)[start - number * BLOCK : stop - number * BLOCK]


@dataclass(frozen=True)
class TripletsInOrder:
    """Given triplets, each once, in their order."""

    triplets: Ints

    def block(self, number: int) -> Ints:
        return self.triplets[number * BLOCK : (number + 1) * BLOCK]


@dataclass(frozen=True)
class RandomTriplets:
    """Given triplets, drawn with replacement."""

    triplets: Ints
    seed: int

    def block(self, number: int) -> Ints:
        rows = _generator(self.seed, number).integers(len(self.triplets), size=BLOCK)
        return self.triplets[rows]


@dataclass(frozen=True)
class ClassTriplets:
    """Section IV.A: q any row, d+ another row of its class, d- a row of another class.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,)
        Class numbers 0, 1, ...
    seed : int
    """

    labels: NDArray[np.intp]
    seed: int

    def block(self, number: int) -> Ints:
        return draw_classes(self.labels, BLOCK, _generator(self.seed, number))


def draw_classes(labels: NDArray[np.intp], n: int, rng: np.random.Generator) -> Ints:
    """n triplets of rows by class; queries come from classes with at least two rows."""
    counts = np.bincount(labels)
    order = np.argsort(labels, kind="stable")
    first = np.cumsum(counts) - counts
    queries = np.flatnonzero(counts[labels] > 1)
    q = queries[rng.integers(len(queries), size=n)]
    size, begin = counts[labels[q]], first[labels[q]]
    place = np.empty(len(labels), np.int64)
    place[order] = np.arange(len(labels))
    # d+ skips the query within its class; d- skips the whole class.
    other = rng.integers(0, size - 1)
    positive = order[begin + other + (begin + other >= place[q])]
    other = rng.integers(0, len(labels) - size)
    negative = order[other + np.where(other >= begin, size, 0)]
    return np.column_stack([q, positive, negative]).astype(np.int64)


@dataclass(frozen=True)
class GradedTriplets:
    """All pairs of documents of a query with different grades, each equally likely.

    Parameters
    ----------
    grades : ndarray of shape (n_documents,)
    query : ndarray of shape (n_documents,)
        The row of Q that each document was judged for.
    seed : int
    """

    grades: NDArray[np.float64]
    query: Ints
    seed: int

    def n_pairs(self) -> int:
        """Pairs of documents of one query with different grades."""
        return int(self._below[2].sum())

    def block(self, number: int) -> Ints:
        rng = _generator(self.seed, number)
        order, first, below = self._below
        ends = np.cumsum(below)
        place = np.searchsorted(ends, rng.integers(ends[-1], size=BLOCK), side="right")
        other = first[place] + rng.integers(0, below[place])
        better, worse = order[place], order[other]
        return np.column_stack([self.query[better], better, worse]).astype(np.int64)

    @cached_property
    def _below(self) -> tuple[Ints, Ints, Ints]:
        """Documents by query and grade; where their query begins; how many rank below each."""
        order = np.lexsort((self.grades, self.query))
        query, grades = self.query[order], self.grades[order]
        new_query = np.r_[True, query[1:] != query[:-1]]
        new_level = new_query | np.r_[True, grades[1:] != grades[:-1]]
        places = np.arange(len(order))
        first = np.maximum.accumulate(np.where(new_query, places, 0))
        level = np.maximum.accumulate(np.where(new_level, places, 0))
        return order, first, level - first


def _generator(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng([seed, number])
