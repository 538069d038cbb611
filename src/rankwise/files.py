"""Files that are never half-written."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new, empty file next to `path`, which replaces `path` at the end of the block.

    If the block raises an error, the new file is removed and `path` stays as it was. Links are
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
    beside = target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}.tmp")
    # Not tempfile, whose files only their owner may read.
    os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        if mode is not None:
            beside.chmod(stat.S_IMODE(mode))
        yield beside
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
