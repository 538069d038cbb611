"""`rankwise compile` uses every compiled loop, so that all of them are in the cache."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import rankwise
from rankwise.cli import compiling

pytestmark = pytest.mark.ci


@pytest.mark.slow  # 45 s with an empty cache
def test_every_loop_is_in_the_cache(run):
    root = Path(rankwise.__file__).parent
    for source in root.rglob("*.py"):
        if "jit import compiled" in source.read_text(encoding="utf-8"):
            import_module(".".join(("rankwise", *source.relative_to(root).with_suffix("").parts)))
    result = run("compile")
    folder = Path(result.stdout.removeprefix("cache  ").rstrip("\n"))
    assert list(folder.rglob("*.nbc"))
    loops = compiling.loops_of_calls()
    assert len(loops) > 25
    assert [loop.__wrapped__.__name__ for loop in loops if not loop.overloads] == []


def test_no_folder_for_the_cache(run, monkeypatch):
    monkeypatch.setattr(compiling, "WORK", {})
    loop = SimpleNamespace(stats=SimpleNamespace(cache_path=None))
    monkeypatch.setattr(compiling, "loops_of_calls", lambda: [loop])
    assert "NUMBA_CACHE_DIR" in run("compile", ok=False)
