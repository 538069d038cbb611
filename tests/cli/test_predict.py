"""Scores, on stdout or in a file."""

import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

from rankwise import RankRLS, load_model, save_model
from rankwise.data import normalize_per_query, read_letor
from tests.model_files.make import FOLDER as MODEL_FILES


def test_scores_are_those_of_the_model_to_the_last_digit(files, run, model, tmp_path):
    out = tmp_path / "scores.txt"
    printed = run("predict", model, files.test).stdout
    written = run("predict", model, files.test, "--out", out)
    assert written.stdout == ""
    assert out.read_text() == printed
    data = read_letor(files.test)
    assert f"Wrote {out}: scores of {len(data.y)} rows." in " ".join(written.stderr.split())
    want = load_model(model).predict(data.X, qid=data.qid)
    assert_array_equal([float(line) for line in printed.splitlines()], want)


def test_scores_are_not_written_as_a_spreadsheet(files, run, model, tmp_path):
    assert "name it s.csv" in run("predict", model, files.test, "-o", tmp_path / "s.xlsx", ok=False)
    path = tmp_path / "table.xlsx"
    path.write_bytes(b"PK\3\4")
    assert "is a spreadsheet. Save the sheet as a CSV" in run("fit", path, "-o", "m", ok=False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sparse-bilinear", "SparseBilinearRanker, which scores pairs of a query and a document"),
        ("leaderboard", "Leaderboard, which scores named items"),
    ],
)
def test_models_that_do_not_score_rows_are_refused(run, tmp_path, name, message):
    rows = tmp_path / "rows.txt"
    rows.write_text("1 qid:1 1:1 2:2 3:3\n0 qid:1 1:2 2:1 3:4\n")
    table = tmp_path / "rows.csv"
    table.write_text("qid,label,a\n1,1,2\n1,0,1\n")
    model = MODEL_FILES / f"{name}.rankwise"
    for arguments in (
        ("predict", model, rows),
        ("evaluate", model, table),
        ("explain", model, table),
    ):
        said = run(*arguments, ok=False)
        assert said == f"The model is a {message}, not rows of a file: use predict in Python."
    run("card", model, "--out", tmp_path / "card.md")
    assert " on 0 features" not in (tmp_path / "card.md").read_text(encoding="utf-8")


def test_features_are_scaled_within_the_queries_of_the_file(files, run, model):
    result = run("predict", model, files.test)
    got = [float(line) for line in result.stdout.splitlines()]
    data, ranker = read_letor(files.test), load_model(model)
    assert_allclose(got, normalize_per_query(data.X, data.qid) @ ranker.coef_, rtol=1e-9)
    assert "Features: scaled to [0, 1] within each query (query-minmax)." in result.stderr


def test_trailing_zero_features_may_be_left_out(run, model, tmp_path):
    narrow = tmp_path / "narrow.txt"
    narrow.write_text("0 qid:1 1:0.5\n0 qid:1 2:0.25\n")
    result = run("predict", model, narrow, "--features", 6)
    assert "warning" not in result.stderr
    got = [float(line) for line in result.stdout.splitlines()]
    coef = load_model(model).coef_
    assert_allclose(got, coef[:2])  # as the largest values of the query are scaled to 1


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_file_with_fewer_features_than_the_model(run, model, tmp_path, command):
    narrow = tmp_path / "narrow.txt"
    narrow.write_text("0 qid:1 1:0.5\n1 qid:1 2:0.25\n")
    message = run(command, model, narrow, ok=False)
    assert f"{narrow} has only zeros beyond feature 2, but the model {model} has 6" in message
    assert "confirm it by --features 6" in message
    message = run(command, model, narrow, "--features", 2, ok=False)
    assert "--features is 2, but the model" in message
    assert "warning" not in run(command, model, narrow, "--features", 6).stderr
    half = tmp_path / "half.txt"
    half.write_text("0 qid:1 1:0.5\n1 qid:1 3:0.25\n")
    said = run(command, model, half).stderr
    assert f"rankwise: warning: {half} has only zeros beyond feature 3, but the model" in said


def test_more_features_than_the_model_has(run, model, tmp_path):
    wide = tmp_path / "wide.txt"
    wide.write_text("0 qid:1 1:0.5 77:1\n")
    message = run("predict", model, wide, ok=False)
    assert "feature 77, but the model" in message
    assert "has 6" in message


def test_a_model_with_several_outputs(run, tmp_path):
    data, path = tmp_path / "data.txt", tmp_path / "model.rankwise"
    data.write_text("0 1:0.5\n")
    save_model(RankRLS().fit([[0.0], [1.0]], [[0, 1], [1, 0]]), path)
    assert "returns 2 scores per row" in run("predict", path, data, ok=False)


@pytest.mark.parametrize("content", [b"", b"\x80\x04N.", b"PK\x05\x06" + 18 * b"\0"])
def test_a_file_that_is_not_a_model(files, run, tmp_path, content):
    path = tmp_path / "model.rankwise"
    path.write_bytes(content)
    assert "cannot be read as a model file" in run("predict", path, files.test, ok=False)


def test_data_in_the_place_of_a_model(files, run):
    message = run("predict", files.train, files.test, ok=False)
    assert "train.txt cannot be read as a model file of rankwise: it is not one" in message


def test_nothing_is_written_after_an_error(files, run, model, tmp_path):
    assert "no such folder" in run("predict", model, files.test, "-o", tmp_path / "no/f", ok=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.rankwise"]


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_file_without_query_ids(command, run, files, tmp_path):
    model, single = tmp_path / "m.rankwise", tmp_path / "single.txt"
    run("fit", files.train, "--out", model, "--scale", "query-ranks")
    rows = [line.split() for line in files.test.read_text(encoding="utf-8").splitlines()[:8]]
    single.write_text("\n".join(" ".join([label, *row]) for label, _, *row in rows) + "\n")
    result = run(command, model, single)
    assert result.stderr.count("no query ids: its rows are ranked together, unlike in") == 1


def test_a_first_step_that_passes_rows_through(run, tmp_path):
    """A search over scalers leaves "passthrough" where none is best."""
    rows = pd.DataFrame({"a": [0.1, 0.9, 0.4, 0.7], "b": [1.0, 3.0, 2.0, 0.5]})
    model = make_pipeline("passthrough", RankRLS(1.0)).fit(rows, [0, 2, 1, 1])
    save_model(model, tmp_path / "model")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    printed = run("predict", tmp_path / "model", tmp_path / "rows.csv").stdout
    assert_allclose([float(line) for line in printed.split()[1:]], model.predict(rows))
