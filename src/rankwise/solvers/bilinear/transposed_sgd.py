"""Steps on the transpose of W, whose rows are the columns of W."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import Array
from rankwise.solvers.bilinear.bilinear_sgd import BilinearSGD
from rankwise.solvers.bilinear.step_arrays import CSR, Ints, csr_parts

CHUNK = 4096
"""Triplets whose differences of documents are in memory at once; a multiple of a batch."""


class TransposedSGD(BilinearSGD):
    """`BilinearSGD` for W', so that columns of W shrink as groups and have adagrad's rates.

    q'W(d+ - d-) = (d+ - d-)'W'q: the differences take the place of queries, and a query that of a
    document which is compared with an empty one. Arguments and results are those for W.
    """

    def __init__(self, W: Any, *, prior: Any = None, **how: Any) -> None:
        prior = None if prior is None else _transposed(prior)
        super().__init__(_transposed(W), prior=prior, **how)

    def advance(self, Q: CSR, D: CSR, triplets: Ints) -> None:
        """Take one step for each triplet, in order."""
        for begin in range(0, len(triplets), CHUNK):
            super().advance(*_swapped(Q, D, triplets[begin : begin + CHUNK], self.shape[0]))

    def margins(self, Q: CSR, D: CSR, triplets: Ints) -> Array:
        """q'W(d+ - d-) of triplets, as W is now."""
        return super().margins(*_swapped(Q, D, triplets, self.shape[0]))

    def weights(self) -> sp.csr_array:
        """W as it is now; the learner does not change."""
        return _transposed(super().weights())

    def changes(self) -> sp.csr_array:
        """W without the prior."""
        return _transposed(super().changes())


def _transposed(W: Any) -> sp.csr_array:
    return sp.csr_array(W.T)


def _swapped(Q: CSR, D: CSR, triplets: Ints, n_columns: int) -> tuple[CSR, CSR, Ints]:
    """Differences of documents, queries and an empty row, and triplets of these."""
    n, n_queries = len(triplets), len(Q.indptr) - 1
    documents = sp.csr_array((D.data, D.indices, D.indptr), shape=(len(D.indptr) - 1, n_columns))
    differences = sp.csr_array(documents[triplets[:, 1]] - documents[triplets[:, 2]])
    differences.sort_indices()
    rows = CSR(np.append(Q.indptr, Q.indptr[-1:]), Q.indices, Q.data)
    swapped = np.column_stack((np.arange(n), triplets[:, 0], np.full(n, n_queries)))
    return csr_parts(differences), rows, swapped
