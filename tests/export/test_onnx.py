"""Rankers as ONNX graphs, evaluated by onnxruntime."""

import json
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

from rankwise import (
    AdditiveRankRLS,
    BoostedRanker,
    KPCRank,
    MeanRanker,
    OnColumns,
    PairwiseGP,
    QueryStandardScaler,
    RankRLS,
    RankSVM,
    SparseRankRLS,
    TableEncoder,
)
from rankwise.errors import DataError, ExportError, MissingExtraError, RankwiseWarning
from rankwise.export import distil, onnx_export, to_elasticsearch_trained_model, to_onnx, to_solr
from rankwise.export._graph import KINDS, Graph
from rankwise.export._stages import emit_all, transformer_stages
from rankwise.export.onnx_export import _file
from rankwise.preprocessing import DateFeatures

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
X = np.random.default_rng(0).normal(size=(48, 3)) + 1e4  # far from 0, as dates are
Y = np.round(X @ [1.0, -2.0, 0.5] + np.sin(3 * X[:, 0])) + 5000
QID = np.arange(48) // 8
NEW = (np.random.default_rng(1).normal(size=(64, 3)) + 1e4).astype(np.float32)


def run(export, rows):
    session = runtime.InferenceSession(export.content)
    kind = {"tensor(float)": np.float32, "tensor(double)": np.float64}[session.get_inputs()[0].type]
    return session.run(None, {"X": rows.astype(kind)})


RANKERS = {
    "linear": RankRLS(1.0, scale=None),
    "standard": RankRLS(1.0, scale="standard"),
    "svm": make_pipeline(StandardScaler(), RankSVM()),
    "rbf": RankRLS(1.0, kernel="rbf", scale=None),
    "standard rbf": RankRLS(1.0, kernel="rbf", scale="standard"),
    "laplacian": RankRLS(1.0, kernel="laplacian", scale=None),
    "polynomial": make_pipeline(StandardScaler(), RankRLS(1.0, kernel="polynomial", scale=None)),
    "sigmoid": make_pipeline(
        StandardScaler(), RankRLS(100.0, kernel="sigmoid", gamma=0.1, scale=None)
    ),
    "cosine": make_pipeline(StandardScaler(), RankRLS(1.0, kernel="cosine")),
    "landmarks": SparseRankRLS(1.0, n_landmarks=20, scale=None, random_state=0),
    "components": KPCRank(5, scale="standard"),
    "additive": AdditiveRankRLS(1.0),
    "clipped": make_pipeline(MinMaxScaler(clip=True), RankRLS(1.0)),
    "kernel of scikit-learn": RankRLS(1.0, kernel=Matern(2.0, nu=1.5)),
    "one feature": make_pipeline(StandardScaler(), RankRLS(1.0, kernel="rbf", scale=None)),
}


@pytest.mark.parametrize("name", RANKERS)
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-6), ("float64", 1e-12)])
def test_rankers(name, precision, tolerance):
    columns = slice(0, 1) if name == "one feature" else slice(None)
    model = RANKERS[name].fit(X[:, columns], Y)
    rows = NEW[:, columns].astype(np.float64)
    export = to_onnx(model, precision=precision, rows=rows)
    (scores,) = run(export, rows)
    assert scores.dtype == precision
    expected = model.predict(rows)
    assert scores.shape == expected.shape
    assert np.abs(scores - expected).max() <= tolerance * np.abs(expected).max()
    assert export.check.passed
    assert export.check.n_pairs > 2000


@pytest.mark.parametrize("scale", ["query-minmax", "query-standard", "query-ranks"])
def test_rows_of_a_query_are_scored_together(scale):
    rows = np.column_stack((X, np.full(len(X), 3.0), np.repeat(np.arange(24), 2)))
    model = RankRLS(1.0, scale=scale).fit(rows, Y, qid=QID)
    export = to_onnx(model, precision="float64", rows=rows, qid=QID)
    for query in range(6):
        found = run(export, rows[query == QID])[0]
        want = model.predict(rows[query == QID], qid=QID[query == QID])
        assert_allclose(found, want, rtol=1e-10, atol=1e-12)
    loaded = onnx.load_from_string(export.content)
    assert {"rows": "all rows of one query"}.items() <= {
        prop.key: prop.value for prop in loaded.metadata_props
    }.items()


def test_a_query_scaler_in_a_pipeline():
    from sklearn import config_context

    with config_context(enable_metadata_routing=True):
        model = make_pipeline(QueryStandardScaler(), RankSVM()).fit(X, Y, qid=QID)
    assert to_onnx(model, rows=X, qid=QID).check.passed


