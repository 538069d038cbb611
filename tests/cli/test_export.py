"""Models for search engines and ONNX, from the command line."""

import json

import numpy as np
import pytest

from rankwise import load_model
from rankwise.data import read_letor

NAMES = ["title", "body", "a b", 'q"uote', "größe", "year"]


@pytest.fixture
def linear(files, run, tmp_path):
    """A linear model of the features as they are."""
    path = tmp_path / "model.rankwise"
    run("fit", files.train, "--scale", "standard", "--alpha", 1, "--out", path)
    return path


@pytest.fixture
def names(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("\n".join(NAMES) + "\n", encoding="utf-8")
    return path


def test_a_search_engine(files, run, linear, names, tmp_path):
    out = tmp_path / "solr.json"
    result = run("export", linear, "--to", "solr", "--features", names, "--rows", files.test,
                 "--name", "mine", "--store", "films", "--out", out)  # fmt: skip
    body = json.loads(out.read_text(encoding="utf-8"))
    assert body["name"] == "mine"
    assert body["store"] == "films"
    assert list(body["params"]["weights"]) == NAMES
    weights = list(body["params"]["weights"].values())
    assert np.allclose(weights, load_model(linear).coef_, rtol=1e-6)
    check = json.loads((tmp_path / "solr.json.check.json").read_text())
    assert check["passed"]
    assert check["n_lost"] == 0
    assert check["n_rows"] == len(read_letor(files.test).y)
    assert "pairs lose their order" in result.stderr


def test_files_are_named_after_the_model(run, linear, tmp_path):
    for target in ("onnx", "elasticsearch", "vespa", "json"):
        run("export", linear, "--to", target)
    found = {path.name for path in tmp_path.iterdir()} - {"model.rankwise"}
    models = ("model.onnx", "model.elasticsearch.json", "model.vespa.txt", "model.json")
    assert found == {*models, *(f"{name}.check.json" for name in models)}
    assert "exists" in run("export", linear, "--to", "json", ok=False)
    run("export", linear, "--to", "json", "--force")


def test_trees(files, run, linear, tmp_path):
    pytest.importorskip("lightgbm")
    trees = tmp_path / "trees.rankwise"
    run("fit", files.train, "--model", "boosted", "--set", "n_estimators=3", "--out", trees)
    run("export", trees, "--to", "elasticsearch-trained-model", "--rows", files.test)
    found = json.loads((tmp_path / "trees.trained-model.json").read_text())
    assert len(found["trained_model"]["ensemble"]["trained_models"]) == 3
    given = "--rows", files.test, "--rank-feature", "xgboost"
    result = run("export", trees, "--to", "vespa", *given)
    assert "xgboost('ranker.json')" in result.stderr
    assert len(json.loads((tmp_path / "trees.vespa.json").read_text())) == 3
    assert "rank_feature is for trees" in run("export", linear, "--to", "vespa", *given, ok=False)
    assert "This is for vespa: got solr" in run("export", trees, "--to", "solr", *given, ok=False)


def test_onnx_ranks_queries_as_predict_does(files, run, model, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    said = run("export", model, "--to", "onnx", "--float64", "--out", tmp_path / "m.onnx").stderr
    assert " ".join(said.split()).count("A call takes all rows of one query") == 1
    data = read_letor(files.test)
    run("predict", model, files.test, "--out", tmp_path / "scores.txt")
    expected = np.loadtxt(tmp_path / "scores.txt")
    session = runtime.InferenceSession(tmp_path / "m.onnx")
    for query in np.unique(data.qid):
        rows = data.qid == query
        (found,) = session.run(None, {"X": data.X[rows]})
        assert np.allclose(found, expected[rows])


def test_timestamps(run, tmp_path):
    pytest.importorskip("onnxruntime")
    rows = [f"{i * 7 % 5} qid:{i // 10} 1:{1_700_000_000 + i}\n" for i in range(100)]
    train, path = tmp_path / "train.txt", tmp_path / "m.rankwise"
    train.write_text("".join(rows))
    run("fit", train, "--scale", "standard", "--alpha", 1, "--out", path)
    for arguments in (["onnx", "--float32"], ["solr"]):
        refused = run("export", path, "--to", *arguments, "--rows", train, ok=False)
        assert "pairs lose their order" in " ".join(refused.split())
    printed = run("export", path, "--to", "onnx", "--rows", train).stderr
    assert "0 of 450 pairs lose their order" in printed
    assert "Input and scores are float64." in printed


@pytest.mark.filterwarnings("default:The scores of this RankRLS depend")
def test_distil(files, run, model, tmp_path):
    refused = run("export", model, "--to", "solr", ok=False)
    assert "scaled within each query (query-minmax)" in refused
    assert "--distil" in refused
    assert "give --rows" in run("export", model, "--to", "solr", "--distil", "linear", ok=False)
    out = tmp_path / "solr.json"
    arguments = ("--to", "solr", "--distil", "linear", "--rows", files.train, "--out", out)
    result = run("export", model, *arguments)
    assert "NDCG@10 is" in result.stderr
    printed = " ".join(result.stderr.split())
    assert "depend on the other rows of the query" in printed
    assert "with a ranker with --scale standard, on labels" in printed
    assert "NDCG@10 is" in json.loads((tmp_path / "solr.json.check.json").read_text())["notes"][0]
    assert len(json.loads(out.read_text())["features"]) == 6


@pytest.mark.filterwarnings("default:The scores of this RankRLS depend")
def test_distil_into_trees(files, run, model, tmp_path):
    pytest.importorskip("lightgbm")
    out = tmp_path / "solr.json"
    given = "--to", "solr", "--distil", "trees", "--rows", files.train, "--out", out
    assert "Distilled into trees. On held-out rows, " in run("export", model, *given).stderr
    assert json.loads(out.read_text())["class"].endswith("MultipleAdditiveTreesModel")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "lucene"], "'lucene' is not one of 'elasticsearch'"),
        (["--to", "solr", "--float64"], "'--float64': This is for onnx: got solr"),
        (["--to", "json", "--float32"], "'--float32': This is for onnx: got json"),
        (["--to", "onnx", "--name", "m"], "'--name': This is for elasticsearch, opensearch, solr"),
        (["--to", "json", "--fill", "0"], "reading --rows"),
        (["--to", "solr", "--normalizers"], "this model has none"),
    ],
)
def test_options_that_do_not_belong_together(run, linear, tmp_path, arguments, message):
    assert message in run("export", linear, *arguments, ok=False)
    assert [path.name for path in tmp_path.iterdir()] == ["model.rankwise"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\n", "one name for each of 6 features: got 2"),
        (b"a\n\nc\n", "names.txt, line 2 is empty"),
        (b"a\n\xff\n", "names.txt is not UTF-8"),
        (b"\n\n", "names.txt, line 1 is empty"),
        (b"a\nb\nc\nd\ne\na\n", "'a' is there 2 times"),
    ],
)
def test_wrong_names(run, linear, names, content, message):
    names.write_bytes(content)
    assert message in run("export", linear, "--to", "solr", "--features", names, ok=False)
