"""A process that computes the standings of a session, so that its pages never wait."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import Any

from rankwise.asking.goals import Pair
from rankwise.asking.item_model import ItemModel
from rankwise.asking.log import Entry, Ledger
from rankwise.asking.session import Refused, Session
from rankwise.asking.standings import RunningFit, Standing

_PATIENCE = 5  # by how much the process steps back for others
_PROGRAM = "from rankwise.asking.background import serve; serve()"
_IDLE = 0.5  # seconds without an answer, after which a whole fit is worth its time


@dataclass(frozen=True)
class Job:
    """What to compute.

    Attributes
    ----------
    entries : list of Entry
        What was added to the log since the last job.
    held : list of pairs
        Pairs that raters are looking at.
    n_ahead : int
        How many pairs to choose.
    exactly : bool
        Whether to fit from scratch, unless the last fit was to the same answers.
    model : bool
        Whether to return the model as well.
    strategy : str or object
        How pairs are chosen.
    """

    entries: Sequence[Entry] = field(repr=False)
    held: Sequence[Pair]
    n_ahead: int
    exactly: bool = False
    model: bool = False
    strategy: Any = "goal"


@dataclass(frozen=True, eq=False)
class Done:
    """The result of a job; or the error, and where it was raised."""

    standing: Standing | None = None
    model: Any = None
    error: str = ""
    trace: str = ""


class Computing:
    """A copy of the session's state, and its model."""

    def __init__(self) -> None:
        self.ledger, self.fit = Ledger(), RunningFit()

    def do(self, job: Job) -> Done:
        """Compute what a job asks for."""
        for entry in job.entries:
            self.ledger.apply(entry)
        try:
            given = {"exactly": job.exactly, "strategy": job.strategy}
            standing = self.fit.standing(self.ledger, job.held, job.n_ahead, **given)
            return Done(standing, self.fit.model if job.model else None)
        except Exception as error:
            return Done(error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())


class Worker:
    """The other end of the process.

    It ends when this process ends, since its input ends. It computes with one thread and low
    priority: pages come first.
    """

    def __init__(self) -> None:
        one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        path = os.pathsep.join(part for part in sys.path if part)
        self._process: Any = subprocess.Popen(
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
            with suppress(OSError):  # what was not sent
                pipe.close()


def serve() -> None:
    """Do jobs from the standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the page
    if hasattr(os, "nice"):
        os.nice(_PATIENCE)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else gets among the results
    jobs: SimpleQueue[Job] = SimpleQueue()
    Thread(target=_read, args=(jobs,), daemon=True).start()
    computing = Computing()
    while True:
        pickle.dump(computing.do(jobs.get()), out)
        out.flush()


def _read(jobs: SimpleQueue[Job]) -> None:
    """Take jobs; end the process, whatever it is doing, when its parent has ended."""
    while True:
        try:
            jobs.put(pickle.load(sys.stdin.buffer))
        except Exception:  # a job that was cut off raises many things
            os._exit(0)


class Background:
    """A process that updates a session after every answer, and fits from scratch when it is idle.

    If many answers come at once, one update includes all that came during the previous update;
    meanwhile, pairs that were chosen ahead are asked. The process has low priority, and is killed
    at the end.

    Parameters
    ----------
    session : Session
        It does not wait while this computes.

    Examples
    --------
    >>> from rankwise.asking import Background, Session
    >>> session = Session(["ant", "bee", "cow"])
    >>> with Background(session):
    ...     question = session.ask()
    ...     answer = session.answer(question.token, "first")
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.error: str = ""  # why the last update failed
        self._ended = ""  # why, if so
        self._told = 0  # the number of the last entry that the process knows
        self._requests: list[Future[Done]] = []  # for a fit from scratch
        self._worker: Worker | None = None
        session.hand_over(self)
        self._thread = Thread(target=self._run, name="rankwise-ask", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Kill the process; the session computes by itself again."""
        with self.session.changed:
            self._ended = self._ended or "The session has ended."
            if self._worker is not None:
                self._worker.kill()
            self.session.changed.notify_all()
        self._thread.join()
        self.session.hand_over(None)

    def __enter__(self) -> Background:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def settle(self) -> tuple[ItemModel, int]:
        """Wait for a fit from scratch to the present answers; the model, and the last entry."""
        wanted: Future[Done] = Future()
        with self.session.changed:
            if self._ended:
                raise Refused(self._ended)
            self._requests.append(wanted)
            self.session.changed.notify_all()
        found = wanted.result()
        assert found.standing is not None
        return found.model, found.standing.version

    def _run(self) -> None:
        """Work until the end, and let no caller wait after it."""
        try:
            self._work()
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"
            logging.getLogger("rankwise.asking").exception("The ranking is no longer updated.")
        finally:
            with self.session.changed:
                self._ended = self._ended or f"The ranking is no longer updated: {self.error}"
                requests, self._requests = self._requests, []
            for wanted in requests:
                wanted.set_exception(Refused(self._ended))
            if self._worker is not None:
                self._worker.close()

    def _work(self) -> None:
        session, done, settled = self.session, -1, False
        while True:
            if self._worker is None:  # which no page waits for
                self._told = 0
                with suppress(OSError):
                    self._worker = Worker()
            with session.changed:
                if not (self._ended or self._requests or session.version != done):
                    session.changed.wait(None if settled else _IDLE)
                if self._ended:
                    return
                new, requests = session.version != done, list(self._requests)
                if settled and not (new or requests):
                    continue
                exactly = bool(requests) or not new
                done, (held, n_ahead) = session.version, session.looked_at()
            entries = session.log.entries(after=self._told)
            job = Job(entries, held, n_ahead, exactly, bool(requests), session.strategy)
            found = self._done(job)
            if found.standing is not None and not session.publish(found.standing):
                continue  # items were removed meanwhile
            with session.changed:
                del self._requests[: len(requests)]
            for wanted in requests:
                if found.error:
                    wanted.set_exception(Refused(f"This was not computed: {found.error}"))
                else:
                    wanted.set_result(found)
            # After an error the next answer tries again.
            settled = bool(found.error) or exactly or (settled and not new)

    def _done(self, job: Job) -> Done:
        """The result of the process; a process that has ended is dropped."""
        found = Done(error="A process to compute with could not be started.")
        if self._worker is not None:
            try:
                found = self._worker.do(job)
                self._told = job.entries[-1].number if job.entries else self._told
            except (OSError, EOFError):
                self._worker.close()
                self._worker = None
                found = Done(error="The process that computes has ended.")
        if not self._ended:
            self.error = found.error
            if found.error:  # answers are saved all the same
                logging.getLogger("rankwise.asking").error(
                    "The ranking was not updated: %s\n%s", found.error, found.trace
                )
        return found
