"""Preference learning and learning to rank, at the price of regression."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankwise.estimators.bilinear import SparseBilinearRanker as SparseBilinearRanker
    from rankwise.estimators.gp import PairwiseGP as PairwiseGP
    from rankwise.estimators.kpcrank import KPCR as KPCR
    from rankwise.estimators.kpcrank import KPCRank as KPCRank
    from rankwise.estimators.rankrls import RLS as RLS
    from rankwise.estimators.rankrls import RankRLS as RankRLS
    from rankwise.estimators.ranksvm import RankSVM as RankSVM
    from rankwise.estimators.sparse import SparseRankRLS as SparseRankRLS
    from rankwise.estimators.sparse import SparseRLS as SparseRLS
    from rankwise.model_selection.search import RankingSearchCV as RankingSearchCV
    from rankwise.persistence import load_model as load_model
    from rankwise.persistence import save_model as save_model

__version__ = "0.1.0"

# Names are imported when they are first used: `import rankwise` costs nothing.
_HOME = {
    "KPCR": "rankwise.estimators.kpcrank",
    "KPCRank": "rankwise.estimators.kpcrank",
    "PairwiseGP": "rankwise.estimators.gp",
    "RLS": "rankwise.estimators.rankrls",
    "RankRLS": "rankwise.estimators.rankrls",
    "RankSVM": "rankwise.estimators.ranksvm",
    "SparseRLS": "rankwise.estimators.sparse",
    "SparseRankRLS": "rankwise.estimators.sparse",
    "RankingSearchCV": "rankwise.model_selection.search",
    "SparseBilinearRanker": "rankwise.estimators.bilinear",
    "load_model": "rankwise.persistence",
    "save_model": "rankwise.persistence",
}
_SUBMODULES = ("data", "errors", "graph", "metrics", "model_selection", "plots", "report")

__all__ = [
    "KPCR",
    "RLS",
    "KPCRank",
    "PairwiseGP",
    "RankRLS",
    "RankSVM",
    "RankingSearchCV",
    "SparseBilinearRanker",
    "SparseRLS",
    "SparseRankRLS",
    "__version__",
    "load_model",
    "save_model",
]


def __getattr__(name: str) -> object:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return import_module(f"rankwise.{name}")
    raise AttributeError(f"module 'rankwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_SUBMODULES])
