"""What `import` loads, and what the tools beside the package import from it."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
@pytest.mark.ci
def test_small_problems_import_no_compiler_and_the_first_page_imports_no_estimators():
    """One process for both, which first imports what must be light."""
    pytest.importorskip("starlette", reason="needs the extra ask")
    code = (
        "import sys, numpy as np\n"
        "def imports(*names):\n"
        "    found = set(names) & set(sys.modules)\n"
        "    if found: sys.exit(str(found))\n"
        "import rankwise.asking.web.app\n"
        "imports('sklearn', 'matplotlib', 'numba', 'rankwise.report')\n"
        "from rankwise import RankRLS\n"
        "imports('numba', 'rich', 'matplotlib', 'sklearn.cluster', 'torch')\n"
        "from rankwise import AutoRanker, KPCRank, Leaderboard, RankSVM, SparseRankRLS\n"
        "from rankwise.metrics import evaluate_ranking\n"
        "X = np.random.default_rng(0).standard_normal((200, 4))\n"
        "y, qid = np.clip(np.round(X[:, 0] + X[:, 1]), 0, 3), np.arange(200) // 10\n"
        "for ranker in (RankRLS(), RankSVM(), SparseRankRLS(n_landmarks=20), KPCRank(),\n"
        "               AutoRanker(boosted=False)):\n"
        "    ranker.fit(X, y, qid=qid)\n"
        "Leaderboard().fit(['a', 'b', 'c'], ['b', 'c', 'a'], ['first'] * 3)\n"
        "evaluate_ranking(y, X[:, 0], qid=qid)\n"
        "imports('numba')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("folder", ["benchmarks", "reproduce", "fuzz"])
def test_what_tools_import_from_the_package_exists(folder):
    """Tests cannot run all of these tools: some need libraries that are not installed here."""
    missing, n_names = [], 0
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                "rankwise"
            ):
                continue
            if "torch" in node.module:
                continue
            for alias in node.names:
                n_names += 1
                if not _exists(node.module, alias.name):
                    missing.append(f"{path.relative_to(ROOT)}: {node.module}.{alias.name}")
    assert n_names > 5
    assert missing == []


def _exists(module, name):
    if hasattr(import_module(module), name):
        return True
    try:
        import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True
