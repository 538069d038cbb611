"""Battles from files of arenas and benchmarks, whose columns say what they are."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from json import JSONDecodeError
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array
from rankwise.data.battles import CODE_OF_NUMBER, CODE_OF_WORD, Battles, with_winners
from rankwise.data.tables.records import (
    Columns,
    frame_columns,
    parsed_json,
    place_of_row,
    read_records,
    refuse_odd_texts,
)
from rankwise.errors import DataError, ParameterError
from rankwise.graph.query_groups import missing_entries
from rankwise.tables import plural

GROUPS = (
    "evaluation_session_id", "session", "session_id", "question_id", "prompt_id", "prompt",
)  # fmt: skip
SIDES = (("a", "b"), ("1", "2"), ("left", "right"), ("chosen", "rejected"))
NUMBERS = (1, 0, 0.5, "both_bad")  # of outcomes, by code
NESTED = "conv_metadata"  # counts of the answers of both models, in newer files of arenas


@dataclass(frozen=True)
class Schema:
    """Columns by which a file is recognised: two items, and who won (None: the first)."""

    name: str
    first: str
    second: str
    outcome: str | None

    def found_in(self, columns: Columns) -> Schema | None:
        """The schema with the names of these columns, in upper or lower case; None without them."""
        known = {name.lower(): name for name in columns} | {name: name for name in columns}
        names = [self.first, self.second] + ([self.outcome] if self.outcome else [])
        if any(name not in known for name in names):
            return None
        outcome = known[self.outcome] if self.outcome else None
        return replace(self, first=known[self.first], second=known[self.second], outcome=outcome)


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


@dataclass(frozen=True, eq=False)
class BattleFile:
    """Battles of a file, and what was read; made by `read_battles`.

    Attributes
    ----------
    battles : Battles
    schema : str
        What the columns were recognised as.
    n_rows : int
        Number of rows of the file.
    dropped : dict of str to int
        How many rows were left out, by reason.
    group_column : str or None
        The column with the groups of battles.
    remarks : list of str
        What else was noticed.

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


