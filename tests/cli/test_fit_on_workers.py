"""rankwise fit with workers: the model of a plain fit, and options that make no sense."""

import logging

import pytest
from numpy.testing import assert_allclose

from rankwise import load_model
from rankwise.cli.training_rows import local_cluster


def test_workers_fit_the_same_model(files, run, tmp_path):
    one, many = tmp_path / "one.skops", tmp_path / "many.skops"
    run("fit", files.train, "--valid", files.valid, "-o", one)
    run("fit", files.train, "--valid", files.valid, "--workers", 1, "-o", many)
    assert_allclose(load_model(many).coef_, load_model(one).coef_, rtol=1e-9)
    assert load_model(many).alpha == load_model(one).alpha


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--workers", 2, "--cluster", "tcp://127.0.0.1:1"], "leave one out"),
        (["--workers", 2, "--normalize"], "cannot be normalized"),
        (["--workers", 1, "--kernel", "rbf"], "SparseRankRLS"),
        (["--cluster", "nowhere"], "No Dask scheduler answers"),
    ],
)
def test_options_that_make_no_sense(files, run, tmp_path, options, message):
    assert message in run("fit", files.train, *options, "-o", tmp_path / "m.skops", ok=False)


def test_workers_that_are_slow_to_start_get_another_chance(monkeypatch):
    tried = []

    def slow(**options):
        tried.append(options)
        assert len(tried) == 3, "the loop did not start"
        return "a cluster"

    monkeypatch.setattr("distributed.LocalCluster", slow)
    assert local_cluster(2) == "a cluster"
    assert tried[0]["silence_logs"] == logging.CRITICAL  # a bad row gives one line, and no more
    with pytest.raises(AssertionError, match="did not start"):
        local_cluster(2)
