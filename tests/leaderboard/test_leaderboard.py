"""Leaderboards: ratings, intervals, ranks, covariates, judges, updates, warnings."""

import warnings
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from rankwise import Leaderboard, load_model, save_model
from rankwise.data import Battles, make_battles, read_battles
from rankwise.errors import DataError, ParameterError, RankwiseWarning
from tests.oracles.battles import dense_newton, evidence_penalty

MADE = make_battles(6, 400, random_state=0)
BATTLES = MADE.battles


@pytest.fixture(scope="module")
def board():
    return Leaderboard().fit(BATTLES)


def counted(battles):
    return battles.take(battles.outcome != 3)


def test_ratings_and_errors_are_those_of_the_oracle(board):
    b = counted(BATTLES)
    singles = list(zip(*b.pairs.T, b.outcome, b.context, strict=True))
    penalty = board.penalty_
    params, H, scores = dense_newton(singles, b.weight, 6, penalty, ties=True, n_columns=1)
    assert_allclose(board.ratings_, params[:6] - params[:6].mean(), atol=1e-8)
    assert_allclose(board.coef_, params[6:7], atol=1e-8)
    assert_allclose(board.tie_, np.exp(params[7]), atol=1e-8)
    groups = np.unique(b.groups)
    sums = np.array([scores[b.groups == g].sum(axis=0) for g in groups])
    M, P = sums.T @ sums * len(groups) / (len(groups) - 1), np.diag([penalty] * 6 + [0, 0])
    # The evidence chooses the penalty of a likelihood that is divided by the dependence.
    plain = Leaderboard().fit(replace(BATTLES, groups=None))
    _, K, scores = dense_newton(singles, b.weight, 6, plain.penalty_, ties=True, n_columns=1)
    sums = np.array([scores[b.groups == g].sum(axis=0) for g in groups])
    own = np.diag([plain.penalty_] * 6 + [0, 0])
    found = sums.T @ sums * len(groups) / (len(groups) - 1)
    ratio = np.trace(np.linalg.solve(K, found)[:6, :6])
    ratio /= np.trace(np.linalg.solve(K, K - own)[:6, :6])
    assert_allclose(board.dependence_, ratio, rtol=1e-6)
    assert board.dependence_ > 1.02
    want = evidence_penalty(singles, b.weight / ratio, 6, ties=True, n_columns=1)
    assert_allclose(board.penalty_, want * ratio, rtol=1e-6)
    assert board.penalty_ > plain.penalty_
    meat = M + ratio * P
    V = np.linalg.inv(H) @ meat @ np.linalg.inv(H)
    C = np.eye(6) - 1 / 6
    assert_allclose(board.covariance_, C @ V[:6, :6] @ C, atol=1e-8)
    assert_allclose(board.coef_std_, np.sqrt(V[6, 6]), atol=1e-8)
    assert board.n_groups_ == len(groups)


def test_standings_are_ordered_and_agree_with_draws(board):
    frame = board.standings().to_frame()
    assert frame["rating"].is_monotonic_decreasing
    assert frame["rank"].tolist() == [1, 2, 3, 4, 5, 6]
    assert ((frame["rank_low"] <= frame["rank"]) & (frame["rank"] <= frame["rank_high"])).all()
    assert_allclose(frame["p_first"].sum(), 1.0)
    assert frame["group"].is_monotonic_increasing
    assert frame["battles"].sum() == 2 * len(BATTLES)
    assert_allclose(board.top(6), 1.0)
    assert (board.top(3) >= board.top(1)).all()
    ranks = (-board.draws_).argsort(axis=1).argsort(axis=1)
    assert_allclose(board.top(2), (ranks < 2).mean(axis=0))
    elo = board.standings(elo=True).to_frame()["rating"]
    assert_allclose(elo.mean(), 1000.0)
    assert_allclose(elo - 1000, 400 / np.log(10) * frame["rating"])
    assert "P(first)" in str(board.standings())
    assert "<table>" in board.standings()._repr_html_()
    ax = board.plot(top=3)
    assert len(ax.get_yticks()) == 3


