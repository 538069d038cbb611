"""SparseBilinearRanker: what it learns and what it stores."""

import copy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from rankwise import SparseBilinearRanker, load_model, save_model
from rankwise.errors import RankwiseWarning
from tests.bilinear.texts import ranker, texts, texts_and_triplets
from tests.oracles.bilinear import naive_scores, naive_sgd

WORDS = np.array([f"w{k}" for k in range(12)])


@pytest.fixture(scope="module")
def problem():
    return texts_and_triplets()


def test_in_order_it_is_algorithm_1(problem):
    X, _, triplets = problem
    fitted = ranker(n_iter=None, refit=False).fit(X, X, triplets)
    how = {"lam": 2e-3, "eta0": 2.0, "schedule": "invsqrt", "T": 7}
    want = naive_sgd(np.eye(12), X, X, triplets, **how)
    assert_allclose(fitted.coef_.toarray(), want, atol=1e-10)
    assert fitted.n_iter_ == 300
    assert fitted.density_ == np.mean(want != 0)
    assert fitted.memory_bytes_ == 12 * fitted.coef_.nnz + 4 * 13


def test_a_refit_continues_on_the_support_with_the_same_triplets(problem):
    X, _, triplets = problem
    sparse = ranker(n_iter=None, refit=False).fit(X, X, triplets).coef_.toarray()
    fitted = ranker(n_iter=None).fit(X, X, triplets)
    how = {"lam": 0.0, "eta0": 2.0, "schedule": "invsqrt", "T": 7}
    want = naive_sgd(sparse, X, X, triplets, support=sparse != 0, **how)
    assert_allclose(fitted.coef_.toarray(), want, atol=1e-10)
    assert set(zip(*fitted.coef_.nonzero(), strict=True)) <= set(
        zip(*np.nonzero(sparse), strict=True)
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"refit": False},
        {"structure": "dense", "alpha": None},
        {"schedule": "adagrad", "eta0": 1.0},
        {"schedule": "constant", "eta0": 0.1},
        {"init": "zeros"},
        pytest.param({"dtype": "float32"}, marks=pytest.mark.slow),  # compiles all loops again
        {"alpha": None, "target_density": 0.5},
    ],
)
def test_it_learns_what_belongs_together(problem, parameters):
    X, labels, _ = problem
    fitted = ranker(**parameters).fit_classes(X, labels)
    new, new_labels = texts(seed=5)
    rng = np.random.default_rng(0)
    rows = rng.integers(60, size=(4000, 3))
    right = (rows[:, 0] != rows[:, 1]) & (new_labels[rows[:, 0]] == new_labels[rows[:, 1]])
    rows = rows[right & (new_labels[rows[:, 0]] != new_labels[rows[:, 2]])]
    cosine = SparseBilinearRanker(structure="identity").fit_classes(X, labels)
    assert fitted.score(new, new, rows) > 0.95 > 0.93 > cosine.score(new, new, rows)


def test_diagonal_weights_only_shared_features(problem):
    X, labels, triplets = problem
    fitted = ranker(structure="diagonal", alpha=None, n_iter=None).fit(X, X, triplets)
    how = {"lam": 0.0, "eta0": 2.0, "schedule": "invsqrt", "T": 7}
    want = naive_sgd(np.eye(12), X, X, triplets, support=np.eye(12, dtype=bool), **how)
    assert_allclose(fitted.coef_.toarray(), want, atol=1e-10)
    zeros = ranker(structure="diagonal", alpha=None, init="zeros").fit_classes(X, labels)
    assert_array_equal(zeros.coef_.indices, np.arange(12))
    assert zeros.coef_.data.any()


