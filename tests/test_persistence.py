"""Model files: what comes back, what is refused, and that none is ever half-written."""

import io
import json
import pickle
import sys
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from rankwise import (
    KPCR,
    RLS,
    KPCRank,
    PairwiseGP,
    RankingSearchCV,
    RankRLS,
    RankSVM,
    SparseRankRLS,
    SparseRLS,
    load_model,
    save_model,
)
from rankwise.errors import ModelFileError, RankwiseWarning
from rankwise.persistence import open_model
from rankwise.persistence.archive import ArchiveReader, ArchiveWriter
from rankwise.persistence.stable_names import VALUE_OBJECTS, has_type
from rankwise.persistence.values import decode, encode

KERNELS = ("linear", "rbf", "laplacian", "polynomial", "poly", "sigmoid", "cosine", RBF(2.0))


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(24, 3)))
    return X, rng.integers(0, 3, 24).astype(float), np.repeat(["a", "b", "c"], 8)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.rankwise"


@pytest.fixture
def saved(rows, path):
    X, y, qid = rows
    return save_model(RankRLS(kernel="rbf").fit(sp.csr_array(X), y, qid=qid), path)


def close(first, second):
    """The same to rounding: a loaded array may be aligned differently in memory."""
    assert_allclose(first, second, rtol=1e-12, atol=1e-12)


def check_round_trip(model, X, path):
    assert save_model(model, path) == path
    same = load_model(path)
    assert type(same) is type(model)
    close(same.predict(X), model.predict(X))
    return same


class TestRankers:
    @pytest.mark.filterwarnings("ignore:The kernel is not positive")
    @pytest.mark.parametrize("kernel", KERNELS, ids=str)
    def test_every_kernel(self, rows, path, kernel):
        X, y, qid = rows
        model = RankRLS(100.0, kernel=kernel).fit(X, y, qid=qid)
        same = check_round_trip(model, X, path)
        assert str(same.get_params()) == str(model.get_params())

    @pytest.mark.parametrize("ranker", [RankRLS, RLS, SparseRankRLS, SparseRLS])
    @pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csr_matrix])
    def test_dense_and_sparse_rows(self, rows, path, ranker, container):
        X, y, qid = rows
        check_round_trip(ranker(kernel="rbf").fit(container(X), y, qid=qid), container(X), path)

    @pytest.mark.parametrize("ranker", [SparseRankRLS, SparseRLS])
    def test_partial_fit_continues_after_loading(self, rows, path, ranker):
        X, y, qid = rows
        half = ranker(landmarks=[0, 1, 2]).partial_fit(X[:16], y[:16], qid=qid[:16])
        same = check_round_trip(half, X, path)
        same.partial_fit(X[16:], y[16:], qid=qid[16:])
        half.partial_fit(X[16:], y[16:], qid=qid[16:])
        close(same.predict(X), half.predict(X))

    @pytest.mark.parametrize(
        "ranker",
        [
            KPCRank(rule="best"),
            KPCRank(4, alpha=0.1, selection="spectral"),
            KPCRank(3, n_landmarks=8, random_state=0),
            KPCR(0.8),
        ],
        ids=str,
    )
    def test_rankers_on_components(self, rows, path, ranker):
        X, y, qid = rows
        model = ranker.fit(X, y, qid=qid)
        same = check_round_trip(model, X, path)
        close(same.predict_path(X), model.predict_path(X))
        close(same.transform(X), model.transform(X))
        if ranker.n_components == "cv":
            assert str(same.component_errors_) == str(model.component_errors_)

    def test_precomputed_kernels(self, rows, path):
        X, y, qid = rows
        check_round_trip(RankRLS(kernel="precomputed").fit(X @ X.T, y, qid=qid), X @ X.T, path)

    @pytest.mark.parametrize(
        "settings",
        [
            {"likelihood": "gaussian"},
            {"marginalize": "grid", "tie_model": "threshold"},
            {"n_landmarks": 4, "random_state": 0},
            {"kernel": ConstantKernel(2.0) * Matern(nu=1.5) + WhiteKernel(), "optimizer": None},
        ],
        ids=str,
    )
    def test_gaussian_processes_accept_comparisons_after_loading(self, rows, path, settings):
        X, y = rows[0][:8], rows[1][:8]
        model = PairwiseGP(**settings).fit(X, y)
        same = check_round_trip(model, X, path)
        close(same.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1])
        close(same.log_marginal_likelihood(), model.log_marginal_likelihood())
        assert_allclose(same.tell([0, 1]).predict(X), model.tell([0, 1]).predict(X), atol=1e-6)

    def test_several_outputs_and_one_alpha_of_a_path(self, rows, path):
        X, y, qid = rows
        check_round_trip(RankRLS(kernel="rbf").fit(X, np.column_stack([y, -y]), qid=qid), X, path)
        chosen = RankRLS().path(X, y, [0.1, 1.0], qid=qid).estimator(1)
        assert check_round_trip(chosen, X, path).alpha == 1.0

    def test_pandas_feature_names(self, rows, path):
        pandas = pytest.importorskip("pandas")
        X, y, qid = rows
        frame = pandas.DataFrame(X, columns=["bm25", "pagerank", "clicks"])
        same = check_round_trip(RankSVM().fit(frame, y, qid=qid), frame, path)
        assert list(same.feature_names_in_) == ["bm25", "pagerank", "clicks"]

    def test_a_loaded_ranker_can_be_fitted_again(self, rows, saved):
        X, y, _ = rows
        same = load_model(saved).fit(X[:9], y[:9])
        assert same.X_fit_.shape == (9, 3)

    def test_metadata_requests(self, rows, path):
        X, y, qid = rows
        with config_context(enable_metadata_routing=True):
            model = RankRLS().set_fit_request(qid="query").fit(X, y, qid=qid)
            same = check_round_trip(model, X, path)
            assert same.get_metadata_routing().fit.requests == {"qid": "query"}

    def test_attributes_of_the_user_and_output_settings(self, rows, path):
        X, y, qid = rows
        model = KPCRank(2).set_output(transform="pandas").fit(X, y, qid=qid)
        model.note = "of Tuesday"
        same = check_round_trip(model, X, path)
        assert same.note == "of Tuesday"
        assert list(same.transform(X).columns) == list(model.transform(X).columns)