def test_settled_pairs_are_antisymmetric_and_a_subset_of_single_tests(board):
    settled = board.settled()
    assert (settled == -settled.T).all()
    spread = board.covariance_.diagonal()
    error = np.sqrt(spread + spread[:, None] - 2 * board.covariance_)
    difference = board.ratings_[:, None] - board.ratings_
    assert ((settled != 0) <= (abs(difference) > 1.96 * error)).all()
    far = Leaderboard().fit(["a", "b"] * 100, ["b", "a"] * 100, [1, 0, 1, 0, 1, 0, 0, 1] * 25)
    assert far.settled().tolist() == [[0, 1], [-1, 0]]
    assert far.standings()["group"].tolist() == [1, 2]


def test_probabilities_sum_to_one_and_are_symmetric(board):
    ids = board.items_
    p = board.predict_proba(ids[:3], ids[3:])
    q = board.predict_proba(ids[3:], ids[:3])
    assert_allclose(p.sum(axis=1), 1.0)
    assert_allclose(p[:, :2], q[:, 1::-1])
    styled = board.predict_proba(ids[:1], ids[1:2], context=[[5.0]])
    assert styled[0, 0] > board.predict_proba(ids[:1], ids[1:2])[0, 0]
    assert_allclose(board.predict(ids[::-1]), board.ratings_[::-1])
    assert board.predict() is board.ratings_


def test_observed_and_predicted_shares_have_the_same_sums(board):
    """At the maximum of Davidson's likelihood, the number of ties is the expected one."""
    shares = board.shares().to_frame()
    for word in ("wins", "loses", "ties"):
        assert shares[word].between(0, 1).all()
    assert_allclose(
        (shares["battles"] * shares["ties"]).sum(),
        (shares["battles"] * shares["ties, predicted"]).sum(),
        rtol=1e-7,
    )
    assert shares["battles"].sum() == len(counted(BATTLES))


def test_both_bad_has_its_share_by_item_and_by_pair(board):
    bad = BATTLES.outcome == 3
    assert board.both_bad_ == pytest.approx(bad.mean())
    by_item = board.standings().to_frame()["both_bad"]
    by_pair = board.shares().to_frame().reset_index()
    names = BATTLES.items[BATTLES.pairs]
    for item in BATTLES.items:
        assert by_item[item] == pytest.approx(bad[(names == item).any(axis=1)].mean())
    for row in by_pair.to_dict("records"):
        of_pair = np.isin(names, [row["item"], row["other"]]).all(axis=1)
        assert row["both_bad"] == pytest.approx(bad[of_pair].mean())
    assert "both bad" in str(board.standings())
    assert "both bad" in str(board.shares())
    first, second = ["x", "x", "y", "y", "x"], ["y", "y", "z", "z", "z"]
    words = ["first", "second", "first", "second", "both_bad"]
    only_bad = Leaderboard().fit(first * 5, second * 5, words * 5)
    assert only_bad.shares().records()[-1] == {
        "item": "x", "other": "z", "battles": 0.0, "wins": None, "wins, predicted": None,
        "loses": None, "loses, predicted": None, "both_bad": 1.0, "z": None, "p": None,
    }  # fmt: skip
    without = Leaderboard().fit(counted(BATTLES))
    assert "both bad" not in str(without.standings()) + str(without.shares())


@pytest.mark.parametrize(
    "options",
    [{}, {"link": "probit"}, {"ties": "half"}, {"penalty": 2.0}, {"position": True}],
    ids=str,
)
def test_neither_the_order_of_battles_nor_names_nor_sides_matter(options):
    rng = np.random.default_rng(0)
    b = BATTLES
    plain = Leaderboard(**options).fit(b)
    order = rng.permutation(len(b))
    turned = (rng.random(len(b)) < 0.5) & (not options.get("position"))
    first, second = b.items[np.where(turned[:, None], b.pairs[:, ::-1], b.pairs)].T
    outcome = np.where(turned & (b.outcome < 2), 1 - b.outcome, b.outcome)
    words = np.array(["first", "second", "tie", "tie (bothbad)"])[outcome]
    sign = np.where(turned, -1.0, 1.0)[:, None]
    other = Leaderboard(**options).fit(
        *(np.char.add("z", side[order]) for side in (first, second)), words[order],
        groups=b.groups[order].astype(str), context=(sign * b.context)[order],
    )  # fmt: skip
    assert_allclose(other.predict(np.char.add("z", plain.items_)), plain.ratings_, atol=1e-7)
    assert_allclose(
        other.rating_std_[np.argsort(other.items_)], plain.rating_std_[np.argsort(plain.items_)],
        atol=1e-7,
    )  # fmt: skip
    assert_allclose(other.coef_, plain.coef_, atol=1e-7)


