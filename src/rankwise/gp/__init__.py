"""The Gaussian process on comparisons."""
