"""Battles between named items, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import eq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index, to_host
from rankwise.errors import DataError
from rankwise.graph.comparison_checks import (
    FIRST,
    SECOND,
    TIE,
    check_context,
    check_hashable,
    shown,
)
from rankwise.graph.comparisons import Comparisons
from rankwise.graph.id_arrays import as_ids, check_lossless, id_array, join_ids, lossless_array
from rankwise.graph.query_groups import missing_entries
from rankwise.tables import plural

BOTH_BAD = ("both_bad", "both bad", "bothbad", "tie (bothbad)")
CODE_OF_WORD: dict[str, int] = {
    **dict.fromkeys((*FIRST, "model_1"), 0),
    **dict.fromkeys((*SECOND, "model_2"), 1),
    **dict.fromkeys(TIE, 2),
    **dict.fromkeys(BOTH_BAD, 3),
}
CODE_OF_NUMBER = {1.0: 0, 0.0: 1, 0.5: 2}
SHOWN = 5  # entries that an error message names
# Of the battle that counts most; outside this range, standard errors are lost in rounding.
LEAST_WEIGHT, MOST_WEIGHT = 1e-12, 1e12


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
    groups : ndarray of shape (n_battles,) or None
        The session, prompt or voter of each battle.
    judge : ndarray of shape (n_battles,) or None
        Who judged each battle.
    context : ndarray of shape (n_battles, n_columns) or None
        Covariates of battles: advantages of the first item.
    context_names : list of str or None
        Names of the covariates.

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
            second won, 0.5 for a tie. Or, where it is none of these, the id of the item that won.
        items : array-like of shape (n_items,), optional
            The ids of all items. None: those that occur, in the order in which they first appear
            in `first`, and then in `second`.
        weight : array-like of shape (n_battles,), optional
            How much each battle counts, not negative. None: 1.
        groups : array-like of shape (n_battles,), optional
            The session, prompt or voter of each battle: battles of a group may depend on each
            other.
        judge : array-like of shape (n_battles,), optional
            Who judged each battle.
        context : array-like of shape (n_battles, n_columns), optional
            Covariates: by how much the first item exceeds the second, for example in length. A
            column that is 1 where a property favours the first, and -1 where it favours the second,
            is one, too.

        Returns
        -------
        Battles

        Examples
        --------
        >>> Battles.of([1, 2], [2, 3], [1, 0.5], groups=["s1", "s1"], judge=["Ann", "Bob"])
        Battles(2 battles of 3 items, 1 tie, 1 group, 2 judges)
        """
        sides = [_column(name, side) for name, side in (("first", first), ("second", second))]
        n = len(sides[0])
        if len(sides[1]) != n:
            raise DataError(
                f"first and second need one item per battle: got {n} and {len(sides[1])} entries."
            )
        if n == 0:
            raise DataError("There are no battles: first and second are empty.")
        ids, pairs = _numbered_items(sides, items)
        same = pairs[:, 0] == pairs[:, 1]
        if same.any():
            k = int(np.argmax(same))
            raise DataError(
                f"Battle {k} is of {shown(ids[pairs[k, 0]])} with itself "
                f"({int(same.sum())} such battles): drop them."
            )
        numbers, names = check_context(context, n)
        return cls(
            ids,
            pairs,
            _outcome_codes(outcome, sides),
            _weights(weight, n),
            _labels("groups", groups, n),
            _labels("judge", judge, n),
            numbers,
            names,
        )

    def __len__(self) -> int:
        return len(self.pairs)

    def take(self, chosen: Any) -> Battles:
        """Some of the battles, by number or by a mask, of the same items."""
        return replace(
            self,
            pairs=self.pairs[chosen],
            outcome=self.outcome[chosen],
            weight=self.weight[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            judge=None if self.judge is None else self.judge[chosen],
            context=None if self.context is None else self.context[chosen],
        )

    def __add__(self, other: Battles) -> Battles:
        """All battles of both; new items come last."""
        known = {name: k for k, name in enumerate(self.items.tolist())}
        place = [known.setdefault(name, len(known)) for name in other.items.tolist()]
        for name in ("groups", "judge", "context"):
            if (getattr(self, name) is None) != (getattr(other, name) is None):
                has, lacks = ("new", "old") if getattr(self, name) is None else ("old", "new")
                raise DataError(
                    f"The {has} battles have {name}, the {lacks} ones have not: give it for both, "
                    "or for none."
                )
        if self.context_names != other.context_names:
            raise DataError(
                f"The old battles have the context {self.context_names}, the new ones "
                f"{other.context_names}: they need the same columns in the same order."
            )
        widths = [0 if b.context is None else b.context.shape[1] for b in (self, other)]
        if widths[0] != widths[1]:
            raise DataError(
                f"The old battles have {widths[0]} columns of context, the new ones {widths[1]}."
            )

        def joined(name: str) -> Any:
            mine, its = getattr(self, name), getattr(other, name)
            return None if mine is None else join_ids([mine, its])

        return Battles(
            id_array(known),
            np.concatenate((self.pairs, np.array(place, dtype=np.intp)[other.pairs])),
            joined("outcome"),
            joined("weight"),
            joined("groups"),
            joined("judge"),
            joined("context"),
            self.context_names,
        )

    def comparisons(self, items: Any = None) -> Comparisons:
        """The battles as comparisons between rows of features, for `PairwiseGP` and others.

        Battles in which both items are bad say nothing of who is better, and are left out.

        Parameters
        ----------
        items : array-like of shape (n_items,) or pandas DataFrame, optional
            The id of each row of X; of a frame, its index. None: `self.items`.

        Examples
        --------
        >>> battles = Battles.of(["a", "b"], ["b", "c"], ["first", "tie"])
        >>> battles.comparisons(items=["c", "b", "a", "new"]).pairs.tolist()
        [[2, 1], [1, 0]]
        """
        kept = self.take(self.outcome != 3)
        first, second = self.items[kept.pairs].T
        return Comparisons.of(
            first,
            second,
            np.array(["first", "second", "tie"])[kept.outcome],
            items=self.items if items is None else items,
            weight=kept.weight,
            groups=kept.groups,
            context=kept.context,
        )

    def __repr__(self) -> str:
        counts = np.bincount(self.outcome, minlength=4)
        about = [f"{plural(len(self), 'battle')} of {plural(len(self.items), 'item')}"]
        about += [plural(int(counts[2]), "tie")] if counts[2] else []
        about += [f"{counts[3]:,} both bad"] if counts[3] else []
        for word, labels in (("group", self.groups), ("judge", self.judge)):
            if labels is not None:
                about.append(plural(len(set(labels.tolist())), word))
        if self.context is not None:
            about.append(plural(self.context.shape[1], "context column"))
        return f"Battles({', '.join(about)})"


def number_labels(labels: NDArray[Any]) -> tuple[NDArray[Any], Index]:
    """Distinct labels, integers in ascending and others in their order, and numbers of entries."""
    if labels.dtype.kind in "iu":
        found, codes = np.unique(labels, return_inverse=True)
        return found, np.asarray(codes, dtype=np.intp)
    number: dict[Any, int] = {}
    codes = number_more(labels, number)
    return id_array(number), codes


def number_more(labels: NDArray[Any], number: dict[Any, int]) -> Index:
    """Numbers of entries; labels that are not in `number` are added to it."""
    entries = labels.tolist()
    new = [label for label in dict.fromkeys(entries) if label not in number]
    number.update(zip(new, range(len(number), len(number) + len(new)), strict=True))
    return np.fromiter(map(number.__getitem__, entries), np.intp, len(entries))


class _OrNone(dict[Any, int]):
    """Numbers of labels, -1 for those that are unknown."""

    def __missing__(self, label: Any) -> int:
        return -1


def _column(name: str, values: Any) -> NDArray[Any]:
    check_lossless(name, values, numbers=False)
    column = as_ids(values, name)
    if column.ndim != 1:
        raise DataError(f"{name} needs one item per battle: got shape {column.shape}.")
    return column


def _numbered_items(sides: list[NDArray[Any]], items: Any) -> tuple[NDArray[Any], Index]:
    """The ids of items, and their numbers in each battle."""
    entries = [side.tolist() for side in sides]
    if items is None:
        try:
            ids = id_array(dict.fromkeys(entries[0] + entries[1]))
        except TypeError:
            raise DataError(
                "Items need ids that can be compared, such as text or numbers."
            ) from None
        missing = missing_entries(ids)
        if missing.any():
            bad = [missing_entries(side) for side in sides]
            k = int(np.argmax(bad[0] | bad[1]))
            raise DataError(
                f"An item of battle {k} is missing ({int((bad[0] | bad[1]).sum())} battles in "
                "all): drop these battles."
            )
    else:
        ids = as_ids(items, "items")
        if ids.ndim != 1 or len(set(ids.tolist())) != len(ids):
            raise DataError("items needs the id of every item once.")
    number = {name: k for k, name in enumerate(ids.tolist())}
    known = number if items is None else _OrNone(number)
    codes = [np.fromiter(map(known.__getitem__, side), np.intp, len(side)) for side in entries]
    pairs = np.column_stack(codes)
    unknown = (pairs < 0).any(axis=1)
    if unknown.any():
        k = int(np.argmax(unknown))
        name = sides[int(np.argmax(pairs[k] < 0))][k]
        raise DataError(
            f"Battle {k} is of the unknown item {shown(name)} ({int(unknown.sum())} battles with "
            f"unknown items): use ids among the {len(ids)} items, or add it to them."
        )
    if len(ids) < 2:
        raise DataError(f"A leaderboard needs two or more items: got {len(ids)}.")
    return ids, pairs


def _outcome_codes(outcome: Any, sides: list[NDArray[Any]]) -> Index:
    check_lossless("outcome", outcome, numbers=False)
    given, n = lossless_array(to_host(outcome), "outcome"), len(sides[0])
    if given.shape != (n,):
        raise DataError(
            f"outcome needs one entry per battle: got shape {given.shape} for {n} battles."
        )
    words, codes = number_labels(given)
    missing = missing_entries(words)[codes]
    if missing.any():
        raise DataError(
            f"The outcome of battle {int(np.argmax(missing))} is missing ({int(missing.sum())} in "
            "all): drop these battles."
        )
    code_of = [_code(word) for word in words.tolist()]
    found = np.array([-1 if code is None else code for code in code_of], dtype=np.intp)[codes]
    found = with_winners(given.tolist(), found, *(side.tolist() for side in sides))
    if (found < 0).any():
        unknown = list(dict.fromkeys(shown(word) for word in given[found < 0].tolist()))
        known = ", ".join(map(repr, CODE_OF_WORD))
        raise DataError(
            f"Unknown outcomes: {', '.join(unknown[:SHOWN])} (battle {int(np.argmax(found < 0))} "
            f"is the first). Use one of {known}; 1, 0 and 0.5; or the id of the item that won."
        )
    return found


def with_winners(outcomes: list[Any], codes: Index, first: list[Any], second: list[Any]) -> Index:
    """Codes of outcomes some of which are ids of the items that won; -1 where one is unknown.

    `codes` has what each outcome means as a word or number, -1 if it is neither. If 1 is also an
    item, for example, all outcomes decide: they are ids if each is an item of its battle and some
    have no other meaning, and numbers if some are no items of their battle. Otherwise, and for
    words that are items, this is an error.
    """
    n = len(outcomes)
    sides = [np.fromiter(map(eq, outcomes, side), bool, n) for side in (first, second)]
    won = np.where(sides[0], 0, np.where(sides[1], 1, -1))
    unlike = np.isin(codes, (0, 1)) & (won >= 0) & (codes != won)
    if unlike.any():
        all_ids = bool(((won >= 0) | (codes >= 2)).all())
        all_codes = bool((codes >= 0).all())
        k = int(np.argmax(unlike))
        if all_ids and not all_codes:
            return np.where(won >= 0, won, codes)
        if all_ids or (isinstance(outcomes[k], str) and not _is_number(outcomes[k])):
            raise DataError(
                f"The outcome {outcomes[k]!r} of battle {k} is an item, and also says which side "
                'won. Use "first", "second" and "tie", or give the items other names.'
            )
    return np.where(codes >= 0, codes, won)


def _is_number(text: str) -> bool:
    try:
        return float(text) == float(text)
    except ValueError:
        return False


def _code(word: Any) -> int | None:
    """The code of an outcome, None if it is unknown."""
    if isinstance(word, str):
        return CODE_OF_WORD.get(word.strip().lower())
    if isinstance(word, (bool, int, float)):
        return CODE_OF_NUMBER.get(word)
    return None


def _weights(weight: Any, n: int) -> Array:
    if weight is None:
        return np.ones(n)
    check_lossless("weight", weight)
    try:
        values = np.asarray(to_host(weight), dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        raise DataError("weight must hold a number for each battle.") from None
    if values.shape != (n,):
        raise DataError(f"weight needs one entry per battle: got shape {values.shape} for {n}.")
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        k = int(np.argmax(bad))
        raise DataError(f"Weights must be finite and not negative: battle {k} has {values[k]:g}.")
    largest = float(values.max(initial=0.0))
    if not (largest == 0.0 or LEAST_WEIGHT <= largest <= MOST_WEIGHT):
        raise DataError(
            f"The largest weight must be between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}: got "
            f"{largest:g}. Multiply the weights by a constant, so that 1 is an ordinary battle."
        )
    return values


def _labels(name: str, labels: Any, n: int) -> NDArray[Any] | None:
    if labels is None:
        return None
    check_lossless(name, labels, numbers=False)
    values = as_ids(labels, name)
    if values.shape != (n,):
        raise DataError(
            f"{name} needs one entry per battle: got shape {values.shape} for {n} battles."
        )
    check_hashable(name, values)
    missing = missing_entries(values)
    if missing.any():
        raise DataError(
            f"The entry of {name} for battle {int(np.argmax(missing))} is missing "
            f"({int(missing.sum())} in all): fill them, or drop these battles."
        )
    return values
