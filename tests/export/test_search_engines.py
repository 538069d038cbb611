"""Linear models and pipelines as named weights."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from rankwise import (
    RLS,
    AdditiveRankRLS,
    KPCRank,
    MeanRanker,
    PairwiseGP,
    RankingSearchCV,
    RankRLS,
    RankSVM,
    SeenFeatures,
    SparseRankRLS,
)
from rankwise.errors import DataError, ExportError, ParameterError, RankwiseWarning
from rankwise.export import (
    distil,
    linear_model,
    search_engines,
    to_elasticsearch,
    to_json,
    to_opensearch,
    to_solr,
    to_vespa,
)
from rankwise.export._endings import ModelStages
from rankwise.graph import QueryGroups
from rankwise.metrics import disagreement_error

NAMES = ["title", "body", "year", "votes"]
ENGINES = (to_elasticsearch, to_opensearch, to_solr, to_vespa, to_json)


def make_rows(seed=0, n=40):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [1.0, 10.0, 0.1, 3.0] + [0.0, 5.0, -2.0, 100.0]
    return X, np.round(X @ [1.0, 0.2, 4.0, -0.3] + rng.normal(size=n)), np.arange(n) // 8


X, Y, QID = make_rows()
LINEAR = {
    "plain": lambda: RankRLS(1.0),
    "standard": lambda: RankRLS(1.0, scale="standard"),
    "dual": lambda: RankRLS(1.0, solver="dual"),
    "regression": lambda: RLS(1.0, scale="standard"),
    "svm": lambda: RankSVM(),
    "landmarks": lambda: SparseRankRLS(1.0, kernel="linear", n_landmarks=10, random_state=0),
    "components": lambda: KPCRank(3, kernel="linear"),
    "mean": lambda: MeanRanker([RankRLS(1.0), RankSVM()]),
    "scalers": lambda: make_pipeline(
        RobustScaler(), MaxAbsScaler(), MinMaxScaler((-1, 1)), StandardScaler(), RankRLS(1.0)
    ),
    "selection": lambda: make_pipeline(
        VarianceThreshold(), SelectKBest(k=2), StandardScaler(with_mean=False), RankRLS(1.0)
    ),
    "principal components": lambda: make_pipeline(PCA(3, whiten=True), RankRLS(1.0)),
    "columns": lambda: make_pipeline(
        make_column_transformer(
            (StandardScaler(), [2, 0]),
            ("drop", [1]),
            (make_pipeline(MinMaxScaler(), StandardScaler()), slice(2, 4)),
            remainder="passthrough",
        ),
        RankRLS(1.0),
    ),
    "union": lambda: make_pipeline(
        FeatureUnion(
            [("a", StandardScaler()), ("b", SelectKBest(k=1)), ("c", "passthrough")],
            transformer_weights={"a": 0.5},
        ),
        RankRLS(1.0),
    ),
    "seen features": lambda: make_pipeline(SeenFeatures(), RankRLS(1.0)),
    "search": lambda: RankingSearchCV(RankRLS(), {"alpha": [0.1, 1.0]}, cv=2),
}


@pytest.mark.parametrize("name", LINEAR)
def test_weights_give_the_scores_of_the_model(name):
    model = LINEAR[name]().fit(X, Y)
    found = linear_model(model, features=NAMES)
    assert_allclose(found.scores(X), model.predict(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["standard", "scalers", "columns", "selection"])
@pytest.mark.parametrize("export", ENGINES)
def test_engines_rank_as_the_model_does(export, name):
    """Each export compares the scores itself; here the rows are given."""
    model = LINEAR[name]().fit(X, Y)
    check = export(model, features=NAMES, rows=X, qid=QID).check
    assert check.passed
    assert check.rows == "40 rows given"
    assert check.n_lost == 0
    assert check.n_pairs == sum(
        np.count_nonzero(np.subtract.outer(f, f)) // 2 for f in np.split(model.predict(X), 5)
    )


@pytest.mark.parametrize("normalizers", [False, True])
@pytest.mark.parametrize(("location", "scale"), [(0.0, 1e-6), (-500.0, 1.0), (3e8, 1e7)])
def test_any_location_and_scale(location, scale, normalizers):
    rows = X * scale + location
    model = make_pipeline(StandardScaler(), RankRLS(1.0)).fit(rows, Y)
    check = to_elasticsearch(model, normalizers=normalizers, rows=rows).check
    assert check.n_lost == 0
    assert check.relative_difference < 1e-3


def test_features_that_float32_cannot_tell_apart_are_refused():
    rows = X + 1e7
    model = make_pipeline(StandardScaler(), RankRLS(1.0)).fit(rows, Y)
    with pytest.raises(ExportError, match="computes in float32, which is too coarse"):
        to_elasticsearch(model)
    assert to_vespa(model).check.passed


def body_of(export):
    return json.loads(export.content)


def test_scores_are_positive_where_elasticsearch_needs_it():
    model = RankRLS(1.0).fit(X, Y, qid=QID)
    export = to_elasticsearch(model, features=NAMES)
    columns = dict(zip(NAMES, X.T, strict=True))
    scores = search_engines.elasticsearch_scores(export.content, columns)
    assert scores.min() >= 0
    assert model.predict(X).min() < 0
    assert_allclose(scores + export.check.left_out, model.predict(X), rtol=1e-4)
    plain = body_of(to_elasticsearch(model, features=NAMES, positive=False))["model"]["model"]
    assert "feature_normalizers" not in plain
    assert_allclose(list(plain["definition"].values()), model.coef_, rtol=1e-6)


def test_scores_of_a_rank_svm_are_positive():
    model = RankSVM().fit(X, Y, qid=QID)
    assert "scores of at least 0" in to_elasticsearch(model).check.notes[0]
    assert "the range of the training rows" in to_elasticsearch(model).check.rows
    columns = {f"f{k}": column for k, column in enumerate(X.T, 1)}
    body = to_solr(model, positive=True).content
    assert search_engines.solr_scores(body, columns).min() >= 0


def test_the_normalizers_of_the_engine():
    model = make_pipeline(MinMaxScaler(), RankRLS(1.0)).fit(X, Y)
    solr = body_of(to_solr(model, features=NAMES, normalizers=True))
    norm = solr["features"][3]["norm"]
    assert norm["class"].endswith("MinMaxNormalizer")
    assert_allclose([float(norm["params"][key]) for key in ("min", "max")],
                    [X[:, 3].min(), X[:, 3].max()], rtol=1e-6)  # fmt: skip
    assert_allclose(list(solr["params"]["weights"].values()), model[-1].coef_, rtol=1e-6)
    standard = make_pipeline(StandardScaler(), RankRLS(1.0)).fit(X, Y)
    plugin = to_opensearch(standard, features=NAMES, normalizers=True, positive=False)
    norms = body_of(plugin)["model"]["model"]["feature_normalizers"]
    assert_allclose(norms["year"]["standard"]["mean"], X[:, 2].mean(), rtol=1e-6)
    with pytest.raises(ParameterError, match="this model has none"):
        to_solr(RankRLS(1.0).fit(X, Y), normalizers=True)


def test_names():
    frame = pd.DataFrame(X, columns=["a b", 'q"', "ü", "year"])
    model = make_pipeline(StandardScaler(), RankRLS(1.0)).fit(frame, Y)
    assert list(body_of(to_solr(model))["params"]["weights"]) == list(frame.columns)
    assert to_solr(model, rows=frame[["year", "a b", "ü", 'q"']]).check.passed  # in any order
    with pytest.raises(DataError, match="no column 'year'"):
        to_solr(model, rows=frame.drop(columns="year"))
    unnamed = RankRLS(1.0).fit(X, Y)
    assert list(body_of(to_solr(unnamed))["params"]["weights"]) == ["f1", "f2", "f3", "f4"]
    with pytest.raises(DataError, match="one name for each of 4 features: got 2"):
        to_json(unnamed, features=["a", "b"])
    with pytest.raises(DataError, match="'a' is there 2 times"):
        to_json(unnamed, features=["a", "b", "c", "a"])
    with pytest.raises(DataError, match="not empty: got ' '"):
        to_json(unnamed, features=["a", " ", "c", "d"])
    with pytest.raises(DataError, match="4 columns"):
        to_json(unnamed, rows=X[:, :2])


def test_names_of_vespa():
    model = RankRLS(1.0).fit(X, Y)
    text = to_vespa(model, features=["bm25(title)", "year", "query(age)", "match.score"]).content
    for name in ("bm25(title)", "attribute(year)", "query(age)", "match.score"):
        assert f" * {name}" in text
    assert "e-" not in text
    with pytest.raises(ExportError, match="'a b' is not a rank feature"):
        to_vespa(model, features=["a b", "b", "c", "d"])


def test_features_without_weight_are_left_out_but_not_all_of_them():
    constant = np.column_stack((X[:, :3], np.full(len(X), 7.0)))
    model = make_pipeline(SelectKBest(k=2), RankRLS(1.0)).fit(X, Y)
    assert len(body_of(to_solr(model, features=NAMES))["features"]) == 2
    assert linear_model(RankRLS(1.0).fit(constant, Y)).weights[3] == 0
    nothing = RankSVM(alpha=1.0)
    nothing.fit(X, Y).coef_[:] = 0
    with pytest.raises(ExportError, match="All weights of the model are 0"):
        to_solr(nothing)


def test_at_most_10000_features():
    wide = np.random.default_rng(0).normal(size=(6, 10_001))
    model = RankRLS(1.0).fit(wide, np.arange(6))
    with pytest.raises(ExportError, match="at most 10,000 features, and 10,001"):
        to_elasticsearch(model, rows=wide)
    assert to_solr(model, rows=wide).check.passed


def test_few_rows_are_drawn_for_very_many_features():
    assert ModelStages([], 10**6, None).some_rows(512) == 20
    assert ModelStages([], 10, None).some_rows(512) == 512


def test_missing_values():
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    model = make_pipeline(SimpleImputer(), StandardScaler(), RankRLS(1.0)).fit(holes, Y)
    assert to_json(model, features=NAMES, rows=holes).check.passed
    assert to_vespa(model, features=NAMES, rows=holes).check.passed
    with pytest.raises(ExportError, match=r"reads a missing feature as 0.*complete=True"):
        to_solr(model, features=NAMES)
    assert "index every feature" in to_solr(model, complete=True, rows=X).check.notes[-1]
    with pytest.raises(DataError, match="rows have missing values, although complete=True"):
        to_solr(model, complete=True, rows=holes)
    zeros = make_pipeline(SimpleImputer(strategy="constant", fill_value=0.0), RankRLS(1.0))
    assert to_solr(zeros.fit(holes, Y), rows=holes).check.passed
    assert to_elasticsearch(zeros, rows=holes).check.passed


HOLES = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
SCALERS = (StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler())


@pytest.mark.parametrize("scaler", SCALERS)
@pytest.mark.parametrize("imputer", [SimpleImputer(), SimpleImputer(strategy="median")])
@pytest.mark.parametrize("scaler_first", [False, True])
def test_fill_values_are_in_the_units_of_the_features(scaler, imputer, scaler_first):
    steps = (scaler, imputer) if scaler_first else (imputer, scaler)
    model = make_pipeline(*map(clone, steps), RankRLS(1.0)).fit(HOLES, Y)
    folded = linear_model(model, features=NAMES)
    statistics = clone(imputer).fit(HOLES).statistics_
    assert_allclose([folded.missing[name] for name in NAMES], statistics, rtol=1e-12)
    scores = model.predict(HOLES)
    assert_allclose(folded.scores(HOLES), scores, atol=1e-9)
    for export in (to_json, to_vespa):
        check = export(model, features=NAMES, rows=HOLES).check
        assert check.passed
        assert check.relative_difference < 1e-9
    for export in (to_elasticsearch, to_opensearch, to_solr):
        with pytest.raises(ExportError, match="fills in other values"):
            export(model, features=NAMES, rows=HOLES)
    indexed = np.where(np.isnan(HOLES), statistics, HOLES)
    body = to_elasticsearch(model, features=NAMES, complete=True, positive=False).content
    ours = search_engines.elasticsearch_scores(body, dict(zip(NAMES, indexed.T, strict=True)))
    assert_allclose(ours - ours[0], scores - scores[0], atol=1e-3)


@pytest.mark.parametrize("scaler", SCALERS)
def test_zeros_behind_a_scaler_are_zeros_only_if_it_does_not_shift(scaler):
    zeros = SimpleImputer(strategy="constant", fill_value=0.0)
    model = make_pipeline(clone(scaler), zeros, RankRLS(1.0)).fit(HOLES, Y)
    scores = model.predict(HOLES)
    assert_allclose(linear_model(model).scores(HOLES), scores, atol=1e-9)
    if isinstance(scaler, MaxAbsScaler):
        assert set(linear_model(model).missing.values()) == {0.0}
        assert to_solr(model, rows=HOLES).check.passed
    else:
        with pytest.raises(ExportError, match="fills in other values"):
            to_solr(model)


def test_fill_values_of_steps_side_by_side():
    scaled = make_column_transformer((StandardScaler(), [0, 2]), (RobustScaler(), [1, 3]))
    twice = FeatureUnion(
        [("mean", SimpleImputer()), ("far", SimpleImputer(strategy="constant", fill_value=9.0))]
    )
    for steps in ([scaled, SimpleImputer()], [StandardScaler(), twice], [SimpleImputer(), twice]):
        model = make_pipeline(*map(clone, steps), RankRLS(1.0)).fit(HOLES, Y)
        assert_allclose(linear_model(model).scores(HOLES), model.predict(HOLES), atol=1e-9)
    mean = MeanRanker([make_pipeline(StandardScaler(), SimpleImputer(), RankRLS(1.0)), model])
    mean.fit(HOLES, Y)
    assert_allclose(linear_model(mean).scores(HOLES), mean.predict(HOLES), atol=1e-9)
    with pytest.raises(ExportError, match="fills in other values"):
        to_solr(mean)


def test_a_missing_value_that_no_value_stands_for_is_refused():
    lost = ColumnTransformer(
        [("lost", StandardScaler(), [0])], remainder="passthrough", transformer_weights={"lost": 0}
    )
    fives = SimpleImputer(strategy="constant", fill_value=5.0)
    model = make_pipeline(lost, fives, RankRLS(1.0)).fit(HOLES, Y)
    with pytest.raises(ExportError, match="weight of title is 0, but a missing title adds"):
        to_json(model, features=NAMES)


def test_missing_values_of_features_that_are_left_out():
    model = make_pipeline(
        make_column_transformer(("drop", [0]), remainder="passthrough"), RankRLS(1.0)
    ).fit(X, Y)
    rows = X.copy()
    rows[::3, 0] = np.nan
    assert linear_model(model, features=NAMES).missing == {"title": 0.0}
    assert to_json(model, rows=rows).check.passed
    assert to_solr(model).check.passed


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (RankRLS(1.0, kernel="rbf"), "its kernel is rbf"),
        (RankRLS(1.0, scale="query-minmax"), "scaled within each query"),
        (AdditiveRankRLS(1.0), "cut off at bounds"),
        (PairwiseGP(optimizer=None), "its kernel is"),
        (make_pipeline(MinMaxScaler(clip=True), RankRLS(1.0)), "cut off at bounds"),
    ],
)
def test_what_is_not_linear_is_refused_with_a_way_out(model, reason):
    with pytest.raises(ExportError, match=f"^Solr takes a linear model.*{reason}.*distil"):
        to_solr(model.fit(X, Y))


def test_several_outputs_are_refused():
    with pytest.raises(ExportError, match=r"2 outputs\. Fit a model to each column"):
        to_solr(RankRLS(1.0).fit(X, np.column_stack((Y, -Y))))


def test_an_export_that_fails_its_check_is_refused(monkeypatch):
    monkeypatch.setattr(search_engines, "solr_scores", lambda text, features: -X[:, 0])
    with pytest.raises(ExportError, match="is not written"):
        to_solr(RankRLS(1.0).fit(X, Y), rows=X)


def test_a_linear_process():
    from sklearn.gaussian_process.kernels import DotProduct

    gp = PairwiseGP(DotProduct(), optimizer=None).fit(X - X.mean(axis=0), Y)
    assert_allclose(linear_model(gp).scores(X), gp.predict(X), rtol=1e-8, atol=1e-8)


def test_distil():
    model = RankRLS(1.0, kernel="rbf", scale="standard").fit(X, Y, qid=QID)
    grades = np.digitize(Y, [-40, -30])
    found = distil(model, X, grades, qid=QID)
    assert 0.5 < found.agreement <= 1
    assert found.loss.n_queries == 5
    assert "of the pairs are in the model's order (correlation 0." in str(found)
    assert to_solr(found.ranker, rows=X).check.passed
    assert distil(model, X, qid=QID).loss is None
    assert distil(RankRLS(1.0, kernel="rbf").fit(X, Y), X, grades).loss.n_queries == 5
    with pytest.raises(DataError, match="at least two queries"):
        distil(model, X[:8], qid=QID[:8])
    imputed = make_pipeline(SimpleImputer(), RankRLS(1.0)).fit(X, Y)
    with pytest.raises(DataError, match="Column 1 has missing values"):
        distil(imputed, np.where(np.arange(4) == 1, np.nan, X))
    with pytest.raises(ParameterError, match="into"):
        distil(model, X, qid=QID, into="forest")


def test_what_sees_other_rows_is_distilled_with_a_warning():
    rng = np.random.default_rng(0)
    rows, qid = rng.normal(size=(300, 2)), np.repeat(np.arange(30), 10)
    rows += 5 * rng.normal(size=(30, 1))[qid]
    scores = rows[:, 0] - rows[:, 1]
    for scale in ("query-minmax", "query-standard", "query-ranks"):
        model = RankRLS(1.0, scale=scale).fit(rows, scores, qid=qid)
        with pytest.warns(RankwiseWarning, match=r"depend on the other rows.*scale=\"standard\""):
            distil(model, rows, qid=qid)
    with pytest.warns(RankwiseWarning, match="of this MeanRanker depend on the other rows"):
        distil(MeanRanker([model, RankRLS(1.0)]).fit(rows, scores, qid=qid), rows, qid=qid)
    with pytest.warns(RankwiseWarning) as caught:  # all rows as one query: not what was learned
        distil(model, rows)
    assert any("qid" in str(one.message) for one in caught)


@pytest.mark.parametrize("into", ["linear", pytest.param("trees", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["additive", "mean"])
def test_additive_and_mean_rankers_are_distilled(name, into):
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    rows, qid = rng.normal(size=(300, 2)), np.repeat(np.arange(30), 10)
    scores = np.abs(rows[:, 0]) + rows[:, 1]  # a curve, and a line
    additive = AdditiveRankRLS(0.1, scale=None)
    model = additive if name == "additive" else MeanRanker([additive, RankRLS(0.1, scale=None)])
    if name == "additive":
        model.fit(rows, scores, qid=qid)
    else:
        model.fit(rows, scores)  # one ranking: each part has one scale
    grades = np.digitize(scores, [0.0, 1.0, 2.0])
    found = distil(model, rows, grades, qid=qid, into=into)
    assert found.agreement > (0.9 if into == "trees" else 0.7)
    fresh = rng.normal(size=(300, 2))  # what is printed holds for rows that nobody has seen
    error = disagreement_error(model.predict(fresh), found.ranker.predict(fresh), qid)
    assert found.agreement == pytest.approx(1 - error, abs=0.05)
    assert to_solr(found.ranker, rows=rows, qid=qid).check.n_lost == 0


@pytest.mark.parametrize(
    "into", ["linear", pytest.param("trees", marks=[pytest.mark.slow, pytest.mark.ci])]
)
def test_what_is_distilled_keeps_monotone_features(into):
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    rows, qid = rng.normal(size=(120, 2)), np.repeat(np.arange(12), 10)
    frame = pd.DataFrame(rows, columns=["noise", "stars"])
    labels = rows[:, 1] - 0.2 * rows[:, 0]
    model = AdditiveRankRLS(0.1, scale=None, monotone={"noise": 1, "stars": 1})
    found = distil(model.fit(frame, labels, qid=qid), frame, qid=qid, into=into).ranker
    assert found.monotone == {"noise": 1, "stars": 1}
    search = RankingSearchCV(RankRLS(monotone={0: 1}, scale=None), {"alpha": [1.0]})
    search.fit(rows, labels, qid=qid)
    assert distil(search, rows, qid=qid, into=into).ranker.monotone == {0: 1}
    listed = RankRLS(monotone={1: 1}, scale=None).fit(rows.tolist(), labels, qid=qid)
    assert distil(listed, rows.tolist(), qid=qid, into=into).ranker.monotone == {1: 1}
    numbered = frame.set_axis([1, 0], axis=1)  # positions count, not these labels
    assert distil(listed, numbered, qid=qid, into=into).ranker.monotone == {1: 1}
    table = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    model = RankRLS(monotone={"stars": 1}, scale=None).fit(table, labels, qid=qid)
    assert distil(model, table, qid=qid, into=into).ranker.monotone == {"stars": 1}
    if into == "trees":
        return
    pipeline = make_pipeline(StandardScaler(), RankRLS(monotone={0: 1}, scale=None))
    pipeline.fit(rows, labels, rankrls__qid=qid)
    with pytest.warns(RankwiseWarning, match="made by the steps before it"):
        distil(pipeline, rows, qid=qid)


@pytest.mark.parametrize("export", ENGINES)
def test_names_of_the_target_beside_rows_with_the_names_of_the_model(export):
    rows = pd.DataFrame(X, columns=NAMES)
    model = RankRLS(1.0, scale="standard").fit(rows, Y, qid=QID)
    names = ["attribute(a)", "attribute(b)", "attribute(c)", "attribute(d)"]
    turned = rows[NAMES[::-1]]
    assert export(model, features=names, rows=turned, qid=QID).check.n_lost == 0
    named = rows.set_axis(names, axis=1)[names[::-1]]
    assert export(model, features=names, rows=named, qid=QID).check.n_lost == 0
    with pytest.raises(DataError, match="no column 'votes'"):
        export(model, features=names, rows=rows[NAMES[:3]], qid=QID)


@pytest.mark.slow
@pytest.mark.ci
def test_distil_into_trees():
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    rows, qid = rng.normal(size=(300, 2)), np.repeat(np.arange(30), 10)
    scores = np.abs(rows[:, 0]) + np.abs(rows[:, 1])  # which no linear model follows
    model = RankRLS(1.0, kernel="rbf", scale="standard").fit(rows, scores, qid=qid)
    grades = np.digitize(scores, [1.0, 2.0])
    order = rng.permutation(300)
    found = distil(model, rows[order], grades[order], qid=qid[order], into="trees")
    lines = distil(model, rows, grades, qid=qid)
    assert found.agreement > 0.85 > lines.agreement + 0.2
    assert found.correlation == 2 * found.agreement - 1
    assert abs(found.loss.difference) < 0.1
    assert to_solr(found.ranker, rows=rows, qid=qid).check.n_lost == 0
    # the same as refits without each fold
    wanted = np.empty(300)
    codes = QueryGroups.of(qid[order], 300).codes % 5
    predicted, order_of = model.predict(rows[order]), qid[order]
    for k in range(5):
        out = codes == k
        refit = clone(found.ranker).fit(rows[order][~out], predicted[~out], qid=order_of[~out])
        wanted[out] = refit.predict(rows[order][out])
    error = disagreement_error(predicted, wanted, order_of)
    assert found.agreement == pytest.approx(1 - error, abs=0.02)  # bins are of all rows
    assert distil(model, rows, into="trees").loss is None
    holes = np.where(rng.random(rows.shape) < 0.1, np.nan, rows)
    imputed = make_pipeline(SimpleImputer(), RankRLS(1.0)).fit(rows, scores)
    assert distil(imputed, holes, qid=qid, into="trees").agreement > 0.6
    with pytest.raises(DataError, match="at least two queries: got one"):
        distil(model, rows[:10], qid=qid[:10], into="trees")
