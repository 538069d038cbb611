"""Model cards."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import AutoRanker, RankRLS, SparseRankRLS
from rankwise.cli.card_page import CardRows, card_page
from rankwise.data import read_letor
from rankwise.persistence import ModelFile
from rankwise.report import write_markdown

pytest.importorskip("matplotlib")
SECTIONS = ("## Model", "## Data", "## Held-out scores", "## Features", "## Limits")


def test_a_linear_model(files, run, model, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("\n".join(["title", "body", "a b", "votes", "größe", "year"]))
    run("card", model, "--rows", files.test, "--features", names)
    card = (tmp_path / "model.card.md").read_text(encoding="utf-8")
    assert [line for line in card.splitlines() if line.startswith("## ")] == list(SECTIONS)
    assert "`RankRLS` on 6 features. NDCG@10 on test.txt: 0." in card
    assert "(95% interval 0." in card
    assert "Fitted to 10 queries of at most" in card
    assert "| weighting | rows |" in card
    assert "| NDCG@10 |" in card
    assert "| größe |" in card
    assert "Weights of features scaled within queries (query-minmax)" in card
    assert "all rows of a query must be scored together" in card
    assert "only 10 queries: the intervals are rough" in card
    assert "![Bars of features. The largest:" in card
    assert "<svg" in (tmp_path / "model.card-1.svg").read_text(encoding="utf-8")


def test_a_page_without_rows(run, model, tmp_path):
    run("card", model, "--out", tmp_path / "card.html")
    page = (tmp_path / "card.html").read_text(encoding="utf-8")
    assert "<h2>Limits</h2>" in page
    assert "<svg" in page
    assert "alpha was chosen by hold-outs" in page
    assert "The scores above are from training" in page


def test_weights_for_one_standard_deviation(files, tmp_path):
    data = read_letor(files.train)
    pipeline = make_pipeline(StandardScaler(), RankRLS(1.0)).fit(data.X, data.y)
    rows = CardRows("train.txt", data.X, data.y, data.qid)
    page = card_page(ModelFile(pipeline, "0.1.0"), "pipeline.rankwise", rows, None)
    card = write_markdown(page, tmp_path / "card.md").read_text(encoding="utf-8")
    best = abs(pipeline[-1].coef_).argmax()
    weight = pipeline[-1].coef_[best]  # of features with a standard deviation of 1
    assert f"| f{best + 1} | {weight:.4g} |" in card
    assert "Fitted to one ranking of all rows." in card


def test_equal_values_have_no_interval():
    X, y, qid = np.array([[0.0], [1.0], [0.0], [1.0]]), [0, 1, 0, 1], [1, 1, 2, 2]
    rows = CardRows("two.txt", X, np.array(y, dtype=float), np.array(qid))
    page = card_page(ModelFile(RankRLS(1.0).fit(X, y, qid=qid), "1.0.0"), "m", rows, None)
    assert "NDCG@10 on two.txt: 1.000." in page.summary


def test_a_model_that_is_not_linear(files, run, tmp_path):
    path = tmp_path / "rbf.rankwise"
    run("fit", files.train, "--kernel", "rbf", "--alpha", 1, "--out", path)
    run("card", path)
    card = (tmp_path / "rbf.card.md").read_text(encoding="utf-8")
    assert "The model is not linear. Give --rows" in card
    run("card", path, "--rows", files.test, "--force")
    card = (tmp_path / "rbf.card.md").read_text(encoding="utf-8")
    assert "rise in disagreement" in card
    assert "permuted within queries" in card
    assert "Bands of 95% are from 5 fits to test.txt" in card
    assert (tmp_path / "rbf.card-2.svg").exists()
    assert "An example, the first row of query" in card


@pytest.mark.slow
@pytest.mark.ci
def test_models_that_cannot_be_fitted_to_the_rows_get_curves_without_bands(files, tmp_path):
    train, test = read_letor(files.train), read_letor(files.test)
    few = slice(0, 20)
    rows = CardRows("test.txt", test.X[few], test.y[few], test.qid[few])
    landmarks = SparseRankRLS(1.0, n_landmarks=40, random_state=0)
    linear = [RankRLS(1.0, scale=scale) for scale in ("standard", "query-ranks")]
    mean = AutoRanker(candidates=linear, random_state=0)
    for ranker in (landmarks, mean):
        ranker.fit(train.X, train.y, qid=train.qid)
        page = card_page(ModelFile(ranker, "0.1.0"), "model.rankwise", rows, None)
        card = write_markdown(page, tmp_path / "card.md").read_text(encoding="utf-8")
        assert "The mean change of the score if" in card
        assert "Bands" not in card


def test_errors(run, model, tmp_path):
    assert ".md or .html: got 'card.pdf'" in run("card", model, "-o", "card.pdf", ok=False)
    assert "reading --rows" in run("card", model, "--fill", 0, ok=False)
    run("card", model)
    assert "exists" in run("card", model, ok=False)


def test_weights_of_categories(run, tmp_path):
    path, model, card = tmp_path / "t.csv", tmp_path / "m.rankwise", tmp_path / "m.md"
    rows = (f"{k // 6},{k * 7 % 3},{k * 5 % 11},{'xyz'[k % 3]}\n" for k in range(36))
    path.write_text("qid,label,price,brand\n" + "".join(rows))
    run("fit", path, "--encode", "onehot", "--alpha", 1, "--scale", "standard", "-o", model)
    for given in ((), ("--rows", path)):
        run("card", model, "-o", card, "--force", *given)
        for name in ("price", "brand_x", "brand_y", "brand_z"):
            assert f"| {name} | " in card.read_text(encoding="utf-8")
