"""Trees for Elasticsearch, OpenSearch, Solr and Vespa.

LightGBM sends rows with x <= threshold to the first child, in float64. The LTR plugins of
Elasticsearch and OpenSearch compare threshold > x in float32. Solr compares x <= threshold + 1e-6
in float32. Vespa reads LightGBM's own format, but compares x < threshold, and XGBoost's, whose
thresholds it rounds to float32. The trained models of Elasticsearch compare x <= threshold, with x
in float32. Thresholds are moved such that rows whose values are numbers of the target's precision
go the same way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import ExportError
from rankwise.export._endings import TreeScores, read_stages

DEEPEST = 300  # levels of a tree: JSON readers limit how deep objects are nested
SLACK = np.float32(1e-6)  # that Solr adds to thresholds
MARGIN = 1e-5  # of the range of scores, for rounding errors of sums that must not be negative

Split = Callable[[int, str, float, bool, Any, Any], Any]


def trees_of(model: Any) -> tuple[Any, TreeScores] | None:
    """The ranker that a model consists of, and its trees; None unless these are all it has.

    The mean of a single ranker ranks as this ranker does.
    """
    model = getattr(model, "best_estimator_", model)
    if getattr(model, "encoder_", None) is not None:
        return None
    parts = getattr(getattr(model, "mean_ranker_", model), "rankers_", None)
    if parts is not None:
        return trees_of(parts[0]) if len(parts) == 1 else None
    stages = read_stages(model).stages
    return (model, stages[0]) if isinstance(stages[0], TreeScores) else None


def used_features(trees: TreeScores) -> Index:
    """The features with splits; trees of a single leaf have none."""
    return np.unique(trees.feature[trees.first != trees.second])


def reads_missing_as_zero(trees: TreeScores) -> bool:
    """Whether a missing value goes where 0 goes, in all splits."""
    splits = trees.first != trees.second
    goes_first = trees.missing_first.astype(bool)
    return bool((goes_first == (trees.threshold >= 0.0))[splits].all())


def least_score(trees: TreeScores) -> float:
    """A score that no row is below: the sum of the least leaves of all trees."""
    return float(sum(min(leaves) for leaves in _leaves_of_trees(trees)))


def largest_score(trees: TreeScores) -> float:
    """A score that no row is above."""
    return float(sum(max(leaves) for leaves in _leaves_of_trees(trees)))


def _leaves_of_trees(trees: TreeScores) -> list[list[float]]:
    ends = [*trees.roots[1:].tolist(), len(trees.feature)]
    found = []
    for root, end in zip(trees.roots.tolist(), ends, strict=True):
        children = np.concatenate((trees.first[root:end], trees.second[root:end]))
        found.append([float(trees.leaves[-1 - child]) for child in children if child < 0])
    return found


def nested(
    trees: TreeScores,
    names: Sequence[str],
    leaf: Callable[[float], Any],
    split: Split,
    shift: float = 0.0,
) -> list[Any]:
    """Each tree as nested objects.

    ``leaf(value)`` and ``split(number, name, threshold, missing first, first, second)`` make them.
    `shift` is added to the leaves of the first tree.
    """
    ends = [*trees.roots[1:].tolist(), len(trees.feature)]
    found = []
    for k, (root, end) in enumerate(zip(trees.roots.tolist(), ends, strict=True)):
        plus = shift if k == 0 else 0.0
        made: dict[int, tuple[int, Any]] = {}

        def child(
            number: int, plus: float = plus, made: dict[int, tuple[int, Any]] = made
        ) -> tuple[int, Any]:
            return (
                (0, leaf(float(trees.leaves[-1 - number]) + plus)) if number < 0 else made[number]
            )

        for node in range(end - 1, root - 1, -1):  # children follow their parents
            one, two = (child(int(to[node])) for to in (trees.first, trees.second))
            if trees.first[node] == trees.second[node]:
                made[node] = one
                continue
            depth = 1 + max(one[0], two[0])
            if depth > DEEPEST:
                raise ExportError(
                    f"A tree has more than {DEEPEST} levels, which readers of JSON refuse. Use a "
                    "smaller max_leaf_nodes."
                )
            name, missing = names[trees.feature[node]], bool(trees.missing_first[node])
            at = float(trees.threshold[node])
            made[node] = depth, split(node - root, name, at, missing, one[1], two[1])
        found.append(made[root][1])
    return found


def below(threshold: float) -> float:
    """The least float32 above a threshold: x <= threshold if and only if x is less."""
    return float(str(np.nextafter(_floor32(threshold), np.float32(np.inf))))


def solr_threshold(threshold: float) -> float:
    """A float32 that, after Solr adds 1e-6, is the largest one up to the threshold, or nearly."""
    wanted = _floor32(threshold)
    start = np.float32(np.float64(wanted) - np.float64(SLACK))
    tried = [start, *(np.nextafter(start, np.float32(end)) for end in (-np.inf, np.inf))]
    # Not above it, if possible: between negative numbers and 0, thresholds are -1e-35.
    off = [(one + SLACK > wanted, abs(float(one + SLACK) - float(wanted)), one) for one in tried]
    return float(str(min(off)[2]))


def _floor32(value: float) -> np.float32:
    """The largest float32 that is not above a number."""
    with np.errstate(over="ignore"):
        near = np.float32(value)
    return np.nextafter(near, np.float32(-np.inf)) if float(near) > value else near


def short(value: float) -> float:
    """The shortest decimal number that is the same in float32."""
    return float(str(np.float32(value)))


def xgboost_trees(
    trees: TreeScores, names: Sequence[str], shift: float = 0.0, *, short_leaves: bool = False
) -> list[Any]:
    """Trees as XGBoost dumps them, as the plugins and Vespa read them."""
    numbers = iter(range(10**9))

    def leaf(value: float) -> Any:
        return {"nodeid": next(numbers), "leaf": short(value) if short_leaves else value}

    def split(_: int, name: str, at: float, missing_first: bool, one: Any, two: Any) -> Any:
        return {
            "nodeid": next(numbers),
            "depth": 0,
            "split": name,
            "split_condition": below(at),
            "yes": one["nodeid"],
            "no": two["nodeid"],
            "missing": (one if missing_first else two)["nodeid"],
            "children": [one, two],
        }

    return nested(trees, names, leaf, split, shift)


def solr_trees(trees: TreeScores, names: Sequence[str], shift: float) -> list[Any]:
    """Trees of Solr's ``MultipleAdditiveTreesModel``, with numbers as text."""

    def leaf(value: float) -> Any:
        return {"value": repr(short(value))}

    def split(_: int, name: str, at: float, __: bool, one: Any, two: Any) -> Any:
        at = solr_threshold(at)
        return {"feature": name, "threshold": repr(at), "left": one, "right": two}

    roots = nested(trees, names, leaf, split, shift)
    return [{"weight": "1", "root": root} for root in roots]


