"""Commands on tables: CSV, TSV and Parquet files with names of columns."""

import json
import re
from typing import get_args, get_type_hints

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from rankwise import load_model, save_model
from rankwise.cli import data_options
from rankwise.data import read_letor, read_table
from rankwise.data import table_files as formats
from rankwise.metrics import evaluate_ranking
from rankwise.preprocessing import TableEncoder
from rankwise.routing import predict_with_queries

ALPHA = ("--alpha", "1")


@pytest.fixture(scope="module")
def tables(files, tmp_path_factory):
    """The LETOR files of this folder as tables: a CSV, a TSV, and Parquet in another order."""
    folder = tmp_path_factory.mktemp("tables")
    for path in files:
        data = read_letor(path)
        frame = pd.DataFrame(data.X, columns=list("abcdef"))
        frame.insert(0, "qid", data.qid)
        frame.insert(3, "grade", data.y)
        frame["doc_id"] = [f"d{k}" for k in range(len(frame))]
        frame.to_csv(folder / f"{path.stem}.csv", index=False)
        frame.to_csv(folder / f"{path.stem}.tsv", index=False, sep="\t")
        frame["brand"] = np.where(np.arange(len(frame)) % 3, "acme", "zeta")
        frame.loc[::5, "b"] = None
        frame.to_csv(folder / f"{path.stem}-mixed.csv", index=False)
    frame = pd.read_csv(folder / "test.csv")
    frame[frame.columns[::-1]].to_parquet(folder / "test.parquet", index=False)
    return folder


def assert_metrics(shown, want):
    """The JSON of a command has the metrics of an evaluation in Python."""
    found = {name: entry["mean"] for name, entry in json.loads(shown)["metrics"].items()}
    assert found == pytest.approx(want.means)


def test_a_table_gives_the_model_of_the_same_letor_file(files, tables, run, tmp_path):
    run("fit", files.train, *ALPHA, "-o", tmp_path / "letor")
    said = run("fit", tables / "train.csv", *ALPHA, "-o", tmp_path / "table").stderr
    assert "query 'qid' (guessed); label 'grade' (guessed); id 'doc_id' (guessed)" in said
    one, two = (load_model(tmp_path / name) for name in ("letor", "table"))
    assert_allclose(one.coef_, two.coef_)
    assert list(two.feature_names_in_) == list("abcdef")
    for name in ("test.tsv", "test.parquet"):
        run("predict", tmp_path / "table", tables / name, "-o", tmp_path / f"{name}.csv")
    run("predict", tmp_path / "letor", files.test, "-o", tmp_path / "scores.txt")
    wanted = np.loadtxt(tmp_path / "scores.txt")
    for name in ("test.tsv", "test.parquet"):
        found = pd.read_csv(tmp_path / f"{name}.csv")
        assert list(found.columns) == ["doc_id", "qid", "score"]
        assert_allclose(found["score"], wanted)
        assert found["doc_id"].iloc[1] == "d1"
    data = read_letor(files.test)
    shown = run("evaluate", tmp_path / "table", tables / "test.parquet", "--json").stdout
    assert_metrics(shown, evaluate_ranking(data.y, wanted, data.qid))


@pytest.mark.parametrize("encode", ["onehot", "hashing"])
def test_encoding_and_imputation_are_part_of_the_model(encode, tables, run, tmp_path):
    model = tmp_path / "model"
    train, test = tables / "train-mixed.csv", tables / "test-mixed.csv"
    run("fit", train, *ALPHA, "--encode", encode, "--impute", "median", "-o", model)
    fitted = load_model(model)
    assert list(fitted.feature_names_in_) == [*"abcdef", "brand"]
    data = read_table(test, keep_text=True, keep_missing=True)
    run("predict", model, test, "-o", tmp_path / "scores.parquet")
    found = pd.read_parquet(tmp_path / "scores.parquet")
    assert_allclose(found["score"], predict_with_queries(fitted, data.X, data.qid))
    run("evaluate", model, test)
    line = run("evaluate", model, tables / "test.csv", ok=False)
    assert "lacks 1 feature of the model: brand" in line


@pytest.mark.parametrize("encode", ["onehot", "hashing"])
def test_numbers_where_the_model_encodes_text(encode, tables, run, tmp_path):
    model, numbers = tmp_path / "model", tmp_path / "numbers.csv"
    pd.read_csv(tables / "test-mixed.csv").assign(brand=1.5).to_csv(numbers, index=False)
    options = (tables / "train-mixed.csv", "--encode", encode, "--impute", "median", "-q")
    run("fit", *options, *ALPHA, "-o", model)
    message = "the column 'brand' has numbers, but the model was fitted to text there."
    assert message in run("predict", model, numbers, "-q", ok=False)
    wrong = run("fit", *options, "--valid", numbers, "--force", "-o", model, ok=False)
    assert message in wrong


