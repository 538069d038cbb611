"""What figures show; their look is checked by eye."""

import sys

import matplotlib
import numpy as np
import pytest
from matplotlib import _pylab_helpers
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from scipy.special import stdtrit
from sklearn.exceptions import NotFittedError

from rankwise import ComponentOptions, KPCRank
from rankwise.errors import DataError, MissingExtraError, ParameterError, RankwiseWarning
from rankwise.metrics import concordance_index
from rankwise.model_selection import ComponentErrors, HeldOut, LeavePairOut
from rankwise.plots import (
    COLORS,
    figure_svg,
    new_axes,
    plot_alpha_path,
    plot_component_errors,
    plot_differences_from_best,
    plot_hold_out,
    plot_learning_curve,
    plot_ndcg_curve,
    plot_query_differences,
    plot_roc,
    plot_scree,
    save_figure,
)

ALPHAS = np.array([1.0, 100.0, 0.01])
ERRORS = {"RankRLS": [0.2, 0.3, 0.25], "RLS": [0.4, 0.35, 0.5]}


def pairs_held_out(*error, se=0.05):
    alphas = np.geomspace(1, 10.0 ** (len(error) - 1), len(error))
    return LeavePairOut(alphas, np.array(error), np.full(len(error), se))


def held_out(*score, metric="map", greater_is_better=True, se=0.05):
    n = len(score)
    alphas, spread = np.geomspace(1, 10.0 ** (n - 1), n), np.full(n, se)
    return HeldOut(alphas, np.array(score), spread, metric, greater_is_better, np.empty((n, 0)))


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_alpha_path_draws_every_ranker_in_the_order_of_alpha():
    ax = plot_alpha_path(ALPHAS, ERRORS)
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert_allclose(lines["RankRLS"].get_xdata(), [0.01, 1, 100])
    assert_allclose(lines["RankRLS"].get_ydata(), [0.25, 0.2, 0.3])
    assert ax.get_xscale() == "log"
    assert "α" in ax.get_xlabel()
    rls = "RLS: best 0.350 at α = 100, the largest tried"
    assert labels(ax) == ["RankRLS: best 0.200 at α = 1", rls]


def test_alpha_path_marks_the_best():
    ax = plot_alpha_path(ALPHAS, ERRORS)
    marks = [line for line in ax.get_lines() if line.get_label() == "_best"]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in marks] == [(1, 0.2), (100, 0.35)]
    ax = plot_alpha_path(ALPHAS, ERRORS, better="higher")
    assert labels(ax)[0] == "RankRLS: best 0.300 at α = 100, the largest tried"
    ax = plot_alpha_path(ALPHAS, ERRORS, mark=False)
    assert labels(ax) == ["RankRLS", "RLS"]
    ax = plot_alpha_path([1, 10], {"a": [np.nan, 0.3], "undefined": [np.nan, np.nan]})
    assert labels(ax) == ["a: best 0.300 at α = 10, the largest tried", "undefined"]


@pytest.mark.parametrize(("errors", "side"), [([3, 2, 1], 1), ([1, 2, 3], -1), ([2, 1, 2], 0)])
def test_an_arrow_leads_out_of_the_grid_if_its_edge_is_best(errors, side):
    ax = plot_alpha_path([1, 10, 100], {"a": errors})
    assert [np.sign(text.xyann[0]) for text in ax.texts] == [side] * abs(side)
    assert ("tried" in labels(ax)[0]) == bool(side)


def test_one_curve_needs_no_legend():
    ax = plot_alpha_path(ALPHAS, [3, 2, 1], ylabel="loss")
    assert ax.get_legend() is None
    assert ax.get_ylabel() == "loss"


@pytest.mark.parametrize(("alphas", "scale"), [([0, 1, 10], "symlog"), ([0, 0, 0], "linear")])
def test_the_axis_includes_an_alpha_of_zero(alphas, scale):
    ax = plot_alpha_path(alphas, [3, 2, 1])
    assert ax.get_xscale() == scale
    ax.figure.canvas.draw()