def test_weights_are_copies():
    b = Battles.of(["a", "b", "c", "a"], ["b", "c", "a", "c"], [1, 1, 1, 0.5], weight=[2, 1, 3, 1])
    many = b.take(np.repeat(np.arange(4), b.weight.astype(int)))
    one = Battles.of(*many.items[many.pairs].T, np.array([1, 0, 0.5])[many.outcome])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankwiseWarning)  # few battles
        boards = [Leaderboard(penalty=0.5).fit(each) for each in (b, one)]
    assert_allclose(boards[0].ratings_, boards[1].ratings_, atol=1e-9)


def test_updates_give_the_numbers_of_a_fit_to_all(board):
    order = np.argsort(BATTLES.pairs.max(axis=1) == 5, kind="stable")  # the last item comes late
    b = BATTLES.take(order)
    ids = np.unique(b.items[b.pairs[:300]])
    early = Battles.of(
        *b.items[b.pairs[:300]].T,
        np.array(["first", "second", "tie", "both_bad"])[b.outcome[:300]],
        groups=b.groups[:300],
        context=pd.DataFrame(b.context[:300], columns=["style"]),
    )
    assert set(early.items) == set(ids)
    grown = Leaderboard().fit(early).update(b.take(slice(300, None)))
    assert_allclose(grown.predict(board.items_), board.ratings_, atol=1e-7)
    assert_allclose(grown.coef_std_, board.coef_std_, atol=1e-7)
    assert_allclose(grown.penalty_, board.penalty_, rtol=1e-6)
    kept = clone(grown).fit(early)
    kept.set_params(ties="half").update(b.take(slice(300, None)))
    assert_allclose(kept.ratings_, Leaderboard(ties="half").fit(grown.battles_).ratings_, atol=1e-7)
    with pytest.raises(DataError, match="have groups, style, and the new ones style"):
        grown.update(["item 1"], ["item 2"], [1], context=pd.DataFrame({"style": [0.0]}))
    with pytest.raises(DataError, match="without item_features"):
        grown.update(b, item_features={})


@pytest.mark.parametrize(
    "options", [{}, {"position": True}, {"style": 0}, {"n_judges": 3}], ids=str
)
def test_updates_in_batches(options):
    position = options.pop("position", False)
    b = make_battles(6, 400, random_state=3, **options).battles
    if b.judge is not None:  # a judge and a session that come late
        b = b.take(np.argsort(b.judge, kind="stable"))
    whole = Leaderboard(position=position).fit(b)
    board = Leaderboard(position=position).fit(b.take(slice(0, 250)))
    for begin, end in ((250, 251), (251, 400)):
        board.update(b.take(slice(begin, end)))
    assert_allclose(board.ratings_, whole.ratings_, atol=1e-7)
    assert_allclose(board.rating_std_, whole.rating_std_, atol=1e-7)
    assert_allclose(board.coef_std_, whole.coef_std_, atol=1e-7)
    assert_allclose(board.both_bad_, whole.both_bad_)
    assert_allclose(board.shares()["wins"], whole.shares()["wins"])
    if b.judge is not None:
        places = [each.judges().to_frame()["first place"].sort_index() for each in (board, whole)]
        assert_allclose(*places, atol=1e-7)


def test_style_within_its_interval_and_items_by_features():
    low, high = (board_coef := Leaderboard().fit(BATTLES).coefficients())["low"], board_coef["high"]
    assert low[0] < MADE.style < high[0]
    features = pd.DataFrame({"size": MADE.ratings}, index=BATTLES.items)
    board = Leaderboard().fit(BATTLES, item_features=features)
    assert board.coef_names_ == ["style", "size"]
    assert board.coef_[1] == pytest.approx(1.0, abs=4 * board.coef_std_[1])
    moved = Leaderboard().fit(BATTLES, item_features=1e6 * features + 5)
    assert_allclose(moved.ratings_, board.ratings_, atol=1e-6)
    assert_allclose(1e6 * moved.coef_[1], board.coef_[1], rtol=1e-5)
    printed = next(
        line.split() for line in str(moved.coefficients()).splitlines() if "size" in line
    )
    assert float(printed[1]) == pytest.approx(moved.coef_[1], abs=1e-7)
    assert float(printed[1]) > 0


