"""A fitted model as stages, with its features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rankwise.errors import ExportError
from rankwise.export._categories import Lookup, text_columns
from rankwise.export._ranker_stages import score_stages

MOST_CELLS = 2 * 10**7  # of rows that are drawn


@dataclass(frozen=True, eq=False)
class ModelStages:
    """A fitted model as stages, with its features."""

    stages: Sequence[Any]
    n_features: int
    names: tuple[str, ...] | None  # that it was fitted with

    @cached_property
    def texts(self) -> dict[int, Lookup]:
        """The features that are text."""
        return text_columns(self.stages, np.arange(self.n_features))

    def some_rows(self, wanted: int) -> int:
        """A number of rows to draw: fewer than wanted, if there are very many features."""
        return max(4, min(wanted, MOST_CELLS // max(self.n_features, 1)))


def read_stages(model: Any) -> ModelStages:
    """The stages of a fitted ranker, pipeline or search."""
    if isinstance(model, type) or not hasattr(model, "predict"):
        raise ExportError(f"Only a fitted ranker or pipeline can be exported: got {model!r}.")
    check_is_fitted(model)
    n_features = int(getattr(model, "n_features_in_", 0))
    names = getattr(model, "feature_names_in_", None)
    stages = score_stages(model)
    return ModelStages(
        stages, n_features, None if names is None else tuple(str(name) for name in names)
    )