class TestScikitLearn:
    @pytest.mark.parametrize(
        "model",
        [
            make_pipeline(StandardScaler(), RankRLS(kernel=RBF(2.0))),
            make_pipeline(make_pipeline(StandardScaler(), FunctionTransformer(np.tanh)), RLS()),
            make_pipeline(FeatureUnion([("s", StandardScaler()), ("k", KPCRank(2))]), RankRLS()),
            BaggingRegressor(RankRLS(), n_estimators=2, random_state=0),
            GridSearchCV(RankRLS(), {"alpha": [1.0, 2.0]}, cv=2),
        ],
        ids=lambda model: type(model).__name__,
    )
    def test_pipelines_and_other_estimators_around_rankers(self, rows, path, model):
        X, y, _ = rows
        check_round_trip(model.fit(X, y), X, path)

    @pytest.mark.parametrize("cv", [2, GroupKFold(3)])
    def test_searches(self, rows, path, cv):
        X, y, qid = rows
        grid = [{"kernel": [RBF(1.0), "linear"], "alpha": [1.0, 2.0]}, {"alpha": [3.0]}]
        model = RankingSearchCV(make_pipeline(StandardScaler(), RankRLS()), param_grid=[
            {f"rankrls__{name}": values for name, values in part.items()} for part in grid
        ], cv=cv).fit(X, y, qid=qid)  # fmt: skip
        same = check_round_trip(model, X, path)
        assert str(same.best_params_) == str(model.best_params_)
        assert same.cv_results_.keys() == model.cv_results_.keys()
        close(same.cv_results_["mean_test_score"], model.cv_results_["mean_test_score"])

    def test_sparse_matrices_in_a_part_are_checked(self, rows, path):
        from sklearn.neighbors import KNeighborsRegressor

        X, y, _ = rows
        model = KNeighborsRegressor(algorithm="brute").fit(sp.csr_matrix(X), y)
        check_round_trip(model, X, path)
        model._fit_X.indices[:] = 2**30
        save_model(model, path)
        with pytest.raises(ModelFileError, match="damaged"):
            load_model(path)

    def test_types_of_others_are_refused(self, rows, path):
        X, y, _ = rows
        model = make_pipeline(FunctionTransformer(no_change), RankRLS()).fit(X, y)
        with pytest.raises(ModelFileError, match=r"The model holds .*no_change"):
            save_model(model, path)


