"""Parse ranking: Table 8 of the RankRLS paper and Table 1 of the sparse RankRLS paper, on GENIA.

Usage: RANKWISE_DATA=folder python -m reproduce.parses.run [--write] [--kept] [steps ...]

Steps are "tables", "kernels", "tried", "draws", "ties" and "bioinfer"; all by default. Link Grammar
is unpacked into the cache (the folder .cache, or RANKWISE_CACHE) by install.sh, unless the variable
LINK_GRAMMAR names its folder. The sentences are parsed once, and their linkages are stored in the
cache. Results are stored in results.json; ``--write`` writes the tables to the README, ``--kept``
runs nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rankwise.errors import DataError
from rankwise.metrics import get_metric
from rankwise.report import Column, Table
from reproduce.command import run_steps
from reproduce.pages import CACHE, kept
from reproduce.parses import bioinfer, experiment, graph_kernels, tried
from reproduce.parses.candidates import Corpus, load_corpus, summary

HERE = Path(__file__).parent
QUOTED = "(paper, quoted)"


def link_grammar() -> Path:
    """The folder of Link Grammar; unpacks it if it does not exist."""
    given = os.environ.get("LINK_GRAMMAR")
    folder = Path(given) if given else CACHE / "link-grammar"
    if not folder.exists():
        print(f"unpacking Link Grammar into {folder}", file=sys.stderr, flush=True)
        try:
            subprocess.run([str(HERE / "install.sh"), str(folder)], check=True)
        except subprocess.CalledProcessError:
            raise DataError(
                f"Link Grammar could not be unpacked into {folder}. If apt finds no such package, "
                "run apt-get update; without apt, install Link Grammar 5 in another way, and set "
                "LINK_GRAMMAR to the folder that holds its usr/lib and usr/share/link-grammar."
            ) from None
    return folder


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """One process at a time: another folder may need the same parses at the same time."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def corpus() -> Corpus:
    """GENIA's sentences with their candidates."""
    data = Path(os.environ.get("RANKWISE_DATA", ".")) / "genia"
    if not data.is_dir():
        raise DataError(f"There is no {data}: set RANKWISE_DATA to the folder of the data.")

    def progress(done: int) -> None:
        if done % 250 == 0:
            print(f"{done} sentences parsed", file=sys.stderr, flush=True)

    with alone(CACHE / "linkages.lock"):
        return load_corpus(data, CACHE, link_grammar, progress)


def tables_step() -> dict:
    start = time.perf_counter()

    def progress(what: str) -> None:
        print(f"{time.perf_counter() - start:6.0f} s  {what}", file=sys.stderr, flush=True)

    every = corpus()
    task = experiment.Task.of(every)
    return {
        "counts": every.counts
        | {"training": len(task.training), "validation": len(task.validation)},
        "candidates": summary(every),
        **experiment.run(task, progress),
        "seconds": time.perf_counter() - start,
    }


def kernels_step() -> dict:
    def progress(what: str) -> None:
        print(what, file=sys.stderr, flush=True)

    return graph_kernels.run(experiment.Task.of(corpus()), progress)


def tried_step() -> dict:
    return tried.run(experiment.Task.of(corpus()), lambda what: print(what, file=sys.stderr))


def _with_chosen(step: Callable[..., dict]) -> dict:
    """Run a step with the parameters that the tables have chosen."""
    results = kept(HERE / "results.json")
    if "tables" not in results:
        raise DataError(
            'The steps "draws" and "ties" take the parameters that "tables" chooses: run that '
            "first."
        )
    chosen = results["tables"]["disagreement"]["methods"]
    return step(corpus(), chosen, lambda what: print(what, file=sys.stderr, flush=True))


STEPS = {
    "tables": tables_step,
    "kernels": kernels_step,
    "tried": tried_step,
    "draws": partial(_with_chosen, tried.draws),
    "ties": partial(_with_chosen, tried.ties),
    "bioinfer": bioinfer.run,
}


def tables_text(found: dict, paper: dict) -> str:
    tau, error = found["kendall_tau"], found["disagreement"]
    counts, candidates = found["counts"], found["candidates"]
    words = [
        f"Of {counts['sentences']:,} sentences, {counts['not parsed']:,} have no complete linkage "
        f"within the time limit, {counts['other tokens']} have different tokens, and "
        f"{counts['one parse']} have a single linkage. {counts['training']} sentences are for "
        f"training, {counts['validation']:,} for validation.",
        f"The best of up to {experiment.PER_SENTENCE} candidates has a mean F1 of "
        f"{candidates['best, linked']:.3f}, the mean of all candidates is "
        f"{candidates['mean, linked']:.3f}, and the first candidate of Link Grammar has "
        f"{candidates['first, linked']:.3f} (with the original gold arcs: "
        f"{candidates['best, plain']:.3f}, {candidates['mean, plain']:.3f} and "
        f"{candidates['first, plain']:.3f}).",
        _verdict(tau, "RankRLS", "RLS", "τ_b"),
        _verdict(error, "sparse RankRLS", "RankRLS", "the disagreement error"),
    ]
    tables = (
        _table("Table 8: Kendall's τ_b", tau, paper["Table 8"]),
        _table("Table 1 of the sparse paper: disagreement error", error, paper["Table 1, sparse"]),
        _tests("Wilcoxon signed-rank tests, τ_b", tau["tests"]),
        _tests("Wilcoxon signed-rank tests, disagreement error", error["tests"]),
    )
    return "\n\n".join([" ".join(words), *(table.to_markdown() for table in tables)])


