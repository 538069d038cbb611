"""Battles between named items, from arrays and from files of arenas and benchmarks."""

from __future__ import annotations

import re
from ast import literal_eval
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from json import JSONDecodeError
from operator import eq
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index
from rankwise.data.table_files import Columns, SmallTable, parsed_json
from rankwise.data.times import check_times, periods_of
from rankwise.errors import DataError, ParameterError
from rankwise.graph.comparisons import (
    OUTCOME_OF_CODE,
    Comparisons,
    check_comparison_ids,
    check_context,
    check_items,
    check_two_items,
    check_weight,
    outcome_codes,
    positions_of,
)
from rankwise.graph.query_groups import (
    entries_of,
    id_array,
    id_columns,
    join_ids,
    missing_entries,
)
from rankwise.tables import plural

# Of the battle that counts most; outside this range, standard errors are lost in rounding.
LEAST_WEIGHT, MOST_WEIGHT = 1e-12, 1e12
PER_BATTLE = (
    "pairs", "outcome", "weight", "groups", "judge", "context", "gold", "time", "category",
)  # fmt: skip
GROUPS = (
    "evaluation_session_id", "session", "session_id", "question_id", "prompt_id", "prompt",
)  # fmt: skip
SCALED = "1 standard deviation"  # what a covariate of two columns is per
SIDES = (("a", "b"), ("1", "2"), ("left", "right"), ("chosen", "rejected"))
NESTED = "conv_metadata"  # counts of the answers of both models, in newer files of arenas
KEY = "cmp_key"  # in files of PandaLM, the names of both models, with "_" between them
ANNOTATOR = re.compile(r"annotator\d+")
WINNERS = {"0": "tie", "1": "model_a", "2": "model_b"}
MODELS, RIGHT = "models", "num_correct"  # in files of RewardBench 2


