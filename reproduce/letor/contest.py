"""Every contestant on every problem, judged by test queries that none of them has seen.

A contestant gets labelled rows and returns what it has chosen; then it gets the new rows, without
labels, and returns scores. Labels of new rows are known to the judge of a fold only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, cpu_count, delayed, parallel_config

from rankwise.metrics import QueryValues, paired_test
from rankwise.report import Column, Table
from reproduce.letor.contestants import CONTESTANTS, Contestant
from reproduce.letor.problems import PROBLEMS, VALUES, Fold, folds

OURS = "AutoRanker"
TREES = ("LightGBM, tuned", "XGBoost, tuned", "CatBoost, tuned")
TITLES = {name: name.upper() if name in PROBLEMS[:2] else name for name in PROBLEMS}


@dataclass
class Record:
    """Choices, values on each query, and seconds of one contestant, for each fold."""

    words: list[str] = field(default_factory=list)
    values: list[dict[str, np.ndarray]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def compete(
    every: Iterable[Fold], contestants: Mapping[str, Contestant] = CONTESTANTS, *, n_jobs: int = 1
) -> dict[str, Record]:
    """Let all contestants choose, fit and score in each fold, and judge their scores.

    Each contestant runs on one core, `n_jobs` of them at a time, the last ones first: they take
    the longest.
    """
    every = list(every)
    tasks = [(name, fold) for name in reversed(contestants) for fold in every]
    records = {name: Record() for name in contestants}
    with parallel_config("loky", n_jobs=n_jobs, inner_max_num_threads=1):
        judged = Parallel(return_as="generator")(
            delayed(_judged)(fold, contestants[name]) for name, fold in tasks
        )
        for (name, _), (words, values, seconds) in zip(tasks, judged, strict=True):
            records[name].words.append(words)
            records[name].values.append(values)
            records[name].seconds.append(seconds)
            print(f"  {name}: {words}", file=sys.stderr, flush=True)
    return records


def _judged(fold: Fold, contestant: Contestant) -> tuple[str, dict[str, np.ndarray], float]:
    """What a contestant has chosen, its values on each query, and its seconds of processor time."""
    CONTESTANTS["RankRLS, default"](fold.pool)  # times do not include compilation
    start = time.process_time()
    chosen = contestant(fold.pool)
    seconds = time.process_time() - start
    return chosen.words, fold.judge(chosen.scores(fold.X, fold.qid)), seconds


def run(problem: str) -> dict[str, Any]:
    """Means over the queries of a fold, then over folds; p-values against AutoRanker; seconds."""
    print(problem, file=sys.stderr, flush=True)
    return figures(compete(folds(problem), n_jobs=cpu_count()))


def figures(records: Mapping[str, Record]) -> dict[str, Any]:
    """The figures of each contestant; seconds are those of the first fold."""
    ours = _by_query(records[OURS])
    found = {}
    for name, record in records.items():
        of_one: dict[str, Any] = {"words": record.words, "seconds": round(record.seconds[0], 3)}
        for metric in VALUES:
            means = [fold[metric].mean() for fold in record.values]
            theirs = _by_query(record)[metric]
            of_one[metric] = round(float(np.mean(means)), 6)
            of_one[f"p {metric}"] = round(paired_test(ours[metric], theirs).p_value, 6)
        found[name] = of_one
    return found


def _by_query(record: Record) -> dict[str, QueryValues]:
    """The values on all test queries; each is in one fold."""
    joined = {m: np.concatenate([fold[m] for fold in record.values]) for m in VALUES}
    return {m: QueryValues(np.arange(len(values)), values) for m, values in joined.items()}


def text(results: dict[str, dict[str, Any]]) -> str:
    """A table for each problem, and one of means."""
    parts = [_sentences(results)]
    header = (
        Column("", ""), Column("MAP"), Column("p", ".2g"), Column("NDCG@10"), Column("p", ".2g"),
        Column("time, AutoRanker = 1", ".2f"),
    )  # fmt: skip
    for problem in (name for name in PROBLEMS if name in results):
        found = results[problem]
        rows = [_row(name, values, found[OURS]) for name, values in found.items()]
        best = {(max(range(len(rows)), key=lambda r: rows[r][c]), c) for c in (1, 3)}
        table = Table(header, tuple(rows), TITLES[problem], best=frozenset(best))
        parts.append(table.to_markdown())
    if len(results) > 1:
        names = list(results[next(iter(results))])
        means = [
            (name, *(np.mean([found[name][m] for found in results.values()]) for m in VALUES))
            for name in names
        ]
        columns = (Column("mean of all problems", ""), *(Column(m) for m in VALUES))
        best = {(max(range(len(means)), key=lambda r: means[r][c]), c) for c in (1, 2)}
        parts.append(Table(columns, tuple(means), best=frozenset(best)).to_markdown())
    return "\n\n".join(parts)


def _row(name: str, values: dict[str, Any], ours: dict[str, Any]) -> tuple[Any, ...]:
    p = {m: None if name == OURS else values[f"p {m}"] for m in VALUES}
    ratio = values["seconds"] / ours["seconds"]
    return name, values["MAP"], p["MAP"], values["NDCG@10"], p["NDCG@10"], ratio


def _sentences(results: dict[str, dict[str, Any]]) -> str:
    """How AutoRanker compares with the best booster on each problem."""
    lines = []
    for problem, found in results.items():
        best = max(TREES, key=lambda name: found[name]["NDCG@10"])
        gap = found[OURS]["NDCG@10"] - found[best]["NDCG@10"]
        ratio = found[best]["seconds"] / found[OURS]["seconds"]
        lines.append(
            f"On {TITLES[problem]}, AutoRanker is {abs(gap):.4f} "
            f"{'ahead of' if gap >= 0 else 'behind'} the best tuned booster ({best.split(',')[0]}) "
            f"in NDCG@10 (p = {found[best]['p NDCG@10']:.2g}), in one part in {ratio:.1f} of its "
            "time."
        )
    return " ".join(lines)
