"""Fit and evaluate rankers with rows on many machines (needs the extra ``dask``)."""

from rankwise.errors import MissingExtraError

try:
    import dask
except ImportError as error:
    raise MissingExtraError("dask", "dask") from error
else:
    del dask

from rankwise.distributed._fit import fit, path
from rankwise.distributed._held_out import leave_query_out
from rankwise.distributed._scoring import evaluate, predict

__all__ = ["evaluate", "fit", "leave_query_out", "path", "predict"]
