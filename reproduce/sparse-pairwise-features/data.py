"""20 Newsgroups and MNIST as in section IV.A of the paper: rows of unit length, and classes."""

from __future__ import annotations

import gzip
import os
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from rankwise.errors import DataError

N_WORDS, N_PIXELS = 10_000, 28 * 28


@dataclass(frozen=True)
class Split:
    """Training and test rows, without those that have no feature."""

    X: sp.csr_array
    y: np.ndarray
    X_test: sp.csr_array
    y_test: np.ndarray
    names: np.ndarray | None = None

    @classmethod
    def of(cls, X, y, X_test, y_test, names=None) -> Split:
        X, X_test = sp.csr_array(X), sp.csr_array(X_test)
        for part in (X, X_test):
            part.eliminate_zeros()
        train, test = (np.diff(part.indptr) > 0 for part in (X, X_test))
        return cls(X[train], y[train], X_test[test], y_test[test], names)


def folder(name: str) -> Path:
    root = os.environ.get("RANKWISE_DATA")
    path = Path(root or "", name)
    if not root or not path.is_dir():
        raise DataError(f"RANKWISE_DATA must name the folder that holds {name}/.")
    return path


def newsgroups(
    text: str = "subject",
    stop_words: str | None = "english",
    sublinear_tf: bool = True,
    least_idf: float = 0.0,
    validation: bool = False,
) -> Split:
    """Posts with the subject only, with all headers ("post"), or without headers ("body").

    Words of two letters or more, in lower case, without scikit-learn's English stop words; the
    most frequent ones; 1 + log of the count, times least_idf + log(n / df) for a word that df of
    the n training posts have; rows of length 1. With `validation`, a fifth of the training posts
    replace the test posts, which are not used.
    """
    posts, groups = {"train": [], "test": []}, {"train": [], "test": []}
    with tarfile.open(folder("newsgroups20") / "20news-bydate.tar.xz") as archive:
        for member in archive:
            if member.isfile():
                part, group, _ = member.name.split("/")
                part = part.removeprefix("20news-bydate-")
                content = archive.extractfile(member).read().decode("latin-1")
                posts[part].append(_text(content, text))
                groups[part].append(group)
    if validation:
        for kind, labels in ((posts, groups["train"]), (groups, groups["train"])):
            kind["train"], kind["test"] = train_test_split(
                kind["train"], test_size=0.2, random_state=0, stratify=labels
            )
    words = TfidfVectorizer(
        max_features=N_WORDS,
        stop_words=stop_words,
        token_pattern=r"(?u)\b[a-zA-Z]\w+\b",
        sublinear_tf=sublinear_tf,
        use_idf=False,
        norm=None,
    )
    X, X_test = words.fit_transform(posts["train"]), words.transform(posts["test"])
    n = X.shape[0]
    idf = least_idf + np.log(n / np.bincount(X.indices, minlength=X.shape[1]))
    X, X_test = (normalize(part @ sp.diags_array(idf)) for part in (X, X_test))
    _, y = np.unique(groups["train"] + groups["test"], return_inverse=True)
    return Split.of(X, y[:n], X_test, y[n:], words.get_feature_names_out())


def _text(post: str, text: str) -> str:
    headers, _, body = post.partition("\n\n")
    if text == "post":
        return post
    subject = " ".join(re.findall(r"^Subject:(.*)$", headers, flags=re.MULTILINE))
    return f"{subject}\n{body}" if text == "subject" else body


def mnist(validation: bool = False) -> Split:
    """Grey values, rows of length 1. With `validation`, 10,000 training images are the test."""
    where = folder("mnist")

    def read(name: str, skip: int) -> np.ndarray:
        with gzip.open(where / f"{name}-ubyte.gz") as file:
            return np.frombuffer(file.read(), np.uint8, offset=skip)

    def images(name: str) -> sp.csr_array:
        X = read(name, 16).reshape(-1, N_PIXELS).astype(np.float64)
        return sp.csr_array(X / np.linalg.norm(X, axis=1, keepdims=True))

    def labels(name: str) -> np.ndarray:
        return read(name, 8).astype(np.int64)

    X, y = images("train-images-idx3"), labels("train-labels-idx1")
    if validation:
        train, test = train_test_split(
            np.arange(len(y)), test_size=10_000, random_state=0, stratify=y
        )
        return Split.of(X[train], y[train], X[test], y[test])
    return Split.of(X, y, images("t10k-images-idx3"), labels("t10k-labels-idx1"))
