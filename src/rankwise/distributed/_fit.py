"""Fitting on a cluster: sums by parts, a tree that adds them, one small system at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from dask.base import compute
from dask.delayed import delayed
from sklearn.base import clone

from rankwise.distributed._parts import Part, Parts, open_parts
from rankwise.distributed._sums import (
    FeatureSpace,
    LandmarkSpace,
    Loss,
    Overview,
    level_counts,
    part_totals,
    surveyed,
    take_rows,
    tree,
)
from rankwise.errors import DataError, ParameterError
from rankwise.estimators._checks import check_alpha, check_alphas, check_random_state, check_whole
from rankwise.estimators._landmark_choice import Landmarks, Reservoir, check_in_range, stacked
from rankwise.estimators.least_squares.base import RegularizationPath, Solution
from rankwise.estimators.least_squares.direct import DirectRanker
from rankwise.estimators.least_squares.landmark_ranker import LandmarkRanker
from rankwise.graph.partitioned import SplitQueries
from rankwise.solvers.partition_moments import added

Ranker = TypeVar("Ranker", bound=Any)
Progress = Callable[[int, int], None]
PROGRESS_SECONDS = 0.2
MOST_MEANS = 2**30  # bytes of means of split levels, which all come together


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

    The result is that of ``estimator.fit`` on all rows, to rounding: queries whose rows lie in
    several partitions are put together exactly, from counts and means of their parts. Each
    partition is read twice, and once more where landmarks are chosen among rows, and where queries
    are split that are not at the edges of partitions; only sums travel, of n by n or r by r numbers
    for n features or r landmarks, added by a tree. A worker that dies has its partitions read again
    by others, and changes nothing.

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
    >>> rows = [da.from_array(a, chunks=40) for a in (X, y, qid)]  # queries are cut: no matter
    >>> ranker = fit(RankRLS(), (rows[0].rechunk((40, 3)), rows[1], rows[2]))
    >>> bool(np.allclose(ranker.coef_, RankRLS().fit(X, y, qid=qid).coef_))
    True
    """
    check_summable(estimator)
    alpha = check_alpha(estimator.alpha)
    run = Run(client, progress)
    (solution,) = _fit_alphas(estimator, run.open(data, label, qid, n_features), [alpha], run)
    estimator._keep(solution)
    return estimator


def fit_path(
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
    """As `fit`, for many alphas: they share the sums, and cost little more than one.

    Parameters
    ----------
    estimator, data, label, qid, n_features, client, progress
        As for `fit`.
    alphas : sequence of float

    Returns
    -------
    RegularizationPath
        As from ``estimator.path``; the estimator is left as it is.
    """
    check_summable(estimator)
    values = check_alphas(alphas)
    template = clone(estimator)
    run = Run(client, progress)
    parts = run.open(data, label, qid, n_features)
    solutions = _fit_alphas(template, parts, values.tolist(), run)
    return RegularizationPath(values, template, solutions)


def _fit_alphas(ranker: Any, parts: Parts, alphas: list[float], run: Run) -> list[Solution]:
    """Solutions for each alpha; the ranker is made ready to keep one."""
    summed = Summed.of(ranker, parts, run)
    if isinstance(ranker, LandmarkRanker):
        return ranker._finish(summed.space.basis, summed.moments, alphas)
    return ranker._finish(summed.moments, alphas)


class Run:
    """Where delayed work is done, and who is told how much of it is."""

    def __init__(self, client: Any, progress: Progress | None = None) -> None:
        if client is not None and not hasattr(client, "as_current"):
            raise ParameterError(
                f"client must be a distributed.Client, as in Client({client!r}): got "
                f"{type(client).__name__}."
            )
        if client is None and progress is not None:
            raise ParameterError("progress is told by a scheduler: give a client as well.")
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
    ) -> Parts:
        """Parts of what a user gave."""
        if n_features is not None:
            from rankwise.data.letor.parsing import MAX_INDEX

            check_whole("n_features", n_features, 1, MAX_INDEX)
        with nullcontext() if self._client is None else self._client.as_current():
            parts = open_parts(data, label, qid, n_features)
        if n_features is not None and parts.shape is None:
            raise ParameterError("n_features is for LETOR files: other data tell it themselves.")
        return parts


def _tasks_left(dask_scheduler: Any) -> int:
    """Tasks that a scheduler has not finished."""
    left = ("waiting", "queued", "no-worker", "processing")
    return sum(task.state in left for task in dask_scheduler.tasks.values())


@dataclass(frozen=True)
class Summed:
    """Sums over all parts that have rows, and what they were made of."""

    moments: list[Any]
    space: Any
    parts: Parts
    rows: Overview
    loss: Loss

    @classmethod
    def of(cls, ranker: Any, parts: Parts, run: Run) -> Summed:
        """Go through all parts; leaves `ranker` with what does not depend on alpha."""
        ranker._forget()
        loss = loss_of(ranker)
        parts, rows = surveyed(parts, loss, run)
        split = _split_queries(parts, rows, loss, run)
        ranker.n_features_in_, ranker.n_queries_ = rows.n_features, rows.n_queries
        ranker.__dict__.pop("feature_names_in_", None)
        if parts.feature_names is not None:
            ranker.feature_names_in_ = np.asarray(parts.feature_names, dtype=object)
        # Not delayed: whoever held it would draw the rows of others towards it.
        space: Any = FeatureSpace(rows.n_features)
        if isinstance(ranker, LandmarkRanker):
            landmarks = _choose_landmarks(ranker, parts, rows, run)
            space = delayed(_landmark_space, pure=False)(ranker, landmarks)
        of_part = [[one.of(queries) for one in split] for queries in rows.split]
        sums = parts.map(part_totals, of_part, space=space, loss=loss)
        totals = tree(sums, added)
        if isinstance(ranker, LandmarkRanker):
            totals, space = run([totals, space])
        else:
            (totals,) = run([totals])
        n_pairs = [
            n + sum(one.n_pairs(loss.ties).values())
            for n, one in zip(totals.n_pairs, split or [SplitQueries({})], strict=True)
        ]
        ranker._check_enough(n_pairs, sum(rows.n_rows))
        moments = totals.moments
        if not loss.pointwise:
            moments = [
                one.settled(elsewhere, ties=loss.ties, weighting=loss.weighting)
                for one, elsewhere in zip(moments, split, strict=True)
            ]
        if isinstance(ranker, LandmarkRanker):  # what the worker settled on
            for name in ("kernel_", "rank_", "landmarks_", "landmark_indices_"):
                if hasattr(space.ranker, name):
                    setattr(ranker, name, getattr(space.ranker, name))
        return cls(moments, space, parts, rows, loss)


