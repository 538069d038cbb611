"""Landmarks: a few rows whose kernel functions represent all others, and how they are chosen.

With landmarks R, a function is a sum of kernel functions at these rows alone. The error is
measured by the residual of the Nystroem approximation,

    K - K_MR K_RR^-1 K_RM.

`pivoted_cholesky_rows` and `leverage_rows` choose rows that make its trace small.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array

from rankwise.backends.arrays import (
    EPS,
    Array,
    Backend,
    Index,
    as_given,
    backend_of,
    is_sparse,
    is_tensor,
    to_host,
)
from rankwise.errors import DataError, ParameterError
from rankwise.graph import QueryGroups
from rankwise.graph.query_groups import join_ids
from rankwise.kernels import (
    Kernel,
    Precomputed,
    check_precomputed,
    has_features,
    has_own_parts,
    kernel_diagonal,
    kernel_values,
    training_kernel,
)
from rankwise.parameters import Choice, Whole, check_value

BLOCK_BYTES = 32 * 2**20  # of kernel values in memory at a time
BATCH = 64  # rows proposed at a time in randomly pivoted Cholesky
EXHAUSTED = 1e-13  # a smaller share of the trace is rounding error


def landmark_points(kernel: Kernel, X: Any, rows: Index) -> Any:
    """The second argument of the kernel that represents these rows of X."""
    return rows if isinstance(kernel, Precomputed) else X[rows]


def random_rows(n_rows: int, n: int, rng: np.random.Generator) -> Index:
    """Random rows without replacement, ascending."""
    return np.sort(rng.choice(n_rows, n, replace=False)).astype(np.intp)


def stratified_rows(codes: Index, n: int, rng: np.random.Generator) -> Index:
    """Random rows, spread over queries as evenly as their sizes allow, ascending.

    `codes` is the query of each row. Queries take turns in a random order, one row at a time,
    until there are n rows.
    """
    shuffled = rng.permutation(len(codes))
    by_query = shuffled[np.argsort(codes[shuffled], kind="stable")]
    sizes = np.bincount(codes)
    position = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    turn = np.repeat(rng.permutation(len(sizes)), sizes)
    return np.sort(by_query[np.lexsort((turn, position))[:n]]).astype(np.intp)


def pivoted_cholesky_rows(kernel: Kernel, X: Any, n: int, rng: np.random.Generator) -> Index:
    """Rows by randomly pivoted Cholesky, ascending.

    Each row is drawn with probability proportional to its diagonal entry of the residual, given
    the rows before it. Rows are proposed in batches, and each is accepted with the probability
    that corrects for the rows accepted before it; the distribution is the same as for single draws.
    Returns fewer than n rows if the rank of the kernel matrix is lower. O(m n^2) time and O(m n)
    memory for m rows.

    References
    ----------
    Chen, Epperly, Tropp, Webber: Randomly pivoted Cholesky: practical approximation of a kernel
    matrix with few entry evaluations. Communications on Pure and Applied Mathematics 78, 2025;
    batches as in Epperly, Tropp, Webber: Embrace rejection, 2024.
    """
    on = backend_of(X)
    residual = _diagonal(kernel, X)
    floor = EXHAUSTED * residual.sum()
    F = on.empty(n, len(residual)).T  # column-major
    chosen: list[int] = []
    while len(chosen) < n and residual.sum() > floor:
        k = len(chosen)
        drawn = rng.choice(len(residual), min(BATCH, n), p=residual / residual.sum())
        drawn = drawn.astype(np.intp)
        G = to_host(_values(kernel, X[drawn], landmark_points(kernel, X, drawn)))
        before = F[drawn, :k]
        G -= to_host(before @ before.T)
        accepted = _accept(G, rng)[: n - k]
        if not accepted:  # only rounding error is left of these rows
            residual[drawn] = 0.0
            continue
        rows = drawn[accepted]
        part = _values(kernel, X, landmark_points(kernel, X, rows))
        part -= on.matmul(F[:, :k], F[rows, :k].T)
        factor = np.linalg.cholesky(_lifted(G[np.ix_(accepted, accepted)]))
        block = on.solve_triangular(on.array(factor), part.T).T
        F[:, k : k + len(rows)] = block
        chosen.extend(rows.tolist())
        squares = to_host(on.xp.einsum("ij,ij->i", block, block))
        residual = np.maximum(residual - squares, 0.0)
        residual[chosen] = 0.0
    return np.sort(np.array(chosen, dtype=np.intp))


def leverage_rows(kernel: Kernel, X: Any, n: int, rng: np.random.Generator) -> Index:
    """Rows drawn with probability proportional to their ridge leverage scores, ascending.

    With S a random sample of n rows and mu the trace of its residual over n,

        score_i = (k_ii - k_iS (K_SS + mu I)^-1 k_Si) / mu

    estimates the part of row i that is linearly independent of the other rows. O(m n^2 + n^3)
    time; memory for a few n by n matrices and 64 MiB.

    References
    ----------
    Musco, Musco: Recursive sampling for the Nystroem method. NIPS 2017; one level
    of the recursion.
    """
    on, diagonal = backend_of(X), _diagonal(kernel, X)
    sample = random_rows(len(diagonal), n, rng)
    points = landmark_points(kernel, X, sample)
    s, V = on.eigh(_values(kernel, X[sample], points))
    used = s > 1e-12 * s.max()  # neither rounding error nor negative, if the kernel is indefinite
    s, half = s[used], on.contiguous(V[:, used] / on.xp.sqrt(s[used]))
    rest = diagonal - _squared_products(kernel, X, points, half)
    mu = max(float(rest.sum()) / n, 1e-10 * float(s.sum()))
    explained = _squared_products(kernel, X, points, half * on.xp.sqrt(s / (s + mu)))
    score = np.maximum(diagonal - explained, 1e-12 * mu)
    return np.sort(rng.choice(len(score), n, replace=False, p=score / score.sum())).astype(np.intp)


def _diagonal(kernel: Kernel, X: Any) -> Array:
    """k(x, x) of each row; negative values, of an indefinite kernel, count as 0."""
    with np.errstate(over="ignore", invalid="ignore"):  # see the error below
        diagonal: Array = np.maximum(to_host(kernel_diagonal(kernel, X)), 0.0)
    if not np.isfinite(diagonal).all():
        row = int(np.argmin(np.isfinite(diagonal)))
        raise DataError(
            f"The kernel of row {row} with itself is not finite. Scale the features, or lower "
            "gamma or degree."
        )
    if diagonal.max() <= 0.0:
        raise DataError(
            "The kernel of every row with itself is 0 or less, so no row can be a landmark. "
            "Check the features and the kernel."
        )
    return diagonal


def _accept(G: Array, rng: np.random.Generator) -> list[int]:
    """The accepted proposals, each given the previous ones; G is their residual kernel."""
    G, first = G.copy(), np.diagonal(G).copy()
    accepted = []
    for i, chance in enumerate(rng.random(len(G))):
        if G[i, i] > chance * first[i] and G[i, i] > EXHAUSTED * first[i]:
            accepted.append(i)
            G -= np.outer(G[:, i], G[i] / G[i, i])
    return accepted


def _lifted(G: Array) -> Array:
    """G plus the size of its rounding error on the diagonal, so that it has a Cholesky factor."""
    return np.asarray(G + 4 * len(G) * EPS * np.trace(G) * np.eye(len(G)))


def _squared_products(kernel: Kernel, X: Any, points: Any, V: Array) -> Array:
    """|k_iS V|^2 for each row i, block by block."""
    n_rows, on = X.shape[0], backend_of(X)
    out, step = np.empty(n_rows), max(1, on.block_bytes(BLOCK_BYTES) // (8 * len(V)))
    for start in range(0, n_rows, step):
        rows = slice(start, min(start + step, n_rows))
        U = on.matmul(_values(kernel, X[rows], points), V)
        out[rows] = to_host(on.xp.einsum("ij,ij->i", U, U))
    return out


def _values(kernel: Kernel, X: Any, points: Any) -> Array:
    """k(X, points) as a new float64 array, whatever the kernel returns."""
    on = backend_of(X)
    return on.copy(on.array(kernel_values(kernel, X, points)))


METHODS = ("random", "stratified", "kmeans", "rpcholesky", "leverage")
DEFAULT_NUMBER = 1000
CANDIDATES = 20  # rows per landmark from which the expensive methods choose
LEAST_CANDIDATES = 10_000
LARGEST = 1e150  # its square does not overflow
MOST = 10**6  # landmarks; the kernel matrix of more would need terabytes


def check_for_landmarks(kernel: Any) -> None:
    """Refuse a kernel whose values at all rows do not follow from its values at landmarks."""
    if has_own_parts(kernel):
        raise ParameterError(
            "WhiteKernel gives each row a separate part, which does not follow from scores at "
            "landmarks: use a model without landmarks (RankRLS, or n_landmarks=None and "
            f"landmarks=None), or a kernel without WhiteKernel. The kernel is {kernel}."
        )


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Points, and their row indices in the training data (None if they are other points).

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.backends.arrays import NUMPY
    >>> from rankwise.kernels import NamedKernel
    >>> from rankwise.problem import Landmarks
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> Landmarks(X[[0, 2]], np.array([0, 2])).kernel_matrix(NamedKernel("linear"), NUMPY)
    array([[0., 0.],
           [0., 4.]])
    """

    points: Any
    rows: Index | None

    @classmethod
    def of_parts(cls, parts: list[tuple[Any, Index]], wanted: Index) -> Landmarks:
        """The rows with these numbers, from rows and their numbers in any order."""
        numbers = np.concatenate([part[1] for part in parts])
        order = np.argsort(numbers)
        places = order[np.searchsorted(numbers[order], wanted)]
        return cls(stacked([part[0] for part in parts])[places], wanted)

    def kernel_matrix(self, kernel: Kernel, on: Backend) -> Array:
        """The kernel matrix of the points, on a backend."""
        points = self.points[:, self.rows] if isinstance(kernel, Precomputed) else self.points
        return training_kernel(kernel, points if on.is_host else on.array(points))


