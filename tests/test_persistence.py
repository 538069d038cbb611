"""Model files: what comes back, what is refused, and that none is ever half-written."""

import copy
import io
import itertools
import json
import os
import pickle
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from rankwise import (
    KPCR,
    RLS,
    ComponentOptions,
    KPCRank,
    Leaderboard,
    PairwiseGP,
    RankingSearchCV,
    RankRLS,
    RankSVM,
    SeenFeatures,
    SparseBilinearRanker,
    SparseRankRLS,
    SparseRLS,
    __version__,
    load_model,
    save_model,
)
from rankwise.errors import ModelFileError, RankwiseError
from rankwise.persistence import open_model
from tests.test_model_files import rewrite

rng = np.random.default_rng(0)
X = np.abs(rng.normal(size=(24, 3)))
y, qid = rng.integers(0, 3, 24).astype(float), np.repeat(["a", "b", "c"], 8)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.rankwise"


@pytest.fixture
def saved(path):
    return save_model(RankRLS(kernel="rbf", scale=None).fit(sp.csr_matrix(X), y, qid=qid), path)


def close(first, second):
    """The same to rounding: a loaded array may be aligned differently in memory."""
    assert_allclose(first, second, rtol=1e-12, atol=1e-12)


def check_round_trip(model, rows, path):
    assert save_model(model, path) == path
    same = load_model(path)
    assert type(same) is type(model)
    assert vars(same).keys() == vars(model).keys()
    close(same.predict(rows), model.predict(rows))
    return same


class TestRankers:
    @pytest.mark.parametrize(
        ("ranker", "rows"),
        [
            (RankRLS(kernel="rbf", scale=None), sp.csr_array(X)),
            (RankRLS(kernel=ConstantKernel(2.0) * RBF([1.0, 2.0, 3.0]), scale=None), X),
            (RankRLS(kernel="precomputed"), X @ X.T),
            (RLS(kernel="poly", scale=None), X),
            (SparseRankRLS(n_landmarks=5, random_state=np.random.RandomState(0), scale=None), X),
            (SparseRLS(landmarks=np.arange(5), scale=None), sp.csr_array(X)),
            (KPCRank(scale=None, options=ComponentOptions(rule="best")), X),
            (KPCRank(4, alpha=0.1, scale=None, options=ComponentOptions(selection="spectral")), X),
            (KPCR(3, n_landmarks=8, random_state=0, scale=None), X),
        ],
    )
    def test_least_squares(self, path, ranker, rows):
        ranker = clone(ranker).fit(rows, y, qid=qid)
        same = check_round_trip(ranker, rows, path)
        assert str(same) == str(ranker) or ranker.random_state is not None
        if hasattr(ranker, "transform"):
            close(same.predict_path(X), ranker.predict_path(X))
            close(same.transform(X), ranker.transform(X))
        assert same.fit(rows, np.column_stack([y, -y]), qid=qid).predict(rows).shape == (24, 2)

    @pytest.mark.parametrize("copied", [copy.copy, lambda r: pickle.loads(pickle.dumps(r))])
    def test_copies_derive_attributes_again(self, copied):
        for ranker in (
            RLS(kernel="rbf", scale=None).fit(X, y),
            KPCRank(3, scale=None).fit(X, y, qid=qid),
        ):
            assert not ranker.__getstate__().keys() & {"dual_coef_", "intercept_", "X_fit_"}
            same = copied(ranker)
            assert vars(same).keys() == vars(ranker).keys()
            close(same.predict(X), ranker.predict(X))

    @pytest.mark.parametrize("ranker", [SparseRankRLS, SparseRLS])
    def test_partial_fit_continues_after_loading(self, path, ranker):
        half = ranker(landmarks=[0, 1, 2], scale=None).partial_fit(X[:16], y[:16], qid=qid[:16])
        same = check_round_trip(half, X, path)
        same.partial_fit(X[16:], y[16:], qid=qid[16:])
        half.partial_fit(X[16:], y[16:], qid=qid[16:])
        close(same.predict(X), half.predict(X))

    @pytest.mark.parametrize(
        "settings",
        [
            {"marginalize": "grid", "tie_model": "threshold", "optimizer": None},
            {"n_landmarks": 4, "random_state": 0},
            {"kernel": ConstantKernel(2.0) * Matern(nu=1.5) + WhiteKernel(), "optimizer": None},
        ],
    )
    def test_gaussian_processes_accept_comparisons_after_loading(self, path, settings):
        model = PairwiseGP(**settings).fit(X[:8], y[:8])
        same = check_round_trip(model, X, path)
        close(same.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1])
        assert_allclose(same.tell([0, 1]).predict(X), model.tell([0, 1]).predict(X), atol=1e-6)
        check_round_trip(model, X, path)

    def test_feature_names_and_attributes_of_the_user(self, path):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(X, columns=["bm25", "pagerank", "clicks"])
        model = RankSVM().fit(frame, y, qid=qid)
        model.note = {"day": ("Tuesday", 3)}
        same = check_round_trip(model, frame, path)
        assert list(same.feature_names_in_) == ["bm25", "pagerank", "clicks"]
        assert same.note == model.note

    def test_settings_of_scikit_learn(self, path):
        with config_context(enable_metadata_routing=True):
            model = (
                KPCRank(2, scale=None).set_output(transform="pandas").set_fit_request(qid="query")
            )
            same = check_round_trip(model.fit(X, y, qid=qid), X, path)
            assert same.get_metadata_routing().fit.requests["qid"] == "query"
        assert list(same.transform(X).columns) == list(model.transform(X).columns)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_models_are_written_to_devices_and_pipes(tmp_path, saved):
    model = load_model(saved)
    save_model(model, os.devnull)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        save_model(model, pipe)
        content = reader.communicate(timeout=60)[0]
    assert content == saved.read_bytes()


