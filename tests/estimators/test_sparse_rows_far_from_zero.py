"""Sparse rows far from zero give the scores of rows around zero."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from rankwise import RankRLS

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
Y = X[:, 0] - X[:, 1]
FAR = {
    "offset": (X + 1e7, (X + 1e7) - 1e7),
    "smaller offset": (X + 1e4, (X + 1e4) - 1e4),
    "constant column": (np.column_stack((X, np.full(40, 1e8))), X),
}


@pytest.mark.parametrize("case", FAR)
@pytest.mark.parametrize("given", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("new", [np.asarray, sp.csr_array])
def test_rbf_kernel(case, given, new):
    far, near = FAR[case]
    want = RankRLS(kernel="rbf", gamma=0.2, scale=None).fit(near, Y).predict(near)
    ranker = RankRLS(kernel="rbf", gamma=0.2, scale=None).fit(given(far), Y)
    assert_allclose(ranker.predict(new(far)), want, atol=1e-10)


@pytest.mark.parametrize("qid", [None, np.arange(40) // 8])
def test_linear_with_labels_far_from_zero(qid):
    far, labels = X + 1e6, Y + 1e9
    want = RankRLS(1e-6, scale=None).fit(far - 1e6, labels - 1e9, qid=qid).coef_
    found = RankRLS(1e-6, scale=None).fit(sp.csr_array(far), labels, qid=qid).coef_
    assert_allclose(found, want, atol=1e-8)