def no_change(X):
    return X


def test_a_ranker_alone_does_not_need_skops(rows, saved, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    assert len(load_model(saved).predict(rows[0])) == 24


class TestValues:
    """One value through encode and decode."""

    @pytest.fixture
    def back(self, tmp_path):
        def back(value):
            path = tmp_path / "values.zip"
            with zipfile.ZipFile(path, "w") as archive:
                node = encode(value, ArchiveWriter(archive), "value")
            with zipfile.ZipFile(path) as archive:
                return decode(json.loads(json.dumps(node)), ArchiveReader(archive, path))

        return back

    @pytest.mark.parametrize(
        "value",
        [
            None, True, 3, -(10**30), 0.1, -0.0, 5e-324, float("inf"), "text\ud800", b"\x00\xff",
            [1, [2.5]], (1, ("a",)), {1, "a"}, frozenset([1]), {"a": 1, 2: (None,), (1, 2): []},
            np.float32(0.1), np.int8(-3), np.bool_(True), np.float64("inf"), np.str_("text"),
        ],
    )  # fmt: skip
    def test_plain_values_keep_their_type(self, back, value):
        same = back(value)
        assert type(same) is type(value)
        assert same == value
        assert isinstance(value, (set, frozenset)) or repr(same) == repr(value)

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_arrays_keep_dtype_and_memory_order(self, back, order):
        for dtype in ("f8", ">f4", "i2", "?", "U3", "S2", "M8[D]"):
            array = np.zeros((3, 2), dtype, order=order)
            same = back(array)
            assert_array_equal(same, array)
            assert same.dtype == array.dtype
            assert same.flags.f_contiguous == array.flags.f_contiguous
            assert same.flags.writeable

    def test_arrays_of_objects_and_masked_arrays(self, back):
        array = np.array([["a", None], [[1, 2], RBF(2.0)]], dtype=object)
        assert repr(back(array)) == repr(array)
        masked = np.ma.array([1.0, 2.0], mask=[True, False])
        assert repr(back(masked)) == repr(masked)

    def test_an_array_in_two_places_stays_one_array(self, back):
        array = np.arange(3.0)
        first, second = back([array, array])
        assert first is second

    @pytest.mark.parametrize("kind", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
    def test_random_generators_continue(self, back, kind):
        rng = np.random.Generator(getattr(np.random, kind)(0))
        rng.normal(size=3)
        assert back(rng).normal() == rng.normal()
        state = np.random.RandomState(0)
        assert back(state).uniform() == state.uniform()

    def test_a_random_generator_out_of_range_is_refused(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "values.zip", "w") as archive:
            node = encode(np.random.RandomState(0), ArchiveWriter(archive), "value")
        node = json.loads(json.dumps(node).replace("624", "99999999"))
        with zipfile.ZipFile(tmp_path / "values.zip") as archive:
            reader = ArchiveReader(archive, tmp_path / "values.zip")
            with pytest.raises(ModelFileError, match="position of a random generator"):
                decode(node, reader)

    @pytest.mark.parametrize(
        "value",
        [
            print,
            np.float32,
            object(),
            np.complex128(1j),
            np.zeros(2, "f8,i4"),
            sp.csc_array(np.eye(2)),
            [lambda x: x],
        ],
    )
    def test_what_cannot_be_read_back_is_refused(self, back, value):
        with pytest.raises(ModelFileError, match=r"value is an? .* cannot hold"):
            back(value)


def test_types_of_value_objects_can_be_checked():
    from importlib import import_module
    from typing import get_type_hints

    for place in VALUE_OBJECTS.values():
        module, _, name = place.rpartition(".")
        assert get_type_hints(getattr(import_module(module), name)) is not None
    assert has_type(np.zeros(2), np.ndarray)
    assert has_type([1, 2], list[int])
    assert not has_type([1, "a"], list[int])
    assert has_type(1, float)
    assert not has_type(True, float)
    assert not has_type("1", int | None)


class TestNormalization:
    def test_load_model_reminds_of_it(self, rows, path):
        X, y, qid = rows
        save_model(RankRLS().fit(X, y, qid=qid), path, normalized_per_query=True)
        with pytest.warns(RankwiseWarning, match="normalize_per_query"):
            load_model(path)
        file = open_model(path)
        assert file.normalized_per_query
        assert file.version
        assert isinstance(file.model, RankRLS)


class TestRefusedOnSaving:
    def test_a_function_as_kernel_leaves_the_old_file(self, rows, path):
        X, y, qid = rows
        path.write_text("what was there")
        model = RankRLS(kernel=lambda a, b: float(a @ b)).fit(X, y, qid=qid)
        with pytest.raises(ModelFileError, match=r"kernel of RankRLS is a function.*saved by name"):
            save_model(model, path)
        assert [p.name for p in path.parent.iterdir()] == [path.name]
        assert path.read_text() == "what was there"

    def test_a_subclass(self, path):
        class Mine(RankRLS):
            pass

        with pytest.raises(ModelFileError, match="The model is a Mine, which"):
            save_model(Mine().fit([[0.0], [1.0]], [0, 1]), path)
        assert list(path.parent.iterdir()) == []

    def test_a_private_attribute_that_is_not_in_the_table(self, path):
        model = RankRLS().fit([[0.0], [1.0]], [0, 1])
        model._mine = 1
        with pytest.raises(ModelFileError, match="RankRLS has an attribute _mine"):
            save_model(model, path)

    def test_what_contains_itself(self, path):
        model = RankRLS().fit([[0.0], [1.0]], [0, 1])
        model.note = []
        model.note.append(model.note)
        with pytest.raises(ModelFileError, match="A RankRLS cannot be written"):
            save_model(model, path)

    @pytest.mark.parametrize("model", [3, RankRLS])
    def test_only_a_fitted_ranker_can_be_saved(self, model, path):
        with pytest.raises(ModelFileError, match="Only a fitted ranker"):
            save_model(model, path)
        with pytest.raises(NotFittedError):
            save_model(RankRLS(), path)
        assert not list(path.parent.iterdir())


class TestRefusedOnLoading:
    def test_no_such_file_and_a_folder(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="There is no model file"):
            load_model(tmp_path / "none.rankwise")
        with pytest.raises(ModelFileError, match="is not a model file"):
            load_model(tmp_path)

    @pytest.mark.parametrize("content", [b"", b"text", pickle.dumps([1, 2]), b"\x1f\x8b\x08\0"])
    def test_files_that_are_not_archives(self, path, content):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match="is not a model file of rankwise"):
            load_model(path)

    def test_an_archive_of_something_else(self, path):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("letter.txt", "Dear all")
        with pytest.raises(ModelFileError, match="is not a model file of rankwise"):
            load_model(path)

    def test_a_later_format(self, saved):
        change_tree(saved, lambda tree: tree.update(format=99, rankwise="9.0"))
        with pytest.raises(ModelFileError, match=r"written by rankwise 9\.0 in format 99"):
            load_model(saved)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"ranker": {"name": "svmrank"}}, "holds a ranker 'svmrank', which this version"),
            ({"ranker": {"name": "rankrls"}}, "no 'parameters'"),
            ({"object": {"name": "moment", "fields": {}}}, "an object 'moment', which this"),
            ({"object": {"name": "moments", "fields": {}}}, "moments has no A"),
            ({"object": {"name": "moments", "fields": {"A": 1}}}, "the A of moments is a int"),
            ({"object": {"name": "moments", "fields": {"Z": 1}}}, "unknown field 'Z'"),
            ({"kernel": {"name": "eval", "parameters": {}}}, "a kernel 'eval'"),
            ({"kernel": {"name": "RBF", "parameters": {"length_scale": "1"}}}, "is a str"),
            ({"array": "../etc/passwd"}, "no member '../etc/passwd'"),
            ({"array": 3}, "no member 3"),
            ({"generator": {"dict": [["bit_generator", "os"], ["state", {"dict": []}]]}}, "'os'"),
            ({"pickle": "gASVAAAA"}, "has a 'pickle', which this version does not know"),
            ({"tuple": [], "list": []}, "not in this format"),
            ({"dict": []}, "holds a dict, not a ranker"),
            ("text", "holds a str, not a ranker"),
        ],
    )
    def test_unknown_names_and_values(self, saved, change, message):
        change_tree(saved, lambda tree: tree.update(model=change))
        with pytest.raises(ModelFileError, match=message):
            load_model(saved)

    @pytest.mark.parametrize(
        ("part", "name", "value", "message"),
        [
            ("parameters", "colour", "red", "a parameter 'colour', which RankRLS has not"),
            ("fitted", "predict", 1, "sets 'predict', which is not a fitted attribute"),
            ("fitted", "__class__", 1, "sets '__class__', which"),
            ("fitted", "alpha", 1, "sets 'alpha', which"),
            ("fitted", "n_features_in_", "3", "the n_features_in_ of rankrls is a str"),
            ("fitted", "n_features_in_", 4, "basis_.X of rankrls has 3 features, where 4 are"),
            ("fitted", "dual_coef_", [1.0], "has 1 rows, where 24 are needed"),
            ("fitted", "dual_coef_", "text", "dual_coef_ of rankrls is not valid: it is a str"),
        ],
    )
    def test_attributes_that_do_not_fit(self, saved, part, name, value, message):
        change_tree(saved, lambda tree: tree["model"]["ranker"][part].update({name: value}))
        with pytest.raises(ModelFileError, match=message):
            load_model(saved)

    def test_a_parameter_of_a_later_version_has_its_default_in_older_files(self, saved):
        change_tree(saved, lambda tree: tree["model"]["ranker"]["parameters"].pop("degree"))
        assert load_model(saved).degree == RankRLS().degree

    @pytest.mark.parametrize("tree", ["{", "[]", "3", "{}", '{"format": 0}', '{"format": "1"}'])
    def test_a_damaged_tree(self, saved, tree):
        rewrite(saved, {"model.json": tree})
        with pytest.raises(ModelFileError, match="is damaged"):
            load_model(saved)

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            (np.array([None]), "dtype object"),
            (np.zeros(2, "V8"), "dtype"),
            (b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': "
             b"(99999999999,), }".ljust(128), "declares the shape"),
            (b"pickle", "damaged"),
        ],
    )  # fmt: skip
    def test_arrays_that_are_not_what_they_declare(self, saved, array, message):
        if isinstance(array, np.ndarray):
            member = io.BytesIO()
            np.save(member, array, allow_pickle=True)
            array = member.getvalue()
        rewrite(saved, {"arrays/0.npy": array})
        with pytest.raises(ModelFileError, match=message):
            load_model(saved)

    def test_compressed_members(self, saved):
        rewrite(saved, {"more": b"0" * 10**6}, compression=zipfile.ZIP_DEFLATED)
        with pytest.raises(ModelFileError, match="compressed members"):
            load_model(saved)

    def test_damage_at_any_byte_is_refused_or_harmless(self, rows, saved):
        X, _, _ = rows
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


def rewrite(path, changes, **options):
    """Replace members of an archive."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in (members | changes).items():
            archive.writestr(name, content)


def change_tree(path, change):
    """Edit the JSON document of a model file."""
    with zipfile.ZipFile(path) as archive:
        tree = json.loads(archive.read("model.json"))
    change(tree)
    rewrite(path, {"model.json": json.dumps(tree)})
