"""Comparisons between rows, as a user gives them, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError

MARGIN_OF_WINNER = {"first": 1.0, "tie": 0.0, "second": -1.0, True: 1.0, False: -1.0}
"""What says which row of a pair won, and the margins that it stands for."""


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Which rows were compared, with what margin, and how much each comparison counts.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Row numbers, the preferred row first.
    margin : ndarray of shape (n_pairs,) or (n_pairs, n_outputs)
        By how much the first row is better than the second.
    weight : ndarray of shape (n_pairs,)
        Not negative.
    """

    pairs: Index
    margin: Array
    weight: Array

    @classmethod
    def check(
        cls,
        n_rows: int,
        pairs: Any,
        margin: Any = None,
        weight: Any = None,
        *,
        allow_empty: bool = False,
    ) -> Comparisons:
        """Check row numbers, margins and weights; margins and weights are 1 by default."""
        if allow_empty and np.shape(pairs) in ((0,), (0, 2)):
            pairs = np.zeros((0, 2), dtype=np.intp)
        else:
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

    def __len__(self) -> int:
        return len(self.pairs)

    def take(self, chosen: Any) -> Comparisons:
        """Some of the comparisons, by number or by a mask."""
        return Comparisons(self.pairs[chosen], self.margin[chosen], self.weight[chosen])

    def __add__(self, other: Comparisons) -> Comparisons:
        return Comparisons(
            np.concatenate((self.pairs, other.pairs)),
            np.concatenate((self.margin, other.margin)),
            np.concatenate((self.weight, other.weight)),
        )


def _check_pairs(pairs: Any, n_rows: int) -> Index:
    """Pairs as an array of row numbers of shape (n_pairs, 2)."""
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise DataError(
            f"pairs needs two columns, the preferred row and the other: got shape {pairs.shape}."
        )
    if len(pairs) == 0:
        raise DataError("pairs is empty: there is no comparison to learn from.")
    if pairs.dtype.kind not in "iu":
        if pairs.dtype.kind == "f":
            whole = pairs == np.floor(pairs)
        else:
            whole = np.array([[_is_row_number(entry) for entry in pair] for pair in pairs.tolist()])
        if not whole.all():
            k = int(np.argmin(whole.all(axis=1)))
            raise DataError(
                f"pairs must hold row numbers of X (integers): pairs[{k}] = {pairs[k].tolist()}. "
                "To number names: names, pairs = numpy.unique(pairs, return_inverse=True)."
            )
    outside = (pairs < 0) | (pairs >= n_rows)
    if outside.any():
        k = int(np.argmax(outside.any(axis=1)))
        raise DataError(
            f"pairs[{k}] = {pairs[k].tolist()} points outside X, whose rows are 0 to {n_rows - 1}."
        )
    same = pairs[:, 0] == pairs[:, 1]
    if same.any():
        k = int(np.argmax(same))
        raise DataError(
            f"pairs[{k}] compares row {int(pairs[k, 0])} with itself "
            f"({int(same.sum())} such pairs): drop them."
        )
    return np.asarray(pairs, dtype=np.intp)


def _is_row_number(entry: Any) -> bool:
    """Whether a number, but not a boolean, is whole."""
    is_number = isinstance(entry, (int, float)) and not isinstance(entry, bool)
    return is_number and float(entry).is_integer()


def _check_margin(margin: Any, n_pairs: int) -> Array:
    """Margins as numbers; booleans and words say which row won."""
    if margin is not None:
        margin = np.asarray(margin)
        if says_who_won(margin):
            margin = _margins_of_winners(margin)
    return _per_pair("margin", margin, n_pairs, max_ndim=2)


def says_who_won(margin: Any) -> bool:
    """Whether margins are booleans or words, not numbers."""
    given = np.asarray(margin)
    if given.dtype.kind in "iuf":
        return False
    return any(isinstance(entry, (str, bool)) for entry in given.ravel().tolist())


def _margins_of_winners(margin: Any) -> Array:
    """True and "first" as 1, "tie" as 0, False and "second" as -1."""
    entries = margin.ravel().tolist()
    for k, entry in enumerate(entries):
        if not isinstance(entry, (str, bool)) or entry not in MARGIN_OF_WINNER:
            words = ", ".join(repr(word) for word in MARGIN_OF_WINNER)
            raise DataError(
                f"margin must hold numbers, or say which row of each pair won, by one of {words}: "
                f"entry {k} is {entry!r}."
            )
    return np.array([MARGIN_OF_WINNER[entry] for entry in entries]).reshape(margin.shape)


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
