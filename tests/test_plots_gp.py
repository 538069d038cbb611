"""Plots of the pairwise Gaussian process."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwise import PairwiseGP
from rankwise.errors import DataError, ParameterError
from rankwise.plots import plot_item_ranking, plot_posterior, plot_reliability

X = np.linspace(0, 3, 12)[:, None]


@pytest.fixture
def gp():
    return PairwiseGP(optimizer=None).fit_pairs(X, [[11, 0], [8, 2], [9, 4], [7, 1], [10, 6]])


def test_the_band_shows_the_posterior(gp):
    rows = X[::-1]
    ax = plot_posterior(gp, rows, offset=2.0, label="GP")
    mean, cov = gp.predict(X, return_cov=True)
    centre = np.eye(len(X)) - 1 / len(X)
    mean, std = centre @ mean, np.sqrt(np.diagonal(centre @ cov @ centre))
    assert_allclose(ax.get_lines()[0].get_xdata(), X[:, 0])
    assert_allclose(ax.get_lines()[0].get_ydata(), mean + 2.0)
    vertices = ax.collections[0].get_paths()[0].vertices
    assert vertices[:, 1].max() == pytest.approx((mean + 1.96 * std).max() + 2.0)
    assert plot_posterior(gp, X, ax=ax) is ax
    with pytest.raises(DataError, match="one feature"):
        plot_posterior(gp, np.ones((3, 2)))


def test_rows_are_sorted_from_best_to_worst(gp):
    names = [f"item {k}" for k in range(12)]
    ax = plot_item_ranking(gp, X, names=names, top=4)
    shown = [tick.get_text() for tick in ax.get_yticklabels()]
    assert shown == [names[k] for k in np.argsort(-gp.predict(X))[:4]]
    mean, cov = gp.predict(X, return_cov=True)
    centre = np.eye(12) - 1 / 12
    spread = np.sqrt(np.diagonal(centre @ cov @ centre))
    best = int(np.argmax(mean))
    low, high = ax.collections[0].get_segments()[0][:, 0]
    assert high - low == pytest.approx(2 * 1.96 * spread[best])
    title, *ranks = (text.get_text() for text in ax.texts)
    assert (title, len(ranks)) == ("rank", 4)
    chance = gp.rank_probabilities(X, random_state=0)[best]
    inside = np.flatnonzero((np.cumsum(chance) > 0.025) & (np.cumsum(chance) - chance < 0.975)) + 1
    assert ranks[0] == f"{inside[0]}\u2013{inside[-1]}"
    assert len(plot_item_ranking(gp, X[:2]).get_yticklabels()) == 2
    with pytest.raises(DataError, match="Each item needs a name"):
        plot_item_ranking(gp, X, names=["a"])
    with pytest.raises(ParameterError, match="top must be"):
        plot_item_ranking(gp, X, top=0)


def test_reliability_shows_observed_frequencies():
    rng = np.random.default_rng(0)
    chance = rng.random(5000)
    outcome = rng.random(5000) < chance
    ax = plot_reliability(outcome, {"honest": chance, "half": np.full(5000, 0.5)}, n_bins=5)
    line = ax.get_lines()[1]
    assert_allclose(line.get_xdata(), line.get_ydata(), atol=0.05)
    order = np.argsort(chance)
    assert line.get_ydata()[0] == pytest.approx(outcome[order[:1000]].mean())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["honest", "half"]
    assert ax.get_xlabel() == "predicted probability\n5,000 predictions, 1,000 in each bin"
    assert ax.get_xlim()[0] < 0
    assert ax.get_xlim()[1] > 1


def test_reliability_says_on_which_data():
    ax = plot_reliability([0, 1, 1, 0, 1], np.linspace(0, 1, 5), n_bins=2, data="held-out pairs")
    assert ax.get_xlabel().splitlines()[1] == "5 held-out pairs, 2 or 3 in each bin"


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([0, 1], [0.1]), DataError, "one entry for each outcome"),
        (([0, 1], [0.1, 1.2]), DataError, "between 0 and 1"),
        (([0, 1], {"a": [0.1, np.nan]}), DataError, "between 0 and 1"),
    ],
)
def test_invalid_arguments_of_reliability(arguments, error, words):
    with pytest.raises(error, match=words):
        plot_reliability(*arguments, n_bins=1)
    with pytest.raises(ParameterError, match="n_bins must be"):
        plot_reliability([0, 1], [0.1, 0.2], n_bins=3)
