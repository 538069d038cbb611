"""The comparisons of sinc values that two folders of `reproduce` learn from."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from reproduce.kpcrank.sinc_comparisons import make_sinc_comparisons


def check_pairs(X, pairs, margin):
    first, second = np.sinc(X[pairs]).squeeze(-1).T
    assert_allclose(first - second, margin, atol=1e-15)
    assert (margin > 0).all()
    assert len({frozenset(pair) for pair in pairs.tolist()}) == len(pairs)


def test_sinc_comparisons_are_those_of_the_paper():
    data = make_sinc_comparisons(0)
    assert data.X_train.shape == (1000, 1)
    assert data.X_test.shape == (338, 1)
    assert data.pairs_train.shape == (379, 2)
    assert data.pairs_test.shape == (48, 2)
    assert not set(data.X_train.ravel()) & set(data.X_test.ravel())
    assert set(np.concatenate([data.X_train, data.X_test]).ravel()) <= set(np.linspace(-4, 4, 2000))
    check_pairs(data.X_train, data.pairs_train, data.margin_train)
    check_pairs(data.X_test, data.pairs_test, data.margin_test)


def test_sinc_noise_and_swaps_change_only_the_training_pairs():
    clean = make_sinc_comparisons(2)
    flipped = make_sinc_comparisons(2, flipped=0.05)
    swapped = (clean.pairs_train != flipped.pairs_train).any(axis=1)
    assert swapped.sum() == 19
    assert_array_equal(flipped.pairs_train[swapped], clean.pairs_train[swapped, ::-1])
    assert_array_equal(flipped.margin_train, clean.margin_train)
    noisy = make_sinc_comparisons(2, noise=0.3)
    assert (noisy.margin_train >= 0).all()
    swapped = (clean.pairs_train != noisy.pairs_train).any(axis=1)
    signed = np.where(swapped, -1, 1) * noisy.margin_train
    assert 0.25 < np.std(signed - clean.margin_train) < 0.35
    for data in (flipped, noisy):
        assert_array_equal(data.pairs_test, clean.pairs_test)
        assert_array_equal(data.margin_test, clean.margin_test)
