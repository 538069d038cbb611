"""Candidate linkages from Link Grammar 5, through its C interface.

Nothing here knows of gold parses or of features. The library is loaded from the folder that
`install.sh` fills, so that neither root nor a certain version of Python is needed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

NEEDED = ("libpcre2-8.so.0", "libsqlite3.so.0", "libhunspell-1.7.so.0")  # loaded first, by name
LIBRARY = "liblink-grammar.so.5"
WALLS = ("LEFT-WALL", "RIGHT-WALL")

_P, _N, _INT, _TEXT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p
SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "linkgrammar_get_version": (_TEXT, []),
    "dictionary_set_data_dir": (None, [_TEXT]),
    "dictionary_create_lang": (_P, [_TEXT]),
    "dictionary_delete": (None, [_P]),
    "parse_options_create": (_P, []),
    "parse_options_delete": (_INT, [_P]),
    "parse_options_reset_resources": (None, [_P]),
    "parse_options_set_linkage_limit": (None, [_P, _INT]),
    "parse_options_set_max_parse_time": (None, [_P, _INT]),
    "parse_options_set_max_null_count": (None, [_P, _INT]),
    "parse_options_set_spell_guess": (None, [_P, _INT]),
    "parse_options_set_verbosity": (None, [_P, _INT]),
    "sentence_create": (_P, [_TEXT, _P]),
    "sentence_split": (_INT, [_P, _P]),
    "sentence_parse": (_INT, [_P, _P]),
    "sentence_num_valid_linkages": (_INT, [_P]),
    "sentence_num_linkages_found": (_INT, [_P]),
    "sentence_delete": (None, [_P]),
    "linkage_create": (_P, [_N, _P, _P]),
    "linkage_delete": (None, [_P]),
    "linkage_get_num_words": (_N, [_P]),
    "linkage_get_word": (_TEXT, [_P, _N]),
    "linkage_get_num_links": (_N, [_P]),
    "linkage_get_link_lword": (_N, [_P, _N]),
    "linkage_get_link_rword": (_N, [_P, _N]),
    "linkage_get_link_label": (_TEXT, [_P, _N]),
}


@dataclass(frozen=True)
class Linkage:
    """Words without walls, with Link Grammar's subscripts, and links (left, right, label)."""

    words: tuple[str, ...]
    links: tuple[tuple[int, int, str], ...]


class LinkParser:
    """Link Grammar with its English dictionary and limits.

    Parameters
    ----------
    folder : Path
        The folder that `install.sh` filled.
    linkage_limit : int
        Most linkages per sentence; if there are more, Link Grammar draws this many at random, with
        a fixed seed.
    seconds : int
        Time limit for a sentence.
    """

    def __init__(self, folder: Path, *, linkage_limit: int, seconds: int) -> None:
        self._call = _load(folder)
        self.version = self._call["linkgrammar_get_version"]().decode()
        self._call["dictionary_set_data_dir"](str(folder / "usr/share/link-grammar").encode())
        self._dictionary = self._call["dictionary_create_lang"](b"en")
        if not self._dictionary:
            raise OSError(f"Link Grammar finds no English dictionary in {folder}.")
        self._options = self._call["parse_options_create"]()
        for option, value in (
            ("linkage_limit", linkage_limit),
            ("max_parse_time", seconds),
            ("max_null_count", 0),
            ("spell_guess", 0),
            ("verbosity", 0),
        ):
            self._call[f"parse_options_set_{option}"](self._options, value)

    def parse(self, tokens: list[str]) -> list[Linkage]:
        """Linkages of a sentence that has been cut into tokens, the cheapest first."""
        call = self._call
        call["parse_options_reset_resources"](self._options)
        sentence = call["sentence_create"](" ".join(tokens).encode(), self._dictionary)
        try:
            if call["sentence_split"](sentence, self._options) < 0:
                return []
            if call["sentence_parse"](sentence, self._options) <= 0:
                return []
            count = call["sentence_num_valid_linkages"](sentence)
            return list(self._linkages(sentence, count))
        finally:
            call["sentence_delete"](sentence)

    def _linkages(self, sentence: int, count: int) -> Iterator[Linkage]:
        call = self._call
        for i in range(count):
            linkage = call["linkage_create"](i, sentence, self._options)
            if not linkage:
                continue
            words = [
                call["linkage_get_word"](linkage, w).decode()
                for w in range(call["linkage_get_num_words"](linkage))
            ]
            links = [
                (
                    call["linkage_get_link_lword"](linkage, k),
                    call["linkage_get_link_rword"](linkage, k),
                    call["linkage_get_link_label"](linkage, k).decode(),
                )
                for k in range(call["linkage_get_num_links"](linkage))
            ]
            call["linkage_delete"](linkage)
            yield without_walls(words, links)


def without_walls(words: list[str], links: list[tuple[int, int, str]]) -> Linkage:
    """A linkage without the two words that stand for the ends of a sentence."""
    place, kept = {}, []
    for w, word in enumerate(words):
        if word not in WALLS:
            place[w] = len(kept)
            kept.append(word)
    inner = sorted(
        (place[i], place[j], label) for i, j, label in links if i in place and j in place
    )
    return Linkage(tuple(kept), tuple(inner))


def _load(folder: Path) -> dict[str, Callable]:
    """The functions of the library, with their types."""
    libraries = sorted((folder / "usr/lib").glob(f"**/{LIBRARY}"))
    if not libraries:
        raise FileNotFoundError(f"There is no {LIBRARY} under {folder}: run install.sh {folder}.")
    for name in NEEDED:
        for place in (folder / "usr/lib", folder / "lib"):
            for found in sorted(place.glob(f"**/{name}"))[:1]:
                ctypes.CDLL(str(found), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(libraries[0]))
    functions = {}
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
        functions[name] = function
    return functions
