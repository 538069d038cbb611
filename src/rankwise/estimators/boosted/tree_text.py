"""LightGBM's forms of rows and of trees; texts of trees are checked before LightGBM reads them.

LightGBM trusts the numbers in a text: a child that does not exist makes it read outside its memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from rankwise.backends.arrays import is_sparse
from rankwise.errors import MissingExtraError, ModelFileError


def require_lightgbm() -> Any:
    """The module lightgbm; an error that names the install command if it is missing."""
    try:
        import lightgbm
    except ImportError:
        raise MissingExtraError("lightgbm", "boost") from None
    return lightgbm


def as_lightgbm(X: Any) -> Any:
    """Rows in a form that LightGBM accepts."""
    return sp.csr_matrix(X) if is_sparse(X) else X


def read_trees(text: str, n_features: int) -> Any:
    """The booster that a text of `Booster.model_to_string` describes."""
    lightgbm = require_lightgbm()
    check_trees(text, n_features)
    return lightgbm.Booster(model_str=text)


def check_trees(text: str, n_features: int) -> None:
    """Refuse a text whose trees are not those of a ranker on rows with this many features."""
    if not isinstance(text, str) or "\nend of trees\n" not in text:
        raise ModelFileError("the text of the trees has no end")
    trees, _, _ = text.partition("\nend of trees\n")
    head, *blocks = trees.split("\nTree=")
    header = _fields(head)
    wanted = {"num_class": 1, "num_tree_per_iteration": 1, "max_feature_idx": n_features - 1}
    for name, value in wanted.items():
        if header.get(name) != str(value):
            raise ModelFileError(f"{name} of the trees must be {value}: got {header.get(name)}")
    # LightGBM jumps from tree to tree by these sizes, which count the newline after each tree.
    sizes = [len(f"Tree={block}".encode()) + 1 for block in blocks]
    if header.get("tree_sizes", "").split() != [str(size) for size in sizes]:
        raise ModelFileError("the sizes of the trees are wrong")
    for number, block in enumerate(blocks):
        if not _is_tree(_fields(f"Tree={block}"), number, n_features):
            raise ModelFileError(f"tree {number} is damaged")


def _fields(text: str) -> dict[str, str]:
    """Lines name=value; each name once."""
    pairs = [line.split("=", 1) for line in text.splitlines() if "=" in line]
    if len({name for name, *_ in pairs}) < len(pairs):
        raise ModelFileError("a tree has a field twice")
    return dict(pairs)


def _is_tree(fields: dict[str, str], number: int, n_features: int) -> bool:
    """Whether the nodes form one binary tree with numerical splits on existing features.

    Children that are not negative are nodes, which follow their parents; others are leaves -1, -2,
    and so on.
    """
    if fields.get("Tree") != str(number) or fields.get("num_cat") != "0":
        return False
    if fields.get("is_linear", "0") != "0":
        return False
    try:
        n_leaves = int(fields["num_leaves"])
        names = ("left_child", "right_child", "split_feature", "decision_type")
        left, right, feature, decision = (_numbers(fields, name, n_leaves - 1) for name in names)
        leaves = _numbers(fields, "leaf_value", n_leaves)
        thresholds = _numbers(fields, "threshold", n_leaves - 1)
    except (KeyError, ValueError):
        return False
    if n_leaves == 1:  # the root is the leaf
        return bool(np.isfinite(leaves).all())
    nodes, children = np.arange(n_leaves - 1), np.concatenate((left, right))
    all_but_the_root = np.concatenate((np.arange(-n_leaves, 0), nodes[1:]))
    return bool(
        np.array_equal(np.sort(children), all_but_the_root)
        and (children > np.tile(nodes, 2))[children >= 0].all()
        and ((feature >= 0) & (feature < n_features)).all()
        and (decision.astype(int) & 1 == 0).all()  # bit 0: a split on categories
        and np.isfinite(leaves).all()
        and not np.isnan(thresholds).any()
    )


def _numbers(fields: dict[str, str], name: str, n: int) -> Any:
    """The numbers of a field, which a tree of a single leaf may leave out."""
    found = np.array([float(word) for word in fields.get(name, "").split()])
    if len(found) != n:
        raise ValueError(f"{name} has {len(found)} numbers")
    return found
