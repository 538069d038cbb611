"""Gaussian process on comparisons, on arrays: sites, sweeps, evidence, choice of pairs."""
