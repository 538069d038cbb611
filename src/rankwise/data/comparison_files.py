"""Comparisons from tables: of items with features, or of chosen and rejected responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.data.table_files import SmallTable
from rankwise.errors import DataError, warn
from rankwise.graph.comparisons import OUTCOME_OF_CODE, Comparisons, outcome_codes
from rankwise.tables import plural

ITEM_COLUMNS = ("id", "item", "name")
PAIRS = (
    ("first", "second"),
    ("winner", "loser"),
    ("chosen", "rejected"),
    ("item_a", "item_b"),
    ("model_a", "model_b"),
    ("a", "b"),
    ("left", "right"),
)
WON = PAIRS[1:3]  # columns whose names decide who won
OUTCOMES = ("outcome", "result", "winner", "preferred", "label")
WEIGHTS = ("weight", "count", "votes")
GROUPS = ("group", "prompt", "rater", "session", "judge", "annotator", "user")
CONTEXT = "context_"


@dataclass(frozen=True, eq=False, repr=False)
class ComparisonData:
    """Items with features, and comparisons between them; made by `read_comparisons`.

    Attributes
    ----------
    X : ndarray of shape (n_items, n_features)
    comparisons : Comparisons
        With the ids of the items, groups and context, if there are any.
    feature_names : list of str
    names : list of str
        Ids of the items; their row numbers if they have none.

    Examples
    --------
    >>> from rankwise.data import read_comparisons
    >>> items = {"id": ["a", "b", "c"], "size": [1, 2, 3]}
    >>> votes = {"first": ["a", "b"], "second": ["b", "c"], "outcome": ["loss", "tie"]}
    >>> read_comparisons(items, votes).X.ravel()
    array([1., 2., 3.])
    """

    X: Array
    comparisons: Comparisons
    feature_names: list[str]
    names: list[str]

    def __repr__(self) -> str:
        features = plural(self.X.shape[1], "feature")
        return f"ComparisonData({self.comparisons!r} with {features})"


def read_comparisons(
    items: Any,
    comparisons: Any = None,
    *,
    item: str | None = None,
    first: str | None = None,
    second: str | None = None,
    outcome: str | None = None,
    weight: str | None = None,
    group: str | None = None,
    context: Sequence[str] = (),
) -> ComparisonData:
    """Read items with features, and comparisons between them.

    Parameters
    ----------
    items : path, data frame or dictionary of columns
        An id and features of each item, one item per row. CSV (with tabs between columns if its
        name ends with .tsv), JSON lines, JSON or Parquet; files may be gzipped. Without
        `comparisons`, a table with a prompt and the features of a chosen and a rejected response in
        each row, see `read_chosen_rejected`.
    comparisons : path, data frame or dictionary of columns, optional
        The ids of two items in each row, and more, see below.
    item : str, optional
        The column of `items` with ids. None: "id", "item" or "name", or the first one.
    first, second : str, optional
        The columns of `comparisons` with the two items. None: "first" and "second", or "winner"
        and "loser", "chosen" and "rejected", "item_a" and "item_b", "model_a" and "model_b", "a"
        and "b", "left" and "right".
    outcome : str, optional
        The column with outcomes: words or numbers as for `Comparisons.of`, or the id of the item
        that won. None: "outcome", "result", "winner", "preferred" or "label", if there is one; else
        the first item won.
    weight, group : str, optional
        None: "weight", "count" or "votes"; "group", "prompt", "rater", "session", "judge",
        "annotator" or "user", if there is one.
    context : sequence of str, optional
        Columns with features of the comparison itself; columns whose names begin with ``context_``
        are included as well.

    Returns
    -------
    ComparisonData

    Examples
    --------
    >>> from rankwise.data import read_comparisons
    >>> items = {"id": ["a", "b", "c"], "size": [1, 2, 3]}
    >>> votes = {"a": ["a", "b"], "b": ["b", "c"], "winner": ["b", "tie"], "rater": [1, 1]}
    >>> read_comparisons(items, votes).comparisons
    Comparisons(2 comparisons of 3 items, 1 tie, 1 group)
    """
    if comparisons is None:
        data = read_chosen_rejected(items)
        features = data.feature_names or [f"x{k}" for k in range(data.X.shape[1])]
        rows = [str(k) for k in range(len(data.X))]
        return ComparisonData(data.X, data.comparisons, features, rows)
    table, votes = SmallTable.of(items), SmallTable.of(comparisons)
    key = table.find(item, ITEM_COLUMNS) or next(iter(table.columns))
    ids = table.ids(key)
    features = [name for name in table.columns if name != key]
    words = [name for name in features if table.is_text(name)]
    features = [name for name in features if name not in words]
    if words and features:
        warn(
            f"{table.source}: columns of text are not features, and are left out: "
            f"{', '.join(words)}."
        )
    if not features:
        raise DataError(
            f"{table.source} has no features: it needs columns of numbers beside {key!r}."
        )
    X = np.column_stack([table.numbers(name) for name in features])
    one, two = _sides(votes, first, second)
    pairs = votes.ids(one), votes.ids(two)
    if all(isinstance(name, str) for side in pairs for name in side):  # as CSV has them
        whole = [isinstance(name, int | np.integer) and type(name) is not bool for name in ids]
        ids[whole] = [str(name) for name in ids[whole]]
    column = votes.find(outcome, [name for name in OUTCOMES if name not in (one, two)])
    result = None
    if column is not None and not ((one, two) in WON and outcome is None):
        codes = outcome_codes(votes.ids(column), len(pairs[0]), pairs, where=votes.place)
        result = OUTCOME_OF_CODE[codes]
    weights, groups = votes.find(weight, WEIGHTS), votes.find(group, GROUPS)
    named = [*context, *(name for name in votes.columns if name.startswith(CONTEXT))]
    named = list(dict.fromkeys(named))
    found = Comparisons.of(
        *pairs,
        result,
        items=ids,
        weight=None if weights is None else votes.numbers(weights),
        groups=None if groups is None else votes.ids(groups),
        context=np.column_stack([votes.numbers(name) for name in named]) if named else None,
    )
    if named:
        found = replace(found, context_names=[name.removeprefix(CONTEXT) for name in named])
    return ComparisonData(X, found, features, [str(name) for name in ids])


def _sides(votes: SmallTable, first: str | None, second: str | None) -> tuple[str, str]:
    """The columns of the two items."""
    if (first is None) != (second is None):
        raise DataError("Name both columns of items, first and second, or neither.")
    named = [(first, second)] if first is not None and second is not None else PAIRS
    for one, two in named:
        if one in votes.columns and two in votes.columns:
            return one, two
    usual = "; ".join(f"{one}, {two}" for one, two in PAIRS)
    raise DataError(
        f"{votes.source} needs two columns of items. Name them, or use one of these pairs of "
        f"names: {usual}. It has {', '.join(votes.columns)}."
    )


@dataclass(frozen=True, eq=False, repr=False)
class ResponseComparisons:
    """Responses and comparisons between them; made by `read_chosen_rejected`.

    Attributes
    ----------
    X : ndarray of shape (n_responses, n_features)
        Features of the responses, each response to a prompt once.
    pairs : ndarray of shape (n_pairs, 2)
        Row numbers of X, the chosen response first, in the order of the frame.
    groups : ndarray of shape (n_pairs,)
        The number of each pair's prompt. Pairs of a prompt belong in the same fold.
    feature_names : list of str, or None
        Names of the columns of X, if each feature has a column of the frame.

    Examples
    --------
    >>> from rankwise.data import read_chosen_rejected
    >>> frame = {"prompt": ["a"], "chosen_length": [12], "rejected_length": [80]}
    >>> read_chosen_rejected(frame).feature_names
    ['length']
    >>> read_chosen_rejected(frame).comparisons
    Comparisons(1 comparison of 2 items, 1 group)
    """

    X: Array
    pairs: Index
    groups: Index
    feature_names: list[str] | None

    @property
    def comparisons(self) -> Comparisons:
        """The pairs with their groups, for `fit_pairs`, hold-outs and searches."""
        return Comparisons.of(*self.pairs.T, groups=self.groups)

    def __repr__(self) -> str:
        features = plural(self.X.shape[1], "feature")
        return f"ResponseComparisons({self.comparisons!r} with {features})"


def read_chosen_rejected(
    frame: Any,
    *,
    prompt: str = "prompt",
    chosen: str = "chosen",
    rejected: str = "rejected",
    embed: Callable[[list[str]], Any] | None = None,
) -> ResponseComparisons:
    """Make rows and pairs from a frame with a prompt, a chosen and a rejected response in each row.

    The features of a response are a vector in the column `chosen` (or `rejected`), numbers in
    columns whose names begin with ``chosen_`` (and ``rejected_``), or what `embed` returns for its
    text. A response that was compared several times, under the same prompt, is one row of X.

    Responses may be conversations, lists of messages with ``role`` and ``content``, as in data sets
    of Hugging Face: the last message is the response. What was said before is the prompt, if there
    is no column for it.

    Parameters
    ----------
    frame : path, DataFrame of pandas or polars, Dataset of Hugging Face, or dictionary of columns
    prompt, chosen, rejected : str
        Names of columns; for the last two, also the prefixes of their feature columns.
    embed : callable, optional
        Returns an array of shape (n_texts, n_features) for a list of texts. It is called once, with
        each text once.

    Returns
    -------
    ResponseComparisons
        With `X`, `pairs` and `groups`, for `fit_pairs` and for folds of whole prompts.

    Examples
    --------
    >>> from rankwise import RankRLS
    >>> from rankwise.data import read_chosen_rejected
    >>> frame = {
    ...     "prompt": ["a", "a", "b"],
    ...     "chosen": [[1.0, 0.2], [1.0, 0.2], [0.7, 0.1]],
    ...     "rejected": [[0.3, 0.5], [0.1, 0.9], [0.2, 0.2]],
    ... }
    >>> data = read_chosen_rejected(frame)
    >>> data.X.shape, data.pairs.tolist(), data.groups.tolist()
    ((5, 2), [[0, 2], [0, 3], [1, 4]], [0, 0, 1])
    >>> ranker = RankRLS(alpha=1.0).fit_pairs(data.X, data.pairs)
    """
    table = SmallTable.of(frame)
    names, sides = list(table.columns), (chosen, rejected)
    responses: list[Any] = []
    feature_names, prompts = None, None
    if all(side in names for side in sides):
        responses, prompts = _responses(*(table.values(side) for side in sides))
    if prompts is None or prompt in names:
        prompts = table.values(prompt)
    numbers = {said: k for k, said in enumerate(dict.fromkeys(map(_said, prompts)))}
    groups = np.array([numbers[_said(value)] for value in prompts], dtype=np.intp)
    if not len(groups):
        raise DataError("The table has no rows: there is no comparison to learn from.")
    if responses:
        values = _features(responses, sides, embed)
    else:
        feature_names = [
            name.removeprefix(f"{chosen}_") for name in names if name.startswith(f"{chosen}_")
        ]
        lacking = [name for name in feature_names if f"{rejected}_{name}" not in names]
        if lacking or not feature_names:
            raise DataError(
                f"{table.source} needs columns {chosen} and {rejected}, or {chosen}_... and "
                f"{rejected}_... with the same endings: it has {', '.join(names)}"
                + (f", and no {rejected}_{lacking[0]}." if lacking else ".")
            )
        columns = [[table.numbers(f"{side}_{name}") for name in feature_names] for side in sides]
        values = np.vstack([np.column_stack(of_side) for of_side in columns])
    if not np.isfinite(values).all():
        k = int(np.argmin(np.isfinite(values).all(axis=1)))
        side = sides[k >= len(groups)]
        raise DataError(f"Features of the {side} response in row {k % len(groups)} are not finite.")
    return _comparisons(values, groups, feature_names)


def _comparisons(
    values: Array, groups: Index, feature_names: list[str] | None
) -> ResponseComparisons:
    """Each response to a prompt once, and pairs of them."""
    n = len(groups)
    keyed = np.column_stack((np.tile(groups, 2), values))
    _, first, number = np.unique(keyed, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    pairs = position[number.ravel()].reshape(2, n).T
    same = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(same):
        raise DataError(
            f"The chosen and the rejected response in row {same[0]} have the same features "
            f"({len(same)} such rows): drop these rows."
        )
    return ResponseComparisons(
        values[first[order]], np.ascontiguousarray(pairs), groups, feature_names
    )


def _responses(one: list[Any], two: list[Any]) -> tuple[list[Any], list[str] | None]:
    """Responses of both sides; for conversations, the last message, and the messages before it."""
    if not (one and _is_conversation(one[0])):
        return [*one, *two], None
    before = []
    for row, both in enumerate(zip(one, two, strict=True)):
        if not all(_is_conversation(messages) for messages in both):
            raise DataError(
                f"Row {row}: expected a list of messages with role and content on both sides, as "
                "in the first row."
            )
        said = [_said(messages[:-1]) for messages in both]
        if said[0] != said[1]:
            raise DataError(f"Row {row}: the two conversations differ before their last message.")
        before.append(said[0])
    return [str(messages[-1]["content"]) for messages in (*one, *two)], before


def _is_conversation(value: Any) -> bool:
    """Whether a value is a list of messages with role and content."""
    listed = isinstance(value, list | tuple | np.ndarray) and len(value) > 0
    return listed and all(isinstance(entry, Mapping) and "content" in entry for entry in value)


def _said(value: Any) -> Any:
    """The text of a conversation; other values as they are."""
    if isinstance(value, list | tuple | np.ndarray):
        return "\n".join(f"{message.get('role', '')}: {message['content']}" for message in value)
    return value


def _features(
    responses: list[Any], sides: tuple[str, str], embed: Callable[[list[str]], Any] | None
) -> Array:
    """The features of the chosen responses, and then of the rejected ones; texts are embedded."""
    n = len(responses) // 2
    has_texts = any(isinstance(response, str) for response in responses)
    if has_texts and embed is not None:
        texts = list(dict.fromkeys(str(response) for response in responses))
        made = np.asarray(embed(texts), dtype=np.float64)
        if made.ndim != 2 or len(made) != len(texts):
            raise DataError(
                f"embed must return one row of features for each of {len(texts)} texts: got shape "
                f"{made.shape}."
            )
        number = {text: k for k, text in enumerate(texts)}
        return np.asarray(made[[number[str(response)] for response in responses]])
    rows = [np.asarray(response) for response in responses]
    for k, row in enumerate(rows):
        if row.ndim != 1 or row.shape != rows[0].shape or row.dtype.kind not in "iufb":
            raise DataError(
                f"Every response needs a vector of {rows[0].size} numbers: {sides[k >= n]} in row "
                f"{k % n} is {responses[k]!r}. For texts, give embed=, a function from a list of "
                "texts to an array of features."
            )
    return np.stack(rows).astype(np.float64)
