"""A long fit on disk: never half-written, and only gone on with where it belongs."""

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
FORMAT = 2
"""Goes up whenever steps or their state change: a run must end where it would have ended."""


def fingerprint(params: dict[str, Any], arrays: list[NDArray[Any]]) -> str:
    """A short text that another problem, or other parameters, would not have."""
    digest = hashlib.sha256(json.dumps(params, sort_keys=True, default=repr).encode())
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Checkpoint:
    """Where a fit is kept, and which fit it is.

    Attributes
    ----------
    path : Path
    owner : str
        What `fingerprint` says of the fit.
    """

    path: Path
    owner: str

    def check_folder(self) -> None:
        """The file can be written: said before a long fit, not after it."""
        folder = self.path.resolve().parent
        if not folder.is_dir():
            raise DataError(f"There is no folder {folder} to keep a checkpoint in: make it first.")
        try:  # what may be written is known only by trying
            with tempfile.TemporaryFile(dir=folder):
                writable = not self.path.is_dir()
        except OSError:
            writable = False
        if not writable:
            raise DataError(f"The checkpoint {self.path} cannot be written: choose another place.")

    def save(self, note: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Write a note and arrays, in the place of what was there."""
        text = json.dumps({"format": FORMAT, "owner": self.owner, **note})
        with replacing(self.path) as beside, beside.open("wb") as file:
            members: dict[str, Any] = {NOTE: np.array(text), **arrays}
            np.savez(file, **members)

    def load(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """What was saved last; None if there is no file."""
        if not self.path.exists():
            return None
        try:
            if not zipfile.is_zipfile(self.path):
                raise ValueError("it is no .npz file")
            with np.load(self.path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            note = json.loads(str(arrays.pop(NOTE)))
            owner, written_as = note["owner"], note["format"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ModelFileError(
                f"{self.path} is damaged or no checkpoint of rankwise: {error}. Delete it to begin "
                "anew."
            ) from error
        if written_as != FORMAT:
            raise ModelFileError(
                f"The checkpoint {self.path} was written by another version of rankwise (format "
                f"{written_as}, this one is {FORMAT}): go on with that version, or delete it to "
                "begin anew."
            )
        if owner != self.owner:
            raise DataError(
                f"The checkpoint {self.path} is of a fit to other data or with other parameters. "
                "Give these again to go on with it, or delete it to begin anew."
            )
        return note, arrays