def check_summable(ranker: Any) -> None:
    """Only rankers whose fit is a sum over rows can be fitted by parts, and by NumPy only."""
    if getattr(ranker, "device", None) not in (None, "cpu"):
        raise ParameterError(
            f"Rows on many machines are summed by NumPy, and device={ranker.device!r}: use "
            "device=None, or fit on one machine with a GPU."
        )
    if getattr(ranker, "precision", "float64") != "float64":
        raise ParameterError(
            f"Rows on many machines are summed in float64: got precision={ranker.precision!r}."
        )
    if isinstance(ranker, LandmarkRanker) and ranker.kernel != "precomputed":
        return
    if isinstance(ranker, DirectRanker) and ranker.kernel == "linear" and ranker.solver != "dual":
        return
    raise ParameterError(
        "Rows on many machines can be summed by RankRLS and RLS with the linear kernel, and by "
        f"SparseRankRLS and SparseRLS: got {ranker}. For another kernel use SparseRankRLS."
    )


def loss_of(ranker: Any) -> Loss:
    if ranker._pointwise:
        return Loss(True, "include", "pairs")
    ranker._check_choices()
    return Loss(False, ranker.ties, ranker.weighting)


def _split_queries(parts: Parts, rows: Overview, loss: Loss, run: Run) -> list[SplitQueries]:
    """Queries that lie in several parts, for each graph."""
    if loss.pointwise:
        return []
    n_graphs = rows.outputs[0] if loss.ties == "exclude" and rows.outputs else 1
    touched = [k for k, queries in enumerate(rows.split) if queries]
    if not touched:
        return [SplitQueries({})] * n_graphs
    edges = [_of_queries(rows.edges[k], rows.split[k]) for k in touched]
    if all(
        {query for query, _ in counted[0]} == rows.split[k]
        for counted, k in zip(edges, touched, strict=True)
    ):  # as where rows are sorted by query
        counts = edges
    else:
        some = Parts([parts.delayed[k] for k in touched])
        counts = run(some.map(level_counts, [rows.split[k] for k in touched], loss=loss))
    split = [SplitQueries.total(of_graph) for of_graph in zip(*counts, strict=True)]
    n_means = max(sum(map(len, of_graph)) for of_graph in zip(*counts, strict=True))
    if 8 * n_means * rows.n_features > MOST_MEANS:
        raise DataError(
            f"{len(split[0].n_rows)} queries lie in several partitions, with {n_means} parts of "
            "levels in all, too many to be put together: sort the rows by query, or use "
            'ties="include".'
        )
    return split


def _of_queries(counts: list[dict[Any, int]], queries: set[Any]) -> list[dict[Any, int]]:
    """Counts of levels, for each graph, of some queries only."""
    return [{level: n for level, n in one.items() if level[0] in queries} for one in counts]


def _landmark_space(ranker: Any, landmarks: Landmarks) -> LandmarkSpace:
    return LandmarkSpace(ranker, ranker._settle(landmarks))


def _choose_landmarks(ranker: Any, parts: Parts, rows: Overview, run: Run) -> Landmarks:
    """Landmarks: given, or from a sample that each part gives its share to."""
    choice, kernel = ranker._choice(), ranker._make_kernel()
    if choice.points is not None:
        return choice._given_points(rows.n_features, kernel)
    if choice.rows is not None:
        return _given_rows(choice.rows, parts, rows, run)
    rng = check_random_state(ranker.random_state)
    seed = int(rng.integers(2**63))
    draws = parts.map(_sample, range(len(parts)), size=choice.sample_size(), seed=seed)
    (reservoir,) = run([tree(draws, _joined)])
    return choice.among_sample(reservoir, kernel, rng)


def _given_rows(numbers: Any, parts: Parts, rows: Overview, run: Run) -> Landmarks:
    check_in_range(numbers, sum(rows.n_rows))
    ends = np.cumsum(rows.n_rows)
    place = np.searchsorted(ends, numbers, side="right")
    used = np.unique(place)
    some = Parts([parts.delayed[k] for k in used])
    local = [numbers[place == k] - (ends[k] - rows.n_rows[k]) for k in used]
    found = stacked(run(some.map(take_rows, local)))
    order = np.concatenate([np.flatnonzero(place == k) for k in used])
    return Landmarks(found[np.argsort(order)], numbers)


def _sample(part: Part, number: int, size: int, seed: int) -> Reservoir:
    reservoir = Reservoir(size, np.random.default_rng([seed, number]))
    reservoir.add(part.checked().X, None if part.qid is None else np.asarray(part.qid))
    return reservoir


def _joined(reservoirs: list[Reservoir]) -> Reservoir:
    first = reservoirs[0]
    for other in reservoirs[1:]:
        first.join(other)
    return first
