"""Distinct battles and how often each ended how; sums over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index, Sparse
from rankwise.leaderboard.outcome_models import MODELS, Terms, with_slips

CHUNK = 1 << 15  # rows whose derivatives are computed at a time
SAMPLE, DISTINCT = 2000, 64  # a column with more distinct values in a sample is continuous


@dataclass(frozen=True, eq=False)
class Tally:
    """Distinct battles: who met whom, before which judge, with which covariates.

    `counts` has a column each for the first item's wins, the second's wins, and ties.
    `judge` is None if judges are not modelled.
    """

    first: Index
    second: Index
    counts: Array
    x: Array
    judge: Index | None = None

    def __len__(self) -> int:
        return len(self.first)

    def merged(self) -> tuple[Tally, Index]:
        """The same with equal battles in one row; also returns the new row of every row.

        Columns of `x` with many values, such as lengths, leave every battle its own row.
        """
        keys = [self.first, self.second]
        if self.judge is not None:
            keys.append(self.judge)
        for column in self.x.T:
            if len(np.unique(column[:SAMPLE])) > DISTINCT:
                return self, np.arange(len(self))
            keys.append(np.unique(column, return_inverse=True)[1])
        code = np.zeros(len(self), dtype=np.int64)
        for key in keys:
            size = int(key.max(initial=0)) + 1
            if code.max(initial=0) > 2**62 // size:  # numbers would overflow
                code = np.unique(code, return_inverse=True)[1]
            code = code * size + key
        where, row = _distinct(code)
        counts = [
            np.bincount(row, weights=column, minlength=len(where)) for column in self.counts.T
        ]
        judge = None if self.judge is None else self.judge[where]
        first, second, x = self.first[where], self.second[where], self.x[where]
        return Tally(first, second, np.column_stack(counts), x, judge), row

    def plus(self, other: Tally) -> tuple[Tally, Index, Index]:
        """Both together; also returns the new rows of the rows of this and of the other."""
        judge = None
        if self.judge is not None and other.judge is not None:
            judge = np.concatenate((self.judge, other.judge))
        joined = Tally(
            np.concatenate((self.first, other.first)),
            np.concatenate((self.second, other.second)),
            np.concatenate((self.counts, other.counts)),
            np.concatenate((self.x, other.x)),
            judge,
        )
        found, row = joined.merged()
        return found, row[: len(self)], row[len(self) :]


def tally(
    first: Index,
    second: Index,
    outcome: Index,
    weight: Array,
    x: Array,
    judge: Index | None = None,
) -> tuple[Tally, Index]:
    """Count equal battles; also returns the row of every battle."""
    counts = np.zeros((len(first), 3))
    counts[np.arange(len(first)), outcome] = weight
    return Tally(first, second, counts, x, judge).merged()


@dataclass(frozen=True)
class Layout:
    """Where each kind of parameter is."""

    n_items: int
    n_columns: int
    n_judges: int = 0
    ties: bool = False

    @property
    def items(self) -> slice:
        return slice(0, self.n_items)

    @property
    def places(self) -> slice:
        """Each judge's preference for the first place."""
        return slice(self.n_items, self.n_items + self.n_judges)

    @property
    def slips(self) -> slice:
        """Each judge's departure from the common logit of slips."""
        return slice(self.places.stop, self.places.stop + self.n_judges)

    @property
    def columns(self) -> slice:
        return slice(self.slips.stop, self.slips.stop + self.n_columns)

    @property
    def tie(self) -> slice:
        return slice(self.columns.stop, self.columns.stop + self.ties)

    @property
    def common_slip(self) -> slice:
        return slice(self.tie.stop, self.tie.stop + (self.n_judges > 0))

    @property
    def size(self) -> int:
        return int(self.common_slip.stop)

    @property
    def groups(self) -> dict[str, slice]:
        """Parameters that are shrunk together."""
        named = {"items": self.items, "places": self.places, "slips": self.slips}
        return {name: part for name, part in named.items() if part.stop > part.start}


