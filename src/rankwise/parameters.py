"""Checks of estimator parameters, declared as one table per estimator.

A table maps the name of each parameter to a rule for its valid values::

    PARAMETERS = {
        "alpha": Number(0),
        "ties": Choice("include", "exclude"),
        "max_iter": Whole(1),
        "gamma": AnyOf(None, Number(0, open_low=True)),
    }

`check_parameters` compares an estimator with its table and raises one kind of error. Rules that
relate parameters to each other, or to the data, are written out where they are needed.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from inspect import Parameter, signature
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankwise.errors import ParameterError

SHOWN = 5  # names in a message


class Rule(Protocol):
    """Which values of a parameter are valid; ``str(rule)`` describes them in words."""

    def allows(self, value: Any) -> bool:
        """Whether a value is valid."""

    def hint(self, value: Any) -> str:
        """A suggestion for an invalid value, or an empty string."""
        return ""

    def read(self, text: str) -> Any:
        """The value that a text stands for, if it is neither a number nor the text itself."""
        return None


@dataclass(frozen=True)
class Number(Rule):
    """A finite number between two bounds, which are inclusive unless declared open."""

    low: float = -np.inf
    high: float = np.inf
    open_low: bool = False
    open_high: bool = False

    def allows(self, value: Any) -> bool:
        """Whether a value is a finite number within the bounds; booleans are not numbers."""
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
            return False
        try:
            number = float(value)
        except OverflowError:  # of an integer beyond float64
            return False
        above = number > self.low if self.open_low else number >= self.low
        below = number < self.high if self.open_high else number <= self.high
        return bool(np.isfinite(number) and above and below)

    def __str__(self) -> str:
        low = "" if self.low == -np.inf else _low(self.low, self.open_low)
        if self.high == np.inf:
            return f"a finite number{low}"
        high = f"below {self.high:g}" if self.open_high else f"at most {self.high:g}"
        return f"a number{low} and {high}" if low else f"a number {high}"


@dataclass(frozen=True)
class Whole(Rule):
    """An integer between two inclusive bounds."""

    low: int
    high: int = 2**62

    def allows(self, value: Any) -> bool:
        """Whether a value is an integer within the bounds; booleans are not integers."""
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral):
            return False
        return self.low <= int(value) <= self.high

    def __str__(self) -> str:
        if self.high < 2**62:
            return f"an integer from {self.low} to {self.high}"
        return f"an integer of at least {self.low}"


@dataclass(frozen=True, init=False)
class Choice(Rule):
    """One of several strings."""

    words: tuple[str, ...]

    def __init__(self, *words: str) -> None:
        object.__setattr__(self, "words", words)

    def allows(self, value: Any) -> bool:
        """Whether a value is one of the strings."""
        return isinstance(value, str) and value in self.words

    def hint(self, value: Any) -> str:
        """The string closest to the value."""
        near = difflib.get_close_matches(value, self.words, n=1) if isinstance(value, str) else []
        return f" Did you mean {near[0]!r}?" if near else ""

    def __str__(self) -> str:
        return f"one of {', '.join(self.words)}" if len(self.words) > 1 else f'"{self.words[0]}"'


@dataclass(frozen=True)
class Flag(Rule):
    """True or False."""

    def allows(self, value: Any) -> bool:
        """Whether a value is a boolean."""
        return isinstance(value, (bool, np.bool_))

    def __str__(self) -> str:
        return "True or False"


@dataclass(frozen=True, init=False)
class AnyOf(Rule):
    """A value that satisfies at least one of several rules; None allows the value None."""

    rules: tuple[Rule | None, ...]

    def __init__(self, *rules: Rule | None) -> None:
        object.__setattr__(self, "rules", rules)

    def allows(self, value: Any) -> bool:
        """Whether any of the rules allows a value."""
        return any(value is None if rule is None else rule.allows(value) for rule in self.rules)

    def read(self, text: str) -> Any:
        """The first value that a text stands for by any of the rules."""
        values = (rule.read(text) for rule in self.rules if rule is not None)
        return next((value for value in values if value is not None), None)

    def hint(self, value: Any) -> str:
        """The first suggestion from any of the rules."""
        hints = (rule.hint(value) for rule in self.rules if rule is not None)
        return next((hint for hint in hints if hint), "")

    def __str__(self) -> str:
        # None is named last: "a finite number above 0, or None".
        words = [str(rule) for rule in sorted(self.rules, key=lambda rule: rule is None)]
        return f"{', '.join(words[:-1])}, or {words[-1]}" if len(words) > 1 else words[0]


@dataclass(frozen=True)
class Monotone(Rule):
    """Features whose scores must not fall (1) or must not rise (-1), by name or by position."""

    def allows(self, value: Any) -> bool:
        """Whether a value is a mapping from names or positions to -1, 0 or 1."""
        return isinstance(value, Mapping) and all(
            (isinstance(key, str) or Whole(0).allows(key)) and Whole(-1, 1).allows(sign)
            for key, sign in value.items()
        )

    def hint(self, value: Any) -> str:
        """Which entry is wrong."""
        if isinstance(value, Mapping):
            for key, sign in value.items():
                if not self.allows({key: sign}):
                    return f" The entry {key!r}: {sign!r} is wrong."
        return ""

    def read(self, text: str) -> Any:
        """The value that a text stands for, such as "price:-1,stars:+1"; None if it is none."""
        entries = [entry.rpartition(":") for entry in text.split(",")]
        with suppress(ValueError):
            return {
                int(name) if name.strip().isdecimal() else name.strip(): int(sign)
                for name, _, sign in entries
            }
        return None

    def __str__(self) -> str:
        return 'a dictionary of -1, 0 or 1 by feature, such as {"price": -1, "stars": 1}'


def monotone_signs(monotone: Any, names: Any, n_features: int) -> tuple[int, ...] | None:
    """The sign of each feature; None if there is no constraint.

    Parameters
    ----------
    monotone : mapping or None
        See `Monotone`.
    names : sequence of str or None
        The names of the features, if they have names.
    n_features : int

    Examples
    --------
    >>> monotone_signs({"price": -1}, ["stars", "price"], 2), monotone_signs({0: 1}, None, 2)
    ((0, -1), (1, 0))
    """
    known = None if names is None else [str(name) for name in names]
    signs = [0] * n_features
    for key, sign in (monotone or {}).items():
        if isinstance(key, str):
            if known is None:
                raise ParameterError(
                    f"monotone names the feature {key!r}, but X has no names: use a data frame, or "
                    f"positions from 0 to {n_features - 1}. Behind other steps of a pipeline, "
                    'features keep their names after pipeline.set_output(transform="pandas").'
                )
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"Did you mean {near[0]!r}?" if near else f"Features are {_listed(known)}."
                raise ParameterError(f"monotone: {key!r} is not a feature. {hint}")
            if known.count(key) > 1:
                raise ParameterError(f"monotone: there are several features named {key!r}.")
            place = known.index(key)
        elif known is not None:
            raise ParameterError(
                f"monotone has the position {key}, but features have names: use a name, such as "
                f"{known[min(int(key), n_features - 1)]!r}."
            )
        elif key >= n_features:
            raise ParameterError(
                f"monotone has the position {key}, but there are {n_features} features: positions "
                f"are 0 to {n_features - 1}."
            )
        else:
            place = int(key)
        signs[place] = int(sign)
    return tuple(signs) if any(signs) else None


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"


def check_parameters(estimator: Any, table: Mapping[str, Rule]) -> None:
    """Check every parameter of an estimator that its table names.

    Parameters
    ----------
    estimator : object
        It has an attribute for each name in the table.
    table : mapping of str to Rule

    Raises
    ------
    ParameterError
        If a parameter has an invalid value.
    """
    for name, rule in table.items():
        check_value(name, getattr(estimator, name), rule)


def parse_parameter(name: str, text: str, rule: Rule | None) -> Any:
    """The value that a text stands for: a number, True, False, None, or the text itself.

    Without a rule, the estimator checks the value.

    Examples
    --------
    >>> parse_parameter("degree", "2", Number()), parse_parameter("ties", "none", None)
    (2, None)
    """
    words = {"none": None, "true": True, "false": False}
    found: list[Any] = [words[text.lower()]] if text.lower() in words else []
    for number in (int, float):
        with suppress(ValueError):
            found.append(number(text))
    found.append(text)
    read = None if rule is None else rule.read(text)
    found += [] if read is None else [read]
    value = next((each for each in found if rule is None or rule.allows(each)), text)
    if rule is not None:
        check_value(name, value, rule)
    return value


def check_value(name: str, value: Any, rule: Rule) -> None:
    """Check a single value; the error message refers to it as `name`."""
    if not rule.allows(value):
        raise ParameterError(f"{name} must be {rule}: got {value!r}.{rule.hint(value)}")


def _low(low: float, is_open: bool) -> str:
    if is_open:
        return f" above {low:g}"
    return f", {low:g} or more" if low == 0 else f" of at least {low:g}"


def check_float_type(dtype: DTypeLike) -> type[np.float32 | np.float64]:
    """The type of numbers to read, float64 or float32; raises `ParameterError` for others."""
    if np.dtype(dtype) not in (np.float64, np.float32):
        raise ParameterError(f"dtype must be float64 or float32: got {np.dtype(dtype)}.")
    return np.float64 if np.dtype(dtype) == np.float64 else np.float32


def check_alphas(alphas: Any) -> NDArray[np.float64]:
    """Regularization strengths as an array, of length 1 for a single number."""
    values = np.asarray(alphas) if np.ndim(alphas) else np.asarray([alphas])
    if values.ndim != 1 or len(values) == 0:
        raise ParameterError(f"alphas must be a non-empty list of numbers: got {alphas!r}.")
    for alpha in values.tolist():
        check_value("alpha", alpha, Number(0))
    return values.astype(np.float64)


def as_generator(random_state: Any) -> np.random.Generator:
    """A random generator from any seed that NumPy or scikit-learn accepts."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ParameterError(
            f"random_state must be None, an integer of at least 0, or a generator: got "
            f"{random_state!r}."
        ) from None


