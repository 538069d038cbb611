"""What can go wrong, as one tree.

::

    RankwiseError
    ├── DataError (ValueError)        rows, labels, queries or pairs that cannot be used
    │   ├── LetorFormatError          a LETOR file that cannot be read, with file and line
    │   └── UndefinedMetricError      a metric without a value, where there must be one
    ├── ParameterError (ValueError)   a parameter outside its range, or an unknown name
    ├── ModelFileError (ValueError)   a model file that is damaged or not ours
    ├── KernelSizeError (MemoryError)  a kernel matrix that this machine, or a GPU, cannot hold
    ├── DeviceError (RuntimeError)    a device that is not there, or not the one of the data
    └── MissingExtraError (ImportError)  an optional dependency that is not installed

    RankwiseWarning (UserWarning)     a result that may not be what was meant
"""

from __future__ import annotations


class RankwiseError(Exception):
    """Base of the errors that are rankwise's own."""


class DataError(RankwiseError, ValueError):
    """Rows, labels, queries or pairs that cannot be used as they are."""


class LetorFormatError(DataError):
    """A LETOR file that cannot be read; the message names file, line and fault."""


class UndefinedMetricError(DataError):
    """A metric that is not defined for any query, or for one that must have it."""


class ParameterError(RankwiseError, ValueError):
    """A parameter outside its range, or a name that is not known."""


class ModelFileError(RankwiseError, ValueError):
    """A model file that is damaged or was not written by rankwise."""


class KernelSizeError(RankwiseError, MemoryError):
    """A kernel matrix, or coordinates on landmarks, that this machine cannot hold."""


class DeviceError(RankwiseError, RuntimeError):
    """A device that this machine does not have, or that the data is not on."""


class MissingExtraError(RankwiseError, ImportError):
    """An optional dependency that is not installed.

    Parameters
    ----------
    package : str
        What could not be imported.
    extra : str
        The extra of rankwise that brings it.
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"This needs {package}, which is not installed: pip install 'rankwise[{extra}]'"
        )


class RankwiseWarning(UserWarning):
    """A result that may not be what was meant."""
