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
from itertools import pairwise
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import ExportError
from rankwise.export._endings import TreeScores, read_stages

DEEPEST = 300  # levels of a tree: JSON readers limit how deep objects are nested
SLACK = np.float32(1e-6)  # that Solr adds to thresholds
MARGIN = 1e-5  # of the range of scores, for rounding errors of sums that must not be negative

Split = Callable[[str, float, bool, Any, Any], Any]


def trees_of(model: Any) -> tuple[Any, TreeScores] | None:
    """The ranker that a model consists of, and its trees; None unless these are all it has.

    The mean of a single ranker ranks as this ranker does.
    """
    model = getattr(model, "best_estimator_", model)
    parts = getattr(getattr(model, "mean_ranker_", model), "rankers_", None)
    if parts is not None:
        is_encoded = getattr(model, "encoder_", None) is not None
        return None if is_encoded or len(parts) > 1 else trees_of(parts[0])
    trees = read_stages(model).stages[0]
    return (model, trees) if isinstance(trees, TreeScores) else None


def used_features(trees: TreeScores) -> Index:
    """The features with splits; trees of a single leaf have none."""
    return np.unique(trees.feature[trees.first != trees.second])


def reads_missing_as_zero(trees: TreeScores) -> bool:
    """Whether a missing value goes where 0 goes, in all splits."""
    splits = trees.first != trees.second
    goes_first = trees.missing_first.astype(bool)
    return bool((goes_first == (trees.threshold >= 0.0))[splits].all())


def range_of_scores(trees: TreeScores) -> tuple[float, float]:
    """Scores that no row is below or above: sums of the least and of the largest leaves."""
    low = high = 0.0
    for nodes in _nodes_of_trees(trees):
        children = np.concatenate((trees.first[nodes], trees.second[nodes]))
        leaves = trees.leaves[-1 - children[children < 0]]
        low, high = low + float(leaves.min()), high + float(leaves.max())
    return low, high


def _nodes_of_trees(trees: TreeScores) -> list[slice]:
    """The nodes of each tree; the first one is its root."""
    ends = [*trees.roots.tolist(), len(trees.feature)]
    return [slice(start, end) for start, end in pairwise(ends)]


def nested(
    trees: TreeScores,
    names: Sequence[str],
    leaf: Callable[[float], Any],
    split: Split,
    shift: float = 0.0,
) -> list[Any]:
    """Each tree as nested objects.

    ``leaf(value)`` and ``split(name, threshold, missing first, first, second)`` make them. `shift`
    is added to the leaves of the first tree.
    """
    found = []
    for k, nodes in enumerate(_nodes_of_trees(trees)):
        plus = shift if k == 0 else 0.0
        made: dict[int, tuple[int, Any]] = {}  # by node: levels below it, and the object
        for node in reversed(range(nodes.start, nodes.stop)):  # children follow their parents
            one, two = (
                made[child] if child >= 0 else (0, leaf(float(trees.leaves[-1 - child]) + plus))
                for child in (int(trees.first[node]), int(trees.second[node]))
            )
            depth = 1 + max(one[0], two[0])
            if depth > DEEPEST:
                raise ExportError(
                    f"A tree has more than {DEEPEST} levels, which readers of JSON refuse. Use a "
                    "smaller max_leaf_nodes."
                )
            name, missing = names[trees.feature[node]], bool(trees.missing_first[node])
            at, is_split = float(trees.threshold[node]), trees.first[node] != trees.second[node]
            made[node] = (depth, split(name, at, missing, one[1], two[1])) if is_split else one
        found.append(made[nodes.start][1])
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
    with np.errstate(over="ignore"):
        return float(str(np.float32(value)))


def xgboost_trees(
    trees: TreeScores, names: Sequence[str], shift: float = 0.0, *, short_leaves: bool = False
) -> list[Any]:
    """Trees as XGBoost dumps them, as the plugins and Vespa read them."""
    numbers = iter(range(10**9))

    def leaf(value: float) -> Any:
        return {"nodeid": next(numbers), "leaf": short(value) if short_leaves else value}

    def split(name: str, at: float, missing_first: bool, one: Any, two: Any) -> Any:
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

    def split(name: str, at: float, _: bool, one: Any, two: Any) -> Any:
        at = solr_threshold(at)
        return {"feature": name, "threshold": repr(at), "left": one, "right": two}

    roots = nested(trees, names, leaf, split, shift)
    return [{"weight": "1", "root": root} for root in roots]


def lightgbm_trees(
    trees: TreeScores, names: Sequence[str], decision: str, moved: Callable[[float], float]
) -> list[Any]:
    """Trees as LightGBM dumps them, with a word for <= and thresholds that are moved."""
    columns = {name: k for k, name in enumerate(names)}

    def leaf(value: float) -> Any:
        return {"leaf_value": value}

    def split(name: str, at: float, missing_first: bool, one: Any, two: Any) -> Any:
        return {
            "split_feature": columns[name],
            "threshold": moved(at),
            "decision_type": decision,
            "default_left": missing_first,
            "left_child": one,
            "right_child": two,
        }

    return nested(trees, names, leaf, split)