def test_identity_is_the_dot_product(problem):
    X, _, triplets = problem
    fitted = SparseBilinearRanker(structure="identity").fit(X, X, triplets, held_out=triplets)
    assert_allclose(fitted.score_all(X, X), X @ X.T)
    assert fitted.n_iter_ == 0
    assert_allclose(fitted.learning_curve_["error"], [1 - fitted.score(X, X, triplets)])


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_matrix, pd.DataFrame])
def test_scores(problem, container):
    X, _, triplets = problem
    fitted = ranker().fit(container(X), container(X), triplets)
    want = naive_scores(fitted.coef_.toarray(), X, X)
    assert_allclose(fitted.score_all(container(X), container(X)), want, atol=1e-12)
    assert_allclose(fitted.predict(container(X), container(X)), np.diag(want), atol=1e-12)
    rows, scores = fitted.rank(X[3], container(X), k=5)
    assert_allclose(scores, -np.sort(-want[3])[:5], atol=1e-12)
    assert_allclose(want[3][rows], scores, atol=1e-12)
    q, a, b = triplets.T
    right = np.mean(want[q, a] > want[q, b]) + 0.5 * np.mean(want[q, a] == want[q, b])
    assert_allclose(fitted.score(X, X, triplets), right)


def test_scores_come_in_blocks(problem, monkeypatch):
    X, _, triplets = problem
    fitted = ranker().fit(X, X, triplets)
    whole = fitted.score_all(X, X)
    monkeypatch.setattr("rankwise.bilinear.sparse_bilinear.BLOCK_BYTES", 700)
    assert_allclose(fitted.score_all(X, X), whole, atol=1e-12)
    assert_allclose(fitted.predict(X, X), np.diag(whole), atol=1e-12)


def test_queries_and_documents_of_different_features(problem):
    X, _, triplets = problem
    fitted = ranker(init="zeros", refit=False, n_iter=None).fit(X, X[:, :9] + 0.1, triplets)
    how = {"lam": 2e-3, "eta0": 2.0, "schedule": "invsqrt", "T": 7}
    want = naive_sgd(np.zeros((12, 9)), X, X[:, :9] + 0.1, triplets, **how)
    assert_allclose(fitted.coef_.toarray(), want, atol=1e-10)
    assert (fitted.n_features_in_, fitted.n_document_features_) == (12, 9)


def test_related_features_and_explanations(problem):
    X, _, triplets = problem
    fitted = ranker().fit(X, X, triplets, query_names=WORDS, document_names=WORDS)
    W = fitted.coef_.toarray()
    related = fitted.related_features("w2", k=3)
    best = np.argsort(-np.abs(W[2]), kind="stable")[:3]
    assert [name for name, _ in related] == [f"w{j}" for j in best]
    assert_allclose([weight for _, weight in related], W[2, best])
    assert fitted.related_features(2, k=3) == related
    pairs = fitted.explain(X[0], X[4], k=1000)
    assert_allclose(sum(value for *_, value in pairs), fitted.predict(X[:1], X[4:5])[0])
    first, second, value = pairs[0]
    i, j = int(first[1:]), int(second[1:])
    assert_allclose(value, X[0, i] * W[i, j] * X[4, j])
    assert abs(value) == max(abs(value) for *_, value in pairs)
    unnamed = ranker().fit(X, X, triplets)
    assert unnamed.explain(X[0], sp.csr_array(X[4:5]), k=1)[0][:2] == (i, j)


def test_equal_scores_count_half():
    X = np.eye(4)
    cosine = SparseBilinearRanker(structure="identity").fit(X, X, [[0, 0, 1]])
    assert cosine.score(X, X, [[0, 0, 1], [0, 1, 2]]) == 0.75
    curve = cosine.fit(X, X, [[0, 0, 1]], held_out=[[0, 0, 1], [0, 1, 2]]).learning_curve_
    assert curve["error"][-1] == 0.25


def test_names_come_from_data_frames(problem):
    X, _, triplets = problem
    frame = pd.DataFrame(X, columns=WORDS)
    fitted = ranker().fit(frame, frame, triplets)
    assert_array_equal(fitted.document_names_, WORDS)
    assert_array_equal(fitted.feature_names_in_, WORDS)


