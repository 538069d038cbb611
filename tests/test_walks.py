"""Kernels of labelled graphs, compared with walks one by one."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline

from rankwise import (
    KPCR,
    RLS,
    AutoRanker,
    GraphWalks,
    KPCRank,
    MeanRanker,
    RankingSearchCV,
    RankRLS,
    RankSVM,
    SparseRankRLS,
    SparseRLS,
    TransductiveRankRLS,
    WalkKernel,
    WeisfeilerLehman,
    load_model,
    save_model,
)
from rankwise.errors import DataError, ParameterError, RankwiseWarning
from rankwise.model_selection import cross_validate, leave_query_out
from rankwise.walks import GraphReader, LabelledGraphs
from tests.oracles.walks import neighbourhoods, walk_counts, walk_kernel


@st.composite
def graphs(draw, max_nodes=4, max_edges=4):
    """(labels, edges) with few labels, so that walks agree; loops and parallel edges as well."""
    labels = draw(st.lists(st.sampled_from("ab"), min_size=1, max_size=max_nodes))
    node = st.integers(0, len(labels) - 1)
    edge = st.one_of(st.tuples(node, node), st.tuples(node, node, st.sampled_from([None, "x", 2])))
    return labels, draw(st.lists(edge, max_size=max_edges))


def some_graphs(n=12, seed=0):
    """Trees with labelled edges."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        size = int(rng.integers(3, 9))
        labels = rng.choice(list("CNO"), size, p=[0.6, 0.2, 0.2]).tolist()
        edges = [(int(rng.integers(i)), i, str(rng.choice(["-", "="]))) for i in range(1, size)]
        found.append((labels, edges))
    return found


@given(
    st.lists(graphs(), min_size=1, max_size=3),
    st.sampled_from(["all", "ends"]),
    st.integers(0, 3),
    st.booleans(),
)
def test_the_kernel_is_the_sum_over_pairs_of_walks(given_graphs, kind, length, directed):
    kernel = WalkKernel(0.3, kind, length, directed, normalize=False)
    want = [
        [walk_kernel(g, h, 0.3, kind, length, directed) for h in given_graphs] for g in given_graphs
    ]
    assert_allclose(kernel(given_graphs), want, rtol=1e-12)
    assert_allclose(kernel(given_graphs, given_graphs[:1]), np.array(want)[:, :1], rtol=1e-12)
    assert_allclose(kernel.diag(given_graphs), np.diag(want), rtol=1e-12)
    counts = GraphWalks(length, labels=kind, decay=0.3, directed=directed)
    X = counts.fit_transform(given_graphs)
    assert_allclose((X @ X.T).toarray(), want, rtol=1e-12)
    again = counts.transform(given_graphs)
    assert_allclose(again.toarray(), X.toarray())


@given(st.lists(graphs(), min_size=2, max_size=3), st.sampled_from(["all", "ends"]))
def test_walks_of_all_lengths_are_the_limit(given_graphs, kind):
    decay = 0.002  # edges may be parallel: up to eight arcs leave a node
    want = [[walk_kernel(g, h, decay, kind, 4) for h in given_graphs] for g in given_graphs]
    own = np.sqrt(np.diag(want))
    found = WalkKernel(decay, kind)(given_graphs)
    assert_allclose(found, want / own[:, None] / own, atol=1e-4)
    # Walks of one more arc change little: the sum has converged.
    longer = WalkKernel(decay, kind, max_length=60)(given_graphs)
    assert_allclose(found, longer, rtol=1e-13)


@pytest.mark.parametrize("kind", ["all", "ends"])
def test_walks_of_all_lengths_in_closed_form(kind):
    # A single edge between equal labels: the product graph has four nodes of degree one.
    edge = (["a", "a"], [(0, 1)])
    found = WalkKernel(0.5, kind, normalize=False)([edge])
    assert_allclose(found, 4 / (1 - 0.5))


@given(st.lists(graphs(), min_size=1, max_size=3))
def test_names_are_the_labels_of_walks(given_graphs):
    counts = GraphWalks(2).fit(given_graphs)
    values = counts.transform(given_graphs[:1]).toarray()[0]
    row = dict(zip(counts.get_feature_names_out(), values, strict=True))
    for length in range(3):
        for walk, number in walk_counts(given_graphs[0], length, "all").items():
            name = " ".join("-" if part is None else str(part) for part in walk)
            assert row[name] == number


@given(st.lists(graphs(), min_size=1, max_size=3), st.integers(0, 3))
def test_neighbourhoods_are_the_labels_of_weisfeiler_and_lehman(given_graphs, n_rounds):
    X = WeisfeilerLehman(n_rounds).fit_transform(given_graphs)
    rounds = [neighbourhoods(g, n_rounds) for g in given_graphs]
    want = [
        [
            sum(a[key] * b[key] for a, b in zip(one, other, strict=True) for key in a)
            for other in rounds
        ]
        for one in rounds
    ]
    assert_allclose((X @ X.T).toarray(), want)