def read_battles(
    table: Any,
    *,
    first: str | None = None,
    second: str | None = None,
    winner: str | None = None,
    style: Sequence[str] = (),
    groups: str | None = None,
    judge: str | None = None,
) -> BattleFile:
    """Read battles from a file, a data frame or a dictionary of columns.

    These columns are recognised: ``model_a, model_b, winner`` (arenas), ``model_1, model_2,
    g1_winner, g2_winner`` (MT-bench: both orders are judged, and make two battles),
    ``left, right, winner`` (Evalica), ``chosen_model, rejected_model`` (RewardBench), ``models,
    num_correct`` (RewardBench 2: each model with a right completion beats each other one with a
    wrong one), ``cmp_key, annotator1, annotator2, ...`` (PandaLM: each annotator makes a battle),
    ``first, second, outcome`` (or ``winner``), ``item_a, item_b, winner`` and ``winner, loser``.
    Winners are words, as for `Battles.of`, or ids of the items.

    Parameters
    ----------
    table : path, data frame or dictionary of columns
        CSV, TSV, JSON lines, JSON, Parquet or Arrow, by the suffix of the file, which may be
        compressed.
    first, second, winner : str, optional
        The columns with the two items and who won, if they have other names. With `first` and
        `second` only, the first won.
    style : sequence of str
        Covariates: a column of numbers, as advantages of the first item; or what is left of the
        names of two columns without ``_a`` and ``_b``, as in "length" for ``length_a`` and
        ``length_b``, or with a star in their place, as in "sum_assistant_*_tokens". Of two columns,
        the covariate is (a - b) / (a + b + 1), divided by its standard deviation. "conv_metadata"
        stands for all counts in that column of newer files of arenas, and "words" for the number
        of words of PandaLM's responses.
    groups : str, optional
        The column with the session, prompt or voter of each battle. None:
        "evaluation_session_id", "session", "session_id", "question_id", "prompt_id" or "prompt",
        if there is one.
    judge : str, optional
        The column that says who judged; "annotator" for files of PandaLM.

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
    reader = _Reader.of(table)
    schema = reader.schema_of(first, second, winner)
    if isinstance(table, str | Path):
        items = (reader.columns[name] for name in (schema.first, schema.second))
        refuse_odd_texts(items, reader.where)
    return reader.read(schema, list(style), groups, judge)


@dataclass(frozen=True, eq=False)
class _Reader:
    """The columns of a table, what to call it, and its rows."""

    source: str
    columns: Columns
    where: Callable[[int], str]
    schema: str | None = None
    rows_of_file: int | None = None  # where these are other rows than those of battles

    @classmethod
    def of(cls, table: Any) -> _Reader:
        if isinstance(table, str | Path):
            path = Path(table)
            return cls._of_columns(str(path), read_records(path), partial(place_of_row, path))
        columns = frame_columns(table, "Battles are")
        return cls._of_columns("The table", columns, lambda k: f"The table, row {k}")

    @classmethod
    def _of_columns(cls, source: str, columns: Columns, where: Callable[[int], str]) -> _Reader:
        n_rows = len(next(iter(columns.values()), []))
        if each := len(annotators(columns)):
            found = one_row_per_verdict(columns, where)
            return cls(source, found, lambda k: where(k // each), "PandaLM", n_rows)
        if has_completions(columns):
            found, rows = one_row_per_battle(columns, where)
            return cls(source, found, lambda k: where(rows[k]), "RewardBench 2", n_rows)
        return cls(source, columns, where)

    def read(
        self, schema: Schema, style: list[str], groups: str | None, judge: str | None
    ) -> BattleFile:
        n = len(self._column(schema.first))
        dropped: dict[str, int] = {}
        keep = np.full(n, True)
        first, second = self._labels(schema.first), self._labels(schema.second)

        def drop(which: NDArray[np.bool_], reason: str) -> None:
            which = which & keep
            if which.any():
                dropped[reason] = int(which.sum())
                keep[which] = False

        drop(_missing(first) | _missing(second), "without an item")
        if "anony" in self.columns and schema.name == "Arena battles":
            named = [str(value).strip().lower() == "false" for value in self.columns["anony"]]
            drop(np.array(named), "not anonymous")
        self._refuse_self(first, second, keep)
        known = {name.lower(): name for name in self.columns}
        group_column = groups or next((known[name] for name in GROUPS if name in known), None)
        more = {
            "groups": None if group_column is None else self._labels(group_column),
            "judge": None if judge is None else self._labels(judge),
        }
        for name, values in more.items():
            if values is not None:
                drop(_missing(values), f"without {'a judge' if name == 'judge' else 'a group'}")
        context, names = self._style(style)
        remarks: list[str] = []
        if schema.name == MT_BENCH.name:
            parts = self._both_orders(first, second, keep, remarks)
        elif schema.outcome is None:
            parts = [(first, second, np.zeros(n, dtype=int), keep)]
        else:
            codes = self._codes(schema.outcome, first, second, keep, drop)
            parts = [(first, second, codes, keep)]
        made = []
        for turn, (one, two, codes, chosen) in enumerate(parts):
            if chosen.any():
                sign = -1.0 if turn else 1.0  # the second of two orders
                made.append(
                    Battles.of(
                        one[chosen],
                        two[chosen],
                        np.array(NUMBERS, dtype=object)[codes[chosen]],
                        groups=None if more["groups"] is None else more["groups"][chosen],
                        judge=None if more["judge"] is None else more["judge"][chosen],
                        context=None if context is None else sign * context[chosen],
                    )
                )
        if not made:
            reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items())
            raise DataError(f"{self.source} has no battle that can be used: {reasons}.")
        battles = made[0] if len(made) == 1 else made[0] + made[1]
        battles = replace(battles, context_names=names or None)
        name, n_rows = self.schema or schema.name, self.rows_of_file or n
        return BattleFile(battles, name, n_rows, dropped, group_column, remarks)

    def schema_of(self, first: str | None, second: str | None, winner: str | None) -> Schema:
        """The schema whose columns are named, or that of the columns that there are."""
        if first is not None or second is not None or winner is not None:
            if first is None or second is None:
                raise ParameterError(
                    "Name the columns of both items: first and second, and winner, if there is one."
                )
            given = Schema("columns as named", first, second, winner)
            for name in filter(None, (first, second, winner)):
                self._column(name)
            return given
        found = next(filter(None, (schema.found_in(self.columns) for schema in SCHEMAS)), None)
        if found is None:
            usual = "; ".join(
                ", ".join(filter(None, (s.first, s.second, s.outcome))) for s in SCHEMAS
            )
            if {"chosen", "rejected"} <= self.columns.keys():
                raise DataError(
                    f"{self.source} has texts that were chosen and rejected, without the names of "
                    "items: add columns chosen_model and rejected_model, or rank by features of "
                    "the texts with `rankwise preferences`."
                )
            raise DataError(
                f"{self.source} has no columns of battles. Name them by --first, --second and "
                f"--winner (first=, second=, winner=), or use one of these: {usual}. It has "
                f"{', '.join(self.columns) or 'none'}."
            )
        return found

    def _column(self, name: str) -> list[Any]:
        if name not in self.columns:
            raise DataError(
                f"{self.source} has no column {name!r}: it has {', '.join(self.columns)}."
            )
        return self.columns[name]

    def _labels(self, name: str) -> NDArray[Any]:
        values = [v.strip() if isinstance(v, str) else v for v in self._column(name)]
        out = np.empty(len(values), dtype=object)
        out[:] = values
        out[missing_entries(out)] = None
        if any(isinstance(value, (list, dict)) for value in values):
            raise DataError(
                f"{self.source}: the column {name!r} holds lists, where ids are needed."
            )
        return out

    def _refuse_self(self, first: Any, second: Any, keep: Any) -> None:
        same = np.flatnonzero(
            keep & np.fromiter((a == b for a, b in zip(first, second, strict=True)), bool)
        )
        if len(same):
            raise DataError(
                f"{self.where(int(same[0]))}: {first[same[0]]!r} battles itself "
                f"({plural(len(same), 'such row')})."
            )

    def _codes(
        self, column: str, first: Any, second: Any, keep: Any, drop: Callable[..., None]
    ) -> NDArray[np.intp]:
        """Codes of outcomes, by words, numbers or the id of the winner."""
        values = self._labels(column)
        drop(_missing(values), "without a winner")
        rows = np.flatnonzero(keep)
        code_of = {value: _code(value) for value in dict.fromkeys(values[rows].tolist())}
        known = [code_of[value] for value in values[rows].tolist()]
        found = with_winners(
            values[rows].tolist(),
            np.array([-1 if code is None else code for code in known], dtype=np.intp),
            *(side[rows].tolist() for side in (first, second)),
        )
        if (found < 0).any():
            k = int(rows[np.argmax(found < 0)])
            words = ", ".join(dict.fromkeys(repr(w) for w in CODE_OF_WORD))
            raise DataError(
                f"{self.where(k)}: the winner {values[k]!r} in {column!r} is unknown. It must be "
                f"one of {words}; 1, 0 or 0.5; or the id of the item that won."
            )
        codes = np.zeros(len(values), dtype=np.intp)
        codes[rows] = found
        return codes

    def _both_orders(
        self, first: Any, second: Any, keep: Any, remarks: list[str]
    ) -> list[tuple[Any, Any, Any, Any]]:
        """Two battles for each row, the second in the other order."""
        codes, usable = [], []
        for column in ("g1_winner", "g2_winner"):
            values = self._labels(column)
            failed = np.array([str(value).lower() == "error" for value in values]) | _missing(
                values
            )
            chosen = keep & ~failed
            if (keep & failed).any():
                remarks.append(
                    f"{plural(int((keep & failed).sum()), 'verdict')} of {column} failed and "
                    f"{'is' if (keep & failed).sum() == 1 else 'are'} left out."
                )
            codes.append(self._codes(column, first, second, chosen, lambda *_: None))
            usable.append(chosen)
        both = usable[0] & usable[1]
        if both.any():
            turned = int((codes[0] != codes[1])[both].sum())
            remarks.append(
                f"Both orders were judged in {plural(int(both.sum()), 'row')}; in {turned:,} of "
                f"them ({turned / both.sum():.0%}) the verdict turns with the order."
            )
        swapped = np.where(codes[1] < 2, 1 - codes[1], codes[1])
        return [(first, second, codes[0], usable[0]), (second, first, swapped, usable[1])]

    # Covariates.

    def _style(self, style: list[str]) -> tuple[Array | None, list[str]]:
        """The columns of style, and their names."""
        nested = self._nested() if NESTED in self.columns else {}
        wanted: list[str] = []
        for name in style:
            if name == NESTED and nested:
                wanted += sorted(filter(None, map(_stem, nested)))
            else:
                wanted.append(name)
        found = [self._covariate(name, {**nested, **self.columns}) for name in wanted]
        names = [name.replace("_*", "") for name in wanted]
        return (np.column_stack(found) if found else None), names

    def _covariate(self, name: str, columns: Columns) -> Array:
        if name in columns:
            return self._numbers(name, columns)
        for a, b in SIDES:
            stems = (name.replace("*", a), name.replace("*", b))
            if "*" not in name:
                stems = (f"{name}_{a}", f"{name}_{b}")
            if stems[0] in columns and stems[1] in columns:
                one, two = (self._numbers(stem, columns) for stem in stems)
                if min(one.min(), two.min()) < 0:
                    raise DataError(
                        f"{self.source}: {stems[0]!r} and {stems[1]!r} must not be negative. "
                        "Make a column of their difference."
                    )
                share = (one - two) / (one + two + 1.0)
                return share / (share.std() or 1.0)
        raise DataError(
            f"{self.source} has no column {name!r}, and no two columns {name}_a and {name}_b: it "
            f"has {', '.join(columns)}."
        )

    def _numbers(self, name: str, columns: Columns) -> Array:
        out = np.empty(len(columns[name]))
        for k, value in enumerate(columns[name]):
            try:
                out[k] = float(value)
            except (TypeError, ValueError):
                out[k] = np.nan
            if not np.isfinite(out[k]):
                raise DataError(
                    f"{self.where(k)}: the column {name!r} must hold numbers: got {value!r}."
                )
        return out

    def _nested(self) -> Columns:
        """The numbers in the column of counts; counts by kind are added up."""
        rows = []
        for k, given in enumerate(self.columns[NESTED]):
            try:
                row = _object(given) if isinstance(given, str) else given
                rows.append({key: _total(value) for key, value in row.items()})
            except DataError as error:
                raise DataError(f"{self.where(k)}: {NESTED}: {error}.") from error
            except (
                AttributeError,
                SyntaxError,
                TypeError,
                ValueError,
                RecursionError,
                MemoryError,
            ):
                raise DataError(
                    f"{self.where(k)}: {NESTED} must hold an object with counts: got "
                    f"{repr(given)[:80]}."
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


def _code(value: Any) -> int | None:
    """The code of an outcome, also of a number written as text."""
    if isinstance(value, str):
        code = CODE_OF_WORD.get(value.strip().lower())
        if code is not None:
            return code
        try:
            return CODE_OF_NUMBER.get(float(value))
        except ValueError:
            return None
    if isinstance(value, (bool, int, float, np.number)):
        return CODE_OF_NUMBER.get(float(value))
    return None


def _missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which entries are empty, None or NaN."""
    empty = (isinstance(value, str) and not value for value in values)
    return np.asarray(missing_entries(values) | np.fromiter(empty, bool, len(values)))


