"""AutoRanker: what to try first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

from rankwise.auto.candidates import (
    KINDS,
    Candidate,
    CandidateTrial,
    Folds,
    default_candidates,
    hold_out,
    learnable_queries,
    make_folds,
    named,
)
from rankwise.auto.results import AutoResults, Explanation, Part
from rankwise.backends.arrays import Array, Index
from rankwise.boosted.boosted_ranker import BoostedRanker
from rankwise.errors import KernelSizeError, ParameterError
from rankwise.estimators._validation import DTYPES, forget, validated
from rankwise.estimators.ranker_mixin import RankerMixin, explain_calls
from rankwise.graph.label_checks import numeric_labels
from rankwise.metrics import get_metric
from rankwise.metrics.ranking_scorer import are_grades, default_metric
from rankwise.model_selection.best_mean import HeldOutPool, PairedDifference
from rankwise.model_selection.mean_ranker import MeanRanker
from rankwise.model_selection.search.labelled_rows import LabelledRows
from rankwise.model_selection.search.search_progress import progress
from rankwise.parameters import (
    AnyOf,
    Choice,
    Flag,
    Number,
    Rule,
    Whole,
    as_generator,
    check_parameters,
    check_value,
)
from rankwise.scaling import ColumnStandard, ColumnStatistics
from rankwise.tables import in_bytes


class AutoRanker(RankerMixin, MetaEstimatorMixin, BaseEstimator):
    """The mean of the best of several rankers, all chosen by hold-outs.

    Linear, additive and Gaussian rankers are tried on several scalings of the features, each at
    9 to 16 values of alpha, and boosted trees if LightGBM is installed. Every query is
    predicted by rankers that were trained without its fold, without refitting where the ranker
    allows it; landmarks and knots stay those of all rows (`results_.shared`). The best rankers are
    fitted to all rows, and their scores, standardized within queries, are averaged.

    Choosing one of many settings overfits, and means of several good ones rank better. So little
    is chosen and much is averaged: a ranker, at its best alpha, joins the mean unless a paired t
    test over the same queries finds that it is worse than the best, by more than 5% of the score
    (or of its distance from 1, if that is less). With few queries, which cannot tell rankers
    apart, the mean is of many.

    Parameters
    ----------
    metric : str, default="auto"
        What to choose by: a name of `rankwise.metrics.METRICS`. "auto": "ndcg@10" if there are
        queries and the labels are grades (whole numbers from 0 to 30), "disagreement" otherwise.
        Metrics that only count relevant rows, such as "map" or "precision", cannot tell
        grades of 1 and more apart: rankers then learn relevance, 0 or 1.
    n_best : int, default=10
        The mean has at most this many parts. 1: the best ranker alone.
    candidates : {"auto", "linear", "additive", "kernel"} or list, default="auto"
        What to try: all kinds of rankers, one kind, or a list of rankers. Least-squares rankers in
        a list whose alpha is "auto" are tried at many alphas. Other rankers, pipelines and the
        rankers of other libraries are refitted for each fold, as in `RankingSearchCV`.
    boosted : bool or "auto", default="auto"
        Whether to try boosted trees as well: a `BoostedRanker`, which is fitted once for each fold.
        "auto": if ``candidates="auto"`` and LightGBM is installed
        (``pip install 'rankwise[boost]'``).
    time_budget : float, optional
        Seconds. When they have passed, no further ranker is tried; cheap ones come first. The
        fits of the best to all rows are not included. None: no limit.
    memory_budget : float, optional
        Bytes. Rankers that need about more than this are not tried. None: no limit.
    verbose : bool, default=False
        Whether to show progress on stderr, if it is a terminal.
    random_state : int or Generator, optional
        Seed for the choice of landmarks.

    Attributes
    ----------
    parts_ : list of Part
        The parts of the mean, best first: ``name``, ``weight`` and the fitted ``ranker``.
    results_ : AutoResults
        All that was tried; print it, or see ``results_.to_frame()``.
    score_estimate_ : ScoreEstimate
        What to expect on new queries: each query is scored by a mean that was chosen without it.
        ``optimistic`` is the score of the chosen mean on the queries that it was chosen by.
    gain_over_best_ : PairedDifference
        How much better the mean is than the single best ranker, both chosen without the query, and
        the standard error of this difference.
    mean_ranker_ : MeanRanker
        The fitted mean.
    metric_ : str
        The metric.
    n_queries_ : int
        Number of queries seen in `fit`.
    n_features_in_, feature_names_in_
        Number and names of the features seen in `fit`.

    Notes
    -----
    Landmarks, knots and scalings that do not depend on labels are computed from all rows, held-out
    ones included, as in `leave_query_out`.

    Examples
    --------
    >>> from rankwise import AutoRanker
    >>> from rankwise.data import make_ranking
    >>> data = make_ranking(40, rows_per_query=10, n_features=5, n_levels=4, random_state=0)
    >>> ranker = AutoRanker(random_state=0).fit(data.X, data.y, qid=data.qid)
    >>> ranker.score_estimate_.metric
    'ndcg@10'
    >>> ranker.predict(data.X, qid=data.qid).shape
    (400,)
    """

    __metadata_request__predict = {"qid": True}  # noqa: RUF012

    parameters: ClassVar[Mapping[str, Rule]] = {
        "n_best": Whole(1),
        "boosted": AnyOf(Flag(), Choice("auto")),
        "time_budget": AnyOf(Number(0), None),
        "memory_budget": AnyOf(Number(0), None),
        "verbose": Flag(),
    }

    @explain_calls
    def __init__(
        self,
        *,
        metric: str = "auto",
        n_best: int = 10,
        candidates: Any = "auto",
        boosted: bool | str = "auto",
        time_budget: float | None = None,
        memory_budget: float | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.n_best = n_best
        self.candidates = candidates
        self.boosted = boosted
        self.time_budget = time_budget
        self.memory_budget = memory_budget
        self.verbose = verbose
        self.random_state = random_state

    @explain_calls
    def fit(self, X: Any, y: Any, *, qid: Any = None) -> Self:
        """Try all candidates, and fit the best to all rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Scores, higher is better.
        qid : array-like of shape (n_rows,), optional
            The query of every row, as integers or text, in any order. None: one global ranking.

        Returns
        -------
        self
        """
        check_parameters(self, self.parameters)
        forget(self)
        X, y = validated(
            self, X, numeric_labels(y), accept_sparse="csr", dtype=DTYPES, y_numeric=True
        )
        data = LabelledRows.of(X, y, qid)
        if data.groups.n_groups == 1:
            data = replace(data, qid=None)
        metric = self._metric(data)
        if get_metric(metric).counts_relevant and are_grades(data.y):
            data = _by_relevance(data)
        folds = make_folds(data)
        trials, left_out = self._try(data, folds, metric)
        pool = _pool(trials, data, folds, metric)
        chosen = pool.choose(self.n_best)
        places = [(trial, k) for trial in trials for k in range(len(trial))]
        mean = MeanRanker([places[c][0].ranker(places[c][1]) for c in chosen])
        self.mean_ranker_ = mean.fit(data.X, data.y, qid=data.qid)
        self.metric_, self.n_queries_ = metric, data.groups.n_groups
        self.part_names_ = [places[c][0].candidate.name for c in chosen]
        self.results_ = _results(trials, left_out, pool, chosen)
        outer = pool.outer_values(self.n_best)
        self.score_estimate_ = pool.estimate(chosen, outer)
        self.gain_over_best_ = PairedDifference.of(outer - pool.outer_values(1))
        self.explanation_ = _explanation(self.part_names_, pool, chosen)
        return self

    def predict(self, X: Any, *, qid: Any = None) -> Any:
        """Scores of rows: higher is better.

        Parameters
        ----------
        X : array-like or sparse of shape (n_rows, n_features)
        qid : array-like of shape (n_rows,), optional
            The query of every row. None: the rows are one query. Unless the ranker was fitted to
            one global ranking, scores of different queries are not comparable, and a query that is
            split over two calls gets other scores: pass all its rows in one call.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        check_is_fitted(self, "mean_ranker_")
        X = validated(self, X, accept_sparse="csr", dtype=DTYPES, reset=False)
        return self.mean_ranker_.predict_as(type(self).__name__, X, qid)

    @property
    def parts_(self) -> list[Part]:
        """The parts of the mean, best first."""
        mean = self.mean_ranker_
        return [
            Part(name, float(weight), ranker)
            for name, weight, ranker in zip(
                self.part_names_, mean.weights_, mean.rankers_, strict=True
            )
        ]

    def explain(self) -> Explanation:
        """Which parts carry the score, by held-out predictions.

        Returns
        -------
        Explanation
            For each part: its weight, its score alone, the score of the mean without it, and its
            correlation with the mean. Print it.
        """
        check_is_fitted(self, "mean_ranker_")
        return self.explanation_

    def _metric(self, data: LabelledRows) -> str:
        if self.metric == "auto":
            return default_metric(data.y, data.groups.n_groups)
        get_metric(self.metric)  # raises an error for an unknown metric
        return self.metric

    def _candidates(self, data: LabelledRows) -> list[Candidate]:
        rng = as_generator(self.random_state)
        if isinstance(self.candidates, str):
            check_value("candidates", self.candidates, Choice("auto", *KINDS))
            kinds = KINDS if self.candidates == "auto" else (self.candidates,)
            found = list(default_candidates(kinds, data.X, data.groups, rng))
        elif isinstance(self.candidates, (list, tuple)) and self.candidates:
            found = list(named(self.candidates))
        else:
            raise ParameterError(
                f"candidates must be one of auto, {', '.join(KINDS)}, or a list of rankers: got "
                f"{self.candidates!r}."
            )
        is_open = self.boosted == "auto" and self.candidates == "auto"
        if self.boosted is True or (is_open and find_spec("lightgbm")):
            seed = int(rng.integers(2**31))
            found.append(Candidate("boosted trees", BoostedRanker(random_state=seed)))
        if any(getattr(each.ranker, "scale", None) == ColumnStandard.name for each in found):
            # Candidates get arrays: only here can the error name the feature that overflows.
            names = getattr(self, "feature_names_in_", None)
            ColumnStandard.of(ColumnStatistics.of(data.X), names=names)
        return found

    def _try(
        self, data: LabelledRows, folds: Folds, metric: str
    ) -> tuple[list[CandidateTrial], list[str]]:
        """Trials within the budgets, and which candidates were left out for lack of them."""
        trials: list[CandidateTrial] = []
        left_out: list[str] = []
        candidates = self._candidates(data)
        start = perf_counter()
        with progress(len(candidates), "Holding out", bool(self.verbose)) as advance:
            for candidate in candidates:
                n_bytes = candidate.n_bytes(*data.X.shape)
                if self.memory_budget is not None and n_bytes > self.memory_budget:
                    left_out.append(f"{candidate.name}, which needs {in_bytes(n_bytes)}")
                elif trials and self._is_late(perf_counter() - start):
                    left_out.append(f"{candidate.name}, as the time was up")
                else:
                    try:
                        trials.append(hold_out(candidate, data, folds, metric))
                    except KernelSizeError as error:
                        left_out.append(f"{candidate.name}: {error}")
                advance(candidate.name)
        if not trials:
            least = min(candidates, key=lambda candidate: candidate.n_bytes(*data.X.shape))
            needed = in_bytes(least.n_bytes(*data.X.shape))
            budget = self.memory_budget
            limit = "" if budget is None else f" within memory_budget={budget:g} bytes"
            raise KernelSizeError(
                f"There is too little memory{limit} for each of {len(candidates)} candidates: the "
                f"smallest, {least.name!r}, needs about {needed}. Use a larger memory_budget, "
                "fewer rows, or other candidates."
            )
        return trials, left_out

    def _is_late(self, seconds: float) -> bool:
        return self.time_budget is not None and seconds >= self.time_budget

    def _predict_queries(self, X: Any, qid: Any) -> Any:
        return self.predict(X, qid=qid)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "mean_ranker_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _by_relevance(data: LabelledRows) -> LabelledRows:
    """Labels 0 and 1, unless too few queries would have both."""
    relevance = replace(data, y=(data.y >= 1).astype(np.float64))
    return relevance if len(learnable_queries(relevance)) >= 2 else data


