"""Steps of the bilinear ranker compared with plain NumPy and SciPy, and its memory.

Claims: on 20 Newsgroups (10,000 words; generated texts of the same shape without the data), a step
in dense structure takes at most 1.5 times as long as a compiled loop that only loads the entries of
W that the step needs; 5,000 and 4,000 steps per second on one core, in dense and in sparse
structure; 100,000 words in less than 2 GiB.

A step waits for memory: it needs some 10,000 entries in as many cache lines of a matrix of 800 MB.
So how many times faster it is than NumPy depends on the memory of the machine, and is shown without
a claim.

All start from the W after 10,000 steps and take the same steps from there. Times are processor
times, so that other processes matter less. The plain peer multiplies a sparse query by W, adds an
outer product to the rows of the query, and shrinks all of W every 100 steps, as in the paper. The
other peer in NumPy is the fastest that we know: it reads and writes only the block of rows and
columns that a step touches, and shrinks rows when a query touches them. (A SciPy sparse W, rebuilt
at every step, would be far slower.)
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.harness import Result, extra_memory, megabytes
from rankwise import Shrinkage, SparseBilinearRanker
from rankwise.backends.jit import compiled
from rankwise.bilinear import sparse_bilinear
from rankwise.bilinear.algorithm_1 import BilinearSGD, csr_parts

N_WORDS, N_MANY_WORDS = 10_000, 100_000
ALPHA, MANY_ALPHA, ETA0 = 6e-6, 2e-5, 200.0
WARM_UP, STEPS, T = 10_000, 20_000, 100
DENSE_GOAL, SPARSE_GOAL = 5000, 4000
REPEATS, PEER_REPEATS = 4, 3


@cache
def texts() -> tuple[Any, Any]:
    """Rows of unit length and classes: 20 Newsgroups without headers, or texts like them."""
    path = Path(os.environ.get("RANKWISE_DATA", ""), "newsgroups20", "derived_counts_10k.npz")
    if not path.is_file():
        return generated(11_000, N_WORDS)
    with np.load(path, allow_pickle=True) as file:
        counts = (file["train_data"], file["train_indices"], file["train_indptr"])
        X = sp.csr_array(counts, shape=(len(file["y_train"]), len(file["vocab"])), dtype=float)
        return unit_rows(X, file["y_train"])


def generated(n_rows: int, n_words: int) -> tuple[Any, Any]:
    """Texts of some 70 words out of a vocabulary with frequencies like 1 / rank; 20 classes."""
    rng = np.random.default_rng(0)
    labels = np.arange(n_rows) % 20
    ranks = np.arange(1, n_words + 1)
    shared = np.cumsum(1 / (ranks + 5))
    draws = np.searchsorted(shared, rng.uniform(0, shared[-1], (n_rows, 90)))
    # A third of the words are replaced by words of their class.
    own = rng.random(draws.shape) < 0.33
    draws = np.where(own, (draws * 21 + labels[:, None] * 479) % n_words, draws)
    rows = np.repeat(np.arange(n_rows), draws.shape[1])
    X = sp.csr_array((np.ones(draws.size), (rows, draws.ravel())), shape=(n_rows, n_words))
    X.sum_duplicates()
    return unit_rows(X, labels)


def unit_rows(X: Any, labels: Any) -> tuple[Any, Any]:
    """1 + log of counts, times idf, rows of length 1; without empty rows."""
    X.data = 1 + np.log(X.data)
    X = X @ sp.diags_array(np.log(X.shape[0] / (1 + np.bincount(X.indices, minlength=X.shape[1]))))
    X = sp.csr_array(X)
    keep = np.diff(X.indptr) > 0
    X, labels = X[keep], labels[keep]
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(1 / norms) @ X), labels


def triplets(labels: Any, n: int) -> Any:
    """A query, another row of its class, a row of another class."""
    rng = np.random.default_rng(1)
    q = rng.integers(len(labels), size=3 * n)
    a, b = rng.integers(len(labels), size=(2, 40, 3 * n))
    same = (labels[a] == labels[q]) & (a != q)
    other = labels[b] != labels[q]
    found = same.any(axis=0) & other.any(axis=0)
    columns = np.arange(3 * n)
    rows = np.column_stack([q, a[same.argmax(axis=0), columns], b[other.argmax(axis=0), columns]])
    return rows[found][:n]


def started(structure: str, dtype: str) -> tuple[BilinearSGD, float]:
    """A learner after a warm-up, in which W grows to its usual density; and its λ."""
    X, labels = texts()
    lam = ALPHA if structure == "sparse" else 0.0
    start = sp.csr_array(sp.eye_array(X.shape[1], format="csr", dtype=dtype))
    dense_from = 0 if structure == "dense" else None
    learner = BilinearSGD(start, lam=lam, eta0=ETA0, dense_from=dense_from)
    learner.advance(
        csr_parts(X), csr_parts(by_frequency()), triplets(labels, WARM_UP + STEPS)[:WARM_UP]
    )
    return learner, lam


@cache
def by_frequency() -> Any:
    """Documents, their columns ordered as `fit` does."""
    X, _ = texts()
    return sparse_bilinear.renumbered(X, sparse_bilinear.by_frequency(X))


def ours(learner: BilinearSGD) -> float:
    """Steps per second."""
    X, labels = texts()
    D, best = by_frequency(), 0.0
    rows = triplets(labels, WARM_UP + STEPS)[WARM_UP:]
    for part in np.split(rows, REPEATS):
        begin = time.process_time()
        learner.advance(csr_parts(X), csr_parts(D), part)
        best = max(best, len(part) / (time.process_time() - begin))
    return best


@compiled
def load(W: Any, Q: Any, D: Any, triplets: Any) -> float:
    """The sum of the entries of W that each step reads, one step after the other."""
    total = 0.0
    for t in range(len(triplets)):
        q, a, b = triplets[t]
        for k in range(Q.indptr[q], Q.indptr[q + 1]):
            row = W[Q.indices[k]]
            for j in D.indices[D.indptr[a] : D.indptr[a + 1]]:
                total += row[j]
            for j in D.indices[D.indptr[b] : D.indptr[b + 1]]:
                total += row[j]
    return total


def loads(W: Any) -> float:
    """Steps per second of a loop that only loads."""
    X, labels = texts()
    parts, best = (csr_parts(X), csr_parts(by_frequency())), 0.0
    rows = triplets(labels, WARM_UP + STEPS)[WARM_UP:]
    load(W, *parts, rows[:1])  # compiles
    for part in np.split(rows, REPEATS):
        begin = time.process_time()
        load(W, *parts, part)
        best = max(best, len(part) / (time.process_time() - begin))
    return best


def plain(W: Any, lam: float) -> float:
    """Steps per second of a plain Algorithm 1."""

    def step(query: Any, difference: Any, eta: float) -> None:
        if ((query @ W) @ difference.T)[0, 0] < 1:
            W[query.indices] += eta * np.outer(query.data, difference.toarray())

    return timed(step, W, lam)


def blocks(W: Any, lam: float) -> float:
    """Steps per second, reading and writing only the block that a step touches."""
    paid = np.zeros(len(W))
    total = 0.0

    def step(query: Any, difference: Any, eta: float) -> None:
        nonlocal total
        i, j = query.indices, difference.indices
        late = i[paid[i] < total]
        owed = lam * (total - paid[late])[:, None]
        if len(late):
            W[late] -= np.clip(W[late], -owed, owed)
            paid[late] = total
        block = np.ix_(i, j)
        if query.data @ W[block] @ difference.data < 1:
            W[block] += eta * np.outer(query.data, difference.data)

    def shrink(rates: float) -> None:
        nonlocal total
        total += rates if lam else 0.0

    return timed(step, W, lam, shrink)


def timed(
    step: Callable[[Any, Any, float], None],
    W: Any,
    lam: float,
    shrink: Callable[[float], None] | None = None,
) -> float:
    """Steps per second, the best of some stretches of 100, each with one shrinkage."""

    def shrink_all(rates: float) -> None:
        for row in W if lam else ():  # a copy of a row fits the cache, one of W does not
            row -= np.clip(row, -lam * rates, lam * rates)

    X, labels = texts()
    # A product of two types would copy all of W.
    X, D, best = X.astype(W.dtype), by_frequency().astype(W.dtype), 0.0
    rows = triplets(labels, WARM_UP + STEPS)
    for begin in range(WARM_UP, WARM_UP + PEER_REPEATS * T, T):
        start, rates = time.process_time(), 0.0
        for t in range(begin, begin + T):
            q, a, b = rows[t]
            eta = float(ETA0 / np.sqrt(t + 1))
            step(X[[q]], D[[a]] - D[[b]], eta)
            rates += eta
        (shrink or shrink_all)(rates)
        best = max(best, T / (time.process_time() - start))
    return best


def speed(structure: str, dtype: str, goal: int) -> list[Result]:
    learner, lam = started(structure, dtype)
    W = learner.weights().toarray()
    mine = ours(learner)
    del learner
    fewest = loads(W)
    fast, slow = blocks(W, lam), plain(W, lam)
    claim = f"bilinear ranker, {structure}, {N_WORDS:,} words, {dtype}"
    shown = f"{mine:,.0f} steps/s"
    limit = 1.5 if structure == "dense" else float("inf")  # sparse rows are elsewhere in memory
    return [
        Result(claim, shown, f"loads only: {fewest:,.0f} steps/s", fewest / mine, limit),
        Result(claim, shown, f"NumPy and SciPy: {slow:,.0f} steps/s", slow / mine, float("inf")),
        Result(claim, shown, f"NumPy on blocks: {fast:,.0f} steps/s", fast / mine, float("inf")),
        Result(f"{claim}, on one core", shown, f"{goal:,} steps/s", goal / mine, 1.0),
    ]


def memory() -> list[Result]:
    extra = extra_memory(many_words, fit_many_words)
    limit = 2 * 2**30
    dense = 8 * N_MANY_WORDS**2
    claim = f"memory of a fit with {N_MANY_WORDS:,} words"
    return [
        Result(claim, megabytes(extra), "2 GiB", extra / limit, 1.0),
        Result(claim, megabytes(extra), f"a dense W: {megabytes(dense)}", extra / dense, 0.03),
    ]


def ranker(alpha: float, **steps: Any) -> SparseBilinearRanker:
    """With the rates of the paper."""
    return SparseBilinearRanker(alpha, eta0=ETA0, schedule="invsqrt", random_state=0, **steps)


def many_words() -> Any:
    small, labels = generated(100, 50)
    ranker(ALPHA, n_iter=10, shrinkage=Shrinkage(every=10)).fit_classes(small, labels)  # compiles
    return generated(20_000, N_MANY_WORDS)


def fit_many_words(problem: Any) -> None:
    X, labels = problem
    ranker(MANY_ALPHA, n_iter=20_000).fit_classes(X, labels)


def cases() -> list[Result]:
    calls: list[Callable[[], list[Result]]] = [
        *(
            partial(speed, structure, dtype, goal)
            for structure, goal in (("dense", DENSE_GOAL), ("sparse", SPARSE_GOAL))
            for dtype in ("float64", "float32")
        ),
        memory,
    ]
    return [result for call in calls for result in call()]
