"""Random rankings for Hypothesis: ties everywhere, short queries, shuffled rows."""

import numpy as np
from hypothesis import strategies as st


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
        qid = 0.5 - qid
    return y.astype(float), f.astype(float), qid