def test_graded_documents(problem):
    X, labels, _ = problem
    rng = np.random.default_rng(0)
    qid = rng.integers(10, size=400)
    documents = rng.integers(60, size=400)
    grades = (labels[documents] == labels[qid]).astype(float)
    fitted = ranker().fit_graded(X[:10], X[documents], grades, qid)
    scores = fitted.score_all(X[:10], X)
    same = labels[:10, None] == labels[None, :]
    assert scores[same].mean() > scores[~same].mean() + 0.5


@pytest.mark.parametrize("schedule", ["invsqrt", "adagrad"])
@pytest.mark.parametrize("structure", ["sparse", "dense"])
def test_a_stream_gives_what_a_fit_to_all_of_it_gives(problem, schedule, structure):
    X, _, triplets = problem
    alpha = 2e-3 if structure == "sparse" else None
    how = {"schedule": schedule, "structure": structure, "alpha": alpha, "refit": False}
    whole = ranker(n_iter=None, **how).fit(X, X, triplets)
    stream = ranker(**how)
    for rows in np.split(triplets, [3, 120, 121]):
        used, rows = np.unique(rows, return_inverse=True)
        stream.partial_fit(X[used], X[used], rows.reshape(-1, 3))
    assert_allclose(stream.coef_.toarray(), whole.coef_.toarray(), atol=1e-11)
    assert stream.n_iter_ == 300


def test_a_stream_resumes_from_a_file(problem, tmp_path):
    X, _, triplets = problem
    stream = ranker(refit=False).partial_fit(X, X, triplets[:100])
    loaded = load_model(save_model(stream, tmp_path / "model.rankwise"))
    copied = copy.deepcopy(stream)
    for one in (stream, loaded, copied):
        one.partial_fit(X, X, triplets[100:])
    assert_array_equal(loaded.coef_.data, stream.coef_.data)
    assert_array_equal(copied.coef_.data, stream.coef_.data)


def test_a_stream_of_an_earlier_version_goes_on():
    path = Path(__file__).parents[1] / "model_files" / "format1" / "sparse-bilinear-stream.rankwise"
    old = load_model(path)  # after four triplets of 18 rows; see tests/model_files/make.py
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(18, 3))).round(2)
    first = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    rows = rng.permuted(np.tile(np.arange(18), (300, 1)), axis=1)[:, :3]
    settings = {"alpha": 1e-3, "eta0": 0.1, "schedule": "invsqrt", "refit": False}
    want = SparseBilinearRanker(**settings).partial_fit(X, X, first).partial_fit(X, X, rows)
    assert old.n_iter_ == 4
    assert_allclose(old.partial_fit(X, X, rows).coef_.toarray(), want.coef_.toarray(), atol=1e-12)


def test_model_files(problem, tmp_path):
    X, _, triplets = problem
    fitted = ranker().fit(X, X, triplets, query_names=WORDS, held_out=triplets[:9])
    same = load_model(save_model(fitted, tmp_path / "model.rankwise"))
    assert_array_equal(same.predict(X, X), fitted.predict(X, X))
    assert_array_equal(same.query_names_, WORDS)
    assert_array_equal(same.learning_curve_["error"], fitted.learning_curve_["error"])


def test_the_same_seed_gives_the_same_weights(problem):
    X, labels, _ = problem
    first, second = (ranker().fit_classes(X, labels) for _ in range(2))
    assert_array_equal(first.coef_.data, second.coef_.data)
    other = ranker(random_state=np.random.default_rng(5)).fit_classes(X, labels)
    assert other.coef_.nnz != first.coef_.nnz or (other.coef_.data != first.coef_.data).any()


def test_the_learning_curve(problem):
    X, labels, triplets = problem
    new, new_labels = texts(seed=5)
    fitted = ranker(record_every=100).fit_classes(X, labels, held_out=(new, new_labels))
    curve = fitted.learning_curve_
    assert_array_equal(curve["step"], [100, 200, 300, 400])
    assert curve["error"][-1] < 0.1
    assert (np.diff(curve["loss"]) < 0.3).all()
    assert_array_equal(fitted.refit_curve_["step"], curve["step"])
    sparse = ranker(refit=False).fit(X, X, triplets, held_out=(new, new, triplets))
    assert not hasattr(sparse, "refit_curve_")
    assert sparse.learning_curve_["density"][-1] == sparse.density_
    assert sparse.learning_curve_["error"][-1] == pytest.approx(
        1 - sparse.score(new, new, triplets)
    )
    assert np.isnan(ranker().fit(X, X, triplets).learning_curve_["error"]).all()


