"""Small evaluators of linear models in search engines, by the engines' published rules.

Each reads the text that is sent to the engine, and scores rows as the engine would. Elasticsearch,
OpenSearch and Solr compute in float32: the values of features, normalizers, weights, and sums in
the order of the features.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import ExportError

Features = Any
"""The values of each feature in all rows: a mapping of names to columns, or a data frame."""

_NUMBER = r"\d+(?:\.\d+)?"
_FEATURE = r"[A-Za-z_]\w*(?:\([^()]*\))?(?:\.\w+)*"
_TERM = re.compile(
    rf"\s*(?P<sign>[+-]?)\s*(?P<number>{_NUMBER})(?:\s*\*\s*(?:"
    rf"if\s*\(isNan\((?P<asked>{_FEATURE})\),\s*(?P<fill>-?{_NUMBER}),\s*(?P<filled>{_FEATURE})\)"
    rf"|(?P<feature>{_FEATURE})))?\s*"
)


def elasticsearch_scores(text: str, features: Features) -> Array:
    """Scores of a ``model/linear`` of the LTR plugins of Elasticsearch and OpenSearch.

    A feature of the model that rows lack is 0, and is then normalized.

    Parameters
    ----------
    text : str
        The body of ``_createmodel``.
    features : mapping of str to array-like of shape (n_rows,), or data frame

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> body = '''{"model": {"name": "m", "model": {"type": "model/linear",
    ...     "feature_normalizers": {"year": {"standard": {"mean": 1970, "standard_deviation": 30}}},
    ...     "definition": {"title_query": 0.5, "year": 2.0}}}}'''
    >>> elasticsearch_scores(body, {"title_query": [3.0], "year": [2000.0]})
    array([3.5])
    """
    model = _body(text)["model"]["model"]
    if model["type"] != "model/linear":
        raise ExportError(f"A linear model has the type model/linear: got {model['type']!r}.")
    definition = model["definition"]
    weights = json.loads(definition) if isinstance(definition, str) else definition
    norms = model.get("feature_normalizers", {})
    unknown = [name for name in norms if name not in weights]
    if unknown:
        raise ExportError(f"feature_normalizers has {unknown[0]!r}, which has no weight.")
    scale = {name: _elasticsearch_normalizer(norm) for name, norm in norms.items()}
    return _float32_sum(weights, scale, features)


def solr_scores(text: str, features: Features) -> Array:
    """Scores of a ``LinearModel`` of Solr's module for learning to rank.

    Parameters
    ----------
    text : str
        What is uploaded to the model store.
    features : mapping of str to array-like of shape (n_rows,), or data frame

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> body = '''{"class": "org.apache.solr.ltr.model.LinearModel", "name": "m",
    ...     "features": [{"name": "b"}, {"name": "a", "norm": {
    ...     "class": "org.apache.solr.ltr.norm.MinMaxNormalizer",
    ...     "params": {"min": "0", "max": "10"}}}],
    ...     "params": {"weights": {"a": 4.0, "b": 1.0}}}'''
    >>> solr_scores(body, {"a": [5.0], "b": [1.0]})
    array([3.])
    """
    model = _body(text)
    if model["class"] != "org.apache.solr.ltr.model.LinearModel":
        raise ExportError(f"A linear model has the class LinearModel: got {model['class']!r}.")
    weights = model["params"]["weights"]
    listed = [feature["name"] for feature in model["features"]]
    if sorted(listed) != sorted(weights):
        raise ExportError("Solr needs a weight for each feature, and a feature for each weight.")
    scale = {}
    for feature in model["features"]:
        if "norm" in feature:
            params = feature["norm"]["params"]
            kind = feature["norm"]["class"].rpartition(".")[2]
            if not all(isinstance(value, str) for value in params.values()):
                raise ExportError("Solr takes the parameters of normalizers as text.")
            if kind == "StandardNormalizer":
                scale[feature["name"]] = float(params["avg"]), float(params["std"])
            else:
                low, high = float(params["min"]), float(params["max"])
                scale[feature["name"]] = low, high - low
    return _float32_sum({name: weights[name] for name in listed}, scale, features)


def vespa_scores(text: str, features: Features) -> Array:
    """Scores of a sum of weighted rank features, as a ranking expression of Vespa, in float64.

    Parameters
    ----------
    text : str
        The expression.
    features : mapping of str to array-like of shape (n_rows,), or data frame
        Rank features, such as ``bm25(title)``.

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> vespa_scores("0.5 * bm25(title) - 2 * attribute(age) + 1",
    ...              {"bm25(title)": [4.0], "attribute(age)": [1.0]})
    array([1.])
    """
    total: Any = 0.0
    position = 0
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None or not term.group():
            raise ExportError(f"Not a sum of weighted features: {text[position:][:40]!r}.")
        value: Any = float(f"{term['sign']}{term['number']}")
        name = term["feature"] or term["filled"]
        if name is not None:
            column = np.asarray(features[name], dtype=np.float64)
            if term["asked"] is not None:
                column = np.where(np.isnan(column), float(term["fill"]), column)
            value = value * column
        total = total + value
        position = term.end()
    return np.asarray(total, dtype=np.float64)


def json_scores(text: str, features: Features) -> Array:
    """Scores of the model that `to_json` writes, in float64.

    Parameters
    ----------
    text : str
    features : mapping of str to array-like of shape (n_rows,), or data frame

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> body = '{"constant": 1.0, "features": [{"name": "a", "weight": 2.0, "missing": 0.5}]}'
    >>> json_scores(body, {"a": [3.0, float("nan")]})
    array([7., 2.])
    """
    model = _body(text)
    listed = model["features"]
    table = np.array([features[each["name"]] for each in listed], dtype=np.float64)
    fill = np.array([each.get("missing", np.nan) for each in listed], dtype=np.float64)
    weights = np.array([each["weight"] for each in listed], dtype=np.float64)
    filled = np.where(np.isnan(table), fill[:, None], table)
    return np.asarray(weights @ filled + float(model["constant"]))


def _elasticsearch_normalizer(norm: Any) -> tuple[float, float]:
    ((kind, params),) = norm.items()
    if kind == "standard":
        if not params["standard_deviation"] > 0:
            raise ExportError("The standard deviation of a normalizer must be above 0.")
        return params["mean"], params["standard_deviation"]
    if kind == "min_max":
        if not params["maximum"] > params["minimum"]:
            raise ExportError("The maximum of a normalizer must be above its minimum.")
        return params["minimum"], params["maximum"] - params["minimum"]
    raise ExportError(f"Normalizers are standard and min_max: got {kind!r}.")


def _body(text: Any) -> Any:
    """What is sent to an engine, which may have been read already."""
    return text if isinstance(text, Mapping) else json.loads(text)


def _columns(features: Features) -> dict[str, Array]:
    names = getattr(features, "columns", None)
    names = features.keys() if names is None else names
    return {str(name): np.asarray(features[name], dtype=np.float64) for name in names}


def _float32_sum(
    weights: Mapping[str, float], scale: Mapping[str, tuple[float, float]], features: Features
) -> Array:
    """Weighted sums as single precision adds them up, feature after feature."""
    columns = _columns(features)
    n_rows = len(next(iter(columns.values())))
    total = np.zeros(n_rows, dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # the check finds what is not finite
        for name, weight in weights.items():
            if not math.isfinite(float(np.float32(weight))):
                raise ExportError(f"The weight of {name!r} overflows float32: {weight:g}.")
            values = columns.get(name, np.full(n_rows, np.nan))
            column = np.where(np.isnan(values), 0.0, values).astype(np.float32)  # missing is 0
            if name in scale:
                centre, width = (np.float32(number) for number in scale[name])
                column = (column - centre) / width
            total += np.float32(weight) * column
    return total.astype(np.float64)
