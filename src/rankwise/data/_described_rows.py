"""What all labelled rows can say of themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from rankwise.tables import Column, Table, plural, require_pandas

FEW_LABELS = 6  # so many are counted one by one


class DescribedRows:
    """A short description of rows with `X`, `y` and perhaps `qid`, and a data frame of them."""

    X: Any
    y: Any
    qid: Any

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features; None if they have none."""
        return None

    def to_frame(self) -> Any:
        """The rows as a pandas data frame: columns qid (if there are queries), y, and features.

        Features without names are called x0, x1, and so on. Sparse features stay sparse.
        """
        pandas = require_pandas("X, y and qid")
        names = self.feature_names or [f"x{j}" for j in range(self.X.shape[1])]
        if sparse.issparse(self.X):
            frame = pandas.DataFrame.sparse.from_spmatrix(self.X, columns=names)
        else:
            frame = pandas.DataFrame(self.X, columns=names)
        if self.y is not None:
            frame.insert(0, "y", self.y)
        if self.qid is not None:
            frame.insert(0, "qid", self.qid)
        return frame

    def __repr__(self) -> str:
        lines = [f"{name:<9}{text}" for name, text in self._facts().items()]
        return "\n  ".join((self._title(), *lines))

    def _repr_html_(self) -> str:
        rows = tuple(self._facts().items())
        return Table((Column("", ""), Column("", "")), rows, self._title()).to_html()

    def _title(self) -> str:
        return type(self).__name__

    def _facts(self) -> dict[str, str]:
        n, d = self.X.shape
        rows = f"{plural(n, 'row')}, {plural(d, 'feature')}"
        stored = getattr(self.X, "nnz", None)
        if stored is not None:
            rows += f" ({stored / max(n * d, 1):.2g} of the values are not zero)"
        if self.qid is None:
            rows += ", one ranking"
        else:
            sizes = np.unique(self.qid, return_counts=True)[1]
            low, high = sizes.min(initial=n), sizes.max(initial=0)
            each = f"{low}" if low == high else f"{low} to {high}"
            rows += f", {plural(len(sizes), 'query')} of {each} rows"
        return {"size": rows, "labels": "none" if self.y is None else _labels(np.asarray(self.y))}


def _labels(y: Any) -> str:
    values, counts = np.unique(y, return_counts=True)
    if 0 < len(values) <= FEW_LABELS:
        of_label = (f"{v:g} ({plural(int(n), 'row')})" for v, n in zip(values, counts, strict=True))
        return ", ".join(of_label)
    if not len(values):
        return "none"
    return f"{len(values):,} different, from {values[0]:.3g} to {values[-1]:.3g}"