def _verdict(found: dict, ours: str, other: str, metric: str) -> str:
    """Which ranker is better in the mean, and whether the difference is significant."""
    test = found["tests"][f"{ours} against {other}"]
    larger = get_metric(test["metric"]).greater_is_better
    ahead = (test["difference"] > 0) == larger
    if test["p_value"] < 0.05:
        words = f"In {metric}, {ours} is {'better' if ahead else 'worse'} than {other}"
    else:
        words = (
            f"In the mean of {metric}, {ours} is {'better' if ahead else 'worse'} than {other}, "
            "but not significantly"
        )
    return (
        f"{words}: {test['difference']:+.4f} (Wilcoxon p = "
        f"{test['p_value']:.2g}; better on {test['wins']} sentences, worse on {test['losses']})."
    )


def _table(title: str, found: dict, paper: dict) -> Table:
    header = (
        Column("ranker"), Column("rows"), Column("validation"), Column("± s.e."),
        Column("ten folds of training"), Column("walks up to"), Column("alpha", "g"),
        Column(QUOTED.strip("()"), ".3f"),
    )  # fmt: skip
    rows = []
    for name, v in found["methods"].items():
        kernel = v.get("kernel", {})
        shown = (v.get("held_out"), kernel.get("max_length"), v.get("alpha"))
        rows.append((name, v.get("rows"), v["mean"], v["error"], *shown, paper.get(name)))
    return Table(header, tuple(rows), title)


def _tests(title: str, tests: dict) -> Table:
    header = (
        Column("comparison"), Column("difference", "+.4f"), Column("better"), Column("equal"),
        Column("worse"), Column("p", ".2g"),
    )  # fmt: skip
    rows = [
        (name, t["difference"], t["wins"], t["ties"], t["losses"], t["p_value"])
        for name, t in tests.items()
    ]
    return Table(header, tuple(rows), title)


def kernels_text(found: dict, paper: dict) -> str:
    header = (
        Column("kernel"), Column("ranker"), Column("τ_b"), Column("± s.e."),
        Column(f"τ_b {QUOTED}", ".3f"), Column("disagreement"),
        Column(f"disagreement {QUOTED}", ".2f"), Column("setting"), Column("alpha", "g"),
    )  # fmt: skip
    words, rows, tests = [], [], {}
    for kernel, by_metric in found.items():
        tau, error = by_metric["kendall_tau"], by_metric["disagreement"]
        words.append(f"{_verdict(tau, 'RankRLS', 'RLS', f'τ_b with {kernel}')}")
        words.append(_verdict(tau, "sparse RankRLS", "sparse RLS", f"τ_b with {kernel}"))
        for name, v in tau["methods"].items():
            setting = f"{v['setting']} = {v['value']:g}"
            rows.append(
                (
                    kernel, name, v["mean"], v["error"], paper["Table 8"].get(name),
                    error["methods"][name]["mean"], paper["Table 1, sparse"].get(name), setting,
                    v["alpha"],
                )
            )  # fmt: skip
        tests |= {f"{kernel}: {name}": test for name, test in tau["tests"].items()}
    tables = (
        Table(header, tuple(rows), f"Kernels of graphs, {graph_kernels.VALIDATION} sentences"),
        _tests("Wilcoxon signed-rank tests with kernels of graphs, τ_b", tests),
    )
    return "\n\n".join([" ".join(words), *(table.to_markdown() for table in tables)])


