"""Hold-outs of rankers on components, which keep the components and refit the weights."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwise import KPCR, ComponentOptions, KPCRank, RankingSearchCV, RankRLS
from rankwise.errors import ParameterError
from rankwise.metrics import disagreement_error
from rankwise.model_selection import (
    component_errors,
    k_fold,
    leave_one_out,
    leave_pair_out,
    leave_query_out,
)
from tests.oracles.kpca import fixed_components_fold, fixed_components_regression
from tests.oracles.laplacian import grouped_laplacian


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((48, 3)), rng.permutation(np.arange(48) % 8)
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(48), qid


@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("landmarks", [None, 30])
def test_leave_query_out_keeps_the_components(problem, alpha, landmarks):
    X, y, qid = problem
    options = {"n_landmarks": landmarks, "random_state": 0, "scale": None}
    F = KPCRank(5, **options).fit(X, y, qid=qid).transform(X)
    L = grouped_laplacian(y, qid, weighting="rows")
    for kind in (KPCRank, KPCR):
        ours = leave_query_out(kind(5, alpha=alpha, **options), X, y, qid=qid)
        for q in range(8):
            fold = np.flatnonzero(qid == q)
            if kind is KPCR:
                want = fixed_components_regression(F, y, fold, 5, alpha)
            else:
                want = fixed_components_fold(F, y, L, fold, 5, alpha)
            assert_allclose(ours.predictions[0][fold], want, atol=1e-8)
        every = component_errors(
            kind(alpha=alpha, options=ComponentOptions(cv="leave_query_out"), **options),
            X,
            y,
            qid=qid,
        )
        assert every.error[4] == pytest.approx(ours.score[0])


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_leave_pair_out_and_folds_of_one_ranking(problem, alpha):
    X, y, _ = problem
    F = KPCRank(5, scale=None).fit(X, y).transform(X)
    for kind in (KPCRank, KPCR):
        pairs = leave_pair_out(kind(5, alpha=alpha), X, y)
        every = component_errors(
            kind(alpha=alpha, options=ComponentOptions(cv="leave_pair_out")), X, y
        )
        assert every.error[4] == pytest.approx(pairs.error[0])
        assert every.standard_error[4] == pytest.approx(pairs.standard_error[0])
    folds = k_fold(KPCR(5, alpha=alpha, scale=None), X, y, n_splits=4)
    single = leave_one_out(KPCR(5, alpha=alpha, scale=None), X, y)
    for k in range(4):
        fold = np.flatnonzero(np.arange(48) % 4 == k)
        want = fixed_components_regression(F, y, fold, 5, alpha)
        assert_allclose(folds.predictions[0][fold], want, atol=1e-8)
    want = [fixed_components_regression(F, y, [i], 5, alpha)[0] for i in range(48)]
    assert_allclose(single.predictions[0], want, atol=1e-8)


def test_pairs_of_queries(problem):
    (X, y, qid), alpha = problem, 0.5
    F = KPCRank(4, scale=None).fit(X, y, qid=qid).transform(X)
    found = leave_pair_out(
        KPCRank(4, alpha=alpha, scale=None), X, y, qid=qid, return_differences=True
    )
    for (i, j), difference in zip(found.pairs[::7], found.differences[0][::7], strict=True):
        rest = np.setdiff1d(np.arange(48), [i, j])
        L = grouped_laplacian(y[rest], qid[rest], weighting="rows")
        A = F[rest].T @ L @ F[rest] + alpha * np.eye(4)
        w = np.linalg.solve(A, F[rest].T @ L @ y[rest])
        assert difference == pytest.approx((F[i] - F[j]) @ w, abs=1e-8)


def test_a_search_refits_the_components(problem):
    X, y, qid = problem
    search = RankingSearchCV(
        KPCRank(scale=None), {"n_components": [2, 5], "alpha": [0.0, 0.1]}, cv=4
    )
    search.fit(X, y, qid=qid)
    first = {q: k for k, q in enumerate(dict.fromkeys(qid.tolist()))}
    fold = np.array([first[q] for q in qid.tolist()]) % 4
    for params, score in zip(
        search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
    ):
        held_out = np.empty(48)
        for k in range(4):
            train = fold != k
            ranker = KPCRank(**params, scale=None).fit(X[train], y[train], qid=qid[train])
            held_out[~train] = ranker.predict(X[~train])
        assert score == pytest.approx(-disagreement_error(y, held_out, qid))


def test_error_messages(problem):
    X, y, qid = problem
    with pytest.raises(ParameterError, match="keep the components fixed"):
        leave_query_out(KPCRank(scale=None), X, y, qid=qid)
    with pytest.raises(ParameterError, match="keep the components fixed"):
        leave_pair_out(
            KPCRank(3, alpha=0.1, scale=None, options=ComponentOptions(selection="spectral")),
            X,
            y,
            qid=qid,
        )
    with pytest.raises(ParameterError, match="use a small alpha"):
        leave_pair_out(KPCRank(3, scale=None), X, y, qid=qid)
    with pytest.raises(ParameterError, match="needs a KPCRank"):
        component_errors(RankRLS(), X, y, qid=qid)


@pytest.mark.parametrize("cv", [4, "leave_query_out"])
@pytest.mark.parametrize("kind", [KPCRank, KPCR])
def test_alpha_and_the_number_of_components_are_chosen_together(problem, kind, cv):
    X, y, qid = problem
    ranker = kind(alpha="auto", scale=None, options=ComponentOptions(cv=cv, max_components=12)).fit(
        X, y, qid=qid
    )
    assert ranker.alpha_ > 0  # noise asks for a ridge here
    tried = [0.0, *(ranker.alpha_ * 10.0 ** np.arange(-3, 3, 0.75))]
    fixed = kind(scale=None, options=ComponentOptions(cv=cv, max_components=12))
    errors = component_errors(fixed, X, y, qid=qid, alphas=tried)
    assert ranker.component_errors_.error.min() <= min(e.error.min() for e in errors) + 1e-12
    for alpha, found in zip(tried, errors, strict=True):
        alone = component_errors(fixed.set_params(alpha=alpha), X, y, qid=qid)
        assert_allclose(found.error, alone.error)
        if alpha == ranker.alpha_:
            assert_allclose(found.error, ranker.component_errors_.error)
    again = kind(ranker.n_components_, alpha=ranker.alpha_, scale=None).fit(X, y, qid=qid)
    assert_allclose(ranker.predict(X), again.predict(X), atol=1e-9)


def test_alpha_alone_is_chosen_for_a_fixed_number_of_components(problem):
    X, y, qid = problem
    ranker = KPCRank(5, alpha="auto", scale=None).fit(X, y, qid=qid)
    assert ranker.n_components_ == 5
    plain = component_errors(KPCRank(scale=None), X, y, qid=qid)
    assert ranker.component_errors_.error[4] <= plain.error[4]
    assert_allclose(
        leave_query_out(KPCRank(5, alpha="auto", scale=None), X, y, qid=qid, alphas=[0.5]).score,
        leave_query_out(KPCRank(5, alpha=0.5, scale=None), X, y, qid=qid).score,
    )
    pairs = KPCRank(5, alpha="auto", scale=None).fit_pairs(X, np.arange(48).reshape(24, 2))
    assert pairs.n_components_ == 5
    assert np.isfinite(pairs.predict(X)).all()


def test_one_standard_error_takes_fewer_components_and_more_ridge(problem):
    X, y, qid = problem
    best, simple = (
        KPCRank(alpha="auto", scale=None, options=ComponentOptions(rule=rule)).fit(X, y, qid=qid)
        for rule in ("best", "one_se")
    )
    assert simple.n_components_ <= best.n_components_
    errors = best.component_errors_
    limit = errors.error.min() + errors.standard_error[np.argmin(errors.error)]
    assert simple.component_errors_.error[simple.n_components_ - 1] <= limit


def test_component_errors_need_numbers(problem):
    X, y, qid = problem
    with pytest.raises(ParameterError, match="Give alphas"):
        component_errors(KPCRank(alpha="auto"), X, y, qid=qid)
