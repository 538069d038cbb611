"""Why a row is above another: sums, oracles, encoders, scalings, and errors."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import Normalizer, OneHotEncoder, PolynomialFeatures, StandardScaler

from rankwise import (
    AdditiveRankRLS,
    AutoRanker,
    BoostedRanker,
    KPCRank,
    Leaderboard,
    MeanRanker,
    PairwiseGP,
    QueryMinMaxScaler,
    RankingSearchCV,
    RankRLS,
    RankSVM,
    SparseRankRLS,
    TableEncoder,
    TransductiveRankRLS,
    WithQueryStandard,
    load_model,
    save_model,
)
from rankwise.data import make_ranking
from rankwise.errors import DataError, ParameterError
from rankwise.inspection import explain, explain_ranking, feature_effects
from rankwise.inspection.explanations import _check_agreement, short
from rankwise.kernels import NamedKernel
from rankwise.model_selection import GroupedRanker
from rankwise.model_selection.rows import fit_with_queries
from rankwise.scaling import QUERY_SCALINGS
from tests.oracles.shapley import against_row, against_rows

DATA = make_ranking(12, rows_per_query=8, n_features=8, n_levels=4, noise=0.5, random_state=0)
X, Y, QID = DATA.X, DATA.y, DATA.qid
LANDMARKS = {"n_landmarks": 20, "random_state": 0}


def fitted(ranker, **options):
    return ranker.fit(X, Y, qid=QID, **options)


def hotels(n=60):
    """A data frame with text, dates, truth values and missing numbers; its labels and queries."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "price": rng.lognormal(4, 1, n),
            "stars": rng.integers(1, 6, n),
            "city": rng.choice(["Rome", "Oslo", "Bonn"], n),
            "opened": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
            "wifi": rng.random(n) > 0.5,
            "distance": rng.random(n) * 10,
        }
    )
    frame.loc[::5, "distance"] = np.nan
    y = frame.stars - np.log(frame.price) + (frame.city == "Rome")
    return frame, y.to_numpy(), np.repeat(np.arange(n // 10), 10)


WITHOUT_QUERIES = {
    "linear": lambda: RankRLS(1.0, scale="standard"),
    "additive": lambda: AdditiveRankRLS(1.0),
    "rbf": lambda: SparseRankRLS(1.0, scale="standard", **LANDMARKS),
    "laplacian": lambda: SparseRankRLS(1.0, kernel="laplacian", scale="standard", **LANDMARKS),
    "polynomial": lambda: SparseRankRLS(1.0, kernel="polynomial", scale="standard", **LANDMARKS),
    "linear landmarks": lambda: SparseRankRLS(1.0, kernel="linear", scale=None, **LANDMARKS),
    "all rows": lambda: RankRLS(1.0, kernel="rbf", scale="standard"),
    "function": lambda: SparseRankRLS(
        1.0, kernel=lambda x, z: 1.0 / (1.0 + abs(x - z).sum()), n_landmarks=5, random_state=0
    ),
    "anisotropic": lambda: RankRLS(
        1.0, kernel=ConstantKernel(2.0) * RBF(np.arange(1.0, 9.0)) + DotProduct(1.0)
    ),
    "Matern": lambda: RankRLS(1.0, kernel=Matern(2.0)),
    "components": lambda: KPCRank(5, scale="standard"),
    "transductive": lambda: TransductiveRankRLS(1.0, kernel="rbf", scale="standard"),
    "svm": lambda: RankSVM(1.0),
    "svm on landmarks": lambda: RankSVM(1.0, kernel="rbf", **LANDMARKS),
    "regression": Ridge,
}


@pytest.mark.parametrize("name", WITHOUT_QUERIES)
def test_contributions_are_shapley_values_by_enumeration(name):
    ranker = WITHOUT_QUERIES[name]()
    ranker = ranker.fit(X, Y) if name == "regression" else fitted(ranker)
    found = explain(ranker, X[3], X[17])
    want = against_row(ranker.predict, X[3], X[17])
    assert_allclose(found.contributions, want, atol=1e-9)
    one, other = ranker.predict(X[[3, 17]])
    assert_allclose(found.contributions.sum(), one - other, atol=1e-10)
    assert found.scores == pytest.approx((one, other))
    assert found.standard_errors is None


@pytest.mark.parametrize("name", ["additive", "rbf", "polynomial", "laplacian"])
def test_against_a_background(name):
    ranker = fitted(WITHOUT_QUERIES[name]())
    some = X[[1, 5, 40]]
    found = explain(ranker, X[3], X[17], background=some)
    assert_allclose(found.contributions, against_rows(ranker.predict, X[3], X[17], some), atol=1e-9)
    if name != "additive":
        assert "mean over 3 rows of a background" in found.method


@pytest.mark.parametrize("name", ["linear", "rbf", "polynomial"])
def test_the_opposite_question_has_the_opposite_answer(name):
    ranker = fitted(WITHOUT_QUERIES[name]())
    one, other = explain(ranker, X[3], X[17]), explain(ranker, X[17], X[3])
    assert_allclose(one.contributions, -other.contributions, atol=1e-12)
    assert one.sentence.split(",")[0] != other.sentence.split(",")[0]


def test_trees_are_lightgbms_contributions():
    ranker = fitted(BoostedRanker(20, random_state=0))
    given = X.copy()
    given[3, 2] = np.nan
    found = explain(ranker, given[3], given[17])
    parts = ranker.booster_.predict(given[[3, 17]], pred_contrib=True)
    assert_allclose(found.contributions, (parts[0] - parts[1])[:-1], atol=1e-12)
    one, other = ranker.predict(given[[3, 17]])
    assert_allclose(found.contributions.sum(), one - other, atol=1e-10)
    assert "LightGBM's" in found.method


def test_trees_against_a_background_and_behind_an_encoder_are_shapley_values():
    ranker = fitted(BoostedRanker(20, random_state=0))
    some = X[[1, 5]]
    found = explain(ranker, X[3], X[17], background=some)
    assert_allclose(found.contributions, against_rows(ranker.predict, X[3], X[17], some), atol=1e-9)
    frame, y, qid = hotels()
    model = make_pipeline(TableEncoder(text="onehot"), BoostedRanker(20, random_state=0))
    model.fit(frame, y, boostedranker__qid=qid)
    why = explain(model, frame.iloc[0], frame.iloc[1])
    assert_allclose(why.contributions, by_frames(model, frame, 0, 1), atol=1e-9)


def test_trees_on_features_and_their_standardized_copies():
    trees = make_pipeline(WithQueryStandard(), BoostedRanker(20, random_state=0))
    trees.fit(X, Y, withquerystandard__qid=QID, boostedranker__qid=QID)
    both = trees[0].transform(X, qid=QID)
    order = np.flatnonzero(QID == 2)
    order = order[np.argsort(-trees[1].predict(both[order]))]
    found = explain(trees, 1, 5, X=X, qid=QID, query=2)
    one, other = trees[1].booster_.predict(both[order[[0, 4]]], pred_contrib=True)
    copies = (one - other)[:-1].reshape(2, -1)
    assert_allclose(found.contributions, copies.sum(axis=0), atol=1e-12)
    other = explain(trees, 1, 5, X=X, qid=QID, query=2, background="query")
    assert_allclose(other.contributions.sum(), found.scores[0] - found.scores[1], atol=1e-9)


def by_frames(model, frame, one, other):
    """Shapley values of a model of data frames by enumeration."""

    def predict(rows):
        picked = {
            name: [frame[name].iloc[int(k)] for k in np.asarray(rows)[:, c]]
            for c, name in enumerate(frame.columns)
        }
        made = pd.DataFrame(picked).astype(frame.dtypes.to_dict())
        return model.predict(made)

    d = frame.shape[1]
    return against_row(predict, [one] * d, [other] * d)


ENCODED = {
    "one-hot, linear": lambda: make_pipeline(TableEncoder(text="onehot"), RankRLS(1.0)),
    "one-hot, rbf": lambda: make_pipeline(
        TableEncoder(text="onehot"), StandardScaler(), SparseRankRLS(1.0, scale=None, **LANDMARKS)
    ),
    "hashed": lambda: make_pipeline(TableEncoder(text="hashing"), RankRLS(1.0)),
    "components": lambda: make_pipeline(TableEncoder(), PCA(3), RankRLS(1.0, scale="standard")),
    "products": lambda: make_pipeline(
        TableEncoder(), PolynomialFeatures(2), StandardScaler(), RankRLS(1.0)
    ),
    "unit rows": lambda: make_pipeline(TableEncoder(), Normalizer(), RankRLS(1.0)),
    "indicators": lambda: make_pipeline(
        make_column_transformer(
            (SimpleImputer(add_indicator=True), ["distance", "price"]),
            (OneHotEncoder(handle_unknown="ignore"), ["city"]),
        ),
        SparseRankRLS(1.0, scale="standard", **LANDMARKS),
    ),
    "regression": lambda: make_pipeline(TableEncoder(), StandardScaler(), Ridge()),
}


FAST = "one-hot, rbf", "products", "indicators"


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in ENCODED],
)
def test_encoded_columns_move_with_the_users_column(name):
    frame, y, qid = hotels()
    model = ENCODED[name]()
    last = model.steps[-1][0]
    model.fit(frame, y, **({} if name == "regression" else {f"{last}__qid": qid}))
    found = explain(model, frame.iloc[0], frame.iloc[1])  # distance is missing in one of them
    assert found.names == list(frame.columns)
    assert_allclose(found.contributions, by_frames(model, frame, 0, 1), atol=1e-9)


