"""The corpus of hostile inputs, and a few mutations of each."""

import numpy as np
import pytest

from fuzz.__main__ import CORPUS, TARGETS, run

INPUTS = sorted(path for path in CORPUS.glob("*/*") if path.parent.name in TARGETS)


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_corpus(path, tmp_path):
    TARGETS[path.parent.name](path.read_bytes(), np.random.default_rng(0), tmp_path)


@pytest.mark.parametrize(("target", "n_inputs"), [("letor", 300), ("tables", 30), ("models", 8)])
def test_mutations(target, n_inputs):
    assert run(target, 0, 1000.0, n_inputs) == (n_inputs, [])


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_mutations(target):
    n_inputs, found = run(target, 1, 20.0)
    assert n_inputs
    assert found == []
