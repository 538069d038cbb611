"""rankwise ask: a page that asks which of two items is better."""

from __future__ import annotations

import webbrowser
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwise.cli.options import grouped, option, refuse
from rankwise.cli.terminal import complain, note
from rankwise.errors import MissingExtraError
from rankwise.tables import plural

if TYPE_CHECKING:
    from rankwise.asking import Goal, Session

GOALS = ("order", "top", "best")
PORT = 8642
DEMO = Path("ask-demo.ask")
NEEDED = ("starlette", "jinja2", "uvicorn", "python_multipart", "markdown_it")


@dataclass(frozen=True)
class GoalOptions:
    """When enough has been asked."""

    goal: Annotated[
        str | None,
        option(
            "GOAL",
            "order: the whole order. top: the best N, given --top. best: the best one.",
            "order",
            rich_help_panel="Goal",
            autocompletion=lambda: GOALS,
        ),
    ] = None
    top: Annotated[
        int | None, option("N", "How many are the best.", "10", min=1, rich_help_panel="Goal")
    ] = None
    wrong: Annotated[
        float | None,
        option(
            "SHARE",
            "What may be wrong: a share of pairs, or a number of the N best.",
            "0.05, or 0",
            min=0,
            rich_help_panel="Goal",
        ),
    ] = None
    sure: Annotated[
        float | None,
        option("P", "How sure to be of that.", "0.95", rich_help_panel="Goal"),
    ] = None

    def make(self) -> Goal | None:
        """The goal; None if no option was given."""
        from rankwise.asking import Goal

        if self.goal is not None and self.goal not in GOALS:
            refuse("goal", f"Choose from {', '.join(GOALS)}: got {self.goal!r}.")
        values: dict[str, Any] = {"wrong": self.wrong}
        if self.sure is not None:
            values["sure"] = self.sure
        if self.goal == "top" or (self.goal is None and self.top is not None):
            return Goal("top", k=self.top or 10, **values)
        if self.top is not None:
            refuse("top", "It is for --goal top.")
        if self.goal == "best":
            return Goal("top", k=1, **values)
        if self.goal == "order" or self.wrong is not None or self.sure is not None:
            return Goal(**values)
        return None


@dataclass(frozen=True)
class ItemColumns:
    """What the columns of ITEMS are."""

    id: Annotated[
        str | None,
        option("COLUMN", "Names of items.", "id, item, name, ...", rich_help_panel="Items"),
    ] = None
    text: Annotated[
        str | None,
        option("COLUMN", "Their texts.", "markdown, text, title, ...", rich_help_panel="Items"),
    ] = None
    image: Annotated[
        str | None,
        option("COLUMN", "Files of images.", "image, picture, ...", rich_help_panel="Items"),
    ] = None
    features: Annotated[
        str | None,
        option(
            "COLUMN,...",
            "Numbers that the ranking may depend on, or all.",
            "none",
            rich_help_panel="Items",
        ),
    ] = None
    embeddings: Annotated[
        Path | None,
        option(
            "FILE",
            "A matrix with a row for each item, as .npy, .npz or .csv.",
            "none",
            exists=True,
            dir_okay=False,
            rich_help_panel="Items",
        ),
    ] = None

    def read(self, path: Path, keep_file: Any) -> list[Any]:
        """The items of a table or folder."""
        from rankwise.asking.items import read_items

        return read_items(
            path,
            keep_file,
            id_column=self.id,
            text_column=self.text,
            image_column=self.image,
            features=_listed(self.features),
            embeddings=self.embeddings,
        )

    def given(self) -> str | None:
        """The name of an option that was given."""
        return next((name for name, value in vars(self).items() if value is not None), None)


@dataclass(frozen=True)
class ServerOptions:
    """Where the page is."""

    port: Annotated[
        int, option("N", "Port of the page; 0: any.", min=0, max=65535, rich_help_panel="Page")
    ] = PORT
    host: Annotated[
        str,
        option("ADDRESS", "Address to listen at. Others need --names.", rich_help_panel="Page"),
    ] = "127.0.0.1"
    names: Annotated[
        str | None,
        option(
            "NAME,...",
            "Names by which other machines call this one.",
            "this machine only",
            rich_help_panel="Page",
        ),
    ] = None
    browser: Annotated[
        bool,
        typer.Option("--browser/--no-browser", help="Open the page.", rich_help_panel="Page"),
    ] = True

    def hosts(self) -> list[str]:
        """Names that are allowed in requests."""
        local = ["127.0.0.1", "localhost", "::1"]
        others = _listed(self.names)
        if self.host in local:
            if others:
                refuse(
                    "names", "They need --host: without it, only this machine can open the page."
                )
            return ["127.0.0.1", "localhost", "[::1]", "::1"]
        if not others:
            refuse(
                "host",
                f"At {self.host}, other machines can reach the page. Say by which names they call "
                "this one, as in --names myhost.example,192.168.1.5.",
            )
        return [*local, *others]


def strategy_words() -> list[str]:
    """The names of all strategies, for shells that complete words."""
    from rankwise.estimators.pair_strategies import STRATEGIES

    return ["goal", *STRATEGIES]


