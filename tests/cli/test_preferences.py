"""preferences: from comparisons in files to a ranking, a model and a page."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwise import RankRLS, load_model
from rankwise.data import read_comparisons
from rankwise.errors import DataError
from rankwise.model_selection import leave_comparison_out


@pytest.fixture
def tables(tmp_path):
    """Items with two features, of which one matters; votes by raters."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 2)).round(3)
    items, votes = tmp_path / "items.csv", tmp_path / "votes.csv"
    lines = [f"tea {k},{x[0]},{x[1]}" for k, x in enumerate(X)]
    items.write_text("\n".join(["name,aroma,price", *lines]) + "\n")
    rows = ["first,second,outcome,rater,context_left"]
    for _ in range(80):
        i, j = rng.choice(12, 2, replace=False)
        left = rng.choice([-1, 1])
        gap = 2 * (X[i, 0] - X[j, 0]) + left + rng.logistic()
        outcome = "tie" if abs(gap) < 0.3 else "win" if gap > 0 else "loss"
        rows.append(f"tea {i},tea {j},{outcome},{rng.integers(8)},{left}")
    votes.write_text("\n".join(rows) + "\n")
    return items, votes


def test_files_are_enough(tables, run, tmp_path):
    model, page = tmp_path / "model.rankwise", tmp_path / "page.html"
    result = run("preferences", *tables, "-o", model, "--report", page, "--top", 3)
    data = read_comparisons(*tables)
    ranker = load_model(model)
    found = leave_comparison_out(
        RankRLS(kernel=ranker.kernel, scale="standard"), data.X, data.comparisons, metric="log_loss"
    )
    assert ranker.alpha == pytest.approx(found.best_alpha)
    assert f"{found.log_loss.min():.4f}" in result.stdout
    assert "each by a ranker without its group" in result.stdout
    assert "a random guess" in result.stdout
    assert "the first one wins" in result.stdout
    assert "Expected accuracy on new comparisons: 0." in result.stdout
    assert "Two items that were never compared: 0." in result.stdout
    best = f"tea {np.argmax(data.X[:, 0])}"
    ranking = result.stdout.partition("The best 3 of 12 items")[2].splitlines()
    assert any(best in line for line in ranking[4:7])
    assert "left" in result.stdout
    assert ranker.context_coef_[0] > 0
    chance = ranker.predict_preference(data.X[:1], data.X[1:2])
    assert 0 < chance[0] < 1
    same = RankRLS(ranker.alpha, kernel=ranker.kernel, scale="standard")
    same.fit_pairs(data.X, data.comparisons)
    assert_allclose(ranker.predict(data.X), same.predict(data.X))
    text = page.read_text()
    for heading in ("Are the probabilities right?", "The ranking", "What was tried"):
        assert heading in text
    assert text.count("<svg") == 3


def test_answers_in_one_file(run, tmp_path):
    rng = np.random.default_rng(1)
    lines = ["prompt,chosen_length,rejected_length,chosen_score,rejected_score"]
    for k in range(30):
        good, bad = sorted(rng.standard_normal(2), reverse=True)
        lines.append(f"{k // 2},{rng.integers(9)},{rng.integers(9)},{good:.3f},{bad:.3f}")
    path = tmp_path / "answers.csv"
    path.write_text("\n".join(lines) + "\n")
    result = run("preferences", path, "--kernel", "linear")
    assert "RankRLS, linear" in result.stdout
    assert "a random guess" in result.stdout
    assert "the first one wins" not in result.stdout  # the file puts the chosen ones first
    assert "The best" not in result.stdout
    assert "score" in result.stdout
    assert "The model was not kept" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--report", "page.pdf"), "The page ends with .html"),
        (("--kernel", "cubic"), "'cubic' is not one of"),
        (("--group", "judge"), "no column 'judge'"),
    ],
)
def test_bad_options(tables, run, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in run("preferences", *tables, *options, ok=False)


def test_a_page_about_ties_alone_has_no_winners(tables, run, tmp_path):
    items, votes = tables
    (tmp_path / "ties.csv").write_text(re.sub(",(win|loss),", ",tie,", votes.read_text()))
    run("preferences", items, tmp_path / "ties.csv", "--report", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "What was tried" in page
    assert "Are the probabilities right?" not in page


def test_columns_need_two_files(tables, run):
    assert "It needs two files" in run("preferences", tables[0], "--group", "rater", ok=False)


def test_columns_of_text_are_left_out():
    items = {"id": ["a", "b", "c"], "title": ["x", "y", "z"], "size": [1, 2, 3]}
    votes = {"first": ["b", "c"], "second": ["a", "b"]}
    with pytest.warns(UserWarning, match="columns of text are not features.*: title"):
        data = read_comparisons(items, votes)
    assert data.X.tolist() == [[1.0], [2.0], [3.0]]
    items["size"] = [1, "big", 3]
    left_out = pytest.warns(UserWarning, match="title")
    with left_out, pytest.raises(DataError, match="or leave the column out"):
        read_comparisons(items, votes)
