"""Rankings of several items each, from lists and from files with a row for each place."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index
from rankwise.data.battles import Battles, check_battle_weights, empty_entries, number_labels
from rankwise.data.table_files import SmallTable, as_number
from rankwise.errors import DataError
from rankwise.graph.comparisons import (
    OUTCOME_OF_CODE,
    check_comparison_ids,
    check_context,
    check_items,
    shown,
)
from rankwise.graph.query_groups import (
    as_ids,
    id_array,
    missing_entries,
    refuse_where,
)
from rankwise.tables import plural

TIED = (list, tuple, set, frozenset, np.ndarray)  # of ids inside a list
NOTHING = ("", "\\N", "nan", "na", "none", "null")  # texts that stand for no place
WORDS = 3  # in place of a number, that a remark names


@dataclass(frozen=True, eq=False, repr=False)
class Rankings:
    """Which items were ranked together, and in which order; made by `Rankings.of`.

    An entry is an item in a ranking. Entries are sorted by ranking and place.

    Attributes
    ----------
    items : ndarray of shape (n_items,)
        The id of each item.
    item : ndarray of shape (n_entries,)
        Numbers of items.
    ranking : ndarray of shape (n_entries,)
        Number of the ranking of each entry.
    place : ndarray of shape (n_entries,)
        0 for the best of a ranking, 1 for the next, ...; the same for tied items.
    weight : ndarray of shape (n_rankings,)
        How much each ranking counts.
    groups : ndarray of shape (n_rankings,) or None
        The session, prompt or judge of each ranking.
    context : ndarray of shape (n_entries, n_columns) or None
        Covariates of entries; positive values favour the item.
    context_names : list of str or None
        Names of the covariates.

    Examples
    --------
    >>> from rankwise.data import Rankings
    >>> rankings = Rankings.of([["a", "b", "c"], ["c", ["a", "d"]]])
    >>> rankings
    Rankings(2 rankings of 4 items, 3 in each, 1 with ties)
    >>> rankings.place.tolist()
    [0, 1, 2, 0, 1, 1]
    """

    items: NDArray[Any]
    item: Index
    ranking: Index
    place: Index
    weight: Array
    groups: NDArray[Any] | None = None
    context: Array | None = None
    context_names: list[str] | None = None

    @classmethod
    def of(
        cls,
        lists: Iterable[Any],
        *,
        items: Any = None,
        weight: Any = None,
        groups: Any = None,
        context: Any = None,
    ) -> Rankings:
        """Check lists of items, the best first.

        Parameters
        ----------
        lists : sequence of sequences of ids
            The items of each ranking, the best first. Tied items are a list inside the list. The
            best of five, without an order of the others, is ``["a", ["b", "c", "d", "e"]]``. Items
            that are not in a list took no part in the ranking.
        items : array-like of shape (n_items,), optional
            The ids of all items. None: the items that occur, in the order in which they appear.
        weight : array-like of shape (n_rankings,), optional
            How much each ranking counts, not negative. None: 1.
        groups : array-like of shape (n_rankings,), optional
            The session, prompt or judge of each ranking: rankings of a group may depend on each
            other.
        context : array-like of shape (n_entries, n_columns), optional
            Covariates: a row for each item of each list, in the order of the lists.

        Returns
        -------
        Rankings
        """
        rows = [_entries(k, row) for k, row in enumerate(lists)]
        if not rows:
            raise DataError("There are no rankings: lists is empty.")
        flat = list(chain.from_iterable(rows))
        sizes = [len(row) for row in rows]
        ranking: Index = np.repeat(np.arange(len(rows)), sizes)
        first: Index = np.repeat(np.cumsum(sizes) - np.array(sizes), sizes)
        place: Index = np.arange(len(flat)) - first
        if any(issubclass(kind, TIED) for kind in set(map(type, flat))):
            parts = [list(e) if isinstance(e, TIED) else [e] for e in flat]
            lengths = [len(part) for part in parts]
            place = np.repeat(place, lengths)
            ranking, flat = np.repeat(ranking, lengths), list(chain.from_iterable(parts))
        return cls._checked(
            len(rows), as_ids(flat, "lists"), ranking, place, items, weight, groups, context
        )

    @classmethod
    def of_places(
        cls,
        ranking: Any,
        item: Any,
        place: Any,
        *,
        items: Any = None,
        weight: Any = None,
        groups: Any = None,
        context: Any = None,
    ) -> Rankings:
        """Check columns with a row for each item of each ranking.

        Parameters
        ----------
        ranking : array-like of shape (n_entries,)
            The id of the ranking, such as a race. Rankings are numbered in the order in which they
            first appear, integers in ascending order.
        item : array-like of shape (n_entries,)
            The id of the item.
        place : array-like of shape (n_entries,)
            Numbers, 1 is better than 2. Items with equal places are tied. Items without a place
            (NaN) are below all others, in unknown order.
        items, weight, groups, context
            As for `Rankings.of`; `context` in the order of the rows.

        Examples
        --------
        >>> found = Rankings.of_places([1, 1, 1], ["ann", "bob", "cy"], [2, 1, None])
        >>> found.items[found.item].tolist(), found.place.tolist()
        (['bob', 'ann', 'cy'], [0, 1, 2])
        """
        codes = number_labels(check_comparison_ids("ranking", ranking, None, "entry"))[1]
        ids = check_comparison_ids("item", item, len(codes), "entry")
        if not len(codes):
            raise DataError("There are no rankings: the columns are empty.")
        try:
            places = np.asarray(place, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError("place must hold numbers, or NaN for items without a place.") from None
        if places.shape != codes.shape:
            raise DataError(
                f"place needs one entry per row: got shape {places.shape} for {len(codes)} rows."
            )
        order = np.lexsort((places, codes))  # NaN is last
        sorted_codes, sorted_places = codes[order], places[order]
        new = np.diff(sorted_codes, prepend=-1) > 0
        # NaN is tied with NaN.
        same = (sorted_places[1:] == sorted_places[:-1]) | np.isnan(sorted_places[:-1])
        level = np.cumsum(np.append(True, ~same) | new)
        values, names = check_context(context, len(codes))
        made = cls._checked(
            int(codes.max()) + 1, ids[order], sorted_codes, level - level[new][sorted_codes],
            items, weight, groups, None if values is None else values[order],
        )  # fmt: skip
        return replace(made, context_names=names)

    @classmethod
    def _checked(
        cls, n: int, ids: Any, ranking: Index, place: Index, items: Any, weight: Any, groups: Any,
        context: Any,
    ) -> Rankings:  # fmt: skip
        missing = missing_entries(ids)
        refuse_where(missing, lambda k: f"Ranking {ranking[k]} has an item without an id.")
        known = number_labels(ids)[0] if items is None else check_items(items)
        if items is None and len(known) < 2:
            raise DataError("Rankings need two or more items.")
        number = {name: k for k, name in enumerate(known.tolist())}
        item = np.fromiter((number.get(name, -1) for name in ids.tolist()), np.intp, len(ids))
        refuse_where(
            item < 0,
            lambda k: (
                f"Ranking {ranking[k]} has the unknown item {shown(ids[k])}: use ids among the "
                f"{len(known)} items, or add it to the items."
            ),
        )
        code = ranking * len(known) + item
        order = np.argsort(code, kind="stable")
        twice = np.zeros(len(code), dtype=bool)
        twice[order[1:]] = np.diff(code[order]) == 0
        refuse_where(
            twice,
            lambda k: f"Ranking {ranking[k]} has the item {shown(ids[k])} more than once.",
        )
        labels = None if groups is None else check_comparison_ids("groups", groups, n, "ranking")
        values, names = check_context(context, len(ids))
        weights = check_battle_weights(weight, n, "ranking")
        return cls(known, item, ranking, place, weights, labels, values, names)

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def sizes(self) -> Index:
        """The number of items of each ranking."""
        return np.bincount(self.ranking, minlength=len(self))

    @property
    def counts(self) -> Index:
        """The number of rankings that each item is in."""
        return np.bincount(self.item, minlength=len(self.items))

    def take(self, chosen: Any) -> Rankings:
        """Some of the rankings, by number or by a mask, of the same items."""
        numbers = np.arange(len(self))[chosen]
        begins = np.concatenate(([0], np.cumsum(self.sizes)))
        rows = [np.arange(begins[k], begins[k + 1]) for k in numbers]
        entries = np.concatenate(rows) if rows else np.zeros(0, dtype=np.intp)
        return replace(
            self,
            item=self.item[entries],
            ranking=np.repeat(np.arange(len(numbers)), self.sizes[numbers]),
            place=self.place[entries],
            weight=self.weight[numbers],
            groups=None if self.groups is None else self.groups[numbers],
            context=None if self.context is None else self.context[entries],
        )

    def pairs(self) -> tuple[Index, Index]:
        """Numbers of entries: all pairs of items of a ranking, the better one first."""
        better, worse, sizes = [], [], self.sizes
        begins = np.cumsum(sizes) - sizes
        for size in np.unique(sizes):
            i, j = np.triu_indices(size, 1)
            begin = begins[sizes == size][:, None]
            better.append((begin + i).ravel())
            worse.append((begin + j).ravel())
        one, two = np.concatenate(better), np.concatenate(worse)
        differ = self.place[one] != self.place[two]
        return one[differ], two[differ]

    def neighbours(self) -> tuple[Index, Index]:
        """Numbers of items: each item of a ranking beside each item of the next place."""
        new = np.append(True, (np.diff(self.ranking) != 0) | (np.diff(self.place) != 0))
        level = np.cumsum(new) - 1
        begin, size = np.flatnonzero(new), np.bincount(level)
        owner = self.ranking[begin]
        last = np.append(np.diff(owner) != 0, True)
        below = np.where(last, 0, np.append(size[1:], 0))[level]  # how many are just below
        better = np.repeat(np.arange(len(level)), below)
        step = np.arange(len(better)) - np.repeat(np.cumsum(below) - below, below)
        return self.item[better], self.item[begin[level[better] + 1] + step]

    def battles(self) -> Battles:
        """All pairs as battles, for models of pairs; the better item comes first.

        A pair of a ranking of k items has the weight 2 / k: all pairs of an item together count as
        much as about two battles, since they depend on each other. Battles of a ranking are a
        group, unless rankings have groups. Pairs of tied items are left out.

        Examples
        --------
        >>> battles = Rankings.of([["a", "b", "c"], ["c", "b"]]).battles()
        >>> battles.weight.round(2).tolist()
        [0.67, 0.67, 0.67, 1.0]
        """
        better, worse = self.pairs()
        order = np.lexsort((worse, better))
        better, worse = better[order], worse[order]
        number = self.ranking[better]
        context = None if self.context is None else self.context[better] - self.context[worse]
        return Battles.of(
            self.items[self.item[better]],
            self.items[self.item[worse]],
            OUTCOME_OF_CODE[np.zeros(len(better), dtype=np.intp)],
            items=self.items,
            weight=self.weight[number] * 2.0 / self.sizes[number],
            groups=number if self.groups is None else self.groups[number],
            context=context,
        )

    def __repr__(self) -> str:
        sizes = self.sizes
        about = [f"{plural(len(self), 'ranking')} of {plural(len(self.items), 'item')}"]
        low, high = min(sizes.tolist(), default=0), max(sizes.tolist(), default=0)
        about.append(f"{low} in each" if low == high else f"{low} to {high} in each")
        same = (np.diff(self.place) == 0) & (np.diff(self.ranking) == 0)
        tied = len(np.unique(self.ranking[1:][same]))
        about += [f"{tied:,} with ties"] if tied else []
        if self.groups is not None:
            about.append(plural(len(set(self.groups.tolist())), "group"))
        if self.context is not None:
            about.append(plural(self.context.shape[1], "context column"))
        return f"Rankings({', '.join(about)})"


@dataclass(frozen=True, eq=False)
class RankingFile:
    """Rankings of a file, and what was read; made by `read_rankings`.

    Attributes
    ----------
    rankings : Rankings
    schema : str
        The names of the columns.
    n_rows : int
        Number of rows of the file.
    dropped : dict of str to int
        How many rows were left out, by reason.
    group_column : str or None
        The column with the groups of rankings.
    remarks : list of str
        What else was noticed.

    Examples
    --------
    >>> from rankwise.data import read_rankings
    >>> table = {"race": [1, 1], "driver": ["a", "b"], "place": [2, 1]}
    >>> read_rankings(table, ranking="race", item="driver", place="place").rankings
    Rankings(1 ranking of 2 items, 2 in each)
    """

    rankings: Rankings
    schema: str
    n_rows: int
    dropped: dict[str, int]
    group_column: str | None
    remarks: list[str]


def _entries(k: int, row: Any) -> Sequence[Any]:
    """The entries of list k."""
    if isinstance(row, np.ndarray) and row.ndim == 1:
        row = row.tolist()
    if isinstance(row, str | bytes | Mapping) or not isinstance(row, Sequence):
        raise DataError(
            f"List {k} must be a sequence of ids, the best first, with tied ids in a list: got "
            f"{repr(row)[:60]}."
        )
    if not row:
        raise DataError(f"List {k} is empty: drop it.")
    return row


def read_rankings(
    table: Any,
    *,
    ranking: str,
    item: str,
    place: str,
    style: Sequence[str] = (),
    groups: str | None = None,
) -> RankingFile:
    """Read rankings from a file, a data frame or a dictionary with a row for each place.

    Parameters
    ----------
    table : path, data frame or dictionary of columns
        As for `read_battles`.
    ranking, item, place : str
        The columns of the ranking (such as a race), of the item, and of its place: 1 is the best.
        Items with an empty place, or with a word such as "DNF" in place of a number, took part and
        are below all others, in unknown order.
    style : sequence of str
        Columns of numbers: covariates of an item in a ranking.
    groups : str, optional
        The column with the session, season or judge of each ranking, the same in all its rows.

    Returns
    -------
    RankingFile

    Examples
    --------
    >>> from rankwise.data import read_rankings
    >>> table = {"race": [1, 1, 1], "driver": ["a", "b", "c"], "place": ["2", "1", "DNF"]}
    >>> found = read_rankings(table, ranking="race", item="driver", place="place")
    >>> found.rankings.items[found.rankings.item].tolist(), found.remarks
    (['b', 'a', 'c'], ["1 entry has no place ('DNF'): below all others of its ranking."])
    """
    found = SmallTable.of(table)
    ids, names = found.ids(ranking), found.ids(item)
    dropped: dict[str, int] = {}
    keep = np.full(len(ids), True)
    labels = None if groups is None else found.ids(groups)
    for values, what in ((ids, "a ranking"), (names, "an item"), (labels, "a group")):
        if values is not None:
            empty = keep & empty_entries(values)
            if empty.any():
                dropped[f"without {what}"] = int(empty.sum())
            keep &= ~empty
    rows = np.flatnonzero(keep)
    if not len(rows):
        raise DataError(f"{found.source} has no row with a ranking and an item.")
    used = found.take(rows)
    places, words = _places(used, place)
    codes = number_labels(id_array(ids[rows].tolist()))[1]
    where: dict[int, int] = {}
    for row, code in zip(rows.tolist(), codes.tolist(), strict=True):
        first = where.setdefault(code, row)
        if labels is not None and labels[row] != labels[first]:
            raise DataError(
                f"{found.place(row)}: the column {groups!r} has {labels[row]!r}, and "
                f"{labels[first]!r} in {found.place(first)}, of the same ranking."
            )
    if labels is not None:
        labels = id_array([labels[where[k]] for k in range(len(where))])
    context = np.column_stack([used.numbers(name) for name in style]) if style else None
    items = id_array(names[rows].tolist())
    made = Rankings.of_places(codes, items, places, groups=labels, context=context)
    made = replace(made, context_names=list(style) or None)
    remarks = []
    count = int(np.isnan(places).sum())
    if count:
        seen = ", ".join(repr(word) for word, _ in words.most_common(WORDS))
        has = "entry has" if count == 1 else "entries have"
        whose = "its ranking" if count == 1 else "their rankings"
        remarks.append(
            f"{count:,} {has} no place{f' ({seen})' if seen else ''}: below all others of {whose}."
        )
    return RankingFile(made, f"{ranking}, {item}, {place}", len(ids), dropped, groups, remarks)


def _places(table: SmallTable, column: str) -> tuple[Array, Counter[str]]:
    """Places as numbers, NaN where there is none, and the words in place of numbers."""
    words: Counter[str] = Counter()
    places = np.full(len(table.values(column)), np.nan)
    for row, value in enumerate(table.ids(column)):
        text = "" if value is None else str(value)
        if math.isfinite(number := as_number(text)):
            places[row] = number
        elif text.lower() not in NOTHING:
            if any(letter.isdigit() for letter in text):
                raise DataError(
                    f"{table.place(row)}: the column {column!r} must hold places, as numbers: got "
                    f"{text!r}. Leave it empty if there is none."
                )
            words[text] += 1
    return places, words
