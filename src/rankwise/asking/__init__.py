"""Asking people which of two items is better, until the ranking is good enough."""

from rankwise.asking.background import Background
from rankwise.asking.goals import Goal, Progress
from rankwise.asking.items import Item, ItemChanges
from rankwise.asking.log import Answer, NotSavedError, SessionFileError
from rankwise.asking.session import Question, Refused, Session
from rankwise.asking.standings import Ranking, RaterReport

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
