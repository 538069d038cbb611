"""How sure is the AUC of held-out pairs, and the difference of two?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from rankwise.backends.arrays import Array
from rankwise.holdout.held_out_scores import given_note, given_words
from rankwise.model_selection._pair_outcomes import difference_error, held_out_outcomes
from rankwise.parameters import Choice, Number, Whole, as_generator, check_value
from rankwise.tables import Column, Table, TableMixin

METHODS = Choice("u-statistic", "bootstrap")


@dataclass(frozen=True, eq=False, repr=False)
class AUCInterval(TableMixin):
    """The AUC of held-out pairs with its interval.

    Attributes
    ----------
    auc : float
        For more than two labels, the share of pairs in the right order.
    low, high : float
        The interval.
    standard_error : float
    level : float
    method : str
    alpha : float
        The alpha at which pairs were held out.
    n_pairs : int
        The number of pairs with different labels.
    shared : tuple of str
        What held-out rows had a part in, as for `LeavePairOut`.

    Examples
    --------
    >>> print(AUCInterval(0.8, 0.7, 0.88, 0.045, 0.95, "u-statistic", 1.0, 400))
       AUC     low    high    s.e.  level  alpha  pairs
    ------  ------  ------  ------  -----  -----  -----
    0.8000  0.7000  0.8800  0.0450   0.95      1    400
    """

    auc: float
    low: float
    high: float
    standard_error: float
    level: float
    method: str
    alpha: float
    n_pairs: int
    shared: tuple[str, ...] = ()

    def to_table(self) -> Table:
        """One row with the AUC and its interval."""
        columns = (
            Column("AUC"),
            Column("low"),
            Column("high"),
            Column("s.e."),
            Column("level", ".3g"),
            Column("alpha", ".4g"),
            Column("pairs"),
        )
        row = (self.auc, self.low, self.high, self.standard_error)
        cells = (*row, self.level, self.alpha, self.n_pairs)
        return Table(columns, (cells,), note=given_note(self.shared))

    def _frame_columns(self) -> dict[str, Any]:
        names = ("method", "auc", "low", "high", "standard_error", "level", "alpha", "n_pairs")
        return {name: [getattr(self, name)] for name in names}

    def __repr__(self) -> str:
        return (
            f"<AUCInterval: AUC {self.auc:.4f}, {self.level:.0%} interval {self.low:.4f} to "
            f"{self.high:.4f} ({self.method}){given_words(self.shared)}>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class AUCDifference(TableMixin):
    """The AUC of one ranker less that of another on the same held-out pairs.

    Attributes
    ----------
    difference : float
    low, high : float
        The interval.
    standard_error : float
    p_value : float
        Of the hypothesis that both rankers are equally good, by a normal approximation.
    first, second : float
        The two AUCs.
    level : float
    method : str
    shared : tuple of str
        What held-out rows had a part in, as for `LeavePairOut`.

    Examples
    --------
    >>> print(AUCDifference(0.1, 0.02, 0.18, 0.041, 0.0147, 0.9, 0.8, 0.95, "u-statistic"))
     first  second  difference     low    high    s.e.       p
    ------  ------  ----------  ------  ------  ------  ------
    0.9000  0.8000      0.1000  0.0200  0.1800  0.0410  0.0147
    """

    difference: float
    low: float
    high: float
    standard_error: float
    p_value: float
    first: float
    second: float
    level: float
    method: str
    shared: tuple[str, ...] = ()

    def to_table(self) -> Table:
        """One row with both AUCs, their difference and its interval."""
        columns = (
            Column("first"),
            Column("second"),
            Column("difference"),
            Column("low"),
            Column("high"),
            Column("s.e."),
            Column("p", ".3g"),
        )
        row = (self.first, self.second, self.difference, self.low, self.high)
        cells = (*row, self.standard_error, self.p_value)
        return Table(columns, (cells,), note=given_note(self.shared))

    def _frame_columns(self) -> dict[str, Any]:
        names = ("method", "difference", "low", "high", "standard_error", "p_value", "first")
        return {name: [getattr(self, name)] for name in (*names, "second", "level")}

    def __repr__(self) -> str:
        return (
            f"<AUCDifference: {self.difference:+.4f}, {self.level:.0%} interval {self.low:+.4f} "
            f"to {self.high:+.4f}, p = {self.p_value:.3g}{given_words(self.shared)}>"
        )


def auc_interval(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    strata: Any = None,
    groups: Any = None,
    alpha: Any = None,
    method: str = "u-statistic",
    level: float = 0.95,
    n_resamples: int = 2000,
    random_state: Any = None,
) -> AUCInterval:
    """Hold out every pair of rows, and give the AUC with an interval.

    Another sample of rows would give another AUC. The interval says how much, given rankers like
    these: it does not contain the choice of `alpha` on the same rows, which
    `nested_leave_pair_out` includes. Nor does it contain that rankers trained on nearly the same
    rows err together: in simulations, intervals of 95% cover about 93% with a clear signal and at
    least 80 rows, but only about 80% without signal. To test for a signal, use
    `permutation_test`. O(m^2) memory.

    Parameters
    ----------
    estimator : RankRLS, SparseRankRLS, KPCRank, or one of their pointwise baselines
        It is cloned, not fitted.
    X : array-like or sparse of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    strata : array-like of shape (n_rows,), optional
        Such as hospitals: only pairs within a stratum are held out.
    groups : array-like of shape (n_rows,), optional
        Such as patients with several samples: pairs of groups are held out, and a group, not a
        row, counts as one observation.
    alpha : float or sequence of float, optional
        Of several, the best is used. None: that of the estimator or, if it is "auto", a grid.
    method : {"u-statistic", "bootstrap"}, default="u-statistic"
        "u-statistic": DeLong's standard error (for more than two labels, the corresponding one over
        rows), symmetric on the scale of log odds. If all pairs are in the right order, it is 0, and
        the interval is Newcombe's, which depends on the numbers of rows only. "bootstrap":
        percentiles over samples of rows, in which a row is never compared with itself; too short
        for an AUC near 1.
    level : float, default=0.95
    n_resamples : int, default=2000
        Number of bootstrap samples.
    random_state : int or Generator, optional
        For the bootstrap.

    Returns
    -------
    AUCInterval

    References
    ----------
    DeLong, DeLong, Clarke-Pearson: Comparing the areas under two or more correlated receiver
    operating characteristic curves. Biometrics 44, 1988. Newcombe: Confidence intervals for an
    effect size measure based on the Mann-Whitney statistic. Statistics in Medicine 25, 2006.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import load_dataset
    >>> from rankwise.model_selection import auc_interval
    >>> data = load_dataset("breast_cancer")
    >>> auc_interval(RankRLS(10.0), data.X[:80, :3], data.y[:80])
    <AUCInterval: AUC 0.9799, 95% interval 0.9361 to 0.9939 (u-statistic)>
    """
    rng = _checked(method, level, n_resamples, random_state)
    found, best = held_out_outcomes(estimator, X, y, strata, groups, alpha)
    if method == "u-statistic":
        error, (low, high) = found.standard_error(), found.interval(level)
    else:
        error, low, high = _percentiles(found.resampled(n_resamples, rng), level)
    numbers = found.auc, low, high, error, level, method, best, found.n_pairs
    return AUCInterval(*numbers, found.shared)


def auc_difference(
    first: Any,
    second: Any,
    X: Any,
    y: Any,
    *,
    X_second: Any = None,
    strata: Any = None,
    groups: Any = None,
    method: str = "u-statistic",
    level: float = 0.95,
    n_resamples: int = 2000,
    random_state: Any = None,
) -> AUCDifference:
    """Compare the AUCs of two rankers on the same held-out pairs.

    Parameters
    ----------
    first, second : RankRLS, SparseRankRLS, KPCRank, or one of their pointwise baselines
        They are cloned, not fitted. Each is used with its alpha; "auto": the best of a grid.
    X : array-like or sparse of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    X_second : array-like or sparse of shape (n_rows, n_other_features), optional
        The features of the same rows for the second ranker, if it has other features.
    strata, groups, method, level, n_resamples, random_state
        As for `auc_interval`. The interval of the U-statistic is symmetric here.

    Returns
    -------
    AUCDifference

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import load_dataset
    >>> from rankwise.model_selection import auc_difference
    >>> data = load_dataset("breast_cancer")
    >>> X, y = data.X[:80], data.y[:80]
    >>> auc_difference(RankRLS(10.0), RankRLS(10.0), X, y, X_second=X[:, :3]).difference > 0
    True
    """
    rng = _checked(method, level, n_resamples, random_state)
    one, _ = held_out_outcomes(first, X, y, strata, groups, None)
    two, _ = held_out_outcomes(second, X if X_second is None else X_second, y, strata, groups, None)
    difference, error = one.auc - two.auc, difference_error(one, two)
    if method == "u-statistic":
        half = -float(ndtri((1 - level) / 2)) * error
        low, high = difference - half, difference + half
    else:
        seed = int(rng.integers(2**31))  # the same rows for both
        drawn = [part.resampled(n_resamples, np.random.default_rng(seed)) for part in (one, two)]
        error, low, high = _percentiles(drawn[0] - drawn[1], level)
    p = 2.0 * float(ndtr(-abs(difference) / error)) if error > 0 else float(difference == 0.0)
    shared = tuple(dict.fromkeys((*one.shared, *two.shared)))
    return AUCDifference(difference, low, high, error, p, one.auc, two.auc, level, method, shared)


def _checked(method: str, level: float, n_resamples: int, random_state: Any) -> np.random.Generator:
    check_value("method", method, METHODS)
    check_value("level", level, Number(0, 1, open_low=True, open_high=True))
    check_value("n_resamples", n_resamples, Whole(2))
    return as_generator(random_state)


def _percentiles(values: Array, level: float) -> tuple[float, float, float]:
    low, high = np.quantile(values, [0.5 - level / 2, 0.5 + level / 2])
    return float(values.std(ddof=1)), float(low), float(high)
