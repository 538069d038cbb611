"""Files that are never half-written, and files that can be read again."""

from __future__ import annotations

import errno
import glob
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rankwise.errors import DataError

if sys.platform != "win32":
    import fcntl

DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # errors of disks that are full
NAME = 40  # characters of a file name that its temporary file repeats


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raise an error for a folder, and for a pipe or device: what is read twice must be a file.

    Examples
    --------
    >>> check_regular("/dev/null")
    Traceback (most recent call last):
    rankwise.errors.DataError: /dev/null is a pipe or a device. Save its content to a file first.
    """
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise DataError(f"{path} is a folder. Give one file in it.")
    if not stat.S_ISREG(mode):
        raise DataError(f"{path} is a pipe or a device. Save its content to a file first.")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new, empty file next to `path`, which replaces `path` at the end of the block.

    If the block raises an error, the new file is removed and `path` stays as it was. If the program
    is killed, the new file remains; the next block for the same `path` removes it. Links are
    followed. An existing file keeps its permissions; a new one gets the default ones (umask).
    What is not a regular file, such as ``/dev/null`` or a pipe, cannot be replaced: the block
    writes to it directly.

    Parameters
    ----------
    path : path-like

    Yields
    ------
    Path
        Where to write.

    Raises
    ------
    OSError
        If the folder of `path` does not exist or cannot be written to, or `path` is a folder.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "scores.txt")) as beside:
    ...         _ = beside.write_text("0.5")
    ...     [(file.name, file.read_text()) for file in Path(folder).iterdir()]
    [('scores.txt', '0.5')]
    """
    mode = os.stat(path).st_mode if os.path.exists(path) else None
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a folder, where a file should go", str(path))
    if mode is not None and not stat.S_ISREG(mode):
        yield Path(path)
        return
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(target.parent))
    _remove_abandoned(target)
    beside, lock = _new_file(target)
    try:
        if mode is not None:
            beside.chmod(stat.S_IMODE(mode))
        yield beside
        os.replace(beside, target)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in DISK and error.filename is None:
            error.filename = str(path)  # writes to an open file do not name it
        raise
    finally:
        os.close(lock)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file, in UTF-8, whose lines end as in `text`; it is never half-written."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8", newline="")


def _new_file(target: Path) -> tuple[Path, int]:
    """An empty file beside the target, and a descriptor that locks it until it is closed."""
    while True:
        beside = target.with_name(f".{target.name[:NAME]}.{secrets.token_hex(4)}.tmp")
        # Not tempfile, whose files only their owner may read.
        descriptor = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        _lock(descriptor, wait=True)
        if os.fstat(descriptor).st_nlink:
            return beside, descriptor
        os.close(descriptor)  # another program took it for abandoned before it was locked


def _remove_abandoned(target: Path) -> None:
    """Remove the temporary files of programs that were killed while they wrote to the target.

    The files of running programs are locked; the system removes the locks of programs that have
    ended.
    """
    begin = target.with_name(f".{target.name[:NAME]}.")
    for file in glob.glob(f"{glob.escape(str(begin))}{'[0-9a-f]' * 8}.tmp"):
        with suppress(OSError):
            descriptor = os.open(file, os.O_RDONLY)
            try:
                if _lock(descriptor, wait=False):
                    os.unlink(file)
            finally:
                os.close(descriptor)


def _lock(descriptor: int, *, wait: bool) -> bool:
    """Lock an open file; False if another program has, or if the file system has no locks."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True
