"""Descriptions of data and of models."""

import gzip
import json

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import RankRLS, save_model

TEXT = """\
2 qid:7 1:0.5 3:1
0 qid:7 2:1
0 qid:7 1:1
1 qid:9 1:1
1 qid:9 1:2
0 qid:4 3:1
"""


@pytest.mark.parametrize("packed", [False, True])
def test_data(run, tmp_path, packed):
    path = tmp_path / "data.txt"
    path.write_bytes(gzip.compress(TEXT.encode()) if packed else TEXT.encode())
    facts = json.loads(run("info", path, "--json").stdout)
    assert facts == {
        "file": str(path),
        "rows": 6,
        "features": 3,
        "values not zero": "38.9%",
        "queries": 3,
        "rows per query": {"least": 1, "median": 2.0, "most": 3},
        "pairs within queries": 4,
        "pairs with different labels": 2,
        "queries without two labels": 2,
        "rows per label": {"0": 3, "1": 2, "2": 1},
    }


def test_data_as_text(run, tmp_path):
    path = tmp_path / "data.txt"
    path.write_text(TEXT)
    printed = run("info", path).stdout
    assert printed.startswith(f"{path}: ranking data\n\nrows")
    assert "\nleast           1\nmedian          2\nmost            3\n" in printed
    bars = [line.count("█") for line in printed.splitlines()[-3:]]
    assert bars == [30, 20, 10]


def test_battles_and_samples_get_their_commands(run, tmp_path):
    path = tmp_path / "votes.csv"
    rows = [f"{k % 3},{(k + 1) % 3},model_a,{2**60 + k % 5}" for k in range(30)]
    path.write_text("\n".join(["model_a,model_b,winner,judge", *rows]) + "\n")
    found = run("info", path)
    out = found.stdout
    assert out.startswith(f"{path}: battles\n")
    assert "label" not in found.stderr  # no columns of battles are guessed to be queries or labels
    assert "role" not in out.splitlines()[2]
    assert "To rate the items:\n  " in out
    assert f"leaderboard {path}" in out
    assert f"leaderboard {path}" in json.loads(run("info", path, "--json").stdout)["command"]
    rows = [f"{10**18 + k},{['ill', 'well'][k % 2]},{k * k % 7}" for k in range(20)]
    path.write_text("\n".join(["patient,outcome,dose", *rows]) + "\n")
    assert f"auc {path} --label outcome\n" in run("info", path).stdout


def test_quantiles_of_many_labels_without_queries(run, tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("".join(f"{label} 1:1\n" for label in np.arange(-10, 11)))
    facts = json.loads(run("info", path, "--json").stdout)
    assert facts["queries"] == "none: one global ranking"
    assert facts["different labels"] == 21
    assert facts["labels"]["smallest"] == -10
    assert facts["labels"]["median"] == 0
    assert "lower quartile  -5" in run("info", path).stdout


def test_a_model(files, run, tmp_path):
    path = tmp_path / "model.rankwise"
    run("fit", files.train, "-o", path, "--kernel", "rbf", "--alpha", 2)
    facts = json.loads(run("info", path, "--json").stdout)
    assert facts["type"] == "RankRLS"
    assert facts["features"] == 6
    assert facts["queries fitted to"] == 10
    assert facts["scaling"] == "query-minmax"
    assert facts["form"] == "dual"
    assert facts["training rows kept"] > 10
    assert facts["parameters"]["kernel"] == "rbf"
    assert facts["parameters"]["alpha"] == 2.0
    printed = run("info", path).stdout
    assert printed.startswith(f"{path}: a model\n")
    assert "query-minmax" in printed


def test_a_pipeline(run, tmp_path):
    path = tmp_path / "model.rankwise"
    pipeline = make_pipeline(StandardScaler(), RankRLS(alpha=7.0))
    save_model(pipeline.fit([[0.0, 1.0], [1.0, 5.0]], [0, 1]), path)
    facts = json.loads(run("info", path, "--json").stdout)
    assert facts["steps"] == "StandardScaler, RankRLS"
    assert facts["features"] == 2
    assert facts["parameters"]["alpha"] == 7.0


def test_a_zip_file_that_is_not_a_model(run, tmp_path):
    import zipfile

    path = tmp_path / "holiday.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("beach.txt", "sun")
    assert "cannot be read as a model file of rankwise" in run("info", path, ok=False)


def test_many_columns_are_summarized(run, tmp_path):
    path = tmp_path / "wide.csv"
    names = [f"f{j}" for j in range(300)]
    rows = [",".join(["1", "2", *"0" * 300, "x", "2026-01-02"])] * 2
    path.write_text("\n".join([",".join(["qid", "label", *names, "city", "day"]), *rows]) + "\n")
    out = run("info", path).stdout
    shown = [line.split()[0] for line in out.split("\n\n")[1].split("\n")[2:]]
    assert shown == ["qid", "label", *names[:26], "city", "day"]
    assert "And 274 more features, which are complete numbers. To see them, give --all-col" in out
    out = run("info", path, "--all-columns").stdout
    assert all(f"\n{name} " in out for name in names)
    assert len(json.loads(run("info", path, "--json").stdout)["columns"]) == 304


def test_names_with_control_characters(run, tmp_path):
    path = tmp_path / "train.csv"
    path.write_text('query,label,"a\x1b[31m",b\x07\n1,0,1,x\n1,1,2,3\n2,0,1,1\n2,1,2,5\n')
    found = run("info", path)
    error = run("auto", path, ok=False)
    for text in (found.stdout, found.stderr, error):
        assert "\x1b" not in text
        assert "\x07" not in text
    assert "a\\x1b[31m" in found.stdout
    assert "b\\x07" in error