def scaled(scale, rows):
    """The rows of a query, scaled."""
    from rankwise.graph import QueryGroups

    return QUERY_SCALINGS[scale].scale(rows, QueryGroups.of(None, len(rows)))


@pytest.mark.parametrize(
    ("kind", "scale"),
    [
        (RankRLS, "query-minmax"),
        (AdditiveRankRLS, "query-standard"),
        (SparseRankRLS, "query-ranks"),
    ],
)
def test_scalings_within_queries_are_held_fixed(kind, scale):
    options = LANDMARKS if kind is SparseRankRLS else {}
    ranker = fitted(kind(1.0, scale=scale, **options))
    query = X[QID[0] == QID]
    one = np.zeros(len(query))
    order = np.argsort(-ranker.predict(query, qid=one), kind="stable")
    found = explain(ranker, 1, 4, X=X, qid=QID, query=QID[0])
    Z = scaled(scale, query)
    basis, weights = ranker.basis_, ranker.solution_.weights
    want = against_row(lambda rows: basis.products(rows, weights), Z[order[0]], Z[order[3]])
    assert_allclose(found.contributions, want, atol=1e-9)
    scores = ranker.predict(query, qid=one)[order]
    assert_allclose(found.contributions.sum(), scores[0] - scores[3], atol=1e-10)
    assert found.positions == (1, 4)
    assert found.better_values == query[order[0]].tolist()
    # Rows of other queries, and a scaler in a pipeline in place of the parameter, change nothing.
    assert_allclose(explain(ranker, 1, 4, X=query).contributions, found.contributions, atol=1e-12)


