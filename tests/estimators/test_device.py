"""The parameter `device` of rankers, and its error messages."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone

from rankwise import KPCRank, RankRLS, SparseRankRLS, load_model, save_model
from rankwise.errors import (
    DataError,
    DeviceError,
    KernelSizeError,
    MissingExtraError,
    ParameterError,
)
from rankwise.metrics import ndcg
from tests.conformance.places import no_implicit_copies

pytest.importorskip("torch", reason="needs the extra gpu")

import torch

from rankwise.backends._torch import TorchBackend

CPU = torch.device("cpu")
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    return X, X[:, 0] + 0.1 * rng.standard_normal(80), np.arange(80) // 8


@no_gpu
def test_without_a_gpu(problem):
    X, y, qid = problem
    with pytest.raises(DeviceError, match=r'that torch finds.*device="auto"'):
        RankRLS(1.0, device="cuda").fit(X, y, qid=qid)
    auto = RankRLS(1.0, device="auto").fit(X, y, qid=qid)
    assert_allclose(auto.coef_, RankRLS(1.0).fit(X, y, qid=qid).coef_, rtol=0)


def test_without_torch(problem, monkeypatch):
    X, y, qid = problem
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"rankwise\[gpu\]"):
        RankRLS(1.0, device="cuda").fit(X, y, qid=qid)
    assert isinstance(RankRLS(1.0, device="auto").fit(X, y, qid=qid).coef_, np.ndarray)


@pytest.mark.parametrize("device", ["gpu", 3, "cuda:x"])
def test_devices_that_do_not_exist(problem, device):
    X, y, _ = problem
    for rows in (X, torch.tensor(X)):
        with pytest.raises(ParameterError, match="device must be None"):
            RankRLS(1.0, device=device).fit(rows, y)


def test_tensors_without_values(problem):
    X, y, _ = problem
    here, elsewhere = torch.tensor(X), torch.tensor(X, device="meta")
    ranker = RankRLS(1.0).fit(X, y)
    for attempt in (
        lambda: RankRLS(1.0, device="meta").fit(X, y),
        lambda: RankRLS(1.0).fit(elsewhere, y),
        lambda: RankRLS(1.0).fit(here, elsewhere[:, 0]),
        lambda: ranker.predict(elsewhere),
    ):
        with pytest.raises(DeviceError, match="cannot hold numbers"):
            attempt()


def test_invalid_label_tensors(problem):
    X, y, _ = problem
    rows, labels = torch.tensor(X), torch.tensor(y)
    for bad in (labels + 1j, labels.to_sparse()):
        with pytest.raises(DataError, match="y must be a dense tensor of real numbers"):
            RankRLS(1.0).fit(rows, bad)
    with pytest.raises(DataError, match=r"got shape \(80, 0\)"):
        RankRLS(1.0).fit(rows, rows[:, :0])


def test_a_device_without_float64(problem):
    X, y, _ = problem
    with pytest.raises(DeviceError, match="'mps' cannot hold numbers of float64"):
        RankRLS(1.0, device="mps").fit(X, y)


def test_tensors_are_not_moved(problem):
    X, y, _ = (torch.tensor(values) for values in problem)
    with pytest.raises(DeviceError, match="X is on cpu, but device='cuda'"):
        RankRLS(1.0, device="cuda").fit(X, y)
    RankRLS(1.0, device="cpu").fit(X, y)
    RankRLS(1.0, device="auto").fit(X, y)


def test_invalid_tensors(problem):
    X, y, _ = (torch.tensor(values) for values in problem)
    for bad, message in (
        (X[:, 0], "Expected 2D array, got 1D"),
        (X[:, :0], "0 feature"),
        (X[:1], "1 sample"),
        (X * torch.nan, "NaN or infinity"),
        (X.to_sparse(), "dense tensor"),
        (X.to(torch.complex128), "real numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            RankRLS(1.0).fit(bad, y[: len(bad)])
    for bad, message in (
        (y[:5], "same number of rows"),
        (y * torch.inf, "y contains"),
        (None, "y must have one or two dimensions"),
    ):
        with pytest.raises(DataError, match=message):
            RankRLS(1.0).fit(X, bad)
    ranker = RankRLS(1.0).fit(X, y)
    with pytest.raises(ValueError, match="2 features, but RankRLS is expecting 3"):
        ranker.predict(X[:, :2])


def test_predictions_are_on_the_device_of_the_rows(problem):
    X, y, qid = problem
    tensor = torch.tensor(X)
    for ranker in (
        RankRLS(1.0),
        RankRLS(1.0, kernel="rbf", scale=None),
        SparseRankRLS(1.0, n_landmarks=20, scale=None),
        KPCRank(5, scale=None),
    ):
        here = clone(ranker).fit(X, y, qid=qid)
        assert isinstance(here.predict(tensor), torch.Tensor)
        there = clone(ranker).fit(tensor, torch.tensor(y), qid=qid)
        assert isinstance(there.predict(X), np.ndarray)
        assert not there.predict(tensor.requires_grad_()).requires_grad
        tensor = tensor.detach()


def test_sparse_rows_are_copied_to_the_device(problem):
    X, y, qid = problem
    X = np.where(np.abs(X) < 0.3, 0.0, X)
    for ranker in (
        RankRLS(1.0),
        RankRLS(1.0, kernel="rbf", scale=None),
        SparseRankRLS(1.0, n_landmarks=20, random_state=0, scale=None),
    ):
        want = clone(ranker).fit(X, y, qid=qid).predict(X)
        there = clone(ranker).set_params(device=CPU).fit(sp.csr_array(X), y, qid=qid)
        assert_allclose(there.predict(sp.csr_array(X)), want, atol=1e-9)


def test_model_files_do_not_depend_on_the_device(problem, tmp_path):
    X, y, qid = problem
    tensors = torch.tensor(X), torch.tensor(y)
    for k, ranker in enumerate(
        (
            RankRLS(1.0, kernel="rbf", device=CPU, scale=None),
            KPCRank(5, scale=None),
            SparseRankRLS(1.0, scale=None),
        )
    ):
        ranker.fit(*tensors, qid=qid)
        same = load_model(save_model(ranker, tmp_path / f"{k}.rankwise"))
        assert_allclose(same.predict(X), ranker.predict(tensors[0]).numpy(), atol=1e-12)
        assert isinstance(ranker.predict(tensors[0]), torch.Tensor)  # the model is unchanged


def test_partial_fits_may_change_the_device(problem, tmp_path):
    X, y, qid = problem
    first, second = slice(0, 40), slice(40, 80)
    want = SparseRankRLS(1.0, landmarks=np.arange(20), scale=None).partial_fit(
        X[first], y[first], qid=qid[first]
    )
    start = SparseRankRLS(1.0, landmarks=np.arange(20), scale=None)
    start.partial_fit(torch.tensor(X[first]), torch.tensor(y[first]), qid=qid[first])
    again = load_model(save_model(start, tmp_path / "sums.rankwise"))
    want.partial_fit(X[second], y[second], qid=qid[second])
    again.partial_fit(X[second], y[second], qid=qid[second])
    assert_allclose(again.predict(X), want.predict(X), atol=1e-10)
    start.partial_fit(torch.tensor(X[second]), torch.tensor(y[second]), qid=qid[second])
    assert_allclose(start.predict(X), want.predict(X), atol=1e-10)


def test_reduced_precision(problem):
    X, y, qid = (torch.tensor(values) for values in problem)
    exact = (
        SparseRankRLS(1.0, n_landmarks=20, random_state=0, scale=None).fit(X, y, qid=qid).predict(X)
    )
    rough = SparseRankRLS(1.0, n_landmarks=20, random_state=0, precision="tf32", scale=None)
    off = abs(rough.fit(X, y, qid=qid).predict(X) - exact).max() / abs(exact).max()
    assert 1e-13 < float(off) < 1e-2
    with pytest.raises(ParameterError, match='device="cuda", or precision="float64"'):
        rough.fit(*problem[:2])
    with pytest.raises(ParameterError, match="precision must be one of float64, tf32"):
        SparseRankRLS(1.0, precision="half", scale=None).fit(X, y)


def test_errors_if_the_device_has_too_little_memory(problem, monkeypatch):
    X, y, _ = (torch.tensor(values) for values in problem)
    monkeypatch.setattr(TorchBackend, "free_bytes", lambda self: 60_000)
    with pytest.raises(KernelSizeError, match=r"GiB, but the device has only"):
        RankRLS(1.0, kernel="rbf", scale=None).fit(X, y)
    with pytest.raises(KernelSizeError, match="50 rows would fit"):
        RankRLS(1.0, kernel="rbf", scale=None).fit(X, y)
    with pytest.raises(KernelSizeError, match="43 rows would fit"):
        RankRLS(1.0, kernel="rbf", scale=None).path(X, y, [1.0, 2.0])
    with pytest.raises(KernelSizeError, match="Use fewer landmarks"):
        SparseRankRLS(1.0, n_landmarks=60, scale=None).fit(X, y)
    RankRLS(1.0).fit(X, y)


ARRAY_API = """
import numpy as np, torch, sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from rankwise import KPCRank, RankRLS, SparseRankRLS

