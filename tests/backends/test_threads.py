"""Calls in two threads."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_limits

import rankwise
from rankwise.backends.parallel import (
    LEAST,
    even_parts,
    map_in_threads,
    matmul,
    n_threads,
    threads_for,
)
from rankwise.data import letor
from rankwise.errors import ParameterError


def test_results_have_the_order_of_the_parts():
    assert map_in_threads(lambda part: part**2, range(50), 2) == [k**2 for k in range(50)]


def test_two_parts_run_at_the_same_time():
    both = threading.Barrier(2, timeout=300)
    assert sorted(map_in_threads(lambda _: both.wait(), range(2), 2)) == [0, 1]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_errors_of_a_part_are_raised(n_threads):
    with pytest.raises(ZeroDivisionError):
        map_in_threads(lambda part: 1 / part, [1, 0, 2], n_threads)


def test_threads_have_the_context_of_the_caller():
    def divide(_):
        return 1.0 / np.zeros(1)

    with np.errstate(all="ignore"):  # a warning would be an error
        assert np.isinf(map_in_threads(divide, range(4), 2)).all()


def test_little_work_has_one_thread():
    with threadpool_limits(3, user_api="blas"):
        assert [threads_for(n * LEAST) for n in (0, 1, 2, 3, 4)] == [1, 1, 2, 3, 3]


def test_limits_of_users_are_obeyed(monkeypatch):
    with threadpool_limits(1, user_api="blas"):
        assert n_threads() == 1
    with threadpool_limits(4, user_api="blas"):
        assert n_threads() == 4
        monkeypatch.setenv("RANKWISE_NUM_THREADS", "3")
        assert n_threads() == 3
        monkeypatch.setenv("RANKWISE_NUM_THREADS", "all")
        with pytest.raises(ParameterError, match="RANKWISE_NUM_THREADS must be a whole number"):
            n_threads()


def test_files_are_read_by_as_many_threads(tmp_path, monkeypatch):
    path, found = tmp_path / "few.txt", []
    path.write_text("1 qid:1 1:2\n")

    class Pool(ThreadPoolExecutor):
        def __init__(self, n_workers):
            found.append(n_workers)
            super().__init__(n_workers)

    monkeypatch.setattr(letor, "ThreadPoolExecutor", Pool)
    with threadpool_limits(4, user_api="blas"):
        letor.read_letor(path)
        monkeypatch.setenv("RANKWISE_NUM_THREADS", "1")
        letor.read_letor(path)
    assert found == [4, 1]


@pytest.mark.slow  # starts processes
def test_workers_of_joblib_share_the_processors(monkeypatch):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "4")
    with parallel_config("loky", idle_worker_timeout=1):
        found = Parallel(n_jobs=2)(delayed(n_threads)() for _ in range(2))
    assert max(found) <= 2


def test_threads_start_no_threads():
    with threadpool_limits(4, user_api="blas"):
        assert map_in_threads(lambda _: n_threads(), range(4), 2) == [1] * 4


def test_a_failed_call_restores_the_threads_of_blas():
    with threadpool_limits(4, user_api="blas"):
        with pytest.raises(ZeroDivisionError):
            map_in_threads(lambda part: 1 / part, [1, 0, 2], 2)
        assert n_threads() == 4


@given(st.lists(st.integers(1, 100), min_size=1), st.integers(1, 20))
def test_even_parts_have_all_items_once(sizes, n_parts):
    parts = even_parts(sizes, n_parts)
    assert [k for part in parts for k in range(len(sizes))[part]] == list(range(len(sizes)))
    assert len(parts) <= n_parts
    assert max(sum(sizes[part]) for part in parts) <= sum(sizes) / n_parts + max(sizes)


def test_no_loop_has_threads_of_numba():
    """OpenMP hangs in forked processes, and other layers abort if two threads call a loop."""
    sources = list(Path(rankwise.__file__).parent.rglob("*.py"))
    assert len(sources) > 100
    for source in sources:
        text = source.read_text(encoding="utf-8")
        assert not re.search(r"\bprange\b|\bparallel\s*=\s*True", text), source


@pytest.mark.parametrize("shape", [(7, 5), (7, 1), (1, 5), (7, 0), (0, 5)])
def test_products_with_one_column(shape):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal(shape), rng.standard_normal((shape[1], 3))[:, 1:2]
    for left in (A, np.asfortranarray(A), np.hstack((A, A))[:, : shape[1]]):
        np.testing.assert_allclose(matmul(left, B), A @ B, atol=1e-14)