def vespa_trees(trees: TreeScores, names: Sequence[str]) -> Any:
    """LightGBM's JSON as Vespa reads it: a split means x < threshold there."""
    listed = lightgbm_trees(trees, names, "<=", lambda at: float(np.nextafter(at, np.inf)))
    return {
        "objective": "regression",
        "feature_names": list(names),
        "pandas_categorical": [],
        "tree_info": [{"tree_index": k, "tree_structure": tree} for k, tree in enumerate(listed)],
    }


def trained_model(trees: TreeScores, names: Sequence[str]) -> Any:
    """The definition of a trained model of Elasticsearch, whose nodes are in one list by tree."""
    listed = []
    for root in lightgbm_trees(trees, names, "lte", float):
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
    read: Callable[[Any], tuple[str, Any, bool, Any, Any] | float],
    compare: np.ufunc,
    dtype: Any = np.float64,
) -> Array:
    """The sum of trees for each row, tree after tree, in a precision.

    ``read(node)`` returns the value of a leaf; or the feature of a split, its threshold, whether
    missing values go to the first child, and the two children. ``compare(x, threshold)`` tells
    which other values do.
    """
    n_rows = len(next(iter(columns.values())))
    total = np.zeros(n_rows, dtype=dtype)
    for root in roots:
        value, waiting = np.zeros(n_rows, dtype=dtype), [(root, np.arange(n_rows))]
        while waiting:
            node, rows = waiting.pop()
            found = read(node)
            if isinstance(found, tuple):
                name, at, missing_first, one, two = found
                x = columns[name][rows]
                first = compare(x, at) | (np.isnan(x) & missing_first)
                waiting += [(one, rows[first]), (two, rows[~first])]
            else:
                value[rows] = found
        total = total + value
    return np.asarray(total, dtype=np.float64)


def plugin_scores(definition: Any, columns: Mapping[str, Array]) -> Array:
    """Scores of a ``model/xgboost+json``: threshold > x in float32; a missing feature is 0."""
    roots = json.loads(definition) if isinstance(definition, str) else definition

    def read(node: Any) -> Any:
        if "leaf" in node:
            return node["leaf"]
        one, two = node["children"]
        if (node["yes"], node["no"]) != (one["nodeid"], two["nodeid"]):
            raise ExportError("The children of a split must be its yes and its no, in this order.")
        return node["split"], np.float32(node["split_condition"]), False, one, two

    return tree_sum(roots, _in_float32(columns, missing=0.0), read, np.less, np.float32)


def solr_tree_scores(params: Any, columns: Mapping[str, Array]) -> Array:
    """Scores of Solr's trees: x <= threshold + 1e-6 in float32; a missing feature is 0."""

    def read(node: Any) -> Any:
        if "feature" not in node:
            return float(node["value"])
        at = np.float32(node["threshold"]) + SLACK
        return node["feature"], at, False, node["left"], node["right"]

    roots, rows = [tree["root"] for tree in params["trees"]], _in_float32(columns, missing=0.0)
    return tree_sum(roots, rows, read, np.less_equal, np.float32)


def vespa_tree_scores(model: Any, columns: Mapping[str, Array]) -> Array:
    """Scores of LightGBM's JSON in Vespa, which compares x < threshold in float64."""
    names = model["feature_names"]

    def read(node: Any) -> Any:
        if "leaf_value" in node:
            return float(node["leaf_value"])
        name, at, missing_first = (
            names[node["split_feature"]],
            node["threshold"],
            node["default_left"],
        )
        return name, float(at), missing_first, node["left_child"], node["right_child"]

    roots = [tree["tree_structure"] for tree in model["tree_info"]]
    return tree_sum(roots, columns, read, np.less)


def vespa_xgboost_scores(roots: Any, columns: Mapping[str, Array]) -> Array:
    """Scores of XGBoost's dump in Vespa, which rounds thresholds to float32, and not features."""

    def read(node: Any) -> Any:
        if "leaf" in node:
            return float(node["leaf"])
        numbered = {child["nodeid"]: child for child in node["children"]}
        at, missing_first = np.float32(node["split_condition"]), node["missing"] == node["yes"]
        return node["split"], float(at), missing_first, numbered[node["yes"]], numbered[node["no"]]

    return tree_sum(roots, columns, read, np.less)


def trained_model_scores(definition: Any, columns: Mapping[str, Array]) -> Array:
    """Scores of Elasticsearch: features in float32, a sum in float64, rounded to float32."""
    trees = [each["tree"] for each in definition["trained_model"]["ensemble"]["trained_models"]]

    def read(place: Any) -> Any:
        tree, number = place
        node = tree["tree_structure"][number]
        if "leaf_value" in node:
            return float(node["leaf_value"])
        if node["decision_type"] != "lte":
            raise ExportError(f"Splits compare by lte: got {node['decision_type']!r}.")
        name, missing_first = (
            tree["feature_names"][node["split_feature"]],
            node.get("default_left", False),
        )
        one, two = (tree, node["left_child"]), (tree, node["right_child"])
        return name, float(node["threshold"]), missing_first, one, two

    rows = _in_float32(columns)
    found = tree_sum([(tree, 0) for tree in trees], rows, read, np.less_equal)
    return found.astype(np.float32).astype(np.float64)


def _in_float32(columns: Mapping[str, Array], missing: float = np.nan) -> dict[str, Array]:
    with np.errstate(over="ignore"):
        return {
            name: np.where(np.isnan(values), missing, values).astype(np.float32)
            for name, values in columns.items()
        }
