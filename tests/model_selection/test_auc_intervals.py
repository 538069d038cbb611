"""Intervals of held-out AUCs, and the nested AUC."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, logit
from scipy.stats import norm, t
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from rankwise import RLS, RankingSearchCV, RankRLS
from rankwise.errors import DataError, ParameterError, RankwiseWarning
from rankwise.model_selection import (
    auc_difference,
    auc_interval,
    leave_pair_out,
    nested_leave_pair_out,
    tournament_scores,
)
from rankwise.model_selection.auc_intervals import held_out_outcomes
from tests.oracles.auc_spread import refitted_outcomes, spread

rng = np.random.default_rng(0)
X = rng.standard_normal((24, 3))
Y = (X[:, 0] + 1.5 * rng.standard_normal(24) > 0).astype(float)


def test_the_interval_is_that_of_refits_without_each_row():
    """Every pair is refitted, and every pair again without each row."""
    x, y = X[:18, :2], np.arange(18) % 3 == 0
    result = auc_interval(RankRLS(1.0, scale=None), x, y, level=0.9)
    right, effects = refitted_outcomes(x, y, 1.0)
    assert_allclose(result.auc, right.mean())
    error, freedom = spread(right, effects, y)
    assert_allclose(result.standard_error, error)
    half = t.ppf(0.95, freedom) * error / (result.auc * (1 - result.auc))
    assert_allclose([result.low, result.high], expit(logit(result.auc) + np.array([-half, half])))
    assert result.n_pairs == right.size
    assert result.why == ""


def test_the_difference_is_that_of_refits_without_each_row():
    x, noise, y = X[:18, :2], rng.standard_normal((18, 2)), np.arange(18) % 2 == 0
    rankers = RankRLS(1.0, scale=None), RankRLS(5.0, scale=None)
    result = auc_difference(*rankers, x, y, X_second=noise)
    one, two = refitted_outcomes(x, y, 1.0), refitted_outcomes(noise, y, 5.0)
    right, effects = one[0] - two[0], one[1] - two[1]
    gap, (error, freedom) = right.mean(), spread(right, effects, y)
    assert_allclose(result.difference, gap)
    assert_allclose((result.first, result.second), (one[0].mean(), two[0].mean()))
    assert_allclose(result.standard_error, error)
    distance = np.arctanh(gap) * (1 - gap**2) / error
    assert_allclose(result.p_value, 2 * t.sf(abs(distance), freedom))
    half = t.ppf(0.975, freedom) * error / (1 - gap**2)
    assert_allclose([result.low, result.high], np.tanh(np.arctanh(gap) + np.array([-half, half])))


@pytest.mark.parametrize(
    "ranker",
    [
        RankRLS(1.0, scale=None, ties="exclude"),
        RankRLS(1.0, scale=None, weighting="pairs"),
        RankRLS(1e9, scale=None),
        RankRLS(0.1, kernel="rbf", gamma=0.5, scale=None),
        RLS(1.0, scale=None),
    ],
    ids=["ties excluded", "weighted pairs", "large alpha", "rbf", "RLS"],
)
@pytest.mark.parametrize("given", [None, "groups", "strata"])
def test_effects_are_those_of_hold_outs_without_a_unit(ranker, given):
    units = np.arange(24) if given != "groups" else np.repeat(np.arange(16), [2] * 8 + [1] * 8)
    ids = {None: None, "groups": units, "strata": np.arange(24) % 2}[given]
    options = {"strata": None, "groups": None} | ({} if given is None else {given: ids})
    found, _ = held_out_outcomes(ranker, X, Y, **options, alpha=None)
    for unit in (0, 5, 15):
        rest = units != unit
        chosen = {} if given is None else {given: ids[rest]}
        held = leave_pair_out(ranker, X[rest], Y[rest], return_differences=True, **chosen)
        first, second = held.pairs.T
        gap = Y[rest][first] - Y[rest][second]
        wanted = ((1 + np.sign(gap * held.differences[0])) / 2)[gap != 0].sum()
        assert_allclose(found.effects[unit], found.right[rest][:, rest].sum() / 2 - wanted)


def test_many_rows_take_the_effects_of_some(monkeypatch):
    draw = np.random.default_rng(3)
    x = draw.standard_normal((120, 4))
    y = (x[:, 0] + 2 * draw.standard_normal(120) > 0).astype(float)
    exact = auc_interval(RankRLS(1.0), x, y)
    monkeypatch.setattr("rankwise.model_selection.auc_intervals.MOST_EFFECTS", 60)
    some = auc_interval(RankRLS(1.0), x, y)
    assert some.auc == exact.auc
    assert some.standard_error != exact.standard_error
    assert some.standard_error == pytest.approx(exact.standard_error, rel=0.1)


def test_a_rare_label_among_many_rows(monkeypatch):
    """All of its rows have effects, however few of the others have."""
    monkeypatch.setattr("rankwise.model_selection.auc_intervals.MOST_EFFECTS", 30)
    x, y = np.random.default_rng(3).standard_normal((150, 3)), np.arange(150) % 37 == 5
    found, _ = held_out_outcomes(RankRLS(1.0), x, y, strata=None, groups=None, alpha=None)
    known = ~np.isnan(found.effects)
    assert [known[y].sum(), known.sum()] == [4, 30]
    result = auc_interval(RankRLS(1.0), x, y)
    assert 0.0 < result.low < result.auc < result.high < 1.0
    assert np.isfinite(result.standard_error)


def test_one_ranker_is_always_right_and_the_other_always_wrong():
    """Always, but not without every row: the difference is 1, and its standard error is not 0."""
    signs = np.repeat([-1.0, 1.0], 10)
    good = np.random.default_rng(1).standard_normal((20, 5))
    good[:, 0] += 1.5 * signs
    bad = np.eye(20) - np.outer(signs, signs) / 20  # rows are like those of the other label
    ranker = RankRLS(1.0, scale=None)
    for x, z, gap in ((good, bad, 1.0), (bad, good, -1.0)):
        result = auc_difference(ranker, ranker, x, signs > 0, X_second=z)
        assert result.standard_error > 0.0
        assert result.difference == gap
        assert result.p_value == 0.0
        far, near = sorted((result.low, result.high), key=abs, reverse=True)
        assert far == gap
        assert 0.5 < near * gap < 1.0


def test_perfect_order_has_a_lower_bound():
    """Newcombe's method 5, from its equation."""
    x = np.arange(15.0)[:, None]
    result = auc_interval(RankRLS(1.0), x, np.arange(15) >= 11)
    assert (result.auc, result.high, result.standard_error) == (1.0, 1.0, 0.0)
    bound = result.low
    inner = 1 + 6.5 * ((1 - bound) / (2 - bound) + bound / (1 + bound))
    error = np.sqrt(bound * (1 - bound) * inner / 44)
    assert_allclose(1 - bound, norm.ppf(0.975) * error, rtol=1e-6)


