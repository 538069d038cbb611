"""Fits on a cluster of processes, one of which is killed."""

import os
import signal
import time
from threading import Event, Thread

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import wait
from numpy.testing import assert_allclose

from rankwise import RankRLS, SparseRankRLS
from rankwise.cli.fit import connected
from rankwise.distributed import fit, leave_query_out
from rankwise.errors import DataError
from rankwise.model_selection import leave_query_out as leave_query_out_here

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3000, 5))
Y = X @ RNG.standard_normal(5) + RNG.standard_normal(3000)
QID = np.arange(3000) // 11  # partitions split some queries
ROWS_OF_A_PART = 150


@pytest.fixture(scope="module")
def client():
    options = {
        "distributed.scheduler.work-stealing": False,  # it would move rows
        "distributed.comm.timeouts.connect": "120s",  # busy machines respond slowly
        "distributed.comm.timeouts.tcp": "120s",
    }
    with (
        dask.config.set(options),
        connected("2") as client,
    ):
        yield client


def in_chunks(X, slow=None):
    parts = [
        da.from_array(a, chunks=(ROWS_OF_A_PART, *a.shape[1:]), name=False) for a in (X, Y, QID)
    ]
    if slow is not None:
        parts[0] = parts[0].map_blocks(slow, dtype=X.dtype)
    return tuple(parts)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("ranker", [RankRLS(1.0), SparseRankRLS(1.0, landmarks=X[:20], scale=None)])
def test_a_cluster_and_a_single_machine_agree(client, ranker):
    ours = fit(ranker, in_chunks(X), client=client).predict(X)
    assert_allclose(ours, ranker.fit(X, Y, qid=QID).predict(X), atol=1e-10)


def test_progress_is_reported(client):
    reported = []
    ours = fit(
        RankRLS(1.0), in_chunks(X), client=client, progress=lambda *now: reported.append(now)
    )
    assert_allclose(ours.coef_, RankRLS(1.0).fit(X, Y, qid=QID).coef_, atol=1e-10)
    assert reported
    assert all(0 <= done <= total for done, total in reported)


@pytest.mark.slow
@pytest.mark.ci
def test_rows_are_not_moved_between_workers(client):
    workers = sorted(client.scheduler_info()["workers"])
    blocks = [
        client.submit(np.full, (1000, 50), k, dtype=float, workers=workers[k % 2])
        for k in range(40)
    ]
    wait(blocks)
    rows = da.concatenate([da.from_delayed(b, (1000, 50), dtype=float) for b in blocks])
    before = sent_bytes(client)
    fit(RankRLS(1.0), (rows, rows[:, 0]), client=client)
    assert sent_bytes(client) - before < rows.nbytes / 5


def sent_bytes(client):
    """Bytes that workers have sent so far, to each other or to a client."""
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


@pytest.mark.slow
def test_leave_query_out_on_a_cluster(client):
    reported = []
    ours = leave_query_out(
        RankRLS(1.0), in_chunks(X), client=client, progress=lambda *now: reported.append(now)
    )
    assert_allclose(ours.score, leave_query_out_here(RankRLS(1.0), X, Y, qid=QID).score, atol=1e-10)
    assert reported


@pytest.mark.slow
def test_a_killed_worker_does_not_change_the_result(client, tmp_path):
    calls = tmp_path / "calls"
    calls.mkdir()

    def slow(block):
        (calls / f"{os.getpid()}-{time.monotonic_ns()}").touch()
        time.sleep(0.05)
        return block

    pid = next(iter(client.run(os.getpid).values()))
    fitted = Event()

    def kill_one():
        while not fitted.is_set():
            if sum(1 for _ in calls.iterdir()) >= 5:  # of the 20 partitions
                os.kill(pid, signal.SIGKILL)
                return
            time.sleep(0.01)

    killer = Thread(target=kill_one)
    killer.start()
    ours = fit(RankRLS(1.0), in_chunks(X, slow), client=client).coef_
    fitted.set()
    killer.join()
    client.wait_for_workers(2)
    assert pid not in client.run(os.getpid).values()
    assert_allclose(ours, fit(RankRLS(1.0), in_chunks(X), client=client).coef_, atol=1e-10)


@pytest.mark.slow
def test_errors_of_workers_are_raised(client):
    bad = X.copy()
    bad[200, 1] = np.inf
    with pytest.raises(DataError, match="Partition 1, row 50: feature 1"):
        fit(RankRLS(1.0), in_chunks(bad), client=client)
