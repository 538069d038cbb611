"""Figures that are computed when the site is built: of code on a page, and of gallery examples."""

from __future__ import annotations

import ast
import io
import re
import warnings
from contextlib import chdir, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from gallery_figures import figures
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn import config_context
from sphinx_gallery.scrapers import figure_rst

from rankwise.plots import figure_svg, save_figure

SHOWN = "# shown:\n"
BLOCK = re.compile(r"^```python\n(.*?)^```\n", flags=re.DOTALL | re.MULTILINE)


def figure_of(value: Any) -> Figure | None:
    """The figure that a value is, or is in."""
    if isinstance(value, Axes):
        return value.get_figure(root=True)
    return value if isinstance(value, Figure) else None


def last_value(code: str) -> Any:
    """Run code in a new namespace; returns the value of its last line, as a notebook cell does."""
    *body, last = ast.parse(code).body
    if not isinstance(last, ast.Expr):
        raise ValueError("the last line must be an expression")
    space: dict[str, Any] = {}
    with redirect_stdout(io.StringIO()), warnings.catch_warnings(action="error"):
        exec(compile(ast.Module(body, []), "<live>", "exec"), space)
        return eval(compile(ast.Expression(last.value), "<live>", "eval"), space)


class Live(Directive):
    """Show code, and the figure that is the value of its last line.

    Code above a line ``# shown:`` runs, but is not shown. A list of pairs (label, axes) becomes a
    slider. Figures are part of the page, in its colours.
    """

    has_content = True
    required_arguments = 0
    option_spec: ClassVar = {"alt": directives.unchanged_required, "code-last": directives.flag}

    def run(self) -> list[nodes.Node]:
        text = "\n".join(self.content)
        try:
            value = last_value(text)
        except Exception as error:
            raise self.error(f"This code does not run: {type(error).__name__}: {error}") from error
        frames = value if isinstance(value, list) else [("", value)]
        drawn = []
        for label, drawing in frames:
            figure = figure_of(drawing)
            if figure is None:
                raise self.error(f"The last line must give axes: got {type(drawing).__name__}.")
            drawn.append(as_html(figure, self.options["alt"], label))
        html = f'<div class="live-figures">{"".join(drawn)}</div>'
        shown = text.rpartition(SHOWN)[2].strip()
        code = nodes.literal_block(shown, shown, language="python")
        picture = nodes.raw("", html, format="html")
        return [picture, code] if "code-last" in self.options else [code, picture]


def as_html(figure: Figure, text: str, label: str = "") -> str:
    """A figure as part of a page, with a text for those who do not see it."""
    svg = figure_svg(figure).replace("<svg", f'<svg role="img" aria-label="{text} {label}"', 1)
    return f'<figure class="live" data-label="{label}">{svg}</figure>'


def run_block(code: str, space: dict[str, Any]) -> list[Figure]:
    """Run a block of a guide; returns the figures that it drew, which it names or shows."""
    known = [figure_of(value) for value in space.values()]
    values = []
    for step in ast.parse(code).body:
        if isinstance(step, ast.Expr):
            values.append(eval(compile(ast.Expression(step.value), "<guide>", "eval"), space))
        else:
            exec(compile(ast.Module([step], []), "<guide>", "exec"), space)
    drawn = [figure_of(value) for value in (*values, *space.values())]
    return list(dict.fromkeys(figure for figure in drawn if figure and figure not in known))


def draw_guide(app: Any, name: str, source: list[str]) -> None:
    """Add to each block of a guide the figures that it draws."""
    if name not in app.config.live_guides or not app.config.sphinx_gallery_conf["plot_gallery"]:
        return
    space: dict[str, Any] = {}

    def with_figures(block: re.Match[str]) -> str:
        figures = run_block(block[1], space)
        html = "".join(as_html(figure, "Figure of the code above") for figure in figures)
        return f"{block[0]}\n```{{raw}} html\n{html}\n```\n" if html else block[0]

    with (
        TemporaryDirectory() as folder,
        chdir(folder),
        config_context(),  # restores what a guide sets
        redirect_stdout(io.StringIO()),
    ):
        source[0] = BLOCK.sub(with_figures, source[0])


def figures_of_block(block: Any, block_vars: dict[str, Any], gallery_conf: Any) -> str:
    """The figures that a block of an example drew; pyplot does not manage those of rankwise."""
    space = block_vars["example_globals"]
    seen = space.setdefault("__drawn_figures__", [])
    saved = []
    for figure in figures(space):
        if figure not in seen:
            seen.append(figure)
            path = Path(next(block_vars["image_path_iterator"])).with_suffix(".png")
            saved.append(str(save_figure(figure, path)))
    return figure_rst(saved, gallery_conf["src_dir"])


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("live", Live)
    app.add_config_value("live_guides", [], "env")
    app.connect("source-read", draw_guide)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
