"""The reference results that came with LETOR 1.0: RankSVM and RankBoost, fold by fold."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from rankwise.errors import DataError, MissingExtraError

SHEETS = ("RankSVM", "RankBoost")
FOLDS = 5


def reference(name: str = "OHSUMED") -> dict[str, dict]:
    """Means over the folds of MAP, NDCG@1..10 and P@1..10 on the test parts.

    The means are taken here: the sheets have a line with averages, and that of the MAP of RankSVM
    on OHSUMED is not the mean of its folds.
    """
    try:
        import xlrd
    except ImportError:
        raise MissingExtraError("xlrd", "reproduce") from None
    folder = Path(os.environ.get("RANKWISE_DATA", "."))
    path = folder / "letor1_ohsumed" / "docs" / f"ReferenceAlgs_{name}.xls"
    if not path.exists():
        raise DataError(f"There is no {path}: set RANKWISE_DATA to the folder of the data.")
    book = xlrd.open_workbook(path)
    return {sheet: _means(book.sheet_by_name(sheet)) for sheet in SHEETS}


def _means(sheet) -> dict:
    """Of the first table of each metric, which is that of the test parts."""
    found: dict = {}
    for row in range(sheet.nrows):
        first, metric = sheet.cell_value(row, 0), sheet.cell_value(row, 1)
        if first != "Trials" or not isinstance(metric, str):
            continue
        key = metric.split("@")[0]
        if key in found:
            continue
        width = 1 if key == "MAP" else 10
        folds = [sheet.row_values(row + fold, 1, 1 + width) for fold in range(1, FOLDS + 1)]
        values = np.mean(folds, axis=0)
        found[key] = float(values[0]) if key == "MAP" else values.tolist()
    return found
