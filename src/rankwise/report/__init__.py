"""Reports: tables as text, Markdown, LaTeX, JSON and HTML, and HTML pages."""

from rankwise.report.comparison import comparison_table
from rankwise.report.html_page import Code, Facts, Figure, Page, Section, Text
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
]