@pytest.mark.parametrize("qid", [None, QID])
def test_means_of_rankers(qid):
    model = MeanRanker([RankRLS(1.0, kernel="rbf"), RankSVM()], weights=[2, 1]).fit(X, Y, qid=qid)
    found = run(to_onnx(model, precision="float64"), X[:8])[0]
    assert_allclose(found, model.predict(X[:8], qid=[0] * 8), rtol=1e-8, atol=1e-10)


def test_several_outputs():
    model = RankRLS(1.0, kernel="rbf").fit(X, np.column_stack((Y, -Y)))
    assert_allclose(run(to_onnx(model), NEW)[0], model.predict(NEW.astype(float)), rtol=1e-4)


def test_missing_values_are_filled_in():
    model = make_pipeline(SimpleImputer(), RankRLS(1.0, scale="standard")).fit(X, Y)
    rows = NEW.astype(np.float64)
    rows[::3, 1] = np.nan
    assert_allclose(run(to_onnx(model), rows)[0], model.predict(rows), rtol=1e-5)


KERNELS = {
    "default": None,
    "rbf by feature": 2.0 * RBF([1.0, 2.0, 3.0]),
    "matern 1/2": Matern(nu=0.5),
    "matern 3/2": Matern(nu=1.5),
    "matern 5/2": Matern([1.0, 2.0, 3.0], nu=2.5),
    "matern inf": Matern(nu=np.inf),
    "rational": RationalQuadratic(2.0, 0.7),
    "periodic": ExpSineSquared(1.0, 2.5),
    "linear": DotProduct(0.5),
    "sum and power": ConstantKernel(0.5) + Exponentiation(RBF(2.0), 2.0),
    "own parts": RBF(1.0) + WhiteKernel(0.3),
    "on columns": OnColumns(WhiteKernel(0.5), [0]) + OnColumns(DotProduct(0.0, "fixed"), [1, 2]),
}


@pytest.mark.parametrize("name", KERNELS)
def test_gaussian_processes(name):
    rows = np.round(X[:20] - 1e4, 1)
    gp = PairwiseGP(KERNELS[name], optimizer=None).fit(rows, Y[:20])
    export = to_onnx(gp, precision="float64")
    new = np.vstack((rows[:5], np.round(NEW[:20].astype(np.float64) - 1e4, 1)))
    mean, std = run(export, new)
    expected_mean, expected_std = gp.predict(new, return_std=True)
    assert_allclose(mean, expected_mean, rtol=1e-8, atol=1e-8)
    assert_allclose(std, expected_std, rtol=1e-6, atol=1e-6)
    assert export.check.std_difference < 1e-6


@pytest.mark.slow
@pytest.mark.ci
def test_other_gaussian_processes():
    """On landmarks, from few comparisons, with context, and as a mixture."""
    rows = X[:12] - 1e4
    pairs = [[1, 0], [3, 2], [4, 5], [0, 6]]
    context = np.array([[0.0], [1.0], [2.0], [-1.0]])
    for gp in (
        PairwiseGP(optimizer=None, n_landmarks=8, random_state=0).fit(rows, Y[:12]),
        PairwiseGP(optimizer=None).fit_pairs(rows, pairs),
        PairwiseGP(optimizer=None).fit_pairs(rows, pairs, context=context),
        PairwiseGP(RBF(1.0), marginalize="grid", optimizer=None).fit_pairs(rows, pairs),
    ):
        mean, std = run(to_onnx(gp, precision="float64"), NEW[:10] - 1e4)
        expected = gp.predict(NEW[:10].astype(np.float64) - 1e4, return_std=True)
        assert_allclose(mean, expected[0], rtol=1e-8, atol=1e-8)
        assert_allclose(std, expected[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (RankRLS(1.0, kernel=lambda a, b: float(a @ b)), "a Python function of two rows"),
        (RankRLS(1.0, kernel="precomputed"), 'kernel="precomputed" takes kernel values'),
        (RankRLS(1.0, kernel=Matern(nu=0.7)), "needs a Bessel function"),
        (RankRLS(1.0, kernel=PairwiseKernel()), "no ONNX operators for the kernel"),
    ],
)
def test_what_has_no_operators_is_refused(model, reason):
    rows = X[:20, :3] - 1e4
    if model.kernel == "precomputed":
        rows = rows @ rows.T
    with pytest.raises(ExportError, match=reason):
        to_onnx(model.fit(rows, Y[:20]))


