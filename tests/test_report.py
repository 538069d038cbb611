"""Tables in every form, and pages."""

import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

from rankwise.errors import DataError, ParameterError
from rankwise.metrics import evaluate_ranking
from rankwise.plots.item_plots import STRONGEST
from rankwise.report import (
    Code,
    Column,
    Facts,
    Figure,
    Page,
    Section,
    Table,
    Text,
    comparison_table,
)


@pytest.fixture
def table():
    return Table(
        (Column("ranker", ""), Column("MAP"), Column("rows"), Column("p", ".2g")),
        (
            ("Rank_RLS & co", 0.123456, 15211, None),
            ("a|b <i>", np.float64(0.1), np.int64(7), 3.21e-7),
            ("none", float("nan"), 0, -0.5),
        ),
        title="50% of it",
        note="p_value: Wilcoxon",
        best=frozenset({(0, 1)}),
    )


def test_text_is_aligned(table):
    assert table.to_text().splitlines() == [
        "50% of it",
        "",
        "ranker            MAP    rows        p",
        "-------------  ------  ------  -------",
        "Rank_RLS & co  0.1235  15,211        –",
        "a|b <i>        0.1000       7  3.2e-07",
        "none                –       0     -0.5",
        "",
        "p_value: Wilcoxon",
    ]
    assert str(table) == table.to_text()


def test_text_without_header():
    assert Table((Column(""), Column("")), (("rows", 7), ("features", 12))).to_text() == (
        "rows       7\nfeatures  12"
    )


def test_a_name_with_several_lines_is_one_line_of_a_table():
    table = Table((Column("item", ""), Column("n")), (("a\nb\u2028c", 7), ("d", 8)))
    assert table.to_text().splitlines()[2:] == [r"a\nb\u2028c  7", "d            8"]
    assert len(table.to_markdown().splitlines()) == 4
    assert json.loads(table.to_json())["rows"][0]["item"] == "a\nb\u2028c"


def test_markdown_marks_the_best_and_escapes_bars(table):
    lines = table.to_markdown().splitlines()
    assert lines[0] == "**50% of it**"
    assert lines[3] == "| :--- | ---: | ---: | ---: |"
    assert lines[4] == "| Rank_RLS & co | **0.1235** | 15,211 | – |"
    assert lines[5].startswith(r"| a\|b <i> | 0.1000 |")


def test_latex_escapes_and_writes_powers(table):
    text = table.to_latex()
    assert r"\caption{50\% of it. p\_value: Wilcoxon}" in text
    assert r"Rank\_RLS \& co & \textbf{0.1235} & 15,211 & -- \\" in text
    assert r"a|b \textless{}i\textgreater{} & 0.1000 & 7 & $3.2 \times 10^{-7}$ \\" in text
    assert "$-0.5$" in text
    assert r"\begin{tabular}{lrrr}" in text
    assert text.count(r"\begin{") == text.count(r"\end{") == 2


def test_json_is_unrounded_and_without_nan(table):
    content = json.loads(table.to_json())
    assert content["rows"][0] == {
        "ranker": "Rank_RLS & co",
        "MAP": 0.123456,
        "rows": 15211,
        "p": None,
    }
    assert content["rows"][2]["MAP"] is None
    assert content["title"] == "50% of it"


def test_html_escapes_and_marks(table):
    text = table.to_html()
    assert "<caption>50% of it</caption>" in text
    assert '<th scope="row" class="text">a|b &lt;i&gt;</th>' in text
    assert "<strong>0.1235</strong>" in text
    assert "3.2 × 10<sup>−7</sup>" in text
    assert text.count("<tr>") == 4
    assert table._repr_html_() == text


def test_names_that_look_like_numbers_stay_as_they_are():
    table = Table((Column("item", ""), Column("p", ".1g")), (("1e-320", 1e-7),))
    assert '<th scope="row" class="text">1e-320</th>' in table.to_html()
    assert "1 × 10<sup>−7</sup>" in table.to_html()
    assert r"1e-320 & $1 \times 10^{-7}$ \\" in table.to_latex()


def test_rich_shows_the_same_cells(table):
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    Console(file=out, width=100).print(table)
    for cell in ("Rank_RLS & co", "0.1235", "15,211", "a|b <i>", "50% of it", "p_value: Wilcoxon"):
        assert cell in out.getvalue()


def test_a_row_of_the_wrong_length():
    with pytest.raises(ParameterError, match="2 columns: row 1 has 1"):
        Table((Column("a"), Column("b")), ((1, 2), (3,)))


def test_cells_of_every_type():
    column = Column("x")
    assert [column.show(value) for value in ("word", True, None, 2, 2.0)] == [
        "word", "True", "–", "2", "2.0000",
    ]  # fmt: skip


def test_what_is_rounded_to_zero_has_no_sign():
    assert [Column("x", f).show(-0.001) for f in (".2f", "+.2f", ".2g")] == [
        "0.00", "+0.00", "-0.001",
    ]  # fmt: skip


@pytest.fixture
def evaluations():
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(30), 8)
    y = rng.integers(0, 3, 240)
    noise = rng.normal(size=240)
    return {
        name: evaluate_ranking(y, y + scale * noise, qid)
        for name, scale in (("good", 0.3), ("fair", 1.0), ("bad", 5.0))
    }


def test_comparison_marks_the_best_and_tests_against_the_first(evaluations):
    table = comparison_table(evaluations, title="three")
    assert [c.name for c in table.columns] == [
        "metric", "good", "fair", "p (fair)", "bad", "p (bad)",
    ]  # fmt: skip
    assert {row for row, column in table.best if column == 1} == set(range(len(table.rows)))
    row = table.rows[[r[0] for r in table.rows].index("NDCG@10")]
    tests = [evaluations["good"].compare(evaluations[name])["NDCG@10"] for name in ("fair", "bad")]
    assert row[1:] == (
        tests[0].mean_a, tests[0].mean_b, tests[0].p_value, tests[1].mean_b, tests[1].p_value,
    )  # fmt: skip


