"""Markdown that is safe to show: a small part of it, with everything else as it is written."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator

from markupsafe import Markup

_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*$")
_BULLET = re.compile(r"\s*[-*+]\s+(.*)")
_NUMBER = re.compile(r"\s*\d{1,9}[.)]\s+(.*)")
_QUOTE = re.compile(r">")
_LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]*)[^)]*\)")
_STRONG = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*|__(?=\S)(.+?)(?<=\S)__")
_STRESSED = re.compile(r"\*(?=\S)(.+?)(?<=\S)\*|(?<!\w)_(?=\S)(.+?)(?<=\S)_(?!\w)")
_CODE = re.compile(r"(`+)(.+?)\1")


def markdown(text: str) -> Markup:
    """Headings, paragraphs, lists, quotes, code and emphasis as HTML; all else is escaped.

    HTML in the text is shown as text. Links and images are shown as their words with the address
    in parentheses: nothing is loaded from elsewhere.

    Examples
    --------
    >>> print(markdown("# Tea\\n\\n*Smoky* & `<b>`"))
    <h3>Tea</h3>
    <p><em>Smoky</em> &amp; <code>&lt;b&gt;</code></p>
    """
    return Markup("\n".join(_blocks(text.replace("\r\n", "\n").split("\n"))))


def _blocks(lines: list[str]) -> Iterator[str]:
    k = 0
    while k < len(lines):
        line = lines[k]
        if not line.strip():
            k += 1
        elif line.lstrip().startswith("```"):
            end = k + 1
            while end < len(lines) and not lines[end].lstrip().startswith("```"):
                end += 1
            yield f"<pre><code>{_escaped(chr(10).join(lines[k + 1 : end]))}</code></pre>"
            k = end + 1
        elif heading := _HEADING.match(line):
            level = min(6, 2 + len(heading[1]))  # below the headings of the page
            yield f"<h{level}>{_inline(heading[2])}</h{level}>"
            k += 1
        elif line.startswith(">"):
            end = _end(lines, k, _QUOTE.match)
            inner = [text.lstrip(">").removeprefix(" ") for text in lines[k:end]]
            yield f"<blockquote>{' '.join(_inline(t) for t in inner if t)}</blockquote>"
            k = end
        elif _BULLET.match(line) or _NUMBER.match(line):
            pattern, tag = (_BULLET, "ul") if _BULLET.match(line) else (_NUMBER, "ol")
            end = _end(lines, k, pattern.match)
            found = [pattern.match(text) for text in lines[k:end]]
            points = "".join(f"<li>{_inline(m[1])}</li>" for m in found if m)
            yield f"<{tag}>{points}</{tag}>"
            k = end
        else:
            end = _end(lines, k, _is_plain)
            yield f"<p>{'<br>'.join(_inline(text) for text in lines[k:end])}</p>"
            k = end


def _end(lines: list[str], start: int, belongs: Callable[[str], object]) -> int:
    """Where the lines of a block end."""
    end = start + 1
    while end < len(lines) and belongs(lines[end]):
        end += 1
    return end


def _is_plain(line: str) -> bool:
    special = (_HEADING, _BULLET, _NUMBER)
    starts = line.startswith(">") or line.lstrip().startswith("```")
    return bool(line.strip()) and not starts and not any(p.match(line) for p in special)


def _inline(text: str) -> str:
    """Emphasis outside of code."""
    out, place = "", 0
    for code in _CODE.finditer(text):
        out += _emphasis(text[place : code.start()])
        out += f"<code>{_escaped(code[2].strip())}</code>"
        place = code.end()
    return out + _emphasis(text[place:])


def _emphasis(text: str) -> str:
    text = _escaped(text)
    text = _LINK.sub(lambda m: f"{m[1]} ({m[2]})" if m[2] else m[1], text)
    text = _STRONG.sub(lambda m: f"<strong>{m[1] or m[2]}</strong>", text)
    return _STRESSED.sub(lambda m: f"<em>{m[1] or m[2]}</em>", text)


def _escaped(text: str) -> str:
    return html.escape(text)
