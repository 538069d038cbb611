"""Range, mean and variance of every feature, from one pass over the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, is_sparse, to_host
from rankwise.backends.dispatch import as_given, backend_of

BLOCK_BYTES = 2**21  # of rows at a time, which stay in cache for the second look at them


@dataclass(frozen=True, eq=False)
class ColumnStatistics:
    """Range, mean and sum of squared deviations of every feature; adds over blocks of rows.

    Zeros of sparse rows that are not stored count as values. If rows have weights, `n_rows` is the
    sum of these.

    Examples
    --------
    >>> import numpy as np
    >>> halves = [ColumnStatistics.of(np.array(rows)) for rows in ([[1.0], [3.0]], [[5.0]])]
    >>> both = halves[0] + halves[1]
    >>> both.n_rows, both.mean, both.deviation.round(3)
    (3, array([3.]), array([1.633]))
    """

    n_rows: float
    low: Array
    high: Array
    mean: Array
    squares: Array

    @classmethod
    def of(cls, X: Any, weights: Array | None = None) -> ColumnStatistics:
        """The statistics of at least one row, as NumPy arrays; rows may have weights."""
        X = as_given(X)
        if is_sparse(X):
            return cls._of_sparse(X.tocsr(), weights)
        on = backend_of(X)
        step = max(1, on.block_bytes(BLOCK_BYTES) // (8 * max(X.shape[1], 1)))
        found = None
        for start in range(0, X.shape[0], step):
            block = on.rows(X, slice(start, start + step))
            n: float = len(block)
            with np.errstate(over="ignore", invalid="ignore"):
                if weights is None:
                    mean = block.mean(axis=0)
                    squares = ((block - mean) ** 2).sum(axis=0)
                else:
                    of_rows = on.array(weights[start : start + step])
                    n = float(of_rows.sum())
                    mean = (of_rows / n) @ block
                    squares = of_rows @ (block - mean) ** 2
            parts = (on.xp.amin(block, axis=0), on.xp.amax(block, axis=0), mean, squares)
            here = cls(n, *(np.asarray(to_host(part)) for part in parts))
            found = here if found is None else found + here
        assert found is not None
        return found

    @classmethod
    def _of_sparse(cls, X: Any, weights: Array | None) -> ColumnStatistics:
        d, of_rows = X.shape[1], np.ones(X.shape[0]) if weights is None else weights
        n, of_entry = float(of_rows.sum()), np.repeat(of_rows, np.diff(X.indptr))
        low, high = (
            np.asarray(part.toarray(), dtype=np.float64).ravel()
            for part in (X.min(axis=0), X.max(axis=0))
        )
        stored = np.bincount(X.indices, weights=of_entry, minlength=d)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.bincount(X.indices, weights=of_entry * X.data, minlength=d) / n
            deviations = of_entry * (X.data - mean[X.indices]) ** 2
            squares = np.bincount(X.indices, weights=deviations, minlength=d)
            return cls(n, low, high, mean, squares + (n - stored) * mean**2)

    def __add__(self, other: ColumnStatistics) -> ColumnStatistics:
        n = self.n_rows + other.n_rows
        with np.errstate(over="ignore", invalid="ignore"):
            gap = other.mean - self.mean
            mean = self.mean + gap * (other.n_rows / n)
            between = gap**2 * (self.n_rows * other.n_rows / n)
            squares = self.squares + other.squares + between
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return ColumnStatistics(n, low, high, mean, squares)

    @staticmethod
    def without_each(parts: Sequence[ColumnStatistics]) -> Iterator[ColumnStatistics]:
        """The statistics of all parts but one, for each of at least two parts.

        They are sums of what comes before and after. Nothing is subtracted, so a part with
        outliers takes no digits from the statistics without it.

        Examples
        --------
        >>> import numpy as np
        >>> parts = [ColumnStatistics.of(np.array(x)) for x in ([[1.0]], [[3.0]], [[1e9]])]
        >>> [float(rest.deviation[0]) for rest in ColumnStatistics.without_each(parts)][-1]
        1.0
        """
        after = list(accumulate(reversed(parts[1:]), add))[::-1]
        yield after[0]
        before = parts[0]
        for part, rest in zip(parts[1:], after[1:], strict=False):
            yield before + rest
            before = before + part
        yield before

    def transformed(self, shift: Array, divisor: Array) -> ColumnStatistics:
        """The statistics of ``(X - shift) / divisor``."""
        low, high, mean = (
            (values - shift) / divisor for values in (self.low, self.high, self.mean)
        )
        return ColumnStatistics(self.n_rows, low, high, mean, self.squares / divisor**2)

    @property
    def constant(self) -> Any:
        """Which features have a single value."""
        return self.low == self.high

    @property
    def deviation(self) -> Array:
        """Standard deviation of each feature; exactly 0 where it is constant."""
        return np.where(self.constant, 0.0, np.sqrt(self.squares / self.n_rows))

    @property
    def variance(self) -> float:
        """The variance of all values together, ``X.var()``."""
        between = self.n_rows * (self.mean - self.mean.mean()) ** 2
        return float((self.squares + between).sum() / (self.n_rows * len(self.mean)))
