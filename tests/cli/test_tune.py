"""tune: choose parameters without a validation file."""

import io
import sys
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwise import RLS, RankRLS, load_model
from rankwise.cli.terminal import progress
from rankwise.data import normalize_per_query, read_letor, write_letor
from rankwise.metrics import average_precision, ndcg
from rankwise.model_selection import k_fold, leave_pair_out, leave_query_out
from rankwise.persistence import open_model

GRID = [0.1, 1.0, 10.0, 100.0, 1000.0]


@pytest.fixture
def tune(run, monkeypatch):
    """Run the command without drawing."""
    monkeypatch.setattr("rankwise.cli.tune.tuning_page.write_picture", lambda *_: None)
    return partial(run, "tune")


def lines_of(result):
    """Cells of the table, without title and header."""
    return [line.split() for line in result.stdout.splitlines()[4:]]


@pytest.fixture
def ranking(tmp_path):
    """A file without queries."""
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((40, 4)), 3)
    y = (X[:, 0] + rng.standard_normal(40) > 0).astype(float)
    path = tmp_path / "ranking.txt"
    write_letor(path, X, y)
    return path, X, y


def test_every_setting_is_scored_and_the_best_is_written(files, tune, tmp_path):
    out = tmp_path / "model.rankwise"
    result = tune(
        files.train, "-o", out, "--alphas", "0.1:1000:5", "--ties", "include,exclude",
        "--metric", "ndcg@3",
    )  # fmt: skip
    data = read_letor(files.train)
    want = [
        leave_query_out(
            RankRLS(ties=ties, scale="query-minmax"),
            data.X,
            data.y,
            qid=data.qid,
            alphas=GRID,
            metric="ndcg@3",
        )
        for ties in ("include", "exclude")
    ]
    rows = lines_of(result)
    assert [row[0] for row in rows] == ["include", "exclude"]
    for row, r in zip(rows, want, strict=True):
        numbers = r.best_alpha, r.score[r.best_index], r.standard_error[r.best_index]
        assert_allclose([float(cell) for cell in row[1:4]], numbers, atol=6e-5)
    best = int(np.argmax([r.score.max() for r in want]))
    assert [i for i, row in enumerate(rows) if row[4:] == ["chosen"]] == [best]
    alpha, ties = want[best].best_alpha, ("include", "exclude")[best]
    refit = RankRLS(alpha, ties=ties, scale="query-minmax").fit(data.X, data.y, qid=data.qid)
    got = load_model(out)
    assert got.get_params() == refit.get_params()
    assert_allclose(got.coef_, refit.coef_)
    assert result.stdout.startswith("Leave-query-out over 10 queries, ")
    assert str(out) in result.stderr
    assert str(tmp_path / "model.svg") in result.stderr


def test_one_setting_shows_every_alpha(files, tune, tmp_path):
    result = tune(files.train, "-o", tmp_path / "m.rankwise", "--alphas", "0.1:1000:5")
    data = read_letor(files.train)
    ranker = RankRLS(scale="query-minmax")
    want = leave_query_out(ranker, data.X, data.y, qid=data.qid, alphas=GRID)
    rows = lines_of(result)
    assert_allclose([float(row[0]) for row in rows], GRID)
    assert_allclose([float(row[1]) for row in rows], want.score, atol=6e-5)
    assert_allclose([float(row[2]) for row in rows], want.standard_error, atol=6e-5)
    assert [i for i, row in enumerate(rows) if row[3:] == ["chosen"]] == [want.best_index]


def test_folds_of_queries(files, tune, tmp_path):
    result = tune(files.train, "-o", tmp_path / "m.rankwise", "--alphas", "1", "--folds", 5)
    data = read_letor(files.train)
    ranker = RankRLS(1.0, scale="query-minmax")
    want = leave_query_out(ranker, data.X, data.y, qid=data.qid, n_splits=5)
    assert result.stdout.startswith("5 folds of whole queries out of 10 queries, ")
    assert_allclose(float(lines_of(result)[0][1]), want.score[0], atol=6e-5)


def test_normalized_features_and_relevant_labels(files, tune, tmp_path):
    out = tmp_path / "m.rankwise"
    result = tune(
        files.train, "-o", out, "--metric", "MAP", "--relevant", 2,
        "--alphas", "0.1:1000:5",
    )  # fmt: skip
    data = read_letor(files.train)
    X = normalize_per_query(data.X, data.qid)
    held_out = leave_query_out(RankRLS(), X, data.y, qid=data.qid, alphas=GRID).predictions
    per_query = [
        average_precision(data.y, f, data.qid, relevant=2, per_query=True).values for f in held_out
    ]
    values = np.array([np.mean(values) for values in per_query])
    errors = [np.std(values, ddof=1) / np.sqrt(len(values)) for values in per_query]
    rows = lines_of(result)
    assert_allclose([float(row[1]) for row in rows], values, atol=6e-5)
    assert_allclose([float(row[2]) for row in rows], errors, atol=6e-5)
    model = load_model(out)
    assert model.scale_ == "query-minmax"
    assert values[GRID.index(model.alpha)] == values.max()


