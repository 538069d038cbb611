"""Solvers on arrays: moments, ridge paths, primal and dual RankRLS, kernel components."""
