"""Names of metrics as people type them, and as tables and pictures show them."""

from __future__ import annotations

import re

# The names in tables, and those of trec_eval and ir-measures.
OTHER_NAMES = {
    "p": "precision",
    "r": "recall",
    "ap": "map",
    "rr": "mrr",
    "kendall tau_b": "kendall_tau",
}
LABELS = {
    "auc": "AUC",
    "err": "ERR",
    "kendall_tau": "Kendall tau_b",
    "log_loss": "log-loss",
    "map": "MAP",
    "mrr": "MRR",
    "ndcg": "NDCG",
    "precision": "P",
    "rbp": "RBP",
    "squared_error": "squared error",
}


def name_parts(name: str) -> tuple[str, str | None]:
    """The name of a metric without its cut-off, in lower case, and the cut-off."""
    match = re.fullmatch(r"([a-z_ ]+)(?:@([1-9][0-9]*))?", str(name).lower())
    base, cutoff = match.groups() if match else ("", None)
    return OTHER_NAMES.get(base, base), cutoff


def metric_label(name: str) -> str:
    """A metric as tables and pictures show it; other names as they are.

    Examples
    --------
    >>> metric_label("ndcg@10"), metric_label("precision@5"), metric_label("my score")
    ('NDCG@10', 'P@5', 'my score')
    """
    base, cutoff = name_parts(name)
    if base not in LABELS:
        return name
    return LABELS[base] if cutoff is None else f"{LABELS[base]}@{cutoff}"
