"""Intervals of held-out AUCs, and the nested AUC."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from rankwise import RankingSearchCV, RankRLS
from rankwise.errors import DataError, ParameterError, RankwiseWarning
from rankwise.model_selection import (
    auc_difference,
    auc_interval,
    leave_pair_out,
    nested_leave_pair_out,
)

rng = np.random.default_rng(0)
X = rng.standard_normal((24, 3))
Y = (X[:, 0] + 1.5 * rng.standard_normal(24) > 0).astype(float)


def outcomes(ranker, X, y):
    """A matrix of outcomes with a row for each positive and a column for each negative row."""
    held = leave_pair_out(ranker, X, y, return_differences=True)
    d = np.zeros((len(y), len(y)))
    for (i, j), value in zip(held.pairs, held.differences[0], strict=True):
        d[i, j], d[j, i] = value, -value
    return (1 + np.sign(d[np.ix_(y == 1, y == 0)])) / 2


def delong(values):
    return np.sqrt(
        values.mean(axis=1).var(ddof=1) / len(values)
        + values.mean(axis=0).var(ddof=1) / values.shape[1]
    )


@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_the_standard_error_is_delongs(ties):
    ranker = RankRLS(1.0, ties=ties)
    values, result = outcomes(ranker, X, Y), auc_interval(ranker, X, Y, level=0.9)
    error = delong(values)
    assert_allclose(result.auc, values.mean())
    assert_allclose(result.standard_error, error)
    half = norm.ppf(0.95) * error / (result.auc * (1 - result.auc))
    assert_allclose([result.low, result.high], expit(logit(result.auc) + np.array([-half, half])))
    assert result.n_pairs == values.size


def test_perfect_order_has_a_lower_bound():
    """Newcombe's method 5, from its equation."""
    x = np.arange(12.0)[:, None]
    result = auc_interval(RankRLS(1.0), x, np.arange(12) >= 8)
    assert (result.auc, result.high, result.standard_error) == (1.0, 1.0, 0.0)
    t = result.low
    spread = t * (1 - t) * (1 + 5 * ((1 - t) / (2 - t) + t / (1 + t))) / 32
    assert_allclose(1 - t, norm.ppf(0.975) * np.sqrt(spread), rtol=1e-6)


def test_a_bootstrap_over_rows():
    values = outcomes(RankRLS(1.0), X, Y)
    result = auc_interval(RankRLS(1.0), X, Y, method="bootstrap", random_state=0)
    draw = np.random.default_rng(1)
    want = []
    for _ in range(2000):
        rows = draw.integers(0, len(values), len(values))
        columns = draw.integers(0, values.shape[1], values.shape[1])
        want.append(values[np.ix_(rows, columns)].mean())
    assert result.standard_error == pytest.approx(np.std(want), rel=0.1)
    assert result.low == pytest.approx(np.quantile(want, 0.025), abs=0.03)


def test_many_labels():
    """The standard error is that of leave_pair_out, without its bias."""
    y = np.round(2 * X[:, 0] + rng.standard_normal(24))
    result, held = auc_interval(RankRLS(1.0), X, y), leave_pair_out(RankRLS(1.0), X, y)
    assert_allclose(result.auc, held.auc[0])
    assert_allclose(result.standard_error, held.standard_error[0] * np.sqrt(24 / 23))
    low, high = (
        getattr(auc_interval(RankRLS(1.0), X, y, method="bootstrap", random_state=0), side)
        for side in ("low", "high")
    )
    assert 0 < low < result.auc < high < 1


def test_strata_compare_rows_within_them():
    strata = np.arange(24) % 2
    result = auc_interval(RankRLS(1.0), X, Y, strata=strata)
    within = sum(Y[strata == s].sum() * (1 - Y[strata == s]).sum() for s in (0, 1))
    assert result.n_pairs == within


def test_the_difference_of_two_rankers():
    noise = rng.standard_normal((24, 2))
    result = auc_difference(RankRLS(1.0), RankRLS(5.0), X, Y, X_second=noise)
    gap = outcomes(RankRLS(1.0), X, Y) - outcomes(RankRLS(5.0), noise, Y)
    assert_allclose(result.difference, gap.mean())
    assert_allclose(result.standard_error, delong(gap))
    assert_allclose(result.p_value, 2 * norm.sf(abs(gap.mean()) / delong(gap)))
    assert_allclose(result.high - result.low, 2 * norm.ppf(0.975) * delong(gap))
    drawn = auc_difference(
        RankRLS(1.0), RankRLS(5.0), X, Y, X_second=noise, method="bootstrap", random_state=0
    )
    assert drawn.standard_error == pytest.approx(result.standard_error, rel=0.2)
    same = auc_difference(RankRLS(1.0), RankRLS(1.0), X, Y)
    assert (same.difference, same.p_value) == (0.0, 1.0)


