"""A feature map of parses: walks over the labelled graph of a linkage.

The nodes of the graph are the words of a sentence, its edges the links of a linkage. A node has
two labels: its word in lower case, and its tag, which is the subscript (or the class of an unknown
word) that Link Grammar gives it in this linkage. An edge has its link type, the capital letters of
Link Grammar's label, and a direction along a walk.

A walk of length k visits k + 1 words over k different links, k - 1 of its words in between. Its
features are the sequence of link types with directions, together with what is seen of the words:

| length | what a feature holds |
|---|---|
| 0 | a word with its tag |
| 1 | a link type with its length; its full label; with word, tag or neither at each end |
| 2 | two link types, and: nothing; all tags; the word in the middle; both outer words; all words |
| 3 | three link types, and: nothing; all tags |

A parse is its counts: X_k for length k, and phi = (d^0 X_0, d^1 X_1, ...) for a decay d. Then the
kernel is K = sum_k d^(2k) X_k X_k', or that of phi scaled to length 1 (`cosine`). All counts are
exact; `n_buckets` hashes them into a table of that size, to save memory.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from reproduce.parses.link_grammar import Linkage

_CAPITALS = re.compile(r"[A-Z]+")
_DISTANCES = (1, 2, 3, 5, 8, 13)
_ANY = "*"


@dataclass(frozen=True)
class Node:
    """A word of a parse."""

    word: str
    tag: str


@cache
def node(word: str) -> Node:
    """What Link Grammar calls a word: ``binds.v``, ``NF-kB[!<CAPITALIZED-WORDS>]``, ``the``."""
    base, bracket, rest = word.partition("[")
    if bracket and base:
        return Node(base.lower(), f"[{rest}")
    stem, dot, subscript = word.rpartition(".")
    if dot and stem:
        return Node(stem.lower(), f".{subscript}")
    return Node(word.lower(), "-")


@cache
def link_type(label: str) -> str:
    """The capitals that a label starts with, after the h or d of a head or dependent."""
    found = _CAPITALS.search(label)
    return found.group() if found else label


def distance(i: int, j: int) -> int:
    """The distance of two words, in seven steps."""
    return sum(abs(i - j) > step for step in _DISTANCES)


def walks(linkage: Linkage, length: int) -> Counter[str]:
    """Counts of the features of one length."""
    return Counter(_FEATURES[length](linkage))


def _words(linkage: Linkage) -> Iterator[str]:
    for word in linkage.words:
        at = node(word)
        yield f"{at.word} {at.tag}"


def _links(linkage: Linkage) -> Iterator[str]:
    nodes = [node(word) for word in linkage.words]
    for i, j, label in linkage.links:
        kind = link_type(label)
        yield f"{kind}|{distance(i, j)}"
        yield f"={label}"
        for left in (_ANY, nodes[i].tag, nodes[i].word):
            for right in (_ANY, nodes[j].tag, nodes[j].word):
                yield f"{left} {kind} {right}"


def _pairs_of_links(linkage: Linkage) -> Iterator[str]:
    nodes = [node(word) for word in linkage.words]
    for path, kinds in _paths(linkage, 2):
        a, b, c = (nodes[i] for i in path)
        yield kinds
        yield f"{kinds} {a.tag} {b.tag} {c.tag}"
        yield f"{kinds} {_ANY} {b.word} {_ANY}"
        yield f"{kinds} {a.word} {_ANY} {c.word}"
        yield f"{kinds} {a.word} {b.word} {c.word}"


def _triples_of_links(linkage: Linkage) -> Iterator[str]:
    nodes = [node(word) for word in linkage.words]
    for path, kinds in _paths(linkage, 3):
        yield kinds
        yield f"{kinds} {' '.join(nodes[i].tag for i in path)}"


_FEATURES = {0: _words, 1: _links, 2: _pairs_of_links, 3: _triples_of_links}


def _paths(linkage: Linkage, length: int) -> Iterator[tuple[tuple[int, ...], str]]:
    """Paths of this many links without repeated words, each once, from its smaller end."""
    adjacent: dict[int, list[tuple[int, str]]] = {}
    for i, j, label in linkage.links:
        kind = link_type(label)
        adjacent.setdefault(i, []).append((j, f"{kind}>"))
        adjacent.setdefault(j, []).append((i, f"{kind}<"))

    def extend(path: tuple[int, ...], kinds: str) -> Iterator[tuple[tuple[int, ...], str]]:
        if len(path) == length + 1:
            if path[0] < path[-1]:
                yield path, kinds
            return
        for to, kind in adjacent.get(path[-1], ()):
            if to not in path:
                yield from extend((*path, to), f"{kinds}{kind}")

    for start in adjacent:
        yield from extend((start,), "")


class WalkCounts:
    """Sparse counts of the walks of parses, one matrix for each length.

    Parameters
    ----------
    linkages : sequence of Linkage
    max_length : int
        Longest walks to count, up to 3.
    n_buckets : int, optional
        Hash features into so many columns. None: a column for each feature.
    """

    def __init__(
        self, linkages: Sequence[Linkage], *, max_length: int = 3, n_buckets: int | None = None
    ) -> None:
        self.counts = [
            _count_matrix((walks(c, length) for c in linkages), n_buckets)
            for length in range(max_length + 1)
        ]

    def __len__(self) -> int:
        return int(self.counts[0].shape[0])

    def features(self, max_length: int, decay: float, *, cosine: bool) -> sp.csr_array:
        """phi of every parse, up to a length."""
        scaled = [decay**k * self.counts[k] for k in range(max_length + 1)]
        phi = sp.hstack(scaled, format="csr")
        return sp.csr_array(normalize(phi)) if cosine else phi

    def kernel(self, rows: np.ndarray, others: np.ndarray, **parameters: object) -> np.ndarray:
        """The same as a matrix of kernel values between parses."""
        phi = self.features(**parameters)
        return np.asarray((phi[rows] @ phi[others].T).toarray())


def _count_matrix(counters: Iterable[Counter[str]], n_buckets: int | None) -> sp.csr_array:
    columns: dict[str, int] = {}
    indices, values, indptr = [], [], [0]
    for counter in counters:
        for feature, count in counter.items():
            if n_buckets is None:
                indices.append(columns.setdefault(feature, len(columns)))
            else:
                indices.append(zlib.crc32(feature.encode()) % n_buckets)
            values.append(float(count))
        indptr.append(len(indices))
    width = n_buckets or max(len(columns), 1)
    matrix = sp.csr_array((values, indices, indptr), shape=(len(indptr) - 1, width))
    matrix.sum_duplicates()
    return matrix
