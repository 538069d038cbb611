"""Exceptions and warnings.

::

    RankwiseError
    ├── DataError (ValueError)           rows, labels, queries or pairs that cannot be used
    │   ├── LetorFormatError             a LETOR file that cannot be read, with file and line
    │   ├── TableError                   a table that cannot be used, with all that is wrong
    │   └── UndefinedMetricError         a metric that is undefined for the data
    ├── ParameterError (ValueError)      an invalid value of a parameter
    ├── ModelFileError (ValueError)      a model file that is damaged or not from rankwise
    ├── ExportError (ValueError)         a model that cannot be written in another form
    ├── KernelSizeError (MemoryError)    a kernel matrix that does not fit in memory
    ├── DeviceError (RuntimeError)       a device that is missing, or differs from the data's
    └── MissingExtraError (ImportError)  an optional dependency that is not installed

    RankwiseWarning (UserWarning)        a result that may not be what was intended

Every error is also an instance of the built-in exception in parentheses, so that code written for
scikit-learn, which catches `ValueError`, keeps working.
"""

from __future__ import annotations

import warnings
from inspect import currentframe
from typing import Any

__all__ = [
    "DataError",
    "DeviceError",
    "ExportError",
    "KernelSizeError",
    "LetorFormatError",
    "MissingExtraError",
    "ModelFileError",
    "ParameterError",
    "RankwiseError",
    "RankwiseWarning",
    "TableError",
    "UndefinedMetricError",
]


class RankwiseError(Exception):
    """Base class of all errors that rankwise raises itself.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.errors import RankwiseError
    >>> try:
    ...     RankRLS(alpha=-1).fit([[0.0], [1.0]], [0, 1])
    ... except RankwiseError as error:
    ...     print(type(error).__name__)
    ParameterError
    """


class DataError(RankwiseError, ValueError):
    """Rows, labels, queries or pairs cannot be used as they are.

    Examples
    --------
    >>> from rankwise.data import normalize_per_query
    >>> normalize_per_query([1.0, 2.0], [7, 7])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    rankwise.errors.DataError: X must contain numbers in two dimensions, rows and features: ...
    """


class LetorFormatError(DataError):
    """A LETOR file cannot be read; the message names the file, the line and the reason.

    Examples
    --------
    >>> from rankwise.data import read_letor
    >>> read_letor(".")
    Traceback (most recent call last):
    rankwise.errors.LetorFormatError: . is a folder. Give one file in it.
    """


class TableError(DataError):
    """A table cannot be used as it is; the message lists all problems, and ends with what works.

    Attributes
    ----------
    where : str
        The file, or what else the table is called.
    problems : tuple of str
        What is wrong, by column.
    settings : dict of str to object
        Options that would help, as in ``{"label": "outcome", "grades": {"no": 0, "yes": 1}}``.
    remedy : str
        The last lines of the message.

    Examples
    --------
    >>> from rankwise.errors import TableError
    >>> print(TableError("t.csv", ("the column 'city' has text",), {}, "Leave it out."))
    t.csv: the column 'city' has text
    Leave it out.
    """

    def __init__(
        self, where: str, problems: tuple[str, ...], settings: dict[str, Any], remedy: str = ""
    ) -> None:
        super().__init__(where, problems, settings, remedy)
        self.where, self.problems, self.settings = where, problems, settings
        self.remedy = remedy

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.problems[0]}"]
        if self.problems[0].startswith(self.where):  # with a line number
            lines = [self.problems[0]]
        if len(self.problems) > 1:
            lines = [f"{self.where} has {len(self.problems)} problems:"]
            lines += [f"  - {problem}" for problem in self.problems]
        return "\n".join([*lines, *filter(None, [self.remedy])])


class UndefinedMetricError(DataError):
    """A metric is undefined for all queries, or for one that must have a value.

    Examples
    --------
    >>> from rankwise.errors import DataError, UndefinedMetricError
    >>> issubclass(UndefinedMetricError, DataError)
    True
    """


class ParameterError(RankwiseError, ValueError):
    """The value of a parameter is invalid.

    Examples
    --------
    >>> from rankwise.data import make_ranking
    >>> make_ranking(0)
    Traceback (most recent call last):
    rankwise.errors.ParameterError: n_queries must be an integer of at least 1: got 0.
    """


class ModelFileError(RankwiseError, ValueError):
    """A model file is damaged, or was not written by rankwise.

    Examples
    --------
    >>> from rankwise.errors import ModelFileError
    >>> issubclass(ModelFileError, ValueError)
    True
    """


class ExportError(RankwiseError, ValueError):
    """A model cannot be exported, or its exported form computes other scores.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.export import to_solr
    >>> ranker = RankRLS(kernel="rbf", scale=None).fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    >>> try:
    ...     to_solr(ranker)
    ... except ExportError as error:
    ...     print(str(error)[:85])
    Solr takes a linear model or trees, and this RankRLS is not linear: its kernel is rbf
    """


class KernelSizeError(RankwiseError, MemoryError):
    """A kernel matrix, or the features of rows on landmarks, do not fit in memory.

    Examples
    --------
    >>> from rankwise.errors import KernelSizeError
    >>> issubclass(KernelSizeError, MemoryError)
    True
    """


class DeviceError(RankwiseError, RuntimeError):
    """A device does not exist on this machine, or does not hold the data.

    Examples
    --------
    >>> from rankwise.errors import DeviceError
    >>> issubclass(DeviceError, RuntimeError)
    True
    """


class MissingExtraError(RankwiseError, ImportError):
    """An optional dependency is not installed.

    Parameters
    ----------
    package : str
        The package that could not be imported.
    extra : str
        The extra of rankwise that installs it.

    Examples
    --------
    >>> from rankwise.errors import MissingExtraError
    >>> print(MissingExtraError("torch", "gpu"))
    This needs torch, which is not installed: pip install 'rankwise[gpu]'
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"This needs {package}, which is not installed: pip install 'rankwise[{extra}]'"
        )


class RankwiseWarning(UserWarning):
    """A result may not be what was intended.

    Examples
    --------
    >>> from rankwise.errors import RankwiseWarning
    >>> issubclass(RankwiseWarning, UserWarning)
    True
    """


def warn(message: str, category: type[Warning] = RankwiseWarning) -> None:
    """Warn, pointing at the line outside the package from which the call came."""
    frame, level = currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("rankwise."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
