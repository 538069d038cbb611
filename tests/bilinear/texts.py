"""Texts whose classes have synonyms, and rankers that are fast on them."""

import numpy as np

from rankwise import Shrinkage, SparseBilinearRanker


def texts(n=60, n_words=12, n_classes=3, seed=0):
    """Rows of a class share words, and each class has synonyms that never meet in a row."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % n_classes
    X = np.zeros((n, n_words))
    for k, label in enumerate(labels):
        own = 4 * label + rng.choice(4, 2, replace=False)
        X[k, own % n_words] = 1.0
        X[k, rng.integers(n_words)] += 0.5
    return X / np.linalg.norm(X, axis=1, keepdims=True), labels


def texts_and_triplets():
    """Rows, classes, and 300 triplets of them."""
    X, labels = texts()
    rng = np.random.default_rng(1)
    triplets = []
    while len(triplets) < 300:
        q, a, b = rng.integers(len(X), size=3)
        if q != a and labels[q] == labels[a] != labels[b]:
            triplets.append((q, a, b))
    return X, labels, np.array(triplets)


def ranker(*, shrinkage=None, **parameters):
    """A fast ranker; `shrinkage` has what differs from shrinking every 7 steps."""
    settings = {"alpha": 2e-3, "n_iter": 400, "eta0": 2.0, "random_state": 0}
    settings |= {"schedule": "invsqrt", **parameters}
    if settings.get("structure", "sparse") == "sparse":
        settings["shrinkage"] = Shrinkage(**{"every": 7, **(shrinkage or {})})
    return SparseBilinearRanker(**settings)
