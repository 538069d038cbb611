"""The documentation site: what its pages must have, and the tools that build it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import key, page, read, written
from benchmarks.harness import Result
from reproduce.provenance import last_change, provenance, provenance_line

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.append(str(DOCS))

from site_parts.check_links import dead_links, main  # noqa: E402
from site_parts.copied_pages import site_links  # noqa: E402
from site_parts.docstrings import mark_equations  # noqa: E402
from site_parts.site_index import llms_text, shortened, sitemap  # noqa: E402


def test_every_ranker_is_in_the_table_of_choices():
    from rankwise.rankers import RANKERS

    text = (DOCS / "choosing.md").read_text(encoding="utf-8")
    names = {path.rpartition(".")[2] for path in RANKERS.values()}
    assert [name for name in sorted(names) if f"`{name}" not in text] == []


def test_every_guide_is_in_the_index():
    text = (DOCS / "guide" / "index.md").read_text(encoding="utf-8")
    guides = {path.stem for path in (DOCS / "guide").glob("*.md")} - {"index"}
    assert set(re.findall(r"^([\w-]+)$", text, flags=re.MULTILINE)) == guides


@pytest.fixture
def site(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "image.png").write_text("")
    (tmp_path / "sub" / "b.html").write_text('<h1 id="top">B</h1><a href="../a.html#one">a</a>')
    (tmp_path / "a.html").write_text(
        '<a href="sub/b.html#top" id="one">b</a><img src="image.png"><a href="#one">here</a>'
        '<a href="https://example.org/x">outside</a>'
    )
    return tmp_path


def test_links_that_lead_somewhere_pass(site, capsys):
    assert dead_links(site) == []
    assert main(str(site)) == 0
    assert "2 pages, 0 links" in capsys.readouterr().out


@pytest.mark.parametrize("link", ["c.html", "sub/b.html#bottom", "#two", "../outside.html"])
def test_links_that_lead_nowhere_are_found(site, link, capsys):
    (site / "c").mkdir()
    (site / "new.html").write_text(f'<a href="{link}">x</a>')
    assert dead_links(site) == [f"new.html: {link}"]
    assert main(str(site)) == 1


def test_an_empty_site_fails(tmp_path):
    assert main(str(tmp_path)) == 1


@pytest.mark.parametrize(
    ("link", "want"),
    [
        ("[a](hold-outs.md#assumptions)", "[a](hold-outs.md#assumptions)"),
        ("[a](../../examples/reward_model.py)", "[a](../auto_examples/reward_model.rst)"),
        (
            "[a](../../reproduce/letor/README.md#x)",
            "[a](../repository/reproduce/letor/README.md#x)",
        ),
        ("[`a`](../../src/rankwise/objectives.py)", "`a`"),
        ("![a](../../reproduce/kpcrank/region.svg)", "![a](../../reproduce/kpcrank/region.svg)"),
        ("[a](../../README.md)", "[a](../index.md)"),
        ("[a](https://example.org/x.md)", "[a](https://example.org/x.md)"),
    ],
)
def test_links_of_guides_on_the_site(link, want):
    guide = DOCS / "guide" / "gpu.md"
    assert site_links(f"See {link}.", guide, guide) == f"See {want}."


def test_links_of_pages_that_are_copied():
    file, copy = ROOT / "CONTRIBUTING.md", DOCS / "repository" / "CONTRIBUTING.md"
    assert site_links("[a](docs/notation.md)", file, copy) == "[a](../notation.md)"


def test_names_in_the_code_of_a_page():
    pytest.importorskip("docutils", reason="needs the extra docs")
    from site_parts.name_links import names_in_code

    text = "Battles and `RankRLS.fit_pairs(X)`.\n```python\nmetrics.ndcg(y).\n```\nText"
    assert names_in_code(text) == {"RankRLS.fit_pairs", "X", "python", "metrics.ndcg", "y", ""}


def test_indented_lines_of_docstrings_are_equations():
    lines = [
        "Minimizes",
        "",
        "    |f|^2",
        "    + 1,",
        "",
        "where",
        "",
        "Notes",
        "-----",
        "- a",
        "",
        "  b",
    ]
    want = ["Minimizes", "", "::", "", *lines[2:]]
    mark_equations(None, "", "", None, None, lines)
    assert lines == want
    again = ["As in::", "", "    x", "a : int", "    What."]
    same = list(again)
    mark_equations(None, "", "", None, None, again)
    assert again == same


def test_descriptions_are_whole_sentences():
    assert shortened("One  sentence.\nAnother.") == "One sentence. Another."
    long = "word " * 30 + "end. " + "word " * 20
    assert shortened(long) == "word " * 30 + "end."
    assert shortened("word " * 90) == "word " * 39 + "word ..."


def test_what_programs_read_about_the_site():
    pages = {
        "api/rankers": ("Rankers", "All of them."),
        "api/generated/rankwise.RankRLS": ("rankwise.RankRLS", ""),
        "guide/tour": ("A tour", "Read it."),
        "more": ("More", ""),
        "papers": ("Papers", ""),
    }
    text = llms_text(pages)
    assert text.startswith("# rankwise\n\n> Preference learning")
    assert text[text.index("## ") :] == (
        "## Guide\n\n- [A tour](guide/tour.html): Read it.\n\n"
        "## API\n\n- [Rankers](api/rankers.html): All of them.\n\n"
        "## Results and development\n\n- [Papers](papers.html)\n"
    )
    assert "](address/guide/tour.html)" in llms_text(pages, "address/")
    assert "<loc>address/a&amp;b.html</loc>" in sitemap(["a&b"], "address/")


def test_where_a_figure_comes_from(tmp_path):
    found = provenance(tmp_path)
    assert found["commit"] == ""
    line = provenance_line(found, "toy")
    assert line.startswith(f"*toy: {found['date']}; ")
    assert line.endswith("; commit not recorded.*")
    assert provenance_line({}, "toy") == "*toy: date, commit and machine were not recorded.*"
    assert re.fullmatch(r"([0-9a-f]{10}( with changes)?)?", provenance(ROOT)["commit"])


def test_the_last_change_of_a_table(tmp_path):
    def git(*arguments, day=1):
        time = f"2026-01-{day:02d}T12:00:00Z"
        roles = ("AUTHOR", "COMMITTER")
        who = {f"GIT_{role}_{what}": "a" for role in roles for what in ("NAME", "EMAIL")}
        when = {"GIT_AUTHOR_DATE": time, "GIT_COMMITTER_DATE": time}
        command = ["git", "-C", tmp_path, *arguments]
        return subprocess.run(
            command, env=os.environ | who | when, capture_output=True, text=True, check=True
        ).stdout.strip()

    path = tmp_path / "README.md"
    path.write_text("# Toy\n")
    assert last_change(path, "# Toy") == {}
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    assert last_change(path, "# Toy") == {}  # where the history begins, it may have been cut off
    path.write_text("# Toy\n\none\ntwo\n")
    assert last_change(path, "one\ntwo") == {}  # not committed
    git("commit", "-qam", "second", day=2)
    path.write_text("# Toy\n\none\n2\n\nlater\n")
    git("commit", "-qam", "third", day=3)
    third = git("rev-parse", "--short=10", "HEAD")
    path.write_text("# Toy\n\nmore\n\none\n2\n\nlater than that\n")
    git("commit", "-qam", "fourth", day=4)
    found = last_change(path, "one\n2")
    assert found == {"changed": "2026-01-03", "in": third}
    assert f"2026-01-03 in commit {third}; the machine was not" in provenance_line(found, "toy")


def test_the_page_of_benchmarks_says_when_and_where():
    results = [
        Result("fast", "1 s", "peer: 2 s", 0.5, 1.0),
        Result("b", "1", "2", 3.0, float("inf")),
    ]
    kept = json.loads(json.dumps({"results": written(results)}, allow_nan=False))
    assert read(kept) == results
    text = page({"metrics": kept | {"date": "2026-01-02", "commit": "abc", "machine": "a toaster"}})
    assert "| fast | 1 s | peer: 2 s | 0.5 | 1 | holds |" in text
    assert "*metrics: 2026-01-02; commit abc; a toaster.*" in text
    run = kept | {"date": "2026-01-03", "commit": "abd", "machine": "a toaster, 16 cores, warm"}
    runs = {"metrics": run | {"machine": "a toaster, 2 cores, warm"}}
    assert key("metrics", run | {"machine": "a toaster, 2 cores, cold"}, runs) == "metrics"
    runs[key("metrics", run, runs)] = run
    assert list(runs) == ["metrics", "metrics on a toaster, 16 cores"]
    both = page(runs).partition("## metrics")[2]
    assert both.index("a toaster, 2 cores, warm.*") < both.index("a toaster, 16 cores, warm.*")
    assert "`letor`" in text.partition("No run of these")[2]
    assert "`metrics`" not in text
