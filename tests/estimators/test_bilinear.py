"""SparseBilinearRanker: what it learns, what it keeps, and what it refuses."""

import copy
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from rankwise import SparseBilinearRanker, load_model, save_model
from rankwise.errors import DataError, ModelFileError, ParameterError, RankwiseWarning
from tests.oracles.bilinear import naive_scores, naive_sgd

WORDS = np.array([f"w{k}" for k in range(12)])


def texts(n=60, n_words=12, n_classes=3, seed=0):
    """Rows of a class share words, and each class has synonyms that never meet in a row."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    X = np.zeros((n, n_words))
    for k, label in enumerate(labels):
        own = 4 * label + rng.choice(4, 2, replace=False)
        X[k, own % n_words] = 1.0
        X[k, rng.integers(n_words)] += 0.5
    return X / np.linalg.norm(X, axis=1, keepdims=True), labels


@pytest.fixture(scope="module")
def problem():
    X, labels = texts()
    rng = np.random.default_rng(1)
    triplets = []
    while len(triplets) < 300:
        q, a, b = rng.integers(len(X), size=3)
        if q != a and labels[q] == labels[a] != labels[b]:
            triplets.append((q, a, b))
    return X, labels, np.array(triplets)


def ranker(**parameters):
    settings = {"alpha": 2e-3, "n_iter": 400, "eta0": 2.0, "shrink_every": 7, "random_state": 0}
    return SparseBilinearRanker(**{**settings, **parameters})


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
        {"dtype": "float32"},
        {"n_jobs": 2},
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
    assert fitted.score(new, new, rows) > 0.95 > 0.9 > cosine.score(new, new, rows)


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
    X, labels, _ = problem
    fitted = SparseBilinearRanker(structure="identity").fit_classes(X, labels)
    assert_allclose(fitted.score_all(X, X), X @ X.T)
    assert fitted.n_iter_ == 0


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_matrix, pd.DataFrame])
def test_scores(problem, container):
    X, _, triplets = problem
    fitted = ranker().fit(container(X), container(X), triplets)
    want = naive_scores(fitted.coef_.toarray(), X, X)
    assert_allclose(fitted.score_all(container(X), container(X)), want, atol=1e-12)
    assert_allclose(fitted.predict(container(X), container(X)), np.diag(want), atol=1e-12)
    rows, scores = fitted.rank(X[3], container(X), 5)
    assert_allclose(scores, -np.sort(-want[3])[:5], atol=1e-12)
    assert_allclose(want[3][rows], scores, atol=1e-12)
    q, a, b = triplets.T
    assert fitted.score(X, X, triplets) == np.mean(want[q, a] > want[q, b])


def test_scores_come_in_blocks(problem, monkeypatch):
    X, _, triplets = problem
    fitted = ranker().fit(X, X, triplets)
    whole = fitted.score_all(X, X)
    monkeypatch.setattr("rankwise.estimators._bilinear_model.BLOCK_BYTES", 700)
    assert_array_equal(fitted.score_all(X, X), whole)
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
    related = fitted.related_features("w2", 3)
    best = np.argsort(-np.abs(W[2]), kind="stable")[:3]
    assert [name for name, _ in related] == [f"w{j}" for j in best]
    assert_allclose([weight for _, weight in related], W[2, best])
    assert fitted.related_features(2, 3) == related
    pairs = fitted.explain(X[0], X[4], 1000)
    assert_allclose(sum(value for *_, value in pairs), fitted.predict(X[:1], X[4:5])[0])
    first, second, value = pairs[0]
    i, j = int(first[1:]), int(second[1:])
    assert_allclose(value, X[0, i] * W[i, j] * X[4, j])
    assert abs(value) == max(abs(value) for *_, value in pairs)
    unnamed = ranker().fit(X, X, triplets)
    assert unnamed.explain(X[0], sp.csr_array(X[4:5]), 1)[0][:2] == (i, j)


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


def test_a_stream_goes_on_after_a_file(problem, tmp_path):
    X, _, triplets = problem
    stream = ranker(refit=False).partial_fit(X, X, triplets[:100])
    loaded = load_model(save_model(stream, tmp_path / "model.skops"))
    copied = copy.deepcopy(stream)
    for one in (stream, loaded, copied):
        one.partial_fit(X, X, triplets[100:])
    assert_array_equal(loaded.coef_.data, stream.coef_.data)
    assert_array_equal(copied.coef_.data, stream.coef_.data)


def test_model_files(problem, tmp_path):
    X, _, triplets = problem
    fitted = ranker().fit(X, X, triplets, query_names=WORDS, held_out=triplets[:9])
    same = load_model(save_model(fitted, tmp_path / "model.skops"))
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


def test_a_density_that_cannot_be_had_warns(problem, monkeypatch):
    X, _, triplets = problem
    monkeypatch.setattr("rankwise.solvers.bilinear.run.MAX_TRIALS", 3)
    with pytest.warns(RankwiseWarning, match="No alpha was found whose density is 1"):
        ranker(alpha=None, target_density=1.0, n_iter=3, shrink_every=1).fit(X, X, triplets)


def test_a_search_that_gives_up_uses_the_nearest_alpha():
    X = np.eye(4)[[0, 0, 1, 1]]  # a step changes two entries at once, always the same ones
    how = {"target_density": 0.9, "alpha": None, "init": "zeros", "n_iter": 40, "refit": False}
    with pytest.warns(RankwiseWarning, match="the nearest in .* fits .* No more entries"):
        fitted = ranker(**how).fit_classes(X, [0, 0, 1, 1])
    nearest = max(fitted.learning_curve_["density"])
    assert fitted.density_ == nearest == 4 / 16


def test_the_bar_shows_loss_density_and_speed(problem, capsys):
    X, labels, _ = problem
    ranker(verbose=True).fit_classes(X, labels)
    shown = capsys.readouterr().err
    assert "loss" in shown
    assert "density" in shown
    assert "steps/s" in shown
    assert "refit" in shown


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


@pytest.mark.parametrize("stop", [1, 60, 399, 401, 799])
@pytest.mark.parametrize("density", [None, 0.4])
def test_a_checkpoint_is_gone_on_with_bit_for_bit(problem, tmp_path, monkeypatch, stop, density):
    X, labels, _ = problem
    how = {"alpha": None if density else 2e-3, "target_density": density}
    want = ranker(**how).fit_classes(X, labels)
    path = tmp_path / "run.npz"
    from rankwise.estimators._checkpoint import Checkpoint

    saves = []
    save = Checkpoint.save

    class Stop(Exception):
        pass

    def interrupted(self, note, arrays):
        save(self, note, arrays)
        saves.append(int(arrays["step"]) + (400 if note["stage"] == "refit" else 0))
        if saves[-1] >= stop and len(saves) < 1000:
            raise Stop

    monkeypatch.setattr(Checkpoint, "save", interrupted)
    with pytest.raises(Stop):
        ranker(**how).fit_classes(X, labels, checkpoint=path, checkpoint_every=30)
    monkeypatch.setattr(Checkpoint, "save", save)
    resumed = ranker(**how).fit_classes(X, labels, checkpoint=path, checkpoint_every=30)
    assert_array_equal(resumed.coef_.data, want.coef_.data)
    assert_array_equal(resumed.coef_.indices, want.coef_.indices)
    assert resumed.alpha_ == want.alpha_
    for name, values in want.refit_curve_.items():
        assert_array_equal(resumed.refit_curve_[name], values)
    again = ranker(**how).fit_classes(X, labels, checkpoint=path)
    assert_array_equal(again.coef_.data, want.coef_.data)


KILLED = """
import sys
import numpy as np
from rankwise import SparseBilinearRanker
X, labels = np.load(sys.argv[1] + "/X.npy"), np.load(sys.argv[1] + "/labels.npy")
ranker = SparseBilinearRanker(alpha=1e-4, n_iter=400_000, eta0=5.0, random_state=3)
print("begin", flush=True)
ranker.fit_classes(X, labels, checkpoint=sys.argv[1] + "/run.npz", checkpoint_every=2000)
np.savez(sys.argv[1] + "/coef.npz", ranker.coef_.data, ranker.coef_.indices, ranker.coef_.indptr)
"""


def test_a_killed_run_ends_where_it_would_have(tmp_path):
    """SIGKILL at a random moment, more than once; what is left is never half a file."""
    X, labels = texts(200, 40, 5)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "labels.npy", labels)
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    rng = np.random.default_rng()
    kills = 0

    def stamp():
        path = tmp_path / "run.npz"
        return path.stat().st_mtime_ns if path.exists() else None

    for _ in range(3):
        before = stamp()
        run = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert run.stdout.readline() == b"begin\n"
        deadline = time.monotonic() + 60
        while stamp() == before and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(rng.uniform(0.0, 0.4))
        run.send_signal(signal.SIGKILL)
        run.stdout.close()
        kills += run.wait() == -signal.SIGKILL
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert kills
    want = SparseBilinearRanker(alpha=1e-4, n_iter=400_000, eta0=5.0, random_state=3)
    want.fit_classes(X, labels)
    with np.load(tmp_path / "coef.npz") as coef:
        assert_array_equal(coef["arr_0"], want.coef_.data)
        assert_array_equal(coef["arr_1"], want.coef_.indices)
        assert_array_equal(coef["arr_2"], want.coef_.indptr)


def test_without_a_seed_the_checkpoint_keeps_one(problem, tmp_path):
    X, labels, _ = problem
    first = ranker(random_state=None).fit_classes(X, labels, checkpoint=tmp_path / "run.npz")
    rng = np.random.default_rng(9)
    again = ranker(random_state=rng).fit_classes(X, labels, checkpoint=tmp_path / "run.npz")
    assert_array_equal(first.coef_.data, again.coef_.data)


def test_a_checkpoint_of_something_else_is_refused(problem, tmp_path):
    X, labels, _ = problem
    path = tmp_path / "run.npz"
    ranker().fit_classes(X, labels, checkpoint=path)
    with pytest.raises(DataError, match="other data or with other parameters"):
        ranker(eta0=3.0).fit_classes(X, labels, checkpoint=path)
    with pytest.raises(DataError, match="other data or with other parameters"):
        ranker().fit_classes(X[:-1], labels[:-1], checkpoint=path)
    for seed in (1, np.int64(1)):
        with pytest.raises(DataError, match="other data or with other parameters"):
            ranker(random_state=seed).fit_classes(X, labels, checkpoint=path)
    ranker(random_state=np.int64(0)).fit_classes(X, labels, checkpoint=path)
    np.save(tmp_path / "array.npy", X)
    with pytest.raises(ModelFileError, match="damaged or no checkpoint"):
        ranker().fit_classes(X, labels, checkpoint=tmp_path / "array.npy")
    path.write_bytes(b"PK nonsense")
    with pytest.raises(ModelFileError, match="damaged or no checkpoint"):
        ranker().fit_classes(X, labels, checkpoint=path)


def begun():
    return ranker(refit=False).partial_fit(X6, X6, OK)


X6 = np.eye(4)[[0, 1, 2, 3, 0, 1]]
EMPTY = np.vstack([X6, np.zeros(4)])
OK = [[0, 1, 2]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ranker().fit(X6, X6, [[0, 1, 6]]), r"6 is no row of D, which has rows 0 to 5"),
        (lambda: ranker().fit(X6, X6, [[-1, 1, 2]]), "-1 is no row of Q"),
        (lambda: ranker().fit(X6, X6, [[0, 1, 1]]), "prefers document 1 to itself"),
        (lambda: ranker().fit(X6, X6, [[0.0, 1.0, 2.0]]), "whole numbers: got float64"),
        (lambda: ranker().fit(X6, X6, [[0, 1]]), r"got shape \(1, 2\)"),
        (lambda: ranker().fit(X6, X6, np.empty((0, 3), int)), "at least one"),
        (lambda: ranker().fit(EMPTY, X6, [[6, 1, 2]]), "Query 6 in triplets.0. has no features"),
        (lambda: ranker().fit(X6, EMPTY, [[0, 1, 6]]), "Document 6 in triplets.0. has no features"),
        (lambda: ranker().fit(X6, X6, OK, held_out=[[0, 1, 9]]), "held_out.0. is"),
        (lambda: ranker().fit(X6, X6, OK, query_names=["a"]), "one name per feature: got 1 for 4"),
        (lambda: ranker().fit_classes(EMPTY, [0, 1] * 3 + [0]), "Row 6 of X has no features"),
        (lambda: ranker().fit_classes(X6, [0] * 6), "one class only"),
        (lambda: ranker().fit_classes(X6, range(6)), "a class of its own"),
        (lambda: ranker().fit_classes(X6, [0, 1]), "one entry per row"),
        (lambda: ranker().fit_classes(X6, [0, 1] * 3, held_out=X6), "a tuple .X, labels."),
        (lambda: ranker().fit_graded(X6, X6, [0] * 6, [0] * 6), "No query has documents of diff"),
        (lambda: ranker().fit_graded(X6, X6, [0, 1] * 3, [7] * 6), "qid holds rows of Q"),
        (lambda: ranker().fit_graded(X6, X6, [0, 1], [0] * 6), "grades needs one entry per row"),
        (lambda: ranker().fit_graded(X6, X6, [0, np.nan] * 3, [0] * 6), "row 1 is not"),
        (lambda: ranker().fit(X6, X6, OK).predict(X6, X6[:, :3]), "use the same vocabulary"),
        (lambda: ranker().fit(X6, X6, OK).predict(X6, X6[:3]), "score_all takes all pairs"),
        (lambda: ranker().fit(X6, X6, OK).rank(X6, X6), "q is one row: got 6"),
        (lambda: begun().partial_fit(X6, X6[:, :3], OK), "use the same vocabulary"),
        (lambda: ranker().fit_graded(X6, X6, [0, 1] * 3, ["a"] * 6), "whole numbers: got <U1"),
        (lambda: ranker().fit_graded(X6, X6, list("abcdef"), [0] * 6), "grades must be numbers"),
        (lambda: ranker().fit_classes(X6, ["a", None] * 3), "labels must be all numbers or all te"),
        (lambda: ranker().fit(X6, X6, [[0, 1, 2], [0, 1]]), "entries of different lengths"),
        (
            lambda: ranker().fit_classes(X6, [0, 1] * 3, held_out=(EMPTY[[6, 6, 0]], [0, 0, 1])),
            "held_out labels of rows with a known word has one class",
        ),
        (lambda: ranker().fit(X6, X6, OK).rank("car", X6), "q is a row of numbers: got 'car'"),
        (lambda: ranker().fit(X6, X6, OK, query_names={"a": 0}), "get_feature_names_out"),
        (lambda: ranker().fit(X6, X6, OK, document_names=set("abcd")), "get_feature_names_out"),
        (lambda: ranker().fit(X6, X6, OK, checkpoint="no/such/run.npz"), "There is no folder"),
        (lambda: ranker().fit(X6, X6, OK, checkpoint="."), "cannot be written"),
    ],
)
def test_data_that_cannot_be_used(call, words):
    with pytest.raises(DataError, match=words):
        call()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"alpha": 0}, "alpha must be a finite number above 0: got 0"),
        ({"alpha": -1.0}, "alpha must be a finite number above 0"),
        ({"alpha": np.nan}, "alpha must be"),
        ({"target_density": 0.1}, "give one of them"),
        ({"alpha": None, "target_density": 0.0}, "target_density must be above 0 and at most 1"),
        ({"alpha": None, "target_density": 1.5}, "target_density must be"),
        ({"structure": "dense"}, 'alpha is for structure="sparse"'),
        ({"structure": "spares"}, "Did you mean 'sparse'"),
        ({"schedule": "sqrt"}, "schedule must be one of invsqrt, constant, adagrad"),
        ({"init": "ones"}, "init must be one of"),
        ({"dtype": "int8"}, "dtype must be one of"),
        ({"eta0": 0.0}, "eta0 must be"),
        ({"n_iter": 0}, "n_iter must be a whole number"),
        ({"shrink_every": 0}, "shrink_every must be"),
        ({"shrink_every": 401}, "alpha would have no effect"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"record_every": -1}, "record_every must be"),
        ({"random_state": "seed"}, "random_state must be None"),
        ({"random_state": -1}, "random_state must be None"),
        ({"structure": "identity", "alpha": None, "init": "zeros"}, 'init must be "identity"'),
    ],
)
def test_parameters_out_of_range(parameters, words):
    with pytest.raises(ParameterError, match=words):
        ranker(**parameters).fit(X6, X6, OK)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ranker().fit(X6, X6[:, :3] + 1, OK), 'Use init="zeros"'),
        (lambda: ranker().partial_fit(X6, X6, OK), "set refit=False"),
        (lambda: ranker(alpha=None, refit=False).partial_fit(X6, X6, OK), "give alpha"),
        (lambda: ranker(n_jobs=2, refit=False).partial_fit(X6, X6, OK), "Set n_jobs=1"),
        (lambda: ranker(n_iter=None).fit_classes(X6, [0, 1] * 3), "n_iter must say how many"),
        (lambda: ranker().fit(X6, X6, OK).related_features("car"), "without names"),
        (lambda: ranker().fit(X6, X6, OK, query_names="abcd").related_features("e"), "no query f"),
        (lambda: ranker().fit(X6, X6, OK).related_features(4), "from 0 to 3"),
    ],
)
def test_calls_that_cannot_be_answered(call, words):
    with pytest.raises(ParameterError, match=words):
        call()


def test_a_vocabulary_mismatch_of_queries_and_bad_values():
    fitted = ranker().fit(X6, X6, OK)
    with pytest.raises(ValueError, match="expecting 4 features"):
        fitted.predict(X6[:, :3], X6)
    with pytest.raises(ValueError, match="NaN"):
        fitted.predict(X6, np.where(X6, X6, np.nan))
    assert_array_equal(fitted.predict(np.zeros((2, 4)), X6[:2]), [0.0, 0.0])  # no known word


def test_a_dense_matrix_beyond_memory_is_refused_at_once(monkeypatch):
    monkeypatch.setattr("os.sysconf", lambda name: 4)
    with pytest.raises(ParameterError, match="Use structure='sparse'"):
        ranker(structure="dense", alpha=None).fit(X6, X6, OK)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8])
@pytest.mark.parametrize("schedule", ["invsqrt", "constant", "adagrad"])
def test_huge_and_tiny_values_stay_finite(problem, scale, schedule):
    X, labels, _ = problem
    fitted = ranker(schedule=schedule).fit_classes(scale * X, labels)
    assert np.isfinite(fitted.coef_.data).all()
    assert np.isfinite(fitted.score_all(scale * X, X)).all()


@pytest.mark.parametrize(("scale", "dtype"), [(1e155, "float64"), (1e20, "float32")])
@pytest.mark.parametrize("init", ["identity", "zeros"])
def test_an_overflow_is_said(problem, scale, dtype, init):
    X, labels, triplets = problem
    fitted = ranker(dtype=dtype, init=init)
    with pytest.raises(DataError, match="W overflowed: scale rows to unit length"):
        fitted.fit_classes(scale * X, labels)
    stream = ranker(dtype=dtype, init=init, refit=False).partial_fit(X, X, triplets)
    with pytest.raises(DataError, match="W overflowed"):
        stream.partial_fit(scale * X, scale * X, triplets[:, [0, 2, 1]])
    for one in (fitted, stream):
        with pytest.raises(NotFittedError):
            one.predict(X, X)


def test_a_fit_that_fails_leaves_nothing_fitted(problem):
    X, labels, triplets = problem
    wide = np.hstack([X, X])
    for fail in (
        lambda one: one.fit(wide, wide, [[0, 1, 1]]),
        lambda one: one.fit_classes(wide, labels[:-1]),
        lambda one: one.fit_graded(wide, wide, labels[:-1], labels),
        lambda one: one.set_params(refit=False).partial_fit(wide, wide, [[0, 1, 1]]),
    ):
        fitted = ranker().fit(X, X, triplets)
        with pytest.raises(DataError):
            fail(fitted)
        for rows in (X, wide):
            with pytest.raises(NotFittedError):
                fitted.predict(rows, rows)
    stream = ranker(refit=False).partial_fit(X, X, triplets)
    before = stream.coef_.toarray()
    with pytest.raises(ValueError, match="expecting 12 features"):
        stream.partial_fit(wide, wide, triplets)
    assert_array_equal(stream.coef_.toarray(), before)


@pytest.mark.parametrize(
    "change",
    [{"n_jobs": 2}, {"alpha": 0.1}, {"dtype": "float32"}, {"structure": "dense", "alpha": None}],
)
def test_parameters_of_a_stream_stay(problem, change, tmp_path):
    X, _, triplets = problem
    began = {"alpha": 2e-3, "n_jobs": 1, "dtype": "float64", "structure": "sparse"}
    want = ranker(refit=False).partial_fit(X, X, triplets)
    stream = ranker(refit=False).partial_fit(X, X, triplets[:100]).set_params(**change)
    copied = copy.deepcopy(stream)
    loaded = load_model(save_model(stream, tmp_path / "model.skops"))
    for one in (stream, copied, loaded):
        with pytest.raises(ParameterError, match="This stream began with"):
            one.partial_fit(X, X, triplets[100:])
        one.set_params(**began).partial_fit(X, X, triplets[100:])
        assert_array_equal(one.coef_.data, want.coef_.data)


def test_after_a_fit_a_stream_starts_anew(problem):
    X, _, triplets = problem
    fitted = ranker(refit=False).fit(X, X, triplets).partial_fit(X, X, triplets[:50])
    want = ranker(refit=False).partial_fit(X, X, triplets[:50])
    assert_array_equal(fitted.coef_.toarray(), want.coef_.toarray())


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_records_and_checkpoints_change_nothing(problem, tmp_path, n_jobs):
    X, labels, _ = problem
    want = ranker(n_jobs=n_jobs).fit_classes(X, labels)
    recorded = ranker(n_jobs=n_jobs, record_every=13).fit_classes(X, labels)
    kept = ranker(n_jobs=n_jobs).fit_classes(
        X, labels, checkpoint=tmp_path / "run.npz", checkpoint_every=29
    )
    for one in (recorded, kept):
        assert_array_equal(one.coef_.toarray(), want.coef_.toarray())


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


def test_documents_with_other_columns_are_refused(problem):
    X, _, triplets = problem
    frame = pd.DataFrame(X, columns=WORDS)
    fitted = ranker().fit(frame, frame, triplets)
    assert 0 <= fitted.score(frame, frame, triplets) <= 1  # and no warning about names
    with pytest.raises(DataError, match="Column 0 of D is 'w11'"):
        fitted.predict(frame, frame[WORDS[::-1]])