def test_tables_say_their_unit():
    board = Leaderboard(position=True).fit(BATTLES)
    for table in (board.standings, board.coefficients):
        assert "in log-odds" in table().note.lower()
        assert "in elo points" in table(elo=True).note.lower()
    assert "In probits:" in Leaderboard("probit", position=True).fit(BATTLES).coefficients().note


@pytest.mark.parametrize(("ids", "other"), [([1, 2], "1"), (["1", "2"], 1)])
def test_ids_of_the_other_type_are_refused_by_name(ids, other):
    board = Leaderboard().fit(ids * 20, ids[::-1] * 20, [1, 0, 0, 1] * 10)
    kind = "integers" if other == "1" else "text"
    with pytest.raises(
        DataError, match=f"ids of items are {kind}, such as {ids[0]!r}: got {other!r}"
    ):
        board.predict_proba([other], [ids[1]])
    with pytest.raises(DataError, match="has no item"):
        board.predict([3 if other == "1" else "3"])


MIXED = Leaderboard().fit(
    [1, "1", "a", 1, 1] * 4, ["1", "a", 1, "a", "1"] * 4, [1, 1, 0, 1, 1] * 3 + [0, 0, 1, 0, 0]
)


def in_columns(first, second):
    """Two columns of ids in all forms that have rows."""
    return [
        list(zip(first, second, strict=True)),
        np.array(list(zip(first, second, strict=True)), dtype=object),
        pd.DataFrame({"first": first, "second": second}),
        pl.DataFrame({"first": first, "second": second}),
        pa.table({"first": first, "second": second}),
    ]


def test_numbers_and_texts_are_different_ids():
    one, text, a = (float(MIXED.predict([name])[0]) for name in (1, "1", "a"))
    assert len({one, text, a}) == 3
    for ids in ([1, "a", "1"], pd.Series([1, "a", "1"]), np.array([1, "a", "1"], dtype=object)):
        assert MIXED.predict(ids).tolist() == [one, a, text]
        assert MIXED.predict_proba(ids[:2], ["1", "1"]).tolist() == [
            *MIXED.predict_proba([1], ["1"]).tolist(),
            *MIXED.predict_proba(["a"], ["1"]).tolist(),
        ]
    for scalar in (1, 1.0, np.int64(1), np.array(1)):
        assert MIXED.predict(scalar).tolist() == [one]
    for scalar in ("1", np.str_("1"), np.array("1")):
        assert MIXED.predict(scalar).tolist() == [text]
    assert MIXED.predict(pl.Series(["1", "a"])).tolist() == [text, a]
    assert MIXED.predict(pd.DataFrame({"item": [1, "1"]})).tolist() == [one, text]
    assert MIXED.predict([]).tolist() == []
    anchored = MIXED.standings(anchor=(1, 0.0)).to_frame()
    assert anchored.loc[1, "rating"] == 0


@pytest.mark.parametrize("candidates", in_columns([1], ["a"]))
def test_the_suggested_pair_is_a_candidate(candidates):
    assert MIXED.suggest_pairs(1, candidates=candidates).tolist() == [[1, "a"]]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, "x"], "has no item 'x'"),
        ([2, "a"], "has no item 2"),
        ([1.5], "items has the float 1.5"),
        ([1, None], "items has no value for row 1"),
        ([["a"], [1, "a"]], "items needs one id per row: got lists of several lengths"),
        ([{}], "items needs ids such as numbers or text"),
    ],
)
def test_ids_that_are_not_items_are_refused(ids, message):
    with pytest.raises(DataError, match=message):
        MIXED.predict(ids)


@pytest.mark.parametrize("candidates", [[1, "a"], [], [[1, "a", "1"]], np.zeros((2, 2, 2))])
def test_candidates_need_two_columns(candidates):
    with pytest.raises(DataError, match="candidates needs two columns of ids: got shape"):
        MIXED.suggest_pairs(candidates=candidates)


