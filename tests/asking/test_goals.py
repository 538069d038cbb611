"""Goals, how far they are, and the pairs that lead there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise.asking import Session
from rankwise.asking.goals import Goal, about, choose_pairs, discordant, top_probabilities
from rankwise.asking.item_model import MANY, DenseScores, DrawnScores
from rankwise.asking.standings import Ranking, slip_rate
from rankwise.errors import ParameterError
from rankwise.estimators.pair_strategies import STRATEGIES
from tests.oracles.asking import best_items, outcome_information, wrong_pairs


@given(st.lists(st.lists(st.integers(0, 4), min_size=5, max_size=5), min_size=1, max_size=4))
def test_errors_are_those_of_a_count(draws):
    draws = np.array(draws) + np.linspace(0, 0.1, 5)
    mean = np.array([0.3, -1.0, 2.0, 0.1, 0.0])
    order = np.argsort(-mean)
    assert_allclose(Goal().errors(mean, draws), [wrong_pairs(order, d) for d in draws])
    top = Goal("top", k=2).errors(mean, draws)
    assert_allclose(top, [2 - len(best_items(d, 2) & set(order[:2])) for d in draws])
    share = [np.mean([i in best_items(d, 2) for d in draws]) for i in range(5)]
    assert_allclose(top_probabilities(draws, 2), share)
    assert_allclose(discordant(draws[:, :1]), 0)


@pytest.mark.parametrize("goal", [Goal(), Goal("top", k=2)])
def test_errors_of_several_rankings_at_once(goal):
    means, draws = np.random.default_rng(0).standard_normal((2, 6, 5))
    one_by_one = [goal.errors(m, d[None])[0] for m, d in zip(means, draws, strict=True)]
    assert_allclose(goal.errors(means, draws), one_by_one)


def test_answers_left_hardly_depend_on_the_futures_drawn(monkeypatch):
    scores = DenseScores(np.arange(6.0)[::-1], 2 * np.eye(6))
    draw, found = np.random.default_rng, []
    for seed in range(5):
        monkeypatch.setattr(np.random, "default_rng", lambda _, seed=seed: draw(seed))
        found.append(Goal("top", k=2).answers_left(scores, 0.05))
    assert max(found) < 3 * min(found)


def test_the_first_pair_is_the_most_informative():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 6))
    mean, covariance = rng.standard_normal(6), root @ root.T
    pairs = [(i, j) for i in range(6) for j in range(i + 1, 6)]
    spread = np.diagonal(covariance)
    worth = [
        outcome_information(mean[i] - mean[j], spread[i] + spread[j] - 2 * covariance[i, j], 0.05)
        for i, j in pairs
    ]
    (chosen,) = choose_pairs(DenseScores(mean, covariance), 1, slips=0.05, rng=rng)
    assert worth[pairs.index(chosen)] >= max(worth) - 0.03  # the error of the closed form


def test_pairs_that_are_taken_or_skipped_are_left_out():
    rng = np.random.default_rng(0)
    mean, covariance = np.zeros(4), np.eye(4)
    covariance[0, 0] = 5.0
    everything = choose_pairs(DenseScores(mean, covariance), 10, slips=0.05, rng=rng)
    assert len(everything) == len(set(everything)) == 6
    given = {"taken": [(0, 1), (0, 2)], "skips": {(0, 3): 3}}
    some = choose_pairs(DenseScores(mean, covariance), 10, slips=0.05, rng=rng, **given)
    assert set(some) == set(everything) - {(0, 1), (0, 2)}
    assert 0 in everything[0]
    assert some[0] != (0, 3)
    first = choose_pairs(
        DenseScores(mean, np.eye(4)), 2, slips=0.0, weights=np.array([1, 9, 9, 1]), rng=rng
    )
    assert first[0] == (1, 2)


class ByNumber:
    """A strategy that takes the last candidates."""

    def choose(self, belief, n_pairs):
        assert belief.covariance.shape == (len(belief.rows),) * 2
        return np.arange(len(belief.pairs))[::-1][:n_pairs]


@pytest.mark.parametrize("n", [6, MANY + 50])
@pytest.mark.parametrize("strategy", [*STRATEGIES, ByNumber()])
def test_every_strategy_chooses_pairs(strategy, n):
    rng = np.random.default_rng(0)
    mean = rng.standard_normal(n)
    around = rng.standard_normal((50, n))
    scores = DenseScores(mean, np.eye(n)) if n < MANY else DrawnScores(mean, around)
    given = {"taken": [(0, 1)], "skips": {(2, 3): 1}, "strategy": strategy}
    found = choose_pairs(scores, 5, slips=0.05, rng=rng, **given)
    assert len(set(found)) == 5
    assert all(0 <= i < j < n for i, j in found)
    assert (0, 1) not in found
    only = {(i, j) for j in range(3) for i in range(j)}
    few = DenseScores(mean[:3], np.eye(3))
    assert choose_pairs(few, 5, slips=0.05, rng=rng, strategy=strategy, taken=only) == []


def test_a_session_takes_strategies_and_refuses_others(rate):
    for strategy in ("eubo", ByNumber()):
        session = Session("abcd", strategy=strategy)
        rate(session, 3)
        assert session.n_answers() == 3
    with pytest.raises(ParameterError, match="strategy must be one of goal, bald, eubo"):
        Session("abcd", strategy="best")


def test_many_items_are_compared_with_their_neighbours():
    rng = np.random.default_rng(0)
    mean = rng.permutation(600).astype(float)
    rank = np.argsort(np.argsort(mean))
    pairs = choose_pairs(DenseScores(mean, np.eye(600)), 20, slips=0.05, rng=rng)
    assert all(i < j and abs(rank[i] - rank[j]) <= 40 for i, j in pairs)
    assert len(set(pairs)) == 20


def test_a_goal_is_reached_when_little_is_open():
    mean = np.arange(6.0)
    goals = [Goal(), Goal("top", k=2), Goal("top"), Goal("top", k=3, wrong=1)]
    for goal in goals:
        assert not goal.progress(DenseScores(mean, 4 * np.eye(6))).met
        sure = goal.progress(DenseScores(mean, 1e-4 * np.eye(6)))
        assert sure.met
        assert sure.expected_wrong == sure.at_most_wrong == 0
        near, far = (goal.answers_left(DenseScores(mean, v * np.eye(6)), 0.05) for v in (0.2, 2.0))
        assert 0 < near <= far
    assert Goal().answers_left(DenseScores(mean, 2 * np.eye(6)), 0.05) > 3
    assert Goal("top", k=6).progress(DenseScores(mean, np.eye(6))).met


def test_a_goal_for_so_many_items():
    assert Goal("top", k=5, wrong=1).for_items(3) == Goal("top", k=3)
    assert Goal("top", k=5, wrong=1).for_items(6) == Goal("top", k=5, wrong=1)
    assert Goal(wrong=0.01).for_items(3) == Goal(wrong=0.01)
    assert Goal().for_items(7) == Goal()
    assert str(Goal().for_items(6)).startswith("The whole order, with at most 6.67% of pairs wrong")
    mean = np.arange(5.0)
    one_wrong = mean[[1, 0, 2, 3, 4]][None]
    for n in (2, 3, 5):
        goal = Goal().for_items(n)
        assert (goal.errors(mean[:n], one_wrong[:, :n])[0] <= goal.tolerance) == (n > 2)


def test_goals_in_words():
    assert str(Goal("top", k=5, wrong=1, sure=0.9)) == "The top 5, but for 1 item (90% sure)"
    for wrong in (
        {"kind": "all"},
        {"k": 0},
        {"sure": 1.0},
        {"wrong": 0.7},
        {"kind": "top", "wrong": 1},
    ):
        with pytest.raises(ParameterError):
            Goal(**wrong)
    assert [about(n) for n in (3, 42, 123, 480, 2600)] == [
        "A few more answers",
        "About 40 more answers",
        "About 120 more answers",
        "About 500 more answers",
        "About 2,500 more answers",
    ]
    progress = Goal("top", k=2).progress(DenseScores(np.arange(4.0), np.eye(4)))
    assert "of the first 2 items" in str(progress)
    assert "is the best with" in str(Goal("top").progress(DenseScores(np.arange(4.0), np.eye(4))))


def test_intervals_are_of_contrasts():
    mean, level = np.array([1.0, 0.0, -1.0]), 100.0  # the level of all scores is not known
    ranking = Ranking.of("abc", DenseScores(mean, 0.01 * np.eye(3) + level), np.zeros(3, int), k=1)
    assert ranking.items == list("abc")
    assert_allclose(ranking.high - ranking.low, 2 * 1.645 * 0.1 * np.sqrt(2 / 3), rtol=1e-3)
    assert ranking.rank_low.tolist() == ranking.rank_high.tolist() == [1, 2, 3]
    assert_allclose(ranking.p_top, [1, 0, 0])
    assert list(ranking.to_frame().columns)[:2] == ["rank", "score"]


def test_draws_have_the_moments():
    covariance = np.array([[2.0, 1.0], [1.0, 1.0]])
    draws = DenseScores(np.array([1.0, -1.0]), covariance).draws(20_000)
    assert_allclose(draws.mean(axis=0), [1, -1], atol=0.05)
    assert_allclose(np.cov(draws.T), covariance, atol=0.08)
    same = DenseScores(np.zeros(2), np.ones((2, 2)) - 1e-6 * np.eye(2)).draws(50)  # indefinite
    assert_allclose(same[:, 0], same[:, 1], atol=0.02)


def test_slips_are_found():
    rng = np.random.default_rng(0)
    sure = np.full(400, 0.99)  # the others are sure who is better
    slipped = rng.random(400) < 0.2
    mean, low, high = slip_rate(np.where(slipped, 1 - sure, sure))
    assert low < 0.2 < high
    assert abs(mean - 0.2) < 0.05
    assert slip_rate(np.zeros(0))[0] == pytest.approx(0.05, abs=0.005)


@pytest.mark.parametrize("k", [3, 99])
def test_all_items_are_no_goal(k):
    with pytest.raises(ParameterError, match=f"top {k} of 3 items are all of them"):
        Session(["a", "b", "c"], goal=Goal("top", k=k))
    assert Session(["a", "b", "c"], goal=Goal("top", k=2)).settings.goal.k == 2
