"""Rankings of several items: likelihood, ties, files, warnings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from rankwise import Leaderboard, load_model, save_model
from rankwise.data import Battles, Rankings, make_battles, read_rankings
from rankwise.errors import DataError, ParameterError, RankwiseWarning
from rankwise.leaderboard.ranking_likelihood import RankingLists
from tests.oracles import rankings as oracle

ITEMS = 6


def drawn(seed, n=40, ties=True):
    """Lists of 2 to 5 of six items, some with ties, and a covariate of each entry."""
    rng = np.random.default_rng(seed)
    lists = []
    for _ in range(n):
        size = rng.integers(2, 6)
        chosen = rng.choice(ITEMS, size, replace=False)
        order = chosen[np.argsort(-(0.4 * chosen + rng.gumbel(size=size)))].tolist()
        if ties and size > 2 and rng.random() < 0.5:
            k = rng.integers(0, size - 1)
            order[k : k + 2] = [order[k : k + 2]]
        lists.append(order)
    x = rng.normal(size=(sum(map(len, flat(lists))), 1))
    return lists, x


def flat(lists):
    return [[i for e in row for i in (e if isinstance(e, list) else [e])] for row in lists]


def levels(lists, x):
    """Lists as the oracle takes them."""
    rows = iter(x)
    levels = [[e if isinstance(e, list) else [e] for e in row] for row in lists]
    return [[[(i, next(rows)) for i in level] for level in row] for row in levels]


@given(st.integers(0, 2**32 - 1))
def test_the_likelihood_is_a_sum_over_orders(seed):
    rng = np.random.default_rng(seed)
    lists, x = drawn(seed, 6)
    problem = RankingLists.of(Rankings.of(lists, items=range(ITEMS), context=x))
    params = 2 * rng.normal(size=ITEMS + 1)
    likelihood = problem.likelihood
    expected = sum(
        oracle.ranking_log_likelihood(
            [[params[i] + z[0] / problem.scales[0] * params[-1] for i, z in part] for part in row]
        )
        for row in levels(lists, x)
    )
    value, gradient, hessian = likelihood.expand(params, dense=True)
    assert_allclose(value, expected, atol=1e-9)
    assert_allclose(likelihood.value(params), value)
    steps = 1e-5 * np.eye(ITEMS + 1)
    slopes = [(likelihood.value(params + e) - likelihood.value(params - e)) / 2e-5 for e in steps]
    assert_allclose(gradient, slopes, atol=1e-6)
    gradients = [
        [likelihood.expand(params + sign * e, dense=True)[1] for sign in (1, -1)] for e in steps
    ]
    bends = [(up - down) / 2e-5 for up, down in gradients]
    assert_allclose(hessian, -np.array(bends), atol=1e-6)
    assert_allclose(likelihood.expand(params, dense=False)[2].toarray(), hessian, atol=1e-12)
    assert_allclose(problem.scores(params).matrix.sum(axis=0), gradient, atol=1e-10)


def test_ratings_are_those_of_the_oracle():
    lists, x = drawn(3)
    weight = np.linspace(0.5, 2, len(lists))
    board = Leaderboard(penalty=0.5).fit_rankings(
        lists, items=range(ITEMS), context=x, weight=weight
    )
    expected = oracle.fit_rankings(levels(lists, x), ITEMS, 0.5, 1, weight)
    assert_allclose(board.ratings_, expected[:ITEMS], atol=1e-5)
    assert_allclose(board.coef_, expected[ITEMS:], atol=1e-5)


def test_the_maximum_is_that_of_choix():
    choix = pytest.importorskip("choix")
    lists, _ = drawn(4, 80, ties=False)
    board = Leaderboard(penalty=0).fit_rankings(lists, items=range(ITEMS))
    theirs = choix.opt_rankings(ITEMS, lists, alpha=0, tol=1e-12)
    assert_allclose(board.ratings_, theirs - theirs.mean(), atol=1e-6)


def test_rankings_of_two_items_are_battles():
    made = make_battles(5, 300, ties=0, both_bad=0, style=0, random_state=0).battles
    pairs = np.where(made.outcome[:, None] == 0, made.pairs, made.pairs[:, ::-1])
    for penalty in ("evidence", "held-out"):
        board = Leaderboard(penalty=penalty).fit_rankings(pairs, items=range(5), groups=made.groups)
        same = Leaderboard(penalty=penalty).fit(
            *pairs.T, ["first"] * 300, items=range(5), groups=made.groups
        )
        assert_allclose(board.penalty_, same.penalty_, rtol=1e-6)
        assert_allclose(board.ratings_, same.ratings_, atol=1e-8)
        assert_allclose(board.covariance_, same.covariance_, atol=1e-8)
        assert_allclose(board.pair_shares_, same.pair_shares_, atol=1e-8)
        assert_allclose(board.pair_counts_, same.pair_counts_, atol=1e-8)


def test_a_tie_for_the_last_place_is_the_best_of_some():
    lists = [[0, [1, 2]], [1, [2, 0]], [0, [2, 3, 1]], [3, [0, 1]], [2, [3, 0]]] * 10
    board = Leaderboard(penalty=0.3).fit_rankings(lists)

    def loss(theta):
        chosen = [theta[row[0]] - np.log(np.exp(theta[[row[0], *row[1]]]).sum()) for row in lists]
        return 0.15 * theta @ theta - sum(chosen)

    best = loss(board.ratings_)
    for e in 0.01 * np.eye(4):
        assert loss(board.ratings_ + e) > best
        assert loss(board.ratings_ - e) > best
    turned = [[row[0], row[1][::-1]] for row in lists]
    assert_allclose(Leaderboard(penalty=0.3).fit_rankings(turned).ratings_, board.ratings_)


def test_results_of_rankings(tmp_path):
    lists, x = drawn(5, 60)
    named = [
        [[f"d{i}" for i in e] if isinstance(e, list) else f"d{e}" for e in row] for row in lists
    ]
    features = {f"d{k}": [k % 2, k] for k in range(ITEMS)}
    board = Leaderboard().fit_rankings(
        named, context=x, groups=np.arange(60) // 2, item_features=features
    )
    assert board.n_groups_ == 30
    assert board.coef_names_ == ["x0", "z0", "z1"]
    assert "the change of an item's rating" in str(board.coefficients())
    table = board.standings()
    assert table["rankings"].sum() == len(x)
    assert "rankings" in str(table)
    assert "predicted" in "".join(board.shares().to_frame().columns)
    assert_allclose(board.predict_proba(["d1"], ["d2"]).sum(), 1.0)
    assert len(board.suggest_pairs(2)) == 2
    path = tmp_path / "board.rankwise"
    save_model(board, path)
    assert_allclose(load_model(path).standings()["rating"], table["rating"])
    with pytest.raises(DataError, match="call fit_rankings"):
        board.update(["d1"], ["d2"], ["first"])
    with pytest.raises(DataError, match="no judges"):
        board.judges()
    assert len(Rankings.of(named).take([3, 5])) == 2


def test_rankings_as_battles_have_weights_and_groups():
    rankings = Rankings.of([["a", "b", "c", "d"], ["b", ["a", "c"]]])
    battles = rankings.battles()
    names = battles.items[battles.pairs]
    assert len(battles) == 6 + 2
    assert names[:3].tolist() == [["a", "b"], ["a", "c"], ["a", "d"]]
    assert_allclose(battles.weight, [0.5] * 6 + [2 / 3] * 2)
    assert battles.groups.tolist() == [0] * 6 + [1] * 2


def test_all_pairs_without_groups_warn():
    lists, _ = drawn(6, 60, ties=False)
    rankings = Rankings.of(lists)
    battles = rankings.battles()
    ids = battles.items[battles.pairs]
    with pytest.warns(RankwiseWarning, match="all pairs of rankings"):
        Leaderboard().fit(*ids.T, ["first"] * len(ids))
    Leaderboard().fit(*ids.T, ["first"] * len(ids), groups=battles.groups, weight=battles.weight)
    plain = make_battles(4, 200, random_state=0).battles
    Leaderboard().fit(Battles(plain.items, plain.pairs, plain.outcome, plain.weight))


def test_a_file_of_places(tmp_path):
    table = {
        "race": ["r1", "r1", "r1", "r2", "r2", "r2"],
        "driver": ["a", "b", "c", "b", "c", "a"],
        "place": ["2", "1", "2", "1", "DNF", ""],
        "season": [1, 1, 1, 2, 2, 2],
    }
    columns = {"ranking": "race", "item": "driver", "place": "place"}
    found = read_rankings(table, **columns, groups="season")
    r = found.rankings
    assert r.items[r.item].tolist() == ["b", "a", "c", "b", "c", "a"]
    assert r.place.tolist() == [0, 1, 1, 0, 1, 1]
    assert r.groups.tolist() == [1, 2]
    assert found.remarks == ["2 entries have no place ('DNF'): below all others of their rankings."]
    same = Rankings.of_places(table["race"], table["driver"], [2, 1, 2, 1, None, np.nan])
    assert same.place.tolist() == r.place.tolist()
    with pytest.raises(DataError, match=r"row 1: the column 'place' must hold places.*'1st'"):
        read_rankings({**table, "place": ["2", "1st", "2", "1", "", ""]}, **columns)
    with pytest.raises(DataError, match="row 4: the column 'season' has 3"):
        read_rankings({**table, "season": [1, 1, 1, 2, 3, 2]}, **columns, groups="season")
    with pytest.raises(DataError, match="no column 'place'"):
        read_rankings({"race": [1], "driver": ["a"]}, **columns)


def test_rows_that_are_left_out_need_no_place_and_no_covariate():
    table = {
        "race": ["r1", "r1", None, "r2", "r2"],
        "driver": ["a", "b", "b", "", "a"],
        "place": ["2", "1", "1st", "lost", "1"],
        "grid": [1, 2, None, "first", 3],
    }
    columns = {"ranking": "race", "item": "driver", "place": "place"}
    found = read_rankings(table, **columns, style=["grid"])
    assert found.dropped == {"without a ranking": 1, "without an item": 1}
    assert found.remarks == []
    assert found.rankings.context.tolist() == [[2.0], [1.0], [3.0]]
    assert found.rankings.items[found.rankings.item].tolist() == ["b", "a", "a"]
    with pytest.raises(DataError, match="row 4: the column 'grid' must hold numbers: got 'last'"):
        read_rankings({**table, "grid": [1, 2, None, 3, "last"]}, **columns, style=["grid"])


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([], "no rankings"),
        ([["a", "b"], []], "List 1 is empty"),
        (["ab"], "List 0 must be a sequence of ids"),
        ([["a", "b"], ["a", "c", "a"]], "Ranking 1 has the item 'a' more than once"),
        ([["a", None]], "Ranking 0 has an item without an id"),
        ([["a"]], "two or more items"),
        ([["a"], [["a", "b"]]], "No ranking has an item above another"),
    ],
)
def test_bad_lists_are_refused(lists, message):
    with pytest.raises(DataError, match=message):
        Leaderboard().fit_rankings(lists)


def test_options_that_rankings_do_not_take():
    lists = [["a", "b"], ["b", "a"]] * 15
    options = {"link": "probit", "ties": "by item", "position": True, "half_life": 1, "drift": 1}
    for name, value in options.items():
        with pytest.raises(ParameterError, match=f"^{name}.* is for battles: .*(use|pass) "):
            Leaderboard(**{name: value}).fit_rankings(lists)
    for name in ("judge", "gold", "time", "by"):
        with pytest.raises(ParameterError, match=f"^{name} is for battles: (pass|fit) "):
            Leaderboard().fit_rankings(lists, **{name: ["x"] * 30})
    for name in ("season", "link"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            Leaderboard().fit_rankings(lists, **{name: 1})
    with pytest.raises(ParameterError, match="weight belongs to the rankings"):
        Leaderboard().fit_rankings(Rankings.of(lists), weight=[1] * 30)
    with pytest.raises(DataError, match="'x0' is 0: its coefficient"):
        Leaderboard().fit_rankings(lists, context=np.ones((60, 1)))
    with pytest.raises(DataError, match="unknown item 'b'"):
        Leaderboard().fit_rankings(lists, items=["a", "c"])
    with pytest.warns(RankwiseWarning, match="'a' won all rankings"):
        Leaderboard().fit_rankings([["a", "b", "c"], ["a", "c", "b"]] * 15)
    with pytest.raises(DataError, match="'a' won all rankings"):
        Leaderboard(penalty=0).fit_rankings([["a", "b", "c"], ["a", "c", "b"]] * 15)
