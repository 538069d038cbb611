"""What must be settled before the tests are collected: threads, and modules that need torch."""

import os
from importlib.util import find_spec

# Each process of `pytest -n` has a core; problems here are small, and more threads only get in
# each other's way. Must be set before NumPy is imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")

NEED_TORCH = ["_torch.py", "_torch_group_means.py", "_host_rows.py"]
collect_ignore = (
    [] if find_spec("torch") else [f"src/rankwise/backends/{name}" for name in NEED_TORCH]
)