def test_agreement_of_judges():
    b = make_battles(6, 400, n_judges=3, position=0.5, style=0, random_state=1).battles
    board = Leaderboard(position=True).fit(replace(b, judge=np.array(["x", "y", "z"])[b.judge]))
    agreement = board.agreement().to_frame()
    assert agreement["agree"].between(0, 1).all()
    i = b.pairs.min(axis=1) * 6 + b.pairs.max(axis=1)
    want = same = 0
    for k in range(len(b)):  # verdicts of x and y on the same pair in the same session
        for m in range(len(b)):
            if (b.judge[k], b.judge[m], b.groups[k], i[k]) == (0, 1, b.groups[m], i[m]):
                sides = b.pairs[k, 0] == b.pairs[m, 0] or b.outcome[k] > 1
                want += 1
                same += (b.outcome[k] if sides else 1 - b.outcome[k]) == b.outcome[m]
    row = agreement[
        [{a, c} == {"x", "y"} for a, c in zip(agreement.index, agreement["other"], strict=True)]
    ]
    assert row["common"].tolist() == [want]
    assert_allclose(row["agree"], same / want)
    assert agreement["common"].is_monotonic_decreasing
    assert agreement["common"].nunique() > 1
    with pytest.raises(DataError, match="no judges"):
        Leaderboard().fit(BATTLES).judges()


def test_suggested_pairs_are_of_uncertain_items(board):
    pairs = board.suggest_pairs(3, strategy="eubo")
    assert pairs.shape == (3, 2)
    assert len({frozenset(pair) for pair in pairs.tolist()}) == 3
    only = board.suggest_pairs(1, candidates=[["item 1", "item 2"]], strategy="random")
    assert sorted(only[0]) == ["item 1", "item 2"]
    with pytest.raises(DataError, match="no item 'nobody'"):
        board.suggest_pairs(candidates=[["nobody", "item 1"]])
    with pytest.raises(ParameterError, match="strategy"):
        board.suggest_pairs(strategy="best")


def test_model_files_keep_leaderboards(board, tmp_path):
    same = load_model(save_model(board, tmp_path / "board.rankwise"))
    assert str(same.standings()) == str(board.standings())
    assert same.items_.tolist() == board.items_.tolist()
    grown = same.update(BATTLES.take(slice(0, 50)))
    assert grown.battles_.weight.sum() == len(BATTLES) + 50
    assert clone(board).get_params() == board.get_params()


def test_warnings_say_what_the_battles_lack():
    fit = Leaderboard(penalty=1.0).fit
    rest = {"groups": np.arange(40) // 2}
    a, b, even = ["a", "b"] * 20, ["b", "a"] * 20, [1, 1, 0, 0] * 10
    with pytest.warns(RankwiseWarning, match="'c' won all battles"):
        fit([*a[:39], "c"], [*b[:39], "a"], [*even[:39], 1], **rest)
    with pytest.warns(RankwiseWarning, match="There are 2 parts"):
        fit([*a[:38], "c", "d"], [*b[:38], "d", "c"], [*even[:38], 1, 1], **rest)
    first, second = [*a[:36], "c", "d", "a", "b"], [*b[:36], "d", "c", "c", "d"]
    with pytest.warns(RankwiseWarning, match="2 groups of items"):
        fit(first, second, [*even[:36], 1, 1, 1, 1], **rest)
    with pytest.warns(RankwiseWarning, match="shown first won more often"):
        fit(a, b, [0, 0, *[1] * 38])
    with pytest.warns(RankwiseWarning, match="rest on 2 groups"):
        fit(a, b, even, groups=[0, 1] * 20)
    with pytest.warns(RankwiseWarning, match="'x0' has no bound"):
        fit(a, b, even, context=np.sign(np.array(even) - 0.5)[:, None])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": ["tie"] * 4}, "No battle has a winner"),
        ({"second": ["a"] * 4}, "Battle 0 compares item 'a' with itself"),
        ({"outcome": ["first", "who", "x", "tie"]}, "Battle 1: the outcome 'who' is unknown"),
        ({"outcome": [1, 0, 0.3, 1]}, "Battle 2: the outcome 0.3"),
        ({"outcome": [1, 0]}, r"got shape \(2,\) for 4"),
        ({"outcome": ["first", None, "tie", "tie"]}, "Battle 1: the outcome is missing"),
        ({"first": ["a", None, "b", "c"]}, "first has no value for battle 1"),
        ({"second": ["b"]}, r"second needs one entry per battle: got shape \(1,\)"),
        ({"first": [], "second": [], "outcome": []}, "no battles"),
        ({"weight": [1, 1, -1, 1]}, "battle 2 has -1"),
        ({"groups": [1, 2]}, "groups needs one entry"),
        ({"groups": [1, np.nan, 2, 3]}, "groups has no value for battle 1"),
        ({"context": np.zeros((4, 1))}, "'x0' is 0: its coefficient cannot be estimated"),
        ({"context": np.array([[1.0, 2], [2, 4], [3, 6], [0, 0]])}, "combination of the columns"),
        ({"context": [[np.nan]] * 4}, "context must be finite"),
        ({"context": pd.DataFrame({"first place": [1, 2, 3, -4]})}, "rename the column"),
        ({"items": ["a", "b"]}, "unknown item 'c'"),
        ({"item_features": {"a": 1}}, "no row for 'b'"),
        ({"item_features": [1]}, "must be a data frame"),
        ({"second": None}, "Give first, second and outcome"),
    ],
)  # fmt: skip
def test_bad_battles_are_refused(change, message):
    given = {"first": ["a", "b", "c", "a"], "second": ["b", "c", "a", "c"], "outcome": [1, 0, 1, 1]}
    with pytest.raises(DataError, match=message):
        Leaderboard().fit(**(given | change))


