"""The limit of one BLAS thread ends when all who asked for it are done."""

import pytest
from scipy import linalg  # noqa: F401  (its BLAS is loaded before threads are counted)
from threadpoolctl import threadpool_info, threadpool_limits

from rankwise.backends.parallel import SMALL, blas_threads_for


def threads():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def _two_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_one_thread_for_small_matrices_only():
    before = threads()
    with blas_threads_for(SMALL):
        assert set(threads()) == {1}
    assert threads() == before
    with blas_threads_for(SMALL + 1):
        assert threads() == before


def test_users_that_overlap_restore_the_threads_once():
    before = threads()
    first, second = blas_threads_for(10), blas_threads_for(10)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(threads()) == {1}
    second.__exit__(None, None, None)
    assert threads() == before
