"""How sure is the AUC of held-out pairs? p-values and nesting.

Classes are normal with unit covariance, so that the AUC of a linear ranker is known.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.stats import kstest, norm
from sklearn.feature_selection import SelectKBest
from sklearn.pipeline import make_pipeline

from rankwise import RankRLS
from rankwise.cli.auc_study import AUCStudy
from rankwise.data import read_samples
from rankwise.errors import DataError
from rankwise.model_selection import nested_leave_pair_out, permutation_test
from rankwise.report import Column, Table

ALPHA, FEATURES = 10.0, 5
NULL_SETS, PERMUTATIONS, NESTED_SETS = 500, 99, 60


def sample(
    n: int, auc: float, share: float, features: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels, and the distance of the classes for which the best AUC is `auc`."""
    y = np.zeros(n)
    y[: round(share * n)] = 1.0
    shift = np.zeros(features)
    shift[0] = np.sqrt(2.0) * norm.ppf(auc)
    return rng.standard_normal((n, features)) + np.outer(y, shift), y, shift


def null() -> dict:
    """p-values of unrelated labels, with alpha chosen among three."""
    rng = np.random.default_rng(0)
    values = []
    for seed in range(NULL_SETS):
        X, y, _ = sample(30, 0.5, 0.5, FEATURES, rng)
        result = permutation_test(
            RankRLS(scale=None), X, y, alpha=[0.1, 10.0, 1e3],
            n_permutations=PERMUTATIONS, random_state=seed,
        )  # fmt: skip
        # Of equal scores, a random one is first: otherwise p-values are too large.
        equal = int((abs(result.null - result.score) < 1e-12).sum())
        above = int((result.null > result.score + 1e-12).sum())
        values.append((1 + above + rng.integers(0, equal + 1)) / (PERMUTATIONS + 1))
    spread = (np.array(values) - rng.random(NULL_SETS) / (PERMUTATIONS + 1)).clip(0, 1)
    shares = {str(level): float(np.mean(np.array(values) <= level)) for level in (0.01, 0.05, 0.1)}
    return {"p": float(kstest(spread, "uniform").pvalue), "below": shares}


def nested() -> dict:
    """Ten of 200 features are chosen by their labels: nested, and not."""
    pipeline = make_pipeline(SelectKBest(k=10), RankRLS(ALPHA, scale=None))
    found: dict[str, dict] = {}
    for auc in (0.5, 0.85):
        rng = np.random.default_rng(0)
        errors: dict[str, list[float]] = {"nested": [], "not nested": []}
        for seed in range(NESTED_SETS):
            X, y, shift = sample(40, auc, 0.5, 200, rng)
            result = nested_leave_pair_out(pipeline, X, y, outer=5, n_repeats=2, random_state=seed)
            # What it estimates: the choice and the fit on four fifths of the rows.
            fold = rng.permutation(np.repeat([0, 1, 2, 3, 4], 8).reshape(5, 8).T.ravel())
            keep = fold != 0
            fitted = pipeline.fit(X[keep], y[keep])
            w = np.zeros(200)
            w[fitted[0].get_support()] = fitted[1].coef_
            truth = float(norm.cdf(w @ shift / (np.sqrt(2.0) * np.linalg.norm(w))))
            errors["nested"].append(result.auc - truth)
            errors["not nested"].append((result.unnested or 0.0) - truth)
        found[str(auc)] = {
            name: {"bias": float(np.mean(v)), "error": float(np.std(v, ddof=1) / len(v) ** 0.5)}
            for name, v in errors.items()
        }
    return found


def microarray() -> dict:
    """Three microarray studies as CSV files, with what `rankwise auc` computes from them."""
    folder = os.environ.get("RANKWISE_DATA")
    if not folder:
        raise DataError("The microarray studies need RANKWISE_DATA: see the README.")
    found: dict[str, dict] = {}
    for name in ("alon", "golub", "shipp"):
        with np.load(Path(folder, "microarray", f"{name}.npz")) as file, TemporaryDirectory() as to:
            path = Path(to, f"{name}.csv")
            names = [*(f"gene {k}" for k in range(1, file["X"].shape[1] + 1)), "class"]
            rows = zip(file["X"].tolist(), file["y"].tolist(), strict=True)
            lines = [names, *([*values, label] for values, label in rows)]
            path.write_text("\n".join(",".join(map(str, line)) for line in lines) + "\n")
            start = time.process_time()
            data = read_samples(path, "class")
        study = AUCStudy.of(data, "linear").with_nested(0).with_test(1000, 0)
        assert study.interval is not None
        assert study.test is not None
        found[name] = {
            "rows": len(data.y), "features": data.X.shape[1], "auc": study.interval.auc,
            "low": study.interval.low, "high": study.interval.high, "p": study.test.p_value,
            "nested": study.nested.auc, "nested low": study.nested.low,
            "nested high": study.nested.high, "seconds": time.process_time() - start,
        }  # fmt: skip
    return found


def null_text(found: dict) -> str:
    below = ", ".join(f"{share:.3f} are at most {level}" for level, share in found["below"].items())
    return (
        f"p-values of {NULL_SETS} samples with unrelated labels, the best of three alphas each: "
        f"{below}. Kolmogorov-Smirnov test of uniformity: p = {found['p']:.2f}."
    )


def nested_text(found: dict) -> str:
    header = (Column("best possible AUC"), Column("estimate"), Column("bias", "+.3f"),
              Column("± s.e.", ".3f"))  # fmt: skip
    rows = tuple(
        (auc, name, v["bias"], v["error"])
        for auc, both in found.items()
        for name, v in both.items()
    )
    return Table(header, rows, "Ten of 200 features chosen by their labels, 40 rows").to_markdown()


def microarray_text(found: dict) -> str:
    header = (
        Column("study"), Column("rows"), Column("features"), Column("AUC", ".3f"),
        Column("interval"), Column("p", ".3g"), Column("nested AUC", ".3f"),
        Column("its interval"), Column("CPU seconds", ".2g"),
    )  # fmt: skip
    rows = tuple(
        (
            name, v["rows"], v["features"], v["auc"], f"{v['low']:.3f} to {v['high']:.3f}", v["p"],
            v["nested"], f"{v['nested low']:.3f} to {v['nested high']:.3f}", v["seconds"],
        )
        for name, v in found.items()
    )  # fmt: skip
    title = "Microarray studies: 1,000 permutations, ten times five nested folds"
    return Table(header, rows, title).to_markdown()
