"""Transformers from labelled graphs to sparse counts."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array, Index, Sparse
from rankwise.errors import DataError
from rankwise.estimators.ranker_rows import forget
from rankwise.parameters import Choice, Flag, Number, Rule, Whole, check_parameters
from rankwise.walks import GraphReader, LabelledGraphs

Hashes: TypeAlias = NDArray[np.uint64]
Names: TypeAlias = dict[int, str]


class GraphCounts(TransformerMixin, BaseEstimator):
    """The base class: features are found by their hashes of 64 bits, and counted."""

    parameters: ClassVar[dict[str, Rule]]

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the features of graphs.

        Parameters
        ----------
        X : list of graphs
            Each is (labels, edges), (labels, adjacency matrix) or a networkx graph. Labels are
            text, whole numbers, or tuples of these. Edges are (i, j) or (i, j, label), with the
            numbers of nodes. The values of a matrix are labels of edges, where 1 stands for an
            edge without a label. networkx graphs have the attribute "label".
        y : None
            Ignored.

        Returns
        -------
        self
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Sparse:
        """Find the features of graphs, and count them.

        Parameters
        ----------
        X, y
            As for `fit`.

        Returns
        -------
        csr_array of shape (n_graphs, n_features)
        """
        forget(self)
        check_parameters(self, self.parameters)
        names: Names = {}
        rows, hashes, counts, shape = self._counts(X, names)
        self.hashes_, columns = np.unique(hashes, return_inverse=True)
        texts = [names[found] for found in self.hashes_.tolist()]
        often = {text for text, count in Counter(texts).items() if count > 1}
        self.names_ = np.array(
            [
                f"{text} #{found:016x}" if text in often else text
                for text, found in zip(texts, self.hashes_.tolist(), strict=True)
            ],
            dtype=object,
        )
        return _summed(counts, rows, columns, (shape, len(self.hashes_)))

    def transform(self, X: Any) -> Sparse:
        """Count the features that were found by `fit`; others are ignored.

        Parameters
        ----------
        X : list of graphs
            As for `fit`.

        Returns
        -------
        csr_array of shape (n_graphs, n_features)
        """
        check_is_fitted(self)
        rows, hashes, counts, shape = self._counts(X, None)
        columns = np.searchsorted(self.hashes_, hashes).clip(max=len(self.hashes_) - 1)
        known = self.hashes_[columns] == hashes
        return _summed(counts[known], rows[known], columns[known], (shape, len(self.hashes_)))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the features.

        If labels contain spaces or dashes, features may have the same text. Their names then end in
        a hash.

        Parameters
        ----------
        input_features : None
            Ignored: graphs have no columns.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        return self.names_

    def _counts(self, X: Any, names: Names | None) -> tuple[Index, Hashes, Array, int]:
        """Graphs, hashes and counts of features, and the number of graphs; adds to `names`."""
        reader = GraphReader(directed=self.directed)
        graphs = reader.read(X)
        parts = self._count(graphs, reader.names, names)
        rows, hashes, counts = (np.concatenate(part) for part in zip(*parts, strict=True))
        return rows, hashes, counts, len(graphs)

    @abstractmethod
    def _count(
        self, graphs: LabelledGraphs, labels: Names, names: Names | None
    ) -> list[tuple[Index, Hashes, Array]]:
        """Graphs, hashes and counts, for each length or round."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        hashes, names = state.get("hashes_"), state.get("names_", ())
        if hashes is not None and (
            getattr(hashes, "dtype", None) != np.uint64
            or np.shape(hashes) != (len(names),)
            or (hashes[1:] <= hashes[:-1]).any()
        ):
            raise DataError("hashes_ must be one number for each name, in ascending order.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


@dataclass(eq=False, repr=False)
class GraphWalks(GraphCounts):
    """Count the walks of labelled graphs, by their labels.

    A feature is a sequence of labels, as in "C - C = O", and its value is the number of walks with
    these labels times decay^(n/2), where n is the number of arcs. Walks may visit a node several
    times, and an edge without direction is followed both ways: "C - O" and "O - C" are two
    features. The products of these rows are values of `WalkKernel` with the same parameters and
    ``normalize=False``; for ``normalize=True``, use the kernel "cosine".

    Time and memory are in the order of the number of different walks that begin or end in the same
    node, which grows with degree^n.

    Parameters
    ----------
    max_length : int, default=2
        The number of arcs of the longest walks.
    labels : {"all", "ends"}, default="all"
        Which labels make a feature: of all nodes and arcs of a walk, or of its first and last node,
        together with its length.
    decay : float, default=1.0
        The weight of each further arc in a product of two rows.
    directed : bool, default=False
        Whether the edges of lists have a direction: (i, j) leads from i to j only. networkx graphs
        know, and a matrix is directed unless it is symmetric.

    Attributes
    ----------
    hashes_ : ndarray of uint64
        A hash of every feature, in ascending order.
    names_ : ndarray of str
        The labels of every feature.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from rankwise import GraphWalks, RankRLS
    >>> acid = ("CCOO", [(0, 1), (1, 2, "="), (1, 3)])
    >>> alcohol = ("CCO", [(0, 1), (1, 2)])
    >>> ether = ("COC", [(0, 1), (1, 2)])
    >>> walks = GraphWalks(max_length=1).fit([acid, alcohol])
    >>> sorted(walks.get_feature_names_out())
    ['C', 'C - C', 'C - O', 'C = O', 'O', 'O - C', 'O = C']
    >>> ranker = make_pipeline(GraphWalks(), RankRLS(1.0)).fit([acid, alcohol, ether], [2, 1, 0])
    >>> ranker.predict([ether, acid]).argsort()
    array([0, 1])
    """

    parameters: ClassVar[dict[str, Rule]] = {
        "max_length": Whole(0),
        "labels": Choice("all", "ends"),
        "decay": Number(0, open_low=True),
        "directed": Flag(),
    }

    max_length: int = 2
    _: KW_ONLY
    labels: str = "all"
    decay: float = 1.0
    directed: bool = False

    def _count(
        self, graphs: LabelledGraphs, labels: Names, names: Names | None
    ) -> list[tuple[Index, Hashes, Array]]:
        own = _mixed(graphs.labels.astype(np.uint64))
        arc_labels = _mixed(graphs.arc_labels.astype(np.uint64))
        nodes, counts = np.arange(len(own)), np.ones(len(own))
        begun, found = own, []  # hashes of the walks so far, or of their first labels
        texts = {} if names is None else _texts(begun, graphs.labels, labels)
        for length in range(self.max_length + 1):
            if length:
                arcs, walks = _arcs_of(graphs, nodes)
                nodes, counts, before = graphs.heads[arcs], counts[walks], begun[walks]
                begun = before
                if self.labels == "all":
                    begun = _joined(_joined(before, arc_labels[arcs]), own[nodes])
                    if names is not None:
                        texts = _longer(texts, begun, before, graphs, arcs, labels)
                nodes, begun, counts = _equal_together(nodes, begun, counts)
            features = begun
            if self.labels == "ends":
                features = _joined(_joined(begun, own[nodes]), _mixed(np.uint64(length)))
                if names is not None:
                    ends = _texts(own, graphs.labels, labels)
                    pairs = zip(features.tolist(), begun.tolist(), own[nodes].tolist(), strict=True)
                    names |= {f: f"{ends[a]} ({length}) {ends[b]}" for f, a, b in pairs}
            elif names is not None:
                names |= texts
            weight = self.decay ** (length / 2)
            found.append((graphs.graph_of[nodes], features, weight * counts))
        return found


@dataclass(eq=False, repr=False)
class WeisfeilerLehman(GraphCounts):
    """Count the neighbourhoods of the nodes of labelled graphs (Weisfeiler and Lehman).

    In each round, the new label of a node consists of its label and the labels of its neighbours,
    with the labels of the edges. After k rounds, it describes the neighbourhood up to a distance
    of k. A feature is a label of a round, and its value is the number of nodes that have it.

    A round takes O(nodes + arcs) time and memory.

    Parameters
    ----------
    n_rounds : int, default=3
        The number of rounds. The labels of the nodes themselves are counted as well.
    directed : bool, default=False
        Whether the edges of lists have a direction: j is a neighbour of i if there is an edge
        (i, j), but i need not be one of j.

    Attributes
    ----------
    hashes_, names_
        As for `GraphWalks`. Names are labels for round 0, and numbers with their round for others.

    References
    ----------
    N. Shervashidze and others: Weisfeiler-Lehman graph kernels. JMLR 12, 2011.

    Examples
    --------
    >>> from rankwise import WeisfeilerLehman
    >>> alcohol = ("CCO", [(0, 1), (1, 2)])
    >>> ether = ("COC", [(0, 1), (1, 2)])
    >>> X = WeisfeilerLehman(n_rounds=1).fit_transform([alcohol, ether])
    >>> (X @ X.T).toarray()
    array([[ 8.,  5.],
           [ 5., 10.]])
    """

    parameters: ClassVar[dict[str, Rule]] = {"n_rounds": Whole(0), "directed": Flag()}

    n_rounds: int = 3
    _: KW_ONLY
    directed: bool = False

    def _count(
        self, graphs: LabelledGraphs, labels: Names, names: Names | None
    ) -> list[tuple[Index, Hashes, Array]]:
        own = _mixed(graphs.labels.astype(np.uint64))
        arc_labels = _mixed(graphs.arc_labels.astype(np.uint64))
        ones, found = np.ones(len(own)), [(graphs.graph_of, own, np.ones(len(own)))]
        if names is not None:
            names |= _texts(own, graphs.labels, labels)
        for number in range(1, self.n_rounds + 1):
            # A sum of hashes does not depend on the order of neighbours, and wraps around.
            seen = _joined(arc_labels, own[graphs.heads])
            sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(seen, dtype=np.uint64)))
            around = sums[graphs.arc_start[1:]] - sums[graphs.arc_start[:-1]]
            own = _joined(own, _mixed(around))
            if names is not None:
                names |= {code: f"round {number}: {code:016x}" for code in np.unique(own).tolist()}
            found.append((graphs.graph_of, own, ones))
        return found


