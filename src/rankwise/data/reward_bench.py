"""RewardBench 2: rows with several completions, of which the first ones are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rankwise.data.tables.records import Columns
from rankwise.errors import DataError

MODELS, RIGHT = "models", "num_correct"


def has_completions(columns: Columns) -> bool:
    """Whether this is a table of RewardBench 2."""
    return MODELS in columns and RIGHT in columns


def one_row_per_battle(columns: Columns, where: Callable[[int], str]) -> tuple[Columns, list[int]]:
    """The same as winners and losers, and the row from which each battle comes.

    Each model with a right completion beats each other model with a wrong one. New columns are
    ``chosen_model`` and ``rejected_model``.
    """
    battles = [
        (k, one, other)
        for k, (models, right) in enumerate(zip(columns[MODELS], columns[RIGHT], strict=True))
        for one, other in _battles(models, right, k, where)
    ]
    if not battles:
        raise DataError("No row has a right and a wrong completion of two different models.")
    rows = [k for k, _, _ in battles]
    made: Columns = {
        name: [values[k] for k in rows] for name, values in columns.items() if name != MODELS
    }
    made["chosen_model"] = [one for _, one, _ in battles]
    made["rejected_model"] = [other for _, _, other in battles]
    return made, rows


def _battles(
    models: Any, right: Any, row: int, where: Callable[[int], str]
) -> list[tuple[Any, Any]]:
    if not isinstance(models, list | tuple):
        raise DataError(
            f"{where(row)}: {MODELS} must be a list, with the model of each completion: "
            f"got {models!r}."
        )
    try:
        n = int(right)
    except (TypeError, ValueError):
        n = -1
    if not 0 <= n <= len(models):
        raise DataError(
            f"{where(row)}: {RIGHT} must be a number of the {len(models)} completions: "
            f"got {right!r}."
        )
    return [(one, other) for one in models[:n] for other in models[n:] if one != other]