class TestScikitLearn:
    @pytest.mark.parametrize(
        "model",
        [
            make_pipeline(StandardScaler(), RankRLS(kernel=RBF(2.0))),
            make_pipeline(make_pipeline(StandardScaler(), FunctionTransformer(np.tanh)), RLS()),
            make_pipeline(
                FeatureUnion([("s", StandardScaler()), ("k", KPCRank(2, scale=None))]), RankRLS()
            ),
            BaggingRegressor(RankRLS(), n_estimators=2, random_state=0),
            GridSearchCV(RankRLS(), {"alpha": [1.0, 2.0]}, cv=2),
        ],
        ids=lambda model: type(model).__name__,
    )
    def test_pipelines_and_other_estimators_around_rankers(self, path, model):
        check_round_trip(model.fit(X, y), X, path)

    def test_searches(self, path):
        grid = [
            {"rankrls__kernel": [RBF(1.0), "linear"], "rankrls__alpha": [1.0, 2.0]},
            {"rankrls__alpha": [3.0]},
        ]
        pipeline = make_pipeline(StandardScaler(), RankRLS())
        model = RankingSearchCV(pipeline, grid, cv=GroupKFold(3)).fit(X, y, qid=qid)
        same = check_round_trip(model, X, path)
        assert str(same.best_params_) == str(model.best_params_)
        assert str(same.cv_results_["params"]) == str(model.cv_results_["params"])
        close(same.cv_results_["mean_test_score"], model.cv_results_["mean_test_score"])

    def test_requests_for_metadata(self, path):
        with config_context(enable_metadata_routing=True):
            scaler = StandardScaler().set_fit_request(sample_weight=True)
            model = make_pipeline(scaler, RankRLS(1.0)).fit(X, y, sample_weight=np.arange(24.0))
            same = check_round_trip(model, X, path)
            refitted = clone(same).fit(X, y, sample_weight=np.arange(24.0))
        close(refitted.predict(X), model.predict(X))

    def test_sparse_matrices_in_a_part_are_checked(self, path):
        model = KNeighborsRegressor(algorithm="brute").fit(sp.csr_matrix(X), y)
        check_round_trip(model, X, path)
        model._fit_X.indices[:] = 2**30
        save_model(model, path)
        with pytest.raises(ModelFileError, match="cannot be read"):
            load_model(path)

    def test_a_ranker_alone_does_not_need_skops(self, saved, monkeypatch):
        monkeypatch.setitem(sys.modules, "skops.io", None)
        assert len(load_model(saved).predict(X)) == 24


def no_change(X):
    return X


