"""Comparisons between rows, as a user gives them, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError


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
        margin = _per_pair("margin", margin, len(pairs), max_ndim=2)
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
        whole = pairs.dtype.kind == "f" and bool((pairs == np.floor(pairs)).all())
        if not whole:
            raise DataError(f"pairs must hold row numbers (integers): got dtype {pairs.dtype}.")
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


def _per_pair(name: str, values: Any, n_pairs: int, max_ndim: int) -> Array:
    """One finite number (or row of numbers) per pair; ones by default."""
    if values is None:
        return np.ones(n_pairs)
    array = np.asarray(values, dtype=np.float64)
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