X = np.random.default_rng(0).standard_normal((60, 3))
y, qid = X[:, 0] ** 3, np.arange(60) // 6
for ranker in (RankRLS(1.0), SparseRankRLS(1.0, n_landmarks=10, random_state=0), KPCRank(4)):
    with sklearn.config_context(enable_metadata_routing=True):
        want = make_pipeline(StandardScaler(), ranker).fit(X, y, qid=qid).predict(X, qid=qid)
    with sklearn.config_context(array_api_dispatch=True, enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), sklearn.base.clone(ranker))
        tensors = [torch.tensor(values) for values in (X, y, qid)]
        pipeline.fit(*tensors[:2], qid=tensors[2])
        scores = pipeline.predict(tensors[0], qid=tensors[2])
        assert isinstance(scores, torch.Tensor)
        assert np.abs(scores.numpy() - want).max() < 1e-9
        assert pipeline.score(*tensors[:2], qid=tensors[2]) > 0.7
"""


@pytest.mark.slow
def test_array_api_dispatch():
    # SciPy reads the environment variable on import, so this needs a separate process.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ARRAY_API],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_metrics_of_tensors(problem):
    X, y, qid = problem
    with no_implicit_copies():
        got = ndcg(
            *(torch.tensor(values) for values in (y - y.min(), X[:, 0])), qid=torch.tensor(qid)
        )
    assert got == ndcg(y - y.min(), X[:, 0], qid=qid)
