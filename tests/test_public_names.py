"""Every public name is on a page of the API and has an example of its own; names are unique."""

import doctest
import inspect
import re
from collections import Counter, defaultdict
from doctest import DocTestParser
from importlib import import_module
from pathlib import Path

import pytest

import rankwise

MODULES = (
    "rankwise",
    "rankwise.asking",
    "rankwise.auto",
    "rankwise.data",
    "rankwise.distributed",
    "rankwise.errors",
    "rankwise.export",
    "rankwise.graph",
    "rankwise.inspection",
    "rankwise.metrics",
    "rankwise.model_selection",
    "rankwise.objectives",
    "rankwise.plots",
    "rankwise.preprocessing",
    "rankwise.problem",
    "rankwise.report",
)
API = Path(__file__).parents[1] / "docs" / "api"
PAGES = sorted(set(API.glob("*.rst")) - {API / "index.rst"})


def documented():
    """Every object that a page of the API lists, by its full name."""
    found = {}
    for path in PAGES:
        module = "rankwise"
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith(".. currentmodule::"):
                module = line.split()[-1]
            name = re.fullmatch(r"   (\w+)|\.\. data:: (\w+)", line)
            if name and hasattr(import_module(module), name[1] or name[2]):
                full = f"{module}.{name[1] or name[2]}"
                assert full not in found, f"{full} is listed twice"
                found[full] = getattr(import_module(module), name[1] or name[2])
    return found


def home(value):
    """Where a class or function is defined: doctests may import its module a second time."""
    return value.__module__, value.__qualname__


PUBLIC = documented()
WORD = re.compile(r"\w+")


def test_every_public_name_is_on_a_page_of_the_api_once():
    listed = [home(value) for value in PUBLIC.values() if callable(value)]
    assert len(listed) == len(set(listed))
    for module in MODULES:
        for name in import_module(module).__all__:
            value = getattr(import_module(module), name)
            known = home(value) in listed if callable(value) else f"{module}.{name}" in PUBLIC
            assert known, f"{module}.{name} is on no page of docs/api"


def test_every_name_on_a_page_of_the_api_is_public():
    assert {full.rpartition(".")[0] for full in PUBLIC} <= set(MODULES)
    missing = [
        full
        for full in PUBLIC
        if full.rpartition(".")[2] not in import_module(full.rpartition(".")[0]).__all__
    ]
    assert missing == []


def types_of_names():
    """The annotations of each function, method and attribute that is public, by its name."""
    found = defaultdict(set)
    for value in PUBLIC.values():
        members = vars(value).values() if isinstance(value, type) else ()
        for each in (value, *members):
            function = getattr(each, "fget", None) or getattr(each, "__func__", each)
            if inspect.isfunction(function):
                kind = inspect.get_annotations(function).get("return")
                found[function.__name__].update(WORD.findall(str(kind)))
        for name, kind in inspect.get_annotations(value).items() if members else ():
            found[name].update(WORD.findall(str(kind)))
    return found


def test_every_public_name_has_an_example_of_its_own():
    """A doctest of its docstring names it, or uses a name that has its type.

    Constants are shown on their page of docs/api.
    """
    types, without = types_of_names(), []
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for full, value in PUBLIC.items():
        name = full.rpartition(".")[2]
        if not callable(value):
            text = re.search(rf"\.\. data:: {name}\n((?: .*|)\n)+", pages)[0]
        else:
            text = vars(value)["__doc__"] if isinstance(value, type) else value.__doc__
        examples = DocTestParser().get_examples(text)
        words = {word for each in examples for word in WORD.findall(each.source + each.want)}
        if name not in words.union(*(types[word] for word in words)):
            without.append(full)
    assert len(PUBLIC) > 240
    assert without == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_of_constants_are_true(page):
    failed, _ = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert failed == 0


def test_a_name_of_a_module_or_class_stands_for_one_thing():
    package = Path(rankwise.__file__).parent
    modules, classes = Counter(), Counter()
    for path in package.rglob("*.py"):
        if path.name not in ("__init__.py", "__main__.py"):
            modules[path.stem.lstrip("_")] += 1
        found = re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        classes.update(name.lstrip("_") for name in found)
    assert {name for name, n in modules.items() if n > 1} == set()
    assert {name for name, n in classes.items() if n > 1} == set()
