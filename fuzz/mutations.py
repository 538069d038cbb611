"""Mutations of text and of bytes."""

from __future__ import annotations

import numpy as np

WORDS = [
    b"qid:", b"qid:1 ", b"#", b"\n", b"\r\n", b" ", b"\t", b":", b",", b'"', b"-", b"+", b".", b"0",
    b"1", b"9" * 20, b"1e5", b"1e309", b"1e-320", b"nan", b"inf", b"NULL", b"2147483647:", b"\0",
    b"2147483648:1", b"9007199254740993", b"0x1p3", b"1_0", b"\xff", b"\xef\xbb\xbf", b"\xc3\xa9",
    b"tie", b"18446744073709551616", b"007", b"\x0b", b"\x1f\x8b", b";", b"''", b"1:2 2:3",
]  # fmt: skip


def mutated(rng: np.random.Generator, data: bytes, others: list[bytes]) -> bytes:
    """The input with one to four changes."""
    text = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(0, len(text) + 1))
        end = min(len(text), at + int(rng.geometric(0.3)))
        match int(rng.integers(0, 8)):
            case 0:
                text[at:end] = b""
            case 1:
                text[at:at] = WORDS[rng.integers(len(WORDS))]
            case 2:
                text[at:end] = WORDS[rng.integers(len(WORDS))]
            case 3:
                text[at:end] = rng.bytes(end - at)
            case 4:
                text[at:at] = text[at : at + int(rng.integers(1, 40))]
            case 5:
                other = others[rng.integers(len(others))]
                begin = int(rng.integers(0, len(other) + 1))
                text[at:end] = other[begin : begin + int(rng.integers(1, 40))]
            case 6:
                text[at:] = b""
            case _:
                text[at:end] = b"%d" % rng.integers(-(2**40), 2**40) if rng.random() < 0.5 else b"0"
    return bytes(text[:2000])
