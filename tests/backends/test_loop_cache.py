"""The cache of compiled loops: damaged files, a full disk, two programs at once."""

import errno
import importlib.util

import pytest
from numba.core.caching import IndexDataCacheFile

from rankwise.backends.jit import compiled
from rankwise.backends.loop_cache import _LoopFiles


def test_damaged_files_are_written_again_and_a_full_disk_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")
    monkeypatch.setattr("rankwise.backends.jit.LOOPS", [])  # others are to find ours alone
    source = tmp_path / "loop.py"
    source.write_text("def twice(x):\n    return x + x\n")
    spec = importlib.util.spec_from_file_location("loop", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def full(self, path):
        raise OSError(errno.ENOSPC, "No space left on device", path)

    with monkeypatch.context() as during:
        during.setattr(IndexDataCacheFile, "_open_for_write", full)
        assert compiled(module.twice)(3) == 6
    assert not list(tmp_path.glob("*/*.nb?"))
    for suffix, keep in (("nbc", 20), ("nbi", 0)):
        compiled(module.twice)(3)
        (file,) = tmp_path.glob(f"*/*.{suffix}")
        file.write_bytes(file.read_bytes()[:keep])
        again = compiled(module.twice)
        assert again(3) == 6
        assert len(again.stats.cache_misses) == 1
        assert len(file.read_bytes()) > keep
    whole = compiled(module.twice)
    assert whole(3) == 6
    assert not whole.stats.cache_misses


def test_two_programs_never_share_a_file(tmp_path):
    """Each has read an index without the types of the other."""
    first, second = (_LoopFiles(str(tmp_path), "loop", "source") for _ in range(2))
    first.save("int64", b"code for int64")
    index = tmp_path / "loop.nbi"
    of_first = index.read_bytes()
    index.unlink()
    second.save("float64", b"code for float64")
    assert second.load("float64") == b"code for float64"
    index.write_bytes(of_first)
    assert first.load("int64") == b"code for int64"


def test_code_of_a_changed_source_is_never_run(tmp_path, monkeypatch):
    """Although the program is killed while it writes to the cache."""
    _LoopFiles(str(tmp_path), "loop", "old source").save("int64", b"old code")
    new = _LoopFiles(str(tmp_path), "loop", "new source")

    class Killed(BaseException):
        pass

    def kill(self, name, data):
        raise Killed

    monkeypatch.setattr(IndexDataCacheFile, "_save_data", kill)
    with pytest.raises(Killed):
        new.save("int64", b"new code")
    assert new.load("int64") is None
