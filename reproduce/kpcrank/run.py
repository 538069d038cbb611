"""The experiments of sections 6.1 and 6.2 of the KPCRank paper.

Noise (6.1): normal noise of standard deviation 0, 0.5 and 1.0 is added to training scores between 0
and 1, three times. The parameters of four rankers are chosen by five folds of the noisy training
queries: those with the smallest held-out error, or the simplest within one standard error of it.
The rankers are evaluated by the disagreement error on test queries, whose scores have no noise.

Sinc (6.2): 379 comparisons with margins for training, 48 comparisons of other points for testing,
20 seeds. The width of the kernel and the number of components are chosen by five folds of the
training comparisons.

Region: a simulation of where a cut-off after p components is better than a ridge; see region.py.

Usage: RANKWISE_DATA=folder python -m reproduce.kpcrank.run [--write] [names ...]

Names are those of the tasks, "sinc" and "region"; all by default. ``--write`` writes the tables to
the README, and the figures to files.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from rankwise import KPCR, RLS, KPCRank, RankRLS
from rankwise.data import load_dataset, normalize_per_query
from rankwise.errors import DataError
from rankwise.metrics import disagreement_error
from rankwise.model_selection import leave_query_out
from reproduce.kpcrank import region
from reproduce.kpcrank.sinc_comparisons import make_sinc_comparisons
from reproduce.pages import put_block

HERE = Path(__file__).parent
SIGMAS = (0.0, 0.5, 1.0)
REPEATS = 3
ALPHAS = 2.0 ** np.arange(-12, 23, 2)
SEEDS = 20
RULES = {"best": "fewest held-out errors", "one_se": "within one standard error"}
PARSES = {"training rows": 500, "test rows": 2698, "per sentence": 3}  # of the paper


@dataclass(frozen=True)
class Part:
    """Scored rows, scores from 0 to 1."""

    X: object
    y: np.ndarray
    qid: np.ndarray


@dataclass(frozen=True)
class Task:
    """A training and a test part, and the kernels to choose from."""

    train: Part
    test: Part
    kernels: tuple[dict, ...]


def parses() -> Iterator[Task]:
    """The sample of BioInfer: 100 candidate parses of 22 sentences, and 100 of 20 others."""
    from reproduce.parses import bioinfer

    parts = []
    for name in ("train", "test"):
        data = bioinfer.load(name)
        parts.append(Part(data.X, data.y, data.qid))
    yield Task(*parts, ({"kernel": "linear"}, {"kernel": "cosine"}))


def genia() -> Iterator[Task]:
    """Candidate parses of GENIA: at most three of a sentence, 500 to train, 2698 to test."""
    from reproduce.parses.features import WalkCounts
    from reproduce.parses.run import corpus

    parsed = corpus().parsed
    linkages, y, qid = [], [], []
    for k in np.random.default_rng(0).permutation(len(parsed)):
        some = parsed[k].linkages[: PARSES["per sentence"]]
        linkages += some
        y += parsed[k].scores()[: len(some)].tolist()
        qid += [k] * len(some)
    train, test = cut(np.array(qid), PARSES["training rows"], PARSES["test rows"])
    counts = WalkCounts(linkages[: test.stop], max_length=2).features(2, 1.0, cosine=False)
    parts = [Part(counts[part], np.array(y)[part], np.array(qid)[part]) for part in (train, test)]
    yield Task(*parts, ({"kernel": "linear"}, {"kernel": "cosine"}))


def cut(qid: np.ndarray, n_train: int, n_test: int) -> tuple[slice, slice]:
    """The first rows, and as many as are wanted of the sentences that follow: none is in both."""
    start = n_train + int(np.argmax(qid[n_train:] != qid[n_train - 1]))
    return slice(0, n_train), slice(start, start + n_test)


def ohsumed() -> Iterator[Task]:
    """OHSUMED, five folds: eight documents of each training query, some 500 rows."""
    for fold in range(1, 6):
        parts = []
        for name in ("train", "test"):
            data = load_dataset("ohsumed", fold=fold, part=name)
            X = normalize_per_query(data.X, data.qid)
            parts.append(Part(X, data.y / 2, data.qid))
        train = parts[0]
        rng = np.random.default_rng(fold)
        order = rng.permutation(len(train.y))
        place = np.empty(len(order), dtype=int)
        for q in np.unique(train.qid):
            rows = order[train.qid[order] == q]
            place[rows] = np.arange(len(rows))
        kept = np.flatnonzero(place < 8)
        sample = Part(train.X[kept], train.y[kept], train.qid[kept])
        yield Task(sample, parts[1], widths(25))


def low_dimensional() -> Iterator[Task]:
    """500 rows, 2500 to test, in queries of five: two directions of large variance tell all."""
    rng = np.random.default_rng(0)
    mixing = np.linalg.qr(rng.standard_normal((30, 30)))[0]

    def part(n_rows: int) -> Part:
        hidden = rng.standard_normal((n_rows, 30)) * np.r_[2.0, 2.0, np.full(28, 0.5)]
        score = np.sin(hidden[:, 0]) + 0.5 * hidden[:, 1]
        score = (score - score.min()) / np.ptp(score)
        return Part(hidden @ mixing.T, score, np.arange(n_rows) // 5)

    yield Task(part(500), part(2500), widths(30))


def widths(n_features: int) -> tuple[dict, ...]:
    return tuple({"kernel": "rbf", "gamma": g / n_features} for g in (0.03, 0.3, 3.0))


TASKS = {
    "GENIA parses": genia,
    "BioInfer parses": parses,
    "OHSUMED": ohsumed,
    "low-dimensional": low_dimensional,
}


def by_components(kind, task: Task) -> dict:
    """KPCR or KPCRank: the kernel with the fewest held-out errors, and components by each rule."""
    X, y, qid = task.train.X, task.train.y, task.train.qid
    fitted = [kind(cv=5, rule="best", **kernel).fit(X, y, qid=qid) for kernel in task.kernels]
    best = min(fitted, key=lambda ranker: ranker.component_errors_.error.min())
    numbers = {rule: best.component_errors_.chosen(rule) for rule in RULES}
    path = best.predict_path(task.test.X)  # the rule of one standard error never takes more
    return {rule: (path[:, p - 1], f"p = {p}") for rule, p in numbers.items()}


def by_ridge(kind, task: Task) -> dict:
    """RLS or RankRLS: likewise, with the largest alpha that each rule allows."""
    X, y, qid = task.train.X, task.train.y, task.train.qid
    found = [
        leave_query_out(kind(**kernel), X, y, qid=qid, alphas=ALPHAS, n_splits=5)
        for kernel in task.kernels
    ]
    k = int(np.argmin([held_out.score.min() for held_out in found]))
    held_out = found[k]
    bar = held_out.score.min() + held_out.standard_error[held_out.best_index]
    alphas = {"best": held_out.best_alpha, "one_se": ALPHAS[held_out.score <= bar].max()}
    scores = {}
    for rule, alpha in alphas.items():
        ranker = kind(alpha, **task.kernels[k]).fit(X, y, qid=qid)
        scores[rule] = (ranker.predict(task.test.X), f"alpha = {alpha:g}")
    return scores


RANKERS = {
    "KPCR": lambda task: by_components(KPCR, task),
    "KPCRank": lambda task: by_components(partial(KPCRank, weighting="pairs"), task),
    "RLS": lambda task: by_ridge(RLS, task),
    "RankRLS": lambda task: by_ridge(partial(RankRLS, weighting="pairs"), task),
}


def noise_experiment(name: str) -> dict[str, dict[str, np.ndarray]]:
    """Test errors of every ranker by each rule, shape (sigmas, repeats): means over folds."""
    tasks = list(TASKS[name]())
    errors = {
        rule: {ranker: np.zeros((len(SIGMAS), REPEATS)) for ranker in RANKERS} for rule in RULES
    }
    for repeat in range(REPEATS):
        for fold, task in enumerate(tasks):
            rng = np.random.default_rng((repeat, fold))
            noise = rng.standard_normal(len(task.train.y))
            for k, sigma in enumerate(SIGMAS):
                noisy = replace(task.train, y=task.train.y + sigma * noise)
                if sigma == 0 and repeat:  # the same every time
                    for of_rule in errors.values():
                        for values in of_rule.values():
                            values[0, repeat] = values[0, 0]
                    continue
                for ranker, choose in RANKERS.items():
                    for rule, (scores, chosen) in choose(replace(task, train=noisy)).items():
                        error = disagreement_error(task.test.y, scores, task.test.qid)
                        errors[rule][ranker][k, repeat] += error / len(tasks)
                        print(
                            f"{name} {fold + 1}, sigma {sigma}, repeat {repeat + 1}: {ranker}, "
                            f"{rule}: {error:.3f} ({chosen})",
                            file=sys.stderr,
                            flush=True,
                        )
    return errors


def noise_table(name: str, errors: dict[str, np.ndarray], paper: dict | None) -> str:
    header = [name, "without noise", "σ = 0.5", "σ = 1.0"]
    if paper:
        header += [f"{column} (paper, quoted)" for column in header[1:]]
    best = np.min([values.mean(axis=1) for values in errors.values()], axis=0)
    rows = []
    for ranker, values in errors.items():
        cells = []
        for k, row in enumerate(values):
            text = f"{row.mean():.3f}" + (f" ± {row.std(ddof=1):.3f}" if SIGMAS[k] else "")
            cells.append(f"**{text}**" if row.mean() <= best[k] else text)
        if paper:
            cells += [f"{value:.2f}" for value in paper[ranker]]
        rows.append([ranker, *cells])
    return markdown(header, rows)


def wrong_pairs(ranker, data) -> float:
    scores = ranker.predict(data.X_test)
    gap = scores[data.pairs_test[:, 0]] - scores[data.pairs_test[:, 1]]
    return float(np.where(gap == 0, 0.5, np.sign(gap) != np.sign(data.margin_test)).mean())


def sinc_experiment():
    """Errors of KPCRank and RankRLS for every seed, and the ranker of the first."""
    errors: dict[str, list[float]] = {"KPCRank": [], "RankRLS": []}
    first = None
    for seed in range(SEEDS):
        data = make_sinc_comparisons(seed)
        fitted = [
            KPCRank(gamma=gamma, max_components=60).fit_pairs(
                data.X_train, data.pairs_train, margin=data.margin_train
            )
            for gamma in (1.0, 2.0, 4.0)
        ]
        best = min(fitted, key=lambda ranker: ranker.component_errors_.error.min())
        first = first or (data, best)
        errors["KPCRank"].append(wrong_pairs(best, data))
        whole = RankRLS(1e-6, kernel="rbf", gamma=2.0)
        whole.fit_pairs(data.X_train, data.pairs_train, margin=data.margin_train)
        errors["RankRLS"].append(wrong_pairs(whole, data))
        print(
            f"sinc, seed {seed}: {errors['KPCRank'][-1]:.4f} (p = {best.n_components_})",
            file=sys.stderr,
            flush=True,
        )
    return errors, first


def sinc_table(errors: dict[str, list[float]], paper: dict) -> str:
    rows = [
        ["KPCRank", f"{np.mean(errors['KPCRank']):.4f}", f"{paper['KPCRank']:.3f}"],
        ["RankRLS, alpha = 1e-6, gamma = 2", f"{np.mean(errors['RankRLS']):.4f}", ""],
        [
            "pairwise probabilistic regression",
            "",
            f"{paper['pairwise probabilistic regression']:.3f}",
        ],
    ]
    return markdown([f"sinc, mean of {SEEDS} seeds", "wrong test pairs", "paper, quoted"], rows)


def draw_sinc(first, path: Path) -> None:
    """As Fig. 1, right: the function and what KPCRank makes of its comparisons."""
    from rankwise.plots import COLORS, INK, new_axes, save_figure

    data, ranker = first
    x = np.linspace(-4, 4, 801)
    scores = ranker.predict(x[:, None])
    (ax,) = new_axes()
    ax.plot(x, np.sinc(x), color=INK, lw=1.2, ls="--", label="sinc(x)", zorder=4)
    shift = np.mean(np.sinc(x) - scores)  # comparisons tell nothing of it
    label = f"KPCRank, p = {ranker.n_components_}"
    ax.plot(x, scores + shift, color=COLORS[0], lw=1.8, label=label)
    compared = np.unique(data.X_train[data.pairs_train])
    ax.plot(compared, np.full(len(compared), -0.33), "|", color=INK, alpha=0.35, ms=5)
    ax.set_xlabel("x, with the points that were compared")
    ax.set_ylabel("score, up to a constant")
    ax.legend(frameon=False)
    save_figure(ax.figure, path)


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="put tables and figure into files")
    every = [*TASKS, "sinc", "region"]
    parser.add_argument("names", nargs="*", help=f"of {', '.join(every)}; all by default")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(every)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    paper = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))
    for name in arguments.names or every:
        try:
            if name == "sinc":
                errors, first = sinc_experiment()
                tables = [sinc_table(errors, paper["sinc"])]
                if arguments.write:
                    draw_sinc(first, HERE / "sinc.svg")
            elif name == "region":
                values = region.run()
                tables = [region.text(values)]
                if arguments.write:
                    region.figure(values, HERE / "region.svg")
            else:
                of_paper = paper["parses"] if name.endswith("parses") else None
                tables = [
                    noise_table(f"{name}, {RULES[rule]}", errors, of_paper)
                    for rule, errors in noise_experiment(name).items()
                ]
        except (DataError, OSError) as error:
            print(error, file=sys.stderr)
            return 2
        text = "\n\n".join(tables)
        print(f"{text}\n", flush=True)
        if arguments.write:
            put_block(HERE / "README.md", name, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
