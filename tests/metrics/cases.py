"""Random rankings: ties everywhere, short queries, shuffled rows."""

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tests.oracles.metrics import by_query


@st.composite
def rankings(draw, max_rows=12, real_labels=True, per_query=None):
    """Labels, scores and query ids; `per_query` limits the rows of a query."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(1, max_rows))
    qid = rng.integers(0, draw(st.integers(1, max(1, n_rows // 2))), n_rows)
    if per_query:
        place = np.array([np.sum(qid[:i] == qid[i]) for i in range(n_rows)])
        qid = qid + 1000 * (place // per_query)
    n_labels = draw(st.sampled_from([1, 2, 3, 5, None] if real_labels else [1, 2, 3, 5]))
    y = rng.standard_normal(n_rows) if n_labels is None else rng.integers(0, n_labels, n_rows)
    n_scores = draw(st.sampled_from([1, 2, 4, None]))
    f = rng.standard_normal(n_rows) if n_scores is None else rng.integers(-1, n_scores - 1, n_rows)
    names = draw(st.sampled_from(["int", "str", "float"]))
    if names == "str":
        qid = np.array([f"query {q}" for q in qid])
    elif names == "float":
        qid = 5.0 - qid
    return y.astype(float), f.astype(float), qid


def noisy_ranking(seed=0, n_queries=30, noise=1.0):
    """Grades, noisy scores and shuffled query ids; two queries have no relevant row."""
    rng = np.random.default_rng(seed)
    qid = rng.permutation(np.repeat([f"q{i}" for i in range(n_queries)], 12))
    y = rng.integers(0, 3, len(qid))
    y[np.isin(qid, ["q3", "q7"])] = 0
    return y, np.round(y + noise * rng.standard_normal(len(qid)), 1), qid


def check_against_oracle(metric, oracle, ranking, undefined, **options):
    """`metric` gives the values of the oracle, query by query, and their mean."""
    y, f, qid = ranking
    lists = y.tolist(), f.tolist(), qid.tolist()
    want = by_query(lambda labels, scores: oracle(labels, scores, **options), *lists, undefined)
    assume(want)
    got = metric(y, f, qid, undefined=undefined, per_query=True, **options)
    assert got.qid.tolist() == list(want)
    assert_allclose(got.values, list(want.values()), rtol=1e-12, atol=1e-15)
    mean = metric(y, f, qid, undefined=undefined, **options)
    assert isinstance(mean, float)
    assert_allclose(mean, np.mean(list(want.values())), rtol=1e-12, atol=1e-15)
