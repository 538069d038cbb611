"""A process that computes the standings of a session, so that its pages never wait."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import Any

from rankwise.asking.log import Entry
from rankwise.asking.next_pair import Pair

_PATIENCE = 5  # by how much the process steps back for others
_PROGRAM = "from rankwise.asking.worker import serve; serve()"


@dataclass(frozen=True)
class Job:
    """What to compute.

    Attributes
    ----------
    entries : list of Entry
        What was added to the log since the last job.
    held : list of pairs
        What raters are looking at.
    n_ahead : int
        How many pairs to choose.
    exactly : bool
        Whether to fit from scratch, unless the last fit was to the same answers.
    reports, model : bool
        Whether reports on raters, or the model itself, are wanted, too.
    """

    entries: Sequence[Entry] = field(repr=False)
    held: Sequence[Pair]
    n_ahead: int
    exactly: bool = False
    reports: bool = False
    model: bool = False


@dataclass(frozen=True, eq=False)
class Done:
    """What came out; or the error, and where it was raised."""

    standing: Any = None
    reports: Any = None
    model: Any = None
    error: str = ""
    trace: str = ""


class Worker:
    """The other end of the process.

    It ends with this one, however that ends, as its input does. It computes with one thread, and
    with low priority: pages come first.
    """

    def __init__(self) -> None:
        one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        path = os.pathsep.join(part for part in sys.path if part)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | one | {"PYTHONPATH": path},
        )

    def do(self, job: Job) -> Done:
        """Wait for a job to be done.

        Raises
        ------
        OSError or EOFError
            If the process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump(job, self._process.stdin)
        self._process.stdin.flush()
        try:
            done: Done = pickle.load(self._process.stdout)
        except Exception as error:  # a result that was cut off raises many things
            raise EOFError("The process ended before its result was complete.") from error
        return done

    def kill(self) -> None:
        """End the process at once; a job that waits for it fails."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Kill the process, and close the pipes, which nobody may be using."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:  # what was not sent
                continue


def serve() -> None:
    """Do jobs from the standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the page
    if hasattr(os, "nice"):
        os.nice(_PATIENCE)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else gets among the results
    jobs: SimpleQueue[Job] = SimpleQueue()
    Thread(target=_read, args=(jobs,), daemon=True).start()
    do = _Computing()
    while True:
        pickle.dump(do(jobs.get()), out)
        out.flush()


def _read(jobs: SimpleQueue[Job]) -> None:
    """Take jobs; end the process, whatever it is doing, when there is nobody to send any."""
    while True:
        try:
            jobs.put(pickle.load(sys.stdin.buffer))
        except Exception:  # a job that was cut off raises many things
            os._exit(0)


class _Computing:
    """A copy of the session's state, and its model."""

    def __init__(self) -> None:
        from rankwise.asking.ledger import Ledger
        from rankwise.asking.running_fit import RunningFit

        self.ledger, self.fit = Ledger(), RunningFit()

    def __call__(self, job: Job) -> Done:
        from rankwise.asking.running_fit import Snapshot

        for entry in job.entries:
            self.ledger.apply(entry)
        try:
            now = Snapshot.of(self.ledger, job.held, job.n_ahead)
            standing = self.fit.standing(now, exactly=job.exactly)
            reports = self.fit.reports(now) if job.reports else None
            return Done(standing, reports, self.fit.model if job.model else None)
        except Exception as error:
            return Done(error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