def bioinfer_text(found: dict, paper: dict) -> str:
    header = (
        Column("ranker"), Column("τ_b"), Column(f"τ_b {QUOTED}", ".3f"),
        Column("disagreement, all pairs"), Column(f"disagreement {QUOTED}", ".2f"),
        Column("disagreement, different scores"), Column("kernel"), Column("alpha", "g"),
    )  # fmt: skip
    rows = [
        (
            name, found[name]["kendall_tau"], paper["Table 8"].get(name),
            found[name]["disagreement, all pairs"], paper["Table 1, sparse"][name],
            found[name]["disagreement"], found[name]["kernel"], found[name]["alpha"],
        )
        for name in bioinfer.RANKERS
    ]  # fmt: skip
    p, sparse_p = found["p"], found["sparse p"]["p_value"]
    words = (
        f"The sample has about twenty sentences in each part; the paper has hundreds. On the "
        f"{p['sentences']} test sentences that have different scores, the two rankers do not "
        f"differ significantly (Wilcoxon p = {p['p_value']:.2g}; sparse forms with two landmarks "
        f"of each sentence, p = {sparse_p:.2g})."
        if p["p_value"] > 0.05
        else f"On {p['sentences']} test sentences the rankers differ (Wilcoxon p = "
        f"{p['p_value']:.2g})."
    )
    return f"{words}\n\n{Table(header, tuple(rows), 'BioInfer, sample').to_markdown()}"


def tried_text(found: dict, paper: dict) -> str:
    header = [Column("τ_b of"), Column("alpha", "g"), Column("ten folds, disagreement")]
    for group in tried.GROUPS:
        n = next(iter(found.values()))[group]["n"]
        header += [Column(f"{group} ({n:,})"), Column("p against RLS", ".2g")]
    rows = []
    for name, entry in found.items():
        row = [name, entry["alpha"], entry["held-out"]]
        for group in tried.GROUPS:
            row += [entry[group]["mean"], None if name.startswith("RLS;") else entry[group]["p"]]
        rows.append(tuple(row))
    plain, without, pairs = (
        found[f"{name}; {next(iter(tried.VARIANTS))}"][tried.GROUPS[0]]["mean"]
        for name in ("RLS", tried.CENTRED, "RankRLS")
    )
    words = (
        f"RLS has a τ_b of {plain:.4f}. With scores that are centred within sentences, it has "
        f"{without:.4f}. RankRLS, which does not use differences between sentences, has "
        f"{pairs:.4f}."
    )
    if without <= pairs < plain:
        words += (
            " So RLS is better here because it also learns from differences between sentences: F1 "
            "has the same scale in all of them, and a construction with a low F1 in one sentence "
            "indicates a low F1 in another."
        )
    table = Table(tuple(header), tuple(rows), "Variants of the basic rankers").to_markdown()
    return f"{words}\n\n{table}"


def draws_text(found: dict, paper: dict) -> str:
    names = [method.name for method in experiment.METHODS]
    tests = ("RankRLS against RLS", "sparse RankRLS against RankRLS")
    header = (
        Column("sample"), *(Column(name) for name in names),
        *(Column(f"p, {test}", ".2g") for test in tests),
    )  # fmt: skip
    rows = [(seed, *(v[key] for key in (*names, *tests))) for seed, v in found.items()]
    ahead = sum(v["sparse RankRLS"] < v["RankRLS"] for v in found.values())
    clear = sum(v[tests[1]] < 0.05 and v["sparse RankRLS"] < v["RankRLS"] for v in found.values())
    behind = sum(v["RankRLS"] > v["RLS"] for v in found.values())
    words = (
        f"In {len(found)} other random samples of training sentences, sparse RankRLS is better "
        f"than RankRLS in {ahead} ({clear} with p < 0.05), and RankRLS is worse than RLS in "
        f"{behind}."
    )
    title = "Other samples of training sentences: disagreement error"
    return f"{words}\n\n{Table(header, tuple(rows), title).to_markdown()}"


def ties_text(found: dict, paper: dict) -> str:
    header = (
        Column("ranker"), Column("all pairs, ties count 1/2"), Column("± s.e."),
        Column(QUOTED.strip("()"), ".2f"), Column("pairs of different scores"), Column("± s.e. "),
    )  # fmt: skip
    rows = [
        (
            name, v["half"], v["half, s.e."], paper["Table 1, sparse"][name], v["exclude"],
            v["exclude, s.e."],
        )
        for name, v in found.items() if name != "share"
    ]  # fmt: skip
    words = (
        "Equation (1) of the sparse paper counts all pairs of a sentence; with equal true scores, "
        f"any two different scores cost 1/2. Here {found['share']['tied']:.1%} of the pairs of a "
        "validation sentence tie. The other tables leave these pairs out. The parameters are those "
        "of the tables."
    )
    title = "Table 1 of the sparse paper, in both conventions of tied pairs"
    return f"{words}\n\n{Table(header, tuple(rows), title).to_markdown()}"


TEXTS = {
    "tables": tables_text,
    "kernels": kernels_text,
    "tried": tried_text,
    "draws": draws_text,
    "ties": ties_text,
    "bioinfer": bioinfer_text,
}


def texts(results: dict) -> dict[str, str]:
    """Blocks of the README, for the steps that have results."""
    paper = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))
    return {step: TEXTS[step](results[step], paper) for step in STEPS if step in results}


if __name__ == "__main__":
    sys.exit(run_steps(HERE, __doc__, STEPS, texts))
