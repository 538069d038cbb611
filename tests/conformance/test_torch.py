"""Every ranker on torch's CPU device gives the results of NumPy, and nothing leaves the device."""

import pytest

pytest.importorskip("torch", reason="needs the extra gpu")

from tests.conformance.places import tensors, travelling
from tests.conformance.suite import CHECKS, TOLERANCE, differences


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("place", [tensors("cpu"), travelling("cpu")], ids=lambda p: p.name)
def test_agrees_with_numpy(place, name):
    for result, difference in differences(CHECKS[name], place):
        assert difference <= TOLERANCE, result
