"""AutoRanker on data frames with text, categories, dates and missing values."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from rankwise import AutoRanker, RankRLS, TableEncoder, load_model, save_model
from rankwise.auto.auto_ranker import _in_places, make_folds
from rankwise.data import from_frame
from rankwise.errors import DataError, ExportError, ParameterError
from rankwise.export import to_onnx, to_solr
from rankwise.metrics import ndcg
from rankwise.model_selection.rows import LabelledRows

QUICK = {"candidates": "linear", "boosted": False, "random_state": 0}


@pytest.fixture(scope="module")
def auto(searches):
    """A ranker of all columns."""
    frame, y, qid = searches
    return AutoRanker(**QUICK).fit(frame, y, qid=qid)


@pytest.fixture(scope="module")
def searches():
    """A frame with everything, its labels and its queries."""
    rng, n_queries = np.random.default_rng(0), 20
    n, qid = 8 * n_queries, np.repeat(np.arange(n_queries), 8)
    day = pd.Timestamp("2024-05-30") + pd.to_timedelta(np.arange(n_queries), "D")
    frame = pd.DataFrame(
        {
            "price": rng.lognormal(size=n),
            "city": rng.choice(["Rome", "Oslo", "Lima"], n),
            "kind": pd.Categorical(rng.choice(["hotel", "flat"], n)),
            "checkin": np.repeat(day, 8),
            "name": [f"Hotel {k}" for k in rng.integers(0, 90, n)],
            "stars": rng.integers(1, 6, n).astype(float),
        }
    )
    liked = frame["stars"] - frame["price"] + 2.0 * (frame["city"] == "Rome") + rng.normal(size=n)
    y = pd.qcut(liked, 4, labels=False).to_numpy()
    frame.loc[::7, "stars"] = np.nan
    frame.loc[::11, "city"] = None
    return frame, y, qid


def test_every_fold_is_encoded_without_its_rows(searches):
    frame, y, qid = searches
    ranker = RankRLS(3.0, scale="standard")
    auto = AutoRanker(candidates=[ranker], boosted=False).fit(frame, y, qid=qid)
    scores = np.empty(len(y))
    for test in make_folds(LabelledRows.of(frame[["price"]], y, qid))[1].tests:
        train = np.setdiff1d(np.arange(len(y)), test)
        encoder = TableEncoder().fit(frame.iloc[train])
        old, new = (encoder.transform(frame.iloc[rows]) for rows in (train, test))
        scores[test] = (
            RankRLS(3.0, scale="standard").fit(old, y[train], qid=qid[train]).predict(new)
        )
    assert_allclose(auto.results_.scores, ndcg(y, scores, qid, k=10))
    fitted = RankRLS(3.0, scale="standard").fit(auto.encoder_.transform(frame), y, qid=qid)
    order = fitted.predict(auto.encoder_.transform(frame)).argsort()
    assert_array_equal(np.diff(auto.predict(frame, qid=np.zeros(len(y)))[order]) >= -1e-12, True)


@pytest.mark.parametrize("boosted", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_frame_that_gives_labels_away_does_not_look_better_than_it_is(boosted):
    """A text that names the query and the label helps on rows of the same queries only."""
    rng, qid = np.random.default_rng(0), np.repeat(np.arange(60), 6)
    x = rng.normal(size=len(qid))
    y = np.clip(np.round(0.5 * x + rng.normal(size=len(qid)) + 1), 0, 3)
    frame = pd.DataFrame({"x": x, "ref": [f"{q}-{g:g}" for q, g in zip(qid, y, strict=True)]})
    old = qid < 30
    options = QUICK | {"boosted": boosted}
    auto = AutoRanker(**options).fit(frame[old], y[old], qid=qid[old])
    new = ndcg(y[~old], auto.predict(frame[~old], qid=qid[~old]), qid[~old], k=10)
    assert auto.score_estimate_.score - new < 0.04
    plain = AutoRanker(**options).fit(frame.loc[old, ["x"]], y[old], qid=qid[old])
    assert auto.score_estimate_.score < plain.score_estimate_.score + 0.02


@pytest.mark.parametrize("has_queries", [True, False])
def test_few_rows_leave_enough_rows_for_the_landmarks(has_queries):
    """Each fold is encoded and fitted again, so landmarks come from the rows outside it."""
    rng, n = np.random.default_rng(0), 40
    frame = pd.DataFrame({"price": rng.normal(size=n), "city": rng.choice(["Rome", "Oslo"], n)})
    qid = np.arange(n) // 8 if has_queries else None
    one = AutoRanker(metric="disagreement", candidates="kernel", random_state=0)
    one.fit(frame, frame["price"] + rng.normal(size=n), qid=qid)
    assert {part.ranker.n_landmarks for part in one.parts_} == {32}
    numbers = AutoRanker(metric="disagreement", candidates="kernel", random_state=0)
    numbers.fit(frame[["price"]], frame["price"] + rng.normal(size=n), qid=qid)
    assert {part.ranker.n_landmarks for part in numbers.parts_} == {40}


@pytest.mark.parametrize(
    "kind",
    [
        pl.from_pandas,
        pytest.param(pa.Table.from_pandas, marks=[pytest.mark.slow, pytest.mark.ci]),
    ],
)
def test_frames_of_all_libraries_give_the_same_ranker(searches, auto, kind):
    frame, y, qid = searches
    scores = auto.predict(frame, qid=qid)
    found = AutoRanker(**QUICK).fit(kind(frame), y, qid=qid)
    assert_allclose(found.predict(kind(frame), qid=qid), scores, atol=1e-12)
    other = frame[frame.columns[::-1]].assign(more=1)
    assert_allclose(auto.predict(other, qid=qid), scores, atol=1e-12)
    assert list(auto.feature_names_in_) == list(frame.columns)


def test_numbers_are_not_encoded(searches, tmp_path):
    frame, y, qid = searches
    numbers = frame[["price", "stars"]].fillna(3.0)
    one = AutoRanker(**QUICK).fit(numbers, y, qid=qid)
    two = AutoRanker(**QUICK, encoder=None).fit(numbers, y, qid=qid)
    assert one.encoder_ is None
    assert_allclose(one.predict(numbers, qid=qid), two.predict(numbers, qid=qid), atol=1e-12)
    with pytest.raises(ParameterError, match="encoder must be a TableEncoder"):
        AutoRanker(encoder="onehot").fit(numbers, y)
    asked = AutoRanker(**QUICK, encoder=TableEncoder()).fit(numbers, y, qid=qid)
    asked = load_model(save_model(asked, tmp_path / "asked"))
    assert np.isfinite(asked.predict(frame, qid=qid)).all()  # with missing values


def test_files_and_exports(searches, auto, tmp_path):
    frame, y, qid = searches
    same = load_model(save_model(auto, tmp_path / "model"))
    later = frame.assign(checkin=frame["checkin"] + pd.Timedelta("90D"))
    assert_allclose(same.predict(later, qid=qid), auto.predict(later, qid=qid), atol=1e-12)
    nullable = later.assign(stars=later["stars"].astype("Int64"), more=[[1]] * len(y))
    for rows in (nullable, pa.Table.from_pandas(later)):
        assert to_onnx(auto, rows=rows, qid=qid).check.n_lost == 0
    with pytest.raises(ExportError, match="makes features of text or dates: city, kind, checkin"):
        to_solr(auto)


def test_errors_name_no_option_of_commands(searches, auto):
    frame, y, qid = searches
    wrong = [
        (
            frame.assign(seen=[[1]] * len(y)),
            "'seen' has a list or object in each row, which cannot",
        ),
        (frame.assign(price=np.inf), "the column 'price' is infinite"),
        (frame.assign(price=["x", *["1"] * (len(y) - 1)]), "numbers in other rows, but 'x' here"),
    ]
    for X, words in wrong:
        with pytest.raises(DataError, match=words) as caught:
            AutoRanker(**QUICK).fit(X, y, qid=qid)
        assert "--" not in str(caught.value)
    for X, words in (
        (frame.drop(columns="city"), "no column 'city'"),
        (frame.to_numpy(), "Expected a data frame"),
        (frame.assign(city=1.0), "'city' has numbers, but the model was fitted to text"),
        (frame.assign(checkin="soon"), "'checkin' has texts, but the model was fitted to dates"),
    ):
        with pytest.raises(DataError, match=words):
            auto.predict(X, qid=qid)
    with pytest.raises(DataError, match="Column 'city' of X is text"):
        AutoRanker(**QUICK, encoder=None).fit(frame[["price", "city"]], y, qid=qid)


@pytest.mark.parametrize("columns", [["price", "city"], ["price", "stars"], ["price", "checkin"]])
def test_other_rankers_name_the_two_lines_that_encode(columns, searches):
    frame, y, qid = searches
    X = frame[columns]
    with pytest.raises(DataError) as caught:
        RankRLS().fit(X, y, qid=qid)
    one, two = str(caught.value).split("\n")[1:]
    names = {"X": X, "y": y, "qid": qid, "RankRLS": RankRLS}
    exec(one.strip(), names)
    assert np.isfinite(eval(two.strip(), names).predict(X)).all()


@pytest.mark.filterwarnings("ignore:Found unknown categories")
def test_monotone_features_beside_words_that_some_folds_lack():
    rng, n = np.random.default_rng(0), 60
    words = rng.choice([f"w{k}" for k in range(25)], n)  # each fold knows other words
    frame = pd.DataFrame({"word": words, "price": rng.normal(size=n)})
    y = np.where(words < "w2", 2.0, 0.0) + frame["price"] + rng.normal(size=n)
    rules = {"price": -1}
    ranker = AutoRanker(
        candidates="linear", boosted=False, monotone=rules, encoder=TableEncoder(text="onehot")
    )
    ranker.fit(frame, y, qid=np.repeat(np.arange(12), 5))
    dearer = frame.assign(price=frame["price"] + 10)
    one = np.zeros(n, dtype=int)
    assert (ranker.predict(dearer, qid=one) <= ranker.predict(frame, qid=one) + 1e-9).all()


def test_encoded_folds_have_features_in_the_same_places():
    X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    for kind in (np.asarray, sp.csr_array):
        placed = _in_places(kind(X), ["c", "new", "a"], ["a", "b", "c"])
        placed = placed.toarray() if sp.issparse(placed) else placed
        assert placed.tolist() == [[3.0, 0.0, 1.0, 2.0], [6.0, 0.0, 4.0, 5.0]]


def test_numbers_with_marks_are_refused_with_the_line_that_reads_them(searches):
    frame, y, qid = searches
    marked = frame.assign(salary=[f"{1000 + k:,}" for k in range(len(y))])
    with pytest.raises(DataError, match="seems to stand between thousands") as error:
        AutoRanker(**QUICK).fit(marked, y, qid=qid)
    X = eval(str(error.value).rsplit("rankwise.data.", 1)[1].split(" has these")[0], {
        "from_frame": from_frame, "X": marked,
    })  # fmt: skip
    assert X["salary"].tolist() == [1000.0 + k for k in range(len(y))]
    assert AutoRanker(**QUICK).fit(X, y, qid=qid).score_estimate_.score > 0.5
