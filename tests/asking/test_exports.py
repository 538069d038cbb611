"""Names of items through every file of a session and back: equal before and after."""

import csv
import io
import json

import pytest

from rankwise.asking import Item, Session
from rankwise.asking.items import read_items
from rankwise.asking.session_exports import (
    battles_csv,
    comparisons_csv,
    ranking_csv,
    ranking_json,
    share_page,
)
from rankwise.data import read_battles, read_comparisons
from rankwise.errors import DataError

NAMES = [
    "-5", "'-5", "''-5", "=1+1", "'=1+1", "+1", "@ann", "|x", "'", '"', '""', "a,b", "a;b", "a\nb",
    "a\rb", "a\r\nb", "a\tb", "a b", "a  b", "\u200b", "ä", "a\u0308", "Ä", "\ufeffx", "☃", "💜",
    "NA", "nan", "NaN", "null", "NULL", "None", "none", "#N/A", "?", "-", "1", "01", "1.0", "1e0",
    "true", "True", "false", "inf", "0", "0.5", "win", "loss", "tie", "model_a", "model_b",
    "both_bad", "draw", "id", "item", "<b>", "&amp;", "\\n", "%0a", "a\x1bb", "a\x85b", "x" * 500,
]  # fmt: skip


@pytest.fixture
def session():
    """Each item meets the next, which wins, loses or ties in turn."""
    made = Session(NAMES, both_bad=True)
    made.add_rater("=ann,\tB")
    names = [item.id for item in made.items]
    for k, (one, two) in enumerate(zip(names, names[1:] + names[:1], strict=True)):
        token = made._make_token("=ann, B", one, two)
        made.answer(token, ("first", "second", "tie", "both_bad")[k % 4])
    return made


MARGINS = {"first": 1.0, "second": -1.0, "tie": 0.0, "both_bad": 0.0}
CODES = {"first": 0, "second": 1, "tie": 2, "both_bad": 3}


def write(path, text):
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_comparisons(session, tmp_path):
    table = io.StringIO(newline="")
    csv.writer(table).writerows([("id", "x"), *((name, k) for k, name in enumerate(NAMES))])
    items = write(tmp_path / "items.csv", table.getvalue())
    assert [item.id for item in read_items(items, None)] == NAMES
    found = read_comparisons(items, write(tmp_path / "c.csv", comparisons_csv(session)))
    assert found.names == NAMES
    assert [[NAMES[i], NAMES[j]] for i, j in found.comparisons.pairs] == [
        [a.first, a.second] for a in session.answers
    ]
    assert found.comparisons.margin.tolist() == [MARGINS[a.outcome] for a in session.answers]
    assert set(found.comparisons.groups) == {"=ann, B"}


def test_battles(session, tmp_path):
    path = write(tmp_path / "battles.csv", battles_csv(session))
    battles = read_battles(path, judge="judge").battles
    ids = battles.items.tolist()
    assert set(ids) == set(NAMES)
    assert [[ids[i], ids[j]] for i, j in battles.pairs] == [
        [a.first, a.second] for a in session.answers
    ]
    assert battles.outcome.tolist() == [CODES[a.outcome] for a in session.answers]
    assert set(battles.judge) == {"=ann, B"}


def test_rankings(session, tmp_path):
    session.settle()
    order = session.ranking().items
    path = write(tmp_path / "ranking.csv", ranking_csv(session))
    assert [item.id for item in read_items(path, None)] == order
    assert [row["item"] for row in json.loads(ranking_json(session))["ranking"]] == order
    assert "<b>" not in share_page(session).partition("<main")[2]


@pytest.mark.parametrize("make", [ranking_csv, comparisons_csv])
def test_spreadsheets_run_nothing_and_merge_nothing(session, make):
    text = make(session, for_spreadsheets=True)
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    found = {row[name] for row in rows for name in ("item", "first", "second") if name in row}
    assert len(found) == len(NAMES)
    assert not any(name.lstrip().startswith(("=", "+", "-", "@", "|")) for name in found)


def test_words_for_outcomes_that_are_items():
    session = Session(["win", "second", "left", "b"])
    session.answer(session.ask().token, "first")
    with pytest.raises(DataError, match="b, left, second, win, which are words for outcomes"):
        comparisons_csv(session)
    assert battles_csv(session)


def test_ids_that_no_file_would_keep_are_refused():
    for name in (" a", "a\n", "\u00a0a", "\ud800", "a\0"):
        for given in (name, Item(name)):
            with pytest.raises(DataError):
                Session([given, "b"])


def test_an_outcome_that_is_a_side_and_the_other_item_is_refused():
    items = {"id": ["loss", "x"], "size": [1, 2]}
    votes = {"first": ["loss"], "second": ["x"], "outcome": ["loss"]}
    with pytest.raises(DataError, match="'loss' is both an item and the name of a side"):
        read_comparisons(items, votes)
    votes["outcome"] = ["x"]
    assert read_comparisons(items, votes).comparisons.margin.tolist() == [-1.0]


def test_numbers_as_ids_are_those_of_a_session(tmp_path):
    items = write(
        tmp_path / "items.jsonl", '{"id": 7, "x": 1}\n{"id": 12345678901234567890, "x": 2}'
    )
    session = Session(read_items(items, None))
    answer = session.answer(session.ask().token, "first")
    found = read_comparisons(items, write(tmp_path / "c.csv", comparisons_csv(session)))
    assert [found.names[k] for k in found.comparisons.pairs[0]] == [answer.first, answer.second]
