"""Trees in the formats of search engines, row by row and node by node, by their published rules."""

import json

import numpy as np


def plugin_score(text, row):
    """LTR plugins: XGBoost's dump; `yes` if the value is less than split_condition, in float32."""
    total = np.float32(0.0)
    for node in json.loads(json.loads(text)["model"]["model"]["definition"]):
        while "leaf" not in node:
            value = row[node["split"]]
            value = np.float32(0.0 if np.isnan(value) else value)
            wanted = node["yes"] if value < np.float32(node["split_condition"]) else node["no"]
            (node,) = [child for child in node["children"] if child["nodeid"] == wanted]
        total += np.float32(node["leaf"])
    return float(total)


def solr_score(text, row):
    """MultipleAdditiveTreesModel: left if the value is at most the threshold plus 1e-6."""
    model, total = json.loads(text), np.float32(0.0)
    listed = [feature["name"] for feature in model["features"]]
    for tree in model["params"]["trees"]:
        node = tree["root"]
        while "feature" in node:
            assert node["feature"] in listed
            value = row[node["feature"]]
            value = np.float32(0.0 if np.isnan(value) else value)
            at = np.float32(float(node["threshold"])) + np.float32(1e-6)
            node = node["left"] if value <= at else node["right"]
        total += np.float32(float(tree["weight"])) * np.float32(float(node["value"]))
    return float(total)


def vespa_score(text, row):
    """LightGBM's JSON as Vespa reads it: if (!(x >= t), ...) or if (x < t, ...)."""
    model, total = json.loads(text), 0.0
    for tree in model["tree_info"]:
        node = tree["tree_structure"]
        while "leaf_value" not in node:
            assert node["decision_type"] == "<="
            value, at = row[model["feature_names"][node["split_feature"]]], node["threshold"]
            first = not (value >= at) if node["default_left"] else value < at
            node = node["left_child"] if first else node["right_child"]
        total += node["leaf_value"]
    return total


def vespa_xgboost_score(text, row):
    """XGBoost's dump as Vespa reads it: if (!(x >= t), ...) or if (x < t, ...), t in float32."""
    total = 0.0
    for node in json.loads(text):
        while "leaf" not in node:
            value, at = row[node["split"]], float(np.float32(node["split_condition"]))
            first = not (value >= at) if node["missing"] == node["yes"] else value < at
            wanted = node["yes"] if first else node["no"]
            (node,) = [child for child in node["children"] if child["nodeid"] == wanted]
        total += node["leaf"]
    return total


def trained_model_score(text, row):
    """Elasticsearch: a missing feature by default_left; left if float32(x) <= threshold."""
    ensemble, total = json.loads(text)["trained_model"]["ensemble"], 0.0
    assert (ensemble["target_type"], ensemble["aggregate_output"]) == (
        "regression",
        {"weighted_sum": {}},
    )
    for entry in ensemble["trained_models"]:
        tree = entry["tree"]
        nodes = tree["tree_structure"]
        assert [node["node_index"] for node in nodes] == list(range(len(nodes)))
        assert tree["feature_names"] == ensemble["feature_names"]
        node = nodes[0]
        while "leaf_value" not in node:
            assert node["decision_type"] == "lte"
            value = row[tree["feature_names"][node["split_feature"]]]
            if np.isnan(value):
                left = node["default_left"]
            else:
                left = float(np.float32(value)) <= node["threshold"]
            node = nodes[node["left_child"] if left else node["right_child"]]
        total += node["leaf_value"]
    return float(np.float32(total))
