"""The state that follows from the entries of a log: items, raters, answers that count."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field, replace
from typing import Any

from rankwise.asking.goals import Goal, Pair, pair
from rankwise.asking.item_model import Comparison
from rankwise.asking.items import Item
from rankwise.asking.log import Entry
from rankwise.errors import DataError

OUTCOMES = ("first", "second", "tie", "both_bad")


@dataclass(frozen=True)
class Answer:
    """A rater's answer about two items; `first` was on the left.

    Attributes
    ----------
    number : int
        Of its entry in the log.
    time : float
        Seconds since 1970.
    first, second : str
        Ids of the items.
    outcome : {"first", "second", "tie", "both_bad", "skip"}
    rater : str
    withdrawn : bool
        By an undo, or by the organizer.
    changed : bool
        Whether the outcome was changed later.
    """

    number: int
    time: float
    first: str
    second: str
    outcome: str
    rater: str
    withdrawn: bool = False
    changed: bool = False


@dataclass
class Rater:
    """Somebody who answers, with the key of a personal link."""

    name: str
    key: str
    dropped: bool = False


@dataclass(frozen=True)
class Settings:
    """What is asked, and until when."""

    question: str = "Which one is better?"
    advice: str = ""
    goal: Goal = field(default_factory=Goal)
    both_bad: bool = False

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Settings:
        return cls(**{**values, "goal": Goal(**values["goal"])})


class Ledger:
    """The state of a session: a function of its entries, applied one after the other."""

    def __init__(self) -> None:
        self.version = 0  # number of the last entry
        self.secret = ""
        self.settings = Settings()
        self.items: list[Item] = []  # without removed items
        self.number: dict[str, int] = {}  # of each of them, by id
        self.known: dict[str, Item] = {}  # with removed items
        self.of_table: set[str] = set()  # ids that came with a table, not one by one
        self.raters: dict[str, Rater] = {}
        self.answers: dict[int, Answer] = {}  # with skips, by the numbers of their entries
        self.paused = False
        self._standing: dict[str, list[int]] = {}  # by rater: answers and skips that stand

    def apply(self, entry: Entry) -> None:
        """Add an entry."""
        body = entry.body
        match entry.kind:
            case "session":
                self.secret = body["secret"]
            case "settings":
                self.settings = Settings.from_json(body)
            case "items":
                self._set_items(body)
            case "rater":
                self.raters[body["name"]] = Rater(body["name"], body["key"])
            case "answer":
                self._put(Answer(entry.number, entry.time, **body))
            case "withdraw":
                self._put(replace(self.answers[body["answer"]], withdrawn=True))
            case "change":
                known, outcome = self.answers[body["answer"]], body["outcome"]
                self._put(replace(known, outcome=outcome, withdrawn=False, changed=True))
            case "drop":
                self.raters[body["rater"]].dropped = body["dropped"]
            case "pause":
                self.paused = body["paused"]
            case kind:
                raise DataError(f"Entry {entry.number} of the session is of unknown kind {kind!r}.")
        self.version = entry.number

    def goal(self) -> Goal:
        """The goal, as it is for the present number of items."""
        return self.settings.goal.for_items(len(self.items))

    def counted(self) -> list[Answer]:
        """The answers that count, the first one first."""
        return [a for a in self.answers.values() if a.outcome != "skip" and self._counts(a)]

    def comparisons(self) -> dict[int, Comparison]:
        """The answers that count, by their numbers."""
        return {
            a.number: Comparison(self.number[a.first], self.number[a.second], a.outcome, a.rater)
            for a in self.counted()
        }

    def skips(self) -> dict[Pair, int]:
        """How often pairs were skipped."""
        counts: dict[Pair, int] = {}
        for a in self.answers.values():
            if a.outcome == "skip" and self._counts(a):
                key = self.pair_of(a.first, a.second)
                counts[key] = counts.get(key, 0) + 1
        return counts

    def last(self, rater: str) -> Answer | None:
        """The last answer or skip of a rater that stands."""
        numbers = self._standing.get(rater)
        return self.answers[numbers[-1]] if numbers else None

    def of_rater(self, rater: str) -> list[Answer]:
        """The answers and skips of a rater that stand, the last first."""
        return [self.answers[number] for number in reversed(self._standing.get(rater, ()))]

    def n_answers(self, rater: str | None = None) -> int:
        """How many answers count, of all raters or of one."""
        names = self.raters if rater is None else (rater,)
        kept = [name for name in names if name in self.raters and not self.raters[name].dropped]
        return sum(a.outcome != "skip" for name in kept for a in self.of_rater(name))

    def pair_of(self, first: str, second: str) -> Pair:
        """The numbers of two items, the smaller first."""
        return pair(self.number[first], self.number[second])

    def _counts(self, answer: Answer) -> bool:
        return self._stands(answer) and not self.raters[answer.rater].dropped

    def _stands(self, answer: Answer) -> bool:
        """Whether an answer was not withdrawn, and both items are still asked about."""
        number = self.number
        return not answer.withdrawn and answer.first in number and answer.second in number

    def _set_items(self, body: dict[str, Any]) -> None:
        from_table = not self.known or body.get("table", False)
        removed = set(body.get("removed", ()))
        made = {values["id"]: Item.from_json(values) for values in body["items"]}
        kept = [made.get(item.id, item) for item in self.items if item.id not in removed]
        new = [item for name, item in made.items() if name not in self.number]
        if from_table:
            self.of_table |= set(made)
        else:
            self.of_table -= {item.id for item in new}
        self.known |= made
        self.items = [*kept, *new]
        self.number = {item.id: k for k, item in enumerate(self.items)}
        if self.answers:
            self._standing = {}
            for answer in self.answers.values():
                self._count(answer)

    def _put(self, answer: Answer) -> None:
        """Keep an answer, or its new state, and count it."""
        before = self.answers.get(answer.number)
        if before is not None and self._stands(before):
            self._standing[answer.rater].remove(answer.number)
        self.answers[answer.number] = answer
        self._count(answer)

    def _count(self, answer: Answer) -> None:
        if self._stands(answer):
            insort(self._standing.setdefault(answer.rater, []), answer.number)
