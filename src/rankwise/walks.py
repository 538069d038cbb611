"""Kernels of labelled graphs: walks with the same labels, of any length.

Two walks of the same labels are one walk in the product graph, whose nodes are the pairs of nodes
with the same label, and whose arcs are the pairs of arcs with the same label. With its adjacency
matrix A, there are 1'A^n 1 pairs of walks with n arcs.

If only the labels of the ends must agree, the pairs of walks are <L A^n L', M B^n M'>, where
L A^n L' has the number of walks with n arcs between each two labels. L has a row for each label and
a column for each node of a graph with adjacency matrix A; M and B belong to the other graph.

Rankers hold graphs as rows of numbers. A row has the number of nodes, a code for the label of each
node, the number of arcs of each node, and the head and a code for the label of each arc. Rows are
sparse, so that graphs of different sizes have the same number of columns. All numbers of a row but
the first are stored plus one: a sparse row has no zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwise.backends.arrays import (
    Array,
    Index,
    Sparse,
    is_sparse,
)
from rankwise.backends.jit import compiled
from rankwise.backends.parallel import map_in_threads, threads_for
from rankwise.errors import DataError
from rankwise.parameters import AnyOf, Choice, Flag, Number, Rule, Whole, check_parameters

Codes: TypeAlias = NDArray[np.int64]

COLUMNS = 2**20  # of a row: enough for a quarter of a million undirected edges
NO_LABEL = 0
GIVEN = (
    "Pass a list of graphs, each as (labels, edges), as (labels, adjacency matrix), or as a "
    "networkx graph whose nodes have the attribute 'label'."
)


@dataclass(frozen=True, eq=False)
class LabelledGraphs:
    """Graphs with labelled nodes and arcs; an undirected edge is two arcs.

    Attributes
    ----------
    node_start : ndarray of int
        The first node of every graph, and the number of nodes.
    labels : ndarray of int
        A code for the label of each node.
    arc_start : ndarray of int
        The first arc of every node, and the number of arcs.
    heads : ndarray of int
        The node to which each arc leads.
    arc_labels : ndarray of int
        A code for the label of each arc.
    """

    node_start: Index
    labels: Codes
    arc_start: Index
    heads: Index
    arc_labels: Codes

    def __len__(self) -> int:
        return len(self.node_start) - 1

    @cached_property
    def graph_of(self) -> Index:
        """The graph of each node."""
        return np.repeat(np.arange(len(self)), np.diff(self.node_start))

    @property
    def arrays(self) -> tuple[Index, Codes, Index, Index, Codes]:
        """The arrays, for compiled loops."""
        return self.node_start, self.labels, self.arc_start, self.heads, self.arc_labels

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether there are as many arcs from u to v as from v to u, for any two nodes."""
        tails = np.repeat(np.arange(len(self.labels)), np.diff(self.arc_start))
        ahead, back = (np.lexsort(ends) for ends in ((self.heads, tails), (tails, self.heads)))
        return bool(
            np.array_equal(tails[ahead], self.heads[back])
            and np.array_equal(self.heads[ahead], tails[back])
        )

    def by_label(self) -> LabelledGraphs:
        """The same graphs, with the nodes of each in the order of their labels."""
        order = np.lexsort((self.labels, self.graph_of))
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        degrees = np.diff(self.arc_start)[order]
        arcs = _runs(self.arc_start[order], degrees)
        return LabelledGraphs(
            self.node_start,
            self.labels[order],
            np.concatenate(([0], np.cumsum(degrees))),
            number[self.heads[arcs]],
            self.arc_labels[arcs],
        )

    def take(self, graphs: slice) -> LabelledGraphs:
        """Consecutive graphs."""
        node_start = self.node_start[graphs.start : graphs.stop + 1]
        nodes = slice(node_start[0], node_start[-1])
        arc_start = self.arc_start[nodes.start : nodes.stop + 1]
        arcs = slice(arc_start[0], arc_start[-1])
        return LabelledGraphs(
            node_start - nodes.start,
            self.labels[nodes],
            arc_start - arcs.start,
            self.heads[arcs] - nodes.start,
            self.arc_labels[arcs],
        )

    def to_rows(self) -> Sparse:
        """The rows that `from_rows` reads."""
        sizes = np.diff(self.node_start)
        arcs = self.arc_start[self.node_start]
        n_arcs, first_node = np.diff(arcs), self.node_start[:-1]
        indptr = np.concatenate(([0], np.cumsum(1 + 2 * sizes + 2 * n_arcs)))
        data = np.empty(indptr[-1])
        start = indptr[:-1]
        data[start] = sizes
        heads = self.heads - np.repeat(first_node, n_arcs)
        parts = (self.labels, sizes), (np.diff(self.arc_start), sizes)
        start = start + 1
        for values, lengths in (*parts, (heads, n_arcs), (self.arc_labels, n_arcs)):
            data[_runs(start, lengths)] = values + 1
            start = start + lengths
        indices = np.arange(len(data)) - np.repeat(indptr[:-1], np.diff(indptr))
        if np.diff(indptr).max() > COLUMNS:
            graph = int(np.diff(indptr).argmax())
            raise DataError(
                f"Graph {graph} is too large: {sizes[graph]:,} nodes and {n_arcs[graph]:,} arcs. "
                f"Twice their number can be up to {COLUMNS - 1:,}."
            )
        return sp.csr_array((data, indices, indptr), shape=(len(self), COLUMNS))

    @classmethod
    def from_rows(cls, X: Sparse) -> LabelledGraphs:
        """Graphs from their rows, checked: compiled loops follow the arcs."""
        data, indptr = np.asarray(X.data), np.asarray(X.indptr, dtype=np.intp)
        lengths, start = np.diff(indptr), indptr[:-1]
        in_order = np.arange(len(data)) - np.repeat(start, lengths)
        valid = (lengths > 0).all() and np.array_equal(X.indices, in_order)
        valid = valid and bool(((data >= 1) & (data == np.floor(data)) & (data < 2**53)).all())
        sizes = data[start].astype(np.intp) if valid else lengths
        n_arcs = (lengths - 1 - 2 * sizes) // 2
        if not valid or (n_arcs < 0).any() or (1 + 2 * sizes + 2 * n_arcs != lengths).any():
            raise DataError(f"These rows are not labelled graphs. {GIVEN}")
        parts, start = [], start + 1
        for run in (sizes, sizes, n_arcs, n_arcs):
            parts.append(data[_runs(start, run)].astype(np.int64) - 1)
            start = start + run
        labels, degrees, heads, arc_labels = parts
        node_start = np.concatenate(([0], np.cumsum(sizes)))
        arc_start = np.concatenate(([0], np.cumsum(degrees)))
        whole = np.concatenate(([0], np.cumsum(n_arcs)))
        if (arc_start[node_start] != whole).any() or (heads >= np.repeat(sizes, n_arcs)).any():
            raise DataError(f"These rows are not labelled graphs. {GIVEN}")
        return cls(
            node_start, labels, arc_start, heads + np.repeat(node_start[:-1], n_arcs), arc_labels
        )


