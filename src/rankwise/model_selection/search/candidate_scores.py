"""The scores of candidates on held-out splits or pairs, and the tasks that give them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from rankwise.backends.arrays import Array
from rankwise.errors import DataError, RankwiseError
from rankwise.metrics import get_metric
from rankwise.metrics.ranking_scorer import RankingScorer, in_columns
from rankwise.model_selection.search.exact import (
    check_pair_search,
    exact,
    exact_pairs,
    has_shortcut,
)
from rankwise.model_selection.search.grid_candidates import Batch, Outcome, summarize
from rankwise.model_selection.search.labelled_rows import LabelledRows
from rankwise.model_selection.search.refits import Predicted, refit
from rankwise.model_selection.search.search_progress import progress
from rankwise.model_selection.search.splits import Splits


def scores_by_split(
    scorer: RankingScorer, data: LabelledRows, splits: Splits, predictions: Array
) -> tuple[Array, Array]:
    """The score of each split and the number of queries that count, for each output.

    `predictions` has the rows of ``splits.rows``. If the metric is undefined for all queries
    of a split, its score is NaN and its count is 0.
    """
    rows = splits.rows
    labels = data.labels[rows]
    predictions = in_columns(predictions, labels.shape)
    finite = np.isfinite(predictions).all(axis=1)
    if not finite.all():
        row = rows[np.argmin(finite)]
        raise DataError(
            f"The held-out prediction of row {row} is {predictions[np.argmin(finite)]}, but "
            "scores must be finite. Remove such parameters from param_grid."
        )
    pairs = list(zip(labels.T, predictions.T, strict=True))
    if isinstance(scorer.scoring, str):
        found = [_query_means(scorer, data, splits, *pair) for pair in pairs]
    else:
        found = [_calls(scorer, data, splits, *pair) for pair in pairs]
    values, counts = zip(*found, strict=True)
    return np.column_stack(values), np.column_stack(counts)


def _query_means(
    scorer: RankingScorer, data: LabelledRows, splits: Splits, labels: Array, predictions: Array
) -> tuple[Array, Array]:
    """One call of the metric for all splits; each query of each split has its own id."""
    n_queries, n_splits = data.groups.n_groups, len(splits)
    queries = splits.split_of_row * n_queries + data.groups.codes[splits.rows]
    function = get_metric(str(scorer.scoring)).function
    result = function(labels, predictions, queries, per_query=True)
    split = result.qid // n_queries
    counts = np.bincount(split, minlength=n_splits)
    sums = np.bincount(split, result.values, minlength=n_splits)
    values = np.full(n_splits, np.nan)
    np.divide(0.0 - sums if scorer.negated else sums, counts, out=values, where=counts > 0)
    return values, counts.astype(np.float64)


def _calls(
    scorer: RankingScorer, data: LabelledRows, splits: Splits, labels: Array, predictions: Array
) -> tuple[Array, Array]:
    """One call of the function for each split."""
    values, counts = np.empty(len(splits)), np.empty(len(splits))
    stop = np.cumsum([len(test) for test in splits.tests])
    for k, test in enumerate(splits.tests):
        part = slice(stop[k] - len(test), stop[k])
        values[k] = scorer.value(labels[part], predictions[part], data.queries(test))
        counts[k] = len(np.unique(data.groups.codes[test]))
    return values, counts


Task: TypeAlias = tuple[Any, ...]  # a function, an estimator, and further arguments
Run: TypeAlias = Callable[[list[Task]], Generator[Any]]


def run_tasks(tasks: list[Task], *, n_jobs: int | None, verbose: bool) -> Generator[Any]:
    """Yield the results of tasks, in order."""
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    results = parallel(delayed(_attempt)(*task) for task in tasks)
    try:
        with progress(len(tasks), "Searching", verbose) as advance:
            for result in results:
                advance()
                yield result
    finally:
        with warnings.catch_warnings():  # about tasks that an error has cancelled
            warnings.simplefilter("ignore")
            results.close()


def _attempt(function: Callable[..., Any], estimator: Any, *args: Any) -> Any:
    """Call a function; an error gets a note that names the estimator."""
    try:
        return function(estimator, *args)
    except Exception as error:
        error.add_note(f"RankingSearchCV was evaluating {estimator!r}.")
        raise


def score_pairs(
    batches: list[Batch], data: LabelledRows, scorer: RankingScorer, run: Run
) -> list[Outcome]:
    """Scores of the candidates of all batches on held-out pairs."""
    for batch in batches:
        check_pair_search(batch.estimator, scorer)
    tasks = [(exact_pairs, batch.estimator, batch.alphas, data, scorer) for batch in batches]
    outcomes = []
    with closing(run(tasks)) as results:
        for batch, found in zip(batches, results, strict=True):
            times = np.full((len(batch.candidates), 1), found.fit_time / len(batch.candidates))
            none, zero = np.empty((len(times), 0)), np.zeros_like(times)
            scores = found.score, found.standard_error, none, times, zero
            outcomes.append(Outcome(*scores, shared=found.shared))
    return outcomes


def score_splits(
    batches: list[Batch],
    candidates: list[dict[str, Any]],
    data: LabelledRows,
    splits: Splits,
    scorer: RankingScorer,
    run: Run,
    *,
    keep_predictions: bool,
) -> list[Outcome]:
    """Scores of the candidates of all batches on held-out splits."""
    tasks: list[Task] = []
    parts = []  # tasks of each batch: one for all splits together, or one for each
    for batch in batches:
        new: list[Task]
        shared = batch.estimator, batch.alphas, data, splits
        if has_shortcut(batch.estimator, batch.alphas, splits, data):
            new = [(exact, *shared, scorer)]
        else:
            new = [(refit, *shared, k) for k in range(len(splits))]
        tasks.extend(new)
        parts.append(len(new))
    with closing(run(tasks)) as results:
        outcomes = []
        for batch, n in zip(batches, parts, strict=True):
            found = _score(list(islice(results, n)), batch, candidates, data, splits, scorer)
            outcomes.append(found if keep_predictions else replace(found, predictions=None))
        return outcomes


def _score(
    found: list[Predicted],
    batch: Batch,
    candidates: list[dict[str, Any]],
    data: LabelledRows,
    splits: Splits,
    scorer: RankingScorer,
) -> Outcome:
    """Scores of the candidates of a batch, from their predictions."""
    n = len(batch.candidates)
    shape = n, len(splits)
    predictions = np.concatenate([part.scores for part in found], axis=1)
    values, score_time = [], np.empty(shape)
    for k, candidate in enumerate(batch.candidates):
        start = perf_counter()
        try:
            value, counts = scores_by_split(scorer, data, splits, predictions[k])
        except RankwiseError as error:
            error.add_note(f"RankingSearchCV was evaluating {candidates[candidate]}.")
            raise
        values.append(value)
        score_time[k] = (perf_counter() - start) / len(splits)
    shares = len(splits) // len(found) * n  # of the time of a part
    fit_time = np.broadcast_to([part.fit_time / shares for part in found], shape)
    score_time += [part.predict_time / shares for part in found]
    outcome = summarize(np.stack(values), counts, fit_time, score_time)
    return replace(outcome, predictions=predictions, shared=found[0].shared)
