"""One look at a table: all problems at once, and a command that works."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from rankwise import load_model, save_model
from rankwise.data import from_frame, read_table
from rankwise.errors import TableError

QUICK = ("--candidates", "linear", "--no-boosted")


def hotels(n_queries=12, first="2024-03-01", seed=0):
    """Searches for hotels: words as labels, dates, text, missing values and positions."""
    rng, n = np.random.default_rng(seed), 6 * n_queries
    days = pd.Timestamp(first) + pd.to_timedelta(np.arange(n_queries), "D")
    frame = pd.DataFrame(
        {
            "search ref": np.repeat([f"s{k}" for k in range(n_queries)], 6),
            "checkin": np.repeat(days, 6).strftime("%Y-%m-%d"),
            "city": rng.choice(["Rome", "O'slo", "Lima"], n),
            "shown_at": np.tile(np.arange(1, 7), n_queries),
            "price": rng.lognormal(size=n).round(2),
            "review": rng.normal(size=n).round(2),
        }
    )
    liked = frame["review"] - frame["price"] + (frame["city"] == "Rome")
    rank = liked.groupby(frame["search ref"]).rank(ascending=False)
    frame["outcome"] = np.where(rank == 1, "booked", np.where(rank <= 3, "clicked", "none"))
    frame.loc[::9, "review"] = None
    return frame


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The searches in a file whose name needs quotation marks."""
    path = tmp_path_factory.mktemp("look") / "my hotels' table.csv"
    hotels().to_csv(path, index=False)
    return path


def pasted(message):
    """The arguments of the command in the last line of a message."""
    name, *arguments = shlex.split(message.rstrip("\n").split("\n")[-1])
    assert name == "rankwise"
    return arguments


@pytest.mark.parametrize(
    ("command", "n_problems"),
    [
        (("fit", "--alpha", "1"), 5),
        (("tune", "--alphas", "1,10", "--ignore", "shown_at"), 5),
        (("fit", "--model", "sparse-rankrls", "--alpha", "1", "--set", "n_landmarks=5"), 5),
        (("auto", *QUICK), 3),
    ],
)
def test_all_problems_at_once_and_a_command_that_works(command, n_problems, table, run, tmp_path):
    model = tmp_path / "my model"
    error = run(command[0], table, *command[1:], "-o", model, ok=False)
    assert f"has {n_problems} problems:" in error
    for words in (
        "no column is named like query ids (qid, query, search_id, ...); 'search ref' may have",
        "no column is named like labels (label, relevance, grade, ...); 'outcome' may have them",
        "the label 'outcome' has words without a grade: 'none', 'clicked', 'booked'",
    ):
        assert words in error
    if n_problems == 5:
        assert "these are text: 'city' (3 different" in error
        assert "8 missing values in 1 column of features: review 8 (11%)" in error
    in_blocks = "sparse-rankrls" in command  # the whole table is not read
    assert ("Dates are left out: checkin. To use them as features" in error) != in_blocks
    said = run(*pasted(error)).stderr
    assert ("Dates are left out: checkin. To use them as features" in said) == in_blocks
    if not in_blocks:
        assert "shown_at" in pasted(error)[pasted(error).index("--ignore") + 1]
        assert "--dates" in pasted(error)
    assert model.exists()
    said = run("evaluate", model, table).stderr
    assert "query 'search ref' (as in the fit); label 'outcome' (as in the fit)" in said
    assert "grades as in the fit: 'none' 0, 'clicked' 1, 'booked' 2" in said
    save_model(load_model(model), model)  # as earlier versions wrote it
    evaluated = run("evaluate", model, table, ok=False)
    assert "has 3 problems" in evaluated
    run(*pasted(evaluated))


