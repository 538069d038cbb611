"""Least-squares rankers on features, kernels and landmarks."""
