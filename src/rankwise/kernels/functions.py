"""Kernel functions of dense and sparse rows, defined as in scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.spatial.distance import cdist

from rankwise.backends.arrays import Array, is_sparse, to_host
from rankwise.backends.dispatch import Backend, backend_of

BLOCK_BYTES = 16 * 2**20  # of a kernel matrix computed at a time, to stay in cache
FAR = 1e8  # exponents of rbf kernels from which products of rows lose more than half of the digits


class Kernel(Protocol):
    """k(X, Y) of shape (rows of X, rows of Y), in float64; Y None means X itself."""

    def __call__(self, X: Any, Y: Any = None) -> Array: ...

    def diag(self, X: Any) -> Array:
        """k(x, x) for each row of X."""


@dataclass(frozen=True)
class NamedKernel:
    """One of the kernels with a name.

    ============  =====================================
    linear        x'y
    rbf           exp(-gamma |x - y|^2)
    laplacian     exp(-gamma |x - y|_1)
    polynomial    (gamma x'y + coef0)^degree
    sigmoid       tanh(gamma x'y + coef0)
    cosine        x'y / (|x| |y|), 0 for a zero row
    ============  =====================================

    An n by m matrix takes O(n m d) time, and little memory besides itself and its rows.

    Examples
    --------
    >>> import numpy as np
    >>> NamedKernel("polynomial", gamma=1.0, degree=2)(np.eye(2))
    array([[4., 1.],
           [1., 4.]])
    """

    name: str
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 1.0

    def __call__(self, X: Any, Y: Any = None) -> Array:
        return KERNELS[self.name](self, X, Y)

    def diag(self, X: Any) -> Array:
        on = backend_of(X)
        if self.name in ("rbf", "laplacian"):
            return on.zeros(X.shape[0]) + 1.0
        squares = _squared_norms(X)
        if self.name == "cosine":
            return on.array(squares > 0)
        if self.name == "linear":
            return squares
        affine = self.gamma * squares + self.coef0
        return on.array(on.xp.tanh(affine) if self.name == "sigmoid" else affine**self.degree)


@dataclass(frozen=True)
class PairFunction:
    """A Python function of two rows, called for each pair of rows: O(n m) calls."""

    function: Callable[[Any, Any], float]

    def __call__(self, X: Any, Y: Any = None) -> Array:
        X, Y = to_host(X), to_host(Y)
        first = [X[i] for i in range(X.shape[0])]
        second = first if Y is None else [Y[j] for j in range(Y.shape[0])]
        K = np.empty((len(first), len(second)))
        for i, x in enumerate(first):
            for j, z in enumerate(second):
                K[i, j] = K[j, i] if Y is None and j < i else self.function(x, z)
        return K

    def diag(self, X: Any) -> Array:
        X = to_host(X)
        return np.array([self.function(X[i], X[i]) for i in range(X.shape[0])], dtype=np.float64)


@dataclass(frozen=True)
class Precomputed:
    """A kernel whose "X" holds kernel values; "Y" holds the numbers of the columns to use."""

    def __call__(self, X: Any, Y: Any = None) -> Array:
        on = backend_of(X)
        return on.copy(on.rows(X if Y is None else X[:, Y], slice(None)))

    def diag(self, X: Any) -> Array:
        on = backend_of(X)
        return on.copy(on.array(X.diagonal()))


def _products(X: Any, Y: Any) -> Array:
    """X Y', dense."""
    Y = X if Y is None else Y
    if is_sparse(X) or is_sparse(Y):
        product = X @ Y.T
        return np.ascontiguousarray(
            product.toarray() if is_sparse(product) else product, dtype=np.float64
        )
    on = backend_of(X)
    return on.matmul(_float(on, X), _float(on, Y).T)


def _linear(_: NamedKernel, X: Any, Y: Any) -> Array:
    return _products(X, Y)


def _polynomial(k: NamedKernel, X: Any, Y: Any) -> Array:
    K = _affine_products(k, X, Y)
    if k.degree == 2:
        K *= K
    else:
        K **= k.degree
    return K


def _sigmoid(k: NamedKernel, X: Any, Y: Any) -> Array:
    K = _affine_products(k, X, Y)
    return backend_of(K).array(backend_of(K).xp.tanh(K, out=K))


def _affine_products(k: NamedKernel, X: Any, Y: Any) -> Array:
    """gamma X Y' + coef0."""
    K = _products(X, Y)
    K *= k.gamma
    K += k.coef0
    return K


def _cosine(_: NamedKernel, X: Any, Y: Any) -> Array:
    K = _products(X, Y)
    xp = backend_of(K).xp
    first = xp.sqrt(_squared_norms(X))
    second = first if Y is None else xp.sqrt(_squared_norms(Y))
    K /= xp.where(first > 0, first, 1.0)[:, None]
    K /= xp.where(second > 0, second, 1.0)
    return K


def _rbf(k: NamedKernel, X: Any, Y: Any) -> Array:
    """exp of -gamma |x - y|^2 = 2 gamma x'y - gamma |x|^2 - gamma |y|^2, block by block.

    Dense rows are centred first: distances do not change, and smaller norms cancel less. The
    norms are appended as columns, so that a single product is the exponent. In sparse rows, columns
    with few zeros are made dense, which takes no more memory. If norms are so large that even then
    the differences between them are rounding errors, see `_far_rbf`.
    """
    on = backend_of(X)
    if is_sparse(X) and (Y is None or is_sparse(Y)):
        K = _sparse_rbf(k, on, X, Y)
    elif is_sparse(Y):
        return np.ascontiguousarray(_rbf(k, Y, X).T)
    elif is_sparse(X):
        K = on.empty(X.shape[0], len(Y))
        for rows in _row_blocks(on, *X.shape):
            K[rows] = _rbf(k, X[rows].toarray(), Y)
    else:
        X = _float(on, X)
        Y_dense = X if Y is None else _float(on, Y)
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            centre = Y_dense.mean(axis=0)
            x, y = X - centre, Y_dense - centre
            left, right = _exponent_factors(on, x, y, k.gamma)
        blocks = _row_blocks(on, len(left), right.shape[1])
        if not min(float(left[:, -2].min()), float(right[-1].min())) >= -FAR:
            K = _far_rbf(k, X, Y)
        elif len(blocks) == 1:
            K = _exp_nonpositive(on, on.matmul(left, right))
        else:
            K = on.empty(len(left), right.shape[1])
            for rows in blocks:
                K[rows] = _exp_nonpositive(on, on.matmul(left[rows], right))
    if Y is None:
        on.diagonal(K)[:] = 1.0
    return K


def _sparse_rbf(k: NamedKernel, on: Backend, X: Any, Y: Any) -> Array:
    """The rbf kernel of sparse rows."""
    parts = _sparse_and_dense(X, Y)
    first, second = _norms_of_parts(parts)
    if not k.gamma * max(float(first.max()), float(second.max())) <= FAR:
        return _far_rbf(k, X, Y)
    K = _products_of_parts(parts)
    for rows in _row_blocks(on, *K.shape):
        block = K[rows]
        block *= 2.0 * k.gamma
        block -= k.gamma * first[rows, None]
        block -= k.gamma * second
        _exp_nonpositive(on, block)
    return K


def _far_rbf(k: NamedKernel, X: Any, Y: Any) -> Array:
    """The rbf kernel from differences of rows, where products lose the distances of close rows."""

    def distances(x: Array, y: Array) -> Array:
        with np.errstate(over="ignore"):  # an infinite distance is right
            return backend_of(X).array(cdist(to_host(x), to_host(y), "sqeuclidean"))

    return _of_distances(k.gamma, X, Y, distances)


def _norms_of_parts(parts: list[tuple[Any, Any]]) -> tuple[Array, Array]:
    """Squared norms of the rows of X and of Y, whose columns are in several parts."""
    with np.errstate(over="ignore"):  # see `_far_rbf`
        first = _squared_norms(parts[0][0])
        second = first if parts[0][1] is None else _squared_norms(parts[0][1])
        for x, y in parts[1:]:
            own = _squared_norms(x)
            first, second = first + own, second + (own if y is None else _squared_norms(y))
    return first, second


def _products_of_parts(parts: list[tuple[Any, Any]]) -> Array:
    """X Y' of rows whose columns are in several parts."""
    K = _products(*parts[0])
    for part in parts[1:]:
        K += _products(*part)
    return K


def _sparse_and_dense(X: Any, Y: Any) -> list[tuple[Any, Any]]:
    """Sparse X and Y; or their sparse columns and the other ones, dense and centred."""
    other = X if Y is None else Y
    filled = np.flatnonzero(other.count_nonzero(axis=0) > other.shape[0] / 2)
    if not len(filled):
        return [(X, Y)]
    rest = np.setdiff1d(np.arange(X.shape[1]), filled)
    x, y = X[:, filled].toarray(), None if Y is None else Y[:, filled].toarray()
    centre = (x if y is None else y).mean(axis=0, dtype=np.float64)
    of_y = (None, None) if y is None else (Y[:, rest], y - centre)
    return [(X[:, rest], of_y[0]), (x - centre, of_y[1])]


def _exp_nonpositive(on: Backend, K: Array) -> Array:
    """exp(min(K, 0)) in place: a squared distance below zero is rounding."""
    return on.array(on.xp.exp(on.xp.clip(K, None, 0.0, out=K), out=K))


def _exponent_factors(on: Backend, X: Array, Y: Array, gamma: float) -> tuple[Array, Array]:
    """Matrices whose product is -gamma |x - y|^2."""
    ones_x, ones_y = on.zeros(len(X), 1) + 1.0, on.zeros(len(Y), 1) + 1.0
    left = on.xp.hstack((2.0 * gamma * X, -gamma * _squared_norms(X)[:, None], ones_x))
    right = on.xp.hstack((Y, ones_y, -gamma * _squared_norms(Y)[:, None]))
    return left, on.contiguous(right.T)


def _laplacian(k: NamedKernel, X: Any, Y: Any) -> Array:
    return _of_distances(k.gamma, X, Y, backend_of(X).manhattan)


def _of_distances(
    gamma: float, X: Any, Y: Any, distances: Callable[[Array, Array], Array]
) -> Array:
    """exp of -gamma times distances, not products: sparse rows become dense, in blocks."""
    other, on = X if Y is None else Y, backend_of(X)
    K = on.empty(X.shape[0], other.shape[0])
    width = max(X.shape[1], other.shape[0])
    for rows in _row_blocks(on, X.shape[0], width):
        x = on.rows(X, rows)
        for columns in _row_blocks(on, other.shape[0], X.shape[1]):
            K[rows, columns] = distances(x, on.rows(other, columns))
    K *= -gamma
    return on.array(on.xp.exp(K, out=K))


KERNELS: dict[str, Callable[[NamedKernel, Any, Any], Array]] = {
    "linear": _linear,
    "rbf": _rbf,
    "laplacian": _laplacian,
    "polynomial": _polynomial,
    "poly": _polynomial,
    "sigmoid": _sigmoid,
    "cosine": _cosine,
}
KERNEL_SETTINGS = {
    "rbf": ("gamma",),
    "laplacian": ("gamma",),
    "polynomial": ("gamma", "degree", "coef0"),
    "poly": ("gamma", "degree", "coef0"),
    "sigmoid": ("gamma", "coef0"),
}
"""The parameters on which kernels depend; the others depend on none."""


def _float(on: Backend, X: Any) -> Array:
    return on.contiguous(on.array(X))


def _squared_norms(X: Any) -> Array:
    if is_sparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    on = backend_of(X)
    X = _float(on, X)
    return on.array(on.xp.einsum("ij,ij->i", X, X))


def _row_blocks(on: Backend, n_rows: int, n_columns: int) -> list[slice]:
    step = max(1, on.block_bytes(BLOCK_BYTES) // (8 * max(n_columns, 1)))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
