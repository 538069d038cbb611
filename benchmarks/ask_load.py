"""Ten raters at once on the page that asks: answers a second, waiting times, nothing lost.

Usage: python -m benchmarks.ask_load [seconds [pause]], where a rater pauses for so many seconds on
average before the next answer (default 0).
"""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.pool import ThreadPool
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import numpy as np

from rankwise.asking import Session

N_ITEMS, N_RATERS, SECONDS = 200, 10, 60.0
_TOKEN = re.compile(r'name="token" value="([^"]+)"')
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')
_NAMES = re.compile(r'<h2 id="(?:first|second)-heading">item (\d+)</h2>')


@contextmanager
def page(folder: Path) -> Iterator[tuple[int, list[str]]]:
    """A page that asks, in a process of its own; gives its id, and the links of raters."""
    items = folder / "items.csv"
    items.write_text("id\n" + "".join(f"item {k}\n" for k in range(N_ITEMS)))
    raters = ",".join(f"rater {k}" for k in range(N_RATERS))
    command = [sys.executable, "-m", "rankwise.cli.main", "ask", str(items), "--no-browser"]
    process = subprocess.Popen(
        [*command, "--port", "0", "--raters", raters], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    links = [process.stdout.readline().split()[-1] for _ in range(N_RATERS + 1)]
    try:
        yield process.pid, links[1:]
    finally:
        process.terminate()
        process.wait()


def rate(link: str, seed: int, seconds: float, pause: float) -> tuple[list[float], list[str]]:
    """Answer for some time: how long each answer took, and the tokens of those confirmed."""
    parts = urlsplit(link)
    rng = np.random.default_rng(seed)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    connection.request("GET", f"{parts.path}?{parts.query}")
    response = connection.getresponse()
    response.read()
    headers = {"Cookie": (response.getheader("set-cookie") or "").partition(";")[0]}
    connection.request("GET", "/", headers=headers)
    text = connection.getresponse().read().decode()
    headers |= {"HX-Request": "true", "Content-Type": "application/x-www-form-urlencoded"}
    times, tokens = [], []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        token, csrf, names = _TOKEN.search(text), _CSRF.search(text), _NAMES.findall(text)
        assert token is not None, text
        assert csrf is not None
        better = int(names[0]) - int(names[1]) + 20 * rng.standard_normal() > 0
        body = {"token": token[1], "csrf": csrf[1], "outcome": "first" if better else "second"}
        begin = time.perf_counter()
        connection.request("POST", "/answer", urlencode(body), headers)
        response = connection.getresponse()
        text = response.read().decode()
        times.append(time.perf_counter() - begin)
        assert response.status == 200, text
        tokens.append(token[1])
        time.sleep(rng.exponential(pause))
    return times, tokens


def cpu_seconds(process: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(seconds: float = SECONDS, pause: float = 0.0) -> None:
    with tempfile.TemporaryDirectory() as name:
        with page(Path(name)) as (process, links), ThreadPool(N_RATERS) as pool:
            before = cpu_seconds(process)
            given = [(link, k, seconds, pause) for k, link in enumerate(links)]
            found = pool.starmap(rate, given)
            spent = cpu_seconds(process) - before
        times = np.concatenate([times for times, _ in found])
        confirmed = [token for _, tokens in found for token in tokens]
        with Session(path=Path(name, "items.ask")) as session:
            saved = [entry.token for entry in session.log.entries() if entry.kind == "answer"]
        lost, double = set(confirmed) - set(saved), len(saved) - len(set(saved))
        share = np.quantile(times, (0.5, 0.95, 0.99))
        load = os.getloadavg()[0]
        print(f"{len(times) / seconds:.1f} answers a second (load of the machine: {load:.1f})")
        print(f"{spent / seconds:.2f} cores used by the page")
        print("50%, 95%, 99% under", ", ".join(f"{1000 * t:.0f} ms" for t in share))
        print(f"{len(confirmed)} confirmed, {len(saved)} saved, {len(lost)} lost, {double} double")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