def test_words_and_frames():
    interval = auc_interval(RankRLS(1.0), X, Y)
    assert "95% interval" in repr(interval)
    assert interval.to_frame().loc["u-statistic", "auc"] == interval.auc
    difference = auc_difference(RankRLS(1.0), RankRLS(2.0), X, Y)
    assert "AUCDifference" in repr(difference)
    assert difference.to_frame().loc["u-statistic", "first"] == difference.first
    nested = nested_leave_pair_out(RankRLS(1.0), X, Y, n_repeats=1, random_state=0)
    assert "not nested" in repr(nested)
    assert nested.to_frame()["optimism"].tolist() == [nested.optimism]


def test_bad_parameters():
    with pytest.raises(ParameterError, match="method must be one of u-statistic, bootstrap"):
        auc_interval(RankRLS(1.0), X, Y, method="jackknife")
    with pytest.raises(ParameterError, match="level must be a number"):
        auc_interval(RankRLS(1.0), X, Y, level=95)
    with pytest.raises(DataError, match="One label per row"):
        auc_interval(RankRLS(1.0), X, np.column_stack((Y, Y)))
    with pytest.raises(ParameterError, match='number of folds or "pairs"'):
        nested_leave_pair_out(RankRLS(1.0), X, Y, outer="folds")
    with pytest.raises(DataError, match="All labels are equal"):
        nested_leave_pair_out(RankRLS(1.0), X, np.ones(24))
    with pytest.raises(DataError, match="single row"):
        auc_interval(RankRLS(1.0), X, np.arange(24) == 3)
    with pytest.raises(DataError, match="single row"):
        nested_leave_pair_out(RankRLS(1.0), X, np.arange(24) == 3)
    with pytest.raises(DataError, match="in one group"):
        nested_leave_pair_out(RankRLS(1.0), X, Y, groups=np.ones(24))
    with pytest.raises(DataError, match="shape"):
        nested_leave_pair_out(RankRLS(1.0), X, np.column_stack((Y, Y)))


def test_all_outer_pairs_are_leave_pair_out():
    """With a fixed alpha, nothing is chosen, and the nested AUC is the other one."""
    frame = pd.DataFrame(X[:14], columns=["a", "b", "c"])
    ranker = RankRLS(1.0, scale=None)
    result = nested_leave_pair_out(ranker, frame, Y[:14], outer="pairs", n_pairs=1000)
    assert_allclose(result.auc, leave_pair_out(ranker, frame, Y[:14]).auc[0])
    assert_allclose(result.optimism, 0.0, atol=1e-12)
    assert set(result.alphas) == {1.0}


