"""From battles to a likelihood: columns, their scales, and who met whom in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from rankwise.backends.arrays import Array, Index
from rankwise.data.battles import Battles, number_labels, number_more
from rankwise.errors import DataError, warn
from rankwise.leaderboard.tally import Layout, Likelihood, Tally, tally
from rankwise.tables import plural

POSITION = "first place"  # the column that is 1 in every battle
SMALLEST = 1e-140  # size of a column whose coefficient has a finite variance


@dataclass(frozen=True, eq=False)
class BattleProblem:
    """The likelihood of battles, and where each battle is in it.

    `row`, `outcome`, `weight` and `group` are of the battles that count: not those in which both
    items are bad, or of no weight. `sign` is -1 where the likelihood has the two items in the other
    order. `groups` and `judges` have the numbers of their labels. Columns are divided by their
    `scales`. `features` are those of items, centred.
    """

    likelihood: Likelihood
    row: Index
    outcome: Index
    weight: Array
    sign: Array
    group: Index | None
    groups: dict[Any, int]
    judges: dict[Any, int]
    names: list[str]
    scales: Array
    features: Array
    options: tuple[str, str, bool]

    @classmethod
    def of(
        cls, battles: Battles, *, link: str, ties: str, position: bool, item_features: Any = None
    ) -> BattleProblem:
        """Check what only whole battles can show, and count."""
        b = _counted(battles)
        judges, judge = _numbered(b.judge)
        features, feature_names = _item_features(item_features, battles.items)
        x, names = _columns(b, position=position)
        if len(feature_names):
            x = np.column_stack((x, features[b.pairs[:, 0]] - features[b.pairs[:, 1]]))
            names += feature_names
        scales = _scales(x, names)
        entry = _Entries.of(b, x / scales, ordered=POSITION in names)
        counts, row = tally(*entry.sides, entry.outcome, b.weight, entry.x, judge)
        groups, group = _numbered(b.groups)
        return cls(
            _likelihood(counts, len(battles.items), len(judges), link, ties), row, entry.outcome,
            b.weight, entry.sign, group, groups, judges, names, scales, features,
            (link, ties, position),
        )  # fmt: skip

    def grown(self, new: Battles) -> BattleProblem:
        """With battles added, whose items are numbered as those before, and new ones last.

        Old battles are not counted again. Without features of items.
        """
        b = _counted(new)
        link, ties, position = self.options
        judges, groups, group = dict(self.judges), dict(self.groups), self.group
        judge = None if b.judge is None else number_more(b.judge, judges)
        if b.groups is not None and group is not None:
            group = np.concatenate((group, number_more(b.groups, groups)))
        x, names = _columns(b, position=position)
        entry = _Entries.of(b, x / self.scales, ordered=POSITION in names)
        added, row = tally(*entry.sides, entry.outcome, b.weight, entry.x, judge)
        counts, before, after = self.likelihood.tally.plus(added)
        return replace(
            self,
            likelihood=_likelihood(counts, len(new.items), len(judges), link, ties),
            row=np.concatenate((before[self.row], after[row])),
            outcome=np.concatenate((self.outcome, entry.outcome)),
            weight=np.concatenate((self.weight, b.weight)),
            sign=np.concatenate((self.sign, entry.sign)),
            group=group,
            groups=groups,
            judges=judges,
            features=np.zeros((len(new.items), 0)),
        )

    def without_caches(self) -> BattleProblem:
        """The same without what the solver has stored."""
        kept = self.likelihood
        return replace(self, likelihood=Likelihood(kept.tally, kept.layout, kept.link))

    @property
    def layout(self) -> Layout:
        return self.likelihood.layout

    def ratings(self, params: Array) -> Array:
        """Ratings relative to their mean, of shape params.shape[:-1] + (n_items,)."""
        found = params[..., self.layout.items]
        n_features = self.features.shape[1]
        if n_features:
            last = params[..., self.layout.columns][..., -n_features:]
            found = found + (last / self.scales[-n_features:]) @ self.features.T
        return np.asarray(found - found.mean(axis=-1, keepdims=True))

    def rating_map(self) -> Array:
        """The matrix that maps parameters to ratings."""
        return self.ratings(np.eye(self.layout.size)).T


@dataclass(frozen=True, eq=False)
class _Entries:
    """Battles as the likelihood has them: `sign` is -1 where the two items changed places."""

    sides: tuple[Index, Index]
    outcome: Index
    sign: Array
    x: Array

    @classmethod
    def of(cls, b: Battles, x: Array, *, ordered: bool) -> _Entries:
        first, second = b.pairs.T
        if ordered:
            return cls((first, second), b.outcome, np.ones(len(b)), x)
        # Who was shown first does not matter: count both orders as one.
        turned = first > second
        sign = np.where(turned, -1.0, 1.0)
        outcome = np.where(turned & (b.outcome < 2), 1 - b.outcome, b.outcome)
        sides = np.where(turned, second, first), np.where(turned, first, second)
        return cls(sides, outcome, sign, x * sign[:, None])


def _counted(battles: Battles) -> Battles:
    """Battles that count."""
    return battles.take(np.flatnonzero((battles.outcome != 3) & (battles.weight > 0)))


def _numbered(labels: NDArray[Any] | None) -> tuple[dict[Any, int], Index | None]:
    """Numbers of labels, and of the label of each battle."""
    if labels is None:
        return {}, None
    number: dict[Any, int] = {}
    if labels.dtype.kind not in "iu":
        return number, number_more(labels, number)
    found, codes = number_labels(labels)
    number.update(zip(found.tolist(), range(len(found)), strict=True))
    return number, codes


def _columns(b: Battles, *, position: bool) -> tuple[Array, list[str]]:
    """The first place, if it matters, and the context; and their names."""
    columns, names = [np.zeros((len(b), 0))], []
    if position or b.judge is not None:
        columns.append(np.ones((len(b), 1)))
        names.append(POSITION)
    if b.context is not None:
        columns.append(b.context)
        names += b.context_names or [f"x{k}" for k in range(b.context.shape[1])]
    return np.column_stack(columns), names


def _likelihood(counts: Tally, n_items: int, n_judges: int, link: str, ties: str) -> Likelihood:
    won = counts.counts[:, :2].sum()
    if not won:
        raise DataError(
            "No battle has a winner: there is nothing to rank the items by. Check the outcomes."
        )
    modelled = ties == "model" and bool(counts.counts[:, 2].any())
    return Likelihood(counts, Layout(n_items, counts.x.shape[1], n_judges, modelled), link)


def _item_features(given: Any, items: NDArray[Any]) -> tuple[Array, list[str]]:
    """Features of items in the order of the items, centred, and their names."""
    if given is None:
        return np.zeros((len(items), 0)), []
    if hasattr(given, "columns") and hasattr(given, "index"):
        names = [str(name) for name in given.columns]
        rows = dict(zip(given.index.tolist(), np.asarray(given).tolist(), strict=True))
    elif isinstance(given, Mapping):
        rows = {name: np.atleast_1d(row).tolist() for name, row in given.items()}
        names = [f"z{k}" for k in range(len(next(iter(rows.values()), [])))]
    else:
        raise DataError(
            "item_features must be a data frame whose index has the ids of items, or a dictionary "
            f"of numbers by id: got {type(given).__name__}."
        )
    missing = [name for name in items.tolist() if name not in rows]
    if missing:
        raise DataError(
            f"item_features has no row for {missing[0]!r} ({len(missing)} of {len(items)} items)."
        )
    try:
        values = np.array([rows[name] for name in items.tolist()], dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            "item_features must hold the same number of numbers for each item."
        ) from None
    if not np.isfinite(values).all():
        k = int(np.argmin(np.isfinite(values).all(axis=1)))
        raise DataError(f"item_features must be finite: the row of {items.tolist()[k]!r} is not.")
    return values - values.mean(axis=0), names


def _scales(x: Array, names: list[str]) -> Array:
    """The size of each column; raises an error if columns determine each other."""
    if not x.shape[1]:
        return np.ones(0)
    largest = abs(x).max(axis=0)
    zero = np.flatnonzero(largest == 0)
    if len(zero):
        raise DataError(
            f"The column {names[zero[0]]!r} is 0 in every battle: it has no effect to estimate. "
            "Leave it out."
        )
    extreme = np.flatnonzero(~((largest > SMALLEST) & (largest < 1.0 / SMALLEST)))
    if len(extreme):
        raise DataError(
            f"The values of column {names[extreme[0]]!r} are up to {largest[extreme[0]]:.1g}, and "
            "variances of its coefficient would overflow. Multiply them by a constant."
        )
    scales = largest * np.sqrt(np.square(x / largest).mean(axis=0))
    unit = x / scales
    gram = unit.T @ unit / len(x)
    for k in range(1, len(gram)):
        others, side = gram[:k, :k], gram[:k, k]
        if gram[k, k] - side @ np.linalg.solve(others, side) < 1e-10:
            raise DataError(
                f"The column {names[k]!r} is a combination of those before it "
                f"({', '.join(map(repr, names[:k]))}): leave one of them out."
            )
    return np.asarray(scales)


SHOWN = 5
FEW_GROUPS = 20
POSITION_Z = 4.0  # how far beyond chance the first place must matter to be worth a warning


def warn_about_graph(problem: BattleProblem, items: NDArray[Any], penalty: Any) -> None:
    """Warn if battles do not link all items, or links lead only in one direction.

    Without a penalty, such ratings are infinite: raise an error.
    """
    t, n = problem.likelihood.tally, len(items)
    a, b, ties = t.counts.T
    won = np.concatenate((t.first[a + ties > 0], t.second[b + ties > 0]))
    lost = np.concatenate((t.second[a + ties > 0], t.first[b + ties > 0]))
    links = sp.coo_array((np.ones(len(won)), (won, lost)), shape=(n, n)).tocsr()
    parts, part = connected_components(links, directed=False)
    if parts > 1:
        sizes = np.bincount(part)
        small = np.flatnonzero(part == int(np.argmin(sizes)))
        message = (
            f"Battles do not link all items: there are {parts} parts, the smallest with "
            f"{_named(items[small])}. Items of different parts cannot be compared"
        )
        if penalty == 0:
            raise DataError(f"{message}: give penalty a positive number.")
        warn(f"{message}: only the penalty keeps their ratings together.")
    ahead, behind = np.bincount(won, minlength=n), np.bincount(lost, minlength=n)
    met = ahead + behind > 0
    for only, word in ((met & (behind == 0), "won"), (met & (ahead == 0), "lost")):
        if only.any():
            message = (
                f"{_named(items[only])} {word} all battles: by the battles alone, there is no "
                "bound to such a rating"
            )
            if penalty == 0:
                raise DataError(f"{message}. Give penalty a positive number.")
            warn(f"{message}, and it rests on the penalty.")
            return
    strong = connected_components(links, directed=True, connection="strong")[0]
    if strong > parts:
        message = (
            f"Some items never lost against any of the others ({strong} groups of items, each of "
            "which is ahead of the next in all battles)"
        )
        if penalty == 0:
            raise DataError(f"{message}: give penalty a positive number.")
        warn(f"{message}: the distance between these groups rests on the penalty.")


def check_order(battles: Battles) -> None:
    """Refuse an effect of the first place if the first item won every battle.

    Then winners are listed before losers, and the order says nothing of what was shown.
    """
    if (battles.outcome == 0).any() and not (battles.outcome == 1).any():
        raise DataError(
            "The first item won every battle: the battles seem to list winners before losers, so "
            "that the effects of the first place and of judges are unknown. Leave out position and "
            "judge, or give the items in the order in which they were shown."
        )


def warn_about_position(problem: BattleProblem, params: Array) -> None:
    """Warn if the first place wins more often than the ratings explain, and is not modelled.

    A score test: the sum of the scores of groups, divided by its standard error. If the first wins
    all battles, winners are listed before losers, and the order says nothing of what was shown.
    """
    if not np.where(problem.sign > 0, problem.outcome == 1, problem.outcome == 0).any():
        return
    scores = problem.likelihood.scores(params)[problem.outcome, 0, problem.row]
    scores = scores * problem.weight * problem.sign
    if problem.group is not None:
        scores = np.bincount(problem.group, weights=scores)
    error = float(np.sqrt(np.square(scores).sum()))
    if error == 0 or abs(scores.sum()) < POSITION_Z * error:
        return
    which = "first" if scores.sum() > 0 else "second"
    warn(
        f"The item shown {which} won more often than the ratings explain "
        f"({abs(scores.sum()) / error:.1f} standard errors): two orders of a pair are judged "
        "differently. Set position=True."
    )


def warn_about_groups(n_groups: int) -> None:
    """Warn if there are few independent groups."""
    if n_groups < FEW_GROUPS:
        warn(
            f"Intervals rest on {plural(n_groups, 'group')} of battles: they are rough with fewer "
            f"than {FEW_GROUPS}."
        )


def _named(items: NDArray[Any]) -> str:
    more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return ", ".join(map(repr, items[:SHOWN].tolist())) + more
