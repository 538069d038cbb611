"""The same rankers, with rows on many machines (needs the extra ``dask``)."""

from rankwise.errors import MissingExtraError

try:
    import dask
except ImportError as error:  # pragma: no cover
    raise MissingExtraError(
        "Rows on many machines need Dask: pip install 'rankwise[dask]'."
    ) from error
else:
    del dask

from rankwise.distributed._fit import fit, fit_path

__all__ = ["fit", "fit_path"]
