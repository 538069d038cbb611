"""ask: what is printed, what is kept, what is refused; the page itself is tested elsewhere."""

import pytest

from rankwise.asking import Goal, Session

pytest.importorskip("uvicorn", reason="needs the extra ask")


class NoServer:
    """Stands for a server that is stopped at once."""

    started = 0

    def run(self, sockets):
        NoServer.started += 1
        raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def nothing_is_served(monkeypatch):
    monkeypatch.setattr("rankwise.asking.web.server.make_server", lambda app: NoServer())
    monkeypatch.setattr("webbrowser.open", lambda address: pytest.fail("opened a browser"))


@pytest.fixture
def ask(run):
    return lambda *given, **more: run("ask", "--no-browser", "--port", 0, *given, **more)


@pytest.fixture
def items(tmp_path):
    path = tmp_path / "teas.csv"
    path.write_text("id,price\nassam,3\nceylon,2\nsencha,5\n")
    return path


def test_links_and_settings(ask, items, tmp_path):
    result = ask(items, "--raters", "Ann, Bob", "--top", 2, "--question", "Which?", "--both-bad")
    names = [line.split()[0] for line in result.stdout.splitlines()]
    assert names == ["organizer", "Ann", "Bob"]
    assert all("http://127.0.0.1:" in line for line in result.stdout.splitlines())
    assert "3 items, 0 answers" in result.stderr
    assert "All answers are in" in result.stderr
    with Session(path=tmp_path / "teas.ask") as session:
        assert session.settings.goal == Goal("top", k=2)
        assert session.settings.question == "Which?"
        assert session.settings.both_bad
        session.answer(session.ask("Ann").token, "tie")
        links = {rater.name: rater.key for rater in session.raters}
    items.write_text(items.read_text() + "matcha,9\n")
    again = ask(items, "--features", "price", ok=False)
    assert "features" in again
    more = ask(items)
    assert links["Ann"] in more.stdout  # links stay as they are
    assert "4 items, 1 answer so far" in more.stderr
    assert "4 items" in ask(tmp_path / "teas.ask", "--goal", "best", "--sure", 0.9).stderr
    with Session(path=tmp_path / "teas.ask") as session:
        assert session.settings.goal == Goal("top", k=1, sure=0.9)


def test_a_session_by_any_name(ask, items, tmp_path):
    ask(items, "--session", tmp_path / "teas.db")
    result = ask(tmp_path / "teas.db")
    assert "3 items" in result.stderr
    assert f"in {tmp_path / 'teas.db'}." in result.stderr
    assert "already" in ask(tmp_path / "teas.db", "--session", tmp_path / "b.ask", ok=False)
    assert {path.name for path in tmp_path.iterdir()} == {"teas.csv", "teas.db"}


def test_the_demo(ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = NoServer.started
    assert "20 items" in ask("--demo").stderr
    assert (tmp_path / "ask-demo.ask").is_file()
    assert NoServer.started == before + 1


def test_a_network_needs_names(ask, items):
    assert "--names" in ask(items, "--host", "0.0.0.0", ok=False)
    assert "--host" in ask(items, "--names", "here", ok=False)
    result = ask(items, "--host", "0.0.0.0", "--names", "here.example")
    assert "http://here.example:" in result.stdout
    assert "not encrypted" in result.stderr


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "ITEMS, or --demo"),
        (["ITEMS", "--demo"], "and not both"),
        (["ITEMS", "--goal", "all"], "order, top, best"),
        (["ITEMS", "--goal", "best", "--top", "3"], "--goal top"),
        (["ITEMS", "--sure", "2"], "sure"),
        (["ITEMS", "--id", "none"], "no column 'none'"),
        (["ITEMS", "--features", "id"], "not a finite number"),
        (["ITEMS", "--session", "ITEMS"], "not a session"),
        (["none.csv"], "does not exist"),
    ],
)
def test_what_is_refused(ask, items, tmp_path, given, words):
    given = [str(items) if word == "ITEMS" else word for word in given]
    assert words in ask(*given, ok=False)
    assert [path.name for path in tmp_path.iterdir()] == ["teas.csv"]  # nothing half-written


def test_a_missing_extra_is_named(ask, items, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'rankwise[ask]'" in ask(items, ok=False)