@dataclass(frozen=True)
class LandmarkChoice:
    """The parameters `landmarks` and `n_landmarks`, checked: a method, row numbers or points."""

    method: str | None
    number: int | None
    rows: Index | None = None
    points: Any = None
    kept: Index | None = None  # numbers of the rows, if some of the user's rows are left out

    @classmethod
    def of(cls, landmarks: Any, n_landmarks: Any, names: Any = None) -> LandmarkChoice:
        """Check the parameters; columns of a data frame must be `names`, where these are known."""
        columns = getattr(landmarks, "columns", None)
        if names is not None and columns is not None and list(columns) != list(names):
            raise DataError(
                "landmarks must have the columns of X, in the same order "
                f"({', '.join(names)}): got {', '.join(map(str, columns))}."
            )
        if n_landmarks is not None:
            check_value("n_landmarks", n_landmarks, Whole(1, MOST))
        if isinstance(landmarks, str):
            check_value("landmarks", landmarks, Choice(*METHODS))
            number = None if n_landmarks is None else int(n_landmarks)
            return cls(landmarks, number)
        landmarks = to_host(landmarks)
        has_points = is_sparse(landmarks) or np.ndim(landmarks) == 2
        given = _check_points(landmarks) if has_points else _check_row_numbers(landmarks)
        n_given = given.shape[0]
        if n_landmarks is not None and n_landmarks != n_given:
            raise ParameterError(
                f"{n_given} landmarks are given, but n_landmarks={n_landmarks}: omit n_landmarks."
            )
        return cls(None, n_given, points=given) if has_points else cls(None, n_given, given)

    def among(self, X: Any, qid: Any, kernel: Kernel, rng: np.random.Generator) -> Landmarks:
        """Landmarks for training rows X."""
        if isinstance(kernel, Precomputed):
            check_precomputed(X)
        if self.points is not None:
            given = self.given_points(X.shape[1], kernel)
            return Landmarks(backend_of(X).array(given.points), None) if is_tensor(X) else given
        n_rows = X.shape[0]
        if self.rows is not None:
            check_in_range(self.rows, n_rows)
            return self._numbered(X, self.rows)
        n = self._number(n_rows)
        if self.method == "random":
            rows = random_rows(n_rows, n, rng)
        elif self.method == "stratified":
            rows = stratified_rows(QueryGroups.of(qid, n_rows).codes, n, rng)
        else:
            candidates = _candidates(n_rows, n, rng)
            sample = X if candidates is None else X[candidates]
            if abs(as_given(sample)).max() > LARGEST:
                raise DataError(
                    f"Products of values above {LARGEST:g} overflow. Scale the features, for "
                    "example with sklearn.preprocessing.StandardScaler."
                )
            if self.method == "kmeans":
                centres = _cluster_centres(to_host(sample), n, kernel, rng)
                return Landmarks(backend_of(X).array(centres) if is_tensor(X) else centres, None)
            if isinstance(kernel, Precomputed) and candidates is not None:
                sample = sample[:, candidates]
            choose = pivoted_cholesky_rows if self.method == "rpcholesky" else leverage_rows
            rows = choose(kernel, sample, n, rng)
            rows = rows if candidates is None else candidates[rows]
        return self._numbered(X, rows)

    def _numbered(self, X: Any, rows: Index) -> Landmarks:
        return Landmarks(as_given(X)[rows], rows if self.kept is None else self.kept[rows])

    def for_part(self, part: Index, n_rows: int) -> LandmarkChoice:
        """The same choice among a part of the rows, given by row numbers."""
        if self.rows is not None:
            check_in_range(self.rows, n_rows)
            place = np.full(n_rows, -1)
            place[part] = np.arange(len(part))
            rows = place[self.rows][place[self.rows] >= 0]
            if len(rows) == 0:
                raise DataError("There is no landmark among these rows: use more landmarks.")
            return LandmarkChoice(None, len(rows), rows)
        if self.points is not None or self.number is None:
            return self
        return LandmarkChoice(self.method, min(self._number(n_rows), len(part)))

    def for_rows(self, rows: Index, n_rows: int) -> LandmarkChoice:
        """The same choice among some of n_rows rows, with ascending numbers, which it reports."""
        if len(rows) == n_rows:
            return self
        chosen = self.rows
        if chosen is not None:
            check_in_range(chosen, n_rows)
            left_out = ~np.isin(chosen, rows)
            if left_out.any():
                k = int(np.argmax(left_out))
                raise DataError(
                    f"landmarks[{k}] = {chosen[k]} is a row with sample_weight 0, which is left "
                    "out: choose landmarks among the other rows, or pass them as points."
                )
            chosen = np.searchsorted(rows, chosen)
        return replace(self, rows=chosen, kept=rows)

    def among_blocks(
        self, blocks: Iterable[tuple[Any, Any]], kernel: Kernel, rng: np.random.Generator
    ) -> Landmarks:
        """Landmarks for training rows that come in blocks (X, qid): one pass.

        Methods other than "random" choose among a random sample of the rows.
        """
        if self.rows is not None:
            parts, n_rows = [], 0
            for X, _ in blocks:
                numbers = np.arange(n_rows, n_rows + X.shape[0])
                parts.append(rows_with(self.rows, X, numbers))
                n_rows += X.shape[0]
            check_in_range(self.rows, n_rows)
            return Landmarks.of_parts(parts, self.rows)
        reservoir = Reservoir(self.sample_size(), rng)
        for X, qid in blocks:
            reservoir.add(X, qid)
        return self.among_sample(reservoir, kernel, rng)

    def sample_size(self) -> int:
        """The number of rows to sample if rows come in blocks."""
        wanted = self.number or DEFAULT_NUMBER
        return wanted if self.method == "random" else max(CANDIDATES * wanted, LEAST_CANDIDATES)

    def among_sample(
        self, reservoir: Reservoir, kernel: Kernel, rng: np.random.Generator
    ) -> Landmarks:
        """Landmarks among the rows of a sample."""
        self._number(reservoir.n_rows)  # raises an error if there are too few rows
        rows, X, qid = reservoir.sample()
        chosen = self.among(X, qid, kernel, rng)
        return Landmarks(chosen.points, None if chosen.rows is None else rows[chosen.rows])

    def given_points(self, n_features: int, kernel: Kernel) -> Landmarks:
        if isinstance(kernel, Precomputed):
            raise ParameterError(
                'With kernel="precomputed" rows have no features: pass landmarks as row numbers, '
                "or as the name of a method."
            )
        if self.points.shape[1] != n_features:
            raise DataError(
                f"landmarks has points with {self.points.shape[1]} features, but X has "
                f"{n_features}."
            )
        return Landmarks(self.points, None)

    def _number(self, n_rows: int) -> int:
        if self.number is None:
            return min(DEFAULT_NUMBER, n_rows)
        if self.number > n_rows:
            raise ParameterError(
                f"n_landmarks={self.number} is more than the {n_rows} rows to choose from. Use "
                "fewer landmarks, pass points as landmarks, or pass more rows (in partial_fit, in "
                "the first call)."
            )
        return self.number