def test_a_refused_update_changes_nothing():
    features = pd.DataFrame({"size": [1.0, 2.0, 4.0]}, index=["a", "b", "c"])
    given = ["a", "b", "c"] * 9, ["b", "c", "a"] * 9, ["first"] * 27
    board = Leaderboard(n_draws=100).fit(*given, by=["x", "y", "z"] * 9, item_features=features)
    with pytest.raises(DataError, match="no row for 'd'"):
        board.update(["d"], ["a"], ["first"], by=["x"], item_features=features)
    assert len(board.battles_) == 27
    assert board.categories_.tolist() == ["x", "y", "z"]


def test_tables_without_rows_are_refused():
    with pytest.raises(DataError, match="it has no rows"):
        Leaderboard().fit({"first": [], "second": [], "outcome": []})


def test_parameters_are_checked():
    a, b = ["a", "b"], ["b", "a"]
    for options, message in (
        ({"link": "cauchit"}, "link must be"),
        ({"penalty": -1}, "penalty must be"),
        ({"level": 1.0}, "level must be"),
        ({"n_draws": 5}, "n_draws must be"),
    ):
        with pytest.raises(ParameterError, match=message):
            Leaderboard(**options).fit(a, b, [1, 1])
    with pytest.raises(DataError, match="all battles"):
        Leaderboard(penalty=0).fit(["a", "a"], ["b", "b"], [1, 1])
    with pytest.raises(ParameterError, match="groups belongs to the battles"):
        Leaderboard().fit(BATTLES, groups=[1])
    sizes = {name: k**2 for k, name in enumerate(BATTLES.items)}
    with pytest.raises(ParameterError, match="need a penalty"):
        Leaderboard(penalty=0).fit(BATTLES, item_features=sizes)
    with pytest.raises(ParameterError, match="logit link"):
        Leaderboard("probit").fit(BATTLES).standings(elo=True)
    with pytest.raises(NotFittedError):
        Leaderboard().standings()


def test_many_items_need_no_matrix(monkeypatch, board):
    from rankwise.leaderboard import battle_likelihood, curvature

    monkeypatch.setattr(
        battle_likelihood.maximize,
        "__kwdefaults__",
        {**battle_likelihood.maximize.__kwdefaults__, "dense": 0},
    )
    monkeypatch.setattr(curvature, "PROBES", 400)
    large = Leaderboard(penalty=board.penalty_).fit(BATTLES)
    assert large.covariance_ is None
    assert_allclose(large.ratings_, board.ratings_, atol=1e-7)
    assert_allclose(large.rating_std_, board.rating_std_, rtol=0.1)
    assert large.settled().shape == (6, 6)
    assert len(large.suggest_pairs(2, strategy="eubo")) == 2


def test_few_battles_leave_wide_intervals():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankwiseWarning)  # all battles won, few groups
        board = Leaderboard().fit(["a"], ["b"], [1])
        equal = Leaderboard().fit(["a", "b"] * 2, ["b", "a"] * 2, [1, 1, 0, 0])
    for each in (board, equal):
        assert each.penalty_ < 3
        assert (each.rating_std_ > 0.2).all()
        assert each.settled().tolist() == [[0, 0], [0, 0]]


