"""Document ranking as in section 3.1 of the RankRLS paper, and the same protocol on MQ2008.

Features are normalized to [0, 1] in each query. Five folds, as they come with the data: three
parts train, one chooses alpha and, for RankRLS, whether tied pairs count, by MAP; one tests.
Values are means over the queries of a fold, then over the folds.

Usage: RANKWISE_DATA=folder python reproduce/letor/run.py [--write]

``--write`` puts the tables into the README beside this file.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankwise import RLS, RankRLS
from rankwise.data import load_dataset, normalize_per_query
from rankwise.errors import DataError
from rankwise.metrics import average_precision, ndcg, precision_at_k

HERE = Path(__file__).parent
FOLDS = range(1, 6)
POSITIONS = range(1, 11)
ALPHAS = 2.0 ** np.arange(-10, 25)
RANKERS = {
    "RankRLS": [RankRLS(ties="include"), RankRLS(ties="exclude")],
    "RLS": [RLS()],
}
MARKER = "<!-- tables: written by run.py -->"


@dataclass(frozen=True)
class Part:
    X: np.ndarray
    y: np.ndarray
    qid: np.ndarray

    @classmethod
    def load(cls, name: str, fold: int, part: str) -> Part:
        data = load_dataset(name, fold=fold, part=part)
        return cls(normalize_per_query(data.X, data.qid), data.y, data.qid)


def choose(candidates, train: Part, valid: Part):
    """The ranker with the best MAP on the validation part."""
    best, best_map = None, -1.0
    for candidate in candidates:
        path = candidate.fit_path(train.X, train.y, ALPHAS, qid=train.qid)
        maps = [average_precision(valid.y, s, valid.qid) for s in path.predict(valid.X)]
        if max(maps) > best_map:
            best, best_map = path.estimator(int(np.argmax(maps))), max(maps)
    return best


def run(name: str) -> dict[str, dict]:
    """Mean test figures of every ranker."""
    figures: dict[str, list[dict]] = {ranker: [] for ranker in RANKERS}
    for fold in FOLDS:
        train, valid, test = (Part.load(name, fold, p) for p in ("train", "validation", "test"))
        for ranker, candidates in RANKERS.items():
            start = time.perf_counter()
            chosen = choose(candidates, train, valid)
            spent = time.perf_counter() - start
            scores = chosen.predict(test.X)
            truth = (test.y, scores, test.qid)
            figures[ranker].append(
                {
                    "MAP": average_precision(*truth),
                    "MAP2": average_precision(*truth, relevant=2),
                    "NDCG": ndcg(*truth, k=POSITIONS, discount="letor"),
                    "NDCG10": ndcg(*truth, k=10),
                    "P": precision_at_k(*truth, k=POSITIONS),
                    "seconds": spent,
                }
            )
            ties = getattr(chosen, "ties", "-")
            print(
                f"{name} fold {fold}: {ranker}, alpha {chosen.alpha:g}, ties {ties}",
                file=sys.stderr,
            )
    return {
        ranker: {key: np.mean([f[key] for f in folds], axis=0) for key in folds[0]}
        for ranker, folds in figures.items()
    }


def ohsumed_table(ours: dict[str, dict], paper: dict) -> str:
    columns = [
        *(f"{ranker}{where}" for ranker in RANKERS for where in ("", " (paper)")),
        "RankSVM (paper)",
        "RankBoost (paper)",
    ]

    def row(name: str, value, of_paper) -> list[str]:
        cells = []
        for ranker in RANKERS:
            cells += [f"{value(ours[ranker]):.3f}", of_paper(paper[ranker])]
        return [name, *cells, of_paper(paper["RankSVM"]), of_paper(paper["RankBoost"])]

    rows = [
        row("MAP, labels 1 and 2 relevant", lambda f: f["MAP"], lambda p: f"{p['MAP']:.3f}"),
        row("MAP, label 2 relevant", lambda f: f["MAP2"], lambda p: ""),
    ]
    for metric in ("NDCG", "P"):
        rows += [
            row(
                f"{metric}@{k}",
                lambda f, metric=metric, k=k: f[metric][k - 1],
                lambda p, metric=metric, k=k: f"{p[metric][k - 1]:.3f}",
            )
            for k in POSITIONS
        ]
    rows.append(row("seconds for 5 choices", lambda f: 5 * f["seconds"], lambda p: ""))
    return markdown(["OHSUMED", *columns], rows)


def mq2008_table(ours: dict[str, dict]) -> str:
    rows = [
        ["MAP, labels 1 and 2 relevant", *(f"{ours[r]['MAP']:.3f}" for r in RANKERS)],
        ["NDCG@10 (log2(rank + 1))", *(f"{ours[r]['NDCG10']:.3f}" for r in RANKERS)],
        ["NDCG@10 (LETOR 1.0)", *(f"{ours[r]['NDCG'][9]:.3f}" for r in RANKERS)],
        ["P@10", *(f"{ours[r]['P'][9]:.3f}" for r in RANKERS)],
        ["seconds for 5 choices", *(f"{5 * ours[r]['seconds']:.3f}" for r in RANKERS)],
    ]
    return markdown(["MQ2008", *RANKERS], rows)


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    arguments = parser.parse_args()
    try:
        tables = [
            ohsumed_table(run("ohsumed"), json.loads((HERE / "expected.json").read_text())),
            mq2008_table(run("mq2008")),
        ]
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    text = "\n\n".join(tables)
    print(text)
    if arguments.write:
        readme = HERE / "README.md"
        readme.write_text(readme.read_text().split(MARKER)[0] + f"{MARKER}\n\n{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
