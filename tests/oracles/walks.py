"""Walks of labelled graphs, one by one."""

from collections import Counter


def arcs(graph, directed=False):
    """(tail, head, label) of a graph (labels, edges)."""
    _, edges = graph
    found = [(edge[0], edge[1], edge[2] if len(edge) == 3 else None) for edge in edges]
    if directed:
        return found
    return found + [(j, i, label) for i, j, label in found if i != j]


def walks(graph, length, directed=False):
    """All walks with so many arcs, as lists of nodes and labels of arcs."""
    labels, _ = graph
    found = [[node] for node in range(len(labels))]
    for _ in range(length):
        found = [
            [*walk, label, head]
            for walk in found
            for tail, head, label in arcs(graph, directed)
            if tail == walk[-1]
        ]
    return found


def described(graph, walk, kind):
    """The labels by which walks are compared."""
    labels, _ = graph
    if kind == "ends":
        return labels[walk[0]], labels[walk[-1]]
    return tuple(labels[part] if k % 2 == 0 else part for k, part in enumerate(walk))


def walk_counts(graph, length, kind, directed=False):
    """How many walks of a length have the same labels."""
    return Counter(described(graph, walk, kind) for walk in walks(graph, length, directed))


def walk_kernel(first, second, decay, kind, max_length, directed=False):
    """The sum over pairs of walks with the same labels."""
    total = 0.0
    for length in range(max_length + 1):
        one, other = (walk_counts(g, length, kind, directed) for g in (first, second))
        total += decay**length * sum(one[key] * other[key] for key in one)
    return total


def neighbourhoods(graph, n_rounds):
    """Labels of Weisfeiler and Lehman, written out as nested tuples, for each round."""
    labels, _ = graph
    own = list(labels)
    found = [Counter(own)]
    for _ in range(n_rounds):
        around = [
            sorted(repr((label, own[head])) for tail, head, label in arcs(graph) if tail == node)
            for node in range(len(labels))
        ]
        own = [(own[node], tuple(around[node])) for node in range(len(labels))]
        found.append(Counter(own))
    return found
