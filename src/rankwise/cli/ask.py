"""rankwise ask: a page that asks which of two items is better."""

from __future__ import annotations

import shlex
import socket
import webbrowser
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from rankwise.cli.options import Count, InputFile, grouped, refuse, refuse_all, split_names
from rankwise.cli.terminal import complain, note
from rankwise.errors import MissingExtraError
from rankwise.tables import plural

if TYPE_CHECKING:
    from rankwise.asking import Goal, Session
    from rankwise.asking.log import Log

PORT = 8642
DEMO, TYPED = Path("ask-demo.ask"), Path("ranking.ask")
NEEDED = ("starlette", "jinja2", "uvicorn", "python_multipart", "markdown_it", "segno")


@dataclass(frozen=True)
class GoalOptions:
    """When enough has been asked.

    Parameters
    ----------
    goal : GOAL, default=order
        order: the whole order. top: the best N, with --top. best: the best one.
    top : N, default=10
        Number of best items.
    wrong : SHARE, default=0.05, or 0
        How much may be wrong: a share of pairs, or a number of the N best.
    sure : P, default=0.95
        Probability that the goal is reached.
    """

    panel: ClassVar = "Goal"
    goal: Literal["order", "top", "best"] | None = None
    top: Count = None
    wrong: Annotated[float | None, typer.Option(min=0)] = None
    sure: float | None = None

    def make(self) -> Goal | None:
        """The goal; None if no option was given."""
        from rankwise.asking import Goal

        goal = "top" if self.goal is None and self.top is not None else self.goal
        if goal != "top" and self.top is not None:
            refuse("top", "It is for --goal top.")
        if goal is None and self.wrong is None and self.sure is None:
            return None
        values: dict[str, Any] = {} if self.sure is None else {"sure": self.sure}
        if goal in ("top", "best"):
            values |= {"kind": "top", "k": 1 if goal == "best" else self.top or 10}
        return Goal(wrong=self.wrong, **values)


@dataclass(frozen=True)
class ItemColumns:
    """The columns of ITEMS.

    Parameters
    ----------
    id : COLUMN, default=id, item, name, ...
        Names of items.
    text : COLUMN, default=markdown, text, title, ...
        Texts of items.
    image : COLUMN, default=image, picture, ...
        Files of images.
    features : COLUMN,..., default=none
        Numbers that the ranking may depend on, or all.
    embeddings : FILE, default=none
        A matrix with a row for each item, as .npy, .npz or .csv.
    """

    panel: ClassVar = "Items"
    id: str | None = None
    text: str | None = None
    image: str | None = None
    features: str | None = None
    embeddings: InputFile = None

    def read(self, path: Path, keep_file: Any) -> list[Any]:
        """The items of a table or folder."""
        from rankwise.asking.items import read_items

        return read_items(
            path,
            keep_file,
            id_column=self.id,
            text_column=self.text,
            image_column=self.image,
            features=split_names(self.features) or [],
            embeddings=self.embeddings,
        )


@dataclass(frozen=True)
class ServerOptions:
    """The address of the page.

    Parameters
    ----------
    port : N
        Port of the page; 0: any.
    host : ADDRESS
        Address to listen at. An address other than the default needs --names.
    names : NAME,..., default=this machine only
        Names under which other machines reach this one.
    browser : FLAG
        Open the page.
    """

    panel: ClassVar = "Page"
    port: Annotated[int, typer.Option(min=0, max=65535)] = PORT
    host: str = "127.0.0.1"
    names: str | None = None
    browser: bool = True

    def hosts(self) -> list[str]:
        """Names that are allowed in requests."""
        local = ["127.0.0.1", "localhost", "::1"]
        others = split_names(self.names)
        if self.host in local:
            if others:
                refuse(
                    "names", "They need --host: without it, only this machine can open the page."
                )
            return ["127.0.0.1", "localhost", "[::1]", "::1"]
        if not others:
            refuse(
                "host",
                f"At {self.host}, other machines can reach the page. Name this machine as they "
                f"call it, as in --names {own_address()}.",
            )
        return [*local, *others]


