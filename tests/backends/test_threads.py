"""Calls in two threads."""

import re
import threading
from pathlib import Path

import numpy as np
import pytest

import rankwise
from rankwise.backends import arrays
from rankwise.backends.arrays import map_in_threads, threads_for


def test_results_have_the_order_of_the_parts():
    assert map_in_threads(lambda part: part**2, range(50), 2) == [k**2 for k in range(50)]


def test_two_parts_run_at_the_same_time():
    both = threading.Barrier(2, timeout=60)
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
    assert threads_for(arrays.MANY - 1) == 1
    assert threads_for(arrays.MANY) == arrays.THREADS


def test_no_loop_has_threads_of_numba():
    """OpenMP hangs in forked processes, and other layers abort if two threads call a loop."""
    sources = list(Path(rankwise.__file__).parent.rglob("*.py"))
    assert len(sources) > 100
    for source in sources:
        text = source.read_text(encoding="utf-8")
        assert not re.search(r"\bprange\b|\bparallel\s*=\s*True", text), source
