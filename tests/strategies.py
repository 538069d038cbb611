"""Random ranking problems for Hypothesis."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

seeds = st.integers(0, 2**32 - 1)
ties = st.sampled_from(["include", "exclude"])
weightings = st.sampled_from(["pairs", "rows", "queries"])


@dataclass(frozen=True)
class Problem:
    """Rows in shuffled queries, some of them a single row, with tied labels."""

    X: np.ndarray
    y: np.ndarray
    qid: np.ndarray


@dataclass(frozen=True)
class Comparisons:
    """Comparisons between rows, some repeated and some contradictory."""

    X: np.ndarray
    pairs: np.ndarray
    margin: np.ndarray
    weight: np.ndarray


@st.composite
def problems(draw, max_rows=24, max_features=6, min_pairs=0):
    """A `Problem`; with `min_pairs`, the first query has rows of different labels."""
    rng = np.random.default_rng(draw(seeds))
    n_rows = draw(st.integers(max(2, 2 * min_pairs), max_rows))
    n_queries = draw(st.integers(1, max(1, n_rows // 2)))
    n_levels = draw(st.sampled_from([1, 2, 3, 5, None]))
    X = rng.standard_normal((n_rows, draw(st.integers(1, max_features))))
    qid = rng.integers(0, n_queries, n_rows)
    y = rng.standard_normal(n_rows) if n_levels is None else rng.integers(0, n_levels, n_rows)
    y = y.astype(float)
    if min_pairs:
        qid[: 2 * min_pairs] = 0
        y[: 2 * min_pairs] = np.arange(2 * min_pairs)
    names = draw(st.sampled_from([np.arange, _strings, _floats]))(n_queries)
    return Problem(X, y, names[qid])


@st.composite
def comparisons(draw, max_rows=15, max_pairs=30):
    """`Comparisons` with fewer or more pairs than rows."""
    rng = np.random.default_rng(draw(seeds))
    n_rows = draw(st.integers(2, max_rows))
    n_pairs = draw(st.integers(1, max_pairs))
    first = rng.integers(0, n_rows, n_pairs)
    second = (first + rng.integers(1, n_rows, n_pairs)) % n_rows
    X = rng.standard_normal((n_rows, draw(st.integers(1, 5))))
    weight = rng.uniform(0.1, 3.0, n_pairs)
    return Comparisons(X, np.column_stack((first, second)), rng.standard_normal(n_pairs), weight)


def _strings(n):
    return np.array([f"query {k}" for k in range(n)])


def _floats(n):
    return 1.0 - np.arange(n)
