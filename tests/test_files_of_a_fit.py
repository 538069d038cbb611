"""How many files of the package a fit with a chosen alpha runs through."""

import sys
from pathlib import Path

import numpy as np

import rankwise
from rankwise import RankRLS

PACKAGE = str(Path(rankwise.__file__).parent)
MOST = 20


def files_of(call):
    """The files of the package whose functions a call runs; imports do not count."""
    found = set()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name != "<module>":
            found.add(str(Path(code.co_filename).relative_to(PACKAGE)))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return sorted(found)


def test_a_fit_runs_through_few_files(capsys):
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((300, 5)), np.arange(300) // 10
    y = np.round(X[:, 0]).clip(0, 4)
    RankRLS().fit(X, y, qid=qid)  # imports and compiles
    files = files_of(lambda: RankRLS(alpha="auto").fit(X, y, qid=qid))
    with capsys.disabled():
        print(f"\n{len(files)} files: {', '.join(files)}")
    assert len(files) <= MOST
