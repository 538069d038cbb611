"""Checkpoints of the bilinear ranker that somebody has tampered with."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from rankwise import Shrinkage, SparseBilinearRanker
from rankwise.bilinear.bilinear_training import FitCheckpoint
from rankwise.errors import DataError, ModelFileError
from tests.bilinear.texts import texts

PLACES = [-1, 0, 1, 2**31, 2**40, -(2**63), 10**12]


def _ranker() -> SparseBilinearRanker:
    return SparseBilinearRanker(
        alpha=1e-3,
        n_iter=60,
        eta0=1.0,
        schedule="invsqrt",
        shrinkage=Shrinkage(every=7),
        random_state=0,
        refit=False,
    )


@cache
def _seed(folder: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """A problem, and the arrays of a checkpoint in the middle of its fit."""
    X, labels = texts()
    path = folder / "seed.npz"
    saved: list[bytes] = []
    save = FitCheckpoint.save

    def keep(self: FitCheckpoint, note: Any, arrays: Any) -> None:
        save(self, note, arrays)
        saved.append(path.read_bytes())

    with patch.object(FitCheckpoint, "save", keep):
        _ranker().fit_classes(X, labels, checkpoint=path, checkpoint_every=20)
    with np.load(io.BytesIO(saved[0])) as file:
        return (X, labels), {name: file[name] for name in file.files}


def check(data: bytes, rng: np.random.Generator, folder: Path) -> None:
    """A checkpoint is refused, or the fit ends with finite weights. `data` is not used."""
    (X, labels), arrays = _seed(folder)
    arrays = {name: array.copy() for name, array in arrays.items()}
    name = list(arrays)[rng.integers(len(arrays))]
    path = folder / "run.npz"
    kind = int(rng.integers(6))
    array = arrays[name]
    if kind == 0:
        del arrays[name]
    elif kind == 1 and name == "note":
        note = json.loads(str(array))
        key = list(note)[rng.integers(len(note))]
        note[key] = [None, -1, 1e300, "fit", [], {}, 10**12][rng.integers(7)]
        arrays[name] = np.array(json.dumps(note))
    elif kind == 1 and array.size and array.dtype.kind in "if":
        with np.errstate(all="ignore"):
            value = np.array(PLACES[rng.integers(len(PLACES))]).astype(array.dtype)
        array.flat[rng.integers(array.size)] = value
    elif kind == 2 and array.ndim:
        arrays[name] = array[: int(rng.integers(len(array) + 1))]
    elif kind == 3:
        arrays[name] = array[None]
    elif kind == 4 and array.dtype.kind in "if":
        arrays[name] = array.astype(str(rng.choice(["f4", "i4", "u1", "f8", "i8"])))
    out = io.BytesIO()
    np.savez(out, **arrays)
    content = bytearray(out.getvalue())
    if kind == 5:
        content = content[: rng.integers(len(content))]
    path.write_bytes(content)
    try:
        fitted = _ranker().fit_classes(X, labels, checkpoint=path, checkpoint_every=1000)
    except (ModelFileError, DataError):
        return
    assert np.isfinite(fitted.coef_.data).all(), "weights that are not finite"
