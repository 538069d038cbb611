"""Kernel functions, defined as in scikit-learn, and products with their matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import local
from typing import Any, Protocol

import numpy as np
from scipy.spatial.distance import cdist

from rankwise.backends.arrays import (
    Array,
    Backend,
    Index,
    as_given,
    backend_of,
    is_sparse,
    is_tensor,
    to_host,
)
from rankwise.backends.parallel import map_in_threads, matmul, threads_for
from rankwise.errors import DataError

BLOCK_BYTES = 4 * 2**20  # of a kernel matrix computed at a time, to stay in cache
FAR = 1e8  # exponents of rbf kernels from which products of rows lose more than half of the digits


class Kernel(Protocol):
    """k(X, Y) of shape (rows of X, rows of Y), in float64; Y None means X itself.

    A kernel of other things than rows of numbers also has ``as_rows(things)``, which encodes each
    of them as a row. Rankers call it first, and hold rows.
    """

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


def has_features(kernel: Any) -> bool:
    """Whether the columns of X are features for a kernel."""
    return not (isinstance(kernel, Precomputed) or hasattr(kernel, "as_rows"))


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
        right = RightFactor.of(X if Y is None else _float(on, Y), k.gamma)
        return _dense_rbf(k, X, Y, right)
    if Y is None:
        on.diagonal(K)[:] = 1.0
    return K


@dataclass(frozen=True, eq=False)
class RightFactor:
    """What the exponents -gamma |x - y|^2 of all x need of the rows Y: see `_rbf`.

    Attributes
    ----------
    gamma : float
    centre : ndarray of shape (n_features,)
    factor : ndarray of shape (n_features + 2, n_rows)
        Twice gamma times the centred rows, ones, and -gamma |y|^2.
    least : float
        The smallest -gamma |y|^2.
    """

    gamma: float
    centre: Array
    factor: Array
    least: float

    @classmethod
    def of(cls, Y: Array, gamma: float) -> RightFactor:
        """From dense rows."""
        on = backend_of(Y)
        with np.errstate(over="ignore", invalid="ignore"):  # the factors are checked
            centre = Y.mean(axis=0)
            factor = on.empty(Y.shape[1] + 2, len(Y))
            factor[:-2] = (2.0 * gamma * (Y - centre)).T
            factor[-2] = 1.0
            factor[-1] = -gamma * _squared_norms(Y - centre)
        return cls(gamma, centre, factor, float(factor[-1].min()))

    def left(self, X: Array, out: Array | None = None) -> Array:
        """The matrix that is multiplied by `factor`: centred rows x, -gamma |x|^2, and ones."""
        on = backend_of(X)
        with np.errstate(over="ignore", invalid="ignore"):  # the factors are checked
            left = on.empty(len(X), X.shape[1] + 2) if out is None else out[: len(X)]
            x = on.xp.subtract(X, self.centre, out=left[:, :-2])
            left[:, -2] = -self.gamma * on.xp.einsum("ij,ij->i", x, x)
            left[:, -1] = 1.0
        return left


def _dense_rbf(
    k: NamedKernel, X: Array, Y: Any, right: RightFactor, memory: tuple[Array, Array] | None = None
) -> Array:
    """`_rbf` of dense rows, in new memory or in that of the left factor and the result."""
    on, factor = backend_of(X), right.factor
    left = right.left(X, None if memory is None else memory[0])
    blocks = _row_blocks(on, len(left), factor.shape[1])
    if not min(float(left[:, -2].min()), right.least) >= -FAR:
        K = _far_rbf(k, X, Y)
    elif memory is not None:
        K = _exp_nonpositive(on, matmul(left, factor, memory[1][: len(left)]))
    elif len(blocks) == 1:
        K = _exp_nonpositive(on, on.matmul(left, factor))
    else:
        K = on.empty(len(left), factor.shape[1])

        def fill(rows: slice) -> None:
            K[rows] = _exp_nonpositive(on, on.matmul(left[rows], factor))

        map_in_threads(fill, blocks, threads_for(K.size) if on.is_host else 1)
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
        first: Any = sum(_squared_norms(x) for x, _ in parts)
        if parts[0][1] is None:
            return first, first
        second: Any = sum(_squared_norms(y) for _, y in parts)
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
    nonpositive = np.minimum(K, 0.0, out=K) if on.is_host else on.xp.clip(K, None, 0.0, out=K)
    return on.array(on.xp.exp(nonpositive, out=K))


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


PREDICT_BYTES = 64 * 2**20  # of kernel values in memory at a time


def kernel_product(kernel: Kernel, X: Any, Y: Any, V: Array) -> Array:
    """k(X, Y) V, a block of rows of X at a time.

    O(n m (d + c)) time for n rows in X, m in Y and c columns in V; 64 MiB of memory besides the
    result, or one block of the device's size. The product is on the device of X, or on the device
    to which its rows are moved.
    """
    on = backend_of(X)
    if on.is_host:
        Y = to_host(Y)
    elif Y is not None and isinstance(kernel, NamedKernel):
        Y = on.array(Y)
    return _product_by_blocks(X, V, lambda rows: kernel_values(kernel, X[rows], Y))


def feature_product(X: Any, V: Array) -> Array:
    """X V, a block of rows of X at a time, on the device as for `kernel_product`."""
    return _product_by_blocks(X, V, lambda rows: backend_of(X).rows(X, rows))


def _product_by_blocks(X: Any, V: Array, values: Callable[[slice], Array]) -> Array:
    """M V, where `values(rows)` returns the rows of M that belong to these rows of X."""
    on = backend_of(X)
    columns = on.array(V).reshape(len(V), -1)
    step = max(1, on.block_bytes(PREDICT_BYTES) // (8 * max(len(V), 1)))
    out = on.empty(X.shape[0], columns.shape[1])
    for start in range(0, X.shape[0], step):
        rows = slice(start, start + step)
        out[rows] = on.matmul(values(rows), columns)
    return out.reshape(len(out), *V.shape[1:])


def finite_kernel_product(kernel: Kernel, X: Any, Y: Any, V: Array) -> Array:
    """As `kernel_product`, with an error where the result is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        product = kernel_product(kernel, X, Y, V)
    if not backend_of(product).is_finite(product):
        raise DataError(
            _without_roots(kernel)
            or "The kernel overflows between these rows and the training rows: scale the features "
            "of both in the same way, for example in a pipeline with a scaler."
        )
    return product


