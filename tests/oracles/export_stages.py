"""Stages of an exported model, applied to one row at a time."""

import math


def apply_stages(stages, row):
    """The value of a row behind stages, as a list of numbers."""
    for stage in stages:
        row = apply_stage(stage, row)
    return row


def apply_stage(stage, row):
    name = type(stage).__name__
    if name == "Columns":
        return [row[k] for k in stage.chosen]
    if name == "Affine":
        return [(x - c) * f for x, c, f in zip(row, stage.centre, stage.factor, strict=True)]
    if name == "FillMissing":
        return [v if math.isnan(x) else x for x, v in zip(row, stage.values, strict=True)]
    if name == "Branches":
        return [x for part in stage.parts for x in apply_stages(part, row)]
    if name == "Weighted":
        return [
            sum(x * w for x, w in zip(row, column, strict=True)) + constant
            for column, constant in zip(stage.weights.T, stage.constant, strict=True)
        ]
    raise TypeError(name)
