"""Files are whole, whenever the program that writes them is killed."""

import os
import random
import subprocess
import sys
import time

import pytest

WRITER = """\
import itertools, sys
from pathlib import Path
from rankwise.files import replacing
print("begin", flush=True)
for letter in itertools.cycle("abc"):
    with replacing(Path(sys.argv[1])) as temporary:
        temporary.write_text(letter * 200_000)
"""


def test_a_file_is_whole_after_kills(tmp_path):
    path, rng = tmp_path / "letters", random.Random(0)
    path.write_text("old")
    for _ in range(5):
        command = [sys.executable, "-c", WRITER, path]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            writer.stdout.readline()
            time.sleep(rng.uniform(0, 0.05))
            writer.kill()
        text = path.read_text()
        assert text == "old" or (len(text) == 200_000 and len(set(text)) == 1)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kills_and_full_disks():
    command = [sys.executable, "-m", "tests.faults.kills", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert [line.split(" kills")[0] for line in done.stdout.splitlines()] == [
        "save: 5", "checkpoint: 5", "fit: 5", "tune: 5", "reproduce: 5"
    ]  # fmt: skip