def _pool(
    trials: list[CandidateTrial], data: LabelledRows, folds: Folds, metric: str
) -> HeldOutPool:
    """The held-out scores of all trials."""
    predictions = np.concatenate([trial.predictions for trial in trials])
    batches = np.repeat(np.arange(len(trials)), [len(trial) for trial in trials])
    pool = HeldOutPool.of(data.labels[:, 0], folds.groups, predictions, batches, metric, folds.unit)
    return replace(pool, per_batch=1)


def _results(
    trials: list[CandidateTrial], left_out: list[str], pool: HeldOutPool, chosen: Index
) -> AutoResults:
    """The table of all trials."""
    greater_is_better = get_metric(pool.metric).greater_is_better
    values = pool.values
    best = values[np.argmax(values.mean(axis=1))]
    behind = [PairedDifference.of(best - value) for value in values]
    scores = values.mean(axis=1)
    numbers = _of_settings("n_estimators", trials)
    return AutoResults(
        metric=pool.metric,
        greater_is_better=greater_is_better,
        names=[trial.candidate.name for trial in trials for _ in range(len(trial))],
        alphas=_of_settings("alpha", trials),
        scores=scores if greater_is_better else 0.0 - scores,
        behind=np.array([gap.difference for gap in behind]),
        standard_errors=np.array([gap.standard_error for gap in behind]),
        chosen=np.isin(np.arange(len(values)), chosen),
        seconds=np.concatenate(
            [np.full(len(trial), trial.seconds / len(trial)) for trial in trials]
        ),
        left_out=left_out,
        n_queries=values.shape[1],
        n_estimators=None if np.isnan(numbers).all() else numbers,
        shared=tuple(dict.fromkeys(word for trial in trials for word in trial.shared)),
    )


