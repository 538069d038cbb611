"""Names that have changed work for two minor versions, with a warning that names the new one."""

import ast
import inspect
import sys
import types
from pathlib import Path

import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rankwise
from rankwise import RankRLS
from rankwise.cli import terminal
from rankwise.deprecations import Former, former_names, former_parameters, present_options
from rankwise.errors import ParameterError
from tests.scripts import invoke

FOLDS = Former("n_folds", "n_splits", since="1.2")
GONE = Former("verbose", None, since="1.2")


def test_the_message_names_the_new_name_and_the_last_version():
    assert FOLDS.message == ("n_folds is now n_splits. The former name works until version 1.4.")
    assert GONE.message == (
        "verbose has no effect any more: leave it out. From version 1.4 on, it is an error."
    )


@former_parameters(FOLDS, GONE)
def split(rows, *, n_splits=2):
    """Split rows."""
    return rows, n_splits


def test_parameters_of_functions():
    with pytest.warns(FutureWarning, match="n_folds is now n_splits") as caught:
        assert split(3, n_folds=5) == (3, 5)
    assert caught[0].filename == __file__
    assert split(3, n_splits=4) == (3, 4)
    with pytest.warns(FutureWarning, match="verbose has no effect"):
        assert split(3, verbose=1) == (3, 2)
    with (
        pytest.warns(FutureWarning),
        pytest.raises(ParameterError, match="n_folds is n_splits: give one of them"),
    ):
        split(3, n_splits=4, n_folds=5)
    with pytest.raises(TypeError, match="other"):
        split(3, other=1)
    assert split.__doc__ == "Split rows."
    assert list(inspect.signature(split).parameters) == ["rows", "n_splits"]


@former_parameters(Former("lam", "alpha", since="1.2"))
class Ranker(RankRLS):
    def __init__(self, alpha=1.0):
        super().__init__(alpha)


def test_parameters_of_estimators():
    with pytest.warns(FutureWarning, match="lam is now alpha"):
        ranker = Ranker(lam=3.0)
    assert clone(ranker).get_params() == {"alpha": 3.0}
    with pytest.warns(FutureWarning, match="lam is now alpha"):
        assert clone(ranker).set_params(lam=5.0).alpha == 5.0
    pipeline = make_pipeline(StandardScaler(), ranker)
    with pytest.warns(FutureWarning):
        assert pipeline.set_params(ranker__lam=7.0)["ranker"].alpha == 7.0
    rows = [[0.0], [1.0], [2.0], [3.0]]
    with pytest.warns(FutureWarning):
        search = GridSearchCV(ranker, {"lam": [0.1]}, cv=2).fit(rows, [0, 1, 2, 3])
    assert search.best_estimator_.alpha == 0.1
    with pytest.raises(ValueError, match="Invalid parameter 'other'"):
        ranker.set_params(other=1)


def test_names_of_modules(monkeypatch):
    module = types.ModuleType("toy")
    module.new = 7
    module.__getattr__ = former_names("toy", Former("old", "new", since="1.2"))
    monkeypatch.setitem(sys.modules, "toy", module)
    with pytest.warns(FutureWarning, match="old is now new") as caught:
        from toy import old
    assert old == 7
    assert {warning.filename for warning in caught} == {__file__}
    with pytest.raises(AttributeError, match="module 'toy' has no attribute 'other'"):
        _ = module.other
    with pytest.raises(ImportError):
        from toy import other  # noqa: F401


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ("train --gamma 0.1 -q", "train --set gamma=0.1 -q"),
        ("train --gamma=0.1", "train --set gamma=0.1"),
        ("train --folds 3", "train --splits 3"),
        ("train --folds=3", "train --splits=3"),
        ("train --folds 3 --folds 4", "train --splits 3 --splits 4"),
        ("train --other 3", "train --other 3"),
        ("train -- --folds", "train -- --folds"),
        ("train --gamma", "train --set gamma="),
    ],
)
def test_options_are_replaced(given, want, recwarn):
    formers = [
        Former("--gamma", "--set gamma=", since="1.2"),
        Former("--folds", "--splits", since="1.2"),
    ]
    assert present_options(given.split(), formers) == want.split()
    assert bool(len(recwarn)) == ("--s" in want)


def test_commands_take_former_options(tmp_path, monkeypatch):
    table = tmp_path / "battles.csv"
    table.write_text("model_a,model_b,winner\n" + "x,y,model_a\ny,z,model_a\nz,x,model_a\n" * 4)
    former = (Former("--reference", "--anchor", since="1.2"),)
    monkeypatch.setattr(terminal, "FORMER_OPTIONS", {"leaderboard": former})
    monkeypatch.setattr("warnings.filters", [("default", None, Warning, None, 0)])
    result = invoke(["leaderboard", table, "--reference", "x=1234"])
    assert result.exit_code == 0, result.output
    assert "1234" in result.stdout
    assert "rankwise: warning: --reference is now --anchor." in result.stderr
    assert invoke(["info", table, "--reference", "x"]).exit_code == 2


def formers(text):
    """The former names in the text of a module."""
    for node in ast.walk(ast.parse(text)) if "Former(" in text else ():
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Former":
            given = [each.value for each in node.args]
            since = {each.arg: each.value.value for each in node.keywords}["since"]
            yield Former(*given, since=since)


def test_no_former_name_stays_longer_than_it_says():
    """Remove what this test lists, and state it in CHANGELOG.md."""
    assert [*formers('names = [Former("n_folds", "n_splits", since="1.2")]')] == [FOLDS]
    now = [int(number) for number in rankwise.__version__.split(".")[:2]]
    modules = Path(rankwise.__file__).parent.rglob("*.py")
    found = [each for path in modules for each in formers(path.read_text(encoding="utf-8"))]
    due = [former for former in found if now >= [int(n) for n in former.until.split(".")]]
    assert due == []
