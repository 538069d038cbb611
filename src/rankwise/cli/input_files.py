"""The files that commands read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.cli.terminal import complain, note, progress
from rankwise.routing import last_step, predict_with_queries
from rankwise.tables import plural

if TYPE_CHECKING:
    from rankwise.data import LetorData, TableData
    from rankwise.persistence import ModelFile

SCALE_NOTES = {
    "query-minmax": "scaled to [0, 1] within each query (query-minmax)",
    "query-standard": "scaled to mean 0 and variance 1 within each query (query-standard)",
    "query-ranks": "replaced by their ranks within each query (query-ranks)",
    "standard": "scaled by their standard deviations over the training rows (standard)",
    None: "as they are in the file",
}


def read_letor_file(
    path: Path, *, n_features: int | None = None, whose: str = "", fill: float | None = None
) -> LetorData:
    """Read a LETOR file, with as many features as `whose` has, if that is given.

    LETOR files leave out zeros: a file with fewer features has zeros in the last ones. A file
    with more features cannot be used. If the file has no query ids, group sizes are read from a
    file beside it.
    """
    from rankwise.data import read_letor

    with (
        progress(f"Reading {path} ({path.stat().st_size / 1e6:,.1f} MB)"),
        explaining_width(path, n_features, whose, fill),
    ):
        data = read_letor(path, n_features=n_features, fill=fill)
    return _with_groups(data, path) if data.qid is None else data


def _with_groups(data: LetorData, path: Path) -> LetorData:
    """The same rows, with queries from group sizes in a file beside `path`, if there is one."""
    from rankwise.data.query_rows import group_file_beside, read_group_file

    file = group_file_beside(path)
    if file is None:
        return data
    qid = read_group_file(file, len(data.y))
    note(f"{path} has no qid: its {qid[-1] + 1:,} queries come from the group sizes in {file}.")
    return replace(data, qid=qid)


def check_queries(
    path: Path, n_rows: int, *, has_queries: bool, one_ranking: bool, is_table: bool = False
) -> None:
    """One ranking of all rows of a file must be asked for, and is not possible with queries."""
    from rankwise.errors import DataError

    if one_ranking and has_queries:
        raise DataError(f"{path} has queries: leave --one-ranking out.")
    if not one_ranking and not has_queries:
        n_pairs = n_rows * (n_rows - 1) // 2
        why = f"no qid, and no file {path}.query with group sizes is beside it"
        if is_table:
            why = "no column that is named like query ids: name it by --query"
        raise DataError(
            f"{path} has {why}. If all of "
            f"its {n_rows:,} rows ({n_pairs:,} pairs) are one ranking, say so with --one-ranking."
        )


@contextmanager
def explaining_width(
    path: Path, n_features: int | None, whose: str, fill: float | None = None
) -> Iterator[None]:
    """Raise an error about the number of features where a file has more than expected."""
    from rankwise.data.letor.reading import survey_span
    from rankwise.errors import DataError, LetorFormatError

    try:
        yield
    except LetorFormatError as error:
        if n_features is None:
            raise
        try:
            found = survey_span(str(path), None, None, fill).largest_index
        except LetorFormatError:
            raise error from None  # the file has another fault
        if found <= n_features:
            raise
        raise DataError(
            f"{path} has {found} features, but {whose} has {n_features}: they do not belong "
            "together."
        ) from None


def read_model(path: Path) -> ModelFile:
    """Read a model file."""
    from rankwise.persistence import open_model

    with progress(f"Reading {path}"):
        return open_model(path)


def check_width(
    data: LetorData, path: Path, n_features: int, whose: str, fill: float | None
) -> None:
    """Warn if a file lacks the last features of a model; refuse it if it lacks more than half.

    A file is read again to find its last feature, but only if no row has the last of the model.
    """
    from rankwise.data.letor.reading import survey_span
    from rankwise.errors import DataError

    last: Any = data.X[:, [n_features - 1]]
    if abs(last).sum() > 0:
        return
    found = survey_span(str(path), None, None, fill).largest_index
    if found == n_features:
        return
    words = f"{path} has {plural(found, 'feature')}, but {whose} has {n_features:,}"
    if 2 * found < n_features:
        raise DataError(
            f"{words}: do they belong together? If the others are 0 in all rows, confirm it by "
            f"--features {n_features}."
        )
    complain("warning", f"{words}: those that it lacks are read as 0.")


def scores_of(file: ModelFile, data: LetorData | TableData) -> Any:
    """The score of each row."""
    import numpy as np

    from rankwise.errors import DataError

    ranker = last_step(file.model)
    scored = getattr(ranker, "scored", "rows")
    if scored != "rows":
        raise DataError(
            f"The model is a {type(ranker).__name__}, which scores {scored}, not rows of a file: "
            "use predict in Python."
        )
    with progress(f"Scoring {data.X.shape[0]:,} rows"):
        scores = np.asarray(predict_with_queries(file.model, data.X, one_query(data)))
    if scores.ndim != 1:
        raise DataError(
            f"The model gives {scores.shape[1]} scores per row. The command line works with one: "
            "use predict in Python."
        )
    return scores


def one_query(data: Any) -> Any:
    """The queries of rows; one for all rows, if the file has none."""
    import numpy as np

    return np.zeros(data.X.shape[0], dtype=np.intp) if data.qid is None else data.qid


def in_one_line(model: Any) -> str:
    """A ranker, or the steps of a pipeline."""
    steps = model.steps if hasattr(model, "steps") else [("", model)]
    return " and ".join(" ".join(repr(step).split()) for _, step in steps)


def note_scaling(model: Any) -> None:
    """Say how a model scales features, where it has a say in it."""
    ranker = last_step(model)
    if hasattr(ranker, "scale_"):
        note(f"Features: {SCALE_NOTES[ranker.scale_]}.")
    elif hasattr(model, "steps"):
        from rankwise.rankers import ranker_name

        scaler = (ranker_name(type(model[0])) or "").removesuffix("-scaler")
        if scaler in SCALE_NOTES:
            note(f"Features: {SCALE_NOTES[scaler]}.")


def distinct_names(files: list[Path]) -> list[str]:
    """The names of files, or their paths if names are not different."""
    for names in ([f.stem for f in files], [f.name for f in files], [str(f) for f in files]):
        if len(set(names)) == len(names):
            return names
    from rankwise.errors import ParameterError

    raise ParameterError("A file is given twice: compare different ones.")


def read_names(path: Path) -> list[str]:
    """Names of features, one per line."""
    from rankwise.errors import DataError

    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        number = error.object[: error.start].count(b"\n") + 1
        raise DataError(
            f"{path}, line {number}: this is not UTF-8 text: save it as UTF-8."
        ) from None
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise DataError(f"{path} is empty: write the name of one feature per line.")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise DataError(f"{path}, line {number} is empty: write one name per line.")
    return [line.strip() for line in lines]


def read_scores(path: Path, n_rows: int, data_path: Path) -> Any:
    """Read one number per line, one line per row of the data."""
    import numpy as np

    from rankwise.errors import DataError

    values = []
    with progress(f"Reading {path}"), path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                values.append(float(line))
            except ValueError:
                raise DataError(
                    f"{path}, line {number}: {line.strip()[:40]!r} is not a number. Such a file "
                    "has one score per line, in the order of the rows."
                ) from None
    if len(values) != n_rows:
        raise DataError(f"{path} has {len(values)} scores, but {data_path} has {n_rows} rows.")
    return np.array(values)
