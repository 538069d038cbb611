"""Time: half-lives, drift, ratings as of a date, history, and dates."""

import csv
import tracemalloc
import warnings
from datetime import date, datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise import Leaderboard, load_model, save_model
from rankwise.data import Battles, make_battles, read_battles
from rankwise.data.times import check_times
from rankwise.errors import DataError, ParameterError, RankwiseWarning
from rankwise.leaderboard import over_time
from rankwise.leaderboard.battle_likelihood import Layout, mixed, tally
from tests.oracles import drift as oracle
from tests.oracles.battles import dense_newton

N = 4


def drawn(seed=0, n_battles=240, n_periods=4, step=0.5):
    """Winners and losers at times in periods of length 1, with ratings that drift."""
    rng = np.random.default_rng(seed)
    theta = np.cumsum(rng.normal(size=(n_periods, N)) * step, axis=0)
    period = np.sort(rng.integers(0, n_periods, n_battles))
    first = rng.integers(0, N, n_battles)
    second = (first + rng.integers(1, N, n_battles)) % N
    won = rng.random(n_battles) < 1 / (1 + np.exp(theta[period, second] - theta[period, first]))
    pairs = np.column_stack((first, second))
    time = period + 0.1 + 0.8 * rng.random(n_battles)
    time[-1] = n_periods  # so that periods of the fit are these
    return pairs, won.astype(int), time, period


def fitted(seed=0, **options):
    pairs, won, time, _ = drawn(seed)
    return Leaderboard(**options).fit(*pairs.T, won, time=time, items=range(N))


@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_the_curvature_is_that_of_dense_matrices(seed, ties, by_item):
    rng = np.random.default_rng(seed)
    P, rows = 3, 25
    period = rng.integers(0, P, rows)
    first = rng.integers(0, N, rows)
    second = (first + rng.integers(1, N, rows)) % N
    outcome = rng.integers(0, 3 if ties else 2, rows)
    x = rng.normal(size=(rows, 2))
    counts, _ = tally(first + N * period, second + N * period, outcome, rng.random(rows), x)
    layout = Layout.of(N * P, 2, 0, ties, item_ties=N if ties and by_item else 0)
    cells = np.tile(np.arange(N), P), np.repeat(np.arange(P), N)
    plain = over_time.CellLikelihood(counts, layout, "logit", *cells)
    walk = over_time.WalkLikelihood(plain, N, np.array([1.0, 2.5]))
    size = walk.layout.size
    params = rng.normal(size=size)
    value, gradient, matrix = walk.expand(params, dense=True)
    assert_allclose(value, walk.value(params))
    steps = 1e-5 * np.eye(size)
    slopes = [(walk.value(params + e) - walk.value(params - e)) / 2e-5 for e in steps]
    assert_allclose(gradient, slopes, atol=1e-6)
    bends = [
        (walk.expand(params + e, dense=True)[1] - walk.expand(params - e, dense=True)[1]) / 2e-5
        for e in steps
    ]
    precision = np.concatenate((rng.random(N * P) + 0.5, np.full(size - N * P, 0.1)))
    K = -np.array(bends) + np.diag(precision)
    curvature = matrix.curvature(precision, walk.layout.items, 0.0)
    R = rng.normal(size=(size, 2))
    assert_allclose(K @ curvature.solve(R), R, atol=1e-4)
    assert_allclose(K @ curvature.solve(R[:, 0]), R[:, 0], atol=1e-4)
    inverse = np.linalg.inv(K)
    last = np.eye(size)[:, N * (P - 1) :]
    steps = curvature.to_steps(curvature.solve_by_rating(last))
    from_ratings = curvature.to_steps(np.eye(size))
    assert_allclose(steps, inverse @ np.linalg.inv(from_ratings).T @ last, atol=1e-4)
    exact = curvature.traces(walk.layout.groups)
    assert_allclose(exact["items"], np.trace(inverse[:N, :N]), rtol=1e-4)
    assert_allclose(exact["steps"], np.trace(inverse[N : N * P, N : N * P]), rtol=1e-4)


