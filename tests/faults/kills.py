"""Programs that are killed at random moments, and disks that are full at any byte.

    python -m tests.faults.kills 100

Children are forked from this process, which has imported everything and has a single thread.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from rankwise import RankRLS, load_model, save_model
from rankwise.cli.main import app
from rankwise.data import make_ranking, write_letor
from tests.bilinear_texts import ranker, texts

Task = Callable[[], None]


def tasks(folder: Path) -> dict[str, tuple[Path, Task, Callable[[], object]]]:
    """For each: the file that it writes, what is done, and how the file is read."""
    data = make_ranking(30, rows_per_query=(5, 9), n_features=5, random_state=0)
    write_letor(folder / "train.txt", data.X, data.y, data.qid)
    saved = RankRLS(1.0, kernel="rbf").fit(data.X, data.y, qid=data.qid)
    X, labels = texts()
    model, run, out, tuned = (folder / name for name in ("saved", "run.npz", "fitted", "tuned"))

    def command(*arguments: object) -> Task:
        def task() -> None:
            result = CliRunner().invoke(app, [*map(str, arguments), "--force"])
            assert result.exit_code in (0, 2), result.output

        return task

    def save() -> None:
        for _ in range(20):
            save_model(saved, model)

    def fit() -> None:
        ranker(refit=False).fit_classes(X, labels, checkpoint=run, checkpoint_every=30)

    def resumed() -> object:
        return ranker(refit=False).fit_classes(X, labels, checkpoint=run).coef_.toarray()

    train = folder / "train.txt"
    return {
        "save": (model, save, lambda: load_model(model).dual_coef_),
        "checkpoint": (run, fit, resumed),
        "fit": (out, command("fit", train, "-o", out), lambda: load_model(out).coef_),
        "tune": (tuned, command("tune", train, "-o", tuned), lambda: load_model(tuned).coef_),
    }


def in_child(task: Task, before: Task = lambda: None) -> int:
    """Fork a process that does a task; its number."""
    child = os.fork()
    if child:
        return child
    with contextlib.suppress(BaseException), contextlib.redirect_stderr(io.StringIO()):
        before()
        task()
    os._exit(0)


def full_disk(n_bytes: int) -> Task:
    """No file grows beyond some bytes, as on a disk that is full."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))

    return limit


def temporary(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.endswith(".tmp")]


def main(n_kills: int, seed: int = 0) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, (path, task, read) in tasks(folder).items():
            os.waitpid(in_child(task), 0)  # compiles what is not in the cache
            begin = time.perf_counter()
            os.waitpid(in_child(task), 0)
            whole = time.perf_counter() - begin
            want, n_ended = read(), 0
            for _ in range(n_kills):
                if what == "checkpoint":  # one that is complete leaves nothing to do
                    path.unlink(missing_ok=True)
                child = in_child(task)
                time.sleep(rng.uniform(0, whole))
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                n_ended += os.WIFEXITED(status)
                if path.exists() or what != "checkpoint":
                    np.testing.assert_allclose(read(), want)
            for n_bytes in (0, 100, 1000, 5000):
                content = path.read_bytes()
                os.waitpid(in_child(task, full_disk(n_bytes)), 0)
                if content != path.read_bytes():
                    np.testing.assert_allclose(read(), want)
            os.waitpid(in_child(task), 0)
            np.testing.assert_allclose(read(), want)
            assert not temporary(folder), temporary(folder)
            print(f"{what}: {n_kills} kills ({n_ended} came too late), 4 full disks", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