@dataclass(frozen=True, eq=False, repr=False)
class Battles:
    """Which items met, who won, and under which circumstances; made by `Battles.of`.

    Attributes
    ----------
    items : ndarray of shape (n_items,)
        The id of each item.
    pairs : ndarray of shape (n_battles, 2)
        Numbers of the two items, in the order in which they were shown.
    outcome : ndarray of shape (n_battles,)
        0: the first item won, 1: the second won, 2: a tie, 3: both are bad.
    weight : ndarray of shape (n_battles,)
        How much each battle counts.
    groups : ndarray of shape (n_battles,) or (n_battles, 2) or None
        The session, prompt or judge of each battle, or two of these.
    judge : ndarray of shape (n_battles,) or None
        Who judged each battle.
    context : ndarray of shape (n_battles, n_columns) or None
        Covariates of battles; positive values favour the first item.
    context_names : list of str or None
        Names of the covariates.
    gold : ndarray of shape (n_battles,) or None
        The right answer of each battle, in the numbers of `outcome`; -1 where it is not known.
    time : ndarray of shape (n_battles,) or None
        When each battle was: days since 1970 for dates, and other numbers as they were given.
    dated : bool
        Whether times are dates.
    category : ndarray of shape (n_battles,) or None
        The category of each battle.

    Examples
    --------
    >>> from rankwise.data import Battles
    >>> battles = Battles.of(["a", "b", "a"], ["b", "c", "c"], ["model_a", "tie", "both_bad"])
    >>> battles
    Battles(3 battles of 3 items, 1 tie, 1 both bad)
    >>> battles.items.tolist(), battles.outcome.tolist()
    (['a', 'b', 'c'], [0, 2, 3])
    """

    items: NDArray[Any]
    pairs: Index
    outcome: Index
    weight: Array
    groups: NDArray[Any] | None = None
    judge: NDArray[Any] | None = None
    context: Array | None = None
    context_names: list[str] | None = None
    gold: Index | None = None
    time: Array | None = None
    dated: bool = False
    category: NDArray[Any] | None = None

    @classmethod
    def of(
        cls,
        first: Any,
        second: Any,
        outcome: Any,
        *,
        items: Any = None,
        weight: Any = None,
        groups: Any = None,
        judge: Any = None,
        context: Any = None,
        gold: Any = None,
        time: Any = None,
        category: Any = None,
    ) -> Battles:
        """Check battles.

        Parameters
        ----------
        first, second : array-like of shape (n_battles,)
            Ids of the two items, as integers or text, in the order in which they were shown.
        outcome : array-like of shape (n_battles,)
            Which item won: "first" or "second"; "a" or "b"; "left" or "right"; "model_a" or
            "model_b"; "win" or "loss" (of the first). "tie" if neither, "both_bad" or
            "tie (bothbad)" if both are bad. Or a number or boolean: 1 if the first won, 0 if the
            second won, 0.5 for a tie. Otherwise, the id of the item that won.
        items : array-like of shape (n_items,), optional
            The ids of all items. None: the items that occur, in the order in which they first
            appear in `first`, and then in `second`.
        weight : array-like of shape (n_battles,), optional
            How much each battle counts, not negative. None: 1.
        groups : array-like of shape (n_battles,) or (n_battles, 2), optional
            The session, prompt or judge of each battle: battles of a group may depend on each
            other. With two columns, such as judge and prompt, battles that share one of them may.
        judge : array-like of shape (n_battles,), optional
            Who judged each battle.
        context : array-like of shape (n_battles, n_columns), optional
            Covariates: by how much the first item exceeds the second, for example in length. Such a
            column can also be 1 where a property favours the first item, and -1 where it favours
            the second.
        gold : array-like of shape (n_battles,), optional
            The right answer of each battle, as in `outcome`; None, NaN or "" where it is not known.
        time : array-like of shape (n_battles,), optional
            When each battle was: dates (ISO text, datetime64, datetime or 20261118), or numbers.
        category : array-like of shape (n_battles,), optional
            The category, language, month, ... of each battle.

        Returns
        -------
        Battles

        Examples
        --------
        >>> Battles.of([1, 2], [2, 3], [1, 0.5], groups=["s1", "s1"], judge=["Ann", "Bob"])
        Battles(2 battles of 3 items, 1 tie, 1 group, 2 judges)
        """
        one = check_comparison_ids("first", first, None, "battle")
        two = check_comparison_ids("second", second, len(one), "battle")
        n = len(one)
        if n == 0:
            raise DataError("There are no battles: first and second are empty.")
        if items is None:
            ids = id_array(dict.fromkeys(one.tolist() + two.tolist()))
        else:
            ids = check_items(items)
        pairs = positions_of(ids, one, two, "battle")
        check_two_items(pairs, ids, "battle")
        codes = outcome_codes(outcome, n, (one, two), "battle")
        labels = {
            name: _labels(name, values, n)
            for name, values in (("groups", groups), ("judge", judge), ("category", category))
            if values is not None
        }
        numbers, names = check_context(context, n)
        if gold is not None:
            labels["gold"] = _gold_codes(gold, (one, two))
        weights = check_battle_weights(weight, n)
        when, dated = (None, False) if time is None else check_times(time, n)
        return cls(
            ids, pairs, codes, weights, context=numbers, context_names=names, time=when,
            dated=dated, **labels,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.pairs)

    def every(self, period: str | float) -> Battles:
        """The same battles, with the period of their time as their category.

        Parameters
        ----------
        period : {"day", "week", "month", "quarter", "year"} or number
            The length: with dates, a word or a number of days; otherwise a number.

        Examples
        --------
        >>> days = ["2026-10-30", "2026-11-02"]
        >>> Battles.of([1, 2], [2, 1], [1, 0], time=days).every("month").category.tolist()
        ['2026-10', '2026-11']
        """
        if self.time is None:
            raise DataError("Periods need the times of battles: pass time.")
        return replace(self, category=periods_of(self.time, period, dated=self.dated))

    @property
    def counts(self) -> Index:
        """The number of battles that each item is in."""
        return np.bincount(self.pairs.ravel(), minlength=len(self.items))

    def take(self, chosen: Any) -> Battles:
        """Some of the battles, by number or by a mask, of the same items."""
        columns = {name: getattr(self, name) for name in PER_BATTLE}
        return replace(self, **{n: v[chosen] for n, v in columns.items() if v is not None})

    def __add__(self, other: Battles) -> Battles:
        """All battles of both; new items come last."""
        known = {name: k for k, name in enumerate(self.items.tolist())}
        place = [known.setdefault(name, len(known)) for name in other.items.tolist()]
        columns = {name: (getattr(self, name), getattr(other, name)) for name in PER_BATTLE}
        columns["pairs"] = (self.pairs, np.array(place, dtype=np.intp)[other.pairs])
        old, new = map(_optional_columns, (self, other))
        if old != new:
            raise DataError(
                f"The old battles have {', '.join(old) or 'no more columns'}, and the new ones "
                f"{', '.join(new) or 'no more columns'}: they need the same columns in the same "
                "order."
            )
        if self.dated != other.dated:
            raise DataError("The times of old or new battles are dates, the others numbers.")
        joined: dict[str, Any] = {
            name: join_ids(both) for name, both in columns.items() if both[0] is not None
        }
        return replace(self, items=id_array(known), **joined)

    def comparisons(self, items: Any = None) -> Comparisons:
        """The battles as comparisons between rows of features, for `PairwiseGP` and others.

        Battles in which both items are bad do not show which is better, and are left out.
        Comparisons have one column of groups: battles with two columns are refused.

        Parameters
        ----------
        items : array-like of shape (n_items,) or pandas DataFrame, optional
            The id of each row of X; for a frame, its index. None: `self.items`.

        Examples
        --------
        >>> battles = Battles.of(["a", "b"], ["b", "c"], ["first", "tie"])
        >>> battles.comparisons(items=["c", "b", "a", "new"]).pairs.tolist()
        [[2, 1], [1, 0]]
        """
        if self.groups is not None and self.groups.ndim == 2:
            raise DataError(
                "These battles have two columns of groups, and comparisons have one. Keep one: "
                "dataclasses.replace(battles, groups=battles.groups[:, 0]).comparisons()."
            )
        kept = self.take(self.outcome != 3)
        first, second = self.items[kept.pairs].T
        made = Comparisons.of(
            first,
            second,
            OUTCOME_OF_CODE[kept.outcome],
            items=self.items if items is None else items,
            weight=kept.weight,
            groups=kept.groups,
            context=kept.context,
        )
        return replace(made, context_names=self.context_names)

    def __repr__(self) -> str:
        counts = np.bincount(self.outcome, minlength=4)
        about = [f"{plural(len(self), 'battle')} of {plural(len(self.items), 'item')}"]
        about += [plural(int(counts[2]), "tie")] if counts[2] else []
        about += [f"{counts[3]:,} both bad"] if counts[3] else []
        for word, labels in (("group", self.groups), ("judge", self.judge)):
            if labels is not None:
                columns = labels.T if labels.ndim == 2 else labels[None]
                sizes = [plural(len(set(column.tolist())), word) for column in columns]
                about.append(" by ".join(sizes))
        if self.context is not None:
            about.append(plural(self.context.shape[1], "context column"))
        return f"Battles({', '.join(about)})"


