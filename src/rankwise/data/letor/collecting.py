"""Collect parsed blocks of a LETOR file into one matrix and one column of query ids.

Arrays grow in place (NumPy's `resize` calls `realloc`, which on Linux moves pages, not bytes), so
that no result is ever held twice.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankwise.data.letor.parsing import TEXT_QID, copy_tokens
from rankwise.data.letor.text_blocks import TextBlock

Layout = Literal["auto", "dense", "sparse"]
Float = np.float32 | np.float64
Scalar = TypeVar("Scalar", bound=np.generic)

DENSE_FILL = 1 / 3
"""From this share of written cells on, "auto" is dense: at most twice the memory of CSR, which
takes 12 bytes per cell instead of 8, and products run at BLAS speed."""

_LEAST_GROWTH, _MOST_GROWTH = 1 << 16, 1 << 25
_ROWS_AT_A_TIME = 4096


class GrowingArray(Generic[Scalar]):
    """A one-dimensional array that grows at its end."""

    def __init__(self, dtype: type[Scalar]) -> None:
        self._array: NDArray[Scalar] = np.empty(0, dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def reserve(self, n: int) -> None:
        """Allocate room for about `n` entries at once, which is cheaper than growing."""
        with suppress(MemoryError):  # an estimate may be far too large
            self._array = np.empty(n, self._array.dtype)

    def extend(self, n: int) -> NDArray[Scalar]:
        """A view of `n` new entries, valid until the next call."""
        size = self._size + n
        if size > len(self._array):
            spare = min(max(self._array.nbytes // 4, _LEAST_GROWTH), _MOST_GROWTH)
            self._array.resize(size + spare // self._array.itemsize, refcheck=False)
        added = self._array[self._size : size]
        self._size = size
        return added

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end."""
        self.extend(len(values))[:] = values

    def whole(self) -> NDArray[Scalar]:
        """A view of all entries so far, valid until the next call."""
        return self._array[: self._size]

    def finish(self) -> NDArray[Scalar]:
        """The array at its true size; this object must not be used afterwards."""
        self._array.resize(self._size, refcheck=False)
        return self._array


