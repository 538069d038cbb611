"""A contest of rankers out of the box, tuned rankers, and tuned boosted trees on thirteen problems.

Usage: RANKWISE_DATA=folder python -m reproduce.contest.run [--write] [fold-1 ... fold-5]

Each fold has all problems, and takes about seven minutes of one core. Every contestant of every
fold is stored in the cache as soon as it has finished, so that a run that was interrupted
continues. The figures of a fold are stored in results.json; ``--write`` writes the tables of all
folds that have results to the README; with ``--kept``, nothing is run before.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from rankwise.report import Column, Table
from reproduce.command import run_steps
from reproduce.contest.boosters import BOOSTERS, Chosen, Contestant
from reproduce.contest.problems import FOLDS, PROBLEMS, Fold, get_fold
from reproduce.contest.rankers import OURS, RANKERS
from reproduce.pages import CACHE, keep, kept

HERE = Path(__file__).parent
LIBRARY = HERE.parents[1] / "src" / "rankwise"
SAME_TIME = "{}, in AutoRanker's time"
TUNED = "{}, tuned"


def compete(fold: Fold, contestant: Contestant) -> list[dict[str, Any]]:
    """What a contestant has chosen after some time, and after more: seconds and values of queries.

    The first fit of a process compiles loops: a small one comes before.
    """
    found = []
    for chosen in contestant(fold.pool):
        values = fold.judge(chosen.scores(fold.X, fold.qid))
        found.append(_entry(chosen, values))
    return found


def _entry(chosen: Chosen, values: np.ndarray) -> dict[str, Any]:
    rounded = [round(float(value), 5) for value in values]
    return {"words": chosen.words, "seconds": round(chosen.seconds, 3), "values": rounded}


def code_key(name: str) -> str:
    """A digest of the code that a contestant depends on."""
    files = [HERE / "problems.py", HERE / "boosters.py"]
    if name in RANKERS:
        files += [HERE / "rankers.py", *sorted(LIBRARY.rglob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def entries(problem: str, number: int, name: str) -> list[dict[str, Any]]:
    """The entries of a contestant in a fold of a problem, from the cache if they are there."""
    path = CACHE / "contest" / f"{problem}-{number}.json"
    key = f"{name} {code_key(name)}"
    found = kept(path)
    if key not in found:
        path.parent.mkdir(parents=True, exist_ok=True)
        _compile()
        contestant = (RANKERS | BOOSTERS)[name]
        found = keep(path, {key: compete(_fold(problem, number), contestant)})
        last = found[key][-1]
        mean = np.mean(last["values"])
        words = f"  {problem} {number}, {name}: {mean:.4f} in {last['seconds']:.1f} s"
        print(words, file=sys.stderr, flush=True)
    return found[key]


@cache
def _fold(problem: str, number: int) -> Fold:
    return get_fold(problem, number)


@cache
def _compile() -> None:
    small = get_fold("diabetes", 1)
    for name in ("RankRLS, default", OURS):
        next(iter(RANKERS[name](small.pool)))


def fold_step(number: int) -> dict[str, Any]:
    """The figures of all contestants on all problems, in one fold."""
    return {problem: figures(_of_all(problem, number)) for problem in PROBLEMS}


def _of_all(problem: str, number: int) -> dict[str, dict[str, Any]]:
    """One entry for each contestant; boosters have two."""
    found = {name: entries(problem, number, name)[-1] for name in RANKERS}
    for name in BOOSTERS:
        every = entries(problem, number, name)
        found[TUNED.format(name)] = every[-1]
        in_time = [one for one in every if one["seconds"] <= found[OURS]["seconds"]]
        found[SAME_TIME.format(name)] = in_time[-1] if in_time else every[0]
    return found


def figures(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Of each contestant: seconds, NDCG@10, and sums of its differences.

    AutoRanker is compared with all, and a ranker with its defaults with its tuned form.
    """
    values = {name: np.array(entry["values"]) for name, entry in found.items()}
    out = {}
    for name, entry in found.items():
        out[name] = {
            "words": entry["words"],
            "seconds": entry["seconds"],
            "queries": len(values[name]),
            "sum": round(float(values[name].sum()), 5),
            **_sums("gap", values[OURS] - values[name]),
        }
        kind, _, form = name.partition(", ")
        if form == "default":
            out[name] |= _sums("over tuned", values[name] - values[TUNED.format(kind)])
    return out


def _sums(name: str, differences: np.ndarray) -> dict[str, float]:
    """The sums of some differences and of their squares."""
    squares = float(np.square(differences).sum())
    return {name: round(float(differences.sum()), 5), f"{name} squares": round(squares, 6)}


class Sums:
    """The figures of a contestant on a problem, over the test queries of all folds."""

    def __init__(self, parts: list[dict[str, Any]]) -> None:
        def total(name: str) -> float:
            return float(sum(part[name] for part in parts))

        def paired(name: str) -> tuple[float, float]:
            """The mean of differences, and its standard error."""
            mean = total(name) / n
            variance = max(0.0, total(f"{name} squares") / n - mean**2) * n / (n - 1)
            return mean, float(np.sqrt(variance / n))

        n = total("queries")
        self.mean = total("sum") / n
        self.gap, self.error = paired("gap")
        self.over_tuned = paired("over tuned") if "over tuned" in parts[0] else None
        self.seconds = total("seconds") / len(parts)


