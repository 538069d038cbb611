"""Make the model files that tests/test_model_files.py reads.

    python tests/model_files/make.py

writes those that are missing, into the folder of the current format. A file of a released format
is never made again: it shows that later versions can read it.
"""

import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import (
    KPCR,
    RLS,
    AdditiveRankRLS,
    AutoRanker,
    BoostedOptions,
    BoostedRanker,
    GPOptions,
    KPCRank,
    Leaderboard,
    MeanRanker,
    PairwiseGP,
    RankingSearchCV,
    RankRLS,
    RankSVM,
    SeenFeatures,
    SparseBilinearRanker,
    SparseRankRLS,
    SparseRLS,
    TransductiveRankRLS,
    TwoSidedRankRLS,
    save_model,
)
from rankwise.persistence.model_files import FORMAT
from rankwise.routing import predict_with_queries

FOLDER = Path(__file__).parent / f"format{FORMAT}"


def fitted_models(X, y, qid):
    """A small fitted model of every kind, by the name of its file."""
    sparse = sp.csr_array(X)
    blocks = SparseRankRLS(landmarks=X[:4], gamma=0.5)
    for query in np.unique(qid):
        rows = qid == query
        blocks.partial_fit(X[rows], y[rows], qid=qid[rows])
    kernel = ConstantKernel(2.0) * RBF(1.5)
    stream = SparseBilinearRanker(
        alpha=1e-3, eta0=0.1, schedule="invsqrt", refit=False, random_state=0
    )
    triplets = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    return {
        "rankrls": RankRLS(2.0).fit(X, y, qid=qid),
        "rankrls-rbf": RankRLS(2.0, kernel="rbf").fit(sparse, y, qid=qid),
        "rankrls-outputs": RankRLS(2.0, kernel=kernel).fit(X, np.column_stack([y, -y]), qid=qid),
        "rls": RLS(0.5).fit(X, y),
        "sparse-rankrls": blocks,
        "sparse-rls": SparseRLS(n_landmarks=5, random_state=0).fit(sparse, y),
        "kpcrank": KPCRank(3).fit(X, y, qid=qid),
        "kpcr": KPCR(0.9).fit(X, y),
        "pairwise-gp": PairwiseGP(kernel).fit(X, y, qid=qid),
        "pairwise-gp-grid": PairwiseGP(marginalize="grid").fit(X[:5], y[:5]),
        "pairwise-gp-raters": PairwiseGP(kernel).fit_pairs(
            X, [[0, 1], [2, 1], [0, 3]] * 4, rater=["one", "two", "one"] * 4
        ),
        "pairwise-gp-context": PairwiseGP(
            kernel, optimizer=None, options=GPOptions(tol=1e-9)
        ).fit_pairs(
            X,
            [[0, 1], [2, 1], [0, 3], [4, 5], [5, 2]] * 4,
            margin=[1, 1, 1, -1] * 5,
            context=np.column_stack((np.tile([1.0, -1.0, 0.0, 1.0], 5), np.arange(20) % 7)),
        ),
        "pairwise-gp-gaussian": PairwiseGP(
            kernel, likelihood="gaussian", n_landmarks=4, random_state=0
        ).fit(X, y, qid=qid),
        "sparse-bilinear": SparseBilinearRanker(
            alpha=1e-3, eta0=0.1, schedule="invsqrt", n_iter=200, random_state=0
        ).fit(X, X, triplets),
        "sparse-bilinear-stream": stream.partial_fit(X, X, triplets),
        "additive-rankrls": AdditiveRankRLS(2.0, scale="query-minmax").fit(X, y, qid=qid),
        "transductive-rankrls": TransductiveRankRLS(2.0, kernel="rbf", n_landmarks=5).fit(
            X, np.where(qid == qid[0], y, np.nan), qid=qid
        ),
        "two-sided-rankrls": TwoSidedRankRLS(0.5, column_kernel="rbf", n_landmarks=(None, 4)).fit(
            X, X[:6], np.outer(y, X[:6, 0])
        ),
        "two-sided-rankrls-kernels": TwoSidedRankRLS(
            row_kernel=["rbf", "linear"], row_weights="auto"
        ).fit([X, sparse], X[:6], np.outer(y, X[:6, 0])),
        "leaderboard": Leaderboard(n_draws=100).fit(
            ["a", "b", "c"] * 8, ["b", "c", "a"] * 8, ["first", "second", "tie", "first"] * 6
        ),
        "mean": MeanRanker([RankRLS(2.0), RankSVM(2.0)]).fit(X, y),
        "auto": AutoRanker(n_best=3, boosted=False, random_state=0).fit(X, y, qid=qid),
        "ranksvm": RankSVM(2.0).fit(X, y, qid=qid),
        "boosted": BoostedRanker(min_samples_leaf=2, options=BoostedOptions(max_estimators=3)).fit(
            X, y, qid=qid
        ),
        "ranking-search": RankingSearchCV(RankRLS(), {"alpha": [0.1, 1.0]}).fit(X, y, qid=qid),
        "seen-features": make_pipeline(SeenFeatures(), RankRLS(2.0)).fit(sparse, y),
        "pipeline": make_pipeline(StandardScaler(), RankRLS(2.0)).fit(X, y),
    }


def scores_of(model, X):
    """Predictions for rows; rankers of pairs take them as queries and as documents.

    A leaderboard has no rows: the ratings of all items.
    """
    if isinstance(model, Leaderboard):
        return model.predict()
    if isinstance(model, TwoSidedRankRLS):
        several = len(model.sides_[0].views) > 1
        return model.predict([X, X] if several else X, X)
    if isinstance(model, SparseBilinearRanker):
        return model.predict(X, X)
    return predict_with_queries(model, X, np.zeros(len(X), dtype=int))  # one query


def main():
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(18, 3))).round(2)
    y, qid = rng.integers(0, 3, 18).astype(float), np.repeat([1, 2, 3], 6)
    FOLDER.mkdir(exist_ok=True)
    for name, model in fitted_models(X, y, qid).items():
        path = FOLDER / f"{name}.rankwise"
        if not path.exists():
            save_model(model, path)
            known = {"X": X[:5].tolist(), "scores": scores_of(model, X[:5]).tolist()}
            path.with_suffix(".json").write_text(json.dumps(known))


if __name__ == "__main__":
    main()
