"""Table II, Table III and Figure 1 of the sparse bilinear paper, on 20 Newsgroups and MNIST.

2,000 test documents are queries; all other test documents are ranked for each, and those of its
class are relevant. MAP is the mean of average precision over the queries; the error is the share of
all their triplets (query, document of its class, document of another class) in wrong order, ties
included: the expectation of the paper's error over drawn triplets, with less of its noise.

Usage: RANKWISE_DATA=folder python reproduce/sparse-pairwise-features/run.py [--write] [rows ...]

A row that is in ``results.json`` beside this file is not run again: delete the file, or the row,
to do so. ``rows`` are names such as "20 Newsgroups/Sparse-R"; by default all are run, which takes
well under an hour on a free core. ``--write`` puts tables and figures into the README.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import baselines
import numpy as np
from data import Split, mnist, newsgroups

from rankwise import SparseBilinearRanker
from rankwise.backends.files import replacing
from rankwise.errors import DataError
from rankwise.metrics import average_precision
from rankwise.plots import new_axes, plot_learning_curve, save_figure

HERE = Path(__file__).parent
RESULTS, TRIALS = HERE / "results.json", HERE / "trials.json"
MARKER = "<!-- tables: written by run.py -->"
PAPER = json.loads((HERE / "expected.json").read_text())
WORDS = tuple(PAPER["related words"])
N_QUERIES, BLOCK = 2000, 500  # test documents as queries, and how many at a time

# alpha: chosen by the density of short trials, and written down so that a row takes one fit.
NEWS = {"random_state": 0, "n_iter": 100_000, "dtype": "float32", "record_every": 10_000}
DIGITS = {"random_state": 0, "n_iter": 100_000, "record_every": 10_000}
MODELS: dict[str, dict[str, dict]] = {
    "20 Newsgroups": {
        "Identity": {"structure": "identity"},
        "Diagonal": {**NEWS, "structure": "diagonal", "eta0": 20.0},
        "SGD FLR": {**NEWS, "structure": "dense", "schedule": "constant", "eta0": 0.01},
        "SGD DLR": {**NEWS, "structure": "dense"},
        "Sparse": {**NEWS, "alpha": 6e-6, "refit": False},
        "Sparse-R": {**NEWS, "alpha": 6e-6},
    },
    "MNIST": {
        "Identity": {"structure": "identity"},
        "Diagonal": {**DIGITS, "structure": "diagonal", "eta0": 20.0},
        "SGD FLR": {**DIGITS, "structure": "dense", "schedule": "constant", "eta0": 0.01},
        "SGD DLR": {**DIGITS, "structure": "dense"},
        "Sparse": {**DIGITS, "alpha": 5e-6, "refit": False},
        "Sparse-R": {**DIGITS, "alpha": 5e-6},
    },
}
BEYOND: dict[str, dict[str, dict]] = {
    "20 Newsgroups": {
        "Sparse-R, adagrad": {**NEWS, "alpha": 1.5e-5, "eta0": 1.0, "schedule": "adagrad"},
        "Sparse-R, more steps": {**NEWS, "alpha": 5.3e-6, "n_iter": 200_000},
    },
    "MNIST": {"Sparse-R, half of W": {**DIGITS, "alpha": 6e-7}},
}
BASELINES: dict[str, Callable[[Split], np.ndarray]] = {
    "LSA-200": baselines.latent_semantics,
    "class probabilities": baselines.class_probabilities,
}
PAPER_STEPS, PAPER_BYTES = 100_000, 16  # of Table II, and of an entry in its column "Mem."
N_WEIGHTS = {"20 Newsgroups": 10_000**2, "MNIST": 784**2}
FIGURE = ("SGD FLR", "SGD DLR", "Sparse", "Sparse-R")


@cache
def load(name: str) -> Split:
    return mnist() if name == "MNIST" else newsgroups()


def evaluate(scores: Callable[[np.ndarray], np.ndarray], y: np.ndarray) -> dict[str, float]:
    """MAP and error over the queries, some of them at a time."""
    drawn = np.random.default_rng(0).permutation(len(y))[:N_QUERIES]
    precision, wrong = [], []
    for begin in range(0, len(drawn), BLOCK):
        queries = drawn[begin : begin + BLOCK]
        others = np.ones((len(queries), len(y)), dtype=bool)
        others[np.arange(len(queries)), queries] = False
        relevant = (y[queries, None] == y[None, :])[others].astype(float)
        values = scores(queries)[others]
        qid = np.repeat(queries, len(y) - 1)
        precision.append(average_precision(relevant, values, qid, per_query=True).values)
        wrong.append(_wrong(relevant, values, len(queries)))
    return {
        "MAP": float(np.concatenate(precision).mean()),
        "error": float(np.concatenate(wrong).mean()),
        "queries": len(drawn),
    }


def _wrong(relevant: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    """Of each query, the share of pairs (relevant, other) with score+ <= score-."""
    shares = np.empty(n)
    for k, (is_relevant, scores) in enumerate(
        zip(relevant.reshape(n, -1) > 0, values.reshape(n, -1), strict=True)
    ):
        good, bad = np.sort(scores[is_relevant]), np.sort(scores[~is_relevant])
        shares[k] = 1 - np.searchsorted(bad, good, side="left").mean() / len(bad)
    return shares


def run_model(name: str, parameters: dict) -> dict:
    split = load(name)
    begin, cpu = time.perf_counter(), time.process_time()
    ranker = SparseBilinearRanker(**parameters).fit_classes(
        split.X, split.y, names=split.names, held_out=(split.X_test, split.y_test)
    )
    figures = {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - cpu}
    last = {"fit": ranker.learning_curve_, "refit": getattr(ranker, "refit_curve_", None)}
    figures |= {
        "steps": ranker.n_iter_,
        "alpha": ranker.alpha_,
        "density": ranker.density_,
        "MB": ranker.memory_bytes_ / 1e6,
        "curve": {k: v.tolist() for k, v in (last["refit"] or last["fit"]).items()},
    }
    if split.names is not None and ranker.n_iter_:
        known = set(split.names)
        figures["related"] = {
            word: [name for name, _ in ranker.related_features(word)]
            for word in WORDS
            if word in known
        }
    return figures | evaluate(
        lambda rows: ranker.score_all(split.X_test[rows], split.X_test), split.y_test
    )


def run_baseline(name: str, baseline: Callable[[Split], np.ndarray]) -> dict:
    begin = time.perf_counter()
    split = load(name)
    scores = baseline(split)
    figures = evaluate(lambda rows: scores[rows], split.y_test)
    return figures | {"seconds": time.perf_counter() - begin}


def all_rows() -> dict[str, Callable[[], dict]]:
    rows: dict[str, Callable[[], dict]] = {}
    for name in MODELS:
        for row, parameters in (MODELS[name] | BEYOND[name]).items():
            rows[f"{name}/{row}"] = lambda n=name, p=parameters: run_model(n, p)
        for row, baseline in BASELINES.items():
            rows[f"{name}/{row}"] = lambda n=name, b=baseline: run_baseline(n, b)
    return rows


def table(name: str, results: dict[str, dict]) -> str:
    lines = [
        ["", "MAP", "(paper)", "error", "(paper)", "density", "MB", "(paper)", "steps", "queries"],
        ["---"] * 10,
    ]
    for row in [*MODELS[name], *BEYOND[name], *BASELINES]:
        found = results.get(f"{name}/{row}")
        if found is None:
            continue
        paper = PAPER[name].get(row, {})

        def quoted(key: str, paper: dict = paper) -> str:
            return f"{paper[key]:g}" if key in paper else ""

        learned = "density" in found
        lines.append(
            [
                row, f"{found['MAP']:.3f}", quoted("MAP"), f"{found['error']:.3f}",
                quoted("error"), f"{found['density']:.2%}" if learned else "",
                f"{found['MB']:.3g}" if learned else "", quoted("MB"),
                f"{found['steps']:,}" if learned else "", f"{found['queries']:,}",
            ]
        )  # fmt: skip
    return markdown(f"### {name}", lines)


def words_table(results: dict[str, dict]) -> str:
    found = results.get("20 Newsgroups/Sparse-R", {}).get("related", {})
    lines = [["query word", "most related, ours", "most related (paper)"], ["---"] * 3]
    for word in WORDS:
        ours = ", ".join(found.get(word, ["(not in the vocabulary)"]))
        lines.append([word, ours, ", ".join(PAPER["related words"][word])])
    return markdown("### Table III, 20 Newsgroups, Sparse-R", lines)


def trials_table() -> str:
    """What choose.py found on training documents that were set aside."""
    trials = json.loads(TRIALS.read_text()) if TRIALS.exists() else {}
    lines = [["trial", "MAP", "error", "density", "steps"], ["---"] * 5]
    for name, found in trials.items():
        figures = [f"{found[key]:.3f}" for key in ("MAP", "error")]
        lines.append([name, *figures, f"{found['density']:.2%}", f"{found['steps']:,}"])
    return markdown("### Trials on training documents that were set aside, 20 Newsgroups", lines)


def markdown(title: str, lines: list[list[str]]) -> str:
    return "\n".join([title, "", *(f"| {' | '.join(cells)} |" for cells in lines)])


def figure(results: dict[str, dict]) -> None:
    """Figure 1: error and density along the steps; bars at the end are Table II of the paper."""
    axes = new_axes(2, 2, size=(4.8, 3.4))
    for k, name in enumerate(MODELS):
        curves = {
            row: results[f"{name}/{row}"]["curve"] for row in FIGURE if f"{name}/{row}" in results
        }
        if not curves:
            continue
        for ax, quantity in ((axes[k], "error"), (axes[2 + k], "density")):
            plot_learning_curve(curves, quantity=quantity, ax=ax)
            for line, row in zip(ax.get_lines()[: len(curves)], curves, strict=True):
                paper = PAPER[name][row]
                share = paper["MB"] * 1e6 / PAPER_BYTES / N_WEIGHTS[name]
                value = paper["error"] if quantity == "error" else share
                ax.plot(
                    PAPER_STEPS, value, marker="_", ms=14, mew=2.2, color=line.get_color(), zorder=4
                )
        axes[k].set_title(name, weight="bold", pad=30)
        axes[2 + k].get_legend().remove()
    save_figure(axes[0].figure, HERE / "figure-1.svg")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="put tables into README.md")
    parser.add_argument("rows", nargs="*", help="what to run; all by default")
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    rows = all_rows()
    unknown = set(arguments.rows) - set(rows)
    if unknown:
        print(f"Unknown: {', '.join(unknown)}. There are: {', '.join(rows)}.", file=sys.stderr)
        return 2
    try:
        for row in arguments.rows or rows:
            if row in results:
                continue
            print(f"{row} ...", file=sys.stderr, flush=True)
            found = rows[row]()
            results = (json.loads(RESULTS.read_text()) if RESULTS.exists() else {}) | {row: found}
            with replacing(RESULTS) as beside:
                beside.write_text(json.dumps(results, indent=1) + "\n")
            told = {k: v for k, v in results[row].items() if isinstance(v, float)}
            print({k: round(v, 4) for k, v in told.items()}, file=sys.stderr, flush=True)
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    tables = [*(table(name, results) for name in MODELS), words_table(results), trials_table()]
    text = "\n\n".join(tables)
    print(text)
    if arguments.write:
        figure(results)
        readme = HERE / "README.md"
        readme.write_text(readme.read_text().split(MARKER)[0] + f"{MARKER}\n\n{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