def test_drifting_ratings_are_those_of_the_oracle():
    pairs, won, time, period = drawn(1, 120)
    board = Leaderboard(penalty=0.5, drift=0.4, period=1.0).fit(
        *pairs.T, won, time=time, items=range(N)
    )
    winners = np.where(won[:, None] == 1, pairs, pairs[:, ::-1])
    theta, K, scores = oracle.fit_walk(winners, period, np.ones(120), N, 0.5, 0.4, [1, 1, 1])
    last = theta[-1]
    assert_allclose(board.ratings_, last - last.mean(), atol=1e-5)
    inverse = np.linalg.inv(K)
    q = abs(scores).max(axis=1)
    D = np.sign(scores)
    H = (D * (q * (1 - q))[:, None]).T @ D
    meat = scores.T @ scores * 120 / 119 + (K - H)
    V = (inverse @ meat @ inverse)[-N:, -N:]
    C = np.eye(N) - 1 / N
    assert_allclose(board.covariance_, C @ V @ C, atol=1e-4)
    assert board.drift_ == pytest.approx(0.4)


def test_drift_takes_no_square_matrix_of_all_ratings():
    rng, n, n_periods = np.random.default_rng(0), 20, 60
    pairs = np.array([rng.permutation(n)[:2] for _ in range(2000)])
    time = np.linspace(0.0, n_periods, 2000)
    board = Leaderboard(penalty=1.0, drift=0.3, period=1.0, n_draws=100)
    tracemalloc.start()
    board.fit(*pairs.T, rng.integers(0, 2, 2000), time=time)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * (n * n_periods) ** 2 / 2


def test_an_uncertain_drift_widens_intervals(monkeypatch):
    average = fitted(drift="evidence", period=1.0)
    monkeypatch.setattr(over_time, "INTEGRATED", 0)
    one_drift = fitted(drift="evidence", period=1.0)
    assert (average.rating_std_ > one_drift.rating_std_).all()
    assert average.drift_ > one_drift.drift_


def test_mixtures_have_the_moments_of_their_parts():
    rng = np.random.default_rng(0)
    samples, weights = rng.normal(size=(3, 50, 2)), np.array([0.2, 0.3, 0.5])
    means = samples.mean(axis=1)
    covariances = [np.cov(part.T, bias=True) for part in samples]
    mean, covariance = mixed(weights, means, np.array(covariances))
    points, repeated = samples.reshape(-1, 2), np.repeat(weights / 50, 50)
    assert_allclose(mean, repeated @ points)
    assert_allclose(covariance, np.cov(points.T, aweights=repeated, ddof=0))


@pytest.mark.slow
def test_drifts_are_averaged_over(monkeypatch):
    pairs, won, time, period = drawn(1, 120)
    options = {"drift": "evidence", "period": 1.0, "penalty": 0.5}
    board = Leaderboard(**options).fit(*pairs.T, won, time=time, items=range(N))
    winners = np.where(won[:, None] == 1, pairs, pairs[:, ::-1])
    drifts, values, last = np.geomspace(0.02, 1.6, 15), [], []
    scale = over_time.CHANGE_SCALE / np.sqrt(np.ptp(period))
    for drift in [1e-3, *drifts]:
        given = (winners, period, np.ones(120))
        theta, K, _ = oracle.fit_walk(*given, N, 0.5, drift, [1, 1, 1])
        value = oracle.walk_log_posterior(theta, *given, 0.5, drift, [1, 1, 1])
        values.append(value - 3 * N * np.log(drift) - 0.5 * np.linalg.slogdet(K)[1])
        last.append(theta[-1] - theta[-1].mean())
    evidence = np.exp(np.array(values) - max(values))
    # The prior of a drift, per unit of its logarithm; or, as likely before, there is none.
    weights = evidence[1:] * (drifts / scale) ** 2 * np.exp(-drifts / scale)
    some, step = weights.sum(), np.log(drifts[1] / drifts[0])
    p_none = evidence[0] / (evidence[0] + some * step)
    weights /= some
    assert board.drift_ == pytest.approx(weights @ drifts, rel=0.06)
    mean = p_none * last[0] + (1 - p_none) * weights @ np.array(last[1:])
    assert_allclose(board.ratings_, mean, atol=0.02)
    monkeypatch.setattr(over_time, "INTEGRATED", 0)
    one_drift = Leaderboard(**options).fit(*pairs.T, won, time=time, items=range(N))
    assert one_drift.drift_ < board.drift_