class FeatureMatrix:
    """Rows of features, dense or CSR: as requested, or by the share of written cells.

    `n_bytes` is the size of the text that all rows together take, if known: it tells how much
    memory to allocate at first.
    """

    def __init__(
        self, layout: Layout, n_features: int | None, dtype: type[Float], n_bytes: int = 0
    ) -> None:
        self._layout = layout
        self._n_bytes = n_bytes
        self._dtype = dtype
        self._fixed_width = n_features
        self._width = n_features or 0
        self._n_rows = self._n_pairs = 0
        self._is_dense = layout != "sparse"
        self._cells: GrowingArray[Any] = GrowingArray(dtype)  # dense: row after row
        self._values: GrowingArray[Any] = GrowingArray(dtype)  # CSR
        self._indices = GrowingArray(np.int32)
        self._row_sizes = GrowingArray(np.int64)

    def append(self, block: TextBlock) -> None:
        """Add the rows of a block."""
        n = block.n_rows
        indptr, indices, values = block.rows.indptr, block.rows.indices, block.rows.values
        width = self._fixed_width or max(self._width, block.max_index)
        self._n_pairs += len(values)
        if self._is_dense and not self._worth_dense(self._n_rows + n, width):
            self._make_sparse()
        if self._is_dense:
            self._widen(width)
            if self._n_rows == 0 and self._n_bytes:
                self._cells.reserve(round(1.02 * self._n_bytes / block.n_bytes * n * width))
            cells = self._cells.extend(n * width)
            if block.complete and block.max_index == width:
                cells[:] = values
            else:
                cells[:] = 0
                starts = np.repeat(np.arange(n) * width, np.diff(indptr))
                cells[starts + indices] = values
        else:
            self._append_sparse(indptr, indices, values)
        self._width = width
        self._n_rows += n

    def finish(self) -> NDArray[Any] | sparse.csr_array:
        """The whole matrix; this object must not be used afterwards."""
        shape = (self._n_rows, self._width)
        if self._is_dense:
            return self._cells.finish().reshape(shape)
        indptr = np.concatenate(([0], np.cumsum(self._row_sizes.finish())))
        X = sparse.csr_array(
            (self._values.finish(), self._indices.finish(), indptr), shape=shape, copy=False
        )
        X.has_canonical_format = True
        if self._layout == "auto" and self._worth_dense(*shape):
            return X.toarray()
        return X

    def _worth_dense(self, n_rows: int, width: int) -> bool:
        return self._layout == "dense" or self._n_pairs >= DENSE_FILL * n_rows * width

    def _append_sparse(
        self, indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any]
    ) -> None:
        """Add CSR rows without written zeros, so that the result does not depend on the blocks."""
        stored = values != 0
        if not stored.all():
            indptr = np.concatenate(([0], np.cumsum(stored)))[indptr]
            indices, values = indices[stored], values[stored]
        self._row_sizes.append(np.diff(indptr))
        self._indices.append(indices)
        self._values.append(values)

    def _make_sparse(self) -> None:
        """Convert from dense to CSR: happens at most once, if the first rows were misleading."""
        rows = sparse.csr_array(self._cells.finish().reshape(self._n_rows, self._width))
        self._cells = GrowingArray(self._dtype)
        self._append_sparse(rows.indptr, rows.indices, rows.data)
        self._is_dense = False

    def _widen(self, width: int) -> None:
        """Append columns of zeros to the dense rows, for features that appear only now."""
        old, n = self._width, self._n_rows
        if width == old or n == 0:
            return
        self._cells.extend(n * (width - old))
        cells = self._cells.whole()
        for start in range((n - 1) // _ROWS_AT_A_TIME * _ROWS_AT_A_TIME, -1, -_ROWS_AT_A_TIME):
            stop = min(start + _ROWS_AT_A_TIME, n)  # backwards, so that nothing is overwritten
            narrow = cells[start * old : stop * old].reshape(stop - start, old).copy()
            wide = cells[start * width : stop * width].reshape(stop - start, width)
            wide[:, :old] = narrow
            wide[:, old:] = 0


class QueryIds:
    """One query id per row: integers if all of them are, otherwise (or on request) text."""

    def __init__(self, *, as_text: bool = False) -> None:
        self._integers = GrowingArray(np.int64)
        self._texts: list[tuple[NDArray[np.intp], NDArray[np.str_]]] = []
        self._is_text = as_text

    def append(self, block: TextBlock, rows: slice | NDArray[np.intp] = slice(None)) -> None:
        """Add the ids of a block, or of some of its rows."""
        kinds, starts = block.rows.qid_kind[rows], block.rows.qid_at[rows]
        first = len(self._integers)
        self._integers.append(block.rows.qid[rows])
        # Ids that str() would not restore are kept as text, in case all ids become text.
        odd = np.flatnonzero(kinds >= TEXT_QID)
        if len(odd):
            self._texts.append((first + odd, _tokens(block, starts[odd])))
            self._is_text = self._is_text or bool((kinds == TEXT_QID).any())

    def finish(self) -> NDArray[np.int64] | NDArray[np.str_]:
        """All ids; this object must not be used afterwards."""
        integers = self._integers.finish()
        if not self._is_text:
            return integers
        width = max((text.dtype.itemsize // 4 for _, text in self._texts), default=0)
        ids = integers.astype(f"U{max(width, 20)}")
        for rows, text in self._texts:
            ids[rows] = text
        return ids


def block_ids(
    block: TextBlock, *, as_text: bool = False
) -> NDArray[np.int64] | NDArray[np.str_] | None:
    """The query ids of one block; None if its rows have none."""
    if not block.has_qid:
        return None
    ids = QueryIds(as_text=as_text)
    ids.append(block)
    return ids.finish()


def _tokens(block: TextBlock, starts: NDArray[np.int64]) -> NDArray[np.str_]:
    """The tokens that start at these bytes, as text."""
    longest = copy_tokens(block.codes, starts, np.empty((len(starts), 0), np.uint8))
    tokens = np.zeros((len(starts), longest), np.uint8)
    copy_tokens(block.codes, starts, tokens)
    try:
        return np.char.decode(tokens.view(f"S{longest}").ravel(), "utf-8")
    except UnicodeDecodeError as error:
        at = block.text.index(b"qid:" + error.object)
        raise block.error(at, "the query id is not UTF-8. Save the file as UTF-8.") from error
