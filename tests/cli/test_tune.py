"""tune: choose parameters without a validation file."""

import io
import re
import sys
import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.pipeline import make_pipeline

from rankwise import (
    RLS,
    KPCRank,
    QueryMinMaxScaler,
    RankingSearchCV,
    RankRLS,
    RankSVM,
    load_model,
)
from rankwise.cli.terminal import progress
from rankwise.data import normalize_per_query, read_letor, write_letor
from rankwise.metrics import average_precision, disagreement_error, get_metric, ndcg
from rankwise.model_selection import leave_pair_out, leave_query_out
from rankwise.persistence import open_model

GRID = [0.1, 1.0, 10.0, 100.0, 1000.0]


@pytest.fixture
def tune(run, monkeypatch):
    """Run the command without drawing."""
    monkeypatch.setattr("rankwise.cli.tune_page.write_picture", lambda *_: None)
    return partial(run, "tune")


def lines_of(result):
    """Cells of the table, without title, header and note."""
    return [line.split() for line in table_of(result)]


def table_of(result):
    """Lines of the table."""
    return result.stdout.partition("\n\n")[2].partition("\n\n")[0].splitlines()[2:]


def behind(values, best):
    """Means and standard errors of paired differences, from lists of values by query."""
    signs = np.sign((values[best] - values).mean(axis=1))
    gaps = signs[:, None] * (values[best] - values)
    return gaps.mean(axis=1), gaps.std(axis=1, ddof=1) / np.sqrt(gaps.shape[1])


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
        files.train, "-o", out, "--alphas", "0.1:1000:5", "--set", "ties=include,exclude",
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
    order = np.argsort([-r.score.max() for r in want], kind="stable")
    names = ["include", "exclude"]
    assert [row[:2] for row in rows] == [["ties", names[k]] for k in order]
    values = np.array(
        [
            ndcg(
                data.y, want[k].predictions[want[k].best_index], data.qid, k=3, per_query=True
            ).values
            for k in order
        ]
    )
    gaps, errors = behind(values, 0)
    for row, k, gap in zip(rows, order, gaps, strict=True):
        numbers = want[k].best_alpha, want[k].score.max(), gap
        assert_allclose([float(cell) for cell in row[2:5]], numbers, atol=6e-5)
    assert rows[0][5] == "–"
    assert_allclose(float(rows[1][5]), errors[1], atol=6e-5)
    best = int(order[0])
    alpha, ties = want[best].best_alpha, ("include", "exclude")[best]
    refit = RankRLS(alpha, ties=ties, scale="query-minmax").fit(data.X, data.y, qid=data.qid)
    got = load_model(out)
    assert got.get_params() == refit.get_params()
    assert_allclose(got.coef_, refit.coef_)
    assert result.stdout.startswith("Leave-query-out over 10 queries, ")
    assert str(out) in result.stderr


def test_one_setting_shows_every_alpha(files, tune, tmp_path):
    options = ("--alphas", "0.1:1000:5", "--metric", "disagreement")
    result = tune(files.train, "-o", tmp_path / "m.rankwise", *options)
    data = read_letor(files.train)
    ranker = RankRLS(scale="query-minmax")
    want = leave_query_out(ranker, data.X, data.y, qid=data.qid, alphas=GRID)
    rows = lines_of(result)
    assert_allclose([float(row[0]) for row in rows], GRID)
    assert_allclose([float(row[1]) for row in rows], want.score, atol=6e-5)
    best = want.best_index
    values = np.array(
        [disagreement_error(data.y, f, data.qid, per_query=True).values for f in want.predictions]
    )
    gaps, errors = behind(values, best)
    assert_allclose([float(row[2]) for row in rows], gaps, atol=6e-5)
    others = [k for k in range(len(rows)) if k != best]
    assert_allclose([float(rows[k][3]) for k in others], errors[others], atol=6e-5)
    assert rows[best][3:] == ["–", "chosen"]
    assert all(row[4:] == [] for k, row in enumerate(rows) if k != best)
    error = want.standard_error[best]
    assert f"disagreement {want.score[best]:.4f}, with a standard error of {error:.4f}." in (
        result.stderr
    )


