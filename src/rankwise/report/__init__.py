"""Reports: tables as text, Markdown, LaTeX, JSON and HTML, and pages as HTML or Markdown."""

from rankwise.report.comparison_tables import comparison_table
from rankwise.report.html_page import Code, Facts, Figure, Page, Section, Text
from rankwise.report.markdown_page import write_markdown
from rankwise.tables import Column, Table

__all__ = [
    "Code",
    "Column",
    "Facts",
    "Figure",
    "Page",
    "Section",
    "Table",
    "Text",
    "comparison_table",
    "write_markdown",
]