def _labels(name: str, values: Any, n: int) -> NDArray[Any]:
    """The judge or group of each battle, or two columns of groups."""
    columns = id_columns(values) if name == "groups" else []
    if len(columns) not in (1, 2):
        return check_comparison_ids(name, values, n, "battle")
    parts = [check_comparison_ids(name, column, n, "battle") for column in columns]
    return parts[0] if len(parts) == 1 else np.column_stack([p.astype(object) for p in parts])


def _gold_codes(gold: Any, sides: Sequence[NDArray[Any]]) -> Index:
    """Codes of right answers; -1 where they are not known, or both items are bad."""
    given = id_array(entries_of(gold))
    n = len(sides[0])
    if given.shape != (n,):
        raise DataError(
            f"gold needs one entry per battle: got shape {given.shape} for {n} battles."
        )
    known = np.flatnonzero(~empty_entries(given))
    codes = np.full(n, -1, dtype=np.intp)
    found = outcome_codes(
        given[known], len(known), [side[known] for side in sides], "battle",
        lambda k: f"gold, battle {known[k]}",
    )  # fmt: skip
    codes[known] = np.where(found == 3, -1, found)
    if not (codes >= 0).any():
        raise DataError("gold has no right answer: leave it out.")
    return codes


def _optional_columns(battles: Battles) -> list[str]:
    """Groups, judge and the columns of context, as far as there are any."""
    names = ("groups", "judge", "gold", "time", "category")
    named = [name for name in names if getattr(battles, name) is not None]
    n_context = 0 if battles.context is None else battles.context.shape[1]
    return named + (battles.context_names or [f"context {k}" for k in range(n_context)])


def number_labels(labels: NDArray[Any]) -> tuple[NDArray[Any], Index]:
    """Distinct labels, integers in ascending and others in their order, and numbers of entries."""
    if labels.dtype.kind in "iu":
        found, codes = np.unique(labels, return_inverse=True)
        return found, np.asarray(codes, dtype=np.intp)
    number, codes = number_in_order(labels)
    return id_array(number), codes