KEY = "cmp_key"  # the names of both models, with "_" between them
ANNOTATOR = re.compile(r"annotator\d+")
WINNERS = {"0": "tie", "1": "model_a", "2": "model_b"}


def annotators(columns: Columns) -> list[str]:
    """The columns of verdicts; empty if this is not a table of PandaLM."""
    return [name for name in columns if ANNOTATOR.fullmatch(name)] if KEY in columns else []


def one_row_per_verdict(columns: Columns, where: Callable[[int], str]) -> Columns:
    """The same as battles of arenas: a row for each annotator of each row.

    New columns are ``model_a``, ``model_b``, ``winner``, ``annotator``, ``prompt`` (instruction and
    input), and, if there are responses, ``words_a`` and ``words_b``.
    """
    names = annotators(columns)
    n = len(columns[KEY])
    made: Columns = {
        name: [value for value in values for _ in names]
        for name, values in columns.items()
        if name not in names
    }
    pairs = [_models(key, k, where) for k, key in enumerate(columns[KEY]) for _ in names]
    made["model_a"], made["model_b"] = ([pair[side] for pair in pairs] for side in (0, 1))
    made["winner"] = [_winner(columns[name][k], name, k, where) for k in range(n) for name in names]
    made["annotator"] = names * n
    texts = [name for name in ("instruction", "input") if name in columns]
    if texts:
        made["prompt"] = [
            "\n".join(map(str, row)) for row in zip(*map(made.get, texts), strict=True)
        ]
    for name, side in (("response1", "a"), ("response2", "b")):
        if name in columns:
            made[f"words_{side}"] = [len(str(text or "").split()) for text in made[name]]
    return made