@pytest.mark.parametrize("target", [0.3, 0.6])
def test_a_wanted_density_is_found(problem, target):
    X, labels, _ = problem
    fitted = ranker(alpha=None, target_density=target, refit=False).fit_classes(X, labels)
    assert 0.95 * target <= fitted.density_ <= target
    same = ranker(alpha=fitted.alpha_, refit=False).fit_classes(X, labels)
    assert_array_equal(same.coef_.data, fitted.coef_.data)


def test_an_unreachable_density_warns(problem, monkeypatch):
    X, _, triplets = problem
    monkeypatch.setattr("rankwise.bilinear.bilinear_training.MAX_TRIALS", 3)
    with pytest.warns(RankwiseWarning, match="No alpha gave the density 1"):
        ranker(alpha=None, target_density=1.0, n_iter=3, shrinkage={"every": 1}).fit(X, X, triplets)


def test_a_search_that_gives_up_uses_the_nearest_alpha():
    X = np.eye(4)[[0, 0, 1, 1]]  # a step changes two entries at once, always the same ones
    how = {"target_density": 0.9, "alpha": None, "init": "zeros", "n_iter": 40, "refit": False}
    with pytest.warns(RankwiseWarning, match=r"the nearest of .* fits .* Take more steps"):
        fitted = ranker(**how).fit_classes(X, [0, 0, 1, 1])
    nearest = max(fitted.learning_curve_["density"])
    assert fitted.density_ == nearest == 4 / 16


def test_the_bar_shows_loss_density_and_speed(problem, capsys):
    X, labels, _ = problem
    ranker(alpha=None, target_density=0.5, verbose=True).fit_classes(X, labels)
    shown = capsys.readouterr().err
    for words in ("alpha 0.0", "refit", "100%", "loss 0.", "density 4", " steps/s"):
        assert words in shown
    assert "…" not in shown


def test_parameters_are_scikit_learns(problem):
    X, _, triplets = problem
    fitted = ranker().fit(X, X, triplets)
    assert clone(fitted).get_params() == fitted.get_params()
    assert not hasattr(clone(fitted), "coef_")
    assert repr(SparseBilinearRanker(1e-5, n_iter=10)) == (
        "SparseBilinearRanker(alpha=1e-05, n_iter=10)"
    )
    assert "SparseBilinearRanker" in fitted._repr_html_()
    with pytest.raises(NotFittedError):
        ranker().predict(X, X)
    with pytest.raises(NotFittedError):
        ranker().related_features(0)


@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix])
def test_sparse_input_is_not_changed(container):
    data, indices = np.array([2.0, 1.0, 0.0, 1.0, 1.0]), np.array([1, 0, 2, 3, 3])
    X = container((data, indices, np.array([0, 3, 4, 5])), shape=(3, 4))
    ranker().fit(X, X, [[0, 0, 1]]).predict(X, X)
    assert_array_equal(X.data, [2.0, 1.0, 0.0, 1.0, 1.0])
    assert_array_equal(X.indices, [1, 0, 2, 3, 3])
    assert X.nnz == 5


def test_held_out_may_be_a_list(problem):
    X, labels, triplets = problem
    for rows in (X, X.tolist()):
        fitted = ranker().fit(X, X, triplets, held_out=[rows, rows, triplets])
        assert np.isfinite(fitted.learning_curve_["error"]).all()
    three = ranker().fit(X, X, triplets, held_out=triplets[:3].tolist())
    assert np.isfinite(three.learning_curve_["error"]).all()
    by_class = ranker().fit_classes(X, labels, held_out=[X, labels])
    assert np.isfinite(by_class.learning_curve_["error"]).all()
