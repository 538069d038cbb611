"""What the entries of a log add up to: items, raters, answers that count."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from rankwise.asking.goals import Goal
from rankwise.asking.item_model import Comparison
from rankwise.asking.items import Item
from rankwise.asking.log import Entry
from rankwise.asking.pair_choice import Pair, pair

OUTCOMES = ("first", "second", "tie", "both_bad")


@dataclass(frozen=True)
class Answer:
    """What a rater said about two items; `first` was on the left.

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
        Whether the outcome is another than at first.
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

    def to_json(self) -> dict[str, Any]:
        goal = self.goal
        return {
            "question": self.question,
            "advice": self.advice,
            "both_bad": self.both_bad,
            "goal": {"kind": goal.kind, "k": goal.k, "wrong": goal.wrong, "sure": goal.sure},
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Settings:
        return cls(**{**values, "goal": Goal(**values["goal"])})


class Ledger:
    """The state of a session: a function of its entries, applied one after the other."""

    def __init__(self) -> None:
        self.version = 0  # number of the last entry
        self.secret = ""
        self.settings = Settings()
        self.items: list[Item] = []
        self.number: dict[str, int] = {}
        self.raters: dict[str, Rater] = {}
        self.answers: dict[int, Answer] = {}  # with skips, by the numbers of their entries
        self.paused = False

    def apply(self, entry: Entry) -> None:
        """Add an entry."""
        getattr(self, f"_{entry.kind}")(entry, entry.body)
        self.version = entry.number

    def comparisons(self) -> dict[int, Comparison]:
        """The answers that count, by their numbers."""
        return {
            a.number: Comparison(self.number[a.first], self.number[a.second], a.outcome, a.rater)
            for a in self.answers.values()
            if a.outcome != "skip" and self._counts(a)
        }

    def skips(self) -> dict[Pair, int]:
        """How often pairs were skipped."""
        counts: dict[Pair, int] = {}
        for a in self.answers.values():
            if a.outcome == "skip" and self._counts(a):
                key = self.pair_of(a)
                counts[key] = counts.get(key, 0) + 1
        return counts

    def last(self, rater: str) -> Answer | None:
        """The last answer or skip of a rater that was not withdrawn."""
        return next((a for a in reversed(self.answers.values()) if _is_of(a, rater)), None)

    def of_rater(self, rater: str) -> list[Answer]:
        """The answers and skips of a rater that were not withdrawn, the last first."""
        return [a for a in reversed(self.answers.values()) if _is_of(a, rater)]

    def pair_of(self, answer: Answer) -> Pair:
        """The numbers of its items, the smaller first."""
        return pair(self.number[answer.first], self.number[answer.second])

    def _counts(self, answer: Answer) -> bool:
        return not answer.withdrawn and not self.raters[answer.rater].dropped

    def _session(self, entry: Entry, body: dict[str, Any]) -> None:
        self.secret = body["secret"]

    def _settings(self, entry: Entry, body: dict[str, Any]) -> None:
        self.settings = Settings.from_json(body)

    def _items(self, entry: Entry, body: dict[str, Any]) -> None:
        for values in body["items"]:
            item = Item.from_json(values)
            self.number[item.id] = len(self.items)
            self.items.append(item)

    def _rater(self, entry: Entry, body: dict[str, Any]) -> None:
        self.raters[body["name"]] = Rater(body["name"], body["key"])

    def _answer(self, entry: Entry, body: dict[str, Any]) -> None:
        self.answers[entry.number] = Answer(entry.number, entry.time, **body)

    def _withdraw(self, entry: Entry, body: dict[str, Any]) -> None:
        number = body["answer"]
        self.answers[number] = replace(self.answers[number], withdrawn=True)

    def _change(self, entry: Entry, body: dict[str, Any]) -> None:
        number = body["answer"]
        self.answers[number] = replace(
            self.answers[number], outcome=body["outcome"], withdrawn=False, changed=True
        )

    def _drop(self, entry: Entry, body: dict[str, Any]) -> None:
        self.raters[body["rater"]].dropped = body["dropped"]

    def _pause(self, entry: Entry, body: dict[str, Any]) -> None:
        self.paused = body["paused"]


def _is_of(answer: Answer, rater: str) -> bool:
    return answer.rater == rater and not answer.withdrawn
