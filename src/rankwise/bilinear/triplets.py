"""Triplets (query, preferred document, other document): checked, drawn in blocks, held out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from rankwise.backends.arrays import Array, check_compressed, is_sparse
from rankwise.bilinear.algorithm_1 import INT32_MAX, Ints
from rankwise.data import draw_triplets
from rankwise.errors import DataError
from rankwise.estimators.ranker_rows import VECTORIZER, explain_rows
from rankwise.graph.query_groups import (
    check_column_names,
    check_lossless,
    finite_numbers,
    missing_entries,
)
from rankwise.tables import plural

BLOCK = 1 << 14
"""Triplets that are drawn at a time."""
SHARE_HELD_OUT = 0.2
MAX_HELD_OUT = 8000
"""Triplets."""
MAX_QUERIES, MAX_RANKED = 1000, 10**6
"""Held-out queries that rank documents, and documents that they rank in all."""
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

    An interrupted run therefore resumes with the triplets that it would have drawn, and a refit
    sees the same triplets as the fit.
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
class HeldOutQueries:
    """Triplets of held-out queries, and the documents that these rank."""

    triplets: Ints
    query: Ints  # of each ranked document, ascending
    document: Ints
    relevant: NDArray[np.bool_]

    @classmethod
    def ranking_their_own(cls, triplets: Ints, rng: np.random.Generator) -> HeldOutQueries:
        """Each ranks the documents of its triplets: relevant ones are preferred in most of them."""
        chosen = rng.permutation(np.unique(triplets[:, 0]))[:MAX_QUERIES]
        rows = triplets[np.isin(triplets[:, 0], chosen)]
        both = np.vstack((rows[:, :2], rows[:, ::2]))
        pairs, number = np.unique(both, axis=0, return_inverse=True)
        wins = np.bincount(number.ravel(), np.repeat([1.0, -1.0], len(rows)))
        return cls(triplets, pairs[:, 0], pairs[:, 1], wins > 0)

    @classmethod
    def ranking_a_pool(
        cls, triplets: Ints, pairs: Ints, rng: np.random.Generator
    ) -> HeldOutQueries:
        """Each ranks the documents that any of them prefers; `pairs` has who prefers which."""
        queries, counts = np.unique(pairs[:, 0], return_counts=True)
        order = rng.permutation(len(queries))[:MAX_QUERIES]
        sizes = np.arange(1, len(order) + 1) * np.cumsum(counts[order])
        chosen = np.sort(queries[order[: max(1, int((sizes <= MAX_RANKED).sum()))]])
        own = pairs[np.isin(pairs[:, 0], chosen)]
        pool, place = np.unique(own[:, 1], return_inverse=True)
        relevant = np.zeros((len(chosen), len(pool)), np.bool_)
        relevant[np.searchsorted(chosen, own[:, 0]), place.ravel()] = True
        ranked = np.repeat(chosen, len(pool)), np.tile(pool, len(chosen)), relevant.ravel()
        return cls(triplets, *ranked)


def split_queries(
    sampler: TripletSampler,
    n_queries: int,
    shared: bool,
    rows: Ints | None,
    seed: int,
) -> tuple[TripletSampler, HeldOutQueries]:
    """Hold out a fifth of the queries, and the documents that go with them.

    Returns the triplets of the other queries, and the held-out ones. Raises DataError if there are
    too few.

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
    """
    rng = np.random.default_rng([seed, SPLIT])
    queries = np.unique((sampler.sample(rng, BLOCK) if rows is None else rows)[:, 0])
    held = np.zeros(n_queries, np.bool_)
    held[rng.permutation(queries)[: max(1, int(SHARE_HELD_OUT * len(queries)))]] = True
    columns = 3 if shared else 1
    training = sampler.select(lambda triplets: ~_any(held, triplets[:, :columns]))
    aside, pairs = np.empty((0, 3), np.int64), None
    if rows is not None:
        mine = held[rows[:, 0]]
        left = rows[~_any(held, rows[:, :columns])]
        documents = np.zeros(rows[:, 1:].max() + 1, np.bool_)  # that a held-out query prefers
        documents[rows[mine, 1]] = True
        without = left[~_any(documents, left[:, 1:])]
        if 2 * len(without) >= max(len(left), 1):  # most triplets do without these documents
            training = training.select(lambda triplets: ~_any(documents, triplets[:, 1:]))
            aside, pairs = unseen_triplets(rows[mine], documents, without, rng)
    elif shared:
        apart = sampler.select(lambda triplets: ~_any(~held, triplets))
        aside = apart.sample(rng, MAX_HELD_OUT)
    if not len(aside):
        others = sampler.select(lambda triplets: held[triplets[:, 0]])
        aside = others.sample(rng, MAX_HELD_OUT)
    if not len(training.sample(rng, 1)):
        raise DataError(
            f"{plural(len(queries), 'query')} cannot be split into queries to learn from and "
            "held-out queries, which choose alpha and eta0 and stop the fit early. Set alpha and "
            "eta0 to numbers and early_stopping=False, pass held_out triplets, or add queries."
        )
    if pairs is None:
        return training, HeldOutQueries.ranking_their_own(aside, rng)
    return training, HeldOutQueries.ranking_a_pool(aside, pairs, rng)


def _any(mask: NDArray[np.bool_], rows: Ints) -> NDArray[np.bool_]:
    """Which lines have a row of the mask."""
    return np.asarray(np.logical_or.reduce(mask[rows], axis=1))


def unseen_triplets(
    rows: Ints, documents: NDArray[np.bool_], training: Ints, rng: np.random.Generator
) -> tuple[Ints, Ints | None]:
    """Held-out triplets between documents that are not learned from.

    A document that is preferred in training would look better than one that is not. If most given
    triplets compare with such a document, others are drawn from the held-out documents. Then pairs
    of queries and preferred documents are returned, too.
    """
    learned = np.zeros(len(documents), np.bool_)
    learned[training[:, 1:]] = True
    given, pairs = rows[~learned[rows[:, 2]]], None
    if 2 * len(given) < len(rows):
        pool, place = np.flatnonzero(documents), np.cumsum(documents) - 1
        pairs = np.unique(rows[:, :2], axis=0)
        pairs[:, 1] = place[pairs[:, 1]]
        pairs = pairs[np.bincount(pairs[:, 0])[pairs[:, 0]] < len(pool)]
        if not len(pairs):
            return given, None
        n_negatives = max(1, MAX_HELD_OUT // len(pairs))
        given = draw_triplets(pairs, len(pool), n_negatives=n_negatives, random_state=rng)
        given[:, 1:], pairs[:, 1] = pool[given[:, 1:]], pool[pairs[:, 1]]
    return given[rng.permutation(len(given))[:MAX_HELD_OUT]], pairs


Rows = tuple[sp.csr_array, sp.csr_array, Ints]
"""Rows of queries, rows of documents, and triplets of them."""


def check_rows(X: Any, name: str) -> sp.csr_array:
    """Dense or sparse rows as a CSR array with sorted columns and no explicit zeros.

    Raises an error for columns that do not exist: compiled code would write to them.
    """
    if hasattr(X, "collect"):
        raise DataError(f"{name} is a lazy data frame: pass {name}.collect().")
    if not is_sparse(X):
        check_lossless(name, X)
    elif X.format in ("csr", "csc"):
        _check_compressed(X, name)
    if hasattr(X, "columns"):
        check_column_names(X, name)
    rows = sp.csr_array(_checked_array(X, name))
    if rows.shape[1] > INT32_MAX:
        raise DataError(f"{name} has {rows.shape[1]} features: the maximum is {INT32_MAX}.")
    _check_compressed(rows, name)
    if not rows.has_canonical_format or (rows.data == 0.0).any():
        rows = rows.copy()  # it may share its arrays with X, which must not change
        rows.sum_duplicates()
        rows.eliminate_zeros()
    return rows


def _check_compressed(rows: Any, name: str) -> None:
    try:
        check_compressed(rows)
    except ValueError as error:
        kind = rows.format.upper()
        raise DataError(f"{name} is not a valid {kind} array: {error}.") from None


def _checked_array(X: Any, name: str) -> Any:
    """scikit-learn's `check_array`, with errors that name the row and column."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # of a sum that looks for NaN
            return check_array(X, accept_sparse="csr", dtype=np.float64, input_name=name)
    except (OverflowError, TypeError, ValueError) as error:
        refused = error
    explain_rows(name, X, refused, encoder=VECTORIZER)
    raise refused


