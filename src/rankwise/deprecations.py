"""Names that have changed: a former name works for two more minor versions, with a warning.

A `Former` says what has changed, and when. Pass it to

- `former_names`, for a name of a module,
- `former_parameters`, for a parameter of a function or of an estimator,
- `FORMER_OPTIONS` of the command line, for an option of a command; see `present_options`.

Model files are read for ever, so their former names are kept elsewhere: see
`rankwise.parameters.OptionsMixin` and `rankwise.rankers`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from rankwise.errors import ParameterError, warn

KEPT = 2  # minor versions
Changed = TypeVar("Changed", bound=Callable[..., Any])


@dataclass(frozen=True)
class Former:
    """A name that has changed.

    Attributes
    ----------
    name : str
        The former name of a parameter, of something in a module, or of an option ("--folds").
    now : str or None
        The present name; None for a parameter that has no effect any more.
    since : str
        The version in which it changed, such as "1.2". In version 1.4, the former name goes.

    Examples
    --------
    >>> Former("n_folds", "n_splits", since="1.2").message
    'n_folds is now n_splits. The former name works until version 1.4.'
    """

    name: str
    now: str | None
    since: str

    @property
    def until(self) -> str:
        """The version without the former name."""
        major, minor = self.since.split(".")[:2]
        return f"{major}.{int(minor) + KEPT}"

    @property
    def message(self) -> str:
        """What users read."""
        if self.now is None:
            return (
                f"{self.name} has no effect any more: leave it out. From version {self.until} on, "
                "it is an error."
            )
        now = f"{self.now}VALUE" if self.now.endswith("=") else self.now
        return f"{self.name} is now {now}. The former name works until version {self.until}."

    def warn(self) -> None:
        """Warn, pointing at the line that uses the former name."""
        warn(self.message, FutureWarning)


def former_names(module: str, *formers: Former) -> Callable[[str], Any]:
    """The function ``__getattr__`` of a module in which names have changed.

    In the module::

        __getattr__ = former_names(__name__, Former("Groups", "QueryGroups", since="1.2"))
    """
    known = {former.name: former for former in formers}

    def get(name: str) -> Any:
        if name not in known:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        known[name].warn()
        return getattr(sys.modules[module], str(known[name].now))

    return get


def former_parameters(*formers: Former) -> Callable[[Changed], Changed]:
    """Decorate a function or an estimator whose parameters have changed.

    An estimator takes the former names in its constructor and in ``set_params``, so that searches
    and pipelines can use them as well.

    Examples
    --------
    >>> @former_parameters(Former("n_folds", "n_splits", since="1.2"))
    ... def split(n_splits):
    ...     return n_splits
    >>> split(n_splits=5)  # and split(n_folds=5), with a warning
    5
    """

    def decorate(changed: Any) -> Any:
        if isinstance(changed, type):
            for method in ("__init__", "set_params"):
                setattr(changed, method, decorate(getattr(changed, method)))
            return changed

        @wraps(changed)
        def call(*args: Any, **arguments: Any) -> Any:
            for former in formers:
                if former.name not in arguments:
                    continue
                former.warn()
                value = arguments.pop(former.name)
                if former.now in arguments:
                    raise ParameterError(f"{former.name} is {former.now}: give one of them.")
                if former.now is not None:
                    arguments[former.now] = value
            return changed(*args, **arguments)

        return call

    return decorate


def present_options(arguments: Sequence[str], formers: Sequence[Former]) -> list[str]:
    """The arguments of a command with the present names of its options.

    If `now` ends with ``=``, the value belongs to the same argument.

    Examples
    --------
    >>> formers = [Former("--gamma", "--set gamma=", since="1.2")]
    >>> present_options(["train.txt", "--alpha", "0.1"], formers)
    ['train.txt', '--alpha', '0.1']
    """
    known = {former.name: former for former in formers}
    given, found = iter(arguments), list[str]()
    for argument in given:
        name, equals, value = argument.partition("=")
        if argument == "--":
            return [*found, argument, *given]
        if name not in known:
            found.append(argument)
            continue
        former = known[name]
        former.warn()
        words = str(former.now).split()
        if words[-1].endswith("="):
            words[-1] += value if equals else next(given, "")
        elif equals:
            words[-1] += f"={value}"
        found += words
    return found
