"""Predictions and metrics on a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from dask.delayed import Delayed, delayed
from sklearn.pipeline import Pipeline

from rankwise.distributed._partitions import Partition, open_partitions
from rankwise.metrics import evaluate_ranking


def predict(estimator: Any, data: Any, *, label: str | None = None, qid: str | None = None) -> Any:
    """Scores of rows as a lazy Dask array, in the order of the rows.

    Parameters
    ----------
    estimator : a fitted ranker of rankwise
    data : Dask array or data frame, str, path or list of these
        A Dask array of features; or as for `fit`.
    label, qid : str, optional
        Columns of a data frame or of Parquet files that are not features.

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
    blocks = [
        da.from_delayed(scores, (length, *outputs), dtype=np.float64)
        for scores, length in zip(
            parts.map(_scores, ranker=ranker, names=parts.feature_names), lengths, strict=True
        )
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
    if names is None or not hasattr(ranker, "feature_names_in_"):
        return ranker.predict(part.checked().X)
    import pandas as pd

    return ranker.predict(pd.DataFrame(part.checked().X, columns=names))


def _columns(part: Partition, ranker: Any, names: list[str] | None) -> tuple[Any, Any, Any]:
    return part.y, _scores(part, ranker, names), part.qid


def _evaluated(columns: list[tuple[Any, Any, Any]], options: dict[str, Any]) -> Any:
    y, scores, ids = zip(*columns, strict=True)
    qid = None if ids[0] is None else np.concatenate([np.asarray(one) for one in ids])
    return evaluate_ranking(np.concatenate(y), np.concatenate(scores), qid, **options)
