"""Checks that the matrices of a method fit in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rankwise.backends.dispatch import NUMPY, Backend, backend_of
from rankwise.errors import KernelSizeError

COLUMN_VECTORS = 12  # in a linear fit
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


def check_moments_fit(n_features: int, on: Backend, advice: str) -> None:
    """Raise an error if the n by n matrix of the primal form does not fit in memory."""
    _check_memory(
        f"The matrix X'LX of {n_features} features", 8 * n_features**2, on, lambda _: advice
    )


def square_fits(n: int, on: Backend) -> bool:
    """Whether an n by n matrix fits in memory."""
    available = _available_bytes(on)
    return available is None or 8 * n**2 <= available


def kernel_copies(X: Any, alphas: Sequence[float]) -> int:
    """Number of kernel matrices in memory; on a device, several alphas need a copy."""
    return 1 if backend_of(X).is_host or len(alphas) == 1 else 2


def check_columns_fit(X: Any) -> None:
    """Raise an error if vectors of a number per column of sparse rows do not fit in memory."""
    n_columns = X.shape[1]
    available = _available_bytes(NUMPY)
    needed = 8 * COLUMN_VECTORS * n_columns
    if available is not None and needed > available:
        n_used = len(np.unique(X.indices[X.data != 0]))
        raise KernelSizeError(
            f"X has {n_columns:,} columns. Weights and statistics of all of them need about "
            f"{needed / 2**30:.0f} GiB, but this machine has only {available / 2**30:.0f} GiB. "
            f"{n_used:,} of the columns have values: keep these only, as in "
            "make_pipeline(rankwise.SeenFeatures(), ranker)."
        )


def check_dense_fits(X: Any, advice: str) -> None:
    """Raise an error if a dense copy of sparse rows does not fit in memory."""
    _check_memory(
        f"A dense copy of {X.shape[0]:,} sparse rows of {X.shape[1]:,} features",
        8 * X.shape[0] * X.shape[1],
        NUMPY,
        lambda _: advice,
    )


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
    available = _available_bytes(on)
    if available is None or needed <= available:
        return
    short = needed / 2**30, available / 2**30
    if on.free_bytes() is None:
        raise KernelSizeError(
            f"{what} needs {short[0]:.0f} GiB, but this machine has only {short[1]:.0f} GiB. "
            f"{advice(available)}"
        )
    raise KernelSizeError(
        f"{what} needs {short[0]:.1f} GiB, but the device has only {short[1]:.1f} GiB free "
        f"({short[0] - short[1]:.1f} GiB too little). {advice(available)}"
    )


def _available_bytes(on: Backend) -> int | None:
    """The free memory of a device, or all memory of this machine; None if unknown."""
    free = on.free_bytes()
    if free is not None or not hasattr(os, "sysconf"):  # not on Windows
        return free
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
