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
