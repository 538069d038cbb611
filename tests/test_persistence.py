"""Model files: what comes back, what is refused, and that none is ever half-written."""

import json
import os
import pickle
import stat
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from rankwise import (
    KPCR,
    RLS,
    KPCRank,
    PairwiseGP,
    RankRLS,
    RankSVM,
    SparseRankRLS,
    SparseRLS,
    load_model,
    save_model,
)
from rankwise.errors import ModelFileError, RankwiseWarning
from rankwise.files import replacing
from rankwise.persistence import NOTE, open_model

KERNELS = ("linear", "rbf", "laplacian", "polynomial", "poly", "sigmoid", "cosine")


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(24, 3)))
    return X, rng.integers(0, 3, 24).astype(float), np.repeat(["a", "b", "c"], 8)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


def check_round_trip(model, X, path):
    assert save_model(model, path) == path
    same = load_model(path)
    assert type(same) is type(model)
    assert_array_equal(same.predict(X), model.predict(X))
    return same


def test_ranksvm(rows, path):
    X, y, qid = rows
    same = check_round_trip(RankSVM(2.0).fit(X, y, qid=qid), X, path)
    assert same.alpha == 2.0


@pytest.mark.filterwarnings("ignore:The kernel is not positive")
@pytest.mark.parametrize("ranker", [RankRLS, RLS, SparseRankRLS, SparseRLS])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csr_matrix])
def test_every_kernel_on_dense_and_sparse_rows(rows, path, ranker, kernel, container):
    X, y, qid = rows
    model = ranker(100.0, kernel=kernel).fit(container(X), y, qid=qid)
    same = check_round_trip(model, X, path)
    assert same.get_params() == model.get_params()
    assert_array_equal(same.predict(container(X)), model.predict(container(X)))


@pytest.mark.parametrize("ranker", [SparseRankRLS, SparseRLS])
def test_sums_go_on_after_a_round_trip(rows, path, ranker):
    X, y, qid = rows
    half = ranker(landmarks=[0, 1, 2]).partial_fit(X[:16], y[:16], qid=qid[:16])
    same = check_round_trip(half, X, path)
    same.partial_fit(X[16:], y[16:], qid=qid[16:])
    half.partial_fit(X[16:], y[16:], qid=qid[16:])
    assert_array_equal(same.predict(X), half.predict(X))


@pytest.mark.parametrize(
    "ranker",
    [
        KPCRank(rule="best"),
        KPCRank(4, alpha=0.1, selection="spectral"),
        KPCRank(3, n_landmarks=8, random_state=0),
        KPCR(0.8),
    ],
)
def test_rankers_on_components(rows, path, ranker):
    X, y, qid = rows
    model = ranker.fit(X, y, qid=qid)
    same = check_round_trip(model, X, path)
    assert_array_equal(same.predict_path(X), model.predict_path(X))
    assert_array_equal(same.transform(X), model.transform(X))
    if ranker.n_components == "cv":
        assert str(same.component_errors_) == str(model.component_errors_)


def test_precomputed_kernels(rows, path):
    X, y, qid = rows
    check_round_trip(RankRLS(kernel="precomputed").fit(X @ X.T, y, qid=qid), X @ X.T, path)


@pytest.mark.parametrize(
    "kernel", [RBF(2.0), ConstantKernel(2.0) * Matern(nu=1.5) + WhiteKernel(), RBF([1.0, 2.0, 3.0])]
)
def test_gaussian_process_kernels(rows, path, kernel):
    X, y, qid = rows
    check_round_trip(RankRLS(kernel=kernel).fit(X, y, qid=qid), X, path)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"likelihood": "gaussian"},
        {"marginalize": "grid", "tie_model": "threshold"},
        {"n_landmarks": 4, "random_state": 0},
        {"kernel": ConstantKernel(2.0) * RBF(1.0) + WhiteKernel(), "optimizer": None},
    ],
    ids=str,
)
def test_gaussian_processes_with_what_they_know_and_can_be_told(rows, path, settings):
    X, y, qid = rows
    model = PairwiseGP(**settings).fit(X, y, qid=qid)
    same = check_round_trip(model, X, path)
    assert_array_equal(same.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1])
    assert_array_equal(same.tell([0, 1]).predict(X), model.tell([0, 1]).predict(X))
    assert same.log_marginal_likelihood() == model.log_marginal_likelihood()