def test_a_scaler_in_a_pipeline_is_the_same_as_the_parameter():
    ranker = fitted(RankRLS(1.0, scale="query-minmax"))
    model = make_pipeline(QueryMinMaxScaler(), RankRLS(1.0, scale=None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sklearn import config_context

        with config_context(enable_metadata_routing=True):
            model.fit(X, Y, qid=QID)
    one, other = (explain(each, 2, 5, X=X, qid=QID, query=QID[0]) for each in (ranker, model))
    assert_allclose(other.contributions, one.contributions, atol=1e-8)


@pytest.mark.parametrize("qid", [QID, None], ids=["queries", "one ranking"])
def test_means_are_weighted_sums_of_their_parts(qid):
    parts = [RankRLS(1.0, scale="standard"), SparseRankRLS(1.0, scale="standard", **LANDMARKS)]
    ranker = MeanRanker(parts, weights=[3.0, 1.0]).fit(X, Y, qid=qid)
    query = X if qid is None else X[QID[0] == QID]
    found = explain(ranker, 1, 3, X=query)
    same = np.zeros(len(query))
    order = np.argsort(-ranker.predict(query, qid=same), kind="stable")
    want = 0.0
    for part, weight, k in zip(ranker.rankers_, ranker.weights_, range(2), strict=True):
        scale = part.predict(query).std() if qid is not None else ranker.scales_[k]
        why = explain(part, query[order[0]], query[order[2]])
        want = want + weight / scale * why.contributions
    assert_allclose(found.contributions, want, atol=1e-10)
    scores = ranker.predict(query, qid=same)[order]
    assert_allclose(found.contributions.sum(), scores[0] - scores[2], atol=1e-10)


@pytest.mark.slow
def test_auto_ranker_with_text_saved_and_loaded(tmp_path):
    frame, y, qid = hotels()
    kinds = [RankRLS(1.0, scale="standard"), AdditiveRankRLS(1.0, scale="query-ranks")]
    ranker = AutoRanker(candidates=kinds, boosted=False).fit(frame, y, qid=qid)
    path = save_model(ranker, tmp_path / "auto.rankwise")
    one = explain(ranker, 1, 5, X=frame, qid=qid, query=2)
    other = explain(load_model(path), 1, 5, X=frame, qid=qid, query=2)
    assert one.names == list(frame.columns)
    assert_allclose(one.contributions.sum(), one.scores[0] - one.scores[1], atol=1e-10)
    assert_allclose(one.contributions, other.contributions, atol=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [None, DotProduct(), pytest.param(Matern(), marks=pytest.mark.slow)],
    ids=["rbf", "linear", "Matern"],
)
def test_processes_have_the_probability(kernel):
    gp = PairwiseGP(kernel, optimizer=None).fit_pairs(X[:20], [[k, k + 1] for k in range(19)])
    found = explain(gp, X[3], X[17])
    assert_allclose(found.contributions, against_row(gp.predict, X[3], X[17]), atol=1e-9)
    assert found.probability == pytest.approx(gp.predict_preference(X[[3]], X[[17]])[0])
    assert f"better is {found.probability:.2f}" in found.sentence


def test_probabilities_behind_a_scaling_of_queries_are_of_rows_scaled_in_their_query():
    scaler = QueryMinMaxScaler().fit(X, qid=QID)
    Z = scaler.transform(X, qid=QID)
    gp = PairwiseGP(optimizer=None).fit_pairs(Z[:20], [[k, k + 1] for k in range(19)])
    rows = np.flatnonzero(QID == 1)
    first, second = rows[np.argsort(-gp.predict(Z[rows]), kind="stable")[:2]]
    found = explain(make_pipeline(scaler, gp), 1, 2, X=X, qid=QID, query=1)
    want = gp.predict_preference(Z[[first]], Z[[second]])[0]
    assert found.probability == pytest.approx(want)


@pytest.mark.parametrize(
    "step",
    [
        make_pipeline(QueryMinMaxScaler()),
        make_union(QueryMinMaxScaler()),
        make_column_transformer((QueryMinMaxScaler(), [0, 1]), remainder="passthrough"),
    ],
)
def test_scalings_of_queries_are_found_in_other_steps(step):
    model = make_pipeline(step, RankRLS(1.0))
    fit_with_queries(model, X, Y, QID)
    with pytest.raises(DataError, match="pass all rows of the query"):
        explain(model, X[0], X[1])
    if not hasattr(step, "steps"):  # its scaling cannot be told from a mixture of features
        with pytest.raises(DataError, match="mixes features"):
            explain(model, 1, 2, X=X, qid=QID, query=1)
        with pytest.raises(DataError, match="mixes features"):
            feature_effects(model, X, qid=QID)


def test_a_pipeline_of_a_process_alone_has_the_probability():
    gp = PairwiseGP(optimizer=None).fit_pairs(X[:20], [[k, k + 1] for k in range(19)])
    want = explain(gp, X[3], X[17]).probability
    assert explain(make_pipeline(gp), X[3], X[17]).probability == want


def test_a_context_of_comparisons_plays_no_part():
    context = np.linspace(-1, 1, 19)[:, None]
    pairs = [[k, k + 1] for k in range(19)]
    gp = PairwiseGP(optimizer=None).fit_pairs(X[:20], pairs, context=context)
    found = explain(gp, X[3], X[17])
    assert_allclose(found.contributions, against_row(gp.predict, X[3], X[17]), atol=1e-9)


def test_searches_and_grouped_rankers_are_explained_by_what_is_in_them():
    search = RankingSearchCV(RankRLS(scale="standard"), {"alpha": [1.0]}, cv=2)
    search.fit(X, Y, qid=QID)
    sizes = np.full(12, 8)
    grouped = GroupedRanker(RankRLS(1.0, scale="standard")).fit(X[np.argsort(QID, kind="stable")],
                                                               Y[np.argsort(QID, kind="stable")],
                                                               group=sizes)  # fmt: skip
    for model in (search, grouped):
        found = explain(model, X[3], X[17])
        assert found.method == "terms of a sum."
        assert_allclose(found.contributions, against_row(model.predict, X[3], X[17]), atol=1e-9)


def test_many_features_are_sampled_with_their_error():
    rng = np.random.default_rng(0)
    wide, y = rng.normal(size=(60, 14)), rng.normal(size=60)
    ranker = SparseRankRLS(1.0, kernel="polynomial", scale="standard", **LANDMARKS).fit(wide, y)
    exact = SparseRankRLS(1.0, kernel="rbf", scale="standard", **LANDMARKS).fit(wide, y)
    found = explain(ranker, wide[0], wide[1], n_samples=200)
    one, other = ranker.predict(wide[:2])
    assert_allclose(found.contributions.sum(), one - other, atol=1e-10)
    assert found.standard_errors is not None
    assert "200 orders" in found.method
    again = explain(ranker, wide[0], wide[1], n_samples=200)
    assert_allclose(again.contributions, found.contributions, atol=0)
    much = explain(ranker, wide[0], wide[1], n_samples=4000, random_state=1)
    gaps = (found.contributions - much.contributions) / found.standard_errors
    assert abs(gaps).max() < 5
    assert "s.e." in str(found)
    # Of the product kernel, no sample is needed.
    assert explain(exact, wide[0], wide[1]).standard_errors is None


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "polynomial"])
def test_sparse_rows_are_as_dense_ones(kernel):
    rng = np.random.default_rng(0)
    rows = sp.random_array((50, 30), density=0.15, rng=rng, format="csr")
    y = rng.normal(size=50)
    scale = {"kernel": kernel, "scale": None, **LANDMARKS}
    sparse, dense = SparseRankRLS(1.0, **scale).fit(rows, y), SparseRankRLS(1.0, **scale)
    dense.fit(rows.toarray(), y)
    one = explain(sparse, rows[[1]], rows[[2]])
    other = explain(dense, rows.toarray()[1], rows.toarray()[2])
    assert_allclose(one.contributions, other.contributions, atol=1e-10)