@grouped
def ask(
    items: Annotated[
        Path | None,
        typer.Argument(
            metavar="ITEMS",
            exists=True,
            help="CSV, JSON or Parquet file, list (.txt), folder of images or texts, or session.",
        ),
    ] = None,
    *,
    session: Annotated[
        Path | None,
        option("FILE", "File that keeps all answers.", "ITEMS with the ending .ask"),
    ] = None,
    question: Annotated[
        str | None, option("TEXT", "What to ask.", '"Which one is better?"')
    ] = None,
    advice: Annotated[
        str | None, option("TEXT", "Criteria, always on the page, in Markdown.", "none")
    ] = None,
    both_bad: Annotated[
        bool, typer.Option("--both-bad", help='Let raters answer "both are bad".')
    ] = False,
    strategy: Annotated[
        str,
        option(
            "NAME",
            "What chooses the next pair: goal, bald, eubo, thompson or random.",
            autocompletion=strategy_words,
        ),
    ] = "goal",
    raters: Annotated[
        str | None, option("NAME,...", "Print a personal link for each of them.", "none")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Try it with generated patterns.")] = False,
    goal: GoalOptions,
    columns: ItemColumns,
    server: ServerOptions,
) -> None:
    """Rank anything by answering which of two is better, in a browser.

    Opens a page on this machine. It asks the pairs whose answers say most, shows how far the goal
    is, and says when enough has been asked. Keys: the arrows left and right for the better one,
    down for a tie, S to skip, U to undo. The organizer's page has the ranking with intervals,
    links for other raters, all answers, and files to save.

    Every answer is on the disk before the page goes on. Start the same command again to continue.
    If ITEMS was edited meanwhile, it says what differs: new items and features are taken up, and
    items that are gone are no longer asked about. Nothing leaves this machine. Ctrl-C and SIGTERM
    stop it, with exit code 0.

    \b
    Examples:
      rankwise ask --demo
      rankwise ask ideas.csv --goal top --top 5 --question "Which idea should we build?"
      rankwise ask photos/ --raters Ann,Bob
      rankwise ask essays.parquet --embeddings vectors.npy
    """
    if demo == (items is not None):
        refuse("demo", "Give ITEMS, or --demo, and not both.")
    hosts = server.hosts()
    wanted = goal.make()
    _check_installed()
    from rankwise.asking.web.app import listening_socket, make_app, make_server
    from rankwise.asking.web.guards import Doorkeeper

    path = _path(items, session, demo)
    asked = {"question": question, "advice": advice, "both_bad": both_bad or None}
    settings = {"goal": wanted, **asked}
    listening = listening_socket(server.host, server.port)
    with (
        closing(listening),
        _open(items, path, columns, settings, strategy, _listed(raters)) as found,
    ):
        name = _listed(server.names)[0] if server.names else server.host
        address = f"http://{name}:{listening.getsockname()[1]}"
        door = Doorkeeper(found)
        start = f"{address}/start?token="
        print(f"organizer  {start}{door.organizer_key}", flush=True)
        for person in found.raters:
            if person.name != door.ORGANIZER and not person.dropped:
                print(f"{person.name}  {start}{person.key}", flush=True)
        if server.names:
            complain(
                "warning",
                f"Everyone who can reach {server.host} and has a link can take part, and what is "
                "sent is not encrypted: use it in a network that you trust.",
            )
        note(
            f"{plural(len(found.items), 'item')}, {plural(found.n_answers(), 'answer')} so far. "
            "Ctrl-C stops."
        )
        if server.browser:  # all users of this machine can read its command line
            webbrowser.open(f"{start}{door.one_time_key()}")
        with suppress(
            KeyboardInterrupt
        ):  # SIGTERM, too: a server that is told to stop did its work
            make_server(make_app(found, hosts=hosts, door=door)).run(sockets=[listening])
        note(f"Stopped. All answers are in {path}.", wrap=False)


def _open(
    items: Path | None,
    path: Path,
    columns: ItemColumns,
    settings: dict[str, Any],
    strategy: str,
    raters: list[str],
) -> Session:
    """The session of a file, with the items that were given; None: the demo.

    If it is refused, a new file does not stay.
    """
    from rankwise.asking import Session
    from rankwise.asking.items import demo_items, demo_settings
    from rankwise.asking.log import Log, is_session_file

    option_given = columns.given()
    if items == path and option_given is not None:
        refuse(option_given, f"{items} is an earlier session: its items are known.")
    if path.exists() and path.stat().st_size and not is_session_file(path):
        refuse("session", f"{path} is not a session: give another file.")
    log = Log(path)
    try:
        made = None
        if items is None:
            made = demo_items(log.put_file)
            given = {name: value for name, value in settings.items() if value is not None}
            settings = demo_settings() | given
        elif items != path:
            made = columns.read(items, log.put_file)
        if items is None or not log.entries():
            found = Session(made, log=log, strategy=strategy, **settings)
        else:
            found = Session(log=log, strategy=strategy)
            if made is not None:
                for sentence in found.set_items(made).sentences():
                    note(f"{items} was edited. {sentence}")
            found.configure(**settings)
        for rater in raters:
            found.add_rater(rater)
        return found
    except BaseException:
        log.discard()
        raise


def _path(items: Path | None, session: Path | None, demo: bool) -> Path:
    """The file that keeps the answers."""
    from rankwise.asking.log import is_session_file

    if items is not None and is_session_file(items):
        if session is not None:
            refuse("session", f"{items} is already a session: leave --session out to continue it.")
        return items
    if session is not None:
        return session
    if demo or items is None:
        return DEMO
    if items.is_dir():
        resolved = items.resolve()
        return resolved.with_name(f"{resolved.name}.ask")
    return items.with_suffix(".ask")


def _check_installed() -> None:
    from importlib.util import find_spec

    for package in NEEDED:
        if find_spec(package) is None:
            raise MissingExtraError(package, "ask")


def _listed(names: str | None) -> list[str]:
    return [name.strip() for name in (names or "").split(",") if name.strip()]
