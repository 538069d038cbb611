"""The pages of a session, over a real connection: who may do what, and what is refused."""

import asyncio
import csv
import json
import re
import signal
import subprocess
import sys
from asyncio import CancelledError
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rankwise.asking import Goal, Item, NotSavedError, Session
from rankwise.asking.log import Log
from rankwise.asking.session_exports import share_page
from rankwise.asking.standings import Standing

httpx = pytest.importorskip("httpx")
pytest.importorskip("starlette", reason="needs the extra ask")
pytest.importorskip("uvicorn", reason="needs the extra ask")

from rankwise.asking.web.app import make_app  # noqa: E402
from rankwise.asking.web.guards import Doorkeeper  # noqa: E402
from tests.asking.alone import Alone  # noqa: E402
from tests.asking.in_memory import client_of  # noqa: E402
from tests.asking.serve_session import serving  # noqa: E402

SCRIPT = "<script>alert(1)</script>"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script></svg>'
LARGEST = 300_000


@pytest.fixture(scope="module")
def served():
    """A session of eight items, two of them dangerous, and the address of its page."""
    log = Log()
    image = log.put_file(SVG, "image/svg+xml")
    items = [
        Item(SCRIPT, text=f"{SCRIPT} & more", facts={"<b>": "=1+1"}),
        Item("=cmd", text=f"# {SCRIPT}\n[x](javascript:alert(1))", markdown=True, image=image),
        *map(Item, "abcdef"),
    ]
    session = Session(items, log=log, both_bad=True, advice=f"Look! {SCRIPT}")
    for name in ("ann", "bob"):
        session.add_rater(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rankwise.asking.background.Worker", Alone)
        with serving(make_app(session, largest=LARGEST)) as address:
            yield session, address


@pytest.fixture
def client(served):
    with httpx.Client(base_url=served[1], trust_env=False, timeout=300) as made:
        yield made


@pytest.fixture
def enter(served, client):
    """Come in by a link, and give the signature of forms."""
    session, _ = served

    def enter(name):
        door = Doorkeeper(session)
        keys = {rater.name: rater.key for rater in session.raters}
        key = door.organizer_key if name == "organizer" else keys[name]
        found = client.get("/start", params={"token": key})
        assert found.status_code == 303
        return field(client.get("/").text, "csrf")

    return enter


def field(text, name):
    return re.search(f'name="{name}" value="([^"]+)"', text)[1]


def answer(client, outcome, **more):
    page = client.get("/").text
    form = {"token": field(page, "token"), "csrf": field(page, "csrf"), "outcome": outcome}
    return client.post("/answer", data=form | more, headers={"HX-Request": "true"})


def test_answering(served, client, enter):
    session, _ = served
    enter("ann")
    before = session.n_answers("ann")
    for outcome in ("first", "tie", "both_bad", "skip", "second"):
        found = answer(client, outcome)
        assert found.status_code == 200
        assert found.text.lstrip().startswith("<main")
    assert session.n_answers("ann") == before + 4
    csrf = field(found.text, "csrf")
    part = {"HX-Request": "true"}
    assert "Taken back" in client.post("/undo", data={"csrf": csrf}, headers=part).text
    assert session.n_answers("ann") == before + 3
    page = client.get("/").text
    token = field(page, "token")
    form = {"token": token, "csrf": csrf, "outcome": "first"}
    plain = client.post("/answer", data=form)  # without scripts
    assert (plain.status_code, plain.headers["location"]) == (303, "/")
    assert "Saved." in client.post("/answer", data=form, headers=part).text  # pressed twice
    other = client.post("/answer", data=form | {"outcome": "tie"}, headers=part)
    assert other.status_code == 409
    assert "answered already" in other.text
    assert session.n_answers("ann") == before + 4
    wrong = client.post("/answer", data=form | {"outcome": "maybe", "token": token})
    assert wrong.status_code == 400
    assert "outcome" in wrong.text


def test_a_skip_can_be_undone(served, client, enter):
    session, _ = served
    name = session.add_rater("new").name
    csrf = enter(name)
    assert re.search(r'data-key="u" disabled', client.get("/").text)
    answer(client, "skip")
    assert not re.search(r'data-key="u" disabled', client.get("/").text)
    client.post("/undo", data={"csrf": csrf})
    assert re.search(r'data-key="u" disabled', client.get("/").text)


def test_a_second_interrupt_says_nothing(monkeypatch):
    monkeypatch.setattr("rankwise.asking.background.Worker", Alone)
    session = Session("ab")

    async def interrupted():
        async with (app := make_app(session)).router.lifespan_context(app):
            assert session._background is not None
            raise CancelledError

    asyncio.run(interrupted())
    assert session._background is None


def test_the_organizer_sees_the_best_of_many_items(served, client, enter, monkeypatch):
    session, _ = served
    session.answer(session.ask("bob").token, "first")
    session.settle()
    enter("organizer")
    assert "These are the first" not in client.get("/organizer/live").text
    monkeypatch.setattr("rankwise.asking.web.app._SHOWN", 3)
    page = client.get("/organizer/live").text
    assert page.count('<th scope="row">') == 3
    assert "These are the first 3 of" in page


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_sigterm_ends_all_processes_while_they_compute(tmp_path):
    """The limits are far above what it takes: before, 2,000 items ignored it for minutes."""
    items = tmp_path / "items.txt"
    items.write_text("\n".join(f"item {k}" for k in range(2000)))
    program = "from rankwise.cli.entry import run; run()"
    command = [sys.executable, "-c", program, "ask", str(items), "--no-browser"]
    with subprocess.Popen(
        [*command, "--port", "0", "--raters", "ann"], stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        link = process.stdout.readline().split()[-1]
        with httpx.Client(trust_env=False, follow_redirects=True, timeout=60) as ann:
            assert "item " in ann.get(link).text
            form = {name: field(ann.get(link).text, name) for name in ("token", "csrf")}
            address = f"http://{urlsplit(link).netloc}"
            saved = ann.post(f"{address}/answer", data=form | {"outcome": "first"})
            assert saved.status_code == 200
        tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
        children = [child for task in tasks for child in task.read_text().split()]
        process.send_signal(signal.SIGTERM)
        process.wait(20)
    assert process.returncode == 0  # a server that its manager stops has not failed
    assert children
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    with Session(path=items.with_suffix(".ask")) as session:
        assert session.n_answers() == 1


def test_wrong_hosts_are_refused_before_anything_else(served, client):
    for host in ("evil.example", "127.0.0.1.evil.example", "", "[", "localhost@evil.example:80"):
        found = client.get("/static/ask.css", headers={"Host": host})
        assert found.status_code in (400, 421)
    assert client.get("/static/ask.css", headers={"Host": "localhost:1"}).status_code == 200


def test_wrong_keys_and_cookies_are_refused(served, client):
    name = Doorkeeper(served[0]).cookie_name
    for path in ("/", "/organizer", "/share", "/export/ranking.csv", "/api/progress"):
        assert client.get(path).status_code == 403
        for cookie in (
            "organizer.0",
            "organizer.",
            "rater0.0",
            "x",
            "ü".encode().decode("latin-1"),
        ):
            found = client.get(path, headers={"Cookie": f"{name}={cookie}".encode("latin-1")})
            assert found.status_code == 403
    for token in ("", "wrong", "0" * 32):
        found = client.get("/start", params={"token": token})
        assert found.status_code == 403
        assert "set-cookie" not in found.headers
    assert client.get("/api/progress", headers={"Authorization": "Bearer x"}).status_code == 403


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(served, client):
    found = client.get("/start", params={"token": served[0].raters[0].key})
    cookie = found.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert served[0].raters[0].key not in cookie


def test_raters_are_not_organizers(client, enter):
    csrf = enter("bob")
    for path in ("/organizer", "/organizer/live", "/organizer/answers", "/share", "/api/ranking"):
        assert client.get(path).status_code == 403
    for act in ("rater", "drop", "item", "upload", "pause", "withdraw", "change"):
        assert client.post(f"/organizer/{act}", data={"csrf": csrf}).status_code == 403


def test_writes_of_other_sites_are_refused(served, client, enter):
    session, _ = served
    csrf = enter("ann")
    page = client.get("/").text
    form = {"token": field(page, "token"), "outcome": "first"}
    n = session.n_answers()
    for sent, headers in (
        (form, {}),
        (form | {"csrf": "0" * 32}, {}),
        (form | {"csrf": csrf}, {"Origin": "http://evil.example"}),
        (form | {"csrf": csrf}, {"Origin": "null"}),
        (form | {"csrf": csrf}, {"Sec-Fetch-Site": "cross-site"}),
    ):
        assert client.post("/answer", data=sent, headers=headers).status_code == 403
    assert client.post("/undo", data={}).status_code == 403
    assert client.post("/api/answer", json=form).status_code == 403
    assert client.get("/answer").status_code == 405
    assert session.n_answers() == n


@pytest.mark.parametrize(
    "path",
    [
        "/image/../../etc/passwd",
        "/image/..%2f..%2fetc%2fpasswd",
        "/image/%2e%2e/ask.css",
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2fetc%2fpasswd",
        "/export/..%2franking.csv",
        "/image/nothing",
    ],
)
def test_paths_lead_nowhere_else(client, enter, path):
    enter("organizer")
    assert client.get(path).status_code == 404


def test_scripts_in_items_are_text(served, client, enter):
    enter("organizer")
    shown = ""
    while "=cmd<" not in shown or "&lt;b&gt;" not in shown:  # until both were asked about
        page = client.get("/")
        shown += page.text.partition('class="pair"')[2]
        answer(client, "skip")
    for text in (shown, *(client.get(p).text for p in ("/organizer", "/organizer/answers"))):
        assert SCRIPT not in text
        assert "javascript:alert(1)&quot;" not in text
        assert not re.search(r"<(?!script src=)script|href=.javascript|\son\w+=", text)
    assert "&lt;script&gt;" in shown
    assert SCRIPT not in client.get("/share").text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"


def test_an_image_has_no_rights(served, client, enter):
    enter("ann")
    name = served[0].items[1].image
    found = client.get(f"/image/{name}")
    assert found.content == SVG
    assert found.headers["content-type"] == "image/svg+xml"
    policy = found.headers["content-security-policy"]
    assert "sandbox" in policy
    assert "script" not in policy
    client.cookies.clear()
    assert client.get(f"/image/{name}").status_code == 403


def test_large_bodies_are_refused(client, enter):
    csrf = enter("organizer")
    large = {"file": ("a.txt", b"x" * (LARGEST + 1))}
    found = client.post("/organizer/upload", data={"csrf": csrf}, files=large)
    assert found.status_code == 413

    def parts():
        for _ in range(40):
            yield b"x" * 10_000

    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/answer", content=parts(), headers=headers).status_code == 413


def test_the_organizer(served, client, enter):
    session, address = served
    csrf = enter("organizer")

    def post(act, files=None, **form):
        return client.post(f"/organizer/{act}", data={"csrf": csrf} | form, files=files)

    assert post("rater", name="Carol").status_code == 303
    link = re.search(rf'value="({address}/start\?token=[^"]+)" aria-label="Link of Carol"',
                     client.get("/organizer").text)[1]  # fmt: skip
    with httpx.Client(trust_env=False, follow_redirects=True, timeout=300) as carol:
        assert "your" in carol.get(link).text
        assert post("pause", paused="1").status_code == 303
        waiting = carol.get(f"{address}/").text
        assert "paused" in waiting
        assert 'hx-get="/" hx-trigger="every 5s"' in waiting  # it goes on by itself
        assert post("pause", paused="0").status_code == 303
    answer(client, "first")
    number = str(session.answers[-1].number)
    assert post("change", answer=number, outcome="tie").status_code == 303
    assert session.answers[-1].outcome == "tie"
    assert post("withdraw", answer=number).status_code == 303
    assert session.answers[-1].withdrawn
    assert "withdrawn" in client.get("/organizer/answers", params={"rater": "me"}).text
    assert post("drop", rater="Carol", dropped="1").status_code == 303
    assert post("item", id="new", text="<i>").status_code == 303
    assert post("upload", files={"file": ("m.csv", b"id,text\nm1,x\nm2,y\n")}).status_code == 303
    png = b"\x89PNG\r\n\x1a\n" + bytes(9)
    assert post("upload", files={"file": ("p.png", png)}).status_code == 303
    assert post("upload", files={"file": ("t.md", b"*x*")}).status_code == 303
    assert {"new", "m1", "m2", "p.png", "t.md"} <= {item.id for item in session.items}
    for act, form, words in (
        ("withdraw", {"answer": "x"}, "must be a number"),
        ("withdraw", {"answer": "99999"}, "no answer 99999"),
        ("change", {"answer": number, "outcome": "x"}, "outcome"),
        ("item", {"id": "new"}, "already"),
        ("item", {"id": " "}, "empty id"),
        ("rater", {"name": ""}, "1 to 80"),
        ("drop", {"rater": "nobody"}, "no rater"),
        ("upload", {}, "Choose a file"),
        ("upload", {"files": {"file": ("a.exe", b"x")}}, "a.exe"),
        ("upload", {"files": {"file": ("a.png", b"x")}}, "does not begin"),
        ("upload", {"files": {"file": ("a.csv", b"\xff")}}, "a.csv"),
        ("upload", {"files": {"file": ("../a.csv", b"id\nm1\nm2\n")}}, "here already"),
    ):
        found = post(act, **form)
        assert found.status_code == 400, act
        assert words in found.text.replace("&#39;", "'")
    assert "Carol (left out)" in re.sub(r"<[^>]+>", "", client.get("/organizer").text)
    assert "<html" not in client.get("/organizer/live").text


def test_files_to_save(served, client, enter):
    session, _ = served
    enter("organizer")
    answer(client, "first")
    ranking = list(csv.DictReader(client.get("/export/ranking.csv").text.splitlines()))
    assert {row["item"] for row in ranking} >= {"=cmd", "a"}
    guarded = client.get("/export/ranking-for-spreadsheets.csv").text.splitlines()
    assert {row["item"] for row in csv.DictReader(guarded)} >= {"'=cmd", "a"}
    assert [int(row["rank"]) for row in ranking] == list(range(1, len(ranking) + 1))
    whole = json.loads(client.get("/export/ranking.json").text)
    assert whole["answers"] == session.n_answers()
    assert whole["ranking"][0]["low"] < whole["ranking"][0]["high"]
    comparisons = list(csv.DictReader(client.get("/export/comparisons.csv").text.splitlines()))
    assert len(comparisons) == session.n_answers()
    assert set(comparisons[0]) == {"first", "second", "outcome", "rater", "time"}
    battles = list(csv.DictReader(client.get("/export/battles.csv").text.splitlines()))
    assert {row["winner"] for row in battles} <= {"model_a", "model_b", "tie", "both_bad"}
    model = client.get("/export/model.rankwise")
    assert model.content[:2] == b"PK"
    page = client.get("/export/share.html")
    assert "attachment" in page.headers["content-disposition"]
    assert "<script" not in page.text


def test_the_page_for_sharing_has_pictures():
    log = Log()
    image = log.put_file(SVG, "image/svg+xml")
    page = share_page(Session([Item("one", image=image), Item(SCRIPT)], log=log))
    assert "data:image/svg+xml;base64," in page
    assert SCRIPT not in page
    assert "left out" not in page


def test_the_page_for_sharing_names_pictures_that_are_too_large():
    log = Log()
    image = log.put_file(SVG + b" " * 1_500_000, "image/svg+xml")
    page = share_page(Session([Item("one", image=image), Item("two")], log=log))
    assert "data:image" not in page
    assert "Pictures of more than 1.5 MB are left out: 1. one." in page


class Busy:
    """A background that never gets anything done."""

    error = None

    def __init__(self, session):
        session.hand_over(self)

    def settle(self):
        raise AssertionError

    def close(self):
        pass


def test_no_scores_are_shown_before_they_are_computed(monkeypatch):
    monkeypatch.setattr("rankwise.asking.web.app.Background", Busy)
    session = Session("abc")
    session.answer(session.ask().token, "first")
    session._standing = Standing.unknown(session._ledger)
    with (
        serving(make_app(session)) as address,
        httpx.Client(base_url=address, trust_env=False, timeout=300) as client,
    ):
        client.get("/start", params={"token": Doorkeeper(session).organizer_key})
        page = client.get("/organizer/live").text
        assert "as soon as a first ranking is computed" in page
        assert '<th scope="row">' not in page
        session.hand_over(None)
        assert '<th scope="row">' in client.get("/organizer/live").text


def test_json(served, client, enter):
    session, _ = served
    key = {"Authorization": f"Bearer {session.raters[1].key}"}
    question = client.post("/api/question", headers=key).json()["question"]
    assert set(question) == {"token", "rater", "first", "second"}
    sent = {"token": question["token"], "outcome": "first"}
    saved = client.post("/api/answer", json=sent, headers=key).json()
    assert saved["answer"]["outcome"] == "first"
    assert saved["question"]["token"] != question["token"]
    assert client.post("/api/undo", headers=key).json()["question"]["rater"] == "bob"
    progress = client.get("/api/progress", headers=key).json()
    assert progress["answers"] == session.n_answers()
    for body, words in ((b"{", "not JSON"), (b"[]", "object"), (b"{}", "outcome")):
        found = client.post("/api/answer", content=body, headers=key)
        assert found.status_code == 400
        assert words in found.json()["error"]
    assert client.get("/api/ranking", headers=key).status_code == 403
    organizer = {"Authorization": f"Bearer {Doorkeeper(session).organizer_key}"}
    assert len(client.get("/api/ranking", headers=organizer).json()["ranking"]) >= 8
    assert client.get("/api/answers", headers=organizer).json()["answers"]
    schema = client.get("/api/schema", headers=key).json()
    routes = ("schema", "progress", "ranking", "answers", "question", "answer", "undo")
    assert set(schema["paths"]) == {f"/api/{route}" for route in routes}
    found = schema["paths"]["/api/progress"]["get"]["responses"]["200"]["content"]
    assert set(found["application/json"]["schema"]["required"]) == set(progress)
    want = schema["components"]["schemas"]
    assert set(want["Answer"]["required"]) == set(saved["answer"])
    assert set(want["Item"]["required"]) == set(question["first"])
    csrf = enter("ann")
    headers = {"X-CSRF-Token": csrf}
    assert client.post("/api/question", headers=headers).status_code == 200


def test_a_full_disk_is_told_on_the_page(served, client, enter, monkeypatch):
    session, _ = served
    enter("ann")

    def full(*given):
        raise NotSavedError("This was not saved (the disk is full).")

    n = session.n_answers()
    monkeypatch.setattr(session.log, "append", full)
    found = answer(client, "first")
    assert found.status_code == 507
    assert "was not saved" in found.text
    assert 'name="token"' in found.text  # the same pair, to try again
    monkeypatch.undo()
    assert session.n_answers() == n
    assert answer(client, "first").status_code == 200


def test_before_the_first_answer_there_are_no_numbers(monkeypatch):
    session = Session(["tea", "milk", "juice"])
    session.add_rater("Ann")
    with client_of(make_app(session, elsewhere="rankwise ask teas.ask --host X")) as client:
        client.get("/start", params={"token": Doorkeeper(session).organizer_key})
        page = client.get("/organizer").text
        assert "P(best)" not in page
        assert "5% (" not in page  # slips
        assert "after the first answers" in page
        assert "<code>rankwise ask teas.ask --host X</code>" in page
        session.answer(session.ask("Ann").token, "first")
        assert "P(best)" in client.get("/organizer").text
        monkeypatch.setattr(session, "progress", lambda: Goal().unknown(3))
        assert '<progress max="1" value="0"' in client.get("/organizer").text  # it is not full
