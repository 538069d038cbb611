"""The rows or the columns of a table: their features or kernels, and how new ones are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import check_array

from rankwise.backends.arrays import Array, Index, backend_of, is_sparse, is_tensor
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.base import KERNEL_PARAMETERS
from rankwise.estimators.ranker_rows import explain_rows
from rankwise.graph.query_groups import check_real, check_unmasked
from rankwise.kernels import (
    Kernel,
    NamedKernel,
    PairFunction,
    Precomputed,
    kernel_values,
    training_kernel,
)
from rankwise.parameters import Number, check_value
from rankwise.scaling import ColumnStandard, ColumnStatistics
from rankwise.solvers.ridge_path import LandmarkFactor
from rankwise.two_sided.table_system import Side
from rankwise.walks import are_graphs


@dataclass(frozen=True, eq=False)
class View:
    """One description of the objects on a side: features or a kernel matrix, and a kernel.

    Attributes
    ----------
    kernel : Kernel
    points : array or sparse of shape (n_points, n_features), or None
        The objects that new ones are compared with. None: the kernel is precomputed.
    n_features : int
    mean, deviation : ndarray of shape (n_features,), or None
        Features are standardized by these. None: they are not.
    names : list of str or None
        The names of the features (or of the training objects, for a precomputed kernel).
    constant : bool
        Whether a feature of ones is appended, for the linear kernel of standardized features. With
        it on the rows, columns may be better than others in every row.
    """

    kernel: Kernel
    points: Any
    n_features: int
    mean: Array | None
    deviation: Array | None
    constant: bool = False
    names: list[str] | None = None

    def scaled(self, X: Any) -> Any:
        """Standardized features; sparse ones are only divided."""
        if self.deviation is None:
            return X
        if is_sparse(X) and np.any(self.mean):  # fitted to dense rows, whose mean is subtracted
            X = dense(X)
        if is_sparse(X):
            ones: Any = np.ones((X.shape[0], int(self.constant)))
            parts: Any = (X.multiply(1.0 / self.deviation), ones)
            return sp.hstack(parts, format="csr")
        on = backend_of(X)
        ones = on.array(np.ones((len(X), int(self.constant))))
        return on.xp.concatenate(((X - self.mean) / self.deviation, ones), axis=1)

    def values(self, X: Any, columns: Index) -> Array:
        """Kernel values of new objects with the points."""
        if self.points is None:
            return dense(X)[:, columns]
        return kernel_values(self.kernel, self.scaled(X), self.points)


@dataclass(frozen=True, eq=False)
class TableSide:
    """One side of a fitted table: views of its objects, whose kernels are added up.

    Attributes
    ----------
    name : {"row", "column"}
    views : list of View
    weights : ndarray of shape (n_views,)
        The weights of their kernels.
    columns : ndarray of int
        Which training objects new ones are compared with: all of them, or landmarks. Empty if
        coefficients belong to features.
    linear : bool
        Whether coefficients belong to features, and not to training objects.
    names : list of str or None
        Names of the training objects.
    """

    name: str
    views: list[View]
    weights: Array
    columns: Index
    linear: bool
    names: list[Any] | None

    def check_new(self, X: Any) -> list[Any]:
        """Validated new objects, one array for each view."""
        in_list = isinstance(X, (list, tuple)) and len(X) > 0 and np.ndim(X[0]) == 2
        given = list(X) if len(self.views) > 1 or in_list else [X]
        if len(given) != len(self.views):
            raise DataError(
                f"There must be {len(self.views)} arrays of {self.name}s, one for each of its "
                f"kernels: got {len(given)}."
            )
        checked = [check_values(each, self.name) for each in given]
        check_sizes(checked, self.name)
        for named, view in zip(given, self.views, strict=True):
            names = column_names(named)
            if names and view.names and names != view.names and len(names) == len(view.names):
                k = next(k for k, name in enumerate(names) if name != view.names[k])
                raise DataError(
                    f"Column {k} of the {self.name}s is {names[k]!r}, where {view.names[k]!r} was "
                    "in fit: pass the same columns in the same order."
                )
        for each, view in zip(checked, self.views, strict=True):
            if each.shape[1] != view.n_features:
                what = "kernel values with training objects" if view.points is None else "features"
                raise DataError(
                    f"New {self.name}s must have {view.n_features} {what}, as in fit: got "
                    f"{each.shape[1]}."
                )
        return checked

    def zeros(self, n: int) -> Any:
        """What `values` takes: n objects of zeros."""
        rows = [np.zeros((n, view.n_features)) for view in self.views]
        return rows if len(rows) > 1 else rows[0]

    def drawn(self, n: int, rng: np.random.Generator) -> Any:
        """What `values` takes: n objects with normal features, like the training ones if known."""
        rows = [rng.standard_normal((n, view.n_features)) for view in self.views]
        for X, view in zip(rows, self.views, strict=True):
            if view.deviation is not None and view.mean is not None:
                X *= view.deviation
                X += view.mean
        return rows if len(rows) > 1 else rows[0]

    def values(self, X: Any) -> Array:
        """The matrix that multiplies the coefficients, of shape (n_new, n_coefficients)."""
        given = self.check_new(X)
        if self.linear:
            return dense(self.views[0].scaled(given[0]))
        pairs = zip(self.views, given, strict=True)
        return weighted_sum(self.weights, [view.values(one, self.columns) for view, one in pairs])


def dense(X: Any) -> Array:
    """An array or a tensor of a matrix that may be sparse."""
    return np.asarray(X.toarray()) if is_sparse(X) else X


def weighted_sum(weights: Array, matrices: Sequence[Array]) -> Array:
    """The sum of kernel matrices with weights."""
    total: Any = sum(float(w) * M for w, M in zip(weights, matrices, strict=True))
    return total


@dataclass(frozen=True, eq=False)
class TrainingSide:
    """A side while it is fitted: what it will be, and its training matrices."""

    side: TableSide
    matrices: list[Array]  # kernel matrices of the views, or one matrix of features
    factor: LandmarkFactor | None = None

    @property
    def n(self) -> int:
        return len(self.matrices[0])

    @property
    def in_features(self) -> bool:
        """Whether the kernel is FF' for the features F: for linear kernels and landmarks."""
        return self.side.linear or self.factor is not None

    def weighted(self, weights: Sequence[float]) -> TrainingSide:
        """The same with other weights of the kernels."""
        return replace(self, side=replace(self.side, weights=np.asarray(weights, dtype=float)))

    @cached_property
    def kernel(self) -> Array:
        """The kernel matrix of the training objects."""
        if self.in_features:
            return self.matrices[0] @ self.matrices[0].T
        return weighted_sum(self.side.weights, self.matrices)

    @property
    def mean_square(self) -> float:
        """The mean of k(x, x)."""
        if self.in_features:
            return float((self.matrices[0] ** 2).sum()) / self.n
        return float(self.kernel.diagonal().mean())

    def basis(self, rows: Index | None = None, *, centred: bool) -> Side:
        """The basis of some training objects, or of all."""
        if self.in_features:
            F = self.matrices[0] if rows is None else self.matrices[0][rows]
            return Side.of_features(F, centred=centred)
        K = self.kernel if rows is None else self.kernel[rows][:, rows]
        return Side.of_kernel(K, centred=centred)

    def cross(self, rows: Index, others: Index) -> Array:
        """Kernel values between training objects."""
        if self.in_features:
            return self.matrices[0][rows] @ self.matrices[0][others].T
        return self.kernel[rows][:, others]

    def coefficients(self, A: Array) -> Array:
        """Coefficients of what `TableSide.values` returns, from those of the training objects."""
        if self.factor is not None:
            return self.factor.coefficients(self.matrices[0].T @ A)
        return self.matrices[0].T @ A if self.side.linear else A

    @property
    def training_values(self) -> Array:
        """What `TableSide.values` returns for the training objects."""
        if self.factor is None:
            return self.matrices[0] if self.side.linear else self.kernel
        values = backend_of(self.matrices[0]).zeros(self.n, self.factor.n_landmarks)
        values[:, self.factor.kept] = self.matrices[0] @ self.factor.C.T
        return values


