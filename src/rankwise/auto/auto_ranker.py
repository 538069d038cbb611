"""AutoRanker: what to try first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from importlib.util import find_spec
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from rankwise.auto.baselines import Baselines, ExampleQuery
from rankwise.backends.arrays import Array, Index, is_sparse, to_host
from rankwise.backends.parallel import blas_threads_for
from rankwise.boosted.boosted_ranker import BoostedOptions, BoostedRanker
from rankwise.data.table_rows import feature_frame
from rankwise.errors import DataError, KernelSizeError, ParameterError
from rankwise.estimators.base import MONOTONE_PARAMETERS, RankerMixin, explain_calls
from rankwise.estimators.ranker_rows import DTYPES, forget, validated
from rankwise.estimators.rankrls import AdditiveRankRLS, RankRLS, SparseRankRLS
from rankwise.graph import QueryGroups
from rankwise.graph.query_groups import numeric_labels
from rankwise.holdout.hold_out_problem import HoldOutProblem, alphas_compared
from rankwise.holdout.scores import given_words
from rankwise.metric_names import are_fractions, are_grades, default_metric, metric_label
from rankwise.metrics import get_metric
from rankwise.model_selection.hold_outs import (
    all_predictions,
    hold_out_problem,
    hold_out_rows,
)
from rankwise.model_selection.meta_rankers import (
    CandidateScores,
    HeldOutPool,
    MeanRanker,
    PairedDifference,
    behind_best,
)
from rankwise.model_selection.rows import (
    LabelledRows,
    Splits,
    check_fit_and_predict,
    fit_with_queries,
    take,
)
from rankwise.model_selection.trials import Batch, RowHoldOuts
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
    monotone_signs,
)
from rankwise.preprocessing.query_scalers import WithQueryStandard
from rankwise.preprocessing.table_encoder import TableEncoder
from rankwise.progress import progress_bar, unseen
from rankwise.scaling import QUERY_SCALINGS, ColumnStatistics
from rankwise.tables import Column, Table, TableMixin, in_bytes

KINDS = ("linear", "additive", "kernel")
QUERY_FOLDS = 10
SINGLE_ROWS = 2000  # up to which each query is held out by itself, which takes less time than folds
REFIT_FOLDS = 5  # for rankers without exact hold-outs
ROW_FOLDS = 5  # of one global ranking
LANDMARKS = 200
SAMPLE = 5000  # rows for the widths of kernels
# The width of a kernel: gamma times the sum over features of the variances (rbf), or of the
# standard deviations (laplacian), of the scaled rows.
WIDTHS = {"rbf": 0.15, "laplacian": 0.25}
OVERALL = "standard"  # the scaling that does not know of queries
KEPT = 2**18  # numbers in the rows up to which the problems of all candidates are kept
MANY_FEATURES = 1000  # for functions of single features
FEW_ROWS = 1000  # for trees on twice the features
LARGE_TREES = 31  # leaves, with random splits and lambdarank


@dataclass(frozen=True)
class Candidate:
    """A ranker to try, under a name.

    `features` is a transformer before it that learns nothing from rows, and `only_after` names
    other candidates: if none of these is the best so far, this one is not tried.
    """

    name: str
    ranker: Any
    features: Any = None
    only_after: tuple[str, ...] = ()

    def rows(self, X: Any, qid: Any) -> Any:
        """The features that the ranker gets."""
        return X if self.features is None else clone(self.features).fit_transform(X, qid=qid)

    def with_settings(self, settings: Mapping[str, Any]) -> Any:
        """The ranker with some parameters, not fitted, behind its transformer."""
        ranker = clone(self.ranker).set_params(**settings)
        return ranker if self.features is None else make_pipeline(clone(self.features), ranker)

    def n_bytes(self, n_rows: int, n_features: int) -> int:
        """About the memory of its hold-out: rows in float64, and a copy of them."""
        ranker, columns = self.ranker, n_features
        if isinstance(ranker, AdditiveRankRLS):
            columns = n_features * ranker.n_ramps
        elif isinstance(ranker, SparseRankRLS):
            columns = min(n_rows, ranker.n_landmarks or 1000)
        elif isinstance(ranker, RankRLS) and (ranker.kernel != "linear" or n_features > n_rows):
            columns = n_rows
        return 2 * 8 * n_rows * columns


def default_candidates(
    kinds: Sequence[str],
    X: Any,
    groups: QueryGroups,
    rng: np.random.Generator,
    most_landmarks: int,
) -> Iterator[Candidate]:
    """Linear, additive and kernel rankers, each on several scalings; cheap ones first.

    Sparse rows, which most scalings would fill, are tried on two scalings, and without additive
    rankers.
    """
    sparse, n_features = is_sparse(X), X.shape[1]
    scalings = [*QUERY_SCALINGS, OVERALL] if groups.n_groups > 1 else [OVERALL]
    if sparse:
        scalings = [scale for scale in scalings if scale in ("query-minmax", OVERALL)]
    if "linear" in kinds:
        for scale in scalings:
            yield Candidate(f"linear, {scale}", RankRLS(scale=scale))
    if "additive" in kinds and not sparse and n_features <= MANY_FEATURES:
        for scale in scalings:
            if scale == OVERALL:  # functions of one feature do not depend on its scale
                yield Candidate("additive", AdditiveRankRLS())
            else:
                yield Candidate(f"additive, {scale}", AdditiveRankRLS(scale=scale))
    if "kernel" in kinds:
        seed = int(rng.integers(2**31))
        for kernel, width in WIDTHS.items():
            for scale in scalings:
                if kernel == "laplacian" and scale not in ("query-ranks", OVERALL):
                    continue
                deviations = scaled_deviations(X, groups, scale)
                total = np.square(deviations).sum() if kernel == "rbf" else deviations.sum()
                ranker = SparseRankRLS(
                    n_landmarks=min(LANDMARKS, most_landmarks),
                    kernel=kernel,
                    gamma=float(width / (total or 1.0)),
                    scale=scale,
                    random_state=seed,
                )
                yield Candidate(f"{kernel}, {scale}", ranker)


def scaled_deviations(X: Any, groups: QueryGroups, scale: str) -> Any:
    """The standard deviation of each feature after scaling, from some whole queries."""
    if scale not in QUERY_SCALINGS:
        return np.ones(X.shape[1])
    n_queries = int(np.searchsorted(groups.indptr, SAMPLE))  # the first ones with so many rows
    rows = groups.order[: groups.indptr[min(n_queries, groups.n_groups)]]
    scaled = QUERY_SCALINGS[scale].scale(X[rows], groups.take(rows))
    return ColumnStatistics.of(scaled).deviation


def tree_candidates(X: Any, groups: QueryGroups, *, grades: bool, seed: int) -> Iterator[Candidate]:
    """Boosted trees; further ones only if one of the first two is the best ranker so far.

    In queries, trees get the features as they are with the features standardized within each query
    beside them. If there are few rows, the features as they are come first, which takes half the
    time. Trees with random splits always come first: they often rank well where others do not.
    Sparse rows would be filled, and have the features as they are only.
    """
    first, both, loose = "boosted trees", WithQueryStandard(), BoostedOptions(random_splits=True)
    plain = Candidate(f"{first}, features as they are", BoostedRanker(random_state=seed))
    if groups.n_groups == 1 or is_sparse(X):
        yield replace(plain, name=first)
        return
    every = [Candidate(first, BoostedRanker(random_state=seed), both), plain]
    if len(X) < FEW_ROWS:
        every.reverse()
    random = BoostedRanker(options=loose, random_state=seed)
    every.insert(1, Candidate(f"{first}, random splits", random))
    if grades:
        ranker = BoostedRanker(loss="lambdarank", random_state=seed)
        every.append(Candidate(f"{first}, lambdarank", ranker, both))
        large = clone(random).set_params(loss="lambdarank", max_leaf_nodes=LARGE_TREES)
        every.append(Candidate(f"{first}, lambdarank, random splits", large))
    yield from every[:2]
    for candidate in every[2:]:
        yield replace(candidate, only_after=(every[0].name, every[1].name))


def named(rankers: Sequence[Any]) -> Iterator[Candidate]:
    """The user's own rankers, under names that tell them apart."""
    seen: dict[str, int] = {}
    for ranker in rankers:
        check_fit_and_predict("Each of candidates", ranker)
        name = " ".join(repr(ranker).split())
        seen[name] = seen.get(name, 0) + 1
        yield Candidate(name if seen[name] == 1 else f"{name} ({seen[name]})", ranker)


