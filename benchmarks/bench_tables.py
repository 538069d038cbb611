"""read_table compared with pyarrow's own readers, on a million rows of 50 columns.

Claims: read_table takes at most 1.5 times as long as pyarrow for the same result, from CSV and from
Parquet. The result is one matrix of float64 with the features, in the order of rows, and arrays of
labels and query ids; pyarrow reads a table, which pandas turns into such a matrix.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.harness import Result, best_times, seconds

N_COLUMNS = 50
REPEATS = 3


def cases(rows: int = 1_000_000) -> list[Result]:
    """Best times of the readers."""
    import pyarrow.csv
    import pyarrow.parquet

    from rankwise.data import read_table

    with tempfile.TemporaryDirectory() as folder:
        csv, parquet = Path(folder, "rows.csv"), Path(folder, "rows.parquet")
        table = make_table(rows)
        pyarrow.csv.write_csv(table, csv)
        pyarrow.parquet.write_table(table, parquet)
        del table
        results = []
        for path, read in ((csv, pyarrow.csv.read_csv), (parquet, pyarrow.parquet.read_table)):
            size = f"{path.suffix[1:]}, {rows:,} rows, {path.stat().st_size / 1e6:.0f} MB"
            ours, theirs = best_times(
                lambda path=path: read_table(path),
                lambda path=path, read=read: arrays(read(path)),
                repeats=REPEATS,
            )
            results.append(
                Result(
                    f"read_table, {size}",
                    seconds(ours),
                    f"pyarrow and pandas {seconds(theirs)}",
                    ours / theirs,
                    1.5,
                )
            )
    return results


def arrays(table):
    """Features, labels and queries, by pandas."""
    frame = table.to_pandas()
    features = frame.drop(columns=["qid", "label"]).to_numpy(np.float64)
    return np.ascontiguousarray(features), frame["label"].to_numpy(), frame["qid"].to_numpy()


def make_table(rows: int):
    """Queries of 20 rows, grades, and features with six digits."""
    import pyarrow

    rng = np.random.default_rng(0)
    columns = {"qid": np.arange(rows) // 20, "label": rng.integers(0, 5, rows)}
    columns |= {f"f{j}": rng.normal(size=rows).round(6) for j in range(N_COLUMNS - 2)}
    return pyarrow.table(columns)
