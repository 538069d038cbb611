"""compare: several models on the same queries."""

import json

import pytest

from rankwise import load_model
from rankwise.data import read_letor
from rankwise.metrics import compare_rankings


@pytest.fixture
def models(files, run, tmp_path):
    paths = [tmp_path / f"{name}.rankwise" for name in ("first", "second")]
    for path, alpha in zip(paths, (0.1, 1e4), strict=True):
        run("fit", files.train, "--alpha", alpha, "-o", path)
    return paths


def test_the_tables_are_those_of_python(files, run, models):
    data = read_letor(files.test)
    scores = {path.stem: load_model(path).predict(data.X, qid=data.qid) for path in models}
    metrics = ["ndcg@3", "MRR"]
    want = compare_rankings(data.y, scores, data.qid, metrics=metrics, relevant=2, level=0.9)
    options = "--metrics", "ndcg@3, MRR", "--relevant", 2, "--level", 0.9
    command = "compare", *models, files.test, *options
    assert run(*command).stdout == f"{want}\n"
    markdown = run(*command, "--format", "markdown").stdout
    assert markdown.endswith(f"{want.to_table().to_markdown()}\n")
    latex = run(*command, "--format", "latex").stdout
    assert latex.startswith(want.means_table().to_latex())
    assert latex.count("\\begin{table}") == 2
    assert json.loads(run(*command, "--format", "json").stdout) == want.to_dict()


def test_names_are_as_short_as_possible(files, run, models, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    twin = other / models[0].name
    twin.write_bytes(models[0].read_bytes())
    printed = run("compare", models[0], twin, files.test).stdout
    assert f"{models[0]} − {twin}" in printed
    message = run("compare", models[0], models[0], files.test, ok=False)
    assert "given twice" in message


def test_models_with_different_numbers_of_features(files, run, models, tmp_path):
    wide = tmp_path / "wide.rankwise"
    run("fit", files.train, "--features", 8, "--alpha", 1, "-o", wide)
    result = run("compare", models[0], wide, files.test)
    assert "warning" in result.stderr
    assert "first − wide" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["MODEL", "DATA"], "Give at least two models and a data file"),
        (["MODEL", "OTHER", "DATA", "--format", "pdf"], "'pdf' is not one of 'text'"),
        (["MODEL", "OTHER", "DATA", "--metrics", "mop"], "metric must be one of"),
        (["MODEL", "OTHER", "DATA", "--level", "95"], "level must be"),
        (["MODEL", "OTHER", "SINGLE"], "no query ids"),
    ],
)
def test_what_is_refused(files, run, models, tmp_path, arguments, message):
    single = tmp_path / "single.txt"
    single.write_text("1 1:1 6:2\n0 1:0\n")
    named = {"MODEL": models[0], "OTHER": models[1], "DATA": files.test, "SINGLE": single}
    assert message in run("compare", *(named.get(a, a) for a in arguments), ok=False)
