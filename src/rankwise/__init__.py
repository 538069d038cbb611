"""Preference learning and learning to rank, at the price of regression."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rankwise.rankers import RANKERS, TRANSFORMERS

if TYPE_CHECKING:
    from rankwise.auto.auto_ranker import AutoRanker as AutoRanker
    from rankwise.bilinear.sparse_bilinear import Shrinkage as Shrinkage
    from rankwise.bilinear.sparse_bilinear import SparseBilinearRanker as SparseBilinearRanker
    from rankwise.boosted.boosted_ranker import BoostedOptions as BoostedOptions
    from rankwise.boosted.boosted_ranker import BoostedRanker as BoostedRanker
    from rankwise.estimators.kpcrank import KPCR as KPCR
    from rankwise.estimators.kpcrank import ComponentOptions as ComponentOptions
    from rankwise.estimators.kpcrank import KPCRank as KPCRank
    from rankwise.estimators.rankrls import RLS as RLS
    from rankwise.estimators.rankrls import (
        AdditiveRankRLS as AdditiveRankRLS,
    )
    from rankwise.estimators.rankrls import RankRLS as RankRLS
    from rankwise.estimators.rankrls import SparseRankRLS as SparseRankRLS
    from rankwise.estimators.rankrls import SparseRLS as SparseRLS
    from rankwise.estimators.transductive_rankrls import (
        TransductiveRankRLS as TransductiveRankRLS,
    )
    from rankwise.gp.evidence import GPOptions as GPOptions
    from rankwise.gp.pairwise_gp import PairwiseGP as PairwiseGP
    from rankwise.gp.process import OnColumns as OnColumns
    from rankwise.leaderboard.leaderboard import Leaderboard as Leaderboard
    from rankwise.model_selection.meta_rankers import MeanRanker as MeanRanker
    from rankwise.model_selection.search import RankingSearchCV as RankingSearchCV
    from rankwise.persistence import load_model as load_model
    from rankwise.persistence import save_model as save_model
    from rankwise.preprocessing import DateFeatures as DateFeatures
    from rankwise.preprocessing import GraphWalks as GraphWalks
    from rankwise.preprocessing import QueryMinMaxScaler as QueryMinMaxScaler
    from rankwise.preprocessing import QueryRanks as QueryRanks
    from rankwise.preprocessing import QueryStandardScaler as QueryStandardScaler
    from rankwise.preprocessing import SeenFeatures as SeenFeatures
    from rankwise.preprocessing import TableEncoder as TableEncoder
    from rankwise.preprocessing import WeisfeilerLehman as WeisfeilerLehman
    from rankwise.preprocessing import WithQueryStandard as WithQueryStandard
    from rankwise.svm.rank_svm import RankSVM as RankSVM
    from rankwise.two_sided.two_sided_rankrls import TwoSidedRankRLS as TwoSidedRankRLS
    from rankwise.walks import WalkKernel as WalkKernel

__version__ = "1.0.0"

# Names are imported when they are first used: `import rankwise` costs nothing.
_HOME = {
    **{
        path.rpartition(".")[2]: path.rpartition(".")[0]
        for path in (*RANKERS.values(), *TRANSFORMERS.values())
    },
    "BoostedOptions": "rankwise.boosted.boosted_ranker",
    "ComponentOptions": "rankwise.estimators.kpcrank",
    "GPOptions": "rankwise.gp.evidence",
    "OnColumns": "rankwise.gp.process",
    "Shrinkage": "rankwise.bilinear.sparse_bilinear",
    "WalkKernel": "rankwise.walks",
    "load_model": "rankwise.persistence",
    "save_model": "rankwise.persistence",
}
_SUBMODULES = (
    "asking",
    "auto",
    "data",
    "errors",
    "export",
    "graph",
    "metrics",
    "model_selection",
    "objectives",
    "plots",
    "preprocessing",
    "report",
)

__all__ = ["__version__", *_HOME]  # noqa: PLE0604


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
