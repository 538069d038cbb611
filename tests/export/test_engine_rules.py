"""The evaluators of search engines, on models with scores that were computed by hand."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

from rankwise import RankRLS
from rankwise.errors import ExportError
from rankwise.export import (
    elasticsearch_scores,
    json_scores,
    solr_scores,
    to_elasticsearch,
    to_json,
    to_solr,
    vespa_scores,
)

ELASTICSEARCH = {
    "type": "model/linear",
    "feature_normalizers": {
        "year": {"standard": {"mean": 1970, "standard_deviation": 30}},
        "votes": {"min_max": {"minimum": 0, "maximum": 10}},
    },
    "definition": {"title_query": 0.3, "year": 0.5, "votes": -2.0},
}


def elasticsearch(model):
    return json.dumps({"model": {"name": "m", "model": model}})


@pytest.mark.parametrize("as_text", [False, True])
def test_elasticsearch(as_text):
    model = dict(ELASTICSEARCH)
    if as_text:
        model["definition"] = json.dumps(model["definition"])
    features = {"title_query": [10.0, 0.0], "year": [2000.0, 1970.0], "votes": [5.0, 10.0]}
    assert_allclose(elasticsearch_scores(elasticsearch(model), features), [2.5, -2.0], rtol=1e-6)


def test_elasticsearch_reads_a_missing_feature_as_0_and_normalizes_it():
    found = elasticsearch_scores(elasticsearch(ELASTICSEARCH), {"title_query": [0.0, np.nan]})
    assert_allclose(found, 2 * [0.5 * (0 - 1970) / 30], rtol=1e-6)


def test_elasticsearch_computes_in_float32():
    model = {"type": "model/linear", "definition": {"a": 1.0, "b": 1.0}}
    found = elasticsearch_scores(elasticsearch(model), {"a": [2.0**24], "b": [1.0]})
    assert found.tolist() == [2.0**24]  # 2^24 + 1 is none of its numbers


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "model/ranklib"}, "model/linear"),
        ({"feature_normalizers": {"x": {"standard": {}}}}, "'x', which has no weight"),
        ({"definition": {"year": 1e39, "votes": 1}}, "overflows float32"),
        (
            {"feature_normalizers": {"year": {"log": {"base": 2}}}},
            "Normalizers are standard and min_max",
        ),
        (
            {"feature_normalizers": {"year": {"standard": {"mean": 0, "standard_deviation": 0}}}},
            "above 0",
        ),
        (
            {"feature_normalizers": {"year": {"min_max": {"minimum": 1, "maximum": 1}}}},
            "above its minimum",
        ),
    ],
)
def test_what_elasticsearch_refuses(change, message):
    with pytest.raises(ExportError, match=message):
        elasticsearch_scores(elasticsearch(ELASTICSEARCH | change), {"year": [1.0]})


SOLR = {
    "class": "org.apache.solr.ltr.model.LinearModel",
    "name": "m",
    "store": "s",
    "features": [
        {
            "name": "year",
            "norm": {
                "class": "org.apache.solr.ltr.norm.StandardNormalizer",
                "params": {"avg": "1970", "std": "30"},
            },
        },
        {"name": "title"},
    ],
    "params": {"weights": {"title": 2.0, "year": 0.5}},
}


def test_solr():
    found = solr_scores(json.dumps(SOLR), {"year": [2000.0, 1970.0], "title": [1.0, 3.0]})
    assert_allclose(found, [2.5, 6.0])


def test_what_solr_refuses():
    unweighted = SOLR | {"params": {"weights": {"year": 0.5}}}
    with pytest.raises(ExportError, match="a weight for each feature"):
        solr_scores(json.dumps(unweighted), {"year": [1.0]})
    numbers = json.loads(json.dumps(SOLR).replace('"30"', "30"))
    with pytest.raises(ExportError, match="as text"):
        solr_scores(json.dumps(numbers), {"year": [1.0]})
    with pytest.raises(ExportError, match="LinearModel"):
        solr_scores(json.dumps(SOLR | {"class": "x"}), {"year": [1.0]})


def test_vespa():
    text = "-0.5 * bm25(title) + 2 * fieldMatch(body).completeness - 0.25"
    features = {"bm25(title)": [4.0, 0.0], "fieldMatch(body).completeness": [1.0, 0.5]}
    assert vespa_scores(text, features).tolist() == [-0.25, 0.75]
    missing = "3 * if (isNan(attribute(a)), -2.5, attribute(a))"
    assert vespa_scores(missing, {"attribute(a)": [np.nan, 1.0]}).tolist() == [-7.5, 3.0]
    with pytest.raises(ExportError, match="Not a sum"):
        vespa_scores("exp(attribute(a))", {"attribute(a)": [1.0]})


def test_json():
    model = {"constant": 0.5, "features": [{"name": "a b", "weight": 2.0, "missing": -1.0}]}
    assert json_scores(json.dumps(model), {"a b": [1.0, np.nan]}).tolist() == [2.5, -1.5]


def test_rows_may_be_a_data_frame_and_bodies_may_be_read_already():
    X = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [3.0, 5.0, 0.0]})
    model = RankRLS(1.0).fit(X, [0, 1, 2])
    for to, scores in (
        (to_elasticsearch, elasticsearch_scores),
        (to_solr, solr_scores),
        (to_json, json_scores),
    ):
        text = to(model, rows=X).content
        wanted = scores(text, {name: X[name] for name in X})
        for body, rows in ((text, X), (json.loads(text), pl.from_pandas(X))):
            assert_allclose(scores(body, rows), wanted)