@pytest.mark.filterwarnings("default:Found unknown categories")
def test_categories_that_are_new_are_told(tables, run, tmp_path):
    model, frame = tmp_path / "model", pd.read_csv(tables / "test-mixed.csv")
    frame["brand"] = "other"
    frame.to_csv(tmp_path / "new.csv", index=False)
    encode = ("--encode", "onehot", "--impute", "0")
    run("fit", tables / "train-mixed.csv", *ALPHA, *encode, "-o", model)
    said = run("predict", model, tmp_path / "new.csv", "-o", tmp_path / "s.jsonl").stderr
    assert "unknown categories" in said


def test_ids_that_scores_could_have_are_named(tables, run, tmp_path):
    run("fit", tables / "train.csv", *ALPHA, "-o", tmp_path / "model")
    frame = pd.read_csv(tables / "test.csv")
    others = frame.drop(columns="doc_id").assign(hotel_id=frame["doc_id"])
    for name, rows, is_named in (("old", frame, False), ("new", others, True)):
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
        said = run("predict", tmp_path / "model", tmp_path / f"{name}.csv").stderr
        assert ("To write ids with the scores, give --id hotel_id." in said) == is_named


def test_tune_and_a_validation_table(tables, run, tmp_path):
    train, options = tables / "train-mixed.csv", ("--ignore", "brand", "--impute", "mean")
    grid = ("--alphas", "0.1,10")
    said = run("tune", train, *options, *grid, "-o", tmp_path / "tuned")
    assert "left out: brand" in said.stderr
    assert [name for name, _ in load_model(tmp_path / "tuned").steps] == ["encode", "ranker"]
    valid = ("--valid", tables / "valid-mixed.csv")
    run("fit", train, *valid, *options, *grid, "-o", tmp_path / "chosen")
    run("compare", tmp_path / "tuned", tmp_path / "chosen", tables / "test-mixed.csv")
    line = run("fit", train, "--valid", tables / "t.txt", *options, "-o", tmp_path / "m", ok=False)
    assert "does not exist" in line


def test_tune_encodes_again_for_each_fold(tables, run, tmp_path, monkeypatch):
    frame = pd.read_csv(tables / "train-mixed.csv")
    frame["brand"] = [f"brand of {qid}" for qid in frame["qid"]]  # new in each fold
    frame.to_csv(tmp_path / "train.csv", index=False)
    seen, fit = [], TableEncoder.fit

    def counted(self, X, y=None):
        seen.append((len(X), X["brand"].nunique()))
        return fit(self, X, y)

    monkeypatch.setattr(TableEncoder, "fit", counted)
    options = ("--encode", "onehot", "--impute", "median", "--alphas", "1,10", "--folds", "2")
    said = run("tune", tmp_path / "train.csv", *options, "-o", tmp_path / "m").stderr
    whole = (len(frame), frame["qid"].nunique())
    assert seen.count(whole) == 2  # a check of the table, and the model
    assert sum(rows for rows, _ in seen if rows < len(frame)) == len(frame)
    assert "unknown" not in said
    assert "alpha" in said
    chosen = run("fit", tmp_path / "train.csv", *options[:4], "-o", tmp_path / "f").stderr
    assert "has seen all rows, also those held out" in chosen


def test_a_sparse_model_reads_a_table_block_by_block(tables, run, tmp_path):
    options = ("--model", "sparse-rankrls", "--set", "n_landmarks=9", *ALPHA)
    said = run("fit", tables / "train.csv", *options, "-o", tmp_path / "m").stderr
    assert "block by block" in said
    assert list(load_model(tmp_path / "m").feature_names_in_) == list("abcdef")
    run("evaluate", tmp_path / "m", tables / "test.tsv")


def test_info_prints_columns(tables, run):
    shown = run("info", tables / "train-mixed.csv").stdout
    assert "label (guessed)" in shown
    assert "2 different, such as 'zeta'" in shown
    assert "Missing option '--out'" in run("fit", tables / "train.csv", ok=False)


def test_the_label_may_be_a_feature_of_the_model(tables, run, tmp_path):
    run("fit", tables / "train.csv", *ALPHA, "-o", tmp_path / "m")
    shown = run("evaluate", tmp_path / "m", tables / "test.csv", "--label", "a", "--json").stdout
    frame = pd.read_csv(tables / "test.csv")
    scores = load_model(tmp_path / "m").predict(frame[list("abcdef")], qid=frame["qid"])
    assert_metrics(shown, evaluate_ranking(frame["a"], scores, frame["qid"]))


def test_info_of_a_table(tables, run):
    shown = run("info", tables / "train-mixed.csv").stdout
    assert "query (guessed)" in shown
    assert "rows per query" in shown
    found = json.loads(run("info", tables / "test.parquet", "--json").stdout)
    assert found["columns"][0]["role"] == "query (guessed)"


def test_scores_of_another_program(tables, run, tmp_path):
    frame = pd.read_csv(tables / "test.csv")
    scores = np.arange(len(frame)) % 7
    np.savetxt(tmp_path / "scores.txt", scores)
    shown = run("evaluate", "--scores", tmp_path / "scores.txt", tables / "test.parquet", "--json")
    assert_metrics(shown.stdout, evaluate_ranking(frame["grade"], scores, frame["qid"]))


