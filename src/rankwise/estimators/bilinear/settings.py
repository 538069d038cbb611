"""The parameters of the bilinear ranker: checked, and turned into what the solver takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from rankwise.errors import ParameterError
from rankwise.estimators._checks import check_choice, check_whole
from rankwise.estimators.bilinear.inputs import check_dense_fits, check_positive, check_share
from rankwise.estimators.bilinear.training import first_lam
from rankwise.solvers.bilinear.learner import SCHEDULES, Settings

STRUCTURES = ("sparse", "dense", "diagonal", "identity")
INITS = ("identity", "zeros")
DTYPES = ("float64", "float32")
DEFAULT_DENSITY = 0.1


def check_parameters(ranker: Any, shape: tuple[int, int]) -> None:
    """Every parameter is in its range, and fits the others and the features."""
    check_choice("structure", ranker.structure, STRUCTURES)
    check_choice("schedule", ranker.schedule, SCHEDULES)
    check_choice("init", ranker.init, INITS)
    check_choice("dtype", ranker.dtype, DTYPES)
    check_positive("eta0", ranker.eta0)
    check_whole("shrink_every", ranker.shrink_every, 1)
    if not isinstance(ranker.refit, (bool, np.bool_)):
        raise ParameterError(f"refit must be True or False: got {ranker.refit!r}.")
    check_whole("n_jobs", ranker.n_jobs, 1, 256)
    if ranker.n_iter is not None:
        check_whole("n_iter", ranker.n_iter, 1)
    if ranker.record_every is not None:
        check_whole("record_every", ranker.record_every, 1)
    for name in ("alpha", "target_density"):
        if ranker.structure != "sparse" and getattr(ranker, name) is not None:
            raise ParameterError(
                f'{name} is for structure="sparse": structure={ranker.structure!r} has no L1 '
                "norm. Leave it out."
            )
    if ranker.alpha is not None:
        check_positive("alpha", ranker.alpha)
    if ranker.target_density is not None:
        check_share("target_density", ranker.target_density)
        if ranker.alpha is not None:
            raise ParameterError(
                "alpha and target_density say the same thing in two ways: give one of them."
            )
    square = shape[0] == shape[1]
    needs = ranker.init == "identity" or ranker.structure in ("diagonal", "identity")
    if needs and not square:
        raise ParameterError(
            f"Queries have {shape[0]} features and documents {shape[1]}: an identity matrix "
            'needs the same ones. Use init="zeros" and structure="sparse" or "dense".'
        )
    if ranker.structure == "identity" and ranker.init != "identity":
        raise ParameterError('structure="identity" learns nothing, so init must be "identity".')
    if ranker.structure == "dense":
        check_dense_fits(shape, np.dtype(ranker.dtype).itemsize)


def settings_of(ranker: Any, n_steps: int) -> Settings:
    """What the solver needs to know."""
    lam = 0.0
    if ranker.structure == "sparse":
        lam = ranker.alpha or first_lam(ranker.eta0, ranker.schedule, n_steps)
    return Settings(
        float(lam),
        float(ranker.eta0),
        ranker.schedule,
        int(ranker.shrink_every),
        int(ranker.n_jobs),
        np.dtype(ranker.dtype),
    )


def wanted_density(ranker: Any) -> float | None:
    """The density to look for; None where alpha is known."""
    if ranker.structure != "sparse" or ranker.alpha is not None:
        return None
    return DEFAULT_DENSITY if ranker.target_density is None else float(ranker.target_density)


def starting_weights(ranker: Any, shape: tuple[int, int]) -> sp.csr_array:
    """W before the first step."""
    dtype = np.dtype(ranker.dtype)
    if ranker.structure == "diagonal" and ranker.init == "zeros":
        n = shape[0]  # entries that are there, and 0
        parts_ = (np.zeros(n, dtype), np.arange(n, dtype=np.int32), np.arange(n + 1))
        return sp.csr_array(parts_, shape=shape)
    if ranker.init == "zeros":
        return sp.csr_array(shape, dtype=dtype)
    return sp.csr_array(sp.eye_array(shape[0], dtype=dtype, format="csr"))
