"""SparseBilinearRanker: weights for pairs of query and document features."""

from __future__ import annotations

import math
import os
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from rankwise.backends.arrays import Array, is_sparse
from rankwise.bilinear.algorithm_1 import OVERFLOWED, SCHEDULES, Ints, csr_parts, score_rows
from rankwise.bilinear.bilinear_training import (
    BilinearTraining,
    FitCheckpoint,
    TrainingRecord,
    fingerprint,
    given_lam,
    learner_for,
    number,
    share_in_wrong_order,
)
from rankwise.bilinear.triplets import (
    Draw,
    Rows,
    check_classes,
    check_full_rows,
    check_grades,
    check_names,
    check_rows,
    check_triplets,
    columns_of,
    from_classes,
    from_grades,
    from_triplets,
    has_rows,
)
from rankwise.errors import DataError, ModelFileError, ParameterError, warn
from rankwise.estimators.base import explain_calls
from rankwise.parameters import (
    AnyOf,
    Choice,
    Flag,
    Number,
    OptionsMixin,
    Rule,
    Whole,
    as_generator,
    check_parameters,
    check_value,
)
from rankwise.problem.problem import fits

BLOCK_BYTES = 64 * 2**20  # of Q W at a time
DRAWN_TRIPLETS = 2000  # held out, from classes