@pytest.mark.parametrize("size", [1e9, 1e-9])
def test_units_do_not_matter_where_features_are_scaled(size):
    for make in (WITHOUT_QUERIES[name] for name in ("linear", "additive", "rbf")):
        one, other = fitted(make()), make().fit(size * X, Y, qid=QID)
        a, b = explain(one, X[3], X[17]), explain(other, size * X[3], size * X[17])
        assert_allclose(a.contributions, b.contributions, atol=1e-7)


def test_many_features():
    rng = np.random.default_rng(0)
    wide, y = rng.normal(size=(200, 136)), rng.normal(size=200)
    ranker = SparseRankRLS(0.1, scale="standard", n_landmarks=100, random_state=0).fit(wide, y)
    found = explain(ranker, wide[0], wide[1])
    one, other = ranker.predict(wide[:2])
    assert_allclose(found.contributions.sum(), one - other, atol=1e-8)


def test_several_outputs():
    ranker = RankRLS(1.0, scale="standard").fit(X, np.column_stack([Y, -Y]), qid=QID)
    one, other = (explain(ranker, X[3], X[17], output=k).contributions for k in (0, 1))
    assert_allclose(one, -other, atol=1e-12)
    with pytest.raises(ParameterError, match="output must be below 2: got 2"):
        explain(ranker, X[3], X[17], output=2)
    with pytest.raises(ParameterError, match="one output: got output=1"):
        explain(fitted(RankRLS(1.0)), X[3], X[17], output=1)


