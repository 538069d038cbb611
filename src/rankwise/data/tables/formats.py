"""The formats of table files, and their text."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rankwise.errors import DataError, MissingExtraError
from rankwise.files import check_regular

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
}
FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}  # other than commas
SPREADSHEETS = (".xlsx", ".xls", ".ods")
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
MISSING_WORDS = [
    "", "NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "null", "None", "none", "#N/A", "?",
]  # fmt: skip
"""What stands for a missing value in text files."""
BYTE_ORDER = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
"""First bytes of text in other encodings."""
MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}


def format_of(path: Path) -> str | None:
    """The format that the suffix of a file names, plain or compressed; None for others."""
    suffix = Path(path.stem).suffix if path.suffix.lower() in COMPRESSED else path.suffix
    return SUFFIXES.get(suffix.lower())


def compression_of(path: Path) -> str | None:
    """How a file is compressed, by its first bytes; it must be one that can be read again."""
    check_regular(path)
    with path.open("rb") as file:
        begin = file.read(4)
    return next((name for magic, name in MAGIC.items() if begin.startswith(magic)), None)


def require_pyarrow(module: str) -> Any:
    """A module of pyarrow, or an error that says how to install it."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError("pyarrow", "tables") from error


def opened_bytes(path: Path) -> Any:
    """The bytes of a file, decompressed."""
    kind = compression_of(path)
    if kind in ("gzip", "bz2"):
        return (gzip if kind == "gzip" else bz2).open(path, "rb")
    if kind is None:
        return path.open("rb")
    return io.BufferedReader(require_pyarrow("pyarrow").input_stream(str(path), compression=kind))


def opened_text(path: Path) -> Any:
    """The text of a file, decompressed; without the mark of its byte order."""
    return io.TextIOWrapper(opened_bytes(path), encoding="utf-8-sig", newline="")


def csv_rows(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file that are not empty, each with the line on which it begins."""
    with opened_text(path) as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        begin = 1
        try:
            for row in reader:
                if row:
                    yield begin, row
                begin = reader.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{path}, line {begin}: cannot be read as CSV: {error}. Check the quotation marks "
                "of this row."
            ) from error
        except UnicodeDecodeError as error:
            raise encoding_fault(path) from error


def even_rows(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The same, with an error about the first row that is longer or shorter than the first."""
    width = None
    for line, row in csv_rows(path, separator):
        width = len(row) if width is None else width
        if len(row) != width:
            raise DataError(
                f"{path}, line {line}: got {len(row)} values for {width} columns. Put values that "
                "contain the separator in quotation marks."
            )
        yield line, row


def check_names_differ(source: Any, names: Sequence[Any]) -> None:
    """Refuse a table with two columns of the same name."""
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        places = [str(k) for k, name in enumerate(names, 1) if name == twice]
        raise DataError(
            f"{source} has {len(places)} columns {twice!r} (columns {', '.join(places)}): give "
            "each its own name."
        )


def encoding_of(text: bytes) -> str | None:
    """The encoding that the first bytes of a text name; None if they name none but UTF-8."""
    return next((name for mark, name in BYTE_ORDER.items() if text.startswith(mark)), None)


def encoding_fault(path: Path) -> DataError:
    """An error about the first line that is not UTF-8."""
    with opened_bytes(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                name = encoding_of(line) if number == 1 else None
                guess = "If it is Latin-1, convert it by 'iconv -f LATIN1 -t UTF-8'."
                if name is not None:
                    guess = (
                        f"It is {name}: convert it, for example with 'iconv -f {name} -t UTF-8'."
                    )
                begin = line[max(error.start - 15, 0) : error.start + 5]
                return DataError(
                    f"{path}, line {number}: not UTF-8 text, at byte {error.start + 1} of the "
                    f"line, near {begin!r}. {guess}"
                )
    return DataError(f"{path} is not UTF-8 text.")
