"""Sparse RankRLS costs as much as its kernel values, a symmetric product and a small factorization.

Time is linear in the number of rows, and memory does not depend on it. A plot of both is written to
results/sparse_scaling.svg.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.blas import dgemm, dsyrk

from benchmarks.harness import Result, best_times, extra_memory, megabytes, seconds
from rankwise import SparseRankRLS
from rankwise.data import LetorBlocks
from rankwise.plots import new_axes, save_figure

ROWS, FEATURES, LANDMARKS, QUERIES = 100_000, 50, 1000, 1000
STREAMED_LANDMARKS, BLOCK_ROWS = 500, 10_000
SIZES = (100_000, 200_000, 400_000, 1_000_000)
LETOR_BYTES, LETOR_FEATURES, LETOR_LANDMARKS = 1_000_000_000, 136, 500
ALPHAS = np.geomspace(1e-3, 1e3, 10)
RESULTS = Path(__file__).parent / "results"


def problem() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES))
    return X, rng.standard_normal(ROWS), np.arange(ROWS) // (ROWS // QUERIES)


def run_path(data: tuple[Any, Any, Any]) -> None:
    X, y, qid = data
    SparseRankRLS(1.0, n_landmarks=LANDMARKS, random_state=0, scale=None).path(
        X, y, ALPHAS, qid=qid
    )


def in_memory() -> list[Result]:
    X, y, qid = problem()
    landmarks = X[:LANDMARKS].copy()
    K = np.empty((ROWS, LANDMARKS))
    run_path((X[:2000], y[:2000], qid[:2000]))  # compile

    def kernel() -> None:
        """Kernel values only: a product and an exponential, block by block."""
        squares, own = np.einsum("ij,ij->i", X, X), np.einsum("ij,ij->i", landmarks, landmarks)
        for start in range(0, ROWS, 2048):
            rows = slice(start, start + 2048)
            block = dgemm(2.0 / FEATURES, landmarks.T, X[rows].T, trans_a=1).T
            block -= squares[rows, None] / FEATURES
            block -= own / FEATURES
            np.exp(block, out=K[rows])

    kernel()
    symmetric = K[:LANDMARKS].T @ K[:LANDMARKS]
    ours, *parts = best_times(
        lambda: run_path((X, y, qid)),
        kernel,
        lambda: dsyrk(1.0, K.T),
        lambda: eigh(symmetric),
    )
    words = f"kernel {seconds(parts[0])} + dsyrk {seconds(parts[1])} + eigh {seconds(parts[2])}"
    size = f"{ROWS:,} x {FEATURES}, {LANDMARKS} landmarks"
    extra = extra_memory(problem, run_path)
    return [
        Result(f"ten alphas, {size}", seconds(ours), words, ours / sum(parts), 1.6),
        Result(f"extra memory, {size}", megabytes(extra), "300 MB", extra / 300e6, 1.0),
    ]


class Stream:
    """Blocks of whole queries, generated on demand."""

    def __init__(self, n_rows: int) -> None:
        rng = np.random.default_rng(0)
        self.n_rows = n_rows
        self.X = rng.standard_normal((BLOCK_ROWS, FEATURES))
        self.y = rng.standard_normal(BLOCK_ROWS)
        self.qid = np.arange(BLOCK_ROWS) // 100

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        for start in range(0, self.n_rows, BLOCK_ROWS):
            yield self.X + 1e-3 * np.sin(start), self.y, self.qid + start


def fit_stream(stream: Stream) -> None:
    SparseRankRLS(1.0, n_landmarks=STREAMED_LANDMARKS, random_state=0, scale=None).fit_blocks(
        stream
    )


def streamed() -> list[Result]:
    fit_stream(Stream(2 * BLOCK_ROWS))
    times = []
    for n_rows in SIZES:
        start = time.perf_counter()
        fit_stream(Stream(n_rows))
        times.append(time.perf_counter() - start)
    exponent = float(np.polyfit(np.log(SIZES), np.log(times), 1)[0])
    memory = [extra_memory(partial(Stream, n), fit_stream) for n in (SIZES[0], SIZES[-1])]
    _draw(times, memory)
    size = f"{SIZES[0]:,} to {SIZES[-1]:,} rows, {STREAMED_LANDMARKS} landmarks, from blocks"
    ours = ", ".join(seconds(t) for t in times)
    held = f"{megabytes(memory[1])} for {SIZES[-1]:,} rows"
    return [
        Result(f"exponent of time in rows, {size}", ours, "1, linear", exponent, 1.1),
        Result(
            f"peak memory, {size}",
            held,
            f"{megabytes(memory[0])} for {SIZES[0]:,}",
            memory[1] / memory[0],
            1.1,
        ),
    ]


def _draw(times: list[float], memory: list[int]) -> None:
    left, right = new_axes(columns=2, size=(3.6, 3.2))
    left.loglog(SIZES, times, "o-", label="measured")
    left.loglog(SIZES, times[0] * np.array(SIZES) / SIZES[0], "--", color="0.6", label="linear")
    left.set(xlabel="rows", ylabel="seconds")
    left.legend(frameon=False)
    right.semilogx([SIZES[0], SIZES[-1]], np.array(memory) / 1e6, "o-")
    right.set(xlabel="rows", ylabel="additional MB", ylim=(0, 1.3 * max(memory) / 1e6))
    RESULTS.mkdir(exist_ok=True)
    save_figure(left.figure, RESULTS / "sparse_scaling.svg")


def fit_file(path: str) -> None:
    SparseRankRLS(1.0, n_landmarks=LETOR_LANDMARKS, random_state=0, scale=None).fit_blocks(
        LetorBlocks(path)
    )


def from_file() -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "big.txt")
        n_bytes = write_large(path)
        extra = extra_memory(partial(str, path), fit_file)
    claim = f"extra memory of a fit from a LETOR file of {n_bytes / 1e9:.2f} GB"
    return [Result(claim, megabytes(extra), "400 MB", extra / 400e6, 1.0)]


def write_large(path: str) -> int:
    """Queries of 100 rows in the style of MSLR-WEB10K: copies of a few, with new ids."""
    rng = np.random.default_rng(0)
    queries = []
    for _ in range(20):
        rows = rng.standard_normal((100, LETOR_FEATURES))
        lines = [
            f"{k % 5} qid:%d " + " ".join(f"{j + 1}:{v:.6f}" for j, v in enumerate(row))
            for k, row in enumerate(rows.tolist())
        ]
        queries.append("\n".join(lines) + "\n")
    n_bytes = number = 0
    with open(path, "w") as file:
        while n_bytes < LETOR_BYTES:
            text = queries[number % len(queries)].replace("%d", str(number))
            n_bytes += file.write(text)
            number += 1
    return n_bytes


def cases() -> list[Result]:
    return [*in_memory(), *streamed(), *from_file()]
