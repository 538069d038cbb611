"""auc: from a table of samples to an AUC with its interval, a p-value and a page."""

import re
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from rankwise import RankRLS
from rankwise.cli import auc_study
from rankwise.data import read_samples
from rankwise.model_selection import (
    auc_interval,
    nested_leave_pair_out,
    permutation_test,
    permutations,
)
from tests.scripts import invoke

REPEATS = auc_study.FOLDS, auc_study.REPEATS
NESTED_FOLDS = permutations.NESTED_FOLDS


@pytest.fixture(autouse=True)
def few_repeats(monkeypatch):
    monkeypatch.setattr(auc_study, "REPEATS", 1)
    monkeypatch.setattr(permutations, "NESTED_FOLDS", (5, 1))


@pytest.fixture
def samples(tmp_path):
    """30 samples of two classes, with all kinds of columns."""
    rng = np.random.default_rng(0)
    ill = np.arange(30) % 2
    age, dose = (40 + 15 * ill + 10 * rng.standard_normal((2, 30))).round(1)
    path = tmp_path / "samples.csv"
    lines = [
        f"p{k},{age[k]},{dose[k]},{['low', 'high'][k % 3 == 0]},7,{'AB'[k % 4 > 1]},"
        f"{['well', 'ill'][ill[k]]}"
        for k in range(30)
    ]
    path.write_text("\n".join(["id,age,dose,risk,constant,site,outcome", *lines]) + "\n")
    return path


def edited(path, line, old, new):
    lines = path.read_text().splitlines()
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_file_is_enough(samples, run, tmp_path):
    page, roc = tmp_path / "page.html", tmp_path / "roc.svg"
    result = run(
        "auc", samples, "--label", "outcome", "--positive", "ill", "--ignore", "site",
        "--permutations", 9, "--report", page, "--roc", roc,
    )  # fmt: skip
    data = read_samples(samples, "outcome", positive="ill", ignore=["site"])
    assert data.names == ["age", "dose", "risk=high", "risk=low"]
    found = auc_interval(RankRLS(scale="standard"), data.X, data.y)
    test = permutation_test(
        RankRLS(scale="standard"), data.X, data.y, n_permutations=9, random_state=0,
        cv="nested_leave_pair_out",
    )  # fmt: skip
    nested = nested_leave_pair_out(
        RankRLS(scale="standard"), data.X, data.y, n_repeats=1, random_state=0
    )
    assert test.score == pytest.approx(nested.auc)
    first, *_ = result.stdout.splitlines()
    assert first == "AUC of 'ill' against 'well': 15 and 15 samples, 4 features."
    early, _, late = result.stdout.partition("held out")
    assert f"{found.auc:.3f} ({found.low:.3f} to {found.high:.3f})" in early
    assert [line.split()[0] for line in late.splitlines()[2:4]] == ["nested:", "all"]
    assert late.index(f"probability {nested.auc:.3f}") < late.index(f"p = {test.p_value:.3g}")
    assert late.index("p =") < late.index(f"the AUC is {found.auc:.3f}")
    assert result.stdout.count("p =") == 1
    told = {line.split("  ")[0]: line for line in result.stdout.splitlines()}
    assert "30 different words: left out" in told["id"]
    assert "constant: left out" in told["constant"]
    assert "2 words: a feature for each" in told["risk"]
    assert "left out as asked" in told["site"]
    text = page.read_text()
    for words in ("Methods", f"Each of {found.n_pairs} pairs", "nested cross-validation", "p ="):
        assert words in text
    assert text.count("<svg") == 3
    low, high = (f"{end:.3f}" for end in (found.low, found.high))
    study = auc_study.AUCStudy.of(data, "linear")
    (legend,) = study.draw_roc().get_legend().get_texts()
    assert re.fullmatch(r"tournament scores: AUC 0\.\d{3}", legend.get_text())  # no interval
    assert "Its area may differ a little from the AUC of all pairs" in text
    assert f"AUC of all pairs, optimistic ({low} to {high})" in text
    assert roc.read_text().count("<svg") == 1


def test_the_p_value_is_of_the_nested_auc_that_is_printed():
    assert REPEATS == NESTED_FOLDS


def test_the_page_lists_twenty_features(samples, run, tmp_path):
    lines = samples.read_text().splitlines()
    more = [",".join(f"{(7 * row + 3 * k) % 11}" for k in range(30)) for row in range(30)]
    names = ",".join(f"marker{k}" for k in range(30))
    rows = [f"{a},{b}" for a, b in zip(lines, [names, *more], strict=True)]
    samples.write_text("\n".join(rows) + "\n")
    page = tmp_path / "page.html"
    arguments = ("auc", samples, "--label", "outcome", "--permutations", 0, "--report", page)
    result = run(*arguments)
    assert "give --positive ill" in result.stderr
    text, file = page.read_text(), tmp_path / "page-columns.csv"
    assert text.count(">a feature<") == 20
    assert "All columns are in page-columns.csv." in text
    assert file.read_text().count("a feature\n") == 32
    page.unlink()
    assert "page-columns.csv exists: give --force" in run(*arguments, ok=False)


