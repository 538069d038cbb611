"""Hold-outs at the edges of floating point: right to 120-digit refits, warned about or refused."""

import warnings

import mpmath
import numpy as np
import pytest

from rankwise import RankRLS
from rankwise.errors import RankwiseError
from rankwise.model_selection import (
    k_fold,
    leave_comparison_out,
    leave_one_out,
    leave_pair_out,
    leave_query_out,
)
from tests.faults.problems import ALPHAS, LEAST, PROBLEMS
from tests.faults.test_numbers import RANKERS, precise
from tests.oracles.precise import DIGITS

QID = np.array([0, 1, 0, 1, 0, 1, 1])
ROWS = range(7)
COMPARED = [(0, 1), (2, 1), (3, 4), (5, 6), (6, 0), (1, 3), (2, 5), (4, 2), (0, 3)]
MARGINS = [1.0, -1.0, 0.5, 2.0, 0.0, -0.25, 1.0, 3.0, -1.0]


def rest_of(out):
    return [i for i in ROWS if i not in out]


def differences(scores):
    with mpmath.workdps(DIGITS):
        return [float(score - scores[0]) for score in scores[1:]]


def pairs(ranker, X, y, alpha, oracle, qid=None):
    found = leave_pair_out(ranker, X, y, qid=qid, alphas=[alpha], return_differences=True)
    codes = None if name_of(ranker) == "RLS" else qid
    want = [
        differences(oracle.scores([j, i], rest_of((i, j)), alpha, codes))[0]
        for i, j in found.pairs.tolist()
    ]
    return found.differences[0], want


def pairs_of_queries(ranker, X, y, alpha, oracle):
    return pairs(ranker, X, y, alpha, oracle, QID)


def queries(ranker, X, y, alpha, oracle):
    found = leave_query_out(ranker, X, y, qid=QID, alphas=[alpha]).predictions[0]
    return _within(found, [np.flatnonzero(q == QID) for q in (0, 1)], alpha, oracle)


def folds(ranker, X, y, alpha, oracle):
    found = k_fold(ranker, X, y, n_splits=3, alphas=[alpha]).predictions[0]
    return _within(found, [np.arange(k, 7, 3) for k in range(3)], alpha, oracle)


def _within(found, parts, alpha, oracle):
    """Differences to the first row of each part."""
    values, want = [], []
    for part in parts:
        values += (found[part[1:]] - found[part[0]]).tolist()
        want += differences(oracle.scores(part.tolist(), rest_of(part), alpha))
    return values, want


def single_rows(ranker, X, y, alpha, oracle):
    found = leave_one_out(ranker, X, y, alphas=[alpha]).predictions[0]
    want = [oracle.scores([i], rest_of([i]), alpha, intercept=True)[0] for i in ROWS]
    with mpmath.workdps(DIGITS):
        mean = mpmath.fsum(oracle.y) / len(oracle.y)
        return found - float(mean), [float(score - mean) for score in want]


def comparisons(ranker, X, y, alpha, oracle):
    found = leave_comparison_out(ranker, X, COMPARED, margin=MARGINS, alphas=[alpha])
    want = [
        float(oracle.without_comparison(COMPARED, MARGINS, k, alpha)) for k in range(len(COMPARED))
    ]
    return found.differences[0], want


def name_of(ranker):
    return type(ranker).__name__


RANKINGS = ("primal", "dual", "rbf", "landmarks")
HOLD_OUTS = {
    pairs: (*RANKINGS, "regression"),
    pairs_of_queries: (*RANKINGS, "regression"),
    queries: RANKINGS,
    folds: RANKINGS,
    single_rows: ("regression",),
    comparisons: RANKINGS,
}
OF_FOLDS = (queries, folds, single_rows)
TOLERANCE = 3e-4  # relative to the largest label, from the mean of labels