def vespa_trees(trees: TreeScores, names: Sequence[str]) -> Any:
    """LightGBM's JSON as Vespa reads it: a split means x < threshold there."""
    columns = {name: k for k, name in enumerate(names)}

    def leaf(value: float) -> Any:
        return {"leaf_value": value}

    def split(_: int, name: str, at: float, missing_first: bool, one: Any, two: Any) -> Any:
        return {
            "split_feature": columns[name],
            "threshold": float(np.nextafter(at, np.inf)),
            "decision_type": "<=",
            "default_left": missing_first,
            "left_child": one,
            "right_child": two,
        }

    listed = nested(trees, names, leaf, split)
    return {
        "objective": "regression",
        "feature_names": list(names),
        "pandas_categorical": [],
        "tree_info": [{"tree_index": k, "tree_structure": tree} for k, tree in enumerate(listed)],
    }


def trained_model(trees: TreeScores, names: Sequence[str]) -> Any:
    """The definition of a trained model of Elasticsearch, whose nodes are in one list by tree."""
    columns = {name: k for k, name in enumerate(names)}

    def leaf(value: float) -> Any:
        return {"leaf_value": value}

    def split(_: int, name: str, at: float, missing_first: bool, one: Any, two: Any) -> Any:
        return {
            "decision_type": "lte",
            "split_feature": columns[name],
            "threshold": at,
            "default_left": missing_first,
            "left_child": one,
            "right_child": two,
        }

    listed = []
    for root in nested(trees, names, leaf, split):
        nodes = [root]
        for k, node in enumerate(nodes):  # which grows
            nodes[k] = {"node_index": k, **node}
            for child in ("left_child", "right_child"):
                if child in node:
                    nodes[k][child] = len(nodes)
                    nodes.append(node[child])
        tree = {"feature_names": list(names), "tree_structure": nodes, "target_type": "regression"}
        listed.append({"tree": tree})
    ensemble = {
        "target_type": "regression",
        "feature_names": list(names),
        "trained_models": listed,
        "aggregate_output": {"weighted_sum": {}},
    }
    return {"trained_model": {"ensemble": ensemble}}


# What the engines compute ------------------------------------------------------------------------


