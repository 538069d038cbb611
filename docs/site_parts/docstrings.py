"""What Sphinx must know to read the docstrings."""

from __future__ import annotations

from typing import Any

EQUATION = 4  # further spaces at the left


def mark_equations(
    app: Any, kind: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Indented lines after an empty one are equations: keep them as they are, in code font.

    Without a mark, reStructuredText takes them for quoted text, and reads ``|f|`` as markup.
    """
    marked: list[str] = []
    before = ""  # the last line that is not empty
    for line in lines:
        indent, above = (len(text) - len(text.lstrip()) for text in (line, before))
        after_empty = bool(before) and not marked[-1].strip()
        deeper = bool(line.strip()) and indent >= above + EQUATION
        if after_empty and deeper and not before.endswith("::"):
            marked += [" " * above + "::", ""]
        if line.strip():
            before = line
        marked.append(line)
    lines[:] = marked


def leave_out_foreign_members(
    app: Any, kind: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Methods of scikit-learn and Python are documented there."""
    home = getattr(member, "__module__", None) or ""
    foreign = callable(member) and not str(home).startswith("rankwise")
    return True if kind == "class" and foreign else None


def compile_the_template_once() -> None:
    """Share the environment in which numpydoc compiles the same template for every docstring."""
    from numpydoc import docscrape_sphinx  # tests of this module do not need it

    new, shared = docscrape_sphinx.SandboxedEnvironment, []

    def environment(loader: Any) -> Any:
        if not shared:
            shared.append(new(loader=loader))
        return shared[0]

    docscrape_sphinx.SandboxedEnvironment = environment


def setup(app: Any) -> dict[str, bool]:
    compile_the_template_once()
    app.connect("autodoc-process-docstring", mark_equations, priority=100)  # before numpydoc
    app.connect("autodoc-skip-member", leave_out_foreign_members)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
