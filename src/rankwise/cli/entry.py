"""The entry point of the program, which imports everything else when it is called."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

INTERRUPTED = 130
TERMINATED = 143  # what a shell reports for a program ended by SIGTERM


class Terminated(KeyboardInterrupt):
    """SIGTERM: the program ends as after Ctrl-C, with nothing half-written."""


def exit_code(stop: KeyboardInterrupt) -> int:
    """The exit code of a program that was stopped."""
    return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED


def run() -> None:
    """Run the program; Ctrl-C during its imports ends it in one line, as later on."""
    for name in ("stdin", "stdout", "stderr"):  # before a file that is opened gets its number
        if getattr(sys, name) is None:  # closed, as by >&-
            setattr(sys, name, open(os.devnull, "r+"))  # noqa: SIM115
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        try:
            from rankwise.cli.main import run as run_program
        except KeyboardInterrupt as stop:
            print("rankwise: interrupted: Nothing was written.", file=sys.stderr)
            sys.exit(exit_code(stop))
        run_program()
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(*received: Any) -> NoReturn:
    raise Terminated