def columns_of(X: Any) -> list[str] | None:
    """The names of a data frame's columns."""
    return [str(name) for name in X.columns] if hasattr(X, "columns") else None


def _as_array(values: Any, name: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:
        raise DataError(f"{name} has entries of different lengths: make them equal.") from None


def check_triplets(triplets: Any, Q: sp.csr_array, D: sp.csr_array, name: str = "triplets") -> Ints:
    """Triplets (q, d+, d-) of existing, different rows with features."""
    check_lossless(name, triplets)
    given = _as_array(triplets, name)
    if given.ndim != 2 or given.shape[1:] != (3,) or len(given) == 0:
        raise DataError(
            f"{name} must have shape (n, 3), with rows (query, preferred document, other document) "
            f"and at least one of them: got shape {given.shape}."
        )
    if given.dtype.kind not in "iu":
        raise DataError(f"{name} must hold row numbers, as whole numbers: got {given.dtype}.")
    for column, what, X in ((0, "Q", Q), (1, "D", D), (2, "D", D)):
        wrong = (given[:, column] < 0) | (given[:, column] >= X.shape[0])
        expected = f"a row of {what}, which has rows 0 to {X.shape[0] - 1}"
        message = f"{name}[{{k}}] is {{triplet}}: {{row}} is not {expected}"
        _refuse(wrong, message, triplet=given, row=given[:, column])
    rows = np.ascontiguousarray(given, dtype=np.int64)
    same = rows[:, 1] == rows[:, 2]
    _refuse(same, f"{name}[{{k}}] prefers document {{row}} to itself", row=rows[:, 1])
    for column, what, X in ((0, "Query", Q), (1, "Document", D), (2, "Document", D)):
        empty = np.diff(X.indptr)[rows[:, column]] == 0
        message = f"{what} {{row}} in {name}[{{k}}] has no features: all of its values are 0"
        _refuse(empty, message, row=rows[:, column])
    return rows


def _refuse(wrong: NDArray[np.bool_], message: str, **of: NDArray[Any]) -> None:
    """Raise an error for the first entry k that is wrong, with how many there are."""
    places = np.flatnonzero(wrong)
    if len(places):
        k, count = int(places[0]), len(places)
        first = message.format(k=k, **{name: values[k] for name, values in of.items()})
        such = f"{count} such {'entry' if count == 1 else 'entries'}"
        raise DataError(f"{first} ({such}). Remove or correct them.")


def check_full_rows(X: sp.csr_array, name: str) -> None:
    """Raise an error for a row without a value other than 0."""
    empty = np.diff(X.indptr) == 0
    _refuse(empty, f"Row {{k}} of {name} has no features: all of its values are 0")


def check_classes(labels: Any, n_rows: int, name: str = "labels") -> NDArray[np.intp]:
    """Class numbers, with at least two classes, one of them with two rows."""
    given = _as_array(labels, name)
    if given.shape != (n_rows,):
        raise DataError(
            f"{name} needs one entry per row of X: got {given.shape} for {n_rows} rows."
        )
    _refuse(missing_entries(given), f"{name}[{{k}}] is missing")
    try:
        classes, numbers, counts = np.unique(given, return_inverse=True, return_counts=True)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in given.tolist()})
        raise DataError(
            f"{name} must be all numbers or all text: got {', '.join(kinds)}."
        ) from None
    if len(classes) < 2 or counts.max() < 2:
        raise DataError(
            "A triplet needs two rows of one class and a row of another: the number of different "
            f"classes in {name} is {len(classes)}, for {n_rows} rows."
        )
    return np.asarray(numbers, dtype=np.intp)


