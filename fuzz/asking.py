"""Requests to the pages of `rankwise ask`, by a stranger, by raters and by the organizer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from rankwise.asking import Goal, Item, Session
from rankwise.asking.item_model import ItemModel
from rankwise.asking.log import Log
from rankwise.asking.web.app import make_app
from rankwise.asking.web.guards import Doorkeeper, NoItemsYet

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
ORGANIZERS = ("/organizer", "/export", "/share", "/api/ranking", "/api/answers")
WRONG = "0" * 32
logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it warns of each bad form


def check(data: bytes, rng: np.random.Generator, folder: Path) -> None:
    """Each visitor gets an answer in words, may do what is allowed, and learns no foreign key.

    The input is a request: a method and an address, headers, an empty line and a body. In braces
    are what a visitor knows: a key, a cookie, signatures, and names of questions.
    """
    if b"/begin" in data:
        _check_beginning(data, rng)
    session = _session()
    door = Doorkeeper(session)
    app = make_app(session, largest=1_000_000)
    ann, bob = session.raters[:2]
    question, other = session.ask("ann"), session.ask("carl")
    session.drop_rater("bob")
    assert question is not None
    assert other is not None
    common = {"other": other.token, "image": session.items[0].image, "deep": "[" * 100_000}
    cookie = str(door.cookie_of(ann.key))
    organizer = str(door.cookie_of(door.organizer_key))
    gone = str(door.cookie_of(bob.key))
    visitors = {
        "stranger": {"key": WRONG, "cookie": f"organizer.{WRONG}", "csrf": WRONG, "token": WRONG},
        "forger": {"key": WRONG, "cookie": cookie, "csrf": WRONG, "token": question.token},
        "left out": {"key": bob.key, "cookie": gone, "csrf": session.sign("csrf", gone)},
        "rater": {"key": ann.key, "cookie": cookie, "csrf": session.sign("csrf", cookie)},
        "organizer": {"key": door.organizer_key, "cookie": organizer},
    }
    visitors["organizer"]["csrf"] = session.sign("csrf", organizer)
    for role, known in visitors.items():
        fields = {"name": door.cookie_name, "token": question.token} | common | known
        text = _filled(data, fields)
        foreign = [
            session._ledger.secret,
            door.organizer_key,
            bob.key,
            organizer.rpartition(".")[2],
        ]
        if role == "left out":
            foreign.remove(bob.key)
        before = len(session.log.entries())
        with _faults():
            status, headers, body = asyncio.run(_answered(app, text, rng))
        assert 200 <= status < 500 or status == 507, f"{role}: {status}"
        if role == "organizer":
            return
        new = session.log.entries()[before:]
        sent = b"\n".join((headers, body))
        assert not any(key.encode() in sent for key in foreign), f"{role}: a foreign key"
        path = _path(text)
        assert status >= 300 or not path.startswith(ORGANIZERS), f"{role}: the organizer's page"
        if role == "rater":
            assert all(entry.kind in ("answer", "withdraw") for entry in new), role
            assert all(_rater(session, entry) == "ann" for entry in new), role
        else:
            assert not new, f"{role}: {new[0].kind}"
        if role == "stranger":
            assert b"set-cookie" not in headers, f"{role}: a cookie"
            assert status >= 300 or path.startswith("/static/"), f"{role}: {status}"


def _check_beginning(data: bytes, rng: np.random.Generator) -> None:
    """Before there are items: the organizer alone begins, with two or more items or not at all."""
    unknown, begun = NoItemsYet(), []
    door = Doorkeeper(unknown)

    def begin(items: list[Item], pictures: Log, question: str, goal: Goal) -> Session:
        begun.append(len(items))
        log = Log()
        log.append("session", {"secret": unknown.secret})
        return Session(items, question=question, goal=goal, log=log)

    app = make_app(None, door=door, begin=begin, largest=1_000_000)
    cookie = str(door.cookie_of(door.organizer_key))
    visitors = {
        "stranger": {"cookie": f"organizer.{WRONG}", "csrf": unknown.sign("csrf", cookie)},
        "forger": {"cookie": cookie, "csrf": WRONG},
        "organizer": {"cookie": cookie, "csrf": unknown.sign("csrf", cookie)},
    }
    for role, known in visitors.items():
        text = _filled(
            data, {"name": door.cookie_name, "key": WRONG, "deep": "[" * 100_000} | known
        )
        with _faults():
            status, headers, body = asyncio.run(_answered(app, text, rng))
        assert 200 <= status < 500 or status == 507, f"{role}: {status}"
        keys = (unknown.secret, door.organizer_key)
        assert not any(key.encode() in headers + body for key in keys), f"{role}: a key"
        assert role == "organizer" or not begun, f"{role}: began"
    assert all(n_items >= 2 for n_items in begun)


def _filled(data: bytes, fields: dict[str, str]) -> bytes:
    """A request with what a visitor knows in place of braces."""
    for name, value in fields.items():
        data = data.replace(f"{{{name}}}".encode(), value.encode())
    return data


def _session() -> Session:
    """Four items, three raters and a few answers; nothing is computed after this."""
    log = Log()
    image = log.put_file(SVG, "image/svg+xml")
    items = [Item("a", image=image), Item("b", "*x*", markdown=True, facts={"f": "1"})]
    session = Session([*items, "c", "d"], log=log, both_bad=True)
    for name in ("ann", "bob", "carl"):
        session.add_rater(name)
    session.update()
    session.hand_over(_Idle())
    for name in ("ann", "bob", "ann"):
        question = session.ask(name)
        assert question is not None
        session.answer(question.token, "first")
    return session


class _Idle:
    """Computes nothing."""

    def settle(self) -> Any:
        return _model(), 0


@cache
def _model() -> ItemModel:
    return ItemModel(4).fit([])


def _rater(session: Session, entry: Any) -> str:
    number = entry.number if entry.kind == "answer" else entry.body["answer"]
    return next(a.rater for a in session.answers if a.number == number)


def _path(request: bytes) -> str:
    _, target, *_ = [*request.partition(b"\n")[0].split(), b"", b""]
    return unquote(target.partition(b"?")[0].decode("latin-1"))


async def _answered(app: Any, request: bytes, rng: np.random.Generator) -> tuple[int, bytes, bytes]:
    """Status, headers and body of the answer of an application."""
    head, _, body = request.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    method, target, *_ = [*first.split(), b"GET", b"/"]
    given = [line.partition(b":")[::2] for line in lines if b":" in line]
    headers = [(name.strip().lower(), value.strip(b" \t\r\0")) for name, value in given]
    if not any(name == b"host" for name, _ in headers):
        headers.append((b"host", b"localhost:8642"))
    at = int(rng.integers(0, len(body) + 1))
    parts = [
        {"type": "http.request", "body": body[:at], "more_body": True},
        {"type": "http.request", "body": body[at:], "more_body": False},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return parts.pop(0) if parts else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method.decode("latin-1"),
        "scheme": "http",
        "path": _path(request),
        "raw_path": target.partition(b"?")[0],
        "query_string": target.partition(b"?")[2],
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8642),
    }
    await app(scope, receive, send)
    assert sent, "no answer"
    received = b"".join(message.get("body", b"") for message in sent[1:])
    named = b"\n".join(name + b": " + value for name, value in sent[0]["headers"])
    return sent[0]["status"], named, received


class _Faults(logging.Handler):
    """Keeps the errors that an application logs, and answers with 500."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1]:
            self.errors.append(record.exc_info[1])


@contextmanager
def _faults() -> Iterator[None]:
    """Raise the first error that the application logs."""
    logger, handler = logging.getLogger("rankwise.asking"), _Faults()
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = True
    if handler.errors:
        raise handler.errors[0]
