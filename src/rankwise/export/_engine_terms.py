"""The terms of a linear model for an engine that has normalizers, but no constant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import ExportError, ParameterError
from rankwise.export._model_stages import ModelStages
from rankwise.export._uses import first_uses
from rankwise.export.linear_model import LinearModel, check_any_weight, known_span


@dataclass(frozen=True, eq=False)
class EngineOptions:
    """What the caller of an export to an engine asks for."""

    model: Any
    features: Sequence[str] | None
    normalizers: bool
    positive: bool | None
    complete: bool
    rows: Any
    qid: Any


@dataclass(frozen=True, eq=False)
class EngineTerms:
    """The terms of a linear model, weights (x - centre) / width, of features that count."""

    names: tuple[str, ...]
    weights: Array
    centre: Array
    width: Array
    min_max: Array  # which of them are scaled by minimum and maximum

    @property
    def named_weights(self) -> dict[str, float]:
        """The weight of each feature."""
        return dict(zip(self.names, map(_short, self.weights), strict=True))

    @property
    def normalizers(self) -> dict[str, tuple[str, float, float]]:
        """For each feature that needs one, the kind of its normalizer and two numbers."""
        found = {}
        numbers = zip(self.centre, self.width, self.min_max, strict=True)
        for name, (centre, width, is_min_max) in zip(self.names, numbers, strict=True):
            if centre == 0.0 and width == 1.0:
                continue
            if is_min_max:
                found[name] = "min_max", _short(centre), _short(centre + width)
            else:
                found[name] = "standard", _short(centre), _short(width)
        return found


def engine_terms(
    title: str, stages: ModelStages, linear: LinearModel, given: EngineOptions, rows: Array | None
) -> tuple[EngineTerms, tuple[str, ...]]:
    """Weights and normalizers of the features that count, and notes about them."""
    weights, notes = linear.weights, []
    centre, width = np.zeros(len(weights)), np.ones(len(weights))
    min_max = np.zeros(len(weights), dtype=bool)
    if given.normalizers:
        uses = first_uses(stages.stages, stages.n_features)
        width = np.where(uses.factor > 0, 1.0 / np.where(uses.factor > 0, uses.factor, 1.0), 1.0)
        centre, min_max = uses.centre, uses.min_max
        if not (uses.factor != 1.0).any() and not uses.centre.any():
            raise ParameterError(
                "normalizers=True writes the scaler of a pipeline, and this model has none: leave "
                "it out."
            )
    positive = given.positive
    if positive is not False:
        span = known_span(stages, rows)
        if span is not None:
            centre, min_max = np.where(weights > 0, span[0], span[1]), np.zeros_like(min_max)
            notes.append(
                "Features are shifted such that rows within the range of training have scores of "
                "at least 0."
            )
        elif positive:
            raise ParameterError(
                "positive=True needs the range of the features, which this model does not know: "
                "give rows."
            )
        else:
            notes.append(
                "Scores can be negative, as the model does not know the range of its features. "
                f"Give rows if {title} refuses them."
            )
    if any(linear.missing.values()):
        notes.append(
            f"{title} reads a missing feature as 0, and the model as another value: index every "
            "feature."
        )
    check_any_weight(linear)
    used = np.flatnonzero(weights)
    names = tuple(linear.names[k] for k in used)
    scaled = weights[used] * width[used]
    return EngineTerms(names, scaled, centre[used], width[used], min_max[used]), tuple(notes)


def check_missing(title: str, linear: LinearModel, *, complete: bool) -> None:
    """Refuse a model that fills in missing values by others than 0, unless no row has any."""
    filled = {name: value for name, value in linear.missing.items() if value != 0.0}
    if complete or not filled:
        return
    some = ", ".join(f"{name} by {value:g}" for name, value in list(filled.items())[:3])
    raise ExportError(
        f"{title} reads a missing feature as 0, and the model fills in other values ({some}"
        f"{', ...' if len(filled) > 3 else ''}). If every row has every feature, say so with "
        "complete=True (--complete). Otherwise fill in 0 when you fit the model, or export it to "
        "Vespa, JSON or ONNX."
    )


def _short(value: float) -> float:
    """The shortest decimal number that is the same in float32."""
    with np.errstate(over="ignore"):
        return float(str(np.float32(value)))
