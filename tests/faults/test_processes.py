"""Rankers in threads and in forked processes: no deadlock, the same numbers, inputs unchanged."""

import multiprocessing
import os
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rankwise import RankRLS, RankSVM
from tests.bilinear_texts import ranker, texts

X, LABELS = texts()
Y = (X @ np.arange(12.0)).round()
QID = np.arange(len(X)) // 10
for array in (X, LABELS, Y, QID):
    array.setflags(write=False)
MINUTES = 300  # seconds until a deadlock is an error


def bilinear(_=None):
    return ranker(n_jobs=2, refit=False).fit_classes(X, LABELS).coef_.toarray()


def several(_=None):
    linear = RankRLS(1.0).fit(X, Y, qid=QID).coef_
    svm = RankSVM().fit(X, Y, qid=QID).coef_
    return np.concatenate((linear, svm, bilinear().ravel()))


@pytest.mark.slow
def test_fits_in_threads():
    want = several()
    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(several, range(3), timeout=MINUTES):
            assert_allclose(found, want, rtol=1e-9, atol=1e-12)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
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
