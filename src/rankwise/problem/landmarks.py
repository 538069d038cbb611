"""Landmarks, and how they are chosen among training rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array

from rankwise.backends.arrays import Array, Index, is_sparse, is_tensor, to_host
from rankwise.backends.dispatch import Backend, as_given, backend_of
from rankwise.errors import DataError, ParameterError
from rankwise.graph import QueryGroups
from rankwise.graph.id_arrays import join_ids
from rankwise.kernels import Kernel, Precomputed
from rankwise.kernels.products import check_precomputed, has_own_parts, training_kernel
from rankwise.kernels.sampling import (
    leverage_rows,
    pivoted_cholesky_rows,
    random_rows,
    stratified_rows,
)
from rankwise.parameters import Choice, Whole, check_value

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
    """Points, and their row indices in the training data (None if they are other points)."""

    points: Any
    rows: Index | None

    def kernel_matrix(self, kernel: Kernel, on: Backend) -> Array:
        """The kernel matrix of the points, on a backend."""
        points = self.points[:, self.rows] if isinstance(kernel, Precomputed) else self.points
        return training_kernel(kernel, points if on.is_host else on.array(points))


@dataclass(frozen=True)
class LandmarkChoice:
    """The parameters `landmarks` and `n_landmarks`, checked: a method, row numbers or points."""

    method: str | None
    number: int | None
    rows: Index | None
    points: Any
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
            return cls(landmarks, number, None, None)
        rows: Index | None = None
        points: Any = None
        landmarks = to_host(landmarks)
        if is_sparse(landmarks) or np.ndim(landmarks) == 2:
            points = _check_points(landmarks)
        else:
            rows = _check_row_numbers(landmarks)
        n_given = len(rows) if rows is not None else points.shape[0]
        if n_landmarks is not None and n_landmarks != n_given:
            raise ParameterError(
                f"{n_given} landmarks are given, but n_landmarks={n_landmarks}: omit n_landmarks."
            )
        return cls(None, n_given, rows, points)

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
        """The same choice among a part of the rows, given by ascending row numbers."""
        if self.rows is not None:
            check_in_range(self.rows, n_rows)
            rows = np.searchsorted(part, self.rows[np.isin(self.rows, part)])
            if len(rows) == 0:
                raise DataError("None of the landmarks is among these rows.")
            return LandmarkChoice(None, len(rows), rows, None)
        if self.points is not None or self.number is None:
            return self
        return LandmarkChoice(self.method, min(self._number(n_rows), len(part)), None, None)

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
            return _rows_of_blocks(self.rows, (X for X, _ in blocks))
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


def _rows_of_blocks(rows: Index, blocks: Iterable[Any]) -> Landmarks:
    """Rows by their numbers, counted over all blocks."""
    order = np.argsort(rows, kind="stable")
    ascending, parts, n_rows = rows[order], [], 0
    for X in blocks:
        first, last = np.searchsorted(ascending, (n_rows, n_rows + X.shape[0]))
        if last > first:
            parts.append(X[ascending[first:last] - n_rows])
        n_rows += X.shape[0]
    check_in_range(rows, n_rows)
    return Landmarks(stacked(parts)[np.argsort(order)], rows)


def stacked(parts: list[Any]) -> Any:
    if any(is_sparse(part) for part in parts):
        return sp.vstack([sp.csr_array(part) for part in parts], format="csr")
    return backend_of(parts[0]).xp.concatenate(parts)


def _candidates(n_rows: int, n: int, rng: np.random.Generator) -> Index | None:
    """The rows from which an expensive method chooses; None for all rows."""
    size = max(CANDIDATES * n, LEAST_CANDIDATES)
    return None if n_rows <= size else random_rows(n_rows, size, rng)


def _cluster_centres(X: Any, n: int, kernel: Kernel, rng: np.random.Generator) -> Array:
    if isinstance(kernel, Precomputed):
        raise ParameterError(
            'landmarks="kmeans" needs features, but kernel="precomputed" has none. Use '
            '"rpcholesky" or "leverage".'
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
