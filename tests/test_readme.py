"""Every block of the README runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```(python|bash)\n(.*?)```", README.read_text(), flags=re.DOTALL)
PYTHON = [block for language, block in BLOCKS if language == "python"]
SHELL = [block for language, block in BLOCKS if language == "bash"]


def test_python_blocks_run(tmp_path):
    """In order, in one process: a block may go on from the one before."""
    assert len(PYTHON) >= 4
    script = tmp_path / "readme.py"
    script.write_text("\n".join(PYTHON))
    done = subprocess.run(
        [sys.executable, "-W", "error", script], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "NDCG@10" in done.stdout


@pytest.mark.parametrize("block", SHELL)
def test_shell_blocks_run(block, tmp_path):
    command = f'export PATH="{Path(sys.executable).parent}:$PATH"\nset -e\n{block}'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo-output" / "scores.txt").exists()