def test_options_for_the_other_kind_of_file_are_refused(files, tables, run, tmp_path):
    out = ("-o", tmp_path / "m")
    for arguments, words in (
        (("fit", files.train, "--query", "qid", *out), "is read as a LETOR file"),
        (("fit", files.train, "--impute", "mean", *out), "This is for tables"),
        (("fit", files.train, "--features", "a,b", *out), "--features of a LETOR file must be"),
        (("fit", tables / "train.csv", "--fill", "0", *out), "use --impute"),
        (
            ("fit", tables / "train.csv", "--format", "xls", *out),
            "'xls' is not one of 'letor'",
        ),
        (
            ("fit", tables / "train.csv", "--encode", "words", *out),
            "'words' is not one of",
        ),
        (("fit", tables / "train.csv", "--impute", "zero", *out), "--impute must be one of mean"),
        (("fit", tables / "train.csv", "--valid", files.valid, *out), "both be tables"),
        (("fit", tables / "train-mixed.csv", *out), "these are text: 'brand'"),
        (("fit", tables / "train-mixed.csv", "--ignore", "brand", *out), "b 12 (21%)"),
        (("fit", tables / "train.csv", "--ignore", "qid", *out), "--one-ranking"),
        (("fit", tables / "train.csv", "--workers", "1", *out), "workers read LETOR files"),
        (("fit", tables / "train.csv", "--label", "Grade", *out), "Is it 'grade'?"),
    ):
        assert words in run(*arguments, "-q", ok=False), arguments
    assert not (tmp_path / "m").exists()


def test_a_model_of_a_letor_file_on_a_table(files, tables, run, tmp_path):
    run("fit", files.train, *ALPHA, "-o", tmp_path / "M")
    said = run("evaluate", tmp_path / "M", tables / "test.csv").stderr
    assert f"the model {tmp_path / 'M'} has no names of features" in said
    assert "are taken in their order" in said
    line = run("evaluate", tmp_path / "M", tables / "test.csv", "--ignore", "a", "-q", ok=False)
    assert "has 5 features, but the model" in line


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("ragged.csv", b"qid,label,a\n1,1,1\n1,0\n", "line 3: got 2 values for 3 columns"),
        ("cut.parquet", b"PAR1", "cannot be read as Parquet"),
    ],
)
def test_malformed_tables_end_every_command_with_one_line(name, content, words, run, tmp_path):
    """`tests/data/test_tables.py` has the other faults."""
    path, out = tmp_path / name, tmp_path / "model"
    path.write_bytes(content)
    for command in (("info",), ("fit", "-o", out), ("tune", "-o", out)):
        line = run(command[0], path, *command[1:], ok=False)
        assert words in line
        assert str(path) in line
    assert not out.exists()


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A table with a column document, a date, a list, and an unknown name of queries."""
    n = 24
    frame = pd.DataFrame(
        {"suchanfrage": np.arange(n) // 4, "document": [f"d{k}" for k in range(n)]}
    )
    frame["grade"], frame["preis (€)"] = np.arange(n) % 3, np.arange(n) * 7 % 5
    frame["seen"], frame["vector"] = pd.date_range("2024-01-01", periods=n), [[1.0, 2.0]] * n
    path = tmp_path_factory.mktemp("odd") / "odd.parquet"
    frame.to_parquet(path, index=False)
    return path


def test_a_look_at_a_table_whatever_it_holds(odd, run):
    result = run("info", odd)
    assert re.search(r"seen +date +feature", result.stdout)
    assert re.search(r"vector +a list or object", result.stdout)
    assert "id 'document' (guessed)" in result.stderr
    assert f"rankwise auto {odd} --query suchanfrage --dates --out odd.rankwise" in result.stdout
    said = run("fit", odd, "--query", "suchanfrage", *ALPHA, "-o", odd.parent / "m").stderr
    assert "left out: seen (a date), vector (a list or object)" in said
    assert "To use them as features, give --dates." in said


def test_columns_of_the_rows_of_exports_and_cards(odd, run, tmp_path):
    model, query = tmp_path / "m.rankwise", ("--query", "suchanfrage")
    earlier = tmp_path / "earlier.rankwise"  # without the columns of the table
    run("fit", odd, *query, "--ignore", "seen,vector", *ALPHA, "-o", model)
    for command in (("export", model, "--to", "onnx"), ("card", model, "-o", tmp_path / "m.md")):
        said = run(*command, "--rows", odd, *query).stderr
        assert "query 'suchanfrage';" in said
        assert "warning" not in said
        said = run(*command, "--rows", odd, "--force").stderr
        assert "query 'suchanfrage' (as in the fit)" in said
        assert "warning" not in said
        save_model(load_model(model), earlier)
        said = run(command[0], earlier, *command[2:], "--rows", odd, "--force").stderr
        assert said.count("warning") == 1
        assert "name it by --query" in said
        assert "reading --rows" in run(*command, *query, "--force", ok=False)
    refused = run("export", model, "--to", "solr", ok=False)
    assert "with --scale standard" in refused


def test_commands_take_every_format_of_tables():
    (words,) = {*get_args(get_type_hints(data_options.TableOptions)["format"])} - {type(None)}
    assert ("letor", *formats.FORMATS) == get_args(words)
