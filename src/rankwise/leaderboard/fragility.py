"""How few battles decide: the fewest whose removal changes the order of a leaderboard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.backends.arrays import Array, Index
from rankwise.data.battles import Battles, number_labels
from rankwise.data.rankings import Rankings
from rankwise.errors import DataError
from rankwise.parameters import Choice, Whole, check_value
from rankwise.tables import plural

NEAREST = 30  # pairs of items that are looked at
EQUAL = 1e-7  # difference of ratings that are tied up to rounding
MOST = 0.5  # share of battles that may be removed


@dataclass(frozen=True, eq=False)
class Fragility:
    """How few battles decide the order of items; made by `Leaderboard.fragility`.

    Attributes
    ----------
    n_removed : int or None
        The number of battles, rankings or groups; None if even half of them change nothing.
    removed : ndarray
        Numbers of the battles or rankings, or names of the groups, the most influential first.
    n_units : int
        The number of all battles, rankings or groups.
    unit : str
        "battle", "ranking" or "group".
    change : str
        What changes without them.
    predicted : int
        The number that the influence of single units predicted.
    n_refits : int
        How many refits verified it.

    Examples
    --------
    >>> from rankwise import Leaderboard
    >>> first, second = ["a", "a", "b"] * 20, ["b", "c", "c"] * 20
    >>> board = Leaderboard().fit(first, second, [1, 0, 0, 1, 0, 1, 0, 1, 1, 1, 1, 0] * 5)
    >>> print(board.fragility())
    Without 6 of 60 battles, c leads instead of a.
    """

    n_removed: int | None
    removed: NDArray[Any]
    n_units: int
    unit: str
    change: str
    predicted: int
    n_refits: int

    def __str__(self) -> str:
        units = plural(self.n_units, self.unit)
        if self.n_removed is None:
            return f"No removal of up to half of the {units} was found by which {self.change}."
        return f"Without {self.n_removed:,} of {units}, {self.change}."


@dataclass(frozen=True, eq=False)
class Removable:
    """What can be removed: battles, rankings or groups.

    `number` is the unit of each battle, -1 for battles that do not count, and `names` has numbers
    of battles or names of groups.
    """

    number: Index
    names: NDArray[Any]
    word: str

    @classmethod
    def of(cls, data: Battles | Rankings, by: str) -> Removable:
        word = "ranking" if isinstance(data, Rankings) else "battle"
        counts = data.weight > 0
        if not isinstance(data, Rankings):
            counts = counts & (data.outcome != 3)
        number = np.full(len(data), -1, dtype=np.intp)
        if by == "battles":
            names = np.flatnonzero(counts)
            number[names] = np.arange(len(names))
            return cls(number, names, word)
        if data.groups is None:
            raise DataError(f'The {word}s have no groups: use by="battles".')
        if data.groups.ndim == 2:
            raise DataError('Fragility by groups needs one column of groups: use by="battles".')
        names, number[counts] = number_labels(data.groups[counts])
        return cls(number, names, "group")

    def __len__(self) -> int:
        return len(self.names)

    def without(self, removed: Index) -> NDArray[np.bool_]:
        """Which battles stay."""
        return ~np.isin(self.number, removed)


@dataclass(frozen=True, eq=False)
class Target:
    """What is to change: the first k items (`first`), or the order of the only one of `pairs`.

    `settled` is whether the order of that pair is settled now. `margins` are differences of
    ratings, the better item first.
    """

    items: NDArray[Any]
    pairs: Index
    margins: Array
    first: Index | None = None
    settled: bool = False

    @classmethod
    def of(cls, board: Any, change: Any) -> Target:
        items, ratings = board.items_, board.ratings_
        if np.ndim(change):
            pair = _pair(items, ratings, change)
            settled = bool(board.settled()[pair[0], pair[1]])
            return cls(items, pair[None], ratings[pair[:1]] - ratings[pair[1:]], None, settled)
        if isinstance(change, str):
            check_value("change", change, Choice("leader"))
            k = 1
        else:
            check_value("change", change, Whole(1, len(items) - 1))
            k = int(change)
        order = np.argsort(-ratings, kind="stable")
        ahead, behind = order[:k], order[k:]
        # How many battles a change needs grows with the margin in terms of its variance.
        about = board.draws_ - ratings
        own = np.square(about).mean(axis=0)
        shared = about[:, ahead].T @ about[:, behind] / len(about)
        variance = own[ahead][:, None] + own[behind] - 2 * shared
        margin = ratings[ahead][:, None] - ratings[behind]
        needed = margin / np.maximum(variance, 1e-300)
        i, j = np.unravel_index(np.argsort(needed, axis=None)[:NEAREST], needed.shape)
        return cls(items, np.column_stack((ahead[i], behind[j])), margin[i, j], ahead)

    def change_of(self, board: Any) -> str | None:
        """How another leaderboard differs, as a clause; None if it does not."""
        a, b = self.pairs[0]
        if self.first is None:
            if self.settled:
                says = f"the order of {self.items[a]} and {self.items[b]} is not settled"
                return says if board.settled()[a, b] <= 0 else None
            says = f"{self.items[b]} is ahead of {self.items[a]}"
            return says if board.ratings_[b] - board.ratings_[a] > EQUAL else None
        k = len(self.first)
        found = np.argsort(-board.ratings_, kind="stable")[:k]
        new, old = np.setdiff1d(found, self.first), np.setdiff1d(self.first, found)
        if not len(new) or board.ratings_[new].max() - board.ratings_[old].min() <= EQUAL:
            return None
        verb = "leads" if k == 1 else f"is among the first {k}"
        return f"{self.items[new[0]]} {verb} instead of {self.items[old[0]]}"

    @property
    def wanted(self) -> str:
        """The change that was looked for, as a clause."""
        if self.first is None:
            one, two = self.items[self.pairs[0]]
            return f"the order of {one} and {two} changes"
        return "the leader changes" if len(self.first) == 1 else "the first items change"


def _pair(items: NDArray[Any], ratings: Array, ids: Any) -> Index:
    """The numbers of two items, the better one first."""
    given = list(ids)
    known = {name: k for k, name in enumerate(items.tolist())}
    unknown = [name for name in given if name not in known]
    if len(given) != 2 or unknown or given[0] == given[1]:
        what = f"no item {unknown[0]!r}" if unknown else f"{given!r}"
        raise DataError(f"change needs the ids of two different items: got {what}.")
    pair = np.array([known[name] for name in given])
    return pair[np.argsort(-ratings[pair], kind="stable")]


def fewest(
    target: Target,
    units: Removable,
    falls: Array,
    margins: Array,
    again: Callable[[Index], Any],
) -> Fragility:
    """The fewest units whose removal changes an order.

    Without unit g, the maximum moves by -K^-1 s_g to first order, with minus the second derivatives
    K of the penalized likelihood and the gradient s_g of the unit. So the difference p of two
    ratings falls by ``falls[p, g]``. The most influential units are removed until the sum of falls
    exceeds the margin (Broderick, Giordano and Meager, 2020). The difference that needs the fewest
    decides. Then refits (`again`) verify, and move the number until one unit less does not do.
    """
    best: tuple[int, Index] | None = None
    for fall, margin in zip(falls, margins.tolist(), strict=True):
        order = np.argsort(-fall, kind="stable")
        total = np.cumsum(np.maximum(fall[order], 0.0))
        needed = min(int(np.searchsorted(total, margin)) + 1, len(total))
        if best is None or needed < best[0]:
            best = needed, order[: min(int((fall > 0).sum()), int(MOST * len(units)))]
    assert best is not None
    predicted, order = best
    tried: dict[int, str | None] = {0: None}

    def does(n: int) -> bool:
        if n not in tried:
            try:
                tried[n] = target.change_of(again(order[:n]))
            except DataError:  # what is left rates no items: it shows no other order
                tried[n] = None
        return tried[n] is not None

    most = len(order)
    low, high, step = 0, min(predicted, most), 1
    if high and does(high):
        while high > step and does(high - step):
            high, step = high - step, 2 * step
        low = max(high - step, 0)
    else:
        while high < most and not does(high):
            low, high, step = high, min(high + step, most), 2 * step
    while does(high) and high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if does(middle) else (middle, high)
    found = tried[high]
    removed = units.names[order[:high]] if found else units.names[:0]
    return Fragility(
        high if found else None, removed, len(units), units.word, found or target.wanted, predicted,
        len(tried) - 1,
    )  # fmt: skip