def test_hold_out_of_pairs_is_an_error_or_an_auc():
    result = pairs_held_out(0.3, 0.2, 0.4)
    ax = plot_hold_out(result)
    assert labels(ax) == ["best 0.200 ± 0.050 at α = 10"]
    assert ax.get_ylabel() == "held-out pairs in wrong order (± s.e.)"
    assert ax.get_xscale() == "log"
    curve = ax.get_lines()[0]
    assert_allclose(curve.get_ydata(), [0.3, 0.2, 0.4])
    (band,) = ax.collections
    assert_allclose(band.get_datalim(ax.transData).intervaly, [0.15, 0.45])
    ax = plot_hold_out(result, quantity="auc")
    assert labels(ax) == ["best 0.800 ± 0.050 at α = 10"]
    assert ax.get_ylabel() == "leave-pair-out AUC (± s.e.)"


@pytest.mark.parametrize(
    ("metric", "ylabel"),
    [
        ("disagreement", "held-out disagreement"),
        ("MAP", "held-out MAP"),
        ("ndcg@10", "held-out NDCG@10"),
        ("mine", "held-out mine"),
    ],
)
def test_hold_out_of_queries_names_its_metric(metric, ylabel):
    assert plot_hold_out(held_out(0.1, metric=metric)).get_ylabel() == f"{ylabel} (± s.e.)"
    assert plot_hold_out(held_out(0.1, metric=metric, se=np.nan)).get_ylabel() == ylabel
    assert plot_hold_out(held_out(0.1), ylabel="this").get_ylabel() == "this"


def test_hold_outs_by_name_each_with_its_own_alphas():
    ax = plot_hold_out({"a": held_out(0.1, 0.3), "b": held_out(0.1, 0.2, 0.3)})
    assert labels(ax) == [
        "a: best 0.300 ± 0.050 at α = 10, the largest tried",
        "b: best 0.300 ± 0.050 at α = 100, the largest tried",
    ]
    assert len(ax.collections) == 2
    ax = plot_hold_out({"a": held_out(0.1, 0.3), "b": held_out(0.1, 0.2)}, mark=False)
    assert labels(ax) == ["a", "b"]


@pytest.mark.parametrize(
    ("results", "best"),
    [
        ({"a": held_out(0.1), "b": held_out(0.3), "c": held_out(0.2)}, 1),
        ({"a": pairs_held_out(0.2), "b": pairs_held_out(0.3), "c": pairs_held_out(0.1)}, 2),
    ],
)
def test_of_many_hold_outs_only_the_best_has_a_band(results, best):
    ax = plot_hold_out(results)
    (band,) = (drawn for drawn in ax.collections if isinstance(drawn, FillBetweenPolyCollection))
    assert to_hex(band.get_facecolor()[0]).upper() == COLORS[best]
    assert len(ax.containers) == 2


def test_hold_out_averages_outputs():
    error = np.array([[0.1, 0.3], [0.2, 0.4]])
    result = LeavePairOut(np.array([1.0, 10.0]), error, np.array([[0.1, 0.1], [0.2, 0.2]]))
    ax = plot_hold_out(result)
    assert_allclose(ax.get_lines()[0].get_ydata(), [0.2, 0.3])
    assert labels(ax) == ["best 0.200 ± 0.100 at α = 1, the smallest tried"]


def test_roc_steps_and_ties():
    ax = plot_roc([1, 0, 1, 0, 1], [5.0, 4.0, 3.0, 3.0, 1.0], label="r", interval=False)
    chance, curve = ax.get_lines()
    assert_allclose(chance.get_xdata(), chance.get_ydata())
    assert_allclose(curve.get_xdata(), [0, 0, 0.5, 1, 1])
    assert_allclose(curve.get_ydata(), [0, 1 / 3, 1 / 3, 2 / 3, 1])
    assert labels(ax) == ["r: AUC 0.417"]


def test_roc_area_is_the_concordance():
    rng = np.random.default_rng(0)
    y, scores = rng.integers(0, 2, 80), rng.integers(0, 10, 80)
    (text,) = labels(plot_roc(y, scores))
    assert text.startswith(f"AUC {concordance_index(y, scores):.3f} (")


def test_roc_interval_is_that_of_delong():
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], [12, 9])
    scores = rng.integers(0, 8, 21) + y
    wins = (np.sign(scores[y == 1][:, None] - scores[y == 0]) + 1) / 2
    area = wins.mean()
    error = np.sqrt(wins.mean(axis=1).var(ddof=1) / 9 + wins.mean(axis=0).var(ddof=1) / 12)
    odds = np.log(area / (1 - area)) + np.array([-1.96, 1.96]) * error / (area * (1 - area))
    low, high = 1 / (1 + np.exp(-odds))
    assert labels(plot_roc(y, scores)) == [f"AUC {area:.3f} ({low:.3f} to {high:.3f})"]
    (perfect,) = labels(plot_roc([0, 0, 1, 1], [1, 2, 3, 4]))
    assert perfect == "AUC 1.000 (0.427 to 1.000)"