@pytest.mark.parametrize("options", [{}, {"groups": np.arange(24) // 2}])
def test_a_kernel_matrix_instead_of_features(options):
    options = {"outer": 3, "n_repeats": 1, "random_state": 0, **options}
    one = nested_leave_pair_out(RankRLS(1.0, scale=None), X, Y, **options)
    kernel = RankRLS(1.0, kernel="precomputed", scale=None)
    other = nested_leave_pair_out(kernel, X @ X.T, Y, **options)
    assert_allclose([one.auc, one.unnested], [other.auc, other.unnested])


def test_groups_are_held_out_together():
    groups = np.arange(24) // 2
    fitted = []

    class Watched(RankRLS):
        def fit(self, X, y):
            fitted.append(X)
            return super().fit(X, y)

    for outer in ("pairs", 3):
        fitted.clear()
        rows = np.column_stack((X, groups))
        nested_leave_pair_out(
            Watched(1.0), rows, Y, outer=outer, n_pairs=4, n_repeats=1, groups=groups
        )
        for training in fitted:
            assert set(np.bincount(training[:, 3].astype(int))) <= {0, 2}
        assert all(len(training) == 20 for training in fitted[:-1] if outer == "pairs")


@pytest.mark.parametrize("given", ["groups", "strata"])
def test_alpha_is_chosen_by_pairs_of_groups_and_within_strata(given):
    """Two samples of a patient are almost the same: held out one by one, they would be found."""
    rng = np.random.default_rng(0)
    units = np.repeat(np.arange(15), 2) if given == "groups" else np.arange(30) % 2
    rows = np.repeat(rng.standard_normal((15, 8)), 2, axis=0) + 0.01 * rng.standard_normal((30, 8))
    y = np.repeat(rng.permutation(np.arange(15) % 2), 2)
    fitted = []

    class Watched(RankRLS):
        def fit(self, X, y):
            if self.alpha != "auto":
                fitted.append((X, y, self.alpha))
            return super().fit(X, y)

    pipeline = make_pipeline(FunctionTransformer(), Watched(kernel="rbf", scale=None))
    rows = np.column_stack((rows, 0.1 * units))
    options = {"n_repeats": 1, "random_state": 0, given: units}
    result = nested_leave_pair_out(pipeline, rows, y, outer=3, **options)
    assert len(fitted) == 4  # three folds, and all rows
    for X_rest, y_rest, alpha in fitted:
        ids = {given: np.rint(10 * X_rest[:, 8])}
        held = leave_pair_out(RankRLS(kernel="rbf", scale=None), X_rest, y_rest, **ids)
        assert alpha == pytest.approx(held.best_alpha)
    assert_allclose(result.alphas, [alpha for _, _, alpha in fitted[:3]])
    whole = leave_pair_out(RankRLS(kernel="rbf", scale=None), rows, y, **{given: units})
    assert result.unnested == pytest.approx(whole.auc.max())


def test_groups_of_a_grid_search_and_too_few_groups():
    groups = np.arange(24) // 2
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, cv=GroupKFold(2))
    options = {"outer": 3, "n_repeats": 1, "random_state": 0}
    assert 0 < nested_leave_pair_out(search, X, Y, groups=groups, **options).auc < 1
    with pytest.warns(RankwiseWarning, match="In 2 of 2 fits, alpha was chosen by all pairs"):
        nested_leave_pair_out(RankRLS(), X, Y, groups=np.arange(24) % 2, **options)
    search = RankingSearchCV(RankRLS(), {"alpha": [0.1, 10.0]}, cv="leave_pair_out")
    with pytest.warns(RankwiseWarning, match="not by groups"):
        nested_leave_pair_out(search, X, Y, groups=groups, **options)


def test_the_choice_of_features_flatters_unless_it_is_nested():
    rng = np.random.default_rng(0)
    noise, y = rng.standard_normal((30, 400)), np.arange(30) % 2
    pipeline = make_pipeline(SelectKBest(k=5), RankRLS(1.0))
    result = nested_leave_pair_out(pipeline, noise, y, n_repeats=2, random_state=0)
    assert result.unnested > 0.8
    assert result.auc < 0.7
    assert result.optimism > 0.2


def test_searches_and_other_rankers():
    search = RankingSearchCV(RankRLS(), {"alpha": [0.1, 10.0]}, cv="leave_pair_out")
    result = nested_leave_pair_out(search, X, Y, n_repeats=1, random_state=0)
    assert set(result.alphas) <= {0.1, 10.0}
    assert result.unnested == max(leave_pair_out(RankRLS(), X, Y, alphas=[0.1, 10.0]).auc)
    other = nested_leave_pair_out(Ridge(), X, Y, outer=2, n_repeats=1, random_state=0)
    assert other.unnested is None
    assert other.optimism is None
    assert np.isnan(other.alphas).all()


@pytest.mark.parametrize("method", ["u-statistic", "bootstrap"])
def test_a_group_is_one_observation(method):
    """Copies of all rows, each with its original in a group, say nothing new."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    y = (X[:, 0] + rng.standard_normal(30) > 0).astype(float)
    options = {"method": method, "random_state": 0}
    twice, labels, groups = np.repeat(X, 2, axis=0), np.repeat(y, 2), np.repeat(np.arange(30), 2)
    ranker = RankRLS(10.0, scale=None)
    alone = auc_interval(ranker, X, y, groups=np.arange(30), alpha=5.0, **options)
    copied = auc_interval(ranker, twice, labels, groups=groups, **options)
    assert copied.auc == pytest.approx(alone.auc)
    assert copied.standard_error == pytest.approx(alone.standard_error)
    assert copied.n_pairs == 4 * alone.n_pairs
    difference = auc_difference(
        ranker, ranker, twice, labels, X_second=twice[:, 1:], groups=groups, **options
    )
    assert difference.first == copied.auc


def test_the_interval_of_a_perfect_order_depends_on_the_number_of_groups():
    X = np.arange(24.0)[:, None] + np.where(np.arange(24) > 11, 50.0, 0.0)[:, None]
    y = (np.arange(24) > 11).astype(float)
    found = [auc_interval(RankRLS(1.0), X, y, groups=np.arange(24) // size) for size in (1, 2, 4)]
    assert [one.auc for one in found] == [1.0, 1.0, 1.0]
    assert found[0].low > found[1].low > found[2].low
