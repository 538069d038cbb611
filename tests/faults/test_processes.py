"""Rankers in threads, processes and on workers: no deadlock, the same numbers, inputs as before."""

import multiprocessing
import os
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from joblib import Parallel, delayed
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

from rankwise import RankRLS, RankSVM
from tests.bilinear.texts import ranker, texts

X, LABELS = texts()
Y = (X @ np.arange(12.0)).round()
QID = np.arange(len(X)) // 10
for array in (X, LABELS, Y, QID):
    array.setflags(write=False)
MINUTES = 300  # seconds until a deadlock is an error


def bilinear(_=None):
    return ranker(refit=False).fit_classes(X, LABELS).coef_.toarray()


def several(_=None):
    linear = RankRLS(1.0).fit(X, Y, qid=QID).coef_
    svm = RankSVM().fit(X, Y, qid=QID).coef_
    return np.concatenate((linear, svm, bilinear().ravel()))


def test_fits_in_threads():
    want = several()
    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(several, range(3), timeout=MINUTES):
            assert_allclose(found, want, rtol=1e-9, atol=1e-12)


def linear(_=None):
    return RankRLS(1.0).fit(X, Y, qid=QID).coef_


def test_fits_in_threads_of_joblib():
    want = linear()
    for found in Parallel(2, backend="threading", timeout=MINUTES)(delayed(linear)() for _ in "ab"):
        assert_allclose(found, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("backend", [pytest.param("loky", marks=pytest.mark.slow), "threading"])
def test_all_fits_under_joblib(backend):
    want = several()
    jobs = Parallel(2, backend=backend, timeout=MINUTES)(delayed(several)() for _ in range(3))
    for found in jobs:
        assert_allclose(found, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("limit", [1, 2])
def test_limits_of_threads_of_blas(limit):
    want = linear()
    with threadpool_limits(limit):
        assert_allclose(linear(), want, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_fits_on_workers_of_dask():
    distributed = pytest.importorskip("distributed")
    want = several()
    with (
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        for future in client.map(several, range(3), pure=False):
            assert_allclose(future.result(timeout=MINUTES), want, rtol=1e-9, atol=1e-12)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.slow  # not in a process that has the threads of other tests
def test_threads_of_a_fit_before_a_fork():
    want = bilinear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # this process has threads, it says
        with multiprocessing.get_context("fork").Pool(2) as pool:
            for found in pool.map_async(bilinear, range(2)).get(MINUTES):
                assert_array_equal(found, want)


@pytest.mark.slow
def test_fits_in_spawned_processes():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for found in pool.map_async(several, range(2)).get(MINUTES):
            assert_allclose(found, several(), rtol=1e-9, atol=1e-12)
