"""The contest of reproduce/contest: no contestant can see the labels of test queries."""

import numpy as np
import pytest

from rankwise import AutoRanker, RankRLS, SparseRankRLS
from reproduce.contest import problems, run
from reproduce.contest.boosters import BOOSTERS, LIBRARIES, Library, tuned, with_scaling
from reproduce.contest.rankers import OURS, RANKERS, out_of_the_box
from reproduce.contest.rankers import tuned as tuned_ranker
from reproduce.letor.parts import Part

# Each kind of contestant, with fewer settings.
SMALL = {
    "default": out_of_the_box(RankRLS()),
    "sparse": out_of_the_box(SparseRankRLS(n_landmarks=20, random_state=0)),
    "tuned": tuned_ranker(RankRLS(), {"scale": ["query-minmax", "query-ranks"]}),
    OURS: out_of_the_box(AutoRanker(candidates="linear", random_state=0)),
}


def trees(name):
    """A booster with two of its settings and few trees."""
    pytest.importorskip(name.lower())
    library = LIBRARIES[name]
    return tuned(name, Library(library.settings[::23], library.fit, library.scores), trees=20)


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
    contestants = SMALL | {"LightGBM": trees("LightGBM")}
    noise = np.random.default_rng(1)
    for name, contestant in contestants.items():
        found = [
            [run.compete(fold, contestant)[-1] for fold in small_folds(rng)]
            for rng in (None, noise)
        ]
        assert [one["words"] for one in found[0]] == [one["words"] for one in found[1]], name
        # The judge does see the labels.
        means = [np.mean([v for one in every for v in one["values"]]) for every in found]
        assert means[0] > means[1] + 0.05


@pytest.mark.parametrize("name", list(LIBRARIES))
def test_boosters_choose_and_score(name):
    entries = run.compete(next(iter(small_folds())), trees(name))
    assert all(one["words"].endswith("trees") for one in entries)
    assert np.mean(entries[-1]["values"]) > 0.6
    seconds = [one["seconds"] for one in entries]
    assert entries[-1]["words"] == entries[-2]["words"]  # the best, after the whole search
    assert seconds[-1] >= seconds[-2]


def test_features_of_boosters():
    X, qid = np.array([[1.0], [3.0], [5.0], [5.0]]), np.array([0, 0, 1, 1])
    assert with_scaling(X, qid, "raw") is X
    assert with_scaling(X, qid, "within queries").ravel().tolist() == [-1, 1, 0, 0]
    assert with_scaling(X, qid, "both").tolist() == [[1, -1], [3, 1], [5, 0], [5, 0]]


def test_a_fold_has_no_labels_of_its_new_rows():
    for fold in small_folds():
        assert set(vars(fold)) == {"pool", "X", "qid", "judge"}
        assert not set(fold.pool.qid) & set(fold.qid)
        assert len(fold.pool.y) + len(fold.X) == 300


@pytest.mark.parametrize("name", ["diabetes", "digits", "cancer", *problems.GENERATED])
def test_made_problems(name):
    fold = problems.get_fold(name, 1)
    assert not set(fold.pool.qid.tolist()) & set(fold.qid.tolist())
    assert set(np.unique(fold.pool.y)) <= set(range(5))
    assert len(fold.pool.y) <= problems.ROWS
    again = problems.get_fold(name, 2)
    assert again.X.shape[1] == fold.X.shape[1]
    assert again.X.shape != fold.X.shape or (again.X != fold.X).any()


def test_whole_queries_up_to_a_number_of_rows():
    part = Part(np.zeros((60, 1)), np.zeros(60), np.repeat(np.arange(6), 10))
    kept = problems.some_queries(part, 35)
    assert np.unique(kept.qid, return_counts=True)[1].tolist() == [10, 10, 10]
    assert problems.some_queries(part, 60) is part


def test_boosters_have_at_least_twenty_settings():
    assert all(len(library.settings) >= 20 for library in LIBRARIES.values())
    assert OURS in RANKERS


def record(values, seconds):
    return {"words": "", "seconds": seconds, "values": values}


def test_paired_differences_of_queries_and_problems():
    ours, theirs = np.array([0.5, 0.75, 1.0, 0.25]), np.array([0.5, 0.5, 0.75, 0.5])
    names = [*RANKERS, *map(run.TUNED.format, BOOSTERS), *map(run.SAME_TIME.format, BOOSTERS)]
    fold = {name: record(theirs[:2].tolist(), 10.0) for name in names}
    other = {name: record(theirs[2:].tolist(), 10.0) for name in names}
    fold[OURS], other[OURS] = (record(ours[at].tolist(), 1.0) for at in (slice(2), slice(2, 4)))
    folds = [run.figures(fold), run.figures(other)]
    sums = run.Sums([one["LightGBM, tuned"] for one in folds])
    gap = ours - theirs
    assert sums.mean == pytest.approx(theirs.mean())
    assert sums.gap == pytest.approx(gap.mean())
    assert sums.error == pytest.approx(gap.std(ddof=1) / 2)
    results = {f"fold-{k}": {"ohsumed": one, "boxes": one} for k, one in enumerate(folds, 1)}
    text = run.texts(results)["contest"]
    mean, error = gap.mean(), gap.std(ddof=1) / 2 / np.sqrt(2)
    assert f"AutoRanker is {mean:.4f} ahead of tuned LightGBM (standard error {error:.4f})" in text
    assert "takes 10.0 times as long" in text
    assert "2 problems, 2 of 5 folds" in text
    assert run.texts({}) == {}
