"""Searches on comparisons: exact over alpha, refits for the rest, groups never split."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GroupKFold, KFold

from rankwise import KPCRank, PairwiseGP, RankingSearchCV, RankRLS, RankSVM, load_model, save_model
from rankwise.errors import DataError, ParameterError
from rankwise.model_selection import leave_comparison_out, leave_item_out

ALPHAS = [0.3, 5.0, 80.0]


@pytest.fixture(scope="module")
def votes():
    rng = np.random.default_rng(0)
    X, first = rng.standard_normal((30, 3)), rng.integers(0, 30, 90)
    second = (first + rng.integers(1, 30, 90)) % 30
    left = rng.choice([-1.0, 1.0], 90)
    gap = (X[first] - X[second]) @ [1.0, -1.0, 0.0] + left + rng.standard_normal(90)
    given = {
        "margin": np.where(np.abs(gap) < 0.3, "tie", np.where(gap > 0, "first", "second")),
        "weight": rng.uniform(0.5, 2.0, 90),
        "groups": rng.integers(0, 12, 90),
        "context": left[:, None],
    }
    return X, np.column_stack((first, second)), given


def test_rows_without_exact_hold_outs_are_refitted(votes):
    X, pairs, given = votes
    given = {name: value for name, value in given.items() if name != "context"}
    scores = {}
    for solver in ("primal", "cg"):
        ranker = RankRLS(solver=solver, tol=1e-10)
        search = RankingSearchCV(ranker, {"alpha": ALPHAS}, cv=3, scoring="squared_error")
        search.fit_pairs(csr_array(X), pairs, **given)
        scores[solver] = search.cv_results_["mean_test_score"]
        assert search.best_estimator_.solver_ == solver
    assert_allclose(scores["cg"], scores["primal"], rtol=1e-6)


@pytest.mark.parametrize("scoring", ["disagreement", "accuracy", "log_loss", "squared_error"])
@pytest.mark.parametrize("cv", ["leave_comparison_out", 4, "leave_item_out"])
def test_scores_are_those_of_exact_hold_outs(votes, cv, scoring):
    X, pairs, given = votes
    search = RankingSearchCV(RankRLS(), {"alpha": ALPHAS}, cv=cv, scoring=scoring)
    search.fit_pairs(X, pairs, **given)
    options = {"alphas": ALPHAS, "n_splits": cv if cv == 4 else None, **given}
    if cv == "leave_item_out":
        options.pop("n_splits")
        found = leave_item_out(RankRLS(), X, pairs, **options)
    else:
        found = leave_comparison_out(RankRLS(), X, pairs, **options)
    metric = "accuracy" if scoring == "disagreement" else scoring
    score, error = found.scores(metric)
    want = {"disagreement": score - 1, "accuracy": score}.get(scoring, -score)
    assert_allclose(search.cv_results_["mean_test_score"], want)
    assert_allclose(search.cv_results_["std_test_score"], error)
    assert search.best_params_["alpha"] == ALPHAS[int(np.argmax(want))]
    assert search.n_splits_ == {"leave_comparison_out": 12, 4: 4}.get(cv, 90)
    assert set(search.baseline_scores_) == {"random", "first wins"}
    same = RankRLS(search.best_params_["alpha"]).fit_pairs(X, pairs, **given)
    assert_allclose(search.predict(X), same.predict(X))


def test_refits_agree_with_exact_hold_outs(votes):
    X, pairs, given = votes
    exact = RankingSearchCV(RankRLS(), {"alpha": ALPHAS}, cv=4).fit_pairs(X, pairs, **given)
    fold = np.array([list(dict.fromkeys(given["groups"])).index(g) % 4 for g in given["groups"]])
    listed = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(4)]
    # the scale of the context is that of the training part here, which changes little
    refits = RankingSearchCV(RankRLS(), {"alpha": ALPHAS}, cv=listed).fit_pairs(X, pairs, **given)
    assert_allclose(refits.split_scores_, exact.split_scores_, atol=0.03)
    plain = {**given, "context": None}
    exact = RankingSearchCV(RankRLS(), {"alpha": ALPHAS}, cv=4, scoring="squared_error")
    refits = RankingSearchCV(RankRLS(), {"alpha": ALPHAS}, cv=listed, scoring="squared_error")
    for search in (exact, refits):
        search.fit_pairs(X, pairs, **plain)
    assert_allclose(refits.split_scores_, exact.split_scores_)


@pytest.mark.parametrize(
    ("ranker", "grid"),
    [
        (RankSVM(), {"alpha": [0.1, 10.0]}),
        (KPCRank(2, alpha=1.0, kernel="linear"), {"n_components": [1, 3]}),
        (RankRLS(), {"kernel": ["linear", "rbf"]}),
        (PairwiseGP(optimizer=None), {"kernel": [RBF(1.0), RBF(5.0)]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_rankers_are_refitted(votes, ranker, grid, tmp_path):
    X, pairs, given = votes
    given = {**given, "context": None}
    search = RankingSearchCV(ranker, grid, cv=GroupKFold(3), scoring="log_loss")
    search.fit_pairs(X, pairs, **given)
    (train, test) = next(iter(GroupKFold(3).split(X[pairs[:, 0]], groups=given["groups"])))
    part = {name: value[train] for name, value in given.items() if value is not None}
    groups = part.pop("groups")
    if isinstance(ranker, RankRLS):
        part["groups"] = groups
    one = type(ranker)(**{**ranker.get_params(deep=False), **{k: v[0] for k, v in grid.items()}})
    one.fit_pairs(X, pairs[train], **part)
    if isinstance(ranker, PairwiseGP):
        first, second = pairs[test].T
        p = one.predict_preference(X[first], X[second], observed=True)
        margin, weight = given["margin"][test], given["weight"][test]
        won = np.select([margin == "first", margin == "tie"], [1.0, 0.5], 0.0)
        loss = -won * np.log(p) - (1 - won) * np.log(1 - p)
        assert search.split_scores_[0, 0] == pytest.approx(-np.average(loss, weights=weight))
    assert search.split_scores_.shape == (2, 3)
    assert np.isfinite(search.split_scores_).all()
    assert search.best_score_ > search.baseline_scores_["random"]
    loaded = load_model(save_model(search, tmp_path / "search.rankwise"))
    assert_allclose(loaded.predict(X), search.predict(X))
    assert loaded.baseline_scores_ == search.baseline_scores_
    assert search.score(X, X[:, 0] - X[:, 1]) > 0.6


def test_preferences_are_those_of_the_best_ranker(votes):
    X, pairs, given = votes
    search = RankingSearchCV(RankRLS(), {"alpha": ALPHAS}).fit_pairs(X, pairs, **given)
    context = np.ones((3, 1))
    assert_allclose(
        search.predict_preference(X[:3], X[3:6], context=context),
        search.best_estimator_.predict_preference(X[:3], X[3:6], context=context),
    )
    assert not hasattr(RankingSearchCV(RankSVM(), {"alpha": ALPHAS}), "predict_preference")
    assert not hasattr(search.set_params(refit=False), "predict_preference")


def test_what_a_search_refuses(votes):
    X, pairs, given = votes
    grid = {"alpha": ALPHAS}

    def fails(error, words, ranker=None, grid=grid, options=None, **changed):
        search = RankingSearchCV(RankRLS() if ranker is None else ranker, grid, **(options or {}))
        with pytest.raises(error, match=words):
            search.fit_pairs(X, pairs, **{**given, **changed})

    fails(ParameterError, "scoring of comparisons must be one of", options={"scoring": "ndcg"})
    fails(
        ParameterError, "cv must be one of leave_comparison_out", options={"cv": "leave_pair_out"}
    )
    fails(ParameterError, "got 12 groups", options={"cv": 13})
    fails(ParameterError, "mean-of-best", options={"refit": "mean-of-best"})
    fails(DataError, "in both train and test", options={"cv": KFold(3)})
    fails(DataError, "0 stands for a tie", margin=np.arange(90) % 2)
    fails(DataError, "one margin per pair", margin=np.ones((90, 2)))
    fails(DataError, "needs at least two of them: got one", groups=np.zeros(90))
    fails(ParameterError, "refitted for each comparison", RankSVM(), groups=None, context=None)
    fails(ParameterError, "refitted for each item", RankSVM(), options={"cv": "leave_item_out"})
    forest = RandomForestRegressor()
    fails(ParameterError, "cannot be fitted to comparisons", forest, {"max_depth": [1]})
