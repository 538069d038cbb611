"""How few battles decide: influence, refits, groups, pairs."""

from dataclasses import replace

import numpy as np
import pytest

from rankwise import Leaderboard
from rankwise.data import Battles, Rankings, make_battles
from rankwise.errors import DataError, ParameterError
from rankwise.leaderboard.fragility import Removable
from tests.oracles.battles import dense_newton, fewest_battles

MADE = make_battles(6, 300, random_state=2).battles


@pytest.fixture(scope="module")
def board():
    return Leaderboard().fit(MADE)


def leader(board):
    return board.items_[np.argmax(board.ratings_)]


def refitted(board, keep):
    return Leaderboard(n_draws=100).fit(board.battles_.take(keep))


@pytest.mark.parametrize("seed", range(2))
def test_the_number_is_that_of_all_sets_of_battles(seed):
    """Or one more, where the most influential battles are not the best set."""
    rng = np.random.default_rng(seed)
    pairs = np.array([(i, j) for i in range(3) for j in range(i)] * 7)
    outcome = (rng.random(len(pairs)) < 0.55).astype(int)
    made = Battles(np.arange(3), pairs, outcome, np.ones(len(pairs)))
    board = Leaderboard(penalty=0.5, n_draws=200).fit(made)
    found = board.fragility()

    def changes(removed):
        keep = np.setdiff1d(np.arange(len(pairs)), removed)
        singles = [(*pairs[k], outcome[k], np.zeros(0)) for k in keep]
        ratings = dense_newton(singles, np.ones(len(keep)), 3, 0.5)[0][:3]
        return ratings.max() - ratings[leader(board)] > 1e-7  # not if they are tied

    assert changes(found.removed)
    assert not changes(found.removed[:-1])
    fewest = fewest_battles(len(pairs), changes, min(found.n_removed, 2))
    if found.n_removed <= 2:
        assert found.n_removed - 1 <= fewest <= found.n_removed


@pytest.mark.parametrize("by", ["battles", "groups"])
def test_without_the_removed_the_leader_changes(board, by):
    found = board.fragility(by=by)
    unit = np.arange(len(MADE)) if by == "battles" else MADE.groups
    again = refitted(board, ~np.isin(unit, found.removed))
    assert leader(again) != leader(board)
    assert leader(refitted(board, ~np.isin(unit, found.removed[:-1]))) == leader(board)
    assert f"{leader(again)} leads instead of {leader(board)}" in str(found)
    assert found.n_removed == len(found.removed)
    assert found.n_units == (np.sum(MADE.outcome != 3) if by == "battles" else board.n_groups_)
    assert found.n_refits >= 1


@pytest.mark.parametrize("of", ["votes", "votes beside right answers"])
def test_the_influence_of_battles_is_that_of_refits(of):
    rng, n = np.random.default_rng(0), 120
    first, second = np.array([(i, j) for i in range(4) for j in range(4) if i != j] * 10).T
    won = np.where((second - first) / 3 + rng.logistic(size=n) > 0, "first", "second")
    votes = np.where(rng.random(n) < 0.8, won, "first")
    right = None if of == "votes" else np.where(np.arange(n) % 2, None, won)
    board = Leaderboard(penalty=1.0, n_draws=100).fit(first, second, votes, gold=right)
    pair = np.array([[0, 3]])
    falls = board._falls(None, pair, Removable.of(board.battles_, "battles"))[0, :30]
    few = Leaderboard(penalty=1.0, n_draws=100)
    rest = [few.fit(board.battles_.take(np.arange(n) != k)).ratings_ for k in range(30)]
    seen = [board.ratings_[0] - board.ratings_[3] - (r[0] - r[3]) for r in rest]
    assert np.corrcoef(falls, seen)[0, 1] > 0.99


@pytest.mark.filterwarnings("ignore::rankwise.errors.RankwiseWarning")
def test_old_battles_without_weight_and_groups_of_two_kinds():
    n = len(MADE)
    old = Leaderboard(half_life=0.1, n_draws=100).fit(replace(MADE, time=1.0 * np.arange(n)))
    assert old.fragility().n_units == np.sum(MADE.outcome != 3)
    two = np.column_stack((MADE.groups, np.arange(n) % 30)).astype(object)
    with pytest.raises(DataError, match="one column of groups"):
        Leaderboard(n_draws=100).fit(replace(MADE, groups=two)).fragility(by="groups")


def test_the_first_items_and_pairs(board):
    order = board.standings()["item"]
    found = board.fragility(2)
    again = refitted(board, ~np.isin(np.arange(len(MADE)), found.removed))
    assert set(again.standings()["item"][:2]) != set(order[:2])
    assert "is among the first 2 instead of" in str(found)
    near = board.fragility((order[1], order[0]))
    assert f"{order[1]} is ahead of {order[0]}" in str(near)
    far = Leaderboard().fit(["a", "b"] * 50, ["b", "a"] * 50, [1, 0, 1, 0, 1, 0, 1, 0, 0, 1] * 10)
    assert far.settled()[0, 1] == 1
    unsettled = far.fragility(("a", "b"))
    assert "the order of a and b is not settled" in str(unsettled)
    keep = ~np.isin(np.arange(100), unsettled.removed)
    assert Leaderboard().fit(far.battles_.take(keep)).settled()[0, 1] == 0
    for change, error in ((0, ParameterError), ("last", ParameterError), (("a", "x"), DataError)):
        with pytest.raises(error):
            far.fragility(change)
    with pytest.raises(DataError, match="no groups"):
        far.fragility(by="groups")


def test_no_small_number_of_battles_changes_a_clear_order():
    clear = Leaderboard().fit(["a"] * 60, ["b"] * 60, [1] * 59 + [0])
    found = clear.fragility()
    assert found.n_removed is None
    assert len(found.removed) == 0
    assert str(found).startswith("No removal of up to half of the 60 battles was found")


def test_battles_without_a_winner_show_no_other_order():
    board = Leaderboard(n_draws=100).fit(["a", "b"] * 20, ["b", "c"] * 20, ["tie"] * 39 + [1])
    assert str(board.fragility()).startswith("No removal of up to half of the 40 battles")


def test_rankings_judges_and_features_of_items():
    rng = np.random.default_rng(0)
    lists = [np.argsort(-(0.2 * np.arange(5) + rng.gumbel(size=5))).tolist() for _ in range(60)]
    features = {k: [k % 2] for k in range(5)}
    board = Leaderboard().fit_rankings(lists, item_features=features)
    found = board.fragility(item_features=features)
    assert "of 60 rankings" in str(found)
    keep = ~np.isin(np.arange(60), found.removed)
    again = Leaderboard().fit_rankings(Rankings.of(lists).take(keep), item_features=features)
    assert leader(again) != leader(board)
    with pytest.raises(DataError, match="Pass item_features"):
        board.fragility()
    judged = make_battles(4, 200, n_judges=3, random_state=0).battles
    assert Leaderboard().fit(judged).fragility().n_removed >= 1