def _without_roots(kernel: Kernel) -> str:
    """An explanation, if the degree of a polynomial kernel is not whole."""
    degree = getattr(kernel, "degree", 1)
    if getattr(kernel, "name", "") not in ("polynomial", "poly") or float(degree).is_integer():
        return ""
    return (
        f"The polynomial kernel of degree {degree:g} is not finite: gamma x'y + coef0 is negative "
        "for some rows, and has no such power. Use a whole degree, or a larger coef0."
    )


def why_not_finite(kernel: Kernel, row: int) -> str:
    """Why a kernel matrix of training rows is not finite, the first time in a row."""
    return _without_roots(kernel) or (
        f"The kernel matrix has values that are not finite, the first of them in row {row}. "
        "Scale the features, for example with sklearn.preprocessing.StandardScaler, or lower "
        "gamma or degree."
    )


def kernel_values(kernel: Kernel, X: Any, Y: Any = None) -> Array:
    """k(X, Y) on the device of X; kernels from elsewhere get NumPy arrays."""
    on = backend_of(X)
    if isinstance(kernel, (NamedKernel, Precomputed)):
        return kernel(X, Y)
    X, Y = (X, Y) if on.is_host else (to_host(as_given(X)), to_host(Y))
    try:
        values = kernel(X, Y)
    except (TypeError, ValueError) as error:  # of SciPy's distances, for example
        if not (is_sparse(X) or is_sparse(Y)):
            raise
        raise DataError(
            f"Kernels of scikit-learn, such as {kernel}, take dense rows: pass X.toarray(), or use "
            'a kernel with a name, such as "rbf".'
        ) from error
    return on.array(with_own_parts(kernel, X, Y, values))


