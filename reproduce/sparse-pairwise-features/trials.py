"""Choose the settings of run.py on training documents.

A fifth of the training posts (10,000 training images) are held out, and models are fitted to the
others. MAP and error are those of the held-out rows. Test documents are not used.
"""

from __future__ import annotations

import sys
from functools import partial

from .data import Split, mnist, newsgroups
from .experiment import run_model

TEXTS = {
    "subject as the only header, without stop words": {},
    "all headers": {"text": "post"},
    "no headers": {"text": "body"},
    "stop words kept": {"stop_words": None},
    "raw counts": {"sublinear_tf": False},
    "idf = 1 + log(n / df)": {"least_idf": 1.0},
}
SHORT = {"structure": "dense", "dtype": "float32", "n_iter": 50_000, "random_state": 0}
# First rates, each with an alpha that gives about the same density.
POSTS = {
    "invsqrt": ((130.0, 9e-6), (200.0, 6e-6), (300.0, 4e-6)),
    "adagrad": ((1.0, 1.5e-5), (2.5, 7e-6), (4.0, 5.5e-6), (7.0, 4e-6)),
}
IMAGES = {
    "invsqrt": ((12.0, 5e-6), (25.0, 3e-6), (50.0, 2.4e-6), (100.0, 1.2e-6), (200.0, 6e-7)),
    "adagrad": ((0.25, 6e-6), (0.5, 4e-6), (1.0, 3e-6), (4.0, 1e-6)),
}


def run_trials() -> dict[str, dict]:
    """MAP, error, density and steps of each trial."""
    loads = {f"posts, {name}": partial(newsgroups, **how) for name, how in TEXTS.items()}
    found = {name: _run(name, load(validation=True), SHORT) for name, load in loads.items()}
    for rows, load, rates in (("posts", newsgroups, POSTS), ("images", mnist, IMAGES)):
        split = load(validation=True)
        dtype = "float32" if rows == "posts" else "float64"
        for schedule, tried in rates.items():
            for eta0, alpha in tried:
                name = f"{rows}, {schedule}, eta0 = {eta0:g}, alpha = {alpha:g}"
                how = {"schedule": schedule, "eta0": eta0, "alpha": alpha, "dtype": dtype}
                found[name] = _run(name, split, {**how, "random_state": 0})
    return found


def _run(name: str, split: Split, parameters: dict) -> dict:
    figures = run_model(split, parameters)
    found = {key: figures[key] for key in ("MAP", "error", "density", "steps")}
    print(name, {k: round(v, 4) for k, v in found.items()}, file=sys.stderr, flush=True)
    return found