def test_the_evidence_finds_the_drift():
    n, P = 12, 12
    rng = np.random.default_rng(0)
    theta = np.cumsum(np.vstack((rng.normal(size=(1, n)), 0.3 * rng.normal(size=(P - 1, n)))), 0)
    period = np.sort(rng.integers(0, P, 4000))
    first = rng.integers(0, n, 4000)
    second = (first + rng.integers(1, n, 4000)) % n
    eta = theta[period, first] - theta[period, second]
    outcome = (rng.random(4000) < 1 / (1 + np.exp(-eta))).astype(int)
    given = {"time": period + rng.random(4000), "items": range(n)}
    moving = Leaderboard(drift="evidence", period=1.0).fit(first, second, outcome, **given)
    assert 0.2 < moving.drift_ < 0.4
    with pytest.warns(RankwiseWarning, match="Ratings change by"):
        still = Leaderboard().fit(first, second, outcome, **given)
    truth = theta[-1] - theta[-1].mean()
    assert abs(moving.ratings_ - truth).mean() < 0.7 * abs(still.ratings_ - truth).mean()
    time = rng.permutation(given["time"])
    shuffled = Leaderboard(drift="evidence", period=1.0).fit(
        first, second, outcome, time=time, items=range(n)
    )
    assert shuffled.drift_ < 0.5 * moving.drift_  # little is left to drift


def test_probes_estimate_traces(monkeypatch):
    exact = fitted(drift="evidence", period=1.0)
    monkeypatch.setattr(over_time, "EXACT", 0)
    monkeypatch.setattr(over_time, "PROBES", 400)
    rough = fitted(drift="evidence", period=1.0)
    assert rough.drift_ == pytest.approx(exact.drift_, rel=0.2)


def test_a_half_life_weights_battles():
    pairs, won, time, period = drawn()
    time = period.astype(float)
    board = Leaderboard(half_life=2.0).fit(*pairs.T, won, time=time, items=range(N))
    weight = 0.5 ** ((time.max() - time) / 2.0)
    same = Leaderboard().fit(*pairs.T, won, weight=weight, items=range(N))
    assert_allclose(board.ratings_, same.ratings_)
    assert board.half_life_ == 2.0
    assert "leads" in str(board.fragility())
    # Errors by scores with these weights, and by changes of ratings.
    battles = [(a, b, 1 - y, np.zeros(0)) for (a, b), y in zip(pairs, won, strict=True)]
    _, H, scores = dense_newton(battles, weight, N, board.penalty_)
    widths, scale = np.append(0.0, over_time.CHANGES), over_time.CHANGE_SCALE
    prior = widths**2 * np.exp(-widths / scale)
    prior *= (1 - over_time.NO_CHANGE) / prior.sum()
    prior[0] = over_time.NO_CHANGE
    winners = np.where(won[:, None] == 1, pairs, pairs[:, ::-1])
    given = winners, period, weight, board.ratings_, np.arange(4.0), 3.0, widths, prior
    variance, moved = oracle.seen_drift(*given)
    assert variance > 0.05  # the truth is 0.25
    meat = scores.T @ scores * len(won) / (len(won) - 1) + board.penalty_ * np.eye(N) + moved
    root = (np.eye(N) - 1 / N) @ np.linalg.inv(H)
    assert_allclose(board.covariance_, root @ meat @ root.T, rtol=1e-6)


@given(st.integers(0, 2**32 - 1))
def test_the_evidence_of_walks_is_that_of_dense_matrices(seed):
    rng = np.random.default_rng(seed)
    score, information = rng.normal(size=(6, 2)), rng.random((6, 2)) * rng.integers(0, 2, (6, 2))
    information[0] = information[-1] = 1.0
    gap, variances = rng.random(5) + 0.1, rng.random((3, 2)) * [[0.0], [1.0], [9.0]]
    found = over_time.walk_evidence(score, information, gap, variances)
    times = np.cumsum([0.0, *gap])
    expected = [
        [
            oracle.log_likelihood_of_a_walk(score[:, i], information[:, i], times, row[i])
            for i in range(2)
        ]
        for row in variances
    ]
    assert_allclose(found, expected, atol=1e-8)


