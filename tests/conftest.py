"""Hypothesis without deadlines: the first example of a test may compile a loop."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "rankwise", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("rankwise")


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real data, or a skip that says what is missing."""
    folder = os.environ.get("RANKWISE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("RANKWISE_DATA does not point to the folder with real data")
    return Path(folder)