def test_roc_band_holds_the_curve_and_has_its_width():
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1], 200)
    ax = plot_roc(y, y + rng.normal(size=400))
    (band,) = ax.collections
    vertices = band.get_paths()[0].vertices
    middle = vertices[np.isclose(vertices[:, 0], 0.3), 1]
    _, curve = ax.get_lines()
    rate = np.interp(0.3, curve.get_xdata(), curve.get_ydata())
    assert middle.min() < rate < middle.max()
    # The rate at a fixed threshold has a standard error of 0.03, the threshold itself moves, too.
    assert 4 * 0.028 < np.ptp(middle) < 4 * 0.06
    assert not plot_roc(y, {"a": y, "b": -y}).collections
    ax = plot_roc(y, y + rng.normal(size=400), interval="band")
    assert len(ax.collections) == 1
    assert "(" not in labels(ax)[0]
    assert not plot_roc(y, y, interval=False).collections


def test_roc_of_several_rankers_and_of_several_samples():
    y = [False, True, True]
    ax = plot_roc(y, {"a": [1, 2, 3], "b": [3, 2, 1]})  # one negative: no interval
    assert plot_roc([0, 7], [1, 2], label="c", ax=ax) is ax
    assert labels(ax) == ["a: AUC 1.000", "b: AUC 0.000", "c: AUC 1.000"]
    chance, *curves = ax.get_lines()
    assert chance.get_label() == "_diagonal"
    assert [curve.get_color() for curve in curves] == list(COLORS[:3])


def test_figures_in_files(tmp_path):
    for suffix in ("svg", "PNG", "pdf"):
        one, two = (
            save_figure(plot_ndcg_curve([0.1, 0.2]).figure, tmp_path / f"{i}.{suffix}")
            for i in range(2)
        )
        assert one.read_bytes() == two.read_bytes()
    with pytest.raises(ParameterError, match=r"end with \.svg, \.png or \.pdf"):
        save_figure(plot_ndcg_curve([0.1]).figure, tmp_path / "a.jpg")
    with pytest.raises(FileNotFoundError):
        save_figure(plot_ndcg_curve([0.1]).figure, tmp_path / "no" / "a.svg")


def test_axes_side_by_side():
    axes = new_axes(2, columns=3, size=(2.0, 1.5))
    assert len(axes) == 6
    assert_allclose(axes[0].figure.get_size_inches(), [6.0, 3.0])
    with pytest.raises(ParameterError, match="rows must be an integer of at least 1"):
        new_axes(0)


def test_ndcg_of_means_and_of_queries():
    rng = np.random.default_rng(0)
    values = rng.uniform(size=(40, 5))
    ax = plot_ndcg_curve({"means": values.mean(axis=0), "queries": values})
    first, second = ax.get_lines()
    assert_allclose(first.get_ydata(), second.get_ydata())
    assert_allclose(first.get_xdata(), [1, 2, 3, 4, 5])
    (band,) = ax.collections
    low, high = band.get_datalim(ax.transData).intervaly
    half = stdtrit(39, 0.975) * values.std(axis=0, ddof=1) / np.sqrt(40)
    assert_allclose(low, (values.mean(axis=0) - half).min())
    assert_allclose(high, (values.mean(axis=0) + half).max())


def test_ndcg_at_other_positions():
    ax = plot_ndcg_curve([0.1, 0.2], positions=[5, 10], ylabel="NDCG")
    assert_allclose(ax.get_lines()[0].get_xdata(), [5, 10])
    assert_allclose(ax.get_xticks(), [5, 10])
    long = plot_ndcg_curve(np.linspace(0, 1, 20))
    assert_allclose(long.get_xticks(), [1, 5, 10, 15, 20])


def test_query_differences_are_sorted_and_counted():
    ax = plot_query_differences([0.1, -0.2, 0.0, 0.3], names=("a", "b"), metric="MAP")
    heights = sorted((bar.get_height() for bar in ax.patches), reverse=True)
    assert_allclose(heights, [0.3, 0.1, -0.2])
    assert [text.get_text() for text in ax.texts] == ["a better: 2 queries", "b better: 1 query"]
    assert "MAP" in ax.get_ylabel()


