"""rankwise explain: the reasons of a pair, of a query, as JSON and on a page."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from rankwise import RankRLS, TableEncoder, load_model, save_model
from rankwise.data import read_letor
from rankwise.inspection import explain, explain_ranking

pytest.importorskip("matplotlib")


@pytest.fixture
def table(tmp_path):
    """A table with text, and a model of it."""
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "search_id": np.repeat([16, 17, 18], 8),
            "id": [f"h{k}" for k in range(24)],
            "price": rng.lognormal(4, 1, 24).round(2),
            "city": rng.choice(["Rome", "Oslo"], 24),
        }
    )
    y = -np.log(frame.price) + (frame.city == "Rome")
    X = frame[["price", "city"]]
    ranker = make_pipeline(TableEncoder(text="onehot"), RankRLS(0.1, scale="query-ranks"))
    ranker.fit(X, y, rankrls__qid=frame.search_id)
    rows, model = tmp_path / "rows.csv", tmp_path / "hotels.rankwise"
    frame.to_csv(rows, index=False)
    save_model(ranker, model)
    return rows, model, frame


def test_two_positions_of_a_query(table, run):
    rows, model, frame = table
    options = "--query", "search_id=17", "--above", 3, "--below", 5
    shown = run("explain", model, rows, *options).stdout
    X, qid = frame[["price", "city"]], frame["search_id"]
    why = explain(load_model(model), 3, 5, X=X, qid=qid, query=17)
    assert shown.split("\n")[0].strip() == why.sentence
    assert "price" in shown
    found = json.loads(run("explain", model, rows, *options, "--json").stdout)
    assert found["difference"] == pytest.approx(why.difference)
    assert found["above"] == 3
    total = sum(feature["contribution"] for feature in found["features"])
    assert total == pytest.approx(found["scores"][0] - found["scores"][1])


def test_a_whole_query_and_its_page(table, run, tmp_path):
    rows, model, frame = table
    page = tmp_path / "page.html"
    options = "--query", "search_id=17", "--top", 3, "--report", page
    shown = run("explain", model, rows, *options).stdout
    X, qid = frame[["price", "city"]], frame["search_id"]
    found = explain_ranking(load_model(model), X, qid=qid, query=17, ids=frame["id"])
    assert found.ids[0] in shown
    text = page.read_text(encoding="utf-8")
    assert "Position 1 above position 2" in text
    assert "Position 2 above position 3" in text
    assert text.count("<svg") == sum(bool(len(pair.order)) for pair in found.pairs[:2])
    assert found.pairs[0].sentence in text
    pairs = json.loads(run("explain", model, rows, "--query", "search_id=17", "--json").stdout)
    assert len(pairs) == 7
    assert pairs[0]["rows"] == [str(name) for name in found.ids[:2]]
    of_pair = text.split("Position 1 above position 2")[1].split("Position 2 above")[0]
    assert of_pair.count(f">{found.pairs[0].sentence}<") == 1  # not again above its table


def test_a_position_that_is_below(table, run, tmp_path):
    rows, model, _ = table
    page = tmp_path / "page.html"
    given = "--query", "search_id=17", "--above", 5, "--below", 3, "--report", page
    assert run("explain", model, rows, *given).stdout.strip().startswith("Below, mainly")
    assert "Position 5 below position 3" in page.read_text(encoding="utf-8")


def test_letor_files(files, model, run):
    data = read_letor(files.test)
    query = data.qid[0]
    shown = run("explain", model, files.test, "--query", query, "--above", 1, "--below", 2).stdout
    why = explain(load_model(model), 1, 2, X=data.X, qid=data.qid, query=query)
    assert why.sentence.split(" (")[0] in shown.replace("\n", " ")


def test_errors(table, files, model, run):
    rows, of_table, _ = table
    some = "--quiet", "--query", "search_id=17"
    assert "leave out --below" in run("explain", of_table, rows, *some, "--below", 2, ok=False)
    next_one = run("explain", of_table, rows, *some, "--above", 1).stdout
    assert next_one == run("explain", of_table, rows, *some, "--above", 1, "--below", 2).stdout
    two = "--above", 1, "--below", 9
    found = run("explain", of_table, rows, *some, *two, ok=False)
    assert "--below must be a position from 1 to 8" in found
    two = "--above", 2, "--below", 2
    found = run("explain", of_table, rows, *some, *two, ok=False)
    assert "--above and --below are the same position" in found
    assert "no query '99'" in run(
        "explain", of_table, rows, "--quiet", "--query", "search_id=99", ok=False
    )
    found = run("explain", model, files.test, ok=False)
    assert "There are 10 queries: name one of them, as in --query " in found
    assert ".html" in run("explain", of_table, rows, *some, "--report", "page.pdf", ok=False)


def test_matplotlib_is_for_pages_only(table, run, monkeypatch):
    rows, model, _ = table
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    given = "explain", model, rows, "--query", "search_id=17"
    assert "Above" in run(*given, "--above", 1).stdout
    assert "Above" in run(*given).stdout
    assert "matplotlib" in run(*given, "--report", "page.html", ok=False)