@dataclass(frozen=True, eq=False)
class Bordered:
    """The symmetric matrix [[A, B], [B', D]] with a sparse A and few columns of B."""

    A: Sparse
    B: Array
    D: Array

    def __matmul__(self, V: Array) -> Array:
        top, bottom = V[: len(self.B)], V[len(self.B) :]
        return np.concatenate((self.A @ top + self.B @ bottom, self.B.T @ top + self.D @ bottom))

    def diagonal(self) -> Array:
        return np.concatenate((self.A.diagonal(), self.D.diagonal()))


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Log-likelihood of a tally as a function of all parameters.

    Each predictor is linear in the parameters: a sparse matrix times the first of them (items and
    judges) plus a dense one times the rest (covariates, tie, common slip).
    """

    tally: Tally
    layout: Layout
    link: str

    @cached_property
    def entries(self) -> list[tuple[Index, Array] | None]:
        """Of the sparse matrix of each predictor, the columns of its entries, and their signs."""
        t, layout = self.tally, self.layout
        sides, signs = [t.first, t.second], [1.0, -1.0]
        if t.judge is not None:
            sides.append(layout.places.start + t.judge)
            signs.append(1.0)
        found: list[tuple[Index, Array] | None] = [(np.column_stack(sides), np.array(signs))]
        if layout.ties:
            found.append(None)
        if t.judge is not None:
            found.append(((layout.slips.start + t.judge)[:, None], np.ones(1)))
        return found

    @cached_property
    def sparse(self) -> list[Sparse | None]:
        """The sparse matrix of each predictor."""
        width = self.layout.columns.start
        return [None if given is None else _indicators(*given, width) for given in self.entries]

    @cached_property
    def dense(self) -> list[tuple[slice, Array]]:
        """The dense part of each predictor: its parameters, and the matrix."""
        one = np.ones((len(self.tally), 1))
        found = [(self.layout.columns, self.tally.x)]
        if self.layout.ties:
            found.append((self.layout.tie, one))
        if self.layout.n_judges:
            found.append((self.layout.common_slip, one))
        return found

    @cached_property
    def counts(self) -> Array:
        """How often each outcome of the model occurred, a row per outcome.

        Without a model of ties, a tie is two half wins.
        """
        counts = self.tally.counts.T
        if not self.layout.ties:
            counts = counts[:2] + 0.5 * counts[2]
        return np.ascontiguousarray(counts)

    def with_counts(self, counts: Array) -> Likelihood:
        """The same battles, with other numbers of outcomes."""
        made = Likelihood(replace(self.tally, counts=counts), self.layout, self.link)
        shared = ("entries", "sparse", "dense", "_pair_codes", "_positions")
        known = self.__dict__
        made.__dict__.update({name: known[name] for name in shared if name in known})
        return made

    def terms(self, params: Array) -> Iterator[tuple[slice, Terms]]:
        """Outcome probabilities and their derivatives, for some rows at a time."""
        predictors = self.spread(params)
        model = MODELS[self.link, self.layout.ties]
        tau = float(params[self.layout.tie][0]) if self.layout.ties else 0.0
        for begin in range(0, len(self.tally), CHUNK):
            rows = slice(begin, begin + CHUNK)
            found = model(predictors[0, rows], tau)
            if self.tally.judge is not None:
                found = with_slips(found, predictors[-1, rows])
            yield rows, found

    def value(self, params: Array) -> float:
        """The log-likelihood."""
        parts = ((self.counts[:, rows] * terms.log_p).sum() for rows, terms in self.terms(params))
        return float(sum(parts))

    def expansion(self, params: Array) -> tuple[float, Array, Array]:
        """The log-likelihood, its gradient, and minus its second derivatives, by row.

        They have shapes (), (n_predictors, n_rows) and (n_predictors, n_predictors, n_rows).
        """
        n, q = len(self.tally), len(self.sparse)
        g, h, value = np.empty((q, n)), np.empty((q, q, n)), 0.0
        for rows, terms in self.terms(params):
            counts = self.counts[:, rows]
            value += float(np.vdot(counts, terms.log_p))
            g[:, rows] = np.einsum("yn,yqn->qn", counts, terms.gradient)
            if len(terms.hessian) == 1:
                h[..., rows] = -counts.sum(axis=0) * terms.hessian[0]
            else:
                h[..., rows] = -np.einsum("yn,yqrn->qrn", counts, terms.hessian)
        return value, g, h

    def scores(self, params: Array) -> Array:
        """Derivatives of the log-likelihood of one battle, by outcome, predictor and row."""
        found = np.concatenate([terms.gradient for _, terms in self.terms(params)], axis=-1)
        if len(found) == 2:
            found = np.concatenate((found, found.mean(axis=0, keepdims=True)))
        return found

    def probabilities(self, params: Array) -> Array:
        """Of the outcomes of each row, of shape (n_rows, n_outcomes)."""
        parts = [terms.log_p for _, terms in self.terms(params)]
        return np.exp(np.concatenate(parts, axis=1)).T

    def gather(self, g: Array) -> Array:
        """The gradient by parameters, of shape (size,) + g.shape[2:]."""
        out = np.zeros((self.layout.size, *g.shape[2:]))
        for values, E, (part, X) in zip(g, self.sparse, self.dense, strict=True):
            if E is not None:
                out[: E.shape[1]] += E.T @ values
            out[part] += X.T @ values
        return out

    def spread(self, params: Array) -> Array:
        """The predictors, of shape (n_predictors, n_rows) + params.shape[1:]."""
        found = []
        for E, (part, X) in zip(self.sparse, self.dense, strict=True):
            values = None if E is None else E @ params[: E.shape[1]]
            if values is None or X.shape[1]:
                more = X @ params[part]
                values = more if values is None else values + more
            found.append(values)
        return np.stack(found)

    def gram(self, h: Array) -> Array:
        """The sum over rows of D' h D, with the predictors D of a row; dense."""
        width = self.layout.columns.start
        B, D = self._border(h)
        A = np.zeros((width, width))
        for q, r in self._pair_codes:
            A += self._dense_part(q, r, h[q, r])
        return np.block([[A, B], [B.T, D]])

    def sparse_gram(self, h: Array) -> Bordered:
        """The same without an items x items matrix."""
        width = self.layout.columns.start
        own = np.arange(width)
        entries: list[tuple[Array, Index, Index]] = []
        for (q, r), parts in self._positions.items():
            for i, j, position, sign in parts:
                values = np.asarray(sign * np.bincount(position, weights=h[q, r]), dtype=np.float64)
                entries += [(values, i, j)] if q != r else [(values, i, j), (values, j, i)]
            E = self.sparse[q]
            if q == r and E is not None:
                entries.append((abs(E).T @ h[q, r], own, own))
        values, i, j = (np.concatenate(part) for part in zip(*entries, strict=True))
        A = sp.coo_array((values, (i, j)), shape=(width, width)).tocsr()
        return Bordered(A, *self._border(h))

    @cached_property
    def _positions(self) -> dict[tuple[int, int], list[tuple[Index, Index, Index, float]]]:
        """Rows and columns of the entries of E_q' E_r, and to which of them each row adds."""
        width = self.layout.columns.start

        def of(code: Index, sign: float) -> tuple[Index, Index, Index, float]:
            keys, position = np.unique(code, return_inverse=True)
            return keys // width, keys % width, position, sign

        return {
            pair: [of(code, sign) for code, sign in parts]
            for pair, parts in self._pair_codes.items()
        }

    def _border(self, h: Array) -> tuple[Array, Array]:
        """The columns and rows of `gram` for covariates, ties and the common slip."""
        width = self.layout.columns.start
        B = np.zeros((width, self.layout.size - width))
        D = np.zeros((B.shape[1], B.shape[1]))
        for q, (E, (left, X)) in enumerate(zip(self.sparse, self.dense, strict=True)):
            for r, (right, Z) in enumerate(self.dense):
                weighted = h[q, r][:, None] * Z
                columns = slice(right.start - width, right.stop - width)
                D[left.start - width : left.stop - width, columns] += X.T @ weighted
                if E is not None:
                    B[:, columns] += E.T @ weighted
        return B, D

    @cached_property
    def _pair_codes(self) -> dict[tuple[int, int], list[tuple[Index, float]]]:
        """Numbers of the entries of E_q' E_r above the diagonal to which each row adds."""
        found = {}
        width = self.layout.columns.start
        for q, left in enumerate(self.entries):
            for r, right in enumerate(self.entries):
                if left is None or right is None:
                    continue
                (i, s), (j, t) = left, right
                found[q, r] = [
                    (width * i[:, a] + j[:, b], float(s[a] * t[b]))
                    for a in range(len(s))
                    for b in range(a + 1 if q == r else 0, len(t))
                ]
        return found

    def _dense_part(self, q: int, r: int, weight: Array) -> Array:
        """E_q' diag(weight) E_r."""
        width = self.layout.columns.start
        total = np.zeros(width * width)
        for code, sign in self._pair_codes[q, r]:
            total += sign * np.bincount(code, weights=weight, minlength=width * width)
        M = total.reshape(width, width)
        E = self.sparse[q]
        if q == r and E is not None:
            M = M + M.T
            M[np.diag_indices(width)] += abs(E).T @ weight
        return M


def _distinct(code: NDArray[np.int64]) -> tuple[Index, Index]:
    """Where each distinct number first occurs, in ascending order, and which one each entry is."""
    size = int(code.max(initial=0)) + 1
    if size > 4 * len(code):
        _, where, row = np.unique(code, return_index=True, return_inverse=True)
        return where, row
    seen = np.zeros(size, dtype=bool)  # few numbers: without sorting
    seen[code] = True
    row = (np.cumsum(seen) - 1)[code]
    where = np.empty(int(row.max(initial=-1)) + 1, dtype=np.intp)
    where[row[::-1]] = np.arange(len(code))[::-1]
    return where, row


def _indicators(columns: Index, signs: Array, width: int) -> Sparse:
    """A sparse matrix with the same signs in each row."""
    n, each = columns.shape
    begins = np.arange(0, n * each + 1, each)
    return sp.csr_array((np.tile(signs, n), columns.flatten(), begins), shape=(n, width))