def texts(results: dict[str, Any]) -> dict[str, str]:
    """The block of the README."""
    done = [results[f"fold-{k}"] for k in FOLDS if f"fold-{k}" in results]
    if not done:
        return {}
    names = list(next(iter(done[0].values())))
    sums = {
        problem: {name: Sums([fold[problem][name] for fold in done]) for name in names}
        for problem in done[0]
    }
    parts = [
        sentences(sums, len(done)),
        mean_table(sums).to_markdown(),
        problem_table(sums).to_markdown(),
        gap_table(sums).to_markdown(),
        default_table(sums).to_markdown(),
    ]
    return {"contest": "\n\n".join(parts)}


def over_problems(sums: Mapping[str, Mapping[str, Sums]], name: str) -> tuple[float, float, float]:
    """Mean NDCG@10 over problems, how far AutoRanker is ahead, and its standard error."""
    found = [of_problem[name] for of_problem in sums.values()]
    error = np.sqrt(sum(one.error**2 for one in found)) / len(found)
    return (
        float(np.mean([one.mean for one in found])),
        float(np.mean([one.gap for one in found])),
        float(error),
    )


def sentences(sums: Mapping[str, Mapping[str, Sums]], n_folds: int) -> str:
    """What was run, and how AutoRanker compares with every booster."""
    lines = [f"{len(sums)} problems, {n_folds} of {len(FOLDS)} folds."]
    for library in BOOSTERS:
        name = TUNED.format(library)
        _, gap, error = over_problems(sums, name)
        behind = [
            f"{problem} (by {-of[name].gap:.3f}, standard error {of[name].error:.3f})"
            for problem, of in sums.items()
            if of[name].gap < -of[name].error
        ]
        times = [of[name].seconds / of[OURS].seconds for of in sums.values()]
        lines.append(
            f"In the mean of all problems, AutoRanker is {abs(gap):.4f} "
            f"{'ahead of' if gap >= 0 else 'behind'} tuned {library} (standard error {error:.4f}), "
            f"which takes {np.median(times):.1f} times as long (median); it is behind by more than "
            f"one standard error on {', '.join(behind) if behind else 'no problem'}."
        )
    return " ".join(lines)


def mean_table(sums: Mapping[str, Mapping[str, Sums]]) -> Table:
    columns = (
        Column("mean of all problems", ""), Column("NDCG@10"),
        Column("AutoRanker is ahead by", "+.4f"), Column("standard error"), Column("p", ".2g"),
        Column("time, AutoRanker = 1", ".2f"),
    )  # fmt: skip
    rows = []
    for name in next(iter(sums.values())):
        mean, gap, error = over_problems(sums, name)
        ratio = float(np.median([of[name].seconds / of[OURS].seconds for of in sums.values()]))
        p = 2.0 * norm.sf(abs(gap) / error) if error > 0 else None
        rest = (None, None, None) if name == OURS else (gap, error, p)
        rows.append((name, mean, *rest, ratio))
    best = max(range(len(rows)), key=lambda row: rows[row][1])
    return Table(columns, tuple(rows), best=frozenset({(best, 1)}))


def problem_table(sums: Mapping[str, Mapping[str, Sums]]) -> Table:
    shown = [OURS, "RankRLS, default", *(TUNED.format(name) for name in BOOSTERS)]
    shown += [SAME_TIME.format(name) for name in BOOSTERS]
    columns = (Column("NDCG@10", ""), *(Column(name, ".3f") for name in shown))
    rows = [(p, *(of[name].mean for name in shown)) for p, of in sums.items()]
    best = {(r, 1 + int(np.argmax(row[1:]))) for r, row in enumerate(rows)}
    return Table(columns, tuple(rows), best=frozenset(best))


def gap_table(sums: Mapping[str, Mapping[str, Sums]]) -> Table:
    columns = [Column("AutoRanker is ahead of", "")]
    for library in BOOSTERS:
        columns += [Column(TUNED.format(library), "+.4f"), Column("s.e.")]
    rows = []
    for problem, of in sums.items():
        row: list[Any] = [problem]
        for library in BOOSTERS:
            one = of[TUNED.format(library)]
            row += [one.gap, one.error]
        rows.append(tuple(row))
    return Table(tuple(columns), tuple(rows))


def default_table(sums: Mapping[str, Mapping[str, Sums]]) -> Table:
    """RankRLS and SparseRankRLS as they are, and tuned."""
    columns = [Column("NDCG@10", "")]
    kinds = ("RankRLS", "SparseRankRLS")
    for kind in kinds:
        columns += [Column(f"{kind}, default"), Column("tuned"), Column("difference", "+.4f")]
        columns += [Column("s.e.")]
    rows = []
    for problem, of in sums.items():
        row: list[Any] = [problem]
        for kind in kinds:
            default, best = of[f"{kind}, default"], of[TUNED.format(kind)].mean
            row += [default.mean, best, *(default.over_tuned or (None, None))]
        rows.append(tuple(row))
    numbers = np.array([row[1:] for row in rows], dtype=np.float64)
    means = numbers.mean(axis=0)
    means[3::4] = np.linalg.norm(numbers[:, 3::4], axis=0) / len(rows)
    return Table(tuple(columns), (*rows, ("mean", *means.tolist())))


STEPS = {f"fold-{number}": partial(fold_step, number) for number in FOLDS}

if __name__ == "__main__":
    sys.exit(run_steps(HERE, __doc__, STEPS, texts))
