"""Files are whole, whenever the program that writes them is killed."""

import os
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kills_and_full_disks():
    command = [sys.executable, "-m", "tests.faults.kills", "10"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert [line.split(" kills")[0] for line in done.stdout.splitlines()] == [
        "save: 10", "checkpoint: 10", "fit: 10", "tune: 10"
    ]  # fmt: skip
