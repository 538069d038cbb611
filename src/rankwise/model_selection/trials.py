"""Candidates that are held out and scored: one loop for searches, cross-validation and AutoRanker.

A trial holds a candidate out exactly, all splits and alphas at once, or refits it for every split.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from inspect import signature
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.parallel import Parallel, delayed

from rankwise.backends.arrays import Array, Index, is_sparse, to_host
from rankwise.errors import DataError, ParameterError
from rankwise.graph import QueryGroups
from rankwise.graph.comparisons import Comparisons
from rankwise.holdout.engine import hold_out
from rankwise.holdout.hold_out_problem import ComparisonFolds, Items
from rankwise.holdout.scores import GREATER_IS_BETTER, ObservedComparisons
from rankwise.metric_names import COMPARISON_METRICS
from rankwise.metrics.comparison_metrics import clustered_mean
from rankwise.metrics.ranking_scorer import RankingScorer, in_columns
from rankwise.model_selection.hold_outs import (
    all_predictions,
    check_takes_pairs,
    comparison_problem,
    hold_out_rows,
    leave_pair_out,
)
from rankwise.model_selection.rows import (
    LabelledRows,
    Splits,
    fit_transform,
    fit_with_queries,
    split_pipeline,
    take,
    transform,
)
from rankwise.parameters import Choice, check_alphas, check_value
from rankwise.problem.landmarks import LandmarkChoice
from rankwise.progress import progress_bar, unseen
from rankwise.routing import predict_with_queries

FEW_SPLITS = 20  # of wide rows, refitted; with more, exact hold-outs are tried
MANY_REFITS = 10  # of single comparisons
PAIR_METRICS = ("disagreement", "concordance", "auc")


@dataclass(frozen=True)
class Batch:
    """Candidates that differ only in the alpha of a least-squares ranker; or one candidate.

    `alphas` is None if there is no least-squares ranker, or if it chooses alpha itself.
    """

    candidates: list[int]
    estimator: Any
    alphas: list[float] | None


class Predicted(NamedTuple):
    """Predictions for what is held out, for each alpha (or once), and seconds that they took.

    `values` are scores of rows, or differences of comparisons, in the order of the splits;
    `probability` is set for comparisons if the ranker predicts it. `shared` names what was computed
    from all rows; see `HeldOutScores`.
    """

    values: Array
    fit_time: float
    predict_time: float = 0.0
    shared: tuple[str, ...] = ()
    probability: Array | None = None


@dataclass(frozen=True)
class Outcome:
    """Held-out scores of a batch, with a row for each of its candidates.

    `splits` has a column for each split, and `queries` for each query (for each split, without
    queries). `predictions` are scores of the held-out rows of all splits.
    """

    mean: Array
    std: Array
    splits: Array
    queries: Array
    predictions: Array | None = None

    def times(self, found: list[Predicted], scoring: float) -> tuple[Array, Array]:
        """Seconds to fit and to score each candidate in each split, of which there is at least one.

        The time of a part of the batch is divided among the candidates and splits that share it.
        """
        shape = len(self.mean), max(self.splits.shape[1], 1)
        shares = shape[0] * shape[1] // len(found)
        fit, predict = (
            np.broadcast_to([getattr(part, name) / shares for part in found], shape)
            for name in ("fit_time", "predict_time")
        )
        return fit, predict + scoring / (shape[0] * shape[1])


def make_batches(estimator: Any, candidates: Sequence[dict[str, Any]]) -> list[Batch]:
    """Group the candidates that share a factorization."""
    batches: dict[Any, Batch] = {}
    for k, params in enumerate(candidates):
        configured = with_params(estimator, params)
        last = split_pipeline(configured)[1]
        if not hasattr(last, "exact_search") or last.alpha == "auto":  # chosen in every fit
            batches[k] = Batch([k], configured, None)
            continue
        name = "alpha" if last is configured else f"{configured.steps[-1][0]}__alpha"
        # A grid repeats the objects of its lists; ids are used as not all objects are hashable.
        key = tuple((other, id(params[other])) for other in sorted(params) if other != name)
        batch = batches.setdefault(key, Batch([], configured, []))
        batch.candidates.append(k)
        if batch.alphas is not None:
            batch.alphas.extend(check_alphas([last.alpha]).tolist())
    return list(batches.values())


def with_params(estimator: Any, params: dict[str, Any]) -> Any:
    """A clone of an estimator with other parameters, which may be estimators themselves."""
    try:
        return clone(estimator).set_params(**clone(params, safe=False))
    except ValueError as error:
        raise ParameterError(f"param_grid does not match the estimator: {error}") from error


def run_trials(
    trials: Trials | RowHoldOuts,
    batches: list[Batch],
    finish: Callable[[Batch, list[Predicted]], Any],
    *,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> list[Any]:
    """``finish(batch, predictions of its parts)`` for every batch, as soon as it is held out."""
    parts = [list(trials.parts(batch)) for batch in batches]
    tasks = [(batch, k) for batch, ks in zip(batches, parts, strict=True) for k in ks]
    predicted = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_with_note)(batch, trials.hold_out, batch, k) for batch, k in tasks
    )
    results, n_done = [], 0
    try:
        with progress_bar("Searching", len(tasks)) if verbose else nullcontext(unseen) as show:
            for batch, ks in zip(batches, parts, strict=True):
                found = []
                for _ in ks:
                    found.append(next(predicted))
                    n_done += 1
                    show(n_done)
                results.append(_with_note(batch, finish, batch, found))
    finally:
        with warnings.catch_warnings():  # about tasks that an error has cancelled
            warnings.simplefilter("ignore")
            predicted.close()
    return results


def _with_note(batch: Batch, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function; an error gets a note that names the estimator."""
    try:
        return function(*args)
    except Exception as error:
        error.add_note(f"This happened while evaluating {batch.estimator!r}.")
        raise


