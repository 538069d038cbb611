"""Items from tables and folders."""

import json
import os
import re

import numpy as np
import pandas as pd
import pytest

from rankwise.asking import Session
from rankwise.asking.items import Item, check_items, file_item, read_items, typed_items
from rankwise.asking.log import Log
from rankwise.errors import DataError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.fixture
def kept():
    return {}


@pytest.fixture
def keep(kept):
    def keep(data, media_type):
        kept[f"file{len(kept)}"] = (data, media_type)
        return f"file{len(kept) - 1}"

    return keep


def test_a_table_with_everything(tmp_path, keep, kept):
    (tmp_path / "tea.png").write_bytes(PNG)
    path = tmp_path / "items.csv"
    path.write_text("name,markdown,image,price,age\ntea,*hot*,tea.png,3,1\nmilk,cold,,1.5,2\n")
    tea, milk = read_items(path, keep, features=["price"])
    assert tea == Item("tea", "*hot*", True, "file0", {"price": "3", "age": "1"}, (3.0,))
    assert milk.image == ""
    assert kept["file0"] == (PNG, "image/png")
    every = read_items(path, keep, features=["all"])
    assert [item.features for item in every] == [(3.0, 1.0), (1.5, 2.0)]
    plain = read_items(path, keep, text_column="age")
    assert (plain[0].text, plain[0].markdown) == ("1", False)


def test_other_tables(tmp_path, keep):
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({"id": [1, 2], "text": ["one", None], "x": [0.5, float("nan")]})
    parquet.write_table(table, tmp_path / "items.parquet")
    one, two = read_items(tmp_path / "items.parquet", keep)
    assert one == Item("1", "one", facts={"x": "0.5"})
    assert two == Item("2")
    assert two.shown == "2"
    rows = [{"title": "a"}, {"title": "b"}]
    (tmp_path / "items.json").write_text(json.dumps(rows))
    assert [item.id for item in read_items(tmp_path / "items.json", keep)] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "ids", "texts"),
    [
        ("Idea,description,cost\nbikes,,8\nplants,green,9\n", "bikes plants", " green"),
        ("cost,who,idea\n8,Ann,bikes\n8,Ann,plants\n", "bikes plants", " "),
        ("title,body\none,two\nthree,four\n", "one three", "two four"),
        ("text\none\nthree\n", "one three", " "),
        ("text,n\none,1\nthree,1\n", "one three", " "),
    ],
)
def test_which_column_has_the_names(tmp_path, keep, text, ids, texts):
    path = tmp_path / "items.csv"
    path.write_text(text)
    items = read_items(path, keep)
    assert [item.id for item in items] == ids.split()
    assert [item.text for item in items] == texts.split(" ")


def test_a_list(tmp_path, keep):
    path = tmp_path / "ideas.txt"
    path.write_text("\ufeffbikes, roofed\n\nplants\n", encoding="utf-8")
    assert read_items(path, keep) == [Item("bikes, roofed"), Item("plants")]
    with pytest.raises(DataError, match="is a list: it has no columns"):
        read_items(path, keep, id_column="x")
    path.write_text("a\n\nb \n")
    with pytest.raises(DataError, match=r"ideas.txt: line 3 has the id 'b ', with spaces around"):
        read_items(path, keep)
    path.write_text("a\n\nb\na\n")
    with pytest.raises(DataError, match=r"ideas.txt: lines 1 and 4 have the same id, 'a'"):
        read_items(path, keep)


def test_a_folder(tmp_path, keep):
    (tmp_path / "b.md").write_text("# Title")
    (tmp_path / "a.txt").write_text("\ufeffplain", encoding="utf-8")
    (tmp_path / "c.PNG").write_bytes(PNG)
    (tmp_path / "notes.doc").write_text("no")
    (tmp_path / ".hidden.txt").write_text("no")
    a, b, c = read_items(tmp_path, keep)
    assert (a.text, a.markdown, b.markdown, c.image) == ("plain", False, True, "file0")
    with pytest.raises(DataError, match="no columns"):
        read_items(tmp_path, keep, features=["x"])


def test_embeddings(tmp_path, keep):
    path = tmp_path / "items.csv"
    path.write_text("id,x\na,1\nb,2\n")
    matrix = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.save(tmp_path / "m.npy", matrix.astype(np.float32))
    np.savez(tmp_path / "m.npz", matrix)
    np.savetxt(tmp_path / "m.csv", matrix, delimiter=",")
    for name in ("m.npy", "m.npz", "m.csv"):
        items = read_items(path, keep, embeddings=tmp_path / name)
        assert [item.features for item in items] == [(1.0, 2.0), (3.0, 4.0)]
    both = read_items(path, keep, features=["x"], embeddings=tmp_path / "m.npy")
    assert both[0].features == (1.0, 1.0, 2.0)
    np.save(tmp_path / "three.npy", np.ones((3, 2)))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "words.csv").write_text("a,b\n")
    np.savez(tmp_path / "two.npz", matrix, matrix)
    for name, words in (
        ("three.npy", "one row for each of the 2 items"),
        ("objects.npy", "not one matrix"),
        ("words.csv", "not one matrix"),
        ("two.npz", "not one matrix"),
        ("items.csv", "not one matrix"),
    ):
        with pytest.raises(DataError, match=words):
            read_items(path, keep, embeddings=tmp_path / name)


