"""Scores in the form that `predict` returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, to_host
from rankwise.backends.dispatch import backend_of, is_sent
from rankwise.errors import DataError


def predicted_scores(basis: Any, X: Any, weights: Array, intercept: Array | float) -> Any:
    """Scores of validated rows, on the device of the rows and in their dtype."""
    with np.errstate(over="ignore", invalid="ignore"):  # `in_dtype` checks for overflow
        scores = basis.products(X, weights)
        if not isinstance(intercept, float):
            intercept = backend_of(X).array(intercept)
        return returned_scores(X, scores + intercept)


def returned_scores(X: Any, scores: Array) -> Any:
    """Scores on the device of the rows X and in their dtype."""
    return in_dtype(to_host(scores) if is_sent(X) else scores, X.dtype)


def in_dtype(scores: Array, dtype: Any) -> Any:
    """Scores in another dtype; raise an error if they are not finite."""
    on = backend_of(scores)
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        cast = on.cast(scores, dtype)
    if not on.is_finite(cast):
        if cast.dtype == on.xp.float32:
            raise DataError("The scores overflow float32: pass X as float64.")
        raise DataError(
            "The scores are not finite: scale the rows as the training rows were scaled, for "
            "example in a pipeline with a scaler. If that does not help, the weights of the model "
            "are not finite: fit it again."
        )
    return cast
