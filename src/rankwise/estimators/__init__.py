"""scikit-learn estimators, which check their input, call the solvers and store the results."""
