"""The public constructors of preference graphs."""

from __future__ import annotations

from typing import Any, cast

from rankwise.graph.comparison_graph import ComparisonGraph
from rankwise.graph.query_graph import PairGraph, QueryGraph


class PreferenceGraph(PairGraph):
    """A graph of preferences: rows are nodes, and a pair of rows that counts is an edge.

    Call `from_groups`, `from_scores` or `from_pairs`; see `PairGraph` for what a graph can do.
    Every `QueryGraph` and `ComparisonGraph` is an instance of this class.

    Examples
    --------
    >>> graph = PreferenceGraph.from_groups(["a", "a", "b", "a", "b"])
    >>> graph.n_pairs
    4
    >>> graph @ [1.0, 0.0, 3.0, 0.0, 1.0]
    array([ 2., -1.,  2., -1., -2.])
    """

    @staticmethod
    def from_groups(
        qid: Any, *, n_rows: int | None = None, weighting: str = "pairs"
    ) -> PreferenceGraph:
        """All pairs of rows with the same query id.

        Parameters
        ----------
        qid : array-like of shape (n_rows,), QueryGroups or None
            Query ids: integers or text, in any order. None: all `n_rows` rows are one query. Groups
            may have weights of queries (`QueryGroups.weighted`).
        n_rows : int, optional
            Number of rows; needed if `qid` is None, and compared with it otherwise.
        weighting : {"pairs", "rows", "queries"}, default="pairs"
            The weight of a pair: 1, one over the number of rows of its query, or one over the
            number of pairs of its query (so that all queries have the same weight).
        """
        return PreferenceGraph.from_scores(None, qid, n_rows=n_rows, weighting=weighting)

    @staticmethod
    def from_scores(
        y: Any,
        qid: Any = None,
        *,
        n_rows: int | None = None,
        ties: str = "include",
        weighting: str = "pairs",
    ) -> PreferenceGraph:
        """All pairs of rows with the same query id, with or without pairs of equal scores.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            Scores or labels; used only to find tied rows.
        qid, n_rows, weighting
            As for `from_groups`.
        ties : {"include", "exclude"}, default="include"
            Whether pairs of equal score count. To exclude them, the Laplacians of the tied rows
            are subtracted; no pair is listed, and the cost stays linear.

        Examples
        --------
        >>> PreferenceGraph.from_scores([2, 1, 1], ties="exclude")
        QueryGraph(n_rows=3, n_pairs=2)
        """
        graph = QueryGraph.build(y, qid, n_rows=n_rows, ties=ties, weighting=weighting)
        return cast(PreferenceGraph, graph)

    @staticmethod
    def from_pairs(
        n_rows: int, pairs: Any, margin: Any = None, weight: Any = None
    ) -> PreferenceGraph:
        """Explicit comparisons.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        pairs : array-like of shape (n_pairs, 2)
            Row numbers, the preferred row first. A pair may be repeated or reversed.
        margin : array-like of shape (n_pairs,) or (n_pairs, n_outputs), optional
            By how much the score of the first row should exceed the score of the second. None: 1.
        weight : array-like of shape (n_pairs,), optional
            The weights of the pairs, not negative. None: 1.

        Examples
        --------
        >>> graph = PreferenceGraph.from_pairs(3, [[0, 1], [0, 2]], weight=[1, 2])
        >>> graph.to_dense()
        array([[ 3., -1., -2.],
               [-1.,  1.,  0.],
               [-2.,  0.,  2.]])
        """
        return cast(PreferenceGraph, ComparisonGraph.build(n_rows, pairs, margin, weight))


PreferenceGraph.register(QueryGraph)
PreferenceGraph.register(ComparisonGraph)
