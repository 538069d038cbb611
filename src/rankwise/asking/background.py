"""Keeps the posterior of a session up to date while people think."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from threading import Thread

from rankwise.asking.item_model import ItemModel
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
        Its `ahead` becomes True.

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
        self._stopping = False
        self._requests: list[tuple[bool, Future[Done]]] = []  # with whether the model is wanted
        self._worker: Worker | None = None
        session.hand_over(self)
        self._thread = Thread(target=self._run, name="rankwise-ask", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Kill the process; the session computes by itself again."""
        with self.session.changed:
            self._stopping = True
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
            if self._stopping:
                raise Refused("The session has ended.")
            self._requests.append((model, wanted))
            self.session.changed.notify_all()
        return wanted.result()

    def _run(self) -> None:
        session, done, settled = self.session, -1, False
        while True:
            with session.changed:
                new = session.version != done
                if not (self._stopping or new or self._requests or session.wants_reports):
                    session.changed.wait(None if settled else _IDLE)
                new = session.version != done
                requests, self._requests = self._requests, []
                if self._stopping:
                    break
                reports, session.wants_reports = session.wants_reports, False
                idle = not (new or requests or reports)
                if idle and settled:
                    continue
                exactly = idle or bool(requests)
                done = session.version
                worker = self._started()
                job = Job(
                    session.news(everything=worker is not self._worker),
                    *session.looked_at(),
                    exactly=exactly,
                    reports=reports,
                    model=any(model for model, _ in requests),
                )
                self._worker = worker
            found = self._done(worker, job)
            for _, wanted in requests:
                if found.error:
                    wanted.set_exception(Refused(f"This was not computed: {found.error}"))
                else:
                    wanted.set_result(found)
            # After an error the next answer tries again.
            settled = bool(found.error) or exactly or (settled and not new)
        for _, wanted in requests:
            wanted.set_exception(Refused("The session has ended."))
        if self._worker is not None:
            self._worker.close()

    def _started(self) -> Worker | None:
        """The process, or a new one if there is none; None if it cannot be started."""
        try:
            return self._worker or Worker()
        except OSError:
            return None

    def _done(self, worker: Worker | None, job: Job) -> Done:
        """What the process computed, which is published; a process that has ended is forgotten."""
        found = Done(error="A process to compute with could not be started.")
        try:
            found = found if worker is None else worker.do(job)
        except (OSError, EOFError):
            assert worker is not None
            worker.close()
            self._worker = None
            found = Done(error="The process that computes has ended.")
        if self._stopping:
            return found
        self.error = found.error
        if found.error:
            # Answers are saved all the same.
            logging.getLogger("rankwise.asking").error(
                "The ranking was not updated: %s\n%s", found.error, found.trace
            )
        else:
            self.session.publish(found.standing, found.reports)
        return found