def test_an_interrupt_leaves_what_is_known(samples, tmp_path, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(auc_study, "permutation_test", interrupted)
    page, arguments = tmp_path / "page.html", ("auc", samples, "--label", "outcome", "--report")
    result = invoke([*arguments, page])
    assert result.exit_code == 130
    assert "nested: alpha chosen without them" in result.stdout
    assert "page.html was written" in " ".join(result.stderr.split())
    assert "nested AUC" in page.read_text()
    assert "p-value" not in page.read_text()
    monkeypatch.setattr(auc_study, "nested_leave_pair_out", interrupted)
    result = invoke([*arguments, page, "--force"])
    assert result.exit_code == 130
    assert "all pairs: alpha chosen on them, optimistic" in result.stdout
    assert "nested:" not in result.stdout
    assert "nested AUC" not in page.read_text()


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_leaves_what_is_known(samples, tmp_path):
    page = tmp_path / "page.html"
    arguments = ["auc", samples, "--label", "outcome", "--permutations", "1000000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "rankwise", *arguments, "--report", page],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    early = ""
    while "The nested AUC follows." not in early.replace("\n", " "):
        line = process.stdout.readline()
        assert line, "it ended before it was interrupted"
        early += line
    process.send_signal(signal.SIGINT)
    late, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "all pairs: alpha chosen on them, optimistic" in late
    assert "interrupted" in errors
    assert "AUC of all pairs, optimistic" in page.read_text()


def test_few_samples_have_no_interval_anywhere(samples, run, tmp_path):
    samples.write_text("\n".join(samples.read_text().splitlines()[:11]) + "\n")
    page = tmp_path / "page.html"
    result = run(
        "auc", samples, "--label", "outcome", "--permutations", 9, "--report", page,
        "--roc", tmp_path / "roc.svg",
    )  # fmt: skip
    assert result.stdout.count("No interval: this takes at least") == 1
    assert result.stdout.count("(no interval)") == 3
    for text in (result.stdout, page.read_text(), (tmp_path / "roc.svg").read_text()):
        assert not re.search(r"\d\.\d{3} to \d", text)
        assert "95%" not in text.replace("intervals of 95% missed", "")
    assert "nested AUC (no interval)" in page.read_text()


@pytest.mark.filterwarnings("default:In 2 of 2 fits, alpha was chosen by all pairs")
def test_strata_and_groups(samples, run):
    strata = run("auc", samples, "--label", "outcome", "--stratum", "site", "--permutations", 0)
    assert "the stratum" in strata.stdout
    assert "of the same stratum with probability" in " ".join(strata.stdout.split())
    groups = run("auc", samples, "--label", "outcome", "--group", "site", "--permutations", 0)
    assert "Two groups have all rows of a class" in " ".join(groups.stdout.split())
    assert "In 2 of 2 fits, alpha was chosen by all pairs" in groups.stderr
    refused = run(
        "auc", samples, "--label", "outcome", "--group", "site", "--roc", "a.svg", ok=False
    )
    assert "no ROC curve" in refused


@pytest.mark.parametrize("mixed", [False, True])
def test_patients_with_several_samples(samples, run, tmp_path, mixed):
    lines = samples.read_text().splitlines()
    patients = [k // 2 if mixed else k // 4 * 2 + k % 2 for k in range(30)]  # labels alternate
    rows = [f"{row},{patient}" for row, patient in zip(lines[1:], patients, strict=True)]
    samples.write_text("\n".join([f"{lines[0]},patient", *rows]) + "\n")
    page = tmp_path / "page.html"
    result = run(
        "auc", samples, "--label", "outcome", "--group", "patient", "--ignore", "site",
        "--permutations", 9, "--report", page,
    )  # fmt: skip
    data = read_samples(samples, "outcome", group="patient", ignore=["site"])
    assert data.groups_are_whole() != mixed
    found = auc_interval(RankRLS(scale="standard"), data.X, data.y, groups=data.groups)
    said = " ".join(result.stdout.split())
    assert f"{found.auc:.3f} ({found.low:.3f} to {found.high:.3f})" in said
    assert ("There is no p-value: rows of a group have different labels" in said) == mixed
    assert ("permutations of the labels of groups" in page.read_text()) != mixed
    assert "trained on all samples of other groups" in page.read_text()


def test_copies_are_noted(samples, run):
    lines = samples.read_text().splitlines()
    samples.write_text("\n".join([*lines, lines[3]]) + "\n")
    result = run("auc", samples, "--label", "outcome", "--permutations", 0)
    assert "lines 4 and 32" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("line", "old", "new", "words"),
    [
        (1, "outcome", "result", "has no column 'outcome': it has id, age, dose"),
        (5, ",7,", ",seven,", "line 5: the column 'constant' has numbers in other lines, but 'sev"),
        (5, ",7,", ",,", "line 5: the column 'constant' has no value here. Use --missing"),
        (5, "ill", "", "line 5: the column 'outcome' has no value"),
        (1, "age,", "", "line 2: got 7 values for 6 columns"),
        (5, "ill", "dead", "has 3 different values, such as dead, ill, well"),
        (5, ",ill", "", "line 5: got 6 values for 7 columns"),
    ],
)
def test_bad_values_are_named(samples, run, line, old, new, words):
    error = run("auc", edited(samples, line, old, new), "--label", "outcome", ok=False)
    assert words in error


@pytest.mark.parametrize(
    ("how", "names", "words"),
    [
        (
            "drop-rows",
            ["age", "dose", "risk=high", "risk=low"],
            "2 samples with missing values left out.",
        ),
        ("drop-columns", ["dose"], "2 columns with missing values left out."),
        (
            "median",
            ["age", "dose", "risk=high", "risk=low", "risk=missing"],
            "Missing values of 2 columns were replaced by the median",
        ),
    ],
)
def test_missing_values(samples, how, names, words):
    lines = samples.read_text().splitlines()
    lines[4] = "p3,NA,70.1,low,7,A,ill"
    lines[9] = "p8,61,70.1,,7,A,well"
    samples.write_text("\n".join(lines) + "\n")
    data = read_samples(samples, "outcome", ignore=["site"], missing=how)
    assert data.names == names
    assert data.missing.startswith(words)
    assert len(data.y) == (28 if how == "drop-rows" else 30)


def test_columns_of_any_program(tmp_path, run):
    """A column without a name, as pandas writes it; one that counts the rows; true and false."""
    path = tmp_path / "samples.csv"
    rows = [f"{k},{k + 7},{'TRUE' if k % 3 else 'FALSE'},{k * k % 7},{k % 2}" for k in range(12)]
    path.write_text("\n".join([",sample,treated,dose,ill", *rows]) + "\n")
    data = read_samples(path, "ill")
    assert data.names == ["sample", "treated", "dose"]
    assert data.X[:4, 1].tolist() == [0.0, 1.0, 1.0, 0.0]
    assert data.columns[0] == ("", "no name: left out")
    result = run("auc", path, "--label", "ill", "--permutations", 0)
    assert "The column 'sample' counts the rows" in " ".join(result.stderr.split())


def test_european_spreadsheets(samples, run, tmp_path):
    frame = pd.read_csv(samples)
    frame["leukocytes"] = frame["age"] * 100.0 + 0.5
    frame["code"] = [f"{k % 3 + 1}.{k % 7}" for k in range(len(frame))]  # stays as it is
    frame.to_csv(samples, index=False)
    european = tmp_path / "european.csv"
    frame["leukocytes"] = [
        f"{v:,}".translate(str.maketrans(",.", ".,")) for v in frame["leukocytes"]
    ]
    frame.to_csv(european, index=False, sep=";", decimal=",")
    found = [read_samples(path, "outcome") for path in (samples, european)]
    assert found[0].columns == found[1].columns
    assert_allclose(found[0].X, found[1].X)
    runs = [run("auc", p, "--label", "outcome", "--permutations", 0) for p in (samples, european)]
    assert runs[0].stdout == runs[1].stdout
    marked = tmp_path / "marked.csv"  # one that no guess would read
    frame["leukocytes"] = [v.replace(".", "'") for v in frame["leukocytes"]]
    frame.to_csv(marked, index=False, sep="|", decimal=",")
    marks = {"separator": "|", "decimal": ",", "thousands": "'"}
    assert_allclose(read_samples(marked, "outcome", **marks).X, found[0].X)
    given = [word for name, mark in marks.items() for word in (f"--{name}", mark)]
    alike = run("auc", marked, "--label", "outcome", "--permutations", 0, *given)
    assert alike.stdout == runs[0].stdout
    assert "Columns with two different values: outcome" in run("auc", marked, *given, ok=False)


def test_numbers_of_classes(samples, run):
    error = run("auc", samples, "--label", "age", ok=False)
    assert "29 different values" in error
    assert "above and below a threshold" in error


def test_classes_with_too_few_rows(samples, run):
    all_well = samples.read_text().replace(",ill", ",well")
    samples.write_text(all_well)
    assert "has 1 different value, such as well" in run(
        "auc", samples, "--label", "outcome", ok=False
    )
    edited(samples, 2, "well", "ill")
    error = run("auc", samples, "--label", "outcome", ok=False)
    assert "the class 'ill' has one row" in error
    assert "name one of these values with --positive" in run(
        "auc", samples, "--label", "outcome", "--positive", "dead", ok=False
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--missing", "zero"], "'zero' is not one of 'refuse', 'drop-rows'"),
        (["--report", "page.pdf"], "The page ends with .html"),
    ],
)
def test_bad_options(samples, run, options, words):
    assert words in run("auc", samples, "--label", "outcome", *options, ok=False)


def test_without_a_label_the_error_names_columns_that_may_be_one(samples, run):
    error = run("auc", samples, ok=False)
    assert "Name the column of classes. Columns with two different values:" in error
    assert "--label " in error.splitlines()[-1]


def test_a_large_alpha_has_no_exponent():
    assert auc_study._say(50_118.7) == "50,120"
    assert auc_study._say(5.0084) == "5.008"
