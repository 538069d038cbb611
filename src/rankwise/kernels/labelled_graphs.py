"""Labelled graphs as arrays, and as rows of numbers that every ranker can hold.

A row has the number of nodes, a code for the label of each node, the number of arcs of each node,
and the head and a code for the label of each arc. Rows are sparse, so that graphs of different
sizes have the same number of columns. All numbers of a row but the first are stored plus one: a
sparse row has no zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwise.backends.arrays import Index, Sparse, is_sparse
from rankwise.errors import DataError

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
        self.names: dict[int, str] = {NO_LABEL: ""}
        self._codes: dict[Any, int] = {}

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
        sizes, labels, edges = [0], [], []
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
        elif not isinstance(graph, (tuple, list)) or len(graph) != 2:
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
            self._codes[label], self.names[code] = code, str(label)
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
    found = sp.coo_array(matrix)
    found.eliminate_zeros()
    if found.dtype.kind not in "biuf" or (found.data != np.floor(found.data)).any():
        raise DataError(
            f"The adjacency matrix of {where} has values that are not whole numbers: values are "
            "labels of edges, and 1 stands for an edge without a label."
        )
    directed = bool((found != found.T).nnz)
    edges = [
        (int(i), int(j), None if value == 1 else int(value))
        for i, j, value in zip(found.row, found.col, found.data, strict=True)
        if directed or i <= j
    ]
    return edges, directed
