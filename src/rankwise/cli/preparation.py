"""What happens to the columns of a table before a ranker sees them: encoding, imputation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rankwise.cli.data_options import ENCODERS
from rankwise.cli.options import parse_number, refuse

if TYPE_CHECKING:
    from rankwise.data.tables.reading import TableData

IMPUTERS = ("mean", "median", "most_frequent", "constant")
MOST_CATEGORIES = 1000  # of a column, for one-hot features
HASHED = 1024  # features of a hashed column


@dataclass(frozen=True, eq=False)
class Preparation:
    """Fitted steps before the ranker; none for tables of numbers, and for LETOR files.

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


def parse_impute(text: str | None) -> dict[str, Any] | None:
    """The parameters of an imputer."""
    if text is None:
        return None
    if text == "constant":
        return {"strategy": "constant", "fill_value": 0.0}
    if text in IMPUTERS:
        return {"strategy": text}
    try:
        return {"strategy": "constant", "fill_value": parse_number(text)}
    except ValueError:
        refuse("impute", f"Choose from {', '.join(IMPUTERS)} (0) or a number: got {text!r}.")


def check_options(encode: str | None, impute: str | None) -> None:
    """Refuse words that are not known."""
    parse_impute(impute)
    if encode is not None and encode not in ENCODERS:
        refuse("encode", f"Choose from {', '.join(ENCODERS)}: got {encode!r}.")


def prepare(
    data: TableData, encode: str | None, impute: str | None, where: Any
) -> tuple[TableData, Preparation]:
    """Fit the steps that a table needs, and apply them to it."""
    from sklearn.impute import SimpleImputer

    given = parse_impute(impute)
    numbers = list(data.X.select_dtypes("number").columns)
    words = [name for name in data.X.columns if name not in numbers]
    imputer = None if given is None else SimpleImputer(**given, keep_empty_features=True)
    if words:
        step = _encoder(data.X, numbers, words, imputer, str(encode), where)
        steps: tuple[tuple[str, Any], ...] = (("encode", step),)
    elif imputer is not None:
        steps = (("impute", imputer.set_output(transform="pandas")),)
    else:
        return data, Preparation()
    for _, step in steps:
        step.fit(data.X)
    preparation = Preparation(steps)
    return preparation.transformed(data), preparation


def _encoder(
    X: Any, numbers: list[str], words: list[str], imputer: Any, encode: str, where: Any
) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.preprocessing import OneHotEncoder

    from rankwise.errors import DataError

    parts: list[tuple[str, Any, Any]] = []
    if numbers:
        parts.append(("numbers", "passthrough" if imputer is None else imputer, numbers))
    if encode == "hashing":
        parts += [(name, HashingVectorizer(n_features=HASHED), name) for name in words]
        return ColumnTransformer(parts)
    for name in words:
        count = X[name].nunique()
        if count > MOST_CATEGORIES:
            raise DataError(
                f"{where}: the column {name!r} has {count:,} different texts, too many for one-hot "
                f"features: use --encode hashing, or leave it out by --ignore {name}"
            )
    onehot = OneHotEncoder(handle_unknown="warn", sparse_output=False)
    return ColumnTransformer([*parts, ("words", onehot, words)], verbose_feature_names_out=False)
