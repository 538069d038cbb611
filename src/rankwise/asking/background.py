"""Keeps the posterior of a session up to date while people think."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread

from rankwise.asking.item_model import ItemModel
from rankwise.asking.log import Entry
from rankwise.asking.refused import Refused
from rankwise.asking.session import Session
from rankwise.asking.worker import Done, Job, Worker

_IDLE = 0.5  # seconds without an answer, after which a whole fit is worth its time


class Background:
    """A process that updates a session after every answer, and fits from scratch when it is idle.

    If many answers come at once, an update is for all that came during the one before; what was
    chosen ahead is asked meanwhile. The process has low priority, and is killed at the end.

    Parameters
    ----------
    session : Session
        It waits for nothing while this computes.

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
        self._log: list[Entry] = []  # to be told to a new process
        self._requests: list[tuple[bool, Future[Done]]] = []  # with whether the model is wanted
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

    def settle(self) -> None:
        """Wait until the posterior is that of a fit from scratch to the present answers."""
        self._wait_for(model=False)

    def model(self) -> tuple[ItemModel, int]:
        """A model fitted from scratch to the present answers, and the entry as of which."""
        done = self._wait_for(model=True)
        return done.model, done.standing.version

    def _wait_for(self, *, model: bool) -> Done:
        wanted: Future[Done] = Future()
        with self.session.changed:
            if self._ended:
                raise Refused(self._ended)
            self._requests.append((model, wanted))
            self.session.changed.notify_all()
        return wanted.result()

    def _run(self) -> None:
        """Work until the end; whatever that is, nobody is left waiting."""
        try:
            self._work()
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"
            logging.getLogger("rankwise.asking").exception("The ranking is no longer updated.")
        finally:
            with self.session.changed:
                self._ended = self._ended or f"The ranking is no longer updated: {self.error}"
                requests, self._requests = self._requests, []
            for _, wanted in requests:
                wanted.set_exception(Refused(self._ended))
            if self._worker is not None:
                self._worker.close()

    def _work(self) -> None:
        session, done, settled = self.session, -1, False
        while True:
            worker = self._started()
            with session.changed:
                new = session.version != done
                if not (self._ended or new or self._requests or session.wants_reports):
                    session.changed.wait(None if settled else _IDLE)
                if self._ended:
                    return
                new, requests = session.version != done, list(self._requests)
                reports, session.wants_reports = session.wants_reports, False
                idle = not (new or requests or reports)
                if idle and settled:
                    continue
                exactly = idle or bool(requests)
                done = session.version
                job = Job(
                    self._untold(),
                    *session.looked_at(),
                    exactly=exactly,
                    reports=reports,
                    model=any(model for model, _ in requests),
                )
            found = self._done(worker, job)
            if found is None:
                continue
            with session.changed:
                del self._requests[: len(requests)]
            for _, wanted in requests:
                if found.error:
                    wanted.set_exception(Refused(f"This was not computed: {found.error}"))
                else:
                    wanted.set_result(found)
            # After an error the next answer tries again.
            settled = bool(found.error) or exactly or (settled and not new)

    def _started(self) -> Worker | None:
        """The process, or a new one if there is none; None if it cannot be started.

        A new one has to be told the whole log, which is read here: no page waits for this.
        """
        if self._worker is None:
            self._log = self.session.log.entries()
            with suppress(OSError):
                self._worker = Worker()
        return self._worker

    def _untold(self) -> list[Entry]:
        """The entries that the process does not know yet."""
        log, self._log = self._log, []
        last = log[-1].number if log else 0
        return log + [entry for entry in self.session.news() if entry.number > last]

    def _done(self, worker: Worker | None, job: Job) -> Done | None:
        """What the process computed, which is published; None if items were removed meanwhile.

        A process that has ended is forgotten.
        """
        found = Done(error="A process to compute with could not be started.")
        try:
            found = found if worker is None else worker.do(job)
        except (OSError, EOFError):
            assert worker is not None
            worker.close()
            self._worker = None
            found = Done(error="The process that computes has ended.")
        if self._ended:
            return found
        self.error = found.error
        if found.error:
            # Answers are saved all the same.
            logging.getLogger("rankwise.asking").error(
                "The ranking was not updated: %s\n%s", found.error, found.trace
            )
        elif not self.session.publish(found.standing, found.reports):
            return None
        return found
