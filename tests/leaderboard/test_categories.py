"""Boards within a board: ratings of categories, and whether they differ by chance."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit, logsumexp

from rankwise import Leaderboard, load_model, save_model
from rankwise.data import Battles
from rankwise.errors import DataError, ParameterError
from rankwise.leaderboard import categories, curvature
from rankwise.leaderboard.battle_likelihood import BattleProblem
from tests.leaderboard.test_battles import as_array
from tests.oracles import categories as oracle

N = 4


def drawn(seed=0, sizes=(150, 80, 12), width=0.8, n=N):
    rng = np.random.default_rng(seed)
    category = np.repeat(np.arange(len(sizes)), sizes)
    ratings = rng.normal(size=n) + width * rng.normal(size=(len(sizes), n))
    first = rng.integers(0, n, len(category))
    second = (first + rng.integers(1, n, len(category))) % n
    eta = ratings[category, first] - ratings[category, second]
    won = rng.random(len(category)) < 1 / (1 + np.exp(-eta))
    words = np.array(["art", "biology", "chess"])[category]
    return first, second, won.astype(int), category, words, ratings


def fitted(seed=0, width=0.8, **options):
    first, second, won, _, words, _ = drawn(seed, width=width)
    return Leaderboard(**options).fit(first, second, won, by=words, items=range(N))


def test_intervals_of_a_category_take_no_sums_over_the_others(monkeypatch):
    """Before, time grew with the square of the number of categories."""
    original = categories._of_one_width

    def without_solutions(*given):
        with monkeypatch.context() as patched:
            patched.setattr(curvature.ArrowCurvature, "solve", None)
            return original(*given)

    monkeypatch.setattr(categories, "PERMUTATIONS", 20)
    expected = fitted(n_draws=100)
    monkeypatch.setattr(categories, "_of_one_width", without_solutions)
    found = fitted(n_draws=100)
    assert_allclose(found.category_covariances_, expected.category_covariances_, rtol=1e-9)


@pytest.mark.parametrize(("options", "way"), [({}, "each category"), ({"drift": 1.0}, "half_life")])
def test_gold_beside_categories_or_drift_is_refused(options, way):
    first, second, won, _, words, _ = drawn()
    columns = {"time": range(len(won))} if options else {"by": words}
    with pytest.raises(ParameterError, match=f"cannot be combined with gold: .*{way}"):
        Leaderboard(**options).fit(first, second, won, gold=won, **columns)


def test_words_are_in_ascending_order():
    first, second, won, _, words, _ = drawn(sizes=(60, 40, 20))
    backwards = slice(None, None, -1)
    given = [each[backwards] for each in (first, second, won)]
    board = Leaderboard(n_draws=100).fit(*given, by=words[backwards], items=range(N))
    assert board.categories_.tolist() == ["art", "biology", "chess"]
    assert board.categories()["battles"].tolist() == [60, 40, 20, 120]
    assert str(board.categories()).split()[0] == "category"
    late = np.random.default_rng(0).random(len(won)) + 0.5 * (words == "art")
    timed = Leaderboard(n_draws=100).fit(*given, by=words[backwards], time=late[backwards])
    assert timed.categories_.tolist() == ["art", "biology", "chess"]
    forwards = Leaderboard(n_draws=100).fit(first, second, won, by=words, items=range(N))
    assert_allclose(board.category_ratings_, forwards.category_ratings_, atol=1e-6)


def test_periods_are_categories_in_the_order_of_time():
    first, second, won, category, _, _ = drawn()
    days = np.datetime64("2026-01-20") + 30 * category + np.arange(len(first)) % 10
    shuffled = np.random.default_rng(0).permutation(len(first))
    battles = Battles.of(first, second, won, items=range(N), time=days).take(shuffled)
    board = Leaderboard(n_draws=100).fit(battles.every("month"))
    assert board.categories_.tolist() == ["2026-01", "2026-02", "2026-03"]
    by_hand = fitted(n_draws=100)
    assert_allclose(board.category_ratings_, by_hand.category_ratings_, atol=1e-6)
    history = Leaderboard(n_draws=100).fit(battles).history(every="month")
    assert history["time"].tolist() == sorted(history["time"].tolist())
    assert_allclose(history["rating"], board.category_ratings_.ravel())
    low, high = board.within("2026-02").interval()
    assert_allclose(history["low"][N : 2 * N], low)
    assert_allclose(history["high"][N : 2 * N], high)
    points = board.history(every="month", elo=True)
    assert_allclose(points["rating"], 1000 + 400 / np.log(10) * history["rating"])
    assert_allclose(
        board.categories(elo=True)["deviation"],
        400 / np.log(10) * board.categories()["deviation"],
    )
    assert "in Elo points" in str(board.categories(elo=True))
    for table in (board.categories(), board.deviations()):
        assert str(table).split()[0] == "period"
    with pytest.raises(ParameterError, match="logit link"):
        Leaderboard("probit", n_draws=100).fit(battles).history(every="month", elo=True)
    early = board.as_of("2026-02-01")  # of one month only
    assert early.width_ is None
    assert len(early.battles_) == 150
    with pytest.raises(ParameterError, match="use one of them"):
        board.history(every="month", times=["2026-02-01"])


def test_periods_of_dates_and_numbers():
    def periods(time, every):
        return Battles.of([1] * 3, [2] * 3, [1] * 3, time=time).every(every).category.tolist()

    dates = ["2026-12-31T23:59", "2027-01-01", "2027-01-04"]
    assert periods(dates, "year") == ["2026", "2027", "2027"]
    assert periods(dates, "week") == ["2026-12-28", "2026-12-28", "2027-01-04"]
    assert periods(dates, "day") == ["2026-12-31", "2027-01-01", "2027-01-04"]
    assert periods(["1969-12-31", "1970-01-01", "1970-01-09"], "7") == [
        "1969-12-25", "1970-01-01", "1970-01-08",
    ]  # fmt: skip
    assert periods([0.2, 0.5, 0.9], 0.25) == ["0", "0.5", "0.75"]
    for wrong in ("fortnight", 0, -1, np.inf):
        with pytest.raises(ParameterError, match="every must be day, week"):
            periods(dates, wrong)
    with pytest.raises(ParameterError, match="needs dates"):
        periods([1, 2, 3], "month")
    with pytest.raises(ParameterError, match="use longer ones"):
        Battles.of([1] * 600, [2] * 600, [1] * 600, time=range(600)).every(1)
    with pytest.raises(DataError, match="pass time"):
        Battles.of([1], [2], [1]).every("month")


@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_the_curvature_is_that_of_dense_matrices(seed, ties, by_item):
    rng = np.random.default_rng(seed)
    C, rows = 3, 25
    cell = np.append(rng.integers(0, C, rows), np.arange(C))
    first = np.append(rng.integers(0, N, rows), [0] * C)
    second = (first + rng.integers(1, N, len(first))) % N
    outcome = rng.integers(0, 3 if ties else 2, len(first))
    outcome[0] = 0
    x = rng.normal(size=(len(first), 2))
    battles = Battles(
        np.arange(N), np.column_stack((first, second)), outcome, rng.random(len(first)), context=x
    )
    problem = BattleProblem.of(battles, link="logit", ties="model", position=False)
    problem = problem.with_item_ties() if by_item else problem
    cells = categories.CellLikelihood.of(problem, cell)
    plain, row = cells.likelihood, cells.row
    assert (plain.category[plain.tally.first[row]] == cell).all()
    assert_allclose(plain.item[plain.tally.first[row]], problem.likelihood.tally.first[problem.row])
    star = categories.StarLikelihood(plain, N)
    size = star.layout.size
    params = rng.normal(size=size)
    value, gradient, matrix = star.expand(params, dense=True)
    assert_allclose(value, star.value(params))
    steps = 1e-5 * np.eye(size)
    slopes = [(star.value(params + e) - star.value(params - e)) / 2e-5 for e in steps]
    assert_allclose(gradient, slopes, atol=1e-6)
    bends = [
        (star.expand(params + e, dense=True)[1] - star.expand(params - e, dense=True)[1]) / 2e-5
        for e in steps
    ]
    precision = np.full(size, 0.1)
    precision[star.layout.items] = 0.7
    precision[star.layout.deviations] = rng.random(len(plain.item)) + 0.5
    K = -np.array(bends) + np.diag(precision)
    assert_allclose(matrix.diagonal(), K.diagonal() - precision, atol=1e-5)
    assert_allclose(as_array(matrix), K - np.diag(precision), atol=1e-5)
    solver = matrix.curvature(precision, star.layout.items, 0.0)
    R = rng.normal(size=(size, 2))
    assert_allclose(K @ solver.solve(R), R, atol=1e-4)
    inverse = np.linalg.inv(K).diagonal()
    for name, trace in solver.traces(star.layout.groups).items():
        assert_allclose(trace, inverse[star.layout.groups[name]].sum(), rtol=1e-4)


def test_ratings_and_errors_are_those_of_the_oracle(monkeypatch):
    monkeypatch.setattr(categories, "INTEGRATED", 0)  # with one width
    board = fitted()
    first, second, won, category, _, _ = drawn()
    winners, losers = np.where(won == 1, (first, second), (second, first))
    overall, ratings, K, scores = oracle.fit_categories(
        winners, losers, category, N, board.penalty_, board.width_
    )
    assert_allclose(board.ratings_, overall - overall.mean(), atol=1e-5)
    centred = ratings - ratings.mean(axis=1, keepdims=True)
    assert_allclose(board.category_ratings_, centred, atol=1e-5)
    precision = np.repeat([board.penalty_, board.width_**-2], [N, 3 * N])
    n = len(scores)
    meat = scores.T @ scores * n / (n - 1) + np.diag(precision)
    V = np.linalg.inv(K) @ meat @ np.linalg.inv(K)
    center = np.eye(N) - 1 / N
    for c in range(3):
        own = np.zeros((N, 4 * N))
        own[:, (c + 1) * N : (c + 2) * N] = center
        assert_allclose(board.deviation_std_[c], np.sqrt(np.diag(own @ V @ own.T)), atol=1e-5)
        own[:, :N] = center
        assert_allclose(board.category_covariances_[c], own @ V @ own.T, atol=1e-5)
    own = np.zeros((N, 4 * N))
    own[:, :N] = center
    assert_allclose(board.covariance_, own @ V @ own.T, atol=1e-5)


@pytest.mark.parametrize(
    "between", [0.0, pytest.param(0.8, marks=pytest.mark.slow)], ids=["equal", "apart"]
)
def test_widths_are_averaged_over(monkeypatch, between):
    """A coarse grid of widths, and none, gives what a fine one gives."""
    board = fitted(width=between)
    monkeypatch.setattr(categories, "INTEGRATED", 0)
    one_width = fitted(width=between)
    penalty = one_width.penalty_
    first, second, won, category, _, _ = drawn(width=between)
    winners, losers = np.where(won == 1, (first, second), (second, first))
    widths, values, found = np.geomspace(0.06, 3.0, 10), [], []
    given = (winners, losers, category, N, penalty)
    for width in widths:
        value, _, ratings = oracle.log_evidence(*given, width)
        values.append(value + 2 * np.log(width) - width / categories.WIDTH_SCALE)
        found.append(ratings - ratings.mean(axis=1, keepdims=True))
    log_step = np.log(np.log(widths[1] / widths[0]) / categories.WIDTH_SCALE**2)
    differ, equal = logsumexp(values) + log_step, oracle.log_evidence(*given, 1e-3)[0]
    weights = np.exp(np.array(values) - logsumexp(values))
    assert board.width_ == pytest.approx(weights @ widths, rel=0.06)
    expected = np.tensordot(weights, found, 1)
    expected += (board.ratings_ - expected) * expit(equal - differ)
    assert_allclose(board.category_ratings_, expected, atol=0.01)
    assert (board.deviation_std_ > one_width.deviation_std_).mean() > 0.5


def test_small_categories_are_shrunk_and_large_ones_are_themselves():
    first, second, won, _, words, _ = drawn(1, (6000, 6000, 30))
    board = Leaderboard().fit(first, second, won, by=words, items=range(N))
    large = words == "art"
    alone = Leaderboard().fit(first[large], second[large], won[large], items=range(N))
    assert_allclose(board.category_ratings_[0], alone.ratings_, atol=0.1)
    small = words == "chess"
    few = Leaderboard(penalty=0.01).fit(first[small], second[small], won[small], items=range(N))
    towards = abs(board.category_ratings_[2] - board.ratings_).sum()
    assert towards < abs(few.ratings_ - board.ratings_).sum()


def test_chance_is_told_from_difference():
    first, second, won, _, words, _ = drawn(3, (600, 400, 60))
    groups = np.arange(len(won)) // 2
    for more in ({}, {"groups": groups}):
        board = Leaderboard().fit(first, second, won, by=words, items=range(N), **more)
        assert board.categories()["p"][-1] < 0.01
        mixed = np.random.default_rng(0).permutation(words)
        same = Leaderboard().fit(first, second, won, by=mixed, items=range(N), **more)
        assert same.categories()["p"][-1] > 0.02
        assert same.width_ < 0.5 * board.width_


def test_tables_and_boards_of_categories(tmp_path):
    board = fitted()
    assert "biology" in str(board.categories())
    assert board.categories()["battles"].tolist() == [150, 80, 12, 242]
    frame = board.deviations().to_frame().reset_index()
    assert len(frame) == 3 * N
    inside = board.within("chess")
    assert_allclose(inside.ratings_, board.category_ratings_[2])
    assert inside.standings()["battles"].sum() == 24
    assert_allclose(inside.draws_.std(axis=0), inside.rating_std_, rtol=0.1)
    save_model(board, tmp_path / "board.rankwise")
    again = load_model(tmp_path / "board.rankwise")
    assert_allclose(again.within("art").ratings_, board.within("art").ratings_)
    with pytest.raises(DataError, match="no category 'maths'"):
        board.within("maths")
    with pytest.raises(DataError, match="pass by to fit"):
        Leaderboard().fit(["a", "b"] * 20, ["b", "a"] * 20, [1, 0, 0, 1] * 10).categories()
    with pytest.raises(DataError, match="without drift and categories"):
        board.fragility()
    with pytest.raises(ParameterError, match="by cannot be combined"):
        fitted(penalty="held-out")
    first, second, won, _, words, _ = drawn()
    with pytest.raises(ParameterError, match="drift cannot be combined with by"):
        Leaderboard(drift=1.0).fit(first, second, won, by=words, time=np.arange(len(won)))
    with pytest.raises(DataError, match=r"all battles are of 'x'\."):
        Leaderboard().fit(first, second, won, by=["x"] * len(won))


def test_shares_within_a_category_are_of_its_battles():
    first, second, won, _, words, _ = drawn()
    words = np.where(np.arange(len(words)) == 0, "drama", words)
    board = Leaderboard(n_draws=100).fit(first, second, won, by=words, items=range(N))
    assert board.within("drama").shares()["battles"].tolist() == [1]
    small, here = board.within("chess"), words == "chess"
    alone = Leaderboard(n_draws=100, penalty=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few battles
        alone.fit(first[here], second[here], won[here], items=range(N))
    assert_allclose(small.pair_counts_, alone.pair_counts_)
    pairs = small.pair_counts_[:, :2].astype(int).T
    assert_allclose(small.pair_shares_, small.predict_proba(*pairs))
    for refused in (
        *(small.categories, small.deviations, lambda: small.within("art")),
        # These would be fitted without the battles of other categories, unlike the leaderboard.
        *(small.history, lambda: small.history(every=1.0), lambda: small.as_of(1)),
        lambda: small.update([0], [1], ["first"], by=["art"]),
    ):
        with pytest.raises(DataError, match="This is the leaderboard of 'chess'"):
            refused()


def test_ids_that_are_whole_numbers_have_no_separators():
    first, second, won, code, _, _ = drawn()
    board = Leaderboard(n_draws=100).fit(first, second, won, by=np.array([2023, 2024, 2025])[code])
    assert "2024" in str(board.categories())
    assert "2024" in str(board.deviations())


@pytest.mark.parametrize("options", [{"drift": 0.5}, {"by": True}], ids=str)
def test_both_columns_of_groups_count(options):
    """With groups and single battles, the groups count, whichever comes first."""
    first, second, won, _, words, _ = drawn()
    session = np.repeat([f"s{k}" for k in range(len(won) // 2)], 2)
    won = np.repeat(won[::2], 2)  # sessions of two equal battles
    first, second = np.repeat(first[::2], 2), np.repeat(second[::2], 2)
    own = np.array([f"b{k}" for k in range(len(won))])
    more = {"by": words} if "by" in options else {"time": np.arange(len(won))}
    errors = {}
    for name, groups in {
        "session": session,
        "own": own,
        "both": np.column_stack((session, own)),
        "turned": np.column_stack((own, session)),
    }.items():
        board = Leaderboard(n_draws=100, drift=options.get("drift"), period=60.0)
        board.fit(first, second, won, groups=groups, items=range(N), **more)
        errors[name] = board.rating_std_
    assert_allclose(errors["both"], errors["session"], rtol=1e-6)
    assert_allclose(errors["turned"], errors["session"], rtol=1e-6)
    assert (errors["own"] < 0.95 * errors["session"]).all()


def test_updates_of_categories():
    first, second, won, _, words, _ = drawn()
    order = np.random.default_rng(0).permutation(len(won))
    one, two = order[:200], order[200:]
    board = Leaderboard(penalty=1.0).fit(
        first[one], second[one], won[one], by=words[one], items=range(N)
    )
    board.update(first[two], second[two], won[two], by=words[two])
    whole = Leaderboard(penalty=1.0).fit(
        first[order], second[order], won[order], by=words[order], items=range(N)
    )
    assert_allclose(board.category_ratings_, whole.category_ratings_, atol=1e-6)