def test_info_ends_with_the_same_command(table, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the command writes a model there
    shown = run("info", table)
    assert "look like the position in the list that was shown: shown_at" in shown.stderr
    error = run("auto", table, *QUICK, ok=False)
    problems = [line for line in error.split("\n") if line.startswith("  - ")]
    assert all(line in shown.stdout for line in problems)
    arguments = pasted(shown.stdout)
    kept = ["--out", f"{table.stem}.rankwise"]
    assert arguments == [*pasted(error)[:2], *pasted(error)[5:], *kept]
    assert arguments[-5:-2] == ["--ignore", "shown_at", "--dates"]
    found = json.loads(run("info", table, "--json").stdout)
    assert shlex.split(found["command"])[1:] == arguments
    assert len(found["problems"]) == len(problems) == 3
    run(*arguments, *QUICK)
    nothing_wrong = run("info", table, *arguments[2:8]).stdout
    assert "Before a ranker" not in nothing_wrong
    assert sorted(pasted(nothing_wrong)) == sorted(arguments)


def test_rows_to_predict_may_have_labels_of_any_words(table, run, tmp_path):
    model = tmp_path / "model"
    run(
        "auto", table, *QUICK, "--query", "search ref", "--label", "outcome", "--ignore",
        "shown_at", "--grades", "none=0,clicked=1,booked=2", "-o", model,
    )  # fmt: skip
    new = tmp_path / "new.csv"
    frame = hotels().rename(columns={"outcome": "label"})  # named like a label
    frame.to_csv(new, index=False)
    with_words = run("predict", model, new, "--query", "search ref").stdout
    frame.drop(columns="label").to_csv(new, index=False)
    assert run("predict", model, new, "--query", "search ref").stdout == with_words


@pytest.mark.slow
@pytest.mark.ci
def test_monotone_columns_have_names_beside_text_and_dates(table, run, tmp_path):
    model = tmp_path / "model"
    given = (
        table, "-o", model, "--force", "--query", "search ref", "--label", "outcome", "--ignore",
        "shown_at", "--grades", "none=0,clicked=1,booked=2", "--encode", "auto", "--impute",
        "median", "--dates",
    )  # fmt: skip
    rules = "monotone=price:1,review:-1"  # against the data
    fitted = ("fit", "--alpha", "1"), ("tune", "--alphas", "1,10", "--folds", "3")
    for command, *more in fitted:
        run(command, *given, *more, "--set", rules)
        pipeline = load_model(model)
        weights = pipeline[-1].coef_
        names = list(pipeline[0].get_feature_names_out())
        assert weights[names.index("price")] >= 0 >= weights[names.index("review")]
    run("fit", *given, "--alpha", "1", "--set", "monotone=city_Rome:-1")
    weights = load_model(model)[-1].coef_
    assert weights[names.index("city_Rome")] <= 0
    assert "is made of text or dates" in run(
        "tune", *given, "--quiet", "--alphas", "1", "--set", "monotone=city_Rome:-1", ok=False
    )
    for command, option in (("fit", "--set monotone=%s --alpha 1"), ("auto", "--monotone %s")):
        for rule, message in (
            ("prise:-1", "'prise' is not a feature. Did you mean 'price'?"),
            ("3:1", "features have names: use a name"),
            ("price:2", "must be signs of -1, 0 or 1 by feature, such as price:-1,stars:1"),
            ("price", "must be signs of -1, 0 or 1 by feature, such as price:-1,stars:1"),
        ):
            some = given[:-5] if command == "auto" else given
            assert message in run(command, *some, "--quiet", *(option % rule).split(), ok=False)
    assert "'city' is made of text" in run(
        "tune", *given, "--quiet", "--alphas", "1", "--set", "monotone=city:1", ok=False
    )


def test_auto_takes_monotone_columns(table, run, tmp_path):
    model = tmp_path / "model"
    run(
        "auto", table, *QUICK, "--query", "search ref", "--label", "outcome", "--ignore",
        "shown_at", "--grades", "none=0,clicked=1,booked=2", "--monotone", "price:1", "-o", model,
    )  # fmt: skip
    assert load_model(model).monotone == {"price": 1}


def test_python_names_a_call_that_works_and_no_option_of_commands(table):
    with pytest.raises(TableError) as caught:
        read_table(table, label="outcome", qid="search ref")
    message = str(caught.value)
    assert "--" not in message
    assert len(caught.value.problems) == 3
    data = eval(message.split("This works: ")[1], {"read_table": read_table})
    assert data.roles.left_out == {"checkin": "a date"}
    assert (
        data.y.tolist() == hotels()["outcome"].map({"none": 0, "clicked": 1, "booked": 2}).tolist()
    )
    frame = hotels()
    with pytest.raises(TableError) as caught:
        from_frame(frame, label="outcome", qid="search ref", verbose=False)
    call = str(caught.value).split("This works: ")[1]
    data = eval(call, {"from_frame": from_frame, "frame": frame})
    assert data.X["city"].tolist() == frame["city"].tolist()


def test_days_count_from_the_first_date_of_the_training_rows(table, run, tmp_path):
    model, later = tmp_path / "m", tmp_path / "later.csv"
    hotels(3, "2024-03-21").to_csv(later, index=False)
    options = ("--query", "search ref", "--label", "outcome", "--ignore", "shown_at", "--dates")
    grades = ("--grades", "none=0,clicked=1,booked=2")
    more = ("--encode", "onehot", "--impute", "median", "--alpha", "1", "-o", model)
    run("fit", table, *options, *grades, *more)
    encoder = load_model(model).steps[0][1]
    names = list(encoder.get_feature_names_out())
    data = read_table(later, keep_text=True, keep_missing=True, dates=True, features=["checkin",
                      "city", "price", "review"])  # fmt: skip
    made = encoder.transform(data.X)
    days = made[:, names.index("checkin_days")]
    assert_allclose(days, np.repeat([20.0, 21.0, 22.0], 6))
    assert made[0, names.index("checkin_weekday")] == 3  # Thursday, 21 March 2024
    assert made[0, names.index("checkin_month")] == 3
    run("evaluate", model, later, "--query", "search ref", "--label", "outcome", *grades)
    scored = run("predict", model, later, "--query", "search ref").stdout
    assert len(scored.splitlines()) == 19


def test_many_columns_with_the_same_marks_are_one_problem(run, tmp_path):
    wide = pd.DataFrame({f"m{k}": [f"{k},5", "7,25", "-1,125"] for k in range(40)})
    wide["city"] = ["Rome", None, "Lima"]
    wide.to_csv(tmp_path / "wide.csv", index=False, sep=";")
    found = json.loads(run("info", tmp_path / "wide.csv", "--json").stdout)
    about = [problem for problem in found["problems"] if "decimal mark" in problem]
    assert len(about) == 1
    assert "'m0' has numbers such as '0,5'" in about[0]
    assert "The same holds for m1, m2, m3, m4, m5, m6, m7, m8 and 31 more." in about[0]
    assert "--decimal ," in found["command"]
    city = next(column for column in found["columns"] if column["column"] == "city")
    assert city["values"] == "2 different, such as 'Rome'"


def test_points_that_may_stand_between_thousands(run, tmp_path):
    file = tmp_path / "prices.csv"
    lines = [f"{k // 4};{k % 3};{k + 12}.300;{k}.25;0.{k + 101}" for k in range(12)]
    file.write_text("\n".join(["query;grade;price;km;share", *lines]))
    words = "Read with decimal points: price. If points stand between thousands"
    assert words in run("info", file).stderr
    marks = ("--decimal", ",", "--thousands", ".")
    assert "decimal points" not in run("info", file, *marks, "--ignore", "km,share").stderr
    file.write_text(file.read_text().replace(";", ","))
    assert "decimal points" not in run("info", file).stderr


@pytest.mark.parametrize("grades", ["none", "none=x", "=,"])
def test_grades_that_cannot_be_read(grades, table, run):
    error = run("auto", table, "--grades", grades, ok=False)
    assert "Give WORD=NUMBER,WORD=NUMBER" in error


def test_words_that_lack_a_grade(table, run):
    options = ("--label", "outcome", "--query", "search ref", "--grades", "none=-1,clicked=5")
    error = run("auto", table, *options, *QUICK, ok=False)
    assert "words without a grade: 'booked'" in error
    assert "none=-1,clicked=5,booked=2" in error


def job_offers(n_visits=12, seed=2):
    """Job offers shown to visitors: salaries with marks, dates, ids of 19 digits."""
    rng, n = np.random.default_rng(seed), 8 * n_visits
    days = pd.Timestamp("2026-03-01") + pd.to_timedelta(rng.integers(0, 90, n), "D")
    frame = pd.DataFrame(
        {
            "visitor_id": np.repeat(rng.integers(10**18, 9 * 10**18, n_visits), 8),
            "search_id": np.repeat(np.arange(n_visits), 8),
            "job_id": rng.permutation(10**9 + np.arange(n)),
            "posted": days.strftime("%d.%m.%Y"),
            "salary": rng.integers(300, 1_200, n) * 100.0,
            "km": rng.gamma(2, 10, n).round(1),
        }
    )
    rank = (frame["salary"] / 5e4 - frame["km"] / 10).groupby(frame["search_id"]).rank()
    frame["outcome"] = np.where(rank > 7, "applied", np.where(rank > 5, "viewed", "none"))
    frame["salary"] = [f"{int(s):,}" for s in frame["salary"]]
    frame.loc[::7, ["salary", "posted"]] = ""
    return frame


def in_german(frame):
    """The same table as European spreadsheets write it."""
    marks = str.maketrans(",.", ".,")
    changed = {"salary": [s.translate(marks) for s in frame["salary"]]}
    return frame.assign(km=[str(km).replace(".", ",") for km in frame["km"]], **changed)


@pytest.mark.parametrize("german", [False, True])
def test_numbers_with_marks_are_read_by_the_command_that_works(german, run, tmp_path):
    frame = job_offers()
    table, model = tmp_path / "jobs.csv", tmp_path / "model"
    (in_german(frame) if german else frame).to_csv(table, index=False, sep=";" if german else ",")
    error = run("auto", table, *QUICK, "-o", model, ok=False)
    assert ("',' seems to be the decimal mark" in error) == german
    mark = "." if german else ","
    assert f"{mark!r} seems to stand between thousands" in error
    arguments = pasted(error)
    assert arguments[arguments.index("--thousands") + 1] == mark
    assert arguments[arguments.index("--id") + 1] == "job_id"  # visitor_id is the same in a search
    assert arguments[arguments.index("--ignore") + 1] == "visitor_id"
    said = run(*arguments).stderr
    assert "Dates, as days since the first, day of the week and month: posted." in said
    assert run("info", table).stdout.rstrip().endswith("--dates --out jobs.rankwise")
    assert load_model(model).feature_names_in_.tolist() == ["posted", "salary", "km"]
    python = read_table(
        table, qid="search_id", label="outcome", ignore=["visitor_id"], keep_missing=True,
        grades={"none": 0, "viewed": 1, "applied": 2}, thousands=mark,
        decimal="," if german else None,
    )  # fmt: skip
    salaries = pd.to_numeric(frame["salary"].str.replace(",", ""))
    assert_allclose(python.X["salary"], salaries)
    assert_allclose(python.X["km"], frame["km"])


def test_given_grades_keep_their_digits_in_the_command_that_works(run, tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("query,label,x\n1,none,1\n1,clicked,2\n2,none,1\n2,booked,5\n")
    grades = "none=0,clicked=0.123456789012"
    assert f"{grades},booked=" in run("info", path, "--grades", grades).stdout
