"""The recipe "Adding a ranker" of CONTRIBUTING.md, followed step by step with a toy ranker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

from rankwise import RankingSearchCV, RankRLS, load_model, save_model
from rankwise.cli.main import app
from rankwise.data import make_ranking, write_letor
from rankwise.errors import (
    DataError,
    ExportError,
    KernelSizeError,
    ParameterError,
    RankwiseWarning,
)
from rankwise.estimators.base import LeastSquaresRanker
from rankwise.estimators.fit_pairs import FitPairsMixin
from rankwise.export import to_onnx
from rankwise.model_selection import leave_comparison_out, leave_pair_out, leave_query_out
from rankwise.parameters import AnyOf, Choice, Number, Whole
from rankwise.persistence.value_objects import VALUE_OBJECTS
from rankwise.problem import Basis, FeatureSpace, PairLoss, Space
from rankwise.rankers import RANKERS
from rankwise.scaling import SCALINGS


@dataclass(frozen=True, eq=False)
class FourierBasis(Basis):
    """f(x) = w'phi(x) with random Fourier features phi of the rbf kernel."""

    frequencies: np.ndarray
    phases: np.ndarray

    def features(self, X):
        """phi(X), of shape (n_rows, n_frequencies)."""
        return np.sqrt(2 / len(self.phases)) * np.cos(X @ self.frequencies + self.phases)

    def products(self, X, weights):
        """Scores without the intercept, one column for each column of weights."""
        return self.features(X) @ weights

    def attributes(self, solution):
        """The fitted attributes of the estimator."""
        return {"coef_": solution.weights.T}


@dataclass(frozen=True)
class FourierSpace(Space):
    """Linear functions of random Fourier features."""

    basis: FourierBasis
    takes_sparse = True  # as X @ frequencies does

    def solve(self, problem, alphas):
        """As for linear functions of the features phi(X)."""
        return replace(FeatureSpace().solve(self._mapped(problem), alphas), basis=self.basis)

    def coordinates(self, problem):
        """The features phi(X), or their products."""
        return FeatureSpace().coordinates(self._mapped(problem))

    def _mapped(self, problem):
        return replace(problem, X=self.basis.features(problem.X))


class FourierRankRLS(LeastSquaresRanker):
    """RankRLS on random Fourier features of the rbf kernel."""

    parameters = {  # noqa: RUF012
        "alpha": AnyOf(Number(0), Choice("auto")),
        "gamma": Number(0, open_low=True),
        "n_frequencies": Whole(1),
        "ties": Choice("include", "exclude"),
        "scale": AnyOf(None, Choice("auto", *SCALINGS)),
    }

    def __init__(
        self,
        alpha=1.0,
        *,
        gamma=0.1,
        n_frequencies=50,
        ties="include",
        scale="auto",
        random_state=None,
    ):
        self.alpha = alpha
        self.gamma = gamma
        self.n_frequencies = n_frequencies
        self.ties = ties
        self.scale = scale
        self.random_state = random_state

    def make_loss(self):
        return PairLoss(self.ties)

    def make_space(self, n_features):
        rng = np.random.default_rng(self.random_state)
        shape = (n_features, self.n_frequencies)
        frequencies = np.sqrt(2 * self.gamma) * rng.standard_normal(shape)
        return FourierSpace(FourierBasis(frequencies, rng.uniform(0, 2 * np.pi, shape[1])))


@pytest.fixture
def ranker(monkeypatch):
    """The toy ranker, entered in the tables that the recipe names."""
    monkeypatch.setitem(RANKERS, "fourier-rankrls", f"{__name__}.FourierRankRLS")
    monkeypatch.setitem(VALUE_OBJECTS, "fourier-basis", f"{__name__}.FourierBasis")
    return FourierRankRLS(random_state=0)


@pytest.fixture
def data():
    return make_ranking(n_queries=12, rows_per_query=6, n_features=3, n_levels=4, random_state=0)


def test_steps_that_do_not_converge_are_reported(ranker, data):
    steps = FeatureSpace("cg", max_iter=2)
    few_steps = mock.patch(f"{__name__}.FeatureSpace", return_value=steps)
    with few_steps, pytest.warns(ConvergenceWarning, match="stopped after 2 steps"):
        ranker.fit(data.X, data.y, qid=data.qid)


