"""Checks of what users pass about comparisons: items, outcomes, weights, groups, context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import eq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.errors import DataError, warn
from rankwise.graph.id_arrays import as_ids, check_lossless, is_number, lossless_array
from rankwise.graph.query_groups import missing_entries
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
    missing = missing_entries(ids)
    if missing.any():
        raise DataError(f"The id of item {int(np.argmax(missing))} is missing.")
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
    if same.any():
        k = int(np.argmax(same))
        what = f"row {int(pairs[k, 0])}" if ids is None else f"item {shown(ids[pairs[k, 0]])}"
        raise DataError(
            f"{unit.capitalize()} {k} compares {what} with itself "
            f"({plural(int(same.sum()), f'such {unit}')}): drop them."
        )


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
        if not whole.all():
            k = int(np.argmin(whole.all(axis=1)))
            raise DataError(
                f"pairs must hold row numbers of X (integers): pairs[{k}] = {pairs[k].tolist()}. "
                "To compare items by name, use rankwise.data.Comparisons.of(first, second, "
                "items=names)."
            )
    check_range(pairs, n_rows)
    check_two_items(pairs, ids)
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
    if missing.any():
        raise DataError(
            f"{place(int(np.argmax(missing)))}: the outcome is missing ({int(missing.sum())} in "
            f"all). Drop these {unit}s."
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
        return check_per_pair("margin", MARGIN_OF_CODE[codes].reshape(given.shape), n_pairs, 2)
    margins = check_per_pair("margin", given, n_pairs, max_ndim=2)
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


def check_per_pair(name: str, values: Any, n_pairs: int, max_ndim: int) -> Array:
    """One finite number (or row of numbers) per pair; ones by default."""
    if values is None:
        return np.ones(n_pairs)
    check_lossless(name, values)
    try:
        array = np.asarray(values, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        raise DataError(
            f"{name} must hold finite numbers of float64, one entry per pair. Turn words into "
            "numbers first, for example with pandas.get_dummies."
        ) from None
    if array.ndim == 0 or array.ndim > max_ndim or len(array) != n_pairs:
        raise DataError(
            f"{name} needs one entry per pair: got shape {array.shape} for {n_pairs} pairs."
        )
    finite = np.isfinite(array)
    if not finite.all():
        k = int(np.argwhere(~finite)[0, 0])
        raise DataError(f"{name} must be finite: entry {k} is {array[k]}.")
    return array


def check_weight(weight: Any, n_pairs: int, unit: str = "pair") -> Array:
    """One weight per pair, at least 0; 1 by default."""
    weights = check_per_pair("weight", weight, n_pairs, max_ndim=1)
    if (weights < 0).any():
        k = int(np.argmax(weights < 0))
        raise DataError(
            f"Weights must not be negative: {unit} {k} has {weights[k]:g}. To reverse a "
            f"preference, swap the two items of the {unit}."
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
    if missing.any():
        raise DataError(
            f"{what} has no value for {unit} {int(np.argmax(missing))} ({int(missing.sum())} "
            f"missing in all): fill them in, or drop these {unit}s."
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
    numbers = check_per_pair("context", to_host(context), n_pairs, max_ndim=2)
    numbers = numbers[:, None] if numbers.ndim == 1 else numbers
    if not numbers.shape[1]:
        raise DataError("context has no columns: leave it out, or give it one column or more.")
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
