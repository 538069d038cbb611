"""Who is seen: the attention that groups of rows get, beside their share of relevance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from rankwise.errors import DataError
from rankwise.graph.query_groups import QueryGroups, numeric_labels, refuse_where
from rankwise.metrics._compiled_loops import Array
from rankwise.metrics.ranked_queries import as_columns
from rankwise.parameters import AnyOf, Number, Whole, check_value
from rankwise.tables import Column, Table, TableMixin, plural


@dataclass(frozen=True, eq=False, repr=False)
class GroupExposure(TableMixin):
    """The share of attention of each group, beside its share of relevance.

    Attributes
    ----------
    groups : ndarray of shape (n_groups,)
        The groups, in the order of their attention.
    attention : ndarray of shape (n_groups,)
        The share of each group in the discounted attention of a query, as a mean over queries.
    relevance : ndarray of shape (n_groups,)
        The share of each group in the labels of a query, as a mean over the same queries.
    standard_error : ndarray of shape (n_groups,)
        Of the difference, over queries; NaN if there is only one query.
    n_queries, n_left_out : int
        Queries with a relevant row, and queries without one, which are left out.
    level : float
        Of the intervals.

    Examples
    --------
    >>> from rankwise.metrics import GroupExposure, group_exposure
    >>> found = group_exposure([1, 0, 0], [2.0, 1.0, 0.0], ["a", "b", "b"])
    >>> isinstance(found, GroupExposure), found.difference.round(2)
    (True, array([ 0.53, -0.53]))
    """

    groups: Any
    attention: Array
    relevance: Array
    standard_error: Array
    n_queries: int
    n_left_out: int
    level: float

    @property
    def difference(self) -> Array:
        """Attention less relevance: above 0, a group is seen more than its labels ask for."""
        return np.asarray(self.attention - self.relevance)

    @property
    def interval(self) -> Array:
        """Confidence intervals of the differences by Student's t, of shape (n_groups, 2)."""
        if self.n_queries < 2:
            return np.full((len(self.groups), 2), np.nan)
        width = float(stdtrit(self.n_queries - 1, 0.5 + self.level / 2)) * self.standard_error
        return np.column_stack((self.difference - width, self.difference + width))

    def to_table(self, *, title: str = "", first: int | None = None) -> Table:
        """A row for each group, or for the first ones."""
        names = "group", "attention", "relevance", "difference", "from", "to"
        formats = "", ".4f", ".4f", "+.4f", "+.4f", "+.4f"
        columns = tuple(map(Column, names, formats))
        note = (
            f"Shares are means over {plural(self.n_queries, 'query')}. From and to: "
            f"{self.level:.0%} intervals of the differences, over queries."
        )
        if self.n_left_out:
            left_out = plural(self.n_left_out, "query")
            note += f" Left out, without a relevant row: {left_out}."
        numbers = list(self._frame_columns().values())[1:]
        rows = tuple(zip(map(str, self.groups.tolist()), *numbers, strict=True))[:first]
        return Table(columns, rows, title, note=note)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dictionaries, ready for JSON."""
        columns = self._frame_columns()
        rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
        groups = [dict(zip(columns, row, strict=True)) for row in rows]
        for each in groups:
            if not isinstance(each["group"], int | str):  # such as a date
                each["group"] = str(each["group"])
            if self.n_queries < 2:
                each |= {"low": None, "high": None}
        counts = {"n_queries": self.n_queries, "n_left_out": self.n_left_out}
        return {"groups": groups, **counts, "level": self.level}

    def _frame_columns(self) -> dict[str, Any]:
        return {
            "group": self.groups,
            "attention": self.attention,
            "relevance": self.relevance,
            "difference": self.difference,
            "low": self.interval[:, 0],
            "high": self.interval[:, 1],
        }

    def __repr__(self) -> str:
        return f"<GroupExposure: {plural(len(self.groups), 'group')}>"


def group_exposure(
    y: Any, scores: Any, groups: Any, qid: Any = None, *, k: int | None = None, level: float = 0.95
) -> GroupExposure:
    """The share of discounted attention of each group of rows, beside its share of relevance.

    The attention to rank r is 1 / log2(r + 1), as in NDCG, and rows with equal scores share the
    attention of their ranks. In each query, the attention of all rows sums to 1, and so do their
    labels. This measures a ranking; it does not say which shares are right.

    O(n log n) time for n rows, whatever the number of groups.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Labels of at least 0: the relevance of a row.
    scores : array-like of shape (n_rows,)
    groups : array-like of shape (n_rows,)
        The group of every row, such as its seller, as integers or text.
    qid : array-like of shape (n_rows,), optional
        The query of every row. None: one query, without intervals.
    k : int, optional
        Only the first k rows of a query are seen. None: all of them.
    level : float, default=0.95
        Of the intervals.

    Returns
    -------
    GroupExposure

    Examples
    --------
    >>> from rankwise.metrics import group_exposure
    >>> y, scores = [1, 0, 1, 1, 1, 0], [3.0, 2.0, 1.0, 3.0, 2.0, 1.0]
    >>> seller, qid = ["a", "b", "b", "a", "b", "b"], [1, 1, 1, 2, 2, 2]
    >>> found = group_exposure(y, scores, seller, qid)
    >>> found.groups.tolist(), found.attention.round(2), found.relevance
    (['b', 'a'], array([0.53, 0.47]), array([0.5, 0.5]))
    """
    check_value("k", k, AnyOf(Whole(1), None))
    check_value("level", level, Number(0, 1, open_low=True, open_high=True))
    labels, values = as_columns(numeric_labels(y), scores)
    refuse_where(
        labels < 0,
        lambda row: f"Labels are shares of relevance, 0 or more: got {labels[row]:g} in row {row}.",
    )
    queries = QueryGroups.of(qid, len(labels))
    owners = QueryGroups.of(groups, len(labels), "groups")
    total = np.bincount(queries.codes, labels, queries.n_groups)
    kept = total > 0
    if not kept.any():
        raise DataError("No query has a row with a label above 0: there is no relevance to share.")
    attention = _attention(values, queries, k)
    relevance = labels / np.where(kept, total, 1.0)[queries.codes]
    counted = kept[queries.codes]
    pairs = queries.codes[counted] * owners.n_groups + owners.codes[counted]
    cells, cell = np.unique(pairs, return_inverse=True)
    seen, wanted = (np.bincount(cell, share[counted]) for share in (attention, relevance))
    owner, n = cells % owners.n_groups, int(kept.sum())
    sums = [np.bincount(owner, v, owners.n_groups) for v in (seen, wanted, (seen - wanted) ** 2)]
    mean_seen, mean_wanted = sums[0] / n, sums[1] / n
    squares = np.maximum(sums[2] - n * (mean_seen - mean_wanted) ** 2, 0.0)
    error = np.sqrt(squares / (n - 1) / n) if n > 1 else np.full(owners.n_groups, np.nan)
    order = np.lexsort((np.arange(owners.n_groups), -mean_seen))
    return GroupExposure(
        owners.names[order],
        mean_seen[order],
        mean_wanted[order],
        error[order],
        n,
        queries.n_groups - n,
        level,
    )


def _attention(scores: Array, queries: QueryGroups, k: int | None) -> Array:
    """The share of each row in the attention of its query; equal scores share theirs."""
    order = np.lexsort((-scores, queries.codes))
    codes, ordered = queries.codes[order], scores[order]
    starts = np.cumsum(np.bincount(codes, minlength=queries.n_groups))
    rank = np.arange(len(order)) - np.concatenate(([0], starts[:-1]))[codes]
    weight = 1.0 / np.log2(rank + 2.0)
    if k is not None:
        weight[rank >= k] = 0.0
    weight /= np.bincount(codes, weight)[codes]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (codes[1:] != codes[:-1]) | (ordered[1:] != ordered[:-1])
    tie = np.cumsum(new) - 1
    shared = (np.bincount(tie, weight) / np.bincount(tie))[tie]
    found = np.empty(len(order))
    found[order] = shared
    return found
