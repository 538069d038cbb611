"""scikit-learn's estimator checks, routing of qid, and data frames."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from rankwise import (
    KPCR,
    RLS,
    AdditiveRankRLS,
    AutoRanker,
    BoostedOptions,
    BoostedRanker,
    KPCRank,
    MeanRanker,
    PairwiseGP,
    RankRLS,
    RankSVM,
    SparseRankRLS,
    SparseRLS,
    TransductiveRankRLS,
)
from rankwise.errors import RankwiseWarning
from tests.registered import least_squares_rankers
from tests.versions import routed_scores

# One for each code path of an estimator.
ESTIMATORS = [
    RankRLS(),
    RankRLS(1.0),
    RankRLS(kernel="rbf"),
    RankRLS(kernel="precomputed"),
    RLS(),
    RankSVM(),
    AdditiveRankRLS(),
    TransductiveRankRLS(1.0),
    MeanRanker([RankRLS(1.0), RankSVM()]),
    AutoRanker(candidates="linear"),
    SparseRankRLS(n_landmarks=2, landmarks="rpcholesky"),
    SparseRankRLS(kernel="precomputed"),
    SparseRLS(),
    KPCRank(),
    KPCRank(0.9),
    KPCRank(0.9, kernel="precomputed"),
    KPCR(0.9, landmarks="random"),
    PairwiseGP(optimizer=None, max_pairs=100),
    PairwiseGP(likelihood="gaussian", optimizer=None, n_landmarks=1),
    BoostedRanker(options=BoostedOptions(max_estimators=5)),
]
ESTIMATORS += [ranker() for ranker in least_squares_rankers(besides=ESTIMATORS)]


def without_equivalence(estimator):
    """Checks that compare weights of rows with copies of them, if hold-outs choose alpha.

    A row and its copy may be on different sides of a hold-out. With numbers for alpha, these checks
    pass: see `test_row_weights.py`.
    """
    if not getattr(estimator, "takes_row_weights", False) or estimator.kernel == "precomputed":
        return {}
    if estimator.alpha != "auto":
        return {}
    name = "check_sample_weight_equivalence_on_{}_data"
    return {name.format(kind): "alpha is chosen by hold-outs" for kind in ("dense", "sparse")}


def is_variant(estimator):
    """Whether nearly every line that the checks run is also run by another estimator."""
    given = estimator.get_params()
    return (
        type(estimator) in (RLS, SparseRLS, KPCR, MeanRanker)
        or given.get("likelihood") == "gaussian"
        or (type(estimator) is RankRLS and given["kernel"] == "rbf")
        or given.get("n_components") == "cv"
        or (given.get("kernel") == "precomputed" and type(estimator) is not RankRLS)
    )


@pytest.mark.filterwarnings("ignore:The kernel is not positive")  # caused by one of the checks
@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(estimator, marks=[pytest.mark.slow] if is_variant(estimator) else [])
        for estimator in ESTIMATORS
    ],
    ids=repr,
)
def test_scikit_learn_checks(estimator):
    if isinstance(estimator, BoostedRanker):
        pytest.importorskip("lightgbm", reason="BoostedRanker needs lightgbm")
    check_estimator(estimator, on_skip=None, expected_failed_checks=without_equivalence(estimator))


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((60, 4)), rng.permutation(np.arange(60) % 6)
    return X, X @ [1.0, -1.0, 0.5, 0.0] + 10 * qid + 0.1 * rng.standard_normal(60), qid


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_qid_reaches_fit_and_score_through_a_search(problem):
    X, y, qid = problem
    search = GridSearchCV(RankRLS(), {"alpha": [0.1, 1.0]}, cv=GroupKFold(3))
    search.fit(X, y, qid=qid, groups=qid)
    assert search.best_estimator_.n_queries_ == 6
    # Scores across queries would be dominated by the offsets of the queries.
    assert search.best_score_ > 0.95
    want = RankRLS(search.best_params_["alpha"]).fit(X, y, qid=qid)
    assert_allclose(search.best_estimator_.coef_, want.coef_)


@pytest.mark.usefixtures("routing")
def test_qid_is_routed_through_a_pipeline(problem):
    X, y, qid = problem
    pipeline = make_pipeline(StandardScaler(), RankRLS()).fit(X, y, qid=qid)
    assert pipeline[-1].n_queries_ == 6
    assert pipeline.score(X, y, qid=qid) > 0.95


@routed_scores
@pytest.mark.usefixtures("routing")
def test_qid_is_routed_through_the_cross_validation_of_a_pipeline(problem):
    X, y, qid = problem
    pipeline = make_pipeline(StandardScaler(), RankRLS())
    results = cross_validate(pipeline, X, y, cv=GroupKFold(3), params={"qid": qid, "groups": qid})
    assert results["test_score"].min() > 0.9


def test_a_search_without_routing_gives_a_warning(problem):
    X, y, qid = problem
    search = GridSearchCV(RankRLS(), {"alpha": [0.1]}, cv=GroupKFold(3))
    with pytest.warns(RankwiseWarning, match="enable_metadata_routing"):
        search.fit(X, y, qid=qid, groups=qid)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames(problem, frame):
    X, y, qid = problem
    named = frame({name: X[:, k] for k, name in enumerate("abcd")})
    series = pd.Series if frame is pd.DataFrame else pl.Series
    names = [f"query {q}" for q in qid]
    ranker = RankRLS().fit(named, series(y), qid=series(names))
    assert ranker.feature_names_in_.tolist() == list("abcd")
    assert_allclose(ranker.predict(named), RankRLS().fit(X, y, qid=qid).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        ranker.predict(frame({name: X[:, k] for k, name in enumerate("abce")}))


def test_clone_and_repr():
    ranker = RankRLS(3.0, kernel="rbf", ties="exclude")
    assert clone(ranker).get_params() == ranker.get_params()
    assert repr(ranker) == "RankRLS(alpha=3.0, kernel='rbf', ties='exclude')"
    assert "RankRLS" in ranker._repr_html_()


def test_a_precomputed_kernel_is_split_by_rows_and_columns(problem):
    X, y, _ = problem
    K = X @ X.T
    precomputed = cross_validate(RankRLS(kernel="precomputed"), K, y)["test_score"]
    linear = cross_validate(RankRLS(solver="dual"), X, y)["test_score"]
    assert_allclose(precomputed, linear)


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_rows_may_come_in_any_order(problem, order):
    X, y, qid = problem
    rows = np.argsort(qid) if order == "sorted" else np.random.default_rng(1).permutation(60)
    moved = RankRLS(ties="exclude").fit(X[rows], y[rows], qid=qid[rows])
    assert_allclose(moved.coef_, RankRLS(ties="exclude").fit(X, y, qid=qid).coef_, atol=1e-10)
