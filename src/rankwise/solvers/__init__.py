"""Least-squares ranking on arrays: moments, shifted systems, primal and dual."""
