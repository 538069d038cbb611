"""Small problems at the edges of floating point."""

import numpy as np

rng = np.random.default_rng(0)
X = rng.standard_normal((7, 3)).round(3)
Y = (X @ [2.0, -1.0, 0.5] + 0.3 * rng.standard_normal(7)).round(3)
INTEGERS = np.abs(8 * X).round()

PROBLEMS = {
    "plain": (X, Y),
    "duplicates": (X[[0, 0, 0, 1, 2, 2, 3]], Y),
    "a constant feature": (np.column_stack((X[:, :2], np.full(7, 3.0))), Y),
    "rank one": (np.outer(X[:, 0], [1.0, -2.0, 0.25]), Y),
    "far from zero": (X + 1e8, Y),
    "one feature far from zero": (X + np.array([0.0, 1e8, 0.0]), Y),
    "features of 1e150": (1e150 * X, Y),
    "features of 1e-150": (1e-150 * X, Y),
    "subnormal features": (1e-310 * X, Y),
    "features on different scales": (X * [1e-2, 1.0, 1e2], Y),
    "labels of 1e150": (X, 1e150 * Y),
    "labels of 1e-150": (X, 1e-150 * Y),
    "labels far from zero": (X, Y + 1e9),
    "few different labels": (X, np.sign(Y)),
    **{f"{t} features": (X.astype(t), Y) for t in ("float16", "float32")},
    **{
        f"{t} features": (INTEGERS.astype(t), Y)
        for t in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
    },
    "int8 labels": (X, (20 * Y).round().astype("int8")),
    "uint64 labels": (X, np.abs(20 * Y).round().astype("uint64")),
}
LEAST = 1e-300  # so small that 120 digits do not suffice
ALPHAS = (0.0, LEAST, 1e-9, 1.0, 1e9, 1e300)

for features, labels in PROBLEMS.values():
    features.setflags(write=False)
    labels.setflags(write=False)