def test_ids_of_any_type():
    ids = [1, "two", Decimal("3.5")]
    first, second = [ids[k] for k in (0, 1, 2, 0, 1, 2)], [ids[k] for k in (1, 2, 0, 2, 0, 1)]
    frame = pd.DataFrame({"a": pd.Series(first * 9, dtype=object), "b": second * 9})
    board = Leaderboard().fit(
        frame["a"], frame["b"], ["a", "b", "tie", "draw", "left", "right"] * 9
    )
    assert board.items_.tolist() == [1, "two", Decimal("3.5")]
    strings = pd.Series(["x", "y"] * 20, dtype="string")
    named = Leaderboard().fit(
        strings, strings[::-1].reset_index(drop=True), [True, False, True, True] * 10
    )
    assert named.items_.tolist() == ["x", "y"]


def test_tables_files_and_what_was_read(tmp_path):
    b = make_battles(4, 200, random_state=3).battles
    first, second = b.items[b.pairs].T
    words = np.array(["model_a", "model_b", "tie", "both_bad"])[b.outcome]
    table = pd.DataFrame({"model_a": first, "model_b": second, "winner": words, "vote": b.groups})
    wanted = Leaderboard().fit(first, second, words, groups=b.groups).covariance_
    table.to_csv(tmp_path / "battles.csv", index=False)
    read = read_battles(table, groups="vote")
    for given in (table, pl.from_pandas(table), tmp_path / "battles.csv"):
        assert_allclose(Leaderboard().fit(given, groups="vote").covariance_, wanted)
    assert_allclose(Leaderboard().fit(read).covariance_, wanted)
    board = Leaderboard().fit(table.head(100), groups="vote").update(table.tail(100), groups="vote")
    assert_allclose(board.covariance_, wanted, atol=1e-7)
    with pytest.raises(ParameterError, match="weight belongs to the battles"):
        Leaderboard().fit(table, weight=np.ones(200))
    with pytest.raises(ParameterError, match="groups is the name of a column"):
        Leaderboard().fit(table, groups=b.groups)
    with pytest.warns(RankwiseWarning, match="left out: 1 without a winner"):
        Leaderboard().fit(table.assign(winner=[None, *words[1:]]))


def test_winners_before_losers_are_not_an_effect_of_the_first_place():
    rng = np.random.default_rng(0)
    winners = rng.integers(0, 4, 400)
    losers = (winners + rng.integers(1, 4, 400)) % 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Leaderboard().fit(winners, losers, np.ones(400))
    with pytest.raises(DataError, match="The first item won every battle"):
        Leaderboard(position=True).fit(winners, losers, np.ones(400))


def test_outcomes_may_be_ids_of_winners():
    first, second = ["x", "y", "z", "x"], ["y", "z", "x", "z"]
    found = Battles.of(first, second, ["x", "z", "tie", "x"])
    assert found.outcome.tolist() == [0, 1, 2, 0]
    with pytest.raises(DataError, match="Battle 3: the outcome 'y' is unknown"):
        Battles.of(first, second, ["x", "z", "tie", "y"])
    with pytest.raises(DataError, match="Battle 1: the outcome 'b' is both an item"):
        Battles.of(["a", "b"], ["b", "c"], ["b", "b"])
    assert Battles.of(["a", "b"], ["b", "c"], ["b", "c"]).outcome.tolist() == [1, 1]


def test_whole_numbers_are_ids_of_winners_where_all_are(tmp_path):
    first, second, winner = [2, 3, 3, 1], [1, 1, 2, 3], [1, 1, 2, 1]
    assert Battles.of(first, second, winner).outcome.tolist() == [1, 1, 1, 0]
    rows = zip(first, second, winner, strict=True)
    lines = ["model_a,model_b,winner", *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "b.csv").write_text("\n".join(lines))
    assert read_battles(tmp_path / "b.csv").battles.outcome.tolist() == [1, 1, 1, 0]
    # Numbers say which side won if some are not items of their battle.
    assert Battles.of([5, 0, 1], [6, 1, 5], [1, 0, 1]).outcome.tolist() == [0, 1, 0]
    with pytest.raises(DataError, match="Battle 0: the outcome 1 is both an item and the name"):
        Battles.of([0, 1], [1, 0], [1, 0])