def test_a_space_of_the_user_is_sampled_or_enumerated():
    from tests.test_adding_a_ranker import FourierRankRLS

    ranker = FourierRankRLS(1.0, n_frequencies=20, random_state=0).fit(X, Y, qid=QID)
    found = explain(ranker, X[3], X[17])
    assert_allclose(found.contributions, against_row(ranker.predict, X[3], X[17]), atol=1e-9)


@pytest.mark.parametrize(
    ("kinds", "one", "other"),
    [
        ("Series", lambda f: f.iloc[0], lambda f: f.iloc[1]),
        ("frames", lambda f: f.iloc[[0]], lambda f: f.iloc[[1]]),
        ("dictionaries", lambda f: f.iloc[0].to_dict(), lambda f: f.iloc[1].to_dict()),
    ],
)
def test_rows_of_frames(kinds, one, other):
    frame = pd.DataFrame(X, columns=[f"f{k}" for k in range(8)])
    ranker = RankRLS(1.0, scale="standard").fit(frame, Y, qid=QID)
    found = explain(ranker, one(frame), other(frame))
    assert found.names == list(frame.columns)
    want = ranker.coef_ * (X[0] - X[1])
    assert_allclose(found.contributions, want, atol=1e-12)


def test_steps_that_return_frames_and_words():
    frame, y, qid = hotels()
    frame = frame[["price", "city"]]
    before = make_column_transformer(
        (SimpleImputer(), ["price"]), (SimpleImputer(strategy="most_frequent"), ["city"]),
        verbose_feature_names_out=False,
    )  # fmt: skip
    encoder = make_column_transformer((OneHotEncoder(sparse_output=False), ["city"]),
                                      remainder="passthrough")  # fmt: skip
    model = make_pipeline(before, encoder, SparseRankRLS(1.0, scale="standard", **LANDMARKS))
    model.set_output(transform="pandas").fit(frame, y, sparserankrls__qid=qid)
    found = explain(model, frame.iloc[0], frame.iloc[1])
    assert_allclose(found.contributions, by_frames(model, frame, 0, 1), atol=1e-9)