@pytest.mark.parametrize(
    "steps",
    [
        (StandardScaler(), RankRLS()),
        (FunctionTransformer(np.log1p), RankRLS(kernel="rbf")),
        (make_pipeline(StandardScaler(), FunctionTransformer(np.tanh)), RLS()),
    ],
)
def test_pipelines(rows, path, steps):
    X, y, _ = rows
    check_round_trip(make_pipeline(*steps).fit(X, y), X, path)


def test_several_outputs_and_one_alpha_of_a_path(rows, path):
    X, y, qid = rows
    check_round_trip(RankRLS(kernel="rbf").fit(X, np.column_stack([y, -y]), qid=qid), X, path)
    chosen = RankRLS().fit_path(X, y, [0.1, 1.0], qid=qid).estimator(1)
    assert check_round_trip(chosen, X, path).alpha == 1.0


def test_pandas_feature_names_come_back(rows, path):
    pandas = pytest.importorskip("pandas")
    X, y, qid = rows
    frame = pandas.DataFrame(X, columns=["bm25", "pagerank", "clicks"])
    same = check_round_trip(RankRLS().fit(frame, y, qid=qid), frame, path)
    assert list(same.feature_names_in_) == ["bm25", "pagerank", "clicks"]


def test_a_fitted_ranker_can_be_fitted_again(rows, path):
    X, y, qid = rows
    same = check_round_trip(RankRLS(kernel="rbf").fit(sp.csr_array(X), y, qid=qid), X, path)
    same.fit(X[:9], y[:9])
    assert same.X_fit_.shape == (9, 3)


def test_the_file_remembers_normalization_and_load_model_reminds(rows, path):
    X, y, qid = rows
    save_model(RankRLS().fit(X, y, qid=qid), path, normalized_per_query=True)
    with pytest.warns(RankwiseWarning, match="normalize_per_query"):
        load_model(path)
    file = open_model(path)
    assert file.normalized_per_query
    assert file.version
    assert isinstance(file.model, RankRLS)


def test_a_file_of_skops_alone_is_read_as_well(rows, path):
    from skops.io import dump

    X, y, qid = rows
    dump(RankRLS().fit(X, y, qid=qid), path)
    file = open_model(path)
    assert not file.normalized_per_query
    assert file.version == ""


def test_a_function_as_kernel_is_refused_and_leaves_nothing(rows, path):
    X, y, qid = rows
    path.write_text("what was there")
    model = RankRLS(kernel=lambda a, b: float(a @ b)).fit(X, y, qid=qid)
    with pytest.raises(ModelFileError, match="saved by name"):
        save_model(model, path)
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert path.read_text() == "what was there"


def test_what_cannot_be_written_at_all(path):
    class Closed(RankRLS):
        def __getstate__(self):
            raise TypeError("this one stays here")

    model = Closed().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(
        ModelFileError, match="A Closed cannot be written to a model file: this one"
    ):
        save_model(model, path)
    assert list(path.parent.iterdir()) == []


def test_there_is_no_such_file_or_it_is_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no model file"):
        load_model(tmp_path / "none.skops")
    with pytest.raises(ModelFileError, match="is not a model file"):
        load_model(tmp_path)


@pytest.mark.parametrize("content", [b"", b"text", pickle.dumps([1, 2]), b"\x1f\x8b\x08\0"])
def test_what_is_no_archive(path, content):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="is not a model file of rankwise"):
        load_model(path)


