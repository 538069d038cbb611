"""Leading eigenpairs: dense for small matrices, Lanczos for large ones."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankwise.solvers import kpca as lanczos
from rankwise.solvers.kpca import leading_eigenpairs


def kernel(m, decay, seed=0):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((m, m)))[0]
    s = decay ** np.arange(m)
    return (Q * s) @ Q.T, s


@pytest.mark.parametrize("decay", [0.5, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("n", [1, 10, 40])
def test_lanczos_agrees_with_known_eigenvalues(monkeypatch, decay, n):
    monkeypatch.setattr(lanczos, "SMALL", 0)
    K, s = kernel(300, decay)
    values, V = leading_eigenpairs(K, n)
    assert_allclose(values, s[:n], atol=1e-12)
    assert_allclose(V.T @ V, np.eye(n), atol=1e-12)
    assert_allclose(K @ V, V * values, atol=1e-12)


def test_lanczos_is_used_for_few_eigenpairs(monkeypatch):
    K, _ = kernel(300, 0.95)
    calls = []
    monkeypatch.setattr(lanczos, "SMALL", 0)
    monkeypatch.setattr(lanczos, "_block_lanczos", lambda S, n: calls.append(n))
    for n in (10, 200):
        values, _ = leading_eigenpairs(K, n)
        assert len(values) == n
    assert calls == [10]


@pytest.mark.parametrize("multiplicity", [40, 150])
def test_repeated_eigenvalues_are_all_found(monkeypatch, multiplicity):
    """With more equal eigenvalues than columns in a block, the dense method takes over."""
    monkeypatch.setattr(lanczos, "SMALL", 0)
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((300, 300)))[0]
    s = np.r_[10.0, np.full(multiplicity, 5.0), np.ones(299 - multiplicity)]
    values, V = leading_eigenpairs((Q * s) @ Q.T, 45)
    assert_allclose(values, s[:45], atol=1e-12)
    assert_allclose(V.T @ V, np.eye(45), atol=1e-12)


def test_a_low_rank_matrix(monkeypatch):
    monkeypatch.setattr(lanczos, "SMALL", 0)
    F = np.random.default_rng(0).standard_normal((300, 5))
    values, _ = leading_eigenpairs(F @ F.T, 20)
    want = np.r_[np.linalg.svd(F, compute_uv=False) ** 2, np.zeros(15)]
    assert_allclose(values, want, atol=1e-10)
