"""Items to ask about, from a table, a folder, or Python objects."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

from rankwise.asking.goals import Goal
from rankwise.backends.arrays import Array, to_host
from rankwise.data.comparison_files import ITEM_COLUMNS
from rankwise.data.table_files import read_records, small_file
from rankwise.errors import DataError
from rankwise.graph.query_groups import check_lossless, is_missing
from rankwise.tables import plural

TEXTS = ("text", "title", "description", "body", "answer")
MARKDOWNS = ("markdown", "md")
IMAGES = ("image", "picture", "photo", "file")
IMAGE_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".svg": "image/svg+xml",
}
TEXT_TYPES = {".txt": False, ".md": True}
TABLES = (".csv", ".tsv", ".json", ".jsonl", ".parquet")
SHEETS = (".xlsx", ".xls", ".ods", ".numbers")
MOST_ITEMS = 5000
LARGEST_IMAGE = 20 * 2**20
LARGEST_TEXT = 100_000  # characters
_SIGNATURES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
}
_NAMED = 5  # items that a message names
KeepFile = Callable[[bytes, str], str]
_PALETTES = (
    ("#0b62a8", "#7dbcf0", "#f1c40f", "#fbfbf9"),
    ("#6c3483", "#d7a9e3", "#f5b041", "#1d2430"),
    ("#14663f", "#6fd3a3", "#f7dc6f", "#fdfefe"),
    ("#9a3412", "#f3a17c", "#fdebd0", "#2c3e50"),
)
_SIZE = 320


@dataclass(frozen=True)
class Item:
    """Something to be ranked.

    Parameters
    ----------
    id : str
        Its name in results.
    text : str
        The text that is shown; its id if there is nothing else to show.
    markdown : bool
        Whether the text is Markdown.
    image : str
        The name of a picture that the log keeps, or "".
    facts : dict
        Values to show in a small table, by name.
    features : tuple of float
        What its score may depend on.

    Examples
    --------
    >>> from rankwise.asking import Item
    >>> Item("tea 3", text="Smoky, *light*", markdown=True, facts={"price": "4.50"}).shown
    'Smoky, *light*'
    """

    id: str
    text: str = ""
    markdown: bool = False
    image: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    features: tuple[float, ...] = ()

    @property
    def shown(self) -> str:
        """Its text, or its id if there is nothing else."""
        return self.text or ("" if self.image or self.facts else self.id)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Item:
        return cls(**{**values, "features": tuple(values.get("features", ()))})


@dataclass(frozen=True)
class ItemChanges:
    """How the items of a session differ from the items that it had before.

    Attributes
    ----------
    added, changed, removed, returned : list of str
        Ids. A changed item is displayed differently; a returned item was removed earlier.
    features : list of str
        Ids of items with new features.
    n_answers : int
        How many answers no longer count, as they are about removed items.

    Examples
    --------
    >>> from rankwise.asking import Session
    >>> session = Session(["tea", "milk", "juice"])
    >>> session.set_items(["tea", "milk", "water", "juice"]).sentences()
    ['New: water. Asked about from now on.']
    """

    added: list[str]
    changed: list[str]
    removed: list[str]
    returned: list[str]
    features: list[str]
    n_answers: int

    @classmethod
    def of(
        cls,
        known: dict[str, Item],
        present: Collection[str],
        given: Sequence[Item],
        removed: list[str],
        n_answers: int,
    ) -> ItemChanges:
        """The differences between known items, some of which are present, and the given items."""
        pairs = [(known[item.id], item) for item in given if item.id in known]
        return cls(
            added=[item.id for item in given if item.id not in known],
            changed=[b.id for a, b in pairs if a != replace(b, features=a.features)],
            removed=removed,
            returned=[b.id for _, b in pairs if b.id not in present],
            features=[b.id for a, b in pairs if a.features != b.features],
            n_answers=n_answers,
        )

    def sentences(self) -> list[str]:
        """What changed, and with which consequences."""
        return [
            f"{what}: {_some(names)}. {words}"
            for what, names, words in (
                ("New", self.added, "Asked about from now on."),
                ("Back", self.returned, "Earlier answers count again."),
                ("Changed", self.changed, "Shown as given now; earlier answers still count."),
                ("New features", self.features, "The ranking uses them from now on."),
                (
                    "Gone",
                    self.removed,
                    f"No longer asked about or ranked; {plural(self.n_answers, 'answer')} stay in "
                    "the session, and count again when the items are back.",
                ),
            )
            if names
        ]


def _some(names: Sequence[str]) -> str:
    """The names of a few items."""
    shown = ", ".join(name[:40] for name in names[:_NAMED])
    more = len(names) - _NAMED
    return shown if more <= 0 else f"{shown} and {more:,} more"


def check_items(items: Iterable[Any], features: Any = None) -> list[Item]:
    """Items from ids, texts or `Item` objects, with the rows of a matrix as their features."""
    made = [_as_item(number, item) for number, item in enumerate(items, 1)]
    if features is not None:
        rows = _check_features(features, len(made))
        given = zip(made, rows.tolist(), strict=True)
        made = [replace(item, features=tuple(row)) for item, row in given]
    if len(made) > MOST_ITEMS:
        raise DataError(f"At most {MOST_ITEMS:,} items can be asked about: got {len(made):,}.")
    seen: set[str] = set()
    for number, item in enumerate(made, 1):
        check_id(f"Item {number}", item.id)
        if item.id in seen:
            raise DataError(f"Two items have the id {item.id!r}: ids must differ.")
        check_text(f"The id of item {number}", item.id)
        check_text(f"The text of item {item.id[:80]!r}", item.text)
        for fact in item.facts.items():
            check_text(f"The fact {fact[0]!r} of item {item.id[:80]!r}", " ".join(fact))
        if len(item.features) != len(made[0].features):
            raise DataError(
                f"Item {item.id!r} has {len(item.features)} features, and the first item has "
                f"{len(made[0].features)}. All items need the same ones: put all of them into the "
                "table, and name its columns as features."
            )
        if not all(map(math.isfinite, item.features)):
            raise DataError(f"A feature of item {item.id!r} is not a finite number.")
        seen.add(item.id)
    return made


def _as_item(number: int, given: Any) -> Item:
    """An item whose id is text, from an id or an `Item`."""
    item = given if isinstance(given, Item) else Item(given)
    if is_missing(item.id):
        raise DataError(f"Item {number} has no id: got {item.id!r}. Name it, or leave it out.")
    return replace(item, id=str(item.id))


def _check_features(features: Any, n_items: int) -> Array:
    """A matrix with a row for each item."""
    check_lossless("features", features)
    features = to_host(features)
    try:
        rows = np.asarray(features, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        rows = np.asarray(features, dtype=object)
    if rows.ndim != 2 or len(rows) != n_items:
        raise DataError(
            f"features need one row for each of the {n_items} items, and all rows need the same "
            f"length: got shape {rows.shape}."
        )
    if rows.dtype == object:
        for (row, column), value in np.ndenumerate(rows):
            if not _is_number(value):
                raise DataError(
                    f"features must be finite numbers: got {repr(value)[:80]} in row {row}, column "
                    f"{column}. Replace it by a number, or leave the column out."
                )
    return rows.astype(np.float64)


def check_id(where: str, name: str) -> None:
    """Refuse an id without a letter, and one with spaces around it, which no file would keep."""
    if not name.strip():
        raise DataError(f"{where} has an empty id.")
    if name != name.strip():
        raise DataError(
            f"{where} has the id {name!r}, with spaces around it: use {name.strip()!r}."
        )


def check_text(what: str, text: str) -> None:
    """Refuse text that is too long, or that cannot be written to a page or a file.

    Examples
    --------
    >>> from rankwise.asking.items import check_text
    >>> check_text("The name", "a\\0")
    Traceback (most recent call last):
    rankwise.errors.DataError: The name has a null character: remove it.
    """
    if len(text) > LARGEST_TEXT:
        raise DataError(f"{what} has more than {LARGEST_TEXT:,} letters.")
    if "\0" in text:
        raise DataError(f"{what} has a null character: remove it.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{what} is not UTF-8: it has half of a letter (the surrogate {text[error.start]!r}), "
            "which no file can keep. Write the whole letter."
        ) from None


def read_items(
    path: Path,
    keep_file: KeepFile,
    *,
    id_column: str | None = None,
    text_column: str | None = None,
    image_column: str | None = None,
    features: Sequence[str] = (),
    embeddings: Path | None = None,
) -> list[Item]:
    """Items of a table (CSV, JSON lines, JSON or Parquet), a list, or a folder.

    Parameters
    ----------
    path : Path
        In a table, the columns that are neither id, text nor image are shown as facts. In a .txt
        file, each line is an item. In a folder, each image or text is an item whose id is the name
        of the file.
    keep_file : callable
        Stores the bytes of a picture and returns its name.
    id_column, text_column, image_column : str, optional
        Columns of a table; None: a usual name. Paths of images are relative to the folder of the
        table.
    features : sequence of str
        Columns of numbers that scores may depend on; ("all",) for all columns of numbers.
    embeddings : Path, optional
        A matrix with a row for each item, in the order of the items, as .npy, .npz or .csv.

    Returns
    -------
    list of Item
    """
    if path.is_dir() or path.suffix.lower() == ".txt":
        given = (id_column, text_column, image_column, *features)
        kind, read = ("a folder", _folder_items) if path.is_dir() else ("a list", _listed_items)
        if any(given):
            raise DataError(f"{path} is {kind}: it has no columns.")
        items = read(path, keep_file)
    else:
        _check_kind(path)
        columns = {"id": id_column, "text": text_column, "image": image_column}
        items = _table_items(path, columns, features, keep_file)
    matrix = None if embeddings is None else _read_matrix(embeddings)
    if matrix is not None and any(item.features for item in items):
        matrix = np.hstack((np.array([item.features for item in items]), matrix))
    return check_items(items, matrix)


def _read_image(name: str, path: Path, keep_file: KeepFile) -> str:
    """Keep the bytes of a picture, after a check of the first ones, and return their name."""
    with path.open("rb") as file:
        data = file.read(LARGEST_IMAGE + 1)
    media_type = IMAGE_TYPES.get(Path(name).suffix.lower())
    if media_type is None:
        raise DataError(f"{name} is not an image: use {', '.join(IMAGE_TYPES)}.")
    if len(data) > LARGEST_IMAGE:
        raise DataError(f"{name} is larger than {LARGEST_IMAGE // 2**20} MiB.")
    begins = _SIGNATURES.get(media_type, b"")
    webp = media_type != "image/webp" or data[8:12] == b"WEBP"
    svg = media_type != "image/svg+xml" or b"<svg" in data[:10_000]
    if not (data.startswith(begins) and webp and svg):
        raise DataError(f"{name} does not match its name: it does not begin as {media_type}.")
    return keep_file(data, media_type)


def file_item(name: str, path: Path, keep_file: KeepFile) -> Item:
    """The item of an image or of a text, with a name."""
    kind = path.suffix.lower()
    if kind in TEXT_TYPES:
        return Item(name, text=_read_text(path).strip(), markdown=TEXT_TYPES[kind])
    return Item(name, image=_read_image(name, path, keep_file))


def typed_items(text: str, keep_file: KeepFile) -> list[Item]:
    """One item for each line, where what follows a tab is its text; or the rows of a table.

    The text is a table if its lines have several columns, one of which is named as ids are.

    Examples
    --------
    >>> from rankwise.asking.items import typed_items
    >>> [(item.id, item.text) for item in typed_items("tea\\n\\nmilk\\tcold, whole", print)]
    [('tea', ''), ('milk', 'cold, whole')]
    >>> [(item.id, item.facts) for item in typed_items("price,name\\n3,tea\\n2,milk", print)]
    [('tea', {'price': '3'}), ('milk', {'price': '2'})]
    """
    lines = [line for line in text.splitlines() if line.strip()]
    for mark, suffix in (("\t", ".tsv"), (",", ".csv"), (";", ".csv")):
        if lines and all(mark in line for line in lines):
            names = {name.strip().lower() for name in lines[0].split(mark)}
            if not names.isdisjoint(ITEM_COLUMNS):
                return sent_items(f"table{suffix}", "\n".join(lines).encode(), keep_file)
    parts = [line.partition("\t") for line in lines]
    return [Item(name.strip(), text=more.strip()) for name, _, more in parts]


def sent_items(name: str, data: bytes, keep_file: KeepFile) -> list[Item]:
    """The items of a file that was sent: of a table, or an image or a text as an item.

    The name is never used as a path.
    """
    name = Path(name).name
    suffix = Path(name).suffix.lower()
    if not name or not data:
        raise DataError("Choose a file with something in it.")
    if suffix not in (*IMAGE_TYPES, *TEXT_TYPES, *TABLES):
        kinds = ".csv, .tsv, .json, .jsonl, .parquet, .txt, .md or an image"
        raise DataError(f"{name}: give a file that ends with {kinds}.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"items{suffix}")
        path.write_bytes(data)
        try:
            if suffix in TABLES:
                return read_items(path, keep_file)
            return [file_item(name, path, keep_file)]
        except DataError as error:
            raise DataError(str(error).replace(str(path), name)) from None


def _folder_items(folder: Path, keep_file: KeepFile) -> list[Item]:
    known = {*IMAGE_TYPES, *TEXT_TYPES}
    paths = sorted(
        (p for p in folder.iterdir() if p.suffix.lower() in known and not p.name.startswith(".")),
        key=lambda p: p.name,
    )
    if not 2 <= len(paths) <= MOST_ITEMS:
        raise DataError(
            f"{folder} has {len(paths):,} files to compare: it needs 2 to {MOST_ITEMS:,} with the "
            f"endings {', '.join(sorted(known))}."
        )
    for path in paths:
        check_text(f"{folder}: the name of the file {os.fsencode(path.name)!r}", path.name)
    return [file_item(path.name, path, keep_file) for path in paths]


def _listed_items(path: Path, keep_file: KeepFile) -> list[Item]:
    """One item for each line."""
    lines = enumerate(_read_text(path).splitlines(), 1)
    found = {number: line for number, line in lines if line.strip()}
    for number, line in found.items():
        check_id(f"{path}: line {number}", line)
    _check_different(path, list(found.values()), list(found))
    return [Item(line) for line in found.values()]


def _check_different(path: Path, ids: Sequence[str], numbers: Sequence[int]) -> None:
    """Refuse two items of the same id, with the lines or rows where they are."""
    first: dict[str, int] = {}
    for number, name in zip(numbers, ids, strict=True):
        if name in first:
            raise DataError(
                f"{path}: {small_file(path).row_word}s {first[name]} and {number} have the same "
                f"id, {name!r}. Ids must differ."
            )
        first[name] = number


def _check_kind(path: Path) -> None:
    """Refuse files that are not tables, and name what to use instead."""
    suffix = path.suffix.lower()
    if suffix in SHEETS:
        raise DataError(f"{path} is a spreadsheet: save it as CSV, and give that file.")
    if suffix in (*IMAGE_TYPES, ".md"):
        raise DataError(f"{path} is one item: give the folder of all items to compare.")


def _read_text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error.reason}, byte {error.start}.") from error
    if not text.strip():
        raise DataError(f"{path} is empty.")
    return text


def _table_items(
    path: Path, wanted: dict[str, str | None], features: Sequence[str], keep_file: KeepFile
) -> list[Item]:
    file = small_file(path)
    table = read_records(file)
    lower = {name.lower(): name for name in table}

    def column(role: str, usual: Sequence[str]) -> str | None:
        name = wanted[role]
        if name is None:
            return next((lower[u] for u in usual if u in lower), None)
        if name not in table:
            raise DataError(f"{path} has no column {name!r}: it has {', '.join(table)}.")
        return name

    image = column("image", IMAGES)
    markdown = None if wanted["text"] else column("text", MARKDOWNS)
    name = column("id", (*ITEM_COLUMNS, "title"))
    text = markdown or column("text", [t for t in TEXTS if lower.get(t) != name])
    if name is None:
        name = _name_column(path, table, text, image)
    if text == name:
        text = None
    ids = [_as_text(value) for value in table[name]]
    for row, value in enumerate(ids):
        if value != value.strip() or not value:
            check_id(f"{small_file(path).place(row)}: column {name!r}", value)
    _check_different(path, ids, [*islice(file.row_numbers(), len(ids))])
    numbers = _feature_columns(path, table, features, {name, text, image})
    facts = [c for c in table if c not in (name, text, image)]
    items = []
    for row, item in enumerate(ids):
        shown = {c: _as_text(table[c][row]).strip() for c in facts}
        items.append(
            Item(
                item,
                text="" if text is None else _as_text(table[text][row]).strip(),
                markdown=text is not None and text == markdown,
                image=_table_image(path, row, table[image][row], keep_file) if image else "",
                facts={c: value for c, value in shown.items() if value},
                features=tuple(values[row] for values in numbers),
            )
        )
    return items


def _name_column(
    path: Path, table: dict[str, list[Any]], text: str | None, image: str | None
) -> str:
    """The column of names if none has a usual name: the first one whose values can be names."""
    if len(table) == 1 and text is None:
        (only,) = table
        raise DataError(
            f"{path} has one column, {only!r}. If that is its name, use id={only!r}; if it is "
            "an item, put a line with the word id above it."
        )
    for name, values in table.items():
        words = {_as_text(value).strip() for value in values}
        if name not in (text, image) and "" not in words and len(words) == len(values):
            return name
    return text or next(iter(table))


def _table_image(path: Path, row: int, value: Any, keep_file: KeepFile) -> str:
    name = _as_text(value).strip()
    if not name:
        return ""
    folder = path.parent.resolve()
    image = (folder / name).resolve()
    if not image.is_relative_to(folder):
        raise DataError(
            f"{small_file(path).place(row)}: the image {name!r} is outside the folder of the table."
        )
    if not image.is_file():
        raise DataError(f"{small_file(path).place(row)}: there is no image {name!r}.")
    return _read_image(name, image, keep_file)


def _feature_columns(
    path: Path, table: dict[str, list[Any]], names: Sequence[str], others: set[str | None]
) -> list[list[float]]:
    chosen = list(names)
    if chosen == ["all"]:
        chosen = [c for c in table if c not in others and all(map(_is_number, table[c]))]
        if not chosen:
            raise DataError(f"{path} has no column of numbers to use as a feature.")
    columns = []
    for name in chosen:
        if name not in table:
            raise DataError(f"{path} has no column {name!r}: it has {', '.join(table)}.")
        for row, value in enumerate(table[name]):
            if not _is_number(value):
                raise DataError(
                    f"{small_file(path).place(row)}: {name!r} is {_as_text(value)!r}, not a finite "
                    "number. Fill it, or leave the column out of features."
                )
        columns.append([float(value) for value in table[name]])
    return columns


def _read_matrix(path: Path) -> Array:
    suffix = path.suffix.lower()
    if suffix not in (".npy", ".npz", ".csv"):
        raise DataError(f"{path}: embeddings are read from .npy, .npz or .csv files.")
    try:
        if suffix == ".csv":
            return np.loadtxt(path, delimiter=",", ndmin=2)
        found = np.load(path, allow_pickle=False)
        if suffix == ".npz":
            with found:
                (found,) = (found[name] for name in found.files)  # one array, the matrix
        return np.asarray(found, dtype=np.float64)
    except (ValueError, TypeError, EOFError) as error:
        raise DataError(f"{path} is not one matrix of numbers: {error}.") from error


def _as_text(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(value)


def _is_number(value: Any) -> bool:
    try:
        return value is not None and math.isfinite(float(value))
    except (OverflowError, TypeError, ValueError):
        return False


def demo_items(keep_file: KeepFile, n_items: int = 20) -> list[Item]:
    """Generated patterns of circles and squares, as SVG images."""
    rng = np.random.default_rng(4)
    items = []
    for k in range(n_items):
        shape = ("circles", "squares")[k % 2]
        name = keep_file(_pattern(shape, rng).encode(), "image/svg+xml")
        items.append(Item(f"Pattern {k + 1}", image=name, facts={"shape": shape}))
    return items


def demo_settings() -> dict[str, Any]:
    """What the demo asks."""
    return {
        "question": "Which pattern would look better on a mug?",
        "advice": "Trust your first impression. Small differences do not matter.",
        "goal": Goal("top", k=3, wrong=1, sure=0.9),
    }


def _pattern(shape: str, rng: np.random.Generator) -> str:
    count, (*colours, ground) = int(rng.integers(4, 10)), rng.choice(_PALETTES)
    step = _SIZE / count
    parts = [f'<rect width="{_SIZE}" height="{_SIZE}" fill="{ground}"/>']
    for row, column in product(range(count), repeat=2):
        x, y, r = (column + 0.5) * step, (row + 0.5) * step, step * rng.uniform(0.15, 0.48)
        turn = f"rotate({rng.integers(90)} {x:.1f} {y:.1f})"
        round_by = r if shape == "circles" else 0.0  # a square with round corners is a circle
        parts.append(
            f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r:.1f}" height="{2 * r:.1f}" '
            f'rx="{round_by:.1f}" fill="{rng.choice(colours)}" transform="{turn}"/>'
        )
    size = f'viewBox="0 0 {_SIZE} {_SIZE}" width="{_SIZE}" height="{_SIZE}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'
