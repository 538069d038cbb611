"""Which rows should be landmarks? Five methods on three ranking tasks.

The data are OHSUMED and MQ2008 with their five folds, with features scaled to [0, 1] within each
query, and MNIST: queries of twenty random images, to be ordered by their digit. Every method
chooses r landmarks with every seed, and SparseRankRLS is fitted for every alpha and gamma. Alpha
and gamma are chosen by the disagreement error on the validation part, and the test part is used
once.

Usage: RANKWISE_DATA=folder python -m reproduce.landmarks.run [--write] [--data NAME ...]

``--write`` writes the tables to the README, and draws its figure. With ``--data``, only these data
sets are measured; the results of the others are read from results.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankwise import RankRLS, SparseRankRLS
from rankwise.data import load_dataset
from rankwise.errors import DataError
from rankwise.kernels import NamedKernel
from rankwise.metrics import average_precision, disagreement_error
from rankwise.plots import COLORS, INK, MARKERS, new_axes, save_figure
from rankwise.problem.landmarks import METHODS, LandmarkChoice
from rankwise.report import Column, Table
from reproduce.letor import parts as letor
from reproduce.letor.parts import Part
from reproduce.pages import keep, put_block

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
FIGURE = HERE / "landmarks.svg"
ALPHAS = np.geomspace(1e-4, 1e6, 21)
SEEDS = range(5)
ROWS_OF_A_QUERY = 20  # MNIST
TRAINING_ROWS, VALIDATION_ROWS, TEST_ROWS = 10_000, 2_000, 4_000  # MNIST


@dataclass(frozen=True)
class Task:
    """A data set: its title, the settings to try, and whether its labels are relevances.

    `more` has additional numbers of landmarks for the random method, which takes hardly any time.
    """

    title: str
    folds: tuple[int, ...]
    numbers: tuple[int, ...]
    gammas: tuple[float, ...]
    relevances: bool
    more: tuple[int, ...] = ()

    @property
    def cells(self) -> list[tuple[int, str]]:
        """Numbers of landmarks with methods."""
        every = [(number, method) for number in self.numbers for method in METHODS]
        return every + [(number, "random") for number in self.more]

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("error", "MAP") if self.relevances else ("error",)


TASKS = {
    "ohsumed": Task("OHSUMED", (1, 2, 3, 4, 5), (10, 30, 100, 300), (0.1, 0.5), relevances=True),
    "mq2008": Task("MQ2008", (1, 2, 3, 4, 5), (10, 30, 100, 300), (0.02, 0.06), relevances=True),
    "mnist": Task(
        "MNIST", (1,), (50, 150, 500), (0.015, 0.03), relevances=False, more=(1000, 1500)
    ),
}


def load(name: str, fold: int) -> list[Part]:
    """Training, validation and test part."""
    return mnist() if name == "mnist" else letor.load(name, fold, letor.minmax)


def mnist() -> list[Part]:
    """Images in a random order, cut into queries of twenty; the official test images test."""
    train, test = load_dataset("mnist", part="train"), load_dataset("mnist", part="test")
    rng = np.random.default_rng(0)
    order = rng.permutation(len(train.y))
    pieces = [
        (train, order[:TRAINING_ROWS]),
        (train, order[TRAINING_ROWS : TRAINING_ROWS + VALIDATION_ROWS]),
        (test, rng.permutation(len(test.y))[:TEST_ROWS]),
    ]
    return [
        Part(data.X[rows] / 255.0, data.y[rows], np.arange(len(rows)) // ROWS_OF_A_QUERY)
        for data, rows in pieces
    ]


def errors(path, part: Part) -> list[float]:
    return [disagreement_error(part.y, scores, part.qid) for scores in path.predict(part.X)]


def figures(ranker, task: Task, test: Part) -> dict[str, float]:
    scores = ranker.predict(test.X)
    found = {"error": disagreement_error(test.y, scores, test.qid)}
    if task.relevances:
        found["MAP"] = average_precision(test.y, scores, test.qid)
    return found


def measure(task: Task, parts: list[Part], method: str, number: int, seed: int) -> dict:
    """Test figures of the best of all gammas and alphas, and the CPU seconds that it took."""
    train, valid, test = parts
    choice = LandmarkChoice.of(method, number)
    best, lowest = {}, np.inf
    for gamma in task.gammas:
        kernel = NamedKernel("rbf", gamma=gamma)
        begin = time.process_time()
        landmarks = choice.among(train.X, train.qid, kernel, np.random.default_rng(seed))
        chosen = time.process_time()
        ranker = SparseRankRLS(
            alpha=1.0, landmarks=landmarks.points, gamma=gamma, weighting="pairs"
        )
        path = ranker.path(train.X, train.y, ALPHAS, qid=train.qid)
        fitted = time.process_time()
        found = errors(path, valid)
        if min(found) < lowest:
            lowest, at = min(found), int(np.argmin(found))
            best = {
                "ranker": path.estimator(at),
                "gamma": gamma,
                "choosing": chosen - begin,
                "fitting": fitted - chosen,
            }
    return {**figures(best.pop("ranker"), task, test), **best}


def linear(task: Task, parts: list[Part]) -> dict[str, float]:
    """Test figures of RankRLS without a kernel, which needs no landmarks."""
    train, valid, test = parts
    path = RankRLS(alpha=1.0, weighting="pairs").path(train.X, train.y, ALPHAS, qid=train.qid)
    return figures(path.estimator(int(np.argmin(errors(path, valid)))), task, test)


def run(name: str) -> dict:
    """What is measured on a data set: a cell for each r and method, with a value for each seed."""
    task = TASKS[name]
    found: dict[tuple[int, str], list[list[dict]]] = {cell: [] for cell in task.cells}
    without = []
    for fold in task.folds:
        parts = load(name, fold)
        without.append(linear(task, parts))
        for (number, method), folds in found.items():
            folds.append([measure(task, parts, method, number, seed) for seed in SEEDS])
        print(f"{name}, fold {fold}: done", file=sys.stderr, flush=True)
    cells = []
    for (number, method), folds in found.items():
        cell = {"r": number, "method": method}
        for key in task.metrics:
            values = np.mean([[fit[key] for fit in fold] for fold in folds], axis=0)
            cell[key] = values.round(6).tolist()
        for key in ("choosing", "fitting"):
            cell[key] = round(float(np.median([fit[key] for fold in folds for fit in fold])), 5)
        chosen = [fit["gamma"] for fold in folds for fit in fold]
        cell["chosen gammas"] = [chosen.count(gamma) for gamma in task.gammas]
        cells.append(cell)
    means = {key: round(float(np.mean([f[key] for f in without])), 6) for key in task.metrics}
    return {"linear": means, "cells": cells}


@dataclass(frozen=True)
class Mean:
    """The mean over seeds, with its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, cell: dict, key: str) -> Mean:
        values = np.array(cell[key])
        return cls(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))

    def __str__(self) -> str:
        return f"{self.value:.4f} ± {self.error:.4f}"

    def below(self, other: Mean) -> float:
        """How far it is below another one, in standard errors of the difference."""
        return (other.value - self.value) / np.hypot(self.error, other.error)


