"""SparseBilinearRanker: weights for pairs of query and document features."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from rankwise.errors import DataError, ParameterError
from rankwise.estimators._call_errors import explain_calls
from rankwise.estimators.bilinear.bilinear_parameters import (
    STREAM_PARAMETERS,
    check_bilinear_parameters,
    check_streamable,
    given_lam,
    learner_for,
    number,
    starting_weights,
    stream_value,
)
from rankwise.estimators.bilinear.bilinear_scoring import BilinearScorer
from rankwise.estimators.bilinear.bilinear_training import (
    BilinearTraining,
    TrainingRecord,
    by_frequency,
    renumbered,
)
from rankwise.estimators.bilinear.fit_checkpoint import FitCheckpoint, fingerprint
from rankwise.estimators.bilinear.held_out_triplets import (
    HeldOut,
    held_out_classes,
    held_out_triplets,
)
from rankwise.estimators.bilinear.triplet_checks import (
    check_classes,
    check_full_rows,
    check_grades,
    check_names,
    check_rows,
    check_triplets,
    columns_of,
)
from rankwise.parameters import Whole, as_generator, check_value
from rankwise.solvers.bilinear.bilinear_sgd import OVERFLOWED
from rankwise.solvers.bilinear.step_arrays import csr_parts
from rankwise.solvers.bilinear.triplet_sampling import (
    DrawnTriplets,
    TripletSampler,
    TripletsInOrder,
    from_classes,
    from_grades,
    from_triplets,
)


class SparseBilinearRanker(BilinearScorer):
    """Ranker that scores a document for a query by sparse weights of pairs of their features.

    f(q, d) = q'Wd is learned from triplets (query, preferred document, other document) by
    stochastic subgradient steps on

        mean over triplets of max(0, 1 - q'W(d+ - d-)) + alpha sum_ij |W_ij|,

    with shrinkage of W every `shrink_every` steps for the L1 norm (Algorithm 1). With `refit`, a
    second run without the L1 norm changes only the entries that are not 0. W can shrink to known
    weights instead of 0 (`shrink_to`), and whole rows or columns can become 0 (`penalty`).

    A step takes O(nnz(q) (nnz(d+) + nnz(d-) + r)) time, where r is the number of entries in a row
    of W. Memory is in the order of the nonzeros of W: 12 bytes each in `coef_` (8 in float32), and
    two to four times as much during the fit. Shrinkage is lazy and costs nothing.
    ``structure="dense"`` takes a full matrix.

    Unless `alpha` (or `target_density`) and `eta0` are numbers, a fifth of the queries are held
    out, with the documents that they prefer if most other queries do without these. At most 16
    short runs choose the rate and alpha, and W is then learned from the other queries. If it does
    not rank the held-out ones better than W before the first step did, that start is kept, with a
    warning. To learn from all queries, fit again with the numbers `alpha_` and `eta0_`.

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
        Rate of the first step, C in the paper, which has 200 with "invsqrt". "auto": chosen on
        held-out queries.
    schedule : {"adagrad", "invsqrt", "constant"}, default="adagrad"
        Rate of step t: for each row of W, eta0 divided by the root of the sum of its squared
        gradients; eta0 / sqrt(t), as in the paper; or eta0.
    shrink_every : int, default=100
        Steps between two shrinkages, T in the paper; at most all steps.
    refit : bool, default=True
        Whether to fit a second time, to the same triplets, without the L1 norm but only where W
        is not 0. This removes the bias of the shrinkage. Only for ``structure="sparse"``.
    structure : {"sparse", "dense", "diagonal", "identity"}, default="sparse"
        Of W: with the L1 norm; without it; one weight per feature that query and document share;
        or fixed to the identity, f(q, d) = q'd, the cosine of normalized rows.
    init : {"identity", "zeros"} or matrix, default="identity"
        W before the first step, as an array, a sparse matrix or a data frame with a row for each
        feature of queries and a column for each feature of documents. Identity needs queries and
        documents of the same features.
    shrink_to : {"zeros", "init"}, default="zeros"
        What the penalty is measured from: with "init", the sum of ``|W_ij - init_ij|``, so
        that weights without evidence stay at their values in `init`, for example those of related
        words or of an earlier fit. A refit changes the weights that differ from `init`.
    penalty : {"l1", "rows", "columns"}, default="l1"
        The sum of absolute values, or the sum of the Euclidean norms of rows or columns: all
        weights of a feature of queries, or of documents, then become 0 together. With "columns",
        "adagrad" has a rate for each column, and a step takes O((nnz(d+) + nnz(d-)) (nnz(q) + c))
        time, where c is the number of entries in a column of W.
    early_stopping : bool, default=False
        Whether to stop when the share of held-out triplets in the wrong order has not decreased
        for `n_iter_no_change` records. `n_iter` is then the largest number of steps. The
        triplets are those passed as `held_out`, or else those of a fifth of the queries, from
        which W does not learn.
    n_iter_no_change : int, default=5
        Records without a lower error after which `early_stopping` stops; see `record_every`.
    dtype : {"float64", "float32"}, default="float64"
        Of W.
    record_every : int, optional
        Steps between two records of the learning curve; with several threads, rounded up to a
        multiple of 16. None: a twentieth of all steps.
    n_jobs : int, default=1
        Threads. One thread runs exactly Algorithm 1. Several threads measure the margins of 16
        triplets before W changes. The results differ from those of one thread, but are the same
        every time for the same number of threads, on one machine.
    random_state : int, Generator or None, default=None
        Seed for drawing triplets. The same seed gives the same W, bit for bit, on one machine.
    verbose : bool, default=False
        Whether to show a progress bar with loss, density and steps per second, on stderr or in a
        notebook.

    Attributes
    ----------
    coef_ : csr_array of shape (n_query_features, n_document_features)
        W.
    alpha_, eta0_ : float
        The alpha and rate that were used; alpha is 0 for structures without an L1 norm, and both
        are 0 if W is what it was before the first step.
    trials_ : dict of ndarray
        If alpha or eta0 was chosen: "eta0", "alpha", "n_iter", "loss" and "score" of W before the
        first step, of the short runs, and of the fit. On triplets of held-out queries, "score" is
        the share in the right order; "loss" is the log loss of the order, and compares the runs.
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
    >>> from rankwise import SparseBilinearRanker
    >>> words = ["car", "auto", "fish"]
    >>> queries = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> documents = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> ranker = SparseBilinearRanker(alpha=0.01, n_iter=50, eta0=1.0, init="zeros")
    >>> ranker = ranker.set_params(shrink_every=10, random_state=0).fit(
    ...     queries, documents, [[0, 0, 1], [1, 1, 0]], query_names=words, document_names=words
    ... )
    >>> ranker.score_all(queries, documents).argmax(axis=1)
    array([0, 1])
    >>> [word for word, weight in ranker.related_features("car", k=1)]
    ['auto']
    """

    def __init__(
        self,
        alpha: float | str | None = "auto",
        *,
        target_density: float | None = None,
        n_iter: int | None = 100_000,
        eta0: float | str = "auto",
        schedule: str = "adagrad",
        shrink_every: int = 100,
        refit: bool = True,
        structure: str = "sparse",
        init: Any = "identity",
        shrink_to: str = "zeros",
        penalty: str = "l1",
        early_stopping: bool = False,
        n_iter_no_change: int = 5,
        dtype: str = "float64",
        record_every: int | None = None,
        n_jobs: int = 1,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.alpha = alpha
        self.target_density = target_density
        self.n_iter = n_iter
        self.eta0 = eta0
        self.schedule = schedule
        self.shrink_every = shrink_every
        self.refit = refit
        self.structure = structure
        self.init = init
        self.shrink_to = shrink_to
        self.penalty = penalty
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.dtype = dtype
        self.record_every = record_every
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

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
        in_order = self.n_iter is None
        n_steps = len(rows) if self.n_iter is None else self.n_iter

        def sampler_for(seed: int) -> TripletSampler:
            return TripletsInOrder(rows) if in_order else DrawnTriplets(from_triplets(rows), seed)

        return self._fit(
            queries, documents, sampler_for, n_steps, [rows], aside, checkpoint, checkpoint_every
        )

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
        if self.n_iter is None:
            raise ParameterError("fit_classes draws triplets: set n_iter to their number.")
        rows, _ = self._rows(X, X, "X")
        numbers = check_classes(labels, rows.shape[0])
        check_full_rows(rows, "X")
        self._set_names(X, X, names, names)
        aside = None
        if held_out is not None:
            aside = held_out_classes(held_out, self._new_queries)
        draw = from_classes(numbers)
        return self._fit(
            rows, rows, lambda seed: DrawnTriplets(draw, seed), self.n_iter, [numbers], aside,
            checkpoint, checkpoint_every,
        )  # fmt: skip

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
        if self.n_iter is None:
            raise ParameterError("fit_graded draws triplets: set n_iter to their number.")
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
            queries, documents, lambda seed: DrawnTriplets(draw, seed), self.n_iter,
            [query, values], aside, checkpoint, checkpoint_every,
        )  # fmt: skip

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

        However a stream is cut, the result is that of ``fit`` with ``n_iter=None`` on all of it.
        This needs a fixed `alpha`, one thread, and ``refit=False``: a refit would need the
        triplets twice. Parameters must not change between calls. After ``fit``, the first call
        starts again from `init`. Each call copies W: pass triplets by the hundred or more.

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
        check_streamable(self, stream)
        if stream:
            queries, documents = self._new_queries(Q), self._new_documents(D)
        else:
            self._forget()
            queries, documents = self._rows(Q, D)
        rows = check_triplets(triplets, queries, documents)
        shape = (queries.shape[1], documents.shape[1])
        if not stream:
            check_bilinear_parameters(self, shape)
            self._set_names(Q, D, query_names, document_names)
        self._forget()  # steps that fail leave nothing to resume from
        eta0, lam = number(self.eta0) or 0.0, given_lam(self) or 0.0
        learner = learner_for(self, starting_weights(self, shape), eta0, lam)
        if stream:
            learner.restore(stream["state"])
        if self.structure != "identity":
            learner.advance(csr_parts(queries), csr_parts(documents), rows)
        self._keep(learner.weights(), TrainingRecord(eta0, lam, learner.step))
        parameters = {name: stream_value(self, name) for name in STREAM_PARAMETERS}
        self.stream_ = {"parameters": parameters, "state": learner.state()}
        return self

    def _forget(self) -> None:
        """Remove what was fitted, so that a call that fails leaves an unfitted ranker."""
        for name in ("coef_", "stream_"):
            self.__dict__.pop(name, None)

    def _held_out(self, given: Any, Q: sp.csr_array, D: sp.csr_array) -> HeldOut | None:
        if given is None:
            return None
        return held_out_triplets(given, Q, D, self._new_queries, self._new_documents)

    def _fit(
        self,
        Q: sp.csr_array,
        D: sp.csr_array,
        sampler_for: Callable[[int], TripletSampler],
        n_steps: int,
        evidence: list[NDArray[Any]],
        held_out: HeldOut | None,
        checkpoint: str | os.PathLike[str] | None,
        checkpoint_every: int,
    ) -> Self:
        """Check parameters, order columns by frequency, fit, and keep the result."""
        shape = (Q.shape[1], D.shape[1])
        check_bilinear_parameters(self, shape)
        check_value("checkpoint_every", checkpoint_every, Whole(1))
        if self.structure == "sparse" and self.shrink_every > n_steps:
            raise ParameterError(
                f"W shrinks every {self.shrink_every} steps, but there are only {n_steps}: alpha "
                "would have no effect. Lower shrink_every, or take more steps."
            )
        record = TrainingRecord(number(self.eta0) or 0.0, given_lam(self) or 0.0)
        start = starting_weights(self, shape)
        if self.structure == "identity":
            self._keep(start, TrainingRecord())
            if held_out is not None:
                error = 1.0 - self._share_in_order(*held_out)
                only = {"step": 0, "loss": math.nan, "density": self.density_, "error": error}
                self.learning_curve_ = {name: np.array([only[name]]) for name in only}
            return self
        numbers = by_frequency(D)
        aside = None
        if held_out is not None:
            new_D = csr_parts(renumbered(held_out[1], numbers))
            aside = csr_parts(held_out[0]), new_D, held_out[2]
        kept = None
        if checkpoint is not None:
            kept = FitCheckpoint(Path(checkpoint), self._owner(Q, D, evidence, held_out))
            kept.check_folder()
        record.seed = int(as_generator(self.random_state).integers(2**63))
        training = BilinearTraining(
            self, csr_parts(Q), csr_parts(renumbered(D, numbers)), aside,
            renumbered(start, numbers), sampler_for, n_steps, Q is D,
            evidence[0] if evidence[0].ndim == 2 else None, record, kept,
            checkpoint_every,
        )  # fmt: skip
        W = training.run()
        self._keep(renumbered(W, np.argsort(numbers).astype(np.int32)), training.record)
        return self

    def _owner(
        self,
        Q: sp.csr_array,
        D: sp.csr_array,
        evidence: list[NDArray[Any]],
        held_out: HeldOut | None,
    ) -> str:
        """The fingerprint of a fit; without a seed, the checkpoint brings its own."""
        params = {**self.get_params(), "verbose": False}
        seeded = isinstance(self.random_state, (int, np.integer))
        params["random_state"] = int(self.random_state) if seeded else None
        params["init"] = stream_value(self, "init")
        arrays = [*csr_parts(Q), *csr_parts(D), *evidence]
        if held_out is not None:
            arrays += [*csr_parts(held_out[0]), *csr_parts(held_out[1]), held_out[2]]
        return fingerprint(params, arrays)

    def _keep(self, W: sp.csr_array, record: TrainingRecord) -> None:
        if not np.isfinite(W.data).all():
            raise DataError(OVERFLOWED)
        self.coef_ = W
        self.alpha_, self.eta0_ = record.lam, record.eta0
        self.density_ = W.nnz / max(W.shape[0] * W.shape[1], 1)
        self.n_iter_ = record.n_steps
        self.learning_curve_ = {name: np.array(x, float) for name, x in record.curve.items()}
        for name in ("refit_curve_", "trials_"):
            self.__dict__.pop(name, None)
        if record.trials["score"]:
            self.trials_ = {name: np.array(x) for name, x in record.trials.items()}
        if record.refit_curve["step"]:
            self.refit_curve_ = {name: np.array(x) for name, x in record.refit_curve.items()}

    def _rows(self, Q: Any, D: Any, name: str = "Q") -> tuple[sp.csr_array, sp.csr_array]:
        """Check the rows of a fit, and remember their features."""
        queries = check_rows(Q, name)
        documents = queries if D is Q else check_rows(D, "D")
        validate_data(self, Q, skip_check_array=True)
        self.n_document_features_ = documents.shape[1]
        self.document_columns_in_ = columns_of(D)
        return queries, documents

    def _set_names(self, Q: Any, D: Any, query_names: Any, document_names: Any) -> None:
        for attribute, X, names, n in (
            ("query", Q, query_names, self.n_features_in_),
            ("document", D, document_names, self.n_document_features_),
        ):
            given = columns_of(X) if names is None else names
            checked = check_names(given, n, f"{attribute}_names")
            setattr(self, f"{attribute}_names_", checked)
