"""Every public name is documented, and shows in a doctest how it is used."""

import inspect
from importlib import import_module

import pytest

MODULES = (
    "rankwise",
    "rankwise.asking",
    "rankwise.data",
    "rankwise.distributed",
    "rankwise.errors",
    "rankwise.export",
    "rankwise.graph",
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
    *("Answer", "Progress", "Question", "Ranking", "RaterReport"),
    *("Distilled", "Export", "ExportCheck", "LinearModel"),
    *("Code", "Facts", "Figure", "Section", "Text"),
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
