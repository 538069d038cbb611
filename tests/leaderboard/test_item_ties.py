"""Items that tie more often than others."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from rankwise import Leaderboard, load_model, save_model
from rankwise.data import Battles
from rankwise.errors import DataError
from rankwise.leaderboard import battle_likelihood, judge_model
from rankwise.leaderboard.battle_likelihood import ITEM_TIES, Layout, Likelihood, maximize, tally
from rankwise.leaderboard.judge_model import JudgedLikelihood
from tests.leaderboard.test_battles import as_array, check_derivatives, drawn
from tests.oracles.battles import judged_log_likelihood

WORDS = np.array(["first", "second", "tie"])


def likelihoods(link="logit", kinds=()):
    """With item ties, and judges if there are kinds of effects; and the same battle by battle."""
    first, second, outcome, weight, x, judge = drawn(3, n_battles=16)
    counts, _ = tally(first, second, outcome, weight, x, judge if kinds else None)
    likelihood = Likelihood(counts, Layout.of(5, 1, ties=True, item_ties=5), link)
    if kinds:
        likelihood = JudgedLikelihood.of(likelihood, 3, 0, kinds)
    layout = likelihood.layout

    def slow(params):
        common = {"items": params[layout.items], "columns": params[layout.columns]}
        common |= {"tie": params[layout.tie][0], "item_ties": params[layout.item_ties]}
        effects = {kind: params[part] for kind, part in layout.effects.items()}
        rows = zip(first, second, outcome, x, judge, np.zeros(16, dtype=int), strict=True)
        return sum(
            w * judged_log_likelihood(common, effects, row, link, True)
            for w, row in zip(weight, rows, strict=True)
        )

    return likelihood, slow


@pytest.mark.parametrize("kinds", [(), ("slope", "ties", "place")], ids=str)
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_derivatives_are_those_of_single_battles(monkeypatch, link, kinds):
    likelihood, slow = likelihoods(link, kinds)
    at = 0.4 * np.random.default_rng(2).standard_normal(likelihood.layout.size)
    check_derivatives(likelihood, slow, at)
    if kinds:
        _, g, h = likelihood.expansion(at)
        dense = as_array(likelihood.gram(at, g, h, dense=100))
        monkeypatch.setattr(judge_model, "CELLS", 0)  # sparse, as with many judges
        assert_allclose(as_array(likelihood.gram(at, g, h, dense=100)), dense, atol=1e-10)


def test_the_maximum_is_that_of_scipy():
    likelihood, slow = likelihoods()
    penalties = {"items": 0.7, ITEM_TIES: 2.0}
    precision = likelihood.layout.priors(penalties)[1]
    found = minimize(
        lambda params: 0.5 * precision @ params**2 - slow(params),
        np.zeros(len(precision)),
        method="BFGS",
        options={"gtol": 1e-7},
    )
    assert_allclose(maximize(likelihood, penalties).params, found.x, atol=1e-5)


def voted(width, seed=0, n=10, n_battles=2000):
    """Votes on items that differ in ties, and the true probabilities."""
    rng = np.random.default_rng(seed)
    ratings, ties = rng.normal(size=n), width * rng.normal(size=n)
    first = rng.integers(0, n, n_battles)
    second = (first + rng.integers(1, n, n_battles)) % n
    eta, tau = ratings[first] - ratings[second], ties[first] + ties[second] - 0.3
    p = np.column_stack((np.exp(eta / 2), np.exp(-eta / 2), np.exp(tau)))
    p /= p.sum(axis=1, keepdims=True)
    outcome = (rng.random(n_battles)[:, None] > np.cumsum(p, axis=1)[:, :2]).sum(axis=1)
    extra = {"judge": rng.integers(0, 6, n_battles), "time": np.arange(n_battles)}
    extra["category"] = rng.integers(0, 2, n_battles)
    extra["groups"] = np.arange(n_battles) // 2
    return Battles.of(first, second, WORDS[outcome], items=range(n), **extra), ties


def only(battles, *names):
    """Battles with some of their columns."""
    columns = ("judge", "time", "category", "groups")
    return replace(battles, **{name: None for name in columns if name not in names})


def fitted(battles, **options):
    return Leaderboard(n_draws=100, ties="by item", **options).fit(battles)


def log_loss(board, battles):
    first, second = battles.items[battles.pairs].T
    p = board.predict_proba(first, second)
    return -np.log(p[np.arange(len(p)), battles.outcome]).mean()


def test_effects_are_found_and_predict():
    battles, ties = voted(0.6)
    train, test = (only(battles.take(slice(k, k + 1000))) for k in (0, 1000))
    plain, board = Leaderboard(n_draws=100).fit(train), fitted(train)
    assert log_loss(board, test) < log_loss(plain, test) - 0.01
    assert board.tie_width_ == pytest.approx(0.6, abs=0.25)
    error = abs(board.item_ties_ - ties + ties.mean()) / board.item_ties_std_
    assert (error < 3).all()
    assert abs(board.item_ties_.mean()) < 1e-8
    table = board.item_ties()
    assert (table["low"] < table["ties"]).all()
    assert (np.diff(table["ties"]) <= 0).all()
    assert "ties" in str(table)


@pytest.mark.parametrize("dense", [3000, 5])
def test_chance_is_not_kept(monkeypatch, dense):
    battles = only(voted(0.0)[0], "groups")
    monkeypatch.setattr(battle_likelihood, "DENSE", dense)
    board = fitted(battles)
    assert board.item_ties_ is None
    assert_allclose(board.ratings_, Leaderboard(n_draws=100).fit(battles).ratings_)
    table = board.item_ties()
    assert "by more than chance" in str(table)
    assert np.isnan(table["low"]).all()
    assert "nan" not in str(table)


def test_held_out_votes_decide_without_a_matrix(monkeypatch):
    battles = only(voted(0.6)[0])
    exact = fitted(battles)
    monkeypatch.setattr(battle_likelihood, "DENSE", 5)
    assert_allclose(fitted(battles).item_ties_, exact.item_ties_, atol=0.1)


@pytest.mark.parametrize(
    ("column", "options"),
    [
        ("judge", {}),
        ("category", {}),
        ("time", {"drift": "evidence", "period": 250.0}),
        ("time", {"half_life": 20_000.0}),
        ("groups", {"penalty": 1.0}),
    ],
    ids=str,
)
def test_with_other_models(column, options):
    battles = only(voted(0.6, n_battles=1000)[0], column)
    found = fitted(battles, **options)
    assert_allclose(found.item_ties_, fitted(only(battles)).item_ties_, atol=0.1)
    assert np.isfinite(found.item_ties_std_).all()


def test_judges_who_differ_are_joined_with_items_that_tie():
    battles = only(voted(0.6)[0], "judge")
    outcome = np.where((battles.judge == 0) & (battles.outcome == 2), 0, battles.outcome)
    board = fitted(replace(battles, outcome=outcome))
    assert "ties" in board.judge_kinds_
    assert board.item_ties_ is not None
    p = board.predict_proba([0, 0], [1, 1], judge=[0, 1])
    assert p[0, 2] < p[1, 2]


def test_updates_files_and_fragility(tmp_path):
    battles = only(voted(0.6, n_battles=800)[0])
    whole = fitted(battles)
    board = fitted(battles.take(slice(0, 600))).update(battles.take(slice(600, 800)))
    assert_allclose(board.item_ties_, whole.item_ties_, atol=1e-7)
    save_model(board, tmp_path / "board.rankwise")
    loaded = load_model(tmp_path / "board.rankwise")
    assert str(loaded.item_ties()) == str(board.item_ties())
    assert_allclose(loaded.predict_proba([0], [1]), board.predict_proba([0], [1]))
    assert "leads" in str(loaded.fragility())


def test_what_is_refused():
    with pytest.raises(DataError, match="by item"):
        Leaderboard(n_draws=100).fit(only(voted(0.6)[0])).item_ties()
