"""The features that occur in training rows."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from rankwise import (
    AdditiveRankRLS,
    PairwiseGP,
    RankRLS,
    RankSVM,
    SeenFeatures,
    load_model,
    save_model,
)
from rankwise.errors import DataError, KernelSizeError, ModelFileError

WIDE = 2**31 - 1


def tables(n_rows):
    return arrays(float, (n_rows, 5), elements=st.sampled_from([0.0, 0.0, 1.0, -2.0]))


def wide(X, columns):
    """The rows of X with its columns at these places among WIDE."""
    rows = sparse.coo_array(X)
    return sparse.csr_array((rows.data, (rows.row, columns[rows.col])), shape=(X.shape[0], WIDE))


@pytest.fixture
def hashed():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 40)) * (rng.random((30, 40)) < 0.2)
    X[0] = 1.0
    columns = np.sort(rng.choice(WIDE, 40, replace=False))
    columns[-1] = WIDE - 1
    return X, X @ rng.standard_normal(40), wide(X, columns), columns


def test_scikit_learn_checks():
    check_estimator(SeenFeatures(), on_skip=None)


@given(tables(4), tables(3))
def test_columns_are_those_that_are_not_zero_in_training(X, new):
    kept = [j for j in range(5) if any(X[i, j] != 0 for i in range(4))]
    if not kept:
        with pytest.raises(DataError, match="All values of X are 0"):
            SeenFeatures().fit(X)
        return
    lost = [j for j in range(5) if j not in kept and any(new[i, j] != 0 for i in range(3))]
    for layout in (np.asarray, sparse.csr_array):
        seen = SeenFeatures().fit(layout(X))
        assert_array_equal(seen.columns_, kept)
        assert_array_equal(seen.unseen(layout(new)), lost)
        found = seen.transform(layout(new))
        assert_array_equal(found.toarray() if sparse.issparse(found) else found, new[:, kept])


def test_stored_zeros_and_missing_values():
    X = sparse.csr_array(([0.0, np.nan, 1.0], ([0, 0, 1], [0, 1, 3])), shape=(2, 4))
    seen = SeenFeatures().fit(X)
    assert_array_equal(seen.columns_, [1, 3])
    assert_array_equal(seen.transform(X).toarray(), [[np.nan, 0], [0, 1]])
    assert seen.transform(X.astype(np.float32)).dtype == np.float32


def test_names_of_columns():
    X = pd.DataFrame({"price": [0.0, 0.0], "size": [1.0, 0.0], "age": [2.0, 3.0]})
    seen = SeenFeatures().fit(X)
    assert seen.get_feature_names_out().tolist() == ["size", "age"]
    assert list(seen.set_output(transform="pandas").transform(X).columns) == ["size", "age"]
    with pytest.raises(ValueError, match="not equal to feature_names_in_"):
        seen.get_feature_names_out(["a", "b", "c"])
    unnamed = SeenFeatures().fit(X.to_numpy())
    assert unnamed.get_feature_names_out().tolist() == ["x1", "x2"]
    assert unnamed.get_feature_names_out(["a", "b", "c"]).tolist() == ["b", "c"]
    with pytest.raises(ValueError, match="length"):
        unnamed.get_feature_names_out(["a"])


@pytest.mark.parametrize("ranker", [RankRLS(1.0), RankSVM(1.0)])
def test_rankers_of_hashed_features(hashed, tmp_path, ranker):
    X, y, H, columns = hashed
    pipeline = make_pipeline(SeenFeatures(), clone(ranker)).fit(H, y)
    want = clone(ranker).fit(sparse.csr_array(X), y).predict(X)
    np.testing.assert_allclose(pipeline.predict(H), want, rtol=1e-6)
    other = next(column for column in range(50) if column not in columns)
    new = wide(np.column_stack([np.full(30, 100.0), X]), np.concatenate(([other], columns)))
    np.testing.assert_allclose(pipeline.predict(new), want, rtol=1e-6)
    loaded = load_model(save_model(pipeline, tmp_path / "model.rankwise"))
    np.testing.assert_allclose(loaded.predict(new), pipeline.predict(new), rtol=1e-9)


@pytest.mark.parametrize("ranker", [RankRLS(), RankRLS(kernel="rbf"), RankSVM()])
def test_a_ranker_alone_says_what_to_use(hashed, monkeypatch, ranker):
    _, y, H, _ = hashed
    monkeypatch.setattr("rankwise.problem.problem._available_bytes", lambda on: 2**34)
    with pytest.raises(KernelSizeError, match=r"40 of the columns have values: keep these only"):
        ranker.fit(H, y)


@pytest.mark.parametrize("columns", [[3, 2], [1, 1], [-1, 2], [1, 9]])
def test_tampered_model_files_are_refused(tmp_path, columns):
    seen = SeenFeatures().fit(np.eye(4)[:2])
    seen.columns_ = np.array(columns)
    with pytest.raises(ModelFileError):
        load_model(save_model(seen, tmp_path / "model.rankwise"))


def test_truncated_model_files_are_refused(hashed, tmp_path):
    _, y, H, _ = hashed
    path = save_model(
        make_pipeline(SeenFeatures(), RankRLS(1.0)).fit(H, y), tmp_path / "m.rankwise"
    )
    whole = path.read_bytes()
    for share in (0.3, 0.7, 0.99):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(ModelFileError):
            load_model(path)


@pytest.mark.parametrize(
    ("ranker", "advice"),
    [
        (AdditiveRankRLS(1.0), "Functions of single features need dense rows: use RankRLS"),
        (PairwiseGP(), "PairwiseGP needs dense rows: use RankRLS or RankSVM"),
    ],
)
def test_rankers_on_dense_rows_refuse_wide_sparse_rows(hashed, monkeypatch, ranker, advice):
    X, y, _, _ = hashed
    monkeypatch.setattr("rankwise.problem.problem._available_bytes", lambda on: 8 * 30 * 39)
    with pytest.raises(KernelSizeError, match=f"A dense copy of 30 sparse rows.*{advice}"):
        ranker.fit(sparse.csr_array(X), y)