def test_exact_hold_outs_equal_refits(ranker, data):
    X, y, qid = data.X, data.y, data.qid
    alphas = [0.1, 1.0]
    queries = leave_query_out(ranker, X, y, qid=qid, alphas=alphas)
    pairs = leave_pair_out(ranker, X, y, qid=qid, alphas=alphas, return_differences=True)
    for k, alpha in enumerate(alphas):
        refit = FourierRankRLS(alpha, random_state=0)
        out = qid == 3
        refit.fit(X[~out], y[~out], qid=qid[~out])
        assert_allclose(queries.predictions[k][out], refit.predict(X[out]), rtol=1e-7, atol=1e-9)
        pair = pairs.pairs[5]
        rest = np.delete(np.arange(len(y)), pair)
        first, second = refit.fit(X[rest], y[rest], qid=qid[rest]).predict(X[pair])
        assert_allclose(pairs.differences[k, 5], first - second, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("has_queries", [True, False])
@pytest.mark.parametrize("n_queries", [6, 12, 130])  # 6: fewer rows than features
def test_alpha_is_chosen_as_for_the_same_features(n_queries, has_queries):
    data = make_ranking(n_queries=n_queries, rows_per_query=6, n_features=3, random_state=0)
    qid = data.qid if has_queries else None
    ranker = FourierRankRLS("auto", random_state=0).fit(data.X, data.y, qid=qid)
    features = ranker.basis_.features(data.X)
    same = RankRLS(scale=None).fit(features, data.y, qid=qid)
    assert_allclose(ranker.alpha_curve_.alphas, same.alpha_curve_.alphas)
    assert_allclose(ranker.alpha_curve_.score, same.alpha_curve_.score, atol=1e-6)


def test_comparisons_are_held_out_as_for_the_same_features():
    class OfPairs(FitPairsMixin, FourierRankRLS):
        """The toy ranker, fitted to comparisons."""

    rng = np.random.default_rng(0)
    X, first = rng.standard_normal((120, 3)), np.arange(120)
    pairs = np.column_stack((first, (first + rng.integers(1, 120, 120)) % 120))
    ranker = OfPairs(n_frequencies=20, random_state=0)
    features = ranker.make_space(3).basis.features(X)
    found = leave_comparison_out(ranker, X, pairs, alphas=[0.1, 1.0])
    same = leave_comparison_out(RankRLS(scale=None), features, pairs, alphas=[0.1, 1.0])
    assert_allclose(found.differences, same.differences, rtol=1e-7, atol=1e-9)
    slope = RankRLS(scale=None).fit_pairs(features, pairs).preference_slope_
    ranker.set_params(alpha="auto").fit_pairs(X, pairs)
    assert ranker.preference_slope_ == pytest.approx(slope, rel=1e-6)


def in_different_units():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3)) * [1e-4, 1.0, 1e4]
    return X, X @ [1e4, 1.0, 1e-4], np.arange(200) // 10


def test_features_in_different_units_are_scaled(ranker):
    X, y, qid = in_different_units()
    ranker.fit(X, y, qid=qid)
    assert ranker.scale_ == "query-minmax"
    assert ranker.score(X, y, qid=qid) > 0.9
    assert clone(ranker).fit(X, y).scale_ == "standard"
    assert clone(ranker).set_params(alpha="auto").fit(X, y, qid=qid).scale_ is not None
    with pytest.warns(RankwiseWarning, match='factor of 7e.07.*Use scale="query-minmax"'):
        clone(ranker).set_params(scale=None).fit(X, y, qid=qid)


def test_a_ranker_without_scale_warns(data):
    class Unscaled(FourierRankRLS):
        parameters = {k: v for k, v in FourierRankRLS.parameters.items() if k != "scale"}  # noqa: RUF012
        scale = None

        def __init__(self, alpha=1.0, *, gamma=0.1, n_frequencies=50, random_state=None):
            self.alpha, self.gamma, self.ties = alpha, gamma, "include"
            self.n_frequencies, self.random_state = n_frequencies, random_state

    X, y, qid = in_different_units()
    with pytest.warns(RankwiseWarning, match="decide alone. Scale the features first"):
        Unscaled(random_state=0).fit(X, y, qid=qid)


