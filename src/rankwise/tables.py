"""Tables as text, Markdown, LaTeX, JSON and HTML."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from math import isfinite
from numbers import Integral, Real
from typing import Any

from rankwise.errors import ParameterError

MISSING = "–"
LONG = 24  # characters from which on text may be wrapped on a page
_LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "–": "--",
    "−": "$-$",
    "α": r"$\alpha$",
    "τ": r"$\tau$",
    "±": r"$\pm$",
}
# Characters that would break a line of a table, as Python writes them.
_BREAKS = {code: ascii(chr(code))[1:-1] for code in (*range(32), 127, 0x85, 0x2028, 0x2029)}
_SIGN = re.compile(r"^([-+ ]?)")  # at the beginning of a format
_EXPONENT = re.compile(r"^(-?[\d.]+)e([+-]\d+)$")


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    name : str
        The header.
    format : str, default=".4f"
        Format of its numbers, as for Python's `format`. Whole numbers have thousands separators
        instead, except for "d", the format of ids. Text is shown as it is, except for line breaks,
        which are shown as ``\\n``.

    Examples
    --------
    >>> Column("alpha", ".4g").name
    'alpha'
    """

    name: str
    format: str = ".4f"

    def show(self, value: Any) -> str:
        """The text of a cell."""
        if value is None or (isinstance(value, Real) and value != value):
            return MISSING
        if isinstance(value, str | bool):
            return str(value).translate(_BREAKS)
        if isinstance(value, Integral):
            return f"{value:d}" if self.format == "d" else f"{value:,}"
        if isinstance(value, Real):
            # "z": what is rounded to zero has no sign
            return format(float(value), _SIGN.sub(r"\1z", self.format, count=1))
        return str(value)


