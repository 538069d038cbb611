"""Fits, hold-outs, predictions and metrics on a cluster, from sums over partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from time import monotonic
from typing import Any, TypeVar

import numpy as np
from dask.base import compute
from dask.delayed import Delayed, delayed
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from rankwise.backends.arrays import Array, Rows
from rankwise.distributed._partitions import (
    Overview,
    Partition,
    Partitions,
    open_partitions,
    partition_statistics,
    partition_sums,
    scaled_partition,
    surveyed,
    tree,
    with_whole_queries,
)
from rankwise.errors import DataError, ParameterError, UndefinedMetricError
from rankwise.estimators.base import LeastSquaresRanker, RegularizationPath
from rankwise.estimators.fit_blocks import alphas_of_sums, fit_sums, path_of_sums
from rankwise.estimators.ranker_rows import (
    choose_scale,
    forget,
    learn_scaling,
    scales_within_queries,
    shared_by_choice,
)
from rankwise.graph.query_groups import join_ids, nothing_to_rank
from rankwise.holdout.leave_query_out import MomentSpectrum, predict_without
from rankwise.holdout.scores import mean_and_error
from rankwise.metrics import evaluate_ranking, get_metric
from rankwise.model_selection import HeldOutScores
from rankwise.parameters import Whole, as_generator, check_alphas, check_parameters, check_value
from rankwise.problem import (
    Landmarks,
    LandmarkSpace,
    Loss,
    PairLoss,
    RowLoss,
)
from rankwise.problem.block_sums import BlockSums, total_of
from rankwise.problem.landmarks import Reservoir, check_in_range, rows_with
from rankwise.routing import predict_with_queries
from rankwise.scaling import QUERY_SCALINGS, ColumnStatistics
from rankwise.solvers.ridge_path import Moments

Ranker = TypeVar("Ranker", bound=Any)
Progress = Callable[[int, int], None]
PROGRESS_SECONDS = 0.2
CHECK_SECONDS = 2.0  # between checks that there are workers, without progress
WORKER_SECONDS = 30.0
"""How long to wait for workers, at the beginning and after the last one has failed."""


def fit(
    estimator: Ranker,
    data: Any,
    *,
    label: str = "label",
    qid: str | None = "qid",
    n_features: int | None = None,
    client: Any = None,
    progress: Progress | None = None,
) -> Ranker:
    """Fit a ranker to rows that are distributed over several machines.

    For a given alpha and given landmarks, the result equals ``estimator.fit`` on all rows, up to
    rounding errors. With ``alpha="auto"``, alpha is chosen by the squared error of the pairs of
    five folds of queries, from sums of the same pass, and ``scale="auto"`` does not compare
    scalings by hold-outs. Landmarks are drawn from other random numbers than in ``fit``.

    Each partition is read twice: for an overview of its queries and of some rows, and for the sums.
    Another pass is needed to choose landmarks among rows, one to compute standard deviations, for
    ``scale="standard"`` or ``gamma="scale"``, and one to find the sizes of LETOR files. Machines
    exchange the sizes of queries, sums of size n by n or r by r, for n features or r landmarks, the
    rows among which landmarks are chosen, and the rows of queries that are split between partitions
    (few, if rows are sorted by query). If a worker fails, others read its partitions again, and the
    result does not change.

    Parameters
    ----------
    estimator : RankRLS, RLS, SparseRankRLS or SparseRLS
        RankRLS and RLS need the linear kernel, and are solved in the primal.
    data : Dask arrays, Dask data frame, str, path or list of these
        A tuple (X, y, qid) or (X, y) of Dask arrays; a Dask data frame with one document per row;
        a folder or glob pattern of Parquet or LETOR files, or a list of files. Without query ids,
        all rows form one ranking.
    label, qid : str
        Columns of a data frame or of Parquet files with labels and query ids; all other columns
        are features. ``qid=None``: there are no query ids.
    n_features : int, optional
        Number of features of LETOR files, which omit zeros. None: the largest index in the files.
    client : distributed.Client, optional
        The client to use. None: the active client, or threads of this process.
    progress : callable, optional
        Called regularly with the number of finished tasks of a pass and their total number. Needs
        `client`.

    Returns
    -------
    estimator
        The same object, fitted.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from rankwise import RankRLS
    >>> from rankwise.distributed import fit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((90, 3))
    >>> y, qid = X @ [3.0, 2.0, 1.0], np.arange(90) // 7
    >>> rows = [da.from_array(a, chunks=40) for a in (X, y, qid)]  # some queries are split
    >>> ranker = fit(RankRLS(alpha=1.0), (rows[0].rechunk((40, 3)), rows[1], rows[2]))
    >>> bool(np.allclose(ranker.coef_, RankRLS(alpha=1.0).fit(X, y, qid=qid).coef_))
    True
    """
    check_summable(estimator)
    run = Run(client, progress)
    partitions = run.open(data, label, qid, n_features)
    with_folds = estimator.alpha == "auto"
    sums, _, _ = sum_partitions(estimator, partitions, run, with_folds=with_folds)
    fit_sums(estimator, sums, None, estimator.n_queries_)
    return estimator


def path(
    estimator: Any,
    data: Any,
    alphas: Any = None,
    *,
    label: str = "label",
    qid: str | None = "qid",
    n_features: int | None = None,
    client: Any = None,
    progress: Progress | None = None,
) -> RegularizationPath:
    """Fit for many alphas, which share the sums and cost little more than one.

    Parameters
    ----------
    estimator, data, label, qid, n_features, client, progress
        As for `fit`.
    alphas : sequence of float, optional
        None: a grid that follows the scale of the data.

    Returns
    -------
    RegularizationPath
        The same as from ``estimator.path``. The estimator itself is not fitted.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from rankwise import RankRLS
    >>> from rankwise.distributed import path
    >>> X = np.random.default_rng(0).standard_normal((60, 2))
    >>> rows = tuple(da.from_array(a) for a in (X, X[:, 0], np.arange(60) // 6))
    >>> len(path(RankRLS(), rows, [0.1, 1.0]))
    2
    """
    check_summable(estimator)
    given = None if alphas is None else check_alphas(alphas)
    template, run = clone(estimator), Run(client, progress)
    sums, _, _ = sum_partitions(template, run.open(data, label, qid, n_features), run)
    return path_of_sums(template, sums, given, None)


class Run:
    """Computes delayed tasks, and reports their progress."""

    def __init__(self, client: Any, progress: Progress | None = None) -> None:
        if client is not None and not hasattr(client, "as_current"):
            raise ParameterError(
                f"client must be a distributed.Client, as in Client({client!r}): got "
                f"{type(client).__name__}."
            )
        if client is None and progress is not None:
            raise ParameterError("progress needs a client: pass client=distributed.Client(...).")
        self._client = client
        self._progress = progress

    def __call__(self, tasks: Sequence[Any]) -> list[Any]:
        """Results of delayed tasks; an error if there are no workers for a while."""
        if self._client is None:
            return list(compute(*tasks))
        from distributed import wait

        futures, total = self._client.compute(list(tasks)), 1
        interval = CHECK_SECONDS if self._progress is None else PROGRESS_SECONDS
        at_work = monotonic()
        while not all(future.done() for future in futures):
            with suppress(TimeoutError):
                wait(futures, timeout=interval)
            at_work = monotonic() if self._client.nthreads() else at_work
            if monotonic() - at_work > WORKER_SECONDS:
                self._client.cancel(futures)
                raise DataError(
                    f"The Dask scheduler has had no workers for {WORKER_SECONDS:g} seconds: start "
                    "some, for example with 'dask worker ADDRESS', and try again."
                )
            if self._progress is not None:
                left = self._client.run_on_scheduler(_tasks_left)
                total = max(total, left)
                self._progress(total - left, total)
        return list(self._client.gather(futures))

    def open(
        self, data: Any, label: str | None, qid: str | None, n_features: int | None = None
    ) -> Partitions:
        """The partitions of the user's data."""
        if n_features is not None:
            from rankwise.data.letor_parsing import MAX_INDEX

            check_value("n_features", n_features, Whole(1, MAX_INDEX))
        with nullcontext() if self._client is None else self._client.as_current():
            partitions = open_partitions(data, label, qid, n_features, self)
        if n_features is not None and partitions.shape is None:
            raise ParameterError(
                "n_features is only for LETOR files, since other data have a known number of "
                "features. Omit it."
            )
        return partitions


def _tasks_left(dask_scheduler: Any) -> int:
    """The number of tasks that a scheduler has not finished."""
    left = ("waiting", "queued", "no-worker", "processing")
    return sum(task.state in left for task in dask_scheduler.tasks.values())


def sum_partitions(
    ranker: Any, partitions: Partitions, run: Run, *, with_folds: bool = False
) -> tuple[BlockSums, Partitions, Overview]:
    """The sums over all partitions, the partitions of whole queries, and their overview.

    Attributes of `ranker` that describe the data are set.
    """
    forget(ranker)
    loss = ranker.make_loss()
    partitions, overview = surveyed(partitions, run)
    if overview.constant and sum(overview.n_rows) > 1:
        raise nothing_to_rank(overview.n_queries, sum(overview.n_rows))
    ranker.n_features_in_, ranker.n_queries_ = overview.n_features, overview.n_queries
    if partitions.feature_names is not None:
        ranker.feature_names_in_ = np.asarray(partitions.feature_names, dtype=object)
    # One ranking whose pairs all count is a regression with a free intercept.
    one_ranking = bool(overview.split) and overview.n_queries == 1 and loss.ties == "include"
    one_ranking = one_ranking and not loss.has_intercept
    name = choose_scale(ranker, overview.columns, has_queries=overview.has_ids)
    within_queries = name in QUERY_SCALINGS
    given = partitions  # in the order of the user's rows
    if within_queries and overview.split:
        partitions = partitions.numbered(overview.n_rows)
    if within_queries or not (one_ranking or loss.has_intercept):
        partitions = with_whole_queries(partitions, overview)
        one_ranking = one_ranking and not within_queries

    def statistics(scaling: Any) -> ColumnStatistics:
        found: ColumnStatistics
        parts = partitions.map(partition_statistics, scaling=scaling)
        (found,) = run([tree(parts, total_of)])
        return found

    learn_scaling(ranker, name, overview.columns, statistics, sparse=overview.sparse)
    ranker.max_query_rows_ = overview.max_query_rows
    if ranker.scaling_ is not None:
        given, partitions = (
            replace(parts, delayed=parts.map(scaled_partition, scaling=ranker.scaling_))
            for parts in (given, partitions)
        )
    space = ranker.make_space(overview.n_features)
    # Not delayed: Dask would move the rows of other workers to the one that holds it.
    system: Any
    if space.has_landmarks:
        rows = partitions if within_queries else given
        landmarks = _choose_landmarks(space, rows, overview, run)
        system = delayed(space.sums, pure=False)(overview.n_features, landmarks)
    else:
        system = space.sums(overview.n_features)
    summed_loss = RowLoss() if one_ranking else loss
    one = overview.n_queries == 1
    options = {"loss": summed_loss, "with_folds": with_folds, "one_ranking": one}
    parts = partitions.map(partition_sums, system=system, **options)
    if space.has_landmarks:
        totals, system = run([tree(parts, total_of), system])
    else:
        (totals,) = run([tree(parts, total_of)])
    sums, n_rows = replace(totals, system=system, loss=loss), sum(overview.n_rows)
    if one_ranking:
        n_pairs = [n_rows * (n_rows - 1) // 2]
        scale = loss.weight(n_rows, n_pairs[0]) * n_rows
        moments = [Moments(scale * one.A, scale * one.b) for one in sums.moments]
        sums = replace(sums, n_pairs=n_pairs, moments=moments)
    loss.check_learnable(sums.n_pairs, n_rows, overview.n_queries)
    return sums, partitions, overview


def check_summable(ranker: Any) -> None:
    """Raise an error if a ranker cannot be fitted from sums over rows, computed by NumPy."""
    if getattr(ranker, "device", None) not in (None, "cpu"):
        raise ParameterError(
            f"On a cluster, rows are summed by NumPy: got device={ranker.device!r}. Use "
            "device=None, or fit on one machine with a GPU."
        )
    if getattr(ranker, "precision", "float64") != "float64":
        raise ParameterError(
            f"On a cluster, rows are summed in float64: got precision={ranker.precision!r}. Use "
            'precision="float64".'
        )
    if isinstance(ranker, LeastSquaresRanker):
        check_parameters(ranker, ranker.parameters)
        if clone(ranker).make_space(1).is_summable:
            return
    raise ParameterError(
        f"On a cluster, a ranker's space must be summed over rows (is_summable): got {ranker}. "
        "RankRLS and RLS with the linear kernel have such a space; for other kernels use "
        "SparseRankRLS."
    )


def _choose_landmarks(
    space: LandmarkSpace, partitions: Partitions, overview: Overview, run: Run
) -> Landmarks:
    """The given landmarks, or landmarks from a sample of all partitions."""
    choice: Any = space.choice
    if choice.points is not None:
        return choice.given_points(overview.n_features, space.kernel)
    if choice.rows is not None:
        return _given_rows(choice.rows, partitions, overview, run)
    rng = as_generator(space.random_state)
    seed = int(rng.integers(2**63))
    draws = partitions.map(_sample, range(len(partitions)), size=choice.sample_size(), seed=seed)
    (reservoir,) = run([tree(draws, _joined)])
    landmarks: Landmarks = choice.among_sample(reservoir, space.kernel, rng)
    # Rows that were moved to whole queries are no longer at the positions of the user's rows.
    return Landmarks(landmarks.points, None) if partitions.moved else landmarks


def _given_rows(numbers: Any, partitions: Partitions, overview: Overview, run: Run) -> Landmarks:
    check_in_range(numbers, sum(overview.n_rows))
    if not partitions.moved:
        partitions = partitions.numbered(overview.n_rows)
    return Landmarks.of_parts(run(partitions.map(_take_numbers, wanted=numbers)), numbers)


def _take_numbers(partition: Partition, wanted: Any) -> tuple[Any, Any]:
    """The rows of a partition with these numbers, and their numbers."""
    assert partition.numbers is not None  # these partitions are numbered
    return rows_with(wanted, partition.checked().X, partition.numbers)


def _sample(partition: Partition, number: int, size: int, seed: int) -> Reservoir:
    reservoir = Reservoir(size, np.random.default_rng([seed, number]))
    reservoir.add(partition.checked().X, partition.qid)
    return reservoir


def _joined(reservoirs: list[Reservoir]) -> Reservoir:
    first, *others = [one for one in reservoirs if one.n_rows] or reservoirs[:1]
    for other in others:
        first.join(other)
    return first


ROWS = 65536  # rows whose coordinates are computed at a time


def leave_query_out(
    estimator: Any,
    data: Any,
    *,
    alphas: Any = None,
    metric: str = "disagreement",
    label: str = "label",
    qid: str = "qid",
    n_features: int | None = None,
    client: Any = None,
    progress: Progress | None = None,
) -> HeldOutScores:
    """Score every query by a ranker trained on the others, without refitting.

    This is `rankwise.model_selection.leave_query_out` for rows on several machines. Each partition
    predicts its own queries from the sums over all rows and one eigendecomposition. This needs one
    more pass than `fit` and, for each query and alpha, the cube of the number of its rows.
    Landmarks are chosen among all rows, and ``scale="standard"`` uses the means and deviations of
    all rows; `shared` of the result names both.

    Parameters
    ----------
    estimator : RankRLS or SparseRankRLS
        As for `fit`; it is cloned, not fitted.
    data, label, qid, n_features, client, progress
        As for `fit`.
    alphas : sequence of float, optional
        Above 0. None: the alpha of the estimator or, if it is "auto", a grid that follows the
        scale of the data.
    metric : str, default="disagreement"
        A name of `rankwise.metrics.METRICS`, such as "ndcg@10" or "map".

    Returns
    -------
    HeldOutScores
        Scores and standard errors for each alpha; predictions are not returned.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from rankwise import RankRLS
    >>> from rankwise.distributed import leave_query_out
    >>> X = np.random.default_rng(0).standard_normal((60, 2))
    >>> rows = tuple(da.from_array(a) for a in (X, X[:, 0], np.arange(60) // 6))
    >>> leave_query_out(RankRLS(), rows, alphas=[0.1, 1.0]).best_alpha
    1.0
    """
    function, greater_is_better = get_metric(metric)
    check_summable(estimator)
    if not isinstance(estimator.make_loss(), PairLoss):
        raise ParameterError(
            "On a cluster, leave_query_out needs a pairwise ranker (RankRLS or SparseRankRLS): got "
            f"{type(estimator).__name__}."
        )
    if getattr(estimator, "monotone", None):
        raise ParameterError(
            "On a cluster, leave_query_out has a formula for fits without monotone constraints "
            "only. Leave monotone out, or use rankwise.model_selection.leave_query_out, which "
            "takes rows in memory."
        )
    given = None
    if alphas is not None or estimator.alpha != "auto":
        given = check_alphas(estimator.alpha if alphas is None else alphas)
        if given.min() <= 0:
            raise ParameterError(f"Exact hold-outs need alphas above 0: got {given.min():g}.")
    run = Run(client, progress)
    ranker = clone(estimator)
    sums, partitions, overview = sum_partitions(ranker, run.open(data, label, qid, n_features), run)
    values = alphas_of_sums(sums) if given is None else given
    n_queries = overview.n_queries
    if n_queries < 2:
        raise DataError("leave_query_out needs at least two queries: got one.")
    spectra = delayed([_spectrum(sums.system, one) for one in sums.moments], pure=False)
    system = delayed(sums.system, pure=False)
    same = {"loss": sums.loss, "alphas": values, "metric": function}
    found = run(partitions.map(_held_out, system=system, spectra=spectra, **same))
    parts = [part for part in found if part is not None]
    by_alpha = [
        [np.concatenate(of_output) for of_output in zip(*(f[a] for f in parts), strict=True)]
        for a in range(len(values))
    ]
    if not by_alpha[0] or min(map(len, by_alpha[0])) == 0:
        raise UndefinedMetricError(
            f"{metric} is not defined for any of the {n_queries} queries. Check the labels and "
            "query ids."
        )
    means, errors = np.transpose([mean_and_error(of_alpha) for of_alpha in by_alpha])
    shared = shared_by_choice(ranker, ranker.make_space(ranker.n_features_in_))
    return HeldOutScores(values, means, errors, metric, greater_is_better, shared=shared)


def _spectrum(system: Any, moments: Any) -> MomentSpectrum:
    found = system.coordinate_moments(moments)
    return MomentSpectrum.of(found.A, found.b.reshape(len(found.b), -1))


def _held_out(
    part: Partition,
    system: Any,
    spectra: list[MomentSpectrum],
    loss: Loss,
    alphas: Array,
    metric: Any,
) -> list[list[Array]] | None:
    """Values per query, for each alpha and output; None if the partition has no rows."""
    if len(part.y) == 0:
        return None
    groups = part.groups
    coordinates = system.coordinates(part.X)
    F = np.concatenate([coordinates(rows) for rows in _blocks(len(part.y))])
    y = part.y.reshape(len(part.y), -1)
    predictions = np.empty((len(alphas), *y.shape))
    first = 0
    for task, spectrum in zip(loss.tasks(part.y, part.qid), spectra, strict=True):
        assert task.y is not None  # tasks of scored rows
        t = task.graph.root(task.y.reshape(len(y), -1))
        out = np.empty((len(alphas), *t.shape))
        Z = task.graph.root(F)
        predict_without(F, Z, t, list(groups), alphas.tolist(), spectrum, out)
        predictions[:, :, first : first + t.shape[1]] = out
        first += t.shape[1]
    return [
        [_values(metric, y[:, k], f[:, k], groups.codes) for k in range(y.shape[1])]
        for f in predictions
    ]


def _values(function: Any, y: Array, scores: Array, codes: Any) -> Array:
    try:
        return np.asarray(function(y, scores, codes, per_query=True).values)
    except UndefinedMetricError:  # undefined for the queries of this partition only
        return np.empty(0)


def _blocks(n_rows: int) -> list[Rows]:
    return [slice(k, min(k + ROWS, n_rows)) for k in range(0, n_rows, ROWS)]


def predict(estimator: Any, data: Any, *, label: str | None = None, qid: str | None = None) -> Any:
    """Scores of rows as a lazy Dask array, in the order of the rows.

    Parameters
    ----------
    estimator : a fitted ranker of rankwise
    data : Dask array or data frame, str, path or list of these
        A Dask array of features; or as for `fit`.
    label, qid : str, optional
        Columns of a data frame or of Parquet files that are not features. A ranker that scales
        within queries needs query ids. The number of rows of each query is then computed at once.

    Returns
    -------
    dask.array.Array
        Of shape (n_rows,) or (n_rows, n_outputs). Chunk sizes are unknown if `data`'s are unknown.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from rankwise import RankRLS
    >>> from rankwise.distributed import predict
    >>> X = np.random.default_rng(0).standard_normal((60, 2))
    >>> ranker = RankRLS().fit(X, X[:, 0])
    >>> bool(np.allclose(predict(ranker, da.from_array(X, chunks=(20, 2))), ranker.predict(X)))
    True
    """
    import dask.array as da

    if isinstance(data, da.Array):
        data = (data, _no_labels(data))
    run = Run(None)
    parts = open_partitions(data, label, qid, getattr(estimator, "n_features_in_", None), run)
    lengths = data[0].chunks[0] if isinstance(data, tuple) else [np.nan] * len(parts)
    ranker = delayed(estimator, pure=False)
    outputs = _outputs(estimator)
    if scales_within_queries(estimator):
        parts, overview = surveyed(parts, run)
        if not overview.has_ids:
            name = type(estimator).__name__
            raise DataError(f"{name} scales features within queries: the rows need query ids.")
        lengths, found = overview.n_rows, _scores_by_query(parts, overview, ranker)
    else:
        found = parts.map(_scores, ranker=ranker, names=parts.feature_names)
    blocks = [
        da.from_delayed(scores, (length, *outputs), dtype=np.float64)
        for scores, length in zip(found, lengths, strict=True)
    ]
    return da.concatenate(blocks)


def evaluate(
    estimator: Any, data: Any, *, label: str = "label", qid: str | None = "qid", **options: Any
) -> Delayed:
    """All metrics of the scores of a ranker; ``.compute()`` returns a `RankingEvaluation`.

    Each worker scores its own rows. One worker then collects the label, score and query of each
    row: 24 GB for 10^9 rows.

    Parameters
    ----------
    estimator : a fitted ranker of rankwise
    data, label, qid
        As for `fit`.
    **options
        As for `rankwise.metrics.evaluate_ranking`.

    Returns
    -------
    dask.delayed.Delayed

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from rankwise import RankRLS
    >>> from rankwise.distributed import evaluate
    >>> X = np.random.default_rng(0).standard_normal((60, 2))
    >>> y, qid = np.round(X[:, 0]).clip(0), np.arange(60) // 6
    >>> rows = tuple(da.from_array(a) for a in (X, y, qid))
    >>> evaluate(RankRLS().fit(X, y, qid=qid), rows).compute().n_rows
    60
    """
    run = Run(None)
    parts = open_partitions(data, label, qid, getattr(estimator, "n_features_in_", None), run)
    if scales_within_queries(estimator):
        parts, overview = surveyed(parts, run)
        parts = with_whole_queries(parts, overview)
    ranker = delayed(estimator, pure=False)
    columns = parts.map(_columns, ranker=ranker, names=parts.feature_names)
    return delayed(_evaluated, pure=False)(columns, options)


def _outputs(ranker: Any) -> tuple[int, ...]:
    """The shape of the scores of one row."""
    ranker = getattr(ranker, "best_estimator_", ranker)
    ranker = ranker[-1] if isinstance(ranker, Pipeline) else ranker
    solution = getattr(ranker, "solution_", None)
    return () if solution is None else tuple(np.shape(solution.weights)[1:])


def _no_labels(X: Any) -> Any:
    """Zeros as labels for the rows of a Dask array with a possibly unknown number of rows."""
    return X[:, :1].map_blocks(_zeros, drop_axis=1, dtype=np.float64) if X.ndim == 2 else X


def _zeros(block: Any) -> Any:
    return np.zeros(block.shape[0])


def _scores(part: Partition, ranker: Any, names: list[str] | None) -> Any:
    """Scores of a partition; column names must match the names in the fit."""
    if len(part.y) == 0:
        return np.empty((0, *_outputs(ranker)))
    X = part.checked().X
    if names is not None and hasattr(ranker, "feature_names_in_"):
        import pandas as pd

        X = pd.DataFrame(X, columns=names)
    return predict_with_queries(ranker, X, part.qid if scales_within_queries(ranker) else None)


def _scores_by_query(parts: Partitions, overview: Overview, ranker: Any) -> list[Any]:
    """Scores of each partition, by a ranker that must see whole queries."""
    same = {"ranker": ranker, "names": parts.feature_names}
    if not overview.split:
        return parts.map(_scores, **same)
    whole = with_whole_queries(parts.numbered(overview.n_rows), overview)
    scored = whole.map(_numbered_scores, **same)
    # The first partitions have the rows that stayed there, the others have the moved rows.
    moved = delayed(_pooled, pure=False)(scored[len(parts) :])
    ends = np.cumsum(overview.n_rows).tolist()
    back = delayed(_in_order, pure=False)
    return [
        back(here, moved, end - n, end)
        for here, end, n in zip(scored[: len(parts)], ends, overview.n_rows, strict=True)
    ]


def _numbered_scores(part: Partition, ranker: Any, names: list[str] | None) -> tuple[Any, Any]:
    return part.numbers, _scores(part, ranker, names)


def _pooled(parts: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    numbers, scores = zip(*parts, strict=True)
    return np.concatenate(numbers), np.concatenate(scores)


def _in_order(here: tuple[Any, Any], moved: tuple[Any, Any], first: int, end: int) -> Any:
    """The scores of the rows first:end, from rows that stayed and rows that were moved."""
    mine = (moved[0] >= first) & (moved[0] < end)
    numbers, scores = _pooled([here, (moved[0][mine], moved[1][mine])])
    return scores[np.argsort(numbers)]


def _columns(part: Partition, ranker: Any, names: list[str] | None) -> tuple[Any, Any, Any]:
    return part.y, _scores(part, ranker, names), part.qid


def _evaluated(columns: list[tuple[Any, Any, Any]], options: dict[str, Any]) -> Any:
    y, scores, ids = zip(*columns, strict=True)
    qid = None if ids[0] is None else join_ids(ids)
    return evaluate_ranking(np.concatenate(y), np.concatenate(scores), qid, **options)
