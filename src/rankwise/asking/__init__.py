"""Asking people which of two items is better, until the ranking is good enough."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankwise.asking.background import Background as Background
    from rankwise.asking.goals import Goal as Goal
    from rankwise.asking.goals import Progress as Progress
    from rankwise.asking.items import Item as Item
    from rankwise.asking.items import ItemChanges as ItemChanges
    from rankwise.asking.ledger import Answer as Answer
    from rankwise.asking.log import NotSavedError as NotSavedError
    from rankwise.asking.log import SessionFileError as SessionFileError
    from rankwise.asking.refused import Refused as Refused
    from rankwise.asking.session import Question as Question
    from rankwise.asking.session import Session as Session
    from rankwise.asking.standings import Ranking as Ranking
    from rankwise.asking.standings import RaterReport as RaterReport

# Names are imported when they are first used: the log alone needs none of the models.
_HOME = {
    "Answer": "ledger",
    "Background": "background",
    "Goal": "goals",
    "Item": "items",
    "ItemChanges": "items",
    "NotSavedError": "log",
    "Progress": "goals",
    "Question": "session",
    "Ranking": "standings",
    "RaterReport": "standings",
    "Refused": "refused",
    "Session": "session",
    "SessionFileError": "log",
}

__all__ = [
    "Answer",
    "Background",
    "Goal",
    "Item",
    "ItemChanges",
    "NotSavedError",
    "Progress",
    "Question",
    "Ranking",
    "RaterReport",
    "Refused",
    "Session",
    "SessionFileError",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
