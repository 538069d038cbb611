"""The score along each feature: exact curves, partial dependence, standard errors, and errors."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline

from rankwise import (
    AdditiveRankRLS,
    AutoRanker,
    BoostedOptions,
    BoostedRanker,
    MeanRanker,
    RankRLS,
    SparseRankRLS,
    TableEncoder,
)
from rankwise.data import make_ranking
from rankwise.errors import DataError, ParameterError
from rankwise.inspection import feature_effects
from rankwise.inspection.effects import as_chosen
from rankwise.model_selection import GroupedRanker

DATA = make_ranking(12, rows_per_query=8, n_features=4, n_levels=4, noise=0.5, random_state=0)
X, Y, QID = DATA.X, DATA.y, DATA.qid


def by_hand(ranker, c, value):
    """The mean change of the score if all rows get this value."""
    moved = X.copy()
    moved[:, c] = value
    return (ranker.predict(moved) - ranker.predict(X)).mean()


@pytest.mark.parametrize(
    "ranker",
    [
        RankRLS(1.0),
        AdditiveRankRLS(1.0),
        SparseRankRLS(1.0, n_landmarks=20, random_state=0, scale="standard"),
        BoostedRanker(10, random_state=0),
    ],
    ids=["linear", "additive", "kernel", "trees"],
)
def test_curves_are_means_over_rows(ranker):
    ranker.fit(X, Y, qid=QID)
    found = feature_effects(ranker, X, qid=QID, n_points=5)
    assert len(found) == 4
    for c in range(4):
        one = found[f"x{c}"]
        assert_allclose(one.values, np.quantile(X[:, c], np.linspace(0, 1, 5), method="nearest"))
        want = [by_hand(ranker, c, value) for value in one.values]
        assert_allclose(one.effect, want, atol=1e-9)
    rises = [one.rise for one in found.effects]
    assert rises == sorted(rises, reverse=True)


def test_within_queries_values_are_places_in_the_query():
    ranker = RankRLS(1.0, scale="query-minmax").fit(X, Y, qid=QID)
    one = feature_effects(ranker, X, qid=QID, n_points=3)["x1"]
    assert one.values == [0.0, 0.5, 1.0]
    # From the smallest value of every query to the largest one, by one unit of the scaled feature.
    assert_allclose(one.effect[2] - one.effect[0], ranker.coef_[1], atol=1e-12)
    assert "share of the rows of a query" in str(feature_effects(ranker, X, qid=QID))


def test_means_hold_the_scale_of_the_parts_fixed():
    parts = [RankRLS(1.0, scale="query-minmax"), RankRLS(2.0, scale="query-minmax")]
    ranker = MeanRanker(parts).fit(X, Y, qid=QID)
    one = feature_effects(ranker, X, qid=QID, n_points=2)["x0"]
    want = 0.0
    for part in ranker.rankers_:
        scores = part.predict(X, qid=QID)
        deviations = pd.Series(scores).groupby(QID).transform(lambda s: s.std(ddof=0))
        want += 0.5 * part.coef_[0] * (1.0 / deviations).mean()
    assert_allclose(one.effect[1] - one.effect[0], want, rtol=1e-9)


def test_standard_errors_are_those_of_refits():
    ranker = AdditiveRankRLS().fit(X, Y, qid=QID)
    found = feature_effects(ranker, X, Y, qid=QID, cv=3, n_points=4)
    codes = np.unique(QID, return_inverse=True)[1]
    curves = []
    for k in range(3):
        train = codes % 3 != k
        refit = AdditiveRankRLS(ranker.alpha_).fit(X[train], Y[train], qid=QID[train])
        curves.append([by_hand(refit, 2, value) for value in found["x2"].values])
    want = np.sqrt(2 / 3 * ((np.array(curves) - np.mean(curves, axis=0)) ** 2).sum(axis=0))
    assert_allclose(found["x2"].standard_error, want, atol=1e-9)
    assert found.n_splits == 3
    frame = found.to_frame()
    assert list(frame.columns) == ["value", "effect", "standard_error"]
    assert "s.e." in str(found)


def test_text_and_dates():
    rng = np.random.default_rng(0)
    n = 80
    frame = pd.DataFrame(
        {
            "price": rng.normal(size=n),
            "city": rng.choice(["Rome", "Oslo", "Bonn"], n),
            "opened": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
        }
    )
    y, qid = frame.price + (frame.city == "Rome"), np.repeat(np.arange(8), 10)
    for scale, labels in (("standard", None), ("query-minmax", y)):
        model = make_pipeline(TableEncoder(), RankRLS(1e-3, scale=scale))
        model.fit(frame, y, rankrls__qid=qid)
        found = feature_effects(model, frame, labels, qid=qid, cv=2)
        city = dict(zip(found["city"].values, found["city"].effect, strict=True))
        assert city["Rome"] - max(city["Oslo"], city["Bonn"]) > 0.5
        assert len(found["opened"].values) == 12
    found.plot()


def test_a_missing_text_is_called_missing():
    frame = pd.DataFrame({"city": ["Rome", None] * 10, "price": np.arange(20.0)})
    y = np.tile([0.0, 5.0], 10)
    ranker = make_pipeline(TableEncoder(), RankRLS(1e-3)).fit(frame, y)
    for cells in (frame, frame.astype({"city": "object"})):
        found = feature_effects(ranker, cells, features=["city"])
        assert sorted(found["city"].values) == ["Rome", "missing"]


def test_refits_have_what_was_chosen():
    options = BoostedOptions(max_estimators=10)
    boosted = BoostedRanker(random_state=0, options=options).fit(X, Y, qid=QID)
    assert as_chosen(boosted).n_estimators == boosted.n_estimators_
    chosen = RankRLS().fit(X, Y, qid=QID)
    assert as_chosen(chosen).alpha == chosen.alpha_
    mean = MeanRanker([RankRLS(), RankRLS(scale="standard")]).fit(X, Y, qid=QID)
    alphas = [part.alpha_ for part in mean.rankers_]
    assert [part.alpha for part in as_chosen(mean).rankers] == alphas
    grouped = GroupedRanker(RankRLS()).fit(X, Y, group=[8] * 12)
    assert as_chosen(grouped).alpha == grouped.ranker_.alpha_
    kinds = [RankRLS(1.0, scale="standard"), AdditiveRankRLS(1.0)]
    auto = AutoRanker(candidates=kinds, boosted=False).fit(X, Y, qid=QID)
    found = feature_effects(auto, X, Y, qid=QID, cv=2, n_points=3)
    assert found.effects[0].standard_error is not None


def test_one_ranking_and_chosen_features():
    ranker = RankRLS(1.0).fit(X, Y)
    found = feature_effects(ranker, X, Y, features=["x3", 1], cv=4)
    assert {one.name for one in found.effects} == {"x1", "x3"}
    assert found.n_splits == 4
    for features, words in ((["no"], "got 'no'"), ([4], "from 0 to 3: got 4"), ([], "is empty")):
        with pytest.raises(ParameterError, match=words):
            feature_effects(ranker, X, features=features)
    with pytest.raises(DataError, match="no curve of 'x0'"):
        found["x0"]
    with pytest.raises(ParameterError, match="n_points"):
        feature_effects(ranker, X, n_points=1)


def test_the_picture_has_the_largest_curves():
    found = feature_effects(RankRLS(1.0).fit(X, Y, qid=QID), X, Y, qid=QID, cv=2)
    ax = found.plot(top=3)
    titles = [each.get_title(loc="left") for each in ax.figure.axes]
    assert titles == [one.name for one in found.effects[:3]]


def test_bands_are_as_wide_as_a_t_distribution_of_few_fits():
    pytest.importorskip("matplotlib")
    found = feature_effects(RankRLS(1.0, scale=None).fit(X, Y, qid=QID), X, Y, qid=QID, cv=3)
    ax = found.plot()
    low, high = ax.collections[0].get_paths()[0].vertices[:, 1].min(), found.effects[0].effect
    errors = found.effects[0].standard_error
    assert low == pytest.approx((high - 4.302653 * errors).min())  # t with two degrees of freedom
