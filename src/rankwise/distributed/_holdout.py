"""Queries held out on a cluster: exactly, for every alpha, where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
from dask.delayed import delayed
from sklearn.base import clone

from rankwise.backends.arrays import Array, Rows
from rankwise.distributed._fit import Run, Summed, check_summable
from rankwise.distributed._parts import Part
from rankwise.distributed._sums import Loss, joined_parts, part_graph, take_queries, without_queries
from rankwise.errors import DataError, ParameterError, UndefinedMetricError
from rankwise.estimators._checks import check_alphas
from rankwise.graph import QueryGroups
from rankwise.graph.partitioned import SplitQueries
from rankwise.holdout.leave_query_out import Spectrum, predict_without
from rankwise.metrics import get_metric
from rankwise.model_selection import HeldOutScores
from rankwise.model_selection._held_out_queries import mean_and_error

ROWS = 65536  # of features made at a time


def leave_query_out(
    estimator: Any,
    data: Any,
    *,
    alphas: Any = None,
    metric: str = "disagreement",
    label: str = "label",
    qid: str = "qid",
    client: Any = None,
) -> HeldOutScores:
    """Score every query by a ranker trained on the others, exactly, without refitting.

    As `rankwise.model_selection.leave_query_out`, for rows that lie on many machines: the sums
    of all rows and one eigendecomposition tell each partition what it must know of the others.
    One more pass than `fit`, and the cube of the rows of a query for each alpha. Rows of queries
    that are split between partitions are brought together. Landmarks are those of all rows.

    Parameters
    ----------
    estimator : RankRLS or SparseRankRLS
        As for `fit`; it is cloned, not fitted.
    data, label, qid, client
        As for `fit`.
    alphas : sequence of float, optional
        Above 0. None: the alpha of the estimator.
    metric : str, default="disagreement"
        A name of `rankwise.metrics.METRICS`, such as "ndcg@10" or "map".

    Returns
    -------
    HeldOutScores
        Scores and standard errors for each alpha, and the best; predictions stay where they are
        made.
    """
    function, greater_is_better = get_metric(metric)
    check_summable(estimator)
    if estimator._pointwise:
        raise ParameterError(
            "On a cluster, queries are held out of rankers of pairs (RankRLS, SparseRankRLS): got "
            f"{type(estimator).__name__}."
        )
    values = check_alphas([estimator.alpha] if alphas is None else alphas)
    if values.min() <= 0:
        raise ParameterError(f"Exact hold-outs need alphas above 0: got {values.min():g}.")
    run = Run(client)
    summed = Summed.of(clone(estimator), run.open(data, label, qid), run)
    parts = summed.parts
    if summed.rows.n_queries < 2:
        raise DataError("leave_query_out needs at least two queries: got one.")
    spectra = delayed([_spectrum(summed.space, moments) for moments in summed.moments], pure=False)
    space = delayed(summed.space, pure=False)
    whole = parts.map(without_queries, summed.rows.split)
    several = set().union(*summed.rows.split)
    if several:
        pieces = parts.map(take_queries, queries=several)
        whole.append(delayed(joined_parts, pure=False)(pieces))
    score = delayed(_held_out, pure=False)
    found = run([score(part, space, spectra, summed.loss, values, function) for part in whole])
    by_alpha = [
        [np.concatenate(of_output) for of_output in zip(*(f[a] for f in found if f), strict=True)]
        for a in range(len(values))
    ]
    if not by_alpha[0] or min(map(len, by_alpha[0])) == 0:
        raise UndefinedMetricError(
            f"{metric} is not defined for any of the {summed.rows.n_queries} queries: check labels "
            "and query ids."
        )
    means, errors = np.transpose([mean_and_error(of_alpha) for of_alpha in by_alpha])
    return HeldOutScores(values, means, errors, metric, greater_is_better)


def _spectrum(space: Any, moments: Any) -> Spectrum:
    A, b = space.coordinate_moments(moments)
    return Spectrum.of(A, b.reshape(len(b), -1))


def _held_out(
    part: Part | None, space: Any, spectra: list[Spectrum], loss: Loss, alphas: Array, function: Any
) -> list[list[Array]] | None:
    """Values per query, for each alpha and output; None where the part has no rows."""
    if part is None or len(part.y) == 0:
        return None
    groups = QueryGroups.of(part.qid, len(part.y))
    coordinates = space.coordinates(part.X)
    F = np.concatenate([coordinates(rows) for rows in _blocks(len(part.y))])
    y = part.y.reshape(len(part.y), -1)
    predictions = np.empty((len(alphas), *y.shape))
    first = 0
    for (labels, targets), spectrum in zip(loss.columns(part.y), spectra, strict=True):
        graph = part_graph(part, labels, SplitQueries({}), loss)
        t = graph.root(targets.reshape(len(y), -1))
        out = np.empty((len(alphas), *t.shape))
        predict_without(F, graph.root(F), t, list(groups), alphas.tolist(), spectrum, out)
        predictions[:, :, first : first + t.shape[1]] = out
        first += t.shape[1]
    return [
        [_values(function, y[:, k], f[:, k], groups.codes) for k in range(y.shape[1])]
        for f in predictions
    ]


def _values(function: Any, y: Array, scores: Array, codes: Any) -> Array:
    try:
        return np.asarray(function(y, scores, codes, per_query=True).values)
    except UndefinedMetricError:  # no query here has it, but others may
        return np.empty(0)


def _blocks(n_rows: int) -> list[Rows]:
    return [slice(k, min(k + ROWS, n_rows)) for k in range(0, n_rows, ROWS)]
