"""Fitted models in formats that other programs read.

`to_elasticsearch`, `to_opensearch`, `to_solr`, `to_vespa` and `to_json` write linear models with
named weights. All but the last write trees as well, and `to_elasticsearch_trained_model` writes
trees only. `to_onnx` writes any ranker as a graph of plain operators, and needs the extra onnx.

Each function scores rows by the model and by the exported form, and returns an `Export` with the
result of this comparison. A form that scores differently is refused.
"""

from rankwise.export.checks import Export, ExportCheck, check_path
from rankwise.export.linear_models import (
    Distilled,
    LinearModel,
    distil,
    feature_weights,
    linear_model,
)
from rankwise.export.onnx_export import to_onnx
from rankwise.export.search_engines import (
    elasticsearch_scores,
    json_scores,
    solr_scores,
    to_elasticsearch,
    to_elasticsearch_trained_model,
    to_json,
    to_opensearch,
    to_solr,
    to_vespa,
    vespa_scores,
)

__all__ = [
    "Distilled",
    "Export",
    "ExportCheck",
    "LinearModel",
    "check_path",
    "distil",
    "elasticsearch_scores",
    "feature_weights",
    "json_scores",
    "linear_model",
    "solr_scores",
    "to_elasticsearch",
    "to_elasticsearch_trained_model",
    "to_json",
    "to_onnx",
    "to_opensearch",
    "to_solr",
    "to_vespa",
    "vespa_scores",
]