def check_values(X: Any, name: str) -> Any:
    """Finite numbers in two dimensions."""
    if is_tensor(X):
        if X.ndim != 2 or not backend_of(X).is_finite(X):
            raise DataError(f"The {name}s must be a table of finite numbers, as a tensor.")
        return backend_of(X).array(X)
    what = name[0].upper()  # R or C
    if are_graphs(X):
        raise DataError(
            f"The {name}s are graphs: pass GraphWalks().fit_transform(graphs), or the matrix "
            f'WalkKernel()(graphs) with {name}_kernel="precomputed".'
        )
    check_unmasked(what, X)
    check_real(what, X)
    try:
        return check_array(X, accept_sparse="csr", dtype=np.float64, input_name=what)
    except (TypeError, ValueError) as error:
        refused = error
    explain_rows(what, X, refused)
    words = str(refused).splitlines()[0].rstrip(":.")
    raise DataError(
        f"{what} must have a row of numbers for each {name} of the table: {words}."
    ) from refused


def training_side(
    X: Any,
    name: str,
    *,
    kernel: Any,
    gamma: Any,
    scale: bool,
    weights: Any,
    n_landmarks: int | None,
    rng: np.random.Generator,
    object_weights: Array | None = None,
) -> TrainingSide:
    """Check the objects of a side, and compute what the fit needs of them.

    `object_weights` count in the standardization of their features, as copies would.
    """
    several = isinstance(kernel, (list, tuple))
    kernels = list(kernel) if several else [kernel]
    given = list(X) if several and (isinstance(X, (list, tuple)) or np.ndim(X) == 3) else [X]
    if len(given) != len(kernels):
        raise DataError(
            f"{name}_kernel has {len(kernels)} kernels: pass a list of as many arrays of {name}s. "
            f"There {'is' if len(given) == 1 else 'are'} {len(given)}."
        )
    for each in kernels:
        check_value(f"{name}_kernel", each, KERNEL_PARAMETERS["kernel"])
        if hasattr(each, "as_rows"):
            raise ParameterError(
                f"{name}_kernel must compare rows of numbers: pass the matrix kernel(graphs), with "
                f'{name}_kernel="precomputed".'
            )
    names = object_names(given)
    checked = [check_values(one, name) for one in given]
    n = check_sizes(checked, name)
    if object_weights is not None:
        check_object_weights(object_weights, n, name)
    views = [
        replace(_view(one, each, gamma, scale, object_weights), names=column_names(frame))
        for one, each, frame in zip(checked, kernels, given, strict=True)
    ]
    shares = np.full(len(views), 1.0 / len(views))
    if weights is not None and not (isinstance(weights, str) and weights == "auto"):
        valid = np.shape(weights) == (len(views),) and all(Number(0).allows(w) for w in weights)
        if not valid or not sum(weights) > 0:
            raise ParameterError(
                f'{name}_weights must be "auto", or numbers, 0 or more, one for each kernel: got '
                f"{weights!r}."
            )
        shares = np.asarray(weights, dtype=np.float64)
    scaled = [view.scaled(one) for view, one in zip(views, checked, strict=True)]
    first = views[0].kernel
    is_linear = len(views) == 1 and isinstance(first, NamedKernel) and first.name == "linear"
    n_landmarks = None if n_landmarks is None or n_landmarks >= n else n_landmarks
    if n_landmarks is not None and isinstance(weights, str):
        raise ParameterError(
            f'{name}_weights="auto" needs complete kernels: pass numbers with landmarks.'
        )
    linear = is_linear and n_landmarks is None and scaled[0].shape[1] <= n
    side = TableSide(name, views, shares, np.arange(0 if linear else n), linear, names)
    if linear:
        return TrainingSide(side, [dense(scaled[0])])
    if n_landmarks is not None:
        for view, one in zip(views, scaled, strict=True):
            if view.points is None:
                training_kernel(view.kernel, one)  # checks that it is square and symmetric
        chosen = np.sort(rng.choice(n, n_landmarks, replace=False))
        marked = [
            view if view.points is None else replace(view, points=one[chosen])
            for view, one in zip(views, scaled, strict=True)
        ]
        side = replace(side, views=marked, columns=chosen)
        K = side.values(given if several else given[0])
        factor = LandmarkFactor.of(K[chosen])
        return TrainingSide(side, [factor.whiten(K[:, factor.kept])], factor)
    matrices = [training_kernel(view.kernel, one) for view, one in zip(views, scaled, strict=True)]
    kept = [
        view if view.points is None else replace(view, points=one)
        for view, one in zip(views, scaled, strict=True)
    ]
    return TrainingSide(replace(side, views=kept), matrices)


