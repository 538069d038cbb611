"""Markdown: a small part of it as HTML, and all else as text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("markupsafe", reason="needs the extra ask")

from rankwise.asking.web.markdown import markdown

TAGS = {"p", "br", "h3", "h4", "h5", "h6", "ul", "ol", "li", "pre", "code", "strong", "em"}


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a\nb\n\nc", "<p>a<br>b</p>\n<p>c</p>"),
        ("## T ##", "<h4>T</h4>"),
        ("- a\n- **b**", "<ul><li>a</li><li><strong>b</strong></li></ul>"),
        ("1. a\n2) b", "<ol><li>a</li><li>b</li></ol>"),
        ("> a\n> b", "<blockquote>a b</blockquote>"),
        ("```py\nif a < b:\n```", "<pre><code>if a &lt; b:</code></pre>"),
        ("snake_case_name and _this_", "<p>snake_case_name and <em>this</em></p>"),
        ("`**a**`", "<p><code>**a**</code></p>"),
        ("[x](http://y)", "<p>x (http://y)</p>"),
        ("![i](http://y/z.png)", "<p>i (http://y/z.png)</p>"),
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