class Reservoir:
    """A uniform random sample of rows that come in blocks.

    Every row draws a random key, and the rows with the smallest keys are kept. Candidates are
    collected until they are a quarter of the sample, so that small blocks cost little.
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self._size = size
        self._rng = rng
        self._largest_key = np.inf  # rows with larger keys are not kept
        self._parts: list[tuple[Array, Index, Any, Any]] = []
        self._n_waiting = 0
        self.n_rows = 0

    def add(self, X: Any, qid: Any) -> None:
        """Add a block of rows to the population."""
        keys = self._rng.random(X.shape[0])
        new = np.flatnonzero(keys < self._largest_key)
        ids = np.zeros(X.shape[0], dtype=np.intp) if qid is None else qid
        if len(new):
            self._parts.append((keys[new], self.n_rows + new, X[new], ids[new]))
        self.n_rows += X.shape[0]
        self._n_waiting += len(new)
        if self._n_waiting > self._size // 4:
            self._trim()

    def join(self, other: Reservoir) -> None:
        """Add the sample of rows that come after these."""
        for keys, rows, X, ids in other._parts:
            self._parts.append((keys, self.n_rows + rows, X, ids))
        self.n_rows += other.n_rows
        self._trim()

    def sample(self) -> tuple[Index, Any, Any]:
        """The row numbers of the sample, its rows, and their query ids."""
        self._trim()
        _, rows, X, ids = self._parts[0]
        return rows, X, ids

    def _trim(self) -> None:
        keys, rows = (np.concatenate([part[k] for part in self._parts]) for k in (0, 1))
        ids = join_ids([part[3] for part in self._parts])
        X = stacked([part[2] for part in self._parts])
        if len(keys) > self._size:
            kept = np.sort(np.argpartition(keys, self._size)[: self._size])
            keys, rows, X, ids = keys[kept], rows[kept], X[kept], ids[kept]
        if len(keys) == self._size:
            self._largest_key = float(keys.max())
        self._parts, self._n_waiting = [(keys, rows.astype(np.intp), X, ids)], 0


def rows_with(wanted: Index, X: Any, numbers: Index) -> tuple[Any, Index]:
    """The rows of a block whose numbers are wanted, and these numbers."""
    here = np.flatnonzero(np.isin(numbers, wanted))
    return X[here], numbers[here]


def stacked(parts: list[Any]) -> Any:
    if any(is_sparse(part) for part in parts):
        return sp.vstack([sp.csr_array(part) for part in parts], format="csr")
    return backend_of(parts[0]).xp.concatenate(parts)


def _candidates(n_rows: int, n: int, rng: np.random.Generator) -> Index | None:
    """The rows from which an expensive method chooses; None for all rows."""
    size = max(CANDIDATES * n, LEAST_CANDIDATES)
    return None if n_rows <= size else random_rows(n_rows, size, rng)


def _cluster_centres(X: Any, n: int, kernel: Kernel, rng: np.random.Generator) -> Array:
    if not has_features(kernel):
        raise ParameterError(
            'landmarks="kmeans" needs features, but kernel="precomputed" and kernels of graphs '
            'have none. Use "rpcholesky" or "leverage".'
        )
    from sklearn.cluster import MiniBatchKMeans  # imported late: it takes a while

    clusters = MiniBatchKMeans(
        n, batch_size=max(1024, 2 * n), n_init=1, random_state=int(rng.integers(2**31))
    )
    with warnings.catch_warnings():
        # Raised if there are fewer distinct rows than clusters, which `rank_` shows.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(clusters.fit(X).cluster_centers_)


def _check_points(points: Any) -> Any:
    return check_array(
        points, accept_sparse="csr", dtype=(np.float64, np.float32), input_name="landmarks"
    )


def _check_row_numbers(landmarks: Any) -> Index:
    rows = np.asarray(landmarks)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or len(rows) == 0:
        raise ParameterError(
            f"landmarks must be one of {', '.join(METHODS)}, a list of row numbers, or an array of "
            f"points with one row each: got {landmarks!r}."
        )
    return rows.astype(np.intp)


def check_in_range(rows: Index, n_rows: int) -> None:
    outside = (rows < 0) | (rows >= n_rows)
    if outside.any():
        k = int(np.argmax(outside))
        raise ParameterError(
            f"landmarks[{k}] = {rows[k]} is not a row of X, whose rows are 0 to {n_rows - 1}."
        )
