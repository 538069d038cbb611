"""Whether the matrices that a method needs fit in memory."""

from __future__ import annotations

import os
from collections.abc import Callable

from rankwise.backends.backend import Backend
from rankwise.backends.dispatch import NUMPY
from rankwise.errors import KernelSizeError

LANDMARK_MATRICES = 7  # r by r matrices that a fit on a device holds at most


def check_kernel_fits(
    n_rows: int,
    on: Backend = NUMPY,
    advice: str = "Use SparseRankRLS, kernel='linear', or fewer rows.",
    n_matrices: float = 1.0,
) -> None:
    """Raise an error where kernel matrices of this many rows do not fit in memory."""
    others = " and its eigenvectors" if n_matrices > 1 else ""
    if not on.is_host:  # a device factors copies, which need room as well
        n_matrices, others = n_matrices + 2, " and its factors"
    _check_memory(
        f"The kernel matrix of {n_rows} rows{others}",
        int(8 * n_matrices * n_rows**2),
        on,
        lambda free: f"{advice} {int((free / 8 / n_matrices) ** 0.5)} rows would fit.",
    )


def check_features_fit(n_rows: int, n_features: int, on: Backend = NUMPY) -> None:
    """Raise an error where dense coordinates of this many rows do not fit in memory."""
    _check_memory(
        f"A hold-out needs the coordinates of {n_rows} rows on {n_features} landmarks, which",
        8 * n_rows * n_features,
        on,
        lambda free: f"Use fewer landmarks or rows: {free // 8 // n_rows} landmarks would fit.",
    )


def check_landmarks_fit(n_landmarks: int, on: Backend) -> None:
    """Raise an error where a fit on landmarks does not fit in the memory of a device.

    It holds the kernel matrix of the landmarks, its factor, the moments, what is made of these for
    one alpha, and a few blocks of rows.
    """
    if on.is_host:
        return
    _check_memory(
        f"A fit on {n_landmarks} landmarks",
        8 * LANDMARK_MATRICES * n_landmarks**2 + 8 * 256 * n_landmarks,
        on,
        lambda free: (
            f"Use fewer: {int((free / 8 / LANDMARK_MATRICES) ** 0.5)} landmarks would fit."
        ),
    )


def _check_memory(what: str, needed: int, on: Backend, advice: Callable[[int], str]) -> None:
    free = on.free_bytes()
    if free is not None:
        if needed > free:
            raise KernelSizeError(
                f"{what} needs {needed / 2**30:.1f} GiB, but the device has {free / 2**30:.1f} "
                f"GiB free, {(needed - free) / 2**30:.1f} too little. {advice(free)}"
            )
        return
    if not hasattr(os, "sysconf"):  # Windows
        return
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > total:
        raise KernelSizeError(
            f"{what} needs {needed / 2**30:.0f} GiB, and this machine has {total / 2**30:.0f} "
            f"GiB. {advice(total)}"
        )