def test_values_keep_their_type(path):
    values = [
        None, True, 3, -(10**30), 0.1, -0.0, 5e-324, float("inf"), "text\ud800", b"\x00\xff",
        [1, [2.5]], (1, ("a",)), frozenset([1]), {"a": 1, "b": (None,)},
        np.array([["a", None], [[1, 2], RBF(2.0)]], dtype=object),
        np.ma.array([1.0, 2.0], mask=[True, False]),
        *(np.zeros((3, 2), dtype) for dtype in ("f8", ">f4", "i2", "?", "U3", "S2", "M8[D]")),
    ]  # fmt: skip
    model = RankSVM().fit(X, y)
    model.values, model.fortran, model.twice = values, np.asfortranarray(X), [X, X.copy()]
    model.generator = np.random.default_rng(0)
    same = check_round_trip(model, X, path)
    assert [type(value) for value in same.values] == [type(value) for value in values]
    assert repr(same.values) == repr(values)
    assert same.fortran.flags.f_contiguous
    assert same.generator.normal() == model.generator.normal()
    arrays = [name for name in zipfile.ZipFile(path).namelist() if name.endswith(".npy")]
    assert len(arrays) == 13  # equal arrays are stored once


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_parameters_that_are_data_frames_become_arrays(path, library):
    frame = pytest.importorskip(library).DataFrame(np.eye(3) + X[:3])
    same = check_round_trip(SparseRankRLS(landmarks=frame, scale=None).fit(X, y), X, path)
    assert_array_equal(same.landmarks, np.eye(3) + X[:3])
    stream = SparseBilinearRanker(alpha=0.1, eta0=0.1, schedule="invsqrt", refit=False, init=frame)
    clone(stream).partial_fit(X, X, [[0, 1, 2]])
    stream.partial_fit(X, X, [[0, 1, 2]])
    assert stream.init is frame
    same = load_model(save_model(stream, path))
    assert_array_equal(same.init, np.eye(3) + X[:3])
    for one in (stream, same):
        one.partial_fit(X, X, [[3, 4, 5]])
    close(same.predict(X, X), stream.predict(X, X))


@dataclass
class Basis:
    n: int


class Mine(RankRLS):
    pass


class TestRefusedOnSaving:
    @pytest.mark.parametrize(
        ("ranker", "attributes", "message"),
        [
            (
                RankRLS(kernel=lambda a, b: float(a @ b), scale=None),
                {},
                "is a function.*kernels by name",
            ),
            (Mine(), {}, "is a Mine, .* a stable name in rankwise.rankers.RANKERS"),
            (RankRLS(), {"basis": Basis(3)}, "basis of RankRLS is a Basis, .*VALUE_OBJECTS"),
            (RankRLS(), {"_mine": 1}, "RankRLS has an attribute _mine"),
            (RankRLS(), {"note": np.float32}, "note of RankRLS is a type, .*cannot be saved"),
            (RankRLS(), {"note": sp.coo_array(X[:, 0])}, "is a coo_array"),
            (RankRLS(), {"note": np.zeros(2, "f8,i4")}, "is an array of dtype"),
            (RankRLS(), {"note": {(1, 2): 3}}, "is a dict"),
            (make_pipeline(FunctionTransformer(no_change), RLS()), {}, "holds .*no_change"),
        ],
    )
    def test_what_cannot_be_saved_leaves_the_old_file(self, path, ranker, attributes, message):
        path.write_text("what was there")
        model = ranker.fit(X, y)
        vars(model).update(attributes)
        with pytest.raises(ModelFileError, match=message):
            save_model(model, path)
        assert [p.name for p in path.parent.iterdir()] == [path.name]
        assert path.read_text() == "what was there"

    def test_only_a_fitted_ranker_can_be_saved(self, path):
        for model in (3, RankRLS):
            with pytest.raises(ModelFileError, match="Only a fitted ranker"):
                save_model(model, path)
        with pytest.raises(NotFittedError):
            save_model(RankRLS(), path)
        assert not list(path.parent.iterdir())


def test_the_version_is_recorded(path):
    assert open_model(save_model(RankRLS().fit(X, y, qid=qid), path)).version == __version__


TABLE = {
    "qid": "search", "label": "outcome", "id": "doc", "grades": {"none": 0, "booked": 2.5},
    "separator": ";", "decimal": ",", "thousands": ".",
}  # fmt: skip


