"""Labelled rows from data frames."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose

from rankwise import RankRLS
from rankwise.data import from_frame
from rankwise.errors import DataError, ParameterError

FRAME = pd.DataFrame(
    {
        "query": ["a", "a", "b", "b"],
        "stars": [1, 2, 3, 1],
        "price": np.array([1.0, 0.5, 2.0, 3.0], dtype=np.float32),
        "new": [True, False, True, True],
        "brand": pd.Categorical(["x", "y", "x", "x"]),
    }
)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_frames_of_every_library(kind, capsys):
    data = from_frame(kind(FRAME), label="stars", ignore=["brand"])
    said = capsys.readouterr().out
    assert "query 'query' (guessed); label 'stars'; 2 features (price, new)" in said
    assert_allclose(data.X.to_numpy(), FRAME[["price", "new"]].to_numpy(float))
    assert data.qid.tolist() == list("aabb")
    assert "columns" in repr(data)
    from_frame(kind(FRAME), label="stars", ignore=["brand"], verbose=False)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas])
def test_rankers_take_columns_of_a_frame(kind):
    frame = kind(FRAME)
    ranker = RankRLS(1.0).fit(frame[["price", "new"]], frame["stars"], qid=frame["query"])
    assert list(ranker.feature_names_in_) == ["price", "new"]


def test_group_sizes(capsys):
    data = from_frame(FRAME, label="stars", ignore=["brand", "query"], group=[3, 1])
    assert data.qid.tolist() == [0, 0, 0, 1]
    assert "2 queries from group sizes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        ([1], {}, "got a list"),
        (pl.from_pandas(FRAME).lazy(), {}, "is lazy: call its collect method"),
        (pd.DataFrame([[1, 2]]), {}, "must be text: got 0"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), {}, "2 columns 'a'"),
        (pa.table([[1], [2]], names=["a", "a"]), {}, "2 columns 'a'"),
        (pd.DataFrame({"a": [1, "x"]}), {}, "'a' holds values of several types"),
        (pd.DataFrame({"qid": [1, None], "a": [1, 2]}), {}, "row 1: the column 'qid'"),
        (
            pd.DataFrame({"label": [1, None], "a": [1, 2]}),
            {},
            "row 1: the column 'label' of labels",
        ),
        (pd.DataFrame({"label": [1, 1], "a": [1, None]}), {}, r"a 1 \(50%\)"),
        (FRAME, {"label": "stars"}, "these are text: 'brand'"),
        (FRAME, {"label": "star"}, "no column 'star'. Is it 'stars'"),
        (FRAME, {"ignore": ["brand", "query"], "group": [3]}, "add up to 3, but the frame has 4"),
        (FRAME[:0], {"ignore": ["brand"]}, "has no rows"),
    ],
)
def test_what_cannot_be_used_is_refused(frame, options, words):
    with pytest.raises(DataError, match=words):
        from_frame(frame, **options)


def test_queries_are_given_once():
    with pytest.raises(ParameterError, match="not both"):
        from_frame(FRAME, qid="query", group=[4])
    with pytest.raises(ParameterError, match="looks like query ids"):
        from_frame(FRAME, ignore=["brand"], group=[4])


def test_an_index_of_queries_or_ids_is_a_column():
    columns = {"grade": [0, 1, 2], "price": [3.0, 1.0, 2.0]}
    frame = pd.DataFrame(columns, index=pd.Index(["a", "a", "b"], name="qid"))
    assert from_frame(frame, verbose=False).qid.tolist() == ["a", "a", "b"]
    named = frame.rename_axis("search")
    assert from_frame(named, qid="search", verbose=False).qid.tolist() == ["a", "a", "b"]
    assert from_frame(named, verbose=False).feature_names == ("price",)  # not a feature


def test_sparse_columns_of_pandas():
    columns = {"grade": [0, 1], "word": pd.arrays.SparseArray([0.0, 2.0])}
    assert from_frame(pd.DataFrame(columns), verbose=False).X["word"].tolist() == [0.0, 2.0]


def test_floats_beside_large_integers_are_features_but_no_ids():
    frame = pd.DataFrame({"label": [0, 1], "a": pd.Series([0.5, 2**60 + 1], dtype=object)})
    assert from_frame(frame, verbose=False).X["a"].tolist() == [0.5, 2.0**60]
    with pytest.raises(DataError, match=r"row 0: the column 'a' has the float 0\.5: ids are whole"):
        from_frame(frame.assign(b=1), qid="a", verbose=False)
    with pytest.raises(DataError, match=r"'c' holds .* \(complex\)\. Convert them to one type"):
        from_frame(frame.assign(c=[1j, 2j]), verbose=False)


@pytest.mark.parametrize("ordered", [True, False])
def test_ordered_categories_are_grades(ordered):
    words = pd.Categorical(
        ["clicked", "none", "booked", "none"],
        ["none", "clicked", "saved", "booked"],
        ordered=ordered,
    )
    frame = pd.DataFrame({"qid": [1, 1, 2, 2], "label": words, "x": range(4)})
    if ordered:
        data = from_frame(frame, verbose=False)
        assert data.y.tolist() == [1, 0, 3, 0]
        one, two = (RankRLS(1.0).fit(frame[["x"]], y) for y in (frame["label"], data.y))
        assert_allclose(one.coef_, two.coef_)
        frame.loc[2, "label"] = None
        with pytest.raises(DataError, match="y is missing in row 2"):
            RankRLS().fit(frame[["x"]], frame["label"])
        frame["label"] = words
    else:
        with pytest.raises(DataError, match="words without a grade"):
            from_frame(frame, verbose=False)
    grades = {"none": -1, "clicked": 1, "booked": 2.5, "saved": 0}
    assert from_frame(frame, grades=grades, verbose=False).y.tolist() == [1, -1, 2.5, -1]


def test_dates_are_features_where_asked():
    days = ["2024-02-28", "", "2024-03-01"]
    frame = pd.DataFrame({"label": [0, 1, 2], "x": range(3), "text": days})
    frame["date"] = pd.to_datetime(["2024-02-28 12:00", None, "2024-03-01 00:00"])
    assert from_frame(frame, verbose=False).roles.left_out == dict.fromkeys(
        ["text", "date"], "a date"
    )
    X = from_frame(frame, dates=True, verbose=False).X
    assert X["date"].dt.day.tolist()[::2] == [28, 1]
    assert X["text"].isna().tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("values", "is_position"),
    [
        ([1, 2, 3, 2, 1, 3], True),
        ([0, 1, 2, 0, 1, 2], True),
        ([1, 2, 4, 1, 2, 3], False),
        ([1, 2, 2, 1, 2, 3], False),
        ([2, 3, 4, 2, 3, 4], False),
        ([1, 2, 3, 0, 1, 2], False),
        ([0.5, 1.5, 2.5, 0.5, 1.5, 2.5], False),
    ],
)
def test_columns_that_look_like_positions(values, is_position):
    frame = pd.DataFrame({"qid": [7, 7, 7, 8, 8, 8], "label": [0, 1, 2] * 2, "a": values, "b": 1})
    data = from_frame(frame, verbose=False)
    assert data.roles.positions == (("a",) if is_position else ())
    assert data.roles.constants == ("b",)
    named = from_frame(frame.rename(columns={"a": "rank"}), verbose=False).roles.positions
    assert named == (() if values in ([1, 2, 2, 1, 2, 3], [0.5, 1.5, 2.5] * 2) else ("rank",))


def test_words_that_all_differ_look_like_ids():
    n = 20
    frame = pd.DataFrame({"qid": [1] * 12 + [2] * 8, "label": [0, 1] * 10})
    frame["bottle"], frame["title"] = [f"B-{k}" for k in range(n)], [f"Wine {k}" for k in range(n)]
    frame["grape"] = ["red", *frame["bottle"][1:-1], "red"]
    roles = from_frame(frame, verbose=False, keep_text=True).roles
    assert (roles.looking_like_ids, roles.row_ids) == (["bottle"], ("bottle",))
    few = from_frame(frame.head(n - 1), verbose=False, keep_text=True).roles
    assert few.looking_like_ids == []


def test_whole_numbers_of_which_floats_lose_digits_look_like_ids():
    n = 6 * 10**18
    frame = pd.DataFrame({"label": [0, 1, 2], "hotel": [n + 1, n + 2, n + 3], "price": [1, 2, 3]})
    gaps = frame.assign(hotel=pd.array([n + 1, None, n + 3], dtype="Int64"))
    for given in (frame, gaps):
        roles = from_frame(given, verbose=False, keep_missing=True).roles
        assert (roles.looking_like_ids, roles.constants) == (["hotel"], ())
    data = from_frame(frame, id="hotel", verbose=False)
    assert f"{n + 1} to {n + 3}" in str(data.columns)
    assert from_frame(frame.assign(hotel=7.5), verbose=False).roles.looking_like_ids == []


def test_faults_of_frames_with_arrays_as_arguments():
    options = {"ignore": np.array(["query"]), "group": np.array([3, 1])}
    with pytest.raises(DataError, match=r"group=\[3, 1\], .*ignore=\['query'\], keep_text=True"):
        from_frame(FRAME, label="stars", features=np.array(["brand"]), **options)
