"""Model files that somebody has tampered with."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rankwise import load_model
from rankwise.errors import ModelFileError, RankwiseError
from tests.model_files.make import scores_of

FILES = Path(__file__).parent.parent / "tests/model_files"
VALUES: list[Any] = [
    None, True, 0, -1, 1, 2**31, 2**63, 10**30, 0.5, -1e300, "", "nan", "rankrls", [], [[]], {},
    [0, 1],
    {"float": "nan"}, {"float": "inf"}, {"tuple": [1]}, {"dict": {"a": 1}}, {"array": "no.npy"},
    {"object": {"name": "solution", "fields": {}}}, {"ranker": {"name": "rankrls"}},
]  # fmt: skip

TABLE = {"qid": "a", "label": "b", "grades": {"none": 0}, "separator": ";", "decimal": ","}


@cache
def seeds() -> list[tuple[dict[str, bytes], Any]]:
    """The members of every model file of the tests, and rows to score."""
    found = []
    for path in sorted(FILES.glob("format*/*.rankwise")):
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        rows = np.array(json.loads(path.with_suffix(".json").read_text())["X"])
        found.append((members, rows))
    return found


def check(data: bytes, rng: np.random.Generator, folder: Path) -> None:
    """A file is refused, or holds a model whose scores are finite. `data` is not used."""
    members, rows = seeds()[rng.integers(len(seeds()))]
    members = dict(members)
    path = folder / "model.rankwise"
    kind = int(rng.integers(5))
    if kind == 0:
        tree = json.loads(members["model.json"]) | {"table": TABLE}
        members["model.json"] = json.dumps(_changed(tree, rng)).encode()
    elif kind == 1:
        members["model.json"] = _swapped(members, rng)
    elif kind == 2:
        arrays = [name for name in members if name.endswith(".npy")]
        if arrays:
            name = arrays[rng.integers(len(arrays))]
            members[name] = _damaged(members[name], rng)
    _write(path, members)
    if kind >= 3:
        content = bytearray(path.read_bytes())
        if kind == 3:
            content = content[: rng.integers(len(content))]
        else:
            for at in rng.integers(0, len(content), int(rng.integers(1, 4))):
                content[at] = rng.integers(256)
        path.write_bytes(content)
    try:
        model = load_model(path)
    except ModelFileError:
        return
    if getattr(model, "n_features_in_", rows.shape[1]) != rows.shape[1]:
        return  # a model of other rows, which nothing else in the file contradicts
    try:
        scores = np.asarray(scores_of(model, rows), dtype=np.float64)
    except (RankwiseError, MemoryError):
        return
    assert np.isfinite(scores).all(), "scores that are not finite"


def _write(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)


def _places(node: Any) -> list[tuple[Any, Any]]:
    """Every place in a tree: a list or dictionary, and a key of it."""
    keys = list(node) if isinstance(node, dict) else range(len(node))
    found = [(node, key) for key in keys]
    for key in keys:
        if isinstance(node[key], list | dict):
            found += _places(node[key])
    return found


def _changed(tree: Any, rng: np.random.Generator) -> Any:
    """A tree with one value replaced by another of it, or by one of VALUES, or taken out."""
    tree = copy.deepcopy(tree)
    places = _places(tree)
    node, key = places[rng.integers(len(places))]
    if rng.random() < 0.2:
        del node[key]
    elif rng.random() < 0.5:
        other, name = places[rng.integers(len(places))]
        node[key] = copy.deepcopy(other[name])
    else:
        node[key] = VALUES[rng.integers(len(VALUES))]
    return tree


def _swapped(members: dict[str, bytes], rng: np.random.Generator) -> bytes:
    """The document with two names of arrays exchanged."""
    text = members["model.json"].decode()
    names = [name for name in members if name.endswith(".npy")]
    if len(names) < 2:
        return members["model.json"]
    first, second = rng.choice(names, 2, replace=False)
    return text.replace(first, "?").replace(second, first).replace("?", second).encode()


def _damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """An array with other entries, of another shape or of another type."""
    array = np.load(io.BytesIO(content), allow_pickle=False)
    match int(rng.integers(6)):
        case 0:
            array = array.ravel()[: max(0, array.size - 1)]
        case 1:
            array = array[None]
        case 2:
            array = (
                array.T.copy() if array.ndim > 1 else np.concatenate((array.ravel(), array.ravel()))
            )
        case 3:
            kinds = ["U3"] if array.dtype.kind == "U" else ["f4", "i8", "u1", "U3", "?", "c16"]
            array = array.astype(str(rng.choice(kinds)), copy=True)
        case 4 if array.size and array.dtype.kind in "iuf":
            value = rng.choice([-1, 2**30, -(2**30), 0, 255])
            with np.errstate(all="ignore"):
                array.flat[rng.integers(array.size)] = np.array(value).astype(array.dtype)
        case _ if array.size and array.dtype.kind == "f":
            array.flat[rng.integers(array.size)] = rng.choice([np.nan, np.inf, 1e308, -1e308])
        case _:
            return content[: rng.integers(len(content))]
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()
