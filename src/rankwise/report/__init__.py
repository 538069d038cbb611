"""Reports: tables as text, Markdown, LaTeX, JSON and HTML, and pages as HTML or Markdown."""

from rankwise.report.pages import (
    Code,
    Facts,
    Figure,
    Folded,
    Page,
    Section,
    Text,
    comparison_table,
    write_markdown,
)
from rankwise.tables import Column, Table

__all__ = [
    "Code",
    "Column",
    "Facts",
    "Figure",
    "Folded",
    "Page",
    "Section",
    "Table",
    "Text",
    "comparison_table",
    "write_markdown",
]
