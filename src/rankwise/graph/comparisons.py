"""Comparisons between rows, as a user gives them, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.errors import DataError, ParameterError, warn
from rankwise.graph.query_groups import missing_entries

FIRST = ("first", "win", "a", "left", "model_a")
TIE = ("tie", "draw", "both", "neither", "tie (bothbad)")
SECOND = ("second", "loss", "b", "right", "model_b")
MARGIN_OF_WINNER: dict[Any, float] = {
    **dict.fromkeys((*FIRST, True), 1.0),
    **dict.fromkeys(TIE, 0.0),
    **dict.fromkeys((*SECOND, False), -1.0),
}
"""What says which row of a pair won, and the margins that it stands for."""
SHOWN = 3  # entries that an error message names


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
            The two items of each comparison: ids of `items`, of any type, or row numbers of X.
        outcome : array-like of shape (n_pairs,), optional
            What became of the first item: "win", "loss" or "tie", or which item won: "first",
            "second" or "tie"; "a", "b" or "tie"; "left", "right" or "tie"; "model_a", "model_b",
            "tie" or "tie (bothbad)". True or 1: the first won; False or 0: the second won; 0.5: a
            tie. None: the first item won every comparison, unless there is a `margin`.
        items : array-like of shape (n_items,) or pandas DataFrame, optional
            The id of each row of X; of a frame, its index. None: items are row numbers.
        margin : array-like of shape (n_pairs,), optional
            By how much the first item is better, in place of `outcome`: negative if the second is,
            and 0 for a tie. If there are only 1s and 0s, integers are refused, and floats give a
            warning: they are often meant as an `outcome`.
        weight : array-like of shape (n_pairs,), optional
            How much each comparison counts. None: 1.
        groups : array-like of shape (n_pairs,), optional
            The prompt, rater or session of each comparison, of any type. A group is never split
            by hold-outs, and standard errors are those of groups.
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
        first, second = (np.asarray(to_host(side)) for side in (first, second))
        if first.ndim != 1 or first.shape != second.shape:
            raise DataError(
                "first and second need one item per comparison: got shapes "
                f"{first.shape} and {second.shape}."
            )
        if outcome is not None and margin is not None:
            raise ParameterError("Give outcome or margin, not both: they say the same.")
        ids = None if items is None else _check_items(items)
        if ids is None:
            pairs = _check_pairs(np.column_stack((first, second)), None)
        else:
            pairs = _check_pairs(_positions(ids, first, second), len(ids), ids)
        refuse_wins_and_zeros(margin)
        if outcome is not None:
            margin = _margins_of_outcomes(outcome, len(pairs))
        made = cls.check(0 if ids is None else len(ids), pairs, margin, weight, checked=True)
        context, names = check_context(context, len(pairs))
        return replace(
            made,
            groups=_check_groups(groups, len(pairs)),
            context=context,
            context_names=names,
            items=ids,
        )

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

        With `checked`, the row numbers are known to be valid.
        """
        if allow_empty and np.shape(pairs) in ((0,), (0, 2)):
            pairs = np.zeros((0, 2), dtype=np.intp)
        elif not checked:
            pairs = _check_pairs(pairs, n_rows)
        margin = _check_margin(margin, len(pairs))
        weight = _per_pair("weight", weight, len(pairs), max_ndim=1)
        if (weight < 0).any():
            k = int(np.argmax(weight < 0))
            raise DataError(
                f"Weights of pairs must not be negative: pair {k} has {weight[k]:g}. "
                "To reverse a preference, swap the two rows of the pair."
            )
        return cls(pairs, margin, weight)

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
        refuse_wins_and_zeros(rest["margin"])
        made = cls.check(
            n_rows, to_host(pairs), rest["margin"], rest["weight"], allow_empty=allow_empty
        )
        context, names = check_context(rest["context"], len(made))
        groups = _check_groups(rest["groups"], len(made))
        return replace(made, groups=groups, context=context, context_names=names)

    def check_rows(self, X: Any, n_rows: int) -> None:
        """Raise an error unless the rows of X are the items."""
        if self.items is not None:
            if n_rows != len(self.items):
                raise DataError(
                    f"X needs a row for each of the {len(self.items)} items: got {n_rows} rows."
                )
            index = getattr(X, "index", None)
            named = index is not None and not callable(index) and not _is_row_numbers(index)
            if named and not np.array_equal(np.asarray(index), self.items):
                k = int(np.argmin(np.asarray(index) == self.items))
                raise DataError(
                    f"X must have the items in the order of the comparisons: row {k} is "
                    f"{_shown(np.asarray(index)[k])}, where item {_shown(self.items[k])} was "
                    "expected. Use X.loc[comparisons.items]."
                )
        _check_range(self.pairs, n_rows)

    def __len__(self) -> int:
        return len(self.pairs)

    def take(self, chosen: Any) -> Comparisons:
        """Some of the comparisons, by number or by a mask."""
        return replace(
            self,
            pairs=self.pairs[chosen],
            margin=self.margin[chosen],
            weight=self.weight[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            context=None if self.context is None else self.context[chosen],
        )

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
        about = f"{_count(len(self), 'comparison')} of {_count(n_items, 'item')}"
        ties = int((self.margin == 0).reshape(len(self), -1).all(axis=1).sum())
        extra = [_count(ties, "tie")] if ties else []
        if self.groups is not None:
            extra.append(_count(len(set(self.groups.tolist())), "group"))
        if self.context is not None:
            extra.append(_count(self.context.shape[1], "context column"))
        return f"Comparisons({', '.join([about, *extra])})"


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _shown(entry: Any) -> str:
    """An id as a user would write it."""
    return repr(entry.item() if isinstance(entry, np.generic) else entry)


def _is_row_numbers(index: Any) -> bool:
    """Whether the index of a frame is 0, 1, 2, ..., and says nothing."""
    values = np.asarray(index)
    return values.dtype.kind in "iu" and np.array_equal(values, np.arange(len(values)))


# Items.


def _check_items(items: Any) -> NDArray[Any]:
    """The ids of all items, each once."""
    if hasattr(items, "columns"):
        if not hasattr(items, "index"):
            raise DataError(
                "items is a data frame without an index: pass the column of ids, as in "
                'items=frame["id"].'
            )
        items = items.index
    ids = np.asarray(to_host(items))
    if ids.ndim != 1 or len(ids) < 2:
        raise DataError(f"items needs an id for each of two or more items: got shape {ids.shape}.")
    missing = missing_entries(ids)
    if missing.any():
        raise DataError(f"The id of item {int(np.argmax(missing))} is missing.")
    seen: dict[Any, int] = {}
    for k, name in enumerate(ids.tolist()):
        if seen.setdefault(name, k) != k:
            raise DataError(
                f"items {seen[name]} and {k} have the same id, {name!r}: every item needs an id of "
                "its own."
            )
    return ids


def _positions(ids: NDArray[Any], first: NDArray[Any], second: NDArray[Any]) -> Index:
    """The row number of every id in the comparisons."""
    number = {name: k for k, name in enumerate(ids.tolist())}
    sides = [[number.get(name, -1) for name in side.tolist()] for side in (first, second)]
    pairs = np.array(sides, dtype=np.intp).T.reshape(-1, 2)
    unknown = np.flatnonzero((pairs < 0).any(axis=1))
    if len(unknown):
        named = [
            f"{_shown((first, second)[side][k])} (comparison {k})"
            for k in unknown[:SHOWN].tolist()
            for side in np.flatnonzero(pairs[k] < 0)
        ]
        more = f", and {len(unknown) - SHOWN} more comparisons" if len(unknown) > SHOWN else ""
        name = (first, second)[int(np.argmax(pairs[unknown[0]] < 0))][unknown[0]]
        other = next((known for known in ids.tolist() if str(known) == str(name)), None)
        hint = f"use ids among the {len(ids)} items, or add these to the items"
        if other is not None:
            hint = (
                f"the items have {other!r}, of type {type(other).__name__}: convert the ids of the "
                "comparisons to this type"
            )
        raise DataError(f"Comparisons with unknown items: {', '.join(named)}{more}; {hint}.")
    return pairs


def _check_pairs(pairs: Any, n_rows: int | None, ids: NDArray[Any] | None = None) -> Index:
    """Pairs as an array of row numbers of shape (n_pairs, 2)."""
    pairs = np.asarray(pairs)
    if pairs.size == 0:
        raise DataError("pairs is empty: there is no comparison to learn from.")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise DataError(
            f"pairs needs two columns, the preferred row and the other: got shape {pairs.shape}."
        )
    if pairs.dtype.kind not in "iu":
        if pairs.dtype.kind == "f":
            whole = pairs == np.floor(pairs)
        else:
            whole = np.array([[_is_row_number(entry) for entry in pair] for pair in pairs.tolist()])
        if not whole.all():
            k = int(np.argmin(whole.all(axis=1)))
            raise DataError(
                f"pairs must hold row numbers of X (integers): pairs[{k}] = {pairs[k].tolist()}. "
                "To compare items by name, use rankwise.data.Comparisons.of(first, second, "
                "items=names)."
            )
    _check_range(pairs, n_rows)
    same = pairs[:, 0] == pairs[:, 1]
    if same.any():
        k = int(np.argmax(same))
        what = f"row {int(pairs[k, 0])}" if ids is None else f"item {_shown(ids[pairs[k, 0]])}"
        raise DataError(
            f"pairs[{k}] compares {what} with itself ({int(same.sum())} such pairs): drop them."
        )
    return np.asarray(pairs, dtype=np.intp)


def _check_range(pairs: Index, n_rows: int | None) -> None:
    outside = (pairs < 0) if n_rows is None else (pairs < 0) | (pairs >= n_rows)
    if outside.any():
        k = int(np.argmax(outside.any(axis=1)))
        rows = "start at 0" if n_rows is None else f"are 0 to {n_rows - 1}"
        raise DataError(f"pairs[{k}] = {pairs[k].tolist()} points outside X, whose rows {rows}.")


def _is_row_number(entry: Any) -> bool:
    """Whether a number, but not a boolean, is whole."""
    is_number = isinstance(entry, (int, float)) and not isinstance(entry, bool)
    return is_number and float(entry).is_integer()


# Outcomes.


def _check_margin(margin: Any, n_pairs: int) -> Array:
    """Margins as numbers; booleans and words say which row won."""
    if margin is not None:
        margin = np.asarray(margin)
        if says_who_won(margin):
            margin = _margins_of_winners("margin", margin)
    return _per_pair("margin", margin, n_pairs, max_ndim=2)


def says_who_won(margin: Any) -> bool:
    """Whether margins are booleans or words, not numbers."""
    given = np.asarray(margin)
    if given.dtype.kind in "iuf":
        return False
    return any(isinstance(entry, (str, bool)) for entry in given.ravel().tolist())


def refuse_wins_and_zeros(margin: Any) -> None:
    """Raise an error for integer margins of 1 and 0 only, and warn of such floats.

    A 0 is a tie, but may be meant as a win of the second row.
    """
    if margin is None or says_who_won(margin):
        return
    given = np.asarray(to_host(margin))
    if given.dtype.kind not in "iufO" or set(given.ravel().tolist()) != {0, 1}:
        return
    advice = (
        "margin has only 1 and 0, and 0 stands for a tie. If the second row won where it is 0, "
        'use booleans, or 2 * margin - 1. If these are ties, use the words "first" and "tie", '
        'as in numpy.where(margin == 0, "tie", "first").'
    )
    if given.dtype.kind != "f":
        raise DataError(advice)
    warn(advice)


def _margins_of_outcomes(outcome: Any, n_pairs: int) -> Array:
    """Margins of outcomes: words and booleans, or 1, 0.5 and 0."""
    given = np.asarray(to_host(outcome))
    if given.shape != (n_pairs,):
        raise DataError(
            f"outcome needs one entry per comparison: got shape {given.shape} for {n_pairs} "
            "comparisons."
        )
    missing = missing_entries(given)
    if missing.any():
        raise DataError(
            f"The outcome of comparison {int(np.argmax(missing))} is missing ({int(missing.sum())} "
            "in all): drop these comparisons."
        )
    if says_who_won(given):
        return _margins_of_winners("outcome", given)
    values = _per_pair("outcome", given, n_pairs, max_ndim=1)
    known = np.isin(values, (0.0, 0.5, 1.0))
    if not known.all():
        k = int(np.argmin(known))
        raise DataError(
            "outcome must be 1 (the first item won), 0.5 (a tie) or 0 (the second won), or a word: "
            f"entry {k} is {values[k]:g}. Numbers that say by how much the first item is better "
            "belong in margin."
        )
    return 2.0 * values - 1.0


def _margins_of_winners(name: str, given: NDArray[Any]) -> Array:
    """True and "first" as 1, "tie" as 0, False and "second" as -1."""
    entries = [
        entry.strip().lower() if isinstance(entry, str) else entry
        for entry in given.ravel().tolist()
    ]
    unknown = [
        k
        for k, entry in enumerate(entries)
        if not isinstance(entry, (str, bool)) or entry not in MARGIN_OF_WINNER
    ]
    if unknown:
        words = ", ".join(repr(word) for word in MARGIN_OF_WINNER)
        distinct = list(dict.fromkeys(repr(given.ravel().tolist()[k]) for k in unknown))
        more = f" ({len(distinct)} unknown words: {', '.join(distinct[:10])})"
        raise DataError(
            f"{name} must hold numbers, or say which row of each pair won, by one of {words}: "
            f"entry {unknown[0]} is {distinct[0]}{more if len(distinct) > 1 else ''}."
        )
    return np.array([MARGIN_OF_WINNER[entry] for entry in entries]).reshape(given.shape)


# Weights, groups, context.


def _per_pair(name: str, values: Any, n_pairs: int, max_ndim: int) -> Array:
    """One finite number (or row of numbers) per pair; ones by default."""
    if values is None:
        return np.ones(n_pairs)
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} must hold a number for each pair: got {values!r}.") from None
    if array.ndim == 0 or array.ndim > max_ndim or len(array) != n_pairs:
        raise DataError(
            f"{name} needs one entry per pair: got shape {array.shape} for {n_pairs} pairs."
        )
    if n_pairs == 0:
        return np.zeros(0)
    bad = ~np.isfinite(array).reshape(n_pairs, -1).all(axis=1)
    if bad.any():
        raise DataError(f"{name} must be finite: entry {int(np.argmax(bad))} is {array[bad][0]}.")
    return array


