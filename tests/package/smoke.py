"""What an installed rankwise must do, without the repository: ``python smoke.py [EXTRA ...]``.

Each extra that is named must work. Run it in an empty folder.
"""

import csv
import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import numpy as np

import rankwise
from rankwise import (
    KPCRank,
    Leaderboard,
    PairwiseGP,
    RankRLS,
    SparseRankRLS,
    load_model,
    save_model,
)
from rankwise.data import make_battles, make_ranking, write_letor
from rankwise.errors import MissingExtraError
from rankwise.metrics import ndcg
from rankwise.model_selection import leave_pair_out, leave_query_out

DATA_FILES = (
    "py.typed",
    "report/html_page.css",
    "asking/web/static/ask.js",
    "asking/web/static/ask.css",
    "asking/web/static/htmx.min.js",
    "asking/web/templates/ask.html",
)
data = make_ranking(20, rows_per_query=8, n_features=4, n_levels=3, random_state=0)
X, y, qid = data.X, data.y, data.qid


def rankers():
    assert version("rankwise") == rankwise.__version__
    for name in DATA_FILES:
        assert files("rankwise").joinpath(name).is_file(), name
    for ranker in (RankRLS(), SparseRankRLS(n_landmarks=20, random_state=0), KPCRank(4)):
        ranker.fit(X, y, qid=qid)
        assert ndcg(y, ranker.predict(X, qid=qid), qid, k=10) > 0.8, ranker
        save_model(ranker, "model.rankwise")
        again = load_model("model.rankwise")
        np.testing.assert_allclose(again.predict(X, qid=qid), ranker.predict(X, qid=qid))
    leave_query_out(RankRLS(), X, y, qid=qid)
    leave_pair_out(RankRLS(), X, y)
    PairwiseGP().fit_pairs(X[:6], [[0, 1], [2, 3], [4, 5], [1, 2]]).predict(X)
    assert len(Leaderboard().fit(make_battles(5, 200, random_state=0).battles).items_) == 5


def commands():
    write_letor("train.txt", X, y, qid)
    run("--help")
    run("fit", "--help")
    run("fit", "train.txt", "--out", "fitted.rankwise")
    run("predict", "fitted.rankwise", "train.txt", "--out", "scores.txt")
    run("evaluate", "fitted.rankwise", "train.txt")
    assert len(Path("scores.txt").read_text().split()) == len(y)


def program():
    return Path(sys.executable).with_name("rankwise")


def run(*arguments):
    done = subprocess.run([program(), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, (arguments, done.stderr)


def without_plots():
    from rankwise.plots import plot_coefficients

    message = ""
    try:
        plot_coefficients([1.0, 2.0])
    except MissingExtraError as error:
        message = str(error)
    assert "rankwise[plots]" in message


def plots():
    from rankwise.plots import plot_coefficients, save_figure

    save_figure(plot_coefficients([1.0, 2.0]).figure, "figure.svg")


def tables():
    with open("train.csv", "w", newline="") as file:
        write = csv.writer(file)
        write.writerow(["qid", "label", "a", "b", "c", "d"])
        write.writerows([q, label, *x] for q, label, x in zip(qid, y, X, strict=True))
    run("info", "train.csv")
    run("fit", "train.csv", "--out", "table.rankwise")
    run("predict", "table.rankwise", "train.csv", "--out", "scores.parquet")


def boost():
    from rankwise import BoostedRanker

    BoostedRanker(n_estimators=5).fit(X, y, qid=qid).predict(X)


def onnx():
    from rankwise.export import to_onnx

    assert to_onnx(RankRLS(1.0, scale=None).fit(X, y, qid=qid)).check.passed


def ask():
    """The page of `rankwise ask`, with its templates, as a browser gets it."""
    Path("ideas.txt").write_text("tea\ncoffee\nwater\n")
    arguments = [program(), "ask", "ideas.txt", "--no-browser", "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as server:
        try:
            link = next(line for line in server.stdout if line.startswith("organizer")).split()[1]
            browser = build_opener(HTTPCookieProcessor())
            assert b"ask.js" in browser.open(link).read()
        finally:
            server.terminate()


def main(extras):
    rankers()
    commands()
    for check in (plots, tables, boost, onnx, ask):
        if check.__name__ in extras:
            check()
    if "plots" not in extras:
        without_plots()
    print("rankwise", rankwise.__version__, "works with NumPy", np.__version__, *extras)


if __name__ == "__main__":
    main(sys.argv[1:])
