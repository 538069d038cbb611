"""Stages of a model: folded into weights, and undone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.export._stages import (
    Affine,
    Branches,
    Columns,
    FillMissing,
    Weighted,
    draw_rows,
    linear_of,
)
from tests.oracles.export_stages import apply_stages


@st.composite
def linear_stages(draw, n_columns, depth=2):
    """Linear stages on rows with this many columns, and the number of columns behind them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    stages = []
    for kind in draw(st.lists(st.sampled_from("caepfb"[: 4 + depth]), max_size=3)):
        if kind == "c":
            chosen = rng.integers(n_columns, size=rng.integers(1, 5))
            stages.append(Columns(chosen, n_columns))
            n_columns = len(chosen)
        elif kind == "p":
            matrix = rng.normal(size=(n_columns, rng.integers(1, 5)))
            stages.append(Weighted(matrix, rng.normal(size=matrix.shape[1])))
            n_columns = matrix.shape[1]
        elif kind == "b":
            parts = [draw(linear_stages(n_columns, depth=0)) for _ in range(2)]
            stages.append(Branches([part for part, _ in parts], n_columns))
            n_columns = sum(width for _, width in parts)
        elif kind == "f":
            stages.append(FillMissing(rng.normal(size=n_columns), np.nan))
        else:
            stages.append(Affine(rng.normal(size=n_columns), rng.uniform(0.1, 3, n_columns)))
    return stages, n_columns


@given(st.integers(1, 5), st.data())
def test_stages_folded_into_weights_give_the_same_scores(n_features, data):
    stages, width = data.draw(linear_stages(n_features))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    stages.append(Weighted(rng.normal(size=(width, 2)), rng.normal(size=2)))
    rows = rng.normal(size=(3, n_features))
    linear = linear_of(stages)
    expected = [apply_stages(stages, row) for row in rows.tolist()]
    assert_allclose(rows @ linear.weights + linear.constant, expected, atol=1e-9)


@given(st.integers(1, 5), st.data())
def test_what_a_missing_value_adds_to_the_scores(n_features, data):
    stages, width = data.draw(linear_stages(n_features))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    stages.append(Weighted(rng.normal(size=(width, 2)), rng.normal(size=2)))
    linear = linear_of(stages)
    taken = ~np.isnan(linear.missing).any(axis=1)
    rows = rng.normal(size=(3, n_features))
    rows[(rng.random(rows.shape) < 0.5) & taken] = np.nan
    expected = [apply_stages(stages, row) for row in rows.tolist()]
    filled, lacks = np.nan_to_num(rows), np.isnan(rows).astype(float)
    scores = filled @ linear.weights + lacks @ np.nan_to_num(linear.missing) + linear.constant
    assert_allclose(scores, expected, atol=1e-9)


def test_rows_are_drawn_from_the_range_that_stages_know():
    rng = np.random.default_rng(0)
    span = np.array([[-1.0, 10.0], [1.0, 30.0]])
    stages = [
        Columns(np.array([2, 0]), 3),
        Affine(np.array([5.0, 1.0]), np.array([0.5, 2.0])),
        Weighted(np.ones((2, 1)), np.zeros(1), span),
    ]
    rows = draw_rows(stages, 200, rng)
    assert np.isnan(rows[:, 1]).all()  # no stage knows it
    behind = np.array([apply_stages(stages[:2], row) for row in rows.tolist()])
    assert (behind >= span[0] - 1e-9).all()
    assert (behind <= span[1] + 1e-9).all()
