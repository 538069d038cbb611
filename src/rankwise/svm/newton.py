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
from numpy.typing import NDArray

from rankwise.backends.arrays import EPS, Array, Index, Rows, as_slice, is_sparse
from rankwise.backends.jit import compiled
from rankwise.backends.parallel import (
    column_products,
    even_parts,
    map_in_threads,
    row_products,
    threads_for,
)
from rankwise.graph.preference_graph import QueryGraph

Result = TypeVar("Result")

PART_ROWS = 6000  # about how many rows a thread processes at a time
IN_CACHE = 2**16  # numbers of features that stay in cache between two products
COST = 100  # of sorting and sums over pairs for a row, in numbers of a product

_SHRINK, _ARMIJO, _MAX_HALVINGS = 0.5, 1e-4, 60
_FLATTER, _ROUNDING = 0.9, 1e-13
# Tolerance of Newton directions: a square root of the residual converges superlinearly with fewer
# products than the residual itself, and the last direction need not be better than the goal.
_FORCING, _ENOUGH = 0.1, 0.3


class QueryPart(NamedTuple):
    """Rows of a few queries, sorted by query, and what sums over their pairs need."""

    rows: Rows
    indptr: Index  # where each query begins, and the end
    codes: NDArray[Any]  # the query of each row, numbered from 0
    level: Index  # the rank of each row's label among the labels of its query, from 1
    weight: Array  # of the pairs of each row, without the weight of the other row
    row_weights: Array  # of each row; empty: 1