def _models(key: Any, row: int, where: Callable[[int], str]) -> tuple[str, str]:
    parts = str(key).split("_")
    if len(parts) != 2:
        raise DataError(
            f'{where(row)}: {KEY} must be two names of models with "_" between them: got {key!r}.'
        )
    return parts[0], parts[1]


def _winner(value: Any, name: str, row: int, where: Callable[[int], str]) -> str | None:
    if value is None or value == "":
        return None
    word = WINNERS.get(str(value).strip().removesuffix(".0"))
    if word is None:
        raise DataError(f"{where(row)}: {name} must be 1, 2 or 0 for a tie: got {value!r}.")
    return word


MODELS, RIGHT = "models", "num_correct"


def has_completions(columns: Columns) -> bool:
    """Whether this is a table of RewardBench 2."""
    return MODELS in columns and RIGHT in columns


def one_row_per_battle(columns: Columns, where: Callable[[int], str]) -> tuple[Columns, list[int]]:
    """The same as winners and losers, and the row from which each battle comes.

    Each model with a right completion beats each other model with a wrong one. New columns are
    ``chosen_model`` and ``rejected_model``.
    """
    battles = [
        (k, one, other)
        for k, (models, right) in enumerate(zip(columns[MODELS], columns[RIGHT], strict=True))
        for one, other in _battles(models, right, k, where)
    ]
    if not battles:
        raise DataError("No row has a right and a wrong completion of two different models.")
    rows = [k for k, _, _ in battles]
    made: Columns = {
        name: [values[k] for k in rows] for name, values in columns.items() if name != MODELS
    }
    made["chosen_model"] = [one for _, one, _ in battles]
    made["rejected_model"] = [other for _, _, other in battles]
    return made, rows


def _battles(
    models: Any, right: Any, row: int, where: Callable[[int], str]
) -> list[tuple[Any, Any]]:
    if not isinstance(models, list | tuple):
        raise DataError(
            f"{where(row)}: {MODELS} must be a list, with the model of each completion: "
            f"got {models!r}."
        )
    try:
        n = int(right)
    except (TypeError, ValueError):
        n = -1
    if not 0 <= n <= len(models):
        raise DataError(
            f"{where(row)}: {RIGHT} must be a number of the {len(models)} completions: "
            f"got {right!r}."
        )
    return [(one, other) for one in models[:n] for other in models[n:] if one != other]
