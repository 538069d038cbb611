"""Predictions from the posterior of a pairwise Gaussian process."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._validation import check_new_ids, validated
from rankwise.estimators.least_squares.fit_pairs import fitted_context
from rankwise.estimators.pair_strategies import PairStrategy, suggest_pairs
from rankwise.estimators.ranker_mixin import in_dtype
from rankwise.gp.gp_results import RaterSlopes
from rankwise.gp.process import ProcessMixture, rank_counts
from rankwise.gp.process_kernels import in_context
from rankwise.parameters import Choice, Whole, as_generator, check_value
from rankwise.problem.memory import check_dense_fits

_N_SAMPLES = Whole(1, 10**9)


class PredictionsMixin:
    """Scores, probabilities, draws, and the next pair to compare, from a fitted posterior."""

    likelihood: str
    tie_model: Any
    posterior_: ProcessMixture
    X_fit_: Array
    noise_: float
    flips_: float
    raters_: RaterSlopes | None
    context_scale_: Array
    _pool_moments: Any

    def predict(
        self,
        X: Any,
        *,
        qid: Any = None,
        contrast: Any = None,
        return_std: bool = False,
        return_cov: bool = False,
    ) -> Any:
        """Predict scores of rows, and their uncertainty.

        Comparisons do not determine the level of all scores. The uncertainty of a single score
        includes the uncertainty of the level. So it stays close to the prior uncertainty, however
        many comparisons there are. For intervals of scores, use ``contrast="mean"``.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        qid : array-like of shape (n_rows,), optional
            The query of every row, as for all rankers. These scores do not depend on it.
        contrast : None, "mean" or array-like of shape (n_reference, n_features), default=None
            What is subtracted from every score. None: nothing. "mean": the mean score of the
            training rows, `X_fit_`. An array: the mean score of its rows.
        return_std, return_cov : bool, default=False
            Return standard deviations too, or the covariance.

        Returns
        -------
        mean : ndarray of shape (n_rows,)
        std, cov : ndarray of shape (n_rows,) or (n_rows, n_rows)
            On request.

        Examples
        --------
        >>> import numpy as np
        >>> from rankwise import PairwiseGP
        >>> X = np.arange(4.0)[:, None]
        >>> gp = PairwiseGP(optimizer=None).fit_pairs(X, np.repeat([[1, 0], [2, 1], [3, 2]], 50, 0))
        >>> gp.predict(X, return_std=True)[1].round(2)
        array([0.82, 0.81, 0.81, 0.82])
        >>> gp.predict(X, contrast="mean", return_std=True)[1].round(2)
        array([0.34, 0.22, 0.22, 0.34])
        """
        if return_std and return_cov:
            raise ParameterError(
                "Use return_std or return_cov, not both: the covariance contains the variances."
            )
        X = self._new(X)
        check_new_ids(qid, X)
        reference = self._reference(contrast)
        if return_std:
            found = self.posterior_.mean_and_std(X, reference)
        elif return_cov:
            found = self.posterior_.mean_and_covariance(X, reference)
        else:
            return in_dtype(self.posterior_.mean(X, reference), np.float64)
        return in_dtype(found[0], np.float64), found[1]

    def training_moments(self) -> tuple[Array, Array]:
        """Mean and covariance of the scores of the training rows, kept up to date by `tell`.

        `suggest_pair` chooses by these moments. They cost O(n^3) for the first call after a fit and
        O(n^2) after each `tell`, with errors of at most a thousandth of the spread. `predict` is
        more accurate, and slower after `tell`.

        Returns
        -------
        mean : ndarray of shape (n_rows,)
        covariance : ndarray of shape (n_rows, n_rows)

        Examples
        --------
        >>> import numpy as np
        >>> from rankwise import PairwiseGP
        >>> gp = PairwiseGP(optimizer=None).fit_pairs(np.arange(3.0)[:, None], [[2, 0]])
        >>> mean, covariance = gp.training_moments()
        >>> mean.argmax(), covariance.shape
        (np.int64(2), (3, 3))
        """
        check_is_fitted(self)
        known: tuple[Array, Array] | None = self._pool_moments(self.X_fit_)
        return self.posterior_.mean_and_covariance(self.X_fit_) if known is None else known

    def predict_difference(self, X1: Any, X2: Any) -> tuple[Array, Array]:
        """Mean and standard deviation of the difference of two scores, row by row.

        Parameters
        ----------
        X1, X2 : array-like or sparse of shape (n_pairs, n_features)

        Returns
        -------
        mean, std : ndarray of shape (n_pairs,)
            Of f(x1) - f(x2).
        """
        return self.posterior_.difference(*self._new_pairs(X1, X2))

    def predict_preference(
        self,
        X1: Any,
        X2: Any,
        *,
        observed: bool = False,
        rater: Any = None,
        context: Any = None,
    ) -> Array:
        """Probability that a row of X1 is better than the row of X2, row by row: equation (11).

        Parameters
        ----------
        X1, X2 : array-like or sparse of shape (n_pairs, n_features)
        observed : bool, default=False
            False: that its score is higher, whatever a comparison would say. True: that it wins
            a comparison, with its noise and flips, where a tie counts as half a win;
            `predict_outcomes` has the ties apart.
        rater : id or array-like of shape (n_pairs,), optional
            Who makes the comparisons, if `observed`. None: a rater of the common slope, 1. One
            who is not in `raters_` has this slope, too, with a warning.
        context : array-like of shape (n_pairs, n_columns), optional
            Features of the comparisons, if the process was fitted with them. None: 0.

        Returns
        -------
        ndarray of shape (n_pairs,)
        """
        X1, X2 = self._new_pairs(X1, X2, context)
        if not observed:
            if rater is not None:
                raise ParameterError(
                    "Whether a score is higher does not depend on the rater: use observed=True for "
                    "the comparisons of a rater."
                )
            return self.posterior_.average(lambda c: c.preference(X1, X2))
        s = self._slopes(rater, len(X1))
        return self.posterior_.average(lambda c: np.array([1.0, 0.5, 0.0]) @ c.outcomes(X1, X2, s))

    def predict_outcomes(
        self, X1: Any, X2: Any, *, rater: Any = None, context: Any = None
    ) -> Array:
        """Probabilities that a row of X1 wins, ties with or loses to the row of X2.

        They include the noise and flips of a comparison. The probability of a tie is 0, unless a
        ``tie_model`` with a threshold was fitted to some ties.

        Parameters
        ----------
        X1, X2 : array-like or sparse of shape (n_pairs, n_features)
        rater : id or array-like of shape (n_pairs,), optional
        context : array-like of shape (n_pairs, n_columns), optional
            As in `predict_preference`.

        Returns
        -------
        ndarray of shape (n_pairs, 3)
            Win, tie and loss of the row of X1, row by row. Rows sum to 1.

        Examples
        --------
        >>> from rankwise import PairwiseGP
        >>> X = [[0.0], [1.0], [2.0]]
        >>> gp = PairwiseGP(tie_model="threshold", optimizer=None)
        >>> gp = gp.fit_pairs(X, [[1, 0], [2, 1], [2, 0]], margin=["first", "tie", "first"])
        >>> gp.predict_outcomes(X[2:], X[:1]).round(2)
        array([[0.7, 0.2, 0.1]])
        """
        X1, X2 = self._new_pairs(X1, X2, context)
        s = self._slopes(rater, len(X1))
        return np.ascontiguousarray(self.posterior_.average(lambda c: c.outcomes(X1, X2, s)).T)

    def predict_tie(self, X1: Any, X2: Any, *, rater: Any = None, context: Any = None) -> Array:
        """Probability of a tie, row by row; needs a ``tie_model`` with a threshold.

        Parameters
        ----------
        X1, X2 : array-like or sparse of shape (n_pairs, n_features)
        rater : id or array-like of shape (n_pairs,), optional
        context : array-like of shape (n_pairs, n_columns), optional
            As in `predict_preference`.

        Returns
        -------
        ndarray of shape (n_pairs,)
        """
        X1, X2 = self._new_pairs(X1, X2, context)
        if self.likelihood != "probit" or self.tie_model == "half":
            raise ParameterError(
                'The probability of a tie needs likelihood="probit" and tie_model="threshold".'
            )
        s = self._slopes(rater, len(X1))
        return self.posterior_.average(lambda c: c.outcomes(X1, X2, s)[1])

    def sample(self, X: Any, *, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw score functions from the posterior: O(m^3 + n_samples m^2) for m rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        n_samples : int, default=1
        random_state : int, Generator or None, default=None

        Returns
        -------
        ndarray of shape (n_samples, n_rows)
        """
        check_value("n_samples", n_samples, _N_SAMPLES)
        return self.posterior_.sample(self._new(X), n_samples, as_generator(random_state))

    def rank_probabilities(
        self, X: Any, *, n_samples: int = 2000, random_state: Any = None
    ) -> Array:
        """Probability of every rank of every row, among these rows, by sampling.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        n_samples : int, default=2000
            The standard error of an entry is at most 1 / (2 sqrt(n_samples)).
        random_state : int, Generator or None, default=None

        Returns
        -------
        ndarray of shape (n_rows, n_rows)
            Entry (i, k): the probability that row i has rank k, 0 being the best. Rows and
            columns sum to 1.
        """
        rng = as_generator(random_state)
        draws = self.sample(X, n_samples=n_samples, random_state=rng)
        return np.asarray(rank_counts(draws, rng) / n_samples)

    def suggest_pair(
        self,
        X: Any,
        *,
        strategy: str | PairStrategy = "bald",
        candidates: Any = None,
        n_pairs: int = 1,
        random_state: Any = None,
    ) -> Index:
        """Choose the rows to compare next.

        If X are the training rows, at most 2,000, their moments are kept for the next question,
        and `tell` updates them: O(n^3) for the first question, and O(n^2) for others.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
            The rows that can be compared.
        strategy : {"bald", "eubo", "thompson", "random"} or object, default="bald"
            "bald": the pair whose outcome gives most information about the scores; for a good
            ranking of all rows. "eubo": the pair whose better row has the highest expected
            score; for finding the best row. "thompson": the best rows of two draws from the
            posterior. "random": any pair. An object with a method ``choose(belief, n_pairs)``: it
            returns the positions of pairs in ``belief.pairs``. The belief has the mean and
            covariance of the scores, draws of them, and ``best_pairs(worth, n_pairs)``.
        candidates : int or array-like of shape (n_candidates, 2), optional
            Pairs to choose from, or how many to draw at random. None: all pairs of rows; of
            more than 2,000 rows, 2,000 are drawn at random first.
        n_pairs : int, default=1
            How many pairs to choose. The choice of each takes the ones before into account.
        random_state : int, Generator or None, default=None

        Returns
        -------
        ndarray of shape (2,), or (n_pairs, 2) for more than one
            Row numbers of X.

        Examples
        --------
        >>> import numpy as np
        >>> from rankwise import PairwiseGP
        >>> X = np.linspace(0, 1, 50)[:, None]
        >>> gp = PairwiseGP(optimizer=None).fit_pairs(X, [[10, 40]])
        >>> i, j = gp.suggest_pair(X, random_state=0)
        >>> gp = gp.tell([i, j])  # i won
        >>> len(gp.pairs_)
        2

        A strategy of your own, which asks about rows with similar scores:

        >>> class Closest:
        ...     def choose(self, belief, n_pairs):
        ...         return belief.best_pairs(lambda f, g, variance: -abs(f - g), n_pairs)
        >>> gp.suggest_pair(X, strategy=Closest(), n_pairs=3).shape
        (3, 2)
        """
        X = self._new(X)
        rng = as_generator(random_state)

        def moments(rows: Index) -> tuple[Array, Array]:
            known = self._pool_moments(X)
            if known is None:
                return self.posterior_.mean_and_covariance(X[rows])
            mean, covariance = known
            if len(rows) == len(X):
                return mean, covariance
            return mean[rows], covariance[np.ix_(rows, rows)]

        chosen = suggest_pairs(
            strategy,
            n_pairs,
            len(X),
            candidates,
            rng,
            moments=moments,
            sample=lambda rows, n: self.posterior_.sample(X[rows], n, rng),
            noise=self.noise_,
            flips=self.flips_,
            likelihood=self.likelihood,
        )
        return chosen[0] if n_pairs == 1 else chosen

    def _new(self, X: Any) -> Array:
        """Check rows to predict."""
        check_is_fitted(self)
        X = dense(validated(self, X, accept_sparse="csr", dtype=np.float64, reset=False))
        scale = getattr(self, "context_scale_", None)
        return X if scale is None else in_context(X, scale, None)

    def _slopes(self, rater: Any, n_pairs: int) -> Any:
        """The slope of each comparison to predict."""
        if rater is None:
            return 1.0
        if self.raters_ is None:
            raise ParameterError(
                "The fit had no raters: give them to fit_pairs, or leave out rater here."
            )
        return self.raters_.slopes_of(rater, n_pairs)

    def _reference(self, contrast: Any) -> Array | None:
        """Rows whose mean score is subtracted from others."""
        if contrast is None:
            return None
        if isinstance(contrast, str):
            check_value("contrast", contrast, Choice("mean"))
            return self._items()
        return self._new(contrast)

    def _items(self) -> Array:
        """The training rows, without rows of items in a context."""
        scale = getattr(self, "context_scale_", None)
        if scale is None:
            return self.X_fit_
        return self.X_fit_[~self.X_fit_[:, -len(scale) :].any(axis=1)]

    def _new_pairs(self, X1: Any, X2: Any, context: Any = None) -> tuple[Array, Array]:
        """Check rows to compare one by one, the first ones in a context."""
        X1, X2 = self._new(X1), self._new(X2)
        if len(X1) != len(X2):
            raise DataError(
                f"X1 and X2 are compared row by row: got {len(X1)} and {len(X2)} rows. To compare "
                "all pairs, repeat the rows."
            )
        if context is not None:
            values = fitted_context(self, context, len(X1))
            X1 = in_context(X1[:, : -values.shape[1]], self.context_scale_, values)
        return X1, X2


def dense(X: Any) -> Array:
    """Rows as a dense array."""
    if is_sparse(X):
        check_dense_fits(X, "PairwiseGP needs dense rows: use RankRLS or RankSVM.")
    return np.ascontiguousarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)
