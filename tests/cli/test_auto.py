"""auto: a good ranker without any choice of the user's."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwise import AutoRanker, load_model
from rankwise.data import read_letor, write_letor
from rankwise.metrics import ndcg


def test_a_file_is_enough(files, run, tmp_path):
    model, page = tmp_path / "model.rankwise", tmp_path / "page.html"
    result = run(
        "auto", files.train, "--test", files.test, "-o", model, "--report", page,
        "--candidates", "linear", "--n-best", 3,
    )  # fmt: skip
    data, test = read_letor(files.train), read_letor(files.test)
    want = AutoRanker(candidates="linear", n_best=3, random_state=0)
    want.fit(data.X, data.y, qid=data.qid)
    scores = want.predict(test.X, qid=test.qid)
    assert_allclose(load_model(model).predict(test.X, qid=test.qid), scores, atol=1e-9)
    estimate = want.score_estimate_
    assert f"Expected on new queries: {estimate}." in result.stdout
    assert f"has {estimate.optimistic:.4f}, which is optimistic" in result.stdout
    assert "than the best single ranker in NDCG@10, with a standard error of" in result.stdout
    assert "The best single ranker (linear, " in result.stdout
    assert "linear, query-ranks" in result.stdout
    assert "mean of all" in result.stdout
    shown = next(line for line in result.stdout.splitlines() if line.startswith("NDCG@10"))
    assert_allclose(float(shown.split()[1]), ndcg(test.y, scores, test.qid, k=10), atol=6e-5)
    assert f"Wrote {model}: a mean of" in result.stderr
    text = page.read_text()
    assert str(estimate) in text
    assert "All that was tried" in text
    assert "Evaluation" in text
    for heading in ("The candidates", "What drives the ranking", "A query, before and after"):
        assert f"<h2>{heading}</h2>\n<figure><svg" in text.replace(
            "</h2><figure>", "</h2>\n<figure>"
        )
    assert text.count("<figure>") == 3
    assert not re.search(r"(src|href)=.http|@import|url\(http", text)
    for printed in (result.stdout, text):
        assert "rows as they came" in printed
        assert f"{want.baselines_.scores[2]:.4f}" in printed


def test_the_model_ranks_new_files(files, run, tmp_path):
    model = tmp_path / "model.rankwise"
    run("auto", files.train, "-o", model, "--candidates", "linear")
    test = read_letor(files.test)
    scores = run("predict", model, files.test).stdout.split()
    want = load_model(model).predict(test.X, qid=test.qid)
    assert_allclose(np.array(scores, dtype=float), want, rtol=1e-4, atol=1e-6)
    evaluated = run("evaluate", model, files.test).stdout
    assert f"{ndcg(test.y, want, test.qid, k=10):.4f}" in evaluated
    facts = run("info", model).stdout
    assert "AutoRanker" in facts
    assert "parts" in facts


def test_without_out_the_model_is_not_kept(files, run):
    result = run("auto", files.train, "--time-budget", 0)
    assert "give --out to write it to a file" in result.stderr
    assert "Not tried: rbf, query-minmax, as the time was up" in result.stdout


def test_one_ranking(run, tmp_path):
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((40, 3)), 3)
    path = tmp_path / "ranking.txt"
    write_letor(path, X, X[:, 0])
    result = run("auto", path, "--one-ranking", "--candidates", "linear")
    assert "disagreement" in result.stdout
    assert "(5 folds)" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--report", "page.pdf"), "The page ends with .html"),
        (("--metric", "ndgc"), "metric must be one of"),
        (("--n-best", "0"), "--n-best"),
    ],
)
def test_bad_options(files, run, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in run("auto", files.train, *options, ok=False)


def test_an_input_is_never_overwritten(files, run):
    assert "input of this command" in run("auto", files.train, "-o", files.train, ok=False)


def test_the_page_names_the_command_for_many_columns(files, run, tmp_path, monkeypatch):
    monkeypatch.setattr("rankwise.cli.fit.MOST_DRAWN", 2)
    page = tmp_path / "page.html"
    run("auto", files.train, "--candidates", "linear", "--no-boosted", "--report", page)
    text = page.read_text()
    assert text.count("<figure>") == 2
    assert f"<code>rankwise card MODEL --rows {files.train.name} --out card.html</code>" in text
