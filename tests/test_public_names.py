"""Every public name is documented, and shows in a doctest how it is used; names are unique."""

import ast
import inspect
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

import rankwise

MODULES = (
    "rankwise",
    "rankwise.asking",
    "rankwise.data",
    "rankwise.distributed",
    "rankwise.errors",
    "rankwise.export",
    "rankwise.graph",
    "rankwise.inspection",
    "rankwise.metrics",
    "rankwise.model_selection",
    "rankwise.objectives",
    "rankwise.plots",
    "rankwise.preprocessing",
    "rankwise.problem",
    "rankwise.report",
)
# Parts of other objects, and interfaces, which are shown where they are used.
PARTS = {
    *("PairBlock", "PairGraph", "HeldOutScores", "RowObjective", "load_model"),
    *("Answer", "ItemChanges", "Progress", "Question", "Ranking", "RaterReport"),
    *("Distilled", "Export", "ExportCheck", "LinearModel"),
    *("Code", "Facts", "Figure", "Section", "Text"),
    *("FeatureEffects", "RankingExplanation"),
    *("Basis", "BlockSums", "Coordinates", "FeatureBasis", "Fit", "KernelBasis", "LandmarkBasis"),
    *(
        "LandmarkSpace",
        "LandmarkSystem",
        "Landmarks",
        "Loss",
        "RampBasis",
        "Solution",
        "Space",
        "System",
        "Task",
    ),
}


@pytest.mark.parametrize("module", MODULES)
def test_public_names_are_documented(module):
    found = import_module(module)
    for name in found.__all__:
        value = getattr(found, name)
        if not callable(value):
            continue
        text = inspect.getdoc(value) or ""
        assert text, f"{module}.{name} has no docstring"
        assert name in PARTS or ">>>" in text, f"{module}.{name} has no doctest"


def test_a_name_of_a_module_or_class_stands_for_one_thing():
    package = Path(rankwise.__file__).parent
    modules, classes = Counter(), Counter()
    for path in package.rglob("*.py"):
        if path.name not in ("__init__.py", "__main__.py"):
            modules[path.stem.lstrip("_")] += 1
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        classes.update(name.lstrip("_") for name in found)
    assert {name for name, n in modules.items() if n > 1} == set()
    assert {name for name, n in classes.items() if n > 1} == set()
