"""From battles to a likelihood: columns, their scales, and who met whom in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index
from rankwise.data.battles import Battles, number_labels
from rankwise.errors import DataError
from rankwise.solvers.battles.tally import Layout, Likelihood, tally

POSITION = "first place"  # the column that is 1 in every battle


@dataclass(frozen=True, eq=False)
class BattleProblem:
    """The likelihood of battles, and where each battle is in it.

    `row`, `outcome`, `weight` and `group` are of the battles that count, whose numbers are
    `counted`. `sign` is -1 where the likelihood has the two items in the other order. Columns are
    divided by their `scales`. `features` are those of items, centred and scaled.
    """

    likelihood: Likelihood
    counted: Index
    row: Index
    outcome: Index
    weight: Array
    sign: Array
    group: Index | None
    judges: NDArray[Any]
    names: list[str]
    scales: Array
    features: Array

    @classmethod
    def of(
        cls, battles: Battles, *, link: str, ties: str, position: bool, item_features: Any = None
    ) -> BattleProblem:
        """Check what only whole battles can show, and count."""
        counted = np.flatnonzero((battles.outcome != 3) & (battles.weight > 0))
        b = battles.take(counted)
        if not (b.outcome < 2).any():
            raise DataError(
                "No battle has a winner: there is nothing to rank the items by. Check the outcomes."
            )
        judges, judge = (np.zeros(0), None) if b.judge is None else number_labels(b.judge)
        features, feature_names = _item_features(item_features, battles.items)
        columns, names = [], []
        if position or judge is not None:
            columns.append(np.ones((len(b), 1)))
            names.append(POSITION)
        if b.context is not None:
            columns.append(b.context)
            names += b.context_names or [f"x{k}" for k in range(b.context.shape[1])]
        if len(feature_names):
            columns.append(features[b.pairs[:, 0]] - features[b.pairs[:, 1]])
            names += feature_names
        x = np.column_stack(columns) if columns else np.zeros((len(b), 0))
        scales = _scales(x, names)
        (first, second), outcome, sign = b.pairs.T, b.outcome, np.ones(len(b))
        x = x / scales
        if not (position or judge is not None):
            # Who was shown first does not matter: count both orders as one.
            turned = first > second
            first, second = np.where(turned, second, first), np.where(turned, first, second)
            sign = np.where(turned, -1.0, 1.0)
            x = x * sign[:, None]
            outcome = np.where(turned & (outcome < 2), 1 - outcome, outcome)
        counts, row = tally(first, second, outcome, b.weight, x, judge)
        modelled = ties == "model" and bool((outcome == 2).any())
        layout = Layout(len(battles.items), x.shape[1], len(judges), modelled)
        group = None if b.groups is None else number_labels(b.groups)[1]
        likelihood, scored = Likelihood(counts, layout, link), b.weight
        return cls(
            likelihood, counted, row, outcome, scored, sign, group, judges, names, scales, features
        )  # fmt: skip

    @property
    def layout(self) -> Layout:
        return self.likelihood.layout

    def ratings(self, params: Array) -> Array:
        """Ratings relative to their mean, of shape params.shape[:-1] + (n_items,)."""
        found = params[..., self.layout.items]
        n_features = self.features.shape[1]
        if n_features:
            last = params[..., self.layout.columns][..., -n_features:]
            found = found + (last / self.scales[-n_features:]) @ self.features.T
        return np.asarray(found - found.mean(axis=-1, keepdims=True))

    def rating_map(self) -> Array:
        """The matrix that maps parameters to ratings."""
        return self.ratings(np.eye(self.layout.size)).T


def _item_features(given: Any, items: NDArray[Any]) -> tuple[Array, list[str]]:
    """Features of items in the order of the items, centred, and their names."""
    if given is None:
        return np.zeros((len(items), 0)), []
    if hasattr(given, "columns") and hasattr(given, "index"):
        names = [str(name) for name in given.columns]
        rows = dict(zip(given.index.tolist(), np.asarray(given).tolist(), strict=True))
    elif isinstance(given, Mapping):
        rows = {name: np.atleast_1d(row).tolist() for name, row in given.items()}
        names = [f"z{k}" for k in range(len(next(iter(rows.values()), [])))]
    else:
        raise DataError(
            "item_features must be a data frame whose index has the ids of items, or a dictionary "
            f"of numbers by id: got {type(given).__name__}."
        )
    missing = [name for name in items.tolist() if name not in rows]
    if missing:
        raise DataError(
            f"item_features has no row for {missing[0]!r} ({len(missing)} of {len(items)} items)."
        )
    try:
        values = np.array([rows[name] for name in items.tolist()], dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            "item_features must hold the same number of numbers for each item."
        ) from None
    if not np.isfinite(values).all():
        k = int(np.argmin(np.isfinite(values).all(axis=1)))
        raise DataError(f"item_features must be finite: the row of {items.tolist()[k]!r} is not.")
    return values - values.mean(axis=0), names


def _scales(x: Array, names: list[str]) -> Array:
    """The size of each column; raises an error if columns determine each other."""
    if not x.shape[1]:
        return np.ones(0)
    largest = abs(x).max(axis=0)
    zero = np.flatnonzero(largest == 0)
    if len(zero):
        raise DataError(
            f"The column {names[zero[0]]!r} is 0 in every battle: it has no effect to estimate. "
            "Leave it out."
        )
    scales = largest * np.sqrt(np.square(x / largest).mean(axis=0))
    unit = x / scales
    gram = unit.T @ unit / len(x)
    for k in range(1, len(gram)):
        others, side = gram[:k, :k], gram[:k, k]
        if gram[k, k] - side @ np.linalg.solve(others, side) < 1e-10:
            raise DataError(
                f"The column {names[k]!r} is a combination of those before it "
                f"({', '.join(map(repr, names[:k]))}): leave one of them out."
            )
    return np.asarray(scales)