def kernel_of_columns(kernel: Kernel, Y: Any, *, reuse: bool) -> Callable[[Any], Array]:
    """The function X -> k(X, Y) for blocks of rows; what depends on Y alone is computed once.

    `reuse`: whether a block may overwrite the previous one of the same thread. New memory for every
    block would take threads as long as the product.
    """
    if not isinstance(kernel, NamedKernel) or kernel.name != "rbf" or is_sparse(Y):
        return lambda X: kernel_values(kernel, X, Y)
    right, stored = RightFactor.of(_float(backend_of(Y), Y), kernel.gamma), local()

    def values(X: Any) -> Array:
        on = backend_of(X)
        if is_sparse(X):
            return kernel(X, Y)
        if not (on.is_host and reuse):
            return _dense_rbf(kernel, _float(on, X), Y, right)
        if len(getattr(stored, "K", ())) < len(X):
            stored.left, stored.K = np.empty((len(X), X.shape[1] + 2)), np.empty((len(X), len(Y)))
        return _dense_rbf(kernel, _float(on, X), Y, right, (stored.left, stored.K))

    return values


def kernel_diagonal(kernel: Kernel, X: Any) -> Array:
    """k(x, x) of each row, on the device of X."""
    on = backend_of(X)
    if on.is_host or isinstance(kernel, (NamedKernel, Precomputed)):
        return on.array(kernel.diag(X))
    return on.array(kernel.diag(to_host(as_given(X))))


def training_kernel(kernel: Kernel, X: Any) -> Array:
    """The kernel matrix of the training rows, which callers may overwrite, on their backend."""
    if isinstance(kernel, Precomputed):
        check_precomputed(X)
    on = backend_of(X)
    X = X if on.is_host or is_tensor(X) else X[slice(None)]
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        K = on.contiguous(on.array(kernel_values(kernel, X)))
        finite = on.is_finite(K.diagonal()) and on.is_finite(K)
    if not finite:
        row = int(np.argmin(np.isfinite(to_host(K)).all(axis=1)))
        raise DataError(why_not_finite(kernel, row))
    return K


def check_precomputed(K: Any) -> None:
    """Raise an error where a precomputed kernel matrix is not square and symmetric."""
    K = as_given(K)
    xp = backend_of(K).xp
    if K.shape[0] != K.shape[1]:
        raise DataError(
            f"A precomputed kernel must be square, training rows by training rows: got shape "
            f"{tuple(K.shape)}. Did you mean kernel='linear' or 'rbf'?"
        )
    size = max(K.max(), -K.min())
    for start in range(0, K.shape[0], 256):  # in blocks: no second matrix of this size
        rows = slice(start, start + 256)
        gap = abs(K[rows, start:] - K[start:, rows].T)
        gap = gap.max(axis=1).toarray().ravel() if is_sparse(gap) else xp.amax(gap, axis=1)
        if gap.max() > 1e-6 * size:
            row = start + int(gap.argmax())
            raise DataError(
                f"A precomputed kernel must be symmetric: row {row} differs from column {row}."
            )


def has_own_parts(kernel: Any) -> bool:
    """Whether there is a `WhiteKernel` in a kernel."""
    if not hasattr(kernel, "clone_with_theta"):  # not one of scikit-learn's
        return False
    from sklearn.gaussian_process.kernels import WhiteKernel  # imported late: it takes a while

    parts = (kernel, *kernel.get_params().values())
    return any(isinstance(part, WhiteKernel) for part in parts)


def with_own_parts(kernel: Any, X: Any, Y: Any, K: Array) -> Array:
    """K = k(X, Y), and in the places of equal rows k(x, x)."""
    if not has_own_parts(kernel):
        return K
    same = same_items(X, Y)
    return K if same is None else np.where(same, np.asarray(kernel.diag(X))[:, None], K)


def same_items(X: Any, Y: Any = None) -> Any:
    """Which rows of X and Y are equal, of shape (n, m); None if none are, but for the diagonal."""
    X, Y = (rows.toarray() if is_sparse(rows) else rows for rows in (X, Y))
    items = _item_numbers(X if Y is None else np.vstack((X, Y)))
    if items.max(initial=-1) + 1 == len(items):
        return None
    return items[: len(X), None] == items[0 if Y is None else len(X) :]


def _item_numbers(X: Array) -> Index:
    """A number for every row, the same for equal rows."""
    rows = np.ascontiguousarray(X + 0.0)  # there is one zero, not two
    if not rows.shape[1]:
        return np.zeros(len(rows), dtype=np.intp)
    whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    return np.asarray(np.unique(whole, return_inverse=True)[1], dtype=np.intp)