def number_in_order(labels: NDArray[Any]) -> tuple[dict[Any, int], Index]:
    """Distinct labels with their numbers, in the order of their first entries; and all numbers."""
    number: defaultdict[Any, int] = defaultdict()
    number.default_factory = number.__len__
    return number, np.fromiter(map(number.__getitem__, labels.tolist()), np.intp, len(labels))


def check_battle_weights(weight: Any, n: int, unit: str = "battle") -> Array:
    """One weight per battle or ranking, of ordinary size; 1 by default."""
    values = check_weight(weight, n, unit)
    largest = float(values.max(initial=0.0))
    if not (largest == 0.0 or LEAST_WEIGHT <= largest <= MOST_WEIGHT):
        raise DataError(
            f"The largest weight must be between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}: got "
            f"{largest:g}. Multiply the weights by a constant, so that 1 is an ordinary {unit}."
        )
    return values


@dataclass(frozen=True)
class Schema:
    """Columns by which a file is recognized: two items, and who won (None: the first)."""

    name: str
    first: str
    second: str
    outcome: str | None

    def found_in(self, columns: Iterable[str]) -> Schema | None:
        """The schema with the names of these columns, in upper or lower case; None without them."""
        known = {name.lower(): name for name in columns} | {name: name for name in columns}
        wanted = {"first": self.first, "second": self.second, "outcome": self.outcome}
        named = {role: name for role, name in wanted.items() if name is not None}
        found: dict[str, Any] = {role: known.get(name) for role, name in named.items()}
        return None if None in found.values() else replace(self, **found)


VERDICTS = ("g1_winner", "g2_winner")  # the second in the other order
MT_BENCH = Schema("MT-bench pairs", "model_1", "model_2", "g1_winner")
SCHEMAS = (
    MT_BENCH,
    Schema("Arena battles", "model_a", "model_b", "winner"),
    Schema("Evalica", "left", "right", "winner"),
    Schema("RewardBench", "chosen_model", "rejected_model", None),
    Schema("first, second, outcome", "first", "second", "outcome"),
    Schema("first, second, winner", "first", "second", "winner"),
    Schema("item_a, item_b, winner", "item_a", "item_b", "winner"),
    Schema("winner, loser", "winner", "loser", None),
)


def schema_in(columns: Iterable[str]) -> Schema | None:
    """The first schema whose columns a table has; None without one."""
    names = list(columns)
    return next(filter(None, (schema.found_in(names) for schema in SCHEMAS)), None)


@dataclass(frozen=True, eq=False)
class BattleFile:
    """Battles of a file, and what was read; made by `read_battles`.

    Attributes
    ----------
    battles : Battles
    schema : str
        The recognized schema of the columns.
    n_rows : int
        Number of rows of the file.
    dropped : dict of str to int
        How many rows were left out, by reason.
    group_column : str or None
        The column with the groups of battles.
    remarks : list of str
        What else was noticed.
    units : dict of str to str
        What a change of 1 in a covariate is, by its name.

    Examples
    --------
    >>> from rankwise.data import read_battles
    >>> table = {"model_a": ["x", "y"], "model_b": ["y", "x"], "winner": ["model_a", None]}
    >>> found = read_battles(table)
    >>> found.schema, found.dropped
    ('Arena battles', {'without a winner': 1})
    """

    battles: Battles
    schema: str
    n_rows: int
    dropped: dict[str, int]
    group_column: str | None
    remarks: list[str]
    units: dict[str, str] = field(default_factory=dict)