def test_given_axes_are_drawn_on_and_keep_their_look():
    figure = Figure()
    ax = figure.add_subplot()
    assert plot_alpha_path(ALPHAS, ERRORS, ax=ax) is ax
    assert ax.spines["top"].get_visible()
    assert plot_ndcg_curve([1.0], ax=figure.add_subplot()).figure is figure


def test_global_state_of_matplotlib_is_not_changed():
    before = dict(matplotlib.rcParams)
    figures = _pylab_helpers.Gcf.get_num_fig_managers()
    figure_svg(plot_ndcg_curve([0.1, 0.2]).figure)
    assert dict(matplotlib.rcParams) == before
    assert _pylab_helpers.Gcf.get_num_fig_managers() == figures


def test_letters_without_a_glyph_are_one_warning():
    ax = plot_ndcg_curve([0.5, 0.6])
    ax.set_title("模型")
    with pytest.warns(RankwiseWarning, match="show boxes for letters") as caught:
        figure_svg(ax.figure)
    assert len(caught) == 1


@pytest.mark.parametrize("alphas", [[1e-6, 1e6], [0.5, 1, 4], [0, 0.1, 10]])
def test_alphas_are_plain_numbers(alphas):
    """Which ones have labels depends on the version of Matplotlib."""
    ax = plot_alpha_path(alphas, np.zeros(len(alphas)))
    ax.figure.draw_without_rendering()
    ticks = [*ax.get_xticklabels(), *ax.get_xticklabels(minor=True)]
    found = {tick.get_text() for tick in ticks} - {""}
    assert found
    assert all(text == f"{float(text):g}" for text in found)


@pytest.mark.slow
@pytest.mark.ci
def test_svg_is_reproducible_and_follows_the_page():
    one, two = (figure_svg(plot_alpha_path(ALPHAS, ERRORS).figure) for _ in range(2))
    assert one == two
    assert one.startswith("<svg")
    assert "currentColor" in one
    assert f"var(--series-1, {COLORS[0]})" in one
    assert "<style" not in one
    assert "<metadata" not in one
    open_circles = plot_differences_from_best({"a": [1.0, 2.0], "b": [1.0, 1.9]})
    assert "var(--card, #FFFFFF)" in figure_svg(open_circles.figure)
    plain = figure_svg(plot_alpha_path(ALPHAS, ERRORS).figure, adapt=False)
    assert "var(" not in plain


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plot_alpha_path([1, 2], [1, 2, 3]), "one value per alpha, here 2"),
        (lambda: plot_alpha_path([1, 2], {"a": [1, 2], "b": [1]}), "b has shape"),
        (lambda: plot_alpha_path([], []), "one value per alpha"),
        (lambda: plot_alpha_path([1], {}), "no curve"),
        (lambda: plot_ndcg_curve({"a": [1, 2], "b": [1]}), "b has shape"),
        (lambda: plot_ndcg_curve([1, 2], positions=[1]), "one value per position, here 1"),
        (lambda: plot_ndcg_curve(np.zeros((2, 2, 2))), "has shape"),
        (lambda: plot_query_differences([]), "at least one"),
        (lambda: plot_hold_out({}), "no curve"),
        (lambda: plot_hold_out([0.1, 0.2]), "got list"),
        (lambda: plot_hold_out({"a": held_out(1), "b": pairs_held_out(1)}), "the same metric"),
        (lambda: plot_roc([0, 1], [1, 2, 3]), r"scores has shape \(3,\), y has \(2,\)"),
        (lambda: plot_roc([0, 1], {"a": [1, 2], "b": [[1], [2]]}), "b has shape"),
        (lambda: plot_roc([0, 1], [np.nan, 2]), "finite"),
        (lambda: plot_roc([0, 1, 2], [1, 2, 3]), "two different labels: y has 3"),
        (lambda: plot_roc([0, 1], {}), "no curve"),
        (lambda: plot_roc([0, 1], {"a": [1, 2]}, label="b"), "for a single curve"),
        (lambda: plot_query_differences([np.nan]), "finite"),
    ],
)
def test_curves_that_cannot_be_drawn(draw, message):
    with pytest.raises(DataError, match=message):
        draw()


def test_an_unknown_direction():
    with pytest.raises(ParameterError, match="one of lower, higher"):
        plot_alpha_path([1], [1], better="up")


