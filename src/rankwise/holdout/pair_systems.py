"""Theorem 2 of the leave-pair-out paper: rows of one query, some of which will be held out.

Of m rows, n_left are left: m - 2 without a pair U, as `leave_pair_out.py` passes it. D~ - 11' is
the Laplacian of the pairs of these rows. RankRLS has a free intercept b, and its dual weights solve

    (K + lam D~^-1) a + b 1 = y,   1'a = 0.                                                  (i)

If all pairs count, D~ = n_left I, as in the paper. If tied pairs do not count, D~ = d_l I + 11' on
the rows of a level l, which have equal labels. The level has n_l rows that are left, the degree of
a row is d_l = n_left - n_l, and D~^-1 = (I - 11'/n_left) / d_l.

The solution is linear in y. It is a = P y / lam with the matrix

    P = lam (G - G 1 1'G / 1'G 1),   G = (K + lam D~^-1)^-1.

`DenseP.of` and `LowRankP.of` compute P. The paper has Q = (D~ + lam K^-1)^-1, so that
lam G = D~ - D~ Q D~. Its equation (27) subtracts BB' from D~, where B has three columns. The first
is the intercept here, and the two others, which take D~ from the held-out rows, are e_U below. So
(28) is solved here by 2 by 2 systems, and K may be singular.

Held-out rows U have a = 0. P depends on them through n_left and n_l only: one P of all rows serves
all hold-outs with the same numbers.

With the labels y_U - e_U, e_U = P_UU^-1 (P y)_U, the rows U have a = 0, and the fit is the fit
without them. By (i), it predicts, up to the constant b,

    f_U = y_U - e_U + (sum of lam a over the level) / (d_l n_left),                          (ii)

where a is the solution for the labels y - e. If all pairs count, the last term is 0, and e_U are
the residuals of this fit, up to a constant. Otherwise, e_i and e_j also count in the sums of the
levels p of i and q of j. With S = `level_sums`, the rows of P summed over each level and divided by
d_l n_left, and with `base` for (ii) without e,

    f_i - f_j = base_i - base_j - (h_i e_i - h_j e_j),
    h_i = 1 + S_pi - S_qi,   h_j = 1 + S_qj - S_pj.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np

from rankwise.backends.arrays import EPS, Array, Backend, Index, backend_of, to_host
from rankwise.backends.parallel import map_in_threads, threads_for
from rankwise.holdout.hold_out_problem import (
    CLOSE,
    OF_PAIR,
    check_digits,
    check_large_alpha,
    column_size,
    lost_in_rounding,
    not_definite,
)
from rankwise.holdout.leave_query_out import Conditional
from rankwise.holdout.pair_differences import (
    TIED,
    block_losses,
    listed_differences,
    rounding_error,
)

Result = TypeVar("Result")

BLOCK_BYTES = 8 * 2**20  # of a matrix computed at a time


@dataclass(frozen=True, eq=False)
class Laplacian:
    """D~^-1 of the Laplacian D~ - 11' of the pairs of the rows that are left.

    Attributes
    ----------
    n_left : int
    degrees : ndarray of shape (n_levels,)
        The number d_l of pairs of a row of each level.
    level : ndarray of shape (n_rows,)
        The level of each row, held-out rows included. If all pairs count, there is one level.
    ties : bool
        Whether all pairs count, so that D~ = n_left I.
    """

    n_left: int
    degrees: Array
    level: Index
    ties: bool

    @classmethod
    def of_all_pairs(cls, n_rows: int, left: int) -> Laplacian:
        """All pairs of the rows that are left count."""
        return cls(left, np.array([float(left)]), np.zeros(n_rows, np.intp), True)

    @classmethod
    def of_levels(cls, level: Index, left: Index) -> Laplacian:
        """Pairs of different levels count, which have `left` rows."""
        n_left = int(left.sum())
        return cls(n_left, np.asarray(n_left - left, np.float64), level, False)

    @property
    def diagonal(self) -> Array:
        """d_l for each row."""
        return self.degrees[self.level]

    @property
    def definite(self) -> bool:
        """Whether D~^-1 is positive definite up to a constant: few rows of a level are held out."""
        return self.ties or bool(np.bincount(self.level).max() <= self.n_left + 1)

    @property
    def coupling(self) -> Array:
        """1 / (d_l n_left) for each level: D~^-1 has it with a minus between rows of a level."""
        return 1.0 / (self.degrees * self.n_left)


@dataclass(frozen=True)
class DenseP:
    """P as a matrix. `tied` is about the relative error of held-out differences."""

    P: Array
    tied: float

    @classmethod
    def of(cls, K: Array, laplacian: Laplacian, lam: float) -> DenseP:
        """From a centred kernel matrix, which is overwritten: m^3 flops."""
        on, m = backend_of(K), len(K)
        trace, ridge = float(K.diagonal().sum()), lam / laplacian.diagonal
        if not laplacian.ties:
            level, c = laplacian.level, laplacian.coupling
            K -= on.array(np.where(level[:, None] == level, lam * c[level], 0.0))
        # K maps the constant vector to 0. A larger eigenvalue keeps the inverse accurate.
        shift = (trace / m + float(ridge.max())) / m
        _in_spans(lambda rows: K[rows].__iadd__(shift), K)
        G = on.inverse_definite(K, on.array(ridge))
        if G is None:
            if laplacian.definite:
                raise not_definite(K, float(ridge.min()))
            K[np.arange(m), np.arange(m)] += on.array(ridge)
            G = on.solve(K, on.eye(m))
        largest = float(G.diagonal().max())
        check_digits(trace, 1.0 / largest)
        P = G
        sums = lam * sum(_in_spans(lambda rows: P[rows].sum(axis=0), P))

        def subtract(rows: slice) -> None:  # without a second matrix
            P[rows] *= lam
            P[rows] -= sums[rows, None] * (sums / sums.sum())

        _in_spans(subtract, P)
        return cls(P, rounding_error(trace, largest))

    @property
    def diagonal(self) -> Array:
        return backend_of(self.P).contiguous(self.P.diagonal())

    def times(self, y: Array) -> Array:
        return backend_of(self.P).matmul(self.P, y)

    def entries(self, first: Index, second: Index) -> Array:
        return self.P[first, second]

    def grid(self, first: Index, second: Index) -> Array:
        return self.P[first[:, None], second]

    def block(self, rows: Index) -> Array:
        return self.P[rows[..., None], rows[..., None, :]]

    def upper(self, start: int, stop: int) -> Array:
        """Rows start:stop, from column `start` on."""
        return self.P[start:stop, start:]

    def level_sums(self, level: Index, n_levels: int) -> Array:
        """The sum of the rows of each level."""
        return backend_of(self.P).group_sums(level, n_levels, self.P)


@dataclass(frozen=True)
class LowRankP:
    """P = diag(d) - left right' from few features, without m by m matrices."""

    d: Array
    left: Array
    right: Array
    tied: ClassVar[float] = TIED

    @classmethod
    def of(cls, F: Array, laplacian: Laplacian, lam: float) -> LowRankP:
        """From n centred features, by the matrix inversion lemma: O(m (n + levels)^2) flops.

        With the degrees D = diag(d), K / lam + D~^-1 = V S V' + D^-1 has the features, the
        indicators of the levels and the constant in the columns of V, with
        S^-1 = diag(lam, -n_left d_l, 0). So P = D - D V (S^-1 + V'D V)^-1 V'D.

        The indicators and the constant are as large as the features: if these were much smaller,
        the solution would be lost in the rounding errors of the other columns.
        """
        on, degrees, unit = backend_of(F), laplacian.degrees, column_size(F)
        d = on.array(laplacian.diagonal)
        columns, inverse_S = [F], [np.full(F.shape[1], lam)]
        if not laplacian.ties:
            columns.append(unit * on.array(laplacian.level[:, None] == np.arange(len(degrees))))
            inverse_S.append(-laplacian.n_left * degrees * unit**2)
        columns.append(on.zeros(len(F), 1) + unit)
        inverse_S.append(np.zeros(1))
        V = on.array(on.xp.hstack(columns))
        DV = d[:, None] * V
        inner = on.matmul(on.contiguous(V.T), DV)
        on.diagonal(inner)[:] += on.array(np.concatenate(inverse_S))
        right = on.solve(inner, on.contiguous(DV.T)).T
        return cls(d, DV, on.contiguous(right))

    @property
    def diagonal(self) -> Array:
        return self.d - _row_products(self.left, self.right)

    def times(self, y: Array) -> Array:
        on = backend_of(y)
        return self.d[:, None] * y - on.matmul(self.left, on.matmul(self.right.T, y))

    def entries(self, first: Index, second: Index) -> Array:
        on = backend_of(self.d)
        own = on.array(first == second) * self.d[first]
        return own - _row_products(self.left[first], self.right[second])

    def grid(self, first: Index, second: Index) -> Array:
        """Entries of every row of `first` with every row of `second`, which are other rows."""
        return backend_of(self.d).matmul(-self.left[first], self.right[second].T)

    def block(self, rows: Index) -> Array:
        """Entries of all rows of a fold, or of each of several folds."""
        found = -self.left[rows] @ self.right[rows].mT
        every = np.arange(rows.shape[-1])
        found[..., every, every] += self.d[rows]
        return backend_of(found).array(found)

    def upper(self, start: int, stop: int) -> Array:
        """Rows start:stop, from column `start` on."""
        block = backend_of(self.left).matmul(-self.left[start:stop], self.right[start:].T)
        return on_diagonal(block, self.d[start:stop])

    def level_sums(self, level: Index, n_levels: int) -> Array:
        """The sum of the rows of each level."""
        on = backend_of(self.left)
        own = on.array(np.arange(n_levels)[:, None] == level) * self.d
        return own - on.matmul(on.group_sums(level, n_levels, self.left), self.right.T)


