"""Comparisons between rows, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.graph.comparison_checks import (
    MARGIN_OF_CODE,
    check_comparison_ids,
    check_context,
    check_items,
    check_margin,
    check_pairs,
    check_range,
    check_weight,
    is_row_numbers,
    outcome_codes,
    positions_of,
    shown,
)
from rankwise.graph.id_arrays import as_ids
from rankwise.tables import plural

PER_PAIR = ("pairs", "margin", "weight", "groups", "context")


@dataclass(frozen=True, eq=False, repr=False)
class Comparisons:
    """Which items were compared, with what outcome, and how much each comparison counts.

    `Comparisons.of` checks comparisons and makes one of these. The rankers' `fit_pairs`, the
    hold-outs of comparisons and `RankingSearchCV.fit_pairs` take it in place of pairs.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Row numbers of the two items.
    margin : ndarray of shape (n_pairs,) or (n_pairs, n_outputs)
        By how much the first item is better than the second: 1 if it won, 0 for a tie, -1 if it
        lost, or any number.
    weight : ndarray of shape (n_pairs,)
        Not negative.
    groups : ndarray of shape (n_pairs,) or None
        The prompt, rater or session of each comparison.
    context : ndarray of shape (n_pairs, n_columns) or None
        Features of the comparisons themselves.
    context_names : list of str or None
        Names of the columns of `context`, if it was a data frame.
    items : ndarray of shape (n_items,) or None
        The id of each row, if items have ids.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import Comparisons
    >>> items = ["tea", "coffee", "water"]
    >>> votes = Comparisons.of(
    ...     ["tea", "tea", "coffee"], ["coffee", "water", "water"], ["win", "tie", "loss"],
    ...     items=items,
    ... )
    >>> votes.pairs.tolist(), votes.margin.tolist()
    ([[0, 1], [0, 2], [1, 2]], [1.0, 0.0, -1.0])
    >>> X = [[0.5, 1.0], [1.0, 0.2], [0.0, 0.9]]
    >>> ranker = RankRLS(alpha=0.1).fit_pairs(X, votes)
    """

    pairs: Index
    margin: Array
    weight: Array
    groups: NDArray[Any] | None = None
    context: Array | None = None
    context_names: list[str] | None = None
    items: NDArray[Any] | None = None

    @classmethod
    def of(
        cls,
        first: Any,
        second: Any,
        outcome: Any = None,
        *,
        items: Any = None,
        margin: Any = None,
        weight: Any = None,
        groups: Any = None,
        context: Any = None,
    ) -> Comparisons:
        """Check comparisons.

        Parameters
        ----------
        first, second : array-like of shape (n_pairs,)
            The two items of each comparison: ids of `items`, such as text, or row numbers of X.
        outcome : array-like of shape (n_pairs,), optional
            The outcome for the first item: "win", "loss" or "tie"; or which item won: "first",
            "second" or "tie"; "a", "b" or "tie"; "left", "right" or "tie"; "model_a", "model_b",
            "tie" or "both_bad". True or 1: the first won; False or 0: the second won; 0.5: a tie.
            With `items`, also the id of the item that won. None: the first item won every
            comparison, unless there is a `margin`.
        items : array-like of shape (n_items,) or pandas DataFrame, optional
            The id of each row of X; for a frame, its index. None: items are row numbers.
        margin : array-like of shape (n_pairs,), optional
            By how much the first item is better, in place of `outcome`: negative if the second is,
            and 0 for a tie. If there are only 1s and 0s, integers are refused, and floats raise a
            warning: they are often meant as an `outcome`.
        weight : array-like of shape (n_pairs,), optional
            How much each comparison counts. None: 1.
        groups : array-like of shape (n_pairs,), optional
            The prompt, rater or session of each comparison, as integers or text. A group is never
            split by hold-outs, and standard errors are computed from groups.
        context : array-like of shape (n_pairs, n_columns), optional
            Features of the comparison itself, such as 1 if the first item was shown on the left
            and -1 otherwise, the difference of lengths, or an indicator of each rater. Their
            weights are fitted, and are not part of the scores of items.

        Returns
        -------
        Comparisons

        Examples
        --------
        >>> Comparisons.of([0, 2], [1, 1], [1, 0.5], groups=["Ann", "Bob"])
        Comparisons(2 comparisons of 3 items, 1 tie, 2 groups)
        """
        if outcome is not None and margin is not None:
            raise ParameterError("Give outcome or margin, not both: each is a result.")
        as_side = (lambda side, _: np.asarray(to_host(side))) if items is None else as_ids
        first, second = as_side(first, "first"), as_side(second, "second")
        ids = None if items is None else check_items(items)
        if first.ndim != 1 or first.shape != second.shape:
            raise DataError(
                "first and second need one item per comparison: got shapes "
                f"{first.shape} and {second.shape}."
            )
        if ids is None:
            pairs = check_pairs(np.column_stack((first, second)), None)
        else:
            pairs = check_pairs(positions_of(ids, first, second), len(ids), ids)
        if outcome is not None:
            sides = () if ids is None else (first, second)
            margin = MARGIN_OF_CODE[outcome_codes(outcome, len(pairs), sides)]
        else:
            margin = check_margin(margin, len(pairs))
        made = cls.check(0 if ids is None else len(ids), pairs, margin, weight, checked=True)
        return replace(made.with_more(groups, context), items=ids)

    @classmethod
    def check(
        cls,
        n_rows: int,
        pairs: Any,
        margin: Any = None,
        weight: Any = None,
        *,
        allow_empty: bool = False,
        checked: bool = False,
    ) -> Comparisons:
        """Check row numbers, margins and weights; margins and weights are 1 by default.

        With `checked`, the row numbers and margins are known to be valid.
        """
        if not checked:
            pairs = check_pairs(pairs, n_rows, allow_empty=allow_empty)
            margin = check_margin(margin, len(pairs))
        return cls(pairs, margin, check_weight(weight, len(pairs)))

    def with_more(self, groups: Any, context: Any) -> Comparisons:
        """The same with checked groups and context."""
        numbers, names = check_context(context, len(self))
        ids = None if groups is None else check_comparison_ids("groups", groups, len(self))
        return replace(self, groups=ids, context=numbers, context_names=names)

    @classmethod
    def given(
        cls,
        X: Any,
        n_rows: int,
        pairs: Any,
        *,
        margin: Any = None,
        weight: Any = None,
        groups: Any = None,
        context: Any = None,
        allow_empty: bool = False,
    ) -> Comparisons:
        """Comparisons of the rows of X, as the user gave it, from the arguments of `fit_pairs`."""
        rest = {"margin": margin, "weight": weight, "groups": groups, "context": context}
        rest = {name: to_host(value) for name, value in rest.items()}
        if isinstance(pairs, Comparisons):
            twice = [name for name, value in rest.items() if value is not None]
            if twice:
                raise ParameterError(
                    f"{twice[0]} belongs to the comparisons: pass it to Comparisons.of, together "
                    "with the items."
                )
            pairs.check_rows(X, n_rows)
            return pairs
        made = cls.check(
            n_rows, to_host(pairs), rest["margin"], rest["weight"], allow_empty=allow_empty
        )
        return made.with_more(rest["groups"], rest["context"])

    def check_rows(self, X: Any, n_rows: int) -> None:
        """Raise an error unless the rows of X are the items."""
        if self.items is not None:
            if n_rows != len(self.items):
                raise DataError(
                    f"X needs a row for each of the {len(self.items)} items: got {n_rows} rows."
                )
            index = getattr(X, "index", None)
            named = index is not None and not callable(index) and not is_row_numbers(index)
            if named and not np.array_equal(np.asarray(index), self.items):
                k = int(np.argmin(np.asarray(index) == self.items))
                raise DataError(
                    f"X must have the items in the order of the comparisons: row {k} is "
                    f"{shown(np.asarray(index)[k])}, where item {shown(self.items[k])} was "
                    "expected. Use X.loc[comparisons.items]."
                )
        check_range(self.pairs, n_rows)

    def __len__(self) -> int:
        return len(self.pairs)

    def take(self, chosen: Any) -> Comparisons:
        """Some of the comparisons, by number or by a mask."""
        columns = {name: getattr(self, name) for name in PER_PAIR}
        return replace(self, **{n: v[chosen] for n, v in columns.items() if v is not None})

    def __add__(self, other: Comparisons) -> Comparisons:
        return Comparisons(
            np.concatenate((self.pairs, other.pairs)),
            np.concatenate((self.margin, other.margin)),
            np.concatenate((self.weight, other.weight)),
        )

    def part_of_row(self, n_rows: int) -> Index:
        """The number of the part that each row belongs to.

        Rows are in the same part if a chain of comparisons links them. Comparisons of weight 0 do
        not count.
        """
        counted = self.pairs[self.weight > 0]
        links = sp.coo_array((np.ones(len(counted)), tuple(counted.T)), shape=(n_rows, n_rows))
        return np.asarray(connected_components(links, directed=False)[1], dtype=np.intp)

    def parts(self) -> list[NDArray[Any]]:
        """The items that comparisons link with each other, the largest part first.

        Comparisons alone cannot rank items of different parts against each other. Items that were
        not compared are left out.

        Returns
        -------
        list of ndarray
            Ids of items, or row numbers if they have none.

        Examples
        --------
        >>> votes = Comparisons.of(["a", "d", "b"], ["b", "e", "c"], items=list("abcdef"))
        >>> [part.tolist() for part in votes.parts()]
        [['a', 'b', 'c'], ['d', 'e']]
        """
        rows = np.unique(self.pairs[self.weight > 0])
        part = self.part_of_row(int(rows.max()) + 1 if len(rows) else 0)[rows]
        found = [rows[part == k] for k in np.unique(part)]
        found.sort(key=lambda members: (-len(members), int(members[0])))
        return [self.names(members) for members in found]

    def names(self, rows: Any) -> NDArray[Any]:
        """The ids of some rows, or their numbers if items have no ids."""
        return np.asarray(rows if self.items is None else self.items[rows])

    def __repr__(self) -> str:
        n_items = len(np.unique(self.pairs)) if self.items is None else len(self.items)
        about = [f"{plural(len(self), 'comparison')} of {plural(n_items, 'item')}"]
        ties = int((self.margin == 0).reshape(len(self), -1).all(axis=1).sum())
        about += [plural(ties, "tie")] if ties else []
        if self.groups is not None:
            about.append(plural(len(set(self.groups.tolist())), "group"))
        if self.context is not None:
            about.append(plural(self.context.shape[1], "context column"))
        return f"Comparisons({', '.join(about)})"