def _mixed(codes: Any) -> Any:
    """A hash of each number (the finalizer of splitmix64); products wrap around."""
    with np.errstate(over="ignore"):
        codes = codes + np.uint64(0x9E3779B97F4A7C15)
        codes = (codes ^ (codes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        codes = (codes ^ (codes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return codes ^ (codes >> np.uint64(31))


def _joined(first: Any, second: Any) -> Any:
    """A hash of each two hashes, in their order."""
    with np.errstate(over="ignore"):
        return _mixed(first * np.uint64(3) + second)


def _arcs_of(graphs: LabelledGraphs, nodes: Index) -> tuple[Index, Index]:
    """The arcs of nodes, one after the other, and the position of the node of each."""
    degrees = np.diff(graphs.arc_start)[nodes]
    position = np.repeat(np.arange(len(nodes)), degrees)
    offset = np.arange(len(position)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    return graphs.arc_start[nodes][position] + offset, position


def _equal_together(nodes: Index, hashes: Hashes, counts: Array) -> tuple[Index, Hashes, Array]:
    """Walks with equal hashes that are in the same node, with the sums of their counts."""
    key = _joined(hashes, _mixed(nodes.astype(np.uint64)))
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    total: Array = np.bincount(group, weights=counts, minlength=len(first)).astype(np.float64)
    return nodes[first], hashes[first], total


def _texts(hashes: Hashes, codes: Any, labels: Names) -> Names:
    """The text of each label, by its hash."""
    some, first = np.unique(hashes, return_index=True)
    pairs = zip(some.tolist(), codes[first].tolist(), strict=True)
    return {found: labels.get(code, f"{code:013x}") for found, code in pairs}


def _longer(
    texts: Names, hashes: Hashes, before: Hashes, graphs: LabelledGraphs, arcs: Index, labels: Names
) -> Names:
    """Texts of walks that are one arc longer than walks `before`."""
    some, first = np.unique(hashes, return_index=True)
    along = graphs.arc_labels[arcs[first]].tolist()
    to = graphs.labels[graphs.heads[arcs[first]]].tolist()
    rows = zip(some.tolist(), before[first].tolist(), along, to, strict=True)
    return {
        found: f"{texts[start]} {labels.get(arc) or '-'} {labels.get(node, f'{node:013x}')}"
        for found, start, arc, node in rows
    }


def _summed(counts: Array, rows: Index, columns: Index, shape: tuple[int, int]) -> Sparse:
    """A sparse matrix in which values of the same place are added."""
    matrix = sp.csr_array(sp.coo_array((counts, (rows, columns)), shape=shape))
    matrix.sum_duplicates()
    return matrix
