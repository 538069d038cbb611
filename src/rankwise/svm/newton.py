"""The hinge loss on pairs and its square, minimized by a truncated Newton method.

The objective of the squared hinge is

    J(w) = sum_{(i, j)} c_ij max(0, 1 - (f_i - f_j))^2 + lam |w|^2,   f = X w,

over the pairs of rows of the same query with y_i > y_j. A pair is active if f_i - f_j < 1. With
the rows of a query sorted by score, the active partners of a row end at a position that moves
monotonically from row to row; a binary indexed tree over labels counts and sums the partners with a
smaller (larger) label. The loss, its gradient with respect to f and a product with its Hessian take
O(m log m) time for m rows, regardless of the number of pairs. If rows have weights u, c_ij has the
factor u_i u_j: sums over partners are sums of u_j and u_j v_j, and each row has the factor u_i.

The hinge is smoothed near its kink. With q(s) = max(0, s)^2, (q(s) - q(s - delta)) / (2 delta) is
s^2 / (2 delta) up to delta and s - delta / 2 beyond. This differs from max(0, s) by at most
delta / 2, and its sums over pairs are differences of the sums of two squared hinges.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import EPS, Array, Index, Rows, as_slice, is_sparse
from rankwise.backends.jit import compiled
from rankwise.backends.parallel import (
    column_products,
    even_parts,
    map_in_threads,
    row_products,
    threads_for,
)
from rankwise.graph import QueryGroups

Result = TypeVar("Result")

PART_ROWS = 6000  # about how many rows a thread processes at a time
FEW = 2**18  # numbers of features up to which nothing is compiled for products with them
IN_CACHE = 2**16  # numbers of features that stay in cache between two products
COST = 100  # of sorting and sums over pairs for a row, in numbers of a product

_SHRINK, _ARMIJO, _MAX_HALVINGS = 0.5, 1e-4, 60
_FLATTER, _ROUNDING = 0.9, 1e-13
# Tolerance of Newton directions: a square root of the residual converges superlinearly with fewer
# products than the residual itself, and the last direction need not be better than the goal.
_FORCING, _ENOUGH = 0.1, 0.3
_FEW_THREADS = 3
_BY_INSERTION = 8  # keys that are sorted faster by insertion than by merging


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs of rows of the same query with different labels.

    Attributes
    ----------
    codes : ndarray of shape (n_rows,)
        The query of each row, numbered from 0.
    indptr : ndarray of shape (n_queries + 1,)
        The start of each query when rows are sorted by query.
    level : ndarray of shape (n_rows,)
        The rank of each row's label among the labels of its query, starting at 1.
    weight : ndarray of shape (n_rows,)
        The weight of the pairs of each row, which is the same throughout a query, times the weight
        of the row.
    n_pairs : int
    row_weights : ndarray of shape (n_rows,) or None
        The weight of each row, above 0. None: 1.
    """

    codes: Index
    indptr: Index
    level: Index
    weight: Array
    n_pairs: int
    row_weights: Array | None = None

    @cached_property
    def order(self) -> Index:
        """The rows, sorted by query."""
        return np.argsort(self.codes, kind="stable").astype(np.intp, copy=False)

    @classmethod
    def of(
        cls,
        y: Array,
        codes: Index,
        weighting: str,
        query_weights: Array | None = None,
        row_weights: Array | None = None,
    ) -> LabelledPairs:
        """Pairs of labelled rows, with the weightings of preference graphs."""
        sizes = np.bincount(codes)
        indptr = np.concatenate(([0], np.cumsum(sizes))).astype(np.intp)
        order = np.lexsort((y, codes))
        rises = np.ones(len(y), dtype=np.intp)
        rises[1:] = y[order[1:]] != y[order[:-1]]
        rises[indptr[:-1]] = 1
        running = np.cumsum(rises)
        level = np.empty(len(y), dtype=np.intp)
        level[order] = running - np.repeat(running[indptr[:-1]] - 1, sizes)
        run = np.empty(len(y), dtype=np.intp)
        run[order] = running - 1
        of_rows = np.ones(len(y)) if row_weights is None else row_weights
        n_pairs, _ = _pairs_of_queries(np.ones(len(y)), run, codes)
        pairs, rows = n_pairs, sizes.astype(np.float64)
        if row_weights is not None:
            pairs, rows = _pairs_of_queries(of_rows, run, codes)
        by_query = {
            "pairs": np.ones(len(sizes)),
            "rows": 1.0 / rows,
            "queries": 1.0 / np.where(n_pairs > 0, pairs, 1.0),
        }[weighting]
        if query_weights is not None:
            by_query = by_query * query_weights
        weight = by_query[codes] * of_rows
        return cls(codes, indptr, level, weight, int(n_pairs.sum()), row_weights)

    def listed(self) -> ListedPairs:
        """All pairs, one by one: fewer operations if there are few, and nothing to compile."""
        order = np.lexsort((self.level, self.codes))
        starts = self.indptr[self.codes[order]]
        begins = np.ones(len(order), dtype=bool)
        begins[1:] = (np.diff(self.level[order]) != 0) | (np.diff(starts) != 0)
        of_level = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
        n_worse = of_level - starts  # the rows of smaller labels come first in a query
        ends = np.cumsum(n_worse)
        n_pairs = int(ends[-1])
        better = np.repeat(order, n_worse)
        worse = order[np.arange(n_pairs) + np.repeat(starts - (ends - n_worse), n_worse)]
        entries = np.tile([1.0, -1.0], n_pairs), np.column_stack((better, worse)).ravel()
        B = sp.csr_array((*entries, 2 * np.arange(n_pairs + 1)), shape=(n_pairs, len(order)))
        others = 1.0 if self.row_weights is None else self.row_weights[worse]
        return ListedPairs(B, np.ones(n_pairs), self.weight[better] * others)

    def at(self, f: Array, less: float = 0.0, X: Array | None = None) -> ActivePairs:
        """The pairs that are active at these scores, with a margin that is smaller by `less`.

        With dense features in C order, the gradient by their weights follows as well.
        """
        return ActivePairs(self, f, 1.0 - less, X)


