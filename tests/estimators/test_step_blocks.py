"""Linear rankers from blocks of rows: the same as from all rows at once."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from rankwise import RankRLS
from rankwise.data import LetorBlocks, write_letor
from rankwise.errors import DataError, ParameterError, RankwiseWarning
from tests.strategies import problems, seeds, ties, weightings

STEPS = {"scale": None, "tol": 1e-10}


def rows(m=90, n=40):
    rng = np.random.default_rng(0)
    X = sp.random_array((m, n), density=0.15, format="csr", rng=rng)
    y = np.round(X @ rng.standard_normal(n) * 2 + rng.standard_normal(m)).clip(-2, 2) + 2
    return X, y, np.arange(m) // 6


def thirds(X, y, qid):
    return [(X[k : k + 30], y[k : k + 30], qid[k : k + 30]) for k in (0, 30, 60)]


@given(problems(min_pairs=1), ties, weightings, seeds)
def test_blocks_of_whole_queries(p, ties, weighting, seed):
    names = list(dict.fromkeys(p.qid.tolist()))
    part = np.random.default_rng(seed).integers(0, 3, len(names))
    of_row = part[[names.index(q) for q in p.qid.tolist()]]
    blocks = [(p.X[of_row == k], p.y[of_row == k], p.qid[of_row == k]) for k in range(3)]
    options = {"ties": ties, "weighting": weighting, "scale": None}
    found = RankRLS(0.5, tol=1e-11, **options).fit_blocks(blocks)
    want = RankRLS(0.5, solver="primal", **options).fit(p.X, p.y, qid=p.qid)
    assert_allclose(found.coef_, want.coef_, rtol=0, atol=1e-6 * max(abs(want.coef_).max(), 1e-3))
    assert found.n_queries_ == want.n_queries_


def test_several_outputs_and_a_path():
    X, y, qid = rows()
    Y = np.column_stack((y, np.roll(y, 1)))
    for kept in ("include", "exclude"):
        path = RankRLS(ties=kept, **STEPS).path_blocks(thirds(X, Y, qid), [10.0, 0.5])
        want = RankRLS(ties=kept, scale=None).path(X, Y, [10.0, 0.5], qid=qid)
        assert_allclose(path.predict(X), want.predict(X), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_alpha_is_chosen_as_in_memory(is_sparse):
    X, y, qid = rows()
    X = X if is_sparse else X.toarray()
    found = RankRLS(**STEPS).fit_blocks(thirds(X, y, qid))
    want = RankRLS(solver="cg", **STEPS).fit(X, y, qid=qid)
    assert_allclose(found.alpha_curve_.alphas, want.alpha_curve_.alphas)
    assert_allclose(found.alpha_curve_.score, want.alpha_curve_.score, atol=0.01)
    if is_sparse:
        path = RankRLS(**STEPS).path_blocks(thirds(X, y, qid))
        assert_allclose(path.alphas, want.alpha_curve_.alphas)


def test_a_file(tmp_path):
    X, y, qid = rows()
    write_letor(tmp_path / "a.txt", X, y, qid)
    blocks = LetorBlocks(tmp_path / "a.txt")
    found = RankRLS(1.0, **STEPS).fit_blocks(blocks)
    assert_allclose(found.coef_, RankRLS(1.0, scale=None).fit(X, y, qid=qid).coef_, atol=1e-4)


def test_what_is_refused():
    X, y, qid = rows()
    blocks = thirds(X, y, qid)
    for parameters in ({"kernel": "rbf"}, {"device": "cuda"}):
        with pytest.raises(ParameterError, match='needs kernel="linear" and device=None'):
            RankRLS(**parameters).fit_blocks(blocks)
    with pytest.raises(DataError, match="passes over the blocks, but these allow only one"):
        RankRLS(1.0).fit_blocks(iter(blocks))
    with pytest.raises(DataError, match="must be a list of triples"):
        RankRLS(1.0).fit_blocks(3)
    with pytest.raises(DataError, match="no blocks of rows"):
        RankRLS(1.0).fit_blocks([])
    with pytest.raises(DataError, match="Query 4 was also in an earlier block"):
        RankRLS(1.0).fit_blocks([(X[:30], y[:30], qid[:30]), (X[24:], y[24:], qid[24:])])
    with pytest.raises(DataError, match="Without qid all rows form one ranking"):
        RankRLS(1.0).fit_blocks([(X[:30], y[:30], None), (X[30:], y[30:], None)])
    with pytest.raises(DataError, match="No query has two different labels"):
        RankRLS(1.0).fit_blocks([(X[:30], qid[:30] * 1.0, qid[:30])])
    with pytest.raises(DataError, match="at least three queries"):
        RankRLS().fit_blocks([(X[:12], y[:12], qid[:12])])
    both = np.column_stack((y, -y))
    for first, second in ((y, both), (both, y), (y, y[:, None])):
        with pytest.raises(DataError, match="in this block, but"):
            RankRLS(1.0).fit_blocks(
                [(X[:30], first[:30], qid[:30]), (X[30:], second[30:], qid[30:])]
            )
    with pytest.raises(DataError, match="Products of features underflow"):
        RankRLS(1.0, scale=None).fit_blocks([(1e-160 * X, y, qid)])
    with pytest.warns(ConvergenceWarning, match="stopped after 1 steps"):
        RankRLS(1e-3, scale=None, max_iter=1).fit_blocks(blocks)


def test_features_of_very_different_scales_give_a_warning():
    X, y, qid = rows()
    blocks = thirds(X @ sp.diags_array(np.logspace(0, 8, X.shape[1])).tocsr(), y, qid)
    with pytest.warns(RankwiseWarning, match="standard deviations of features differ"):
        RankRLS(1.0, scale=None, tol=1e-2).fit_blocks(blocks)