def check_grades(grades: Any, qid: Any, Q: sp.csr_array, D: sp.csr_array) -> tuple[Ints, Array]:
    """One finite grade and one row of Q for each document."""
    values, query = finite_numbers("grades", grades, D.shape[0], "row of D"), _as_array(qid, "qid")
    if query.shape != values.shape:
        raise DataError(
            f"qid needs one entry per row of D: got {query.shape} for {len(values)} rows."
        )
    expected = f"qid must hold rows of Q, from 0 to {Q.shape[0] - 1}"
    if query.dtype.kind not in "iu":
        raise DataError(f"{expected}, which are whole numbers: got {query.dtype}.")
    if query.min() < 0 or query.max() >= Q.shape[0]:
        raise DataError(f"{expected}: got values from {query.min()} to {query.max()}.")
    check_full_rows(D, "D")
    empty = np.diff(Q.indptr)[query] == 0
    _refuse(empty, "Query {query} has no features: all of its values are 0", query=query)
    return query.astype(np.int64), values


def check_names(names: Any, n_features: int, name: str) -> NDArray[Any] | None:
    """One name for each feature, or None."""
    if names is None:
        return None
    ordered = np.iterable(names) and not isinstance(names, (dict, set, frozenset))
    given = np.asarray(list(names) if ordered else [], dtype=str)
    if given.shape != (n_features,):
        raise DataError(
            f"{name} needs one name per feature, in the order of the {n_features} features, such "
            f"as vectorizer.get_feature_names_out(): got {names!r:.60}."
        )
    return given


def has_rows(given: Any) -> bool:
    """Whether held-out triplets come with their own rows: (Q, D, triplets)."""
    if not isinstance(given, (tuple, list)) or len(given) != 3:
        return False
    first = given[0]
    return len(getattr(first, "shape", ())) == 2 or (
        isinstance(first, (list, tuple)) and len(first) > 0 and np.ndim(first[0]) == 1
    )