@pytest.mark.parametrize(
    ("text", "given", "words"),
    [
        ("id,image\na,../../etc/passwd\nb,\n", {}, "line 2: the image .* is outside the folder"),
        ("id,image\na,\nb,/etc/passwd\n", {}, "line 3: the image .* is outside the folder"),
        ("id,image\na,none.png\nb,\n", {}, "there is no image 'none.png'"),
        ("id,x\na,1\n,2\n", {}, "line 3: column 'id' has an empty id"),
        ("id,x\na,1\n b,2\n", {}, "line 3: column 'id' has the id ' b', with spaces around it"),
        ("id,x\na,1\n\na,2\n", {}, "lines 2 and 4 have the same id, 'a'"),
        ("apples\npears\nplums\n", {}, "'apples'. If that is its name, use id='apples'"),
        ("id,x\na,1\nb,?\n", {"features": ["x"]}, "line 3: 'x' is '\\?', not a finite number"),
        ("id,x\na,1\nb,\n", {"features": ["x"]}, "not a finite number"),
        ("id,x\na,u\nb,v\n", {"features": ["all"]}, "no column of numbers"),
        ("id,x\na,1\nb,2\n", {"features": ["y"]}, "no column 'y': it has id, x"),
        ("id,x\na,1\nb,2\n", {"id_column": "y"}, "no column 'y'"),
        ("", {}, "names of columns"),
    ],
)
def test_tables_that_cannot_be_used(tmp_path, keep, text, given, words):
    path = tmp_path / "items.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=words):
        read_items(path, keep, **given)


def test_files_that_cannot_be_used(tmp_path, keep):
    with pytest.raises(DataError, match="has 0 files"):
        read_items(tmp_path, keep)
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"a.txt is empty"):
        read_items(tmp_path, keep)
    (tmp_path / "a.txt").write_text("fine")
    with pytest.raises(DataError, match=r"b.txt is not UTF-8"):
        read_items(tmp_path, keep)
    (tmp_path / "latin.csv").write_bytes("id\nmüll\nb\n".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        read_items(tmp_path / "latin.csv", keep)
    for name, words in (
        ("a.xlsx", "save it as CSV"),
        ("a.jpg", "give the folder"),
        ("a.md", "folder"),
    ):
        with pytest.raises(DataError, match=words):
            read_items(tmp_path / name, keep)
    for name, data in (("a.png", b"<script>"), ("a.svg", b"no"), ("a.webp", PNG), ("a.exe", PNG)):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError, match=re.escape(name)):
            file_item(name, tmp_path / name, keep)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("i.json", b'[{"id":"a"},{"id":"b","id":"c"}]', "row 2: the key 'id' appears twice"),
        ("i.jsonl", b'{"id":"a"}\n{"id":"b","id":"c"}', "line 2: the key 'id' appears twice"),
        ("i.json", b'[{"id":"a"},{"id":"\\udfff"}]', "row 2: .* half of a surrogate pair"),
        ("i.jsonl", b'{"id":"a"}\n{"id":"b","text":"\\ud83d"}', "line 2: .* half of a surrogate"),
        ("i.jsonl", b'{"id":"a"}\n{"id":"b\\u0000"}', "item 2 has a null character"),
        (
            "i.json",
            b'[{"id":"a"},{"id":"' + b"x" * 200_000 + b'"}]',
            "item 2 has more than 100,000 letters",
        ),
    ],
)
def test_damaged_items_are_refused(tmp_path, keep, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=words):
        read_items(tmp_path / name, keep, id_column="id")


def test_a_file_whose_name_is_not_utf8(tmp_path, keep):
    for name in (b"a.txt", b"caf\xe9.txt"):
        try:
            (tmp_path / os.fsdecode(name)).write_text("some text")
        except OSError:
            pytest.skip("this file system has names in UTF-8 only")
    with pytest.raises(DataError, match=r"the file b'caf.xe9.txt' is not UTF-8"):
        read_items(tmp_path, keep)


def test_items_of_python_are_unicode():
    with pytest.raises(DataError, match=r"id of item 2 .*has half of a letter"):
        check_items(["a", "\ud800"])


@pytest.mark.parametrize("name", [None, float("nan"), pd.NA, pd.NaT, Item(None)])
def test_missing_ids_are_refused(name, session):
    """Before, they became items with the names "None", "nan" and "<NA>"."""
    for take in (check_items, Session, session.add_items, session.set_items):
        with pytest.raises(DataError, match=r"Item 2 has no id: got .*\. Name it, or leave it out"):
            take(["a", name])


def test_ids_that_are_not_text_become_text():
    ids = [1, Item(2), np.int64(3), np.array([4, 5])]
    assert [item.id for item in check_items(ids)] == ["1", "2", "3", "[4 5]"]


@pytest.mark.parametrize("name", ["b ", "\tb", Item(" b")])
def test_spaces_around_ids_are_refused(name):
    """Before, text lost them in silence."""
    with pytest.raises(DataError, match=r"Item 2 has the id .* with spaces around it: use 'b'"):
        check_items(["a", name])


def test_tables_can_be_typed_or_pasted():
    cells = "Name\tprice\r\nBirke, green\t3\r\nAlder\t2\r\n"  # as spreadsheets copy them
    for text in (cells, cells.replace("\t", ";")):
        items = typed_items(text, Log().put_file)
        assert [(item.id, item.facts) for item in items] == [
            ("Birke, green", {"price": "3"}),
            ("Alder", {"price": "2"}),
        ]
    lines = "Name, a novel\nThe trial"  # no table: a line has no comma
    assert [item.id for item in typed_items(lines, Log().put_file)] == lines.splitlines()
    assert typed_items("", Log().put_file) == []
