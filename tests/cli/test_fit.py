"""fit: which model is written, and which input is refused."""

import re
import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.pipeline import make_pipeline

from rankwise import (
    KPCR,
    RLS,
    AdditiveRankRLS,
    BoostedRanker,
    KPCRank,
    QueryMinMaxScaler,
    QueryRanks,
    RankRLS,
    RankSVM,
    SparseRankRLS,
    SparseRLS,
    TransductiveRankRLS,
    load_model,
)
from rankwise.cli.options import ELSEWHERE, RankerOptions, models, values_of
from rankwise.data import LetorBlocks, normalize_per_query, read_letor
from rankwise.metrics import (
    average_precision,
    disagreement_error,
    ndcg,
    precision_at_k,
    rank_biased_precision,
    recall_at_k,
)
from rankwise.parameters import Number
from rankwise.rankers import RANKERS, ranker_class


def test_fit_writes_the_model_that_python_fits(files, run, tmp_path):
    out = tmp_path / "model.rankwise"
    result = run("fit", files.train, "--alpha", 3, "--set", "ties=exclude", "-o", out)
    data = read_letor(files.train)
    want = RankRLS(alpha=3.0, ties="exclude", scale="query-minmax").fit(
        data.X, data.y, qid=data.qid
    )
    got = load_model(out)
    assert got.get_params() == want.get_params()
    assert_allclose(got.coef_, want.coef_)
    assert result.stdout == ""  # a file is the result; remarks go to stderr
    assert str(out) in result.stderr


@pytest.mark.parametrize(
    ("options", "want"),
    [
        (["--model", "rls", "--alpha", "2"], RLS(alpha=2.0)),
        (["--kernel", "rbf", "--set", "gamma=0.5"], RankRLS(kernel="rbf", gamma=0.5)),
        (
            ["--kernel", "polynomial", "--set", "degree=2", "--set", "coef0=0"],
            RankRLS(kernel="polynomial", degree=2.0, coef0=0.0),
        ),
        (["--set", "weighting=queries"], RankRLS(weighting="queries")),
    ],
)
def test_options_reach_the_ranker(files, run, tmp_path, options, want):
    out = tmp_path / "model.rankwise"
    run("fit", files.train, "-o", out, *options)
    data = read_letor(files.train)
    want.set_params(scale="query-minmax").fit(data.X, data.y, qid=data.qid)
    got = load_model(out)
    assert got.get_params() == want.get_params()
    scores = (ranker.predict(data.X, qid=data.qid) for ranker in (got, want))
    assert_allclose(*scores)


@pytest.mark.parametrize(
    ("options", "metric", "choose"),
    [
        ([], partial(ndcg, k=10), np.argmax),
        (["--metric", "disagreement"], disagreement_error, np.argmin),
        (
            ["--metric", "MAP", "--relevant", "2"],
            partial(average_precision, relevant=2),
            np.argmax,
        ),
        (
            ["--metric", "p@5", "--relevant", "2"],
            partial(precision_at_k, k=5, relevant=2),
            np.argmax,
        ),
        (
            ["--metric", "recall@5", "--relevant", "2"],
            partial(recall_at_k, k=5, relevant=2),
            np.argmax,
        ),
        (
            ["--metric", "rbp", "--relevant", "2"],
            partial(rank_biased_precision, relevant=2),
            np.argmax,
        ),
    ],
)
def test_valid_chooses_the_best_alpha_and_shows_all(files, run, tmp_path, options, metric, choose):
    out = tmp_path / "model.rankwise"
    result = run(
        "fit", files.train, "-o", out, "--valid", files.valid, "--alphas", "0.1:1000:5", *options
    )
    train, valid = read_letor(files.train), read_letor(files.valid)
    alphas = [0.1, 1, 10, 100, 1000]
    path = RankRLS(scale="query-minmax").path(train.X, train.y, alphas, qid=train.qid)
    scores = path.predict(valid.X, qid=valid.qid)
    values = [metric(valid.y, f, valid.qid) for f in scores]
    best = max(np.flatnonzero(np.isclose(values, values[choose(values)], rtol=1e-12)))
    assert load_model(out).alpha == pytest.approx(alphas[best])
    rows = [line.split() for line in result.stdout.splitlines()[2:]]
    assert [float(row[0]) for row in rows] == alphas
    assert_allclose([float(row[1]) for row in rows], values, atol=6e-5)
    assert [i for i, row in enumerate(rows) if row[3:] == ["best"]] == [best]


