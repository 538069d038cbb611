"""The corpus of hostile inputs, and a few mutations of each."""

import numpy as np
import pytest

from fuzz.__main__ import CORPUS, TARGETS, run

INPUTS = sorted(path for path in CORPUS.glob("*/*") if path.parent.name in TARGETS)


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_corpus(path, tmp_path):
    """A target raises an error where a reader and its slow reference disagree."""
    TARGETS[path.parent.name](path.read_bytes(), np.random.default_rng(0), tmp_path)


def test_a_reader_that_is_wrong_is_found(monkeypatch, tmp_path):
    monkeypatch.setattr("fuzz.letor._arrays", lambda data, size: ([7.0], ["q"], [{}]))
    monkeypatch.setattr("fuzz.__main__.FOUND", tmp_path)
    n_inputs, found = run("letor", 0, 1000.0, 50)
    assert n_inputs == 50
    assert any("read, but invalid" in words for words in found)
    assert any("AssertionError: labels" in words for words in found)


@pytest.mark.parametrize(
    ("target", "n_inputs"), [("letor", 300), ("tables", 30), ("models", 8), ("ids", 300)]
)
def test_mutations(target, n_inputs):
    assert run(target, 0, 1000.0, n_inputs) == (n_inputs, [])


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_mutations(target):
    n_inputs, found = run(target, 1, 20.0)
    assert n_inputs
    assert found == []
