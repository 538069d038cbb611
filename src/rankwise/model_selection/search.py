"""RankingSearchCV: parameters chosen with queries, pairs, comparisons or cells held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError, ParameterError
from rankwise.estimators.base import RankerMixin, explain_calls, warn_without_queries
from rankwise.estimators.ranker_rows import forget, speaking_for_parts
from rankwise.graph.comparisons import Comparisons
from rankwise.metric_names import Metric
from rankwise.metrics.ranking_scorer import RankingScorer
from rankwise.model_selection.meta_rankers import HeldOutPool, MeanRanker, behind_best
from rankwise.model_selection.rows import (
    LabelledRows,
    as_rows,
    check_fit_and_predict,
    comparison_splits,
    fit_with_queries,
    make_splits,
)
from rankwise.model_selection.trials import (
    Batch,
    ComparisonScorer,
    ComparisonTrials,
    PairTrials,
    Predicted,
    RowTrials,
    TableTrials,
    Trials,
    is_for_tables,
    make_batches,
    run_trials,
    with_params,
)
from rankwise.parameters import AnyOf, Choice, Flag, Whole, check_value
from rankwise.routing import predict_with_queries
from rankwise.tables import require_pandas

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MEAN_OF_BEST = "mean-of-best"


def list_candidates(param_grid: Any) -> list[dict[str, Any]]:
    """The candidates of a grid, in the order of scikit-learn."""
    try:
        candidates = list(ParameterGrid(param_grid))
    except (TypeError, ValueError) as error:
        raise ParameterError(f"param_grid is invalid: {error}") from error
    if not candidates:
        raise ParameterError(
            "param_grid is empty. Pass values to try, as in {'alpha': [0.1, 1.0]}."
        )
    return candidates


def candidate_names(candidates: Sequence[dict[str, Any]]) -> list[str]:
    """The parameters in which candidates differ, as text; all parameters of a single candidate."""
    names = dict.fromkeys(name for params in candidates for name in params)
    varied = [
        name
        for name in names
        if len({_short(params[name]) if name in params else None for params in candidates}) > 1
    ]
    texts = []
    for params in candidates:
        shown = [name for name in (varied or names) if name in params]
        parts = (f"{name.rpartition('__')[2]} {_short(params[name])}" for name in shown)
        texts.append(", ".join(parts))
    counts = {text: texts.count(text) for text in texts}
    return [
        text if counts[text] == 1 else f"{text} (candidate {k})" for k, text in enumerate(texts)
    ]


def _masked(name: str, candidates: Sequence[dict[str, Any]]) -> Any:
    """Values of a parameter, masked for candidates that do not set it."""
    given = {k: params[name] for k, params in enumerate(candidates) if name in params}
    plain = all(isinstance(v, (bool, int, float, np.number, np.bool_)) for v in given.values())
    kind = np.array(list(given.values())).dtype if plain else object
    column = np.ma.masked_all(len(candidates), dtype=kind)
    for k, value in given.items():
        column[k] = value
    return column


def _short(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{float(value):.4g}"
    text = str(value)
    return text if len(text) <= 30 else f"{text[:29]}\u2026"


def _if_best(has: Callable[[Any], bool] = lambda ranker: True) -> Any:
    """A method of searches whose best estimator, which `refit` fits, has what this takes."""

    def is_available(search: RankingSearchCV) -> bool:
        if not search.refit:
            raise AttributeError(
                "RankingSearchCV(refit=False) has no fitted ranker. Use refit=True, or fit the "
                "estimator with best_params_."
            )
        return has(getattr(search, "best_estimator_", search.estimator))

    return available_if(is_available)


@explain_calls
@dataclass(eq=False, repr=False)
class RankingSearchCV(RankerMixin, MetaEstimatorMixin, BaseEstimator):
    """Choose parameters by cross-validation in which whole queries, or pairs, are held out.

    This is the counterpart of `GridSearchCV` for rankers: queries are never split, and scores are
    means over queries, regardless of whether metadata routing is enabled.

    Least-squares rankers (`RankRLS`, `RLS`) are not refitted: candidates that differ only in
    alpha share one exact hold-out, which costs about as much as one fit (see `leave_query_out`,
    `leave_pair_out` and `k_fold`). Pipelines that end in such a ranker are refitted for each split,
    because their transformers must not use held-out rows, but only once for all alphas. A ranker
    with ``alpha="auto"`` is also refitted, and chooses its alpha in each split. Any other estimator
    is refitted for each candidate and split. The rankers of LightGBM, XGBoost and CatBoost get
    their rows sorted by query, with group sizes, ids or group ids; regressors get no queries.

    Parameters
    ----------
    estimator : estimator
        An object with `fit` and `predict`. It is cloned, not fitted.
    param_grid : dict or list of dict
        Values to try for each parameter, as for `sklearn.model_selection.ParameterGrid`.
    scoring : str, Metric or callable, default="disagreement"
        A name of `rankwise.metrics.METRICS`, such as "ndcg@10" or "map", a metric, or a function
        ``(y, scores, qid)`` that is called for each split and returns a number, where greater is
        better. With ``cv="leave_pair_out"``: "disagreement", "concordance" or "auc".
    cv : str, int, splitter or iterable, default="leave_query_out"
        What is held out:

        - "leave_query_out": one query at a time; needs `qid`.
        - "leave_pair_out": every pair of rows of a query, or of all rows without `qid`; only for
          least-squares rankers. The best estimate for small samples.
        - int: number of folds of whole queries, or of rows without `qid`.
        - a scikit-learn splitter, which is called with ``groups=qid``, or a list of (train, test)
          row numbers. Candidates are refitted. It is an error to split a query.
    n_jobs : int, optional
        Number of processes for parameters other than alpha and for refits. None: 1; -1: all cores.
    refit : bool or "mean-of-best", default=True
        Whether to fit the best candidate to all rows, which `predict` and `score` need.
        "mean-of-best" fits the best candidates, and `predict` returns the mean of their scores,
        standardized within queries (see `MeanRanker`). This often ranks better than the best one:
        a candidate joins the mean unless a paired t test over queries finds that it is worse, by
        more than 5%; at most two that differ only in alpha join.
    n_best : int, default=10
        Greatest number of candidates in such a mean.
    verbose : bool, default=False
        Whether to show progress, on stderr if it is a terminal, or in a notebook.
    random_state : int or Generator, optional
        If `cv` is an integer, assign queries (or rows) to folds in random order. None: in turn.

    Attributes
    ----------
    best_estimator_ : estimator
        Fitted to all rows with the best parameters, or the `MeanRanker`; only with `refit`.
    best_params_ : dict
    best_score_ : float
        Held-out score of the best candidate (the first one, if several are equal).
    best_index_ : int
        Its index in `cv_results_`.
    shared_ : tuple of str
        What was computed from all rows for `best_score_`, held-out ones included, such as
        "landmarks"; see `HeldOutScores`. Empty if hold-outs are refits or equal refits.
    cv_results_ : dict of str to array
        In scikit-learn's form: ``params`` and ``param_*``, ``mean_test_score``,
        ``std_test_score``, ``rank_test_score``, ``split0_test_score`` and so on,
        ``mean_fit_time``, ``std_fit_time``, ``mean_score_time``, ``std_score_time``. See Notes.
        With "leave_query_out" there is no column for each query: see `split_scores_`.
    split_scores_ : ndarray of shape (n_candidates, n_splits)
        The score of every candidate in every split, or on every query with "leave_query_out"; no
        columns with "leave_pair_out".
    query_scores_ : ndarray of shape (n_candidates, n_queries)
        The score of every candidate on every query, NaN where it is undefined. As `split_scores_`
        for one ranking, after `fit_pairs`, or if `scoring` is a function.
    n_splits_ : int
        Number of queries, folds or splits; with "leave_pair_out", of pairs.
    scorer_ : RankingScorer or ComparisonScorer
        ``scorer_(y, scores, qid)`` computes the score. After `fit_pairs`, its `scoring` is the
        metric of comparisons.
    baseline_scores_ : dict of str to float
        Scores of a random guess and of "the first one wins"; only after `fit_pairs`.
    mean_indices_ : ndarray
        Indices of the candidates of the mean in `cv_results_`; only with "mean-of-best".
    score_estimate_ : ScoreEstimate
        What to expect of the mean on new queries: each query is scored by a mean that was chosen
        without it; only with "mean-of-best".
    refit_time_ : float
        Seconds to fit the best candidate; only with `refit`.
    n_queries_ : int
        Number of queries seen in `fit`.
    n_features_in_, feature_names_in_
        Number and names of the features seen in `fit`.

    Notes
    -----
    Greater scores are better, as in scikit-learn. Errors are negated, so that "disagreement" has
    values from -1 (all pairs in the wrong order) to 0.

    The score of a split is the mean over its queries, and ``mean_test_score`` is the mean over the
    queries of all splits (over folds, for a global ranking): a fold with more queries has more
    weight. If the metric is undefined for all queries of a split, its score is NaN, and the split
    does not count. With "leave_pair_out" there are no splits, and ``std_test_score`` is the
    standard error of the score.

    The time of a factorization is divided among the candidates that share it.

    Examples
    --------
    >>> from rankwise import RankRLS, RankingSearchCV
    >>> from rankwise.data import make_ranking
    >>> data = make_ranking(n_queries=30, rows_per_query=10, n_features=5, random_state=0)
    >>> grid = {"alpha": [0.1, 10.0, 1e3], "ties": ["include", "exclude"]}
    >>> search = RankingSearchCV(RankRLS(), grid).fit(data.X, data.y, qid=data.qid)
    >>> search.best_params_
    {'alpha': 10.0, 'ties': 'include'}
    >>> search.cv_results_["mean_test_score"].round(3)
    array([-0.038, -0.038, -0.036, -0.036, -0.041, -0.041])
    """

    __metadata_request__predict = {"qid": True}  # noqa: RUF012

    estimator: Any
    param_grid: Any
    _: KW_ONLY
    scoring: str | Metric | Callable[..., Any] = "disagreement"
    cv: Any = "leave_query_out"
    n_jobs: int | None = None
    refit: bool | str = True
    n_best: int = 10
    verbose: bool = False
    random_state: Any = None

    @explain_calls
    def fit(self, X: Any, y: Any, *, qid: Any = None) -> Self:
        """Evaluate every candidate, and fit the best one to all rows.

        Parameters
        ----------
        X : array-like, sparse or data frame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            NaN for rows without a label, which only `TransductiveRankRLS` takes. They are not held
            out.
        qid : array-like of shape (n_rows,), optional
            The query of every row, as integers or text, in any order. None: one global ranking.

        Returns
        -------
        self
        """
        scorer = RankingScorer.of(self.scoring)
        self._start()
        unlabelled = getattr(self.estimator, "takes_unlabelled", False)
        data = LabelledRows.of(X, y, qid, unlabelled=unlabelled)
        self._check_mean(scorer, data)
        validate_data(self, X, skip_check_array=True)
        self.n_queries_ = data.with_labels.groups.n_groups
        if isinstance(self.cv, str) and self.cv == "leave_pair_out":
            sizes = data.with_labels.groups.sizes
            self.n_splits_ = int((sizes * (sizes - 1) // 2).sum())
            self._search(PairTrials(data, scorer))
        else:
            splits = make_splits(self.cv, data, self.random_state)
            self.n_splits_ = len(splits)
            trials = RowTrials(data, splits, scorer, self.refit == MEAN_OF_BEST)
            found = self._search(trials, by_split=not isinstance(self.cv, str))
        mean = self._mean_of_best(trials, *found) if self.refit == MEAN_OF_BEST else None
        return self._fit_best(lambda best: fit_with_queries(best, data.X, data.y, data.qid), mean)

    def fit_pairs(
        self,
        X: Any,
        pairs: Any,
        *,
        margin: Any = None,
        weight: Any = None,
        groups: Any = None,
        context: Any = None,
    ) -> Self:
        """Evaluate every candidate on held-out comparisons, and fit the best one to all of them.

        A group of comparisons is never split. `RankRLS` and `SparseRankRLS` are not refitted for
        other alphas and splits (see `leave_comparison_out`); other candidates are.

        The parameters mean:

        - `cv`: "leave_query_out", the default, or "leave_comparison_out" hold out one group of
          comparisons at a time, or one comparison without groups; "leave_item_out" holds out both
          items of a comparison with all their comparisons; an integer is the number of folds of
          groups. A splitter is called with ``groups``, and a list contains numbers of comparisons.
        - `scoring`: "disagreement" (one minus the accuracy, negated), "accuracy", "log_loss",
          "brier" or "squared_error" (negated). Probabilities come from the ranker if it is a
          `PairwiseGP`, and otherwise from logistic functions of held-out differences.
        - `refit` is True or False.

        ``std_test_score`` is the standard error of the score over groups, and `baseline_scores_`
        are the scores of a random guess and of "the first one wins".

        Parameters
        ----------
        X, pairs, margin, weight, groups, context
            As for `RankRLS.fit_pairs`. `pairs` may be `rankwise.data.Comparisons`.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from rankwise import RankingSearchCV, RankRLS
        >>> rng = np.random.default_rng(0)
        >>> X, first = rng.standard_normal((60, 4)), rng.integers(0, 60, 300)
        >>> second = (first + rng.integers(1, 60, 300)) % 60
        >>> won = (X[first] - X[second]) @ [1, 1, 0, 0] + rng.standard_normal(300) > 0
        >>> search = RankingSearchCV(RankRLS(), {"alpha": [0.1, 10.0, 1e3]}, scoring="log_loss")
        >>> search.fit_pairs(X, np.column_stack((first, second)), margin=won).best_params_
        {'alpha': 10.0}
        >>> {name: round(score, 3) for name, score in search.baseline_scores_.items()}
        {'random': -0.693, 'first wins': -0.689}
        """
        scorer = ComparisonScorer.of(self.scoring)
        if self.refit == MEAN_OF_BEST:
            raise ParameterError('refit="mean-of-best" needs queries: use refit=True in fit_pairs.')
        self._start()
        X = as_rows(X)
        validate_data(self, X, skip_check_array=True)
        options = {"margin": margin, "weight": weight, "groups": groups, "context": context}
        given = Comparisons.given(X, int(X.shape[0]), pairs, **options)
        if given.margin.ndim > 1:
            raise DataError(f"A search needs one margin per pair: got shape {given.margin.shape}.")
        splits = comparison_splits(self.cv, given, self.random_state)
        self.n_splits_ = len(given) if splits is None else len(splits)
        trials = ComparisonTrials(X, given, splits, scorer)
        self.n_queries_ = 1
        self._search(trials, by_split=not isinstance(self.cv, str))
        self.baseline_scores_ = trials.baselines()
        return self._fit_best(lambda best: best.fit_pairs(X, given))

    def fit_table(
        self, R: Any, C: Any, Y: Any, *, cells: Any = None, within: str | None = None
    ) -> Self:
        """Evaluate every candidate on held-out cells of a table, and fit the best one to all cells.

        For `TwoSidedRankRLS`: kernels, weights of several kernels and other parameters of either
        side. Candidates that differ only in alpha share one hold-out.

        The parameters mean:

        - `cv`: "leave_query_out", the default, holds out what the parameter `for_new` of the ranker
          names: rows, columns, both or cells. An integer is the number of folds.
        - `scoring`: the name of a metric, such as "concordance" or "ndcg@10".
        - `refit` is True or False.

        Afterwards, `predict`, `rank` and `score` take rows and columns, as in the ranker.

        ``std_test_score`` is the standard error of the score over rows (or columns, or folds).

        Parameters
        ----------
        R, C, Y, cells
            As for `TwoSidedRankRLS.fit`.
        within : {"rows", "columns", "all"}, optional
            Which held-out cells are compared. None: the cells that compete in the fit.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from rankwise import RankingSearchCV, TwoSidedRankRLS
        >>> rng = np.random.default_rng(0)
        >>> drugs, targets = rng.standard_normal((30, 3)), rng.standard_normal((20, 3))
        >>> affinity = np.exp(-((drugs[:, None] - targets) ** 2).sum(axis=2))
        >>> grid = {"row_kernel": ["linear", "rbf"], "column_kernel": ["linear", "rbf"]}
        >>> search = RankingSearchCV(TwoSidedRankRLS(), grid).fit_table(drugs, targets, affinity)
        >>> search.best_params_
        {'column_kernel': 'rbf', 'row_kernel': 'rbf'}
        """
        scorer = RankingScorer.of(self.scoring)
        if self.refit == MEAN_OF_BEST or not isinstance(self.scoring, str):
            raise ParameterError(
                "fit_table needs refit=True or False, and the name of a metric as scoring."
            )
        if self.cv != "leave_query_out":
            check_value("cv of fit_table", self.cv, Whole(2))
        names = {name for params in list_candidates(self.param_grid) for name in params}
        if "for_new" in names or ("compare" in names and within is None):
            raise ParameterError(
                "Scores of candidates must be of the same held-out cells: set for_new of the "
                "estimator, and pass within= to search over compare."
            )
        self._start()
        folds = None if isinstance(self.cv, str) else self.cv
        self._search(TableTrials(R, C, Y, cells, folds, within, scorer))
        self.n_splits_ = self.n_queries_ = self.split_scores_.shape[1]
        return self._fit_best(lambda best: best.fit(R, C, Y, cells=cells))

    def _start(self) -> None:
        """Check the parameters, and forget earlier results."""
        check_value("refit", self.refit, AnyOf(Flag(), Choice(MEAN_OF_BEST)))
        check_value("n_best", self.n_best, Whole(1))
        check_fit_and_predict("estimator", self.estimator)
        forget(self)

    def _search(self, trials: Trials, *, by_split: bool = False) -> tuple[Any, Index]:
        """Score all candidates, and keep the results; `by_split`: with a column for each split.

        Returns the predictions of the candidates, if outcomes have them, and a number for each
        candidate, which is the same for those of a batch.
        """
        self.scorer_: RankingScorer | ComparisonScorer = trials.scorer
        candidates = list_candidates(self.param_grid)
        batches = make_batches(self.estimator, candidates)

        def finish(batch: Batch, found: list[Predicted]) -> tuple[Any, ...]:
            start = perf_counter()
            outcome = trials.outcome(batch, found)
            return outcome, *outcome.times(found, perf_counter() - start), found[0].shared

        found = run_trials(trials, batches, finish, n_jobs=self.n_jobs, verbose=bool(self.verbose))
        outcomes, fit_times, score_times, shared = map(list, zip(*found, strict=True))
        back = np.argsort(np.concatenate([batch.candidates for batch in batches]))
        if len({outcome.splits.shape[1] for outcome in outcomes}) > 1:
            raise ParameterError(
                "The candidates were held out in different numbers of folds: set cv to a number."
            )

        def of(name: str) -> Array:
            return np.concatenate([getattr(outcome, name) for outcome in outcomes])[back]

        results: dict[str, Any] = {}
        for name, times in (("fit_time", fit_times), ("score_time", score_times)):
            results[f"mean_{name}"] = np.concatenate(times)[back].mean(axis=1)
            results[f"std_{name}"] = np.concatenate(times)[back].std(axis=1)
        for name in dict.fromkeys(name for params in candidates for name in params):
            results[f"param_{name}"] = _masked(name, candidates)
        results["params"] = candidates
        self.split_scores_, self.query_scores_ = of("splits"), of("queries")
        if by_split:
            columns = enumerate(self.split_scores_.T)
            results |= {f"split{k}_test_score": column for k, column in columns}
        results["mean_test_score"], results["std_test_score"] = of("mean"), of("std")
        results["rank_test_score"] = rankdata(-of("mean"), method="min").astype(np.int32)
        self.cv_results_ = results
        self.best_index_ = int(np.argmin(results["rank_test_score"]))
        self.best_params_ = candidates[self.best_index_]
        self.best_score_ = float(results["mean_test_score"][self.best_index_])
        (self.shared_,) = (
            one
            for batch, one in zip(batches, shared, strict=True)
            if self.best_index_ in batch.candidates
        )
        numbers = np.repeat(np.arange(len(batches)), [len(batch.candidates) for batch in batches])
        kept = None if outcomes[0].predictions is None else of("predictions")
        return kept, numbers[back]

    def _fit_best(self, fit: Callable[[Any], Any], best: Any = None) -> Self:
        """Fit the best candidate, or the mean of several, to all data, unless `refit` is False."""
        if self.refit:
            start = perf_counter()
            best = with_params(self.estimator, self.best_params_) if best is None else best
            fit(best)
            self.best_estimator_, self.refit_time_ = best, perf_counter() - start
        return self

    def _check_mean(self, scorer: RankingScorer, data: LabelledRows) -> None:
        """A mean needs held-out scores of rows, and the metric of each query."""
        if self.refit != MEAN_OF_BEST:
            return
        only_pairs = isinstance(self.cv, str) and self.cv == "leave_pair_out"
        several = data.labels.shape[1] > 1 or data.labelled is not None
        if only_pairs or scorer.metric is None or several:
            raise ParameterError(
                'refit="mean-of-best" compares candidates query by query, with one label for every '
                'row, cv="leave_query_out" or a number of folds, and the name of a metric as '
                f"scoring: got cv={self.cv!r} and scoring={self.scoring!r}. Use refit=True."
            )

    def _mean_of_best(self, trials: RowTrials, predictions: Array, batches: Index) -> MeanRanker:
        """The mean of the best candidates, to be fitted; see `HeldOutPool`."""
        scores = predictions.reshape(len(batches), -1)
        pool = HeldOutPool.of_splits(trials, scores, batches)
        self.mean_indices_ = pool.choose(self.n_best)
        self.score_estimate_ = pool.estimate(self.mean_indices_, pool.outer_values(self.n_best))
        params = self.cv_results_["params"]
        return MeanRanker([with_params(self.estimator, params[k]) for k in self.mean_indices_])

    @_if_best()  # type: ignore[untyped-decorator]
    def predict(self, X: Any, C: Any = None, *, qid: Any = None) -> Any:
        """Scores of rows by the best ranker: higher is better.

        Parameters
        ----------
        X : array-like, sparse or data frame of shape (n_rows, n_features)
        C : array-like, optional
            After `fit_table`: the columns of the table to be scored, see `TwoSidedRankRLS.predict`.
        qid : array-like of shape (n_rows,), optional
            The query of every row, for rankers and pipelines that scale within queries. It has no
            effect on others. Pass all rows of a query in one call: if a query is split over two
            calls, its scores change.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs); (n_rows, n_columns) after `fit_table`
        """
        check_is_fitted(self)
        if C is None:
            return predict_with_queries(self.best_estimator_, X, qid)
        if not is_for_tables(self.best_estimator_):
            raise ParameterError("Columns are for fit_table. Pass queries by name: qid=.")
        return self.best_estimator_.predict(X, C)

    def _predict_queries(self, X: Any, qid: Any) -> Any:
        return self.predict(X, qid=qid)

    @_if_best(is_for_tables)  # type: ignore[untyped-decorator]
    def rank(self, row: Any, C: Any = None, *, k: int = 10) -> tuple[Index, Array]:
        """The k best columns for a row by the best ranker, after `fit_table`.

        Parameters
        ----------
        row, C, k
            As for `TwoSidedRankRLS.rank`.

        Returns
        -------
        columns, scores : ndarray of shape (k,)
        """
        check_is_fitted(self)
        found: tuple[Index, Array] = self.best_estimator_.rank(row, C, k=k)
        return found

    @_if_best(lambda ranker: hasattr(ranker, "predict_preference"))  # type: ignore[untyped-decorator]
    def predict_preference(self, X1: Any, X2: Any, **options: Any) -> Any:
        """Probability that a row of X1 is preferred to the row of X2, by the best ranker.

        Only after `fit_pairs`, and for rankers with this method.

        Parameters
        ----------
        X1, X2 : array-like or sparse of shape (n_pairs, n_features)
        **options
            Options of the ranker's `predict_preference`, such as `context`.

        Returns
        -------
        ndarray of shape (n_pairs,)
        """
        check_is_fitted(self)
        return self.best_estimator_.predict_preference(X1, X2, **options)

    @_if_best()  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any, sample_weight: Any = None, qid: Any = None) -> float:
        """The score of these rows by `scoring`, on the scale of `best_score_`.

        After `fit_pairs`, it is the share of pairs in the right order. After `fit_table`, call
        ``score(R, C, Y)`` with rows, columns and a table; the cells that compete are compared.

        Parameters
        ----------
        X : array-like, sparse or data frame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : None
            Only for compatibility with scikit-learn; weights are not supported.
        qid : array-like of shape (n_rows,), optional
            Only rows of the same query are compared. None: all rows are compared.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        if is_for_tables(self.best_estimator_):
            value = self.best_estimator_.score(X, y, sample_weight, metric=self.scorer_.scoring)
            return 0.0 - value if self.scorer_.negated else float(value)
        if sample_weight is not None:
            raise ParameterError(
                "score does not support sample_weight: it averages queries, not rows. Pass queries "
                "by name: qid=."
            )
        warned = qid is None and warn_without_queries(self, y)
        scorer = self.scorer_
        if not isinstance(scorer, RankingScorer):
            scorer = RankingScorer.of("concordance")
        with speaking_for_parts() if warned else nullcontext():  # one warning is enough
            predicted = self.predict(X, qid=qid)
        return scorer(y, predicted, qid)

    def to_frame(self) -> Any:
        """A pandas frame with a row for each candidate, the best first.

        The columns are the parameters, the score, how far it is behind the best, and the standard
        error of this difference over splits or queries.
        """
        check_is_fitted(self)
        results, splits = self.cv_results_, self.split_scores_
        frame = require_pandas("cv_results_").DataFrame(results["params"])
        defined = splits[:, np.isfinite(splits).all(axis=0)]
        frame["score"] = results["mean_test_score"]
        frame["behind_best"] = self.best_score_ - results["mean_test_score"]
        frame["standard_error"] = behind_best(defined, self.best_index_)[1]
        frame["rank"] = results["rank_test_score"]
        return frame.sort_values("rank", kind="stable")

    def plot(self, **options: Any) -> Axes:
        """Draw how far candidates are behind the best, with intervals of these differences.

        Parameters
        ----------
        **options
            Options of `rankwise.plots.plot_differences_from_best`, such as `top`.

        Returns
        -------
        matplotlib Axes
        """
        from rankwise.plots import plot_differences_from_best

        check_is_fitted(self)
        scorer = self.scorer_
        values = -self.split_scores_ if scorer.negated else self.split_scores_
        named = dict(zip(candidate_names(self.cv_results_["params"]), values, strict=True))
        metric = scorer.scoring if isinstance(scorer.scoring, str) else "score"
        return plot_differences_from_best(
            named, metric=metric, greater_is_better=not scorer.negated, **options
        )

    def __sklearn_tags__(self) -> Any:
        tags = deepcopy(get_tags(self.estimator))
        tags.transformer_tags = None
        tags.target_tags.required = True
        return tags
