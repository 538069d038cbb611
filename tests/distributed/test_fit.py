"""Rankers fitted to partitions, compared with the same rankers fitted to all rows."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from dask import compute, delayed
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from rankwise import (
    RLS,
    KPCRank,
    QueryMinMaxScaler,
    RankRLS,
    RankSVM,
    SparseRankRLS,
    SparseRLS,
)
from rankwise.data import write_letor
from rankwise.distributed import evaluate, fit, leave_query_out, path, predict
from rankwise.distributed._partitions import open_partitions, surveyed, with_whole_queries
from rankwise.errors import DataError, LetorFormatError, ParameterError
from rankwise.metrics import evaluate_ranking
from rankwise.model_selection import leave_query_out as leave_query_out_here

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 4))
Y = RNG.integers(0, 3, 200).astype(float)
QID = RNG.integers(0, 20, 200)  # unsorted: nearly all queries are in several partitions
POINTS = X[:15]

RANKERS = {
    "RankRLS": RankRLS(1.0),
    "RankRLS without ties": RankRLS(1.0, ties="exclude", weighting="queries"),
    "RLS": RLS(1.0),
    "SparseRankRLS": SparseRankRLS(1.0, landmarks=POINTS, scale=None),
    "SparseRankRLS without ties": SparseRankRLS(1.0, landmarks=POINTS, ties="exclude", scale=None),
    "SparseRankRLS on rows": SparseRankRLS(1.0, landmarks=np.array([150, 3, 77, 20]), scale=None),
    "SparseRankRLS, whitened": SparseRankRLS(1.0, landmarks=POINTS, gamma=1e-5),
    "SparseRLS": SparseRLS(1.0, landmarks=POINTS, scale=None),
}


@pytest.fixture(autouse=True)
def threads():
    """Compute in this process, also if a test before this one has left a scheduler behind."""
    with dask.config.set(scheduler="threads"):
        yield


def in_chunks(*arrays, size=45):
    return tuple(da.from_array(a, chunks=(size, *a.shape[1:])) for a in arrays)


def frame(**more):
    columns = {f"feature {k}": X[:, k] for k in range(4)}
    return pd.DataFrame({**columns, "label": Y, "qid": [f"query {q}" for q in QID], **more})


@pytest.mark.parametrize("name", RANKERS)
def test_arrays(name):
    want = clone(RANKERS[name]).fit(X, Y, qid=QID)
    ours = fit(clone(RANKERS[name]), in_chunks(X, Y, QID))
    assert_allclose(ours.predict(X), want.predict(X), atol=1e-9)
    assert ours.n_queries_ == want.n_queries_


@pytest.mark.parametrize(
    "ranker", [RankRLS(1.0), SparseRankRLS(1.0, landmarks=POINTS, scale=None), RLS(1.0)]
)
def test_one_global_ranking(ranker):
    ours = fit(clone(ranker), in_chunks(X, Y))
    assert_allclose(ours.predict(X), ranker.fit(X, Y).predict(X), atol=1e-9)


@pytest.mark.parametrize("ties", ["include", "exclude"])
def test_several_outputs(ties):
    both = np.column_stack((Y, Y[::-1]))
    ours = fit(RankRLS(1.0, ties=ties), in_chunks(X, both, QID))
    assert_allclose(ours.coef_, RankRLS(1.0, ties=ties).fit(X, both, qid=QID).coef_, atol=1e-10)


def test_sparse_chunks():
    S = sp.random_array((200, 30), density=0.1, rng=1, format="csr")
    blocks = [
        da.from_delayed(delayed(S[k : k + 50]), (50, 30), dtype=float) for k in range(0, 200, 50)
    ]
    y, qid = in_chunks(Y, QID, size=50)
    ours = fit(RankRLS(1.0), (da.concatenate(blocks), y, qid))
    assert_allclose(ours.coef_, RankRLS(1.0).fit(S, Y, qid=QID).coef_, atol=1e-10)


def test_a_path():
    alphas = [0.1, 1.0, 10.0]
    ours = path(RankRLS(1.0), in_chunks(X, Y, QID), alphas)
    want = RankRLS(1.0).path(X, Y, alphas, qid=QID)
    assert_allclose(ours.predict(X), want.predict(X), atol=1e-10)


def test_a_data_frame():
    ours = fit(RankRLS(1.0), dd.from_pandas(frame(), npartitions=3))
    assert_allclose(ours.coef_, RankRLS(1.0).fit(X, Y, qid=QID).coef_, atol=1e-12)
    assert ours.feature_names_in_.tolist() == [f"feature {k}" for k in range(4)]


def test_columns_in_another_order_raise_an_error():
    ranker = fit(RankRLS(1.0), dd.from_pandas(frame(), npartitions=3))
    table = frame()
    same = predict(ranker, dd.from_pandas(table, npartitions=2), label="label", qid="qid")
    assert_allclose(same.compute(), ranker.predict(table.iloc[:, :4]))
    other = dd.from_pandas(table[table.columns[::-1]], npartitions=2)
    with pytest.raises(ValueError, match="same order"):
        predict(ranker, other, label="label", qid="qid").compute()


def test_a_parquet_folder(tmp_path):
    for k in range(3):
        frame()[k * 70 : (k + 1) * 70].to_parquet(tmp_path / f"{k}.parquet", row_group_size=40)
    ours = fit(RankRLS(1.0), tmp_path)
    assert_allclose(ours.coef_, RankRLS(1.0).fit(X, Y, qid=QID).coef_, atol=1e-12)


def test_letor_files(tmp_path, monkeypatch):
    monkeypatch.setattr("rankwise.distributed._partitions.SPAN_BYTES", 1000)
    write_letor(tmp_path / "a.txt", X[:120], Y[:120], qid=QID[:120])
    write_letor(tmp_path / "b.txt", X[120:], Y[120:], qid=QID[120:])
    ours = fit(RankRLS(1.0), str(tmp_path / "*.txt"))
    assert_allclose(ours.coef_, RankRLS(1.0).fit(X, Y, qid=QID).coef_, atol=1e-12)
    scores = predict(ours, [tmp_path / "a.txt", tmp_path / "b.txt"]).compute()
    assert_allclose(scores, ours.predict(X), atol=1e-12)


def test_landmarks_are_drawn_from_all_partitions():
    ours = fit(SparseRankRLS(1.0, n_landmarks=40, random_state=0, scale=None), in_chunks(X, Y, QID))
    assert_allclose(ours.landmarks_, X[ours.landmark_indices_])
    assert len(np.unique(ours.landmark_indices_ // 45)) == 5
    want = SparseRankRLS(1.0, landmarks=ours.landmark_indices_, scale=None).fit(X, Y, qid=QID)
    assert_allclose(ours.predict(X), want.predict(X), atol=1e-9)
    again = fit(
        SparseRankRLS(1.0, n_landmarks=40, random_state=0, scale=None), in_chunks(X, Y, QID)
    )
    assert_array_equal(again.landmark_indices_, ours.landmark_indices_)


@pytest.mark.parametrize("method", ["stratified", "kmeans", "rpcholesky", "leverage"])
def test_other_landmarks(method):
    ranker = SparseRankRLS(1.0, n_landmarks=10, landmarks=method, random_state=0, scale=None)
    assert fit(ranker, in_chunks(X, Y, QID)).landmarks_.shape == (10, 4)


@pytest.mark.parametrize("name", ["RankRLS", "RankRLS without ties", "SparseRankRLS"])
@pytest.mark.parametrize("metric", ["disagreement", "ndcg@5"])
def test_leave_query_out(name, metric):
    alphas = [0.1, 1.0, 10.0]
    ours = leave_query_out(RANKERS[name], in_chunks(X, Y, QID), alphas=alphas, metric=metric)
    want = leave_query_out_here(RANKERS[name], X, Y, qid=QID, alphas=alphas, metric=metric)
    assert_allclose(ours.score, want.score, atol=1e-10)
    assert_allclose(ours.standard_error, want.standard_error, atol=1e-10)
    assert want.score[ours.best_index] == pytest.approx(want.score[want.best_index])


def test_leave_query_out_with_monotone_features():
    ranker = RankRLS(1.0, monotone={0: -1})
    assert_allclose(fit(clone(ranker), in_chunks(X, Y, QID)).coef_, ranker.fit(X, Y, qid=QID).coef_)
    with pytest.raises(ParameterError, match="without monotone constraints only"):
        leave_query_out(ranker, in_chunks(X, Y, QID))


def test_leave_query_out_with_an_alpha_below_rounding_errors():
    alone = np.column_stack((X, QID[0] == QID)) * np.arange(len(X))[:, None]  # of one query only
    with pytest.raises(DataError, match="An alpha is too small relative to the rounding errors"):
        leave_query_out(RankRLS(1e-300, scale=None), in_chunks(alone, Y, QID))
    few = leave_query_out(RankRLS(1e-300, scale=None), in_chunks(X, Y, QID))
    want = leave_query_out_here(RankRLS(1e-300, scale=None), X, Y, qid=QID)
    assert_allclose(few.score, want.score, atol=1e-10)


def test_metrics_that_are_undefined_for_the_labels():
    sorted_ids = np.sort(QID)
    below = np.where(sorted_ids < 4, Y - 1, Y)  # in some partitions only
    with pytest.raises(DataError, match="NDCG needs labels of 0 and above"):
        leave_query_out(RankRLS(1.0), in_chunks(X, below, sorted_ids), metric="ndcg@5")
    few = np.where(sorted_ids < 15, 1.0, Y)  # partitions without differences in labels
    ours = leave_query_out(RankRLS(1.0), in_chunks(X, few, sorted_ids))
    want = leave_query_out_here(RankRLS(1.0), X, few, qid=sorted_ids)
    assert_allclose(ours.score, want.score, atol=1e-10)
    with pytest.raises(DataError, match="No query has two different labels"):
        leave_query_out(RankRLS(1.0), in_chunks(X, np.ones(200), QID))


def test_predictions_and_metrics_are_lazy():
    ranker = RankRLS(1.0).fit(X, Y, qid=QID)
    scores = predict(ranker, in_chunks(X)[0])
    assert scores.shape == (200,)
    assert_allclose(scores.compute(), ranker.predict(X))
    unknown = dd.from_pandas(frame(), npartitions=3)[[f"feature {k}" for k in range(4)]].values
    assert_allclose(predict(ranker, unknown).compute(), ranker.predict(X))
    columns = da.from_array(X, chunks=(70, 3))
    assert_allclose(predict(ranker, columns).compute(), ranker.predict(X))
    with pytest.raises(DataError, match="two dimensions: got 1"):
        predict(ranker, columns[0])
    found = evaluate(ranker, in_chunks(X, Y, QID), k=3).compute()
    want = evaluate_ranking(Y, ranker.predict(X), QID, k=3).means
    assert found.means == pytest.approx(want)


def test_errors_name_the_row(tmp_path):
    bad = X.copy()
    bad[100, 2] = np.nan
    with pytest.raises(DataError, match="Partition 2, row 10: feature 2 is missing"):
        fit(RankRLS(1.0), in_chunks(bad, Y, QID))
    table = frame()
    table.loc[55, "label"] = np.inf
    table.to_parquet(tmp_path / "x.parquet", row_group_size=40)
    with pytest.raises(DataError, match=r"x\.parquet, row 55: the label"):
        fit(RankRLS(1.0), tmp_path)


def test_errors_name_a_row_without_query(tmp_path):
    table = frame()
    table.loc[95, "qid"] = None
    table[60:].reset_index(drop=True).to_parquet(tmp_path / "x.parquet", row_group_size=30)
    with pytest.raises(DataError, match=r"x\.parquet: qid is missing in row 35"):
        fit(RankRLS(1.0), tmp_path)


@pytest.mark.parametrize("column", ["feature 1", "label"])
@pytest.mark.parametrize("what", ["what", pd.NA])
def test_errors_name_a_row_with_text(tmp_path, column, what):
    table = frame()
    table[column] = table[column].astype(object)
    table.loc[120, column] = what
    message = "(feature|label).* (must be a number: got|is missing)"
    with pytest.raises(DataError, match=f"Partition 1, row 20: .*{message}"):
        fit(RankRLS(1.0), dd.from_pandas(table, npartitions=2))
    table[column] = table[column].astype(str)
    table.to_parquet(tmp_path / "x.parquet", row_group_size=50)
    with pytest.raises(DataError, match=rf"x\.parquet, row 120: .*{message}"):
        fit(RankRLS(1.0), tmp_path)


def test_a_whole_number_beyond_float64_names_its_row():
    huge = da.from_array(np.array([[1], [10**400]], dtype=object), chunks=2)
    with pytest.raises(DataError, match="row 1: a feature must be a number: got 1000"):
        fit(RankRLS(), (huge, da.from_array(np.array([0.0, 1.0]))))


@pytest.mark.parametrize("dtype", [complex, "datetime64[ns]"])
def test_values_that_are_not_numbers_raise_an_error(dtype):
    with pytest.raises(DataError, match="a feature must be a number: got dtype"):
        fit(RankRLS(1.0), in_chunks(X.astype(dtype), Y, QID))
    with pytest.raises(DataError, match="the label must be a number: got dtype"):
        fit(RankRLS(1.0), in_chunks(X, Y.astype(dtype), QID))


def test_errors_name_the_line(tmp_path, monkeypatch):
    monkeypatch.setattr("rankwise.distributed._partitions.SPAN_BYTES", 1000)
    path = tmp_path / "a.txt"
    write_letor(path, X, Y, qid=QID)
    lines = path.read_text().splitlines()
    lines[150] = "1 qid:3 1:0.5 2:what"
    path.write_text("\n".join(lines))
    with pytest.raises(LetorFormatError, match="line 151"):
        fit(RankRLS(1.0), path)


@pytest.mark.parametrize("rows", [57, 60])  # within a file, and in another one
def test_mixed_rows_with_and_without_query_ids_raise_an_error(tmp_path, monkeypatch, rows):
    monkeypatch.setattr("rankwise.distributed._partitions.SPAN_BYTES", 15 * 19)
    # 19 lines of 15 characters form a partition.
    lines = [f"{k % 3} qid:7 1:{k:03d} " for k in range(60)]
    lines[rows:] = [line.replace("qid:7", "     ") for line in lines[rows:]]
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "b.txt").write_text("1 1:5\n0 1:6\n")
    message = rf"[ab]\.txt from line {rows % 60 + 1} on have none"
    with pytest.raises(LetorFormatError, match=message):
        fit(RankRLS(1.0), [tmp_path / "a.txt", tmp_path / "b.txt"])


def test_a_file_name_that_looks_like_a_pattern(tmp_path):
    write_letor(tmp_path / "a[1].txt", X, Y, qid=QID)
    assert_allclose(
        fit(RankRLS(1.0), tmp_path / "a[1].txt").coef_,
        fit(RankRLS(1.0), in_chunks(X, Y, QID)).coef_,
    )


def test_invalid_files(tmp_path):
    with pytest.raises(DataError, match="no files in this folder"):
        fit(RankRLS(1.0), tmp_path)
    (tmp_path / "x.parquet").write_bytes(b"not Parquet")
    with pytest.raises(DataError, match=r"x\.parquet: this is not a Parquet file"):
        fit(RankRLS(1.0), tmp_path)
    (tmp_path / "a.txt").write_text("0 qid:1\n1 qid:1 1:2 5:1\n")
    for task in (fit, path, leave_query_out):
        with pytest.raises(LetorFormatError, match=r"line 2: feature 5 exceeds n_features=3"):
            task(RankRLS(1.0), tmp_path / "a.txt", n_features=3)
    (tmp_path / "a.txt").write_text("1 qid:1\n0 qid:1\n")
    with pytest.raises(DataError, match=r"a\.txt: the rows have no features"):
        fit(RankRLS(1.0), tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("ranker", "message"),
    [
        (RankRLS(1.0, kernel="rbf", scale=None), "use SparseRankRLS"),
        (RankRLS(1.0, solver="dual"), "linear kernel"),
        (RankRLS(1.0, ties="some"), "ties"),
        (RankRLS(alpha=-1.0), "alpha"),
        (SparseRankRLS(1.0, n_landmarks=500, scale=None), "more than the 200 rows"),
        (SparseRankRLS(1.0, landmarks=[500], scale=None), "not a row of X"),
    ],
)
def test_invalid_rankers(ranker, message):
    with pytest.raises(ParameterError, match=message):
        fit(ranker, in_chunks(X, Y, QID))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (X, "data must be a tuple"),
        ((X, Y), "Dask arrays"),
        ("nowhere/*.txt", "no such file"),
        (in_chunks(X, Y[:150]), "same number of rows: got 150, but X has 200"),
        ((in_chunks(X)[0], None), "Dask arrays"),
        (in_chunks(X, Y[:, None, None]), "y must have shape"),
        (in_chunks(X, X[:, :0]), "y must have shape"),
        (in_chunks(X[:, :0], Y), "no features"),
        ((da.ma.masked_greater(in_chunks(X)[0], 1.0), in_chunks(Y)[0]), "a feature is masked"),
        (in_chunks(X, Y, np.column_stack((QID, QID))), "Partition .: qid needs one entry"),
        ((in_chunks(X)[0], dd.from_pandas(frame(), npartitions=5)["label"].values), "unknown"),
        (in_chunks(X, np.ones(200), QID), "No query has two different labels"),
    ],
)
def test_invalid_data(data, message):
    with pytest.raises(DataError, match=message):
        fit(RankRLS(1.0), data)


@pytest.mark.parametrize("ranker", [RLS(), RankRLS()])
def test_constant_labels_of_one_ranking(ranker):
    with pytest.raises(DataError, match=r"No query has two .* \(1 query, 200 rows\)"):
        fit(ranker, in_chunks(X, np.ones(200)))


@pytest.mark.parametrize(
    "ranker",
    [RankRLS(1.0, ties="exclude"), SparseRankRLS(1.0, landmarks=POINTS, scale=None), RLS(1.0)],
)
def test_empty_partitions(ranker):
    sizes = (0, 70, 0, 130)
    rows = tuple(da.from_array(a, chunks=(sizes, *a.shape[1:])) for a in (X, Y, QID))
    ours = fit(clone(ranker), rows)
    assert_allclose(ours.predict(X), ranker.fit(X, Y, qid=QID).predict(X), atol=1e-9)
    assert evaluate(ours, rows).compute().n_rows == 200
    if not ranker.make_loss().has_intercept:
        assert 0 < leave_query_out(ranker, rows).score[0] < 1
    with pytest.raises(DataError, match="all partitions are empty"):
        fit(clone(ranker), in_chunks(X[:0], Y[:0], QID[:0]))


def test_invalid_columns():
    rows = dd.from_pandas(frame(), npartitions=2)
    with pytest.raises(DataError, match="no column 'grade'"):
        fit(RankRLS(1.0), rows, label="grade")
    with pytest.raises(DataError, match="both 'qid'"):
        fit(RankRLS(1.0), rows, label="qid")
    twice = pd.concat([frame(), frame()[["feature 1"]]], axis=1)
    with pytest.raises(DataError, match="several columns named 'feature 1'"):
        fit(RankRLS(1.0), dd.from_pandas(twice, npartitions=2))


def test_columns_whose_names_are_not_strings():
    table = frame().rename(columns={f"feature {k}": k for k in range(4)})
    ranker = fit(RankRLS(1.0), dd.from_pandas(table, npartitions=2))
    assert not hasattr(ranker, "feature_names_in_")
    assert_allclose(ranker.predict(table[[0, 1, 2, 3]]), ranker.predict(X))


@pytest.mark.parametrize(
    ("ranker", "message"),
    [
        (RankRLS(1.0, device="auto"), "device='auto'"),
        (SparseRankRLS(1.0, precision="tf32", scale=None), "precision='tf32'"),
    ],
)
def test_workers_use_numpy(ranker, message):
    X, y = da.ones((10, 2)), da.arange(10)
    with pytest.raises(ParameterError, match=message):
        fit(ranker, (X, y))


@pytest.mark.parametrize(
    "ranker", [KPCRank(scale=None), RankSVM(), Ridge(), make_pipeline(RankRLS(1.0)), None]
)
@pytest.mark.parametrize("task", [fit, leave_query_out, lambda *given: path(*given, [1.0])])
def test_other_estimators_raise_an_error(ranker, task):
    with pytest.raises(ParameterError, match="must be summed over rows"):
        task(ranker, in_chunks(X, Y, QID))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"client": "tcp://10.0.0.1:8786"}, r"Client\('tcp://10.0.0.1:8786'\): got str"),
        ({"progress": print}, "progress needs a client"),
        ({"n_features": 4}, "for LETOR files"),
        ({"n_features": 2.5}, "an integer"),
    ],
)
@pytest.mark.parametrize("task", [fit, path, leave_query_out])
def test_invalid_arguments(task, given, message):
    with pytest.raises(ParameterError, match=message):
        task(RankRLS(1.0), in_chunks(X, Y, QID), **given)


def test_features_whose_products_underflow():
    rows = in_chunks(1e-200 * X, Y, QID)
    with pytest.raises(DataError, match="Products of features underflow"):
        fit(RankRLS(1.0), rows)
    scaled = fit(RankRLS(1.0, scale="query-minmax"), rows)
    want = RankRLS(1.0, scale="query-minmax").fit(X, Y, qid=QID)
    assert_allclose(scaled.coef_, want.coef_, atol=1e-10)


def test_errors_name_a_landmark_with_a_missing_value():
    bad = X.copy()
    bad[150, 1] = np.nan
    with pytest.raises(DataError, match="Partition 3, row 15: feature 1"):
        fit(SparseRankRLS(1.0, landmarks=[3, 150], scale=None), in_chunks(bad, Y, QID))


@pytest.mark.parametrize("qid", [None, np.full(200, 7)])
def test_one_ranking_without_ties(qid):
    given = (X, Y) if qid is None else (X, Y, qid)
    ours = fit(RankRLS(1.0, ties="exclude"), in_chunks(*given))
    assert_allclose(ours.coef_, RankRLS(1.0, ties="exclude").fit(X, Y).coef_, atol=1e-10)


ROWS = np.array([150, 3, 77, 20])
SCALED = {
    "ranks": RankRLS(1.0, scale="query-ranks"),
    "regression": RLS(1.0, scale="query-minmax"),
    "standardized": RankRLS(1.0, scale="standard"),
    "standardized regression": RLS(1.0, scale="standard"),
    "landmarks": SparseRankRLS(1.0, landmarks=ROWS),
    "landmarks, standardized": SparseRankRLS(1.0, landmarks=ROWS, scale="standard", gamma="scale"),
    "landmarks, gamma": SparseRLS(1.0, landmarks=ROWS, gamma="scale"),
}


@pytest.mark.parametrize("name", SCALED)
def test_scaled_rows_of_queries_in_several_partitions(name):
    units = X * [1.0, 10.0, 0.1, 1.0]
    rows = in_chunks(units, Y, QID)
    want = clone(SCALED[name]).fit(units, Y, qid=QID)
    ours = fit(clone(SCALED[name]), rows)
    assert (ours.scale_, ours.max_query_rows_) == (want.scale_, want.max_query_rows_)
    scores = want.predict(units, qid=QID)
    assert_allclose(ours.predict(units, qid=QID), scores, atol=1e-9)
    assert_allclose(predict(ours, rows).compute(), scores, atol=1e-9)
    found, expected = evaluate(ours, rows).compute(), evaluate_ranking(Y, scores, QID)
    assert found["NDCG"] == pytest.approx(expected["NDCG"])


@pytest.mark.parametrize("name", ["ranks", "landmarks"])
def test_leave_query_out_of_scaled_rows(name):
    ours = leave_query_out(SCALED[name], in_chunks(X, Y, QID), alphas=[0.1, 1.0])
    want = leave_query_out_here(SCALED[name], X, Y, qid=QID, alphas=[0.1, 1.0])
    assert_allclose(ours.score, want.score, atol=1e-9)


def test_landmarks_among_scaled_rows():
    ranker = SparseRankRLS(1.0, n_landmarks=20, random_state=0)
    ours = fit(clone(ranker), in_chunks(X, Y, QID))
    assert not hasattr(ours, "landmark_indices_")  # rows were moved
    assert ours.landmarks_.min() >= 0
    assert ours.landmarks_.max() <= 1
    in_order = np.arange(200) // 10
    ours = fit(clone(ranker), in_chunks(X, Y, in_order, size=50))
    Z = QueryMinMaxScaler().fit_transform(X, qid=in_order)
    assert_allclose(ours.landmarks_, Z[ours.landmark_indices_])


def test_predictions_that_need_queries():
    ranker = RankRLS(1.0, scale="query-minmax").fit(X, Y, qid=QID)
    with pytest.raises(DataError, match="scales features within queries: the rows need query ids"):
        predict(ranker, in_chunks(X, Y))


@pytest.mark.parametrize(
    "ranker",
    [
        SparseRankRLS(landmarks=POINTS, scale=None),
        SparseRLS(landmarks=POINTS, scale=None),
        RankRLS(),
        RLS(),
    ],
)
def test_alpha_is_chosen_from_the_sums_of_folds(ranker):
    fitted = fit(clone(ranker), in_chunks(X, Y, QID))
    assert fitted.alpha_curve_.metric == "squared_error"
    if isinstance(ranker, SparseRankRLS | SparseRLS):
        order = np.argsort(QID, kind="stable")
        here = clone(ranker).fit_blocks([(X[order], Y[order], QID[order])])
        assert_allclose(fitted.alpha_curve_.score, here.alpha_curve_.score)
        assert fitted.alpha_ == pytest.approx(here.alpha_)
    one = fit(clone(ranker), in_chunks(X, Y))
    assert one.alpha_curve_.metric == "squared_error"
    found = path(clone(ranker), in_chunks(X, Y, QID))
    assert_allclose(found.alphas, fitted.alpha_curve_.alphas)


@pytest.mark.parametrize(("shuffled", "n_new"), [(False, 2), (True, 5)])
def test_rows_of_split_queries_form_partitions_as_large_as_the_others(shuffled, n_new):
    order = np.random.default_rng(0).permutation(100) if shuffled else np.arange(100)
    rows = in_chunks(np.ones((100, 2)), np.arange(100.0), order // 7, size=20)
    parts, overview = surveyed(open_partitions(rows, None, None, None, compute_all), compute_all)
    whole = with_whole_queries(parts, overview)
    assert len(whole) == 5 + n_new
    queries = compute_all(whole.map(lambda part: set(part.qid.tolist())))
    assert sum(map(len, queries)) == len(set().union(*queries)) == overview.n_queries
    assert overview.max_query_rows == 7


def compute_all(tasks):
    return list(compute(*tasks))