def test_two_perfect_rankers_may_still_differ():
    """As far as a ranker without an error may have one on other rows."""
    x, y = np.arange(20.0)[:, None], np.arange(20) >= 10
    both = auc_difference(RankRLS(1.0), RankRLS(1.0), x, y, X_second=2.0 * x)
    alone = auc_interval(RankRLS(1.0), x, y)
    assert (both.difference, both.p_value, both.standard_error) == (0.0, 1.0, 0.0)
    assert_allclose([both.low, both.high], [alone.low - 1, 1 - alone.low])
    assert both.high > 0.1
    same = auc_difference(RankRLS(1.0), RankRLS(1.0), X, Y)
    assert same.difference == 0.0
    assert same.low < -0.1


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.arange(14), "at least 4 of each label and 15 rows in all, and there are 14 rows"),
        (np.r_[np.flatnonzero(Y == 0), np.flatnonzero(Y == 1)[:3]], "3 of the rarer label"),
    ],
)
def test_too_few_rows_have_no_interval(rows, words):
    found = auc_interval(RankRLS(1.0), X[rows], Y[rows])
    both = auc_difference(RankRLS(1.0), RankRLS(2.0), X[rows], Y[rows])
    assert (found.low, found.high, found.standard_error) == (None, None, None)
    assert (both.low, both.high, both.p_value) == (None, None, None)
    options = {"outer": 2, "n_repeats": 1, "random_state": 0}
    nested = nested_leave_pair_out(RankRLS(1.0), X[rows], Y[rows], **options)
    assert (nested.low, nested.high, nested.standard_error) == (None, None, None)
    for result in (found, both, nested):
        assert words in result.why
        assert words in " ".join(str(result).split())
        assert "no interval" in repr(result)
    assert 0 <= found.auc <= 1
    few = auc_interval(RankRLS(1.0), X, Y, groups=np.arange(24) // 2)
    assert "and there are 12 groups" in few.why


def test_many_labels():
    y = np.round(2 * X[:, 0] + rng.standard_normal(24))
    result, held = auc_interval(RankRLS(1.0), X, y), leave_pair_out(RankRLS(1.0), X, y)
    assert_allclose(result.auc, held.auc[0])
    assert result.standard_error > held.standard_error[0] * np.sqrt(24 / 23)  # test rows alone
    assert 0 < result.low < result.auc < result.high < 1


def test_strata_compare_rows_within_them():
    strata = np.arange(24) % 2
    result = auc_interval(RankRLS(1.0), X, Y, strata=strata)
    within = sum(Y[strata == s].sum() * (1 - Y[strata == s]).sum() for s in (0, 1))
    assert result.n_pairs == within


def rejections(n_samples, auc):
    """How often p < 0.05 for two sets of features that say equally much, with 30 rows."""
    draw, y = np.random.default_rng(0), np.arange(30) % 2
    shift, count, missed = np.sqrt(2) * norm.ppf(auc), 0, 0
    ranker = RankRLS(10.0, scale=None)
    for _ in range(n_samples):
        one, two = draw.standard_normal((2, 30, 3))
        one[:, 0] += shift * y
        two[:, 0] += shift * y
        count += auc_difference(ranker, ranker, one, y, X_second=two).p_value < 0.05
        if auc == 0.5:
            found = auc_interval(ranker, one, y)
            missed += not found.low <= 0.5 <= found.high
    return count / n_samples, missed / n_samples


def test_equally_good_rankers_rarely_differ():
    """At 5%, 4 of 30 samples or fewer are expected in 98.4% of all seeds."""
    rejected, missed = rejections(30, 0.5)
    assert rejected <= 4 / 30
    assert missed <= 4 / 30


@pytest.mark.slow
@pytest.mark.parametrize("auc", [0.5, 0.6, 0.8])
def test_the_level_of_differences(auc):
    """Four standard errors of 600 samples are 0.036."""
    rejected, missed = rejections(600, auc)
    assert 0.01 <= rejected <= 0.08
    assert missed <= 0.08


def test_words_and_frames():
    interval = auc_interval(RankRLS(1.0), X, Y)
    assert "95% interval" in repr(interval)
    assert interval.to_frame().loc[0.95, "auc"] == interval.auc
    difference = auc_difference(RankRLS(1.0), RankRLS(2.0), X, Y)
    assert "AUCDifference" in repr(difference)
    assert difference.to_frame().loc[0.95, "first"] == difference.first
    nested = nested_leave_pair_out(RankRLS(1.0), X, Y, n_repeats=1, random_state=0)
    assert "not nested" in repr(nested)
    assert nested.to_frame()["optimism"].tolist() == [nested.optimism]


def test_bad_parameters():
    with pytest.raises(ParameterError, match="level must be a number"):
        auc_interval(RankRLS(1.0), X, Y, level=95)
    with pytest.raises(DataError, match="One label per row"):
        auc_interval(RankRLS(1.0), X, np.column_stack((Y, Y)))
    with pytest.raises(ParameterError, match='at least 2, or "pairs"'):
        nested_leave_pair_out(RankRLS(1.0), X, Y, outer="folds")
    with pytest.raises(DataError, match="single row"):
        auc_interval(RankRLS(1.0), X, np.arange(24) == 3)
    with pytest.raises(DataError, match="single row"):
        nested_leave_pair_out(RankRLS(1.0), X, np.arange(24) == 3)
    with pytest.raises(DataError, match="in one group"):
        nested_leave_pair_out(RankRLS(1.0), X, Y, groups=np.ones(24))


@pytest.mark.parametrize(
    "as_words", [list, np.asarray, pd.Series, pd.Categorical, lambda y: np.array(y, dtype=object)]
)
def test_classes_may_be_words(as_words):
    """As numbers: 1 for the positive class."""
    words = as_words(["ill" if label else "well" for label in Y])
    ranker = RankRLS(1.0)
    expected, found = (
        [
            leave_pair_out(ranker, X, y, return_differences=True, **given).differences,
            auc_interval(ranker, X, y, **given).auc,
            auc_difference(ranker, RankRLS(9.0), X, y, **given).difference,
            nested_leave_pair_out(ranker, X, y, n_repeats=1, random_state=0, **given).auc,
            tournament_scores(ranker, X, y, **given),
        ]
        for y, given in ((Y, {}), (words, {"positive": "ill"}))
    )
    for one, two in zip(expected, found, strict=True):
        assert_allclose(one, two)
    with pytest.raises(DataError, match=r"classes 'ill', 'well': name the class .*positive='ill'"):
        auc_interval(ranker, X, words)
    with pytest.raises(DataError, match=r"No label is positive='dead': y has '(ill|well)'"):
        auc_interval(ranker, X, words, positive="dead")


def test_positive_classes():
    """One class against all others; numbers in text are numbers; a gap is not another class."""
    three = np.arange(24) % 3
    one = leave_pair_out(RankRLS(1.0), X, three, positive=2)
    assert_allclose(one.auc, leave_pair_out(RankRLS(1.0), X, (three == 2) * 1.0).auc)
    text = leave_pair_out(RankRLS(1.0), X, three.astype(str))
    assert_allclose(text.auc, leave_pair_out(RankRLS(1.0), X, three).auc)
    for gap in (None, np.nan):
        words = np.where(Y > 0, "ill", "well").astype(object)
        words[3] = gap
        with pytest.raises(DataError, match="no label in row 3"):
            leave_pair_out(RankRLS(1.0), X, words, positive="ill")
    with pytest.raises(DataError, match="one label per row"):
        leave_pair_out(RankRLS(1.0), X, np.column_stack((Y, Y)), positive=1)


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


@pytest.mark.parametrize("given", ["groups", "strata"])
def test_a_chosen_alpha_keeps_the_scaling_that_it_was_chosen_with(given):
    """With an alpha that is a number, scale="auto" would leave all features as they are."""
    rows = X * [1.0, 1.0, 1e-12]
    units = np.arange(24) // 2 if given == "groups" else np.arange(24) % 2
    options = {"outer": 3, "n_repeats": 1, "random_state": 0, given: units}
    found = nested_leave_pair_out(RankRLS(), rows, X[:, 2] > 0, **options)
    expected = nested_leave_pair_out(RankRLS(scale="standard"), rows, X[:, 2] > 0, **options)
    assert_allclose([found.auc, found.unnested], [expected.auc, expected.unnested])


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


@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_a_group_is_one_observation(ties):
    """Copies of all rows, each with its original in a group, say nothing new."""
    draw = np.random.default_rng(0)
    x = draw.standard_normal((30, 3))
    y = (x[:, 0] + draw.standard_normal(30) > 0).astype(float)
    twice, labels, groups = np.repeat(x, 2, axis=0), np.repeat(y, 2), np.repeat(np.arange(30), 2)
    ranker = RankRLS(10.0, scale=None, ties=ties)
    alone = auc_interval(ranker, x, y, groups=np.arange(30), alpha=5.0)
    copied = auc_interval(ranker, twice, labels, groups=groups)
    assert copied.auc == pytest.approx(alone.auc)
    assert copied.standard_error == pytest.approx(alone.standard_error)
    assert copied.n_pairs == 4 * alone.n_pairs
    difference = auc_difference(ranker, ranker, twice, labels, X_second=twice[:, 1:], groups=groups)
    assert difference.first == copied.auc


def test_the_interval_of_a_perfect_order_depends_on_the_number_of_groups():
    X = np.arange(64.0)[:, None] + np.where(np.arange(64) > 31, 50.0, 0.0)[:, None]
    y = (np.arange(64) > 31).astype(float)
    found = [auc_interval(RankRLS(1.0), X, y, groups=np.arange(64) // size) for size in (1, 2, 4)]
    assert [one.auc for one in found] == [1.0, 1.0, 1.0]
    assert found[0].low > found[1].low > found[2].low
