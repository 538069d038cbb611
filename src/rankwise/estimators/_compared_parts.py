"""A warning about items that neither comparisons nor features rank against each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, is_sparse, to_host
from rankwise.backends.dispatch import as_given
from rankwise.errors import warn
from rankwise.graph.comparisons import Comparisons

EQUAL = 1e-9  # relative to the spread of scores: differences that are only rounding errors
SHOWN = 3  # parts, and items of a part, that the warning names
FREQUENCIES = 4


def warn_of_parts(ranker: Any, X: Any, comparisons: Comparisons, n_rows: int) -> None:
    """Warn if parts of the comparisons are not linked, so that their order means nothing.

    Comparisons fall into parts with no chain of comparisons between them. Features that items of
    different parts share may still rank them. Where they share none, as indicators of items do, a
    penalized fit gives all parts the same mean score.
    """
    part = comparisons.part_of_row(n_rows)
    n_parts = int(part.max()) + 1
    if n_parts == 1:
        return
    scores = np.asarray(to_host(ranker.predict(X)), dtype=np.float64).reshape(n_rows, -1)
    sizes = np.bincount(part)
    means = _part_means(part, sizes, scores)
    spread = np.abs(scores - scores.mean(axis=0)).max(axis=0)
    if (spread == 0).any():
        return
    order = np.argsort(means[:, 0], kind="stable")
    close = np.abs(np.diff(means[order], axis=0)) <= EQUAL * spread
    same = np.flatnonzero(close.all(axis=1))
    if not len(same):
        return
    # Equal means are no coincidence, unless the rows of the two parts are the same on average.
    seen = _part_means(part, sizes, _fingerprints(X))
    one, two = order[same], order[same + 1]
    distinct = (np.abs(seen[one] - seen[two]) > EQUAL * np.abs(seen).max(axis=0)).any(axis=1)
    unlinked = np.unique(np.concatenate((one[distinct], two[distinct])))
    if not len(unlinked):
        return
    unlinked = unlinked[np.argsort(-sizes[unlinked], kind="stable")]
    named = [_named(comparisons.names(np.flatnonzero(part == k))) for k in unlinked[:SHOWN]]
    more = f"; and {len(unlinked) - SHOWN} more parts" if len(unlinked) > SHOWN else ""
    warn(
        f"The comparisons fall into {len(unlinked)} parts that neither comparisons nor shared "
        "features link, and items of different parts cannot be ranked against each other: "
        f"{'; '.join(named)}{more}. Compare items of different parts, or rank each part on its "
        "own: Comparisons.parts() lists them."
    )


def _part_means(part: Any, sizes: Any, values: Array) -> Array:
    sums = [np.bincount(part, column, len(sizes)) for column in values.T]
    return np.column_stack(sums) / sizes[:, None]


def _fingerprints(X: Any) -> Array:
    """Some numbers for each row, the same for equal rows: waves along random directions."""
    given = as_given(X)
    given = given if is_sparse(given) else np.asarray(to_host(given), dtype=np.float64)
    rng = np.random.default_rng(0)
    along = rng.standard_normal((given.shape[1], FREQUENCIES))
    values = np.asarray(given @ along)
    largest = np.abs(values).max(axis=0)
    return np.sin(values / np.where(largest > 0, largest, 1.0) + np.arange(FREQUENCIES))


def _named(names: Any) -> str:
    shown = ", ".join(repr(name) for name in names[:SHOWN].tolist())
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{shown}{rest}"