def test_how_a_table_was_read(path):
    ranker = RankRLS().fit(X, y, qid=qid)
    assert open_model(save_model(ranker, path)).table == {}
    assert b'"table"' not in zipfile.ZipFile(path).read("model.json")
    assert open_model(save_model(ranker, path, table=TABLE)).table == TABLE
    assert load_model(path).alpha == ranker.alpha
    some = {"label": "outcome", "separator": ",", "thousands": ","}
    assert open_model(save_model(ranker, path, table=some)).table == some


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (None, "table must be a dictionary of qid, label, id, separator, decimal, thousands and"),
        ([], "table must be a dictionary"),
        ("label", "table must be a dictionary"),
        ({"colour": "red"}, "table must be a dictionary"),
        ({"features": ["price"]}, "table must be a dictionary"),
        ({"label": 3}, "label of table must be text: got 3"),
        ({"qid": ["a"]}, "qid of table must be text"),
        ({"id": None}, "id of table must be text"),
        ({"label": "a", "id": "a"}, "must be different columns"),
        ({"separator": ";", "decimal": ",,"}, "must be a single character"),
        ({"separator": ",", "decimal": ""}, "must be a single character"),
        ({"separator": ";", "thousands": "5"}, "no letter or digit"),
        ({"separator": ";", "thousands": "."}, "must differ"),
        ({"separator": ";", "decimal": ",", "thousands": ","}, "must differ"),
        ({"decimal": ","}, "separator of table .* is needed with decimal or thousands"),
        ({"separator": ";;"}, "separator of table must be a single character"),
        ({"grades": [1]}, "grades of table must be a finite number for each word"),
        ({"grades": {"none": "0"}}, "grades of table must be a finite"),
        ({"grades": {"none": True}}, "grades of table must be a finite"),
        ({"grades": {"none": float("nan")}}, "grades of table must be a finite"),
        ({"grades": {"none": 10**400}}, "grades of table must be a finite"),
    ],
)
def test_tables_that_cannot_be_read_so(saved, table, message):
    change_tree(saved, "table", table)
    with pytest.raises(ModelFileError, match=message):
        open_model(saved)
    if isinstance(table, dict):
        ranker = RankRLS().fit(X, y, qid=qid)
        content = saved.read_bytes()
        with pytest.raises(RankwiseError, match=message):
            save_model(ranker, saved, table=table)
        assert saved.read_bytes() == content


