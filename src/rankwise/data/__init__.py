"""Ranking data: LETOR files, tables, data sets, comparisons, battles, triplets, normalization."""

from rankwise.data.battles import BattleFile, Battles, read_battles
from rankwise.data.comparison_files import (
    ComparisonData,
    ResponseComparisons,
    read_chosen_rejected,
    read_comparisons,
)
from rankwise.data.datasets import DatasetInfo, RankingDataset, list_datasets, load_dataset
from rankwise.data.letor import LetorBlocks, LetorData, read_letor, write_letor
from rankwise.data.query_rows import normalize_per_query, qid_from_groups
from rankwise.data.rankings import RankingFile, Rankings, read_rankings
from rankwise.data.sample_files import SampleData, read_samples
from rankwise.data.synthetic import (
    GeneratedBattles,
    RankingProblem,
    draw_triplets,
    make_battles,
    make_ranking,
)
from rankwise.data.table_rows import TableBlocks, TableData, from_frame, read_table
from rankwise.data.trec import as_qrels, as_run, read_qrels, read_run, trec_order, write_run
from rankwise.graph.comparisons import Comparisons

__all__ = [
    "BattleFile",
    "Battles",
    "ComparisonData",
    "Comparisons",
    "DatasetInfo",
    "GeneratedBattles",
    "LetorBlocks",
    "LetorData",
    "RankingDataset",
    "RankingFile",
    "RankingProblem",
    "Rankings",
    "ResponseComparisons",
    "SampleData",
    "TableBlocks",
    "TableData",
    "as_qrels",
    "as_run",
    "draw_triplets",
    "from_frame",
    "list_datasets",
    "load_dataset",
    "make_battles",
    "make_ranking",
    "normalize_per_query",
    "qid_from_groups",
    "read_battles",
    "read_chosen_rejected",
    "read_comparisons",
    "read_letor",
    "read_qrels",
    "read_rankings",
    "read_run",
    "read_samples",
    "read_table",
    "trec_order",
    "write_letor",
    "write_run",
]