def test_random_steps_stand_for_the_steps_of_many_ratings(monkeypatch):
    exact = fitted(half_life=2.0)
    monkeypatch.setattr(over_time, "ROWS", 75)  # less than 24 periods of 4 items
    rough = fitted(half_life=2.0)
    assert abs(rough.rating_std_ / exact.rating_std_ - 1).max() < 0.2
    assert (rough.rating_std_ != exact.rating_std_).all()


@pytest.mark.parametrize("column", ["judge", "by", "gold", "groups", "context"])
def test_changes_widen_intervals_of_all_models_with_a_half_life(column, monkeypatch):
    pairs, won, time, _ = drawn(0, 400, 8, 0.5)
    rng = np.random.default_rng(0)
    values = {
        "by": np.array(["x", "y"])[rng.integers(0, 2, 400)], "judge": rng.integers(0, 5, 400),
        "groups": np.arange(400) // 2, "context": rng.normal(size=(400, 1)),
        "gold": np.where(np.arange(400) % 2, won.astype(object), None),
    }  # fmt: skip
    options = {"judges": ["slope"]} if column == "judge" else {}
    given = {"time": time, "items": range(N), column: values[column]} | options
    wide = Leaderboard(half_life=0.7, n_draws=100).fit(*pairs.T, won, **given)
    none = property(lambda self: np.zeros((1, self.response.shape[0])))
    monkeypatch.setattr(over_time.SeenDrift, "rows", none)
    narrow = Leaderboard(half_life=0.7, n_draws=100).fit(*pairs.T, won, **given)
    assert (wide.rating_std_ > 1.05 * narrow.rating_std_).all()
    assert_allclose(wide.ratings_, narrow.ratings_)
    if column == "by":
        wide, narrow = wide.within("x"), narrow.within("x")
        assert (wide.rating_std_ > 1.05 * narrow.rating_std_).all()


def test_changes_that_are_not_modelled_warn():
    pairs, won, time, _ = drawn(3, 1600, 8, 0.3)
    with pytest.warns(RankwiseWarning, match='Ratings change by .* use drift="evidence".* groups'):
        Leaderboard(n_draws=100).fit(*pairs.T, won, time=time)
    with pytest.warns(RankwiseWarning, match="half_life=50 can follow.* Use about"):
        Leaderboard(half_life=50.0, n_draws=100).fit(*pairs.T, won, time=time)
    Leaderboard(half_life=0.5, n_draws=100).fit(*pairs.T, won, time=time)  # warnings are errors
    pairs, won, time, _ = drawn(3, 1600, 8, 0.0)
    Leaderboard(n_draws=100).fit(*pairs.T, won, time=time)
    Leaderboard(half_life=0.5, n_draws=100).fit(*pairs.T, won, time=time)
    Leaderboard(half_life=50.0, n_draws=100).fit(*pairs.T, won, time=time)


