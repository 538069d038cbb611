"""Weights of rows, against repeated rows, refits, Ridge and the objective."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.utils import estimator_checks

from rankwise import RLS, AdditiveRankRLS, KPCRank, RankRLS, RankSVM, SparseRankRLS, SparseRLS
from rankwise.errors import DataError, ParameterError, UndefinedMetricError
from rankwise.holdout import alpha_choice
from rankwise.model_selection import leave_query_out
from tests.oracles.laplacian import grouped_laplacian
from tests.strategies import problems
from tests.versions import SCIKIT_LEARN

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3)) + np.array([0.0, 5.0, 0.0])
QID = RNG.permutation(np.arange(40) % 5)
Y = np.round(X @ [1.0, -1.0, 0.5] + QID + RNG.standard_normal(40))
COPIES = RNG.integers(0, 4, 40)  # some of them 0
WEIGHT = RNG.uniform(0.2, 3.0, 40)
RANKERS = [
    RankRLS(2.0),
    RankRLS(2.0, weighting="pairs", ties="exclude"),
    RankRLS(2.0, solver="dual"),
    RankRLS(2.0, kernel="rbf", scale=None),
    RankRLS(2.0, kernel="rbf", scale=None, ties="exclude", weighting="queries"),
]
REGRESSIONS = [RLS(2.0), RLS(2.0, solver="dual"), RLS(2.0, kernel="rbf"), SparseRLS(2.0)]
STANDARDIZED = [
    RankRLS(2.0, scale="standard"),
    RankRLS(2.0, kernel="rbf", scale=None, gamma="scale"),
    RankRLS(2.0, kernel="rbf"),
    SparseRankRLS(2.0),
]


@pytest.mark.parametrize("qid", [None, QID], ids=["one ranking", "queries"])
@pytest.mark.parametrize("ranker", [*RANKERS, *REGRESSIONS, *STANDARDIZED], ids=repr)
def test_whole_weights_are_repeated_rows(ranker, qid):
    rows = np.repeat(np.arange(40), COPIES)
    repeated = clone(ranker).fit(X[rows], Y[rows], qid=None if qid is None else qid[rows])
    plain = clone(ranker).fit(X, Y, qid=qid)
    want = repeated.predict(X, qid=qid)
    assert not np.allclose(plain.predict(X, qid=qid), want, rtol=1e-3)
    for kind in (np.asarray, sp.csr_array):
        weighted = clone(ranker).fit(kind(X), Y, qid=qid, sample_weight=COPIES)
        assert_allclose(weighted.predict(kind(X), qid=qid), want, atol=1e-8)


@pytest.mark.parametrize("qid", [None, QID], ids=["one ranking", "queries"])
@pytest.mark.parametrize(("weighting", "power"), [("pairs", 2), ("rows", 1), ("queries", 0)])
def test_support_vector_machines(weighting, power, qid):
    rows = np.repeat(np.arange(40), COPIES)
    options = {"weighting": weighting, "tol": 1e-9}
    want = RankSVM(**options).fit(X[rows], Y[rows], qid=None if qid is None else qid[rows]).coef_
    found = RankSVM(**options).fit(sp.csr_array(X), Y, qid=qid, sample_weight=COPIES)
    assert_allclose(found.coef_, want, atol=1e-7)
    halves = RankSVM(alpha=0.5**power, **options).fit(X, Y, qid=qid, sample_weight=COPIES / 2)
    assert_allclose(halves.coef_, want, atol=1e-7)
    plain = RankSVM(**options).fit(X, Y, qid=qid)
    assert not np.allclose(plain.coef_, want, rtol=1e-3)


@pytest.mark.parametrize("ranker", [RLS(2.0), RLS(2.0, solver="dual")], ids=repr)
def test_regression_is_that_of_scikit_learn(ranker):
    want = Ridge(2.0).fit(X, np.c_[Y, X[:, 0]], sample_weight=WEIGHT)
    found = ranker.fit(X, np.c_[Y, X[:, 0]], sample_weight=WEIGHT)
    assert_allclose(found.coef_, want.coef_, atol=1e-10)
    assert_allclose(found.intercept_, want.intercept_)


def test_a_pair_counts_the_product_of_the_weights():
    of_query = np.array([1.0, 3.0, 1.0, 2.0, 1.0])[QID]
    L = grouped_laplacian(Y, QID, "exclude", "queries", of_query, WEIGHT)
    want = np.linalg.solve(X.T @ L @ X + 2.0 * np.eye(3), X.T @ L @ Y)
    weights = {"query_weight": of_query, "sample_weight": pd.Series(WEIGHT, index=range(50, 90))}
    ranker = RankRLS(2.0, ties="exclude", weighting="queries").fit(X, Y, qid=QID, **weights)
    assert_allclose(ranker.coef_, want)
    weights["sample_weight"] = list(WEIGHT)
    path = RankRLS(ties="exclude", weighting="queries").path(X, Y, [2.0, 3.0], qid=QID, **weights)
    assert_allclose(path.estimator(0).coef_, want)


def test_weights_relative_to_each_other_within_queries():
    ranker = RankRLS(2.0, weighting="queries", ties="exclude")
    want = ranker.fit(X, Y, qid=QID, sample_weight=WEIGHT).coef_
    scaled = WEIGHT * 10.0 ** (30 * (QID - 2.0))
    assert_allclose(ranker.fit(X, Y, qid=QID, sample_weight=scaled).coef_, want)
    small = np.where(np.arange(40) % 3, WEIGHT, 1e-90)  # as if these rows were not there
    left_out = ranker.fit(X, Y, qid=QID, sample_weight=np.where(np.arange(40) % 3, WEIGHT, 0.0))
    want = left_out.coef_
    assert_allclose(ranker.fit(X, Y, qid=QID, sample_weight=small).coef_, want)


def test_long_rankings_are_summed_block_by_block():
    rng = np.random.default_rng(0)
    Z, v = rng.standard_normal((900, 300)) + 3.0, rng.uniform(0.1, 2.0, 900)
    y = np.round(Z[:, 0])
    for ties in ("include", "exclude"):
        primal, dual = (
            RankRLS(50.0, ties=ties, solver=solver).fit(Z, y, sample_weight=v)
            for solver in ("primal", "dual")
        )
        assert_allclose(primal.coef_, dual.coef_, atol=1e-9)


def refit(ranker, out):
    rest = np.setdiff1d(np.arange(40), out)
    fitted = clone(ranker).fit(X[rest], Y[rest], qid=QID[rest], sample_weight=WEIGHT[rest])
    return fitted.predict(X[out])


@pytest.mark.parametrize(
    "ranker", [*RANKERS, SparseRankRLS(2.0, landmarks=X[:9], scale=None)], ids=repr
)
def test_queries_held_out_equal_refits(ranker):
    found = leave_query_out(ranker, X, Y, qid=QID, sample_weight=WEIGHT).predictions[0]
    for query in range(5):
        out = np.flatnonzero(query == QID)
        assert_allclose(found[out], refit(ranker, out), atol=1e-8)


@pytest.mark.parametrize(
    ("ranker", "settings"),
    [
        (RankRLS(), {}),
        (RankRLS(), {"SECONDS": 0.0, "FLOPS": 1e30, "FEWEST_FOLDS": 5}),  # from sums
        (RankRLS(kernel="rbf", gamma=0.3), {}),
        (RankRLS(kernel="rbf", gamma=0.3), {"KERNEL_ROWS": 0, "KERNEL_SHARE": 1.0}),
    ],
)
def test_the_chosen_alpha_is_the_best_of_leave_query_out(monkeypatch, ranker, settings):
    for name, value in settings.items():
        monkeypatch.setattr(alpha_choice, name, value)
    curve = ranker.fit(X, Y, qid=QID, sample_weight=WEIGHT).alpha_curve_
    options = {"alphas": curve.alphas, "metric": curve.metric}
    found = leave_query_out(ranker, X, Y, qid=QID, sample_weight=WEIGHT, **options)
    assert_allclose(curve.score, found.score, atol=1e-9)
    assert ranker.alpha_ == found.best_alpha


@pytest.mark.parametrize("model", [RLS(), RLS(kernel="rbf", gamma=0.3), SparseRLS(landmarks=X[:9])])
def test_parts_held_out_of_a_regression_equal_refits(model):
    # The parts are evenly spaced in the order of the labels.
    order = np.argsort(Y, kind="stable")
    curve = model.fit(X, Y, sample_weight=WEIGHT).alpha_curve_
    k = len(curve.alphas) // 2
    errors = []
    for part in (order[p::5] for p in range(5)):
        rest = np.setdiff1d(np.arange(40), part)
        other = clone(model).set_params(alpha=curve.alphas[k])
        other.fit(X[rest], Y[rest], sample_weight=WEIGHT[rest])
        residuals = Y[part] - other.predict(X[part])
        errors.append((residuals - residuals.mean()) ** 2)
    assert curve.metric == "squared_error"
    assert curve.score[k] == pytest.approx(np.mean(np.concatenate(errors)))


@pytest.mark.parametrize("qid", [None, QID], ids=["one ranking", "queries"])
@pytest.mark.parametrize("ranker", [RankRLS(), RankRLS(ties="exclude"), RLS()], ids=repr)
def test_alpha_follows_the_weights(ranker, qid):
    once, more = (
        clone(ranker).fit(X, Y, qid=qid, sample_weight=factor * WEIGHT) for factor in (1.0, 1024.0)
    )
    assert_allclose(once.coef_, more.coef_, rtol=1e-6)
    assert more.alpha_ == pytest.approx(1024.0 * once.alpha_)
    assert_allclose(once.alpha_curve_.score, more.alpha_curve_.score, atol=1e-9)
    plain = clone(ranker).fit(X, Y, qid=qid)
    assert not np.allclose(plain.coef_, once.coef_, rtol=1e-3)


def test_one_query_of_two_with_labels_that_differ():
    y = np.where(QID == 1, Y, 0.0)
    ranker = RankRLS().fit(X, y, qid=QID, sample_weight=WEIGHT)
    assert ranker.alpha_curve_ is None
    assert ranker.alpha_ > 0


def test_weights_choose_the_scaling():
    queries = {"qid": QID, "sample_weight": COPIES + 1.0}
    ranker = RankRLS(kernel="rbf").fit(X, Y, **queries)
    assert ranker.scale_ in ("query-minmax", "standard", "query-ranks")
    assert ranker.alpha_curve_ is not None


def test_landmarks_are_numbered_as_the_rows_that_were_passed():
    kept = np.flatnonzero(COPIES)
    ranker = SparseRankRLS(1.0, n_landmarks=6, random_state=0, scale=None)
    ranker.fit(X, Y, qid=QID, sample_weight=COPIES)
    assert np.isin(ranker.landmark_indices_, kept).all()
    assert_allclose(ranker.landmarks_, X[ranker.landmark_indices_])
    named = SparseRankRLS(1.0, landmarks=ranker.landmark_indices_, scale=None)
    named.fit(X, Y, qid=QID, sample_weight=COPIES)
    assert_allclose(named.predict(X), ranker.predict(X))
    assert named.landmark_indices_.tolist() == ranker.landmark_indices_.tolist()
    missing = SparseRankRLS(1.0, landmarks=[kept[0], np.flatnonzero(COPIES == 0)[0]])
    with pytest.raises(DataError, match=r"landmarks\[1\] = \d+ is a row with sample_weight 0"):
        missing.fit(X, Y, qid=QID, sample_weight=COPIES)


def test_a_precomputed_kernel():
    weighted = RankRLS(1.0, kernel="precomputed").fit(X @ X.T, Y, sample_weight=WEIGHT)
    want = RankRLS(1.0, solver="dual").fit(X, Y, sample_weight=WEIGHT).predict(X)
    assert_allclose(weighted.predict(X @ X.T), want)
    with pytest.raises(DataError, match=r'is 0 in row .*kernel="precomputed" needs a column'):
        RankRLS(1.0, kernel="precomputed").fit(X @ X.T, Y, sample_weight=COPIES)


def test_weights_reach_fit_through_scikit_learn():
    want = RankRLS(2.0).fit(X, Y, qid=QID, sample_weight=WEIGHT)
    grid = {"alpha": [2.0]}
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(RankRLS(), grid, cv=GroupKFold(2))
        search.fit(X, Y, qid=QID, groups=QID, sample_weight=WEIGHT)
        params = {"qid": QID, "groups": QID, "sample_weight": WEIGHT}
        score, _ = cross_val_score(RankRLS(2.0), X, Y, params=params, cv=GroupKFold(2))
    assert_allclose(search.best_estimator_.coef_, want.coef_)
    train, test = next(GroupKFold(2).split(X, Y, QID))
    part = RankRLS(2.0).fit(X[train], Y[train], qid=QID[train], sample_weight=WEIGHT[train])
    assert score == pytest.approx(part.score(X[test], Y[test], WEIGHT[test], QID[test]))
    plain = GridSearchCV(RLS(), grid, cv=KFold(2)).fit(X, Y, sample_weight=WEIGHT)
    assert_allclose(plain.best_estimator_.coef_, RLS(2.0).fit(X, Y, sample_weight=WEIGHT).coef_)


@given(problems(min_pairs=1), st.data())
def test_the_score_counts_pairs_by_their_weights(p, data):
    one = st.sampled_from([0.0, 0.5, 1.0, 3.0])
    weights = data.draw(st.lists(one, min_size=len(p.y), max_size=len(p.y)))
    weights[:2] = [1.0, 2.0]
    ranker = RankRLS(1.0).fit([[0.0], [1.0]], [0, 1])
    scores = np.round(p.X[:, :1])  # with ties
    shares = []
    for query in dict.fromkeys(p.qid):
        correct, total = 0.0, 0.0
        for i in np.flatnonzero(p.qid == query):
            for j in np.flatnonzero((p.qid == query) & (p.y < p.y[i])):
                both = weights[i] * weights[j]
                total += both
                correct += both * (np.sign(scores[i, 0] - scores[j, 0]) + 1) / 2
        if total:
            shares.append(correct / total)
    assert ranker.score(scores, p.y, weights, p.qid) == pytest.approx(np.mean(shares), abs=1e-9)


def test_the_score_of_two_classes_is_the_area_under_the_curve():
    labels = (np.median(Y) < Y).astype(int)
    ranker = RankRLS(1.0).fit(X, Y)
    want = roc_auc_score(labels, ranker.predict(X), sample_weight=COPIES)
    assert ranker.score(X, labels, COPIES) == pytest.approx(want)
    with pytest.raises(UndefinedMetricError, match="Check y, qid and sample_weight"):
        ranker.score(X, labels, sample_weight=labels)
    with pytest.raises(DataError, match=r"got shape \(2,\) for 40 rows"):
        ranker.score(X, labels, sample_weight=[1.0, 2.0])


CHECKS = [
    estimator_checks.check_sample_weights_pandas_series,
    estimator_checks.check_sample_weights_not_an_array,
    estimator_checks.check_sample_weights_list,
    estimator_checks.check_sample_weights_shape,
    estimator_checks.check_sample_weights_not_overwritten,
    estimator_checks.check_sample_weight_equivalence_on_dense_data,
    estimator_checks.check_sample_weight_equivalence_on_sparse_data,
]
if SCIKIT_LEARN >= (1, 9):
    CHECKS.append(estimator_checks.check_all_zero_sample_weights_error)


@pytest.mark.parametrize(
    "ranker",
    [
        RankRLS(1.0),
        RankRLS(1.0, kernel="rbf"),
        RLS(1.0),
        SparseRankRLS(1.0),
        SparseRLS(1.0),
        RankSVM(),
    ],
    ids=repr,
)
def test_scikit_learn_checks_of_weights(ranker):
    for check in CHECKS:
        check(type(ranker).__name__, ranker)


@pytest.mark.parametrize("ranker", [RankRLS(1.0), RLS(1.0), RankSVM()], ids=repr)
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.where(np.arange(40) == 7, -1.0, WEIGHT), "from 1e-100 .* got -1 in row 7"),
        (np.where(np.arange(40) == 3, np.nan, WEIGHT), "must be finite: entry 3 is nan"),
        (np.full(40, 1e200), r"0, .* or from 1e-100 to 1e\+100: got 1e\+200 in row 0"),
        (np.where(np.arange(40) == 3, 5e-324, WEIGHT), "got .*e-324 in row 3"),
        ([1.0, 2.0], r"one entry per row of X: got shape \(2,\) for 40 rows"),
        (1.0, r"one entry per row of X: got shape \(\) for 40 rows"),
        (["a"] * 40, "sample_weight must hold finite numbers"),
        (np.arange(40) == 3, "zero for 39 of 40 rows: at least two rows must have"),
    ],
)
def test_weights_that_cannot_be(ranker, weight, message):
    with pytest.raises(DataError, match=message):
        ranker.fit(X, Y, sample_weight=weight)


def test_rows_that_are_left_out_leave_nothing_to_rank():
    with pytest.raises(DataError, match="No query has two different labels"):
        RankRLS(1.0).fit(X, Y, qid=QID, sample_weight=Y[0] == Y)


def test_rankers_without_weights_of_rows():
    for ranker in (KPCRank(), AdditiveRankRLS()):
        with pytest.raises(TypeError, match="Some rankers, such as RankRLS, take weights"):
            ranker.fit(X, Y, sample_weight=WEIGHT)
        with pytest.raises(ParameterError, match="takes no sample_weight: use a ranker whose fit"):
            ranker.make_problem(X, Y, sample_weight=WEIGHT)
    with pytest.raises(TypeError, match=r"SparseRankRLS.partial_fit: .*sample_weight"):
        SparseRankRLS().partial_fit(X, Y, sample_weight=WEIGHT)
    with pytest.raises(ParameterError, match="leave_query_out of RLS takes no sample_weight"):
        leave_query_out(RLS(1.0), X, Y, qid=QID, sample_weight=WEIGHT)
    with pytest.raises(DataError, match="leave out the rows of weight 0"):
        leave_query_out(RankRLS(1.0), X, Y, qid=QID, sample_weight=COPIES)