class TestRefusedOnLoading:
    def test_files_of_other_kinds(self, path):
        with pytest.raises(FileNotFoundError):
            load_model(path)
        for content in (b"", b"text", pickle.dumps([1, 2]), b"PK\5\6" + 18 * b"\0"):
            path.write_bytes(content)
            with pytest.raises(ModelFileError, match="cannot be read as a model file of rankwise"):
                load_model(path)

    @pytest.mark.parametrize(
        ("where", "value", "message"),
        [
            ("format", 99, r"has format 99 of rankwise \d"),
            ("format", "1", "has format '1'"),
            ("model", {"ranker": {"name": "svmrank"}}, "this version has no ranker 'svmrank'"),
            ("model", {"ranker": {"name": "rankrls"}}, "missing 'parameters'"),
            ("model", {"object": {"name": "moment"}}, "this version has no object 'moment'"),
            ("model", {"object": {"name": "moments", "fields": {"Z": 1}}}, "unexpected .* 'Z'"),
            ("model", {"array": "../etc/passwd"}, "no item named '../etc/passwd'"),
            ("model", {"pickle": "gASV"}, "has a 'pickle', which this version does not know"),
            ("model", {"tuple": [], "list": []}, "cannot be read"),
            ("model", {"dict": {}}, "holds a dict, not a ranker"),
            ("model/ranker/parameters/colour", "red", "unexpected keyword argument 'colour'"),
            ("model/ranker/fitted/predict", 1, "sets 'predict', which is not a fitted attribute"),
            ("model/ranker/fitted/__class__", 1, "sets '__class__', which"),
            ("model/ranker/fitted/alpha", 1, "sets 'alpha', which"),
            ("model/ranker/fitted/n_features_in_", "3", "n_features_in_ of rankrls must be"),
            ("model/ranker/fitted/n_features_in_", 4, "X of kernel-basis has 3 features, where 4"),
            ("model/ranker/fitted/solution_", "text", "no attribute"),
        ],
    )
    def test_values_that_cannot_be(self, saved, where, value, message):
        change_tree(saved, where, value)
        with pytest.raises(ModelFileError, match=message):
            load_model(saved)

    def test_damaged_trees_and_compressed_members(self, saved):
        rewrite(saved, {"more": b"0" * 10**6}, compression=zipfile.ZIP_DEFLATED)
        with pytest.raises(ModelFileError, match="compressed members"):
            load_model(saved)
        for tree in ("{", "[]", "3", "{}"):
            rewrite(saved, {"model.json": tree})
            with pytest.raises(ModelFileError, match="cannot be read"):
                load_model(saved)

    def test_compressed_members_of_a_part(self, path):
        save_model(make_pipeline(StandardScaler(), RankRLS()).fit(X, y), path)
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".skops"))
            part, compressed = io.BytesIO(archive.read(name)), io.BytesIO()
        with (
            zipfile.ZipFile(part) as members,
            zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as copies,
        ):
            for inner in members.namelist():
                copies.writestr(inner, members.read(inner))
        rewrite(path, {name: compressed.getvalue()})
        with pytest.raises(ModelFileError, match="compressed members"):
            load_model(path)

    def test_members_that_are_larger_than_the_file(self, saved):
        content = bytearray(saved.read_bytes())
        entry = content.rfind(b"PK\1\2")  # the last one of the directory
        content[entry + 24 : entry + 28] = (2**30).to_bytes(4, "little")
        saved.write_bytes(content)
        with pytest.raises(ModelFileError, match="members are larger than the file"):
            load_model(saved)

    def test_arrays_that_are_needed_too_often(self, saved, path):
        with zipfile.ZipFile(saved) as archive:
            tree = json.loads(archive.read("model.json"))
            name = next(name for name in archive.namelist() if name.endswith(".npy"))
        tree["model"]["ranker"]["fitted"]["more_"] = [{"array": name}] * 20_000
        large = io.BytesIO()
        np.save(large, np.zeros(10**5))
        rewrite(saved, {name: large.getvalue(), "model.json": json.dumps(tree)})
        with pytest.raises(ModelFileError, match="more than 256 times as large"):
            load_model(saved)

        save_model(make_pipeline(StandardScaler(), RankRLS()).fit(X, y), path)
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".skops"))
            part, twice = io.BytesIO(archive.read(name)), io.BytesIO()
        with zipfile.ZipFile(part) as members, zipfile.ZipFile(twice, "w") as copies:
            schema = json.loads(members.read("schema.json"))
            schema["more"] = [{"file": "large.npy"}] * 1000
            copies.writestr("schema.json", json.dumps(schema))
            copies.writestr("large.npy", large.getvalue())
        rewrite(path, {name: twice.getvalue()})
        with pytest.raises(ModelFileError, match="more than 16 times as large"):
            load_model(path)

    def test_arrays_that_are_not_what_they_declare(self, saved):
        objects = io.BytesIO()
        np.save(objects, np.array([None]), allow_pickle=True)
        header = "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,), }".ljust(118)
        large = b"\x93NUMPY\x01\x00v\x00" + header.encode()
        name = next(n for n in zipfile.ZipFile(saved).namelist() if n.endswith(".npy"))
        for content in (objects.getvalue(), large, b""):
            rewrite(saved, {name: content})
            with pytest.raises(ModelFileError, match="cannot be read"):
                load_model(saved)

    def test_damage_at_any_byte_is_refused_or_harmless(self, saved):
        content, scores = saved.read_bytes(), load_model(saved).predict(X)
        for at in range(0, len(content), len(content) // 60):
            saved.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
            try:
                same = load_model(saved)
            except ModelFileError:
                continue
            close(same.predict(X), scores)  # a byte without meaning
        saved.write_bytes(content[: len(content) // 2])
        with pytest.raises(ModelFileError):
            load_model(saved)


def change_tree(path, where, value):
    """Set a value in the JSON document of a model file."""
    tree = json.loads(zipfile.ZipFile(path).read("model.json"))
    *outer, name = where.split("/")
    reduce(dict.__getitem__, outer, tree)[name] = value
    rewrite(path, {"model.json": json.dumps(tree)})


def test_a_parameter_that_the_file_does_not_have_gets_its_default(saved):
    change_tree(saved, "model/ranker/parameters", {"kernel": "rbf"})
    assert load_model(saved).degree == RankRLS().degree


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ranker: ranker["fitted"].clear(), "not fitted"),
        (lambda ranker: ranker["fitted"].update(n_queries_="zzz"), "n_queries_ of rankrls must be"),
        (lambda ranker: ranker["fitted"].update(n_features_in_=None), "n_features_in_ of rankrls"),
        (lambda ranker: ranker["parameters"].update(alpha=-5), "alpha must be"),
    ],
)
def test_edited_documents_are_refused(tmp_path, change, words):
    path = save_model(RankRLS().fit([[0.0], [1.0], [2.0]], [0, 1, 2]), tmp_path / "a.rankwise")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    tree = json.loads(members["model.json"])
    change(tree["model"]["ranker"])
    members["model.json"] = json.dumps(tree).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ModelFileError, match=words):
        load_model(path)


