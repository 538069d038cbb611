"""Array operations for NumPy and torch, behind one interface.

Solvers, graphs, kernels and hold-outs are written once, for NumPy arrays and for torch tensors.
They use what the two libraries have in common: array methods (``M.T``, ``M.mean(axis=0)``,
``M[rows]``) and functions with the same name and meaning (``on.xp.sqrt``). Where the libraries
differ, they call a `Backend` (arrays.py): ``on = backend_of(M)`` at the top of a function
returns the backend of its arrays, and ``on.matmul(M, V)`` runs there. There are two:

- `Backend` itself: SciPy's BLAS and LAPACK, and compiled loops;
- `TorchBackend` (_torch.py): tensors on one device, usually a GPU. torch is imported only when
  the first tensor or device is seen.

An operation defines what is computed, not how: "combine rows with the means of their groups",
"solve with M + lam I, or return None if it is not definite". Each backend then does what is fast
there: one pass of a compiled loop, or a few passes at the bandwidth of a GPU.

Index arrays (the rows of a query, the pairs that count) are NumPy arrays everywhere and are
copied to the device when they are used: they are small compared to the features.

`HostRows` (_torch.py) are rows in host memory that are processed on a device: ``X[rows]``
copies a block to the device while the device still works on the previous one. A function that
takes its rows block by block therefore need not know where they are stored.
"""