class BilinearScorer(BaseEstimator):
    """Scores f(q, d) = q'Wd for a given W."""

    coef_: sp.csr_array
    n_document_features_: int
    document_columns_in_: list[str] | None
    query_names_: NDArray[Any] | None
    document_names_: NDArray[Any] | None

    #: What `predict` takes; rows, unless a ranker declares it.
    scored: ClassVar[str] = "pairs of a query and a document"

    @property
    def memory_bytes_(self) -> int:
        """Bytes of `coef_`."""
        W = self.coef_
        return int(W.data.nbytes + W.indices.nbytes + W.indptr.nbytes)

    def predict(self, Q: Any, D: Any) -> Array:
        """Score of each document for the query in the same row: f_k = q_k'W d_k.

        Each takes O(nnz(q) times the entries of a row of W) time. For a query without a feature
        that W knows, all scores are 0, with a warning.

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

        For a query without a feature that W knows, all scores are 0, with a warning.

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
        """Raise an error if the columns of a data frame differ from the fit."""
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
            names = () if self.query_names_ is None else self.query_names_
            found = np.flatnonzero(np.asarray(names) == word)
            if len(found) != 1:
                raise ParameterError(
                    f"{len(found)} query features are called {word!r}, and 1 is needed: use the "
                    "number of a feature, or pass names to fit."
                )
            return int(found[0])
        check_value("word", word, Whole(0, self.coef_.shape[0] - 1))
        return int(word)


def _one_row(x: Any, name: str) -> Any:
    """A single row, with its axis."""
    if is_sparse(x):
        x = x.reshape(1, -1) if x.ndim == 1 else x
    elif not hasattr(x, "columns"):
        x = np.atleast_2d(np.asarray(x))
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


@dataclass(frozen=True)
class Shrinkage:
    """How the penalty of a `SparseBilinearRanker` shrinks W.

    Parameters
    ----------
    penalty : {"l1", "rows", "columns"}, default="l1"
        The sum of absolute values, or the sum of the Euclidean norms of rows or columns. With
        "rows", all weights of a query feature become 0 together; with "columns", all weights of a
        document feature. With "columns", "adagrad" uses a rate for each column, and a step takes
        O((nnz(d+) + nnz(d-)) (nnz(q) + c)) time, where c is the number of entries in a column.
    to : {"zeros", "init"}, default="zeros"
        What the penalty is measured from. With "init", it is the sum of ``|W_ij - init_ij|``:
        weights without evidence keep their initial values, and a refit changes the other ones.
    every : int, default=100
        Steps between two shrinkages, T in the paper; at most all steps.

    Examples
    --------
    >>> from rankwise import Shrinkage, SparseBilinearRanker
    >>> ranker = SparseBilinearRanker(shrinkage=Shrinkage(penalty="rows"))
    """

    penalty: str = "l1"
    to: str = "zeros"
    every: int = 100


SHRINKAGE: dict[str, Rule] = {
    "penalty": Choice("l1", "rows", "columns"),
    "to": Choice("zeros", "init"),
    "every": Whole(1),
}


PARAMETERS: dict[str, Rule] = {
    "alpha": AnyOf(Number(0, open_low=True), Choice("auto"), None),
    "target_density": AnyOf(Number(0, 1, open_low=True), None),
    "n_iter": AnyOf(Whole(1), None),
    "eta0": AnyOf(Number(0, open_low=True), Choice("auto")),
    "schedule": Choice(*SCHEDULES),
    "refit": Flag(),
    "structure": Choice("sparse", "dense", "diagonal", "identity"),
    "early_stopping": AnyOf(Flag(), Whole(1)),
    "dtype": Choice("float64", "float32"),
    "record_every": AnyOf(Whole(1), None),
    "verbose": Flag(),
}
STREAM_PARAMETERS = (
    "alpha",
    "eta0",
    "schedule",
    "structure",
    "init",
    "shrinkage",
    "dtype",
    "refit",
)
"""Parameters that cannot change during a stream."""


@explain_calls
@dataclass(eq=False, repr=False)
class SparseBilinearRanker(OptionsMixin, BilinearScorer):
    """Ranker that scores a document for a query by sparse weights of pairs of their features.

    f(q, d) = q'Wd is learned from triplets (query, preferred document, other document) by
    stochastic subgradient steps on

        mean over triplets of max(0, 1 - q'W(d+ - d-)) + alpha sum_ij |W_ij|,

    and W shrinks every 100 steps for the L1 norm (Algorithm 1). With `refit`, a second run without
    the L1 norm changes only the entries that are not 0. W can shrink to known weights instead of 0,
    and whole rows or columns can become 0 (`shrinkage`).

    A step takes O(nnz(q) (nnz(d+) + nnz(d-) + r)) time, where r is the number of entries in a row
    of W. Memory is in the order of the nonzeros of W: 12 bytes each in `coef_` (8 in float32), and
    two to four times as much during the fit. Shrinkage is lazy and costs nothing.
    ``structure="dense"`` takes a full matrix.

    Unless `alpha` (or `target_density`) and `eta0` are numbers, a fifth of the queries are held
    out, with the documents that they prefer if most other queries do not use these. At most 16
    short runs choose the rate and alpha, and W is then learned from the other queries. If it does
    not rank the held-out queries better than the initial W, by more than a standard error of mean
    average precision (MRR, if one document is relevant), the initial W is kept: a warning and
    `init_kept_` say so. To learn from all queries, fit again with the numbers `alpha_` and `eta0_`.

    Use it where relevance is not a class. If documents belong to known classes, and documents of
    the same class are relevant to each other, a classifier ranks far better; see the guide.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Weight of the L1 norm, λ in the paper; above 0. Useful values are small, about one over
        the sum of all rates. "auto": chosen on held-out queries, or to reach `target_density`; None
        means the same. Numbers are only for ``structure="sparse"``.
    target_density : float, optional
        Share of the entries of W that are not 0 at the end; W may have up to 5 % less. Found by
        repeated fits with different alpha. If W does not get that dense with any alpha, the search
        ends with a warning.
    n_iter : int or None, default=100_000
        Steps, each with a triplet drawn at random. None: one step for each triplet, in order.
    eta0 : float or "auto", default="auto"
        Rate of the first step, C in the paper, where it is 200 with "invsqrt". "auto": chosen on
        held-out queries.
    schedule : {"adagrad", "invsqrt", "constant"}, default="adagrad"
        Rate of step t: for each row of W, eta0 divided by the root of the sum of its squared
        gradients; eta0 / sqrt(t), as in the paper; or eta0.
    refit : bool, default=True
        Whether to fit a second time, to the same triplets, without the L1 norm but only where W
        is not 0. This removes the bias of the shrinkage. Only for ``structure="sparse"``.
    structure : {"sparse", "dense", "diagonal", "identity"}, default="sparse"
        Of W: with the L1 norm; without it; one weight per feature that query and document share;
        or fixed to the identity, f(q, d) = q'd, the cosine of normalized rows.
    init : {"identity", "zeros"} or matrix, default="identity"
        W before the first step, as an array, a sparse matrix or a data frame with a row for each
        feature of queries and a column for each feature of documents. "identity" needs the same
        features for queries and documents.
    shrinkage : Shrinkage, optional
        How often W shrinks, to what, and whether single weights become 0 or whole rows or columns.
        None: single weights, to 0, every 100 steps. Only for ``structure="sparse"``.
    early_stopping : bool or int, default=False
        Whether to stop when the share of held-out triplets in the wrong order has not decreased
        for that many records (True: 5); see `record_every`. `n_iter` is then the largest number of
        steps. The triplets are `held_out`, if passed to the fit. Otherwise a fifth of the queries
        are held out, and W does not learn from them.
    dtype : {"float64", "float32"}, default="float64"
        Of W.
    record_every : int, optional
        Steps between two records of the learning curve. None: a twentieth of all steps.
    random_state : int, Generator or None, default=None
        Seed for drawing triplets. With the same seed, W is the same on one machine, bit for bit.
    verbose : bool, default=False
        Whether to show a progress bar with loss, density and steps per second, on stderr or in a
        notebook.

    Attributes
    ----------
    coef_ : csr_array of shape (n_query_features, n_document_features)
        W.
    alpha_, eta0_ : float
        The alpha and rate that were used; alpha is 0 for structures without an L1 norm, and both
        are 0 if the initial W was kept.
    trials_ : dict of ndarray
        If alpha or eta0 was chosen: "eta0", "alpha", "n_iter", "loss", "score" and "precision" of W
        before the first step, of the short runs, and of the fit. On triplets of held-out queries,
        "score" is the share in the right order; "loss" is the log loss of the order, and compares
        the runs. "precision" is the mean average precision of these queries.
    init_kept_ : bool
        Whether W is the initial W because no run was better on held-out queries.
    density_ : float
        Share of the entries of `coef_` that are not 0.
    memory_bytes_ : int
        Of `coef_`.
    learning_curve_, refit_curve_ : dict of ndarray
        "step", "loss" (mean hinge loss since the previous record), "density", and "error" on
        held-out triplets (NaN without any), at intervals; see `rankwise.plots.plot_learning_curve`.
        The second exists after a refit. Empty after `partial_fit`. The identity has one record, of
        step 0, if there are held-out triplets.
    n_iter_ : int
        Steps taken.
    stream_ : dict
        After `partial_fit`: the state from which the next call continues.
    query_names_, document_names_ : ndarray of str or None
        Names of features.
    n_features_in_, n_document_features_ : int

    References
    ----------
    Section and equation numbers refer to "Learning preferences with millions of parameters by
    enforcing sparsity" (ICDM 2010).

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import Shrinkage, SparseBilinearRanker
    >>> words = ["car", "auto", "fish"]
    >>> queries = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> documents = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> ranker = SparseBilinearRanker(alpha=0.01, n_iter=50, eta0=1.0, init="zeros")
    >>> ranker = ranker.set_params(shrinkage=Shrinkage(every=10), random_state=0).fit(
    ...     queries, documents, [[0, 0, 1], [1, 1, 0]], query_names=words, document_names=words
    ... )
    >>> ranker.score_all(queries, documents).argmax(axis=1)
    array([0, 1])
    >>> [word for word, weight in ranker.related_features("car", k=1)]
    ['auto']
    """

    option_classes: ClassVar[dict[str, Any]] = {"shrinkage": Shrinkage}
    former_names: ClassVar[dict[str, str]] = {"shrink_to": "to", "shrink_every": "every"}

    alpha: float | str | None = "auto"
    _: KW_ONLY
    target_density: float | None = None
    n_iter: int | None = 100_000
    eta0: float | str = "auto"
    schedule: str = "adagrad"
    refit: bool = True
    structure: str = "sparse"
    init: Any = "identity"
    shrinkage: Shrinkage | None = None
    early_stopping: bool | int = False
    dtype: str = "float64"
    record_every: int | None = None
    random_state: Any = None
    verbose: bool = False

    @explain_calls
    def fit(
        self,
        Q: Any,
        D: Any,
        triplets: Any,
        *,
        query_names: Any = None,
        document_names: Any = None,
        held_out: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 25_000,
    ) -> Self:
        """Fit to triplets of rows.

        Parameters
        ----------
        Q : array-like or sparse of shape (n_queries, n_query_features)
        D : array-like or sparse of shape (n_documents, n_document_features)
        triplets : array-like of int, shape (n_triplets, 3)
            Rows of Q, D and D: a query, the preferred document, the other one.
        query_names, document_names : sequence of str, optional
            Names of the features. None: the columns of data frames.
        held_out : array-like of shape (n, 3), or tuple (Q, D, triplets), optional
            Further triplets of the same or of other rows, for the learning curve.
        checkpoint : path-like, optional
            A file in which the fit saves its state. If it exists, the fit resumes from it, and
            ends at the same W as if it had never been stopped, bit for bit. The file stays when
            the fit ends.
        checkpoint_every : int, default=25_000
            Steps between two saves; each writes all of W.

        Returns
        -------
        self
        """
        self._forget()
        queries, documents = self._rows(Q, D)
        rows = check_triplets(triplets, queries, documents)
        self._set_names(Q, D, query_names, document_names)
        aside = self._held_out(held_out, queries, documents)
        draw = None if self.n_iter is None else from_triplets(rows)
        return self._fit(queries, documents, draw, [rows], aside, checkpoint, checkpoint_every)

    def fit_classes(
        self,
        X: Any,
        labels: Any,
        *,
        names: Any = None,
        held_out: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 25_000,
    ) -> Self:
        """Fit to rows with classes: rows of the same class are relevant to each other.

        Draws a query, another row of its class and a row of another class, each uniformly, as in
        section IV.A of the paper.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        labels : array-like of shape (n_rows,)
        names : sequence of str, optional
            Names of the features.
        held_out : tuple (X, labels), optional
            Other rows, from which 2,000 triplets are drawn for the learning curve.
        checkpoint, checkpoint_every
            As for `fit`.

        Returns
        -------
        self
        """
        self._forget()
        rows, _ = self._rows(X, X, "X")
        numbers = check_classes(labels, rows.shape[0])
        check_full_rows(rows, "X")
        self._set_names(X, X, names, names)
        aside = self._held_out_classes(held_out)
        return self._fit(
            rows, rows, from_classes(numbers), [numbers], aside, checkpoint, checkpoint_every
        )

    def fit_graded(
        self,
        Q: Any,
        D: Any,
        grades: Any,
        qid: Any,
        *,
        query_names: Any = None,
        document_names: Any = None,
        held_out: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 25_000,
    ) -> Self:
        """Fit to graded documents: for each query, documents with a higher grade are preferred.

        Every pair of documents of one query with different grades is equally likely.

        Parameters
        ----------
        Q : array-like or sparse of shape (n_queries, n_query_features)
        D : array-like or sparse of shape (n_documents, n_document_features)
            A document that was judged for several queries needs a row for each.
        grades : array-like of shape (n_documents,)
            Higher is better.
        qid : array-like of int, shape (n_documents,)
            The row of Q that each document was judged for.
        query_names, document_names, held_out, checkpoint, checkpoint_every
            As for `fit`.

        Returns
        -------
        self
        """
        self._forget()
        queries, documents = self._rows(Q, D)
        query, values = check_grades(grades, qid, queries, documents)
        self._set_names(Q, D, query_names, document_names)
        aside = self._held_out(held_out, queries, documents)
        draw, n_pairs = from_grades(values, query)
        if n_pairs == 0:
            raise DataError(
                "No query has documents of different grades: there is no pair to learn from. "
                "Check grades and qid."
            )
        return self._fit(
            queries, documents, draw, [query, values], aside, checkpoint, checkpoint_every
        )

    def partial_fit(
        self,
        Q: Any,
        D: Any,
        triplets: Any,
        *,
        query_names: Any = None,
        document_names: Any = None,
    ) -> Self:
        """Learn from further triplets, one step each, in their order.

        However a stream is cut, W is the same as after ``fit`` with ``n_iter=None`` on all of it.
        Set `alpha` and `eta0` to numbers, and ``refit=False``: a refit would need the triplets
        twice. Parameters must not change between calls. After ``fit``, the first call starts again
        from `init`. Each call copies W: pass triplets by the hundred or more.

        Parameters
        ----------
        Q, D, triplets
            As for `fit`; the rows may differ between calls, the features may not.
        query_names, document_names : sequence of str, optional
            Names of the features, in the first call.

        Returns
        -------
        self
        """
        stream = getattr(self, "stream_", None)
        self._check_streamable(stream)
        if stream:
            queries, documents = self._new_queries(Q), self._new_documents(D)
        else:
            self._forget()
            queries, documents = self._rows(Q, D)
        rows = check_triplets(triplets, queries, documents)
        shape = (queries.shape[1], documents.shape[1])
        if not stream:
            self._check_parameters(shape)
            self._set_names(Q, D, query_names, document_names)
        self._forget()  # steps that fail leave nothing to resume from
        eta0, lam = number(self.eta0) or 0.0, given_lam(self) or 0.0
        learner = learner_for(self, self._starting_weights(shape), eta0, lam)
        if stream:
            learner.restore(stream["state"])
        if self.structure != "identity":
            learner.advance(csr_parts(queries), csr_parts(documents), rows)
        self._keep(learner.weights(), TrainingRecord(eta0, lam, learner.step))
        parameters = {name: self._stream_value(name) for name in STREAM_PARAMETERS}
        self.stream_ = {"parameters": parameters, "state": learner.state()}
        return self

    @property
    def init_kept_(self) -> bool:
        """Whether W is the initial W because no run was better on held-out queries."""
        check_is_fitted(self, "coef_")
        return hasattr(self, "trials_") and self.n_iter_ == 0

    @classmethod
    def upgraded_parameters(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        """Parameters from a model file, possibly of an earlier version, in the present form."""
        now = super().upgraded_parameters(parameters)
        now.pop("n_jobs", None)
        patience = now.pop("n_iter_no_change", 5)
        if now.get("early_stopping") is True and patience != 5:
            now["early_stopping"] = patience
        return now

    def _forget(self) -> None:
        """Remove what was fitted, so that a call that fails leaves an unfitted ranker."""
        for name in ("coef_", "stream_"):
            self.__dict__.pop(name, None)

    def _check_parameters(self, shape: tuple[int, int]) -> None:
        """Check every parameter, alone and together with the others and the features."""
        check_parameters(self, PARAMETERS)
        if isinstance(self.init, str):
            check_value("init", self.init, Choice("identity", "zeros"))
        for name in ("alpha", "target_density", "shrinkage"):
            value = getattr(self, name)
            if self.structure != "sparse" and value not in (None, "auto"):
                raise ParameterError(
                    f'{name}={value!r} is for structure="sparse": structure={self.structure!r} '
                    "does not shrink. Leave it out."
                )
        for option in fields(Shrinkage):
            value = getattr(self.options_in("shrinkage"), option.name)
            check_value(f"{option.name} of shrinkage", value, SHRINKAGE[option.name])
        if number(self.alpha) is not None and self.target_density is not None:
            raise ParameterError("alpha and target_density exclude each other: pass one of them.")
        is_identity = isinstance(self.init, str) and self.init == "identity"
        needs_square = is_identity or self.structure in ("diagonal", "identity")
        if needs_square and shape[0] != shape[1]:
            raise ParameterError(
                f"Queries have {shape[0]} features and documents {shape[1]}: an identity matrix "
                'needs the same number. Use init="zeros" or a matrix, and structure="sparse" or '
                '"dense".'
            )
        if self.structure == "identity" and not is_identity:
            raise ParameterError('structure="identity" learns nothing, so init must be "identity".')
        n_bytes = np.dtype(self.dtype).itemsize * math.prod(shape)
        if self.structure == "dense" and not fits(n_bytes / 8):
            raise ParameterError(
                f"A dense W of {shape[0]} by {shape[1]} needs {n_bytes / 2**30:.0f} GiB, more than "
                "this machine has. Use structure='sparse'."
            )

    def _check_streamable(self, stream: dict[str, Any] | None) -> None:
        """Check that neither the cuts of a stream nor changed parameters affect W."""
        if stream:
            kept = self.upgraded_parameters(dict(stream.get("parameters", ())))
            kept["shrinkage"] = kept.get("shrinkage") or Shrinkage()
            if sorted(kept) != sorted(STREAM_PARAMETERS):
                raise ModelFileError("stream_ lacks its parameters: start another stream.")
            for name, first in kept.items():
                now = self._stream_value(name)
                if now != first:
                    raise ParameterError(
                        f"This stream began with {name}={first!r}, but now it is {now!r}: set it "
                        "back, or start another stream with a clone of this ranker."
                    )
        is_sparse = self.structure == "sparse"
        chosen = is_sparse and (self.refit or number(self.alpha) is None)
        chosen = chosen or (self.structure != "identity" and number(self.eta0) is None)
        if chosen or self.early_stopping:
            raise ParameterError(
                "partial_fit sees every triplet once, and takes a step for it: set alpha and eta0 "
                "to numbers, refit=False and early_stopping=False."
            )

    def _stream_value(self, name: str) -> Any:
        """A parameter as a stream keeps it: for a matrix, a name with a hash of its numbers."""
        value = self.options_in("shrinkage") if name == "shrinkage" else getattr(self, name)
        if name != "init" or isinstance(value, str):
            return value
        matrix: Any = value if sp.issparse(value) else np.asarray(value, np.float64)
        return f"matrix {fingerprint({}, list(csr_parts(sp.csr_array(matrix))))[:12]}"

    def _starting_weights(self, shape: tuple[int, int]) -> sp.csr_array:
        """W before the first step."""
        dtype = np.dtype(self.dtype)
        if not isinstance(self.init, str):
            start = _checked_matrix(self.init, shape, dtype)
        elif self.init == "zeros":
            start = sp.csr_array(shape, dtype=dtype)
        else:
            start = sp.csr_array(sp.eye_array(shape[0], dtype=dtype, format="csr"))
        if self.structure != "diagonal":
            return start
        diagonal = start.diagonal().astype(dtype)
        others = start.nnz - np.count_nonzero(diagonal)
        if others:
            raise ParameterError(
                f'structure="diagonal" has no weights off the diagonal, but init has {others}. '
                "Use structure='sparse', or only the diagonal of init."
            )
        # Explicit zeros: these entries may change.
        arrays = (diagonal, np.arange(shape[0], dtype=np.int32), np.arange(shape[0] + 1))
        return sp.csr_array(arrays, shape=shape)

    def _fit(
        self,
        Q: sp.csr_array,
        D: sp.csr_array,
        draw: Draw | None,
        evidence: list[NDArray[Any]],
        held_out: Rows | None,
        checkpoint: str | os.PathLike[str] | None,
        checkpoint_every: int,
    ) -> Self:
        """Check parameters, order columns by frequency, fit, and keep the result.

        `draw` draws triplets; None: they are taken in order.
        """
        shape = (Q.shape[1], D.shape[1])
        self._check_parameters(shape)
        if draw is not None and self.n_iter is None:
            raise ParameterError(
                "Triplets are drawn from classes or grades: set n_iter to their number."
            )
        n_steps = self.n_iter or len(evidence[0])
        check_value("checkpoint_every", checkpoint_every, Whole(1))
        every = self.options_in("shrinkage").every
        if self.structure == "sparse" and every > n_steps:
            raise ParameterError(
                f"W shrinks every {every} steps, but there are only {n_steps}: alpha would have no "
                "effect. Take more steps, or lower `every` of shrinkage."
            )
        start = self._starting_weights(shape)
        if self.structure == "identity":
            self._keep(start, TrainingRecord())
            if held_out is not None:
                error = 1.0 - self._share_in_order(*held_out)
                only = {"step": 0, "loss": math.nan, "density": self.density_, "error": error}
                self.learning_curve_ = {name: np.array([only[name]]) for name in only}
            return self
        numbers, aside, kept = by_frequency(D), None, None
        data = [*csr_parts(Q), *csr_parts(D), *evidence]
        if held_out is not None:
            queries, documents, triplets = held_out
            data += [*csr_parts(queries), *csr_parts(documents), triplets]
            aside = csr_parts(queries), csr_parts(renumbered(documents, numbers)), triplets
        if checkpoint is not None:
            kept = FitCheckpoint(Path(checkpoint), self._owner(data), checkpoint_every)
            kept.check_folder()
        record = TrainingRecord(number(self.eta0) or 0.0, given_lam(self) or 0.0)
        record.seed = int(as_generator(self.random_state).integers(2**63))
        training = BilinearTraining(
            self, csr_parts(Q), csr_parts(renumbered(D, numbers)), aside,
            renumbered(start, numbers), draw, n_steps, Q is D,
            evidence[0] if evidence[0].ndim == 2 else None, record, kept,
        )  # fmt: skip
        W = training.run()
        self._keep(renumbered(W, np.argsort(numbers).astype(np.int32)), training.record)
        return self

    def _owner(self, arrays: list[NDArray[Any]]) -> str:
        """The fingerprint of a fit; without a seed, the checkpoint brings its own."""
        params = {
            **self.get_params(deep=False),
            "verbose": False,
            "init": self._stream_value("init"),
        }
        seeded = isinstance(self.random_state, (int, np.integer))
        params["random_state"] = int(self.random_state) if seeded else None
        return fingerprint(params, arrays)

    def _keep(self, W: sp.csr_array, record: TrainingRecord) -> None:
        if not np.isfinite(W.data).all():
            raise DataError(OVERFLOWED)
        self.coef_ = W
        self.alpha_, self.eta0_ = record.lam, record.eta0
        self.density_ = W.nnz / max(W.shape[0] * W.shape[1], 1)
        self.n_iter_ = record.n_steps
        tables = {"trials_": record.trials, "refit_curve_": record.refit_curve}
        for name in tables:
            self.__dict__.pop(name, None)
        for name, table in {"learning_curve_": record.curve, **tables}.items():
            if name == "learning_curve_" or table["loss"]:
                setattr(self, name, {key: np.array(x, float) for key, x in table.items()})

    def _rows(self, Q: Any, D: Any, name: str = "Q") -> tuple[sp.csr_array, sp.csr_array]:
        """Check the rows of a fit, and remember their features."""
        queries = check_rows(Q, name)
        documents = queries if D is Q else check_rows(D, "D")
        validate_data(self, Q, skip_check_array=True)
        self.n_document_features_ = documents.shape[1]
        self.document_columns_in_ = columns_of(D)
        return queries, documents

    def _held_out(self, given: Any, Q: sp.csr_array, D: sp.csr_array) -> Rows | None:
        """Triplets of the rows of the fit, or of other rows."""
        if given is None:
            return None
        if has_rows(given):
            Q, D, given = self._new_queries(given[0]), self._new_documents(given[1]), given[2]
        return Q, D, check_triplets(given, Q, D, "held_out")

    def _held_out_classes(self, given: Any) -> Rows | None:
        """Triplets that are drawn from other rows with classes."""
        if given is None:
            return None
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            raise DataError("held_out of fit_classes must be a tuple (X, labels) of other rows.")
        rows = self._new_queries(given[0])
        numbers = check_classes(given[1], rows.shape[0], "held_out labels")
        full = np.flatnonzero(np.diff(rows.indptr))  # rows without a known word have no score
        kept = check_classes(numbers[full], len(full), "held_out labels of rows with a known word")
        drawn = from_classes(kept)(np.random.default_rng(0), DRAWN_TRIPLETS)
        return rows, rows, full[drawn]

    def _set_names(self, Q: Any, D: Any, query_names: Any, document_names: Any) -> None:
        for attribute, X, names, n in (
            ("query", Q, query_names, self.n_features_in_),
            ("document", D, document_names, self.n_document_features_),
        ):
            given = columns_of(X) if names is None else names
            checked = check_names(given, n, f"{attribute}_names")
            setattr(self, f"{attribute}_names_", checked)


def _checked_matrix(init: Any, shape: tuple[int, int], dtype: Any) -> sp.csr_array:
    """A given start as a CSR array without explicit zeros."""
    try:
        rows = check_array(init, accept_sparse="csr", dtype=dtype, input_name="init")
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]  # the other lines show the matrix
        raise ParameterError(
            f'init must be "identity", "zeros" or a matrix of finite numbers: {reason}'
        ) from error
    if rows.shape != shape:
        raise ParameterError(
            f"init must have shape {shape}, a row for each feature of queries and a column for "
            f"each feature of documents: got {rows.shape}."
        )
    matrix = sp.csr_array(rows, dtype=dtype, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def by_frequency(D: sp.csr_array) -> NDArray[np.int32]:
    """New numbers of the columns of D, by decreasing frequency.

    What a step reads then lies close together in memory, where steps spend most of their time.
    """
    counts = np.bincount(D.indices, minlength=D.shape[1])
    return np.argsort(np.argsort(-counts, kind="stable")).astype(np.int32)


def renumbered(X: sp.csr_array, numbers: NDArray[np.int32]) -> sp.csr_array:
    """The same rows with renumbered columns."""
    moved = sp.csr_array((X.data.copy(), numbers[X.indices], X.indptr), shape=X.shape)
    moved.sort_indices()
    return moved
