"""Requests that nobody sends by accident: each is answered in words, and none is a fault."""

import logging

import pytest

from rankwise.asking import Session

pytest.importorskip("httpx")
pytest.importorskip("starlette", reason="needs the extra ask")

from rankwise.asking.log import Log
from rankwise.asking.web.app import make_app
from rankwise.asking.web.guards import FAULT, Doorkeeper, NoItemsYet
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


def test_forms_that_are_damaged(client, enter):
    enter("organizer")
    headers = {"Content-Type": "multipart/form-data; boundary=xx"}
    found = client.post("/organizer/item", content="--x-\r\n", headers=headers)
    assert found.status_code == 400
    assert "Invalid multipart data" in found.text


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


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


class Beginning:
    """The page that asks for items, and what it made of them."""

    def __init__(self):
        self.begun, self.unknown = [], NoItemsYet()
        self.door = Doorkeeper(self.unknown)
        self.client = client_of(make_app(None, door=self.door, begin=self.begin, largest=200_000))
        key = self.door.organizer_key
        assert self.client.get("/start", params={"token": key}).status_code == 303
        self.csrf = self.unknown.sign("csrf", self.client.cookies[self.door.cookie_name])

    def begin(self, items, pictures, question, goal):
        self.begun.append((items, pictures, question, goal))
        log = Log()
        log.append("session", {"secret": self.unknown.secret})
        return Session(items, question=question or None, goal=goal, log=log)

    def send(self, files=(), **form):
        form = {"csrf": self.csrf, **form}
        return self.client.post("/begin", data=form, files=[("file", file) for file in files])


@pytest.fixture
def beginning():
    return Beginning()


@pytest.mark.parametrize(
    ("items", "files", "words"),
    [
        ("", [], "Two or more items are needed: got 0 items"),
        ("one", [], "got 1 item"),
        ("a\na", [], "Two items have the id"),
        ("a\nb\x00", [], "null character"),
        ("a\n" + 100_001 * "b", [], "letters"),
        ("a", [("b.csv", DEEP_JSON[:100])], "b.csv"),
        ("a", [("b.png", b"GIF89a")], "does not match its name"),
        ("a", [("b.exe", b"MZ")], "give a file that ends with"),
        ("a", [("b.png", b"")], "something in it"),
        ("a", [("c.svg", SVG), ("c.svg", SVG)], "Two items have the id"),
        ("a", [("items.json", b'[{"id": "\\ud800"}]')], "surrogate"),
        ("a", [("t.csv", b"id,image\nx,../../../../etc/passwd\ny,\n")], "outside the folder"),
        ("a", [("t.csv", b"id,image\nx,/etc/passwd\ny,\n")], "outside the folder"),
    ],
)
def test_items_that_cannot_be_begun_with(beginning, items, files, words):
    found = beginning.send(files, items=items, question="<b>Which?")
    assert found.status_code == 400
    assert words in found.text
    assert "&lt;b&gt;Which?" in found.text  # what was typed is still there
    assert beginning.begun == []
    assert beginning.client.get("/organizer").headers["location"] == "/begin"


def test_names_of_files_are_not_paths(beginning, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["../up.svg", f"{tmp_path}/absolute.svg", "<img src=x>.svg"]
    found = beginning.send([(name, SVG) for name in names], items="=1+1\tone <b>", goal="none")
    assert found.status_code == 303, found.text
    assert found.headers["location"] == "/organizer"
    ((items, pictures, _, _),) = beginning.begun
    assert [item.id for item in items] == ["=1+1", "up.svg", "absolute.svg", "<img src=x>.svg"]
    assert items[0].text == "one <b>"
    assert {item.image for item in items[1:]} == {pictures.put_file(SVG, "image/svg+xml")}
    assert list(tmp_path.iterdir()) == []
    page = beginning.client.get("/organizer")
    assert page.status_code == 200
    assert "<img src=x>" not in page.text
    assert beginning.send(items="x\ny").headers["location"] == "/organizer"  # sent again
    assert len(beginning.begun) == 1


def test_who_may_begin(beginning):
    """The organizer, from our own page: no one else, and not from the page of another site."""
    form = {"csrf": beginning.csrf, "items": "a\nb"}
    stranger = client_of(beginning.client._transport.transport.app)
    for path in ("/", "/begin", "/organizer", "/api/ranking", "/organizer/qr/0"):
        assert stranger.get(path).status_code == 403
    assert stranger.post("/begin", data=form).status_code == 403
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert beginning.client.post("/begin", data=form, headers=headers).status_code == 403
    assert beginning.client.post("/begin", data={**form, "csrf": "0" * 32}).status_code == 403
    assert beginning.client.get("/begin", headers={"Host": "evil.example"}).status_code == 421
    large = beginning.send([("a.svg", SVG + 200_000 * b" ")], items="a\nb")
    assert large.status_code == 413
    many = beginning.send([("a.svg", SVG)] * 501, items="a\nb")
    assert many.status_code in (400, 413)
    assert beginning.begun == []
    for path in ("/api/progress", "/api/ranking", "/share", "/organizer/qr/0", "/image/x"):
        found = beginning.client.get(path)
        assert found.status_code == 409
        assert "There are no items yet" in found.text
    for path in ("/answer", "/undo", "/organizer/item", "/organizer/pause", "/organizer/upload"):
        found = beginning.client.post(path, data=form)
        assert found.status_code in (400, 409)
    assert beginning.begun == []


def test_codes_of_links(session, client, enter):
    enter("organizer")
    page = client.get("/organizer").text
    assert "/organizer/qr/" not in page  # no phone can reach this machine
    for number, status in (("0", 200), ("1", 404), ("-1", 404), ("x", 404), ("9" * 99, 404)):
        found = client.get(f"/organizer/qr/{number}")
        assert found.status_code == status
    found = client.get("/organizer/qr/0")
    assert found.headers["content-type"] == "image/svg+xml"
    assert "sandbox" in found.headers["content-security-policy"]
    outside = client_of(make_app(session, hosts=["phone.example"]), "http://phone.example")
    key = Doorkeeper(session).organizer_key
    assert outside.get("/start", params={"token": key}).status_code == 303
    assert "/organizer/qr/0" in outside.get("/organizer").text
    assert outside.get("/organizer/qr/0").text != found.text  # another address
    enter("ann")
    assert client.get("/organizer/qr/0").status_code == 403
