"""Members of a model file: arrays and bytes, never compressed and never larger than the file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from numpy.lib import format as npy
from numpy.typing import NDArray

from rankwise.errors import ModelFileError

DTYPE_KINDS = "biufcSUmM"  # booleans, numbers, texts and times: nothing that needs pickle
ZIP64_BYTES = 2**30  # a member of this size or more gets the header for large files


class ArchiveWriter:
    """Writes the members of a model file.

    Parameters
    ----------
    archive : ZipFile
        Open for writing.
    """

    def __init__(self, archive: ZipFile) -> None:
        self._archive = archive
        self._arrays: dict[int, tuple[str, NDArray[Any]]] = {}  # holds them, so that ids are unique
        self._n_parts = 0

    def add_array(self, array: NDArray[Any]) -> str:
        """Write an array, once for all places that share it, and return the name of its member."""
        if id(array) not in self._arrays:
            name = f"arrays/{len(self._arrays)}.npy"
            large = array.nbytes >= ZIP64_BYTES
            with self._archive.open(ZipInfo(name), "w", force_zip64=large) as member:
                npy.write_array(member, array, allow_pickle=False)
            self._arrays[id(array)] = name, array
        return self._arrays[id(array)][0]

    def add_part(self, content: bytes) -> str:
        """Write a part of scikit-learn and return the name of its member."""
        name = f"scikit-learn/{self._n_parts}.skops"
        self._n_parts += 1
        self.add_bytes(name, content)
        return name

    def add_bytes(self, name: str, content: bytes) -> None:
        """Write a member."""
        self._archive.writestr(ZipInfo(name), content)  # without the time, so files can be compared


class ArchiveReader:
    """Reads the members of a model file.

    Parameters
    ----------
    archive : ZipFile
    path : Path
        Of the file.
    """

    def __init__(self, archive: ZipFile, path: Path) -> None:
        check_members(archive, path.stat().st_size)
        self._archive = archive
        self._arrays: dict[str, NDArray[Any]] = {}

    def read_bytes(self, name: str) -> bytes:
        """The content of a member."""
        return self._archive.read(self._info(name))

    def read_array(self, name: str) -> NDArray[Any]:
        """An array; the same object for all places that share it."""
        if name not in self._arrays:
            self._check_header(name)
            with self._archive.open(self._info(name)) as member:
                self._arrays[name] = npy.read_array(member, allow_pickle=False)
        return self._arrays[name]

    def _check_header(self, name: str) -> None:
        """The dtype is one that we write, and the declared shape is that of the data."""
        info = self._info(name)
        with self._archive.open(info) as member:
            version = npy.read_magic(member)
            if version == (1, 0):
                shape, _, dtype = npy.read_array_header_1_0(member)
            elif version == (2, 0):
                shape, _, dtype = npy.read_array_header_2_0(member)
            else:
                raise ModelFileError(f"{name} has version {version} of NumPy's array format")
            n_bytes = info.file_size - member.tell()
        if dtype.kind not in DTYPE_KINDS or not dtype.itemsize:
            raise ModelFileError(f"{name} has the dtype {dtype}, which no model uses")
        if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != n_bytes:
            raise ModelFileError(f"{name} declares the shape {shape}, but holds {n_bytes} bytes")

    def _info(self, name: str) -> ZipInfo:
        if not isinstance(name, str) or name not in self._archive.namelist():
            raise ModelFileError(f"there is no member {name!r}")
        return self._archive.getinfo(name)


def check_members(archive: ZipFile, n_bytes: int) -> None:
    """Members are not compressed, so that a small file cannot ask for much memory."""
    members = archive.infolist()
    if any(member.compress_type != ZIP_STORED for member in members):
        raise ModelFileError("it has compressed members, which rankwise does not write")
    if sum(member.file_size for member in members) > n_bytes:
        raise ModelFileError("its members are larger than the file")
