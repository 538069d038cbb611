"""A trial of a model that was read: what an edited file lacks shows at once, not in the middle."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import OneToOneFeatureMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from rankwise.errors import ModelFileError, RankwiseError

MOST_DENSE = 10_000  # features of rows that are not sparse


def check_that_it_scores(model: Any) -> None:
    """Raise an error if a model cannot score two rows of zeros, or gives no finite numbers.

    A model may refuse such rows in words; any other error is one of the file.
    """
    ranker = getattr(model, "best_estimator_", model)
    if hasattr(ranker, "steps"):
        for _, step in ranker.steps:
            if hasattr(step, "fit"):  # not "passthrough"
                check_is_fitted(step, msg="its %(name)s is not fitted")
        for _, step in ranker.steps[:-1]:
            if hasattr(step, "fit") and not hasattr(step, "transform"):
                raise ModelFileError(f"its {type(step).__name__} is not a transformer")
        _check_widths([step for _, step in ranker.steps if hasattr(step, "fit")])
        ranker = ranker.steps[-1][1]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            rows = _rows(ranker)
            scores = np.asarray(ranker.predict(*rows), dtype=np.float64)
    except (RankwiseError, MemoryError):
        return
    except Exception as error:
        raise ModelFileError(f"its {type(ranker).__name__} cannot score rows: {error}") from error
    if not np.isfinite(scores).all() or (rows and (len(scores) != 2 or not scores.size)):
        raise ModelFileError(
            f"its {type(ranker).__name__} does not give finite scores, one per row"
        )


def _check_widths(steps: list[Any]) -> None:
    """Each step must take as many features as the step before it gives, where that is known."""
    given = None
    for step in steps:
        taken = getattr(step, "n_features_in_", None)
        names = getattr(step, "feature_names_in_", None)
        if taken is not None and names is not None and len(names) != taken:
            raise ModelFileError(
                f"its {type(step).__name__} takes {taken} features, but it has {len(names)} names"
            )
        if taken is not None and given is not None and given != taken:
            raise ModelFileError(
                f"its {type(step).__name__} takes {taken} features, but the step before it gives "
                f"{given}"
            )
        given = _n_features_out(step)


def _n_features_out(step: Any) -> int | None:
    """The number of columns that a transformer gives; None if it is not known."""
    if isinstance(step, OneToOneFeatureMixin):
        return getattr(step, "n_features_in_", None)
    if hasattr(step, "n_features_out_"):
        return int(step.n_features_out_)
    try:
        few = step.n_features_in_ <= MOST_DENSE  # names take memory
        return len(step.get_feature_names_out()) if few else None
    except (AttributeError, NotFittedError, TypeError, ValueError):  # no names, or not of all
        return None


def _rows(ranker: Any) -> list[Any]:
    """What `predict` takes: nothing for the ratings of items, and two kinds of rows for pairs."""
    if hasattr(ranker, "ratings_"):
        return []
    widths = [ranker.n_features_in_]
    if hasattr(ranker, "n_document_features_"):
        widths.append(ranker.n_document_features_)
    return [
        np.zeros((2, width)) if width <= MOST_DENSE else sp.csr_array((2, width))
        for width in widths
    ]
