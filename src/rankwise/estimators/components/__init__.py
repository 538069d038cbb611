"""Rankers on the principal components of a kernel."""