@dataclass(frozen=True, eq=False)
class PairSystem:
    """P, the centred labels y, and P y of the rows of a query.

    P y is lam times the solution a of (i) for all rows. It has the D~ of the rows that are left, so
    that a is not `dual_coef_`.

    `close`: whether alpha is so small that rounding errors of P matter.
    """

    P: DenseP | LowRankP
    laplacian: Laplacian
    y: Array
    Py: Array
    close: bool

    @classmethod
    def of(cls, query: Conditional, laplacian: Laplacian, lam: float) -> PairSystem | None:
        """At lam, divided by the weight of a pair; None if the features or kernel are constant.

        As 1'a = 0, constants do not matter, and both are centred.
        """
        on = backend_of(query.target)
        y = on.contiguous(query.target - query.target.mean(axis=0))
        F = query.features
        low_rank = F is not None and F.shape[1] < len(y)
        if F is not None and low_rank:
            rows = on.contiguous(F - F.mean(axis=0))
            size, trace = float((F**2).sum()), float((rows**2).sum())
        else:
            rows = query.stored_kernel()
            size = float(abs(rows.diagonal()).sum())
            trace = float(centred(rows).diagonal().sum())
        if trace <= (10 * EPS) ** (2 if low_rank else 1) * size:
            return None
        check_large_alpha(lam / float(laplacian.degrees.min()), trace)
        P = (LowRankP if low_rank else DenseP).of(rows, laplacian, lam)
        close = low_rank and lam < CLOSE * trace * float(laplacian.degrees.max())
        system = cls(P, laplacian, y, P.times(y), close or query.close)
        if system.close:
            system.check_pairs()
        return system

    def check_pairs(self) -> None:
        """Refuse an alpha for which P_UU is singular up to rounding errors for a pair U of rows.

        Only the rows of U have a feature then, and P_ii < d_i / 2 for one of them.
        """
        root = np.sqrt(self.laplacian.diagonal)
        diagonal = to_host(self.diagonal) / root**2
        found = [diagonal]
        for i in np.flatnonzero(diagonal < 0.5 + 1e-9):
            others = np.delete(np.arange(len(root)), i)
            entries = to_host(self.P.grid(np.array([i]), others))[0] / (root[i] * root[others])
            mean = (diagonal[i] + diagonal[others]) / 2
            spread = np.hypot((diagonal[i] - diagonal[others]) / 2, entries)
            found += [mean - spread, mean + spread]
        self._check_eigenvalues(np.concatenate(found))

    def _check_eigenvalues(self, found: Array) -> None:
        found = found if self.laplacian.definite else abs(found)
        check_digits(OF_PAIR, float(found.min()))

    @cached_property
    def level_sums(self) -> Array:
        """Rows of P, summed over each level and divided by d_l n_left, as in (ii)."""
        c = backend_of(self.y).array(self.laplacian.coupling)
        return c[:, None] * self.P.level_sums(self.laplacian.level, len(c))

    @cached_property
    def base(self) -> Array:
        """(ii) without e: y, and what each level adds if tied pairs do not count."""
        if self.laplacian.ties:
            return self.y
        on, level = backend_of(self.y), self.laplacian.level
        c = on.array(self.laplacian.coupling)
        sums = on.group_sums(level, len(c), self.Py)
        return self.y + (c[:, None] * sums)[level]

    def differences(self, first: Index, second: Index) -> Array:
        """f_i - f_j of listed pairs, each without both rows."""
        entries, factors = self.P.entries(first, second), None
        if not self.laplacian.ties:
            p, q = self.laplacian.level[first], self.laplacian.level[second]
            S = self.level_sums
            factors = (1.0 + S[p, first] - S[q, first], 1.0 + S[q, second] - S[p, second])
        given = entries, self.diagonal, self.base, self.Py, first, second, factors
        return listed_differences(*given, self.P.tied)

    @cached_property
    def diagonal(self) -> Array:
        return self.P.diagonal

    def all_losses(self, labels: Array) -> tuple[Array, Array]:
        """The losses and numbers of the held-out pairs of each row, if all pairs count."""
        diagonal, tied = self.diagonal, self.P.tied

        def of_rows(span: tuple[int, int]) -> tuple[Array, Array]:
            P = self.P.upper(*span)
            found = block_losses(P, span[0], diagonal, self.y, self.Py, labels, tied)
            if found is None:
                raise lost_in_rounding()
            return found

        spans = list(_spans(backend_of(labels), len(labels)))
        parts = map_in_threads(of_rows, spans, threads_for(len(labels) ** 2))
        loss, compared = (sum(values) for values in zip(*parts, strict=True))  # of halves: exact
        return np.asarray(loss), np.asarray(compared)

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """(start, block) of the upper triangle of P: rows and columns from index `start` on."""
        for start, stop in _spans(backend_of(self.y), len(self.y)):
            yield start, self.P.upper(start, stop)

    def without(self, rows: Index) -> tuple[Array, Array]:
        """Predictions (ii) without the rows of each line, shape (n_lines, s, n_outputs).

        Also the size of their terms, shape (n_lines, n_outputs), for `settled`.
        """
        P, Py = self.P.block(rows), self.Py[rows]
        if self.close:
            root = np.sqrt(self.laplacian.diagonal)[rows]
            scaled = to_host(P) / (root[:, :, None] * root[:, None])
            self._check_eigenvalues(np.linalg.eigvalsh(scaled))
        e, base = backend_of(P).solve(P, Py), self.base[rows]
        size = abs(base) + abs(e)
        if not self.laplacian.ties:
            S = self.level_sums[self.laplacian.level[rows][:, :, None], rows[:, None]]
            e, size = e + S @ e, size + abs(S) @ abs(e)
        return base - e, size.sum(axis=1)


