"""The split of the parses of the KPCRank paper's table."""

import numpy as np

from reproduce.kpcrank.run import cut


def test_no_sentence_is_in_both_parts():
    qid = np.repeat([7, 3, 5, 1], 3)
    train, test = cut(qid, 4, 5)
    assert qid[train].tolist() == [7, 7, 7, 3]
    assert qid[test].tolist() == [5, 5, 5, 1, 1]


def test_nothing_is_left_out_between_whole_sentences():
    train, test = cut(np.repeat([7, 3, 5], 3), 3, 6)
    assert (train, test) == (slice(0, 3), slice(3, 9))
