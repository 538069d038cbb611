"""What checks share: their rows, and the table that they are listed in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.conformance.places import Place

ALPHAS = np.geomspace(1e-2, 1e2, 3)
MANY = np.geomspace(1e-2, 1e2, 45)  # enough to share a reduction on all devices

Check = Callable[[Place], dict[str, Any]]
CHECKS: dict[str, Check] = {}


def rows(m: int = 240, n: int = 5) -> tuple[Any, Any, Any]:
    """Unsorted rows of queries of different sizes, with ties in the labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, n)) + np.arange(n)
    qid = rng.integers(0, 15, m) ** 2
    y = np.round(X @ rng.standard_normal(n) + 0.3 * rng.standard_normal(m))
    return X, y, qid


def named(check: Check) -> Check:
    """List a check under its own name."""
    CHECKS[check.__name__.replace("_", " ")] = check
    return check