def test_every_combination_is_tried(files, tune, tmp_path):
    out = tmp_path / "m.rankwise"
    result = tune(
        files.train, "-o", out, "--kernel", "linear,polynomial", "--gamma", "0.01,0.1",
        "--degree", 2, "--weighting", "queries,pairs", "--alphas", "1,10",
    )  # fmt: skip
    assert result.stdout.splitlines()[2].split()[:3] == ["kernel", "gamma", "weighting"]
    rows = lines_of(result)
    assert [tuple(row[:3]) for row in rows] == [
        ("linear", "–", "queries"),
        ("linear", "–", "pairs"),
        ("polynomial", "0.01", "queries"),
        ("polynomial", "0.01", "pairs"),
        ("polynomial", "0.1", "queries"),
        ("polynomial", "0.1", "pairs"),
    ]
    (chosen,) = (row for row in rows if row[-1] == "chosen")
    model = open_model(out).model
    assert [model.kernel, model.weighting] == [chosen[0], chosen[2]]


def test_without_queries_pairs_are_held_out(ranking, tune, tmp_path):
    path, X, y = ranking
    out = tmp_path / "m.rankwise"
    options = "--alphas", "0.1:1000:5", "--ties", "exclude"
    want = leave_pair_out(RankRLS(ties="exclude"), X, y, alphas=GRID)
    for metric, values in (("disagreement", want.error), ("auc", want.auc)):
        result = tune(path, "--one-ranking", "-fo", out, "--metric", metric, *options)
        assert result.stdout.startswith("Leave-pair-out over 40 rows\n")
        rows = lines_of(result)
        assert_allclose([float(row[1]) for row in rows], values, atol=6e-5)
        assert_allclose([float(row[2]) for row in rows], want.standard_error, atol=6e-5)
        assert load_model(out).alpha == want.best_alpha


def test_the_best_of_several_aucs_is_the_largest(ranking, tune, tmp_path):
    path, *_ = ranking
    result = tune(
        path, "-o", tmp_path / "m.rankwise", "--metric", "auc", "--alphas", "1",
        "--kernel", "rbf", "--gamma", "100,0.1", "--one-ranking",
    )  # fmt: skip
    rows = lines_of(result)
    assert max(rows, key=lambda row: float(row[2]))[-1] == "chosen"


def test_without_queries_folds_are_of_rows(ranking, tune, tmp_path):
    path, X, y = ranking
    result = tune(
        path, "-o", tmp_path / "m.rankwise", "--folds", 4, "--metric", "map",
        "--alphas", "0.1:1000:5", "--model", "rls", "--one-ranking",
    )  # fmt: skip
    want = k_fold(RLS(), X, y, n_splits=4, alphas=GRID, metric="map", random_state=0)
    assert result.stdout.startswith("4 folds of 40 rows\n")
    assert_allclose([float(row[1]) for row in lines_of(result)], want.score, atol=6e-5)


def test_a_hint_where_the_best_alpha_is_at_the_end_of_the_grid(files, tune, tmp_path):
    options = files.train, "-fo", tmp_path / "m.rankwise", "--model", "rls"
    assert "widen --alphas" in tune(*options, "--alphas", "1e7,1e9").stderr
    assert "widen --alphas" not in tune(*options, "--alphas", "1").stderr