def test_an_unknown_quantity():
    with pytest.raises(ParameterError, match="one of error, auc"):
        plot_hold_out(pairs_held_out(0.1), quantity="map")
    with pytest.raises(ParameterError, match="has only map"):
        plot_hold_out(held_out(0.1), quantity="auc")


def test_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rankwise\[plots\]'"):
        plot_ndcg_curve([1.0])


def component_errors(*error, se=0.05):
    n = len(error)
    return ComponentErrors(np.arange(1, n + 1), np.array(error), np.full(n, se), "by hand")


def test_component_errors_mark_the_best_and_the_fewest():
    ax = plot_component_errors({"leading": component_errors(0.4, 0.24, 0.3, 0.2)})
    assert labels(ax) == ["leading: best 0.200 at p = 4, within one s.e. at p = 2"]
    marks = [line for line in ax.get_lines() if line.get_label() == "_mark"]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in marks] == [(4, 0.2), (2, 0.24)]
    assert plot_component_errors(component_errors(0.4, 0.3), mark=False).get_legend() is None
    with pytest.raises(DataError, match="draws results of component_errors"):
        plot_component_errors([0.1, 0.2])


def test_scree_draws_shares_and_their_sum():
    X = np.random.default_rng(0).standard_normal((30, 3))
    ranker = KPCRank(6, scale=None).fit(X, X[:, 0])
    ax = plot_scree(ranker)
    share, total = (line.get_ydata() for line in ax.get_lines())
    assert_allclose(share, ranker.explained_variance_ratio_)
    assert_allclose(total, np.cumsum(share))
    assert labels(ax)[1] == f"together, in all {total[-1]:.0%}"
    assert (ax.get_yscale(), plot_scree(ranker, scale="log").get_yscale()) == ("linear", "log")
    with pytest.raises(ParameterError, match="scale must be"):
        plot_scree(ranker, scale="sqrt")
    with pytest.raises(DataError, match="draws a KPCRank or KPCR"):
        plot_scree(ranker.set_params(options=ComponentOptions(selection="spectral")))
    with pytest.raises(NotFittedError):
        plot_scree(KPCRank(6, scale=None))


def learning_curve(n=3, error=0.2):
    steps = 100 * np.arange(1, n + 1)
    values = {"error": np.full(n, error), "density": steps / 1000, "loss": 1 / steps}
    return {"step": steps, **values}


def test_learning_curves_of_several_rankers():
    ax = plot_learning_curve({"sparse": learning_curve(), "dense": learning_curve(5, 0.1)})
    assert labels(ax) == ["sparse", "dense"]
    assert_allclose(ax.get_lines()[1].get_xdata(), [100, 200, 300, 400, 500])
    assert_allclose(ax.get_lines()[1].get_ydata(), 0.1)
    assert ax.get_ylabel() == "held-out triplets in wrong order"
    ax.figure.canvas.draw()
    ax = plot_learning_curve(learning_curve(), quantity="density", ylabel="share")
    assert ax.get_legend() is None
    assert ax.get_ylabel() == "share"
    assert_allclose(ax.get_lines()[0].get_ydata(), [0.1, 0.2, 0.3])


def test_numbers_of_steps_are_apart():
    steps = np.arange(1, 21) * 10_000
    ax = plot_learning_curve({"step": steps, "error": 1 / steps})
    ax.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
    assert not any(one.overlaps(other) for k, one in enumerate(boxes) for other in boxes[:k])


def test_more_learning_curves_than_colours():
    ax = plot_learning_curve({str(k): learning_curve() for k in range(6)})
    looks = {(line.get_color(), line.get_linestyle()) for line in ax.get_lines()}
    assert len(looks) == 6


@pytest.mark.parametrize(
    ("curves", "quantity", "words"),
    [
        ({}, "error", "no curve to draw"),
        ({"a": {"loss": [1.0]}}, "error", "a does not"),
        (object(), "error", "draws learning_curve_ of a fitted ranker.*got object"),
        ({"step": [], "error": []}, "error", "has no records"),
        ({"a": learning_curve(error=np.nan)}, "error", "pass held_out to fit"),
        ({"a": {"step": [1, 2], "error": [0.5]}}, "error", "2 steps and 1 values"),
    ],
)
def test_learning_curves_that_cannot_be_drawn(curves, quantity, words):
    with pytest.raises(DataError, match=words):
        plot_learning_curve(curves, quantity=quantity)
    with pytest.raises(ParameterError, match="quantity must be one of"):
        plot_learning_curve(learning_curve(), quantity="speed")
