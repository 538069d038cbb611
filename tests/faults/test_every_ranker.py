"""Every ranker on problems at the edges of floating point: finite scores, or refused in words."""

import warnings

import numpy as np
import pytest

from rankwise import (
    KPCR,
    AdditiveRankRLS,
    KPCRank,
    PairwiseGP,
    RankRLS,
    RankSVM,
    SparseRankRLS,
    SparseRLS,
    TransductiveRankRLS,
)
from rankwise.errors import RankwiseError
from rankwise.metrics import disagreement_error, ndcg
from tests.faults.problems import ALPHAS, PROBLEMS

RANKERS = {
    "RankSVM": lambda alpha: RankSVM(alpha),
    "SparseRankRLS": lambda alpha: SparseRankRLS(alpha, n_landmarks=4, random_state=0),
    "SparseRLS": lambda alpha: SparseRLS(alpha, n_landmarks=4, random_state=0),
    "KPCRank": lambda alpha: KPCRank(n_components=3, alpha=alpha),
    "KPCR": lambda alpha: KPCR(n_components=3, alpha=alpha),
    "AdditiveRankRLS": lambda alpha: AdditiveRankRLS(alpha),
    "TransductiveRankRLS": lambda alpha: TransductiveRankRLS(alpha),
    "PairwiseGP": lambda alpha: PairwiseGP(optimizer=None, noise=min(max(alpha, 1e-9), 1e9)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RANKERS)
def test_scores_are_finite_or_refused(name):
    n_fitted = 0
    for problem, (X, y) in PROBLEMS.items():
        for alpha in ALPHAS:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    scores = RANKERS[name](alpha).fit(X, y).predict(X)
                except RankwiseError:
                    continue
            assert np.isfinite(scores).all(), f"{problem}, alpha {alpha:g}"
            n_fitted += 1
    assert n_fitted > len(PROBLEMS)


@pytest.mark.slow
def test_queries_of_one_row_by_the_hundred_thousand():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_040, 3))
    y = X @ [1.0, -1.0, 0.5]
    qid = np.concatenate((np.arange(100_000), 100_000 + np.arange(40) // 10))
    few = slice(100_000, None)
    alone = RankRLS(1.0, scale=None).fit(X[few], y[few], qid=qid[few])
    ranker = RankRLS(1.0, scale=None).fit(X, y, qid=qid)
    np.testing.assert_allclose(ranker.coef_, alone.coef_, rtol=1e-9)
    scores = ranker.predict(X)
    want = disagreement_error(y[few], scores[few], qid[few])
    assert disagreement_error(y, scores, qid) == pytest.approx(want)
    assert ndcg((y > 0).astype(int), scores, qid, undefined="skip") > 0.9