def of_number(result: dict, number: int) -> dict[str, dict]:
    """Cells by their method."""
    return {cell["method"]: cell for cell in result["cells"] if cell["r"] == number}


def of_method(result: dict, method: str) -> dict[int, dict]:
    """Cells by their number of landmarks."""
    return {cell["r"]: cell for cell in result["cells"] if cell["method"] == method}


def table(name: str, result: dict) -> Table:
    """Figures of each method at each r; the lowest error of each r in bold."""
    task = TASKS[name]
    columns = [Column("r"), Column("landmarks"), Column("disagreement error ± s.e.")]
    columns += [Column("s.e. below random", "+.1f")]
    columns += [Column("MAP ± s.e.")] if task.relevances else []
    columns += [
        Column("choosing, CPU s", ".3f"),
        Column(f"fit, {len(ALPHAS)} alphas, CPU s", ".3f"),
    ]
    rows, best = [], set()
    for number in (*task.numbers, *task.more):
        cells = of_number(result, number)
        errors = {method: Mean.of(cell, "error") for method, cell in cells.items()}
        lowest = min(mean.value for mean in errors.values())
        for method, cell in cells.items():
            if errors[method].value == lowest and len(cells) > 1:
                best.add((len(rows), 2))
            below = None if method == "random" else errors[method].below(errors["random"])
            map_cell = [str(Mean.of(cell, "MAP"))] if task.relevances else []
            times = [cell["choosing"], cell["fitting"]]
            rows.append((number, method, str(errors[method]), below, *map_cell, *times))
    without, *rest = (f"{result['linear'][key]:.4f}" for key in task.metrics)
    rows.append((None, "RankRLS, linear", without, None, *rest, None, None))
    title = f"{task.title}, {len(SEEDS)} seeds"
    return Table(tuple(columns), tuple(rows), title, best=frozenset(best))


