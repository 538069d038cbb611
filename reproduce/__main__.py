"""``python -m reproduce``: run all parts whose data are available, and write docs/results.md."""

from __future__ import annotations

import argparse
import sys
import threading
import time

from reproduce.driver import PAGE, ROOT, report, run_all, write_page
from reproduce.parts import PAPERS


def main() -> int:
    names = [part.name for paper in PAPERS for part in paper.parts]
    parser = argparse.ArgumentParser(
        prog="python -m reproduce",
        description="Run all parts whose data are in RANKWISE_DATA, and write docs/results.md.",
        epilog=f"Parts: {', '.join(names)}.",
    )
    parser.add_argument("parts", nargs="*", help="what to run; all by default")
    parser.add_argument("--jobs", type=int, default=2, help="folders at a time (2)")
    parser.add_argument("--page", action="store_true", help="write the page, and run nothing")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(names)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    start, lock = time.perf_counter(), threading.Lock()

    def say(line: str) -> None:
        minutes, seconds = divmod(int(time.perf_counter() - start), 60)
        with lock:
            print(f"[{minutes:3d}:{seconds:02d}] {line}", file=sys.stderr, flush=True)

    outcomes = [] if arguments.page else run_all(arguments.parts, arguments.jobs, say)
    write_page(outcomes)
    if outcomes:
        print(report(outcomes))
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 1 if any(outcome.state == "failed" for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
