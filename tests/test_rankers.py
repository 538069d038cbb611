"""The table of stable names."""

import rankwise
from rankwise.cli.options import MODELS
from rankwise.rankers import RANKERS, ranker_class, ranker_name


def test_every_public_ranker_has_one_name():
    public = {getattr(rankwise, name) for name in rankwise.__all__ if name[0].isupper()}
    assert {ranker_class(name) for name in RANKERS} == public
    assert [ranker_name(ranker_class(name)) for name in RANKERS] == list(RANKERS)
    assert ranker_name(dict) is None


def test_the_command_line_uses_these_names():
    assert set(MODELS) <= set(RANKERS)
