"""Boosted trees of three libraries, tuned by a random search over settings and scalings.

The features are those of the problem, standardized within each query, or both side by side. A
setting and its number of trees are chosen by NDCG@10 on a fifth of the queries, and fitted to all
rows. The search returns whatever was best so far with the time that it took, so that it can be
compared with others that take as long.
"""

from __future__ import annotations

import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from rankwise.graph import QueryGroups
from rankwise.metrics import ndcg
from reproduce.letor.parts import Part, standard

TREES, PATIENCE = 300, 50
MOST_SETTINGS, MOST_SECONDS = 12, 12.0  # of a search
FEATURES = ("raw", "within queries", "both")


@dataclass(frozen=True)
class Chosen:
    """What a contestant has chosen, in words, scores of new rows by it, and the seconds it took."""

    words: str
    scores: Callable[[np.ndarray, np.ndarray], np.ndarray]
    seconds: float


Contestant = Callable[[Part], Iterator[Chosen]]
"""What it would choose after some time, and after more time."""


@dataclass(frozen=True)
class Library:
    """Settings of a library, a function that fits one, and scores of a fitted model.

    ``fit(setting, trees, train, valid)`` returns a model and its number of trees, the best one on
    the rows of `valid` if there are any.
    """

    settings: list[dict[str, Any]]
    fit: Callable[..., tuple[Any, int]]
    scores: Callable[[Any, np.ndarray, int], np.ndarray]


def settings(**values: tuple[Any, ...]) -> list[dict[str, Any]]:
    """All combinations; the first values are the defaults of the libraries, or nearly."""
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def fit_lightgbm(
    setting: dict[str, Any], trees: int, train: Part, valid: Part | None = None
) -> tuple[Any, int]:
    from lightgbm import LGBMRanker, early_stopping

    model = LGBMRanker(n_estimators=trees, n_jobs=1, random_state=0, verbose=-1, **setting)
    more: dict[str, Any] = {}
    if valid is not None:
        more = {
            "eval_set": [(valid.X, valid.y.astype(int))],
            "eval_group": [_sizes(valid)],
            "eval_at": [10],
            "callbacks": [early_stopping(PATIENCE, verbose=False)],
        }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # eval_set has another name in new versions
        model.fit(train.X, train.y.astype(int), group=_sizes(train), **more)
    return model, trees if valid is None else model.best_iteration_


def fit_xgboost(
    setting: dict[str, Any], trees: int, train: Part, valid: Part | None = None
) -> tuple[Any, int]:
    from xgboost import XGBRanker

    options = {"n_estimators": trees, "n_jobs": 1, "random_state": 0}
    more: dict[str, Any] = {}
    if valid is not None:
        options |= {"eval_metric": "ndcg@10", "early_stopping_rounds": PATIENCE}
        queries = [QueryGroups.of(valid.qid).codes]
        more = {"eval_set": [(valid.X, valid.y.astype(int))], "eval_qid": queries}
    model = XGBRanker(**options, **setting)
    codes = QueryGroups.of(train.qid).codes
    model.fit(train.X, train.y.astype(int), qid=codes, verbose=False, **more)
    return model, trees if valid is None else model.best_iteration + 1


def fit_catboost(
    setting: dict[str, Any], trees: int, train: Part, valid: Part | None = None
) -> tuple[Any, int]:
    from catboost import CatBoostRanker, Pool

    def pool(part: Part) -> Any:
        return Pool(part.X, part.y, group_id=QueryGroups.of(part.qid).codes)

    more: dict[str, Any] = {}
    if valid is not None:
        more = {"eval_metric": "NDCG:top=10;type=Exp", "early_stopping_rounds": PATIENCE}
    model = CatBoostRanker(
        iterations=trees, thread_count=1, random_seed=0, verbose=False,
        allow_writing_files=False, **setting, **more,
    )  # fmt: skip
    model.fit(pool(train), eval_set=None if valid is None else pool(valid))
    return model, model.tree_count_


LIBRARIES = {
    "LightGBM": Library(
        settings(
            learning_rate=(0.1, 0.03),
            num_leaves=(31, 16, 8, 4),
            min_child_samples=(20, 100),
            objective=("lambdarank", "rank_xendcg"),
        ),
        fit_lightgbm,
        lambda model, X, n: model.booster_.predict(X, num_iteration=n),
    ),
    "XGBoost": Library(
        settings(
            learning_rate=(0.1, 0.03),
            max_depth=(5, 3, 2),
            min_child_weight=(1, 20),
            objective=("rank:ndcg", "rank:pairwise"),
        ),
        fit_xgboost,
        lambda model, X, n: model.predict(X, iteration_range=(0, n)),
    ),
    "CatBoost": Library(
        settings(
            learning_rate=(0.1, 0.03),
            depth=(5, 3),
            l2_leaf_reg=(5, 1, 25),
            loss_function=("YetiRank", "QueryRMSE"),
        ),
        fit_catboost,
        lambda model, X, n: model.predict(X, ntree_end=n),
    ),
}


def tuned(name: str, library: Library, trees: int = TREES) -> Contestant:
    """A random search: the defaults on the features as they are, then other settings."""

    def contestant(pool: Part) -> Iterator[Chosen]:
        spent, best, found = 0.0, -1.0, None
        pool = _in_order(pool)
        groups = QueryGroups.of(pool.qid)
        held_out = groups.codes % 5 == 4
        every = list(product(library.settings, FEATURES))
        seed = zlib.crc32(name.encode()) + len(pool.y)
        order = [0, *(1 + np.random.default_rng(seed).permutation(len(every) - 1))]
        for k in order[:MOST_SETTINGS]:
            begin = time.process_time()
            setting, kind = every[k]
            rows = pool.with_features(with_scaling(pool.X, pool.qid, kind))
            train, valid = (_rows(rows, at) for at in (~held_out, held_out))
            model, n = library.fit(setting, trees, train, valid)
            scores = np.asarray(library.scores(model, valid.X, n), dtype=np.float64)
            value = ndcg(valid.y, scores, valid.qid, k=10)
            spent += time.process_time() - begin
            if value > best:
                best, begin = value, time.process_time()
                model, _ = library.fit(setting, n, rows)
                refit = time.process_time() - begin
                words = f"{setting}, {kind}, {n} trees"
                found = Chosen(words, _scores(library, model, n, kind), spent + refit)
                yield found
            if spent > MOST_SECONDS:
                break
        assert found is not None
        yield replace(found, seconds=spent + refit)  # the same choice, after the whole search

    return contestant


def _scores(
    library: Library, model: Any, n: int, kind: str
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda X, qid: np.asarray(
        library.scores(model, with_scaling(X, qid, kind), n), dtype=np.float64
    )


def with_scaling(X: np.ndarray, qid: np.ndarray, kind: str) -> np.ndarray:
    """Features as they are, standardized within queries, or both."""
    if kind == "raw":
        return X
    scaled = standard(Part(X, np.empty(len(X)), qid))
    return scaled if kind == "within queries" else np.hstack([X, scaled])


def _rows(part: Part, at: np.ndarray) -> Part:
    return Part(part.X[at], part.y[at], part.qid[at])


def _in_order(part: Part) -> Part:
    """Rows sorted by query, as these libraries need them."""
    return _rows(part, QueryGroups.of(part.qid).order)


def _sizes(part: Part) -> np.ndarray:
    return QueryGroups.of(part.qid).sizes


BOOSTERS: dict[str, Contestant] = {
    name: tuned(name, library) for name, library in LIBRARIES.items()
}
