"""rankwise fit with workers: the model of a plain fit, and options that exclude each other."""

import logging
from functools import partial

import pytest
from distributed import LocalCluster, wait
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker
from numpy.testing import assert_allclose

from rankwise import load_model
from rankwise.cli.fit import local_cluster


def test_workers_fit_the_same_model(files, run, tmp_path, monkeypatch):
    monkeypatch.setattr("distributed.LocalCluster", partial(LocalCluster, processes=False))
    one, many = tmp_path / "one.rankwise", tmp_path / "many.rankwise"
    options = "--valid", files.valid, "--alphas", "1:1e4:5"
    run("fit", files.train, *options, "-o", one)
    run("fit", files.train, *options, "--workers", 1, "-o", many)
    assert_allclose(load_model(many).coef_, load_model(one).coef_, rtol=1e-9)
    assert load_model(many).scale_ == "query-minmax"
    assert load_model(many).alpha == load_model(one).alpha


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--workers", 1, "--kernel", "rbf"], "SparseRankRLS"),
        (["--cluster", "nowhere"], "No Dask scheduler answers"),
    ],
)
def test_options_that_exclude_each_other(files, run, tmp_path, options, message):
    assert message in run("fit", files.train, *options, "-o", tmp_path / "m.rankwise", ok=False)


def test_starting_slow_workers_is_tried_again(monkeypatch):
    tried = []

    def slow(**options):
        tried.append(options)
        assert len(tried) == 3, "the loop did not start"
        return "a cluster"

    monkeypatch.setattr("distributed.LocalCluster", slow)
    assert local_cluster(2) == "a cluster"
    assert tried[0]["silence_logs"] == logging.CRITICAL  # an error gives one line, without logs
    with pytest.raises(AssertionError, match="did not start"):
        local_cluster(2)


def test_hashed_features_are_refused(run, tmp_path, monkeypatch):
    monkeypatch.setattr("distributed.LocalCluster", partial(LocalCluster, processes=False))
    path = tmp_path / "hashed.txt"
    path.write_text("1 qid:1 3:1\n0 qid:1 2000000000:1\n")
    message = run("fit", path, "--workers", 1, "-o", tmp_path / "m.rankwise", ok=False)
    assert message.startswith(f"{path} has feature numbers up to 2,000,000,000")
    assert "leave --workers out" in message


@pytest.mark.slow
@pytest.mark.ci
def test_a_scheduler_without_workers(files, run, tmp_path, monkeypatch):
    monkeypatch.setattr("rankwise.distributed._cluster_fit.WORKER_SECONDS", 0.3)
    monkeypatch.setattr("rankwise.distributed._cluster_fit.PROGRESS_SECONDS", 0.05)
    waits = []

    def nobody(**options):
        return LocalCluster(**options | {"n_workers": 0, "processes": False})

    def impatient(futures, timeout):  # a fit that waits for ever fails
        waits.append(timeout)
        if len(waits) > 400:
            pytest.fail("it waits for workers that are not there")
        return wait(futures, timeout=timeout)

    monkeypatch.setattr("distributed.LocalCluster", nobody)
    monkeypatch.setattr("distributed.wait", impatient)
    out = tmp_path / "m.rankwise"
    message = run("fit", files.train, "--workers", 1, "-o", out, ok=False)
    assert message.startswith("The Dask scheduler has had no workers for 0.3 seconds: start some")
    assert not out.exists()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KilledWorker("task", None, 3), "4 workers have ended while they worked on the same task"),
        (CommClosedError("closed"), "no longer answers: closed"),
        (FutureCancelledError("task", "lost"), "no longer answers: "),
    ],
)
def test_workers_and_schedulers_that_end(files, run, tmp_path, monkeypatch, error, message):
    logger = logging.getLogger("distributed")
    level = logger.level

    def fail(*given, **options):
        assert logger.level == logging.CRITICAL  # the error is one line, without logs
        raise error

    monkeypatch.setattr("distributed.LocalCluster", partial(LocalCluster, processes=False))
    monkeypatch.setattr("rankwise.distributed.fit", fail)
    out = tmp_path / "m.rankwise"
    assert message in run("fit", files.train, "--workers", 1, "-o", out, ok=False)
    assert logger.level == level
