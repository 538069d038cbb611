"""Parameters of transformers: each is followed by an export, or refused."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import MinMaxScaler, OrdinalEncoder, StandardScaler

from rankwise import BoostedRanker, MeanRanker, RankingSearchCV, RankRLS
from rankwise.errors import ExportError
from rankwise.export import (
    linear_model,
    to_elasticsearch,
    to_json,
    to_onnx,
    to_solr,
    to_vespa,
)

onnxruntime = pytest.importorskip("onnxruntime")
rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3))
Y = (X @ [1.0, 2.0, -1.0] > 0).astype(float)
COARSE = np.where(rng.random(X.shape) < 0.1, -1.0, X)  # -1 is a missing value
HOLES = np.where(COARSE == -1.0, np.nan, X)


def onnx_scores(export, rows):
    session = onnxruntime.InferenceSession(export.content)
    kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64}
    kind = kinds[session.get_inputs()[0].type]
    return session.run(["score"], {"X": rows.astype(kind)})[0]


@pytest.mark.parametrize("export", [to_json, to_vespa, to_solr, to_elasticsearch])
@pytest.mark.parametrize("scaler_first", [False, True])
@pytest.mark.parametrize("is_mean", [False, True])
def test_no_weight_replaces_a_number(export, scaler_first, is_mean):
    imputer = SimpleImputer(missing_values=-1, strategy="constant", fill_value=0.0)
    steps = (StandardScaler(), imputer) if scaler_first else (imputer, StandardScaler())
    model = make_pipeline(*steps, RankRLS(1.0)).fit(COARSE, Y)
    if is_mean:
        model = MeanRanker([model, RankRLS(1.0)]).fit(COARSE, Y)
    complete = {} if export in (to_json, to_vespa) else {"complete": True}
    with pytest.raises(ExportError, match=r"replaces the number -1 .* or export it to ONNX"):
        export(model, **complete)


@pytest.mark.parametrize("ranker", [RankRLS(1.0), BoostedRanker(3, min_samples_leaf=5)])
def test_graphs_replace_a_number(ranker):
    model = make_pipeline(SimpleImputer(missing_values=-1), ranker).fit(COARSE, Y)
    assert_allclose(onnx_scores(to_onnx(model), COARSE), model.predict(COARSE), atol=1e-5)


def test_missing_values_that_are_not_numbers_are_refused():
    nothing = make_pipeline(
        SimpleImputer(missing_values=None, strategy="most_frequent"), RankRLS(1.0)
    ).fit(X.astype(object), Y)
    hollow = SimpleImputer(missing_values=-1, strategy="constant", fill_value=np.nan)
    unfilled = make_pipeline(
        hollow.set_params(keep_empty_features=True), BoostedRanker(3, min_samples_leaf=5)
    ).fit(COARSE, Y)
    for model, reason in ((nothing, "None or NA"), (unfilled, "fill_value=nan")):
        for export in (to_onnx, to_json):
            with pytest.raises(ExportError, match=reason):
                export(model)


def test_categories_that_become_missing_are_refused():
    codes = np.arange(240).reshape(120, 2) % 5 % 4
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    model = make_pipeline(encoder, SimpleImputer(), RankRLS(1.0)).fit(codes, Y)
    with pytest.raises(ExportError, match="unknown_value=nan"):
        to_onnx(model)


@pytest.mark.parametrize("export", [to_onnx, to_json])
def test_missing_values_that_only_one_branch_fills_in(export):
    model = make_pipeline(make_union(SimpleImputer(), "passthrough"), RankRLS(1.0)).fit(X, Y)
    assert export(model).check.passed


def test_missing_values_within_bounds_and_in_parts_of_a_mean():
    bounded = make_pipeline(MinMaxScaler(clip=True), SimpleImputer(), RankRLS(1.0))
    model = MeanRanker([bounded, make_pipeline(SimpleImputer(), RankRLS(0.1))]).fit(HOLES, Y)
    rows = 2.0 * HOLES
    assert_allclose(onnx_scores(to_onnx(model), rows), model.predict(rows), atol=1e-5)


@pytest.mark.parametrize("first", [SelectKBest(k=2), SimpleImputer(missing_values=-1)])
def test_missing_values_that_the_first_step_refuses(first):
    model = make_pipeline(first, SimpleImputer(), RankRLS(1.0)).fit(COARSE, Y)
    assert to_onnx(model).check.passed


@pytest.mark.parametrize("nothing", ["passthrough", None])
def test_pipelines_that_begin_with_nothing(nothing):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    inner = Pipeline([("scale", nothing), ("shift", StandardScaler())])
    plain = Pipeline([("scale", nothing), ("rank", RankRLS(1.0))])
    search = RankingSearchCV(plain, {"rank__alpha": [0.1, 1.0]}, cv=2)
    for model in (plain, make_pipeline(inner, RankRLS(1.0)), search):
        model.fit(frame, Y)
        folded = linear_model(model)
        assert folded.names == ("a", "b", "c")
        assert_allclose(folded.scores(X), model.predict(frame), atol=1e-9)
        assert to_onnx(model).check.passed


def test_whitened_components():
    model = make_pipeline(PCA(2, whiten=True), RankRLS(1.0)).fit(X, Y)
    assert_allclose(onnx_scores(to_onnx(model), X), model.predict(X), atol=1e-5)
    assert to_solr(model).check.passed