@pytest.mark.slow
def test_polars_frames():
    polars = pytest.importorskip("polars")
    frame, y, qid = hotels()
    model = make_pipeline(TableEncoder(), RankRLS(1.0)).fit(frame, y, rankrls__qid=qid)
    one = explain(model, 1, 2, X=frame, qid=qid, query=0)
    other = explain(model, 1, 2, X=polars.from_pandas(frame), qid=qid, query=0)
    assert_allclose(one.contributions, other.contributions, atol=1e-12)


def test_tables_sentences_and_frames():
    ranker = RankRLS(1e-9).fit([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]], [0.0, 4.0, 7.0])
    found = explain(ranker, [3.0, 1.0], [1.0, 2.0], names=["stars", "price"])
    assert found.sentence == "Above, mainly because of stars (+7.33)."
    lines = str(found).splitlines()
    assert lines[0] == found.sentence
    assert lines[-1] == "Contributions are terms of a sum."
    assert [line.split()[0] for line in lines[4:7]] == ["stars", "price", "score"]
    frame = found.to_frame()
    assert frame.loc["stars", "contribution"] == pytest.approx(7.3333, abs=1e-3)
    assert list(frame.columns) == ["better", "worse", "contribution"]
    assert "1 other feature" in str(found.to_table(top=1))
    assert repr(found).startswith("<PairExplanation: Above")
    below = explain(ranker, [1.0, 2.0], [3.0, 1.0])
    assert below.sentence.startswith("Below, mainly because of x0 (-7.33)")
    level = explain(ranker, [1.0, 2.0], [1.0, 2.0])
    assert level.sentence == "Level: no feature makes a difference."
    assert level.difference == 0.0


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.42, "+.42"), (-0.1, "-.10"), (3.071, "+3.07"), (-12.3, "-12"), (31234.0, "+3.1e+04"),
     (0.0012, "+1.2e-03"), (10.04, "+10"), (0.999, "+1.00")],
)  # fmt: skip
def test_numbers_in_sentences(value, text):
    assert short(value) == text


