"""Human preferences between answers of language models, from frozen embeddings.

A row is an answer: its embedding of 384 numbers, and the logarithm of its length. Whole prompts
are held out.
"""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import DotProduct
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold

from rankwise import PairwiseGP
from rankwise.errors import DataError
from rankwise.metrics.comparison_metrics import accuracy_of
from rankwise.plots import new_axes, plot_reliability, save_figure
from rankwise.report import Column, Table

SETS = {"PandaLM": "pandalm", "HH harmless": "hh_harmless"}
SCALES = list(product((0.0, 0.25, 0.5, 1.0, 2.0), (0.1, 0.25, 0.5, 1.0)))  # embedding, length


@dataclass(frozen=True)
class Preferences:
    """Answers that were preferred, those they were preferred to, and their prompts."""

    chosen: np.ndarray
    rejected: np.ndarray
    longer: np.ndarray
    group: np.ndarray

    def take(self, rows: np.ndarray) -> Preferences:
        parts = (self.chosen, self.rejected, self.longer, self.group)
        return Preferences(*(part[rows] for part in parts))


def folder() -> Path:
    root = Path(os.environ.get("RANKWISE_DATA", ""), "llm_preferences")
    if not os.environ.get("RANKWISE_DATA") or not root.is_dir():
        raise DataError("RANKWISE_DATA must name the folder that holds llm_preferences.")
    return root


def load(name: str) -> Preferences:
    with np.load(folder() / f"embeddings_{name}.npz") as arrays:
        parts = {key: arrays[key] for key in arrays}
    texts = _pandalm(parts["idx"]) if name == "pandalm" else _harmless()
    lengths = np.array([[len(better), len(worse)] for better, worse in texts])
    logs = np.log1p(lengths)
    logs = (logs - logs.mean()) / logs.std()
    return Preferences(
        np.column_stack((parts["chosen"].astype(np.float64), logs[:, 0])),
        np.column_stack((parts["rejected"].astype(np.float64), logs[:, 1])),
        np.where(lengths[:, 0] == lengths[:, 1], 0.5, lengths[:, 0] > lengths[:, 1]),
        parts["group"],
    )


def _pandalm(numbers: np.ndarray) -> list[tuple[str, str]]:
    """(preferred, other) answers, by the majority of three annotators."""
    with gzip.open(folder() / "pandalm_testset-v1.json.gz", "rt", encoding="utf-8") as file:
        entries = {entry["idx"]: entry for entry in json.load(file)}
    texts = []
    for number in numbers.tolist():
        entry = entries[number]
        votes = [entry[f"annotator{k}"] for k in (1, 2, 3)]
        winner = max(set(votes), key=votes.count)
        texts.append((str(entry[f"response{winner}"]), str(entry[f"response{3 - winner}"])))
    return texts


def _harmless() -> list[tuple[str, str]]:
    """The last answers of the two dialogues of every pair."""
    with gzip.open(folder() / "hh_harmless_base_test.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    last = "\n\nAssistant:"
    return [
        (line["chosen"].rsplit(last, 1)[-1], line["rejected"].rsplit(last, 1)[-1]) for line in lines
    ]


def gaussian_process(train: Preferences, test: Preferences) -> np.ndarray:
    """Probabilities by a linear kernel on the embedding and the length, each with its own scale.

    The scales are chosen by four folds of whole prompts, as the strength of logistic regression
    is. The evidence would choose larger ones on PandaLM: answers to one prompt are compared with
    each other several times, which it explains by what sets them apart, and that is of no use for
    others.
    """
    losses = np.zeros(len(SCALES))
    for inner, outer in GroupKFold(4).split(train.chosen, groups=train.group):
        for k, scales in enumerate(SCALES):
            losses[k] -= np.log(_chances(train.take(inner), train.take(outer), scales)).sum()
    return _chances(train, test, SCALES[int(np.argmin(losses))])


def _chances(train: Preferences, test: Preferences, scales: tuple[float, float]) -> np.ndarray:
    both = np.vstack((train.chosen, train.rejected))
    scale = np.append(np.full(both.shape[1] - 1, scales[0]), scales[1])
    columns = scale > 0
    n = len(train.chosen)
    pairs = np.column_stack((np.arange(n), n + np.arange(n)))
    # A linear function is known everywhere from its values at the unit vectors: nothing is lost.
    gp = PairwiseGP(DotProduct(0.0, "fixed"), landmarks=np.eye(int(columns.sum())), optimizer=None)
    gp.fit_pairs((scale * both)[:, columns], pairs)
    first, second = ((scale * part)[:, columns] for part in (test.chosen, test.rejected))
    return gp.predict_preference(first, second, observed=True)


def logistic(train: Preferences, test: Preferences, columns: slice) -> np.ndarray:
    """Probabilities by logistic regression on differences, tuned by four folds of prompts."""
    sign = np.where(np.arange(len(train.chosen)) % 2, 1, -1)
    gap = (train.chosen - train.rejected)[:, columns] * sign[:, None]
    search = GridSearchCV(
        LogisticRegression(fit_intercept=False, max_iter=5000),
        {"C": np.logspace(-3, 3, 13)},
        scoring="neg_log_loss",
        cv=GroupKFold(4),
    ).fit(gap, sign, groups=train.group)
    return search.predict_proba((test.chosen - test.rejected)[:, columns])[:, 1]


def held_out(data: Preferences, n_folds: int = 5) -> dict[str, np.ndarray]:
    """Probability of every observed preference, by models trained without its prompt."""
    models = {
        "PairwiseGP, embedding and length": gaussian_process,
        "logistic regression, embedding and length": lambda a, b: logistic(a, b, slice(None)),
        "logistic regression, embedding": lambda a, b: logistic(a, b, slice(-1)),
        "logistic regression, length": lambda a, b: logistic(a, b, slice(-1, None)),
    }
    chances = {name: np.empty(len(data.chosen)) for name in models}
    folds = GroupKFold(n_folds, shuffle=True, random_state=0)
    for train, test in folds.split(data.chosen, groups=data.group):
        parts = data.take(train), data.take(test)
        for name, model in models.items():
            chances[name][test] = model(*parts)
    return chances


def table(name: str, data: Preferences, chances: dict[str, np.ndarray]) -> Table:
    rows = [("the longer answer", float(data.longer.mean()), None)]
    rows += [
        (
            model,
            float(accuracy_of(np.ones(len(chance)), chance - 0.5).mean()),  # 0.5 is half right
            float(-np.log(chance).mean()),
        )
        for model, chance in chances.items()
    ]
    return Table(
        (Column("model"), Column("accuracy", ".3f"), Column("log-loss", ".3f")),
        tuple(rows),
        f"{name}: {len(data.group)} preferences, {len(np.unique(data.group))} prompts, five folds "
        "of whole prompts",
        note=f"Random guessing has a log-loss of {np.log(2):.3f}.",
    )


def figure(found: dict[str, dict[str, np.ndarray]], path) -> None:
    """Reliability: every preference is asked about in one of its two orders."""
    axes = new_axes(columns=len(found), size=(4.4, 4.8))
    for ax, (name, chances) in zip(axes, found.items(), strict=True):
        shown = {model.split(",")[0]: chance for model, chance in list(chances.items())[:2]}
        turned = np.random.default_rng(0).random(len(next(iter(shown.values())))) < 0.5
        asked = {model: np.where(turned, 1 - c, c) for model, c in shown.items()}
        plot_reliability(~turned, asked, n_bins=8, ax=ax)
        ax.set_title(name, fontsize=11, pad=26)
    save_figure(axes[0].figure, path)
