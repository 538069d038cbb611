"""Many items: sparse inference gives what the dense one does, with draws for a covariance."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwise.asking.goals import Goal, choose_pairs, close_pair, discordant, expected_wrong
from rankwise.asking.item_model import (
    MANY,
    Comparison,
    DenseScores,
    DrawnScores,
    ItemModel,
    ManyItems,
    model_of,
)
from rankwise.asking.items import Item
from rankwise.asking.standings import Ranking
from tests.oracles.asking import wrong_pairs


@pytest.fixture
def draw():
    """Scores, and answers of raters who compare with noise and now and then a slip."""

    def draw(n_items, n_answers, width=0.0, features=None):
        rng = np.random.default_rng(7)
        scores = 1.5 * rng.standard_normal(n_items)
        if features is not None:
            scores = features @ np.array([1.5, -1.0])
        out = []
        for _ in range(n_answers):
            i, j = map(int, rng.choice(n_items, 2, replace=False))
            gap = scores[i] - scores[j] + rng.standard_normal()
            outcome = "first" if (gap > 0) ^ (rng.random() < 0.04) else "second"
            out.append(Comparison(i, j, "tie" if abs(gap) < width else outcome, "me"))
        return scores, out

    return draw


@pytest.mark.parametrize("width", [0.0, 0.4])
def test_the_posterior_is_close_to_that_of_few_items(draw, width):
    n = 50
    _, answers = draw(n, 500, width)
    few, many = ItemModel(n).fit(answers), ManyItems(n).fit(answers)
    one, other = few.scores(), many.scores()
    i, j = np.triu_indices(n, 1)
    error = (one.mean[i] - one.mean[j]) - (other.mean[i] - other.mean[j])
    assert (np.abs(error) / np.sqrt(one.variance(i, j))).max() < 0.6
    assert 0.7 < np.median(other.variance(i, j) / one.variance(i, j)) < 1.2
    ours, theirs = many.held_out(), few.held_out()
    assert_allclose(ours.margin, theirs.margin)
    assert np.abs(ours.probability - theirs.probability).mean() < 0.03


def test_few_answers_with_ties_about_many_items(draw):
    """Each item has one answer, so that a variance of draws can be too large for a site."""
    for n_answers in range(20, 120, 10):
        _, answers = draw(420, n_answers, 0.2)
        assert np.isfinite(ManyItems(420).fit(answers).scores().mean).all()


def test_intervals_hold_what_they_say(draw):
    scores, answers = draw(500, 4000)
    found = ManyItems(500).fit(answers).scores()
    i, j = np.random.default_rng(0).choice(500, (2, 2000))
    i, j = i[i != j], j[i != j]
    error = (found.mean - scores)[i] - (found.mean - scores)[j]
    assert 0.82 < np.mean(np.abs(error) < 1.645 * np.sqrt(found.variance(i, j))) < 0.95
    assert expected_wrong(found).sum() / (500 * 499) == pytest.approx(
        discordant(scores[None, np.argsort(-found.mean)])[0], abs=0.03
    )


def test_features_say_something_about_items_that_were_not_compared(draw):
    features = np.random.default_rng(0).standard_normal((300, 2))
    scores, answers = draw(100, 400, features=features)  # of the first 100 items only
    found = ManyItems(300, features).fit(answers).scores()
    assert np.corrcoef(found.mean[100:], scores[100:])[0, 1] > 0.9


def test_the_order_of_answers_does_not_matter(draw):
    _, answers = draw(30, 90)
    turned = [c.normalized() for c in reversed(answers)]
    one, other = (ManyItems(30).fit(given).scores() for given in (answers, turned))
    assert_allclose(one.mean, other.mean)
    assert_allclose(one.around, other.around)


def test_further_answers_are_learned(draw):
    _, answers = draw(60, 400)
    model = ManyItems(60).fit(answers[:380])
    model.tell(answers[380:])
    whole = ManyItems(60).fit(answers).scores()
    assert np.abs(model.scores().mean - whole.mean).max() < 0.3
    assert len(model.held_out().mean) == 400


def test_without_answers_the_posterior_is_the_prior():
    scores = ManyItems(20).scores()
    assert_allclose(scores.mean, 0)
    assert_allclose(scores.spread().mean(), 2.0, rtol=0.1)
    assert not len(ManyItems(20).held_out().mean)


def test_which_model_items_have():
    assert isinstance(model_of([Item(str(k)) for k in range(MANY)]), ItemModel)
    assert isinstance(model_of([Item(str(k)) for k in range(MANY + 1)]), ManyItems)


def test_draws_stand_for_a_covariance():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 6))
    covariance, mean = root @ root.T, rng.standard_normal(6)
    dense = DenseScores(mean, covariance)
    drawn = DrawnScores(mean, dense.draws(40_000) - mean)
    i, j = np.triu_indices(6, 1)
    assert_allclose(drawn.variance(i, j), dense.variance(i, j), rtol=0.05)
    assert_allclose(drawn.spread(), dense.spread(), rtol=0.05)
    assert_allclose(drawn.contrast(), dense.contrast(), rtol=0.05)
    assert_allclose(drawn.covariance_of(slice(2, 4)), covariance[2:4], atol=0.2)
    assert_allclose(expected_wrong(drawn), expected_wrong(dense), atol=0.05)
    one, other = (Ranking.of("abcdef", s, np.zeros(6, int), k=2) for s in (dense, drawn))
    assert one.items == other.items
    assert_allclose(one.high, other.high, rtol=0.05)


def test_errors_of_many_items_are_those_of_a_count():
    n = MANY + 1
    draws = np.random.default_rng(0).standard_normal((2, n))
    assert_allclose(discordant(draws), [wrong_pairs(np.arange(n), d) for d in draws])


def test_answers_left_take_one_factorization(monkeypatch):
    """For each number of answers there were one of each, 22 s for 500 items."""
    n_calls = 0

    def counted(function):
        def call(*given):
            nonlocal n_calls
            n_calls += 1
            return function(*given)

        return call

    for name in ("eigh", "cholesky"):
        monkeypatch.setattr(np.linalg, name, counted(getattr(np.linalg, name)))
    scores = DenseScores(np.linspace(-2, 2, 30), 0.5 * np.eye(30))
    assert Goal().answers_left(scores, 0.05) > 10
    assert n_calls == 1
    assert Goal().answers_left(DrawnScores(np.linspace(-2, 2, 30), scores.draws(50)), 0.05) > 10
    assert n_calls == 2  # of the draws


def test_pairs_of_many_items_have_none_in_common():
    rng = np.random.default_rng(0)
    scores = DrawnScores(rng.standard_normal(450), rng.standard_normal((50, 450)))
    chosen = choose_pairs(scores, 100, slips=0.04, rng=rng)
    assert len({item for pair in chosen for item in pair}) == 200


def test_a_close_pair():
    mean, rng = np.array([3.0, 0.0, 2.0, 1.0]), np.random.default_rng(0)
    every = {(i, j) for j in range(4) for i in range(j)}
    assert close_pair(mean, every - {(0, 1)}, rng) == (0, 1)
    assert close_pair(mean, every, rng) is None
    assert {close_pair(mean, (), rng) for _ in range(30)} == {(0, 2), (2, 3), (1, 3)}


def test_one_tie_among_many_answers_changes_little(draw):
    """Before, the interval of ties had the largest width if there were fewer than expected."""
    _, answers = draw(450, 4000)
    first = answers[0]
    tied = [Comparison(first.first, first.second, "tie", "me"), *answers[1:]]
    one, other = (ManyItems(450).fit(given).scores() for given in (answers, tied))
    assert_allclose(other.mean, one.mean, atol=0.5)


@pytest.mark.slow
@pytest.mark.ci
def test_no_matrix_of_all_items_is_made(draw):
    """A covariance of 5,000 items would have 200 MB."""

    def progress(n):
        scores = ManyItems(n).fit(draw(n, 40)[1]).scores()
        Goal().progress(scores)
        expected_wrong(scores)

    progress(50)  # what is imported now is not measured
    n = 3000
    tracemalloc.start()
    try:
        progress(n)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * n**2
