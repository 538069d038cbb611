"""Errors for calls of `fit` as other libraries have it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])

# What other libraries call the queries of rows: sizes, or an id for each row.
SIZES = ("group", "group_sizes", "query_sizes")
IDS = ("groups", "group_id", "group_ids", "qids", "query", "query_id", "query_ids", "queries")


def explain_calls(method: Method) -> Method:
    """A method that says what to do if it is called with arguments that it does not have.

    Queries are often passed by position, as group sizes, or under another name.
    """
    accepted = signature(method)

    @wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            accepted.bind(self, *args, **kwargs)
        except TypeError:
            name = f"{type(self).__name__}.{method.__name__}"
            raise TypeError(f"{name} {_advice(accepted, args, kwargs)}") from None
        return method(self, *args, **kwargs)

    return checked  # type: ignore[return-value]


def _advice(accepted: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    parameters = list(accepted.parameters.values())[1:]
    names = [parameter.name for parameter in parameters]
    in_order = [p.name for p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    unknown = next((name for name in kwargs if name not in names), None)
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
    return f"needs {' and '.join(in_order)}, in this order, and nothing else by position."
