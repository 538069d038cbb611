"""Least-squares ranking problems: a loss, a space, and the functions that combine them.

A `Problem` holds training rows and two value objects:

- a `Loss` defines which errors count: errors of pairs (`PairLoss`) or of single rows (`RowLoss`);
- a `Space` defines the ranking functions: linear ones (`FeatureSpace`), sums of piecewise linear
  functions of single features (`RampSpace`), kernel expansions on all rows (`KernelSpace`) or on
  landmarks (`LandmarkSpace`), functions of kernel components, or functions that are smooth on a
  graph of labelled and unlabelled rows (`SmoothSpace`).

``problem.solve(alphas)`` returns a `Fit`: a `Basis`, which predicts, and one `Solution` per alpha.
``problem.coordinates()`` returns the rows in the form that exact hold-outs need.

If rows come in blocks, or are distributed over several machines, a `System` replaces the space: its
moments are summed over blocks, and the sum is solved once.
"""

from rankwise.problem.block_sums import BlockSums
from rankwise.problem.landmarks import Landmarks
from rankwise.problem.problem import (
    Basis,
    Coordinates,
    Fit,
    KernelSum,
    Loss,
    PairLoss,
    Problem,
    RowLoss,
    RowMatrix,
    Solution,
    Space,
    System,
    Task,
)
from rankwise.problem.smooth_space import SmoothSpace
from rankwise.problem.spaces import (
    FeatureBasis,
    FeatureSpace,
    FeatureSystem,
    KernelBasis,
    KernelSpace,
    LandmarkBasis,
    LandmarkSpace,
    LandmarkSystem,
    RampBasis,
    RampSpace,
)

__all__ = [
    "Basis",
    "BlockSums",
    "Coordinates",
    "FeatureBasis",
    "FeatureSpace",
    "FeatureSystem",
    "Fit",
    "KernelBasis",
    "KernelSpace",
    "KernelSum",
    "LandmarkBasis",
    "LandmarkSpace",
    "LandmarkSystem",
    "Landmarks",
    "Loss",
    "PairLoss",
    "Problem",
    "RampBasis",
    "RampSpace",
    "RowLoss",
    "RowMatrix",
    "SmoothSpace",
    "Solution",
    "Space",
    "System",
    "Task",
]
