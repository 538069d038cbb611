"""How sure is the AUC of held-out pairs? p-values and nesting.

Classes are normal with unit covariance, so that the AUC of a linear ranker is known.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import kstest, norm, t
from sklearn.feature_selection import SelectKBest
from sklearn.pipeline import make_pipeline

from rankwise import AutoRanker, RankRLS
from rankwise.cli.auc_study import AUCStudy
from rankwise.data import read_samples
from rankwise.errors import DataError
from rankwise.metrics import ndcg
from rankwise.model_selection import nested_leave_pair_out, permutation_test
from rankwise.report import Column, Table

ALPHA, FEATURES = 10.0, 5
NULL_SETS, PERMUTATIONS, NESTED_SETS = 500, 99, 60
AUTO_SETS, AUTO_FEATURES, PER_QUERY, NEW_QUERIES = 200, 6, 12, 1500
SIGNALS = {"none": 0.0, "weak": 0.3, "strong": 1.0}


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


def auto() -> dict:
    """Estimates of AutoRanker, and what it seems to gain over chance, beside new queries."""
    found: dict[str, dict] = {}
    for signal in SIGNALS:
        for n_queries in (15, 40, 100):
            seeds = range(AUTO_SETS)
            parts = Parallel(n_jobs=-1)(delayed(_estimates)(signal, n_queries, s) for s in seeds)
            score, error, truth, low, high, gain = np.array(parts).T
            reach = t.ppf(0.975, n_queries - 1) * error
            found[f"{signal}, {n_queries}"] = {
                "truth": float(truth.mean()),
                "bias": float((score - truth).mean()),
                "spread": float(np.std(score - truth, ddof=1) / AUTO_SETS**0.5),
                "error": float(error.mean()),
                "covered": float(np.mean(abs(score - truth) <= reach)),
                "gain covered": float(np.mean((low <= gain) & (gain <= high))),
                "clear": float(np.mean(low > 0)),
            }
    return found


def _estimates(signal: str, n_queries: int, seed: int) -> tuple[float, ...]:
    """The estimate, its error, the truth; the ends of the gain over chance, and the true gain."""
    rng = np.random.default_rng([seed, n_queries])
    w = rng.standard_normal(AUTO_FEATURES)
    w *= SIGNALS[signal] / np.linalg.norm(w)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        X = rng.standard_normal((n * PER_QUERY, AUTO_FEATURES))
        y = np.digitize(X @ w + rng.standard_normal(len(X)), [0.5, 1.5]).astype(np.float64)
        return X, y, np.repeat(np.arange(n), PER_QUERY)

    X, y, qid = draw(n_queries)
    ranker = AutoRanker(boosted=False, random_state=seed).fit(X, y, qid=qid)
    X, y, qid = draw(NEW_QUERIES)
    truth, by_chance = (
        ndcg(y, scores, qid, k=10) for scores in (ranker.predict(X, qid=qid), np.zeros(len(y)))
    )
    estimate, baselines = ranker.score_estimate_, ranker.baselines_
    low, high = baselines.intervals[baselines.names.index("chance")]
    return estimate.score, estimate.standard_error, truth, low, high, truth - by_chance


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


def auto_text(found: dict) -> str:
    header = (
        Column("signal"), Column("queries"), Column("NDCG@10 of new queries"),
        Column("bias of the estimate", "+.4f"), Column("± s.e."), Column("its standard error"),
        Column("interval covers", ".3f"), Column("interval of the gain over chance covers", ".3f"),
        Column("clearly better than chance", ".3f"),
    )  # fmt: skip
    rows = tuple((*name.split(", "), *v.values()) for name, v in found.items())
    title = f"AutoRanker, {AUTO_SETS} samples of each kind, queries of {PER_QUERY} rows"
    return Table(header, rows, title).to_markdown()


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
