"""Items and comparisons from tables."""

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rankwise.data import read_comparisons
from rankwise.errors import DataError

ITEMS = "id,size,age\na,1,0.5\nb,2,0\nc,3,-1\n"


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize(
    ("votes", "pairs", "margin"),
    [
        (
            "first,second,outcome\na,b,win\nb,c,tie\nc,a,loss\n",
            [[0, 1], [1, 2], [2, 0]],
            [1, 0, -1],
        ),
        ("winner,loser\na,b\nc,a\n", [[0, 1], [2, 0]], [1, 1]),
        ("a,b,winner\na,b,b\nb,c,tie\n", [[0, 1], [1, 2]], [-1, 0]),
        ("model_a,model_b,winner\na,b,model_b\nb,c,tie (bothbad)\n", [[0, 1], [1, 2]], [-1, 0]),
        ("left,right,result\na,b,0.5\nb,c,1\n", [[0, 1], [1, 2]], [0, 1]),
        ("\ufefffirst , second\n a , b \n\nb,c\n", [[0, 1], [1, 2]], [1, 1]),
    ],
)
def test_usual_columns_are_found(write, votes, pairs, margin):
    data = read_comparisons(write("items.csv", ITEMS), write("votes.csv", votes))
    assert data.comparisons.pairs.tolist() == pairs
    assert data.comparisons.margin.tolist() == margin
    assert data.feature_names == ["size", "age"]
    assert data.names == ["a", "b", "c"]
    assert data.X.tolist() == [[1, 0.5], [2, 0], [3, -1]]


def test_groups_weights_and_context(write):
    votes = "x\ty\tcount\trater\tcontext_left\tlonger\na\tb\t2\tAnn\t1\t0.1\nb\tc\t1\tBob\t-1\t0\n"
    data = read_comparisons(
        write("items.tsv.gz", ITEMS.replace(",", "\t")),
        write("votes.tsv", votes),
        first="x", second="y", context=["longer"],
    )  # fmt: skip
    found = data.comparisons
    assert found.weight.tolist() == [2, 1]
    assert found.groups.tolist() == ["Ann", "Bob"]
    assert found.context.tolist() == [[0.1, 1], [0, -1]]
    assert found.context_names == ["longer", "left"]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, dict])
def test_frames(frame):
    items = frame({"item": [10, 20, 30], "size": [1, 2, 3]})
    votes = frame({"first": [10, 20], "second": [20, 30], "winner": [20, 20]})
    data = read_comparisons(items, votes)
    assert data.comparisons.margin.tolist() == [-1, 1]
    assert data.names == ["10", "20", "30"]


def test_chosen_and_rejected_answers(write):
    text = "prompt,chosen_length,rejected_length\np,3,5\np,3,9\nq,1,2\n"
    data = read_comparisons(write("answers.csv", text))
    assert data.comparisons.groups.tolist() == [0, 0, 1]
    assert data.feature_names == ["length"]
    assert len(data.X) == 5
    assert np.all(data.comparisons.margin == 1)


@pytest.mark.parametrize(
    ("items", "votes", "options", "words"),
    [
        (ITEMS, "first,other\na,b\n", {}, "needs two columns of items. Name them.*first, second;"),
        (ITEMS, "first,second\na,b\n", {"group": "rater"}, "no column 'rater': it has first, sec"),
        (ITEMS, "first,second\na,z\n", {}, "Comparison 0 has the unknown item 'z'"),
        (
            ITEMS,
            "first,second,outcome\na,b,win\nb,c,no\n",
            {},
            "line 3: the outcome 'no' is unknown",
        ),
        (ITEMS, "first,second\na,b,c\n", {}, "line 2: got 3 values for 2 columns"),
        (
            ITEMS,
            "first,second,weight\na,b,x\n",
            {},
            "line 2: .* must hold numbers",
        ),
        (ITEMS, "first,first\na,b\n", {}, "2 columns 'first'"),
        (ITEMS, "first,second\n", {}, "has no rows"),
        (ITEMS, "first,second\na,b\n", {"first": "first"}, "Name both columns"),
        ("id\na\nb\n", "first,second\na,b\n", {}, "has no features"),
        (
            "id,x\na,\nb,1\n",
            "first,second\na,b\n",
            {},
            "items.csv, line 2: .* got ''",
        ),
    ],
)
def test_bad_tables_are_explained(write, items, votes, options, words):
    with pytest.raises(DataError, match=words):
        read_comparisons(write("items.csv", items), write("votes.csv", votes), **options)


def test_other_objects():
    with pytest.raises(DataError, match="a path, a data frame or a dictionary"):
        read_comparisons([1, 2], [3])


@pytest.mark.parametrize("ids", [[1, 2, 3], np.array([1, 2, 3])])
def test_numbers_of_items_are_found_by_their_text(ids):
    votes = {"first": ["1", "2"], "second": ["2", "3"]}
    found = read_comparisons({"id": ids, "size": [1, 2, 3]}, votes)
    assert found.comparisons.pairs.tolist() == [[0, 1], [1, 2]]
    assert found.names == ["1", "2", "3"]
