"""Run the conformance suite on any device: python -m tests.conformance cuda."""

from __future__ import annotations

import sys
import time
import traceback

from tests.conformance.places import copied_from_host, tensors
from tests.conformance.suite import CHECKS, TOLERANCE, differences


def main(device: str) -> int:
    failures = 0
    for place in (tensors(device), copied_from_host(device)):
        for name, check in CHECKS.items():
            start = time.perf_counter()
            try:
                found = list(differences(check, place))
            except Exception:
                print(f"FAIL  {place.name}: {name}")
                traceback.print_exc()
                failures += 1
                continue
            worst = max(found, key=lambda pair: pair[1])
            ok = worst[1] <= TOLERANCE
            failures += not ok
            seconds = time.perf_counter() - start
            status = "ok  " if ok else "FAIL"
            print(f"{status}  {worst[1]:.1e} ({worst[0]}), {seconds:.1f} s  {place.name}: {name}")
    print(f"{failures} failed" if failures else "all agree")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "cuda"))