def draw(results: dict) -> None:
    """Error over r above, seconds over r below, a column for each data set."""
    axes = new_axes(2, columns=len(results), size=(4.1, 3.1))
    uppers, lowers = axes[: len(results)], axes[len(results) :]
    for upper, lower, (name, result) in zip(uppers, lowers, results.items(), strict=True):
        task = TASKS[name]
        for k, method in enumerate(METHODS):
            look = {"color": (*COLORS, INK)[k], "marker": (*MARKERS, "v")[k], "ms": 5, "lw": 1.5}
            cells = of_method(result, method)
            means = [Mean.of(cell, "error") for cell in cells.values()]
            shifted = np.array(list(cells)) * 1.05 ** (k - 2)  # so that no bar hides another
            heights, bars = [mean.value for mean in means], [mean.error for mean in means]
            upper.errorbar(shifted, heights, bars, capsize=2.5, label=method, **look)
            lower.plot(list(cells), [cell["choosing"] for cell in cells.values()], **look)
        fits = {number: cell["fitting"] for number, cell in of_method(result, "random").items()}
        dashed = {"color": INK, "lw": 1.2, "ls": (0, (2, 2)), "zorder": 1}
        lower.plot(list(fits), list(fits.values()), label="the fit itself, all alphas", **dashed)
        upper.axhline(result["linear"]["error"], label="linear, no landmarks", **dashed)
        upper.set_title(task.title, weight="bold")
        lower.set(yscale="log", xlabel="landmarks r")
        for ax in (upper, lower):
            ax.set_xscale("log")
            ax.set_xticks(list(fits), labels=[str(number) for number in fits])
            ax.tick_params(axis="x", labelsize=9)
            ax.minorticks_off()
    uppers[0].set_ylabel("disagreement error ± s.e.")
    lowers[0].set_ylabel("CPU seconds for choosing")
    handles, labels = uppers[0].get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: labels[i] not in METHODS)
    uppers[0].figure.legend(
        [handles[i] for i in order], [labels[i] for i in order], loc="outside upper center",
        ncols=len(labels), frameon=False, labelcolor=INK,
    )  # fmt: skip
    lowers[0].legend(frameon=False, labelcolor=INK, fontsize=9)
    save_figure(uppers[0].figure, FIGURE)


def write(measured: dict) -> None:
    """Keep the results, put their tables into the README, draw them."""
    every = keep(RESULTS, measured)
    results = {name: every[name] for name in TASKS if name in every}
    text = "\n\n".join(table(name, result).to_markdown() for name, result in results.items())
    put_block(HERE / "README.md", "results", text)
    draw(results)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs="+", choices=TASKS, default=list(TASKS), metavar="NAME")
    parser.add_argument("--write", action="store_true", help="into README.md, and the figure")
    arguments = parser.parse_args()
    try:
        measured = {name: run(name) for name in arguments.data}
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n\n".join(str(table(name, result)) for name, result in measured.items()))
    if arguments.write:
        write(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
