"""Ranking support vector machines: the estimator, and its solvers for both hinges."""
