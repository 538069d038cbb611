"""The likelihood of a difference d = f_i - f_j, in units of the noise, and the sites that match it.

`evidence.py` divides differences by the noise, which is 1 in the paper and by default.

The first row wins if d + z > t, loses if d + z < -t and ties in between, for noise z from N(0, 1)
and a threshold t that is 0 if ties are not modelled. Without ties, Phi(d) for w = 1 and Phi(-d) for
w = -1 are p(w | f) of the KPCRank paper. A pair that was compared more than once is one factor: a
wins, b losses and c ties (weights, so not always whole) have

    l(d) = a log Phi(d - t) + b log Phi(-d - t) + c log(Phi(t - d) - Phi(-t - d)),

which is concave. With a share e of flips, each side wins with chance e whatever d is. Then
e + (1 - 2 e) Phi replaces Phi in wins and losses, 1 - 2 e multiplies the chance of a tie, and l is
not concave: a comparison that contradicts all others has less influence, not more.

`update_sites` is the update of expectation propagation. The loops are compiled: one call per
factor, some of them integrals.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array
from rankwise.backends.jit import compiled, inlined

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_ROOT_HALF = math.sqrt(0.5)
_FAR = -25.0  # below this, digits cancel, and seven terms of a series are exact
_LARGEST = 700.0  # exponent whose exponential is finite
_DROP = 36.0  # exp(-36) is negligible relative to 1
_ACCURACY = 1e-10  # of integrals, relative to their size
_SUMS, _STACK = 8, 64  # integrals at a time; panels that are open at a time
_CANCELS = 1e-3  # a relative change of the variance below this is not computed from moments
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(10)


def _hermite_rule(n_nodes: int) -> tuple[Array, Array]:
    """Nodes z and weights w with sum_k w_k g(z_k) close to the integral of g, if g is Gaussian."""
    z, w = np.polynomial.hermite.hermgauss(n_nodes)
    return np.asarray(math.sqrt(2.0) * z), np.asarray(math.sqrt(2.0) * w * np.exp(z * z))


# Errors stay below 1e-9 up to these variances, and up to _WIDE for _FEW comparisons.
_NARROW, _MEDIUM, _WIDE, _FEW = 0.02, 0.25, 0.5, 10.0
_ONE_MODE = 0.5  # variance times number of comparisons, up to which flips cause no second mode
_NEAR = 0.03  # last step to a mode, in standard deviations: the next would be far smaller
_Z11, _W11 = _hermite_rule(11)
_Z31, _W31 = _hermite_rule(31)


@inlined
def _tail(z: float) -> float:
    """1 + z Phi(z) / phi(z) for z below _FAR, by its series."""
    x, out = 1.0 / (z * z), 0.0
    for k in range(13, 0, -2):
        out = k * x * (1.0 - out)
    return out


@compiled
def log_normal_cdf(z: float) -> float:
    """log Phi(z), to full relative accuracy at any z."""
    if z > 0.0:
        return math.log1p(-0.5 * math.erfc(z * _ROOT_HALF))
    if z > _FAR:
        return math.log(0.5 * math.erfc(-z * _ROOT_HALF))
    return -0.5 * z * z - _HALF_LOG_2PI - math.log(-z) + math.log1p(-_tail(z))


@compiled
def hazard(z: float) -> tuple[float, float]:
    """h = phi(z) / Phi(z), the slope of log Phi, and h + z, which cancels where z is small."""
    if z > _FAR:
        h = math.exp(-0.5 * z * z - _HALF_LOG_2PI) / (0.5 * math.erfc(-z * _ROOT_HALF))
        return h, h + z
    tail = _tail(z)
    return -z / (1.0 - tail), -z * tail / (1.0 - tail)


@compiled
def _win(z: float, e: float) -> tuple[float, float, float, float, float]:
    """log(e + (1 - 2 e) Phi(z)), its first three derivatives by z, and the derivative by e."""
    if e == 0.0:
        value = log_normal_cdf(z)
        h, excess = hazard(z)
        by_e = math.exp(min(-value, _LARGEST)) - 2.0
    else:
        cdf = 0.5 * math.erfc(-z * _ROOT_HALF)
        p = e + (1.0 - 2.0 * e) * cdf
        value = math.log(p)
        h = (1.0 - 2.0 * e) * math.exp(-0.5 * z * z - _HALF_LOG_2PI) / p
        excess = h + z
        by_e = (1.0 - 2.0 * cdf) / p
    return value, h, -h * excess, h * (excess * (h + excess) - 1.0), by_e


@compiled
def _tie(d: float, t: float) -> tuple[float, float, float, float, float, float, float]:
    """log(Phi(t - d) - Phi(-t - d)): value, d, dd, ddd, t, td, tdd derivatives.

    With p and q the densities at the two ends over the probability, all of them are
    polynomials in p, q and the ends. Even in d, so that d is taken positive.
    """
    sign, d = (1.0, d) if d >= 0 else (-1.0, -d)
    upper, lower = t - d, -t - d
    log_upper = log_normal_cdf(upper)
    log_ratio = log_normal_cdf(lower) - log_upper
    left = -math.expm1(log_ratio)  # P / Phi(upper)
    h, excess = hazard(upper)
    p = h / left
    q = hazard(lower)[0] * math.exp(log_ratio) / left
    gap, total = p - q, p + q
    rest = p - h
    curvature = max(p * (excess + rest) - q * (lower + p + gap), 0.0)  # p u - q l + gap^2
    ends = p * upper - q * lower
    third = p * upper * upper - q * lower * lower + gap * (ends - 1.0 + 2.0 * curvature)
    slope_t = p * (upper + total) + q * (lower - total)
    ends_t = total - p * upper * (upper + total) - q * lower * (lower - total)
    return (
        log_upper + math.log(left),
        -sign * gap,
        -curvature,
        -sign * third,
        total,
        sign * slope_t,
        -(ends_t - 2.0 * gap * slope_t),
    )


@compiled
def log_likelihood(
    d: float, a: float, b: float, c: float, t: float, e: float
) -> tuple[float, float, float, float, float, float, float, float]:
    """l(d) and its derivatives d, dd, ddd, t, td, tdd, e."""
    u0 = u1 = u2 = u3 = u4 = 0.0
    v0 = v1 = v2 = v3 = v4 = 0.0
    w0 = w1 = w2 = w3 = w4 = w5 = w6 = 0.0
    if a > 0:
        u0, u1, u2, u3, u4 = _win(d - t, e)
    if b > 0:
        v0, v1, v2, v3, v4 = _win(-d - t, e)
    if c > 0:
        w0, w1, w2, w3, w4, w5, w6 = _tie(d, t)
        w0 += math.log1p(-2.0 * e)
    return (
        a * u0 + b * v0 + c * w0,
        a * u1 - b * v1 + c * w1,
        a * u2 + b * v2 + c * w2,
        a * u3 - b * v3 + c * w3,
        -a * u1 - b * v1 + c * w4,
        -a * u2 + b * v2 + c * w5,
        -a * u3 - b * v3 + c * w6,
        a * u4 + b * v4 - c * 2.0 / (1.0 - 2.0 * e),
    )


@compiled
def tilted(
    m: float, v: float, a: float, b: float, c: float, t: float, e: float, near: float
) -> tuple[float, float, float, float, float]:
    """log Z of N(d | m, v) exp(l(d)), its slope and minus its curvature in m, slopes in t and e.

    A single comparison has a closed form, with variance 1 + v. Others are integrated, by few nodes
    where the product is nearly Gaussian: where v is small, and flips cannot give it a second mode.
    The search for the mode starts at m + near.
    """
    n = a + b + c
    is_single = n == 1.0 and (a == 1.0 or b == 1.0 or c == 1.0)
    if is_single or v == 0.0 or n == 0.0:
        s = math.sqrt(1.0 + v) if is_single else 1.0
        value, first, second, _, by_t, _, _, by_e = log_likelihood(m / s, a, b, c, t / s, e)
        return value, first / s, -second / (s * s), by_t / s, by_e
    mode, top, curvature = _mode(m, v, a, b, c, t, e, near)
    scale, is_narrow = 1.0 / math.sqrt(curvature), e == 0.0 and v <= _NARROW
    if is_narrow or (
        (v <= _MEDIUM or (v <= _WIDE and n <= _FEW)) and (e == 0.0 or n * v <= _ONE_MODE)
    ):
        rule = (_Z11, _W11) if is_narrow else (_Z31, _W31)
        sums = np.empty(_SUMS)
        _integrals(0.0, scale, *rule, mode, top, m, v, a, b, c, t, e, sums)
    else:
        sums = _integrated(scale, mode, top, m, v, a, b, c, t, e)
    return _moments_of(sums, mode, top, v, e)


@compiled
def _integrated(
    scale: float, mode: float, top: float, m: float, v: float, a: float, b: float, c: float,
    t: float, e: float,
) -> Array:  # fmt: skip
    """`_integrals` over all x, adaptively: panels are halved until they converge."""
    total, panels = np.zeros(_SUMS), np.empty((_STACK + 1, _SUMS + 2))  # sums of each, and its ends
    for side in range(2):
        sign, reach = 2 * side - 1, 2.0 * scale
        while True:
            x = mode + sign * reach
            value = log_likelihood(m + x, a, b, c, t, e)[0] - 0.5 * x * x / v
            if not top - value <= _DROP:  # or NaN
                break
            reach *= 1.5
        panels[0, _SUMS + side] = sign * reach
    n_open, is_whole = 1, True
    while n_open > 0:
        n_open -= 1
        start, stop = panels[n_open, _SUMS], panels[n_open, _SUMS + 1]
        mass, spread = panels[n_open, 0], panels[n_open, 2]
        middle = 0.0 if is_whole else 0.5 * (start + stop)
        for side in range(2):
            half = panels[n_open + side]
            begin, end = (middle, stop) if side else (start, middle)
            half[_SUMS], half[_SUMS + 1] = begin, end
            where = 0.5 * (begin + end), 0.5 * (end - begin), _NODES, _NODE_WEIGHTS
            _integrals(*where, mode, top, m, v, a, b, c, t, e, half)
        left, right = panels[n_open], panels[n_open + 1]
        new_mass, new_spread = left[0] + right[0], left[2] + right[2]
        rough = abs(new_mass - mass) > _ACCURACY * max(total[0] + new_mass, scale)
        rough |= abs(new_spread - spread) > _ACCURACY * max(total[2] + new_spread, scale**3)
        rough &= n_open + 2 <= _STACK and stop - start > 0.02 * min(scale, 1.0)
        if rough or is_whole:
            n_open, is_whole = n_open + 2, False
        else:
            for p in range(_SUMS):
                total[p] += left[p] + right[p]
    return total


@compiled
def _integrals(
    centre: float, scale: float, z: Array, w: Array, mode: float, top: float, m: float, v: float,
    a: float, b: float, c: float, t: float, e: float, sums: Array,
) -> None:  # fmt: skip
    """Integrals of 1, x, x^2 (x from the mode), l', l'^2, -l'', and slopes in t and e."""
    for p in range(_SUMS):
        sums[p] = 0.0
    for k in range(len(z)):
        off = centre + scale * z[k]
        x = mode + off
        l0, l1, l2, _, lt, _, _, le = log_likelihood(m + x, a, b, c, t, e)
        weight = scale * w[k] * math.exp(l0 - 0.5 * x * x / v - top)
        for p, value in enumerate((1.0, off, off * off, l1, l1 * l1, -l2, lt, le)):
            sums[p] += weight * value


@inlined
def _moments_of(
    sums: Any, mode: float, top: float, v: float, e: float
) -> tuple[float, float, float, float, float]:
    """`tilted` from the integrals."""
    mass, x1, x2 = sums[0], sums[1] / sums[0], sums[2] / sums[0]
    slope, slope2, bend = sums[3] / mass, sums[4] / mass, sums[5] / mass
    by_t, by_e = sums[6] / mass, sums[7] / mass
    log_z = top + math.log(mass) - _HALF_LOG_2PI - 0.5 * math.log(v)
    shrinkage = (v - (x2 - x1 * x1)) / v
    if abs(shrinkage) < _CANCELS:
        shrinkage = bend - (slope2 - slope * slope)
    else:
        slope, shrinkage = (mode + x1) / v, shrinkage / v
    return log_z, slope, shrinkage if e > 0.0 else max(shrinkage, 0.0), by_t, by_e


@compiled
def _mode(
    m: float, v: float, a: float, b: float, c: float, t: float, e: float, x: float
) -> tuple[float, float, float]:
    """A maximum of l(m + x) - x^2 / 2v: its x, value, and minus its curvature (or 1 / v)."""
    l0, l1, l2, _, _, _, _, _ = log_likelihood(m + x, a, b, c, t, e)
    top = l0 - 0.5 * x * x / v
    for _ in range(100):
        curvature = 1.0 / v - min(l2, 0.0)
        slope = l1 - x / v
        step = slope / curvature
        while True:
            new = x + step
            l0, l1, l2, _, _, _, _, _ = log_likelihood(m + new, a, b, c, t, e)
            value = l0 - 0.5 * new * new / v
            if not value < top - 1e-12 * (1.0 + abs(top)) or not abs(step) >= 1e-300:
                break
            step *= 0.5
        x, top = new, value
        if abs(step) * math.sqrt(curvature) < _NEAR:
            break
    return x, top, 1.0 / v - min(l2, 0.0)


@inlined
def cavity(m: float, v: float, tau: float, nu: float, prior: float) -> tuple[float, float]:
    """Mean and variance of d without the site, if v > 0.

    1 / variance = 1 / v - tau and mean / variance = m / v - nu. The variance is at most the prior
    variance, whatever the rounding.
    """
    if v == 0.0:
        return m, v
    left = max(1.0 - tau * v, min(v / prior, 1.0))
    return (m - v * nu) / left, v / left


@compiled
def update_sites(
    m: Array, v: Array, prior: Array, tau: Array, nu: Array, counts: Array, t: float, e: float,
    out: Array,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Match every site to its tilted moments, all from the same posterior.

    `counts` has the wins, losses and ties of the first row: the paper's w = 1 is (1, 0, 0), and
    w = -1 is (0, 1, 0). t is the threshold of ties, and e the share of flips.

    The KPCRank paper does not write this update out. Section 3.6 of Rasmussen and Williams,
    Gaussian Processes for Machine Learning, has the same three steps: equations (3.56), (3.58) and
    (3.59). m and v are the posterior means and variances of the differences d, and `prior` has
    their prior variances.

    Row k of `out` becomes the new tau and nu, and the error of its moments, in units of
    sqrt(1 + v). Returns the largest error, the evidence of the sites, and its slopes in t and e.
    """
    worst = evidence = by_t = by_e = 0.0
    for k in range(len(m)):
        # 1. The cavity N(mean, variance): the posterior of d without its site, (3.56).
        mean, variance = cavity(m[k], v[k], tau[k], nu[k], prior[k])
        # 2. The tilted distribution: cavity times likelihood. `slope` and `bend` are the first and
        #    minus the second derivative of log Z by the mean. Its moments are
        #    new mean = mean + variance slope, new variance = variance - variance^2 bend, (3.58).
        log_z, slope, bend, part_t, part_e = tilted(
            mean, variance, counts[k, 0], counts[k, 1], counts[k, 2], t, e, m[k] - mean
        )
        # 3. The site with which the posterior has these moments, (3.59):
        #    tau = 1 / new variance - 1 / variance, nu = new mean / new variance - mean / variance.
        #    With left = new variance / variance = 1 - variance bend, which is above 0 whatever the
        #    rounding, this is tau = bend / left and nu = (slope + mean bend) / left.
        left = max(1.0 - bend * variance, 1e-12)
        out[k, 0] = bend / left
        out[k, 1] = (slope + mean * bend) / left
        off_mean = abs(mean + variance * slope - m[k]) / math.sqrt(1.0 + v[k])
        off_variance = abs(variance * left - v[k]) / (1.0 + v[k])
        out[k, 2] = max(off_mean, off_variance)
        worst = max(worst, out[k, 2])
        # The factor of the evidence: Z over the integral of cavity times present site.
        spread = 1.0 + tau[k] * variance
        evidence += log_z + 0.5 * math.log(spread)
        evidence -= (
            nu[k] * mean + 0.5 * nu[k] * nu[k] * variance - 0.5 * tau[k] * mean * mean
        ) / spread
        by_t += part_t
        by_e += part_e
    return worst, evidence, by_t, by_e


@compiled
def derivatives(d: Array, counts: Array, t: float, out: Array) -> None:
    """Row k of `out`: `log_likelihood` of d[k], value and six derivatives."""
    for k in range(len(d)):
        a, b, c = counts[k]
        terms = log_likelihood(d[k], a, b, c, t, 0.0)
        for p in range(out.shape[1]):
            out[k, p] = terms[p]
