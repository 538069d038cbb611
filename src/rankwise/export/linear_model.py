"""A linear model with named features: what search engines understand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, ExportError
from rankwise.export._model_stages import ModelStages, read_stages
from rankwise.export._stages import WithinQuery, draw_rows, first_uses, linear_of
from rankwise.routing import last_step
from rankwise.tables import plural

WIDER = 0.05  # share of the range of drawn rows that is added at both ends, which they do not reach


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel:
    """score(x) = sum_j weights_j x_j + constant, with a name for each feature.

    Attributes
    ----------
    names : tuple of str
    weights : ndarray of shape (n_features,)
        Of the features as they are: scalers and selections are folded in.
    constant : float
    missing : dict of str to float
        The value that replaces a missing value, where the model fills them in.
    """

    names: tuple[str, ...]
    weights: Array
    constant: float
    missing: dict[str, float]

    def __repr__(self) -> str:
        return f"<LinearModel of {plural(len(self.names), 'feature')}>"

    def scores(self, X: Any) -> Array:
        """The scores of rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        rows = np.asarray(X, dtype=np.float64)
        if self.missing:
            fill = np.array([self.missing.get(name, np.nan) for name in self.names])
            rows = np.where(np.isnan(rows), fill, rows)
        return np.asarray(rows @ self.weights + self.constant)


def linear_model(model: Any, *, features: Sequence[str] | None = None) -> LinearModel:
    """A fitted model as named weights: scalers, selections and a linear ranker in one.

    Parameters
    ----------
    model : estimator
        A fitted linear ranker, a pipeline or a search. RankRLS, RLS, RankSVM, SparseRankRLS,
        KPCRank and PairwiseGP with a linear kernel are linear, and so is a MeanRanker of them for
        one global ranking.
    features : sequence of str, optional
        Names of the features. None: the names that the model was fitted with, or f1, f2, ...

    Returns
    -------
    LinearModel

    Raises
    ------
    ExportError
        If the model is not linear; the message explains why.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from rankwise import RankRLS
    >>> from rankwise.export import linear_model
    >>> X, y = [[1.0, 0.0], [2.0, 5.0], [3.0, 4.0]], [0, 1, 2]
    >>> pipeline = make_pipeline(StandardScaler(), RankRLS(0.1)).fit(X, y)
    >>> folded = linear_model(pipeline, features=["votes", "year"])
    >>> folded.names
    ('votes', 'year')
    >>> bool(abs(folded.scores(X) - pipeline.predict(X)).max() < 1e-12)
    True
    """
    stages = read_stages(model)
    return fold(stages, feature_names(stages, features), "This form", model)


def feature_weights(
    model: Any, *, features: Sequence[str] | None = None
) -> tuple[tuple[str, ...], Array, str] | None:
    """The weight of each feature of a linear model, for people to read.

    Parameters
    ----------
    model : estimator
    features : sequence of str, optional
        As for `linear_model`.

    Returns
    -------
    names : tuple of str
    weights : ndarray of shape (n_features,)
    units : str
        What the weights belong to: the features themselves, or features scaled within queries.
        Instead of all three, None if the model is not linear, or has several outputs.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.export import feature_weights
    >>> ranker = RankRLS(1.0, scale="query-minmax").fit([[0.0], [2.0]], [0, 1], qid=[1, 1])
    >>> feature_weights(ranker)[2]
    'features scaled within queries (query-minmax)'
    """
    read = read_stages(model)
    names = feature_names(read, features)
    units, stages = "features as they are", list(read.stages)
    if isinstance(stages[0], WithinQuery):
        units = f"features scaled within queries ({stages.pop(0).name})"
    try:
        linear = linear_of(stages)
    except ExportError:
        return None
    if linear.weights.shape[1] != 1:
        return None
    return names, linear.weights[:, 0], units


def fold(stages: ModelStages, names: tuple[str, ...], whose: str, model: Any) -> LinearModel:
    """The linear model of stages; `whose` is the target, for errors about other models."""
    try:
        linear = linear_of(stages.stages)
    except ExportError as error:
        name = type(last_step(model)).__name__
        raise ExportError(
            f"{whose} takes a linear model, and this {name} is not linear: {error}. Export it to "
            'ONNX, fit a linear ranker with scale="standard" (rankwise fit --scale standard), or '
            "distil it into a linear model (rankwise.export.distil, or --distil)."
        ) from None
    if linear.weights.shape[1] != 1:
        raise ExportError(
            f"{whose} takes a model with one score per row: this one has {linear.weights.shape[1]} "
            "outputs. Fit a model to each column of y, or export it to ONNX."
        )
    uses = first_uses(stages.stages, stages.n_features)
    missing = {
        name: float(value) for name, value in zip(names, uses.value, strict=True) if value == value
    }
    weights = linear.weights[:, 0]
    if not np.isfinite(weights).all():
        raise ExportError("The model has weights that are not finite numbers.")
    return LinearModel(names, weights, float(linear.constant[0]), missing)


def check_any_weight(linear: LinearModel) -> None:
    """Refuse a model whose weights are all 0."""
    if not linear.weights.any():
        raise ExportError(
            "All weights of the model are 0: it gives all rows the same score, and there is "
            "nothing to export."
        )


def known_span(stages: ModelStages, rows: Any, weights: Array) -> Array | None:
    """The range of the training rows and of rows that are given, of shape (2, n_features).

    None if it is not known; of features without weight, it does not matter.
    """
    drawn = draw_rows(stages.stages, stages.some_rows(1000), np.random.default_rng(0))
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    reach = WIDER * (high - low)
    found = np.stack([low - reach, high + reach])
    if rows is not None:
        found = np.stack([np.fmin(found[0], rows.min(axis=0)), np.fmax(found[1], rows.max(axis=0))])
    found[:, weights == 0.0] = 0.0
    return None if np.isnan(found).any() else found


def feature_names(stages: ModelStages, given: Sequence[str] | None) -> tuple[str, ...]:
    """Names of features: the given names, the model's names, or f1, f2, ..."""
    if given is None:
        if stages.names is not None:
            return stages.names
        return tuple(f"f{k}" for k in range(1, stages.n_features + 1))
    if isinstance(given, str):
        raise DataError(f"features must be a list of names: got the text {given!r}.")
    names = tuple(given)
    if len(names) != stages.n_features:
        raise DataError(
            f"features needs one name for each of {stages.n_features} features: got {len(names)}."
        )
    for k, name in enumerate(names, 1):
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"Name {k} of features must be text that is not empty: got {name!r}.")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise DataError(f"Names of features must differ: {name!r} is there {count} times.")
    return names
