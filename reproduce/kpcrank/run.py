"""The experiments of sections 6.1 and 6.2 of the KPCRank paper.

Noise (6.1): normal noise is added to training scores between 0 and 1, twenty times: of standard
deviation 0.5 and 1.0, as in the paper, and of 1 and 3 times the standard deviation of scores within
queries. The parameters of the rankers are chosen by five folds of the noisy training queries: those
with the smallest held-out error, or the simplest within one standard error of it. The rankers are
evaluated by the disagreement error on test queries, whose scores have no noise.

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
from pathlib import Path

import numpy as np

from rankwise import ComponentOptions, KPCRank, PairwiseGP, RankRLS
from rankwise.data import load_dataset, normalize_per_query
from rankwise.errors import DataError
from reproduce.kpcrank import noise, region
from reproduce.kpcrank.noise import Part, Task, View, markdown
from reproduce.kpcrank.sinc_comparisons import make_sinc_comparisons
from reproduce.pages import put_block

HERE = Path(__file__).parent
SEEDS = 20
PROCESSES = {  # the paper does not say which of them its figure is for
    "Gaussian process, margins": ({"likelihood": "gaussian"}, 0.0),
    "Gaussian process, winners": ({"flips": 0.0}, 0.0),
    "Gaussian process, winners, 5% flipped": ({"flips": 0.0}, 0.05),
}
PARSES = {"training rows": 500, "test rows": 2698, "per sentence": 3}  # of the paper


def parses() -> Iterator[Task]:
    """The sample of BioInfer: 100 candidate parses of 22 sentences, and 100 of 20 others."""
    from reproduce.parses import bioinfer

    parts = []
    for name in ("train", "test"):
        data = bioinfer.load(name)
        parts.append(Part(data.X, data.y, data.qid))
    yield with_kernels(*parts)


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
    yield with_kernels(*parts)


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
        yield with_widths(sample, parts[1])


def low_dimensional() -> Iterator[Task]:
    """500 rows, 2500 to test, in queries of five: two directions of large variance tell all."""
    rng = np.random.default_rng(0)
    mixing = np.linalg.qr(rng.standard_normal((30, 30)))[0]

    def part(n_rows: int) -> Part:
        hidden = rng.standard_normal((n_rows, 30)) * np.r_[2.0, 2.0, np.full(28, 0.5)]
        score = np.sin(hidden[:, 0]) + 0.5 * hidden[:, 1]
        score = (score - score.min()) / np.ptp(score)
        return Part(hidden @ mixing.T, score, np.arange(n_rows) // 5)

    yield with_widths(part(500), part(2500))


def with_kernels(train: Part, test: Part) -> Task:
    """A task of sparse rows, with a linear or a cosine kernel."""
    views = tuple(View.in_span(train.X, test.X, cosine) for cosine in (False, True))
    return Task(train, test, views)


def with_widths(train: Part, test: Part) -> Task:
    """A task with rbf kernels of three widths."""
    n_features = train.X.shape[1]
    kernels = ({"gamma": g / n_features, "kernel": "rbf", "scale": None} for g in (0.03, 0.3, 3.0))
    return Task(train, test, tuple(View(kernel, train.X, test.X) for kernel in kernels))


TASKS = {
    "GENIA parses": genia,
    "BioInfer parses": parses,
    "OHSUMED": ohsumed,
    "low-dimensional": low_dimensional,
}


def wrong_pairs(ranker, data) -> float:
    scores = ranker.predict(data.X_test)
    gap = scores[data.pairs_test[:, 0]] - scores[data.pairs_test[:, 1]]
    return float(np.where(gap == 0, 0.5, np.sign(gap) != np.sign(data.margin_test)).mean())


def sinc_experiment():
    """Errors of all rankers for every seed, and the KPCRank of the first."""
    errors: dict[str, list[float]] = {name: [] for name in ("KPCRank", "RankRLS", *PROCESSES)}
    first = None
    for seed in range(SEEDS):
        data = make_sinc_comparisons(seed)
        fitted = [
            KPCRank(gamma=gamma, options=ComponentOptions(max_components=60)).fit_pairs(
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
        for name, (settings, flipped) in PROCESSES.items():
            seen = make_sinc_comparisons(seed, flipped=flipped)
            margin = seen.margin_train if settings.get("likelihood") == "gaussian" else None
            process = PairwiseGP(**settings)
            process.fit_pairs(seen.X_train, seen.pairs_train, margin=margin)
            errors[name].append(wrong_pairs(process, seen))
        print(
            f"sinc, seed {seed}: {errors['KPCRank'][-1]:.4f} (p = {best.n_components_})",
            file=sys.stderr,
            flush=True,
        )
    return errors, first


def sinc_table(errors: dict[str, list[float]], paper: dict) -> str:
    quoted = {"KPCRank": paper["KPCRank"]}
    quoted |= dict.fromkeys(PROCESSES, paper["pairwise probabilistic regression"])
    names = {"RankRLS": "RankRLS, alpha = 1e-6, gamma = 2"}
    rows = []
    for name, values in errors.items():
        spread = np.std(values, ddof=1) / np.sqrt(len(values))
        shown = f"{quoted[name]:.3f}" if name in quoted else "–"
        rows.append([names.get(name, name), f"{np.mean(values):.4f} ± {spread:.4f}", shown])
    title = f"sinc, 48 test pairs, mean of {SEEDS} seeds ± s.e."
    return markdown([title, "wrong test pairs", "paper, quoted"], rows)


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
                found = noise.run(name, list(TASKS[name]()))
                tables = [noise.text(name, found, of_paper)]
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
