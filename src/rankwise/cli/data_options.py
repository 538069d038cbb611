"""The data that commands read: LETOR files, tables with names of columns, and model files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from rankwise.cli.options import refuse, refuse_all, split_names
from rankwise.cli.terminal import command_line, complain, note, progress
from rankwise.errors import DataError, LetorFormatError, ParameterError, TableError
from rankwise.routing import first_step, last_step, predict_with_queries
from rankwise.tables import plural

if TYPE_CHECKING:
    from rankwise.data import LetorData, TableData
    from rankwise.data.table_columns import Roles, Wants
    from rankwise.data.table_files import TableFile
    from rankwise.persistence import ModelFile
    from rankwise.preprocessing import SeenFeatures

Features = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Confirm the number of features of the model, for LETOR files that have fewer.",
        show_default="largest index in DATA",
        rich_help_panel="Data",
    ),
]
MOST_NUMBERED = 2**20
"""Feature numbers are taken for hashes if the largest exceeds this."""
SCALE_NOTES = {
    "query-minmax": "scaled to [0, 1] within each query (query-minmax)",
    "query-standard": "scaled to mean 0 and variance 1 within each query (query-standard)",
    "query-ranks": "replaced by their ranks within each query (query-ranks)",
    "standard": "scaled by their standard deviations over the training rows (standard)",
    None: "as they are in the file",
}


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """How to read a file; the suffix of a table determines its format.

    Parameters
    ----------
    query : COLUMN, default=qid, query_id, query, ...
        Column of query ids.
    label : COLUMN, default=label, relevance, grade, ...
        Column of labels.
    id : COLUMN, default=doc_id, docno, id, ...
        Column of row ids.
    ignore : NAMES, default=none
        Columns to leave out: names or patterns, separated by commas.
    grades : WORD=NUMBER,..., default=none
        Grades of labels that are words, as in none=0,clicked=1,booked=2.
    separator : CHARACTER, default=found in the first line
        Separator of the columns of a CSV file.
    decimal : CHARACTER, default=.
        Decimal mark of numbers that are text, as in a CSV file.
    thousands : CHARACTER, default=none
        Mark between the thousands of numbers, as in 58,300.
    fill : NUMBER, default=an error
        Read NULL, a missing value in a LETOR file, as this number. Boosted trees take nan.
    """

    panel: ClassVar = "Data"
    query: str | None = None
    label: str | None = None
    id: str | None = None
    ignore: str | None = None
    grades: str | None = None
    separator: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    fill: float | None = None

    def is_table(self, path: Path) -> bool:
        """Whether a file is a table, not a LETOR file; refuses options for the other kind."""
        from rankwise.data.table_files import format_of

        given = getattr(self, "format", None)
        found = given != "letor" and (given or format_of(path)) is not None
        if found and self.fill is not None:
            refuse("fill", "This is for NULL in LETOR files. For a table, use --impute in 'fit'.")
        letor = {"fill", "format", "features", "one_ranking"}
        if not found:
            refuse_all(
                {name: value for name, value in vars(self).items() if value and name not in letor},
                f"This is for tables, and {path} is read as a LETOR file. If it is a table, name "
                "its format, as in --format csv.",
            )
        return found

    def table_file(self, path: Path) -> TableFile:
        """A table file."""
        from rankwise.data.table_files import TableFile

        separator = "\t" if self.separator == "\\t" else self.separator
        format = getattr(self, "format", None)
        return TableFile.of(path, format, separator, self.decimal, self.thousands or None)

    def remembered(self, path: Path, roles: Roles | None) -> dict[str, Any]:
        """How a table with these roles was read, for the model file; nothing for LETOR files."""
        if roles is None:
            return {}
        marks = {"decimal": self.decimal, "thousands": self.thousands}
        found = {
            "qid": roles.query, "label": roles.label, "id": roles.id,
            "grades": self.parsed_grades() or roles.grades, **marks,
            "separator": self.table_file(path).separator if any(marks.values()) else None,
        }  # fmt: skip
        return {name: value for name, value in found.items() if value}

    def _files_like(self, path: Path, table: Mapping[str, Any]) -> list[TableFile]:
        """A file with the marks of the training table, and without them if they do not fit.

        Files with other separators come from elsewhere, where 1,234 may be another number.
        """
        file = self.table_file(path)
        given = self.decimal is not None or self.thousands is not None
        if given or file.separator != table.get("separator"):
            return [file]
        return [
            replace(file, decimal=table.get("decimal", "."), thousands=table.get("thousands")),
            file,
        ]

    def read_table(
        self,
        path: Path,
        wants: Wants,
        *,
        features: Sequence[str] | None = None,
        like: Sequence[str] | None = None,
        needs_features: bool = True,
        tolerant: bool = False,
        model: Any = None,
        table: Mapping[str, Any] = MappingProxyType({}),
    ) -> TableData:
        """The rows of a table; prints on stderr how its columns are understood.

        `tolerant` readers take columns that contain anything, and print that themselves. The rows
        are for a `model`, or for the preparation of one, and `table` is how its training table was
        read: this is the default where options are not given, and where it fits.
        """
        from rankwise.data.table_columns import KNOWN
        from rankwise.data.table_rows import read_columns
        from rankwise.preprocessing.table_encoder import encoder_of

        kinds = getattr(encoder_of(model), "kinds_", {})
        numbers = {name for name, kind in kinds.items() if kind == "number"}
        files = self._files_like(path, table)
        wants = replace(
            wants, grades=self.parsed_grades(), like_model=like is not None,
            label=table.get("label"), label_grades=table.get("grades"),
        )  # fmt: skip
        remembered = {role: table.get("qid" if role == "query" else role) for role in KNOWN}
        with progress(f"Reading {path} ({path.stat().st_size / 1e6:,.1f} MB)"):
            named = {
                "query": self.query, "label": self.label, "id": self.id, "features": features,
                "ignore": split_names(self.ignore) or [], "like": like,
                "needs_features": needs_features,
                "remembered": remembered,
            }  # fmt: skip

            def n_misread(data: TableData) -> int:
                problems = () if data.problems is None else data.problems.problems
                return len(problems) + len(numbers - {*data.X.select_dtypes("number")})

            found = [read_columns(files[0], named, wants, tolerant=True)]
            if len(files) > 1 and n_misread(found[0]):
                found.append(read_columns(files[1], named, wants, tolerant=True))
            data = min(reversed(found), key=n_misread)
        said = doubts(data.roles) if like is None else []
        if data.problems is not None and not tolerant:
            settings = data.problems.settings if like is not None else settings_for(data)
            settings = {name: value for name, value in settings.items() if hasattr(self, name)}
            with explained_tables(self.ignore, *said):
                raise TableError(data.problems.where, data.problems.problems, settings)
        if not tolerant:
            has_marks = len(files) > 1 and data is found[0]
            marks = f"; numbers such as {files[0].example}, as in the fit" if has_marks else ""
            note(f"{path}: {data.roles.words()}{marks}.", *said)
        check_text_columns(getattr(model, "steps", ()), data.X, path)
        return data

    def parsed_grades(self) -> dict[str, float] | None:
        """The grade of each word."""
        if self.grades is None:
            return None
        found = {}
        for entry in self.grades.split(","):
            word, equals, number = entry.rpartition("=")
            try:
                found[word.strip()] = float(number)
            except ValueError:
                equals = ""
            if not equals:
                refuse("grades", f"Give WORD=NUMBER,WORD=NUMBER: got {entry!r}.")
        return found

    def read_letor(
        self, path: Path, n_features: int | None = None, whose: str = "", steps: Any = ()
    ) -> LetorData:
        """The rows of a LETOR file, with as many features as `whose` has, if that is given.

        LETOR files leave out zeros: a file with fewer features has zeros in the last ones. A file
        with more features cannot be used. If the file has no query ids, group sizes are read from a
        file beside it. Prints how many features the steps of a model ignore.
        """
        from rankwise.data import read_letor
        from rankwise.data.query_rows import group_file_beside, read_group_file

        with progress(f"Reading {path} ({path.stat().st_size / 1e6:,.1f} MB)"):
            try:
                data = read_letor(path, n_features=n_features, fill=self.fill)
            except LetorFormatError as error:
                feature, exceeds, _ = str(error).partition(" exceeds n_features")
                if not exceeds:
                    raise
                raise DataError(
                    f"{feature}, but {whose} has {n_features} features: they do not belong "
                    "together."
                ) from None
        file = group_file_beside(path) if data.qid is None else None
        if file is not None:
            qid = read_group_file(file, len(data.y))
            n = qid[-1] + 1
            note(f"{path} has no qid: its {n:,} queries come from the group sizes in {file}.")
            data = replace(data, qid=qid)
        seen = seen_by(steps)
        if seen is not None:
            note_unseen(seen, data, path)
        return data

    def read_rows(self, path: Path) -> Any:
        """The labels and queries of a file, for scores from elsewhere."""
        if self.is_table(path):
            from rankwise.data.table_columns import Wants

            return self.read_table(path, Wants(needs_label=True), like=[], needs_features=False)
        return self.read_letor(path)

    def read_groups(self, path: Path, name: str, option: str) -> Any:
        """The group of every row, from a column that may also be a feature."""
        if not self.is_table(path):
            refuse(option, f"This names a column of a table, and {path} is read as a LETOR file.")
        from rankwise.data.table_columns import TableRows, no_such_column

        file = self.table_file(path)
        if name not in file.names:
            raise no_such_column(path, name, file.names)
        return TableRows(file, file.read([name], [name])).ids(name)

    def read_for(
        self,
        file: ModelFile,
        model_path: Path,
        path: Path,
        n_features: int | None = None,
        *,
        needs_label: bool = True,
        needs_query: bool = False,
    ) -> Any:
        """The rows of a file for a model; the option --features confirms `n_features`."""
        model, steps, ranker = file.model, getattr(file.model, "steps", ()), last_step(file.model)
        scored = getattr(ranker, "scored", "rows")
        if scored != "rows":
            raise DataError(
                f"The model is a {type(ranker).__name__}, which scores {scored}, not rows of a "
                "file: use predict in Python."
            )
        wanted: Any = getattr(first_step(model), "n_features_in_", None)
        whose = f"the model {model_path}"
        if self.is_table(path):
            from rankwise.data.table_columns import Wants

            if n_features is not None:
                refuse("features", "This is for LETOR files: the columns of a table have names.")
            names = getattr(first_step(model), "feature_names_in_", None)
            text = _takes_text(model)
            wants = Wants(text, _takes_missing(model), text, needs_label=needs_label)
            like = None if names is None else list(names)
            data: Any = self.read_table(path, wants, like=like, model=model, table=file.table)
            if names is None:
                data = _without_names(data, wanted, path, whose)
        else:
            if n_features not in (None, wanted):
                raise DataError(f"--features is {n_features}, but {whose} has {wanted} features.")
            data = self.read_letor(path, wanted, whose, steps)
            if wanted is not None and n_features is None and seen_by(steps) is None:
                check_width(data.X, path, whose)
        if data.qid is None and needs_query:
            raise DataError(f"{path} has no query ids, and models are compared over queries.")
        if data.qid is None and getattr(ranker, "n_queries_", 1) > 1:
            column = " If a column has them, name it by --query." if self.is_table(path) else ""
            words = "its rows are ranked together, unlike in training."
            complain("warning", f"{path} has no query ids: {words}{column}")
        return data


@dataclass(frozen=True, kw_only=True)
class TableOptions(ColumnOptions):
    """How to read a file.

    Parameters
    ----------
    format : NAME, default=by the suffix, otherwise letor
        Format of the data: letor, csv, tsv, parquet, arrow, jsonl or json.
    """

    format: Literal["letor", "csv", "tsv", "parquet", "arrow", "jsonl", "json"] | None = None


@dataclass(frozen=True, kw_only=True)
class DataOptions(TableOptions):
    """How to read the training file.

    Parameters
    ----------
    features : NAMES, default=all other columns, or the largest index in TRAIN
        Columns of features: names or patterns, as in 'price,rating_*'. For a LETOR file, their
        number.
    one_ranking : FLAG
        All rows are one ranking. Needed for files without query ids.
    encode : NAME, default=an error; auto for the command auto
        Turn columns of text into features: onehot (a feature for each category), auto (for each of
        the frequent categories) or hashing (of words). The model encodes new rows in the same way.
    dates : FLAG
        Turn dates into features: days since the first date in TRAIN, day of the week and month.
        Otherwise dates are left out.
    impute : NAME, default=an error; median for the command auto
        Replace missing values by the mean, median or most_frequent value of their column in TRAIN,
        or by a number. The model does the same with new rows.
    """

    features: str | None = None
    one_ranking: bool = False
    encode: Literal["onehot", "auto", "hashing"] | None = None
    dates: bool = False
    impute: str | None = None

    @property
    def n_features(self) -> int | None:
        """The number of features of a LETOR file, if it is given."""
        if self.features is None:
            return None
        from rankwise.parameters import Whole, parse_parameter

        found: int = parse_parameter(
            "--features of a LETOR file", self.features, Whole(1, 2**31 - 1)
        )
        return found

    def read_training(
        self, path: Path, ranker: Any = None, *, as_they_are: bool = False
    ) -> tuple[Any, Preparation]:
        """All rows of a training file, prepared for a ranker, and the preparation.

        Tables may stay as they are, for a ranker that encodes them itself.
        """
        if not self.is_table(path):
            rows = self.read_letor(path, self.n_features, "--features")
            self.check_one_ranking(path, rows.X.shape[0], has_queries=rows.qid is not None)
            return keep_seen(rows, path)
        from rankwise.data.table_columns import Wants

        encoder = self.encoder()  # raises an error for wrong options, before the rows are read
        wants = Wants(
            keep_text=self.encode is not None,
            keep_missing=self.impute is not None or _takes_missing(ranker),
            dates=self.dates,
            needs_label=True,
            needs_query=not self.one_ranking,
        )
        data = self.read_table(path, wants, features=split_names(self.features))
        self.check_one_ranking(path, data.X.shape[0], has_queries=data.qid is not None)
        return (data, Preparation()) if as_they_are else prepare(data, encoder, path)

    def read_for_folds(self, path: Path, ranker: Any) -> tuple[Any, Preparation, Preparation]:
        """All rows of a training file, and what prepares them: already, and in each fold anew.

        Encoders of text and missing values belong in the folds, as they should not see held-out
        rows.
        """
        data, done = self.read_training(path, ranker, as_they_are=True)
        if not self.is_table(path):
            return data, done, Preparation()
        return data, done, prepare(data, self.encoder(), path)[1]

    def encoder(self) -> Any:
        """What turns text, dates and missing values into numbers."""
        from rankwise.parameters import AnyOf, Choice, Number, parse_parameter
        from rankwise.preprocessing.table_encoder import IMPUTERS, TableEncoder

        rule = AnyOf(Choice(*IMPUTERS), Number())
        missing = None if self.impute is None else parse_parameter("--impute", self.impute, rule)
        return TableEncoder(text=self.encode or "onehot", missing=missing, dates=self.dates)

    def read_like(self, path: Path, training: Any, *, needs_label: bool = True) -> Any:
        """All rows of another file, with the features of the training file, prepared alike."""
        roles, prepared = training.roles, training.preparation
        if (roles is not None) != self.is_table(path):
            raise DataError(
                f"{path} and {training.path} must both be tables, or both be LETOR files: columns "
                "of LETOR files have no names."
            )
        if roles is None:
            seen = seen_by(prepared.steps)
            width = training.n_features if seen is None else seen.n_features_in_
            rows: Any = self.read_letor(path, width, str(training.path), prepared.steps)
        else:
            from rankwise.data.table_columns import Wants

            has_text = self.encode is not None
            wants = Wants(has_text, keep_missing=True, dates=self.dates, needs_label=needs_label)
            table = self.remembered(training.path, roles)
            rows = self.read_table(path, wants, like=roles.features, model=prepared, table=table)
        self.check_one_ranking(path, rows.X.shape[0], has_queries=rows.qid is not None)
        return prepared.transformed(rows)

    def check_one_ranking(self, path: Path, n_rows: int, *, has_queries: bool) -> None:
        """One ranking of all rows of a file must be asked for, and is not possible with queries."""
        if self.one_ranking and has_queries:
            raise DataError(f"{path} has queries: leave --one-ranking out.")
        if not self.one_ranking and not has_queries:
            n_pairs = n_rows * (n_rows - 1) // 2
            why = f"no qid, and no file {path}.query with group sizes is beside it"
            if self.is_table(path):
                why = "no column that is named like query ids: name it by --query"
            raise DataError(
                f"{path} has {why}. If all of its {n_rows:,} rows ({n_pairs:,} pairs) are one "
                "ranking, give --one-ranking."
            )


def _without_names(data: TableData, wanted: int, path: Path, whose: str) -> TableData:
    """The rows of a table as numbers in the order of the columns, for a model without names."""
    if data.X.shape[1] != wanted:
        raise DataError(
            f"{path} has {data.X.shape[1]} features, but {whose} has {wanted}, without names: do "
            "they belong together?"
        )
    words = "has no names of features, so the columns are taken in their order."
    complain("warning", f"{path}: {whose} {words}")
    return replace(data, X=data.X.to_numpy())


def check_width(X: Any, path: Path, whose: str) -> None:
    """Warn if a file lacks the last features of a model; refuse it if it lacks more than half."""
    import numpy as np

    used = X.indices if hasattr(X, "indices") else np.flatnonzero(X.any(axis=0))
    n_features, found = X.shape[1], int(used.max(initial=-1)) + 1
    if found == n_features:
        return
    words = f"{path} has only zeros beyond feature {found:,}, but {whose} has {n_features:,}"
    if 2 * found < n_features:
        raise DataError(
            f"{words}: do they belong together? If they do, confirm it by --features {n_features}."
        )
    complain("warning", f"{words}: the missing ones are read as 0.")


@dataclass(frozen=True, eq=False)
class Preparation:
    """Fitted steps before the ranker; none for tables of numbers, and for most LETOR files.

    They have seen all rows that the ranker is fitted to, but no labels.
    """

    steps: tuple[tuple[str, Any], ...] = ()

    def transformed(self, data: Any) -> Any:
        """The same rows, prepared."""
        X = data.X
        for _, step in self.steps:
            X = step.transform(X)
        return replace(data, X=X) if self.steps else data

    def around(self, ranker: Any) -> Any:
        """A ranker, or a pipeline of these steps and the ranker."""
        if not self.steps:
            return ranker
        from sklearn.pipeline import Pipeline

        last = ranker.steps if isinstance(ranker, Pipeline) else [("ranker", ranker)]
        return Pipeline([*self.steps, *last])

    def with_positions(self, ranker: Any, *, in_folds: bool = False) -> Any:
        """A ranker whose monotone features are positions after these steps, instead of names.

        Encoders that are fitted again `in_folds` may find other words: then only columns of
        numbers, which come first, have fixed positions.
        """
        from rankwise.parameters import Monotone, check_value, monotone_signs

        model = last_step(ranker)
        monotone = getattr(model, "monotone", None)
        encoder: Any = self.steps[-1][1] if self.steps else None
        if not monotone or not hasattr(encoder, "names_out"):
            return ranker
        check_value("monotone", monotone, Monotone())
        names = encoder.names_out()
        if in_folds:
            numbers = [name for name, kind in encoder.kinds_.items() if kind == "number"]
            made = {*names, *encoder.kinds_}.difference(numbers)
            other = next((key for key in monotone if key in made), None)
            if other is not None:
                raise ParameterError(
                    f"monotone: {other!r} is made of text or dates, for each fold anew. Columns of "
                    "numbers can be monotone."
                )
        signs = monotone_signs(monotone, names, len(names)) or ()
        model.set_params(monotone={j: sign for j, sign in enumerate(signs) if sign} or None)
        return ranker


def prepare(data: TableData, encoder: Any, where: Path) -> tuple[TableData, Preparation]:
    """Fit the encoder if a table needs one, and apply it to the table."""
    n_numbers = data.X.select_dtypes("number").shape[1]
    if n_numbers == data.X.shape[1] and encoder.missing is None:
        return data, Preparation()
    try:
        encoder.fit(data.X)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    preparation = Preparation((("encode", encoder),))
    return preparation.transformed(data), preparation


def keep_seen(data: LetorData, path: Path) -> tuple[LetorData, Preparation]:
    """Training rows with the features that occur, if feature numbers are hashes.

    New rows may have any feature number that can be read.
    """
    from scipy.sparse import csr_array

    from rankwise.data.letor_parsing import MAX_INDEX
    from rankwise.preprocessing import SeenFeatures

    X: Any = data.X
    if X.shape[1] <= MOST_NUMBERED or not isinstance(X, csr_array):
        return data, Preparation()
    largest = X.shape[1]
    X = csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], MAX_INDEX))
    seen = SeenFeatures().fit(X)
    note(
        f"{path} has feature numbers up to {largest:,}: the model keeps the "
        f"{seen.n_features_out_:,} that occur, and ignores others in new files."
    )
    return replace(data, X=seen.transform(X)), Preparation((("seen", seen),))


def seen_by(steps: Any) -> SeenFeatures | None:
    """The features that the steps of a model have seen, if they ignore others."""
    from rankwise.preprocessing import SeenFeatures

    first = steps[0][1] if steps else None
    return first if isinstance(first, SeenFeatures) else None


def note_unseen(seen: SeenFeatures, data: LetorData, path: Path) -> None:
    """Print how many features of a file a model has not seen; an error if these are all."""
    import numpy as np

    X: Any = data.X
    used, unseen = np.unique(X.nonzero()[1]), seen.unseen(X)
    if len(unseen) == len(used) > 0:
        raise DataError(
            f"None of the {len(used):,} feature numbers in {path} occurs in the training rows of "
            "the model: do they belong together?"
        )
    if len(unseen):
        note(
            f"{len(unseen):,} of the {len(used):,} feature numbers in {path} do not occur in the "
            "training rows of the model, and are ignored."
        )


def doubts(roles: Roles) -> list[str]:
    """What features look like, which are read in one of two ways, and which dates are left out."""
    suspects = {
        "ids": roles.looking_like_ids,
        "labels": roles.looking_like_labels,
        "the position in the list that was shown": roles.positions,
    }
    found = [
        f"These features look like {what}: {', '.join(names)}. Leave them out by --ignore if so."
        for what, names in suspects.items()
        if names
    ]
    if roles.pointed:
        found.append(
            f"Read with decimal points: {', '.join(roles.pointed)}. If points stand between "
            "thousands, as in 58.300, give --decimal , --thousands . instead."
        )
    if roles.constants:
        found.append(f"The same in all rows, so of no use: {', '.join(roles.constants)}.")
    dates = [name for name, why in roles.left_out.items() if why == "a date"]
    if dates:
        found.append(
            f"Dates are left out: {', '.join(dates)}. To use them as features, give --dates."
        )
    return found


def settings_for(data: TableData) -> dict[str, Any]:
    """Settings that mend what is wrong with a table, and leave out features that look like others.

    Dates become features. Ids of rows are no features.
    """
    found = {} if data.problems is None else dict(data.problems.settings)
    roles = data.roles
    if roles.row_ids and roles.id is None:
        found["id"] = roles.row_ids[0]
    ids = [name for name in roles.looking_like_ids if name != found.get("id")]
    doubtful = [*ids, *roles.looking_like_labels, *roles.positions]
    if doubtful:
        found["ignore"] = list(dict.fromkeys([*found.get("ignore", ()), *doubtful]))
    if "a date" in roles.left_out.values() or any(data.X.dtypes == "datetime64[us]"):
        found["dates"] = True
    return found


def encoding_words(encoder: Any, X: Any) -> list[str]:
    """What an encoder does to the columns of a table."""
    texts, dates = (
        [name for name, found in encoder.kinds_.items() if found == kind]
        for kind in ("text", "date")
    )
    holes = [name for name in encoder.feature_names_in_ if X[name].isna().any()]
    how = "words" if encoder.text == "hashing" else "categories"
    made = {
        f"Text, with features for its {how}": texts,
        "Dates, as days since the first, day of the week and month": dates,
        f"Missing values, replaced by {encoder.missing}": holes,
    }
    return [f"{what}: {', '.join(names)}." for what, names in made.items() if names]


def _takes_missing(model: Any) -> bool:
    """Whether a model accepts missing values."""
    if model is None:
        return False
    from sklearn.compose import ColumnTransformer
    from sklearn.utils import get_tags

    from rankwise.preprocessing.table_encoder import encoder_of

    encoder = encoder_of(model)
    if encoder is not None:
        return encoder.missing is not None or _takes_missing(last_step(model))
    first = first_step(model)
    if isinstance(first, ColumnTransformer):  # of an older version
        return any(hasattr(part, "statistics_") for _, part, _ in first.transformers_)
    return bool(get_tags(first).input_tags.allow_nan)


def _takes_text(model: Any) -> bool:
    """Whether a model encodes columns of text."""
    from sklearn.compose import ColumnTransformer

    from rankwise.preprocessing.table_encoder import encoder_of

    steps = getattr(model, "steps", [])
    older = any(isinstance(step, ColumnTransformer) for _, step in steps)
    return older or encoder_of(model) is not None


def check_text_columns(steps: Any, X: Any, where: Any) -> None:
    """Refuse numbers in the columns of a data frame from which the steps of a model encode text."""
    numbers = set(X.select_dtypes("number").columns)
    for _, step in steps:
        for _, encoder, columns in getattr(getattr(step, "columns_", step), "transformers_", ()):
            categories = getattr(encoder, "categories_", ())
            texts = [c for c, v in zip(columns, categories, strict=False) if v.dtype.kind == "O"]
            for name in [columns] if isinstance(columns, str) else texts:
                if name in numbers:
                    raise DataError(
                        f"{where}: the column {name!r} has numbers, but the model was fitted to "
                        "text there. Check that the columns have the right names."
                    )


@contextmanager
def explained_tables(ignored: str | None, *remarks: str) -> Iterator[None]:
    """Let an error about a table end with remarks and the whole command that works."""
    try:
        yield
    except TableError as error:
        if not error.settings:
            raise
        problems = error.where, error.problems, error.settings
        line = command_for(error.settings, ignored)
        lines = (*remarks, "This works, if it is what you mean:", f"  {line}")
        raise TableError(*problems, "\n".join(lines)) from None


def command_for(settings: dict[str, Any], ignored: str | None = None, *command: str) -> str:
    """The running command, or another one, with the settings of a `TableError`."""
    found = dict(settings)
    if "grades" in found:
        digits = {word: repr(float(v)).removesuffix(".0") for word, v in found["grades"].items()}
        found["grades"] = ",".join(f"{word}={number}" for word, number in digits.items())
    if "ignore" in found:
        found["ignore"] = ",".join([*(split_names(ignored) or ()), *found["ignore"]])
    return command_line(found, *command)


def read_model(path: Path) -> ModelFile:
    """Read a model file."""
    from rankwise.persistence import open_model

    with progress(f"Reading {path}"):
        return open_model(path)


def scores_of(file: ModelFile, data: Any) -> Any:
    """The score of each row."""
    import numpy as np

    with progress(f"Scoring {data.X.shape[0]:,} rows"):
        scores = np.asarray(predict_with_queries(file.model, data.X, one_query(data)))
    if scores.ndim != 1:
        raise DataError(
            f"The model returns {scores.shape[1]} scores per row, and the command line works with "
            "one: use predict in Python."
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
    """Print how a model scales features, if it does."""
    ranker = last_step(model)
    if hasattr(ranker, "scale_"):
        note(f"Features: {SCALE_NOTES[ranker.scale_]}.")
    elif hasattr(model, "steps"):
        from rankwise.rankers import ranker_name

        scaler = (ranker_name(type(model[0])) or "").removesuffix("-scaler")
        if scaler in SCALE_NOTES:
            note(f"Features: {SCALE_NOTES[scaler]}.")


def note_model(out: Path, model: Any, n_rows: int, n_features: int) -> None:
    """Print what was written to a model file, and how the model scales features."""
    note_scaling(model)
    shape = f"{plural(n_rows, 'row')}, {plural(n_features, 'feature')}"
    note(f"Wrote {out}: {in_one_line(model)} fitted to {shape}.")


def distinct_names(files: list[Path]) -> list[str]:
    """The names of files, or their paths if names are not different."""
    for names in ([f.stem for f in files], [f.name for f in files], [str(f) for f in files]):
        if len(set(names)) == len(names):
            return names
    raise ParameterError("A file is given twice: compare different ones.")


def read_names(path: Path | None) -> list[str] | None:
    """Names of features, one per line; None without a file."""
    if path is None:
        return None
    try:
        names = [name.strip() for name in path.read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text: write one name per line.") from None
    if "" in (names := names or [""]):
        raise DataError(f"{path}, line {names.index('') + 1} is empty: write one name per line.")
    return names


def read_scores(path: Path, n_rows: int, data_path: Path) -> Any:
    """Read one number per line, one line per row of the data."""
    import numpy as np

    try:
        with progress(f"Reading {path}"):
            values = np.array(path.read_text(encoding="utf-8").splitlines(), dtype=np.float64)
    except ValueError as error:
        raise DataError(f"{path} must have one score per line: {error}.") from None
    if len(values) != n_rows:
        raise DataError(f"{path} has {len(values)} scores, but {data_path} has {n_rows} rows.")
    return values
