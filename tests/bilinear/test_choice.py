"""The rate and alpha that the bilinear ranker chooses, and the start that it keeps."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rankwise import SparseBilinearRanker, load_model, save_model
from rankwise.bilinear import triplets as triplets_module
from rankwise.bilinear.algorithm_1 import csr_parts
from rankwise.bilinear.bilinear_training import order_of, precisions_of
from rankwise.bilinear.triplets import (
    MAX_HELD_OUT,
    DrawnTriplets,
    HeldOutQueries,
    TripletsInOrder,
    from_classes,
    from_triplets,
    split_queries,
)
from rankwise.data import draw_triplets
from rankwise.errors import DataError, RankwiseWarning
from tests.bilinear.texts import texts, texts_and_triplets
from tests.oracles.bilinear import mean_precisions
from tests.strategies import seeds

NONE = np.zeros(0)


def questions_and_answers(n, n_words, n_shared, n_synonyms):
    """Answers have some words of their questions, synonyms of others, and words of any kind."""
    rng = np.random.default_rng(0)
    synonym = rng.permutation(n_words)
    asked = rng.integers(n_words, size=(n, 6))
    own, other = asked[:, :n_shared], asked[:, n_shared : n_shared + n_synonyms]
    answered = np.hstack([own, synonym[other], rng.integers(n_words, size=(n, 8))])
    rows = []
    for words in (asked, answered):
        X = np.zeros((n, n_words))
        np.put_along_axis(X, words, 1.0, axis=1)
        rows.append(sp.csr_array(X / np.linalg.norm(X, axis=1, keepdims=True)))
    return rows


def reciprocal_rank(scores):
    own = scores.diagonal()[:, None]
    return np.mean(1 / ((scores > own).sum(axis=1) + ((scores == own).sum(axis=1) + 1) / 2))


def learned(problem, n_train, **parameters):
    """A ranker fitted to the first questions; how it and the cosine rank answers to the others."""
    Q, D = problem
    own = np.arange(n_train)
    triplets = draw_triplets(np.column_stack([own, own]), n_train, n_negatives=6, random_state=0)
    settings = {"n_iter": 6000, "random_state": 0, **parameters}
    ranker = SparseBilinearRanker(**settings).fit(Q, D, triplets)
    new = slice(n_train, None)
    ours, cosine = ranker.score_all(Q[new], D[new]), (Q[new] @ D[new].T).toarray()
    return ranker, reciprocal_rank(ours), reciprocal_rank(cosine)


def test_a_good_cosine_is_kept_with_a_warning():
    problem = questions_and_answers(400, 500, 5, 0)
    with pytest.warns(
        RankwiseWarning,
        match=r"by more than a standard error: their mean average precision is [\d.]+ at",
    ):
        ranker, ours, cosine = learned(problem, 300)
    assert cosine > 0.9
    assert ours == cosine
    assert_array_equal(ranker.coef_.toarray(), np.eye(500))
    assert (ranker.eta0_, ranker.alpha_, ranker.n_iter_) == (0.0, 0.0, 0)
    assert ranker.init_kept_
    assert ranker.trials_["n_iter"][0] == 0
    assert len(ranker.learning_curve_["step"]) == 0


@pytest.mark.parametrize(
    ("n_shared", "n_synonyms", "schedule"),
    [
        (2, 4, "adagrad"),
        pytest.param(0, 6, "invsqrt", marks=[pytest.mark.slow, pytest.mark.ci]),
    ],
)
def test_a_poor_cosine_is_improved(n_shared, n_synonyms, schedule):
    problem = questions_and_answers(900, 150, n_shared, n_synonyms)
    ranker, ours, cosine = learned(problem, 750, schedule=schedule)
    assert ours > cosine + 0.1
    trials = ranker.trials_
    assert trials["loss"][-1] < trials["loss"][0]
    assert trials["score"][-1] >= trials["score"][0]
    assert trials["precision"][-1] > trials["precision"][0]
    assert not ranker.init_kept_
    assert ranker.eta0_ == trials["eta0"][-1] > 0
    assert ranker.alpha_ == trials["alpha"][-1] > 0
    assert trials["n_iter"][-1] == ranker.n_iter_ == 6000


@pytest.mark.parametrize("structure", ["dense", "diagonal"])
def test_a_rate_is_chosen_without_an_l1_norm(structure):
    problem = questions_and_answers(900, 150, 2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankwiseWarning)  # a diagonal has little to learn
        ranker, ours, cosine = learned(problem, 750, structure=structure)
    assert ours >= cosine - 0.02
    assert ranker.alpha_ == 0.0
    assert len(ranker.trials_["eta0"]) >= 7


def test_numbers_are_used_as_they_are():
    X, _, triplets = texts_and_triplets()
    ranker = SparseBilinearRanker(1e-3, eta0=0.5, n_iter=200, random_state=0).fit(X, X, triplets)
    assert (ranker.alpha_, ranker.eta0_, ranker.n_iter_) == (1e-3, 0.5, 200)
    assert not hasattr(ranker, "trials_")
    assert not ranker.init_kept_


@pytest.mark.parametrize(("name", "value"), [("alpha", 1e-3), ("eta0", 0.5)])
def test_one_of_both_may_be_a_number(name, value):
    X, labels = texts(150)
    ranker = SparseBilinearRanker(**{name: value}, n_iter=500, random_state=0)
    ranker.fit_classes(X, labels)
    assert getattr(ranker, f"{name}_") == value
    tried = ranker.trials_[name][1:]
    assert_allclose(tried, value)


def test_classes_and_grades():
    X, labels = texts(150)
    new, new_labels = texts(80, seed=5)
    cosine = SparseBilinearRanker(structure="identity").fit_classes(X, labels)
    ranker = SparseBilinearRanker(n_iter=2000, random_state=0).fit_classes(X, labels)
    triplets = from_classes(new_labels)(np.random.default_rng(0), 2000)
    assert ranker.score(new, new, triplets) > cosine.score(new, new, triplets)
    qid = np.repeat(np.arange(50), 3)
    grades = (labels[qid] == labels).astype(float)
    graded = SparseBilinearRanker(n_iter=2000, random_state=0)
    graded.fit_graded(X[:50], X, grades, qid)
    assert graded.trials_["loss"][-1] < graded.trials_["loss"][0]


@pytest.mark.slow
@pytest.mark.ci
def test_a_choice_is_saved_and_a_checkpoint_resumes_after_it(tmp_path):
    X, labels = texts(150)
    how = {"n_iter": 600, "random_state": 0}
    whole = SparseBilinearRanker(**how).fit_classes(X, labels)
    path = tmp_path / "run.npz"
    for _ in range(2):  # the second call resumes at the end
        ranker = SparseBilinearRanker(**how)
        ranker.fit_classes(X, labels, checkpoint=path, checkpoint_every=150)
        assert_array_equal(ranker.coef_.toarray(), whole.coef_.toarray())
        assert_array_equal(ranker.trials_["loss"], whole.trials_["loss"])
        assert (ranker.eta0_, ranker.alpha_) == (whole.eta0_, whole.alpha_)
    loaded = load_model(save_model(whole, tmp_path / "model.rankwise"))
    assert loaded.eta0_ == whole.eta0_
    assert_array_equal(loaded.trials_["loss"], whole.trials_["loss"])


def test_no_query_is_in_both_parts():
    rng = np.random.default_rng(0)
    own = np.arange(200)
    pairs = np.column_stack([own, own])
    rows = draw_triplets(pairs, 200, n_negatives=5, random_state=0)
    for sampler in (TripletsInOrder(rows), DrawnTriplets(from_triplets(rows), 3)):
        kept, held = split_queries(sampler, 200, False, rows, 7)
        training, aside = kept.sample(rng, 5000), held.triplets
        queries = np.unique(aside[:, 0])  # each ranks the documents of all
        assert held.query.tolist() == np.repeat(queries, 40).tolist()
        assert held.document.tolist() == np.tile(queries, 40).tolist()
        assert (held.relevant == (held.query == held.document)).all()
        assert not set(training[:, 0]) & set(aside[:, 0])
        assert not set(training[:, 1:].ravel()) & set(aside[:, 1:].ravel())  # nor a document
        assert len(np.unique(aside[:, 0])) == 40
        assert (aside[:, 0] == aside[:, 1]).all()
        assert (aside[:, 1] != aside[:, 2]).all()
        assert len(aside) <= MAX_HELD_OUT


def test_comparisons_of_own_documents_are_kept_as_they_are():
    rows = np.column_stack([np.arange(50), 2 * np.arange(50), 2 * np.arange(50) + 1])
    _, held = split_queries(TripletsInOrder(rows), 50, False, rows, 0)
    aside = held.triplets
    assert held.document.tolist() == np.unique(aside[:, 1:]).tolist()  # in the order of queries
    assert held.relevant.tolist() == [True, False] * 10
    assert {tuple(row) for row in aside} <= {tuple(row) for row in rows}
    assert len(aside) == 10


def test_documents_that_all_queries_share_stay():
    rng = np.random.default_rng(0)
    better = rng.integers(4, size=100)
    rows = np.column_stack([np.arange(100), better, (better + 1) % 4])
    kept, held = split_queries(TripletsInOrder(rows), 100, False, rows, 0)
    assert len(kept.sample(rng, 1000)) == 80
    assert len(held.triplets) == 20


def test_held_out_rows_of_classes_are_in_no_training_triplet():
    _, labels = texts(60)
    sampler = DrawnTriplets(from_classes(labels), 0)
    kept, held = split_queries(sampler, 60, True, None, 0)
    training = kept.sample(np.random.default_rng(0), 3000)
    assert not set(training.ravel()) & set(held.triplets.ravel())
    assert not set(training.ravel()) & set(held.document)
    assert (held.relevant == (labels[held.query] == labels[held.document])).all()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_the_loss_of_an_order_does_not_depend_on_scale(scale):
    rng = np.random.default_rng(0)
    margins, queries = rng.standard_normal(200) + 0.5, rng.integers(20, size=200)
    found, want = (order_of(unit * margins, queries, NONE) for unit in (scale, 1.0))
    assert_allclose(found.losses, want.losses, atol=1e-6)


def test_an_order_by_hand():
    queries = np.array([3, 3, 5, 5])
    order = order_of(np.array([1.0, 0.0, -1.0, 2.0]), queries, np.array([0.5, 1.0]))
    assert_array_equal(order.shares, [0.75, 0.5])
    none = order_of(np.zeros(4), queries, np.array([0.3, 0.4]))
    assert_allclose(none.losses, np.log(2))
    assert not none.better_than(none)
    worse = order_of(np.array([-1.0, -1.0, -1.0, 1.0]), queries, np.array([0.2, 0.5]))
    assert order.better_than(worse)
    for precisions in ([0.2, 0.5], [0.9, 0.1], [0.1, 0.6]):  # the same, worse, one of both
        assert not replace(order, precisions=np.array(precisions)).better_than(worse)


@given(seeds, st.booleans())
def test_precisions_of_documents_that_held_out_queries_rank(seed, pool):
    rng = np.random.default_rng(seed)
    Q, D, W = (sp.random_array(shape, density=0.5, rng=rng) for shape in ((6, 4), (9, 5), (4, 5)))
    W = sp.csr_array(np.round(3 * W.toarray()))  # some scores are equal
    triplets = np.column_stack(
        (rng.integers(0, 6, 12), rng.integers(0, 4, 12), rng.integers(4, 9, 12))
    )
    if pool:
        pairs = np.unique(triplets[:, :2], axis=0)
        held = HeldOutQueries.ranking_a_pool(triplets, pairs, rng)
    else:
        held = HeldOutQueries.ranking_their_own(triplets, rng)
    parts = (csr_parts(sp.csr_array(X)) for X in (Q, D))
    scores = Q.toarray() @ W.toarray() @ D.toarray().T
    found = precisions_of(W, *parts, held)
    want = mean_precisions(scores, triplets, pool=pool)
    assert_allclose(found, want, atol=1e-9)


def test_few_queries_rank_where_there_are_many_documents(monkeypatch):
    monkeypatch.setattr(triplets_module, "MAX_RANKED", 200)
    pairs = np.column_stack((np.repeat(np.arange(30), 3), np.arange(90)))
    held = HeldOutQueries.ranking_a_pool(np.zeros((0, 3)), pairs, np.random.default_rng(0))
    assert len(np.unique(held.query)) == 8  # 8 * 24 documents
    assert len(held.document) == 192
    assert held.relevant.sum() == 24


def test_a_better_order_of_triplets_is_not_enough():
    """More triplets in the right order, and fewer answers on top: the start is kept."""
    rng = np.random.default_rng(0)
    n = 200
    Q = np.zeros((n, 60))
    Q[np.arange(n), rng.integers(0, 50, n)] = 1.0
    D, topic = Q.copy(), rng.integers(0, 10, n)
    D[: n // 5] = 0.0  # a fifth of the questions share no word with their answer, but a topic
    Q[np.arange(n), 50 + topic] = D[np.arange(n), 50 + topic] = 0.2
    rows = np.column_stack((np.arange(n), np.arange(n)))
    triplets = draw_triplets(rows, n, n_negatives=6, random_state=0)
    with pytest.warns(RankwiseWarning, match="The initial W is kept"):
        ranker = SparseBilinearRanker(n_iter=4000, random_state=0).fit(Q, D, triplets)
    trials = ranker.trials_
    assert trials["score"].max() > trials["score"][0]
    assert ranker.init_kept_


def test_too_few_queries_to_choose():
    Q, D, triplets = np.eye(3), np.eye(3)[::-1].copy(), [[0, 0, 1]]
    numbers = {"alpha": 1e-3, "eta0": 1.0}
    for how in ({}, {"early_stopping": True}, {"early_stopping": True, **numbers}):
        with pytest.raises(DataError, match=r"^1 query cannot be split.*Set alpha and eta0"):
            SparseBilinearRanker(n_iter=100, **how).fit(Q, D, triplets)
    ranker = SparseBilinearRanker(n_iter=100, early_stopping=True, **numbers)
    assert ranker.fit(Q, D, triplets, held_out=[[1, 1, 2]]).n_iter_ <= 100


@pytest.mark.parametrize(
    ("init", "message"), [("identity", r"norm=.max."), ("zeros", "W overflowed: scale rows")]
)
def test_rows_whose_scores_overflow_are_refused_before_a_choice(init, message):
    rng = np.random.default_rng(0)
    Q, D = 1e200 * rng.random((20, 4)), 1e200 * rng.random((30, 4))
    triplets = np.column_stack((np.arange(20), np.arange(20) % 15, np.arange(15, 35) % 15 + 15))
    with pytest.raises(DataError, match=message):
        SparseBilinearRanker(n_iter=500, init=init, random_state=0).fit(Q, D, triplets)


def test_a_density_that_w_does_not_reach_ends_the_search_soon():
    X, labels = texts(60, n_words=60, n_classes=15)
    ranker = SparseBilinearRanker(
        target_density=0.9, eta0=0.1, n_iter=300, refit=False, random_state=0
    )
    with pytest.warns(RankwiseWarning, match="No alpha gave the density 0.9") as caught:
        ranker.fit_classes(X, labels)
    n_fits = int(str(caught[0].message).split("nearest of ")[1].split()[0])
    assert n_fits <= 6
    assert ranker.alpha_ > 1e-6


def test_an_empty_query_scores_0_with_a_warning():
    X, _, triplets = texts_and_triplets()
    ranker = SparseBilinearRanker(1e-3, eta0=0.5, n_iter=200, random_state=0).fit(X, X, triplets)
    Q = X[:5].copy()
    Q[[1, 3]] = 0.0
    message = r"Row 1 of Q has no feature that this ranker has a weight for \(2 of 5 queries\)"
    with pytest.warns(RankwiseWarning, match=message):
        scores = ranker.score_all(Q, X)
    assert_array_equal(scores[[1, 3]], 0.0)
    with pytest.warns(RankwiseWarning, match=message):
        assert_array_equal(ranker.predict(sp.csr_array(Q), X[:5])[[1, 3]], 0.0)
    with pytest.warns(RankwiseWarning, match="1 of 1 queries"):
        rows, _ = ranker.rank(Q[1], X, k=3)
    assert len(rows) == 3
