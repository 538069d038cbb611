"""Rankers on torch's CPU device agree with NumPy, without implicit copies to the host."""

import pytest

pytest.importorskip("torch", reason="needs the extra gpu")

from tests.conformance.places import copied_from_host, tensors
from tests.conformance.suite import CHECKS, TOLERANCE, differences


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("place", [tensors("cpu"), copied_from_host("cpu")], ids=lambda p: p.name)
def test_agrees_with_numpy(place, name):
    for result, difference in differences(CHECKS[name], place):
        assert difference <= TOLERANCE, result
