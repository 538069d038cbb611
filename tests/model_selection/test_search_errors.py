"""What RankingSearchCV refuses, and what it says."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

from rankwise import RankingSearchCV, RankRLS
from rankwise.errors import DataError, ParameterError, RankwiseWarning
from tests.model_selection.searches import ALPHAS


class NoPredict(BaseEstimator):
    def fit(self, X, y):
        return self


class Odd(BaseEstimator):
    """Predicts a constant."""

    def __init__(self, value=0.0):
        self.value = value

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.full((len(X), *np.shape(self.value)), self.value)


GRID = {"alpha": [1.0]}


@pytest.mark.parametrize(
    ("search", "change", "error", "message"),
    [
        (RankingSearchCV(RankRLS(), {"alfa": [1]}), {}, ParameterError, "Valid parameters are"),
        (RankingSearchCV(RankRLS(), []), {}, ParameterError, "param_grid is empty"),
        (RankingSearchCV(RankRLS(), 3), {}, ParameterError, "param_grid is invalid"),
        (RankingSearchCV(RankRLS(), {"alpha": [-1.0]}), {}, ParameterError, "0 or more: got -1"),
        (RankingSearchCV(RankRLS(), {"ties": ["no"]}), {}, ParameterError, "ties must be one of"),
        (RankingSearchCV(NoPredict(), {}), {}, ParameterError, "fit and predict: got NoPredict"),
        (RankingSearchCV(RankRLS(), GRID, cv="loo"), {}, ParameterError, "cv must be one of"),
        (RankingSearchCV(RankRLS(), GRID, cv=None), {}, ParameterError, "a number of folds"),
        (RankingSearchCV(RankRLS(), GRID, cv=7), {}, ParameterError, "got 6 queries"),
        (RankingSearchCV(RankRLS(), GRID, cv=25), {"qid": None}, ParameterError, "got 48 rows"),
        (RankingSearchCV(RankRLS(), GRID, cv=[]), {}, ParameterError, "no split"),
        (RankingSearchCV(RankRLS(), GRID, cv=[([], [0])]), {}, ParameterError, "is empty"),
        (RankingSearchCV(RankRLS(), GRID, cv=[([0], [48])]), {}, ParameterError, "out of bounds"),
        (
            RankingSearchCV(Ridge(), {}, cv=KFold(3)),
            {},
            DataError,
            "query 7 in both train and test",
        ),
        (RankingSearchCV(Ridge(), {}), {"qid": None}, DataError, 'cv="leave_pair_out" or a'),
        (RankingSearchCV(RankRLS(), GRID), {"qid": np.ones(48)}, DataError, "got one query"),
        (RankingSearchCV(RankRLS(), GRID), {"qid": [1, 2]}, DataError, "got 2 for 48 rows"),
        (RankingSearchCV(RankRLS(), GRID), {"y": None}, DataError, "requires y"),
        (RankingSearchCV(RankRLS(), GRID), {"y": np.ones(48)}, DataError, "No query has two"),
        (
            RankingSearchCV(RankRLS(), GRID, cv="leave_pair_out", scoring="map"),
            {},
            ParameterError,
            "scoring must be one of disagreement, concordance, auc",
        ),
        (
            RankingSearchCV(Ridge(), {}, cv="leave_pair_out"),
            {},
            ParameterError,
            "refitted for each pair",
        ),
        (RankingSearchCV(RankRLS(), GRID, scoring=None), {}, ParameterError, "scoring must be"),
        (
            RankingSearchCV(RankRLS(), GRID, scoring=lambda y, *_: y),
            {},
            ParameterError,
            "a finite number",
        ),
        (
            RankingSearchCV(Odd(), {"value": [0.0, np.nan]}),
            {},
            DataError,
            "is .nan., but scores must be finite",
        ),
        (
            RankingSearchCV(Odd(), {"value": [[0.0, 1.0]]}),
            {},
            DataError,
            r"48 rows and 1 outputs: got shape \(48, 2\)",
        ),
    ],
)
def test_error_messages(problem, search, change, error, message):
    X, y, qid = problem
    given = {"y": y, "qid": qid} | change
    with pytest.raises(error, match=message):
        search.fit(X, **given)


def test_errors_have_a_note_with_the_candidate(problem):
    X, y, qid = problem
    with pytest.raises(DataError) as error:
        RankingSearchCV(Odd(), {"value": [0.0, np.inf]}).fit(X, y, qid=qid)
    assert error.value.__notes__ == ["This happened while evaluating Odd(value=inf)."]
    with pytest.raises(ParameterError) as error:
        RankingSearchCV(RankRLS(), {"ties": ["no"]}, cv=2).fit(X, y, qid=qid)
    assert error.value.__notes__ == ["This happened while evaluating RankRLS(ties='no')."]


def test_a_failed_fit_leaves_no_earlier_result():
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((20, 3)), rng.standard_normal(20), np.arange(20) // 4
    search = RankingSearchCV(RankRLS(), {"alpha": [1.0]}).fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="NaN"):
        search.fit(np.full((20, 2), np.nan), y, qid=qid)
    assert not hasattr(search, "best_estimator_")


@pytest.mark.filterwarnings("ignore:.* tasks (have been|which were still being)")  # joblib's
def test_errors_stop_a_parallel_search(problem):
    X, y, qid = problem
    search = RankingSearchCV(Odd(), {"value": [np.nan, *range(20)]}, cv=2, n_jobs=2)
    with parallel_config("threading"):
        with pytest.raises(ParameterError, match="ties must be"):
            RankingSearchCV(RankRLS(), {"ties": ["no"]}, n_jobs=2).fit(X, y, qid=qid)
        with pytest.raises(DataError, match="must be finite"):  # while other candidates run
            search.fit(X, y, qid=qid)


def test_score_without_qid_gives_a_warning(problem):
    X, y, qid = problem
    search = RankingSearchCV(RankRLS(), {"alpha": ALPHAS}).fit(X, y, qid=qid)
    with pytest.warns(RankwiseWarning, match="fitted on 6 queries, but no qid reached score"):
        search.score(X, y)
    with pytest.raises(ParameterError, match="does not support sample_weight"):
        search.score(X, y, sample_weight=np.ones(len(y)), qid=qid)
