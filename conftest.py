"""What must be settled before the tests are collected: threads, and modules that need extras."""

import os
from importlib.util import find_spec
from pathlib import Path

# The problems are small and every core runs tests of its own: more threads of BLAS than one would
# spend most of their time waiting for each other. This has to come before the import of NumPy.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Fork the workers of Dask from a process that has already imported its modules: quicker to start.
os.environ.setdefault("DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD", "forkserver")

collect_ignore = []
if not find_spec("torch"):
    collect_ignore += [
        str(path)
        for path in Path(__file__).parent.glob("src/rankwise/backends/*.py")
        if "\nimport torch\n" in path.read_text(encoding="utf-8")
    ]
if not find_spec("lightgbm"):  # for its doctest
    collect_ignore.append("src/rankwise/boosted/boosted_ranker.py")
collect_ignore_glob = [] if find_spec("starlette") else ["src/rankwise/asking/web/*.py"]
