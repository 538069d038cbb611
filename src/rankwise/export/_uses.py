"""What happens first to each feature of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index
from rankwise.export._stages import Affine, Branches, Columns, FillMissing


@dataclass(eq=False)
class FirstUses:
    """For each feature: the value in place of a missing one, and the units of its first scaler.

    Features that several branches use have the units of the first branch.
    """

    value: Array  # NaN: missing values are not filled in
    missing: Array  # what counts as missing
    centre: Array
    factor: Array
    min_max: Array  # whether the scaler is one of minima and maxima
    read: NDArray[np.bool_]  # whether any stage does more than to leave it out


def first_uses(stages: Sequence[Any], n_features: int) -> FirstUses:
    """Follow the features through the first stages."""
    uses = FirstUses(
        np.full(n_features, np.nan),
        np.full(n_features, np.nan),
        np.zeros(n_features),
        np.ones(n_features),
        np.zeros(n_features, dtype=bool),
        np.zeros(n_features, dtype=bool),
    )
    _follow(stages, np.arange(n_features), uses, np.zeros(n_features, dtype=bool))
    return uses


def _follow(
    stages: Sequence[Any], numbers: Index, uses: FirstUses, scaled: NDArray[np.bool_]
) -> None:
    """Note what stages do to columns, which are features with these numbers."""
    for stage in stages:
        if isinstance(stage, Columns):
            numbers = numbers[stage.chosen]
        elif isinstance(stage, FillMissing):
            uses.value[numbers], uses.missing[numbers] = stage.values, stage.missing
        elif isinstance(stage, Affine):
            new = ~scaled[numbers]
            uses.centre[numbers[new]] = stage.centre[new]
            uses.factor[numbers[new]] = stage.factor[new]
            uses.min_max[numbers[new]] = stage.kind == "min_max"
            scaled[numbers] = True
            break
        elif isinstance(stage, Branches):
            for part in stage.parts:
                _follow(part, numbers, uses, scaled)
            return
        else:
            break
    uses.read[numbers] = True
