"""The rules of the parameter tables and their error messages."""

from inspect import signature
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import GPOptions, PairwiseGP, Shrinkage, SparseBilinearRanker
from rankwise.errors import ParameterError
from rankwise.parameters import AnyOf, Choice, Flag, Number, Rule, Whole, check_parameters
from rankwise.rankers import RANKERS, TRANSFORMERS, ranker_class

INVALID = [
    (Number(0), -1, "x must be a finite number, 0 or more: got -1."),
    (Number(0), np.nan, "x must be a finite number, 0 or more: got nan."),
    (Number(0), True, "x must be a finite number, 0 or more: got True."),
    (Number(0, open_low=True), 0.0, "x must be a finite number above 0: got 0.0."),
    (Number(0, 0.5, open_high=True), 0.5, "x must be a number, 0 or more and below 0.5: got 0.5."),
    (Whole(1), 0, "x must be an integer of at least 1: got 0."),
    (Whole(1), 1.0, "x must be an integer of at least 1: got 1.0."),
    (Whole(2, 9), "a", "x must be an integer from 2 to 9: got 'a'."),
    (Choice("all", "none"), "al", "x must be one of all, none: got 'al'. Did you mean 'all'?"),
    (Flag(), 1, "x must be True or False: got 1."),
    (AnyOf(None, Whole(1)), 0, "x must be an integer of at least 1, or None: got 0."),
]


@pytest.mark.parametrize(("rule", "value", "message"), INVALID)
def test_errors_name_the_invalid_value_and_the_valid_ones(rule: Rule, value: object, message: str):
    with pytest.raises(ParameterError) as caught:
        check_parameters(SimpleNamespace(x=value), {"x": rule})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (Number(0), 0),
        (Number(0), np.float32(2.5)),
        (Number(0, 1), 1),
        (Whole(1), np.int64(1)),
        (Choice("all", "none"), "none"),
        (Flag(), np.True_),
        (AnyOf(None, Number(0)), None),
        (AnyOf(None, Choice("auto"), Number(0)), "auto"),
    ],
)
def test_valid_values_pass(rule: Rule, value: object):
    check_parameters(SimpleNamespace(x=value), {"x": rule})
    assert rule.allows(value)


@pytest.mark.parametrize("name", RANKERS | TRANSFORMERS)
def test_parameters_are_few_and_none_is_a_fitted_attribute(name):
    """An annotation in the body of a dataclass is a parameter, also by accident."""
    parameters = list(signature(ranker_class(name)).parameters)
    assert len(parameters) <= 14
    assert not [each for each in parameters if each.startswith("_") or each.endswith("_")]


def test_options_are_nested_parameters():
    gp = PairwiseGP(options=GPOptions(tol=1e-3)).set_params(options__max_sweeps=7)
    assert gp.options == clone(gp).options == GPOptions(tol=1e-3, max_sweeps=7)
    ranker = SparseBilinearRanker().set_params(shrinkage__every=7)
    assert ranker.shrinkage == Shrinkage(every=7)
    assert SparseBilinearRanker().get_params()["shrinkage__every"] == 100
    pipeline = make_pipeline(StandardScaler(), PairwiseGP())
    pipeline.set_params(pairwisegp__options=GPOptions(), pairwisegp__options__tol=0.1)
    assert pipeline.get_params()["pairwisegp__options__tol"] == 0.1
    with pytest.raises(ParameterError, match=r"option of options must be one of .*: got 'sweeps'"):
        gp.set_params(options__sweeps=7)


def test_former_parameters_are_refused_with_the_option_to_use():
    with pytest.raises(TypeError, match=r"Use options=GPOptions\(max_sweeps="):
        PairwiseGP(max_sweeps=7)
    with pytest.raises(TypeError, match=r"Use shrinkage=Shrinkage\(every="):
        SparseBilinearRanker(shrink_every=7)
