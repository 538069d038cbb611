"""Battles from files: schemas, styles, what is dropped, what is refused."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rankwise import Leaderboard
from rankwise.data import Battles, make_battles, read_battles
from rankwise.errors import DataError, ParameterError

ARENA = {
    "model_a": ["x", "y", "z", "x"],
    "model_b": ["y", "z", "x", "z"],
    "winner": ["model_a", "tie", "tie (bothbad)", "model_b"],
}


def written(folder, suffix, table=ARENA):
    """The same table as a file of any format."""
    frame, path = pd.DataFrame(table), folder / f"battles{suffix}"
    if suffix == ".parquet":
        frame.to_parquet(path)
    elif suffix == ".feather":
        frame.to_feather(path)
    elif suffix in (".jsonl", ".jsonl.gz"):
        frame.to_json(path, orient="records", lines=True)
    elif suffix == ".json":
        frame.to_json(path, orient="records")
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in suffix else ",")
    return path


@pytest.mark.parametrize(
    "suffix", [".csv", ".csv.gz", ".tsv", ".jsonl", ".jsonl.gz", ".json", ".parquet", ".feather"]
)
def test_every_format_gives_the_same_battles(suffix, tmp_path):
    found = read_battles(written(tmp_path, suffix))
    assert found.schema == "Arena battles"
    assert found.n_rows == 4
    assert found.battles.items.tolist() == ["x", "y", "z"]
    assert found.battles.pairs.tolist() == [[0, 1], [1, 2], [2, 0], [0, 2]]
    assert found.battles.outcome.tolist() == [0, 2, 3, 1]
    assert found.group_column is None


@pytest.mark.parametrize(
    ("table", "schema", "outcome"),
    [
        ({"left": ["x", "y"], "right": ["y", "x"], "winner": ["left", "tie"]}, "Evalica", [0, 2]),
        ({"chosen_model": ["x"], "rejected_model": ["y"]}, "RewardBench", [0]),
        ({"first": ["x"], "second": ["y"], "outcome": ["0.5"]}, "first, second, outcome", [2]),
        ({"item_a": ["x"], "item_b": ["y"], "winner": ["y"]}, "item_a, item_b, winner", [1]),
        ({"winner": ["x"], "loser": ["y"]}, "winner, loser", [0]),
        ({"Model_A": ["x"], "Model_B": ["y"], "Winner": ["Model_B"]}, "Arena battles", [1]),
    ],
)
def test_schemas_are_known_by_their_columns(table, schema, outcome):
    found = read_battles(table)
    assert found.schema == schema
    assert found.battles.outcome.tolist() == outcome


def test_columns_of_other_names():
    table = {"white": ["x", "y"], "black": ["y", "x"], "result": ["x", "0.5"]}
    found = read_battles(table, first="white", second="black", winner="result")
    assert found.battles.outcome.tolist() == [0, 2]
    assert read_battles(table, first="white", second="black").battles.outcome.tolist() == [0, 0]
    with pytest.raises(DataError, match="no column 'who'"):
        read_battles(table, first="white", second="who")
    with pytest.raises(ParameterError, match="Name the columns of both items"):
        read_battles(table, winner="result")


def test_mt_bench_has_two_battles_in_each_row():
    table = {
        "question_id": [1, 1, 2, 2],
        "model_1": ["x", "x", "y", "y"],
        "model_2": ["y", "z", "z", "x"],
        "g1_winner": ["model_1", "model_1", "tie", "error"],
        "g2_winner": ["model_1", "model_2", "tie", "model_2"],
        "judge": ["g", "g", "h", "h"],
    }
    found = read_battles(table, judge="judge")
    b = found.battles
    assert found.schema == "MT-bench pairs"
    assert found.group_column == "question_id"
    names = b.items[b.pairs].tolist()
    assert names[:3] == [["x", "y"], ["x", "z"], ["y", "z"]]
    assert names[3:] == [["y", "x"], ["z", "x"], ["z", "y"], ["x", "y"]]
    assert b.outcome.tolist() == [0, 0, 2, 1, 0, 2, 0]
    assert b.judge.tolist() == ["g", "g", "h", "g", "g", "h", "h"]
    assert "1 verdict of g1_winner failed" in found.remarks[0]
    assert "in 1 of them (33%) the verdict changes with the order" in found.remarks[1]


PANDALM = {
    "cmp_key": ["x-7b_y", "y_z", "z_x-7b"],
    "instruction": ["add", "add", "sort"],
    "input": ["1 2", "1 2", ""],
    "response1": ["it is 3", "3", "a b"],
    "response2": ["3", "three", "b a c"],
    "annotator1": [1, 2, 0],
    "annotator2": [1, 1, None],
}


def test_pandalm_has_a_battle_for_each_annotator():
    found = read_battles(PANDALM, judge="annotator", style=["words"])
    b = found.battles
    assert (found.schema, found.n_rows, found.group_column) == ("PandaLM", 3, "prompt")
    assert found.dropped == {"without a winner": 1}
    assert b.items[b.pairs].tolist() == [
        ["x-7b", "y"], ["x-7b", "y"], ["y", "z"], ["y", "z"], ["z", "x-7b"],
    ]  # fmt: skip
    assert b.outcome.tolist() == [0, 0, 1, 0, 2]
    assert b.judge.tolist() == ["annotator1", "annotator2"] * 2 + ["annotator1"]
    assert len(set(b.groups)) == 2
    assert_allclose(b.context[0, 0] / b.context[4, 0], (2 / 5) / (-1 / 6))
    for change, message in (
        ({"cmp_key": ["x_y", "x_y_z", "x_y"]}, "row 1: cmp_key must be two names of models"),
        ({"annotator1": ["1", "2", "3"]}, "row 2, column 'winner': the outcome '3' is unknown"),
        ({"cmp_key": ["x_y", "x_y", "x_x"]}, "row 2: 'x' battles itself"),
    ):
        with pytest.raises(DataError, match=message):
            read_battles(PANDALM | change)


def test_a_battle_of_one_annotator_does_not_have_the_columns_of_all():
    with pytest.raises(DataError, match="no column 'annotator2'"):
        read_battles(PANDALM, groups="annotator2")


REWARD_BENCH_2 = {
    "prompt": ["add", "sort", "name"],
    "models": [["x", "y", "x", "z"], ["y", "x"], ["x", "x"]],
    "num_correct": [1, 1, 2],
    "total_completions": [4, 2, 2],
}


def test_in_reward_bench_2_right_completions_beat_wrong_ones_of_other_models():
    found = read_battles(REWARD_BENCH_2)
    b = found.battles
    assert (found.schema, found.n_rows, found.group_column) == ("RewardBench 2", 3, "prompt")
    assert b.items[b.pairs].tolist() == [["x", "y"], ["x", "z"], ["y", "x"]]
    assert b.outcome.tolist() == [0, 0, 0]
    assert b.groups.tolist() == ["add", "add", "sort"]
    for change, message in (
        ({"models": ["x", ["y"], ["z"]]}, "row 0: models must be a list, with the model of each"),
        ({"num_correct": [1, 3, 1]}, "row 1: models must be a list, .* and num_correct"),
        ({"num_correct": [4, 2, 2]}, "No row has a right and a wrong completion"),
    ):
        with pytest.raises(DataError, match=message):
            read_battles(REWARD_BENCH_2 | change)


def test_style_is_a_column_a_pair_of_columns_or_nested_counts():
    counts = [
        {"sum_assistant_a_tokens": 30, "sum_assistant_b_tokens": 9, "turns": 1,
         "list_count_a": {"ordered": 1, "unordered": 2}, "list_count_b": {"ordered": 0}},
        {"sum_assistant_a_tokens": 10, "sum_assistant_b_tokens": 9, "turns": 1,
         "list_count_a": {"ordered": 0}, "list_count_b": {"ordered": 4}},
    ]  # fmt: skip
    table = {name: values[:2] for name, values in ARENA.items()}
    table |= {"gap": ["0.5", "-1"], "words_a": [3, 1], "words_b": [1, 7], "conv_metadata": counts}
    b = read_battles(table, style=["gap", "words", "conv_metadata"]).battles
    assert b.context_names == ["gap", "words", "list_count", "sum_assistant_tokens"]
    assert b.context[:, 0].tolist() == [0.5, -1.0]
    words = np.array([2 / 5, -6 / 9])
    assert_allclose(b.context[:, 1], words / words.std())
    lists = np.array([3 / 4, -4 / 5])
    assert_allclose(b.context[:, 2], lists / lists.std())
    for texts in (map(json.dumps, counts), map(str, counts)):  # JSON, or as pandas writes it
        table["conv_metadata"] = list(texts)
        same = read_battles(table, style=["sum_assistant_*_tokens"]).battles
        assert_allclose(same.context[:, 0], b.context[:, 3])


def test_rows_that_cannot_be_used_are_counted():
    table = {name: [*values, "x"] for name, values in ARENA.items()}
    table["model_b"][4], table["winner"][4] = "y", None
    table["model_a"][2] = ""
    table["anony"] = [True, "False", True, True, True]
    table["session"] = [1, 1, 1, None, 2]
    found = read_battles(table)
    assert found.dropped == {
        "without an item": 1, "not anonymous": 1, "without a group": 1, "without a winner": 1,
    }  # fmt: skip
    assert len(found.battles) == 1
    table["winner"] = [None] * 5
    with pytest.raises(DataError, match="no battle that can be used"):
        read_battles(table)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"winner": None}, {}, "has no columns of battles. Name them as first"),
        (
            {"winner": None, "chosen": ["hi"] * 4, "rejected": ["no"] * 4},
            {},
            "rankwise preferences",
        ),
        (
            {"winner": ["model_a", "who", "tie", "tie"]},
            {},
            r"row 1, column 'winner': the outcome 'who'",
        ),
        ({"model_b": ["y", "y", "x", "z"]}, {}, r"row 1: 'y' battles itself. Drop these"),
        ({}, {"style": ["length"]}, "no column 'length', and no two columns length_a"),
        ({"gap": ["1", "?", "2", "3"]}, {"style": ["gap"]}, "row 1: the column 'gap' must hold"),
        ({"n_a": [1] * 4, "n_b": [-1] * 4}, {"style": ["n"]}, "must not be negative"),
        ({"n_a": [1, 2, 3, 4], "n_b": [1, 2, 3, 4]}, {"style": ["n"]}, "equal in every row"),
        ({}, {"judge": "who"}, "has no column 'who'"),
        ({}, {"groups": "session"}, "has no column 'session'"),
        ({"s": [[1]] * 4}, {"groups": "s"}, "holds lists"),
        ({"conv_metadata": ["no"] * 4}, {"style": ["conv_metadata"]}, "an object with counts"),
        ({"conv_metadata": ["-" * 10**5 + "1"] * 4}, {"style": ["conv_metadata"]}, "got '-----"),
        ({"conv_metadata": ["[" * 10**5] * 4}, {"style": ["conv_metadata"]}, "nested too deeply"),
    ],
)
def test_bad_tables_are_refused(change, options, message):
    table = {name: values for name, values in (ARENA | change).items() if values is not None}
    with pytest.raises(DataError, match=message):
        read_battles(table, **options)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "needs a line with the names"),
        ("head.csv", b"model_a,model_b,winner\n", "has no rows"),
        ("short.csv", b"a,b\n1,2\n3\n", "line 3: got 1 values for 2"),
        ("twice.csv", b"a,a\n1,2\n", "2 columns 'a'"),
        ("bytes.csv", b"a,b\n\xff\xfe,1\n", "not UTF-8"),
        (
            "half.csv.gz",
            gzip.compress(b"model_a,model_b\n" * 99, mtime=0)[:30],
            "not a complete gzip file",
        ),
        ("not.csv.gz", b"model_a,model_b,winner\n", "has no rows"),
        ("bad.jsonl", b'{"a": 1}\n{"a": \n', "line 2: not JSON"),
        ("list.jsonl", b"[1]\n", "expected an object"),
        ("empty.jsonl", b"\n", "has no rows"),
        ("bad.json", b"{", "not JSON"),
        ("object.json", b"{}", "a list of objects"),
        ("bad.parquet", b"PAR", "cannot be read as Parquet"),
    ],
)
def test_bad_files_are_refused(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_battles(path)


def test_numbers_of_lines_are_those_of_the_file(tmp_path):
    table = ARENA | {"winner": ["model_a", "tie", "who", "tie"]}
    for suffix, line in ((".csv", 4), (".jsonl", 3)):
        with pytest.raises(DataError, match=f"line {line}, column 'winner': the outcome 'who'"):
            read_battles(written(tmp_path, suffix, table))


def test_lines_of_rows_that_have_several_lines_and_empty_lines(tmp_path):
    path = tmp_path / "battles.csv"
    path.write_text('model_a,model_b,winner,prompt\nx,y,tie,"two\nlines"\n\nx,y,who,"a\nb"\n')
    with pytest.raises(DataError, match="line 5, column 'winner': the outcome 'who'"):
        read_battles(path)
    path = tmp_path / "battles.jsonl"
    path.write_text("".join(f'{{"winner": "{a}", "loser": "x"}}\n\n' for a in "yx"))
    with pytest.raises(DataError, match="line 3: 'x' battles itself"):
        read_battles(path)


def test_ids_may_end_with_a_null_character():
    found = read_battles({"winner": ["x\0", "x"], "loser": ["x", "y"]})
    assert found.battles.items.tolist() == ["x\0", "x", "y"]


def test_generated_battles_have_the_probabilities_of_the_model():
    made = make_battles(4, 40_000, ties=0.5, both_bad=0.1, position=0.3, random_state=0)
    b = made.battles
    assert abs((b.outcome == 3).mean() - 0.1) < 0.01
    eta = made.ratings[b.pairs[:, 0]] - made.ratings[b.pairs[:, 1]] + 0.183 * b.context[:, 0] + 0.3
    shares = np.column_stack((np.exp(eta / 2), np.exp(-eta / 2), np.full(len(b), 0.5)))
    shares /= shares.sum(axis=1, keepdims=True)
    counted = b.outcome < 3
    found = np.bincount(b.outcome[counted], minlength=3) / counted.sum()
    assert_allclose(found, shares[counted].mean(axis=0), atol=0.015)
    same = (np.diff(b.groups) == 0) & (b.pairs[1:] == b.pairs[:-1]).all(axis=1)
    again = b.outcome[1:][same] == b.outcome[:-1][same]
    assert again.mean() > 0.05 + np.square(found).sum()  # votes of a session agree
    judged = make_battles(3, 500, n_judges=4, slips=0.5, style=0, random_state=0)
    assert judged.slips.shape == (4,)
    assert len(set(judged.battles.judge)) == 4


@pytest.mark.parametrize(
    "groups",
    [
        [b"e\xcc\x81", b"a", "1", b"a"],
        [[1, "x"], ["1", "y"], [2**63 + 1, "x"], [2**63 + 2, "y"]],
    ],
)
def test_groups_stay_as_they_came(groups):
    battles = Battles.of(list("abac"), list("bcca"), [1] * 4, groups=groups)
    assert battles.groups.tolist() == groups


def test_all_faulty_rows_are_named_at_once(tmp_path):
    path = tmp_path / "battles.csv"
    rows = ["model_a,model_b,winner,x,when", "a,b,model_a,1,2026-01-01", "a,a,tie,1,2026-01-01"]
    rows += ["b,b,tie,1,2026-01-01", "a,b,model_q,1,2026-01-01", "a,b,tie,lots,2026-01-01"]
    path.write_text("\n".join([*rows, "a,b,tie,-1,soon", "b,a,tie,more,2026-01-02"]))
    with pytest.raises(DataError) as error:
        read_battles(path, style=["x"], time="when")
    words = str(error.value)
    assert "line 3: 'a' battles itself (also in line 4)" in words
    assert "line 6: the column 'x' must hold numbers: got 'lots' (also in line 8)" in words
    assert "line 7: the time 'soon' is neither" in words
    assert "line 5, column 'winner': the outcome 'model_q' is unknown" in words


def check_same_battles(found, wanted):
    """The same battles, units and coefficients, and the same items in the same order."""
    assert found.units == wanted.units
    assert found.remarks == wanted.remarks
    for name in ("items", "pairs", "outcome", "groups", "judge", "category", "time", "gold"):
        one, two = (getattr(file.battles, name) for file in (found, wanted))
        assert (one is None) == (two is None), name
        assert one is None or one.tolist() == two.tolist(), name
    assert_array_equal(found.battles.context, wanted.battles.context)
    none = dict.fromkeys(("groups", "judge", "category", "gold", "time"))
    plain = [replace(file.battles, **none) for file in (found, wanted)]
    assert_array_equal(*(Leaderboard().fit(battles).coef_ for battles in plain))


def many_battles():
    rng = np.random.default_rng(0)
    n = 200
    first = rng.integers(4, size=n)
    return pd.DataFrame(
        {
            "model_a": [f"model {k}" for k in first],
            "model_b": [f"model {k}" for k in (first + rng.integers(1, 4, size=n)) % 4],
            "winner": rng.choice(["model_a", "model_b", "tie"], n),
            "turn": rng.integers(1, 3, size=n),
            "length_a": rng.integers(10, 500, size=n).astype(float),
            "length_b": rng.integers(10, 100, size=n).astype(float),
            "gap": rng.standard_normal(n),
            "session": rng.integers(20, size=n),
            "judge": rng.integers(3, size=n),
            "language": rng.choice(["en", "fi"], n),
            "day": rng.choice(["2026-11-01", "2026-11-02"], n),
            "gold": rng.choice(["model_a", "model_b", ""], n),
            "conv_metadata": [{"words_a": int(k), "words_b": 5} for k in rng.integers(1, 9, n)],
        }
    )


OPTIONS = {
    "style": ["length", "gap", "conv_metadata"],
    "groups": ["session", "language"],
    "judge": "judge",
    "category": "language",
    "time": "day",
    "gold": "gold",
}
DAMAGE = {
    "length_a": np.nan,
    "length_b": -1.0,
    "gap": np.inf,
    "winner": "nobody",
    "model_b": "model 0",
    "day": "soon",
    "gold": "nobody",
    "conv_metadata": None,
    "session": [1, 2],
}


@pytest.mark.parametrize("column", [None, *DAMAGE])
def test_where_is_the_same_as_a_filter_of_the_table(column):
    frame = many_battles()
    other = (frame["turn"] == 2) & (frame["model_a"] == "model 0")
    if column is not None:
        frame[column] = frame[column].astype(object)
        for row in np.flatnonzero(other):
            frame.at[row, column] = DAMAGE[column]
    kept = frame[frame["turn"] == 1]
    found = read_battles(frame, where={"turn": "1"}, **OPTIONS)
    check_same_battles(found, read_battles(kept, **OPTIONS))
    assert found.n_rows == 200
    assert found.dropped == {"whose 'turn' is not '1'": 200 - len(kept)}


@pytest.mark.parametrize("lacking", ["winner", "model_a", "session", "judge", "language", "day"])
def test_rows_that_are_left_out_have_no_effect_on_covariates(lacking):
    frame = many_battles()
    left_out = np.arange(len(frame)) % 5 == 0
    kept = frame[~left_out]
    for column, value in {**DAMAGE, "session": "s", "model_b": "model 0", lacking: None}.items():
        frame[column] = [
            value if out else v for v, out in zip(frame[column], left_out, strict=True)
        ]
    check_same_battles(read_battles(frame, **OPTIONS), read_battles(kept, **OPTIONS))


def test_rows_without_a_verdict_have_no_effect_on_covariates():
    table = {
        "model_1": ["x", "y", "x", "x"],
        "model_2": ["y", "z", "z", "x"],
        "g1_winner": ["model_1", "model_2", "tie", "error"],
        "g2_winner": ["model_1", "tie", "error", "error"],
        "words_1": [10, 20, 30, None],
        "words_2": [20, 10, 10, 5],
    }
    whole = pd.DataFrame(table)
    found = read_battles(whole, style=["words"]).battles
    assert_array_equal(found.context, read_battles(whole[:3], style=["words"]).battles.context)


def test_places_of_errors_are_rows_of_the_whole_table():
    table = {**ARENA, "turn": [2, 1, 1, 1], "gap": [1, -1, "much", 2]}
    with pytest.raises(DataError, match="row 2: the column 'gap' must hold numbers: got 'much'"):
        read_battles(table, style=["gap"], where={"turn": "1"})
    with pytest.raises(DataError, match="no battle that can be used: 4 rows whose 'turn'"):
        read_battles(table, style=["gap"], where={"turn": "3"})


def test_all_broken_lines_are_named_at_once(tmp_path):
    path = tmp_path / "battles.csv"
    path.write_text("a,b\n1,2\n1\n1,2\n1,2,3\n\n1\n")
    with pytest.raises(DataError, match=r"line 3: got 1 .* \(also in line 5, line 7\)"):
        read_battles(path)
    path = path.with_suffix(".jsonl")
    path.write_text('{"a": 1}\n{"a"\n{"a": 2}\n{1\n')
    with pytest.raises(DataError, match=r"line 2: not JSON: .* \(also in line 4\)"):
        read_battles(path)


def test_semicolons_between_values(tmp_path):
    path = tmp_path / "battles.csv"
    path.write_text('model_a;model_b;winner\n"a;1";b;"model_a"\nb;"a;1";tie\n')
    assert read_battles(path).battles.items.tolist() == ["a;1", "b"]


def test_battles_with_two_columns_of_groups_are_no_comparisons():
    """Before, the error was about the shape of groups that the user had not given."""
    groups = [["Ann", "s1"], ["Bob", "s1"]]
    battles = Battles.of(["a", "b"], ["b", "c"], ["first", "tie"], groups=groups)
    with pytest.raises(DataError, match=r"two columns of groups, and comparisons have one.*Keep"):
        battles.comparisons()
    kept = replace(battles, groups=battles.groups[:, 0])  # as the error says
    assert kept.comparisons().groups.tolist() == ["Ann", "Bob"]


def test_comparisons_keep_the_names_of_contexts():
    """Before, they were lost."""
    context = pd.DataFrame({"length": [0.5, -1.0, 2.0], "left": [1, 1, -1]})
    outcome = ["first", "both_bad", "tie"]
    battles = Battles.of(["a", "b", "a"], ["b", "c", "c"], outcome, context=context)
    found = battles.comparisons()
    assert found.context_names == ["length", "left"]
    assert found.context.tolist() == [[0.5, 1.0], [2.0, -1.0]]


def test_columns_of_one_name_are_refused():
    frame = pd.DataFrame(
        [["a", "b", "x", "model_a"], ["b", "a", "y", "tie"]],
        columns=["model_a", "model_b", "model_b", "winner"],
    )
    with pytest.raises(DataError, match=r"2 columns 'model_b' \(columns 2, 3\)"):
        read_battles(frame)


def test_columns_of_different_lengths_are_refused():
    table = {"model_a": ["a", "b"], "model_b": ["c"], "winner": ["tie", "tie"]}
    with pytest.raises(DataError, match="different lengths: model_a 2, model_b 1, winner 2"):
        read_battles(table)


def test_words_with_underscores_are_no_numbers():
    table = {"model_a": ["a", "b"], "model_b": ["b", "a"], "winner": ["tie"] * 2, "x": ["1_0", -3]}
    with pytest.raises(DataError, match="row 0: the column 'x' must hold numbers: got '1_0'"):
        read_battles(table, style=["x"])
