"""Preferences between answers of language models, with length as context."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct
from sklearn.model_selection import GroupKFold

from rankwise import PairwiseGP, RankingSearchCV, RankRLS
from rankwise.data import Comparisons
from rankwise.metrics.comparison_metrics import accuracy_of, clustered_mean, log_loss_of
from rankwise.report import Column, Table
from reproduce.pairwise_gp import preferences

SETS = preferences.SETS
ALPHAS = np.geomspace(1e-2, 1e4, 13)
VARIANCES = (1e-3, 0.03, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)  # of the weights of the embedding
CONSTANT = 1e-6  # standard deviation below which a column of the embedding says nothing


@dataclass(frozen=True)
class Answers:
    """Chosen answers, then rejected ones; how much longer the chosen ones are; prompts."""

    X: np.ndarray
    longer: np.ndarray
    group: np.ndarray

    @classmethod
    def of(cls, data: preferences.Preferences) -> Answers:
        X = np.vstack((data.chosen[:, :-1], data.rejected[:, :-1]))
        longer = data.chosen[:, -1:] - data.rejected[:, -1:]
        return cls(X[:, X.std(axis=0) > CONSTANT], longer, data.group)

    def __len__(self) -> int:
        return len(self.group)

    def take(self, rows: np.ndarray) -> Answers:
        both = np.concatenate((rows, len(self) + rows))
        return Answers(self.X[both], self.longer[rows], self.group[rows])

    @cached_property
    def comparisons(self) -> Comparisons:
        n = len(self)
        return Comparisons.of(
            np.arange(n), n + np.arange(n), groups=self.group, context=self.longer
        )

    def chances(self, ranker, **options) -> np.ndarray:
        """Probabilities that the chosen answers are preferred."""
        chosen, rejected = np.split(self.X, 2)
        return ranker.predict_preference(chosen, rejected, context=self.longer, **options)


def rank_rls(train: Answers, test: Answers) -> np.ndarray:
    """alpha is chosen by exact hold-outs of every training prompt."""
    search = RankingSearchCV(RankRLS(scale=None), {"alpha": ALPHAS}, scoring="log_loss")
    return test.chances(search.fit_pairs(train.X, train.comparisons).best_estimator_)


def gaussian_process(train: Answers, test: Answers) -> np.ndarray:
    """The variance of weights is chosen by four folds of training prompts."""
    linear = DotProduct(0.0, "fixed")
    kernels = [ConstantKernel(variance, "fixed") * linear for variance in VARIANCES]
    gp = PairwiseGP(optimizer=None, flips=0.0)
    search = RankingSearchCV(gp, {"kernel": kernels}, cv=4, scoring="log_loss")
    found = search.fit_pairs(train.X, train.comparisons)
    return test.chances(found.best_estimator_, observed=True)


OURS = {
    "RankRLS, embedding, length as context": rank_rls,
    "PairwiseGP, embedding, length as context": gaussian_process,
}
PEERS = {
    "logistic regression, embedding and length": slice(None),
    "logistic regression, embedding": slice(-1),
    "logistic regression, length": slice(-1, None),
}


def held_out(data: preferences.Preferences, n_folds: int = 5) -> dict[str, np.ndarray]:
    """Probability of every observed preference, by models trained without its prompt."""
    answers, found = Answers.of(data), {name: np.empty(len(data.group)) for name in (*OURS, *PEERS)}
    folds = GroupKFold(n_folds, shuffle=True, random_state=0)
    for train, test in folds.split(data.chosen, groups=data.group):
        for name, model in OURS.items():
            found[name][test] = model(answers.take(train), answers.take(test))
        for name, columns in PEERS.items():
            found[name][test] = preferences.logistic(data.take(train), data.take(test), columns)
    return found


def table(name: str, data: preferences.Preferences, chances: dict[str, np.ndarray]) -> Table:
    """Accuracy and log-loss with 95% intervals over prompts."""
    n = len(data.group)
    ones, codes = np.ones(n), np.unique(data.group, return_inverse=True)[1]

    def shown(values: np.ndarray) -> tuple[float, str]:
        mean, error = clustered_mean(values, ones, codes)
        return mean, f"{mean - 1.96 * error:.3f} to {mean + 1.96 * error:.3f}"

    rows = [("the longer answer", *shown(data.longer), None, None)]
    for model, chance in chances.items():
        right, loss = accuracy_of(ones, chance - 0.5), log_loss_of(ones, chance)
        rows.append((model, *shown(right), *shown(loss)))
    best = {
        (int(np.argmax([row[1] for row in rows])), 1),
        (1 + int(np.argmin([row[3] for row in rows[1:]])), 3),
    }
    names = ("model", "accuracy", "95% interval", "log-loss", "95% interval")
    return Table(
        tuple(Column(column, ".3f") for column in names),
        tuple(rows),
        f"{name}: {n} preferences, {codes.max() + 1} prompts, five folds of whole prompts",
        note=f"Random guessing has an accuracy of 0.5 and a log-loss of {np.log(2):.3f}.",
        best=frozenset(best),
    )