def read_battles(
    table: Any,
    *,
    first: str | None = None,
    second: str | None = None,
    winner: str | None = None,
    style: Sequence[str] = (),
    groups: str | Sequence[str] | None = None,
    judge: str | None = None,
    gold: str | None = None,
    time: str | None = None,
    category: str | None = None,
    where: Mapping[str, str] | None = None,
) -> BattleFile:
    """Read battles from a file, a data frame or a dictionary of columns.

    These columns are recognized: ``model_a, model_b, winner`` (arenas), ``model_1, model_2,
    g1_winner, g2_winner`` (MT-bench: both orders are judged, and make two battles),
    ``left, right, winner`` (Evalica), ``chosen_model, rejected_model`` (RewardBench), ``models,
    num_correct`` (RewardBench 2: each model with a correct completion beats each model with a wrong
    one), ``cmp_key, annotator1, annotator2, ...`` (PandaLM: each annotator makes a battle),
    ``first, second, outcome`` (or ``winner``), ``item_a, item_b, winner`` and ``winner, loser``.
    Winners are words, as for `Battles.of`, or ids of the items.

    Parameters
    ----------
    table : path, data frame or dictionary of columns
        CSV, TSV, JSON lines, JSON, Parquet or Arrow, by the suffix of the file, which may be
        compressed.
    first, second, winner : str, optional
        The columns of the two items and of the winner, if they have other names. With `first` and
        `second` only, the first won.
    style : sequence of str
        Covariates: a column of numbers, where positive values favour the first item; or the common
        name of two columns without ``_a`` and ``_b``, as in "length" for ``length_a`` and
        ``length_b``, or with a star in their place, as in "sum_assistant_*_tokens". For two
        columns, the covariate is (a - b) / (a + b + 1), divided by its standard deviation.
        "conv_metadata" stands for all counts in that column of newer files of arenas, and "words"
        for the number of words of PandaLM's responses.
    groups : str or two of them, optional
        The column with the session, prompt or judge of each battle. None:
        "evaluation_session_id", "session", "session_id", "question_id", "prompt_id" or "prompt",
        if there is one.
    judge : str, optional
        The column of judges; "annotator" for files of PandaLM.
    gold : str, optional
        The column of right answers, empty where they are not known.
    time : str, optional
        The column of dates or times.
    category : str, optional
        The column of categories.
    where : dict of str to str, optional
        Only rows with these values in these columns, compared as text, as if there were no others.

    Returns
    -------
    BattleFile

    Examples
    --------
    >>> from rankwise.data import read_battles
    >>> table = {
    ...     "left": ["x", "y", "x"], "right": ["y", "z", "z"], "winner": ["left", "tie", "right"],
    ...     "words_left": [10, 20, 30], "words_right": [20, 10, 30], "session": [1, 1, 2],
    ... }
    >>> read_battles(table, style=["words"]).battles
    Battles(3 battles of 3 items, 1 tie, 2 groups, 1 context column)
    """
    found = _BattleTable.of(table)
    schema = found.schema_of(first, second, winner)
    n_rows = found.n_rows or len(found.values(schema.first))
    wanted, dropped = found.only(where or {})
    labels = {"judge": judge, "category": category, "time": time}
    return wanted.read(schema, style, groups, labels, gold, n_rows, dropped)


