"""Data sets by name."""

import gzip
import os
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rankwise.data import list_datasets, load_dataset
from rankwise.errors import DataError, ParameterError

needs_folder = pytest.mark.skipif(
    "RANKWISE_DATA" not in os.environ, reason="RANKWISE_DATA is not set: no data folder"
)
FROM_FOLDER = {"ohsumed", "mq2008", "mnist", "alon", "golub", "shipp"}


@pytest.mark.parametrize(
    ("name", "shape", "labels"),
    [
        ("diabetes", (442, 10), None),
        ("breast_cancer", (569, 30), {0, 1}),
        ("digits", (1797, 64), set(range(10))),
    ],
)
def test_global_rankings_that_need_no_folder(name, shape, labels):
    data = load_dataset(name)
    assert (data.name, data.X.shape, data.y.shape) == (name, shape, shape[:1])
    assert data.y.dtype == np.float64
    assert data.qid is None
    assert len(data.feature_names) == shape[1]
    assert data.description
    assert labels is None or set(data.y) == labels


def test_breast_cancer_ranks_malignant_first():
    assert load_dataset("breast_cancer").y.sum() == 212


def test_list_tells_what_is_available(monkeypatch, tmp_path):
    monkeypatch.delenv("RANKWISE_DATA", raising=False)
    infos = {info.name: info for info in list_datasets()}
    assert {name for name, info in infos.items() if not info.available} == FROM_FOLDER
    assert "(not available: needs RANKWISE_DATA)" in str(infos["alon"])
    assert "[fold=1..5, part=train|validation|test]" in str(infos["mq2008"])
    assert all("\n" not in str(info) for info in infos.values())
    monkeypatch.setenv("RANKWISE_DATA", str(tmp_path))
    (tmp_path / "microarray").mkdir()
    (tmp_path / "microarray" / "alon.npz").touch()
    assert {info.name for info in list_datasets() if not info.available} == FROM_FOLDER - {"alon"}


def test_missing_or_wrong_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("RANKWISE_DATA", raising=False)
    with pytest.raises(DataError, match=r"set the environment variable RANKWISE_DATA to the fold"):
        load_dataset("ohsumed", fold=1, part="train")
    monkeypatch.setenv("RANKWISE_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"alon\.npz does not exist\. This data set"):
        load_dataset("alon")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("diabetis", {}, "shipp: got 'diabetis'. Did you mean 'diabetes'?"),
        ("zzz", {}, "name must be one of alon, breast_cancer, diabetes, "),
        ("diabetes", {"fold": 1}, "'diabetes' has no folds and no parts: got fold=1"),
        ("mnist", {"part": "validation"}, "'mnist' has part=train|test: got"),
        ("ohsumed", {"fold": 1}, "which belong together: got fold=1, part=None"),
        ("mq2008", {"part": "test"}, "got fold=None, part='test'"),
        ("mq2008", {"fold": 6, "part": "test"}, "'mq2008' has fold=1..5"),
    ],
)
def test_arguments(name, options, words):
    with pytest.raises(ParameterError, match=re.escape(words)):
        load_dataset(name, **options)


@pytest.fixture
def mq2008_in_small(monkeypatch, tmp_path):
    """Five subsets of one row each, whose label is their number."""
    (tmp_path / "letor4_mq2008").mkdir()
    for s in range(1, 6):
        (tmp_path / "letor4_mq2008" / f"S{s}.txt.gz").write_text(f"{s} qid:{s} 1:1\n")
    monkeypatch.setenv("RANKWISE_DATA", str(tmp_path))


@pytest.mark.usefixtures("mq2008_in_small")
@pytest.mark.parametrize(
    ("fold", "train", "validation", "test"),
    [(1, [1, 2, 3], [4], [5]), (4, [4, 5, 1], [2], [3])],
)
def test_mq2008_folds_are_cyclic(fold, train, validation, test):
    for part, subsets in (("train", train), ("validation", validation), ("test", test)):
        data = load_dataset("mq2008", fold=fold, part=part)
        assert data.qid.tolist() == subsets
        assert data.X.shape == (len(subsets), 46)


@pytest.fixture
def mnist_in_small(monkeypatch, tmp_path):
    """Two training images of 1 by 3 pixels, and one test image."""
    (tmp_path / "mnist").mkdir()
    pixels = {"train": [0, 1, 2, 255, 254, 253], "t10k": [9, 9, 9]}
    labels = {"train": [7, 1], "t10k": [4]}
    for prefix, digits in labels.items():
        n = [0, 0, 0, len(digits)]
        images = [0, 0, 8, 3, *n, 0, 0, 0, 1, 0, 0, 0, 3, *pixels[prefix]]
        for name, content in (("images-idx3", images), ("labels-idx1", [0, 0, 8, 1, *n, *digits])):
            path = tmp_path / "mnist" / f"{prefix}-{name}-ubyte.gz"
            path.write_bytes(gzip.compress(bytes(content)))
    monkeypatch.setenv("RANKWISE_DATA", str(tmp_path))
    return tmp_path / "mnist"


@pytest.mark.usefixtures("mnist_in_small")
def test_mnist_is_read_from_idx_files():
    train, test, whole = (load_dataset("mnist", part=part) for part in ("train", "test", None))
    assert_array_equal(train.X, [[0, 1, 2], [255, 254, 253]])
    assert_array_equal(test.X, [[9, 9, 9]])
    assert (train.y.tolist(), test.y.tolist(), whole.y.tolist()) == ([7, 1], [4], [7, 1, 4])
    assert whole.X.shape == (3, 3)
    assert whole.qid is None


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"\0\0\x0d" + b[3:], lambda b: b""])
def test_incomplete_mnist_file(mnist_in_small, damage):
    path = mnist_in_small / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(damage(gzip.decompress(path.read_bytes()))))
    with pytest.raises(DataError, match=r"ubyte\.gz is not a complete idx file of bytes"):
        load_dataset("mnist", part="train")


@needs_folder
@pytest.mark.parametrize(
    ("name", "shape", "n_queries"),
    [
        ("ohsumed", (16_140, 25), 106),
        ("mq2008", (15_211, 46), 784),
        ("alon", (62, 2000), None),
        ("golub", (72, 7129), None),
        ("shipp", (77, 7129), None),
    ],
)
def test_counts(name, shape, n_queries):
    data = load_dataset(name)
    assert data.X.shape == shape
    if n_queries is None:
        assert data.qid is None
        assert set(data.y) == {0, 1}
    else:
        assert len(np.unique(data.qid)) == n_queries


@needs_folder
def test_mnist_counts():
    train, test = load_dataset("mnist", part="train"), load_dataset("mnist", part="test")
    assert (train.X.shape, test.X.shape) == ((60_000, 784), (10_000, 784))
    assert set(train.y) == set(test.y) == set(range(10))
    assert (train.X.dtype, train.X.max()) == (np.uint8, 255)


@needs_folder
@pytest.mark.parametrize("name", ["ohsumed", "mq2008"])
def test_parts_of_a_fold_are_disjoint_and_complete(name):
    parts = [load_dataset(name, fold=2, part=part) for part in ("train", "validation", "test")]
    queries = [set(part.qid) for part in parts]
    whole = load_dataset(name)
    assert sum(map(len, queries)) == len(set.union(*queries)) == len(np.unique(whole.qid))
    assert sum(len(part.y) for part in parts) == len(whole.y)
