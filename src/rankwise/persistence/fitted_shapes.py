"""Which arrays of a fitted ranker belong together, and what they may hold.

A table maps the names of attributes, or paths of them, to rules. A rule names the axes of an
array; axes of the same name have the same length throughout the table. The axis "outputs" is left
out where y had one column. Attributes that a ranker does not have are passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from rankwise.backends.arrays import is_sparse
from rankwise.errors import ModelFileError
from rankwise.persistence.stable_names import describe


@dataclass(frozen=True, init=False)
class Numbers:
    """An array of finite numbers, dense or CSR."""

    axes: tuple[str, ...]

    def __init__(self, *axes: str) -> None:
        object.__setattr__(self, "axes", axes)

    def allows(self, value: Any, lengths: dict[str, int]) -> bool:
        """Whether the entries are finite numbers."""
        entries = np.asarray(value.data if is_sparse(value) else value)
        return entries.dtype.kind == "f" and bool(np.isfinite(entries).all())


@dataclass(frozen=True, init=False)
class Indices:
    """An array of positions along an axis, which comes earlier in the table."""

    axes: tuple[str, ...]
    along: str
    lowest: int

    def __init__(self, *axes: str, along: str, lowest: int = 0) -> None:
        for name, value in (("axes", axes), ("along", along), ("lowest", lowest)):
            object.__setattr__(self, name, value)

    def allows(self, value: Any, lengths: dict[str, int]) -> bool:
        """Whether the entries are whole numbers within the axis."""
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu":
            return False
        length = lengths.get(self.along, np.iinfo(np.int64).max)
        return not value.size or bool(self.lowest <= value.min() and value.max() < length)


@dataclass(frozen=True)
class Length:
    """A whole number: the length of an axis."""

    axis: str


Rules = dict[str, Numbers | Indices | Length]

FEATURES: Rules = {"n_features_in_": Length("features")}
LINEAR: Rules = FEATURES | {
    "solution_.weights": Numbers("features", "outputs"),
    "solution_.intercept": Numbers("outputs"),
    "coef_": Numbers("outputs", "features"),
    "intercept_": Numbers("outputs"),
}
KERNEL: Rules = FEATURES | {
    "basis_.X": Numbers("rows", "features"),
    "solution_.weights": Numbers("rows", "outputs"),
    "solution_.intercept": Numbers("outputs"),
    "X_fit_": Numbers("rows", "features"),
    "dual_coef_": Numbers("rows", "outputs"),
    "intercept_": Numbers("outputs"),
}
LANDMARKS: Rules = FEATURES | {
    "basis_.points": Numbers("landmarks", "features"),
    "basis_.rows": Indices("landmarks", along="training rows"),
    "solution_.weights": Numbers("landmarks", "outputs"),
    "solution_.intercept": Numbers("outputs"),
    "landmarks_": Numbers("landmarks", "features"),
    "landmark_indices_": Indices("landmarks", along="training rows"),
    "dual_coef_": Numbers("landmarks", "outputs"),
    "intercept_": Numbers("outputs"),
    "block_sums_.system.factor.n_landmarks": Length("landmarks"),
}
COMPONENTS: Rules = FEATURES | {
    "n_components_": Length("components"),
    "basis_.points": Numbers("points", "features"),
    "basis_.rows": Indices("points", along="training rows"),
    "basis_.A": Numbers("points", "components"),
    "basis_.means": Numbers("components"),
    "basis_.eigenvalues": Numbers("components"),
    "solution_.weights": Numbers("components", "outputs"),
    "solution_.path": Numbers("components", "components", "outputs"),
    "solution_.idle": Indices("idle", along="components"),
    "solution_.intercept": Numbers("outputs"),
    "X_fit_": Numbers("points", "features"),
    "landmarks_": Numbers("points", "features"),
    "landmark_indices_": Indices("points", along="training rows"),
    "dual_components_": Numbers("points", "components"),
    "component_means_": Numbers("components"),
    "eigenvalues_": Numbers("components"),
    "explained_variance_ratio_": Numbers("components"),
    "coef_": Numbers("outputs", "components"),
    "path_coef_": Numbers("components", "components", "outputs"),
    "idle_components_": Indices("idle", along="components"),
    "intercept_": Numbers("outputs"),
}
SHAPES: dict[str, Rules] = {
    "rankrls": LINEAR,
    "rls": LINEAR,
    "sparse-rankrls": LANDMARKS,
    "sparse-rls": LANDMARKS,
    "kpcrank": COMPONENTS,
    "kpcr": COMPONENTS,
    "ranksvm": FEATURES | {"coef_": Numbers("features")},
    "sparse-bilinear": FEATURES
    | {
        "n_document_features_": Length("document features"),
        "coef_": Numbers("features", "document features"),
    },
    "pairwise-gp": FEATURES
    | {
        "X_fit_": Numbers("rows", "features"),
        "landmarks_": Numbers("landmarks", "features"),
        "pairs_": Indices("comparisons", "2", along="rows"),
        "margin_": Numbers("comparisons"),
        "weight_": Numbers("comparisons"),
    },
    "ranking-search": FEATURES | {"best_estimator_.n_features_in_": Length("features")},
    "landmark-factor": {
        "n_landmarks": Length("landmarks"),
        "kept": Indices("rank", along="landmarks"),
        "C": Numbers("rank", "rank"),
    },
    "moments": {"A": Numbers("features", "features"), "b": Numbers("features", "outputs")},
    "centred-moments": {
        "A": Numbers("features", "features"),
        "b": Numbers("features", "outputs"),
        "F_mean": Numbers("features"),
        "y_mean": Numbers("outputs"),
    },
    "gp-process": {
        "points": Numbers("points", "features"),
        "basis.root": Numbers("rank", "rank"),
        "basis.first": Indices("rank", along="points"),
        "basis.second": Indices("rank", along="points", lowest=-1),
        "approximation.weights.mean": Numbers("rank"),
        "approximation.tau": Numbers("sites"),
        "approximation.nu": Numbers("sites"),
    },
    "gp-mixture": {"weights": Numbers("processes"), "prior": Numbers("processes")},
}
"""Rules by the stable name of a ranker or of a value object."""


def check_shapes(name: str, thing: Any) -> None:
    """Refuse a ranker or a value object whose arrays do not belong together."""
    lengths = {"2": 2}
    axes: tuple[str, ...]
    rules = SHAPES.get(name, {})
    if rules is LINEAR and hasattr(thing, "dual_coef_"):
        rules = KERNEL
    for path, rule in rules.items():
        value = reduce(lambda owner, key: getattr(owner, key, None), path.split("."), thing)
        if value is None:
            continue
        if isinstance(rule, Length):
            if type(value) is not int or value < 0:
                raise ModelFileError(f"the {path} of {name} is {describe(value)}")
            axes, shape = (rule.axis,), (value,)
        else:
            shape = np.shape(value) if not is_sparse(value) else value.shape
            axes = rule.axes
            if "outputs" in axes and len(shape) == len(axes) - 1:
                axes = tuple(axis for axis in axes if axis != "outputs")
            if len(shape) != len(axes) or not rule.allows(value, lengths):
                raise ModelFileError(f"the {path} of {name} is not valid: it is {describe(value)}")
        for axis, length in zip(axes, shape, strict=True):
            if lengths.setdefault(axis, length) != length:
                raise ModelFileError(
                    f"the {path} of {name} has {length} {axis}, where {lengths[axis]} are needed"
                )
