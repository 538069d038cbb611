"""Programs that are killed at moments spread over their whole run, and disks that are full.

    python -m tests.faults.kills 100

Children are forked from this process, which has imported everything and has a single thread.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from rankwise import RankRLS, load_model, save_model
from rankwise.cli.main import app
from rankwise.data import make_ranking, write_letor
from reproduce import driver
from reproduce.parts import Paper, Part
from tests.bilinear.texts import ranker, texts

Work = Callable[[], None]

RUN = """\
import sys
sys.path[:0] = {path!r}
from pathlib import Path
from reproduce.pages import keep, put_block
here = Path(__file__).parent
for step in range(20):
    keep(here / "results.json", {{f"step {{step}}": list(range(50))}})
    put_block(here / "README.md", "tables", "number " * 2000)
"""


@dataclass(frozen=True)
class Task:
    """What a program does, the files that it writes, and how they are read afterwards.

    `begin` removes what would leave nothing to do. `read` raises an error if a file is not whole,
    and returns what a whole run gives; None if nothing has been written yet.
    """

    name: str
    files: tuple[Path, ...]
    work: Work
    read: Callable[[], object]
    begin: Work = lambda: None


def tasks(folder: Path) -> list[Task]:
    data = make_ranking(30, rows_per_query=(5, 9), n_features=5, random_state=0)
    train = folder / "train.txt"
    write_letor(train, data.X, data.y, data.qid)
    saved = RankRLS(1.0, kernel="rbf").fit(data.X, data.y, qid=data.qid)
    X, labels = texts()
    model, run, out, tuned = (folder / name for name in ("saved", "run.npz", "fitted", "tuned"))

    def command(*arguments: object) -> Work:
        def work() -> None:
            result = CliRunner().invoke(app, [*map(str, arguments), "--force"])
            assert result.exit_code in (0, 2), result.output

        return work

    def save() -> None:
        for _ in range(20):
            save_model(saved, model)

    def fit() -> None:
        ranker(refit=False).fit_classes(X, labels, checkpoint=run, checkpoint_every=10)

    def weights(path: Path) -> Callable[[], object]:
        return lambda: load_model(path).coef_

    def resumed() -> object:
        if not run.exists():
            return None
        return ranker(refit=False).fit_classes(X, labels, checkpoint=run).coef_.toarray()

    return [
        Task("save", (model,), save, lambda: load_model(model).dual_coef_),
        Task("checkpoint", (run,), fit, resumed, lambda: run.unlink(missing_ok=True)),
        Task("fit", (out,), command("fit", train, "-o", out), weights(out)),
        Task(
            "tune", (tuned,), command("tune", train, "-o", tuned), lambda: load_model(tuned).coef_
        ),
        reproduction(folder / "repository"),
    ]


def reproduction(root: Path) -> Task:
    """``python -m reproduce`` in a repository with one experiment, which writes often."""
    here, page = root / "reproduce" / "toy", root / "docs" / "results.md"
    for path in (here, page.parent, root / "src" / "rankwise"):
        path.mkdir(parents=True)
    (here / "run.py").write_text(
        RUN.format(path=[path for path in sys.path if path] + [os.getcwd()])
    )
    (here / "README.md").write_text("# Toy\n")
    part = Part("toy", ("reproduce/toy/run.py",), ("tables",))
    driver.ROOT, driver.PAGE = root, page
    driver.DONE, driver.RUNS = root / ".cache" / "done.json", root / "reproduce" / "runs.json"
    driver.PAPERS = (Paper("toy", "A toy", "About.", "Why.", (part,)),)

    def work() -> None:
        driver.write_page(driver.run_all([], 1, lambda line: None))

    def read() -> object:
        for path in (here / "results.json", driver.DONE, driver.RUNS):
            if path.exists():
                json.loads(path.read_text())
        readme = (here / "README.md").read_text()
        assert readme == "# Toy\n" or readme.endswith("number \n\n<!-- end of tables -->\n"), readme
        if not page.exists():
            return None
        text = page.read_text()
        assert text.startswith("# Results\n"), text[:100]
        assert text.endswith("*\n"), text[-100:]
        return text.count("number")

    return Task("reproduce", (page,), work, read, lambda: driver.DONE.unlink(missing_ok=True))


def in_child(work: Work, before: Work = lambda: None) -> int:
    """Fork a process that does some work, with those that it starts in a group; its number."""
    child = os.fork()
    if child:
        return child
    os.setpgid(0, 0)
    with contextlib.suppress(BaseException), contextlib.redirect_stderr(io.StringIO()):
        before()
        work()
    os._exit(0)


def full_disk(n_bytes: int) -> Work:
    """No file grows beyond some bytes, as on a disk that is full."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))

    return limit


def seconds(task: Task) -> float:
    """How long a whole run takes."""
    task.begin()
    begin = time.perf_counter()
    os.waitpid(in_child(task.work), 0)
    return time.perf_counter() - begin


def check(task: Task, want: object) -> None:
    found = task.read()
    if found is not None:
        np.testing.assert_allclose(found, want)


def kill(task: Task, delay: float) -> bool:
    """Kill a run after a while; whether it was still running."""
    task.begin()
    child = in_child(task.work)
    time.sleep(delay)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def try_kills(task: Task, n_kills: int, rng: random.Random) -> None:
    """Kill runs, one in each part of the time that a run takes."""
    seconds(task)  # compiles what is not in the cache
    whole, n_late = seconds(task), 0
    want = task.read()
    for k in range(n_kills):
        while not kill(task, whole * (k + rng.random()) / n_kills):
            n_late += 1
            check(task, want)
            whole = (whole + seconds(task)) / 2  # other programs come and go
        check(task, want)
    for n_bytes in (0, 100, 1000, 5000):
        os.waitpid(in_child(task.work, full_disk(n_bytes)), 0)
        check(task, want)
    seconds(task)
    np.testing.assert_allclose(task.read(), want)
    left = [path.name for file in task.files for path in file.parent.glob(".*.tmp")]
    assert not left, left
    print(f"{task.name}: {n_kills} kills ({n_late} more came too late), 4 full disks", flush=True)


def main(n_kills: int, names: list[str], seed: int = 0) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        for task in tasks(Path(name)):
            if not names or task.name in names:
                try_kills(task, n_kills, rng)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2:])
