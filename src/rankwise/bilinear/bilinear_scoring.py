"""Scores, rankings and explanations of a fitted bilinear ranker."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.backends.arrays import Array, is_sparse
from rankwise.bilinear.algorithm_1 import Ints, csr_parts, score_rows
from rankwise.bilinear.bilinear_training import share_in_wrong_order
from rankwise.bilinear.triplet_checks import check_rows, check_triplets, columns_of
from rankwise.errors import DataError, ParameterError, warn
from rankwise.parameters import Whole, check_value

BLOCK_BYTES = 64 * 2**20  # of Q W at a time


class BilinearScorer(BaseEstimator):
    """Scores f(q, d) = q'Wd for a given W."""

    coef_: sp.csr_array
    n_document_features_: int
    document_columns_in_: list[str] | None
    query_names_: NDArray[Any] | None
    document_names_: NDArray[Any] | None

    #: What `predict` takes; rows, if a ranker does not say it.
    scored: ClassVar[str] = "pairs of a query and a document"

    @property
    def memory_bytes_(self) -> int:
        """Bytes of `coef_`."""
        W = self.coef_
        return int(W.data.nbytes + W.indices.nbytes + W.indptr.nbytes)

    def predict(self, Q: Any, D: Any) -> Array:
        """Score of each document for the query in the same row: f_k = q_k'W d_k.

        Each takes O(nnz(q) times the entries of a row of W) time. A query without a feature that
        W knows has the score 0 for every document; a warning says so.

        Parameters
        ----------
        Q : array-like or sparse of shape (n, n_query_features)
        D : array-like or sparse of shape (n, n_document_features)

        Returns
        -------
        ndarray of shape (n,)
            Higher is better.
        """
        check_is_fitted(self, "coef_")
        queries, documents = self._new_queries(Q), self._new_documents(D)
        if queries.shape[0] != documents.shape[0]:
            raise DataError(
                f"predict takes one document per query: got {queries.shape[0]} queries and "
                f"{documents.shape[0]} documents. score_all takes all pairs."
            )
        self._warn_of_empty(queries)
        return self._score_rows(queries, documents)

    def score_all(self, Q: Any, D: Any) -> Array:
        """Score of every document for every query: F = Q W D'.

        A query without a feature that W knows has the score 0 for every document; a warning says
        so.

        Parameters
        ----------
        Q : array-like or sparse of shape (n_queries, n_query_features)
        D : array-like or sparse of shape (n_documents, n_document_features)

        Returns
        -------
        ndarray of shape (n_queries, n_documents)
        """
        check_is_fitted(self, "coef_")
        queries, documents = self._new_queries(Q), self._new_documents(D)
        self._warn_of_empty(queries)
        scores = np.empty((queries.shape[0], documents.shape[0]))
        size = max(1, BLOCK_BYTES // (8 * max(self.coef_.shape[1], 1)))
        for begin in range(0, queries.shape[0], size):
            projected = (queries[begin : begin + size] @ self.coef_).toarray()
            scores[begin : begin + size] = (documents @ projected.T).T
        return _finite(scores)

    def rank(self, q: Any, D: Any, *, k: int = 10) -> tuple[NDArray[np.intp], Array]:
        """Return the k best documents for a query, best first.

        Parameters
        ----------
        q : array-like or sparse of shape (n_query_features,) or (1, n_query_features)
        D : array-like or sparse of shape (n_documents, n_document_features)
        k : int, default=10
            At most; there may be fewer documents.

        Returns
        -------
        rows : ndarray of shape (k,)
            Of D.
        scores : ndarray of shape (k,)
        """
        check_value("k", k, Whole(1))
        scores = self.score_all(_one_row(q, "q"), D)[0]
        best = np.argsort(-scores, kind="stable")[:k]
        return best, scores[best]

    def score(self, Q: Any, D: Any, triplets: Any) -> float:
        """Share of triplets in the right order: one minus the error of section IV.A.

        Equal scores count as half, as for every ranker of this library.

        Parameters
        ----------
        Q, D, triplets
            As for `fit`.

        Returns
        -------
        float
        """
        check_is_fitted(self, "coef_")
        queries, documents = self._new_queries(Q), self._new_documents(D)
        return self._share_in_order(
            queries, documents, check_triplets(triplets, queries, documents)
        )

    def related_features(self, word: str | int, *, k: int = 5) -> list[tuple[Any, float]]:
        """Return the document features with the largest weights for a query feature (Table III).

        Parameters
        ----------
        word : str or int
            Name or number of a query feature.
        k : int, default=5

        Returns
        -------
        list of (name or number, weight)
            By decreasing absolute weight; fewer than k if W has fewer.
        """
        check_is_fitted(self, "coef_")
        check_value("k", k, Whole(1))
        i = self._feature(word)
        row = slice(self.coef_.indptr[i], self.coef_.indptr[i + 1])
        columns, weights = self.coef_.indices[row], self.coef_.data[row]
        best = np.argsort(-np.abs(weights), kind="stable")[:k]
        return [(_name(self.document_names_, columns[j]), float(weights[j])) for j in best]

    def explain(self, q: Any, d: Any, *, k: int = 10) -> list[tuple[Any, Any, float]]:
        """Return the pairs of features that contribute most to the score of a document.

        Parameters
        ----------
        q : array-like or sparse, one query
        d : array-like or sparse, one document
        k : int, default=10

        Returns
        -------
        list of (query feature, document feature, q_i W_ij d_j)
            By decreasing absolute value; all of them add up to the score.
        """
        check_is_fitted(self, "coef_")
        check_value("k", k, Whole(1))
        query = self._new_queries(_one_row(q, "q"))
        document = self._new_documents(_one_row(d, "d"))
        scaled = sp.diags_array(query.data) @ self.coef_[query.indices]
        pairs = sp.coo_array(scaled.multiply(document))
        best = np.argsort(-np.abs(pairs.data), kind="stable")[:k]
        rows, columns = pairs.coords
        return [
            (
                _name(self.query_names_, query.indices[rows[j]]),
                _name(self.document_names_, columns[j]),
                float(pairs.data[j]),
            )
            for j in best
        ]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def _share_in_order(
        self, queries: sp.csr_array, documents: sp.csr_array, triplets: Ints
    ) -> float:
        q, better, worse = triplets.T
        margins = self._score_rows(queries[q], sp.csr_array(documents[better] - documents[worse]))
        return 1.0 - share_in_wrong_order(margins)

    def _score_rows(self, queries: sp.csr_array, documents: sp.csr_array) -> Array:
        W = csr_parts(self.coef_, self.coef_.dtype)
        return _finite(score_rows(csr_parts(queries), W, csr_parts(documents), self.coef_.shape[1]))

    def _new_queries(self, Q: Any) -> sp.csr_array:
        queries = check_rows(Q, "Q")
        _check_width(queries, self.n_features_in_, "Q", "queries")
        validate_data(self, Q, reset=False, skip_check_array=True)  # names of columns
        return queries

    def _new_documents(self, D: Any) -> sp.csr_array:
        documents = check_rows(D, "D")
        _check_width(documents, self.n_document_features_, "D", "documents")
        self._check_columns(D)
        return documents

    def _warn_of_empty(self, queries: sp.csr_array) -> None:
        """Warn if a query has no feature with a weight: all documents are equal for it."""
        weighted = np.diff(self.coef_.indptr) > 0
        entries = np.repeat(np.arange(queries.shape[0]), np.diff(queries.indptr))
        known = np.bincount(entries[weighted[queries.indices]], minlength=queries.shape[0])
        empty = np.flatnonzero(known == 0)
        if len(empty):
            warn(
                f"Row {empty[0]} of Q has no feature that this ranker has a weight for "
                f"({len(empty)} of {queries.shape[0]} queries): all documents score 0 for it, and "
                "their order means nothing.",
            )

    def _check_columns(self, D: Any) -> None:
        """Raise an error if a data frame has other columns than in the fit."""
        now = columns_of(D)
        if now is None or self.document_columns_in_ is None:
            return
        for k, (name, fitted) in enumerate(zip(now, self.document_columns_in_, strict=True)):
            if name != fitted:
                raise DataError(
                    f"Column {k} of D is {name!r}, but this ranker was fitted to documents with "
                    f"{fitted!r} there: pass the same columns in the same order."
                )

    def _feature(self, word: str | int) -> int:
        if isinstance(word, str):
            if self.query_names_ is None:
                raise ParameterError(
                    "This ranker was fitted without feature names: use the number of the feature, "
                    "or pass names to fit."
                )
            found = np.flatnonzero(self.query_names_ == word)
            if not len(found):
                raise ParameterError(f"There is no query feature {word!r}.")
            if len(found) > 1:
                raise ParameterError(
                    f"{len(found)} query features are called {word!r}: use a number, one of "
                    f"{', '.join(map(str, found[:5]))}."
                )
            return int(found[0])
        check_value("word", word, Whole(0, self.coef_.shape[0] - 1))
        return int(word)


def _one_row(x: Any, name: str) -> Any:
    """A single row, with its axis."""
    if is_sparse(x):
        x = x.reshape(1, -1) if x.ndim == 1 else x
    elif not hasattr(x, "columns"):
        try:
            x = np.atleast_2d(np.asarray(x, dtype=np.float64))
        except (TypeError, ValueError):
            raise DataError(
                f"{name} must be a row of numbers: got {x!r:.60}. Turn text into features first, "
                "with the vectorizer of the fit."
            ) from None
    if x.shape[0] != 1:
        raise DataError(f"{name} must be one row: got {x.shape[0]}.")
    return x


def _check_width(rows: sp.csr_array, width: int, name: str, what: str) -> None:
    if rows.shape[1] != width:
        raise DataError(
            f"{name} has {rows.shape[1]} features, but this ranker was fitted to {what} of "
            f"{width}: use the same vocabulary."
        )


def _finite(scores: Array) -> Array:
    if not np.isfinite(scores).all():
        raise DataError("Scores overflowed: scale rows to unit length, as in the fit.")
    return scores


def _name(names: NDArray[Any] | None, number: Any) -> Any:
    return int(number) if names is None else str(names[number])
