"""Baselines: latent semantic analysis, and class probabilities."""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from .data import Split


def latent_semantics(split: Split, n_components: int = 200) -> np.ndarray:
    """Cosines in the space of the first singular vectors (LSA)."""
    svd = TruncatedSVD(n_components, random_state=0).fit(split.X)
    Z = normalize(svd.transform(split.X_test))
    return Z @ Z.T


def class_probabilities(split: Split) -> np.ndarray:
    """Dot products of the class probabilities of logistic regression on the same features."""
    model = LogisticRegression(C=10.0, max_iter=1000, tol=1e-3).fit(split.X, split.y)
    P = model.predict_proba(split.X_test)
    return P @ P.T
