"""Frames of chosen and rejected responses."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

from rankwise.data import read_chosen_rejected
from rankwise.errors import DataError

PROMPTS = ["a", "b", "a", "c"]
GOOD = [[1.0, 0.0], [0.5, 0.5], [1.0, 0.0], [2.0, 1.0]]
BAD = [[0.0, 0.0], [1.0, 0.0], [0.3, 0.1], [0.5, 0.5]]


def as_columns(make):
    return make(
        {
            "prompt": PROMPTS,
            **{f"chosen_{name}": [row[k] for row in GOOD] for k, name in enumerate("xy")},
            **{f"rejected_{name}": [row[k] for row in BAD] for k, name in enumerate("xy")},
        }
    )


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("how", ["vectors", "columns"])
def test_each_answer_to_a_prompt_is_one_row(make, how):
    if how == "columns":
        data = read_chosen_rejected(as_columns(make))
        assert data.feature_names == ["x", "y"]
    else:
        data = read_chosen_rejected(make({"prompt": PROMPTS, "chosen": GOOD, "rejected": BAD}))
        assert data.feature_names is None
    assert_allclose(data.X[data.pairs[:, 0]], GOOD)
    assert_allclose(data.X[data.pairs[:, 1]], BAD)
    assert data.X.shape == (7, 2)  # (1, 0) was compared twice under "a", and is another under "b"
    assert data.pairs[0, 0] == data.pairs[2, 0] != data.pairs[1, 1]
    assert data.groups.tolist() == [0, 1, 0, 2]


def test_texts_are_embedded_once():
    seen = []

    def embed(texts):
        seen.extend(texts)
        return np.array([[len(text), text.count("o")] for text in texts])

    frame = {"q": [1, 1], "won": ["good one", "good one"], "lost": ["bad", "so"]}
    data = read_chosen_rejected(frame, prompt="q", chosen="won", rejected="lost", embed=embed)
    assert seen == ["good one", "bad", "so"]
    assert data.pairs.tolist() == [[0, 1], [0, 2]]
    assert_allclose(data.X, [[8, 3], [3, 0], [2, 1]])


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ({"chosen": GOOD, "rejected": BAD}, "no column 'prompt'"),
        ({"prompt": PROMPTS, "chosen": GOOD}, "needs columns chosen and rejected"),
        ({"prompt": ["a"], "chosen_x": [1.0], "rejected_y": [2.0]}, "no rejected_x"),
        ({"prompt": ["a"], "chosen_x": ["b"], "rejected_x": [2.0]}, "must hold numbers"),
        ({"prompt": [], "chosen": [], "rejected": []}, "no rows"),
        (
            {"prompt": ["a", "a"], "chosen": [[1.0], "b"], "rejected": BAD[:2]},
            "row 1 is .b.. For texts",
        ),
        ({"prompt": ["a"], "chosen": [[1.0]], "rejected": [[1.0, 2.0]]}, "vector of 1 numbers"),
        ({"prompt": ["a"], "chosen": [[1.0]], "rejected": [[1.0]]}, "row 0 have the same"),
        (
            {"prompt": ["a"], "chosen": [[1.0]], "rejected": [[np.nan]]},
            "rejected response in row 0",
        ),
    ],
)
def test_frames_that_cannot_be_used(frame, words):
    with pytest.raises(DataError, match=words):
        read_chosen_rejected(frame)


def test_an_embedding_of_the_wrong_shape():
    frame = {"prompt": ["a"], "chosen": ["x"], "rejected": ["y"]}
    with pytest.raises(DataError, match="one row of features for each of 2 texts"):
        read_chosen_rejected(frame, embed=lambda texts: [1.0, 2.0])


def talk(*texts):
    return [
        {"role": role, "content": text}
        for role, text in zip(("user", "assistant") * 2, texts, strict=False)
    ]


def lengths(texts):
    return np.array([[len(text), text.count("a")] for text in texts], dtype=float)


def test_conversations_have_their_prompt_in_them():
    plain = {"prompt": ["p", "p", "q"], "chosen": ["aa", "b", "a"], "rejected": ["c", "ddd", "ee"]}
    wanted = read_chosen_rejected(plain, embed=lengths)
    columns = {
        side: [talk(p, answer) for p, answer in zip(plain["prompt"], plain[side], strict=True)]
        for side in ("chosen", "rejected")
    }
    explicit = {
        "prompt": [talk(p) for p in plain["prompt"]],
        **{side: [value[1:] for value in columns[side]] for side in columns},
    }
    for frame in (columns, pd.DataFrame(columns), explicit):
        found = read_chosen_rejected(frame, embed=lengths)
        assert found.X.tolist() == wanted.X.tolist()
        assert found.pairs.tolist() == wanted.pairs.tolist()
        assert found.groups.tolist() == [0, 0, 1]


def test_conversations_that_do_not_fit_together_are_refused():
    one = talk("p", "a")
    with pytest.raises(DataError, match="Row 0: the two conversations differ before"):
        read_chosen_rejected({"chosen": [one], "rejected": [talk("q", "b")]}, embed=lengths)
    with pytest.raises(DataError, match="Row 1: expected a list of messages"):
        read_chosen_rejected({"chosen": [one, "x"], "rejected": [one, "y"]}, embed=lengths)
    with pytest.raises(DataError, match="For texts, give embed="):
        read_chosen_rejected({"chosen": [one], "rejected": [talk("p", "b")]})