@pytest.mark.parametrize("holes", [False, True])
def test_boosted_trees(holes):
    pytest.importorskip("lightgbm")
    rows = np.where(np.arange(3 * 48).reshape(48, 3) % 7 == 3, np.nan, X) if holes else X
    model = BoostedRanker(n_estimators=5, min_samples_leaf=3, random_state=0)
    model.fit(rows, Y - Y.min(), qid=QID)
    new = np.vstack((NEW, np.full((1, 3), np.nan)))
    (found,) = run(to_onnx(model, precision="float64"), new)
    assert_allclose(found, model.predict(new.astype(np.float64)), rtol=1e-12)
    mean = MeanRanker([RankSVM(), model]).fit(X, Y - Y.min())
    assert to_onnx(mean).check.passed


def test_trees_without_a_split():
    pytest.importorskip("lightgbm")
    with pytest.warns(RankwiseWarning, match="No tree has a split"):
        model = BoostedRanker(n_estimators=2, min_samples_leaf=40).fit(X, Y - Y.min(), qid=QID)
    (found,) = run(to_onnx(model), NEW)
    assert_allclose(found, model.predict(NEW), rtol=1e-6)


def test_what_is_no_fitted_ranker_is_refused():
    with pytest.raises(ExportError, match="Only a fitted ranker"):
        to_onnx(RankRLS)
    with pytest.raises(ValueError, match="not fitted"):
        to_onnx(RankRLS())
    model = make_pipeline(StandardScaler(), StandardScaler(), RankRLS(1.0)).fit(X, Y)
    model.steps.insert(1, ("odd", MissingExtraError("a", "b")))
    with pytest.raises(ExportError, match="MissingExtraError cannot be exported"):
        to_onnx(model)


def test_float32_arithmetic_that_is_too_coarse_is_replaced(monkeypatch):
    model = RankRLS(1.0, kernel="rbf", scale=None).fit(X, Y)
    assert to_onnx(model, rows=NEW).check.notes == ()
    monkeypatch.setattr(onnx_export, "WANTED", 1e-12)
    export = to_onnx(model, rows=NEW, precision="float32")
    assert export.check.notes == ("The graph computes in float64.",)
    assert export.check.relative_difference < 1e-7


