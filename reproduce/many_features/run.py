"""20 Newsgroups with all words and pairs of words as features: posts ranked for each group.

Usage: RANKWISE_DATA=folder python -m reproduce.many_features.run [part ...] [--quick] [--write]

The only part is newsgroups. ``--quick`` uses a tenth of the posts. ``--write`` writes the table to
the README.
"""

from __future__ import annotations

import os
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from rankwise import RankRLS
from rankwise.errors import DataError
from rankwise.metrics import average_precision
from rankwise.report import Column, Table
from reproduce.command import run_parts

HERE = Path(__file__).parent
QUICK = 10
ALPHAS = (0.1, 0.3, 1.0, 3.0)
CG = {"solver": "cg", "scale": None}  # which "auto" would choose for all posts


def newsgroups(step: int) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Training rows, their groups as columns of 0 and 1, and the same of test rows."""
    root = os.environ.get("RANKWISE_DATA")
    path = Path(root or "", "newsgroups20", "20news-bydate.tar.xz")
    if not root or not path.is_file():
        raise DataError("RANKWISE_DATA must name the folder that holds newsgroups20/.")
    texts: dict[str, list[str]] = {"train": [], "test": []}
    groups: dict[str, list[str]] = {"train": [], "test": []}
    with tarfile.open(path) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                part, group, _ = member.name.removeprefix("20news-bydate-").split("/")
                _, _, body = content.read().decode("latin-1").partition("\n\n")
                texts[part].append(body)
                groups[part].append(group)
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    X, X_test = words.fit_transform(texts["train"][::step]), words.transform(texts["test"][::step])
    names = np.unique(groups["train"])
    Y, Y_test = (np.array(groups[k][::step])[:, None] == names for k in ("train", "test"))
    return X, Y.astype(float), X_test, Y_test.astype(float)


class RankRLSPath:
    """All alphas by one call of ``path``."""

    def __init__(self, name: str, **parameters: Any) -> None:
        self.name, self.chosen_by, self._parameters = name, str(parameters), parameters

    def validate(self, X: Any, Y: Any, X_valid: Any) -> dict[float, Any]:
        path = RankRLS(1.0, **CG, **self._parameters).path(X, Y, ALPHAS)
        return dict(zip(ALPHAS, path.predict(X_valid), strict=True))

    def fit(self, X: Any, Y: Any, alpha: float) -> tuple[Any, str]:
        ranker = RankRLS(alpha, **CG, **self._parameters).fit(X, Y)
        return ranker.predict, f"alpha = {alpha:g}, {ranker.n_iter_} steps for all groups"


class RidgeAsRankRLS(RankRLSPath):
    """Ridge regression with the alpha of RankRLS, which is the same model."""

    def fit(self, X: Any, Y: Any, alpha: float) -> tuple[Any, str]:
        ridge = Ridge(alpha, solver="sparse_cg", tol=1e-6).fit(X, Y)
        return ridge.predict, f"alpha = {alpha:g}, one group after the other"


class OneForEach:
    """A classifier for each group."""

    def __init__(self, name: str, model: Any, settings: tuple[float, ...]) -> None:
        self.name, self.chosen_by = name, name
        self._model, self._settings = model, settings

    def validate(self, X: Any, Y: Any, X_valid: Any) -> dict[float, Any]:
        return {C: self.fit(X, Y, C)[0](X_valid) for C in self._settings}

    def fit(self, X: Any, Y: Any, C: float) -> tuple[Any, str]:
        model = OneVsRestClassifier(clone(self._model).set_params(C=C)).fit(X, Y)
        return model.decision_function, f"C = {C:g}, a fit for each group"


MODELS = (
    RidgeAsRankRLS("Ridge"),
    RankRLSPath("RankRLS"),
    RankRLSPath('RankRLS, ties="exclude"', ties="exclude"),
    OneForEach("LinearSVC", LinearSVC(), (0.1, 1.0, 10.0)),
    OneForEach(
        "LogisticRegression",
        LogisticRegression(solver="liblinear", dual=True, max_iter=1000),
        (1.0, 10.0, 100.0),
    ),
)


def mean_precision(Y: Any, scores: Any) -> float:
    """Average precision, the mean over the columns."""
    columns = zip(Y.T, np.asarray(scores).T, strict=True)
    return float(np.mean([average_precision(y, f) for y, f in columns]))


def run_newsgroups(quick: bool) -> list[Table]:
    X, Y, X_test, Y_test = newsgroups(QUICK if quick else 1)
    RankRLS(1.0, **CG).fit(X[::40], Y[::40])  # compile
    valid = np.arange(len(Y)) % 3 == 0
    rows: list[tuple[Any, ...]] = []
    seconds: list[float] = []
    settings: dict[str, float] = {}
    for model in MODELS:
        if model.chosen_by not in settings:
            settings[model.chosen_by] = _best(model, X, Y, valid)
        setting = settings[model.chosen_by]
        begin = time.process_time()
        predict, note = model.fit(X, Y, setting)
        seconds.append(time.process_time() - begin)
        precision = mean_precision(Y_test, predict(X_test))
        rows.append((model.name, precision, seconds[-1] / seconds[0], note))
        print(rows[-1], f"{seconds[-1]:.1f} s", file=sys.stderr, flush=True)
    columns = (
        Column("model", ""),
        Column("mean average precision", ".4f"),
        Column("CPU time / Ridge", ".2f"),
        Column("setting", ""),
    )
    title = f"{X.shape[0]:,} posts, {X.shape[1]:,} features, {X.nnz:,} values"
    return [Table(columns, tuple(rows), title)]


def _best(model: Any, X: Any, Y: Any, valid: Any) -> float:
    """The setting with the best mean average precision on held-out training posts."""
    scores = model.validate(X[~valid], Y[~valid], X[valid])
    found = {setting: mean_precision(Y[valid], f) for setting, f in scores.items()}
    print(model.name, found, file=sys.stderr, flush=True)
    return max(found, key=lambda setting: found[setting])


if __name__ == "__main__":
    sys.exit(run_parts(HERE, __doc__, {"newsgroups": run_newsgroups}))
