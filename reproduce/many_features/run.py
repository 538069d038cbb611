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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
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


def ranked(ranker: RankRLS) -> Callable[..., tuple[Any, str]]:
    def fit(X: Any, Y: np.ndarray) -> tuple[Any, str]:
        fitted = ranker.fit(X, Y)
        return fitted.predict, f"{fitted.n_iter_} steps, alpha = {fitted.alpha_:.2g}"

    return fit


def ridge(X: Any, Y: np.ndarray) -> tuple[Any, str]:
    model = Ridge(1.0, solver="sparse_cg", tol=1e-6, fit_intercept=True).fit(X, Y)
    return model.predict, "one output after the other"


def one_for_each(model: Any) -> Callable[..., tuple[Any, str]]:
    def fit(X: Any, Y: np.ndarray) -> tuple[Any, str]:
        return OneVsRestClassifier(model).fit(X, Y).decision_function, "one fit for each group"

    return fit


MODELS = {
    "Ridge(alpha=1), sparse_cg": ridge,
    "RankRLS(alpha=1)": ranked(RankRLS(1.0, **CG)),
    'RankRLS(alpha=1, ties="exclude")': ranked(RankRLS(1.0, ties="exclude", **CG)),
    "LinearSVC()": one_for_each(LinearSVC()),
    "LogisticRegression()": one_for_each(LogisticRegression(solver="liblinear")),
}


def run_newsgroups(quick: bool) -> list[Table]:
    X, Y, X_test, Y_test = newsgroups(QUICK if quick else 1)
    RankRLS(1.0, **CG).fit(X[::40], Y[::40])  # compile
    rows, first = [], None
    for name, fit in MODELS.items():
        begin = time.process_time()
        predict, note = fit(X, Y)
        taken = time.process_time() - begin
        first = taken if first is None else first
        scores = np.asarray(predict(X_test))
        precision = np.mean(
            [average_precision(y, f) for y, f in zip(Y_test.T, scores.T, strict=True)]
        )
        rows.append([name, float(precision), taken / first, note])
        print(rows[-1], f"{taken:.1f} s", file=sys.stderr, flush=True)
    columns = (
        Column("model", ""),
        Column("mean average precision", ".4f"),
        Column("CPU time / Ridge", ".2f"),
        Column("how", ""),
    )
    title = f"{X.shape[0]:,} posts, {X.shape[1]:,} features, {X.nnz:,} values"
    return [Table(columns, tuple(map(tuple, rows)), title)]


if __name__ == "__main__":
    sys.exit(run_parts(HERE, __doc__, {"newsgroups": run_newsgroups}))
