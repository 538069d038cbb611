"""Triplets from pairs of a query and a relevant document."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import DataError
from rankwise.parameters import Whole, as_generator, check_value


def draw_triplets(
    positives: Any, n_documents: int, *, n_negatives: int = 1, random_state: Any = None
) -> NDArray[np.int64]:
    """Draw other documents for pairs of a query and a relevant document.

    Each other document is drawn uniformly from all documents that are not relevant to the query in
    any of the pairs. Takes O(n log n) time for n triplets.

    Parameters
    ----------
    positives : array-like of int, shape (n_pairs, 2)
        Rows (query, relevant document); a query may have several.
    n_documents : int
    n_negatives : int, default=1
        Other documents for each pair, drawn with replacement.
    random_state : int, Generator or None, default=None

    Returns
    -------
    ndarray of shape (n_pairs * n_negatives, 3)
        Rows (query, relevant document, other document) for `SparseBilinearRanker.fit`, in the
        order of the pairs.

    Examples
    --------
    >>> from rankwise.data import draw_triplets
    >>> draw_triplets([[0, 0], [0, 1], [1, 2]], n_documents=3, random_state=0)[:2]
    array([[0, 0, 2],
           [0, 1, 2]])
    """
    check_value("n_documents", n_documents, Whole(1))
    check_value("n_negatives", n_negatives, Whole(1))
    pairs = _checked(positives, n_documents)
    known = np.unique(pairs, axis=0)  # by query, then document
    queries, first, counts = np.unique(known[:, 0], return_index=True, return_counts=True)
    full = np.flatnonzero(counts == n_documents)
    if len(full):
        raise DataError(
            f"All {n_documents} documents are relevant to query {queries[full[0]]} ({len(full)} "
            "such queries): there is no other one to draw. Remove these pairs."
        )
    # The r-th document that is not relevant is r + the number of relevant documents before it. The
    # k-th relevant one, p, is before it if p - k <= r. The numbers p - k ascend within a query.
    number = np.searchsorted(queries, known[:, 0])
    skipped = number * (n_documents + 1) + known[:, 1] - (np.arange(len(known)) - first[number])
    query = np.repeat(np.searchsorted(queries, pairs[:, 0]), n_negatives)
    r = as_generator(random_state).integers(0, n_documents - counts[query])
    before = np.searchsorted(skipped, query * (n_documents + 1) + r, side="right") - first[query]
    return np.column_stack([np.repeat(pairs, n_negatives, axis=0), r + before])


def _checked(positives: Any, n_documents: int) -> NDArray[np.int64]:
    """Pairs of rows, with documents that exist."""
    try:
        pairs = np.asarray(positives)
    except ValueError:
        raise DataError("positives has rows of different lengths: make all of length 2.") from None
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
        raise DataError(
            "positives must have shape (n, 2), with rows (query, relevant document) and at least "
            f"one of them: got shape {pairs.shape}."
        )
    if pairs.dtype.kind not in "iu":
        raise DataError(f"positives must hold row numbers, as whole numbers: got {pairs.dtype}.")
    wrong = np.flatnonzero((pairs < 0).any(axis=1) | (pairs[:, 1] >= n_documents))
    if len(wrong):
        k = int(wrong[0])
        raise DataError(
            f"positives[{k}] is {tuple(pairs[k].tolist())}: rows are counted from 0, and documents "
            f"to {n_documents - 1} ({len(wrong)} such pairs)."
        )
    return pairs.astype(np.int64)
