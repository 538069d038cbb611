"""Predictions and metrics on a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from dask.delayed import Delayed, delayed
from sklearn.pipeline import Pipeline

from rankwise.distributed._partitions import Partition, Partitions, computed, open_partitions
from rankwise.distributed._sums import Overview, surveyed, with_whole_queries
from rankwise.errors import DataError
from rankwise.estimators._scaling import scales_within_queries
from rankwise.graph.id_arrays import join_ids
from rankwise.metrics import evaluate_ranking
from rankwise.routing import predict_with_queries


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
        Of shape (n_rows,) or (n_rows, n_outputs); chunk sizes are unknown if those of `data` are.

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
    parts = open_partitions(data, label, qid, getattr(estimator, "n_features_in_", None))
    lengths = data[0].chunks[0] if isinstance(data, tuple) else [np.nan] * len(parts)
    ranker = delayed(estimator, pure=False)
    outputs = _outputs(estimator)
    if scales_within_queries(estimator):
        parts, overview = surveyed(parts, computed)
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
    parts = open_partitions(data, label, qid, getattr(estimator, "n_features_in_", None))
    if scales_within_queries(estimator):
        parts, overview = surveyed(parts, computed)
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
    """Scores of a partition; column names must match those of the fit."""
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
    # The first partitions have the rows that stayed there, the others those that were moved.
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
    """The scores of the rows first:end, from those that stayed and those that were moved."""
    mine = (moved[0] >= first) & (moved[0] < end)
    numbers, scores = _pooled([here, (moved[0][mine], moved[1][mine])])
    return scores[np.argsort(numbers)]


def _columns(part: Partition, ranker: Any, names: list[str] | None) -> tuple[Any, Any, Any]:
    return part.y, _scores(part, ranker, names), part.qid


def _evaluated(columns: list[tuple[Any, Any, Any]], options: dict[str, Any]) -> Any:
    y, scores, ids = zip(*columns, strict=True)
    qid = None if ids[0] is None else join_ids(ids)
    return evaluate_ranking(np.concatenate(y), np.concatenate(scores), qid, **options)
