"""Files of real battles: what there is, and what can be derived from other data."""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np

from rankwise.data import load_dataset
from rankwise.errors import DataError
from rankwise.metrics import average_precision

PANDALM = "llm_preferences/pandalm_testset-v1.json.gz"
HH = "llm_preferences/hh_harmless_base_test.jsonl.gz"
DAVIS = "drug_target/davis/drug-target_interaction_affinities_Kd__Davis_et_al.2011.txt.gz"
LENGTHS = (0, 8, 16, 32, 64)  # words at which the classes of answers begin
Row = tuple[str, str, str, object]


def data_file(name: str) -> Path:
    """A file of the data folder."""
    path = Path(os.environ.get("RANKWISE_DATA", ""), name)
    if not path.exists():
        raise DataError(f"There is no {path}: set RANKWISE_DATA to the folder of the data.")
    return path


def write_battles(path: Path, rows: Iterator[Row]) -> Path:
    """A CSV file with the columns of an arena; the group of a battle is its session."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model_a", "model_b", "winner", "session"])
        writer.writerows(rows)
    return path


def winner(a: float, b: float) -> str:
    return "tie" if a == b else "model_a" if a > b else "model_b"


def answers_by_length() -> Iterator[Row]:
    """HH: which lengths of answers people prefer. Pairs of one class are left out."""
    names = [f"{low} to {high - 1} words" for low, high in pairwise(LENGTHS)] + [
        f"{LENGTHS[-1]} or more words"
    ]
    rng = np.random.default_rng(0)
    with gzip.open(data_file(HH), "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            prompt = row["chosen"].rpartition("\n\nAssistant:")[0]
            texts = [row[side].rpartition("\n\nAssistant:")[2] for side in ("chosen", "rejected")]
            classes = np.searchsorted(LENGTHS, [len(text.split()) for text in texts], "right") - 1
            if classes[0] == classes[1]:
                continue
            best, other = (names[k] for k in classes)
            if rng.random() < 0.5:  # which answer was shown first is not known
                yield best, other, "model_a", prompt
            else:
                yield other, best, "model_b", prompt


def features_as_rankers() -> Iterator[Row]:
    """OHSUMED: each feature ranks the documents of a query; higher average precision wins."""
    data = load_dataset("ohsumed")
    X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
    found = [average_precision(data.y, column, data.qid, per_query=True) for column in X.T]
    values = np.array([result.values for result in found])
    for query, column in enumerate(values.T):
        for i, j in combinations(range(len(column)), 2):
            a, b = round(column[i], 9), round(column[j], 9)
            yield f"feature {i + 1}", f"feature {j + 1}", winner(a, b), query


def drugs_by_affinity() -> Iterator[Row]:
    """Davis: of two drugs, the one that binds a protein more strongly wins.

    Drugs that do not bind (Kd of 10,000 nM) tie; two of them on one protein are left out.
    """
    kd = np.loadtxt(data_file(DAVIS))
    for protein, column in enumerate(kd.T):
        for i, j in combinations(range(len(column)), 2):
            if min(column[i], column[j]) < 10_000:
                yield f"drug {i + 1}", f"drug {j + 1}", winner(-column[i], -column[j]), protein


DERIVED = {
    "hh": ("HH: classes of answers by length", answers_by_length),
    "ohsumed": ("OHSUMED: features as rankers", features_as_rankers),
    "davis": ("Davis: drugs by affinity to proteins", drugs_by_affinity),
}
