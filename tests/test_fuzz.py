"""The corpus of hostile inputs, and what the targets find; `make fuzz` reads mutations."""

import numpy as np
import pytest

from fuzz.__main__ import CORPUS, TARGETS, run
from rankwise.errors import DataError
from rankwise.tables import csv_text

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


@pytest.mark.parametrize("limit", ["MOST_LOST", "NEAR_TIE"])
def test_a_check_of_exports_that_is_too_lenient_is_found(monkeypatch, tmp_path, limit):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("lightgbm")
    monkeypatch.setattr("fuzz.__main__.FOUND", tmp_path)
    monkeypatch.setattr("rankwise.export.checks.TOLERANCE", {"float32": 9.0, "float64": 9.0})
    monkeypatch.setattr(f"rankwise.export.checks.{limit}", 1.0)
    _, found = run("exports", 0, 1000.0, 15)
    assert any("pairs are lost, and passed" in words or "in place of" in words for words in found)


def test_a_page_that_fails_is_found(monkeypatch, tmp_path):
    monkeypatch.setattr("rankwise.asking.web.app.as_number", int)
    with pytest.raises(ValueError, match="invalid literal"):
        TARGETS["asking"](
            (CORPUS / "asking/answers").read_bytes(), np.random.default_rng(0), tmp_path
        )


def test_a_page_that_is_open_to_all_is_found(monkeypatch, tmp_path):
    from rankwise.asking.web.guards import Doorkeeper

    visitor = Doorkeeper.visitor
    monkeypatch.setattr(Doorkeeper, "visitor", lambda self, request, **_: visitor(self, request))
    with pytest.raises(AssertionError, match="forger: a foreign key"):
        TARGETS["asking"](
            (CORPUS / "asking/organizer").read_bytes(), np.random.default_rng(0), tmp_path
        )


def test_a_name_that_is_changed_is_found(monkeypatch, tmp_path):
    monkeypatch.setattr(
        "rankwise.asking.session_exports.csv_text",
        lambda names, rows, for_spreadsheets=False: csv_text(names, rows, for_spreadsheets=True),
    )
    with pytest.raises(DataError, match="unknown item"):
        TARGETS["names"](
            (CORPUS / "names/formulas").read_bytes(), np.random.default_rng(0), tmp_path
        )


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_mutations(target):
    n_inputs, found = run(target, 1, 20.0)
    assert n_inputs
    assert found == []
