"""The driver: what it runs again, what it keeps, and what the page shows."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from reproduce import driver
from reproduce.pages import keep, kept, put_block
from reproduce.parts import PAPERS, Paper, Part

RUN = """\
from pathlib import Path
here = Path(__file__).parent
count = here / "count.txt"
n = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(n))
import sys
print("on the way", file=sys.stderr)
if "fail" in sys.argv:
    sys.exit("no luck")
readme = here / "README.md"
readme.write_text(f"# Toy\\n\\n<!-- tables: written by run.py -->\\n\\nrun {n}\\n")
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A repository with one experiment."""
    folder = tmp_path / "reproduce" / "toy"
    folder.mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "src" / "rankwise").mkdir(parents=True)
    (tmp_path / "src" / "rankwise" / "code.py").write_text("x = 1\n")
    (tmp_path / "reproduce" / "pages.py").write_text("")
    (folder / "run.py").write_text(RUN)
    (folder / "README.md").write_text("# Toy\n")
    (tmp_path / "data" / "numbers").mkdir(parents=True)
    (tmp_path / "data" / "numbers" / "a.txt").write_text("1")
    monkeypatch.setattr(driver, "ROOT", tmp_path)
    monkeypatch.setattr(driver, "PAGE", tmp_path / "docs" / "results.md")
    monkeypatch.setattr(driver, "DONE", tmp_path / ".cache" / "done.json")
    monkeypatch.setattr(driver, "RUNS", tmp_path / "reproduce" / "runs.json")
    monkeypatch.setattr(driver, "PAPERS", (paper(),))
    monkeypatch.setenv("RANKWISE_DATA", str(tmp_path / "data"))
    return tmp_path


def paper(*more, name="toy", **fields):
    part = Part(name, ("reproduce/toy/run.py", *more), ("tables",), ("numbers",))
    return Paper("toy", "A toy", "About.", "Why.", (part,), **fields)


def states(lines=None):
    lines = [] if lines is None else lines
    return [outcome.state for outcome in driver.run_all([], 1, lines.append)]


def test_a_part_runs_once(root):
    lines = []
    assert states(lines) == ["done"]
    assert "toy: on the way" in lines
    assert states() == ["kept"]
    assert (root / "reproduce" / "toy" / "count.txt").read_text() == "1"


@pytest.mark.parametrize(
    "changed", ["src/rankwise/code.py", "reproduce/toy/run.py", "data/numbers/a.txt"]
)
def test_a_change_of_code_or_data_runs_it_again(root, changed):
    assert states() == ["done"]
    path = root / changed
    path.write_text(path.read_text() + "\n")
    assert states() == ["done"]
    assert states() == ["kept"]


def test_a_failure_is_reported_and_tried_again(root, monkeypatch):
    monkeypatch.setattr(driver, "PAPERS", (paper("fail"),))
    outcomes = driver.run_all([], 1, lambda line: None)
    assert [outcome.state for outcome in outcomes] == ["failed"]
    assert "no luck" in driver.report(outcomes)
    assert states() == ["failed"]


def test_the_longest_start_first_and_are_reported_in_the_order_of_the_page(root, monkeypatch):
    lengths = {"short": 1, "long": 9, "middle": 3}
    papers = tuple(paper(name=name, minutes=minutes) for name, minutes in lengths.items())
    monkeypatch.setattr(driver, "PAPERS", papers)
    lines = []
    outcomes = driver.run_all([], 1, lines.append)
    started = [line.split(":")[0] for line in lines if line.endswith("started")]
    assert started == ["long", "middle", "short"]
    assert [outcome.part.name for outcome in outcomes] == list(lengths)


def test_nothing_starts_after_an_interruption(root, monkeypatch):
    ran, stopped = [], threading.Event()

    def run_part(paper, part, data, say):
        if part.name == "interrupted":
            raise KeyboardInterrupt
        assert stopped.wait(60)  # until the driver has seen the interruption
        ran.append(part.name)

    first, second = (Part(name, (), ()) for name in ("first", "second"))
    busy = Paper("busy", "Busy", "About.", "Why.", (first, second))
    monkeypatch.setattr(driver, "PAPERS", (paper(name="interrupted", minutes=9), busy))
    monkeypatch.setattr(driver, "run_part", run_part)
    monkeypatch.setattr(driver, "threading", SimpleNamespace(Event=lambda: stopped))
    with pytest.raises(KeyboardInterrupt):
        driver.run_all([], 2, lambda line: None)
    assert ran in ([], ["first"])


def test_a_change_of_code_that_is_used_runs_it_again(root, monkeypatch):
    other = root / "tests" / "oracles" / "slow.py"
    other.parent.mkdir(parents=True)
    other.write_text("x = 1\n")
    monkeypatch.setattr(driver, "PAPERS", (paper(uses=("../tests/oracles",)),))
    assert states() == ["done"]
    other.write_text("x = 2\n")
    assert states() == ["done"]


@pytest.mark.parametrize("folder", ["nowhere", None])
def test_without_data_a_part_is_skipped_and_the_page_says_so(root, monkeypatch, folder):
    assert states() == ["done"]
    if folder:
        monkeypatch.setenv("RANKWISE_DATA", str(root / folder))
    else:
        monkeypatch.delenv("RANKWISE_DATA")
    outcomes = driver.run_all([], 1, lambda line: None)
    assert [outcome.state for outcome in outcomes] == ["skipped"]
    driver.write_page(outcomes)
    page = (root / "docs" / "results.md").read_text()
    assert "did not run here (needs" in page
    assert "run 1" in page


def test_the_page_has_every_block(root):
    driver.write_page([])
    assert "*toy was not run.*" in (root / "docs" / "results.md").read_text()
    states()
    driver.write_page([])
    page = (root / "docs" / "results.md").read_text()
    assert "## A toy" in page
    assert "About. Why." in page
    assert "run 1" in page


def test_blocks_with_and_without_an_end():
    readme = (
        "text\n<!-- no block -->\nmore\n"
        "<!-- a b: written by run.py -->\n\none\n\n<!-- end of a b -->\n"
        "<!-- c: written by run.py -->\ntwo"
    )
    assert driver.blocks(readme) == {"a b": "one", "c": "two"}


def test_blocks_are_put_and_read(tmp_path):
    path = tmp_path / "README.md"
    path.write_text("before\n\n<!-- t: written by run.py -->\nold\n<!-- end of t -->\n\nafter\n")
    put_block(path, "t", "new")
    put_block(path, "u", "added")
    text = path.read_text()
    assert "old" not in text
    assert text.startswith("before")
    assert text.index("new") < text.index("after") < text.index("added")
    assert driver.blocks(text) == {"t": "new", "u": "added"}


def test_results_are_merged(tmp_path):
    path = tmp_path / "results.json"
    assert kept(path) == {}
    assert not path.exists()
    assert keep(path, {"a": [1, 2], "b": 1}) == {"a": [1, 2], "b": 1}
    assert keep(path, {"b": {"c": 2}}) == {"a": [1, 2], "b": {"c": 2}}
    assert json.loads(path.read_text()) == kept(path) == {"a": [1, 2], "b": {"c": 2}}
    assert "[1, 2]" in path.read_text()


def test_the_list_names_what_is_there():
    here = Path(driver.__file__).parent
    for listed in PAPERS:
        assert (here / listed.folder / "run.py").exists()
        readme = (here / listed.folder / "README.md").read_text(encoding="utf-8")
        written = [name for part in listed.parts for name in part.blocks]
        assert sorted(written) == sorted(driver.blocks(readme))
        assert all((here / folder).is_dir() for folder in listed.uses)
    names = [part.name for listed in PAPERS for part in listed.parts]
    assert len(names) == len(set(names))


@pytest.mark.slow
def test_no_folder_needs_the_packages_of_the_tests():
    """`make reproduce` installs the extra of that name, and not that of the tests."""
    modules = {part.arguments[1] for listed in PAPERS for part in listed.parts}
    missing = ("hypothesis", "pytest", "mpmath", "pandas", "polars", "pyarrow", "ranx")
    code = f"import importlib, sys; sys.modules.update(dict.fromkeys({missing}))\n"
    code += f"for module in {sorted(modules)}: importlib.import_module(module)"
    root = Path(driver.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
