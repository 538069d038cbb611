"""Simple orders beside AutoRanker: rows as they came, a single column, chance."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from rankwise import AutoRanker, load_model, save_model
from rankwise.auto.baselines import Baselines, single_column
from rankwise.data import make_ranking
from rankwise.metrics import ndcg
from rankwise.model_selection.meta_rankers import HeldOutPool

QUICK = {"candidates": "linear", "boosted": False, "random_state": 0}


def by_other_queries(X, y, qid, metric):
    """The score of the single column: each of 10 folds by the best column of the others."""
    names, values = np.unique(qid), []
    for q in range(len(names)):
        others = [p for p in range(len(names)) if p % 10 != q % 10]
        means = {
            (j, sign): np.mean(
                [metric(y[qid == names[p]], sign * X[qid == names[p], j]) for p in others]
            )
            for j in range(X.shape[1])
            for sign in (1, -1)
        }
        j, sign = max(means, key=means.get)
        values.append(metric(y[qid == names[q]], sign * X[qid == names[q], j]))
    return values


def test_the_single_column_is_chosen_by_other_queries():
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(12), 5)
    X, y = rng.normal(size=(60, 4)).round(1), rng.integers(0, 3, 60).astype(float)
    X[:, 2] -= 0.5 * y
    pool = HeldOutPool.of(y, qid, X.T[:1], np.zeros(1, dtype=np.intp), "ndcg@10")
    name, found = single_column(pool, X, list("abcd"))
    assert_allclose(found, by_other_queries(X, y, qid, lambda y, s: ndcg(y, s, k=10)))
    assert name == "c, lowest first"


def test_many_columns_of_noise_are_not_better_than_chance():
    """The best of 100 columns on the same queries would be ahead by five standard errors."""
    rng = np.random.default_rng(1)
    qid = np.repeat(np.arange(60), 6)
    X, y = rng.normal(size=(360, 50)), rng.integers(0, 3, 360).astype(float)
    pool = HeldOutPool.of(y, qid, X.T[:1], np.zeros(1, dtype=np.intp), "ndcg@10")
    _, found = single_column(pool, X, None)
    gap = found - pool.values_of(np.zeros((1, 360)))[0]
    assert abs(gap.mean()) < 3 * gap.std() / np.sqrt(60)


@pytest.mark.parametrize("metric", ["ndcg@10", "disagreement"])
def test_scores_and_gains(metric, tmp_path):
    data = make_ranking(25, rows_per_query=6, n_features=3, n_levels=3, random_state=0)
    frame = pd.DataFrame(data.X, columns=["price", "stars", "age"])
    ranker = AutoRanker(metric=metric, **QUICK).fit(frame, data.y, qid=data.qid)
    found = ranker.baselines_
    assert [name.partition(" (")[0] for name in found.names] == [
        "rows as they came", "best single column", "chance",
    ]  # fmt: skip
    sign = 1 if metric == "ndcg@10" else -1
    assert_allclose(found.gains, sign * (ranker.score_estimate_.score - found.scores))
    if metric == "disagreement":
        assert_allclose(found.scores[2], 0.5)
    rows = np.arange(len(data.y))
    rng = np.random.default_rng(0)
    if metric == "ndcg@10":
        assert_allclose(found.scores[0], ndcg(data.y, -rows, data.qid, k=10))
        drawn = [ndcg(data.y, rng.permutation(rows), data.qid, k=10) for _ in range(300)]
        assert abs(found.scores[2] - np.mean(drawn)) < 4 * np.std(drawn) / np.sqrt(300)
    assert (found.intervals[:, 0] < found.gains).all()
    same = load_model(save_model(ranker, tmp_path / "model")).baselines_
    assert str(same) == str(found)
    assert found.to_frame().shape == (3, 5)


def test_one_ranking_of_all_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    found = AutoRanker(**QUICK).fit(X, X[:, 1]).baselines_
    assert found.names[1] == "best single column (column 1, highest first)"
    assert_allclose(found.scores[1:], [0.0, 0.5])
    assert found.n_queries == 5
    same = replace(found, gains=np.zeros(3))
    assert f"not clearly better than: {'; '.join(same.names)}." in " ".join(str(same).split())


@pytest.mark.parametrize(("n", "error", "clear"), [(1, np.nan, 0), (5, 0.0, 0), (6, 0.0, 1)])
def test_too_few_queries_show_no_clear_gain(n, error, clear):
    gains = np.array([0.5])
    found = Baselines("map", 1.0, ["chance"], 1.0 - gains, gains, np.array([error]), n)
    assert (found.intervals[:, 0] > 0).sum() == clear
    assert ("not clearly better than: chance." in " ".join(str(found).split())) == (not clear)


@pytest.mark.slow
def test_nothing_to_learn_is_seldom_clearly_better_than_chance():
    """Intervals as of independent queries are above 0 for 5 of these 40 samples."""
    clear = 0
    for seed in range(40):
        rng = np.random.default_rng([seed, 20])
        qid = np.repeat(np.arange(20), 12)
        X, y = rng.normal(size=(240, 6)), rng.choice([0.0, 0.0, 0.0, 1.0, 2.0], 240)
        found = AutoRanker(boosted=False, random_state=0).fit(X, y, qid=qid).baselines_
        clear += bool(found.intervals[found.names.index("chance"), 0] > 0)
    assert clear <= 2
