"""How commands read data: LETOR files, and tables with names of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwise.cli.hashed_features import keep_seen, note_unseen, seen_by
from rankwise.cli.input_files import check_queries, check_width, read_letor_file
from rankwise.cli.options import option, refuse
from rankwise.cli.terminal import complain, note, progress, show
from rankwise.errors import DataError
from rankwise.routing import last_step

if TYPE_CHECKING:
    from rankwise.cli.preparation import Preparation
    from rankwise.data import LetorData, TableData
    from rankwise.data.tables.arrow_files import TableFile
    from rankwise.persistence import ModelFile


FORMATS = ("letor", "csv", "tsv", "parquet", "arrow", "jsonl", "json")
ENCODERS = ("onehot", "hashing")

table_option = partial(option, rich_help_panel="Tables")
data_option = partial(option, rich_help_panel="Data")

FillOption = Annotated[
    float | None,
    data_option(
        "NUMBER",
        "Read NULL, a missing value in LETOR, as this; boosted trees take nan.",
        "an error",
    ),
]
FeaturesOption = Annotated[
    int | None,
    data_option(
        "N",
        "Confirm the number of features of the model, for LETOR files that have fewer.",
        "largest index in DATA",
        min=1,
    ),
]
FormatOption = Annotated[
    str | None,
    table_option(
        "NAME",
        f"Of the data: {', '.join(FORMATS)}.",
        "by the suffix, otherwise letor",
        autocompletion=lambda: FORMATS,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Which column of a table is what. The format is that of the suffix."""

    query: Annotated[
        str | None, table_option("COLUMN", "Column of query ids.", "qid, query_id, query, ...")
    ] = None
    label: Annotated[
        str | None, table_option("COLUMN", "Column of labels.", "label, relevance, grade, ...")
    ] = None
    id: Annotated[
        str | None, table_option("COLUMN", "Column of row ids.", "doc_id, docno, id, ...")
    ] = None
    ignore: Annotated[
        str | None,
        table_option("NAMES", "Columns to leave out: names or patterns, with commas.", "none"),
    ] = None
    separator: Annotated[str | None, table_option("CHARACTER", "Of a CSV file.", ",")] = None
    decimal: Annotated[
        str | None, table_option("CHARACTER", "In the numbers of a CSV file.", ".")
    ] = None

    @property
    def file_format(self) -> str | None:
        """The format, if it is given."""
        return None

    def is_table(self, path: Path) -> bool:
        """Whether a file is a table, not a LETOR file; refuses options that do not fit to it."""
        from rankwise.data.tables.formats import format_of

        given = self.file_format
        if given is not None and given not in FORMATS:
            refuse("format", f"Choose from {', '.join(FORMATS)}: got {given!r}.")
        if given != "letor" and (given or format_of(path)) is not None:
            return True
        for field in fields(ColumnOptions):
            if getattr(self, field.name) is not None:
                refuse(
                    field.name,
                    f"This is for tables, and {path} is read as a LETOR file. If it is a table, "
                    "name its format, as in --format csv.",
                )
        return False

    def table_file(self, path: Path) -> TableFile:
        """A table file."""
        from rankwise.data.tables.arrow_files import TableFile

        separator = "\t" if self.separator == "\\t" else self.separator
        return TableFile.of(path, self.file_format, separator, self.decimal)

    def read_table(
        self,
        path: Path,
        *,
        features: Sequence[str] | None = None,
        like: Sequence[str] | None = None,
        needs_label: bool = True,
        needs_features: bool = True,
        keep_text: bool = False,
        keep_missing: bool = False,
        keep_all: bool = False,
    ) -> TableData:
        """The rows of a table; says on stderr which column is what.

        `keep_all` is for a look at a table, whatever its columns hold.
        """
        from rankwise.data.tables.reading import Roles, read_roles

        with progress(f"Reading {path} ({path.stat().st_size / 1e6:,.1f} MB)"):
            file = self.table_file(path)
            roles = Roles.of(
                path, file.names, query=self.query, label=self.label, id=self.id,
                features=features, ignore=self.ignored, like=like, needs_label=needs_label,
                needs_features=needs_features,
            )  # fmt: skip
            data = read_roles(
                file, roles, keep_text=keep_text or keep_all, keep_missing=keep_missing or keep_all,
                keep_all=keep_all,
            )  # fmt: skip
        note(f"{path}: {data.roles.words()}.")
        if like is None:
            note_ids(data.roles)
        return data

    @property
    def ignored(self) -> list[str]:
        """The columns to leave out."""
        return split_names(self.ignore) or []

    def refuse_without_rows(self, fill: float | None) -> None:
        """Refuse options that say how to read rows, if there are none."""
        for name, value in {"fill": fill, **vars(self)}.items():
            if value is not None:
                refuse(name, "This is for reading --rows: leave it out.")

    def read_rows(self, path: Path, fill: float | None) -> Any:
        """The labels and queries of a file, LETOR or table, for scores from elsewhere."""
        if not self.is_table(path):
            return read_letor_file(path, fill=fill)
        _refuse_fill(fill)
        return self.read_table(path, like=[], needs_features=False)

    def read_for(
        self,
        file: ModelFile,
        model_path: Path,
        path: Path,
        fill: float | None,
        confirmed: int | None,
        *,
        needs_label: bool = True,
    ) -> Any:
        """The rows of a file, LETOR or table, for a model; `confirmed` is --features."""
        if not self.is_table(path):
            return read_letor_for(file, model_path, path, fill, confirmed)
        _refuse_fill(fill)
        if confirmed is not None:
            refuse("features", "This is for LETOR files: the columns of a table have names.")
        model = file.model
        names = getattr(model, "feature_names_in_", None)
        data = self.read_table(
            path, like=None if names is None else list(names), needs_label=needs_label,
            keep_text=_takes_text(model), keep_missing=_takes_missing(model),
        )  # fmt: skip
        check_text_columns(getattr(model, "steps", ()), data.X, path)
        if data.qid is None and getattr(last_step(model), "n_queries_", 1) > 1:
            complain(
                "warning",
                f"{path} has no column that is named like query ids, and its rows are ranked "
                "together, unlike in training. If there is one, name it by --query.",
            )
        if names is not None:
            return data
        wanted = getattr(model, "n_features_in_", data.X.shape[1])
        if data.X.shape[1] != wanted:
            from rankwise.errors import DataError

            raise DataError(
                f"{path} has {data.X.shape[1]} features, but the model {model_path} has {wanted}, "
                "without names: it was fitted to a LETOR file."
            )
        complain(
            "warning",
            f"The model {model_path} has no names of features: the columns of {path} are taken in "
            "their order.",
        )
        return replace(data, X=data.X.to_numpy())


