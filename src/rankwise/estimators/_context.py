"""What the context of comparisons adds to differences of scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, ParameterError
from rankwise.graph.comparison_checks import check_context


def context_effect(ranker: Any, context: Any, n_pairs: int) -> Array:
    """z'g for the context z of new comparisons and the coefficients g of a fitted ranker."""
    values = fitted_context(ranker, context, n_pairs)
    return np.asarray(values @ ranker.context_coef_)


def fitted_context(ranker: Any, context: Any, n_pairs: int) -> Array:
    """The context of new comparisons, with the columns that a ranker was fitted to."""
    coef = getattr(ranker, "context_coef_", None)
    if coef is None:
        raise ParameterError(
            f"This {type(ranker).__name__} was fitted without context: pass context to fit_pairs."
        )
    values, _ = check_context(context, n_pairs)
    assert values is not None  # context is not None
    if values.shape[1] != len(coef):
        raise DataError(
            f"context has {values.shape[1]} columns, but the ranker was fitted with {len(coef)}."
        )
    return values
