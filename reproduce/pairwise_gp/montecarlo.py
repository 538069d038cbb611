"""Expectation propagation and Laplace beside long runs of the tests' elliptical slice sampler."""

from __future__ import annotations

import numpy as np

from rankwise.report import Column, Table
from rankwise.solvers.gp.ep import expectation_propagation
from rankwise.solvers.gp.laplace import laplace
from tests.oracles.pairwise_gp import elliptical_slice
from tests.solvers.gp.problems import make_problem

PROBLEMS = 12


def table(n_steps: int) -> Table:
    """How far means and standard deviations of f are off, in standard deviations and shares."""
    rows = []
    for seed in range(PROBLEMS):
        p = make_problem(seed, 10 + seed, 25 + 3 * seed, scale=2.0 + 2 * (seed % 4), ties=False)
        differences = p.differences("rows")
        found = {}
        for name, infer in (("ep", expectation_propagation), ("laplace", laplace)):
            found[name] = p.posterior(infer(differences, p.counts).weights)
        mean, std = elliptical_slice(
            p.K, p.pairs, p.counts, reference=found["ep"], n_steps=n_steps, seed=seed
        )
        cells = []
        for f, covariance in found.values():
            spread = np.sqrt(np.diagonal(covariance))
            cells += [np.mean(np.abs(f - mean) / std), np.mean(np.abs(spread / std - 1))]
        rows.append((f"{len(p.K)} rows, {int(p.counts.sum())} comparisons", *map(float, cells)))
    rows.append(("mean", *(float(np.mean([row[k] for row in rows])) for k in range(1, 5))))
    columns = (
        Column("problem"),
        Column("EP: means", ".4f"),
        Column("EP: s.d.", ".4f"),
        Column("Laplace: means", ".4f"),
        Column("Laplace: s.d.", ".4f"),
    )
    return Table(
        columns,
        tuple(rows),
        f"Distance from {n_steps:,} steps of elliptical slice sampling",
        note="Means in posterior standard deviations, standard deviations as shares; averages "
        "over rows.",
    )
