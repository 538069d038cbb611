"""Requests that nobody sends by accident: each is answered in words, and none is a fault."""

import logging

import pytest

from rankwise.asking import Session

pytest.importorskip("httpx")
pytest.importorskip("starlette", reason="needs the extra ask")

from rankwise.asking.web.app import make_app
from rankwise.asking.web.guards import FAULT, Doorkeeper
from tests.asking.in_memory import client_of

DEEP = 100_000
DEEP_JSON = b"[" * DEEP + b"]" * DEEP


@pytest.fixture
def session():
    made = Session("abcd")
    made.add_rater("ann")
    made.update()
    return made


@pytest.fixture
def door(session):
    return Doorkeeper(session)


@pytest.fixture
def client(session, door):
    return client_of(make_app(session, door=door))  # nothing here needs its background


@pytest.fixture
def enter(client, door, session):
    """Come in as a rater or the organizer, and give the signature of forms."""

    def enter(name):
        keys = {rater.name: rater.key for rater in session.raters}
        key = door.organizer_key if name == "organizer" else keys[name]
        assert client.get("/start", params={"token": key}).status_code == 303
        return session.sign("csrf", client.cookies[door.cookie_name])

    return enter


def test_a_rater_who_was_left_out_is_told_so(session, client, enter):
    csrf = enter("ann")
    token = session.ask("ann").token
    session.answer(token, "first")
    token = session.ask("ann").token
    session.drop_rater("ann")
    for path, form in (("/answer", {"token": token, "outcome": "first"}), ("/undo", {})):
        for headers in ({}, {"HX-Request": "true"}):
            found = client.post(path, data={"csrf": csrf, **form}, headers=headers)
            assert found.status_code == 400
            assert "left out this rater" in found.text


def test_a_signature_of_one_kind_is_none_of_another(session, client, enter, door):
    csrf = enter("ann")
    cookie = client.cookies[door.cookie_name]
    who, _, signed = cookie.rpartition(".")
    for token in (f"cookie {who}.{signed}", f"{who}.{signed}", f"csrf {cookie}.{csrf}"):
        found = client.post("/answer", data={"csrf": csrf, "token": token, "outcome": "first"})
        assert found.status_code == 400
        assert "was not asked here" in found.text
    kinds = ("question", "cookie", "csrf", "organizer", "cookie name")
    assert len({session.sign(kind, "text") for kind in kinds}) == len(kinds)


def test_json_that_is_no_question(session, client):
    key = {"Authorization": f"Bearer {session.raters[0].key}"}
    for body, words in (
        (b'{"token": "\\ud800", "outcome": "first"}', "was not asked here"),
        (b'{"token": {"a": ["\\ud800"]}, "outcome": "first"}', "was not asked here"),
        (b'{"token": "x", "outcome": "\\ud800"}', "outcome"),
        (DEEP_JSON, "deep"),
        (b'{"token": ' + b"9" * 5000 + b"}", "not JSON"),
        (b"\xff", "not JSON"),
    ):
        found = client.post("/api/answer", content=body, headers=key)
        assert found.status_code == 400
        assert words in found.json()["error"]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.jsonl", b'{"id": "\\ud800"}\n{"id": "b"}\n', "surrogate"),
        ("a.json", b'[{"id": "x", "text": "\\udfff"}, {"id": "y"}]', "surrogate"),
        ("a.json", DEEP_JSON, "deep"),
        ("a.jsonl", DEEP_JSON, "deep"),
        ("a.csv", b"id\nx\0\ny\n", "null character"),
        ("a.csv", b"id\n" + b"x" * 100_001 + b"\ny\n", "letters"),
    ],
)
def test_uploads_that_are_no_items(session, client, enter, name, data, words):
    csrf = enter("organizer")
    found = client.post("/organizer/upload", data={"csrf": csrf}, files={"file": (name, data)})
    assert found.status_code == 400
    assert words in found.text
    assert len(session.items) == 4


def test_names_that_are_no_text(session, client, enter):
    csrf = enter("organizer")
    type_ = "multipart/form-data; boundary=x; charset=unicode_escape"
    for act, field in (("rater", "name"), ("item", "id"), ("item", "text")):
        parts = {"csrf": csrf, "id": "new", field: "\\ud800"}
        body = "".join(
            f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in parts.items()
        )
        found = client.post(
            f"/organizer/{act}", content=f"{body}--x--\r\n", headers={"Content-Type": type_}
        )
        assert found.status_code == 400
        assert "half of a letter" in found.text


@pytest.mark.parametrize("page", ["²", "٣", "-1", "0", "1e3", "9" * 5000, ""])
def test_pages_that_are_no_numbers(client, enter, page):
    enter("organizer")
    found = client.get("/organizer/answers", params={"page": page})
    assert found.status_code == 200
    assert "Page 1 of 1" in found.text


def test_headers_that_make_no_sense(client, enter):
    csrf = enter("ann")
    for name, value, status in (
        ("Content-Length", "²".encode("latin-1"), 413),
        ("Host", b"localhost/evil", 421),
        ("Host", b"ann@localhost", 421),
        ("Host", b"localhost:[", 421),
        ("Origin", b"http://[", 403),
        ("Authorization", b"Bearer \xff", 403),
        ("Cookie", b"\xff=\xff", 403),
    ):
        found = client.post("/undo", data={"csrf": csrf}, headers={name: value})
        assert found.status_code == status, name


@pytest.mark.parametrize("path", ["/", "/api/progress"])
def test_an_error_that_nobody_expected(session, client, enter, monkeypatch, caplog, path):
    enter("ann")

    def fail():
        raise KeyError("secret \ud800")

    monkeypatch.setattr(session, "progress", fail)
    with caplog.at_level(logging.ERROR, "rankwise.asking"):
        found = client.get(path)
    assert found.status_code == 500
    assert found.headers["x-content-type-options"] == "nosniff"
    assert (found.json()["error"] if "api" in path else found.text) == FAULT
    assert "KeyError" in caplog.text