def test_rows_that_a_space_cannot_take_are_refused_in_words(ranker, data, monkeypatch):
    sparse_rows = sp.csr_array(data.X)
    dense = clone(ranker).fit(data.X, data.y, qid=data.qid)
    same = clone(ranker).fit(sparse_rows, data.y, qid=data.qid)
    assert_allclose(same.predict(sparse_rows), dense.predict(data.X))
    found = leave_query_out(ranker, sparse_rows, data.y, qid=data.qid)
    want = leave_query_out(ranker, data.X, data.y, qid=data.qid)
    assert_allclose(found.predictions, want.predictions)
    monkeypatch.delattr(FourierSpace, "takes_sparse")
    with pytest.raises(DataError, match="FourierRankRLS takes dense rows only, and got sparse"):
        clone(ranker).fit(sparse_rows, data.y, qid=data.qid)


def test_a_space_that_does_not_fit_in_memory_is_named(ranker, data):
    with pytest.raises(KernelSizeError, match=r"FourierRankRLS needs more memory .* 3 features: U"):
        ranker.set_params(n_frequencies=10**13).fit(data.X, data.y, qid=data.qid)

    def exhausted(*args):
        raise MemoryError("Unable to allocate 89.4 GiB")

    ranker.set_params(n_frequencies=5)
    words = r"FourierSpace needs more .* rows of 3 features: Unable"
    with (
        mock.patch.object(FourierSpace, "solve", exhausted),
        pytest.raises(KernelSizeError, match=words),
    ):
        ranker.fit(data.X, data.y, qid=data.qid)
    with (
        mock.patch.object(FourierSpace, "coordinates", exhausted),
        pytest.raises(KernelSizeError, match=words),
    ):
        leave_query_out(ranker, data.X, data.y, qid=data.qid)


def test_what_the_space_does_not_declare_is_refused_by_name(ranker, data):
    class OfPairs(FitPairsMixin, FourierRankRLS):
        """The toy ranker, fitted to comparisons."""

    with pytest.raises(ParameterError, match="OfPairs has no context"):
        OfPairs(random_state=0).fit_pairs(data.X, [[0, 1], [2, 3]], context=[[1.0], [0.0]])
    with pytest.raises(ExportError, match=r"FourierRankRLS cannot be exported: FourierBasis does"):
        to_onnx(ranker.fit(data.X, data.y, qid=data.qid))
    pytest.importorskip("dask")
    from rankwise.distributed import fit

    with pytest.raises(ParameterError, match=r"summed over rows \(is_summable\): got Fourier"):
        fit(ranker, (data.X, data.y, data.qid))


def test_more_features_than_rows(ranker, data):
    wide = np.hstack([data.X] * 30)
    assert wide.shape[1] > wide.shape[0]
    found = leave_query_out(ranker, wide, data.y, qid=data.qid, alphas=[1.0])
    out = data.qid == 3
    refit = clone(ranker).fit(wide[~out], data.y[~out], qid=data.qid[~out])
    assert_allclose(found.predictions[0][out], refit.predict(wide[out]), rtol=1e-7, atol=1e-9)


def test_search(ranker, data):
    grid = {"alpha": [0.1, 1.0, 10.0], "gamma": [0.01, 0.1], "ties": ["include", "exclude"]}
    search = RankingSearchCV(ranker, grid, scoring="ndcg@5").fit(data.X, data.y, qid=data.qid)
    assert search.best_params_.keys() == grid.keys()
    assert search.best_score_ > 0.5


def test_model_file_and_command_line(ranker, data, tmp_path):
    ranker.fit(data.X, data.y, qid=data.qid)
    same = load_model(save_model(ranker, tmp_path / "model.rankwise"))
    assert_allclose(same.predict(data.X), ranker.predict(data.X))

    train, model = tmp_path / "train.txt", tmp_path / "fitted.rankwise"
    write_letor(train, data.X, data.y, data.qid)
    for command in ("fit", "tune"):
        arguments = [command, str(train), "--model", "fourier-rankrls", "-fo", str(model)]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        assert isinstance(load_model(model), FourierRankRLS)
