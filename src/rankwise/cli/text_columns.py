"""Columns of text that a model encodes: new tables must have text there as well."""

from __future__ import annotations

from typing import Any

from rankwise.errors import DataError

SHOWN = 40  # characters of a text that a message shows


def check_text_columns(steps: Any, X: Any, where: Any) -> None:
    """Refuse numbers in the columns of a data frame from which the steps of a model encode text."""
    from sklearn.compose import ColumnTransformer

    parts = [
        part
        for _, step in steps
        if isinstance(step, ColumnTransformer)
        for part in step.transformers_
    ]
    numbers = set(X.select_dtypes("number").columns) if parts else ()
    for _, encoder, columns in parts:
        for name, example in _texts_of(encoder, columns).items():
            if name in numbers:
                raise DataError(
                    f"{where}: the column {name!r} has numbers, but the model was fitted to text "
                    f"there{example}. Check that the columns have the right names."
                )


def _texts_of(encoder: Any, columns: Any) -> dict[Any, str]:
    """The columns of text of an encoder, and an example of each, if it knows one."""
    from sklearn.feature_extraction.text import HashingVectorizer

    if isinstance(encoder, HashingVectorizer):
        return {columns: ""}
    known = dict(zip(columns, getattr(encoder, "categories_", ()), strict=False))
    texts = {name: values[0] for name, values in known.items() if isinstance(values[0], str)}
    return {name: f", such as {text[:SHOWN]!r}" for name, text in texts.items()}