@dataclass(frozen=True, kw_only=True)
class TableOptions(ColumnOptions):
    """How to read a table."""

    format: FormatOption = None

    @property
    def file_format(self) -> str | None:
        return self.format


@dataclass(frozen=True, kw_only=True)
class DataOptions(TableOptions):
    """How to read the training file."""

    features: Annotated[
        str | None,
        data_option(
            "NAMES",
            "Columns of features: names or patterns, as in 'price,rating_*'. For a LETOR file, "
            "their number.",
            "all other columns, or the largest index in TRAIN",
        ),
    ] = None
    fill: FillOption = None
    one_ranking: Annotated[
        bool,
        typer.Option(
            "--one-ranking",
            help="All rows are one ranking. Needed for files without query ids.",
            rich_help_panel="Data",
        ),
    ] = False
    encode: Annotated[
        str | None,
        table_option(
            "NAME",
            "Turn columns of text into features: onehot (a feature for each category) or hashing "
            "(of words). The model does the same to new rows.",
            "an error",
            autocompletion=lambda: ENCODERS,
        ),
    ] = None
    impute: Annotated[
        str | None,
        table_option(
            "NAME",
            "Replace missing values by the mean, median or most_frequent value of their column in "
            "TRAIN, or by a number. The model does the same to new rows.",
            "an error",
        ),
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Only print how each column of the table is understood.",
            rich_help_panel="Tables",
        ),
    ] = False

    @property
    def n_features(self) -> int | None:
        """The number of features of a LETOR file, if it is given."""
        text = self.features
        if text is None:
            return None
        if not text.isdecimal() or len(text) > 10 or not 1 <= int(text) < 2**31:
            given = text if len(text) <= 40 else f"{text[:37]}..."
            refuse(
                "features",
                f"For a LETOR file, give the number of features, from 1 to 2147483647: got "
                f"{given!r}. Names are for tables.",
            )
        return int(text)

    def is_table(self, path: Path) -> bool:
        found = super().is_table(path)
        if found:
            _refuse_fill(self.fill)
        for name in ("encode", "impute", "dry_run"):
            if not found and getattr(self, name):
                refuse(name, f"This is for tables, and {path} is read as a LETOR file.")
        return found

    def shows_columns(self, path: Path) -> bool:
        """Print how the columns of a table are understood, if that is all that is asked for."""
        if not self.dry_run:
            return False
        self.is_table(path)
        features = split_names(self.features)
        show(self.read_table(path, features=features, keep_all=True).columns)
        return True

    def read_training(self, path: Path, ranker: Any = None) -> tuple[Any, Any]:
        """All rows of a training file, prepared for a ranker, and the preparation."""
        from rankwise.cli.preparation import Preparation, check_options, prepare

        if not self.is_table(path):
            rows = self._read_letor(path, self.n_features, "--features")
            letor, seen = keep_seen(rows, path)
            return letor, Preparation(() if seen is None else (("seen", seen),))
        check_options(self.encode, self.impute)
        data = self.read_table(
            path,
            features=split_names(self.features),
            keep_text=self.encode is not None,
            keep_missing=self.impute is not None or _takes_missing(ranker),
        )
        self.check_queries(path, len(data.X), has_queries=data.qid is not None)
        return prepare(data, self.encode, self.impute, path)

    def read_like(
        self,
        path: Path,
        preparation: Preparation,
        names: Sequence[str] | None,
        n_features: int,
        whose: Path,
        *,
        needs_label: bool = True,
    ) -> Any:
        """All rows of another file, with the features of the training file `whose`, prepared."""
        from rankwise.errors import DataError

        if (names is not None) != self.is_table(path):
            raise DataError(
                f"{path} and {whose} must both be tables, or both be LETOR files: columns of LETOR "
                "files have no names."
            )
        if names is None:
            seen = seen_by(preparation)
            width = n_features if seen is None else seen.n_features_in_
            rows = self._read_letor(path, width, str(whose))
            if seen is not None:
                note_unseen(seen, rows, path)
            return preparation.transformed(rows)
        data = self.read_table(
            path, like=names, needs_label=needs_label, keep_text=self.encode is not None,
            keep_missing=True,
        )  # fmt: skip
        check_text_columns(preparation.steps, data.X, path)
        self.check_queries(path, len(data.X), has_queries=data.qid is not None)
        return preparation.transformed(data)

    def _read_letor(self, path: Path, n_features: int | None, whose: str) -> LetorData:
        data = read_letor_file(path, n_features=n_features, whose=whose, fill=self.fill)
        self.check_queries(path, len(data.y), has_queries=data.qid is not None)
        return data

    def check_queries(self, path: Path, n_rows: int, *, has_queries: bool) -> None:
        """A file has queries, or its rows were said to be one ranking."""
        check_queries(
            path,
            n_rows,
            has_queries=has_queries,
            one_ranking=self.one_ranking,
            is_table=self.is_table(path),
        )


