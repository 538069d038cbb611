"""Triplets (query, preferred document, other document): drawn block by block, and held out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array
from rankwise.bilinear.algorithm_1 import Ints
from rankwise.data import draw_triplets
from rankwise.errors import DataError

BLOCK = 1 << 14
"""Triplets that are drawn at a time."""
SHARE_HELD_OUT = 0.2
MAX_HELD_OUT = 8000
"""Triplets."""
SPLIT = 2**40
"""The random stream of the split; blocks of triplets have the streams 0, 1, ..."""
MAX_DRAWS = 1000
Draw = Callable[[np.random.Generator, int], Ints]
"""Draws some triplets, as an array of three columns."""
Keep = Callable[[Ints], NDArray[np.bool_]]
"""Says which triplets are wanted."""


@dataclass(frozen=True)
class TripletsInOrder:
    """Given triplets, each once, in their order."""

    triplets: Ints

    def between(self, start: int, stop: int) -> Ints:
        """Triplets start to stop - 1."""
        return self.triplets[start:stop]

    def sample(self, rng: np.random.Generator, n: int) -> Ints:
        """At most n random triplets; none if there are none."""
        return self.triplets[rng.permutation(len(self.triplets))[:n]]

    def select(self, keep: Keep) -> TripletsInOrder:
        """Only some of the triplets."""
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
        """Triplets start to stop - 1, all in one block."""
        number = start // BLOCK
        return self._block(number)[start - number * BLOCK : stop - number * BLOCK]

    @cached_property
    def _block(self) -> Callable[[int], Ints]:
        """Draws a block; the last one is kept, as it is often read in parts, or by several runs."""

        def draw(number: int) -> Ints:
            return self.draw(np.random.default_rng([self.seed, number]), BLOCK)

        return lru_cache(maxsize=1)(draw)

    def sample(self, rng: np.random.Generator, n: int) -> Ints:
        """At most n random triplets; none if there are none."""
        return self.draw(rng, n)

    def select(self, keep: Keep) -> DrawnTriplets:
        """Only some of the triplets."""
        return DrawnTriplets(selected(self.draw, keep), self.seed)


TripletSampler = TripletsInOrder | DrawnTriplets
"""A sequence of triplets that can be read from any step on."""


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


@dataclass(frozen=True)
class QuerySplit:
    """Triplets of the queries to learn from, and triplets of the others."""

    training: TripletSampler
    held_out: Ints


def split_queries(
    sampler: TripletSampler,
    n_queries: int,
    shared: bool,
    rows: Ints | None,
    seed: int,
    *,
    chooses: bool = True,
    stops: bool = False,
) -> QuerySplit:
    """Hold out a fifth of the queries, and the documents that go with them.

    Raises DataError if there are too few.

    Parameters
    ----------
    sampler : TripletSampler
    n_queries : int
        Rows of Q.
    shared : bool
        Whether queries are documents as well.
    rows : ndarray of shape (n, 3) or None
        All triplets; None: they are drawn from classes, or from documents of one query each.
    seed : int
    chooses, stops : bool
        What the held-out queries are for: to choose alpha and eta0, to stop early, or both.
    """
    rng = np.random.default_rng([seed, SPLIT])
    queries = np.unique((sampler.sample(rng, BLOCK) if rows is None else rows)[:, 0])
    held = np.zeros(n_queries, np.bool_)
    held[rng.permutation(queries)[: max(1, int(SHARE_HELD_OUT * len(queries)))]] = True
    columns = 3 if shared else 1
    training = sampler.select(lambda triplets: ~_any(held, triplets[:, :columns]))
    aside = np.empty((0, 3), np.int64)
    if rows is not None:
        mine = held[rows[:, 0]]
        left = rows[~_any(held, rows[:, :columns])]
        documents = preferred_documents(rows, mine)
        without = left[~_any(documents, left[:, 1:])]
        if 2 * len(without) >= max(len(left), 1):  # most triplets do without these documents
            training = training.select(lambda triplets: ~_any(documents, triplets[:, 1:]))
            aside = unseen_triplets(rows[mine], documents, without, rng)
    elif shared:
        apart = sampler.select(lambda triplets: ~_any(~held, triplets))
        aside = apart.sample(rng, MAX_HELD_OUT)
    if not len(aside):
        others = sampler.select(lambda triplets: held[triplets[:, 0]])
        aside = others.sample(rng, MAX_HELD_OUT)
    if not len(training.sample(rng, 1)):
        raise DataError(_too_few(len(queries), chooses=chooses, stops=stops))
    return QuerySplit(training, aside)


def _too_few(n_queries: int, *, chooses: bool, stops: bool) -> str:
    """The message if no query can be held out: what needs one, and what to do."""
    needs, instead = [], []
    if chooses:
        needs.append("alpha and eta0 are chosen on held-out queries")
        instead.append("set alpha and eta0 to numbers")
    if stops:
        needs.append("early_stopping needs held-out queries")
        instead.append("set early_stopping=False or pass triplets of other queries as held_out")
    few = "1 query is" if n_queries == 1 else f"{n_queries} queries are"
    ways = ", and ".join(instead)
    return (
        f"{' and '.join(needs)}, and {few} too few to hold some out. {ways[0].upper()}{ways[1:]}, "
        "or add triplets of other queries to learn from."
    )


def _any(mask: NDArray[np.bool_], rows: Ints) -> NDArray[np.bool_]:
    """Which lines have a row of the mask."""
    return np.asarray(np.logical_or.reduce(mask[rows], axis=1))


def preferred_documents(rows: Ints, mine: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Documents that some of the triplets prefer."""
    documents = np.zeros(rows[:, 1:].max() + 1, np.bool_)
    documents[rows[mine, 1]] = True
    return documents


def unseen_triplets(
    rows: Ints, documents: NDArray[np.bool_], training: Ints, rng: np.random.Generator
) -> Ints:
    """Held-out triplets between documents that are not learned from.

    A document that is preferred in training would look better than one that is not. If most given
    triplets compare with such a document, others are drawn from those that are held out.
    """
    learned = np.zeros(len(documents), np.bool_)
    learned[training[:, 1:]] = True
    given = rows[~learned[rows[:, 2]]]
    if 2 * len(given) < len(rows):
        pool, place = np.flatnonzero(documents), np.cumsum(documents) - 1
        pairs = np.unique(rows[:, :2], axis=0)
        pairs[:, 1] = place[pairs[:, 1]]
        pairs = pairs[np.bincount(pairs[:, 0])[pairs[:, 0]] < len(pool)]
        if not len(pairs):
            return given
        n_negatives = max(1, MAX_HELD_OUT // len(pairs))
        given = draw_triplets(pairs, len(pool), n_negatives=n_negatives, random_state=rng)
        given[:, 1:] = pool[given[:, 1:]]
    return given[rng.permutation(len(given))[:MAX_HELD_OUT]]