def _check_groups(groups: Any, n_pairs: int) -> NDArray[Any] | None:
    return None if groups is None else check_comparison_ids("group", groups, n_pairs)


def check_comparison_ids(what: str, values: Any, n_pairs: int) -> NDArray[Any]:
    """The group or the rater of each comparison, of any type."""
    ids = np.asarray(to_host(values))
    if ids.shape != (n_pairs,):
        raise DataError(
            f"Comparisons need one {what} each: got shape {ids.shape} for {n_pairs} comparisons."
        )
    missing = missing_entries(ids)
    if missing.any():
        raise DataError(
            f"The {what} of comparison {int(np.argmax(missing))} is missing ({int(missing.sum())} "
            f"in all): give every comparison a {what}, or drop these."
        )
    return ids


def check_context(context: Any, n_pairs: int) -> tuple[Array | None, list[str] | None]:
    """Context columns as numbers, and their names if they have any."""
    if context is None:
        return None, None
    named: Sequence[Any] | None = getattr(context, "columns", None)
    values = np.asarray(to_host(context))
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != n_pairs or not values.shape[1]:
        raise DataError(
            "context needs a row of features for each comparison: got shape "
            f"{values.shape} for {n_pairs} comparisons."
        )
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(
            "context must hold numbers: turn words into indicators first, for example with "
            "pandas.get_dummies."
        ) from None
    finite = np.isfinite(numbers)
    if not finite.all():
        k, column = np.unravel_index(int(np.argmin(finite)), finite.shape)
        raise DataError(
            f"context must be finite: comparison {k} has {numbers[k, column]} in column {column}."
        )
    return numbers, None if named is None else [str(name) for name in named]