def test_an_archive_of_something_else(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("letter.txt", "Dear all")
    with pytest.raises(ModelFileError, match="damaged or was not written by rankwise"):
        load_model(path)


class Stranger:
    """A type that nobody has vouched for."""

    def predict(self, X):
        return X


def test_types_that_are_not_ours(path):
    from skops.io import dump

    dump(Stranger(), path)
    with pytest.raises(ModelFileError, match=r"holds types that rankwise does not trust.*Stranger"):
        load_model(path)


def test_an_archive_that_holds_no_ranker(path):
    from skops.io import dump

    dump({"model": 1}, path)
    with pytest.raises(ModelFileError, match="holds a dict, which is no ranker"):
        load_model(path)


def test_a_file_from_the_future(rows, path):
    X, y, qid = rows
    save_model(RankRLS().fit(X, y, qid=qid), path)
    rewrite(path, {NOTE: json.dumps({"format": 99, "version": "9.0"})})
    with pytest.raises(ModelFileError, match=r"written by rankwise 9\.0"):
        load_model(path)


@pytest.mark.parametrize(
    "change", [{"schema.json": "{"}, {"schema.json": "[]"}, {NOTE: "{"}, {NOTE: "3"}, {NOTE: "{}"}]
)
def test_damage_inside_the_archive(rows, path, change):
    X, y, qid = rows
    save_model(RankRLS().fit(X, y, qid=qid), path)
    rewrite(path, change)
    with pytest.raises(ModelFileError, match="is damaged"):
        load_model(path)


def test_damage_at_any_byte_is_an_error_of_ours_or_does_no_harm(rows, path):
    X, y, qid = rows
    model = RankRLS(kernel="rbf").fit(X, y, qid=qid)
    content = save_model(model, path).read_bytes()
    for at in range(0, len(content), len(content) // 40):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        try:
            same = load_model(path)
        except ModelFileError:
            continue
        assert_array_equal(same.predict(X), model.predict(X))  # a byte that says nothing
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelFileError):
        load_model(path)


def rewrite(path, changes):
    """Replace members of an archive."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | changes).items():
            archive.writestr(name, content)


class TestReplacing:
    def test_a_new_file_obeys_the_umask(self, tmp_path):
        before = os.umask(0o027)
        try:
            with replacing(tmp_path / "new") as beside:
                beside.write_text("x")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640

    def test_an_old_file_keeps_its_permissions(self, tmp_path):
        path = tmp_path / "old"
        path.write_text("old")
        path.chmod(0o604)
        with replacing(path) as beside:
            beside.write_text("new")
            assert path.read_text() == "old"
        assert path.read_text() == "new"
        assert stat.S_IMODE(path.stat().st_mode) == 0o604

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_an_error_leaves_everything_as_it_was(self, tmp_path, error):
        path = tmp_path / "old"
        path.write_text("old")

        def half():
            with replacing(path) as beside:
                beside.write_text("half")
                raise error

        with pytest.raises(error):
            half()
        assert path.read_text() == "old"
        assert [p.name for p in tmp_path.iterdir()] == ["old"]

    def test_a_link_stays_a_link(self, tmp_path):
        target, link = tmp_path / "target", tmp_path / "link"
        target.write_text("old")
        link.symlink_to(target)
        with replacing(link) as beside:
            beside.write_text("new")
        assert link.is_symlink()
        assert target.read_text() == "new"

    def test_a_device_is_written_to_and_not_replaced(self):
        with replacing(os.devnull) as beside:
            beside.write_text("gone")
        assert stat.S_ISCHR(os.stat(os.devnull).st_mode)

    def test_a_very_long_name(self, tmp_path):
        path = tmp_path / ("x" * 250)
        with replacing(path) as beside:
            beside.write_text("fits")
        assert path.read_text() == "fits"

    def test_no_such_folder_and_a_folder_itself(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="no such folder"), replacing(tmp_path / "a/b"):
            pass
        with pytest.raises(IsADirectoryError), replacing(tmp_path):
            pass


@pytest.mark.parametrize("model", [3, RankRLS])
def test_only_a_fitted_ranker_can_be_saved(model, tmp_path):
    with pytest.raises(ModelFileError, match="Only a fitted ranker"):
        save_model(model, tmp_path / "model.skops")
    with pytest.raises(NotFittedError):
        save_model(RankRLS(), tmp_path / "model.skops")
    assert not list(tmp_path.iterdir())