def test_values_that_differ_look_different():
    X = np.array([[1.7e9, 2.0], [1.7e9 + 40, 1.0], [1.7e9 + 90, 2.0]])
    ranker = RankRLS(1e-3, scale="standard").fit(X, [1.0, 2.0, 3.0])
    rows = explain(ranker, X[2], X[0]).to_table().rows
    assert rows[0][1:3] == ("1.7000001e+09", "1.7e+09")


def test_a_ranked_query():
    ranker = fitted(RankRLS(1.0, scale="query-minmax"))
    ids = [f"doc{k}" for k in range(len(Y))]
    found = explain_ranking(ranker, X, qid=QID, query=QID[0], ids=ids)
    rows = np.flatnonzero(QID[0] == QID)
    assert sorted(found.rows) == rows.tolist()
    assert_allclose(found.scores, ranker.predict(X, qid=QID)[found.rows], atol=1e-12)
    assert [pair.positions for pair in found.pairs] == [(k, k + 1) for k in range(1, 8)]
    assert_allclose([pair.difference for pair in found.pairs], -np.diff(found.scores), atol=1e-12)
    assert found.ids == [ids[k] for k in found.rows]
    frame = found.to_frame()
    assert frame["reason"].iloc[0] == found.pairs[0].sentence
    assert frame["reason"].iloc[-1] == ""
    assert "against the next" in str(found)
    assert len(explain_ranking(ranker, X, qid=QID, query=QID[0], top=3)) == 3
    background = explain_ranking(ranker, X, qid=QID, query=QID[0], background="query")
    assert_allclose(
        [p.contributions for p in background.pairs], [p.contributions for p in found.pairs]
    )


def test_a_query_with_equal_rows():
    ranker = fitted(RankRLS(1.0))
    rows = np.vstack([X[:2], X[:2]])
    found = explain_ranking(ranker, rows)
    level = "Level: no feature makes a difference."
    assert [pair.sentence == level for pair in found.pairs] == [True, False, True]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda r: explain(RankRLS, X[0], X[1]), ParameterError, "fitted ranker"),
        (lambda r: explain(r, 1, 2), ParameterError, "Positions need the rows"),
        (lambda r: explain(r, 1, 2, X=X, qid=QID), ParameterError, "12 queries: name one"),
        (lambda r: explain(r, 1, 2, X=X, query=3), ParameterError, "needs the query of every row"),
        (lambda r: explain(r, 1, 2, X=X, qid=QID, query="no"), DataError, "no query 'no'"),
        (lambda r: explain(r, 1, 9, X=X[:8]), DataError, "from 1 to 8.*got 9"),
        (lambda r: explain(r, 0, 3, X=X[:8]), DataError, "better must be a position.*got 0"),
        (lambda r: explain(r, 3, 3, X=X[:8]), DataError, "the same position, 3"),
        (lambda r: explain(r, 1.5, 3, X=X[:8]), ParameterError, "from 1: got 1.5"),
        (lambda r: explain(r, X[:2], X[1]), DataError, "better must be one row: got 2"),
        (lambda r: explain(r, X[0], X[1, :5]), DataError, "the same columns"),
        (lambda r: explain(r, X[0, :5], X[1, :5]), ValueError, "5 features"),
        (lambda r: explain(r, X[0] * np.nan, X[1]), DataError, "contains NaN.*row 0"),
        (lambda r: explain(r, X[0], X[1], background="rows"), ParameterError, '"query" or None'),
        (lambda r: explain(r, X[0], X[1], background="query"), ParameterError, "pass X="),
        (lambda r: explain(r, X[0], X[1], background=X[:, :5]), DataError, "the same columns"),
        (lambda r: explain(r, X[0], X[1], names=["a"]), DataError, "got 1 for 8"),
        (lambda r: explain(r, X[0], X[1], n_samples=1), ParameterError, "n_samples"),
        (lambda r: explain_ranking(r, X[:8], ids=[1]), DataError, "ids needs an entry"),
        (lambda r: explain_ranking(r, X[0]), DataError, "one axis"),
    ],
)  # fmt: skip
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call(fitted(RankRLS(1.0)))


