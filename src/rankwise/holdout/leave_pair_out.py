"""Leave-pair-out: exact hold-outs of every pair of a query, in O(1) time for each pair.

The formulas are in pair_systems.py; here, they are applied to pairs of queries, of levels of equal
labels, and of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from rankwise.backends.arrays import Array, Index, backend_of, to_host
from rankwise.backends.parallel import map_in_threads, threads_for
from rankwise.errors import DataError, ParameterError
from rankwise.graph import QueryGroups
from rankwise.holdout.hold_out_problem import (
    HoldOutProblem,
    Pairs,
    explained_rounding,
    lost_in_rounding,
    on_coordinates,
    pairs_within,
)
from rankwise.holdout.leave_query_out import Conditional, dual_conditionals, primal_conditionals
from rankwise.holdout.pair_differences import (
    FEW_ENTRIES,
    add_losses,
    block_differences,
    listed_differences,
    right_without,
    settled,
)
from rankwise.holdout.pair_systems import Laplacian, PairSystem
from rankwise.problem import Coordinates, Loss
from rankwise.solvers.ridge_path import dual, primal

LIST_PAIRS = 2**18  # listed pairs processed at a time
BLOCK_ENTRIES = 2**20  # of the systems of two levels or groups processed at a time
BLOCK_BYTES = 8 * 2**20  # of P computed at a time


class PairDifferences(NamedTuple):
    """f(first) - f(second) with both rows held out, shape (n_pairs, n_outputs)."""

    first: Index
    second: Index
    difference: Array  # on a device, the indices of all pairs are on the device as well


def query_pairs(
    query: Conditional, labels: Array, loss: Loss, lam: float, pairs: Index | None = None
) -> Iterator[PairDifferences]:
    """Predictions for pairs of one query, each by a fit without its two rows.

    Parameters
    ----------
    query : Conditional
    labels : ndarray of shape (n,)
        They define which pairs are tied; not used if tied pairs count.
    loss : Loss
    lam : float
    pairs : ndarray of shape (n_pairs, 2), optional
        Positions in ``query.rows``. None: all pairs or, if tied pairs do not count, all pairs
        with different labels.
    """
    level = np.unique(labels, return_inverse=True)[1]
    if loss.ties == "include" or level.max() + 1 == len(level):  # all labels differ
        parts = _all_pairs_count(query, loss, lam, pairs)
    elif _one_system_is_faster(query, level, pairs):
        parts = _one_system(query, level, loss, lam, pairs)
    else:
        parts = _systems_of_levels(query, level, loss, lam, pairs)
    for first, second, difference in parts:
        before = query.prediction[first] - query.prediction[second]
        terms = query.prediction, query.target
        size = sum(abs(term[first]) + abs(term[second]) for term in terms)
        total = settled(before + difference, size, query.tied)
        rows = query.rows if isinstance(first, np.ndarray) else backend_of(first).index(query.rows)
        yield PairDifferences(rows[first], rows[second], total)


def ranking_system(query: Conditional, loss: Loss, lam: float, left: int) -> PairSystem | None:
    """The system of a query all of whose pairs count, if `left` rows are left.

    None if nothing can be learned from them. lam is divided by the weight of a pair. If m - 2 rows
    are left and weighting="rows", the paper's lambda is (m - 2) lam.
    """
    if left < 2:
        return None
    lam = lam / (query.weight * loss.weight(left, left * (left - 1) // 2))
    return PairSystem.of(query, Laplacian.of_all_pairs(len(query.rows), left), lam)


def _level_system(
    query: Conditional, level: Index, left: Index, loss: Loss, lam: float
) -> PairSystem | None:
    """The same, if tied pairs do not count and `left` rows of each level are left."""
    if np.count_nonzero(left) < 2:
        return None
    n_pairs = int(left.sum() ** 2 - (left**2).sum()) // 2
    lam = lam / (query.weight * loss.weight(int(left.sum()), n_pairs))
    return PairSystem.of(query, Laplacian.of_levels(level, left), lam)


def _all_pairs_count(
    query: Conditional, loss: Loss, lam: float, pairs: Index | None
) -> Iterator[PairDifferences]:
    """One system serves all pairs."""
    n = len(query.rows)
    system = ranking_system(query, loss, lam, n - 2)
    if system is not None and pairs is None:
        for start, P in system.blocks():
            given = P, start, system.diagonal, system.y, system.Py, system.P.tied
            yield PairDifferences(*block_differences(*given))
        return
    listed = np.column_stack(np.triu_indices(n, 1)) if pairs is None else pairs
    yield from _listed(system, listed, query)


def _systems_of_levels(
    query: Conditional, level: Index, loss: Loss, lam: float, pairs: Index | None
) -> Iterator[PairDifferences]:
    """A system for each pair of levels: all of their pairs leave the same numbers of rows."""
    sizes = np.bincount(level)
    ordered = None if pairs is None else np.sort(level[pairs], axis=1)
    if ordered is None:
        of_levels = list(combinations(range(len(sizes)), 2))
    else:
        of_levels = [tuple(both) for both in np.unique(ordered, axis=0).tolist()]
    for p, q in of_levels:
        left = sizes.copy()
        left[p] -= 1
        left[q] -= 1
        system = _level_system(query, level, left, loss, lam)
        if ordered is None:
            first, second = np.flatnonzero(level == p), np.flatnonzero(level == q)
            step = max(1, LIST_PAIRS // len(second))
            for start in range(0, len(first), step):
                yield from _grid(system, first[start : start + step], second, query)
        else:
            assert pairs is not None
            yield from _listed(system, pairs[(ordered == (p, q)).all(axis=1)], query)


def _listed(
    system: PairSystem | None, pairs: Index, query: Conditional
) -> Iterator[PairDifferences]:
    """Differences of listed pairs; 0 if nothing was learned, as the other queries predict."""
    for start in range(0, len(pairs), LIST_PAIRS):
        first, second = np.ascontiguousarray(pairs[start : start + LIST_PAIRS].T)
        if system is None:
            out = backend_of(query.target).zeros(len(first), query.target.shape[1])
        else:
            out = system.differences(first, second)
        yield PairDifferences(first, second, out)


def _grid(
    system: PairSystem | None, first: Index, second: Index, query: Conditional
) -> Iterator[PairDifferences]:
    """Differences of every row of `first` and every row of `second`."""
    i, j = np.repeat(first, len(second)), np.tile(second, len(first))
    if system is None:
        yield from _listed(None, np.column_stack((i, j)), query)
    else:
        entries, p, q = system.P.grid(first, second), *system.laplacian.level[[first[0], second[0]]]
        S = system.level_sums[p] - system.level_sums[q]
        factors = (1.0 + S)[i], (1.0 - S)[j]
        given = entries.reshape(-1), system.diagonal, system.base, system.Py, i, j, factors
        yield PairDifferences(i, j, listed_differences(*given, system.P.tied))


def _one_system(
    query: Conditional, level: Index, loss: Loss, lam: float, pairs: Index | None
) -> Iterator[PairDifferences]:
    """One system for all pairs of levels, in which d_l = n_left - n_l for all rows n_l of a level.

    Without one row of level p and one of level q, their degrees are larger by 1, and D~^-1 is
    smaller by E = (I - 11'/n_left) / (d_l (d_l + 1)) on the rows V of the two levels. So P becomes

        P_VV <- (I - P_VV E)^-1 P_VV,

    and P y likewise. Two rows of the same level have d_l + 2 instead. If the weight of a pair
    depends on the number of pairs, there is a system for each of these numbers.
    """
    levels, n_left = QueryGroups.of(level), len(level) - 2
    sizes = levels.sizes
    total = (len(level) ** 2 - int((sizes**2).sum())) // 2
    system, of_system = None, 0.0
    for block in _blocks(levels, pairs):
        held = np.array([1, 1] if len(block.sizes) == 2 else [2])
        lost = int((held * (len(level) - np.array(block.sizes))).sum()) - (len(held) == 2)
        effective = lam / (query.weight * loss.weight(n_left, total - lost))
        if effective != of_system:
            laplacian = Laplacian(n_left, np.asarray(n_left - sizes, float), levels.codes, False)
            system, of_system = PairSystem.of(query, laplacian, effective), effective
        first, second = block.pairs()
        if system is None:
            yield from _listed(None, np.column_stack((first, second)), query)
        else:
            yield PairDifferences(first, second, _block_differences(system, block, held))


def _block_differences(system: PairSystem, block: SetPairs, held: Index) -> Array:
    """The update of `_one_system`, and (ii) of pair_systems.py for the pairs of each line."""
    on, (b, s), n_left = backend_of(system.y), block.rows.shape, system.laplacian.n_left
    P, Py = system.P.block(block.rows), system.Py[block.rows]
    side = np.repeat(np.arange(len(block.sizes)), block.sizes)  # the level of each column
    same = (side[:, None] == side).astype(float)
    d = n_left - np.array(block.sizes, float)
    E = (held / (d * (d + held)))[side] * (np.eye(s) - same / n_left)
    both = on.solve(on.eye(s) - P @ on.array(E), on.xp.concatenate((P, Py), axis=2))
    P, Py = both[:, :, :s], both[:, :, s:]
    # Sums over the level of each row, divided by its d n_left, which is now larger.
    over_level = on.array(same / ((d + held)[side] * n_left)[:, None])
    S, base = over_level @ P, system.y[block.rows.ravel()] + (over_level @ Py).reshape(b * s, -1)

    def entries(M: Array, rows: Index, columns: Index) -> Array:
        return on.contiguous(M.reshape(b * s, s)[rows, columns % s])

    i, j, every = block.first, block.second, np.arange(b * s)
    h_i = 1.0 + entries(S, i, i) - entries(S, j, i)
    h_j = 1.0 + entries(S, j, j) - entries(S, i, j)
    Py, diagonal = on.contiguous(Py.reshape(b * s, -1)), entries(P, every, every)
    given = entries(P, i, j), diagonal, base, Py, i, j, (h_i, h_j)
    return listed_differences(*given, system.P.tied)


def _one_system_is_faster(query: Conditional, level: Index, pairs: Index | None) -> bool:
    """Whether blocks of two levels take fewer operations than a system for each pair of levels.

    The one system exists if every level leaves others at least one row, without two rows.
    """
    sizes = np.bincount(level)
    if sizes.max() >= len(level) - 2:
        return False
    if pairs is None:
        size, times = np.unique(sizes, return_counts=True)
        both = (size[:, None] + size).ravel()
        count = (times[:, None] * times - np.diag(times)).ravel() / 2
    else:
        p, q = np.unique(np.sort(level[pairs], axis=1), axis=0).T
        both = sizes[p] + np.where(p == q, 0, sizes[q])
        count = np.ones(len(both))
    n = width = len(level)
    if query.features is not None:
        width = min(n, query.features.shape[1] + len(sizes))
    blocks = (count * (1e4 + 5.0 * both.astype(np.float64) ** 3)).sum()
    return bool(blocks < (count.sum() - 1.0) * (1e7 + 2.0 * n * width**2))


def group_pairs(
    query: Conditional,
    labels: Array,
    loss: Loss,
    lams: Sequence[float],
    pairs: Index,
    groups: QueryGroups,
) -> Iterator[tuple[int, PairDifferences]]:
    """Predictions for listed pairs of rows of different groups, by fits without both groups.

    With the index of the lam of each block of pairs. There is a factorization for each number of
    rows that are left or, without tied pairs, for each set of numbers that the labels have left.
    """
    names, level = np.unique(labels, return_inverse=True)
    counts = np.zeros((groups.n_groups, len(names)), np.intp)
    np.add.at(counts, (groups.codes, level), 1)
    both, of_pair = _sets_of_pairs(groups, pairs)
    left = np.asarray(counts.sum(axis=0) - counts[both].sum(axis=1))
    _check_groups(left, both, groups)
    all_count = loss.ties == "include" or len(names) == len(labels)
    kinds, of_kind = np.unique(
        left.sum(axis=1)[:, None] if all_count else left, axis=0, return_inverse=True
    )
    for k, kind in enumerate(kinds):
        blocks = list(_blocks(groups, pairs[of_kind.ravel()[of_pair] == k]))
        for a, lam in enumerate(lams):
            if all_count:
                system = ranking_system(query, loss, lam, int(kind[0]))
            else:
                system = _level_system(query, level, kind, loss, lam)
            for block in blocks:
                first, second = block.pairs()
                if system is None:
                    out = backend_of(query.target).zeros(len(first), query.target.shape[1])
                else:
                    f, size = system.without(block.rows)
                    f, line = f.reshape(block.rows.size, -1), block.first // block.rows.shape[1]
                    out = settled(f[block.first] - f[block.second], size[line], system.P.tied)
                yield a, PairDifferences(first, second, out)


def _check_groups(left: Index, both: Index, groups: QueryGroups) -> None:
    """Without two groups, rows with different labels must be left."""
    nothing = np.flatnonzero((left > 0).sum(axis=1) < 2)
    if len(nothing):
        one, two = groups.names[both[nothing[0]]]
        raise DataError(
            f"Without the groups {one} and {two}, no rows with different labels are left to learn "
            "from. Every label needs rows in at least three groups or, if the rows of each group "
            "have the same label, in two."
        )


class SetPairs(NamedTuple):
    """Lines with the rows of two sets of the same sizes, or of one, and pairs of rows in them.

    `first` and `second` are positions in ``rows.ravel()``.
    """

    rows: Index
    sizes: tuple[int, ...]
    first: Index
    second: Index

    def pairs(self) -> tuple[Index, Index]:
        """The rows of the pairs."""
        flat = self.rows.ravel()
        return flat[self.first], flat[self.second]


def _blocks(sets: QueryGroups, pairs: Index | None) -> Iterator[SetPairs]:
    """Listed pairs, or all pairs of different sets, in blocks of sets of the same sizes."""
    if pairs is not None:
        yield from _blocks_of(sets, *_sets_of_pairs(sets, pairs), pairs)
        return
    step = max(1, LIST_PAIRS // sets.n_groups)
    for start in range(0, sets.n_groups, step):
        later = np.arange(sets.n_groups) > np.arange(start, sets.n_groups)[:step, None]
        p, q = np.nonzero(later)
        yield from _blocks_of(sets, np.column_stack((p + start, q)), None, None)


def _sets_of_pairs(sets: QueryGroups, pairs: Index) -> tuple[Index, Index]:
    """The two sets of listed pairs, without repetitions, and which of them each pair has."""
    both, of_pair = np.unique(np.sort(sets.codes[pairs], axis=1), axis=0, return_inverse=True)
    return both, of_pair.ravel()


def _blocks_of(
    sets: QueryGroups, both: Index, of_pair: Index | None, pairs: Index | None
) -> Iterator[SetPairs]:
    position = np.empty(sets.n_rows, np.intp)
    position[sets.order] = np.arange(sets.n_rows) - np.repeat(sets.indptr[:-1], sets.sizes)
    sizes = sets.sizes[both]
    sizes[both[:, 0] == both[:, 1], 1] = 0
    kinds, of_kind = np.unique(sizes, axis=0, return_inverse=True)
    if of_pair is not None:
        by_pair = np.argsort(of_pair, kind="stable")
        ends = np.searchsorted(of_pair[by_pair], np.arange(len(both) + 1))
    for k in np.argsort(kinds.sum(axis=1), kind="stable"):
        n_p, n_q = kinds[k].tolist()
        s, members = n_p + n_q, np.flatnonzero(of_kind.ravel() == k)
        step = max(1, BLOCK_ENTRIES // s**2)
        for start in range(0, len(members), step):
            part = both[members[start : start + step]]
            starts = sets.indptr[part]
            rows = sets.order[starts[:, :1] + np.arange(n_p)]
            rows = np.hstack((rows, sets.order[starts[:, 1:] + np.arange(n_q)]))
            if pairs is None:
                line = np.arange(len(part))[:, None] * s
                i, j = np.repeat(np.arange(n_p), n_q), n_p + np.tile(np.arange(n_q), n_p)
                first, second = (line + i).ravel(), (line + j).ravel()
            else:
                chosen = members[start : start + step]
                listed = np.concatenate([by_pair[ends[m] : ends[m + 1]] for m in chosen])
                line = np.repeat(np.arange(len(part)), ends[chosen + 1] - ends[chosen])
                second_set = sets.codes[pairs[listed]] != part[line, :1]
                columns = position[pairs[listed]] + np.where(second_set, n_p, 0)
                first, second = (line[:, None] * s + columns).T
            yield SetPairs(rows, (n_p, n_q) if n_q else (n_p,), first, second)


def pair_differences(
    problem: HoldOutProblem, task: int, pairs: Pairs
) -> Iterator[tuple[int, PairDifferences]]:
    """(index of the alpha, differences of held-out pairs), block by block."""
    check_pairs(problem, task, pairs)
    with explained_rounding():
        if problem.loss.has_intercept or problem.groups.n_groups == 1:
            blocks = _one_ranking(problem, task, pairs)
        else:
            blocks = chain(
                _queries_with_pairs(problem, task, pairs),
                _queries_without_pairs(problem, task, pairs),
            )
        for a, block in blocks:
            if not backend_of(block.difference).is_finite(block.difference):
                raise lost_in_rounding()
            yield a, block


def all_pair_losses(
    problem: HoldOutProblem, task: int, pairs: Pairs, labels: Array
) -> list[tuple[Array, Array]] | None:
    """The losses of all pairs of one ranking that count, as `add_losses`, for each alpha.

    They are summed in threads, without arrays of pairs. None if the pairs are not all pairs, or
    few.
    """
    loss, n = problem.loss, len(labels)
    many = backend_of(labels).is_host and n**2 > FEW_ENTRIES
    one = problem.groups.n_groups == 1 and pairs.groups is None and pairs.among is None
    if not (many and one) or pairs.listed is not None:
        return None
    distinct = labels.shape[1] == 1 and len(np.unique(labels)) == n
    if loss.ties != "include" and not distinct:
        return None
    check_pairs(problem, task, pairs)
    found = []
    with explained_rounding():
        query = one_ranking(problem, task)
        for lam in problem.lams:
            system = ranking_system(query, loss, lam, n - 2)
            if system is None:
                return None
            found.append(system.all_losses(labels))
    return found


def check_pairs(problem: HoldOutProblem, task: int, pairs: Pairs) -> None:
    """What remains without a pair must determine a ranking."""
    if pairs.groups is None:
        _check_rest(problem, task, pairs)
    if problem.alphas.min() == 0:
        _check_without_alpha(problem)


def _check_without_alpha(problem: HoldOutProblem) -> None:
    """With alpha = 0, the remaining rows must determine the weights of all components."""
    if not problem.loss.has_intercept and problem.groups.n_groups > 1:
        raise ParameterError(
            "With queries, pairs cannot be held out exactly at alpha = 0: use a small alpha above "
            "0, or leave_query_out."
        )
    if problem.loss.ties == "exclude":
        raise ParameterError(
            'With ties="exclude", pairs cannot be held out exactly at alpha = 0: use a small alpha '
            'above 0, or ties="include".'
        )
    n_components, most = problem.coordinates.features.shape[1], len(problem.y) - 3
    if n_components > most:
        raise ParameterError(
            f"At alpha = 0, the {most + 1} rows that remain without a pair determine the weights "
            f"of at most {most} components: got {n_components}. Use fewer components, or an alpha "
            "above 0."
        )


def _queries_with_pairs(
    problem: HoldOutProblem, task: int, pairs: Pairs
) -> Iterator[tuple[int, PairDifferences]]:
    """Pairs of queries with pairs that count, each query conditional on the others."""
    graph, y, loss = problem.graph(task), problem.targets(task), problem.loss
    space, lams = problem.coordinates, problem.lams
    if space.kernel is not None:
        queries = dual_conditionals(backend_of(y).copy(space.kernel), graph, y, lams)
    else:
        queries = primal_conditionals(space.features, graph, y, lams)
    for a, query in queries:
        listed = pairs.of_query(query.rows, problem.groups.codes, loss)
        if listed is None or len(listed):
            labels = to_host(y[query.rows, 0])
            for block in query_pairs(query, labels, loss, lams[a], listed):
                yield a, block


def _queries_without_pairs(
    problem: HoldOutProblem, task: int, pairs: Pairs
) -> Iterator[tuple[int, PairDifferences]]:
    """Pairs of queries without pairs that count: holding them out does not change the fit."""
    graph, y, loss = problem.graph(task), problem.targets(task), problem.loss
    without_pairs = graph.pairs_of_query[graph.groups.codes] == 0
    chosen = []
    for rows in problem.groups:
        if without_pairs[rows[0]] and len(rows) > 1:
            listed = pairs.of_query(rows, problem.groups.codes, loss)
            if listed is not None and len(listed):
                chosen.append(rows[listed])
    if not chosen:
        return
    first, second = np.concatenate(chosen).T
    space, lams = problem.coordinates, problem.lams
    if space.kernel is not None:
        K = backend_of(y).copy(space.kernel)
        scores = [space.kernel @ a for a in dual(K, graph, y, lams)]
    else:
        scores = [space.features @ w for w in primal(space.features, graph, y, lams)]
    for a, f in enumerate(scores):
        yield a, PairDifferences(first, second, f[first] - f[second])


def _one_ranking(
    problem: HoldOutProblem, task: int, pairs: Pairs
) -> Iterator[tuple[int, PairDifferences]]:
    """Pairs within queries, held out of one ranking of all rows."""
    groups, loss = problem.groups, problem.loss
    query = one_ranking(problem, task)
    labels = to_host(query.target[:, 0])
    if pairs.groups is not None:
        assert pairs.listed is not None
        chosen = pairs.listed
        if query.target.shape[1] == 1 and not pairs.keep_ties:  # the others are of other outputs
            chosen = chosen[labels[chosen[:, 0]] != labels[chosen[:, 1]]]
        if len(chosen):
            yield from group_pairs(query, labels, loss, problem.lams, chosen, pairs.groups)
        return
    if groups.n_groups == 1:
        listed = pairs.of_query(query.rows, groups.codes, loss)
    elif pairs.listed is not None:
        listed = pairs.listed
    else:
        listed = pairs_within(groups, "query")
    for a, alpha in enumerate(problem.alphas):
        for block in query_pairs(query, labels, loss, float(alpha), listed):
            yield a, block


def one_ranking(problem: HoldOutProblem, task: int) -> Conditional:
    """All rows as one query, which depends on no other."""
    y, space = problem.targets(task), problem.coordinates
    on = backend_of(y)
    features = None if space.features is None else on.rows(space.features, slice(None))
    rows = np.arange(len(y))
    return Conditional(rows, on.zeros(*y.shape), y, kernel=space.kernel, features=features)


def _check_rest(problem: HoldOutProblem, task: int, pairs: Pairs) -> None:
    """After a pair is held out, at least one pair must remain in its query or in another."""
    graph, loss, m = problem.graph(task), problem.loss, len(problem.y)
    if problem.loss.has_intercept:
        if m < 4:
            raise DataError(f"Holding out pairs needs at least 4 rows: got {m}.")
        return
    if np.count_nonzero(graph.pairs_of_query) > 1:
        return
    q = int(np.argmax(graph.pairs_of_query))
    sizes = graph.level_sizes[graph.query_ptr[q] : graph.query_ptr[q + 1]]
    if loss.ties == "include":
        nothing = sizes.sum() - 2 < 2
    else:
        # In the worst case the two rows come from the smallest levels, or from the same level if
        # such pairs are held out.
        same = pairs.keep_ties
        if pairs.listed is not None:
            labels = to_host(problem.targets(task)[:, 0])
            same = bool((labels[pairs.listed[:, 0]] == labels[pairs.listed[:, 1]]).any())
        first, second = np.sort(sizes)[:2] if len(sizes) > 1 else (0, 0)
        rest = len(sizes) - 2
        nothing = rest == 0 and min(first, second) < 2
        nothing |= rest == 1 and max(first, second) < 2
        nothing |= same and len(sizes) == 2 and min(first, second) < 3
    if nothing:
        name = problem.groups.names[q]
        where = f" of query {name}" if problem.groups.n_groups > 1 else ""
        raise DataError(
            f"Holding out a pair{where} leaves no pair to learn from. Add rows of every label, or "
            "more queries."
        )


def pair_errors(
    loss: Array, compared: Array, groups: QueryGroups, units: QueryGroups | None = None
) -> tuple[Array, Array]:
    """Error and standard error from `PairHoldOut.losses`, shape (n_alphas, n_outputs).

    Rows of the same unit, such as a patient, count as one in the standard error of one ranking.
    """
    without_pairs = np.flatnonzero(compared.sum(axis=0) == 0)
    if len(without_pairs):
        of_output = "" if compared.shape[1] == 1 else f" in output {without_pairs[0]}"
        raise DataError(
            f"No pair with different labels was held out{of_output}. Check the labels, qid and "
            "pairs."
        )
    if groups.n_groups == 1:
        total = compared.sum(axis=0)
        error = loss.sum(axis=1) / total
        excess = loss - error[:, None] * compared
        if units is not None:
            excess = np.add.reduceat(excess[:, units.order], units.indptr[:-1], axis=1)
        # Each pair counts for both of its rows, so total is twice the number of pairs.
        return error, 2.0 * np.sqrt((excess**2).sum(axis=1)) / total
    starts = groups.indptr[:-1]
    by_query = np.add.reduceat(loss[:, groups.order], starts, axis=1)
    n_pairs = np.add.reduceat(compared[groups.order], starts, axis=0)
    error, spread = np.empty((2, len(loss), loss.shape[2]))
    for o in range(loss.shape[2]):
        defined = n_pairs[:, o] > 0
        values = by_query[:, defined, o] / n_pairs[defined, o]
        n = values.shape[1]
        error[:, o] = values.mean(axis=1)
        spread[:, o] = values.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.nan
    return error, spread


def shares_system(problem: HoldOutProblem) -> bool:
    """Whether P does not depend on the labels: one ranking, in which all pairs count.

    Without tied pairs, this is so if there are none.
    """
    labels = problem.labels[:, 0]
    all_count = problem.loss.ties == "include" or len(np.unique(labels)) == len(labels)
    return problem.groups.n_groups == 1 and all_count


Right = Callable[[int], float]


def training_effects(
    problem: HoldOutProblem,
    right: Array,
    compared: Array,
    units: Index,
    chosen: Index,
    pairs_of: Callable[[HoldOutProblem, Index], Pairs],
) -> Array:
    """For each chosen unit, how many pairs of other rows are in the right order through its rows.

    `right` has the outcomes of pairs that were held out of all rows. Without the rows of a unit,
    the same pairs are held out of fewer rows, exactly, and fewer of them may be in the right order.

    If units are rows and all pairs of one ranking count, the system of all rows serves for
    every row, in O(m^2) time each. Otherwise, there is a new system for each unit, on the
    coordinates of all rows; `pairs_of(problem, rows)` returns the pairs of the remaining rows to
    hold out of it.
    """
    if len(np.unique(units)) == len(units) and shares_system(problem):
        right_without_unit = _by_one_system(problem, compared)
    else:
        right_without_unit = _by_new_systems(problem, compared, units, pairs_of)

    def effect(unit: int) -> float:
        rest = (units != unit).astype(np.float64)
        return float(rest @ right @ rest) / 2 - right_without_unit(unit)

    return np.array(map_in_threads(effect, chosen.tolist(), threads_for(len(chosen) * right.size)))


def pair_credit(gap: Array, difference: Array) -> Array:
    """1 for the right order, 1/2 for tied predictions, 0 otherwise and for equal labels."""
    return np.asarray(np.where(gap == 0.0, 0.0, (1.0 + np.sign(difference * gap)) / 2))


def _by_one_system(problem: HoldOutProblem, compared: Array) -> Right:
    (lam,), n, labels = problem.lams, len(problem.y), problem.labels
    with explained_rounding():
        system = ranking_system(one_ranking(problem, 0), problem.loss, lam, n - 3)
    if system is None:  # all predictions are tied
        return lambda row: 0.5 * float(np.delete(np.delete(compared, row, 0), row, 1).sum()) / 2
    P = system.P.upper(0, n)
    P, y, Py = (np.ascontiguousarray(to_host(M)) for M in (P, system.y, system.Py))
    if not np.isfinite(Py).all():
        raise lost_in_rounding()
    tied = system.P.tied
    return lambda row: right_without(P, row, y, Py, labels[:, 0], compared, tied)


def _by_new_systems(
    problem: HoldOutProblem,
    compared: Array,
    units: Index,
    pairs_of: Callable[[HoldOutProblem, Index], Pairs],
) -> Right:
    on, given = backend_of(problem.y), problem.coordinates

    def right_without_unit(unit: int) -> float:
        rows = np.flatnonzero(units != unit)
        if given.kernel is not None:
            part = Coordinates(kernel=on.contiguous(given.kernel[rows][:, rows]))
        else:
            part = Coordinates(features=on.rows(given.features, rows))
        y, labels = problem.y[rows], problem.labels[rows, 0]
        rest = replace(problem.problem, tasks=problem.loss.tasks(y[:, 0], None), qid=None)
        inner = HoldOutProblem(on_coordinates(rest, part), problem.alphas, y, problem.n_outputs)
        total = 0.0
        for _, block in pair_differences(inner, 0, pairs_of(inner, rows)):
            first, second, difference = map(to_host, block)
            credit = pair_credit(labels[first] - labels[second], difference[:, 0])
            total += float((credit * compared[rows[first], rows[second]]).sum())
        return total

    return right_without_unit


def component_pair_losses(F: Array, eigenvalues: Array, y: Array, mu: float) -> tuple[Array, Array]:
    """(loss, compared) of every row over its held-out pairs in one ranking.

    `loss` has shape (p, n_rows, n_outputs), with the losses for 1, 2, ... components.

    Components are centred and uncorrelated, so p components have
    P = I - 11'/m - sum_{l <= p} F_l F_l' / (s_l + mu), with one more term for each p (see
    pair_systems.py). O(m^2) time for each p, 16 MiB of memory.
    """
    (m, p), on = F.shape, backend_of(F)
    U = on.contiguous((F / on.xp.sqrt(eigenvalues + mu)).T).T  # column-major
    y_centred = y - y.mean(axis=0)
    diagonal, Py, products = on.zeros(m) + (1.0 - 1.0 / m), y_centred, U.T @ y_centred
    loss, compared = on.zeros(p, *y.shape), on.zeros(p, *y.shape)
    step = max(1, on.block_bytes(BLOCK_BYTES) // (8 * m))
    diagonals, weights = on.empty(p, m), on.empty(p, *y.shape)
    for k in range(p):
        diagonal = diagonal - U[:, k] ** 2
        Py = Py - on.xp.outer(U[:, k], products[k])
        diagonals[k], weights[k] = diagonal, Py
    for start in range(0, m, step):
        stop = min(start + step, m)
        P = on.zeros(stop - start, m - start) - 1.0 / m
        for k in range(p):
            P -= on.xp.outer(U[start:stop, k], U[start:, k])
            pairs = block_differences(P, start, diagonals[k], y_centred, weights[k])
            add_losses(*pairs, y, loss[k], compared[k])
    return loss, compared[0]
