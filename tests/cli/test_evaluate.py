"""evaluate: metrics of models and of given scores."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

from rankwise import load_model
from rankwise.data import read_letor, write_run
from rankwise.metrics import evaluate_ranking, group_exposure


@pytest.fixture
def want(files, model):
    data = read_letor(files.test)
    return evaluate_ranking(data.y, load_model(model).predict(data.X, qid=data.qid), data.qid)


def test_the_table_has_every_metric(files, run, model, want):
    printed = run("evaluate", model, files.test).stdout
    for name, value in want.means.items():
        (line,) = [line for line in printed.splitlines() if line.startswith(f"{name} ")]
        assert f"{value:.4f}" in line
    assert printed.startswith(f"{want.n_rows} rows in 10 queries")


def test_scores_are_evaluated_like_their_model(files, run, model, want, tmp_path):
    scores = tmp_path / "scores.txt"
    run("predict", model, files.test, "-o", scores)
    printed = run("evaluate", "--scores", scores, files.test, "--json").stdout
    assert printed == run("evaluate", model, files.test, "--json").stdout
    assert json.loads(printed) == json.loads(json.dumps(want.to_dict()))


def test_conventions_are_options(files, run, model):
    got = json.loads(
        run(
            "evaluate", model, files.test, "--json", "--relevant", 2, "--at", "2,4", "--gain",
            "linear", "--discount", "letor",
        ).stdout
    )  # fmt: skip
    data = read_letor(files.test)
    scores = load_model(model).predict(data.X, qid=data.qid)
    want = evaluate_ranking(
        data.y, scores, data.qid, k=(2, 4), relevant=2, gain="linear", discount="letor"
    )
    assert {name: entry["mean"] for name, entry in got["metrics"].items()} == want.means


def test_values_per_query_as_csv(run, tmp_path):
    data, scores, out = (tmp_path / name for name in ("data.txt", "scores.txt", "out.csv"))
    data.write_text("1 qid:a 1:1\n0 qid:a 1:0\n1 qid:b 1:1\n1 qid:b 1:0\n")
    scores.write_text("2\n1\n1\n2\n")
    run("evaluate", "--scores", scores, data, "--per-query", out, "--at", 1)
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["qid"] for row in rows] == ["a", "b"]
    assert [row["MAP"] for row in rows] == ["1.0", "1.0"]
    assert [row["disagreement"] for row in rows] == ["0.0", ""]  # b has one label


def test_undefined_metrics_are_left_out_with_a_remark(run, tmp_path):
    data, scores = tmp_path / "data.txt", tmp_path / "scores.txt"
    data.write_text("-1.5 1:1\n0.5 1:0\n")
    scores.write_text("2\n1\n")
    result = run("evaluate", "--scores", scores, data)
    assert "NDCG" not in result.stdout
    assert "NDCG left out" in result.stderr
    assert result.stdout.startswith("2 rows in one query")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n2\n", "has 2 scores, but"),
        ("1\nhigh\n", "must have one score per line: could not convert string to float: 'high'"),
        ("\n" * 71, "must have one score per line"),
        ("nan\n" * 71, "not finite"),
    ],
)
def test_scores_that_cannot_be_used(files, run, tmp_path, text, message):
    scores = tmp_path / "scores.txt"
    n_rows = len(read_letor(files.test).y)
    scores.write_text(text.replace("nan\n" * 71, "nan\n" * n_rows))
    assert message in run("evaluate", "--scores", scores, files.test, ok=False)


def test_scores_that_are_not_text(files, run, tmp_path):
    scores = tmp_path / "scores.txt"
    scores.write_bytes(b"\xff\xfe\x00")
    assert "utf-8" in run("evaluate", "--scores", scores, files.test, ok=False)


def test_too_few_and_too_many_files(files, run, model):
    assert "Give a model and a data file" in run("evaluate", files.test, ok=False)
    message = run("evaluate", model, files.test, "--scores", files.test, ok=False)
    assert "only the data file with --scores" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--at", "0,1"], "--at must be"),
        (["--at", "one"], "--at must be"),
        (["--gain", "cubic"], "'cubic' is not one of"),
        (["--discount", "none"], "'none' is not one of"),
        (["--relevant", "nan"], "relevant"),
    ],
)
def test_bad_conventions(files, run, model, options, message):
    assert message in run("evaluate", model, files.test, *options, ok=False)


SELLERS = ["acme", "zeta", "acme", "zeta", "acme", "NA"]
LONG = [str(9007199254740993000 + k % 2) for k in range(6)]  # equal as floats


@pytest.fixture
def offers(tmp_path):
    """A table of two queries with a label, groups of several kinds, and scores."""
    frame = pd.DataFrame({"query": [1, 1, 1, 2, 2, 2], "grade": [1, 0, 2, 0, 1, 1]})
    frame["seller"], frame["account"], frame["gap"] = SELLERS, LONG, ["a", "", "b", "a", "a", "a"]
    frame.to_csv(tmp_path / "offers.csv", index=False)
    frame.astype({"account": int}).to_parquet(tmp_path / "offers.parquet", index=False)
    (tmp_path / "scores.txt").write_text("3\n2\n1\n1\n1\n5\n")
    return frame


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("column", ["seller", "account"])
def test_exposure_of_a_column(run, tmp_path, offers, suffix, column):
    given = "evaluate", "--scores", tmp_path / "scores.txt", tmp_path / f"offers.{suffix}"
    scores = [3.0, 2.0, 1.0, 1.0, 1.0, 5.0]
    groups = offers[column] if column == "seller" else offers[column].astype(int)
    want = group_exposure(offers["grade"], scores, groups, offers["query"])
    found = json.loads(run(*given, "--exposure-of", column, "--json").stdout)["exposure"]
    assert found == want.to_dict()
    assert len(found["groups"]) == offers[column].nunique()
    assert found["groups"][0]["low"] < found["groups"][0]["difference"]
    printed = run(*given, "--exposure-of", column).stdout
    assert printed.startswith(run(*given).stdout + f"\nAttention by {column}\n")
    for name, share in zip(want.groups, want.attention, strict=True):
        assert any(line.split()[:2] == [str(name), f"{share:.4f}"] for line in printed.split("\n"))


@pytest.mark.usefixtures("offers")
def test_exposure_of_a_feature_of_the_model(run, tmp_path):
    table, model = tmp_path / "offers.csv", tmp_path / "model"
    drop = "--ignore", "account,gap"
    run("fit", table, *drop, "--encode", "onehot", "--alpha", 1, "--out", model)
    found = json.loads(run("evaluate", model, table, "--exposure-of", "seller", "--json").stdout)
    assert {each["group"] for each in found["exposure"]["groups"]} == set(SELLERS)


def test_exposure_of_many_groups_prints_the_first(run, tmp_path):
    frame = pd.DataFrame({"grade": 1, "seller": [f"s{k}" for k in range(30)]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "s.txt").write_text("".join(f"{k}\n" for k in range(30)))
    result = run("evaluate", "--scores", tmp_path / "s.txt", tmp_path / "t.csv", "--exposure-of",
                 "seller")  # fmt: skip
    assert "s29" in result.stdout
    assert "s9 " not in result.stdout
    assert "The 20 of 30 groups with most attention." in result.stderr
    given = "evaluate", "--scores", tmp_path / "s.txt", tmp_path / "t.csv", "--json"
    found = json.loads(run(*given, "--exposure-of", "seller").stdout)["exposure"]
    assert len(found["groups"]) == 30
    assert found["groups"][0]["low"] is None  # one query


@pytest.mark.usefixtures("offers")
def test_exposure_that_cannot_be_measured(files, run, model, tmp_path):
    table, scores = tmp_path / "offers.csv", tmp_path / "scores.txt"
    given = "evaluate", "--scores", scores, table, "--exposure-of"
    assert "has no column 'sellers'. Is it 'seller'?" in run(*given, "sellers", ok=False)
    message = run(*given, "gap", ok=False)
    assert "line 3: the column 'gap' has no value here. Fill it in" in message
    message = run("evaluate", model, files.test, "--exposure-of", "seller", ok=False)
    assert "read as a LETOR file" in message
    message = run("evaluate", "--qrels", scores, scores, "--exposure-of", "seller", ok=False)
    assert "--exposure-of" in message


def test_runs_of_trec_are_evaluated_and_compared(run, tmp_path):
    rng = np.random.default_rng(0)
    qrels = tmp_path / "qrels.txt"
    qrels.write_text(
        "".join(f"q{q} 0 d{d} {(q + d) % 3 - 1}\n" for q in range(9) for d in range(9))
    )
    paths = []
    for name, noise in (("good", 0.1), ("bad", 5.0), ("other", 5.0)):
        scores = {
            f"q{q}": {f"d{d}": (q + d) % 3 + noise * rng.normal() for d in range(9)}
            for q in range(1, 10)
        }
        paths.append(write_run(tmp_path / f"{name}.txt", scores))
    one = run("evaluate", "--qrels", qrels, paths[0])
    assert "NDCG@10" in one.stdout
    for words in ("27 negative judgements count as 0", "lacks 1 query", "1 query without", "-c"):
        assert words in one.stderr
    several = run("evaluate", "--qrels", qrels, *paths)
    assert "good − bad" in several.stdout
    assert "p adjusted: for 12 tests, by Holm's method" in several.stdout
    found = json.loads(run("evaluate", "--qrels", qrels, *paths, "--json", "--at", "2").stdout)
    assert set(found["means"]) == {"map", "mrr", "ndcg@2", "precision@2"}
    run("evaluate", "--qrels", qrels, paths[0], "--per-query", tmp_path / "values.csv")
    assert (tmp_path / "values.csv").read_text().startswith("qid,MAP")
    other = tmp_path / "else.txt"
    other.write_text("x Q0 d1 1 0.5 tag\n")
    for arguments, words in (
        ((qrels,), "got 4 fields"),
        ((other,), "no query in common: 'x' and 'q0'"),
        ((paths[0], paths[0]), "given twice"),
        ((paths[0], "--label", "x"), "leave it out with --qrels"),
        ((*paths, "--per-query", tmp_path / "v.csv"), "for a single run"),
    ):
        assert words in run("evaluate", "-q", "--qrels", qrels, *arguments, ok=False)
