"""leaderboard: from a file of battles to a table, files and a page."""

import csv
import gzip
import json

import numpy as np
import pytest

from rankwise import Leaderboard
from rankwise.cli.study_pages import _summary
from rankwise.data import make_battles, read_battles, read_rankings


@pytest.fixture(scope="module")
def battles(tmp_path_factory):
    """A file with 400 battles, three judges, sessions and lengths."""
    made = make_battles(5, 400, n_judges=3, random_state=0).battles
    path = tmp_path_factory.mktemp("battles") / "battles.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model_a", "model_b", "winner", "session", "judge", "words_a", "words_b"])
        words = np.array(["model_a", "model_b", "tie", "both_bad"])[made.outcome]
        for (a, b), word, session, judge, (x,) in zip(
            made.items[made.pairs], words, made.groups, made.judge, made.context, strict=True
        ):
            lengths = 100 + max(round(20 * x), 0), 100 + max(round(-20 * x), 0)
            writer.writerow(["=1+1" if a == "item 5" else a, "=1+1" if b == "item 5" else b, word,
                             session, judge, *lengths])  # fmt: skip
    return path


def test_the_table_is_that_of_python(battles, run):
    result = run("leaderboard", battles, "--style", "words", "--elo")
    board = Leaderboard().fit(read_battles(battles, style=["words"]).battles)
    assert result.stdout.startswith(f"{board.standings(elo=True)}\n\n")
    assert "With and without style" in result.stdout
    row = next(line for line in result.stdout.splitlines() if line.startswith("words"))
    assert "1 standard deviation" in row
    assert f"{400 / np.log(10) * board.coef_[0]:.1f}" in row
    assert "Arena battles" in result.stderr
    assert "clustered by 'session'" in result.stderr
    short = run("leaderboard", battles, "--top", 2, "--ties", "half", "--penalty", 2).stdout
    assert len(short.split("\n\n")[0].splitlines()) == 4


def test_files_and_page(battles, run, tmp_path):
    names = {"--csv": "table.csv", "--json": "all.json", "--report": "page.html"}
    names["--spreadsheet"] = "table-for-spreadsheets.csv"
    paths = {option: tmp_path / name for option, name in names.items()}
    given = [value for pair in paths.items() for value in pair]
    run("leaderboard", battles, "--judge", "judge", "--style", "words", *given)
    rows = list(csv.DictReader(paths["--csv"].read_text().splitlines()))
    assert [row["rank"] for row in rows] == list("12345")
    assert "=1+1" in {row["item"] for row in rows}  # as it is in the battles
    guarded = list(csv.DictReader(paths["--spreadsheet"].read_text().splitlines()))
    assert "'=1+1" in {row["item"] for row in guarded}  # no formula
    content = json.loads(paths["--json"].read_text())
    assert content["schema"] == "Arena battles"
    assert len(content["standings"]) == 5
    assert len(content["judges"]) == 3
    assert [row["column"] for row in content["coefficients"]] == ["words"]
    assert float(rows[0]["rating"]) == pytest.approx(content["standings"][0]["rating"])
    assert "leads instead of" in content["fragility"]
    page = paths["--report"].read_text()
    assert "leads instead of" in page
    for heading in ("Standings", "Covariates", "Judges", "Who wins against whom", "What was read"):
        assert f"<h2>{heading}</h2>" in page
    assert page.count("<svg") == 2
    assert "predicted" in page
    assert "exists" in run("leaderboard", battles, "--csv", paths["--csv"], ok=False)
    run("leaderboard", battles, "--ties", "by-item", "--report", tmp_path / "ties.html")
    assert "<h2>Ties</h2>" in (tmp_path / "ties.html").read_text()


