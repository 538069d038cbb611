"""The entry point of the program, which imports everything else when it is called."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def run() -> None:
    """Run the program; Ctrl-C during its imports ends it in one line, as later on."""
    try:
        from rankwise.cli.main import run as run_program
    except KeyboardInterrupt:
        print("rankwise: interrupted: nothing was written.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    run_program()