def test_a_hint_where_the_best_alpha_is_at_the_end_of_the_grid(files, run, tmp_path):
    result = run(
        "fit", files.train, "-o", tmp_path / "m.rankwise", "--valid", files.valid,
        "--alphas", "1e7,1e9", "--model", "rls",
    )  # fmt: skip
    assert "widen --alphas" in result.stderr


@pytest.mark.parametrize("name", [None, "query-ranks", "standard", "none"])
def test_the_model_scales_its_features(files, run, tmp_path, name):
    out, options = tmp_path / "model.rankwise", [] if name is None else ["--scale", name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # features on different scales
        said = run("fit", files.train, "-o", out, "--valid", files.valid, *options).stderr
        model, data = load_model(out), read_letor(files.train)
        scale = {None: "query-minmax", "none": None}.get(name, name)
        want = RankRLS(model.alpha, scale=scale).fit(data.X, data.y, qid=data.qid)
    assert model.get_params() == want.get_params()
    assert_allclose(model.coef_, want.coef_)
    assert ("as they are in the file" if scale is None else f"({scale})") in said


def test_a_file_without_queries_is_one_ranking(run, tmp_path):
    path, out = tmp_path / "train.txt", tmp_path / "model.rankwise"
    path.write_text("1 1:0.5\n2 1:0.7\n3 1:0.1 2:2\n")
    message = run("fit", path, "-o", out, ok=False)
    assert f"no file {path}.query" in message
    assert "3 rows (3 pairs)" in message
    run("fit", path, "--one-ranking", "-o", out)
    data = read_letor(path)
    assert_allclose(load_model(out).coef_, RankRLS().fit(data.X, data.y).coef_)


@pytest.mark.parametrize("model", ["rankrls", "sparse-rankrls"])
def test_one_ranking_of_a_file_with_queries_is_refused(files, run, tmp_path, model):
    out = tmp_path / "model.rankwise"
    options = "--model", model, "--one-ranking", "-o", out
    assert "leave --one-ranking out" in run("fit", files.train, *options, ok=False)


@pytest.mark.parametrize("suffix", [".query", ".group"])
@pytest.mark.parametrize("model", ["rankrls", "sparse-rankrls"])
def test_group_sizes_beside_the_data(run, tmp_path, suffix, model):
    path, out = tmp_path / "train.txt", tmp_path / "model.rankwise"
    path.write_text("1 1:0.5\n2 1:0.7\n3 1:0.1 2:2\n5 1:4\n")
    sizes = tmp_path / f"train.txt{suffix}"
    sizes.write_text("2\n\n2\n")
    options = "--model", model, "-o", out, "--force"
    result = run("fit", path, *options)
    assert f"its 2 queries come from the group sizes in {sizes}" in result.stderr
    data = read_letor(path)
    want = ranker_class(model)(**({"random_state": 0} if "sparse" in model else {}))
    want.set_params(scale="query-minmax").fit(data.X, data.y, qid=[1, 1, 2, 2])
    scores = (one.predict(data.X, qid=[1, 1, 2, 2]) for one in (load_model(out), want))
    assert_allclose(*scores)
    assert "2 queries" in run("evaluate", out, path).stdout
    sizes.write_text("2\n3\n")
    assert "add up to 5, but the data has 4 rows" in run("fit", path, *options, ok=False)
    sizes.write_text("2\nx\n")
    assert "line 2: 'x' is not a group size" in run("fit", path, *options, ok=False)


@pytest.mark.parametrize("model", ["rankrls", "sparse-rankrls"])
def test_missing_values_need_a_number(run, tmp_path, model):
    path, out = tmp_path / "train.txt", tmp_path / "model.rankwise"
    path.write_text("1 qid:1 1:0.5 2:NULL\n2 qid:1 1:NULL 2:1\n")
    options = "--model", model, "-o", out
    message = run("fit", path, *options, ok=False)
    assert "line 1: '2:NULL' is a missing" in message
    assert "--fill 0" in message
    run("fit", path, "--fill", "-1", *options)
    for command in ("predict", "evaluate"):
        assert "--fill 0" in run(command, out, path, ok=False)
        run(command, out, path, "--fill", -1)
    assert "features" in run("info", path, "--fill", -1).stdout


def test_the_number_of_features(files, run, tmp_path):
    out = tmp_path / "model.rankwise"
    run("fit", files.train, "-o", out, "--features", 9)
    assert load_model(out).n_features_in_ == 9
    message = run("fit", files.train, "-o", out, "--features", 5, "--force", ok=False)
    assert "feature 6, but --features has 5 features" in message


def test_boosted_trees(files, run, tmp_path):
    pytest.importorskip("lightgbm", reason="--model boosted needs lightgbm")
    out = tmp_path / "model.rankwise"
    run("fit", files.train, "--model", "boosted", "--set", "weighting=queries", "-o", out)
    data = read_letor(files.train)
    want = BoostedRanker(weighting="queries").fit(data.X, data.y, qid=data.qid)
    assert_allclose(load_model(out).predict(data.X), want.predict(data.X))
    assert "trees" in run("info", out).stdout
    run("evaluate", out, files.test)
    for command, option in (("fit", "alpha"), ("fit", "valid"), ("tune", "alphas")):
        given = [f"--{option}", files.valid if option == "valid" else 1, "-fo", out]
        message = run(command, files.train, "--model", "boosted", *given, ok=False)
        assert f"'--{option}'" in message
        assert "boosted has no alpha to choose" in message


def test_alphas_as_grid_and_as_list():
    assert_allclose(values_of("alpha", "1e-2:1e2:5", Number(0)), [0.01, 0.1, 1, 10, 100])
    assert values_of("alpha", "0, 1,2.5", Number(0)) == [0.0, 1.0, 2.5]


def test_every_ranker_has_a_name_here_or_a_word_about_it():
    assert {*models(), *ELSEWHERE} == set(RANKERS)


SEED = {"random_state": 0}


@pytest.mark.parametrize(
    ("options", "want"),
    [
        (
            ["additive-rankrls", "--set", "n_ramps=2"],
            AdditiveRankRLS(n_ramps=2, scale="query-minmax"),
        ),
        (["kpcr", "--set", "n_components=2"], KPCR(2, scale="query-minmax", **SEED)),
        (
            ["kpcrank", "--set", "n_components=2", "--alpha", "3"],
            KPCRank(2, alpha=3.0, scale="query-minmax", **SEED),
        ),
        (
            ["ranksvm", "--kernel", "rbf", "--set", "loss=hinge", "--set", "n_landmarks=9"],
            make_pipeline(
                QueryMinMaxScaler(), RankSVM(loss="hinge", kernel="rbf", n_landmarks=9, **SEED)
            ),
        ),
        (["ranksvm", "--alpha", "2"], make_pipeline(QueryMinMaxScaler(), RankSVM(2.0, **SEED))),
        (["ranksvm", "--scale", "query-ranks"], make_pipeline(QueryRanks(), RankSVM(**SEED))),
        (
            ["ranksvm", "--scale", "none", "--set", "weighting=pairs"],
            RankSVM(weighting="pairs", **SEED),
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:RankSVM. the standard deviations of features differ")
def test_other_rankers(files, run, tmp_path, options, want):
    out = tmp_path / "model.rankwise"
    model, *others = options
    said = run("fit", files.train, "--model", model, *others, "-o", out).stderr
    data, got = read_letor(files.train), load_model(out)
    assert repr(got) == repr(want)
    with config_context(enable_metadata_routing=True):
        want.fit(data.X, data.y, qid=data.qid)
        scaled = {"qid": data.qid} if "none" not in others else {}
        scores = (one.predict(data.X, **scaled) for one in (got, want))
        assert_allclose(*scores, rtol=1e-6, atol=1e-9)
    assert ("(query-" in said) == ("none" not in others)
    assert ("choose it with --valid" in said) == (model == "ranksvm" and "--alpha" not in others)
    run("evaluate", out, files.test)


def test_components_and_a_ridge_are_chosen_together(files, run, tmp_path):
    out = tmp_path / "model.rankwise"
    said = run("fit", files.train, "--model", "kpcrank", "--alpha", "auto", "-o", out).stderr
    got = load_model(out)
    chosen = f"{got.n_components_} component"
    assert got.alpha == "auto"
    assert chosen in said
    assert f" and alpha {got.alpha_:.3g} by held-out errors." in said


def test_rows_without_labels(files, run, tmp_path):
    out = tmp_path / "model.rankwise"
    options = [
        "--model",
        "transductive-rankrls",
        "--alpha",
        "2",
        "--set",
        "n_neighbors=3",
        "--set",
        "smoothness=5",
    ]
    run("fit", files.train, "--unlabelled", files.test, *options, "-o", out)
    train, more = read_letor(files.train), read_letor(files.test)
    X, qid = np.vstack([train.X, more.X]), np.append(train.qid, more.qid)
    y = np.append(train.y, np.full(len(more.y), np.nan))
    want = TransductiveRankRLS(2.0, smoothness=5.0, n_neighbors=3, scale="query-minmax")
    want.fit(X, y, qid=qid)
    assert_allclose(load_model(out).coef_, want.coef_, rtol=1e-6, atol=1e-9)


def test_rows_without_labels_in_tables(run, tmp_path):
    train, more, out = (tmp_path / name for name in ("a.csv", "b.csv", "model.rankwise"))
    train.write_text("qid,label,x,z\n" + "".join(f"q{k // 3},{k % 3},{k},{-k}\n" for k in range(9)))
    more.write_text("qid,x,z\n" + "".join(f"r{k // 3},{k},{k}\n" for k in range(9)))
    options = ["--model", "transductive-rankrls", "--alpha", "1"]
    said = run("fit", train, "--unlabelled", more, *options, "-o", out).stderr
    assert "fitted to 18 rows, 2 features" in said
    assert load_model(out).n_queries_ == 3


def test_rows_without_labels_are_refused(files, run, tmp_path):
    out = tmp_path / "model.rankwise"
    more = ("--unlabelled", files.test, "-o", out)
    said = run("fit", files.train, *more, ok=False)
    assert "This is for the model transductive-rankrls: got rankrls" in said
    model = ("--model", "transductive-rankrls")
    assert "On a cluster" in run("fit", files.train, *more, *model, "--workers", 2, ok=False)
    assert not out.exists()


def test_a_pairwise_gp_is_scaled_by_a_pipeline():
    ranker = RankerOptions(model="pairwise-gp", settings=["n_landmarks=9"]).single()
    assert repr(ranker) == "PairwiseGP(n_landmarks=9, random_state=0)"
    steps = RankerOptions(model="pairwise-gp").settle_scale(ranker, has_queries=True)
    assert [type(step).__name__ for _, step in steps.steps] == ["QueryMinMaxScaler", "PairwiseGP"]


def test_a_ranker_without_a_path_is_refitted_for_each_alpha(files, run, tmp_path):
    out, alphas = tmp_path / "model.rankwise", [0.1, 10.0]
    result = run(
        "fit", files.train, "--model", "ranksvm", "--valid", files.valid, "--alphas", "0.1,10",
        "--metric", "disagreement", "-o", out,
    )  # fmt: skip
    train, valid = read_letor(files.train), read_letor(files.valid)
    X, new = (normalize_per_query(part.X, part.qid) for part in (train, valid))
    fitted = [RankSVM(alpha).fit(X, train.y, qid=train.qid) for alpha in alphas]
    errors = [disagreement_error(valid.y, one.predict(new), valid.qid) for one in fitted]
    rows = [line.split() for line in result.stdout.splitlines()[2:]]
    assert_allclose([float(row[1]) for row in rows], errors, atol=6e-5)
    assert load_model(out)[-1].alpha == alphas[int(np.argmin(errors))]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--alpha", "-1"], "alpha must be"),
        (["--model", "ranksvm", "--alpha", "auto"], "with --valid FILE, or by cross-validation"),
        (["--alphas", "1:10:3"], "choose alpha on a validation file, with --valid FILE"),
        (["--metric", "MAP"], "give --valid as well"),
        (["--valid", "VALID", "--alphas", "1:10"], "FROM:TO:COUNT"),
        (["--valid", "VALID", "--alphas", "0:10:3"], "alpha must be a finite number above 0"),
        (
            ["--valid", "VALID", "--alphas", "1:10:10001"],
            "the COUNT of alpha must be",
        ),
        (["--workers", "1001"], "'--workers'"),
        (["--valid", "VALID", "--metric", "ndcg@5", "--relevant", "2"], "'--relevant'"),
        (["--set", "gamma=1"], "gamma has no effect on this kernel"),
        (["--set", "gamma"], "Give NAME=VALUE"),
        (["--ties", "exclude"], "Parameters of the ranker are given by --set NAME=VALUE."),
        (["--kernel", "spline"], "kernel must be one of linear, rbf"),
        (["--kernel", "linear,rbf"], "use 'rankwise tune'"),
        (["--kernel", "rbf", "--set", "gamma=1,2"], "'--set': Give one value of gamma"),
        (["--model", "ranknet"], "Choose from rankrls, rls, sparse-rankrls, sparse-rls"),
        (["--model", "auto"], "auto cannot be fitted here. Use 'rankwise auto'"),
        (["--model", "sparse-bilinear"], "use SparseBilinearRanker in Python"),
        (["--model", "pairwise-gp", "--kernel", "rbf"], "kernel must be one of sklearn.gaussian"),
        (["--set", "n_components=2"], "rankrls has no parameter 'n_components', only alpha, coef0"),
        (
            ["--model", "kpcrank", "--valid", "VALID"],
            "'--valid': kpcrank has no alpha to choose",
        ),
        (["--model", "boosted", "--alpha", "1"], "'--alpha': boosted has no alpha"),
    ],
)
def test_options_that_are_refused(files, run, tmp_path, options, message):
    out = tmp_path / "model.rankwise"
    options = [files.valid if option == "VALID" else option for option in options]
    assert message in run("fit", files.train, "-o", out, *options, ok=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("1 qid:1 1:0.5\n", "minimum of 2"),
        ("1 qid:1 1:0.5\n1 qid:2 1:0.7\n", "Every query has a single row"),
        ("1 qid:1 1:0.5\n1 qid:1 1:0.7\n", "No query has two different labels (1 query, 2 rows)"),
        ("1 qid:1 1:0.5\n2 qid:1 1:nan\n", "line 2"),
        ("1 qid:1 2:0.5 1:3\n", "line 1"),
        ("good qid:1 2:0.5\n", "line 1"),
    ],
)
def test_files_that_cannot_be_learned_from(run, tmp_path, text, message):
    path, out = tmp_path / "train.txt", tmp_path / "model.rankwise"
    path.write_text(text)
    assert message in run("fit", path, "-o", out, ok=False)
    assert not out.exists()


def test_the_model_file_is_checked_before_the_data_are_read(files, run, tmp_path, monkeypatch):
    monkeypatch.setattr("rankwise.data.read_letor", None)
    missing = tmp_path / "no" / "model.rankwise"
    assert "no such folder" in run("fit", files.train, "-o", missing, ok=False)
    assert "Is a folder" in run("fit", files.train, "-o", tmp_path, ok=False)


def test_validation_data_with_more_features(files, run, tmp_path):
    wide = tmp_path / "wide.txt"
    wide.write_text("1 qid:1 1:0.5\n2 qid:1 8:1\n")
    message = run("fit", files.train, "-o", tmp_path / "m", "--valid", wide, ok=False)
    assert "line 2: feature 8, but" in message
    assert "has 6 features" in message


@pytest.mark.parametrize("valid", [False, True])
def test_a_sparse_model_is_fitted_block_by_block(files, run, tmp_path, monkeypatch, valid):
    monkeypatch.setattr("rankwise.data.query_rows.BLOCK_BYTES", 1)
    monkeypatch.setattr("rankwise.data.letor.BLOCK_BYTES", 256)
    assert len(list(LetorBlocks(files.train))) > 3
    out = tmp_path / "model.rankwise"
    method = ["--set", "landmarks=rpcholesky", "--set", "random_state=3", "--set", "n_landmarks=8"]
    chosen = ["--valid", files.valid, "--alphas", "0.1,1"] if valid else ["--alpha", 0.5]
    run("fit", files.train, "--model", "sparse-rankrls", *method, *chosen, "-o", out)
    got = load_model(out)
    data = read_letor(files.train)
    X = normalize_per_query(data.X, data.qid)
    assert got.get_params()["landmarks"] == "rpcholesky"
    want = SparseRankRLS(got.alpha, landmarks=got.landmark_indices_, scale=None).fit(
        X, data.y, qid=data.qid
    )
    assert_allclose(got.predict(data.X, qid=data.qid), want.predict(X), atol=1e-8)
    result = run("info", out)
    assert "8, of which 8 count" in result.stdout


def test_a_sparse_model_needs_adjacent_rows_of_a_query(run, tmp_path):
    path = tmp_path / "unsorted.txt"
    path.write_text("1 qid:1 1:1\n0 qid:2 1:2\n0 qid:1 1:3\n1 qid:2 1:3\n")
    said = run("fit", path, "--model", "sparse-rankrls", "-o", tmp_path / "m.rankwise", ok=False)
    assert "line 3: query 1 appears again" in said
    assert not (tmp_path / "m.rankwise").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "n_landmarks=3"], "rankrls has no parameter 'n_landmarks'"),
        (["--model", "sparse-rankrls", "--set", "n_landmarks=99999"], "more than the"),
    ],
)
def test_options_without_effect_are_refused(files, run, tmp_path, options, words):
    assert words in run("fit", files.train, *options, "-o", tmp_path / "m.rankwise", ok=False)


