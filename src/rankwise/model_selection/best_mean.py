"""The mean of the best candidates, chosen by their held-out scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from rankwise.backends.arrays import Array, Index
from rankwise.graph import QueryGroups
from rankwise.metric_names import metric_label
from rankwise.metrics import get_metric
from rankwise.model_selection.meta_rankers import standardized
from rankwise.model_selection.trials import RowTrials, unit_codes

MARGIN = 0.05  # of the best score, or of its distance from 1: less is not worth leaving out
FOLDS = 10  # of queries, for the estimate
FEWEST = 5  # queries or folds for an interval


@dataclass(frozen=True)
class ScoreEstimate:
    """The score that a chosen mean can be expected to have on new queries.

    Attributes
    ----------
    metric : str
    greater_is_better : bool
    score : float
        Mean over queries, each of which was scored by the mean of rankers that was chosen without
        it, with the predictions of rankers that were trained without it.
    standard_error : float
        Of `score`, over queries; NaN if there is only one.
    optimistic : float
        The score of the mean that was chosen by all queries, on the same queries.
    n_queries : int
        Queries with a score.
    unit : str
        "queries", or "folds" of the rows of one global ranking, which take their place.

    Examples
    --------
    >>> estimate = ScoreEstimate("ndcg@10", True, 0.512, 0.01, 0.52, 100)
    >>> print(estimate)
    NDCG@10 0.5120, 95% interval 0.4924 to 0.5316 (100 queries)
    """

    metric: str
    greater_is_better: bool
    score: float
    standard_error: float
    optimistic: float
    n_queries: int
    unit: str = "queries"

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """A confidence interval of the score, from the normal approximation.

        Parameters
        ----------
        level : float, default=0.95

        Returns
        -------
        tuple of two floats
            NaN if there are fewer than 5 queries (or folds), or if all have the same score: these
            say nothing about the spread of scores.
        """
        if self.n_queries < FEWEST or not self.standard_error > 0:
            return float("nan"), float("nan")
        from scipy.stats import norm

        width = float(norm.isf((1 - level) / 2)) * self.standard_error
        return self.score - width, self.score + width

    def __str__(self) -> str:
        low, high = self.interval()
        found = f"{metric_label(self.metric)} {self.score:.4f}"
        units = f"{self.n_queries:,} {self.unit}"
        if self.n_queries < FEWEST:
            return f"{found} ({units}, too few for an interval)"
        if np.isnan(low):
            return f"{found} ({units}, all with the same score: no interval)"
        return f"{found}, 95% interval {low:.4f} to {high:.4f} ({units})"

    def __repr__(self) -> str:
        return f"<ScoreEstimate: {self}>"


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference of two candidates over queries, and its standard error.

    Attributes
    ----------
    difference : float
        Positive if the first is better.
    standard_error : float
        NaN if there is only one query.
    n_queries : int

    Examples
    --------
    >>> import numpy as np
    >>> gap = PairedDifference.of(np.array([0.1, 0.0, 0.2, 0.1]))
    >>> round(gap.difference, 3), round(gap.standard_error, 3), gap.is_clear
    (0.1, 0.041, False)
    >>> gap.words("This ranker", "that one", "ndcg@10")
    'This ranker is 0.1000 better than that one in NDCG@10, with a standard error of 0.0408: the \
data cannot tell them apart.'
    """

    difference: float
    standard_error: float
    n_queries: int

    @classmethod
    def of(cls, gap: Array) -> PairedDifference:
        """From the difference on each query."""
        n = len(gap)
        error = float(gap.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
        return cls(float(gap.mean()), error, n)

    @property
    def is_clear(self) -> bool:
        """Whether Student's t test at the level of 5% finds a difference; False for one query."""
        if self.n_queries < 2:
            return False
        return abs(self.difference) > clear_errors(self.n_queries) * self.standard_error

    def __repr__(self) -> str:
        gap = f"{self.difference:.4f}, with a standard error of {self.standard_error:.4f}"
        return f"<PairedDifference: {gap}, over {self.n_queries:,} queries>"

    def words(self, first: str, second: str, metric: str) -> str:
        """One sentence: how far the first is ahead of the second, and whether that is clear."""
        metric = metric_label(metric)
        if self.n_queries < 2:
            return f"With a single value of {metric}, {first} and {second} cannot be compared."
        verdict = "a clear difference" if self.is_clear else "the data cannot tell them apart"
        better = "better" if self.difference >= 0 else "worse"
        return (
            f"{first} is {abs(self.difference):.4f} {better} than {second} in {metric}, with a "
            f"standard error of {self.standard_error:.4f}: {verdict}."
        )


def clear_errors(n_queries: int) -> float:
    """The number of standard errors from which a mean difference is clear, by Student's t test."""
    return float(stdtrit(n_queries - 1, 0.975))


@dataclass(frozen=True, eq=False)
class HeldOutPool:
    """Held-out scores of several candidates for the same rows.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,)
    groups : QueryGroups
        The queries of the rows, or the folds of the rows of one global ranking.
    scores : ndarray of shape (n_candidates, n_rows)
        Held-out scores, standardized within queries, in float32.
    batches : ndarray of shape (n_candidates,)
        Candidates that differ only in alpha have the same number here.
    metric : str
        A name of `rankwise.metrics.METRICS`.
    unit : str
        What the groups are: "queries" or "folds".
    per_batch : int
        How many candidates that differ only in alpha a mean may have.
    """

    labels: Array
    groups: QueryGroups
    scores: NDArray[np.float32]
    batches: Index
    metric: str
    unit: str = "queries"
    per_batch: int = 2

    @classmethod
    def of(
        cls,
        labels: Array,
        queries: Any,
        predictions: Array,
        batches: Index,
        metric: str,
        unit: str = "queries",
    ) -> HeldOutPool:
        """A pool of predictions that are not yet standardized."""
        groups = QueryGroups.of(queries, len(labels))
        scores = standardized(predictions, groups).astype(np.float32)
        return cls(labels, groups, scores, batches, metric, unit)

    @classmethod
    def of_splits(cls, trials: RowTrials, predictions: Array, batches: Index) -> HeldOutPool:
        """A pool of predictions for the rows of all splits."""
        data, splits = trials.data, trials.splits
        labels, metric = data.labels[splits.rows, 0], str(trials.scorer.scoring)
        # Scores of different folds of one ranking have different offsets.
        unit = "folds" if data.groups.n_groups == 1 else "queries"
        return cls.of(labels, unit_codes(data, splits), predictions, batches, metric, unit)

    @cached_property
    def values(self) -> Array:
        """The metric of each candidate on each query where it is defined.

        Shape (n_candidates, n_queries); greater is better, so errors are negated.
        """
        return np.stack([self._values(scores) for scores in self.scores])

    def _values(self, scores: Any) -> Array:
        function, greater_is_better = get_metric(self.metric)
        values = function(self.labels, scores, self.groups.codes, per_query=True).values
        return np.asarray(values if greater_is_better else 0.0 - values)

    def mean_values(self, chosen: Index) -> Array:
        """The metric of the mean of candidates on each query."""
        return self._values(self.scores[chosen].mean(axis=0))

    def choose(self, n_best: int, queries: Any = slice(None)) -> Index:
        """The candidates whose mean is to be used, best first.

        These are the best candidates by their mean over queries, at most `n_best` of them, and at
        most `per_batch` that differ only in alpha. A candidate is left out if a paired t test over
        the same queries finds it worse than the best, and the difference matters: more than 5% of
        the best score, or of its distance from 1, if that is less. So few queries, which cannot
        tell candidates apart, lead to a mean of many.
        """
        values = self.values[:, queries]
        means, n = values.mean(axis=1), values.shape[1]
        order = np.argsort(-means, kind="stable")
        best = order[0]
        top = means[best] + (0.0 if get_metric(self.metric).greater_is_better else 1.0)
        worse = means[best] - means > MARGIN * max(0.0, min(top, 1.0 - top))
        if n > 1:
            errors = (values[best] - values).std(axis=1, ddof=1) / np.sqrt(n)
            worse &= means[best] - means > clear_errors(n) * errors
        else:
            worse[:] = False
        chosen: list[int] = []
        used = np.zeros(self.batches.max() + 1, dtype=np.intp)
        for candidate in order[~worse[order]]:
            if used[self.batches[candidate]] < self.per_batch:
                chosen.append(int(candidate))
                used[self.batches[candidate]] += 1
            if len(chosen) == n_best:
                break
        return np.array(chosen)

    def outer_values(self, n_best: int) -> Array:
        """The metric on each query of the mean that is chosen by the other queries."""
        n = self.values.shape[1]
        if n == 1:
            return self.mean_values(self.choose(n_best))
        fold, values = np.arange(n) % FOLDS, np.empty(n)
        for k in range(min(n, FOLDS)):
            out = fold == k
            values[out] = self.mean_values(self.choose(n_best, ~out))[out]
        return values

    def estimate(self, chosen: Index, outer: Array) -> ScoreEstimate:
        """What to expect of a choice on new queries, from `outer_values`."""
        greater_is_better = get_metric(self.metric).greater_is_better
        sign = 1.0 if greater_is_better else -1.0
        spread = PairedDifference.of(outer)
        return ScoreEstimate(
            self.metric,
            greater_is_better,
            sign * spread.difference + 0.0,
            spread.standard_error,
            sign * float(self.mean_values(chosen).mean()) + 0.0,
            len(outer),
            self.unit,
        )
