"""Every example runs, draws its figures and finds what its text says."""

import io
import re
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest
import sklearn

from docs.gallery_figures import run_example
from rankwise.plots import save_figure

EXAMPLES = Path(__file__).parents[1] / "examples"
pytestmark = pytest.mark.ci


@pytest.fixture
def without_data(monkeypatch):
    """No folder of real data: examples fall back to data that needs no download."""
    monkeypatch.setenv("RANKWISE_DATA", "")


def example(name, folder):
    """What an example prints; it writes nothing, and each of its figures shows something."""
    path = EXAMPLES / f"{name}.py"
    with (
        chdir(folder),
        patch.object(sys, "argv", [str(path), "--quick"]),
        sklearn.config_context(),  # restores the configuration that an example changes
        redirect_stdout(io.StringIO()) as printed,
    ):
        figures = run_example(path)
    assert list(folder.iterdir()) == []
    assert figures
    for figure in figures:
        assert save_figure(figure, folder / "figure.png").stat().st_size > 10_000
    return printed.getvalue()


TESTED = {  # by a function of their own, below
    "from_raw_data_to_the_best_ranker",
    "how_sure_is_the_auc",
    "leaderboard_of_models",
    "leading_and_spectral_components",
    "leave_pair_out_auc",
    "pooled_auc_bias",
    "reward_model",
    "sample_size_curve",
    "search_that_explains",
}
FAST = {"first_ranking"}  # the others take seconds: `make test-docs` runs them
FOUND = {  # what some of them must print
    "first_ranking": r"NDCG@10 +0\.9",
    "asking_the_right_questions": r"chosen: 90% .* after \d+ answers\nrandom:",
    "words_against_words": r"right order: 0\.9\d+\nby the number of common words: 0\.[456]",
    "why_this_above_that": r"mainly because of price (.|\n)*exact Shapley values",
    "from_training_to_production": r" 0 of [\d,]+ pairs lose (.|\n)*refused: Elasticsearch",
    "many_sparse_features": r"solver cg",
    "rules_and_trees_for_production": r"in [1-9]\d* places\n.*in 0 places\n.* 0 of [\d,]+ pairs",
}


def test_examples_are_for_the_gallery():
    """A title, cells with text, and at least twelve of them."""
    paths = sorted(EXAMPLES.glob("*.py"))
    assert len(paths) >= 12
    assert {path.stem for path in paths} >= TESTED | FAST | set(FOUND)
    for path in paths:
        text = path.read_text(encoding="utf-8")
        title, line = re.match(r'"""\n(.+)\n(=+)\n', text).groups()
        assert len(line) == len(title)
        assert text.count("\n# %%") >= 2, path.name


@pytest.mark.usefixtures("without_data")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.stem, marks=[] if path.stem in FAST else [pytest.mark.slow])
        for path in sorted(EXAMPLES.glob("*.py"))
        if path.stem not in TESTED
    ],
)
def test_example(name, tmp_path):
    printed = example(name, tmp_path)
    assert re.search(FOUND.get(name, ""), printed), printed


@pytest.mark.slow
def test_from_raw_data_to_the_best_ranker(tmp_path):
    printed = example("from_raw_data_to_the_best_ranker", tmp_path)
    low, high = map(float, re.search(r"expected:.*interval (\S+) to (\S+)", printed).groups())
    found, plain = map(float, re.search(r"new queries: (\S+); .* has (\S+)", printed).groups())
    assert low - 0.05 < found < high + 0.05
    assert found > plain + 0.02


@pytest.mark.slow
def test_how_sure_is_the_auc(tmp_path):
    printed = example("how_sure_is_the_auc", tmp_path)
    tables = re.findall(r"^[- ]+\n(.*)$", printed, flags=re.MULTILINE)
    interval, test, difference, nested = ([float(v) for v in line.split()] for line in tables)
    assert interval[1] < interval[0] < interval[2]
    assert test[3] == 0.01
    assert difference[2] == pytest.approx(difference[0] - difference[1], abs=1e-4)
    assert nested[4] > 0.9
    assert nested[5] > 0.2


@pytest.mark.slow
def test_leaderboard_of_models(tmp_path):
    printed = example("leaderboard_of_models", tmp_path)
    low, high = map(float, re.search(r"style .* \((\S+) to (\S+)\)", printed).groups())
    assert abs(0.183 - (low + high) / 2) < high - low  # four standard errors
    wide, narrow = map(float, re.findall(r"mean width (\S+),", printed))
    assert wide > 1.2 * narrow
    assert len(re.findall(r"item \d+ and item \d+", printed)) == 3


