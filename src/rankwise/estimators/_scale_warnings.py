"""Warnings about features whose scales make a fit useless; each says what to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.backends.arrays import to_host
from rankwise.backends.dispatch import as_given, backend_of
from rankwise.errors import warn
from rankwise.estimators._scaling import MOST_SPREAD, SAMPLE_ROWS, evenly_spaced, spread
from rankwise.kernels import NamedKernel
from rankwise.scaling import QUERY_SCALINGS, ColumnStatistics, shown_feature

KERNEL_ROWS = 300  # of training rows, for a look at the kernel matrix
LEAST_ROWS = 20  # fewer say little about a kernel
SHARE = 0.01  # of the pairs of rows, which may be exceptions
NEAR_ZERO, NEAR_ONE = 1e-3, 1.0 - 1e-4  # similarities of rows, from 0 to 1


def warn_of_scales(ranker: Any, X: Any) -> None:
    """Warn after a fit to the rows X, as the ranker sees them; at most once.

    The features may have very different scales, or the kernel may be nearly constant or nearly
    the identity on these rows.
    """
    if ranker.kernel != "precomputed" and warn_of_constants(ranker, X):
        return
    kernel = getattr(ranker.basis_, "kernel", None)
    is_linear = ranker.basis_.linear
    own_space = ranker.kernel is None and not ranker.basis_.scale_free
    if not (is_linear or own_space or isinstance(kernel, NamedKernel)):
        return
    message = None
    if ranker.scale_ is None and not (is_linear and ranker.alpha == 0):
        name = "query-minmax" if ranker.n_queries_ > 1 else "standard"
        use = f'Use scale="{name}", or scale' if "scale" in ranker.get_params() else "Scale"
        message = _spread_message(ranker, X, f"{use} the features first.")
    if message is None and kernel is not None:
        message = _kernel_message(kernel, evenly_spaced(X, KERNEL_ROWS))
    if message is not None:
        name = type(ranker).__name__
        warn(f"{name}: {message}")


def warn_of_constants(ranker: Any, X: Any) -> bool:
    """Warn if no feature of the rows X, as the ranker sees them, has two different values.

    Returns whether it did.
    """
    X = as_given(X)
    same = ColumnStatistics.of(evenly_spaced(X, KERNEL_ROWS)).constant.all()
    if X.shape[0] < 2 or not same or not ColumnStatistics.of(X).constant.all():
        return False
    scale = getattr(ranker, "scale_", None)
    where = " within each query" if scale in QUERY_SCALINGS else ""
    warn(
        f"{type(ranker).__name__}: all features are constant{where}, so all rows get the same "
        "score. Check X."
    )
    return True


def warn_of_spread(ranker: Any, X: Any, advice: str) -> None:
    """Warn if the features of X have very different scales."""
    message = _spread_message(ranker, X, advice)
    if message is not None:
        warn(f"{type(ranker).__name__}: {message}")


def _spread_message(ranker: Any, X: Any, advice: str) -> str | None:
    statistics = ColumnStatistics.of(evenly_spaced(X, SAMPLE_ROWS))
    ratio = spread(statistics)
    if ratio <= MOST_SPREAD:
        return None
    deviations = np.where(statistics.deviation > 0, statistics.deviation, np.nan)
    low, high = int(np.nanargmin(deviations)), int(np.nanargmax(deviations))
    names = getattr(ranker, "feature_names_in_", None)
    low_name, high_name = (shown_feature(k, names) for k in (low, high))
    return (
        f"the standard deviations of features differ by a factor of {ratio:.0e}, from "
        f"{deviations[low]:.1e} ({low_name}) to {deviations[high]:.1e} ({high_name}), and the "
        f"largest features decide alone. {advice}"
    )


def _kernel_message(kernel: NamedKernel, X: Any) -> str | None:
    if kernel.name in ("linear", "cosine") or X.shape[0] < 2:
        return None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        K = np.asarray(to_host(kernel(backend_of(X).rows(X, slice(None)))))
        size = np.sqrt(K.diagonal())
        similarity = (K / size[:, None] / size)[np.triu_indices(len(K), 1)]
    if not np.isfinite(similarity).all():  # of a sigmoid kernel, which need not be positive
        return None
    if len(K) < LEAST_ROWS and not (similarity == 1.0).all():
        return None
    advice = 'Use gamma="scale", or gamma=None with scale="auto".'
    if np.quantile(abs(similarity), 1 - SHARE) < NEAR_ZERO:
        return (
            f"the {kernel.name} kernel with gamma={kernel.gamma:.3g} is nearly 0 between different "
            f"rows, so the ranker cannot generalize. A smaller gamma makes rows similar. {advice}"
        )
    if np.quantile(similarity, SHARE) > NEAR_ONE:
        return (
            f"the {kernel.name} kernel with gamma={kernel.gamma:.3g} is nearly the same between "
            f"all rows, which it hardly distinguishes. A larger gamma does. {advice}"
        )
    return None
