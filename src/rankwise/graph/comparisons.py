"""Comparisons between rows, and checks of what users pass about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import eq
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.errors import DataError, ParameterError, warn
from rankwise.graph.query_groups import (
    as_ids,
    check_lossless,
    finite_numbers,
    is_number,
    lossless_array,
    missing_entries,
    refuse_where,
)
from rankwise.tables import plural

CODE_OF_WORD = {
    **dict.fromkeys(("first", "win", "a", "left", "model_a", "model_1"), 0),
    **dict.fromkeys(("second", "loss", "b", "right", "model_b", "model_2"), 1),
    **dict.fromkeys(("tie", "draw", "both", "neither"), 2),
    **dict.fromkeys(("both_bad", "both bad", "bothbad", "tie (bothbad)"), 3),
}
CODE_OF_NUMBER = {1.0: 0, 0.0: 1, 0.5: 2}  # True equals 1, and False equals 0
MARGIN_OF_CODE = np.array([1.0, -1.0, 0.0, 0.0])
OUTCOME_OF_CODE = np.array([True, False, 0.5, "both_bad"], dtype=object)  # none can be an id
SHOWN = 3  # entries that an error message names


def shown(entry: Any) -> str:
    """An id as a user would write it."""
    return repr(entry.item() if isinstance(entry, np.generic) else entry)


def is_row_numbers(index: Any) -> bool:
    """Whether the index of a frame is 0, 1, 2, ..., which names nothing."""
    values = np.asarray(index)
    return values.dtype.kind in "iu" and np.array_equal(values, np.arange(len(values)))


# Items.


def check_items(items: Any) -> NDArray[Any]:
    """The ids of all items, each once."""
    ids = as_ids(
        items.index if hasattr(items, "index") and hasattr(items, "columns") else items, "items"
    )
    if ids.ndim != 1 or len(ids) < 2:
        raise DataError(
            f"items needs a column of ids, of two or more items: got shape {ids.shape}."
        )
    refuse_where(missing_entries(ids), lambda k: f"The id of item {k} is missing.")
    seen: dict[Any, int] = {}
    for k, name in enumerate(ids.tolist()):
        if seen.setdefault(name, k) != k:
            raise DataError(
                f"items {seen[name]} and {k} have the same id, {name!r}: ids of items must differ."
            )
    return ids


def positions_of(
    ids: NDArray[Any], first: NDArray[Any], second: NDArray[Any], unit: str = "comparison"
) -> Index:
    """The row number of every id in the comparisons, shape (n_pairs, 2)."""
    number = {name: k for k, name in enumerate(ids.tolist())}
    sides = [[number.get(name, -1) for name in side.tolist()] for side in (first, second)]
    pairs = np.array(sides, dtype=np.intp).T.reshape(-1, 2)
    unknown = np.flatnonzero((pairs < 0).any(axis=1))
    if len(unknown):
        k = int(unknown[0])
        name = (first, second)[int(np.argmax(pairs[k] < 0))][k]
        other = next((known for known in ids.tolist() if str(known) == str(name)), None)
        hint = f"Use ids among the {len(ids)} items, or add it to the items."
        if other is not None:
            hint = f"The items have {other!r}, of type {type(other).__name__}: use this type."
        raise DataError(
            f"{unit.capitalize()} {k} has the unknown item {shown(name)} "
            f"({plural(len(unknown), f'such {unit}')}). {hint}"
        )
    return pairs


def check_two_items(pairs: Index, ids: NDArray[Any] | None = None, unit: str = "pair") -> None:
    """Raise an error about the first pair of an item with itself."""
    same = pairs[:, 0] == pairs[:, 1]

    def message(k: int) -> str:
        what = f"row {int(pairs[k, 0])}" if ids is None else f"item {shown(ids[pairs[k, 0]])}"
        such = plural(int(same.sum()), f"such {unit}")
        return f"{unit.capitalize()} {k} compares {what} with itself ({such}): drop them."

    refuse_where(same, message)


def check_pairs(
    pairs: Any,
    n_rows: int | None,
    ids: NDArray[Any] | None = None,
    *,
    allow_empty: bool = False,
) -> Index:
    """Pairs as an array of row numbers of shape (n_pairs, 2)."""
    check_lossless("pairs", pairs)
    try:
        pairs = np.asarray(pairs)
    except ValueError:
        raise DataError("pairs needs two columns: got entries of different lengths.") from None
    if pairs.size == 0 and allow_empty:
        return np.zeros((0, 2), dtype=np.intp)
    if pairs.size == 0:
        raise DataError("pairs is empty: there is no comparison to learn from.")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise DataError(
            f"pairs needs two columns, the preferred row and the other: got shape {pairs.shape}."
        )
    if pairs.dtype.kind not in "iu":
        whole = np.array([[_is_row_number(entry) for entry in pair] for pair in pairs.tolist()])
        refuse_where(
            ~whole.all(axis=1),
            lambda k: (
                f"pairs must hold row numbers of X (integers): pairs[{k}] = {pairs[k].tolist()}. "
                "To compare items by name, use rankwise.data.Comparisons.of(first, second, "
                "items=names)."
            ),
        )
    check_range(pairs, n_rows)
    check_two_items(pairs, ids)
    return np.asarray(pairs, dtype=np.intp)


def check_range(pairs: Index, n_rows: int | None) -> None:
    outside = (pairs < 0) if n_rows is None else (pairs < 0) | (pairs >= n_rows)
    rows = "start at 0" if n_rows is None else f"are 0 to {n_rows - 1}"
    refuse_where(
        outside.any(axis=1),
        lambda k: f"pairs[{k}] = {pairs[k].tolist()} points outside X, whose rows {rows}.",
    )


def _is_row_number(entry: Any) -> bool:
    """Whether a number, but not a boolean, is whole."""
    if isinstance(entry, float):
        return entry.is_integer()
    return isinstance(entry, int) and not isinstance(entry, bool)


# Outcomes.


def outcome_codes(
    outcome: Any,
    n_pairs: int,
    sides: Sequence[NDArray[Any]] = (),
    unit: str = "comparison",
    where: Callable[[int], str] | None = None,
) -> Index:
    """Codes of outcomes: 0, the first item won; 1, the second won; 2, a tie; 3, both are bad.

    Outcomes are the words of `CODE_OF_WORD`, truth values, or 1, 0 and 0.5, as numbers or as text.
    With `sides`, the ids of the first and of the second items, an outcome may also be the id of the
    item that won. Errors begin with ``where(k)``, the place of the outcome k.

    Examples
    --------
    >>> outcome_codes(["win", "tie", 0], 3)
    array([0, 2, 1])
    """
    place = where or (lambda k: f"{unit.capitalize()} {k}")
    check_lossless("outcome", outcome, numbers=False)
    given = lossless_array(to_host(outcome), "outcome")
    if given.shape != (n_pairs,):
        raise DataError(
            f"outcome needs one entry per {unit}: got shape {given.shape} for {n_pairs} {unit}s."
        )
    check_hashable("outcome", given)
    missing = missing_entries(given)
    refuse_where(
        missing,
        lambda k: f"{place(k)}: the outcome is missing ({missing.sum()} in all). Drop them.",
    )
    entries = given.tolist()
    meaning = {entry: _code(entry) for entry in dict.fromkeys(entries)}
    codes = np.fromiter(map(meaning.__getitem__, entries), np.intp, n_pairs)
    if len(sides):
        codes = _with_winners(entries, codes, [side.tolist() for side in sides], place)
    unknown = np.flatnonzero(codes < 0)
    if len(unknown):
        k = int(unknown[0])
        others = list(dict.fromkeys(shown(entries[j]) for j in unknown))[1:SHOWN]
        more = f" (others: {', '.join(others)})" if others else ""
        winner = ", or the id of the item that won" if len(sides) else ""
        margin = "" if isinstance(entries[k], str) else " Other numbers belong in margin."
        raise DataError(
            f"{place(k)}: the outcome {shown(entries[k])} is unknown{more}. Use {WORDS}; 1 if the "
            f"first item won, 0 if the second won, 0.5 for a tie{winner}.{margin}"
        )
    return codes


WORDS = (
    '"first", "second", "tie" or "both_bad" (or "win" and "loss", "a" and "b", "left" and "right", '
    '"model_a" and "model_b")'
)


def _code(entry: Any) -> int:
    """The code of an outcome that is a word or a number; -1 if it is neither."""
    if isinstance(entry, str):
        word = entry.strip().lower()
        if word in CODE_OF_WORD:
            return CODE_OF_WORD[word]
        entry = float(word) if is_number(word) else None
    return CODE_OF_NUMBER.get(entry, -1)


def _with_winners(
    entries: list[Any], codes: Index, sides: list[list[Any]], place: Callable[[int], str]
) -> Index:
    """Codes of outcomes some of which are ids of the items that won.

    If 1 is also an item, for example, all outcomes decide: they are ids if each is an item of its
    comparison and some have no other meaning, and numbers if some are not items of their
    comparison. Otherwise, and for words that are items, this is an error.
    """
    n = len(entries)
    if set(entries).isdisjoint(set().union(*sides)):
        return codes
    first, second = (np.fromiter(map(eq, entries, side), bool, n) for side in sides)
    won = np.where(first, 0, np.where(second, 1, -1))
    won[np.fromiter((type(entry) is bool for entry in entries), bool, n)] = -1
    unlike = (codes >= 0) & (codes < 2) & (won >= 0) & (codes != won)
    if unlike.any():
        k = int(np.argmax(unlike))
        all_ids = bool(((won >= 0) | (codes >= 2)).all())
        if all_ids and (codes < 0).any():
            return np.where(won >= 0, won, codes)
        if all_ids or (isinstance(entries[k], str) and not is_number(entries[k])):
            raise DataError(
                f"{place(k)}: the outcome {entries[k]!r} is both an item and the name of a side. "
                'Use "first", "second" and "tie", or give the items other names.'
            )
    return np.where(codes >= 0, codes, won)


def check_margin(margin: Any, n_pairs: int) -> Array:
    """Margins as numbers; booleans and words name the row that won.

    Raises an error for integer margins of 1 and 0 only, and warns of such floats: a 0 is a tie, but
    may be meant as a win of the second row.
    """
    if margin is None:
        return np.ones(n_pairs)
    check_lossless("margin", margin)
    given = np.asarray(to_host(margin))
    entries = given.ravel().tolist() if given.dtype.kind not in "iuf" else []
    named = [isinstance(entry, str | bool) for entry in entries]
    if any(named):
        if not all(named):
            raise DataError("margin has words or booleans beside numbers: use one of them.")
        codes = outcome_codes(entries, len(entries), unit="pair")
        given = MARGIN_OF_CODE[codes].reshape(given.shape)
        return finite_numbers("margin", given, n_pairs, "pair", 2)
    margins = finite_numbers("margin", given, n_pairs, "pair", 2)
    if set(margins.ravel().tolist()) == {0.0, 1.0}:
        advice = (
            "margin has only 1 and 0, and 0 stands for a tie. If the second row won where it is 0, "
            'use booleans, or 2 * margin - 1. If these are ties, use the words "first" and "tie", '
            'as in numpy.where(margin == 0, "tie", "first").'
        )
        if given.dtype.kind != "f":
            raise DataError(advice)
        warn(advice)
    return margins


# Weights, groups, context.


def check_weight(weight: Any, n_pairs: int, unit: str = "pair") -> Array:
    """One weight per pair, at least 0; 1 by default."""
    if weight is None:
        return np.ones(n_pairs)
    weights = finite_numbers("weight", weight, n_pairs, "pair")
    refuse_where(
        weights < 0,
        lambda k: (
            f"Weights must not be negative: {unit} {k} has {weights[k]:g}. To reverse a "
            f"preference, swap the two items of the {unit}."
        ),
    )
    return weights


def check_comparison_ids(
    what: str, values: Any, n_pairs: int | None, unit: str = "comparison"
) -> NDArray[Any]:
    """The item, group or rater of each comparison, as integers or text."""
    check_lossless(what, values, numbers=False)
    ids = as_ids(values, what)
    if ids.ndim != 1 or len(ids) != (len(ids) if n_pairs is None else n_pairs):
        expected = "" if n_pairs is None else f" for {plural(n_pairs, unit)}"
        raise DataError(f"{what} needs one entry per {unit}: got shape {ids.shape}{expected}.")
    check_hashable(what, ids)
    missing = missing_entries(ids)
    refuse_where(
        missing,
        lambda k: (
            f"{what} has no value for {unit} {k} ({missing.sum()} missing in all): fill them in, "
            f"or drop these {unit}s."
        ),
    )
    return ids


def check_hashable(what: str, ids: NDArray[Any]) -> None:
    """Refuse ids that cannot be told apart, such as dictionaries."""
    try:
        hash(tuple(ids.tolist()) if ids.dtype.kind == "O" else None)
    except TypeError as error:
        raise DataError(f"{what} needs ids such as numbers or text: {error}.") from None


def check_context(context: Any, n_pairs: int) -> tuple[Array | None, list[str] | None]:
    """Context columns as numbers, and their names if they have any."""
    if context is None:
        return None, None
    named: Sequence[Any] | None = getattr(context, "columns", None)
    numbers = finite_numbers("context", context, n_pairs, "pair", 2)
    numbers = numbers[:, None] if numbers.ndim == 1 else numbers
    if not numbers.shape[1]:
        raise DataError("context has no columns: leave it out, or give it one column or more.")
    return numbers, None if named is None else [str(name) for name in named]


def context_factors(context: Array, size: float, most: float = np.inf, *, weight: Array) -> Array:
    """Factors that give each context column the root mean square `size`; 0 for columns of zeros.

    A comparison of weight 2 counts as two.

    Raises DataError for columns of numbers so small that their factor is not below `most`.

    Examples
    --------
    >>> import numpy as np
    >>> context = np.array([[3e200, 0.0], [4e200, 0.0]])
    >>> context_factors(context, size=5e200 / np.sqrt(2), weight=np.ones(2))
    array([1., 0.])
    """
    share = np.sqrt(weight * (len(weight) / weight.sum())) if len(weight) else weight
    context = share[:, None] * context
    largest = abs(context).max(axis=0, initial=0.0)
    used = largest > 0
    unit = np.where(used, largest, 1.0)  # squares of the values themselves may overflow
    root = unit * np.sqrt(((context / unit) ** 2).sum(axis=0) / max(len(context), 1))
    with np.errstate(over="ignore", divide="ignore"):
        factors = np.where(used, size / root, 0.0)
    refuse_where(
        ~(factors < most),
        lambda column: (
            f"The values of column {column} of the context are too small: the largest is "
            f"{largest[column]:g}. Multiply them by a constant."
        ),
    )
    return factors


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
        return cls._with_checked(pairs, margin, weight, groups, context, ids)

    @classmethod
    def check(
        cls,
        n_rows: int,
        pairs: Any,
        margin: Any = None,
        weight: Any = None,
        groups: Any = None,
        context: Any = None,
        *,
        allow_empty: bool = False,
    ) -> Comparisons:
        """Check the arguments of `fit_pairs`; margins and weights are 1 by default."""
        pairs = check_pairs(pairs, n_rows, allow_empty=allow_empty)
        margin = check_margin(margin, len(pairs))
        return cls._with_checked(pairs, margin, weight, groups, context)

    @classmethod
    def _with_checked(
        cls, pairs: Index, margin: Array, weight: Any, groups: Any, context: Any, items: Any = None
    ) -> Comparisons:
        """Check everything but the pairs and margins."""
        weight = check_weight(weight, len(pairs))
        numbers, names = check_context(context, len(pairs))
        ids = None if groups is None else check_comparison_ids("groups", groups, len(pairs))
        return cls(pairs, margin, weight, ids, numbers, names, items)

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
        return cls.check(n_rows, to_host(pairs), **rest, allow_empty=allow_empty)

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
        """All comparisons, without groups and ids; with context if both have a context."""
        context = None
        if self.context is not None and other.context is not None:
            context = np.vstack((self.context, other.context))
        return Comparisons(
            np.concatenate((self.pairs, other.pairs)),
            np.concatenate((self.margin, other.margin)),
            np.concatenate((self.weight, other.weight)),
            context=context,
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
