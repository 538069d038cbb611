"""Feature numbers that are hashes: the same models as of features 1, 2, 3, ..."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.pipeline import make_pipeline

from rankwise import RankRLS, SeenFeatures, load_model, save_model
from rankwise.data import read_letor, write_letor

HASHES = np.array([3, 1_000_003, 77_777_777, 1_500_000_000, 2**31 - 2, 2**31 - 1])


@pytest.fixture(scope="module")
def hashed(files, tmp_path_factory):
    """The same rows with other feature numbers; the test rows have two features more."""
    folder = tmp_path_factory.mktemp("hashed")
    for path in files:
        data = read_letor(path, layout="sparse")
        rows = data.X.tocoo()
        row, column, value = rows.row, HASHES[rows.col] - 1, rows.data
        if path == files.test:
            row = np.concatenate((row, [0, 1]))
            column, value = np.concatenate((column, [11, 2**30])), np.concatenate((value, [5, 7]))
        X = sparse.csr_array((value, (row, column)), shape=(len(data.y), 2**31 - 1))
        write_letor(folder / path.name, X, data.y, data.qid)
    return type(files)(*(folder / path.name for path in files))


def scores(run, model, path):
    return [float(line) for line in run("predict", model, path).stdout.splitlines()]


@pytest.mark.parametrize(
    "command",
    [
        ["fit"],
        pytest.param(["fit", "--model", "ranksvm"], marks=pytest.mark.slow),
        ["fit", "--kernel", "rbf", "--set", "gamma=0.5", "--alpha", 1],
        pytest.param(
            ["tune", "--alphas", "0.1,10", "--scale", "query-minmax"],
            marks=[pytest.mark.slow, pytest.mark.ci],
        ),
    ],
)
def test_models_are_those_of_numbered_features(files, hashed, run, tmp_path, command):
    plain, model = tmp_path / "plain.rankwise", tmp_path / "hashed.rankwise"
    run(command[0], files.train, *command[1:], "-o", plain)
    said = run(command[0], hashed.train, *command[1:], "-o", model).stderr
    assert "has feature numbers up to 2,147,483,647: the model keeps the 6 that occur" in said
    want = scores(run, plain, files.test)
    assert_allclose(scores(run, model, hashed.test), want, rtol=1e-6, atol=1e-9)


def test_rankers_on_landmarks_hold_the_rows_in_memory(hashed, run, tmp_path):
    model = tmp_path / "model.rankwise"
    run("fit", hashed.train, "--model", "sparse-rankrls", "--set", "n_landmarks=8", "-o", model)
    assert load_model(model).steps[1][1].landmarks_.shape == (8, 6)
    assert len(scores(run, model, hashed.test)) == len(read_letor(hashed.test).y)


def test_tuning_refits_linear_models_of_many_features(hashed, run, tmp_path, monkeypatch):
    for name in ("DIRECT_SECONDS", "TYPICAL_STEPS"):
        monkeypatch.setattr(f"rankwise.problem.spaces.{name}", 0.0)
    model = tmp_path / "model.rankwise"
    said = run("tune", hashed.train, "--alphas", "0.1,10", "-o", model)
    assert "5 folds of whole queries" in said.stdout + said.stderr
    assert load_model(model).steps[1][1].solver_ == "cg"


def test_alpha_is_chosen_on_a_validation_file(files, hashed, run, tmp_path):
    options = ["--alphas", "0.1,100", "--valid"]
    want = run("fit", files.train, *options, files.valid, "-o", tmp_path / "plain.rankwise")
    got = run("fit", hashed.train, *options, hashed.valid, "-o", tmp_path / "hashed.rankwise")
    assert got.stdout == want.stdout
    assert "do not occur" not in got.stderr
    said = run("fit", hashed.train, *options, hashed.test, "-o", tmp_path / "other.rankwise").stderr
    assert f"2 of the 8 feature numbers in {hashed.test} do not occur" in said


def test_a_model_file_stores_the_features_that_occur(hashed, run, tmp_path):
    model = tmp_path / "model.rankwise"
    run("fit", hashed.train, "--alpha", 1, "-o", model)
    assert model.stat().st_size < 50_000
    seen, ranker = (step for _, step in load_model(model).steps)
    assert isinstance(seen, SeenFeatures)
    assert (seen.columns_ == HASHES - 1).all()
    assert ranker.coef_.shape == (6,)
    facts = json.loads(run("info", model, "--json").stdout)
    assert facts["features"] == 2**31 - 1
    assert facts["features that occur"] == 6
    said = run("evaluate", model, hashed.test).stderr
    assert f"2 of the 8 feature numbers in {hashed.test} do not occur in the training rows" in said


def test_auto_keeps_the_features_that_occur(hashed, run, tmp_path):
    model = tmp_path / "model.rankwise"
    run("auto", hashed.train, "--candidates", "linear", "--test", hashed.test, "-o", model)
    assert isinstance(load_model(model).steps[0][1], SeenFeatures)
    assert len(scores(run, model, hashed.test)) == len(read_letor(hashed.test).y)


def test_a_file_without_any_known_feature_is_refused(hashed, run, tmp_path):
    model, other = tmp_path / "model.rankwise", tmp_path / "other.txt"
    run("fit", hashed.train, "--alpha", 1, "-o", model)
    other.write_text("1 qid:1 12:1\n0 qid:1 13:1\n")
    message = run("predict", model, other, ok=False)
    assert message.startswith(f"None of the 2 feature numbers in {other} occurs in the training")


def test_a_model_of_few_features_reads_dense_rows(run, tmp_path):
    X, y = np.array([[0.0, 1.0, 2.0], [0.0, 3.0, 1.0], [0.0, 2.0, 4.0]]), [0, 1, 2]
    model, rows = tmp_path / "model.rankwise", tmp_path / "rows.txt"
    ranker = make_pipeline(SeenFeatures(), RankRLS(1.0)).fit(X, y)
    save_model(ranker, model)
    rows.write_text("1 qid:1 1:5 2:1 3:1\n0 qid:1 1:6 2:2 3:1\n")
    assert_allclose(scores(run, model, rows), ranker.predict([[5, 1, 1], [6, 2, 1]]))
    assert "1 of the 3 feature numbers" in run("predict", model, rows).stderr


def test_numbers_beyond_32_bits_are_refused(run, tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("1 qid:1 2147483648:1\n0 qid:1 3:1\n")
    message = run("fit", path, "-o", tmp_path / "model.rankwise", ok=False)
    assert f"{path}, line 1" in message
    assert "2147483647" in message
    for command in ("fit", "tune"):
        message = run(command, path, "--features", 2**31, "-o", tmp_path / "m.rankwise", ok=False)
        assert "2147483647" in message
