"""Kernel functions, and products with kernel matrices that are never stored."""

from rankwise.kernels.blocks import kernel_product
from rankwise.kernels.functions import KERNELS, Kernel, NamedKernel, PairFunction, Precomputed

__all__ = ["KERNELS", "Kernel", "NamedKernel", "PairFunction", "Precomputed", "kernel_product"]
