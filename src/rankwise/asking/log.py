"""The log of a session, and the state that follows from its entries.

Entries are added and never changed, in memory or in a file. They determine items, raters, and the
answers that count.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import RLock
from typing import Any

from rankwise.asking.goals import Goal, Pair, pair
from rankwise.asking.item_model import Comparison
from rankwise.asking.items import Item
from rankwise.errors import DataError, RankwiseError

_APPLICATION = 0x726B6173  # "rkas": what SQLite keeps in the header of the file
_FORMAT = 2  # 2: entries of items may change or remove known ones
_TABLES = (
    """CREATE TABLE log (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        time REAL NOT NULL,
        kind TEXT NOT NULL,
        token TEXT UNIQUE,
        body TEXT NOT NULL
    )""",
    "CREATE TABLE files (name TEXT PRIMARY KEY, type TEXT NOT NULL, data BLOB NOT NULL)",
    """CREATE TRIGGER log_never_changes BEFORE UPDATE ON log
        BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END""",
    """CREATE TRIGGER log_never_shrinks BEFORE DELETE ON log
        BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END""",
)
OUTCOMES = ("first", "second", "tie", "both_bad")
_SELECT = "SELECT number, time, kind, token, body FROM log"


class SessionFileError(RankwiseError, OSError):
    """The file of a session cannot be used; nothing in it was changed.

    Examples
    --------
    >>> from rankwise.asking import SessionFileError
    >>> issubclass(SessionFileError, OSError)
    True
    """


class NotSavedError(RankwiseError, OSError):
    """An answer could not be saved, and does not count.

    Examples
    --------
    >>> from rankwise.asking import NotSavedError
    >>> issubclass(NotSavedError, OSError)
    True
    """


@dataclass(frozen=True)
class Entry:
    """One entry of the log."""

    number: int
    time: float  # seconds since 1970, by the clock of the machine, which may be set back
    kind: str
    token: str | None
    body: dict[str, Any]


class Log:
    """A log in one SQLite file; an entry is on the disk before `append` returns.

    The file is held by one program at a time. A file that is damaged is copied, and refused.

    Parameters
    ----------
    path : Path, optional
        Created if it does not exist. None: the log is in memory, and lasts as long as the program.
    clock : callable
        Returns the time of entries. Entries are ordered by their numbers, not by their times.
    """

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._lock = clock, RLock()
        self.path = Path(":memory:") if path is None else path
        self._created = path is not None and not path.exists()
        try:
            if path is not None:
                self._prepare(path)
            self._db = self._open()
        except sqlite3.DatabaseError as error:
            raise self._refusal(error) from error

    def _prepare(self, path: Path) -> None:
        """Create the file, or refuse it."""
        if not self._created and path.stat().st_size:
            if not os.access(path, os.W_OK):
                raise SessionFileError(
                    f"{path} cannot be written: answers could not be saved. Allow writing "
                    "(chmod u+w), or copy it to another place and use the copy."
                )
            self._check()
            return
        if not path.parent.is_dir():
            raise SessionFileError(f"There is no folder {path.parent} for {path.name}.")
        rest = _beside(path, "-wal")
        if rest.exists() and rest.stat().st_size:
            raise SessionFileError(
                f"{rest} holds answers of a session whose file {path} is gone or empty. "
                f"Restore {path} from a backup; or move {rest.name} away, to begin anew."
            )
        try:  # it holds the keys of links: only its owner may read it
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise SessionFileError(f"{path} cannot be created: {error.strerror}.") from error

    def _check(self) -> None:
        """Refuse a file that is damaged, or not a session; it is only read, so that it stays as is.

        A connection that could write would move the entries of the file "-wal" into a damaged one.
        """
        memory = _beside(self.path, "-shm")
        had_memory = memory.exists()
        address = f"{self.path.resolve().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True, timeout=2.0)) as db:
                (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
                (kind,), (version,) = (
                    db.execute(f"PRAGMA {what}").fetchone()
                    for what in ("application_id", "user_version")
                )
                empty = not _has_tables(db)
        finally:
            if not had_memory:
                memory.unlink(missing_ok=True)
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        if empty and kind == 0:  # a program was killed before it wrote the first entry
            return
        if kind != _APPLICATION or version > _FORMAT:
            why = "was not written by rankwise ask"
            if kind == _APPLICATION:
                why = f"has format {version}, and this rankwise knows formats up to {_FORMAT}"
            raise SessionFileError(f"{self.path} {why}. Choose another file.")

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=2.0)
        try:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN EXCLUSIVE")
            new = not _has_tables(db)
            if new:
                for statement in _TABLES:
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {_APPLICATION}")
            db.execute(f"PRAGMA user_version = {_FORMAT}")
            db.execute("COMMIT")
            if new:  # from now on, the file without its "-wal" is not taken for a new session
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            db.isolation_level = "IMMEDIATE"  # a statement that writes begins a transaction
        except BaseException:
            db.close()
            raise
        return db

    def _refusal(self, error: sqlite3.DatabaseError) -> SessionFileError:
        """The message about a file that SQLite cannot use; a damaged file is copied first."""
        words = " ".join(str(error).split())
        if "locked" in words or "busy" in words:
            return SessionFileError(
                f"{self.path} is in use by another rankwise ask. Use the page that it opened, or "
                "end it first."
            )
        if "readonly" in words or "unable to open" in words:
            return SessionFileError(
                f"{self.path} cannot be written ({words}): answers could not be saved. Check the "
                "permissions of the file and of its folder."
            )
        if "full" in words:
            return SessionFileError(f"The disk of {self.path} is full. Free some space first.")
        names = (_beside(self.path, f".damaged-{k}") for k in range(1, 1000))
        copy = next(name for name in names if not name.exists())
        copied = "It could not be copied"
        with suppress(OSError):
            shutil.copy2(self.path, copy)
            with suppress(FileNotFoundError):  # the last entries
                shutil.copy2(_beside(self.path, "-wal"), _beside(copy, "-wal"))
            copied = f"A copy is in {copy}"
        return SessionFileError(
            f"{self.path} is damaged ({words}), and was not opened. {copied}. Restore it from a "
            f"backup, or save what can be read: sqlite3 {copy.name} .recover | sqlite3 new.ask"
        )

    def entries(self, after: int = 0) -> list[Entry]:
        """All entries with larger numbers than `after`, in their order."""
        with self._lock:
            found = self._db.execute(f"{_SELECT} WHERE number > ? ORDER BY number", (after,))
            rows = found.fetchall()
        return [_entry(row) for row in rows]

    def append(self, kind: str, body: dict[str, Any], token: str | None = None) -> Entry:
        """Add an entry, or find the entry with this token. It is on the disk at the end."""
        text = json.dumps(body, ensure_ascii=False)
        with self._transaction():
            known = None if token is None else self.find(token)
            if known is not None:
                return known
            now = self._clock()
            added = self._db.execute(
                "INSERT INTO log (time, kind, token, body) VALUES (?, ?, ?, ?)",
                (now, kind, token, text),
            )
            number = added.lastrowid
        assert number is not None
        return Entry(number, now, kind, token, body)

    def find(self, token: str) -> Entry | None:
        """The entry with a token."""
        with self._lock:
            row = self._db.execute(f"{_SELECT} WHERE token = ?", (token,)).fetchone()
        return None if row is None else _entry(row)

    def put_file(self, data: bytes, media_type: str) -> str:
        """Keep a picture, named by its content."""
        name = hashlib.sha256(data).hexdigest()[:32]
        with self._transaction():
            self._db.execute(
                "INSERT OR IGNORE INTO files (name, type, data) VALUES (?, ?, ?)",
                (name, media_type, data),
            )
        return name

    def get_file(self, name: str) -> tuple[bytes, str] | None:
        """A picture and its type."""
        query = "SELECT data, type FROM files WHERE name = ?"
        with self._lock:
            row = self._db.execute(query, (name,)).fetchone()
        return None if row is None else (row[0], row[1])

    def take_files(self, other: Log, names: Iterable[str]) -> None:
        """Keep pictures that another log has."""
        for name in names:
            kept = other.get_file(name)
            if kept is not None:
                self.put_file(*kept)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def discard(self) -> None:
        """Close the file, and remove it if it is new: no session was started."""
        self.close()
        if self._created:
            self.path.unlink(missing_ok=True)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with self._lock, self._db:  # commits, or rolls back
                yield
        except sqlite3.DatabaseError as error:
            full = "full" in str(error)
            advice = "Free some space, then answer again." if full else "Try again."
            raise NotSavedError(
                f"This was not saved ({error}), and nothing else was lost. {advice}"
            ) from error


def is_session_file(path: Path) -> bool:
    """Whether a file begins like a session file."""
    with suppress(OSError), closing(path.open("rb")) as file:
        return file.read(16) == b"SQLite format 3\0"
    return False


def _entry(row: Any) -> Entry:
    number, when, kind, token, body = row
    try:
        return Entry(number, when, kind, token, json.loads(body))
    except json.JSONDecodeError as error:
        raise DataError(f"Entry {number} of the session is not JSON: {error}.") from error


def _has_tables(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master").fetchone() is not None


def _beside(path: Path, ending: str) -> Path:
    """A file next to a database, such as those that SQLite keeps."""
    return path.with_name(f"{path.name}{ending}")


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

    Examples
    --------
    >>> from rankwise.asking import Session
    >>> session = Session(["tea", "milk"])
    >>> answer = session.answer(session.ask().token, "tie")
    >>> answer.outcome, answer.rater, answer.withdrawn
    ('tie', 'me', False)
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
        self._numbers: dict[str, list[int]] = {}  # by rater: of answers and skips

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
                answer = Answer(entry.number, entry.time, **body)
                self.answers[answer.number] = answer
                self._numbers.setdefault(answer.rater, []).append(answer.number)
            case "withdraw":
                known = self.answers[body["answer"]]
                self.answers[known.number] = replace(known, withdrawn=True)
            case "change":
                known, new = self.answers[body["answer"]], {"outcome": body["outcome"]}
                self.answers[known.number] = replace(known, **new, withdrawn=False, changed=True)
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
        return next(self.of_rater(rater), None)

    def of_rater(self, rater: str) -> Iterator[Answer]:
        """The answers and skips of a rater that stand, the last first."""
        known = (self.answers[number] for number in reversed(self._numbers.get(rater, ())))
        return filter(self._stands, known)

    def n_answers(self, rater: str | None = None) -> int:
        """How many answers count, of all raters or of one."""
        names = self.raters if rater is None else self.raters.keys() & {rater}
        kept = [name for name in names if not self.raters[name].dropped]
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
