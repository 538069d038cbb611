"""Modules that need torch are collected, for their doctests, only where it is installed."""

from importlib.util import find_spec

NEED_TORCH = ["_torch.py", "_torch_group_means.py", "_host_rows.py"]
collect_ignore = (
    [] if find_spec("torch") else [f"src/rankwise/backends/{name}" for name in NEED_TORCH]
)
