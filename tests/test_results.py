"""Results as a notebook shows them: a short text, an HTML table, a data frame, a picture."""

import pickle

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from scipy import sparse

from rankwise import ComponentOptions, KPCRank, RankRLS
from rankwise.data import (
    LetorData,
    load_dataset,
    make_battles,
    make_ranking,
    read_chosen_rejected,
    read_comparisons,
    read_samples,
)
from rankwise.export import distil, linear_model, to_json
from rankwise.metrics import evaluate_ranking, ndcg
from rankwise.model_selection import component_errors, leave_pair_out, leave_query_out
from rankwise.plots import new_axes, plot_alpha_path

DATA = make_ranking(n_queries=6, rows_per_query=5, n_features=2, n_levels=3, random_state=0)
ALPHAS = [0.1, 1.0, 10.0]
QUERIES = {"qid": DATA.qid}


CALLS = {
    "HeldOut": lambda X, y: leave_query_out(RankRLS(), X, y, alphas=ALPHAS, **QUERIES),
    "LeavePairOut": lambda X, y: leave_pair_out(RankRLS(), X, y, alphas=ALPHAS, **QUERIES),
    "ComponentErrors": lambda X, y: component_errors(
        KPCRank(options=ComponentOptions(max_components=3, cv=2)), X, y, **QUERIES
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_show_themselves(name):
    result = CALLS[name](DATA.X, DATA.y)
    assert len(repr(result)) < 100
    assert repr(result).startswith(f"<{name}: ")
    assert result._repr_html_().count("<tr>") == 4
    assert "best" in str(result)
    frame = result.to_frame()
    assert len(frame) == 3
    assert_allclose(frame["standard_error"], result.standard_error)
    assert len(result.plot(mark=False).get_lines()) > 0


def test_a_frame_of_scores_has_the_name_of_the_metric():
    result = leave_query_out(RankRLS(), DATA.X, DATA.y, alphas=ALPHAS, metric="map", **QUERIES)
    assert_allclose(result.to_frame()["map"], result.score)
    assert_allclose(result.to_frame().index, ALPHAS)
    assert f"best MAP {result.score.max():.4f} ± " in repr(result)


def test_values_of_queries():
    y, scores, qid = [1, 0, 1, 0], [2, 1, 3, 4], ["a", "a", "b", "b"]
    values = ndcg(y, scores, qid, per_query=True)
    assert_allclose(values.standard_error(), np.std(values.values, ddof=1) / np.sqrt(2))
    assert repr(values).startswith("<QueryValues: 2 queries, mean 0.")
    assert values.to_frame()["value"].to_dict() == dict(zip("ab", values.values, strict=True))
    curve = ndcg(y, scores, qid, k=[1, 2], per_query=True)
    assert curve.standard_error().shape == (2,)
    assert curve.to_frame().shape == (2, 2)
    assert np.isnan(ndcg(y, scores, per_query=True).standard_error())


def test_evaluations_have_a_standard_error():
    result = evaluate_ranking(DATA.y, DATA.score, DATA.qid)
    values = result.per_query["NDCG@3"].values
    error = values.std(ddof=1) / np.sqrt(6)
    assert_allclose(result.to_frame().loc["NDCG@3", "standard_error"], error)
    assert f"{error:.4f}" in str(result)
    one = evaluate_ranking([1, 0], [1.0, 0.0])
    assert one.to_dict()["metrics"]["NDCG"]["standard_error"] is None


def test_comparisons_battles_samples_and_exports_are_short(tmp_path):
    items = {"id": ["a", "b", "c"], "size": [1, 2, 3]}
    votes = {"first": ["a", "b"], "second": ["b", "c"], "outcome": ["loss", "tie"]}
    answers = {"prompt": ["p"], "chosen_length": [12], "rejected_length": [80]}
    samples = tmp_path / "samples.csv"
    samples.write_text("outcome,age\n" + "ill,1\nwell,2\n" * 3)
    ranker = RankRLS(1.0).fit(DATA.X, DATA.y, **QUERIES)
    for made, words in (
        (read_comparisons(items, votes), "2 comparisons of 3 items, 1 tie) with 1 feature)"),
        (read_chosen_rejected(answers), "1 comparison of 2 items, 1 group) with 1 feature)"),
        (make_battles(5, 300, random_state=0), "300 battles of 5 items"),
        (read_samples(samples, label="outcome"), "6 samples, 1 feature; 3 of class"),
        (to_json(ranker), "<Export to json, "),
        (linear_model(ranker), "<LinearModel of 2 features>"),
        (distil(ranker, DATA.X, qid=DATA.qid), "<Distilled: On held-out rows, "),
    ):
        assert words in repr(made)
        assert len(repr(made)) < 300


def test_generated_data_prints_three_lines():
    lines = repr(DATA).splitlines()
    assert [line.split()[0] for line in lines] == ["RankingProblem", "size", "labels"]
    assert lines[1].endswith("30 rows, 2 features, 6 queries of 5 rows")
    assert lines[2].endswith("0 (12 rows), 1 (12 rows), 2 (6 rows)")
    assert DATA._repr_html_().count("<tr>") == 3
    assert repr(load_dataset("diabetes")).splitlines()[0].startswith("diabetes: ")


def test_data_as_frames():
    frame = DATA.to_frame()
    assert list(frame.columns) == ["qid", "y", "x0", "x1"]
    assert_allclose(frame[["x0", "x1"]], DATA.X)
    X = sparse.csr_array(np.eye(4))
    data = LetorData(X, np.arange(4.0), None)
    assert "0.25 of the values are not zero), one ranking" in repr(data)
    assert list(data.to_frame().columns) == ["y", "x0", "x1", "x2", "x3"]
    assert_allclose(data.to_frame()["x2"], [0, 0, 1, 0])


def test_axes_show_their_figure_in_a_notebook():
    ax = plot_alpha_path([1, 10], [0.2, 0.1])
    picture, size = ax._repr_png_()
    assert picture.startswith(b"\x89PNG")
    width, height = ax.figure.get_size_inches() * ax.figure.dpi
    assert size == {"width": round(width), "height": round(height)}
    assert ax.figure._repr_png_()[0] == picture
    left, right = new_axes(columns=2, size=(2.0, 1.5))
    assert left._repr_png_() == right._repr_png_()
    assert pickle.loads(pickle.dumps(ax)).get_xscale() == "log"


def test_axes_of_the_user_stay_as_they_are():
    figure = Figure()
    ax = figure.add_subplot()
    assert not hasattr(plot_alpha_path([1, 10], [0.2, 0.1], ax=ax), "_repr_png_")