def test_without_query_ids_a_sparse_model_reads_all_rows_at_once(files, run, tmp_path):
    path, out = tmp_path / "one.txt", tmp_path / "m.rankwise"
    path.write_text(re.sub(r" qid:\S+", "", files.train.read_text()))
    options = "--model", "sparse-rankrls", "--set", "n_landmarks=9", "--one-ranking"
    run("fit", path, *options, "-o", out)
    data = read_letor(path)
    want = SparseRankRLS(n_landmarks=9, random_state=0, scale="standard").fit(data.X, data.y)
    assert_allclose(load_model(out).predict(data.X), want.predict(data.X), atol=1e-8)


def test_a_sparse_model_refuses_more_features(files, run, tmp_path):
    options = ["--model", "sparse-rankrls", "--features", 3, "-o", tmp_path / "m.rankwise"]
    assert "feature 4 exceeds n_features=3" in run("fit", files.train, *options, ok=False)


def test_the_sparse_baseline(files, run, tmp_path):
    out = tmp_path / "model.rankwise"
    options = ["--set", "n_landmarks=5", "--kernel", "linear"]
    run("fit", files.train, "--model", "sparse-rls", *options, "-o", out)
    got, data = load_model(out), read_letor(files.train)
    ranker = SparseRLS(n_landmarks=5, kernel="linear", scale="query-minmax", random_state=0)
    assert got.get_params() == ranker.get_params()
    X = normalize_per_query(data.X, data.qid)
    want = SparseRLS(got.alpha_, landmarks=got.landmarks_, kernel="linear").fit(X, data.y)
    assert_allclose(got.predict(data.X, qid=data.qid), want.predict(X), rtol=1e-6)


