"""Leaderboards with clustered covariance and rank intervals, beside scores alone.

In 2,000 categories, a board has 80,000 ratings, and its peer has 40.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import choix
import evalica
import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from benchmarks.harness import Result, best_times, extra_memory, megabytes, seconds
from rankwise import Leaderboard
from rankwise.data import Battles, make_battles

try:  # not in an extra: it needs old versions of its dependencies
    import arena_rank.models.bradley_terry as arena_rank
except ImportError:
    arena_rank = None


def with_everything(battles: Battles) -> Any:
    """Scores, clustered covariance, rank intervals and groups."""
    board = Leaderboard().fit(battles)
    board.standings()
    return board


def against_evalica() -> list[Result]:
    """140,000 battles of 150 items, from arrays of names."""
    made = make_battles(150, 140_000, style=0, both_bad=0, random_state=0).battles
    first, second = made.items.astype(object)[made.pairs].T
    words = np.array(["first", "second", "tie"], dtype=object)[made.outcome]
    kinds = evalica.Winner.X, evalica.Winner.Y, evalica.Winner.Draw
    theirs = first.tolist(), second.tolist(), [kinds[k] for k in made.outcome]

    def ours() -> Any:
        return with_everything(Battles.of(first, second, words, groups=made.groups))

    fast, peer = best_times(ours, lambda: evalica.bradley_terry(*theirs))
    results = [
        Result(
            "140,000 battles of 150 items: ratings, clustered covariance and rank intervals, "
            "beside Bradley-Terry scores alone",
            f"Leaderboard {seconds(fast)}",
            f"Evalica {seconds(peer)}",
            fast / peer,
            6.0,
        )
    ]
    if arena_rank is not None:
        results.append(against_arena_rank(made, fast))
    return results


def against_arena_rank(made: Battles, ours: float) -> Result:
    """The same battles, with its intervals; timed when its functions are compiled."""
    import pandas as pd
    from arena_rank.utils.data_utils import PairDataset

    first, second = made.items[made.pairs].T
    winner = np.array(["model_a", "model_b", "tie"])[made.outcome]
    frame = pd.DataFrame({"model_a": first, "model_b": second, "winner": winner})

    def theirs() -> None:
        model = arena_rank.BradleyTerry(n_competitors=len(made.items))
        model.compute_ratings_and_cis(PairDataset.from_pandas(frame))

    theirs()
    (peer,) = best_times(theirs)
    return Result(
        "the same beside Arena-Rank with its intervals",
        f"Leaderboard {seconds(ours)}",
        f"arena-rank {seconds(peer)}",
        ours / peer,
        0.2,
    )


def update_against_fit() -> list[Result]:
    """1,000 new votes after 140,000, beside a fit to all of them; names of items and sessions."""
    made = make_battles(150, 150_000, style=0, random_state=0).battles
    first, second = made.items.astype(object)[made.pairs].T
    words = np.array(["first", "second", "tie", "both_bad"], dtype=object)[made.outcome]
    sessions = np.array([f"session {k}" for k in made.groups], dtype=object)

    def some(begin: int, end: int) -> Battles:
        part = slice(begin, end)
        return Battles.of(first[part], second[part], words[part], groups=sessions[part])

    board, begins = Leaderboard().fit(some(0, 140_000)), iter(range(140_000, 150_000, 1000))

    def update() -> None:
        begin = next(begins)
        board.update(some(begin, begin + 1000))

    ours, peer = best_times(update, lambda: Leaderboard().fit(some(0, 141_000)))
    return [
        Result(
            "1,000 new votes after 140,000 of 150 items",
            f"update {seconds(ours)}",
            f"fit {seconds(peer)}",
            ours / peer,
            0.8,
        )
    ]


def many_items() -> list[Result]:
    """400,000 battles of 8,000 items, beside half of both."""
    ours, peer = (
        best_times(partial(with_everything, make_battles(n, 50 * n, random_state=0).battles),
                   repeats=1)[0]
        for n in (8_000, 4_000)
    )  # fmt: skip
    return [
        Result(
            "400,000 battles of 8,000 items with intervals: time grows with battles, not with the "
            "square of items",
            f"8,000 items {seconds(ours)}",
            f"4,000 items {seconds(peer)}",
            ours / peer,
            3.0,
        )
    ]


def many_judges() -> list[Result]:
    """20,000 battles before 1,000 judges who do not differ, beside the same without judges."""
    results = []
    for style, words in ((0.0, "counted by pair"), (0.3, "with a covariate")):
        made = make_battles(40, 20_000, n_judges=1000, style=style, random_state=0).battles
        ours, peer = best_times(
            partial(Leaderboard().fit, made),
            partial(Leaderboard().fit, replace(made, judge=None)),
        )
        results.append(
            Result(
                f"20,000 battles, {words}, before 1,000 judges who do not differ",
                f"judges {seconds(ours)}",
                f"no judges {seconds(peer)}",
                ours / peer,
                3.0,
            )
        )
    return results


def judges_who_differ() -> list[Result]:
    """20,000 battles with a covariate before 1,000 judges with slopes, tie rates and places."""
    rng, n, n_items, n_judges = np.random.default_rng(0), 20_000, 40, 1000
    ratings, x = rng.standard_normal(n_items), rng.standard_normal(n)
    first = rng.integers(0, n_items, n)
    second = (first + rng.integers(1, n_items, n)) % n_items
    judge = rng.integers(0, n_judges, n)
    slope, rate, place = np.array([[0.5], [0.7], [0.5]]) * rng.standard_normal((3, n_judges))
    eta = (1.0 + slope[judge]) * (ratings[first] - ratings[second]) + place[judge] + 0.2 * x
    outcome = davidson_outcomes(eta, np.exp(rate[judge] - 1.0), rng)
    given: dict[str, Any] = {"context": x[:, None], "items": range(n_items)}
    ours, peer = best_times(
        lambda: Leaderboard().fit(first, second, outcome, judge=judge, **given),
        lambda: Leaderboard().fit(first, second, outcome, **given),
    )
    return [
        Result(
            "20,000 battles before 1,000 judges who differ in slopes, tie rates and places",
            f"judges {seconds(ours)}",
            f"no judges {seconds(peer)}",
            ours / peer,
            3.0,
        )
    ]


def categories_against_none() -> list[Result]:
    """20,000 battles of 40 items with a covariate, in 10 and in 2,000 categories."""
    results = []
    for n_categories in (10, 2000):
        rng, n, n_items = np.random.default_rng(0), 20_000, 40
        ratings, x = rng.standard_normal(n_items), rng.standard_normal(n)
        ratings = ratings + 0.3 * rng.standard_normal((n_categories, n_items))
        first, category = rng.integers(0, n_items, n), rng.integers(0, n_categories, n)
        second = (first + rng.integers(1, n_items, n)) % n_items
        eta = ratings[category, first] - ratings[category, second] + 0.2 * x
        outcome = davidson_outcomes(eta, np.full(n, 0.35), rng)
        fit = partial(Leaderboard().fit, first, second, outcome, context=x[:, None])
        ours, peer = best_times(partial(fit, by=category), fit, repeats=1)
        results.append(
            Result(
                f"20,000 battles in {n_categories:,} categories",
                f"by category {seconds(ours)}",
                f"no categories {seconds(peer)}",
                ours / peer,
                10.0 if n_categories == 10 else 100.0,
            )
        )
    return results


def davidson_outcomes(eta: Any, tie: Any, rng: np.random.Generator) -> Any:
    """Drawn words for the outcomes of battles."""
    weights = np.cumsum([np.exp(0.5 * eta), np.exp(-0.5 * eta), tie], axis=0)
    drawn = (rng.random(len(eta)) * weights[-1] > weights[:-1]).sum(axis=0)
    return np.array(["first", "second", "tie"])[drawn]


def large() -> Battles:
    """1,000,000 battles of 1,000 items, with five covariates."""
    made = make_battles(1000, 1_000_000, both_bad=0, random_state=0).battles
    x = np.random.default_rng(0).standard_normal((len(made), 4))
    more = np.column_stack((made.context, x))
    return Battles(made.items, made.pairs, made.outcome, made.weight, made.groups, None, more)


def against_logistic_regression() -> list[Result]:
    """Ties are two rows of half the weight for the peer."""
    battles = large()
    n, m = len(battles), len(battles.items)
    rows, ones = np.arange(n), np.ones(n)
    design = sp.hstack(
        [
            sp.csr_array((ones, (rows, battles.pairs[:, 0])), shape=(n, m))
            - sp.csr_array((ones, (rows, battles.pairs[:, 1])), shape=(n, m)),
            sp.csr_array(battles.context),
        ]
    ).tocsr()
    ties = np.flatnonzero(battles.outcome == 2)
    X = sp.vstack([design, design[ties]]).tocsr()
    y = np.concatenate((battles.outcome == 0, np.ones(len(ties), dtype=bool)))
    weight = np.concatenate((np.where(battles.outcome == 2, 0.5, 1.0), np.full(len(ties), 0.5)))
    peer = LogisticRegression(C=1.0, fit_intercept=False, max_iter=1000)
    ours, theirs = best_times(
        lambda: with_everything(battles), lambda: peer.fit(X, y, sample_weight=weight), repeats=1
    )
    memory = extra_memory(large, with_everything)
    return [
        Result(
            "1,000,000 battles of 1,000 items, ties, five covariates: with intervals and ranks, "
            "beside a bare logistic regression",
            f"Leaderboard {seconds(ours)}",
            f"LogisticRegression {seconds(theirs)}",
            ours / theirs,
            5.0,
        ),
        Result(
            "the same: extra memory below 1 GiB",
            megabytes(memory),
            megabytes(2**30),
            memory / 2**30,
            1.0,
        ),
    ]


def rankings_against_choix() -> list[Result]:
    """100,000 rankings of ten of 100 items: intervals as well, beside choix's fastest maximum."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(100)
    chosen = np.argsort(rng.random((100_000, 100)), axis=1)[:, :10]
    order = np.argsort(-(truth[chosen] + rng.gumbel(size=chosen.shape)), axis=1)
    lists = np.take_along_axis(chosen, order, axis=1).tolist()
    boards, ratings = [], []

    def ours() -> None:
        boards.append(Leaderboard(penalty=0).fit_rankings(lists, items=range(100)))

    def theirs() -> None:
        ratings.append(choix.ilsr_rankings(100, lists, alpha=0))

    fast, peer = best_times(ours, theirs, repeats=1)
    apart = float(abs(boards[-1].ratings_ - (ratings[-1] - ratings[-1].mean())).max())
    return [
        Result(
            "100,000 rankings of ten items: ratings with intervals, beside the maximum alone "
            f"(equal to {apart:.0e})",
            f"Leaderboard {seconds(fast)}",
            f"choix {seconds(peer)}",
            fast / peer,
            1.0,
        )
    ]


def drift_against_static() -> list[Result]:
    """1,000,000 battles of 1,000 items over 24 months."""
    made = make_battles(1000, 1_000_000, both_bad=0, style=0, random_state=0).battles
    made = replace(made, groups=None, time=np.linspace(0.0, 24.0, len(made)))
    moving = Leaderboard(drift="evidence", period=1.0)
    ours, peer = best_times(lambda: moving.fit(made), lambda: Leaderboard().fit(made), repeats=1)
    return [
        Result(
            "1,000,000 battles of 1,000 items: drift over 24 periods, beside ratings that do not "
            "change",
            f"drift {seconds(ours)}",
            f"no drift {seconds(peer)}",
            ours / peer,
            10.0,
        )
    ]


def cases() -> list[Result]:
    return (
        against_evalica()
        + update_against_fit()
        + many_items()
        + many_judges()
        + judges_who_differ()
        + categories_against_none()
        + against_logistic_regression()
        + rankings_against_choix()
        + drift_against_static()
    )
