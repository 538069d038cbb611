"""The log: nothing is lost, nothing is changed, and what cannot be used is refused in words."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import Mock

import pytest

from rankwise.asking import NotSavedError, Session, SessionFileError
from rankwise.asking.log import Log, is_session_file
from rankwise.errors import DataError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "session.ask"


@pytest.fixture(params=["memory", "file"])
def log(request, path):
    made = Log() if request.param == "memory" else Log(path)
    yield made
    made.close()


def test_an_entry_is_found_by_its_token_and_added_once(log):
    one = log.append("answer", {"outcome": "tie", "text": "ü ☃ \0"}, "token")
    assert log.append("answer", {"outcome": "first"}, "token") == one
    assert log.find("token") == one
    assert log.find("another") is None
    log.append("pause", {"paused": True})
    log.append("pause", {"paused": False})
    assert [entry.kind for entry in log.entries()] == ["answer", "pause", "pause"]
    assert log.entries()[0] == one
    name = log.put_file(b"picture", "image/png")
    assert log.put_file(b"picture", "image/png") == name
    assert log.get_file(name) == (b"picture", "image/png")
    assert log.get_file("../session.ask") is None


@pytest.mark.slow
@pytest.mark.parametrize("n_kills", [pytest.param(5, marks=pytest.mark.ci), 100])
def test_kill_9_in_the_middle_of_answers_loses_nothing(n_kills):
    script = Path(__file__).with_name("kill_writers.py")
    memory = Path("/dev/shm")  # quicker than a disk, and all the same to a process that is killed
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        command = [sys.executable, str(script), str(Path(folder, "session.ask")), str(n_kills)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    confirmed, lost, double = map(int, done.stdout.split())
    assert confirmed >= n_kills
    assert (lost, double) == (0, 0)


def test_the_log_is_never_changed(path):
    log = Log(path)
    log.append("pause", {"paused": True})
    for statement in ("UPDATE log SET kind = 'x'", "DELETE FROM log"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            log._db.execute(statement)
    log.close()
    assert path.stat().st_mode & 0o077 == 0  # it holds the keys of links


def test_a_full_disk_is_told_and_nothing_is_lost(path):
    with Session("abcdef", path=path) as session:
        session.update()
        session.hand_over(Mock())  # nothing is computed from here on
        (pages,) = session.log._db.execute("PRAGMA page_count").fetchone()
        session.log._db.execute(f"PRAGMA max_page_count = {pages}")

        def answer_until_full():
            for _ in range(1000):
                session.answer(session.ask().token, "tie")

        with pytest.raises(NotSavedError, match=r"was not saved .*full.*Free some space"):
            answer_until_full()
        n = session.n_answers()
        session.log._db.execute("PRAGMA max_page_count = 100000")
        session.answer(session.ask().token, "first")  # the same question again
        assert session.n_answers() == n + 1
    with Session(path=path) as session:
        assert session.n_answers() == n + 1


def test_a_file_that_became_read_only(path):
    with Session("ab", path=path) as session:
        question = session.ask()
        session.log._db.execute("PRAGMA query_only = 1")
        with pytest.raises(NotSavedError, match="readonly"):
            session.answer(question.token, "first")
        assert session.n_answers() == 0


def test_a_read_only_file_is_refused(path, monkeypatch):
    Session("ab", path=path).close()
    monkeypatch.setattr(os, "access", lambda *given: False)  # root may write to every file
    with pytest.raises(SessionFileError, match=r"cannot be written.*chmod"):
        Log(path)


@pytest.mark.parametrize("place", [0, 4096])
def test_a_damaged_file_is_refused_and_copied(path, place):
    with Session([f"item {k}" for k in range(200)], path=path):
        pass
    whole = bytearray(path.read_bytes())
    whole[place : place + 600] = os.urandom(600)
    path.write_bytes(whole)
    with pytest.raises(SessionFileError, match=r"damaged.*not opened.*A copy is in.*recover"):
        Log(path)
    assert path.read_bytes() == bytes(whole)
    assert path.with_name("session.ask.damaged-1").read_bytes() == bytes(whole)
    with pytest.raises(SessionFileError, match="damaged-2"):
        Log(path)


KILLED = """
import os, sqlite3, sys
from rankwise.asking.log import Log

