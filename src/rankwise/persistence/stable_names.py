"""Stable names of the objects that fitted rankers are made of.

Like the names of the rankers, these never change and are never given to another class.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import cache
from importlib import import_module
from inspect import isclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np

from rankwise.errors import ModelFileError

VALUE_OBJECTS = {
    "named-kernel": "rankwise.kernels.functions.NamedKernel",
    "precomputed-kernel": "rankwise.kernels.functions.Precomputed",
    "feature-basis": "rankwise.problem.feature_space.FeatureBasis",
    "kernel-basis": "rankwise.problem.kernel_space.KernelBasis",
    "landmark-basis": "rankwise.problem.landmark_space.LandmarkBasis",
    "component-basis": "rankwise.estimators.components.component_space.ComponentBasis",
    "solution": "rankwise.problem.problem.Solution",
    "component-solution": "rankwise.estimators.components.component_space.ComponentSolution",
    "component-errors": "rankwise.estimators.components.held_out_errors.ComponentErrors",
    "block-sums": "rankwise.problem.block_sums.BlockSums",
    "landmark-system": "rankwise.problem.landmark_space.LandmarkSystem",
    "landmark-factor": "rankwise.solvers.landmark_factor.LandmarkFactor",
    "pair-loss": "rankwise.problem.loss.PairLoss",
    "row-loss": "rankwise.problem.loss.RowLoss",
    "moments": "rankwise.solvers.moments.Moments",
    "centred-moments": "rankwise.solvers.moments.CentredMoments",
    "ranking-scorer": "rankwise.model_selection.search.scoring.RankingScorer",
    "gp-hyperparameters": "rankwise.estimators.gp.conditioned_process.Hyperparameters",
    "gp-process": "rankwise.estimators.gp.conditioned_process.ConditionedProcess",
    "gp-mixture": "rankwise.estimators.gp.process_mixture.ProcessMixture",
    "gp-approximation": "rankwise.solvers.gp.approximation.Approximation",
    "gp-weights": "rankwise.solvers.gp.differences.WeightPosterior",
    "gp-basis": "rankwise.solvers.gp.weight_space.WeightBasis",
}
"""Where the class of each value object is, by its stable name."""

PRIVATE_ATTRIBUTES = {
    "output-config": "_sklearn_output_config",
    "metadata-request": "_metadata_request",
}
"""Attributes of rankers that begin with an underscore, by their names in files."""

GP_KERNELS = (
    "CompoundKernel", "ConstantKernel", "DotProduct", "ExpSineSquared", "Exponentiation", "Matern",
    "PairwiseKernel", "Product", "RBF", "RationalQuadratic", "Sum", "WhiteKernel",
)  # fmt: skip
"""Kernels of scikit-learn's Gaussian processes, stored by these names."""


def value_object_name(cls: type) -> str | None:
    """The stable name of a class, or None if it has none."""
    path = f"{cls.__module__}.{cls.__qualname__}"
    return next((name for name, known in VALUE_OBJECTS.items() if known == path), None)


def make_value_object(name: str, values: dict[str, Any]) -> Any:
    """The value object with a stable name, from its fields; each must have its declared type."""
    if name not in VALUE_OBJECTS:
        raise ModelFileError(f"it has an object {name!r}, which this version does not know")
    module, _, class_name = VALUE_OBJECTS[name].rpartition(".")
    cls = getattr(import_module(module), class_name)
    known = {field.name: field for field in fields(cls)}
    unknown = sorted(values.keys() - known.keys())
    if unknown:
        raise ModelFileError(f"{name} has an unknown field {unknown[0]!r}")
    hints = _hints(cls)
    for key, field in known.items():
        if key in values and not has_type(values[key], hints[key]):
            raise ModelFileError(f"the {key} of {name} is {describe(values[key])}")
        if key not in values and field.default is field.default_factory is MISSING:
            raise ModelFileError(f"{name} has no {key}")
    return cls(**values)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def has_type(value: Any, hint: Any) -> bool:
    """Whether a value has a type; what types cannot express (protocols, functions) passes."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(has_type(value, option) for option in arguments)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _has_dtype(value.dtype, arguments)
    if origin in (list, set, tuple):
        kinds = arguments[:1] if origin is not tuple or arguments[1:] == (...,) else ()
        same = isinstance(value, origin)
        return same and all(has_type(entry, kind) for kind in kinds for entry in value)
    if origin is not None:
        return not isclass(origin) or isinstance(value, origin)
    if hint is Any:
        return True
    if hint is float:
        return isinstance(value, (int, float, np.floating)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if hint in (None, NoneType):
        return value is None
    checkable = isclass(hint) and not getattr(hint, "_is_protocol", False)
    return not checkable or is_typeddict(hint) or isinstance(value, hint)


def _has_dtype(dtype: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether a dtype is of the kind that ``NDArray[...]`` names, in any precision."""
    wanted = get_args(arguments[1])[0] if len(arguments) == 2 else Any
    if not isclass(wanted) or not issubclass(wanted, np.generic):
        return True
    if wanted in (np.generic, np.number):
        return bool(np.issubdtype(dtype, wanted))
    return bool(np.dtype(wanted).kind == dtype.kind)


def describe(value: Any) -> str:
    """What a value is, in a few words."""
    if isinstance(value, np.ndarray):
        return f"an array of dtype {value.dtype} and shape {value.shape}"
    return f"a {type(value).__name__}"