def own_address() -> str:
    """The address of this machine in its network; an example where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # chooses a way, and sends nothing
        return str(probe.getsockname()[0])
    return "192.168.1.5"


def strategy_words() -> list[str]:
    """The names of all strategies, for shells that complete words."""
    from rankwise.estimators.pair_strategies import STRATEGIES

    return ["goal", *STRATEGIES]


@grouped
def ask(
    *,
    items: Annotated[Path | None, typer.Argument(exists=True)] = None,
    session: Path | None = None,
    question: str | None = None,
    advice: str | None = None,
    both_bad: bool = False,
    strategy: Annotated[str, typer.Option(autocompletion=strategy_words)] = "goal",
    raters: str | None = None,
    demo: bool = False,
    goal: GoalOptions,
    columns: ItemColumns,
    server: ServerOptions,
) -> None:
    """Rank anything by answering which of two items is better, in a browser.

    Opens a page on this machine. Without ITEMS, you type or paste the items there, or drop a table
    or pictures. The page asks about the most informative pairs, shows the progress towards the
    goal, and stops when the goal is reached. Keys: the arrows left and right for the
    better one, down for a tie, S to skip, U to undo. The organizer's page shows the ranking with
    intervals, links for other raters, all answers, and files to save.

    Every answer is on the disk before the next question appears. Start the same command again to
    continue. If ITEMS was edited meanwhile, the command prints what differs: it adds new items and
    features, and no longer asks about items that are gone. Nothing leaves this machine. Ctrl-C and
    SIGTERM stop the command with exit code 0.

    \b
    Examples:
      rankwise ask
      rankwise ask --demo
      rankwise ask ideas.csv --goal top --top 5 --question "Which idea should we build?"
      rankwise ask photos/ --raters Ann,Bob
      rankwise ask essays.parquet --embeddings vectors.npy

    Parameters
    ----------
    items : ITEMS
        CSV, JSON or Parquet file, list (.txt), folder of images or texts, or session.
    session : FILE, default=ITEMS with the ending .ask, or ranking.ask
        File that stores all answers.
    question : TEXT, default="Which one is better?"
        What to ask.
    advice : TEXT, default=none
        Criteria, always on the page, in Markdown.
    both_bad : FLAG
        Let raters answer "both are bad".
    strategy : NAME
        What chooses the next pair: goal, bald, eubo, thompson or random.
    raters : NAME,..., default=none
        Print a personal link for each of them.
    demo : FLAG
        Try it with generated patterns.
    """
    if demo and items is not None:
        refuse("demo", "Give ITEMS, or --demo, and not both.")
    hosts = server.hosts()
    wanted = goal.make()
    for package in NEEDED:
        if find_spec(package) is None:
            raise MissingExtraError(package, "ask")
    from rankwise.asking.web.app import listening_socket, make_app, make_server
    from rankwise.asking.web.guards import Doorkeeper, NoItemsYet

    path, people = _path(items, session, demo), split_names(raters) or []
    settings: dict[str, Any] = {"goal": wanted, "question": question, "advice": advice}
    settings["both_bad"] = both_bad or None
    typed = items is None and not demo
    listening = listening_socket(server.host, server.port)
    with closing(listening), ExitStack() as running:
        found: Session | None = None
        if not typed or _is_begun(path):
            found = _open(path if typed else items, path, columns, settings, strategy, people)
            running.enter_context(found)
        else:
            refuse_all(vars(columns), "Columns and embeddings are for ITEMS: name a file.")
        unknown = NoItemsYet()
        name = (split_names(server.names) or [server.host])[0]
        start = f"http://{name}:{listening.getsockname()[1]}/start?token="
        door = Doorkeeper(found or unknown)
        print(f"organizer  {start}{door.organizer_key}", flush=True)

        def begin(made: list[Any], pictures: Log, words: str, aim: Goal) -> Session:
            """The session of items from the page."""
            given = {**settings, "question": words or question, "goal": wanted or aim}
            typed = unknown.secret, made, pictures
            new = _open(path, path, columns, given, strategy, people, typed)
            running.enter_context(new)
            show_links(new)
            return new

        def show_links(known: Session) -> None:
            for person in known.raters:
                if person.name != door.ORGANIZER and not person.dropped:
                    print(f"{person.name}  {start}{person.key}", flush=True)

        if found is not None:
            show_links(found)
        if server.names:
            complain(
                "warning",
                f"Everyone who can reach {server.host} and has a link can take part, and what is "
                "sent is not encrypted: use it in a private network.",
            )
        so_far = "The page asks for items."
        if found is not None:
            n_items, n_answers = len(found.items), found.n_answers()
            so_far = f"{plural(n_items, 'item')}, {plural(n_answers, 'answer')} so far."
        note(f"{so_far} Ctrl-C stops.")
        if server.browser:  # all users of this machine can read its command line
            webbrowser.open(f"{start}{door.one_time_key()}")
        # SIGTERM is one, too: a server that stops when it is told to has not failed.
        with suppress(KeyboardInterrupt):
            app = make_app(
                found, hosts=hosts, door=door, begin=begin,
                elsewhere=f"rankwise ask {shlex.quote(str(path))} --host 0.0.0.0 "
                f"--names {own_address()}",
            )  # fmt: skip
            make_server(app).run(sockets=[listening])
        kept = f"All answers are in {path}." if path.exists() else "Nothing was written."
        note(f"Stopped. {kept}", wrap=False)


def _is_begun(path: Path) -> bool:
    """Whether there is a session to go on with; a program may have been killed before."""
    from rankwise.asking.log import Log, is_session_file

    if not is_session_file(path):
        return path.exists() and path.stat().st_size > 0  # refused later
    with closing(Log(path)) as log:
        return any(entry.kind == "items" for entry in log.entries())


def _open(
    items: Path | None,
    path: Path,
    columns: ItemColumns,
    settings: dict[str, Any],
    strategy: str,
    raters: list[str],
    typed: tuple[str, list[Any], Log] | None = None,
) -> Session:
    """The session of a file, with the items that were given; None: the demo.

    Items may be `typed` on the page: the key of links that are known already, the items, and their
    pictures. If the session is refused, a new file does not stay.
    """
    from rankwise.asking import Session
    from rankwise.asking.items import demo_items, demo_settings
    from rankwise.asking.log import Log, is_session_file

    if items == path:
        refuse_all(vars(columns), f"{items} is an earlier session: its items are known.")
    if path.exists() and path.stat().st_size and not is_session_file(path):
        refuse("session", f"{path} is not a session: give another file.")
    log = Log(path)
    try:
        made = None
        if typed is not None:
            secret, made, pictures = typed
            log.append("session", {"secret": secret})
            log.take_files(pictures, {item.image for item in made})
        elif items is None:
            made = demo_items(log.put_file)
            given = {name: value for name, value in settings.items() if value is not None}
            settings = demo_settings() | given
        elif items != path:
            made = columns.read(items, log.put_file)
        started = any(entry.kind == "items" for entry in log.entries())
        if items is None or not started:
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
    if items is None:
        return DEMO if demo else TYPED
    if items.is_dir():
        resolved = items.resolve()
        return resolved.with_name(f"{resolved.name}.ask")
    return items.with_suffix(".ask")