def _of_settings(name: str, trials: list[CandidateTrial]) -> Array:
    """A parameter of each setting; NaN where it is not among them."""
    return np.array([setting.get(name, np.nan) for trial in trials for setting in trial.settings])


def _explanation(names: list[str], pool: HeldOutPool, chosen: Index) -> Explanation:
    """Scores of the parts alone, and of the mean without each."""
    sign = 1.0 if get_metric(pool.metric).greater_is_better else -1.0
    mean = pool.scores[chosen].mean(axis=0)
    without = [
        pool.mean_values(np.delete(chosen, k)).mean() if len(chosen) > 1 else np.nan
        for k in range(len(chosen))
    ]
    return Explanation(
        metric=pool.metric,
        score=float(sign * pool.mean_values(chosen).mean()) + 0.0,
        names=names,
        weights=np.full(len(chosen), 1 / len(chosen)),
        alone=sign * pool.values[chosen].mean(axis=1) + 0.0,
        without=sign * np.array(without) + 0.0,
        correlations=np.array([_correlation(scores, mean) for scores in pool.scores[chosen]]),
    )


def _correlation(a: Array, b: Array) -> float:
    """The correlation of scores that have mean 0 in each query; NaN if one is constant."""
    size = np.sqrt(np.square(a, dtype=np.float64).sum() * np.square(b, dtype=np.float64).sum())
    return float(np.dot(a.astype(np.float64), b) / size) if size > 0 else float("nan")