def test_items_that_cannot_be_told_apart_and_anchors(board):
    table, settled = board.standings(), board.settled()
    order = np.argsort(-board.ratings_)
    for k, ranks in enumerate(table["tied_with"]):
        want = {m + 1 for m in range(6) if m != k and settled[order[k], order[m]] == 0}
        found = set()
        for part in filter(None, ranks.split(", ")):
            low, _, high = part.partition("–")
            found |= set(range(int(low), int(high or low) + 1))
        assert found == want
    moved = board.standings(elo=True, anchor=("item 2", 1500)).to_frame()
    plain = board.standings(elo=True).to_frame()
    assert_allclose(moved.loc["item 2", ["rating", "low", "high"]].astype(float), 1500.0)
    assert_allclose((moved["rating"] - plain["rating"]).std(), 0.0, atol=1e-9)
    V, (i, j) = board.covariance_, board._numbers(["item 2", "item 4"])
    half = (moved["high"] - moved["low"])["item 4"] / (plain["high"] - plain["low"])["item 4"]
    assert_allclose(half, np.sqrt((V[i, i] + V[j, j] - 2 * V[i, j]) / V[j, j]))
    with pytest.raises(DataError, match="no item 'nobody'"):
        board.standings(anchor=("nobody", 0))
    for wrong in ("item 2", ("item 2",), ("item 2", np.nan), ("item 2", "1500")):
        with pytest.raises(ParameterError, match="anchor must be an item and its rating"):
            board.standings(anchor=wrong)


def test_pairs_that_fit_badly_are_surprising():
    """In a circle, each of three items beats the next: no ratings explain that."""
    first, second = ["a", "b", "c", "b", "c", "a"] * 30, ["b", "c", "a", "a", "b", "c"] * 30
    shares = Leaderboard().fit(first, second, [1, 1, 1, 0, 0, 0] * 30).shares().to_frame()
    assert (abs(shares["z"]) > 3).any()
    assert shares["p"].min() < 0.01
    fair = Leaderboard().fit(MADE.battles).shares().to_frame()
    assert fair["p"].min() > 0.001


def test_groups_of_two_kinds_add_up():
    """Sums over voters and over prompts, less the sums over both."""
    b = counted(BATTLES)
    prompt = np.random.default_rng(0).integers(0, 25, len(b))
    two = Leaderboard(penalty=0.5).fit(replace(b, groups=np.column_stack((b.groups, prompt))))
    singles = list(zip(*b.pairs.T, b.outcome, b.context, strict=True))
    _, H, scores = dense_newton(singles, b.weight, 6, 0.5, ties=True, n_columns=1)
    M = np.diag([0.5] * 6 + [0, 0])
    for sign, codes in ((1, b.groups), (1, prompt), (-1, b.groups * 25 + prompt)):
        groups = np.unique(codes)
        sums = np.array([scores[codes == g].sum(axis=0) for g in groups])
        M = M + sign * sums.T @ sums * len(groups) / (len(groups) - 1)
    V = np.linalg.inv(H) @ M @ np.linalg.inv(H)
    C = np.eye(6) - 1 / 6
    assert_allclose(two.covariance_, C @ V[:6, :6] @ C, atol=1e-8)
    assert two.n_groups_ == 25
    frame = pd.DataFrame({"voter": b.groups, "prompt": prompt})
    sides = dict(zip(("model_a", "model_b"), b.items[b.pairs].T, strict=True))
    words = np.array(["model_a", "model_b", "tie"])[b.outcome]
    table = frame.assign(**sides, winner=words, style=b.context[:, 0])
    read = Leaderboard(penalty=0.5).fit(table, groups=["voter", "prompt"], context="style")
    place = [read.items_.tolist().index(name) for name in two.items_]
    assert_allclose(read.rating_std_[place], two.rating_std_, atol=1e-8)
    assert "by 25 groups" in repr(read.battles_)
    with pytest.raises(ParameterError, match="one column or two"):
        Leaderboard().fit(table, groups=["voter", "prompt", "style"])


def test_intervals_of_other_levels(board):
    low, high = board.interval(0.5)
    wide_low, wide_high = board.interval()
    assert ((wide_low < low) & (low < high) & (high < wide_high)).all()
    frame = board.to_frame().loc[list(board.items_)]
    assert_allclose(np.stack([wide_low, wide_high]), frame[["low", "high"]].to_numpy().T)
    assert_allclose(np.stack(board.rank_interval()), frame[["rank_low", "rank_high"]].T)
    narrow = board.rank_interval(0.1)
    assert (narrow[1] - narrow[0] <= frame["rank_high"] - frame["rank_low"]).all()
    with pytest.raises(ParameterError, match="level must be"):
        board.interval(95)
