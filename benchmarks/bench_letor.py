"""read_letor compared with its peers, on a dense file in the style of MSLR-WEB10K.

Claims: read_letor is at least 25 times as fast as `sklearn.datasets.load_svmlight_file`, takes at
most 1.5 times as long as XGBoost's own text reader with the same number of threads, and needs at
most 200 MB of memory in addition to the result.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.harness import Result, best_times, seconds

N_FEATURES = 136
REPEATS = 5
SLICE_MEGABYTES = 10
"""Size for scikit-learn, which needs ten seconds or more for 100 MB; its time is scaled."""

_MEMORY = """
import sys
from rankwise.data import read_letor

def kilobytes(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field))

read_letor(sys.argv[1])  # a small file, so that loading and compiling are not counted
before = kilobytes("VmRSS")
data = read_letor(sys.argv[2])
print(kilobytes("VmHWM") - before, data.X.nbytes + data.y.nbytes + data.qid.nbytes)
"""


def cases(megabytes: int = 100) -> list[Result]:
    """Best times of the readers, and the memory of read_letor in its own process."""
    import xgboost
    from sklearn.datasets import load_svmlight_file

    from rankwise.data import read_letor

    xgboost.set_config(verbosity=0)
    with tempfile.TemporaryDirectory() as folder:
        path, part = Path(folder, "whole.txt"), Path(folder, "slice.txt")
        write_mslr_style(path, megabytes)
        write_mslr_style(part, min(SLICE_MEGABYTES, megabytes))
        mb, part_mb = path.stat().st_size / 1e6, part.stat().st_size / 1e6
        n_threads = len(os.sched_getaffinity(0))
        readers: dict[str, Callable[[], object]] = {
            "plain read": lambda: read_bytes(path),
            "read_letor": lambda: read_letor(path),
            "xgboost": lambda: xgboost.DMatrix(f"{path}?format=libsvm", nthread=n_threads),
            "scikit-learn": lambda: load_svmlight_file(str(part), query_id=True),
        }
        read_letor(part)
        times = dict(zip(readers, best_times(*readers.values(), repeats=REPEATS), strict=True))
        times["scikit-learn"] *= mb / part_mb
        result_mb, peak_mb = memory(part, path)
    ours = times["read_letor"]

    def compared(peer: str, at_most: float) -> Result:
        return Result(
            f"read_letor, {mb:.0f} MB",
            f"{seconds(ours)} ({mb / ours:.0f} MB/s)",
            f"{peer}: {seconds(times[peer])} ({mb / times[peer]:.0f} MB/s)",
            ours / times[peer],
            at_most,
        )

    extra = peak_mb - result_mb
    return [
        compared("scikit-learn", 1 / 25),
        compared("xgboost", 1.5),
        compared("plain read", float("inf")),
        Result(
            f"memory of read_letor beyond its result, {mb:.0f} MB",
            f"{extra:.0f} MB",
            "200 MB",
            extra / 200,
            1.0,
        ),
    ]


def write_mslr_style(path: Path, megabytes: int, seed: int = 0) -> None:
    """Rows of 136 features, every other one a count and the rest with six decimals."""
    rng = np.random.default_rng(seed)
    values = rng.random((4000, N_FEATURES)) * 10.0 ** rng.integers(0, 4, N_FEATURES)
    template = " ".join(f"{j + 1}:{'%d' if j % 2 else '%.6f'}" for j in range(N_FEATURES))
    rows = [template % tuple(row) for row in values.tolist()]
    labels = rng.integers(0, 5, len(rows)).tolist()
    with open(path, "w") as file:
        n = 0
        while file.tell() < megabytes * 1e6:
            file.writelines(
                f"{label} qid:{(n + i) // 100} {row}\n"
                for i, (label, row) in enumerate(zip(labels, rows, strict=True))
            )
            n += len(rows)


def read_bytes(path: Path) -> int:
    """Read a file into one small buffer, block by block: no reader can be faster."""
    buffer = bytearray(1 << 20)
    total = 0
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            total += count
    return total


def memory(warm_up: Path, path: Path) -> tuple[float, float]:
    """The size of the result and the peak memory while reading it, in MB."""
    command = [sys.executable, "-c", _MEMORY, str(warm_up), str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    peak_kib, result_bytes = map(int, output.split())
    return result_bytes / 1e6, peak_kib * 1024 / 1e6