def test_fit_chooses_alpha_and_says_which(files, run, tmp_path):
    out = tmp_path / "model.rankwise"
    data = read_letor(files.train)
    want = RankRLS(scale="query-minmax").fit(data.X, data.y, qid=data.qid)
    for given in ([], ["--alpha", "auto"]):
        message = run("fit", files.train, "-o", out, "--force", *given).stderr
        assert load_model(out).alpha_ == want.alpha_
        best = want.alpha_curve_.best_index
        assert f"Chose alpha {want.alpha_:.3g}: held-out NDCG@10 is" in message
        beside = want.alpha_curve_.alphas[best - 1]
        assert f"{want.alpha_curve_.score[best - 1]:.4f} at alpha {beside:.3g}" in message
    assert f"{want.alpha_:.4g}"[:4] in run("info", out).stdout
    streamed = [
        "--model",
        "sparse-rankrls",
        "--set",
        "n_landmarks=5",
        "--set",
        "random_state=0",
        "--force",
    ]
    assert "held-out squared error" in run("fit", files.train, *streamed, "-o", out).stderr
    for wrong in ("automatic", "-1", "nan"):
        message = run("fit", files.train, "--alpha", wrong, "-o", out, "--force", ok=False)
        assert "alpha must be a finite number, 0 or more, or" in message


def test_a_file_with_few_rows_follows_the_rule(run, tmp_path):
    path, out = tmp_path / "train.txt", tmp_path / "model.rankwise"
    path.write_text("1 qid:1 1:0.5\n2 qid:1 1:0.7\n")
    assert "by a rule: too few rows" in run("fit", path, "-o", out).stderr
