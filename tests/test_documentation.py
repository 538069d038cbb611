"""All code blocks of the README and of the guides run, and all links point to existing files."""

import doctest
import re
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest

from tests.scripts import run_commands, run_script

pytestmark = pytest.mark.ci
ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = [
    README,
    DOCS / "faq.md",
    DOCS / "exact-hold-outs.md",
    *(page for page in sorted((DOCS / "guide").glob("*.md")) if page.stem != "index"),
    *sorted((DOCS / "coming-from").glob("*.md")),
]
WITH_LINKS = {"architecture", "choosing", "citing", "glossary", "index", "papers"}
LINKED = [
    *(*PAGES, ROOT / "CONTRIBUTING.md"),
    *(page for page in sorted(DOCS.glob("*.md")) if page.stem in WITH_LINKS),
]
PEERS = {
    DOCS / "coming-from" / f"{page}.md": packages
    for page, packages in {
        "botorch": ["botorch"],
        "choix": ["choix"],
        "lightgbm": ["lightgbm"],
        "rlscore": ["rlscore"],
        "xgboost": ["xgboost"],
    }.items()
} | {DOCS / "guide" / "trees.md": ["xgboost", "catboost"]}
BLOCK = re.compile(r"```(python|py|bash|pycon|text)\n(.*?)```", flags=re.DOTALL)
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


def blocks(page, language):
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [block for kind, block in found if kind == language]


def name(page):
    return str(page.relative_to(ROOT).with_suffix(""))


# Pages that take half a second or more; `make test-docs` runs them.
SLOW = {
    "README",
    *(f"docs/coming-from/{page}" for page in ("lightgbm", "scikit-learn", "xgboost")),
} | {
    f"docs/guide/{page}"
    for page in (
        *("best-ranker", "command-line", "comparisons", "components", "constraints", "deploying"),
        *("embeddings", "explaining", "graphs", "hold-outs", "how-sure", "inspecting"),
        *("landmarks", "leaderboards", "many-machines", "pictures", "two-sided"),
        *("preferences", "scaling", "scikit-learn", "tables", "tour", "trees"),
        "words-against-words",
    )
}
NEEDED = {  # page: packages of extras, each with its extra
    "docs/guide/constraints": [("lightgbm", "boost")],
    "docs/coming-from/lightgbm": [("lightgbm", "boost")],
    "docs/guide/command-line": [("onnxruntime", "onnx")],
    "docs/guide/deploying": [("onnxruntime", "onnx"), ("lightgbm", "boost")],
    "docs/guide/gpu": [("torch", "gpu")],
    "docs/guide/tour": [("lightgbm", "boost")],
    "docs/guide/trees": [("lightgbm", "boost")],
}


def run_in_a_new_process(script):
    """What a new user tries first, without anything that other tests imported or compiled."""
    command = [sys.executable, "-W", "error", script.name]
    done = subprocess.run(command, capture_output=True, text=True, cwd=script.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name(page), marks=[pytest.mark.slow] if name(page) in SLOW else [])
        for page in PAGES
        if BLOCK.search(page.read_text(encoding="utf-8"))
    ],
)
def test_blocks_run(page, tmp_path):
    """Python blocks in order, in one namespace, then the shell blocks in the same folder.

    What the page shows in `text` blocks is printed by them, up to the numbers.
    """
    for package, extra in NEEDED.get(name(page), ()):
        pytest.importorskip(package, reason=f"needs the extra {extra}")
    script, session = tmp_path / "page.py", "\n".join(blocks(page, "pycon"))
    script.write_text("\n".join(blocks(page, "python")), encoding="utf-8")
    run_python = run_in_a_new_process if page == README else run_script
    printed = [run_python(script), *(run_commands(b, tmp_path) for b in blocks(page, "bash"))]
    with chdir(tmp_path):
        check_session(session, name(page))
    shown = shapes("\n".join(blocks(page, "text"))) - {"", "..."}
    assert shown <= shapes("\n".join(printed))
    assert missing(page.read_text(encoding="utf-8"), "\n".join(printed)) == []


def shapes(text):
    """The different lines of a text, without their numbers and without the widths of columns."""
    lines = re.sub("-{2,}", "--", text).splitlines()
    return {" ".join(NUMBER.sub("#", line).split()) for line in lines}


def missing(text, printed):
    """Numbers in sentences that begin with "This prints" and are not near a printed number."""
    found = [float(value) for value in re.findall(r"\d+(?:\.\d+)?", printed)]
    sentences = re.findall(r"This prints (.+?)[.:]\s", text, flags=re.DOTALL)
    numbers = [value for part in sentences for value in re.findall(r"\d+(?:\.\d+)?", part)]
    return [
        value
        for value in numbers
        if not any(
            abs(float(value) - other) <= 10.0 ** -len(value.partition(".")[2]) for other in found
        )
    ]


def check_session(text, title):
    """Run what was typed at the prompt, and compare what it prints with what is written."""
    test = doctest.DocTestParser().get_doctest(text, {}, title, None, 0)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    printed = []
    doctest.DocTestRunner(optionflags=options).run(test, out=printed.append)
    assert not printed, "".join(printed)


@pytest.mark.slow
@pytest.mark.parametrize("page", PEERS, ids=name)
def test_blocks_of_other_libraries_run(page, tmp_path):
    """Blocks marked `py` call libraries that users come from, on the data of the page."""
    for package in PEERS[page]:
        pytest.importorskip(package)
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    theirs = "\n".join(code for kind, code in found if kind == "py")
    assert all(
        f"import {package}" in theirs or f"from {package}" in theirs for package in PEERS[page]
    )
    script = tmp_path / "page.py"
    script.write_text("\n".join(code for kind, code in found if kind in ("python", "py")))
    run_script(script)


def test_the_readme_stays_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 170


def test_figures_of_the_readme_are_those_of_the_results():
    """The small table of boosters is the table of means that `python -m reproduce` wrote."""
    results = (DOCS / "results.md").read_text(encoding="utf-8")
    means = results[results.index("| mean of all problems |") :]
    rows = re.findall(
        r"^\| ([^|]+) \| (0\.\d{3}) \| (?:(0\.\d{3}) ± (0\.\d{3}))? *\| ([\d.]+) \|$",
        README.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert len(rows) == 6
    for name, *figures in rows:
        label = name.replace("`", "")
        label = {"RankRLS": "RankRLS, default"}.get(label, rf"{label}(?:, tuned)?")
        found = re.search(rf"^\| {label} \|(.+)\|$", means, re.MULTILINE)
        mean, gap, error, _, time = (cell.strip(" *") for cell in found[1].split("|"))
        for shown, full in zip(figures, (mean, gap, error, time), strict=True):
            assert not shown or float(shown) == pytest.approx(float(full), abs=5.1e-4)


def test_the_architecture_names_what_is_there():
    text, package = (DOCS / "architecture.md").read_text(encoding="utf-8"), ROOT / "src/rankwise"
    for path in set(re.findall(r"[\w/]+\.py", text)):
        assert list(package.rglob(path)) or (ROOT / path).exists(), path
    block = next(part for part in text.split("```")[1::2] if "cli/" in part)
    rooms = {path.name.removesuffix(".py") for path in package.iterdir() if path.name[0] != "_"}
    assert rooms - {"py.typed"} <= set(re.findall(r"\w+", block))


@pytest.mark.parametrize("page", LINKED, ids=name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []
