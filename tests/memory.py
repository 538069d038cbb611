"""Whether the memory of growing arrays can be measured."""

import tracemalloc

import numpy as np
import pytest


def _counts_both_arrays_of_a_resize() -> bool:
    tracemalloc.start()
    array = np.zeros(10**6)
    array.resize(2 * 10**6, refcheck=False)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak > 1.3 * held


needs_resize = pytest.mark.skipif(
    _counts_both_arrays_of_a_resize(), reason="tracemalloc counts both arrays of a resize here"
)