@dataclass(frozen=True)
class Table:
    """Rows of text and numbers, as text, Markdown, LaTeX, JSON or HTML.

    `print` shows text, a notebook shows HTML, and rich's console shows a coloured table.

    Parameters
    ----------
    columns : tuple of Column
    rows : tuple of tuple
        Cells: text, numbers, or None where there is nothing.
    title, note : str
        Text above and below the table.
    best : frozenset of (int, int)
        Row and column of the cells in bold.

    Examples
    --------
    >>> table = Table(
    ...     (Column("ranker", ""), Column("MAP"), Column("queries")),
    ...     (("RankRLS", 0.47613, 784), ("RLS", 0.4702, 784)),
    ...     best=frozenset({(0, 1)}),
    ... )
    >>> print(table)
    ranker      MAP  queries
    -------  ------  -------
    RankRLS  0.4761      784
    RLS      0.4702      784
    >>> print(table.to_markdown())
    | ranker | MAP | queries |
    | :--- | ---: | ---: |
    | RankRLS | **0.4761** | 784 |
    | RLS | 0.4702 | 784 |
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    title: str = ""
    note: str = ""
    best: frozenset[tuple[int, int]] = frozenset()

    def __post_init__(self) -> None:
        for i, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ParameterError(
                    f"Each row must have one cell for each of the {len(self.columns)} columns: row "
                    f"{i} has {len(row)}."
                )

    @cached_property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """The text of every cell."""
        return tuple(
            tuple(column.show(value) for column, value in zip(self.columns, row, strict=True))
            for row in self.rows
        )

    @cached_property
    def numeric(self) -> tuple[bool, ...]:
        """Whether each column holds numbers, which are aligned to the right."""
        return tuple(
            any(isinstance(row[c], Real) for row in self.rows)
            and not any(isinstance(row[c], str) for row in self.rows)
            for c in range(len(self.columns))
        )

    @cached_property
    def _widths(self) -> list[int]:
        """The number of characters of each column."""
        columns = zip([column.name for column in self.columns], *self.cells, strict=True)
        return [max(map(len, cells)) for cells in columns]

    def _styled(
        self, escape: Callable[[str], str], bold: str, power: str = "", minus: str = "-"
    ) -> list[list[str]]:
        """All cells, the best of them in bold; `power` is the form of numbers such as 3.1e-05.

        Texts stay as they are, also a name that looks like such a number.
        """

        def shown(r: int, c: int, cell: str) -> str:
            is_text = isinstance(self.rows[r][c], str)
            found = None if is_text or not power else _EXPONENT.match(cell)
            text = escape(cell)
            if found:
                text = power.format(found[1], str(int(found[2])).replace("-", minus))
            return bold.format(text) if (r, c) in self.best else text

        return [
            [shown(r, c, cell) for c, cell in enumerate(row)] for r, row in enumerate(self.cells)
        ]

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self) -> str:
        """Plain text with aligned columns; without a header if no column has a name."""
        names = [column.name for column in self.columns]
        widths, lines = self._widths, list(map(list, self.cells))
        if any(names):
            rule = ["-" * width if name else "" for name, width in zip(names, widths, strict=True)]
            lines = [names, rule, *lines]
        body = [
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(line, widths, self.numeric, strict=True)
            ).rstrip()
            for line in lines
        ]
        above = [self.title, ""] if self.title else []
        below = ["", self.note] if self.note else []
        return "\n".join(above + body + below)

    def to_markdown(self) -> str:
        """A Markdown table, as on GitHub."""
        head = [
            [column.name for column in self.columns],
            ["---:" if right else ":---" for right in self.numeric],
        ]
        rows = head + self._styled(str, "**{}**")
        lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
        above = [f"**{self.title}**", ""] if self.title else []
        below = ["", self.note] if self.note else []
        return "\n".join(above + [f"| {line} |" for line in lines] + below)

    def to_latex(self) -> str:
        r"""A LaTeX tabular with booktabs rules, within a table environment if there is a title.

        Examples
        --------
        >>> columns = Column("metric", ""), Column("p", ".2g")
        >>> print(Table(columns, (("P@10", 3.1e-05),)).to_latex())
        \begin{tabular}{lr}
        \toprule
        metric & p \\
        \midrule
        P@10 & $3.1 \times 10^{-5}$ \\
        \bottomrule
        \end{tabular}
        """
        sides = "".join("r" if right else "l" for right in self.numeric)
        lines = [
            f"\\begin{{tabular}}{{{sides}}}",
            r"\toprule",
            " & ".join(_latex(column.name) for column in self.columns) + r" \\",
            r"\midrule",
            *(
                " & ".join(row) + r" \\"
                for row in self._styled(_latex, r"\textbf{{{}}}", r"${} \times 10^{{{}}}$")
            ),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        if self.title:
            caption = " ".join(filter(None, [self.title.rstrip(".") + ".", self.note]))
            lines = [
                r"\begin{table}",
                r"\centering",
                f"\\caption{{{_latex(caption)}}}",
                *lines,
                r"\end{table}",
            ]
        return "\n".join(lines)

    def to_json(self) -> str:
        """Title, rows and note as JSON, unrounded.

        Examples
        --------
        >>> columns = Column("k"), Column("NDCG")
        >>> print(Table(columns, ((1, 0.25), (3, float("nan")))).to_json())
        {"title": "", "rows": [{"k": 1, "NDCG": 0.25}, {"k": 3, "NDCG": null}], "note": ""}
        """
        names = [column.name for column in self.columns]
        rows = [dict(zip(names, map(_plain, row), strict=True)) for row in self.rows]
        content = {"title": self.title, "rows": rows, "note": self.note}
        return json.dumps(content, ensure_ascii=False, allow_nan=False)

    def to_html(self) -> str:
        """An HTML table element with a caption and header cells, without style."""
        widest = [max(map(len, column), default=0) for column in zip(*self.cells, strict=True)]
        kinds = ["number" if right else "text" for right in self.numeric]
        for c, width in enumerate(widest):
            kinds[c] += " long" if width > LONG else ""
        head = "".join(
            f'<th scope="col" class="{kind}">{html.escape(column.name)}</th>'
            for column, kind in zip(self.columns, kinds, strict=True)
        )
        body = ""
        for row in self._styled(html.escape, "<strong>{}</strong>", "{} × 10<sup>{}</sup>", "−"):
            first, *others = (
                f' class="{kind}">{cell}' for kind, cell in zip(kinds, row, strict=True)
            )
            cells = "".join(f"<td{other}</td>" for other in others)
            body += f'<tr><th scope="row"{first}</th>{cells}</tr>\n'
        caption = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        note = f'<p class="note">{html.escape(self.note)}</p>' if self.note else ""
        return (
            f'<div class="table"><table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}'
            f"</tbody></table></div>{note}"
        )

    def _repr_html_(self) -> str:
        return self.to_html()

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        """The table for rich's console.

        On a narrow terminal, columns are closer together, headers of numbers stand in several
        lines, and text is wrapped. Numbers are never cut.
        """
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        narrow = sum(self._widths) + 3 * (len(self.columns) - 1) > options.max_width
        table = RichTable(
            title=Text(self.title, style="bold") if self.title else None,
            caption=Text(self.note, style="dim") if self.note else None,
            title_justify="left",
            caption_justify="left",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            show_edge=False,
            show_header=any(column.name for column in self.columns),
            padding=(0, 0 if narrow else 1),
        )
        for column, right in zip(self.columns, self.numeric, strict=True):
            name = column.name.replace(" ", "\n") if narrow and right else column.name
            side: Any = "right" if right else "left"
            table.add_column(Text(name), justify=side, overflow="fold", no_wrap=right)
        for r, row in enumerate(self.cells):
            table.add_row(
                *(Text(cell, "bold" if (r, c) in self.best else "") for c, cell in enumerate(row))
            )
        yield table


def require_pandas(instead: str) -> Any:
    """pandas, or an error that explains how to install it; `instead` works without it."""
    try:
        return import_module("pandas")
    except ImportError as error:
        raise ImportError(
            "A data frame needs pandas, which is not installed: pip install pandas. "
            f"{instead} works without it."
        ) from error


class TableMixin(ABC):
    """A result that prints as a table, shows as one in a notebook, and becomes a data frame."""

    @abstractmethod
    def to_table(self) -> Table:
        """The result as a table."""

    @abstractmethod
    def _frame_columns(self) -> Mapping[str, Any]:
        """The columns of the data frame; the first is its index."""

    def to_frame(self) -> Any:
        """The result as a pandas data frame."""
        columns = dict(self._frame_columns())
        return require_pandas("to_table()").DataFrame(columns).set_index(next(iter(columns)))

    def __str__(self) -> str:
        return str(self.to_table())

    def _repr_html_(self) -> str:
        return self.to_table().to_html()


def in_bytes(count: float) -> str:
    """A number of bytes in the largest unit that fits.

    Examples
    --------
    >>> in_bytes(12), in_bytes(5_760), in_bytes(3.2e9)
    ('12 bytes', '5.76 kB', '3.2 GB')
    """
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return f"{float(f'{count / size:.3g}'):,g} {unit}"
    return f"{count:,g} bytes"


def csv_text(
    names: Sequence[str], rows: Iterable[Iterable[Any]], *, for_spreadsheets: bool = False
) -> str:
    """Rows as CSV, which programs read back as they are.

    Spreadsheets take text that begins with = for a formula, and run it. They keep 15 digits of a
    number, and drop zeros before it. In a CSV file for them, such text and such ids begin with a
    quote; so does text that began with one, to keep names apart.

    Examples
    --------
    >>> csv_text(["item", "score"], [["=1+1", -2]]).splitlines()
    ['item,score', '=1+1,-2']
    >>> csv_text(["item", "score"], [["=1+1", -2]], for_spreadsheets=True).splitlines()
    ['item,score', "'=1+1,-2"]
    >>> csv_text(["item", "score"], [[5533128019969622333, 2]], for_spreadsheets=True).splitlines()
    ['item,score', "'5533128019969622333,2"]
    """
    out = io.StringIO(newline="")
    write = csv.writer(out)  # ends lines with CR and LF, and so puts text with either into quotes
    write.writerow(names)
    if for_spreadsheets:
        rows = ([_spreadsheet_cell(cell) for cell in row] for row in rows)
    write.writerows(rows)
    return out.getvalue()


def _spreadsheet_cell(cell: Any) -> Any:
    """What a spreadsheet would run or change, as text; everything else as it is."""
    text = str(cell).lstrip() if isinstance(cell, str | Integral) else ""
    formula = isinstance(cell, str) and text.startswith(("=", "+", "-", "@", "|", "'"))
    changed = re.fullmatch(r"-?(\d{16,}|0\d+)\s*", text)
    return f"'{cell}" if formula or changed else cell


def plural(count: int, word: str) -> str:
    """A number and its noun, as in "1 row" and "3 queries".

    Examples
    --------
    >>> plural(1, "row"), plural(1200, "query")
    ('1 row', '1,200 queries')
    """
    many = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{count:,} {word if count == 1 else many}"


def _plain(value: Any) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, str | bool) or value is None:
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if isfinite(value) else None
    return str(value)


def _latex(text: str) -> str:
    if re.fullmatch(r"[+-][\d.,]+", text):
        return f"${text}$"
    return "".join(_LATEX.get(character, character) for character in text)
