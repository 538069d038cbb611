"""Tests over queries, from their definitions."""

from itertools import product
from math import sqrt

from scipy.stats import t


def two_sided_sign_flips(gaps):
    """Share of all choices of signs whose sum is at least as far from 0; `gaps` are integers."""
    flipped = [
        abs(sum(sign * gap for sign, gap in zip(signs, gaps, strict=True)))
        for signs in product((1, -1), repeat=len(gaps))
    ]
    return sum(value >= abs(sum(gaps)) for value in flipped) / len(flipped)


def holm_adjusted(p_values):
    """The largest of (number of tests not smaller) times p over all p-values up to each."""
    k = len(p_values)
    ordered = sorted(range(k), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * k, 0.0
    for step, i in enumerate(ordered):
        largest = max(largest, min(1.0, (k - step) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def t_interval(gaps, level):
    """Mean plus and minus Student's quantile times the standard error."""
    n = len(gaps)
    mean = sum(gaps) / n
    error = sqrt(sum((gap - mean) ** 2 for gap in gaps) / (n - 1) / n)
    width = t.ppf(0.5 + level / 2, n - 1) * error
    return mean - width, mean + width