class _Faults(list[str]):
    """What is wrong with the rows of a table, to be mended at once."""

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note an error, and go on."""
        try:
            yield
        except DataError as error:
            self.append(str(error))


@dataclass(frozen=True, eq=False)
class _BattleTable(SmallTable):
    """A table of battles, perhaps made from a table that has several battles in a row."""

    schema: str | None = None
    n_rows: int | None = None  # of the file, where its rows are not battles

    @classmethod
    def of(cls, table: Any) -> _BattleTable:
        """Battles of a file, a data frame or a dictionary of columns."""
        given = SmallTable.of(table)
        columns = given.columns
        annotators = [name for name in columns if KEY in columns and ANNOTATOR.fullmatch(name)]
        if annotators:
            made, schema = _of_annotators(given, annotators), "PandaLM"
        elif MODELS in columns and RIGHT in columns:
            made, schema = _of_completions(given), "RewardBench 2"
        else:
            return cls(given.source, columns, given.place, given.path)
        n_rows = len(given.values(next(iter(columns))))
        return cls(made.source, made.columns, made.place, made.path, schema, n_rows)

    def schema_of(self, first: str | None, second: str | None, winner: str | None) -> Schema:
        """The schema whose columns are named, or the first one that the table has."""
        if first is not None or second is not None or winner is not None:
            if first is None or second is None:
                raise ParameterError(
                    "Name the columns of both items: first and second, and winner, if there is one."
                )
            return Schema("columns as named", first, second, winner)
        found = schema_in(self.columns)
        if found is None:
            usual = "; ".join(
                ", ".join(filter(None, (s.first, s.second, s.outcome))) for s in SCHEMAS
            )
            raise DataError(
                f"{self.source} has no columns of battles. Name them as first, second and "
                f"winner, or use one of these: {usual}. It has "
                f"{', '.join(self.columns) or 'none'}. Texts that were chosen and rejected, "
                "without names of items, are ranked by their features: `rankwise preferences`."
            )
        return found

    def only(self, where: Mapping[str, str]) -> tuple[Self, dict[str, int]]:
        """The rows with these values, and how many others there are, by reason."""
        table, dropped = self, {}
        for column, wanted in where.items():
            found = [str(value) == wanted for value in table.ids(column)]
            if not all(found):
                dropped[f"whose {column!r} is not {wanted!r}"] = len(found) - sum(found)
                table = table.take(np.flatnonzero(found))
        return table, dropped

    def read(
        self,
        schema: Schema,
        style: Sequence[str],
        groups: str | Sequence[str] | None,
        label_columns: dict[str, str | None],
        gold: str | None,
        n_rows: int,
        dropped: dict[str, int],
    ) -> BattleFile:
        """Battles of all rows that can be used; the values of others do not count."""
        first, second = self.ids(schema.first), self.ids(schema.second)
        keep = np.full(len(first), True)

        def drop(which: NDArray[np.bool_], reason: str) -> None:
            which = which & keep
            if which.any():
                dropped[reason] = int(which.sum())
                keep[which] = False

        drop(empty_entries(first) | empty_entries(second), "without an item")
        if "anony" in self.columns and schema.name == "Arena battles":
            named = [str(value).strip().lower() == "false" for value in self.values("anony")]
            drop(np.array(named, dtype=bool), "not anonymous")
        known = {name.lower(): name for name in self.columns}
        usual = next((known[name] for name in GROUPS if name in known), None)
        ways = [groups] if isinstance(groups, str) else list(groups or filter(None, [usual]))
        if len(ways) > 2:
            raise ParameterError(
                f"groups takes one column or two: got {', '.join(ways)}. Join columns whose values "
                "belong together."
            )
        marks = [("groups", self.ids(column)) for column in ways]
        more = label_columns.items()
        marks += [(name, self.ids(column)) for name, column in more if column is not None]
        for name, values in marks:
            drop(empty_entries(values), f"without a {name.removesuffix('s')}")
        columns = [values for name, values in marks if name == "groups"]
        labels = dict(marks)
        if len(columns) == 2:
            labels["groups"] = np.column_stack([column.astype(object) for column in columns])
        remarks: list[str] = []
        if schema.name == MT_BENCH.name:
            if gold is not None:
                raise ParameterError("gold is not known for files with two verdicts in a row.")
            usable = [keep & ~self._failed(column, keep, remarks) for column in VERDICTS]
        else:
            if schema.outcome is not None:
                drop(empty_entries(self.ids(schema.outcome)), "without a winner")
            usable = [keep]
        used = np.logical_or.reduce(usable)
        if not used.any():
            reasons = ", ".join(f"{plural(n, 'row')} {reason}" for reason, n in dropped.items())
            reasons = reasons or "it has no rows"
            raise DataError(f"{self.source} has no battle that can be used: {reasons}.")

        faults = _Faults()
        same = used & np.fromiter(map(eq, first, second), bool, len(first))
        if same.any():
            row, *others = np.flatnonzero(same).tolist()
            faults.append(
                f"{self.place(row)}: {first[row]!r} battles itself{self.also(others)}. Drop these "
                "rows."
            )
            usable = [chosen & ~same for chosen in usable]
        rows = np.flatnonzero(used)
        table, first, second = self.take(rows), first[rows], second[rows]
        labels = {name: values[rows] for name, values in labels.items()}
        if gold is not None:
            labels["gold"] = table.ids(gold)
        context, names = table.covariates(style, faults)
        parts, dated = [], False
        with faults.noted():
            if "time" in labels:
                labels["time"], dated = check_times(labels["time"], len(rows), table.place)
        with faults.noted():
            usable = [chosen[rows] for chosen in usable]
            parts = table.outcomes(schema, first, second, usable, remarks)
        if faults:
            raise DataError(" ".join(faults))
        made = [
            Battles.of(
                one[chosen],
                two[chosen],
                OUTCOME_OF_CODE[codes[chosen]],
                context=None if context is None else sign * context[chosen],
                **{name: values[chosen] for name, values in labels.items()},
            )
            for sign, (one, two, codes, chosen) in zip((1.0, -1.0), parts, strict=False)
            if chosen.any()
        ]
        battles = made[0] if len(made) == 1 else made[0] + made[1]
        battles = replace(battles, context_names=names or None, dated=dated)
        units = {name: "1" if name in self.columns else SCALED for name in names}
        name, group_column = self.schema or schema.name, " and ".join(ways) or None
        return BattleFile(battles, name, n_rows, dropped, group_column, remarks, units)

    def _codes(self, column: str, first: Any, second: Any, keep: Any) -> Index:
        """Codes of the outcomes of the rows that are kept; 0 in others."""
        rows = np.flatnonzero(keep)
        codes = np.zeros(len(first), dtype=np.intp)
        codes[rows] = outcome_codes(
            self.ids(column)[rows], len(rows), (first[rows], second[rows]), "battle",
            lambda k: f"{self.place(int(rows[k]))}, column {column!r}",
        )  # fmt: skip
        return codes

    def _failed(self, column: str, keep: Any, remarks: list[str]) -> NDArray[np.bool_]:
        """Which of the rows that are kept have no verdict in a column."""
        values = self.ids(column)
        errors = np.array([str(value).lower() == "error" for value in values], dtype=bool)
        failed = np.asarray(keep & (errors | empty_entries(values)))
        if failed.any():
            remarks.append(
                f"{plural(int(failed.sum()), 'verdict')} of {column} failed and "
                f"{'is' if failed.sum() == 1 else 'are'} left out."
            )
        return failed

    def outcomes(
        self, schema: Schema, first: Any, second: Any, usable: list[Any], remarks: list[str]
    ) -> list[tuple[Any, Any, Any, Any]]:
        """Both items, outcomes and usable rows; of two verdicts, also those of the other order."""
        if schema.outcome is None:
            return [(first, second, np.zeros(len(first), dtype=np.intp), usable[0])]
        columns = VERDICTS if schema.name == MT_BENCH.name else (schema.outcome,)
        codes = [
            self._codes(column, first, second, chosen)
            for column, chosen in zip(columns, usable, strict=True)
        ]
        if len(codes) == 1:
            return [(first, second, codes[0], usable[0])]
        both = usable[0] & usable[1]
        if both.any():
            turned = int((codes[0] != codes[1])[both].sum())
            remarks.append(
                f"Both orders were judged in {plural(int(both.sum()), 'row')}; in {turned:,} of "
                f"them ({turned / both.sum():.0%}) the verdict changes with the order."
            )
        swapped = np.where(codes[1] < 2, 1 - codes[1], codes[1])
        return [(first, second, codes[0], usable[0]), (second, first, swapped, usable[1])]

    # Covariates.

    def covariates(self, style: Sequence[str], faults: _Faults) -> tuple[Array | None, list[str]]:
        """The columns of style, and their names."""
        nested = self._nested() if style and NESTED in self.columns else {}
        table = replace(self, columns={**nested, **self.columns})
        wanted: list[str] = []
        for name in style:
            all_counts = name == NESTED and nested
            wanted += sorted(filter(None, map(_stem, nested))) if all_counts else [name]
        found = []
        for name in wanted:
            with faults.noted():
                found.append(table.covariate(name))
        return (np.column_stack(found) if found else None), [
            name.replace("_*", "") for name in wanted
        ]

    def covariate(self, name: str) -> Array:
        """A column, or the scaled difference of a pair of columns."""
        if name in self.columns:
            values = self.numbers(name)
            if len(values) and (values.min() >= 0 or values.max() <= 0) and values.any():
                end = "least" if values.min() >= 0 else "most"
                raise DataError(
                    f"{self.source}: the column {name!r} is at {end} 0 in every row. A covariate "
                    "compares the two items of a battle: positive values favour the first item, "
                    "negative ones the second. A number that is the same for both sides cannot. "
                    f"Give {name}_a and {name}_b, or their difference."
                )
            return values
        pattern = name if "*" in name else f"{name}_*"
        for both in SIDES:
            columns = [pattern.replace("*", side) for side in both]
            if all(column in self.columns for column in columns):
                one, two = map(self.numbers, columns)
                if min(one.min(), two.min()) < 0:
                    raise DataError(
                        f"{self.source}: {columns[0]!r} and {columns[1]!r} must not be negative. "
                        "Make a column of their difference."
                    )
                if np.array_equal(one, two):
                    raise DataError(
                        f"{self.source}: {columns[0]!r} and {columns[1]!r} are equal in every row. "
                        "A covariate compares the two items of a battle: leave it out."
                    )
                share = (one - two) / (one + two + 1.0)
                return share / (share.std() or 1.0)
        raise DataError(
            f"{self.source} has no column {name!r}, and no two columns {name}_a and {name}_b: it "
            f"has {', '.join(self.columns)}."
        )

    def _nested(self) -> Columns:
        """The numbers in the column of counts; counts by kind are added up."""
        rows = []
        for k, given in enumerate(self.values(NESTED)):
            try:
                row = _object(given) if isinstance(given, str) else given
                rows.append({key: _total(value) for key, value in row.items()})
            except Exception as error:  # whatever a text can hold
                raise DataError(
                    f"{self.place(k)}: {NESTED} must hold an object with counts: got "
                    f"{repr(given)[:80]} ({error})."
                ) from None
        stems = filter(None, map(_stem, rows[0]))
        keys = [stem.replace("*", side) for stem in stems for side in "ab"]
        return {key: [row.get(key) for row in rows] for key in keys}


def _object(text: str) -> Any:
    """An object written as JSON, or as Python writes it into CSV files."""
    try:
        return parsed_json(text)
    except DataError as error:
        if isinstance(error.__cause__, JSONDecodeError):
            return literal_eval(text)
        raise


def _total(value: Any) -> Any:
    return sum(value.values()) if isinstance(value, dict) else value


def _stem(key: str) -> str | None:
    """The name of a count of the first model, with a star in the place of "a"."""
    if key.endswith("_a"):
        return f"{key[:-1]}*"
    return key.replace("_a_", "_*_", 1) if "_a_" in key else None


def empty_entries(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which entries are empty, None or NaN."""
    empty = (isinstance(value, str) and not value for value in values)
    return np.asarray(missing_entries(values) | np.fromiter(empty, bool, len(values)))


