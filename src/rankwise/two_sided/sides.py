"""The rows or the columns of a table: their features or kernels, and how new ones are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import check_array

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.errors import DataError, ParameterError
from rankwise.kernels import Kernel, NamedKernel, PairFunction, Precomputed
from rankwise.kernels.products import kernel_values
from rankwise.kernels.training import training_kernel
from rankwise.solvers.landmark_factor import LandmarkFactor
from rankwise.two_sided.table_system import Side


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

    def scaled(self, X: Any) -> Any:
        """Standardized features; sparse ones are only divided."""
        if self.deviation is None:
            return X
        ones = np.ones((X.shape[0], int(self.constant)))
        if is_sparse(X):
            return sp.hstack((X.multiply(1.0 / self.deviation), ones), format="csr")
        return np.hstack(((X - self.mean) / self.deviation, ones))

    def values(self, X: Any, columns: Index) -> Array:
        """Kernel values of new objects with the points."""
        if isinstance(self.kernel, Precomputed):
            return np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)[:, columns]
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
        Which training objects new ones are compared with: all of them, or landmarks.
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
        given = list(X) if len(self.views) > 1 else [X]
        if len(given) != len(self.views):
            raise DataError(
                f"There must be {len(self.views)} arrays of {self.name}s, one for each of its "
                f"kernels: got {len(given)}."
            )
        checked = [check_values(each, self.name) for each in given]
        for each, view in zip(checked, self.views, strict=True):
            if each.shape[1] != view.n_features:
                what = "kernel values with training objects" if view.points is None else "features"
                raise DataError(
                    f"New {self.name}s must have {view.n_features} {what}, as in fit: got "
                    f"{each.shape[1]}."
                )
        return checked

    def values(self, X: Any) -> Array:
        """The matrix that multiplies the coefficients, of shape (n_new, n_coefficients)."""
        given = self.check_new(X)
        if self.linear:
            scaled = self.views[0].scaled(given[0])
            return np.asarray(scaled.toarray() if is_sparse(scaled) else scaled, dtype=np.float64)
        parts = [
            view.values(one, self.columns) for view, one in zip(self.views, given, strict=True)
        ]
        return np.asarray(np.tensordot(self.weights, parts, axes=1))


@dataclass(frozen=True, eq=False)
class TrainingSide:
    """A side while it is fitted: what it will be, and its training matrices."""

    side: TableSide
    matrices: list[Array]  # kernel matrices of the views, or one matrix of features
    factor: LandmarkFactor | None = None

    @property
    def n(self) -> int:
        return len(self.matrices[0])

    def with_weights(self, weights: Sequence[float]) -> TrainingSide:
        """The same with other weights of the kernels."""
        return replace(self, side=replace(self.side, weights=np.asarray(weights, dtype=float)))

    @property
    def kernel(self) -> Array:
        """The kernel matrix of the training objects."""
        if self.side.linear or self.factor is not None:
            F = self.features
            return F @ F.T
        return np.asarray(np.tensordot(self.side.weights, self.matrices, axes=1))

    @property
    def features(self) -> Array:
        """F with kernel FF', for linear sides and landmarks."""
        return self.matrices[0]

    def basis(self, rows: Index | None = None, *, centred: bool) -> Side:
        """The basis of some training objects, or of all."""
        if self.side.linear or self.factor is not None:
            F = self.features if rows is None else self.features[rows]
            return Side.of_features(F, centred=centred)
        K = self.kernel
        return Side.of_kernel(K if rows is None else K[np.ix_(rows, rows)], centred=centred)

    def cross(self, rows: Index, others: Index) -> Array:
        """Kernel values between training objects."""
        if self.side.linear or self.factor is not None:
            return self.features[rows] @ self.features[others].T
        return self.kernel[np.ix_(rows, others)]

    def coefficients(self, A: Array) -> Array:
        """Coefficients of what `TableSide.values` returns, from those of the training objects."""
        if self.factor is not None:
            return self.factor.coefficients(self.features.T @ A)
        return self.features.T @ A if self.side.linear else A


def check_values(X: Any, name: str) -> Any:
    """Finite numbers in two dimensions."""
    try:
        return check_array(X, accept_sparse="csr", dtype=np.float64, input_name=f"The {name}s")
    except ValueError as error:
        raise DataError(f"The {name}s cannot be used: {str(error).splitlines()[0]}") from error


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
) -> TrainingSide:
    """Check the objects of a side, and compute what the fit needs of them."""
    several = isinstance(kernel, (list, tuple))
    kernels = list(kernel) if several else [kernel]
    given = list(X) if several else [X]
    if len(given) != len(kernels):
        raise DataError(
            f"{name}_kernel has {len(kernels)} kernels: there must be as many arrays of {name}s, "
            f"and there are {len(given)}."
        )
    names = next((list(one.index) for one in given if _has_names(one)), None)
    checked = [check_values(one, name) for one in given]
    sizes = {one.shape[0] for one in checked}
    if len(sizes) > 1:
        raise DataError(f"All arrays of {name}s must have as many rows: got {sorted(sizes)}.")
    views = [_view(one, each, gamma, scale) for one, each in zip(checked, kernels, strict=True)]
    n = sizes.pop()
    shares = np.full(len(views), 1.0 / len(views))
    if weights is not None and not isinstance(weights, str):
        shares = np.asarray(weights, dtype=np.float64)
        if shares.shape != (len(views),) or shares.min() < 0 or not shares.sum() > 0:
            raise ParameterError(
                f"{name}_weights must be numbers, 0 or more, one for each kernel: got {weights!r}."
            )
    scaled = [view.scaled(one) for view, one in zip(views, checked, strict=True)]
    first = views[0].kernel
    is_linear = len(views) == 1 and isinstance(first, NamedKernel) and first.name == "linear"
    n_landmarks = None if n_landmarks is None or n_landmarks >= n else n_landmarks
    linear = is_linear and n_landmarks is None and scaled[0].shape[1] <= n
    everything = np.arange(n)
    side = TableSide(name, views, shares, everything, linear, names)
    if linear:
        F = scaled[0].toarray() if is_sparse(scaled[0]) else scaled[0]
        return TrainingSide(replace(side, views=[replace(views[0], points=F[:0])]), [F])
    if n_landmarks is not None:
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


def _has_names(X: Any) -> bool:
    """Whether a data frame has names of rows, and not numbers."""
    return hasattr(X, "index") and hasattr(X, "columns") and X.index.dtype.kind not in "iu"


def _view(X: Any, kernel: Any, gamma: Any, scale: bool) -> View:
    """A view with its kernel and its scaling; the points are set later."""
    if kernel == "precomputed":
        return View(Precomputed(), None, X.shape[1], None, None)
    mean = deviation = None
    if scale:
        if is_sparse(X):
            mean = np.zeros(X.shape[1])
            square = np.asarray(X.multiply(X).mean(axis=0)).ravel()
            deviation = np.sqrt(square - np.asarray(X.mean(axis=0)).ravel() ** 2)
        else:
            mean, deviation = X.mean(axis=0), X.std(axis=0)
        deviation = np.where(deviation > 0, deviation, 1.0)
    if callable(kernel):
        takes_arrays = hasattr(kernel, "diag") and hasattr(kernel, "is_stationary")
        made: Any = clone(kernel) if takes_arrays else PairFunction(kernel)
    else:
        made = NamedKernel(kernel, gamma=1.0 / X.shape[1] if gamma is None else float(gamma))
    return View(made, X[:0], X.shape[1], mean, deviation, scale and kernel == "linear")
