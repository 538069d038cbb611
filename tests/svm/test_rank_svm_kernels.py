"""RankSVM with the plain hinge loss, and with kernels on landmarks."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC

from rankwise import RankSVM, load_model, save_model
from rankwise.data import make_ranking
from rankwise.errors import ParameterError
from rankwise.graph import PreferenceGraph
from rankwise.svm.newton import DELTAS, LabelledPairs, ListedPairs, SmoothedHinge
from tests.oracles.ranksvm import pair_weights, pairs_of
from tests.strategies import problems, weightings

KERNEL = {"kernel": "rbf", "gamma": 0.3}


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=10, rows_per_query=8, n_features=3, n_levels=4, random_state=0)


def smooth(s, delta):
    """The hinge with a parabola in place of its kink."""
    return np.where(s < 0, 0.0, np.where(s < delta, s**2 / (2 * delta), s - delta / 2))


@given(problems(max_rows=12, max_features=2, min_pairs=1), weightings)
def test_the_smoothed_hinge_is_the_sum_over_pairs(problem, weighting):
    X, y, qid = problem.X, problem.y, np.asarray(problem.qid)
    f, delta = X[:, 0] / (1 + np.abs(X[:, 0]).max()), 0.1
    graph = PreferenceGraph.from_scores(y, qid, ties="exclude", weighting=weighting)
    state = SmoothedHinge(LabelledPairs.of(graph), delta).at(f)
    pairs, c = pairs_of(y, qid), pair_weights(y, qid, weighting)
    loss, gradient = 0.0, np.zeros_like(f)
    for w, (i, j) in zip(c, pairs, strict=True):
        slack = 1 - (f[i] - f[j])
        loss += w * smooth(slack, delta)
        slope = w * np.clip(slack / delta, 0, 1)
        gradient[i] -= slope
        gradient[j] += slope
    assert_allclose(state.loss, loss, rtol=1e-9)
    assert_allclose(state.gradient, gradient, atol=1e-9)


def test_listed_pairs_and_ties():
    B = sp.csr_array(np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [1.0, 0.0, -1.0]]))
    margin, weight, delta = np.array([1.0, -0.5, 0.0]), np.array([1.0, 2.0, 3.0]), 0.1
    for f in (np.array([0.2, 0.0, 0.9]), np.array([2.0, 0.0, 1.95]), np.array([0.95, 0.0, 0.6])):
        d = B @ f
        slack = np.array([1.0 - d[0], d[1] + 0.5, abs(d[2])])
        state = SmoothedHinge(ListedPairs(B, margin, weight), delta).at(f)
        assert_allclose(state.loss, weight @ smooth(slack, delta), rtol=1e-10)
        for k in range(3):
            e = 1e-6 * np.eye(3)[k]
            up, down = (SmoothedHinge(ListedPairs(B, margin, weight), delta).at(f + s * e).loss
                        for s in (1, -1))  # fmt: skip
            assert_allclose(state.gradient[k], (up - down) / 2e-6, atol=1e-5)


@pytest.mark.parametrize("alpha", [0.3, 30.0])
def test_the_hinge_is_a_linear_support_vector_machine_on_pairs(data, alpha):
    differences = np.array([data.X[i] - data.X[j] for i, j in pairs_of(data.y, data.qid)])
    rows, signs = np.vstack([differences, -differences]), np.repeat([1, -1], len(differences))
    peer = LinearSVC(
        C=1 / (4 * alpha), loss="hinge", fit_intercept=False, tol=1e-6, max_iter=200_000,
        random_state=0,
    )  # fmt: skip
    want = peer.fit(rows, signs).coef_[0]
    ranker = RankSVM(alpha, loss="hinge", weighting="pairs")
    found = ranker.fit(data.X, data.y, qid=data.qid).coef_

    def objective(w):
        return np.maximum(0, 1 - differences @ w).sum() + alpha * w @ w

    least = objective(want)
    assert objective(found) <= least + 0.5 * DELTAS[-1] * len(differences)
    assert_allclose(found, want, atol=0.02 * np.abs(want).max())


def test_all_rows_as_landmarks_are_the_kernel_machine(data):
    """With the coordinates of a Cholesky factor as features, the linear ranker is the same."""
    X, y, qid = data.X, data.y, data.qid
    ranker = RankSVM(0.5, landmarks=np.arange(len(X)), tol=1e-9, **KERNEL).fit(X, y, qid=qid)
    L = np.linalg.cholesky(rbf_kernel(X, gamma=0.3) + 1e-12 * np.eye(len(X)))
    want = RankSVM(0.5, tol=1e-9).fit(L, y, qid=qid).predict(L)
    found = ranker.predict(X)
    assert_allclose(found - found.mean(), want - want.mean(), atol=1e-4)
    assert ranker.dual_coef_.shape == (len(X),)
    assert not hasattr(ranker, "coef_")


@pytest.mark.parametrize("name", ["landmarks_", "landmark_indices_", "kernel_", "rank_"])
def test_attributes_of_kernels_that_the_linear_kernel_lacks(data, name):
    ranker = RankSVM()
    with pytest.raises(AttributeError, match=f"RankSVM has no {name} before fit"):
        getattr(ranker, name)
    ranker.fit(data.X, data.y, qid=data.qid)
    assert not hasattr(ranker, name)
    with pytest.raises(
        AttributeError, match=f'no {name} with kernel="linear". Its weights are coef_'
    ):
        getattr(ranker, name)


def test_a_kernel_ranks_what_a_line_cannot():
    rng = np.random.default_rng(0)
    X, qid = rng.uniform(-2, 2, (300, 2)), np.arange(300) // 10
    y = np.round(2 * np.cos(2 * X[:, 0]) * X[:, 1])
    linear = RankSVM().fit(X[:200], y[:200], qid=qid[:200])
    for settings in ({}, {"loss": "hinge", "alpha": 0.1}):
        curved = RankSVM(0.1, kernel="rbf", gamma=1.0, n_landmarks=80, random_state=0)
        curved.set_params(**settings).fit(X[:200], y[:200], qid=qid[:200])
        new = X[200:], y[200:]
        assert curved.score(*new, qid=qid[200:]) > linear.score(*new, qid=qid[200:]) + 0.1


def test_paths_pairs_context_frames_and_sparse_rows(data, tmp_path):
    X, y, qid = data.X, data.y, data.qid
    ranker = RankSVM(landmarks=[0, 5, 9, 30], tol=1e-8, **KERNEL)
    path = ranker.path(X, y, [0.1, 10.0], qid=qid)
    alone = clone(ranker).set_params(alpha=10.0).fit(X, y, qid=qid)
    assert_allclose(path.predict(X)[1], alone.predict(X), rtol=1e-4, atol=1e-6)
    assert path.coefficients().shape == (2, 4)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert_allclose(clone(alone).fit(frame, y, qid=qid).predict(frame), alone.predict(X))
    rows = sp.csr_array(X)
    assert_allclose(clone(alone).fit(rows, y, qid=qid).predict(rows), alone.predict(X), rtol=1e-6)
    assert alone.predict(X.astype(np.float32)).dtype == np.float32
    weights = np.where(np.arange(len(X)) % 9 == 4, 0.0, 1.0)  # rows that are no landmarks
    part = clone(alone).fit(X, y, qid=qid, sample_weight=weights)
    want = RankSVM(10.0, landmarks=X[[0, 5, 9, 30]], tol=1e-8, **KERNEL)
    want.fit(X[weights > 0], y[weights > 0], qid=qid[weights > 0])
    assert_allclose(part.predict(X), want.predict(X), rtol=1e-5, atol=1e-7)
    assert part.landmark_indices_.tolist() == [0, 5, 9, 30]
    context = np.linspace(-1, 1, 6)[:, None]
    pairs = [[0, 1], [2, 3], [4, 5], [1, 6], [7, 2], [8, 3]]
    compared = clone(alone).fit_pairs(X, pairs, context=context)
    assert compared.context_coef_.shape == (1,)
    loaded = load_model(save_model(compared, tmp_path / "svm.rankwise"))
    assert_allclose(loaded.predict(X), compared.predict(X))
    assert loaded.rank_ == 4


def test_gamma_may_follow_the_data_and_kernels_be_objects(data):
    X, y, qid = data.X, data.y, data.qid
    gamma = 1 / (3 * X.var())
    scaled = RankSVM(kernel="rbf", gamma="scale", landmarks=[1, 2]).fit(X, y, qid=qid)
    named = RankSVM(kernel="rbf", gamma=gamma, landmarks=[1, 2]).fit(X, y, qid=qid)
    object_ = RankSVM(kernel=RBF(np.sqrt(0.5 / gamma)), landmarks=[1, 2]).fit(X, y, qid=qid)
    assert_allclose(scaled.predict(X), named.predict(X), rtol=1e-6)
    assert_allclose(object_.predict(X), named.predict(X), rtol=1e-6)
    assert scaled.gamma_ == pytest.approx(gamma)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"loss": "log"}, "loss must be one of squared_hinge, hinge"),
        ({"n_landmarks": 5}, 'Landmarks are for kernels other than "linear"'),
        ({"kernel": "precomputed"}, "RankSVM computes kernels of features"),
        ({"kernel": "rbff"}, "Did you mean 'rbf'"),
        ({"kernel": "rbf", "n_landmarks": 1000}, "n_landmarks=1000 is more than the 80 rows"),
        ({"kernel": "rbf", "landmarks": "best"}, "landmarks must be one of random"),
    ],
)
def test_wrong_parameters(data, parameters, words):
    with pytest.raises(ParameterError, match=words):
        RankSVM(**parameters).fit(data.X, data.y, qid=data.qid)