def test_folds_of_queries(files, tune, tmp_path):
    result = tune(files.train, "-o", tmp_path / "m.rankwise", "--alphas", "1", "--folds", 5)
    data = read_letor(files.train)
    ranker = RankRLS(1.0, scale="query-minmax")
    want = leave_query_out(ranker, data.X, data.y, qid=data.qid, n_splits=5, metric="ndcg@10")
    assert "  NDCG@10  " in result.stdout  # the metric of grades
    assert result.stdout.startswith("5 folds of whole queries out of 10 queries, ")
    assert_allclose(float(lines_of(result)[0][1]), want.score[0], atol=6e-5)


@pytest.mark.parametrize("metric", ["recall@5", "p@5", "rbp"])
def test_metrics_that_count_relevant_rows_take_the_label(files, tune, tmp_path, metric):
    options = "--metric", metric, "--relevant", 2, "--alphas", "1"
    result = tune(files.train, "-o", tmp_path / "m.rankwise", *options)
    data = read_letor(files.train)
    ranker = RankRLS(1.0, scale="query-minmax")
    held_out = leave_query_out(ranker, data.X, data.y, qid=data.qid).predictions[0]
    want = get_metric(metric).function(data.y, held_out, data.qid, relevant=2)
    assert_allclose(float(lines_of(result)[0][1]), want, atol=6e-5)


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
    rows = lines_of(result)
    assert_allclose([float(row[1]) for row in rows], values, atol=6e-5)
    model = load_model(out)
    best = GRID.index(model.alpha)
    gaps, _ = behind(np.array(per_query), best)
    assert_allclose([float(row[2]) for row in rows], gaps, atol=6e-5)
    error = np.std(per_query[best], ddof=1) / np.sqrt(len(per_query[best]))
    assert f"with a standard error of {error:.4f}." in result.stderr
    assert model.scale_ == "query-minmax"
    assert values[GRID.index(model.alpha)] == values.max()


def test_every_combination_is_tried(files, tune, tmp_path):
    out = tmp_path / "m.rankwise"
    result = tune(
        files.train, "-o", out, "--kernel", "linear,polynomial", "--set", "gamma=0.01,0.1",
        "--set", "degree=2", "--set", "weighting=queries,pairs", "--alphas", "1,10",
    )  # fmt: skip
    assert result.stdout.splitlines()[2].split()[:2] == ["setting", "alpha"]
    rows = [re.match(r".*?weighting \w+", line)[0] for line in table_of(result)]
    assert sorted(rows) == [
        "kernel linear, weighting pairs",
        "kernel linear, weighting queries",
        "kernel polynomial, gamma 0.01, weighting pairs",
        "kernel polynomial, gamma 0.01, weighting queries",
        "kernel polynomial, gamma 0.1, weighting pairs",
        "kernel polynomial, gamma 0.1, weighting queries",
    ]
    model = open_model(out).model
    assert rows[0].startswith(f"kernel {model.kernel}, ")
    assert rows[0].endswith(f" {model.weighting}")


