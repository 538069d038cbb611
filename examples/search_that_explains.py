"""
A search that explains its hits, from raw text files
====================================================

This example starts with a folder of text files, each with a title in its first line and a text
below it. People search with words as in titles and want the text. The two need not share a word. A
title is a query, the text of the same file should come first, and any other text should not. This
relevance is not a class. The bilinear ranker learns which words of a title go with which words of a
text, and every hit can be traced to such pairs of words.

The files are posts of 20 Newsgroups (subject and body) if ``RANKWISE_DATA`` has them, and the
documentation strings of Python's standard library otherwise. With ``--quick``, there are fewer
files and steps.
"""

import ast
import os
import re
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from rankwise import SparseBilinearRanker
from rankwise.data import draw_triplets
from rankwise.plots import new_axes, plot_learning_curve

QUICK = "--quick" in sys.argv
N_FILES, N_WORDS, N_STEPS = (1500, 3000, 20_000) if QUICK else (4000, 6000, 60_000)

# %%
# The files
# ---------
# This part only creates a folder of text files. If you have one, start below.


def posts(archive):
    """Subject and body of each post."""
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile():
                text = tar.extractfile(member).read().decode("latin-1")
                headers, _, body = text.partition("\n\n")
                subject = re.search(r"^Subject:(.*)$", headers, flags=re.MULTILINE)
                yield re.sub(r"\b[Rr][Ee]:", "", subject[1]) if subject else "", body


def docstrings():
    """First line and rest of docstrings of the standard library."""
    library = Path(sysconfig.get_paths()["stdlib"])
    pattern = "[a-p]*.py" if QUICK else "*.py"
    for path in sorted(library.glob(pattern)):
        if "packages" in str(path.relative_to(library)):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):  # files that test parsers
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                if text.count("\n") > 2:
                    yield text.split("\n", 1)


archive = Path(os.environ.get("RANKWISE_DATA", ""), "newsgroups20", "20news-bydate.tar.xz")
source = posts(archive) if archive.is_file() else docstrings()
folder = tempfile.TemporaryDirectory()
for k, (title, text) in enumerate(dict.fromkeys(map(tuple, source))):
    Path(folder.name, f"{k:05}.txt").write_text(f"{title.strip()}\n{text}", encoding="utf-8")

# %%
# From files to rows
# ------------------
# Titles and texts share a vocabulary, so that learning can begin where the cosine is. Files whose
# title or text has no known word cannot be learned from. A fifth of the files are held out.

paths = sorted(Path(folder.name).glob("*.txt"))
paths = [paths[k] for k in np.random.default_rng(0).permutation(len(paths))[:N_FILES]]
pairs = [path.read_text(encoding="utf-8").split("\n", 1) for path in paths]
titles, texts = [title for title, _ in pairs], [text for _, text in pairs]
folder.cleanup()
words = TfidfVectorizer(max_features=N_WORDS, stop_words="english", sublinear_tf=True).fit(texts)
Q, D = words.transform(titles), words.transform(texts)
usable = np.flatnonzero((Q.getnnz(axis=1) > 0) & (D.getnnz(axis=1) > 0))
Q, D = Q[usable], D[usable]
n_train = int(0.8 * len(usable))
train, test = np.arange(n_train), np.arange(n_train, len(usable))
print(f"{len(usable)} files, {len(words.vocabulary_)} words, {len(test)} files held out")

# %%
# Learning
# --------
# The text of a title is compared with another text, drawn at random, eight times for each title.
# The rate and the strength of the L1 norm are chosen on titles that are held out.


def triplets(rows, n):
    """Each row n times, with any of the others."""
    own = np.arange(len(rows))
    pairs = np.column_stack([own, own])
    return rows[draw_triplets(pairs, len(rows), n_negatives=n, random_state=0)]


names = words.get_feature_names_out()
ranker = SparseBilinearRanker(n_iter=N_STEPS, refit=False, random_state=0)
ranker.fit(
    Q, D, triplets(train, 8), query_names=names, document_names=names, held_out=triplets(test, 2)
)
cosine = SparseBilinearRanker(structure="identity").fit(Q, D, triplets(train, 1))
print(f"{ranker.coef_.nnz:,} of {len(names) ** 2:,} weights, {ranker.memory_bytes_ / 1e6:.0f} MB")

# %%
# How good is it?
# ---------------
# All held-out texts are ranked for each held-out title. At which rank is its own text?

for name, model in (("cosine", cosine), ("bilinear", ranker)):
    scores = model.score_all(Q[test], D[test])
    own = np.diag(scores)[:, None]
    ranks = (scores > own).sum(axis=1) + ((scores == own).sum(axis=1) + 1) / 2
    top = np.mean(ranks <= 10)
    print(
        f"{name:<9} mean reciprocal rank {np.mean(1 / ranks):.3f}, in the first ten {top:.3f}, "
        f"median rank {np.median(ranks):.0f}"
    )

# %%
# Searching, and why
# ------------------
# These are the best hits for a few titles, each with the pairs of words that made its score. The
# cosine sees a word with itself. The other pairs were learned.

for q in test[:3]:
    print(f"\nsearch: {titles[usable[q]].strip()!r}")
    rows, found = ranker.rank(Q[[q]], D[test], k=3)
    for row, score in zip(rows, found, strict=True):
        text = " ".join(texts[usable[test[row]]].split())[:60]
        mark = "*" if test[row] == q else " "
        print(f" {mark} {score:6.2f}  {text}")
        pairs = ranker.explain(Q[[q]], D[[test[row]]], k=4)
        print("           " + ", ".join(f"{a}→{b} {value:+.2f}" for a, b, value in pairs))

# %%
# Which words go together
# -----------------------

frequent = np.argsort(-np.asarray(Q.sum(axis=0)).ravel())[:8]
for word in names[frequent]:
    print(f"{word:>12}: {', '.join(name for name, _ in ranker.related_features(word, k=6))}")

# %%
# While it learned
# ----------------
# The error on held-out titles, and the share of weights that are not 0.

upper, lower = new_axes(2, size=(5.8, 3.0))
plot_learning_curve(ranker.learning_curve_, ax=upper)
plot_learning_curve(ranker.learning_curve_, quantity="density", ax=lower)
upper