def test_an_export_that_fails_its_check_is_not_written(monkeypatch, tmp_path):
    model = RankRLS(1.0, kernel="rbf").fit(X, Y)
    monkeypatch.setattr(onnx_export, "emit_all", lambda stages, x: x.apply("Neg"))
    with pytest.raises(ExportError, match=r"does not score as the model does.*precision"):
        to_onnx(model, precision="float32").write(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rankwise\[onnx\]'"):
        to_onnx(RankRLS(1.0).fit(X, Y))


def test_files(tmp_path):
    path = to_onnx(RankRLS(1.0).fit(X, Y), features=["a", "b", "c"]).write(tmp_path / "m.onnx")
    check = json.loads((tmp_path / "m.onnx.check.json").read_text())
    assert check["passed"] is True
    assert check["n_pairs"] > 100_000
    assert "drawn from the range of the training rows" in check["rows"]
    model = onnx.load(path)
    assert {p.key: p.value for p in model.metadata_props}["features"] == '["a", "b", "c"]'


N = 60
SHOP = pd.DataFrame(
    {
        "brand": np.array(["kilo", "größe", "b c", "d"])[np.arange(N) % 4],
        "price": np.arange(N) * 7 % 11 / 3,
        "open": np.array(["yes", "no"])[np.arange(N) * 3 % 5 % 2],
        "floor": np.arange(N) * 5 % 3,
    }
)
GRADES = np.arange(N) * 13 % 4
ENCODERS = {
    "one-hot": OneHotEncoder(handle_unknown="ignore"),
    "only known": OneHotEncoder(),
    "without the first": OneHotEncoder(drop="first"),
    "binary": OneHotEncoder(drop="if_binary", handle_unknown="ignore"),
    "seldom": OneHotEncoder(max_categories=3, handle_unknown="infrequent_if_exist"),
    "numbers": OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_of_categories(name):
    encoder = make_column_transformer(
        (ENCODERS[name], ["brand", "open", "floor"]), remainder="passthrough"
    )
    model = make_pipeline(encoder, RankRLS(1.0)).fit(SHOP, GRADES)
    export = to_onnx(model, precision="float64")
    assert export.check.passed
    rows = SHOP if name in ("only known", "without the first") else SHOP.assign(brand="new")
    session = runtime.InferenceSession(export.content)
    meta = session.get_modelmeta().custom_metadata_map
    assert (json.loads(meta["features"]), json.loads(meta["text"])) == (
        ["price", "floor"],
        ["brand", "open"],
    )
    inputs = {
        "X": rows[["price", "floor"]].to_numpy(np.float64),
        "text": rows[["brand", "open"]].to_numpy(object),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of categories that are not known
        assert_allclose(session.run(None, inputs)[0], model.predict(rows), rtol=1e-12)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_calendars_of_graphs_agree_with_the_calendar_of_python(precision):
    days = np.arange(np.datetime64("1599-12-28"), np.datetime64("2405-01-05"))
    frame = pd.DataFrame({"day": days.astype("datetime64[us]")})
    encoder = DateFeatures().fit(frame)
    graph, kind = Graph(np.dtype(precision)), KINDS[precision]
    made = emit_all(transformer_stages(encoder, 1), graph.input("X"))
    inputs = [("X", kind, ["rows", 1])]
    content = _file(graph, inputs, {"score": made}, ["rows", 3], kind, {})
    numbers = days.astype(np.int64)[:, None].astype(precision)
    (found,) = runtime.InferenceSession(content).run(None, {"X": numbers})
    assert_array_equal(found, encoder.transform(frame))


def test_dates_with_times_that_are_missing_and_what_needs_weights():
    dates = pd.to_datetime(
        ["2024-02-29 12:00:00", None, "2024-03-31 23:59:59", "2023-12-31 00:00:00"] * 5
    )
    frame = pd.DataFrame({"price": np.arange(20.0), "day": dates, "city": list("abcd") * 5})
    model = make_pipeline(TableEncoder(), RankRLS(1.0)).fit(frame, np.arange(20) % 7)
    export = to_onnx(model, rows=frame)
    assert export.check.passed
    assert export.check.n_lost == 0
    assert "dates are days since 1970-01-01, with times as fractions: day." in str(export.check)
    meta = runtime.InferenceSession(export.content).get_modelmeta().custom_metadata_map
    assert [json.loads(meta[key]) for key in ("features", "dates", "text")] == [
        ["price", "day"],
        ["day"],
        ["city"],
    ]
    assert to_onnx(model).check.passed  # on rows that are drawn
    dated = make_pipeline(TableEncoder(), RankRLS(1.0)).fit(frame[["day"]], np.arange(20) % 7)
    with pytest.raises(ExportError, match="makes features of text or dates: day"):
        to_solr(dated)


def test_the_last_minutes_of_a_day_are_in_that_day():
    dates = pd.Series(
        np.array(["2024-05-04T23:59:30", "2024-05-05", "2024-05-01", "2024-05-09"] * 5, "M8[us]")
    )
    frame = pd.DataFrame({"day": dates})
    model = make_pipeline(TableEncoder(), RankRLS(1.0)).fit(frame, np.arange(20) % 4)
    for export in (to_onnx(model), to_onnx(model, rows=frame)):
        session = runtime.InferenceSession(export.content)
        assert session.get_inputs()[0].type == "tensor(double)"
        assert "In float32, times in the last minutes" in str(export.check)
        days = (dates.to_numpy() - np.datetime64(0, "D")) / np.timedelta64(1, "D")
        (found,) = session.run(["score"], {"X": days[:, None]})
        assert_allclose(found, model.predict(frame), atol=1e-8)
    rough = to_onnx(model, precision="float32")  # on whole days
    assert 'Give whole days, or use precision="float64"' in str(rough.check)


def test_text_only_and_rows_of_text():
    words = SHOP[["open", "brand"]]
    model = make_pipeline(OneHotEncoder(), RankRLS(1.0)).fit(words, GRADES)
    export = to_onnx(model, rows=words)
    assert export.check.passed
    (only,) = runtime.InferenceSession(export.content).get_inputs()
    assert (only.name, only.shape) == ("text", ["rows", 2])
    with pytest.raises(DataError, match="'brand' of the rows has 'new', which the model has not"):
        to_onnx(model, rows=words.assign(brand="new"))
    with pytest.raises(DataError, match="are distilled from numbers"):
        distil(model, words)
    with pytest.raises(ExportError, match="a column of categories becomes several features"):
        to_solr(model)
    model = make_pipeline(TableEncoder(), RankRLS(1.0)).fit(SHOP, GRADES)
    for to_engine in (to_solr, to_elasticsearch_trained_model):
        with pytest.raises(ExportError, match="makes features of text or dates: brand, open") as e:
            to_engine(model)
        assert "distil" not in str(e.value)  # which takes numbers, too
    missing = words.assign(brand=words["brand"].where(words["brand"] != "d", None))
    model = make_pipeline(OneHotEncoder(), RankRLS(1.0)).fit(missing, GRADES)
    with pytest.raises(ExportError, match="fill in missing values first"):
        to_onnx(model)
