"""Tables of labelled samples."""

import numpy as np
import pandas as pd
import pytest

from rankwise.data import read_samples
from rankwise.errors import DataError, ParameterError


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "samples.csv"
    path.write_text("a,b,y\n1,2,0\n NA ,3,1\n4,5,1.0\n6,,0\n7,8,1\n9,1,0\n")
    return path


def test_missing_values(path):
    with pytest.raises(DataError, match="line 3: the column 'a' has no value here"):
        read_samples(path, "y")
    rows = read_samples(path, "y", missing="drop-rows")
    assert rows.X.tolist() == [[1, 2], [4, 5], [7, 8], [9, 1]]
    assert rows.lines.tolist() == [2, 4, 6, 7]
    assert rows.y.tolist() == [0, 1, 1, 0]
    median = read_samples(path, "y", missing="median")
    assert median.X[1, 0] == 6
    assert median.columns[0] == ("a", "a feature, 1 missing value replaced by the median")
    with pytest.raises(DataError, match="no column of numbers"):
        read_samples(path, "y", missing="drop-columns")
    with pytest.raises(ParameterError, match="missing must be one of"):
        read_samples(path, "y", missing="mean")


def test_numbers_are_ordered_as_numbers(tmp_path):
    path = tmp_path / "samples.csv"
    path.write_text("x,y\n1,9\n2,10\n4,9\n3,10\n")
    data = read_samples(path, "y")
    assert data.classes == ("9", "10")
    several = tmp_path / "several.csv"
    several.write_text("x,y\n1,a\n2,b\n4,c\n3,a\n")
    assert read_samples(several, "y", positive="a").classes == ("not a", "a")


def test_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "samples.parquet"
    table = {"x": [1.0, 2.0, 3.5, 4.0], "flag": [True, False, True, True], "y": [0, 1, 0, 1]}
    parquet.write_table(arrow.table(table), path)
    data = read_samples(path, "y")
    assert data.X.tolist() == [[1, 1], [2, 0], [3.5, 1], [4, 1]]
    assert data.y.tolist() == [0, 1, 0, 1]
    assert np.isin(data.lines, [1, 2, 3, 4]).all()


def test_rows_of_several_lines(tmp_path):
    path = tmp_path / "samples.csv"
    path.write_text('x,note,y\n1,"two\nlines",0\n\n2,b,1\n1,"two\nlines",0\n4,b,1\n')
    data = read_samples(path, "y")
    assert data.lines.tolist() == [2, 5, 6, 8]
    assert data.copies() == [(2, 6)]
    path.write_text(path.read_text().replace("4,b", "four,b"))
    with pytest.raises(DataError, match="line 8: the column 'x' has numbers in other lines"):
        read_samples(path, "y")
    path.write_text(path.read_text().replace("four,b", "b"))
    with pytest.raises(DataError, match="line 8: got 2 values for 3 columns"):
        read_samples(path, "y")
    path = tmp_path / "samples.json"
    rows = '{"x": 1, "y": 0}, {"x": "one", "y": 1}, {"x": 2, "y": 0}, {"x": 3, "y": 1}'
    path.write_text(f"[{rows}]")
    with pytest.raises(DataError, match="row 2: the column 'x' has numbers in other lines"):
        read_samples(path, "y")


@pytest.mark.parametrize("suffix", ["json", "jsonl", "parquet", "csv"])
def test_marks_within_numbers_are_taken_in_every_format(tmp_path, suffix):
    frame = pd.DataFrame({"x": ["1,5", "3.000,5", None, "2,0"], "y": [0, 1, 0, 1]})
    path = tmp_path / f"samples.{suffix}"
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=suffix == "jsonl")
    data = read_samples(path, "y", decimal=",", thousands=".", missing="median")
    assert data.X[:, 0].tolist() == [1.5, 3000.5, 2.0, 2.0]


def test_long_whole_numbers_are_ids(tmp_path):
    file = tmp_path / "s.csv"
    rows = [f"{1234567890123456789 + 7 * k * k},{k % 5},{'ab'[k % 2]}" for k in range(8)]
    file.write_text("patient,age,is\n" + "\n".join(rows) + "\n")
    data = read_samples(file, "is", positive="b")
    assert data.names == ["age"]
    assert dict(data.columns)["patient"] == "whole numbers above 2^53, as ids have: left out"


def test_genotypes_are_words(path):
    path.write_text("genotype,y\n1_1,a\n1_2,b\n2_2,a\n1_1,b\n")
    rows = read_samples(path, "y")
    assert rows.names == ["genotype=1_1", "genotype=1_2", "genotype=2_2"]
    assert rows.X.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]


def test_the_positive_class_may_be_written_as_in_the_file(path):
    assert read_samples(path, "y", positive="1.0", missing="median").classes == ("0", "1")
