"""RankSVM, compared with a brute-force solver on all pairs, and its error messages."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from rankwise import RankSVM, load_model, save_model
from rankwise.data import make_ranking
from rankwise.errors import DataError, ParameterError, RankwiseWarning
from rankwise.svm.newton import NewtonFit
from rankwise.svm.rank_svm import SOLVERS
from tests.oracles.ranksvm import listed_gradient, minimize_hinge, pairs_of
from tests.strategies import comparisons, problems, weightings

alphas = st.sampled_from([1e-3, 1.0, 100.0])
X = np.arange(8.0).reshape(4, 2) ** 1.5
Y = np.array([0.0, 1.0, 2.0, 3.0])


@given(problems(max_rows=14, max_features=3, min_pairs=1), alphas, weightings)
def test_weights_minimize_the_objective(problem, alpha, weighting):
    ranker = RankSVM(alpha, weighting=weighting, tol=1e-9)
    ranker.fit(problem.X, problem.y, qid=problem.qid)
    want = minimize_hinge(problem.X, problem.y, problem.qid, alpha, weighting)
    assert_allclose(ranker.coef_, want, rtol=1e-4, atol=1e-5)


@pytest.fixture
def data():
    return make_ranking(n_queries=12, rows_per_query=15, n_features=5, n_levels=4, random_state=0)


@pytest.mark.parametrize("alpha", [1e-2, 1.0, 1e3])
def test_a_linear_support_vector_machine_on_explicit_pairs(data, alpha):
    differences = np.array([data.X[i] - data.X[j] for i, j in pairs_of(data.y, data.qid)])
    rows, signs = np.vstack([differences, -differences]), np.repeat([1, -1], len(differences))
    # Every pair occurs twice, and the objective is C * loss + |w|^2 / 2.
    peer = LinearSVC(C=1 / (4 * alpha), fit_intercept=False, dual=False, tol=1e-10, max_iter=10_000)
    want = peer.fit(rows, signs).coef_[0]
    found = RankSVM(alpha, weighting="pairs", tol=1e-9).fit(data.X, data.y, qid=data.qid).coef_
    assert_allclose(found, want, rtol=1e-5, atol=1e-7)


def test_only_the_order_of_labels_counts(data):
    plain = RankSVM().fit(data.X, data.y, qid=data.qid)
    stretched = RankSVM().fit(data.X, np.exp(data.y), qid=data.qid)
    assert_allclose(plain.coef_, stretched.coef_, rtol=1e-10)


def test_sparse_rows_shuffled_rows_and_renamed_queries(data):
    want = RankSVM(tol=1e-9).fit(data.X, data.y, qid=data.qid).coef_
    sparse = RankSVM(tol=1e-9).fit(sp.csr_array(data.X), data.y, qid=data.qid)
    assert_allclose(sparse.coef_, want, rtol=1e-6)
    assert_allclose(sparse.predict(sp.csr_array(data.X)), data.X @ want, rtol=1e-6)
    order = np.random.default_rng(0).permutation(len(data.y))
    names = np.array([f"query {q}" for q in data.qid])
    moved = RankSVM(tol=1e-9).fit(data.X[order], data.y[order], qid=names[order])
    assert_allclose(moved.coef_, want, rtol=1e-6)


def test_float32_rows_get_float32_scores(data):
    ranker = RankSVM().fit(data.X, data.y, qid=data.qid)
    assert ranker.predict(data.X.astype(np.float32)).dtype == np.float32
    assert_allclose(ranker.predict(data.X.astype(np.float32)), ranker.predict(data.X), rtol=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 1e-300, 1e300])
def test_extreme_alphas(alpha):
    ranker = RankSVM(alpha).fit(X, Y)
    assert np.isfinite(ranker.coef_).all()
    if alpha < 1:
        assert ranker.score(X, Y) == 1.0


def test_duplicate_and_constant_features():
    wide = np.column_stack((X, X, np.ones(4)))
    ranker = RankSVM().fit(wide, Y)
    assert abs(ranker.coef_[-1]) < 1e-12
    assert_allclose(ranker.coef_[:2], ranker.coef_[2:4])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: RankSVM().fit(X, np.ones(4)), DataError, r"No query has two .*1 query, 4 rows"),
        (lambda: RankSVM().fit(X, Y, qid=[1, 2, 3, 4]), DataError, "4 queries"),
        (lambda: RankSVM().fit(X, Y, qid=[1, 1]), DataError, "got 2 for 4 rows"),
        (lambda: RankSVM().fit(1e200 * X, Y), DataError, "overflow"),
        (lambda: RankSVM(-1.0).fit(X, Y), ParameterError, "alpha must be"),
        (lambda: RankSVM("auto").fit(X, Y), ParameterError, r"use RankingSearchCV\(RankSVM"),
        (lambda: RankSVM(tol=0.0).fit(X, Y), ParameterError, "tol must be"),
        (lambda: RankSVM(max_iter=0).fit(X, Y), ParameterError, "max_iter must be"),
        (lambda: RankSVM(weighting="row").fit(X, Y), ParameterError, "Did you mean 'rows'"),
    ],
)
def test_error_messages(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_too_few_iterations_give_a_warning(data):
    with pytest.warns(ConvergenceWarning, match=r"1 Newton step, .* or increase max_iter\."):
        RankSVM(1e-6, max_iter=1).fit(data.X, data.y, qid=data.qid)


def test_a_stop_before_max_iter_does_not_blame_it(data, monkeypatch):
    def stopped(X, pairs, lams, **options):
        return [NewtonFit(np.zeros(X.shape[1]), 3, 0.5, converged=False) for _ in lams]

    monkeypatch.setitem(SOLVERS, "squared_hinge", stopped)
    with pytest.warns(ConvergenceWarning, match="rounding errors hide any further") as caught:
        RankSVM().fit(data.X, data.y, qid=data.qid)
    assert "max_iter" not in str(caught[0].message)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("alpha", [0.0, 1e-300, 1e-50, 1e-20])
def test_alphas_below_rounding_errors_give_a_good_ranker(kernel, loss, alpha):
    d = make_ranking(n_queries=12, rows_per_query=8, n_features=4, n_levels=3, random_state=0)
    ranker = RankSVM(alpha, kernel=kernel, loss=loss, random_state=0, max_iter=1000)
    ranker.fit(d.X, d.y, qid=d.qid)
    assert ranker.score(d.X, d.y, qid=d.qid) > 0.97
    assert np.ptp(ranker.predict(d.X)) < 1e4


def test_alphas_below_rounding_errors_have_one_result(data):
    for loss in ("squared_hinge", "hinge"):
        path = RankSVM(loss=loss).path(data.X, data.y, [1e-300, 1.0, 0.0], qid=data.qid)
        assert path.fits[0] is path.fits[2]
        assert path.fits[0] is not path.fits[1]


@given(comparisons(), alphas, st.booleans())
def test_comparisons_with_margins_weights_and_context(c, alpha, has_context):
    rng = np.random.default_rng(0)
    margin = np.round(2 * c.margin) / 2  # some are 0
    context = rng.standard_normal((len(margin), 2)) if has_context else None
    ranker = RankSVM(alpha, tol=1e-9)
    with warnings.catch_warnings():  # few rows may be in parts with equal mean scores
        warnings.simplefilter("ignore", RankwiseWarning)
        ranker.fit_pairs(c.X, c.pairs, margin=margin, weight=c.weight, context=context)
    D = np.array([c.X[i] - c.X[j] for i, j in c.pairs])
    scale = np.ones(0)
    if context is not None:
        squares = np.column_stack(((D**2).sum(axis=1), context**2))
        mean, *means = np.average(squares, axis=0, weights=c.weight)
        scale = np.sqrt(mean / np.array(means))
        D = np.hstack((D, scale * context))
    w = ranker.coef_ if context is None else np.append(ranker.coef_, ranker.context_coef_ / scale)
    start = np.linalg.norm(listed_gradient(0 * w, D, margin, c.weight, alpha))
    # The objective is convex: where its gradient is 0, it is smallest.
    assert np.linalg.norm(listed_gradient(w, D, margin, c.weight, alpha)) <= 1e-8 * start


def test_comparisons_that_cannot_be_used():
    pairs = [[0, 1], [2, 3]]
    ranker = RankSVM()
    with pytest.raises(DataError, match="fit one for each column"):
        ranker.fit_pairs(X, pairs, margin=np.ones((2, 2)))
    with pytest.raises(DataError, match="All comparisons have weight 0"):
        ranker.fit_pairs(X, pairs, weight=[0, 0])
    sparse = RankSVM().fit_pairs(sp.csr_array(X), pairs, context=[[1.0], [-1.0]])
    dense = RankSVM().fit_pairs(X, pairs, context=[[1.0], [-1.0]])
    assert_allclose(sparse.predict(X), dense.predict(X), rtol=1e-5)
    assert not hasattr(dense.fit(X, Y), "context_coef_")


@given(problems(max_rows=14, max_features=3, min_pairs=1), weightings)
def test_a_path_has_the_fits_of_its_alphas(problem, weighting):
    template = RankSVM(weighting=weighting, tol=1e-9)
    values = [1.0, 100.0, 1e-2, 1.0]
    path = template.path(problem.X, problem.y, values, qid=problem.qid)
    for k, alpha in enumerate(values):
        want = clone(template).set_params(alpha=alpha)
        want.fit(problem.X, problem.y, qid=problem.qid)
        assert_allclose(path.coefficients()[k], want.coef_, rtol=1e-4, atol=1e-5)
    assert not hasattr(template, "coef_")


def test_a_path_predicts_and_gives_rankers(data, tmp_path):
    frame = pd.DataFrame(data.X, columns=list("abcde"))
    weight = np.where(data.qid % 2, 2.0, 1.0)
    path = RankSVM().path(frame, data.y, [10.0, 0.1], qid=data.qid, query_weight=weight)
    assert (len(path), path.predict(frame, qid=data.qid).shape) == (2, (2, len(data.y)))
    assert repr(path) == "RankSVMPath(RankSVM(), 2 alphas)"
    for k, alpha in enumerate([10.0, 0.1]):
        ranker = path.estimator(k)
        want = RankSVM(alpha).fit(frame, data.y, qid=data.qid, query_weight=weight)
        assert ranker.get_params() == want.get_params()
        assert ranker.feature_names_in_.tolist() == list("abcde")
        assert_allclose(ranker.predict(frame), want.predict(frame), rtol=1e-4, atol=1e-5)
        loaded = load_model(save_model(ranker, tmp_path / f"{k}.rankwise"))
        assert_allclose(loaded.predict(frame), path.predict(frame)[k], rtol=1e-9)
    with pytest.raises(ParameterError, match="alpha must be a finite number"):
        RankSVM().path(frame, data.y, [-1.0], qid=data.qid)


def test_a_path_starts_from_the_next_larger_alpha(data):
    alphas = np.geomspace(1e-3, 1.0, 12)
    path = RankSVM().path(data.X, data.y, alphas, qid=data.qid)
    cold = RankSVM(alphas[0]).fit(data.X, data.y, qid=data.qid)
    assert path.estimator(0).n_iter_ < cold.n_iter_


def test_features_of_very_different_scales_give_a_warning():
    wide, pairs = X * [1.0, 1e8], [(3, 0), (2, 1)]
    with pytest.warns(RankwiseWarning, match="standard deviations of features differ"):
        RankSVM().fit(wide, Y)
    with pytest.warns(RankwiseWarning, match="standard deviations of features differ"):
        RankSVM().fit_pairs(wide, pairs)
