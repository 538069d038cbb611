"""Files whose feature numbers are hashes: of billions of them, those that occur are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.cli.terminal import note
from rankwise.errors import DataError

if TYPE_CHECKING:
    from rankwise.data import LetorData
    from rankwise.preprocessing import SeenFeatures

MOST_NUMBERED = 2**20
"""Feature numbers are taken for hashes if the largest exceeds this."""


def keep_seen(data: LetorData, path: Path) -> tuple[LetorData, SeenFeatures | None]:
    """Training rows with the features that occur, if feature numbers are hashes.

    New rows may have any feature number that can be read.
    """
    from scipy.sparse import csr_array

    from rankwise.data.letor.parsing import MAX_INDEX
    from rankwise.preprocessing import SeenFeatures

    X: Any = data.X
    if X.shape[1] <= MOST_NUMBERED or not isinstance(X, csr_array):
        return data, None
    largest = X.shape[1]
    X = csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], MAX_INDEX))
    seen = SeenFeatures().fit(X)
    note(
        f"{path} has feature numbers up to {largest:,}: the model has the {seen.n_features_out_:,} "
        "that occur, and ignores others in new files."
    )
    return replace(data, X=seen.transform(X)), seen


def seen_by(model: Any) -> SeenFeatures | None:
    """The features that a model, or its preparation, has seen, if it ignores others."""
    from rankwise.preprocessing import SeenFeatures

    steps = getattr(model, "steps", ())
    first = steps[0][1] if steps else None
    return first if isinstance(first, SeenFeatures) else None


def note_unseen(seen: SeenFeatures, data: LetorData, path: Path) -> None:
    """Say how many features of a file a model has not seen; an error if these are all."""
    import numpy as np

    X: Any = data.X
    used, unseen = np.unique(X.nonzero()[1]), seen.unseen(X)
    if len(unseen) == len(used) > 0:
        raise DataError(
            f"None of the {len(used):,} feature numbers in {path} occurs in the training rows of "
            "the model: do they belong together?"
        )
    if len(unseen):
        note(
            f"{len(unseen):,} of the {len(used):,} feature numbers in {path} do not occur in the "
            "training rows of the model, and are ignored."
        )