def tree_sum(
    roots: Sequence[Any],
    columns: Mapping[str, Array],
    read: Callable[[Any], tuple[str, Callable[[Array], Any], Any, Any] | float],
    dtype: Any,
) -> Array:
    """The sum of trees for each row, tree after tree, in a precision.

    ``read(node)`` returns the value of a leaf; or the feature of a split, a function of its values
    that says which rows go to the first child, and the two children.
    """
    n_rows = len(next(iter(columns.values())))
    total = np.zeros(n_rows, dtype=dtype)
    for root in roots:
        value, waiting = np.zeros(n_rows, dtype=dtype), [(root, np.arange(n_rows))]
        while waiting:
            node, rows = waiting.pop()
            found = read(node)
            if isinstance(found, tuple):
                name, goes_first, one, two = found
                first = np.asarray(goes_first(columns[name][rows]), dtype=bool)
                waiting += [(one, rows[first]), (two, rows[~first])]
            else:
                value[rows] = found
        total = total + value
    return np.asarray(total, dtype=np.float64)


def plugin_scores(definition: Any, columns: Mapping[str, Array]) -> Array:
    """Scores of a ``model/xgboost+json``: threshold > x in float32; a missing feature is 0."""
    roots = json.loads(definition) if isinstance(definition, str) else definition
    rows = {name: _in_float32(values) for name, values in columns.items()}

    def read(node: Any) -> Any:
        if "leaf" in node:
            return np.float32(node["leaf"])
        one, two = node["children"]
        if (node["yes"], node["no"]) != (one["nodeid"], two["nodeid"]):
            raise ExportError("The children of a split must be its yes and its no, in this order.")
        at = np.float32(node["split_condition"])
        return node["split"], lambda x: at > x, one, two

    return tree_sum(roots, rows, read, np.float32)


def solr_tree_scores(params: Any, columns: Mapping[str, Array]) -> Array:
    """Scores of Solr's trees: x <= threshold + 1e-6 in float32; a missing feature is 0."""
    rows = {name: _in_float32(values) for name, values in columns.items()}

    def read(node: Any) -> Any:
        if "feature" not in node:
            return np.float32(node["value"])
        at = np.float32(node["threshold"]) + SLACK
        return node["feature"], lambda x: x <= at, node["left"], node["right"]

    return tree_sum([tree["root"] for tree in params["trees"]], rows, read, np.float32)


def vespa_tree_scores(model: Any, columns: Mapping[str, Array]) -> Array:
    """Scores of LightGBM's JSON in Vespa, which compares x < threshold in float64."""
    names = model["feature_names"]

    def read(node: Any) -> Any:
        if "leaf_value" in node:
            return float(node["leaf_value"])
        at, name = float(node["threshold"]), names[node["split_feature"]]
        if node["default_left"]:
            return name, lambda x: ~(x >= at), node["left_child"], node["right_child"]
        return name, lambda x: x < at, node["left_child"], node["right_child"]

    roots = [tree["tree_structure"] for tree in model["tree_info"]]
    return tree_sum(roots, columns, read, np.float64)


def vespa_xgboost_scores(roots: Any, columns: Mapping[str, Array]) -> Array:
    """Scores of XGBoost's dump in Vespa, which rounds thresholds to float32, and not features."""

    def read(node: Any) -> Any:
        if "leaf" in node:
            return float(node["leaf"])
        numbered = {child["nodeid"]: child for child in node["children"]}
        one, two = numbered[node["yes"]], numbered[node["no"]]
        at = float(np.float32(node["split_condition"]))
        if node["missing"] == node["yes"]:
            return node["split"], lambda x: ~(x >= at), one, two
        return node["split"], lambda x: x < at, one, two

    return tree_sum(roots, columns, read, np.float64)


def trained_model_scores(definition: Any, columns: Mapping[str, Array]) -> Array:
    """Scores of Elasticsearch: features in float32, a sum in float64, rounded to float32."""
    with np.errstate(over="ignore"):
        rows = {
            name: values.astype(np.float32).astype(np.float64) for name, values in columns.items()
        }
    roots, nodes_of = [], {}
    for k, each in enumerate(definition["trained_model"]["ensemble"]["trained_models"]):
        roots.append((k, 0))
        nodes_of[k] = each["tree"]["tree_structure"], each["tree"]["feature_names"]

    def read(place: Any) -> Any:
        tree, number = place
        nodes, names = nodes_of[tree]
        node = nodes[number]
        if "leaf_value" in node:
            return float(node["leaf_value"])
        if node["decision_type"] != "lte":
            raise ExportError(f"Splits compare by lte: got {node['decision_type']!r}.")
        at, name = float(node["threshold"]), names[node["split_feature"]]
        one, two = (tree, node["left_child"]), (tree, node["right_child"])
        if node.get("default_left", False):
            return name, lambda x: ~(x > at), one, two
        return name, lambda x: x <= at, one, two

    return tree_sum(roots, rows, read, np.float64).astype(np.float32).astype(np.float64)


def _in_float32(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.where(np.isnan(values), 0.0, values).astype(np.float32)
