"""f(q, d) = q'Wd with a sparse W, learned from triplets one step at a time."""
