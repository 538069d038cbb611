"""All code blocks of the README and of the guides run, and all links point to existing files."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scripts import run_commands, run_script

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [
    README,
    *(page for page in sorted((ROOT / "docs" / "guide").glob("*.md")) if page.stem != "index"),
]
LINKED = [
    *(*PAGES, ROOT / "CONTRIBUTING.md"),
    *(ROOT / "docs" / name for name in ("architecture.md", "choosing.md", "index.md", "papers.md")),
]
BLOCK = re.compile(r"```(python|bash)\n(.*?)```", flags=re.DOTALL)


def blocks(page, language):
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [block for kind, block in found if kind == language]


SLOW = {"best-ranker", "comparisons", "components", "preferences", "trees"}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.slow] if page.stem in SLOW else [])
        for page in PAGES
    ],
)
def test_blocks_run(page, tmp_path):
    """Python blocks in order, in one namespace, then the shell blocks in the same folder."""
    if page.stem == "gpu":
        pytest.importorskip("torch", reason="needs the extra gpu")
    if page.stem in ("README", "trees"):
        pytest.importorskip("lightgbm", reason="needs the extra boost")
    if page.stem in ("README", "deploying"):
        pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    script = tmp_path / "page.py"
    first = 1 if page == README else 0  # its first block has a test of its own
    script.write_text("\n".join(blocks(page, "python")[first:]), encoding="utf-8")
    assert script.stat().st_size
    run_script(script)
    for block in blocks(page, "bash"):
        run_commands(block, tmp_path)


@pytest.mark.slow
def test_the_first_block_of_the_readme_runs_in_a_process_of_its_own(tmp_path):
    """What a new user tries first, in a new interpreter with warnings as errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", blocks(README, "python")[0]],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "NDCG@10" in done.stdout


@pytest.mark.parametrize("page", LINKED, ids=lambda path: path.stem)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []
