"""Fitting on a cluster: moments of partitions, a tree reduction, and one small system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, TypeVar

import numpy as np
from dask.base import compute
from dask.delayed import delayed
from sklearn.base import clone

from rankwise.backends.arrays import Array
from rankwise.distributed._partitions import Partition, Partitions, open_partitions
from rankwise.distributed._sums import (
    Overview,
    added,
    partition_statistics,
    partition_totals,
    scaled_partition,
    surveyed,
    tree,
    with_whole_queries,
)
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._landmark_choice import Reservoir, check_in_range, stacked
from rankwise.estimators._scaling import (
    check_not_tiny,
    choose_scale,
    learn_scaling,
    shared_by_choice,
)
from rankwise.estimators._validation import forget
from rankwise.estimators.least_squares.base import LeastSquaresRanker, RegularizationPath
from rankwise.graph.label_checks import nothing_to_rank
from rankwise.holdout.alpha_evaluation import AlphaChoice
from rankwise.holdout.fold_choice import choose_from_folds, summed_alphas
from rankwise.parameters import Whole, as_generator, check_alphas, check_parameters, check_value
from rankwise.problem import (
    Fit,
    Landmarks,
    LandmarkSpace,
    Loss,
    RowLoss,
)
from rankwise.problem.fold_sums import Folds
from rankwise.scaling import QUERY_SCALINGS, ColumnStatistics
from rankwise.solvers.moments import Moments

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
    scalings by hold-outs. Landmarks are drawn from other random numbers than those of ``fit``.

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
    auto = estimator.alpha == "auto"
    summed = Summed.of(estimator, run.open(data, label, qid, n_features), run, with_folds=auto)
    choice = summed.choose_alpha() if auto else None
    alpha = float(estimator.alpha) if choice is None else choice.alpha
    fit = summed.solve([alpha])
    estimator.set_fitted(fit.basis, fit.solutions[0])
    space = estimator.make_space(estimator.n_features_in_)
    estimator.set_alpha(alpha, choice, shared_by_choice(estimator, space))
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
    template = clone(estimator)
    run = Run(client, progress)
    summed = Summed.of(template, run.open(data, label, qid, n_features), run)
    values = summed.alphas() if given is None else given
    return RegularizationPath(values, template, summed.solve(values.tolist()))


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
            from rankwise.data.letor.parsing import MAX_INDEX

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


@dataclass(frozen=True)
class Summed:
    """Sums over all partitions, and the system and partitions that they belong to.

    `partitions` hold whole queries, and `moments` has an entry for each task. `folds` are the sums
    of folds of queries, if alpha is to be chosen.
    """

    moments: list[Any]
    system: Any
    partitions: Partitions
    overview: Overview
    loss: Loss
    folds: Folds | None = None

    @classmethod
    def of(
        cls, ranker: Any, partitions: Partitions, run: Run, *, with_folds: bool = False
    ) -> Summed:
        """Sum over all partitions, and set the attributes of `ranker` that describe the data."""
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
            (found,) = run([tree(parts, added)])
            return found

        if name is None and ranker.kernel == "linear":
            check_not_tiny(overview.columns)
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
        sums = partitions.map(partition_totals, system=system, **options)
        if space.has_landmarks:
            totals, system = run([tree(sums, added), system])
        else:
            (totals,) = run([tree(sums, added)])
        moments, n_pairs, n_rows = totals.moments, totals.n_pairs, sum(overview.n_rows)
        if one_ranking:
            n_pairs = [n_rows * (n_rows - 1) // 2]
            scale = loss.weight(n_rows, n_pairs[0]) * n_rows
            moments = [Moments(scale * one.A, scale * one.b) for one in moments]
        loss.check_learnable(n_pairs, n_rows, overview.n_queries)
        return cls(moments, system, partitions, overview, loss, totals.folds)

    @property
    def n_rows(self) -> int:
        """The number of rows of all partitions."""
        return sum(self.overview.n_rows)

    def alphas(self) -> Array:
        """The grid that follows the scale of the data."""
        return summed_alphas(self.system, self.moments, self.n_rows)

    def choose_alpha(self) -> AlphaChoice:
        """The best alpha for the folds."""
        return choose_from_folds(self.system, self.moments, self.folds, self.loss, self.n_rows)

    def solve(self, alphas: list[float]) -> Fit:
        """Fit to the rows of all partitions."""
        return Fit(self.system.basis, self.system.solve(self.moments, alphas))


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
        "On a cluster, the ranker must be RankRLS or RLS with the linear kernel, or SparseRankRLS "
        f"or SparseRLS: got {ranker}. For other kernels use SparseRankRLS."
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
    # The positions of rows that were moved to whole queries are not those of the user's rows.
    return Landmarks(landmarks.points, None) if partitions.moved else landmarks


def _given_rows(numbers: Any, partitions: Partitions, overview: Overview, run: Run) -> Landmarks:
    check_in_range(numbers, sum(overview.n_rows))
    if partitions.moved:
        parts = run(partitions.map(_take_numbers, wanted=numbers))
        found, rows = stacked([X for X, _ in parts]), np.concatenate([rows for _, rows in parts])
        order = np.argsort(rows)
        return Landmarks(found[order[np.searchsorted(rows[order], numbers)]], numbers)
    ends = np.cumsum(overview.n_rows)
    partition_of = np.searchsorted(ends, numbers, side="right")
    used = np.unique(partition_of)
    some = Partitions([partitions.delayed[k] for k in used])
    local = [numbers[partition_of == k] - (ends[k] - overview.n_rows[k]) for k in used]
    found = stacked(run(some.map(_take_rows, local)))
    order = np.concatenate([np.flatnonzero(partition_of == k) for k in used])
    return Landmarks(found[np.argsort(order)], numbers)


def _take_rows(partition: Partition, rows: Any) -> Any:
    return partition.checked().X[rows]


def _take_numbers(partition: Partition, wanted: Any) -> tuple[Any, Any]:
    """The rows of a partition with these numbers, and their numbers."""
    assert partition.numbers is not None  # these partitions are numbered
    here = np.flatnonzero(np.isin(partition.numbers, wanted))
    return partition.X[here], partition.numbers[here]


def _sample(partition: Partition, number: int, size: int, seed: int) -> Reservoir:
    reservoir = Reservoir(size, np.random.default_rng([seed, number]))
    reservoir.add(partition.checked().X, partition.qid)
    return reservoir


def _joined(reservoirs: list[Reservoir]) -> Reservoir:
    first, *others = [one for one in reservoirs if one.n_rows] or reservoirs[:1]
    for other in others:
        first.join(other)
    return first
