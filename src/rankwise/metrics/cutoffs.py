"""Metrics at cut-offs: their rule, and their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.metrics.ranked_queries import Array, RankedQueries, RankedRows
from rankwise.parameters import AnyOf


@dataclass(frozen=True)
class Cutoffs:
    """One cut-off or several: whole numbers from 1 to 2^53."""

    def allows(self, value: Any) -> bool:
        """Whether a value is a cut-off or a sequence of them."""
        k = np.asarray(value)
        if k.ndim > 1 or not k.size or k.dtype.kind not in "iu":
            return False
        return int(k.min()) >= 1 and int(k.max()) <= 2**53

    def hint(self, value: Any) -> str:
        """No suggestion."""
        return ""

    def __str__(self) -> str:
        return "an integer of at least 1 or a sequence of such integers, at most 2^53"


OPTIONAL_CUTOFFS = AnyOf(Cutoffs(), None)


def divided(values: Array, by: NDArray[Any]) -> Array:
    """The values of each query, or of each cut-off, divided by numbers; NaN where these are 0."""
    by = by[:, None] if by.ndim < values.ndim else by
    out = np.full(values.shape, np.nan)
    np.divide(values, by, out=out, where=by > 0)
    return out


def at_cutoffs(
    curves: Callable[[RankedRows, NDArray[np.int64]], Array], ranked: RankedQueries, k: Any
) -> Array:
    """Values for each cut-off of k, from a function of some queries and ascending cut-offs."""
    cutoffs = np.asarray(ranked.groups.sizes.max() if k is None else k, dtype=np.int64)
    ascending, where = np.unique(cutoffs, return_inverse=True)
    values = ranked.map_parts(lambda part: curves(part, ascending))
    return values[:, where] if cutoffs.ndim else values[:, 0]