def needed(out: Path | None, command: str) -> Path:
    """Where to write the model, which only a dry run leaves out."""
    from rankwise.errors import ParameterError

    if out is None:
        raise ParameterError(f"Missing option '--out' / '-o'. Try 'rankwise {command} --help'.")
    return out


def read_letor_for(
    file: ModelFile,
    model_path: Path,
    path: Path,
    fill: float | None = None,
    confirmed: int | None = None,
) -> LetorData:
    """Read rows of a LETOR file for a model, with as many features."""
    from rankwise.errors import DataError

    n_features = getattr(file.model, "n_features_in_", None)
    whose = f"the model {model_path}"
    if confirmed is not None and confirmed != n_features:
        raise DataError(f"--features is {confirmed}, but {whose} has {n_features} features.")
    data = read_letor_file(path, n_features=n_features, whose=whose, fill=fill)
    seen = seen_by(file.model)
    if seen is not None:
        note_unseen(seen, data, path)
    elif n_features is not None and confirmed is None:
        check_width(data, path, n_features, whose, fill)
    return data


def note_ids(roles: Any) -> None:
    """Say which features look like identifiers or labels."""
    for what, names in (("ids", roles.looking_like_ids), ("labels", roles.looking_like_labels)):
        if names:
            listed = ", ".join(names)
            note(f"These features look like {what}: {listed}. Leave them out by --ignore if so.")


def split_names(text: str | None) -> list[str] | None:
    """Names with commas between them."""
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def _refuse_fill(fill: float | None) -> None:
    if fill is not None:
        refuse("fill", "This is for NULL in LETOR files. For a table, use --impute in 'fit'.")


def _takes_missing(model: Any) -> bool:
    """Whether a model accepts missing values."""
    if model is None:
        return False
    from sklearn.compose import ColumnTransformer
    from sklearn.utils import get_tags

    first = model.steps[0][1] if hasattr(model, "steps") else model
    if isinstance(first, ColumnTransformer):
        return any(hasattr(part, "statistics_") for _, part, _ in first.transformers_)
    return bool(get_tags(first).input_tags.allow_nan)


def _takes_text(model: Any) -> bool:
    """Whether a model encodes columns of text."""
    from sklearn.compose import ColumnTransformer

    return any(isinstance(step, ColumnTransformer) for _, step in getattr(model, "steps", []))


SHOWN = 40  # characters of a text that a message shows


def check_text_columns(steps: Any, X: Any, where: Any) -> None:
    """Refuse numbers in the columns of a data frame from which the steps of a model encode text."""
    from sklearn.compose import ColumnTransformer

    parts = [
        part
        for _, step in steps
        if isinstance(step, ColumnTransformer)
        for part in step.transformers_
    ]
    numbers = set(X.select_dtypes("number").columns) if parts else ()
    for _, encoder, columns in parts:
        for name, example in _texts_of(encoder, columns).items():
            if name in numbers:
                raise DataError(
                    f"{where}: the column {name!r} has numbers, but the model was fitted to text "
                    f"there{example}. Check that the columns have the right names."
                )


def _texts_of(encoder: Any, columns: Any) -> dict[Any, str]:
    """The columns of text of an encoder, and an example of each, if it knows one."""
    from sklearn.feature_extraction.text import HashingVectorizer

    if isinstance(encoder, HashingVectorizer):
        return {columns: ""}
    known = dict(zip(columns, getattr(encoder, "categories_", ()), strict=False))
    texts = {name: values[0] for name, values in known.items() if isinstance(values[0], str)}
    return {name: f", such as {text[:SHOWN]!r}" for name, text in texts.items()}