def test_the_table_has_the_ten_best(files, tune, tmp_path):
    options = (
        *("--set", "weighting=rows,queries,pairs", "--scale", "none,query-minmax,query-ranks"),
        *("--set", "ties=include,exclude", "--alphas", 1),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # features on different scales
        result = tune(files.train, "-o", tmp_path / "m.rankwise", *options)
    rows = lines_of(result)
    assert len(rows) == 10
    values = [float(row[-3]) for row in rows]
    assert values == sorted(values, reverse=True)
    assert "The best 10 of 18 settings. The first is chosen." in result.stdout


def test_rankers_without_exact_hold_outs_are_refitted(files, tune, tmp_path):
    out = tmp_path / "m.rankwise"
    result = tune(
        files.train, "-o", out, "--model", "ranksvm", "--alphas", "0.1,10", "--folds", 2,
        "--set", "weighting=rows,queries", "--metric", "disagreement",
    )  # fmt: skip
    data = read_letor(files.train)
    grid = {"ranksvm__alpha": [0.1, 10.0], "ranksvm__weighting": ["rows", "queries"]}
    ranker = make_pipeline(QueryMinMaxScaler(), RankSVM())
    search = RankingSearchCV(ranker, grid, cv=2).fit(data.X, data.y, qid=data.qid)
    assert result.stdout.startswith("2 folds of whole queries out of 10 queries, ")
    rows = lines_of(result)
    assert_allclose(float(rows[0][3]), -search.best_score_, atol=6e-5)
    got = load_model(out)
    assert got.get_params()["ranksvm__alpha"] == search.best_params_["ranksvm__alpha"]
    assert rows[0][1] == search.best_params_["ranksvm__weighting"] == got[-1].weighting
    want = search.predict(data.X, qid=data.qid)
    with config_context(enable_metadata_routing=True):
        assert_allclose(got.predict(data.X, qid=data.qid), want, rtol=1e-5, atol=1e-8)


def test_rankers_that_choose_for_themselves(files, tune, tmp_path):
    out, options = tmp_path / "m.rankwise", ("--model", "kpcrank", "--set", "n_components=2")
    result = tune(files.train, "-o", out, *options, "--folds", 2, "--metric", "disagreement")
    (row,) = lines_of(result)
    data = read_letor(files.train)
    ranker = KPCRank(2, scale="query-minmax", random_state=0)
    search = RankingSearchCV(ranker, [{}], cv=2).fit(data.X, data.y, qid=data.qid)
    assert_allclose(float(row[0]), -search.best_score_, atol=6e-5)
    assert list(tmp_path.iterdir()) == [out]  # nothing to draw
    page = tmp_path / "page.html"
    message = tune(files.train, "-fo", out, *options, "--plot", page, ok=False)
    assert "nothing to draw" in message
    message = tune(files.train, "-fo", out, *options, "--alphas", "1,2", ok=False)
    assert "'--alphas': kpcrank has no alpha to choose" in message


def test_a_page_of_rankers_without_alpha(files, run, tmp_path):
    page, options = (
        tmp_path / "page.html",
        ("--model", "kpcrank", "--set", "n_components=2", "--folds", 2),
    )
    run("tune", files.train, "-o", tmp_path / "m", *options, "--set", "gamma=0.1,1", "--plot", page)
    text = page.read_text()
    assert "alpha" not in text.partition("The model")[0]
    assert "How far each is behind the best on the same queries" in text


def test_without_queries_pairs_are_held_out(ranking, tune, tmp_path):
    path, X, y = ranking
    out = tmp_path / "m.rankwise"
    options = "--alphas", "0.1:1000:5", "--set", "ties=exclude"
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
        "--kernel", "rbf", "--set", "gamma=100,0.1", "--one-ranking",
    )  # fmt: skip
    first, second = (float(row[3]) for row in lines_of(result))
    assert first > second


def test_without_queries_folds_are_of_rows(ranking, tune, tmp_path):
    path, X, y = ranking
    result = tune(
        path, "-o", tmp_path / "m.rankwise", "--folds", 4, "--metric", "map",
        "--alphas", "0.1:1000:5", "--model", "rls", "--one-ranking",
    )  # fmt: skip
    search = RankingSearchCV(RLS(), {"alpha": GRID}, scoring="map", cv=4, random_state=0).fit(X, y)
    assert result.stdout.startswith("4 folds of 40 rows\n")
    want = search.cv_results_["mean_test_score"]
    assert_allclose([float(row[1]) for row in lines_of(result)], want, atol=6e-5)