@pytest.mark.parametrize("name", ["n_queries_", "max_query_rows_", "n_features_in_"])
def test_a_file_without_an_attribute_that_scores_need(path, name):
    """It is refused when it is read, and not when it is used."""
    save_model(RankRLS(scale="query-minmax").fit(X, y, qid=qid), path)
    with zipfile.ZipFile(path) as archive:
        tree = json.loads(archive.read("model.json"))
    del tree["model"]["ranker"]["fitted"][name]
    rewrite(path, {"model.json": json.dumps(tree)})
    with pytest.raises(ModelFileError, match="its RankRLS cannot score rows"):
        load_model(path)


def test_arrays_in_each_others_places(path):
    save_model(SparseRankRLS(n_landmarks=5, random_state=0, scale="standard").fit(X, y), path)
    with zipfile.ZipFile(path) as archive:
        text = archive.read("model.json").decode()
        names = [name for name in archive.namelist() if name.endswith(".npy")]
    for first, second in itertools.combinations(names, 2):
        swapped = text.replace(first, "?").replace(second, first).replace("?", second)
        rewrite(path, {"model.json": swapped})
        try:
            model = load_model(path)
        except ModelFileError:
            continue
        assert np.isfinite(model.predict(X)).all()  # arrays of the same kind and shape


def test_a_step_of_a_pipeline_that_is_not_fitted(path):
    sparse = sp.csr_array(X)
    save_model(make_pipeline(SeenFeatures(), RankRLS(scale=None)).fit(sparse, y), path)
    with zipfile.ZipFile(path) as archive:
        tree = json.loads(archive.read("model.json"))
    (seen, _) = tree["model"]["scikit-learn"]["values"]
    seen["ranker"]["fitted"].clear()
    rewrite(path, {"model.json": json.dumps(tree)})
    with pytest.raises(ModelFileError, match="its SeenFeatures is not fitted"):
        load_model(path)
    seen, ranker = tree["model"]["scikit-learn"]["values"]
    tree["model"]["scikit-learn"]["values"] = [ranker["ranker"]["fitted"]["basis_"], ranker]
    rewrite(path, {"model.json": json.dumps(tree)})
    with pytest.raises(ModelFileError, match="its FeatureBasis is not a transformer"):
        load_model(path)


@pytest.mark.parametrize("named", [False, True])
def test_a_number_of_features_that_other_parts_contradict(path, named):
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame(X, columns=["a", "b", "c"]) if named else X
    steps = [StandardScaler(), SeenFeatures(), RankRLS(scale=None)]
    model = make_pipeline(*steps).fit(rows, y)
    close(load_model(save_model(model, path)).predict(rows), model.predict(rows))
    scaler = "4 features, but it has 3 names" if named else "3 features, but .* before it gives 4"
    for k, words in [(0, scaler), (1, "takes 4 features, but the step before it gives 3")]:
        model = make_pipeline(*map(clone, steps)).fit(X if k else rows, y)
        model[k].n_features_in_ = 4
        save_model(model, path)
        with pytest.raises(ModelFileError, match=words):
            load_model(path)


def test_a_pipeline_whose_transformer_has_no_names(path):
    model = make_pipeline(FeatureUnion([("scale", StandardScaler())]), RankRLS()).fit(X, y)
    check_round_trip(model, X, path)


def test_too_many_workers_of_a_part(path):
    model = make_pipeline(FeatureUnion([("scale", StandardScaler())]), RankRLS()).fit(X, y)
    model[0].n_jobs = 256
    assert load_model(save_model(model, path))[0].n_jobs == 256
    model[0].n_jobs = 2**31
    save_model(model, path)
    with pytest.raises(ModelFileError, match="n_jobs of FeatureUnion must be an integer from"):
        load_model(path)


def test_ids_that_cannot_be_saved_are_named(tmp_path):
    ids = [Decimal(1), Decimal(2), Decimal(3)]
    first, second = zip(*([(a, b) for a in ids for b in ids if a != b] * 4), strict=True)
    board = Leaderboard().fit(first, second, [1, 0] * 12)
    with pytest.raises(ModelFileError, match="Ids can be saved if they are text or integers"):
        save_model(board, tmp_path / "board.rankwise")
