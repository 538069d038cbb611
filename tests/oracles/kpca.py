"""KPCRank as its paper writes it: dense matrices, no shortcuts."""

import numpy as np


def centred(K_train):
    """Section 6.1, training rows."""
    n = len(K_train)
    C = np.eye(n) - np.ones((n, n)) / n
    return C @ K_train @ C


def centred_test(K_test, K_train):
    """Section 6.1, new rows: (K_test - 1 1'K_train / n)(I - 1 1'/ n)."""
    n = len(K_train)
    ones = np.ones((len(K_test), n))
    return (K_test - ones @ K_train / n) @ (np.eye(n) - np.ones((n, n)) / n)


def eigenpairs(K_train):
    """Eigenvalues of the centred kernel, descending, and their vectors."""
    s, V = np.linalg.eigh(centred(K_train))
    return s[::-1], V[:, ::-1]


def equation_6(K_train, L, rhs, p, lam=0.0):
    """The weights of the first p components; rhs is L s."""
    K = centred(K_train)
    s, V = (part[..., :p] for part in eigenpairs(K_train))
    root = np.diag(np.sqrt(s))
    inner = V.T @ K @ L @ K @ V + lam * np.diag(s)
    return root @ np.linalg.solve(inner, V.T @ K @ rhs)


def coordinates(K_test, K_train, p):
    """Equation (3) for new rows."""
    s, V = (part[..., :p] for part in eigenpairs(K_train))
    return centred_test(K_test, K_train) @ V @ np.diag(1 / np.sqrt(s))


def spectral_weights(K_train, L, rhs, rank, p):
    """Section 4.2: all but the p largest eigenvalues of M, on `rank` components, are set to 0."""
    s, V = (part[..., :rank] for part in eigenpairs(K_train))
    F = V @ np.diag(np.sqrt(s))
    e, W = np.linalg.eigh(F.T @ L @ F)
    e, W = e[::-1], W[:, ::-1]
    return W @ np.diag([1 / e[k] if k < p else 0.0 for k in range(rank)]) @ W.T @ F.T @ rhs


def fixed_components_fold(F, y, L, out, p, lam=0.0):
    """Rows `out` predicted from the first p columns of F, learned on the other rows."""
    rest = np.setdiff1d(np.arange(len(y)), out)
    inner = L[np.ix_(rest, rest)]
    A = F[rest, :p].T @ inner @ F[rest, :p] + lam * np.eye(p)
    return F[out, :p] @ np.linalg.solve(A, F[rest, :p].T @ inner @ y[rest])


def fixed_components_regression(F, y, out, p, lam=0.0):
    """Like `fixed_components_fold`, by regression with an unpenalized intercept."""
    rest = np.setdiff1d(np.arange(len(y)), out)
    G = np.column_stack((np.ones(len(y)), F[:, :p]))
    penalty = lam * np.diag([0.0] + [1.0] * p)
    return G[out] @ np.linalg.solve(G[rest].T @ G[rest] + penalty, G[rest].T @ y[rest])
