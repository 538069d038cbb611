"""A session: asks which of two items is better until the ranking is good enough."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Condition, RLock
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rankwise.asking.goals import Goal, Pair, Progress, close_pair
from rankwise.asking.item_model import MANY, ItemModel, model_of
from rankwise.asking.items import Item, ItemChanges, check_items, check_text
from rankwise.asking.log import OUTCOMES, Answer, Entry, Ledger, Log, Rater, Settings
from rankwise.asking.standings import Ranking, RaterReport, RunningFit, Standing
from rankwise.errors import DataError, ParameterError
from rankwise.graph.query_groups import is_missing
from rankwise.parameters import Choice, Number, check_value

if TYPE_CHECKING:
    from rankwise.asking.background import Background
    from rankwise.estimators.pair_strategies import PairStrategy

_HELD = 600.0  # seconds for which a pair that was shown is not shown to others
_RECENT = 20  # last questions of a rater, which are not asked again
_QUEUE = 16, 400  # pairs that are chosen ahead: for one rater, and at most


class Refused(ParameterError):
    """A request to a session is not possible now; the message explains why.

    Examples
    --------
    >>> from rankwise.asking import Refused
    >>> issubclass(Refused, ValueError)
    True
    """


class AlreadyAnswered(Refused):
    """A question has a different answer already, which is kept."""


def signature(key: str, kind: str, text: str) -> str:
    """A signature that only the owner of the key can make.

    Each kind of signature has a different key: a signature for a cookie is never valid for a
    question, whatever the two texts are.

    Examples
    --------
    >>> from rankwise.asking.session import signature
    >>> signature("00ff", "cookie", "rater0") == signature("00ff", "question", "rater0")
    False
    """
    own = hmac.digest(bytes.fromhex(key), kind.encode(), "sha256")
    return hmac.new(own, _bytes(text), hashlib.sha256).hexdigest()[:32]


def rater_name(given: Any) -> str:
    """The name of a rater as a session keeps it: with one space between words.

    Examples
    --------
    >>> from rankwise.asking.session import rater_name
    >>> rater_name(" Ann  Bee")
    'Ann Bee'
    """
    if is_missing(given):
        raise Refused(f"A rater needs a name of 1 to 80 letters: got {given!r}.")
    name = " ".join(str(given).split())
    if not 1 <= len(name) <= 80:
        raise Refused("The name of a rater needs 1 to 80 letters.")
    check_text("The name of a rater", name)
    return name


def same(one: str, two: str) -> bool:
    """Whether two texts are equal, in a time that does not reveal where they differ."""
    return hmac.compare_digest(_bytes(one), _bytes(two))


def _bytes(text: str) -> bytes:
    """Text as bytes, even if JSON made it of halves of letters (surrogates)."""
    return text.encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class Question:
    """Two items to compare.

    Attributes
    ----------
    token : str
        Names this question: an answer counts once, however often it is sent.
    first, second : Item
        To be shown on the left and on the right.
    rater : str

    Examples
    --------
    >>> from rankwise.asking import Session
    >>> question = Session(["tea", "milk"]).ask()
    >>> sorted([question.first.id, question.second.id])
    ['milk', 'tea']
    """

    token: str
    first: Item
    second: Item
    rater: str


class Session:
    """Ranks items by asking which of two is better, as few times as possible.

    A Gaussian process (`PairwiseGP`) learns the scores of the items. Everything that happens is an
    entry of a log that only grows: an undo or a change is a new entry. The ranking is a function of
    the answers that count; their order does not matter.

    Methods may be called from several threads.

    Parameters
    ----------
    items : iterable of str or Item, optional
        What to rank. None: the items of the file at `path`. If that file exists, new items are
        added, and known items are shown as given here; see `set_items`.
    features : array-like of shape (n_items, n_features), optional
        What scores may depend on, such as measurements or embeddings. Each score also has a part
        that does not depend on them.
    goal : Goal, optional
        When to stop; by default, the whole order with at most 5% of pairs wrong.
    question : str, optional
        What to ask; by default "Which one is better?".
    advice : str, optional
        Criteria, shown below the question.
    both_bad : bool, optional
        Whether "both are bad" is an answer; it counts as a tie.
    strategy : {"goal", "bald", "eubo", "thompson", "random"} or object, default="goal"
        Which pair is next. "goal": the pair whose answer helps most to reach the goal. The others
        are the strategies of `PairwiseGP.suggest_pair`, which also accepts objects.
    path : path-like, optional
        A file that keeps the log. None: in memory only.
    log : rankwise.asking.log.Log, optional
        Keeps the log in place of `path`.

    Examples
    --------
    >>> from rankwise.asking import Goal, Session
    >>> session = Session(["ant", "bee", "cow", "dog", "elk"], goal=Goal("top"))
    >>> for _ in range(12):
    ...     question = session.ask()
    ...     larger = max(question.first.id, question.second.id)  # by the alphabet
    ...     outcome = "first" if question.first.id == larger else "second"
    ...     answer = session.answer(question.token, outcome)
    >>> session.ranking().items[0]
    'elk'
    """

    def __init__(
        self,
        items: Iterable[Any] | None = None,
        *,
        features: Any = None,
        goal: Goal | None = None,
        question: str | None = None,
        advice: str | None = None,
        both_bad: bool | None = None,
        strategy: str | PairStrategy = "goal",
        path: Any = None,
        log: Log | None = None,
    ) -> None:
        if features is not None and items is None:
            raise ParameterError("features need items.")
        if path is not None and log is not None:
            raise ParameterError("Give path or log, not both: each defines where answers are kept.")
        if strategy != "goal":
            from rankwise.estimators.pair_strategies import STRATEGIES

            if not callable(getattr(strategy, "choose", None)):
                check_value("strategy", strategy, Choice("goal", *STRATEGIES))
        self.strategy = strategy
        made = None if items is None else check_items(items, features)
        if log is None:
            log = Log() if path is None else Log(Path(path))
        self.log = log
        self._lock = RLock()
        self.changed = Condition(self._lock)  # notified of every new entry
        self._ledger = Ledger()
        self._open: dict[str, tuple[Question, float]] = {}  # by rater, with the time it was shown
        self._fit = RunningFit()
        self._ranking: tuple[Standing, float, Ranking] | None = None
        self._background: Background | None = None
        try:
            for entry in log.entries():
                self._ledger.apply(entry)
            self._begin(made)
            self.configure(goal=goal, question=question, advice=advice, both_bad=both_bad)
            self._standing = Standing.unknown(self._ledger)
        except BaseException:
            log.discard()
            raise

    def _begin(self, made: list[Item] | None) -> None:
        if not self._ledger.items:
            if made is None or len(made) < 2:
                count = "no items" if not made else "1 item"
                raise DataError(f"A session needs two or more items to compare: got {count}.")
            if not self._ledger.secret:
                self._append("session", {"secret": secrets.token_hex(32)})
            self._append("items", {"items": [asdict(item) for item in made]})
        elif made is not None:
            self.set_items(made, complete=False)

    def configure(
        self,
        *,
        goal: Goal | None = None,
        question: str | None = None,
        advice: str | None = None,
        both_bad: bool | None = None,
    ) -> None:
        """Change what is asked, and until when; None: no change."""
        values = {"goal": goal, "question": question, "advice": advice, "both_bad": both_bad}
        given: Any = {name: value for name, value in values.items() if value is not None}
        for name in ("question", "advice"):
            check_text(name, given.get(name, ""))
        with self._lock:
            if goal is not None:
                if not isinstance(goal, Goal):
                    raise ParameterError(f'goal must be a Goal, such as Goal("top"): got {goal!r}.')
                goal.check_items(len(self._ledger.items))
            settings = replace(self.settings, **given)
            if settings != self.settings:
                self._append("settings", asdict(settings))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # What is known

    @property
    def settings(self) -> Settings:
        """Question, advice, goal, and whether "both are bad" is an answer."""
        return self._ledger.settings

    @property
    def items(self) -> list[Item]:
        """All items, in the order in which they were added."""
        with self._lock:
            return list(self._ledger.items)

    @property
    def raters(self) -> list[Rater]:
        """All raters, in the order in which they joined."""
        with self._lock:
            return [replace(rater) for rater in self._ledger.raters.values()]

    @property
    def answers(self) -> list[Answer]:
        """All answers and skips, withdrawn ones too, the first one first."""
        with self._lock:
            return list(self._ledger.answers.values())

    def counted(self) -> list[Answer]:
        """The answers that count, the first one first."""
        with self._lock:
            return self._ledger.counted()

    @property
    def paused(self) -> bool:
        """Whether nothing is asked at present."""
        return self._ledger.paused

    @property
    def version(self) -> int:
        """The number of the last entry."""
        return self._ledger.version

    def n_answers(self, rater: str | None = None) -> int:
        """How many answers count, of all raters or of one."""
        rater = None if rater is None else rater_name(rater)
        with self._lock:
            return self._ledger.n_answers(rater)

    def progress(self) -> Progress:
        """The progress towards the goal, and about how many answers are left."""
        self.update()
        return self._standing.progress

    def ranking(self, *, level: float = 0.9) -> Ranking:
        """The ranking; exact, or the last one that a background computed."""
        check_value("level", level, Number(0, 1, open_low=True, open_high=True))
        if self._background is None:
            self.settle()
        with self._lock:
            standing, kept = self._standing, self._ranking
            if kept is not None and kept[0] is standing and kept[1] == level:
                return kept[2]
            ids = [item.id for item in self._ledger.items[: len(standing.scores.mean)]]
            pairs = [(c.first, c.second) for c in self._ledger.comparisons().values()]
            goal = self.settings.goal
        numbers = np.array(pairs, dtype=np.intp).ravel()
        counts = np.bincount(numbers[numbers < len(ids)], minlength=len(ids))
        k = goal.k if goal.kind == "top" else 10
        k = k if k < len(ids) else 1  # all items are among the first of all
        made = Ranking.of(ids, standing.scores, counts, k=k, level=level)
        with self._lock:
            self._ranking = standing, level, made
        return made

    def rater_reports(self) -> list[RaterReport]:
        """Answers, slips and agreement of each rater.

        If a background computes, these are the reports of its last fit from scratch.
        """
        if self._background is None:
            self.settle()
        return self._standing.reports

    def fit(self) -> tuple[ItemModel, int]:
        """A model fitted from scratch to all answers that count, and its last entry."""
        if len(self.items) > MANY:
            raise Refused(
                f"There is a model file for at most {MANY} items. The scores of more are in the "
                "ranking."
            )
        if self._background is not None:
            return self._background.settle()
        with self._lock:
            model = model_of(self._ledger.items)
            assert isinstance(model, ItemModel)
            return model.fit(list(self._ledger.comparisons().values())), self.version

    # Asking

    def ask(self, rater: str = "me") -> Question | None:
        """The next question for a rater; the present one again if it was not answered.

        None if the rater has skipped all pairs, or if the session is paused.
        """
        with self._lock:
            rater = self._admit(rater)
            if self._ledger.paused:
                return None
            now, held = time.monotonic(), self._open.get(rater)
            if held is not None and now - held[1] < _HELD:
                return held[0]
            self.update()
            chosen = self._choose(rater, now)
            if chosen is None:
                return None
            i, j = chosen if secrets.randbelow(2) else chosen[::-1]
            return self._show(rater, self._ledger.items[i], self._ledger.items[j])

    def answer(self, token: str, outcome: str, *, rater: str | None = None) -> Answer:
        """Save an answer to a question: "first", "second", "tie", "both_bad" or "skip".

        It is on the disk when this returns. The same answer to the same question again changes
        nothing; another answer to it is refused.
        """
        allowed = [o for o in OUTCOMES if o != "both_bad" or self.settings.both_bad]
        check_value("outcome", outcome, Choice(*allowed, "skip"))
        who, first, second = self._read_token(token)
        if rater is not None and rater_name(rater) != who:
            raise Refused("This question was for another rater.")
        with self._lock:
            known = self.log.find(token)
            if known is None:
                self._admit(who)
                body = {"first": first, "second": second, "outcome": outcome, "rater": who}
                known = self._append("answer", body, token)
            elif known.body["outcome"] != outcome:
                raise AlreadyAnswered(
                    "This question was answered already, and its answer stays as it is. Undo takes "
                    "your last answer back."
                )
            held = self._open.get(who)
            if held is not None and held[0].token == token:
                del self._open[who]
            return self._ledger.answers[known.number]

    def skip(self, token: str) -> Answer:
        """Leave a question out; its pair is asked less often from now on."""
        return self.answer(token, "skip")

    def undo(self, rater: str = "me") -> Question:
        """Withdraw the last answer or skip of a rater, and ask the same question again."""
        with self._lock:
            rater = self._admit(rater)
            last = self._ledger.last(rater)
            if last is None:
                raise Refused("There is no answer to undo.")
            self._append("withdraw", {"answer": last.number, "by": rater})
            return self._show(rater, *(self._ledger.known[i] for i in (last.first, last.second)))

    def can_undo(self, rater: str = "me") -> bool:
        """Whether a rater has an answer or skip to undo."""
        name = rater_name(rater)
        with self._lock:
            return self._ledger.last(name) is not None

    # For the organizer

    def add_rater(self, name: str) -> Rater:
        """A new rater with a personal key, or the existing rater of this name."""
        name = rater_name(name)
        with self._lock:
            if name not in self._ledger.raters:
                self._append("rater", {"name": name, "key": secrets.token_urlsafe(24)})
            return self._ledger.raters[name]

    def add_items(self, items: Iterable[Any], *, features: Any = None) -> None:
        """Add items to a running session."""
        made = check_items(items, features)
        with self._lock:
            for item in made:
                if item.id in self._ledger.number:
                    raise DataError(f"There is an item {item.id!r} already.")
            check_items([*self._ledger.items, *made])
            self.set_items(made, complete=False)

    def set_items(
        self, items: Iterable[Any], *, features: Any = None, complete: bool = True
    ) -> ItemChanges:
        """Continue with the items of an edited table.

        New items are asked about. Known items are shown as given here, and their answers still
        count.

        Parameters
        ----------
        items : iterable of str or Item
        features : array-like of shape (n_items, n_features), optional
            None, and none in `items`: known items keep their features.
        complete : bool, default=True
            Whether to remove items that are not given, except items from `add_items`. Answers about
            removed items stay in the log, and count again when the items are back.

        Returns
        -------
        ItemChanges
            What differs, to show to the user.
        """
        made = check_items(items, features)
        with self._lock:
            known, present = self._ledger.known, self._ledger.number
            if complete and not any(item.id in known for item in made):
                raise DataError(
                    f"None of these {len(made)} items is in the session, which has "
                    f"{next(iter(known))!r} and others. Give its own table, or another session."
                )
            if not any(item.features for item in made):
                made = [replace(item, features=known.get(item.id, item).features) for item in made]
            given = {item.id for item in made}
            others = [item for item in self._ledger.items if item.id not in given]
            table = self._ledger.of_table
            removed = {item.id for item in others if complete and item.id in table}
            kept = [item for item in others if item.id not in removed]
            if len(made) + len(kept) < 2:
                raise DataError("A session needs two or more items to compare: got 1 item.")
            check_items([*made, *kept])
            lost = sum(a.first in removed or a.second in removed for a in self._ledger.counted())
            changes = ItemChanges.of(known, present, made, sorted(removed), lost)
            new = [
                asdict(item)
                for item in made
                if item != known.get(item.id)
                or item.id not in present
                or (complete and item.id not in table)
            ]
            if new or removed:
                body = {"items": new, "removed": changes.removed, "table": complete}
                self._append("items", body)
                if removed:  # others have other numbers now
                    self._standing = Standing.unknown(self._ledger)
                for rater, (question, _) in list(self._open.items()):
                    if removed & {question.first.id, question.second.id}:
                        del self._open[rater]
            return changes

    def withdraw(self, number: int) -> None:
        """Withdraw an answer, given its number."""
        with self._lock:
            if not self._known(number).withdrawn:
                self._append("withdraw", {"answer": number, "by": "organizer"})

    def change(self, number: int, outcome: str) -> None:
        """Change the outcome of an answer, given its number; a withdrawn one counts again."""
        check_value("outcome", outcome, Choice(*OUTCOMES))
        with self._lock:
            known = self._known(number)
            if known.outcome != outcome or known.withdrawn:
                self._append("change", {"answer": number, "outcome": outcome, "by": "organizer"})

    def drop_rater(self, name: str, *, dropped: bool = True) -> None:
        """Leave out all answers of a rater, who is no longer asked; or include them again."""
        name = rater_name(name)
        with self._lock:
            if name not in self._ledger.raters:
                raise Refused(f"There is no rater {name!r}.")
            if self._ledger.raters[name].dropped != dropped:
                self._append("drop", {"rater": name, "dropped": dropped})
                self._open.pop(name, None)

    def pause(self, paused: bool = True) -> None:
        """Ask nothing until the session goes on; answers to open questions still count."""
        with self._lock:
            if self._ledger.paused != paused:
                self._append("pause", {"paused": paused})

    # Computing

    def update(self) -> bool:
        """Bring the posterior and the next questions up to date; returns whether anything changed.

        A few new answers update the posterior at the present hyperparameters. Withdrawn and
        changed answers, new items, and a fifth more answers need a new fit. A background does all
        this by itself, and nothing is done here.
        """
        return self._background is None and self._compute(exactly=False)

    def settle(self) -> bool:
        """Bring the posterior to a fit from scratch; returns whether there was anything to do."""
        if self._background is None:
            return self._compute(exactly=True)
        if self._is_current(exactly=True):
            return False
        self._background.settle()
        return True

    def _compute(self, *, exactly: bool) -> bool:
        with self._lock:
            if self._is_current(exactly=exactly):
                return False
            given: Any = {"exactly": exactly, "strategy": self.strategy}
            self.publish(self._fit.standing(self._ledger, *self.looked_at(), **given))
            return True

    def _is_current(self, *, exactly: bool) -> bool:
        """Whether the present standing is of the last entry, and by a fit from scratch."""
        with self._lock:
            made = self._standing
            known = made.progress.known and made.version == self.version
            return known and (made.exact or not exactly)

    def looked_at(self) -> tuple[list[Pair], int]:
        """Pairs that raters are looking at, and how many to choose ahead."""
        with self._lock:
            held = [self._pair(question) for question, _ in self._open.values()]
        least, most = _QUEUE
        return held, min(most, max(least, 10 * len(held)))

    def publish(self, standing: Standing) -> bool:
        """Use a result, unless it is older than the present one; returns whether it was used.

        If items were removed meanwhile, the other items are renumbered.
        """
        with self._lock:
            if standing.version < self._standing.version:
                return False
            self._standing = standing
            return True

    def hand_over(self, background: Background | None) -> None:
        """Let a background compute from now on, without waiting; None: compute here."""
        with self._lock:
            self._background = background

    def _choose(self, rater: str, now: float) -> Pair | None:
        """A pair for a rater: a pair that was chosen ahead, or else a random close pair.

        Pairs that the rater skipped or answered recently are left out. So are pairs that others are
        looking at, unless nothing else can be asked.
        """
        mine = [(self._ledger.pair_of(a.first, a.second), a) for a in self._ledger.of_rater(rater)]
        skipped = {pair for pair, a in mine if a.outcome == "skip"}
        n = len(self._ledger.items)
        left = n * (n - 1) // 2 - len(skipped)
        recent = min(_RECENT, max(1, left // 3), max(0, left - 1))  # one pair is always left
        unwanted = skipped | {pair for pair, _ in mine[:recent]}
        held = {
            self._pair(question)
            for who, (question, shown) in self._open.items()
            if who != rater and now - shown < _HELD
        }
        queue = self._standing.queue
        for left_out in (unwanted | held, unwanted):
            ahead = next((pair for pair in queue if pair not in left_out), None)
            if ahead is not None:
                queue.remove(ahead)
                return ahead
            close = close_pair(self._standing.scores.mean, left_out, np.random.default_rng())
            if close is not None:
                return close
        return None

    def _show(self, rater: str, first: Item, second: Item) -> Question:
        token = self._make_token(rater, first.id, second.id)
        question = Question(token, first, second, rater)
        self._open[rater] = question, time.monotonic()
        return question

    def _make_token(self, rater: str, first: str, second: str) -> str:
        """A name for a question, made of numbers: it is understood after a restart as well."""
        known, who = list(self._ledger.known), list(self._ledger.raters).index(rater)
        text = f"{who}.{known.index(first)}.{known.index(second)}.{secrets.token_hex(8)}"
        return f"{text}.{self.sign('question', text)}"

    def _read_token(self, token: str) -> tuple[str, str, str]:
        """The rater and the items of a question."""
        text, _, signed = str(token).rpartition(".")
        if not same(self.sign("question", text), signed):
            raise Refused("This question was not asked here. Open the page again.")
        rater, first, second = map(int, text.split(".")[:3])
        with self._lock:
            known = list(self._ledger.known)
            return list(self._ledger.raters)[rater], known[first], known[second]

    def sign(self, kind: str, text: str = "") -> str:
        """A signature that requires the key of the session; see `signature`."""
        return signature(self._ledger.secret, kind, text)

    def _pair(self, question: Question) -> Pair:
        return self._ledger.pair_of(question.first.id, question.second.id)

    def _admit(self, name: str) -> str:
        """The name of a rater who may answer, as the session keeps it; a new rater is added."""
        rater = self.add_rater(name)
        if rater.dropped:
            raise Refused("The organizer has left out this rater.")
        return rater.name

    def _known(self, number: int) -> Answer:
        if number not in self._ledger.answers:
            raise Refused(f"There is no answer {number}.")
        return self._ledger.answers[number]

    def _append(self, kind: str, body: dict[str, Any], token: str | None = None) -> Entry:
        with self.changed:
            entry = self.log.append(kind, body, token)
            if entry.number > self.version:
                self._ledger.apply(entry)
                self.changed.notify_all()
            return entry
