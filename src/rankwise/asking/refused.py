"""The error for what a session does not do."""

from __future__ import annotations

from rankwise.errors import ParameterError


class Refused(ParameterError):
    """What was asked of a session is not possible now; the message says why.

    Examples
    --------
    >>> from rankwise.asking import Refused
    >>> issubclass(Refused, ValueError)
    True
    """
