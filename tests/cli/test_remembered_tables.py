"""Model files remember how their tables were read: later commands need no options."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from rankwise import load_model, save_model
from rankwise.persistence import open_model
from tests.cli.test_diagnosis import QUICK, hotels, in_german, job_offers
from tests.scripts import invoke

ROLES = ("--query", "search_id", "--label", "outcome", "--id", "job_id")
GRADES = ("--grades", "none=0,viewed=1,applied=2")
MARKS = ("--decimal", ",", "--thousands", ".")
FEATURES = ("--features", "salary,km", "--impute", "median")
MODEL = ("--alpha", "1", "--scale", "standard")
MEMORY = {
    "qid": "search_id", "label": "outcome", "id": "job_id",
    "grades": {"none": 0, "viewed": 1, "applied": 2},
    "separator": ";", "decimal": ",", "thousands": ".",
}  # fmt: skip


@pytest.fixture(scope="module")
def offers(tmp_path_factory):
    """A table of German spreadsheets."""
    path = tmp_path_factory.mktemp("offers") / "offers.csv"
    in_german(job_offers()).to_csv(path, index=False, sep=";")
    return path


@pytest.fixture
def model(offers, run, tmp_path):
    path = tmp_path / "m.rankwise"
    run("fit", offers, *ROLES, *GRADES, *MARKS, *FEATURES, *MODEL, "-o", path)
    return path


def metrics(run, *arguments):
    return json.loads(run("evaluate", *arguments, "--json").stdout)


def test_every_command_that_reads_a_table_for_a_model(offers, model, run, tmp_path):
    assert open_model(model).table == MEMORY
    earlier, given = tmp_path / "k.rankwise", (*ROLES, *GRADES, *MARKS)
    save_model(load_model(model), earlier)
    out = tmp_path / "written.md"
    for command in (
        ("evaluate", "MODEL", offers),
        ("predict", "MODEL", offers),
        ("compare", "MODEL", "MODEL", offers, "--metrics", "map"),
        ("explain", "MODEL", offers),
        ("card", "MODEL", "--rows", offers, "-o", out, "--force"),
        ("export", "MODEL", "--to", "onnx", "--rows", offers, "--out", out, "--force"),
    ):
        copies = {m: m.with_name(f"copy{m.name}") for m in (model, earlier)}
        for one, other in copies.items():
            other.write_bytes(one.read_bytes())

        def called(one, *more, command=command, copies=copies):
            paths = iter([one, copies[one]])
            return run(*(next(paths) if word == "MODEL" else word for word in command), *more)

        own, options = (), given
        if command[0] == "explain":
            own, options = ("--query", "3"), ("--query", "search_id=3", *given[2:])
        found, wanted = called(model, *own), called(earlier, *options)
        names = re.compile(r"\b(copy)?k\b")
        assert found.stdout == names.sub(r"\1m", wanted.stdout)
        assert "query 'search_id' (as in the fit); label 'outcome' (as in the fit)" in found.stderr
        assert "numbers such as 1.234,5, as in the fit" in found.stderr
        reads_labels = command[0] not in ("predict", "explain", "export")
        assert ("grades as in the fit: 'none' 0, 'viewed' 1" in found.stderr) == reads_labels
        assert "as in the fit" not in wanted.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("tune", "--alphas", "1,10", "--folds", "2", *FEATURES),
        ("auto", *QUICK, "--features", "salary,km"),
    ],
)
def test_every_command_that_fits(command, offers, run, tmp_path):
    name, *options = command
    run(name, offers, *ROLES, *GRADES, *MARKS, *options, "-o", tmp_path / "m")
    assert open_model(tmp_path / "m").table == MEMORY


def test_a_fit_block_by_block_and_a_letor_file(files, run, tmp_path):
    table = tmp_path / "t.csv"
    frame = hotels().drop(columns=["checkin", "city", "review"])
    frame.to_csv(table, index=False)
    run(
        "fit", table, "--model", "sparse-rankrls", "--set", "n_landmarks=5", "--alpha", "1",
        "--query", "search ref", "--label", "outcome", "--grades", "none=0,clicked=1,booked=2",
        "-o", tmp_path / "m",
    )  # fmt: skip
    grades = {"none": 0, "clicked": 1, "booked": 2}
    assert open_model(tmp_path / "m").table == {
        "qid": "search ref", "label": "outcome", "grades": grades
    }  # fmt: skip
    run("fit", files.train, "--alpha", "1", "-o", tmp_path / "letor")
    assert open_model(tmp_path / "letor").table == {}


def test_guessed_columns_are_remembered_before_better_known_names(run, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"topic": np.repeat(np.arange(6), 5), "x": rng.normal(size=30)})
    frame["target"] = rng.integers(0, 3, 30)
    frame.to_csv(tmp_path / "a.csv", index=False)
    run("fit", tmp_path / "a.csv", *MODEL, "-o", tmp_path / "m")
    later = frame.assign(label=2 - frame["target"], qid=0)  # names that would be guessed first
    later.to_csv(tmp_path / "b.csv", index=False)
    assert metrics(run, tmp_path / "m", tmp_path / "b.csv") == metrics(
        run, tmp_path / "m", tmp_path / "a.csv"
    )


def test_options_win(offers, model, run, tmp_path):
    frame = pd.read_csv(offers, sep=";", dtype=str)
    frame["half"] = frame["search_id"].astype(int) // 2
    frame["number"] = frame["outcome"].map({"none": 2, "viewed": 1, "applied": 0})
    table = tmp_path / "more.csv"
    frame.to_csv(table, index=False, sep=";")
    usual = metrics(run, model, table)
    said = run("evaluate", model, table, "--label", "number", "--query", "half").stderr
    assert "query 'half'; label 'number'; id 'job_id' (as in the fit)" in said
    assert "grades" not in said
    worse = metrics(run, model, table, "--label", "number")["metrics"]["disagreement"]["mean"]
    better = usual["metrics"]["disagreement"]["mean"]
    assert worse == pytest.approx(1 - better)
    assert metrics(run, model, table, "--label", "outcome") == usual  # the same words
    turned = ("--grades", "none=2,viewed=1,applied=0")
    found = metrics(run, model, table, *turned)["metrics"]["disagreement"]["mean"]
    assert found == pytest.approx(worse)
    assert "id 'job_id' (as in the fit); 2" in run("predict", model, table, "--label", "km").stderr
    ignored = run("predict", model, table, "--ignore", "job_id").stdout
    assert ignored.startswith("search_id,score")
    taken = run("predict", model, table, "--query", "job_id").stderr  # its role in the fit was id
    assert "query 'job_id'; label 'outcome' (as in the fit); 2 features" in taken


def test_what_a_table_lacks_falls_back(offers, model, run, tmp_path):
    frame, table = pd.read_csv(offers, sep=";", dtype=str), tmp_path / "new.csv"
    frame.drop(columns=["outcome", "job_id"]).to_csv(table, index=False, sep=";")
    said = run("predict", model, table)
    assert said.stdout.startswith("search_id,score")
    assert "no column is named like labels" in run("evaluate", model, table, ok=False)
    numbers = frame["outcome"].map({"none": 0, "viewed": 1, "applied": 2})
    for name in ("label", "outcome"):  # numbers need no grades
        frame.drop(columns="outcome").assign(**{name: numbers}).to_csv(table, index=False, sep=";")
        assert metrics(run, model, table) == metrics(run, model, offers)


def test_a_word_without_a_grade(offers, model, run, tmp_path):
    text = offers.read_text().replace("applied", "hired")
    (tmp_path / "new.csv").write_text(text)
    error = run("evaluate", model, tmp_path / "new.csv", ok=False)
    assert "words without a grade: 'hired'" in error
    assert "3 problems" not in error
    assert "--grades none=0,viewed=1,hired=2,applied=2" in error
    assert "--decimal" not in error


@pytest.mark.parametrize("encoder", [True, False])
def test_marks_that_do_not_fit_are_not_used(encoder, offers, run, tmp_path):
    model, frame = tmp_path / "m.rankwise", job_offers()
    frame["salary"] = frame["salary"].replace("", "10,000")
    table = tmp_path / "train.csv"
    in_german(frame).to_csv(table, index=False, sep=";")
    features = FEATURES if encoder else FEATURES[:2]
    run("fit", table, *ROLES, *GRADES, *MARKS, *features, *MODEL, "-o", model)
    usual = metrics(run, model, table)
    plain = tmp_path / "plain.csv"
    frame.assign(salary=frame["salary"].str.replace(",", "")).to_csv(plain, index=False, sep=";")
    assert metrics(run, model, plain) == usual
    assert "numbers such as" not in run("evaluate", model, plain).stderr
    english = tmp_path / "english.csv"  # where 58,300 is not 58.3
    frame.to_csv(english, index=False)
    error = run("evaluate", model, english, ok=False)
    assert "',' seems to stand between thousands" in error
    assert metrics(run, model, english, "--thousands", ",") == usual
    assert metrics(run, model, plain, "--thousands", "") == usual
    frame.assign(salary=frame["salary"].str.replace(",", "").astype(float)).to_parquet(
        tmp_path / "numbers.parquet"
    )
    assert metrics(run, model, tmp_path / "numbers.parquet") == usual


def test_models_of_different_labels_are_not_compared(offers, model, run, tmp_path):
    frame = pd.read_csv(offers, sep=";", dtype=str)
    frame["paid"] = (np.arange(len(frame)) * 7) % 5
    table, other = tmp_path / "more.csv", tmp_path / "other.rankwise"
    frame.to_csv(table, index=False, sep=";")
    run("fit", table, "--query", "search_id", "--label", "paid", *MARKS, *FEATURES, *MODEL,
        "-o", other)  # fmt: skip
    refused = invoke(("compare", model, other, table))
    assert refused.exit_code == 2
    assert "was fitted to other labels or queries of a table than" in refused.stderr
    run("compare", model, other, table, "--label", "paid")
    run("compare", model, other, table, "--label", "outcome", *GRADES)


def test_info_shows_it(model, run):
    shown = run("info", model).stdout
    assert "qid 'search_id', label 'outcome', id 'job_id'" in shown


def test_the_order_of_categories_is_that_of_the_training_rows(run, tmp_path):
    frame, km = job_offers().drop(columns="salary"), ("--features", "km", "--impute", "median")
    words = sorted(frame["outcome"].unique())
    model, tables = tmp_path / "m.rankwise", [tmp_path / f"{k}.parquet" for k in range(3)]
    some = frame[frame["outcome"] != words[0]]
    for rows, order, path in (
        (frame, words, tables[0]),
        (some, words[1:], tables[1]),
        (some, words[::-1], tables[2]),
    ):
        kind = pd.CategoricalDtype(order, ordered=True)
        rows.astype({"outcome": kind}).to_parquet(path, index=False)
    run("fit", tables[0], *ROLES, *km, *MODEL, "-o", model)
    some.to_csv(tmp_path / "some.csv", index=False)
    known = [metrics(run, model, path) for path in (tmp_path / "some.csv", *tables[1:])]
    assert known[0] == known[1] == known[2]
    valid = [run("fit", tables[0], *ROLES, *km, "--valid", path, "-o", model, "--force")
             for path in tables[1:]]  # fmt: skip
    assert valid[0].stdout == valid[1].stdout
    for result in valid:
        assert "grades by their order: 'applied' 0, 'none' 1, 'viewed' 2" in result.stderr
