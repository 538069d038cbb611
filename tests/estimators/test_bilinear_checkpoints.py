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
from rankwise.solvers.bilinear.step_arrays import ROW
from tests.bilinear_texts import ranker, texts, texts_and_triplets


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
    from rankwise.estimators.bilinear.fit_checkpoint import FitCheckpoint

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
    ("name", "value", "words"),
    [("rows", 10**12, "rows has values"), ("vals", None, "vals must have shape")],
)
def test_a_damaged_checkpoint_is_refused(problem, tmp_path, name, value, words):
    X, labels, _ = problem
    path = tmp_path / "run.npz"
    ranker().fit_classes(X, labels, checkpoint=path)
    with np.load(path) as file:
        members = dict(file)
    members[name] = members[name] * 0 + value if value else np.zeros(0)
    np.savez(path, **members)
    with pytest.raises(ModelFileError, match=f"The saved state is damaged: {words}"):
        ranker().fit_classes(X, labels, checkpoint=path)


@pytest.mark.parametrize(
    "how", [{}, {"structure": "dense", "alpha": None}, {"schedule": "adagrad", "penalty": "rows"}]
)
def test_whole_numbers_of_10_to_the_12_are_refused(problem, tmp_path, how):
    """A checkpoint with ``rows["start"][:] = 10**12`` ended the process once."""
    X, labels, _ = problem
    path, tampered = tmp_path / "run.npz", tmp_path / "tampered.npz"
    how = {"refit": False, "n_iter": 40, **how}
    ranker(**how).fit_classes(X, labels, checkpoint=path)
    with np.load(path) as file:
        members = dict(file)
    whole = {name for name, array in members.items() if array.dtype.kind == "i"}
    assert whole == {"step", "rows", "cols", "sizes"}
    fields = [("rows", name) for name in ROW.names if ROW[name].kind == "i"]
    assert ("rows", "start") in fields
    for name, field in [("step", None), ("cols", None), ("sizes", None), *fields]:
        array = members[name].copy()
        part = array.view(ROW)[field] if field else array
        if part.size:
            part[...] = min(10**12, np.iinfo(array.dtype).max)
            np.savez(tampered, **{**members, name: array})
            with pytest.raises(ModelFileError, match=f"damaged.* {name} "):
                ranker(**how).fit_classes(X, labels, checkpoint=tampered)


@pytest.mark.parametrize(
    ("n_words", "field", "value"),
    [
        (12, "start", 10**12),  # a vector
        (12, "room", -2),
        (200, "start", 10**12),  # a compact row
        (200, "start", -(10**12)),
        (200, "start", None),  # where another one begins
        (200, "room", 10**12),
        (200, "length", 10**12),
        (200, "length", -1),
    ],
)
def test_one_row_outside_of_the_arrays_is_refused(tmp_path, n_words, field, value):
    X, labels = texts(n_words=n_words)
    path = tmp_path / "run.npz"
    ranker(refit=False).fit_classes(X, labels, checkpoint=path)
    with np.load(path) as file:
        members = dict(file)
    rows = members["rows"].view(ROW).ravel()
    some = np.flatnonzero(rows["room"] == -1 if n_words == 12 else rows["room"] > 0)
    assert len(some) > 1
    last = some[np.argmax(rows["start"][some])]  # it overlaps none of the others
    other = some[some != last][0]
    rows[field][last] = rows[field][other] if value is None else value
    np.savez(path, **members)
    with pytest.raises(ModelFileError, match="damaged: rows has values outside"):
        ranker(refit=False).fit_classes(X, labels, checkpoint=path)


def test_a_checkpoint_without_a_member_is_refused(problem, tmp_path):
    X, labels, _ = problem
    path = tmp_path / "run.npz"
    ranker().fit_classes(X, labels, checkpoint=path)
    with np.load(path) as file:
        members = dict(file)
    assert {"note", "rows", "vals", "step"} <= members.keys()
    for left_out in members:
        np.savez(path, **{name: members[name] for name in members if name != left_out})
        with pytest.raises(ModelFileError, match=f"damaged.*{left_out}"):
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
        older.setattr("rankwise.estimators.bilinear.fit_checkpoint.FORMAT", 1)
        ranker().fit_classes(X, labels, checkpoint=path)
    with pytest.raises(ModelFileError, match=r"another version of rankwise \(format 1"):
        ranker().fit_classes(X, labels, checkpoint=path)


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
