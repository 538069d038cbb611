"""scikit-learn estimators, thin: check the input, call the core, keep the result."""
