"""Machines that are crowded, small or locked: a program works, or says what it needs."""

import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from rankwise import load_model
from rankwise.data import make_ranking, write_letor

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="limits as on Linux"),
]
NOWHERE = "/dev/null/folder"  # cannot be written to, not even by an administrator
SECONDS = 300  # until a program that waits for ever is an error


@pytest.fixture
def train(tmp_path):
    data = make_ranking(20, rows_per_query=8, n_features=5, random_state=0)
    path = tmp_path / "train.txt"
    write_letor(path, data.X, data.y, data.qid)
    return path


def start(*arguments, settings=None, limit=None, **options):
    """A program without a terminal."""
    environment = {key: value for key, value in os.environ.items() if key != "TERM"}
    return subprocess.Popen(
        [sys.executable, "-m", "rankwise", *map(str, arguments)],
        env=environment | (settings or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=limit,
        **options,
    )


def outcome(process):
    """Exit code, output and errors."""
    output, errors = process.communicate(timeout=SECONDS)
    return process.returncode, output.decode(), errors.decode()


def memory(gigabytes):
    n_bytes = int(gigabytes * 2**30)
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))


def one_core():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


MACHINES = {
    "nothing can be cached": (
        {"HOME": NOWHERE, "XDG_CACHE_HOME": NOWHERE, "NUMBA_CACHE_DIR": NOWHERE},
        None,
    ),
    "ASCII only": ({"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0"}, None),
    "one core": ({}, one_core),
    "1 GiB of memory": ({}, memory(1)),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_a_fit_and_its_predictions(machine, train, tmp_path):
    settings, limit = MACHINES[machine]
    model = tmp_path / "model.rankwise"
    fit = start("fit", train, "--out", model, settings=settings, limit=limit)
    assert outcome(fit)[0] == 0
    predict = start("predict", model, train, settings=settings, limit=limit)
    code, output, _ = outcome(predict)
    assert code == 0
    assert np.isfinite(np.array(output.split(), dtype=float)).sum() == 160


@pytest.mark.filterwarnings("ignore:QueryMinMaxScaler scales")  # all rows are one query
def test_two_first_starts_at_once(train, tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    models = [tmp_path / f"{k}.rankwise" for k in range(2)]
    both = [
        start("fit", train, "--model", "ranksvm", "--out", path, settings=cache) for path in models
    ]
    assert [outcome(process)[0] for process in both] == [0, 0]
    rows = np.random.default_rng(0).standard_normal((8, 5))
    first, second = (load_model(path).predict(rows) for path in models)
    np.testing.assert_allclose(first, second)


@pytest.mark.parametrize(
    "folder", [NOWHERE, "/proc"], ids=["no folder", "a folder that nobody can write to"]
)
def test_outputs_that_cannot_be_written(folder, train):
    code, _, errors = outcome(start("fit", train, "--out", f"{folder}/model.rankwise"))
    assert code == 2
    assert folder in errors
    assert "Traceback" not in errors


def test_an_input_that_has_vanished(tmp_path):
    gone = tmp_path / "gone.txt"
    code, _, errors = outcome(start("fit", gone, "--out", tmp_path / "model.rankwise"))
    assert code == 2
    assert "gone.txt" in errors
    assert "Traceback" not in errors
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("when", [0.3, 0.9])
def test_signals(number, code, when, train, tmp_path):
    model = tmp_path / "model.rankwise"
    begin = time.monotonic()
    assert outcome(start("fit", train, "--out", model))[0] == 0
    spent = time.monotonic() - begin
    old = model.read_bytes()
    process = start("fit", train, "--out", model, "--force", "--alpha", "3.0")
    time.sleep(when * spent)
    process.send_signal(number)
    found, _, errors = outcome(process)
    assert found in (code, 0, -number)  # -number: before the program has begun
    assert "Traceback" not in errors or found == -number
    assert model.read_bytes() == old or load_model(model).alpha_ == 3.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.rankwise", "train.txt"]
