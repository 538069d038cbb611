"""The contest of reproduce/letor: no contestant can see the labels of test queries."""

import numpy as np
import pytest

from rankwise import AutoRanker, RankRLS, SparseRankRLS
from reproduce.letor import contest, problems
from reproduce.letor.contestants import (
    CONTESTANTS,
    LIBRARIES,
    Library,
    out_of_the_box,
    tuned,
    tuned_trees,
)
from reproduce.letor.parts import Part
from reproduce.parts import CONTEST

# Each kind of contestant, with fewer settings.
SMALL = {
    "default": out_of_the_box(RankRLS()),
    "sparse": out_of_the_box(SparseRankRLS(n_landmarks=20, random_state=0)),
    "tuned": tuned(RankRLS(), {"scale": ["query-minmax", "query-ranks"]}),
    "AutoRanker": out_of_the_box(AutoRanker(candidates="linear", random_state=0)),
}


def trees(name):
    """A booster with two of its settings and few trees."""
    pytest.importorskip(name.lower())
    library = LIBRARIES[name]
    return tuned_trees(Library(library.settings[::23], library.fit, library.scores), trees=20)


def small_folds(noise=None):
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((300, 4)), np.arange(300) % 30
    y = np.digitize(X[:, 0] + rng.standard_normal(300), [0, 1]).astype(float)
    for fold in range(2):
        test = qid % 2 == fold
        pool, new = (Part(X[at], y[at], qid[at]) for at in (~test, test))
        yield problems.make_fold(pool, new, noise)


@pytest.mark.slow
def test_labels_of_test_queries_do_not_change_any_choice():
    contestants = SMALL | {name: trees(name) for name in ("LightGBM",)}
    real = contest.compete(small_folds(), contestants)
    noisy = contest.compete(small_folds(np.random.default_rng(1)), contestants)
    for name in contestants:
        assert real[name].words == noisy[name].words
        # The judge does see the labels.
        values = [np.concatenate([v["NDCG@10"] for v in r[name].values]) for r in (real, noisy)]
        assert values[0].mean() > values[1].mean() + 0.05


@pytest.mark.parametrize("name", ["XGBoost", "CatBoost"])
def test_other_boosters_choose_and_score(name):
    fold = next(iter(small_folds()))
    chosen = trees(name)(fold.pool)
    assert chosen.words.endswith("trees")
    assert fold.judge(chosen.scores(fold.X, fold.qid))["NDCG@10"].mean() > 0.6


def test_a_fold_has_no_labels_of_its_new_rows():
    for fold in small_folds():
        assert set(vars(fold)) == {"pool", "X", "qid", "judge"}
        assert not set(fold.pool.qid) & set(fold.qid)
        assert len(fold.pool.y) + len(fold.X) == 300


@pytest.mark.parametrize("name", problems.MADE)
def test_made_problems(name):
    found = list(problems.folds(name))
    assert len(found) == 5
    for fold in found:
        assert not set(fold.pool.qid.tolist()) & set(fold.qid.tolist())
        assert set(np.unique(fold.pool.y)) <= set(range(5))
    assert sum(len(fold.X) for fold in found) == len(problems.MADE[name]().y)


def test_boosters_have_at_least_twenty_settings():
    assert all(len(library.settings) >= 20 for library in LIBRARIES.values())
    assert contest.OURS in CONTESTANTS
    assert problems.PROBLEMS == CONTEST


def test_tables():
    records = {
        name: {"MAP": 0.5 + k / 100, "NDCG@10": 0.4, "p MAP": 0.5, "p NDCG@10": 0.04,
               "seconds": 1.0 + k, "words": [""]}
        for k, name in enumerate(CONTESTANTS)
    }  # fmt: skip
    text = contest.text({"ohsumed": records, "boxes": records})
    assert "On OHSUMED, AutoRanker is 0.0000 ahead of the best tuned booster (LightGBM)" in text
    assert f"| **{0.5 + (len(CONTESTANTS) - 1) / 100:.4f}** |" in text
    assert "mean of all problems" in text
