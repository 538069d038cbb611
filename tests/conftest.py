"""How the tests run: Hypothesis, threads of BLAS, real data."""

import gc
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, find, settings
from hypothesis import strategies as st

# The same examples on every run: a test that passes here passes elsewhere. No deadlines, as the
# first example of a test may compile a loop.
settings.register_profile(
    "rankwise",
    derandomize=True,
    deadline=None,
    max_examples=10,
    suppress_health_check=[HealthCheck.too_slow],
)
# New examples on every run, and more of them, to look for faults.
settings.register_profile(
    "thorough", settings.get_profile("rankwise"), derandomize=False, max_examples=300
)
settings.load_profile("rankwise")


# Modules and tests stay until the end: the garbage collector need not look at them.
gc.disable()


def pytest_collection_finish() -> None:
    # Hypothesis 6.100 asks the collector who refers to its random numbers when it first runs.
    find(st.none(), lambda _: True)
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real data; skips the test if there is none."""
    folder = os.environ.get("RANKWISE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("RANKWISE_DATA does not point to the folder with real data")
    return Path(folder)


@pytest.fixture(scope="module")
def browser():
    """Chromium, driven by Playwright; skips the test if there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if program is None:
        pytest.skip("there is no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield made
        made.close()
