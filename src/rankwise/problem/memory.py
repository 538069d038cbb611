"""Checks that the matrices of a method fit in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from rankwise.backends.backend import Backend
from rankwise.backends.dispatch import NUMPY, backend_of
from rankwise.errors import KernelSizeError

LANDMARK_MATRICES = 7  # maximum number of r by r matrices in a fit on a device


def check_kernel_fits(
    n_rows: int,
    on: Backend = NUMPY,
    advice: str = "Use SparseRankRLS, kernel='linear', or fewer rows.",
    n_matrices: float = 1.0,
) -> None:
    """Raise an error if kernel matrices of this many rows do not fit in memory."""
    others = " and its eigenvectors" if n_matrices > 1 else ""
    if not on.is_host:  # factorizations on a device need copies
        n_matrices, others = n_matrices + 2, " and its factors"
    _check_memory(
        f"The kernel matrix of {n_rows} rows{others}",
        int(8 * n_matrices * n_rows**2),
        on,
        lambda free: f"{advice} {int((free / 8 / n_matrices) ** 0.5)} rows would fit.",
    )


def kernel_copies(X: Any, alphas: Sequence[float]) -> int:
    """Number of kernel matrices in memory; on a device, several alphas need a copy."""
    return 1 if backend_of(X).is_host or len(alphas) == 1 else 2


def check_features_fit(n_rows: int, n_features: int, on: Backend = NUMPY) -> None:
    """Raise an error if dense coordinates of this many rows do not fit in memory."""
    _check_memory(
        f"A hold-out needs the coordinates of {n_rows} rows on {n_features} landmarks, which",
        8 * n_rows * n_features,
        on,
        lambda free: f"Use fewer landmarks or rows: {free // 8 // n_rows} landmarks would fit.",
    )


def check_landmarks_fit(n_landmarks: int, on: Backend) -> None:
    """Raise an error if a fit on landmarks does not fit in the memory of a device.

    It needs the kernel matrix of the landmarks, its factor, the moments, their factorization for
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
                f"{what} needs {needed / 2**30:.1f} GiB, but the device has only "
                f"{free / 2**30:.1f} GiB free ({(needed - free) / 2**30:.1f} GiB too little). "
                f"{advice(free)}"
            )
        return
    if not hasattr(os, "sysconf"):  # Windows
        return
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > total:
        raise KernelSizeError(
            f"{what} needs {needed / 2**30:.0f} GiB, but this machine has only "
            f"{total / 2**30:.0f} GiB. {advice(total)}"
        )