def default_parameters(cls: type) -> dict[str, Any]:
    """The parameters of an estimator that have defaults, and the defaults.

    Examples
    --------
    >>> from rankwise import RankSVM
    >>> default_parameters(RankSVM)["tol"]
    1e-06
    """
    found = signature(cls).parameters.items()
    return {name: p.default for name, p in found if p.default is not Parameter.empty}


class OptionsMixin:
    """Nested parameters, such as ``options__tol``, of estimators that hold options objects.

    Options are frozen dataclasses. An estimator declares the class of each parameter that holds
    options; the value None means the default options::

        option_classes = {"options": GPOptions}

    `get_params`, `set_params` and searches then reach single options. Names under which options
    were parameters of the estimator in earlier versions are `former_names`, if they differ.
    """

    option_classes: ClassVar[dict[str, Any]] = {}
    former_names: ClassVar[dict[str, str]] = {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, and single options as ``parameter__option`` if `deep`."""
        found: dict[str, Any] = super().get_params(deep=deep)  # type: ignore[misc]
        for name, options_class in self.option_classes.items():
            options = options_class() if found[name] is None else found[name]
            if deep and isinstance(options, options_class):
                found |= {f"{name}__{f.name}": getattr(options, f.name) for f in fields(options)}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``parameter__option`` replaces a single option."""
        for name, options_class in self.option_classes.items():
            nested = [key for key in params if key.startswith(f"{name}__")]
            changes = {key.removeprefix(f"{name}__"): params.pop(key) for key in nested}
            names = [field.name for field in fields(options_class)]
            for option in changes:
                check_value(f"An option of {name}", option, Choice(*names))
            if changes:
                options = params.get(name, getattr(self, name))
                params[name] = replace(options_class() if options is None else options, **changes)
        return super().set_params(**params)  # type: ignore[misc, no-any-return]

    def options_in(self, name: str) -> Any:
        """The options that a parameter holds, or the default options."""
        options = getattr(self, name)
        options_class = self.option_classes[name]
        if options is not None and not isinstance(options, options_class):
            raise ParameterError(
                f"{name} must be {options_class.__name__}(...) or None: got {options!r}."
            )
        return options_class() if options is None else options

    @classmethod
    def place_of(cls, name: str) -> tuple[str, str] | None:
        """The parameter and the option that an earlier parameter has become, or None."""
        option = cls.former_names.get(name, name)
        for parameter, options_class in cls.option_classes.items():
            if any(field.name == option for field in fields(options_class)):
                return parameter, option
        return None

    @classmethod
    def advice_for(cls, name: str) -> str:
        """How to pass an earlier parameter that has become an option, or an empty string."""
        place = cls.place_of(name)
        if place is None:
            return ""
        parameter, option = place
        return f"Use {parameter}={cls.option_classes[parameter].__name__}({option}=...)."

    @classmethod
    def upgraded_parameters(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        """Parameters from a model file, some of which may have become options since."""
        now: dict[str, Any] = {}
        moved: dict[str, dict[str, Any]] = {}
        current = signature(cls).parameters
        for name, value in parameters.items():
            place = None if name in current else cls.place_of(name)
            if place is None:
                now[name] = value
            else:
                moved.setdefault(place[0], {})[place[1]] = value
        for name, values in moved.items():
            options = cls.option_classes[name](**values)
            now[name] = None if options == cls.option_classes[name]() else options
        return now
