"""The problem of the tests of searches."""

import pytest

from tests.model_selection.searches import make_problem


@pytest.fixture
def problem():
    return make_problem()
