"""Table II, Table III and Figure 1 of the sparse bilinear paper, on 20 Newsgroups and MNIST.

Usage: RANKWISE_DATA=folder python -m reproduce.sparse-pairwise-features.run [--write] [step ...]

Steps are "data" (Table I, and what is quoted of RCV1), "trials" (what the others are run with,
chosen on training documents), "20 Newsgroups", "MNIST" and "prior" (plans of the paper: a prior for
W and groups of words); all of them take about 40 minutes on a core. ``--write`` puts tables into
the README.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np

from rankwise.plots import new_axes, plot_learning_curve, save_figure
from reproduce.command import run_steps
from reproduce.pages import keep, kept

from . import baselines
from .data import N_PIXELS, N_WORDS, mnist, newsgroups
from .experiment import N_QUERIES, run_baseline, run_model
from .trials import run_trials

HERE = Path(__file__).parent
PAPER = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))
WORDS = tuple(PAPER["related words"])

STEPS = {"random_state": 0, "schedule": "invsqrt", "n_iter": 100_000, "record_every": 10_000}
NEWS = {**STEPS, "eta0": 200.0, "dtype": "float32"}
DIGITS = {**STEPS, "eta0": 25.0}
FIXED = {"structure": "dense", "schedule": "constant", "eta0": 0.01}
MODELS: dict[str, dict[str, dict]] = {
    "20 Newsgroups": {
        "Identity": {"structure": "identity"},
        "Diagonal": {**NEWS, "structure": "diagonal", "eta0": 20.0},
        "SGD FLR": {**NEWS, **FIXED},
        "SGD DLR": {**NEWS, "structure": "dense"},
        "Sparse": {**NEWS, "alpha": 6e-6, "refit": False},
        "Sparse-R": {**NEWS, "alpha": 6e-6},
        "Sparse-R, twice the steps": {**NEWS, "alpha": 5.5e-6, "n_iter": 200_000},
        "Sparse-R, adagrad": {**NEWS, "alpha": 5.5e-6, "eta0": 4.0, "schedule": "adagrad"},
        "Sparse-R, adagrad, five times the steps": {
            **NEWS, "alpha": 4.3e-6, "eta0": 4.0, "schedule": "adagrad", "n_iter": 500_000,
        },
    },
    "MNIST": {
        "Identity": {"structure": "identity"},
        "Diagonal": {**DIGITS, "structure": "diagonal", "eta0": 20.0},
        "SGD FLR": {**DIGITS, **FIXED},
        "SGD DLR": {**DIGITS, "structure": "dense"},
        "Sparse": {**DIGITS, "alpha": 3e-6, "refit": False},
        "Sparse-R": {**DIGITS, "alpha": 3e-6},
        "Sparse-R, half of W": {**DIGITS, "alpha": 1.2e-6},
        "Sparse-R, adagrad": {**DIGITS, "alpha": 3e-6, "eta0": 1.0, "schedule": "adagrad"},
    },
}  # fmt: skip
ADAGRAD = {**NEWS, "schedule": "adagrad", "eta0": 4.0}
PLANS: dict[str, dict] = {
    "Sparse": {**NEWS, "alpha": 6e-6, "refit": False},
    "Sparse-R, adagrad": {**ADAGRAD, "alpha": 5.5e-6},
    "to the identity": {**ADAGRAD, "alpha": 5.5e-6, "shrinkage": {"to": "init"}},
    "rows as groups": {**ADAGRAD, "alpha": 1e-4, "shrinkage": {"penalty": "rows"}},
    "rows as groups, larger alpha": {**ADAGRAD, "alpha": 1e-3, "shrinkage": {"penalty": "rows"}},
    "columns as groups": {**ADAGRAD, "alpha": 1e-4, "shrinkage": {"penalty": "columns"}},
    "columns as groups, larger alpha": {
        **ADAGRAD, "alpha": 1e-3, "shrinkage": {"penalty": "columns"},
    },
    "stopped early": {
        **ADAGRAD, "alpha": 5.5e-6, "n_iter": 300_000, "early_stopping": 3,
    },
}  # fmt: skip
PLAN_SEEDS = (0, 1, 2)
BASELINES = {
    "LSA-200": baselines.latent_semantics,
    "class probabilities": baselines.class_probabilities,
}
PAPER_STEPS, PAPER_BYTES = 100_000, 16  # of Table II, and of an entry in its column "Mem."
N_WEIGHTS = {"20 Newsgroups": N_WORDS**2, "MNIST": N_PIXELS**2}
FIGURE = ("SGD FLR", "SGD DLR", "Sparse", "Sparse-R")
REASONS = {
    "20 Newsgroups": "its words, idf and headers are not known, and the trials show their effect",
    "MNIST": "its eta0 is that for texts (200, quoted), ours was chosen by the trials",
}
TABLE_III = {"Sparse": "without refit, as in the paper", "Sparse-R": "with refit"}
PLAN_COLUMNS = (
    "MAP", "error", "density", "MB", "query features", "document features", "steps",
)  # fmt: skip
STATISTICS = ("training rows", "test rows", "classes", "D", "D²")
FIGURES = {"20 Newsgroups": "newsgroups.svg", "MNIST": "mnist.svg"}


def run_rows(name: str) -> dict[str, dict]:
    """All rows of Table II for a data set, and its part of Figure 1."""
    split = mnist() if name == "MNIST" else newsgroups()
    found = {}
    for row, parameters in MODELS[name].items():
        has_words = split.names is not None and row in TABLE_III
        found[row] = run_model(split, parameters, WORDS if has_words else ())
        _say(row, found[row])
    for row, baseline in BASELINES.items():
        found[row] = run_baseline(split, baseline)
        _say(row, found[row])
    draw(name, found)
    for row in found.keys() - set(FIGURE):
        found[row].pop("curve", None)
    return found


def run_plans() -> dict[str, dict]:
    """Rows for what the paper plans, with several seeds, and Table III of the W before a refit.

    Runs are stored one by one, and a command that was interrupted continues with the next.
    """
    split, earlier = newsgroups(), kept(HERE / "results.json").get("prior", {})
    found = {row: earlier[row] for row in PLANS if row in earlier}
    for row, parameters in PLANS.items():
        if found.get(row, {}).get("parameters") != parameters:
            found[row] = {"parameters": parameters, "runs": []}
        runs = found[row]["runs"]
        for seed in PLAN_SEEDS[len(runs) :]:
            has_words = row in TABLE_III and seed == PLAN_SEEDS[0]
            one = run_model(split, parameters | {"random_state": seed}, WORDS if has_words else ())
            one.pop("curve")
            runs.append(one)
            keep(HERE / "results.json", {"prior": found})
            _say(f"{row}, seed {seed}", one)
    return {row: found[row] for row in PLANS}


def _say(row: str, found: dict) -> None:
    shown = {key: round(value, 4) for key, value in found.items() if isinstance(value, float)}
    print(row, shown, file=sys.stderr, flush=True)


def table(name: str, rows: dict[str, dict]) -> str:
    titles = "MAP", "(paper)", "error", "(paper)", "density", "MB", "(paper)", "steps"
    lines = [["", *titles], ["---"] * 9]
    for row, found in rows.items():
        paper = PAPER[name].get(row, {})
        quoted = {key: f"{paper[key]:g}" if key in paper else "" for key in ("MAP", "error", "MB")}
        cells = [
            row, f"{found['MAP']:.3f}", quoted["MAP"], f"{found['error']:.3f}", quoted["error"],
        ]  # fmt: skip
        if "density" in found:
            cells += [f"{found['density']:.2%}", f"{found['MB']:.3g}", quoted["MB"]]
            cells += [f"{found['steps']:,}"]
        else:
            cells += [""] * 4
        lines.append(cells)
    return markdown(f"### Table II, {name}, {N_QUERIES:,} queries; (paper) is quoted", lines)


def difference(name: str, rows: dict[str, dict]) -> str:
    """Differences of two rows from the paper, and the reason, in words."""
    apart = [
        f"{row} differs by {rows[row]['MAP'] - PAPER[name][row]['MAP']:+.3f} in MAP and "
        f"{rows[row]['error'] - PAPER[name][row]['error']:+.3f} in error"
        for row in ("SGD DLR", "Sparse-R")
    ]
    return f"Compared with the paper on {name}, {', and '.join(apart)}: {REASONS[name]}."


def plans_text(found: dict[str, dict]) -> str:
    """What the paper plans, beside the row of Table II that it changes."""
    lines = [
        ["", "MAP", "error", "density", "MB", "query words", "document words", "steps"],
        ["---"] * 8,
    ]
    for row in PLANS:
        runs = found[row]["runs"]
        columns = {key: np.array([run[key] for run in runs]) for key in PLAN_COLUMNS}
        shown = [
            f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"
            for values in (columns["MAP"], columns["error"])
        ]
        density, megabytes, *counts = (columns[key].mean() for key in PLAN_COLUMNS[2:])
        lines.append(
            [row, *shown, f"{density:.1%}", f"{megabytes:.3g}", *(f"{n:,.0f}" for n in counts)]
        )
    about = (
        "Rows below Sparse-R, adagrad, change it in one respect. W shrinks to the identity instead "
        "of 0; rows (words of queries) or columns (words of documents) become 0 instead of single "
        "weights; or learning ends when the error of held-out queries has not become lower in "
        "three records of 10,000 steps. The paper has no figures for these. Words are those with a "
        "weight that is not 0, of 10,000. Figures are means over "
        f"{len(PLAN_SEEDS)} seeds, ± standard errors."
    )
    title = f"### Plans of the paper, 20 Newsgroups, {N_QUERIES:,} queries"
    return f"{about}\n\n{markdown(title, lines)}"


def words_table(rows: dict[str, dict]) -> str:
    shown = {row: words for row, words in TABLE_III.items() if rows[row].get("related")}
    lines = [["query word", "(paper)", *shown.values()], ["---"] * (2 + len(shown))]
    for word in WORDS:
        ours = [
            ", ".join(rows[row]["related"].get(word, ["(not in the vocabulary)"])) for row in shown
        ]
        lines.append([word, ", ".join(PAPER["related words"][word]), *ours])
    return markdown("### Table III, 20 Newsgroups: related words; (paper) is quoted", lines)


def run_data() -> dict[str, list[int]]:
    """Table I: the sizes of the data sets, with all rows."""
    found = {}
    for name, split in (("20 Newsgroups", newsgroups()), ("MNIST", mnist())):
        n_features = split.X.shape[1]
        sizes = [len(split.y), len(split.y_test), len(np.unique(split.y))]
        found[name] = [*sizes, n_features, n_features**2]
    return found


def data_text(found: dict[str, list[int]]) -> str:
    """Table I, and Table II (b), whose data are not to be had."""
    lines = [["", *STATISTICS], ["---"] * (1 + len(STATISTICS))]
    for name, quoted in PAPER["statistics"].items():
        if name in found:
            lines.append([name, *(f"{value:,}" for value in found[name])])
        lines.append([f"{name} (paper)", *(f"{value:,}" for value in quoted)])
    rcv1 = [["", "MAP (paper)", "error (paper)", "MB (paper)"], ["---"] * 4]
    for row, values in PAPER["RCV1"].items():
        rcv1.append([row, f"{values['MAP']:.3f}", f"{values['error']:.3f}", f"{values['MB']:g}"])
    return "\n\n".join(
        [
            markdown("### Table I; (paper) is quoted", lines),
            "Rows without any feature are left out here.",
            markdown("### Table II (b), RCV1: quoted; the data are not to be had", rcv1),
        ]
    )


def trials_table(trials: dict[str, dict]) -> str:
    lines = [["trial", "MAP", "error", "density", "steps"], ["---"] * 5]
    for name, found in trials.items():
        figures = [f"{found[key]:.3f}" for key in ("MAP", "error")]
        lines.append([name, *figures, f"{found['density']:.2%}", f"{found['steps']:,}"])
    return markdown("### Trials on held-out training documents", lines)


def markdown(title: str, lines: list[list[str]]) -> str:
    return "\n".join([title, "", *(f"| {' | '.join(cells)} |" for cells in lines)])


def draw(name: str, rows: dict[str, dict]) -> None:
    """Figure 1: error and density along the steps; bars at the end are Table II of the paper."""
    axes = new_axes(columns=2, size=(4.8, 3.4))
    curves = {row: rows[row]["curve"] for row in FIGURE}
    for ax, quantity in zip(axes, ("error", "density"), strict=True):
        plot_learning_curve(curves, quantity=quantity, ax=ax)
        for line, row in zip(ax.get_lines()[: len(curves)], curves, strict=True):
            paper = PAPER[name][row]
            share = paper["MB"] * 1e6 / PAPER_BYTES / N_WEIGHTS[name]
            value = paper["error"] if quantity == "error" else share
            ax.plot(
                PAPER_STEPS, value, marker="_", ms=14, mew=2.2, color=line.get_color(), zorder=4
            )
    axes[1].get_legend().remove()
    save_figure(axes[0].figure, HERE / FIGURES[name])


def texts(results: dict) -> dict[str, str]:
    """Blocks of the README."""
    written = {}
    if "data" in results:
        written["data"] = data_text(results["data"])
    for name, picture in FIGURES.items():
        if name in results:
            figure = f"![Figure 1, {name}: error and density along the steps]({picture})"
            parts = difference(name, results[name]), table(name, results[name]), figure
            written[name] = "\n\n".join(parts)
    if "20 Newsgroups" in results:
        rows = results["20 Newsgroups"]
        plans = results.get("prior", {})
        if "Sparse" in plans:  # the same fit, whose words were kept
            rows = rows | {"Sparse": plans["Sparse"]["runs"][0]}
        if all(len(plans.get(row, {"runs": ()})["runs"]) == len(PLAN_SEEDS) for row in PLANS):
            written["prior"] = plans_text(plans)
        written["20 Newsgroups"] += "\n\n" + words_table(rows)
    if "trials" in results:
        written["trials"] = trials_table(results["trials"])
    return written


STEPS = {
    "data": run_data,
    "trials": run_trials,
    **{name: partial(run_rows, name) for name in MODELS},
    "prior": run_plans,
}

if __name__ == "__main__":
    sys.exit(run_steps(HERE, __doc__, STEPS, texts))
