"""On random problems, torch and NumPy agree or raise the same error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the extra gpu")

import torch

from rankwise import KPCRank, RankRLS, SparseRankRLS
from rankwise.errors import RankwiseError
from rankwise.model_selection import leave_pair_out, leave_query_out
from tests.conformance.places import no_implicit_copies
from tests.strategies import problems, ties, weightings


def outcome(call):
    """The result of a call, or the error that it raises."""
    try:
        return call()
    except RankwiseError as error:
        return error


def check_same(here, there):
    """Check that errors have the same type, or that numbers are close."""
    if isinstance(here, Exception) or isinstance(there, Exception):
        assert type(here) is type(there), (here, there)
        return
    there = there.numpy()
    assert np.isfinite(there).all()
    assert np.abs(here - there).max() <= 1e-7 * max(1.0, np.abs(here).max())


def tensors(p):
    return torch.tensor(p.X), torch.tensor(p.y), p.qid


rankers = st.sampled_from(
    [
        lambda **options: RankRLS(0.1, **options),
        lambda **options: RankRLS(0.1, kernel="rbf", **options, scale=None),
        lambda **options: SparseRankRLS(0.1, n_landmarks=2, random_state=0, **options, scale=None),
        lambda **options: KPCRank(1, alpha=0.1, **options, scale=None),
    ]
)


@pytest.mark.filterwarnings("ignore::rankwise.errors.RankwiseWarning")
@given(problems(), rankers, ties, weightings)
def test_fits(p, make, ties, weighting):
    X, y, qid = tensors(p)
    ranker = make(ties=ties, weighting=weighting)
    here = outcome(lambda: ranker.fit(p.X, p.y, qid=p.qid).predict(p.X))
    with no_implicit_copies():
        there = outcome(lambda: ranker.fit(X, y, qid=qid).predict(X))
    check_same(here, there)


@pytest.mark.filterwarnings("ignore::rankwise.errors.RankwiseWarning")
@given(problems(), rankers, ties, st.booleans())
def test_hold_outs(p, make, ties, pairs):
    X, y, qid = tensors(p)
    ranker = make(ties=ties)
    if pairs:

        def held(X, y, qid):
            return leave_pair_out(ranker, X, y, qid=qid, return_differences=True).differences
    else:

        def held(X, y, qid):
            return leave_query_out(ranker, X, y, qid=qid).predictions

    here = outcome(lambda: held(p.X, p.y, p.qid))
    with no_implicit_copies():
        there = outcome(lambda: held(X, y, qid))
    check_same(here, there)
