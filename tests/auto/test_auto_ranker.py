"""AutoRanker: rankers chosen by hold-outs, and their mean."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import (
    AdditiveRankRLS,
    AutoRanker,
    MeanRanker,
    QueryStandardScaler,
    RankRLS,
    SparseRankRLS,
    load_model,
    save_model,
)
from rankwise.auto.auto_ranker import FEW_ROWS, make_folds, tree_candidates
from rankwise.data import make_ranking
from rankwise.errors import DataError, KernelSizeError, ParameterError, RankwiseWarning
from rankwise.graph import QueryGroups
from rankwise.metrics import ndcg
from rankwise.model_selection import leave_query_out
from rankwise.model_selection.rows import LabelledRows
from tests.oracles import mean_of_best as oracle

CHEAP = [
    RankRLS(scale="query-minmax"),
    AdditiveRankRLS(scale="query-ranks"),
    RankRLS(scale="query-standard"),
]


@pytest.fixture(scope="module")
def data():
    """Queries of one to nine rows, in shuffled order, with features on different scales."""
    found = make_ranking(25, rows_per_query=(1, 9), n_features=4, n_levels=3, random_state=0)
    rows = np.random.default_rng(0).permutation(len(found.y))
    X = found.X[rows] * [1e-3, 1.0, 1e3, 1e6]
    return X, found.y[rows], np.array([f"query {q}" for q in found.qid[rows]])


@pytest.fixture(scope="module")
def fitted(data):
    X, y, qid = data
    return AutoRanker(boosted=False, random_state=0).fit(X, y, qid=qid)


def test_defaults_on_queries(data, fitted):
    X, y, qid = data
    assert fitted.metric_ == "ndcg@10"
    assert len(fitted.results_.best_trials) == 14
    assert fitted.score_estimate_.score > 0.75
    low, high = fitted.score_estimate_.interval()
    assert low < fitted.score_estimate_.score < high
    assert fitted.score(X, y, qid=qid) > 0.85
    assert 1 < len(fitted.parts_) <= 10
    assert_allclose(sum(part.weight for part in fitted.parts_), 1.0)


def test_predictions_are_the_mean_of_the_parts(data, fitted):
    X, _, qid = data
    alone = [part.ranker.predict(X, qid=qid) for part in fitted.parts_]
    codes = np.unique(qid, return_inverse=True)[1]
    want = np.mean([oracle.standardized(f, codes) for f in alone], axis=0)
    assert_allclose(fitted.predict(X, qid=qid), want, atol=1e-8)


def test_parts_are_chosen_by_held_out_predictions(data):
    X, y, qid = data
    ranker = AutoRanker(candidates=CHEAP, n_best=3).fit(X, y, qid=qid)
    scores, batches, alphas = [], [], []
    learnable = [q for q in dict.fromkeys(qid) if len(set(y[qid == q])) > 1]
    others = [q for q in dict.fromkeys(qid) if q not in learnable]
    place = {q: k for k, q in enumerate(learnable + others)}
    n_folds = len(learnable)  # with few rows, each query by itself
    fold = np.array([place[q] % n_folds for q in qid])
    order = np.argsort([place[q] for q in qid], kind="stable")  # folds follow the first rows
    for k, candidate in enumerate(CHEAP):
        held_out = leave_query_out(candidate, X[order], y[order], qid=qid[order], n_splits=n_folds)
        for alpha, predictions in zip(
            held_out.alphas[::-1], held_out.predictions[::-1], strict=True
        ):
            back = np.empty(len(y))
            back[order] = predictions
            scores.append(oracle.standardized(back, qid))
            batches.append(k)
            alphas.append(alpha)
    # A hold-out by refitting, for one fold and alpha.
    out, alpha = fold == 3, alphas[2]
    refit = clone(CHEAP[0]).set_params(alpha=alpha).fit(X[~out], y[~out], qid=qid[~out])
    refitted = oracle.standardized(refit.predict(X[out], qid=qid[out]), qid[out])
    assert_allclose(scores[2][out], refitted, atol=1e-6)
    scores = np.array(scores)
    table = np.array([oracle.values(y, qid, f, "ndcg@10") for f in scores])
    assert_allclose(ranker.results_.scores, table.mean(axis=1), atol=1e-9)
    chosen = oracle.choose(table, batches, 3, per_batch=1)
    assert np.flatnonzero(ranker.results_.chosen).tolist() == sorted(chosen)
    assert_allclose([part.ranker.alpha for part in ranker.parts_], [alphas[c] for c in chosen])
    outer = oracle.outer_values(y, qid, scores, batches, 3, "ndcg@10", per_batch=1)
    assert_allclose(ranker.score_estimate_.score, outer.mean(), atol=1e-9)
    single = oracle.outer_values(y, qid, scores, batches, 1, "ndcg@10", per_batch=1)
    assert_allclose(ranker.gain_over_best_.difference, (outer - single).mean(), atol=1e-9)

    explanation = ranker.explain()
    for k, part in enumerate(chosen):
        rest = [c for c in chosen if c != part]
        without = oracle.values(y, qid, scores[rest].mean(axis=0), "ndcg@10").mean()
        assert_allclose(explanation.without[k], without, atol=1e-9)
        assert_allclose(explanation.alone[k], table[part].mean(), atol=1e-9)
        correlation = np.corrcoef(scores[part], scores[chosen].mean(axis=0))[0, 1]
        assert_allclose(explanation.correlations[k], correlation, atol=1e-4)
    inner = oracle.values(y, qid, scores[chosen].mean(axis=0), "ndcg@10").mean()
    assert_allclose([explanation.score, ranker.score_estimate_.optimistic], inner, atol=1e-9)

    best = table.mean(axis=1).argmax()
    gap = table[best] - table[0]
    assert_allclose(ranker.results_.behind[0], gap.mean(), atol=1e-9)
    assert_allclose(
        ranker.results_.standard_errors[0], gap.std(ddof=1) / np.sqrt(len(gap)), atol=1e-9
    )


def test_tables(data, fitted):
    frame = fitted.results_.to_frame()
    assert frame.index.name == "ranker"
    assert list(frame.columns) == [
        "alpha", "score", "behind", "standard_error", "chosen", "seconds",
    ]  # fmt: skip
    assert frame.chosen.sum() == len(fitted.parts_)
    assert frame.behind.min() == 0
    text = str(fitted.results_)
    assert text.count("\n") >= 16
    assert "optimistic" in text
    assert "<table>" in fitted.results_._repr_html_()
    assert repr(fitted.results_).startswith("<AutoResults: 14 rankers")
    assert repr(fitted.score_estimate_).startswith("<ScoreEstimate: NDCG@10 0.")
    assert repr(fitted.gain_over_best_).endswith(
        f" over {fitted.score_estimate_.n_queries} queries>"
    )
    ax = fitted.results_.plot(top=3)
    best = [
        f"{name}: {fitted.results_.scores[k]:.3f}"
        for name, k in list(fitted.results_.best_trials.items())[:3]
    ]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == best
    assert ax.get_xlabel().endswith("behind the best, by query, the best 3 of 14")
    explanation = fitted.explain()
    assert list(explanation.to_frame().index) == [part.name for part in fitted.parts_]
    assert "mean of all" in str(explanation)
    assert "<table>" in explanation._repr_html_()
    best, second, gap = fitted.results_.runner_up
    assert best != second
    assert gap.difference >= 0


def test_rows_in_any_order_give_the_same_ranker(data):
    X, y, qid = data
    ranker = AutoRanker(candidates=CHEAP).fit(X, y, qid=qid)
    by_query = np.argsort(qid, kind="stable")
    moved = clone(ranker).fit(X[by_query], y[by_query], qid=qid[by_query])
    assert_allclose(
        moved.score_estimate_.standard_error, ranker.score_estimate_.standard_error, rtol=0.5
    )
    assert_allclose(moved.predict(X, qid=qid), ranker.predict(X, qid=qid), atol=0.5)


def test_model_files(data, fitted, tmp_path):
    X, _, qid = data
    same = load_model(save_model(fitted, tmp_path / "auto.rankwise"))
    assert_allclose(same.predict(X, qid=qid), fitted.predict(X, qid=qid))
    assert str(same.results_) == str(fitted.results_)
    assert str(same.explain()) == str(fitted.explain())
    assert same.score_estimate_ == fitted.score_estimate_
    assert [part.name for part in same.parts_] == [part.name for part in fitted.parts_]


def test_names_sparse_rows_and_single_precision(data):
    X, y, qid = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    ranker = AutoRanker(candidates="linear").fit(frame, y, qid=qid)
    assert ranker.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        ranker.predict(frame[list("dcba")], qid=qid)
    sparse = AutoRanker(boosted=False, random_state=0).fit(
        sp.csr_array(np.maximum(X, 0)), y, qid=qid
    )
    assert sparse.score(sp.csr_array(np.maximum(X, 0)), y, qid=qid) > 0.7
    single = AutoRanker(candidates="linear").fit(X.astype(np.float32), y, qid=qid)
    assert_allclose(
        single.predict(X.astype(np.float32), qid=qid), ranker.predict(frame, qid=qid), atol=0.3
    )


def test_one_ranking(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3)) * [1.0, 1e4, 1e-4]
    y = np.abs(X[:, 0]) + 1e4 * X[:, 2]
    ranker = AutoRanker(boosted=False, random_state=0).fit(X, y)
    assert ranker.metric_ == "disagreement"
    assert ranker.score_estimate_.unit == "folds"
    assert ranker.score_estimate_.score < 0.2
    assert "additive" in ranker.results_.names
    assert ranker.score(X, y) > 0.8
    # A row has the same score, whichever rows come with it.
    assert_allclose(ranker.predict(X[:1]), ranker.predict(X)[:1])
    same = load_model(save_model(ranker, tmp_path / "one.rankwise"))
    assert_allclose(same.predict(X), ranker.predict(X))
    # One query is one ranking.
    assert AutoRanker(candidates="linear").fit(X, y, qid=["a"] * 120).n_queries_ == 1


@pytest.mark.parametrize("n_queries", [2, 3])
def test_few_queries(n_queries):
    data = make_ranking(n_queries, rows_per_query=6, n_features=3, n_levels=3, random_state=0)
    ranker = AutoRanker(boosted=False, random_state=0).fit(data.X, data.y, qid=data.qid)
    assert len(ranker.parts_) == 10  # nothing can be told apart
    assert ranker.score_estimate_.n_queries == n_queries
    assert np.isfinite(ranker.predict(data.X, qid=data.qid)).all()


def test_queries_that_teach_nothing_are_dealt_out_last():
    """Were they dealt out in turn, a fold would hold both queries with different labels."""
    qid = np.repeat(np.arange(21), 3)
    y, X = np.zeros(63), np.random.default_rng(0).standard_normal((63, 2))
    for query in (0, 10):
        y[qid == query] = 0, 1, 2
    ranker = AutoRanker(candidates="linear", metric="disagreement").fit(X, y, qid=qid)
    assert ranker.score_estimate_.n_queries == 2


def test_an_estimate_among_noise_is_near_chance():
    rng = np.random.default_rng(3)
    X, y, qid = rng.standard_normal((200, 10)), rng.integers(0, 2, 200), np.arange(200) % 40
    ranker = AutoRanker(metric="auc", candidates="linear").fit(X, y, qid=qid)
    estimate = ranker.score_estimate_
    assert abs(estimate.score - 0.5) < 3 * estimate.standard_error


def test_own_candidates(data):
    X, y, qid = data
    X = X / X.std(axis=0)
    rankers = [
        RankRLS(2.0),
        RankRLS(2.0),
        make_pipeline(StandardScaler(), RankRLS(1.0)),
        make_pipeline(StandardScaler(), Ridge()),
        SparseRankRLS(n_landmarks=20, random_state=0),
    ]
    ranker = AutoRanker(candidates=rankers, metric="map").fit(X, y, qid=qid)
    names = list(ranker.results_.best_trials)
    assert "RankRLS(alpha=2.0)" in names
    assert "RankRLS(alpha=2.0) (2)" in names
    assert len(names) == 5
    trials = ranker.results_.to_frame().groupby("ranker").size()
    assert trials["RankRLS(alpha=2.0)"] == 1
    assert trials["SparseRankRLS(n_landmarks=20, random_state=0)"] > 5
    assert isinstance(ranker.mean_ranker_, MeanRanker)


def test_metrics_of_relevance_learn_relevance(data):
    X, y, qid = data
    X = X + 0.3 * y[:, None]
    options = {"candidates": CHEAP, "metric": "map@5"}
    graded = AutoRanker(**options).fit(X, y, qid=qid)
    binary = AutoRanker(**options).fit(X, (y >= 1).astype(float), qid=qid)
    assert_allclose(graded.predict(X, qid=qid), binary.predict(X, qid=qid), rtol=1e-9)
    assert_allclose(graded.score_estimate_.score, binary.score_estimate_.score)
    few = np.where(qid == qid[0], y, y + 1)  # only one query has rows that are not relevant
    AutoRanker(**options).fit(X, few, qid=qid)


@pytest.mark.slow
@pytest.mark.ci
def test_boosted_trees(data):
    pytest.importorskip("lightgbm")
    X, y, qid = data
    ranker = AutoRanker(candidates=CHEAP[:1], boosted=True, random_state=0)
    results = ranker.fit(X, np.abs(X[:, 0]), qid=qid).results_  # which no linear ranker can rank
    trials = results.to_frame().query("ranker == 'boosted trees'")
    assert len(trials) > 5
    assert trials["n_estimators"].is_unique
    assert "alpha or trees" in str(results)
    trees = next(part.ranker for part in ranker.parts_ if part.name == "boosted trees")
    assert trees[-1].n_estimators_ == trials.loc[trials["chosen"], "n_estimators"].item()
    ranker.set_params(boosted="auto")  # the list says what to try
    assert "boosted trees" not in ranker.fit(X, y, qid=qid).results_.names


def test_budgets(data):
    X, y, qid = data
    ranker = AutoRanker(boosted=False, time_budget=0.0).fit(X, y, qid=qid)
    assert set(ranker.results_.names) == {"linear, query-minmax"}
    assert len(ranker.results_.left_out) == 13
    assert "Not tried: rbf, query-minmax, as the time was up" in str(ranker.results_)
    least = 16 * len(y) * 4
    ranker = AutoRanker(boosted=False, memory_budget=2 * least).fit(X, y, qid=qid)
    assert {name.split(",")[0] for name in ranker.results_.names} == {"linear"}
    assert "additive, query-minmax, which needs" in ranker.results_.left_out[0]
    with pytest.raises(KernelSizeError, match=r"each of 14 candidates.*needs about [\d.]+ kB\."):
        AutoRanker(boosted=False, memory_budget=least / 2).fit(X, y, qid=qid)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "ndgc"}, "metric must be one of"),
        ({"n_best": 0}, "n_best must be an integer of at least 1"),
        ({"candidates": "linaer"}, "Did you mean 'linear'"),
        ({"candidates": []}, "candidates must be one of auto, linear"),
        ({"candidates": RankRLS()}, "or a list of rankers: got RankRLS"),
        ({"candidates": [RankRLS]}, "must be an object with fit and predict"),
        ({"boosted": "yes"}, "boosted must be"),
        ({"time_budget": -1}, "time_budget must be a finite number, 0 or more, or None"),
        ({"verbose": 2}, "verbose must be True or False"),
    ],
)
def test_parameters_are_checked(data, options, message):
    X, y, qid = data
    with pytest.raises(ParameterError, match=message):
        AutoRanker(**options).fit(X, y, qid=qid)


def test_bad_data_are_refused(data):
    X, y, qid = data
    missing = X.copy()
    missing[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"contains NaN.* AutoRanker, which fills"):
        AutoRanker().fit(missing, y, qid=qid)
    with pytest.raises(DataError, match="at least 4 rows, to hold some out: got 3"):
        AutoRanker().fit(X[:3], y[:3])
    with pytest.raises(DataError, match="No query has two different labels"):
        AutoRanker().fit(X, np.zeros(len(y)), qid=qid)
    with pytest.raises(DataError, match=r"two queries with different labels.*got 1 of 2"):
        AutoRanker().fit(X[:6], [0, 1, 2, 1, 1, 1], qid=[1, 1, 1, 2, 2, 2])


def test_a_column_that_overflows_is_named(data):
    pandas = pytest.importorskip("pandas")
    X, y, qid = data
    frame = pandas.DataFrame(X[:, :2] * [1.0, 1e200], columns=["age", "price"])
    with pytest.raises(DataError, match="The standard deviation of feature 1 overflows"):
        AutoRanker().fit(frame, y, qid=qid)
    with pytest.raises(DataError, match="qid needs one entry per row"):
        AutoRanker().fit(X, y, qid=qid[:-1])
    with pytest.raises(ValueError, match="should be a 1d array"):
        AutoRanker().fit(X, np.column_stack((y, y)), qid=qid)


@pytest.mark.slow
def test_the_mean_is_better_than_its_parts_on_new_queries():
    """Noisy labels, and a function that is neither linear nor additive: the mean gains."""
    rng = np.random.default_rng(0)
    Z, qid = rng.standard_normal((2400, 6)), np.arange(2400) // 20
    score = 0.5 * Z[:, 0] * Z[:, 1] + np.abs(Z[:, 2]) + Z[:, 3]
    y = np.digitize(score + 2 * rng.standard_normal(2400), [0, 2, 4]).astype(float)
    train = qid < 60
    ranker = AutoRanker(boosted=False, random_state=0).fit(Z[train], y[train], qid=qid[train])
    new, labels, queries = Z[~train], y[~train], qid[~train]
    mean = ndcg(labels, ranker.predict(new, qid=queries), queries, k=10)
    alone = [
        ndcg(labels, part.ranker.predict(new, qid=queries), queries, k=10) for part in ranker.parts_
    ]
    assert len(alone) > 1
    assert mean > np.mean(alone)
    low, high = ranker.score_estimate_.interval(0.999)
    assert low < mean < high


def test_rows_that_are_not_whole_queries_give_one_warning(data, fitted):
    X = data[0]
    with pytest.warns(RankwiseWarning) as found:
        fitted.predict(X)
    assert [str(w.message)[:30] for w in found] == ["AutoRanker standardizes scores"]
    with pytest.warns(RankwiseWarning, match="AutoRanker .*: predict got one row") as found:
        fitted.predict(X[:1])
    assert len(found) == 1
    with pytest.warns(RankwiseWarning, match="2 rows, each the only one of its query") as found:
        fitted.mean_ranker_.predict(X[:2], qid=["a", "b"])
    assert [str(w.message).split()[0] for w in found] == ["MeanRanker"]
    fitted.predict(X[:2], qid=["a", "a"])  # no warning


def test_one_label_in_many_queries(data):
    X, _, qid = data
    n = len(np.unique(qid))
    with pytest.raises(DataError, match=rf"No query has two different labels \({n} queries"):
        AutoRanker().fit(X, np.ones(len(X)), qid=qid)


class TestTheMetricItChoosesBy:
    """Which metric, why, and what becomes of queries where it is undefined."""

    @staticmethod
    def fitted(y, **options):
        rng = np.random.default_rng(0)
        X, qid = rng.standard_normal((len(y), 3)), np.arange(len(y)) % 20
        return AutoRanker(candidates="linear", random_state=0, **options).fit(X, y, qid=qid)

    @pytest.mark.parametrize(
        ("labels", "metric", "why"),
        [
            ([0, 1, 2, 0, 1], "ndcg@10", "labels are grades: whole numbers, none below 0"),
            ([0, 0.5, 1.5, 0.25, 1], "linear-ndcg@10", "labels are fractions from 0 to 30"),
            ([-0.5, 0.5, 1.5, 0.25, 1], "disagreement", "labels are not from 0 to 30"),
        ],
    )
    def test_follows_from_the_labels_and_is_said(self, labels, metric, why):
        y = np.random.default_rng(1).choice(labels, 100)
        found = self.fitted(y)
        assert found.metric_ == found.score_estimate_.metric == found.results_.metric == metric
        assert why in found.results_.notes[0]
        assert found.results_.notes[0] in str(found.results_)
        other = self.fitted(y, metric="kendall_tau")
        assert other.metric_ == "kendall_tau"
        assert "by the parameter metric" in other.results_.notes[0]

    def test_queries_without_a_relevant_row(self):
        y = np.random.default_rng(1).choice([0, 1, 2], 100)
        y[np.isin(np.arange(100) % 20, [3, 5, 8])] = 0
        zero, skip, half = (self.fitted(y, undefined=u) for u in (None, "skip", 0.5))
        assert [one.score_estimate_.n_queries for one in (zero, skip, half)] == [20, 17, 20]
        # Nearly the same rankers are chosen, and all lose the same.
        want = skip.score_estimate_.score * 17 / 20
        assert_allclose(zero.score_estimate_.score, want, atol=0.02)
        assert_allclose(half.score_estimate_.score, want + 0.5 * 3 / 20, atol=0.02)
        assert_allclose(zero.baselines_.score, zero.score_estimate_.score)
        assert_allclose(skip.baselines_.score, skip.score_estimate_.score)
        words = "3 of 20 queries, where NDCG@10 is undefined, are {}."
        for one, become in ((zero, "counted as 0"), (skip, "left out"), (half, "counted as 0.5")):
            assert words.format(become) in str(one.results_)
        y[:20] = 1
        assert len(self.fitted(y).results_.notes) == 1

    def test_bad_values(self):
        with pytest.raises(ParameterError, match="undefined must be"):
            AutoRanker(undefined="zero").fit([[0.0], [1.0]], [0, 1])


class TestTrees:
    """Trees on features as they are and standardized within queries, and lambdarank."""

    @staticmethod
    def data(of_trees):
        rng = np.random.default_rng(0)
        X, qid = rng.standard_normal((300, 3)), np.arange(300) // 10
        score = np.sign(X[:, 0] * X[:, 1]) if of_trees else X[:, 0]
        return X, np.digitize(score + 0.3 * rng.standard_normal(300), [0, 1]).astype(float), qid

    @pytest.mark.slow
    @pytest.mark.ci
    def test_join_the_mean_where_they_help(self, tmp_path):
        pytest.importorskip("lightgbm", reason="BoostedRanker needs lightgbm")
        X, y, qid = self.data(of_trees=True)
        ranker = AutoRanker(random_state=0, candidates="linear", boosted=True).fit(X, y, qid=qid)
        names = [name for name in ranker.results_.best_trials if name.startswith("boosted")]
        assert sorted(names) == [
            "boosted trees",
            "boosted trees, features as they are",
            "boosted trees, lambdarank",
            "boosted trees, lambdarank, random splits",
            "boosted trees, random splits",
        ]
        assert ranker.parts_[0].name in names
        scores = ranker.predict(X, qid=qid)
        assert ranker.score_estimate_.score > 0.8
        # One query alone has the scores that it has among others, also from a file.
        save_model(ranker, tmp_path / "auto.rankwise")
        loaded = load_model(tmp_path / "auto.rankwise")
        assert_allclose(loaded.predict(X, qid=qid), scores)
        assert_allclose(ranker.predict(X[:10], qid=qid[:10]), scores[:10], atol=1e-9)
        # Held-out scores of trees on both kinds of features are those of refits.
        part = next(p for p in ranker.parts_ if p.name == "boosted trees")
        both = np.hstack([X, QueryStandardScaler().fit_transform(X, qid=qid)])
        alone = clone(part.ranker[-1]).fit(both, y, qid=qid)
        with sklearn.config_context(enable_metadata_routing=True):
            assert_allclose(part.ranker.predict(X, qid=qid), alone.predict(both), atol=1e-9)

    @pytest.mark.parametrize("few", [True, False])
    def test_which_trees_come_first(self, few):
        X, qid = np.zeros((FEW_ROWS - few, 2)), np.arange(FEW_ROWS - few) // 10
        groups = QueryGroups.of(qid)
        found = list(tree_candidates(X, groups, grades=True, seed=0))
        assert len(found) == 5
        assert (found[0].features is None) == few
        assert found[1].ranker.options.random_splits
        first = found[0].name, found[1].name
        assert [one.only_after for one in found] == [(), (), first, first, first]
        assert len(list(tree_candidates(X, groups, grades=False, seed=0))) == 3

    def test_more_trees_are_not_tried_where_the_first_are_not_the_best(self):
        pytest.importorskip("lightgbm", reason="BoostedRanker needs lightgbm")
        X, _, qid = self.data(of_trees=False)
        ranker = AutoRanker(random_state=0, candidates="linear", boosted=True)
        ranker.set_params(metric="kendall_tau").fit(X, np.exp(X[:, 0]), qid=qid)
        tried = [name for name in ranker.results_.best_trials if name.startswith("boosted")]
        first = ["boosted trees, features as they are", "boosted trees, random splits"]
        assert sorted(tried) == first
        line = f"boosted trees, which is tried if {first[0]!r} or {first[1]!r} is the best"
        assert line in ranker.results_.left_out
        assert line in str(ranker.results_)

    @pytest.mark.slow
    @pytest.mark.ci
    def test_sparse_rows_and_one_ranking_have_the_features_as_they_are(self):
        pytest.importorskip("lightgbm", reason="BoostedRanker needs lightgbm")
        X, y, qid = self.data(of_trees=True)
        for rows, ids in ((sp.csr_array(X), qid), (X, None)):
            options = {"candidates": "linear", "boosted": True, "random_state": 0}
            ranker = AutoRanker(**options).fit(rows, y, qid=ids)
            tried = [name for name in ranker.results_.best_trials if name.startswith("boosted")]
            assert tried == ["boosted trees"]


def test_parts_are_fits_of_their_rankers_to_all_rows(data, fitted):
    X, y, qid = data
    for part in fitted.parts_:
        refit = clone(part.ranker).fit(X, y, qid=qid)
        assert refit.scale_ == part.ranker.scale_
        want = refit.predict(X, qid=qid)
        assert_allclose(part.ranker.predict(X, qid=qid), want, rtol=0, atol=1e-9)


def test_rows_of_one_ranking_are_dealt_by_their_labels():
    rng, y = np.random.default_rng(0), (np.arange(40) % 5 < 2).astype(float)  # matched in fives
    X = rng.normal(size=(40, 3)) + y[:, None]
    exact, refits = make_folds(LabelledRows.of(X, y, None))
    assert [y[test].tolist().count(1.0) for test in exact.tests] == [3, 3, 3, 3, 4]
    assert refits is exact
    assert sorted(exact.rows) == list(range(40))
    ranker = AutoRanker(candidates="linear", random_state=0, boosted=False).fit(X, y)
    assert 0.0 < ranker.score_estimate_.score < 0.5
