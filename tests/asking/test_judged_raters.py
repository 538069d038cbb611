"""Raters who prefer the worse items, and careless raters."""

import json
from itertools import combinations

import numpy as np
import pytest

from rankwise.asking import Session
from rankwise.asking.item_model import Comparison, ItemModel
from rankwise.asking.judged_raters import judge_raters
from rankwise.asking.session_exports import ranking_json, share_page

PAIRS = [*combinations(range(7), 2)] * 2


def told(raters):
    """Answers of raters to all pairs; a later item is better, and "-Eve" turns answers around."""
    noise = iter(np.random.default_rng(0).normal(size=len(raters) * len(PAIRS)))
    found = []
    for name in raters:
        for i, j in PAIRS:
            right = 0.7 * (j - i) + next(noise) > 0
            outcome = "first" if right == name.startswith("-") else "second"
            found.append(Comparison(i, j, outcome, name))
    return found


def test_ties_alone_tell_nothing_of_raters():
    ties = [Comparison(i, j, "tie", name) for name in "abcd" for i, j in PAIRS[:3]]
    assert ItemModel(7).fit(ties).judged == {}


def test_the_answers_of_an_adversary_count_the_other_way_round():
    answers = told(["Ann", "Bob", "Cy"])
    with_eve, alone = ItemModel(7).fit([*answers, *told(["-Eve"])]), ItemModel(7).fit(answers)
    assert {name: r["remark"] for name, r in with_eve.judged.items() if r["remark"]} == {
        "-Eve": "adversary"
    }
    assert alone.judged == {}
    order = np.argsort(with_eve.scores().mean).tolist()
    assert order == list(range(7))
    before = with_eve.scores().mean
    with_eve.tell([Comparison(0, 1, "first", "-Eve")])
    after = with_eve.scores().mean
    assert after[1] - after[0] > before[1] - before[0]


@pytest.mark.parametrize("raters", [["Ann", "Bob", "-Eve"], ["Ann", "Bob", "-Eve", "-Dan"]])
def test_without_a_clear_majority_nobody_is_an_adversary(raters):
    answers = told(raters)
    pairs = np.array([(c.first, c.second) for c in answers])
    found = judge_raters(pairs, [c.outcome for c in answers], [c.rater for c in answers])
    assert not any(judged["remark"] == "adversary" for judged in found.values())


def test_reports_and_files_tell_who_is_an_adversary():
    session = Session([f"item {k}" for k in range(7)])
    for answer in told(["Ann", "Bob", "Cy", "-Eve"]):
        name = session.add_rater(answer.rater).name
        token = session._make_token(name, f"item {answer.first}", f"item {answer.second}")
        session.answer(token, answer.outcome)
    found = json.loads(ranking_json(session))
    assert found["ranking"][0]["item"] == "item 6"
    reports = {row["name"]: row for row in found["rater_reports"]}
    assert reports["-Eve"]["remark"] == "adversary"
    assert reports["-Eve"]["slope_high"] < 0 < reports["Ann"]["slope_low"]
    assert reports["-Eve"]["agreement"] < 0.2 < 0.8 < reports["Ann"]["agreement"]
    assert "1 rater of 4 preferred the worse items" in share_page(session)
