"""Expectation propagation and Laplace's method compared with elliptical slice sampling."""

from __future__ import annotations

import numpy as np

from rankwise.gp.inference import expectation_propagation, laplace
from rankwise.report import Column, Table
from tests.gp.problems import make_problem
from tests.oracles.pairwise_gp import elliptical_slice

PROBLEMS = 12


def table(n_steps: int) -> Table:
    """Errors of means, in standard deviations, and relative errors of standard deviations."""
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
        f"Errors relative to {n_steps:,} steps of elliptical slice sampling",
        note="Errors of means in posterior standard deviations, relative errors of standard "
        "deviations; averages over rows.",
    )