@pytest.mark.parametrize(
    ("suffix", "begin"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")]
)
def test_pictures(files, run, tmp_path, suffix, begin):
    picture = tmp_path / f"picture{suffix}"
    run("tune", files.train, "-o", tmp_path / "m.rankwise", "--alphas", "1,10", "--plot", picture)
    assert picture.read_bytes().startswith(begin)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.rankwise", picture.name]


def test_a_page_has_everything(files, run, tmp_path):
    page = tmp_path / "report.html"
    run(
        "tune", files.train, "-o", tmp_path / "m.rankwise", "--alphas", "1:1000:4", "--plot", page,
        "--weighting", "pairs,rows,queries", "--ties", "include,exclude",
    )  # fmt: skip
    text = page.read_text()
    assert text.count("<svg") == 1
    assert "The best 4 of 6 settings. Below: how far each is behind the best on the same" in text
    assert text.count("<table>") == 2
    assert text.count("chosen") == 2
    assert "Every alpha with" in text
    assert "<code>RankRLS(" in text


def test_without_matplotlib(files, tune, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    out = tmp_path / "m.rankwise"
    result = tune(files.train, "-o", out, "--alphas", "1,10")
    assert "No picture: " in result.stderr
    assert list(tmp_path.iterdir()) == [out]
    message = tune(files.train, "-fo", out, "--plot", tmp_path / "p.svg", ok=False)
    assert "pip install 'rankwise[plots]'" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--alphas", "1:10"], "'--alphas'"),
        (["--alphas", "0,1"], "need alphas above 0"),
        (["--gamma", "1:10", "--kernel", "rbf"], "'--gamma'"),
        (["--gamma", "1"], "for the kernels rbf, laplacian, polynomial, sigmoid: got linear"),
        (["--kernel", "rbf,linear", "--degree", "2"], "'--degree'"),
        (["--kernel", "rbf,spline"], "Choose from linear, rbf"),
        (["--ties", "both"], "Choose from include, exclude"),
        (["--weighting", ""], "'--weighting'"),
        (["--model", "rls", "--ties", "exclude"], "for the models rankrls"),
        (["--metric", "mop"], "metric must be one of"),
        (["--metric", "ndcg", "--relevant", "2"], "'--relevant'"),
        (["--folds", "1"], "'--folds'"),
        (["--folds", "11"], "n_splits must be"),
        (["--plot", "picture.gif"], "Pictures end with .svg"),
        (["--plot", "no/folder/p.svg"], "no such folder"),
    ],
)
def test_options_that_are_refused(files, tune, tmp_path, options, message):
    out = tmp_path / "model.rankwise"
    assert message in tune(files.train, "-o", out, *options, ok=False)
    assert list(tmp_path.iterdir()) == []


def test_options_that_need_queries(ranking, tune, tmp_path):
    path, *_ = ranking
    given = path, "--one-ranking", "-o", tmp_path / "m.rankwise"
    assert "give --folds as well" in tune(*given, "--metric", "map", ok=False)
    options = "--metric", "map", "--folds", 4, "--relevant", 1
    assert "needs queries" in tune(*given, *options, ok=False)


def test_the_picture_does_not_overwrite_the_model(files, tune, tmp_path):
    out = tmp_path / "model.svg"
    assert "would overwrite the model" in tune(files.train, "-o", out, ok=False)


def test_a_terminal_shows_the_progress(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress("Holding out") as report:
        report(0, 2, "ties include")
        report(1, 2, "ties exclude")
    seen = terminal.getvalue()
    assert "Holding out" in seen
    assert "ties exclude" in seen
    assert "50%" in seen


def test_ohsumed_without_a_validation_file(data_folder, run, tune, tmp_path):
    train, valid, test = (
        data_folder / "letor1_ohsumed" / "Fold1" / f"{part}set.txt.gz"
        for part in ("training", "validation", "test")
    )
    tuned, fitted = tmp_path / "tuned.rankwise", tmp_path / "fitted.rankwise"
    options = "--metric", "map"
    tune(train, "-o", tuned, "--ties", "include,exclude", *options)
    run("fit", train, "-o", fitted, "--valid", valid, *options)

    def map_of(path):
        table = run("evaluate", path, test).stdout
        return float(next(line for line in table.splitlines() if line.startswith("MAP")).split()[1])

    assert map_of(tuned) == pytest.approx(map_of(fitted), abs=0.01)


def test_words_say_how_far_the_choice_is_from_the_next(files, tune, tmp_path):
    out = tmp_path / "model.rankwise"
    options = ("--alphas", "0.1:1000:5", "--metric", "ndcg@3")
    result = tune(files.train, "-o", out, *options, "--ties", "include,exclude")
    data = read_letor(files.train)
    a, b = (
        leave_query_out(
            RankRLS(ties=ties, scale="query-minmax"),
            data.X,
            data.y,
            qid=data.qid,
            alphas=GRID,
            metric="ndcg@3",
        )
        for ties in ("include", "exclude")
    )
    values = [
        ndcg(data.y, r.predictions[r.best_index], data.qid, k=3, per_query=True).values
        for r in (a, b)
    ]
    gap = values[0] - values[1]
    gap = gap if gap.mean() >= 0 else -gap
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    assert f"The best is {gap.mean():.4f} better than the next (ties" in result.stderr
    assert f"in ndcg@3, with a standard error of {error:.4f}: the data cannot" in result.stderr
    assert "The best of 10 scores is optimistic" in result.stderr

    alone = tune(files.train, "-fo", out, *options)
    next_best = np.sort(a.score)[-2]
    assert (
        f"The best is {a.score.max() - next_best:.4f} better than the next (alpha" in alone.stderr
    )
    single = tune(files.train, "-fo", out, "--alphas", "1")
    assert "The best" not in single.stderr
