"""What `import` loads."""

import subprocess
import sys


def test_a_ranker_imports_no_compiler_and_no_other_estimators():
    code = (
        "import sys; from rankwise import RankRLS\n"
        "heavy = {'numba', 'rich', 'matplotlib', 'sklearn.cluster', 'torch'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
