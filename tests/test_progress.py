"""Progress in notebooks, and the note about compilation."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
from sklearn.gaussian_process.kernels import RBF

from rankwise import Leaderboard, PairwiseGP, RankingSearchCV, RankRLS, progress
from rankwise.backends.loop_cache import CompileNote
from rankwise.data import make_ranking
from rankwise.errors import ParameterError
from rankwise.progress import in_notebook, is_quiet, late_progress_bar, progress_bar, quiet


@pytest.fixture
def notebook(monkeypatch):
    """A Jupyter kernel, as far as progress needs one; collects the lines that it would show."""
    lines = []
    handle = SimpleNamespace(update=lambda line, raw: lines.append(line["text/plain"]))

    def display(line, *, raw, display_id):
        assert raw
        assert display_id
        lines.append(line["text/plain"])
        return handle

    python, module = ModuleType("IPython"), ModuleType("IPython.display")
    python.get_ipython = lambda: SimpleNamespace(kernel=object())
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", python)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return lines


def test_a_line_in_a_notebook_is_replaced(notebook, capsys):
    assert in_notebook()
    with progress_bar("fit", 200) as show:
        show(50, "loss 0.5")
        show(60)  # too soon after the first
        show(200, "loss 0.1")
    first, last = notebook
    assert first.startswith("fit  25%  ")
    assert first.endswith(" s  loss 0.5")
    assert last.startswith("fit  100%  ")
    assert capsys.readouterr() == ("", "")


def test_the_last_line_in_a_notebook_stays(notebook):
    with progress_bar("fit", 0) as show:
        for done in range(1, 1001):
            show(done)
    assert notebook[-1].startswith("fit  1,000  ")


def test_a_late_bar_appears_after_a_second(notebook, monkeypatch):
    clock = iter([0.0, 0.5, 1.5, *[2.0] * 9])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    with late_progress_bar("fit", 8) as show:
        show(2)
        assert notebook == []
        show(4)
    assert notebook[0].startswith("fit  50%  ")


def test_a_long_fit_of_ratings_shows_progress(notebook, monkeypatch):
    battles = ["a", "b"] * 18, ["b", "a"] * 18, [1, 0, 1, 1] * 9
    Leaderboard(n_draws=100).fit(*battles)
    assert notebook == []
    monkeypatch.setattr(progress, "LATE", 0.0)
    Leaderboard(n_draws=100).fit(*battles)
    assert notebook[0].startswith("Ratings  ")


def test_a_bar_within_a_bar_is_part_of_it(notebook):
    with progress_bar("outer", 0) as outer:
        outer(1)
        with progress_bar("inner", 4) as show:
            show(2)
        outer(2, "two")
    assert all(line.startswith("outer  ") for line in notebook)
    assert notebook[-1].endswith("two")


def test_a_search_shows_progress_in_a_notebook(notebook):
    data = make_ranking(n_queries=4, rows_per_query=4, n_features=2, random_state=0)
    search = RankingSearchCV(RankRLS(), {"alpha": [1.0], "ties": ["include", "exclude"]})
    search.fit(data.X, data.y, qid=data.qid)
    assert notebook == []
    search.set_params(verbose=True).fit(data.X, data.y, qid=data.qid)
    assert notebook[-1].startswith("Searching  100%  ")


def test_a_gaussian_process_shows_its_posteriors(notebook):
    gp = PairwiseGP(RBF(1.0), optimizer=None, flips=0)
    X, pairs = [[0.0], [1.0], [2.0]], [[0, 1], [1, 2]]
    gp.fit_pairs(X, pairs)
    assert notebook == []
    gp.set_params(verbose=True).fit_pairs(X, pairs)
    (line,) = notebook
    assert line.startswith("Posteriors  1  ")
    assert line.endswith(f"log evidence {gp.log_marginal_likelihood_value_:.4g}")
    with pytest.raises(ParameterError, match="verbose must be"):
        gp.set_params(verbose="yes").fit_pairs(X, pairs)


def test_a_total_that_is_not_known(capsys):
    with progress_bar("fit", 0, keep=True) as show:
        show(7, "almost done")
    line = capsys.readouterr().err
    assert "%" not in line
    assert "almost done" in line


def test_quiet_shows_nothing(notebook, capsys):
    note = CompileNote()
    note.patience = -1.0
    with quiet():
        with progress_bar("fit", 2, keep=True) as show:
            show(1)
        note.on_start(compile_event("rankwise.metrics"))
        note.on_end(compile_event("rankwise.metrics"))
    assert notebook == []
    assert capsys.readouterr() == ("", "")
    assert not is_quiet()


def test_no_progress_in_files(capsys):
    with progress_bar("fit", 2) as show:
        show(1)
    assert capsys.readouterr() == ("", "")
    with progress_bar("fit", 2, keep=True) as show:
        show(2, "done")
    assert "100%" in capsys.readouterr().err


def compile_event(module):
    function = SimpleNamespace(__module__=module)
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


def test_long_compilation_is_explained_once(notebook, capsys):
    note = CompileNote()
    note.patience = -1.0  # any time is long
    for _ in range(2):
        note.on_start(compile_event("rankwise.metrics"))
        note.on_end(compile_event("rankwise.metrics"))
    assert capsys.readouterr().err.count("compiles its loops at their first use") == 1


def test_short_compilation_and_that_of_others_is_not_mentioned(notebook, capsys):
    note = CompileNote()
    note.patience = 1e6
    note.on_start(compile_event("rankwise.metrics"))
    note.on_start(compile_event("numba.np"))
    note.on_end(compile_event("numba.np"))
    assert note.depth == 1
    note.on_end(compile_event("rankwise.metrics"))
    assert note.depth == 0
    assert note.seconds > 0
    other = CompileNote()
    other.on_start(compile_event("somebody.else"))
    other.on_end(compile_event("somebody.else"))
    assert other.seconds == 0
    assert capsys.readouterr().err == ""


def test_compilation_is_not_mentioned_in_files(capsys):
    note = CompileNote()
    note.patience = -1.0
    note.on_start(compile_event("rankwise.metrics"))
    note.on_end(compile_event("rankwise.metrics"))
    assert capsys.readouterr().err == ""
