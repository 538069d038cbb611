"""Ids that NumPy would merge stay apart, and what is no id is refused."""

from decimal import Decimal

import numpy as np
import pytest

from rankwise.errors import DataError
from rankwise.graph import QueryGroups


@pytest.mark.parametrize(
    "ids",
    [
        [2**63, 2**63 + 1, -1],
        [1, "1", 2],
        [2**53, 2**53 + 1, 1.0],
        [2**64, 2**64 + 1, 1.0],
        [Decimal(2**53), Decimal(2**53 + 1), Decimal("0.5")],
        ["a", "a\0", "b"],
        (True, "True", 2),
        np.array([1, "1", 2], dtype=object),
    ],
    ids=str,
)
def test_different_ids_are_different_queries(ids):
    assert QueryGroups.of(ids).n_groups == 3


@pytest.mark.parametrize("ids", [[3, 1, 3], ["b", "a", "b"], [5.0, 7.0, 5.0], [np.int64(3), 1, 3]])
def test_ids_of_one_type_are_a_plain_array(ids):
    groups = QueryGroups.of(ids)
    assert groups.codes.tolist() == [0, 1, 0]
    assert groups.names.dtype.kind in "iU"


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[1], [2], [3, 4]], "lists of several lengths"),
        ([{1}, {2}, {3}], "numbers or text: .*unhashable"),
        (np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]), "masked"),
    ],
)
def test_what_is_no_id_is_refused(ids, message):
    with pytest.raises(DataError, match=message):
        QueryGroups.of(ids)