@dataclass(frozen=True, eq=False)
class CandidateTrial:
    """Held-out predictions of a candidate, with a row for each of its settings.

    A setting is an alpha of a least-squares ranker or a number of trees. It is empty, and there is
    one row, for other rankers. `shared` names what was computed from all rows. `problem` is what
    the ranker made of few rows, so that the final fit need not make it again.
    """

    candidate: Candidate
    settings: list[dict[str, float]]
    predictions: Array
    seconds: float
    shared: tuple[str, ...] = ()
    problem: HoldOutProblem | None = None

    def __len__(self) -> int:
        return len(self.predictions)

    def ranker(self, k: int) -> Any:
        """The ranker with the k-th setting, not fitted."""
        return self.candidate.with_settings(self.settings[k])

    def fitted(self, k: int, data: LabelledRows) -> Any:
        """The ranker with the k-th setting, fitted to all rows or to the problem of its trial."""
        if self.problem is None:
            ranker = self.ranker(k)
            fit_with_queries(ranker, data.X, data.y, data.qid)
            return ranker
        ranker = copy(self.problem.ranker).set_params(**self.settings[k])
        return ranker.fit_problem(self.problem.problem)


def make_folds(data: LabelledRows) -> tuple[Splits, Splits]:
    """Folds of whole queries, or of the rows of one global ranking: exact ones, and for refits.

    Rows of one ranking are dealt in the order of their labels, so that every fold has large and
    small ones, however the rows are sorted. Nothing can be learned from queries without two
    different labels: they are dealt last, so that the rows outside every fold are informative.
    """
    if data.groups.n_groups == 1:
        n_rows = len(data)
        if n_rows < 4:
            raise DataError(f"AutoRanker needs at least 4 rows, to hold some out: got {n_rows}.")
        by_label = np.argsort(data.y, kind="stable")
        splits = Splits.in_turn(np.argsort(by_label), min(ROW_FOLDS, n_rows // 2))
        return splits, splits
    groups, learnable = data.groups, learnable_queries(data)
    n_learnable = len(learnable)
    if n_learnable < 2:
        raise DataError(
            "AutoRanker needs at least two queries with different labels, to hold one out: got "
            f"{n_learnable} of {groups.n_groups}. Use RankRLS, or add queries."
        )
    others = np.setdiff1d(np.arange(groups.n_groups), learnable)
    place = np.empty(groups.n_groups, dtype=np.intp)
    place[np.concatenate([learnable, others])] = np.arange(groups.n_groups)
    n_folds = n_learnable if len(data) <= SINGLE_ROWS else QUERY_FOLDS
    exact, refits = (
        Splits.in_turn(groups.codes, min(n_learnable, most), place)
        for most in (n_folds, REFIT_FOLDS)
    )
    return exact, refits


def learnable_queries(data: LabelledRows) -> Index:
    """The queries, by number, that have different labels."""
    groups, labels = data.groups, data.y[data.groups.order]
    starts = groups.indptr[:-1]
    return np.flatnonzero(np.maximum.reduceat(labels, starts) > np.minimum.reduceat(labels, starts))


@dataclass(frozen=True)
class EncodedHoldOuts(RowHoldOuts):
    """Folds of a data frame, each encoded by an encoder that was fitted without it.

    `encoded` has the features of all rows, for each fold. With `names`, these features come first
    in every fold, and are 0 where a fold has none of them, so that positions mean the same.
    """

    encoded: Sequence[Any]

    @classmethod
    def of(
        cls,
        encoder: Any,
        frame: Any,
        data: LabelledRows,
        splits: Splits,
        names: Sequence[str] | None = None,
    ) -> EncodedHoldOuts:
        """Fit the encoder to the rows outside each fold."""
        encoded = []
        for k in range(len(splits)):
            fitted = clone(encoder).fit(take(frame, splits.train(k, len(data))))
            X = fitted.transform(frame)
            encoded.append(X if names is None else _in_places(X, fitted.names_out(), names))
        return cls(data, splits, [_dense_or_csr(X) for X in encoded])

    def sides(self, estimator: Any, k: int) -> tuple[LabelledRows, LabelledRows, Index]:
        """Training rows and held-out rows of split k, and the numbers of the former."""
        rows = RowHoldOuts(replace(self.data, X=self.encoded[k]), self.splits)
        return rows.sides(estimator, k)


def _in_places(X: Any, found: Sequence[str], names: Sequence[str]) -> Any:
    """The features in the order of names, followed by those that are not among the names."""
    order = list(dict.fromkeys([*names, *found]))
    places = [order.index(name) for name in found]
    ones = np.ones(len(found)), (np.arange(len(found)), places)
    return X @ sp.csr_array(ones, shape=(len(found), len(order)))


def _copies_in_places(X: Any, n: int) -> Any:
    """Features and their copies in the order: n features, their copies, all others."""
    half = X.shape[1] // 2
    return X[:, np.r_[0:n, half : half + n, n:half, half + n : 2 * half]]


def _dense_or_csr(X: Any) -> Any:
    """Encoded rows in a form that all rankers take."""
    return sp.csr_array(X) if is_sparse(X) else np.asarray(X, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Contest:
    """Candidates that are held out on the same rows, and compared by a metric.

    Candidates are held out exactly if possible, and refitted otherwise; if `refits` has rows that
    are encoded for each fold, all of them are refitted.
    """

    data: LabelledRows
    exact: Splits
    refits: RowHoldOuts
    metric: str
    trials: list[CandidateTrial] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def hold_out(self, candidate: Candidate) -> CandidateTrial:
        """Predictions for all rows by rankers that were trained without their fold."""
        start, data, ranker, refits = perf_counter(), self.data, candidate.ranker, self.refits
        settings: list[dict[str, float]] = [{}]
        shared: tuple[str, ...] = ()
        problem, splits, batch = None, refits.splits, Batch([0], ranker, None)
        is_exact = getattr(ranker, "exact_search", False) and ranker.alpha != 0
        if is_exact and not isinstance(refits, EncodedHoldOuts):
            splits = self.exact
            held_out = hold_out_rows(ranker, data, splits.tests, None)
            # The largest alpha first: the first of equal scores is the best.
            order = np.argsort(-held_out.alphas)
            found = np.asarray(to_host(all_predictions(held_out)))[order][:, splits.rows]
            settings = [{"alpha": alpha} for alpha in held_out.alphas[order].tolist()]
            shared = held_out.shared
            if data.X.shape[0] * data.X.shape[1] <= KEPT:
                problem = held_out.problem
        elif isinstance(ranker, BoostedRanker) and ranker.n_estimators == "auto":
            trees, of_folds = clone(ranker).set_params(metric=self.metric), None
            if isinstance(refits, EncodedHoldOuts):
                of_folds = [candidate.rows(X, data.qid) for X in refits.encoded]
                if ranker.monotone and candidate.features is not None:
                    of_folds = [_copies_in_places(X, data.X.shape[1]) for X in of_folds]
            rows, fold = candidate.rows(data.X, data.qid), splits.fold_of_row
            numbers, staged = trees.held_out_predictions(
                rows, data.y, fold=fold, qid=data.qid, X_of_folds=of_folds
            )
            found = staged[:, splits.rows]
            settings = [{"n_estimators": number} for number in numbers.tolist()]
        else:
            if is_exact:
                given = hold_out_problem(ranker, data.X, data.y, data.qid, None).alphas
                alphas = sorted(given.tolist(), reverse=True)
                settings = [{"alpha": alpha} for alpha in alphas]
                batch = replace(batch, alphas=alphas)
            parts = [refits.hold_out(batch, k).values for k in range(len(splits))]
            found = np.concatenate(parts, axis=1)
        if found.ndim != 2 or not np.isfinite(found).all():
            raise DataError(
                f"The scores of {candidate.name!r} must be one finite number for each row."
            )
        predictions = np.empty_like(found)
        predictions[:, splits.rows] = found
        seconds = perf_counter() - start
        return CandidateTrial(candidate, settings, predictions, seconds, shared, problem)

    def pool(self, trials: list[CandidateTrial]) -> HeldOutPool:
        """The held-out scores of some trials."""
        predictions = np.concatenate([trial.predictions for trial in trials])
        batches = np.repeat(np.arange(len(trials)), [len(trial) for trial in trials])
        units, unit = self.data.groups.codes, "queries"
        if self.data.qid is None:  # scores of different folds have different offsets
            units, unit = self.exact.fold_of_row, "folds"
        labels = self.data.labels[:, 0]
        pool = HeldOutPool.of(labels, units, predictions, batches, self.metric, unit)
        return replace(pool, per_batch=1)

    def is_best(self, names: Sequence[str]) -> bool:
        """Whether one of some candidates is the best so far.

        Candidates that are only tried after them do not count.
        """
        trials = [trial for trial in self.trials if trial.candidate.only_after != names]
        pool = self.pool(trials)
        best = pool.batches[np.argmax(pool.values.mean(axis=1))]
        return trials[best].candidate.name in names

    def parameter(self, name: str) -> Array:
        """A parameter of each setting of all trials; NaN where it is not among them."""
        return np.array(
            [setting.get(name, np.nan) for trial in self.trials for setting in trial.settings]
        )

    def results(self, pool: HeldOutPool, chosen: Index, notes: tuple[str, ...]) -> AutoResults:
        """The table of all trials."""
        greater_is_better, values, trials = pool.measure.greater_is_better, pool.values, self.trials
        scores, numbers = values.mean(axis=1), self.parameter("n_estimators")
        return AutoResults(
            pool.metric,
            greater_is_better,
            [trial.candidate.name for trial in trials for _ in range(len(trial))],
            self.parameter("alpha"),
            scores if greater_is_better else 0.0 - scores,
            *behind_best(values, int(np.argmax(scores))),
            values.shape[1],
            chosen=np.isin(np.arange(len(values)), chosen),
            seconds=np.concatenate([np.full(len(one), one.seconds / len(one)) for one in trials]),
            left_out=self.left_out,
            n_estimators=None if np.isnan(numbers).all() else numbers,
            shared=tuple(dict.fromkeys(word for trial in trials for word in trial.shared)),
            notes=notes,
        )


@dataclass(frozen=True, eq=False)
class Part:
    """A ranker of the mean: its name, its weight, and the fitted ranker.

    Examples
    --------
    >>> from rankwise import AutoRanker
    >>> from rankwise.data import make_ranking
    >>> data = make_ranking(6, rows_per_query=5, n_features=2, n_levels=3, random_state=0)
    >>> ranker = AutoRanker(boosted=False, random_state=0).fit(data.X, data.y, qid=data.qid)
    >>> {type(part).__name__ for part in ranker.parts_}
    {'Part'}
    >>> sum(part.weight for part in ranker.parts_)
    1.0
    """

    name: str
    weight: float
    ranker: Any


@dataclass(frozen=True, eq=False)
class AutoResults(CandidateScores):
    """Every ranker that was tried, with every setting, and its held-out score.

    Print it or show it in a notebook to see each ranker at its best setting; `to_frame` returns all
    trials.

    Attributes
    ----------
    metric : str
    greater_is_better : bool
    names : list of str
        The ranker of each trial.
    alphas : ndarray of shape (n_trials,)
        Its alpha; NaN for rankers without one.
    scores : ndarray of shape (n_trials,)
        Held-out score, a mean over queries.
    behind, standard_errors : ndarray of shape (n_trials,)
        How far behind the best trial it is, a mean over the same queries, and the standard error of
        this difference.
    n_queries : int
        Queries with a score; for one global ranking, folds of its rows.
    chosen : ndarray of bool, shape (n_trials,)
        Whether it is part of the mean.
    seconds : ndarray of shape (n_trials,)
        The time of the ranker, divided among its settings.
    left_out : list of str
        Rankers that were not tried, and why.
    n_estimators : ndarray of shape (n_trials,), optional
        Its number of trees; NaN for other rankers. None if no trees were tried.
    shared : tuple of str
        What a ranker computed from all rows, held-out ones included, such as the "landmarks" of
        `SparseRankRLS`; see `rankwise.model_selection.HeldOutScores`.
    notes : tuple of str
        Why rankers were chosen by this metric, and what became of queries where it is undefined.

    Examples
    --------
    >>> from rankwise import AutoRanker
    >>> from rankwise.data import make_ranking
    >>> data = make_ranking(6, rows_per_query=5, n_features=2, n_levels=3, random_state=0)
    >>> ranker = AutoRanker(boosted=False, random_state=0).fit(data.X, data.y, qid=data.qid)
    >>> ranker.results_  # doctest: +ELLIPSIS
    <AutoResults: ... rankers, ... trials>
    """

    chosen: Any
    seconds: Array
    left_out: list[str]
    n_estimators: Array | None = None
    shared: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_table(self) -> Table:
        """Each ranker at its best setting, best first."""
        settings, columns = self.alphas, [Column("ranker", ""), Column("alpha", ".3g")]
        if self.n_estimators is not None:
            settings = np.where(np.isnan(settings), self.n_estimators, settings)
            columns[1] = Column("alpha or trees", ".3g")
        columns += [Column(metric_label(self.metric)), Column("behind best"), Column("s.e.")]
        columns += [Column("seconds", ".2f"), Column("in the mean", "")]
        rows = []
        for name, k in self.best_trials.items():
            same = np.array([other == name for other in self.names])
            numbers = settings[k], self.scores[k], self.behind[k], self.standard_errors[k]
            is_part = "yes" if (self.chosen & same).any() else ""
            rows.append((name, *numbers, self.seconds[same].sum(), is_part))
        notes = [
            *self.notes,
            "The best of many scores is optimistic. What to expect is estimated separately.",
        ]
        if self.shared:
            notes.append(f"Scores of some rankers are{given_words(self.shared)[1:]}.")
        notes += [f"Not tried: {line.rstrip('.')}." for line in self.left_out]
        return Table(tuple(columns), tuple(rows), note="\n".join(notes), best=frozenset({(0, 2)}))

    def _frame_columns(self) -> dict[str, Any]:
        trees = {} if self.n_estimators is None else {"n_estimators": self.n_estimators}
        columns = super()._frame_columns() | trees
        return columns | {"chosen": self.chosen, "seconds": self.seconds}

    def __repr__(self) -> str:
        return f"<AutoResults: {len(set(self.names))} rankers, {len(self)} trials>"


@dataclass(frozen=True, eq=False)
class Explanation(TableMixin):
    """Which parts carry the score of a mean, by held-out predictions.

    Attributes
    ----------
    metric : str
    score : float
        Of the mean of all parts.
    names : list of str
    weights : ndarray of shape (n_parts,)
    alone : ndarray of shape (n_parts,)
        Score of each part alone.
    without : ndarray of shape (n_parts,)
        Score of the mean of the other parts; NaN if there is no other.
    correlations : ndarray of shape (n_parts,)
        Correlation of the scores of a part and of the mean within queries.

    Examples
    --------
    >>> from rankwise import AutoRanker
    >>> from rankwise.data import make_ranking
    >>> data = make_ranking(6, rows_per_query=5, n_features=2, n_levels=3, random_state=0)
    >>> ranker = AutoRanker(boosted=False, random_state=0).fit(data.X, data.y, qid=data.qid)
    >>> explanation = ranker.explain()
    >>> len(explanation.names) == len(ranker.parts_)
    True
    """

    metric: str
    score: float
    names: list[str]
    weights: Array
    alone: Array
    without: Array
    correlations: Array

    def to_table(self) -> Table:
        """A row for each part, and one for the mean."""
        names = "part", "weight", f"{metric_label(self.metric)} alone", "mean without it"
        formats = "", ".3f", ".4f", ".4f", ".3f"
        columns = tuple(map(Column, (*names, "correlation"), formats))
        rows = list(zip(*self._frame_columns().values(), strict=True))
        rows.append(("mean of all", 1.0, self.score, None, 1.0))
        return Table(columns, tuple(rows))

    def _frame_columns(self) -> dict[str, Any]:
        return {
            "part": self.names,
            "weight": self.weights,
            "alone": self.alone,
            "without": self.without,
            "correlation": self.correlations,
        }

    def __repr__(self) -> str:
        return f"<Explanation of {len(self.names)} parts>"


@explain_calls
@dataclass(eq=False, repr=False)
class AutoRanker(RankerMixin, MetaEstimatorMixin, BaseEstimator):
    """The mean of the best of several rankers, all chosen by hold-outs.

    Linear rankers, additive rankers and rankers with Gaussian kernels are tried on several
    scalings of the features, each at 9 to 16 values of alpha, and boosted trees if LightGBM is
    installed. Every query is predicted by rankers that were trained without its fold, without
    refitting where the ranker allows it; landmarks and knots come from all rows
    (`results_.shared`). The best rankers are fitted to all rows, and their scores, standardized
    within queries, are averaged.

    Choosing one of many settings overfits, and means of several good ones rank better. Therefore
    little is chosen and much is averaged: a ranker, at its best alpha, joins the mean unless a
    paired t test over the same queries finds that it is worse than the best, by more than 5% of the
    score (or of its distance from 1, if that is less). With few queries, which cannot tell rankers
    apart, many rankers join the mean.

    Parameters
    ----------
    metric : str, default="auto"
        The metric to choose by: a name of `rankwise.metrics.METRICS`. "auto": "ndcg@10" if there
        are queries and the labels are grades (whole numbers from 0 to 30), "linear-ndcg@10" if they
        are fractions from 0 to 30, and "disagreement" otherwise. Printed results say which, and
        why. Metrics that only count relevant rows, such as "map" or "precision", cannot tell grades
        of 1 and more apart: rankers then learn relevance, 0 or 1.
    undefined : {"skip"} or float, optional
        What becomes of queries where the metric is undefined, such as queries without a relevant
        row: they are left out, or count as this number, in the choice and in the estimate. None:
        as the metric declares, which is 0 for NDCG and MAP.
    n_best : int, default=10
        The mean has at most this many parts. 1: the best ranker alone.
    candidates : {"auto", "linear", "additive", "kernel"} or list, default="auto"
        What to try: all kinds of rankers, one kind, or a list of rankers. Least-squares rankers in
        a list whose alpha is "auto" are tried at many alphas. Other rankers, pipelines and the
        rankers of other libraries are refitted for each fold, as in `RankingSearchCV`.
    boosted : bool or "auto", default="auto"
        Whether to try boosted trees as well: a `BoostedRanker`, which is fitted once for each fold.
        In queries, it gets the features as they are, and standardized within each query beside
        them. One with random splits, on the features as they are, is always tried, too. If one of
        these two is the best ranker so far, further ones are tried: one on the features as they
        are and, for grades, two with ``loss="lambdarank"``, of which one has random splits and 31
        leaves. With fewer than 1000 rows, the one on the features as they are comes first. "auto":
        if ``candidates="auto"`` and LightGBM is installed (``pip install 'rankwise[boost]'``).
    time_budget : float, optional
        Seconds. When they have passed, no further ranker is tried; cheap ones come first. The
        fits of the best to all rows are not included. None: no limit.
    memory_budget : float, optional
        Bytes. Rankers estimated to need more are not tried. None: no limit.
    encoder : TableEncoder, "auto" or None, default="auto"
        What turns data frames with text, categories, dates and missing values into numbers. "auto":
        a `TableEncoder`, for frames that are not complete numbers. None: these are errors. A
        `TableEncoder` is fitted to every frame. The encoder is fitted again for each fold, to the
        rows outside it.
    monotone : dict, optional
        Features that never lower (1) or never raise (-1) a score when their values rise, such as
        ``{"price": -1}``, by name, or by position if X has no names. Linear and additive rankers
        and trees keep this, and other candidates are left out: `results_` names them. The mean
        standardizes scores within queries, so that a value far from the others of its query can be
        an exception.
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
        Where nothing can be learned, it is too high by up to half a standard error, since rankers
        that predict the other queries were trained on this one; see `baselines_`.
        ``optimistic`` is the score of the chosen mean on the queries that it was chosen by. Folds
        are dealt to queries in the order of their first rows: the estimate can change if queries
        come in another order.
    gain_over_best_ : PairedDifference
        How much better the mean is than the single best ranker, both chosen without the query, and
        the standard error of this difference.
    baselines_ : Baselines
        The order of the rows as they came, the best single column, and chance: their scores, and
        what the ranker gains over each. Print it.
    example_ : ExampleQuery or None
        A query of middling quality: its labels, and its scores by rankers that were trained without
        it. None if no query has 3 to 20 rows.
    mean_ranker_ : MeanRanker
        The fitted mean.
    encoder_ : TableEncoder or None
        The fitted encoder; None if X needed none.
    metric_ : str
        The metric.
    n_queries_ : int
        Number of queries seen in `fit`.
    n_features_in_, feature_names_in_
        Number and names of the features seen in `fit`.

    Notes
    -----
    Landmarks, knots and scalings that do not depend on labels are computed from all rows, held-out
    ones included, as in `leave_query_out`. Data frames that are encoded are an exception: for each
    of 5 folds, encoders and rankers are fitted to the other rows. This takes the memory of 5 copies
    of the encoded rows.

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
        "undefined": AnyOf(None, Choice("skip"), Number()),
        "n_best": Whole(1),
        "boosted": AnyOf(Flag(), Choice("auto")),
        "time_budget": AnyOf(Number(0), None),
        "memory_budget": AnyOf(Number(0), None),
        "verbose": Flag(),
        **MONOTONE_PARAMETERS,
    }

    _: KW_ONLY
    metric: str = "auto"
    undefined: Any = None
    n_best: int = 10
    candidates: Any = "auto"
    boosted: bool | str = "auto"
    time_budget: float | None = None
    memory_budget: float | None = None
    encoder: Any = "auto"
    monotone: Any = None
    verbose: bool = False
    random_state: Any = None

    @explain_calls
    def fit(self, X: Any, y: Any, *, qid: Any = None) -> Self:
        """Try all candidates, and fit the best to all rows.

        Parameters
        ----------
        X : array-like, sparse or data frame of shape (n_rows, n_features)
            Data frames may have columns of text, categories and dates, and missing values.
        y : array-like of shape (n_rows,)
            Scores, higher is better.
        qid : array-like of shape (n_rows,), optional
            The query of every row, as integers or text, in any order. None: one global ranking.

        Returns
        -------
        self
        """
        check_parameters(self, self.parameters)
        if not isinstance(self.encoder, TableEncoder) and self.encoder not in ("auto", None):
            raise ParameterError(
                f'encoder must be a TableEncoder, "auto" or None: got {self.encoder!r}.'
            )
        forget(self)
        frame = X
        self.encoder_: TableEncoder | None = None
        try:
            if isinstance(self.encoder, TableEncoder) and is_frame(X):
                raise DataError("X is to be encoded.")
            X, y = validated(
                self, X, numeric_labels(y), accept_sparse="csr", dtype=DTYPES, y_numeric=True
            )
        except (TypeError, ValueError):
            if self.encoder is None or not is_frame(X):
                raise
            self.encoder_, X = self._encode(X)
        data = LabelledRows.of(X, y, qid)
        if data.groups.n_groups == 1:
            data = replace(data, qid=None)
        metric, why = self.metric, "by the parameter metric"
        if metric == "auto":
            metric, why = _usual_metric(data)
        if get_metric(metric).counts_relevant and are_grades(data.y):
            data = _by_relevance(data)
        exact, folds = make_folds(data)
        refits = RowHoldOuts(data, folds)
        if self.encoder_ is not None:
            names = self.encoder_.names_out() if self.monotone else None
            refits = EncodedHoldOuts.of(self.encoder_, frame, data, folds, names)
        contest = Contest(data, exact, refits, metric)
        with alphas_compared(), blas_threads_for(X.shape[0]):
            self._try(contest)
        pool = replace(contest.pool(contest.trials), undefined=self.undefined)
        chosen = pool.choose(self.n_best)
        places = [(trial, k) for trial in contest.trials for k in range(len(trial))]
        mean = MeanRanker([places[c][0].ranker(places[c][1]) for c in chosen])

        def fitted_part(part: int, _: Any, rows: LabelledRows) -> Any:
            trial, k = places[chosen[part]]
            return trial.fitted(k, rows)

        self.mean_ranker_ = mean.fit_parts(fitted_part, data.X, data.y, data.qid)
        self.metric_, self.n_queries_ = metric, data.groups.n_groups
        self.part_names_ = [places[c][0].candidate.name for c in chosen]
        notes = (f"Chosen by {metric_label(metric)}, {why}.", *_undefined_note(pool))
        self.results_ = contest.results(pool, chosen, notes)
        outer = pool.outer_values(self.n_best)
        self.score_estimate_ = pool.estimate(chosen, outer)
        self.gain_over_best_ = PairedDifference.of(outer - pool.outer_values(1))
        self.baselines_ = Baselines.of(pool, outer, data.X, self._column_names())
        self.example_ = ExampleQuery.of(pool, chosen, data.qid)
        self.explanation_ = _explanation(self.part_names_, pool, chosen)
        return self

    def _encode(self, X: Any) -> tuple[TableEncoder, Any]:
        """An encoder that is fitted to a data frame, and the frame as numbers."""
        encoder = TableEncoder() if self.encoder == "auto" else clone(self.encoder)
        encoder.fit(X)
        kinds = set(encoder.kinds_.values())
        if self.encoder == "auto" and kinds == {"number"} and not _lacks_values(X):
            validated(self, X, accept_sparse="csr", dtype=DTYPES)  # raises the error again
        self.feature_names_in_, self.n_features_in_ = (
            encoder.feature_names_in_,
            encoder.n_features_in_,
        )
        return encoder, _dense_or_csr(encoder.transform(X))

    def _column_names(self) -> Any:
        """The names of the features that rankers are fitted to; None without names."""
        if self.encoder_ is None:
            return getattr(self, "feature_names_in_", None)
        return self.encoder_.names_out()

    def predict(self, X: Any, *, qid: Any = None) -> Any:
        """Scores of rows: higher is better.

        Parameters
        ----------
        X : array-like, sparse or data frame of shape (n_rows, n_features)
        qid : array-like of shape (n_rows,), optional
            The query of every row. None: the rows are one query, with a warning if the ranker was
            fitted on several; pass the same id for all rows to say that they are one query. Unless
            the ranker was fitted to one global ranking, scores of different queries are not
            comparable, and splitting a query over two calls changes its scores: pass all its rows
            in one call.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        check_is_fitted(self, "mean_ranker_")
        encoder = getattr(self, "encoder_", None)  # not in files of earlier versions
        if encoder is not None:
            X = _dense_or_csr(encoder.transform(X))
        else:
            X = validated(self, X, accept_sparse="csr", dtype=DTYPES, reset=False)
        return self.mean_ranker_.predict_as(type(self).__name__, X, qid)

    @property
    def parts_(self) -> list[Part]:
        """The parts of the mean, best first."""
        mean = self.mean_ranker_
        parts = zip(self.part_names_, mean.weights_.tolist(), mean.rankers_, strict=True)
        return [Part(*part) for part in parts]

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

    def _candidates(self, data: LabelledRows, most_landmarks: int) -> list[Candidate]:
        rng = as_generator(self.random_state)
        if isinstance(self.candidates, str):
            check_value("candidates", self.candidates, Choice("auto", *KINDS))
            kinds = KINDS if self.candidates == "auto" else (self.candidates,)
            found = list(default_candidates(kinds, data.X, data.groups, rng, most_landmarks))
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
            grades = are_grades(data.y)
            found += tree_candidates(data.X, data.groups, grades=grades, seed=seed)
        return found

    def _monotone(
        self, candidates: list[Candidate], n_features: int
    ) -> tuple[list[Candidate], list[str]]:
        """The candidates with `monotone`, and those that cannot keep it, with the reason."""
        names = self._column_names()
        signs = monotone_signs(self.monotone, names, n_features)
        if signs is None:
            return candidates, []
        able = [one for one in candidates if getattr(one.ranker, "takes_monotone", False)]
        others = [one for one in candidates if one not in able]
        if not able:
            raise ParameterError(
                f"None of the candidates takes monotone: {', '.join(one.name for one in others)}. "
                "RankRLS with a linear kernel, AdditiveRankRLS and BoostedRanker do."
            )
        kept = []
        for one in able:
            own = monotone_signs(one.ranker.monotone, names, n_features) or (0,) * n_features
            places = {j: sign or own[j] for j, sign in enumerate(signs)}
            if one.features is not None:  # which come again, standardized
                places |= {n_features + j: sign for j, sign in places.items()}
            kept.append(replace(one, ranker=clone(one.ranker).set_params(monotone=places)))
        return kept, [f"{one.name}, which cannot keep monotone features" for one in others]

    def _try(self, contest: Contest) -> None:
        """Hold out the candidates within the budgets, and list those that exceed them."""
        data, trials, left_out = contest.data, contest.trials, contest.left_out
        # Exact hold-outs choose landmarks among all rows, refits among the rows of a fold.
        n_fitted = len(data)
        if self.encoder_ is not None:
            n_fitted -= max(len(test) for test in contest.refits.splits.tests)
        candidates, cannot = self._monotone(self._candidates(data, n_fitted), data.X.shape[1])
        left_out += cannot
        start = perf_counter()
        limits = self.time_budget, self.memory_budget
        seconds, memory = (np.inf if limit is None else limit for limit in limits)
        bar = progress_bar("Holding out", len(candidates)) if self.verbose else nullcontext(unseen)
        with bar as show:
            for k, candidate in enumerate(candidates):
                n_bytes, after = candidate.n_bytes(*data.X.shape), candidate.only_after
                if n_bytes > memory:
                    left_out.append(f"{candidate.name}, which needs {in_bytes(n_bytes)}")
                elif trials and perf_counter() - start >= seconds:
                    left_out.append(f"{candidate.name}, as the time was up")
                elif after and not contest.is_best(after):
                    others = " or ".join(map(repr, after))
                    left_out.append(f"{candidate.name}, which is tried if {others} is the best")
                else:
                    try:
                        trials.append(contest.hold_out(candidate))
                    except KernelSizeError as error:
                        left_out.append(f"{candidate.name}: {error}")
                show(k + 1, candidate.name)
        if not trials:
            least = min(candidates, key=lambda candidate: candidate.n_bytes(*data.X.shape))
            raise KernelSizeError(
                f"memory_budget={self.memory_budget} is too small for each of {len(candidates)} "
                f"candidates: {least.name!r} needs about "
                f"{in_bytes(least.n_bytes(*data.X.shape))}. Use a larger one, or fewer rows."
            )

    def _predict_queries(self, X: Any, qid: Any) -> Any:
        return self.predict(X, qid=qid)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "mean_ranker_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def is_frame(X: Any) -> bool:
    """Whether rows are a data frame of pandas, polars or pyarrow."""
    return hasattr(X, "columns") or hasattr(X, "column_names")


def _lacks_values(X: Any) -> bool:
    """Whether a data frame of numbers has missing values."""
    return bool(feature_frame(X).isna().to_numpy().any())


def _usual_metric(data: LabelledRows) -> tuple[str, str]:
    """The metric to choose by if none is given, and why."""
    metric = default_metric(data.y, data.groups.n_groups)
    if metric != "disagreement":
        return metric, "as labels are grades: whole numbers, none below 0 or above 30"
    if data.groups.n_groups == 1:
        return metric, "as there is one ranking"
    if are_fractions(data.y):
        return "linear-ndcg@10", "as labels are fractions from 0 to 30, which are the gains"
    return metric, "as labels are not from 0 to 30"


def _undefined_note(pool: HeldOutPool) -> list[str]:
    """What became of queries where the metric is undefined, if there are any."""
    if not (missing := pool.n_undefined):
        return []
    chosen, verb = pool.measure.undefined, "is" if missing == 1 else "are"
    become = "left out" if chosen == "skip" else f"counted as {chosen:g}"
    return [
        f"{missing:,} of {pool.groups.n_groups:,} {pool.unit}, where {metric_label(pool.metric)} "
        f"is undefined, {verb} {become}."
    ]


def _by_relevance(data: LabelledRows) -> LabelledRows:
    """Labels 0 and 1, unless too few queries would have both."""
    relevance = replace(data, y=(data.y >= 1).astype(np.float64))
    return relevance if len(learnable_queries(relevance)) >= 2 else data


def _explanation(names: list[str], pool: HeldOutPool, chosen: Index) -> Explanation:
    """Scores of the parts alone, and of the mean without each."""
    sign = 1.0 if pool.measure.greater_is_better else -1.0
    mean, without = pool.scores[chosen].mean(axis=0), np.full(len(chosen), np.nan)
    if len(chosen) > 1:
        others = [np.delete(chosen, k) for k in range(len(chosen))]
        without = pool.mean_values(others).mean(axis=1)
    return Explanation(
        metric=pool.metric,
        score=float(sign * pool.mean_values([chosen]).mean()) + 0.0,
        names=names,
        weights=np.full(len(chosen), 1 / len(chosen)),
        alone=sign * pool.values[chosen].mean(axis=1) + 0.0,
        without=sign * without + 0.0,
        correlations=np.array([_correlation(scores, mean) for scores in pool.scores[chosen]]),
    )


def _correlation(a: Array, b: Array) -> float:
    """The correlation of scores that have mean 0 in each query; NaN if one is constant."""
    size = np.sqrt(np.square(a, dtype=np.float64).sum() * np.square(b, dtype=np.float64).sum())
    return float(np.dot(a.astype(np.float64), b) / size) if size > 0 else float("nan")
