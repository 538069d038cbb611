"""Fits of the bilinear ranker that are stopped, killed, recorded and resumed."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rankwise import SparseBilinearRanker
from rankwise.errors import DataError, ModelFileError
from tests.bilinear.texts import ranker, texts, texts_and_triplets


@pytest.fixture(scope="module")
def problem():
    return texts_and_triplets()


@pytest.mark.parametrize("stop", [60, 399, 401])
@pytest.mark.parametrize("density", [None, 0.4])
def test_a_fit_resumes_from_a_checkpoint_bit_for_bit(problem, tmp_path, monkeypatch, stop, density):
    X, labels, _ = problem
    how = {"alpha": None if density else 2e-3, "target_density": density}
    want = ranker(**how).fit_classes(X, labels)
    path = tmp_path / "run.npz"
    from rankwise.bilinear.bilinear_training import FitCheckpoint

    saves = []
    save = FitCheckpoint.save

    class Stop(Exception):
        pass

    def interrupted(self, note, arrays):
        save(self, note, arrays)
        saves.append(int(arrays["step"]) + (400 if note["stage"] == "refit" else 0))
        if saves[-1] >= stop and len(saves) < 1000:
            raise Stop

    monkeypatch.setattr(FitCheckpoint, "save", interrupted)
    with pytest.raises(Stop):
        ranker(**how).fit_classes(X, labels, checkpoint=path, checkpoint_every=30)
    monkeypatch.setattr(FitCheckpoint, "save", save)
    resumed = ranker(**how).fit_classes(X, labels, checkpoint=path, checkpoint_every=30)
    assert_array_equal(resumed.coef_.data, want.coef_.data)
    assert_array_equal(resumed.coef_.indices, want.coef_.indices)
    assert resumed.alpha_ == want.alpha_
    for name, values in want.refit_curve_.items():
        assert_array_equal(resumed.refit_curve_[name], values)
    again = ranker(**how).fit_classes(X, labels, checkpoint=path)
    assert_array_equal(again.coef_.data, want.coef_.data)


KILLED = """
import os
import signal
import sys
import numpy as np
from rankwise import SparseBilinearRanker

saves, savez = 0, np.savez

def killed(file, **arrays):
    global saves
    saves += 1
    if saves < 3:
        return savez(file, **arrays)
    file.write(b"PK and no more")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)

np.savez = killed
folder = sys.argv[1]
X, labels = np.load(folder + "/X.npy"), np.load(folder + "/labels.npy")
ranker = SparseBilinearRanker(alpha=1e-4, n_iter=5000, eta0=5.0, random_state=3)
ranker.fit_classes(X, labels, checkpoint=folder + "/run.npz", checkpoint_every=1000)
"""


@pytest.mark.slow
def test_a_killed_run_ends_where_it_would_have(tmp_path):
    """SIGKILL while a checkpoint is written: the one before it is still there."""
    X, labels = texts(200, 40, 5)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "labels.npy", labels)
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    path = tmp_path / "run.npz"
    with np.load(path) as saved:
        assert saved["step"] == 2000
    how = {"alpha": 1e-4, "n_iter": 5000, "eta0": 5.0, "random_state": 3}
    resumed = SparseBilinearRanker(**how).fit_classes(X, labels, checkpoint=path)
    want = SparseBilinearRanker(**how).fit_classes(X, labels)
    assert_array_equal(resumed.coef_.data, want.coef_.data)
    assert_array_equal(resumed.coef_.indices, want.coef_.indices)
    assert_array_equal(resumed.coef_.indptr, want.coef_.indptr)


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
    with pytest.raises(ModelFileError, match="damaged or not a checkpoint"):
        ranker().fit_classes(X, labels, checkpoint=tmp_path / "array.npy")
    path.write_bytes(b"PK nonsense")
    with pytest.raises(ModelFileError, match="damaged or not a checkpoint"):
        ranker().fit_classes(X, labels, checkpoint=path)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("step", (), -1),
        ("step", (), 10**12),  # of 400
        ("cols", 0, 10**6),
        ("cols", 0, -1),
        ("cols", slice(None), 0),  # twice in a row
        ("indptr", 3, 10**12),
        ("indptr", 3, -1),
        ("sums", (0, 0), np.nan),
        ("sums", (0, -1), 10**12),  # a step that has not come yet
        ("rates", 0, np.inf),
    ],
)
@pytest.mark.parametrize("n_words", [12, 200])  # rows are vectors, or compact
def test_a_checkpoint_with_impossible_values_is_refused(tmp_path, n_words, name, place, value):
    """Compiled code would read or write outside of its arrays."""
    X, labels = texts(n_words=n_words)
    path = tmp_path / "run.npz"
    ranker(refit=False).fit_classes(X, labels, checkpoint=path)
    with np.load(path) as file:
        members = dict(file)
    members[name][place] = value
    np.savez(path, **members)
    with pytest.raises(ModelFileError, match=f"damaged: (it is at )?{name} "):
        ranker(refit=False).fit_classes(X, labels, checkpoint=path)


def test_a_checkpoint_without_a_member_is_refused(problem, tmp_path):
    X, labels, _ = problem
    path = tmp_path / "run.npz"
    ranker().fit_classes(X, labels, checkpoint=path)
    with np.load(path) as file:
        members = dict(file)
    assert {"note", "sums", "vals", "step"} <= members.keys()
    for left_out in members:
        np.savez(path, **{name: members[name] for name in members if name != left_out})
        with pytest.raises(ModelFileError, match="damaged"):
            ranker().fit_classes(X, labels, checkpoint=path)


@pytest.mark.parametrize(
    ("name", "value"), [("lam", "fit"), ("eta0", -1), ("seed", None), ("trials", {}), ("stage", 1)]
)
def test_a_damaged_note_is_refused(problem, tmp_path, name, value):
    X, labels, _ = problem
    path = tmp_path / "run.npz"
    ranker().fit_classes(X, labels, checkpoint=path)
    with np.load(path) as file:
        members = dict(file)
    members["note"] = np.array(json.dumps({**json.loads(str(members["note"])), name: value}))
    np.savez(path, **members)
    with pytest.raises(ModelFileError, match=f"{name} is missing, or has impossible values"):
        ranker().fit_classes(X, labels, checkpoint=path)


def test_a_checkpoint_of_another_version_is_refused(problem, tmp_path, monkeypatch):
    X, labels, _ = problem
    path = tmp_path / "run.npz"
    with monkeypatch.context() as older:
        older.setattr("rankwise.bilinear.bilinear_training.FORMAT", 1)
        ranker().fit_classes(X, labels, checkpoint=path)
    with pytest.raises(ModelFileError, match=r"another version of rankwise \(format 1"):
        ranker().fit_classes(X, labels, checkpoint=path)


def test_records_and_checkpoints_change_nothing(problem, tmp_path):
    X, labels, _ = problem
    want = ranker().fit_classes(X, labels)
    recorded = ranker(record_every=13).fit_classes(X, labels)
    kept = ranker().fit_classes(X, labels, checkpoint=tmp_path / "run.npz", checkpoint_every=29)
    for one in (recorded, kept):
        assert_array_equal(one.coef_.toarray(), want.coef_.toarray())
