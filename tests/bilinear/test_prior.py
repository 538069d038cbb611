"""SparseBilinearRanker: a given start, shrinkage towards it, groups of weights, early stopping."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from rankwise import Shrinkage, SparseBilinearRanker, load_model, save_model
from rankwise.bilinear.bilinear_training import FitCheckpoint
from rankwise.errors import ParameterError
from tests.bilinear.texts import ranker, texts_and_triplets
from tests.oracles.bilinear import naive_sgd

HOW = {"lam": 2e-3, "eta0": 2.0, "schedule": "invsqrt", "T": 7}


@pytest.fixture(scope="module")
def problem():
    return texts_and_triplets()


@pytest.fixture(scope="module")
def prior():
    rng = np.random.default_rng(0)
    return rng.standard_normal((12, 12)) * (rng.random((12, 12)) < 0.2)


@pytest.mark.parametrize(
    "kind", [np.asarray, np.ndarray.tolist, sp.coo_array, sp.csc_matrix, pd.DataFrame]
)
def test_a_matrix_is_the_start(problem, prior, kind):
    X, _, triplets = problem
    fitted = ranker(n_iter=None, refit=False, init=kind(prior)).fit(X, X, triplets)
    want = naive_sgd(prior, X, X, triplets, **HOW)
    assert_allclose(fitted.coef_.toarray(), want, atol=1e-10)


def test_w_shrinks_to_the_start(problem, prior):
    X, _, triplets = problem
    how = {"n_iter": None, "init": prior, "shrinkage": {"to": "init"}}
    sparse = ranker(refit=False, **how).fit(X, X, triplets).coef_.toarray()
    assert_allclose(sparse, naive_sgd(prior, X, X, triplets, prior=prior, **HOW), atol=1e-10)
    refitted = ranker(**how).fit(X, X, triplets).coef_.toarray()
    changed = np.abs(sparse - prior) > 1e-12
    assert 0 < changed.sum() < changed.size
    want = naive_sgd(sparse, X, X, triplets, support=changed, **(HOW | {"lam": 0.0}))
    assert_allclose(refitted, want, atol=1e-10)


def test_without_evidence_the_start_stays(problem, prior):
    X, _, triplets = problem
    far = SparseBilinearRanker(
        100.0, init=prior, eta0=1.0, n_iter=200, shrinkage=Shrinkage(to="init", every=10)
    )
    assert_allclose(far.fit(X, X, triplets).coef_.toarray(), prior, atol=1e-12)
    assert far.density_ == np.mean(prior != 0)


@pytest.mark.parametrize("penalty", ["rows", "columns"])
def test_all_weights_of_a_feature_become_zero(problem, penalty):
    X, labels, _ = problem
    noisy = np.hstack((X, 0.05 * np.random.default_rng(1).random((len(X), 6))))
    fitted = ranker(shrinkage={"penalty": penalty}, alpha=2e-2).fit_classes(noisy, labels)
    W = fitted.coef_.toarray()
    norms = np.linalg.norm(W, axis=1 if penalty == "rows" else 0)
    assert (norms[12:] == 0).all()
    assert (norms[:12] > 0).any()


def test_groups_of_rows_in_order_are_the_oracle(problem):
    X, _, triplets = problem
    fitted = ranker(n_iter=None, refit=False, shrinkage={"penalty": "rows"}).fit(X, X, triplets)
    want = naive_sgd(np.eye(12), X, X, triplets, grouped=True, **HOW)
    assert_allclose(fitted.coef_.toarray(), want, atol=1e-10)


def test_a_stream_with_a_prior_is_a_fit(problem, prior):
    X, _, triplets = problem
    shrinkage = {"to": "init", "penalty": "columns"}
    how = {"n_iter": None, "refit": False, "init": prior, "shrinkage": shrinkage}
    whole = ranker(**how).fit(X, X, triplets)
    parts = ranker(**how).partial_fit(X, X, triplets[:100])
    parts.partial_fit(X, X, triplets[100:])
    assert_array_equal(parts.coef_.toarray(), whole.coef_.toarray())
    parts.set_params(init=2 * prior)
    with pytest.raises(ParameterError, match="began with init='matrix"):
        parts.partial_fit(X, X, triplets)


def test_a_stopped_fit_with_a_prior_resumes(problem, prior, tmp_path, monkeypatch):
    X, labels, _ = problem
    shrinkage = {"to": "init", "penalty": "rows"}
    how = {"init": prior, "shrinkage": shrinkage, "early_stopping": True}
    want = ranker(**how).fit_classes(X, labels)
    path = tmp_path / "fit.npz"

    def stop(*_):
        raise KeyboardInterrupt

    save = FitCheckpoint.save
    monkeypatch.setattr(FitCheckpoint, "save", lambda *a: (save(*a), stop()))
    with pytest.raises(KeyboardInterrupt):
        ranker(**how).fit_classes(X, labels, checkpoint=path, checkpoint_every=100)
    monkeypatch.setattr(FitCheckpoint, "save", save)
    resumed = ranker(**how).fit_classes(X, labels, checkpoint=path, checkpoint_every=100)
    assert_array_equal(resumed.coef_.toarray(), want.coef_.toarray())
    assert resumed.n_iter_ == want.n_iter_


def test_a_fit_stops_when_the_held_out_error_does_not_improve(problem):
    X, labels, _ = problem
    how = {"n_iter": 3000, "record_every": 50, "early_stopping": 3}
    fitted = ranker(refit=False, **how).fit_classes(X, labels)
    errors = fitted.learning_curve_["error"]
    assert fitted.n_iter_ == fitted.learning_curve_["step"][-1] < 3000
    assert len(errors) - 1 - np.argmin(errors) == 3
    longer = ranker(refit=False, **(how | {"early_stopping": False})).fit_classes(X, labels)
    assert longer.n_iter_ == 3000
    refitted = ranker(**how).fit_classes(X, labels)
    assert refitted.n_iter_ == fitted.n_iter_
    assert refitted.refit_curve_["step"][-1] <= fitted.n_iter_


def test_given_held_out_triplets_stop_a_fit(problem):
    X, _, triplets = problem
    how = {"n_iter": 3000, "record_every": 50, "early_stopping": True, "refit": False}
    fitted = ranker(**how).fit(X, X, triplets[:200], held_out=triplets[200:])
    error = 1 - fitted.score(X, X, triplets[200:])
    assert fitted.learning_curve_["error"][-1] == pytest.approx(error)
    assert fitted.n_iter_ < 3000


def test_a_matrix_is_copied_cloned_and_saved(problem, prior, tmp_path):
    X, _, triplets = problem
    given = sp.csc_array(prior)
    fitted = clone(ranker(init=given, shrinkage={"to": "init"})).fit(X, X, triplets)
    assert_array_equal(given.toarray(), prior)
    loaded = load_model(save_model(fitted, tmp_path / "model.rankwise"))
    assert_array_equal(loaded.coef_.toarray(), fitted.coef_.toarray())
    assert_array_equal(sp.csr_array(loaded.init).toarray(), prior)
    assert loaded.shrinkage == fitted.shrinkage


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"init": np.ones((3, 4))}, r"init must have shape \(12, 12\), a row for .*got \(3, 4\)"),
        ({"init": np.full((12, 12), np.nan)}, "or a matrix of finite numbers: .*NaN"),
        ({"init": [["a"] * 12] * 12}, "or a matrix of finite numbers"),
        ({"init": 1j * np.eye(12)}, "finite numbers: Complex data not supported$"),
        ({"init": np.ones(12)}, "or a matrix of finite numbers"),
        ({"init": [[1.0], [1.0, 2.0]]}, "or a matrix of finite numbers"),
        ({"init": None}, "or a matrix of finite numbers"),
        ({"init": "identty"}, "Did you mean 'identity'"),
        ({"init": np.ones((12, 12)), "structure": "diagonal", "alpha": None}, "off the diagonal"),
        ({"init": np.eye(12), "structure": "identity", "alpha": None}, "learns nothing"),
        ({"shrinkage": {"penalty": "l2"}}, "penalty of shrinkage must be one of l1, rows, columns"),
        ({"early_stopping": 0}, "early_stopping must be True or False, or an integer of at least"),
    ],
)
def test_wrong_parameters(problem, parameters, words):
    X, _, triplets = problem
    with pytest.raises(ParameterError, match=words):
        ranker(**parameters).fit(X, X, triplets)


def test_structures_without_a_penalty_do_not_shrink(problem):
    X, _, triplets = problem
    dense = SparseBilinearRanker(structure="dense", shrinkage=Shrinkage(to="init"))
    with pytest.raises(ParameterError, match="does not shrink"):
        dense.fit(X, X, triplets)
    with pytest.raises(ParameterError, match="shrinkage must be Shrinkage"):
        SparseBilinearRanker(shrinkage={"to": "init"}).fit(X, X, triplets)


def test_parameters_of_earlier_versions():
    """They were single parameters once; n_jobs was slower than one thread."""
    old = {"penalty": "l1", "shrink_to": "init", "shrink_every": 7, "n_jobs": 2, "alpha": 1e-3}
    old |= {"early_stopping": True, "n_iter_no_change": 3}
    now = SparseBilinearRanker.upgraded_parameters(old)
    assert now == {"alpha": 1e-3, "early_stopping": 3, "shrinkage": Shrinkage(to="init", every=7)}
    assert SparseBilinearRanker.upgraded_parameters(now) == now


def test_a_stream_cannot_stop_early(problem):
    X, _, triplets = problem
    with pytest.raises(ParameterError, match="early_stopping=False"):
        ranker(refit=False, early_stopping=True).partial_fit(X, X, triplets)


def test_a_diagonal_start(problem):
    X, _, triplets = problem
    start = np.diag(np.arange(12.0))
    how = {"structure": "diagonal", "alpha": None, "n_iter": None, "init": start}
    fitted = ranker(**how).fit(X, X, triplets)
    support = np.eye(12, dtype=bool)
    want = naive_sgd(start, X, X, triplets, support=support, **(HOW | {"lam": 0.0}))
    assert_allclose(fitted.coef_.toarray(), want, atol=1e-10)
