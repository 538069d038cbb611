"""What each column of a table is: the query, the label, an id, or a feature."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from rankwise.data.tables.formats import listed
from rankwise.errors import DataError

# Names without case, blanks and underscores. The first one that a table has is taken.
QUERY_NAMES = (
    "qid", "queryid", "query", "searchid", "srchid", "topicid", "topic", "groupid", "group",
    "sessionid", "requestid", "impressionid", "querytext", "searchquery", "searchterm",
)  # fmt: skip
LABEL_NAMES = ("label", "relevance", "rel", "grade", "relevancelabel", "relevancegrade", "target")
ID_NAMES = (
    "docid", "documentid", "docno", "itemid", "productid", "rowid", "id", "doc", "document", "item",
    "product", "sku", "uuid",
)  # fmt: skip
INDEX_NAMES = ("", "__index_level_0__", "Unnamed: 0")  # of pandas, in the files that it writes


@dataclass(frozen=True)
class Roles:
    """The columns of a table by what they are for.

    Attributes
    ----------
    query, label, id : str or None
    features : list of str
        In the order of the table, or in that of the model they are for.
    left_out : dict of str to str
        The other columns, and why.
    guessed : frozenset of str
        The columns whose role follows from their name only.
    """

    query: str | None
    label: str | None
    id: str | None
    features: list[str]
    left_out: dict[str, str]
    guessed: frozenset[str]

    @classmethod
    def of(
        cls,
        where: Any,
        names: Sequence[str],
        *,
        query: str | None = None,
        label: str | None = None,
        id: str | None = None,
        features: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        like: Sequence[str] | None = None,
        needs_label: bool = True,
        needs_features: bool = True,
    ) -> Roles:
        """The roles that are asked for; others are guessed by the names of columns.

        `features` and `ignore` have names and patterns such as ``price_*``. `like` has the features
        of a model. `where` is the table, for messages.
        """
        for name in (query, label, id):
            if name is not None and name not in names:
                raise DataError(f"{where} has no column {name!r}{_instead(name, names)}")
        given = [name for name in (query, label, id) if name is not None]
        twice = next((name for name in given if given.count(name) > 1), None)
        if twice is not None:
            raise DataError(
                f"{where}: the column {twice!r} cannot have two of these roles at once."
            )
        dropped = set(_matching(where, ignore, names, "--ignore"))
        wanted = like if features is None else features
        kept = {name for name in wanted or () if name in names}
        free = [n for n in names if n not in (*given, *INDEX_NAMES) and n not in dropped | kept]
        guessed: list[str] = []
        found = [query, label, id]
        for k, known in enumerate((QUERY_NAMES, LABEL_NAMES, ID_NAMES)):
            guess = _guess(known, free) if found[k] is None else None
            if guess is not None:
                guessed.append(guess)
                found[k] = guess
        query, label, id = found
        if label is None and needs_label:
            taken = _guess(LABEL_NAMES, sorted(kept))
            why = f"None is called {', '.join(LABEL_NAMES[:5])}"
            if taken is not None:
                why = f"{taken!r} is a feature{' of the model' if features is None else ''}"
            raise DataError(
                f"{where}: which column has the label? {why}. Name it by --label. Columns: "
                f"{listed(names)}."
            )
        special = {name for name in found if name is not None}
        left_out = {name: "left out as asked" for name in names if name in dropped}
        left_out |= dict.fromkeys((n for n in names if n in INDEX_NAMES), "row numbers of pandas")
        if like is not None:
            missing = [name for name in like if name not in names]
            if missing:
                raise DataError(
                    f"{where} lacks {_count(missing)} of the model: {listed(missing)}"
                    f"{_instead(missing[0], names)}"
                )
            chosen = list(like)
        elif features is not None:
            chosen = _matching(where, features, names, "--features")
            wrong = next((name for name in features if name in special), None)
            if wrong is not None:
                raise DataError(f"{where}: the column {wrong!r} cannot be a feature as well.")
            chosen = [n for n in chosen if n not in special and n not in left_out]
        else:
            chosen = [n for n in names if n not in special and n not in left_out]
        if needs_features and not chosen:
            raise DataError(f"{where} has no column of features besides {listed(sorted(special))}.")
        why = "not a feature of the model" if like is not None else "not in --features"
        used = special.union(chosen, left_out)
        rest = [name for name in names if name not in used]
        return cls(
            query, label, id, chosen, left_out | dict.fromkeys(rest, why), frozenset(guessed)
        )

    def without(self, reasons: dict[str, str]) -> Roles:
        """The same without some of the features, and why."""
        kept = [name for name in self.features if name not in reasons]
        return replace(self, features=kept, left_out=self.left_out | reasons)

    @property
    def looking_like_ids(self) -> list[str]:
        """Features that are named like identifiers, which say little about relevance."""
        known = (*QUERY_NAMES, *ID_NAMES)
        return [
            name
            for name in self.features
            if _plain(name) in known or re.search(r"(^|[_ -])(id|ID|Id)$|[a-z]I[dD]$", name)
        ]

    @property
    def looking_like_labels(self) -> list[str]:
        """Features that are named like labels, which new rows do not have."""
        return [name for name in self.features if _plain(name) in LABEL_NAMES]

    def role(self, name: str) -> str:
        """What a column is, in a few words."""
        for what, found in (("query", self.query), ("label", self.label), ("id", self.id)):
            if name == found:
                return f"{what} (guessed)" if name in self.guessed else what
        return self.left_out.get(name, "feature")

    def words(self) -> str:
        """What was understood, in one sentence."""
        parts = []
        for what, name in (("query", self.query), ("label", self.label), ("id", self.id)):
            if name is not None:
                parts.append(f"{what} {name!r}{' (guessed)' if name in self.guessed else ''}")
        n = len(self.features)
        if n:
            parts.append(f"{n} feature{'s' * (n != 1)} ({listed(self.features)})")
        if self.left_out:
            parts.append(f"left out: {listed(list(self.left_out))}")
        return "; ".join(parts)


def _count(names: Sequence[str]) -> str:
    return "a feature" if len(names) == 1 else f"{len(names)} features"


def _instead(name: str, names: Sequence[str]) -> str:
    """The end of a message about a name that is missing."""
    near = get_close_matches(name, names, 1, 0.75)
    if not near:
        near = [other for other in names if other.strip().lower() == name.strip().lower()]
    meant = f" Is it {near[0]!r}?" if near else ""
    return f".{meant} Columns: {listed(names)}."


def is_guessed(name: str) -> bool:
    """Whether a column of this name would be taken for queries, labels or ids."""
    return _plain(name) in (*QUERY_NAMES, *LABEL_NAMES, *ID_NAMES)


def _plain(name: str) -> str:
    return re.sub(r"[\s_.-]", "", name).lower()


def _guess(known: Sequence[str], names: Sequence[str]) -> str | None:
    plain = {_plain(name): name for name in reversed(names)}  # the first of several
    return next((plain[word] for word in known if word in plain), None)


def _matching(where: Any, patterns: Sequence[str], names: Sequence[str], option: str) -> list[str]:
    """The names that are listed or match a pattern, in the order of `names`."""
    found: set[str] = set()
    for pattern in patterns:
        these = [name for name in names if name == pattern or fnmatchcase(name, pattern)]
        if not these:
            raise DataError(
                f"{where}: {option} {pattern!r} matches no column{_instead(pattern, names)}"
            )
        found.update(these)
    return [name for name in names if name in found]
