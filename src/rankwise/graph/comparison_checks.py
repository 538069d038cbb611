"""Checks of what a user says about comparisons: items, outcomes, weights, groups, context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.errors import DataError, warn
from rankwise.graph.id_arrays import as_ids, check_lossless
from rankwise.graph.query_groups import missing_entries
from rankwise.tables import plural

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


def shown(entry: Any) -> str:
    """An id as a user would write it."""
    return repr(entry.item() if isinstance(entry, np.generic) else entry)


def is_row_numbers(index: Any) -> bool:
    """Whether the index of a frame is 0, 1, 2, ..., and says nothing."""
    values = np.asarray(index)
    return values.dtype.kind in "iu" and np.array_equal(values, np.arange(len(values)))


# Items.


def check_items(items: Any) -> NDArray[Any]:
    """The ids of all items, each once."""
    if hasattr(items, "columns"):
        if not hasattr(items, "index"):
            raise DataError(
                "items is a data frame without an index: pass the column of ids, as in "
                'items=frame["id"].'
            )
        items = items.index
    ids = as_ids(items, "items")
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


def positions_of(ids: NDArray[Any], first: NDArray[Any], second: NDArray[Any]) -> Index:
    """The row number of every id in the comparisons."""
    number = {name: k for k, name in enumerate(ids.tolist())}
    sides = [[number.get(name, -1) for name in side.tolist()] for side in (first, second)]
    pairs = np.array(sides, dtype=np.intp).T.reshape(-1, 2)
    unknown = np.flatnonzero((pairs < 0).any(axis=1))
    if len(unknown):
        named = [
            f"{shown((first, second)[side][k])} (comparison {k})"
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


def as_pairs(pairs: Any) -> NDArray[Any]:
    """Pairs as an array, of any shape and type."""
    check_lossless("pairs", pairs)
    try:
        return np.asarray(pairs)
    except ValueError:
        raise DataError(
            "pairs needs two columns, the preferred row and the other: got entries of different "
            "lengths."
        ) from None


def check_pairs(pairs: Any, n_rows: int | None, ids: NDArray[Any] | None = None) -> Index:
    """Pairs as an array of row numbers of shape (n_pairs, 2)."""
    pairs = as_pairs(pairs)
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
    check_range(pairs, n_rows)
    same = pairs[:, 0] == pairs[:, 1]
    if same.any():
        k = int(np.argmax(same))
        what = f"row {int(pairs[k, 0])}" if ids is None else f"item {shown(ids[pairs[k, 0]])}"
        raise DataError(
            f"pairs[{k}] compares {what} with itself ({plural(int(same.sum()), 'such pair')}): "
            "drop them."
        )
    return np.asarray(pairs, dtype=np.intp)


def check_range(pairs: Index, n_rows: int | None) -> None:
    outside = (pairs < 0) if n_rows is None else (pairs < 0) | (pairs >= n_rows)
    if outside.any():
        k = int(np.argmax(outside.any(axis=1)))
        rows = "start at 0" if n_rows is None else f"are 0 to {n_rows - 1}"
        raise DataError(f"pairs[{k}] = {pairs[k].tolist()} points outside X, whose rows {rows}.")


def _is_row_number(entry: Any) -> bool:
    """Whether a number, but not a boolean, is whole."""
    if isinstance(entry, float):
        return entry.is_integer()
    return isinstance(entry, int) and not isinstance(entry, bool)


# Outcomes.


def check_margin(margin: Any, n_pairs: int) -> Array:
    """Margins as numbers; booleans and words say which row won."""
    if margin is not None:
        check_lossless("margin", margin)
        margin = np.asarray(margin)
        if says_who_won(margin):
            margin = _margins_of_winners("margin", margin)
    return check_per_pair("margin", margin, n_pairs, max_ndim=2)


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
    if margin is not None:
        check_lossless("margin", margin)
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


def margins_of_outcomes(outcome: Any, n_pairs: int) -> Array:
    """Margins of outcomes: words and booleans, or 1, 0.5 and 0."""
    check_lossless("outcome", outcome)
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
    values = check_per_pair("outcome", given, n_pairs, max_ndim=1)
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


def check_per_pair(name: str, values: Any, n_pairs: int, max_ndim: int) -> Array:
    """One finite number (or row of numbers) per pair; ones by default."""
    if values is None:
        return np.ones(n_pairs)
    check_lossless(name, values)
    try:
        array = np.asarray(values, dtype=np.float64)
    except OverflowError:
        raise DataError(f"{name} has numbers that are too large for float64.") from None
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


def check_groups(groups: Any, n_pairs: int) -> NDArray[Any] | None:
    return None if groups is None else check_comparison_ids("group", groups, n_pairs)


def check_comparison_ids(what: str, values: Any, n_pairs: int) -> NDArray[Any]:
    """The group or the rater of each comparison, as integers or text."""
    check_lossless(what, values, numbers=False)
    ids = as_ids(values, what)
    if ids.shape != (n_pairs,):
        raise DataError(
            f"Comparisons need one {what} each: got shape {ids.shape} for {n_pairs} comparisons."
        )
    check_hashable(what, ids)
    missing = missing_entries(ids)
    if missing.any():
        raise DataError(
            f"The {what} of comparison {int(np.argmax(missing))} is missing ({int(missing.sum())} "
            f"in all): give every comparison a {what}, or drop these."
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
    check_lossless("context", context)
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
    except (OverflowError, TypeError, ValueError):
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


def context_factors(context: Array, size: float, most: float = np.inf) -> Array:
    """Factors that give each context column the root mean square `size`; 0 for columns of zeros.

    Raises DataError for columns of numbers so small that their factor is not below `most`.

    Examples
    --------
    >>> import numpy as np
    >>> context_factors(np.array([[3e200, 0.0], [4e200, 0.0]]), size=5e200 / np.sqrt(2))
    array([1., 0.])
    """
    largest = abs(context).max(axis=0)
    used = largest > 0
    unit = np.where(used, largest, 1.0)  # squares of the values themselves may overflow
    root = unit * np.sqrt(np.mean((context / unit) ** 2, axis=0))
    with np.errstate(over="ignore", divide="ignore"):
        factors = np.where(used, size / root, 0.0)
    if not (factors < most).all():
        column = int(np.argmin(factors < most))
        raise DataError(
            f"The values of column {column} of the context are too small: the largest is "
            f"{largest[column]:g}. Multiply them by a constant."
        )
    return factors