def test_errors_of_models():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        explain(RankRLS(), X[0], X[1])
    within = fitted(RankRLS(1.0, scale="query-minmax"))
    with pytest.raises(DataError, match=r"scales within queries.*pass all rows"):
        explain(within, X[0], X[1])
    pipeline = make_pipeline(WithQueryStandard(), RankRLS(1.0, scale=None)).fit(X, Y)
    with pytest.raises(DataError, match="Pipeline scales within queries"):
        explain(pipeline, X[0], X[1])
    with pytest.raises(DataError, match='background="query"'):
        explain(within, 1, 2, X=X[:8], background=X[:3])
    items = list("abccab"), list("bcaabc"), [1, 1, 1, 0, 0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        board = Leaderboard().fit(*items)
    with pytest.raises(DataError, match="Leaderboard scores items"):
        explain(board, [0.0], [1.0])
    model = make_pipeline(PCA(2), QueryMinMaxScaler(), RankRLS(1.0, scale=None))
    from sklearn import config_context

    with config_context(enable_metadata_routing=True):
        model.fit(X, Y, qid=QID)
    with pytest.raises(DataError, match="PCA mixes features"):
        explain(model, 1, 2, X=X[:8])


def test_named_kernels_with_all_their_terms():
    from rankwise.inspection.scorers import kernel_terms

    assert kernel_terms(NamedKernel("polynomial"), 3) is None
    assert kernel_terms(RBF() * DotProduct(), 3) is None
    assert len(kernel_terms(ConstantKernel(2.0) * (RBF() + DotProduct(1.0)), 3)) == 3


def test_the_picture_has_a_step_for_each_feature():
    found = explain(fitted(RankRLS(1.0)), X[3], X[17])
    ax = found.plot(top=3)
    labels = [tick.get_text() for tick in ax.get_yticklabels()]
    assert len(labels) == 4
    assert labels[-1] == "5 other features"
    with pytest.raises(DataError, match="no feature makes a difference"):
        explain(fitted(RankRLS(1.0)), X[3], X[3]).plot()


def test_an_order_by_rounding_errors_is_level():
    rng = np.random.default_rng(1)
    rest = 100 * rng.integers(0, 50, (40, 2)).astype(np.float64)
    X, y = (1e9 + rest).astype(np.float32), rest[:, 0] - 0.5 * rest[:, 1]
    found = explain_ranking(RankRLS(1.0, scale=None).fit(X, y), X)
    assert not any(pair.sentence.startswith("Below") for pair in found.pairs)
    level = [pair for pair in found.pairs if pair.sentence.startswith("Level within rounding")]
    assert level
    assert "subtract a constant from features" in str(level[0])
    near = rest.astype(np.float32)
    exact = explain_ranking(RankRLS(1.0, scale=None).fit(near, y), near)
    assert not any("rounding" in pair.sentence for pair in exact.pairs)
    with pytest.raises(DataError, match=r"rounding errors of float32\. Subtract a constant"):
        _check_agreement(0.0, (512.0, 490.0), np.float32)


def test_models_that_only_predict():
    X = np.random.default_rng(0).random((20, 3))
    found = explain(SimpleNamespace(predict=lambda Z: Z @ [1.0, 2.0, 0.0]), X[0], X[1])
    assert_allclose(found.contributions, (X[0] - X[1]) * [1.0, 2.0, 0.0], atol=1e-12)


def test_a_missing_date_is_called_missing():
    from rankwise.inspection.explanations import shown

    assert shown(np.datetime64("NaT", "us"), 5) == shown(pd.NaT, 5) == "missing"
    assert shown(pd.Timestamp("2026-03-01"), 5) == "2026-03-01"
