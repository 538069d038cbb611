"""Try hostile inputs for a while, and say how many."""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
import warnings
from hashlib import sha256
from pathlib import Path
from time import perf_counter

import numpy as np

from fuzz import asking, checkpoints, comparisons, exports, ids, letor, models, names, tables
from fuzz.mutations import mutated

CORPUS = Path(__file__).parent / "corpus"
FOUND = Path(__file__).parent / "found"
TARGETS = {
    "letor": letor.check,
    "tables": tables.check,
    "comparisons": comparisons.check,
    "models": models.check,
    "checkpoints": checkpoints.check,
    "exports": exports.check,
    "asking": asking.check,
    "names": names.check,
    "ids": ids.check,
}


def corpus(target: str) -> list[bytes]:
    """The inputs of a target; one that makes its own has an empty one."""
    return [path.read_bytes() for path in sorted((CORPUS / target).glob("*"))] or [b""]


def run(target: str, seed: int, seconds: float, most: int | None = None) -> tuple[int, list[str]]:
    """Try new inputs of a target; the number of inputs, and what was found, in words."""
    inputs, check = corpus(target), TARGETS[target]
    found: dict[str, str] = {}
    n_tried, begin = 0, perf_counter()
    with (
        tempfile.TemporaryDirectory() as name,
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
    ):
        warnings.simplefilter("ignore")
        while perf_counter() - begin < seconds and (most is None or n_tried < most):
            rng = np.random.default_rng([seed, n_tried])
            data = mutated(rng, inputs[rng.integers(len(inputs))], inputs)
            try:
                check(data, rng, Path(name))
            except Exception as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                words = f"{type(error).__name__}: {str(error)[:200]}"
                where = f"{Path(last.filename).name}:{last.lineno} {type(error).__name__}"
                if where not in found:
                    found[where] = f"{target}, seed {seed}, input {n_tried}: {words} ({where})"
                    _keep(target, data)
            n_tried += 1
    return n_tried, list(found.values())


def _keep(target: str, data: bytes) -> None:
    if data:
        FOUND.mkdir(exist_ok=True)
        (FOUND / f"{target}-{sha256(data).hexdigest()[:12]}").write_bytes(data)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", default=[], help=f"of {', '.join(TARGETS)}; all")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    parser.add_argument("--inputs", type=int, default=None, help="of each target, at most")
    parser.add_argument("--seed", type=int, default=None, help="a new one each time")
    options = parser.parse_args()
    targets = options.targets or list(TARGETS)
    unknown = set(targets) - set(TARGETS)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    seed = int(np.random.SeedSequence().entropy % 2**32) if options.seed is None else options.seed
    total, n_found = 0, 0
    for target in targets:
        n_tried, found = run(target, seed, options.seconds / len(targets), options.inputs)
        print(f"{target:12} {n_tried:10,} inputs, {len(found)} found", flush=True)
        for words in found:
            print(f"  {words}", flush=True)
        total, n_found = total + n_tried, n_found + len(found)
    print(f"{'all':12} {total:10,} inputs, {n_found} found (seed {seed})")
    return 1 if n_found else 0


if __name__ == "__main__":
    sys.exit(main())