def test_boards_by_month(battles, run, tmp_path):
    lines = battles.read_text().splitlines()
    dated, page = tmp_path / "dated.csv", tmp_path / "page.html"
    with dated.open("w") as file:
        file.write(f"{lines[0]},date\n")
        file.writelines(f"{line},2026-{1 + k // 150:02d}-07\n" for k, line in enumerate(lines[1:]))
    result = run("leaderboard", dated, "--time", "date", "--every", "month", "--report", page)
    for month in ("2026-01", "2026-02", "2026-03"):
        assert month in result.stdout
    assert "<h2>Periods</h2>" in page.read_text()
    for wrong in (["--every", "month"], ["--time", "date", "--every", "month", "--by", "judge"]):
        assert "needs --time COLUMN" in run("leaderboard", dated, *wrong, ok=False)
    for periods in (["--time", "date", "--every", "month"], ["--by", "date"]):
        error = run("leaderboard", dated, *periods, "--judge", "judge", ok=False)
        assert f"{periods[-2]}': It cannot be combined with --judge. Leave out --judge" in error


def test_some_rows_anchors_and_boards_by_a_column(battles, run):
    lines = battles.read_text().splitlines()
    some = battles.with_name("some.csv")
    with some.open("w") as file:
        file.write(f"{lines[0]},turn\n")
        file.writelines(f"{line},{1 + k % 2}\n" for k, line in enumerate(lines[1:]))
    run_all = ("leaderboard", some, "--elo", "--anchor", "item 1=1200", "--by", "turn")
    with_points = run(*run_all)
    out = with_points.stdout
    assert "category" in out
    assert any("item 1 " in line and "1200 to 1200" in line for line in out.splitlines())
    first = run("leaderboard", some, "--where", "turn=1")
    assert "Battles(200 battles" in first.stderr
    assert "Left out 200 rows whose 'turn' is not '1'" in first.stderr
    assert "Write NAME=VALUE" in run("leaderboard", some, "--where", "turn", ok=False)
    assert "not in Elo points" not in with_points.stderr
    assert "not in Elo points" in run("leaderboard", some, "--anchor", "item 1=1200").stderr
    error = run("leaderboard", some, "--quiet", "--anchor", "nobody=3", ok=False)
    assert "with an item of the battles" in error
    error = run("leaderboard", some, "--quiet", "--anchor", "item_1=3", ok=False)
    assert "Did you mean 'item 1'?" in error
    error = run("leaderboard", some, "--where", "turn=3", ok=False)
    assert "no battle that can be used: 400 rows whose 'turn' is not '3'" in error
    same = run("leaderboard", some, "--style", "turn", ok=False)
    assert "the column 'turn' is at least 0 in every row" in same


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--link", "cauchit"], "'cauchit' is not one of 'logit', 'probit'"),
        (["--penalty", "none"], "or one of evidence, held-out"),
        (["--report", "page.pdf"], "ends with .html"),
        (["--style", "colour"], "has no column 'colour'"),
        (["--cluster", "who"], "has no column 'who'"),
        (["--level", "2"], "level must be"),
        (["--half-life", "9", "--drift", "1"], "with --half-life. They are two models of time"),
        (["--drift", "1", "--gold", "right"], "with --gold. Give --half-life instead"),
        (["--by", "who", "--penalty", "held-out"], "with --by. Give --penalty evidence"),
        (["--elo", "--link", "probit"], "with --link. Elo points need --link logit"),
    ],
)
def test_bad_options_give_one_line(battles, run, arguments, message):
    assert message in run("leaderboard", battles, *arguments, ok=False)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("columns.csv", b"a,b\n1,2\n", "has no columns of battles"),
        ("winner.csv", b"model_a,model_b,winner\nx,y,z\n", "line 2, column 'winner': the outcome"),
        ("self.csv", b"model_a,model_b,winner\nx,x,tie\n", "line 2: 'x' battles itself"),
        ("empty.csv", b"", "needs a line with the names"),
        (
            "half.csv.gz",
            gzip.compress(b"model_a,model_b,winner\n" * 9, mtime=0)[:-9],
            "not a complete gzip",
        ),
        ("ties.csv", b"model_a,model_b,winner\nx,y,tie\n", "No battle has a winner"),
    ],
)
def test_bad_files_give_one_line(run, tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    assert message in run("leaderboard", path, "--quiet", ok=False)


def test_warnings_are_printed_and_name_the_option(run, tmp_path):
    path = tmp_path / "battles.csv"
    path.write_text("first,second,outcome\n" + "x,y,1\ny,x,1\n" * 30 + "x,y,0\n")
    result = run("leaderboard", path)
    assert "warning: The item shown first won more often" in result.stderr
    assert "--position" in result.stderr
    assert "taken as independent" in result.stderr


def test_the_place_of_winners_may_tell_nothing(run, tmp_path):
    path = tmp_path / "winners.csv"
    path.write_text("model_a,model_b,winner\na,b,model_a\nb,c,model_a\n")
    assert "Leave out --position" in run("leaderboard", path, "--position", "-q", ok=False)


def test_columns_are_named(run, tmp_path):
    path = tmp_path / "games.csv"
    path.write_text("white,black,result\n" + "x,y,1\ny,x,1\nx,y,0\n" * 10)
    columns = ("--first", "white", "--second", "black", "--winner", "result")
    assert "columns as named" in run("leaderboard", path, *columns, "--position").stderr
    assert "Name the columns of both" in run("leaderboard", path, *columns[:2], ok=False)
    assert "Name the columns of both" in run("leaderboard", path, *columns[4:], ok=False)
    assert "Name them by --first, --second and --winner" in run("leaderboard", path, ok=False)


def test_rankings(run, tmp_path):
    path = tmp_path / "races.csv"
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["season", "race", "driver", "place", "grid"])
        for race in range(40):
            order = np.argsort(-(0.5 * np.arange(5) + rng.gumbel(size=5)))
            for place, driver in enumerate(order):
                word = "DNF" if place == 4 else place + 1
                writer.writerow([race // 2, race, f"d{driver}", word, rng.integers(1, 9)])
    given = ["--ranking", "race,driver,place", "--cluster", "season"]
    page, numbers = tmp_path / "page.html", tmp_path / "all.json"
    result = run("leaderboard", path, *given, "--report", page, "--json", numbers)
    columns = {"ranking": "race", "item": "driver", "place": "place"}
    board = Leaderboard().fit_rankings(read_rankings(path, **columns, groups="season"))
    assert result.stdout == f"{board.standings()}\n"
    fragile = run("leaderboard", path, *given, "--fragility").stdout
    assert fragile == f"{board.standings()}\n\n{board.fragility()}\n"
    assert "40 entries have no place ('DNF')" in result.stderr
    assert json.loads(numbers.read_text())["battles"] == 40
    assert "rankings" in page.read_text()
    styled = run("leaderboard", path, *given, "--style", "grid").stdout
    assert "raises the rating of an item" in styled
    assert [line.split()[1] for line in styled.splitlines() if line.startswith("grid")] == ["1"]
    assert "three columns" in run("leaderboard", path, "--ranking", "race,place", ok=False)
    assert "--position" in run("leaderboard", path, *given, "--position", ok=False)


def test_time(run, tmp_path):
    path, page = tmp_path / "games.csv", tmp_path / "page.html"
    made = make_battles(4, 120, both_bad=0, style=0, random_state=0).battles
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model_a", "model_b", "winner", "day"])
        words = np.array(["model_a", "model_b", "tie"])[made.outcome]
        days = np.datetime64("2020-01-01") + np.arange(120)
        for (a, b), word, day in zip(made.items[made.pairs], words, days, strict=True):
            writer.writerow([a, b, word, day])
    file = read_battles(path, time="day")
    for option, value, board in (
        ("--half-life", 30, Leaderboard(half_life=30.0)),
        ("--drift", "evidence", Leaderboard(drift="evidence")),
    ):
        result = run("leaderboard", path, "--time", "day", option, value)
        assert result.stdout == f"{board.fit(file).standings()}\n"
    run("leaderboard", path, "--time", "day", "--drift", 0.5, "--report", page)
    assert "Ratings drift by a standard deviation of 0.5 in a year" in page.read_text()
    assert "--time COLUMN" in run("leaderboard", path, "--drift", 0.5, ok=False)


def test_categories(battles, run, tmp_path):
    page, numbers = tmp_path / "page.html", tmp_path / "all.json"
    given = ["--by", "judge", "--report", page, "--json", numbers]
    result = run("leaderboard", battles, *given)
    board = Leaderboard().fit(read_battles(battles, category="judge").battles)
    assert result.stdout == f"{board.standings()}\n\n{board.categories()}\n"
    assert len(json.loads(numbers.read_text())["deviations"]) == 15
    assert "Categories" in page.read_text()


LONG = [1652266001144803309, 5533128019969622333, 2171639612963082045]


@pytest.fixture
def long_ids(tmp_path):
    """Battles of items whose ids have nineteen digits; two judges who do not differ."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 300)
    second = (first + rng.integers(1, 3, 300)) % 3
    won = rng.random(300) < 1 / (1 + np.exp(1.0 * (first - second)))
    path = tmp_path / "long.jsonl"
    rows = [
        {"model_a": LONG[i], "model_b": LONG[j], "winner": "model_a" if w else "model_b",
         "judge": f"j{k % 2}", "length": float(rng.normal())}
        for k, (i, j, w) in enumerate(zip(first, second, won, strict=True))
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_numbers_in_json_say_their_unit_and_ids_keep_their_digits(long_ids, run, tmp_path):
    out, sheet = tmp_path / "all.json", tmp_path / "sheet.csv"
    where = ("--json", out, "--spreadsheet", sheet)
    done = run("leaderboard", long_ids, "--style", "length", "--elo", *where)
    assert done.exit_code == 0, done.stderr
    found = json.loads(out.read_text())
    assert found["units"]["standings"] == found["units"]["coefficients"] == "Elo points"
    board = Leaderboard().fit(long_ids, context=["length"])
    want = board.coefficients(elo=True)["coefficient"][0]
    assert found["coefficients"][0]["coefficient"] == pytest.approx(want)
    assert {row["item"] for row in found["standings"]} == set(map(str, LONG))
    assert all(f"'{item}," in sheet.read_text() for item in LONG)


def test_judges_who_do_not_differ_are_one_sentence(long_ids, run, tmp_path):
    page = tmp_path / "page.html"
    done = run("leaderboard", long_ids, "--judge", "judge", "--report", page)
    assert "Judges do not differ by more than chance" in done.stdout
    assert "slope" not in done.stdout
    assert "Judges do not differ" in page.read_text()
    assert "Ratings are in log-odds, relative to their mean." in page.read_text()


def test_the_summary_names_tied_items_in_their_order():
    class Board:
        items_ = np.array(["c", "a", "d", "b"], dtype=object)
        ratings_ = np.array([0.2, 0.9, 0.1, 0.5])

        def settled(self):
            return np.zeros((4, 4), dtype=int)

    standings = {"item": ["a", "b", "c", "d"], "p_first": [0.6]}
    assert "cannot be told apart from b, c, d." in _summary(Board(), standings)


def test_pictures_over_time_fix_the_anchor(run, tmp_path):
    path, page = tmp_path / "games.csv", tmp_path / "page.html"
    days = [
        f"2026-0{month}-{day:02},a,b,{'ab'[day % 3 == 0]}"
        for month in (1, 2)
        for day in range(1, 20)
    ]
    path.write_text("\n".join(["day,first,second,winner", *days]))
    given = ("--time", "day", "--elo", "--anchor", "a=1200", "--report", page, "-f")
    for more in ((), ("--every", "month")):
        assert run("leaderboard", path, *given, *more).exit_code == 0
        text = page.read_text()
        note = "Ratings are in Elo points, relative to a, which has 1200."
        assert text.count(note) == 2
        assert f"{note}</figcaption>" in text
