"""How KPCRank should choose its number of components: rules compared on held-out queries.

For each data set, queries are dealt into five folds. For each fold, held-out errors for 1 to 200
components come from five folds of the other queries; each rule chooses a number; and rankers with
these numbers, fitted to the other queries, rank the fold. NDCG@10 is averaged over all queries.
Features are scaled to [0, 1] within queries, the kernel is rbf on 300 landmarks. Of OHSUMED and
MQ2008, only the training and validation parts of fold 1 are used.

Usage: RANKWISE_DATA=folder python -m reproduce.kpcrank.rules [names ...]
"""

from __future__ import annotations

import sys

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1

from rankwise import KPCRank
from rankwise.data import load_dataset, make_ranking, normalize_per_query
from rankwise.graph import QueryGroups
from rankwise.metrics import disagreement_error, ndcg
from rankwise.tables import Column, Table

FOLDS, MOST, LANDMARKS = 5, 200, 300


def letor(name):
    """Training and validation parts of the first fold."""
    parts = [load_dataset(name, fold=1, part=part) for part in ("train", "validation")]
    return tuple(
        np.concatenate([getattr(part, key) for part in parts]) for key in ("X", "y", "qid")
    )


def graded(X, values, n_queries, seed):
    """Rows in random queries, with grades 0 to 3."""
    cuts = np.quantile(values, [0.6, 0.8, 0.95])
    qid = np.random.default_rng(seed).permutation(np.arange(len(X)) % n_queries)
    return X, np.digitize(values, cuts).astype(float), qid


def interactions():
    """Products and steps of features, with noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 8))
    f = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + (X[:, 3] > 0) * X[:, 4]
    return graded(X, f + 0.5 * rng.standard_normal(3000), 150, 1)


def friedman():
    """scikit-learn's first problem of Friedman."""
    X, f = make_friedman1(3000, noise=3.0, random_state=0)
    return graded(X, f, 150, 2)


def diabetes():
    """scikit-learn's patients in groups of about ten, by the progress of the disease."""
    X, f = load_diabetes(return_X_y=True)
    return graded(X, f, 44, 3)


def noisy():
    """A linear problem with much noise."""
    data = make_ranking(
        150, rows_per_query=20, n_features=10, noise=2.0, n_levels=4, random_state=0
    )
    return data.X, data.y, data.qid


SETS = {
    "ohsumed": lambda: letor("ohsumed"),
    "mq2008": lambda: letor("mq2008"),
    "interactions": interactions,
    "friedman": friedman,
    "diabetes": diabetes,
    "noisy": noisy,
}


def within(errors, spread, share):
    """The fewest components with a mean error within a share of a standard error of the best."""
    means = errors.mean(axis=1)
    best = int(np.argmin(means))
    return int(np.argmax(means <= means[best] + share * spread[best])) + 1


def paired(errors):
    """The fewest whose difference from the best is within its own standard error over queries."""
    best = errors[int(np.argmin(errors.mean(axis=1)))]
    gap = errors - best
    spread = gap.std(axis=1, ddof=1) / np.sqrt(errors.shape[1])
    return int(np.argmax(gap.mean(axis=1) <= spread)) + 1


def numbers(errors):
    """What each rule chooses from errors of shape (components, queries)."""
    spread = errors.std(axis=1, ddof=1) / np.sqrt(errors.shape[1])
    return {
        "best": within(errors, spread, 0.0),
        "one s.e.": within(errors, spread, 1.0),
        "half s.e.": within(errors, spread, 0.5),
        "paired s.e.": paired(errors),
    }


def deal(qid):
    """The fold of each row."""
    return QueryGroups.of(qid).codes % FOLDS


def paths(X, y, qid, train, test):
    """Scores of the rows `test` with 1, 2, ... components, shape (components, rows)."""
    n_landmarks = min(LANDMARKS, train.sum() - 1)
    ranker = KPCRank(MOST, n_landmarks=n_landmarks, random_state=0, scale=None)
    return ranker.fit(X[train], y[train], qid=qid[train]).predict_path(X[test]).T


def run(name):
    """NDCG@10 of every query by rule, and the numbers chosen."""
    X, y, qid = SETS[name]()
    X, outer = normalize_per_query(X, qid), deal(qid)
    values, chosen = {}, {}
    for k in range(FOLDS):
        train = outer != k
        inner, held_out = deal(qid[train]), []
        labels, ids = y[train], qid[train]
        for j in range(FOLDS):
            test = inner == j
            scores = paths(X[train], labels, ids, ~test, test)
            per_query = [
                disagreement_error(labels[test], one, ids[test], per_query=True).values
                for one in scores
            ]
            held_out.append(np.array(per_query))
        n = min(map(len, held_out))
        rules = numbers(np.concatenate([errors[:n] for errors in held_out], axis=1))
        scores = paths(X, y, qid, train, ~train)
        for rule, p in rules.items():
            one = ndcg(
                y[~train], scores[min(p, len(scores)) - 1], qid[~train], k=10, per_query=True
            )
            values.setdefault(rule, []).append(one.values)
            chosen.setdefault(rule, []).append(p)
    return {rule: np.concatenate(found) for rule, found in values.items()}, chosen


def main():
    for name in sys.argv[1:] or SETS:
        values, chosen = run(name)
        rows = []
        for rule, found in values.items():
            gain = found - values["one s.e."]
            spread = gain.std(ddof=1) / np.sqrt(len(gain))
            more = f"{gain.mean():+.4f} ± {spread:.4f}"
            rows.append((rule, found.mean(), more, ", ".join(map(str, chosen[rule]))))
        names = "rule", "NDCG@10", "more than one s.e.", "components in each fold"
        columns = [Column(name) for name in names]
        print(f"{name}\n{Table(tuple(columns), tuple(map(tuple, rows)))}\n", flush=True)


if __name__ == "__main__":
    main()
