"""The parameters of the bilinear ranker: which are valid, and what the solver makes of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array

from rankwise.errors import ModelFileError, ParameterError
from rankwise.estimators.bilinear.fit_checkpoint import fingerprint
from rankwise.parameters import AnyOf, Choice, Flag, Number, Rule, Whole, check_parameters
from rankwise.solvers.bilinear.bilinear_sgd import SCHEDULES, BilinearSGD
from rankwise.solvers.bilinear.step_arrays import csr_parts
from rankwise.solvers.bilinear.transposed_sgd import TransposedSGD


@dataclass(frozen=True)
class Matrix:
    """Anything with two axes; its shape and numbers are checked when the features are known."""

    def allows(self, value: Any) -> bool:
        """Whether a value has two axes."""
        if value is None or isinstance(value, str):
            return False
        try:
            return len(value.shape if hasattr(value, "shape") else np.shape(value)) == 2
        except ValueError:  # lists of different lengths
            return False

    def hint(self, value: Any) -> str:
        """No suggestion."""
        return ""

    def __str__(self) -> str:
        return "a matrix"


PARAMETERS: dict[str, Rule] = {
    "alpha": AnyOf(Number(0, open_low=True), Choice("auto"), None),
    "target_density": AnyOf(Number(0, 1, open_low=True), None),
    "n_iter": AnyOf(Whole(1), None),
    "eta0": AnyOf(Number(0, open_low=True), Choice("auto")),
    "schedule": Choice(*SCHEDULES),
    "shrink_every": Whole(1),
    "refit": Flag(),
    "structure": Choice("sparse", "dense", "diagonal", "identity"),
    "init": AnyOf(Choice("identity", "zeros"), Matrix()),
    "shrink_to": Choice("zeros", "init"),
    "penalty": Choice("l1", "rows", "columns"),
    "early_stopping": Flag(),
    "n_iter_no_change": Whole(1),
    "dtype": Choice("float64", "float32"),
    "record_every": AnyOf(Whole(1), None),
    "n_jobs": Whole(1, 256),
    "verbose": Flag(),
}
STREAM_PARAMETERS = (
    "alpha", "eta0", "schedule", "shrink_every", "structure", "init", "shrink_to", "penalty",
    "dtype", "refit", "n_jobs",
)  # fmt: skip
"""Parameters that cannot change during a stream."""
SHRINKAGE = {"shrink_to": "zeros", "penalty": "l1"}
"""How W shrinks by default; streams of earlier versions have no other way."""


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
    for name, default in SHRINKAGE.items():
        value = getattr(ranker, name)
        if ranker.structure != "sparse" and value != default:
            raise ParameterError(
                f'{name}={value!r} is for structure="sparse": structure={ranker.structure!r} does '
                "not shrink. Leave it out."
            )
    if number(ranker.alpha) is not None and ranker.target_density is not None:
        raise ParameterError("alpha and target_density exclude each other: pass one of them.")
    start = init_name(ranker.init)
    needs_square = start == "identity" or ranker.structure in ("diagonal", "identity")
    if needs_square and shape[0] != shape[1]:
        raise ParameterError(
            f"Queries have {shape[0]} features and documents {shape[1]}: an identity matrix "
            'needs the same number. Use init="zeros" or a matrix, and structure="sparse" or '
            '"dense".'
        )
    if ranker.structure == "identity" and start != "identity":
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
    kept = SHRINKAGE | (dict(stream.get("parameters", ())) if stream else {})
    if stream and sorted(kept) != sorted(STREAM_PARAMETERS):
        raise ModelFileError("stream_ lacks its parameters: start another stream.")
    for name, first in kept.items() if stream else ():
        now = stream_value(ranker, name)
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
    if ranker.early_stopping:
        raise ParameterError(
            "partial_fit takes a step for every triplet: set early_stopping=False, and stop "
            "calling it when held-out triplets say so."
        )


def stream_value(ranker: Any, name: str) -> Any:
    """A parameter as a stream keeps it: instead of a matrix, a name with a hash of its numbers."""
    value = getattr(ranker, name)
    if name != "init" or isinstance(value, str):
        return value
    matrix: Any = value if sp.issparse(value) else np.asarray(value, np.float64)
    matrix = sp.csr_array(matrix)
    return f"matrix {fingerprint({}, list(csr_parts(matrix)))[:12]}"


def init_name(init: Any) -> str:
    """The name of a start, or "matrix"."""
    return init if isinstance(init, str) else "matrix"


def steps_of(ranker: Any, eta0: float) -> dict[str, Any]:
    """The arguments of `BilinearSGD` that are parameters or a rate, without λ."""
    return {
        "eta0": eta0,
        "schedule": ranker.schedule,
        "shrink_every": ranker.shrink_every,
        "n_threads": int(ranker.n_jobs),
    }


def learner_for(ranker: Any, start: sp.csr_array, eta0: float, lam: float) -> BilinearSGD:
    """A learner for the structure of W, before the first step."""
    frozen = ranker.structure in ("diagonal", "identity")
    dense_from = 0 if ranker.structure == "dense" else None
    prior = prior_of(ranker, start)
    learner = TransposedSGD if ranker.penalty == "columns" else BilinearSGD
    return learner(
        start if prior is None else sp.csr_array(start.shape, dtype=start.dtype),
        lam=lam, frozen=frozen, dense_from=dense_from, grouped=ranker.penalty != "l1",
        prior=prior, **steps_of(ranker, eta0),
    )  # fmt: skip


def prior_of(ranker: Any, start: sp.csr_array) -> sp.csr_array | None:
    """What W shrinks to; None: zeros."""
    return start if ranker.shrink_to == "init" else None


def given_lam(ranker: Any) -> float | None:
    """λ; None if it is to be chosen."""
    return number(ranker.alpha) if ranker.structure == "sparse" else 0.0


def first_lam(schedule: str, eta0: float, n_steps: int) -> float:
    """A λ to begin a search with, where the sum of all shrinkage is about 1."""
    steps = n_steps if schedule == "constant" else 2.0 * np.sqrt(n_steps)
    return float(1.0 / (eta0 * steps))


def starting_weights(ranker: Any, shape: tuple[int, int]) -> sp.csr_array:
    """W before the first step."""
    dtype, start = np.dtype(ranker.dtype), init_name(ranker.init)
    given = checked_matrix(ranker.init, shape, dtype) if start == "matrix" else None
    if ranker.structure == "diagonal" and start != "identity":
        n = shape[0]  # explicit zeros: these entries may change
        diagonal = np.zeros(n, dtype) if given is None else given.diagonal().astype(dtype)
        if given is not None and given.nnz > np.count_nonzero(diagonal):
            raise ParameterError(
                'structure="diagonal" has no weights off the diagonal, but init has '
                f"{given.nnz - np.count_nonzero(diagonal)}. Use structure='sparse', or only the "
                "diagonal of init."
            )
        arrays = (diagonal, np.arange(n, dtype=np.int32), np.arange(n + 1))
        return sp.csr_array(arrays, shape=shape)
    if given is not None:
        return given
    if start == "zeros":
        return sp.csr_array(shape, dtype=dtype)
    return sp.csr_array(sp.eye_array(shape[0], dtype=dtype, format="csr"))


def checked_matrix(init: Any, shape: tuple[int, int], dtype: Any) -> sp.csr_array:
    """A given start as a CSR array without explicit zeros."""
    try:
        rows = check_array(init, accept_sparse="csr", dtype=dtype, input_name="init")
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]  # the other lines show the matrix
        raise ParameterError(f"init must be a matrix of finite numbers: {reason}") from error
    if rows.shape != shape:
        raise ParameterError(
            f"init must have shape {shape}, a row for each feature of queries and a column for "
            f"each feature of documents: got {rows.shape}."
        )
    matrix = sp.csr_array(rows, dtype=dtype, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix
