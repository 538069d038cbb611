"""Grouping rows by query ids of every kind, against a dictionary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.errors import DataError
from rankwise.graph import QueryGroups

KINDS = {
    "small integers": st.lists(st.integers(-3, 3), max_size=30),
    "large integers": st.lists(st.integers(-(2**62), 2**62), max_size=30),
    "strings": st.lists(st.sampled_from(["a", "b", "query 1", ""]), max_size=30),
    "floats": st.lists(st.sampled_from([5.0, -1.0, 1e15]), max_size=30),
    "booleans": st.lists(st.booleans(), max_size=30),
}


@given(st.sampled_from(sorted(KINDS)).flatmap(lambda kind: KINDS[kind]))
def test_groups_are_those_of_a_dictionary(ids):
    groups = QueryGroups.of(np.array(ids))
    rows = {}
    for row, name in enumerate(ids):
        rows.setdefault(name, []).append(row)
    assert groups.names.tolist() == list(rows)
    assert [part.tolist() for part in groups] == list(rows.values())
    assert [groups.names[code] for code in groups.codes] == ids
    assert groups.sizes.tolist() == [len(part) for part in rows.values()]
    assert groups.contiguous == (groups.order.tolist() == sorted(groups.order.tolist()))


def test_unsigned_integers_at_the_edge():
    ids = np.array([2**64 - 1, 2**64 - 3, 2**64 - 1], dtype=np.uint64)
    assert QueryGroups.of(ids).codes.tolist() == [0, 1, 0]
    narrow = np.arange(256, dtype=np.uint8).view(np.int8)
    assert QueryGroups.of(np.tile(narrow, 2)).codes.tolist() == [*range(256), *range(256)]


def test_errors_call_the_ids_by_their_name():
    masked, unhashable = np.ma.masked_equal([1, 2], 2), np.array([{}, {}])
    for ids, problem in ((masked, "has masked entries"), (unhashable, "needs ids such as numbers")):
        with pytest.raises(DataError, match=f"groups {problem}"):
            QueryGroups.of(ids, name="groups")