def centred(K: Array) -> Array:
    """C K C with C = I - 11'/n, in place."""
    mean = sum(_in_spans(lambda rows: K[rows].sum(axis=0), K)) / len(K)

    def centre(rows: slice) -> None:
        K[rows] -= mean
        K[rows] -= K[rows].mean(axis=1)[:, None]

    _in_spans(centre, K)
    return K


def on_diagonal(M: Array, d: Array) -> Array:
    """M, with d added to its diagonal, in place."""
    rows = np.arange(len(d))
    M[rows, rows] += d
    return M


def _row_products(F: Array, G: Array) -> Array:
    """Inner products of corresponding rows of F and G."""
    on = backend_of(F)
    return on.array(on.xp.einsum("ij,ij->i", F, G))


def _in_spans(function: Callable[[slice], Result], K: Array) -> list[Result]:
    """Results for some rows of a square matrix at a time, in threads."""
    on = backend_of(K)
    threads = threads_for(K.size) if on.is_host else 1
    return map_in_threads(function, [slice(*span) for span in _spans(on, len(K))], threads)


def _spans(on: Backend, m: int) -> Iterator[tuple[int, int]]:
    n_arrays = 1 if on.is_host else 4  # on a device, pairs need more arrays of this size
    step = max(1, on.block_bytes(BLOCK_BYTES) // n_arrays // (8 * max(m, 1)))
    for start in range(0, m, step):
        yield start, min(start + step, m)