def is_exact(batch: Batch, X: Any, n_splits: int) -> bool:
    """Whether exact hold-outs replace refits: at alphas above 0, and unless rows are too wide."""
    possible = getattr(batch.estimator, "exact_search", False) and min(batch.alphas or [0.0]) > 0
    return bool(possible and (n_splits > FEW_SPLITS or not is_too_wide(batch.estimator, X)))


def is_too_wide(estimator: Any, X: Any) -> bool:
    """Whether sparse rows are fitted by conjugate gradients, which have no exact hold-outs."""
    if not (is_sparse(X) and hasattr(estimator, "make_space")):
        return False
    return bool(estimator.make_space(X.shape[1]).form(X) == "cg")


def _too_many_refits(batch: Batch, unit: str) -> ParameterError:
    return ParameterError(
        f"{type(batch.estimator).__name__} would be refitted for each {unit}: use a number of "
        "folds, as in cv=5. Least-squares rankers, such as RankRLS, need no refits with values of "
        'alpha, as in {"alpha": [0.1, 1.0]}.'
    )


def is_for_tables(estimator: Any) -> bool:
    """Whether `fit` takes rows, columns and a table."""
    return hasattr(estimator, "for_new")


@dataclass(frozen=True)
class UnitValues:
    """The values of a metric on single units for each candidate, where greater is better.

    A unit is a query of a split; or a split, if the metric is a function. `values` has shape
    (n_candidates, n_units, n_outputs), NaN where the metric is undefined; `weight` counts queries.
    """

    values: Array
    split: Index
    query: Index
    weight: Array

    @classmethod
    def of(
        cls,
        scorer: RankingScorer,
        data: LabelledRows,
        splits: Splits,
        predictions: Array,
        *,
        skip_equal_labels: bool = False,
    ) -> UnitValues:
        """From predictions for ``splits.rows`` by each candidate.

        Functions are called for every split; with `skip_equal_labels`, not if all labels are equal.
        """
        rows, codes = splits.rows, unit_codes(data, splits)
        labels = data.labels[rows]
        scores = np.stack([in_columns(one, labels.shape) for one in predictions])
        finite = np.isfinite(scores).all(axis=(0, 2))
        if not finite.all():
            k = int(np.argmin(finite))
            raise DataError(
                f"The held-out prediction of row {rows[k]} is {scores[:, k].ravel()}, but scores "
                "must be finite. Scale the features, or use other parameters."
            )
        units, n_queries = np.unique(codes), data.groups.n_groups
        if scorer.metric is not None:
            values = np.full((len(scores), len(units), labels.shape[1]), np.nan)
            function = scorer.metric.function
            for c, o in np.ndindex(len(scores), labels.shape[1]):
                found = function(labels[:, o], scores[c, :, o], codes, per_query=True)
                value = 0.0 - found.values if scorer.negated else found.values
                values[c, np.searchsorted(units, found.qid), o] = value
            return cls(values, units // n_queries, units % n_queries, np.ones(len(units)))
        split, every = splits.split_of_row, np.arange(len(splits))
        values = np.empty((len(scores), len(splits), labels.shape[1]))
        for c, k, o in np.ndindex(values.shape):
            label, f = labels[split == k, o], scores[c, split == k, o]
            skipped = skip_equal_labels and bool((label == label[0]).all())
            values[c, k, o] = (
                np.nan if skipped else scorer.value(label, f, data.queries(splits.tests[k]))
            )
        return cls(values, every, every, np.bincount(units // n_queries).astype(np.float64))

    def means(self, by: Index, n: int) -> tuple[Array, Array]:
        """Means of n sets of units, (n_candidates, n, n_outputs), and weights, (n, n_outputs).

        They are NaN and 0 for sets without a defined value.
        """
        known = ~np.isnan(self.values[0])
        weights = self.weight[:, None] * known
        counts = np.zeros((n, known.shape[1]))
        np.add.at(counts, by, weights)
        sums = np.zeros((len(self.values), *counts.shape))
        values = np.where(known, self.values, 0.0) * weights
        np.add.at(sums.swapaxes(0, 1), by, values.swapaxes(0, 1))
        with np.errstate(invalid="ignore"):
            return sums / counts, counts


def unit_codes(data: LabelledRows, splits: Splits) -> Index:
    """A number for the query of each of ``splits.rows``, different in every split."""
    return splits.split_of_row * data.groups.n_groups + data.groups.codes[splits.rows]


def joined_outputs(means: Array) -> Array:
    """The mean over the outputs for which it is defined, along the last axis; NaN for none."""
    known = ~np.isnan(means)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, means, 0.0).sum(axis=-1) / known.sum(axis=-1))


@dataclass(frozen=True)
class RowHoldOuts:
    """Whole queries, or rows of one ranking, held out."""

    data: LabelledRows
    splits: Splits

    def parts(self, batch: Batch) -> Sequence[int | None]:
        """The splits to refit for, or [None]: all splits at once, exactly."""
        n_splits = len(self.splits)
        if is_for_tables(split_pipeline(batch.estimator)[1]):
            raise ParameterError(
                f"{type(batch.estimator).__name__} is fitted to rows, columns and a table: use "
                "RankingSearchCV.fit_table, or the method hold_out of the ranker."
            )
        if self.splits.trains is None and is_exact(batch, self.data.X, n_splits):
            return [None]
        return range(n_splits)

    def hold_out(self, batch: Batch, k: int | None) -> Predicted:
        """Predictions for the rows of split k or, exactly, for the rows of all splits.

        The scores have shape (n_alphas, n_rows, ...). Exact hold-outs of a batch without alphas use
        the alpha of the estimator or, if it is "auto", a grid that follows the scale of the data.
        """
        start = perf_counter()
        if k is None:
            held = hold_out_rows(batch.estimator, self.data, self.splits.tests, batch.alphas)
            values = np.asarray(to_host(all_predictions(held)))[:, self.splits.rows]
            return Predicted(values, perf_counter() - start, shared=held.shared)
        estimator = clone(batch.estimator)
        old, new, train = self.sides(estimator, k)
        steps, ranker = split_pipeline(estimator)
        _renumber_landmarks(ranker, train, len(self.data))
        if batch.alphas is None:
            fit_with_queries(estimator, old.X, old.y, old.qid, old.query_weight)
            fitted = perf_counter()
            scores = np.asarray(to_host(predict_with_queries(estimator, new.X, new.qid)))[None]
            return Predicted(scores, fitted - start, perf_counter() - fitted)
        X = old.X if steps is None else fit_transform(steps, old.X, old.y, old.qid)
        path = ranker.path(X, old.y, batch.alphas, qid=old.qid, query_weight=old.query_weight)
        fitted = perf_counter()
        X = new.X if steps is None else transform(steps, new.X, new.qid)
        scores = np.asarray(to_host(path.predict(X, qid=new.qid)))
        return Predicted(scores, fitted - start, perf_counter() - fitted)

    def sides(self, estimator: Any, k: int) -> tuple[LabelledRows, LabelledRows, Index]:
        """Training rows and held-out rows of split k, and the numbers of the former."""
        train, test = self.splits.train(k, len(self.data)), self.splits.tests[k]
        columns = train if get_tags(estimator).input_tags.pairwise else None
        return self.data.take(train, columns), self.data.take(test, columns), train


def _renumber_landmarks(ranker: Any, train: Index, n_rows: int) -> None:
    """Landmarks that are row numbers of all rows, as row numbers of the training part."""
    landmarks: Any = getattr(ranker, "landmarks", None)
    if not isinstance(landmarks, str) and np.ndim(landmarks) == 1:
        part = LandmarkChoice.of(landmarks, None).for_part(train, n_rows)
        ranker.set_params(landmarks=part.rows, n_landmarks=None)


@dataclass(frozen=True)
class RowTrials(RowHoldOuts):
    """The same, scored; with `keep_predictions`, outcomes contain the predictions."""

    scorer: RankingScorer
    keep_predictions: bool = False

    def outcome(self, batch: Batch, found: list[Predicted]) -> Outcome:
        """The scores of predictions.

        A mean is over the queries of all splits: a split with more queries has more weight.
        """
        n_splits = len(self.splits)
        predictions = np.concatenate([part.values for part in found], axis=1)
        units = UnitValues.of(self.scorer, self.data, self.splits, predictions)
        values, counts = units.means(units.split, n_splits)
        mean = ((np.nan_to_num(values) * counts).sum(axis=1) / counts.sum(axis=0)).mean(axis=1)
        splits, weights = joined_outputs(values), counts.sum(axis=1)
        spread = np.where(weights > 0, (splits - mean[:, None]) ** 2, 0.0)
        std = np.sqrt((spread * weights).sum(axis=1) / weights.sum())
        queries = joined_outputs(self.by_query(units))
        return Outcome(mean, std, splits, queries, predictions if self.keep_predictions else None)

    @property
    def has_query_values(self) -> bool:
        """Whether there is a value for each query, and not only one for each split."""
        return self.data.qid is not None and self.scorer.metric is not None

    def by_query(self, units: UnitValues) -> Array:
        """The mean of each query over splits; without values of queries, the value of each split.

        The shape is (n_candidates, n_queries, n_outputs).
        """
        if self.has_query_values:
            return units.means(units.query, self.data.groups.n_groups)[0]
        return units.means(units.split, len(self.splits))[0]


@dataclass(frozen=True)
class PairTrials:
    """Every pair of rows held out, exactly; only the order of pairs can be scored."""

    data: LabelledRows
    scorer: RankingScorer

    def parts(self, batch: Batch) -> Sequence[int | None]:
        """See `RowTrials`."""
        if batch.alphas is None or not hasattr(batch.estimator, "exact_search"):
            raise _too_many_refits(batch, "pair")
        check_value("scoring", self.scorer.scoring, Choice(*PAIR_METRICS))
        return [None]

    def hold_out(self, batch: Batch, k: int | None) -> Predicted:
        """The error and the standard error at each alpha, averaged over outputs."""
        start, data = perf_counter(), self.data
        found = leave_pair_out(batch.estimator, data.X, data.y, qid=data.qid, alphas=batch.alphas)
        errors = [
            part.reshape(len(found.alphas), -1).mean(axis=1)
            for part in (found.error, found.standard_error)
        ]
        return Predicted(np.stack(errors), perf_counter() - start, shared=found.shared)

    def outcome(self, batch: Batch, found: list[Predicted]) -> Outcome:
        """See `RowTrials`."""
        error, spread = found[0].values
        score = 0.0 - error if self.scorer.negated else 1.0 - error
        none = np.empty((len(score), 0))
        return Outcome(score, spread, none, none)


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
        check_value("scoring of comparisons", scoring, Choice("disagreement", *GREATER_IS_BETTER))
        return cls(scoring, not GREATER_IS_BETTER.get(scoring, False))

    def __call__(
        self, observed: ObservedComparisons, difference: Array, probability: Array | None = None
    ) -> tuple[float, float, Array]:
        """The score, its standard error over groups, and the value of each comparison."""
        metric = "accuracy" if self.scoring == "disagreement" else self.scoring
        if COMPARISON_METRICS[metric].of == "probability" and probability is None:
            probability = observed.probability(difference)
        values = observed.values(metric, difference, probability)
        if self.scoring == "disagreement":
            values = values - 1.0
        elif self.negated:
            values = 0.0 - values
        return *clustered_mean(values, observed.weight, observed.codes), values


@dataclass(frozen=True)
class ComparisonTrials:
    """Groups of comparisons held out and scored; without splits, items with their comparisons."""

    X: Any
    given: Comparisons
    splits: Splits | None
    scorer: ComparisonScorer

    def parts(self, batch: Batch) -> Sequence[int | None]:
        """See `RowTrials`."""
        splits, n = self.splits, len(self.given)
        check_takes_pairs(batch.estimator)
        n_splits = n if splits is None else len(splits)
        if (splits is None or splits.trains is None) and is_exact(batch, self.X, n_splits):
            return [None]
        if splits is None or (self.given.groups is None and n_splits == n > MANY_REFITS):
            raise _too_many_refits(batch, "item" if splits is None else "comparison")
        return range(n_splits)

    def hold_out(self, batch: Batch, k: int | None) -> Predicted:
        """See `RowTrials`."""
        start = perf_counter()
        ranker, alphas, X, given = clone(batch.estimator), batch.alphas, self.X, self.given
        if k is None:
            problem = comparison_problem(ranker, X, given, {}, alphas)
            if self.splits is None:
                values = hold_out(problem, Items()).predictions
            else:
                fold = self.splits.fold_of_row if len(self.splits) < len(given) else None
                values = hold_out(problem, ComparisonFolds(fold)).predictions[:, self.splits.rows]
            return Predicted(values[:, :, 0], perf_counter() - start)
        assert self.splits is not None
        train, test = self.splits.train(k, len(given)), self.splits.tests[k]
        inside, outside = given.take(train), given.take(test)
        if alphas is not None:
            path = ranker.path_pairs(X, inside, alphas)
            rankers, scores = [path.estimator(a) for a in range(len(path))], path.predict(X)
        else:
            rankers = [ranker.fit_pairs(X, inside)]
            scores = np.asarray(to_host(ranker.predict(X)))[None]
        scores = np.asarray(to_host(scores), dtype=np.float64)
        differences = scores[:, outside.pairs[:, 0]] - scores[:, outside.pairs[:, 1]]
        if outside.context is not None:
            differences += [outside.context @ one.context_coef_ for one in rankers]
        chances: list[Any] = [_own_probability(one, X, outside) for one in rankers]
        probability = None if chances[0] is None else np.stack(chances)
        return Predicted(differences, perf_counter() - start, probability=probability)

    def outcome(self, batch: Batch, found: list[Predicted]) -> Outcome:
        """See `RowTrials`."""
        given = self.given
        everything = Splits([np.arange(len(given))]) if self.splits is None else self.splits
        rows, split = everything.rows, everything.split_of_row
        codes = rows if given.groups is None else QueryGroups.of(given.groups).codes[rows]
        observed = ObservedComparisons(given.margin[rows], given.weight[rows], codes)
        values = np.concatenate([part.values for part in found], axis=1)
        chances: Any = [None] * len(values)
        if found[0].probability is not None:
            chances = np.concatenate([part.probability for part in found], axis=1)
        scores = [self.scorer(observed, *one) for one in zip(values, chances, strict=True)]
        mean, error, by_pair = map(np.array, zip(*scores, strict=True))
        if self.splits is None:
            by_split = np.empty((len(values), 0))
        else:
            sums = [np.bincount(split, observed.weight * one) for one in by_pair]
            with np.errstate(invalid="ignore"):  # NaN for splits without weight
                by_split = np.array(sums) / np.bincount(split, observed.weight)
        return Outcome(mean, error, by_split, by_split)

    def baselines(self) -> dict[str, float]:
        """The scores of a random guess, and of "the first one wins"."""
        given = self.given
        observed = ObservedComparisons(given.margin, given.weight, np.arange(len(given)))
        return {
            name: self.scorer(observed, *found)[0] for name, found in observed.baselines().items()
        }


def _own_probability(ranker: Any, X: Any, given: Comparisons) -> Array | None:
    """Probabilities of the outcomes, by a ranker that models them; None for others."""
    predict = getattr(ranker, "predict_preference", None)
    if predict is None or "observed" not in signature(predict).parameters:
        return None
    first, second = (take(X, side) for side in given.pairs.T)
    options = {} if given.context is None else {"context": given.context}
    return np.asarray(predict(first, second, observed=True, **options))


@dataclass(frozen=True)
class TableTrials:
    """Rows, columns or cells of a table, held out by the ranker itself and scored.

    `within` sets which cells are compared; None: the cells that compete in the fit.
    """

    R: Any
    C: Any
    Y: Any
    cells: Any
    n_folds: int | None
    within: str | None
    scorer: RankingScorer

    def parts(self, batch: Batch) -> Sequence[int | None]:
        """See `RowTrials`."""
        if not is_for_tables(batch.estimator):
            name = type(batch.estimator).__name__
            raise ParameterError(f"{name} cannot be fitted to a table: use TwoSidedRankRLS.")
        return [None]

    def hold_out(self, batch: Batch, k: int | None) -> Predicted:
        """The metric of each group of cells at each alpha, or at the best alpha with "auto"."""
        start = perf_counter()
        held = batch.estimator.hold_out(
            self.R, self.C, self.Y, cells=self.cells, alphas=batch.alphas, n_folds=self.n_folds
        )
        values = np.stack(
            [held.values(self.scorer.scoring, self.within, k) for k in range(len(held.alphas))]
        )
        values = 0.0 - values if self.scorer.negated else values
        if batch.alphas is None:
            values = values[np.nanmean(values, axis=1).argmax()][None]
        return Predicted(values, perf_counter() - start, shared=held.shared)

    def outcome(self, batch: Batch, found: list[Predicted]) -> Outcome:
        """See `RowTrials`; a split is a row, a column, or a part of one in a fold."""
        values = found[0].values
        n = np.isfinite(values).sum(axis=1)
        error = np.nanstd(values, axis=1) / np.sqrt(np.maximum(n - 1, 1))
        return Outcome(np.nanmean(values, axis=1), error, values, values)


Trials: TypeAlias = RowTrials | PairTrials | ComparisonTrials | TableTrials
