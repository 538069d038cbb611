"""Rankers under noise: parameters chosen by five folds of noisy queries, errors on clean ones.

All samples of noise are outputs of one fit, so that they share kernels and components. Each output
has its own parameters.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from rankwise import KPCR, RLS, ComponentOptions, KPCRank, RankRLS
from rankwise.metrics import disagreement_error

SIGMAS = {"σ = 0.5": 0.5, "σ = 1.0": 1.0}  # of the paper
MULTIPLES = {"noise = spread": 1.0, "noise = 3 × spread": 3.0}
CLEAN = "without noise"
LEVELS = (CLEAN, *MULTIPLES, *SIGMAS)
REPEATS, FOLDS = 20, 5
ALPHAS = 2.0 ** np.arange(-12, 23, 2)
RIDGES = np.concatenate(([0.0], ALPHAS[::3]))  # on components
MOST = 100  # components; the paper has fewer
RULES = {"best": "fewest held-out errors", "one_se": "within one standard error"}
TIES = {"half": "all pairs, ties count 1/2", "exclude": "pairs of different scores"}


@dataclass(frozen=True)
class Part:
    """Scored rows, scores from 0 to 1."""

    X: Any
    y: np.ndarray
    qid: np.ndarray

    def take(self, rows: np.ndarray) -> Part:
        return Part(self.X[rows], self.y[rows], self.qid[rows])


@dataclass(frozen=True)
class View:
    """Training and test rows as a kernel sees them."""

    kernel: dict
    train: Any
    test: Any

    @classmethod
    def in_span(cls, train: Any, test: Any, cosine: bool) -> View:
        """A linear or cosine kernel of sparse rows with more features than there are rows.

        Coordinates in the span of the training rows: inner products with these are the same.
        """
        train, test = (normalize(X) if cosine else X for X in (train, test))
        values, vectors = np.linalg.eigh((train @ train.T).toarray())
        kept = values > 1e-10 * values[-1]
        A = vectors[:, kept] / np.sqrt(values[kept])
        return cls(
            {"kernel": "linear", "scale": None},
            *((X @ train.T).toarray() @ A for X in (train, test)),
        )


@dataclass(frozen=True)
class Task:
    """A training and a test part, and the kernels to choose from."""

    train: Part
    test: Part
    views: tuple[View, ...]


@dataclass(frozen=True)
class Row:
    """A ranker of the tables: scores for all its settings, in the order of simplicity.

    `scores(kernel, train, X)` has shape (rows of X, settings, outputs). Of settings that a rule
    allows, the first is used.
    """

    name: str
    scores: Callable[[dict, Part, Any], np.ndarray]


def on_components(kind: Any, ridges: np.ndarray, kernel: dict, train: Part, X: Any) -> np.ndarray:
    """Few components first; for each number, the largest ridge first."""
    if getattr(kind().options, "selection", "leading") == "spectral":
        number: Any = "auto"
    else:
        rank = kind("auto", **kernel).fit(train.X, train.y[:, 0], qid=train.qid).n_components_
        number = min(MOST, rank)
    path = kind(number, **kernel).path(train.X, train.y, ridges[::-1], qid=train.qid)
    found = [path.estimator(a).predict_path(X)[:, :MOST] for a in range(len(ridges))]
    joined = np.stack(found, axis=2)
    return joined.reshape(len(joined), -1, joined.shape[3])


def on_ridges(kind: Any, kernel: dict, train: Part, X: Any) -> np.ndarray:
    """The largest alpha first."""
    path = kind(**kernel).path(train.X, train.y, ALPHAS[::-1], qid=train.qid)
    return np.asarray(path.predict(X)).transpose(1, 0, 2)


PAIRS = partial(KPCRank, weighting="pairs")
SPECTRAL = partial(PAIRS, options=ComponentOptions(selection="spectral"))
PLAIN = RIDGES[:1]
ROWS = (
    Row("KPCR", partial(on_components, KPCR, PLAIN)),
    Row("KPCRank", partial(on_components, PAIRS, PLAIN)),
    Row("KPCRank, spectral (4.2)", partial(on_components, SPECTRAL, PLAIN)),
    Row("KPCRank, components and ridge", partial(on_components, PAIRS, RIDGES)),
    Row("RLS", partial(on_ridges, RLS)),
    Row("RankRLS", partial(on_ridges, partial(RankRLS, weighting="pairs"))),
)


def held_out(row: Row, kernel: dict, train: Part) -> tuple[np.ndarray, np.ndarray]:
    """Mean disagreement and its standard error over queries, shape (settings, outputs)."""
    _, codes = np.unique(train.qid, return_inverse=True)
    found, most = [], None
    for k in range(FOLDS):
        inside, outside = codes % FOLDS != k, codes % FOLDS == k
        test = train.take(outside)
        scores = row.scores(kernel, train.take(inside), test.X)
        most = scores.shape[1] if most is None else min(most, scores.shape[1])
        found.append(query_errors(test, scores))
    errors = np.concatenate([values[:, :most] for values in found])
    counted = np.isfinite(errors[:, 0]).sum(axis=0)
    return np.nanmean(errors, axis=0), np.nanstd(errors, axis=0, ddof=1) / np.sqrt(counted)


def query_errors(part: Part, scores: np.ndarray) -> np.ndarray:
    """Disagreement of each query over pairs of different labels, (queries, settings, outputs)."""
    values = []
    for q in np.unique(part.qid):
        rows = np.flatnonzero(part.qid == q)
        i, j = np.triu_indices(len(rows), 1)
        truth = np.sign(part.y[rows[i]] - part.y[rows[j]])[:, None]
        wrong = 0.5 * (1.0 - truth * np.sign(scores[rows[i]] - scores[rows[j]]))
        counted = (truth != 0).sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):  # a query with one label has none
            values.append((wrong * (truth != 0)).sum(axis=0) / counted)
    return np.array(values)


def chosen(error: np.ndarray, spread: np.ndarray, rule: str) -> int:
    """The first setting that a rule allows."""
    best = int(np.argmin(error))
    return int(np.argmax(error <= error[best] + (spread[best] if rule == "one_se" else 0.0)))


def test_errors(row: Row, task: Task) -> dict[str, dict[str, list[float]]]:
    """Of each rule and convention of ties: an error for each output of the training part."""
    train, test = task.train, task.test
    by_kernel = [held_out(row, v.kernel, replace(train, X=v.train)) for v in task.views]
    n_outputs = train.y.shape[1]
    kernels = np.argmin([error.min(axis=0) for error, _ in by_kernel], axis=0)
    found: dict = {rule: {ties: [0.0] * n_outputs for ties in TIES} for rule in RULES}
    for k in np.unique(kernels):
        (error, spread), outputs = by_kernel[k], np.flatnonzero(kernels == k)
        view = task.views[k]
        some = replace(train, X=view.train, y=train.y[:, outputs])
        scores = row.scores(view.kernel, some, view.test)
        for place, o in enumerate(outputs):
            for rule in RULES:
                at = min(chosen(error[:, o], spread[:, o], rule), scores.shape[1] - 1)
                for ties in TIES:
                    found[rule][ties][o] = disagreement_error(
                        test.y, scores[:, at, place], test.qid, label_ties=ties
                    )
    return found


def within_queries(part: Part) -> float:
    """The standard deviation of scores within queries."""
    _, codes = np.unique(part.qid, return_inverse=True)
    sizes = np.bincount(codes)
    means = np.bincount(codes, weights=part.y) / sizes
    return float(np.sqrt(np.sum((part.y - means[codes]) ** 2) / np.sum(sizes - 1)))


def run(name: str, tasks: list[Task]) -> dict:
    """Test errors, by rule, convention of ties, ranker and level: a list over repeats.

    A task with several folds of data takes them in turn, so that each repeat has one.
    """
    spreads = [within_queries(task.train) for task in tasks]
    errors: dict = {rule: {ties: {row.name: {} for row in ROWS} for ties in TIES} for rule in RULES}
    for fold, (task, spread) in enumerate(zip(tasks, spreads, strict=True)):
        y, columns, levels = task.train.y, [task.train.y], [CLEAN]
        for repeat in range(fold, REPEATS, len(tasks)):
            noise = np.random.default_rng((repeat, fold)).standard_normal(len(y))
            sizes = {level: k * spread for level, k in MULTIPLES.items()} | SIGMAS
            columns += [y + size * noise for size in sizes.values()]
            levels += list(sizes)
        noisy = replace(task, train=replace(task.train, y=np.column_stack(columns)))
        for row in ROWS:
            for rule, by_ties in test_errors(row, noisy).items():
                for ties, values in by_ties.items():
                    for level, value in zip(levels, values, strict=True):
                        errors[rule][ties][row.name].setdefault(level, []).append(value)
            print(f"{name}, part {fold + 1}: {row.name}", file=sys.stderr, flush=True)
    return {"spread": float(np.mean(spreads)), "errors": errors}


def text(name: str, found: dict, paper: dict | None) -> str:
    """How the levels of noise compare with the scores, and the tables."""
    spread, errors = found["spread"], found["errors"]
    times = " and ".join(f"{at} is {size / spread:.1f} times" for at, size in SIGMAS.items())
    parts = [
        f"{name}: the standard deviation of training scores within queries (the spread) is "
        f"{spread:.3f}; {times} that. {REPEATS} samples of noise, ± standard error."
    ]
    for rule, words in RULES.items():
        for ties, convention in TIES.items():
            same = ties != "half" and errors[rule][ties] == errors[rule]["half"]
            if not same:  # without equal scores, both conventions are the same
                quoted = paper if ties == "half" else None
                parts.append(table(f"{words}; {convention}", errors[rule][ties], quoted))
    return "\n\n".join(parts)


def table(title: str, errors: dict[str, dict[str, list]], paper: dict | None) -> str:
    header = [title, *LEVELS]
    if paper:
        header += [f"{column} (paper, quoted)" for column in (CLEAN, *SIGMAS)]
    best = {level: min(np.mean(values[level]) for values in errors.values()) for level in LEVELS}
    rows = []
    for ranker, values in errors.items():
        cells = []
        for level in LEVELS:
            found = np.array(values[level])
            shown = f"{found.mean():.3f}"
            if len(found) > 1:
                shown += f" ± {found.std(ddof=1) / np.sqrt(len(found)):.3f}"
            cells.append(f"**{shown}**" if found.mean() <= best[level] else shown)
        if paper:
            cells += [f"{value:.2f}" for value in paper[ranker]] if ranker in paper else ["–"] * 3
        rows.append([ranker, *cells])
    return markdown(header, rows)


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
