"""The few array operations that everything above is written with.

Solvers, graphs, kernels and hold-outs are written once. What they cannot say in the words that
NumPy and torch share (``M.T``, ``M.mean(axis=0)``, ``M[rows]``), they ask of a `Backend`
(base.py): at the top of a function, ``on = backend_of(M)`` tells where its arrays live, and
``on.matmul(M, V)`` works there. There are two:

- `NumpyBackend` (_numpy.py): SciPy's BLAS and LAPACK, and compiled loops;
- `TorchBackend` (_torch.py): tensors on one device, a GPU above all. torch is imported when the
  first tensor or device is seen, and not before.

An operation of the seam has the level of what it means, not of how it is done: "combine rows with
the means of their groups", "solve with M + lam I, or say that it is not definite". So each backend
does it by what is good there: one pass of a compiled loop, or a few passes at the bandwidth of a
GPU; dsyrk, or products of panels of a triangle. Costs differ as well: `reduction_cost` tells how
many Cholesky factorizations one reduction of a symmetric matrix is worth.

Index arrays (which rows form a query, which pairs count) are NumPy's everywhere and travel when
they are used: they are small beside features, and graphs are built by sorting.

`TravellingRows` (_travel.py) are rows in the memory of this machine that are worked on elsewhere:
``X[rows]`` is a tensor on the device, sent over pinned memory while the device still works on the
rows before. So a function that takes its rows block by block need not know where they lie.
"""
