"""RankRLS and RLS by conjugate gradients: the same rankers as by factorizations."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from rankwise import RLS, RankingSearchCV, RankRLS
from rankwise.errors import KernelSizeError, ParameterError
from rankwise.metrics import ndcg
from rankwise.model_selection import cross_validate
from rankwise.persistence import load_model, save_model
from rankwise.problem import FeatureSpace
from rankwise.problem.block_sums import query_hash
from tests.strategies import problems, seeds, ties, weightings

CG = {"solver": "cg", "tol": 1e-12, "scale": None}


def rows(m=90, n=40, seed=0):
    """Sparse rows in unsorted queries, one of which has a single row."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((m, n), density=0.15, format="csr", rng=rng)
    qid = rng.permutation(np.arange(m) // 6)
    qid[0] = -1
    y = np.round(X @ rng.standard_normal(n) * 2 + rng.standard_normal(m)).clip(-2, 2) + 2
    return X, y, qid


@given(problems(min_pairs=1), ties, weightings, seeds)
def test_the_solution_is_that_of_the_direct_form(p, ties, weighting, seed):
    rng = np.random.default_rng(seed)
    X = sp.csr_array(np.where(rng.random(p.X.shape) < 0.5, p.X, 0.0))
    weight = rng.uniform(0.1, 2.0, len(p.y))
    options = {"ties": ties, "weighting": weighting, "scale": None}
    direct, steps = (
        RankRLS(0.5, solver=solver, tol=1e-10, **options).fit(
            X, p.y, qid=p.qid, sample_weight=weight
        )
        for solver in ("primal", "cg")
    )
    scale = max(abs(direct.coef_).max(), 1e-3)
    assert_allclose(steps.coef_, direct.coef_, rtol=0, atol=1e-6 * scale)
    assert steps.solver_ == "cg"


@pytest.mark.parametrize("kind", ["sparse", "dense", "float32", "frame"])
def test_kinds_of_rows(kind):
    X, y, qid = rows()
    given = {
        "sparse": X,
        "dense": X.toarray(),
        "float32": X.astype(np.float32),
        "frame": pd.DataFrame(X.toarray(), columns=[f"word {k}" for k in range(X.shape[1])]),
    }[kind]
    steps = RankRLS(1.0, **CG).fit(given, y, qid=qid)
    direct = RankRLS(1.0, solver="primal", scale=None).fit(given, y, qid=qid)
    assert_allclose(steps.coef_, direct.coef_, rtol=1e-5, atol=1e-8)
    assert steps.predict(given).dtype == (np.float32 if kind == "float32" else np.float64)
    assert steps.n_iter_ > 0
    assert not hasattr(direct, "n_iter_")


def test_several_outputs_and_a_path():
    X, y, qid = rows()
    Y = np.column_stack((y, np.roll(y, 1)))
    alphas = [10.0, 0.1, 1.0]
    for kept in ("include", "exclude"):
        steps, direct = (
            RankRLS(ties=kept, solver=solver, tol=1e-12, scale=None).path(X, Y, alphas, qid=qid)
            for solver in ("cg", "primal")
        )
        assert_allclose(steps.predict(X), direct.predict(X), rtol=1e-7, atol=1e-9)
        assert steps.estimator(0).coef_.shape == (2, X.shape[1])


def test_regression_has_an_intercept():
    X, y, _ = rows()
    weight = np.linspace(0.5, 2.0, len(y))
    steps, direct = (
        RLS(1.0, solver=solver, tol=1e-12, scale=None).fit(X, y, sample_weight=weight)
        for solver in ("cg", "primal")
    )
    assert_allclose(steps.predict(X), direct.predict(X), rtol=1e-8)
    assert_allclose(steps.intercept_, direct.intercept_, rtol=1e-8)


@pytest.mark.parametrize("with_context", [False, True])
def test_comparisons(with_context):
    X, y, _ = rows(40, 12)
    rng = np.random.default_rng(1)
    pairs = np.array([(i, j) for i, j in rng.integers(0, 40, (200, 2)) if y[i] > y[j]])
    context = rng.standard_normal((len(pairs), 2)) if with_context else None
    steps, direct = (
        RankRLS(0.5, solver=solver, tol=1e-12, scale=None).fit_pairs(X, pairs, context=context)
        for solver in ("cg", "primal")
    )
    assert_allclose(steps.coef_, direct.coef_, rtol=1e-7, atol=1e-9)
    if with_context:
        assert_allclose(steps.context_coef_, direct.context_coef_, rtol=1e-7)
    # The slope is from one fit without a fifth of the comparisons, not from exact hold-outs.
    assert 0.3 < steps.preference_slope_ / direct.preference_slope_ < 3.0
    chosen = RankRLS(**CG).fit_pairs(X, pairs, context=context)
    assert chosen.alpha_ in chosen.alpha_curve_.alphas


def test_alpha_is_chosen_by_folds_of_queries():
    X, y, qid = rows()
    ranker = RankRLS(**CG).fit(X, y, qid=qid)
    names = sorted(
        (q for q in dict.fromkeys(qid.tolist()) if len(set(y[qid == q])) > 1), key=query_hash
    )
    curve = ranker.alpha_curve_
    for alpha, score in zip(curve.alphas, curve.score, strict=True):
        scores = np.empty(len(y))
        for k in range(3):
            held = np.isin(qid, names[k::3])
            refit = RankRLS(alpha, solver="primal", scale=None)
            scores[held] = refit.fit(X[~held], y[~held], qid=qid[~held]).predict(X[held])
        known = np.isin(qid, names)
        want = ndcg(y[known], scores[known], qid=qid[known], k=10)
        assert score == pytest.approx(want, abs=0.02)
    assert ranker.alpha_ == curve.best_alpha
    assert_allclose(ranker.coef_, RankRLS(ranker.alpha_, **CG).fit(X, y, qid=qid).coef_)


@pytest.mark.parametrize("Ranker", [RankRLS, RLS])
def test_alpha_is_chosen_without_queries(Ranker):
    X, y, _ = rows()
    for labels in (y, y[:, None]):
        ranker = Ranker(**CG).fit(X, labels)
        assert ranker.alpha_ in ranker.alpha_curve_.alphas
    few = Ranker(**CG).fit(X[:3], [0.0, 1.0, 2.0])
    assert few.alpha_ > 0
    assert few.alpha_curve_ is None


def test_few_steps_are_a_warning_that_says_what_to_do():
    X, y, qid = rows()
    with pytest.warns(ConvergenceWarning, match=r"stopped after 2 steps.*larger alpha.*max_iter"):
        ranker = RankRLS(1e-3, solver="cg", max_iter=2, scale=None).fit(X, y, qid=qid)
    assert ranker.n_iter_ == 2
    with pytest.warns(ConvergenceWarning, match="at the smallest alpha"):
        clone(ranker).path(X, y, [1e-3, 1e6], qid=qid)


def test_invalid_parameters():
    X, y, qid = rows()
    with pytest.raises(ParameterError, match='solver="cg" needs kernel="linear"'):
        RankRLS(solver="cg", kernel="rbf").fit(X, y, qid=qid)
    with pytest.raises(ParameterError, match="one of auto, primal, dual, cg"):
        RankRLS(solver="lsqr").fit(X, y, qid=qid)
    for name, value in (("tol", 0.0), ("tol", 1.5), ("max_iter", 0)):
        with pytest.raises(ParameterError, match=name):
            RankRLS(**{name: value}).fit(X, y, qid=qid)


def test_model_files(tmp_path):
    X, y, qid = rows()
    ranker = RankRLS(1.0, **CG).fit(X, y, qid=qid)
    save_model(ranker, tmp_path / "a.rankwise")
    loaded = load_model(tmp_path / "a.rankwise")
    assert_allclose(loaded.predict(X), ranker.predict(X))
    assert (loaded.n_iter_, loaded.solver_, loaded.tol) == (ranker.n_iter_, "cg", 1e-12)


def wide(m, n):
    """Rows with one entry each, in no memory to speak of."""
    return sp.csr_array((np.ones(m), np.arange(m) % n, np.arange(m + 1)), shape=(m, n))


def test_which_form_is_used():
    space = FeatureSpace()
    assert space.form(wide(60_000, 100_000)) == "cg"
    assert space.form(wide(10**6, 136)) == "primal"
    assert space.form(wide(300, 10**6)) == "dual"
    assert space.form(np.broadcast_to(0.0, (10**6, 136))) == "primal"
    assert space.form(np.broadcast_to(0.0, (10**7, 10**7))) == "cg"  # no memory for a factorization
    assert FeatureSpace("dual").form(wide(60_000, 100_000)) == "dual"


@pytest.mark.parametrize(
    ("solver", "matrix"),
    [("primal", "The matrix X'LX of 2000000 features"), ("dual", "The kernel matrix of 1000000")],
)
def test_too_little_memory_names_what_would_do(solver, matrix):
    X = wide(10**6, 2 * 10**6)
    y, qid = np.arange(10**6) % 3, np.arange(10**6) // 5
    with pytest.raises(KernelSizeError, match=rf'{matrix}.*Use solver="cg", which needs about'):
        RankRLS(1.0, solver=solver).fit(X, y, qid=qid)


def test_searches_and_cross_validation_refit():
    X, y, qid = rows()
    both = RankRLS(solver="primal", scale=None), RankRLS(**CG)
    searches = [RankingSearchCV(r, {"alpha": [0.1, 1.0]}, cv=3).fit(X, y, qid=qid) for r in both]
    scores = [s.cv_results_["mean_test_score"] for s in searches]
    assert_allclose(scores[1], scores[0], rtol=1e-6)
    found = [cross_validate(r.set_params(alpha=1.0), X, y, qid=qid, cv=3) for r in both]
    assert_allclose(*(list(one.means.values()) for one in found), rtol=1e-6)


def test_a_search_where_no_square_matrix_fits(monkeypatch):
    X, y, qid = rows()
    monkeypatch.setattr("rankwise.problem.spaces.fits", lambda *_: False)
    search = RankingSearchCV(RankRLS(scale=None), {"alpha": [0.1, 1.0]}, cv=3).fit(X, y, qid=qid)
    assert search.best_estimator_.n_iter_ > 0
