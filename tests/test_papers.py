"""The page about the papers names files, tests and parts that exist."""

import re
from pathlib import Path

from reproduce.parts import PAPERS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"`([^`]+)`", PAGE)
FOLDERS = ("src/", "tests/", "benchmarks/", "reproduce/")


def named(folders):
    return [text for text in QUOTED if text.startswith(folders)]


def test_files_exist():
    paths = [text.partition("::")[0] for text in named(FOLDERS)]
    assert len(paths) > 100
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_tests_exist():
    tests = [text.split("::") for text in named("tests/") if "::" in text]
    assert len(tests) > 40
    missing = [
        "::".join(test)
        for test in tests
        if f"\ndef {test[1]}(" not in (ROOT / test[0]).read_text(encoding="utf-8")
    ]
    assert missing == []


def test_parts_of_the_reproduction_exist():
    parts = {part.name for paper in PAPERS for part in paper.parts}
    folders = {paper.folder for paper in PAPERS}
    given = [text for text in QUOTED if text.partition("/")[0] in folders]
    assert len(given) > 15
    assert [text for text in given if text not in parts] == []


def last_digit(figure):
    """What one more in the last digit would be: 0.1e-5 for 3.9e-05."""
    digits, _, exponent = figure.partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


def test_figures_are_those_of_the_results():
    sources = [ROOT / "docs" / "results.md", ROOT / "docs" / "benchmarks.md"]
    sources += (ROOT / "reproduce").glob("*/README.md")
    text = " ".join(path.read_text(encoding="utf-8") for path in sources)
    known = {float(number) for number in re.findall(r"\d+\.\d+(?:e-\d+)?", text)}
    rows = [row.split("|")[3] for row in PAGE.splitlines() if row.startswith("|")]
    decimals = r"(?<![\w.])\d+\.\d+(?:e-\d+)?(?![\d.])"
    figures = [figure for row in rows for figure in re.findall(decimals, row)]
    assert len(figures) > 80
    missing = [
        figure
        for figure in figures
        if not any(abs(number - float(figure)) <= 0.5001 * last_digit(figure) for number in known)
    ]
    assert missing == []


def test_every_paper_and_every_row_has_three_cells():
    assert re.findall(r"^## (\d)\.", PAGE, flags=re.MULTILINE) == list("12345")
    rows = re.findall(r"^\|.*$", PAGE, flags=re.MULTILINE)
    assert [row for row in rows if len(re.split(r"(?<!\\)\|", row)) != 5] == []