@pytest.mark.slow
def test_leading_and_spectral_components(tmp_path):
    printed = example("leading_and_spectral_components", tmp_path)
    rows = re.findall(r"^ +(\d+) +(0\.\d+) +(0\.\d+)$", printed, flags=re.MULTILINE)
    leading, spectral = (float(value) for value in rows[8][1:])  # p = 5, queries vary much
    assert rows[8][0] == "5"
    assert leading - spectral > 0.05
    assert float(re.search(r"they differ by (\S+)", printed)[1]) < 1e-9


@pytest.mark.slow
def test_leave_pair_out_auc_on_microarrays(data_folder, tmp_path):
    printed = example("leave_pair_out_auc", tmp_path)
    lines = [
        line.split() for line in printed.splitlines() if line[:5] in ("alon ", "golub", "shipp")
    ]
    best = {(study, kernel): max(map(float, values[:10])) for study, kernel, *values in lines}
    want = {
        ("alon", "linear"): 0.885,
        ("alon", "rbf"): 0.877,
        ("golub", "linear"): 0.998,
        ("golub", "rbf"): 0.991,
        ("shipp", "linear"): 0.997,
        ("shipp", "rbf"): 0.973,
    }
    assert best == pytest.approx(want, abs=0.002)
    assert [float(worst) < 1e-8 for worst in re.findall(r"differ by (\S+)", printed)] == [True] * 2


@pytest.mark.slow
@pytest.mark.usefixtures("without_data")
def test_leave_pair_out_auc_without_microarrays(tmp_path):
    printed = example("leave_pair_out_auc", tmp_path)
    assert "no microarray data" in printed
    assert "breast_cancer, rbf: " in printed


@pytest.mark.slow
def test_pooled_auc_bias(tmp_path):
    printed = example("pooled_auc_bias", tmp_path)
    signal_free = printed.split("Diabetes")[0]
    bias = {
        name: float(value)
        for name, value in re.findall(
            r"^(.+?)  +0\.\d+ +(-?0\.\d+)", signal_free, flags=re.MULTILINE
        )
    }
    assert bias["leave-one-out, pooled"] < -0.1
    assert abs(bias["leave-pair-out"]) < 0.1  # 20 samples: the standard error is 0.03


@pytest.mark.slow
@pytest.mark.usefixtures("without_data")
def test_a_search_that_explains_its_hits(tmp_path):
    printed = example("search_that_explains", tmp_path)
    found = re.findall(r"^(cosine|bilinear) +mean reciprocal rank (0\.\d+)", printed, re.MULTILINE)
    ranks = {name: float(value) for name, value in found}
    assert ranks["bilinear"] > ranks["cosine"]
    assert len(re.findall(r"\w+→\w+ [+-]\d", printed)) > 20


@pytest.mark.slow
def test_reward_model_on_human_preferences(data_folder, tmp_path):
    printed = example("reward_model", tmp_path)
    accuracy, loss = map(float, re.search(r"accuracy (\S+), log-loss (\S+)", printed).groups())
    assert accuracy > 0.55
    assert loss < 0.72
    assert len(re.findall(r"^compare \d+ and \d+:", printed, re.MULTILINE)) == 3


@pytest.mark.slow
@pytest.mark.usefixtures("without_data")
def test_reward_model_on_generated_preferences(tmp_path):
    printed = example("reward_model", tmp_path)
    assert "preferences are generated" in printed
    accuracy, loss = map(float, re.search(r"accuracy (\S+), log-loss (\S+)", printed).groups())
    assert accuracy > 0.75
    assert loss < 0.5


def falls(printed):
    """Number of landmarks -> error on their rows alone, and with all rows."""
    found = re.findall(r"(\d+) landmarks: error (0\.\d+) without .* (0\.\d+) with", printed)
    return {int(number): (float(start), float(end)) for number, start, end in found}


@pytest.mark.slow
def test_sample_size_curve_on_mnist(data_folder, tmp_path):
    found = falls(example("sample_size_curve", tmp_path))
    assert list(found) == [80, 200]
    assert all(end < 0.95 * start for start, end in found.values())
    assert found[200][1] < found[80][1]


@pytest.mark.slow
@pytest.mark.usefixtures("without_data")
def test_sample_size_curve_without_mnist(tmp_path):
    printed = example("sample_size_curve", tmp_path)
    assert "no MNIST" in printed
    found = falls(printed)
    assert list(found) == [40, 100]
    assert all(end < 0.95 * start for start, end in found.values())
