"""Tests that need a newer scikit-learn than the oldest that pyproject.toml names."""

import pytest
import sklearn

SCIKIT_LEARN = tuple(int(part) for part in sklearn.__version__.split(".")[:2])


def needs_scikit_learn(major, minor, *, because):
    """A mark that skips a test with older versions; docs/guide/scikit-learn.md tells users."""
    reason = f"scikit-learn before {major}.{minor} {because}"
    return pytest.mark.skipif((major, minor) > SCIKIT_LEARN, reason=reason)


scorers_of_rankers = needs_scikit_learn(1, 9, because="refuses rankers in scorers like roc_auc")
routed_scores = needs_scikit_learn(1, 8, because="passes no qid to score of a pipeline in a search")
