"""What the posterior of a pairwise Gaussian process can be asked."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.backends.arrays import Array, Index, is_sparse
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._checks import check_choice, check_random_state, check_whole
from rankwise.estimators.gp.mixture import Mixture, rank_counts
from rankwise.estimators.gp.suggest import STRATEGIES, candidate_pairs, choose


class PosteriorMixin:
    """Scores, probabilities, draws, and the next question, from a fitted posterior."""

    likelihood: str
    ties: str
    _posterior: Mixture

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Scores of rows, and how sure they are.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        return_std : bool, default=False
            Standard deviations as well.
        return_cov : bool, default=False
            The covariance as well.

        Returns
        -------
        mean : ndarray of shape (n_rows,)
        std : ndarray of shape (n_rows,)
            With `return_std`.
        cov : ndarray of shape (n_rows, n_rows)
            With `return_cov`.
        """
        if return_std and return_cov:
            raise ParameterError("return_std or return_cov, not both: the first is in the second.")
        X = self._new(X)
        if return_std:
            return self._posterior.mean_and_std(X)
        return self._posterior.mean_and_covariance(X) if return_cov else self._posterior.mean(X)

    def predict_preference(self, X1: Any, X2: Any, observed: bool = False) -> Array:
        """Probability that a row of X1 is better than that of X2, row by row: equation (11).

        Parameters
        ----------
        X1, X2 : array-like or sparse of shape (n_pairs, n_features)
        observed : bool, default=False
            Of being preferred in a comparison, with its noise, rather than of being better. A
            tie counts half.

        Returns
        -------
        ndarray of shape (n_pairs,)
        """
        X1, X2 = self._new_pairs(X1, X2)
        if not observed:
            return self._posterior.average(lambda c: c.preference(X1, X2))
        return self._posterior.average(lambda c: np.array([1.0, 0.5]) @ c.outcomes(X1, X2))

    def predict_tie(self, X1: Any, X2: Any) -> Array:
        """Probability of a tie between a row of X1 and that of X2; needs ``ties="threshold"``.

        Parameters
        ----------
        X1, X2 : array-like or sparse of shape (n_pairs, n_features)

        Returns
        -------
        ndarray of shape (n_pairs,)
        """
        X1, X2 = self._new_pairs(X1, X2)
        if self.likelihood != "probit" or self.ties != "threshold":
            raise ParameterError(
                'Only the probit likelihood with ties="threshold" knows the probability of a tie.'
            )
        return self._posterior.average(lambda c: c.outcomes(X1, X2)[1])

    def sample(self, X: Any, n: int = 1, *, random_state: Any = None) -> Array:
        """Draw score functions from the posterior: O(m^3 + n m^2) for m rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        n : int, default=1
            How many.
        random_state : int, Generator or None, default=None

        Returns
        -------
        ndarray of shape (n, n_rows)
        """
        check_whole("n", n, 1, 10**9)
        return self._posterior.sample(self._new(X), n, check_random_state(random_state))

    def rank_probabilities(
        self, X: Any, *, n_samples: int = 2000, random_state: Any = None
    ) -> Array:
        """Chance of every row to be at every place, among these rows, by sampling.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        n_samples : int, default=2000
            Entries have a standard error of 1 / (2 sqrt(n_samples)) at most.
        random_state : int, Generator or None, default=None

        Returns
        -------
        ndarray of shape (n_rows, n_rows)
            Entry (i, k): row i at place k, 0 being the best. Rows and columns sum to 1.
        """
        check_whole("n_samples", n_samples, 1, 10**9)
        rng = check_random_state(random_state)
        draws = self.sample(X, n_samples, random_state=rng)
        return np.asarray(rank_counts(draws, rng) / n_samples)

    def suggest_pair(
        self,
        X: Any,
        *,
        strategy: str = "bald",
        candidates: Any = None,
        n_pairs: int = 1,
        random_state: Any = None,
    ) -> Index:
        """Rows to compare next.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
            What can be compared.
        strategy : {"bald", "eubo", "thompson", "random"}, default="bald"
            "bald": where the outcome tells most about the scores; for a good ranking of all
            rows. "eubo": where the better of the two is expected to be best; for the best row.
            "thompson": the best rows of two draws from the posterior. "random": any.
        candidates : int or array-like of shape (n_candidates, 2), optional
            Pairs to choose from, or how many to draw at random. None: all pairs, of 2,000 rows
            drawn at random where there are more.
        n_pairs : int, default=1
            How many pairs to choose at a time, such that they do not ask the same.
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
        """
        check_choice("strategy", strategy, STRATEGIES)
        X = self._new(X)
        rng = check_random_state(random_state)
        pairs = candidate_pairs(len(X), candidates, rng)
        check_whole("n_pairs", n_pairs, 1, len(pairs))
        chosen = choose(
            self._posterior, X, pairs, strategy, n_pairs, likelihood=self.likelihood, rng=rng
        )
        return chosen[0] if n_pairs == 1 else chosen

    def _new(self, X: Any) -> Array:
        check_is_fitted(self)
        return dense(validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False))

    def _new_pairs(self, X1: Any, X2: Any) -> tuple[Array, Array]:
        X1, X2 = self._new(X1), self._new(X2)
        if len(X1) != len(X2):
            raise DataError(
                f"X1 and X2 are compared row by row: got {len(X1)} and {len(X2)} rows. For all "
                "pairs, repeat the rows."
            )
        return X1, X2


def dense(X: Any) -> Array:
    return np.ascontiguousarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)
