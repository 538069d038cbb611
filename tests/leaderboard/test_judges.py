"""Judges who differ: derivatives, maxima, what the evidence keeps, predictions, tables."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from rankwise import Leaderboard, load_model, save_model
from rankwise.data import Battles, make_battles
from rankwise.errors import DataError, ParameterError
from rankwise.leaderboard import judge_model
from rankwise.leaderboard.battle_likelihood import Layout, Likelihood, davidson, maximize, tally
from rankwise.leaderboard.judge_model import KINDS, JudgedLikelihood, with_slips
from reproduce.leaderboard.judged import DESIGNS, Design, log_loss, losses, make_judged
from tests.leaderboard.test_battles import as_array, check_derivatives, drawn
from tests.oracles.battles import judged_log_likelihood


def judged(kinds, *, ties=True, link="logit", gold=False, deviation=0.0, seed=1):
    """A likelihood with three judges, and the same log-likelihood battle by battle."""
    first, second, outcome, weight, x, judge = drawn(seed, n_battles=16)
    known = np.random.default_rng(seed).integers(0, 4, len(first)) if gold else None
    counts, _ = tally(first, second, outcome, weight, x, judge, known)
    plain = Likelihood(counts, Layout.of(5, 1, ties=ties), link)
    likelihood = JudgedLikelihood.of(plain, 3, 0, kinds)
    likelihood = replace(likelihood, deviation=deviation * np.arange(1.0, 4.0))
    layout = likelihood.layout

    def slow(params):
        common = {"items": params[layout.items], "columns": params[layout.columns]}
        for name in ("tie", "slip", "gold"):
            part = params[getattr(layout, name)]
            common[name] = part[0] if len(part) else 0.0
        effects = {kind: params[part] for kind, part in layout.effects.items()}
        golds = np.zeros(len(first), dtype=int) if known is None else known
        rows = zip(first, second, outcome, x, judge, golds, strict=True)
        return sum(
            w * judged_log_likelihood(common, effects, row, link, ties, likelihood.deviation)
            for w, row in zip(weight, rows, strict=True)
        )

    return likelihood, slow


@pytest.mark.parametrize(
    ("kinds", "options"),
    [
        (("slope", "ties", "place"), {}),
        (("slope", "ties", "place"), {"deviation": 0.3}),
        (KINDS, {"deviation": 0.2, "gold": True}),
        (KINDS, {"link": "probit"}),
        (("slope", "place"), {"ties": False, "deviation": 0.2}),
        (("slips",), {}),
    ],
    ids=str,
)
def test_derivatives_are_those_of_single_battles(monkeypatch, kinds, options):
    likelihood, slow = judged(kinds, **options)
    at = 0.4 * np.random.default_rng(2).standard_normal(likelihood.layout.size)
    check_derivatives(likelihood, slow, at, bends="slips" not in kinds)
    _, g, h = likelihood.expansion(at)
    dense = as_array(likelihood.gram(at, g, h, dense=100))
    monkeypatch.setattr(judge_model, "CELLS", 0)  # sparse, as with many judges
    assert_allclose(as_array(likelihood.gram(at, g, h, dense=100)), dense, atol=1e-10)


@pytest.mark.slow
@pytest.mark.ci
@given(
    st.integers(0, 2**16),
    st.sets(st.sampled_from(KINDS), min_size=1),
    st.booleans(),
    st.sampled_from(["logit", "probit"]),
    st.sampled_from([0.0, 0.3]),
)
def test_derivatives_with_any_effects(seed, chosen, gold, link, deviation):
    kinds = tuple(kind for kind in KINDS if kind in chosen)
    likelihood, slow = judged(kinds, gold=gold, link=link, deviation=deviation, seed=seed)
    at = 0.4 * np.random.default_rng(seed).standard_normal(likelihood.layout.size)
    check_derivatives(likelihood, slow, at, bends="slips" not in kinds)


def test_ratings_and_slopes_alone_have_no_other_columns(monkeypatch):
    first, second, outcome, weight, x, judge = drawn(1, n_battles=16)
    counts, _ = tally(first, second, outcome, weight, x[:, :0], judge)
    plain = Likelihood(counts, Layout.of(5, 0, ties=False), "logit")
    likelihood = JudgedLikelihood.of(plain, 3, 0, ("slope",))
    at = 0.4 * np.random.default_rng(2).standard_normal(likelihood.layout.size)
    _, g, h = likelihood.expansion(at)
    dense = as_array(likelihood.gram(at, g, h, dense=100))
    monkeypatch.setattr(judge_model, "CELLS", 0)
    assert_allclose(as_array(likelihood.gram(at, g, h, dense=100)), dense, atol=1e-10)


def test_the_maximum_is_that_of_scipy(monkeypatch):
    likelihood, slow = judged(("slope", "ties", "place"), deviation=0.2)
    penalties = {"items": 0.7, "slope": 3.0, "ties": 2.0, "place": 4.0}
    precision = likelihood.layout.priors(penalties)[1]
    found = minimize(
        lambda params: 0.5 * precision @ params**2 - slow(params),
        np.zeros(len(precision)),
        method="BFGS",
        options={"gtol": 1e-7},
    )
    mode = maximize(likelihood, penalties)
    assert_allclose(mode.params, found.x, atol=1e-5)
    _, g, h = likelihood.expansion(mode.params)
    K = as_array(likelihood.gram(mode.params, g, h, dense=100)) + np.diag(precision)
    inverse = np.linalg.inv(K)
    R = np.random.default_rng(0).standard_normal((len(K), 2))
    groups = likelihood.layout.groups
    for cells in (2**23, 0):  # dense, and sparse, as with many judges
        monkeypatch.setattr(judge_model, "CELLS", cells)
        curvature = maximize(likelihood, penalties).curvature
        assert_allclose(curvature.solve(R), inverse @ R, atol=1e-8)
        assert_allclose(curvature.log_det(), np.linalg.slogdet(K)[1])
        for name, trace in curvature.traces(groups).items():
            assert_allclose(trace, inverse.diagonal()[groups[name]].sum(), atol=1e-9)
        nc = likelihood.layout.common
        V = inverse[:nc, :nc]
        layout = likelihood.layout
        own = judge_model._judge_covariance(layout, curvature, V)
        for k in range(3):  # of slopes, and of sums of a common value and an effect
            S = np.eye(len(K))[nc + k + 3 * np.arange(3)]
            S[1, layout.tie] = S[2, layout.columns.start] = 1.0
            assert_allclose(own[k], S @ inverse @ S.T, atol=1e-9)
        P = np.diag(precision)
        E = np.concatenate((np.eye(nc), -np.linalg.solve(K[nc:, nc:], K[nc:, :nc])))
        assert_allclose(curvature.bias(precision), E.T @ P @ E, atol=1e-9)


@pytest.mark.parametrize("kind", ["slope", "ties", "place"])
def test_the_first_look_at_an_effect_is_by_its_derivatives(monkeypatch, kind):
    monkeypatch.setattr(judge_model, "NOISE", 0.0)
    likelihood, slow = judged((kind,))
    part = likelihood.layout.effects[kind]
    at = 0.4 * np.random.default_rng(2).standard_normal(likelihood.layout.size)
    at[part] = 0.0
    begin = judge_model.Start(at, likelihood.layout, {}, likelihood.deviation)
    gains, start = judge_model.seen_effects(likelihood, begin, [kind])
    by_hand, effects = np.zeros(len(judge_model.PENALTIES)), []
    for j in range(part.start, part.stop):
        step = 1e-3 * np.eye(len(at))[j]
        up, middle, down = slow(at + step), slow(at), slow(at - step)
        g, h = (up - down) / 2e-3, -(up - 2 * middle + down) / 1e-6
        p = judge_model.PENALTIES
        by_hand += 0.5 * (g**2 / (h + p) + np.log(p / (h + p)))
        effects.append(g / (h + p))
    best = int(np.argmax(by_hand))
    assert_allclose(gains[kind], by_hand[best], atol=1e-5)
    assert_allclose(start.log_penalties[kind], np.log(judge_model.PENALTIES[best]))
    assert_allclose(start.params[part], np.array(effects)[:, best], atol=1e-5)


def test_slopes_are_tried_where_ratings_are_noise():
    """Half of the judges prefer the worse item: without judges, ratings are about equal."""
    made = make_judged(Design(adversaries=0.4, n_judges=20), 8, 600, 1)
    plain = Leaderboard(n_draws=100).fit(replace(made.battles, judge=None))
    judged = Leaderboard(n_draws=100).fit(made.battles)
    assert "slope" in judged.judge_kinds_
    before, after = (np.corrcoef(each.ratings_, made.ratings)[0, 1] for each in (plain, judged))
    assert after > max(before, 0.9)


def test_equal_rows_add_up_without_judges():
    likelihood, _ = judged(("place",))
    plain = Likelihood(likelihood.tally, Layout.of(5, 1, ties=True), "logit")
    alone, row = plain.without_judges()
    assert len(alone.tally) < len(plain.tally)
    assert_allclose(alone.tally.counts.sum(axis=0), plain.tally.counts.sum(axis=0))
    assert (alone.tally.first[row] == plain.tally.first).all()
    at = np.random.default_rng(0).standard_normal(plain.layout.size)
    assert_allclose(alone.value(at), plain.value(at))


@pytest.fixture(scope="module")
def battles():
    """Judges 0 and 1 are adversaries, judge 2 votes at random, others differ in ties."""
    made = make_judged(Design(rate=0.8, n_judges=20), 8, 3000, 0)
    b, rng = made.battles, np.random.default_rng(1)
    outcome = np.where((b.judge < 2) & (b.outcome < 2), 1 - b.outcome, b.outcome)
    outcome = np.where(b.judge == 2, rng.integers(0, 3, len(b)), outcome)
    return replace(b, outcome=outcome), made.ratings


def test_adversaries_and_careless_judges_are_named(battles):
    board = Leaderboard().fit(battles[0])
    table = board.judges()
    assert set(board.judge_kinds_) == {"slope", "ties"}
    assert [table["remark"][k] for k in (0, 1)] == ["adversary"] * 2
    assert table["remark"][2] in ("careless", "")
    assert "adversary" not in list(table["remark"][3:])
    assert (table["slope, high"][:2] < 0).all()
    assert "slope" in str(table)
    assert "slips" not in str(table)  # no judge differs in them
    assert np.corrcoef(board.ratings_, battles[1])[0, 1] > 0.97


def few_votes(n_judges, each, n_items=30, careless=0, seed=0):
    """Votes of equal judges, but for the first ones, who toss coins."""
    rng = np.random.default_rng(seed)
    better = rng.normal(size=n_items)
    first = rng.integers(0, n_items, n_judges * each)
    second = (first + rng.integers(1, n_items, len(first))) % n_items
    judge = np.repeat(np.arange(n_judges), each)
    margin = np.where(judge < careless, 0.0, better[first] - better[second])
    won = np.where(margin + rng.normal(size=len(first)) > 0, "first", "second")
    return first, second, won, judge


@pytest.mark.filterwarnings("ignore:.* all battles")
def test_nobody_is_careless_by_chance():
    """Few votes: some slopes are close to 0, with narrow intervals."""
    names = {}
    for careless in (0, 1):
        *votes, judge = few_votes(6, 60, careless=careless)
        board = Leaderboard(n_draws=100).fit(*votes, judge=judge, judges=["slope"])
        table = board.judges()
        names[careless] = [k for k, remark in enumerate(table["remark"]) if remark]
    assert names == {0: [], 1: [0]}
    *votes, judge = few_votes(4, 30)
    assert Leaderboard(n_draws=100).fit(*votes, judge=judge).judge_kinds_ == []
    table = Leaderboard(n_draws=100).fit(*votes, judge=judge, judges=["slope"]).judges()
    assert min(table["slope, high"]) < judge_model.CARELESS_SLOPE
    assert not any(table["remark"])


def test_careless_judges_beside_adversaries_are_found_by_right_answers():
    """Ratings by all votes are noise."""
    first, second, won, judge = few_votes(9, 500, n_items=10, careless=1)
    won = np.where(judge % 2 == 1, np.where(won == "first", "second", "first"), won)
    better = np.random.default_rng(0).normal(size=10)
    right = np.where(better[first] > better[second], "first", "second")
    right = np.where(np.arange(len(won)) % 5 == 0, right, None)
    board = Leaderboard(n_draws=100).fit(first, second, won, judge=judge, gold=right)
    table = board.judges()
    remarks = dict(zip(table["judge"].tolist(), table["remark"], strict=True))
    assert [remarks[k] for k in (0, 1, 3, 5, 7)] == ["careless", *["adversary"] * 4]
    with_remarks = [bool(remark) for remark in table["remark"]]
    assert with_remarks == sorted(with_remarks, reverse=True)
    slopes = dict(zip(board.judges_.tolist(), 1 + board.judge_effects_[:, 0], strict=True))
    assert [slopes[name] for name in table["judge"].tolist()] == table["slope"].tolist()


@pytest.mark.filterwarnings("ignore:.* all battles")
def test_many_items_have_judges_without_a_matrix(monkeypatch):
    *votes, judge = few_votes(3, 20, n_items=10)
    for name, value in {"tolerance": 1e-7, "dense": 0, "steps": 100}.items():
        monkeypatch.setitem(judge_model.maximize.__kwdefaults__, name, value)
    monkeypatch.setattr(judge_model, "DENSE", 0)
    assert np.isfinite(Leaderboard(n_draws=100).fit(*votes, judge=judge).ratings_).all()


def test_judges_who_differ_in_nothing_may_slip():
    rng = np.random.default_rng(0)
    better, first = np.linspace(-6, 6, 10), rng.integers(0, 10, 3000)
    second = (first + rng.integers(1, 10, 3000)) % 10
    margin = better[first] - better[second] + rng.logistic(size=3000)
    margin[rng.random(3000) < 0.1] *= -1
    votes = first, second, np.where(margin > 0, "first", "second")
    board = Leaderboard(n_draws=100).fit(*votes, judge=np.arange(3000) % 5)
    assert board.judge_kinds_ == ["slips"]


def test_a_judge_who_always_ties_does_not_widen_intervals_of_others():
    made = make_battles(6, 600, n_judges=5, style=0, both_bad=0, random_state=0).battles
    tied = replace(made, outcome=np.where(made.judge == 0, 2, made.outcome))
    table = Leaderboard().fit(tied, judges=["ties"]).judges()
    ratio = (table["ties, high"] / table["ties, low"])[table["judge"] > 0]
    assert ratio.max() < np.exp(4 * 1.96 / np.sqrt(20))  # each has more than twenty ties
    assert ratio.min() > 1.2


def test_probabilities_are_of_a_judge_or_of_all(battles):
    board = Leaderboard().fit(battles[0])
    a, b = [0, 1], [2, 3]
    every = board.predict_proba(a, b)
    assert_allclose(every.sum(axis=1), 1.0)
    one = board.predict_proba(a, b, judge=0)
    assert_allclose(one, board.predict_proba(a, b, judge=[0, 0]))
    assert (np.sign(one[:, 0] - one[:, 1]) == -np.sign(every[:, 0] - every[:, 1])).all()
    shares = np.bincount(battles[0].judge) / len(battles[0])
    mean = sum(w * board.predict_proba(a, b, judge=k) for k, w in enumerate(shares))
    assert_allclose(every, mean, atol=1e-12)
    assert_allclose(board.predict_proba(a, b, judge="somebody else"), every)
    with pytest.raises(DataError, match="without judges"):
        Leaderboard().fit(replace(battles[0], judge=None)).predict_proba(a, b, judge=0)


def test_effects_that_are_asked_for(battles):
    b = battles[0]
    board = Leaderboard().fit(b, judges=["slips", "place"])
    assert board.judge_kinds_ == ["place", "slips"]
    assert board.judge_effects_.shape == (20, 4)
    assert (board.judge_effects_[:, :2] == 0).all()
    none = Leaderboard().fit(b, judges=[])
    assert_allclose(none.ratings_, Leaderboard().fit(replace(b, judge=None)).ratings_)
    with pytest.raises(ParameterError, match="judges must be"):
        Leaderboard().fit(b, judges=["mood"])


def test_slips_have_the_information_of_fisher():
    """The mean of the outer products of gradients, over outcomes."""
    eta, tau, e = (np.array([0.7, -0.3]), np.array([0.1, -1.0]), np.array([-2.0, 0.5]))
    terms = with_slips(davidson(eta, tau), e)
    p = np.exp(terms.log_p)
    assert_allclose(p.sum(axis=0), 1.0)
    want = sum(p[y] * terms.gradient[y][:, None] * terms.gradient[y][None] for y in range(3))
    assert_allclose(-terms.hessian[0], want)


def test_equal_judges_change_nothing(tmp_path):
    b = make_judged(Design(), 6, 600, 0).battles
    board, plain = Leaderboard().fit(b), Leaderboard().fit(replace(b, judge=None))
    assert board.judge_kinds_ == []
    assert_allclose(board.ratings_, plain.ratings_, atol=1e-9)
    assert_allclose(board.rating_std_, plain.rating_std_, atol=1e-9)
    assert "more than chance" in str(board.judges())
    save_model(board, tmp_path / "board.rankwise")
    assert str(load_model(tmp_path / "board.rankwise").judges()) == str(board.judges())


def test_winners_may_be_listed_first():
    b = make_judged(Design(slope=1.0, n_judges=10), 6, 1000, 0).battles
    first = np.where((b.outcome == 1)[:, None], b.pairs[:, ::-1], b.pairs)
    turned = Battles(
        b.items, first, np.where(b.outcome == 1, 0, b.outcome), b.weight, judge=b.judge
    )
    assert "place" not in Leaderboard().fit(turned).judge_kinds_
    with pytest.raises(DataError, match="The first item won every battle"):
        Leaderboard().fit(turned, judges=["place"])


@pytest.mark.parametrize(
    "options", [{"link": "probit"}, {"ties": "half"}, {"penalty": 1.0}, {"penalty": 0}], ids=str
)
def test_other_models_have_judges(options):
    b = make_judged(Design(slope=0.8, place=0.6, n_judges=12), 6, 1500, 3).battles
    board = Leaderboard(**options).fit(b)
    assert "slope" in board.judge_kinds_
    assert np.isfinite(board.rating_std_).all()
    p = board.predict_proba([0, 1], [1, 2], judge=[3, 99])
    assert_allclose(p.sum(axis=1), 1.0)


def test_many_items_need_no_matrix(monkeypatch):
    b = make_judged(Design(slope=0.8, n_judges=10), 6, 1200, 0).battles
    board = Leaderboard(penalty=1.0).fit(b, judges=["slope"])
    defaults = {"tolerance": 1e-7, "dense": 0, "steps": 100}
    monkeypatch.setattr(judge_model.maximize, "__kwdefaults__", defaults)
    monkeypatch.setattr(judge_model, "DENSE", 0)
    large = Leaderboard(penalty=1.0).fit(b, judges=["slope"])
    assert large.covariance_ is None
    assert_allclose(large.ratings_, board.ratings_, atol=0.05)
    # Widths are rough without a matrix.
    assert np.corrcoef(large.judge_effects_[:, 0], board.judge_effects_[:, 0])[0, 1] > 0.99


@pytest.mark.parametrize("name", ["equal judges", "tie rates", "adversaries, 10%", "5 votes each"])
def test_judges_do_not_make_predictions_worse(name):
    """Held-out log-loss; reproduce/leaderboard has all designs, with more battles."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = losses(DESIGNS[name], 0, n_items=8, n_battles=1500)
    for kind in ("judges", "judges, averaged"):
        worse = found[kind] - found["no judges"]
        assert worse.mean() < 2 * worse.std() / np.sqrt(len(worse)) + 1e-9
    if name == "tie rates":
        assert found["no judges"].mean() - found["judges"].mean() > 0.02