def _runs(start: Index, lengths: Index) -> Index:
    """start[0], start[0] + 1, ..., for each run of a length, one after the other."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(start - ends + lengths, lengths)


class GraphReader:
    """Reads graphs, and remembers the names of the labels that it has met.

    Parameters
    ----------
    directed : bool
        Whether the edges of lists have a direction. networkx graphs know, and a matrix is directed
        unless it is symmetric.
    """

    def __init__(self, *, directed: bool = False) -> None:
        self.directed = directed
        self._codes: dict[Any, int] = {}

    @property
    def names(self) -> dict[int, str]:
        """The text of each label, by its code; with quotes if 1 and "1" are both labels."""
        named = {code: str(label) for label, code in self._codes.items()}
        if len(set(named.values())) < len(named):
            named = {code: repr(label) for label, code in self._codes.items()}
        return {NO_LABEL: "", **named}

    def read(self, graphs: Any) -> LabelledGraphs:
        """The graphs of a list, or of rows that already hold graphs."""
        if is_sparse(graphs):
            if graphs.shape[1] != COLUMNS:
                raise DataError(f"X is a sparse matrix, not a list of graphs. {GIVEN}")
            return LabelledGraphs.from_rows(graphs)
        if isinstance(graphs, (str, bytes, dict)) or not isinstance(graphs, Iterable):
            raise DataError(f"Graphs must be a list: got {type(graphs).__name__}. {GIVEN}")
        if hasattr(graphs, "nodes"):
            raise DataError("Got one graph in place of a list of graphs: pass [graph].")
        sizes, labels = [0], []
        edges: list[tuple[int, int, int]] = []
        for number, graph in enumerate(graphs):
            own, found = self._read_one(graph, f"graph {number}")
            offset = sizes[-1]
            edges.extend((offset + i, offset + j, label) for i, j, label in found)
            labels.extend(own)
            sizes.append(offset + len(own))
        if len(sizes) == 1:
            raise DataError(f"There are no graphs. {GIVEN}")
        arcs = np.array(edges, dtype=np.int64).reshape(-1, 3)
        arcs = arcs[np.argsort(arcs[:, 0], kind="stable")]
        arc_start = np.searchsorted(arcs[:, 0], np.arange(sizes[-1] + 1)).astype(np.intp)
        return LabelledGraphs(
            np.array(sizes, dtype=np.intp),
            np.array(labels, dtype=np.int64),
            arc_start,
            np.ascontiguousarray(arcs[:, 1]).astype(np.intp),
            np.ascontiguousarray(arcs[:, 2]),
        )

    def _read_one(self, graph: Any, where: str) -> tuple[list[int], list[tuple[int, int, int]]]:
        """Codes of the labels of nodes, and arcs with codes of labels."""
        if hasattr(graph, "nodes") and hasattr(graph, "is_directed"):
            labels, edges, directed = _of_networkx(graph, where)
        elif (
            not isinstance(graph, (tuple, list))
            or len(graph) != 2
            or isinstance(graph[0], (set, frozenset, dict))
            or not all(isinstance(part, Iterable) or is_sparse(part) for part in graph)
        ):
            raise DataError(f"{where.capitalize()} is a {type(graph).__name__}. {GIVEN}")
        elif is_sparse(graph[1]) or isinstance(graph[1], np.ndarray):
            labels = list(graph[0])
            edges, directed = _of_matrix(graph[1], len(labels), where)
        else:
            labels, edges, directed = list(graph[0]), list(graph[1]), self.directed
        if not labels:
            raise DataError(f"{where.capitalize()} has no nodes: leave it out.")
        codes = [self._code(label, f"node {i} of {where}") for i, label in enumerate(labels)]
        return codes, list(self._arcs(edges, len(codes), where, directed=directed))

    def _arcs(
        self, edges: Sequence[Any], n_nodes: int, where: str, *, directed: bool
    ) -> Iterator[tuple[int, int, int]]:
        for edge in edges:
            if not isinstance(edge, (tuple, list)) or len(edge) not in (2, 3):
                raise DataError(
                    f"An edge of {where} is {edge!r}: edges are (node, node) or (node, node, "
                    "label), with the numbers of nodes."
                )
            i, j = edge[:2]
            if not all(isinstance(node, (int, np.integer)) for node in (i, j)) or not (
                0 <= i < n_nodes and 0 <= j < n_nodes
            ):
                raise DataError(
                    f"The edge {edge!r} of {where} must join two of the nodes 0 to {n_nodes - 1}."
                )
            code = NO_LABEL
            if len(edge) == 3 and edge[2] is not None:
                code = self._code(edge[2], f"an edge of {where}")
            yield i, j, code
            if not directed and i != j:
                yield j, i, code

    def _code(self, label: Any, where: str) -> int:
        """A hash of 52 bits, which a float64 holds, and which is the same in every process."""
        if isinstance(label, np.generic):
            label = label.item()
        if not _is_label(label):
            raise DataError(
                f"The label of {where} is {label!r}: labels are text, whole numbers, or tuples of "
                "these."
            )
        if label not in self._codes:
            digest = blake2b(ascii(label).encode(), digest_size=8).digest()
            code = int.from_bytes(digest, "little") >> 12
            self._codes[label] = code
        return self._codes[label]


def _is_label(label: Any) -> bool:
    if type(label) is tuple:
        return all(_is_label(part) for part in label)
    return type(label) in (str, int)


def _of_networkx(graph: Any, where: str) -> tuple[list[Any], list[Any], bool]:
    """Labels, edges and whether these have directions, of a networkx graph."""
    number = {node: i for i, node in enumerate(graph.nodes)}
    labels = [attributes.get("label") for _, attributes in graph.nodes(data=True)]
    if None in labels:
        node = list(graph.nodes)[labels.index(None)]
        raise DataError(f"Node {node!r} of {where} has no attribute 'label'.")
    edges = [(number[i], number[j], a.get("label")) for i, j, a in graph.edges(data=True)]
    return labels, edges, bool(graph.is_directed())


def _of_matrix(matrix: Any, n_nodes: int, where: str) -> tuple[list[Any], bool]:
    """Edges of an adjacency matrix, and whether they have directions; 1 is an edge without label.

    Other whole numbers are labels of edges, such as the order of a bond.
    """
    if matrix.shape != (n_nodes, n_nodes):
        raise DataError(
            f"The adjacency matrix of {where} must have a row and a column for each of its "
            f"{n_nodes} labels: got shape {matrix.shape}."
        )
    whole = matrix.dtype.kind in "biuf"
    if whole:
        found = sp.coo_array(matrix)
        found.eliminate_zeros()
        whole = bool((np.isfinite(found.data) & (found.data == np.floor(found.data))).all())
    if not whole:
        raise DataError(
            f"The adjacency matrix of {where} has values that are not whole numbers: values are "
            "labels of edges, and 1 stands for an edge without a label."
        )
    directed = bool(abs(found - found.T).max())
    edges = [
        (int(i), int(j), None if value == 1 else int(value))
        for i, j, value in zip(found.row, found.col, found.data, strict=True)
        if directed or i <= j
    ]
    return edges, directed


def are_graphs(X: Any) -> bool:
    """Whether X can only be a list of graphs: its first is a networkx graph, or two sequences."""
    listed = isinstance(X, (list, tuple)) or (isinstance(X, np.ndarray) and X.ndim == 1)
    first = X[0] if listed and len(X) else None
    if hasattr(first, "nodes"):
        return True
    parts = first if isinstance(first, (list, tuple)) else ()
    return len(parts) == 2 and isinstance(parts[0], (str, list, tuple, np.ndarray))


GraphArrays: TypeAlias = tuple[Index, Codes, Index, Index, Codes]
CountArrays: TypeAlias = tuple[Index, Index, Index, Codes, Index, Array, Index, Codes]
EVEN, ODD = 1, 2  # of walks: in a tree with other labels at every second node, only one kind occurs

TOL = 1e-16  # of a kernel value, by which longer walks may change it
HUGE = 1e250  # a term of a sum that does not converge
MOST_STEPS = 1000  # after which the terms of a sum that converges are below TOL
SLOW = 0.95  # of the largest decay, for which terms fall too slowly
BLOCK_BYTES = 32 * 2**20  # of counts between labels in memory at a time
TILE = 4  # graphs whose counts stay in the cache of a core
LEAST_GRAPHS = 64  # of a block: counting takes longer than a few products
PARAMETERS: dict[str, Rule] = {
    "decay": Number(0, open_low=True),
    "labels": Choice("all", "ends"),
    "max_length": AnyOf(None, Whole(0)),
    "directed": Flag(),
    "normalize": Flag(),
}


@dataclass(frozen=True)
class WalkKernel:
    """The number of pairs of walks with the same labels, in two labelled graphs.

        k(G, H) = sum over n of decay^n w_n(G, H)

    w_n is the number of pairs of walks with n arcs. With ``labels="all"``, the labels of all nodes
    and arcs of the two walks agree, in their order. With ``labels="ends"``, the labels of their
    first and last nodes agree (Gärtner). Walks may visit a node several times, and an edge without
    direction is followed both ways.

    Pass it as `kernel` to a ranker, with a list of graphs in place of X, or compute a matrix for
    ``kernel="precomputed"``. Sums are exact to rounding errors. `GraphWalks` computes features
    with the same products, for walks up to a length.

    A value takes O(nodes x nodes' + steps x arcs of the product graph) time with ``labels="all"``,
    and O(steps x shared labels^2) with ``labels="ends"``. A matrix needs little memory besides
    itself.

    Parameters
    ----------
    decay : float, default=0.1
        The weight of each further arc. The sum over all lengths is finite only if decay is small
        enough for the graphs; an error tells the limit.
    labels : {"all", "ends"}, default="all"
        Which labels of two walks agree.
    max_length : int, optional
        The number of arcs of the longest walks. None: walks of all lengths.
    directed : bool, default=False
        Whether the edges of lists have a direction: (i, j) leads from i to j only. networkx graphs
        know, and a matrix is directed unless it is symmetric.
    normalize : bool, default=True
        Divide by the square root of k(G, G) k(H, H), so that large graphs are not similar to all
        others.

    References
    ----------
    T. Gärtner, P. Flach, S. Wrobel: On graph kernels: hardness results and efficient alternatives.
    COLT 2003. T. Pahikkala, E. Tsivtsivadze, J. Boberg, T. Salakoski: Graph kernels versus graph
    representations: a case study in parse ranking. MLG 2006.

    Examples
    --------
    >>> from rankwise import RankRLS, WalkKernel
    >>> ethanol = ("CCO", [(0, 1), (1, 2)])
    >>> propane = ("CCC", [(0, 1), (1, 2)])
    >>> ether = ("COC", [(0, 1), (1, 2)])
    >>> WalkKernel(normalize=False, max_length=1)([ethanol, propane])
    array([[ 5.6,  6.8],
           [ 6.8, 10.6]])
    >>> ranker = RankRLS(0.1, kernel=WalkKernel()).fit([ethanol, propane, ether], [2, 0, 1])
    >>> ranker.predict([ethanol, propane, ether]).argsort()
    array([1, 2, 0])
    """

    decay: float = 0.1
    labels: str = "all"
    max_length: int | None = None
    directed: bool = False
    normalize: bool = True

    def as_rows(self, graphs: Any) -> Sparse:
        """Graphs as sparse rows of numbers, which rankers, hold-outs and model files can hold.

        Parameters
        ----------
        graphs : list of graphs, or rows that this method returned
            Each graph is (labels, edges), (labels, adjacency matrix) or a networkx graph.

        Returns
        -------
        csr_array
            Indexing its rows is the same as indexing graphs.
        """
        check_parameters(self, PARAMETERS)
        return self._read(graphs).to_rows()

    def __call__(self, X: Any, Y: Any = None) -> Array:
        check_parameters(self, PARAMETERS)
        first = self._read(X)
        second = first if Y is None else self._read(Y)
        own, steps = self._own(first)
        others, other_steps = (own, steps) if Y is None else self._own(second)
        count = _whole_walks if self.labels == "all" else _walk_ends
        K = count((first, steps), (second, other_steps), self.decay, Y is None)
        if self.normalize:
            K /= np.sqrt(own)[:, None]
            K /= np.sqrt(others)
        return K

    def diag(self, X: Any) -> Array:
        """k(G, G) for each graph."""
        own = self._own(self._read(X))[0]
        return np.ones(len(own)) if self.normalize else own

    def _read(self, graphs: Any) -> LabelledGraphs:
        return GraphReader(directed=self.directed).read(graphs).by_label()

    def _own(self, graphs: LabelledGraphs) -> tuple[Array, Index]:
        """k(G, G) of each graph without normalization, and the length of walks that matters.

        Let t_n be the terms of k(G, G). Longer walks than n add at most t_n k(G, G), since
        w_{m+n} <= w_m w_n. For pairs of different graphs, see `_lengths`.
        """
        values, steps = np.empty(len(graphs)), np.zeros(len(graphs), np.intp)
        most = MOST_STEPS if self.max_length is None else self.max_length
        terms = np.zeros((len(graphs), 3))  # the last three
        loop = _own_walks if self.labels == "all" else _own_ends
        loop(graphs.arrays, float(self.decay), most, values, steps, terms)
        diverges = terms[:, 2] > TOL
        if self.max_length is None and diverges.any():
            graph = int(np.argmax(diverges))
            # Over two steps: in a tree, walks of odd and of even lengths grow in turn.
            limit = SLOW * self.decay * np.sqrt(terms[graph, 0] / terms[graph, 2])
            raise DataError(
                f"decay={self.decay:g} is too large for walks of all lengths in graph {graph}, "
                f"whose walks grow faster than they are discounted: use a decay below "
                f"{limit:.2g}, or a max_length."
            )
        if values.max() > HUGE:
            raise DataError(
                f"The number of walks overflows for max_length={self.max_length} and "
                f"decay={self.decay:g}: use smaller ones."
            )
        return values, steps


def _row_parts(n_rows: int, n_columns: int) -> tuple[list[Index], int]:
    """Rows for each thread; every second row, as the first rows of a triangle are long."""
    n_threads = min(threads_for(100 * n_rows * n_columns), n_rows)
    return [np.arange(k, n_rows, n_threads) for k in range(n_threads)], n_threads


def _mirror(K: Array) -> None:
    """Copy the upper triangle to the lower one, in blocks."""
    for start in range(0, len(K), 256):
        rows = slice(start, start + 256)
        K[start + 256 :, rows] = K[rows, start + 256 :].T
        square = K[rows, rows]
        square[:] = np.triu(square) + np.triu(square, 1).T


def _whole_walks(
    left: tuple[LabelledGraphs, Index],
    right: tuple[LabelledGraphs, Index],
    decay: float,
    upper: bool,
) -> Array:
    """Kernel values by the product graphs."""
    (first, steps), (second, other_steps) = left, right
    K = np.zeros((len(first), len(second)))
    n_steps = int(max(steps.max(), other_steps.max()))
    parts, n_threads = _row_parts(*K.shape)

    def compute(rows: Index) -> None:
        _product_walks(first.arrays, second.arrays, rows, decay, n_steps, upper, K)

    map_in_threads(compute, parts, n_threads)
    if upper:
        _mirror(K)
    return K


@compiled
def _most(starts: Index) -> int:
    most = 1
    for k in range(len(starts) - 1):
        most = max(most, starts[k + 1] - starts[k])
    return most


@compiled
def _walk_sum(
    graph: GraphArrays,
    other: GraphArrays,
    g: int,
    h: int,
    decay: float,
    n_steps: int,
    start: Index,
    targets: Index,
    place: Index,
    pairs: Index,
    x: Array,
    z: Array,
    terms: Array,
) -> tuple[float, int, Index]:
    """Sum over n of decay^n 1'A^n 1 for the product of two graphs; the number of steps.

    The nodes of each graph are in the order of their labels.
    """
    node_start, labels, arc_start, heads, arc_labels = graph
    other_start, other_labels, other_arc_start, other_heads, other_arc_labels = other
    u0, v0 = node_start[g], other_start[h]
    width = other_start[h + 1] - v0
    n_nodes, n_arcs, first = 0, 0, v0
    for u in range(u0, node_start[g + 1]):
        while first < other_start[h + 1] and other_labels[first] < labels[u]:
            first += 1
        v = first
        while v < other_start[h + 1] and other_labels[v] == labels[u]:
            place[(u - u0) * width + v - v0] = n_nodes
            pairs[n_nodes, 0], pairs[n_nodes, 1] = u, v
            n_nodes += 1
            v += 1
    for k in range(n_nodes):
        u, v = pairs[k]
        start[k] = n_arcs
        for a in range(arc_start[u], arc_start[u + 1]):
            to = heads[a]
            for b in range(other_arc_start[v], other_arc_start[v + 1]):
                other_to = other_heads[b]
                if labels[to] != other_labels[other_to] or arc_labels[a] != other_arc_labels[b]:
                    continue
                if n_arcs == len(targets):
                    targets = np.concatenate((targets, targets))
                targets[n_arcs] = place[(to - u0) * width + other_to - v0]
                n_arcs += 1
    start[n_nodes] = n_arcs
    total, steps = float(n_nodes), 0
    terms[:] = 0.0
    x[:n_nodes] = 1.0
    while steps < n_steps and n_arcs:
        steps += 1
        term = 0.0
        for k in range(n_nodes):
            value = 0.0
            for arc in range(start[k], start[k + 1]):
                value += x[targets[arc]]
            z[k] = decay * value
            term += z[k]
        x, z = z, x
        total += term
        terms[0], terms[1], terms[2] = terms[1], terms[2], term
        if term <= TOL or term > HUGE:
            break
    return total, steps, targets


@compiled
def _own_walks(
    graphs: GraphArrays, decay: float, n_steps: int, values: Array, steps: Index, terms: Array
) -> None:
    size = _most(graphs[0])
    start, place = np.empty(size * size + 1, np.intp), np.empty(size * size, np.intp)
    pairs = np.empty((size * size, 2), np.intp)
    x, z = np.empty(size * size), np.empty(size * size)
    targets = np.empty(4 * size, np.intp)
    for g in range(len(values)):
        values[g], steps[g], targets = _walk_sum(
            graphs, graphs, g, g, decay, n_steps, start, targets, place, pairs, x, z, terms[g]
        )


@compiled
def _product_walks(
    graphs: GraphArrays,
    others: GraphArrays,
    rows: Index,
    decay: float,
    n_steps: int,
    upper: bool,
    K: Array,
) -> None:
    size = _most(graphs[0]) * _most(others[0])
    start, place = np.empty(size + 1, np.intp), np.empty(size, np.intp)
    pairs, x, z = np.empty((size, 2), np.intp), np.empty(size), np.empty(size)
    targets, terms = np.empty(64, np.intp), np.empty(3)
    for g in rows:
        for h in range(g if upper else 0, K.shape[1]):
            K[g, h], _, targets = _walk_sum(
                graphs, others, g, h, decay, n_steps, start, targets, place, pairs, x, z, terms
            )


@dataclass(frozen=True, eq=False)
class EndCounts:
    """decay^(n/2) L A^n L' of some graphs, for n = 0, 1, ...: counts between their labels.

    Graph k has the labels ``labels[label_start[k]:label_start[k + 1]]``, in ascending order, and
    counts from ``start[k]`` on, of shape (labels, labels, lengths[k]), with even lengths before
    odd ones. From ``pair_start[k]`` on, `kinds` tells for each pair of labels whether there are
    EVEN walks, ODD walks, or both. Walks of up to ``steps[k]`` arcs matter for the graph itself,
    and up to twice as many for pairs with other graphs: by Cauchy and Schwarz, and since
    t_{2n} <= t_n^2, longer ones are rounding errors.
    """

    steps: Index
    lengths: Index
    label_start: Index
    labels: Codes
    start: Index
    counts: Array
    pair_start: Index
    kinds: Codes

    @classmethod
    def of(cls, graphs: LabelledGraphs, steps: Index, most: int, decay: float) -> EndCounts:
        """Count the walks of graphs, with up to `most` arcs."""
        lengths = np.minimum(2 * steps, most) + 1
        nodes = zip(graphs.node_start[:-1], graphs.node_start[1:], strict=True)
        parts = [np.unique(graphs.labels[a:b]) for a, b in nodes]
        sizes = np.array([len(part) for part in parts])
        label_start = np.concatenate(([0], np.cumsum(sizes)))
        start = np.concatenate(([0], np.cumsum(sizes**2 * lengths)))
        pair_start = np.concatenate(([0], np.cumsum(sizes**2)))
        labels, counts = np.concatenate(parts), np.zeros(start[-1])
        kinds = np.zeros(pair_start[-1], np.int64)
        _count_ends(graphs.arrays, start, lengths, np.sqrt(decay), counts, pair_start, kinds)
        return cls(steps, lengths, label_start, labels, start, counts, pair_start, kinds)

    @property
    def arrays(self) -> CountArrays:
        """The arrays, for compiled loops."""
        first = self.steps, self.lengths, self.label_start, self.labels
        return *first, self.start, self.counts, self.pair_start, self.kinds


def _walk_ends(
    left: tuple[LabelledGraphs, Index],
    right: tuple[LabelledGraphs, Index],
    decay: float,
    upper: bool,
) -> Array:
    """Kernel values as products of counts between labels, a block of graphs at a time."""
    K = np.zeros((len(left[0]), len(right[0])))
    most = int(max(left[1].max(), right[1].max()))
    symmetric = left[0].is_symmetric and right[0].is_symmetric
    for rows in _blocks_of_graphs(*left):
        first = EndCounts.of(left[0].take(rows), left[1][rows], most, decay)
        for columns in _blocks_of_graphs(*right):
            if upper and columns.start < rows.start:
                continue
            own = upper and columns == rows
            second = first
            if not own:
                second = EndCounts.of(right[0].take(columns), right[1][columns], most, decay)
            _set_products(first, second, symmetric, own, K[rows, columns])
    if upper:
        _mirror(K)
    return K


def _blocks_of_graphs(graphs: LabelledGraphs, steps: Index) -> list[slice]:
    """Consecutive graphs whose counts fit into a block, or a few larger ones."""
    sizes = 16 * (steps + 1) * np.diff(graphs.node_start) ** 2
    starts, n_bytes = [0], 0
    for graph, size in enumerate(sizes.tolist()):
        if n_bytes + size > BLOCK_BYTES and graph - starts[-1] >= LEAST_GRAPHS:
            starts.append(graph)
            n_bytes = 0
        n_bytes += size
    return [slice(a, b) for a, b in zip(starts, [*starts[1:], len(graphs)], strict=True)]


def _set_products(
    first: EndCounts, second: EndCounts, symmetric: bool, upper: bool, K: Array
) -> None:
    parts, n_threads = _row_parts(*K.shape)

    def compute(rows: Index) -> None:
        _end_products(first.arrays, second.arrays, rows, symmetric, upper, K)

    map_in_threads(compute, parts, n_threads)


@compiled
def _count_labels(graphs: GraphArrays, g: int, own: Index, X: Array) -> int:
    """How many labels a graph has; sets the number of the label of each node, and X = L'.

    The nodes of each graph are in the order of their labels.
    """
    node_start, labels = graphs[:2]
    u0, n, q = node_start[g], node_start[g + 1] - node_start[g], 0
    for u in range(n):
        if u == 0 or labels[u0 + u] != labels[u0 + u - 1]:
            q += 1
        own[u] = q - 1
    X[:n, :q] = 0.0
    for u in range(n):
        X[u, own[u]] = 1.0
    return q


@compiled
def _step(graphs: GraphArrays, g: int, q: int, root: float, X: Array, Z: Array) -> None:
    """Z = root A X, in q columns."""
    node_start, _, arc_start, heads, _ = graphs
    u0 = node_start[g]
    for u in range(node_start[g + 1] - u0):
        for column in range(q):
            Z[u, column] = 0.0
        for arc in range(arc_start[u0 + u], arc_start[u0 + u + 1]):
            head = heads[arc] - u0
            for column in range(q):
                Z[u, column] += root * X[head, column]


@compiled
def _between_labels(n: int, q: int, own: Index, X: Array, F: Array) -> None:
    """F = L X, in q rows and columns."""
    for row in range(q):
        for column in range(q):
            F[row, column] = 0.0
    for u in range(n):
        for column in range(q):
            F[own[u], column] += X[u, column]


@compiled
def _count_ends(
    graphs: GraphArrays,
    start: Index,
    lengths: Index,
    root: float,
    counts: Array,
    pair_start: Index,
    kinds: Codes,
) -> None:
    """root^n L A^n L' of each graph, for each of its lengths n."""
    size = _most(graphs[0])
    own = np.empty(size, np.intp)
    X, Z, F = np.empty((size, size)), np.empty((size, size)), np.empty((size, size))
    for g in range(len(lengths)):
        n = graphs[0][g + 1] - graphs[0][g]
        q = _count_labels(graphs, g, own, X)
        for length in range(lengths[g]):
            if length:
                _step(graphs, g, q, root, X, Z)
                X, Z = Z, X
            _between_labels(n, q, own, X, F)
            at, pair = start[g] + length // 2, pair_start[g]
            if length % 2:
                at += (lengths[g] + 1) // 2
            for row in range(q):
                for column in range(q):
                    counts[at] = F[row, column]
                    if F[row, column] > 0.0:
                        kinds[pair] |= ODD if length % 2 else EVEN
                    at += lengths[g]
                    pair += 1


@compiled
def _own_ends(
    graphs: GraphArrays, decay: float, n_steps: int, values: Array, steps: Index, terms: Array
) -> None:
    """Sum over n of decay^n |L A^n L'|^2 for each graph, until the terms are below TOL."""
    size, root = _most(graphs[0]), np.sqrt(decay)
    own = np.empty(size, np.intp)
    X, Z, F = np.empty((size, size)), np.empty((size, size)), np.empty((size, size))
    for g in range(len(values)):
        n = graphs[0][g + 1] - graphs[0][g]
        q = _count_labels(graphs, g, own, X)
        values[g], steps[g] = 0.0, -1
        while steps[g] < n_steps:
            steps[g] += 1
            _between_labels(n, q, own, X, F)
            term = 0.0
            for row in range(q):
                for column in range(q):
                    term += F[row, column] * F[row, column]
            terms[g, 0], terms[g, 1], terms[g, 2] = terms[g, 1], terms[g, 2], term
            values[g] += term
            if term <= TOL or term > HUGE:
                break
            _step(graphs, g, q, root, X, Z)
            X, Z = Z, X


@partial(compiled, fastmath={"reassoc", "contract"})  # sums over lengths in parallel
def _end_products(
    graphs: CountArrays, others: CountArrays, rows: Index, symmetric: bool, upper: bool, K: Array
) -> None:
    """Products of the counts of each two graphs, over the labels that both have.

    In symmetric graphs, there are as many walks from label i to j as from j to i.
    """
    steps, lengths, label_start, labels, start, counts, pair_start, kinds = graphs
    their_steps, their_lengths, their_label_start, their_labels = others[:4]
    their_start, their_counts, their_pair_start, their_kinds = others[4:]
    size = _most(label_start)
    mine, theirs = np.empty(size, np.intp), np.empty(size, np.intp)
    for first in range(0, len(rows), TILE):
        for h in range(K.shape[1]):
            for g in rows[first : first + TILE]:
                if upper and h < g:
                    continue
                a0, p = label_start[g], label_start[g + 1] - label_start[g]
                b0, q = their_label_start[h], their_label_start[h + 1] - their_label_start[h]
                n_lengths = min(lengths[g], their_lengths[h], max(steps[g], their_steps[h]) + 1)
                a, b, shared = 0, 0, 0
                while a < p and b < q:
                    if labels[a0 + a] == their_labels[b0 + b]:
                        mine[shared], theirs[shared] = a, b
                        shared += 1
                        a += 1
                        b += 1
                    elif labels[a0 + a] < their_labels[b0 + b]:
                        a += 1
                    else:
                        b += 1
                total = 0.0
                for i in range(shared):
                    for j in range(i if symmetric else 0, shared):
                        pair, their_pair = mine[i] * p + mine[j], theirs[i] * q + theirs[j]
                        both = (
                            kinds[pair_start[g] + pair]
                            & their_kinds[their_pair_start[h] + their_pair]
                        )
                        weight = 2.0 if symmetric and i < j else 1.0
                        s = start[g] + pair * lengths[g]
                        t = their_start[h] + their_pair * their_lengths[h]
                        if both & EVEN:
                            value = 0.0
                            for k in range((n_lengths + 1) // 2):
                                value += counts[s + k] * their_counts[t + k]
                            total += weight * value
                        if both & ODD:
                            s, t = s + (lengths[g] + 1) // 2, t + (their_lengths[h] + 1) // 2
                            value = 0.0
                            for k in range(n_lengths // 2):
                                value += counts[s + k] * their_counts[t + k]
                            total += weight * value
                K[g, h] = total
