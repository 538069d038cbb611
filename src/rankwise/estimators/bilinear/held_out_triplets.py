"""Triplets that are held out from a fit of the bilinear ranker, for its learning curve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from rankwise.errors import DataError
from rankwise.estimators.bilinear.triplet_checks import check_classes, check_triplets
from rankwise.solvers.bilinear.step_arrays import Ints
from rankwise.solvers.bilinear.triplet_sampling import from_classes

DRAWN_TRIPLETS = 2000  # from classes

HeldOut = tuple[sp.csr_array, sp.csr_array, Ints]
"""Rows of queries, rows of documents, and triplets of them."""

CheckRows = Callable[[Any], sp.csr_array]


def held_out_triplets(
    given: Any, Q: sp.csr_array, D: sp.csr_array, queries: CheckRows, documents: CheckRows
) -> HeldOut:
    """Triplets of the rows of the fit, or of other rows, which are checked by functions."""
    if _has_rows(given):
        Q, D, given = queries(given[0]), documents(given[1]), given[2]
    return Q, D, check_triplets(given, Q, D, "held_out")


def held_out_classes(given: Any, queries: CheckRows) -> HeldOut:
    """Triplets that are drawn from other rows with classes."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise DataError("held_out of fit_classes must be a tuple (X, labels) of other rows.")
    rows = queries(given[0])
    numbers = check_classes(given[1], rows.shape[0], "held_out labels")
    full = np.flatnonzero(np.diff(rows.indptr))  # rows without a known word have no score
    kept = check_classes(numbers[full], len(full), "held_out labels of rows with a known word")
    drawn = from_classes(kept)(np.random.default_rng(0), DRAWN_TRIPLETS)
    return rows, rows, full[drawn]


def _has_rows(given: Any) -> bool:
    """Whether held-out triplets come with their own rows: (Q, D, triplets)."""
    if not isinstance(given, (tuple, list)) or len(given) != 3:
        return False
    first = given[0]
    return len(getattr(first, "shape", ())) == 2 or (
        isinstance(first, (list, tuple)) and len(first) > 0 and np.ndim(first[0]) == 1
    )
