"""What the check of an export finds, and what it refuses."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from rankwise import AdditiveRankRLS, BoostedRanker, RankRLS, RankSVM, TableEncoder
from rankwise.errors import DataError, ExportError
from rankwise.export import (
    checks,
    to_elasticsearch,
    to_json,
    to_onnx,
    to_opensearch,
    to_solr,
    to_vespa,
)
from rankwise.export.checks import CheckRows, compare_scores

SECONDS = (1.7e9 + np.tile(np.arange(100.0), 2))[:, None]  # a timestamp
GRADES = np.arange(200) % 7 + SECONDS[:, 0] % 13
QID = np.arange(200) // 10
RANKERS = {
    "linear": RankRLS(1.0, scale=None),
    "standard": RankRLS(1.0, scale="standard"),
    "rbf": RankRLS(1.0, kernel="rbf", scale="standard"),
    "within queries": RankRLS(1.0, scale="query-minmax"),
    "additive": AdditiveRankRLS(1.0),
    "svm": RankSVM(),
    "trees": BoostedRanker(n_estimators=5, min_samples_leaf=3, random_state=0),
}


def fitted(name):
    if name == "trees":
        pytest.importorskip("lightgbm")
    return RANKERS[name].fit(SECONDS, GRADES, qid=QID)


def by_query(export, rows, qid):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(export.content)
    kind = {"tensor(float)": np.float32, "tensor(double)": np.float64}[session.get_inputs()[0].type]
    scores = np.empty(len(rows))
    for query in np.unique(qid):
        chosen = qid == query
        scores[chosen] = session.run(None, {"X": rows[chosen].astype(kind)})[0]
    return scores


@pytest.mark.parametrize("name", RANKERS)
def test_timestamps_are_refused_in_float32_and_are_float64_by_default(name):
    model = fitted(name)
    with pytest.raises(ExportError, match=r'\d+ of \d+ pairs lose their order.*="float64"'):
        to_onnx(model, rows=SECONDS, qid=QID, precision="float32")
    export = to_onnx(model, rows=SECONDS, qid=QID)
    assert export.check.n_lost == 0
    assert "Input and scores are float64. In float32, rows" in export.check.notes[0]
    expected = model.predict(SECONDS, qid=QID)
    assert_allclose(by_query(export, SECONDS, QID), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", RANKERS)
def test_the_default_without_rows_is_safe(name):
    """The range of the training rows is large, or not known."""
    model = fitted(name)
    export = to_onnx(model)
    assert "Input and scores are float64." in export.check.notes[0]
    assert "give rows" in export.check.notes[0]
    expected = model.predict(SECONDS, qid=QID)
    assert_allclose(by_query(export, SECONDS, QID), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("engine", [to_elasticsearch, to_opensearch, to_solr])
def test_ranges_that_float32_may_not_hold_are_refused_without_rows(engine):
    """A RankSVM knows the range of its features, but not of sparse rows."""
    model = fitted("svm")
    assert_allclose(model.feature_range_, [[1.7e9], [1.7e9 + 99]])
    sparse = RankSVM().fit(csr_array(SECONDS % 100), GRADES, qid=QID)
    assert sparse.feature_range_ is None
    for ranker, why in ((model, "Features reach 1.7e"), (sparse, "does not know the range")):
        with pytest.raises(ExportError, match=f"in float32. .*{why}.*: give rows"):
            engine(ranker)
        with pytest.raises(ExportError, match=f"='float32' takes .*{why}.*: give rows"):
            to_onnx(ranker, precision="float32")
    assert engine(sparse, rows=SECONDS % 100).check.passed


def test_ranges_of_features_that_are_left_out_do_not_matter():
    rows = np.column_stack((SECONDS, GRADES, np.arange(200) % 3))
    keeps_two = make_column_transformer(("passthrough", [1, 2]))
    model = make_pipeline(keeps_two, RankSVM()).fit(rows, GRADES)
    assert "scores of at least 0" in to_elasticsearch(model).check.notes[0]
    assert to_onnx(model, precision="float32").check.passed


def test_a_check_prints_its_notes():
    check = to_onnx(fitted("svm")).check
    assert str(check).endswith(check.notes[-1])
    assert check.notes[0] in str(check)


def test_ordinary_rows_are_float32_by_default():
    rows = np.random.default_rng(0).normal(size=(200, 2)) * [15.0, 0.1] + [1990.0, 0.0]
    model = RankRLS(1.0, scale="standard").fit(rows, GRADES, qid=QID)
    for given in ({}, {"rows": rows, "qid": QID}):
        export = to_onnx(model, **given)
        assert not any("Input and scores" in note for note in export.check.notes)
        assert export.check.tolerance == checks.TOLERANCE["float32"]


@pytest.mark.parametrize("engine", [to_elasticsearch, to_opensearch, to_solr])
def test_engines_refuse_what_float32_cannot_tell_apart(engine):
    """Scores of different queries are far apart, and those within queries are not."""
    days = 86_400.0 * np.repeat(np.arange(20.0), 10)
    rows = SECONDS + days[:, None]
    model = RankRLS(1.0, scale="standard").fit(rows, GRADES, qid=QID)
    with pytest.raises(ExportError, match=r"[89]\d\d of 900 pairs lose their order.*Vespa or ONNX"):
        engine(model, rows=rows, qid=QID)
    with pytest.raises(ExportError, match=r"16,777,216: give rows"):
        engine(model)
    for exact in (to_vespa, to_json):
        assert exact(model, rows=rows, qid=QID).check.n_lost == 0


def test_float32_rows_are_checked_as_they_are():
    rows = SECONDS.astype(np.float32) + 128 * np.arange(200, dtype=np.float32)[:, None]
    model = RankRLS(1.0, scale="standard").fit(rows, GRADES, qid=QID)
    with pytest.raises(ExportError, match="lose their order"):
        to_onnx(model, rows=rows.astype(float) + np.arange(200)[:, None] % 50, precision="float32")
    centred = RankRLS(1.0, kernel="rbf", scale="standard").fit(rows, GRADES, qid=QID)
    assert to_onnx(centred, rows=rows, qid=QID, precision="float32").check.passed


def test_categories_that_float32_does_not_have():
    """0.1 in float32 is not 0.1: every row would be of no category."""
    rows = np.array([[0.1], [0.2], [0.3], [0.4]] * 5)
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), RankRLS(1.0))
    model.fit(rows, np.arange(20) % 4)
    with pytest.raises(ExportError, match="lose their order"):
        to_onnx(model, precision="float32")
    assert to_onnx(model).check.notes[0].startswith("Input and scores are float64.")


def test_columns_with_the_names_of_methods_of_other_libraries():
    frame = pd.DataFrame({"column_names": np.arange(20) % 7, "select": list("abcd") * 5})
    model = make_pipeline(TableEncoder(), RankRLS(1.0)).fit(frame, np.arange(20) % 5)
    pytest.importorskip("onnxruntime")
    assert to_onnx(model, rows=frame).check.passed
    assert to_onnx(model, rows=pa.Table.from_pandas(frame)).check.passed


@pytest.mark.parametrize("qid", [np.arange(200), np.arange(200) // 2])
def test_rows_without_an_order_are_refused(qid):
    """Each row is its own query, or all rows of a query are equal."""
    rows = np.repeat(np.arange(100.0), 2)[:, None]
    model = RankRLS(1.0, scale=None).fit(rows, np.arange(200))
    for export in (to_onnx, to_solr, to_json):
        with pytest.raises(DataError, match="no order to check"):
            export(model, rows=rows, qid=qid)


def compared(ours, theirs, qid, precision="float32"):
    ours, theirs = (np.asarray(scores, dtype=np.float64)[:, None] for scores in (ours, theirs))
    rows = CheckRows(np.zeros((len(ours), 1)), qid, "rows", True, {})
    return compare_scores(ours, theirs, rows, target="onnx", precision=precision)


def test_lost_pairs_by_hand():
    check = compared([0.0, 1.0, 2.0, 5.0, 9.0], [0.0, 0.0, 3.0, 1.0, 1.5], [1, 1, 1, 2, 2])
    assert (check.n_pairs, check.n_lost, check.n_turned, check.n_near_ties) == (4, 1, 0, 0)
    assert check.relative_difference == 3.5 / 4.0
    assert check.largest_difference == 7.5
    assert not check.passed
    check = compared([0.0, 1.0, 2.0], [1.0, 1.0, 0.5], None)
    assert (check.n_pairs, check.n_lost, check.n_turned) == (3, 3, 2)
    assert "3 of 3 pairs lose their order (2 reversed, 1 tied; 0 near-ties among them)" in str(
        check
    )


def test_near_ties_are_counted_and_accepted():
    ours = np.arange(40) // 2 + np.arange(40) % 2 * 1e-6
    theirs = np.arange(40) // 2 - np.arange(40) % 2 * 1e-7
    check = compared(ours, theirs, None)
    assert (check.n_lost, check.n_turned, check.n_near_ties) == (20, 20, 20)
    assert check.passed
    check = compared(ours, theirs * 1e4, None)
    assert not check.passed


def test_a_narrow_query_counts_although_others_are_wide():
    """Half of the pairs are lost, and their differences are small parts of the widest range."""
    ours = np.concatenate((np.arange(30.0), 1e4 * np.arange(30.0)))
    theirs = np.concatenate((np.zeros(30), 1e4 * np.arange(30.0)))
    check = compared(ours, theirs, np.arange(60) // 30)
    assert (check.n_pairs, check.n_lost, check.n_near_ties) == (870, 435, 0)
    assert check.relative_difference < check.tolerance
    assert not check.passed


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_do_not_pass(bad):
    for ours, theirs in (([0.0, 1.0], [0.0, bad]), ([0.0, bad], [0.0, bad])):
        assert not compared(ours, theirs, None).passed


def test_all_queries_of_many_rows_are_compared():
    """Every tenth row of queries of ten would leave no pair."""
    n = 30_000
    ours = np.arange(n) % 10 + 0.0
    check = compared(ours, ours, np.arange(n) // 10)
    assert check.n_pairs == 3000 * 45
    check = compared(np.arange(n) + 0.0, np.arange(n) + 0.0, None)
    assert check.n_pairs == 2000 * 1999 // 2
    check = compared(np.arange(n) + 0.0, np.arange(n) + 0.0, np.arange(n) // 1000)
    assert check.n_pairs == 4 * 1000 * 999 // 2
    qid = np.where(np.arange(n) % 1001, np.arange(n) // 1001, -np.arange(n))  # every other: one row
    assert compared(np.arange(n) + 0.0, np.arange(n) + 0.0, qid).n_pairs > 10**6


def test_scores_of_any_size():
    ours = np.arange(10.0)
    for size in (1e-200, 1e-40, 1e40, 1e300):
        assert compared(ours * size, ours * size * (1 + 1e-7), None).passed
        assert not compared(ours * size, ours * 0, None).passed
    tiny = RankRLS(1.0, scale=None).fit(SECONDS - 1.7e9, GRADES * 1e-60, qid=QID)
    with pytest.raises(ExportError, match="900 of 900 pairs lose their order"):
        to_solr(tiny, rows=SECONDS - 1.7e9, qid=QID)  # its weight is 0 in float32
    assert to_json(tiny, rows=SECONDS - 1.7e9, qid=QID).check.n_lost == 0
    large = RankRLS(1.0, scale=None).fit(SECONDS - 1.7e9, GRADES * 1e60, qid=QID)
    with pytest.raises(ExportError, match="overflows float32"):
        to_solr(large, rows=SECONDS - 1.7e9, qid=QID)
    assert to_onnx(large, rows=SECONDS - 1.7e9, qid=QID).check.passed


def test_a_query_that_is_split_is_mentioned():
    model = fitted("within queries")
    assert "split over two calls" in to_onnx(model, rows=SECONDS, qid=QID).check.notes[-1]
