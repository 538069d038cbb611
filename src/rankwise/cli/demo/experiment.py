"""The experiment of `rankwise demo`: two rankers, tuned and evaluated in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.data import LetorData, load_dataset, make_ranking
from rankwise.estimators.least_squares.rankrls import RLS, RankRLS
from rankwise.metrics import RankingEvaluation, disagreement_error, evaluate_ranking, ndcg

ALPHAS = np.logspace(-1, 6, 29)
POSITIONS = range(1, 21)
N_QUERIES = {"train": 40, "valid": 60, "test": 120}


@dataclass(frozen=True, eq=False)
class TunedRanker:
    """A ranker with the alpha that was best on the validation rows.

    Attributes
    ----------
    errors : ndarray of shape (n_alphas,)
        Share of validation pairs in the wrong order, for every alpha.
    evaluation : RankingEvaluation
        Of the chosen ranker on the test rows.
    ndcg : ndarray of shape (n_queries, n_positions)
        Of the chosen ranker on the test queries; empty where there are no queries.
    """

    name: str
    ranker: Any
    errors: NDArray[np.float64]
    evaluation: RankingEvaluation
    ndcg: NDArray[np.float64]

    @property
    def alpha(self) -> float:
        return float(self.ranker.alpha)


@dataclass(frozen=True, eq=False)
class Experiment:
    """Rows for training, validation and test, the alphas tried, the rankers (RankRLS first)."""

    parts: Mapping[str, LetorData]
    alphas: NDArray[np.float64]
    rankers: tuple[TunedRanker, ...]

    def n_queries(self, part: str) -> int:
        """How many queries a part has."""
        return len(np.unique(np.asarray(self.parts[part].qid)))


def query_experiment(seed: int) -> Experiment:
    """Rows graded from 0 to 4 in queries, some of which have better rows throughout than others."""
    n_queries = sum(N_QUERIES.values())
    problem = make_ranking(
        n_queries, rows_per_query=(5, 30), n_features=200, informative=30, noise=0.8, n_levels=5,
        grading="global", query_effect=0.65, random_state=seed,
    )  # fmt: skip
    X = np.round(problem.X, 3)  # short numbers make small files
    ends = np.cumsum([0, *N_QUERIES.values()])
    parts = {}
    for name, start, stop in zip(N_QUERIES, ends[:-1], ends[1:], strict=True):
        rows = (problem.qid >= start) & (problem.qid < stop)
        parts[name] = LetorData(X[rows], problem.y[rows], problem.qid[rows] + 1)
    return Experiment(parts, ALPHAS, _tuned_rankers(parts))


def global_experiment(seed: int) -> Experiment:
    """Real patients in one ranking, by the progress of their diabetes within a year."""
    data = load_dataset("diabetes")
    order = np.random.default_rng(seed).permutation(len(data.y))
    X = np.asarray(data.X)
    shares = dict(zip(N_QUERIES, np.split(order, [200, 300]), strict=True))
    parts = {name: LetorData(X[rows], data.y[rows], None) for name, rows in shares.items()}
    return Experiment(parts, ALPHAS, _tuned_rankers(parts))


def _tuned_rankers(parts: Mapping[str, LetorData]) -> tuple[TunedRanker, ...]:
    rankers = {"RankRLS": RankRLS(), "RLS (plain regression)": RLS()}
    return tuple(_tune(name, ranker, **parts) for name, ranker in rankers.items())


def _tune(
    name: str, ranker: Any, train: LetorData, valid: LetorData, test: LetorData
) -> TunedRanker:
    """Fit for every alpha, choose on the validation rows, evaluate on the test rows."""
    path = ranker.path(train.X, train.y, ALPHAS, qid=train.qid)
    errors = [
        disagreement_error(valid.y, s, valid.qid) for s in path.predict(valid.X, qid=valid.qid)
    ]
    chosen = path.estimator(int(np.argmin(errors)))
    scores = chosen.predict(test.X, qid=test.qid)
    evaluation = evaluate_ranking(test.y, scores, test.qid)
    by_position = np.empty((0, 0))
    if test.qid is not None:
        by_position = ndcg(test.y, scores, test.qid, k=POSITIONS, per_query=True).values
    return TunedRanker(name, chosen, np.array(errors), evaluation, by_position)
