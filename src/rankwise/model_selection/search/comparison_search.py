"""A search on comparisons: groups of them are held out, exactly over alpha and by refits."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.least_squares.base import LeastSquaresRanker
from rankwise.gp.pairwise_gp import PairwiseGP
from rankwise.graph import QueryGroups
from rankwise.graph.comparisons import Comparisons
from rankwise.holdout.comparison_hold_out import without_items
from rankwise.holdout.hold_out_problem import explained_rounding
from rankwise.holdout.scores import GREATER_IS_BETTER, ObservedComparisons
from rankwise.metric_names import COMPARISON_METRICS
from rankwise.model_selection._held_out_comparisons import edge_system, without_folds
from rankwise.model_selection.search.candidate_scores import Run, Task
from rankwise.model_selection.search.exact import FEW_SPLITS, is_too_wide
from rankwise.model_selection.search.grid_candidates import Batch, Outcome
from rankwise.model_selection.search.labelled_rows import take
from rankwise.model_selection.search.splits import listed_splits
from rankwise.parameters import as_generator

SCORINGS = ("disagreement", *GREATER_IS_BETTER)
SINGLE = ("leave_query_out", "leave_comparison_out")
ITEMS = "leave_item_out"


@dataclass(frozen=True)
class ComparisonScorer:
    """A metric of held-out comparisons, negated if it is an error.

    Attributes
    ----------
    scoring : str
    negated : bool
    """

    scoring: str
    negated: bool

    @classmethod
    def of(cls, scoring: Any) -> ComparisonScorer:
        """From the parameter `scoring` of a search."""
        if not isinstance(scoring, str) or scoring not in SCORINGS:
            raise ParameterError(
                f"scoring of comparisons must be one of {', '.join(SCORINGS)}: got {scoring!r}."
            )
        return cls(scoring, not GREATER_IS_BETTER.get(scoring, False))

    def __call__(self, observed: ObservedComparisons, found: Predictions) -> tuple[float, float]:
        """The score, and its standard error over groups."""
        score, error = observed.score(
            self._metric, found.difference, self._chances(observed, found)
        )
        return self._signed(score), error

    def by_split(
        self, observed: ObservedComparisons, found: Predictions, split: Index, n_splits: int
    ) -> Array:
        """The score of each split; NaN if its comparisons have no weight."""
        values = observed.values(self._metric, found.difference, self._chances(observed, found))
        total = np.bincount(split, observed.weight, n_splits)
        sums = np.bincount(split, observed.weight * values, n_splits)
        means = np.full(n_splits, np.nan)
        np.divide(sums, total, out=means, where=total > 0)
        return np.asarray(self._signed(means))

    @property
    def _metric(self) -> str:
        return "accuracy" if self.scoring == "disagreement" else self.scoring

    def _signed(self, score: Any) -> Any:
        if self.scoring == "disagreement":
            return score - 1.0
        return 0.0 - score if self.negated else score

    def _chances(self, observed: ObservedComparisons, found: Predictions) -> Array | None:
        if COMPARISON_METRICS[self._metric].of != "probability":
            return None
        if found.probability is not None:
            return found.probability
        return observed.probability(found.difference)


class Predictions(NamedTuple):
    """Predicted differences of comparisons, and probabilities if the ranker has its own."""

    difference: Array
    probability: Array | None = None


@dataclass(frozen=True, eq=False)
class ComparisonSplits:
    """Comparisons to hold out, split by split.

    Attributes
    ----------
    fold : ndarray of shape (n_pairs,) or None
        The split of every comparison; None if splits are listed, or items are held out.
    tests, trains : list of ndarray
        Numbers of comparisons, if splits are listed.
    items : bool
        Whether items are held out instead, with all their comparisons.
    codes : ndarray of shape (n_pairs,)
        The group of each comparison.
    """

    codes: Index
    fold: Index | None = None
    tests: tuple[Index, ...] = ()
    trains: tuple[Index, ...] = ()
    items: bool = False

    @classmethod
    def of(cls, cv: Any, given: Comparisons, random_state: Any) -> ComparisonSplits:
        """From the parameter `cv` of a search."""
        n = len(given)
        codes = np.arange(n) if given.groups is None else QueryGroups.of(given.groups).codes
        n_groups, what = int(codes.max()) + 1, "comparisons" if given.groups is None else "groups"
        if isinstance(cv, str):
            if cv == ITEMS:
                return cls(codes, items=True)
            if cv not in SINGLE:
                raise ParameterError(
                    f'cv of comparisons must be "leave_comparison_out", "{ITEMS}", a number of '
                    f"folds, a splitter, or a list of (train, test) numbers: got {cv!r}."
                )
            if n_groups < 2:
                raise DataError(f"Holding out {what} needs at least two of them: got one.")
            return cls(codes, codes)
        if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
            if not 2 <= cv <= n_groups:
                raise ParameterError(
                    f"cv={cv} must be at least 2, and at most the number of {what}: got {n_groups} "
                    f"{what}."
                )
            place = np.arange(n_groups)
            if random_state is not None:
                place = as_generator(random_state).permutation(n_groups)
            return cls(codes, place[codes] % int(cv))
        groups = codes if given.groups is None else given.groups
        listed = listed_splits(cv, np.zeros(n), np.zeros(n), groups)
        trains, tests = (
            tuple(np.arange(n)[np.asarray(split[side])] for split in listed) for side in (0, 1)
        )
        for k, (train, test) in enumerate(zip(trains, tests, strict=True)):
            shared = np.intersect1d(codes[train], codes[test])
            if len(shared):
                raise DataError(
                    f"Split {k} of cv has comparisons of the same group in both train and test: "
                    "whole groups must be held out. Use cv=5, or a splitter that keeps groups "
                    "together, such as GroupKFold."
                )
        return cls(codes, None, tests, trains)

    @property
    def n_splits(self) -> int:
        """Number of folds, groups or listed splits; with items, 0."""
        if self.fold is not None:
            return int(self.fold.max()) + 1
        return len(self.tests)

    def split(self, k: int) -> tuple[Index, Index]:
        """Comparisons to train on, and to predict."""
        if self.fold is None:
            return self.trains[k], self.tests[k]
        return np.flatnonzero(self.fold != k), np.flatnonzero(self.fold == k)

    @property
    def predicted(self) -> tuple[Index, Index]:
        """The comparisons that are predicted, and the split of each."""
        n = len(self.codes)
        if self.fold is not None:
            return np.arange(n), self.fold
        if self.items:
            return np.arange(n), np.zeros(n, dtype=np.intp)
        split = np.repeat(np.arange(len(self.tests)), [len(test) for test in self.tests])
        return np.concatenate(self.tests), split


class Found(NamedTuple):
    """Predictions for each alpha (or a single one), and the time in seconds."""

    predictions: list[Predictions]
    fit_time: float


def has_shortcut(batch: Batch, splits: ComparisonSplits, X: Any) -> bool:
    """Whether exact hold-outs replace refits."""
    if 0 < splits.n_splits <= FEW_SPLITS and is_too_wide(batch.estimator, X):
        return False
    least_squares = isinstance(batch.estimator, LeastSquaresRanker)
    exact = least_squares and batch.estimator.exact_search and min(batch.alphas or [0]) > 0
    return bool(exact and (splits.items or splits.fold is not None))


def check_ranker(batch: Batch, splits: ComparisonSplits, given: Comparisons, X: Any) -> None:
    """Raise an error for rankers that cannot be fitted to comparisons, or take far too long."""
    name = type(batch.estimator).__name__
    if not hasattr(batch.estimator, "fit_pairs"):
        raise ParameterError(
            f"{name} cannot be fitted to comparisons: use RankRLS, SparseRankRLS, KPCRank, RankSVM "
            "or PairwiseGP. The first three have a parameter scale."
        )
    if has_shortcut(batch, splits, X):
        return
    if splits.items:
        raise ParameterError(
            f'cv="{ITEMS}" needs RankRLS or SparseRankRLS with values of alpha, as in '
            f'{{"alpha": [0.1, 1.0]}}: {name} would be refitted for every item. Use a number of '
            "folds, as in cv=5."
        )
    if given.groups is None and splits.n_splits == len(given) > 10:
        raise ParameterError(
            f"{name} would be refitted for each of {len(given)} comparisons. Use a number of "
            'folds, as in cv=5, or, for RankRLS, values of alpha instead of "auto".'
        )


def exact(
    estimator: Any, alphas: list[float], X: Any, given: Comparisons, splits: ComparisonSplits
) -> Found:
    """All splits at once, for every alpha."""
    start = perf_counter()
    edges, values = edge_system(estimator, X, given, {}, alphas)
    with explained_rounding():
        if splits.fold is not None:
            differences = without_folds(edges, values.tolist(), splits.fold)
        else:
            differences = np.empty((len(values), len(given)))
            for members, _, found in without_items(edges, values.tolist(), both=True):
                differences[:, members] = found[:, :, 0]
    return Found([Predictions(one) for one in differences], perf_counter() - start)


def refit(
    estimator: Any,
    alphas: list[float] | None,
    X: Any,
    given: Comparisons,
    splits: ComparisonSplits,
    k: int,
) -> Found:
    """Fit without the comparisons of split k, for every alpha, and predict them."""
    start = perf_counter()
    train, test = splits.split(k)
    ranker, inside, outside = clone(estimator), given.take(train), given.take(test)
    if alphas is not None:
        path = ranker.path_pairs(X, inside, alphas)
        rankers, scores = [path.estimator(a) for a in range(len(path))], path.predict(X)
    else:
        rankers = [ranker.fit_pairs(X, inside)]
        scores = np.asarray(to_host(ranker.predict(X)))[None]
    found = []
    first, second = outside.pairs.T
    for one, f in zip(rankers, np.asarray(to_host(scores), dtype=np.float64), strict=True):
        difference = f[first] - f[second]
        if outside.context is not None:
            difference = difference + outside.context @ one.context_coef_
        found.append(Predictions(difference, own_probability(one, X, outside)))
    return Found(found, perf_counter() - start)


def own_probability(ranker: Any, X: Any, given: Comparisons) -> Array | None:
    """Probabilities of a model that has its own; None for others."""
    if not isinstance(ranker, PairwiseGP):
        return None
    first, second = (take(X, side) for side in given.pairs.T)
    options = {} if given.context is None else {"context": given.context}
    return np.asarray(ranker.predict_preference(first, second, observed=True, **options))


def summarize(
    found: list[Found],
    batch: Batch,
    given: Comparisons,
    splits: ComparisonSplits,
    scorer: ComparisonScorer,
) -> Outcome:
    """Scores of the candidates of a batch."""
    compared, split = splits.predicted
    observed = ObservedComparisons(
        given.margin[compared], given.weight[compared], splits.codes[compared]
    )
    n, n_splits = len(batch.candidates), splits.n_splits
    means, errors, by_split = [], [], []
    start = perf_counter()
    for k in range(n):
        parts = [part.predictions[k] for part in found]
        joined = _joined(parts, split, n_splits) if len(parts) > 1 else parts[0]
        score, error = scorer(observed, joined)
        means.append(score)
        errors.append(error)
        by_split.append(scorer.by_split(observed, joined, split, max(n_splits, 1)))
    columns = np.stack(by_split) if n_splits else np.empty((n, 0))
    width = max(n_splits, 1)
    fit_time = np.full((n, width), sum(part.fit_time for part in found) / n / width)
    score_time = np.full((n, width), (perf_counter() - start) / n / width)
    return Outcome(np.array(means), np.array(errors), columns, fit_time, score_time)


def _joined(parts: list[Predictions], split: Index, n_splits: int) -> Predictions:
    """Predictions of all splits, in the order in which comparisons are predicted."""
    difference = np.empty(len(split))
    probability = None if parts[0].probability is None else np.empty(len(split))
    for k in range(n_splits):
        difference[split == k] = parts[k].difference
        if probability is not None:
            probability[split == k] = parts[k].probability
    return Predictions(difference, probability)


def baseline_scores(given: Comparisons, scorer: ComparisonScorer) -> dict[str, float]:
    """The scores of a random guess, and of "the first one wins"."""
    n = len(given)
    observed = ObservedComparisons(given.margin, given.weight, np.arange(n))
    return {
        name: scorer(observed, Predictions(*found))[0]
        for name, found in observed.baselines().items()
    }


def score_comparisons(
    batches: list[Batch],
    X: Any,
    given: Comparisons,
    splits: ComparisonSplits,
    scorer: ComparisonScorer,
    run: Run,
) -> list[Outcome]:
    """Scores of the candidates of all batches on held-out comparisons."""
    tasks: list[Task] = []
    parts = []
    for batch in batches:
        check_ranker(batch, splits, given, X)
        shared = batch.estimator, batch.alphas, X, given, splits
        new: list[Task] = [(exact, *shared)]
        if not has_shortcut(batch, splits, X):
            new = [(refit, *shared, k) for k in range(splits.n_splits)]
        tasks.extend(new)
        parts.append(len(new))
    with closing(run(tasks)) as results:
        return [
            summarize(list(islice(results, n)), batch, given, splits, scorer)
            for batch, n in zip(batches, parts, strict=True)
        ]