@dataclass(frozen=True, eq=False)
class LabelledPairs:
    """Pairs of rows of the same query with different labels, some queries at a time.

    Attributes
    ----------
    parts : list of QueryPart
        The same parts for any number of threads, so that sums are equal.
    X : array of shape (n_rows, n_features) or None
        Dense features, if threads are to multiply by these as well.
    """

    parts: list[QueryPart]
    X: Any = None

    @classmethod
    def of(cls, graph: QueryGraph) -> LabelledPairs:
        """The pairs of a graph without ties."""
        groups, of_rows, parts = graph.groups, graph.row_weights, []
        level = graph.level_of_row - graph.query_ptr[groups.codes] + 1
        weight = graph.pair_weight[groups.codes] * (1.0 if of_rows is None else of_rows)
        for queries in even_parts(groups.sizes.tolist(), max(1, groups.n_rows // PART_ROWS)):
            indptr, sizes = groups.indptr[queries.start : queries.stop + 1], groups.sizes[queries]
            rows = as_slice(groups.order[indptr[0] : indptr[-1]])
            codes = np.arange(len(sizes), dtype=np.min_scalar_type(len(sizes))).repeat(sizes)
            of_part = np.empty(0) if of_rows is None else of_rows[rows]
            parts.append(
                QueryPart(rows, indptr - indptr[0], codes, level[rows], weight[rows], of_part)
            )
        return cls(parts)

    def on(self, X: Any) -> LabelledPairs:
        """The same pairs, of rows with these features."""
        adjacent = all(isinstance(part.rows, slice) for part in self.parts)
        dense = not is_sparse(X) and X.flags.c_contiguous
        return replace(self, X=X) if adjacent and dense else self

    def at(self, f: Array, less: float = 0.0) -> ActiveParts:
        """The pairs that are active at these scores, with a margin that is smaller by `less`."""
        return ActiveParts(self, f, less)

    def map(self, function: Callable[[int], Result], n_rows: int) -> list[Result]:
        """Results for each part, from work on all rows that threads share."""
        return map_in_threads(function, range(len(self.parts)), threads_for(n_rows * COST))


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

    @classmethod
    def of(cls, graph: QueryGraph) -> ListedPairs:
        """The pairs of a graph without ties: faster than sorted sums if there are few."""
        groups, rows, n_pairs = graph.groups, graph.rows, graph.n_pairs
        starts = np.repeat(groups.indptr[:-1], groups.sizes)
        n_worse = np.repeat(graph.level_ptr[:-1], graph.level_sizes) - starts
        better = np.repeat(rows, n_worse)
        worse = rows[
            np.arange(n_pairs) + np.repeat(starts - (np.cumsum(n_worse) - n_worse), n_worse)
        ]
        entries = np.tile([1.0, -1.0], n_pairs), np.column_stack((better, worse)).ravel()
        B = sp.csr_array((*entries, 2 * np.arange(n_pairs + 1)), shape=(n_pairs, len(rows)))
        weight = graph.pair_weight[groups.codes[better]]
        if graph.row_weights is not None:
            weight = weight * graph.row_weights[better] * graph.row_weights[worse]
        return cls(B, np.ones(n_pairs), weight)

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


class ActivePart:
    """Loss of scores f of a part, its gradient in f, and products with its generalized Hessian.

    Attributes
    ----------
    loss : float
        sum c_ij max(0, 1 - (f_i - f_j))^2.
    gradient : ndarray of shape (n_rows,)
        Its derivative with respect to the scores.
    of_weights : ndarray of shape (n_features,)
        Its derivative with respect to the weights of the features, if these were given.
    """

    def __init__(self, part: QueryPart, f: Array, margin: float, X: Array | None) -> None:
        m, (_, indptr, codes, level, weight, of_rows) = len(f), part
        by_score = np.argsort(f)
        by_score = by_score[np.argsort(codes[by_score], kind="stable")]
        medians = by_score[(indptr[:-1] + indptr[1:]) // 2]
        scores = f / margin
        scores -= scores[medians][codes]  # sums of large scores would lose digits
        self._state = scores, by_score, indptr, level, weight, of_rows, np.empty(m)
        X = np.empty((m, 0)) if X is None else X
        self.gradient, self.of_weights = np.empty(m), np.zeros(X.shape[1])
        # Arrays are made here: making them in compiled code takes half a second to compile.
        space = np.empty((4, m + 1)), np.zeros((2, 2, m))
        found = _activate(*self._state, margin, self.gradient, X, self.of_weights, *space)
        self.loss = float(found)

    def hessian_product(self, v: Array) -> Array:
        """The Hessian with respect to f times v."""
        return np.asarray(_curvature(*self._state, np.ascontiguousarray(v, dtype=np.float64)))

    def curvature(self, X: Array, p: Array, along: Array) -> Array:
        """The Hessian with respect to w times p; X p is written. For C-ordered arrays."""
        return np.asarray(_curvature_of_weights(*self._state, X, p, along))


class ActiveParts(ActiveLoss):
    """`ActivePart` of each part, in threads."""

    def __init__(self, pairs: LabelledPairs, f: Array, less: float) -> None:
        self._pairs = pairs
        self.gradient: Array = np.empty(len(f))

        def of_part(k: int) -> ActivePart:
            part, X = pairs.parts[k], pairs.X
            state = ActivePart(part, f[part.rows], 1.0 - less, None if X is None else X[part.rows])
            self.gradient[part.rows] = state.gradient
            return state

        self._states = pairs.map(of_part, len(f))
        self.loss = sum(state.loss for state in self._states)

    def hessian_product(self, v: Array) -> Array:
        """The Hessian with respect to f times v."""
        out = np.empty(len(v))

        def multiply(k: int) -> None:
            rows = self._pairs.parts[k].rows
            out[rows] = self._states[k].hessian_product(v[rows])

        self._pairs.map(multiply, len(v))
        return out

    def slope(self, X: Any) -> Array:
        """The gradient with respect to w."""
        if self._pairs.X is None:
            return super().slope(X)
        return sum_of([state.of_weights for state in self._states])

    def curvature(self, X: Any, p: Array) -> tuple[Array, Array]:
        """The Hessian with respect to w times p, and X p."""
        if self._pairs.X is None:
            return super().curvature(X, p)
        along = np.empty(X.shape[0])

        def multiply(k: int) -> Array:
            rows = self._pairs.parts[k].rows
            return self._states[k].curvature(X[rows], p, along[rows])

        return sum_of(self._pairs.map(multiply, X.size)), along


@dataclass(frozen=True)
class NewtonFit:
    """Weights and the state of the iteration.

    `residual` is the norm of the gradient relative to the start, or NaN if it overflows.
    """

    w: Array
    n_iter: int
    residual: float
    converged: bool


SquaredHinges: TypeAlias = "LabelledPairs | ListedPairs"
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
    pairs : LabelledPairs, ListedPairs or SmoothedHinge
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


@compiled
def _activate(
    scores: Array, by_score: Index, indptr: Index, level: Index, weight: Array, of_rows: Array,
    degree: Array, margin: float, gradient: Array, X: Array, of_weights: Array, space: Array,
    sums: Array,
) -> float:  # fmt: skip
    """The loss of active pairs, and its gradient, in one call without the interpreter lock.

    Scores are in units of the margin. It writes the number of pairs of each row, and the gradient
    in the scores and in the weights of the features X. Sums and the gradient in the weights are 0
    before; `space` has four rows of at least n + 1 numbers.
    """
    n, weights, weighted, trees = len(scores), space[0], space[1], space[2:]
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
    pairs : LabelledPairs or ListedPairs
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