class Killed(sqlite3.Connection):
    def execute(self, statement, *given):
        if statement.startswith(sys.argv[2]):
            os.kill(os.getpid(), 9)
        return super().execute(statement, *given)

connect = sqlite3.connect
sqlite3.connect = lambda *given, **more: connect(*given, **more, factory=Killed)
log = Log(__import__("pathlib").Path(sys.argv[1]))
log.append("pause", {"paused": True})
log._db.execute("KILL")
"""


def killed(path, statement):
    """Write a session until a statement, which kills the program."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), statement])
    assert done.returncode == -9


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement", [pytest.param("CREATE TABLE files", marks=pytest.mark.ci), "BEGIN", "COMMIT"]
)
def test_a_program_killed_before_its_first_entry_leaves_a_new_session(path, statement):
    killed(path, statement)
    assert path.stat().st_size > 0
    with Session("abc", path=path) as session:
        session.answer(session.ask().token, "tie")
    with Session(path=path) as session:
        assert session.n_answers() == 1


def test_a_session_without_items_is_begun_again(path):
    log = Log(path)
    log.append("session", {"secret": "00"})  # killed here
    log.close()
    with pytest.raises(DataError, match="needs two or more items"):
        Session(path=path)
    with Session("abc", path=path) as session:
        assert (len(session.items), session._ledger.secret) == (3, "00")


def test_the_copy_of_a_damaged_file_has_its_last_entries(path):
    killed(path, "KILL")
    log = path.with_name("session.ask-wal")
    assert log.stat().st_size > 0
    whole = path.read_bytes()
    before = whole[:100] + b"damaged" * 500 + whole[100:]
    path.write_bytes(before)
    last = log.read_bytes()
    with pytest.raises(SessionFileError, match="damaged"):
        Log(path)
    files = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    copy = "session.ask.damaged-1"
    assert files == {"session.ask": before, "session.ask-wal": last, copy: before,
                     f"{copy}-wal": last}  # fmt: skip
    path.write_bytes(b"")
    with pytest.raises(SessionFileError, match=r"-wal holds answers.*gone or empty"):
        Log(path)
    assert log.read_bytes() == last
    path.write_bytes(whole)
    found = Log(path)
    assert [entry.kind for entry in found.entries()] == ["pause"]
    found.close()


def test_other_files_are_refused(path, tmp_path):
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE t (x)")
    other.commit()
    other.close()
    assert is_session_file(path)
    with pytest.raises(SessionFileError, match="not written by rankwise ask"):
        Log(path)
    with pytest.raises(SessionFileError, match="no folder"):
        Log(tmp_path / "none" / "a.ask")
    newer = tmp_path / "newer.ask"
    Log(newer).close()
    db = sqlite3.connect(newer)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(SessionFileError, match="format 99"):
        Log(newer)


def test_one_program_at_a_time(path, monkeypatch):
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **{**k, "timeout": 0.0}))
    log = Log(path)
    with pytest.raises(SessionFileError, match="in use by another"):
        Log(path)
    log.close()
    Log(path).close()


def test_a_clock_that_is_set_back_changes_no_order(path):
    times = iter([1000.0, 2000.0, 500.0, 400.0])
    log = Log(path, clock=lambda: next(times))
    for k in range(4):
        log.append("answer", {"k": k}, f"token {k}")
    assert [entry.body["k"] for entry in log.entries()] == [0, 1, 2, 3]
    assert [entry.time for entry in log.entries()] == [1000.0, 2000.0, 500.0, 400.0]
    log.close()


def test_undo_takes_the_last_answer_whatever_the_clock_says():
    times = iter([10.0 - k for k in range(20)])
    session = Session("abc", log=Log(clock=lambda: next(times)))
    numbers = [session.answer(session.ask().token, "tie").number for _ in range(3)]
    session.undo()
    assert [a.number for a in session.answers if a.withdrawn] == numbers[-1:]
