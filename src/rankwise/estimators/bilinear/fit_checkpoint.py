"""A long fit on disk: written atomically, and resumed only with the same data and parameters."""

from __future__ import annotations

import hashlib
import json
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import DataError, ModelFileError
from rankwise.files import replacing

NOTE = "note"
FORMAT = 7
"""Increases whenever the steps or their state change: a resumed run must end at the same W."""


def fingerprint(params: dict[str, Any], arrays: list[NDArray[Any]]) -> str:
    """A hash of parameters and data."""
    digest = hashlib.sha256(json.dumps(params, sort_keys=True, default=repr).encode())
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class FitCheckpoint:
    """The file of a fit, and the `fingerprint` of that fit."""

    path: Path
    owner: str

    def check_folder(self) -> None:
        """Raise an error before a long fit if the file cannot be written."""
        folder = self.path.resolve().parent
        if not folder.is_dir():
            raise DataError(f"There is no folder {folder} for the checkpoint: create it first.")
        try:  # permissions alone do not tell
            with tempfile.TemporaryFile(dir=folder):
                writable = not self.path.is_dir()
        except OSError:
            writable = False
        if not writable:
            raise DataError(f"The checkpoint {self.path} cannot be written: choose another path.")

    def save(self, note: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Write a note and arrays, replacing the file."""
        text = json.dumps({"format": FORMAT, "owner": self.owner, **note})
        with replacing(self.path) as beside, beside.open("wb") as file:
            members: dict[str, Any] = {NOTE: np.array(text), **arrays}
            np.savez(file, **members)

    def load(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """The note and arrays saved last; None if there is no file."""
        if not self.path.exists():
            return None
        try:
            if not zipfile.is_zipfile(self.path):
                raise ValueError("it is not an .npz file")
            with np.load(self.path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            note = json.loads(str(arrays.pop(NOTE)))
            owner, written_as = note["owner"], note["format"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ModelFileError(
                f"{self.path} is damaged or not a checkpoint of rankwise: {error}. Delete it to "
                "start again."
            ) from error
        if written_as != FORMAT:
            raise ModelFileError(
                f"The checkpoint {self.path} was written by another version of rankwise (format "
                f"{written_as}, expected {FORMAT}): resume with that version, or delete it to "
                "start again."
            )
        if owner != self.owner:
            raise DataError(
                f"The checkpoint {self.path} belongs to a fit to other data or with other "
                "parameters. Pass the same ones to resume it, or delete it to start again."
            )
        return note, arrays
