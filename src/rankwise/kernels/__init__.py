"""Kernel functions, and products with kernel matrices that are never stored."""

from rankwise.kernels.functions import (
    KERNEL_SETTINGS,
    KERNELS,
    Kernel,
    NamedKernel,
    PairFunction,
    Precomputed,
)
from rankwise.kernels.products import kernel_product

__all__ = [
    "KERNELS",
    "KERNEL_SETTINGS",
    "Kernel",
    "NamedKernel",
    "PairFunction",
    "Precomputed",
    "kernel_product",
]
