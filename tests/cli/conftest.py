"""A small ranking problem in files, and a function that runs the program in this process."""

from collections import namedtuple

import numpy as np
import pytest

from rankwise.data import make_ranking, write_letor
from tests.scripts import invoke

Files = namedtuple("Files", "train valid test")


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Queries 0 to 9, 10 to 14 and 15 to 24 of one problem; features on different scales."""
    folder = tmp_path_factory.mktemp("letor")
    problem = make_ranking(
        25,
        rows_per_query=(4, 9),
        n_features=6,
        noise=0.5,
        n_levels=4,
        grading="global",
        random_state=0,
    )
    X = np.round(problem.X * [1, 10, 0.1, 1, 100, 1], 3)
    for name, low, high in (("train", 0, 10), ("valid", 10, 15), ("test", 15, 25)):
        rows = (problem.qid >= low) & (problem.qid < high)
        write_letor(folder / f"{name}.txt", X[rows], problem.y[rows], problem.qid[rows])
    return Files(*(folder / f"{name}.txt" for name in Files._fields))


@pytest.fixture
def run():
    """Run the program; `ok=False` expects exit code 2 and returns its error."""

    def run(*arguments, ok=True):
        result = invoke(arguments)
        if ok:
            assert result.exit_code == 0, result.stderr or result.exception
            return result
        assert result.exit_code == 2, result.output
        assert isinstance(result.exception, SystemExit)
        assert result.stdout == ""
        line, *more, end = result.stderr.split("\n")
        assert end == ""
        assert line.startswith("rankwise: error: ")
        if more:  # several problems of a table, or a command that works
            assert more[-1].startswith("  rankwise ")
        return "\n".join([line.removeprefix("rankwise: error: "), *more])

    return run


@pytest.fixture
def model(files, run, tmp_path):
    """A fitted model in a file."""
    path = tmp_path / "model.rankwise"
    run("fit", files.train, "--out", path)
    return path
