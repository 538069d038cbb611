"""The probit likelihood: values, derivatives and integrals, far into the tails."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import log_ndtr

from rankwise.gp.probit import (
    _integrated,
    _mode,
    _moments_of,
    hazard,
    log_likelihood,
    log_normal_cdf,
    tilted,
)
from tests.oracles.pairwise_gp import log_likelihood as oracle_likelihood
from tests.oracles.pairwise_gp import tilted_moments

counts = st.sampled_from([0.0, 0.5, 1.0, 2.0])


@given(st.floats(-1e6, 40))
@example(5.0)
def test_log_normal_cdf(z):
    assert log_normal_cdf(z) == pytest.approx(float(log_ndtr(z)), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("z", [-1e8, -1e3, -50.0, -36.0, -34.0, -10.0, -1.0, 0.0, 3.0, 30.0])
def test_hazard_does_not_cancel(z):
    with mpmath.workdps(60):
        exact = mpmath.npdf(z) / mpmath.ncdf(z)
        want = float(exact), float(exact + z)
    assert_allclose(hazard(z), want, rtol=1e-11)


@given(st.floats(-6, 6), counts, counts, counts, st.floats(0.01, 2.0))
def test_the_value_agrees_with_the_definition(d, a, b, c, t):
    value = log_likelihood(d, a, b, c, t, 0.0)[0]
    assert value == pytest.approx(float(oracle_likelihood(d, a, b, c, t)), rel=1e-9, abs=1e-9)


@given(
    st.floats(-8, 8),
    counts,
    counts,
    counts,
    st.floats(0.05, 2.0),
    st.sampled_from([0.0, 0.01, 0.2]),
)
def test_derivatives_agree_with_finite_differences(d, a, b, c, t, e):
    step = 1e-5
    _, f1, f2, f3, t0, t1, t2, e0 = log_likelihood(d, a, b, c, t, e)
    up, down = (np.array(log_likelihood(d + s, a, b, c, t, e)) for s in (step, -step))
    assert_allclose((f1, f2, f3, t1, t2), ((up - down) / (2 * step))[[0, 1, 2, 4, 5]], atol=2e-4)
    up, down = (np.array(log_likelihood(d, a, b, c, t + s, e)) for s in (step, -step))
    assert_allclose((t0, t1, t2), ((up - down) / (2 * step))[:3], atol=2e-4)
    if e:
        up, down = (log_likelihood(d, a, b, c, t, e + s)[0] for s in (1e-7, -1e-7))
        assert e0 == pytest.approx((up - down) / 2e-7, rel=1e-4, abs=1e-4)


@given(
    st.floats(-8, 8), st.floats(0.01, 50.0), counts, counts, counts, st.sampled_from([0.05, 0.7]),
    st.sampled_from([0.0, 0.01, 0.2]),
)  # fmt: skip
def test_tilted_moments(m, v, a, b, c, t, e):
    log_z, slope, bend, _, _ = tilted(m, v, a, b, c, t, e, 0.0)
    want_z, mean, variance = tilted_moments(m, v, a, b, c, t, e)
    assert log_z == pytest.approx(want_z, abs=1e-6)
    assert m + v * slope == pytest.approx(mean, abs=1e-6 * math.sqrt(v))
    assert v - v * v * bend == pytest.approx(variance, rel=1e-5)


def adaptive(m, v, *likelihood):
    """`tilted` by adaptive panels."""
    mode, top, curvature = _mode(m, v, *likelihood, 0.0)
    sums = _integrated(1 / np.sqrt(curvature), mode, top, m, v, *likelihood)
    return np.array(_moments_of(sums, mode, top, v, likelihood[-1]))


@given(
    st.floats(-12, 12), st.floats(1e-4, 0.5), st.floats(-1, 1),
    *(st.sampled_from([0.0, 0.5, 1.0, 3.0, 20.0, 300.0]) for _ in range(3)),
    st.sampled_from([0.01, 0.7, 3.0]), st.sampled_from([0.0, 0.01, 0.2]),
)  # fmt: skip
@example(4.77, 0.278, 0.0, 300.0, 0.0, 0.5, 0.7, 0.0)
@example(-2.5, 0.02, 0.0, 3.0, 3.0, 3.0, 0.7, 0.0)
@example(-3.0, 0.05, 0.0, 10.0, 0.0, 0.0, 0.01, 0.01)
def test_few_nodes_agree_with_adaptive_panels(m, v, near, a, b, c, t, e):
    got = np.array(tilted(m, v, a, b, c, t, e, near))
    want = adaptive(m, v, a, b, c, t, e) if a + b + c > 0 else np.zeros(5)
    assert_allclose(got[0], want[0], rtol=1e-8, atol=1e-8)
    assert_allclose(v * got[1], v * want[1], rtol=1e-7, atol=1e-8)
    assert_allclose(v * v * got[2], v * v * want[2], rtol=1e-6, atol=1e-8)
    assert_allclose(got[3], want[3], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("a", "b", "c"), [(1, 0, 0), (0, 1, 0), (3, 1, 0), (1, 2, 2)])
@pytest.mark.parametrize("v", [0.04, 0.3, 2.0])
def test_the_slope_of_the_first_flips(a, b, c, v):
    slope = tilted(0.4, v, float(a), float(b), float(c), 0.3, 0.0, 0.0)[4]
    step = 1e-6
    up, down = (tilted(0.4, v, float(a), float(b), float(c), 0.3, e, 0.0)[0] for e in (step, 0.0))
    assert slope == pytest.approx((up - down) / step, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("v", [0.0, 1e-300, 1e-12, 1e6, 1e12])
@pytest.mark.parametrize("m", [-1e5, -30.0, 0.0, 1e5])
@pytest.mark.parametrize("outcome", [(1, 0, 0), (3, 0, 0), (1, 1, 0), (0.5, 0.5, 0), (2, 1, 1)])
@pytest.mark.parametrize("e", [0.0, 0.05])
def test_tilted_moments_are_finite_at_the_extremes(m, v, outcome, e):
    t = 0.3
    log_z, slope, bend, by_t, by_e = tilted(m, v, *map(float, outcome), t, e, 0.0)
    assert np.isfinite([log_z, slope, bend, by_t, by_e]).all()
    assert log_z <= 1e-9
    assert bend >= 0 or e > 0
    assert bend * v <= 1 + 1e-9


def test_the_tail_of_one_win_agrees_with_high_precision():
    with mpmath.workdps(50):
        s = mpmath.sqrt(1 + mpmath.mpf(2))
        z = mpmath.mpf(-60) / s
        want = float(mpmath.log(mpmath.ncdf(z)))
    got = tilted(-60.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)[0]
    assert got == pytest.approx(want, rel=1e-12)