@pytest.mark.slow
@pytest.mark.parametrize("name", DESIGNS)
def test_judges_are_never_worse_than_none(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [losses(DESIGNS[name], seed) for seed in (1, 2, 3)]
    for kind in ("judges", "judges, averaged"):
        worse = np.concatenate([each[kind] - each["no judges"] for each in found])
        assert worse.mean() <= worse.std() / np.sqrt(len(worse)) + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["slopes", "tie rates", "places", "3 judges"])
def test_predictions_approach_the_truth(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = losses(DESIGNS[name], 0, n_battles=30_000)
    assert found["judges"].mean() < found["truth"].mean() + 0.005


@pytest.mark.parametrize("kinds", [("slope", "ties", "place"), ("ties",)])
def test_averages_over_judges_are_those_of_the_normal_distribution(kinds):
    """The step solves the equations of the average over many draws of effects."""
    likelihood, _ = judged(kinds)
    names = likelihood.layout.groups
    mode = maximize(likelihood, dict.fromkeys(names, 4.0))
    root = judge_model._roots(likelihood.layout, mode.curvature)
    rng, effects = np.random.default_rng(0), likelihood.layout.effects
    total, n_draws = np.zeros(likelihood.layout.size), 500
    for draw in rng.standard_normal((n_draws, 3, len(effects))):
        for sign in (1, -1):
            point = mode.params.copy()
            for part, change in zip(
                effects.values(), np.einsum("jab,jb->aj", root, draw), strict=True
            ):
                point[part] += sign * change
            total += likelihood.gather(point, likelihood.expansion(point)[1]) / (2 * n_draws)
    total -= likelihood.gather(mode.params, likelihood.expansion(mode.params)[1])
    step = judge_model.averaged(likelihood, mode).params - mode.params
    expected = mode.curvature.solve(total)
    assert abs(step - expected).max() < 0.2 * abs(expected).max()


def test_right_answers_make_predictions_hardly_worse():
    """Right answers to a tenth of the battles of judges who differ: the fit converges.

    These battles do not rate their items.
    """
    more = []
    for seed in range(3):
        made = make_judged(Design(slope=0.6), 20, 6000, seed)
        train, test = (made.battles.take(slice(k, k + 3000)) for k in (0, 3000))
        first, second = train.pairs.T
        right = np.where(made.ratings[first] > made.ratings[second], 0, 1)
        right[np.arange(3000) % 10 > 0] = -1
        loss = []
        for gold in (None, right):
            board = Leaderboard(n_draws=100).fit(replace(train, gold=gold))
            p = board.predict_proba(*test.items[test.pairs].T, judge=test.judge)
            loss.append(log_loss(p, test.outcome).mean())
        assert np.corrcoef(board.ratings_, made.ratings)[0, 1] > 0.9
        more.append(loss[1] - loss[0])
    assert max(more) < 5e-3


def test_known_answers_anchor_judges():
    """Most judges are wrong; right answers to a tenth of the battles turn the ratings around."""
    made = make_judged(Design(n_judges=10), 6, 1500, 0)
    b = made.battles
    wrong = (b.judge < 6) & (b.outcome < 2)
    outcome = np.where(wrong, 1 - b.outcome, b.outcome)
    right = np.where(made.ratings[b.pairs[:, 0]] > made.ratings[b.pairs[:, 1]], "first", "second")
    gold = np.array([word if k % 10 == 0 else None for k, word in enumerate(right)])
    words = np.array(["first", "second", "tie"])[outcome]
    arrays = (*b.items[b.pairs].T, words)
    alone = Leaderboard().fit(*arrays, judge=b.judge, items=b.items)
    board = Leaderboard().fit(*arrays, judge=b.judge, gold=gold, items=b.items)
    assert np.corrcoef(alone.ratings_, made.ratings)[0, 1] < -0.9
    assert np.corrcoef(board.ratings_, made.ratings)[0, 1] > 0.9
    assert board.judges()["remark"][:6].count("adversary") >= 3
    assert "adversary" not in board.judges()["remark"][6:]
    grown = Leaderboard().fit(board.battles_.take(slice(0, 1000)))
    grown.update(board.battles_.take(slice(1000, None)))
    assert_allclose(grown.ratings_, board.ratings_, atol=0.02)


@pytest.mark.parametrize("seed", [19, 23])
def test_answers_that_tell_nothing_of_judges_leave_no_saddle(seed):
    """Half of the judges are turned around at first, so that first ratings are nearly equal."""
    rng = np.random.default_rng(seed)
    ratings, n = np.linspace(-1.5, 1.5, 6), 800
    first = rng.integers(0, 6, n)
    second = (first + rng.integers(1, 6, n)) % 6
    judge, slope = rng.integers(0, 6, n), np.linspace(0.5, 2.0, 6)
    chance = 1.0 / (1.0 + np.exp(-(ratings[first] - ratings[second]) * slope[judge]))
    won = np.where(rng.random(n) < chance, "first", "second")
    gold = np.where(np.arange(n) < 80, rng.permutation(won), "")
    board = Leaderboard(n_draws=100).fit(
        first, second, won, judge=judge, gold=gold, items=np.arange(6)
    )
    assert abs(np.corrcoef(board.ratings_, ratings)[0, 1]) > 0.97  # either way round


def votes(eta, u):
    """Outcomes by quantiles u: the votes of two judges agree as far as their quantiles do."""
    p = np.column_stack((np.exp(eta / 2), np.full(len(eta), 0.5), np.exp(-eta / 2)))
    shares = np.cumsum(p / p.sum(axis=1, keepdims=True), axis=1)
    return np.array([0, 2, 1])[(u[:, None] > shares[:, :2]).sum(axis=1)]


def test_few_votes_that_count_correct_many_that_are_biased():
    rng = np.random.default_rng(0)
    n, N, ratings = 400, 4000, np.array([0.9, 0.3, 0.0, -0.3, -0.9])
    bias = np.array([-1.0, 0.5, 0.0, 0.5, 0.0])
    first = rng.integers(0, 5, N)
    second = (first + rng.integers(1, 5, N)) % 5
    u = rng.random(N)
    human = votes(ratings[first] - ratings[second], u)
    model = votes((ratings + bias)[first] - (ratings + bias)[second], u)
    words = np.array(["first", "second", "tie"])
    gold = [words[k] if i < n else "" for i, k in enumerate(human)]
    items = np.arange(5)
    board = Leaderboard().fit(first, second, words[model], gold=gold, items=items)
    alone = Leaderboard().fit(first[:n], second[:n], words[human[:n]], items=items)
    plain = Leaderboard().fit(first, second, words[model], items=items)
    assert 0.5 < board.gold_power_ <= 1
    assert (board.rating_std_ < 0.9 * alone.rating_std_).all()
    assert abs(board.ratings_ - ratings).max() < 3 * board.rating_std_.max()
    assert abs(plain.ratings_ - ratings).max() > 0.4
    noise = Leaderboard().fit(first, second, words[rng.integers(0, 3, N)], gold=gold, items=items)
    assert noise.gold_power_ < 0.1
    assert_allclose(noise.ratings_, alone.ratings_, atol=0.05)
    every = Leaderboard().fit(first, second, words[model], gold=words[human], items=items)
    whole = Leaderboard().fit(first, second, words[human], items=items)
    assert_allclose(every.ratings_, whole.ratings_, atol=1e-8)
    assert_allclose(every.rating_std_, whole.rating_std_, rtol=1e-2)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_right_answers_without_ties_correct_votes_with_ties(link):
    rng = np.random.default_rng(0)
    ratings = np.linspace(1, -1, 5)
    first = rng.integers(0, 5, 300)
    second = (first + rng.integers(1, 5, 300)) % 5
    right = rng.random(300) < 1 / (1 + np.exp(ratings[second] - ratings[first]))
    words = np.where(rng.random(300) < 0.15, "tie", np.where(right, "first", "second"))
    gold = np.where(rng.random(300) < 0.3, np.where(right, "first", "second"), "")
    board = Leaderboard(link).fit(first, second, words, gold=gold, items=range(5))
    assert board.tie_ == 0
    assert board.gold_power_ > 0.5
    assert board.ratings_.argsort().tolist() == [4, 3, 2, 1, 0]


def test_weights_of_votes_may_cancel(tmp_path):
    """In a pair whose battles all have a right answer, if other votes count in full."""
    first, second = np.array([0] * 400 + [1] * 5), np.array([1] * 400 + [2] * 5)
    right = np.where(np.arange(405) % 3, "first", "second")
    words = np.where(right == "first", right, "tie")
    gold = np.where((np.arange(405) < 30) | (first == 1), right, "")
    board = Leaderboard(n_draws=100).fit(first, second, words, gold=gold)
    assert board.gold_power_ == 1
    assert np.isnan(board.pair_shares_).any(axis=1).tolist() == [False, True]
    save_model(board, tmp_path / "board.rankwise")
    loaded = load_model(tmp_path / "board.rankwise")
    np.testing.assert_array_equal(loaded.pair_shares_, board.pair_shares_)


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        (["first"], r"gold needs one entry per battle: got shape \(1,\)"),
        ([None, ""], "gold has no right answer"),
        (["who", None], "gold, battle 0: the outcome 'who' is unknown"),
        (["tie", None], "No right answer in gold is a win"),
    ],
)
def test_bad_right_answers_are_refused(gold, message):
    with pytest.raises(DataError, match=message):
        Leaderboard().fit(["a", "b"], ["b", "a"], [1, 1], gold=gold)


def test_votes_of_a_session_that_depend_on_each_other_are_no_effect_of_their_judges():
    made = make_battles(
        12, 1500, random_state=0, session_size=5, rematch=0.7, dependence=0.7, style=0
    )
    battles = replace(made.battles, context=None)
    _, session = np.unique(battles.groups, return_inverse=True)
    board = Leaderboard(n_draws=100).fit(replace(battles, judge=session // 4))
    assert board.judge_kinds_ == []
    assert board.dependence_ > 2