def column_names(X: Any) -> list[str] | None:
    """The names of the columns of a data frame, if they are texts."""
    names = list(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def object_names(given: Sequence[Any]) -> list[Any] | None:
    """The index of the first data frame that has one other than 0, 1, 2, ..."""
    frames = [X for X in given if hasattr(X, "index") and hasattr(X, "columns")]
    found = (list(X.index) for X in frames)
    return next((names for names in found if names != list(range(len(names)))), None)


def check_sizes(arrays: Sequence[Any], name: str) -> int:
    """The number of objects, of which each array must have as many."""
    sizes = sorted({X.shape[0] for X in arrays})
    if len(sizes) > 1:
        raise DataError(f"All arrays of {name}s must have as many rows: got {sizes}.")
    return int(sizes[0])


def check_object_weights(weights: Array, n: int, name: str) -> None:
    """Raise an error unless there is a finite weight above 0 for each of the n objects."""
    if weights.shape != (n,):
        raise DataError(
            f"query_weight needs a weight for each of the {n} {name}s: got shape {weights.shape}."
        )
    wrong = ~((weights > 0.0) & (weights < np.inf))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise DataError(
            f"query_weight must be finite and above 0: got {weights[k]} for {name} {k}. Leave out "
            f"{name}s without weight."
        )


def _view(X: Any, kernel: Any, gamma: Any, scale: bool, weights: Array | None) -> View:
    """A view with its kernel and its scaling; the points are set later."""
    if kernel == "precomputed":
        return View(Precomputed(), None, X.shape[1], None, None)
    mean = deviation = None
    if scale:
        found = ColumnStandard.of(ColumnStatistics.of(X, weights), centre=not is_sparse(X))
        on = backend_of(X)
        mean, deviation = on.array(found.mean), on.array(found.deviation)
    if callable(kernel):
        takes_arrays = hasattr(kernel, "diag") and hasattr(kernel, "is_stationary")
        made: Any = clone(kernel) if takes_arrays else PairFunction(kernel)
    else:
        made = NamedKernel(kernel, gamma=1.0 / X.shape[1] if gamma is None else float(gamma))
    return View(made, X[:0], X.shape[1], mean, deviation, scale and kernel == "linear")
