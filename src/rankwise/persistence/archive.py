"""Members of a model file: never compressed, never larger than the file, never pickled."""

from __future__ import annotations

import io
from hashlib import sha256
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import ModelFileError


def add_member(archive: ZipFile, content: Any, suffix: str) -> str:
    """Write bytes, unless they are there already, and return the name of their member."""
    name = f"{sha256(content).hexdigest()[:16]}.{suffix}"
    if name not in archive.namelist():
        archive.writestr(ZipInfo(name), content)  # without the time: files are reproducible
    return name


def add_array(archive: ZipFile, array: NDArray[Any]) -> str:
    """Write an array in NumPy's own format, and return the name of its member."""
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return add_member(archive, content.getbuffer(), "npy")


def read_array(archive: ZipFile, name: str) -> NDArray[Any]:
    """Read an array; objects, which would need pickle, are refused."""
    return np.asarray(np.load(io.BytesIO(archive.read(name)), allow_pickle=False))


def check_members(archive: ZipFile, n_bytes: int) -> None:
    """Members are not compressed, so that a small file cannot ask for much memory."""
    members = archive.infolist()
    if any(member.compress_type != ZIP_STORED for member in members):
        raise ModelFileError("it has compressed members, which rankwise does not write")
    if sum(member.file_size for member in members) > n_bytes:
        raise ModelFileError("its members are larger than the file")
