"""rankwise ask under load: how long pages and answers take, how soon it ends, what is lost."""

from __future__ import annotations

import http.client
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np

from benchmarks.harness import Result
from rankwise.asking import Session

SECONDS = 30.0
PAUSE = 1.0  # seconds, on average, before a rater gives the next answer
POLL = 5.0  # seconds after which the page of the organizer is loaded again, as it does by itself
_TOKEN = re.compile(r'name="token" value="([^"]+)"')
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')
_NAMES = re.compile(r'<h2 id="(?:first|second)-heading">item (\d+)</h2>')


class Visitor:
    """A browser that came in by a link."""

    def __init__(self, link: str) -> None:
        parts = urlsplit(link)
        self.connection = http.client.HTTPConnection(parts.netloc, timeout=300)
        response, _ = self.send("GET", f"{parts.path}?{parts.query}", headers={})
        cookie = (response.getheader("set-cookie") or "").partition(";")[0]
        self.headers = {
            "Cookie": cookie,
            "HX-Request": "true",
            "Content-Type": "application/x-www-form-urlencoded",
        }

    def send(self, method: str, path: str, body: Any = None, headers: Any = None) -> Any:
        given = self.headers if headers is None else headers
        self.connection.request(method, path, body, given)
        response = self.connection.getresponse()
        text = response.read().decode()
        self.connection.close()  # the server does so after some seconds
        return response, text

    def timed(self, method: str, path: str, body: Any = None) -> tuple[float, str]:
        """How long a request took, and the page; an error if it is not a page."""
        begin = time.perf_counter()
        response, text = self.send(method, path, body)
        assert response.status == 200, text
        return time.perf_counter() - begin, text


@dataclass(frozen=True)
class Load:
    """What was measured."""

    first_page: float  # seconds from the start of the command
    answers: Any  # seconds for each answer
    organizer: list[float]
    end: float  # seconds from SIGTERM to the end of all processes
    wrong: int  # answers that were confirmed and are not saved, or are saved twice


def measure(n_items: int, n_raters: int, seconds: float = SECONDS, pause: float = PAUSE) -> Load:
    """Start the command, let raters answer for some time, and end it."""
    with tempfile.TemporaryDirectory() as name:
        items = Path(name, "items.csv")
        items.write_text("id\n" + "".join(f"item {k}\n" for k in range(n_items)))
        raters = ",".join(f"rater {k}" for k in range(n_raters))
        command = [sys.executable, "-m", "rankwise.cli.main", "ask", str(items), "--no-browser"]
        begin = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--port", "0", "--raters", raters],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            organizer, *links = [process.stdout.readline().split()[-1] for _ in range(n_raters + 1)]
            assert "item " in Visitor(links[0]).timed("GET", "/")[1]
            first_page = time.perf_counter() - begin
            ended = Event()
            with ThreadPool(n_raters + 1) as pool:
                watching = pool.apply_async(watch, (organizer, ended))
                given = [(link, k, seconds, pause) for k, link in enumerate(links)]
                found = pool.starmap(rate, given)
                ended.set()
                polled = watching.get()
            end = ended_after(process)
        finally:
            process.kill()
            process.wait()
        with Session(path=items.with_suffix(".ask")) as session:
            saved = [entry.token for entry in session.log.entries() if entry.kind == "answer"]
    confirmed = {token for _, tokens in found for token in tokens}
    wrong = len(confirmed - set(saved)) + len(saved) - len(set(saved))
    return Load(first_page, np.concatenate([times for times, _ in found]), polled, end, wrong)


def rate(link: str, seed: int, seconds: float, pause: float) -> tuple[list[float], list[str]]:
    """Answer for some time: how long each answer took, and the tokens of those confirmed."""
    visitor, rng = Visitor(link), np.random.default_rng(seed)
    _, text = visitor.timed("GET", "/")
    times, tokens = [], []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        token, csrf, names = _TOKEN.search(text), _CSRF.search(text), _NAMES.findall(text)
        assert token is not None, text
        assert csrf is not None
        better = int(names[0]) - int(names[1]) + 20 * rng.standard_normal() > 0
        body = {"token": token[1], "csrf": csrf[1], "outcome": "first" if better else "second"}
        time.sleep(rng.exponential(pause))
        took, text = visitor.timed("POST", "/answer", urlencode(body))
        times.append(took)
        tokens.append(token[1])
    return times, tokens


def watch(link: str, ended: Event) -> list[float]:
    """Load the page of the organizer now and then: how long it took."""
    visitor, times = Visitor(link), []
    while not ended.wait(POLL if times else 0.0):
        times.append(visitor.timed("GET", "/organizer/live")[0])
    return times


def ended_after(process: subprocess.Popen[str]) -> float:
    """Send SIGTERM; seconds until the process and its children have ended."""
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    others = [number for task in tasks for number in task.read_text().split()]
    assert others
    begin = time.perf_counter()
    process.send_signal(signal.SIGTERM)
    process.wait()
    while any(Path(f"/proc/{number}").exists() for number in others):
        time.sleep(0.01)
    return time.perf_counter() - begin


def cases() -> list[Result]:
    out = []

    def claim(words: str, value: float, limit: float, show: Callable[[float], str]) -> None:
        out.append(Result(words, show(value), f"{show(limit)} wanted", value / limit, 1.0))

    def milliseconds(value: float) -> str:
        return f"{1000 * value:.0f} ms"

    def seconds(value: float) -> str:
        return f"{value:.2f} s"

    for n_items, n_raters, limit in ((200, 10, 0.15), (1000, 10, 0.15), (5000, 10, 0.15),
                                     (200, 50, 0.3)):  # fmt: skip
        found = measure(n_items, n_raters)
        what = f"{n_items} items, {n_raters} raters"
        assert not found.wrong, what
        claim(f"{what}: first page", found.first_page, 3.0, seconds)
        n = len(found.answers)
        slow = float(np.quantile(found.answers, 0.95))
        claim(f"{what}: 95% of {n} answers", slow, limit, milliseconds)
        claim(f"{what}: longest of the organizer's pages", max(found.organizer), 1.0, seconds)
        claim(f"{what}: all processes end after SIGTERM", found.end, 2.0, seconds)
    return out
