"""Explain why a line of a LETOR file cannot be read.

The fast parser only finds the line; this slow one finds the reason.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import DTypeLike

from rankwise.data.letor.parsing import MAX_INDEX
from rankwise.data.tables.formats import encoding_of

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_ARCHIVES = {b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_MISSING = (
    "A missing value is written as NULL, and read as the number that fill= of read_letor or --fill "
    "on the command line gives; boosted trees take nan."
)
_ROW = "A row reads 'label qid:ID index:value index:value ...'."


def explain(line: bytes, *, n_features: int | None, dtype: DTypeLike) -> str:
    """The first error in a line, and what to do about it."""
    content = line.partition(b"#")[0]
    text = content.decode("utf-8", "replace")
    if _NOT_TEXT.search(content) or "\ufffd" in text:
        return (
            "this is not UTF-8 text. Only plain or gzipped LETOR text can be read; if it is in "
            f"another encoding, for example {encoding_of(line) or 'UTF-16'}, save it as UTF-8."
        )
    tokens = [token for token in re.split(r"[ \t\r\n]+", text) if token]
    if not tokens:
        return f"the line cannot be read. {_ROW}"
    label, *pairs = tokens
    fault = _number_fault(label, np.float64)
    if fault:
        return f"the label {_short(label)} {fault}. {_ROW}"
    if pairs and pairs[0].startswith("qid:") and pairs.pop(0) == "qid:":
        return "'qid:' has no id after it. Write it without blanks, for example qid:12."
    last = 0
    for pair in pairs:
        name, colon, value = pair.partition(":")
        if name == "qid":
            return f"{_short(pair)} comes after a feature or another qid. {_ROW}"
        if not colon or not _INTEGER.fullmatch(name):
            return f"{_short(pair)} is not an index:value pair. {_ROW}"
        digits = name.lstrip("+-").lstrip("0")
        if len(digits) > 18:  # the parser reads no more digits, and int() not many more
            return (
                f"feature index {_short(name)} exceeds the largest that can be read, {MAX_INDEX}."
            )
        index = int(digits or 0) * (-1 if name.startswith("-") else 1)
        fault = _index_fault(index, last, n_features)
        if fault:
            return fault
        if not re.fullmatch(r"\d+", name, re.ASCII):
            return f"the feature index {_short(name)} must be written in plain digits."
        if not value:
            return (
                f"feature {index} has no value. Write index:value without blanks, or leave it out."
            )
        if value == "NULL":
            return (
                f"feature {index} is NULL, a missing value. Say which number to read for it, as in "
                "read_letor(path, fill=0.0), or --fill 0 on the command line."
            )
        fault = _number_fault(value, dtype)
        if fault:
            missing = f" {_MISSING}" if _NOT_FINITE.fullmatch(value) else ""
            return f"the value {_short(value)} of feature {index} {fault}.{missing}"
        last = index
    return f"the line cannot be read. {_ROW}"


def archive(start: bytes) -> str | None:
    """The kind of archive that starts with these bytes; None if there is none."""
    return next((kind for magic, kind in _ARCHIVES.items() if start.startswith(magic)), None)


def _index_fault(index: int, last: int, n_features: int | None) -> str | None:
    if index < 1:
        return (
            f"feature index {index}: indices start at 1. If the file counts from 0, add one to "
            "every index."
        )
    if index == last:
        return f"feature {index} occurs twice in one row. Keep one of the two."
    if index < last:
        return (
            f"feature {index} comes after feature {last}: indices must ascend within a row. "
            "Sort the pairs of each row by index."
        )
    if n_features is not None and index > n_features:
        return (
            f"feature {index} exceeds n_features={n_features}. Give a larger n_features, "
            "or None to take it from the file."
        )
    if index > MAX_INDEX:
        return f"feature index {index} exceeds the largest that can be read, {MAX_INDEX}."
    return None


def _number_fault(text: str, dtype: DTypeLike) -> str | None:
    if _NOT_FINITE.fullmatch(text):
        return "is not finite: replace it, or leave out the pair or the row"
    if not _NUMBER.fullmatch(text):
        return "is not a number"
    if abs(float(text)) > float(np.finfo(dtype).max):
        return f"is too large for {np.dtype(dtype)}"
    return None


def _short(token: str) -> str:
    return repr(token if len(token) <= 40 else token[:37] + "...")