def test_a_hint_where_the_best_alpha_is_at_the_end_of_the_grid(files, tune, tmp_path):
    options = files.train, "-fo", tmp_path / "m.rankwise", "--model", "rls"
    assert "widen --alphas" in tune(*options, "--alphas", "1e7,1e9").stderr
    assert "widen --alphas" not in tune(*options, "--alphas", "1").stderr


@pytest.mark.parametrize(
    ("suffix", "begin"),
    [
        (".png", b"\x89PNG"),
        pytest.param(".svg", b"<?xml", marks=pytest.mark.slow),
        pytest.param(".pdf", b"%PDF", marks=pytest.mark.slow),
    ],
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
        "--set", "weighting=pairs,rows,queries", "--set", "ties=include,exclude",
    )  # fmt: skip
    text = page.read_text()
    assert text.count("<svg") == 1
    assert "The best 4 of 6 settings. Below: how far each is behind the best on the same" in text
    assert text.count("<table>") == 2
    assert text.count("chosen") == 1
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
        (["--alphas", "1:10"], "alpha must be FROM:TO:COUNT"),
        (["--set", "gamma=1:10", "--kernel", "rbf"], "gamma must be FROM:TO:COUNT"),
        (["--kernel", "rbf,linear", "--set", "degree=2"], "degree has no effect on this kernel"),
        (["--kernel", "rbf,spline"], "kernel must be one of linear, rbf"),
        (["--set", "ties=both"], "ties must be one of include, exclude"),
        (["--set", "weighting="], "weighting must be one of pairs, rows, queries: got ''"),
        (["--model", "rls", "--set", "ties=exclude"], "rls has no parameter 'ties', only alpha"),
        (["--metric", "mop"], "metric must be one of"),
        (["--metric", "ndcg", "--relevant", "2"], "'--relevant'"),
        (["--folds", "1"], "'--folds'"),
        (["--folds", "11"], "got 10 queries"),
        (["--plot", "picture.gif"], "Pictures end with .svg"),
        (["--plot", "no/folder/p.svg"], "no such folder"),
    ],
)
def test_options_that_are_refused(files, tune, tmp_path, options, message):
    out = tmp_path / "model.rankwise"
    assert message in tune(files.train, "-o", out, *options, ok=False)
    assert list(tmp_path.iterdir()) == []


def test_without_queries_pairs_are_scored_by_their_order(ranking, tune, tmp_path):
    path, *_ = ranking
    given = path, "--one-ranking", "-o", tmp_path / "m.rankwise"
    assert "scoring must be one of disagreement" in tune(*given, "--metric", "map", ok=False)


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
    tune(train, "-o", tuned, "--set", "ties=include,exclude", *options)
    run("fit", train, "-o", fitted, "--valid", valid, *options)

    def map_of(path):
        table = run("evaluate", path, test).stdout
        return float(next(line for line in table.splitlines() if line.startswith("MAP")).split()[1])

    assert map_of(tuned) == pytest.approx(map_of(fitted), abs=0.01)


def test_words_say_how_far_the_choice_is_from_the_next(files, tune, tmp_path):
    out = tmp_path / "model.rankwise"
    options = ("--alphas", "0.1:1000:5", "--metric", "ndcg@3")
    result = tune(files.train, "-o", out, *options, "--set", "ties=include,exclude")
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
    assert f"in NDCG@3, with a standard error of {error:.4f}: the data cannot" in result.stderr
    assert "The best of 10 scores is optimistic" in result.stderr

    alone = tune(files.train, "-fo", out, *options)
    next_best = np.sort(a.score)[-2]
    assert (
        f"The best is {a.score.max() - next_best:.4f} better than the next (alpha" in alone.stderr
    )
    single = tune(files.train, "-fo", out, "--alphas", "1")
    assert "The best" not in single.stderr
    assert single.stderr.startswith("alpha 1: NDCG@10 0.")
