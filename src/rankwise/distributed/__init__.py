"""Fit and evaluate rankers on a Dask cluster (needs the extra ``dask``)."""

from rankwise.errors import MissingExtraError

try:
    import dask
except ImportError as error:
    raise MissingExtraError("dask", "dask") from error
else:
    del dask

from rankwise.distributed._cluster_fit import evaluate, fit, leave_query_out, path, predict

__all__ = ["evaluate", "fit", "leave_query_out", "path", "predict"]