@pytest.mark.parametrize("options", [{"half_life": "auto"}, {"drift": "evidence", "period": 1.0}])
def test_no_look_into_the_future(options, monkeypatch):
    """Whatever happens later, ratings as of a time stay the same."""
    monkeypatch.setattr(over_time, "CUTS", (0.5, 0.75, 1.0))
    pairs, won, time, _ = drawn(2)
    future = np.flatnonzero(time > 2.5)
    rng = np.random.default_rng(0)
    mixed, other = pairs.copy(), won.copy()
    mixed[future] = pairs[rng.permutation(future)]
    other[future] = 1 - won[future]
    given = {"time": time, "items": range(N)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the change
        one = Leaderboard(n_draws=100).fit(*pairs.T, won, **given)
        two = Leaderboard(n_draws=100).fit(*mixed.T, other, **given)
    one, two = (board.set_params(**options).as_of(2.5) for board in (one, two))
    assert_allclose(one.ratings_, two.ratings_)
    assert one.half_life_ == two.half_life_
    assert_allclose(one.covariance_, two.covariance_)


def test_items_without_battles_say_nothing_of_changes():
    pairs, won, time, _ = drawn(1, 120)
    given = {"time": time, "items": range(N + 1)}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        board = Leaderboard(half_life=2.0).fit(*pairs.T, won, **given)
    assert all("do not link all items" in str(each.message) for each in told)
    assert np.isfinite(board.rating_std_).all()


def test_half_lives_that_leave_hardly_a_battle_warn():
    pairs, won, _, _ = drawn(1, 120)
    seconds = 1.7e9 + 3600.0 * np.arange(120)
    for half_life, time in ((30.0, seconds), (0.002, np.arange(120))):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            board = Leaderboard(half_life=half_life).fit(*pairs.T, won, time=time)
        said = [str(each.message) for each in told]
        assert any("count as 1 of the latest" in each for each in said)
        assert {each.category for each in told} == {RankwiseWarning}
        assert np.isfinite(board.rating_std_).all()


@pytest.mark.slow
@pytest.mark.ci
def test_drift_costs_little_where_few_battles_show_none():
    worse = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        truth, one = rng.normal(size=6), rng.integers(0, 6, 50)
        two = (one + rng.integers(1, 6, 50)) % 6
        won = (rng.random(50) < 1 / (1 + np.exp(truth[two] - truth[one]))).astype(int)
        a, b = np.triu_indices(6, 1)
        p, loss = 1 / (1 + np.exp(truth[b] - truth[a])), []
        for options in ({}, {"drift": "evidence"}):
            board = Leaderboard(n_draws=100, **options)
            board.fit(one, two, won, time=np.linspace(0, 24, 50), items=range(6))
            q = board.predict_proba(a, b)[:, 0]
            loss.append(-(p * np.log(q) + (1 - p) * np.log(1 - q)).mean())
        worse.append(loss[1] - loss[0])
    assert np.mean(worse) < 0.015


def test_auto_finds_what_predicts_later_battles(monkeypatch):
    monkeypatch.setattr(over_time, "CUTS", (0.5, 0.75, 1.0))
    pairs, won, time, _ = drawn(3, 800, 8, 1.0)
    found = Leaderboard(half_life="auto", n_draws=100).fit(*pairs.T, won, time=time)
    assert found.half_life_ is not None
    assert found.half_life_ <= 4
    drifting = Leaderboard(drift="auto", period=2.0, n_draws=100).fit(*pairs.T, won, time=time)
    assert drifting.drift_ > 0
    with pytest.raises(DataError, match="two or more times"):
        Leaderboard(half_life="auto").fit(*pairs.T, won, time=np.zeros(800))


@pytest.mark.parametrize(("noise", "best"), [(0.02, "quick"), (2.0, "constant")])
def test_a_gain_within_its_standard_error_is_no_gain(noise, best):
    """Battles in order, and what two candidates expect of each, better by .01 on average."""
    rng, n = np.random.default_rng(0), 200
    gains = 0.01 + noise * rng.normal(size=n) / np.sqrt(n)
    pairs = np.column_stack((np.zeros(n, int), np.arange(1, n + 1)))
    losses = {"constant": np.full(n, np.log(2)), "quick": np.log(2) - gains + (gains.mean() - 0.01)}

    class Board:
        def __init__(self, candidate):
            self.candidate = candidate

        def predict_proba(self, first, second, context):
            p = np.exp(-losses[self.candidate][np.asarray(second, int) - 1])
            return np.column_stack((p, 1 - p))

    items = np.array([str(k) for k in range(n + 1)])
    battles = Battles(items, pairs, np.zeros(n, int), np.ones(n), time=np.arange(n) / n)
    found = over_time.best_on_later_battles(
        battles, ["constant", "quick"], lambda candidate, _: Board(candidate)
    )
    assert found == best


def test_updates_age_old_battles(tmp_path):
    pairs, won, time, _ = drawn()
    for options in ({"half_life": 1.5}, {"drift": 0.5, "period": 1.0}):
        board = Leaderboard(**options).fit(
            *pairs[:200].T, won[:200], time=time[:200], items=range(N)
        )
        board.update(*pairs[200:].T, won[200:], time=time[200:])
        whole = Leaderboard(**options).fit(*pairs.T, won, time=time, items=range(N))
        assert_allclose(board.ratings_, whole.ratings_, atol=1e-7)
        save_model(board, tmp_path / "board.rankwise")
        assert_allclose(load_model(tmp_path / "board.rankwise").as_of(2).ratings_,
                        whole.as_of(2).ratings_, atol=1e-7)  # fmt: skip
    with pytest.raises(DataError, match="same columns"):
        board.update([0], [1], ["first"])


def test_earlier_boards_have_the_features_of_items_of_the_fit():
    pairs, won, time, _ = drawn()
    features = {k: [float(k)] for k in range(N)}
    board = Leaderboard(half_life=2.0, n_draws=100).fit(
        *pairs.T, won, time=time, items=range(N), item_features=features
    )
    assert board.as_of(2, item_features=features).coef_names_ == ["z0"]
    for ask in (board.history, lambda: board.as_of(2), lambda: board.history(every=1.0)):
        with pytest.raises(DataError, match="was fitted with item_features"):
            ask()


def test_an_anchor_that_comes_late():
    pairs = np.tile([[0, 1], [0, 2], [1, 2]], (20, 1))
    time = np.where((pairs == 2).any(axis=1), 4.0, 1.0)
    board = Leaderboard().fit(*pairs.T, np.arange(60) // 3 % 2, time=time)
    assert set(board.history(times=[1, 4], anchor=(2, 0.0))["time"].tolist()) == {4}
    with pytest.raises(DataError, match="anchor 2 has no battle"):
        board.history(times=[1, 2], anchor=(2, 0.0))


def test_history():
    board = fitted(half_life=2.0)
    history = board.history(3)
    assert len(history) == 3 * N
    frame = history.to_frame().reset_index()
    assert frame["time"].nunique() == 3
    middle = sorted(frame["time"].unique())[1]
    rows = frame[frame["time"] == middle]
    assert_allclose(rows["rating"], board.as_of(middle).ratings_)
    assert ((rows["low"] < rows["rating"]) & (rows["rating"] < rows["high"])).all()
    ax = history.plot(top=2)
    assert len(ax.get_legend().get_texts()) == 2
    moved = board.history(3, elo=True, anchor=(2, 1500)).to_frame().reset_index()
    assert (moved.loc[moved["item"] == 2, ["rating", "low", "high"]] == 1500).all(axis=None)
    at_middle = board.as_of(middle).standings(elo=True, anchor=(2, 1500)).to_frame()
    rows = moved[moved["time"] == middle].set_index("item").loc[at_middle.index]
    assert_allclose(rows[["rating", "low", "high"]], at_middle[["rating", "low", "high"]])
    assert board.history(3, elo=True).plot().get_ylabel() == "rating, Elo points"
    given = board.history(times=[1.5, 3])
    assert sorted(set(given["time"].tolist())) == [1.5, 3]
    with pytest.raises(DataError, match="no battles until -1"):
        board.as_of(-1)
    with pytest.raises(DataError, match="are numbers"):
        board.as_of("2020-01-01")
    with pytest.raises(DataError, match="pass time to fit"):
        Leaderboard().fit(make_battles(4, 100, random_state=0).battles).history()


@pytest.mark.filterwarnings("ignore:Ratings change")
def test_histories_begin_with_the_first_winner():
    """By right answers, if these are the votes that count."""
    pairs, won, time, _ = drawn()
    words, late = np.where(won == 1, "first", "second"), np.arange(len(won)) > 0.7 * len(won)
    for outcome, gold in ((np.where(late, words, "tie"), None), (words, np.where(late, words, ""))):
        board = Leaderboard(n_draws=100).fit(*pairs.T, outcome, gold=gold, time=time)
        assert board.history(4)["time"].min() == time[late].min()
    with pytest.raises(ParameterError, match="times is empty"):
        board.history(times=[])
    with pytest.raises(DataError, match="Two or more categories or periods"):
        board.history(every=1e6)


def test_ratings_of_one_period_do_not_drift():
    """As in the first weeks of a history: there is nothing to estimate the drift from."""
    pairs, won, _, _ = drawn()
    plain = Leaderboard(n_draws=100).fit(*pairs.T, won)
    day = np.datetime64("2026-01-01") + np.arange(len(won)) % 20
    for time in (np.full(len(won), 5.0), day):
        board = Leaderboard(drift="evidence", n_draws=100).fit(*pairs.T, won, time=time)
        assert board.drift_ == 0.0
        assert_allclose(board.ratings_, plain.ratings_, atol=1e-3)
        assert_allclose(board.rating_std_, plain.rating_std_, rtol=1e-3)
    assert board.as_of("2026-01-10").drift_ == 0.0


def test_options_that_do_not_go_together():
    pairs, won, time, _ = drawn()
    with pytest.raises(ParameterError, match="use one of them"):
        fitted(half_life=1.0, drift=1.0)
    with pytest.raises(ParameterError, match="With drift, penalty"):
        fitted(drift=1.0, penalty="held-out")
    with pytest.raises(DataError, match="need the times"):
        Leaderboard(half_life=1.0).fit(*pairs.T, won)
    with pytest.raises(ParameterError, match="drift cannot be combined with judges"):
        Leaderboard(drift=1.0).fit(*pairs.T, won, time=time, judge=[0, 1] * 120)
    with pytest.raises(DataError, match="without drift"):
        fitted(drift=0.5, period=1.0).fragility()


DAYS = [18262.0, 18263.5]


@pytest.mark.parametrize(
    "given",
    [
        ["2020-01-01", "2020-01-02T12:00"],
        ["2020-01-01", "2020-01-02T13:00+01:00"],
        np.array(["2020-01-01", "2020-01-02T12:00"], dtype="datetime64[s]"),
        pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02 12:00"], format="ISO8601")),
        pd.to_datetime(pd.Series(["2020-01-01", "2020-01-02 12:00"]), format="ISO8601", utc=True),
        [date(2020, 1, 1), datetime(2020, 1, 2, 12)],
        [20200101, datetime(2020, 1, 2, 12)],
    ],
)
def test_dates_of_all_kinds(given):
    found, dated = check_times(given, 2)
    assert dated
    assert_allclose(found, DAYS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["2020-01-01", "2020-13-01"], "Battle 1: the time '2020-13-01' is neither a date"),
        (["2020-01-01", None], "Battle 1: the time 'None' is neither"),
        (["2020-01-01", 3], "Battle 1: the time 3 is a number, and '2020-01-01' a date"),
        (np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"), "Battle 1: the time 'NaT'"),
        ([1.0], "one entry per battle"),
        ([1.0, np.inf], "Battle 1: the time 'inf'"),
    ],
)
def test_bad_times_are_refused_with_their_row(given, message):
    with pytest.raises(DataError, match=message):
        Battles.of(["a", "b"], ["b", "a"], [1, 1], time=given)


def test_months_are_dates():
    found, dated = check_times(["1970-01", "1970-02"], 2)
    assert dated
    assert found.tolist() == [0, 31]
    assert check_times(["197001", "197002"], 2)[1] is False


def test_numbers_are_not_dates():
    assert check_times([1, 2.5], 2)[1] is False
    assert check_times(["1", "20201301"], 2)[1] is False  # month 13
    assert check_times(["20200101", "20200102"], 2)[1] is True


def test_a_file_with_dates(tmp_path):
    path = tmp_path / "games.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["winner", "loser", "day"])
        writer.writerows([["a", "b", "2020-01-01"], ["b", "a", ""], ["a", "c", "2020-01-03"]])
    found = read_battles(path, time="day")
    assert found.dropped == {"without a time": 1}
    assert found.battles.dated
    assert_allclose(np.diff(found.battles.time), 2.0)
    with path.open("a") as file:
        file.write("a,c,yesterday\n")
    with pytest.raises(DataError, match="line 5: the time 'yesterday' is neither"):
        read_battles(path, time="day")
    frame = pd.DataFrame({"winner": ["a", "b"] * 15, "loser": ["b", "a"] * 15,
                          "day": pd.date_range("2020-01-01", periods=30)})  # fmt: skip
    board = Leaderboard(half_life=10).fit(frame, time="day")
    assert len(board.as_of("2020-01-25").battles_) == 25
