"""Rules of parameters that several rankers share, and the kernel that they describe."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from rankwise.kernels import KERNELS, Kernel, NamedKernel, PairFunction, Precomputed
from rankwise.parameters import AnyOf, Choice, Number, Rule, Whole
from rankwise.scaling import SCALINGS


class _Callable:
    """A function of two rows, or a kernel of scikit-learn's Gaussian processes."""

    def allows(self, value: Any) -> bool:
        return callable(value)

    def hint(self, value: Any) -> str:
        return ""

    def __str__(self) -> str:
        return "a callable"


ALPHA = AnyOf(Number(0), Choice("auto"))

KERNEL_PARAMETERS: dict[str, Rule] = {
    "kernel": AnyOf(Choice(*KERNELS, "precomputed"), _Callable()),
    "gamma": AnyOf(None, Choice("scale"), Number(0, open_low=True)),
    "degree": Number(),
    "coef0": Number(),
    "scale": AnyOf(None, Choice("auto", *SCALINGS)),
}


SOLVER_PARAMETERS: dict[str, Rule] = {
    "solver": Choice("auto", "primal", "dual", "cg"),
    "tol": Number(0, 1, open_low=True, open_high=True),
    "max_iter": Whole(1, 2**31 - 1),
}

LOSS_PARAMETERS: dict[str, Rule] = {
    "ties": Choice("include", "exclude"),
    "weighting": Choice("pairs", "rows", "queries"),
}


def make_kernel(ranker: Any, n_features: int) -> Kernel:
    """The kernel of a ranker, whose parameters have the same meaning as in KernelRidge.

    For gamma="scale", `gamma_` has the value, once the training rows are known.
    """
    kernel = ranker.kernel
    if callable(kernel):
        # scikit-learn's Gaussian process kernels take whole arrays, other functions two rows.
        takes_arrays = hasattr(kernel, "diag") and hasattr(kernel, "is_stationary")
        # A copy, so that later changes to the user's kernel do not reach the fitted ranker.
        return clone(kernel) if takes_arrays else PairFunction(kernel)
    if kernel == "precomputed":
        return Precomputed()
    gamma = ranker.gamma
    if gamma is None:
        gamma = 1.0 / n_features
    elif gamma == "scale":
        gamma = getattr(ranker, "gamma_", 1.0)
    return NamedKernel(kernel, gamma=float(gamma), degree=ranker.degree, coef0=ranker.coef0)
