"""Further comparisons for a fitted `PairwiseGP`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rankwise.backends.arrays import Array
from rankwise.errors import ParameterError
from rankwise.estimators._context import fitted_context
from rankwise.estimators.gp.context_columns import rows_in_context
from rankwise.estimators.gp.fit_steps import LearningMixin
from rankwise.estimators.gp.pool import pool_of, told
from rankwise.estimators.gp.process_mixture import ProcessMixture
from rankwise.estimators.gp.suggest import POOL
from rankwise.estimators.gp.training_comparisons import (
    check_comparisons,
)
from rankwise.graph.comparison_checks import check_comparison_ids
from rankwise.graph.comparisons import Comparisons


class TellMixin(LearningMixin):
    """Adds `tell` to a `PairwiseGP`: few sites change at a time."""

    _new: Any
    _items: Any

    def tell(
        self,
        pair: Any,
        *,
        margin: Any = None,
        weight: Any = None,
        rater: Any = None,
        context: Any = None,
        X: Any = None,
    ) -> Self:
        """Learn from further comparisons, starting from the present posterior.

        The hyperparameters stay as they are (`fit_pairs` would choose them again). At the first
        tie of ``tie_model="threshold"``, the threshold becomes the parameter `threshold`. The sites
        of earlier comparisons are the start. After `suggest_pair` on the training rows, few sites
        change: O(n^2) for each of them. A few sweeps follow when something else than the next pair
        is asked.

        Parameters
        ----------
        pair : array-like of shape (2,) or (n_pairs, 2), or rankwise.data.Comparisons
            Row numbers, the preferred row first. `Comparisons` have item ids, outcomes, weights
            and context; their items are the rows of the fit, or those of `X`.
        margin, weight : float or array-like, optional
            As in `fit_pairs`.
        rater : id or array-like of shape (n_pairs,), optional
            Who made the comparisons, after a fit with raters. None: the common slope, 1. One who
            is not known has this slope, too, with a warning.
        context : array-like of shape (n_pairs, n_columns), or (n_columns,) for one pair, optional
            Features of the comparisons, after a fit with context. None: 0.
        X : array-like or sparse of shape (n_rows, n_features), optional
            The rows that `pair` numbers; they are added to the training rows. None: the
            training rows.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        rows = self.X_fit_ if X is None else self._new(X)
        n_rows = len(rows)
        if isinstance(pair, Comparisons):
            pairs: Any = pair
            if X is None and pair.items is not None:
                n_rows = len(self._items())
        else:
            pairs = np.atleast_2d(np.asarray(pair)) if np.size(pair) else np.zeros((0, 2), np.intp)
            if context is not None and len(pairs) == 1:
                context = np.reshape(context, (1, -1))
        margin = None if margin is None else np.atleast_1d(margin)
        weight = None if weight is None else np.atleast_1d(weight)
        new = check_comparisons(X, n_rows, pairs, margin, weight, context, self.likelihood)
        if new.context is not None:
            new = replace(new, context=fitted_context(self, new.context, len(new)))
        raters = self._told_raters(rater, len(new))
        counted = new.weight > 0
        new = new.take(counted)
        X_fit = self.X_fit_
        if X is not None:
            new = replace(new, pairs=new.pairs + len(X_fit))
            X_fit = np.vstack((X_fit, rows))
        if new.context is not None:
            X_fit, new = rows_in_context(X_fit, new, self.context_scale_)
        comparisons = self._comparisons + new
        if raters is not None and self.rater_ is not None:
            raters = np.concatenate((self.rater_, raters[counted]))
        threshold = self.threshold_ or self._threshold(self._observations(new, None))
        evidence = self._fitted_evidence(X_fit, comparisons, raters, threshold)
        pool, same_rows = None, len(X_fit) == len(self.X_fit_)
        if self._pool is not None and same_rows and threshold == self.threshold_:
            pool = told(self._pool, X_fit, evidence)
        if pool is not None:
            self.__dict__.pop("posterior_", None)  # made again when it is needed
            self._pool, self.n_sweeps_ = pool, 1
            self.log_marginal_likelihood_value_ = pool.log_evidence
            self._keep_comparisons(comparisons, raters)
            return self
        posterior = self.posterior_.updated(evidence)
        self.theta_, self.threshold_ = evidence.start, threshold
        self._keep(X_fit, comparisons, raters, posterior)
        return self

    def __getattr__(self, name: str) -> Any:
        """The posterior, if `tell` has only updated the moments of the training rows."""
        pool = vars(self).get("_pool")
        if name != "posterior_" or pool is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        evidence = self._present_evidence()
        process = evidence.condition(evidence.hyper, (pool.tau, pool.nu))
        self.posterior_ = ProcessMixture.of([process], np.ones(1))
        return self.posterior_

    def __getstate__(self) -> Any:
        """The state for copies and files: with the posterior, without what it is made of."""
        if vars(self).get("_pool") is not None:
            _ = self.posterior_
        state: Any = super().__getstate__()
        return {key: value for key, value in state.items() if key != "_pool"}

    def _pool_moments(self, X: Array) -> tuple[Array, Array] | None:
        """Mean and covariance of scores, if X are the training rows, and kept for `tell`."""
        if len(X) > POOL or not np.array_equal(X, self.X_fit_):
            return None
        updates = self.likelihood == "probit" and self.inference == "ep"
        if not updates or self.landmarks_ is not None or len(self.grid_weights_) > 1:
            return None
        if self._pool is None:
            self._pool = pool_of(self.posterior_.best, self.X_fit_, self._present_evidence())
        pool, noise = self._pool, self.noise_
        covariance = pool.covariance if noise == 1.0 else noise**2 * pool.covariance
        return noise * pool.mean, covariance

    def _told_raters(self, rater: Any, n_pairs: int) -> Any:
        """Numbers of the raters of comparisons to add; None if the fit had no raters."""
        if self.raters_ is None:
            if rater is not None:
                raise ParameterError("tell can have a rater only if the fit had raters.")
            return None
        if rater is None:
            return np.full(n_pairs, -1)
        rater = np.full(n_pairs, rater) if np.ndim(rater) == 0 else rater
        return self.raters_.numbers(check_comparison_ids("rater", rater, n_pairs))
