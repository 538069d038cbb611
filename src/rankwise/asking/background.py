"""Keeps the posterior of a session up to date while people think."""

from __future__ import annotations

import logging
import time
from threading import Event, Thread

from rankwise.asking.session import Session

_IDLE = 0.5  # seconds without an answer, after which a whole fit is worth its time
_REST = 1.0  # seconds, at most, that are left to the pages after an update


class Background:
    """A thread that updates a session after every answer, and fits from scratch when it is idle.

    If many answers come at once, it rests after each update for as long as that took, as pages
    wait for it; what it has chosen ahead is asked meanwhile.

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
        self._stop = Event()
        session.update()
        session.ahead = True
        self._thread = Thread(target=self._run, name="rankwise-ask", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; the session computes by itself again."""
        with self.session.changed:
            self._stop.set()
            self.session.changed.notify_all()
        self._thread.join()
        self.session.ahead = False

    def __enter__(self) -> Background:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self) -> None:
        session = self.session
        done = session.version
        settled = False
        while True:
            with session.changed:
                if not self._stop.is_set() and session.version == done:
                    session.changed.wait(None if settled else _IDLE)
                if self._stop.is_set():
                    return
                new = session.version != done
                done = session.version
            try:
                if new:
                    begin = time.monotonic()
                    session.update()
                    self._stop.wait(min(_REST, time.monotonic() - begin))
                    settled = False
                elif not settled:
                    session.settle()
                    settled = True
                self.error = ""
            except Exception as error:
                # Answers are saved all the same; the next update tries again.
                self.error = f"{type(error).__name__}: {error}"
                logging.getLogger("rankwise.asking").exception("The ranking was not updated")
                settled = True
