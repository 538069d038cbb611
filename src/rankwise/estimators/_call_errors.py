"""Errors for calls with the arguments of other libraries, or of other functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

from rankwise.parameters import OptionsMixin

Function = TypeVar("Function", bound=Callable[..., Any])

# What other libraries call the queries of rows: sizes, or an id for each row.
SIZES = ("group", "group_sizes", "query_sizes")
IDS = ("groups", "group_id", "group_ids", "qids", "query", "query_id", "query_ids", "queries")
METRIC = ("metric", "scoring")  # what a metric is called


def explain_calls(function: Function) -> Function:
    """A function or method that says what to do if it is called with arguments it does not have.

    Queries are often passed by position, as group sizes, or under another name.
    """
    accepted = signature(function)
    first = next(iter(accepted.parameters.values()), None)
    is_method = first is not None and first.name == "self"

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            accepted.bind(*args, **kwargs)
        except TypeError:
            called, parameters = function.__name__, list(accepted.parameters.values())
            moved = [name for name in kwargs if name not in accepted.parameters]
            options = isinstance(args[0], OptionsMixin) if is_method else False
            if options and moved and (place := args[0].place_of(moved[0])):
                raise TypeError(
                    f"{type(args[0]).__name__} has no {moved[0]}=: it is an option now. Use "
                    f"{place[0]}={args[0].option_classes[place[0]].__name__}({place[1]}=...)."
                ) from None
            if is_method:
                of_class = type(args[0]).__name__
                called = of_class if called == "__init__" else f"{of_class}.{called}"
                args, parameters = args[1:], parameters[1:]
            raise TypeError(f"{called} {_advice(parameters, args, kwargs)}") from None
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]


def _advice(parameters: list[Parameter], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    names = [parameter.name for parameter in parameters]
    in_order = [p.name for p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    unknown = next((name for name in kwargs if name not in names), None)
    if unknown in METRIC and (known := next((name for name in METRIC if name in names), None)):
        return f'has no {unknown}=: use {known}=, as in {known}="ndcg@10".'
    if "qid" in names and len(args) > len(in_order):
        listed = " and ".join(in_order)
        return f"takes {listed} by position. Use qid=, one id per row, for the queries of rows."
    if "qid" in names and unknown in SIZES:
        return (
            f"has no {unknown}=: use qid=, one id per row. From the sizes of adjacent queries: "
            f"qid=rankwise.data.qid_from_groups({unknown})."
        )
    if "qid" in names and unknown in IDS:
        return f"has no {unknown}=: use qid=, one id per row."
    if "qid" in names and unknown == "sample_weight":
        weights = ""
        if "query_weight" in names:
            weights = " To weight queries, use query_weight=, one weight per row."
        return (
            "has no sample_weight=: fit of RankRLS, RLS, SparseRankRLS, SparseRLS and RankSVM "
            f"takes weights of rows.{weights} To pass queries, use qid=, one id per row."
        )
    if unknown is not None:
        return f"has no {unknown}=. Its parameters are {', '.join(names)}."
    needed = [
        p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY and p.default is p.empty
    ]
    missing = [name for name in needed if name not in kwargs]
    if missing:
        return f"needs {missing[0]}=. Its parameters are {', '.join(names)}."
    return f"needs {' and '.join(in_order)}, in this order, and nothing else by position."
