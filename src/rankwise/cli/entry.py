"""The entry point of the program, which imports everything else when it is called."""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130


def run() -> None:
    """Run the program; Ctrl-C during its imports ends it in one line, as later on."""
    for name in ("stdin", "stdout", "stderr"):  # before a file that is opened gets its number
        if getattr(sys, name) is None:  # closed, as by >&-
            setattr(sys, name, open(os.devnull, "r+"))  # noqa: SIM115
    try:
        from rankwise.cli.main import run as run_program
    except KeyboardInterrupt:
        print("rankwise: interrupted: nothing was written.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    run_program()
