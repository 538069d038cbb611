"""Exact leave-query-out on a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from dask.delayed import delayed
from sklearn.base import clone

from rankwise.backends.arrays import Array, Rows
from rankwise.distributed._cluster_fit import Progress, Run, Summed, check_summable
from rankwise.distributed._partitions import Partition
from rankwise.errors import DataError, ParameterError, UndefinedMetricError
from rankwise.estimators._scaling import shared_by_choice
from rankwise.graph import QueryGroups
from rankwise.holdout.leave_query_out import MomentSpectrum, predict_without
from rankwise.holdout.scores import mean_and_error
from rankwise.metrics import get_metric
from rankwise.model_selection import HeldOutScores
from rankwise.parameters import check_alphas
from rankwise.problem import Loss, PairLoss

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
    all rows; `shared` of the result says so.

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
    given = None
    if alphas is not None or estimator.alpha != "auto":
        given = check_alphas(estimator.alpha if alphas is None else alphas)
        if given.min() <= 0:
            raise ParameterError(f"Exact hold-outs need alphas above 0: got {given.min():g}.")
    run = Run(client, progress)
    ranker = clone(estimator)
    summed = Summed.of(ranker, run.open(data, label, qid, n_features), run)
    values = summed.alphas() if given is None else given
    n_queries = summed.overview.n_queries
    if n_queries < 2:
        raise DataError("leave_query_out needs at least two queries: got one.")
    spectra = delayed([_spectrum(summed.system, one) for one in summed.moments], pure=False)
    system = delayed(summed.system, pure=False)
    same = {"loss": summed.loss, "alphas": values, "metric": function}
    found = run(summed.partitions.map(_held_out, system=system, spectra=spectra, **same))
    parts = [part for part in found if part is not None]
    n_lost = sum(lost for _, lost in parts)
    if n_lost:
        raise DataError(
            f"An alpha is too small relative to the rounding errors of the data: {n_lost} of "
            f"the {n_queries} queries cannot be held out on a cluster. Use larger alphas."
        )
    by_alpha = [
        [np.concatenate(of_output) for of_output in zip(*(f[a] for f, _ in parts), strict=True)]
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
) -> tuple[list[list[Array]], int] | None:
    """Values per query, for each alpha and output; how many queries are lost in rounding errors.

    None if the partition has no rows.
    """
    if len(part.y) == 0:
        return None
    groups = QueryGroups.of(part.qid, len(part.y))
    coordinates = system.coordinates(part.X)
    F = np.concatenate([coordinates(rows) for rows in _blocks(len(part.y))])
    y = part.y.reshape(len(part.y), -1)
    predictions = np.empty((len(alphas), *y.shape))
    first, lost = 0, set()
    for task, spectrum in zip(loss.tasks(part.y, part.qid), spectra, strict=True):
        assert task.y is not None  # tasks of scored rows
        t = task.graph.root(task.y.reshape(len(y), -1))
        out = np.empty((len(alphas), *t.shape))
        Z = task.graph.root(F)
        lost.update(predict_without(F, Z, t, list(groups), alphas.tolist(), spectrum, out))
        predictions[:, :, first : first + t.shape[1]] = out
        first += t.shape[1]
    values = [
        [_values(metric, y[:, k], f[:, k], groups.codes) for k in range(y.shape[1])]
        for f in predictions
    ]
    return values, len(lost)


def _values(function: Any, y: Array, scores: Array, codes: Any) -> Array:
    try:
        return np.asarray(function(y, scores, codes, per_query=True).values)
    except UndefinedMetricError:  # undefined for the queries of this partition only
        return np.empty(0)


def _blocks(n_rows: int) -> list[Rows]:
    return [slice(k, min(k + ROWS, n_rows)) for k in range(0, n_rows, ROWS)]