@given(st.lists(graphs(), min_size=1, max_size=4))
def test_rows_are_graphs(given_graphs):
    read = GraphReader().read(given_graphs)
    again = LabelledGraphs.from_rows(read.to_rows())
    for one, other in zip(read.arrays, again.arrays, strict=True):
        assert np.array_equal(one, other)


def test_all_forms_of_a_graph_are_the_same():
    labels, edges = ["C", "C", "O"], [(0, 1), (1, 2, 2)]
    matrix = sp.csr_array(([1, 1, 2, 2], ([0, 1, 1, 2], [1, 0, 2, 1])), shape=(3, 3))
    forms = [(labels, edges), (labels, matrix), (labels, matrix.toarray())]
    K = WalkKernel(0.1, normalize=False)(forms)
    assert_allclose(K, K[0, 0])
    one_way = (labels, sp.csr_array(([1, 2], ([0, 1], [1, 2])), shape=(3, 3)))
    found = WalkKernel(0.1, normalize=False)([one_way], forms[:1])
    want = walk_kernel((labels, edges), (labels, [(0, 1), (1, 0), (1, 2, 2), (2, 1, 2)]), 0.1,
                       "all", 3, directed=True)  # fmt: skip
    assert_allclose(found, want)


def test_networkx_graphs():
    networkx = pytest.importorskip("networkx")
    undirected = networkx.Graph()
    undirected.add_node("first", label="C")
    undirected.add_node("second", label="O")
    undirected.add_edge("first", "second", label="=")
    same = (["C", "O"], [(0, 1, "=")])
    assert_allclose(WalkKernel()([undirected, same])[0, 1], 1.0)
    K = WalkKernel(0.1, normalize=False)([undirected.to_directed(), networkx.DiGraph(undirected)])
    assert_allclose(K, K[0, 0])
    undirected.add_node("third")
    with pytest.raises(DataError, match="'third' of graph 0 has no attribute 'label'"):
        WalkKernel()([undirected])


RANKERS = [
    RankRLS(1.0),
    RLS(1.0),
    SparseRankRLS(1.0, n_landmarks=12, random_state=0),
    SparseRLS(1.0, n_landmarks=12, random_state=0),
    KPCRank(3),
    KPCR(3),
    RankSVM(n_landmarks=12, random_state=0),
]


@pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: type(ranker).__name__)
def test_every_ranker_takes_graphs(ranker, tmp_path):
    train, new = some_graphs(), some_graphs(5, seed=1)
    y = np.array([labels.count("O") for labels, _ in train], dtype=float)
    kernel = WalkKernel(0.05)
    fitted = ranker.set_params(kernel=kernel).fit(train, y)
    scores = fitted.predict(new)
    assert scores.shape == (5,)
    assert_allclose(fitted.predict(kernel.as_rows(new)), scores)
    assert_allclose(load_model(save_model(fitted, tmp_path / "a.rankwise")).predict(new), scores)
    if isinstance(ranker, (RankRLS, RLS)):
        ranker.set_params(kernel="precomputed").fit(kernel(train), y)
        assert_allclose(ranker.predict(kernel(new, train)), scores)


def test_features_of_short_walks_rank_as_the_kernel_does():
    train, new, y = some_graphs(), some_graphs(5, seed=1), np.arange(12.0)
    walks = GraphWalks(3, decay=0.1)
    linear = RankRLS(1.0).fit(walks.fit_transform(train), y)
    kernel = RankRLS(1.0, kernel=WalkKernel(0.1, max_length=3, normalize=False)).fit(train, y)
    seen = kernel.predict(new)
    assert_allclose(linear.predict(walks.transform(new)), seen, rtol=1e-8)


def test_exact_hold_outs_and_searches():
    train, qid = some_graphs(), np.repeat([0, 1, 2], 4)
    y = np.arange(12.0) % 4
    kernels = [WalkKernel(0.05), WalkKernel(0.05, "ends")]
    held = leave_query_out(RankRLS(kernel=kernels[1]), train, y, qid=qid, alphas=[0.5])
    left = np.flatnonzero(qid == 2)
    rest = [train[i] for i in np.flatnonzero(qid != 2)]
    refit = RankRLS(0.5, kernel=kernels[1]).fit(rest, y[qid != 2], qid=qid[qid != 2])
    got = refit.predict([train[i] for i in left])
    assert_allclose(np.diff(held.predictions[0, left]), np.diff(got), rtol=1e-8, atol=1e-10)
    rows = kernels[0].as_rows(train)
    search = RankingSearchCV(RankRLS(1.0), {"kernel": kernels}).fit(rows, y, qid=qid)
    assert search.best_params_["kernel"] in kernels


