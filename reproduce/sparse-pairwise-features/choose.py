"""What run.py is to be run with, chosen on training documents alone.

A fifth of the training posts (10,000 training images) are set aside, models are fitted to the
others, and MAP, error and density are those of the rows set aside. Test documents are not read.

Usage: RANKWISE_DATA=folder python reproduce/sparse-pairwise-features/choose.py [trials ...]

Trials that are in ``trials.json`` are not run again; run.py --write puts them into the README.
"""

from __future__ import annotations

import json
import sys
from functools import cache

from data import Split, mnist, newsgroups
from run import TRIALS, evaluate

from rankwise import SparseBilinearRanker
from rankwise.backends.files import replacing

HALF = {"structure": "dense", "dtype": "float32", "n_iter": 50_000, "random_state": 0}
SPARSE = {"dtype": "float32", "random_state": 0}
TEXTS: dict[str, tuple[dict, dict]] = {
    "all headers, stop words dropped": ({}, HALF),
    "all headers, stop words kept": ({"stop_words": None}, HALF),
    "all headers, raw counts": ({"sublinear_tf": False}, HALF),
    "subject only, stop words dropped": ({"text": "subject"}, HALF),
    "no headers, stop words dropped": ({"text": "body"}, HALF),
}
RATES: dict[str, tuple[dict, dict]] = {
    f"eta0 = {eta0:g}, alpha = {alpha:g}": ({}, {**SPARSE, "eta0": eta0, "alpha": alpha})
    for eta0, alpha in ((200.0, 6e-6), (100.0, 1.2e-5), (400.0, 3e-6), (50.0, 2.4e-5))
}
DIGITS: dict[str, tuple[dict, dict]] = {
    f"MNIST, alpha = {alpha:g}": ({"mnist": True}, {"random_state": 0, "alpha": alpha})
    for alpha in (5e-6,)
}


@cache
def load(mnist_: bool, text: str, stop_words: str | None, sublinear_tf: bool) -> Split:
    if mnist_:
        return mnist(validation=True)
    return newsgroups(text, stop_words, sublinear_tf, validation=True)


def run_trial(texts: dict, parameters: dict) -> dict:
    split = load(
        texts.get("mnist", False),
        texts.get("text", "post"),
        texts.get("stop_words", "english"),
        texts.get("sublinear_tf", True),
    )
    ranker = SparseBilinearRanker(**parameters).fit_classes(split.X, split.y)
    figures = evaluate(
        lambda rows: ranker.score_all(split.X_test[rows], split.X_test), split.y_test
    )
    return figures | {"density": ranker.density_, "steps": ranker.n_iter_}


def read_trials() -> dict[str, dict]:
    return json.loads(TRIALS.read_text()) if TRIALS.exists() else {}


def main() -> int:
    trials = TEXTS | RATES | DIGITS
    for name in sys.argv[1:] or trials:
        if name not in read_trials():
            found = run_trial(*trials[name])
            with replacing(TRIALS) as beside:
                beside.write_text(json.dumps(read_trials() | {name: found}, indent=1) + "\n")
            print(name, {k: round(v, 4) for k, v in found.items()}, file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