def _of_annotators(table: SmallTable, annotators: list[str]) -> SmallTable:
    """The rows of PandaLM as battles of arenas, one for each annotator.

    New columns are ``model_a``, ``model_b``, ``winner``, ``annotator``, ``prompt`` (instruction and
    input), and, if there are responses, ``words_a`` and ``words_b``.
    """
    keys = table.values(KEY)
    pairs = [str(key).split("_") for key in keys]
    for k, pair in enumerate(pairs):
        if len(pair) != 2:
            raise DataError(
                f'{table.place(k)}: {KEY} must be two names of models with "_" between them: got '
                f"{keys[k]!r}."
            )
    new: Columns = {f"model_{side}": [pair[j] for pair in pairs] for j, side in enumerate("ab")}
    texts = [table.values(name) for name in ("instruction", "input") if name in table.columns]
    if texts:
        new["prompt"] = ["\n".join(map(str, row)) for row in zip(*texts, strict=True)]
    for name, side in (("response1", "a"), ("response2", "b")):
        if name in table.columns:
            new[f"words_{side}"] = [len(str(text or "").split()) for text in table.values(name)]
    votes = zip(*(table.values(name) for name in annotators), strict=True)
    given = [vote for of_row in votes for vote in of_row]
    winners = [WINNERS.get(str(v).strip().removesuffix(".0"), v) for v in given]
    others = {name: kept for name, kept in table.columns.items() if name not in annotators}
    table = replace(table, columns={**others, **new})
    table = table.take(np.repeat(np.arange(len(keys)), len(annotators)))
    more = {"annotator": annotators * len(keys), "winner": winners}
    return replace(table, columns={**table.columns, **more})


def _of_completions(table: SmallTable) -> SmallTable:
    """The rows of RewardBench 2 as winners and losers.

    Each model with a correct completion beats each model with a wrong one. New columns are
    ``chosen_model`` and ``rejected_model``.
    """
    battles = []
    for k, (models, right) in enumerate(
        zip(table.values(MODELS), table.values(RIGHT), strict=True)
    ):
        number = str(right).removesuffix(".0")
        n = int(number) if number.isdecimal() else -1
        if not isinstance(models, list | tuple) or not 0 <= n <= len(models):
            raise DataError(
                f"{table.place(k)}: {MODELS} must be a list, with the model of each completion, "
                f"and {RIGHT} how many of them are right: got {models!r} and {right!r}."
            )
        battles += [(k, one, two) for one in models[:n] for two in models[n:] if one != two]
    if not battles:
        raise DataError("No row has a right and a wrong completion of two different models.")
    rows, chosen, rejected = (list(column) for column in zip(*battles, strict=True))
    table = table.take(np.array(rows))
    more = {"chosen_model": chosen, "rejected_model": rejected}
    return replace(table, columns={**table.columns, **more})
