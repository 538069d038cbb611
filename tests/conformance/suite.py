"""Checks that every ranker gives the same results in all places.

A check computes named results from arrays in a place. The same check with NumPy is the reference:
results agree to `TOLERANCE`, relative to the largest entry. Checks are listed in `CHECKS` by the
modules `fits` and `hold_outs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from tests.conformance import fits, hold_outs  # noqa: F401
from tests.conformance.checks import CHECKS, Check
from tests.conformance.places import NUMPY, Place, to_numpy

__all__ = ["CHECKS", "TOLERANCE", "differences"]
TOLERANCE = 1e-9


@cache
def reference(check: Check) -> dict[str, Any]:
    """The results with NumPy."""
    return check(NUMPY)


def differences(check: Check, place: Place) -> Iterator[tuple[str, float]]:
    """The difference of each result from that of NumPy, relative to its largest entry."""
    want = reference(check)
    with place.strict():
        got = check(place)
    assert want.keys() == got.keys()
    for name, value in got.items():
        NUMPY.check(want[name])
        place.check(value)
        a, b = to_numpy(value), np.asarray(want[name])
        assert a.shape == b.shape, f"{name}: {a.shape} instead of {b.shape}"
        assert np.isfinite(a).all(), name
        yield name, float(np.abs(a - b).max(initial=0.0) / max(np.abs(b).max(initial=0.0), 1e-300))