@dataclass(frozen=True, eq=False)
class PairParts:
    """`LabelledPairs` of some queries at a time, which threads process.

    Attributes
    ----------
    rows : list of slice or ndarray
        The rows of each part: the same parts for any number of threads, so that sums are equal.
    pairs : list of LabelledPairs
        Of the rows of each part.
    X : array of shape (n_rows, n_features) or None
        Dense features, if threads are to multiply by these as well.
    """

    rows: list[Rows]
    pairs: list[LabelledPairs]
    X: Any = None

    @classmethod
    def of(cls, y: Array, groups: QueryGroups, weighting: str) -> PairParts:
        """Pairs of labelled rows, as `LabelledPairs.of`, for each part."""
        parts = even_parts(groups.sizes.tolist(), max(1, groups.n_rows // PART_ROWS))
        ends, weights, of_rows = groups.indptr, groups.weights, groups.row_weights

        def of_part(part: slice) -> tuple[Rows, LabelledPairs]:
            rows = as_slice(groups.order[ends[part.start] : ends[part.stop]])
            pairs = LabelledPairs.of(
                y[rows],
                np.repeat(np.arange(part.stop - part.start), groups.sizes[part]),
                weighting,
                None if weights is None else weights[part],
                None if of_rows is None else of_rows[rows],
            )
            return rows, pairs

        # Many short calls of NumPy: more threads would wait for the interpreter lock.
        found = map_in_threads(of_part, parts, min(_FEW_THREADS, threads_for(groups.n_rows * COST)))
        return cls(*map(list, zip(*found, strict=True)))

    @property
    def n_pairs(self) -> int:
        """The number of pairs."""
        return sum(pairs.n_pairs for pairs in self.pairs)

    def on(self, X: Any) -> PairParts:
        """The same pairs, of rows with these features."""
        adjacent = all(isinstance(rows, slice) for rows in self.rows)
        dense = not is_sparse(X) and X.flags.c_contiguous
        return replace(self, X=X) if adjacent and dense else self

    def at(self, f: Array, less: float = 0.0) -> ActiveParts:
        """The pairs that are active at these scores, with a margin that is smaller by `less`."""
        return ActiveParts(self, f, less)

    def map(self, function: Callable[[int], Result], n_rows: int) -> list[Result]:
        """Results for each part, from work on all rows that threads share."""
        return map_in_threads(function, range(len(self.rows)), threads_for(n_rows * COST))


@dataclass(frozen=True, eq=False)
class ListedPairs:
    """Comparisons with margins: the difference d of a comparison should be at least its margin.

    The loss of a comparison of weight w is w max(0, margin - d)^2 for a positive margin,
    w max(0, d - margin)^2 for a negative one, and w d^2 for a tie, whose margin is 0.

    Attributes
    ----------
    B : sparse of shape (n_pairs, n_rows)
        ``B @ f`` are the differences.
    margin, weight : ndarray of shape (n_pairs,)
    """

    B: Any
    margin: Array
    weight: Array

    @cached_property
    def transposed(self) -> Any:
        """B', which takes SciPy as long to create as a product with few pairs."""
        return self.B.T

    def on(self, X: Any) -> ListedPairs:
        """These pairs, whose sums do not need the features."""
        return self

    def at(self, f: Array, less: float = 0.0) -> ActiveComparisons:
        """The comparisons that have a loss at these scores, after `less` is taken off."""
        sign = np.where(self.margin < 0, -1.0, 1.0)
        slack = np.abs(self.margin) - sign * (self.B @ f)
        tied = (self.margin == 0) & (slack < -less)
        active = (slack > less) | (tied if less else self.margin == 0)
        slack -= np.where(tied, -less, less) if less else 0.0
        return ActiveComparisons(self, np.where(active, self.weight, 0.0), sign * slack)


class ActiveLoss(ABC):
    """A loss of scores at a point, its gradient and products with its Hessian."""

    loss: float
    gradient: Array

    @abstractmethod
    def hessian_product(self, v: Array) -> Array:
        """The Hessian with respect to the scores times v."""

    def slope(self, X: Any) -> Array:
        """The gradient with respect to the weights."""
        return transposed_product(X, self.gradient)

    def curvature(self, X: Any, p: Array) -> tuple[Array, Array]:
        """The Hessian with respect to the weights times p, and X p."""
        along = product(X, p)
        return transposed_product(X, self.hessian_product(along)), along


class ActiveComparisons(ActiveLoss):
    """Loss, gradient and products with the Hessian, as `ActivePairs`, of listed comparisons."""

    def __init__(self, pairs: ListedPairs, weight: Array, slack: Array) -> None:
        self._pairs, self._weight = pairs, weight
        self.loss = float(weight @ slack**2)
        self.gradient: Array = np.asarray(-2.0 * (pairs.transposed @ (weight * slack)))

    def hessian_product(self, v: Array) -> Array:
        """The Hessian with respect to f times v."""
        B, transposed = self._pairs.B, self._pairs.transposed
        return np.asarray(2.0 * (transposed @ (self._weight * (B @ v))))


class ActivePairs(ActiveLoss):
    """Loss of scores f, its gradient in f, and products with its generalized Hessian.

    Attributes
    ----------
    loss : float
        sum c_ij max(0, 1 - (f_i - f_j))^2.
    gradient : ndarray of shape (n_rows,)
        Its derivative with respect to the scores.
    of_weights : ndarray of shape (n_features,)
        Its derivative with respect to the weights of the features, if these were given.
    """

    def __init__(self, pairs: LabelledPairs, f: Array, margin: float, X: Array | None) -> None:
        m, of_rows = len(f), np.ones(0) if pairs.row_weights is None else pairs.row_weights
        scores, by_score, degree = np.empty(m), pairs.order.copy(), np.empty(m)
        self._state = scores, by_score, pairs.indptr, pairs.level, pairs.weight, of_rows, degree
        X = np.empty((m, 0)) if X is None else X
        self.gradient, self.of_weights = np.empty(m), np.zeros(X.shape[1])
        # Arrays are made here: making them in compiled code takes half a second to compile.
        space = np.empty((4, m + 1)), np.empty(m, dtype=np.intp), np.zeros((2, 2, m))
        found = _activate(f, margin, *self._state, self.gradient, X, self.of_weights, *space)
        self.loss = float(found)

    def hessian_product(self, v: Array) -> Array:
        """The Hessian with respect to f times v, by the Laplacian of the active pairs."""
        scores, by_score, indptr, level, weight, of_rows, degree = self._state
        v = np.ascontiguousarray(v, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            of_partners = of_rows * v if len(of_rows) else v
            sums, trees = np.zeros((2, 2, len(v))), np.empty((2, len(v) + 1))
            _active_sums(scores, by_score, indptr, level, of_partners, of_partners, trees, sums)
            return np.asarray(2.0 * weight * (degree * v - sums[0, 1] - sums[1, 1]))

    def curvature_at(self, X: Array, p: Array, along: Array) -> Array:
        """The Hessian with respect to w times p; X p is written. For C-ordered arrays."""
        if X.size <= FEW:
            row_products(X, p, along)
            return column_products(X, self.hessian_product(along))
        return np.asarray(_curvature_of_weights(*self._state, X, p, along))


class ActiveParts(ActiveLoss):
    """`ActivePairs` of each part, in threads."""

    def __init__(self, parts: PairParts, f: Array, less: float) -> None:
        self._parts = parts
        self.gradient: Array = np.empty(len(f))

        def of_part(k: int) -> ActivePairs:
            rows = parts.rows[k]
            state = parts.pairs[k].at(f[rows], less, None if parts.X is None else parts.X[rows])
            self.gradient[rows] = state.gradient
            return state

        self._states = parts.map(of_part, len(f))
        self.loss = sum(state.loss for state in self._states)

    def hessian_product(self, v: Array) -> Array:
        """The Hessian with respect to f times v."""
        rows, out = self._parts.rows, np.empty(len(v))

        def multiply(k: int) -> None:
            out[rows[k]] = self._states[k].hessian_product(v[rows[k]])

        self._parts.map(multiply, len(v))
        return out

    def slope(self, X: Any) -> Array:
        """The gradient with respect to w."""
        if self._parts.X is None:
            return super().slope(X)
        return sum_of([state.of_weights for state in self._states])

    def curvature(self, X: Any, p: Array) -> tuple[Array, Array]:
        """The Hessian with respect to w times p, and X p."""
        if self._parts.X is None:
            return super().curvature(X, p)
        rows, along = self._parts.rows, np.empty(X.shape[0])

        def multiply(k: int) -> Array:
            return self._states[k].curvature_at(X[rows[k]], p, along[rows[k]])

        return sum_of(self._parts.map(multiply, X.size)), along


@dataclass(frozen=True)
class NewtonFit:
    """Weights and the state of the iteration.

    `residual` is the norm of the gradient relative to the start, or NaN if it overflows.
    """

    w: Array
    n_iter: int
    residual: float
    converged: bool


SquaredHinges: TypeAlias = "LabelledPairs | PairParts | ListedPairs"
PairLosses: TypeAlias = "SquaredHinges | SmoothedHinge"


def product(X: Any, w: Array) -> Array:
    """X w, by threads on blocks of dense rows."""
    if is_sparse(X):
        return np.asarray(X @ w)
    out = np.empty(X.shape[0])

    def multiply(rows: slice) -> None:
        row_products(X[rows], w, out[rows])

    map_in_threads(multiply, _blocks(X), threads_for(X.size))
    return out


def transposed_product(X: Any, v: Array) -> Array:
    """X'v, as a sum over the same blocks for any number of threads."""
    if is_sparse(X):
        return np.asarray(X.T @ v)

    def multiply(rows: slice) -> Array:
        return column_products(X[rows], v[rows])

    return sum_of(map_in_threads(multiply, _blocks(X), threads_for(X.size)))


def sum_of(parts: Sequence[Array]) -> Array:
    """The sum in this order."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def _blocks(X: Array) -> list[slice]:
    return [slice(start, start + PART_ROWS) for start in range(0, max(len(X), 1), PART_ROWS)]


def least_lam(X: Any, pairs: SquaredHinges) -> float:
    """A lam that is lost in the rounding errors of the Hessian, as is every smaller one.

    It is measured by the squared hinge at w = 0, along the gradient.
    """
    state = pairs.at(np.zeros(X.shape[0]))
    slope = state.slope(X)
    length = float(np.linalg.norm(slope))
    if not 0.0 < length < np.inf:
        return 0.0
    unit = slope / length
    return EPS * _dot(unit, state.curvature(X, unit)[0]) / 2.0


def squared_hinge(
    X: Any,
    pairs: PairLosses,
    lams: Sequence[float],
    *,
    tol: float,
    max_iter: int,
    first: Array | None = None,
) -> list[NewtonFit]:
    """Minimize J for each lam by Newton steps, solved approximately by conjugate gradients.

    The objective is convex and piecewise quadratic with a continuous gradient, so a step within
    one piece is exact. A step is halved until J decreases enough, which ensures convergence from
    any start. The largest lam starts at `first` or 0, each other at the solution of the next one.

    Parameters
    ----------
    X : array or sparse of shape (n_rows, n_features)
    pairs : LabelledPairs, PairParts, ListedPairs or SmoothedHinge
    lams : sequence of float
    tol : float
        Target norm of the gradient, relative to w = 0.
    max_iter : int
        Maximum number of Newton steps for each lam.
    first : ndarray, optional
        Where to begin.
    """
    begin = _Point.of(X, pairs, np.zeros(X.shape[1]))
    start = float(np.linalg.norm(begin.slope))
    point = begin if first is None else _Point.of(X, pairs, first)
    fits: dict[float, NewtonFit] = {}
    for lam in sorted(set(lams), reverse=True):
        found, point = _descend(X, pairs, lam, point, start, tol, max_iter)
        fits[lam] = found
        if not np.isfinite(found.residual):
            break
    return [fits.get(lam, found) for lam in lams]


class _Point(NamedTuple):
    """Weights w, their scores f, the loss of these, and its gradient in w."""

    w: Array
    f: Array
    state: ActiveLoss
    slope: Array

    @classmethod
    def of(cls, X: Any, pairs: PairLosses, w: Array) -> _Point:
        f = product(X, w) if w.any() else np.zeros(X.shape[0])
        state = pairs.at(f)
        return cls(w, f, state, state.slope(X))


def _descend(
    X: Any, pairs: PairLosses, lam: float, point: _Point, start: float, tol: float, max_iter: int
) -> tuple[NewtonFit, _Point]:
    """Newton steps from a point to the last one; `start` is the norm of the gradient at w = 0."""
    step = 0
    while True:
        gradient = point.slope + 2.0 * lam * point.w
        residual = float(np.linalg.norm(gradient)) / start if start else 0.0
        if residual <= tol or step >= max_iter:
            break
        enough = max(min(_FORCING, residual**0.5), _ENOUGH * tol / residual)
        direction, along = _newton_direction(X, point.state, lam, gradient, enough)
        slope = float(gradient @ direction)
        if not np.isfinite(slope):
            return NewtonFit(point.w, step, np.nan, converged=False), point
        moved = _search(pairs, lam, point, direction, along, slope)
        if moved is None:  # no further descent in floating-point arithmetic
            break
        w, f, state = moved
        point = _Point(w, f, state, state.slope(X))
        step += 1
    return NewtonFit(point.w, step, residual, residual <= tol), point


def _newton_direction(
    X: Any, state: ActiveLoss, lam: float, gradient: Array, tol: float
) -> tuple[Array, Array]:
    """Conjugate gradients on H d = -g, until the residual is at most tol |g|; d and X d."""
    d, along = np.zeros_like(gradient), np.zeros(X.shape[0])
    r = -gradient
    p = r.copy()
    rr = _dot(r, r)
    enough = tol**2 * rr
    for _ in range(2 * len(gradient) + 10):
        Hp, Xp = state.curvature(X, p)
        Hp += 2.0 * lam * p
        curvature = _dot(p, Hp)
        if curvature <= 0.0:  # lam = 0, and the loss of the active pairs is flat along p
            break
        length = rr / curvature
        d += length * p
        Xp *= length
        along += Xp
        Hp *= length
        r -= Hp
        before, rr = rr, _dot(r, r)
        if rr <= enough:
            break
        p *= rr / before
        p += r
    return (d, along) if d.any() else (-gradient, product(X, -gradient))


def _objective(state: ActiveLoss, lam: float, w: Array) -> float:
    """J; a loss below 0 is a rounding error."""
    return float(max(state.loss, 0.0) + (lam * w) @ w)


def _dot(u: Array, v: Array) -> float:
    """u'v without BLAS, whose threads wait for each other between products with a sparse X."""
    return float(np.einsum("i,i->", u, v))


def _search(
    pairs: PairLosses, lam: float, point: _Point, direction: Array, along: Array, slope: float
) -> tuple[Array, Array, ActiveLoss] | None:
    """Halve the step until J satisfies the Armijo condition.

    Near the minimum, changes of J are below rounding errors; a smaller slope is enough there. No
    step decreases J, which is not negative, by more than its value: longer ones are not tried.
    Scores would be so large there that the computed loss is a rounding error, of any sign.
    """
    size, value = 1.0, _objective(point.state, lam, point.w)
    while -_ARMIJO * size * slope > value:
        size *= _SHRINK
    for _ in range(_MAX_HALVINGS):
        w_new, f_new = point.w + size * direction, point.f + size * along
        state = pairs.at(f_new)
        rise = _objective(state, lam, w_new) - value
        slope_new = state.gradient @ along + 2.0 * (lam * w_new) @ direction
        flatter = abs(slope_new) <= _FLATTER * abs(slope) and rise <= _ROUNDING * value
        if rise <= _ARMIJO * size * slope or flatter:
            return w_new, f_new, state
        size *= _SHRINK
    return None


def _pairs_of_queries(weights: Array, run: Index, codes: Index) -> tuple[Array, Array]:
    """The weight of the pairs with different labels of each query, and of its rows.

    `run` numbers the labels of all queries, and `codes` the queries.
    """
    query_of_run = np.empty(int(run.max()) + 1, dtype=np.intp)
    query_of_run[run] = codes
    of_run = np.bincount(run, weights)
    rows = np.asarray(np.bincount(query_of_run, of_run), dtype=np.float64)
    return np.bincount(query_of_run, of_run * (rows[query_of_run] - of_run)) / 2, rows


@compiled
def _sort(keys: Array, rows: Index, merged: Array, of_merged: Index) -> None:
    """Sort keys and their rows; equal keys keep their order.

    A few keys at a time are sorted by insertion, and then merged into the last two arrays. NumPy's
    own sort cannot be called without the interpreter lock, and takes a second to compile.
    """
    n, width = len(keys), _BY_INSERTION
    for first in range(0, n, width):
        for k in range(first + 1, min(first + width, n)):
            key, row, at = keys[k], rows[k], k
            while at > first and keys[at - 1] > key:
                keys[at], rows[at] = keys[at - 1], rows[at - 1]
                at -= 1
            keys[at], rows[at] = key, row
    while width < n:
        for first in range(0, n, 2 * width):
            middle, end = min(first + width, n), min(first + 2 * width, n)
            i, j = first, middle
            for k in range(first, end):
                if j == end or (i < middle and keys[i] <= keys[j]):
                    merged[k], of_merged[k] = keys[i], rows[i]
                    i += 1
                else:
                    merged[k], of_merged[k] = keys[j], rows[j]
                    j += 1
        for k in range(n):
            keys[k], rows[k] = merged[k], of_merged[k]
        width *= 2


@compiled
def _activate(
    f: Array, margin: float, scores: Array, by_score: Index, indptr: Index, level: Index,
    weight: Array, of_rows: Array, degree: Array, gradient: Array, X: Array, of_weights: Array,
    space: Array, spare_rows: Index, sums: Array,
) -> float:  # fmt: skip
    """The loss of active pairs, and its gradient, in one call without the interpreter lock.

    It writes `scores` in units of the margin, `by_score`, sorted within queries, the number of
    pairs of each row, and the gradient in the scores and in the weights of the features X. Sums and
    the gradient in the weights are 0 before; `space` has four rows of at least n + 1 numbers.
    """
    n, keys, spare, trees = len(f), space[0], space[1], space[2:]
    for k in range(n):
        keys[k] = f[by_score[k]] / margin
    for g in range(len(indptr) - 1):
        lo, hi = indptr[g], indptr[g + 1]
        _sort(keys[lo:hi], by_score[lo:hi], spare, spare_rows)
        median = keys[(lo + hi) // 2]
        for k in range(lo, hi):
            scores[by_score[k]] = keys[k] - median  # sums of large scores would lose digits
    weights, weighted = spare, keys
    for i in range(n):
        weights[i] = of_rows[i] if len(of_rows) > 0 else 1.0
        weighted[i] = weights[i] * scores[i]
    _active_sums(scores, by_score, indptr, level, weights, weighted, trees, sums)
    loss = 0.0
    for i in range(n):
        # Slacks 1 - (f_i - f_j), summed over the active pairs of each better row and of each worse
        # row. The sum of squared slacks follows from these.
        n_worse, n_better = sums[0, 0, i], sums[1, 0, i]
        slack_better = n_worse * (1.0 - scores[i]) + sums[0, 1, i]
        excess = n_better * (1.0 + scores[i]) - sums[1, 1, i] - slack_better
        degree[i] = n_worse + n_better
        gradient[i] = 2.0 * margin * weight[i] * excess
        loss += weight[i] * (slack_better + scores[i] * excess)
        for j in range(X.shape[1]):
            of_weights[j] += gradient[i] * X[i, j]
    return margin**2 * loss


@compiled
def _curvature(
    f: Array, by_score: Index, indptr: Index, level: Index, weight: Array, of_rows: Array,
    degree: Array, v: Array,
) -> Array:  # fmt: skip
    """The Hessian with respect to f times v, by the Laplacian of the active pairs."""
    sums, out = np.zeros((2, 2, len(f))), np.empty(len(f))
    of_partners, trees = of_rows * v if len(of_rows) > 0 else v, np.empty((2, len(f) + 1))
    _active_sums(f, by_score, indptr, level, of_partners, of_partners, trees, sums)
    for i in range(len(f)):
        out[i] = 2.0 * weight[i] * (degree[i] * v[i] - sums[0, 1, i] - sums[1, 1, i])
    return out


@compiled
def _curvature_of_weights(
    f: Array, by_score: Index, indptr: Index, level: Index, weight: Array, of_rows: Array,
    degree: Array, X: Array, p: Array, along: Array,
) -> Array:  # fmt: skip
    """X'H X p for the Hessian H with respect to f, in one call without the interpreter lock.

    Rows are sorted by query. Those of a few queries at a time stay in cache for both products.
    """
    total, first = np.zeros(X.shape[1]), 0
    while first < len(indptr) - 1:
        last = first + 1
        while last < len(indptr) - 1 and (
            (indptr[last + 1] - indptr[first]) * X.shape[1] <= IN_CACHE
        ):
            last += 1
        rows = slice(indptr[first], indptr[last])
        np.dot(X[rows], p, along[rows])
        product = _curvature(
            f[rows], by_score[rows] - indptr[first], indptr[first : last + 1] - indptr[first],
            level[rows], weight[rows], of_rows[rows], degree[rows], along[rows],
        )  # fmt: skip
        total += np.dot(product, X[rows])
        first = last
    return total


@compiled
def _active_sums(
    f: Array, by_score: Index, indptr: Index, level: Index, weights: Array, v: Array, trees: Array,
    found: Array,
) -> None:  # fmt: skip
    """Add sums of weights and of v over the active partners of each row, of shape (2, 2, n_rows).

    There are two sweeps over each query. The active partners with a smaller label have scores above
    f_i - 1 and are added as f_i decreases; partners with a larger label have scores below f_j + 1
    and are added as f_j increases. The second sweep counts levels from the top, so that prefixes
    hold larger labels. `trees` has two rows, longer than the longest query.
    """
    weight, total = trees
    for g in range(len(indptr) - 1):
        lo, hi = indptr[g], indptr[g + 1]
        top = 0
        for k in range(lo, hi):
            top = max(top, level[by_score[k]])
        if top == 1:
            continue
        for sweep in range(2):
            step = 2 * sweep - 1
            first = lo if sweep else hi - 1
            for at in range(top + 1):
                weight[at] = total[at] = 0.0
            inside = first
            for k in range(first, first + step * (hi - lo), step):
                i = by_score[k]
                while lo <= inside < hi and step * (f[by_score[inside]] - f[i]) < 1.0:
                    j = by_score[inside]
                    at = top + 1 - level[j] if sweep else level[j]
                    while at <= top:
                        weight[at] += weights[j]
                        total[at] += v[j]
                        at += at & -at
                    inside += step
                at = (top + 1 - level[i] if sweep else level[i]) - 1
                while at > 0:
                    found[sweep, 0, i] += weight[at]
                    found[sweep, 1, i] += total[at]
                    at -= at & -at


DELTAS = (0.5, 0.1, 0.02, 0.004, 0.001)
"""Widths of the smoothed kink, each with the solution for the one before as a start."""


@dataclass(frozen=True, eq=False)
class SmoothedHinge:
    """The smoothed hinge of pairs; for a tie, the smoothed absolute value."""

    pairs: SquaredHinges
    delta: float

    def at(self, f: Array) -> SmoothedLoss:
        """The loss at these scores."""
        return SmoothedLoss(self.pairs.at(f), self.pairs.at(f, self.delta), self.delta)


class SmoothedLoss(ActiveLoss):
    """Loss, gradient and products with the Hessian: differences of two squared hinges."""

    def __init__(self, whole: ActiveLoss, beyond: ActiveLoss, delta: float) -> None:
        self._whole, self._beyond, self._factor = whole, beyond, 0.5 / delta
        self.loss = self._factor * (whole.loss - beyond.loss)
        self.gradient: Array = self._factor * (whole.gradient - beyond.gradient)

    def hessian_product(self, v: Array) -> Array:
        """The Hessian with respect to the scores times v."""
        found = self._whole.hessian_product(v) - self._beyond.hessian_product(v)
        return np.asarray(self._factor * found)

    def slope(self, X: Any) -> Array:
        """The gradient with respect to the weights."""
        return self._factor * (self._whole.slope(X) - self._beyond.slope(X))


def hinge(
    X: Any,
    pairs: SquaredHinges,
    lams: Sequence[float],
    *,
    tol: float,
    max_iter: int,
) -> list[NewtonFit]:
    """Minimize sum_ij c_ij max(0, 1 - (f_i - f_j)) + lam |w|^2 for each lam.

    The objective of the result is within DELTAS[-1] / 2 times the sum of all c_ij of the minimum.

    Parameters
    ----------
    X : array or sparse of shape (n_rows, n_features)
    pairs : LabelledPairs, PairParts or ListedPairs
    lams : sequence of float
    tol, max_iter
        As for `squared_hinge`, for the last width; steps count for all widths together.
    """
    fits: dict[float, NewtonFit] = {}
    w = np.zeros(X.shape[1])
    for lam in sorted(set(lams), reverse=True):
        n_iter = 0
        for delta in DELTAS:
            (found,) = squared_hinge(
                X, SmoothedHinge(pairs, delta), [lam], first=w, max_iter=max_iter - n_iter,
                tol=tol if delta == DELTAS[-1] else max(tol, 1e-3),
            )  # fmt: skip
            n_iter += found.n_iter
            if not np.isfinite(found.residual):
                break
            w = found.w
        fits[lam] = replace(found, n_iter=n_iter)
    return [fits[lam] for lam in lams]
