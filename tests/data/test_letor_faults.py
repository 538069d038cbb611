"""Error messages for LETOR files that cannot be read."""

import gzip
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise.data import letor, read_letor
from rankwise.errors import LetorFormatError, ParameterError
from tests.oracles.letor import parse_letor

GOOD = "1 qid:1 1:0.5 2:1 # fine\n\n# a comment\n0 qid:1 1:0.25\n"


def fault(tmp_path, content, **options):
    path = tmp_path / "bad.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(LetorFormatError) as caught:
        read_letor(path, **options)
    message = str(caught.value)
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("good qid:1 1:2", "'good' has no number, or one that is too large for float64"),
        ("nan qid:1 1:2", "'nan' is a missing or an infinite value"),
        ("1e999 qid:1 1:2", "'1e999' has no number"),
        ("1 qid: 1:2", "'qid:' is out of place. A row reads 'label qid:ID index:value"),
        ("1 qid:1 qid:2 1:2", "'qid:2' is out of place"),
        ("1 1:2 qid:1", "'qid:1' is out of place"),
        ("1 qid:1 5", "'5' is out of place"),
        ("1 qid:1 1.5:5", "'1.5:5' is out of place"),
        ("1 qid:1 :5", "':5' is out of place"),
        ("1 qid:1 0:5", "'0:5' is out of place"),
        ("1 qid:1 +3:5", "'+3:5' is out of place"),
        ("1 qid:1 2:5 2:6", "'2:6' is out of place"),
        ("1 qid:1 1:", "'1:' has no number"),
        ("1 qid:1 1:2:3", "'1:2:3' has no number"),
        ("1 qid:1 1:1e", "'1:1e' has no number"),
        ("1 qid:1 1:-", "'1:-' has no number"),
        ("1 qid:1 1:0x1f", "'1:0x1f' has no number"),
        ("1 qid:1 1:nan", "'1:nan' is a missing or an infinite value"),
        ("1 qid:1 1:-INF", "A missing value is written as NULL, and read as a number"),
        ("1 qid:1 1:1e309", "'1:1e309' has no number, or one that is too large for float64"),
        ("1 qid:1 1:" + "9" * 400, "too large for float64"),
        ("1 qid:1 1:0." + "0" * 9999 + "1e100000", "too large for float64"),
        ("1 qid:1 2147483648:1", "with indices from 1 to 2147483647"),
        ("1 qid:1 " + "9" * 4301 + ":1", "9...' is out of place"),
        ("1 qid:1 " + "0" * 5000 + "1:1 1:2", "'1:2' is out of place"),
        ("1 qid:1 1:" + "z" * 80, "'1:" + "z" * 35 + "...' has no number"),
        ("1 1:2", "this row has no qid, but the rows before it have one. Write qid:ID"),
        ("\x00\x01", "this is not UTF-8 text"),
    ],
)
def test_message_names_file_line_and_error(tmp_path, line, words):
    with mock.patch.object(letor, "BLOCK_BYTES", 32):
        message = fault(tmp_path, GOOD + line + "\n" + GOOD)
    assert message.startswith(", line 5: ")
    assert words in message


def test_the_message_is_the_same_in_a_large_block(tmp_path):
    message = fault(tmp_path, GOOD + "1 qid:1 1:x\n" + GOOD)
    assert message == ", line 5: '1:x' has no number, or one that is too large for float64."


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_damage_is_either_read_or_explained(data):
    text = GOOD * 3
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        scrap = data.draw(st.text("0123456789.:#eEqid \t\r\n+-xé\0", max_size=4))
        text = text[:at] + scrap + text[at + data.draw(st.integers(0, 3)) :]
    with (
        TemporaryDirectory() as folder,
        mock.patch.object(letor, "BLOCK_BYTES", data.draw(st.sampled_from([16, 1 << 20]))),
    ):
        path = Path(folder, "data.txt")
        path.write_bytes(text.encode())
        try:
            labels, message = read_letor(path).y.tolist(), ""
        except LetorFormatError as error:
            labels, message = None, str(error)
    assert "cannot be read" not in message  # the message for an error that is not understood
    assert labels is None or labels == [row[0] for row in parse_letor(text)]


def test_qid_after_rows_without_one(tmp_path):
    message = fault(tmp_path, "1 1:2\n\n0 qid:3 1:1\n")
    assert message.startswith(", line 3: this row has a qid, but the rows before it have none")


def test_index_above_n_features(tmp_path):
    message = fault(tmp_path, "1 1:2\n0 4:1\n", n_features=3)
    assert message == (
        ", line 2: feature 4 exceeds n_features=3. Give a larger n_features, "
        "or None to take it from the file."
    )


def test_value_too_large_for_float32(tmp_path):
    message = fault(tmp_path, "1\n1 1:2\n0 1:1 4:-1e39 5:1\n", dtype=np.float32)
    assert message == ", line 3: '4:-1e39' has no number, or one that is too large for float32."


def test_id_that_is_not_utf8(tmp_path):
    fine = b"1 qid:a 1:1 # caf\xe9\n"
    assert fault(tmp_path, fine + b"1 qid:caf\xe9 1:1\n") == (
        ", line 2: the query id is not UTF-8. Save the file as UTF-8."
    )


@pytest.mark.parametrize("content", [b"", gzip.compress(b"", mtime=0)])
def test_empty_file(tmp_path, content):
    assert fault(tmp_path, content).startswith((" is empty", " has no rows"))


def test_only_comments(tmp_path):
    assert fault(tmp_path, "# one\n\n  \n") == (
        " has no rows: 3 lines, all of them blank or comments."
    )


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_truncated_gzip(tmp_path, share):
    packed = gzip.compress("".join(f"1 qid:{i} 1:{i / 7}\n" for i in range(5000)).encode())
    message = fault(tmp_path, packed[: int(share * len(packed))])
    assert message.startswith(" is a damaged gzip file, or a part of one")


def test_damaged_gzip(tmp_path):
    packed = bytearray(gzip.compress(GOOD.encode() * 100))
    packed[len(packed) // 2] ^= 0xFF
    assert "is a damaged gzip file" in fault(tmp_path, bytes(packed))


def test_archive_and_utf16(tmp_path):
    assert "not text but a zip archive. Unpack it first" in fault(tmp_path, b"PK\x03\x04....")
    assert "for example UTF-16, save it as UTF-8" in fault(tmp_path, GOOD.encode("utf-16"))
    assert "for example UTF-32, save it as UTF-8" in fault(tmp_path, GOOD.encode("utf-32"))
    assert "this is not UTF-8 text" in fault(tmp_path, b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")


def test_folder_and_missing_file(tmp_path):
    with pytest.raises(LetorFormatError, match="is a folder"):
        read_letor(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"missing\.txt"):
        read_letor(tmp_path / "missing.txt")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": "wide"}, "layout must be one of auto, dense, sparse: got 'wide'"),
        ({"n_features": 0}, "n_features must be an integer from 1 to 2147483647, or None: got 0"),
        (
            {"n_features": 2.5},
            "n_features must be an integer from 1 to 2147483647, or None: got 2.5",
        ),
        ({"n_features": 2**32}, "or None: got 4294967296"),
        ({"dtype": np.int64}, "dtype must be float64 or float32: got int64"),
    ],
)
def test_arguments(tmp_path, options, words):
    with pytest.raises(ParameterError, match=re.escape(words)):
        read_letor(tmp_path / "never-opened", **options)
