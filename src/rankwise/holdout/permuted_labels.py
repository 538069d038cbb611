"""Errors of held-out pairs for many permutations of the labels, from one system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from rankwise.backends.arrays import EPS, Array, Index, backend_of, to_host
from rankwise.backends.jit import compiled, inlined
from rankwise.backends.parallel import map_in_threads, n_threads
from rankwise.errors import DataError
from rankwise.graph import QueryGroups
from rankwise.holdout.hold_out_problem import (
    UNRELIABLE,
    HoldOutProblem,
    Pairs,
    explained_rounding,
    lost_in_rounding,
)
from rankwise.holdout.leave_pair_out import check_pairs, one_ranking, ranking_system
from rankwise.holdout.leave_query_out import Conditional
from rankwise.holdout.pair_differences import TIED, block_slopes, listed_differences, settled
from rankwise.holdout.pair_systems import Laplacian, centred

BLOCK_VALUES = 2**17  # differences computed at a time on a device
KEYS = 2**14  # random numbers drawn at a time
COLUMNS = 128  # permutations at a time in a compiled loop: their rows stay in the cache
MOST_ROWS = 256  # with more, a matrix is large enough for several threads
MOST_LEVELS = 5  # with more, one system for all pairs of levels is faster
STACK_BYTES = 4 * 2**20  # of the matrices of a stack
HUGE = 996  # labels are multiplied by a power of two to about 2^996: products become signs


def permuted(labels: Array, units: QueryGroups, n: int, rng: np.random.Generator) -> Array:
    """The labels, and n random permutations of them within units: shape (n_rows, 1 + n)."""
    rows, starts = labels[units.order], np.repeat(units.indptr[:-1], units.sizes)
    columns = np.empty((len(rows), 1 + n))
    columns[:, 0], flat = rows, columns.ravel()  # a view
    step = max(1, KEYS // n)
    for start in range(0, len(rows), step):
        # A new row takes a random place of its unit, whose label moves to the end (Fisher, Yates).
        new, first = np.arange(start, min(start + step, len(rows))), starts[start : start + step]
        places = first[:, None] + (rng.random((len(new), n)) * (new - first + 1)[:, None]).astype(
            int
        )
        places *= 1 + n
        places += np.arange(1, 1 + n)
        for row, place in zip(new, places, strict=True):
            columns[row, 1:] = flat[place]
            flat[place] = rows[row]
    if units.contiguous:
        return columns
    out = np.empty_like(columns)
    out[units.order] = columns
    return out


def permuted_errors(problem: HoldOutProblem, labels: Array, units: QueryGroups) -> Array:
    """Shares of pairs in the wrong order, shape (n_alphas, n_columns of labels).

    Pairs are held out within `units`. Every column of `labels` is a permutation of the others
    within them, so that all have the same number of pairs with different labels.
    """
    check_pairs(problem, 0, Pairs(None, keep_ties=False))
    compared, ends = compared_pairs(labels[:, 0], units), np.repeat(units.indptr[1:], units.sizes)
    query, on = _in_order(one_ranking(problem, 0), units), backend_of(problem.y)
    Y = on.array(labels if units.contiguous else labels[units.order])
    y, two_labels = Y - labels[:, 0].mean(), len(np.unique(labels[:, 0])) == 2
    spread = float(np.ptp(labels[:, 0]))
    out = np.empty((len(problem.alphas), y.shape[1]))
    for k, lam in enumerate(problem.lams):
        with explained_rounding():
            system = ranking_system(query, problem.loss, lam, len(y) - 2)
        if system is None:  # all predictions are tied
            out[k] = 0.5
            continue
        Py = system.P.times(y)
        if not on.is_finite(Py):
            raise lost_in_rounding()
        agreement, tied = on.zeros(y.shape[1]), system.P.tied * spread
        for start, P in system.blocks():
            u, v = block_slopes(P, start, system.diagonal)
            if not on.is_host:
                _agreement_on_device(u, v, start, ends, Y, y, Py, tied, agreement)
            elif two_labels and len(P) == len(y):
                agreement = _two_label_agreement(u, v, ends, y, Py, tied)
            else:
                given = u, v, start, ends, _huge(Y), y, Py, tied
                _in_columns(_column_agreement, given, agreement)
        out[k] = 0.5 * (1.0 - to_host(agreement) / compared)
    return out


def compared_pairs(labels: Array, units: QueryGroups) -> int:
    """The number of pairs with different labels in the same unit, which must not be 0."""
    names, codes = np.unique(labels, return_inverse=True)
    same = np.unique(units.codes * len(names) + codes, return_counts=True)[1]
    compared = int((units.sizes**2).sum() - (same**2).sum()) // 2
    if compared == 0:
        raise DataError("No pair with different labels was held out. Check the labels and strata.")
    return compared


def _in_order(query: Conditional, units: QueryGroups) -> Conditional:
    """The rows unit by unit."""
    if units.contiguous:
        return query
    on, rows = backend_of(query.target), units.order
    kernel = None if query.kernel is None else on.contiguous(query.kernel[rows][:, rows])
    features = None if query.features is None else query.features[rows]
    return replace(query, target=query.target[rows], kernel=kernel, features=features)


def _huge(Y: Array) -> Array:
    """Labels times a power of two, which keeps different ones different."""
    exponent = int(np.frexp(np.abs(Y[:, 0]).max())[1])
    return np.asarray(Y * 2.0 ** min(HUGE - exponent, 1023))


def _two_label_agreement(
    u: Array, v: Array, ends: Index, y: Array, Py: Array, tied: float
) -> Array:
    """`add_agreement` for two labels, in half the time, from the rows of the rarer label."""
    names, counts = np.unique(y[:, 0], return_counts=True)
    rarer = int(counts[1] <= counts[0])
    own, weights = np.ascontiguousarray(y.T), np.ascontiguousarray(Py.T)
    others, found = np.where(own == names[rarer], np.nan, own), np.zeros(len(own))
    starts = np.searchsorted(ends, ends)
    _in_columns(add_wins, (u, v, starts, ends, own, others, weights, tied), found)
    return found if rarer else -found


def _in_columns(loop: Callable[..., None], arguments: tuple[Any, ...], out: Array) -> None:
    """Threads run a loop on blocks of columns, so that sums do not depend on their number."""
    lows = range(0, len(out), COLUMNS)

    def run(low: int) -> None:
        loop(*arguments, low, min(low + COLUMNS, len(out)), out)

    map_in_threads(run, lows, n_threads())


def _column_agreement(
    u: Array, v: Array, start: int, ends: Index, labels: Array, y: Array, Py: Array, tied: float,
    low: int, high: int, out: Array,
) -> None:  # fmt: skip
    """`add_agreement` for columns low:high, which are copied: slices are slow to compile."""
    labels, y, Py = (np.ascontiguousarray(part[:, low:high]) for part in (labels, y, Py))
    step = tied * 2.0**52  # numbers of about this size are multiples of `tied`
    add_agreement(u, v, start, ends, labels, y, Py, step, out[low:high])


def _agreement_on_device(
    u: Array, v: Array, start: int, ends: Index, labels: Array, y: Array, Py: Array, tied: float,
    out: Array,
) -> None:  # fmt: skip
    """`add_agreement` with array expressions, for one row and some others at a time."""
    on = backend_of(y)
    step = max(1, on.block_bytes(8 * BLOCK_VALUES) // (8 * y.shape[1]))
    for row in range(len(u)):
        i = start + row
        for low in range(i + 1, int(ends[i]), step):
            j = slice(low, min(low + step, int(ends[i])))
            columns = slice(j.start - start, j.stop - start)
            difference = y[i] - u[row, columns, None] * Py[i]
            difference = difference - (y[j] - v[row, columns, None] * Py[j])
            difference = settled(difference, 1.0, tied)
            out += on.xp.sign(difference * (labels[i] - labels[j])).sum(axis=0)


def stacks(problem: HoldOutProblem) -> bool:
    """Whether permutations are held out in stacks: one short ranking with few different labels.

    With few features, a system for each permutation is faster.
    """
    F = problem.coordinates.features
    if F is not None and F.shape[1] < len(problem.y):
        return False
    n_levels = len(np.unique(problem.labels[:, 0]))
    small = len(problem.y) <= MOST_ROWS and n_levels <= MOST_LEVELS
    return problem.groups.n_groups == 1 and small


def stacked_errors(problem: HoldOutProblem, labels: Array, units: QueryGroups) -> Array:
    """As `permuted_errors`, without tied pairs: shape (n_alphas, n_columns of labels).

    P depends on the labels. But permuting the labels is the same as permuting the rows of the
    kernel matrix under labels that stay in place: levels and pairs come from the given labels,
    and the systems of many permutations are one stack of matrices. Raises LinAlgError if rounding
    errors are too large for the inverses.
    """
    check_pairs(problem, 0, Pairs(None, keep_ties=False))
    compared = compared_pairs(labels[:, 0], units)
    query, on = one_ranking(problem, 0), backend_of(problem.y)
    K, n = centred(query.stored_kernel()), len(labels)
    if float(abs(K.diagonal()).max()) == 0.0:
        return np.full((len(problem.alphas), labels.shape[1]), 0.5)
    # The row of each place and permutation: places are sorted by unit and label.
    rows = np.lexsort((labels, np.broadcast_to(units.codes[:, None], labels.shape)), axis=0)
    unit, y = units.codes[rows[:, 0]], labels[rows[:, 0], 0]
    level = np.unique(y, return_inverse=True)[1]
    sizes = np.bincount(level)
    targets = on.array(y - y.mean())[:, None]
    step = max(1, on.block_bytes(STACK_BYTES) // (8 * n**2))
    agreement = np.zeros((len(problem.alphas), labels.shape[1]))
    for p, q in combinations(range(len(sizes)), 2):
        first, second = np.nonzero((unit[:, None] == unit) & (level[:, None] == p) & (level == q))
        left = sizes.copy()
        left[[p, q]] -= 1
        n_pairs = int(left.sum() ** 2 - (left**2).sum()) // 2
        if len(first) == 0 or n_pairs == 0:  # without a pair to learn from, predictions are tied
            continue
        weight = query.weight * problem.loss.weight(n - 2, n_pairs)
        for start in range(0, labels.shape[1], step):
            part = slice(start, start + step)
            here = on.index(rows[:, part].T)
            stack = K[here[:, :, None], here[:, None, :]]
            for a, lam in enumerate(problem.lams):
                f = _stacked_differences(
                    stack, Laplacian.of_levels(level, left), lam / weight, targets, first, second
                )
                if not on.is_finite(f):
                    raise lost_in_rounding()
                # The label of `first` is the smaller one.
                agreement[a, part] += to_host(-on.xp.sign(f).sum(axis=1))
    return np.asarray(0.5 * (1.0 - agreement / compared))


def _stacked_differences(
    K: Array, laplacian: Laplacian, lam: float, y: Array, first: Index, second: Index
) -> Array:
    """f(first) - f(second) without both, of rows of two levels: shape (n_stack, n_pairs).

    K is a stack of centred kernel matrices; see `DenseP` and (ii) of pair_systems.py.
    """
    on, (b, m) = backend_of(K), K.shape[:2]
    level, d = laplacian.level, laplacian.diagonal
    same = level[:, None] == level
    inverse_D = np.diag(1.0 / d) - same / (d * laplacian.n_left)
    trace = float(K[0].diagonal().sum())
    G = on.xp.linalg.inv(K + on.array(lam * inverse_D + (trace / m + lam / d.min()) / m))
    error = EPS * trace * float(G.diagonal(0, 1, 2).max())
    if not error < UNRELIABLE:
        raise np.linalg.LinAlgError("ill-conditioned")
    sums = G.sum(axis=1)
    P = lam * (G - sums[:, :, None] * (sums / sums.sum(axis=1)[:, None])[:, None])
    Py = P @ y

    def over_level(values: Array, rows: Index) -> Array:
        """Sums over the level of these rows, divided by d n_left."""
        p = level[rows[0]]
        sums: Array = values[:, level == p].sum(axis=1)
        return sums / float(laplacian.degrees[p] * laplacian.n_left)

    S = over_level(P, first) - over_level(P, second)
    f = on.copy(y[None] + 0.0 * Py)
    for rows in (first, second):
        f[:, level == level[rows[0]]] += over_level(Py, rows)[:, None]

    def flat(values: Array) -> Array:
        return on.contiguous(values.reshape(b * m, -1))

    offset = m * np.arange(b)[:, None]
    found = listed_differences(
        on.contiguous(P[:, first, second].reshape(-1)),
        flat(P.diagonal(0, 1, 2))[:, 0],
        flat(f),
        flat(Py),
        (offset + first).ravel(),
        (offset + second).ravel(),
        (1.0 + S[:, first].reshape(-1), 1.0 - S[:, second].reshape(-1)),
        max(TIED, error / 4),
    )
    return found.reshape(b, len(first))


# Compiled loops: signs of held-out differences.


@inlined
def _clipped(value: float) -> float:
    value = value if value < 1.0 else 1.0
    return value if value > -1.0 else -1.0


@partial(compiled, fastmath={"contract"})
def add_agreement(
    u: Array,
    v: Array,
    start: int,
    ends: Index,
    labels: Array,
    y: Array,
    Py: Array,
    step: float,
    agreement: Array,
) -> None:
    """Add pairs in the right order minus pairs in the wrong order, for each column.

    Row k of `u` and `v` belongs to row i = start + k of the data, and column j - start to a row
    j > i, which is compared with i if j < ends[i]. Without both rows, f_i - f_j is
    (y_i - u (P y)_i) - (y_j - v (P y)_j). The `labels` are y times a huge number: the product of
    differences, clipped to [-1, 1], is its sign, without a branch. Adding `step` and taking it off
    rounds differences, so that rounding errors become 0.
    """
    for row in range(len(u)):
        i = start + row
        l0, y0, Py0 = labels[i], y[i], Py[i]
        for j in range(i + 1, ends[i]):
            l1, y1, Py1 = labels[j], y[j], Py[j]
            u0, v0 = u[row, j - start], v[row, j - start]
            for c in range(len(agreement)):
                difference = (y0[c] - u0 * Py0[c]) - (y1[c] - v0 * Py1[c])
                difference = (difference + step) - step
                agreement[c] += _clipped(difference * (l0[c] - l1[c]))


@partial(compiled, fastmath={"contract"})
def _ahead(y_i: float, Py_i: float, u: Array, v: Array, y: Array, Py: Array, tied: float) -> int:
    """How many rows are behind row i, minus how many are ahead of it, by more than `tied`."""
    total = 0
    for j in range(len(u)):
        difference = ((y_i - y[j]) - u[j] * Py_i) + v[j] * Py[j]
        total += int(difference > tied) - int(difference < -tied)
    return total


@partial(compiled, fastmath={"contract"})
def add_wins(
    u: Array,
    v: Array,
    starts: Index,
    ends: Index,
    own: Array,
    others: Array,
    Py: Array,
    tied: float,
    low: int,
    high: int,
    agreement: Array,
) -> None:
    """`add_agreement` for two labels and all rows, from the rows of one label.

    Arrays have a row for each permutation. The scores `others` are NaN for rows of that label, so
    that they do not count: a branch would keep the loop from being vectorized.
    """
    for start in range(low, high, 8):  # rows of u and v stay in the cache for eight permutations
        for i in range(len(ends)):
            there = slice(starts[i], ends[i])
            u_i, v_i = u[i, there], v[i, there]
            for c in range(start, min(start + 8, high)):
                if np.isnan(others[c, i]):
                    scores, weights = others[c, there], Py[c, there]
                    mine = own[c, i], Py[c, i]
                    agreement[c] += _ahead(*mine, u_i, v_i, scores, weights, tied)
