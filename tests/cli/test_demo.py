"""The demo writes what it promises, and its page is complete."""

import html
import re
import shlex
import sys
from html.parser import HTMLParser
from shutil import copytree

import numpy as np
import pytest

from rankwise import load_model
from rankwise.cli import demo_page
from rankwise.data import read_letor
from rankwise.metrics import disagreement_error
from tests.scripts import invoke


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_page, "N_QUERIES", {"train": 40, "valid": 15, "test": 60})
        patch.setattr(demo_page, "ALPHAS", np.logspace(-1, 6, 8))
        result = invoke(["demo", "--out", folder])
    assert result.exit_code == 0, result.stderr or result.exception
    return folder, result


def test_it_prints_both_rankers_and_where_the_files_are(demo):
    folder, result = demo
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("disagreement")]
    ours, plain, p = map(float, line.split()[-3:])
    assert ours < plain
    assert p < 0.01
    for name in ("report.html", "model.rankwise"):
        assert str(folder / name) in result.stdout
    assert sorted(path.name for path in folder.iterdir()) == [
        "model.rankwise", "report.html", "test.txt", "train.txt", "valid.txt",
    ]  # fmt: skip


def test_model_and_data_files_give_the_values_of_the_table(demo):
    folder, result = demo
    data = read_letor(folder / "test.txt")
    error = disagreement_error(
        data.y, load_model(folder / "model.rankwise").predict(data.X), data.qid
    )
    assert f"disagreement (lower is better)   {error:.4f}" in result.stdout


class Outline(HTMLParser):
    """The elements of a page; checks that each is closed in turn."""

    VOID = ("meta", "br", "use", "path", "image")

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.ids, self.links = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        attributes = dict(attributes)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        self.links += [v for k, v in attributes.items() if k in ("href", "xlink:href", "src")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_is_well_formed_and_self_contained(demo):
    folder, _ = demo
    text = (folder / "report.html").read_text(encoding="utf-8")
    page = Outline()
    page.feed(text)
    assert page.open == []
    assert page.seen.count("svg") == 3
    assert page.seen.count("table") == 2
    assert "script" not in page.seen
    assert "link" not in page.seen
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert not re.findall(r"url\((?!#)", text)
    assert len(re.findall(r'<svg role="img" aria-label="[^"]{40,}"', text)) == 3
    assert "prefers-color-scheme: dark" in text
    assert "<strong>" in text


def test_without_matplotlib_it_says_what_to_install(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    message = run("demo", "--out", tmp_path / "out", ok=False)
    assert "pip install 'rankwise[plots]'" in message
    monkeypatch.setattr("shutil.which", lambda name: f"/elsewhere/{name}")
    message = run("demo", "--out", tmp_path / "out", ok=False)
    assert f"{shlex.quote(sys.executable)} -m pip install 'rankwise[plots]'" in message
    assert not (tmp_path / "out").exists()


def test_the_folder_is_a_file(run, tmp_path):
    path = tmp_path / "out"
    path.write_text("")
    assert str(path) in run("demo", "--out", path, ok=False)


def test_it_replaces_no_file(run, tmp_path):
    (tmp_path / "train.txt").write_text("mine")
    message = run("demo", "--out", tmp_path, ok=False)
    assert message.startswith(f"{tmp_path / 'train.txt'} exists: give --force")


def test_the_commands_on_the_page_work(demo, run, monkeypatch, capsys, tmp_path):
    folder = copytree(demo[0], tmp_path / "copy")  # the commands write files
    text = (folder / "report.html").read_text(encoding="utf-8")
    shell, python = re.findall(r"<pre><code>(.*?)</code></pre>", text, re.DOTALL)
    monkeypatch.chdir(folder)
    for line in html.unescape(shell).splitlines()[1:]:
        called, arguments = line.split(" -m rankwise ")  # pytest is not a program of ours
        assert shlex.split(called) == [sys.executable]
        run(*arguments.split())
    exec(html.unescape(python), {})
    assert "NDCG@10" in capsys.readouterr().out