def check(hold_out, problem, name, alphas=ALPHAS, *, may_refuse=True):
    X, y = PROBLEMS[problem]
    size = np.abs(y - np.mean(y, dtype=np.float64)).max()
    size = 3.0 if hold_out is comparisons else size
    for alpha in alphas:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found, want = hold_out(
                    RANKERS[name](1.0), X, y, alpha, precise(problem, rbf=name == "rbf")
                )
            except RankwiseError:
                if not may_refuse:
                    raise
                continue
        found = np.asarray(found, dtype=np.float64)
        assert np.isfinite(found).all()
        if any("hold-outs are unreliable" in str(one.message) for one in said):
            assert may_refuse
            continue
        if alpha == LEAST and (hold_out not in OF_FOLDS or name in ("dual", "rbf")):
            continue  # far below the rounding errors of the features
        error = np.abs(found - want).max() / max(size, np.abs(want).max())
        assert error <= TOLERANCE, f"alpha {alpha:g}: {error:.1e}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hold_out", "name"),
    [(hold_out, name) for hold_out, names in HOLD_OUTS.items() for name in names],
)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_hold_outs_are_right_or_refused(problem, hold_out, name):
    check(hold_out, problem, name)


@pytest.mark.parametrize("hold_out", [pairs, pairs_of_queries, queries, folds, comparisons])
def test_features_and_labels_far_from_zero(hold_out):
    check(hold_out, "far from zero", "primal", (1e-9,), may_refuse=False)
    check(hold_out, "far from zero", "dual", (1.0,), may_refuse=False)
    check(hold_out, "labels far from zero", "dual", (1e-9,), may_refuse=False)


def test_comparisons_with_a_singular_kernel():
    check(comparisons, "plain", "dual", (1e-9,), may_refuse=False)
    check(comparisons, "plain", "dual", (1e-12, 1e-15))
    for name in ("primal", "dual"):
        with pytest.raises(RankwiseError, match="overflow"):
            check(comparisons, "features of 1e150", name, (1.0,), may_refuse=False)


@pytest.mark.parametrize("hold_out", OF_FOLDS)
def test_alphas_below_rounding_errors(hold_out):
    name = "regression" if hold_out is single_rows else "primal"
    for problem in ("duplicates", "rank one", "one feature far from zero"):
        check(hold_out, problem, name, (LEAST, 1e-17, 1e-14, 1e-11))


def test_labels_that_underflow_are_refused():
    X, y = PROBLEMS["labels of 1e-150"]
    with pytest.raises(RankwiseError, match=r"Labels of at most .*e-150 divided by an alpha of 1e"):
        leave_query_out(RANKERS["dual"](1.0), X, y, qid=QID, alphas=[1e300])


@pytest.mark.parametrize("ties", ["include", "exclude"])
@pytest.mark.parametrize("held", ["pair", "pair of a query", "groups", "query"])
def test_a_feature_of_held_out_rows_only(held, ties):
    """Without these rows, its weight is 0: refits need no such feature."""
    rng = np.random.default_rng(1)
    X, codes = rng.standard_normal((40, 4)), np.arange(40) // 4
    y = np.digitize(X @ [1.0, -1.0, 0.5, 2.0] + rng.standard_normal(40), [-1.0, 1.0]).astype(float)
    alone = np.zeros(40)
    alone[8:10] = 1.0, 2.0
    wide = np.column_stack((X, alone))
    qid = {"pair of a query": codes // 3, "query": codes}.get(held)
    pair = (8, 12) if held == "groups" else (8, 9)
    out = np.isin(codes, codes[list(pair)]) if held in ("groups", "query") else np.zeros(40, bool)
    out[list(pair)] = True
    rest = {} if qid is None else {"qid": qid[~out]}
    right = 0
    for alpha in (LEAST, 1e-17, 1e-15, 1e-13, 1e-11, 1e-9, 1e-6):
        ranker = RankRLS(alpha, scale=None, ties=ties)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                if held == "query":
                    scores = leave_query_out(ranker, wide, y, qid=qid).predictions[0]
                    found = scores[8] - scores[9]
                else:
                    given = {"groups": codes, "strata": np.zeros(40)} if held == "groups" else {}
                    if held != "groups":
                        given["pairs"] = np.array([pair])
                    result = leave_pair_out(
                        ranker, wide, y, qid=qid, return_differences=True, **given
                    )
                    k = np.flatnonzero((np.sort(result.pairs, axis=1) == pair).all(axis=1))[0]
                    sign = 1.0 if result.pairs[k, 0] == pair[0] else -1.0
                    found = sign * result.differences[0, k]
            except RankwiseError:
                continue
        if said:
            continue
        scores = ranker.fit(X[~out], y[~out], **rest).predict(X[list(pair)])
        assert found == pytest.approx(scores[0] - scores[1], abs=3e-4), f"alpha {alpha:g}"
        right += 1
    assert right  # at the largest alpha