def test_searches_and_means_take_lists_of_graphs():
    X, y, qid = some_graphs(24), np.arange(24) % 5, np.repeat(np.arange(6), 4)
    rows = WalkKernel(0.05).as_rows(X)
    grid = {"kernel": [WalkKernel(0.02), WalkKernel(0.05)], "alpha": [0.1, 1.0]}
    search = RankingSearchCV(RankRLS(), grid).fit(X, y, qid=qid)
    same = RankingSearchCV(RankRLS(), grid).fit(rows, y, qid=qid)
    assert_allclose(
        search.cv_results_["mean_test_score"], same.cv_results_["mean_test_score"], rtol=1e-10
    )
    assert_allclose(search.predict(X), same.predict(rows), rtol=1e-10)
    pipeline = make_pipeline(GraphWalks(), RankRLS(1.0))
    found = cross_validate(pipeline, X, y, qid=qid, cv=3)
    counts = make_pipeline(GraphWalks(1), RankRLS(1.0))
    assert found != cross_validate(counts, X, y, qid=qid, cv=3)
    mean = MeanRanker([RankRLS(1.0, kernel=WalkKernel(decay)) for decay in (0.02, 0.05)])
    assert np.isfinite(mean.fit(X, y, qid=qid).predict(X, qid=qid)).all()
    pairs = [(0, 1), (2, 3)]  # not linked: rows are compared for a warning
    with pytest.warns(RankwiseWarning, match="2 parts"):
        RankRLS(1.0, kernel=WalkKernel()).fit_pairs([(label, []) for label in "abcd"], pairs)
    for ranker in (RankRLS(1.0), AutoRanker()):
        with pytest.raises(DataError, match="X has graphs, and not rows of numbers: use kernel="):
            ranker.fit(X, y, qid=qid)


def test_names_are_distinct():
    graphs = [([1, "1"], [(0, 1)])]
    assert set(GraphWalks(1).fit(graphs).get_feature_names_out()) == {
        "1", "'1'", "1 - '1'", "'1' - 1",
    }  # fmt: skip
    names = GraphWalks(1).fit([(["C", "C - C"], []), ("CC", [(0, 1)])]).get_feature_names_out()
    assert len(set(names)) == len(names) == 3


def test_saved_counts(tmp_path):
    from sklearn.pipeline import make_pipeline

    train, y = some_graphs(), np.arange(12.0)
    for counts in (GraphWalks(), WeisfeilerLehman()):
        model = make_pipeline(counts, RankRLS(1.0)).fit(train, y)
        again = load_model(save_model(model, tmp_path / "model.rankwise"))
        assert_allclose(again.predict(train), model.predict(train))


GRAPH = (["a", "b"], [(0, 1)])


@pytest.mark.parametrize(
    ("graphs", "words"),
    [
        ([], "There are no graphs"),
        ("graphs", "must be a list: got str"),
        ([GRAPH, 3], "Graph 1 is a int"),
        ([([], [])], "Graph 0 has no nodes"),
        ([(["a"], [(0, 1)])], r"edge \(0, 1\) of graph 0 must join two of the nodes 0 to 0"),
        ([(["a"], [0])], "An edge of graph 0 is 0"),
        ([(["a", 1.5], [])], "label of node 1 of graph 0 is 1.5"),
        ([(["a", "b"], np.eye(3))], r"must have a row and a column for each of its 2 labels"),
        ([(["a", "b"], np.full((2, 2), 0.5))], "not whole numbers"),
        ([(["a", "b"], np.full((2, 2), np.inf))], "not whole numbers"),
        ([({"a", "b"}, [(0, 1)])], "Graph 0 is a tuple"),
        ([(2, [(0, 1)])], "Graph 0 is a tuple"),
        (sp.eye_array(3, format="csr"), "not a list of graphs"),
    ],
)
def test_bad_graphs_in_words(graphs, words):
    with pytest.raises(DataError, match=words):
        RankRLS(1.0, kernel=WalkKernel()).fit(graphs, [1, 2])


def test_bad_rows_in_words():
    rows = WalkKernel().as_rows([GRAPH, GRAPH])
    for position, value in ((0, 5.0), (-3, 4.0), (1, 0.5)):
        damaged = rows.copy()
        damaged.data[position] = value
        with pytest.raises(DataError, match="not labelled graphs"):
            WalkKernel()(damaged)


def test_bad_parameters_in_words():
    star = ("abbbbbbbbb", [(0, i) for i in range(1, 10)])
    with pytest.raises(DataError, match=r"decay=0.3 is too large .* graph 1, .* decay below 0.11"):
        WalkKernel(0.3)([GRAPH, star])
    assert np.isfinite(WalkKernel(0.3, max_length=20)([GRAPH, star])).all()
    with pytest.raises(ParameterError, match="labels must be"):
        WalkKernel(labels="none")([GRAPH])
    with pytest.raises(ParameterError, match="decay must be"):
        RankRLS(1.0, kernel=WalkKernel(-1)).fit([GRAPH, star], [1, 2])
    with pytest.raises(ParameterError, match="max_length must be"):
        GraphWalks(-1).fit([GRAPH])
    with pytest.raises(ParameterError, match="scales the features of rows"):
        RankRLS(1.0, kernel=WalkKernel(), scale="standard").fit([GRAPH, star], [1, 2])
    with pytest.raises(ParameterError, match="needs features to find neighbours"):
        TransductiveRankRLS(kernel=WalkKernel()).fit([GRAPH, star], [1, 2])
    with pytest.raises(ParameterError, match="needs features"):
        SparseRankRLS(1.0, kernel=WalkKernel(), n_landmarks=1, landmarks="kmeans").fit(
            [GRAPH, star], [1, 2]
        )
