"""Fitting on a cluster: sums by partition, added by a tree, and one small system at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from dask.base import compute
from dask.delayed import delayed
from sklearn.base import clone

from rankwise.distributed._partitions import Partition, Partitions, open_partitions
from rankwise.distributed._sums import (
    Overview,
    added,
    partition_totals,
    surveyed,
    tree,
    with_whole_queries,
)
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._landmark_choice import Reservoir, check_in_range, stacked
from rankwise.estimators._validation import forget
from rankwise.estimators.least_squares.base import LeastSquaresRanker, RegularizationPath
from rankwise.parameters import Whole, as_generator, check_alphas, check_parameters, check_value
from rankwise.problem import (
    FeatureSpace,
    FeatureSystem,
    Fit,
    Landmarks,
    LandmarkSpace,
    LandmarkSystem,
    Loss,
    RowLoss,
)
from rankwise.solvers.moments import Moments

Ranker = TypeVar("Ranker", bound=Any)
Progress = Callable[[int, int], None]
PROGRESS_SECONDS = 0.2


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
    """Fit a ranker to rows that lie on many machines.

    The result is that of ``estimator.fit`` on all rows, up to rounding. Each partition is read
    twice, and once more where landmarks are chosen among rows. Only sums move between machines,
    n by n or r by r numbers for n features or r landmarks, and the rows of queries that are split
    between partitions, which are brought together: few, where rows are sorted by query. If a
    worker dies, others read its partitions again, and the result does not change.

    Parameters
    ----------
    estimator : RankRLS, RLS, SparseRankRLS or SparseRLS
        RankRLS and RLS with the linear kernel, in the primal.
    data : Dask arrays, Dask data frame, str, path or list of these
        A tuple (X, y, qid) or (X, y) of Dask arrays; a Dask data frame with one row a document;
        a folder or pattern of Parquet files or of LETOR files, or a list of files. Without query
        ids, all rows are one ranking.
    label, qid : str
        Columns of a data frame or of Parquet files that hold labels and query ids; the others
        are features. ``qid=None``: there are no query ids.
    n_features : int, optional
        Of LETOR files, which leave out zeros. None: the largest index in them.
    client : distributed.Client, optional
        Where to work. None: the client that is active, or threads of this process.
    progress : callable, optional
        Called now and then with the tasks of a pass that are done, and with their number. Needs
        `client`.

    Returns
    -------
    estimator
        The same object, fitted: `predict`, `save_model` and the rest work as always.

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
    >>> ranker = fit(RankRLS(), (rows[0].rechunk((40, 3)), rows[1], rows[2]))
    >>> bool(np.allclose(ranker.coef_, RankRLS().fit(X, y, qid=qid).coef_))
    True
    """
    check_summable(estimator)
    run = Run(client, progress)
    summed = Summed.of(estimator, run.open(data, label, qid, n_features), run)
    fit = summed.solve([float(estimator.alpha)])
    estimator.set_fitted(fit.basis, fit.solutions[0])
    return estimator


def path(
    estimator: Any,
    data: Any,
    alphas: Any,
    *,
    label: str = "label",
    qid: str | None = "qid",
    n_features: int | None = None,
    client: Any = None,
    progress: Progress | None = None,
) -> RegularizationPath:
    """As `fit`, for many alphas, which share the sums and cost little more than one.

    Parameters
    ----------
    estimator, data, label, qid, n_features, client, progress
        As for `fit`.
    alphas : sequence of float

    Returns
    -------
    RegularizationPath
        As from ``estimator.path``. The estimator itself is not fitted.
    """
    check_summable(estimator)
    values = check_alphas(alphas)
    template = clone(estimator)
    run = Run(client, progress)
    summed = Summed.of(template, run.open(data, label, qid, n_features), run)
    return RegularizationPath(values, template, summed.solve(values.tolist()))


class Run:
    """Runs delayed work, and reports its progress."""

    def __init__(self, client: Any, progress: Progress | None = None) -> None:
        if client is not None and not hasattr(client, "as_current"):
            raise ParameterError(
                f"client must be a distributed.Client, as in Client({client!r}): got "
                f"{type(client).__name__}."
            )
        if client is None and progress is not None:
            raise ParameterError("progress needs a scheduler: pass a client as well.")
        self._client = client
        self._progress = progress

    def __call__(self, tasks: Sequence[Any]) -> list[Any]:
        """Results of delayed tasks."""
        if self._progress is None:
            return list(compute(*tasks, scheduler=self._client))
        from distributed import wait

        futures, total = self._client.compute(list(tasks)), 1
        while not all(future.done() for future in futures):
            with suppress(TimeoutError):
                wait(futures, timeout=PROGRESS_SECONDS)
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
            partitions = open_partitions(data, label, qid, n_features)
        if n_features is not None and partitions.shape is None:
            raise ParameterError(
                "n_features is for LETOR files only: other data have a known number."
            )
        return partitions


def _tasks_left(dask_scheduler: Any) -> int:
    """Tasks that a scheduler has not finished."""
    left = ("waiting", "queued", "no-worker", "processing")
    return sum(task.state in left for task in dask_scheduler.tasks.values())


@dataclass(frozen=True)
class Summed:
    """Sums over all partitions, and what they were made of.

    `partitions` hold whole queries, `moments` have an entry for each task.
    """

    moments: list[Any]
    system: Any
    partitions: Partitions
    overview: Overview
    loss: Loss

    @classmethod
    def of(cls, ranker: Any, partitions: Partitions, run: Run) -> Summed:
        """Sum over all partitions; sets those attributes of `ranker` that describe the data."""
        forget(ranker)
        loss = ranker.make_loss()
        partitions, overview = surveyed(partitions, run)
        ranker.n_features_in_, ranker.n_queries_ = overview.n_features, overview.n_queries
        if partitions.feature_names is not None:
            ranker.feature_names_in_ = np.asarray(partitions.feature_names, dtype=object)
        space = ranker.make_space(overview.n_features)
        # Not delayed: the worker that held it would attract the rows of others.
        system: Any = FeatureSystem(overview.n_features)
        if isinstance(space, LandmarkSpace):
            landmarks = _choose_landmarks(space, partitions, overview, run)
            system = delayed(LandmarkSystem.of, pure=False)(space.kernel, landmarks)
        one_ranking = bool(overview.split) and overview.n_queries == 1 and not loss.has_intercept
        if one_ranking:
            _check_one_ranking(loss)
        elif not loss.has_intercept:
            partitions = with_whole_queries(partitions, overview.split)
        summed_loss = RowLoss() if one_ranking else loss
        sums = partitions.map(partition_totals, system=system, loss=summed_loss)
        if isinstance(space, LandmarkSpace):
            totals, system = run([tree(sums, added), system])
        else:
            (totals,) = run([tree(sums, added)])
        moments, n_pairs, n_rows = totals.moments, totals.n_pairs, sum(overview.n_rows)
        if one_ranking:
            n_pairs = [n_rows * (n_rows - 1) // 2]
            scale = loss.weight(n_rows, n_pairs[0]) * n_rows
            moments = [Moments(scale * one.A, scale * one.b) for one in moments]
        loss.check_learnable(n_pairs, n_rows, overview.n_queries)
        return cls(moments, system, partitions, overview, loss)

    def solve(self, alphas: list[float]) -> Fit:
        """Fit to the rows of all partitions."""
        return Fit(self.system.basis, self.system.solve(self.moments, alphas))


def check_summable(ranker: Any) -> None:
    """Raise an error for rankers whose fit is not a sum over rows, computed by NumPy."""
    if getattr(ranker, "device", None) not in (None, "cpu"):
        raise ParameterError(
            f"Rows on many machines are summed by NumPy, and device={ranker.device!r}: use "
            "device=None, or fit on one machine with a GPU."
        )
    if getattr(ranker, "precision", "float64") != "float64":
        raise ParameterError(
            f"Rows on many machines are summed in float64: got precision={ranker.precision!r}."
        )
    if isinstance(ranker, LeastSquaresRanker):
        check_parameters(ranker, ranker.parameters)
        space = clone(ranker).make_space(1)
        if isinstance(space, LandmarkSpace) and ranker.kernel != "precomputed":
            return
        if isinstance(space, FeatureSpace) and space.solver != "dual":
            return
    raise ParameterError(
        "Rows on many machines can be summed by RankRLS and RLS with the linear kernel, and by "
        f"SparseRankRLS and SparseRLS: got {ranker}. For another kernel use SparseRankRLS."
    )


def _check_one_ranking(loss: Loss) -> None:
    """One ranking of all rows is a regression with a free intercept, if all pairs count."""
    if loss.ties == "exclude":
        raise DataError(
            'All partitions form one ranking, which can be summed only with ties="include". Use '
            "that, or pass the query of every row."
        )


def _choose_landmarks(
    space: LandmarkSpace, partitions: Partitions, overview: Overview, run: Run
) -> Landmarks:
    """The given landmarks, or some from a sample of all partitions."""
    choice: Any = space.choice
    if choice.points is not None:
        return choice.given_points(overview.n_features, space.kernel)
    if choice.rows is not None:
        return _given_rows(choice.rows, partitions, overview, run)
    rng = as_generator(space.random_state)
    seed = int(rng.integers(2**63))
    draws = partitions.map(_sample, range(len(partitions)), size=choice.sample_size(), seed=seed)
    (reservoir,) = run([tree(draws, _joined)])
    return choice.among_sample(reservoir, space.kernel, rng)


def _given_rows(numbers: Any, partitions: Partitions, overview: Overview, run: Run) -> Landmarks:
    check_in_range(numbers, sum(overview.n_rows))
    ends = np.cumsum(overview.n_rows)
    home = np.searchsorted(ends, numbers, side="right")
    used = np.unique(home)
    some = Partitions([partitions.delayed[k] for k in used])
    local = [numbers[home == k] - (ends[k] - overview.n_rows[k]) for k in used]
    found = stacked(run(some.map(_take_rows, local)))
    order = np.concatenate([np.flatnonzero(home == k) for k in used])
    return Landmarks(found[np.argsort(order)], numbers)


def _take_rows(partition: Partition, rows: Any) -> Any:
    return partition.checked().X[rows]


def _sample(partition: Partition, number: int, size: int, seed: int) -> Reservoir:
    reservoir = Reservoir(size, np.random.default_rng([seed, number]))
    qid = None if partition.qid is None else np.asarray(partition.qid)
    reservoir.add(partition.checked().X, qid)
    return reservoir


def _joined(reservoirs: list[Reservoir]) -> Reservoir:
    first = reservoirs[0]
    for other in reservoirs[1:]:
        first.join(other)
    return first
