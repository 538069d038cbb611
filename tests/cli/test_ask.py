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
    monkeypatch.setattr("rankwise.asking.web.app.make_server", lambda app: NoServer())
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
    more = ask(items)
    assert links["Ann"] in more.stdout  # links stay as they are
    assert "New: matcha. Asked about from now on." in more.stderr
    assert "4 items, 1 answer so far" in more.stderr
    assert "was edited" not in ask(items).stderr
    assert "4 items" in ask(tmp_path / "teas.ask", "--goal", "best", "--sure", 0.9).stderr
    with Session(path=tmp_path / "teas.ask") as session:
        assert session.settings.goal == Goal("top", k=1, sure=0.9)


def test_an_edited_table_is_taken_up(ask, items, tmp_path):
    ask(items)
    path = tmp_path / "teas.ask"
    with Session(path=path) as session:
        session.add_items(["from the page"])
        while len(session.counted()) < 6:  # without contradictions, which take long to explain
            question = session.ask()
            later = question.first.id > question.second.id
            session.answer(question.token, "first" if later else "second")
        about = sum("ceylon" in (a.first, a.second) for a in session.answers)
    items.write_text("id,text,price\nassam,dark,3\nsencha,,5\nmatcha,,9\n")
    said = " ".join(ask(items).stderr.split())
    assert f"{items} was edited. New: matcha." in said
    assert "Changed: assam." in said
    assert f"Gone: ceylon. No longer asked about or ranked; {about} answers stay" in said
    assert "sencha" not in said.partition("items, ")[0].replace(str(items), "")
    with Session(path=path) as session:
        ids = ["assam", "sencha", "from the page", "matcha"]
        assert [item.id for item in session.items] == ids
        assert session.items[0].text == "dark"
        assert len(session.answers) == 6
        assert session.n_answers() == 6 - about
        assert set(session.ranking().items) == set(ids)
        for _ in range(3):
            question = session.ask("Ann")
            assert "ceylon" not in (question.first.id, question.second.id)
            session.answer(question.token, "tie")
    assert "'from the page' has 0 features" in ask(items, "--features", "price", ok=False)
    lines = "id,price\nassam,3\nceylon,2\nsencha,5\nmatcha,9\nfrom the page,1\n"
    items.write_text(lines)
    said = " ".join(ask(items, "--features", "price").stderr.split())
    assert "Back: ceylon. Earlier answers count again." in said
    assert "New features: assam, ceylon, sencha, matcha, from the page." in said
    with Session(path=path) as session:
        assert {item.id: item.features for item in session.items}["sencha"] == (5.0,)
        assert session.n_answers() == 9
        session.ranking()
    assert "was edited" not in ask(items).stderr  # features stay, as all other settings do
    items.write_text(lines + "oolong,4\n")
    assert "'oolong' has 0 features" in ask(items, ok=False)
    items.write_text("id\nx\ny\n")
    assert "None of these 2 items is in the session" in ask(items, ok=False)


def test_items_are_given_on_the_page(run, tmp_path, monkeypatch):
    from tests.asking.in_memory import client_of

    class Visited(NoServer):
        """The organizer sends a form while the server runs."""

        def __init__(self, app):
            self.client = client_of(app)

        def run(self, sockets):
            # Not the terminal: the command has printed it, but CliRunner keeps it until the end.
            (link,) = opened
            assert self.client.get(link).headers["location"] == "/organizer"
            self.client.base_url = link.partition("/start")[0]
            assert self.client.get("/organizer").headers["location"] == "/begin"
            page = self.client.get("/begin").text
            csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
            form = {"csrf": csrf, "items": "tea\nmilk\ncoffee", "question": "Which drink?"}
            found = self.client.post("/begin", data=form)
            assert found.headers["location"] == "/organizer"
            assert "Which drink?" in self.client.get("/organizer").text  # by the same cookie
            raise KeyboardInterrupt

    opened = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("rankwise.asking.web.app.make_server", Visited)
    result = run("ask", "--port", 0, "--raters", "Ann", "--goal", "best")
    assert "The page asks for items." in result.stderr
    assert "All answers are in ranking.ask." in result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["organizer", "Ann"]
    with Session(path=tmp_path / "ranking.ask") as session:
        assert [item.id for item in session.items] == ["tea", "milk", "coffee"]
        assert session.settings.goal == Goal("top", k=1)
        keys = [rater.key for rater in session.raters]
    assert keys[-1] in result.stdout
    monkeypatch.setattr("rankwise.asking.web.app.make_server", lambda app: NoServer())
    assert "3 items, 0 answers so far" in run("ask", "--port", 0, "--no-browser").stderr


def test_without_items_nothing_is_written(ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "Stopped. Nothing was written." in ask().stderr
    assert list(tmp_path.iterdir()) == []


def test_the_link_that_a_browser_opens_is_good_for_once(run, items, monkeypatch):
    from tests.asking.in_memory import client_of

    opened, apps = [], []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(
        "rankwise.asking.web.app.make_server", lambda app: apps.append(app) or NoServer()
    )
    printed = run("ask", "--port", 0, items).stdout
    (link,) = opened
    assert link not in printed  # which has the key of the organizer
    client = client_of(apps[0])
    found = client.get(link)
    assert (found.status_code, found.headers["location"]) == (303, "/organizer")
    again = client.get(link)
    assert again.status_code == 403
    assert "for one use" in again.text
    assert client.get(printed.split()[1]).status_code == 303


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


def test_sigterm_ends_a_server_as_ctrl_c_does(ask, items, monkeypatch):
    from rankwise.cli.entry import Terminated

    class Stopped(NoServer):
        def run(self, sockets):
            raise Terminated

    monkeypatch.setattr("rankwise.asking.web.app.make_server", lambda app: Stopped())
    assert ask(items).exit_code == 0


def test_a_strategy_of_the_library(ask, items, monkeypatch):
    from rankwise.estimators.pair_strategies import STRATEGIES

    sessions = []
    monkeypatch.setattr("rankwise.asking.web.app.make_app", lambda s, **more: sessions.append(s))
    for name in STRATEGIES:
        ask(items, "--strategy", name)
        assert sessions[-1].strategy == name


def test_a_network_needs_names(ask, items):
    assert "--names" in ask(items, "--host", "0.0.0.0", ok=False)
    assert "--host" in ask(items, "--names", "here", ok=False)
    result = ask(items, "--host", "0.0.0.0", "--names", "here.example")
    assert "http://here.example:" in result.stdout
    assert "not encrypted" in result.stderr


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--id", "name"], "are for ITEMS: name a file"),
        (["ITEMS", "--demo"], "and not both"),
        (["ITEMS", "--goal", "all"], "'all' is not one of"),
        (["ITEMS", "--goal", "best", "--top", "3"], "--goal top"),
        (["ITEMS", "--sure", "2"], "sure"),
        (["ITEMS", "--top", "3"], "must be less than the number of items"),
        (["ITEMS", "--strategy", "best"], "strategy must be one of goal, bald"),
        (["ITEMS", "--raters", 90 * "x"], "1 to 80 letters"),
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
    monkeypatch.setattr("rankwise.cli.ask.find_spec", lambda name: None)
    assert "pip install 'rankwise[ask]'" in ask(items, ok=False)
