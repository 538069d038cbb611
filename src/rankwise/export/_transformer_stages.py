"""Fitted transformers as stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from rankwise.backends.arrays import Array
from rankwise.errors import ExportError
from rankwise.export._categories import Lookup, lookups
from rankwise.export._stages import (
    SPREAD,
    Affine,
    Branches,
    Clip,
    Columns,
    FillMissing,
    Project,
    Stage,
    WithinQuery,
)
from rankwise.preprocessing.query_scalers import QueryScaler
from rankwise.preprocessing.seen_features import SeenFeatures


def stages_in_order(steps: Sequence[tuple[str, Any]], n_columns: int) -> list[Stage]:
    """The stages of transformers that follow one another."""
    stages: list[Stage] = []
    for _, step in steps:
        if step is None or step == "passthrough":
            continue
        found = transformer_stages(step, n_columns)
        stages += found
        n_columns = width(found, n_columns)
    return stages


def width(stages: Sequence[Any], n_columns: int) -> int:
    """How many columns there are behind stages."""
    for stage in stages:
        if isinstance(stage, Columns):
            n_columns = len(stage.chosen)
        elif isinstance(stage, Project):
            n_columns = stage.matrix.shape[1]
        elif isinstance(stage, Branches):
            n_columns = sum(stage.widths)
        elif isinstance(stage, Lookup):
            n_columns = stage.table.shape[1]
    return n_columns


@singledispatch
def transformer_stages(step: Any, n_columns: int) -> list[Stage]:
    """The stages of a transformer with this many columns before it."""
    raise ExportError(
        f"{type(step).__name__} cannot be exported. StandardScaler, MinMaxScaler, MaxAbsScaler, "
        "RobustScaler, SimpleImputer, OneHotEncoder, OrdinalEncoder, PCA, TruncatedSVD, selections "
        "of features, ColumnTransformer of these and the scalers of rankwise can. For other steps "
        "of scikit-learn, use skl2onnx.to_onnx, which knows the rankers of rankwise as well."
    )


@transformer_stages.register
def _(step: Pipeline, n_columns: int) -> list[Stage]:
    return stages_in_order(step.steps, n_columns)


@transformer_stages.register
def _(step: StandardScaler, n_columns: int) -> list[Stage]:
    mean = _or(step.mean_, np.zeros(n_columns))
    scale = _or(step.scale_, np.ones(n_columns))
    centre = mean if step.with_mean else np.zeros(n_columns)
    span = None
    if step.mean_ is not None and step.var_ is not None:
        reach = SPREAD * np.sqrt(step.var_)
        span = np.stack([step.mean_ - reach, step.mean_ + reach])
    return [Affine(centre, 1.0 / scale, span)]


@transformer_stages.register
def _(step: MinMaxScaler, n_columns: int) -> list[Stage]:
    # X scale_ + min_, written as a difference first: (x + min_ / scale_) scale_.
    centre = -np.asarray(step.min_) / step.scale_
    span = np.stack([step.data_min_, step.data_max_])
    is_unit = tuple(step.feature_range) == (0, 1)
    stage = Affine(centre, np.asarray(step.scale_), span, "min_max" if is_unit else "standard")
    if not step.clip:
        return [stage]
    return [stage, Clip(*(float(bound) for bound in step.feature_range))]


@transformer_stages.register
def _(step: MaxAbsScaler, n_columns: int) -> list[Stage]:
    if getattr(step, "clip", False):
        raise ExportError("MaxAbsScaler with clip=True cannot be exported: use clip=False.")
    span = np.stack([-np.asarray(step.max_abs_), step.max_abs_])
    return [Affine(np.zeros(n_columns), 1.0 / np.asarray(step.scale_), span)]


@transformer_stages.register
def _(step: RobustScaler, n_columns: int) -> list[Stage]:
    centre = _or(step.center_, np.zeros(n_columns))
    scale = _or(step.scale_, np.ones(n_columns))
    known = step.center_ is not None and step.scale_ is not None
    span = np.stack([centre - SPREAD * scale, centre + SPREAD * scale]) if known else None
    return [Affine(centre, 1.0 / scale, span)]


@transformer_stages.register
def _(step: SimpleImputer, n_columns: int) -> list[Stage]:
    if step.add_indicator:
        raise ExportError(
            "SimpleImputer with add_indicator=True cannot be exported: use add_indicator=False."
        )
    try:
        values = np.asarray(step.statistics_).astype(np.float64)
        missing = np.nan if step.missing_values is None else float(step.missing_values)
    except (TypeError, ValueError):
        raise ExportError(
            "A SimpleImputer of words cannot be exported: the columns must be numbers. Use "
            "skl2onnx.to_onnx, which knows the rankers of rankwise."
        ) from None
    kept = np.flatnonzero(~np.isnan(values))
    if step.keep_empty_features:
        values, kept = np.nan_to_num(values), np.arange(n_columns)
    return [Columns(kept, n_columns), FillMissing(values[kept], missing)]


@transformer_stages.register
def _(step: OneHotEncoder, n_columns: int) -> list[Stage]:
    dropped = step.drop_idx_ if step.drop_idx_ is not None else [None] * n_columns
    seldom = getattr(step, "infrequent_categories_", [None] * n_columns)  # one column for all
    widths = [
        len(categories) - (drop is not None) - (0 if rare is None else len(rare) - 1)
        for categories, drop, rare in zip(step.categories_, dropped, seldom, strict=True)
    ]
    return lookups(step, widths, takes_others=step.handle_unknown != "error")


@transformer_stages.register
def _(step: OrdinalEncoder, n_columns: int) -> list[Stage]:
    takes_others = step.handle_unknown != "error" and not np.isnan(step.unknown_value)
    return lookups(step, [1] * n_columns, takes_others=takes_others)


@transformer_stages.register
def _(step: HashingVectorizer, n_columns: int) -> list[Stage]:
    raise ExportError(
        "HashingVectorizer (--encode hashing) computes hashes of words, for which ONNX has no "
        "operators. Fit with one-hot features (--encode onehot), or hash the words before they "
        "reach the model."
    )


@transformer_stages.register
def _(step: SelectorMixin, n_columns: int) -> list[Stage]:
    return [Columns(np.flatnonzero(step.get_support()), n_columns)]


@transformer_stages.register
def _(step: PCA, n_columns: int) -> list[Stage]:
    matrix = np.asarray(step.components_).T
    if step.whiten:
        matrix = matrix / np.sqrt(step.explained_variance_)
    return [Project(np.asarray(step.mean_), matrix)]


@transformer_stages.register
def _(step: TruncatedSVD, n_columns: int) -> list[Stage]:
    return [Project(np.zeros(n_columns), np.asarray(step.components_).T)]


@transformer_stages.register
def _(step: FunctionTransformer, n_columns: int) -> list[Stage]:
    if step.func is None:
        return []
    raise ExportError(
        "FunctionTransformer calls a Python function, which cannot be exported: apply it to the "
        "features before they reach the model."
    )


@transformer_stages.register
def _(step: FeatureUnion, n_columns: int) -> list[Stage]:
    parts = {
        name: stages_in_order([(name, transformer)], n_columns)
        for name, transformer in step.transformer_list
        if transformer != "drop"
    }
    return _side_by_side(parts, n_columns, step.transformer_weights)


@transformer_stages.register
def _(step: ColumnTransformer, n_columns: int) -> list[Stage]:
    parts, numbers = {}, _column_numbers(step)
    for name, transformer, _ in step.transformers_:
        chosen = numbers[name]
        if transformer != "drop" and len(chosen):
            stages = stages_in_order([(name, transformer)], len(chosen))
            parts[name] = [Columns(chosen, n_columns), *stages]
    return _side_by_side(parts, n_columns, step.transformer_weights)


def _side_by_side(
    parts: Mapping[str, list[Stage]], n_columns: int, weights: Mapping[str, float] | None
) -> list[Stage]:
    """The stages of named transformers on the same columns, each multiplied by its weight."""
    made, widths = [], []
    for name, stages in parts.items():
        n_after = width(stages, n_columns)
        if weights is not None and name in weights:
            factor = np.full(n_after, float(weights[name]))
            stages = [*stages, Affine(np.zeros(n_after), factor)]
        made.append(stages)
        widths.append(n_after)
    return [Branches(made, widths)]


@transformer_stages.register
def _(step: SeenFeatures, n_columns: int) -> list[Stage]:
    return [Columns(np.asarray(step.columns_), n_columns)]


@transformer_stages.register
def _(step: QueryScaler, n_columns: int) -> list[Stage]:
    return [WithinQuery(step.scaling.name)]


def _column_numbers(step: ColumnTransformer) -> dict[str, Any]:
    """Which columns each transformer of a ColumnTransformer gets."""
    every = np.arange(step.n_features_in_)
    names = {name: k for k, name in enumerate(getattr(step, "feature_names_in_", ()))}

    def number(column: Any) -> int:
        return names[column] if isinstance(column, str) else int(every[column])

    found = {}
    for name, _, columns in step.transformers_:
        if isinstance(columns, slice):
            start, stop = columns.start, columns.stop
            start = names[start] if isinstance(start, str) else start
            stop = names[stop] + 1 if isinstance(stop, str) else stop  # included, as in pandas
            found[name] = every[slice(start, stop, columns.step)]
            continue
        listed = [columns] if isinstance(columns, str | int) else np.asarray(columns).tolist()
        if listed and isinstance(listed[0], bool):
            found[name] = np.flatnonzero(listed)
        else:
            found[name] = np.array([number(column) for column in listed], dtype=np.intp)
    return found


def _or(value: Any, default: Array) -> Array:
    return default if value is None else np.asarray(value, dtype=np.float64)
