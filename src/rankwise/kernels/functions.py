"""Kernel functions on dense and sparse rows, with scikit-learn's meanings and parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.spatial.distance import cdist

from rankwise.backends.arrays import Array, dense_rows, is_sparse
from rankwise.backends.blas import matmul

BLOCK_BYTES = 16 * 2**20  # of a kernel matrix worked on at a time, to stay in cache


class Kernel(Protocol):
    """k(X, Y) of shape (rows of X, rows of Y), in float64; Y None means X itself."""

    def __call__(self, X: Any, Y: Any = None) -> Array: ...

    def diag(self, X: Any) -> Array:
        """k(x, x) for every row of X."""


@dataclass(frozen=True)
class NamedKernel:
    """One of the kernels that have a name.

    ============  =====================================
    linear        x'y
    rbf           exp(-gamma |x - y|^2)
    laplacian     exp(-gamma |x - y|_1)
    polynomial    (gamma x'y + coef0)^degree
    sigmoid       tanh(gamma x'y + coef0)
    cosine        x'y / (|x| |y|), 0 for a zero row
    ============  =====================================

    A matrix of n by m costs O(n m d) time, and no memory beyond itself and its rows.
    """

    name: str
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 1.0

    def __call__(self, X: Any, Y: Any = None) -> Array:
        return KERNELS[self.name](self, X, Y)

    def diag(self, X: Any) -> Array:
        if self.name in ("rbf", "laplacian"):
            return np.ones(X.shape[0])
        squares = _squared_norms(X)
        if self.name == "cosine":
            return (squares > 0).astype(np.float64)
        if self.name == "linear":
            return squares
        affine = self.gamma * squares + self.coef0
        return np.asarray(np.tanh(affine) if self.name == "sigmoid" else affine**self.degree)


@dataclass(frozen=True)
class PairFunction:
    """A Python function of two rows, called for every pair of them: O(n m) calls."""

    function: Callable[[Any, Any], float]

    def __call__(self, X: Any, Y: Any = None) -> Array:
        first = [X[i] for i in range(X.shape[0])]
        second = first if Y is None else [Y[j] for j in range(Y.shape[0])]
        K = np.empty((len(first), len(second)))
        for i, x in enumerate(first):
            for j, z in enumerate(second):
                K[i, j] = K[j, i] if Y is None and j < i else self.function(x, z)
        return K

    def diag(self, X: Any) -> Array:
        return np.array([self.function(X[i], X[i]) for i in range(X.shape[0])], dtype=np.float64)


@dataclass(frozen=True)
class Precomputed:
    """The rows of "X" are kernel values already; "Y" has the numbers of the columns to take."""

    def __call__(self, X: Any, Y: Any = None) -> Array:
        return dense_rows(X if Y is None else X[:, Y], slice(None)).copy()

    def diag(self, X: Any) -> Array:
        diagonal = X.diagonal() if is_sparse(X) else np.diagonal(X)
        return np.array(diagonal, dtype=np.float64)


def _products(X: Any, Y: Any) -> Array:
    """X Y', dense."""
    Y = X if Y is None else Y
    if is_sparse(X) or is_sparse(Y):
        product = X @ Y.T
        return np.ascontiguousarray(
            product.toarray() if is_sparse(product) else product, dtype=np.float64
        )
    return matmul(_float(X), _float(Y).T)


def _linear(_: NamedKernel, X: Any, Y: Any) -> Array:
    return _products(X, Y)


def _polynomial(k: NamedKernel, X: Any, Y: Any) -> Array:
    K = _affine_products(k, X, Y)
    if k.degree == 2:
        return np.multiply(K, K, out=K)
    return np.power(K, k.degree, out=K)


def _sigmoid(k: NamedKernel, X: Any, Y: Any) -> Array:
    K = _affine_products(k, X, Y)
    return np.tanh(K, out=K)


def _affine_products(k: NamedKernel, X: Any, Y: Any) -> Array:
    """gamma X Y' + coef0."""
    K = _products(X, Y)
    K *= k.gamma
    K += k.coef0
    return K


def _cosine(_: NamedKernel, X: Any, Y: Any) -> Array:
    K = _products(X, Y)
    first = np.sqrt(_squared_norms(X))
    second = first if Y is None else np.sqrt(_squared_norms(Y))
    K /= np.where(first > 0, first, 1.0)[:, None]
    K /= np.where(second > 0, second, 1.0)
    return K


def _rbf(k: NamedKernel, X: Any, Y: Any) -> Array:
    """exp of -gamma |x - y|^2 = 2 gamma x'y - gamma |x|^2 - gamma |y|^2, block by block.

    Dense rows are centred first: distances do not change, and cancellation shrinks with the
    norms. The two norms ride along as columns, so that the product is the exponent.
    """
    if is_sparse(X) or is_sparse(Y):
        K = _products(X, Y)
        first = _squared_norms(X)
        second = first if Y is None else _squared_norms(Y)
        for rows in _row_blocks(*K.shape):
            block = K[rows]
            block *= 2.0 * k.gamma
            block -= k.gamma * first[rows, None]
            block -= k.gamma * second
            _exp_nonpositive(block)
    else:
        X = _float(X)
        Y_dense = X if Y is None else _float(Y)
        centre = Y_dense.mean(axis=0)
        left, right = _exponent_factors(X - centre, Y_dense - centre, k.gamma)
        K = np.empty((len(left), right.shape[1]))
        for rows in _row_blocks(*K.shape):
            K[rows] = _exp_nonpositive(matmul(left[rows], right))
    if Y is None:
        np.fill_diagonal(K, 1.0)
    return K


def _exponent_factors(X: Array, Y: Array, gamma: float) -> tuple[Array, Array]:
    """Matrices whose product is -gamma |x - y|^2."""
    ones_x, ones_y = np.ones((len(X), 1)), np.ones((len(Y), 1))
    left = np.hstack((2.0 * gamma * X, -gamma * _squared_norms(X)[:, None], ones_x))
    right = np.hstack((Y, ones_y, -gamma * _squared_norms(Y)[:, None]))
    return left, np.ascontiguousarray(right.T)


def _exp_nonpositive(K: Array) -> Array:
    """exp(min(K, 0)) in place: a squared distance below zero is rounding."""
    np.minimum(K, 0.0, out=K)
    return np.exp(K, out=K)


def _laplacian(k: NamedKernel, X: Any, Y: Any) -> Array:
    """Manhattan distances have no product form: sparse rows are made dense, block by block."""
    other = X if Y is None else Y
    K = np.empty((X.shape[0], other.shape[0]))
    width = max(X.shape[1], other.shape[0])
    for rows in _row_blocks(X.shape[0], width):
        x = dense_rows(X, rows)
        for columns in _row_blocks(other.shape[0], X.shape[1]):
            K[rows, columns] = cdist(x, dense_rows(other, columns), "cityblock")
    K *= -k.gamma
    return np.exp(K, out=K)


KERNELS: dict[str, Callable[[NamedKernel, Any, Any], Array]] = {
    "linear": _linear,
    "rbf": _rbf,
    "laplacian": _laplacian,
    "polynomial": _polynomial,
    "poly": _polynomial,
    "sigmoid": _sigmoid,
    "cosine": _cosine,
}


def _float(X: Any) -> Array:
    return np.ascontiguousarray(X, dtype=np.float64)


def _squared_norms(X: Any) -> Array:
    if is_sparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    X = _float(X)
    return np.asarray(np.einsum("ij,ij->i", X, X))


def _row_blocks(n_rows: int, n_columns: int) -> list[slice]:
    step = max(1, BLOCK_BYTES // (8 * max(n_columns, 1)))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
