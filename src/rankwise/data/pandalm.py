"""PandaLM's test set: rows with the verdicts of several annotators."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from rankwise.data.tables.records import Columns
from rankwise.errors import DataError

KEY = "cmp_key"  # the names of both models, with "_" between them
ANNOTATOR = re.compile(r"annotator\d+")
WINNERS = {"0": "tie", "1": "model_a", "2": "model_b"}


def annotators(columns: Columns) -> list[str]:
    """The columns of verdicts; empty if this is not a table of PandaLM."""
    return [name for name in columns if ANNOTATOR.fullmatch(name)] if KEY in columns else []


def one_row_per_verdict(columns: Columns, where: Callable[[int], str]) -> Columns:
    """The same as battles of arenas: a row for each annotator of each row.

    New columns are ``model_a``, ``model_b``, ``winner``, ``annotator``, ``prompt`` (instruction and
    input), and, if there are responses, ``words_a`` and ``words_b``.
    """
    names = annotators(columns)
    n = len(columns[KEY])
    made: Columns = {
        name: [value for value in values for _ in names]
        for name, values in columns.items()
        if name not in names
    }
    pairs = [_models(key, k, where) for k, key in enumerate(columns[KEY]) for _ in names]
    made["model_a"], made["model_b"] = ([pair[side] for pair in pairs] for side in (0, 1))
    made["winner"] = [_winner(columns[name][k], name, k, where) for k in range(n) for name in names]
    made["annotator"] = names * n
    texts = [name for name in ("instruction", "input") if name in columns]
    if texts:
        made["prompt"] = [
            "\n".join(map(str, row)) for row in zip(*map(made.get, texts), strict=True)
        ]
    for name, side in (("response1", "a"), ("response2", "b")):
        if name in columns:
            made[f"words_{side}"] = [len(str(text or "").split()) for text in made[name]]
    return made


def _models(key: Any, row: int, where: Callable[[int], str]) -> tuple[str, str]:
    parts = str(key).split("_")
    if len(parts) != 2:
        raise DataError(
            f'{where(row)}: {KEY} must be two names of models with "_" between them: got {key!r}.'
        )
    return parts[0], parts[1]


def _winner(value: Any, name: str, row: int, where: Callable[[int], str]) -> str | None:
    if value is None or value == "":
        return None
    word = WINNERS.get(str(value).strip().removesuffix(".0"))
    if word is None:
        raise DataError(f"{where(row)}: {name} must be 1, 2 or 0 for a tie: got {value!r}.")
    return word
