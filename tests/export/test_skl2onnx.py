"""Rankers as steps of skl2onnx, which need not be registered."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from rankwise import (
    BoostedRanker,
    MeanRanker,
    PairwiseGP,
    QueryMinMaxScaler,
    RankingSearchCV,
    RankRLS,
    RankSVM,
)
from rankwise.errors import ExportError

skl2onnx = pytest.importorskip("skl2onnx")
runtime = pytest.importorskip("onnxruntime")
X = np.random.default_rng(0).normal(size=(30, 3))
Y = np.round(X @ [1.0, 2.0, -1.0])
MODELS = {
    "pipeline": make_pipeline(StandardScaler(), RankRLS(1.0)),
    "kernel": RankRLS(1.0, kernel="rbf"),
    "query scaler": make_pipeline(QueryMinMaxScaler(), RankSVM()),
    "search": RankingSearchCV(RankRLS(), {"alpha": [0.1, 1.0]}, cv=2),
    "mean": MeanRanker([RankRLS(1.0, kernel="laplacian"), RankSVM()]),
}


def scores(model, inputs, example):
    made = skl2onnx.to_onnx(model, example)
    return runtime.InferenceSession(made.SerializeToString()).run(None, inputs)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_models(name, dtype):
    model, rows = MODELS[name].fit(X, Y), X.astype(dtype)
    (found,) = scores(model, {"X": rows}, rows[:1])
    assert found.shape == (30, 1)
    assert found.dtype == dtype
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    assert_allclose(found[:, 0], model.predict(rows), rtol=tolerance, atol=tolerance)


def test_a_gaussian_process_has_two_outputs():
    gp = PairwiseGP(optimizer=None).fit(X, Y)
    found = scores(gp, {"X": X}, X[:1])
    for values, expected in zip(found, gp.predict(X, return_std=True), strict=True):
        assert_allclose(values[:, 0], expected, rtol=1e-8, atol=1e-8)


def test_whole_numbers_and_several_outputs():
    rows = np.round(3 * X).astype(np.int64)
    model = RankRLS(1.0).fit(rows, np.column_stack((Y, -Y)))
    (found,) = scores(model, {"X": rows}, rows[:1])
    assert_allclose(found, model.predict(rows), rtol=1e-5, atol=1e-6)


def test_large_whole_numbers_are_told_apart():
    rows = 1_700_000_000 + np.arange(30)[:, None]
    model = RankRLS(1.0).fit(rows, np.arange(30))
    (found,) = scores(model, {"X": rows}, rows[:1])
    assert_allclose(found[:, 0], model.predict(rows), rtol=1e-12)


def test_words_that_skl2onnx_encodes():
    frame = pd.DataFrame({"size": X[:, 0], "colour": np.where(X[:, 1] > 0, "red", "blue")})
    columns = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["colour"]), (StandardScaler(), ["size"])
    )
    model = make_pipeline(columns, RankRLS(1.0)).fit(frame, Y)
    inputs = {name: frame[[name]].to_numpy() for name in frame}
    (found,) = scores(model, inputs, frame[:1])
    assert_allclose(found[:, 0], model.predict(frame), rtol=1e-5, atol=1e-6)


def test_old_operators_are_refused():
    model = RankRLS(1.0).fit(X, Y)
    with pytest.raises(ExportError, match="target_opset=18 or a larger one"):
        skl2onnx.to_onnx(model, X[:1], target_opset=15)


def test_trees_are_refused():
    pytest.importorskip("lightgbm")
    model = BoostedRanker(n_estimators=2, random_state=0).fit(X, Y)
    with pytest.raises(ExportError, match=r"use rankwise\.export\.to_onnx"):
        skl2onnx.to_onnx(model, X[:1])
