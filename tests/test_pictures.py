"""What pictures of features, queries, comparisons and candidates show, and what they refuse."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import stdtrit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import RankRLS, SparseBilinearRanker
from rankwise.data import make_ranking
from rankwise.errors import DataError, ParameterError
from rankwise.metrics import evaluate_ranking
from rankwise.model_selection import PermutationImportance, QueryLearningCurve
from rankwise.plots import (
    COLORS,
    plot_alpha_path,
    plot_before_after,
    plot_coefficient_path,
    plot_coefficients,
    plot_comparisons,
    plot_differences_from_best,
    plot_history,
    plot_importance,
    plot_query_differences,
    plot_query_values,
    plot_rank_probabilities,
    plot_ratings,
    plot_reliability,
    plot_roc,
    plot_table,
    plot_training_sizes,
    plot_win_matrix,
)
from rankwise.plots.item_plots import STRONGEST

PAPER = "#FFFFFF"
DATA = make_ranking(n_queries=8, rows_per_query=5, n_features=3, n_levels=3, random_state=0)


def ticks(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_coefficients_have_names_signs_and_order():
    frame = DATA.to_frame()[["x2", "x0", "x1"]]
    ranker = RankRLS().fit(frame, DATA.y, qid=DATA.qid)
    ax = plot_coefficients(ranker)
    order = np.argsort(-np.abs(ranker.coef_))
    assert ticks(ax.yaxis) == [frame.columns[k] for k in order]
    assert_allclose([bar.get_width() for bar in ax.patches], ranker.coef_[order])
    ax = plot_coefficients([1.0, -3.0, 2.0], top=2)
    assert [bar.get_facecolor()[:3] for bar in ax.patches] == [
        tuple(int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))
        for color in (COLORS[1], COLORS[0])
    ]
    assert ax.get_xlabel() == "coefficient, the 2 largest of 3"
    scaled = make_pipeline(StandardScaler(), RankRLS()).fit(DATA.X, DATA.y)
    assert len(plot_coefficients(scaled).patches) == 3


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plot_coefficients(RankRLS()), "RankRLS has none. Fit it first"),
        (lambda: plot_coefficients(np.ones((3, 2))), r"got shape \(3, 2\)"),
        (lambda: plot_coefficients([1.0, np.nan]), "finite"),
        (lambda: plot_coefficients([1.0], names=["a", "b"]), "per feature: got 2 for 1"),
        (lambda: plot_coefficient_path([1.0]), "path.X, y, alphas.*got list"),
        (lambda: plot_importance([1.0]), "permutation_importance: got list"),
        (lambda: plot_query_values([]), "one finite number"),
        (lambda: plot_query_values([1.0, np.nan]), "one finite number"),
        (lambda: plot_query_values([1.0], names=["a", "b"]), "per query: got 2 for 1"),
        (lambda: plot_training_sizes([1.0]), "query_learning_curve: got list"),
        (lambda: plot_rank_probabilities([0.5, 0.5]), r"got shape \(2,\)"),
        (lambda: plot_ratings([1.0], [0.0], [2.0], names=[]), "got 0 names"),
        (lambda: plot_ratings([], [], [], names=[]), "at least one item: got 0"),
        (lambda: plot_history([], [], [], [], []), "as times, at least one"),
        (lambda: plot_win_matrix([[0.5]], names="ab"), "each of the 2 names"),
        (lambda: plot_win_matrix(np.ones((0, 0)), names=""), "0 names, at least one"),
        (lambda: plot_before_after([], []), "labels needs one finite number per row"),
        (lambda: plot_reliability([-1, 1], [0.2, 0.7]), "True or False, or 1 or 0"),
        (lambda: plot_reliability([np.nan, 1], [0.2, 0.7]), "True or False, or 1 or 0"),
        (lambda: plot_rank_probabilities([[2.0]]), "between 0 and 1"),
        (lambda: plot_rank_probabilities([[1.0]], names=[]), "got 0 for 1"),
        (lambda: plot_comparisons([]), "the preferred item first"),
        (lambda: plot_comparisons([[0, -1]]), "integers from 0"),
        (lambda: plot_comparisons([[0.0, 1.0]]), "integers from 0"),
        (lambda: plot_comparisons([[0, 3]], names=["a", "b"]), r"got \[2\] for items 0 to 3"),
        (lambda: plot_comparisons([[0, 1]], scores=[1.0, np.inf]), "finite"),
        (lambda: plot_differences_from_best({}), "at least one"),
        (lambda: plot_differences_from_best({"a": [np.nan], "b": [1.0]}), "no query"),
        (lambda: plot_differences_from_best({"a": [1.0, 2.0], "b": [1.0]}), "b has 1 values"),
    ],
)
def test_pictures_that_cannot_be_drawn(draw, message):
    with pytest.raises(DataError, match=message):
        draw()


@pytest.mark.parametrize("name", ["$/day in $", "a_$%{$", r"US\$ $"])
def test_dollar_signs_in_names_begin_no_formula(name):
    names = [name, "b"]
    plain = name.replace("\\$", "$").replace("$", r"\$")
    pictures = [
        plot_coefficients([2.0, 1.0], names=names),
        plot_ratings([2.0, 1.0], [1.0, 0.0], [3.0, 2.0], names=names),
        plot_query_differences([0.1, -0.2], names=names),
        plot_differences_from_best({name: [0.9, 0.8], "b": [0.5, 0.4]}),
        plot_alpha_path([1.0, 2.0], {name: [0.3, 0.2]}),
        plot_history([1, 2], names, [2.0, 1.0], [1.0, 0.0], [3.0, 2.0]),
    ]
    for ax in pictures:
        ax.figure.draw_without_rendering()
        legend = [] if ax.get_legend() is None else ax.get_legend().get_texts()
        shown = [*ax.get_yticklabels(), *ax.texts, *legend]
        assert any(plain in text.get_text() for text in shown)


def test_alphas_without_a_value_are_not_the_best():
    ax = plot_alpha_path([1.0, 2.0, 3.0], {"a": [np.nan, 0.2, 0.3]})
    assert ax.get_legend().get_texts()[0].get_text() == "a: best 0.200 at α = 2"
    ax = plot_alpha_path([1.0, 2.0, 3.0], {"a": [np.nan, 0.2, 0.3], "b": [np.nan] * 3})
    assert ax.get_legend().get_texts()[1].get_text() == "b"


def test_few_comparisons_of_many_items_need_little_memory():
    assert len(plot_comparisons([[0, 10**6]]).texts) == 2


def test_a_bilinear_ranker_has_no_coefficient_per_feature():
    ranker = SparseBilinearRanker()
    ranker.coef_ = sparse.csr_array(np.eye(2))
    with pytest.raises(DataError, match="See related_features"):
        plot_coefficients(ranker)


def test_a_path_of_coefficients():
    path = RankRLS().path(DATA.X, DATA.y, [100.0, 0.1], qid=DATA.qid)
    coefs = path.coefficients()
    assert_allclose(coefs, [path.estimator(i).coef_ for i in range(2)])
    frame = path.to_frame()
    assert list(frame.columns) == ["x0", "x1", "x2"]
    assert_allclose(frame.loc[0.1], coefs[1])
    ax = path.plot(top=2)
    largest = np.argsort(-np.abs(coefs).max(axis=0))
    assert texts(ax) == [f"x{j}" for j in largest[:2]]
    grey, first = ax.get_lines()[:2]
    assert_allclose(grey.get_ydata(), coefs[::-1, largest[2]])
    assert_allclose(first.get_ydata(), coefs[::-1, largest[0]])
    with pytest.raises(DataError, match="use the linear kernel"):
        RankRLS(kernel="rbf").path(DATA.X, DATA.y, [1.0]).to_frame()


def test_names_at_the_end_of_a_path_do_not_overlap():
    path = RankRLS().path(np.repeat(DATA.X[:, :1], 5, axis=1), DATA.y, [1.0, 10.0], qid=DATA.qid)
    heights = np.sort([text.xyann[1] for text in path.plot().texts])
    gap = 0.06 * np.ptp(path.coefficients())
    assert (np.diff(heights) > gap).all()


def test_importance_with_intervals():
    found = PermutationImportance(
        ["a", "b", "c"], np.array([0.1, 0.3, -0.1]), np.array([0.1, 0.05, 0.0]), "map", 0.8, True
    )
    ax = found.plot(top=2)
    assert ticks(ax.yaxis) == ["b", "a"]
    assert ax.get_xlabel() == "drop in MAP without the feature, the 2 largest of 3"
    low, high = ax.collections[0].get_segments()[1][:, 0]
    assert_allclose([low, high], [0.1 - 0.196, 0.1 + 0.196])


def test_values_by_query_and_their_mean():
    result = evaluate_ranking(DATA.y, DATA.score + np.sin(np.arange(40)), DATA.qid)
    ax = result.plot("MAP")
    values = result.per_query["MAP"].values
    assert_allclose([bar.get_height() for bar in ax.patches[:8]], np.sort(values)[::-1])
    assert ticks(ax.xaxis) == [str(k) for k in np.argsort(-values, kind="stable")]
    half = stdtrit(7, 0.975) * values.std(ddof=1) / np.sqrt(8)
    (label,) = (text.get_text() for text in ax.get_legend().get_texts())
    mean = values.mean()
    assert label == f"mean {mean:.3f}, 95% interval {mean - half:.3f} to {mean + half:.3f}"
    assert result.plot().get_ylabel() == "NDCG@10"
    with pytest.raises(ParameterError, match="metric must be one of MAP"):
        result.plot("recall@7")


def test_of_many_queries_the_lowest_are_named():
    ax = plot_query_values(np.arange(50.0), names=[f"q{k}" for k in range(50)])
    assert ax.get_xlabel().splitlines()[1:] == ["lowest: q0, q1, q2, q3, q4"]
    assert "lowest" not in plot_query_values(np.arange(50.0)).get_xlabel()
    assert plot_query_values([1.0]).get_legend().get_texts()[0].get_text() == "mean 1.000"


def test_training_sizes_by_name():
    def curve(metric="map"):
        return QueryLearningCurve(
            np.array([2, 8]), np.array([0.5, 0.6]), np.array([0.1, 0.05]), metric, True
        )

    ax = plot_training_sizes({"a": curve(), "b": curve()})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    assert ax.get_ylabel() == "held-out MAP (± s.e.)"
    assert curve().plot().get_legend() is None
    with pytest.raises(DataError, match="the same metric: got map, ndcg"):
        plot_training_sizes({"a": curve(), "b": curve("ndcg")})


def test_rank_probabilities_are_ordered_by_expected_rank():
    chance = np.array([[0.1, 0.2, 0.7], [0.9, 0.1, 0.0], [0.0, 0.7, 0.3]])
    ax = plot_rank_probabilities(chance, names="abc")
    assert ticks(ax.yaxis) == ["b", "c", "a"]
    assert texts(ax) == ["90", "10", "70", "30", "10", "20", "70"]
    opacity = ax.collections[0].get_array()[..., 3]
    assert_allclose(opacity / opacity.max(), chance[[1, 2, 0]] / 0.9)
    assert len(texts(plot_rank_probabilities(chance, top=2))) == 3
    many = plot_rank_probabilities(np.full((20, 20), 0.05))
    assert many.get_xlabel().startswith("rank: the stronger")
    assert not many.texts


def test_the_graph_of_comparisons_shows_surprises():
    pairs = [[0, 1], [0, 1], [1, 2], [2, 0]]
    ax = plot_comparisons(pairs, scores=[3.0, 2.0, 1.0], names="abc")
    assert texts(ax) == ["a", "b", "c"]
    lines = ax.get_lines()[:3]
    assert [line.get_color() == COLORS[1] for line in lines] == [False, True, False]
    assert_allclose(lines[0].get_ydata(), [3.0, 2.0])
    assert lines[0].get_linewidth() > lines[2].get_linewidth()
    assert ax.get_xlabel() == ""
    shares = plot_comparisons(pairs)
    dots = [line.get_ydata()[0] for line in shares.get_lines()[3:]]
    assert_allclose(dots, [2 / 3, 1 / 3, 0.5])


def test_groups_that_no_comparison_connects_are_named():
    ax = plot_comparisons([[0, 1], [2, 3], [5, 2]])
    assert ax.get_xlabel() == "2 groups that no comparison connects"
    assert texts(ax) == ["0", "1", "2", "3", "5"]  # item 4 was not compared
    assert not plot_comparisons([[k, k + 1] for k in range(70)]).texts


def test_names_in_a_graph_are_apart():
    pairs = [[0, 1], [1, 2], [2, 0], [3, 4], [4, 3], [5, 6], [7, 8], [0, 1]]
    ax = plot_comparisons(pairs, names=[f"a long name {k}" for k in range(9)])
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(one.overlaps(other) for k, one in enumerate(boxes) for other in boxes[:k])
    looks = {(line.get_color(), line.get_marker()) for line in ax.get_lines()[-9:]}
    assert len(looks) == 4  # one for each group


MANY = [f"a long name {k}" for k in range(300)]
LABELS = [0, 1, 0, 1, 1]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plot_alpha_path(
            [1e-4, 1e4], {name: [2.0, 1.0] for name in ("RankRLS with an RBF kernel", "RLS")}
        ),
        lambda: plot_query_differences(np.linspace(0.3, 0.1, 90), names=(MANY[0], MANY[1])),
        lambda: plot_query_values(np.linspace(0, 1, 300), names=MANY),
        lambda: plot_roc(LABELS, {name: [1.0, 2.0, 3.0, 4.0, 5.0] for name in MANY[:4]}),
        lambda: plot_rank_probabilities(np.full((12, 12), 1 / 12), names=MANY[:12]),
    ],
)
def test_no_text_is_cut_or_drawn_over_the_data(draw):
    ax = draw()
    figure = ax.figure
    figure.draw_without_rendering()
    legend = ax.get_legend()
    outside = [ax.xaxis.label, ax.yaxis.label, *([] if legend is None else legend.get_texts())]
    outside = [text for text in outside if text.get_text()]
    for text in (*outside, *ax.texts):
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1
    assert not any(ax.bbox.overlaps(text.get_window_extent()) for text in outside)


def test_differences_from_the_best_are_paired():
    rng = np.random.default_rng(0)
    easy = rng.normal(size=30)
    values = {"low": easy - 0.5, "same": easy + 0.01 * rng.normal(size=30), "best": easy + 0.1}
    values["same"] += 0.1 - (values["same"] - easy).mean() - 1e-3
    ax = plot_differences_from_best(values, metric="MAP")
    assert [text.split(":")[0] for text in ticks(ax.yaxis)] == ["best", "same", "low"]
    widths = sorted(
        np.ptp(part.get_segments()[k][:, 0])
        for part in ax.collections
        for k in range(len(part.get_segments()))
    )
    gap = values["best"] - values["same"]
    assert_allclose(widths[-1], 2 * stdtrit(29, 0.975) * gap.std(ddof=1) / np.sqrt(30))
    reached = [line.get_xdata() for line in ax.get_lines() if line.get_markerfacecolor() == PAPER]
    assert_allclose(reached[0], [0.0, -1e-3], atol=1e-12)
    lower = plot_differences_from_best(values, greater_is_better=False, top=1)
    assert ticks(lower.yaxis)[0].startswith("low")
    assert lower.get_xlabel() == "score behind the best, by query, the best 1 of 3"


@pytest.mark.parametrize("gap", [[0.3], [0.3, 0.3], [0.1, 0.2, 0.3, 0.0]])
def test_a_few_queries_leave_open_who_is_best(gap):
    ax = plot_differences_from_best({"best": np.array(gap), "other": np.zeros(len(gap))})
    circles = [line for line in ax.get_lines() if line.get_marker() == "o"]
    is_open = [line.get_markerfacecolor() == PAPER for line in circles for _ in line.get_xdata()]
    assert is_open == [True, True]


def test_queries_without_a_value_for_all_are_left_out():
    ax = plot_differences_from_best({"a": [0.5, np.nan, 0.7], "b": [0.1, 0.9, 0.2]})
    assert ticks(ax.yaxis) == ["a: 0.600", "b: 0.150"]


def test_ratings_are_ordered_with_ranks_and_groups():
    ax = plot_ratings(
        [0.0, 2.0, 1.0], [-1, 1, 0], [1, 3, 2], names="abc", ranks=([3, 1, 1], [3, 1, 2]),
        group=[2, 1, 1],
    )  # fmt: skip
    assert ticks(ax.yaxis) == ["b", "c", "a"]
    assert texts(ax) == ["rank", "1", "1–2", "3"]
    dashed = [line.get_ydata()[0] for line in ax.get_lines() if len(set(line.get_xdata())) == 2]
    assert dashed == [1.5]
    assert ticks(plot_ratings([0.0, 2.0], [0, 1], [1, 3], names="ab", top=1).yaxis) == ["b"]


def test_a_win_matrix_has_two_colours_and_gaps():
    nan = np.nan
    shares = [[nan, 0.9, nan], [0.1, nan, 0.5], [nan, 0.5, nan]]
    ax = plot_win_matrix(shares, names="abc")
    assert texts(ax) == ["90", "10", "50", "50"]
    colors = np.asarray(ax.collections[0].get_array()).reshape(3, 3, 4)
    assert_allclose(colors[..., 3], 0.8 * STRONGEST * np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]))
    assert (colors[0, 1, :3] != colors[1, 0, :3]).any()
    assert texts(plot_win_matrix(np.full((20, 20), 0.5), names=range(20))) == []


def test_long_names_lose_their_middle_or_what_they_begin_with_alike():
    names = [f"vendor/model-{k}b-with-a-long-name-{k}" for k in range(3)]
    zeros = np.zeros(3)
    ax = plot_ratings([3, 2, 1], zeros, zeros + 3, names=names)
    assert ticks(ax.yaxis) == [f"{name[:14]}\u2026{name[-14:]}" for name in names]
    alike = [f"the same long beginning {k}, and the same long end" for k in (1, 10, 12)]
    found = [f"\u2026{k}, and the same long end" for k in (1, 10, 12)]
    assert ticks(plot_ratings([3, 2, 1], zeros, zeros + 3, names=alike).yaxis) == found
    words = [f"{'x' * 20}{middle}{'y' * 40}" for middle in "abc"]  # nothing to leave out
    assert ticks(plot_ratings([3, 2, 1], zeros, zeros + 3, names=words).yaxis) == words
    ax = plot_win_matrix(np.full((3, 3), 0.5), names=words)
    assert ticks(ax.xaxis) == ["1", "2", "3"]


def test_a_table_is_drawn_beside_its_scores():
    given = [[1.0, 2.0, np.nan], [3.0, 2.0, 1.0]]
    scores = [[0.1, 0.2, 0.9], [0.5, 0.8, 0.7]]
    ax = plot_table(given, scores, row_names=["a", "b"])
    assert ticks(ax.yaxis) == ["b", "a"]
    assert ticks(ax.xaxis) == ["given", "held out"]
    colors = np.asarray(ax.collections[0].get_array()).reshape(2, 7, 4)[..., 3]
    assert_allclose(colors[1, :3], [0.0, 1.0, 0.0])  # columns 2, 1 and 0; a missing cell is empty
    assert_allclose(colors[0, 4:], [0.5, 1.0, 0.0])
    with pytest.raises(DataError, match="same shape"):
        plot_table(given, scores[:1])
    with pytest.raises(DataError, match="needs 2 names"):
        plot_table(given, scores, row_names=["a"])


def test_a_query_before_and_after():
    ax = plot_before_after([0, 2, 1, 0], [0.1, 0.9, -0.3, 0.9])
    ends = {tuple(line.get_ydata()) for line in ax.lines}
    assert ends == {(0, 2), (1, 0), (2, 3), (3, 1)}  # the first of equal scores stays first
    widths = {line.get_ydata()[0]: line.get_linewidth() for line in ax.lines}
    assert widths[1] > widths[2] > widths[0] == widths[3]
    assert len(plot_before_after([1, 1], [0, 1]).lines) == 2
    with pytest.raises(DataError, match="Got 2 labels for 1 scores"):
        plot_before_after([1, 2], [0.5])
