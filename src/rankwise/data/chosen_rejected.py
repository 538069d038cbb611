"""Comparisons of answers to prompts, from data frames of chosen and rejected answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.backends.arrays import Array, Index
from rankwise.errors import DataError
from rankwise.graph.comparisons import Comparisons
from rankwise.tables import plural


@dataclass(frozen=True, eq=False, repr=False)
class AnswerComparisons:
    """Answers and comparisons between them; made by `read_chosen_rejected`.

    Attributes
    ----------
    X : ndarray of shape (n_answers, n_features)
        Features of the answers, each answer to a prompt once.
    pairs : ndarray of shape (n_pairs, 2)
        Row numbers of X, the chosen answer first, in the order of the frame.
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
        return f"AnswerComparisons({self.comparisons!r} with {features})"


def read_chosen_rejected(
    frame: Any,
    *,
    prompt: str = "prompt",
    chosen: str = "chosen",
    rejected: str = "rejected",
    embed: Callable[[list[str]], Any] | None = None,
) -> AnswerComparisons:
    """Make rows and pairs from a frame with a prompt, a chosen and a rejected answer in each row.

    The features of an answer are a vector in the column `chosen` (or `rejected`), numbers in
    columns whose names begin with ``chosen_`` (and ``rejected_``), or what `embed` makes of its
    text. An answer that was compared several times, under the same prompt, is one row of X.

    Answers may be conversations, lists of messages with ``role`` and ``content``, as in data sets
    of Hugging Face: the last message is the answer. What was said before is the prompt, if there is
    no column for it.

    Parameters
    ----------
    frame : DataFrame of pandas or polars, Dataset of Hugging Face, or dictionary of columns
    prompt, chosen, rejected : str
        Names of columns; of the last two, or what the names of their feature columns begin with.
    embed : callable, optional
        Gives an array of shape (n_texts, n_features) for a list of texts. It is called once, with
        each text once.

    Returns
    -------
    AnswerComparisons
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
    found = getattr(frame, "column_names", None) or getattr(frame, "columns", frame)
    names = [str(name) for name in found]
    sides = (chosen, rejected)
    one: list[Any] = []
    two: list[Any] = []
    contexts: list[str] | None = None
    if all(side in names for side in sides):
        one, two, contexts = _answers(*(_column(frame, names, side).tolist() for side in sides))
    prompts = contexts if prompt not in names and contexts else _column(frame, names, prompt)
    groups = _numbered([_said(value) for value in prompts])
    if not len(groups):
        raise DataError("The frame has no rows: there is no comparison to learn from.")
    if all(side in names for side in sides):
        answers, feature_names = [*one, *two], None
        texts = [k for k, answer in enumerate(answers) if isinstance(answer, str)]
        if texts and embed is None:
            raise DataError(
                f"{sides[texts[0] >= len(one)]} holds texts (row {texts[0] % len(one)}): give "
                "embed=, a function from a list of texts to an array of features."
            )
        values = _embedded(answers, embed) if texts and embed is not None else _stacked(answers)
    else:
        features = [
            name.removeprefix(f"{chosen}_") for name in names if name.startswith(f"{chosen}_")
        ]
        feature_names = [name for name in features if f"{rejected}_{name}" in names]
        if not features or feature_names != features:
            missing = [f"{rejected}_{name}" for name in features if name not in feature_names]
            raise DataError(
                f"The frame needs columns {chosen} and {rejected}, or {chosen}_... and "
                f"{rejected}_... with the same endings: it has {', '.join(names)}"
                + (f", and no {missing[0]}." if missing else ".")
            )
        values = np.vstack(
            [
                np.column_stack([_numbers(frame, names, f"{side}_{name}") for name in features])
                for side in sides
            ]
        )
    if not np.isfinite(values).all():
        k = int(np.argmin(np.isfinite(values).all(axis=1)))
        side = sides[k >= len(groups)]
        raise DataError(f"Features of the {side} answer in row {k % len(groups)} are not finite.")
    return _comparisons(values, groups, feature_names)


def _comparisons(
    values: Array, groups: Index, feature_names: list[str] | None
) -> AnswerComparisons:
    """Each answer to a prompt once, and pairs of them."""
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
            f"The chosen and the rejected answer in row {same[0]} have the same features "
            f"({len(same)} such rows): drop these rows."
        )
    return AnswerComparisons(
        values[first[order]], np.ascontiguousarray(pairs), groups, feature_names
    )


def _answers(one: list[Any], two: list[Any]) -> tuple[list[Any], list[Any], list[str] | None]:
    """Answers of both sides; of conversations, the last message, and what was said before it."""
    if not (one and _is_conversation(one[0])):
        return one, two, None
    contexts, answers = [], []
    for row, both in enumerate(zip(one, two, strict=True)):
        if not all(_is_conversation(messages) for messages in both):
            raise DataError(
                f"Row {row}: expected a list of messages with role and content on both sides, as "
                "in the first row."
            )
        before = [_said(messages[:-1]) for messages in both]
        if before[0] != before[1]:
            raise DataError(f"Row {row}: the two conversations differ before their last message.")
        contexts.append(before[0])
        answers.append([str(messages[-1]["content"]) for messages in both])
    first, second = (list(side) for side in zip(*answers, strict=True))
    return first, second, contexts


def _is_conversation(value: Any) -> bool:
    """Whether a value is a list of messages with role and content."""
    listed = isinstance(value, list | tuple | np.ndarray) and len(value) > 0
    return listed and all(isinstance(entry, Mapping) and "content" in entry for entry in value)


def _said(value: Any) -> Any:
    """The text of a conversation; other values as they are."""
    if isinstance(value, list | tuple | np.ndarray):
        return "\n".join(f"{message.get('role', '')}: {message['content']}" for message in value)
    return value


def _column(frame: Any, names: list[str], name: str) -> Any:
    if name not in names:
        raise DataError(f"The frame has no column {name!r}: it has {', '.join(names)}.")
    values = frame[name]
    out = np.empty(len(values), dtype=object)
    out[:] = list(values)
    return out


def _numbers(frame: Any, names: list[str], name: str) -> Array:
    try:
        return np.asarray(_column(frame, names, name), dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"The column {name!r} must hold numbers.") from None


def _embedded(answers: list[Any], embed: Callable[[list[str]], Any]) -> Array:
    """Features of texts, each embedded once."""
    texts = list(dict.fromkeys(str(answer) for answer in answers))
    made = np.asarray(embed(texts), dtype=np.float64)
    if made.ndim != 2 or len(made) != len(texts):
        raise DataError(
            f"embed must return one row of features for each of {len(texts)} texts: got shape "
            f"{made.shape}."
        )
    where = {text: k for k, text in enumerate(texts)}
    return np.asarray(made[[where[str(answer)] for answer in answers]])


def _stacked(answers: list[Any]) -> Array:
    """Vectors as rows of one array."""
    rows = [np.asarray(answer) for answer in answers]
    n = len(rows) // 2
    for k, row in enumerate(rows):
        if row.ndim != 1 or row.shape != rows[0].shape or row.dtype.kind not in "iufb":
            side = "chosen" if k < n else "rejected"
            raise DataError(
                f"Every answer needs a vector of {rows[0].size} numbers: the {side} answer in row "
                f"{k % n} is {answers[k]!r}."
            )
    return np.stack(rows).astype(np.float64)


def _numbered(values: list[Any]) -> Index:
    """Numbers of values, in the order of their first appearance."""
    numbers = {value: k for k, value in enumerate(dict.fromkeys(values))}
    return np.array([numbers[value] for value in values], dtype=np.intp)
