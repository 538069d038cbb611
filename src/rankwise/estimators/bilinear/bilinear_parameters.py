"""The parameters of the bilinear ranker: which are valid, and what the solver makes of them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from rankwise.errors import ModelFileError, ParameterError
from rankwise.parameters import AnyOf, Choice, Flag, Number, Rule, Whole, check_parameters
from rankwise.solvers.bilinear.bilinear_sgd import SCHEDULES, BilinearSGD

PARAMETERS: dict[str, Rule] = {
    "alpha": AnyOf(Number(0, open_low=True), Choice("auto"), None),
    "target_density": AnyOf(Number(0, 1, open_low=True), None),
    "n_iter": AnyOf(Whole(1), None),
    "eta0": AnyOf(Number(0, open_low=True), Choice("auto")),
    "schedule": Choice(*SCHEDULES),
    "shrink_every": Whole(1),
    "refit": Flag(),
    "structure": Choice("sparse", "dense", "diagonal", "identity"),
    "init": Choice("identity", "zeros"),
    "dtype": Choice("float64", "float32"),
    "record_every": AnyOf(Whole(1), None),
    "n_jobs": Whole(1, 256),
    "verbose": Flag(),
}
STREAM_PARAMETERS = (
    "alpha", "eta0", "schedule", "shrink_every", "structure", "init", "dtype", "refit", "n_jobs",
)  # fmt: skip
"""Parameters that cannot change during a stream."""


def number(value: Any) -> float | None:
    """A parameter that is a number; None if it is to be chosen ("auto", or None in old files)."""
    return None if value is None or isinstance(value, str) else float(value)


def check_bilinear_parameters(ranker: Any, shape: tuple[int, int]) -> None:
    """Check every parameter, alone and together with the others and the features."""
    check_parameters(ranker, PARAMETERS)
    for name in ("alpha", "target_density"):
        if ranker.structure != "sparse" and number(getattr(ranker, name)) is not None:
            raise ParameterError(
                f'{name} is for structure="sparse": structure={ranker.structure!r} has no L1 '
                "norm. Leave it out."
            )
    if number(ranker.alpha) is not None and ranker.target_density is not None:
        raise ParameterError("alpha and target_density exclude each other: pass one of them.")
    needs_square = ranker.init == "identity" or ranker.structure in ("diagonal", "identity")
    if needs_square and shape[0] != shape[1]:
        raise ParameterError(
            f"Queries have {shape[0]} features and documents {shape[1]}: an identity matrix "
            'needs the same number. Use init="zeros" and structure="sparse" or "dense".'
        )
    if ranker.structure == "identity" and ranker.init != "identity":
        raise ParameterError('structure="identity" learns nothing, so init must be "identity".')
    if ranker.structure == "dense" and hasattr(os, "sysconf"):  # not on Windows
        needed = np.dtype(ranker.dtype).itemsize * shape[0] * shape[1]
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if needed > total:
            raise ParameterError(
                f"A dense W of {shape[0]} by {shape[1]} needs {needed / 2**30:.0f} GiB, and this "
                f"machine has {total / 2**30:.0f}. Use structure='sparse'."
            )


def check_streamable(ranker: Any, stream: dict[str, Any] | None) -> None:
    """Check that W does not depend on how a stream is cut, and that its parameters are the same."""
    if stream and sorted(stream.get("parameters", ())) != sorted(STREAM_PARAMETERS):
        raise ModelFileError("stream_ lacks its parameters: start another stream.")
    for name, first in (stream["parameters"] if stream else {}).items():
        now = getattr(ranker, name)
        if now != first:
            raise ParameterError(
                f"This stream began with {name}={first!r}, but now it is {now!r}: set it back, or "
                "start another stream with a clone of this ranker."
            )
    if ranker.n_jobs != 1:
        raise ParameterError(
            "partial_fit takes one step after the other: with more threads, W would depend on "
            "how the stream is cut. Set n_jobs=1."
        )
    if ranker.structure == "sparse" and ranker.refit:
        raise ParameterError(
            "partial_fit sees every triplet once, and a refit needs them twice: set refit=False."
        )
    if ranker.structure == "sparse" and number(ranker.alpha) is None:
        raise ParameterError("partial_fit cannot try several alphas on a stream: set alpha.")
    if ranker.structure != "identity" and number(ranker.eta0) is None:
        raise ParameterError("partial_fit cannot try several rates on a stream: set eta0.")


def steps_of(ranker: Any, eta0: float) -> dict[str, Any]:
    """The arguments of `BilinearSGD` that are parameters or a rate, without λ."""
    return {
        "eta0": eta0,
        "schedule": ranker.schedule,
        "shrink_every": ranker.shrink_every,
        "n_threads": int(ranker.n_jobs),
    }


def learner_for(ranker: Any, W: sp.csr_array, eta0: float, lam: float) -> BilinearSGD:
    """A learner for the structure of W."""
    frozen = ranker.structure in ("diagonal", "identity")
    dense_from = 0 if ranker.structure == "dense" else None
    return BilinearSGD(W, lam=lam, frozen=frozen, dense_from=dense_from, **steps_of(ranker, eta0))


def given_lam(ranker: Any) -> float | None:
    """λ; None if it is to be chosen."""
    return number(ranker.alpha) if ranker.structure == "sparse" else 0.0


def first_lam(schedule: str, eta0: float, n_steps: int) -> float:
    """A λ to begin a search with, where the sum of all shrinkage is about 1."""
    steps = n_steps if schedule == "constant" else 2.0 * np.sqrt(n_steps)
    return float(1.0 / (eta0 * steps))


def starting_weights(ranker: Any, shape: tuple[int, int]) -> sp.csr_array:
    """W before the first step."""
    dtype = np.dtype(ranker.dtype)
    if ranker.structure == "diagonal" and ranker.init == "zeros":
        n = shape[0]  # explicit zeros: these entries may change
        arrays = (np.zeros(n, dtype), np.arange(n, dtype=np.int32), np.arange(n + 1))
        return sp.csr_array(arrays, shape=shape)
    if ranker.init == "zeros":
        return sp.csr_array(shape, dtype=dtype)
    return sp.csr_array(sp.eye_array(shape[0], dtype=dtype, format="csr"))
