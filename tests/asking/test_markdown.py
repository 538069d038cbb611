"""Markdown: CommonMark as HTML without attributes, and all else as text."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("markdown_it", reason="needs the extra ask")
pytest.importorskip("markupsafe", reason="needs the extra ask")


from rankwise.asking.web.app import LONGEST, markdown

TAGS = {"p", "br", "hr", "h3", "h4", "h5", "h6", "ul", "ol", "li", "pre", "code", "strong", "em"}


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a\nb\n\nc", "<p>a<br>\nb</p>\n<p>c</p>"),
        ("## T ##", "<h4>T</h4>"),
        ("- a\n- **b**", "<ul>\n<li>a</li>\n<li><strong>b</strong></li>\n</ul>"),
        ("3. a\n4. b", "<ol>\n<li>a</li>\n<li>b</li>\n</ol>"),
        ("> a\n> b", "<blockquote>\n<p>a<br>\nb</p>\n</blockquote>"),
        ("```py\nif a < b:\n```", "<pre><code>if a &lt; b:\n</code></pre>"),
        ("snake_case_name and _this_", "<p>snake_case_name and <em>this</em></p>"),
        ("`**a**`", "<p><code>**a**</code></p>"),
        ("[*x*](http://y)", "<p>[<em>x</em>](http://y)</p>"),
        ("<http://y/?a&b>", "<p>&lt;http://y/?a&amp;b&gt;</p>"),
        ("![<b>](data:image/png;base64,x)", "<p>![&lt;b&gt;](data:image/png;base64,x)</p>"),
        ("<b onclick=x>y</b>", "<p>&lt;b onclick=x&gt;y&lt;/b&gt;</p>"),
        ("```\nopen", "<pre><code>open</code></pre>"),
        ("", ""),
    ],
)
def test_examples(text, html):
    assert str(markdown(text)) == html


@given(st.text(alphabet="<>&\"'`*_#-1.[]()! \nabscript:=", max_size=60))
def test_no_other_tags_and_no_attributes(text):
    found = re.findall(r"<(/?)([^>]*)>", str(markdown(text)))
    assert {tag for _, tag in found} <= TAGS | {"blockquote"}


@pytest.mark.parametrize("part", ["[", "![", "![[", "**a ", "*a ", "`a``", "> ", "- - a\n", "[a]("])
def test_no_text_takes_long(part):
    """The limit is much longer than it takes."""
    begin = time.process_time()
    markdown((part * LONGEST)[:LONGEST])
    assert time.process_time() - begin < 20


def test_a_longer_text_is_shown_as_it_is():
    begin = time.process_time()
    markdown("[" * 100_000)  # as long as a text may be: quadratic expressions took over a minute
    assert time.process_time() - begin < 20
    text = "*a* <b>\n" * LONGEST
    assert str(markdown(text)) == f"<pre>{text.replace('<', '&lt;').replace('>', '&gt;')}</pre>"