def test_lower_disagreement_is_better_and_equal_means_are_both_best(evaluations):
    good, bad = evaluations["good"], evaluations["bad"]
    table = comparison_table({"bad": bad, "good": good}, metrics=["disagreement", "MAP"])
    assert table.best == {(0, 2), (1, 2)}
    assert table.rows[0][0] == "disagreement (lower is better)"
    twins = comparison_table({"one": good, "two": good}, metrics=["MAP"])
    assert twins.best == {(0, 1), (0, 2)}
    assert twins.rows[0][3] == 1.0


def test_one_ranker_alone_has_no_best(evaluations):
    table = comparison_table({"good": evaluations["good"]})
    assert len(table.columns) == 2
    assert table.best == frozenset()


def test_one_query_gives_no_p_value():
    one = evaluate_ranking([1, 0, 2], [3, 1, 2])
    assert comparison_table({"a": one, "b": one}, metrics=["NDCG"]).rows[0][3] is None


def test_invalid_comparisons(evaluations):
    with pytest.raises(DataError, match="nothing to compare"):
        comparison_table({})
    with pytest.raises(DataError, match="Not every ranker has 'NDCG@7'"):
        comparison_table(evaluations, metrics=["NDCG@7"])


SVG = '<?xml version="1.0"?>\n<svg width="9"><g id="a"/><use href="#a"/><p clip="url(#a)"/></svg>'


def test_a_page_contains_every_element_escaped(table):
    page = Page(
        "A & B",
        "We tried `a < b`.",
        [
            Section("", [Facts((("3 < 4", "fact & figure"),))]),
            Section("First <one>", [Text("Use `x & y`."), Code("if a < b:"), table]),
            Section("Figures", [Figure(SVG, 'says "alt"', "cap"), Figure(SVG, "two")]),
        ],
        footer="The `end`.",
    )
    text = page.to_html()
    assert text.startswith("<!doctype html>")
    assert "<title>A &amp; B</title>" in text
    assert "We tried <code>a &lt; b</code>." in text
    assert "<h2>First &lt;one&gt;</h2>" in text
    assert text.count("<h2>") == 2
    assert "<pre><code>if a &lt; b:</code></pre>" in text
    assert "<dt>fact &amp; figure</dt><dd>3 &lt; 4</dd>" in text
    assert '<svg role="img" aria-label="says &quot;alt&quot;"' in text
    assert "<figcaption>cap</figcaption>" in text
    assert "<?xml" not in text
    assert "<footer>The <code>end</code>.</footer>" in text


def test_two_figures_share_no_id():
    text = Page("t", "s", [Section("f", [Figure(SVG, "one"), Figure(SVG, "two")])]).to_html()
    assert re.findall(r'id="(.*?)"', text) == ["figure-1-a", "figure-2-a"]
    assert re.findall(r'href="#(.*?)"', text) == ["figure-1-a", "figure-2-a"]
    assert re.findall(r"url\(#(.*?)\)", text) == ["figure-1-a", "figure-2-a"]


def test_figures_on_a_page_are_a_little_larger_and_shrink_with_it():
    text = Figure('<svg width="100pt" height="50pt" viewBox="0 0 100 50"></svg>', "one").to_html()
    assert 'width="125pt" viewBox' in text
    assert "height" not in text


def test_a_page_is_self_contained():
    text = Page("t", "s").to_html()
    assert "http" not in text
    assert "@import" not in text
    assert "color-scheme: light dark" in text


def test_a_page_is_written_to_a_file(tmp_path):
    path = Page("Grüße", "s").write(tmp_path / "page.html")
    assert "<h1>Grüße</h1>" in path.read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_a_narrow_terminal_cuts_no_number():
    columns = Column("metric", ""), Column("rankers", ""), Column("mean"), Column("p", ".2g")
    table = Table(columns, (("disagreement", "linear − boosted", 0.25, 3.1e-5),) * 2)
    for width in (60, 34, 30):
        console = Console(file=io.StringIO(), width=width, color_system=None)
        console.print(table)
        lines = console.file.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        assert sum("0.2500" in line and "3.1e-05" in line for line in lines) == 2
        text = "".join("".join(lines).split())
        assert "…" not in text
    assert "disagreement" not in text  # no room for the longest word


def test_on_a_narrow_terminal_headers_are_wrapped_before_names_are():
    columns = Column("ranker", ""), Column("alpha or trees", ".3g"), Column("behind best")
    table = Table(columns, (("rbf, query-standard", 4.38, 0.25),))
    for width in (40, 33, 29):
        console = Console(file=io.StringIO(), width=width, color_system=None)
        console.print(table)
        text = console.file.getvalue()
        assert max(map(len, text.splitlines())) <= width
        words = set(text.split())
        assert words >= {"rbf,", "query-standard", "alpha", "trees", "behind", "best", "0.2500"}


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_numbers_can_be_read_on_the_strongest_cells(theme):
    style = Page("a", "b").to_html()

    def colour(name):
        (found,) = re.findall(rf"--{name}: #(\w+);", style)[theme : theme + 1]
        return np.array([int(found[k : k + 2], 16) for k in (0, 2, 4)]) / 255

    def light(colour):
        linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722] + 0.05

    for series in ("series-1", "series-2"):
        cell = STRONGEST * colour(series) + (1 - STRONGEST) * colour("card")
        low, high = sorted([light(cell), light(colour("ink"))])
        assert high / low >= 4.5  # as the WCAG asks of text
