"""The table of stable names."""

from dataclasses import fields

import rankwise
from rankwise.cli.options import models
from rankwise.persistence.value_objects import (
    AXES,
    VALUE_OBJECTS,
    value_object_class,
    value_object_name,
)
from rankwise.rankers import RANKERS, TRANSFORMERS, ranker_class, ranker_name


def test_every_public_ranker_has_one_name():
    public = {getattr(rankwise, name) for name in rankwise.__all__ if name[0].isupper()}
    public = {cls for cls in public if value_object_name(cls) is None}  # kernels are no rankers
    known = RANKERS | TRANSFORMERS
    assert {ranker_class(name) for name in known} == public
    assert [ranker_name(ranker_class(name)) for name in known] == list(known)
    assert ranker_name(dict) is None


def test_the_command_line_uses_these_names():
    assert set(models()) <= set(RANKERS)


def test_value_objects_have_one_name_and_axes_name_their_fields():
    for name in VALUE_OBJECTS:
        assert value_object_name(value_object_class(name)) == name
    for name, rules in AXES.items():
        attributes = {rule.partition(": ")[0] for rule in rules.split(", ")}
        if name not in RANKERS | TRANSFORMERS:
            assert attributes <= {field.name for field in fields(value_object_class(name))}
